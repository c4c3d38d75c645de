//! Takes note of what the scripts use that run, for the bill of materials.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::aibom::{self, Session};
use crate::gateway::AuthorizedScript;

use super::{
    Executor, FindInstallation, Outcome, ProjectRun, Readiness, Run, RunError, RunLimits, ShutDown,
    TakeInventory,
};

/// An executor that tells a [`Session`] what it ran.
pub(crate) struct RecordingExecutor {
    executor: Arc<dyn Executor>,
    session: Arc<Session>,
    /// Looks for versions, each as long as a short script.
    lookups: TaskTracker,
}

impl RecordingExecutor {
    /// Records what `executor` runs from now on.
    pub(crate) fn new(executor: Arc<dyn Executor>, session: Arc<Session>) -> Self {
        Self { executor, session, lookups: TaskTracker::new() }
    }

    async fn run_and_record(
        &self,
        script: AuthorizedScript,
        limits: RunLimits,
        cancel: CancellationToken,
    ) -> Result<Outcome, RunError> {
        let engines = aibom::engines(script.imports().iter().map(String::as_str));
        let outcome = self.executor.run(script, limits, cancel).await?;
        let has_started = outcome.tier.is_some();
        if has_started {
            self.record(&engines);
        }
        Ok(outcome)
    }

    /// The versions are looked for at once: when the session ends there may be no time for it.
    fn record(&self, engines: &[String]) {
        let Some(modules) = self.session.record_script(engines) else { return };
        let (executor, session) = (Arc::clone(&self.executor), Arc::clone(&self.session));
        self.lookups.spawn(async move {
            if let Some(inventory) = executor.inventory(modules).await {
                session.record_inventory(inventory);
            } else {
                tracing::warn!("the versions of the engines are not known");
            }
        });
    }
}

impl Executor for RecordingExecutor {
    fn run(
        &self,
        script: AuthorizedScript,
        limits: RunLimits,
        cancel: CancellationToken,
    ) -> Run<'_> {
        Box::pin(self.run_and_record(script, limits, cancel))
    }

    fn readiness(&self) -> Readiness<'_> {
        self.executor.readiness()
    }

    fn run_project(&self, project: ProjectRun, cancel: CancellationToken) -> Run<'_> {
        self.executor.run_project(project, cancel)
    }

    fn installation(&self) -> FindInstallation<'_> {
        self.executor.installation()
    }

    fn inventory(&self, modules: Vec<String>) -> TakeInventory<'_> {
        self.executor.inventory(modules)
    }

    fn warm_up(&self) {
        self.executor.warm_up();
    }

    fn shut_down(&self) -> ShutDown<'_> {
        Box::pin(async {
            self.lookups.close();
            tokio::join!(self.lookups.wait(), self.executor.shut_down());
        })
    }
}
