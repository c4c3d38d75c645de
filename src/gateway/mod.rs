//! Decides for every `tools/call` whether the call is allowed, before the call is carried out. Each decision has a
//! reason and an id.
//!
//! The order of the checks is fixed: table of tools, arguments, analysis, admin gate, sandbox. A script that passes all
//! checks up to the admin gate is `Verified`. Then `Verified::confirm` checks the sandbox. Only this function creates
//! the `Grant` that the executor requires to run a script. The gateway never runs anything.
//!
//! `reporting` contains a second gateway, for batches with `--analysis report`. Only the command line creates it, so a
//! call of a client never reaches it.

mod arguments;
mod decision;
mod inputs;
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
mod written;

pub use decision::{DecisionFinding, DecisionRecord, ErrorCode, RiskLevel, Status};
pub(crate) use inputs::{Base64Files, Form, INPUT_BYTES_MAX, Inputs, WrittenInputs};
pub(crate) use job_id::JobId;
pub(crate) use reporting::ReportingGateway;
pub(crate) use script::{AskedBy, AuthorizedScript, JobOwner, ScriptNames, SourceCode, Stdin};
pub(crate) use tool::Tool;
pub use verification_id::VerificationId;
pub(crate) use verified::{Decision, Grant, Verified};

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::config::{AdminGate, CodeAnalysis, Settings};
use crate::safety::{self, Finding};

use arguments::Execution;
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

/// Decides whether a call that does not run a script is allowed. Allows only calls that look up a background job.
/// Returns the decision and the id of the job.
///
/// # Errors
///
/// The refusal, if the tool is unknown or has no handler, or if the arguments do not name a job.
pub(crate) fn decide_lookup(
    tool_name: &str,
    arguments: Arguments,
) -> Result<(DecisionRecord, JobId), Box<DecisionRecord>> {
    let Some(policy) = policy::lookup(tool_name) else {
        let message = migration::unknown_tool_message(tool_name);
        let id = VerificationId::fresh(tool_name, &arguments);
        let record = DecisionRecord::verified(None, RiskLevel::High, arguments, id);
        return Err(Box::new(record.refused(Status::Blocked, ErrorCode::UnknownTool, message)));
    };
    if policy.tool != Some(Tool::VerificationStatus) {
        let message = format!("Tool '{tool_name}' has no deterministic governance policy.");
        let record = policy.verify(arguments);
        return Err(Box::new(record.refused(Status::Blocked, ErrorCode::NoHandler, message)));
    }
    let job = arguments::job_id(arguments).map_err(|invalid| Box::new(invalid.refuse(policy)))?;
    Ok((policy.verify(arguments::normalized_job_id(job)), job))
}

/// The gateway that decides whether scripts may run in this process.
#[derive(Debug, Clone)]
pub(crate) enum Gateway {
    /// Findings of the analysis block a script.
    Blocking(Arc<RiskBasedExecutionGateway>),
    /// Findings of the analysis are reported but do not block a script. The script runs only in the complete sandbox
    /// (T3).
    Reporting(Arc<ReportingGateway>),
}

impl Gateway {
    /// Creates the gateway that blocks scripts with findings, with the given settings.
    pub(crate) fn blocking(settings: &Settings) -> Self {
        Self::Blocking(Arc::new(RiskBasedExecutionGateway::from_settings(settings)))
    }

    /// Returns whether the admin allows scripts to run at all.
    pub(crate) fn admin_gate(&self) -> AdminGate {
        match self {
            Self::Blocking(gateway) => gateway.admin_gate,
            Self::Reporting(gateway) => gateway.admin_gate(),
        }
    }

    /// Decides whether a script is allowed, but does not check whether the sandbox is available. `arguments` are the
    /// arguments of `execute_python_code`. `with` contains the tests and inputs of the script.
    ///
    /// # Errors
    ///
    /// The record of the refusal, if a check fails.
    pub(crate) fn evaluate(
        &self,
        arguments: Arguments,
        with: Accompanying,
    ) -> Result<Verified, Box<DecisionRecord>> {
        match self {
            Self::Blocking(gateway) => gateway.evaluate(arguments, with),
            Self::Reporting(gateway) => gateway.evaluate(arguments, with),
        }
    }

    /// Checks the script of a shared job again, before this replica runs the job. The job's row in the database is not
    /// a permission to run the script, because other programs may have written the row. The new decision has the id of
    /// the first decision.
    ///
    /// # Errors
    ///
    /// The record of the refusal, if the script is not allowed to run here, or if `verification_id` does not have the
    /// form of a decision's id.
    pub(crate) fn evaluate_again(
        &self,
        source: String,
        inputs: Inputs,
        verification_id: String,
    ) -> Result<Verified, Box<DecisionRecord>> {
        let source = SourceCode::from(source);
        let arguments = arguments::normalized_execution(&source, &inputs, true);
        let record = policy::EXECUTION.verify(arguments);
        let (Self::Blocking(gateway), Some(verification_id)) =
            (self, VerificationId::known(verification_id))
        else {
            let message = "The decision about the script is not known.".to_owned();
            return Err(Box::new(record.refused(Status::Blocked, ErrorCode::NoHandler, message)));
        };
        let record = DecisionRecord { verification_id, ..record };
        let with = Accompanying { inputs, ..Accompanying::default() };
        gateway.evaluate_script(record, source, with, true)
    }
}

impl RiskBasedExecutionGateway {
    /// Creates a gateway with the given admin gate.
    pub fn new(admin_gate: AdminGate) -> Self {
        Self { admin_gate, code_analysis: CodeAnalysis::On }
    }

    /// Creates the gateway that blocks scripts with findings, with the given settings.
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        Self { code_analysis: settings.code_analysis, ..Self::new(settings.admin_gate) }
    }

    /// Returns the admin gate: whether scripts may run at all.
    pub fn admin_gate(&self) -> AdminGate {
        self.admin_gate
    }

    /// Decides whether the tool `tool_name` may be called with `arguments`, assuming that the sandbox works.
    ///
    /// Never fails: a call that cannot be decided is blocked. The analysis takes CPU time linear in the size of the
    /// script: about 100 ms for 1 MiB, and never more than about a second.
    pub fn evaluate_and_route(&self, tool_name: &str, arguments: Arguments) -> DecisionRecord {
        let decided = if tool_name == Tool::ExecutePythonCode.name() {
            self.evaluate(arguments, Accompanying::default()).map(Verified::into_record)
        } else {
            decide_lookup(tool_name, arguments).map(|(record, _)| record)
        };
        decided.unwrap_or_else(|refusal| *refusal)
    }

    /// Decides whether a script is allowed, but does not check whether the sandbox is available.
    ///
    /// # Errors
    ///
    /// The record of the refusal, if a check fails.
    pub(crate) fn evaluate(
        &self,
        arguments: Arguments,
        with: Accompanying,
    ) -> Result<Verified, Box<DecisionRecord>> {
        let (record, source, with, background) = verified_arguments(arguments, with)?;
        self.evaluate_script(record, source, with, background)
    }

    fn evaluate_script(
        &self,
        record: DecisionRecord,
        source: SourceCode,
        with: Accompanying,
        background: bool,
    ) -> Result<Verified, Box<DecisionRecord>> {
        let Analysed { issues, notes, names, findings } = match self.code_analysis {
            CodeAnalysis::On => Analysed::of_script(&source, &with),
            CodeAnalysis::Off => Analysed::default(),
        };
        if !issues.is_empty() {
            let message = format!("QWED blocked python execution: {}", issues.join("; "));
            let record = record.refused(Status::Blocked, ErrorCode::UnsafeCode, message);
            return Err(Box::new(DecisionRecord { findings, ..record }));
        }
        let record = self.admin_gate.pass(record)?;
        let record = DecisionRecord { notes, ..record };
        Ok(Verified::new(record, source, names, with, background))
    }
}

/// The tests and inputs of a script. The gateway decides about them and the script together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Accompanying {
    /// The expressions of the script's tests.
    pub(crate) calls: Arc<[String]>,
    /// The files that the script may read. If the call has an argument `inputs`, its files are used instead.
    pub(crate) inputs: Inputs,
}

/// Parses the arguments of `execute_python_code`. Returns the record of the decision so far, the script, its tests and
/// inputs, and whether the script runs in the background.
fn verified_arguments(
    arguments: Arguments,
    with: Accompanying,
) -> Result<(DecisionRecord, SourceCode, Accompanying, bool), Box<DecisionRecord>> {
    let policy = &policy::EXECUTION;
    let Execution { source, inputs, background } =
        arguments::execution(arguments).map_err(|invalid| Box::new(invalid.refuse(policy)))?;
    let with = if inputs.is_empty() { with } else { Accompanying { inputs, ..with } };
    let arguments = arguments::normalized_execution(&source, &with.inputs, background);
    Ok((policy.verify(arguments), source, with, background))
}

/// The result of the analysis of a script.
#[derive(Debug, Default)]
struct Analysed {
    /// The findings that block the script, as text.
    issues: Vec<String>,
    notes: Vec<String>,
    /// The imports, used names and checks in the script. `None` if the analysis is off or failed.
    names: Option<ScriptNames>,
    findings: Vec<DecisionFinding>,
}

impl Analysed {
    /// Analyses a script together with the expressions of its tests, as if the expressions were the last lines of the
    /// script. The result contains the names in all expressions, but only the checks of the script itself.
    fn of_script(source: &SourceCode, with: &Accompanying) -> Self {
        let Accompanying { calls, inputs } = with;
        let inputs = inputs.names();
        let script = Self::of(source.as_str(), &inputs);
        // Check that the script parses without the expressions. Otherwise an expression could complete a broken
        // script.
        if calls.is_empty() || !script.issues.is_empty() {
            return script;
        }
        let extended = calls
            .iter()
            .fold(format!("{}\n", source.as_str()), |text, call| format!("{text}({call}\n)\n"));
        let mut extended = Self::of(&extended, &inputs);
        if let (Some(all), Some(own)) = (&mut extended.names, script.names) {
            (all.checks, all.check_plan) = (own.checks, own.check_plan);
        }
        extended
    }

    fn of(source: &str, inputs: &[&str]) -> Self {
        let texts = |findings: &[Finding]| findings.iter().map(Finding::to_string).collect();
        match safety::analyze_with_inputs(source, inputs) {
            Ok(analysis) => Self {
                issues: texts(&analysis.findings),
                notes: texts(&analysis.notes),
                findings: DecisionFinding::of(&analysis.findings),
                names: Some(ScriptNames::from(analysis)),
            },
            Err(error) => {
                Self { issues: vec![format!("verification error: {error}")], ..Self::default() }
            }
        }
    }
}

impl AdminGate {
    /// Refuses the script if the admin gate is closed. The gate applies even if the analysis found nothing.
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
    /// Returns the record of a call that has passed all checks so far.
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
        policy.verify(arguments).refused(Status::Blocked, code, message.into_owned())
    }
}
