//! Appends rows at the end of the chain.

use chrono::Utc;
use rusqlite::{Transaction, params};

use crate::audit::AuditPlace;
use crate::audit::{AuditEntry, AuditRow, time_text};

/// Appends entries, and returns the number and the hash of the last row.
pub(super) fn append(
    transaction: &Transaction<'_>,
    entries: &[AuditEntry],
) -> rusqlite::Result<AuditPlace> {
    append_at(transaction, entries, || time_text(Utc::now()))
}

pub(super) fn append_at(
    transaction: &Transaction<'_>,
    entries: &[AuditEntry],
    time: impl Fn() -> String,
) -> rusqlite::Result<AuditPlace> {
    let (mut seq, mut previous): (i64, String) =
        transaction.query_row("SELECT seq, hash FROM audit_head", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let mut insert = transaction.prepare(
        "INSERT INTO audit (seq, time, run_id, event, user, tool, arguments_hash, outcome, details,
                            previous, hash)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    let mut move_head = transaction.prepare("UPDATE audit_head SET seq = ?1, hash = ?2")?;
    for entry in entries {
        seq += 1;
        let row = AuditRow::of(entry, seq, time(), previous);
        insert.execute(params![
            row.seq,
            row.time,
            row.run_id,
            row.event,
            row.user,
            row.tool,
            row.arguments_hash,
            row.outcome,
            row.details,
            row.previous,
            row.hash
        ])?;
        move_head.execute(params![row.seq, row.hash])?;
        previous = row.hash;
    }
    Ok(AuditPlace { seq, hash: previous })
}
