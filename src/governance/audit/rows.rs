//! Rows of the audit log, as they are read.

use std::ops::ControlFlow;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use rusqlite::types::ValueRef;
use rusqlite::{Row, params};
use serde::{Deserialize, Serialize};
use serde_json::json;
use thiserror::Error;
use uuid::Uuid;

use super::{AuditEvent, canonical_json, sha256_hex};
use crate::governance::store::{Store, StoreError, time_text};
use crate::governance::user_name::UserName;

/// The most rows that are held in memory at once.
pub(crate) const AUDIT_ROWS_MAX: u16 = 10_000;

/// All columns, in the order of [`AuditRow`].
const COLUMNS: &str = "seq, time, run_id, event, user, tool, arguments_hash, outcome, details, \
                       previous, hash";

/// A row as it is in the log, whatever was done to it: nothing is parsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditRow {
    pub(crate) seq: i64,
    pub(crate) time: String,
    pub(crate) run_id: String,
    pub(crate) event: String,
    pub(crate) user: Option<String>,
    pub(crate) tool: String,
    pub(crate) arguments_hash: Option<String>,
    pub(crate) outcome: String,
    /// The text of a JSON object, of which the hash is taken as it stands.
    pub(crate) details: String,
    pub(crate) previous: String,
    pub(crate) hash: String,
}

impl AuditRow {
    /// Computes the hash of the content, which `hash` has to be.
    pub(in crate::governance) fn content_hash(&self) -> String {
        let mut content = json!(self);
        if let Some(fields) = content.as_object_mut() {
            fields.remove("hash");
        }
        sha256_hex(&canonical_json(&content))
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
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
            hash: text(row, 10)?,
        })
    }
}

/// A run id, or its start: the list shows no more than the first eight digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunIdStart(String);

/// A text that no run id starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a run id is a UUID, of which the first eight digits are enough")]
pub(crate) struct InvalidRunIdStart;

impl FromStr for RunIdStart {
    type Err = InvalidRunIdStart;

    fn from_str(text: &str) -> Result<Self, InvalidRunIdStart> {
        let pattern = "00000000-0000-0000-0000-000000000000";
        let is_like = |(found, like): (char, char)| match like {
            '-' => found == '-',
            _ => found.is_ascii_hexdigit(),
        };
        let is_start = (8..=pattern.len()).contains(&text.len());
        (is_start && text.chars().zip(pattern.chars()).all(is_like))
            .then(|| Self(text.to_ascii_lowercase()))
            .ok_or(InvalidRunIdStart)
    }
}

impl From<Uuid> for RunIdStart {
    fn from(run_id: Uuid) -> Self {
        Self(run_id.to_string())
    }
}

/// A filter of rows; `None` lets all through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AuditFilter {
    /// The number of the latest rows, at most [`AUDIT_ROWS_MAX`].
    pub(crate) limit: u16,
    pub(crate) run_id: Option<RunIdStart>,
    pub(crate) event: Option<AuditEvent>,
    pub(crate) user: Option<UserName>,
    pub(crate) since: Option<DateTime<Utc>>,
}

impl Store {
    /// Returns the latest rows that `filter` lets through, the oldest of them first.
    pub(crate) fn audit_rows(&self, filter: &AuditFilter) -> Result<Vec<AuditRow>, StoreError> {
        self.read(|transaction| {
            let mut select = transaction.prepare(&format!(
                "SELECT {COLUMNS} FROM audit
                 WHERE (?1 IS NULL OR substr(run_id, 1, length(?1)) = ?1) AND (?2 IS NULL OR event = ?2)
                     AND (?3 IS NULL OR user = ?3) AND (?4 IS NULL OR time >= ?4)
                 ORDER BY seq DESC LIMIT ?5"
            ))?;
            let parameters = params![
                filter.run_id.as_ref().map(|start| start.0.as_str()),
                filter.event.map(AuditEvent::as_str),
                filter.user.as_ref().map(UserName::as_str),
                filter.since.map(time_text),
                filter.limit.min(AUDIT_ROWS_MAX),
            ];
            let rows = select.query_map(parameters, AuditRow::read)?;
            let mut rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
            rows.reverse();
            Ok(rows)
        })
    }

    /// Passes the rows behind that of this number on, in their order, until `each` breaks off.
    pub(crate) fn for_each_row_after(
        &self,
        seq: i64,
        mut each: impl FnMut(AuditRow) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.read(|transaction| for_each_after(transaction, seq, &mut each))
    }
}

pub(super) fn for_each(
    transaction: &rusqlite::Transaction<'_>,
    each: impl FnMut(AuditRow) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    // Whatever the first one was changed to.
    for_each_after(transaction, i64::MIN, each)
}

fn for_each_after(
    transaction: &rusqlite::Transaction<'_>,
    seq: i64,
    mut each: impl FnMut(AuditRow) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    let select = format!("SELECT {COLUMNS} FROM audit WHERE seq > ?1 ORDER BY seq");
    let mut select = transaction.prepare(&select)?;
    let mut rows = select.query([seq])?;
    while let Some(row) = rows.next()? {
        if each(AuditRow::read(row)?).is_break() {
            break;
        }
    }
    Ok(())
}

/// Returns a text for bytes that are no text, different from what was hashed, whatever they are.
fn no_text(bytes: &[u8]) -> String {
    format!("{}{}", char::REPLACEMENT_CHARACTER, String::from_utf8_lossy(bytes))
}

/// Reads a text, also one that was changed to something that is none: the chain tells of that.
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
        // The same bytes as another type: SQL no longer finds the row by them.
        ValueRef::Blob(bytes) => Some(no_text(bytes)),
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
    })
}
