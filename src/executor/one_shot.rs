//! A new interpreter for each run.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::process::Child;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::aibom::InstalledPackages;
use crate::config::Settings;
use crate::gateway::AuthorizedScript;
use crate::sandbox::{GroupOrder, LaunchError, Neighbours, Tier};

use super::containment::{Contained, Containment, NotContained};
use super::echo::Echo;
use super::given::Given;
use super::interpreter::{FindError, Found};
use super::limits::{END_PATIENCE, OWN_SCRIPT_TIMEOUT, REMOVAL_PATIENCE, runs_max};
use super::outcome::{Ending, Outcome, Start};
use super::run_groups::{MemoryBound, RunGroups};
use super::supervised::{Cause, End, Supervised, log_removal};
use super::supervisors::{Listed, Supervisors};
use super::untrusted::Untrusted;
use super::{
    Executor, Installation, ProjectRun, Ran, Readiness, RunError, RunLimits, Surroundings,
};
use crate::sandbox::report::Report;

/// Runs each script in a new interpreter, under a supervisor of its own.
#[derive(Debug)]
pub(crate) struct OneShotExecutor {
    pub(super) containment: Containment,
    /// The folder whose code runs in the sandbox only.
    pub(super) untrusted: Untrusted,
    pub(super) supervisors: Supervisors,
    pub(super) groups: Arc<RunGroups>,
    /// True if the figures of scripts are wanted.
    pub(super) takes_pictures: bool,
    /// Places for folders whose removal goes on behind the result of their run.
    removals: Arc<Semaphore>,
    /// The runs that there are or are about to be, and the most at once.
    runs: Arc<AtomicU64>,
    runs_max: u64,
    /// Locked while a supervisor is started.
    starts: Mutex<()>,
    /// What scripts run in, once somebody has asked.
    surroundings: OnceLock<Arc<Surroundings>>,
}

/// A run that begins: what its outcome says besides how it ended.
#[derive(Debug)]
struct Begun {
    /// The time limit counts from here.
    started: Instant,
    timeout: Duration,
    tier: Tier,
    group: Option<GroupOrder>,
}

impl Begun {
    fn now(tier: Tier, group: Option<GroupOrder>, limits: RunLimits) -> Self {
        Self { started: Instant::now(), timeout: limits.timeout, tier, group }
    }
}

/// A run that is counted, as long as this lives.
pub(super) struct CountedRun(Arc<AtomicU64>);

impl Drop for CountedRun {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns a place for the scratch folder of a run, which the supervisor makes.
fn scratch_place() -> PathBuf {
    std::env::temp_dir().join(format!("qwed-mcp-{}", Uuid::new_v4().simple()))
}

/// The most folders whose removal goes on behind the results of their runs.
const REMOVALS_MAX: usize = 4;

impl OneShotExecutor {
    /// Makes an executor for the interpreter and the sandbox that the settings want. Nothing of the
    /// `untrusted` folder runs outside of that.
    pub(crate) fn new(settings: &Settings, untrusted: Untrusted) -> Self {
        Self {
            containment: Containment::new(settings, untrusted.clone()),
            untrusted,
            supervisors: Supervisors::default(),
            groups: Arc::new(RunGroups::new(settings.kernel_lacks.control_groups)),
            takes_pictures: settings.pictures,
            removals: Arc::new(Semaphore::new(REMOVALS_MAX)),
            runs: Arc::default(),
            runs_max: runs_max(settings),
            starts: Mutex::default(),
            surroundings: OnceLock::new(),
        }
    }

    /// Counts a run as one of those that there are, as long as the result lives.
    pub(super) fn count_run(&self) -> CountedRun {
        self.runs.fetch_add(1, Ordering::Relaxed);
        CountedRun(Arc::clone(&self.runs))
    }

    /// Returns the neighbours of a run, this one included.
    pub(super) fn neighbours(&self) -> Neighbours {
        let now = self.runs.load(Ordering::Relaxed).max(1);
        Neighbours { now, most: self.runs_max }
    }

    /// Returns the containment of scripts; found at the first call.
    pub(crate) async fn contained(&self) -> Result<&Contained, NotContained> {
        // Before any process of ours is there that would have to be moved.
        self.groups.find().await;
        self.supervisors.sweep_once();
        Box::pin(self.containment.get(self)).await
    }

    /// Returns the interpreter for scripts, whether or not they can be contained.
    pub(super) async fn found(&self) -> Result<&Found, FindError> {
        self.groups.find().await;
        self.containment.finder.found().await
    }

    /// Returns the containment of a run; `None` if that is cancelled before.
    async fn contained_for_run(
        &self,
        cancel: &CancellationToken,
    ) -> Result<Option<&Contained>, NotContained> {
        cancel.run_until_cancelled(self.contained()).await.transpose()
    }

    /// Runs a script of the server's own, for as long as those may take.
    pub(super) async fn supervise_own(&self, contained: &Contained, script: &str) -> Ran {
        let limits = RunLimits::of_script(OWN_SCRIPT_TIMEOUT);
        let (cancel, echo) = (CancellationToken::new(), Echo::default());
        self.supervise(contained, Given::source(script), limits, &cancel, &echo).await
    }

    /// Supervises one run, from the start of its supervisor until its last process is dead.
    pub(super) async fn supervise(
        &self,
        contained: &Contained,
        given: Given<'_>,
        limits: RunLimits,
        cancel: &CancellationToken,
        echo: &Echo,
    ) -> Result<Outcome, RunError> {
        let started = Instant::now();
        let group = self.groups.order(&contained.plan_for(limits));
        let run = self.supervise_in(contained, given, limits, cancel, echo, group).await;
        match run {
            // Nothing was started. What bounds runs without groups is there all the same.
            Err(RunError::StartPython(LaunchError::JoinControlGroup(error))) => {
                self.groups.pause(&error.to_string());
                let timeout = limits.timeout.saturating_sub(started.elapsed());
                let limits = RunLimits { timeout, ..limits };
                self.supervise_in(contained, given, limits, cancel, echo, None).await
            }
            run => run,
        }
    }

    /// Does the same in this control group.
    async fn supervise_in(
        &self,
        contained: &Contained,
        given: Given<'_>,
        limits: RunLimits,
        cancel: &CancellationToken,
        echo: &Echo,
        group: Option<GroupOrder>,
    ) -> Result<Outcome, RunError> {
        self.supervisors.require_ended()?;
        let _counted = self.count_run();
        // One at a time: on a busy machine each start takes a while, and there may be sixty.
        let starting = cancel.run_until_cancelled(self.starts.lock()).await;
        let Some(starting) = starting else { return Ok(Outcome::never_started()) };
        let limits = RunLimits { neighbours: self.neighbours(), ..limits };
        let begun = Begun::now(contained.plan.tier, group, limits);
        let message = contained
            .order(given, &scratch_place(), limits, begun.group.as_ref())
            .map_err(RunError::StartSupervisor)?;
        let supervisors = self.supervisors.clone();
        let echo = echo.clone();
        // The thread that starts a process waits until it has begun. Meanwhile this one answers clients.
        let start = move || Supervised::start(&supervisors, limits, &echo);
        let started = spawn_blocking(start).await.map_err(io::Error::from).flatten();
        drop(starting);
        let supervised = started.map_err(RunError::StartSupervisor)?;
        self.see_through(supervised, &message, begun, cancel).await
    }

    /// Sends a supervisor what it needs for a run, and sees that to its end.
    async fn see_through(
        &self,
        mut supervised: Supervised,
        message: &[u8],
        begun: Begun,
        cancel: &CancellationToken,
    ) -> Result<Outcome, RunError> {
        let Begun { started, timeout, tier, group } = begun;
        let memory_bound = (tier > Tier::Off).then(|| MemoryBound::of_run(tier, group.as_ref()));
        let cause = tokio::select! {
            cause = supervised.follow(message) => cause,
            () = sleep_until((started + timeout).into()) => Cause::TimedOut,
            () = cancel.cancelled() => Cause::Cancelled,
        };
        let (supervised, report) = self.end(supervised, cause, group.as_ref()).await?;
        let Supervised { supervisor, listed, stdout, stderr, pictures, .. } = supervised;
        let duration = started.elapsed();
        let is_capped = stdout.is_capped() || stderr.is_capped();
        // Without a folder it has ended by now.
        self.wait_for_removal(supervisor, listed).await;
        let (is_starved, has_slept) = if let Report::Killed { is_starved, has_slept } = report
            && cause == Cause::TimedOut
        {
            (is_starved, has_slept)
        } else {
            (false, false)
        };
        let took_pipes = report == Report::TooManyPipes;
        let ending = ending(cause, is_capped, report)?;

        Ok(Outcome {
            ending,
            stdout: stdout.finish(),
            stderr: stderr.finish(),
            pictures: pictures.finish().await,
            duration,
            took_pipes,
            is_starved,
            has_slept,
            tier: Some(tier),
            memory_bound,
            start: Start::Cold,
            advice: None,
            receipt: None,
        })
    }

    /// Sees the processes of a run to their end, and returns what its supervisor reports.
    async fn end(
        &self,
        mut supervised: Supervised,
        cause: Cause,
        group: Option<&GroupOrder>,
    ) -> Result<(Supervised, Report), RunError> {
        match supervised.end(cause).await {
            End::Reported(report) => Ok((supervised, report)),
            End::SupervisorDied => {
                drop(supervised.listed);
                self.clear_up().await;
                if let Some(group) = group {
                    self.groups.remove_orphaned(group);
                }
                Err(RunError::SupervisorDied)
            }
            End::Unended => {
                tracing::error!(
                    "the processes of a run were killed and do not end; no code runs until they have"
                );
                tokio::spawn(supervised.outlast(self.supervisors.note_unended()));
                Err(RunError::DoesNotEnd)
            }
        }
    }

    /// Waits until a supervisor has removed its run's folder. Where that takes long, it goes on by
    /// itself; at most [`REMOVALS_MAX`] of them do, so that disks do not fill up behind them.
    async fn wait_for_removal(&self, mut supervisor: Child, listed: Listed) {
        if let Ok(ended) = timeout(REMOVAL_PATIENCE, supervisor.wait()).await {
            return log_removal(&ended);
        }
        tracing::warn!("the folder of a run has so many files that their removal goes on");
        let Ok(place) = Arc::clone(&self.removals).try_acquire_owned() else {
            return log_removal(&supervisor.wait().await);
        };
        tokio::spawn(async move {
            log_removal(&supervisor.wait().await);
            drop((listed, place));
        });
    }

    /// Searches for what a supervisor that was killed watched over, kills it, and removes its folder.
    async fn clear_up(&self) {
        tracing::error!("a supervisor was killed; killing what it watched over");
        let supervisors = self.supervisors.clone();
        let mut clearing = tokio::spawn(async move {
            supervisors.kill_orphans().await;
            Supervisors::sweep().await;
        });
        if timeout(END_PATIENCE, &mut clearing).await.is_err() {
            tracing::error!("what a killed supervisor watched over does not end");
            let unended = self.supervisors.note_unended();
            tokio::spawn(async move {
                let _ = clearing.await;
                drop(unended);
            });
        }
    }
}

impl Executor for OneShotExecutor {
    fn run(
        &self,
        script: AuthorizedScript,
        limits: RunLimits,
        cancel: CancellationToken,
        echo: Echo,
    ) -> BoxFuture<'_, Ran> {
        Box::pin(async move {
            let Some(contained) = self.contained_for_run(&cancel).await? else {
                return Ok(Outcome::never_started());
            };
            let limits = RunLimits { takes_pictures: self.takes_pictures, ..limits };
            self.supervise(contained, Given::to(&script), limits, &cancel, &echo).await
        })
    }

    fn readiness(&self) -> BoxFuture<'_, Readiness> {
        Box::pin(async {
            match self.contained().await {
                Ok(contained) => Ok(Some(contained.ready())),
                // Without an interpreter the run itself says so.
                Err(NotContained::FindInterpreter(_)) => Ok(None),
                Err(NotContained::Sandbox(missing)) => Err(missing),
            }
        })
    }

    fn run_project(&self, project: ProjectRun, cancel: CancellationToken) -> BoxFuture<'_, Ran> {
        Box::pin(async move {
            let Some(contained) = self.contained_for_run(&cancel).await? else {
                return Ok(Outcome::never_started());
            };
            let contained = contained.for_project(&project)?;
            let echo = Echo::default();
            let given = Given::source(&project.source);
            self.supervise(&contained, given, project.limits, &cancel, &echo).await
        })
    }

    fn installation(&self) -> BoxFuture<'_, Option<Installation>> {
        Box::pin(async move {
            let found = self.found().await.ok()?;
            let interpreter = &found.interpreter;
            Some(Installation {
                source: found.source.clone(),
                program: interpreter.reach.program.clone(),
                version: interpreter.version.clone(),
                packages: interpreter.packages.clone(),
            })
        })
    }

    fn inventory(&self, modules: Vec<String>) -> BoxFuture<'_, Option<InstalledPackages>> {
        Box::pin(async move { self.take_inventory(&modules).await })
    }

    fn surroundings(&self) -> BoxFuture<'_, Option<Arc<Surroundings>>> {
        Box::pin(async move {
            let contained = self.contained().await.ok()?;
            Some(Arc::clone(self.surroundings.get_or_init(|| Arc::new(contained.surroundings()))))
        })
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.groups.close() })
    }
}

fn ending(cause: Cause, is_capped: bool, report: Report) -> Result<Ending, RunError> {
    match (cause, report) {
        (_, Report::NotStarted(reason)) => Err(RunError::StartPython(reason)),
        (Cause::TimedOut, _) => Ok(Ending::TimedOut),
        (Cause::Cancelled, _) => Ok(Ending::Cancelled),
        (Cause::Reported | Cause::Capped, Report::OutOfMemory | Report::TooManyPipes) => {
            Ok(Ending::OutOfMemory)
        }
        // A script that has just ended when its output reaches the cap is no exception.
        (Cause::Reported | Cause::Capped, Report::Exited(code)) if !is_capped => {
            Ok(Ending::Exited(code))
        }
        // Without a cap: the supervisor was asked to end by a signal, and killed the run.
        (Cause::Reported | Cause::Capped, Report::Exited(_) | Report::Killed { .. }) => {
            Ok(Ending::Exited(Ending::KILLED))
        }
    }
}
