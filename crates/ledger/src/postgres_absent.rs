//! Replaces `postgres` in a build without the feature `postgres`. Such a build cannot open a database.

use thiserror::Error;

use crate::secret::Secret;

/// A database. Without the feature `postgres`, no value of this type exists.
#[derive(Clone)]
pub enum Database {}

/// The address of a database. Without the feature `postgres`, no value of this type exists.
pub enum DatabaseUrl {}

/// An excessive right of a server's database role. Without the feature `postgres`, no value of this type exists.
#[derive(Debug, Clone, Copy, Error)]
pub enum Excess {}

/// Every use of a database fails with this error.
#[derive(Debug, Error)]
pub enum DatabaseError {
    #[error(transparent)]
    Url(#[from] UrlError),
}

#[derive(Debug, Error)]
#[error("this program was built without the feature `teams`")]
pub struct UrlError;

impl DatabaseError {
    /// Returns whether a retry may succeed.
    pub fn is_passing(&self) -> bool {
        false
    }
}

impl DatabaseUrl {
    /// Always fails.
    pub fn parse(_: &Secret) -> Result<Self, UrlError> {
        Err(UrlError)
    }
}

impl Database {
    pub fn at(url: DatabaseUrl) -> Self {
        match url {}
    }

    pub async fn open(url: DatabaseUrl) -> Result<Self, DatabaseError> {
        match url {}
    }

    pub async fn excess(&self) -> Result<Option<Excess>, DatabaseError> {
        match *self {}
    }
}
