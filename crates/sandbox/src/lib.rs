//! The confinement of a script: what it can reach, and how the kernel holds it to that.
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
//! On macOS there are other ones, and one process of the run (`macos`).
//!
//! Each step has its own variant of [`LaunchError`], and a step that fails ends the launch: there
//! is no best effort here. Which layers a run has is its [`Tier`]; nothing in here decides which
//! tier is enough, that is the admin's `SandboxMode`.
//!
//! The crate has no `unsafe`, and nothing runs between a fork and an exec: every process is
//! started by `posix_spawn(3)` and confines itself.
//!
//! An internal part of `qwed-mcp`, without a promise of stability.

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
// The interface to Linux of all the rest; on other systems `portable` stands in for it.
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
pub use order::{GroupLimits, GroupOrder, Neighbours, Order, Role, SeatbeltOrder};
pub use plan::{ArtifactFolder, Limits, Plan, PlanError, Reach, may_be_readable};
pub use remedies::remedy;
pub use tier::{SIGNAL_SCOPE_ABI, Tier};

use std::path::Path;
use std::process::ExitCode;

/// Does the work of one of a run's processes, if this process was started as one: its first argument
/// says so. Returns its exit code.
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

/// The user and group `nobody`, which own nothing. Scripts of a server that is root run as them.
pub const NOBODY: u32 = 65534;
