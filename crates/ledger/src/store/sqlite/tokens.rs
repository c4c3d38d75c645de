//! The table of tokens.

use std::collections::BTreeMap;
use std::str::FromStr;

use chrono::Utc;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::SqliteStore;
use super::chain::append;
use crate::audit::{AuditEvent, AuditOutcome, NO_RUN, RecordedToken, time_text};
use crate::store::backend::TokenStore;
use crate::store::error::StoreError;
use crate::tokens::{NewToken, Replaced, Replacement, Revoked, TokenHash, TokenId, TokenRecord};

const COLUMNS: &str = "id, user, role, created, expires, revoked";

impl TokenStore for SqliteStore {
    fn record_older_tokens(&self) -> Result<(), StoreError> {
        // Read first, because a write would wait for other processes and is rarely needed.
        if self.read(has_older)? { self.write(record_older) } else { Ok(()) }
    }

    fn add_token(&self, token: NewToken) -> Result<TokenRecord, StoreError> {
        self.write(move |transaction| insert(transaction, &token))
    }

    fn replace_token(&self, new: Replacement) -> Result<Replaced, StoreError> {
        self.write(move |transaction| {
            let select = format!("SELECT {COLUMNS} FROM tokens WHERE id = ?1");
            let Some(old) = transaction.query_row(&select, [new.id.0], record).optional()? else {
                return Ok(Replaced::Unknown);
            };
            if old.revoked.is_some() {
                return Ok(Replaced::Revoked);
            }
            let record = insert(transaction, &new.of(&old))?;
            revoke(transaction, old.id)?;
            Ok(Replaced::Now(Box::new(record)))
        })
    }

    fn revoke(&self, id: TokenId) -> Result<Revoked, StoreError> {
        self.write(move |transaction| {
            let revoked: Option<Option<String>> = transaction
                .query_row("SELECT revoked FROM tokens WHERE id = ?1", [id.0], |row| row.get(0))
                .optional()?;
            match revoked {
                None => Ok(Revoked::Unknown),
                Some(Some(_)) => Ok(Revoked::Before),
                Some(None) => {
                    revoke(transaction, id)?;
                    Ok(Revoked::Now)
                }
            }
        })
    }

    fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        self.read(|transaction| {
            let mut select =
                transaction.prepare(&format!("SELECT {COLUMNS} FROM tokens ORDER BY id"))?;
            select.query_map([], record)?.collect()
        })
    }

    fn token_of(&self, hash: TokenHash) -> Result<Option<(TokenRecord, TokenHash)>, StoreError> {
        self.read(|transaction| {
            let select = format!("SELECT {COLUMNS}, hash FROM tokens WHERE hash = ?1");
            let known = |row: &Row<'_>| Ok((record(row)?, row.get::<_, TokenHash>("hash")?));
            transaction.query_row(&select, [hash], known).optional()
        })
    }

    fn token(&self, id: TokenId) -> Result<Option<TokenRecord>, StoreError> {
        self.read(|transaction| {
            let select = format!("SELECT {COLUMNS} FROM tokens WHERE id = ?1");
            transaction.query_row(&select, [id.0], record).optional()
        })
    }

    // This query reads the whole log. It takes about 0.1 seconds for 100,000 rows.
    fn last_uses(&self) -> Result<BTreeMap<String, String>, StoreError> {
        self.read(|transaction| {
            let mut select = transaction.prepare(
                "SELECT json_extract(details, '$.token') AS token, max(time) FROM audit
                 WHERE event = ?1 AND json_valid(details) GROUP BY token
                 HAVING typeof(token) = 'text'",
            )?;
            let uses = select.query_map([AuditEvent::McpToolCall.as_str()], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
            uses.collect()
        })
    }
}

/// Adds a token, and the row about it.
fn insert(transaction: &Transaction<'_>, token: &NewToken) -> rusqlite::Result<TokenRecord> {
    record_older(transaction)?;
    let insert = "INSERT INTO tokens (hash, user, role, created, expires)
                  VALUES (?1, ?2, ?3, ?4, ?5) RETURNING";
    let record = transaction.query_row(
        &format!("{insert} {COLUMNS}"),
        params![
            token.hash,
            token.user.as_str(),
            token.role.as_str(),
            time_text(token.created),
            token.expires.map(time_text)
        ],
        record,
    )?;
    record_token(transaction, record.id.0, AuditEvent::TokenCreated, AuditOutcome::CREATED)?;
    Ok(record)
}

/// Revokes a token that is not revoked yet, and appends the row about it.
fn revoke(transaction: &Transaction<'_>, id: TokenId) -> rusqlite::Result<()> {
    record_older(transaction)?;
    let now = time_text(Utc::now());
    transaction.execute("UPDATE tokens SET revoked = ?1 WHERE id = ?2", params![now, id.0])?;
    record_token(transaction, id.0, AuditEvent::TokenRevoked, AuditOutcome::REVOKED)
}

/// Reads a token's record from a row with [`COLUMNS`].
fn record(row: &Row<'_>) -> rusqlite::Result<TokenRecord> {
    Ok(TokenRecord {
        id: TokenId(row.get("id")?),
        user: parsed(row, 1)?,
        role: parsed(row, 2)?,
        created: parsed(row, 3)?,
        expires: row.get::<_, Option<String>>(4)?.map(|_| parsed(row, 4)).transpose()?,
        revoked: row.get::<_, Option<String>>(5)?.map(|_| parsed(row, 5)).transpose()?,
    })
}

fn parsed<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    let text: String = row.get(column)?;
    text.parse().map_err(|error: T::Err| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    })
}

/// Selects all columns of a token, including its hash.
const RECORDED: &str = "SELECT id, user, role, created, expires, revoked, hash FROM tokens";

fn recorded(row: &Row<'_>) -> rusqlite::Result<RecordedToken> {
    Ok(RecordedToken {
        token: row.get::<_, i64>(0)?.to_string(),
        user: row.get(1)?,
        role: row.get(2)?,
        created: row.get(3)?,
        expires: row.get(4)?,
        revoked: row.get(5)?,
        sha256: hex::encode(row.get::<_, Vec<u8>>(6)?),
    })
}

/// Appends a row about the token `id`, with the values that the table of tokens has now.
fn record_token(
    transaction: &Transaction<'_>,
    id: i64,
    event: AuditEvent,
    outcome: AuditOutcome,
) -> rusqlite::Result<()> {
    let select = format!("{RECORDED} WHERE id = ?1");
    let token = transaction.query_row(&select, [id], recorded)?;
    append(transaction, &[token.entry(event, outcome)]).map(drop)
}

/// Appends rows about tokens that an earlier version of this program created without rows. Verification can then detect
/// later changes of these tokens.
fn record_older(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    if !has_older(transaction)? {
        return Ok(());
    }
    let tokens = recorded_tokens(transaction)?;
    let entry = |token: &RecordedToken| token.entry(AuditEvent::TokenCreated, AuditOutcome::FOUND);
    append(transaction, &tokens.iter().map(entry).collect::<Vec<_>>()).map(drop)
}

/// Returns whether there are tokens but no rows about tokens.
fn has_older(transaction: &Transaction<'_>) -> rusqlite::Result<bool> {
    let select = "SELECT EXISTS (SELECT 1 FROM tokens)
                      AND NOT EXISTS (SELECT 1 FROM audit WHERE run_id = ?1 AND event = ?2)";
    let parameters = [NO_RUN.to_string(), AuditEvent::TokenCreated.as_str().to_owned()];
    transaction.query_row(select, parameters, |row| row.get(0))
}

/// Returns all rows of the table of tokens, to compare the tokens with the audit log.
pub(super) fn recorded_tokens(
    transaction: &Transaction<'_>,
) -> rusqlite::Result<Vec<RecordedToken>> {
    let mut select = transaction.prepare(&format!("{RECORDED} ORDER BY id"))?;
    select.query_map([], recorded)?.collect()
}
