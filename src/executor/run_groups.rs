//! Which runs have a control group of their own, and what bounds the memory of a run.
//!
//! A group that bounds memory counts what nobody else can: everything that the kernel keeps for the
//! run, at every moment. The watch of `memory` goes on beside it, since its limit is the one that is
//! told: a group also counts the files of the scratch folder, and so has to allow for them. Where no
//! such group can be had, the watch is all there is.

use std::sync::OnceLock;

use serde::Serialize;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use crate::sandbox::{GroupOrder, Plan};

use self::platform::Place;

/// What bounds the memory of all processes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum MemoryBound {
    /// The kernel, at every moment, with everything that it keeps for the run.
    #[serde(rename = "control group")]
    ControlGroup,
    /// The supervisor, which looks again and again.
    #[serde(rename = "watch")]
    Watch,
}

impl MemoryBound {
    /// What bounds a run for which this group was ordered.
    pub(super) fn of_run(group: Option<&GroupOrder>) -> Self {
        match group.and_then(|group| group.limits.memory_bytes) {
            Some(_) => Self::ControlGroup,
            None => Self::Watch,
        }
    }
}

/// The control groups of a server's runs.
#[derive(Debug, Default)]
pub(super) struct RunGroups {
    found: OnceCell<Result<Place, String>>,
    /// Why none is made any more.
    lost: OnceLock<String>,
    /// Whether tests want the machine to have none.
    is_absent: bool,
    /// Those whose processes are about to end.
    #[cfg(all(target_os = "linux", not(qwed_portable)))]
    ending: std::sync::Mutex<Vec<crate::sandbox::ControlGroup>>,
}

impl RunGroups {
    pub(super) fn new(is_absent: bool) -> Self {
        Self { is_absent, ..Self::default() }
    }

    /// Looks for a place for them, once. To be called before anything is started for a run.
    ///
    /// Tells what the groups can do, in words, or why there are none that bound memory.
    pub(super) async fn find(&self) -> Result<String, String> {
        let find = || async {
            if self.is_absent {
                return Err("a test wants none".to_owned());
            }
            let found = spawn_blocking(Place::find).await;
            found.map_err(|_| "the search for them stopped unexpectedly".to_owned()).flatten()
        };
        let place = self.found.get_or_init(find).await.as_ref().map_err(Clone::clone)?;
        self.lost.get().map_or_else(|| place.tell(), |reason| Err(reason.clone()))
    }

    /// The group to make for a run under `plan`, if one is of use to it.
    pub(super) fn order(&self, plan: &Plan) -> Option<GroupOrder> {
        let place = self.found.get()?.as_ref().ok()?;
        if self.lost.get().is_some() { None } else { place.order(plan) }
    }

    /// Makes no group any more, because one could not be used.
    pub(super) fn give_up(&self, reason: &str) {
        if self.lost.set(reason.to_owned()).is_ok() {
            tracing::error!(reason, "runs have no control groups any more");
        }
    }
}

#[cfg(all(target_os = "linux", not(qwed_portable)))]
impl RunGroups {
    /// Removes a group whose processes were killed: at one of the next calls, if they are not dead
    /// yet.
    pub(super) fn remove_soon(&self, group: crate::sandbox::ControlGroup) {
        self.ending().push(group);
        self.remove_ended();
    }

    /// Removes the groups whose processes have ended meanwhile.
    pub(super) fn remove_ended(&self) {
        self.ending().retain_mut(|group| !group.try_remove());
    }

    fn ending(&self) -> std::sync::MutexGuard<'_, Vec<crate::sandbox::ControlGroup>> {
        self.ending.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(all(target_os = "linux", not(qwed_portable)))]
mod platform {
    use crate::sandbox::{ControlGroups, GroupLimits, GroupOrder, Plan, SIGNAL_SCOPE_ABI, Tier};

    /// Where the groups are made.
    #[derive(Debug)]
    pub(super) struct Place(ControlGroups);

    impl Place {
        /// Takes up to two seconds, and blocks.
        pub(super) fn find() -> Result<Self, String> {
            ControlGroups::find().map(Self).map_err(|reason| reason.to_string())
        }

        pub(super) fn tell(&self) -> Result<String, String> {
            let Self(groups) = self;
            if groups.controls().memory {
                return Ok(groups.controls().to_string());
            }
            Err(format!("those below {} bound no memory", groups.path().display()))
        }

        /// A group takes milliseconds to enter, so it has to be worth that: it bounds memory, or
        /// nothing else ends the run at once.
        pub(super) fn order(&self, plan: &Plan) -> Option<GroupOrder> {
            let Self(groups) = self;
            let ends_at_once = plan.tier == Tier::T3
                || plan.is_one_process()
                || plan.landlock_abi >= SIGNAL_SCOPE_ABI;
            if plan.tier > Tier::Off && groups.controls().memory {
                Some(groups.order(&limits(plan)))
            } else if ends_at_once {
                None
            } else {
                Some(groups.order(&GroupLimits::default()))
            }
        }
    }

    /// What a run may have, and what it may leave in file systems that are in memory.
    fn limits(plan: &Plan) -> GroupLimits {
        let limits = &plan.limits;
        let left = plan.left.as_ref().map_or(0, |left| left.bytes_max);
        let files = limits.scratch_bytes + limits.shared_memory_bytes + left;
        GroupLimits {
            memory_bytes: Some(limits.memory_bytes + files),
            pids: Some(limits.processes),
        }
    }

    #[cfg(test)]
    mod tests {
        use std::path::PathBuf;

        use super::*;
        use crate::sandbox::{LeftFolder, Reach};

        #[test]
        fn a_group_allows_for_files_that_are_in_memory() {
            let program = std::env::current_exe().unwrap();
            let reach = Reach { program, loader: None, paths: Vec::new() };
            let plan = Plan::new(Tier::T3, 6, &reach, &[], 512).unwrap();
            let mebibytes = |plan: &Plan| limits(plan).memory_bytes.unwrap() >> 20;
            assert_eq!(mebibytes(&plan), 512 + 128 + 64);
            let left =
                LeftFolder { path: PathBuf::from("/missing"), bytes_max: 10 << 20, inodes_max: 10 };
            assert_eq!(mebibytes(&plan.for_project(left).unwrap()), 512 + 128 + 64 + 10);
        }
    }
}

#[cfg(not(all(target_os = "linux", not(qwed_portable))))]
mod platform {
    use crate::sandbox::{GroupOrder, Plan};

    /// There is none.
    #[derive(Debug)]
    pub(super) enum Place {}

    impl Place {
        pub(super) fn find() -> Result<Self, String> {
            Err("this system has no control groups".to_owned())
        }

        pub(super) fn tell(&self) -> Result<String, String> {
            match *self {}
        }

        pub(super) fn order(&self, _plan: &Plan) -> Option<GroupOrder> {
            match *self {}
        }
    }
}
