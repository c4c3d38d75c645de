//! The store, which contains the tokens and the audit log.
//!
//! `backend` is the interface. `sqlite` implements it for an embedded database, `postgres` for a database that
//! replicas share.

mod backend;
mod error;
mod pending;
#[cfg_attr(not(feature = "postgres"), path = "store/postgres_absent.rs")]
mod postgres;
mod sqlite;
mod timed;
mod timer;

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use subtle::ConstantTimeEq as _;

use super::audit::AuditEntry;
use super::roles::Role;
use super::tokens::{
    Caller, NewToken, Proof, Replaced, Replacement, Rotated, Token, TokenId, TokenRecord,
    TokenState,
};
use super::user_name::UserName;
use crate::secret::Secret;

pub(crate) use backend::Backend;
pub use backend::RowsAfter;
pub use error::StoreError;
pub(super) use sqlite::SqliteStore;
use timed::Timed;

/// A handle to the store, which contains the tokens and the audit log. All clones of the handle share one store.
#[derive(Debug, Clone)]
pub struct Store {
    backend: Arc<Timed>,
}

impl<B: Backend + 'static> From<B> for Store {
    fn from(backend: B) -> Self {
        Self { backend: Arc::new(Timed::new(backend)) }
    }
}

impl Deref for Store {
    type Target = dyn Backend;

    fn deref(&self) -> &Self::Target {
        &*self.backend
    }
}

/// The location of a store: a data folder, or a database that replicas share.
#[derive(Debug, Clone, Copy)]
pub struct StorePlace<'a> {
    folder: &'a Path,
    url: Option<&'a Secret>,
}

impl<'a> StorePlace<'a> {
    /// Returns the location in the data folder `folder`, or in the database at `url`.
    pub fn new(folder: &'a Path, url: Option<&'a Secret>) -> Self {
        Self { folder, url }
    }

    /// Returns whether the store exists. Always returns `true` for a database that replicas share, without connecting
    /// to the database.
    pub fn has_store(self) -> bool {
        self.url.is_some() || SqliteStore::is_in(self.folder)
    }

    /// Opens the store, and creates it if it does not exist.
    pub fn open(self) -> Result<Store, StoreError> {
        match self.shared() {
            Some(url) => postgres::open(url, self.folder),
            None => SqliteStore::open(self.folder).map(Store::from),
        }
    }

    /// Opens the store. Fails if an embedded store does not exist.
    pub fn open_existing(self) -> Result<Store, StoreError> {
        match self.shared() {
            Some(url) => postgres::open(url, self.folder),
            None => SqliteStore::open_existing(self.folder).map(Store::from),
        }
    }

    /// Opens the store for reading only. The file of an embedded store may be read-only.
    pub fn open_to_read(self) -> Result<Store, StoreError> {
        match self.shared() {
            Some(url) => postgres::open_to_read(url, self.folder),
            None => SqliteStore::open_to_read(self.folder).map(Store::from),
        }
    }

    /// Returns the URL of the shared database, if one is set. Logs a warning if the data folder contains a store,
    /// because that store is not used.
    fn shared(self) -> Option<&'a Secret> {
        if self.url.is_some() && SqliteStore::is_in(self.folder) {
            tracing::warn!(
                "QWED_MCP_STORE is set: the tokens and the audit log of the store in {} are not used",
                self.folder.display()
            );
        }
        self.url
    }
}

impl Store {
    /// Fails if the store cannot append rows. To find out, appends a row and rolls the row back. Skips this test if the
    /// last append succeeded.
    pub fn can_append(&self) -> Result<(), StoreError> {
        self.backend.can_append()
    }

    /// Opens the embedded store in `folder`, and creates the folder and the store if they do not exist.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        StorePlace { folder, url: None }.open()
    }

    /// Opens the embedded store in `folder`. Fails if the store does not exist.
    #[cfg(test)]
    pub(crate) fn open_existing(folder: &Path) -> Result<Self, StoreError> {
        StorePlace { folder, url: None }.open_existing()
    }

    /// Creates a token, and appends a row about it. Only this call returns the secret.
    pub fn create_token(
        &self,
        user: &UserName,
        role: Role,
        expires: Option<Duration>,
    ) -> Result<(TokenRecord, Token), StoreError> {
        let token = Token::random().map_err(StoreError::Random)?;
        let created = self.now();
        let end = |span| created.checked_add_signed(TimeDelta::from_std(span).ok()?);
        let expires = expires.map(|span| end(span).ok_or(StoreError::Expiry)).transpose()?;
        let new = NewToken { hash: token.hash(), user: user.clone(), role, created, expires };
        Ok((self.add_token(new)?, token))
    }

    /// Replaces a token by a new token of the same user and role, and appends rows about both tokens. The new token is
    /// valid for `span`. If `span` is `None`, the new token gets the original validity of the old token.
    pub fn rotate_token(&self, id: TokenId, span: Option<Duration>) -> Result<Rotated, StoreError> {
        let token = Token::random().map_err(StoreError::Random)?;
        let span = span.map(|span| TimeDelta::from_std(span).map_err(|_| StoreError::Expiry));
        let (hash, span) = (token.hash(), span.transpose()?);
        let replacement = Replacement { id, hash, created: self.now(), span };
        Ok(match self.replace_token(replacement)? {
            Replaced::Now(record) => Rotated::Now(record, token),
            Replaced::Revoked => Rotated::Revoked,
            Replaced::Unknown => Rotated::Unknown,
        })
    }

    /// Returns the caller that this token authenticates. `None` if the token is unknown, expired or revoked.
    pub fn authenticate(&self, token: &Token) -> Result<Option<Caller>, StoreError> {
        self.authenticate_by(token, || self.now())
    }

    /// Authenticates as if `now` were the current time.
    #[cfg(test)]
    pub(super) fn authenticate_at(
        &self,
        token: &Token,
        now: DateTime<Utc>,
    ) -> Result<Option<Caller>, StoreError> {
        self.authenticate_by(token, || now)
    }

    /// Authenticates at the time `now`. Calls `now` after the lookup, because a lookup in a shared database sets the
    /// store's clock.
    fn authenticate_by(
        &self,
        token: &Token,
        now: impl Fn() -> DateTime<Utc>,
    ) -> Result<Option<Caller>, StoreError> {
        let hash = token.hash();
        let Some((record, known)) = self.token_of(hash)? else { return Ok(None) };
        let is_same: bool = known.ct_eq(&hash).into();
        match record.state(now()) {
            TokenState::Active if is_same => {
                let proof = Proof::Token(record.id);
                Ok(Some(Caller { user: record.user, role: record.role, proof }))
            }
            TokenState::Active | TokenState::Expired | TokenState::Revoked => Ok(None),
        }
    }

    /// Returns whether the token that authenticated a caller is still valid. An OAuth access token needs no lookup,
    /// because it is valid until it expires.
    pub async fn holds(&self, proof: Proof) -> Result<bool, StoreError> {
        let id = match proof {
            Proof::Access { expires } => return Ok(Utc::now() < expires),
            Proof::Token(id) => id,
        };
        let store = self.clone();
        let is_active = move || {
            let found = store.token(id)?;
            // Call `now` after the lookup, so that a token that expires during the lookup is invalid.
            Ok(found.is_some_and(|record| record.state(store.now()) == TokenState::Active))
        };
        tokio::task::spawn_blocking(is_active).await.map_err(|_| StoreError::GivenUp)?
    }

    /// Appends all entries as consecutive rows, or none of them. The rows are durable when this function returns.
    pub fn append(&self, entries: &[AuditEntry]) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        self.submit_entries(entries.to_vec()).wait().map(drop)
    }
}
