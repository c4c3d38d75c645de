//! The MCP server for clients. This module never runs scripts itself. The module `scripts` does.
//!
//! - `handler` answers rmcp's requests.
//! - `call` carries out a `tools/call`. `governance` carries out calls of governed tools.
//! - `reply` writes the texts of replies.
//! - `tasks` presents background jobs as tasks of MCP.
//! - `prompts` offers the recipes as prompts of MCP.
//! - `card` contains the page that hosts show next to a call.
//! - `serve` serves a client over stdio, until the processes that the server has started have ended.
//! - `endpoint` answers the bodies of HTTP requests. For protocol versions with a handshake, `sessions` keeps the state
//!   between requests.

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
