//! The budget of one call.

use std::time::{Duration, Instant};

use super::Refusal;
use super::evidence::BudgetUsage;
use super::policy::Policy;

/// The budget of one call. Time counts from when the call came in, waiting included.
#[derive(Debug)]
pub(super) struct Budget {
    started: Instant,
    elapsed_max: Option<Duration>,
    attempts_max: u64,
    attempts: u64,
    timeout: Duration,
}

/// The bound that a run meets first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// The policy's timeout of a run.
    Timeout,
    /// The budget of the call.
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

    /// Takes one attempt, if there is one left, and time for it.
    pub(super) fn attempt(&mut self) -> Result<(), Refusal> {
        if self.attempts >= self.attempts_max {
            return Err(Refusal::BudgetExceeded("attempts_total"));
        }
        self.remaining()?;
        self.attempts += 1;
        Ok(())
    }

    /// Returns the time for a run that starts now, and the bound that it is.
    pub(super) fn remaining(&self) -> Result<(Duration, Bound), Refusal> {
        let remaining = self.elapsed_max.map(|most| most.saturating_sub(self.started.elapsed()));
        match remaining {
            Some(Duration::ZERO) => Err(Refusal::BudgetExceeded("elapsed_ms_total")),
            Some(remaining) if remaining < self.timeout => Ok((remaining, Bound::Budget)),
            Some(_) | None => Ok((self.timeout, Bound::Timeout)),
        }
    }

    /// Returns the time since the call came in.
    pub(super) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the usage for the evidence.
    pub(super) fn usage(&self, short_circuited: bool) -> BudgetUsage {
        BudgetUsage {
            elapsed_ms_total: self.elapsed_ms(),
            attempts_total: self.attempts,
            short_circuited,
            policy_timeout_s: self.timeout.as_secs(),
        }
    }
}
