//! Retries operations while the store is unreachable.

use std::mem;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::ledger::StoreError;
use crate::logging::Causes;

/// The pause between two attempts to reach the store.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Retries an operation of the store while the store is unreachable, until `patience` is cancelled. Without `patience`,
/// makes one attempt.
///
/// # Errors
///
/// The error of the last attempt.
pub(crate) async fn until_reached<T, F: Future<Output = Result<T, StoreError>>>(
    patience: Option<&CancellationToken>,
    mut attempt: impl FnMut() -> F,
) -> Result<T, StoreError> {
    let mut is_logged = false;
    loop {
        match (attempt().await, patience) {
            (Err(error), Some(end)) if error.is_passing() && !end.is_cancelled() => {
                if !mem::replace(&mut is_logged, true) {
                    tracing::warn!(error = %Causes(&error), "a job waits for the store");
                }
                end.run_until_cancelled(sleep(RETRY_PAUSE)).await;
            }
            (done, _) => return done,
        }
    }
}
