//! The ledger: tokens, roles and the audit log.
//!
//! A user has tokens, and each token has a role. Every decision and every run has rows in the audit log. One store
//! contains the tokens and the log: an embedded database, or a PostgreSQL database that replicas share. The ledger
//! never decides whether a call is allowed.
//!
//! | file | contents |
//! |---|---|
//! | `user_name`, `roles` | the name of a user, and the permissions of a role |
//! | `tokens` | tokens, and the callers that they authenticate |
//! | `audit` | the rows of the log, their chain, and its verification |
//! | `store` | the database of tokens and rows |
//! | `postgres` | the connection to a PostgreSQL database and the schema of this database |
//! | `secret` | texts that must never appear in a log |
//!
//! No other crate uses `rusqlite`.
//!
//! This crate is internal to `qwed-mcp`. Its API may change in any release.

#![expect(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "an internal crate, whose error types state what can fail"
)]
// Without the feature `postgres`, some code is unused, and the stubs in `postgres_absent.rs` replace functions of
// `postgres`. The stubs have the same signatures, but do not need all arguments or `async`.
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
