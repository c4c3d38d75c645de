//! Implements the launcher on macOS. The launcher gives up rights, then becomes Python through Apple's `taskpolicy`,
//! which sets the memory limit. The launcher never enters Seatbelt; Python does.

use std::convert::Infallible;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use nix::sys::signal::SigSet;
use nix::unistd::{geteuid, setsid};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::error::OrFail as _;
use crate::{LaunchError, Limits, passing};

/// The hidden first argument that makes our binary the launcher of a run.
pub(crate) const LAUNCHER_ARGUMENT: &str = "__sandbox";

/// The line that the launcher sends when it has read its orders. All input after the orders is for Python.
pub(crate) const READY: &[u8] = b"ready\n";

/// The program that the launcher becomes, and the limits of this program. The supervisor sends a `Launch` as one line
/// of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// Apple's program that sets the memory limit.
    pub taskpolicy: PathBuf,
    /// Python and its arguments.
    pub command: Vec<String>,
    /// Python's whole environment.
    pub environment: Vec<(String, String)>,
    /// The folder in which Python starts.
    pub scratch: PathBuf,
    pub limits: Limits,
    /// The limit for the CPU time of the run, in seconds.
    pub cpu_seconds: u64,
}

/// Reads the launcher's orders from standard input and carries them out. After a success this process is Python, so
/// this function returns only after an error, which it sends to the supervisor.
pub(crate) fn become_python() -> ExitCode {
    // Close the inherited descriptors before this process opens its own descriptors, which would be closed too.
    let closed = close_inherited().or_fail(LaunchError::PrepareProcess);
    let Ok(supervisor) = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return ExitCode::FAILURE;
    };
    let Err(error) = closed.and_then(|()| carry_out(&supervisor));
    // Ignore failed writes: the supervisor has ended, so it needs no error.
    let _ = serde_json::to_writer(&supervisor, &error);
    let _ = (&supervisor).write_all(b"\n");
    ExitCode::FAILURE
}

fn carry_out(mut supervisor: &UnixStream) -> Result<Infallible, LaunchError> {
    // Start a new session, so that the script's signals to its own process group reach no other process.
    setsid().or_fail(LaunchError::StartLauncher)?;
    // Unblock the signals, because Python must receive them. The supervisor has blocked them, because a thread of the
    // supervisor waits for them.
    SigSet::empty().thread_set_mask().or_fail(LaunchError::PrepareProcess)?;
    let pictures = passing::receive(supervisor).or_fail(LaunchError::StartLauncher)?;
    let mut line = String::new();
    BufReader::new(supervisor).read_line(&mut line).or_fail(LaunchError::StartLauncher)?;
    let launch: Launch =
        serde_json::from_str(&line).map_err(io::Error::from).or_fail(LaunchError::StartLauncher)?;
    if geteuid().is_root() {
        // Refuse to run as root: this launcher cannot give up root's rights, and Seatbelt was not made to confine root.
        return Err(LaunchError::DropIdentity(nix::errno::Errno::EPERM.into()));
    }
    std::env::set_current_dir(&launch.scratch).or_fail(LaunchError::EnterScratch)?;
    // Give the side channel its fixed number (`SIDE_CHANNEL_FD`). Keep this descriptor open until this process becomes
    // Python, which inherits it.
    let numbered = pictures.as_ref().map(passing::hand_down).transpose();
    let _numbered = numbered.or_fail(LaunchError::PrepareProcess)?;
    limit(&launch)?;
    supervisor.write_all(READY).or_fail(LaunchError::StartLauncher)?;
    // `taskpolicy` replaces itself with Python (POSIX_SPAWN_SETEXEC). The same call sets the memory limit.
    let memory_mib = launch.limits.memory_bytes.div_ceil(1024 * 1024);
    let error = Command::new(&launch.taskpolicy)
        .args(["-m", &memory_mib.to_string()])
        .args(&launch.command)
        .env_clear()
        .envs(launch.environment)
        .exec();
    Err(LaunchError::LimitMemory(error.into()))
}

/// Closes descriptors that were inherited from the server's parent, because Seatbelt does not check a descriptor that
/// is already open.
fn close_inherited() -> io::Result<()> {
    let names = fs::read_dir("/dev/fd")?.map(|entry| entry.map(|entry| entry.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    let numbers = names.iter().filter_map(|name| name.to_str()?.parse::<i32>().ok());
    for number in numbers.filter(|number| *number > 2) {
        // Ignore a failure: these numbers include the descriptor of the listing, which is closed already.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

/// Limits this process and the programs that it becomes. The soft and hard limits are equal, so no limit can be raised
/// again.
fn limit(launch: &Launch) -> Result<(), LaunchError> {
    let Launch { limits, cpu_seconds, .. } = launch;
    let rows = [
        (Resource::Cpu, *cpu_seconds),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Nofile, limits.open_files),
        // Forbid core dumps, because they would write the script's memory to a file.
        (Resource::Core, 0),
        // Forbid forks, as a second barrier after the Seatbelt profile. A fork fails if the user already has this
        // number of processes. This process alone reaches the number, so every fork fails. Threads do not count on
        // macOS.
        (Resource::Nproc, 1),
    ];
    for (resource, most) in rows {
        // A run never gets more than the server's own hard limit.
        let hard = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
        let limit = Rlimit { current: Some(hard), maximum: Some(hard) };
        setrlimit(resource, limit).or_fail(LaunchError::LimitResources)?;
    }
    Ok(())
}
