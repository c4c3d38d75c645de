//! The table of tools. A tool that is not in the table is blocked.

use super::{RiskLevel, Tool};

/// One row of the table of tools, for one tool.
#[derive(Debug)]
pub(super) struct ToolPolicy {
    pub(super) name: &'static str,
    pub(super) risk: RiskLevel,
    /// The tool that handles the call. `None` for a known tool without a handler, which is blocked.
    pub(super) tool: Option<Tool>,
}

impl ToolPolicy {
    const fn of(tool: Tool, risk: RiskLevel) -> Self {
        Self { name: tool.name(), risk, tool: Some(tool) }
    }
}

/// The row of the table of tools for `execute_python_code`.
pub(super) const EXECUTION: ToolPolicy = ToolPolicy::of(Tool::ExecutePythonCode, RiskLevel::High);

const POLICIES: &[ToolPolicy] = &[
    EXECUTION,
    ToolPolicy::of(Tool::VerificationStatus, RiskLevel::Low),
    // A tool without a handler. Integration tests call this tool, to test that the real program refuses such tools.
    // Release builds do not contain this row.
    #[cfg(debug_assertions)]
    ToolPolicy { name: "test_tool_without_handler", risk: RiskLevel::High, tool: None },
];

/// Returns the row of the table of tools for the tool with this name.
pub(super) fn lookup(name: &str) -> Option<&'static ToolPolicy> {
    POLICIES.iter().find(|policy| policy.name == name)
}
