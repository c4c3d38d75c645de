//! Logs refusals: the first of each kind at once, and then at most one line per minute with their number.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The minimum time between two lines about the same kind.
const PERIOD: Duration = Duration::from_secs(60);

/// Counts refusals by kind.
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
    /// Counts a refusal, and logs it if a line is due. The log stays small, however many requests are refused.
    pub(super) fn note(&self, name: &'static str) {
        if let Some(count) = self.count(name, Instant::now()) {
            tracing::warn!(count, "refused: {name}");
        }
    }

    /// Returns the number of refusals to log now, if a line is due.
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
