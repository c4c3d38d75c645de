//! Time limits of tests, in the one place that knows how busy the machine is.

use std::fs;
use std::time::{Duration, Instant};

/// How often something is tried that a busy machine lets succeed now and then only, for each
/// process that wants a processor.
const TRIES: u32 = 12;

/// The limit for a deadline on this machine at this time: a test that waits for an event waits this
/// long before it fails. Nothing is asserted of how long it took.
pub(crate) fn deadline(limit: Duration) -> Duration {
    limit.mul_f64(busyness() * 5.0)
}

/// Whether what has been waited for since `started` is long overdue. The load may have risen since.
pub(crate) fn is_over(started: Instant, limit: Duration) -> bool {
    started.elapsed() > limit && started.elapsed() > deadline(limit)
}

/// Asserts that an action takes less than `limit` when it is not held up by other processes: one of
/// several tries does. An action that waits for something by design never does.
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

/// Whether one of several tries succeeds; the more processes are at work, the more tries there are.
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

/// Waits until `condition` holds, or until long after `limit`; how long it took, or None. A limit
/// of zero is no wait.
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

/// How many processes want each processor, at least one.
fn busyness() -> f64 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut fields = load.split(' ');
    // Of the last minute, and of now: `running/all`.
    let minute: f64 = fields.next().and_then(|field| field.parse().ok()).unwrap_or(0.0);
    let running = fields.nth(2).and_then(|field| field.split('/').next()?.parse().ok());
    let processors = u32::try_from(processors).map_or(1.0, f64::from);
    (minute.max(running.unwrap_or(0.0)) / processors).max(1.0)
}
