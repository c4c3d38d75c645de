//! The run of a script, whoever asked for it: written down → run → accounted for → written down, signed.
//!
//! Synchronous calls and background jobs both come through [`Runs::run`], the only place that hands a
//! script to the executor. A run whose start cannot be written to the audit log is not made, and
//! nobody hears of the outcome of one whose end cannot be.

mod missing_module;
#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
#[cfg(feature = "http")]
use std::sync::OnceLock;

use futures_util::FutureExt as _;
use serde_json::json;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::aibom::{self, Session};
use crate::executor::{Echo, Executor, Outcome, RunError, RunLimits};
#[cfg(feature = "http")]
use crate::executor::{Ending, Start};
use crate::gateway::AuthorizedScript;
#[cfg(feature = "http")]
use crate::gateway::{DecisionRecord, ErrorCode};
use crate::governance::Governance;
#[cfg(feature = "http")]
use crate::meter::{Meter, RunFigures};
use crate::receipt::{Draft, Receipts, WriteError};
#[cfg(feature = "http")]
use crate::sandbox::Tier;
use missing_module::{Dependencies, advice, missing_module};

/// The funnel that every run of a script goes through.
pub(crate) struct Runs {
    executor: Arc<dyn Executor>,
    /// The audit log, where the admin has a policy.
    governance: Option<Arc<Governance>>,
    /// The account of what is used, where a bill of materials is wanted.
    session: Option<Arc<Session>>,
    /// The writer of receipts, where scripts leave some.
    receipts: Option<Arc<Receipts>>,
    /// Lookups of versions, each as long as a short script.
    lookups: TaskTracker,
    /// Counts runs, where somebody wants figures.
    #[cfg(feature = "http")]
    meter: OnceLock<Arc<dyn Meter>>,
}

/// The reason why there is no outcome of a script. Its `Display` is shown to the client.
#[derive(Debug, Error)]
pub(crate) enum ScriptError {
    /// The start could not be written down, so there was no run.
    #[error(
        "the audit log cannot be written, so nothing is run; ask the admin to look at the server's log"
    )]
    NotAudited,
    /// The script was run, and its end could not be written down.
    #[error(
        "the script was run, and the audit log cannot be used to write down its end; ask the admin to look at the server's log"
    )]
    EndNotAudited,
    /// There could be no receipt, so there was no run.
    #[error(transparent)]
    NoReceipt(WriteError),
    /// The script was run, and its receipt could not be stored.
    #[error("the script was run, and {0}; ask the admin to look at the server's log")]
    EndNoReceipt(#[source] WriteError),
    /// The executor could not run the script.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Runs {
    /// Creates the funnel in front of `executor`.
    pub(crate) fn new(
        executor: Arc<dyn Executor>,
        governance: Option<Arc<Governance>>,
        session: Option<Arc<Session>>,
    ) -> Self {
        let lookups = TaskTracker::new();
        Self {
            executor,
            governance,
            session,
            receipts: None,
            lookups,
            #[cfg(feature = "http")]
            meter: OnceLock::new(),
        }
    }

    /// Has every run leave a receipt.
    pub(crate) fn with_receipts(self, receipts: Option<&Arc<Receipts>>) -> Self {
        Self { receipts: receipts.cloned(), ..self }
    }

    /// Has runs counted from here on.
    #[cfg(feature = "http")]
    pub(crate) fn set_meter(&self, meter: Arc<dyn Meter>) {
        // The first one stays.
        let _ = self.meter.set(meter);
    }

    /// Runs `script` within `limits` until it ends or `cancel` is cancelled; what it prints goes to `echo`
    /// while it runs. A panic of the executor is an error like any other.
    ///
    /// Poll the future to its end: dropping it kills the run, but nobody then waits until its processes
    /// are dead, or writes its end down.
    ///
    /// # Errors
    ///
    /// [`ScriptError`] if there is no outcome for the caller.
    pub(crate) async fn run(
        &self,
        script: AuthorizedScript,
        limits: RunLimits,
        cancel: CancellationToken,
        echo: Echo,
    ) -> Result<Outcome, ScriptError> {
        let id = script.verification_id().clone();
        let dependencies = Dependencies::of(script.source().as_str());
        let engines =
            aibom::engines(script.imports().unwrap_or_default().iter().map(String::as_str));
        let draft = self.begin_receipt(&script, limits).await?;
        if let Some(governance) = &self.governance {
            governance.script_started(&id).await.map_err(|_| ScriptError::NotAudited)?;
        }
        let run = async { self.executor.run(script, limits, cancel, echo).await };
        let outcome = AssertUnwindSafe(run).catch_unwind().await;
        let outcome = outcome.unwrap_or(Err(RunError::Panicked));
        match &outcome {
            Ok(Outcome { ending, duration, .. }) => {
                tracing::info!(verification_id = %id, ?ending, ?duration, "run ended");
                #[cfg(feature = "http")]
                self.count(&outcome);
            }
            Err(error) => {
                let source = std::error::Error::source(error).map(ToString::to_string);
                tracing::error!(verification_id = %id, %error, source, "run failed");
            }
        }
        if outcome.as_ref().is_ok_and(|outcome| outcome.tier.is_some()) {
            self.account(&engines);
        }
        let mut place = None;
        if let Some(governance) = &self.governance {
            let written = governance.script_ended(&id, &outcome).await;
            place = written.map_err(|_| ScriptError::EndNotAudited)?;
        }
        let receipt = match draft {
            Some(draft) => {
                Some(Box::pin(draft.conclude(&outcome, place)).await.map_err(end_no_receipt)?)
            }
            None => None,
        };
        let mut outcome = outcome?;
        outcome.receipt = receipt.map(|receipt| json!(receipt));
        if let Some(module) = missing_module(&outcome) {
            outcome.advice = self.advice(module, dependencies).await;
        }
        Ok(outcome)
    }

    /// Begins the receipt of a run, where there is to be one.
    async fn begin_receipt(
        &self,
        script: &AuthorizedScript,
        limits: RunLimits,
    ) -> Result<Option<Draft>, ScriptError> {
        let Some(receipts) = &self.receipts else { return Ok(None) };
        let draft = Box::pin(receipts.begin(script, limits, &*self.executor)).await;
        draft.map(Some).map_err(|error| {
            error.log();
            ScriptError::NoReceipt(error)
        })
    }

    /// Counts what was decided about a call.
    #[cfg(feature = "http")]
    pub(crate) fn count_decision(&self, record: &DecisionRecord) {
        if let Some(meter) = self.meter.get() {
            meter.decided(record.error_code.map(ErrorCode::as_str));
        }
    }

    /// Counts a run that has ended.
    #[cfg(feature = "http")]
    fn count(&self, outcome: &Result<Outcome, RunError>) {
        let (Some(meter), Ok(outcome)) = (self.meter.get(), outcome) else { return };
        let ending = match outcome.ending {
            Ending::Exited(0) => "success",
            Ending::Exited(_) => "failed",
            Ending::OutOfMemory => "memory",
            Ending::Cancelled => "cancelled",
            Ending::TimedOut => "timed_out",
        };
        meter.ran(&RunFigures {
            ending,
            tier: outcome.tier.map(Tier::as_str),
            start: if outcome.start == Start::Warm { "warm" } else { "cold" },
            duration: outcome.duration,
        });
    }

    /// Returns what is said about a module that is not installed, where its interpreter is known.
    async fn advice(&self, module: String, dependencies: Dependencies) -> Option<String> {
        let installation = self.executor.installation().await?;
        let advice = move || advice(&module, &dependencies, &installation);
        tokio::task::spawn_blocking(advice).await.ok()
    }

    /// Tells the session which engines a run used. Their versions are looked up at once: when the
    /// session ends there may be no time for it.
    fn account(&self, engines: &[String]) {
        let Some(session) = &self.session else { return };
        let Some(modules) = session.record_script(engines) else { return };
        let (executor, session) = (Arc::clone(&self.executor), Arc::clone(session));
        self.lookups.spawn(async move {
            if let Some(installed) = executor.inventory(modules).await {
                session.record_packages(installed);
            } else {
                tracing::warn!("the versions of the engines are not known");
            }
        });
    }

    /// Waits until what runs have started beside themselves is done. No run may be going on.
    pub(crate) async fn shut_down(&self) {
        self.lookups.close();
        self.lookups.wait().await;
    }
}

fn end_no_receipt(error: WriteError) -> ScriptError {
    error.log();
    ScriptError::EndNoReceipt(error)
}
