//! A store that can be read and not written to: on a read-only medium, in somebody else's backup.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{FILE_NAME, Store, StoreError, error_of, owner, require_ours};

/// The characters that the path within an address has percent-encoded.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'/');

impl Store {
    /// Opens the store in `folder` for commands that only read, also where it cannot be written to.
    pub(crate) fn open_to_read(folder: &Path) -> Result<Self, StoreError> {
        // To look at somebody's copy does no harm.
        match Self::open_whosever(folder) {
            Err(StoreError::Access { source, .. }) if needs_writing(&source) => {
                Self::open_as_it_is(folder)
            }
            opened => opened,
        }
    }

    /// Opens the file as one that does not change: even to read, `SQLite` writes beside the file,
    /// unless it is told that nobody changes it.
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
            let owner = owner(&connection)?;
            connection.pragma_update(None, "trusted_schema", false)?;
            Ok((owner, connection))
        });
        let (owner, connection) = opened.map_err(|source| error_of(&file, source))?;
        require_ours(&file, owner)?;
        tracing::warn!("{} cannot be written to, and is read as it is", file.display());
        Ok(Self::of(file, connection))
    }
}

fn needs_writing(error: &rusqlite::Error) -> bool {
    let codes = [ErrorCode::ReadOnly, ErrorCode::CannotOpen, ErrorCode::PermissionDenied];
    error.sqlite_error_code().is_some_and(|code| codes.contains(&code))
}

/// Returns the address of a file that nobody changes, as `SQLite` takes it.
fn immutable(file: &Path) -> PathBuf {
    let file = percent_encode(file.as_os_str().as_bytes(), RESERVED);
    format!("file:{file}?immutable=1").into()
}
