//! Warm interpreters: a verification is answered faster than Python starts.
//!
//! A fork server (`fork_server.py`) is one trusted Python process that has loaded what
//! verifications use. It forks a child for each script. The child takes on every layer that a script
//! has that is started alone, and waits: it is a spare until a script comes. Each runs one script,
//! and none was ever near another one.
//!
//! `fork_server` starts the process and talks to it, `spare` is one of its children from the
//! server's side, `pool` keeps some of them ready. On any failure the script runs alone, in a new
//! interpreter. Tier 3 only.
//!
//! The more a fork server has loaded, the longer each fork takes. So there are several, each with
//! more than the one before, and a script gets the first that has what it imports ([`choice`]).

mod fork_server;
mod pool;
mod runs_watch;
mod spare;
mod spare_group;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::time::sleep;
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

/// The fork servers that are started with the server, of those that there are.
const WARMED_UP_MAX: usize = 2;

/// Runs each script in a child of a fork server, or alone in a new interpreter.
#[derive(Debug)]
pub(crate) struct WarmExecutor {
    alone: Arc<OneShotExecutor>,
    /// One or more; each loads more than the one before.
    keepers: Vec<Arc<Keeper>>,
}

/// The keeper of one fork server, which starts it, and starts it again.
#[derive(Debug)]
struct Keeper {
    alone: Arc<OneShotExecutor>,
    /// The watch of all runs, whichever fork server has forked them.
    watch: Arc<RunsWatch>,
    loading: Loading,
    /// The most runs of one fork server.
    runs_max: u64,
    /// The time that the fork server stays without a call; `None` is for ever.
    idle: Option<Duration>,
    state: Mutex<State>,
    /// The fork servers that were ready.
    starts: AtomicU64,
    closing: CancellationToken,
    /// Tasks that have to end before the server does.
    tasks: TaskTracker,
}

#[derive(Debug)]
enum State {
    /// There is none. The next call starts one.
    Absent,
    /// There will be one.
    Starting,
    Ready(Arc<Pool>, Succession),
    /// Start-up failed; no retry before `until`.
    Unavailable {
        until: Instant,
    },
    /// The server ends.
    Closed,
}

/// The state of the fork server that comes after one that is worn.
#[derive(Debug, Clone, Copy)]
enum Succession {
    NotDue,
    /// There will be one; until then the worn one goes on.
    Starting,
    /// Start-up failed; no retry before `until`.
    Unavailable {
        until: Instant,
    },
}

impl State {
    fn unavailable() -> Self {
        Self::Unavailable { until: Instant::now() + RETRY_INTERVAL }
    }

    /// Returns the state after `pool` has failed. One that never gave a child is not replaced at once:
    /// there would be no end of it.
    fn after(pool: &Pool) -> Self {
        if pool.has_served() { Self::Absent } else { Self::unavailable() }
    }
}

impl WarmExecutor {
    /// Makes an executor for the interpreter and the sandbox that the settings want. Nothing of the
    /// `untrusted` folder runs outside of that, nor in a fork server.
    pub(crate) fn new(settings: &Settings, untrusted: Untrusted) -> Self {
        let alone = Arc::new(OneShotExecutor::new(settings, untrusted));
        let watch = Arc::<RunsWatch>::default();
        let keeper = |count: usize| {
            let modules = settings.preload.iter().take(count).flatten().cloned().collect();
            let watch = Arc::clone(&watch);
            Arc::new(Keeper::new(Arc::clone(&alone), watch, settings, modules))
        };
        Self { keepers: (1..=settings.preload.len()).map(keeper).collect(), alone }
    }

    /// Returns the best fork server for a script that is ready: the first that has loaded what the
    /// script imports, else one that has loaded more, else less. The first is started for later
    /// scripts where it is not there.
    fn pool(&self, script: &AuthorizedScript) -> Option<(&Arc<Keeper>, Arc<Pool>)> {
        let loaded: Vec<_> =
            self.keepers.iter().map(|keeper| &keeper.loading.modules[..]).collect();
        let (less, enough) = self.keepers.split_at(choice::of(script.imports(), &loaded));
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
        if let Some((keeper, pool)) = self.pool(&script) {
            let _counted = self.alone.count_run();
            let spare = tokio::select! {
                spare = pool.take() => spare,
                () = cancel.cancelled() => return Ok(Outcome::never_started()),
            };
            // Until the result is there, no other child is made without need.
            if let Some((spare, _busy)) = spare {
                let supervisors = &self.alone.supervisors;
                supervisors.require_ended()?;
                let limits = RunLimits { neighbours: self.alone.neighbours(), ..limits };
                match spare.run(Given::to(&script), limits, &cancel, &echo).await {
                    Ok(outcome) => return Ok(outcome),
                    Err(NoOutcome::Lost) if echo.has_begun() => {
                        keeper.retire(&pool, State::after(&pool));
                        return Err(RunError::SupervisorDied);
                    }
                    // Nobody has seen anything of it: it can be run again.
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
                            tracing::warn!("a killed script has ended at last");
                        });
                        // With its fork server it is killed once more.
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
            starts: AtomicU64::new(0),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the pool, if it is ready. If there is none, or it is worn, one is started for later
    /// calls.
    fn pool(self: &Arc<Self>) -> Option<Arc<Pool>> {
        let (pool, is_wanted) = self.look();
        if is_wanted {
            self.tasks.spawn(Arc::clone(self).start());
        }
        pool
    }

    /// Returns the pool, if it is ready, and starts nothing.
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

    /// Returns the pool, if it is ready, and whether the caller has to start another.
    fn look(&self) -> (Option<Arc<Pool>>, bool) {
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

    /// Has everything end. Its tasks are to be waited for.
    fn close(&self) {
        self.closing.cancel();
        *self.state() = State::Closed;
        self.tasks.close();
    }

    /// Makes sure that `pool` is not used again.
    fn retire(&self, pool: &Arc<Pool>, next: State) {
        let mut state = self.state();
        if let State::Ready(current, succession) = &*state
            && Arc::ptr_eq(current, pool)
        {
            // One is on its way.
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
            // The admin wants it so, and knows.
            Err(error @ (ForkServerError::NotAtThisTier | ForkServerError::Untrusted)) => {
                tracing::info!("{error}");
                None
            }
            Err(error) => {
                tracing::warn!("interpreters stay cold: {error}");
                None
            }
        };
        let mut state = self.state();
        match (&mut *state, pool) {
            (State::Closed, _) => {}
            (_, Some(pool)) => {
                if let Some(idle) = self.idle {
                    // Not tracked: it only sleeps, and holds nothing.
                    let (keeper, pool) = (Arc::downgrade(&self), Arc::downgrade(&pool));
                    tokio::spawn(let_go_when_idle(keeper, pool, idle));
                }
                self.starts.fetch_add(1, Ordering::Relaxed);
                *state = State::Ready(pool, Succession::NotDue);
            }
            (State::Ready(_, succession), None) => {
                *succession = Succession::Unavailable { until: Instant::now() + RETRY_INTERVAL };
            }
            (_, None) => *state = State::unavailable(),
        }
    }
}

/// Retires `pool` when it was not used for `idle`.
async fn let_go_when_idle(keeper: Weak<Keeper>, pool: Weak<Pool>, idle: Duration) {
    loop {
        let Some(current) = pool.upgrade() else { return };
        let remaining = current.idle_remaining(idle);
        if remaining.is_zero() {
            let Some(keeper) = keeper.upgrade() else { return };
            tracing::info!("the fork server was idle and is let go");
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

    fn warm_up(&self) {
        // The call that comes first starts it otherwise. One after the other: the first, which most
        // scripts can use, is ready as soon as can be. Those of scripts that draw start theirs.
        let keepers: Vec<_> = self.keepers.iter().take(WARMED_UP_MAX).cloned().collect();
        if let Some(first) = self.keepers.first() {
            first.tasks.spawn(async move {
                for keeper in keepers {
                    if keeper.look().1 {
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
