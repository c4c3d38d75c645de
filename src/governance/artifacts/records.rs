//! Records the files of a run for the evidence, and later compares the files with the evidence. Never changes a file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::listing::ENTRIES_MAX;
use super::{
    ArtifactError, Artifacts, EVIDENCE, RunFolder, failed_to, is_internal, lock_shared, reading,
};
use crate::folder::{Bounds, Folder, Kind, Reach, Stat};
use crate::governance::evidence::ArtifactRecord;
use crate::governance::integrity::Change;

/// The maximum total length of the paths in the evidence of a run, in bytes. Each path is measured as a JSON string.
pub(super) const RECORDS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The records of the files that a run left. `evidence.json` has no record, because it contains the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArtifactRecords {
    /// The records of the readable files, sorted by path. The total length of the paths is at most
    /// [`RECORDS_BYTES_MAX`].
    pub(crate) records: Vec<ArtifactRecord>,
    /// The number of visited files without a record: unreadable files, and files that were omitted because of the limit
    /// [`RECORDS_BYTES_MAX`].
    pub(crate) omitted: u64,
    /// Whether some files were not visited, because the run left more than [`ENTRIES_MAX`] files and folders, or
    /// because a folder cannot be opened.
    pub(crate) truncated: bool,
}

impl RunFolder {
    /// Records the files of the run. Hashes at most `hashed_bytes_max` bytes of all files together. A file that would
    /// exceed this limit gets no hash. A sparse file counts with its apparent size.
    pub(crate) fn records(&self, hashed_bytes_max: u64) -> Result<ArtifactRecords, ArtifactError> {
        let mut found: Vec<(PathBuf, u64)> = Vec::new();
        let mut omitted = 0_u64;
        let bounds = Bounds { entries_max: ENTRIES_MAX, depth_max: usize::MAX };
        let reach = self.folder.walk(bounds, |path, stat| {
            if is_recorded(path, stat) {
                found.push((path.to_owned(), stat.bytes));
            } else if !is_own(path, stat) && !is_internal(path) {
                omitted += 1;
            }
        });
        let reach = reach.map_err(failed_to("read the files of the run"))?;
        // `found` is sorted by path, because `walk` visits entries in this order.
        let mut path_bytes = 0;
        let listed = found.iter().take_while(|(path, _)| {
            path_bytes += serde_json::Value::from(path.to_string_lossy()).to_string().len();
            path_bytes <= RECORDS_BYTES_MAX
        });
        let listed = listed.count();
        omitted += u64::try_from(found.len() - listed).unwrap_or(u64::MAX);
        found.truncate(listed);
        let mut hash_bytes_remaining = hashed_bytes_max;
        let record = |(path, bytes): (PathBuf, u64)| {
            let sha256 = sha256(&self.folder, &path, bytes, &mut hash_bytes_remaining);
            ArtifactRecord { path: path.to_string_lossy().into_owned(), bytes, sha256 }
        };
        let records = found.into_iter().map(record).collect();
        Ok(ArtifactRecords { records, omitted, truncated: reach == Reach::Part })
    }
}

impl Artifacts {
    /// Calls `each` for every file of a run that differs from its record. Pass true as `is_complete` if `records` has
    /// all files that existed when the run ended. Then `each` is also called for every file without a record. Returns
    /// whether all files could be compared: `is_complete` is true, all records have hashes, and all files were visited.
    pub(crate) fn compare(
        &self,
        run_id: Uuid,
        records: &[ArtifactRecord],
        is_complete: bool,
        each: &mut dyn FnMut(&str, Change),
    ) -> Result<bool, ArtifactError> {
        let folder = self.run(run_id)?;
        let _lock = lock_shared(&folder);
        let mut known = BTreeSet::new();
        for ArtifactRecord { path, bytes, sha256: recorded } in records {
            known.insert(path.as_str());
            // Check the path, because evidence without a confirmed hash may contain any path.
            if !reading::is_readable(Path::new(path)) {
                each(path, Change::Unreadable);
                continue;
            }
            let file = match reading::open(&folder, Path::new(path)) {
                Ok(file) => file,
                Err(ArtifactError::FileNotFound) => {
                    each(path, Change::Missing);
                    continue;
                }
                Err(_) => {
                    each(path, Change::Unreadable);
                    continue;
                }
            };
            let Some(recorded) = recorded else { continue };
            match reading::hash(&file, *bytes, |_| {}) {
                Ok(Some(found)) if found == *recorded => {}
                Ok(_) => each(path, Change::Changed),
                Err(_) => each(path, Change::Unreadable),
            }
        }
        let bounds = Bounds { entries_max: ENTRIES_MAX, depth_max: usize::MAX };
        let walked = folder.walk(bounds, |path, stat| {
            let name = path.to_string_lossy();
            if is_complete && is_recorded(path, stat) && !known.contains(&*name) {
                each(&name, Change::Added);
            }
        });
        // If some files were not visited, a file may have been added unnoticed.
        let reach = walked.map_err(failed_to("read the files of the run"))?;
        let is_hashed = records.iter().all(|record| record.sha256.is_some());
        Ok(is_complete && is_hashed && reach == Reach::All)
    }
}

/// Returns whether a file with this path and metadata gets a record.
fn is_recorded(path: &Path, stat: &Stat) -> bool {
    !is_own(path, stat) && stat.is_plain_file() && reading::is_readable(path)
}

fn is_own(path: &Path, stat: &Stat) -> bool {
    path.as_os_str() == EVIDENCE || stat.kind == Kind::Folder
}

/// Returns the SHA-256 of a file. Returns `None` if the file is unreadable, no longer has the length `bytes`, or is
/// larger than `hash_bytes_remaining`.
fn sha256(run: &Folder, path: &Path, bytes: u64, hash_bytes_remaining: &mut u64) -> Option<String> {
    // A file that is too large does not reduce the remaining bytes, so a smaller file may still fit.
    let remaining = hash_bytes_remaining.checked_sub(bytes)?;
    let file = reading::open(run, path).ok()?;
    *hash_bytes_remaining = remaining;
    reading::hash(&file, bytes, |_| {}).ok()?
}
