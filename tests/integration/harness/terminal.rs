//! Drives a command on a terminal, as a person does.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::pty::{Winsize, openpty};

use super::eventually;

/// The maximum time until a text appears.
const PATIENCE: Duration = Duration::from_secs(30);

/// A command that runs on its own terminal.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Starts the command with all standard streams on a new controlling terminal, so that Ctrl-C sends SIGINT.
    pub(crate) fn start(command: &Command) -> Self {
        let size = Winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(&size, None).unwrap();
        let end = || OwnedFd::try_clone(&pair.slave).unwrap();
        let mut on_terminal = Command::new("setsid");
        on_terminal.args(["--ctty", "--wait"]).arg(command.get_program());
        on_terminal.args(command.get_args()).env_clear().env("TERM", "xterm-256color");
        on_terminal.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = command.get_current_dir() {
            on_terminal.current_dir(folder);
        }
        let child = on_terminal.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        drop((on_terminal, pair.slave));
        let keyboard = File::from(pair.master);
        let mut screen = keyboard.try_clone().unwrap();
        let shown = Arc::<Mutex<Vec<u8>>>::default();
        let kept = Arc::clone(&shown);
        let reader = thread::spawn(move || {
            let mut block = [0; 4096];
            // `read` fails with EIO after the last process has closed the terminal.
            while let Ok(count @ 1..) = screen.read(&mut block) {
                kept.lock().unwrap().extend_from_slice(&block[..count]);
            }
        });
        Self { child, keyboard, shown, reader: Some(reader) }
    }

    /// Returns the output so far, with `\n` as the line end.
    pub(crate) fn shown(&self) -> String {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&shown).replace("\r\n", "\n")
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        let is_shown = eventually(PATIENCE, || self.shown().contains(text));
        assert!(is_shown.is_some(), "{text:?} in {:?}", self.shown());
    }

    /// Types these keys. `\x03` is Ctrl-C, and `\x04` is Ctrl-D.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the exit. Returns the output and the exit status.
    pub(crate) fn finish(mut self) -> (String, ExitStatus) {
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        (self.shown(), status)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
