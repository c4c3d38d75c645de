//! Checkpoints: signed heads of the audit log, stored where a program that changes the log cannot reach them. This
//! module never changes the log.
//!
//! The file has a line for each checkpoint. If the log was rewritten, or cut off before a signed row, that row is
//! missing.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead};

use serde::Serialize;

use super::{PublicKeys, SignedHead, verify_head};
use crate::ledger::AuditRow;

/// The longest line, in bytes. A signed head has less than a kilobyte.
const LINE_BYTES_MAX: u64 = 16 * 1024;
/// The most checkpoints: one a minute for almost two years.
const LINES_MAX: u64 = 1_000_000;
/// The most flaws that are named.
const FLAWS_NAMED_MAX: usize = 20;

/// The result of comparing a log with its checkpoints.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct CheckpointVerification {
    /// The checkpoints of rows that are in the log as they were signed.
    pub(crate) same: u64,
    /// The checkpoints of rows before the first row of an export.
    pub(crate) earlier: u64,
    /// The last row that is as it was signed.
    pub(crate) last: Option<i64>,
    /// The time at which that row was signed.
    pub(crate) last_signed: Option<String>,
    /// The rows after the last signed row, which no checkpoint covers.
    pub(crate) rows_behind: u64,
    /// The checkpoints that are not valid, or do not fit the log.
    pub(crate) flawed: u64,
    /// Descriptions of the first flaws.
    pub(crate) flaws: Vec<String>,
}

impl CheckpointVerification {
    /// Returns whether the log has every signed row, and at least one row was signed.
    pub(crate) fn is_intact(&self) -> bool {
        self.flawed == 0 && self.same > 0
    }

    fn flaw(&mut self, text: String) {
        self.flawed += 1;
        if self.flaws.len() < FLAWS_NAMED_MAX {
            self.flaws.push(text);
        }
    }
}

/// Signed heads, while they are compared with the rows of a log, in the order of the rows.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    /// The heads by the number of the row, each with its line in the file.
    heads: BTreeMap<i64, Vec<(u64, SignedHead)>>,
    first_row: Option<i64>,
    /// The number of rows of each chain after its last signed row.
    behind: HashMap<Option<String>, u64>,
    found: CheckpointVerification,
}

impl Checkpoints {
    /// Reads the lines of a file, and verifies each with these keys.
    pub(crate) fn read(mut lines: impl BufRead, keys: &PublicKeys) -> io::Result<Self> {
        let mut checkpoints = Self::default();
        let mut line = Vec::new();
        for number in 1..=LINES_MAX {
            line.clear();
            if io::Read::take(&mut lines, LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
                return Ok(checkpoints);
            }
            match verify_head(&line, keys) {
                Ok(head) => {
                    let heads = checkpoints.heads.entry(head.place.seq).or_default();
                    heads.push((number, head));
                }
                Err(error) => checkpoints.found.flaw(format!("checkpoint {number}: {error}")),
            }
        }
        Err(io::ErrorKind::FileTooLarge.into())
    }

    /// Compares the next row of the log with its checkpoints.
    pub(crate) fn see(&mut self, row: &AuditRow) {
        let first = self.first_row.get_or_insert(row.seq);
        *first = row.seq.min(*first);
        let behind = self.behind.entry(row.instance.clone()).or_default();
        *behind += 1;
        // Several chains may have this number, so only the hash identifies the row that was signed.
        let is_of_row = |head: &SignedHead| row.instance.is_none() || head.place.hash == row.hash;
        let heads = self.heads.remove(&row.seq).unwrap_or_default();
        let (heads, others): (Vec<_>, Vec<_>) =
            heads.into_iter().partition(|(_, head)| is_of_row(head));
        if !others.is_empty() {
            self.heads.insert(row.seq, others);
        }
        for (line, head) in heads {
            let (seq, time) = (row.seq, head.created_on.to_rfc3339());
            if head.place.hash == row.hash {
                self.found.same += 1;
                *behind = 0;
                self.found.last = Some(seq);
                self.found.last_signed = Some(time);
            } else {
                self.found.flaw(format!(
                    "checkpoint {line}: row {seq} is not the one that was signed at {time}"
                ));
            }
        }
    }

    /// Returns the result, once every row was compared.
    pub(crate) fn verification(self) -> CheckpointVerification {
        let Self { heads, first_row, behind, mut found } = self;
        found.rows_behind = behind.into_values().sum();
        for (seq, heads) in heads {
            if first_row.is_some_and(|first| seq < first && first > 1) {
                found.earlier += u64::try_from(heads.len()).unwrap_or(u64::MAX);
                continue;
            }
            for (line, head) in heads {
                let time = head.created_on.to_rfc3339();
                found.flaw(format!(
                    "checkpoint {line}: row {seq}, which was signed at {time}, is missing"
                ));
            }
        }
        found
    }
}
