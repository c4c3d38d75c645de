//! The scripts of `execute_python_code` in the audit log: decided, started, ended.

use serde_json::{Map, Value, json};
use uuid::{Builder, Uuid};

use super::audit::{ArgumentsHash, AuditEntry, AuditEvent, AuditOutcome};
use super::{Governance, Refusal, UserName};
use crate::executor::{Ending, Outcome, RunError};
use crate::gateway::{Decision, ErrorCode, Tool, VerificationId};
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
    ) -> Result<(), Refusal> {
        // Scripts run without a token too; then nobody is known to have asked.
        let user = match user {
            Some(user) => Some(user.clone()),
            None => self.authenticate(token).await.ok().map(|caller| caller.user),
        };
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
            user,
            arguments_hash: Some(ArgumentsHash::of(&record.normalized_arguments)),
            ..entry(&record.verification_id, AuditEvent::McpToolCall, outcome, &details)
        };
        self.append(vec![entry]).await
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
        self.append(vec![entry]).await.map(|()| run_id)
    }

    /// Writes down that a script starts. If this fails it must not.
    pub(crate) async fn script_started(&self, id: &VerificationId) -> Result<(), Refusal> {
        self.append(vec![entry(id, AuditEvent::ToolStarted, AuditOutcome::Started, &json!({}))])
            .await
    }

    /// Writes down how the run of a script ended. If this fails nobody may hear of it.
    pub(crate) async fn script_ended(
        &self,
        id: &VerificationId,
        ran: &Result<Outcome, RunError>,
    ) -> Result<(), Refusal> {
        let (outcome, details) = match ran {
            Ok(outcome) => (AuditOutcome::Ended(outcome.ending), figures(outcome)),
            Err(error) => (AuditOutcome::NotRun, json!({ "reason": error.to_string() })),
        };
        let mut entries = Vec::new();
        if ran.is_ok() {
            entries.push(entry(id, AuditEvent::SandboxExec, outcome, &details));
        }
        entries.push(entry(id, AuditEvent::ToolFinished, outcome, &details));
        self.append(entries).await
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
