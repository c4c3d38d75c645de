//! Files of a run that are read whole: the reports of pytest, and the evidence.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use uuid::Uuid;

use super::listing::ENTRIES_MAX;
use super::{ArtifactError, Artifacts, EVIDENCE, FILES, RunFolder, failed_to};
use crate::folder::{Bounds, Folder, Reach};

/// The largest evidence that is read. Ten thousand artifacts and fifty failures have less.
const EVIDENCE_BYTES_MAX: u64 = 16 * 1024 * 1024;

impl RunFolder {
    /// Returns the content of a file at the top of the tests' folder; none if it is no plain file,
    /// or larger than `bytes_max`.
    pub(crate) fn read_file(&self, name: &str, bytes_max: u64) -> Option<Vec<u8>> {
        let files = self.folder.folder(OsStr::new(FILES)).ok()?;
        read_whole(&files.file(OsStr::new(name)).ok()?, bytes_max).ok()
    }

    /// Removes a file at the top of the tests' folder, and tells whether it was there.
    pub(crate) fn remove_file(&self, name: &str) -> bool {
        let files = self.folder.folder(OsStr::new(FILES));
        files.is_ok_and(|files| files.remove_file(OsStr::new(name)).is_ok())
    }

    /// Removes the tests' folder.
    pub(crate) fn remove_files(&self) -> Result<(), ArtifactError> {
        self.folder.remove_tree(OsStr::new(FILES)).map_err(failed_to("remove what the run left"))
    }
}

impl Artifacts {
    /// Reads the content of a run's evidence.
    pub(crate) fn evidence(&self, run_id: Uuid) -> Result<Vec<u8>, ArtifactError> {
        let folder = self.run(run_id)?;
        let file = folder.file(OsStr::new(EVIDENCE)).map_err(|error| match self.state(run_id) {
            Ok(state) if error.kind() == io::ErrorKind::NotFound => {
                ArtifactError::NoEvidence(state)
            }
            Ok(_) | Err(_) => failed_to("open the evidence")(error),
        })?;
        read_whole(&file, EVIDENCE_BYTES_MAX).map_err(failed_to("read the evidence"))
    }
}

/// The size of a folder, compared with a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// All of it was seen, and is within the bound.
    Within,
    /// More on the disk, or in more files than are ever looked at.
    Above,
    /// Unknown: a part could not be seen, as it changed meanwhile, or a folder is closed.
    Unknown,
}

/// Compares what is in the folder at `path` with `bytes_max`.
pub(crate) fn size_of(path: &Path, bytes_max: u64) -> Size {
    let mut bytes = 0_u64;
    let mut count = 0;
    // However deep: what is not seen is not counted.
    let bounds = Bounds { entries_max: ENTRIES_MAX, depth_max: usize::MAX };
    let walked = Folder::open(path).and_then(|folder| {
        folder.walk(bounds, |_, stat| {
            bytes = bytes.saturating_add(stat.disk_bytes);
            count += 1;
        })
    });
    match walked {
        _ if bytes > bytes_max || count >= ENTRIES_MAX => Size::Above,
        Ok(Reach::All) => Size::Within,
        Ok(Reach::Part) | Err(_) => Size::Unknown,
    }
}

fn read_whole(file: &File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut content)?;
    if u64::try_from(content.len()).unwrap_or(u64::MAX) > bytes_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(content)
}
