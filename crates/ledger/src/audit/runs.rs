//! The state of a run, according to the rows about the run in the audit log.

use serde_json::{Map, Value};

use super::AuditEvent;

/// The state of a run, according to its rows in the audit log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoggedRun {
    /// The number of the row about the run's end, or about its start if the run has not ended. Sort runs by this number
    /// and not by time, because the clock may have been set back.
    pub seq: Option<i64>,
    pub has_ended: bool,
    pub is_removed: bool,
}

/// A run, according to the rows about its start, its end and its removal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedRun {
    pub user: Option<String>,
    pub tool: Option<String>,
    /// The outcome of the run. `None` if the log has no row about the run's end.
    pub outcome: Option<String>,
    pub evidence: RecordedEvidence,
    /// Whether the run's files were removed, because the policy limits how long they are kept.
    pub is_removed: bool,
    /// The name of the replica that stores the run's files. `None` if this replica stores the files.
    pub elsewhere: Option<String>,
}

/// The evidence of a run (the report of its tests), according to the audit log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RecordedEvidence {
    /// The log has no row about the run.
    #[default]
    NoRun,
    /// The log has rows about the run, but no row about the run's end.
    NoEnd,
    /// The row about the run's end does not contain a hash, because an earlier version of this program wrote the row.
    NoHash,
    /// The run ended without evidence.
    NotWritten,
    /// The SHA-256 of the evidence file, in lower-case hexadecimal.
    Sha256(String),
}

/// The name of the tool that runs tests. Quotas limit the number of its runs. Only runs of this tool leave evidence.
pub const RUN_PYTEST: &str = "run_pytest";
/// The key of the evidence's hash in the details of a `TOOL_FINISHED` row.
pub const EVIDENCE_SHA256: &str = "evidence_sha256";

impl RecordedEvidence {
    /// Returns the evidence of a run, from the details of the row about the run's end. Replaces an invalid hash by an
    /// empty hash, which never matches a file.
    pub(crate) fn of_end(details: &str) -> Self {
        let details: Result<Map<String, Value>, _> = serde_json::from_str(details);
        match details.as_ref().map(|details| details.get(EVIDENCE_SHA256)) {
            Ok(None) => Self::NoHash,
            Ok(Some(Value::Null)) => Self::NotWritten,
            Ok(Some(hash)) => Self::Sha256(hash.as_str().unwrap_or_default().to_owned()),
            Err(_) => Self::Sha256(String::new()),
        }
    }
}

impl RecordedRun {
    /// Returns whether the run ended.
    pub fn has_end(&self) -> bool {
        self.outcome.is_some()
    }

    /// Updates the run with its next row, which is about the start, the end or the removal of the run.
    pub(crate) fn follow(&mut self, row: RunRow) {
        let RunRow { event, user, tool, outcome, details, elsewhere } = row;
        if event == AuditEvent::ArtifactsRemoved.as_str() {
            self.is_removed = true;
            return;
        }
        self.user = Some(user);
        self.tool = Some(tool);
        self.elsewhere = elsewhere;
        // Use only the first row about the run's end. A run ends once, so later rows about its end cannot be genuine.
        if event == AuditEvent::ToolFinished.as_str() && self.outcome.is_none() {
            self.outcome = Some(outcome);
            self.evidence = RecordedEvidence::of_end(&details);
        } else if self.outcome.is_none() {
            self.evidence = RecordedEvidence::NoEnd;
        }
    }
}

/// The columns of a row that describe a run.
#[derive(Debug)]
pub(crate) struct RunRow {
    pub(crate) event: String,
    pub(crate) user: String,
    pub(crate) tool: String,
    pub(crate) outcome: String,
    pub(crate) details: String,
    /// The name of the replica that appended the row. `None` if this replica appended the row.
    pub(crate) elsewhere: Option<String>,
}
