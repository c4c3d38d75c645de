//! The skill `verify-claims` (<https://agentskills.io>): instructions for models that verify claims with this server.
//! Clients read the skill over MCP (SEP-2640), or from a folder (`qwed-mcp install --skill`).

use crate::clients::Skill;

/// The skill `verify-claims`. The script `skills/list-packages` generates its list of packages.
pub(crate) const SKILL: Skill = Skill {
    name: "verify-claims",
    text: include_str!("../skills/verify-claims/SKILL.md"),
    references: &[(
        "references/packages.md",
        include_str!("../skills/verify-claims/references/packages.md"),
    )],
    mark: "execute_python_code of qwed-mcp",
};
