//! Linux: a child subreaper, so that nothing the script starts can leave its tree.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, setsid};

use super::super::limits::KILL_TIMEOUT;
use super::super::process_tree;
use super::super::protocol::Report;

/// The first of the real-time signals (`signal(7)`); it stands for all of them.
const REAL_TIME_SIGNAL: i32 = 34;

/// How long to wait for killed processes between two looks at who is left.
const KILL_ROUND: Duration = Duration::from_millis(5);

/// Makes this process the one that everything of the run belongs to.
pub(super) fn prepare() -> io::Result<()> {
    // A session of its own: no terminal's Ctrl-C ends it before the server has decided.
    setsid()?;
    prctl::set_child_subreaper(true)?;
    // Nothing of the run gains rights by executing a set-uid program, which we could not kill.
    prctl::set_no_new_privs()?;
    Ok(())
}

/// A file without a name that holds `content`, at its start.
pub(super) fn input_file(content: &[u8], _scratch: &Path) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(c"verification", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
}

/// Waits until Python ends or the server wants the end; then kills and reaps whatever is left.
#[expect(clippy::needless_pass_by_value, reason = "the portable one needs the child itself")]
pub(super) fn watch(python: Child, control: &UnixStream) -> io::Result<Report> {
    let python = Pid::from_raw(i32::try_from(python.id()).map_err(io::Error::other)?);
    // Python inherits the signal mask, so the signals are blocked after it was started. One that
    // came before is found by the first look at the children.
    let signals =
        SigSet::from_iter([Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    signals.thread_block()?;
    let signal_fd = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let mut tree = Tree { python, ended: None };
    // A failed wait is no reason to leave anything running.
    let waited = tree.wait(control, &signal_fd);
    tree.kill(&signal_fd)?;
    waited?;
    Ok(tree.ended.map_or(Report::Killed, Report::Exited))
}

/// Takes the signals that came in; whether one of them asks for the end.
fn asked_to_end(signal_fd: &SignalFd) -> bool {
    let mut ends = false;
    while let Ok(Some(signal)) = signal_fd.read_signal() {
        ends |= i32::try_from(signal.ssi_signo) != Ok(nix::libc::SIGCHLD);
    }
    ends
}

/// The number of a signal. The enum's values are these numbers.
fn number(signal: Signal) -> i32 {
    #[expect(clippy::as_conversions, reason = "the only way from an enum to its value")]
    {
        signal as i32
    }
}

/// The processes of the run.
struct Tree {
    python: Pid,
    /// Python's exit code, once it has ended; a signal is a negative number.
    ended: Option<i32>,
}

impl Tree {
    /// Waits until Python has ended, or until its end is asked for.
    fn wait(&mut self, control: &UnixStream, signal_fd: &SignalFd) -> io::Result<()> {
        self.reap();
        while self.ended.is_none() {
            let mut watched = [
                PollFd::new(control.as_fd(), PollFlags::POLLIN),
                PollFd::new(signal_fd.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut watched, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            // The server says nothing more than by closing its side.
            let [server_closed, _] = watched.map(|fd| fd.any().unwrap_or(true));
            let is_asked = asked_to_end(signal_fd);
            self.reap();
            if server_closed || is_asked {
                break;
            }
        }
        Ok(())
    }

    /// Takes every process that has ended. False if there is no process left.
    fn reap(&mut self) -> bool {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.python => self.ended = Some(code),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.python => {
                    self.ended = Some(-number(signal));
                }
                Ok(WaitStatus::StillAlive) => return true,
                // Killed by a real-time signal, which nix has no name for; reaped all the same.
                Err(Errno::EINVAL) => {
                    if self.ended.is_none() && kill(self.python, None) == Err(Errno::ESRCH) {
                        self.ended = Some(-REAL_TIME_SIGNAL);
                    }
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Kills the children until there are none: orphans become children, see `process_tree`.
    fn kill(&mut self, signal_fd: &SignalFd) -> io::Result<()> {
        let ended = self.ended;
        let deadline = Instant::now() + KILL_TIMEOUT;
        while self.reap() {
            if Instant::now() > deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            for child in process_tree::children() {
                // It may have ended by now; nothing else can go wrong with a process of ours.
                let _ = kill(child, Signal::SIGKILL);
            }
            let mut watched = [PollFd::new(signal_fd.as_fd(), PollFlags::POLLIN)];
            let round = PollTimeout::try_from(KILL_ROUND).unwrap_or(PollTimeout::ZERO);
            match poll(&mut watched, round) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let _ = asked_to_end(signal_fd);
        }
        // What the kill made of Python is not how it ended.
        self.ended = ended;
        Ok(())
    }
}
