//! Runs a script: audits the start, runs the script, records the engines that it used, audits the end, and signs a
//! receipt.
//!
//! A run starts only if the token that authenticated its caller is still valid, and if its start was audited. If the
//! token was revoked or has expired since the decision, the script does not run. If the end of a run cannot be audited,
//! the caller does not receive the outcome.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use chrono::Utc;
use futures_util::FutureExt as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::instrument;

use crate::aibom;
use crate::executor::{
    Echo, Ending, Executor, Members, Outcome, RunError, RunLimits, Start, Surroundings,
};
use crate::gateway::{AuthorizedScript, VerificationId};
use crate::gateway::{DecisionRecord, JobOwner};
use crate::governance::until_reached;
use crate::ledger::Proof;
use crate::logging::{Causes, SPANS};
use crate::receipt::{Draft, WriteError};
use crate::sandbox::Tier;
use crate::verification::{Circumstances, Variants, verdict_on_run};

use super::missing_module::{Dependencies, Installs, advice, missing_module};
use super::once::Part;
use super::packages::{Chosen, ScriptPackages};
use super::turn::{RunRequest, script_of};
use super::variants::Judged;
use super::{Permit, ScriptError, ScriptTurn, Scripts};

impl Scripts {
    /// Runs the script that `permit` allows, until the script ends or is cancelled. `turn` is the right to start the
    /// run now. A panic of the executor is returned as an error.
    ///
    /// Poll the future to its end. Dropping the future kills the run. But then this function neither waits for the
    /// death of the processes, nor audits the end of the run.
    ///
    /// # Errors
    ///
    /// [`ScriptError`] if the caller receives no outcome.
    #[instrument(target = SPANS, name = "sandbox.run", skip_all)]
    pub(crate) async fn run(
        &self,
        permit: &Permit,
        turn: &ScriptTurn,
        request: RunRequest,
    ) -> Result<Outcome, ScriptError> {
        let script = script_of(permit, &request);
        let RunRequest { limits, cancel, .. } = &request;
        let (limits, cancel) = (*limits, cancel.clone());
        let proof = permit.proof();
        let id = script.verification_id().clone();
        let job = script.job().cloned();
        // While the store is unreachable, the start of a shared job is retried until the job is cancelled. The audit of
        // the job's end is retried in the same way, because otherwise the job's result would be lost.
        let ended = cancel.clone();
        let patience = job.is_some().then_some(&ended);
        if let Err(error) = self.require(proof, patience).await {
            return Err(self.not_started(&id, proof, error).await);
        }
        let executor = turn.chosen.executor(&self.executor);
        let mut draft = self.begin_receipt(&script, limits, executor).await?;
        if let Some(governance) = &self.governance {
            let started = governance.script_started(&id, proof, patience).await;
            if !started.map_err(|_| ScriptError::NotAudited)? {
                return Err(self.not_started(&id, proof, ScriptError::NotLetIn).await);
            }
        }
        if let Some(draft) = &mut draft {
            draft.start();
        }
        let outcome = match &turn.part {
            Part::Later(later) => {
                tracing::info!(verification_id = %id, "answered with the result of an earlier run");
                Ok(later.outcome())
            }
            Part::Alone | Part::First(_) => self.run_now(&script, turn, proof, request).await,
        };
        if outcome.as_ref().is_ok_and(|outcome| outcome.tier.is_some()) {
            self.account(&script, executor);
        }
        let mut place = None;
        if let Some(governance) = &self.governance {
            let written = governance.script_ended(&id, job.as_deref(), &outcome, patience).await;
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
        if let (Some(once), Part::First(first)) = (&self.once, &turn.part) {
            once.conclude(first, &outcome, ended.is_cancelled()).await;
        }
        Ok(outcome)
    }

    /// Runs a script, and adds advice and the verdict to its outcome. Both are added before the end is audited,
    /// because the row about the end contains a hash of everything that the job's user receives.
    async fn run_now(
        &self,
        script: &AuthorizedScript,
        turn: &ScriptTurn,
        proof: Option<Proof>,
        request: RunRequest,
    ) -> Result<Outcome, RunError> {
        let RunRequest { limits, echo, cancel, .. } = request;
        let (id, executor) = (script.verification_id(), turn.chosen.executor(&self.executor));
        let shortages = self.pipe_shortages.load(Ordering::Relaxed);
        let run = Self::execute(executor, script.clone(), limits, cancel.clone(), echo);
        let outcome = AssertUnwindSafe(run).catch_unwind().await;
        let mut outcome = outcome.unwrap_or(Err(RunError::Panicked)).inspect_err(|error| {
            tracing::error!(verification_id = %id, error = %Causes(error), "run failed");
        })?;
        self.note_pipes(&mut outcome, shortages);
        let Outcome { ending, duration, .. } = &outcome;
        tracing::info!(verification_id = %id, ?ending, ?duration, "run ended");
        count(&outcome);
        if let Some(module) = missing_module(&outcome) {
            outcome.advice = self.advice(module, script, &turn.chosen).await;
        } else if outcome.ending == Ending::Exited(1) {
            outcome.advice = outcome.end_report.members.as_ref().map(Members::advice);
        }
        self.judge(&mut outcome, script, limits, proof, &cancel, executor).await;
        Ok(outcome)
    }

    /// Passes a script to an executor. This function is `async`, so that a panic of the executor before its first
    /// `await` also occurs while the future is polled. There, the caller can catch the panic.
    pub(super) async fn execute(
        executor: &Arc<dyn Executor>,
        script: AuthorizedScript,
        limits: RunLimits,
        cancel: CancellationToken,
        echo: Echo,
    ) -> Result<Outcome, RunError> {
        executor.run(script, limits, cancel, echo).await
    }

    /// Returns the interpreter and the sandbox with which a script runs. If the script needs an environment with the
    /// packages that it lists, first makes this environment.
    pub(crate) async fn surroundings(&self, permit: &Permit) -> Option<Arc<Surroundings>> {
        let chosen = self.packages_for(permit, &CancellationToken::new()).await?;
        chosen.executor(&self.executor).surroundings().await
    }

    /// Chooses the executor for the packages that a script lists. If the admin allows these packages, first makes an
    /// environment with them. Returns `None` if `cancel` is cancelled first.
    pub(crate) async fn packages_for(
        &self,
        permit: &Permit,
        cancel: &CancellationToken,
    ) -> Option<Chosen> {
        match &self.packages {
            Some(packages) => packages.choose(permit.script(), cancel).await,
            None => Some(Chosen::Usual),
        }
    }

    /// Fails if the token that authenticated a caller is no longer valid. This function is called before each run,
    /// because a token may be revoked after the decision. Succeeds if `proof` is `None`. With `patience`, retries while
    /// the store is unreachable, until `patience` is cancelled.
    pub(crate) async fn require(
        &self,
        proof: Option<Proof>,
        patience: Option<&CancellationToken>,
    ) -> Result<(), ScriptError> {
        let Some(proof) = proof else { return Ok(()) };
        let holds = match (self.tokens.get(), proof) {
            (Some(store), proof) => until_reached(patience, || store.holds(proof)).await,
            (None, Proof::Access { expires }) => Ok(Utc::now() < expires),
            (None, Proof::Token(_)) => {
                tracing::error!("a script has a token, but this server has no store of tokens");
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

    /// Records in the audit log, if one exists, that a script was not started. Returns the error for the caller.
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

    /// Requires that the audit log contains the decision that permits a job's script, for the token `proof`. The log
    /// must not contain an earlier run of the script. Succeeds if no audit log exists. Retries while the log is
    /// unreachable, until `patience` is cancelled.
    ///
    /// # Errors
    ///
    /// [`ScriptError`] if the script must not run.
    pub(super) async fn require_decision(
        &self,
        record: &DecisionRecord,
        job: &JobOwner,
        proof: Option<Proof>,
        patience: &CancellationToken,
    ) -> Result<(), ScriptError> {
        let Some(governance) = &self.governance else { return Ok(()) };
        match governance.has_decision(record, job, proof, patience).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let id = &record.verification_id;
                tracing::error!(job = %job.job, verification_id = %id, "a job has no decision in the audit log");
                Err(ScriptError::NotDecided)
            }
            Err(_) => Err(ScriptError::NotAudited),
        }
    }

    /// Returns whether the result of a job matches the audit log. Returns `Some(true)` if no audit log exists, and
    /// `None` if the log cannot be read now.
    pub(crate) async fn has_result(
        &self,
        verification_id: &str,
        job: &JobOwner,
        outcome: &Outcome,
    ) -> Option<bool> {
        let Some(governance) = &self.governance else { return Some(true) };
        let is_it = governance.has_result(verification_id, job, outcome).await.ok()?;
        if !is_it {
            tracing::error!(job = %job.job, verification_id, "the result of a job does not match the audit log");
        }
        Some(is_it)
    }

    /// Begins the receipt of a run. Returns `None` if the server writes no receipts for scripts.
    async fn begin_receipt(
        &self,
        script: &AuthorizedScript,
        limits: RunLimits,
        executor: &Arc<dyn Executor>,
    ) -> Result<Option<Box<Draft>>, ScriptError> {
        let Some(receipts) = &self.receipts else { return Ok(None) };
        let draft = Box::pin(receipts.begin(script, limits, &**executor)).await;
        draft.map(|draft| Some(Box::new(draft))).map_err(|error| {
            error.log();
            ScriptError::NoReceipt(error)
        })
    }

    fn note_pipes(&self, outcome: &mut Outcome, shortages_before: u64) {
        if outcome.took_pipes {
            self.pipe_shortages.fetch_add(1, Ordering::Relaxed);
        } else if outcome.ending == Ending::TimedOut && outcome.has_slept {
            // Another run took too many pipes meanwhile, so a pipe of this run may be smaller than usual. A write to
            // such a pipe may have blocked until the timeout.
            outcome.is_starved |= self.pipe_shortages.load(Ordering::Relaxed) != shortages_before;
        }
    }

    /// Returns the advice about a missing module. Returns `None` if the interpreter is unknown.
    async fn advice(
        &self,
        module: String,
        script: &AuthorizedScript,
        chosen: &Chosen,
    ) -> Option<String> {
        let dependencies = Dependencies::of(script.source().as_str());
        let installation = chosen.executor(&self.executor).installation().await?;
        let allowed = self.packages.iter().flat_map(ScriptPackages::allowed).map(str::to_owned);
        let allowed: Vec<String> = allowed.collect();
        let installs = match chosen {
            Chosen::NotInstalled => Installs::Failed,
            Chosen::Usual | Chosen::Own(_) if allowed.is_empty() => Installs::Nothing,
            Chosen::Usual => Installs::WithHeader(allowed),
            Chosen::Own(_) => Installs::WithLongerHeader(allowed),
        };
        let advice = move || advice(&module, &dependencies, &installation, &installs);
        tokio::task::spawn_blocking(advice).await.ok()
    }

    /// Adds the verdict to the outcome of a run. If the outcome has no advice, also adds the verdict's text for the
    /// model as advice.
    async fn judge(
        &self,
        outcome: &mut Outcome,
        script: &AuthorizedScript,
        limits: RunLimits,
        proof: Option<Proof>,
        cancel: &CancellationToken,
        executor: &Arc<dyn Executor>,
    ) {
        let circumstances = self.circumstances(executor).await;
        let verdict_with = |variants, outcome: &_| {
            verdict_on_run(script, limits, &circumstances, outcome, variants)
        };
        let mut verdict = verdict_with(Variants::NotRun, outcome);
        if self.vacuity {
            let run =
                Judged { script, limits, outcome, verdict: &verdict, proof, cancel, executor };
            let (variants, depends_on_load) = self.run_variants(run).await;
            verdict = verdict_with(variants, outcome);
            verdict.depends_on_load = depends_on_load;
        }
        if outcome.advice.is_none() {
            outcome.advice = verdict.note(self.verdict_note);
        }
        outcome.verdict = Some(Arc::new(verdict));
    }

    /// Returns the interpreter and the packages of scripts, as far as they are known.
    async fn circumstances(&self, executor: &Arc<dyn Executor>) -> Circumstances {
        let Some(surroundings) = executor.surroundings().await else {
            return Circumstances::default();
        };
        if let Some(environment) = self.environment.known(&surroundings) {
            return Circumstances::new(surroundings, Some(environment));
        }
        let (cache, of) = (Arc::clone(&self.environment), Arc::clone(&surroundings));
        let looked_up = tokio::task::spawn_blocking(move || cache.get(&of).ok());
        Circumstances::new(surroundings, looked_up.await.ok().flatten())
    }

    /// Records the engines of a run in the session, for the bill of materials. Looks up the versions of the engines at
    /// once, because the end of the session may leave no time for the lookup.
    fn account(&self, script: &AuthorizedScript, executor: &Arc<dyn Executor>) {
        let Some(session) = &self.session else { return };
        let engines =
            aibom::engines(script.imports().unwrap_or_default().iter().map(String::as_str));
        let Some(modules) = session.record_script(&engines) else { return };
        let (executor, session) = (Arc::clone(executor), Arc::clone(session));
        self.lookups.spawn(async move {
            if let Some(installed) = executor.inventory(modules).await {
                session.record_packages(installed);
            } else {
                tracing::warn!("the versions of the engines are not known");
            }
        });
    }
}

/// Counts a run that has ended in the metrics.
fn count(outcome: &Outcome) {
    let ending = match outcome.ending {
        Ending::Exited(0) => "success",
        Ending::Exited(_) => "failed",
        Ending::OutOfMemory => "memory",
        Ending::Cancelled => "cancelled",
        Ending::TimedOut => "timed_out",
    };
    let tier = outcome.tier.map_or("none", Tier::as_str);
    let start = if outcome.start == Start::Warm { "warm" } else { "cold" };
    metrics::counter!("qwed_mcp_runs_total", "ending" => ending, "tier" => tier, "start" => start)
        .increment(1);
    metrics::histogram!("qwed_mcp_run_seconds").record(outcome.duration);
}

fn end_no_receipt(error: WriteError) -> ScriptError {
    error.log();
    ScriptError::EndNoReceipt(error)
}
