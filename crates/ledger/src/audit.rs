//! The audit log, which records calls, their callers and their outcomes. Each row contains the hash of the previous
//! row, so the rows form a chain.
//!
//! Rows are only ever appended. An attacker with write access to the file can still replace the whole chain. Such a
//! replacement is detected only if an admin has stored the hash of the last row (the head of the chain) in another
//! place, and passes this hash to `AuditLog::verify_audit`.
//!
//! This module defines the rows and verifies chains. The module `store` saves the rows.

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

/// The value of `previous` in the first row of a chain, because this row has no previous row.
pub(super) const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The maximum length of the column `tool`, in characters. Longer names are cut, because a client can send a name of
/// any length.
const TOOL_CHARS_MAX: usize = 200;
/// The maximum size of the column `details`, in bytes. If the details are larger, the row contains only their beginning
/// and their size.
const DETAILS_BYTES_MAX: usize = 16 * 1024;
/// If the details exceed [`DETAILS_BYTES_MAX`], the row contains this number of characters from their beginning.
const DETAILS_START_CHARS: usize = 4096;

/// The event that a row of the audit log records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuditEvent {
    /// A client called a governed tool (a tool that needs a policy, such as `run_pytest`), or sent a script.
    McpToolCall,
    /// The policy refused the call.
    PolicyBlocked,
    /// A process in the sandbox ended.
    SandboxExec,
    /// A tool began to run.
    ToolStarted,
    /// A tool ended.
    ToolFinished,
    TokenCreated,
    TokenRevoked,
    /// The files of a run were removed, because the policy limits how long they are kept.
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

/// The value of the column `outcome`: one word. Other crates define further outcomes with [`AuditOutcome::of`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditOutcome(&'static str);

impl AuditOutcome {
    /// A call that is carried out.
    pub const ALLOWED: Self = Self("ALLOWED");
    /// A call of `run_pytest` that waits until a run can start. A later row contains the final outcome of the call.
    pub const WAITING: Self = Self("WAITING");
    /// A run that begins.
    pub const STARTED: Self = Self("STARTED");
    /// A script that could not be run.
    pub const NOT_RUN: Self = Self("NOT_RUN");
    pub const CREATED: Self = Self("CREATED");
    pub const REVOKED: Self = Self("REVOKED");
    /// A token that an earlier version of this program created without a row in the log.
    pub const FOUND: Self = Self("FOUND");
    /// The files of a run were removed.
    pub const REMOVED: Self = Self("REMOVED");

    /// Creates an outcome that the audit log records as `word`.
    pub const fn of(word: &'static str) -> Self {
        Self(word)
    }

    /// Returns the word that the audit log contains.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

/// The content of a new row of the audit log. The store adds the row's time, number and hashes.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    /// The id of the call. All entries about one call have the same id.
    pub run_id: Uuid,
    pub event: AuditEvent,
    /// The authenticated user of the call. `None` if the caller was not authenticated. An entry about a token has the
    /// token's user.
    pub user: Option<UserName>,
    pub tool: String,
    pub arguments_hash: Option<ArgumentsHash>,
    pub outcome: AuditOutcome,
    pub details: Map<String, Value>,
}

impl AuditEntry {
    /// Returns an entry without content. The store appends this entry and rolls it back, to test whether rows can be
    /// appended.
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

/// A user, and the maximum number of runs that the user may start on one day. The store's clock determines the day, in
/// UTC.
#[derive(Debug, Clone)]
pub struct Quota {
    pub user: UserName,
    pub runs_max: u64,
}

/// Formats a time in RFC 3339 with microseconds, as in the store. The texts sort like the times.
pub fn time_text(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}

impl AuditRow {
    /// Creates a row from an entry. `seq` is the number of the row, and `previous` is the hash of the previous row.
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

    /// Adds the name of a replica to the row, and computes the row's hash again. Only a store that replicas share needs
    /// this name.
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
