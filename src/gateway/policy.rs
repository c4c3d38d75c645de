//! The policy table: what is not in it is blocked.

use super::RiskLevel;

/// Which of the gateway's evaluations decides about a tool.
#[derive(Debug, Clone, Copy)]
pub(super) enum Handler {
    ExecutePython,
    VerificationStatus,
}

/// One row of the table.
#[derive(Debug)]
pub(super) struct ToolPolicy {
    pub(super) tool: &'static str,
    pub(super) risk: RiskLevel,
    /// None for a tool that is known and that nothing decides about; it is blocked.
    pub(super) handler: Option<Handler>,
}

/// The tool that runs code.
pub(super) const EXECUTION: ToolPolicy = ToolPolicy {
    tool: "execute_python_code",
    risk: RiskLevel::High,
    handler: Some(Handler::ExecutePython),
};

const POLICIES: &[ToolPolicy] = &[
    EXECUTION,
    ToolPolicy {
        tool: "verification_status",
        risk: RiskLevel::Low,
        handler: Some(Handler::VerificationStatus),
    },
    // The one row without a handler lets tests reach that branch in the real binary. Release
    // builds do not have it.
    #[cfg(debug_assertions)]
    ToolPolicy { tool: "test_tool_without_handler", risk: RiskLevel::High, handler: None },
];

/// The policy for the tool of this name.
pub(super) fn lookup(tool: &str) -> Option<&'static ToolPolicy> {
    POLICIES.iter().find(|policy| policy.tool == tool)
}
