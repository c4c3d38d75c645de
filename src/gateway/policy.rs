//! The policy table: a tool that is not in it is blocked.

use super::RiskLevel;

/// A tool that the gateway decides about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    /// Runs a script.
    ExecutePythonCode,
    /// Tells the state of a background job.
    VerificationStatus,
}

impl Tool {
    /// Returns the name that clients call the tool by.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ExecutePythonCode => "execute_python_code",
            Self::VerificationStatus => "verification_status",
        }
    }

    /// Returns the message of a decision that allows a call of the tool.
    pub(super) fn verified_message(self) -> &'static str {
        match self {
            Self::ExecutePythonCode => {
                "Python execution request passed deterministic verification."
            }
            Self::VerificationStatus => {
                "Verification status lookup passed deterministic validation."
            }
        }
    }
}

/// One row of the table.
#[derive(Debug)]
pub(super) struct ToolPolicy {
    pub(super) name: &'static str,
    pub(super) risk: RiskLevel,
    /// `None` for a tool that is known and that nothing decides about; it is blocked.
    pub(super) tool: Option<Tool>,
}

impl ToolPolicy {
    const fn of(tool: Tool, risk: RiskLevel) -> Self {
        Self { name: tool.name(), risk, tool: Some(tool) }
    }
}

const POLICIES: &[ToolPolicy] = &[
    ToolPolicy::of(Tool::ExecutePythonCode, RiskLevel::High),
    ToolPolicy::of(Tool::VerificationStatus, RiskLevel::Low),
    // The one row without a tool lets tests reach that branch in the real binary. Release builds do
    // not have it.
    #[cfg(debug_assertions)]
    ToolPolicy { name: "test_tool_without_handler", risk: RiskLevel::High, tool: None },
];

/// Returns the policy for the tool of this name.
pub(super) fn lookup(name: &str) -> Option<&'static ToolPolicy> {
    POLICIES.iter().find(|policy| policy.name == name)
}
