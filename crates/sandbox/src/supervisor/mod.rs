//! A process of its own for each run: it has Python started, watches it, and clears up after it.
//!
//! It is our own binary, started again before any runtime exists: single-threaded, and small. It
//! ends a run when Python ends, when the server asks for it, when the run has too much memory, or
//! when the server is gone, even by SIGKILL, because then its end of the socket is closed. Only
//! when every process of the run is dead and reaped does it report, however long that takes; then it
//! removes the run's folder, and only then does it end. The server never kills it. It never decides
//! anything about the script.

#[cfg_attr(all(target_os = "linux", not(qwed_portable)), path = "linux.rs")]
#[cfg_attr(not(all(target_os = "linux", not(qwed_portable))), path = "portable.rs")]
pub(super) mod platform;
mod scratch;
#[cfg(not(all(target_os = "linux", not(qwed_portable))))]
mod seatbelt;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use super::{LaunchError, Order, Tier, passing};

use self::scratch::Scratch;
pub use self::scratch::{create_locked, sweep};
use super::error::OrFail as _;
use super::report::{LEFT_BEHIND, Report};

/// The hidden first argument that makes our binary a supervisor.
pub const SUPERVISE_ARGUMENT: &str = "__supervise";

/// The hidden first argument that makes our binary remove what others left in the folder that is the
/// second argument.
pub const SWEEP_ARGUMENT: &str = "__sweep";

/// Does the work of a supervisor. The exit code says whether its folder is gone.
pub fn supervise() -> ExitCode {
    match carry_out_order() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(LEFT_BEHIND),
        // The server has lost interest: it is gone, or said no more than half an order.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Carries out one order. Whether its folder is gone afterwards.
fn carry_out_order() -> io::Result<bool> {
    platform::close_inherited();
    let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut scratch = None;
    let received = passing::receive(&control)
        .and_then(|pictures| Order::receive(&control).map(|order| (order, pictures)));
    let report = match received {
        Ok(((order, input), pictures)) => {
            match prepare_and_start(&order, &input, pictures, &mut scratch) {
                Ok(run) => run.watch(&control),
                Err(error) => Report::NotStarted(error),
            }
        }
        // The server changed its mind before it had said everything.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Report::KILLED,
        Err(error) => return Err(error),
    };
    // A server that is gone hears nothing, and its folder goes all the same.
    let sent = serde_json::to_vec(&report).map_err(io::Error::from).and_then(|mut answer| {
        answer.push(b'\n');
        control.write_all(&answer)
    });
    let is_gone = scratch.is_none_or(Scratch::remove);
    sent.map(|()| is_gone)
}

fn prepare_and_start(
    order: &Order,
    input: &[u8],
    pictures: Option<OwnedFd>,
    scratch: &mut Option<Scratch>,
) -> Result<platform::Run, LaunchError> {
    platform::prepare().or_fail(LaunchError::PrepareProcess)?;
    // At tier 3 the run has a file system of its own, and nothing outlives that.
    if order.plan.tier < Tier::T3 {
        let created = Scratch::create(&order.scratch);
        *scratch = Some(created.or_fail(LaunchError::CreateScratch)?);
    }
    let null = File::options().write(true).open("/dev/null");
    let null = null.or_fail(LaunchError::PrepareProcess)?;
    let mut run = platform::start(order, input, pictures)?;
    // The server takes the end of the output as the end of the run's last process.
    let closed = nix::unistd::dup2_stdout(&null).and_then(|()| nix::unistd::dup2_stderr(&null));
    if let Err(error) = closed {
        run.end();
        return Err(LaunchError::PrepareProcess(error.into()));
    }
    Ok(run)
}
