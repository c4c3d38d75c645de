//! Linux, as several processes of a run use it: its layers and tables, and its lists of processes.

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

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use super::error::OsError;
pub(crate) use super::launcher::supported_abi;
use super::{LaunchError, NOBODY, Plan, Tier, init, launcher};

/// Tells that this system has a kernel sandbox that the server knows.
pub(crate) const IS_SUPPORTED: bool = true;

/// Devices without state, and whether they may be written.
pub(super) const DEVICES: [(&str, bool); 3] =
    [("/dev/null", true), ("/dev/zero", false), ("/dev/urandom", false)];

/// The place of shared memory in a run's own file tree (`shm_overview(7)`).
pub(super) const SHARED_MEMORY: &str = "/dev/shm";

/// Written by an init and a launcher to the supervisor when they are ready.
pub(super) const READY: [u8; 1] = *b"\n";

/// Does the work of init or of the launcher, if `process` names one of them.
pub(super) fn process_of_a_run(
    process: &str,
    mut arguments: impl Iterator<Item = OsString>,
) -> Option<ExitCode> {
    match process {
        launcher::LAUNCHER_ARGUMENT => {
            let proc = arguments.next().unwrap_or_else(|| "/proc".into());
            Some(launcher::become_python(Path::new(&proc)))
        }
        init::INIT_ARGUMENT => Some(init::reap_orphans()),
        _ => None,
    }
}
