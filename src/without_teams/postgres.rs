//! Replaces `postgres` in a program that is built without the feature `teams`. Such a program cannot open a database.

use thiserror::Error;

use crate::secret::Secret;

/// A database. There is none without the feature.
#[derive(Clone)]
pub(crate) enum Database {}

/// The address of a database. There is none without the feature.
pub(crate) enum DatabaseUrl {}

/// A right of the database role that no server needs.
#[derive(Debug, Clone, Copy, Error)]
pub(crate) enum Excess {}

/// Every use of a database fails with this error.
#[derive(Debug, Error)]
pub(crate) enum DatabaseError {
    #[error(transparent)]
    Url(#[from] UrlError),
}

#[derive(Debug, Error)]
#[error("this program was built without the feature `teams`")]
pub(crate) struct UrlError;

impl DatabaseError {
    /// Returns whether a retry may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        false
    }
}

impl DatabaseUrl {
    /// Fails.
    pub(crate) fn parse(_: &Secret) -> Result<Self, UrlError> {
        Err(UrlError)
    }
}

impl Database {
    pub(crate) fn at(url: DatabaseUrl) -> Self {
        match url {}
    }

    pub(crate) async fn open(url: DatabaseUrl) -> Result<Self, DatabaseError> {
        match url {}
    }

    pub(crate) async fn excess(&self) -> Result<Option<Excess>, DatabaseError> {
        match *self {}
    }
}
