//! The skill `verify-claims`: how a model verifies a claim with this server (<https://agentskills.io>). Agents read it
//! over MCP (SEP-2640), or from a folder (`qwed-mcp install --skill`).

use crate::clients::Skill;

/// The skill. `skills/list-packages` writes the list of packages.
pub(crate) const SKILL: Skill = Skill {
    name: "verify-claims",
    text: include_str!("../skills/verify-claims/SKILL.md"),
    references: &[(
        "references/packages.md",
        include_str!("../skills/verify-claims/references/packages.md"),
    )],
    mark: "execute_python_code of qwed-mcp",
};
