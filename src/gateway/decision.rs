//! The record of a decision, with the documented field names and values.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use crate::safety::{Finding, FindingKind};

use super::{Arguments, Tool, VerificationId};

/// The maximum number of findings in one decision.
const FINDINGS_MAX: usize = 20;
/// The maximum number of lines that one finding lists.
const LINES_MAX: usize = 20;

/// A decision of the gateway about a call, with the fields that the documentation describes for clients.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DecisionRecord {
    /// The tool that was called. `None` if the tool is unknown or has no handler.
    #[serde(skip)]
    pub(crate) tool: Option<Tool>,
    /// `true` if the call may be carried out.
    pub verified: bool,
    /// Whether the call is allowed, and the kind of reason if it is refused.
    pub status: Status,
    /// The level of harm that a call of the tool could do.
    pub risk_level: RiskLevel,
    /// The id of this decision. No two decisions have the same id.
    pub verification_id: VerificationId,
    /// The arguments in their normalized form. If the arguments could not be parsed, this field contains the arguments
    /// as received.
    pub normalized_arguments: Arguments,
    /// The reason for the decision, for people and models.
    pub message: String,
    /// The code of the reason for a refusal. `None` if the call is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<ErrorCode>,
    /// Notes of the analysis about code that the analysis allows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The findings of the analysis that block the script, at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<DecisionFinding>,
}

/// A finding of the analysis in machine-readable form. The message of the decision contains the finding as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DecisionFinding {
    /// The rule that applies, as `family/name`. `None` if no rule applies, for example if the source does not parse.
    pub rule: Option<&'static str>,
    /// The line where the finding starts, counted from 1. `None` if the finding concerns the whole source.
    pub line: Option<usize>,
    /// The column where the finding starts, in characters, counted from 1.
    pub column: Option<usize>,
    /// The description of the finding, without its position and without the alternative in `instead`.
    pub message: String,
    /// The safe alternative that the script should use. `None` if no alternative is known.
    pub instead: Option<&'static str>,
    /// All lines where the finding occurs, at most 20. Empty if the finding occurs on one line only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<usize>,
}

impl DecisionFinding {
    /// Returns at most 20 findings of an analysis. Skips the entry that contains only the number of further findings.
    pub(super) fn of(findings: &[Finding]) -> Vec<Self> {
        let is_listed = |finding: &&Finding| !matches!(finding.kind, FindingKind::More(_));
        findings.iter().filter(is_listed).take(FINDINGS_MAX).map(Self::from).collect()
    }
}

impl DecisionFinding {
    /// Returns a finding without a rule and without a position.
    pub(super) fn of_text(message: String) -> Self {
        Self { rule: None, line: None, column: None, message, instead: None, lines: Vec::new() }
    }
}

impl From<&Finding> for DecisionFinding {
    fn from(finding: &Finding) -> Self {
        let lines = if finding.lines.len() > 1 { finding.lines.as_slice() } else { &[] };
        Self {
            rule: finding.rule_id(),
            line: finding.position.map(|position| position.line),
            column: finding.position.map(|position| position.column),
            message: finding.statement(),
            instead: finding.alternative(),
            lines: lines.iter().copied().take(LINES_MAX).collect(),
        }
    }
}

impl DecisionRecord {
    /// Creates the record of a call that has passed all checks so far. The record has no message.
    pub(super) fn verified(
        tool: Option<Tool>,
        risk_level: RiskLevel,
        normalized_arguments: Arguments,
        verification_id: VerificationId,
    ) -> Self {
        Self {
            tool,
            verified: true,
            status: Status::AllowVerified,
            risk_level,
            verification_id,
            normalized_arguments,
            message: String::new(),
            error_code: None,
            notes: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Converts the record into the record of a refusal with the same id.
    pub(super) fn refused(self, status: Status, code: ErrorCode, message: String) -> Self {
        let (error_code, notes, findings) = (Some(code), Vec::new(), Vec::new());
        Self { verified: false, status, message, error_code, notes, findings, ..self }
    }

    /// Returns the record as JSON without the arguments, which the client already knows. The size and digest of each
    /// input remain.
    pub fn without_arguments(&self) -> Value {
        let mut value = json!({
            "verified": self.verified,
            "status": self.status,
            "risk_level": self.risk_level,
            "verification_id": self.verification_id,
            "message": self.message,
        });
        if let Some(fields) = value.as_object_mut() {
            if let Some(code) = self.error_code {
                fields.insert("error_code".to_owned(), json!(code));
            }
            // Include `inputs`, because the client does not know the digests that an allowed call contains instead of
            // file contents.
            if self.verified
                && let Some(inputs) = self.normalized_arguments.get("inputs")
            {
                fields.insert("inputs".to_owned(), inputs.clone());
            }
            if !self.notes.is_empty() {
                fields.insert("notes".to_owned(), json!(self.notes));
            }
            if !self.findings.is_empty() {
                fields.insert("findings".to_owned(), json!(self.findings));
            }
        }
        value
    }
}

/// The result of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Status {
    /// The call may be carried out.
    #[serde(rename = "ALLOW_VERIFIED")]
    AllowVerified,
    /// The call is refused.
    #[serde(rename = "BLOCKED")]
    Blocked,
    /// The call passed all checks of its content, but the admin's settings forbid it.
    #[serde(rename = "BLOCKED_ADMIN_POLICY")]
    BlockedAdminPolicy,
}

impl Status {
    /// Returns the documented name of the status, for clients and the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllowVerified => "ALLOW_VERIFIED",
            Self::Blocked => "BLOCKED",
            Self::BlockedAdminPolicy => "BLOCKED_ADMIN_POLICY",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The level of harm that a call of a tool could do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RiskLevel {
    /// The tool only reads the server's own state.
    Low,
    /// The tool runs a script.
    High,
}

/// The reason for a refusal: `QWED-MCP-RISK-001` to `-010`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The tool is not in the table of tools.
    #[serde(rename = "QWED-MCP-RISK-001")]
    UnknownTool,
    /// The tool is in the table of tools, but has no handler.
    #[serde(rename = "QWED-MCP-RISK-002")]
    NoHandler,
    /// `code` is missing, not a string, or blank.
    #[serde(rename = "QWED-MCP-RISK-003")]
    CodeMissing,
    /// `background` is not a boolean.
    #[serde(rename = "QWED-MCP-RISK-004")]
    BackgroundNotBoolean,
    /// The analysis has findings, or could not be completed.
    #[serde(rename = "QWED-MCP-RISK-005")]
    UnsafeCode,
    /// The analysis allows the script, but the admin gate is closed.
    #[serde(rename = "QWED-MCP-RISK-006")]
    AdminGateClosed,
    /// `job_id` is missing, not a string, or blank.
    #[serde(rename = "QWED-MCP-RISK-007")]
    JobIdMissing,
    /// `job_id` is not a canonical UUID.
    #[serde(rename = "QWED-MCP-RISK-008")]
    JobIdInvalid,
    /// The admin requires a sandbox that cannot be enforced on this machine.
    #[serde(rename = "QWED-MCP-RISK-009")]
    SandboxUnavailable,
    /// `inputs` is not an object of plain file names and contents, or is too large.
    #[serde(rename = "QWED-MCP-RISK-010")]
    InputsInvalid,
}

impl ErrorCode {
    /// Returns the documented code, for clients and the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownTool => "QWED-MCP-RISK-001",
            Self::NoHandler => "QWED-MCP-RISK-002",
            Self::CodeMissing => "QWED-MCP-RISK-003",
            Self::BackgroundNotBoolean => "QWED-MCP-RISK-004",
            Self::UnsafeCode => "QWED-MCP-RISK-005",
            Self::AdminGateClosed => "QWED-MCP-RISK-006",
            Self::JobIdMissing => "QWED-MCP-RISK-007",
            Self::JobIdInvalid => "QWED-MCP-RISK-008",
            Self::SandboxUnavailable => "QWED-MCP-RISK-009",
            Self::InputsInvalid => "QWED-MCP-RISK-010",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
