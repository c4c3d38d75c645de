//! Linux: a child subreaper, so that nothing the script starts can leave its tree, and at tier 3
//! the process numbers of the run's own.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, setsid};

use crate::sandbox::{Init, LaunchError, Launched, Order, Role, Tier, launch, pid};

use super::super::limits::KILL_TIMEOUT;
use super::super::memory::{MemoryWatch, WATCH_INTERVAL};
use super::super::process_tree;
use super::super::protocol::Report;
use super::left::Left;
use super::start_bare;

/// The first of the real-time signals (`signal(7)`); it stands for all of them.
const REAL_TIME_SIGNAL: i32 = 34;

/// How long to wait for killed processes between two looks at who is left.
const KILL_ROUND: Duration = Duration::from_millis(5);

/// Closes what the server's own parent left open for everybody. To be called before anything is
/// opened: who owns these descriptors is not in this process.
pub(super) fn close_inherited() {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<i32> =
        open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // The descriptor of the listing itself is closed already.
        let _ = nix::unistd::close(number);
    }
}

/// Makes this process the one that everything of the run belongs to.
pub(super) fn prepare() -> io::Result<()> {
    // A session of its own: no terminal's Ctrl-C ends it before the server has decided.
    setsid()?;
    prctl::set_child_subreaper(true)?;
    // Nothing of the run gains rights by executing a set-uid program, which we could not kill.
    prctl::set_no_new_privs()?;
    Ok(())
}

/// Starts Python, with as many layers around it as the plan wants.
pub(super) fn start(order: &Order, input: &[u8]) -> Result<Run, LaunchError> {
    // Before the launch: it may leave no /proc.
    let memory = match order.plan.tier {
        Tier::Off => None,
        // The server watches over each of its children.
        _ if order.role == Role::ForkServer => None,
        Tier::T1 | Tier::T2 | Tier::T3 => {
            let watch = MemoryWatch::new(order.plan.limits.memory_bytes);
            Some(watch.map_err(|error| LaunchError::WatchMemory(error.into()))?)
        }
    };
    // Before the launch too: it leaves nothing of the machine's tree.
    let left = Left::prepare(order).map_err(|error| LaunchError::CreateScratch(error.into()))?;
    let Launched { python, init } = match order.plan.tier {
        Tier::Off => {
            let input = crate::sandbox::input_file(input)?;
            Launched { python: pid(&start_bare(order, input.into())?), init: None }
        }
        Tier::T1 | Tier::T2 | Tier::T3 => launch(order, input)?,
    };
    Ok(Run { python, init, ended: None, memory, left })
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
pub(super) struct Run {
    python: Pid,
    /// Process 1 of the run's own process numbers, if it has them.
    init: Option<Init>,
    /// Python's exit code, once it has ended; a signal is a negative number.
    ended: Option<i32>,
    memory: Option<MemoryWatch>,
    /// What is to be copied at the end.
    left: Option<Left>,
}

/// Why waiting for Python is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    PythonEnded,
    AskedToEnd,
    OutOfMemory,
}

impl Run {
    /// Waits until Python ends or the server wants the end; then kills and reaps whatever is left.
    pub(super) fn watch(mut self, control: &UnixStream) -> io::Result<Report> {
        // Python inherits the signal mask, so the signals are blocked after it was started. One
        // that came before is found by the first look at the children.
        let signals =
            SigSet::from_iter([Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
        signals.thread_block()?;
        let signal_fd =
            SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        // A failed wait is no reason to leave anything running.
        let waited = self.wait(control, &signal_fd);
        self.kill_all(&signal_fd)?;
        if let Some(left) = &self.left {
            left.copy();
        }
        Ok(match (waited?, self.ended) {
            (Wait::OutOfMemory, _) => Report::OutOfMemory,
            (Wait::PythonEnded | Wait::AskedToEnd, Some(code)) => Report::Exited(code),
            (Wait::PythonEnded | Wait::AskedToEnd, None) => Report::Killed,
        })
    }

    /// Kills the run without waiting for anything.
    fn kill(&self) {
        let children = match &self.init {
            // It takes everything with it that has a number in its namespace.
            // A number that was reaped may be another process's by now.
            Some(init) if self.ended.is_some() => vec![init.pid],
            Some(init) => vec![init.pid, self.python],
            None => process_tree::children(),
        };
        for child in children {
            // It may have ended by now; nothing else can go wrong with a process of ours.
            let _ = kill(child, Signal::SIGKILL);
        }
    }

    /// Kills the run, and waits until every process of it is dead.
    pub(super) fn end(&mut self) {
        let deadline = Instant::now() + KILL_TIMEOUT;
        while self.reap() && Instant::now() < deadline {
            self.kill();
            std::thread::sleep(KILL_ROUND);
        }
    }

    /// Waits until Python has ended, or until its end is asked for.
    fn wait(&mut self, control: &UnixStream, signal_fd: &SignalFd) -> io::Result<Wait> {
        self.reap();
        while self.ended.is_none() {
            let mut watched = [
                PollFd::new(control.as_fd(), PollFlags::POLLIN),
                PollFd::new(signal_fd.as_fd(), PollFlags::POLLIN),
            ];
            let interval = self.memory.as_ref().map(|_| WATCH_INTERVAL);
            match poll(&mut watched, poll_timeout(interval)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            // The server says nothing more than by closing its side.
            let [server_closed, _] = watched.map(|fd| fd.any().unwrap_or(true));
            let is_asked = asked_to_end(signal_fd);
            self.reap();
            if server_closed || is_asked {
                return Ok(Wait::AskedToEnd);
            }
            let init = self.init.as_ref().map(|init| init.pid);
            if self.memory.as_ref().is_some_and(|memory| memory.is_exceeded(self.python, init)) {
                return Ok(Wait::OutOfMemory);
            }
        }
        Ok(Wait::PythonEnded)
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
    fn kill_all(&mut self, signal_fd: &SignalFd) -> io::Result<()> {
        let ended = self.ended;
        let deadline = Instant::now() + KILL_TIMEOUT;
        while self.reap() {
            if Instant::now() > deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.kill();
            let mut watched = [PollFd::new(signal_fd.as_fd(), PollFlags::POLLIN)];
            match poll(&mut watched, poll_timeout(Some(KILL_ROUND))) {
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

fn poll_timeout(limit: Option<Duration>) -> PollTimeout {
    limit.map_or(PollTimeout::NONE, |limit| {
        PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO)
    })
}
