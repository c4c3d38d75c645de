//! Runs `claude`, the program of Claude Code, to change the user's file. The file also contains the state of `claude`.
//! A running session writes its own copy of the file, and so overwrites changes of other programs. This module never
//! writes the file itself.

use std::io::{self, Read as _};
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use thiserror::Error;

/// The time limit of one `claude` command. It usually takes about a second.
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// The maximum number of bytes of `claude`'s error output that are reported.
const WORDS_BYTES_MAX: u64 = 1000;
/// The maximum time to wait for the error output after `claude` has exited. A program that `claude` started may keep
/// the pipe open.
const WORDS_TIMEOUT: Duration = Duration::from_secs(1);

/// The reason why `claude` did not make a change.
#[derive(Debug, Error)]
pub enum ClaudeError {
    #[error("failed to run `claude`: {0}")]
    Start(#[from] io::Error),
    #[error("`claude {arguments}` takes longer than 60 s")]
    Timeout { arguments: &'static str },
    #[error("`claude {arguments}` failed: {words}")]
    Failed { arguments: &'static str, words: String },
}

/// Runs `claude mcp add-json` to add an entry to the user's file.
pub(crate) fn add(program: &Path, name: &str, entry: &Value) -> Result<(), ClaudeError> {
    let entry = entry.to_string();
    run(program, "mcp add-json", &["mcp", "add-json", name, &entry, "--scope", "user"])
}

/// Runs `claude mcp remove` to remove an entry from the user's file.
pub(crate) fn remove(program: &Path, name: &str) -> Result<(), ClaudeError> {
    run(program, "mcp remove", &["mcp", "remove", name, "--scope", "user"])
}

fn run(program: &Path, arguments: &'static str, words: &[&str]) -> Result<(), ClaudeError> {
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let words = child.stderr.take().map(start_of);
    let deadline = Instant::now() + TIMEOUT;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Err(ClaudeError::Timeout { arguments });
        }
        thread::sleep(POLL);
    };
    if status.success() {
        return Ok(());
    }
    let words = words.and_then(|words| words.recv_timeout(WORDS_TIMEOUT).ok()).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).trim().to_owned();
    let words = if words.is_empty() { status.to_string() } else { words };
    Err(ClaudeError::Failed { arguments, words })
}

/// Reads a pipe to its end on a separate thread, so that the program that writes to the pipe never blocks. The returned
/// receiver gets the first bytes that the program writes.
fn start_of(mut stderr: ChildStderr) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut words = Vec::new();
        let _ = stderr.by_ref().take(WORDS_BYTES_MAX).read_to_end(&mut words);
        // Ignore the error: if `claude` succeeded, the receiver is already dropped, because its error output is not
        // needed.
        let _ = sender.send(words);
        let _ = io::copy(&mut stderr, &mut io::sink());
    });
    receiver
}
