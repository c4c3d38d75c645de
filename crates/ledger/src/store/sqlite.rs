//! The embedded store: a SQLite file that several processes can share.
//!
//! Only the file's owner can read the file. The file is created atomically. This module neither opens nor changes a
//! damaged file or the database of another application. Without a store that can be opened, governed tools do not run.

mod audit;
mod chain;
mod database;
mod read_only;
mod runs;
mod tokens;
mod writer;

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use qwed_files::strict_modes::{Unprotected, require_protected};
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::backend::Backend;
use super::error::{BUSY_TIMEOUT, SCHEMA_VERSION, StoreError};
use super::pending::Pending;

use writer::Writer;

/// The name of the database file in the data folder.
const FILE_NAME: &str = "governance.db";
/// The files and folders of the store in the data folder.
const OWN_FILES: [&str; 5] =
    [FILE_NAME, writer::LOG, "governance.db-shm", writer::TURNSTILE, "artifacts"];
/// The SQLite `application_id` of a store: "QWED" in ASCII.
const APPLICATION_ID: i32 = 0x5157_4544;
const SCHEMA: &str = include_str!("sqlite/schema.sql");

/// The pause between two attempts to lock the database. SQLite's own pauses grow to 100 ms. Pauses of 100 ms can miss
/// all of the short gaps between the transactions of a busy writer.
const BUSY_PAUSE: Duration = Duration::from_millis(2);

/// The maximum number of attempts to check a file. An attempt can fail because SQLite removes and recreates the file.
const PROTECTION_TRIES_MAX: u32 = 100;

/// A handle to the store. Clones share one store.
///
/// A method that returns [`Pending`] does not wait for the disk. All other methods do.
#[derive(Debug, Clone)]
pub(crate) struct SqliteStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The connection for reading. Writers do not block this connection.
    reader: Mutex<Connection>,
    writer: Writer,
    file: Arc<StoreFile>,
}

/// The file of an open store.
#[derive(Debug)]
struct StoreFile {
    path: PathBuf,
    /// The device and the inode of the file when the store was opened. They reveal whether the file was replaced later.
    identity: Option<(u64, u64)>,
    /// Set when the store closes. The writer then no longer waits for other processes.
    is_closing: Arc<AtomicBool>,
}

impl Backend for SqliteStore {}

impl SqliteStore {
    /// Returns whether `folder` contains a store.
    pub(crate) fn is_in(folder: &Path) -> bool {
        exists(&folder.join(FILE_NAME))
    }

    /// Opens the store in `folder`, and creates the folder and the store if they do not exist.
    pub(crate) fn open(folder: &Path) -> Result<Self, StoreError> {
        let create_folder = |source| StoreError::CreateFolder {
            folder: folder.to_owned(),
            source: Arc::new(source),
        };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(create_folder)?;
        // Check the folder before anything is created in it.
        require_protected(folder)?;
        if !exists(&folder.join(FILE_NAME)) {
            create(folder)?;
        }
        Self::open_existing(folder)
    }

    /// Opens the store in `folder`. Fails if the store does not exist.
    pub(crate) fn open_existing(folder: &Path) -> Result<Self, StoreError> {
        for name in OWN_FILES {
            require_protected_if_there(&folder.join(name))?;
        }
        Self::open_unchecked(folder)
    }

    /// Opens the store in `folder`, without checking the permissions of the files.
    fn open_unchecked(folder: &Path) -> Result<Self, StoreError> {
        let file = folder.join(FILE_NAME);
        if !exists(&file) {
            return Err(StoreError::Missing { file });
        }
        // SQLite treats an empty file as a database without tables. A store always has tables, so refuse an empty
        // file.
        if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
            return Err(StoreError::Empty { file });
        }
        let failed = |source| error_of(&file, source);
        // Check the application id first, because the settings below could change the database of another
        // application.
        let opened =
            connect(&file).and_then(|connection| Ok((read_identity(&connection)?, connection)));
        let (owner, connection) = opened.map_err(failed)?;
        require_ours(&file, owner)?;
        configure(&connection).map_err(failed)?;
        Ok(Self::of(file, connection))
    }

    fn of(file: PathBuf, connection: Connection) -> Self {
        let identity = identity(&file);
        let file = Arc::new(StoreFile { path: file, identity, is_closing: Arc::default() });
        let writer = Writer::new(Arc::clone(&file));
        Self { shared: Arc::new(Shared { reader: Mutex::new(connection), writer, file }) }
    }

    /// Calls `work` in a transaction that reads one snapshot.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        // Ignore poisoning, because a thread that panicked has rolled back its transaction.
        let mut reader = self.shared.reader.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.file.check()?;
        let done = reader.transaction_with_behavior(TransactionBehavior::Deferred);
        let done = done.and_then(|transaction| work(&transaction));
        done.map_err(|source| error_of(&self.shared.file.path, source))
    }

    /// Writes in one transaction, after all earlier submissions. Returns when the transaction is on the disk.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.submit(work).wait()
    }

    /// Submits a transaction like [`write`](Self::write), without waiting for it.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Pending<T> {
        self.shared.writer.submit(work)
    }
}

impl StoreFile {
    /// Fails if the file was replaced or removed, because writes to a removed file would be lost.
    fn check(&self) -> Result<(), StoreError> {
        if identity(&self.path) == self.identity {
            return Ok(());
        }
        Err(StoreError::Replaced { file: self.path.clone() })
    }

    /// Opens another connection to the file.
    fn connect(&self) -> rusqlite::Result<Connection> {
        let mut connection = connect(&self.path)?;
        let is_closing = Arc::clone(&self.is_closing);
        connection.busy_handler(Some(busy_handler(move || is_closing.load(Ordering::Relaxed))))?;
        configure(&connection)?;
        Ok(connection)
    }
}

/// Returns the device and the inode of a file. `None` if the file does not exist.
fn identity(file: &Path) -> Option<(u64, u64)> {
    let metadata = file.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Returns whether a path exists, even as a dangling symlink.
fn exists(file: &Path) -> bool {
    file.symlink_metadata().is_ok()
}

/// Fails if another user can change a file. Succeeds if the file does not exist, because SQLite removes and recreates
/// its own files at any moment.
fn require_protected_if_there(file: &Path) -> Result<(), Unprotected> {
    let mut tries_left = PROTECTION_TRIES_MAX;
    loop {
        if !exists(file) {
            return Ok(());
        }
        match require_protected(file) {
            Err(Unprotected::Unknown { .. }) if tries_left > 0 => tries_left -= 1,
            looked_at => return looked_at,
        }
    }
}

/// Creates an empty store in a temporary file, and renames the file when it is complete. If another process has
/// created a store meanwhile, keeps that store.
fn create(folder: &Path) -> Result<(), StoreError> {
    let create_file =
        |source| StoreError::CreateFile { folder: folder.to_owned(), source: Arc::new(source) };
    // The file has mode 0600, which SQLite copies to its other files. Close the file before SQLite opens it. Closing it
    // later would drop the locks that SQLite holds on it in this process.
    let draft = tempfile::Builder::new()
        .prefix(".governance-")
        .tempfile_in(folder)
        .map_err(create_file)?
        .into_temp_path();
    write_schema(&draft).map_err(|source| error_of(&draft, source))?;
    match draft.persist_noclobber(folder.join(FILE_NAME)) {
        Ok(()) => File::open(folder).and_then(|folder| folder.sync_all()).map_err(create_file),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(create_file(error.error)),
    }
}

fn write_schema(draft: &Path) -> rusqlite::Result<()> {
    let mut connection = connect(draft)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(SCHEMA)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()?;
    configure(&connection)?;
    connection.close().map_err(|(_, error)| error)
}

fn connect(file: &Path) -> rusqlite::Result<Connection> {
    // Do not add `SQLITE_OPEN_CREATE`, because SQLite would then create a file with a mode that depends on the umask.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(file, flags)?;
    connection.busy_handler(Some(busy_handler(|| false)))?;
    Ok(connection)
}

/// Returns a busy handler that waits for other processes. The handler gives up after [`BUSY_TIMEOUT`], or when
/// `is_over` returns `true`.
fn busy_handler(is_over: impl Fn() -> bool) -> impl FnMut(i32) -> bool {
    let mut since = Instant::now();
    move |asked_before| {
        if asked_before == 0 {
            since = Instant::now();
        }
        std::thread::sleep(BUSY_PAUSE);
        since.elapsed() < BUSY_TIMEOUT && !is_over()
    }
}

/// Applies the settings of this program to a connection.
fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // With `FULL`, commits survive a power failure.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "trusted_schema", false)
}

/// Reads the application id and the schema version of a database.
fn read_identity(connection: &Connection) -> rusqlite::Result<(i32, i32)> {
    Ok((pragma(connection, "application_id")?, pragma(connection, "user_version")?))
}

fn require_ours(file: &Path, owner: (i32, i32)) -> Result<(), StoreError> {
    let file = file.to_owned();
    match owner {
        (APPLICATION_ID, SCHEMA_VERSION) => Ok(()),
        (APPLICATION_ID, found) => Err(StoreError::Version { file, found }),
        _ => Err(StoreError::Foreign { file }),
    }
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

fn error_of(file: &Path, source: rusqlite::Error) -> StoreError {
    let (file, source) = (file.to_owned(), Arc::new(source));
    match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Locked { file, source }
        }
        // `None` means that the error is not from SQLite: a row has a value that this program never writes.
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) | None => {
            StoreError::Damaged { file, source }
        }
        Some(_) => StoreError::Access { file, source },
    }
}

#[cfg(test)]
mod tests;
