//! Runs what the gateway has authorised, and nothing else.
//!
//! An [`Executor`] takes an [`AuthorizedScript`], bounds and a cancellation token, and gives an
//! [`Outcome`]. However a run ends, every process that it started is dead by then. It never
//! decides whether a script may run.
//!
//! There are two implementations. [`OneShotExecutor`]: `interpreter` (find Python once) →
//! `containment` (what holds it here, or which `obstacle` is in the way; for tests of a `project` with
//! more rights) → `one_shot` (the server's side of a run) ⇄ [`report`](crate::sandbox::report) ⇄
//! [`supervisor`](crate::sandbox::supervisor) (a process of its own for each run, which starts Python,
//! watches it and clears up after it). `warm`, on Linux: the children of an interpreter that has loaded what
//! scripts use, and the first one where there is none.

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

/// A way to run scripts.
pub(crate) trait Executor: Send + Sync + 'static {
    /// Runs `script` within `limits` until it ends or `cancel` is cancelled; what it prints goes to `echo`
    /// while it runs.
    ///
    /// The future must be polled to its end: dropping it kills the run, but nobody then waits until
    /// its processes are dead.
    fn run(
        &self,
        script: AuthorizedScript,
        limits: RunLimits,
        cancel: CancellationToken,
        echo: Echo,
    ) -> BoxFuture<'_, Ran>;

    /// Runs a project's own code within its limits until it ends or `cancel` is cancelled. Like
    /// [`Executor::run`]'s, the future must be polled to its end.
    fn run_project(&self, project: ProjectRun, cancel: CancellationToken) -> BoxFuture<'_, Ran>;

    /// Tests whether scripts can be contained as the admin wants it. A success is kept: the test takes
    /// as long as two short scripts. After a failure the next call tests again.
    fn readiness(&self) -> BoxFuture<'_, Readiness>;

    /// Looks up the interpreter of scripts, and the packages that bring these modules there. Takes as
    /// long as a short script; `None` where nothing can run.
    fn inventory(&self, modules: Vec<String>) -> BoxFuture<'_, Option<InstalledPackages>>;

    /// Finds the interpreter of scripts and tests, and the folders of its packages; runs nothing but
    /// what that takes. `None` where there is none.
    fn installation(&self) -> BoxFuture<'_, Option<Installation>>;

    /// Looks up what scripts run in, which does not change once it is known; `None` where nothing can run.
    fn surroundings(&self) -> BoxFuture<'_, Option<Arc<Surroundings>>>;

    /// Gets ready for calls, in the background.
    fn warm_up(&self) {}

    /// Returns the state of the interpreters that are forked for scripts, where there are some.
    fn fork_servers(&self) -> ForkServers {
        ForkServers::default()
    }

    /// Ends the processes that live between runs, and returns when they are gone. Runs are ended by
    /// their own cancellation.
    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// The fork servers of an executor by their state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ForkServers {
    pub(crate) ready: usize,
    pub(crate) starting: usize,
    /// Those that nobody has needed, and those that could not be started.
    pub(crate) off: usize,
    /// How many took the place of an earlier one.
    pub(crate) restarts: u64,
}

/// An interpreter that scripts and tests run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Installation {
    /// The reason why it is this one.
    pub(crate) source: Source,
    pub(crate) program: PathBuf,
    /// As `platform.python_version()` has it.
    pub(crate) version: String,
    /// The folders of installed packages.
    pub(crate) packages: Vec<PathBuf>,
}

/// What scripts run in, for receipts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// The interpreter's program, without links.
    pub(crate) program_file: PathBuf,
    /// As `sys.implementation.name` has it.
    pub(crate) implementation: String,
    pub(crate) version: String,
    /// The folders of installed packages.
    pub(crate) packages: Vec<PathBuf>,
    /// The variables that scripts get.
    pub(crate) variables: Vec<(String, String)>,
    /// What scripts can read.
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) tier: Tier,
    /// The memory of a run, in MiB.
    pub(crate) memory_mib: u64,
    /// The SHA-256 of the plan.
    pub(crate) plan_sha256: String,
    /// What makes runs of a script the same, where they are to be.
    pub(crate) determinism: Option<Determinism>,
}

/// The reason why scripts can read a file of the server's user.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum InReach {
    /// Nothing keeps a script away from files.
    #[error("tier {0} of the sandbox lets scripts read all files of this user")]
    Tier(Tier),
    /// The file is among the packages and folders that scripts may read.
    #[error("{} is in {}, which scripts can read", .file.display(), .folder.display())]
    Folder { file: PathBuf, folder: PathBuf },
}

impl Surroundings {
    /// Returns why scripts can read one of `files`, which are paths without links; `None` if they can read none of
    /// them. Where nothing protects files, that is said without any.
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
            // Also where the file lies in another mount of the folder.
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

/// The outcome of a run, or the reason why there was none.
pub(crate) type Ran = Result<Outcome, RunError>;

/// The containment of scripts (`None` without an interpreter), or the reason why they cannot be.
pub(crate) type Readiness = Result<Option<Ready>, SandboxUnavailable>;

/// Code of a project on this machine, which tests it: it reads its folders, starts the interpreter
/// again if it likes, and leaves files behind. Always alone in a new interpreter, and in tier 2 at
/// least.
#[derive(Debug, Clone)]
pub(crate) struct ProjectRun {
    /// Python that starts it.
    pub(crate) source: String,
    /// The folder of its code, without links.
    pub(crate) workspace: PathBuf,
    /// Further readable paths, besides that and Python's own: absolute ones.
    pub(crate) readable: Vec<PathBuf>,
    /// A folder that nothing of this may overlap but `artifacts`, which is in it.
    pub(crate) closed: PathBuf,
    /// The folder in which it may leave files: a real path, which no readable one overlaps.
    pub(crate) artifacts: ArtifactFolder,
    /// Variables besides the ones that scripts get.
    pub(crate) environment: Vec<(String, String)>,
    /// The memory of all its processes together, in MiB.
    pub(crate) memory_mb: u64,
    pub(crate) limits: RunLimits,
}

/// The reason why a script could not be run at all. Its `Display` is shown to the client: it names no path.
#[derive(Debug, Error)]
pub(crate) enum RunError {
    /// No interpreter, or no sandbox to run the script in.
    #[error(transparent)]
    Contain(#[from] NotContained),
    /// This sandbox cannot give a project what it needs.
    #[error(transparent)]
    Project(#[from] NotForProject),
    /// The supervisor process could not be started.
    #[error("the process that watches over the script could not be started")]
    StartSupervisor(#[source] std::io::Error),
    /// The supervisor could not start Python.
    #[error("Python could not be started: {0}")]
    StartPython(LaunchError),
    /// A defect in the executor.
    #[error("the executor stopped unexpectedly")]
    Panicked,
    /// The supervisor ended without a report: something killed it.
    #[error("the process that watches over the script was killed from outside")]
    SupervisorDied,
    /// The kernel does not end the processes of the run.
    #[error(
        "the script was killed, and its processes do not end; no code runs until they have. Ask the \
         admin to look at the server's log"
    )]
    DoesNotEnd,
    /// The kernel does not end the processes of an earlier run.
    #[error(
        "the processes of an earlier script were killed and do not end; no code runs until they \
         have. Ask the admin to look at the server's log"
    )]
    OthersDoNotEnd,
}
