//! Removal of old runs.
//!
//! A run is first given a name that is no run's, then whoever has to know of it is told, and then its
//! files are removed. What was broken off between two of these steps is taken up by the next clean-up.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::folder::{Bounds, Folder, walk};
use super::removal::remove_tree;
use super::{Artifacts, LOCK, Retention, run_id_of, time_of};

/// A run's size is counted from so many entries; one that has more counts with what was seen.
const ENTRIES_MAX: usize = 1_000_000;
/// How many runs are looked at: what is beyond them is looked at another time.
const RUNS_MAX: usize = 100_000;
/// How many runs are told of, and then removed, together.
const RUNS_AT_ONCE: usize = 256;
/// How many threads remove them. Where others write, each step waits for the journal of the file
/// system: alone one removes 60 runs a second, and four remove a thousand, since they wait together.
const REMOVERS: usize = 4;
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

/// A run that is about to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) run_id: Uuid,
    pub(crate) reason: RemovalReason,
    /// What it takes on the disk, where that was looked at.
    pub(crate) disk_bytes: Option<u64>,
}

/// Why a run is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemovalReason {
    /// It is older than the policy wants.
    Age,
    /// All runs together take more than the policy wants.
    TotalSize,
    /// An earlier clean-up has begun it.
    BrokenOff,
}

impl RemovalReason {
    /// The word for the audit log.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::TotalSize => "total_size",
            Self::BrokenOff => "broken_off",
        }
    }
}

struct Run {
    id: Uuid,
    name: OsString,
    time: SystemTime,
    disk_bytes: u64,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    /// It is in use.
    InUse,
    /// It could not be removed.
    Stuck,
    /// It has another name now, or none.
    Gone,
}

impl Artifacts {
    /// Removes the oldest runs that are above what is to be kept. One that goes on or is being read
    /// stays; so does every folder whose name is no run's.
    ///
    /// `tell` is told of runs before anything of theirs is removed; if it fails, nothing is. Waits for
    /// other clean-ups of the same folder, whichever process they are of.
    pub(crate) fn retain(
        &self,
        retention: &Retention,
        now: SystemTime,
        tell: &mut dyn FnMut(&[Removal]) -> bool,
    ) -> Retained {
        let mut retained = Retained::default();
        let Ok(root) = Folder::open(&self.root) else { return retained };
        // On a file system without locks two of them meet, and each removes what it can.
        let _turn = root.lock();
        let names = root.names(RUNS_MAX).unwrap_or_default();
        let remainders = names.iter().filter_map(|name| remainder_of(name));
        let remainders: Vec<Uuid> = remainders.collect();
        for batch in remainders.chunks(RUNS_AT_ONCE) {
            let removal = |run_id: &Uuid| Removal {
                run_id: *run_id,
                reason: RemovalReason::BrokenOff,
                disk_bytes: None,
            };
            let removals: Vec<Removal> = batch.iter().map(removal).collect();
            retained.failed += removals.len() - remove(&root, &removals, tell).len();
        }

        if retention.is_everything() {
            retained.kept = names.iter().filter(|name| run_id_of(name).is_some()).count();
            return retained;
        }
        let look = |name: OsString| look_at(&root, run_id_of(&name)?, name).ok();
        let mut runs: Vec<Run> = names.into_iter().filter_map(look).collect();
        runs.sort_by(|a, b| a.time.cmp(&b.time).then_with(|| a.name.cmp(&b.name)));
        loop {
            let doomed = doomed(&runs, retention, now);
            if doomed.is_empty() {
                break;
            }
            for batch in doomed.chunks(RUNS_AT_ONCE) {
                let removals = set_aside(&root, &mut runs, batch);
                let removed = remove(&root, &removals, tell);
                retained.failed += removals.len() - removed.len();
                retained.removed += removed.len();
                retained.removed_bytes +=
                    removed.iter().filter_map(|run| run.disk_bytes).sum::<u64>();
            }
            // Instead of those that stay, others may have to go.
            runs.retain(|run| run.fate != Fate::Gone);
        }
        retained.kept = runs.iter().filter(|run| run.fate != Fate::Stuck).count();
        retained.failed += runs.len() - retained.kept;
        retained
    }

    /// Whether the removal of a run has begun, and nothing more.
    pub(crate) fn is_being_removed(&self, run_id: Uuid) -> bool {
        let name = aside(run_id);
        Folder::open(&self.root).is_ok_and(|root| root.stat(&name).is_ok())
    }
}

/// Which of the runs, the oldest first, are above what is to be kept.
fn doomed(runs: &[Run], retention: &Retention, now: SystemTime) -> Vec<(usize, RemovalReason)> {
    let mut total_bytes =
        runs.iter().fold(0_u64, |total, run| total.saturating_add(run.disk_bytes));
    let mut doomed = Vec::new();
    for (at, run) in runs.iter().enumerate().filter(|(_, run)| run.fate == Fate::Kept) {
        // The newest one was asked for just now, however large it is.
        let is_newest = at + 1 == runs.len();
        let age: Duration = now.duration_since(run.time).unwrap_or_default();
        let is_old = retention.age.is_some_and(|age_max| age > age_max);
        let is_too_much =
            !is_newest && retention.total_bytes.is_some_and(|bytes_max| total_bytes > bytes_max);
        if !is_old && !is_too_much {
            continue;
        }
        total_bytes = total_bytes.saturating_sub(run.disk_bytes);
        let reason = if is_old { RemovalReason::Age } else { RemovalReason::TotalSize };
        doomed.push((at, reason));
    }
    doomed
}

/// Gives runs names that are no runs'. Those that are in use keep theirs.
fn set_aside(root: &Folder, runs: &mut [Run], batch: &[(usize, RemovalReason)]) -> Vec<Removal> {
    let mut removals = Vec::new();
    for (at, reason) in batch {
        let Some(run) = runs.get_mut(*at) else { continue };
        run.fate = match rename_unless_in_use(root, run) {
            Ok(Fate::Gone) => {
                let disk_bytes = Some(run.disk_bytes);
                removals.push(Removal { run_id: run.id, reason: *reason, disk_bytes });
                Fate::Gone
            }
            Ok(fate) => fate,
            // Somebody else has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Fate::Gone,
            Err(_) => Fate::Stuck,
        };
    }
    removals
}

fn rename_unless_in_use(root: &Folder, run: &Run) -> io::Result<Fate> {
    let folder = root.folder(&run.name)?;
    let lock = lock_file(&folder)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => return Ok(Fate::InUse),
        Err(std::fs::TryLockError::Error(error)) => return Err(error),
    }
    root.rename(&run.name, root, &aside(run.id))?;
    Ok(Fate::Gone)
}

/// Removes the files of runs that were set aside, and gives those of which nothing is left.
fn remove(
    root: &Folder,
    removals: &[Removal],
    tell: &mut dyn FnMut(&[Removal]) -> bool,
) -> Vec<Removal> {
    if removals.is_empty() || !tell(removals) {
        return Vec::new();
    }
    let (next, removed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(removal) = removals.get(next.fetch_add(1, Ordering::Relaxed)) {
            if remove_tree(root, &aside(removal.run_id)).is_ok() {
                removed.lock().unwrap_or_else(PoisonError::into_inner).push(*removal);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..REMOVERS.min(removals.len()) {
            scope.spawn(work);
        }
    });
    removed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The name of a run that is being removed.
fn aside(run_id: Uuid) -> OsString {
    OsString::from(format!("{REMOVING}{}", run_id.hyphenated()))
}

fn remainder_of(name: &OsStr) -> Option<Uuid> {
    run_id_of(OsStr::new(name.to_str()?.strip_prefix(REMOVING)?))
}

fn look_at(root: &Folder, run_id: Uuid, name: OsString) -> io::Result<Run> {
    let folder = root.folder(&name)?;
    let mut disk_bytes = 0_u64;
    let bounds = Bounds { entries_max: ENTRIES_MAX, depth_max: usize::MAX };
    // Folders that nobody may enter are counted with what was seen, as all that is not.
    let _ = walk(&folder, bounds, |_, stat| {
        disk_bytes = disk_bytes.saturating_add(stat.disk_bytes);
    });
    Ok(Run { id: run_id, name, time: time_of(&folder)?, disk_bytes, fate: Fate::Kept })
}

/// A run may have died before it had a lock, or may be about to make one: whoever creates it first
/// has it.
fn lock_file(folder: &Folder) -> io::Result<File> {
    match folder.create_file(OsStr::new(LOCK)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => folder.file(OsStr::new(LOCK)),
        created => created,
    }
}
