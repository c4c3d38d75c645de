//! Defines the levels of judges of tests, and the record of a judge.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The level of a judge. A later level includes the promises of the earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Level {
    /// The process of the tests, which also runs the code under test. The result is the tests' own word.
    InProcess,
    /// The tests and their configuration are the admin's. A process that never runs code under test observes them, and
    /// the server compares the outcomes with a list.
    Pinned,
    /// In addition, the code under test runs in a process of its own.
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

/// The judge of a run, as in its evidence and in the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JudgeRecord {
    pub(crate) level: Level,
    /// The SHA-256 of the folder of the admin's tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tests_sha256: Option<String>,
    /// The SHA-256 of the list of the tests that have to pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) list_sha256: Option<String>,
}
