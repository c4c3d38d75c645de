//! Checks that the files of a run are unchanged since the run ended.
//!
//! In the audit log, the row about the end of a run has the hash of the run's evidence, and each row has the hash of
//! the previous row. The evidence has the hashes of the run's files. This module compares the hashes with the current
//! files. It never serves or repairs a file that differs.

mod all;

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use uuid::Uuid;

use super::artifacts::{ArtifactError, Artifacts, Chunk, EVIDENCE, FileEntry, Page};
use super::evidence::ArtifactRecord;
use crate::ledger::{AuditOutcome, RecordedEvidence, RecordedRun, Store, StoreError};

pub(crate) use all::{ArtifactsVerification, RunDifference, verify_artifacts};

/// A change to a file of a run after the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    /// The content of the file has changed.
    Changed,
    Missing,
    /// The file was added after the end of the run.
    Added,
    Unreadable,
    /// The audit log has no row about the run.
    UnknownRun,
}

/// A file that has changed since the run. The `Display` text goes to models and terminals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    /// The path relative to the run's folder.
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
            Change::Changed => write!(f, "{path} does not match the run: it was changed"),
            Change::Missing => write!(f, "{path} is missing, and the run left it"),
            Change::Added => write!(f, "{path} does not match the run: it was added"),
            Change::Unreadable => write!(f, "{path} cannot be read any more"),
            Change::UnknownRun => {
                write!(f, "{path} belongs to a run that is not in the audit log")
            }
        }
    }
}

/// The reason why content could not be compared with a recorded hash. The model gets the `Display` text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Unconfirmed {
    /// The run is in progress, or the run's server died.
    #[error("the end of the run is not in the audit log")]
    NoEnd,
    /// An earlier version of the server executed the run, and recorded no hash.
    #[error("the audit log has no hash of this run's evidence")]
    NoHash,
    /// The run's evidence, which would contain the hashes of the files, is missing.
    #[error("the run has no evidence")]
    NoEvidence,
    /// The files were too large to be hashed, or the server was stopping.
    #[error("the evidence has no hash of this file")]
    FileNotHashed,
}

/// The reason why the evidence or a file of a run is not returned to the caller.
#[derive(Debug, Error)]
pub(crate) enum IntegrityError {
    #[error(transparent)]
    Artifacts(#[from] ArtifactError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Different(Difference),
    #[error("the files of this run were removed by the policy's retention")]
    Removed,
    /// The call is waiting for its turn, or its server died while it waited.
    #[error(
        "this run has not started, so there is no evidence: its call waits for its turn, \
         unless its server has ended"
    )]
    Waiting,
    /// The run has no folder yet.
    #[error(
        "this run has no files yet: it is just starting, unless its server has ended; try \
         again in a moment"
    )]
    Starting,
    /// Another replica executed the run and has the files. The field is the name of the other replica.
    #[error("the files of this run are on the server that ran it, instance {0}: call that server")]
    Elsewhere(String),
    /// The call started no run. The field is the outcome of the call in the audit log.
    #[error("this run never started, so there is no evidence: its call ended with {0}")]
    NotRun(String),
}

/// The evidence or a chunk of a file, for the caller. If the content could not be compared with a hash, `unconfirmed`
/// is the reason.
#[derive(Debug)]
pub(crate) struct Served<T> {
    pub(crate) content: T,
    pub(crate) unconfirmed: Option<Unconfirmed>,
}

/// The expected state of a file, according to the evidence.
enum Expected {
    File { bytes: u64, sha256: String },
    Unknown(Unconfirmed),
    NotLeft,
}

/// The part of the evidence that lists the files of the run.
#[derive(Deserialize)]
struct ListedFiles {
    artifacts: Vec<ArtifactRecord>,
    artifacts_omitted: u64,
}

/// Returns the evidence of a run. Fails if the evidence does not match its hash in the audit log. If the log has no
/// hash, the evidence is unconfirmed.
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
        // The run may have started, ended or been removed after its rows were read. The log records each of these
        // events shortly before or after the folder changes. So if the rows have changed, compare again. The loop ends,
        // because a run has only a few such events.
        let now = store.recorded_run(run_id)?;
        if now == recorded {
            return judged;
        }
        recorded = now;
    }
}

/// Compares the evidence in the run's folder (`found`) with the rows about the run (`recorded`).
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

/// Lists a page of the files of a run. If the run has no folder, fails with the same reason as [`evidence`].
pub(crate) fn files(
    artifacts: &Artifacts,
    store: &Store,
    run_id: Uuid,
    offset: usize,
    limit: Option<usize>,
) -> Result<Page<FileEntry>, IntegrityError> {
    let list = || artifacts.list_files(run_id, offset, limit);
    match list() {
        Err(ArtifactError::RunNotFound) => match evidence(artifacts, store, run_id) {
            // The folder was created meanwhile.
            Ok(_) | Err(IntegrityError::Artifacts(ArtifactError::NoEvidence(_))) => Ok(list()?),
            Err(reason) => Err(reason),
        },
        listed => Ok(listed?),
    }
}

/// Returns whether retention has removed a run. Callers must not report differences in the files of a removed run,
/// because the removal may have caused the differences.
fn is_removed(artifacts: &Artifacts, store: &Store, run_id: Uuid) -> Result<bool, IntegrityError> {
    // Read the log after the folder. A removal is recorded before the folder is renamed, so if retention has removed
    // the folder, the log already has the row.
    let is_gone = matches!(artifacts.state(run_id), Err(ArtifactError::RunNotFound));
    Ok(is_gone && store.recorded_run(run_id)?.is_removed)
}

/// Returns a chunk of a file. Fails if the whole file does not match its hash in the evidence. If the evidence has no
/// hash, the chunk is unconfirmed.
pub(crate) fn content(
    artifacts: &Artifacts,
    store: &Store,
    run_id: Uuid,
    path: &str,
    range: (u64, Option<usize>),
) -> Result<Served<Chunk>, IntegrityError> {
    match compared_content(artifacts, store, run_id, path, range) {
        // If the run was removed during the read, the removal may have caused the difference or the error.
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

/// Looks up a file in the evidence. Also returns the reason if the evidence itself is unconfirmed.
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
