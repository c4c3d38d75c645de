//! What all tests drive the server with.

mod mcp_process;
mod outside;
mod processes;
mod python;

pub(crate) use mcp_process::{CallResult, McpProcess, ServerBuilder};
pub(crate) use outside::Outside;
pub(crate) use processes::{
    FORK_SERVER_PROCESSES, Scratch, alive_with_marker, descendants, eventually, is_alive,
    open_descriptors, resident_kibibytes,
};
pub(crate) use python::{public_packages, public_python, python};

use std::path::{Path, PathBuf};

/// The root of the checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_qwed-mcp"))
}

/// Reports a test that cannot run here. Where nobody would read that, it fails.
#[expect(clippy::print_stderr, reason = "the test runner shows it")]
pub(crate) fn skipped(test: &str, reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "{test} must not be skipped: {reason}");
    eprintln!("SKIPPED {test}: {reason}");
}

/// Whether every user of the machine can reach `path`.
pub(crate) fn is_public(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;

    let Ok(real) = path.canonicalize() else { return false };
    real.ancestors().skip(1).all(|folder| {
        folder.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
    })
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
