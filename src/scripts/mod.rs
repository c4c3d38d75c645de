//! The run of a script, whoever asked for it: written down → run → accounted for → written down, signed.
//!
//! Synchronous calls and background jobs both come through [`Runs::run`], the only place that hands a
//! script to the executor. A run starts only while the proof of its caller holds: a token that was revoked or
//! has expired since the script was placed runs nothing. A run whose start cannot be written to the audit log
//! is not made, and nobody hears of the outcome of one whose end cannot be.

mod missing_module;
#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use chrono::Utc;
use futures_util::FutureExt as _;
use serde_json::json;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::aibom::{self, Session};
use crate::executor::{Echo, Executor, Outcome, RunError, RunLimits};
#[cfg(feature = "http")]
use crate::executor::{Ending, Start};
#[cfg(any(feature = "http", feature = "postgres"))]
use crate::gateway::DecisionRecord;
#[cfg(feature = "http")]
use crate::gateway::ErrorCode;
#[cfg(feature = "postgres")]
use crate::gateway::JobOwner;
use crate::gateway::{AuthorizedScript, VerificationId};
use crate::governance::{Governance, Proof, Store};
use crate::logging::Causes;
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
    /// The store of tokens, where there is one.
    tokens: OnceLock<Store>,
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
    /// The proof of the caller does not hold any more, so there was no run.
    #[error("the token that asked for it was revoked or has expired, so nothing is run")]
    NotLetIn,
    /// Whether the proof holds could not be looked up, so there was no run.
    #[error(
        "the token that asked for it cannot be looked up, so nothing is run; ask the admin to look at the server's log"
    )]
    TokensAway,
    /// The start could not be written down, so there was no run.
    #[error(
        "the audit log cannot be written, so nothing is run; ask the admin to look at the server's log"
    )]
    NotAudited,
    /// The log has no decision that lets the script of a job run, or it was run before.
    #[cfg(feature = "postgres")]
    #[error(
        "the audit log has no decision that lets it run for this user, so it is not run; ask the admin to look at the server's log"
    )]
    NotDecided,
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
        let tokens = governance.as_ref().map(|governance| governance.store().clone().into());
        Self {
            executor,
            governance,
            tokens: tokens.unwrap_or_default(),
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

    /// Has the proofs of callers looked up in this store, where there is no audit log with tokens.
    #[cfg(feature = "http")]
    pub(crate) fn set_tokens(&self, store: Store) {
        // The first one stays: both are the same tokens.
        let _ = self.tokens.set(store);
    }

    /// Has runs counted from here on.
    #[cfg(feature = "http")]
    pub(crate) fn set_meter(&self, meter: Arc<dyn Meter>) {
        // The first one stays.
        let _ = self.meter.set(meter);
    }

    /// Runs `script` within `limits` until it ends or `cancel` is cancelled; what it prints goes to `echo`
    /// while it runs. Starts only if `proof`, which has let the caller in, still holds; `None` stands for a
    /// caller without one. A panic of the executor is an error like any other.
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
        proof: Option<Proof>,
        limits: RunLimits,
        cancel: CancellationToken,
        echo: Echo,
    ) -> Result<Outcome, ScriptError> {
        let (id, job) = (script.verification_id().clone(), script.job().cloned());
        if let Err(error) = self.require(proof).await {
            return Err(self.not_started(&id, proof, error).await);
        }
        let dependencies = Dependencies::of(script.source().as_str());
        let engines =
            aibom::engines(script.imports().unwrap_or_default().iter().map(String::as_str));
        let draft = self.begin_receipt(&script, limits).await?;
        if let Some(governance) = &self.governance {
            governance.script_started(&id).await.map_err(|_| ScriptError::NotAudited)?;
        }
        let ended = cancel.clone();
        let run = async { self.executor.run(script, limits, cancel, echo).await };
        let outcome = AssertUnwindSafe(run).catch_unwind().await;
        let mut outcome = outcome.unwrap_or(Err(RunError::Panicked));
        match &outcome {
            Ok(Outcome { ending, duration, .. }) => {
                tracing::info!(verification_id = %id, ?ending, ?duration, "run ended");
                #[cfg(feature = "http")]
                self.count(&outcome);
            }
            Err(error) => {
                tracing::error!(verification_id = %id, error = %Causes(error), "run failed");
            }
        }
        if outcome.as_ref().is_ok_and(|outcome| outcome.tier.is_some()) {
            self.account(&engines);
        }
        // Before the end is written down, which has the hash of all that a job's user is told.
        if let Ok(outcome) = &mut outcome
            && let Some(module) = missing_module(outcome)
        {
            outcome.advice = self.advice(module, dependencies).await;
        }
        let mut place = None;
        if let Some(governance) = &self.governance {
            let written = governance.script_ended(&id, job.as_deref(), &outcome, &ended).await;
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
        Ok(outcome)
    }

    /// Fails if the proof of a caller does not hold any more. This is the only place that decides it for
    /// scripts, at the moment at which a run starts. Without a proof there is nothing to look up.
    pub(crate) async fn require(&self, proof: Option<Proof>) -> Result<(), ScriptError> {
        let Some(proof) = proof else { return Ok(()) };
        let holds = match (self.tokens.get(), proof) {
            (Some(store), proof) => store.holds(proof).await,
            (None, Proof::Access { expires }) => Ok(Utc::now() < expires),
            (None, Proof::Token(_)) => {
                tracing::error!("this server has no store of tokens, and a script has one");
                return Err(ScriptError::TokensAway);
            }
        };
        match holds {
            Ok(true) => Ok(()),
            Ok(false) => Err(ScriptError::NotLetIn),
            Err(error) => {
                tracing::error!(error = %Causes(&error), "the store of tokens failed");
                Err(ScriptError::TokensAway)
            }
        }
    }

    /// Writes down that a script is not started, where there is an audit log.
    async fn not_started(
        &self,
        id: &VerificationId,
        proof: Option<Proof>,
        error: ScriptError,
    ) -> ScriptError {
        tracing::warn!(verification_id = %id, %error, "a script is not run");
        if let (Some(governance), Some(proof)) = (&self.governance, proof)
            && governance.script_not_started(id, proof, &error.to_string()).await.is_err()
        {
            return ScriptError::NotAudited;
        }
        error
    }

    /// Requires that the audit log, where there is one, has the decision that lets the script of a job run, by this
    /// proof, and that it was not run before.
    ///
    /// # Errors
    ///
    /// [`ScriptError`] if it must not be run.
    #[cfg(feature = "postgres")]
    pub(crate) async fn require_decision(
        &self,
        record: &DecisionRecord,
        job: &JobOwner,
        proof: Option<Proof>,
    ) -> Result<(), ScriptError> {
        let Some(governance) = &self.governance else { return Ok(()) };
        match governance.has_decision(record, job, proof).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let id = &record.verification_id;
                tracing::error!(job = %job.job, verification_id = %id, "a job was placed that the audit log has no decision for");
                Err(ScriptError::NotDecided)
            }
            Err(_) => Err(ScriptError::NotAudited),
        }
    }

    /// Returns whether the result of a job is the one that the audit log has, where there is one; `None` if that
    /// cannot be known now.
    #[cfg(feature = "postgres")]
    pub(crate) async fn has_result(
        &self,
        verification_id: &str,
        job: &JobOwner,
        outcome: &Outcome,
    ) -> Option<bool> {
        let Some(governance) = &self.governance else { return Some(true) };
        let is_it = governance.has_result(verification_id, job, outcome).await.ok()?;
        if !is_it {
            tracing::error!(job = %job.job, verification_id, "the result of a job is not the one that the audit log has");
        }
        Some(is_it)
    }

    /// Begins the receipt of a run, where there is to be one.
    async fn begin_receipt(
        &self,
        script: &AuthorizedScript,
        limits: RunLimits,
    ) -> Result<Option<Box<Draft>>, ScriptError> {
        let Some(receipts) = &self.receipts else { return Ok(None) };
        let draft = Box::pin(receipts.begin(script, limits, &*self.executor)).await;
        draft.map(|draft| Some(Box::new(draft))).map_err(|error| {
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
