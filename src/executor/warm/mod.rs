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
//! Scripts that draw have a fork server of their own, from the first one on: what drawing needs makes
//! every fork slower.

mod fork_server;
mod pool;
mod spare;
mod spare_group;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::aibom::InstalledPackages;
use crate::config::Settings;
use crate::gateway::AuthorizedScript;

use self::fork_server::{ForkServer, ForkServerError, Loading};
use self::pool::Pool;
use self::spare::NoOutcome;
use super::limits::CPU_GRACE;
use super::one_shot::without_byte_order_mark;
use super::{
    Echo, Executor, Installation, OneShotExecutor, Outcome, ProjectRun, Ran, Readiness, RunError,
    RunLimits, Untrusted,
};

/// The time without a fork server after one could not be started.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// The longest wait for a spare child before the script is started alone.
const SPARE_TIMEOUT: Duration = Duration::from_secs(5);

/// The libraries whose scripts draw, by their topmost modules.
const DRAWING: [&str; 4] = ["matplotlib", "mpl_toolkits", "pylab", "seaborn"];

/// Runs each script in a child of a fork server, or alone in a new interpreter.
#[derive(Debug)]
pub(crate) struct WarmExecutor {
    alone: Arc<OneShotExecutor>,
    /// The fork server of most scripts.
    usual: Arc<Keeper>,
    /// The fork server of scripts that draw, where it loads more than the usual one.
    drawing: Option<Arc<Keeper>>,
}

/// The keeper of one fork server, which starts it, and starts it again.
#[derive(Debug)]
struct Keeper {
    alone: Arc<OneShotExecutor>,
    loading: Loading,
    /// The time that the fork server stays without a call; `None` is for ever.
    idle: Option<Duration>,
    state: Mutex<State>,
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
    Ready(Arc<Pool>),
    /// Start-up failed; no retry before `until`.
    Unavailable {
        until: Instant,
    },
    /// The server ends.
    Closed,
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
        let keeper =
            |modules: Vec<String>| Arc::new(Keeper::new(Arc::clone(&alone), settings, modules));
        let more = &settings.preload_for_drawing;
        let drawing = (!more.is_empty()).then(|| keeper([&settings.preload[..], more].concat()));
        Self { usual: keeper(settings.preload.clone()), drawing, alone }
    }

    /// Returns the best fork server for a script that is ready. A better one is started for later
    /// scripts.
    fn pool(&self, script: &AuthorizedScript) -> Option<(&Arc<Keeper>, Arc<Pool>)> {
        let is_drawing = |name: &str| DRAWING.contains(&name.split('.').next().unwrap_or(name));
        let draws = script.imports().iter().any(|name| is_drawing(name));
        let drawing = self.drawing.iter().filter(|_| draws);
        drawing.chain([&self.usual]).find_map(|keeper| Some((keeper, keeper.pool()?)))
    }

    async fn run_script(
        &self,
        script: AuthorizedScript,
        limits: RunLimits,
        cancel: CancellationToken,
        echo: Echo,
    ) -> Result<Outcome, RunError> {
        if let Some((keeper, pool)) = self.pool(&script) {
            let spare = tokio::select! {
                spare = timeout(SPARE_TIMEOUT, pool.take()) => spare.ok().flatten(),
                () = cancel.cancelled() => return Ok(Outcome::never_started()),
            };
            // Until the result is there, no other child is made without need.
            if let Some((spare, _busy)) = spare {
                let supervisors = &self.alone.supervisors;
                supervisors.require_ended()?;
                let source = without_byte_order_mark(script.source().as_str());
                match spare.run(source, limits, &cancel, &echo).await {
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
    fn new(alone: Arc<OneShotExecutor>, settings: &Settings, modules: Vec<String>) -> Self {
        let longest = settings.sync_timeout.max(settings.background_timeout);
        let cpu_seconds = (longest + CPU_GRACE + Duration::from_millis(999)).as_secs();
        Self {
            alone,
            loading: Loading { modules, cpu_seconds },
            idle: settings.warm_idle,
            state: Mutex::new(State::Absent),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the pool, if it is ready. If there is none, one is started for later calls.
    fn pool(self: &Arc<Self>) -> Option<Arc<Pool>> {
        let mut state = self.state();
        match &*state {
            State::Ready(pool) if pool.is_usable() => return Some(Arc::clone(pool)),
            State::Unavailable { until } if Instant::now() < *until => return None,
            State::Starting | State::Closed => return None,
            State::Ready(_) | State::Unavailable { .. } | State::Absent => {}
        }
        *state = State::Starting;
        self.tasks.spawn(Arc::clone(self).start());
        None
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
        if matches!(&*state, State::Ready(current) if Arc::ptr_eq(current, pool)) {
            *state = next;
        }
    }

    async fn start(self: Arc<Self>) {
        let started = Instant::now();
        let server = tokio::select! {
            server = ForkServer::start(&self.alone, &self.loading, &self.tasks) => server,
            () = self.closing.cancelled() => return,
        };
        let pool = match server {
            Ok(server) => {
                tracing::info!(duration = ?started.elapsed(), "interpreters are warm");
                Some(Arc::new(Pool::new(server, &self.alone.untrusted, &self.tasks)))
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
        match (&*state, pool) {
            (State::Closed, _) => {}
            (_, Some(pool)) => {
                if let Some(idle) = self.idle {
                    // Not tracked: it only sleeps, and holds nothing.
                    let (keeper, pool) = (Arc::downgrade(&self), Arc::downgrade(&pool));
                    tokio::spawn(let_go_when_idle(keeper, pool, idle));
                }
                *state = State::Ready(pool);
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

    fn warm_up(&self) {
        // The call that comes first starts it otherwise.
        let _ = self.usual.pool();
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let keepers = || self.drawing.iter().chain([&self.usual]);
            keepers().for_each(|keeper| keeper.close());
            for keeper in keepers() {
                keeper.tasks.wait().await;
            }
            self.alone.groups.close();
        })
    }
}
