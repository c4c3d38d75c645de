//! The policy table. A tool that is not in the table is blocked.

use super::{RiskLevel, Tool};

/// One row of the table.
#[derive(Debug)]
pub(super) struct ToolPolicy {
    pub(super) name: &'static str,
    pub(super) risk: RiskLevel,
    /// `None` for a known tool without a handler, which is blocked.
    pub(super) tool: Option<Tool>,
}

impl ToolPolicy {
    const fn of(tool: Tool, risk: RiskLevel) -> Self {
        Self { name: tool.name(), risk, tool: Some(tool) }
    }
}

/// The row for scripts.
pub(super) const EXECUTION: ToolPolicy = ToolPolicy::of(Tool::ExecutePythonCode, RiskLevel::High);

const POLICIES: &[ToolPolicy] = &[
    EXECUTION,
    ToolPolicy::of(Tool::VerificationStatus, RiskLevel::Low),
    // The only row without a handler lets tests reach that branch in the real binary. Release builds do not contain it.
    #[cfg(debug_assertions)]
    ToolPolicy { name: "test_tool_without_handler", risk: RiskLevel::High, tool: None },
];

/// Returns the row for the tool with this name.
pub(super) fn lookup(name: &str) -> Option<&'static ToolPolicy> {
    POLICIES.iter().find(|policy| policy.name == name)
}
