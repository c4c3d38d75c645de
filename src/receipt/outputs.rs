//! Stores the outputs of scripts next to their receipts, if the admin enables this. Each output is a file, named by its
//! SHA-256. Receipts contain only digests of outputs, so a replay needs these files to show how its output differs. A
//! stored output is never used before its content was compared with the digest in the receipt.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

use super::reserved::{ReservedFile, remove_abandoned};
use super::{ReceiptError, Statement, read_at_most, sha256};
use crate::folder::Folder;

/// The name of the folder of outputs, in the folder of receipts.
const OUTPUT_FOLDER: &str = "outputs";

/// The maximum size of an output that is read, in bytes. Each output stream of a script has at most one mebibyte.
const OUTPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The maximum size of the notice at the end of a truncated stream, in bytes.
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

/// The disk space that is reserved for the two output streams of a run.
#[derive(Debug)]
pub(super) struct ReservedOutputs([ReservedFile; 2]);

impl ReservedOutputs {
    /// Reserves disk space for two streams of up to `bytes_max` bytes each. `folder` is the folder of receipts. Blocks
    /// on the disk.
    pub(super) fn new(folder: &Path, bytes_max: u64) -> io::Result<Self> {
        let folder = folder.join(OUTPUT_FOLDER);
        let reserve = || ReservedFile::new(&folder, bytes_max.saturating_add(NOTICE_BYTES));
        Ok(Self([reserve()?, reserve()?]))
    }

    /// Stores the two streams in the reserved space. Blocks on the disk.
    pub(super) fn store(self, folder: &Path, streams: [&[u8]; 2], syncs: bool) -> io::Result<()> {
        for (reserved, content) in self.0.into_iter().zip(streams) {
            reserved.store(content, &folder.join(OUTPUT_FOLDER).join(sha256(content)), syncs)?;
        }
        Ok(())
    }
}

/// Removes the drafts of outputs that a killed process has left. `folder` is the folder of receipts.
pub(super) fn remove_abandoned_outputs(folder: &Path) {
    remove_abandoned(&folder.join(OUTPUT_FOLDER));
}

/// Compares the outputs that are stored in `folder` with their digests in a receipt. Fails if an output is different or
/// cannot be read. An output that is not stored is not an error.
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

/// Returns the folder of outputs that belongs to a stored receipt. The receipt is in a folder for its day, next to the
/// folder of outputs.
pub(crate) fn outputs_beside(receipt: &Path) -> Option<PathBuf> {
    Some(receipt.canonicalize().ok()?.parent()?.parent()?.join(OUTPUT_FOLDER))
}

/// Reads the output with this digest from a folder of outputs, and compares its content with the digest.
///
/// The folder may come from another user, so symlinks in it are not followed, and only regular files are opened.
pub(crate) fn stored_output(folder: &Path, digest: &str) -> Result<Vec<u8>, OutputError> {
    // Check the form of the digest, because it becomes a file name.
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
