//! Defines the names of the governed tools and the permission that each tool needs.

use crate::ledger::{Permission, RUN_PYTEST};

/// A tool that exists only if the admin configured a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum GovernedTool {
    RunPytest,
    Read(ReadTool),
}

/// A governed tool that only reads the artifacts of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ReadTool {
    GetEvidence,
    ListArtifacts,
    GetArtifactContent,
}

impl GovernedTool {
    pub(crate) const ALL: [Self; 4] = [
        Self::RunPytest,
        Self::Read(ReadTool::GetEvidence),
        Self::Read(ReadTool::ListArtifacts),
        Self::Read(ReadTool::GetArtifactContent),
    ];

    /// Returns the name by which clients call the tool.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RunPytest => RUN_PYTEST,
            Self::Read(ReadTool::GetEvidence) => "get_evidence",
            Self::Read(ReadTool::ListArtifacts) => "list_artifacts",
            Self::Read(ReadTool::GetArtifactContent) => "get_artifact_content",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub(crate) fn permission(self) -> Permission {
        match self {
            Self::RunPytest => Permission::OrchestrationRun,
            Self::Read(_) => Permission::ArtifactRead,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Role;

    #[test]
    fn every_cell_of_the_matrix_is_the_documented_one() {
        let all = ["run_pytest", "get_evidence", "list_artifacts", "get_artifact_content"];
        let expected = [
            (Role::Admin, all.to_vec()),
            (Role::User, all.to_vec()),
            (Role::Viewer, all[1..].to_vec()),
        ];
        let found = Role::ALL.map(|role| {
            let may = |tool: &GovernedTool| role.has(tool.permission());
            let tools = GovernedTool::ALL.into_iter().filter(may);
            (role, tools.map(GovernedTool::name).collect::<Vec<_>>())
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for tool in GovernedTool::ALL {
            assert_eq!(GovernedTool::from_name(tool.name()), Some(tool));
        }
        for name in ["", "RUN_PYTEST", "run_pytest ", "run_shell"] {
            assert_eq!(GovernedTool::from_name(name), None, "{name}");
        }
    }
}
