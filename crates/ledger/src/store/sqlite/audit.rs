//! Queries of the audit log.

use std::ops::ControlFlow;

use chrono::Utc;
use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension as _, Row, Transaction, params};
use uuid::Uuid;

use super::SqliteStore;
use super::chain::append;
#[cfg(test)]
use super::chain::append_at;
use super::database::flaws;
use super::tokens::recorded_tokens;
use crate::audit::AuditPlace;
use crate::audit::RUN_PYTEST;
use crate::audit::{
    AUDIT_ROWS_MAX, AuditEntry, AuditEvent, AuditFilter, AuditHash, AuditOutcome, AuditRow,
    AuditVerification, Quota, RunIdStart, UnfinishedRuns, Walk, time_text,
};
use crate::store::backend::{AuditLog, RowsAfter};
use crate::store::error::StoreError;
use crate::store::pending::Pending;
use crate::user_name::UserName;

/// All columns of the audit log, in the order of [`AuditRow`].
const COLUMNS: &str = "seq, time, run_id, event, user, tool, arguments_hash, outcome, details, \
                       previous, hash";

impl AuditLog for SqliteStore {
    fn submit_entries(&self, entries: Vec<AuditEntry>) -> Pending<AuditPlace> {
        self.submit(move |transaction| append(transaction, &entries))
    }

    fn submit_within(&self, entries: Vec<AuditEntry>, quota: Quota) -> Pending<Option<AuditPlace>> {
        self.submit(move |transaction| {
            if runs_of_day(transaction, &quota.user)? >= quota.runs_max {
                return Ok(None);
            }
            append(transaction, &entries).map(Some)
        })
    }

    fn rehearse_append(&self) -> Result<(), StoreError> {
        self.write(|transaction| {
            transaction.execute_batch("SAVEPOINT rehearsal")?;
            append(transaction, &[AuditEntry::rehearsal()])?;
            transaction.execute_batch("ROLLBACK TO rehearsal; RELEASE rehearsal")?;
            // Setting the version to its current value changes nothing, but makes SQLite write to the disk.
            let version = crate::store::error::SCHEMA_VERSION;
            transaction.pragma_update(None, "user_version", version)
        })
    }

    #[cfg(test)]
    fn append_at(&self, entry: &AuditEntry, time: &str) -> Result<(), StoreError> {
        let (entries, time) = (vec![entry.clone()], time.to_owned());
        self.write(move |transaction| append_at(transaction, &entries, || time.clone()).map(drop))
    }

    fn runs_of_day(&self, user: &UserName) -> Result<u64, StoreError> {
        self.read(|transaction| runs_of_day(transaction, user))
    }

    fn audit_rows(&self, filter: &AuditFilter) -> Result<Vec<AuditRow>, StoreError> {
        self.read(|transaction| {
            let mut select = transaction.prepare(&format!(
                "SELECT {COLUMNS} FROM audit
                 WHERE (?1 IS NULL OR substr(run_id, 1, length(?1)) = ?1) AND (?2 IS NULL OR event = ?2)
                     AND (?3 IS NULL OR user = ?3) AND (?4 IS NULL OR time >= ?4)
                 ORDER BY seq DESC LIMIT ?5"
            ))?;
            let parameters = params![
                filter.run_id.as_ref().map(RunIdStart::as_str),
                filter.event.map(AuditEvent::as_str),
                filter.user.as_ref().map(UserName::as_str),
                filter.since.map(time_text),
                filter.limit.min(AUDIT_ROWS_MAX),
            ];
            let rows = select.query_map(parameters, read_row)?;
            let mut rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
            rows.reverse();
            Ok(rows)
        })
    }

    fn rows_of_run(&self, run_id: Uuid) -> Result<Vec<AuditRow>, StoreError> {
        self.read(|transaction| {
            let select =
                format!("SELECT {COLUMNS} FROM audit WHERE run_id = ?1 ORDER BY seq LIMIT ?2");
            let mut select = transaction.prepare(&select)?;
            let rows = select.query_map(params![run_id.to_string(), AUDIT_ROWS_MAX], read_row)?;
            rows.collect()
        })
    }

    fn for_each_row_after(
        &self,
        after: &RowsAfter,
        each: &mut dyn FnMut(AuditRow) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let Some(first) = after.next_of(None) else { return Ok(()) };
        self.read(|transaction| for_each_from(transaction, first, each))
    }

    fn audit_head(&self) -> Result<Option<AuditPlace>, StoreError> {
        let head = self.read(|transaction| {
            transaction.query_row("SELECT seq, hash FROM audit_head", [], |row| {
                Ok(AuditPlace { seq: row.get(0)?, hash: row.get(1)? })
            })
        })?;
        Ok(Some(head).filter(|head| head.seq > 0))
    }

    fn other_heads(&self) -> Result<Vec<AuditPlace>, StoreError> {
        Ok(Vec::new())
    }

    fn verify_audit(&self, known: &[AuditHash]) -> Result<AuditVerification, StoreError> {
        let database = flaws(self)?;
        self.read(|transaction| {
            let mut walk = Walk::new(known);
            // An attacker may have changed the number of the first row, so start at the smallest possible number.
            for_each_from(transaction, i64::MIN, &mut |row| {
                walk.follow(row);
                ControlFlow::Continue(())
            })?;
            let head = transaction.query_row("SELECT seq, hash FROM audit_head", [], |row| {
                Ok((row.get(0)?, text(row, 1)?))
            });
            walk.end(head.optional()?);
            // If the database is damaged, do not read the tokens. The damage is already reported, and reading would
            // fail.
            let is_comparable = walk.broken.is_none() && database.damage.is_empty();
            let table = is_comparable.then(|| recorded_tokens(transaction)).transpose()?;
            Ok(AuditVerification::of(walk, table, unfinished(transaction)?, database))
        })
    }
}

fn runs_of_day(transaction: &Transaction<'_>, user: &UserName) -> rusqlite::Result<u64> {
    let time = time_text(Utc::now());
    let day = time.get(..10).unwrap_or_default();
    // Read backwards, because today's rows are at the end of the log.
    let mut select = transaction
        .prepare("SELECT time, event, user, tool, outcome FROM audit ORDER BY seq DESC")?;
    let mut rows = select.query([])?;
    let (tool, event) = (RUN_PYTEST, AuditEvent::McpToolCall.as_str());
    let mut count = 0;
    while let Some(row) = rows.next()? {
        if *text(row, 0)? < *day {
            break;
        }
        let is_theirs = row.get::<_, Option<String>>(2)?.as_deref() == Some(user.as_str());
        let is_run = text(row, 1)? == event
            && text(row, 3)? == tool
            && text(row, 4)? == AuditOutcome::ALLOWED.as_str();
        count += u64::from(is_theirs && is_run);
    }
    Ok(count)
}

fn unfinished(transaction: &Transaction<'_>) -> rusqlite::Result<UnfinishedRuns> {
    let mut select = transaction.prepare(
        "SELECT DISTINCT run_id FROM audit AS began
         WHERE event = ?1
                 AND NOT EXISTS (SELECT 1 FROM audit WHERE run_id = began.run_id AND event = ?2)
             OR outcome = ?3
                 AND NOT EXISTS (SELECT 1 FROM audit WHERE run_id = began.run_id AND seq > began.seq)",
    )?;
    let (started, finished) = (AuditEvent::ToolStarted, AuditEvent::ToolFinished);
    let words = [started.as_str(), finished.as_str(), AuditOutcome::WAITING.as_str()];
    let mut unfinished = UnfinishedRuns::default();
    let mut rows = select.query(words)?;
    while let Some(row) = rows.next()? {
        unfinished.add(text(row, 0)?);
    }
    Ok(unfinished)
}

fn for_each_from(
    transaction: &Transaction<'_>,
    first: i64,
    each: &mut dyn FnMut(AuditRow) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    let select = format!("SELECT {COLUMNS} FROM audit WHERE seq >= ?1 ORDER BY seq");
    let mut select = transaction.prepare(&select)?;
    let mut rows = select.query([first])?;
    while let Some(row) = rows.next()? {
        if each(read_row(row)?).is_break() {
            break;
        }
    }
    Ok(())
}

/// Returns a text for a value that is a blob or invalid UTF-8. The added U+FFFD makes it differ from the original text,
/// so verification finds that the row's hash is wrong.
fn no_text(bytes: &[u8]) -> String {
    format!("{}{}", char::REPLACEMENT_CHARACTER, String::from_utf8_lossy(bytes))
}

/// Reads a text, even if a value of another type has replaced the text. Verification of the chain reveals such a
/// change.
pub(super) fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(optional_text(row, column)?.unwrap_or_default())
}

fn optional_text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => None,
        ValueRef::Text(bytes) => Some(match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => no_text(bytes),
        }),
        // Verification must report a blob, because queries miss it: in SQL, a blob never equals a text with the same
        // bytes.
        ValueRef::Blob(bytes) => Some(no_text(bytes)),
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
    })
}

/// Reads a row. If a column does not contain a text, the hash in the result is invalid, so verification finds the
/// change.
fn read_row(row: &Row<'_>) -> rusqlite::Result<AuditRow> {
    let mut hash = text(row, 10)?;
    for column in 1..=10 {
        if !is_text(row.get_ref(column)?) {
            hash = String::new();
        }
    }
    Ok(AuditRow {
        instance: None,
        seq: row.get(0)?,
        time: text(row, 1)?,
        run_id: text(row, 2)?,
        event: text(row, 3)?,
        user: optional_text(row, 4)?,
        tool: text(row, 5)?,
        arguments_hash: optional_text(row, 6)?,
        outcome: text(row, 7)?,
        details: text(row, 8)?,
        previous: text(row, 9)?,
        hash,
    })
}

fn is_text(value: ValueRef<'_>) -> bool {
    value == ValueRef::Null || value.as_str().is_ok()
}
