//! macOS: one process, which the kernel ends above its memory limit, and which is killed as one.

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

/// The line by which Python says that it is in the sandbox.
const ENTERED: &[u8] = b"entered\n";

/// The longest time that the launcher, and then Python, may take for its next word.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest word of a launcher or of Python.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// The interval between two looks at the scratch folder, which nothing else bounds. Memory is the kernel's.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The bytes that a file takes on a disk are counted in these.
const BLOCK_BYTES: u64 = 512;

/// The process of a run.
pub(super) struct Run {
    python: Started,
    limits: Limits,
    /// The folder that is watched.
    scratch: PathBuf,
    /// The script's standard error, which hears why a run was ended that had too many files.
    stderr: File,
}

enum Event {
    PythonEnded,
    AskedToEnd,
}

/// The most events of a run: its end, and the end asked for in two ways.
const EVENTS_MAX: usize = 3;

/// The reason why the wait for Python is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    PythonEnded,
    AskedToEnd,
    OutOfScratch,
    Unwatched,
}

/// The signals that ask for the end of a run.
fn asking_signals() -> SigSet {
    SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP])
}

/// Starts Python, and returns when it is in the sandbox; then it is sent the script.
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
    // Profiles are of real paths, and the folder for temporary files is often behind a link.
    let scratch = fs::canonicalize(&order.scratch).or_fail(LaunchError::CreateScratch)?;
    // Clients see the reason, and are told no path.
    let profile = Profile::new(&order.plan, &scratch)
        .map_err(|_| LaunchError::EnterSeatbelt("a readable path is not UTF-8".to_owned()))?;
    let launch = launch(order, seatbelt, &scratch)?;
    let (socket, theirs) = UnixStream::pair().or_fail(LaunchError::StartLauncher)?;
    // A process that was stopped must not hold up the end of the run.
    socket.set_read_timeout(Some(ANSWER_TIMEOUT)).or_fail(LaunchError::StartLauncher)?;
    socket.set_write_timeout(Some(ANSWER_TIMEOUT)).or_fail(LaunchError::StartLauncher)?;
    // Before there is a process that they would leave alone, and a thread that they would reach. The launcher
    // inherits that, and undoes it.
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
    // If this fails the launcher has ended, and says below why.
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

/// Returns what the launcher is to become: Python, that loads nothing but its standard library before it
/// is in the sandbox.
fn launch(order: &Order, seatbelt: &SeatbeltOrder, scratch: &Path) -> Result<Launch, LaunchError> {
    let plan = &order.plan;
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or(LaunchError::Execute(nix::errno::Errno::EILSEQ.into()))
    };
    let program = text(&plan.program)?;
    let folder = text(scratch)?;
    // Folders that it names come before the standard library, also when the interpreter starts.
    let own = order.environment.iter().filter(|(name, _)| name != PYTHON_PATH).cloned();
    let mut environment: Vec<(String, String)> = own.collect();
    environment.extend(["HOME", "TMPDIR"].map(|name| (name.to_owned(), folder.clone())));
    let file = match &seatbelt.program_file {
        // The program that was called would execute this one, and lose its memory limit; so it is told here
        // what that one would tell it.
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

/// The variable that names folders of modules.
const PYTHON_PATH: &str = "PYTHONPATH";

/// Returns the line that tells Python how to enter the sandbox, and what to load then.
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

/// Reads a line that has to be this one; else it is the error that kept the sender from going on.
fn await_word(socket: &UnixStream, word: &[u8], ended: LaunchError) -> Result<(), LaunchError> {
    let mut line = Vec::new();
    while line.len() < ANSWER_BYTES_MAX && !line.ends_with(b"\n") {
        let mut byte = [0];
        // What comes behind the line is not this reader's.
        match (&mut &*socket).read(&mut byte) {
            Ok(1..) => line.extend(byte),
            Ok(0) => break,
            // It has ended, and had not read what it was sent.
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

/// Sends Python what it reads, beside everything else: a package that does not come to its end when it is
/// imported must not keep the run from being ended.
fn send(socket: UnixStream, input: Vec<u8>) {
    thread::spawn(move || {
        // Where this fails Python has ended, which is found elsewhere.
        let _ = socket.set_write_timeout(None).and_then(|()| (&socket).write_all(&input));
        let _ = socket.shutdown(std::net::Shutdown::Both);
    });
}

impl Run {
    /// Waits until Python ends, has more than it may, or the server wants the end; then kills it.
    pub(super) fn watch(mut self, control: &UnixStream) -> Report {
        let waited = match self.events(control) {
            Ok(events) => self.wait(&events),
            // A wait that cannot begin is no reason to leave anything running.
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
                // What the kill makes of Python is not how it ended.
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

    /// Returns whether the kernel's limit is likely to have ended the run: nothing else here kills it,
    /// and it had much of what it may have.
    fn was_killed_for_memory(&self) -> bool {
        // Of those children that were reaped, of which there is one.
        let most = getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0, |usage| usage.max_rss());
        let most = u64::try_from(most).unwrap_or(0);
        // `getrusage(2)` of macOS counts bytes, others kibibytes.
        let bytes = if cfg!(target_os = "macos") { most } else { most.saturating_mul(1024) };
        bytes >= self.limits.memory_bytes / 2
    }

    /// Has threads wait for everything that ends the wait.
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
            // The server says nothing more than by closing its side.
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

/// Returns whether a folder has more bytes or more files and folders in it than these. It looks at no more
/// than one above that number.
fn is_fuller(folder: &Path, bytes_max: u64, inodes_max: u64) -> bool {
    let (mut bytes, mut inodes) = (0_u64, 0_u64);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // What is removed meanwhile, or made unreadable, is not there to be counted.
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

/// Waits until a child has ended, and leaves it to be reaped: until then its number is no other process's.
fn await_end(python: rustix::process::Pid, events: &SyncSender<Event>) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(python), options) {}
    let _ = events.send(Event::PythonEnded);
}

/// The exit code of what was killed: SIGKILL.
const KILLED: i32 = -9;

/// Returns the exit code of a process; a signal is a negative number.
fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| -signal)).unwrap_or(KILLED)
}

/// A child that is killed and reaped when this goes.
struct Started {
    child: Child,
    pid: Pid,
    ended: Option<ExitStatus>,
}

impl Started {
    fn new(child: Child) -> Self {
        // A process number is an int everywhere.
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
        Self { child, pid, ended: None }
    }

    fn rustix_pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Kills the process and returns when it has ended, with how; what it was before the kill, if it had
    /// ended by itself.
    fn end(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            let _ = kill(self.pid, Signal::SIGKILL);
            // It is the first of its session, and can have made no other process; where it could, this
            // is for those.
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
