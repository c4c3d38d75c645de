//! Time limits of tests. No other module considers how busy the machine is.

use std::fs;
use std::time::{Duration, Instant};

/// The number of tries for an action that often fails on a busy machine. It is multiplied by [`busyness`].
const TRIES: u32 = 12;

/// Returns the maximum time that a test waits for an event. This time grows with the current load.
pub(crate) fn deadline(limit: Duration) -> Duration {
    limit.mul_f64(busyness() * 5.0)
}

/// Returns whether an event is long overdue. The test has waited for the event since `started`, and the load may have
/// increased since then.
pub(crate) fn is_over(started: Instant, limit: Duration) -> bool {
    started.elapsed() > limit && started.elapsed() > deadline(limit)
}

/// Asserts that at least one of several tries takes less than `limit`. Other processes may delay some tries. An action
/// that waits by design is slow in every try.
#[track_caller]
pub(crate) fn quickest(limit: Duration, mut action: impl FnMut() -> Duration) {
    let mut taken = Vec::new();
    let is_quick = succeeds_once(|| {
        let took = action();
        taken.push(took);
        took < limit
    });
    assert!(is_quick, "each try took more than {limit:?}: {taken:?}");
}

/// Returns whether one of several tries succeeds. The number of tries grows with the load.
pub(crate) fn succeeds_once(mut action: impl FnMut() -> bool) -> bool {
    let mut tries = 0;
    loop {
        if action() {
            return true;
        }
        tries += 1;
        if f64::from(tries) > f64::from(TRIES) * busyness() {
            return false;
        }
    }
}

/// Waits until `condition` holds, or until long after `limit`. Returns the duration, or `None`. If `limit` is zero,
/// checks the condition once, without waiting.
pub(crate) fn eventually(limit: Duration, condition: impl Fn() -> bool) -> Option<Duration> {
    let started = Instant::now();
    loop {
        if condition() {
            return Some(started.elapsed());
        }
        if is_over(started, limit) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the number of running processes for each processor, at least 1.
fn busyness() -> f64 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut fields = load.split(' ');
    // The first field is the average of the last minute. The fourth field is `running/all` (proc_loadavg(5)).
    let minute: f64 = fields.next().and_then(|field| field.parse().ok()).unwrap_or(0.0);
    let running = fields.nth(2).and_then(|field| field.split('/').next()?.parse().ok());
    let processors = u32::try_from(processors).map_or(1.0, f64::from);
    (minute.max(running.unwrap_or(0.0)) / processors).max(1.0)
}
