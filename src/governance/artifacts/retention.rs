//! Removes old runs.
//!
//! A removal has three steps. First, the audit log records the removal. Then the run's folder is renamed, so that the
//! folder no longer has the name of a run. Then the folder is removed. The run is locked during all steps. If a removal
//! is interrupted after the first step, the next clean-up finishes the removal. If a folder was renamed, but the audit
//! log has no row about the removal, the next clean-up restores the name.
//!
//! This module never removes a run without a row in the audit log. It never removes a run that is in progress or being
//! read.

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

/// The size of a run is computed from at most this number of files and folders. Further files are ignored.
const SIZED_ENTRIES_MAX: usize = 1_000_000;
/// The maximum number of runs that one clean-up examines.
const RUNS_MAX: usize = 100_000;
/// The number of runs that are removed in one batch. All removals of a batch are recorded together. The number is
/// limited because the lock of each run is an open file.
const RUNS_AT_ONCE: usize = 64;
/// The number of runs in one query of the audit log. The number is limited because other readers of the log wait for
/// the query.
const RUNS_ASKED_AT_ONCE: usize = 1000;
/// The number of threads that remove runs. If other processes write to the same file system, each step of a removal
/// waits for the journal of the file system. One thread then removes 60 runs a second. Four threads remove a thousand,
/// because one commit of the journal serves all threads.
const REMOVERS: usize = 4;
/// The name prefix of folders that are being removed. A folder with this prefix is not a run.
const REMOVING: &str = ".removing-";
/// The maximum time to wait for another clean-up of the same folder.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two attempts to lock the folder of all runs.
const TURN_PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Retained {
    pub(crate) kept: usize,
    pub(crate) removed: usize,
    /// The number of runs whose removal failed.
    pub(crate) failed: usize,
    /// The size of the removed runs on the disk, in bytes.
    pub(crate) removed_bytes: u64,
}

/// The reason why a clean-up ended early.
#[derive(Debug, Error)]
pub(crate) enum RetentionError {
    /// Another clean-up of the same folder is in progress.
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

/// The operations of the audit log that a clean-up of old runs needs.
pub(crate) trait RemovalLog {
    /// Returns the states of these runs according to the log, in the order of `run_ids`.
    fn look_up(&self, run_ids: &[Uuid]) -> Result<Vec<LoggedRun>, StoreError>;

    /// Records all these removals. If this fails, none is recorded.
    fn write_down(&self, removals: &[Removal]) -> Result<(), StoreError>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) run_id: Uuid,
    pub(crate) reason: RemovalReason,
    /// The size of the run on the disk, in bytes.
    pub(crate) disk_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemovalReason {
    /// The run is older than the policy permits.
    Age,
    /// The total size of all runs exceeds the limit in the policy.
    TotalSize,
}

impl RemovalReason {
    /// Returns the name of the reason in the audit log.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::TotalSize => "total_size",
        }
    }
}

/// A run whose folder was renamed for its removal.
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
    /// The run could not be removed because of an error.
    Stuck,
    /// The run was renamed or removed.
    Gone,
}

impl Artifacts {
    /// Removes the oldest runs until the remaining runs are within `retention`. Does not remove runs that are in
    /// progress or being read. Ignores folders with names that are not run ids.
    ///
    /// `log` records each removal before the run is renamed. If `log` fails, the clean-up ends. Waits for other
    /// clean-ups of the same folder, also in other processes. Fails with [`RetentionError::Busy`] if the wait takes too
    /// long.
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
        names.extend(finish_interrupted(&root, &names, log, &mut retained)?);
        if retention.has_no_limit() {
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
                // Hold the locks until the files are removed. A run that is just starting waits for its lock, and then
                // detects that its folder was removed.
                let (aside, _locks) = set_aside(&root, &mut runs, batch, log)?;
                retained.remove(&root, &aside);
            }
            // Runs that could not be removed still count for the total size. So the next iteration may remove newer
            // runs instead.
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

/// Waits until no other process removes runs, and locks the folder of all runs. Returns `None` on a file system without
/// locks.
fn turn(root: &Folder) -> Result<Option<File>, RetentionError> {
    let since = Instant::now();
    loop {
        match root.try_lock() {
            Ok(turn) => return Ok(Some(turn)),
            Err(TryLockError::WouldBlock) if since.elapsed() < TURN_TIMEOUT => {
                std::thread::sleep(TURN_PAUSE);
            }
            Err(TryLockError::WouldBlock) => return Err(RetentionError::Busy),
            // The file system has no locks, so clean-ups can overlap. Each clean-up removes the runs that it can.
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
}

/// Finishes interrupted removals. Removes a renamed run if the log has a row about its removal. Otherwise restores the
/// name of the run. Returns the restored names.
fn finish_interrupted(
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
                // The rename fails, for example, if a run with this id exists.
                Err(_) => retained.failed += 1,
            }
        }
        retained.remove(root, &recorded);
    }
    Ok(put_back)
}

/// Examines the runs with these names. Returns the runs in the order of the log, oldest first. Runs without a row in
/// the log come before all other runs, sorted by time.
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

/// Returns the indices of the runs that exceed `retention`, each with the reason. `runs` must be sorted, oldest first.
fn doomed(runs: &[Run], retention: &Retention, now: SystemTime) -> Vec<(usize, RemovalReason)> {
    let mut total_bytes =
        runs.iter().fold(0_u64, |total, run| total.saturating_add(run.disk_bytes));
    // Even if the total size is above the limit, do not remove the newest run that has ended, because its client will
    // probably read its files. Do not remove later runs either, because they are just starting.
    let newest = runs.iter().rposition(|run| run.logged.has_ended).unwrap_or(runs.len().max(1) - 1);
    let mut doomed = Vec::new();
    for (at, run) in runs.iter().enumerate().filter(|(_, run)| run.fate == Fate::Kept) {
        let is_newest = at >= newest;
        // If the clock was set back, the time of the run may be in the future. Then the age is 0.
        let age: Duration = now.duration_since(run.time).unwrap_or_default();
        // If the log has a row about the removal of the run, remove the run at any age.
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

/// Records the removal of runs in the log, and then renames their folders. Skips runs in use. Returns the renamed runs,
/// and their locks.
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

/// Locks a run for its removal. Returns `None` if the run is in progress or being read.
fn lock_unless_in_use(root: &Folder, run: &Run) -> io::Result<Option<File>> {
    let folder = root.folder(&run.name)?;
    let lock = lock_file(&folder)?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Removes the folders of renamed runs. Returns the runs that were removed completely.
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

/// Returns the name of a run's folder during its removal.
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

/// Returns the disk usage of a folder, in bytes.
fn size_of(root: &Folder, name: &OsStr) -> u64 {
    let mut disk_bytes = 0_u64;
    let bounds = Bounds { entries_max: SIZED_ENTRIES_MAX, depth_max: usize::MAX };
    // After an error, the size includes only the visited entries.
    let _ = root.folder(name).and_then(|folder| {
        folder.walk(bounds, |_, stat| {
            disk_bytes = disk_bytes.saturating_add(stat.disk_bytes);
        })
    });
    disk_bytes
}

/// Opens the lock file of a run, or creates the file if it is missing. The file is missing if the server died while it
/// created the run, or if the server is still creating the run. In the second case, the server's own attempt to create
/// the file fails, so no run starts in a folder that is being removed.
fn lock_file(folder: &Folder) -> io::Result<File> {
    match folder.create_file(OsStr::new(LOCK)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => folder.file(OsStr::new(LOCK)),
        created => created,
    }
}
