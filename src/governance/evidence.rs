//! Defines the content of `evidence.json`, the report of a finished run. Never reads or writes the file itself.

use std::fmt;
use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::level::JudgeRecord;
use super::summary::TestSummary;
use super::workspace::WorkspaceState;

/// A point in time. The serialized form is RFC 3339 in UTC with milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp(DateTime<Utc>);

impl From<DateTime<Utc>> for Timestamp {
    fn from(time: DateTime<Utc>) -> Self {
        Self(time)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Self(time.into())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time = DateTime::parse_from_rfc3339(&text).map_err(de::Error::custom)?;
        Ok(Self(time.to_utc()))
    }
}

/// The status of a run that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunStatus {
    Passed,
    Failed,
    /// pytest itself failed, tests could not be collected, or tests ended the process. Collection errors are in
    /// [`Evidence::summary`], and all other reasons in [`Evidence::reason`].
    Error,
    /// The run was killed at the policy's timeout.
    Timeout,
    /// The run exceeded a limit of the sandbox, or the sandbox was unavailable.
    SandboxViolation,
    /// The call exceeded the policy's budget.
    BudgetExceeded,
    Cancelled,
    NoTests,
    /// The run does not satisfy the judge: a test in the admin's list does not have its expected outcome, a test cannot
    /// run in a separate process from the code under test, or the level of the judge is too low.
    Incomplete,
}

impl RunStatus {
    /// Returns the name of the status in the evidence.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::SandboxViolation => "sandbox_violation",
            Self::BudgetExceeded => "budget_exceeded",
            Self::Cancelled => "cancelled",
            Self::NoTests => "no_tests",
            Self::Incomplete => "incomplete",
        }
    }

    /// Returns the name of the status in the audit log.
    pub(crate) fn audit_word(self) -> &'static str {
        match self {
            Self::Passed => "PASSED",
            Self::Failed => "FAILED",
            Self::Error => "ERROR",
            Self::Timeout => "TIMEOUT",
            Self::SandboxViolation => "SANDBOX_VIOLATION",
            Self::BudgetExceeded => "BUDGET_EXCEEDED",
            Self::Cancelled => "CANCELLED",
            Self::NoTests => "NO_TESTS",
            Self::Incomplete => "INCOMPLETE",
        }
    }
}

/// The part of the budget that a call used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BudgetUsage {
    /// The time since the arrival of the call, in milliseconds.
    pub(crate) elapsed_ms_total: u64,
    /// The number of times that pytest was started.
    pub(crate) attempts_total: u64,
    pub(crate) short_circuited: bool,
    /// The policy's timeout of one run, in seconds.
    pub(crate) policy_timeout_s: u64,
}

/// A file that the run left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArtifactRecord {
    /// The path relative to the run's folder.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// The SHA-256 in lower-case hexadecimal; `None` if the file was not hashed.
    pub(crate) sha256: Option<String>,
}

/// The evidence of a run: `evidence.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Evidence {
    pub(crate) run_id: Uuid,
    pub(crate) tool: String,
    pub(crate) user: String,
    pub(crate) status: RunStatus,
    /// The reason why the result is incomplete or not reliable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The exit code of pytest, negative if a signal killed pytest; `None` if pytest was not run.
    pub(crate) exit_code: Option<i32>,
    pub(crate) started: Timestamp,
    pub(crate) finished: Timestamp,
    /// The duration of pytest in milliseconds; `None` if pytest was not run.
    pub(crate) duration_ms: Option<u64>,
    /// The arguments of the tool, without the token.
    pub(crate) arguments: Map<String, Value>,
    /// The hash of `arguments`, as in the audit log.
    pub(crate) arguments_hash: String,
    /// The judge that decided whether the tests passed; `None` in evidence of earlier server versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) judge: Option<JudgeRecord>,
    /// The outcomes of the tests, if pytest reported them.
    pub(crate) summary: Option<TestSummary>,
    pub(crate) artifacts: Vec<ArtifactRecord>,
    /// The number of files that are not in `artifacts`, because they were unreadable or exceeded a limit.
    pub(crate) artifacts_omitted: u64,
    /// The tier of the sandbox in which the tests ran.
    pub(crate) sandbox_tier: Option<String>,
    pub(crate) governance: BudgetUsage,
    #[serde(default)]
    pub(crate) server_version: Option<String>,
    /// The number of the caller's token, or `oauth` for an access token.
    #[serde(default)]
    pub(crate) token: Option<String>,
    /// The SHA-256 of the policy file when the run was permitted.
    #[serde(default)]
    pub(crate) policy_sha256: Option<String>,
    /// The interpreter of the tests; `None` if the server found no interpreter. The server does not ask the tests for
    /// their interpreter, because tests can forge the answer.
    #[serde(default)]
    pub(crate) python: Option<PythonRecord>,
    /// The state of the workspace before the run, if it is a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<WorkspaceState>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PythonRecord {
    pub(crate) program: String,
    pub(crate) version: String,
    /// The version of the installed pytest; `None` if the server found no pytest.
    pub(crate) pytest: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn evidence_is_written_and_read_back() {
        let document = json!({
            "run_id": "67e55044-10b1-426f-9247-bb680e5fe0c8",
            "tool": "run_pytest",
            "user": "alice",
            "status": "sandbox_violation",
            "exit_code": null,
            "started": "2026-01-25T10:00:00.000Z",
            "finished": "2026-01-25T10:00:01.234Z",
            "duration_ms": 1200,
            "arguments": {"test_path": "tests/"},
            "arguments_hash": "ab",
            "summary": null,
            "artifacts": [{"path": "files/a.txt", "bytes": 3, "sha256": null}],
            "artifacts_omitted": 0,
            "sandbox_tier": "T3",
            "governance": {
                "elapsed_ms_total": 1234,
                "attempts_total": 1,
                "short_circuited": false,
                "policy_timeout_s": 300,
            },
            "server_version": "0.3.0",
            "token": "1",
            "policy_sha256": "cd",
            "python": {"program": "/usr/bin/python3", "version": "3.13.1", "pytest": "9.0.2"},
        });
        let evidence: Evidence = serde_json::from_value(document.clone()).unwrap();
        assert_eq!(evidence.status, RunStatus::SandboxViolation);
        assert_eq!(serde_json::to_value(&evidence).unwrap(), document);

        // Evidence of earlier versions lacks these fields, and must still be readable.
        let mut document = document;
        for new in ["server_version", "token", "policy_sha256", "python"] {
            assert!(document.as_object_mut().unwrap().remove(new).is_some(), "{new}");
        }
        let evidence: Evidence = serde_json::from_value(document).unwrap();
        assert_eq!((evidence.token, evidence.python), (None, None));
    }

    #[test]
    fn every_status_has_its_documented_name() {
        let names = [
            (RunStatus::Passed, "passed"),
            (RunStatus::Failed, "failed"),
            (RunStatus::Error, "error"),
            (RunStatus::Timeout, "timeout"),
            (RunStatus::SandboxViolation, "sandbox_violation"),
            (RunStatus::BudgetExceeded, "budget_exceeded"),
            (RunStatus::Cancelled, "cancelled"),
            (RunStatus::NoTests, "no_tests"),
            (RunStatus::Incomplete, "incomplete"),
        ];
        for (status, name) in names {
            assert_eq!(serde_json::to_value(status).unwrap(), json!(name));
            assert_eq!(status.as_str(), name);
        }
    }

    #[test]
    fn a_timestamp_is_utc_with_milliseconds() {
        let time: Timestamp = serde_json::from_value(json!("2026-01-25T12:00:00+02:00")).unwrap();
        assert_eq!(time.to_string(), "2026-01-25T10:00:00.000Z");
        assert_eq!(Timestamp::from(SystemTime::UNIX_EPOCH).to_string(), "1970-01-01T00:00:00.000Z");
        assert!(time < Timestamp::from(SystemTime::now()));
        assert!(serde_json::from_value::<Timestamp>(json!("yesterday")).is_err());
    }
}
