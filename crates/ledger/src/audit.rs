//! The audit log: calls, their callers and their outcomes. Each row contains the hash of the previous row.
//!
//! Rows are only ever appended. An attacker with write access to the file can still replace the whole chain. Such a
//! replacement is detected only if a head (the hash of the last row) was stored elsewhere before, see
//! `AuditLog::verify_audit`.
//!
//! This module defines the rows and verifies chains. The store contains the rows.

mod export;
mod rows;
mod runs;
mod tokens;
mod verification;

use chrono::{DateTime, SecondsFormat, Utc};
use qwed_manifests::canonical_json::canonical_json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::user_name::UserName;

pub use export::{ExportVerification, ExportedChain, verify_export};
pub use rows::{AUDIT_ROWS_MAX, AuditFilter, AuditRow, RunIdStart};
pub use runs::{EVIDENCE_SHA256, LoggedRun, RUN_PYTEST, RecordedEvidence, RecordedRun};
pub use tokens::{FlawedToken, TokenFlaw};
pub use verification::{AuditHash, AuditVerification, ChainVerification, ClockStep, KnownHead};
pub(super) use {
    runs::RunRow,
    tokens::{NO_RUN, RecordedToken},
    verification::{DatabaseFlaws, UnfinishedRuns, Walk},
};
#[cfg(test)]
pub(super) use {
    tokens::TokenComparison,
    verification::{BrokenRow, ClockSteps, Flaw},
};

/// The value of `previous` in the first row of a chain.
pub(super) const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The maximum length of a tool's name, in characters. The length is limited, because clients choose the name.
const TOOL_CHARS_MAX: usize = 200;
/// The maximum size of the details of a row, in bytes. The store replaces longer details by their beginning and their
/// size.
const DETAILS_BYTES_MAX: usize = 16 * 1024;
/// The length of the beginning of details that are too long, in characters.
const DETAILS_START_CHARS: usize = 4096;

/// The event that a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuditEvent {
    /// A client called a governed tool, or sent a script.
    McpToolCall,
    /// The policy refused the call.
    PolicyBlocked,
    /// A process in the sandbox ended.
    SandboxExec,
    /// A tool began to run.
    ToolStarted,
    /// A tool ended.
    ToolFinished,
    /// A token was created.
    TokenCreated,
    /// A token was revoked.
    TokenRevoked,
    /// Retention removed the files of a run.
    ArtifactsRemoved,
}

impl AuditEvent {
    pub const ALL: [Self; 8] = [
        Self::McpToolCall,
        Self::PolicyBlocked,
        Self::SandboxExec,
        Self::ToolStarted,
        Self::ToolFinished,
        Self::TokenCreated,
        Self::TokenRevoked,
        Self::ArtifactsRemoved,
    ];

    pub fn as_str(self) -> &'static str {
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

/// SHA-256 of the canonical JSON of a call's arguments. The hash shows whether two calls have the same arguments, but
/// does not reveal the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentsHash(String);

impl ArgumentsHash {
    pub fn of(arguments: &Map<String, Value>) -> Self {
        Self(sha256_hex(&canonical_json(&Value::Object(arguments.clone()))))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The outcome in a row, as one word. The modules that append rows about calls and runs define more words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditOutcome(&'static str);

impl AuditOutcome {
    /// A call that is carried out.
    pub const ALLOWED: Self = Self("ALLOWED");
    /// A call of `run_pytest` that waits until a run can start. A later row has the call's outcome.
    pub const WAITING: Self = Self("WAITING");
    /// A run that begins.
    pub const STARTED: Self = Self("STARTED");
    /// A script that could not be run.
    pub const NOT_RUN: Self = Self("NOT_RUN");
    /// A token that was created.
    pub const CREATED: Self = Self("CREATED");
    /// A token that was revoked.
    pub const REVOKED: Self = Self("REVOKED");
    /// A token that an earlier version of this program created without a row in the log.
    pub const FOUND: Self = Self("FOUND");
    /// The files of a run were removed.
    pub const REMOVED: Self = Self("REMOVED");

    /// Returns the outcome with this word.
    pub const fn of(word: &'static str) -> Self {
        Self(word)
    }

    /// Returns the word in the log.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

/// An entry to append. The store adds the time, the row's number and the hashes.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    /// The id of the call. All entries about one call have the same id.
    pub run_id: Uuid,
    pub event: AuditEvent,
    /// The authenticated user, or the user of the token that the row is about. `None` without authentication.
    pub user: Option<UserName>,
    pub tool: String,
    pub arguments_hash: Option<ArgumentsHash>,
    pub outcome: AuditOutcome,
    pub details: Map<String, Value>,
}

impl AuditEntry {
    /// Returns an entry for a trial append, which is rolled back.
    pub(super) fn rehearsal() -> Self {
        Self {
            run_id: Uuid::nil(),
            event: AuditEvent::McpToolCall,
            user: None,
            tool: String::new(),
            arguments_hash: None,
            outcome: AuditOutcome::WAITING,
            details: Map::new(),
        }
    }
}

/// The number of a row in its chain, and the row's hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditPlace {
    pub seq: i64,
    pub hash: String,
}

/// The maximum number of runs that a user may start on one day (UTC), by the store's clock.
#[derive(Debug, Clone)]
pub struct Quota {
    pub user: UserName,
    pub runs_max: u64,
}

/// Formats a time as the store does. Sorting the texts also sorts the times.
pub fn time_text(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}

impl AuditRow {
    /// Creates the row of an entry. `previous` is the hash of the previous row.
    pub(super) fn of(entry: &AuditEntry, seq: i64, time: String, previous: String) -> Self {
        let mut row = Self {
            instance: None,
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

    /// Adds the name of the replica to a row, and computes the row's hash again. Only for a store that replicas share.
    pub(super) fn of_instance(self, instance: &str) -> Self {
        let mut row = Self { instance: Some(instance.to_owned()), ..self };
        row.hash = row.content_hash();
        row
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_one_form() {
        for (time, expected) in [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z"),
            ("2026-01-02T03:04:05.6789+02:00", "2026-01-02T01:04:05.678900Z"),
            ("2026-01-02T03:04:05.1234567Z", "2026-01-02T03:04:05.123456Z"),
        ] {
            let time = DateTime::parse_from_rfc3339(time).unwrap().to_utc();
            assert_eq!(time_text(time), expected);
        }
    }
}
