//! Implements the supervisor's steps of a run on macOS. The run is one process, which the kernel kills if it exceeds
//! its memory limit. This module never sends a script to Python before Python is in the sandbox.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::unistd::Pid;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use serde_json::json;

use crate::error::OrFail as _;
use crate::macos::launcher::{LAUNCHER_ARGUMENT, Launch, READY};
use crate::macos::profile::Profile;
use crate::order::PYTHON_COMMAND;
use crate::report::Report;
use crate::{LaunchError, Limits, Order, SeatbeltOrder, passing};

/// The line that Python sends when it is in the sandbox.
const ENTERED: &[u8] = b"entered\n";

/// The timeout for each read and each write on the socket to the run's process, which is first the launcher, then
/// Python.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum length of a message of the launcher or of Python, in bytes.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// The interval between two checks of the scratch folder's size, which nothing else limits.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The unit in which the system counts the size of a file on disk, in bytes.
const BLOCK_BYTES: u64 = 512;

/// A started run, which is one process.
pub(super) struct Run {
    python: Started,
    limits: Limits,
    /// The scratch folder, which is checked regularly.
    scratch: PathBuf,
    /// The script's standard error. It receives a message if the scratch folder exceeds a limit.
    stderr: File,
}

enum Event {
    PythonEnded,
    AskedToEnd,
}

/// The maximum number of events of a run: the end of Python, a signal, and the end of the server's connection.
const EVENTS_MAX: usize = 3;

/// The reason why the wait for Python is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    PythonEnded,
    AskedToEnd,
    OutOfScratch,
    Unwatched,
}

/// Returns the signals that ask this process to end the run.
fn asking_signals() -> SigSet {
    SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP])
}

/// Starts Python. Returns after Python has entered the sandbox. A thread then sends the script to Python.
pub(super) fn start(
    order: &Order,
    input: &[u8],
    pictures: Option<OwnedFd>,
) -> Result<Run, LaunchError> {
    let seatbelt = order.seatbelt.as_ref().ok_or(LaunchError::UnsupportedSystem)?;
    let (entry, input) = input
        .split_at_checked(seatbelt.entry_bytes)
        .ok_or(io::Error::from(io::ErrorKind::UnexpectedEof))
        .or_fail(LaunchError::StoreScript)?;
    // A profile needs canonical paths, and the path of the folder for temporary files often contains a symlink.
    let scratch = fs::canonicalize(&order.scratch).or_fail(LaunchError::CreateScratch)?;
    // The error must not contain the path, because clients see the error.
    let profile = Profile::new(&order.plan, &scratch)
        .map_err(|_| LaunchError::EnterSeatbelt("a readable path is not UTF-8".to_owned()))?;
    let launch = launch(order, seatbelt, &scratch)?;
    let (socket, theirs) = UnixStream::pair().or_fail(LaunchError::StartLauncher)?;
    // Set timeouts, because a stopped process must not delay the end of the run.
    socket.set_read_timeout(Some(ANSWER_TIMEOUT)).or_fail(LaunchError::StartLauncher)?;
    socket.set_write_timeout(Some(ANSWER_TIMEOUT)).or_fail(LaunchError::StartLauncher)?;
    // Block the signals before the child exists, because a signal that ends this process would leave the child running.
    // Also block the signals before any thread exists. Every thread inherits the mask, so only the thread that waits
    // for signals receives them. The launcher inherits the mask and resets it.
    asking_signals().thread_block().or_fail(LaunchError::PrepareProcess)?;
    let program = std::env::current_exe().or_fail(LaunchError::StartLauncher)?;
    let child = Command::new(program)
        .arg(LAUNCHER_ARGUMENT)
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .spawn();
    let python = Started::new(child.or_fail(LaunchError::StartLauncher)?);

    let mut orders =
        serde_json::to_vec(&launch).map_err(io::Error::from).or_fail(LaunchError::StartLauncher)?;
    orders.push(b'\n');
    // Ignore a failure: the launcher has ended, and its error is read below.
    let _ = passing::send(&socket, pictures.as_ref().map(OwnedFd::as_fd))
        .and_then(|()| (&socket).write_all(&orders));
    drop(pictures);
    await_word(&socket, READY, LaunchError::LauncherEnded)?;
    let mut enter = instructions(order, seatbelt, &profile, &scratch);
    enter.splice(0..0, entry.iter().copied());
    let _ = (&socket).write_all(&enter);
    await_word(&socket, ENTERED, LaunchError::EndedBeforeSandbox)?;
    send(socket, input.to_owned());

    let stderr = io::stderr().as_fd().try_clone_to_owned().or_fail(LaunchError::PrepareProcess)?;
    Ok(Run { python, limits: order.plan.limits, scratch, stderr: File::from(stderr) })
}

/// Returns the launcher's orders. The launcher becomes Python, which loads only its standard library before it is in
/// the sandbox.
fn launch(order: &Order, seatbelt: &SeatbeltOrder, scratch: &Path) -> Result<Launch, LaunchError> {
    let plan = &order.plan;
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or(LaunchError::Execute(nix::errno::Errno::EILSEQ.into()))
    };
    let program = text(&plan.program)?;
    let folder = text(scratch)?;
    // Leave out `PYTHONPATH`. Its folders precede the standard library, so their modules could run before Python is
    // in the sandbox.
    let own = order.environment.iter().filter(|(name, _)| name != PYTHON_PATH).cloned();
    let mut environment: Vec<(String, String)> = own.collect();
    environment.extend(["HOME", "TMPDIR"].map(|name| (name.to_owned(), folder.clone())));
    let file = match &seatbelt.program_file {
        // Start the real interpreter instead of the wrapper, because the wrapper's exec of the interpreter would
        // reset the memory limit. Set the variable that the wrapper sets for the interpreter.
        Some(file) => {
            environment.push(("__PYVENV_LAUNCHER__".to_owned(), program));
            text(file)?
        }
        None => program,
    };
    let command = [&file, "-S", "-c", PYTHON_COMMAND].map(str::to_owned);
    Ok(Launch {
        taskpolicy: seatbelt.taskpolicy.clone(),
        command: command.into(),
        environment,
        scratch: scratch.to_owned(),
        limits: plan.limits,
        cpu_seconds: order.cpu_seconds,
    })
}

/// The environment variable that lists additional module folders.
const PYTHON_PATH: &str = "PYTHONPATH";

/// Returns a line of JSON for Python: the parameters of the sandbox, and the module search path that Python uses after
/// it has entered the sandbox.
fn instructions(
    order: &Order,
    seatbelt: &SeatbeltOrder,
    profile: &Profile,
    scratch: &Path,
) -> Vec<u8> {
    let python_path = order.environment.iter().find(|(name, _)| name == PYTHON_PATH);
    let line = json!({
        "library": seatbelt.library,
        "profile": profile,
        "scratch": scratch,
        "address_space_bytes": order.plan.limits.address_space_bytes,
        "python_path": python_path.map(|(_, value)| value),
        "is_isolated": order.plan.is_isolated,
    });
    let mut line = line.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// Reads a line and returns `Ok` if the line is `word`. If the line is an error that stopped the sender, returns this
/// error. For any other line, returns `ended`.
fn await_word(socket: &UnixStream, word: &[u8], ended: LaunchError) -> Result<(), LaunchError> {
    let mut line = Vec::new();
    while line.len() < ANSWER_BYTES_MAX && !line.ends_with(b"\n") {
        let mut byte = [0];
        // Read byte by byte, because the next call of this function reads the next line.
        match (&mut &*socket).read(&mut byte) {
            Ok(1..) => line.extend(byte),
            Ok(0) => break,
            // The process ended before it had read everything that was sent to it, so no line follows.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(LaunchError::StartLauncher(error.into())),
        }
    }
    if line == word {
        return Ok(());
    }
    Err(serde_json::from_slice(&line).unwrap_or(ended))
}

/// Sends Python its input in a thread, so that the run can be ended even if importing a package never ends.
fn send(socket: UnixStream, input: Vec<u8>) {
    thread::spawn(move || {
        // Ignore a failure: Python has ended, which another thread notices.
        let _ = socket.set_write_timeout(None).and_then(|()| (&socket).write_all(&input));
        let _ = socket.shutdown(std::net::Shutdown::Both);
    });
}

impl Run {
    /// Waits until Python ends, the scratch folder exceeds a limit, or the server asks for the end. Then kills Python.
    pub(super) fn watch(mut self, control: &UnixStream) -> Report {
        let waited = match self.events(control) {
            Ok(events) => self.wait(&events),
            // The run must end even if the wait cannot begin.
            Err(_) => Wait::Unwatched,
        };
        let was_there = waited != Wait::PythonEnded;
        let status = self.python.end();
        match waited {
            Wait::OutOfScratch => {
                let Limits { scratch_bytes, scratch_inodes, .. } = self.limits;
                let _ = writeln!(
                    self.stderr,
                    "The script was ended: its folder had more than {} MiB or {scratch_inodes} files.",
                    scratch_bytes >> 20
                );
                Report::KILLED
            }
            Wait::Unwatched => Report::KILLED,
            Wait::PythonEnded | Wait::AskedToEnd => match status.map(code) {
                // This supervisor itself sent SIGKILL, so the signal does not mean that the script exceeded its memory
                // limit.
                Some(KILLED) if was_there => Report::KILLED,
                Some(KILLED) if self.was_killed_for_memory() => Report::OutOfMemory,
                Some(code) => Report::Exited(code),
                None => Report::KILLED,
            },
        }
    }

    /// Kills the run, and waits until it has ended.
    pub(super) fn end(&mut self) {
        self.python.end();
    }

    /// Returns whether the kernel's memory limit probably ended the run. This is assumed if the run used at least
    /// half of its memory limit, because hardly anything else kills a run.
    fn was_killed_for_memory(&self) -> bool {
        // `RUSAGE_CHILDREN` covers all reaped children, but Python is the only child.
        let most = getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0, |usage| usage.max_rss());
        let most = u64::try_from(most).unwrap_or(0);
        // macOS reports bytes in `getrusage(2)`, other systems kibibytes.
        let bytes = if cfg!(target_os = "macos") { most } else { most.saturating_mul(1024) };
        bytes >= self.limits.memory_bytes / 2
    }

    /// Starts a thread for each event that ends the wait.
    fn events(&self, control: &UnixStream) -> io::Result<Receiver<Event>> {
        let (events, received) = mpsc::sync_channel(EVENTS_MAX);
        let of_signals = events.clone();
        thread::spawn(move || {
            if asking_signals().wait().is_ok() {
                let _ = of_signals.send(Event::AskedToEnd);
            }
        });
        let mut control = control.try_clone()?;
        let of_server = events.clone();
        thread::spawn(move || {
            // The server sends nothing more, so this read returns only at end-of-file: the server requests the end,
            // or died.
            let _ = control.read(&mut [0]);
            let _ = of_server.send(Event::AskedToEnd);
        });
        let python = self.python.rustix_pid();
        thread::spawn(move || await_end(python, &events));
        Ok(received)
    }

    fn wait(&self, events: &Receiver<Event>) -> Wait {
        let Limits { scratch_bytes, scratch_inodes, .. } = self.limits;
        loop {
            match events.recv_timeout(LOOK_INTERVAL) {
                Ok(Event::PythonEnded) => return Wait::PythonEnded,
                Ok(Event::AskedToEnd) => return Wait::AskedToEnd,
                Err(RecvTimeoutError::Disconnected) => return Wait::Unwatched,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if is_fuller(&self.scratch, scratch_bytes, scratch_inodes) {
                return Wait::OutOfScratch;
            }
        }
    }
}

/// Returns whether a folder contains more than `bytes_max` bytes, or more than `inodes_max` files and folders. Stops at
/// the first entry that exceeds a limit.
fn is_fuller(folder: &Path, bytes_max: u64, inodes_max: u64) -> bool {
    let (mut bytes, mut inodes) = (0_u64, 0_u64);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // Skip a folder that the script removed or made unreadable meanwhile, because it cannot be counted.
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            inodes += 1;
            let Ok(about) = fs::symlink_metadata(entry.path()) else { continue };
            bytes += about.blocks() * BLOCK_BYTES;
            if inodes > inodes_max || bytes > bytes_max {
                return true;
            }
            if about.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    false
}

/// Waits until a child has ended, without reaping it. Until the child is reaped, no other process gets the child's PID.
fn await_end(python: rustix::process::Pid, events: &SyncSender<Event>) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(python), options) {}
    let _ = events.send(Event::PythonEnded);
}

/// The exit code of a process that was killed by SIGKILL.
const KILLED: i32 = -9;

/// Returns the exit code of a process. A negative number is the signal that killed the process.
fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| -signal)).unwrap_or(KILLED)
}

/// A child that is killed and reaped on drop.
struct Started {
    child: Child,
    pid: Pid,
    ended: Option<ExitStatus>,
}

impl Started {
    fn new(child: Child) -> Self {
        // A PID is an `int` everywhere, so the conversion does not fail.
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
        Self { child, pid, ended: None }
    }

    fn rustix_pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Kills the process and waits for it. Returns its exit status. If the process had already ended, the kill does
    /// not change the status.
    fn end(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            let _ = kill(self.pid, Signal::SIGKILL);
            // Also kill the process group, which the process leads. This is a precaution, because the process cannot
            // create other processes.
            let _ = killpg(self.pid, Signal::SIGKILL);
            self.ended = self.child.wait().ok();
        }
        self.ended
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.end();
    }
}
