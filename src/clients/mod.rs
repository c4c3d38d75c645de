//! The configurations of MCP clients: where each client has its file, the shape of this server's entry
//! there, and how the entry gets in and out.
//!
//! It changes one entry of a file and nothing else: what it cannot read, it leaves alone. It decides
//! nothing about what the server may do: a permission that is in no flag is in no entry.

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

pub(crate) use change::{Action, Change, Effect, Request, state};
pub(crate) use client::{CLIENTS, Client, Format, Writing, client};
pub(crate) use entry::{ALLOW_CODE, PYTHON, ServerName};
pub(crate) use places::{Places, is_program};
pub(crate) use program::{Launch, Note, launch};
pub(crate) use snippet::{link, snippet};

#[cfg(test)]
mod tests;
