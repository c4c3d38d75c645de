//! Applies the policy's retention: records the removal of old runs in the audit log, and then removes the runs. Never
//! removes a run without a row in the log. `artifacts/retention.rs` describes the steps of a removal.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use serde_json::json;
use uuid::Uuid;

use super::artifacts::{Artifacts, Removal, RemovalLog, Retained, Retention, RetentionError};
use super::policy::{PolicyError, PolicyFile};
use super::script_audit::details;
use super::tools::GovernedTool;
use crate::ledger::{AuditEntry, AuditEvent, AuditOutcome, LoggedRun, Store, StoreError};

pub(crate) fn retention_of(policy: &Path) -> Result<Retention, PolicyError> {
    Ok(PolicyFile::new(policy.to_owned()).current()?.retention.clone())
}

/// Removes the runs that exceed `retention`. Does not remove a run if the audit log cannot record the removal.
pub(crate) fn apply_retention(
    artifacts: &Artifacts,
    store: &Store,
    retention: &Retention,
) -> Result<Retained, RetentionError> {
    artifacts.retain(retention, SystemTime::now(), store)
}

impl RemovalLog for Store {
    fn look_up(&self, run_ids: &[Uuid]) -> Result<Vec<LoggedRun>, StoreError> {
        self.logged_runs(run_ids)
    }

    fn write_down(&self, removals: &[Removal]) -> Result<(), StoreError> {
        self.append(&removals.iter().map(entry).collect::<Vec<_>>())
    }
}

fn entry(removal: &Removal) -> AuditEntry {
    let Removal { run_id, reason, disk_bytes } = removal;
    AuditEntry {
        run_id: *run_id,
        event: AuditEvent::ArtifactsRemoved,
        user: None,
        tool: GovernedTool::RunPytest.name().to_owned(),
        arguments_hash: None,
        outcome: AuditOutcome::REMOVED,
        details: details(&json!({ "reason": reason.as_str(), "disk_bytes": disk_bytes })),
    }
}

/// Ensures that at most one clean-up is in progress. If another clean-up is requested meanwhile, the clean-up in
/// progress runs again.
#[derive(Debug, Default)]
pub(super) struct Turn {
    asked: AtomicUsize,
}

impl Turn {
    /// Runs `work`. If another thread calls `take` meanwhile, that call returns at once, and this thread runs its own
    /// `work` again.
    pub(super) fn take(&self, work: impl Fn()) {
        if self.asked.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let _reset = ResetOnPanic(&self.asked);
        loop {
            let asked = self.asked.load(Ordering::Acquire);
            work();
            let is_last =
                self.asked.compare_exchange(asked, 0, Ordering::AcqRel, Ordering::Acquire);
            if is_last.is_ok() {
                return;
            }
        }
    }
}

/// Resets the counter of a [`Turn`] after a panic. Without this reset, the counter would block later clean-ups.
struct ResetOnPanic<'a>(&'a AtomicUsize);

impl Drop for ResetOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_while_it_goes_on_is_done_again_by_who_is_at_it() {
        let (turn, count) = (Turn::default(), AtomicUsize::new(0));
        let work = || {
            if count.fetch_add(1, Ordering::Relaxed) == 0 {
                turn.take(|| panic!("somebody is at it"));
                turn.take(|| panic!("somebody is at it"));
            }
        };
        turn.take(work);
        assert_eq!(count.load(Ordering::Relaxed), 2);
        turn.take(|| count.store(3, Ordering::Relaxed));
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn one_that_panics_holds_up_no_other() {
        let turn = Turn::default();
        let panics = || turn.take(|| panic!("for a test"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        let has_run = AtomicUsize::new(0);
        turn.take(|| has_run.store(1, Ordering::Relaxed));
        assert_eq!(has_run.into_inner(), 1);
    }
}
