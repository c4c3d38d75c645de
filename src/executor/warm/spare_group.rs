//! The control group of one child of a fork server.

use std::io;
use std::sync::Arc;

use nix::libc::ESRCH;
use nix::unistd::Pid;
use tokio::task::spawn_blocking;

use crate::sandbox::{ControlGroup, Plan};

use super::super::run_groups::{MemoryBound, RunGroups};

/// A group that a waiting child was moved to. Dropping it has it removed when the child is dead, which
/// was killed with its process 1.
#[derive(Debug)]
pub(super) struct SpareGroup {
    group: Option<ControlGroup>,
    /// The bound of its memory, where it has one.
    memory_bytes: Option<u64>,
    memory_bound: MemoryBound,
    groups: Arc<RunGroups>,
}

impl SpareGroup {
    /// Makes a group for the child `python`, and moves it there; `None` where runs have none. An error
    /// says that there is no such child any more.
    pub(super) async fn enter(
        groups: &Arc<RunGroups>,
        plan: &Plan,
        python: Pid,
    ) -> io::Result<Option<Self>> {
        let Some(order) = groups.order(plan) else { return Ok(None) };
        let memory_bound = MemoryBound::of_run(plan.tier, Some(&order));
        let of_spare = Arc::clone(groups);
        // Whoever waits for it may be gone when it is there.
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

    /// Returns the group with less memory: for a script that asks for less than others have.
    pub(super) async fn lowered_by(self, bytes: u64) -> Option<Self> {
        let lowered = spawn_blocking(move || {
            if let (Some(group), Some(memory_bytes)) = (&self.group, self.memory_bytes)
                && let Err(error) = group.limit_memory(memory_bytes.saturating_sub(bytes))
            {
                // The watch has the bound that is documented.
                tracing::warn!(%error, "a control group keeps its bound");
            }
            self
        });
        lowered.await.ok()
    }

    /// Returns the bound of the memory of a run in the group.
    pub(super) fn memory_bound(&self) -> MemoryBound {
        self.memory_bound
    }

    /// Returns whether the kernel has killed the run because it had more memory than it may.
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
