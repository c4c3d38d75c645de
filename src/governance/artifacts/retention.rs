//! Removes old runs.
//!
//! A removal has three steps. The audit log records it, the run's folder is renamed so that it is no longer a run, and
//! its files are removed. The run is locked during all steps. If a removal is interrupted after the first step, the
//! next clean-up finishes it. If a run was renamed without a row in the audit log, the next clean-up restores its name.
//!
//! This module never removes a run without a row in the audit log, and never a run that is in progress or being read.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use thiserror::Error;
use uuid::Uuid;

use super::{Artifacts, LOCK, Retention, run_id_of, time_of};
use crate::folder::{Bounds, Folder};
use crate::ledger::{LoggedRun, StoreError};

/// The maximum number of files and folders that are counted for the size of a run. A larger run counts with the size of
/// these entries.
const SIZED_ENTRIES_MAX: usize = 1_000_000;
/// The maximum number of runs that one clean-up examines. Later clean-ups examine the other runs.
const RUNS_MAX: usize = 100_000;
/// The number of runs that are recorded and then removed together. Each of them needs an open file for its lock until
/// it is removed.
const RUNS_AT_ONCE: usize = 64;
/// The number of runs in one query of the audit log. It is limited because other readers of the log wait until the
/// query ends.
const RUNS_ASKED_AT_ONCE: usize = 1000;
/// The number of threads that remove runs. If other processes write, each step of a removal waits for the journal of
/// the file system. One thread removes 60 runs a second. Four threads remove a thousand, because they wait together.
const REMOVERS: usize = 4;
/// The name prefix of a run that is being removed. A folder with this prefix is not a run, even if the removal is
/// interrupted.
const REMOVING: &str = ".removing-";
/// The time limit for waiting until another clean-up of the same folder ends.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two attempts to lock the folder for a clean-up.
const TURN_PAUSE: Duration = Duration::from_millis(20);

/// The result of a clean-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Retained {
    pub(crate) kept: usize,
    pub(crate) removed: usize,
    /// Runs that should have been removed, but could not be.
    pub(crate) failed: usize,
    /// The size of the removed runs on the disk, in bytes.
    pub(crate) removed_bytes: u64,
}

/// The reason why a clean-up ended early.
#[derive(Debug, Error)]
pub(crate) enum RetentionError {
    /// Another clean-up is in progress.
    #[error(
        "another process has been removing old runs for more than {} s; try again when it has \
         ended",
        TURN_TIMEOUT.as_secs()
    )]
    Busy,
    /// The audit log failed. A run is not removed if its removal cannot be recorded.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The part of the audit log that a clean-up needs.
pub(crate) trait RemovalLog {
    /// Looks up the runs in the log. The result has the same order as `run_ids`.
    fn look_up(&self, run_ids: &[Uuid]) -> Result<Vec<LoggedRun>, StoreError>;

    /// Records that these runs are removed: all of them, or none.
    fn write_down(&self, removals: &[Removal]) -> Result<(), StoreError>;
}

/// A run that will be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) run_id: Uuid,
    pub(crate) reason: RemovalReason,
    /// The size of the run on the disk, in bytes.
    pub(crate) disk_bytes: u64,
}

/// The reason for the removal of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemovalReason {
    /// The run is older than the policy permits.
    Age,
    /// All runs together are larger than the policy permits.
    TotalSize,
}

impl RemovalReason {
    /// Returns the word for the audit log.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::TotalSize => "total_size",
        }
    }
}

/// A run that was renamed for its removal.
#[derive(Clone, Copy)]
struct SetAside {
    run_id: Uuid,
    disk_bytes: u64,
}

struct Run {
    id: Uuid,
    name: OsString,
    time: SystemTime,
    disk_bytes: u64,
    logged: LoggedRun,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    InUse,
    /// Not removed because of an error.
    Stuck,
    /// Renamed or removed.
    Gone,
}

impl Artifacts {
    /// Removes the oldest runs until the others are within `retention`. A run that is in progress or being read stays,
    /// and so does every folder with a name that is not a run id.
    ///
    /// `log` records each removal before anything happens to the run. The clean-up ends at the first removal that it
    /// cannot record. Waits for other clean-ups of the same folder, also in other processes. Fails with
    /// [`RetentionError::Busy`] if they take too long.
    pub(crate) fn retain(
        &self,
        retention: &Retention,
        now: SystemTime,
        log: &dyn RemovalLog,
    ) -> Result<Retained, RetentionError> {
        let mut retained = Retained::default();
        let Ok(root) = Folder::open(&self.root) else { return Ok(retained) };
        let _turn = turn(&root)?;
        let mut names = root.names(RUNS_MAX).unwrap_or_default();
        names.extend(take_up(&root, &names, log, &mut retained)?);
        if retention.is_everything() {
            retained.kept = names.iter().filter(|name| run_id_of(name).is_some()).count();
            return Ok(retained);
        }
        let mut runs = inspect_all(&root, names, log)?;
        loop {
            let doomed = doomed(&runs, retention, now);
            if doomed.is_empty() {
                break;
            }
            for batch in doomed.chunks(RUNS_AT_ONCE) {
                // The locks are held until the files are gone. A run that is just starting waits for its lock until
                // then, and finds that it was removed.
                let (aside, _locks) = set_aside(&root, &mut runs, batch, log)?;
                retained.remove(&root, &aside);
            }
            // Runs that could not be removed still count for the total size, so the next iteration may have to remove
            // newer runs.
            runs.retain(|run| run.fate != Fate::Gone);
        }
        retained.kept = runs.iter().filter(|run| run.fate != Fate::Stuck).count();
        retained.failed += runs.len() - retained.kept;
        Ok(retained)
    }
}

impl Retained {
    fn remove(&mut self, root: &Folder, aside: &[SetAside]) {
        let removed = remove(root, aside);
        self.failed += aside.len() - removed.len();
        self.removed += removed.len();
        self.removed_bytes += removed.iter().map(|run| run.disk_bytes).sum::<u64>();
    }
}

/// Waits until no other process removes runs. Returns `None` on a file system without locks.
fn turn(root: &Folder) -> Result<Option<File>, RetentionError> {
    let since = Instant::now();
    loop {
        match root.try_lock() {
            Ok(turn) => return Ok(Some(turn)),
            Err(TryLockError::WouldBlock) if since.elapsed() < TURN_TIMEOUT => {
                std::thread::sleep(TURN_PAUSE);
            }
            Err(TryLockError::WouldBlock) => return Err(RetentionError::Busy),
            // The file system has no locks, so two clean-ups can overlap. Each removes the runs that it can.
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
}

/// Finishes removals that earlier clean-ups did not complete. Removes a renamed run if the log records its removal.
/// Otherwise restores the name of the run. Returns the restored names.
fn take_up(
    root: &Folder,
    names: &[OsString],
    log: &dyn RemovalLog,
    retained: &mut Retained,
) -> Result<Vec<OsString>, RetentionError> {
    let remainders: Vec<Uuid> = names.iter().filter_map(|name| remainder_of(name)).collect();
    let mut put_back = Vec::new();
    for batch in remainders.chunks(RUNS_AT_ONCE) {
        let mut recorded = Vec::new();
        for (run_id, logged) in batch.iter().zip(log.look_up(batch)?) {
            let name = name_aside(*run_id);
            if logged.is_removed {
                recorded.push(SetAside { run_id: *run_id, disk_bytes: size_of(root, &name) });
                continue;
            }
            let own_name = OsString::from(run_id.hyphenated().to_string());
            let moved = root.folder(&name).and_then(|_| root.rename(&name, root, &own_name));
            match moved {
                Ok(()) => {
                    tracing::warn!(%run_id, "a run whose removal has no row in the audit log was restored");
                    put_back.push(own_name);
                }
                // The name cannot be restored, for example because a run with this id exists.
                Err(_) => retained.failed += 1,
            }
        }
        retained.remove(root, &recorded);
    }
    Ok(put_back)
}

/// Examines the runs among `names`. Returns the oldest first, in the order of the log. Runs that are not in the log
/// come before all others, in the order of their times.
fn inspect_all(
    root: &Folder,
    names: Vec<OsString>,
    log: &dyn RemovalLog,
) -> Result<Vec<Run>, RetentionError> {
    let ids: Vec<Uuid> = names.iter().filter_map(|name| run_id_of(name)).collect();
    let mut logged = HashMap::new();
    for batch in ids.chunks(RUNS_ASKED_AT_ONCE) {
        logged.extend(batch.iter().copied().zip(log.look_up(batch)?));
    }
    let look = |name: OsString| {
        let run_id = run_id_of(&name)?;
        inspect(root, run_id, name, logged.get(&run_id).copied().unwrap_or_default()).ok()
    };
    let mut runs: Vec<Run> = names.into_iter().filter_map(look).collect();
    runs.sort_by(|a, b| {
        let (a, b) = ((a.logged.seq, a.time, &a.name), (b.logged.seq, b.time, &b.name));
        a.cmp(&b)
    });
    Ok(runs)
}

/// Returns the indices of the runs that exceed `retention`, each with the reason. In `runs`, the oldest run must be
/// first.
fn doomed(runs: &[Run], retention: &Retention, now: SystemTime) -> Vec<(usize, RemovalReason)> {
    let mut total_bytes =
        runs.iter().fold(0_u64, |total, run| total.saturating_add(run.disk_bytes));
    // The newest run that has ended is never removed because of the total size, because its client has just asked for
    // it. Runs after it are not removed either, because they are just starting.
    let newest = runs.iter().rposition(|run| run.logged.has_ended).unwrap_or(runs.len().max(1) - 1);
    let mut doomed = Vec::new();
    for (at, run) in runs.iter().enumerate().filter(|(_, run)| run.fate == Fate::Kept) {
        let is_newest = at >= newest;
        // A time in the future counts as now, because the clock was set back.
        let age: Duration = now.duration_since(run.time).unwrap_or_default();
        // If the log already records the removal of a run, the run must be removed at any age.
        let is_old = run.logged.is_removed || retention.age.is_some_and(|age_max| age > age_max);
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

/// Records the removal of runs, and then renames them so that they are no longer runs. Runs in use are not recorded,
/// and keep their names.
fn set_aside(
    root: &Folder,
    runs: &mut [Run],
    batch: &[(usize, RemovalReason)],
    log: &dyn RemovalLog,
) -> Result<(Vec<SetAside>, Vec<File>), RetentionError> {
    let (mut locked, mut unrecorded) = (Vec::new(), Vec::new());
    for (at, reason) in batch {
        let Some(run) = runs.get_mut(*at) else { continue };
        run.fate = match lock_unless_in_use(root, run) {
            Ok(Some(lock)) => {
                if !run.logged.is_removed {
                    let Run { id: run_id, disk_bytes, .. } = *run;
                    unrecorded.push(Removal { run_id, reason: *reason, disk_bytes });
                }
                locked.push((*at, lock));
                continue;
            }
            Ok(None) => Fate::InUse,
            // Another process has removed the run.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Fate::Gone,
            Err(_) => Fate::Stuck,
        };
    }
    if !unrecorded.is_empty() {
        log.write_down(&unrecorded)?;
    }
    let (mut aside, mut locks) = (Vec::new(), Vec::new());
    for (at, lock) in locked {
        let Some(run) = runs.get_mut(at) else { continue };
        run.logged.is_removed = true;
        run.fate = match root.rename(&run.name, root, &name_aside(run.id)) {
            Ok(()) => {
                aside.push(SetAside { run_id: run.id, disk_bytes: run.disk_bytes });
                locks.push(lock);
                Fate::Gone
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Fate::Gone,
            Err(_) => Fate::Stuck,
        };
    }
    Ok((aside, locks))
}

/// Locks a run for its removal. `None` if it is being read or in progress.
fn lock_unless_in_use(root: &Folder, run: &Run) -> io::Result<Option<File>> {
    let folder = root.folder(&run.name)?;
    let lock = lock_file(&folder)?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Removes the files of renamed runs. Returns the runs that are completely gone.
fn remove(root: &Folder, aside: &[SetAside]) -> Vec<SetAside> {
    let (next, removed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(run) = aside.get(next.fetch_add(1, Ordering::Relaxed)) {
            if root.remove_tree(&name_aside(run.run_id)).is_ok() {
                removed.lock().unwrap_or_else(PoisonError::into_inner).push(*run);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..REMOVERS.min(aside.len()) {
            scope.spawn(work);
        }
    });
    removed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the name that a run has while it is being removed.
fn name_aside(run_id: Uuid) -> OsString {
    OsString::from(format!("{REMOVING}{}", run_id.hyphenated()))
}

fn remainder_of(name: &OsStr) -> Option<Uuid> {
    run_id_of(OsStr::new(name.to_str()?.strip_prefix(REMOVING)?))
}

fn inspect(root: &Folder, run_id: Uuid, name: OsString, logged: LoggedRun) -> io::Result<Run> {
    let time = time_of(&root.folder(&name)?)?;
    let disk_bytes = size_of(root, &name);
    Ok(Run { id: run_id, name, time, disk_bytes, logged, fate: Fate::Kept })
}

/// Returns the size of a folder on the disk, in bytes.
fn size_of(root: &Folder, name: &OsStr) -> u64 {
    let mut disk_bytes = 0_u64;
    let bounds = Bounds { entries_max: SIZED_ENTRIES_MAX, depth_max: usize::MAX };
    // Ignore errors. If a folder cannot be entered or a limit is exceeded, the size includes only the visited entries.
    let _ = root.folder(name).and_then(|folder| {
        folder.walk(bounds, |_, stat| {
            disk_bytes = disk_bytes.saturating_add(stat.disk_bytes);
        })
    });
    disk_bytes
}

/// Opens the lock file of a run, or creates it if it is missing. It is missing if the run's server died before it
/// created the file, or is about to create it. In the second case, the first process that creates the file owns the
/// run.
fn lock_file(folder: &Folder) -> io::Result<File> {
    match folder.create_file(OsStr::new(LOCK)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => folder.file(OsStr::new(LOCK)),
        created => created,
    }
}
