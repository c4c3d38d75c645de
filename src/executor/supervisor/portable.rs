//! Unix systems without child subreapers: the run is Python's process group.
//!
//! A script that leaves its process group outlives the run here. On Linux it does not.

use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Child;
use std::sync::mpsc;
use std::thread;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, setsid};

use super::super::protocol::Report;

enum Event {
    PythonEnded(io::Result<i32>),
    ServerClosed,
}

/// Makes this process the leader of a session of its own: no terminal's Ctrl-C ends it before the
/// server has decided.
pub(super) fn prepare() -> io::Result<()> {
    setsid()?;
    Ok(())
}

/// A file without a name that holds `content`, at its start.
pub(super) fn input_file(content: &[u8], scratch: &Path) -> io::Result<OwnedFd> {
    super::unlinked_file(content, scratch)
}

/// Waits until Python ends or the server wants the end; then kills what is left of the group.
pub(super) fn watch(mut python: Child, control: &UnixStream) -> io::Result<Report> {
    let group = Pid::from_raw(i32::try_from(python.id()).map_err(io::Error::other)?);
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
            Ok(Report::Killed)
        }
    }
}
