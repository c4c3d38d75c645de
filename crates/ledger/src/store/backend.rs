//! The interface of a store.
//!
//! A method that returns [`Pending`] does not block. All other methods do. A write is durable when its result arrives.
//! If a row cannot be written, the caller must not perform the action that the row records.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::ControlFlow;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::error::StoreError;
use super::pending::Pending;
use crate::audit::AuditPlace;
use crate::audit::LoggedRun;
use crate::audit::{
    AuditEntry, AuditFilter, AuditHash, AuditRow, AuditVerification, Quota, RecordedRun,
};
use crate::tokens::{NewToken, Replaced, Replacement, Revoked, TokenHash, TokenId, TokenRecord};
use crate::user_name::UserName;

/// A store of tokens, of the audit log, and of the runs in the audit log.
pub trait Backend: TokenStore + AuditLog + RunLog + fmt::Debug + Send + Sync {
    /// Limits running and later operations to two seconds. The server calls this method when it stops.
    fn hurry(&self) {}

    /// Returns the current time of the clock that rows, quotas and expiry use.
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}

/// The tokens. Every change appends a row to the audit log in the same transaction.
pub trait TokenStore {
    /// Appends rows about tokens that an earlier version of this program created without rows in the audit log.
    fn record_older_tokens(&self) -> Result<(), StoreError>;

    fn add_token(&self, token: NewToken) -> Result<TokenRecord, StoreError>;

    /// Replaces a token by a new token of the same user and role.
    fn replace_token(&self, new: Replacement) -> Result<Replaced, StoreError>;

    /// Revokes a token, with immediate effect.
    fn revoke(&self, id: TokenId) -> Result<Revoked, StoreError>;

    /// Returns all tokens, the oldest first.
    fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError>;

    /// Finds a token by its hash. Returns the token's current record, and the hash that is stored with the record.
    fn token_of(&self, hash: TokenHash) -> Result<Option<(TokenRecord, TokenHash)>, StoreError>;

    /// Returns the current record of the token with this number.
    fn token(&self, id: TokenId) -> Result<Option<TokenRecord>, StoreError>;

    /// Returns the time of each token's last use, according to the audit log. The keys are the numbers of the tokens.
    fn last_uses(&self) -> Result<BTreeMap<String, String>, StoreError>;
}

/// The audit log.
pub trait AuditLog {
    /// Appends all entries as consecutive rows, or none of the entries. The rows come after the rows of all earlier
    /// submissions. Returns the number and the hash of the last row.
    fn submit_entries(&self, entries: Vec<AuditEntry>) -> Pending<AuditPlace>;

    /// If `quota` permits another run of the user today, appends the entries after all earlier submissions. Otherwise
    /// appends nothing and returns `None`. Counting the user's runs and appending the entries are one atomic operation,
    /// even if several processes share the store.
    fn submit_within(&self, entries: Vec<AuditEntry>, quota: Quota) -> Pending<Option<AuditPlace>>;

    /// Tests whether rows can be appended: appends a row, writes to the disk, and rolls the row back.
    fn rehearse_append(&self) -> Result<(), StoreError>;

    /// Appends an entry with the given time.
    #[cfg(test)]
    fn append_at(&self, entry: &AuditEntry, time: &str) -> Result<(), StoreError>;

    /// Returns the number of a user's runs today, by the store's clock.
    fn runs_of_day(&self, user: &UserName) -> Result<u64, StoreError>;

    /// Returns the latest rows that match `filter`, oldest first.
    fn audit_rows(&self, filter: &AuditFilter) -> Result<Vec<AuditRow>, StoreError>;

    /// Returns the rows of a run, at most [`AUDIT_ROWS_MAX`](crate::audit::AUDIT_ROWS_MAX). Uses an index, so
    /// the time does not depend on the size of the log.
    fn rows_of_run(&self, run_id: Uuid) -> Result<Vec<AuditRow>, StoreError>;

    /// Calls `each` for every row after the position `after`, until `each` returns `Break`. The rows of a chain are in
    /// order.
    fn for_each_row_after(
        &self,
        after: &RowsAfter,
        each: &mut dyn FnMut(AuditRow) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// Returns the number and the hash of the last row of this replica's chain. `None` if the chain is empty.
    fn audit_head(&self) -> Result<Option<AuditPlace>, StoreError>;

    /// Returns the number and the hash of the last row of every other replica's chain.
    fn other_heads(&self) -> Result<Vec<AuditPlace>, StoreError>;

    /// Verifies the whole log in one snapshot. `known` contains heads that an admin stored earlier.
    fn verify_audit(&self, known: &[AuditHash]) -> Result<AuditVerification, StoreError>;
}

/// The runs in the audit log.
pub trait RunLog {
    /// Returns the data that the audit log contains about a run. Uses an index, so the time does not depend on the size
    /// of the log.
    fn recorded_run(&self, run_id: Uuid) -> Result<RecordedRun, StoreError>;

    /// Returns the outcome of a call of `run_pytest`, from the last row about this call. `run_id` identifies the call.
    fn recorded_call(&self, run_id: Uuid) -> Result<Option<String>, StoreError>;

    /// Returns the states of the runs `run_ids`, in the same order. The caller uses the states to decide which old runs
    /// can be removed.
    fn logged_runs(&self, run_ids: &[Uuid]) -> Result<Vec<LoggedRun>, StoreError>;

    /// Calls `each` with the ids of this replica's runs that ended after row `after`, in the order in which they ended.
    /// Skips runs without evidence, and runs that were removed. If `each` returns `Break`, stops, and returns the
    /// number of the row about the end of the current run. Otherwise returns `None`.
    fn runs_with_evidence(
        &self,
        after: i64,
        each: &mut dyn FnMut(Uuid) -> ControlFlow<()>,
    ) -> Result<Option<i64>, StoreError>;

    /// Returns the number of runs that were removed, because the policy limits how long runs are kept.
    fn removed_runs(&self) -> Result<u64, StoreError>;
}

/// The position of a reader in the log: for each chain, the smallest number that the next row may have, or `None` if no
/// row can follow.
#[derive(Debug, Clone)]
pub struct RowsAfter {
    /// The position in a chain from which no row was read yet.
    start: Option<i64>,
    next: HashMap<Option<String>, Option<i64>>,
}

impl RowsAfter {
    /// Creates the position after row `last` of each chain.
    pub fn new(last: i64) -> Self {
        Self { start: last.checked_add(1), next: HashMap::new() }
    }

    /// Creates the position before all rows. An attacker may have inserted a row with any number, even the smallest.
    pub fn nothing() -> Self {
        Self { start: Some(i64::MIN), next: HashMap::new() }
    }

    /// Records that a row was read.
    pub fn add_row(&mut self, row: &AuditRow) {
        let next = self.next.entry(row.instance.clone()).or_insert(self.start);
        *next = next.zip(row.seq.checked_add(1)).map(|(next, after)| after.max(next));
    }

    /// Returns the smallest number of the next row in the chain of a replica. Returns `None` if no row can follow.
    pub fn next_of(&self, instance: Option<&str>) -> Option<i64> {
        self.next.get(&instance.map(str::to_owned)).copied().unwrap_or(self.start)
    }
}
