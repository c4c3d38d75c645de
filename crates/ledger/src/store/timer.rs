//! The metrics of one operation of the store.

use std::time::Instant;

/// Measures one operation of the store.
#[derive(Debug)]
pub(super) struct Timer {
    operation: &'static str,
    start: Instant,
}

impl Timer {
    pub(super) fn start(operation: &'static str) -> Self {
        Self { operation, start: Instant::now() }
    }

    /// Records the time since the start. If `result` is an error, also counts the error.
    pub(super) fn stop<T, E>(self, result: &Result<T, E>) {
        let Self { operation, start } = self;
        metrics::histogram!("qwed_mcp_store_seconds", "operation" => operation)
            .record(start.elapsed());
        if result.is_err() {
            metrics::counter!("qwed_mcp_store_errors_total", "operation" => operation).increment(1);
        }
    }
}
