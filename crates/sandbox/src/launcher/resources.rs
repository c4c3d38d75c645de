//! Limits of each process and of the user's processes (`setrlimit(2)`).

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::sysinfo::sysinfo;

use super::super::error::OrFail as _;
use super::super::{LaunchError, Plan, Tier};

/// Limits this process and everything it becomes. Soft and hard are the same: nothing can be
/// raised again without a capability.
pub(super) fn limit(plan: &Plan, cpu_seconds: u64) -> Result<(), LaunchError> {
    for (resource, value) in rows(plan, cpu_seconds) {
        let (_, hard) = getrlimit(resource).or_fail(LaunchError::LimitResources)?;
        // What the server itself may have less of, nobody below it gets more of.
        let value = value.min(hard);
        setrlimit(resource, value, value).or_fail(LaunchError::LimitResources)?;
    }
    Ok(())
}

/// Returns the limits of each process of a run.
pub(super) fn rows(plan: &Plan, cpu_seconds: u64) -> [(Resource, u64); 10] {
    let limits = &plan.limits;
    [
        (Resource::RLIMIT_AS, limits.address_space_bytes),
        (Resource::RLIMIT_FSIZE, limits.file_bytes),
        (Resource::RLIMIT_NOFILE, limits.open_files),
        (Resource::RLIMIT_NPROC, processes(plan)),
        (Resource::RLIMIT_CPU, cpu_seconds),
        // No memory image of a crash: it would hold what the script held, in a file.
        (Resource::RLIMIT_CORE, 0),
        // Memory that cannot be swapped out is the machine's, not the script's.
        (Resource::RLIMIT_MEMLOCK, 64 * 1024),
        (Resource::RLIMIT_MSGQUEUE, 0),
        (Resource::RLIMIT_NICE, 0),
        (Resource::RLIMIT_RTPRIO, 0),
    ]
}

/// The runs of one user that may each have as many threads as one may.
const RUNS_OF_USER: u64 = 64;

/// Returns the most processes and threads of the run's user.
///
/// In a user namespace of its own the run is alone with its user. Elsewhere the user's other
/// processes count too, so as many as there are on the machine come on top. Among them are other runs, so a script, whose own
/// threads the watch counts, has room for those too: else one run would decide whether another gets a thread.
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
