//! What all tests drive the server with.

mod mcp_process;
mod processes;
mod python;

pub(crate) use mcp_process::{CallResult, McpProcess, ServerBuilder};
pub(crate) use processes::{
    Scratch, alive_with_marker, descendants, eventually, is_alive, open_descriptors,
    resident_kibibytes,
};
pub(crate) use python::python;

use std::path::{Path, PathBuf};

/// The root of the checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_qwed-mcp"))
}
