//! Bearers: those who call over HTTP, by the token of each request.

use super::call::blocking;
use super::roles::{GovernedTool, Permission, Role};
use super::store::{Store, StoreError};
use super::tokens::Token;
use super::user_name::UserName;
use crate::gateway::Tool;
use crate::logging::Causes;
use crate::secret::Secret;

/// The bearer of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bearer {
    pub(crate) user: UserName,
    pub(crate) role: Role,
}

/// A token that could not be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unavailable;

impl Bearer {
    /// Returns whether the bearer's role may call a tool. Unknown tools are the gateway's to refuse, and
    /// governed ones are checked once more with the token of the call.
    pub(crate) fn may_call(&self, tool: &str) -> bool {
        let of_scripts = [
            (Tool::ExecutePythonCode, Permission::OrchestrationRun),
            (Tool::VerificationStatus, Permission::ArtifactRead),
        ];
        let of_scripts = of_scripts.into_iter().find(|(known, _)| known.name() == tool);
        let governed = GovernedTool::from_name(tool).map(GovernedTool::permission);
        let permission = governed.or(of_scripts.map(|(_, permission)| permission));
        permission.is_none_or(|permission| self.role.has(permission))
    }

    /// Returns whether the bearer's role may have scripts run.
    pub(crate) fn may_run(&self) -> bool {
        self.role.has(Permission::OrchestrationRun)
    }
}

/// The tokens of a store, for whoever has to know who calls.
#[derive(Debug, Clone)]
pub(crate) struct Bearers {
    store: Store,
}

impl Bearers {
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Returns the bearer of a token; none if it is not known, has expired or was revoked.
    pub(crate) async fn bearer(&self, token: &Secret) -> Result<Option<Bearer>, Unavailable> {
        let Some(token) = Token::parse(token.reveal()) else { return Ok(None) };
        let store = self.store.clone();
        let found = blocking(move || store.authenticate(&token)).await.map_err(|_| Unavailable)?;
        let known = found.map_err(|error| unavailable(&error))?;
        Ok(known.map(|caller| Bearer { user: caller.user, role: caller.role }))
    }

    /// Returns whether the store answers.
    pub(crate) async fn is_available(&self) -> bool {
        let store = self.store.clone();
        blocking(move || store.tokens().is_ok()).await.unwrap_or(false)
    }
}

fn unavailable(error: &StoreError) -> Unavailable {
    tracing::error!(error = %Causes(error), "the store of tokens failed");
    Unavailable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_decide_per_tool() {
        for (role, tool, expected) in [
            (Role::Admin, "execute_python_code", true),
            (Role::User, "execute_python_code", true),
            (Role::Viewer, "execute_python_code", false),
            (Role::Viewer, "verification_status", true),
            (Role::Viewer, "run_pytest", false),
            (Role::User, "run_pytest", true),
            (Role::Viewer, "get_evidence", true),
            // The gateway says that there is no such tool.
            (Role::Viewer, "rm", true),
        ] {
            let bearer = Bearer { user: "ann".parse().unwrap(), role };
            assert_eq!(bearer.may_call(tool), expected, "{role:?} {tool}");
        }
    }
}
