//! Confines a script: defines its rights and makes the kernel enforce them.
//!
//! A [`Plan`] states as data which paths are readable and writable, and the limit for each resource. On Linux, three
//! processes of our own apply the plan to one run, in this order:
//!
//! ```text
//! supervisor   new namespaces → starts init and launcher → builds the file tree → enters it
//! init         process 1 of the run's PID namespace: reaps orphans, and ends with the supervisor
//! launcher     own user → rlimits → capabilities 0 → no_new_privs → Landlock → seccomp → Python
//! ```
//!
//! On macOS a run is one process, with other steps (see the module `macos`).
//!
//! Each step has its own variant of [`LaunchError`]. A failed step ends the launch, because a run must have every layer
//! of its [`Tier`]. This crate never decides which tier is enough; the admin's setting `SandboxMode` does.
//!
//! The crate contains no `unsafe`. None of its code runs between a fork and an exec: the processes above are started
//! by `posix_spawn(3)` and confine themselves.
//!
//! This is an internal part of `qwed-mcp`, without a promise of stability.

#![expect(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "an internal crate, whose error types state what can fail"
)]

mod error;
#[cfg(all(target_os = "linux", not(qwed_portable)))]
mod init;
#[cfg(all(target_os = "linux", not(qwed_portable)))]
mod launcher;
// All other modules use the interfaces of Linux through this module. On other systems `portable.rs` replaces it.
#[cfg_attr(not(all(target_os = "linux", not(qwed_portable))), path = "portable.rs")]
mod linux;
#[cfg(any(test, not(all(target_os = "linux", not(qwed_portable)))))]
mod macos;
mod order;
pub mod passing;
mod plan;
mod remedies;
pub mod report;
pub mod supervisor;
mod tier;

pub use error::{LaunchError, Layer};
#[cfg(all(target_os = "linux", not(qwed_portable)))]
pub use launcher::supported_abi;
pub use linux::*;
pub use order::{
    Fixed, FixedClock, GroupLimits, GroupOrder, Neighbours, Order, Role, SeatbeltOrder,
};
pub use plan::{ArtifactFolder, Limits, Plan, PlanError, Reach, is_store, may_be_readable};
pub use remedies::remedy;
pub use tier::{SIGNAL_SCOPE_ABI, Tier};

use std::path::Path;
use std::process::ExitCode;

/// Does the work of a helper process, such as a supervisor or a launcher, if the first argument of this process
/// requests it. Returns the exit code, or `None` if this process was started for another purpose.
pub fn process_of_a_run() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next()?.to_str()? {
        supervisor::SUPERVISE_ARGUMENT => Some(supervisor::supervise()),
        supervisor::SWEEP_ARGUMENT => {
            supervisor::sweep(Path::new(&arguments.next()?));
            Some(ExitCode::SUCCESS)
        }
        #[cfg(not(all(target_os = "linux", not(qwed_portable))))]
        macos::launcher::LAUNCHER_ARGUMENT => Some(macos::launcher::become_python()),
        #[cfg(all(target_os = "linux", not(qwed_portable)))]
        launcher::LAUNCHER_ARGUMENT => {
            let proc = arguments.next().unwrap_or_else(|| "/proc".into());
            Some(launcher::become_python(Path::new(&proc)))
        }
        #[cfg(all(target_os = "linux", not(qwed_portable)))]
        init::INIT_ARGUMENT => Some(init::reap_orphans()),
        _ => None,
    }
}

/// The UID and GID of `nobody`, which owns no files. A server that runs as root runs scripts as this user.
pub const NOBODY: u32 = 65534;
