//! Errors of the store.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use qwed_files::strict_modes::Unprotected;
use rand::rngs::SysError;
use thiserror::Error;

/// The version of the embedded store's schema (`user_version`).
pub(crate) const SCHEMA_VERSION: i32 = 1;

/// The timeout for a lock that another process holds on the embedded store.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// An error of the store. The error messages contain paths, so only the log and the admin may receive them. If a
/// transaction fails, all calls with rows in this transaction get a copy of the same error.
#[derive(Debug, Clone, Error)]
pub enum StoreError {
    #[error("failed to create the data folder {folder}")]
    CreateFolder { folder: PathBuf, source: Arc<io::Error> },
    #[error("failed to create a database in {folder}")]
    CreateFile { folder: PathBuf, source: Arc<io::Error> },
    #[error(transparent)]
    Unprotected(#[from] Unprotected),
    #[error("failed to use {file}, the lock file")]
    Turnstile { file: PathBuf, source: Arc<io::Error> },
    #[error("there is no {file}; `qwed-mcp token create` makes it")]
    Missing { file: PathBuf },
    #[error(
        "{file} is damaged or not a database, and was not changed; restore it from a backup, or \
         move \
         it away to start without tokens and with an empty audit log"
    )]
    Damaged { file: PathBuf, source: Arc<rusqlite::Error> },
    #[error(
        "{file} is empty, and was not changed; restore it from a backup, or remove it to start \
         without tokens and with an empty audit log"
    )]
    Empty { file: PathBuf },
    #[error(
        "{file} belongs to another application, and was not changed; set QWED_MCP_DATA_DIR to a \
         separate folder"
    )]
    Foreign { file: PathBuf },
    #[error(
        "{file} has schema version {found}, and this program supports {SCHEMA_VERSION}; it was not \
         changed; use the version of qwed-mcp that wrote it, or a later one"
    )]
    Version { file: PathBuf, found: i32 },
    #[error(
        "another process has held {file} for {} s without writing; stop that process, and try \
         again",
        BUSY_TIMEOUT.as_secs()
    )]
    TurnstileHeld { file: PathBuf },
    #[error(
        "{file} was locked by another process for {} s; stop that process, and try again",
        BUSY_TIMEOUT.as_secs()
    )]
    Locked { file: PathBuf, source: Arc<rusqlite::Error> },
    #[error("{file} was removed or replaced while it was open; restore it, or restart this server")]
    Replaced { file: PathBuf },
    #[error(
        "{file} is read-only, and the last changes are next to it in {log}; copy both to a \
         writable folder, and set QWED_MCP_DATA_DIR to it"
    )]
    Unmerged { file: PathBuf, log: PathBuf },
    #[error("failed to use {file}")]
    Access { file: PathBuf, source: Arc<rusqlite::Error> },
    #[error("failed to use {file}, which has the name of this instance")]
    Instance { file: PathBuf, source: Arc<io::Error> },
    /// The database that replicas share cannot be used.
    #[error("the database of QWED_MCP_STORE cannot be used")]
    Database(#[source] Arc<crate::postgres::DatabaseError>),
    #[error("the table {0} in the database of QWED_MCP_STORE has an invalid value")]
    Unreadable(&'static str),
    #[error("too many operations wait for the database of QWED_MCP_STORE")]
    Overloaded,
    /// The thread of the store ended without a result, because of a defect of this program.
    #[error("the store stopped unexpectedly")]
    GivenUp,
    #[error("failed to get random bits")]
    Random(#[source] SysError),
    #[error("the token would expire after the end of the calendar")]
    Expiry,
}

impl StoreError {
    /// Returns whether a retry may succeed, because the shared database is unreachable or busy.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Overloaded)
            || matches!(self, Self::Database(error) if error.is_passing())
    }
}
