//! Queries of the audit log. The module `writer` appends rows.

use std::ops::ControlFlow;
use std::pin::pin;

use futures_util::TryStreamExt as _;
use tokio_postgres::types::ToSql;
use tokio_postgres::{IsolationLevel, Row, Transaction};
use uuid::Uuid;

use super::records::{ALL_TOKENS, recorded};
use super::writer::{HEAD, Job, RUNS_OF_DAY};
use super::{PostgresStore, value};
use crate::audit::AuditPlace;
use crate::audit::NO_HASH;
use crate::audit::{
    AUDIT_ROWS_MAX, AuditEntry, AuditEvent, AuditFilter, AuditHash, AuditRow, AuditVerification,
    DatabaseFlaws, Quota, RunIdStart, UnfinishedRuns, Walk, time_text,
};
use crate::postgres::{Database, DatabaseError};
use crate::store::backend::{AuditLog, RowsAfter};
use crate::store::error::StoreError;
use crate::store::pending::Pending;
use crate::user_name::UserName;

/// The maximum number of rows of a chain that one query returns.
const ROWS_AT_ONCE: usize = 1000;

const FILTERED: &str = "SELECT instance, seq, time, run_id, event, user_name, tool, arguments_hash, \
    outcome, details, previous, hash FROM qwed_mcp.audit \
    WHERE ($1::text IS NULL OR starts_with(run_id, $1)) AND ($2::text IS NULL OR event = $2) \
        AND ($3::text IS NULL OR user_name = $3) AND ($4::text IS NULL OR time >= $4) \
    ORDER BY time DESC, instance DESC, seq DESC LIMIT $5";

const OF_RUN: &str = "SELECT instance, seq, time, run_id, event, user_name, tool, arguments_hash, \
    outcome, details, previous, hash FROM qwed_mcp.audit WHERE run_id = $1 \
    ORDER BY time, instance, seq LIMIT $2";

/// Returns SQL that appends a row and rolls the row back. The row is in a new chain, so the SQL does not block any
/// replica. The values in the SQL contain no quotation marks, so they need no escaping.
fn rehearsal() -> String {
    let row = AuditRow {
        instance: Some(format!("rehearsal {}", Uuid::new_v4())),
        seq: 1,
        time: String::new(),
        run_id: String::new(),
        event: String::new(),
        user: None,
        tool: String::new(),
        arguments_hash: None,
        outcome: String::new(),
        details: String::new(),
        previous: NO_HASH.to_owned(),
        hash: String::new(),
    };
    format!(
        "DO $$ BEGIN
            INSERT INTO qwed_mcp.audit (instance, seq, time, run_id, event, tool, outcome, details, previous, hash)
            VALUES ('{}', 1, '', '', '', '', '', '', '{}', '{}');
            RAISE EXCEPTION SQLSTATE 'QW001';
        EXCEPTION WHEN SQLSTATE 'QW001' THEN NULL;
        END $$",
        row.instance.as_deref().unwrap_or_default(),
        row.previous,
        row.content_hash(),
    )
}

const CHAINS: &str = "SELECT instance FROM qwed_mcp.audit_heads ORDER BY instance";

const OF_CHAIN: &str = "SELECT instance, seq, time, run_id, event, user_name, tool, arguments_hash, \
    outcome, details, previous, hash FROM qwed_mcp.audit \
    WHERE instance = $1 AND seq >= $2 ORDER BY seq LIMIT 1000";

const ALL_ROWS: &str = "SELECT instance, seq, time, run_id, event, user_name, tool, arguments_hash, \
    outcome, details, previous, hash FROM qwed_mcp.audit ORDER BY instance, seq";

const HEADS: &str = "SELECT instance, seq, hash FROM qwed_mcp.audit_heads ORDER BY instance";

const OTHER_HEADS: &str =
    "SELECT seq, hash FROM qwed_mcp.audit_heads WHERE instance <> $1 ORDER BY instance";

const UNFINISHED: &str = "SELECT DISTINCT run_id FROM qwed_mcp.audit AS began \
    WHERE event = 'TOOL_STARTED' AND NOT EXISTS (SELECT FROM qwed_mcp.audit \
            WHERE run_id = began.run_id AND event = 'TOOL_FINISHED') \
        OR outcome = 'WAITING' AND NOT EXISTS (SELECT FROM qwed_mcp.audit \
            WHERE run_id = began.run_id AND instance = began.instance AND seq > began.seq) \
    ORDER BY run_id";

/// The triggers of the tables for the audit log and for tokens.
const TRIGGERS: [&str; 6] = [
    "audit_follows_its_head",
    "audit_heads_are_not_emptied",
    "audit_heads_stay",
    "audit_is_not_changed",
    "audit_is_not_emptied",
    "tokens_are_revoked_once",
];

const FOUND_TRIGGERS: &str = "SELECT tgname::text, tgenabled = 'O' FROM pg_catalog.pg_trigger \
    WHERE NOT tgisinternal AND tgrelid IN ('qwed_mcp.audit'::regclass, 'qwed_mcp.audit_heads'::regclass, \
        'qwed_mcp.tokens'::regclass) \
    ORDER BY tgname";

impl AuditLog for PostgresStore {
    fn submit_entries(&self, entries: Vec<AuditEntry>) -> Pending<AuditPlace> {
        let (reply, pending) = Pending::new();
        self.submit(Job::Append(entries, reply.into()));
        pending
    }

    fn submit_within(&self, entries: Vec<AuditEntry>, quota: Quota) -> Pending<Option<AuditPlace>> {
        let (reply, pending) = Pending::new();
        self.submit(Job::AppendWithin(entries, quota, reply.into()));
        pending
    }

    fn rehearse_append(&self) -> Result<(), StoreError> {
        self.ask(async |session| Ok(session.batch(&rehearsal()).await?))
    }

    #[cfg(test)]
    fn append_at(&self, entry: &AuditEntry, time: &str) -> Result<(), StoreError> {
        let (reply, pending) = Pending::new();
        self.submit(Job::AppendAt(entry.clone(), time.to_owned(), reply.into()));
        pending.wait().map(drop)
    }

    fn runs_of_day(&self, user: &UserName) -> Result<u64, StoreError> {
        let (user, time) = (user.to_string(), time_text(self.clock.now()));
        self.ask(move |session| {
            let (user, day) = (user.clone(), time.get(..10).unwrap_or_default().to_owned());
            async move {
                let rows = session.query(RUNS_OF_DAY, &[&user, &day]).await?;
                let count: i64 = rows.first().map_or(Ok(0), |row| value(row, 0))?;
                Ok(u64::try_from(count).unwrap_or_default())
            }
        })
    }

    fn audit_rows(&self, filter: &AuditFilter) -> Result<Vec<AuditRow>, StoreError> {
        let run_id = filter.run_id.as_ref().map(|start| RunIdStart::as_str(start).to_owned());
        let event = filter.event.map(AuditEvent::as_str);
        let user = filter.user.as_ref().map(ToString::to_string);
        let since = filter.since.map(time_text);
        let limit = i64::from(filter.limit.min(AUDIT_ROWS_MAX));
        self.ask(move |session| {
            let (run_id, user, since) = (run_id.clone(), user.clone(), since.clone());
            async move {
                let parameters: [&(dyn ToSql + Sync); 5] = [&run_id, &event, &user, &since, &limit];
                let rows = session.query(FILTERED, &parameters).await?;
                rows.iter().rev().map(read_row).collect()
            }
        })
    }

    fn rows_of_run(&self, run_id: Uuid) -> Result<Vec<AuditRow>, StoreError> {
        let run_id = run_id.to_string();
        self.ask(move |session| {
            let run_id = run_id.clone();
            async move {
                let limit = i64::from(AUDIT_ROWS_MAX);
                session.query(OF_RUN, &[&run_id, &limit]).await?.iter().map(read_row).collect()
            }
        })
    }

    fn for_each_row_after(
        &self,
        after: &RowsAfter,
        each: &mut dyn FnMut(AuditRow) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let chains: Vec<String> = self.ask(async |session| {
            session.query(CHAINS, &[]).await?.iter().map(|row| value(row, 0)).collect()
        })?;
        for instance in chains {
            let mut next = after.next_of(Some(&instance));
            while let Some(first) = next {
                let rows = self.rows_of(&instance, first)?;
                let is_last = rows.len() < ROWS_AT_ONCE;
                for row in rows {
                    next = row.seq.checked_add(1);
                    if each(row).is_break() {
                        return Ok(());
                    }
                }
                if is_last {
                    break;
                }
            }
        }
        Ok(())
    }

    fn audit_head(&self) -> Result<Option<AuditPlace>, StoreError> {
        let own = self.instance.clone();
        self.ask(move |session| {
            let own = own.clone();
            async move {
                let rows = session.query(HEAD, &[&&*own]).await?;
                let place = |row| Ok(AuditPlace { seq: value(row, 0)?, hash: value(row, 1)? });
                rows.first().map(place).transpose()
            }
        })
    }

    fn other_heads(&self) -> Result<Vec<AuditPlace>, StoreError> {
        let own = self.instance.clone();
        self.ask(move |session| {
            let own = own.clone();
            async move {
                let rows = session.query(OTHER_HEADS, &[&&*own]).await?;
                let place = |row| Ok(AuditPlace { seq: value(row, 0)?, hash: value(row, 1)? });
                rows.iter().map(place).collect()
            }
        })
    }

    fn verify_audit(&self, known: &[AuditHash]) -> Result<AuditVerification, StoreError> {
        let known = known.to_vec();
        self.ask_database(async move |database| verify(&database, &known).await)
    }
}

impl PostgresStore {
    /// Returns at most [`ROWS_AT_ONCE`] rows of a chain, in order, from row `first` on.
    fn rows_of(&self, instance: &str, first: i64) -> Result<Vec<AuditRow>, StoreError> {
        let instance = instance.to_owned();
        self.ask(move |session| {
            let instance = instance.clone();
            async move {
                let rows = session.query(OF_CHAIN, &[&instance, &first]).await?;
                rows.iter().map(read_row).collect()
            }
        })
    }
}

/// Verifies all chains in one snapshot.
async fn verify(database: &Database, known: &[AuditHash]) -> Result<AuditVerification, StoreError> {
    let mut exclusive = database.exclusive().await?;
    let session = exclusive.session().ok_or(StoreError::GivenUp)?;
    let begun = session.client_mut().build_transaction();
    let begun = begun.isolation_level(IsolationLevel::RepeatableRead).read_only(true).start().await;
    let transaction = begun.map_err(DatabaseError::Statement)?;
    // Disable the timeout, because verifying a long log takes longer than the timeout of other statements.
    let unbounded = transaction.batch_execute("SET LOCAL statement_timeout = 0").await;
    unbounded.map_err(DatabaseError::Statement)?;
    let mut walks = walk(&transaction, known).await?;
    let mut heads = Vec::new();
    for head in rows(&transaction, HEADS).await? {
        let (instance, seq, hash): (String, i64, String) =
            (value(&head, 0)?, value(&head, 1)?, value(&head, 2)?);
        if !walks.iter().any(|(of, _)| *of == instance) {
            walks.push((instance.clone(), Walk::new(known)));
        }
        heads.push((instance, seq, hash));
    }
    for (instance, walk) in &mut walks {
        let head = heads.iter().find(|(of, ..)| of == instance);
        walk.end(head.map(|(_, seq, hash)| (*seq, hash.clone())));
    }
    walks.sort_by(|(one, _), (other, _)| one.cmp(other));
    let is_comparable = walks.iter().all(|(_, walk)| walk.broken.is_none());
    let table =
        rows(&transaction, ALL_TOKENS).await?.iter().map(recorded).collect::<Result<_, _>>()?;
    let table = is_comparable.then_some(table);
    let mut unfinished = UnfinishedRuns::default();
    for row in rows(&transaction, UNFINISHED).await? {
        unfinished.add(value(&row, 0)?);
    }
    let database = DatabaseFlaws { damage: Vec::new(), schema: schema_flaws(&transaction).await? };
    Ok(AuditVerification::of_instances(walks, table, unfinished, database))
}

/// Verifies all rows, and returns the state of each chain.
async fn walk(
    transaction: &Transaction<'_>,
    known: &[AuditHash],
) -> Result<Vec<(String, Walk)>, StoreError> {
    let mut walks: Vec<(String, Walk)> = Vec::new();
    let rows = transaction.query_raw(ALL_ROWS, std::iter::empty::<&str>()).await;
    let mut rows = pin!(rows.map_err(DatabaseError::Statement)?);
    while let Some(row) = rows.try_next().await.map_err(DatabaseError::Statement)? {
        let row = read_row(&row)?;
        let instance = row.instance.clone().unwrap_or_default();
        match walks.last_mut() {
            Some((of, walk)) if *of == instance => walk.follow(row),
            Some(_) | None => {
                let mut walk = Walk::new(known);
                walk.follow(row);
                walks.push((instance, walk));
            }
        }
    }
    Ok(walks)
}

/// Returns the triggers that are missing, disabled or unknown.
async fn schema_flaws(transaction: &Transaction<'_>) -> Result<Vec<String>, StoreError> {
    let mut missing: Vec<&str> = TRIGGERS.to_vec();
    let mut flaws = Vec::new();
    for row in rows(transaction, FOUND_TRIGGERS).await? {
        let (name, is_enabled): (String, bool) = (value(&row, 0)?, value(&row, 1)?);
        let known = missing.iter().position(|known| *known == name);
        match known.map(|at| missing.remove(at)) {
            None => flaws.push(format!("the trigger {name} was not made by this program")),
            Some(_) if !is_enabled => flaws.push(format!("the trigger {name} was disabled")),
            Some(_) => {}
        }
    }
    flaws.extend(missing.into_iter().map(|name| format!("the trigger {name} is missing")));
    Ok(flaws)
}

async fn rows(transaction: &Transaction<'_>, sql: &str) -> Result<Vec<Row>, StoreError> {
    Ok(transaction.query(sql, &[]).await.map_err(DatabaseError::Statement)?)
}

fn read_row(row: &Row) -> Result<AuditRow, StoreError> {
    Ok(AuditRow {
        instance: Some(value(row, 0)?),
        seq: value(row, 1)?,
        time: value(row, 2)?,
        run_id: value(row, 3)?,
        event: value(row, 4)?,
        user: value(row, 5)?,
        tool: value(row, 6)?,
        arguments_hash: value(row, 7)?,
        outcome: value(row, 8)?,
        details: value(row, 9)?,
        previous: value(row, 10)?,
        hash: value(row, 11)?,
    })
}
