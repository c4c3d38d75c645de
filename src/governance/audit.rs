//! The audit log: calls, who made them and their outcomes, in rows that name the hash of the row
//! before.
//!
//! Rows are only ever appended. Who can write the file can still make a new chain of any kind: only
//! a head that was noted elsewhere tells of that, see [`Store::verify_audit`].

mod checkpoint;
mod database;
mod export;
mod quota;
mod rows;
mod runs;
mod tokens;
mod verification;

use chrono::Utc;
use rusqlite::{Transaction, params};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::evidence::RunStatus;
use super::refusal::RefusalCode;
use super::store::{Pending, Store, StoreError, time_text};
use super::user_name::UserName;
use crate::canonical_json::canonical_json;
use crate::executor::Ending;
use crate::gateway::Status;
use crate::receipt::AuditPlace;

pub(crate) use checkpoint::{CheckpointVerification, Checkpoints};
pub(crate) use export::{ExportVerification, verify_export};
pub(crate) use quota::Quota;
pub(crate) use rows::{AUDIT_ROWS_MAX, AuditFilter, AuditRow, RunIdStart};
pub(crate) use runs::{EVIDENCE_SHA256, RecordedEvidence, RecordedRun};
pub(crate) use tokens::{FlawedToken, TokenFlaw};
pub(super) use tokens::{has_older, record_older, record_token};
pub(crate) use verification::{AuditHash, AuditVerification, ClockStep, KnownHead};
#[cfg(test)]
pub(super) use {
    database::DatabaseFlaws,
    tokens::TokenComparison,
    verification::{BrokenRow, ClockSteps, Flaw, UnfinishedRuns},
};

/// The hash that the first row follows.
const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The longest name of a tool: clients choose it.
const TOOL_CHARS_MAX: usize = 200;
/// The longest details; of longer ones the start is written.
const DETAILS_BYTES_MAX: usize = 16 * 1024;
const DETAILS_START_CHARS: usize = 4096;

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum AuditEvent {
    /// A governed tool was called.
    McpToolCall,
    /// The policy refused the call.
    PolicyBlocked,
    /// A process in the sandbox ended.
    SandboxExec,
    /// A tool began to run.
    ToolStarted,
    /// A tool ended.
    ToolFinished,
    /// A token was made.
    TokenCreated,
    /// A token was revoked.
    TokenRevoked,
    /// The files of a run were removed, as the policy's retention says.
    ArtifactsRemoved,
}

impl AuditEvent {
    pub(crate) const ALL: [Self; 8] = [
        Self::McpToolCall,
        Self::PolicyBlocked,
        Self::SandboxExec,
        Self::ToolStarted,
        Self::ToolFinished,
        Self::TokenCreated,
        Self::TokenRevoked,
        Self::ArtifactsRemoved,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::McpToolCall => "MCP_TOOL_CALL",
            Self::PolicyBlocked => "POLICY_BLOCKED",
            Self::SandboxExec => "SANDBOX_EXEC",
            Self::ToolStarted => "TOOL_STARTED",
            Self::ToolFinished => "TOOL_FINISHED",
            Self::TokenCreated => "TOKEN_CREATED",
            Self::TokenRevoked => "TOKEN_REVOKED",
            Self::ArtifactsRemoved => "ARTIFACTS_REMOVED",
        }
    }
}

/// SHA-256 of the canonical JSON of a call's arguments: what they were can be proven, but not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArgumentsHash(String);

impl ArgumentsHash {
    pub(crate) fn of(arguments: &Map<String, Value>) -> Self {
        Self(sha256_hex(&canonical_json(&Value::Object(arguments.clone()))))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The outcome of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuditOutcome {
    /// A call that is carried out.
    Allowed,
    /// A call that has to wait for its turn; a later row has its outcome.
    Waiting,
    /// A script or a run that begins.
    Started,
    /// A script that could not be run.
    NotRun,
    /// A call or a run that is refused.
    Refused(RefusalCode),
    /// A run of pytest that has ended, or was cancelled before it began.
    Run(RunStatus),
    /// A script that the gateway has decided about.
    Decided(Status),
    /// A script that has ended.
    Ended(Ending),
    /// A token that was made.
    Created,
    /// A token that was revoked.
    Revoked,
    /// A token that was made before there were rows about tokens.
    Found,
    /// A run whose files were removed.
    Removed,
}

impl AuditOutcome {
    /// Returns the word in the log.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "ALLOWED",
            Self::Waiting => "WAITING",
            Self::Started => "STARTED",
            Self::NotRun => "NOT_RUN",
            Self::Refused(code) => code.name(),
            Self::Run(RunStatus::Passed) => "PASSED",
            Self::Run(RunStatus::Failed) => "FAILED",
            Self::Run(RunStatus::Error) => "ERROR",
            Self::Run(RunStatus::Timeout) => "TIMEOUT",
            Self::Run(RunStatus::SandboxViolation) => "SANDBOX_VIOLATION",
            Self::Run(RunStatus::BudgetExceeded) => "BUDGET_EXCEEDED",
            Self::Run(RunStatus::Cancelled) => "CANCELLED",
            Self::Run(RunStatus::NoTests) => "NO_TESTS",
            Self::Decided(status) => status.as_str(),
            Self::Ended(ending) => ending.as_str(),
            Self::Created => "CREATED",
            Self::Revoked => "REVOKED",
            Self::Found => "FOUND",
            Self::Removed => "REMOVED",
        }
    }
}

/// An entry to append. The store adds the time and the chain.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AuditEntry {
    /// The id of the call; the same in all entries of one.
    pub(crate) run_id: Uuid,
    pub(crate) event: AuditEvent,
    /// The user; none where nobody has proven who they are. Of a token: whose it is.
    pub(crate) user: Option<UserName>,
    pub(crate) tool: String,
    pub(crate) arguments_hash: Option<ArgumentsHash>,
    pub(crate) outcome: AuditOutcome,
    pub(crate) details: Map<String, Value>,
}

impl Store {
    /// Appends all entries, next to each other, or none. They are on the disk when this returns.
    pub(crate) fn append(&self, entries: &[AuditEntry]) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        let entries = entries.to_vec();
        self.write(move |transaction| append(transaction, &entries).map(drop))
    }

    /// Appends all entries, next to each other, or none, after what was submitted before. They are on
    /// the disk when it is done. Returns the place of the last one.
    pub(crate) fn submit_entries(&self, entries: Vec<AuditEntry>) -> Pending<AuditPlace> {
        self.submit(move |transaction| append(transaction, &entries))
    }

    /// Appends an entry of another time than now.
    #[cfg(test)]
    pub(super) fn append_at(&self, entry: &AuditEntry, time: &str) -> Result<(), StoreError> {
        let (entries, time) = (vec![entry.clone()], time.to_owned());
        self.write(move |transaction| append_at(transaction, &entries, || time.clone()).map(drop))
    }
}

fn append(transaction: &Transaction<'_>, entries: &[AuditEntry]) -> rusqlite::Result<AuditPlace> {
    append_at(transaction, entries, || time_text(Utc::now()))
}

fn append_at(
    transaction: &Transaction<'_>,
    entries: &[AuditEntry],
    time: impl Fn() -> String,
) -> rusqlite::Result<AuditPlace> {
    let (mut seq, mut previous): (i64, String) =
        transaction.query_row("SELECT seq, hash FROM audit_head", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let mut insert = transaction.prepare(
        "INSERT INTO audit (seq, time, run_id, event, user, tool, arguments_hash, outcome, details,
                            previous, hash)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    let mut move_head = transaction.prepare("UPDATE audit_head SET seq = ?1, hash = ?2")?;
    for entry in entries {
        seq += 1;
        let row = row_of(entry, seq, time(), previous);
        insert.execute(params![
            row.seq,
            row.time,
            row.run_id,
            row.event,
            row.user,
            row.tool,
            row.arguments_hash,
            row.outcome,
            row.details,
            row.previous,
            row.hash
        ])?;
        move_head.execute(params![row.seq, row.hash])?;
        previous = row.hash;
    }
    Ok(AuditPlace { seq, hash: previous })
}

fn row_of(entry: &AuditEntry, seq: i64, time: String, previous: String) -> AuditRow {
    let mut row = AuditRow {
        seq,
        time,
        run_id: entry.run_id.to_string(),
        event: entry.event.as_str().to_owned(),
        user: entry.user.as_ref().map(ToString::to_string),
        tool: entry.tool.chars().take(TOOL_CHARS_MAX).collect(),
        arguments_hash: entry.arguments_hash.as_ref().map(|hash| hash.as_str().to_owned()),
        outcome: entry.outcome.as_str().to_owned(),
        details: details_text(&entry.details),
        previous,
        hash: String::new(),
    };
    row.hash = row.content_hash();
    row
}

fn details_text(details: &Map<String, Value>) -> String {
    let text = canonical_json(&Value::Object(details.clone()));
    if text.len() <= DETAILS_BYTES_MAX {
        return text;
    }
    let start: String = text.chars().take(DETAILS_START_CHARS).collect();
    canonical_json(&json!({ "omitted_bytes": text.len(), "start": start }))
}

fn sha256_hex(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}
