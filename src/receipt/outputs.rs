//! The outputs of scripts beside their receipts, where the admin wants them kept: a file for each content, by its
//! SHA-256. Receipts have digests; a replay that differs can show what does with these.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

use super::{ReceiptError, Statement, read_bounded, sha256};

/// The folder, in that of the receipts.
const OUTPUT_FOLDER: &str = "outputs";

/// The most bytes of an output: a script has a mebibyte of each stream.
const OUTPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The reason why a stored output is of no use.
#[derive(Debug, Error)]
pub(crate) enum OutputError {
    #[error("it is not stored, so only its digest is known")]
    NotStored,
    #[error("the stored output cannot be read: {0}")]
    Read(#[source] io::Error),
    #[error("the stored output was changed")]
    Changed,
    #[error("it is no text")]
    NoText,
}

/// Stores an output in the folder of receipts, unless one of the same content is there. Blocks on the disk.
pub(super) fn store(folder: &Path, content: &str, syncs: bool) -> io::Result<()> {
    let folder = folder.join(OUTPUT_FOLDER);
    DirBuilder::new().mode(0o700).recursive(true).create(&folder)?;
    let name = sha256(content);
    // Made beside its place: a file of that name is whole.
    let draft = folder.join(format!(".{name}-{}", uuid::Uuid::new_v4().simple()));
    if folder.join(&name).exists() {
        return Ok(());
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(content.as_bytes())?;
    if syncs {
        file.sync_all()?;
    }
    std::fs::rename(&draft, folder.join(name))?;
    if syncs {
        File::open(&folder)?.sync_all()?;
    }
    Ok(())
}

/// Fails if an output that is stored in this folder is not that of the receipt.
pub(crate) fn compare_outputs(
    statement: &Statement<Value>,
    folder: &Path,
) -> Result<(), ReceiptError> {
    for name in ["stdout", "stderr"] {
        let stored = statement.digest(name).map(|digest| stored_output(folder, digest));
        if matches!(stored, Some(Err(OutputError::Changed))) {
            return Err(ReceiptError::StoredOutput { name });
        }
    }
    Ok(())
}

/// Returns the folder of the outputs beside a receipt, which is in the folder of its day.
pub(crate) fn outputs_beside(receipt: &Path) -> Option<PathBuf> {
    Some(receipt.canonicalize().ok()?.parent()?.parent()?.join(OUTPUT_FOLDER))
}

/// Reads the output of this digest from a folder of outputs, and compares it.
pub(crate) fn stored_output(folder: &Path, digest: &str) -> Result<String, OutputError> {
    // It becomes a name.
    if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(OutputError::NotStored);
    }
    let content = match read_bounded(&folder.join(digest), OUTPUT_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(OutputError::NotStored);
        }
        content => content.map_err(OutputError::Read)?,
    };
    if sha256(&content) != digest {
        return Err(OutputError::Changed);
    }
    String::from_utf8(content).map_err(|_| OutputError::NoText)
}
