//! The integrity of a run's files: are they what they were when the run ended?
//!
//! The end of a run in the audit log, whose rows are chained, has the hash of the run's evidence, and
//! the evidence has the hashes of its files. Here they are compared with what is there now.

mod all;

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use uuid::Uuid;

use super::artifacts::{ArtifactError, Artifacts, Chunk, EVIDENCE};
use super::evidence::ArtifactRecord;
use crate::ledger::{AuditOutcome, RecordedEvidence, RecordedRun, Store, StoreError};

pub(crate) use all::{ArtifactsVerification, RunDifference, verify_artifacts};

/// A change of a file of a run, after the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    /// Other content.
    Changed,
    Missing,
    /// Added after the end of the run.
    Added,
    Unreadable,
    /// No such run in the audit log.
    UnknownRun,
}

/// A file that is not what a run left. `Display` goes to the model and to terminals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    /// Relative to the run's folder.
    pub(crate) path: String,
    pub(crate) change: Change,
}

impl Difference {
    fn new(path: &str, change: Change) -> Self {
        Self { path: path.to_owned(), change }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.escape_debug();
        match self.change {
            Change::Changed => write!(f, "{path} is not what the run left: it was changed"),
            Change::Missing => write!(f, "{path} is missing, and the run left it"),
            Change::Added => write!(f, "{path} is not what the run left: it was added"),
            Change::Unreadable => write!(f, "{path} cannot be read any more"),
            Change::UnknownRun => {
                write!(f, "{path} is of a run that the audit log knows nothing of")
            }
        }
    }
}

/// The reason that a file cannot be compared with anything. `Display` goes to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Unconfirmed {
    /// The run goes on, or its server died.
    #[error("the end of the run is not in the audit log")]
    NoEnd,
    /// A run of an earlier version.
    #[error("the audit log has no hash of this run's evidence")]
    NoHash,
    /// Without a hash anywhere.
    #[error("the run has no evidence")]
    NoEvidence,
    /// Too much to be hashed, or the server was ending.
    #[error("the evidence has no hash of this file")]
    FileNotHashed,
}

/// An error of a comparison.
#[derive(Debug, Error)]
pub(crate) enum IntegrityError {
    #[error(transparent)]
    Artifacts(#[from] ArtifactError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Different(Difference),
    #[error("what this run left was removed, as the policy's retention says")]
    Removed,
    /// Waiting for its turn, or its server died before.
    #[error(
        "nothing was run for this run_id yet, so there is no evidence: its call waits for its turn, \
         unless its server has ended"
    )]
    Waiting,
    /// Without a folder yet.
    #[error(
        "there is nothing of this run yet: it is just starting, unless its server has ended; try \
         again in a moment"
    )]
    Starting,
    /// Run by another instance, which has the files.
    #[error("what this run left is with the server that ran it, instance {0}: ask that one")]
    Elsewhere(String),
    /// The outcome of the call, as the audit log has it.
    #[error("nothing was run for this run_id, so there is no evidence: its call came to {0}")]
    NotRun(String),
}

/// Content that is served, and the reason why it cannot be compared, if it cannot.
#[derive(Debug)]
pub(crate) struct Served<T> {
    pub(crate) content: T,
    pub(crate) unconfirmed: Option<Unconfirmed>,
}

/// A file by the evidence.
enum Expected {
    File { bytes: u64, sha256: String },
    Unknown(Unconfirmed),
    NotLeft,
}

/// The part of the evidence that tells of files.
#[derive(Deserialize)]
struct ListedFiles {
    artifacts: Vec<ArtifactRecord>,
    artifacts_omitted: u64,
}

/// Returns the evidence of a run, if it is what the audit log says.
pub(crate) fn evidence(
    artifacts: &Artifacts,
    store: &Store,
    run_id: Uuid,
) -> Result<Served<Vec<u8>>, IntegrityError> {
    let mut recorded = store.recorded_run(run_id)?;
    loop {
        let found = artifacts.evidence(run_id);
        let judged = judge(store, run_id, &recorded, found);
        if judged.is_ok() {
            return judged;
        }
        // The run may have begun, ended or been removed between the two looks. The log records each
        // of these before or after it happens to the folder, a few times in all.
        let now = store.recorded_run(run_id)?;
        if now == recorded {
            return judged;
        }
        recorded = now;
    }
}

/// Compares what the log says of a run's evidence with what was found.
fn judge(
    store: &Store,
    run_id: Uuid,
    recorded: &RecordedRun,
    found: Result<Vec<u8>, ArtifactError>,
) -> Result<Served<Vec<u8>>, IntegrityError> {
    let different = |change| IntegrityError::Different(Difference::new(EVIDENCE, change));
    let is_gone = matches!(&found, Err(ArtifactError::RunNotFound | ArtifactError::NoEvidence(_)));
    if is_gone && recorded.is_removed {
        return Err(IntegrityError::Removed);
    }
    if let (Err(ArtifactError::RunNotFound), Some(instance)) = (&found, &recorded.elsewhere) {
        return Err(IntegrityError::Elsewhere(instance.clone()));
    }
    let unconfirmed = match (&found, &recorded.evidence) {
        (Err(ArtifactError::RunNotFound), RecordedEvidence::NoRun) => {
            match store.recorded_call(run_id)? {
                Some(outcome) if outcome == AuditOutcome::WAITING.as_str() => {
                    return Err(IntegrityError::Waiting);
                }
                Some(outcome) if outcome == AuditOutcome::ALLOWED.as_str() => {
                    return Err(IntegrityError::Starting);
                }
                Some(outcome) => return Err(IntegrityError::NotRun(outcome)),
                None => None,
            }
        }
        (Err(ArtifactError::RunNotFound), RecordedEvidence::NoEnd) => {
            return Err(IntegrityError::Starting);
        }
        (_, RecordedEvidence::NoRun) => return Err(different(Change::UnknownRun)),
        (Ok(content), RecordedEvidence::Sha256(recorded)) if sha256(content) == *recorded => None,
        (Ok(_), RecordedEvidence::Sha256(_)) => return Err(different(Change::Changed)),
        (Err(_), RecordedEvidence::Sha256(_)) if is_gone => return Err(different(Change::Missing)),
        (Ok(_), RecordedEvidence::NotWritten) => return Err(different(Change::Added)),
        (_, RecordedEvidence::NoEnd) => Some(Unconfirmed::NoEnd),
        (_, RecordedEvidence::NoHash) => Some(Unconfirmed::NoHash),
        (Err(_), RecordedEvidence::Sha256(_) | RecordedEvidence::NotWritten) => None,
    };
    Ok(Served { content: found?, unconfirmed })
}

/// Tells whether retention has removed a run, to the end or not. What was seen of its files before
/// says nothing then.
fn is_removed(artifacts: &Artifacts, store: &Store, run_id: Uuid) -> Result<bool, IntegrityError> {
    // The log last: it is written before the run is set aside.
    let is_gone = matches!(artifacts.state(run_id), Err(ArtifactError::RunNotFound));
    Ok(is_gone && store.recorded_run(run_id)?.is_removed)
}

/// Returns a part of a file of a run, if the whole file is what the evidence says.
pub(crate) fn content(
    artifacts: &Artifacts,
    store: &Store,
    run_id: Uuid,
    path: &str,
    range: (u64, Option<usize>),
) -> Result<Served<Chunk>, IntegrityError> {
    match compared_content(artifacts, store, run_id, path, range) {
        // It may have been removed while it was read.
        Err(IntegrityError::Different(_) | IntegrityError::Artifacts(_))
            if is_removed(artifacts, store, run_id)? =>
        {
            Err(IntegrityError::Removed)
        }
        compared => compared,
    }
}

fn compared_content(
    artifacts: &Artifacts,
    store: &Store,
    run_id: Uuid,
    path: &str,
    range: (u64, Option<usize>),
) -> Result<Served<Chunk>, IntegrityError> {
    let (offset, limit) = range;
    let different = |change| IntegrityError::Different(Difference::new(path, change));
    let (expected, unconfirmed) = expected(artifacts, store, run_id, path)?;
    match expected {
        Expected::File { bytes, sha256 } => {
            match artifacts.read_hashed(run_id, path, offset, limit, bytes) {
                Ok((content, Some(found))) if found == sha256 => {
                    Ok(Served { content, unconfirmed })
                }
                Ok(_) => Err(different(Change::Changed)),
                Err(ArtifactError::FileNotFound) => Err(different(Change::Missing)),
                Err(error) => Err(error.into()),
            }
        }
        Expected::Unknown(reason) => {
            let content = artifacts.read(run_id, path, offset, limit)?;
            Ok(Served { content, unconfirmed: Some(reason) })
        }
        Expected::NotLeft => match artifacts.read(run_id, path, offset, limit) {
            Ok(_) => Err(different(Change::Added)),
            Err(error) => Err(error.into()),
        },
    }
}

/// Looks a file up in the evidence, with the reason why that may be wrong itself.
fn expected(
    artifacts: &Artifacts,
    store: &Store,
    run_id: Uuid,
    path: &str,
) -> Result<(Expected, Option<Unconfirmed>), IntegrityError> {
    let (content, unconfirmed) = match evidence(artifacts, store, run_id) {
        Ok(Served { content, unconfirmed }) => (content, unconfirmed),
        Err(IntegrityError::Artifacts(ArtifactError::NoEvidence(_))) => {
            return Ok((Expected::Unknown(Unconfirmed::NoEvidence), None));
        }
        Err(error) => return Err(error),
    };
    if path == EVIDENCE {
        let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
        return Ok((Expected::File { bytes, sha256: sha256(&content) }, unconfirmed));
    }
    let Ok(ListedFiles { artifacts, artifacts_omitted }) = serde_json::from_slice(&content) else {
        return Err(IntegrityError::Different(Difference::new(EVIDENCE, Change::Unreadable)));
    };
    let expected = match artifacts.into_iter().find(|record| record.path == path) {
        Some(ArtifactRecord { bytes, sha256: Some(sha256), .. }) => {
            Expected::File { bytes, sha256 }
        }
        Some(ArtifactRecord { sha256: None, .. }) => Expected::Unknown(Unconfirmed::FileNotHashed),
        None if artifacts_omitted > 0 => Expected::Unknown(Unconfirmed::FileNotHashed),
        None => Expected::NotLeft,
    };
    Ok((expected, unconfirmed))
}

fn sha256(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

#[cfg(test)]
mod tests;
