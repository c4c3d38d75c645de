//! Restricts signals to a run, so that one call of `kill(2)` kills the whole run. This module never restricts files.
//!
//! A process in a Landlock domain with the signal scope (ABI 6, `landlock(7)`) can signal only processes in its own
//! domain or in a domain nested in it. The supervisor enters such a domain before it starts another process, so every
//! process of the run is in the domain, irrevocably. Then `kill(-1, SIGKILL)` by the supervisor reaches exactly the
//! run. The kernel sends the signal to all processes under one lock. A fork takes the same lock, and then checks for a
//! pending kill. So no process can escape the kill by a fork.

use landlock::{CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError, RulesetStatus, Scope};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};

use super::LaunchError;

/// Proof that this process can send signals only to its own run.
#[derive(Debug)]
pub(crate) struct SignalScope(());

impl SignalScope {
    /// Restricts this process, and all processes that it starts later, so that they can send signals only to each
    /// other. This is irrevocable. The process needs `no_new_privs` or the rights of root.
    pub(crate) fn enter() -> Result<Self, LaunchError> {
        restrict()?;
        // Verify the restriction: signal 0 to the parent must fail. Without the restriction, a later `kill(-1)` would
        // kill processes outside of the run.
        match kill(getppid(), None) {
            Err(Errno::EPERM) => Ok(Self(())),
            Ok(()) | Err(_) => Err(failed(&"a signal to the parent was not refused")),
        }
    }

    /// Kills every process of the run, except for this process, with one system call.
    pub(crate) fn kill_all(&self) {
        let Self(()) = self;
        // Ignore a failure: no other process exists.
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    }
}

/// Restricts the signals of this process to itself and the processes that it starts later.
pub(crate) fn restrict() -> Result<(), LaunchError> {
    let restricted = || -> Result<RulesetStatus, RulesetError> {
        let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        Ok(rules.scope(Scope::Signal)?.create()?.restrict_self()?.ruleset)
    };
    match restricted().map_err(|error| failed(&error))? {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => {
            Err(failed(&"signals can leave the run"))
        }
    }
}

fn failed(error: &dyn std::fmt::Display) -> LaunchError {
    LaunchError::RestrictSignals(error.to_string())
}
