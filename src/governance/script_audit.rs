//! Records the scripts of `execute_python_code` in the audit log: the decision, the start and the end. Never runs a
//! script.

use std::mem;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use uuid::{Builder, Uuid};

use super::call::{blocking, store_failed};
use super::patience::until_reached;
use super::{Governance, Refusal};
use crate::canonical_json::canonical_json;
use crate::executor::{EndReport, Ending, Outcome, RunError};
use crate::gateway::{Decision, ErrorCode, JobOwner, Tool, VerificationId};
use crate::gateway::{DecisionRecord, Status};
use crate::ledger::{
    AUDIT_ROWS_MAX, ArgumentsHash, AuditEntry, AuditEvent, AuditOutcome, AuditPlace, AuditRow,
    Caller, Permission, Presented, Proof, StoreError, UserName,
};
use crate::sandbox::Tier;

/// The key of the hash of a job's result, in the details of a `TOOL_FINISHED` row.
const RESULT_SHA256: &str = "result_sha256";

impl Governance {
    /// Records the decision about a script, and the caller if known. If this fails, the script must not run.
    pub(crate) async fn script_decided(
        &self,
        decision: &Decision,
        presented: &Presented,
    ) -> Result<DecisionWritten, Refusal> {
        // If the transport has authenticated the caller (`known`), the server has already checked that the caller's
        // role permits scripts, and checks the token again when the run starts. Otherwise check the token here. Without
        // a valid token, the caller stays unknown.
        let caller = match &presented.known {
            Some(known) => Ok(known.clone()),
            None => self.authenticate(presented.token.as_ref(), None).await,
        };
        if presented.known.is_none()
            && matches!(decision, Decision::Allow { .. })
            && let Err(refusal) = self.may_run(&caller).await
        {
            return Err(self.script_refused(decision, caller.ok(), refusal).await);
        }
        let caller = caller.ok();
        let proof = caller.as_ref().map(|caller| caller.proof);
        let user = caller.map(|caller| caller.user);
        let record = decision.record();
        let outcome = match decision {
            Decision::Allow { .. } | Decision::Refuse(_) => {
                AuditOutcome::of(record.status.as_str())
            }
            Decision::Withdrawn(_) => AuditOutcome::of(Ending::Cancelled.as_str()),
        };
        let details = json!({
            "verification_id": record.verification_id,
            "error_code": record.error_code.map(ErrorCode::as_str),
        });
        let entry = AuditEntry {
            user: user.clone(),
            arguments_hash: Some(ArgumentsHash::of(&record.normalized_arguments)),
            ..call_entry(&record.verification_id, outcome, &details, proof)
        };
        let place = Some(self.append(vec![entry]).await?);
        Ok(DecisionWritten { place, user, proof })
    }

    /// Fails if the policy requires a token for scripts, and the caller has no token with a role that may run scripts.
    async fn may_run(&self, caller: &Result<Caller, Refusal>) -> Result<(), Refusal> {
        // Refuse if the policy is unusable, because it may require a token.
        let policy = self.policy().await?;
        if !policy.scripts_need_token {
            return Ok(());
        }
        match caller {
            Err(refusal) => Err(refusal.clone()),
            Ok(caller) if caller.role.has(Permission::OrchestrationRun) => Ok(()),
            Ok(_) => Err(Refusal::PermissionDenied),
        }
    }

    /// Records that the policy does not permit a script, and returns the refusal. If the audit log fails, returns its
    /// error instead.
    async fn script_refused(
        &self,
        decision: &Decision,
        caller: Option<Caller>,
        refusal: Refusal,
    ) -> Refusal {
        let record = decision.record();
        let outcome = AuditOutcome::of(refusal.code().name());
        let details = json!({ "verification_id": record.verification_id });
        let proof = caller.as_ref().map(|caller| caller.proof);
        let entry = AuditEntry {
            user: caller.map(|caller| caller.user),
            arguments_hash: Some(ArgumentsHash::of(&record.normalized_arguments)),
            ..call_entry(&record.verification_id, outcome, &details, proof)
        };
        self.append(vec![entry]).await.err().unwrap_or(refusal)
    }

    /// Records that the caller's role does not permit scripts. Returns the run id of the row.
    pub(crate) async fn script_not_permitted(
        &self,
        arguments: &Map<String, Value>,
        caller: &Caller,
    ) -> Result<Uuid, Refusal> {
        let run_id = Uuid::new_v4();
        let entry = AuditEntry {
            run_id,
            event: AuditEvent::McpToolCall,
            user: Some(caller.user.clone()),
            tool: Tool::ExecutePythonCode.name().to_owned(),
            arguments_hash: Some(ArgumentsHash::of(arguments)),
            outcome: AuditOutcome::of(Refusal::PermissionDenied.code().name()),
            details: details(&json!({ "token": caller.proof.to_string() })),
        };
        self.append(vec![entry]).await.map(|_| run_id)
    }

    /// Records that a script starts. With `patience`, retries while the store is unreachable. Returns `false` if
    /// `proof`, the caller's token, became invalid meanwhile. If this fails or returns `false`, the script must not
    /// start.
    pub(crate) async fn script_started(
        &self,
        id: &VerificationId,
        proof: Option<Proof>,
        patience: Option<&CancellationToken>,
    ) -> Result<bool, Refusal> {
        let started = entry(id, AuditEvent::ToolStarted, AuditOutcome::STARTED, &json!({}));
        let place = self.append_once(id, vec![started], proof, patience, is_start).await?;
        Ok(place.is_some())
    }

    /// Records the reason why a permitted script was not started.
    pub(crate) async fn script_not_started(
        &self,
        id: &VerificationId,
        proof: Proof,
        reason: &str,
    ) -> Result<(), Refusal> {
        let details = json!({ "reason": reason, "token": proof.to_string() });
        let not_run = entry(id, AuditEvent::ToolFinished, AuditOutcome::NOT_RUN, &details);
        self.append(vec![not_run]).await.map(drop)
    }

    /// Records the end of a script's run. Returns the number and the hash of the row. If this fails, no client may get
    /// the result. With `patience`, retries while the store is unreachable.
    pub(crate) async fn script_ended(
        &self,
        id: &VerificationId,
        job: Option<&JobOwner>,
        ran: &Result<Outcome, RunError>,
        patience: Option<&CancellationToken>,
    ) -> Result<Option<AuditPlace>, Refusal> {
        let (outcome, details) = match ran {
            Ok(outcome) => (AuditOutcome::of(outcome.ending.as_str()), figures(outcome)),
            Err(error) => (AuditOutcome::NOT_RUN, json!({ "reason": error.to_string() })),
        };
        let mut entries = Vec::new();
        if ran.is_ok() {
            entries.push(entry(id, AuditEvent::SandboxExec, outcome, &details));
        }
        let mut finished = entry(id, AuditEvent::ToolFinished, outcome, &details);
        if let (Some(job), Ok(outcome)) = (job, ran) {
            let sha256 = result_sha256(job, outcome);
            finished.details.insert(RESULT_SHA256.to_owned(), sha256.into());
        }
        entries.push(finished);
        self.append_once(id, entries, None, patience, is_end).await
    }

    /// Appends rows about a script. With `patience`, retries while the store is unreachable, until `patience` is
    /// cancelled. Each retry first checks whether `proof`, the caller's token, is still valid, and returns `None` if it
    /// is not. An earlier attempt may have written the rows although the answer of the store was lost. So each retry
    /// also checks whether the log already has the last row. `is_last` recognizes this row.
    async fn append_once(
        &self,
        id: &VerificationId,
        entries: Vec<AuditEntry>,
        proof: Option<Proof>,
        patience: Option<&CancellationToken>,
        is_last: fn(&AuditRow) -> bool,
    ) -> Result<Option<AuditPlace>, Refusal> {
        let mut may_be_written = false;
        let appended = until_reached(patience, || {
            let is_first = !mem::replace(&mut may_be_written, true);
            let entries = entries.clone();
            async move {
                if !is_first {
                    if let Some(proof) = proof
                        && !self.store.holds(proof).await?
                    {
                        return Ok(None);
                    }
                    let rows = self.rows_of_script(id.as_str()).await?;
                    if let Some(AuditRow { seq, hash, .. }) = rows.into_iter().rfind(is_last) {
                        return Ok(Some(AuditPlace { seq, hash }));
                    }
                }
                self.try_append(entries).await.map(Some)
            }
        });
        appended.await.map_err(|error| store_failed(&error))
    }

    /// Returns whether the log permits a job to run. The log must contain a decision that allows this script for the
    /// job's user and `proof`. The log must not contain a row about a start or an end of the script. A row about an end
    /// also exists if the script was not run because its token was revoked. These checks are necessary because a
    /// process with write access to the database can insert a job that no user requested.
    pub(crate) async fn has_decision(
        &self,
        record: &DecisionRecord,
        job: &JobOwner,
        proof: Option<Proof>,
        patience: &CancellationToken,
    ) -> Result<bool, Refusal> {
        let token = proof.map(|proof| proof.to_string());
        let id = record.verification_id.as_str();
        let arguments = ArgumentsHash::of(&record.normalized_arguments);
        let allowed = Status::AllowVerified.as_str();
        let permits = |row: &AuditRow| {
            row.event == AuditEvent::McpToolCall.as_str()
                && row.tool == Tool::ExecutePythonCode.name()
                && row.outcome == allowed
                && row.arguments_hash.as_deref() == Some(arguments.as_str())
                && (job.user.is_empty() || row.user.as_deref() == Some(&job.user))
                && detail(row, "verification_id").as_deref() == Some(id)
                && detail(row, "token") == token
        };
        let is_used = |row: &AuditRow| is_start(row) || is_end(row);
        let rows = until_reached(Some(patience), || self.rows_of_script(id)).await;
        let rows = rows.map_err(|error| store_failed(&error))?;
        Ok(rows.iter().any(permits) && !rows.iter().any(is_used))
    }

    /// Returns whether the audit log has the hash of this job's result.
    pub(crate) async fn has_result(
        &self,
        verification_id: &str,
        job: &JobOwner,
        outcome: &Outcome,
    ) -> Result<bool, Refusal> {
        let rows = self.rows_of_script(verification_id).await;
        let rows = rows.map_err(|error| store_failed(&error))?;
        let sha256 = result_sha256(job, outcome);
        let mut ends = rows.iter().filter(|row| is_end(row)).peekable();
        // A job may have several rows about its end. If their hashes differ, another process has inserted a row.
        Ok(ends.peek().is_some()
            && ends.all(|row| detail(row, RESULT_SHA256).as_deref() == Some(&sha256)))
    }

    /// Returns the rows about the script that has the decision id `verification_id`. Returns no rows if the log has
    /// [`AUDIT_ROWS_MAX`] rows or more. One script cannot cause this number, so another process has inserted rows.
    async fn rows_of_script(&self, verification_id: &str) -> Result<Vec<AuditRow>, StoreError> {
        let (store, run_id) = (self.store.clone(), run_id(verification_id));
        let rows = blocking(move || store.rows_of_run(run_id)).await;
        let rows = rows.map_err(|_| StoreError::GivenUp)??;
        let is_whole = rows.len() < usize::from(AUDIT_ROWS_MAX);
        Ok(if is_whole { rows } else { Vec::new() })
    }
}

fn is_start(row: &AuditRow) -> bool {
    row.event == AuditEvent::ToolStarted.as_str()
}

fn is_end(row: &AuditRow) -> bool {
    row.event == AuditEvent::ToolFinished.as_str()
}

fn detail(row: &AuditRow, name: &str) -> Option<String> {
    let details: Map<String, Value> = serde_json::from_str(&row.details).ok()?;
    Some(details.get(name)?.as_str()?.to_owned())
}

/// Returns the SHA-256 of a job's id, its user, and the result that the user gets. Does not include the receipt,
/// because the receipt is created later and has a signature.
fn result_sha256(of: &JobOwner, outcome: &Outcome) -> String {
    let JobOwner { job, user } = of;
    let Outcome {
        ending,
        stdout,
        stderr,
        pictures,
        check_counts: _,
        end_report: EndReport { returned, reached_end: _, value: _, observed: _, members: _ },
        duration,
        tier,
        memory_bound,
        start,
        took_pipes: _,
        is_starved,
        has_slept: _,
        advice,
        verdict,
        receipt: _,
        cached,
    } = outcome;
    let mut figures = json!({
        "job": job.to_string(),
        "user": user,
        "ending": ending,
        "truncated": [stdout.is_truncated, stderr.is_truncated],
        "pictures": pictures.all,
        "left_out": pictures.left_out,
        "duration": duration,
        "tier": tier,
        "memory_bound": memory_bound,
        "start": start,
        "is_starved": is_starved,
        "advice": advice,
    });
    // Jobs of earlier versions have no verdict.
    if let (Some(verdict), Some(figures)) = (verdict, figures.as_object_mut()) {
        figures.insert("verdict".to_owned(), json!(verdict));
    }
    if let (Some(returned), Some(figures)) = (returned, figures.as_object_mut()) {
        figures.insert("returned".to_owned(), json!(returned));
    }
    if let (Some(cached), Some(figures)) = (cached, figures.as_object_mut()) {
        figures.insert("cached".to_owned(), json!(cached));
    }
    let figures = canonical_json(&figures);
    let texts = [&figures, &stdout.text, &stderr.text].map(String::as_bytes);
    let mut hash = Sha256::new();
    for part in texts.into_iter().chain(pictures.all.iter().map(|picture| &*picture.png)) {
        // Hash each part with its length. Without the lengths, bytes could move from one part to the next without
        // changing the hash.
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    hex::encode(hash.finalize())
}

#[derive(Debug)]
pub(crate) struct DecisionWritten {
    /// The number and the hash of the decision's row in the audit log.
    pub(crate) place: Option<AuditPlace>,
    /// The user, if the caller is known.
    user: Option<UserName>,
    /// The token that authenticated the caller, if the caller is known. It must still be valid when the run starts.
    pub(crate) proof: Option<Proof>,
}

impl DecisionWritten {
    /// Returns the user, and the token's number or `oauth`.
    pub(crate) fn user_and_token(&self) -> (Option<String>, Option<String>) {
        let Self { place: _, user, proof } = self;
        (user.as_ref().map(ToString::to_string), proof.map(|proof| proof.to_string()))
    }
}

/// Creates an entry about the call with the decision id `id`. The entry contains the number of the caller's token, or
/// `oauth`.
fn call_entry(
    id: &VerificationId,
    outcome: AuditOutcome,
    figures: &Value,
    proof: Option<Proof>,
) -> AuditEntry {
    let mut entry = entry(id, AuditEvent::McpToolCall, outcome, figures);
    if let Some(proof) = proof {
        entry.details.insert("token".to_owned(), proof.to_string().into());
    }
    entry
}

/// Creates an entry about the script with the decision id `id`.
fn entry(
    id: &VerificationId,
    event: AuditEvent,
    outcome: AuditOutcome,
    figures: &Value,
) -> AuditEntry {
    AuditEntry {
        run_id: run_id(id.as_str()),
        event,
        user: None,
        tool: Tool::ExecutePythonCode.name().to_owned(),
        arguments_hash: None,
        outcome,
        details: details(figures),
    }
}

/// Returns the exit code, the duration and other facts about a run, for the audit log.
pub(super) fn figures(outcome: &Outcome) -> Value {
    let figures = json!({
        "exit_code": outcome.ending.exit_code(),
        "duration_ms": outcome.duration_ms(),
        "tier": outcome.tier.map(Tier::as_str),
    });
    let mut figures = details(&figures);
    // Record only the digests of the pictures.
    let pictures: Vec<&str> =
        outcome.pictures.all.iter().map(|picture| picture.sha256.as_str()).collect();
    if !pictures.is_empty() {
        figures.insert("pictures".to_owned(), json!(pictures));
    }
    if let Some(cached) = &outcome.cached {
        figures.insert("cached".to_owned(), cached.mark());
    }
    figures.into()
}

pub(super) fn details(object: &Value) -> Map<String, Value> {
    object.as_object().cloned().unwrap_or_default()
}

/// Returns the run id of a script: the start of the decision's id, as a UUID.
fn run_id(verification_id: &str) -> Uuid {
    let digits = verification_id.get(..32).unwrap_or_default();
    let number = u128::from_str_radix(digits, 16).unwrap_or_default();
    Builder::from_random_bytes(number.to_be_bytes()).into_uuid()
}
