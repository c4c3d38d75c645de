//! Runs scripts that the gateway has authorized, and nothing else.
//!
//! An [`Executor`] takes an [`AuthorizedScript`], limits and a cancellation token, and returns an [`Outcome`]. However
//! a run ends, every process that it started is dead or being killed by then. This module never decides whether a
//! script may run.
//!
//! Two implementations exist:
//!
//! - [`OneShotExecutor`] starts a new interpreter for each run. `interpreter` finds Python once. `containment` chooses
//!   the sandbox, or names the `obstacle` against it. `project` does so for tests, which have more rights. `one_shot`
//!   is the server's side of a run. It exchanges an order and a [`report`](crate::sandbox::report) with a
//!   [`supervisor`](crate::sandbox::supervisor), a separate process for each run that starts Python, watches it and
//!   cleans up after it.
//! - `warm` (Linux only) runs scripts in children of an interpreter that has already loaded their modules. It falls
//!   back to the first implementation if no such child is available.

#![cfg_attr(
    any(not(target_os = "linux"), qwed_portable),
    expect(dead_code, reason = "fork servers are Linux's")
)]

mod canary;
mod choice;
mod containment;
mod determinism;
mod diagnosis;
mod echo;
#[cfg(test)]
pub(crate) mod fake;
mod given;
mod interpreter;
mod limits;
mod obstacle;
mod one_shot;
pub(crate) mod orphans;
mod other_names;
mod outcome;
mod output;
mod package_folders;
mod picture_channel;
mod pictures;
mod probe;
mod project;
mod run_groups;
pub(crate) mod secrecy;
mod supervised;
mod supervisors;
mod turns;
mod untrusted;
#[cfg(all(target_os = "linux", not(qwed_portable)))]
mod warm;

pub(crate) use containment::NotContained;
pub(crate) use determinism::Determinism;
pub(crate) use diagnosis::{
    Diagnosis, FoundInterpreter, LayerState, PackagesError, verification_modules,
    verification_package,
};
pub(crate) use echo::{Echo, Stream};
pub(crate) use interpreter::{FindError, Source, package_folders};
pub(crate) use limits::RunLimits;
pub(crate) use obstacle::{Obstacle, Ready, SandboxUnavailable, StepDown};
pub(crate) use one_shot::OneShotExecutor;
pub(crate) use outcome::{Captured, Ending, Outcome, Start};
pub(crate) use output::without_end_space;
pub(crate) use pictures::{
    LeftOut, PICTURE_BYTES_MAX, PICTURES_BYTES_MAX, PICTURES_MAX, Picture, Pictures,
};
pub(crate) use probe::{HomeExposure, Unusable};
pub(crate) use project::NotForProject;
pub(crate) use run_groups::MemoryBound;
pub(crate) use turns::{JOBS_AT_ONCE_MAX, Lane, Turn, Turns};
pub(crate) use untrusted::{Untrusted, UntrustedFolder};
#[cfg(all(target_os = "linux", not(qwed_portable)))]
pub(crate) use warm::WarmExecutor;

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::aibom::InstalledPackages;
use crate::gateway::AuthorizedScript;
pub(crate) use crate::sandbox::ArtifactFolder;
use crate::sandbox::{LaunchError, Tier};

/// The interface of all executors.
pub(crate) trait Executor: Send + Sync + 'static {
    /// Runs `script` within `limits` until it ends or `cancel` is cancelled. Passes its output to `echo` while it runs.
    ///
    /// The future must be polled to its end. Dropping it kills the run, but then nothing waits until the processes are
    /// dead.
    fn run(
        &self,
        script: AuthorizedScript,
        limits: RunLimits,
        cancel: CancellationToken,
        echo: Echo,
    ) -> BoxFuture<'_, Ran>;

    /// Runs a project's own code within its limits until it ends or `cancel` is cancelled. As for [`Executor::run`],
    /// the future must be polled to its end.
    fn run_project(&self, project: ProjectRun, cancel: CancellationToken) -> BoxFuture<'_, Ran>;

    /// Tests whether scripts can be contained in the way that the admin configured. Remembers a success, because the
    /// test takes as long as two short scripts. After a failure the next call tests again.
    fn readiness(&self) -> BoxFuture<'_, Readiness>;

    /// Returns the version of the scripts' interpreter, and the packages that provide `modules`. Takes as long as a
    /// short script. `None` if nothing can run.
    fn inventory(&self, modules: Vec<String>) -> BoxFuture<'_, Option<InstalledPackages>>;

    /// Finds the interpreter for scripts and tests, and the folders of its packages. Runs only the search. `None` if no
    /// interpreter is found.
    fn installation(&self) -> BoxFuture<'_, Option<Installation>>;

    /// Returns the interpreter and the sandbox that scripts run in. They do not change once they are known. `None` if
    /// nothing can run.
    fn surroundings(&self) -> BoxFuture<'_, Option<Arc<Surroundings>>>;

    /// Prepares for calls, in the background.
    fn warm_up(&self) {}

    /// Counts the fork servers by their state. All counts are zero for an executor without fork servers.
    fn fork_servers(&self) -> ForkServers {
        ForkServers::default()
    }

    /// Ends the processes that live between runs, and returns when they are gone. Does not end runs: each run has its
    /// own cancellation token.
    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// The number of fork servers in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ForkServers {
    pub(crate) ready: usize,
    pub(crate) starting: usize,
    /// Not running: not needed so far, idle for too long, failed to start, or closed.
    pub(crate) off: usize,
    /// Starts that replaced an earlier fork server.
    pub(crate) restarts: u64,
}

/// The interpreter that scripts and tests run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Installation {
    /// The reason for choosing this interpreter.
    pub(crate) source: Source,
    pub(crate) program: PathBuf,
    /// The version, as `platform.python_version()` returns it.
    pub(crate) version: String,
    /// The folders of installed packages.
    pub(crate) packages: Vec<PathBuf>,
}

/// The interpreter and the sandbox that scripts run in, for receipts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// The canonical path of the interpreter's program.
    pub(crate) program_file: PathBuf,
    /// The name, as `sys.implementation.name` has it.
    pub(crate) implementation: String,
    pub(crate) version: String,
    /// The folders of installed packages.
    pub(crate) packages: Vec<PathBuf>,
    /// The environment variables of scripts.
    pub(crate) variables: Vec<(String, String)>,
    /// The paths that scripts can read.
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) tier: Tier,
    /// The memory limit of a run, in MiB.
    pub(crate) memory_mib: u64,
    /// The SHA-256 of the plan, in hexadecimal digits.
    pub(crate) plan_sha256: String,
    /// The measures that make runs reproducible; `None` if the admin did not ask for them.
    pub(crate) determinism: Option<Determinism>,
}

/// The reason why scripts can read a file of the server's user.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum InReach {
    /// The tier does not keep scripts away from files.
    #[error("tier {0} of the sandbox lets scripts read all files of this user")]
    Tier(Tier),
    /// The file is in a package or a folder that scripts may read.
    #[error("{} is in {}, which scripts can read", .file.display(), .folder.display())]
    Folder { file: PathBuf, folder: PathBuf },
}

impl Surroundings {
    /// Returns why scripts can read one of `files`, which are canonical paths. `None` if they can read none of them.
    /// For a tier that does not protect files, returns the reason even if `files` is empty.
    pub(crate) fn reach_of<'p>(
        &self,
        files: impl IntoIterator<Item = &'p PathBuf>,
    ) -> Option<InReach> {
        match self.tier {
            Tier::T3 | Tier::T2 | Tier::Seatbelt => {}
            tier @ (Tier::T1 | Tier::Off) => return Some(InReach::Tier(tier)),
        }
        let files: Vec<&PathBuf> = files.into_iter().collect();
        let by_its_name = self.readable.iter().find_map(|path| {
            // This also finds a file below another mount of the folder.
            let folder = UntrustedFolder::new(path)?;
            let file = files.iter().find(|file| folder.holds(file))?;
            Some(InReach::Folder { file: (*file).clone(), folder: path.clone() })
        });
        let by_another_name = || {
            files.iter().find_map(|file| {
                let name = other_names::name_below(&self.readable, file)?;
                let folder = self.readable.iter().find(|folder| name.starts_with(folder))?;
                Some(InReach::Folder { folder: folder.clone(), file: name })
            })
        };
        by_its_name.or_else(by_another_name)
    }
}

/// The outcome of a run, or the reason why the run did not happen.
pub(crate) type Ran = Result<Outcome, RunError>;

/// The containment of scripts, or the reason why no sandbox is available. `None` if no interpreter was found.
pub(crate) type Readiness = Result<Option<Ready>, SandboxUnavailable>;

/// A run of a project's own code, to test the project on this machine. The code reads its folders, may start the
/// interpreter again, and leaves files behind. It always runs alone in a new interpreter, at tier 2 or better.
#[derive(Debug, Clone)]
pub(crate) struct ProjectRun {
    /// The Python source that starts the code.
    pub(crate) source: String,
    /// The folder of the code, as a canonical path.
    pub(crate) workspace: PathBuf,
    /// Further readable paths, in addition to `workspace` and Python's own files. They are absolute.
    pub(crate) readable: Vec<PathBuf>,
    /// A folder that no readable path may overlap, except for the environments in it. It contains `artifacts`.
    pub(crate) closed: PathBuf,
    /// The folder in which the code may leave files. A canonical path that no readable path overlaps.
    pub(crate) artifacts: ArtifactFolder,
    /// Variables in addition to the script variables. They replace variables of the same name.
    pub(crate) environment: Vec<(String, String)>,
    /// The memory limit of all processes together, in MiB.
    pub(crate) memory_mb: u64,
    pub(crate) limits: RunLimits,
}

/// The reason why a script could not be run at all. `Display` is shown to clients, so it contains no path.
#[derive(Debug, Error)]
pub(crate) enum RunError {
    /// No interpreter was found, or no sandbox is available.
    #[error(transparent)]
    Contain(#[from] NotContained),
    /// The sandbox cannot give a project the rights that it needs.
    #[error(transparent)]
    Project(#[from] NotForProject),
    /// The supervisor process could not be started.
    #[error("the process that watches over the script could not be started")]
    StartSupervisor(#[source] std::io::Error),
    /// The supervisor could not start Python.
    #[error("Python could not be started: {0}")]
    StartPython(LaunchError),
    /// The executor panicked, which is a defect.
    #[error("the executor stopped unexpectedly")]
    Panicked,
    /// The supervisor ended without a report, because something killed it.
    #[error("the process that watches over the script was killed from outside")]
    SupervisorDied,
    /// The kernel does not end the processes of this run, although they were killed.
    #[error(
        "the script was killed, and its processes do not end; no code runs until they have. Ask the \
         admin to look at the server's log"
    )]
    DoesNotEnd,
    /// The kernel has not yet ended the processes of an earlier run.
    #[error(
        "the processes of an earlier script were killed and do not end; no code runs until they \
         have. Ask the admin to look at the server's log"
    )]
    OthersDoNotEnd,
}
