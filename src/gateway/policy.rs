//! The policy table: a tool that is not in it is blocked.

use super::{RiskLevel, Tool};

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

/// The row of scripts.
pub(super) const EXECUTION: ToolPolicy = ToolPolicy::of(Tool::ExecutePythonCode, RiskLevel::High);

const POLICIES: &[ToolPolicy] = &[
    EXECUTION,
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
