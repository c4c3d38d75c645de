//! What all tests drive the server with.

mod mcp_process;
mod outside;
mod processes;
mod python;

pub(crate) use mcp_process::{CallResult, McpProcess, ServerBuilder};
pub(crate) use outside::Outside;
pub(crate) use processes::{
    Scratch, alive_with_marker, descendants, eventually, is_alive, open_descriptors,
    resident_kibibytes,
};
pub(crate) use python::{public_python, python};

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
