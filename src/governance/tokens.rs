//! Tokens: the proof of who calls.
//!
//! A token is 256 random bits, shown once. The store has its hash, so that who reads the store
//! cannot call; there is nothing to guess, so a plain hash will do.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use chrono::{DateTime, TimeDelta, Utc};
use rand::TryRng as _;
use rand::rngs::{SysError, SysRng};
use rusqlite::types::Type;
use rusqlite::{OptionalExtension as _, Row, Transaction, params};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::audit::{AuditEvent, AuditOutcome, has_older, record_older, record_token};
use super::roles::Role;
use super::store::{Store, StoreError, time_text};
use super::user_name::UserName;

/// The start of a token, so that it is recognised where it was left by mistake.
const PREFIX: &str = "qwedmcp_";
const RANDOM_BYTES: usize = 32;
/// The prefix, and 32 bytes as base64url without padding.
const TOKEN_BYTES: usize = PREFIX.len() + 43;

const COLUMNS: &str = "id, user, role, created, expires, revoked";

/// The secret that a caller shows.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    fn random() -> Result<Self, SysError> {
        let mut bytes = [0; RANDOM_BYTES];
        SysRng.try_fill_bytes(&mut bytes)?;
        Ok(Self(format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes))))
    }

    /// Parses a token; none if `text` cannot be one. Whether it is known, [`Store::authenticate`]
    /// says.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() != TOKEN_BYTES {
            return None;
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?.as_bytes()).ok()?;
        (bytes.len() == RANDOM_BYTES).then(|| Self(text.to_owned()))
    }

    /// Returns the text, to be shown to its owner once.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    fn hash(&self) -> [u8; 32] {
        Sha256::digest(&self.0).into()
    }
}

/// Never the text: debug output goes to logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The number of a token. No secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct TokenId(i64);

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for TokenId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// A caller, and what has proven it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) user: UserName,
    pub(crate) role: Role,
    pub(crate) proof: Proof,
}

/// What has proven who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// A token of the store.
    Token(TokenId),
    /// An access token of the team's authorization server.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "there is no way to show one"))]
    Access { expires: DateTime<Utc> },
}

/// What logs and receipts have: the number of a token, or the word for the others.
impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(id) => id.fmt(f),
            Self::Access { .. } => f.write_str("oauth"),
        }
    }
}

/// The record of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenRecord {
    pub(crate) id: TokenId,
    pub(crate) user: UserName,
    pub(crate) role: Role,
    pub(crate) created: DateTime<Utc>,
    pub(crate) expires: Option<DateTime<Utc>>,
    pub(crate) revoked: Option<DateTime<Utc>>,
}

/// The state of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TokenState {
    Active,
    Expired,
    Revoked,
}

impl TokenState {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl TokenRecord {
    pub(crate) fn state(&self, now: DateTime<Utc>) -> TokenState {
        if self.revoked.is_some() {
            TokenState::Revoked
        } else if self.expires.is_some_and(|expires| expires <= now) {
            TokenState::Expired
        } else {
            TokenState::Active
        }
    }
}

/// The result of revoking a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Revoked {
    /// Revoked now; it was good, or had expired.
    Now,
    /// Revoked before, and stays so.
    Before,
    /// Unknown: no token has this id.
    Unknown,
}

/// The result of putting a token in the place of another one.
#[derive(Debug)]
pub(crate) enum Rotated {
    /// The new token; the other one is revoked.
    Now(Box<TokenRecord>, Token),
    /// The other one was revoked before: nothing was done.
    Revoked,
    /// Unknown: no token has this id.
    Unknown,
}

impl Store {
    /// Writes down which tokens there are, in a store that was made before tokens had rows in the
    /// audit log.
    pub(crate) fn record_older_tokens(&self) -> Result<(), StoreError> {
        // To write waits for whoever holds the store, and there is hardly ever something to write.
        if self.read(has_older)? { self.write(record_older) } else { Ok(()) }
    }

    /// Makes a token, and writes that down. Its text is never known again.
    pub(crate) fn create_token(
        &self,
        user: &UserName,
        role: Role,
        expires: Option<Duration>,
    ) -> Result<(TokenRecord, Token), StoreError> {
        let token = Token::random().map_err(StoreError::Random)?;
        let created = Utc::now();
        let end = |span| created.checked_add_signed(TimeDelta::from_std(span).ok()?);
        let expires = expires.map(|span| end(span).ok_or(StoreError::Expiry)).transpose()?;
        let (user, hash) = (user.clone(), token.hash());
        let record = self
            .write(move |transaction| insert(transaction, hash, &user, role, created, expires))?;
        Ok((record, token))
    }

    /// Makes a token of the same user and role as another one, which is revoked, and writes both down. It is
    /// valid for `span`, or else as long as the other one was from its start.
    pub(crate) fn rotate_token(
        &self,
        id: TokenId,
        span: Option<Duration>,
    ) -> Result<Rotated, StoreError> {
        let token = Token::random().map_err(StoreError::Random)?;
        let created = Utc::now();
        let span = span.map(|span| TimeDelta::from_std(span).map_err(|_| StoreError::Expiry));
        let (hash, span) = (token.hash(), span.transpose()?);
        let rotated = self.write(move |transaction| {
            let select = format!("SELECT {COLUMNS} FROM tokens WHERE id = ?1");
            let Some(old) = transaction.query_row(&select, [id.0], record).optional()? else {
                return Ok(Err(Rotated::Unknown));
            };
            if old.revoked.is_some() {
                return Ok(Err(Rotated::Revoked));
            }
            let span = span.or(old.expires.map(|expires| expires - old.created));
            let expires = span.and_then(|span| created.checked_add_signed(span));
            let new = insert(transaction, hash, &old.user, old.role, created, expires)?;
            revoke(transaction, id)?;
            Ok(Ok(new))
        })?;
        Ok(rotated.map_or_else(|not| not, |record| Rotated::Now(Box::new(record), token)))
    }

    /// Returns all tokens, the oldest first.
    pub(crate) fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        self.read(|transaction| {
            let mut select =
                transaction.prepare(&format!("SELECT {COLUMNS} FROM tokens ORDER BY id"))?;
            select.query_map([], record)?.collect()
        })
    }

    /// Returns the time of each token's last use, as the audit log has it; by its number. Some
    /// 100,000 rows are looked through in a tenth of a second.
    pub(crate) fn last_uses(&self) -> Result<BTreeMap<String, String>, StoreError> {
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

    /// Makes a token worthless, at once and for ever, and writes that down.
    pub(crate) fn revoke(&self, id: TokenId) -> Result<Revoked, StoreError> {
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

    /// Returns the caller who shows this token; none if it is not known, has expired or was
    /// revoked.
    pub(crate) fn authenticate(&self, token: &Token) -> Result<Option<Caller>, StoreError> {
        self.authenticate_at(token, Utc::now())
    }

    pub(super) fn authenticate_at(
        &self,
        token: &Token,
        now: DateTime<Utc>,
    ) -> Result<Option<Caller>, StoreError> {
        let hash = token.hash();
        let found = self.read(|transaction| {
            let select = format!("SELECT {COLUMNS}, hash FROM tokens WHERE hash = ?1");
            let known = |row: &Row<'_>| Ok((record(row)?, row.get::<_, [u8; 32]>("hash")?));
            transaction.query_row(&select, [hash], known).optional()
        })?;
        let Some((record, known)) = found else { return Ok(None) };
        let is_same: bool = known.ct_eq(&hash).into();
        match record.state(now) {
            TokenState::Active if is_same => {
                let proof = Proof::Token(record.id);
                Ok(Some(Caller { user: record.user, role: record.role, proof }))
            }
            TokenState::Active | TokenState::Expired | TokenState::Revoked => Ok(None),
        }
    }
}

/// Adds a token, and the row about it.
fn insert(
    transaction: &Transaction<'_>,
    hash: [u8; 32],
    user: &UserName,
    role: Role,
    created: DateTime<Utc>,
    expires: Option<DateTime<Utc>>,
) -> rusqlite::Result<TokenRecord> {
    record_older(transaction)?;
    let insert = "INSERT INTO tokens (hash, user, role, created, expires)
                  VALUES (?1, ?2, ?3, ?4, ?5) RETURNING";
    let record = transaction.query_row(
        &format!("{insert} {COLUMNS}"),
        params![hash, user.as_str(), role.as_str(), time_text(created), expires.map(time_text)],
        record,
    )?;
    record_token(transaction, record.id.0, AuditEvent::TokenCreated, AuditOutcome::Created)?;
    Ok(record)
}

/// Revokes a token that is not, and adds the row about it.
fn revoke(transaction: &Transaction<'_>, id: TokenId) -> rusqlite::Result<()> {
    record_older(transaction)?;
    let now = time_text(Utc::now());
    transaction.execute("UPDATE tokens SET revoked = ?1 WHERE id = ?2", params![now, id.0])?;
    record_token(transaction, id.0, AuditEvent::TokenRevoked, AuditOutcome::Revoked)
}

/// Reads the record of a row with [`COLUMNS`].
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
