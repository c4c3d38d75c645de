//! A process of its own for each run: it starts Python, watches it, and clears up after it.
//!
//! It is our own binary, started again before any runtime exists: single-threaded, and small. It
//! ends a run when Python ends, when the server asks for it, or when the server is gone, even by
//! SIGKILL, because then its end of the socket is closed. Only when every process of the run is
//! dead and reaped does it report. It never decides anything about the script.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use super::protocol::{Report, Request};

#[cfg(all(target_os = "linux", not(qwed_portable)))]
#[path = "supervisor/linux.rs"]
mod platform;
#[cfg(not(all(target_os = "linux", not(qwed_portable))))]
#[path = "supervisor/portable.rs"]
mod platform;

/// What Python is told to do: run the compiled bootstrap, which finds the script behind itself.
const COMMAND: &str = "script = open(0, 'rb', closefd=False)
exec(__import__('marshal').load(script))";

/// The life of a supervisor. The exit code says only whether a report could be sent.
pub(crate) fn supervise() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody is left to report to: the server is gone, and so is its end of the socket.
        Err(_) => ExitCode::FAILURE,
    }
}

fn run() -> io::Result<()> {
    let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let report = match receive(&control) {
        Ok((request, input)) => {
            let report = match prepare_and_start(&request, &input) {
                Ok(python) => platform::watch(python, &control)?,
                Err(reason) => Report::NotStarted(reason.to_owned()),
            };
            // Before the report: when the server has it, nothing of the run is left.
            remove_scratch(&request.scratch);
            report
        }
        // The server changed its mind before it had said everything.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Report::Killed,
        Err(error) => return Err(error),
    };
    let mut answer = serde_json::to_vec(&report)?;
    answer.push(b'\n');
    control.write_all(&answer)
}

fn receive(control: &UnixStream) -> io::Result<(Request, Vec<u8>)> {
    let mut reader = BufReader::new(control);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let request: Request = serde_json::from_str(&line)?;
    let mut input = vec![0; request.input_bytes];
    reader.read_exact(&mut input)?;
    Ok((request, input))
}

/// Starts Python with `input` as its standard input. An error is a reason that may be shown to
/// a client.
fn prepare_and_start(request: &Request, input: &[u8]) -> Result<Child, &'static str> {
    platform::prepare().map_err(|_| "the supervisor's process could not be set up")?;
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&request.scratch)
        .map_err(|_| "its scratch folder could not be created")?;
    let input = platform::input_file(input, &request.scratch)
        .map_err(|_| "the script could not be stored")?;
    let mut child = Command::new(&request.python)
        .args(["-c", COMMAND])
        .env_clear()
        .envs(request.environment.iter().map(|(name, value)| (name, value)))
        .env("TMPDIR", &request.scratch)
        .current_dir(&request.scratch)
        // A group of its own: what the script sends to "its group" does not reach the supervisor.
        .process_group(0)
        .stdin(Stdio::from(input))
        .spawn()
        .map_err(|_| "the interpreter did not start")?;
    // The server takes the end of the output as the end of the run's last process.
    if close_output().is_err() {
        let _ = child.kill();
        return Err("the supervisor's output could not be closed");
    }
    Ok(child)
}

fn close_output() -> io::Result<()> {
    let null = File::options().write(true).open("/dev/null")?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    Ok(())
}

/// Removes what the script left in its folder. Best effort, twice: a script can take its own
/// right to list a folder away, so that needs giving back first.
fn remove_scratch(scratch: &Path) {
    if fs::remove_dir_all(scratch).is_err() {
        restore_permissions(scratch);
        // What still is left then is not ours to force: a mount, or another user's file.
        let _ = fs::remove_dir_all(scratch);
    }
}

fn restore_permissions(folder: &Path) {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        // Of the entry itself: a symbolic link is not followed.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            restore_permissions(&entry.path());
        }
    }
}

/// A file without a name that holds `content`, for systems without `memfd_create(2)`.
#[cfg_attr(
    all(target_os = "linux", not(qwed_portable)),
    expect(dead_code, reason = "Linux has memfd_create")
)]
fn unlinked_file(content: &[u8], folder: &Path) -> io::Result<OwnedFd> {
    use std::io::Seek as _;

    let path = folder.join("input");
    let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
}
