//! A store that measures the time of each operation of another store.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::backend::{AuditLog, Backend, RowsAfter, RunLog, TokenStore};
use super::error::StoreError;
use super::pending::Pending;
use super::timer::Timer;
use crate::audit::AuditPlace;
use crate::audit::LoggedRun;
use crate::audit::{
    AuditEntry, AuditFilter, AuditHash, AuditRow, AuditVerification, Quota, RecordedRun,
};
use crate::tokens::{NewToken, Replaced, Replacement, Revoked, TokenHash, TokenId, TokenRecord};
use crate::user_name::UserName;

/// A store that records each operation of another store as a metric.
#[derive(Debug)]
pub(super) struct Timed {
    store: Box<dyn Backend>,
    /// Whether the last append succeeded. `false` before the first append.
    has_appended: Arc<AtomicBool>,
}

impl Timed {
    pub(super) fn new(store: impl Backend + 'static) -> Self {
        Self { store: Box::new(store), has_appended: Arc::default() }
    }

    /// Fails if the store cannot append rows. Skips the test if the last append succeeded.
    pub(super) fn can_append(&self) -> Result<(), StoreError> {
        if !self.has_appended.load(Ordering::Relaxed) {
            self.rehearse_append()?;
            self.has_appended.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn timed<T>(
        &self,
        operation: &'static str,
        ask: impl FnOnce(&dyn Backend) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let timer = Timer::start(operation);
        let answer = ask(&*self.store);
        timer.stop(&answer);
        answer
    }
}

impl Backend for Timed {
    fn hurry(&self) {
        self.store.hurry();
    }

    fn now(&self) -> DateTime<Utc> {
        self.store.now()
    }
}

impl TokenStore for Timed {
    fn record_older_tokens(&self) -> Result<(), StoreError> {
        self.timed("record_older_tokens", |store| store.record_older_tokens())
    }

    fn add_token(&self, token: NewToken) -> Result<TokenRecord, StoreError> {
        self.timed("add_token", |store| store.add_token(token))
    }

    fn replace_token(&self, new: Replacement) -> Result<Replaced, StoreError> {
        self.timed("replace_token", |store| store.replace_token(new))
    }

    fn revoke(&self, id: TokenId) -> Result<Revoked, StoreError> {
        self.timed("revoke_token", |store| store.revoke(id))
    }

    fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        self.timed("list_tokens", |store| store.tokens())
    }

    fn token_of(&self, hash: TokenHash) -> Result<Option<(TokenRecord, TokenHash)>, StoreError> {
        self.timed("authenticate", |store| store.token_of(hash))
    }

    fn token(&self, id: TokenId) -> Result<Option<TokenRecord>, StoreError> {
        self.timed("authenticate", |store| store.token(id))
    }

    fn last_uses(&self) -> Result<BTreeMap<String, String>, StoreError> {
        self.timed("last_uses", |store| store.last_uses())
    }
}

impl AuditLog for Timed {
    fn submit_entries(&self, entries: Vec<AuditEntry>) -> Pending<AuditPlace> {
        let timer = Timer::start("append");
        self.store.submit_entries(entries).timed(timer).noted(&self.has_appended)
    }

    fn submit_within(&self, entries: Vec<AuditEntry>, quota: Quota) -> Pending<Option<AuditPlace>> {
        let timer = Timer::start("append_within_quota");
        self.store.submit_within(entries, quota).timed(timer).noted(&self.has_appended)
    }

    fn rehearse_append(&self) -> Result<(), StoreError> {
        self.timed("rehearse_append", |store| store.rehearse_append())
    }

    #[cfg(test)]
    fn append_at(&self, entry: &AuditEntry, time: &str) -> Result<(), StoreError> {
        self.store.append_at(entry, time)
    }

    fn runs_of_day(&self, user: &UserName) -> Result<u64, StoreError> {
        self.timed("count_runs", |store| store.runs_of_day(user))
    }

    fn audit_rows(&self, filter: &AuditFilter) -> Result<Vec<AuditRow>, StoreError> {
        self.timed("read_log", |store| store.audit_rows(filter))
    }

    fn rows_of_run(&self, run_id: Uuid) -> Result<Vec<AuditRow>, StoreError> {
        self.timed("find_run", |store| store.rows_of_run(run_id))
    }

    fn for_each_row_after(
        &self,
        after: &RowsAfter,
        each: &mut dyn FnMut(AuditRow) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.timed("read_log", |store| store.for_each_row_after(after, each))
    }

    fn audit_head(&self) -> Result<Option<AuditPlace>, StoreError> {
        self.timed("read_head", |store| store.audit_head())
    }

    fn other_heads(&self) -> Result<Vec<AuditPlace>, StoreError> {
        self.timed("read_head", |store| store.other_heads())
    }

    fn verify_audit(&self, known: &[AuditHash]) -> Result<AuditVerification, StoreError> {
        self.timed("verify_log", |store| store.verify_audit(known))
    }
}

impl RunLog for Timed {
    fn recorded_run(&self, run_id: Uuid) -> Result<RecordedRun, StoreError> {
        self.timed("find_run", |store| store.recorded_run(run_id))
    }

    fn recorded_call(&self, run_id: Uuid) -> Result<Option<String>, StoreError> {
        self.timed("find_run", |store| store.recorded_call(run_id))
    }

    fn logged_runs(&self, run_ids: &[Uuid]) -> Result<Vec<LoggedRun>, StoreError> {
        self.timed("find_runs", |store| store.logged_runs(run_ids))
    }

    fn runs_with_evidence(
        &self,
        after: i64,
        each: &mut dyn FnMut(Uuid) -> ControlFlow<()>,
    ) -> Result<Option<i64>, StoreError> {
        self.timed("find_runs", |store| store.runs_with_evidence(after, each))
    }

    fn removed_runs(&self) -> Result<u64, StoreError> {
        self.timed("count_removed_runs", |store| store.removed_runs())
    }
}
