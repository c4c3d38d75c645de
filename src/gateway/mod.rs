//! Yes or no, why, and under which id: every `tools/call` is decided here before anything happens.
//!
//! The order of the checks is fixed: policy table, arguments, code safety, admin gate, sandbox. Up to
//! the admin gate they are the gateway's own; code that passes them is `Verified`. The sandbox has
//! the last word: `Verified::confirm` alone makes the `Grant` to run code, without which the
//! executor runs nothing. The gateway never runs anything itself.
//!
//! `reporting` is the other gateway, of batches whose admin has asked for `--analysis report`. A server has
//! none, so no client's call ever gets there.

mod arguments;
mod decision;
mod job_id;
mod migration;
mod policy;
mod reporting;
mod script;
#[cfg(test)]
pub(crate) mod tests;
mod tool;
mod verification_id;
mod verified;

pub use decision::{DecisionFinding, DecisionRecord, ErrorCode, RiskLevel, Status};
pub(crate) use job_id::JobId;
pub(crate) use reporting::ReportingGateway;
pub(crate) use script::{AskedBy, AuthorizedScript, JobOwner, ScriptNames, SourceCode, Stdin};
pub(crate) use tool::Tool;
pub use verification_id::VerificationId;
pub(crate) use verified::{Decision, Grant, Verified};

use serde_json::{Map, Value};

use crate::config::{AdminGate, CodeAnalysis, Settings};
use crate::safety::{self, Finding};

use policy::ToolPolicy;

/// The arguments of a `tools/call`.
pub type Arguments = Map<String, Value>;

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
/// assert!(decision.verified);
/// assert_eq!(decision.status.as_str(), "ALLOW_VERIFIED");
/// assert_eq!(decision.verification_id.as_str().len(), 64);
/// assert_eq!(decision.normalized_arguments["background"], false);
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
}

/// The outcome of the gateway's own checks.
#[derive(Debug)]
pub(crate) enum Evaluation {
    /// The decision is final: the call is refused, or runs no code.
    Decided(Decision),
    /// The call is to run code, and the sandbox has the last word.
    Verified(Verified),
}

impl RiskBasedExecutionGateway {
    /// Creates a gateway with the given admin gate.
    pub fn new(admin_gate: AdminGate) -> Self {
        Self { admin_gate, code_analysis: CodeAnalysis::On }
    }

    /// Creates the gateway that the server's settings ask for.
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        Self { code_analysis: settings.code_analysis, ..Self::new(settings.admin_gate) }
    }

    /// Returns the admin's word on whether code may run at all.
    pub fn admin_gate(&self) -> AdminGate {
        self.admin_gate
    }

    /// Decides whether the tool `tool_name` may be called with `arguments`, on a machine whose sandbox
    /// is ready.
    ///
    /// Never fails: a call that cannot be decided is blocked. Analysing code takes CPU time linear in
    /// its size: about 100 ms for 1 MiB, and never more than about a second.
    pub fn evaluate_and_route(&self, tool_name: &str, arguments: Arguments) -> DecisionRecord {
        match self.evaluate(tool_name, arguments) {
            Evaluation::Decided(decision) => decision.into_record(),
            Evaluation::Verified(verified) => verified.into_record(),
        }
    }

    /// Checks a call of the tool `tool_name` as far as the gateway can.
    pub(crate) fn evaluate(&self, tool_name: &str, arguments: Arguments) -> Evaluation {
        let refused = |decision| Evaluation::Decided(Decision::Refuse(decision));
        let Some(policy) = policy::lookup(tool_name) else {
            let message = migration::unknown_tool_message(tool_name);
            let id = VerificationId::fresh(tool_name, &arguments);
            return refused(
                DecisionRecord::verified(None, RiskLevel::High, arguments, id).refused(
                    Status::Blocked,
                    ErrorCode::UnknownTool,
                    message,
                ),
            );
        };
        match policy.tool {
            Some(Tool::ExecutePythonCode) => match self.evaluate_execution(policy, arguments) {
                Ok(verified) => Evaluation::Verified(verified),
                Err(record) => refused(*record),
            },
            Some(Tool::VerificationStatus) => match arguments::job_id(arguments) {
                Ok(job_id) => {
                    let record = policy.verify(arguments::normalized_job_id(job_id));
                    let grant = Grant::JobStatus(job_id);
                    Evaluation::Decided(Decision::Allow { record, grant })
                }
                Err(invalid) => refused(invalid.refuse(policy)),
            },
            None => {
                let message = format!("Tool '{tool_name}' has no deterministic governance policy.");
                let record = policy.verify(arguments);
                refused(record.refused(Status::Blocked, ErrorCode::NoHandler, message))
            }
        }
    }

    fn evaluate_execution(
        &self,
        policy: &ToolPolicy,
        arguments: Arguments,
    ) -> Result<Verified, Box<DecisionRecord>> {
        let (source, background) =
            arguments::execution(arguments).map_err(|invalid| Box::new(invalid.refuse(policy)))?;
        let record = policy.verify(arguments::normalized_execution(&source, background));
        self.evaluate_script(record, source, background)
    }

    /// Checks once more a script whose decision was made before, on whatever machine: what the database says
    /// is no permission. The id stays that of the decision.
    ///
    /// # Errors
    ///
    /// The refusal, where the script may not run here, or the id is none.
    #[cfg(feature = "postgres")]
    pub(crate) fn evaluate_again(
        &self,
        source: String,
        verification_id: String,
    ) -> Result<Verified, Box<DecisionRecord>> {
        let source = SourceCode::from(source);
        let record = policy::EXECUTION.verify(arguments::normalized_execution(&source, true));
        let Some(verification_id) = VerificationId::known(verification_id) else {
            let message = "The decision about the script is not known.".to_owned();
            return Err(Box::new(record.refused(Status::Blocked, ErrorCode::NoHandler, message)));
        };
        self.evaluate_script(DecisionRecord { verification_id, ..record }, source, true)
    }

    fn evaluate_script(
        &self,
        record: DecisionRecord,
        source: SourceCode,
        background: bool,
    ) -> Result<Verified, Box<DecisionRecord>> {
        let Analysed { issues, notes, names, findings } = match self.code_analysis {
            CodeAnalysis::On => Analysed::of(&source),
            CodeAnalysis::Off => Analysed::default(),
        };
        if !issues.is_empty() {
            let message = format!("QWED blocked python execution: {}", issues.join("; "));
            let record = record.refused(Status::Blocked, ErrorCode::UnsafeCode, message);
            return Err(Box::new(DecisionRecord { findings, ..record }));
        }
        let record = self.admin_gate.pass(record)?;
        let record = DecisionRecord { notes, ..record };
        Ok(Verified::new(record, source, names, background))
    }
}

/// What the analysis has to say of a script.
#[derive(Debug, Default)]
struct Analysed {
    /// What is wrong with it, in words.
    issues: Vec<String>,
    notes: Vec<String>,
    /// `None` where nobody has looked.
    names: Option<ScriptNames>,
    findings: Vec<DecisionFinding>,
}

impl Analysed {
    fn of(source: &SourceCode) -> Self {
        let texts = |findings: &[Finding]| findings.iter().map(Finding::to_string).collect();
        match safety::analyze(source.as_str()) {
            Ok(analysis) => Self {
                issues: texts(&analysis.findings),
                notes: texts(&analysis.notes),
                findings: DecisionFinding::of(&analysis.findings),
                names: Some(ScriptNames { imports: analysis.imports, uses: analysis.uses }),
            },
            Err(error) => {
                Self { issues: vec![format!("verification error: {error}")], ..Self::default() }
            }
        }
    }
}

impl AdminGate {
    /// Refuses a script that is safe where the admin lets none run.
    fn pass(self, record: DecisionRecord) -> Result<DecisionRecord, Box<DecisionRecord>> {
        match self {
            Self::Open => Ok(record),
            Self::Closed => {
                let message = "Python execution was verified, but server policy keeps code execution \
                               disabled until QWED_MCP_TRUSTED_CODE_EXECUTION=true.";
                let (status, code) = (Status::BlockedAdminPolicy, ErrorCode::AdminGateClosed);
                Err(Box::new(record.refused(status, code, message.to_owned())))
            }
        }
    }
}

impl ToolPolicy {
    /// Returns the record of a call that passed the checks up to now.
    fn verify(&self, normalized: Arguments) -> DecisionRecord {
        let id = VerificationId::fresh(self.name, &normalized);
        let record = DecisionRecord::verified(self.tool, self.risk, normalized, id);
        DecisionRecord {
            message: self.tool.map(Tool::verified_message).unwrap_or_default().to_owned(),
            ..record
        }
    }
}

impl arguments::Invalid {
    /// Returns the refusal of a call with these arguments.
    fn refuse(self, policy: &ToolPolicy) -> DecisionRecord {
        let Self { code, message, arguments } = self;
        policy.verify(arguments).refused(Status::Blocked, code, message.to_owned())
    }
}
