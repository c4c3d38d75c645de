//! Tokens in the audit log. Every creation and revocation of a token has a row. Verification compares the table of
//! tokens with these rows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::rows::AuditRow;
use super::{AuditEntry, AuditEvent, AuditOutcome};

/// The value of the column `tool` in rows about tokens.
const TOOL: &str = "qwed-mcp token";

/// The run id in rows about tokens, which belong to no run.
pub(crate) const NO_RUN: Uuid = Uuid::nil();

/// A token, as the audit log or the table of tokens contains it, without the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedToken {
    /// The number of the token, as a text. A row about a call with this token contains the same text in its details.
    pub(crate) token: String,
    pub(crate) user: String,
    pub(crate) role: String,
    pub(crate) created: String,
    pub(crate) expires: Option<String>,
    pub(crate) revoked: Option<String>,
    /// SHA-256 of the secret.
    pub(crate) sha256: String,
}

impl RecordedToken {
    /// Returns an entry of the audit log about this token.
    pub(crate) fn entry(&self, event: AuditEvent, outcome: AuditOutcome) -> AuditEntry {
        AuditEntry {
            run_id: NO_RUN,
            event,
            user: self.user.parse().ok(),
            tool: TOOL.to_owned(),
            arguments_hash: None,
            outcome,
            details: json!(self).as_object().cloned().unwrap_or_default(),
        }
    }

    /// Returns the names of the columns in which `other` differs from `self`.
    fn differences(&self, other: &Self) -> Vec<&'static str> {
        let Self { token: _, user, role, created, expires, revoked, sha256 } = self;
        [
            ("user", *user == other.user),
            ("role", *role == other.role),
            ("created", *created == other.created),
            ("expires", *expires == other.expires),
            ("revoked", *revoked == other.revoked),
            ("hash", *sha256 == other.sha256),
        ]
        .into_iter()
        .filter_map(|(column, is_same)| (!is_same).then_some(column))
        .collect()
    }
}

/// The comparison of the table of tokens with the rows about tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TokenComparison {
    /// The number of tokens that match the log.
    pub same: u64,
    /// Tokens that an earlier version of this program created without rows in the log. Their original values are
    /// unknown, so these tokens are not compared.
    pub older: Vec<String>,
    /// Tokens that do not match the log.
    pub flawed: Vec<FlawedToken>,
}

/// A token that does not match the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FlawedToken {
    pub token: String,
    pub flaw: TokenFlaw,
    /// The names of the columns that differ from the log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<&'static str>,
}

/// The way in which a token does not match the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenFlaw {
    /// The token differs from the last row about this token.
    Changed,
    Removed,
    /// The token was created without a row in the log.
    Unrecorded,
}

/// The tokens according to the rows that were read so far. The keys are the numbers of the tokens.
#[derive(Debug, Default)]
pub(crate) struct RecordedTokens(BTreeMap<String, RecordedToken>);

impl RecordedTokens {
    /// If `row` is about a token, updates this token. Ignores all other rows.
    pub(crate) fn follow(&mut self, row: &AuditRow) {
        let events = [AuditEvent::TokenCreated, AuditEvent::TokenRevoked];
        if events.iter().any(|event| event.as_str() == row.event)
            && let Ok(recorded) = serde_json::from_str::<RecordedToken>(&row.details)
        {
            self.0.insert(recorded.token.clone(), recorded);
        }
    }

    /// Adds the tokens of another chain. If both chains have a row about a token, uses the row with the revocation.
    /// That row is the later one, because a token is created once and revoked once.
    pub(super) fn add(&mut self, other: Self) {
        for (token, recorded) in other.0 {
            let is_known = self.0.get(&token).is_some_and(|known| known.revoked.is_some());
            if !is_known {
                self.0.insert(token, recorded);
            }
        }
    }

    /// Compares the tokens from the log with the table of tokens.
    pub(crate) fn compare(mut self, table: Vec<RecordedToken>) -> TokenComparison {
        let has_rows = !self.0.is_empty();
        let mut comparison = TokenComparison::default();
        for token in table {
            let flaw = match self.0.remove(&token.token) {
                Some(recorded) if recorded == token => {
                    comparison.same += 1;
                    continue;
                }
                Some(recorded) => (TokenFlaw::Changed, recorded.differences(&token)),
                None if has_rows => (TokenFlaw::Unrecorded, Vec::new()),
                None => {
                    comparison.older.push(token.token);
                    continue;
                }
            };
            let (flaw, columns) = flaw;
            comparison.flawed.push(FlawedToken { token: token.token, flaw, columns });
        }
        let removed = self.0.into_keys().map(|token| FlawedToken {
            token,
            flaw: TokenFlaw::Removed,
            columns: Vec::new(),
        });
        comparison.flawed.extend(removed);
        comparison
    }
}
