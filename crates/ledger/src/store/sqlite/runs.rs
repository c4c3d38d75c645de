//! Queries of runs in the audit log.

use std::ops::ControlFlow;

use rusqlite::params;
use uuid::Uuid;

use super::SqliteStore;
use super::audit::text;
use crate::audit::LoggedRun;
use crate::audit::RUN_PYTEST;
use crate::audit::{AuditEvent, RecordedEvidence, RecordedRun, RunRow};
use crate::store::backend::RunLog;
use crate::store::error::StoreError;

impl RunLog for SqliteStore {
    fn recorded_run(&self, run_id: Uuid) -> Result<RecordedRun, StoreError> {
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
                run.follow(RunRow {
                    event: text(row, 0)?,
                    user: text(row, 1)?,
                    tool: text(row, 2)?,
                    outcome: text(row, 3)?,
                    details: text(row, 4)?,
                    elsewhere: None,
                });
            }
            Ok(run)
        })
    }

    fn recorded_call(&self, run_id: Uuid) -> Result<Option<String>, StoreError> {
        self.read(|transaction| {
            let mut select = transaction.prepare(
                "SELECT outcome FROM audit WHERE run_id = ?1 AND event = ?2 AND tool = ?3
                 ORDER BY seq DESC LIMIT 1",
            )?;
            let (event, tool) = (AuditEvent::McpToolCall.as_str(), RUN_PYTEST);
            let mut rows = select.query([run_id.to_string().as_str(), event, tool])?;
            rows.next()?.map(|row| text(row, 0)).transpose()
        })
    }

    fn logged_runs(&self, run_ids: &[Uuid]) -> Result<Vec<LoggedRun>, StoreError> {
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

    fn runs_with_evidence(
        &self,
        after: i64,
        each: &mut dyn FnMut(Uuid) -> ControlFlow<()>,
    ) -> Result<Option<i64>, StoreError> {
        self.read(|transaction| {
            let mut select = transaction.prepare(
                "SELECT run_id, details, seq FROM audit AS ended WHERE event = ?1 AND tool = ?2
                     AND NOT EXISTS (SELECT 1 FROM audit WHERE run_id = ended.run_id AND event = ?3)
                     AND seq > ?4
                 ORDER BY seq",
            )?;
            let (ended, removed) = (AuditEvent::ToolFinished, AuditEvent::ArtifactsRemoved);
            let tool = RUN_PYTEST;
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

    fn removed_runs(&self) -> Result<u64, StoreError> {
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
