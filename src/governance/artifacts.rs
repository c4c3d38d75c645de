//! Stores the artifacts of runs: one folder for each run, below the server's data folder.
//!
//! ```text
//! artifacts/<run id>/evidence.json   written last, by the server: the run is complete
//!                    stdout.txt      the output of pytest
//!                    stderr.txt
//!                    files/          written by the tests: never trusted
//!                    .lock           locked while the run is in progress
//! ```
//!
//! This module opens only folders and regular files. It never follows a symlink, and never blocks on a pipe. It opens
//! each component of a path relative to its parent folder, so that no process can replace a folder between a check and
//! its use.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use uuid::Uuid;

use crate::folder::{Bounds, Folder, Reach, Stat};

pub(crate) use listing::{ENTRIES_MAX, FileEntry, Page, RUNS_LISTED_MAX, RunEntry};
pub(crate) use reading::{Chunk, Content};
pub(crate) use retention::{Removal, RemovalLog, Retained, RetentionError};

/// The name of the file with the evidence, which is the report of a run. A run is complete if its folder has this file.
pub(crate) const EVIDENCE: &str = "evidence.json";
/// The name of the folder, in the folder of a run, that the tests write to.
pub(crate) const FILES: &str = "files";
const LOCK: &str = ".lock";
/// The name prefix of incompletely written files.
const TEMPORARY: &str = ".new-";

/// The limit for `evidence.json`, in bytes. The largest evidence, with ten thousand artifacts and fifty failures, is
/// smaller.
const EVIDENCE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The folder that contains the folders of all runs.
#[derive(Debug)]
pub(crate) struct Artifacts {
    root: PathBuf,
}

/// The folder of a run, with the lock that marks the run as in progress. The lock is released when this value is
/// dropped or the process dies.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    folder: Folder,
    _lock: File,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunState {
    /// The server process that executes the run holds the lock on `.lock`.
    InProgress,
    /// The evidence exists.
    Complete,
    /// The server process that executed the run died before it wrote the evidence.
    Interrupted,
}

impl RunState {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "in progress",
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
        }
    }
}

/// The size of a folder, compared with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// The size of all files is within the limit.
    Within,
    /// The files take more bytes on the disk than the limit, or the folder has [`ENTRIES_MAX`] entries or more.
    Above,
    /// The size is unknown, because the folder changed during the count or a folder in it cannot be opened.
    Unknown,
}

/// The limits above which old runs are removed. If both limits are `None`, no run is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Retention {
    /// The maximum age of a run.
    pub(crate) age: Option<Duration>,
    /// The maximum disk usage of all runs together, in bytes.
    pub(crate) total_bytes: Option<u64>,
}

impl Retention {
    /// Returns whether no limit is set, so that no run is removed.
    pub(crate) fn has_no_limit(&self) -> bool {
        self.age.is_none() && self.total_bytes.is_none()
    }
}

/// An error about the files of a run. The model gets the text, so the text contains no path outside of the run's
/// folder.
#[derive(Debug, Error)]
pub(crate) enum ArtifactError {
    #[error("no run has this run_id; list_artifacts without run_id lists the runs")]
    RunNotFound,
    #[error("the run has no evidence: it is {}", .0.as_str())]
    NoEvidence(RunState),
    #[error("the run has no such file; list_artifacts with its run_id lists its files")]
    FileNotFound,
    #[error("path {reason}; use a path that list_artifacts with the run_id lists")]
    InvalidPath { reason: &'static str },
    #[error("limit is above {max}; ask for at most {max}, and continue where the answer ends")]
    TooLarge { max: usize },
    #[error("failed to {action}: {}; try again, and tell the server's admin if the error persists",
        source.kind())]
    Io {
        action: &'static str,
        #[source]
        source: io::Error,
    },
}

/// Returns a function that converts an I/O error to an [`ArtifactError`] with the name of the failed action.
fn failed_to(action: &'static str) -> impl Fn(io::Error) -> ArtifactError {
    move |source| ArtifactError::Io { action, source }
}

impl Artifacts {
    /// Uses the folder `artifacts` in `data_folder`. The first call of [`Self::create_run`] creates this folder.
    pub(crate) fn new(data_folder: &Path) -> Self {
        Self { root: data_folder.join("artifacts") }
    }

    /// Creates the folder of a new run.
    pub(crate) fn create_run(&self, run_id: Uuid) -> Result<RunFolder, ArtifactError> {
        let failed = failed_to("create the folder of the run");
        DirBuilder::new().recursive(true).mode(0o700).create(&self.root).map_err(&failed)?;
        self.create_locked(run_id).map_err(failed)
    }

    fn create_locked(&self, run_id: Uuid) -> io::Result<RunFolder> {
        let name = run_id.hyphenated().to_string();
        let root = Folder::open(&self.root)?;
        root.create_folder(OsStr::new(&name))?;
        let folder = root.folder(OsStr::new(&name))?;
        let lock = folder.create_file(OsStr::new(LOCK))?;
        begin(&lock)?;
        folder.create_folder(OsStr::new(FILES))?;
        Ok(RunFolder { path: self.root.join(name), folder, _lock: lock })
    }

    pub(crate) fn state(&self, run_id: Uuid) -> Result<RunState, ArtifactError> {
        let folder = self.run(run_id)?;
        state_of(&folder).map_err(failed_to("read the run"))
    }

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

    fn run(&self, run_id: Uuid) -> Result<Folder, ArtifactError> {
        let name = run_id.hyphenated().to_string();
        let found = Folder::open(&self.root).and_then(|root| root.folder(OsStr::new(&name)));
        let is_none = |kind| matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
        found.map_err(|error| {
            if is_none(error.kind()) {
                ArtifactError::RunNotFound
            } else {
                failed_to("open the folder of the run")(error)
            }
        })
    }
}

impl RunFolder {
    /// Returns the path of the folder that the tests may write to.
    pub(crate) fn files_path(&self) -> PathBuf {
        self.path.join(FILES)
    }

    /// Writes one of the server's own files, such as `stdout.txt`, to the run's folder. Until [`Self::write_evidence`]
    /// has synced the folder, a crash of the machine can lose the file.
    pub(crate) fn write_text(&self, name: &str, bytes: &[u8]) -> Result<(), ArtifactError> {
        let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
        if !is_plain || name == FILES {
            return Err(ArtifactError::InvalidPath { reason: "is not a file name" });
        }
        self.write(name, bytes).map_err(failed_to("write a file of the run"))
    }

    /// Writes the evidence, which completes the run. Returns the SHA-256 of the evidence. The file gets its final name
    /// only when it is complete, so a reader never gets incomplete evidence.
    pub(crate) fn write_evidence(&self, evidence: &Value) -> Result<String, ArtifactError> {
        let text = format!("{evidence:#}\n");
        self.write(EVIDENCE, text.as_bytes())
            .and_then(|()| self.folder.sync())
            .map_err(failed_to("write the evidence"))?;
        Ok(hex::encode(Sha256::digest(text)))
    }

    /// Returns the content of a file at the top level of the folder [`FILES`]. Returns `None` if the file is missing,
    /// is not a plain file, or is larger than `bytes_max`.
    pub(crate) fn read_file(&self, name: &str, bytes_max: u64) -> Option<Vec<u8>> {
        let files = self.folder.folder(OsStr::new(FILES)).ok()?;
        read_whole(&files.file(OsStr::new(name)).ok()?, bytes_max).ok()
    }

    /// Removes a file at the top level of the folder [`FILES`]. Returns whether a file was removed.
    pub(crate) fn remove_file(&self, name: &str) -> bool {
        let files = self.folder.folder(OsStr::new(FILES));
        files.is_ok_and(|files| files.remove_file(OsStr::new(name)).is_ok())
    }

    pub(crate) fn remove_files(&self) -> Result<(), ArtifactError> {
        self.folder.remove_tree(OsStr::new(FILES)).map_err(failed_to("remove the files of the run"))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let temporary = format!("{TEMPORARY}{name}");
        // A failed earlier write may have left this file. `create_file` fails if the file exists.
        let _ = self.folder.remove_file(OsStr::new(&temporary));
        let mut file = self.folder.create_file(OsStr::new(&temporary))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        self.folder.rename(OsStr::new(&temporary), &self.folder, OsStr::new(name))
    }
}

fn state_of(folder: &Folder) -> io::Result<RunState> {
    let is_locked = match folder.file(OsStr::new(LOCK)) {
        // Use a shared lock, because an exclusive lock would look like a run in progress to another process that checks
        // the state.
        Ok(lock) => match lock.try_lock_shared() {
            Ok(()) => false,
            Err(fs::TryLockError::WouldBlock) => true,
            Err(fs::TryLockError::Error(error)) => return Err(error),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    Ok(match evidence_of(folder) {
        _ if is_locked => RunState::InProgress,
        Some(_) => RunState::Complete,
        None => RunState::Interrupted,
    })
}

/// Locks a new run. Fails with [`io::ErrorKind::Interrupted`] if the lock file has no name any more, because a clean-up
/// of old runs has removed the run's folder.
fn begin(lock: &File) -> io::Result<()> {
    lock.lock()?;
    if lock.metadata()?.nlink() == 1 { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
}

/// Prevents the removal of a run until the returned lock is dropped. Returns `None` if the run cannot be locked, for
/// example because the run is in progress. The lock of a run in progress already prevents the removal.
fn lock_shared(folder: &Folder) -> Option<File> {
    folder.file(OsStr::new(LOCK)).ok().filter(|lock| lock.try_lock_shared().is_ok())
}

fn evidence_of(folder: &Folder) -> Option<Stat> {
    folder.stat(OsStr::new(EVIDENCE)).ok().filter(Stat::is_plain_file)
}

/// Compares the disk usage of the folder at `path` with `bytes_max`.
pub(crate) fn size_of(path: &Path, bytes_max: u64) -> Size {
    let mut bytes = 0_u64;
    let mut count = 0;
    // Walk to any depth, because files below a maximum depth would not be counted.
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

/// Returns the time at which a run ended: the modification time of the evidence or, if the evidence is missing, the
/// modification time of the run's folder.
fn time_of(folder: &Folder) -> io::Result<SystemTime> {
    match evidence_of(folder) {
        Some(evidence) => Ok(evidence.modified),
        None => Ok(folder.own_stat()?.modified),
    }
}

/// Parses the id of a run from the name of its folder. Returns `None` if the name is not a UUID in the form that the
/// server writes.
fn run_id_of(name: &OsStr) -> Option<Uuid> {
    let name = name.to_str()?;
    let run_id = Uuid::try_parse(name).ok()?;
    (run_id.hyphenated().to_string() == name).then_some(run_id)
}

/// Returns whether `path` is the path of the lock file or of a file that is not completely written.
fn is_internal(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path == LOCK || path.starts_with(TEMPORARY))
}

mod listing;
mod reading;
mod records;
mod retention;
#[cfg(test)]
mod tests;
