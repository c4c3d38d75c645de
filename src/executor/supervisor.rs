//! A process of its own for each run: it has Python started, watches it, and clears up after it.
//!
//! It is our own binary, started again before any runtime exists: single-threaded, and small. It
//! ends a run when Python ends, when the server asks for it, when the run has too much memory, or
//! when the server is gone, even by SIGKILL, because then its end of the socket is closed. Only
//! when every process of the run is dead and reaped does it report. It never decides anything
//! about the script.

#[cfg(all(target_os = "linux", not(qwed_portable)))]
mod left;
mod scratch;

pub(super) use scratch::remove as remove_scratch;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};

use crate::sandbox::{LaunchError, Order, PYTHON_COMMAND, Tier};

use super::protocol::Report;

#[cfg(all(target_os = "linux", not(qwed_portable)))]
mod linux;
#[cfg(all(target_os = "linux", not(qwed_portable)))]
use linux as platform;
#[cfg(not(all(target_os = "linux", not(qwed_portable))))]
mod portable;
#[cfg(not(all(target_os = "linux", not(qwed_portable))))]
use portable as platform;

/// The life of a supervisor. The exit code says only whether a report could be sent.
pub(crate) fn supervise() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody is left to report to: the server is gone, and so is its end of the socket.
        Err(_) => ExitCode::FAILURE,
    }
}

fn run() -> io::Result<()> {
    platform::close_inherited();
    let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let report = match Order::receive(&control) {
        Ok((order, input)) => {
            // At tier 3 the run has a file system of its own, and nothing outlives that.
            let has_folder = order.plan.tier < Tier::T3;
            let report = match prepare_and_start(&order, &input, has_folder) {
                Ok(run) => run.watch(&control)?,
                Err(error) => Report::NotStarted(error),
            };
            if has_folder {
                // Before the report: when the server has it, nothing of the run is left.
                scratch::remove(&order.scratch);
            }
            report
        }
        // The server changed its mind before it had said everything.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Report::Killed,
        Err(error) => return Err(error),
    };
    let mut answer = serde_json::to_vec(&report)?;
    answer.push(b'\n');
    control.write_all(&answer)
}

fn prepare_and_start(
    order: &Order,
    input: &[u8],
    has_folder: bool,
) -> Result<platform::Run, LaunchError> {
    platform::prepare().map_err(|error| LaunchError::PrepareProcess(error.into()))?;
    if has_folder {
        scratch::create(&order.scratch)
            .map_err(|error| LaunchError::CreateScratch(error.into()))?;
    }
    let null = File::options().write(true).open("/dev/null");
    let null = null.map_err(|error| LaunchError::PrepareProcess(error.into()))?;
    let mut run = platform::start(order, input)?;
    // The server takes the end of the output as the end of the run's last process.
    let closed = nix::unistd::dup2_stdout(&null).and_then(|()| nix::unistd::dup2_stderr(&null));
    if let Err(error) = closed {
        run.end();
        return Err(LaunchError::PrepareProcess(error.into()));
    }
    Ok(run)
}

/// Python with the rights of the server's user, because the admin wants it so.
fn start_bare(order: &Order, input: Stdio) -> Result<Child, LaunchError> {
    use std::os::unix::process::CommandExt as _;

    Command::new(&order.plan.program)
        .args(["-c", PYTHON_COMMAND])
        .env_clear()
        .envs(order.environment.iter().map(|(name, value)| (name, value)))
        .env("TMPDIR", &order.scratch)
        .current_dir(&order.scratch)
        // A group of its own: what the script sends to "its group" does not reach the supervisor.
        .process_group(0)
        .stdin(input)
        .spawn()
        .map_err(|error| LaunchError::Execute(error.into()))
}
