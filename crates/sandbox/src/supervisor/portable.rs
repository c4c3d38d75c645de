//! Implements the supervisor on Unix systems other than Linux. On macOS a run is one process in Seatbelt
//! (`seatbelt`). If the admin has turned the sandbox off, the run is Python's process group.
//!
//! A process of an unconfined script outlives the run if it leaves the process group. On Linux the supervisor kills
//! such a process too.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, setsid};

use super::seatbelt;
use crate::error::OrFail as _;
use crate::order::PYTHON_COMMAND;
use crate::report::Report;
use crate::{LaunchError, Order, Tier, passing};

enum Event {
    PythonEnded(io::Result<i32>),
    ServerClosed,
}

/// Does nothing, because not every system lists the open descriptors of a process.
pub(super) fn close_inherited() {}

/// Starts a new session, so that Ctrl-C in a terminal does not end this process. Only the server decides when the run
/// ends.
pub(super) fn prepare() -> io::Result<()> {
    setsid()?;
    Ok(())
}

/// Starts Python in Seatbelt, or with the rights of the server's user if the admin has turned the sandbox off.
pub(super) fn start(
    order: &Order,
    input: &[u8],
    pictures: Option<OwnedFd>,
) -> Result<Run, LaunchError> {
    if order.plan.tier == Tier::Seatbelt {
        return seatbelt::start(order, input, pictures).map(Run::Seatbelt);
    }
    if order.plan.tier > Tier::Off {
        return Err(LaunchError::UnsupportedSystem);
    }
    // Give the side channel its fixed number (`SIDE_CHANNEL_FD`). Keep this descriptor open until Python, which inherits
    // it, is started.
    let numbered = pictures.map(|pictures| passing::hand_down(&pictures)).transpose();
    let _numbered = numbered.or_fail(LaunchError::PrepareProcess)?;
    let input = unlinked_file(input, &order.scratch).or_fail(LaunchError::StoreScript)?;
    Ok(Run::Bare(start_bare(order, input.into())?))
}

/// Starts Python with the rights of the server's user. Used only if the admin has turned the sandbox off.
fn start_bare(order: &Order, input: Stdio) -> Result<Child, LaunchError> {
    Command::new(&order.plan.program)
        .args(["-c", PYTHON_COMMAND])
        .env_clear()
        .envs(order.environment.iter().map(|(name, value)| (name, value)))
        .env("TMPDIR", &order.scratch)
        .current_dir(&order.scratch)
        // Start a new process group, so that the script's signals to its own group do not reach the supervisor.
        .process_group(0)
        .stdin(input)
        .spawn()
        .or_fail(LaunchError::Execute)
}

/// Creates an unnamed file with `content`. The first read from the returned file starts at the beginning.
fn unlinked_file(content: &[u8], folder: &Path) -> io::Result<File> {
    let path = folder.join("input");
    let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}

/// A started run.
pub(super) enum Run {
    /// One process in Seatbelt.
    Seatbelt(seatbelt::Run),
    /// A process group with the rights of the server's user.
    Bare(Child),
}

impl Run {
    /// Waits until Python ends or the server asks for the end. Then kills the remaining processes.
    pub(super) fn watch(self, control: &UnixStream) -> Report {
        let python = match self {
            Self::Seatbelt(run) => return run.watch(control),
            Self::Bare(python) => python,
        };
        // A PID is an `int` everywhere, so the conversion does not fail.
        let group = Pid::from_raw(i32::try_from(python.id()).unwrap_or(i32::MAX));
        wait(python, group, control).unwrap_or_else(|_| {
            // The run must end even if the wait failed.
            let _ = killpg(group, Signal::SIGKILL);
            Report::KILLED
        })
    }

    /// Kills the run.
    pub(super) fn end(&mut self) {
        match self {
            Self::Seatbelt(run) => run.end(),
            Self::Bare(python) => {
                let _ = python.kill();
            }
        }
    }
}

fn wait(mut python: Child, group: Pid, control: &UnixStream) -> io::Result<Report> {
    let (events, received) = mpsc::sync_channel(2);

    let ended = events.clone();
    thread::spawn(move || {
        let status = python.wait().map(|status| {
            status.code().or_else(|| status.signal().map(|signal| -signal)).unwrap_or(-1)
        });
        // Ignore a failure: the wait has failed, so no receiver exists.
        let _ = ended.send(Event::PythonEnded(status));
    });
    let mut control = control.try_clone()?;
    thread::spawn(move || {
        // The server sends nothing more, so this read returns only at end-of-file: the server requests the end, or
        // died.
        let _ = control.read(&mut [0]);
        let _ = events.send(Event::ServerClosed);
    });

    let event = received.recv().map_err(io::Error::other)?;
    // Ignore a failure: the group may be empty already.
    let _ = killpg(group, Signal::SIGKILL);
    match event {
        Event::PythonEnded(code) => Ok(Report::Exited(code?)),
        Event::ServerClosed => {
            // Wait until Python has ended, because the report must not come before the end of Python.
            let _ = received.recv();
            Ok(Report::KILLED)
        }
    }
}
