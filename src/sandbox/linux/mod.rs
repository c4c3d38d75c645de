//! What several processes of a run use of Linux: its layers and tables, and its lists of processes.

pub(super) mod capabilities;
mod control_group;
pub(super) mod identity;
pub(super) mod memory;
pub(crate) mod process_tree;
pub(super) mod signal_scope;
pub(super) mod syscalls;

pub(crate) use control_group::{ControlGroup, ControlGroups};
pub(crate) use memory::{Look, MemoryWatch, WATCH_INTERVAL};
pub(crate) use signal_scope::SignalScope;

use super::error::OsError;
use super::{LaunchError, NOBODY, Plan, Tier};

/// The first Landlock ABI that keeps signals within a domain (Linux 6.12).
pub(crate) const SIGNAL_SCOPE_ABI: u8 = 6;

/// Devices without state, and whether they may be written.
pub(super) const DEVICES: [(&str, bool); 3] =
    [("/dev/null", true), ("/dev/zero", false), ("/dev/urandom", false)];

/// Where shared memory is in a run's own file tree (`shm_overview(7)`).
pub(super) const SHARED_MEMORY: &str = "/dev/shm";
