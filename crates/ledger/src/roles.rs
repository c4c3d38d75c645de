//! Roles and their permissions, in one table.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The role of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// May do everything.
    Admin,
    /// May run tools, and read their results.
    User,
    /// May read the results of runs.
    Viewer,
}

/// The permission that a caller needs to use a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Permission {
    /// The permission to read the artifacts of runs.
    ArtifactRead,
    /// The permission to run scripts and tests.
    OrchestrationRun,
}

/// A text that is not the name of a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not one of admin, user and viewer")]
pub struct InvalidRole;

/// The permissions of a role, and the reason why the role has them.
struct RolePermissions {
    role: Role,
    has: &'static [Permission],
    #[cfg_attr(not(test), expect(dead_code, reason = "for who reads the table, and its test"))]
    why: &'static str,
}

/// The permissions of each role. A permission that is not listed is denied.
const MATRIX: [RolePermissions; 3] = [
    RolePermissions {
        role: Role::Admin,
        has: &[Permission::ArtifactRead, Permission::OrchestrationRun],
        why: "answers for the server and can give themselves any other role",
    },
    RolePermissions {
        role: Role::User,
        has: &[Permission::ArtifactRead, Permission::OrchestrationRun],
        why: "has work to be done, and needs to see its results",
    },
    RolePermissions {
        role: Role::Viewer,
        has: &[Permission::ArtifactRead],
        why: "looks at results; to run tests is to run code",
    },
];

impl Role {
    pub const ALL: [Self; 3] = [Self::Admin, Self::User, Self::Viewer];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::User => "user",
            Self::Viewer => "viewer",
        }
    }

    pub fn has(self, permission: Permission) -> bool {
        MATRIX.iter().any(|row| row.role == self && row.has.contains(&permission))
    }
}

impl FromStr for Role {
    type Err = InvalidRole;

    fn from_str(text: &str) -> Result<Self, InvalidRole> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or(InvalidRole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_as_they_are_written() {
        for role in Role::ALL {
            assert_eq!(role.as_str().parse(), Ok(role));
            assert_eq!(serde_json::to_value(role).unwrap(), role.as_str());
        }
        for text in ["", "Admin", "root", "admin "] {
            assert_eq!(text.parse::<Role>(), Err(InvalidRole), "{text}");
        }
        assert!(MATRIX.iter().all(|row| !row.why.is_empty()));
    }
}
