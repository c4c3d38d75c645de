//! The answer to a line of a batch, and the status of the answer. This module never runs or writes anything.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::executor::{Ending, Outcome, Start};
use crate::gateway::{DecisionFinding, VerificationId};
use crate::verdict::Verdict;

/// The status of the answer to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// The script ended with exit code 0.
    Ok,
    /// The script ended with another exit code, or by a signal.
    Failed,
    /// The script timed out.
    Timeout,
    /// The script printed more than the output limit allows.
    OutputCap,
    /// The script used more memory than its limit allows.
    Memory,
    /// The script was refused, for example because of a finding. It was not run.
    Blocked,
    /// The line is invalid, so no script was run.
    Invalid,
    /// The batch was interrupted before the script ended.
    Cancelled,
    /// This machine could not run the script. The answer is not a failure of the script.
    InfraError,
}

impl Status {
    /// Every status. The answers are counted in this order.
    pub(crate) const ALL: [Self; 9] = [
        Self::Ok,
        Self::Failed,
        Self::Timeout,
        Self::OutputCap,
        Self::Memory,
        Self::Blocked,
        Self::Invalid,
        Self::Cancelled,
        Self::InfraError,
    ];

    /// Returns the documented name of the status.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::OutputCap => "output_cap",
            Self::Memory => "memory",
            Self::Blocked => "blocked",
            Self::Invalid => "invalid",
            Self::Cancelled => "cancelled",
            Self::InfraError => "infra_error",
        }
    }

    /// Returns the status of a run with this outcome.
    pub(super) fn of(outcome: &Outcome) -> Self {
        let is_capped = outcome.stdout.is_truncated || outcome.stderr.is_truncated;
        match outcome.ending {
            Ending::TimedOut => Self::Timeout,
            Ending::Cancelled => Self::Cancelled,
            Ending::OutOfMemory => Self::Memory,
            Ending::Exited(_) if is_capped => Self::OutputCap,
            Ending::Exited(0) => Self::Ok,
            Ending::Exited(_) => Self::Failed,
        }
    }

    /// Returns whether a script passed. `is_as_expected` is whether its output is the expected output. `None` if the
    /// script had no chance to pass.
    pub(super) fn verdict(self, is_as_expected: bool) -> Option<bool> {
        match self {
            Self::Ok => Some(is_as_expected),
            Self::Failed | Self::Timeout | Self::OutputCap | Self::Memory | Self::Blocked => {
                Some(false)
            }
            Self::Invalid | Self::Cancelled | Self::InfraError => None,
        }
    }
}

/// An answer to a line, with its fields as they are written.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    /// The id of the line. `null` if the id cannot be read.
    pub(super) id: Option<String>,
    pub(super) status: Status,
    /// Whether the script passed. `null` if the script had no chance to pass.
    pub(super) passed: Option<bool>,
    /// The end of the first run that did not pass. If all runs passed, the end of the last run.
    #[serde(flatten)]
    pub(super) end: Option<RunEnd>,
    /// The verdict on that run, or on a script that was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verification: Option<Arc<Verdict>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration_ms: Option<u64>,
    pub(super) queue_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verification_id: Option<VerificationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code_sha256: Option<String>,
    /// The hash of everything in the line that the answer depends on. `--resume` recognises the line by this hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line_sha256: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) findings: Vec<DecisionFinding>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tests: Vec<TestAnswer>,
    /// The reason why the line has no run, or why its run has no outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    pub(super) attempt: u8,
    /// `report` if findings do not block scripts in this batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) analysis: Option<&'static str>,
    /// The number of the line in the input, for an invalid line only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) meta: Option<Box<RawValue>>,
    /// Whether another attempt to answer the line would end in the same way.
    #[serde(skip)]
    pub(super) is_final: bool,
}

/// The end of a run, with its fields as they are written.
#[derive(Debug, Serialize)]
pub(super) struct RunEnd {
    pub(super) exit_code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// The names of the output streams that were cut off at the limit.
    pub(super) truncated: Vec<&'static str>,
    pub(super) warm: bool,
}

impl RunEnd {
    pub(super) fn of(outcome: Outcome) -> Self {
        let streams = [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)];
        let cut_off = streams.into_iter().filter(|(_, captured)| captured.is_truncated);
        Self {
            exit_code: outcome.ending.exit_code(),
            truncated: cut_off.map(|(name, _)| name).collect(),
            warm: outcome.start == Start::Warm,
            stdout: outcome.stdout.text,
            stderr: outcome.stderr.text,
        }
    }
}

/// The answer to one test of a line.
#[derive(Debug, Serialize)]
pub(super) struct TestAnswer {
    pub(super) status: Status,
    pub(super) passed: Option<bool>,
    pub(super) duration_ms: u64,
}

impl Answer {
    /// Returns whether this machine, and not the script, may be the cause of the answer. Then the line is tried again.
    /// Either the script could not be run, or it was ended by a SIGKILL that the server has not sent. The kernel sends
    /// SIGKILL if memory is short.
    pub(super) fn is_worth_another_try(&self) -> bool {
        let is_killed = self.end.as_ref().is_some_and(|end| end.exit_code == Ending::KILLED);
        match self.status {
            Status::InfraError => !self.is_final,
            Status::Failed => is_killed,
            Status::Ok
            | Status::Timeout
            | Status::OutputCap
            | Status::Memory
            | Status::Blocked
            | Status::Invalid
            | Status::Cancelled => false,
        }
    }

    /// Returns an answer with only an id and a status.
    pub(super) fn bare(id: impl Into<Option<String>>, status: Status) -> Self {
        Self {
            id: id.into(),
            status,
            passed: status.verdict(false),
            end: None,
            verification: None,
            duration_ms: None,
            queue_ms: 0,
            verification_id: None,
            code_sha256: None,
            line_sha256: None,
            findings: Vec::new(),
            tests: Vec::new(),
            error: None,
            attempt: 1,
            analysis: None,
            line: None,
            meta: None,
            is_final: false,
        }
    }
}

/// Returns whether a script printed the expected text. White space at the end of each line and at the end of the text
/// is ignored.
pub(super) fn is_as_expected(printed: &str, expected: &str) -> bool {
    let lines = |text: &'_ str| -> Vec<String> {
        text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
    };
    printed == expected || lines(printed) == lines(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_at_the_end_of_lines_is_not_compared() {
        for (printed, expected, is_same) in [
            ("7", "7\n", true),
            ("7", "7", true),
            ("1 \n2", "1\n2\n\n", true),
            ("1\r\n2", "1\n2", true),
            ("", "\n", true),
            (" 7", "7", false),
            ("7 8", "7  8", false),
            ("1\n\n2", "1\n2", false),
            ("7", "", false),
        ] {
            assert_eq!(is_as_expected(printed, expected), is_same, "{printed:?} {expected:?}");
        }
    }

    #[test]
    fn a_status_is_a_verdict_only_where_the_script_had_its_chance() {
        for status in Status::ALL {
            let is_verdict = !matches!(status.as_str(), "infra_error" | "cancelled" | "invalid");
            assert_eq!(status.verdict(true).is_some(), is_verdict, "{status:?}");
            assert_eq!(status.verdict(true) == Some(true), status == Status::Ok, "{status:?}");
            assert_ne!(status.verdict(false), Some(true), "{status:?}");
            let written = serde_json::to_value(status).unwrap();
            assert_eq!(written, status.as_str());
        }
    }
}
