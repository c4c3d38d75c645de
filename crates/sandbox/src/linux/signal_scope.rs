//! Signals that stay within a run, so that one call ends all of it.
//!
//! A process that is in a Landlock domain with the signal scope (ABI 6, `landlock(7)`) can signal
//! what is in its domain or in one below, and nothing else. The supervisor enters such a domain
//! before it starts anything, so everything of the run is in it, for good. `kill(-1, SIGKILL)` then
//! means the run. The kernel sends that to all processes under one lock, which a fork takes too and
//! then looks for a pending end: nothing can fork faster than it is killed.

use landlock::{CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError, RulesetStatus, Scope};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};

use super::LaunchError;

/// Proof that this process can signal its own run only.
#[derive(Debug)]
pub(crate) struct SignalScope(());

impl SignalScope {
    /// Keeps the signals of this process and of all that it starts from now on to themselves, for
    /// good. It takes `no_new_privs`, or the rights of root.
    pub(crate) fn enter() -> Result<Self, LaunchError> {
        restrict()?;
        // Seen, not only said: the next signal may go to everything that this process can reach.
        match kill(getppid(), None) {
            Err(Errno::EPERM) => Ok(Self(())),
            Ok(()) | Err(_) => Err(failed(&"a signal to the parent was not refused")),
        }
    }

    /// Kills every process of the run but this one, at one moment.
    pub(crate) fn kill_all(&self) {
        let Self(()) = self;
        // There may be none.
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    }
}

/// Keeps the signals of this process to itself and what it starts.
pub(crate) fn restrict() -> Result<(), LaunchError> {
    let restricted = || -> Result<RulesetStatus, RulesetError> {
        let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        Ok(rules.scope(Scope::Signal)?.create()?.restrict_self()?.ruleset)
    };
    match restricted().map_err(|error| failed(&error))? {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => {
            Err(failed(&"signals are not kept in"))
        }
    }
}

fn failed(error: &dyn std::fmt::Display) -> LaunchError {
    LaunchError::RestrictSignals(error.to_string())
}
