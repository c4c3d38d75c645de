//! The harness with which all tests drive the server.

#[macro_use]
mod suite;
mod machine;
mod mcp_process;
mod outside;
mod patience;
#[expect(dead_code, reason = "the library's own tests use the rest")]
pub(crate) mod postgres;
mod processes;
mod programs;
mod python;
mod terminal;

pub(crate) use machine::{Need, can_fix_addresses};
pub(crate) use mcp_process::{CallResult, McpProcess, SYNC_TIMEOUT, ServerBuilder};
pub(crate) use outside::Outside;
pub(crate) use patience::{deadline, eventually, is_over, quickest, succeeds_once};
pub(crate) use processes::{
    BusyProcessors, FORK_SERVER_PROCESSES, Scratch, alive_with_marker, descendants, has_threads,
    is_alive, open_descriptors, resident_kibibytes, status_of,
};
pub(crate) use programs::{copy_program, write_program};
pub(crate) use python::{public_packages, public_python, python, uv};
pub(crate) use suite::{Test, run};
pub(crate) use terminal::Terminal;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use tempfile::TempDir;

pub(crate) fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> =
        LazyLock::new(|| path_of("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR")));
    &ROOT
}

pub(crate) fn binary() -> PathBuf {
    path_of("CARGO_BIN_EXE_qwed-mcp", env!("CARGO_BIN_EXE_qwed-mcp"))
}

/// Returns the path in one of Cargo's variables. The value at run time takes precedence, because `.ci/situations`
/// runs these tests in copies of the checkout.
fn path_of(variable: &str, when_compiled: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| when_compiled.into(), PathBuf::from)
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Returns the UID for servers of an ordinary user. `None` means that the tests already run as an ordinary user.
pub(crate) fn ordinary_user(number: u32) -> Option<u32> {
    is_root().then_some(number)
}

/// Returns whether every user of the machine can read `path`. Checks the parent folders and the targets of symlinks
/// too.
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

/// The public copies. Each key is the path of the original file or folder.
static PUBLIC_COPIES: Mutex<BTreeMap<PathBuf, TempDir>> = Mutex::new(BTreeMap::new());

/// Returns a path by which other users can read this file or folder of the checkout. If root runs the tests in a
/// private folder, this is the path of a copy. The first call creates the copy.
pub(crate) fn public(path: &Path) -> PathBuf {
    if !is_root() || is_public(path) {
        return path.to_owned();
    }
    let mut copies = PUBLIC_COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = copies.entry(path.to_owned()).or_insert_with(|| copy_to_public_folder(path));
    folder.path().join(path.file_name().unwrap())
}

fn copy_to_public_folder(path: &Path) -> TempDir {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let public = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), public).unwrap();
    let copy = |arguments: &[&str]| {
        let mut command = std::process::Command::new("cp");
        // Copies symlinks as symlinks. In a virtual environment, they must still lead to the interpreter's folder.
        command
            .args(["--recursive", "--no-dereference"])
            .args(arguments)
            .args([path, folder.path()]);
        command.stderr(std::process::Stdio::null()).status().unwrap().success()
    };
    // Hard links need no disk space, but cannot cross file systems. Another file system needs a real copy.
    let is_copied = copy(&["--link"]) || copy(&["--force", "--preserve=mode,links"]);
    assert!(is_copied, "{} cannot be copied to {}", path.display(), folder.path().display());
    folder
}

/// Removes the public copies after all tests.
fn remove_public_copies() {
    PUBLIC_COPIES.lock().unwrap_or_else(PoisonError::into_inner).clear();
}
