//! A manifest from a file.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use serde_json::Value;
use thiserror::Error;

use super::{SkillProvenanceGuard, SkillVerification};

/// The largest manifest that is read: 1 MiB. Real ones have some hundred bytes.
pub const MANIFEST_BYTES_MAX: u64 = 1024 * 1024;

/// Why a file is no manifest that could be judged. Goes after "skill manifest: ", and never names
/// the path.
#[derive(Debug, Error)]
pub enum ManifestError {
    /// The file is missing, not ours to read, or no file.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// The file is larger than [`MANIFEST_BYTES_MAX`].
    #[error("it is larger than {MANIFEST_BYTES_MAX} bytes")]
    TooLarge,
    /// The content is not JSON, or not UTF-8, or nested deeper than 128 levels.
    #[error("it is not JSON")]
    NotJson(#[source] serde_json::Error),
    /// The content is JSON of another kind.
    #[error("it is not a JSON object")]
    NotAnObject,
}

/// Judges the skill whose manifest is in the file at `path`, with the options of
/// [`SkillProvenanceGuard::new`].
///
/// # Errors
///
/// If the file holds nothing that could be judged. A skill that must not be loaded is no error.
pub fn verify_manifest_file(path: &Path) -> Result<SkillVerification, ManifestError> {
    let content = read_bounded(path)?;
    match serde_json::from_slice(&content).map_err(ManifestError::NotJson)? {
        Value::Object(manifest) => Ok(SkillProvenanceGuard::new().verify_skill(&manifest)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(ManifestError::NotAnObject)
        }
    }
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, ManifestError> {
    let file = File::open(path).map_err(ManifestError::Read)?;
    let mut content = Vec::new();
    // One more than allowed, and not the size that the file system tells: a pipe or a device has
    // none.
    let read = file.take(MANIFEST_BYTES_MAX + 1).read_to_end(&mut content);
    let bytes = u64::try_from(read.map_err(ManifestError::Read)?).unwrap_or(u64::MAX);
    if bytes > MANIFEST_BYTES_MAX { Err(ManifestError::TooLarge) } else { Ok(content) }
}
