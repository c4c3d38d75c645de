//! Rows of the audit log as the store returns them, and filters for rows.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::json;
use thiserror::Error;
use uuid::Uuid;

use super::{AuditEvent, canonical_json, sha256_hex};
use crate::user_name::UserName;

/// The maximum number of rows that a query returns. The limit bounds the memory for the rows.
pub const AUDIT_ROWS_MAX: u16 = 10_000;

/// A row with the exact texts that the audit log contains. No field is parsed, because verification must hash even
/// texts that an attacker has made invalid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRow {
    /// The name of the replica that appended the row. `None` in an embedded store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    pub seq: i64,
    pub time: String,
    pub run_id: String,
    pub event: String,
    pub user: Option<String>,
    pub tool: String,
    pub arguments_hash: Option<String>,
    pub outcome: String,
    /// The text of a JSON object. The hash covers this exact text.
    pub details: String,
    pub previous: String,
    pub hash: String,
}

impl AuditRow {
    /// Computes the hash of all other fields. If the row was not changed, the result equals the field `hash`.
    pub(crate) fn content_hash(&self) -> String {
        let mut content = json!(self);
        if let Some(fields) = content.as_object_mut() {
            fields.remove("hash");
        }
        sha256_hex(&canonical_json(&content))
    }
}

/// A run id, or at least its first eight digits. `qwed-mcp audit list` prints only these eight digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunIdStart(String);

/// A text that is neither a run id nor the beginning of a run id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a run id is a UUID, or at least its first eight digits")]
pub struct InvalidRunIdStart;

impl FromStr for RunIdStart {
    type Err = InvalidRunIdStart;

    fn from_str(text: &str) -> Result<Self, InvalidRunIdStart> {
        let pattern = "00000000-0000-0000-0000-000000000000";
        let is_like = |(found, like): (char, char)| match like {
            '-' => found == '-',
            _ => found.is_ascii_hexdigit(),
        };
        let is_start = (8..=pattern.len()).contains(&text.len());
        (is_start && text.chars().zip(pattern.chars()).all(is_like))
            .then(|| Self(text.to_ascii_lowercase()))
            .ok_or(InvalidRunIdStart)
    }
}

impl RunIdStart {
    /// Returns the complete run id. `None` if only its beginning is known.
    pub fn whole(&self) -> Option<Uuid> {
        self.0.parse().ok()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunIdStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Uuid> for RunIdStart {
    fn from(run_id: Uuid) -> Self {
        Self(run_id.to_string())
    }
}

/// A filter for rows of the audit log. A field that is `None` matches all rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// The maximum number of rows to return, at most [`AUDIT_ROWS_MAX`]. If more rows match, only the latest are
    /// returned.
    pub limit: u16,
    pub run_id: Option<RunIdStart>,
    pub event: Option<AuditEvent>,
    pub user: Option<UserName>,
    pub since: Option<DateTime<Utc>>,
}
