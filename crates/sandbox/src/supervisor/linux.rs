//! Implements the supervisor on Linux. The supervisor is a child subreaper, so that no process of the script can
//! leave the supervisor's process tree. At tier 3 the run also has a PID namespace. This module never reads the
//! script.

mod copy_out;
pub(crate) mod file_tree;
mod launch;

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, Uid, setsid};

use self::copy_out::CopyOut;
use self::launch::{Init, Launched, launch};
use crate::error::OrFail as _;
use crate::linux::identity::OwnProcess;
use crate::linux::{SignalScope, processor};
use crate::report::{Report, SETTLED};
use crate::{
    ControlGroup, LaunchError, Look, MemoryWatch, Order, Plan, Role, Tier, WATCH_INTERVAL,
    process_tree,
};

/// The first real-time signal (`signal(7)`). This number stands for every real-time signal, because nix cannot
/// represent real-time signals.
const REAL_TIME_SIGNAL: i32 = 34;

/// The first pause before the remaining processes are killed again. Each further pause is twice as long.
const KILL_ROUND: Duration = Duration::from_millis(5);
/// The maximum pause before the remaining processes are killed again.
const KILL_ROUND_MAX: Duration = Duration::from_millis(200);

/// Closes descriptors that were inherited from the server's parent. Call this before this process opens a descriptor,
/// because that descriptor would be closed too.
pub(super) fn close_inherited() {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<i32> =
        open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // Ignore a failure: these numbers include the descriptor of the listing, which is closed already.
        let _ = nix::unistd::close(number);
    }
}

/// Makes this process the ancestor of every process of the run.
pub(crate) fn prepare() -> io::Result<()> {
    // Start a new session, so that Ctrl-C in a terminal does not end this process. Only the server decides when the
    // run ends.
    setsid()?;
    prctl::set_child_subreaper(true)?;
    // Forbid set-user-ID programs to every process of the run, because this process could not kill a process with the
    // rights of another user.
    prctl::set_no_new_privs()?;
    Ok(())
}

/// Starts Python with the layers of the order's plan.
pub(crate) fn start(
    order: &Order,
    input: &[u8],
    pictures: Option<OwnedFd>,
) -> Result<Run, LaunchError> {
    // Lower the CPU weight (`nice(2)`) of this process to a run's weight, because many launches at once would take the
    // processors from the server. Do this only as root: an ordinary user may set the weights of only ten sessions per
    // second, and needs these changes for the runs themselves.
    if Uid::effective().is_root() {
        processor::lower_own(&OwnProcess::open(Path::new("/proc"))?, order.neighbours.now);
    }
    // Create the watch before the launch, because the watch opens `/proc`, which may not exist after the launch.
    let memory = match order.plan.tier {
        Tier::Off => None,
        // Seatbelt exists only on macOS.
        Tier::Seatbelt => return Err(LaunchError::UnsupportedSystem),
        // The server watches each child of the fork server itself.
        _ if order.role == Role::ForkServer => None,
        Tier::T1 | Tier::T2 | Tier::T3 => {
            let Plan { limits, .. } = &order.plan;
            let watch = MemoryWatch::new(limits.memory_bytes).or_fail(LaunchError::WatchMemory)?;
            // The watch limits threads only in a run of one process. In other runs the kernel limits them
            // (`RLIMIT_NPROC`).
            let threads_max = order.plan.is_one_process().then_some(limits.processes);
            Some(watch.beside(order.neighbours).with_threads_max(threads_max))
        }
    };
    // Open the artifact folder before the launch, because the machine's file tree is unreachable after the launch.
    let copy_out = CopyOut::prepare(order).or_fail(LaunchError::CreateScratch)?;
    let began = Instant::now();
    let Launched { python, init, scope, group } = launch(order, input, pictures)?;
    let memory = memory.map(|watch| watch.since(began, python).with_own_waits());
    Ok(Run { python, init, scope, group, ended: None, memory, copy_out })
}

/// Reads pending signals. Returns whether one of them asks this process to end the run.
fn asked_to_end(signal_fd: &SignalFd) -> bool {
    let mut ends = false;
    while let Ok(Some(signal)) = signal_fd.read_signal() {
        ends |= i32::try_from(signal.ssi_signo) != Ok(nix::libc::SIGCHLD);
    }
    ends
}

fn number(signal: Signal) -> i32 {
    #[expect(clippy::as_conversions, reason = "the only way from an enum to its value")]
    {
        signal as i32
    }
}

/// A started run.
pub(crate) struct Run {
    python: Pid,
    /// Process 1 of the run's PID namespace. `None` if the run has no PID namespace.
    init: Option<Init>,
    /// The Landlock signal scope of this process, which limits `kill(-1)` to the processes of the run. `None` if the
    /// run has a process 1, because killing process 1 kills the run. Also `None` if the kernel has no signal scopes.
    scope: Option<SignalScope>,
    group: Option<ControlGroup>,
    /// Python's exit code. A negative number is the signal that killed Python. `None` before Python has ended.
    ended: Option<i32>,
    memory: Option<MemoryWatch>,
    /// Copies the artifacts at the end of the run. `None` if nothing must be copied.
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
    /// Waits until Python ends, a limit is exceeded, or the server asks for the end. Then kills and reaps all remaining
    /// processes.
    pub(crate) fn watch(mut self, control: &UnixStream) -> Report {
        let signals = block_signals();
        let waited = match &signals {
            Ok(signals) => self.wait(control, signals),
            Err(error) => Err(io::Error::from(error.kind())),
        };
        // Read Python's exit code before the kill below, which would change it.
        let ended = self.ended;
        if let (Some(memory), Ok(Wait::AskedToEnd)) = (&mut self.memory, &waited) {
            memory.complete_account(self.python, self.init.as_ref().map(|init| init.pid));
        }
        // The run must end even if the wait failed.
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

    /// Kills the run. Returns when every process of the run is dead and reaped, however long that takes, because the
    /// end of a run is never reported early.
    pub(crate) fn end(&mut self) {
        self.end_all(None);
    }

    /// Kills the run as [`Self::end`] does. If `signals` is given, the end of a child (SIGCHLD) cuts the pause between
    /// two kills short.
    fn end_all(&mut self, signals: Option<&SignalFd>) {
        let mut round = KILL_ROUND;
        while self.reap() {
            self.kill();
            // Wait before the next round, because a killed process can be reaped only after it has released its memory.
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

    /// Kills the run without waiting.
    fn kill(&self) {
        if let Some(group) = &self.group {
            // Ignore a failure: the signals below kill processes that left the group or that the group does not kill in
            // time.
            let _ = group.kill();
        }
        match (&self.init, &self.scope) {
            (Some(init), _) => {
                // When process 1 dies, the kernel kills every process of the PID namespace. Ignore a failure: process
                // 1 may have ended already, and killing a child cannot fail for another reason.
                let _ = kill(init.pid, Signal::SIGKILL);
                // Do not signal Python after it was reaped, because another process may have its PID by then.
                if self.ended.is_none() {
                    let _ = kill(self.python, Signal::SIGKILL);
                }
            }
            (None, Some(scope)) => scope.kill_all(),
            (None, None) => process_tree::kill_below(Pid::this(), |_| true),
        }
    }

    /// Waits until Python has ended, a limit is exceeded, or the end of the run is requested.
    fn wait(&mut self, control: &UnixStream, signal_fd: &SignalFd) -> io::Result<Wait> {
        self.reap();
        let mut is_settled = false;
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
            // The server sends nothing more, so the socket becomes readable only at end-of-file: the server requests
            // the end, or died.
            let [server_closed, _] = watched.map(|fd| fd.any().unwrap_or(true));
            let is_asked = asked_to_end(signal_fd);
            self.reap();
            if server_closed || is_asked {
                return Ok(Wait::AskedToEnd);
            }
            let init = self.init.as_ref().map(|init| init.pid);
            match self.memory.as_mut().map(|memory| memory.sample(self.python, init)) {
                Some(Look::Exceeded) => return Ok(Wait::OutOfMemory),
                Some(Look::TooManyPipes) => return Ok(Wait::TooManyPipes),
                Some(Look::Within { next }) => next_look = Some(next),
                None => {}
            }
            if !is_settled && self.memory.as_ref().is_some_and(MemoryWatch::is_settled) {
                is_settled = true;
                // Ignore a failed write: the server died, which the next round detects.
                let _ = (&mut &*control).write_all(&[SETTLED]);
            }
        }
        Ok(Wait::PythonEnded)
    }

    /// Reaps every process that has ended. Returns false if no child is left.
    fn reap(&mut self) -> bool {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.python => self.ended = Some(code),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.python => {
                    self.ended = Some(-number(signal));
                }
                Ok(WaitStatus::StillAlive) => return true,
                // A child was killed by a real-time signal, which nix cannot represent. It was reaped anyway. If
                // Python no longer exists, the child was Python.
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

/// Blocks the signals that end a run or announce a child's end, and returns a descriptor that receives them. Call this
/// after Python was started, because Python would inherit the blocked signals. If a child ended before this call, the
/// first [`Run::reap`] notices it.
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
