//! Defines the level of a judge, which decides whether a run of tests passes. Also defines the facts about a judge that
//! the evidence and the audit log contain.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The level of a judge: how well the result of a run is protected against forgery. Each level includes the guarantees
/// of all earlier levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Level {
    /// The tests, pytest and the code under test run in one process, so each of them can forge the result.
    InProcess,
    /// The admin provides the tests and their configuration. A process that never runs code under test observes the
    /// tests. The server compares the outcomes with a list.
    Pinned,
    /// The code under test runs in a separate process.
    Isolated,
}

impl Level {
    pub(crate) const ALL: [Self; 3] = [Self::InProcess, Self::Pinned, Self::Isolated];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::InProcess => "in-process",
            Self::Pinned => "pinned",
            Self::Isolated => "isolated",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The facts about the judge of a run that the evidence and the audit log contain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JudgeRecord {
    pub(crate) level: Level,
    /// The SHA-256 of the folder with the admin's tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tests_sha256: Option<String>,
    /// The SHA-256 of the list of the admin's tests with their expected outcomes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) list_sha256: Option<String>,
}
