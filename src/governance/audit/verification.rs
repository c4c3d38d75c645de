//! The verification of the audit log.

use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;

use chrono::{DateTime, TimeDelta, Utc};
use rusqlite::{OptionalExtension as _, Transaction};
use serde::Serialize;
use thiserror::Error;

use super::database::DatabaseFlaws;
use super::rows::{AuditRow, for_each, text};
use super::tokens::{RecordedTokens, TokenComparison};
use super::{AuditEvent, AuditOutcome, NO_HASH};
use crate::governance::store::{Store, StoreError};

/// The runs without an end that are named.
const RUNS_NAMED_MAX: usize = 100;

/// The step back of the clock that is reported, from one row to the next. Less than that is how
/// clocks are kept right.
const CLOCK_STEP_MAX: TimeDelta = TimeDelta::seconds(5);
/// The rows of that kind that are named.
const CLOCK_STEPS_NAMED_MAX: usize = 20;

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct AuditVerification {
    pub(crate) rows: u64,
    /// The hash of the last row that is as it was written. To note it elsewhere is what makes a
    /// log safe from who can write its file.
    pub(crate) head: String,
    /// The first row that is not as it was written.
    pub(crate) broken: Option<BrokenRow>,
    /// The place of a head that was noted before, if one was given.
    pub(crate) known_head: Option<KnownHead>,
    pub(crate) unfinished: UnfinishedRuns,
    /// The tokens; none where the chain is broken or the file is damaged: then nothing is a
    /// witness.
    pub(crate) tokens: Option<TokenComparison>,
    #[serde(flatten)]
    pub(crate) database: DatabaseFlaws,
    #[serde(rename = "clock_set_back")]
    pub(crate) clock: ClockSteps,
}

impl AuditVerification {
    pub(crate) fn is_intact(&self) -> bool {
        self.broken.is_none()
            && self.known_head != Some(KnownHead::Missing)
            && self.tokens.as_ref().is_none_or(|tokens| tokens.flawed.is_empty())
            && self.database.is_empty()
    }
}

/// A row that is not as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct BrokenRow {
    pub(crate) seq: i64,
    pub(crate) flaw: Flaw,
}

/// The flaw of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Flaw {
    /// Different from what was hashed.
    Changed,
    Removed,
    /// Inserted: not written after the row before it.
    Inserted,
    /// The recorded head of the log is not this row, which is the last.
    Head,
}

impl fmt::Display for BrokenRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seq, flaw } = self;
        match flaw {
            Flaw::Changed => write!(f, "row {seq} was changed"),
            Flaw::Removed => write!(f, "row {seq} was removed"),
            Flaw::Inserted => {
                write!(f, "row {seq} was inserted, or does not follow row {}", seq - 1)
            }
            Flaw::Head => write!(f, "row {seq} is the last, and the recorded head is another"),
        }
    }
}

/// The place of a head that was noted before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KnownHead {
    /// The hash of this row; 0 is before the first.
    Row(i64),
    /// The hash of no intact row: the log was written anew, or cut off.
    Missing,
}

/// Runs that waited or began, and did not end: they go on, or their server was killed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct UnfinishedRuns {
    pub(crate) count: u64,
    /// The ids of some of them.
    pub(crate) runs: Vec<String>,
}

/// Rows that are older than the one before them. Nobody need have changed them: the time is the
/// machine's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ClockSteps {
    pub(crate) count: u64,
    /// Some of them.
    pub(crate) rows: Vec<ClockStep>,
}

/// A row before which the clock was set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct ClockStep {
    pub(crate) seq: i64,
    /// The size of the step.
    pub(crate) seconds: i64,
}

/// The hash of a row, as `audit verify` prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditHash(String);

/// A text that is no hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a head is 64 hexadecimal digits")]
pub(crate) struct InvalidAuditHash;

impl AuditHash {
    /// Returns whether that is this hash.
    pub(super) fn is(&self, hash: &str) -> bool {
        self.0 == hash
    }
}

impl FromStr for AuditHash {
    type Err = InvalidAuditHash;

    fn from_str(text: &str) -> Result<Self, InvalidAuditHash> {
        let is_hash = text.len() == NO_HASH.len() && text.chars().all(|c| c.is_ascii_hexdigit());
        is_hash.then(|| Self(text.to_ascii_lowercase())).ok_or(InvalidAuditHash)
    }
}

impl Store {
    /// Verifies the whole log as it is at this moment. `known` is a head that was noted before.
    pub(crate) fn verify_audit(
        &self,
        known: Option<&AuditHash>,
    ) -> Result<AuditVerification, StoreError> {
        let database = DatabaseFlaws::of(self)?;
        self.read(|transaction| {
            let known = known.map(|known| known.0.as_str());
            let mut walk = Walk {
                hash: NO_HASH.to_owned(),
                known_at: (known == Some(NO_HASH)).then_some(0),
                ..Walk::default()
            };
            for_each(transaction, |row| {
                walk.follow(row, known);
                ControlFlow::Continue(())
            })?;
            let head = transaction
                .query_row("SELECT seq, hash FROM audit_head", [], |row| {
                    Ok((row.get(0)?, text(row, 1)?))
                })
                .optional()?;
            let at = walk.known_at;
            let broken = walk.broken.or_else(|| walk.compare_to_head(head));
            // Damage is reported; reading it would be an error.
            let is_comparable = broken.is_none() && database.damage.is_empty();
            let tokens = is_comparable.then(|| walk.tokens.compare(transaction)).transpose()?;
            Ok(AuditVerification {
                rows: walk.rows,
                broken,
                head: walk.hash,
                known_head: known.map(|_| at.map_or(KnownHead::Missing, KnownHead::Row)),
                unfinished: unfinished(transaction)?,
                tokens,
                database,
                clock: walk.clock,
            })
        })
    }
}

/// The part of the chain that was followed.
#[derive(Default)]
struct Walk {
    rows: u64,
    /// The last row that is as it was written.
    seq: i64,
    hash: String,
    broken: Option<BrokenRow>,
    known_at: Option<i64>,
    /// The time of the last row, if it is one.
    time: Option<DateTime<Utc>>,
    clock: ClockSteps,
    tokens: RecordedTokens,
}

impl Walk {
    fn follow(&mut self, row: AuditRow, known: Option<&str>) {
        self.rows += 1;
        if self.broken.is_some() {
            return;
        }
        self.broken = self.flaw(&row);
        if self.broken.is_none() {
            if known == Some(row.hash.as_str()) {
                self.known_at = Some(row.seq);
            }
            self.compare_time(&row);
            self.tokens.follow(&row);
            self.seq = row.seq;
            self.hash = row.hash;
        }
    }

    fn flaw(&self, row: &AuditRow) -> Option<BrokenRow> {
        let next = self.seq + 1;
        if row.seq > next {
            Some(BrokenRow { seq: next, flaw: Flaw::Removed })
        } else if row.seq < next {
            Some(BrokenRow { seq: row.seq, flaw: Flaw::Inserted })
        } else if row.hash != row.content_hash() {
            Some(BrokenRow { seq: next, flaw: Flaw::Changed })
        } else if row.previous != self.hash {
            Some(BrokenRow { seq: next, flaw: Flaw::Inserted })
        } else {
            None
        }
    }

    fn compare_time(&mut self, row: &AuditRow) {
        let time = DateTime::parse_from_rfc3339(&row.time).ok().map(|time| time.to_utc());
        if let (Some(before), Some(time)) = (self.time, time)
            && before - time > CLOCK_STEP_MAX
        {
            self.clock.count += 1;
            if self.clock.rows.len() < CLOCK_STEPS_NAMED_MAX {
                let seconds = (before - time).num_seconds();
                self.clock.rows.push(ClockStep { seq: row.seq, seconds });
            }
        }
        self.time = time;
    }

    fn compare_to_head(&self, head: Option<(i64, String)>) -> Option<BrokenRow> {
        match head {
            Some((seq, _)) if seq > self.seq => {
                Some(BrokenRow { seq: self.seq + 1, flaw: Flaw::Removed })
            }
            Some((seq, _)) if seq < self.seq => {
                Some(BrokenRow { seq: seq + 1, flaw: Flaw::Inserted })
            }
            Some((_, hash)) if hash == self.hash => None,
            Some(_) | None => Some(BrokenRow { seq: self.seq, flaw: Flaw::Head }),
        }
    }
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
    let words = [started.as_str(), finished.as_str(), AuditOutcome::Waiting.as_str()];
    let mut unfinished = UnfinishedRuns::default();
    let mut rows = select.query(words)?;
    while let Some(row) = rows.next()? {
        unfinished.count += 1;
        if unfinished.runs.len() < RUNS_NAMED_MAX {
            unfinished.runs.push(text(row, 0)?);
        }
    }
    Ok(unfinished)
}
