//! Edits the configuration files of MCP clients: where each client keeps its file, the shape of this server's entry in
//! it, and how the entry is added and removed.
//!
//! This crate changes one entry of a file and nothing else. It never edits a file that it cannot parse. It never
//! decides which permissions the server has: it writes a permission into an entry only if a flag asks for it.
//!
//! An internal part of `qwed-mcp`, without a promise of stability.

#![expect(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "an internal crate, whose error types state what can fail"
)]

#[cfg_attr(all(target_os = "linux", not(qwed_portable)), path = "attributes.rs")]
#[cfg_attr(not(all(target_os = "linux", not(qwed_portable))), path = "no_attributes.rs")]
mod attributes;
mod change;
mod claude;
mod client;
mod diff;
mod document;
mod edit;
mod entry;
mod file;
mod jsonc_file;
mod places;
mod program;
mod snippet;
mod target;
mod toml_file;
mod windows;

pub use change::{Action, Change, Effect, Request, state};
pub use client::{CLIENTS, Client, Format, Writing, client};
pub use entry::{ALLOW_CODE, PYTHON, ServerName};
pub use places::{Places, is_program};
pub use program::{Launch, Note, launch};
pub use snippet::{link, snippet};

#[cfg(test)]
mod tests;
