//! Progress notifications during a long call (MCP, `basic/utilities/progress`), and the deadline for its turn. This
//! module never delays the call itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};
use tokio_util::sync::CancellationToken;

use crate::transport::TurnDeadline;

/// The interval between two notifications.
const PERIOD: Duration = Duration::from_millis(500);

/// Carries out `work`, and sends progress notifications until `work` ends or the request is cancelled. After a
/// cancellation, `work` may take long to end, because the files of the run are still cleaned up. `waits_for_turn` is
/// `true` before the run begins.
///
/// If the transport sets a deadline, and the call still waits for its turn at the deadline, the request is cancelled,
/// because its client may be gone.
pub(super) async fn with_progress<T>(
    context: &RequestContext<RoleServer>,
    waits_for_turn: &AtomicBool,
    work: impl Future<Output = T>,
) -> T {
    let token = context.meta.get_progress_token();
    let deadline = context.extensions.get::<TurnDeadline>();
    if token.is_none() && deadline.is_none() {
        return work.await;
    }
    let is_done = CancellationToken::new();
    let started = Instant::now();
    let work = async {
        let result = work.await;
        is_done.cancel();
        result
    };
    let report = async {
        let Some(token) = token else { return };
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
            // This is not aborted when `work` ends, so the notification is written before the reply.
            if context.peer.notify_progress(progress).await.is_err() {
                return;
            }
        }
    };
    let give_up = async {
        let Some(TurnDeadline(deadline)) = deadline else { return };
        let is_over = is_done.run_until_cancelled(sleep(*deadline)).await.is_some();
        if is_over && waits_for_turn.load(Ordering::Relaxed) {
            tracing::info!("cancelled: its turn did not come in time");
            context.ct.cancel();
        }
    };
    // Wait for all futures. A client that does not read delays the notifications, but never `work`.
    let (result, (), ()) = tokio::join!(work, report, give_up);
    result
}
