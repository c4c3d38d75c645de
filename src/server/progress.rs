//! Sends progress notifications during a long call (MCP, `basic/utilities/progress`). If the run of a call has not
//! started at the call's deadline, also cancels the call. This module never delays the call itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};
use tokio_util::sync::CancellationToken;

use crate::executor::{Echo, Stream};
use crate::plain_text::plain_line;
use crate::transport::TurnDeadline;

/// The interval between two notifications.
const PERIOD: Duration = Duration::from_millis(500);

/// The number of bytes at the end of the output that are searched for the last line.
const END_BYTES: usize = 4096;

/// The maximum number of characters of the last line in a notification.
const LINE_CHARS_MAX: usize = 200;

/// The last bytes of a running script's standard output.
#[derive(Debug, Clone, Default)]
pub(super) struct PrintedEnd(Arc<Mutex<Vec<u8>>>);

impl PrintedEnd {
    /// Returns an echo that stores the last bytes of a script's standard output in `self`. If the client of this
    /// request wants no progress notifications, the echo stores nothing.
    pub(super) fn echo(&self, context: &RequestContext<RoleServer>) -> Echo {
        if context.meta.get_progress_token().is_none() {
            return Echo::default();
        }
        let end = self.clone();
        Echo::preview(move |stream, bytes| {
            if stream == Stream::Stdout {
                end.append(bytes);
            }
        })
    }

    fn append(&self, bytes: &[u8]) {
        let mut end = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        end.extend_from_slice(bytes.get(bytes.len().saturating_sub(END_BYTES)..).unwrap_or(bytes));
        let surplus = end.len().saturating_sub(END_BYTES);
        end.drain(..surplus);
    }

    /// Returns the last line that is not blank. The returned line is shortened, and contains no hidden characters.
    fn last_line(&self) -> Option<String> {
        let end = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&end);
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        let mut line = plain_line(line);
        if let Some((cut, _)) = line.char_indices().nth(LINE_CHARS_MAX) {
            line.truncate(cut);
            line.push('…');
        }
        Some(line)
    }
}

/// Carries out `work`, and sends progress notifications until `work` ends or the request is cancelled. After a
/// cancellation, `work` may take long to end, because the files of the run are still cleaned up. `waits_for_turn` is
/// `true` before the run begins. `printed` contains the last bytes of the script's output, for the notifications.
///
/// The transport may set a deadline. If the call still waits for its turn at the deadline, the request is cancelled,
/// because its client may have disconnected.
pub(super) async fn with_progress<T>(
    context: &RequestContext<RoleServer>,
    waits_for_turn: &AtomicBool,
    printed: &PrintedEnd,
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
            let message = if waits_for_turn.load(Ordering::Relaxed) {
                format!("Waiting for its turn for {seconds:.1} seconds")
            } else if let Some(line) = printed.last_line() {
                format!("Running for {seconds:.1} seconds, last line: {line}")
            } else {
                format!("Running for {seconds:.1} seconds")
            };
            let progress =
                ProgressNotificationParam::new(token.clone(), seconds).with_message(message);
            // This future is not aborted when `work` ends, so the notification is written before the reply.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_is_not_blank_is_shown_bounded() {
        for (pieces, line) in [
            (&[&b""[..]][..], None),
            (&[b" \n\n"], None),
            (&[b"1\n2\n"], Some("2".to_owned())),
            (&[b"1\n2 of ", b"3"], Some("2 of 3".to_owned())),
            (&[b"step 1\r\n\n  \n"], Some("step 1".to_owned())),
            (&[b"\xff\x1b[2J"], Some("\u{fffd}\u{fffd}[2J".to_owned())),
            (&[b"first\n", &[b'x'; 10_000]], Some(format!("{}…", "x".repeat(200)))),
        ] {
            let end = PrintedEnd::default();
            for piece in pieces {
                end.append(piece);
            }
            assert_eq!(end.last_line(), line);
            assert!(end.0.lock().unwrap().len() <= END_BYTES);
        }
    }
}
