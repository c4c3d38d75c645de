//! The scripts of `execute_python_code` in the audit log: decided, started, ended.

use serde_json::{Map, Value, json};
use uuid::{Builder, Uuid};

use super::audit::{ArgumentsHash, AuditEntry, AuditEvent, AuditOutcome};
use super::roles::Permission;
use super::tokens::{Caller, Proof};
use super::{Governance, Refusal, UserName};
use crate::executor::{Ending, Outcome, RunError};
use crate::gateway::{Decision, ErrorCode, Tool, VerificationId};
use crate::receipt::AuditPlace;
use crate::sandbox::Tier;
use crate::secret::Secret;

impl Governance {
    /// Writes down what was decided about a script, and who asked if a valid token says so. If this
    /// fails the script must not run.
    pub(crate) async fn script_decided(
        &self,
        decision: &Decision,
        token: Option<&Secret>,
        user: Option<&UserName>,
    ) -> Result<DecisionWritten, Refusal> {
        // Without a token nobody is known to have asked; and a user whom the server has let in is one whose role
        // permits it.
        let caller = self.authenticate(token, None).await;
        if user.is_none()
            && matches!(decision, Decision::Allow { .. })
            && let Err(refusal) = self.may_run(&caller).await
        {
            return Err(self.script_refused(decision, caller.ok(), refusal).await);
        }
        let caller = caller.ok();
        let token = caller.as_ref().map(|caller| caller.proof);
        let user = user.cloned().or(caller.map(|caller| caller.user));
        let record = decision.record();
        let outcome = match decision {
            Decision::Allow { .. } | Decision::Refuse(_) => AuditOutcome::Decided(record.status),
            Decision::Withdrawn(_) => AuditOutcome::Ended(Ending::Cancelled),
        };
        let details = json!({
            "verification_id": record.verification_id,
            "error_code": record.error_code.map(ErrorCode::as_str),
        });
        let entry = AuditEntry {
            user: user.clone(),
            arguments_hash: Some(ArgumentsHash::of(&record.normalized_arguments)),
            ..entry(&record.verification_id, AuditEvent::McpToolCall, outcome, &details)
        };
        let place = Some(self.append(vec![entry]).await?);
        Ok(DecisionWritten { place, user, token })
    }

    /// Fails if the policy wants a token of scripts, and this caller has none that may run any.
    async fn may_run(&self, caller: &Result<Caller, Refusal>) -> Result<(), Refusal> {
        // What it wants is not known where it cannot be read.
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

    /// Writes down that the policy does not let a script run, and returns the refusal; if it cannot be written
    /// down, that.
    async fn script_refused(
        &self,
        decision: &Decision,
        caller: Option<Caller>,
        refusal: Refusal,
    ) -> Refusal {
        let record = decision.record();
        let outcome = AuditOutcome::Refused(refusal.code());
        let details = json!({ "verification_id": record.verification_id });
        let entry = AuditEntry {
            user: caller.map(|caller| caller.user),
            arguments_hash: Some(ArgumentsHash::of(&record.normalized_arguments)),
            ..entry(&record.verification_id, AuditEvent::McpToolCall, outcome, &details)
        };
        self.append(vec![entry]).await.err().unwrap_or(refusal)
    }

    /// Writes down that somebody's role does not permit scripts.
    #[cfg(feature = "http")]
    pub(crate) async fn script_not_permitted(
        &self,
        arguments: &Map<String, Value>,
        user: &UserName,
    ) -> Result<Uuid, Refusal> {
        let run_id = Uuid::new_v4();
        let entry = AuditEntry {
            run_id,
            event: AuditEvent::McpToolCall,
            user: Some(user.clone()),
            tool: Tool::ExecutePythonCode.name().to_owned(),
            arguments_hash: Some(ArgumentsHash::of(arguments)),
            outcome: AuditOutcome::Refused(Refusal::PermissionDenied.code()),
            details: Map::new(),
        };
        self.append(vec![entry]).await.map(|_| run_id)
    }

    /// Writes down that a script starts. If this fails it must not.
    pub(crate) async fn script_started(&self, id: &VerificationId) -> Result<(), Refusal> {
        let started = entry(id, AuditEvent::ToolStarted, AuditOutcome::Started, &json!({}));
        self.append(vec![started]).await.map(drop)
    }

    /// Writes down how the run of a script ended, and returns where. If this fails nobody may hear of it.
    pub(crate) async fn script_ended(
        &self,
        id: &VerificationId,
        ran: &Result<Outcome, RunError>,
    ) -> Result<Option<AuditPlace>, Refusal> {
        let (outcome, details) = match ran {
            Ok(outcome) => (AuditOutcome::Ended(outcome.ending), figures(outcome)),
            Err(error) => (AuditOutcome::NotRun, json!({ "reason": error.to_string() })),
        };
        let mut entries = Vec::new();
        if ran.is_ok() {
            entries.push(entry(id, AuditEvent::SandboxExec, outcome, &details));
        }
        entries.push(entry(id, AuditEvent::ToolFinished, outcome, &details));
        self.append(entries).await.map(Some)
    }
}

/// A decision about a script that the log has.
#[derive(Debug)]
pub(crate) struct DecisionWritten {
    /// The place of its row.
    pub(crate) place: Option<AuditPlace>,
    /// The caller, if that is known, and the number of the token that has proven it.
    user: Option<UserName>,
    token: Option<Proof>,
}

impl DecisionWritten {
    /// Returns the user and the number of the token.
    pub(crate) fn user_and_token(&self) -> (Option<String>, Option<String>) {
        let Self { place: _, user, token } = self;
        (user.as_ref().map(ToString::to_string), token.map(|token| token.to_string()))
    }
}

/// Returns an entry about the script of the decision `id`.
fn entry(
    id: &VerificationId,
    event: AuditEvent,
    outcome: AuditOutcome,
    figures: &Value,
) -> AuditEntry {
    AuditEntry {
        run_id: run_id(id),
        event,
        user: None,
        tool: Tool::ExecutePythonCode.name().to_owned(),
        arguments_hash: None,
        outcome,
        details: details(figures),
    }
}

/// Returns the measurements of a run for the audit log.
pub(super) fn figures(outcome: &Outcome) -> Value {
    let figures = json!({
        "exit_code": outcome.ending.exit_code(),
        "duration_ms": outcome.duration_ms(),
        "tier": outcome.tier.map(Tier::as_str),
    });
    let mut figures = details(&figures);
    // The digests of what a client got to see; the pictures themselves are not kept.
    let pictures: Vec<&str> =
        outcome.pictures.all.iter().map(|picture| picture.sha256.as_str()).collect();
    if !pictures.is_empty() {
        figures.insert("pictures".to_owned(), json!(pictures));
    }
    figures.into()
}

/// Converts an object into the details of an entry.
pub(super) fn details(object: &Value) -> Map<String, Value> {
    object.as_object().cloned().unwrap_or_default()
}

/// Returns the run id of a script: its decision's id, cut to the size of one.
fn run_id(verification_id: &VerificationId) -> Uuid {
    let digits = verification_id.as_str().get(..32).unwrap_or_default();
    let number = u128::from_str_radix(digits, 16).unwrap_or_default();
    Builder::from_random_bytes(number.to_be_bytes()).into_uuid()
}
