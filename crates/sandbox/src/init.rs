//! Implements process 1 of a run's PID namespace. It reaps orphans, and ends the run when the supervisor dies. It
//! never starts a process.
//!
//! Python is not process 1 itself, because the kernel does not deliver all signals to process 1
//! (`pid_namespaces(7)`). For example, `os.abort()` would not abort Python. When process 1 ends, the kernel kills
//! every process of the run, even a process that detached itself.

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

/// Reaps orphaned processes of the run until the supervisor dies or kills this process.
pub(crate) fn reap_orphans() -> ExitCode {
    match reap_until_supervisor_ends() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn reap_until_supervisor_ends() -> io::Result<()> {
    // Standard input is one socket of a pair. The run ends when the supervisor's socket of the pair is closed.
    let mut supervisor = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let ended = SigSet::from_iter([Signal::SIGCHLD]);
    ended.thread_block()?;
    let ended = SignalFd::with_flags(&ended, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    // Change to the root folder: `pivot_root(2)` moves a process to the run's file tree only if its current folder is
    // the old root folder.
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
        // Continue on `EINVAL`: the child was reaped. nix returns this error if a real-time signal killed the child,
        // because nix cannot represent the signal.
        while !matches!(
            waitpid(None, Some(WaitPidFlag::WNOHANG)),
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD)
        ) {}
    }
}
