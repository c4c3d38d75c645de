//! Linux: a child subreaper, so that nothing the script starts can leave its tree, and at tier 3
//! the process numbers of the run's own.

mod copy_out;
pub(crate) mod file_tree;
mod launch;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, setsid};

use self::copy_out::CopyOut;
use self::launch::{Init, Launched, launch};
use crate::error::OrFail as _;
use crate::linux::identity::OwnProcess;
use crate::linux::{SignalScope, processor};
use crate::report::Report;
use crate::{
    ControlGroup, LaunchError, Look, MemoryWatch, Order, Plan, Role, Tier, WATCH_INTERVAL,
    process_tree,
};

/// The first of the real-time signals (`signal(7)`); it stands for all of them.
const REAL_TIME_SIGNAL: i32 = 34;

/// The wait for killed processes before they are killed again: at first, and at most.
const KILL_ROUND: Duration = Duration::from_millis(5);
const KILL_ROUND_MAX: Duration = Duration::from_millis(200);

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
pub(crate) fn prepare() -> io::Result<()> {
    // A session of its own: no terminal's Ctrl-C ends it before the server has decided.
    setsid()?;
    prctl::set_child_subreaper(true)?;
    // Nothing of the run gains rights by executing a set-uid program, which we could not kill.
    prctl::set_no_new_privs()?;
    Ok(())
}

/// Starts Python, with as many layers around it as the plan wants.
pub(crate) fn start(
    order: &Order,
    input: &[u8],
    pictures: Option<OwnedFd>,
) -> Result<Run, LaunchError> {
    // As much as the run at its start: sixty launches at once take the processors from the server too.
    processor::lower_own(&OwnProcess::open(Path::new("/proc"))?, order.neighbours.now);
    // Before the launch: it may leave no /proc.
    let memory = match order.plan.tier {
        Tier::Off => None,
        // That of another system.
        Tier::Seatbelt => return Err(LaunchError::UnsupportedSystem),
        // The server watches over each of its children.
        _ if order.role == Role::ForkServer => None,
        Tier::T1 | Tier::T2 | Tier::T3 => {
            let Plan { limits, .. } = &order.plan;
            let watch = MemoryWatch::new(limits.memory_bytes).or_fail(LaunchError::WatchMemory)?;
            // Elsewhere the kernel counts those of the run alone, or those of a project's user.
            let threads_max = order.plan.is_one_process().then_some(limits.processes);
            Some(watch.beside(order.neighbours).with_threads_max(threads_max))
        }
    };
    // Before the launch too: it leaves nothing of the machine's tree.
    let copy_out = CopyOut::prepare(order).or_fail(LaunchError::CreateScratch)?;
    let Launched { python, init, scope, group } = launch(order, input, pictures)?;
    Ok(Run { python, init, scope, group, ended: None, memory, copy_out })
}

/// Takes the signals that came in; whether one of them asks for the end.
fn asked_to_end(signal_fd: &SignalFd) -> bool {
    let mut ends = false;
    while let Ok(Some(signal)) = signal_fd.read_signal() {
        ends |= i32::try_from(signal.ssi_signo) != Ok(nix::libc::SIGCHLD);
    }
    ends
}

/// Returns the number of a signal. The enum's values are these numbers.
fn number(signal: Signal) -> i32 {
    #[expect(clippy::as_conversions, reason = "the only way from an enum to its value")]
    {
        signal as i32
    }
}

/// The processes of the run.
pub(crate) struct Run {
    python: Pid,
    /// Process 1 of the run's own process numbers, if it has them.
    init: Option<Init>,
    /// The signal scope that ends the run where there is no process 1.
    scope: Option<SignalScope>,
    group: Option<ControlGroup>,
    /// Python's exit code, once it has ended; a signal is a negative number.
    ended: Option<i32>,
    memory: Option<MemoryWatch>,
    /// The artifacts, copied at the end.
    copy_out: Option<CopyOut>,
}

/// The reason why the wait for Python is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    PythonEnded,
    AskedToEnd,
    OutOfMemory,
    TooManyPipes,
}

impl Run {
    /// Waits until Python ends or the server wants the end; then kills and reaps whatever is left.
    pub(crate) fn watch(mut self, control: &UnixStream) -> Report {
        let signals = block_signals();
        let waited = match &signals {
            Ok(signals) => self.wait(control, signals),
            Err(error) => Err(io::Error::from(error.kind())),
        };
        // What the kill makes of Python is not how it ended.
        let ended = self.ended;
        // A failed wait is no reason to leave anything running.
        self.end_all(signals.ok().as_ref());
        if let Some(copy_out) = &self.copy_out {
            copy_out.copy();
        }
        let is_killed_by_group = ended == Some(-number(Signal::SIGKILL))
            && self.group.as_ref().is_some_and(ControlGroup::was_out_of_memory);
        let time = self.memory.as_ref().map(MemoryWatch::processor_time).unwrap_or_default();
        let (is_starved, has_slept) = (time.is_starved(), time.has_slept());
        match (waited, ended) {
            (Ok(Wait::OutOfMemory), _) => Report::OutOfMemory,
            (Ok(Wait::TooManyPipes), _) => Report::TooManyPipes,
            (Ok(Wait::PythonEnded), _) if is_killed_by_group => Report::OutOfMemory,
            (Ok(Wait::PythonEnded | Wait::AskedToEnd), Some(code)) => Report::Exited(code),
            (Ok(Wait::PythonEnded | Wait::AskedToEnd) | Err(_), _) => {
                Report::Killed { is_starved, has_slept }
            }
        }
    }

    /// Kills the run, and returns when every process of it is dead and reaped, however long that
    /// takes: an end is never reported early.
    pub(crate) fn end(&mut self) {
        self.end_all(None);
    }

    /// Does the same; `signals` wake it up when a child has ended.
    fn end_all(&mut self, signals: Option<&SignalFd>) {
        let mut round = KILL_ROUND;
        while self.reap() {
            self.kill();
            // A killed process is reaped when it has given its memory back.
            match signals {
                Some(signals) => {
                    let mut watched = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
                    let _ = poll(&mut watched, poll_timeout(Some(round)));
                    let _ = asked_to_end(signals);
                }
                None => std::thread::sleep(round),
            }
            round = (round * 2).min(KILL_ROUND_MAX);
        }
    }

    /// Kills the run without waiting for anything.
    fn kill(&self) {
        if let Some(group) = &self.group {
            // What has left the group, or is too slow to be killed by it, is killed below.
            let _ = group.kill();
        }
        match (&self.init, &self.scope) {
            (Some(init), _) => {
                // It takes everything with it that has a number in its namespace. It may have ended
                // by now; nothing else can go wrong with a process of ours.
                let _ = kill(init.pid, Signal::SIGKILL);
                // A number that was reaped may be another process's by now.
                if self.ended.is_none() {
                    let _ = kill(self.python, Signal::SIGKILL);
                }
            }
            (None, Some(scope)) => scope.kill_all(),
            (None, None) => process_tree::kill_below(Pid::this(), |_| true),
        }
    }

    /// Waits until Python has ended, or until its end is asked for.
    fn wait(&mut self, control: &UnixStream, signal_fd: &SignalFd) -> io::Result<Wait> {
        self.reap();
        let mut next_look = self.memory.as_ref().map(|_| WATCH_INTERVAL);
        while self.ended.is_none() {
            let mut watched = [
                PollFd::new(control.as_fd(), PollFlags::POLLIN),
                PollFd::new(signal_fd.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut watched, poll_timeout(next_look)) {
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
            match self.memory.as_mut().map(|memory| memory.look(self.python, init)) {
                Some(Look::Exceeded) => return Ok(Wait::OutOfMemory),
                Some(Look::TooManyPipes) => return Ok(Wait::TooManyPipes),
                Some(Look::Within { next }) => next_look = Some(next),
                None => {}
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
}

/// Receives the signals that end a run or announce a child's end by a descriptor from now on. Python inherits
/// the signal mask, so this comes after its start; a signal that came before is found by the first
/// look at the children.
fn block_signals() -> io::Result<SignalFd> {
    let signals =
        SigSet::from_iter([Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    signals.thread_block()?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    Ok(SignalFd::with_flags(&signals, flags)?)
}

fn poll_timeout(limit: Option<Duration>) -> PollTimeout {
    limit.map_or(PollTimeout::NONE, |limit| {
        PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO)
    })
}
