//! The MCP server for clients. It never runs scripts itself, which is the task of `scripts`.
//!
//! - `handler` answers rmcp's requests.
//! - `call` carries out a `tools/call`. Governed tools are carried out in `governance`.
//! - `reply` writes the texts of replies.
//! - `tasks` presents background jobs as MCP's tasks.
//! - `prompts` offers the recipes.
//! - `card` has the page that hosts show next to a result.
//! - `serve` serves a stdio connection from its first line until the last process is dead.
//! - `endpoint` answers bodies over HTTP. `sessions` keeps the handshake era's state between requests.

mod call;
mod card;
mod endpoint;
mod governed;
mod handler;
mod identity;
mod now;
mod progress;
mod prompts;
mod reply;
mod serve;
mod sessions;
mod shortened;
mod signature;
mod skills;
mod tasks;
mod tools;
mod traced;

pub(crate) use call::{CallContext, Server};
pub(crate) use endpoint::{Answer, Endpoint, Post, Stream};
pub(crate) use now::Now;
pub(crate) use reply::{CallEnd, Reply};
pub(crate) use serve::serve;
pub(crate) use serve::{EndingSignals, GRACE_AFTER_CANCEL, end_runs, remove_incomplete};
