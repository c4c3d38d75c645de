//! An executor for tests: it starts nothing, and answers as the test wants.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::aibom::InstalledPackages;
use crate::gateway::AuthorizedScript;

use super::{Executor, Installation, Outcome, ProjectRun, Ran, Readiness, RunLimits};

type Act =
    dyn Fn(AuthorizedScript, RunLimits, CancellationToken) -> BoxFuture<'static, Ran> + Send + Sync;

/// The executor.
pub(crate) struct FakeExecutor {
    act: Box<Act>,
    runs: AtomicUsize,
    /// Nobody ever learns whether scripts can be contained.
    pub(crate) never_ready: bool,
}

impl FakeExecutor {
    /// Creates an executor that answers a script with `act`.
    pub(crate) fn new(
        act: impl Fn(AuthorizedScript, RunLimits, CancellationToken) -> BoxFuture<'static, Ran>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { act: Box::new(act), runs: AtomicUsize::new(0), never_ready: false }
    }

    /// Returns how many scripts it was asked to run.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }
}

impl Executor for FakeExecutor {
    fn run(
        &self,
        script: AuthorizedScript,
        limits: RunLimits,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Ran> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        (self.act)(script, limits, cancel)
    }

    fn readiness(&self) -> BoxFuture<'_, Readiness> {
        if self.never_ready {
            return Box::pin(std::future::pending());
        }
        Box::pin(async { Ok(None) })
    }

    fn run_project(&self, _project: ProjectRun, _cancel: CancellationToken) -> BoxFuture<'_, Ran> {
        Box::pin(async { Ok(Outcome::never_started()) })
    }

    fn installation(&self) -> BoxFuture<'_, Option<Installation>> {
        Box::pin(async { None })
    }

    fn inventory(&self, _modules: Vec<String>) -> BoxFuture<'_, Option<InstalledPackages>> {
        let inventory =
            InstalledPackages { python: "3.11.2".to_owned(), packages: BTreeMap::new() };
        Box::pin(async { Some(inventory) })
    }
}
