//! Implements the supervisor of a run: a process that starts Python, watches it, and removes the run's leftovers. This
//! module never decides anything about the script.
//!
//! The supervisor is our own binary, started again. It starts before any async runtime exists, so it is small and has
//! one thread at its start. It ends a run when Python ends, when the run exceeds a watched limit, when the server
//! requests the end, or when the server dies. The supervisor notices any death of the server, even by SIGKILL, because
//! the kernel closes the server's socket. The supervisor reports only when every process of the run is dead and reaped,
//! however long that takes. Then it removes the run's folder and exits. The server never kills the supervisor.

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

/// The hidden first argument that makes our binary remove abandoned folders. The second argument is the folder that
/// contains them.
pub const SWEEP_ARGUMENT: &str = "__sweep";

/// Does the work of a supervisor. The exit code reports whether the run's folder was removed.
pub fn supervise() -> ExitCode {
    match carry_out_order() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(LEFT_BEHIND),
        // The server died, or its order could not be read.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Carries out one order. Returns false if the run's folder could not be removed completely.
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
        // The server cancelled before it had sent the whole order.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Report::KILLED,
        Err(error) => return Err(error),
    };
    // If the server died, the report cannot be sent. The folder is removed anyway.
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
    // Create a scratch folder only below tier 3. At tier 3 it is a separate file system, which disappears with the
    // run.
    if order.plan.tier < Tier::T3 {
        let created = Scratch::create(&order.scratch);
        *scratch = Some(created.or_fail(LaunchError::CreateScratch)?);
    }
    let null = File::options().write(true).open("/dev/null");
    let null = null.or_fail(LaunchError::PrepareProcess)?;
    let mut run = platform::start(order, input, pictures)?;
    // Close this process's output streams. The server reads them until every writer has closed them, which must happen
    // when the run's last process ends.
    let closed = nix::unistd::dup2_stdout(&null).and_then(|()| nix::unistd::dup2_stderr(&null));
    if let Err(error) = closed {
        run.end();
        return Err(LaunchError::PrepareProcess(error.into()));
    }
    Ok(run)
}
