//! The log of what is refused: the first of its kind, and then a line a minute with their number.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time between two lines about the same.
const PERIOD: Duration = Duration::from_secs(60);

/// What was refused, counted.
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
    /// Notes a refusal. Of whatever is sent, so much is logged and no more.
    pub(super) fn note(&self, name: &'static str) {
        if let Some(count) = self.count(name, Instant::now()) {
            tracing::warn!(count, "refused: {name}");
        }
    }

    /// Returns the number of refusals that are to be told now.
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
