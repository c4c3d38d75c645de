//! Verifies an exported audit log, without access to the store. An export is a file with one JSON object per row.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use serde::Serialize;
use thiserror::Error;

use super::rows::AuditRow;
use super::verification::{AuditHash, BrokenRow, Flaw, KnownHead, KnownHeads};

/// The maximum length of a line of an export, in bytes. A row has at most 16 KiB of details. JSON escapes can make the
/// details several times as long.
const LINE_BYTES_MAX: usize = 256 * 1024;

/// The result of verifying an export.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ExportVerification {
    pub rows: u64,
    /// The chain of the rows that do not name a replica. An embedded store has only this chain.
    #[serde(flatten)]
    pub chain: ExportedChain,
    /// The position of the latest head that the admin passed, or [`KnownHead::Missing`] if at least one of the passed
    /// heads was not found. `None` if no heads were passed. A head is the hash of a chain's last row at some time.
    pub known_head: Option<KnownHead>,
    /// The chain of each replica, by the replica's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub instances: BTreeMap<String, ExportedChain>,
}

/// The part of a chain that an export contains.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ExportedChain {
    /// The number of the first row. The number is greater than 1 if the export continues an earlier export.
    pub first: Option<i64>,
    /// The value of `previous` in the first row. If this export continues an earlier export, the value is the `head` of
    /// the earlier export.
    pub follows: Option<String>,
    /// The hash of the last intact row.
    pub head: Option<String>,
    /// The first row that is not intact.
    pub broken: Option<BrokenRow>,
    /// The number of the row with the hash `head`.
    #[serde(skip)]
    last: i64,
}

impl ExportVerification {
    pub fn is_intact(&self) -> bool {
        self.chain.broken.is_none()
            && self.instances.values().all(|chain| chain.broken.is_none())
            && self.known_head != Some(KnownHead::Missing)
    }
}

/// The reason why an export cannot be read.
#[derive(Debug, Error)]
pub enum ExportError {
    #[error("it cannot be read")]
    Read(#[from] io::Error),
    #[error("line {0} is not a row of an audit log")]
    NotARow(u64),
}

/// Verifies an export, and calls `each` with every row. In an intact export, the rows of each chain are consecutive.
/// Each of `heads` is the hash of a row, or the `previous` of a chain's first row.
pub fn verify_export(
    mut lines: impl BufRead,
    heads: &[AuditHash],
    mut each: impl FnMut(&AuditRow),
) -> Result<ExportVerification, ExportError> {
    let mut known = KnownHeads::new(heads);
    let mut found = ExportVerification::default();
    let mut line = Vec::new();
    while read_line(&mut lines, &mut line)? {
        found.rows += 1;
        let not_a_row = |_| ExportError::NotARow(found.rows);
        let row: AuditRow = serde_json::from_slice(&line).map_err(not_a_row)?;
        each(&row);
        let chain = match &row.instance {
            Some(instance) => found.instances.entry(instance.clone()).or_default(),
            None => &mut found.chain,
        };
        chain.follow(row, &mut known);
    }
    found.known_head = known.place();
    Ok(found)
}

impl ExportedChain {
    fn follow(&mut self, row: AuditRow, known: &mut KnownHeads) {
        if self.first.is_none() {
            self.first = Some(row.seq);
            self.follows = Some(row.previous.clone());
            known.follow(row.seq.saturating_sub(1), &row.previous);
        }
        if self.broken.is_some() {
            return;
        }
        self.broken = self.flaw(&row);
        if self.broken.is_none() {
            known.follow(row.seq, &row.hash);
            self.last = row.seq;
            self.head = Some(row.hash);
        }
    }

    /// Verifies the next row of the chain. Returns the flaw, or `None` if the row is intact.
    fn flaw(&self, row: &AuditRow) -> Option<BrokenRow> {
        let seq = row.seq;
        if row.content_hash() != row.hash {
            return Some(BrokenRow { seq, flaw: Flaw::Changed });
        }
        let hash = self.head.as_ref()?;
        match seq.saturating_sub(self.last) {
            1 if row.previous == *hash => None,
            2.. => Some(BrokenRow { seq: self.last + 1, flaw: Flaw::Removed }),
            _ => Some(BrokenRow { seq, flaw: Flaw::Inserted }),
        }
    }
}

/// Reads the next line, or the first [`LINE_BYTES_MAX`] bytes of a longer line. Returns `false` at the end of the file.
fn read_line(lines: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let bytes_max = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
    let length = io::Read::take(&mut *lines, bytes_max).read_until(b'\n', line)?;
    Ok(length > 0)
}
