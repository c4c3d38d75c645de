//! The MCP server: what a client sees.
//!
//! `handler` answers rmcp's requests; a `tools/call` goes through `call`, which is read from top to
//! bottom, one of a governed tool in `governance`; `reply` puts what came of it into words; `tasks` has background jobs as MCP's tasks,
//! `card` the page that hosts show beside a result; `serve` holds a connection from its first line until the last process is dead.

mod call;
mod card;
mod governed;
mod handler;
mod identity;
mod progress;
mod reply;
mod serve;
mod signature;
mod tasks;
mod tools;

pub(crate) use call::{Caller, Server};
pub(crate) use reply::{CallEnd, Reply};
pub(crate) use serve::serve;
