//! Verification of the audit log.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;
use thiserror::Error;

use super::NO_HASH;
use super::rows::AuditRow;
use super::sha256_hex;
use super::tokens::{RecordedToken, RecordedTokens, TokenComparison};

/// The maximum number of unfinished runs that [`UnfinishedRuns`] lists.
const RUNS_NAMED_MAX: usize = 100;

/// The largest backward step of the clock that is not reported. Time synchronization causes such small steps.
const CLOCK_STEP_MAX: TimeDelta = TimeDelta::seconds(5);
/// The maximum number of backward steps of the clock that [`ClockSteps`] lists.
const CLOCK_STEPS_NAMED_MAX: usize = 20;

/// The result of verifying the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditVerification {
    pub rows: u64,
    /// The hash of the last intact row. An admin can store the hash elsewhere, to detect a replaced log later. If
    /// replicas share the log, this field contains a hash over the heads of all chains. A later verification recognizes
    /// the head of each chain in `instances`, but does not recognize this combined hash.
    pub head: String,
    /// The first row that is not intact.
    pub broken: Option<BrokenRow>,
    /// The position of the latest head that the admin passed, or [`KnownHead::Missing`] if at least one of the passed
    /// heads was not found. `None` if no heads were passed. A head is the hash of a chain's last row at some time.
    pub known_head: Option<KnownHead>,
    /// The result for each replica's chain. Empty for an embedded store.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<ChainVerification>,
    pub unfinished: UnfinishedRuns,
    /// The comparison of the tokens with the log. `None` if the chain is broken or the file is damaged, because the log
    /// is then not reliable.
    pub tokens: Option<TokenComparison>,
    #[serde(flatten)]
    pub database: DatabaseFlaws,
    #[serde(rename = "clock_set_back")]
    pub clock: ClockSteps,
}

/// The result of verifying the chain of one replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainVerification {
    pub instance: String,
    pub rows: u64,
    /// The hash of the last intact row.
    pub head: String,
    /// The first row that is not intact.
    pub broken: Option<BrokenRow>,
}

/// Defects of the database itself, in contrast to defects of single rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DatabaseFlaws {
    /// Damage that SQLite's integrity check finds.
    pub damage: Vec<String>,
    /// Tables, indexes and triggers that differ from the schema of this program.
    pub schema: Vec<String>,
}

impl DatabaseFlaws {
    fn is_empty(&self) -> bool {
        self.damage.is_empty() && self.schema.is_empty()
    }
}

impl AuditVerification {
    /// Returns the result for a log with one chain. `table` contains the table of tokens. If `table` is `None`, tokens
    /// are not compared with the log.
    pub(crate) fn of(
        walk: Walk,
        table: Option<Vec<RecordedToken>>,
        unfinished: UnfinishedRuns,
        database: DatabaseFlaws,
    ) -> Self {
        let known_head = walk.known.place();
        Self {
            rows: walk.rows,
            head: walk.hash,
            broken: walk.broken,
            known_head,
            instances: Vec::new(),
            unfinished,
            tokens: table.map(|table| walk.tokens.compare(table)),
            database,
            clock: walk.clock,
        }
    }

    /// Returns the result for a log with a chain for each replica.
    pub(crate) fn of_instances(
        walks: Vec<(String, Walk)>,
        table: Option<Vec<RecordedToken>>,
        unfinished: UnfinishedRuns,
        database: DatabaseFlaws,
    ) -> Self {
        let mut all = Walk::default();
        let mut instances = Vec::new();
        let mut heads = Vec::new();
        for (instance, walk) in walks {
            heads.push(format!("{instance} {}\n", walk.hash));
            let (rows, broken) = (walk.rows, walk.broken);
            instances.push(ChainVerification { instance, rows, head: walk.hash.clone(), broken });
            all.add(walk);
        }
        all.hash = sha256_hex(&heads.concat());
        Self { instances, ..Self::of(all, table, unfinished, database) }
    }

    pub fn is_intact(&self) -> bool {
        self.broken.is_none()
            && self.known_head != Some(KnownHead::Missing)
            && self.tokens.as_ref().is_none_or(|tokens| tokens.flawed.is_empty())
            && self.database.is_empty()
    }
}

/// A row that is not intact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BrokenRow {
    pub seq: i64,
    pub flaw: Flaw,
}

/// The way in which a row is not intact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Flaw {
    /// The content does not match the hash.
    Changed,
    Removed,
    /// The row does not follow the previous row.
    Inserted,
    /// The last row differs from the head of the log, which the store records in a separate table.
    Head,
}

impl fmt::Display for BrokenRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seq, flaw } = self;
        match flaw {
            Flaw::Changed => write!(f, "row {seq} was changed"),
            Flaw::Removed => write!(f, "row {seq} was removed"),
            Flaw::Inserted => match seq.checked_sub(1) {
                Some(before) => {
                    write!(f, "row {seq} was inserted, or does not follow row {before}")
                }
                None => write!(f, "row {seq} was inserted"),
            },
            Flaw::Head => write!(f, "row {seq} is the last, and the recorded head is another"),
        }
    }
}

/// The result of searching the log for the heads that an admin stored earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KnownHead {
    /// The number of the row with the known hash. The number is 0 if the head was stored when the log was empty.
    Row(i64),
    /// No intact row has the known hash, for example because the log was replaced or truncated.
    Missing,
}

/// Runs that waited or started, but have no row about their end. They still wait or run, or their server was killed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct UnfinishedRuns {
    pub count: u64,
    /// The ids of the first `RUNS_NAMED_MAX` of these runs.
    pub runs: Vec<String>,
}

/// Rows with an earlier time than the previous row. These rows are not flaws, because the clock may have been set back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ClockSteps {
    pub count: u64,
    /// The first `CLOCK_STEPS_NAMED_MAX` of these rows.
    pub rows: Vec<ClockStep>,
}

/// A row that was written after the clock was set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClockStep {
    pub seq: i64,
    /// The size of the backward step, in seconds.
    pub seconds: i64,
}

/// The hash of a row, as `audit verify` prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditHash(String);

/// A text that is not a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a head is 64 hexadecimal digits")]
pub struct InvalidAuditHash;

impl AuditHash {
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

/// The heads that an admin stored earlier. Each head has the number of its row, or `None` if its row was not found so
/// far.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownHeads(Vec<(AuditHash, Option<i64>)>);

impl KnownHeads {
    pub(super) fn new(known: &[AuditHash]) -> Self {
        Self(known.iter().map(|known| (known.clone(), None)).collect())
    }

    /// If `hash` is a known head, records `seq` as the number of its row.
    pub(super) fn follow(&mut self, seq: i64, hash: &str) {
        for (known, at) in &mut self.0 {
            if known.is(hash) {
                *at = Some(seq);
            }
        }
    }

    /// Adds the row numbers of known heads from the search of another chain.
    fn add(&mut self, other: Self) {
        if self.0.is_empty() {
            self.0 = other.0;
            return;
        }
        for ((_, at), (_, other)) in self.0.iter_mut().zip(other.0) {
            *at = (*at).max(other);
        }
    }

    /// Returns the position of the latest known head. Returns [`KnownHead::Missing`] if at least one known head was not
    /// found, and `None` if no heads are known.
    pub(super) fn place(&self) -> Option<KnownHead> {
        if self.0.is_empty() {
            return None;
        }
        let found: Option<Vec<i64>> = self.0.iter().map(|(_, at)| *at).collect();
        let latest = found.and_then(|found| found.into_iter().max());
        Some(latest.map_or(KnownHead::Missing, KnownHead::Row))
    }
}

/// The state of a chain's verification, after the rows that were read so far.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    rows: u64,
    /// The number of the last intact row.
    seq: i64,
    hash: String,
    pub(crate) broken: Option<BrokenRow>,
    known: KnownHeads,
    /// The time of the last row. `None` if its text is not a valid time.
    time: Option<DateTime<Utc>>,
    clock: ClockSteps,
    tokens: RecordedTokens,
}

impl Walk {
    /// Creates the state before the first row. `known` contains heads that an admin stored earlier.
    pub(crate) fn new(known: &[AuditHash]) -> Self {
        let mut walk =
            Self { hash: NO_HASH.to_owned(), known: KnownHeads::new(known), ..Self::default() };
        walk.known.follow(0, NO_HASH);
        walk
    }

    /// Adds the result of verifying another chain.
    fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.broken = self.broken.or(other.broken);
        self.known.add(other.known);
        self.tokens.add(other.tokens);
        self.clock.count += other.clock.count;
        self.clock.rows.extend(other.clock.rows);
        self.clock.rows.truncate(CLOCK_STEPS_NAMED_MAX);
    }

    /// Verifies the next row.
    pub(crate) fn follow(&mut self, row: AuditRow) {
        self.rows += 1;
        if self.broken.is_some() {
            return;
        }
        self.broken = self.flaw(&row);
        if self.broken.is_none() {
            self.known.follow(row.seq, &row.hash);
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

    /// Compares the last row with the head of the log, which the store records separately. Must be called after all
    /// rows were verified.
    pub(crate) fn end(&mut self, head: Option<(i64, String)>) {
        let flaw = match head {
            Some((seq, _)) if seq > self.seq => {
                Some(BrokenRow { seq: self.seq + 1, flaw: Flaw::Removed })
            }
            Some((seq, _)) if seq < self.seq => {
                Some(BrokenRow { seq: seq + 1, flaw: Flaw::Inserted })
            }
            Some((_, hash)) if hash == self.hash => None,
            Some(_) | None => Some(BrokenRow { seq: self.seq, flaw: Flaw::Head }),
        };
        self.broken = self.broken.or(flaw);
    }
}

impl UnfinishedRuns {
    /// Counts an unfinished run. Also lists its id, until [`RUNS_NAMED_MAX`] ids are listed.
    pub(crate) fn add(&mut self, run_id: String) {
        self.count += 1;
        if self.runs.len() < RUNS_NAMED_MAX {
            self.runs.push(run_id);
        }
    }
}
