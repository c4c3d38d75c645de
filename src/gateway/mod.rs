//! Yes or no, why, and under which id: every `tools/call` is decided here before anything happens.
//!
//! The order of the checks is fixed: policy table, arguments, code safety, admin gate, sandbox.
//! The gateway decides and never runs anything. What it allows it hands out as a [`Grant`], which
//! nothing else can make, and without which the executor runs nothing.

mod arguments;
mod decision;
mod job_id;
mod migration;
mod policy;
mod script;
#[cfg(test)]
mod tests;
mod verification_id;

pub use decision::{Decision, DecisionRecord, ErrorCode, RiskLevel, Status};
pub use job_id::JobId;
pub use script::{AuthorizedScript, SourceCode};
pub use verification_id::VerificationId;

use serde_json::{Map, Value};

use crate::config::{AdminGate, CodeAnalysis, Settings};
use crate::safety::{self, Finding};

use policy::{Handler, ToolPolicy};
use verification_id::InstanceId;

/// The arguments of a `tools/call`.
pub type Arguments = Map<String, Value>;

/// What an allowed call may do. Only this module makes one.
#[derive(Debug)]
pub enum Grant {
    /// Run a script now and answer with its result.
    Execute(AuthorizedScript),
    /// Place a script as a background job and answer with the job's id.
    ExecuteInBackground(AuthorizedScript),
    /// Tell the state of a job.
    JobStatus(JobId),
}

/// Decides tool calls.
///
/// ```
/// use qwed_mcp::{AdminGate, RiskBasedExecutionGateway};
/// use serde_json::json;
///
/// let gateway = RiskBasedExecutionGateway::new(AdminGate::Open);
///
/// let arguments = json!({ "code": "print('hello world')", "background": false });
/// let decision =
///     gateway.evaluate_and_route("execute_python_code", arguments.as_object().unwrap().clone());
/// assert!(decision.record().verified);
/// assert_eq!(decision.record().status.as_str(), "ALLOW_VERIFIED");
/// assert_eq!(decision.record().verification_id.as_str().len(), 64);
/// assert_eq!(decision.record().normalized_arguments["background"], false);
///
/// let arguments = json!({ "code": "import os; os.system('id')" });
/// let decision =
///     gateway.evaluate_and_route("execute_python_code", arguments.as_object().unwrap().clone());
/// let record = serde_json::to_value(&decision).unwrap();
/// assert_eq!(record["status"], "BLOCKED");
/// assert_eq!(record["error_code"], "QWED-MCP-RISK-005");
/// assert_eq!(
///     record["message"],
///     "QWED blocked python execution: Dangerous function call: os.system() (line 1), \
///      instead: do the work in Python"
/// );
/// ```
#[derive(Debug)]
pub struct RiskBasedExecutionGateway {
    admin_gate: AdminGate,
    code_analysis: CodeAnalysis,
    instance: InstanceId,
}

impl RiskBasedExecutionGateway {
    /// A gateway with the given admin gate.
    pub fn new(admin_gate: AdminGate) -> Self {
        Self { admin_gate, code_analysis: CodeAnalysis::On, instance: InstanceId::of_process() }
    }

    /// A gateway as the server's settings want it.
    pub fn from_settings(settings: &Settings) -> Self {
        Self { code_analysis: settings.code_analysis, ..Self::new(settings.admin_gate) }
    }

    /// Whether the admin allows code to run at all.
    pub fn admin_gate(&self) -> AdminGate {
        self.admin_gate
    }

    /// Decides whether the tool `tool_name` may be called with `arguments`.
    ///
    /// Never fails: what cannot be decided is blocked. Analysing code takes CPU time linear in its
    /// size, about 100 ms for 1 MiB.
    pub fn evaluate_and_route(&self, tool_name: &str, arguments: Arguments) -> Decision {
        let Some(policy) = policy::lookup(tool_name) else {
            let message = migration::unknown_tool_message(tool_name);
            let risk = RiskLevel::High;
            return self.block(tool_name, risk, arguments, ErrorCode::UnknownTool, message);
        };
        match policy.handler {
            Some(Handler::ExecutePython) => self.evaluate_execution(policy, arguments),
            Some(Handler::VerificationStatus) => self.evaluate_status_lookup(policy, arguments),
            None => {
                let message = format!("Tool '{tool_name}' has no deterministic governance policy.");
                self.block(tool_name, policy.risk, arguments, ErrorCode::NoHandler, message)
            }
        }
    }

    fn evaluate_execution(&self, policy: &ToolPolicy, arguments: Arguments) -> Decision {
        let (code, background) = match arguments::execution(arguments) {
            Ok(parsed) => parsed,
            Err(invalid) => return self.block_invalid(policy, invalid),
        };
        let normalized = arguments::normalized_execution(&code, background);
        let told = |findings: &[Finding]| -> Vec<String> {
            findings.iter().map(Finding::to_string).collect()
        };
        let (mut issues, mut notes, mut imports) = (Vec::new(), Vec::new(), Vec::new());
        match self.code_analysis {
            CodeAnalysis::On => match safety::analyze(code.as_str()) {
                Ok(analysis) => {
                    (issues, notes) = (told(&analysis.findings), told(&analysis.notes));
                    imports = analysis.imports;
                }
                Err(error) => issues.push(format!("verification error: {error}")),
            },
            CodeAnalysis::Off => {}
        }
        if !issues.is_empty() {
            let message = format!("QWED blocked python execution: {}", issues.join("; "));
            let code = ErrorCode::UnsafeCode;
            return self.block(policy.tool, policy.risk, normalized, code, message);
        }
        if self.admin_gate == AdminGate::Closed {
            let message = "Python execution was verified, but server policy keeps code execution \
                           disabled until QWED_MCP_TRUSTED_CODE_EXECUTION=true.";
            return self.block_by_admin(policy, normalized, ErrorCode::AdminGateClosed, message);
        }

        let message = "Python execution request passed deterministic verification.";
        let record = DecisionRecord { notes, ..self.allow(policy, normalized, message) };
        let script = AuthorizedScript::new(code, imports, record.verification_id.clone());
        let grant =
            if background { Grant::ExecuteInBackground(script) } else { Grant::Execute(script) };
        Decision::Allow { record, grant }
    }

    /// The last check of a call that is to run code: turns an allowed decision into a block,
    /// because the sandbox is `missing` something.
    pub(crate) fn block_without_sandbox(&self, decision: Decision, missing: &str) -> Decision {
        match decision {
            Decision::Allow {
                record,
                grant: Grant::Execute(_) | Grant::ExecuteInBackground(_),
            } => {
                let code = ErrorCode::SandboxUnavailable;
                self.block_by_admin(&policy::EXECUTION, record.normalized_arguments, code, missing)
            }
            Decision::Allow { grant: Grant::JobStatus(_), .. }
            | Decision::Block(_)
            | Decision::BlockByAdminPolicy(_) => decision,
        }
    }

    fn evaluate_status_lookup(&self, policy: &ToolPolicy, arguments: Arguments) -> Decision {
        let job_id = match arguments::job_id(arguments) {
            Ok(job_id) => job_id,
            Err(invalid) => return self.block_invalid(policy, invalid),
        };
        let message = "Verification status lookup passed deterministic validation.";
        let record = self.allow(policy, arguments::normalized_job_id(job_id), message);
        Decision::Allow { record, grant: Grant::JobStatus(job_id) }
    }

    fn allow(&self, policy: &ToolPolicy, normalized: Arguments, message: &str) -> DecisionRecord {
        DecisionRecord {
            verified: true,
            status: Status::AllowVerified,
            risk_level: policy.risk,
            verification_id: VerificationId::fresh(policy.tool, &normalized, self.instance),
            normalized_arguments: normalized,
            message: message.to_owned(),
            error_code: None,
            notes: Vec::new(),
        }
    }

    fn block_invalid(&self, policy: &ToolPolicy, invalid: arguments::Invalid) -> Decision {
        let arguments::Invalid { code, message, arguments } = invalid;
        self.block(policy.tool, policy.risk, arguments, code, message.to_owned())
    }

    fn block(
        &self,
        tool: &str,
        risk_level: RiskLevel,
        normalized_arguments: Arguments,
        code: ErrorCode,
        message: String,
    ) -> Decision {
        Decision::Block(DecisionRecord {
            verified: false,
            status: Status::Blocked,
            risk_level,
            verification_id: VerificationId::fresh(tool, &normalized_arguments, self.instance),
            normalized_arguments,
            message,
            error_code: Some(code),
            notes: Vec::new(),
        })
    }

    fn block_by_admin(
        &self,
        policy: &ToolPolicy,
        normalized_arguments: Arguments,
        code: ErrorCode,
        message: &str,
    ) -> Decision {
        Decision::BlockByAdminPolicy(DecisionRecord {
            verified: false,
            status: Status::BlockedAdminPolicy,
            risk_level: policy.risk,
            verification_id: VerificationId::fresh(
                policy.tool,
                &normalized_arguments,
                self.instance,
            ),
            normalized_arguments,
            message: message.to_owned(),
            error_code: Some(code),
            notes: Vec::new(),
        })
    }
}
