//! Signs of life during a long call (MCP, `basic/utilities/progress`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

/// Twice as often as promised.
const PERIOD: Duration = Duration::from_millis(500);

/// Carries out `work` and reports its progress meanwhile; nothing is reported after it, or after the
/// request was cancelled, which may be long before: what a run left is still put away then.
/// `waits_for_turn` says whether it has begun yet.
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
            // Awaited to its end also when the work is done meanwhile: it is written by then, so
            // that the reply comes after it.
            if context.peer.notify_progress(progress).await.is_err() {
                return;
            }
        }
    };
    // Joined, not raced: a client that does not read holds up the report, never the work.
    let (result, ()) = tokio::join!(work, report);
    result
}
