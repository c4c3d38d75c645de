//! Runs in the audit log.

use std::ops::ControlFlow;

use rusqlite::{Row, params};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::AuditEvent;
use super::rows::text;
use crate::governance::artifacts::LoggedRun;
use crate::governance::roles::GovernedTool;
use crate::governance::store::{Store, StoreError};

/// A run, as the rows of its beginning and its end have it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RecordedRun {
    pub(crate) user: Option<String>,
    pub(crate) tool: Option<String>,
    /// The outcome; none if the log has no end of it.
    pub(crate) outcome: Option<String>,
    pub(crate) evidence: RecordedEvidence,
    /// Retention removed its files.
    pub(crate) is_removed: bool,
}

/// The evidence of a run, as the audit log has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum RecordedEvidence {
    /// No such run in the log.
    #[default]
    NoRun,
    /// A run that began, and has no end.
    NoEnd,
    /// An end that was written before ends had hashes.
    NoHash,
    /// An end without evidence.
    NotWritten,
    /// The SHA-256 of the file, in lower-case hexadecimal.
    Sha256(String),
}

/// The key of the hash in the details of `TOOL_FINISHED`.
pub(crate) const EVIDENCE_SHA256: &str = "evidence_sha256";

impl RecordedEvidence {
    /// Reads the details of a run's end. A value that is no hash is compared all the same, and is
    /// never equal.
    fn of_end(details: &str) -> Self {
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
    /// Tells whether the run ended.
    pub(crate) fn has_end(&self) -> bool {
        self.outcome.is_some()
    }

    fn follow(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let event = text(row, 0)?;
        if event == AuditEvent::ArtifactsRemoved.as_str() {
            self.is_removed = true;
            return Ok(());
        }
        self.user = Some(text(row, 1)?);
        self.tool = Some(text(row, 2)?);
        // The first end is the run's own.
        if event == AuditEvent::ToolFinished.as_str() && self.outcome.is_none() {
            self.outcome = Some(text(row, 3)?);
            self.evidence = RecordedEvidence::of_end(&text(row, 4)?);
        } else if self.outcome.is_none() {
            self.evidence = RecordedEvidence::NoEnd;
        }
        Ok(())
    }
}

impl Store {
    /// Returns the records of a run. It is found by an index, however long the log is.
    pub(crate) fn recorded_run(&self, run_id: Uuid) -> Result<RecordedRun, StoreError> {
        self.read(|transaction| {
            let mut select = transaction.prepare(
                "SELECT event, user, tool, outcome, details FROM audit
                 WHERE run_id = ?1 AND event IN (?2, ?3, ?4) ORDER BY seq",
            )?;
            let mut rows = select.query([
                run_id.to_string().as_str(),
                AuditEvent::ToolStarted.as_str(),
                AuditEvent::ToolFinished.as_str(),
                AuditEvent::ArtifactsRemoved.as_str(),
            ])?;
            let mut run = RecordedRun::default();
            while let Some(row) = rows.next()? {
                run.follow(row)?;
            }
            Ok(run)
        })
    }

    /// Returns the outcome of a call of `run_pytest`: the word of its last row.
    pub(crate) fn recorded_call(&self, run_id: Uuid) -> Result<Option<String>, StoreError> {
        self.read(|transaction| {
            let mut select = transaction.prepare(
                "SELECT outcome FROM audit WHERE run_id = ?1 AND event = ?2 AND tool = ?3
                 ORDER BY seq DESC LIMIT 1",
            )?;
            let (event, tool) = (AuditEvent::McpToolCall.as_str(), GovernedTool::RunPytest.name());
            let mut rows = select.query([run_id.to_string().as_str(), event, tool])?;
            rows.next()?.map(|row| text(row, 0)).transpose()
        })
    }

    /// Returns the records of runs that may have to be removed, in their order.
    pub(in crate::governance) fn logged_runs(
        &self,
        run_ids: &[Uuid],
    ) -> Result<Vec<LoggedRun>, StoreError> {
        self.read(|transaction| {
            let mut select = transaction.prepare(
                "SELECT max(CASE WHEN event <> ?4 THEN seq END), total(event = ?3) > 0,
                     total(event = ?4) > 0
                 FROM audit WHERE run_id = ?1 AND event IN (?2, ?3, ?4)",
            )?;
            let [started, finished, removed] = [
                AuditEvent::ToolStarted.as_str(),
                AuditEvent::ToolFinished.as_str(),
                AuditEvent::ArtifactsRemoved.as_str(),
            ];
            let mut logged = |run_id: &Uuid| {
                select.query_row([&run_id.to_string(), started, finished, removed], |row| {
                    let (seq, has_ended, is_removed) = (row.get(0)?, row.get(1)?, row.get(2)?);
                    Ok(LoggedRun { seq, has_ended, is_removed })
                })
            };
            run_ids.iter().map(&mut logged).collect()
        })
    }

    /// Hands over the ids of runs that left evidence by the log, and whose evidence was not removed by
    /// retention, the oldest first, until `each` has enough of them; only those whose ends have higher
    /// numbers than `after`. Gives the number of the last one's end; none if there are no more.
    pub(crate) fn runs_with_evidence(
        &self,
        after: i64,
        mut each: impl FnMut(Uuid) -> ControlFlow<()>,
    ) -> Result<Option<i64>, StoreError> {
        self.read(|transaction| {
            let mut select = transaction.prepare(
                "SELECT run_id, details, seq FROM audit AS ended WHERE event = ?1 AND tool = ?2
                     AND NOT EXISTS (SELECT 1 FROM audit WHERE run_id = ended.run_id AND event = ?3)
                     AND seq > ?4
                 ORDER BY seq",
            )?;
            let (ended, removed) = (AuditEvent::ToolFinished, AuditEvent::ArtifactsRemoved);
            let tool = GovernedTool::RunPytest.name();
            let mut rows = select.query(params![ended.as_str(), tool, removed.as_str(), after])?;
            while let Some(row) = rows.next()? {
                let evidence = RecordedEvidence::of_end(&text(row, 1)?);
                let run_id = Uuid::try_parse(&text(row, 0)?).ok();
                if let (RecordedEvidence::Sha256(_), Some(run_id)) = (evidence, run_id)
                    && each(run_id).is_break()
                {
                    return row.get(2).map(Some);
                }
            }
            Ok(None)
        })
    }

    /// Counts the runs that retention removed.
    pub(crate) fn removed_runs(&self) -> Result<u64, StoreError> {
        self.read(|transaction| {
            let count: i64 = transaction.query_row(
                "SELECT COUNT(DISTINCT run_id) FROM audit WHERE event = ?1",
                [AuditEvent::ArtifactsRemoved.as_str()],
                |row| row.get(0),
            )?;
            Ok(u64::try_from(count).unwrap_or_default())
        })
    }
}
