//! The supervisors of a server: the processes that watch over its runs.

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

/// The interval between two looks at whether a supervisor has ended.
const END_INTERVAL: Duration = Duration::from_millis(200);

/// The supervisors that live, and the runs that do not end.
#[derive(Debug, Default, Clone)]
pub(super) struct Supervisors {
    /// Never locked for longer than it takes to look: the thread that answers clients does.
    pids: Arc<Mutex<HashSet<u32>>>,
    /// The runs that do not end although they were killed.
    unended: Arc<AtomicUsize>,
    /// True if the sweep for what earlier servers left was started.
    has_swept: Arc<AtomicBool>,
}

impl Supervisors {
    fn lock(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.pids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts [`Self::sweep`] in the background, the first time that it is called.
    pub(super) fn sweep_once(&self) {
        if !self.has_swept.swap(true, Ordering::Relaxed) {
            tokio::spawn(Self::sweep());
        }
    }

    /// Refuses a run as long as another one does not end.
    pub(super) fn require_ended(&self) -> Result<(), RunError> {
        match self.unended.load(Ordering::Relaxed) {
            0 => Ok(()),
            1.. => Err(RunError::OthersDoNotEnd),
        }
    }

    /// Returns when a supervisor has ended.
    pub(super) async fn wait_for_end_of(&self, supervisor: Option<u32>) {
        while supervisor.is_some_and(|pid| self.lock().contains(&pid)) {
            tokio::time::sleep(END_INTERVAL).await;
        }
    }

    /// Notes that a run does not end, as long as what is returned lives.
    pub(super) fn note_unended(&self) -> Unended {
        self.unended.fetch_add(1, Ordering::Relaxed);
        Unended(Arc::clone(&self.unended))
    }

    /// Removes what earlier servers and killed supervisors have left in the temporary folder, in a
    /// process of its own: it takes the rights of who owned a folder.
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
            Err(error) => tracing::error!(%error, "what a run left cannot be removed"),
        }
    }

    /// Kills and reaps the processes that supervisors left behind which were killed.
    pub(super) async fn kill_orphans(&self) {
        orphans::kill(|| self.lock().clone()).await;
    }

    pub(super) fn start(&self, command: &mut Command) -> std::io::Result<(Child, Listed)> {
        let supervisor = command.spawn()?;
        let pid = supervisor.id();
        // Until it has its order it is in this process's session, and so it is no orphan.
        self.lock().extend(pid);
        Ok((supervisor, Listed { pid, supervisors: self.clone() }))
    }
}

/// A run that does not end, as long as this lives.
#[derive(Debug)]
pub(super) struct Unended(Arc<AtomicUsize>);

impl Drop for Unended {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A supervisor's place on the list, as long as this lives.
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

/// Makes a socket for this process, and one for another, which waits when it reads.
pub(super) fn pair() -> std::io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs.into()))
}

/// Makes the command of a supervisor that takes its order from `control`. Its run has the supervisor's
/// standard output and error.
pub(super) fn supervisor_command(control: OwnedFd) -> std::io::Result<Command> {
    let mut command = Command::new(own_binary()?);
    command.arg(SUPERVISE_ARGUMENT).env_clear().stdin(Stdio::from(control));
    Ok(command)
}

/// Returns the program to start as a supervisor: this one.
fn own_binary() -> std::io::Result<PathBuf> {
    if IS_SUPPORTED {
        // Also after the file was replaced by a newer one.
        return Ok(Path::new("/proc/self/exe").to_owned());
    }
    // Some systems only know it by their /proc, which may not be there.
    let started_as = std::env::args_os().next().map(PathBuf::from);
    std::env::current_exe()
        .or_else(|error| started_as.filter(|path| path.is_absolute()).ok_or(error))
}
