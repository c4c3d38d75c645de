//! Starts the supervisors of a server, and cleans up after supervisors that were killed.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use super::{RunError, orphans};
use crate::sandbox::IS_SUPPORTED;
use crate::sandbox::supervisor::{SUPERVISE_ARGUMENT, SWEEP_ARGUMENT};

/// The interval between two checks for the end of a supervisor.
const END_INTERVAL: Duration = Duration::from_millis(200);

/// The living supervisors, and the number of killed runs that have not ended.
#[derive(Debug, Default, Clone)]
pub(super) struct Supervisors {
    /// The PIDs of the supervisors. The mutex is only locked for a moment, because the thread that serves clients locks
    /// it too.
    pids: Arc<Mutex<HashSet<u32>>>,
    /// The number of runs that do not end although they were killed.
    unended: Arc<AtomicUsize>,
    /// Whether [`Self::sweep`] was already started.
    has_swept: Arc<AtomicBool>,
}

impl Supervisors {
    fn lock(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.pids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts [`Self::sweep`] in the background at the first call.
    pub(super) fn sweep_once(&self) {
        if !self.has_swept.swap(true, Ordering::Relaxed) {
            tokio::spawn(Self::sweep());
        }
    }

    /// Returns an error if an earlier run was killed but has not ended. A new run must not start until all killed runs
    /// have ended.
    pub(super) fn require_ended(&self) -> Result<(), RunError> {
        match self.unended.load(Ordering::Relaxed) {
            0 => Ok(()),
            1.. => Err(RunError::OthersDoNotEnd),
        }
    }

    pub(super) async fn wait_for_end_of(&self, supervisor: Option<u32>) {
        while supervisor.is_some_and(|pid| self.lock().contains(&pid)) {
            tokio::time::sleep(END_INTERVAL).await;
        }
    }

    /// Counts a run as unended for as long as the returned value lives.
    pub(super) fn note_unended(&self) -> Unended {
        self.unended.fetch_add(1, Ordering::Relaxed);
        Unended(Arc::clone(&self.unended))
    }

    /// Removes the folders that earlier servers and killed supervisors left in the temporary folder. Starts a separate
    /// process for the removal: if the server is root, this process takes the rights of each folder's owner, but the
    /// server itself must not lose its rights.
    pub(super) async fn sweep() {
        let swept = own_binary().and_then(|program| {
            Command::new(program)
                .arg(SWEEP_ARGUMENT)
                .arg(std::env::temp_dir())
                .env_clear()
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
        });
        match swept {
            Ok(mut sweeper) => {
                let _ = sweeper.wait().await;
            }
            Err(error) => tracing::error!(%error, "the remains of runs cannot be removed"),
        }
    }

    /// Kills and reaps the processes that killed supervisors left behind.
    pub(super) async fn kill_orphans(&self) {
        let supervisors = self.clone();
        orphans::kill(move || supervisors.lock().clone()).await;
    }

    pub(super) fn start(&self, command: &mut Command) -> std::io::Result<(Child, Listed)> {
        let supervisor = command.spawn()?;
        let pid = supervisor.id();
        // Until the supervisor receives its order, it is in the same session as this server. `orphans::kill` spares
        // processes in this session. So the supervisor is safe before its PID is in `pids`.
        self.lock().extend(pid);
        Ok((supervisor, Listed { pid, supervisors: self.clone() }))
    }
}

/// Counts a run as not ended until this value is dropped.
#[derive(Debug)]
pub(super) struct Unended(Arc<AtomicUsize>);

impl Drop for Unended {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Keeps a supervisor in the list of supervisors until this value is dropped.
#[derive(Debug)]
pub(super) struct Listed {
    pid: Option<u32>,
    supervisors: Supervisors,
}

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            self.supervisors.lock().remove(&pid);
        }
    }
}

/// Creates two connected sockets: a non-blocking socket for this process, and a blocking socket for another process.
pub(super) fn pair() -> std::io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs.into()))
}

/// Returns the command of a supervisor that reads its order from `control`. The run inherits the supervisor's standard
/// output and error.
pub(super) fn supervisor_command(control: OwnedFd) -> std::io::Result<Command> {
    let mut command = Command::new(own_binary()?);
    command.arg(SUPERVISE_ARGUMENT).env_clear().stdin(Stdio::from(control));
    Ok(command)
}

/// Returns the program to start as a supervisor, which is this program.
fn own_binary() -> std::io::Result<PathBuf> {
    if IS_SUPPORTED {
        // This path leads to the running program, even after its file was replaced by a newer version.
        return Ok(Path::new("/proc/self/exe").to_owned());
    }
    // On some systems, `current_exe` fails if /proc is missing. Then the path by which the program was started is used,
    // if it is absolute.
    let started_as = std::env::args_os().next().map(PathBuf::from);
    std::env::current_exe()
        .or_else(|error| started_as.filter(|path| path.is_absolute()).ok_or(error))
}
