//! Provides the control group of one child of a fork server: creates the group, lowers its memory limit, and removes
//! the group.

use std::io;
use std::sync::Arc;

use nix::libc::ESRCH;
use nix::unistd::Pid;
use tokio::task::spawn_blocking;

use crate::sandbox::{ControlGroup, Plan};

use super::super::run_groups::{MemoryBound, RunGroups};

/// A control group that contains one child. Dropping this value removes the group as soon as the child is dead. It does
/// not kill the child. The end of process 1 of the child's PID namespace kills the child.
#[derive(Debug)]
pub(super) struct SpareGroup {
    group: Option<ControlGroup>,
    /// The memory limit of the group, in bytes, if it has one.
    memory_bytes: Option<u64>,
    memory_bound: MemoryBound,
    groups: Arc<RunGroups>,
}

impl SpareGroup {
    /// Makes a group for the child `python`, and moves the child there. Returns `None` if no group is available or the
    /// group cannot be used, and an error if the child does not exist any more.
    pub(super) async fn enter(
        groups: &Arc<RunGroups>,
        plan: &Plan,
        python: Pid,
    ) -> io::Result<Option<Self>> {
        let Some(order) = groups.order(plan) else { return Ok(None) };
        let memory_bound = MemoryBound::of_run(plan.tier, Some(&order));
        let of_spare = Arc::clone(groups);
        // If this future is dropped before the group is ready, the thread drops the group too.
        let entered = spawn_blocking(move || {
            let group = ControlGroup::create(&order)?;
            let entered = group.add(python);
            let memory_bytes = order.limits.memory_bytes;
            let made = Self { group: Some(group), memory_bytes, memory_bound, groups: of_spare };
            entered.map(|()| made)
        });
        match entered.await.map_err(io::Error::from).flatten() {
            Ok(made) => Ok(Some(made)),
            Err(error) if error.raw_os_error() == Some(ESRCH) => Err(error),
            Err(error) => {
                groups.pause(&error.to_string());
                Ok(None)
            }
        }
    }

    /// Lowers the group's memory limit by `bytes`, for a script with a lower limit than usual.
    pub(super) async fn lowered_by(self, bytes: u64) -> Option<Self> {
        let lowered = spawn_blocking(move || {
            if let (Some(group), Some(memory_bytes)) = (&self.group, self.memory_bytes)
                && let Err(error) = group.limit_memory(memory_bytes.saturating_sub(bytes))
            {
                // The run can continue, because the memory watch enforces the documented limit.
                tracing::warn!(%error, "the memory limit of a control group could not be lowered");
            }
            self
        });
        lowered.await.ok()
    }

    /// Returns the mechanism that limits the memory of a run in the group.
    pub(super) fn memory_bound(&self) -> MemoryBound {
        self.memory_bound
    }

    /// Returns whether the kernel has killed the run because the run exceeded its memory limit.
    pub(super) fn was_out_of_memory(&self) -> bool {
        self.group.as_ref().is_some_and(ControlGroup::was_out_of_memory)
    }
}

impl Drop for SpareGroup {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            self.groups.remove_soon(group);
        }
    }
}
