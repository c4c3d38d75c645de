//! Logs go to stderr, because stdout is the protocol.
//!
//! The filter is `QWED_MCP_LOG`, in the syntax `LEVEL` or `TARGET=LEVEL,…` (for example
//! `qwed_mcp=info`). Quiet by default. Code, output and secrets appear at `debug` and `trace` only.

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Starts logging. A filter that does not parse is answered with a warning and the default.
pub fn start() {
    let wanted = std::env::var("QWED_MCP_LOG").ok().filter(|filter| !filter.trim().is_empty());
    let parsed = wanted.as_deref().map(str::parse::<Targets>);
    let rejected = matches!(parsed, Some(Err(_)));
    let filter = match parsed {
        Some(Ok(filter)) => filter,
        // rmcp warns of every error reply and informs of every notification: noise in a client's log.
        Some(Err(_)) | None => {
            Targets::new().with_default(LevelFilter::WARN).with_target("rmcp", LevelFilter::ERROR)
        }
    };
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_filter(filter);
    if tracing_subscriber::registry().with(layer).try_init().is_err() {
        // An embedding program has its own subscriber; its choice stands.
        return;
    }
    if rejected {
        tracing::warn!(
            "QWED_MCP_LOG does not parse; expected for example: qwed_mcp=info,rmcp=warn"
        );
    }
}
