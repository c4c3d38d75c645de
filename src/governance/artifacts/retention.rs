//! Removal of old runs, whatever their tests made of their folders.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::time::SystemTime;

use uuid::Uuid;

use super::folder::{Bounds, Folder, Kind, walk};
use super::{
    ArtifactError, Artifacts, FILES, LOCK, Retention, RunFolder, failed_to, run_id_of, time_of,
};

/// A run's size is counted from so many entries; one that has more counts with what was seen.
const ENTRIES_MAX: usize = 1_000_000;
/// How many names are removed between two looks into a folder.
const BATCH: usize = 1024;
/// How many runs are looked at: what is beyond them is looked at another time.
const RUNS_MAX: usize = 100_000;
/// A run that is being removed has this before its id, so that it is none even if that is not done
/// to the end.
const REMOVING: &str = ".removing-";

/// What a clean-up did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Retained {
    /// How many runs are there after it.
    pub(crate) kept: usize,
    /// How many are removed.
    pub(crate) removed: usize,
    /// How many should have been, and could not.
    pub(crate) failed: usize,
    /// What the removed ones had taken on the disk.
    pub(crate) removed_bytes: u64,
}

struct Run {
    name: OsString,
    time: SystemTime,
    disk_bytes: u64,
}

impl Artifacts {
    /// Removes the oldest runs that are above what is to be kept. One that goes on or is being read
    /// stays; so does every folder whose name is no run's.
    pub(crate) fn retain(&self, retention: &Retention, now: SystemTime) -> Retained {
        let mut retained = Retained::default();
        let Ok(root) = Folder::open(&self.root) else { return retained };
        let names = root.names(RUNS_MAX).unwrap_or_default();
        for name in names.iter().filter(|name| is_remainder(name)) {
            if remove_tree(&root, name).is_err() {
                retained.failed += 1;
            }
        }

        let is_run = |name: &OsString| run_id_of(name).is_some();
        let look = |name: OsString| look_at(&root, name).ok();
        let mut runs: Vec<Run> = names.into_iter().filter(is_run).filter_map(look).collect();
        runs.sort_by(|a, b| a.time.cmp(&b.time).then_with(|| a.name.cmp(&b.name)));
        let mut total_bytes =
            runs.iter().fold(0_u64, |total, run| total.saturating_add(run.disk_bytes));
        // The newest one was asked for just now, however large it is.
        let newest = runs.last().map(|run| run.name.clone());
        for run in runs {
            let is_newest = newest.as_ref() == Some(&run.name);
            let age = now.duration_since(run.time).unwrap_or_default();
            let is_old = retention.age.is_some_and(|age_max| age > age_max);
            let is_too_much = !is_newest
                && retention.total_bytes.is_some_and(|bytes_max| total_bytes > bytes_max);
            if !is_old && !is_too_much {
                retained.kept += 1;
                continue;
            }
            match remove(&root, &run.name) {
                Ok(Removal::Done) => {
                    retained.removed += 1;
                    retained.removed_bytes = retained.removed_bytes.saturating_add(run.disk_bytes);
                    total_bytes = total_bytes.saturating_sub(run.disk_bytes);
                }
                Ok(Removal::InUse) => retained.kept += 1,
                Err(_) => retained.failed += 1,
            }
        }
        retained
    }
}

impl RunFolder {
    /// Removes what the tests left.
    pub(crate) fn remove_files(&self) -> Result<(), ArtifactError> {
        remove_tree(&self.folder, OsStr::new(FILES)).map_err(failed_to("remove what the run left"))
    }
}

fn is_remainder(name: &OsStr) -> bool {
    name.to_str()
        .and_then(|name| name.strip_prefix(REMOVING))
        .is_some_and(|run_id| Uuid::try_parse(run_id).is_ok())
}

fn look_at(root: &Folder, name: OsString) -> io::Result<Run> {
    let folder = root.folder(&name)?;
    let mut disk_bytes = 0_u64;
    let bounds = Bounds { entries_max: ENTRIES_MAX, depth_max: usize::MAX };
    // Folders that nobody may enter are counted with what was seen, as all that is not.
    let _ = walk(&folder, bounds, |_, stat| {
        disk_bytes = disk_bytes.saturating_add(stat.disk_bytes);
    });
    Ok(Run { time: time_of(&folder)?, name, disk_bytes })
}

enum Removal {
    Done,
    InUse,
}

fn remove(root: &Folder, name: &OsStr) -> io::Result<Removal> {
    let folder = root.folder(name)?;
    let lock = lock_file(&folder)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => return Ok(Removal::InUse),
        Err(std::fs::TryLockError::Error(error)) => return Err(error),
    }
    let mut removing = OsString::from(REMOVING);
    removing.push(name);
    root.rename(name, root, &removing)?;
    remove_tree(root, &removing)?;
    Ok(Removal::Done)
}

/// A run may have died before it had a lock, or may be about to make one: whoever creates it first
/// has it.
fn lock_file(folder: &Folder) -> io::Result<File> {
    match folder.create_file(OsStr::new(LOCK)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => folder.file(OsStr::new(LOCK)),
        created => created,
    }
}

/// Removes a folder with all that is in it. Folders in folders are moved up into `name` before they
/// are emptied: no path gets long, and two folders are open at a time.
fn remove_tree(root: &Folder, name: &OsStr) -> io::Result<()> {
    let Some(top) = open_own(root, name)? else { return Ok(()) };
    loop {
        let names = top.names(BATCH)?;
        if names.is_empty() {
            return absent_is_done(root.remove_folder(name));
        }
        for entry in names {
            match top.stat(&entry).map(|stat| stat.kind) {
                Ok(Kind::Folder) => empty_into(&top, &entry)?,
                Ok(Kind::File | Kind::Other) => absent_is_done(top.remove_file(&entry))?,
                Err(error) => absent_is_done(Err(error))?,
            }
        }
    }
}

/// Removes the folder `name`, after it has moved the folders in it to `top`.
fn empty_into(top: &Folder, name: &OsStr) -> io::Result<()> {
    let Some(folder) = open_own(top, name)? else { return Ok(()) };
    loop {
        let names = folder.names(BATCH)?;
        if names.is_empty() {
            return absent_is_done(top.remove_folder(name));
        }
        for entry in names {
            match folder.stat(&entry).map(|stat| stat.kind) {
                Ok(Kind::Folder) => {
                    // To move a folder is to change it: its parent is another one. Whether it could
                    // be unlocked shows then.
                    let _ = folder.unlock(&entry);
                    let moved = Uuid::new_v4().simple().to_string();
                    absent_is_done(folder.rename(&entry, top, OsStr::new(&moved)))?;
                }
                Ok(Kind::File | Kind::Other) => absent_is_done(folder.remove_file(&entry))?,
                Err(error) => absent_is_done(Err(error))?,
            }
        }
    }
}

/// Opens a folder whose owner may have closed it for himself.
fn open_own(parent: &Folder, name: &OsStr) -> io::Result<Option<Folder>> {
    // Whether this helped shows when it is opened.
    let _ = parent.unlock(name);
    match parent.folder(name) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Another server may clean up at the same time.
fn absent_is_done(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
