//! Runs scripts that the gateway has authorized, and nothing else.
//!
//! An [`Executor`] takes an [`AuthorizedScript`], limits and a cancellation token, and returns an [`Outcome`]. When the
//! outcome is returned, every process of the run is dead or being killed, regardless of how the run ended. This module
//! never decides whether a script may run.
//!
//! Two implementations exist:
//!
//! - [`OneShotExecutor`] starts a new interpreter for each run. `interpreter` finds Python once. `containment` chooses
//!   the sandbox, or returns the `obstacle` that makes a sandbox unavailable. `project` makes the sandbox for the tests
//!   of a project, which have more rights than scripts. `one_shot` is the server's side of a run. It exchanges an order
//!   and a [`report`](crate::sandbox::report) with a [`supervisor`](crate::sandbox::supervisor): a process that starts
//!   Python for one run, watches Python, and cleans up after the run.
//! - `warm` (Linux only) runs each script in a forked child of an interpreter that has already imported packages. If
//!   no such child is available, `warm` uses a [`OneShotExecutor`].

#![cfg_attr(
    any(not(target_os = "linux"), qwed_portable),
    expect(dead_code, reason = "fork servers are Linux's")
)]

mod canary;
mod check_counts;
mod choice;
mod containment;
mod data;
mod determinism;
mod diagnosis;
mod echo;
mod end_report;
mod environment;
#[cfg(test)]
pub(crate) mod fake;
mod frames;
mod given;
mod installed;
mod interpreter;
mod limits;
mod members;
mod obstacle;
mod one_shot;
pub(crate) mod orphans;
mod other_names;
mod outcome;
mod output;
mod package_folders;
mod pictures;
mod probe;
mod project;
mod returned;
mod run_groups;
pub(crate) mod secrecy;
mod side_channel;
mod supervised;
mod supervisors;
mod turns;
mod untrusted;
#[cfg(all(target_os = "linux", not(qwed_portable)))]
mod warm;

pub(crate) use check_counts::CheckCounts;
pub(crate) use containment::NotContained;
pub(crate) use data::{DEPTH_MAX, Data, Int, Kind};
pub(crate) use determinism::Determinism;
pub(crate) use diagnosis::{
    Diagnosis, FoundInterpreter, LayerState, PackagesError, verification_modules,
    verification_package,
};
pub(crate) use echo::{Echo, Stream};
pub(crate) use end_report::{EndReport, Observed};
pub(crate) use environment::{Environment, EnvironmentCache, Package, describe};
pub(crate) use installed::{EnvironmentDigest, EnvironmentDigests};
pub(crate) use interpreter::{FindError, Source, package_folders};
pub(crate) use limits::RunLimits;
pub(crate) use members::Members;
pub(crate) use obstacle::{Obstacle, Ready, SandboxUnavailable, StepDown};
pub(crate) use one_shot::OneShotExecutor;
pub(crate) use outcome::{Cached, Captured, Ending, Outcome, Start};
pub(crate) use output::without_end_space;
pub(crate) use pictures::{
    LeftOut, PICTURE_BYTES_MAX, PICTURES_BYTES_MAX, PICTURES_MAX, Picture, Pictures,
};
pub(crate) use probe::{HomeExposure, Unusable};
pub(crate) use project::NotForProject;
pub(crate) use returned::Returned;
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
use crate::config::Settings;
use crate::gateway::AuthorizedScript;
pub(crate) use crate::sandbox::ArtifactFolder;
use crate::sandbox::{LaunchError, Tier};

/// The interface of all executors.
pub(crate) trait Executor: Send + Sync + 'static {
    /// Runs `script` within `limits` until it ends or `cancel` is cancelled. Passes the script's output to `echo` while
    /// the script runs.
    ///
    /// The caller must poll the future until it completes. Dropping the future kills the run, but then nothing waits
    /// until the run's processes are dead.
    fn run(
        &self,
        script: AuthorizedScript,
        limits: RunLimits,
        cancel: CancellationToken,
        echo: Echo,
    ) -> BoxFuture<'_, Ran>;

    /// Runs a project's own code within the limits in `project`, until the code ends or `cancel` is cancelled. The
    /// caller must poll the future until it completes, as for [`Executor::run`].
    fn run_project(&self, project: ProjectRun, cancel: CancellationToken) -> BoxFuture<'_, Ran>;

    /// Tests whether scripts can be confined in the way that the admin configured. Remembers a success, because the
    /// test takes as long as two short scripts. After a failure, the next call tests again.
    fn readiness(&self) -> BoxFuture<'_, Readiness>;

    /// Returns the version of the scripts' interpreter, and the packages that provide `modules`. Takes as long as a
    /// short script. Returns `None` if no script can run.
    fn inventory(&self, modules: Vec<String>) -> BoxFuture<'_, Option<InstalledPackages>>;

    /// Finds the interpreter for scripts and tests, and the folders of its packages. Does not test the sandbox. Returns
    /// `None` if no interpreter is found.
    fn installation(&self) -> BoxFuture<'_, Option<Installation>>;

    /// Returns the interpreter and the sandbox that scripts run in. After the first success, each call returns the same
    /// value. Returns `None` if no script can run.
    fn surroundings(&self) -> BoxFuture<'_, Option<Arc<Surroundings>>>;

    /// Returns an executor for the interpreter that `_settings` selects. The returned executor starts a new interpreter
    /// for each run. The runs of both executors share one set of limits. Returns `None` if this executor supports only
    /// one interpreter.
    fn with_interpreter(&self, _settings: &Settings) -> Option<Arc<dyn Executor>> {
        None
    }

    /// Starts preparations for the first calls. The preparations run in the background. The default implementation does
    /// nothing.
    fn warm_up(&self) {}

    /// Counts the fork servers by their state. All counts are zero for an executor without fork servers.
    fn fork_servers(&self) -> ForkServers {
        ForkServers::default()
    }

    /// Ends the processes that exist between runs, such as fork servers, and waits until they have ended. Does not end
    /// runs, because each run has its own cancellation token.
    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// The number of fork servers in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ForkServers {
    pub(crate) ready: usize,
    pub(crate) starting: usize,
    /// The number of fork servers that do not run: not needed yet, idle for too long, failed to start, or closed.
    pub(crate) off: usize,
    /// The number of fork servers that were started to replace an earlier fork server.
    pub(crate) restarts: u64,
}

/// The interpreter that scripts and tests run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Installation {
    /// The reason for choosing this interpreter.
    pub(crate) source: Source,
    pub(crate) program: PathBuf,
    /// The version of Python, as `platform.python_version()` returns it.
    pub(crate) version: String,
    /// The folders of installed packages.
    pub(crate) packages: Vec<PathBuf>,
}

/// The interpreter and the sandbox that scripts run in, for receipts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// The canonical path of the interpreter's program.
    pub(crate) program_file: PathBuf,
    /// The name of the Python implementation, as in `sys.implementation.name`.
    pub(crate) implementation: String,
    pub(crate) version: String,
    /// The folders of the interpreter's installed packages.
    pub(crate) packages: Vec<PathBuf>,
    /// The interpreter's program, its shared libraries and the folders of its standard library.
    pub(crate) own: Vec<PathBuf>,
    /// The environment variables of scripts.
    pub(crate) variables: Vec<(String, String)>,
    /// The paths that scripts can read.
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) tier: Tier,
    /// The memory limit of a run, in MiB.
    pub(crate) memory_mib: u64,
    /// The SHA-256 of the sandbox's plan, in hexadecimal digits.
    pub(crate) plan_sha256: String,
    /// The measures that make runs reproducible; `None` if the admin did not ask for them.
    pub(crate) determinism: Option<Determinism>,
    /// The modules that each fork server loads in addition to the modules of the previous fork server. Empty if each
    /// run gets a new interpreter.
    pub(crate) preload: Vec<Vec<String>>,
}

/// The reason why scripts can read a file of the server's user.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum InReach {
    /// At this tier, scripts can read all files of the server's user.
    #[error("tier {0} of the sandbox lets scripts read all files of this user")]
    Tier(Tier),
    /// `file` is in `folder`, which scripts can read. `file` may be another path of the user's file: a hard link, or a
    /// path through another mount.
    #[error("{} is in {}, which scripts can read", .file.display(), .folder.display())]
    Folder { file: PathBuf, folder: PathBuf },
}

impl Surroundings {
    /// Returns the measures that apply to a run with this start. A forked interpreter has other memory addresses than a
    /// new interpreter. So the addresses count as fixed only for the usual start of this executor: warm if it has fork
    /// servers, otherwise cold.
    pub(crate) fn measures(&self, start: Start) -> Option<Determinism> {
        let usual = if self.preload.is_empty() { Start::Cold } else { Start::Warm };
        let fixes = |it: Determinism| it.fixes_addresses && start == usual;
        self.determinism.map(|it| Determinism { fixes_addresses: fixes(it), ..it })
    }

    /// Returns the reason why scripts can read at least one of `files`; `None` if scripts can read none of them.
    /// `files` are canonical paths. If the tier does not protect files, returns the tier as the reason, even if `files`
    /// is empty.
    pub(crate) fn reach_of<'p>(
        &self,
        files: impl IntoIterator<Item = &'p PathBuf>,
    ) -> Option<InReach> {
        if !self.tier.hides_files() {
            return Some(InReach::Tier(self.tier));
        }
        let files: Vec<&PathBuf> = files.into_iter().collect();
        let by_its_name = self.readable.iter().find_map(|path| {
            // `UntrustedFolder::holds` also detects a file that is reached through another mount of the folder.
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

/// The containment of scripts, or the reason why no sandbox is available. `Ok(None)` means that no interpreter was
/// found.
pub(crate) type Readiness = Result<Option<Ready>, SandboxUnavailable>;

/// A run of a project's own code, to test the project on this machine. The code may read the project's folders, start
/// the interpreter again, and leave files behind. The code always runs in a new interpreter, at tier 2 or better.
#[derive(Debug, Clone)]
pub(crate) struct ProjectRun {
    /// The Python source that starts the code.
    pub(crate) source: String,
    /// The folder that contains the code, as a canonical path.
    pub(crate) workspace: PathBuf,
    /// Further absolute paths that the code may read, in addition to `workspace` and Python's own files.
    pub(crate) readable: Vec<PathBuf>,
    /// The server's data folder, which contains `artifacts`. No readable path may overlap this folder, except for the
    /// virtual environments in it.
    pub(crate) closed: PathBuf,
    /// The folder in which the code may leave files, as a canonical path. No readable path overlaps this folder.
    pub(crate) artifacts: ArtifactFolder,
    /// Environment variables in addition to the variables of scripts. They replace script variables of the same name.
    pub(crate) environment: Vec<(String, String)>,
    /// The memory limit of all processes of the run together, in MiB.
    pub(crate) memory_mb: u64,
    pub(crate) limits: RunLimits,
}

/// The reason why a script could not be run at all. The `Display` text is shown to clients, so it contains no path.
#[derive(Debug, Error)]
pub(crate) enum RunError {
    /// No interpreter was found, or no sandbox is available.
    #[error(transparent)]
    Contain(#[from] NotContained),
    /// The sandbox cannot give a project the rights that the project needs.
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
    /// The supervisor ended without a report, because another process or the kernel killed the supervisor.
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
