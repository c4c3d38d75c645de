//! Logs refusals. The first refusal of each kind is logged at once. Further refusals of the kind are counted, and their
//! number is logged at most once per minute.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The minimum time between two log lines about the same kind of refusal.
const PERIOD: Duration = Duration::from_secs(60);

/// Counts refusals by kind, and decides when to log them.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    kinds: Mutex<Vec<Kind>>,
}

#[derive(Debug)]
struct Kind {
    name: &'static str,
    told: Instant,
    untold: u64,
}

impl Complaints {
    /// Counts a refusal. Logs the number of refusals of this kind, unless the last log line about this kind is newer
    /// than `PERIOD`. So the log stays small, however many requests are refused.
    pub(super) fn note(&self, name: &'static str) {
        if let Some(count) = self.count(name, Instant::now()) {
            tracing::warn!(count, "refused: {name}");
        }
    }

    /// Counts a refusal. Returns the number of refusals of this kind that must be logged now. `None` if the last log
    /// line about this kind is newer than `PERIOD`.
    fn count(&self, name: &'static str, now: Instant) -> Option<u64> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(kind) = kinds.iter_mut().find(|kind| kind.name == name) else {
            kinds.push(Kind { name, told: now, untold: 0 });
            return Some(1);
        };
        kind.untold += 1;
        if now.duration_since(kind.told) < PERIOD {
            return None;
        }
        kind.told = now;
        Some(std::mem::take(&mut kind.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_told_once_a_minute() {
        let (complaints, start) = (Complaints::default(), Instant::now());
        let told = |name, seconds| complaints.count(name, start + Duration::from_secs(seconds));
        assert_eq!(told("a", 0), Some(1));
        assert_eq!(told("b", 1), Some(1));
        assert_eq!((told("a", 1), told("a", 59)), (None, None));
        assert_eq!(told("a", 60), Some(3));
        assert_eq!(told("a", 61), None);
    }
}
