//! Tokens, and the callers that they authenticate.
//!
//! A token consists of 256 random bits. It is shown only once. The store contains only the token's hash, so a stolen
//! store contains no usable token. A plain hash suffices, because 256 random bits cannot be guessed.

use std::fmt;
use std::str::FromStr;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use chrono::{DateTime, TimeDelta, Utc};
use rand::TryRng as _;
use rand::rngs::{SysError, SysRng};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::roles::Role;
use super::user_name::UserName;
use crate::secret::Secret;

/// The prefix of every token, by which secret scanners find leaked tokens.
const PREFIX: &str = "qwedmcp_";
const RANDOM_BYTES: usize = 32;
/// The length of a token in bytes: the prefix, and 43 characters for 32 bytes in base64url without padding.
const TOKEN_BYTES: usize = PREFIX.len() + 43;

/// SHA-256 of a token's text.
pub(crate) type TokenHash = [u8; 32];

/// The secret that a caller sends with each request.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    pub(super) fn random() -> Result<Self, SysError> {
        let mut bytes = [0; RANDOM_BYTES];
        SysRng.try_fill_bytes(&mut bytes)?;
        Ok(Self(format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes))))
    }

    /// Parses a token. Returns `None` if `text` does not have the form of a token. `Store::authenticate` checks
    /// whether the token is valid.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != TOKEN_BYTES {
            return None;
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?.as_bytes()).ok()?;
        (bytes.len() == RANDOM_BYTES).then(|| Self(text.to_owned()))
    }

    /// Returns the text of the token, which is shown to the token's owner once.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(super) fn hash(&self) -> TokenHash {
        Sha256::digest(&self.0).into()
    }
}

/// Omits the text, because debug output goes to logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The number of a token. The number is not secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct TokenId(pub(super) i64);

/// A text that is not the number of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected the number of a token, as `qwed-mcp token list` prints it")]
pub struct InvalidTokenId;

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for TokenId {
    type Err = InvalidTokenId;

    fn from_str(text: &str) -> Result<Self, InvalidTokenId> {
        text.parse().map(Self).map_err(|_| InvalidTokenId)
    }
}

/// An authenticated user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub user: UserName,
    pub role: Role,
    pub proof: Proof,
}

/// The credentials of a request.
#[derive(Debug, Clone, Default)]
pub struct Presented {
    /// The token of the request. If `token` and `known` are both `None`, governed tools use the token in the server's
    /// settings.
    pub token: Option<Secret>,
    /// The caller that the transport authenticated. The scripts of the request belong to this caller. Governed tools
    /// run for this caller too, or for the user of `token` if it is set.
    pub known: Option<Caller>,
}

impl Presented {
    /// Returns the user that the transport authenticated.
    pub fn user(&self) -> Option<&UserName> {
        self.known.as_ref().map(|known| &known.user)
    }

    /// Returns the kind of token that authenticated [`Self::user`].
    pub fn proof(&self) -> Option<Proof> {
        self.known.as_ref().map(|known| known.proof)
    }
}

/// The kind of token that authenticated a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// A token of the store.
    Token(TokenId),
    /// An access token of the configured authorization server.
    Access { expires: DateTime<Utc> },
}

impl Proof {
    /// Returns the values for two database columns: the number of a token, and the expiry of an access token.
    pub fn to_columns(self) -> (Option<i64>, Option<DateTime<Utc>>) {
        match self {
            Self::Token(TokenId(id)) => (Some(id), None),
            Self::Access { expires } => (None, Some(expires)),
        }
    }

    /// Parses the values from [`to_columns`](Self::to_columns). Returns `None` if both columns are empty.
    pub fn of_columns(token: Option<i64>, expires: Option<DateTime<Utc>>) -> Option<Self> {
        let of_token = token.map(|id| Self::Token(TokenId(id)));
        of_token.or(expires.map(|expires| Self::Access { expires }))
    }
}

/// Formats the proof for logs and receipts: the number of a token, or `oauth` for an access token.
impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(id) => id.fmt(f),
            Self::Access { .. } => f.write_str("oauth"),
        }
    }
}

/// The record of a token in the store. It contains neither the token nor its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    pub id: TokenId,
    pub user: UserName,
    pub role: Role,
    pub created: DateTime<Utc>,
    pub expires: Option<DateTime<Utc>>,
    pub revoked: Option<DateTime<Utc>>,
}

/// A new token that is not in the store yet.
#[derive(Debug, Clone)]
pub struct NewToken {
    pub hash: TokenHash,
    pub user: UserName,
    pub role: Role,
    pub created: DateTime<Utc>,
    pub expires: Option<DateTime<Utc>>,
}

/// A new token that replaces the token with the number `id`.
#[derive(Debug, Clone, Copy)]
pub struct Replacement {
    pub id: TokenId,
    pub hash: TokenHash,
    pub created: DateTime<Utc>,
    /// The validity of the new token. `None` means the original validity of the replaced token.
    pub span: Option<TimeDelta>,
}

impl Replacement {
    /// Returns the token that replaces `old`.
    pub(super) fn of(self, old: &TokenRecord) -> NewToken {
        let Self { id: _, hash, created, span } = self;
        let span = span.or(old.expires.map(|expires| expires - old.created));
        let expires = span.and_then(|span| created.checked_add_signed(span));
        NewToken { hash, user: old.user.clone(), role: old.role, created, expires }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenState {
    Active,
    Expired,
    Revoked,
}

impl TokenState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl TokenRecord {
    pub fn state(&self, now: DateTime<Utc>) -> TokenState {
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
pub enum Revoked {
    /// This call revoked the token. Before the call, the token was valid or expired.
    Now,
    /// The token was already revoked before this call.
    Before,
    /// No token has this id.
    Unknown,
}

/// The result of replacing a token.
#[derive(Debug)]
pub enum Replaced {
    /// The record of the new token. The replaced token is revoked.
    Now(Box<TokenRecord>),
    /// The token was already revoked, so nothing was done.
    Revoked,
    /// No token has this id.
    Unknown,
}

/// The result of replacing a token, with the secret of the new token.
#[derive(Debug)]
pub enum Rotated {
    /// The new token. The replaced token is revoked.
    Now(Box<TokenRecord>, Token),
    /// The token was already revoked, so nothing was done.
    Revoked,
    /// No token has this id.
    Unknown,
}
