//! Queries of runs in the audit log.

use std::collections::HashMap;
use std::ops::ControlFlow;

use uuid::Uuid;

use super::{PostgresStore, value};
use crate::audit::LoggedRun;
use crate::audit::{RecordedEvidence, RecordedRun, RunRow};
use crate::store::backend::RunLog;
use crate::store::error::StoreError;

/// The maximum number of runs that one query returns.
const RUNS_AT_ONCE: usize = 1000;

const OF_RUN: &str = "SELECT event, user_name, tool, outcome, details, instance FROM qwed_mcp.audit \
    WHERE run_id = $1 AND event IN ('TOOL_STARTED', 'TOOL_FINISHED', 'ARTIFACTS_REMOVED') \
    ORDER BY time, instance, seq";

const OF_CALL: &str = "SELECT outcome FROM qwed_mcp.audit \
    WHERE run_id = $1 AND event = 'MCP_TOOL_CALL' AND tool = 'run_pytest' \
    ORDER BY time DESC, seq DESC LIMIT 1";

const LOGGED: &str = "SELECT run_id, max(seq) FILTER (WHERE event <> 'ARTIFACTS_REMOVED'), \
        bool_or(event = 'TOOL_FINISHED'), bool_or(event = 'ARTIFACTS_REMOVED') \
    FROM qwed_mcp.audit WHERE run_id = ANY($1) \
        AND event IN ('TOOL_STARTED', 'TOOL_FINISHED', 'ARTIFACTS_REMOVED') GROUP BY run_id";

const WITH_EVIDENCE: &str = "SELECT run_id, details, seq FROM qwed_mcp.audit AS ended \
    WHERE instance = $1 AND seq > $2 AND event = 'TOOL_FINISHED' AND tool = 'run_pytest' \
        AND NOT EXISTS (SELECT FROM qwed_mcp.audit \
            WHERE run_id = ended.run_id AND event = 'ARTIFACTS_REMOVED') \
    ORDER BY seq LIMIT 1000";

const REMOVED: &str = "SELECT count(DISTINCT run_id) FROM qwed_mcp.audit \
    WHERE event = 'ARTIFACTS_REMOVED' AND instance = $1";

impl RunLog for PostgresStore {
    fn recorded_run(&self, run_id: Uuid) -> Result<RecordedRun, StoreError> {
        let (run_id, own) = (run_id.to_string(), self.instance.clone());
        self.ask(move |session| {
            let (run_id, own) = (run_id.clone(), own.clone());
            async move {
                let mut run = RecordedRun::default();
                for row in session.query(OF_RUN, &[&run_id]).await? {
                    let instance: String = value(&row, 5)?;
                    run.follow(RunRow {
                        event: value(&row, 0)?,
                        user: value::<Option<String>>(&row, 1)?.unwrap_or_default(),
                        tool: value(&row, 2)?,
                        outcome: value(&row, 3)?,
                        details: value(&row, 4)?,
                        elsewhere: (*instance != *own).then_some(instance),
                    });
                }
                Ok(run)
            }
        })
    }

    fn recorded_call(&self, run_id: Uuid) -> Result<Option<String>, StoreError> {
        let run_id = run_id.to_string();
        self.ask(move |session| {
            let run_id = run_id.clone();
            async move {
                let rows = session.query(OF_CALL, &[&run_id]).await?;
                rows.first().map(|row| value(row, 0)).transpose()
            }
        })
    }

    fn logged_runs(&self, run_ids: &[Uuid]) -> Result<Vec<LoggedRun>, StoreError> {
        let run_ids: Vec<String> = run_ids.iter().map(ToString::to_string).collect();
        self.ask(move |session| {
            let run_ids = run_ids.clone();
            async move {
                let mut logged = HashMap::new();
                for row in session.query(LOGGED, &[&run_ids]).await? {
                    let run_id: String = value(&row, 0)?;
                    let (seq, has_ended, is_removed) =
                        (value(&row, 1)?, value(&row, 2)?, value(&row, 3)?);
                    logged.insert(run_id, LoggedRun { seq, has_ended, is_removed });
                }
                let of = |run_id| logged.get(run_id).copied().unwrap_or_default();
                Ok(run_ids.iter().map(of).collect())
            }
        })
    }

    fn runs_with_evidence(
        &self,
        after: i64,
        each: &mut dyn FnMut(Uuid) -> ControlFlow<()>,
    ) -> Result<Option<i64>, StoreError> {
        let mut last = after;
        loop {
            let ends = self.ends_after(last)?;
            for (run_id, details, seq) in &ends {
                last = *seq;
                let evidence = RecordedEvidence::of_end(details);
                if let (RecordedEvidence::Sha256(_), Ok(run_id)) =
                    (evidence, Uuid::try_parse(run_id))
                    && each(run_id).is_break()
                {
                    return Ok(Some(last));
                }
            }
            if ends.len() < RUNS_AT_ONCE {
                return Ok(None);
            }
        }
    }

    fn removed_runs(&self) -> Result<u64, StoreError> {
        let own = self.instance.clone();
        self.ask(move |session| {
            let own = own.clone();
            async move {
                let rows = session.query(REMOVED, &[&&*own]).await?;
                let count: i64 = rows.first().map_or(Ok(0), |row| value(row, 0))?;
                Ok(u64::try_from(count).unwrap_or_default())
            }
        })
    }
}

impl PostgresStore {
    /// Returns the next rows after row `after` that are about the end of a run of this replica. Skips runs whose files
    /// were removed. Each result is a run id, the details, and the row's number.
    fn ends_after(&self, after: i64) -> Result<Vec<(String, String, i64)>, StoreError> {
        let own = self.instance.clone();
        self.ask(move |session| {
            let own = own.clone();
            async move {
                let rows = session.query(WITH_EVIDENCE, &[&&*own, &after]).await?;
                rows.iter()
                    .map(|row| Ok((value(row, 0)?, value(row, 1)?, value(row, 2)?)))
                    .collect()
            }
        })
    }
}
