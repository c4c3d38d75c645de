//! The store of the governed tools: who may call, and what was done.
//!
//! What the tools ask of it is in `backend`; `sqlite` is the embedded one, and `postgres` the one that
//! several instances share.

mod backend;
mod error;
#[cfg(feature = "postgres")]
mod instance;
mod pending;
#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;
mod timed;

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
use crate::config::Settings;
use crate::meter::Meter;
use crate::secret::Secret;

pub(crate) use backend::{Backend, RowsAfter};
pub(crate) use error::StoreError;
pub(super) use sqlite::SqliteStore;
use timed::Timed;

/// The tokens and the audit log. A handle: clones are the same store.
#[derive(Debug, Clone)]
pub(crate) struct Store {
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

/// The place of a store: a data folder, or the database that instances share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StorePlace<'a> {
    folder: &'a Path,
    url: Option<&'a Secret>,
}

impl<'a> StorePlace<'a> {
    /// Returns the place that the settings name; `folder` is the data folder.
    pub(crate) fn of(settings: &'a Settings, folder: &'a Path) -> Self {
        Self { folder, url: settings.store.as_ref() }
    }

    /// Returns whether there may be a store.
    pub(crate) fn has_store(self) -> bool {
        self.url.is_some() || SqliteStore::is_in(self.folder)
    }

    /// Opens the store, and makes it if it is not there.
    pub(crate) fn open(self) -> Result<Store, StoreError> {
        match self.shared() {
            Some(url) => share(url, self.folder),
            None => SqliteStore::open(self.folder).map(Store::from),
        }
    }

    /// Opens the store, for commands that have nothing to do where there is none.
    pub(crate) fn open_existing(self) -> Result<Store, StoreError> {
        match self.shared() {
            Some(url) => share(url, self.folder),
            None => SqliteStore::open_existing(self.folder).map(Store::from),
        }
    }

    /// Opens the store for commands that only read, also where a file cannot be written to.
    pub(crate) fn open_to_read(self) -> Result<Store, StoreError> {
        match self.shared() {
            Some(url) => share_to_read(url, self.folder),
            None => SqliteStore::open_to_read(self.folder).map(Store::from),
        }
    }

    /// Returns the database, if one is named: nothing else takes its place.
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

#[cfg(feature = "postgres")]
fn share(url: &Secret, folder: &Path) -> Result<Store, StoreError> {
    postgres::PostgresStore::open(url, folder).map(Store::from)
}

#[cfg(feature = "postgres")]
fn share_to_read(url: &Secret, folder: &Path) -> Result<Store, StoreError> {
    postgres::PostgresStore::open_to_read(url, folder).map(Store::from)
}

#[cfg(not(feature = "postgres"))]
fn share(_url: &Secret, _folder: &Path) -> Result<Store, StoreError> {
    Err(StoreError::NoPostgres)
}

#[cfg(not(feature = "postgres"))]
fn share_to_read(_url: &Secret, _folder: &Path) -> Result<Store, StoreError> {
    Err(StoreError::NoPostgres)
}

impl Store {
    /// Has what it is asked for timed from here on.
    pub(crate) fn set_meter(&self, meter: Arc<dyn Meter>) {
        self.backend.set_meter(meter);
    }

    /// Returns whether rows can be appended, as far as that is known: it is tried where the last append failed.
    pub(crate) fn can_append(&self) -> Result<(), StoreError> {
        self.backend.can_append()
    }

    /// Opens the embedded store in `folder`, and makes both if they are not there.
    #[cfg(test)]
    pub(crate) fn open(folder: &Path) -> Result<Self, StoreError> {
        StorePlace { folder, url: None }.open()
    }

    /// Opens the embedded store in `folder`, which has to be there.
    #[cfg(test)]
    pub(crate) fn open_existing(folder: &Path) -> Result<Self, StoreError> {
        StorePlace { folder, url: None }.open_existing()
    }

    /// Makes a token, and writes that down. Its text is never known again.
    pub(crate) fn create_token(
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
        let replacement = Replacement { id, hash, created: self.now(), span };
        Ok(match self.replace_token(replacement)? {
            Replaced::Now(record) => Rotated::Now(record, token),
            Replaced::Revoked => Rotated::Revoked,
            Replaced::Unknown => Rotated::Unknown,
        })
    }

    /// Returns the caller who shows this token; none if it is not known, has expired or was
    /// revoked.
    pub(crate) fn authenticate(&self, token: &Token) -> Result<Option<Caller>, StoreError> {
        self.authenticate_by(token, || self.now())
    }

    /// Does the same at another time than now.
    #[cfg(test)]
    pub(super) fn authenticate_at(
        &self,
        token: &Token,
        now: DateTime<Utc>,
    ) -> Result<Option<Caller>, StoreError> {
        self.authenticate_by(token, || now)
    }

    /// Asks the clock after the token, whose look-up sets that of a database.
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

    /// Returns whether the proof of a caller still holds: the token is active, or the access token has not
    /// expired. An access token needs no look-up.
    pub(crate) async fn holds(&self, proof: Proof) -> Result<bool, StoreError> {
        let id = match proof {
            Proof::Access { expires } => return Ok(Utc::now() < expires),
            Proof::Token(id) => id,
        };
        let store = self.clone();
        let is_active = move || {
            let found = store.token(id)?;
            // The clock after the token: the look-up sets that of a database.
            Ok(found.is_some_and(|record| record.state(store.now()) == TokenState::Active))
        };
        tokio::task::spawn_blocking(is_active).await.map_err(|_| StoreError::GivenUp)?
    }

    /// Appends all entries, next to each other, or none. They are durable when this returns.
    pub(crate) fn append(&self, entries: &[AuditEntry]) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        self.submit_entries(entries.to_vec()).wait().map(drop)
    }
}
