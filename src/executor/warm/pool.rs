//! Prepares spare children: forks and confines them before their scripts arrive.

use std::num::NonZero;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex as AsyncMutex, Notify, mpsc};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use super::super::package_folders::PackageFolders;
use super::fork_server::ForkServer;
use super::spare::Spare;

/// The number of makers (tasks that prepare children) that work while no script waits. Each of them holds at most one
/// ready child, and the channel [`Pool::spares`] buffers one more. So at most three spares exist while no script waits.
const MAKERS_AT_REST: usize = 2;

/// The maximum number of makers. Up to this number, a pool has one maker for each processor.
const MAKERS_MAX: usize = 64;

/// The timeout for the preparation of a child. The preparation takes milliseconds, if the machine is not out of memory.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of failures in a row after which a maker stops.
const FAILURES_MAX: usize = 5;

/// The pause after a child did not become ready.
const FAILURE_PAUSE: Duration = Duration::from_millis(50);

/// The age at which a fork server is replaced. No resource is known to accumulate in a fork server. This limit is a
/// precaution against unknown leaks.
const AGE_MAX: Duration = Duration::from_secs(6 * 60 * 60);

/// The time without a new spare after which a waiting script runs in a new interpreter. While new spares are made, a
/// script in a long queue continues to wait.
const SPARE_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum delay of a new spare while a script runs and another spare exists. Making the spare at once would take
/// processor time from the script, and a caller waits for the script.
const PUT_OFF_MAX: Duration = Duration::from_millis(50);

/// The maximum number of async tasks through which a result passes from the script to the client.
const TASKS_OF_RESULT: usize = 8;

/// The numbers that show whether more spares are needed.
#[derive(Debug, Default)]
struct Demand {
    spares: AtomicUsize,
    runs: AtomicUsize,
    /// The number of scripts that wait for a spare.
    waiting: AtomicUsize,
    has_changed: Notify,
    /// The time when the last spare was made.
    last_made: Mutex<Option<Instant>>,
}

impl Demand {
    fn note_spare(&self) {
        self.spares.fetch_add(1, Ordering::Relaxed);
        *self.last_made.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Returns the time since the last spare was made, or since `began` if that is later.
    fn without_spare(&self, began: Instant) -> Duration {
        let made = *self.last_made.lock().unwrap_or_else(PoisonError::into_inner);
        made.map_or(began, |made| made.max(began)).elapsed()
    }

    /// Counts a waiting script for as long as the returned value lives.
    fn wait_for_spare(self: &Arc<Self>) -> Waiting {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.has_changed.notify_waiters();
        Waiting(Arc::clone(self))
    }

    /// Returns whether a script waits and no spare is ready for it.
    fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > self.spares.load(Ordering::Relaxed)
    }

    /// Waits until the maker with this index is needed. The maker is needed while more than `index` scripts wait.
    /// Makers with an index below [`MAKERS_AT_REST`] are always needed.
    async fn wait_until_needed(&self, index: usize) {
        loop {
            let changed = self.has_changed.notified();
            if index < MAKERS_AT_REST || self.waiting.load(Ordering::Relaxed) > index {
                return;
            }
            changed.await;
        }
    }

    /// Delays the preparation of the next spare until no spare is left or no script runs, but for at most
    /// [`PUT_OFF_MAX`]. If no script runs, then also yields to the tasks that write the last script's result.
    async fn wait(&self) {
        let wanted = async {
            loop {
                let changed = self.has_changed.notified();
                if self.spares.load(Ordering::Relaxed) == 0 {
                    return;
                }
                if self.runs.load(Ordering::Relaxed) == 0 {
                    break;
                }
                changed.await;
            }
            // The end of a script wakes this task before the tasks that write the script's result. So this task yields
            // to them.
            for _ in 0..TASKS_OF_RESULT {
                yield_now().await;
            }
        };
        // The wait has a timeout, because a script may run for a long time.
        let _ = timeout(PUT_OFF_MAX, wanted).await;
    }
}

/// Counts a script as waiting for a spare child process until this value is dropped.
#[derive(Debug)]
struct Waiting(Arc<Demand>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a run until this value is dropped.
#[derive(Debug)]
pub(super) struct Busy(Arc<Demand>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.runs.fetch_sub(1, Ordering::Relaxed);
        self.0.has_changed.notify_waiters();
    }
}

/// Whether a fork server may be used for more runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fitness {
    Fit,
    /// The fork server has reached its maximum age or number of runs. It is used until its successor is ready.
    Worn,
    /// The fork server must not be used again, for one of two reasons. Packages were installed after its start, so a
    /// new interpreter would load other modules. Or it has reached twice its maximum age or number of runs, and no
    /// successor has become ready.
    Outdated,
}

impl Fitness {
    fn of(runs: u64, runs_max: u64, age: Duration) -> Self {
        if runs >= runs_max.saturating_mul(2) || age >= AGE_MAX * 2 {
            Self::Outdated
        } else if runs >= runs_max || age >= AGE_MAX {
            Self::Worn
        } else {
            Self::Fit
        }
    }
}

/// The spares of one fork server. The fork server lives as long as this pool or a spare exists.
#[derive(Debug)]
pub(super) struct Pool {
    spares: AsyncMutex<mpsc::Receiver<Spare>>,
    demand: Arc<Demand>,
    started: Instant,
    runs: AtomicU64,
    has_served: AtomicBool,
    packages: Mutex<PackageFolders>,
    last_used: Mutex<Instant>,
}

impl Pool {
    pub(super) fn new(server: ForkServer, packages: PackageFolders, tasks: &TaskTracker) -> Self {
        let server = Arc::new(server);
        let demand = Arc::<Demand>::default();
        let (sender, spares) = mpsc::channel(1);
        let processors = available_parallelism().map_or(1, NonZero::get);
        for index in 0..processors.clamp(MAKERS_AT_REST, MAKERS_MAX) {
            let (server, demand) = (Arc::clone(&server), Arc::clone(&demand));
            tasks.spawn(make_spares(index, server, demand, sender.clone()));
        }
        Self {
            demand,
            spares: AsyncMutex::new(spares),
            started: Instant::now(),
            runs: AtomicU64::new(0),
            has_served: AtomicBool::new(false),
            packages: Mutex::new(packages),
            last_used: Mutex::new(Instant::now()),
        }
    }

    /// Returns a spare child as soon as one is ready. `None` if the fork server has died or makes no children.
    /// Cancel-safe.
    pub(super) async fn take(&self) -> Option<(Spare, Busy)> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner) = began;
        let _waiting = self.demand.wait_for_spare();
        let mut taken = pin!(self.next_spare());
        loop {
            let patience = SPARE_TIMEOUT.checked_sub(self.demand.without_spare(began))?;
            // The timeout does not drop the future, so the future keeps its place in the queue.
            if let Ok(spare) = timeout(patience, &mut taken).await {
                return spare;
            }
        }
    }

    async fn next_spare(&self) -> Option<(Spare, Busy)> {
        let mut spares = self.spares.lock().await;
        loop {
            let mut spare = spares.recv().await?;
            self.demand.spares.fetch_sub(1, Ordering::Relaxed);
            self.has_served.store(true, Ordering::Relaxed);
            // Skips a killed child. For example, the kernel kills children when the machine is out of memory.
            if spare.is_waiting() {
                self.demand.runs.fetch_add(1, Ordering::Relaxed);
                self.demand.has_changed.notify_waiters();
                return Some((spare, Busy(Arc::clone(&self.demand))));
            }
        }
    }

    /// Returns whether the pool has ever delivered a child.
    pub(super) fn has_served(&self) -> bool {
        self.has_served.load(Ordering::Relaxed)
    }

    /// Returns whether the fork server may be used for more runs.
    pub(super) fn fitness(&self, runs_max: u64) -> Fitness {
        let mut packages = self.packages.lock().unwrap_or_else(PoisonError::into_inner);
        if packages.have_changed() {
            Fitness::Outdated
        } else {
            Fitness::of(self.runs.load(Ordering::Relaxed), runs_max, self.started.elapsed())
        }
    }

    /// Returns the time until the pool has been unused for `idle`.
    pub(super) fn idle_remaining(&self, idle: Duration) -> Duration {
        let last_used = *self.last_used.lock().unwrap_or_else(PoisonError::into_inner);
        idle.saturating_sub(last_used.elapsed())
    }
}

/// Makes one spare after another, until the pool is dropped or too many children fail. `index` is the index of this
/// maker among the makers of the fork server.
async fn make_spares(
    index: usize,
    server: Arc<ForkServer>,
    demand: Arc<Demand>,
    spares: mpsc::Sender<Spare>,
) {
    let mut failures_left = FAILURES_MAX;
    while failures_left > 0 {
        tokio::select! {
            () = demand.wait_until_needed(index) => {}
            () = spares.closed() => return,
        }
        demand.wait().await;
        let started = Instant::now();
        let spare = tokio::select! {
            spare = timeout(PREPARE_TIMEOUT, Spare::prepare(&server, demand.is_waiting())) => spare,
            () = spares.closed() => return,
        };
        match spare {
            Ok(Ok(spare)) => {
                tracing::debug!(duration = ?started.elapsed(), "a child is ready");
                failures_left = FAILURES_MAX;
                demand.note_spare();
                if spares.send(spare).await.is_err() {
                    return;
                }
            }
            // The child may have been killed from outside, which does not affect the next child.
            Ok(Err(error)) if server.is_alive() => {
                tracing::warn!(%error, "no child of the fork server became ready");
                failures_left -= 1;
                sleep(FAILURE_PAUSE).await;
            }
            Ok(Err(_)) => return,
            Err(_) => return tracing::warn!("a child of the fork server does not become ready"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn more_makers_are_at_work_only_while_scripts_wait() {
        let demand = Arc::<Demand>::default();
        let has_turn = async |index| {
            let turn = demand.wait_until_needed(index);
            timeout(Duration::from_millis(1), turn).await.is_ok()
        };
        assert!(has_turn(0).await && has_turn(1).await && !has_turn(2).await);
        let waiting: Vec<_> = (0..3).map(|_| demand.wait_for_spare()).collect();
        assert!(has_turn(2).await && !has_turn(3).await);
        let (later, woken) = (Arc::clone(&demand), Arc::clone(&demand));
        let maker = tokio::spawn(async move { woken.wait_until_needed(3).await });
        let _fourth = tokio::spawn(async move { later.wait_for_spare() }).await.unwrap();
        maker.await.unwrap();
        drop(waiting);
        assert!(!has_turn(2).await);
    }

    #[test]
    fn a_worn_fork_server_goes_on_for_as_long_again() {
        let nearly = |age: Duration| age.saturating_sub(Duration::from_secs(1));
        for (runs, age, expected) in [
            (0, Duration::ZERO, Fitness::Fit),
            (9, nearly(AGE_MAX), Fitness::Fit),
            (10, Duration::ZERO, Fitness::Worn),
            (0, AGE_MAX, Fitness::Worn),
            (19, nearly(AGE_MAX * 2), Fitness::Worn),
            (20, Duration::ZERO, Fitness::Outdated),
            (0, AGE_MAX * 2, Fitness::Outdated),
        ] {
            assert_eq!(Fitness::of(runs, 10, age), expected, "{runs} {age:?}");
        }
    }
}
