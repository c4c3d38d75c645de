//! Spare children, forked and confined ahead of the scripts that they will run.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::fork_server::ForkServer;
use super::spare::Spare;

/// How many children are made at the same time. Each of them waits, when it is made, until there is
/// room in the channel, which has room for one: so there are at most three spares.
const MAKERS: usize = 2;

/// How long a child may take to get ready: milliseconds, on a machine that is not out of memory.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(10);

/// How many scripts a fork server has at most, and how long it lives. Nothing is known to add up in
/// it; this is for what is not known.
const RUNS_MAX: u64 = 20_000;
const AGE_MAX: Duration = Duration::from_secs(6 * 60 * 60);

/// How often to look whether the installed packages have changed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The spares of one fork server, which lives as long as this and every spare.
#[derive(Debug)]
pub(super) struct Pool {
    spares: AsyncMutex<mpsc::Receiver<Spare>>,
    started: Instant,
    runs: AtomicU64,
    packages: Mutex<Packages>,
    last_used: Mutex<Instant>,
}

/// The folders that modules are loaded from, and when each was last changed.
#[derive(Debug)]
struct Packages {
    folders: Vec<(PathBuf, Option<SystemTime>)>,
    looked: Instant,
    have_changed: bool,
}

impl Pool {
    pub(super) fn new(server: ForkServer, tasks: &TaskTracker) -> Self {
        let folders = server.package_folders().iter().map(|folder| {
            let changed = changed(folder);
            (folder.clone(), changed)
        });
        let packages =
            Packages { folders: folders.collect(), looked: Instant::now(), have_changed: false };
        let server = Arc::new(server);
        let (sender, spares) = mpsc::channel(1);
        for _ in 0..MAKERS {
            tasks.spawn(make_spares(Arc::clone(&server), sender.clone()));
        }
        Self {
            spares: AsyncMutex::new(spares),
            started: Instant::now(),
            runs: AtomicU64::new(0),
            packages: Mutex::new(packages),
            last_used: Mutex::new(Instant::now()),
        }
    }

    /// A spare child, as soon as there is one. None if the fork server has died. Cancel-safe.
    pub(super) async fn take(&self) -> Option<Spare> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let mut spares = self.spares.lock().await;
        loop {
            let mut spare = spares.recv().await?;
            // It may have been killed by somebody who looks for memory.
            if spare.is_waiting() {
                return Some(spare);
            }
        }
    }

    /// Whether scripts may still be run here. Not if packages were installed since: what was loaded
    /// before is not what a new interpreter would load.
    pub(super) fn is_usable(&self) -> bool {
        let mut packages = self.packages.lock().unwrap_or_else(PoisonError::into_inner);
        if packages.looked.elapsed() >= LOOK_INTERVAL {
            packages.looked = Instant::now();
            packages.have_changed =
                packages.folders.iter().any(|(folder, at)| changed(folder) != *at);
        }
        !packages.have_changed
            && self.runs.load(Ordering::Relaxed) < RUNS_MAX
            && self.started.elapsed() < AGE_MAX
    }

    /// How much is left of `idle` since the last call.
    pub(super) fn idle_left(&self, idle: Duration) -> Duration {
        let last_used = *self.last_used.lock().unwrap_or_else(PoisonError::into_inner);
        idle.saturating_sub(last_used.elapsed())
    }
}

fn changed(folder: &std::path::Path) -> Option<SystemTime> {
    folder.metadata().ok()?.modified().ok()
}

/// Makes one spare after the other, as long as somebody takes them.
async fn make_spares(server: Arc<ForkServer>, spares: mpsc::Sender<Spare>) {
    loop {
        let spare = tokio::select! {
            spare = timeout(PREPARE_TIMEOUT, Spare::prepare(&server)) => spare,
            () = spares.closed() => return,
        };
        match spare {
            Ok(Ok(spare)) => {
                if spares.send(spare).await.is_err() {
                    return;
                }
            }
            Ok(Err(error)) => {
                return tracing::warn!(%error, "no child of the fork server got ready");
            }
            Err(_) => return tracing::warn!("a child of the fork server does not get ready"),
        }
    }
}
