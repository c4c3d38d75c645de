//! Provides the control groups of runs, and defines the mechanisms that limit a run's memory.
//!
//! A control group with a memory limit counts all memory that the kernel uses for a run, at every moment. No other
//! mechanism can do this. In addition, the memory watch (the sandbox's module `memory`) measures the run's memory at
//! intervals. The watch enforces the documented limit. The limit of a group is higher, because a group also counts the
//! files of the scratch folder. If no group with a memory limit is available, the watch is the only limit.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::sandbox::{
    ControlGroup, ControlGroups, GroupLimits, GroupOrder, Plan, SIGNAL_SCOPE_ABI, Tier,
};

/// The maximum number of attempts to remove a group after a run.
const REMOVAL_TRIES: u32 = 100;
/// The interval between two attempts to remove a group.
const REMOVAL_INTERVAL: Duration = Duration::from_millis(5);

/// The mechanism that limits the memory of all processes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MemoryBound {
    /// A control group. The kernel limits all memory that it uses for the run, at every moment.
    #[serde(rename = "control group")]
    ControlGroup,
    /// A watch that measures the memory at intervals. It runs in the supervisor of a cold run, and in the server for
    /// warm runs.
    #[serde(rename = "watch")]
    Watch,
    /// The kernel of macOS, which limits the memory that the process has written to.
    #[serde(rename = "footprint")]
    Footprint,
}

impl MemoryBound {
    /// Returns the mechanism that limits the memory of a run. `group` is the run's control group, if it has one.
    pub(super) fn of_run(tier: Tier, group: Option<&GroupOrder>) -> Self {
        if tier == Tier::Seatbelt {
            return Self::Footprint;
        }
        match group.and_then(|group| group.limits.memory_bytes) {
            Some(_) => Self::ControlGroup,
            None => Self::Watch,
        }
    }
}

/// The time for which runs get no control group after a control group could not be used.
const PAUSE: Duration = Duration::from_secs(60);

/// The control groups of a server's runs.
#[derive(Debug, Default)]
pub(super) struct RunGroups {
    /// The result of the search for groups. It is shared with the thread that searches, because the thread continues
    /// when the waiting task is dropped.
    found: Arc<OnceLock<Result<ControlGroups, String>>>,
    /// The time at which the current pause ends, and the reason for the pause. In a pause, no group is made.
    paused: Mutex<Option<(Instant, String)>>,
    /// The groups that could not be removed yet, because their processes have not ended.
    ending: Mutex<Vec<ControlGroup>>,
}

impl RunGroups {
    /// Creates a value that has not searched for control groups yet. If `is_absent` is true, runs get no control
    /// groups, as on a machine without control groups. Only tests set `is_absent`.
    pub(super) fn new(is_absent: bool) -> Self {
        let groups = Self::default();
        if is_absent {
            groups.found.get_or_init(|| Err("a test wants none".to_owned()));
        }
        groups
    }

    /// Finds the control group in which the groups of runs are made. Searches only once, for up to two seconds. Must be
    /// called before any process is started for a run.
    pub(super) async fn find(&self) {
        if self.found.get().is_some() {
            return;
        }
        let found = Arc::clone(&self.found);
        // If two calls search at the same time, the second call waits for the result of the first.
        let search = spawn_blocking(move || {
            found.get_or_init(|| ControlGroups::find().map_err(|reason| reason.to_string()));
        });
        // If the search panics, `found` stays empty, and `describe` reports that.
        let _ = search.await;
    }

    /// Describes the control groups that limit the memory of runs. Returns an error with the reason if no control group
    /// limits memory.
    pub(super) fn describe(&self) -> Result<String, String> {
        if let Some((_, reason)) = &*self.paused() {
            return Err(reason.clone());
        }
        match self.found.get() {
            Some(Ok(groups)) => groups.memory_bound(),
            Some(Err(reason)) => Err(reason.clone()),
            None => Err("the search for them stopped unexpectedly".to_owned()),
        }
    }

    /// Returns the instructions for the control group of a run under `plan`. `None` if no group is available, or if the
    /// run needs none.
    pub(super) fn order(&self, plan: &Plan) -> Option<GroupOrder> {
        let groups = self.found.get()?.as_ref().ok()?;
        if self.paused().is_some() { None } else { order(groups, plan) }
    }

    /// Stops making groups for a while, because a group could not be used.
    pub(super) fn pause(&self, reason: &str) {
        tracing::error!(reason, retry_in = ?PAUSE, "runs have no control groups");
        *self.lock_paused() = Some((Instant::now() + PAUSE, reason.to_owned()));
    }

    /// Returns the current pause: the time at which it ends, and its reason. `None` if no pause is in progress.
    fn paused(&self) -> MutexGuard<'_, Option<(Instant, String)>> {
        let mut paused = self.lock_paused();
        if paused.as_ref().is_some_and(|(until, _)| *until <= Instant::now()) {
            *paused = None;
        }
        paused
    }

    fn lock_paused(&self) -> MutexGuard<'_, Option<(Instant, String)>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a group as soon as its killed processes are dead. Uses another thread, because the removal may have to
    /// wait: the kernel has one lock for all groups of the machine.
    pub(super) fn remove_soon(self: &Arc<Self>, mut group: ControlGroup) {
        let Ok(runtime) = Handle::try_current() else { return };
        let groups = Arc::clone(self);
        runtime.spawn_blocking(move || {
            for _ in 0..REMOVAL_TRIES {
                if group.try_remove() {
                    return;
                }
                std::thread::sleep(REMOVAL_INTERVAL);
            }
            groups.ending().push(group);
            groups.remove_ended();
        });
    }

    /// Kills and removes the group that a killed supervisor left behind.
    pub(super) fn remove_orphaned(self: &Arc<Self>, order: &GroupOrder) {
        if let Some(group) = ControlGroup::orphaned(order) {
            let _ = group.kill();
            self.remove_soon(group);
        }
    }

    /// Removes the groups in which all processes have ended. Then restores the original state of their parent group.
    /// Must be called after the last run has ended.
    pub(super) fn close(&self) {
        self.remove_ended();
        if let Some(Ok(groups)) = self.found.get() {
            groups.release();
        }
    }

    fn remove_ended(&self) {
        self.ending().retain_mut(|group| !group.try_remove());
    }

    fn ending(&self) -> MutexGuard<'_, Vec<ControlGroup>> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the instructions for the control group of a run; `None` if the run needs none. Entering a group takes
/// milliseconds. So a run gets a group only if the group limits memory, or if nothing else can end all processes of the
/// run at once.
fn order(groups: &ControlGroups, plan: &Plan) -> Option<GroupOrder> {
    let ends_at_once =
        plan.tier == Tier::T3 || plan.is_one_process() || plan.landlock_abi >= SIGNAL_SCOPE_ABI;
    if plan.tier > Tier::Off && groups.memory_bound().is_ok() {
        Some(groups.order(&limits(plan)))
    } else if ends_at_once {
        None
    } else {
        Some(groups.order(&GroupLimits::default()))
    }
}

/// Returns the limits of a run's group. The memory limit covers the processes and also the files of the run, because
/// some of its file systems are in memory.
fn limits(plan: &Plan) -> GroupLimits {
    let limits = &plan.limits;
    let artifacts = plan.artifacts.as_ref().map_or(0, |artifacts| artifacts.bytes_max);
    let files = limits.scratch_bytes + limits.shared_memory_bytes + artifacts;
    GroupLimits { memory_bytes: Some(limits.memory_bytes + files), pids: Some(limits.processes) }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::sandbox::{ArtifactFolder, Reach};

    #[test]
    fn a_group_allows_for_files_that_are_in_memory() {
        let program = std::env::current_exe().unwrap();
        let reach = Reach { program, loader: None, paths: Vec::new() };
        let plan = Plan::new(Tier::T3, 6, &reach, &[], 512).unwrap();
        let mebibytes = |plan: &Plan| limits(plan).memory_bytes.unwrap() >> 20;
        assert_eq!(mebibytes(&plan), 512 + 128 + 64);
        let artifacts =
            ArtifactFolder { path: PathBuf::from("/missing"), bytes_max: 10 << 20, inodes_max: 10 };
        assert_eq!(mebibytes(&plan.for_project(artifacts).unwrap()), 512 + 128 + 64 + 10);
    }
}
