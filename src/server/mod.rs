//! The MCP server: what a client sees.
//!
//! `handler` answers rmcp's requests; a `tools/call` goes through `call`, which is read from top to
//! bottom, one of a governed tool in `governance`; `reply` puts what came of it into words; `serve` holds a connection from its first line
//! until the last process is dead.

mod call;
mod governed;
mod handler;
mod progress;
mod reply;
mod serve;
mod tools;

pub(crate) use call::{Caller, Server};
pub(crate) use reply::{CallEnd, Reply};
pub(crate) use serve::serve;
