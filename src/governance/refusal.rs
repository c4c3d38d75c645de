//! Defines the refusals of governed calls: JSON-RPC errors with documented codes.

use serde_json::{Map, Value, json};
use thiserror::Error;
use uuid::Uuid;

use crate::plain_text::plain;

/// A refusal, with the documented code and text. `Display` is the message of the error, without paths and tokens.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum Refusal {
    /// The token is missing or invalid.
    #[error("Authentication required")]
    AuthRequired,
    #[error("Permission denied")]
    PermissionDenied,
    #[error("MCP write requires explicit allowlist")]
    NoAllowlist,
    #[error("Tool blocked by policy")]
    NotInAllowlist,
    /// The policy file cannot be used. The field is the reason.
    #[error("Tool blocked by policy: {0}")]
    PolicyUnusable(String),
    /// The budget was exceeded. The field is the name of the exceeded limit, such as `attempts_total`.
    #[error("Budget exceeded")]
    BudgetExceeded(&'static str),
    /// The policy disables the sandbox.
    #[error("MCP write requires sandbox")]
    SandboxDisabled,
    /// The sandbox is unavailable or stopped the run. The field is the reason.
    #[error("Sandbox violation: {0}")]
    SandboxViolation(String),
    /// The run was killed at the policy's timeout.
    #[error("Execution timeout")]
    Timeout,
    /// The arguments are invalid. The field is the reason.
    #[error("{0}")]
    InvalidParams(String),
    /// A file of a run has changed since the run. The field describes the difference.
    #[error("{0}. It is not served; ask the admin to run `qwed-mcp audit verify --artifacts`")]
    ArtifactChanged(String),
    /// The server failed. The field is the error with the remedy.
    #[error("{0}")]
    Internal(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalCode {
    AuthRequired,
    PermissionDenied,
    PolicyBlocked,
    BudgetExceeded,
    SandboxViolation,
    Timeout,
    InvalidParams,
    ArtifactChanged,
    InternalError,
}

impl RefusalCode {
    /// Returns the code for a JSON-RPC error.
    pub(crate) fn number(self) -> i32 {
        match self {
            Self::AuthRequired => -32001,
            Self::PermissionDenied => -32003,
            Self::PolicyBlocked => -32004,
            Self::BudgetExceeded => -32005,
            Self::SandboxViolation => -32006,
            Self::Timeout => -32007,
            Self::InvalidParams => -32602,
            Self::ArtifactChanged | Self::InternalError => -32603,
        }
    }

    /// Returns the name of the code, which is also the outcome in the audit log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AuthRequired => "AUTH_REQUIRED",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::PolicyBlocked => "POLICY_BLOCKED",
            Self::BudgetExceeded => "BUDGET_EXCEEDED",
            Self::SandboxViolation => "SANDBOX_VIOLATION",
            Self::Timeout => "TIMEOUT",
            Self::InvalidParams => "INVALID_PARAMS",
            Self::ArtifactChanged => "ARTIFACT_CHANGED",
            Self::InternalError => "INTERNAL_ERROR",
        }
    }
}

impl Refusal {
    /// Returns the details for the audit log if the code alone does not explain the refusal. The caller gets the same
    /// details.
    pub(super) fn audit_details(&self) -> Map<String, Value> {
        let (name, fact) = match self {
            Self::BudgetExceeded(exceeded) => ("exceeded", (*exceeded).to_owned()),
            Self::SandboxDisabled | Self::SandboxViolation(_) | Self::InvalidParams(_) => {
                ("blocked_reason", self.to_string())
            }
            // A refusal by the policy has a separate row with the reason.
            Self::NoAllowlist | Self::NotInAllowlist | Self::PolicyUnusable(_) => {
                return Map::new();
            }
            Self::AuthRequired
            | Self::PermissionDenied
            | Self::Timeout
            | Self::ArtifactChanged(_)
            | Self::Internal(_) => return Map::new(),
        };
        Map::from_iter([(name.to_owned(), Value::from(fact))])
    }

    pub(crate) fn code(&self) -> RefusalCode {
        match self {
            Self::AuthRequired => RefusalCode::AuthRequired,
            Self::PermissionDenied => RefusalCode::PermissionDenied,
            Self::NoAllowlist | Self::NotInAllowlist | Self::PolicyUnusable(_) => {
                RefusalCode::PolicyBlocked
            }
            Self::BudgetExceeded(_) => RefusalCode::BudgetExceeded,
            Self::SandboxDisabled | Self::SandboxViolation(_) => RefusalCode::SandboxViolation,
            Self::Timeout => RefusalCode::Timeout,
            Self::InvalidParams(_) => RefusalCode::InvalidParams,
            Self::ArtifactChanged(_) => RefusalCode::ArtifactChanged,
            Self::Internal(_) => RefusalCode::InternalError,
        }
    }

    /// Returns the message of the JSON-RPC error. Replaces hidden characters, because the message may quote text from
    /// callers or tests.
    pub(crate) fn message(&self) -> String {
        plain(&self.to_string())
    }

    /// Returns the field `data` of the JSON-RPC error.
    pub(crate) fn data(&self, run_id: Uuid) -> Value {
        let mut data = json!({ "code": self.code().name(), "run_id": run_id });
        if let (Self::BudgetExceeded(what), Some(fields)) = (self, data.as_object_mut()) {
            fields.insert("exceeded".to_owned(), json!(what));
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_budget_that_is_exceeded_says_which() {
        let run_id = Uuid::nil();
        let exceeded = Refusal::BudgetExceeded("attempts_total").data(run_id);
        let expected =
            json!({ "code": "BUDGET_EXCEEDED", "run_id": run_id, "exceeded": "attempts_total" });
        assert_eq!(exceeded, expected);
        let expected = json!({ "code": "TIMEOUT", "run_id": run_id });
        assert_eq!(Refusal::Timeout.data(run_id), expected);
    }
}
