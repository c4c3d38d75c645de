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
//!
//! No other module uses `rusqlite`.

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
pub(crate) use store::{RowsAfter, Store, StoreError, StorePlace, until_reached};
pub(crate) use tokens::{
    Caller, Presented, Proof, Revoked, Rotated, Token, TokenId, TokenRecord, TokenState,
};
pub(crate) use user_name::InvalidUserName;
pub(crate) use user_name::UserName;
