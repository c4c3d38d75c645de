//! Edits the configuration files of MCP clients: adds and removes this server's entry. A table contains the path of
//! each client's file and the shape of the entry.
//!
//! This crate changes only one entry of a file. It never edits a file that it cannot parse. It grants the server only
//! the permissions that flags of the command line request.
//!
//! This crate edits files itself, because most clients have no command that adds an entry. Such a command would also
//! receive the entry's variables as arguments, which all users of the machine can read. Claude Code is an exception,
//! because its running sessions overwrite the file. So the module `claude` runs the command of Claude Code.
//!
//! This crate is an internal part of `qwed-mcp`. Its API has no promise of stability.

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
mod skill;
mod snippet;
mod target;
mod toml_file;
mod windows;

pub use change::{Action, Change, Effect, Request, state};
pub use client::{CLIENTS, Client, Format, Writing, client};
pub use entry::{ALLOW_CODE, PYTHON, ServerName};
pub use places::{Places, is_program};
pub use program::{Launch, Note, launch};
pub use skill::{Skill, SkillChange, SkillEffect, skill_folders};
pub use snippet::{link, snippet};

#[cfg(test)]
mod tests;
