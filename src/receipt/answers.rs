//! Stores the results of scripts, for later calls with the same script in this or another process
//! (`QWED_MCP_ANSWER_ONCE`). Each result is a file in the folder of receipts. The name of the file is the key of the
//! run: a digest of everything that the result depends on. The file consists of a signature and the result. The
//! signature also covers the name, so a file that is incomplete, changed or renamed is not valid.
//!
//! The size of the folder is limited. At the limit, the least recently used files are removed. This module never
//! parses a result, and never decides which results can be reused.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use nix::sys::statvfs::statvfs;

use super::Receipts;
use super::envelope::{SIGNATURE_BYTES, pre_authentication};
use super::read_at_most;
use super::reserved::{ReservedFile, remove_abandoned};
use crate::folder::Folder;

/// The name of the folder for stored results. It is in the folder of receipts.
const FOLDER: &str = "answers";

/// The type of the signed content. Receipts have another type, so a signature of a receipt is never valid for a result,
/// and a signature of a result is never valid for a receipt.
const CONTENT_TYPE: &str = "application/vnd.qwed.answer";

/// The maximum size of all results together, in bytes. Between two checks of the folder's size, each process may exceed
/// the maximum by 1/[`SLACK`] of the maximum.
const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A process checks the size of the folder each time that it has stored another 1/`SLACK` of the maximum.
const SLACK: u64 = 16;

/// Each result counts as at least this number of bytes towards [`BYTES_MAX`]. So `BYTES_MAX` also limits the number of
/// results.
const RESULT_BYTES_MIN: u64 = 8 * 1024;

const RESULT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The free disk space, in bytes, below which no result is stored, because receipts need space on the same disk.
const FREE_BYTES_MIN: u64 = 1024 * 1024 * 1024;

/// The maximum number of file names that are listed. It exceeds the maximum number of results.
const NAMES_MAX: usize = 64 * 1024;

type Key = [u8; 32];

#[derive(Debug)]
pub(crate) struct AnswerFiles {
    receipts: Arc<Receipts>,
    folder: PathBuf,
    bytes_max: u64,
    /// The number of bytes that were stored since the last check of the folder's size.
    unchecked: Mutex<u64>,
}

impl AnswerFiles {
    /// Prepares the folder of results: removes the drafts that a killed process has left. Blocks on the disk.
    pub(crate) fn new(receipts: &Arc<Receipts>) -> Self {
        let folder = receipts.folder().join(FOLDER);
        remove_abandoned(&folder);
        let receipts = Arc::clone(receipts);
        // With this value, the first result causes a check of the folder's size.
        let unchecked = Mutex::new(BYTES_MAX / SLACK);
        Self { receipts, folder, bytes_max: BYTES_MAX, unchecked }
    }

    /// Returns the content that was stored for a key. `None` if no content was stored, or if the file is incomplete
    /// or was changed. Blocks on the disk.
    pub(crate) fn read(&self, key: &Key) -> Option<Vec<u8>> {
        let folder = Folder::open(&self.folder).ok()?;
        let name = hex::encode(key);
        let file = folder.file(OsStr::new(&name)).ok()?;
        // Ignore a failure, because the time only determines which files are removed first.
        let _ = file.set_modified(SystemTime::now());
        let mut bytes = read_at_most(file, RESULT_BYTES_MAX).ok()?;
        let content = bytes.split_off(bytes.len().min(SIGNATURE_BYTES));
        let has_signed = |signature: [u8; SIGNATURE_BYTES]| {
            self.receipts.key().has_signed(&signed(key, &content), &signature)
        };
        if bytes.try_into().is_ok_and(has_signed) {
            return Some(content);
        }
        tracing::warn!(%name, "a stored result is not complete or was changed, so it is not used");
        None
    }

    /// Stores content for a key, unless the content is too large or the disk is almost full. Returns whether
    /// `remove_oldest` must be called. Blocks on the disk.
    ///
    /// The file is not synced to the disk, so the file may be incomplete after a crash of the machine. `read` ignores
    /// incomplete files.
    pub(crate) fn write(&self, key: &Key, content: &[u8]) -> io::Result<bool> {
        let bytes = u64::try_from(SIGNATURE_BYTES + content.len()).unwrap_or(u64::MAX);
        if bytes > RESULT_BYTES_MAX || free_bytes(self.receipts.folder())? < FREE_BYTES_MIN {
            return Ok(false);
        }
        let draft = ReservedFile::new(&self.folder, 0)?;
        let signature = self.receipts.key().sign(&signed(key, content));
        let target = self.folder.join(hex::encode(key));
        draft.store(&[&signature, content].concat(), &target, false)?;
        let mut unchecked = self.unchecked.lock().unwrap_or_else(PoisonError::into_inner);
        *unchecked += counted(bytes);
        let is_limit_near = *unchecked >= self.bytes_max / SLACK;
        if is_limit_near {
            *unchecked = 0;
        }
        Ok(is_limit_near)
    }

    /// Removes the least recently used files, until the remaining files are within the limit. Blocks on the disk.
    pub(crate) fn remove_oldest(&self) {
        let Ok(folder) = Folder::open(&self.folder) else { return };
        let mut results: Vec<(SystemTime, OsString, u64)> = Vec::new();
        for name in folder.names(NAMES_MAX).unwrap_or_default() {
            let is_result = name.len() == 2 * size_of::<Key>();
            let stat = folder.stat(&name).ok().filter(|stat| is_result && stat.is_plain_file());
            results.extend(stat.map(|stat| (stat.modified, name, counted(stat.bytes))));
        }
        results.sort_unstable();
        let mut all: u64 = results.iter().map(|(.., bytes)| bytes).sum();
        for (_, name, bytes) in results {
            if all <= self.bytes_max {
                break;
            }
            match folder.remove_file(&name) {
                // The error `NotFound` means that another process has already removed the file.
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, "cannot remove a stored result");
                }
                _ => all -= bytes,
            }
        }
    }
}

/// Returns the free space for this user on the disk of a folder, in bytes.
fn free_bytes(folder: &Path) -> io::Result<u64> {
    let disk = statvfs(folder)?;
    #[allow(clippy::useless_conversion, reason = "they are u64 on Linux, and u32 on macOS")]
    Ok(u64::from(disk.blocks_available()).saturating_mul(u64::from(disk.fragment_size())))
}

/// Returns the number of bytes that a file of this size counts towards [`BYTES_MAX`].
fn counted(bytes: u64) -> u64 {
    bytes.max(RESULT_BYTES_MIN)
}

/// Returns the bytes that a signature covers.
fn signed(key: &Key, content: &[u8]) -> Vec<u8> {
    pre_authentication(CONTENT_TYPE, &[key, content].concat())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::super::SigningKey;
    use super::*;

    struct Fixture {
        folder: tempfile::TempDir,
        files: AnswerFiles,
    }

    /// Opens the folder as a new process would.
    fn opened(folder: &Path, secret: u8) -> AnswerFiles {
        let key_file = folder.join("key");
        fs::write(&key_file, "").unwrap();
        let key = SigningKey::of([secret; 32]);
        let receipts = Receipts::new(key, &key_file, &folder.join("receipts"), true, true).unwrap();
        AnswerFiles::new(&Arc::new(receipts))
    }

    fn fixture() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let files = opened(folder.path(), 1);
        Fixture { folder, files }
    }

    impl Fixture {
        fn file(&self, key: &Key) -> PathBuf {
            self.folder.path().join("receipts/answers").join(hex::encode(key))
        }
    }

    #[test]
    fn a_result_is_read_by_other_processes_with_the_same_key() {
        let fixture = fixture();
        assert_eq!(fixture.files.read(&[1; 32]), None);
        for content in [&b""[..], b"content", &[7; 10_000]] {
            fixture.files.write(&[1; 32], content).unwrap();
            for files in [&fixture.files, &opened(fixture.folder.path(), 1)] {
                assert_eq!(files.read(&[1; 32]).as_deref(), Some(content));
                assert_eq!(files.read(&[2; 32]), None);
            }
        }
        assert_eq!(opened(fixture.folder.path(), 2).read(&[1; 32]), None);
        // A result that is too large is not stored.
        let large = vec![0; usize::try_from(RESULT_BYTES_MAX).unwrap()];
        fixture.files.write(&[2; 32], &large).unwrap();
        assert!(!fixture.file(&[2; 32]).exists());
    }

    #[test]
    fn a_result_that_is_not_as_it_was_stored_is_not_used() {
        let fixture = fixture();
        let key = [1; 32];
        fixture.files.write(&key, b"content").unwrap();
        let stored = fs::read(fixture.file(&key)).unwrap();
        for length in 0..stored.len() {
            fs::write(fixture.file(&key), &stored[..length]).unwrap();
            assert_eq!(fixture.files.read(&key), None, "{length}");
            let mut changed = stored.clone();
            changed[length] ^= 1;
            fs::write(fixture.file(&key), changed).unwrap();
            assert_eq!(fixture.files.read(&key), None, "{length}");
        }
        fs::write(fixture.file(&key), &stored).unwrap();
        assert_eq!(fixture.files.read(&key).as_deref(), Some(&b"content"[..]));
        // A result is not used under the name of another run.
        fs::rename(fixture.file(&key), fixture.file(&[2; 32])).unwrap();
        assert_eq!(fixture.files.read(&[2; 32]), None);
        // A symlink or a hard link to a result is not used.
        fs::write(fixture.folder.path().join("stored"), &stored).unwrap();
        std::os::unix::fs::symlink(fixture.folder.path().join("stored"), fixture.file(&key))
            .unwrap();
        assert_eq!(fixture.files.read(&key), None);
        fs::remove_file(fixture.file(&key)).unwrap();
        fs::hard_link(fixture.folder.path().join("stored"), fixture.file(&key)).unwrap();
        assert_eq!(fixture.files.read(&key), None);
        // A later run replaces the hard link.
        fixture.files.write(&key, b"content").unwrap();
        assert_eq!(fixture.files.read(&key).as_deref(), Some(&b"content"[..]));
    }

    #[test]
    fn the_files_that_were_used_longest_ago_are_removed_first() {
        let mut fixture = fixture();
        fixture.files.bytes_max = 32 * RESULT_BYTES_MIN;
        let key = |number: u8| [number; 32];
        let long_ago = |number: u8| {
            let time = SystemTime::now() - Duration::from_secs(1000 - u64::from(number));
            fs::File::open(fixture.file(&key(number))).unwrap().set_modified(time).unwrap();
        };
        for number in 0..30 {
            fixture.files.write(&key(number), b"small").unwrap();
            long_ago(number);
        }
        let other = fixture.folder.path().join("receipts/answers/other");
        fs::write(&other, "").unwrap();
        // A folder with the name of a result must not prevent the removal of results.
        fs::create_dir(fixture.file(&[255; 32])).unwrap();
        assert!(fixture.files.read(&key(0)).is_some());
        let content = vec![0; usize::try_from(2 * RESULT_BYTES_MIN).unwrap()];
        for number in 30..40 {
            if fixture.files.write(&key(number), &content).unwrap() {
                fixture.files.remove_oldest();
            }
        }
        let is_there = |number: u8| fixture.file(&key(number)).exists();
        assert!(is_there(0) && other.exists() && (30..40).all(is_there));
        let count = (1..30).filter(|number| is_there(*number)).count();
        // The limit allows 32 small results. Each of the ten large results counts as two or three small results.
        assert!((8..=13).contains(&count) && is_there(29) && !is_there(1), "{count}");
    }

    #[test]
    fn a_draft_of_a_killed_process_is_removed() {
        let fixture = fixture();
        fixture.files.write(&[1; 32], b"content").unwrap();
        let draft = fixture.file(&[1; 32]).with_file_name(".new-1");
        fs::write(&draft, "").unwrap();
        opened(fixture.folder.path(), 1);
        assert!(!draft.exists() && fixture.files.read(&[1; 32]).is_some());
    }
}
