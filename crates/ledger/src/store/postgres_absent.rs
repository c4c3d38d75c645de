//! Replaces the store in PostgreSQL in a build without the feature `postgres`.

use std::path::Path;
use std::sync::Arc;

use crate::postgres::{DatabaseError, DatabaseUrl};
use crate::secret::Secret;

use super::{Store, StoreError};

/// Always fails, because this build cannot use PostgreSQL.
pub(super) fn open(url: &Secret, _folder: &Path) -> Result<Store, StoreError> {
    match DatabaseUrl::parse(url) {
        Ok(url) => match url {},
        Err(error) => Err(StoreError::Database(Arc::new(DatabaseError::Url(error)))),
    }
}

/// Always fails, because this build cannot use PostgreSQL.
pub(super) fn open_to_read(url: &Secret, folder: &Path) -> Result<Store, StoreError> {
    open(url, folder)
}
