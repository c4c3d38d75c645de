//! Replaces `qwed-mcp serve` in a program that is built without the feature `teams`. The replacement serves only one
//! client.

use std::process::ExitCode;

use clap::Args;

use crate::logging::Reader;

pub(super) const ABOUT: &str = "Serve an MCP client on standard input and output (the default)";
pub(super) const EXAMPLES: &str = "\
Examples:
  qwed-mcp serve";

/// The options of `serve`.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Options {}

impl Options {
    /// Returns the kind of reader that the log is for.
    pub(super) fn reader(&self) -> Reader {
        Reader::Admin
    }
}

pub(super) fn run(_: Options) -> anyhow::Result<ExitCode> {
    super::serve_client()
}
