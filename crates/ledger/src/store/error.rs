//! Errors of the store.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use qwed_files::strict_modes::Unprotected;
use rand::rngs::SysError;
use thiserror::Error;

/// The version of the schema of the embedded store, in `user_version`.
pub(crate) const SCHEMA_VERSION: i32 = 1;

/// The timeout for a lock that another process holds on the embedded store.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// An error of the store. The texts name files, so they are for logs and the admin. All calls with rows in one failed
/// transaction get the same error.
#[derive(Debug, Clone, Error)]
pub enum StoreError {
    #[error("failed to create the data folder {folder}")]
    CreateFolder { folder: PathBuf, source: Arc<io::Error> },
    #[error("failed to create a database in {folder}")]
    CreateFile { folder: PathBuf, source: Arc<io::Error> },
    #[error(transparent)]
    Unprotected(#[from] Unprotected),
    #[error("failed to use {file}, by which processes take turns")]
    Turnstile { file: PathBuf, source: Arc<io::Error> },
    #[error("there is no {file}; `qwed-mcp token create` makes it")]
    Missing { file: PathBuf },
    #[error(
        "{file} is damaged or no database, and was left as it is; restore it from a backup, or move \
         it away to start without tokens and with an empty audit log"
    )]
    Damaged { file: PathBuf, source: Arc<rusqlite::Error> },
    #[error(
        "{file} is empty, and was left as it is; restore it from a backup, or remove it to start \
         without tokens and with an empty audit log"
    )]
    Empty { file: PathBuf },
    #[error(
        "{file} belongs to another application, and was left as it is; set QWED_MCP_DATA_DIR to a \
         folder of its own"
    )]
    Foreign { file: PathBuf },
    #[error(
        "{file} has schema version {found}, and this program knows {SCHEMA_VERSION}; it was left as \
         it is; use the version of qwed-mcp that wrote it, or a later one"
    )]
    Version { file: PathBuf, found: i32 },
    #[error(
        "{file} was held by another process for {} s, which should be next to write and does not; \
         end what holds it, and try again",
        BUSY_TIMEOUT.as_secs()
    )]
    TurnstileHeld { file: PathBuf },
    #[error(
        "{file} was locked by another process for {} s; end what holds it, and try again",
        BUSY_TIMEOUT.as_secs()
    )]
    Locked { file: PathBuf, source: Arc<rusqlite::Error> },
    #[error(
        "{file} was removed or replaced while it was open; put it back, or end this server and \
         start it again"
    )]
    Replaced { file: PathBuf },
    #[error(
        "{file} cannot be written to, and what was written last is beside it in {log}; copy both to \
         a folder of your own, and name that with QWED_MCP_DATA_DIR"
    )]
    Unmerged { file: PathBuf, log: PathBuf },
    #[error("failed to use {file}")]
    Access { file: PathBuf, source: Arc<rusqlite::Error> },
    #[error("failed to use {file}, which names this instance in the audit log")]
    Instance { file: PathBuf, source: Arc<io::Error> },
    /// The database that replicas share cannot be used.
    #[error("the database that QWED_MCP_STORE names cannot be used")]
    Database(#[source] Arc<crate::postgres::DatabaseError>),
    #[error(
        "the table {0} of the database that QWED_MCP_STORE names has a value that was never written"
    )]
    Unreadable(&'static str),
    #[error("too much waits for the database that QWED_MCP_STORE names")]
    Overloaded,
    /// A defect of this program.
    #[error("the work of the store was given up unexpectedly")]
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
