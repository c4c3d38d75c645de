//! Tokens in the audit log: a row for each that was made or revoked, and whether the table of tokens is
//! what these rows say.

use std::collections::BTreeMap;

use rusqlite::{Row, Transaction};
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::rows::AuditRow;
use super::{AuditEntry, AuditEvent, AuditOutcome, append};

/// The command that such rows are about.
const TOOL: &str = "qwed-mcp token";

/// The run that such rows are of: none.
const NO_RUN: Uuid = Uuid::nil();

/// A token as the log and its table have it: all of it but the token's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TokenRow {
    /// The id, as the rows of calls have it.
    token: String,
    user: String,
    role: String,
    created: String,
    expires: Option<String>,
    revoked: Option<String>,
    /// SHA-256 of the token, which is not enough to call.
    sha256: String,
}

impl TokenRow {
    const SELECT: &str = "SELECT id, user, role, created, expires, revoked, hash FROM tokens";

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            token: row.get::<_, i64>(0)?.to_string(),
            user: row.get(1)?,
            role: row.get(2)?,
            created: row.get(3)?,
            expires: row.get(4)?,
            revoked: row.get(5)?,
            sha256: hex::encode(row.get::<_, Vec<u8>>(6)?),
        })
    }

    fn entry(&self, event: AuditEvent, outcome: AuditOutcome) -> AuditEntry {
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

    /// Returns the columns in which `other` differs.
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

/// Appends a row about the token `id`, as its table has it now.
pub(in crate::governance) fn record_token(
    transaction: &Transaction<'_>,
    id: i64,
    event: AuditEvent,
    outcome: AuditOutcome,
) -> rusqlite::Result<()> {
    let select = format!("{} WHERE id = ?1", TokenRow::SELECT);
    let token = transaction.query_row(&select, [id], TokenRow::read)?;
    append(transaction, &[token.entry(event, outcome)]).map(drop)
}

/// Appends rows about the tokens of a store that has none about any: those that were made before such
/// rows were written. From there on, a change of them is found.
pub(in crate::governance) fn record_older(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    if !has_older(transaction)? {
        return Ok(());
    }
    let tokens = table(transaction)?;
    let entry = |token: &TokenRow| token.entry(AuditEvent::TokenCreated, AuditOutcome::Found);
    append(transaction, &tokens.iter().map(entry).collect::<Vec<_>>()).map(drop)
}

/// Tells whether there are tokens, and no row about any.
pub(in crate::governance) fn has_older(transaction: &Transaction<'_>) -> rusqlite::Result<bool> {
    let select = "SELECT EXISTS (SELECT 1 FROM tokens)
                      AND NOT EXISTS (SELECT 1 FROM audit WHERE run_id = ?1 AND event = ?2)";
    let parameters = [NO_RUN.to_string(), AuditEvent::TokenCreated.as_str().to_owned()];
    transaction.query_row(select, parameters, |row| row.get(0))
}

fn table(transaction: &Transaction<'_>) -> rusqlite::Result<Vec<TokenRow>> {
    let mut select = transaction.prepare(&format!("{} ORDER BY id", TokenRow::SELECT))?;
    select.query_map([], TokenRow::read)?.collect()
}

/// The table of tokens, compared with the rows about them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct TokenComparison {
    /// The number of those that are as the log has them.
    pub(crate) same: u64,
    /// Those that were made before there were rows about tokens: nothing tells whether they are as
    /// they were made.
    pub(crate) older: Vec<String>,
    /// Those that are not as the log has them.
    pub(crate) flawed: Vec<FlawedToken>,
}

/// A token that is not as the log has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FlawedToken {
    pub(crate) token: String,
    pub(crate) flaw: TokenFlaw,
    /// The columns that were changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) columns: Vec<&'static str>,
}

/// The flaw of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TokenFlaw {
    /// Different from the last row about it.
    Changed,
    Removed,
    /// Made without a row.
    Unrecorded,
}

/// Tokens by the rows that were followed.
#[derive(Debug, Default)]
pub(super) struct RecordedTokens(BTreeMap<String, TokenRow>);

impl RecordedTokens {
    /// Follows a row, if it is about a token.
    pub(super) fn follow(&mut self, row: &AuditRow) {
        let events = [AuditEvent::TokenCreated, AuditEvent::TokenRevoked];
        if events.iter().any(|event| event.as_str() == row.event)
            && let Ok(recorded) = serde_json::from_str::<TokenRow>(&row.details)
        {
            self.0.insert(recorded.token.clone(), recorded);
        }
    }

    /// Compares them with the table.
    pub(super) fn compare(
        mut self,
        transaction: &Transaction<'_>,
    ) -> rusqlite::Result<TokenComparison> {
        let has_rows = !self.0.is_empty();
        let mut comparison = TokenComparison::default();
        for token in table(transaction)? {
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
        Ok(comparison)
    }
}
