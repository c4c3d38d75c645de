//! The sandbox on Linux: what makes a [`Plan`] true.
//!
//! `launch` is the supervisor's part, `launcher` and `init` are processes of their own; the other
//! modules are a layer each.

mod capabilities;
mod confinement;
mod control_group;
mod file_access;
mod identity;
mod init;
mod launch;
mod launcher;
mod resources;
mod signal_scope;
mod syscalls;
mod tree;

pub(crate) use control_group::{ControlGroup, ControlGroups};
pub(crate) use file_access::supported_abi;
pub(crate) use init::reap_orphans;
pub(crate) use launch::{Init, Launched, launch};
pub(crate) use launcher::become_python;
pub(crate) use signal_scope::SignalScope;

use super::error::OsError;
use super::plan::{LeftFolder, Programs};
use super::{LaunchError, Limits, NOBODY, Order, PYTHON_COMMAND, Plan, Role, Tier};

/// The hidden first argument that makes our binary the launcher of a run.
pub(crate) const LAUNCHER_ARGUMENT: &str = "__sandbox";

/// The hidden first argument that makes our binary process 1 of a run.
pub(crate) const INIT_ARGUMENT: &str = "__init";

/// The first Landlock ABI that keeps signals within a domain (Linux 6.12).
pub(crate) const SIGNAL_SCOPE_ABI: u8 = 6;

/// Devices without state, and whether they may be written.
const DEVICES: [(&str, bool); 3] =
    [("/dev/null", true), ("/dev/zero", false), ("/dev/urandom", false)];

/// Where shared memory is in a run's own file tree (`shm_overview(7)`).
const SHARED_MEMORY: &str = "/dev/shm";
