//! Runs the external programs that make an environment, and reports their output as progress. The programs never
//! receive variables with the prefix `QWED_`, because some of these contain tokens.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// The timeout for a step (one external program, such as pip). A step may download hundreds of megabytes over a slow
/// connection.
const STEP_TIMEOUT: Duration = Duration::from_secs(3600);

/// The time to read the rest of a step's output after the step has ended.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(2);

/// The interval at which progress is reported while a step prints no output.
const TICK: Duration = Duration::from_secs(1);

/// The maximum number of stored lines of a step's output. The last lines are stored, because they explain a failure.
const LINES_MAX: usize = 12;
/// The maximum number of stored characters of a line.
const LINE_CHARS_MAX: usize = 300;

/// The prefixes of environment variables that the program of a step does not receive, and the reasons.
const WITHHELD: [(&str, &str); 24] = [
    ("QWED_", "tokens are among them"),
    ("PYTHONHOME", "another Python's standard library"),
    ("PYTHONPATH", "packages that would not be in the environment"),
    ("PYTHONSTARTUP", "code from another source"),
    ("PYTHONDONTWRITEBYTECODE", "scripts cannot compile what they import"),
    ("VIRTUAL_ENV", "another environment"),
    ("CONDA_PREFIX", "another environment"),
    ("PIP_TARGET", "another place"),
    ("PIP_PREFIX", "another place"),
    ("PIP_ROOT", "another place"),
    ("PIP_USER", "another place"),
    ("PIP_PYTHON", "another environment"),
    ("PIP_DRY_RUN", "nothing would be installed"),
    ("PIP_NO_DEPS", "what is added would come without what it needs"),
    ("PIP_REQUIREMENT", "packages that are not asked for"),
    ("PIP_EDITABLE", "packages that are not asked for"),
    ("PIP_NO_BINARY", "code of packages would run"),
    ("UV_NO_BINARY", "code of packages would run"),
    ("UV_SYSTEM_PYTHON", "another environment"),
    ("UV_PROJECT", "settings of a project"),
    ("UV_WORKING_DIR", "settings of a project"),
    ("UV_VENV_SEED", "packages that are not asked for"),
    ("UV_LINK_MODE", "links that lead out of the environment"),
    ("UV_COMPILE_BYTECODE", "uv takes it for a contradiction to its flag"),
];

/// An event while the program of a step runs. Callers show these events as progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress<'t> {
    /// A step begins.
    Step(&'t str),
    /// A line of the step's output.
    Line(&'t str),
    /// The step is still running.
    Tick,
}

/// The reason why the program of a step failed.
#[derive(Debug, Error)]
pub(crate) enum StepError {
    #[error("{program} cannot be started")]
    Start { program: String, source: io::Error },
    #[error("{program} ended with {status}{}", said(.lines))]
    Failed { program: String, status: ExitStatus, lines: Vec<String> },
    #[error("{program} was ended after {} s{}", STEP_TIMEOUT.as_secs(), said(.lines))]
    Timeout { program: String, lines: Vec<String> },
}

impl StepError {
    /// Returns the last lines of the step's output.
    pub(super) fn lines(&self) -> &[String] {
        match self {
            Self::Start { .. } => &[],
            Self::Failed { lines, .. } | Self::Timeout { lines, .. } => lines,
        }
    }
}

fn said(lines: &[String]) -> String {
    if lines.is_empty() { String::new() } else { format!(". It wrote:\n  {}", lines.join("\n  ")) }
}

/// Creates a command without the environment variables in [`WITHHELD`].
pub(super) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let bytes = name.as_encoded_bytes();
        if WITHHELD.iter().any(|(start, _)| bytes.starts_with(start.as_bytes())) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a step to its end, and returns the last lines of its output. Dropping the future kills the step and the
/// processes that it started.
///
/// The step's standard input is `lock`, the lock file of the turn (the exclusive right to make environments). The turn
/// therefore lasts until the step ends, even if this process is killed.
pub(super) async fn run(
    mut command: Command,
    lock: File,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Result<Vec<String>, StepError> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    command.stdin(lock).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let started = command.spawn();
    let (mut group, mut child) = match started {
        Ok(child) => (Group::of(&child), child),
        Err(source) => return Err(StepError::Start { program, source }),
    };
    // Close this process's copy of the lock's descriptor, which the command owns.
    drop(command);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut output = Output::default();
    let ended = timeout(STEP_TIMEOUT, async {
        let follow = output.follow(stdout, stderr, progress);
        tokio::pin!(follow);
        let (is_read, status) = tokio::select! {
            () = &mut follow => (true, child.wait().await),
            status = child.wait() => (false, status),
        };
        // Kill the processes that the step leaves behind. One of them may hold the lock of the turn, which is the
        // standard input of the step.
        group.kill();
        if !is_read {
            // Limit the wait, because a process that has left the group may hold the output open for any time.
            let _ = timeout(LAST_LINES_TIMEOUT, follow).await;
        }
        status
    });
    let ended = ended.await;
    let lines = output.lines.into();
    match ended {
        Err(_) => Err(StepError::Timeout { program, lines }),
        Ok(Err(source)) => Err(StepError::Start { program, source }),
        Ok(Ok(status)) if status.success() => Ok(lines),
        Ok(Ok(status)) => Err(StepError::Failed { program, status, lines }),
    }
}

/// A process group. Dropping this value kills the processes of the group.
struct Group(Option<Pid>);

impl Group {
    /// Returns the group of a process that started a new group.
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw))
    }

    /// Kills the processes of the group. Call this right after the wait for the first process of the group, because its
    /// PID may be reused later.
    fn kill(&mut self) {
        if let Some(group) = self.0.take() {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last lines of a step's output.
#[derive(Default)]
struct Output {
    lines: VecDeque<String>,
}

impl Output {
    /// Reads both streams to their end, and reports their lines as progress.
    async fn follow(
        &mut self,
        stdout: Option<impl AsyncRead + Unpin>,
        stderr: Option<impl AsyncRead + Unpin>,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) {
        let (mut stdout, mut stderr) = (Stream::new(stdout), Stream::new(stderr));
        while !(stdout.is_over() && stderr.is_over()) {
            let lines = tokio::select! {
                lines = stdout.lines(), if !stdout.is_over() => lines,
                lines = stderr.lines(), if !stderr.is_over() => lines,
                () = sleep(TICK) => {
                    progress(Progress::Tick);
                    continue;
                }
            };
            for line in lines {
                progress(Progress::Line(&line));
                if self.lines.len() == LINES_MAX {
                    self.lines.pop_front();
                }
                self.lines.push_back(line);
            }
        }
    }
}

/// An output stream of a step, with the incomplete last line.
struct Stream<R> {
    reader: Option<R>,
    begun: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Stream<R> {
    fn new(reader: Option<R>) -> Self {
        Self { reader, begun: Vec::new() }
    }

    fn is_over(&self) -> bool {
        self.reader.is_none()
    }

    /// Reads the next bytes, and returns the lines that these bytes complete. At the end of the stream, returns the
    /// incomplete last line too.
    async fn lines(&mut self) -> Vec<String> {
        let mut bytes = [0; 4096];
        let count = match &mut self.reader {
            Some(reader) => reader.read(&mut bytes).await.unwrap_or(0),
            None => 0,
        };
        let mut lines = Vec::new();
        for byte in bytes.iter().take(count) {
            // Treat a carriage return as the end of a line, because progress bars write it.
            if matches!(byte, b'\n' | b'\r') {
                lines.extend(text(&std::mem::take(&mut self.begun)));
            } else if self.begun.len() < 4 * LINE_CHARS_MAX {
                self.begun.push(*byte);
            }
        }
        if count == 0 {
            self.reader = None;
            lines.extend(text(&self.begun));
        }
        lines
    }
}

/// Returns a line without control characters, or `None` if it is blank.
fn text(line: &[u8]) -> Option<String> {
    let line = String::from_utf8_lossy(line);
    let shown: String =
        line.trim_end().chars().filter(|c| !c.is_control()).take(LINE_CHARS_MAX).collect();
    (!shown.trim().is_empty()).then_some(shown)
}
