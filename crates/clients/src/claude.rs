//! Claude Code's own program, which changes its user's file: that is its state as well, and a running
//! session writes what it remembers over what others have written.

use std::io::{self, Read as _};
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use thiserror::Error;

/// The time for which it may run; it takes about a second.
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// The most bytes of its words that are passed on.
const WORDS_BYTES_MAX: u64 = 1000;
/// The wait for them after its end: a program that it has started may keep the pipe open.
const WORDS_TIMEOUT: Duration = Duration::from_secs(1);

/// No change by Claude Code's program.
#[derive(Debug, Error)]
pub enum ClaudeError {
    #[error("failed to run `claude`: {0}")]
    Start(#[from] io::Error),
    #[error("`claude {arguments}` takes longer than 60 s")]
    Timeout { arguments: &'static str },
    #[error("`claude {arguments}` failed: {words}")]
    Failed { arguments: &'static str, words: String },
}

/// Adds an entry to the user's file.
pub(crate) fn add(program: &Path, name: &str, entry: &Value) -> Result<(), ClaudeError> {
    let entry = entry.to_string();
    run(program, "mcp add-json", &["mcp", "add-json", name, &entry, "--scope", "user"])
}

/// Takes an entry out of the user's file.
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

/// Reads a pipe to its end, so that its writer never waits, and returns the start of what it wrote.
fn start_of(mut stderr: ChildStderr) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut words = Vec::new();
        let _ = stderr.by_ref().take(WORDS_BYTES_MAX).read_to_end(&mut words);
        // Nobody waits for them where the program did what it was asked for.
        let _ = sender.send(words);
        let _ = io::copy(&mut stderr, &mut io::sink());
    });
    receiver
}
