//! What a script can reach, and how the kernel holds it to that.
//!
//! A [`Plan`] says as data what is readable, writable and how much of everything there is. Two of
//! our own processes make it true for one run, in this order:
//!
//! ```text
//! supervisor   new namespaces → starts init and launcher → builds the file tree → enters it
//! init         process 1 of the run's own process numbers: reaps, and ends with the supervisor
//! launcher     own user → rlimits → capabilities 0 → no_new_privs → Landlock → seccomp → Python
//! ```
//!
//! Each step has its own variant of [`LaunchError`], and a step that fails ends the launch: there
//! is no best effort here. Which layers a run has is its [`Tier`]; nothing in here decides which
//! tier is enough, that is the admin's [`SandboxMode`](crate::config::SandboxMode).
//!
//! The folder has no `unsafe`, and nothing runs between a fork and an exec: every process is
//! started by `posix_spawn(3)` and confines itself.

mod error;
#[cfg(all(target_os = "linux", not(qwed_portable)))]
mod linux;
mod order;
mod plan;
mod support;
mod tier;
mod view;

pub(crate) use error::{LaunchError, Layer};
#[cfg(all(target_os = "linux", not(qwed_portable)))]
pub(crate) use linux::{
    ControlGroup, ControlGroups, INIT_ARGUMENT, Init, LAUNCHER_ARGUMENT, Launched,
    SIGNAL_SCOPE_ABI, SignalScope, become_python, launch, reap_orphans, supported_abi,
};
#[cfg(all(target_os = "linux", not(qwed_portable)))]
pub(crate) use order::GroupLimits;
pub(crate) use order::{GroupOrder, Order, PYTHON_COMMAND, Role};
pub(crate) use plan::{LeftFolder, Limits, Plan, PlanError, Reach, may_be_readable};
pub(crate) use support::remedy;
pub(crate) use tier::Tier;
pub(crate) use view::{leads_through, places_on_the_way};

/// The user and group `nobody`, which own nothing: as whom the scripts of a server run that is root.
pub(crate) const NOBODY: u32 = 65534;
