//! Logs go to stderr, because stdout is the protocol.
//!
//! The filter is `QWED_MCP_LOG`, in the syntax `LEVEL` or `TARGET=LEVEL,…` (for example
//! `qwed_mcp=info`). Quiet by default. Code, output and secrets appear at `debug` and `trace` only.

use std::error::Error;
use std::fmt;

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Starts logging with this filter. One that does not parse is answered with a warning and the
/// default.
pub(crate) fn start(wanted: &str) {
    let parsed = match wanted.trim() {
        "" => Ok(Targets::new()),
        filter => filter.parse::<Targets>(),
    };
    let is_rejected = parsed.is_err();
    let mut filter = parsed.unwrap_or_default();
    if filter.default_level().is_none() {
        filter = filter.with_default(LevelFilter::WARN);
    }
    if !wanted.contains("rmcp") {
        // It warns of every error reply and informs of every notification, which is noise here.
        filter = filter.with_target("rmcp", LevelFilter::ERROR);
    }
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_filter(filter);
    if tracing_subscriber::registry().with(layer).try_init().is_err() {
        // An embedding program has its own subscriber; its choice stands.
        return;
    }
    if is_rejected {
        tracing::warn!(
            "QWED_MCP_LOG does not parse; expected for example: qwed_mcp=info,rmcp=warn"
        );
    }
}

/// An error with its causes, to the last one, on one line.
pub(crate) struct Causes<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        let mut next = self.0.source();
        while let Some(cause) = next {
            let shown = cause.to_string();
            // Some have it in their own text.
            if !text.ends_with(&shown) {
                text.push_str(": ");
                text.push_str(&shown);
            }
            next = cause.source();
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn an_error_is_shown_with_all_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("{text}")]
        struct Failure {
            text: &'static str,
            source: io::Error,
        }
        let full = || io::Error::from_raw_os_error(28);
        let failure = |text| Failure { text, source: full() };
        let expected = format!("failed to write: {}", full());
        assert_eq!(Causes(&failure("failed to write")).to_string(), expected);
        let nested = io::Error::other(failure("failed to write"));
        let outer = Failure { text: "no folder", source: nested };
        assert_eq!(Causes(&outer).to_string(), format!("no folder: {expected}"));
        assert_eq!(Causes(&full()).to_string(), full().to_string());
    }
}
