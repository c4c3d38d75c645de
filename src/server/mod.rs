//! The MCP server: what a client sees.
//!
//! `handler` answers rmcp's requests; a `tools/call` goes through `call`, which is read from top to
//! bottom, one of a governed tool in `governance`; `reply` puts what came of it into words; `tasks` has background jobs as MCP's tasks,
//! `card` the page that hosts show beside a result; `serve` holds a connection from its first line until the last process is dead; over HTTP
//! `endpoint` has an answer for each body, and `sessions` what the older era keeps from one to the next.

mod call;
mod card;
mod endpoint;
mod governed;
mod handler;
mod identity;
mod now;
mod progress;
mod reply;
mod serve;
mod sessions;
mod signature;
mod tasks;
mod tools;
#[cfg(feature = "traces")]
mod traced;

pub(crate) use call::{CallContext, Server};
pub(crate) use endpoint::{Answer, Endpoint, Post, Stream};
pub(crate) use now::Now;
pub(crate) use reply::{CallEnd, Reply};
pub(crate) use serve::serve;
pub(crate) use serve::{EndingSignals, GRACE_AFTER_CANCEL, put_down};
