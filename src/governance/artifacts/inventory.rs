//! What a run left, for its evidence.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use super::folder::{Bounds, Folder, Kind, Reach, walk};
use super::listing::ENTRIES_MAX;
use super::{ArtifactError, EVIDENCE, RunFolder, failed_to, reading};
use crate::governance::evidence::ArtifactRecord;

/// How many bytes the paths have together that an evidence lists, as JSON has them.
const RECORDS_BYTES_MAX: usize = 4 * 1024 * 1024;

const BUFFER_BYTES: usize = 64 * 1024;

/// All files of a run but its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inventory {
    /// The files that can be read, by their paths; not more than [`RECORDS_BYTES_MAX`].
    pub(crate) records: Vec<ArtifactRecord>,
    /// How many files were seen that are not in `records`: there were too many, or they cannot be
    /// read.
    pub(crate) omitted: u64,
    /// What all files take on the disk, those that cannot be read as well.
    pub(crate) disk_bytes: u64,
    /// Whether there is more than was looked at: more than 10,000 files and folders, or a folder
    /// that could not be opened. The numbers are of what was seen.
    pub(crate) truncated: bool,
}

impl RunFolder {
    /// Looks at what the run left. Files are hashed until `hashed_bytes_max` bytes are read; a file
    /// that would be above it has no hash. A file with holes says that it has far more than it takes.
    pub(crate) fn inventory(&self, hashed_bytes_max: u64) -> Result<Inventory, ArtifactError> {
        let mut disk_bytes = 0_u64;
        let mut found: Vec<(PathBuf, u64)> = Vec::new();
        let mut omitted = 0_u64;
        let bounds = Bounds { entries_max: ENTRIES_MAX, depth_max: usize::MAX };
        let reach = walk(&self.folder, bounds, |path, stat| {
            disk_bytes = disk_bytes.saturating_add(stat.disk_bytes);
            let is_own = path.as_os_str() == EVIDENCE || stat.kind == Kind::Folder;
            if !is_own && stat.is_plain_file() && reading::is_readable(path) {
                found.push((path.to_owned(), stat.bytes));
            } else if !is_own && !super::listing::is_internal(path) {
                omitted += 1;
            }
        });
        let reach = reach.map_err(failed_to("look at what the run left"))?;
        found.sort();
        let mut bytes_told = 0;
        let told = found.iter().take_while(|(path, _)| {
            bytes_told += serde_json::Value::from(path.to_string_lossy()).to_string().len();
            bytes_told <= RECORDS_BYTES_MAX
        });
        let told = told.count();
        omitted += u64::try_from(found.len() - told).unwrap_or(u64::MAX);
        found.truncate(told);
        let mut bytes_left = hashed_bytes_max;
        let record = |(path, bytes): (PathBuf, u64)| {
            let sha256 = sha256(&self.folder, &path, bytes, &mut bytes_left);
            ArtifactRecord { path: path.to_string_lossy().into_owned(), bytes, sha256 }
        };
        let records = found.into_iter().map(record).collect();
        Ok(Inventory { records, omitted, disk_bytes, truncated: reach == Reach::Part })
    }
}

/// None where the file cannot be read, is not what it was, or is more than may still be read.
fn sha256(run: &Folder, path: &Path, bytes: u64, bytes_left: &mut u64) -> Option<String> {
    // What is smaller and comes later may still fit.
    let left = bytes_left.checked_sub(bytes)?;
    let file = reading::open(run, path).ok()?;
    *bytes_left = left;
    let mut bounded = file.take(bytes.saturating_add(1));
    let mut hash = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut bytes_read = 0_u64;
    loop {
        let read = bounded.read(&mut buffer).ok()?;
        if read == 0 {
            break;
        }
        hash.update(buffer.get(..read)?);
        bytes_read = bytes_read.saturating_add(u64::try_from(read).ok()?);
    }
    (bytes_read == bytes).then(|| HEXLOWER.encode(&hash.finalize()))
}
