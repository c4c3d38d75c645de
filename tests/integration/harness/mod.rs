//! What all tests drive the server with.

#[macro_use]
mod suite;
mod machine;
mod mcp_process;
mod outside;
mod patience;
#[cfg(feature = "postgres")]
#[expect(dead_code, reason = "the library's own tests use the rest")]
pub(crate) mod postgres;
mod processes;
mod python;
mod terminal;

pub(crate) use machine::Need;
pub(crate) use mcp_process::{CallResult, McpProcess, SYNC_TIMEOUT, ServerBuilder};
pub(crate) use outside::Outside;
pub(crate) use patience::{deadline, eventually, is_over, quickest, succeeds_once};
pub(crate) use processes::{
    FORK_SERVER_PROCESSES, Scratch, alive_with_marker, descendants, has_threads, is_alive,
    open_descriptors, resident_kibibytes, status_of,
};
pub(crate) use python::{public_packages, public_python, python, uv};
pub(crate) use suite::{Test, run};
pub(crate) use terminal::Terminal;

use std::path::{Path, PathBuf};

/// The root of the checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_qwed-mcp"))
}

/// Whether the tests are run by root.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The user to start servers as where they are to be an ordinary user's: the tests' own where that
/// is not root.
pub(crate) fn ordinary_user(number: u32) -> Option<u32> {
    is_root().then_some(number)
}

/// Whether every user of the machine can reach `path` and read it: by each folder on the way there,
/// those that links lead through included.
pub(crate) fn is_public(path: &Path) -> bool {
    is_public_within(path, 40)
}

fn is_public_within(path: &Path, links_max: usize) -> bool {
    use std::os::unix::fs::PermissionsExt;

    let parts: Vec<_> = path.components().collect();
    let mut way = PathBuf::new();
    for (number, part) in parts.iter().enumerate() {
        way.push(part);
        let Ok(metadata) = way.symlink_metadata() else { return false };
        let rest: PathBuf = parts.iter().skip(number + 1).collect();
        if metadata.is_symlink() {
            let Ok(target) = way.read_link() else { return false };
            let target = way.parent().unwrap_or(Path::new("/")).join(target).join(rest);
            return links_max > 0 && is_public_within(&target, links_max - 1);
        }
        let wanted = if rest.as_os_str().is_empty() { 0o004 } else { 0o001 };
        if metadata.permissions().mode() & wanted == 0 {
            return false;
        }
    }
    true
}

/// A copy of a file or folder where every user of the machine can reach it, as long as this lives.
#[derive(Debug)]
pub(crate) struct PublicCopy {
    folder: tempfile::TempDir,
    name: std::ffi::OsString,
}

impl PublicCopy {
    pub(crate) fn new(path: &Path) -> Self {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let public = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), public).unwrap();
        let copied = std::process::Command::new("cp")
            .args(["-R", "--preserve=mode,links"])
            .args([path, folder.path()])
            .status();
        assert!(copied.unwrap().success());
        Self { folder, name: path.file_name().unwrap().to_owned() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }
}
