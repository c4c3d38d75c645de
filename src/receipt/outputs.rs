//! The outputs of scripts next to their receipts, if the admin wants them stored: a file for each content, named by its
//! SHA-256. Receipts have only digests. With these files, a replay that differs can show the difference. An output is
//! never used without comparing its digest.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

use super::reserved::{ReservedFile, remove_abandoned};
use super::{ReceiptError, Statement, read_at_most, sha256};
use crate::folder::Folder;

/// The folder of outputs, in the folder of receipts.
const OUTPUT_FOLDER: &str = "outputs";

/// The most bytes of an output that are read. A script has a mebibyte for each stream.
const OUTPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The bytes that may follow a stream that was cut off.
const NOTICE_BYTES: u64 = 256;

/// The reason why a stored output cannot be used.
#[derive(Debug, Error)]
pub(crate) enum OutputError {
    #[error("it is not stored, so only its digest is known")]
    NotStored,
    #[error("the stored output cannot be read: {0}")]
    Read(#[source] io::Error),
    #[error("the stored output is not a regular file")]
    NotAFile,
    #[error("the stored output was changed")]
    Changed,
}

/// The reserved room for both streams of a run.
#[derive(Debug)]
pub(super) struct ReservedOutputs([ReservedFile; 2]);

impl ReservedOutputs {
    /// Reserves room for streams of up to `bytes_max` bytes each, in the folder of receipts. Blocks on the disk.
    pub(super) fn new(folder: &Path, bytes_max: u64) -> io::Result<Self> {
        let folder = folder.join(OUTPUT_FOLDER);
        let reserve = || ReservedFile::new(&folder, bytes_max.saturating_add(NOTICE_BYTES));
        Ok(Self([reserve()?, reserve()?]))
    }

    /// Stores the streams. Blocks on the disk.
    pub(super) fn store(self, folder: &Path, streams: [&[u8]; 2], syncs: bool) -> io::Result<()> {
        for (reserved, content) in self.0.into_iter().zip(streams) {
            reserved.store(content, &folder.join(OUTPUT_FOLDER).join(sha256(content)), syncs)?;
        }
        Ok(())
    }
}

/// Removes the drafts that a killed process left in the folder of receipts.
pub(super) fn remove_abandoned_outputs(folder: &Path) {
    remove_abandoned(&folder.join(OUTPUT_FOLDER));
}

/// Fails if an output that is stored in this folder is different from the receipt's, or cannot be compared.
pub(crate) fn compare_outputs(
    statement: &Statement<Value>,
    folder: &Path,
) -> Result<(), ReceiptError> {
    for name in ["stdout", "stderr"] {
        let Some(digest) = statement.digest(name) else { continue };
        match stored_output(folder, digest) {
            Ok(_) | Err(OutputError::NotStored) => {}
            Err(OutputError::Changed) => return Err(ReceiptError::StoredOutput { name }),
            Err(error @ (OutputError::Read(_) | OutputError::NotAFile)) => {
                let reason = error.to_string();
                return Err(ReceiptError::UnreadableOutput { name, reason });
            }
        }
    }
    Ok(())
}

/// Returns the folder of outputs for a receipt, which is in the folder of its day.
pub(crate) fn outputs_beside(receipt: &Path) -> Option<PathBuf> {
    Some(receipt.canonicalize().ok()?.parent()?.parent()?.join(OUTPUT_FOLDER))
}

/// Reads the output of this digest from a folder of outputs, and compares it.
///
/// The folder may come from another user. So no symlink in it is followed, and only a regular file is opened.
pub(crate) fn stored_output(folder: &Path, digest: &str) -> Result<Vec<u8>, OutputError> {
    // The digest becomes a file name.
    if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(OutputError::NotStored);
    }
    let folder = match Folder::open(folder) {
        Err(error) if is_nowhere(&error) => return Err(OutputError::NotStored),
        opened => opened.map_err(OutputError::Read)?,
    };
    let content = folder.linked_file(OsStr::new(digest));
    let content = content.and_then(|file| read_at_most(file, OUTPUT_BYTES_MAX));
    let content = match content {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(OutputError::NotStored);
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            return Err(OutputError::NotAFile);
        }
        content => content.map_err(OutputError::Read)?,
    };
    if sha256(&content) == digest { Ok(content) } else { Err(OutputError::Changed) }
}

/// Returns whether the error means that the folder does not exist.
fn is_nowhere(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
