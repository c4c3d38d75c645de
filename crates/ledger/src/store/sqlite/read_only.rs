//! Opens stores only for reading, such as stores on a read-only file system or in another user's backup.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{FILE_NAME, SqliteStore, error_of, read_identity, require_ours};
use crate::store::error::StoreError;

/// The characters that are percent-encoded in the path of a URI.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'/');

impl SqliteStore {
    /// Opens the store in `folder` for reading, even if its files are not writable.
    pub(crate) fn open_to_read(folder: &Path) -> Result<Self, StoreError> {
        // Do not check permissions here, because reading another user's copy is harmless.
        match Self::open_unchecked(folder) {
            Err(error) if needs_writing(&error) => Self::open_as_it_is(folder),
            opened => opened,
        }
    }

    /// Opens the database file as immutable. Otherwise SQLite would create other files in the folder, even for reading.
    fn open_as_it_is(folder: &Path) -> Result<Self, StoreError> {
        let file = folder.join(FILE_NAME);
        let log = folder.join(format!("{FILE_NAME}-wal"));
        if log.metadata().is_ok_and(|metadata| metadata.len() > 0) {
            return Err(StoreError::Unmerged { file, log });
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(immutable(&file), flags).and_then(|connection| {
            let owner = read_identity(&connection)?;
            connection.pragma_update(None, "trusted_schema", false)?;
            Ok((owner, connection))
        });
        let (owner, connection) = opened.map_err(|source| error_of(&file, source))?;
        require_ours(&file, owner)?;
        tracing::warn!("{} is read-only, and is read without changes", file.display());
        Ok(Self::of(file, connection))
    }
}

fn needs_writing(error: &StoreError) -> bool {
    let StoreError::Access { source, .. } = error else { return false };
    let codes = [ErrorCode::ReadOnly, ErrorCode::CannotOpen, ErrorCode::PermissionDenied];
    source.sqlite_error_code().is_some_and(|code| codes.contains(&code))
}

/// Returns the SQLite URI of an immutable file.
fn immutable(file: &Path) -> PathBuf {
    let file = percent_encode(file.as_os_str().as_bytes(), RESERVED);
    format!("file:{file}?immutable=1").into()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use rusqlite::ffi;
    use tempfile::TempDir;

    use super::super::writer::LOG;
    use super::super::{APPLICATION_ID, pragma};
    use super::*;
    use crate::store::error::SCHEMA_VERSION;

    /// Creates and closes a store. The name of its folder contains characters that have a special meaning in a URI.
    fn folder() -> (TempDir, PathBuf) {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("a?mode=rw&b#c%20 \u{e9}");
        drop(SqliteStore::open(&folder).unwrap());
        (parent, folder)
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_read_as_it_is_is_not_written_to_nor_beside() {
        let (_parent, folder) = folder();
        let before = names(&folder);
        let store = SqliteStore::open_as_it_is(&folder).unwrap();
        let found = store.read(|transaction| {
            let trusted_schema = pragma(transaction, "trusted_schema")?;
            Ok((read_identity(transaction)?, trusted_schema))
        });
        assert_eq!(found.unwrap(), ((APPLICATION_ID, SCHEMA_VERSION), 0));
        let written = store.read(|transaction| transaction.execute_batch("CREATE TABLE a (b)"));
        assert!(matches!(written, Err(StoreError::Access { .. })), "{written:?}");
        assert_eq!(names(&folder), before);
    }

    #[test]
    fn what_is_not_ours_is_not_read() {
        let (_parent, folder) = folder();
        let database = Connection::open(folder.join(FILE_NAME)).unwrap();
        database.pragma_update(None, "application_id", 7).unwrap();
        database.close().unwrap();
        let error = SqliteStore::open_as_it_is(&folder).unwrap_err();
        assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    }

    #[test]
    fn what_was_written_last_is_not_overlooked() {
        let (_parent, folder) = folder();
        let log = folder.join(LOG);
        fs::write(&log, "").unwrap();
        SqliteStore::open_as_it_is(&folder).unwrap();
        fs::write(&log, "x").unwrap();
        let error = SqliteStore::open_as_it_is(&folder).unwrap_err();
        assert!(matches!(error, StoreError::Unmerged { .. }), "{error}");
    }

    #[test]
    fn only_what_cannot_be_written_to_is_read_as_it_is() {
        let (_parent, folder) = folder();
        // A folder with the name of the write-ahead log prevents writes, even if this test runs as root.
        let log = folder.join(LOG);
        fs::create_dir_all(log.join("not empty")).unwrap();
        let error = SqliteStore::open_existing(&folder).unwrap_err();
        assert!(matches!(error, StoreError::Access { .. }), "{error}");
        let error = SqliteStore::open_to_read(&folder).unwrap_err();
        assert!(matches!(error, StoreError::Unmerged { .. }), "{error}");
        fs::remove_dir_all(log).unwrap();
        fs::remove_file(folder.join(FILE_NAME)).unwrap();
        let error = SqliteStore::open_to_read(&folder).unwrap_err();
        assert!(matches!(error, StoreError::Missing { .. }), "{error}");
    }

    #[test]
    fn errors_that_come_of_a_store_that_cannot_be_written_to() {
        for (code, expected) in [
            (ffi::SQLITE_READONLY, true),
            (ffi::SQLITE_READONLY_DIRECTORY, true),
            (ffi::SQLITE_CANTOPEN, true),
            (ffi::SQLITE_PERM, true),
            (ffi::SQLITE_IOERR, false),
            (ffi::SQLITE_FULL, false),
        ] {
            let source = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let error = StoreError::Access { file: PathBuf::new(), source: Arc::new(source) };
            assert_eq!(needs_writing(&error), expected, "{error:?}");
        }
        let source = Arc::new(rusqlite::Error::QueryReturnedNoRows);
        assert!(!needs_writing(&StoreError::Access { file: PathBuf::new(), source }));
        let source = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_READONLY), None);
        let source = Arc::new(source);
        assert!(!needs_writing(&StoreError::Damaged { file: PathBuf::new(), source }));
    }
}
