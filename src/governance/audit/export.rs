//! An export of the audit log, verified on any machine: rows as lines of JSON, without the store.

use std::io::{self, BufRead};

use serde::Serialize;
use thiserror::Error;

use super::rows::AuditRow;
use super::verification::{AuditHash, BrokenRow, Flaw, KnownHead};

/// The longest line: a row has 16 KiB of details at most, each byte of which may be escaped.
const LINE_BYTES_MAX: usize = 256 * 1024;

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ExportVerification {
    pub(crate) rows: u64,
    /// The number of the first row: of an export that goes on from an earlier one, not 1.
    pub(crate) first: Option<i64>,
    /// The hash that the first row follows: the head of the export before this one.
    pub(crate) follows: Option<String>,
    /// The hash of the last row that is as it was written.
    pub(crate) head: Option<String>,
    /// The first row that is not as it was written.
    pub(crate) broken: Option<BrokenRow>,
    /// The place of a head that was noted before, if one was given.
    pub(crate) known_head: Option<KnownHead>,
}

impl ExportVerification {
    pub(crate) fn is_intact(&self) -> bool {
        self.broken.is_none() && self.known_head != Some(KnownHead::Missing)
    }
}

/// The reason why an export cannot be read.
#[derive(Debug, Error)]
pub(crate) enum ExportError {
    #[error("it cannot be read")]
    Read(#[from] io::Error),
    #[error("line {0} is no row of an audit log")]
    NotARow(u64),
}

/// Verifies an export, whose rows have to be next to each other; with `head`, also whether that is the hash of
/// one of them, or what the first of them follows. `each` gets every row.
pub(crate) fn verify_export(
    mut lines: impl BufRead,
    head: Option<&AuditHash>,
    mut each: impl FnMut(&AuditRow),
) -> Result<ExportVerification, ExportError> {
    let known_head = head.map(|_| KnownHead::Missing);
    let mut found = ExportVerification {
        rows: 0,
        first: None,
        follows: None,
        head: None,
        broken: None,
        known_head,
    };
    let mut last: Option<(i64, String)> = None;
    let mut line = Vec::new();
    while read_line(&mut lines, &mut line)? {
        found.rows += 1;
        let not_a_row = |_| ExportError::NotARow(found.rows);
        let row: AuditRow = serde_json::from_slice(&line).map_err(not_a_row)?;
        each(&row);
        if found.first.is_none() {
            found.first = Some(row.seq);
            found.follows = Some(row.previous.clone());
            if head.is_some_and(|head| head.is(&row.previous)) {
                found.known_head = Some(KnownHead::Row(row.seq - 1));
            }
        }
        if found.broken.is_some() {
            continue;
        }
        found.broken = flaw(&row, last.as_ref());
        if found.broken.is_none() {
            if head.is_some_and(|head| head.is(&row.hash)) {
                found.known_head = Some(KnownHead::Row(row.seq));
            }
            found.head = Some(row.hash.clone());
            last = Some((row.seq, row.hash));
        }
    }
    Ok(found)
}

/// Reads a line without its end; false where there is none.
fn read_line(lines: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let bytes_max = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
    let length = io::Read::take(&mut *lines, bytes_max).read_until(b'\n', line)?;
    Ok(length > 0)
}

/// Returns the flaw of a row that follows this one.
fn flaw(row: &AuditRow, last: Option<&(i64, String)>) -> Option<BrokenRow> {
    let seq = row.seq;
    if row.content_hash() != row.hash {
        return Some(BrokenRow { seq, flaw: Flaw::Changed });
    }
    let (before, hash) = last?;
    match seq - before {
        1 if row.previous == *hash => None,
        2.. => Some(BrokenRow { seq: before + 1, flaw: Flaw::Removed }),
        _ => Some(BrokenRow { seq, flaw: Flaw::Inserted }),
    }
}
