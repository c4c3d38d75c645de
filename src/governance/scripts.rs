//! The scripts of `execute_python_code` in the audit log: decided, started, ended.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use uuid::{Builder, Uuid};

use super::audit::{ArgumentsHash, AuditEntry, AuditEvent};
use super::call::append;
use super::store::Store;
use super::{Governance, Refusal};
use crate::executor::{
    Executor, FindInstallation, Outcome, ProjectRun, Readiness, Run, RunError, RunLimits, ShutDown,
    TakeInventory,
};
use crate::gateway::{AuthorizedScript, DecisionRecord, ErrorCode, VerificationId};
use crate::sandbox::Tier;
use crate::secret::Secret;

/// The tool whose calls these are.
pub(crate) const EXECUTION_TOOL: &str = "execute_python_code";

impl Governance {
    /// Writes down what was decided about a script, and who asked if a valid token says so. If this
    /// fails the script must not run.
    pub(crate) async fn record_decision(
        &self,
        record: &DecisionRecord,
        token: Option<&Secret>,
    ) -> Result<(), Refusal> {
        // Scripts run without a token too; then nobody is known to have asked.
        let caller = self.authenticate(token).await.ok();
        let entry = AuditEntry {
            run_id: run_id(&record.verification_id),
            event: AuditEvent::McpToolCall,
            user: caller.map(|caller| caller.user),
            tool: EXECUTION_TOOL.to_owned(),
            arguments_hash: Some(ArgumentsHash::of(&record.normalized_arguments)),
            outcome: record.status.as_str(),
            details: details(&json!({
                "verification_id": record.verification_id,
                "error_code": record.error_code.map(ErrorCode::as_str),
            })),
        };
        self.append(vec![entry]).await
    }
}

/// What the audit log tells of a run.
pub(super) fn figures(outcome: &Outcome) -> Value {
    json!({
        "exit_code": outcome.ending.exit_code(),
        "duration_ms": outcome.duration_ms(),
        "tier": outcome.tier.map(Tier::as_str),
    })
}

/// An object as details of an entry.
pub(super) fn details(told: &Value) -> Map<String, Value> {
    told.as_object().cloned().unwrap_or_default()
}

/// The run id of a script: its decision's id, cut to the size of one.
fn run_id(verification_id: &VerificationId) -> Uuid {
    let digits = verification_id.as_str().get(..32).unwrap_or_default();
    let number = u128::from_str_radix(digits, 16).unwrap_or_default();
    Builder::from_random_bytes(number.to_be_bytes()).into_uuid()
}

/// An executor that writes the start and the end of each script to the audit log. A script whose
/// start cannot be written is not run.
pub(crate) struct AuditedExecutor {
    executor: Arc<dyn Executor>,
    store: Store,
}

impl AuditedExecutor {
    /// Audits what `executor` runs from now on.
    pub(crate) fn new(executor: Arc<dyn Executor>, store: Store) -> Self {
        Self { executor, store }
    }

    async fn run_and_audit(
        &self,
        script: AuthorizedScript,
        limits: RunLimits,
        cancel: CancellationToken,
    ) -> Result<Outcome, RunError> {
        let run_id = run_id(script.verification_id());
        let entry = |event, outcome, told: &Value| AuditEntry {
            run_id,
            event,
            user: None,
            tool: EXECUTION_TOOL.to_owned(),
            arguments_hash: None,
            outcome,
            details: details(told),
        };
        let started = vec![entry(AuditEvent::ToolStarted, "STARTED", &json!({}))];
        append(&self.store, started).await.map_err(|_| RunError::NotAudited)?;
        let ran = self.executor.run(script, limits, cancel).await;
        let (word, told) = match &ran {
            Ok(outcome) => (outcome.ending.as_str(), figures(outcome)),
            Err(error) => ("NOT_RUN", json!({ "reason": error.to_string() })),
        };
        let mut entries = Vec::new();
        if ran.is_ok() {
            entries.push(entry(AuditEvent::SandboxExec, word, &told));
        }
        entries.push(entry(AuditEvent::ToolFinished, word, &told));
        // What came of it is not told to anybody before it is written down.
        append(&self.store, entries).await.map_err(|_| RunError::EndNotAudited)?;
        ran
    }
}

impl Executor for AuditedExecutor {
    fn run(
        &self,
        script: AuthorizedScript,
        limits: RunLimits,
        cancel: CancellationToken,
    ) -> Run<'_> {
        Box::pin(self.run_and_audit(script, limits, cancel))
    }

    fn run_project(&self, project: ProjectRun, cancel: CancellationToken) -> Run<'_> {
        // Audited by its caller, with more to tell.
        self.executor.run_project(project, cancel)
    }

    fn readiness(&self) -> Readiness<'_> {
        self.executor.readiness()
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
        self.executor.shut_down()
    }
}
