//! Interpreters that are started ahead on macOS, where nothing in the sandbox can fork.
//!
//! A spare is a run without a script: a supervisor has started Python, which has entered the sandbox, has
//! loaded what verifications use, and waits (`python/spare.py`). It gets one script, and is from then on like
//! any other run. Nothing of a script was ever in it, and it has no right that a script has not.
//!
//! There is one spare at a time, and the next one is made behind it: that takes as long as all imports
//! together, but nobody waits for it. Where there is none a script runs in a new interpreter.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde_json::json;
use thiserror::Error;
use tokio::sync::{Notify, oneshot};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::aibom::InstalledPackages;
use crate::config::Settings;
use crate::gateway::AuthorizedScript;
use crate::sandbox::report::Report;
use crate::sandbox::{LaunchError, Limits, Role, Tier, hand_over};

use super::containment::NotContained;
use super::given::Given;
use super::limits::{LOAD_TIMEOUT, RETRY_INTERVAL, cpu_seconds};
use super::one_shot::{Begun, scratch_place};
use super::outcome::Start;
use super::package_folders::PackageFolders;
use super::supervised::{Cause, Supervised};
use super::{
    Echo, Executor, Installation, OneShotExecutor, Outcome, ProjectRun, Ran, Readiness, RunError,
    RunLimits, Surroundings, Untrusted, choice,
};

/// The longest delay of a new spare while a script runs, if a processor is free for it: the script is what
/// somebody waits for, and most are over by then.
const PUT_OFF_MAX: Duration = Duration::from_millis(250);

/// The longest life of a spare. Nothing is known to go wrong in a longer one, but systems clear folders for
/// temporary files.
const AGE_MAX: Duration = Duration::from_secs(6 * 60 * 60);

/// The most that is logged of what a spare said that did not get ready.
const REASON_BYTES_MAX: usize = 1000;

/// Runs each script in an interpreter that was started ahead, or in a new one.
#[derive(Debug)]
pub(crate) struct WarmExecutor {
    alone: Arc<OneShotExecutor>,
    keeper: Arc<Keeper>,
}

/// The keeper of one spare after the other.
#[derive(Debug)]
struct Keeper {
    alone: Arc<OneShotExecutor>,
    /// The modules that a spare loads.
    modules: Vec<String>,
    /// The longest time of a script.
    longest: Duration,
    /// The time that a spare stays without a call; `None` is for ever.
    idle: Option<Duration>,
    /// The spare that waits.
    offer: Mutex<Option<Offer>>,
    demand: Demand,
    is_started: AtomicBool,
    closing: CancellationToken,
    /// What has to end before the server does.
    tasks: TaskTracker,
}

/// A spare that can be asked for.
#[derive(Debug)]
struct Offer {
    limits: Limits,
    request: oneshot::Sender<oneshot::Sender<Spare>>,
}

/// An interpreter that waits for its script.
#[derive(Debug)]
struct Spare {
    supervised: Supervised,
    limits: Limits,
}

/// The demand for spares.
#[derive(Debug)]
struct Demand {
    runs: AtomicUsize,
    last_call: Mutex<Instant>,
    has_changed: Notify,
}

/// A run, as long as this lives.
struct Busy<'a>(&'a Demand);

impl Demand {
    /// Counts a run, as long as the result lives.
    fn note_run(&self) -> Busy<'_> {
        *self.last_call.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.has_changed.notify_waiters();
        Busy(self)
    }

    /// Returns the rest of `idle` since the last call.
    fn remaining(&self, idle: Option<Duration>) -> Duration {
        let last_call = *self.last_call.lock().unwrap_or_else(PoisonError::into_inner);
        idle.map_or(Duration::MAX, |idle| idle.saturating_sub(last_call.elapsed()))
    }

    /// Returns when a spare is worth making: somebody is likely to need it, and nobody is held up by it.
    async fn wait(&self, idle: Option<Duration>) {
        let began = Instant::now();
        let processors = available_parallelism().map_or(1, NonZero::get);
        loop {
            let changed = self.has_changed.notified();
            let put_off = PUT_OFF_MAX.saturating_sub(began.elapsed());
            let runs = self.runs.load(Ordering::Relaxed);
            if self.remaining(idle).is_zero() {
                changed.await;
            } else if runs == 0 || (runs < processors && put_off.is_zero()) {
                return;
            } else if put_off.is_zero() {
                changed.await;
            } else {
                let _ = timeout(put_off, changed).await;
            }
        }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.runs.fetch_sub(1, Ordering::Relaxed);
        self.0.has_changed.notify_waiters();
    }
}

/// An error that leaves runs without a spare.
#[derive(Debug, Error)]
enum SpareError {
    /// Nothing would hold what it loads.
    #[error("interpreters are started ahead in Seatbelt only")]
    NotAtThisTier,
    /// What is in the workspace is written between two runs, and each is to find it as it is.
    #[error(
        "scripts can read the workspace of the governed tools (PYTHONPATH, a .pth file or \
         QWED_MCP_READ_PATHS names it), and its code must not be loaded ahead of them"
    )]
    Untrusted,
    #[error("where the workspace of the governed tools is is not known: {0}")]
    UntrustedUnknown(String),
    #[error(transparent)]
    NotContained(#[from] NotContained),
    #[error("its supervisor could not be started: {0}")]
    StartSupervisor(#[source] std::io::Error),
    #[error("it could not be launched: {0}")]
    Launch(LaunchError),
    #[error("it ended before it was ready: {0}")]
    Ended(String),
    #[error("it did not get ready in time")]
    Timeout,
    /// The server ends.
    #[error("it is not needed any more")]
    Closing,
}

impl WarmExecutor {
    /// Makes an executor for the interpreter and the sandbox that the settings want. Nothing of the
    /// `untrusted` folder runs outside of that, nor ahead of a script.
    pub(crate) fn new(settings: &Settings, untrusted: Untrusted) -> Self {
        let alone = Arc::new(OneShotExecutor::new(settings, untrusted));
        let up_to = |count: usize| settings.preload.iter().take(count).flatten().cloned().collect();
        let lists: Vec<Vec<String>> = (1..=settings.preload.len()).map(up_to).collect();
        let lists: Vec<&[String]> = lists.iter().map(Vec::as_slice).collect();
        // For a script of which nothing is known: at the time when it is made nobody knows more.
        let modules = lists.get(choice::of(None, &lists)).copied().unwrap_or_default().to_vec();
        let keeper = Arc::new(Keeper {
            alone: Arc::clone(&alone),
            modules,
            longest: settings.sync_timeout.max(settings.background_timeout),
            idle: settings.warm_idle,
            offer: Mutex::default(),
            demand: Demand {
                runs: AtomicUsize::new(0),
                last_call: Mutex::new(Instant::now()),
                has_changed: Notify::new(),
            },
            is_started: AtomicBool::new(false),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        Self { alone, keeper }
    }

    async fn run_script(
        &self,
        script: AuthorizedScript,
        limits: RunLimits,
        cancel: CancellationToken,
        echo: Echo,
    ) -> Result<Outcome, RunError> {
        let _busy = self.keeper.demand.note_run();
        self.keeper.start();
        let Some(spare) = self.keeper.take(limits).await else {
            return self.alone.run(script, limits, cancel, echo).await;
        };
        if let Err(error) = self.alone.supervisors.require_ended() {
            self.alone.let_go(spare.supervised).await;
            return Err(error);
        }
        self.alone.run_in(spare, Given::to(&script), limits, &cancel, &echo).await
    }
}

impl Keeper {
    fn offer(&self) -> MutexGuard<'_, Option<Offer>> {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has spares made from now on.
    fn start(self: &Arc<Self>) {
        if !self.is_started.swap(true, Ordering::Relaxed) {
            self.tasks.spawn(Arc::clone(self).keep());
        }
    }

    /// Returns the spare, if there is one for a run with these limits.
    async fn take(&self, limits: RunLimits) -> Option<Spare> {
        let offer = self.offer().take_if(|offer| is_for(limits, offer.limits, self.longest))?;
        let (reply, spare) = oneshot::channel();
        // It may have ended since.
        offer.request.send(reply).ok()?;
        spare.await.ok()
    }

    /// Makes one spare after the other, as long as somebody takes them.
    async fn keep(self: Arc<Self>) {
        loop {
            let wanted = self.demand.wait(self.idle);
            if self.closing.run_until_cancelled(wanted).await.is_none() {
                return;
            }
            let started = Instant::now();
            let is_needed = match self.make().await {
                Ok((spare, packages)) => {
                    tracing::info!(duration = ?started.elapsed(), "an interpreter is warm");
                    self.serve(spare, packages).await
                }
                // The admin wants it so, and knows.
                Err(error @ (SpareError::NotAtThisTier | SpareError::Untrusted)) => {
                    tracing::info!("{error}");
                    self.closing.run_until_cancelled(sleep(RETRY_INTERVAL)).await;
                    false
                }
                Err(SpareError::Closing) => return,
                Err(error) => {
                    tracing::warn!("interpreters stay cold: {error}");
                    self.closing.run_until_cancelled(sleep(RETRY_INTERVAL)).await;
                    false
                }
            };
            if !is_needed {
                // Somebody who looks for memory may have ended it, and would end the next one too.
                let called = self.demand.has_changed.notified();
                self.closing.run_until_cancelled(called).await;
            }
        }
    }

    /// Makes a spare, and waits until it is ready.
    async fn make(&self) -> Result<(Spare, PackageFolders), SpareError> {
        let contained = self.closing.run_until_cancelled(self.alone.contained()).await;
        let contained = contained.ok_or(SpareError::Closing)??;
        if contained.plan.tier != Tier::Seatbelt {
            return Err(SpareError::NotAtThisTier);
        }
        let packages = PackageFolders::of(&contained.plan, &self.alone.untrusted)
            .map_err(SpareError::UntrustedUnknown)?
            .ok_or(SpareError::Untrusted)?;
        let takes_pictures = self.alone.takes_pictures;
        let options = json!({ "modules": self.modules, "takes_pictures": takes_pictures });
        let options = format!("{options}\n");
        let input = [&contained.interpreter.spare[..], options.as_bytes()];
        // Of the processor time that it has then, the spare leaves its script what that may have.
        let limits =
            RunLimits { takes_pictures, ..RunLimits::of_script(self.longest + LOAD_TIMEOUT) };
        let order = contained
            .order_for(Role::Spare, &input, &scratch_place(), limits, None)
            .map_err(SpareError::StartSupervisor)?;
        let mut supervised = Supervised::start(&self.alone.supervisors, limits, &Echo::default())
            .map_err(SpareError::StartSupervisor)?;
        let ended = tokio::select! {
            is_ready = timeout(LOAD_TIMEOUT, supervised.is_ready(&order)) => match is_ready {
                Ok(true) => {
                    let limits = contained.plan.limits;
                    return Ok((Spare { supervised, limits }, packages));
                }
                Ok(false) => None,
                Err(_) => Some(SpareError::Timeout),
            },
            () = self.closing.cancelled() => Some(SpareError::Closing),
        };
        let error = self.alone.let_go(supervised).await;
        Err(ended.unwrap_or(error))
    }

    /// Offers a spare until somebody takes it. Returns whether another is needed then.
    async fn serve(&self, mut spare: Spare, mut packages: PackageFolders) -> bool {
        let (request, requested) = oneshot::channel();
        *self.offer() = Some(Offer { limits: spare.limits, request });
        let is_needed = tokio::select! {
            biased;
            () = self.closing.cancelled() => true,
            () = spare.supervised.until_gone() => {
                tracing::warn!("an interpreter that was started ahead has ended");
                false
            }
            reply = requested => match reply {
                Ok(reply) if !packages.have_changed() => match reply.send(spare) {
                    Ok(()) => return true,
                    // The call was cancelled.
                    Err(unused) => {
                        spare = unused;
                        true
                    }
                },
                // A new interpreter would load something else.
                Ok(_) | Err(_) => true,
            },
            () = self.is_idle() => {
                tracing::info!("the interpreter that was started ahead was idle and is let go");
                true
            }
            () = sleep(AGE_MAX) => true,
        };
        self.alone.let_go(spare.supervised).await;
        is_needed
    }

    /// Returns when there was no call for a long time.
    async fn is_idle(&self) {
        loop {
            let remaining = self.demand.remaining(self.idle);
            if remaining.is_zero() {
                return;
            }
            sleep(remaining).await;
        }
    }

    /// Has everything end. Its tasks are to be waited for.
    fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
    }
}

/// Returns whether a run with these limits has them in a spare too, which had its own before anybody knew of
/// the run.
fn is_for(run: RunLimits, of_spare: Limits, longest: Duration) -> bool {
    let wanted = run.memory_mb.map_or(of_spare, |memory_mb| of_spare.lowered_to(memory_mb));
    wanted == of_spare && run.timeout <= longest
}

impl OneShotExecutor {
    /// Runs what is `given` in a spare.
    async fn run_in(
        &self,
        spare: Spare,
        given: Given<'_>,
        limits: RunLimits,
        cancel: &CancellationToken,
        echo: &Echo,
    ) -> Result<Outcome, RunError> {
        let begun = Begun::now(Start::Warm, Tier::Seatbelt, None, limits);
        let mut supervised = spare.supervised;
        for printed in supervised.begin_run(limits, echo) {
            log_printed(&printed);
        }
        let cpu_seconds = cpu_seconds(limits.timeout).to_le_bytes();
        let lengths = given.lengths();
        let parts = [&cpu_seconds[..], &lengths, given.source.as_bytes(), given.stdin];
        self.see_through(supervised, &hand_over::message(&parts), begun, cancel).await
    }

    /// Ends an interpreter that was started ahead, and returns why it had ended if it had.
    async fn let_go(&self, supervised: Supervised) -> SpareError {
        let (supervised, report) = match self.end(supervised, Cause::Cancelled, None).await {
            Ok(ended) => ended,
            Err(error) => return SpareError::Ended(error.to_string()),
        };
        let Supervised { supervisor, listed, stdout, stderr, .. } = supervised;
        self.wait_for_removal(supervisor, listed).await;
        match report {
            Report::NotStarted(error) => SpareError::Launch(error),
            Report::Exited(_) | Report::Killed { .. } | Report::OutOfMemory => {
                log_printed(&stdout.into_bytes());
                let mut text = stderr.finish().text;
                // Its end has the reason.
                let start = text.len().saturating_sub(REASON_BYTES_MAX);
                SpareError::Ended(text.split_off(text.ceil_char_boundary(start)))
            }
        }
    }
}

/// Passes on what modules print when they are loaded.
fn log_printed(printed: &[u8]) {
    for line in String::from_utf8_lossy(printed).lines() {
        tracing::debug!(line, "spare output");
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
        self.keeper.start();
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.keeper.close();
            self.keeper.tasks.wait().await;
            self.alone.shut_down().await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_other_limits_is_not_for_a_spare() {
        let (of_spare, longest) = (Limits::with_memory(512), Duration::from_secs(30));
        let run = |seconds, memory_mb| RunLimits {
            memory_mb,
            ..RunLimits::of_script(Duration::from_secs(seconds))
        };
        for (run, expected) in [
            (run(30, None), true),
            (run(1, Some(512)), true),
            (run(1, Some(1024)), true),
            (run(1, Some(511)), false),
            (run(31, None), false),
        ] {
            assert_eq!(is_for(run, of_spare, longest), expected, "{run:?}");
        }
    }
}
