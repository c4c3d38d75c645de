//! Progress notifications during a long call (MCP, `basic/utilities/progress`). This module never delays the call
//! itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

/// Half of the promised second.
const PERIOD: Duration = Duration::from_millis(500);

/// Carries out `work` and reports its progress in the meantime. Nothing is reported after `work` ends, or after the
/// request was cancelled. A cancellation may come long before the end, because the files of the run are still cleaned
/// up. `waits_for_turn` is true while the run has not begun yet.
pub(super) async fn with_progress<T>(
    context: &RequestContext<RoleServer>,
    waits_for_turn: &AtomicBool,
    work: impl Future<Output = T>,
) -> T {
    let Some(token) = context.meta.get_progress_token() else { return work.await };
    let is_done = CancellationToken::new();
    let started = Instant::now();
    let work = async {
        let result = work.await;
        is_done.cancel();
        result
    };
    let report = async {
        let mut ticks = interval_at(started + PERIOD, PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = is_done.cancelled() => return,
                () = context.ct.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let seconds = started.elapsed().as_secs_f64();
            let progress = ProgressNotificationParam::new(token.clone(), seconds).with_message(
                if waits_for_turn.load(Ordering::Relaxed) {
                    format!("Waiting for its turn for {seconds:.1} seconds")
                } else {
                    format!("Running for {seconds:.1} seconds")
                },
            );
            // Not aborted when the work ends meanwhile, so that the notification is written before the reply.
            if context.peer.notify_progress(progress).await.is_err() {
                return;
            }
        }
    };
    // Joined, not raced: a client that does not read delays the report, never the work.
    let (result, ()) = tokio::join!(work, report);
    result
}
