//! Unix systems that are not Linux. On macOS a run is one process in Seatbelt (`seatbelt`). Without a
//! sandbox, where the admin wants none, the run is Python's process group.
//!
//! A script without a sandbox that leaves its process group outlives the run here. On Linux it does not.

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

/// Nothing to do: there is no list of a process's descriptors that every system has.
pub(super) fn close_inherited() {}

/// Makes this process the leader of a session of its own: no terminal's Ctrl-C ends it before the
/// server has decided.
pub(super) fn prepare() -> io::Result<()> {
    setsid()?;
    Ok(())
}

/// Starts Python with the rights of the server's user, if the admin wants it so.
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
    // Open as long as Python is being started.
    let numbered = pictures.map(|pictures| passing::hand_down(&pictures)).transpose();
    let _numbered = numbered.or_fail(LaunchError::PrepareProcess)?;
    let input = unlinked_file(input, &order.scratch).or_fail(LaunchError::StoreScript)?;
    Ok(Run::Bare(start_bare(order, input.into())?))
}

/// Starts Python with the rights of the server's user, because the admin wants it so.
fn start_bare(order: &Order, input: Stdio) -> Result<Child, LaunchError> {
    Command::new(&order.plan.program)
        .args(["-c", PYTHON_COMMAND])
        .env_clear()
        .envs(order.environment.iter().map(|(name, value)| (name, value)))
        .env("TMPDIR", &order.scratch)
        .current_dir(&order.scratch)
        // A group of its own: what the script sends to "its group" does not reach the supervisor.
        .process_group(0)
        .stdin(input)
        .spawn()
        .or_fail(LaunchError::Execute)
}

/// A file without a name that holds `content`, at its start.
fn unlinked_file(content: &[u8], folder: &Path) -> io::Result<File> {
    let path = folder.join("input");
    let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}

/// The processes of the run.
pub(super) enum Run {
    /// One process, in the sandbox.
    Seatbelt(seatbelt::Run),
    /// A process group, with the rights of the server's user.
    Bare(Child),
}

impl Run {
    /// Waits until Python ends or the server wants the end; then kills what is left.
    pub(super) fn watch(self, control: &UnixStream) -> Report {
        let python = match self {
            Self::Seatbelt(run) => return run.watch(control),
            Self::Bare(python) => python,
        };
        // A process number is an int everywhere.
        let group = Pid::from_raw(i32::try_from(python.id()).unwrap_or(i32::MAX));
        wait(python, group, control).unwrap_or_else(|_| {
            // A failed wait is no reason to leave anything running.
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
        // The receiver is gone when the server has closed first.
        let _ = ended.send(Event::PythonEnded(status));
    });
    let mut control = control.try_clone()?;
    thread::spawn(move || {
        // The server says nothing more than by closing its side.
        let _ = control.read(&mut [0]);
        let _ = events.send(Event::ServerClosed);
    });

    let event = received.recv().map_err(io::Error::other)?;
    // The group may be empty by now.
    let _ = killpg(group, Signal::SIGKILL);
    match event {
        Event::PythonEnded(code) => Ok(Report::Exited(code?)),
        Event::ServerClosed => {
            // Only a report that comes after Python's end is true.
            let _ = received.recv();
            Ok(Report::KILLED)
        }
    }
}
