//! The ledger: tokens, roles and the audit log.
//!
//! Users have tokens, and tokens have roles. Every decision and every run has rows in the audit log. One store keeps
//! the tokens and the log: an embedded database, or a PostgreSQL database that replicas share. The ledger never decides
//! about a call.
//!
//! | file | contents |
//! |---|---|
//! | `user_name`, `roles` | the name of a user, and the permissions of a role |
//! | `tokens` | tokens, and the callers whom they authenticate |
//! | `audit` | the rows of the log, their chain, and its verification |
//! | `store` | the database of tokens and rows |
//! | `postgres` | the connection to a PostgreSQL database and the schema of this database |
//! | `secret` | texts that must never appear in a log |
//!
//! No other crate uses `rusqlite`.
//!
//! This is an internal part of `qwed-mcp`, without a promise of stability.

#![expect(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "an internal crate, whose error types state what can fail"
)]
// Only the store in PostgreSQL uses some of the code. The replacement has the signatures of the real module.
#![cfg_attr(
    not(feature = "postgres"),
    allow(
        dead_code,
        clippy::needless_pass_by_value,
        clippy::unused_async,
        clippy::unused_self,
        reason = "used with the feature postgres only"
    )
)]

mod audit;
#[cfg_attr(not(feature = "postgres"), path = "postgres_absent.rs")]
pub mod postgres;
mod roles;
mod secret;
mod store;
#[cfg(test)]
mod tests;
mod tokens;
mod user_name;

pub use audit::{
    AUDIT_ROWS_MAX, ArgumentsHash, AuditEntry, AuditEvent, AuditFilter, AuditHash, AuditOutcome,
    AuditPlace, AuditRow, AuditVerification, ChainVerification, ClockStep, EVIDENCE_SHA256,
    ExportVerification, ExportedChain, FlawedToken, KnownHead, LoggedRun, Quota, RUN_PYTEST,
    RecordedEvidence, RecordedRun, RunIdStart, TokenFlaw, time_text, verify_export,
};
pub use roles::{Permission, Role};
pub use secret::Secret;
pub use store::{RowsAfter, Store, StoreError, StorePlace};
pub use tokens::{
    Caller, Presented, Proof, Revoked, Rotated, Token, TokenId, TokenRecord, TokenState,
};
pub use user_name::{InvalidUserName, UserName};
