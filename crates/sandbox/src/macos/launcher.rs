//! The launcher: takes from itself what a process can take from itself, and becomes Python by Apple's
//! `taskpolicy`, which sets the memory limit.

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

/// The line by which a launcher says that it has its orders, and what comes next is Python's.
pub(crate) const READY: &[u8] = b"ready\n";

/// What the launcher is to become, and with how much. Sent as a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// Apple's program that sets the memory limit.
    pub taskpolicy: PathBuf,
    /// Python, and its arguments.
    pub command: Vec<String>,
    /// The whole environment with which Python starts.
    pub environment: Vec<(String, String)>,
    /// The folder that it starts in.
    pub scratch: PathBuf,
    pub limits: Limits,
    /// The CPU time that the run gets.
    pub cpu_seconds: u64,
}

/// Waits for its orders on standard input and carries them out. Returns only if that failed, with the error
/// sent to the supervisor.
pub(crate) fn become_python() -> ExitCode {
    // Before anything is opened: who owns these descriptors is not in this process.
    let closed = close_inherited().or_fail(LaunchError::PrepareProcess);
    let Ok(supervisor) = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return ExitCode::FAILURE;
    };
    let Err(error) = closed.and_then(|()| carry_out(&supervisor));
    // If nobody reads it any more, nobody needs it.
    let _ = serde_json::to_writer(&supervisor, &error);
    let _ = (&supervisor).write_all(b"\n");
    ExitCode::FAILURE
}

fn carry_out(mut supervisor: &UnixStream) -> Result<Infallible, LaunchError> {
    // A session and a group of its own: what the script sends to "its group" reaches nobody else.
    setsid().or_fail(LaunchError::StartLauncher)?;
    // The supervisor waits for its signals; Python takes them as they come.
    SigSet::empty().thread_set_mask().or_fail(LaunchError::PrepareProcess)?;
    let pictures = passing::receive(supervisor).or_fail(LaunchError::StartLauncher)?;
    let mut line = String::new();
    BufReader::new(supervisor).read_line(&mut line).or_fail(LaunchError::StartLauncher)?;
    let launch: Launch =
        serde_json::from_str(&line).map_err(io::Error::from).or_fail(LaunchError::StartLauncher)?;
    if geteuid().is_root() {
        // Nothing here gives its rights up, and Seatbelt was not made to hold root.
        return Err(LaunchError::DropIdentity(nix::errno::Errno::EPERM.into()));
    }
    std::env::set_current_dir(&launch.scratch).or_fail(LaunchError::EnterScratch)?;
    // Open until this process becomes Python, which has it from then on.
    let numbered = pictures.as_ref().map(passing::hand_down).transpose();
    let _numbered = numbered.or_fail(LaunchError::PrepareProcess)?;
    limit(&launch)?;
    supervisor.write_all(READY).or_fail(LaunchError::StartLauncher)?;
    // `taskpolicy` replaces itself by Python in one step (POSIX_SPAWN_SETEXEC): the limit is set by the
    // last exec there is, and nothing that runs in between is a process of its own.
    let memory_mib = launch.limits.memory_bytes.div_ceil(1024 * 1024);
    let error = Command::new(&launch.taskpolicy)
        .args(["-m", &memory_mib.to_string()])
        .args(&launch.command)
        .env_clear()
        .envs(launch.environment)
        .exec();
    Err(LaunchError::LimitMemory(error.into()))
}

/// Closes what the server's own parent left open for everybody: a descriptor that is open is not looked at
/// by Seatbelt any more.
fn close_inherited() -> io::Result<()> {
    let names = fs::read_dir("/dev/fd")?.map(|entry| entry.map(|entry| entry.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    let numbers = names.iter().filter_map(|name| name.to_str()?.parse::<i32>().ok());
    for number in numbers.filter(|number| *number > 2) {
        // The descriptor of the listing itself is closed already.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

/// Limits this process and everything that it becomes. Soft and hard are the same: nothing can be raised
/// again.
fn limit(launch: &Launch) -> Result<(), LaunchError> {
    let Launch { limits, cpu_seconds, .. } = launch;
    let rows = [
        (Resource::Cpu, *cpu_seconds),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Nofile, limits.open_files),
        // No memory image of a crash: it would hold what the script held, in a file.
        (Resource::Core, 0),
        // A second wall behind the profile: a fork fails where its user has as many processes as the
        // caller may have, and every user has one, this. It counts no threads on macOS.
        (Resource::Nproc, 1),
    ];
    for (resource, most) in rows {
        // What the server itself may have less of, nobody below it gets more of.
        let hard = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
        let limit = Rlimit { current: Some(hard), maximum: Some(hard) };
        setrlimit(resource, limit).or_fail(LaunchError::LimitResources)?;
    }
    Ok(())
}
