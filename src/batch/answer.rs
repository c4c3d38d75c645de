//! The answer to a line of a batch, and the status of the answer. This module never runs or writes anything.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::executor::{Ending, Outcome, Returned, Start, without_end_space};
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
    /// This machine could not run the script. This status does not count as a failure of the script.
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

    /// Returns whether the script passed. `is_as_expected` is the result of the comparison with the expected output or
    /// value, or `None` if the line expects no result. Returns `None` if the line expects no result, if the line is
    /// invalid, if the batch was interrupted, or if this machine could not run the script.
    pub(super) fn verdict(self, is_as_expected: Option<bool>) -> Option<bool> {
        match self {
            Self::Ok => is_as_expected,
            Self::Failed | Self::Timeout | Self::OutputCap | Self::Memory | Self::Blocked => {
                is_as_expected.map(|_| false)
            }
            Self::Invalid | Self::Cancelled | Self::InfraError => None,
        }
    }
}

/// The way in which a script was judged. The variants are ordered from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Judge {
    /// The server compared the results, but scripts could read the expected results.
    Exposed,
    /// The server compared the results, outside of the script's process and of its sandbox.
    Isolated,
}

/// An answer to a line. Its JSON has these fields.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    /// The id of the line. `null` if the id cannot be read.
    pub(super) id: Option<String>,
    pub(super) status: Status,
    /// Whether the script passed. `null` if the line expects no result, if the status is `invalid`, `cancelled` or
    /// `infra_error`, or if `incomplete` is `true`.
    pub(super) passed: Option<bool>,
    /// The way in which `passed` was determined. `null` if `passed` is `null`.
    pub(super) judged: Option<Judge>,
    /// Whether `passed` is `null` because the script was judged in a weaker way than the batch requires.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) incomplete: bool,
    /// Describes the first run that did not pass. If all runs passed, describes the last run.
    #[serde(flatten)]
    pub(super) end: Option<RunEnd>,
    /// The verdict on the checks in the script, for the run in `end`. If the script was refused, the outcome of the
    /// verdict is `blocked`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verification: Option<Arc<Verdict>>,
    /// Whether the results of all tests were reused from earlier runs.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) cached: bool,
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
    /// The reason why the script was not run, or why the result of its run cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    pub(super) attempt: u8,
    /// `report` if findings of the analysis do not block scripts in this batch. Omitted otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) analysis: Option<&'static str>,
    /// The number of the line in the input. Only set if the line is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) meta: Option<Box<RawValue>>,
    /// Whether another attempt to answer the line would end in the same way.
    #[serde(skip)]
    pub(super) is_final: bool,
}

/// The description of a run that has ended. Its JSON has these fields.
#[derive(Debug, Serialize)]
pub(super) struct RunEnd {
    pub(super) exit_code: i32,
    /// Whether the script reports that it ran to its last statement.
    pub(super) reached_end: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// The names of the output streams that were cut off at the limit.
    pub(super) truncated: Vec<&'static str>,
    pub(super) warm: bool,
    /// The value that the script has assigned to `result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Value>,
    /// The reason why `result` is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result_omitted: Option<String>,
}

impl RunEnd {
    pub(super) fn of(outcome: Outcome) -> Self {
        let returned = outcome.end_report.returned.map(Returned::parts);
        let (result, result_omitted) = returned.unwrap_or_default();
        let streams = [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)];
        let cut_off = streams.into_iter().filter(|(_, captured)| captured.is_truncated);
        Self {
            exit_code: outcome.ending.exit_code(),
            reached_end: outcome.end_report.reached_end,
            truncated: cut_off.map(|(name, _)| name).collect(),
            warm: outcome.start == Start::Warm,
            stdout: outcome.stdout.text,
            stderr: outcome.stderr.text,
            result,
            result_omitted,
        }
    }
}

/// The answer to one test of a line.
#[derive(Debug, Serialize)]
pub(super) struct TestAnswer {
    pub(super) status: Status,
    pub(super) passed: Option<bool>,
    pub(super) duration_ms: u64,
    /// Whether the result was reused from an earlier run.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) cached: bool,
    /// The value of the expression in the test's `call`, shortened. Only set if the value differs from the expected
    /// value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) got: Option<String>,
    /// The reason why the expression in `call` has no value although the status is `ok`. For example, the script may
    /// have exited before `call` was evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl Answer {
    /// Returns whether the line should be tried again, because this machine may be the cause of the answer. Either
    /// the script could not be run, or it was killed by a SIGKILL that the server did not send. The kernel sends
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
            passed: None,
            judged: None,
            incomplete: false,
            end: None,
            verification: None,
            cached: false,
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
/// is ignored. Output that is not UTF-8 never equals the expected text.
pub(super) fn is_as_expected(printed: &[u8], expected: &str) -> bool {
    fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
        without_end_space(text).split(|byte| *byte == b'\n').map(without_end_space)
    }
    lines(printed).eq(lines(expected.as_bytes()))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
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
            ("1\u{a0}\n2\u{2003}\n", "1\n2", true),
            ("a\u{fffd}b", "a\u{fffd}b", true),
        ] {
            let found = is_as_expected(printed.as_bytes(), expected);
            assert_eq!(found, is_same, "{printed:?} {expected:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_never_expected() {
        for printed in [&b"a\xffb"[..], b"a\xed\xa0\x80b", b"ab\xff"] {
            let lossy = String::from_utf8_lossy(printed);
            assert!(!is_as_expected(printed, &lossy), "{printed:?}");
            assert!(!is_as_expected(printed, "ab"), "{printed:?}");
        }
    }

    #[test]
    fn a_status_is_a_verdict_only_where_the_script_had_its_chance() {
        for status in Status::ALL {
            let is_verdict = !matches!(status.as_str(), "infra_error" | "cancelled" | "invalid");
            let right = status.verdict(Some(true));
            assert_eq!(right.is_some(), is_verdict, "{status:?}");
            assert_eq!(right == Some(true), status == Status::Ok, "{status:?}");
            assert_ne!(status.verdict(Some(false)), Some(true), "{status:?}");
            assert_eq!(status.verdict(None), None, "{status:?}");
            let written = serde_json::to_value(status).unwrap();
            assert_eq!(written, status.as_str());
        }
    }
}
