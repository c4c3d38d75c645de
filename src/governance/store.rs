//! The store of the governed tools: who may call, and what was done.
//!
//! What the tools ask of it is in `backend`; `sqlite` is the embedded one.

mod backend;
mod error;
mod pending;
mod sqlite;

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use subtle::ConstantTimeEq as _;

use super::audit::AuditEntry;
use super::roles::Role;
use super::tokens::{
    Caller, NewToken, Replaced, Replacement, Rotated, Token, TokenId, TokenRecord, TokenState,
};
use super::user_name::UserName;

pub(crate) use backend::{Backend, RowsAfter};
pub(crate) use error::StoreError;
pub(super) use sqlite::SqliteStore;

/// The tokens and the audit log. A handle: clones are the same store.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    backend: Arc<dyn Backend>,
}

impl<B: Backend + 'static> From<B> for Store {
    fn from(backend: B) -> Self {
        Self { backend: Arc::new(backend) }
    }
}

impl Deref for Store {
    type Target = dyn Backend;

    fn deref(&self) -> &Self::Target {
        &*self.backend
    }
}

impl Store {
    /// Returns whether there is a store in `folder`.
    pub(crate) fn is_in(folder: &Path) -> bool {
        SqliteStore::is_in(folder)
    }

    /// Opens the store in `folder`, and makes both if they are not there.
    pub(crate) fn open(folder: &Path) -> Result<Self, StoreError> {
        SqliteStore::open(folder).map(Self::from)
    }

    /// Opens the store in `folder`, for commands that have nothing to do where there is none.
    pub(crate) fn open_existing(folder: &Path) -> Result<Self, StoreError> {
        SqliteStore::open_existing(folder).map(Self::from)
    }

    /// Opens the store in `folder` for commands that only read, also where it cannot be written to.
    pub(crate) fn open_to_read(folder: &Path) -> Result<Self, StoreError> {
        SqliteStore::open_to_read(folder).map(Self::from)
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
        let new = NewToken { hash: token.hash(), user: user.clone(), role, created, expires };
        Ok((self.add_token(new)?, token))
    }

    /// Makes a token of the same user and role as another one, which is revoked, and writes both down. It is
    /// valid for `span`, or else as long as the other one was from its start.
    pub(crate) fn rotate_token(
        &self,
        id: TokenId,
        span: Option<Duration>,
    ) -> Result<Rotated, StoreError> {
        let token = Token::random().map_err(StoreError::Random)?;
        let span = span.map(|span| TimeDelta::from_std(span).map_err(|_| StoreError::Expiry));
        let (hash, span) = (token.hash(), span.transpose()?);
        let replacement = Replacement { id, hash, created: Utc::now(), span };
        Ok(match self.replace_token(replacement)? {
            Replaced::Now(record) => Rotated::Now(record, token),
            Replaced::Revoked => Rotated::Revoked,
            Replaced::Unknown => Rotated::Unknown,
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
        let Some((record, known)) = self.token_of(hash)? else { return Ok(None) };
        let is_same: bool = known.ct_eq(&hash).into();
        match record.state(now) {
            TokenState::Active if is_same => {
                Ok(Some(Caller { user: record.user, role: record.role, token: record.id }))
            }
            TokenState::Active | TokenState::Expired | TokenState::Revoked => Ok(None),
        }
    }

    /// Appends all entries, next to each other, or none. They are durable when this returns.
    pub(crate) fn append(&self, entries: &[AuditEntry]) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        self.submit_entries(entries.to_vec()).wait().map(drop)
    }
}
