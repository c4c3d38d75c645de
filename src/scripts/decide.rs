//! Decides whether a script may run, and audits the decision. Turns the arguments of a call into a permit or a refusal.

use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use tracing::instrument;

use crate::executor::Ready;
use crate::gateway::JobOwner;
use crate::gateway::{
    Accompanying, Arguments, AskedBy, AuthorizedScript, Decision, DecisionRecord, ErrorCode,
    Gateway, Grant, Inputs, Tool, Verified,
};
use crate::governance::Refusal;
use crate::ledger::{AuditPlace, Presented, Proof, UserName};
use crate::logging::{Causes, SPANS};
use crate::receipt::Stored;

use super::ScriptError;
use super::Scripts;

/// Scripts up to this size are analysed on the current thread, which takes less than a millisecond. Larger scripts
/// are analysed on another thread. On the current thread, they would delay all other calls and the renewal of the
/// leases of shared jobs.
pub(super) const ANALYSED_IN_PLACE_BYTES_MAX: usize = 8 * 1024;

/// A script that a caller wants to run.
#[derive(Debug)]
pub(crate) struct Request {
    /// The arguments of `execute_python_code`.
    pub(crate) arguments: Arguments,
    /// The expressions that the tests of the script evaluate, and the input files that are not in `arguments`.
    pub(crate) with: Accompanying,
    /// The credentials of the caller. If the script becomes a job, the job belongs to the user that the transport has
    /// authenticated.
    pub(crate) presented: Presented,
    /// The caller's description of itself, for receipts.
    pub(crate) asked_by: AskedBy,
    /// Cancelled when the caller no longer wants the decision.
    pub(crate) cancel: CancellationToken,
}

/// The script of a job, as the database stores it. A server has already allowed the script, when the job was placed.
#[derive(Debug)]
pub(crate) struct PlacedScript {
    pub(crate) source: String,
    pub(crate) inputs: Inputs,
    pub(crate) verification_id: String,
    pub(crate) owner: JobOwner,
    pub(crate) asked_by: AskedBy,
    /// The token that authenticated the caller when the job was placed.
    pub(crate) proof: Option<Proof>,
}

/// The decision about a script. The audit log, if one exists, contains the decision. If the log cannot be written, the
/// script is denied.
#[derive(Debug)]
#[must_use = "a script runs with a permit only"]
pub(crate) enum Decided {
    /// The script may run.
    Allowed { record: DecisionRecord, permit: Permit },
    /// The gateway refuses the script, or the sandbox that the script needs is missing.
    Refused { record: DecisionRecord, receipt: Option<Stored> },
    /// The caller cancelled before the decision was final.
    Withdrawn(DecisionRecord),
    /// The policy requires a token that the caller does not have, or the audit log cannot be written.
    Denied { record: DecisionRecord, refusal: Refusal },
}

/// The permission to run a script. Each run also needs a turn, which is the right to start a run now. Only this file
/// creates permits.
///
/// A permit does not contain the record of the decision. The record contains a second copy of the script, and a
/// waiting job should need only one copy.
#[derive(Debug)]
pub(crate) struct Permit {
    script: AuthorizedScript,
    is_background: bool,
    proof: Option<Proof>,
    user: Option<UserName>,
}

impl Permit {
    /// Returns whether the call asks for a background job.
    pub(crate) fn is_background(&self) -> bool {
        self.is_background
    }

    /// Returns the user. The runs of the script count towards the share of this user. `None` if the transport does not
    /// authenticate users.
    pub(crate) fn user(&self) -> Option<&UserName> {
        self.user.as_ref()
    }

    pub(crate) fn script(&self) -> &AuthorizedScript {
        &self.script
    }

    /// Returns the token that authenticated the caller. The token must still be valid when a run starts.
    pub(crate) fn proof(&self) -> Option<Proof> {
        self.proof
    }

    #[cfg(test)]
    pub(crate) fn for_test(grant: Grant, user: Option<UserName>, proof: Option<Proof>) -> Self {
        let (script, is_background) = opened(grant);
        Self { script, is_background, proof, user }
    }
}

impl Scripts {
    /// Decides whether a script may run, and writes the decision to the audit log.
    pub(crate) async fn decide(&self, request: Request) -> Decided {
        let Request { arguments, with, presented, mut asked_by, cancel } = request;
        let code_bytes = arguments.get("code").and_then(Value::as_str).map_or(0, str::len);
        let of_calls = with.calls.iter().map(String::len).sum::<usize>();
        // Always use another thread for a call with inputs, because their decoding and hashing takes time too.
        let of_inputs = arguments.get("inputs").map_or(0, |_| ANALYSED_IN_PLACE_BYTES_MAX);
        let bytes = code_bytes + of_calls + of_inputs;
        let analysed = self.analyse(bytes, |gateway| gateway.evaluate(arguments, with));
        let decision = self.conclude(analysed, &cancel).await;
        count_decision(decision.record());
        let audited = self.audit(&decision, &presented, &mut asked_by).await;
        let (place, proof) = match audited {
            Ok(audited) => audited,
            Err(refusal) => return Decided::Denied { record: decision.into_record(), refusal },
        };
        match decision {
            Decision::Allow { record, grant } => {
                tracing::info!(id = %record.verification_id, "allowed");
                self.record_tool();
                let (script, is_background) = opened(grant);
                let script = script.with_asked_by(asked_by);
                let user = presented.user().cloned();
                let permit = Permit { script, is_background, proof, user };
                Decided::Allowed { record, permit }
            }
            Decision::Refuse(record) => {
                tracing::info!(code = ?record.error_code, id = %record.verification_id, "blocked");
                let receipt = self.write_refusal(&record, &asked_by, place).await;
                Decided::Refused { record, receipt }
            }
            Decision::Withdrawn(record) => Decided::Withdrawn(record),
        }
    }

    /// Decides again whether the script of a job may run, on the server that is about to run the job. If an audit log
    /// exists, the log must contain the decision from the placement of the job, for the same token. The log must not
    /// contain a run of the script. While the log is unreachable, this function retries, until `patience` is cancelled.
    ///
    /// # Errors
    ///
    /// [`ScriptError`] if the script must not run here.
    pub(crate) async fn decide_again(
        &self,
        placed: PlacedScript,
        patience: &CancellationToken,
    ) -> Result<Permit, ScriptError> {
        let PlacedScript { source, inputs, verification_id, owner, asked_by, proof } = placed;
        let bytes = source.len();
        let evaluate = |gateway: &Gateway| gateway.evaluate_again(source, inputs, verification_id);
        let analysed = self.analyse(bytes, evaluate);
        // This decision is never cancelled. A job that is cancelled meanwhile ends when its run starts.
        let decision = self.conclude(analysed, &CancellationToken::new()).await;
        let Decision::Allow { record, grant } = decision else {
            return Err(ScriptError::NotAllowed(decision.into_record().message));
        };
        self.require_decision(&record, &owner, proof, patience).await?;
        self.record_tool();
        let (script, is_background) = opened(grant);
        let user = owner.user.parse().ok();
        let script = script.with_asked_by(asked_by).with_job(owner);
        Ok(Permit { script, is_background, proof, user })
    }

    /// Returns a variant (other numbers or operators) of an allowed script, if the gateway allows it. The variant has
    /// the same standard input as the script. It runs as a part of the script's own run, so the decision about it is
    /// not audited.
    pub(super) async fn permitted_variant(
        &self,
        script: &AuthorizedScript,
        variant: String,
    ) -> Option<AuthorizedScript> {
        let bytes = variant.len();
        let mut arguments = Arguments::new();
        arguments.insert("code".to_owned(), Value::String(variant));
        let with = Accompanying { inputs: script.inputs().clone(), ..Accompanying::default() };
        let analysed = self.analyse(bytes, |gateway| gateway.evaluate(arguments, with));
        match self.conclude(analysed, &CancellationToken::new()).await {
            Decision::Allow { grant, .. } => Some(opened(grant).0.with_stdin_of(script)),
            Decision::Refuse(_) | Decision::Withdrawn(_) => None,
        }
    }

    /// Analyses a script with the gateway. `bytes` is the script's size. A large script is analysed on another
    /// thread, so that it does not delay other tasks.
    async fn analyse(
        &self,
        bytes: usize,
        evaluate: impl FnOnce(&Gateway) -> Result<Verified, Box<DecisionRecord>> + Send + 'static,
    ) -> Result<Verified, Box<DecisionRecord>> {
        if bytes <= ANALYSED_IN_PLACE_BYTES_MAX {
            return evaluate(&self.gateway);
        }
        let gateway = self.gateway.clone();
        match spawn_blocking(move || evaluate(&gateway)).await {
            Ok(evaluated) => evaluated,
            // Resume the panic of the other thread on this thread, where the caller of this function catches it.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Waits until the readiness of the sandbox is known, and then makes the decision final. If the caller cancels
    /// during this wait, the decision is withdrawn.
    #[instrument(target = SPANS, name = "gateway.decide", skip_all)]
    async fn conclude(
        &self,
        analysed: impl Future<Output = Result<Verified, Box<DecisionRecord>>>,
        cancel: &CancellationToken,
    ) -> Decision {
        let verified = match analysed.await {
            Ok(verified) => verified,
            Err(record) => return Decision::Refuse(*record),
        };
        let Some(readiness) = cancel.run_until_cancelled(self.readiness()).await else {
            return verified.withdraw();
        };
        let tier = |ready: Option<Ready>| ready.map(|ready| ready.tier);
        verified.confirm(readiness.map(tier).map_err(|missing| missing.to_string()))
    }

    /// Writes a decision to the audit log, if one exists. First authenticates the credentials, and sets the user and
    /// the token of `asked_by`. Returns the position of the new row in the log, and the token that must still be valid
    /// when the script starts.
    async fn audit(
        &self,
        decision: &Decision,
        presented: &Presented,
        asked_by: &mut AskedBy,
    ) -> Result<(Option<AuditPlace>, Option<Proof>), Refusal> {
        let Some(governance) = &self.governance else { return Ok((None, presented.proof())) };
        let written = governance.script_decided(decision, presented).await?;
        (asked_by.user, asked_by.token) = written.user_and_token();
        Ok((written.place, written.proof))
    }

    /// Writes the receipt of a refusal, if the server writes receipts for scripts.
    async fn write_refusal(
        &self,
        record: &DecisionRecord,
        asked_by: &AskedBy,
        place: Option<AuditPlace>,
    ) -> Option<Stored> {
        let receipts = self.receipts.as_ref()?;
        // The refusal stands even if its receipt cannot be written, so only log the error.
        Box::pin(receipts.refused(record, asked_by, place))
            .await
            .inspect_err(|error| tracing::error!(error = %Causes(error), "no receipt"))
            .ok()
    }

    fn record_tool(&self) {
        if let Some(session) = &self.session {
            session.record_tool(Tool::ExecutePythonCode.name());
        }
    }
}

/// Counts a decision about a call in the metrics.
pub(crate) fn count_decision(record: &DecisionRecord) {
    let code = record.error_code.map_or("none", ErrorCode::as_str);
    metrics::counter!("qwed_mcp_decisions_total", "code" => code).increment(1);
}

/// Returns the script that a grant allows, and whether the script runs as a background job.
fn opened(grant: Grant) -> (AuthorizedScript, bool) {
    match grant {
        Grant::Execute(script) => (script, false),
        Grant::ExecuteInBackground(script) => (script, true),
    }
}
