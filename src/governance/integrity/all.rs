//! Checks that the files of all runs match the audit log, and that no run in the audit log is missing. Never changes a
//! file.

use std::ops::ControlFlow;

use serde::Serialize;
use uuid::Uuid;

use super::{
    Change, Difference, IntegrityError, ListedFiles, Served, Unconfirmed, evidence, is_removed,
};
use crate::governance::artifacts::{ArtifactError, Artifacts, EVIDENCE, RunState};
use crate::ledger::Store;

const DIFFERENCES_NAMED_MAX: usize = 100;
/// The maximum number of runs in a batch. Runs that are in the log but have no folder are checked in batches.
pub(super) const MISSING_AT_ONCE: usize = 10_000;

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ArtifactsVerification {
    /// The number of runs in which no file has changed.
    pub(crate) intact: u64,
    /// The number of runs in which no difference was found, but at least one hash is missing.
    pub(crate) unconfirmed: u64,
    pub(crate) in_progress: u64,
    /// The number of runs without evidence because their server died.
    pub(crate) interrupted: u64,
    /// The number of runs that retention has removed.
    pub(crate) removed: u64,
    /// The number of differences. A difference is about a file or a whole run.
    pub(crate) different: u64,
    /// The first differences, at most `DIFFERENCES_NAMED_MAX`.
    pub(crate) differences: Vec<RunDifference>,
}

/// A difference in the files of a run.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RunDifference {
    pub(crate) run_id: Uuid,
    #[serde(flatten)]
    pub(crate) difference: Difference,
}

impl ArtifactsVerification {
    /// Returns whether no difference was found.
    pub(crate) fn is_intact(&self) -> bool {
        self.different == 0
    }

    fn add(&mut self, run_id: Uuid, difference: Difference) {
        self.different += 1;
        if self.differences.len() < DIFFERENCES_NAMED_MAX {
            self.differences.push(RunDifference { run_id, difference });
        }
    }
}

/// Compares the files of each run with the log. Then checks that no run in the log is missing.
pub(crate) fn verify_artifacts(
    artifacts: &Artifacts,
    store: &Store,
) -> Result<ArtifactsVerification, IntegrityError> {
    let mut found = ArtifactsVerification::default();
    let mut failure = None;
    artifacts.each_run(|run_id| {
        if failure.is_none()
            && let Err(error) = verify_run(artifacts, store, run_id, &mut found)
        {
            failure = Some(error);
        }
    })?;
    if let Some(error) = failure {
        return Err(error);
    }
    verify_ends(artifacts, store, &mut found)?;
    found.removed = store.removed_runs()?;
    Ok(found)
}

/// Adds a difference for every run that has evidence according to the log, but has no folder. Skips runs that retention
/// has removed, and runs on other replicas.
fn verify_ends(
    artifacts: &Artifacts,
    store: &Store,
    found: &mut ArtifactsVerification,
) -> Result<(), IntegrityError> {
    let is_there = |run_id| !matches!(artifacts.state(run_id), Err(ArtifactError::RunNotFound));
    let mut after = Some(0);
    while let Some(last) = after {
        let mut missing = Vec::new();
        after = store.runs_with_evidence(last, &mut |run_id| {
            if !is_there(run_id) {
                missing.push(run_id);
            }
            if missing.len() < MISSING_AT_ONCE {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        for run_id in missing {
            // If retention has removed the run meanwhile, `evidence` finds the removal in the log and reports no
            // difference.
            match evidence(artifacts, store, run_id) {
                Err(IntegrityError::Different(difference)) => found.add(run_id, difference),
                Err(
                    IntegrityError::Removed
                    | IntegrityError::Elsewhere(_)
                    | IntegrityError::Waiting
                    | IntegrityError::Starting
                    | IntegrityError::NotRun(_)
                    | IntegrityError::Artifacts(_),
                )
                | Ok(_) => {}
                Err(error @ IntegrityError::Store(_)) => return Err(error),
            }
        }
    }
    Ok(())
}

fn verify_run(
    artifacts: &Artifacts,
    store: &Store,
    run_id: Uuid,
    found: &mut ArtifactsVerification,
) -> Result<(), IntegrityError> {
    match artifacts.state(run_id) {
        // If the log has a row about the end of a run, the run is not in progress, even if a process has locked its
        // folder.
        Ok(RunState::InProgress) if !store.recorded_run(run_id)?.has_end() => {
            found.in_progress += 1;
            return Ok(());
        }
        // The path is not a folder, or the run was removed meanwhile. `verify_ends` checks whether the run should
        // exist.
        Err(ArtifactError::RunNotFound) => return Ok(()),
        Ok(RunState::InProgress | RunState::Complete | RunState::Interrupted) | Err(_) => {}
    }
    let Served { content, mut unconfirmed } = match evidence(artifacts, store, run_id) {
        Ok(served) => served,
        Err(IntegrityError::Different(difference)) => {
            found.add(run_id, difference);
            return Ok(());
        }
        // The run was removed meanwhile, has not started, or has its files on another replica.
        Err(
            IntegrityError::Removed
            | IntegrityError::Elsewhere(_)
            | IntegrityError::Waiting
            | IntegrityError::Starting
            | IntegrityError::NotRun(_)
            | IntegrityError::Artifacts(ArtifactError::RunNotFound),
        ) => return Ok(()),
        Err(IntegrityError::Artifacts(ArtifactError::NoEvidence(_))) => {
            found.interrupted += 1;
            return Ok(());
        }
        Err(IntegrityError::Artifacts(_)) => {
            if !is_removed(artifacts, store, run_id)? {
                found.add(run_id, Difference::new(EVIDENCE, Change::Unreadable));
            }
            return Ok(());
        }
        Err(error @ IntegrityError::Store(_)) => return Err(error),
    };
    let Ok(ListedFiles { artifacts: records, artifacts_omitted }) =
        serde_json::from_slice(&content)
    else {
        found.add(run_id, Difference::new(EVIDENCE, Change::Unreadable));
        return Ok(());
    };
    drop(content);
    let (different_before, named_before) = (found.different, found.differences.len());
    let is_complete = artifacts_omitted == 0;
    let all_hashed = artifacts.compare(run_id, &records, is_complete, &mut |path, change| {
        found.add(run_id, Difference::new(path, change));
    });
    match all_hashed {
        Ok(true) => {}
        Ok(false) => unconfirmed = unconfirmed.or(Some(Unconfirmed::FileNotHashed)),
        // The run was removed meanwhile.
        Err(ArtifactError::RunNotFound) => return Ok(()),
        Err(_) if is_removed(artifacts, store, run_id)? => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    if found.different > different_before {
        // If the run was removed during the comparison, the removal may have caused the differences.
        if is_removed(artifacts, store, run_id)? {
            found.different = different_before;
            found.differences.truncate(named_before);
        }
        return Ok(());
    }
    match unconfirmed {
        None => found.intact += 1,
        Some(_) => found.unconfirmed += 1,
    }
    Ok(())
}
