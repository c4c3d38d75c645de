//! Sets the limits of each process, and the limit for the number of the user's processes (`setrlimit(2)`). This module
//! does not limit the memory of the run as a whole; the memory watch and control groups do.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::sysinfo::sysinfo;

use super::super::error::OrFail as _;
use super::super::{LaunchError, Plan, Tier};

/// Limits this process and the programs that it becomes. The soft and hard limits are equal, so raising a limit
/// requires a capability.
pub(super) fn limit(plan: &Plan, cpu_seconds: u64) -> Result<(), LaunchError> {
    for (resource, value) in rows(plan, cpu_seconds) {
        let (_, hard) = getrlimit(resource).or_fail(LaunchError::LimitResources)?;
        // A run never gets more than the server's own hard limit.
        let value = value.min(hard);
        setrlimit(resource, value, value).or_fail(LaunchError::LimitResources)?;
    }
    Ok(())
}

/// Returns each limited resource and its limit, for each process of a run.
pub(super) fn rows(plan: &Plan, cpu_seconds: u64) -> [(Resource, u64); 10] {
    let limits = &plan.limits;
    [
        (Resource::RLIMIT_AS, limits.address_space_bytes),
        (Resource::RLIMIT_FSIZE, limits.file_bytes),
        (Resource::RLIMIT_NOFILE, limits.open_files),
        (Resource::RLIMIT_NPROC, processes(plan)),
        (Resource::RLIMIT_CPU, cpu_seconds),
        // Forbid core dumps, because they would write the script's memory to a file.
        (Resource::RLIMIT_CORE, 0),
        // Allow only a little locked memory, because the machine cannot swap it out.
        (Resource::RLIMIT_MEMLOCK, 64 * 1024),
        (Resource::RLIMIT_MSGQUEUE, 0),
        (Resource::RLIMIT_NICE, 0),
        (Resource::RLIMIT_RTPRIO, 0),
    ]
}

/// The number of concurrent runs of one user that must fit within the limit for the user's processes and threads.
const RUNS_OF_USER: u64 = 64;

/// Returns the limit for the number of processes and threads of the run's user (`RLIMIT_NPROC`).
///
/// At tier 3 the run has its own user namespace, so the kernel counts only the run's processes. At the other tiers the
/// kernel counts all processes of the user together, including other runs. With a low limit, one run could keep another
/// run from starting a thread. So at these tiers, the number of processes on the machine is added to the limit.
///
/// Other runs of the user may start later, so the limit of a run that must stay one process has room for
/// [`RUNS_OF_USER`] runs. The run cannot use this room for more threads, because the memory watch limits its threads.
fn processes(plan: &Plan) -> u64 {
    let own = plan.limits.processes;
    let others = || sysinfo().map_or(0, |machine| u64::from(machine.process_count()));
    match plan.tier {
        Tier::T3 => own,
        Tier::T2 | Tier::Seatbelt | Tier::T1 | Tier::Off => {
            let runs = if plan.is_one_process() { RUNS_OF_USER } else { 1 };
            own * runs + others()
        }
    }
}
