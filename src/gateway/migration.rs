//! The `verify_*` tools of v0.1.x, and the imports that replace them in a script.

/// The maximum length of a tool name in a message, in characters.
const NAME_CHARS_MAX: usize = 200;

/// The removed tools and their replacement imports, as of `qwed` 8.0, `qwed-finance` 3.0, `qwed-legal` 0.5 and
/// `qwed-ucp` 0.3. QWED's documentation names `qwed_new.engines` for the first two tools, but `qwed` 8.0 no longer
/// contains that module.
pub(super) const REPLACEMENTS: &[(&str, &str)] = &[
    ("verify_math", "from sympy import symbols, diff, integrate, simplify, solve"),
    ("verify_logic", "from z3 import Solver, Bool, Implies, Not"),
    ("verify_code", "from qwed_new.guards.code_guard import CodeGuard"),
    ("verify_sql", "from qwed_new.guards.sql_guard import SQLGuard"),
    ("verify_banking_compliance", "from qwed_finance import FinanceVerifier"),
    ("verify_iso_20022", "from qwed_finance import ISOGuard"),
    ("verify_commerce_transaction", "from qwed_ucp import UCPVerifier"),
    ("verify_legal_deadline", "from qwed_legal import DeadlineGuard"),
    ("verify_legal_citation", "from qwed_legal import CitationGuard"),
    ("verify_legal_liability", "from qwed_legal import LiabilityGuard"),
    ("verify_legal_jurisdiction", "from qwed_legal import JurisdictionGuard"),
    ("verify_legal_statute", "from qwed_legal import StatuteOfLimitationsGuard"),
    ("verify_system_command", "from qwed_sdk.guards.system_guard import SystemGuard"),
    ("verify_file_path", "from qwed_sdk.guards.system_guard import SystemGuard"),
    ("verify_config_secrets", "from qwed_sdk.guards.config_guard import ConfigGuard"),
];

/// Returns the message for a tool that is not in the table of tools.
pub(super) fn unknown_tool_message(tool: &str) -> String {
    let shown = match tool.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}…", tool.get(..end).unwrap_or_default()),
        None => tool.to_owned(),
    };
    let blocked = format!("Unknown MCP tool '{shown}' is blocked by default.");
    match REPLACEMENTS.iter().find(|(removed, _)| *removed == tool) {
        Some((_, import)) => {
            format!("{blocked} Use execute_python_code with a script that starts with: {import}")
        }
        None => blocked,
    }
}
