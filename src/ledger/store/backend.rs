//! What the governed tools ask of a store, whichever it is.
//!
//! All methods block until there is a result, but those that return what is [`Pending`]. What they write
//! is durable when there is one; if it cannot be written, whatever it tells of must not happen.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::ControlFlow;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::error::StoreError;
use super::pending::Pending;
use crate::ledger::audit::AuditPlace;
use crate::ledger::audit::LoggedRun;
use crate::ledger::audit::{
    AuditEntry, AuditFilter, AuditHash, AuditRow, AuditVerification, Quota, RecordedRun,
};
use crate::ledger::tokens::{
    NewToken, Replaced, Replacement, Revoked, TokenHash, TokenId, TokenRecord,
};
use crate::ledger::user_name::UserName;

/// A store: its tokens, its audit log, and the runs in that.
pub(crate) trait Backend: TokenStore + AuditLog + RunLog + fmt::Debug + Send + Sync {
    /// Has what is under way, and what is asked for from here on, end within two seconds: the server ends.
    fn hurry(&self) {}

    /// Returns the time by the clock that rows, quotas and expiry go by.
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}

/// The tokens. All that changes them leaves rows in the audit log, in the same transaction.
pub(crate) trait TokenStore {
    /// Writes down which tokens there are, in a store that was made before tokens had rows in the
    /// audit log.
    fn record_older_tokens(&self) -> Result<(), StoreError>;

    /// Makes a token.
    fn add_token(&self, token: NewToken) -> Result<TokenRecord, StoreError>;

    /// Makes a token of the same user and role as another one, which is revoked.
    fn replace_token(&self, new: Replacement) -> Result<Replaced, StoreError>;

    /// Makes a token worthless, at once and for ever.
    fn revoke(&self, id: TokenId) -> Result<Revoked, StoreError>;

    /// Returns all tokens, the oldest first.
    fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError>;

    /// Returns the token with this hash, as it is now, and the hash that the store has.
    fn token_of(&self, hash: TokenHash) -> Result<Option<(TokenRecord, TokenHash)>, StoreError>;

    /// Returns the token with this number, as it is now.
    fn token(&self, id: TokenId) -> Result<Option<TokenRecord>, StoreError>;

    /// Returns the time of each token's last use, as the audit log has it; by its number.
    fn last_uses(&self) -> Result<BTreeMap<String, String>, StoreError>;
}

/// The audit log.
pub(crate) trait AuditLog {
    /// Appends all entries, next to each other, or none, after what was submitted before. Tells the place
    /// of the last one.
    fn submit_entries(&self, entries: Vec<AuditEntry>) -> Pending<AuditPlace>;

    /// Appends entries if the user has a run left on that day, after what was submitted before; none of
    /// them otherwise. Nothing comes between the count and the rows, not of another process either.
    fn submit_within(&self, entries: Vec<AuditEntry>, quota: Quota) -> Pending<Option<AuditPlace>>;

    /// Appends a row, takes it back, and has what is left of that written to the disk: an append may work again
    /// if this does.
    fn rehearse_append(&self) -> Result<(), StoreError>;

    /// Appends an entry of another time than now.
    #[cfg(test)]
    fn append_at(&self, entry: &AuditEntry, time: &str) -> Result<(), StoreError>;

    /// Returns how many runs a user has had today, by the store's clock.
    fn runs_of_day(&self, user: &UserName) -> Result<u64, StoreError>;

    /// Returns the latest rows that `filter` lets through, the oldest of them first.
    fn audit_rows(&self, filter: &AuditFilter) -> Result<Vec<AuditRow>, StoreError>;

    /// Returns the rows of a run, up to [`AUDIT_ROWS_MAX`](crate::ledger::audit::AUDIT_ROWS_MAX). They are found
    /// by an index, however long the log is.
    fn rows_of_run(&self, run_id: Uuid) -> Result<Vec<AuditRow>, StoreError>;

    /// Passes the rows behind those of these numbers on, those of a chain in their order, until `each`
    /// breaks off.
    fn for_each_row_after(
        &self,
        after: &RowsAfter,
        each: &mut dyn FnMut(AuditRow) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// Returns the last row of this instance; none of a chain without rows.
    fn audit_head(&self) -> Result<Option<AuditPlace>, StoreError>;

    /// Returns the last rows of the other instances, where there are any.
    fn other_heads(&self) -> Result<Vec<AuditPlace>, StoreError>;

    /// Verifies the whole log as it is at this moment. `known` are heads that were noted before.
    fn verify_audit(&self, known: &[AuditHash]) -> Result<AuditVerification, StoreError>;
}

/// The runs in the audit log.
pub(crate) trait RunLog {
    /// Returns the records of a run. It is found by an index, however long the log is.
    fn recorded_run(&self, run_id: Uuid) -> Result<RecordedRun, StoreError>;

    /// Returns the outcome of a call of `run_pytest`: the word of its last row.
    fn recorded_call(&self, run_id: Uuid) -> Result<Option<String>, StoreError>;

    /// Returns the records of runs that may have to be removed, in their order.
    fn logged_runs(&self, run_ids: &[Uuid]) -> Result<Vec<LoggedRun>, StoreError>;

    /// Hands over the ids of runs of this instance that left evidence by the log, and whose evidence was not
    /// removed by retention, the oldest first, until `each` has enough of them; only those whose ends have
    /// higher numbers than `after`. Gives the number of the last one's end; none if there are no more.
    fn runs_with_evidence(
        &self,
        after: i64,
        each: &mut dyn FnMut(Uuid) -> ControlFlow<()>,
    ) -> Result<Option<i64>, StoreError>;

    /// Counts the runs that retention removed.
    fn removed_runs(&self) -> Result<u64, StoreError>;
}

/// The rows that were seen: for each chain the number of the last one.
#[derive(Debug, Clone)]
pub(crate) struct RowsAfter {
    /// That of chains of which none was seen.
    start: i64,
    last: HashMap<Option<String>, i64>,
}

impl RowsAfter {
    /// Begins with the rows behind this number, in each chain.
    pub(crate) fn new(start: i64) -> Self {
        Self { start, last: HashMap::new() }
    }

    /// Remembers that a row was seen.
    pub(crate) fn see(&mut self, row: &AuditRow) {
        let last = self.last.entry(row.instance.clone()).or_insert(self.start);
        *last = row.seq.max(*last);
    }

    /// Returns the number of the last row that was seen of the chain of an instance.
    pub(crate) fn of(&self, instance: Option<&str>) -> i64 {
        self.last.get(&instance.map(str::to_owned)).copied().unwrap_or(self.start)
    }
}
