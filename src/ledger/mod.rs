//! The ledger: who may call, and what was done.
//!
//! Users have tokens, tokens have roles, and everything that is done is a row of the audit log. All of it is in one
//! store: an embedded database, or one in PostgreSQL that several servers share.
//!
//! | file | what it is |
//! |---|---|
//! | `user_name`, `roles` | the name of a user, and what a role permits |
//! | `tokens` | the proof of who calls |
//! | `audit` | the rows of the log, how they are chained, and how a log is verified |
//! | `store` | the database of tokens and rows |
//!
//! This folder is the only one that names `rusqlite`.

mod audit;
mod roles;
mod store;
#[cfg(test)]
pub(crate) mod tests;
mod tokens;
mod user_name;

pub(crate) use audit::{
    AUDIT_ROWS_MAX, ArgumentsHash, AuditEntry, AuditEvent, AuditFilter, AuditHash, AuditOutcome,
    AuditPlace, AuditRow, AuditVerification, ChainVerification, ClockStep, EVIDENCE_SHA256,
    ExportVerification, ExportedChain, FlawedToken, KnownHead, LoggedRun, Quota, RUN_PYTEST,
    RecordedEvidence, RecordedRun, RunIdStart, TokenFlaw, time_text, verify_export,
};
pub(crate) use roles::{Permission, Role};
pub(crate) use store::{RowsAfter, Store, StoreError, StorePlace};
pub(crate) use tokens::{
    Caller, Presented, Proof, Revoked, Rotated, Token, TokenId, TokenRecord, TokenState,
};
pub(crate) use user_name::InvalidUserName;
pub(crate) use user_name::UserName;
