//! Removal of old runs.
//!
//! The audit log records it first, while nobody else can begin to read the run; then the run is given
//! a name that is no run's, and then its files are removed. A removal that was broken off behind the
//! first of these steps is finished by the next clean-up. A run that was set aside, and that the log
//! has not as removed, is put back.

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

/// A run's size is counted from so many entries; one that has more counts with what was seen.
const SIZED_ENTRIES_MAX: usize = 1_000_000;
/// The runs that are looked at: what is beyond them is looked at another time.
const RUNS_MAX: usize = 100_000;
/// The runs that are recorded, and then removed, together. Each has a file open meanwhile.
const RUNS_AT_ONCE: usize = 64;
/// The runs about which the log is asked at once: others that read it wait so long.
const RUNS_ASKED_AT_ONCE: usize = 1000;
/// The threads that remove them. Where others write, each step waits for the journal of the file
/// system: alone one removes 60 runs a second, and four remove a thousand, since they wait
/// together.
const REMOVERS: usize = 4;
/// A run that is being removed has this before its id, so that it is none even if that is not done
/// to the end.
const REMOVING: &str = ".removing-";
/// The wait for another clean-up of the same folder, and the pause between two tries.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
const TURN_PAUSE: Duration = Duration::from_millis(20);

/// The result of a clean-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Retained {
    pub(crate) kept: usize,
    pub(crate) removed: usize,
    /// Runs that should have been removed, and could not.
    pub(crate) failed: usize,
    /// The bytes that the removed ones had on the disk.
    pub(crate) removed_bytes: u64,
}

/// The reason for the early end of a clean-up.
#[derive(Debug, Error)]
pub(crate) enum RetentionError {
    /// One at a time.
    #[error(
        "another process has been removing old runs for more than {} s; try again when it has ended",
        TURN_TIMEOUT.as_secs()
    )]
    Busy,
    /// A failure of the audit log: what cannot be written down is not removed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The audit log, as far as a clean-up needs it.
pub(crate) trait RemovalLog {
    /// Looks up the runs, in their order.
    fn look_up(&self, run_ids: &[Uuid]) -> Result<Vec<LoggedRun>, StoreError>;

    /// Writes down that these runs are removed: all of them, or none.
    fn write_down(&self, removals: &[Removal]) -> Result<(), StoreError>;
}

/// A run that is about to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) run_id: Uuid,
    pub(crate) reason: RemovalReason,
    /// Its size on the disk.
    pub(crate) disk_bytes: u64,
}

/// The reason for the removal of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemovalReason {
    /// Older than the policy wants.
    Age,
    /// All runs together take more than the policy wants.
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

/// A run that has the name of one that is being removed.
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
    /// Not removed, for an error.
    Stuck,
    /// Renamed or removed.
    Gone,
}

impl Artifacts {
    /// Removes the oldest runs that are above what is to be kept. One that goes on or is being read
    /// stays; so does every folder whose name is no run's.
    ///
    /// `log` records runs before anything is done to them. The first that it cannot record ends the
    /// clean-up. Waits for other clean-ups of the same folder, whichever process they are of.
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
        let mut runs = look_at_all(&root, names, log)?;
        loop {
            let doomed = doomed(&runs, retention, now);
            if doomed.is_empty() {
                break;
            }
            for batch in doomed.chunks(RUNS_AT_ONCE) {
                // Who wants to begin to read one waits until nothing is left of it.
                let (aside, _locks) = set_aside(&root, &mut runs, batch, log)?;
                retained.remove(&root, &aside);
            }
            // Instead of those that stay, others may have to go.
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

/// Waits until no other process removes runs.
fn turn(root: &Folder) -> Result<Option<File>, RetentionError> {
    let since = Instant::now();
    loop {
        match root.try_lock() {
            Ok(turn) => return Ok(Some(turn)),
            Err(TryLockError::WouldBlock) if since.elapsed() < TURN_TIMEOUT => {
                std::thread::sleep(TURN_PAUSE);
            }
            Err(TryLockError::WouldBlock) => return Err(RetentionError::Busy),
            // On a file system without locks two of them meet, and each removes what it can.
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
}

/// Finishes what earlier clean-ups have set aside: removes it where the log says so, and puts it
/// back where the log does not know of it. Returns the names of what was put back.
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
                    tracing::warn!(%run_id, "a run that was set aside without a row in the audit log is put back");
                    put_back.push(own_name);
                }
                // There is a run of this id.
                Err(_) => retained.failed += 1,
            }
        }
        retained.remove(root, &recorded);
    }
    Ok(put_back)
}

/// Looks at the runs among the names, the oldest first: by the log, and those of which it knows
/// nothing, by their times, before all others.
fn look_at_all(
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
        look_at(root, run_id, name, logged.get(&run_id).copied().unwrap_or_default()).ok()
    };
    let mut runs: Vec<Run> = names.into_iter().filter_map(look).collect();
    runs.sort_by(|a, b| {
        let (a, b) = ((a.logged.seq, a.time, &a.name), (b.logged.seq, b.time, &b.name));
        a.cmp(&b)
    });
    Ok(runs)
}

/// Returns the runs above what is to be kept; `runs` has the oldest first.
fn doomed(runs: &[Run], retention: &Retention, now: SystemTime) -> Vec<(usize, RemovalReason)> {
    let mut total_bytes =
        runs.iter().fold(0_u64, |total, run| total.saturating_add(run.disk_bytes));
    // The newest one that has ended was asked for just now, however large it is; and those behind it
    // are just beginning.
    let newest = runs.iter().rposition(|run| run.logged.has_ended).unwrap_or(runs.len().max(1) - 1);
    let mut doomed = Vec::new();
    for (at, run) in runs.iter().enumerate().filter(|(_, run)| run.fate == Fate::Kept) {
        let is_newest = at >= newest;
        // What is of the future is of now: the clock was set back.
        let age: Duration = now.duration_since(run.time).unwrap_or_default();
        // One that the log has as removed is none any more.
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

/// Writes down that runs are removed, and then gives them names that are no runs'. Those that are
/// in use are not written down, and keep theirs.
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
            // Somebody else has removed it.
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

/// Locks a run, so that nobody begins to read it; none if somebody reads it, or it goes on.
fn lock_unless_in_use(root: &Folder, run: &Run) -> io::Result<Option<File>> {
    let folder = root.folder(&run.name)?;
    let lock = lock_file(&folder)?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Removes the files of runs that were set aside, and returns those of which nothing is left.
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

/// Returns the name of a run that is being removed.
fn name_aside(run_id: Uuid) -> OsString {
    OsString::from(format!("{REMOVING}{}", run_id.hyphenated()))
}

fn remainder_of(name: &OsStr) -> Option<Uuid> {
    run_id_of(OsStr::new(name.to_str()?.strip_prefix(REMOVING)?))
}

fn look_at(root: &Folder, run_id: Uuid, name: OsString, logged: LoggedRun) -> io::Result<Run> {
    let time = time_of(&root.folder(&name)?)?;
    let disk_bytes = size_of(root, &name);
    Ok(Run { id: run_id, name, time, disk_bytes, logged, fate: Fate::Kept })
}

/// Adds up what a folder takes on the disk.
fn size_of(root: &Folder, name: &OsStr) -> u64 {
    let mut disk_bytes = 0_u64;
    let bounds = Bounds { entries_max: SIZED_ENTRIES_MAX, depth_max: usize::MAX };
    // Folders that nobody may enter are counted with what was seen, as all that is not.
    let _ = root.folder(name).and_then(|folder| {
        folder.walk(bounds, |_, stat| {
            disk_bytes = disk_bytes.saturating_add(stat.disk_bytes);
        })
    });
    disk_bytes
}

/// Opens the lock of a run, or creates it: a run may have died before it had one, or may be about
/// to make one, and whoever creates it first has it.
fn lock_file(folder: &Folder) -> io::Result<File> {
    match folder.create_file(OsStr::new(LOCK)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => folder.file(OsStr::new(LOCK)),
        created => created,
    }
}
