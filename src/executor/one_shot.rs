//! Runs each script in a new interpreter. No interpreter is used twice.

use std::io;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::process::Child;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
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
use super::side_channel::Sent;
use super::supervised::{Cause, End, Supervised, log_removal};
use super::supervisors::{Listed, Supervisors};
use super::untrusted::Untrusted;
use super::{
    Executor, Installation, ProjectRun, Ran, Readiness, RunError, RunLimits, Surroundings,
};
use crate::sandbox::report::Report;

/// An executor that runs each script in a new interpreter, under its own supervisor.
#[derive(Debug)]
pub(crate) struct OneShotExecutor {
    pub(super) containment: Containment,
    /// The folder with code that may only run in the sandbox.
    pub(super) untrusted: Untrusted,
    pub(super) supervisors: Supervisors,
    pub(super) groups: Arc<RunGroups>,
    /// Whether the pictures that scripts make are collected.
    pub(super) takes_pictures: bool,
    /// The permits to remove the folders of ended runs in the background ([`REMOVALS_MAX`]).
    removals: Arc<Semaphore>,
    /// The number of current runs, including runs that are about to start.
    runs: Arc<AtomicU64>,
    /// The maximum number of concurrent runs.
    runs_max: u64,
    /// Locked while a supervisor starts, so that supervisors start one at a time.
    starts: Arc<Mutex<()>>,
    /// The permits for runs that do not have their CPU weights yet ([`UNSETTLED_MAX`]).
    unsettled: Arc<Semaphore>,
    /// The lists of modules that the fork servers load; empty if this server uses no fork servers. Fork servers run
    /// only at tier 3.
    pub(super) preload: Vec<Vec<String>>,
    /// The interpreter and the sandbox of scripts. The first call of [`Executor::surroundings`] sets this field.
    surroundings: OnceLock<Arc<Surroundings>>,
}

/// Counts a run until this value is dropped.
pub(super) struct CountedRun(Arc<AtomicU64>);

impl Drop for CountedRun {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns a new path for the scratch folder of a run. The supervisor creates the folder.
fn scratch_place() -> PathBuf {
    std::env::temp_dir().join(format!("qwed-mcp-{}", Uuid::new_v4().simple()))
}

/// The maximum number of run folders that are removed in the background at the same time, after the outcomes of their
/// runs were returned.
const REMOVALS_MAX: usize = 4;

/// The maximum number of runs that do not have their CPU weights yet, for each processor. The CPU weight is a nice
/// value that lowers the run's share of CPU time. Without this nice value, a run gets as much CPU time as this server.
/// The nice value may come late on kernels that divide CPU time between sessions. There, an ordinary user may change
/// the nice values of only ten sessions per second (`sched(7)`).
const UNSETTLED_MAX: usize = 4;

/// The maximum time for which a run waits until earlier runs have their CPU weights. The wait has a limit, because
/// other users of the machine may use up the kernel's rate limit for nice values.
const UNSETTLED_PATIENCE: Duration = Duration::from_secs(10);

fn unsettled_max() -> usize {
    available_parallelism().map_or(1, NonZero::get) * UNSETTLED_MAX
}

impl OneShotExecutor {
    /// Creates an executor for the interpreter and the sandbox of these settings. No code of the `untrusted` folder
    /// runs outside of that sandbox.
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
            starts: Arc::default(),
            unsettled: Arc::new(Semaphore::new(unsettled_max())),
            preload: Vec::new(),
            surroundings: OnceLock::new(),
        }
    }

    /// Counts a run for as long as the returned value lives.
    pub(super) fn count_run(&self) -> CountedRun {
        self.runs.fetch_add(1, Ordering::Relaxed);
        CountedRun(Arc::clone(&self.runs))
    }

    /// Waits for a permit to start a run. The permits limit the number of runs that do not have their CPU weights yet.
    /// Drop the permit when the run has its CPU weight. Returns `None` after [`UNSETTLED_PATIENCE`]. The run then
    /// starts without a permit.
    pub(super) async fn unsettled(&self) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.unsettled).acquire_owned();
        timeout(UNSETTLED_PATIENCE, permit).await.ok()?.ok()
    }

    /// Returns the number of current runs, including the run of the caller, and the maximum number of concurrent runs.
    pub(super) fn neighbours(&self) -> Neighbours {
        let now = self.runs.load(Ordering::Relaxed).max(1);
        Neighbours { now, most: self.runs_max }
    }

    /// Returns the interpreter and the sandbox for scripts. The first call finds and tests them.
    pub(crate) async fn contained(&self) -> Result<&Contained, NotContained> {
        // Finds the control group before any process is started, because moving earlier processes into it may be
        // impossible.
        self.groups.find().await;
        self.supervisors.sweep_once();
        Box::pin(self.containment.get(self)).await
    }

    /// Returns the interpreter for scripts, even if scripts cannot be confined.
    pub(super) async fn found(&self) -> Result<&Found, FindError> {
        self.groups.find().await;
        self.containment.finder.found().await
    }

    /// Returns the containment of a run; `None` if the run is cancelled first.
    async fn contained_for_run(
        &self,
        cancel: &CancellationToken,
    ) -> Result<Option<&Contained>, NotContained> {
        cancel.run_until_cancelled(self.contained()).await.transpose()
    }

    /// Runs a script of the server's own, for at most [`OWN_SCRIPT_TIMEOUT`].
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
        let group = self.groups.order(&contained.plan_for(limits));
        let run = self.supervise_in(contained, given, limits, cancel, echo, group).await;
        match run {
            // No process was started, so a second attempt without a control group is possible. All other limits still
            // apply to the run.
            Err(RunError::StartPython(LaunchError::JoinControlGroup(error))) => {
                self.groups.pause(&error.to_string());
                self.supervise_in(contained, given, limits, cancel, echo, None).await
            }
            run => run,
        }
    }

    /// Supervises one run. `group` is the control group for the run, if it has one.
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
        // Only the sandbox of Linux sets CPU weights.
        let unsettled = match contained.plan.tier {
            Tier::Off | Tier::Seatbelt => None,
            Tier::T1 | Tier::T2 | Tier::T3 => {
                let Some(permit) = cancel.run_until_cancelled(self.unsettled()).await else {
                    return Ok(Outcome::never_started());
                };
                permit
            }
        };
        // Supervisors start one at a time. Otherwise sixty runs that start together would slow each other down on a
        // busy machine.
        let starting = cancel.run_until_cancelled(self.starts.lock()).await;
        let Some(starting) = starting else { return Ok(Outcome::never_started()) };
        let limits = RunLimits { neighbours: self.neighbours(), ..limits };
        let started = Instant::now();
        let group = group.as_ref();
        let message = contained
            .order(given, &scratch_place(), limits, group)
            .map_err(RunError::StartSupervisor)?;
        let supervisors = self.supervisors.clone();
        let echo = echo.clone();
        // Starts the supervisor in another thread, because a start blocks its thread until the process runs. This
        // thread serves clients meanwhile.
        let has_side_channel = limits.takes_pictures || given.has_end_report();
        let start =
            move || Supervised::start(&supervisors, limits, has_side_channel, &echo, unsettled);
        let supervised = spawn_blocking(start).await.map_err(io::Error::from).flatten();
        drop(starting);
        let mut supervised = supervised.map_err(RunError::StartSupervisor)?;
        // If this server notices late that the run has ended, the timeout may also have expired. `biased` makes the end
        // of the run take precedence over the timeout.
        let cause = tokio::select! {
            biased;
            cause = supervised.follow(&message) => cause,
            () = sleep_until((started + limits.timeout).into()) => Cause::TimedOut,
            () = cancel.cancelled() => Cause::Cancelled,
        };
        let (supervised, report) = self.end(supervised, cause, group).await?;
        let Supervised { supervisor, listed, stdout, stderr, side_channel, .. } = supervised;
        let duration = started.elapsed();
        let is_capped = stdout.is_capped() || stderr.is_capped();
        // Waits until the supervisor has removed the run's folder. If the run has no folder, the supervisor has already
        // ended, so the wait takes no time.
        self.wait_for_removal(supervisor, listed).await;
        let (is_starved, has_slept) = if let Report::Killed { is_starved, has_slept } = report
            && cause == Cause::TimedOut
        {
            (is_starved, has_slept)
        } else {
            (false, false)
        };
        let took_pipes = report == Report::TooManyPipes;
        let tier = contained.plan.tier;
        let Sent { pictures, check_counts, end_report } = side_channel.finish().await;
        contained.note_observed(end_report.observed.as_ref());
        Ok(Outcome {
            ending: ending(cause, is_capped, report)?,
            stdout: stdout.finish(),
            stderr: stderr.finish(),
            pictures,
            check_counts,
            end_report,
            duration,
            took_pipes,
            is_starved,
            has_slept,
            tier: Some(tier),
            memory_bound: (tier > Tier::Off).then(|| MemoryBound::of_run(tier, group)),
            start: Start::Cold,
            advice: None,
            verdict: None,
            receipt: None,
            cached: None,
        })
    }

    /// Ends the processes of a run, and returns the report of its supervisor.
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
                    "the processes of a run were killed and do not end; no code runs until they \
                     have"
                );
                tokio::spawn(supervised.outlast(self.supervisors.note_unended()));
                Err(RunError::DoesNotEnd)
            }
        }
    }

    /// Waits until a supervisor has removed the folder of its run.
    async fn wait_for_removal(&self, mut supervisor: Child, listed: Listed) {
        let removal = async move {
            log_removal(&supervisor.wait().await);
            drop(listed);
        };
        self.removed(removal).await;
    }

    /// Waits until folders of runs are removed. After [`REMOVAL_PATIENCE`], the removal continues in the background, but
    /// at most [`REMOVALS_MAX`] removals do so at the same time. Without this limit, scripts could fill the disk faster
    /// than their folders are removed.
    async fn removed(&self, removal: impl Future<Output = ()> + Send + 'static) {
        let mut removal = Box::pin(removal);
        if timeout(REMOVAL_PATIENCE, &mut removal).await.is_ok() {
            return;
        }
        tracing::warn!(
            "the folder of a run has many files; its removal continues in the background"
        );
        let Ok(place) = Arc::clone(&self.removals).try_acquire_owned() else {
            return removal.await;
        };
        tokio::spawn(async move {
            removal.await;
            drop(place);
        });
    }

    /// Kills the processes that a killed supervisor watched, and removes the folder of their run.
    async fn clear_up(&self) {
        tracing::error!("a supervisor was killed; killing the processes of its run");
        let supervisors = self.supervisors.clone();
        let mut killing = tokio::spawn(async move { supervisors.kill_orphans().await });
        if timeout(END_PATIENCE, &mut killing).await.is_err() {
            tracing::error!("the processes of a killed supervisor do not end");
            let unended = self.supervisors.note_unended();
            tokio::spawn(async move {
                let _ = killing.await;
                drop(unended);
                Supervisors::sweep().await;
            });
            return;
        }
        self.removed(Supervisors::sweep()).await;
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
                // A missing interpreter is not an error here, because the run itself returns that error.
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
            Some(Arc::clone(
                self.surroundings.get_or_init(|| Arc::new(contained.surroundings(&self.preload))),
            ))
        })
    }

    fn with_interpreter(&self, settings: &Settings) -> Option<Arc<dyn Executor>> {
        Some(Arc::new(Self {
            containment: Containment::new(settings, self.untrusted.clone()),
            untrusted: self.untrusted.clone(),
            supervisors: self.supervisors.clone(),
            groups: Arc::clone(&self.groups),
            takes_pictures: self.takes_pictures,
            removals: Arc::clone(&self.removals),
            runs: Arc::clone(&self.runs),
            runs_max: self.runs_max,
            starts: Arc::clone(&self.starts),
            unsettled: Arc::clone(&self.unsettled),
            preload: Vec::new(),
            surroundings: OnceLock::new(),
        }))
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
        // A script with too much output is reported as killed, even if it ended by itself before the server killed it.
        (Cause::Reported | Cause::Capped, Report::Exited(code)) if !is_capped => {
            Ok(Ending::Exited(code))
        }
        // `Killed` without an exceeded limit means that the supervisor received a signal to end. The supervisor then
        // killed the run.
        (Cause::Reported | Cause::Capped, Report::Exited(_) | Report::Killed { .. }) => {
            Ok(Ending::Exited(Ending::KILLED))
        }
    }
}
