//! Measures the elapsed time of a call, and counts how often the call runs pytest. Never ends a run: the caller of this
//! module must end the run when the remaining time has passed.

use std::time::{Duration, Instant};

use super::Refusal;
use super::evidence::BudgetUsage;
use super::policy::Policy;

/// The budget of one call. The time is measured from the arrival of the call, so it includes the time in the queue.
#[derive(Debug)]
pub(super) struct Budget {
    started: Instant,
    elapsed_max: Option<Duration>,
    attempts_max: u64,
    attempts: u64,
    timeout: Duration,
}

/// The limit that determines the maximum duration of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    Timeout,
    /// The remaining time in the call's budget.
    Budget,
}

impl Budget {
    pub(super) fn new(started: Instant, policy: &Policy) -> Self {
        Self {
            started,
            elapsed_max: policy.budget.elapsed,
            attempts_max: policy.budget.attempts_max,
            attempts: 0,
            timeout: policy.sandbox.timeout,
        }
    }

    /// Counts one attempt to run pytest. Fails if the budget has no attempts or no time left.
    pub(super) fn attempt(&mut self) -> Result<(), Refusal> {
        if self.attempts >= self.attempts_max {
            return Err(Refusal::BudgetExceeded("attempts_total"));
        }
        self.remaining()?;
        self.attempts += 1;
        Ok(())
    }

    /// Returns the maximum duration of a run that starts now, and the limit that determines this duration.
    pub(super) fn remaining(&self) -> Result<(Duration, Bound), Refusal> {
        let remaining = self.elapsed_max.map(|most| most.saturating_sub(self.started.elapsed()));
        match remaining {
            Some(Duration::ZERO) => Err(Refusal::BudgetExceeded("elapsed_ms_total")),
            Some(remaining) if remaining < self.timeout => Ok((remaining, Bound::Budget)),
            Some(_) | None => Ok((self.timeout, Bound::Timeout)),
        }
    }

    /// Returns the time since the arrival of the call, in milliseconds.
    pub(super) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the part of the budget that the call has used, for the evidence. `short_circuited` must be true if the
    /// budget ended the call early.
    pub(super) fn usage(&self, short_circuited: bool) -> BudgetUsage {
        BudgetUsage {
            elapsed_ms_total: self.elapsed_ms(),
            attempts_total: self.attempts,
            short_circuited,
            policy_timeout_s: self.timeout.as_secs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the budget of a call that arrived `ago_s` seconds ago.
    fn budget(policy: &str, ago_s: u64) -> Budget {
        let started = Instant::now().checked_sub(Duration::from_secs(ago_s)).unwrap();
        Budget::new(started, &Policy::parse(policy).unwrap())
    }

    #[test]
    fn attempts_are_counted_and_end() {
        let mut budget = budget("[budget]\nattempts_max = 2\n", 0);
        for count in 1..=2 {
            assert_eq!(budget.attempt(), Ok(()));
            assert_eq!(budget.usage(false).attempts_total, count);
        }
        for _ in 0..2 {
            assert_eq!(budget.attempt(), Err(Refusal::BudgetExceeded("attempts_total")));
        }
        assert_eq!(budget.usage(true).attempts_total, 2);
    }

    #[test]
    fn a_run_may_take_what_is_left_and_no_longer_than_the_timeout() {
        let policy = "[sandbox]\ntimeout_s = 600\n[budget]\nelapsed_ms_max = 1000000\n";
        let timeout = Duration::from_secs(600);
        assert_eq!(budget(policy, 0).remaining(), Ok((timeout, Bound::Timeout)));
        let (left, bound) = budget(policy, 700).remaining().unwrap();
        assert_eq!(bound, Bound::Budget);
        // The remaining time also depends on the duration of this test, so the exact value is unknown.
        assert!(left <= Duration::from_secs(300) && left > Duration::from_secs(100), "{left:?}");
        let mut over = budget(policy, 1001);
        let exceeded = Refusal::BudgetExceeded("elapsed_ms_total");
        assert_eq!(over.remaining(), Err(exceeded.clone()));
        assert_eq!(over.attempt(), Err(exceeded));
        assert_eq!(over.usage(false).attempts_total, 0);
        assert!(over.usage(false).elapsed_ms_total >= 1_001_000);
        let without = budget("[sandbox]\ntimeout_s = 600\n", 100_000);
        assert_eq!(without.remaining(), Ok((timeout, Bound::Timeout)));
    }
}
