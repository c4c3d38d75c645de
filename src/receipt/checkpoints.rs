//! Checkpoints: signed heads of the audit log. The admin stores them out of reach of programs that could change the
//! log. This module never changes the log.
//!
//! The file has one line for each checkpoint. A checkpoint proves that its row was in the log. If the log was rewritten
//! from an earlier row on, or was cut off, the comparison finds that this row differs or is missing.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead};

use serde::Serialize;

use super::{PublicKeys, SignedHead, verify_head};
use crate::ledger::AuditRow;

/// The maximum length of a line, in bytes. A signed head is smaller than a kilobyte.
const LINE_BYTES_MAX: u64 = 16 * 1024;
/// The limit for the number of lines in the file. With one checkpoint a minute, a file reaches this limit after
/// almost two years.
const LINES_MAX: u64 = 1_000_000;
/// The maximum number of flaws that are described.
const FLAWS_NAMED_MAX: usize = 20;

/// The result of comparing a log with its checkpoints.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct CheckpointVerification {
    /// The number of checkpoints with an unchanged row in the log.
    pub(crate) same: u64,
    /// The number of checkpoints for rows that an export does not contain, because these rows are before its first row.
    pub(crate) earlier: u64,
    /// The number of the last signed row that is unchanged in the log.
    pub(crate) last: Option<i64>,
    /// The time at which the row `last` was signed.
    pub(crate) last_signed: Option<String>,
    /// The number of rows after the last signed row. No checkpoint covers these rows.
    pub(crate) rows_behind: u64,
    /// The number of checkpoints that are invalid, or that have a missing or changed row.
    pub(crate) flawed: u64,
    /// Descriptions of the first flaws, up to the maximum number.
    pub(crate) flaws: Vec<String>,
}

impl CheckpointVerification {
    /// Returns whether every signed row is unchanged in the log. Returns `false` if no row was signed.
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

/// The signed heads of a file, during their comparison with the rows of a log.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    /// The heads that were not compared yet, by the number of their row. The first value of each pair is the number
    /// of the head's line in the file.
    heads: BTreeMap<i64, Vec<(u64, SignedHead)>>,
    first_row: Option<i64>,
    /// For each chain (one for each replica), the number of rows after its last signed row.
    behind: HashMap<Option<String>, u64>,
    found: CheckpointVerification,
}

impl Checkpoints {
    /// Reads a file of checkpoints, and verifies each line with `keys`.
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

    /// Compares the next row of the log with the checkpoints of this row.
    pub(crate) fn compare_row(&mut self, row: &AuditRow) {
        let first = self.first_row.get_or_insert(row.seq);
        *first = row.seq.min(*first);
        let behind = self.behind.entry(row.instance.clone()).or_default();
        *behind += 1;
        // A log with several chains may have several rows with this number. Then only the hash identifies the row
        // that was signed.
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
                    "checkpoint {line}: row {seq} differs from the row that was signed at {time}"
                ));
            }
        }
    }

    /// Returns the result. Must be called after every row of the log was compared.
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
