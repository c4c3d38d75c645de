//! Process 1 of a run's PID namespace: reaps orphans, and ends the run when the supervisor is gone. It never starts a
//! process.
//!
//! Python is not process 1 itself, because the kernel does not deliver all signals to process 1 (`pid_namespaces(7)`).
//! For example, `os.abort()` would not abort Python. When process 1 ends, the kernel kills every process of the run,
//! even one that detached itself.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::chdir;

use super::linux::READY;

/// The hidden first argument that makes our binary process 1 of a run.
pub(super) const INIT_ARGUMENT: &str = "__init";

/// Reaps orphaned processes of the run until the supervisor is gone or kills this process.
pub(crate) fn reap_orphans() -> ExitCode {
    match reap_until_supervisor_ends() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn reap_until_supervisor_ends() -> io::Result<()> {
    // Standard input is a socket. The supervisor holds its other end, and the run ends when that end closes.
    let mut supervisor = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let ended = SigSet::from_iter([Signal::SIGCHLD]);
    ended.thread_block()?;
    let ended = SignalFd::with_flags(&ended, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    // Leave the current folder, because the supervisor later detaches the machine's file tree, which contains it.
    chdir("/")?;
    supervisor.write_all(&READY)?;
    loop {
        let mut watched = [
            PollFd::new(supervisor.as_fd(), PollFlags::POLLIN),
            PollFd::new(ended.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut watched, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [supervisor_is_gone, _] = watched.map(|fd| fd.any().unwrap_or(true));
        if supervisor_is_gone {
            return Ok(());
        }
        while let Ok(Some(_)) = ended.read_signal() {}
        // `EINVAL` continues the loop: a real-time signal, which nix cannot represent, killed the child. The child was
        // reaped anyway.
        while !matches!(
            waitpid(None, Some(WaitPidFlag::WNOHANG)),
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD)
        ) {}
    }
}
