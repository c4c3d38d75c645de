//! Governed tools: run pytest and read its evidence, under tokens, roles, policy, budget, sandbox
//! and audit. They exist only where the admin configured a policy file.
