//! Computes the digest of a folder of tests. Refuses folders with symlinks.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// The maximum number of files in a folder of tests.
const FILES_MAX: usize = 20_000;
/// The maximum total size of the files in a folder of tests, in bytes. The size is limited because a run starts only
/// after the hashing.
const BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The maximum nesting of folders.
const DEPTH_MAX: usize = 64;

/// Folders that the digest omits, each with the reason.
const LEFT_OUT: [(&str, &str); 3] = [
    ("__pycache__", "compiled files, which are never used"),
    (".pytest_cache", "pytest has its cache elsewhere"),
    (".git", "it changes without any change of the tests"),
];

/// The reason why the digest cannot be computed. The text contains no path.
#[derive(Debug, Error)]
pub(super) enum NoDigest {
    #[error("{}", .0.kind())]
    Io(#[from] io::Error),
    #[error("it has a symlink, or a file that is neither regular nor a folder")]
    NotAFile,
    #[error("it has more than {FILES_MAX} files, more than {} MiB, or folders nested too deeply", BYTES_MAX >> 20)]
    TooLarge,
}

/// Returns the SHA-256 of a folder, in hexadecimal. The hashed text has one line for each file, sorted by path: the
/// SHA-256 of the content, two spaces, and the path relative to the folder.
pub(super) fn sha256(folder: &Path) -> Result<String, NoDigest> {
    let mut files = BTreeMap::new();
    let mut bytes = 0;
    add(folder, folder, 0, &mut files, &mut bytes)?;
    let mut hash = Sha256::new();
    for (path, sha256) in files {
        hash.update(sha256);
        hash.update(b"  ");
        hash.update(path);
        hash.update(b"\n");
    }
    Ok(hex::encode(hash.finalize()))
}

fn add(
    root: &Path,
    folder: &Path,
    depth: usize,
    files: &mut BTreeMap<Vec<u8>, String>,
    bytes: &mut u64,
) -> Result<(), NoDigest> {
    if depth > DEPTH_MAX {
        return Err(NoDigest::TooLarge);
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let path = entry.path();
        if kind.is_dir() {
            let name = entry.file_name();
            if !LEFT_OUT.iter().any(|(left_out, _)| name == *left_out) {
                add(root, &path, depth + 1, files, bytes)?;
            }
        } else if kind.is_file() {
            *bytes += entry.metadata()?.len();
            if files.len() == FILES_MAX || *bytes > BYTES_MAX {
                return Err(NoDigest::TooLarge);
            }
            let mut content = Vec::new();
            File::open(&path)?.take(BYTES_MAX).read_to_end(&mut content)?;
            let sha256 = hex::encode(Sha256::digest(&content));
            let relative = path.strip_prefix(root).unwrap_or(&path);
            files.insert(relative.as_os_str().as_bytes().to_vec(), sha256);
        } else {
            return Err(NoDigest::NotAFile);
        }
    }
    Ok(())
}
