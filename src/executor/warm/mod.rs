//! Runs scripts in warm interpreters, in less time than Python needs to start.
//!
//! A fork server (`python/fork_server.py`) is a trusted Python process that has imported packages for scripts. It forks
//! a child for each script. The child applies every layer of a cold run's sandbox to itself. The child is a spare until
//! it receives a script. Each child runs only one script.
//!
//! The module `fork_server` starts the fork server and communicates with it. `spare` is the server's side of one child.
//! `pool` keeps some children ready. If a warm run fails before any output was passed on, the script runs in a new
//! interpreter. Fork servers exist at tier 3 only.
//!
//! The more modules a fork server has loaded, the longer each fork takes. So there are several fork servers, each with
//! more modules than the previous one. A script gets the first fork server that has loaded all of the script's imports
//! ([`choice`]).

mod exit_status;
mod fork_server;
mod pool;
mod runs_watch;
mod spare;
mod spare_group;

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::aibom::InstalledPackages;
use crate::config::Settings;
use crate::gateway::AuthorizedScript;

use self::fork_server::{ForkServer, ForkServerError, Loading};
use self::pool::{Fitness, Pool};
use self::runs_watch::RunsWatch;
use self::spare::NoOutcome;
use super::given::Given;
use super::limits::{RETRY_INTERVAL, cpu_seconds};
use super::{
    Echo, Executor, ForkServers, Installation, OneShotExecutor, Outcome, ProjectRun, Ran,
    Readiness, RunError, RunLimits, Surroundings, Untrusted, choice,
};

/// The maximum number of fork servers that are started together with the server.
const WARMED_UP_MAX: usize = 2;

/// An executor that runs each script in a child of a fork server, or in a new interpreter.
#[derive(Debug)]
pub(crate) struct WarmExecutor {
    alone: Arc<OneShotExecutor>,
    /// One keeper for each fork server. Each fork server loads more modules than the previous fork server.
    keepers: Vec<Arc<Keeper>>,
    is_deterministic: bool,
}

/// Starts one fork server, and replaces it when necessary.
#[derive(Debug)]
struct Keeper {
    alone: Arc<OneShotExecutor>,
    /// The watch that checks the limits of all warm runs. All fork servers share this watch.
    watch: Arc<RunsWatch>,
    loading: Loading,
    /// The number of runs after which a fork server is replaced ([`Fitness::Worn`]).
    runs_max: u64,
    /// The time without a call after which the fork server ends; `None` if it never ends for this reason.
    idle: Option<Duration>,
    state: Mutex<State>,
    /// Notified when the start of a fork server has succeeded or failed, and when the server shuts down.
    changed: Notify,
    /// The number of fork servers that became ready.
    starts: AtomicU64,
    closing: CancellationToken,
    /// The tasks that must end before the server ends.
    tasks: TaskTracker,
}

#[derive(Debug)]
enum State {
    /// No fork server exists. The next call starts one.
    Absent,
    /// A fork server is starting.
    Starting,
    Ready(Arc<Pool>, Succession),
    /// The start failed. There is no retry before `until`.
    Unavailable {
        until: Instant,
    },
    /// The server is shutting down.
    Closed,
}

/// The state of the successor, which will replace a running fork server. A fork server gets a successor when it is worn
/// ([`Fitness::Worn`]).
#[derive(Debug, Clone, Copy)]
enum Succession {
    NotDue,
    /// The successor is starting. Until it is ready, the worn fork server continues.
    Starting,
    /// The start of the successor failed. There is no retry before `until`.
    Unavailable {
        until: Instant,
    },
}

impl State {
    fn unavailable() -> Self {
        Self::Unavailable { until: Instant::now() + RETRY_INTERVAL }
    }

    /// Returns the state after `pool` has failed. A pool that never delivered a child is not replaced at once, because
    /// otherwise its successors could fail without end.
    fn after(pool: &Pool) -> Self {
        if pool.has_served() { Self::Absent } else { Self::unavailable() }
    }
}

impl WarmExecutor {
    /// Creates an executor for the interpreter and the sandbox of these settings. No code of the `untrusted` folder
    /// runs outside of that sandbox, or in a fork server.
    pub(crate) fn new(settings: &Settings, untrusted: Untrusted) -> Self {
        let mut alone = OneShotExecutor::new(settings, untrusted);
        alone.preload.clone_from(&settings.preload);
        let alone = Arc::new(alone);
        let watch = Arc::<RunsWatch>::default();
        let keeper = |count: usize| {
            let modules = settings.preload.iter().take(count).flatten().cloned().collect();
            let watch = Arc::clone(&watch);
            Arc::new(Keeper::new(Arc::clone(&alone), watch, settings, modules))
        };
        Self {
            keepers: (1..=settings.preload.len()).map(keeper).collect(),
            is_deterministic: settings.deterministic.is_some(),
            alone,
        }
    }

    /// Returns a ready fork server for a script. The module `choice` selects the best fork server by the script's
    /// imports. If the best fork server is not ready, starts it for later scripts, and returns another ready fork
    /// server: if possible one with more modules, otherwise one with fewer modules. A deterministic run waits for the
    /// best fork server instead, because addresses in children depend on the loaded modules.
    async fn pool(&self, script: &AuthorizedScript) -> Option<(&Arc<Keeper>, Arc<Pool>)> {
        let loaded: Vec<_> =
            self.keepers.iter().map(|keeper| &keeper.loading.modules[..]).collect();
        let (less, enough) = self.keepers.split_at(choice::of(script.imports(), &loaded));
        if self.is_deterministic {
            let best = enough.first()?;
            return Some((best, best.when_ready().await?));
        }
        let best = enough.first().and_then(|keeper| Some((keeper, keeper.pool()?)));
        let mut others = enough.iter().skip(1).chain(less.iter().rev());
        best.or_else(|| others.find_map(|keeper| Some((keeper, keeper.ready()?))))
    }

    async fn run_script(
        &self,
        script: AuthorizedScript,
        limits: RunLimits,
        cancel: CancellationToken,
        echo: Echo,
    ) -> Result<Outcome, RunError> {
        let pool = timeout(limits.timeout, self.pool(&script));
        let Some(pool) = cancel.run_until_cancelled(pool).await else {
            return Ok(Outcome::never_started());
        };
        if let Ok(Some((keeper, pool))) = pool {
            let _counted = self.alone.count_run();
            let taken = async { (self.alone.unsettled().await, pool.take().await) };
            let Some((unsettled, spare)) = cancel.run_until_cancelled(taken).await else {
                return Ok(Outcome::never_started());
            };
            // While `_busy` exists, the pool delays the preparation of more children.
            if let Some((spare, _busy)) = spare {
                let supervisors = &self.alone.supervisors;
                supervisors.require_ended()?;
                let limits = RunLimits { neighbours: self.alone.neighbours(), ..limits };
                match spare.run(Given::to(&script), limits, &cancel, &echo, unsettled).await {
                    Ok(outcome) => {
                        if let Ok(contained) = self.alone.contained().await {
                            contained.note_observed(outcome.end_report.observed.as_ref());
                        }
                        return Ok(outcome);
                    }
                    Err(NoOutcome::Lost) if echo.has_begun() => {
                        keeper.retire(&pool, State::after(&pool));
                        return Err(RunError::SupervisorDied);
                    }
                    // No output was passed on, so the script can run again.
                    Err(NoOutcome::Lost) => {
                        tracing::warn!("the fork server died; running the script alone");
                    }
                    Err(NoOutcome::DoesNotEnd(ended, supervisor)) => {
                        tracing::error!(
                            "a script was killed and does not end; no code runs until it has"
                        );
                        let unended = supervisors.note_unended();
                        let supervisors = supervisors.clone();
                        tokio::spawn(async move {
                            if ended.await.is_err() {
                                supervisors.wait_for_end_of(supervisor).await;
                            }
                            drop(unended);
                            tracing::warn!("a killed script has ended");
                        });
                        // Retiring the pool ends the fork server. The end of the fork server kills all its children,
                        // including this script.
                        keeper.retire(&pool, State::after(&pool));
                        return Err(RunError::DoesNotEnd);
                    }
                }
            }
            keeper.retire(&pool, State::after(&pool));
        }
        self.alone.run(script, limits, cancel, echo).await
    }
}

impl Keeper {
    fn new(
        alone: Arc<OneShotExecutor>,
        watch: Arc<RunsWatch>,
        settings: &Settings,
        modules: Vec<String>,
    ) -> Self {
        let longest = settings.sync_timeout.max(settings.background_timeout);
        Self {
            alone,
            watch,
            loading: Loading { modules, cpu_seconds: cpu_seconds(longest) },
            runs_max: settings.fork_server_runs_max,
            idle: settings.warm_idle,
            state: Mutex::new(State::Absent),
            changed: Notify::new(),
            starts: AtomicU64::new(0),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the pool, if it is ready. Starts a fork server for later calls if none is usable, or if the current fork
    /// server is worn.
    fn pool(self: &Arc<Self>) -> Option<Arc<Pool>> {
        let (pool, is_wanted) = self.ready_or_claim_start();
        if is_wanted {
            self.tasks.spawn(Arc::clone(self).start());
        }
        pool
    }

    /// Waits until the pool is ready, and returns it. Like [`Self::pool`], starts a fork server if necessary. `None` if
    /// no fork server becomes ready.
    async fn when_ready(self: &Arc<Self>) -> Option<Arc<Pool>> {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(pool) = self.pool() {
                return Some(pool);
            }
            // The start may have ended after `pool` returned. In these two states, no fork server will become ready. In
            // the other states, a fork server is starting or is already ready.
            if matches!(*self.state(), State::Unavailable { .. } | State::Closed) {
                return None;
            }
            changed.await;
        }
    }

    /// Returns the pool, if it is ready. Starts nothing.
    fn ready(&self) -> Option<Arc<Pool>> {
        match &*self.state() {
            State::Ready(pool, _) if pool.fitness(self.runs_max) != Fitness::Outdated => {
                Some(Arc::clone(pool))
            }
            State::Ready(..)
            | State::Absent
            | State::Starting
            | State::Unavailable { .. }
            | State::Closed => None,
        }
    }

    /// Returns the pool, if it is ready, and whether the caller must start a fork server.
    fn ready_or_claim_start(&self) -> (Option<Arc<Pool>>, bool) {
        let mut state = self.state();
        match &mut *state {
            State::Ready(pool, succession) => match pool.fitness(self.runs_max) {
                Fitness::Fit => return (Some(Arc::clone(pool)), false),
                Fitness::Worn => {
                    let is_wanted = match succession {
                        Succession::NotDue => true,
                        Succession::Starting => false,
                        Succession::Unavailable { until } => Instant::now() >= *until,
                    };
                    if is_wanted {
                        *succession = Succession::Starting;
                    }
                    return (Some(Arc::clone(pool)), is_wanted);
                }
                Fitness::Outdated => {}
            },
            State::Unavailable { until } if Instant::now() < *until => return (None, false),
            State::Starting | State::Closed => return (None, false),
            State::Unavailable { .. } | State::Absent => {}
        }
        *state = State::Starting;
        (None, true)
    }

    /// Begins the shutdown, which is complete when `tasks` have ended.
    fn close(&self) {
        self.closing.cancel();
        *self.state() = State::Closed;
        self.changed.notify_waiters();
        self.tasks.close();
    }

    /// Ensures that `pool` is not used again. `next` is the new state. If a successor of the pool is already starting,
    /// the new state is `Starting` instead.
    fn retire(&self, pool: &Arc<Pool>, next: State) {
        let mut state = self.state();
        if let State::Ready(current, succession) = &*state
            && Arc::ptr_eq(current, pool)
        {
            *state =
                if matches!(succession, Succession::Starting) { State::Starting } else { next };
        }
    }

    async fn start(self: Arc<Self>) {
        let started = Instant::now();
        let server = tokio::select! {
            server = ForkServer::start(&self.alone, &self.loading, &self.watch, &self.tasks) => server,
            () = self.closing.cancelled() => return,
        };
        let pool = match server {
            Ok((server, packages)) => {
                tracing::info!(duration = ?started.elapsed(), "interpreters are warm");
                Some(Arc::new(Pool::new(server, packages, &self.tasks)))
            }
            // These errors are expected with some settings and on some machines. So they are not logged as warnings.
            Err(
                error @ (ForkServerError::NotAtThisTier
                | ForkServerError::NotCPython(_)
                | ForkServerError::Untrusted),
            ) => {
                tracing::info!("{error}");
                None
            }
            Err(error) => {
                tracing::warn!("warm interpreters cannot be used: {error}");
                None
            }
        };
        let mut state = self.state();
        match (&mut *state, pool) {
            (State::Closed, _) => {}
            (_, Some(pool)) => {
                if let Some(idle) = self.idle {
                    // The shutdown need not wait for this task, because the task only sleeps and owns no resources. So
                    // `tasks` does not track it.
                    let (keeper, pool) = (Arc::downgrade(&self), Arc::downgrade(&pool));
                    tokio::spawn(retire_when_idle(keeper, pool, idle));
                }
                self.starts.fetch_add(1, Ordering::Relaxed);
                *state = State::Ready(pool, Succession::NotDue);
            }
            (State::Ready(_, succession), None) => {
                *succession = Succession::Unavailable { until: Instant::now() + RETRY_INTERVAL };
            }
            (_, None) => *state = State::unavailable(),
        }
        drop(state);
        self.changed.notify_waiters();
    }
}

/// Retires `pool` as soon as it has been unused for `idle`.
async fn retire_when_idle(keeper: Weak<Keeper>, pool: Weak<Pool>, idle: Duration) {
    loop {
        let Some(current) = pool.upgrade() else { return };
        let remaining = current.idle_remaining(idle);
        if remaining.is_zero() {
            let Some(keeper) = keeper.upgrade() else { return };
            tracing::info!("the fork server was idle and is stopped");
            return keeper.retire(&current, State::Absent);
        }
        drop(current);
        sleep(remaining).await;
    }
}

impl Executor for WarmExecutor {
    fn run(
        &self,
        script: AuthorizedScript,
        limits: RunLimits,
        cancel: CancellationToken,
        echo: Echo,
    ) -> BoxFuture<'_, Ran> {
        Box::pin(self.run_script(script, limits, cancel, echo))
    }

    fn readiness(&self) -> BoxFuture<'_, Readiness> {
        self.alone.readiness()
    }

    fn run_project(&self, project: ProjectRun, cancel: CancellationToken) -> BoxFuture<'_, Ran> {
        self.alone.run_project(project, cancel)
    }

    fn installation(&self) -> BoxFuture<'_, Option<Installation>> {
        self.alone.installation()
    }

    fn inventory(&self, modules: Vec<String>) -> BoxFuture<'_, Option<InstalledPackages>> {
        self.alone.inventory(modules)
    }

    fn surroundings(&self) -> BoxFuture<'_, Option<Arc<Surroundings>>> {
        self.alone.surroundings()
    }

    fn with_interpreter(&self, settings: &Settings) -> Option<Arc<dyn Executor>> {
        self.alone.with_interpreter(settings)
    }

    fn warm_up(&self) {
        // Starts the first fork servers before a call needs them. They start one after another, so that the first one
        // is ready as soon as possible. Fork servers beyond `WARMED_UP_MAX` start with the first script that needs
        // them.
        let keepers: Vec<_> = self.keepers.iter().take(WARMED_UP_MAX).cloned().collect();
        if let Some(first) = self.keepers.first() {
            first.tasks.spawn(async move {
                for keeper in keepers {
                    if keeper.ready_or_claim_start().1 {
                        keeper.start().await;
                    }
                }
            });
        }
    }

    fn fork_servers(&self) -> ForkServers {
        let mut all = ForkServers::default();
        for keeper in &self.keepers {
            match &*keeper.state() {
                State::Ready(..) => all.ready += 1,
                State::Starting => all.starting += 1,
                State::Absent | State::Unavailable { .. } | State::Closed => all.off += 1,
            }
            all.restarts += keeper.starts.load(Ordering::Relaxed).saturating_sub(1);
        }
        all
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.keepers.iter().for_each(|keeper| keeper.close());
            for keeper in &self.keepers {
                keeper.tasks.wait().await;
            }
            self.alone.groups.close();
        })
    }
}
