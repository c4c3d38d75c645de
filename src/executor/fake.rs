//! An executor for unit tests. It starts no process, and returns the results that a test wants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::aibom::InstalledPackages;
use crate::gateway::AuthorizedScript;
use crate::sandbox::Tier;

use super::{
    Echo, Executor, Installation, Outcome, ProjectRun, Ran, Readiness, Ready, RunLimits,
    Surroundings,
};

type Act =
    dyn Fn(AuthorizedScript, RunLimits, CancellationToken) -> BoxFuture<'static, Ran> + Send + Sync;
type ActOnProject = dyn Fn(ProjectRun, CancellationToken) -> BoxFuture<'static, Ran> + Send + Sync;

/// An executor that calls functions of a test.
pub(crate) struct FakeExecutor {
    act: Box<Act>,
    act_on_project: Box<ActOnProject>,
    runs: AtomicUsize,
    /// Whether [`Executor::readiness`] never returns.
    pub(crate) never_ready: bool,
    /// The tier that [`Executor::readiness`] returns.
    pub(crate) tier: Option<Tier>,
    /// Whether the first [`Executor::readiness`] finds no interpreter.
    pub(crate) is_found_later: AtomicBool,
    /// The interpreter that [`Executor::installation`] returns.
    pub(crate) installation: Option<Installation>,
    /// The interpreter and the sandbox that [`Executor::surroundings`] returns.
    pub(crate) surroundings: Option<Arc<Surroundings>>,
}

impl FakeExecutor {
    /// Creates an executor that runs scripts with `act`.
    pub(crate) fn new(
        act: impl Fn(AuthorizedScript, RunLimits, CancellationToken) -> BoxFuture<'static, Ran>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self {
            act: Box::new(act),
            act_on_project: Box::new(|_, _| never_started()),
            runs: AtomicUsize::new(0),
            never_ready: false,
            tier: Some(Tier::T3),
            is_found_later: AtomicBool::new(false),
            installation: None,
            surroundings: None,
        }
    }

    /// Creates an executor that runs projects with `act`, and reports `tier`.
    pub(crate) fn of_projects<F: Future<Output = Ran> + Send + 'static>(
        tier: Tier,
        act: impl Fn(ProjectRun, CancellationToken) -> F + Send + Sync + 'static,
    ) -> Self {
        Self {
            act_on_project: Box::new(move |project, cancel| Box::pin(act(project, cancel))),
            tier: Some(tier),
            ..Self::new(|_, _, _| never_started())
        }
    }

    /// Returns the number of scripts and projects that this executor has received.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }
}

fn never_started() -> BoxFuture<'static, Ran> {
    Box::pin(async { Ok(Outcome::never_started()) })
}

impl Executor for FakeExecutor {
    fn run(
        &self,
        script: AuthorizedScript,
        limits: RunLimits,
        cancel: CancellationToken,
        _echo: Echo,
    ) -> BoxFuture<'_, Ran> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        (self.act)(script, limits, cancel)
    }

    fn readiness(&self) -> BoxFuture<'_, Readiness> {
        if self.never_ready {
            return Box::pin(std::future::pending());
        }
        let is_found = !self.is_found_later.swap(false, Ordering::Relaxed);
        let tier = self.tier.filter(|_| is_found);
        let ready = tier.map(|tier| Ready { tier, step_down: None });
        Box::pin(async { Ok(ready) })
    }

    fn run_project(&self, project: ProjectRun, cancel: CancellationToken) -> BoxFuture<'_, Ran> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        (self.act_on_project)(project, cancel)
    }

    fn installation(&self) -> BoxFuture<'_, Option<Installation>> {
        let installation = self.installation.clone();
        Box::pin(async { installation })
    }

    fn surroundings(&self) -> BoxFuture<'_, Option<Arc<Surroundings>>> {
        let surroundings = self.surroundings.clone();
        Box::pin(async { surroundings })
    }

    fn inventory(&self, _modules: Vec<String>) -> BoxFuture<'_, Option<InstalledPackages>> {
        let inventory =
            InstalledPackages { python: "3.11.2".to_owned(), packages: BTreeMap::new() };
        Box::pin(async { Some(inventory) })
    }
}
