//! Defines the outcome of a run: its ending, and its output.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::sandbox::Tier;
use crate::verdict::Verdict;

use super::{CheckCounts, EndReport, MemoryBound, Pictures, Returned};

/// The ending, the output and the duration of a run. Its serialized form omits the PNG data of pictures.
/// Deserialization takes missing fields from [`Outcome::never_started`], because another version of this program may
/// have written the outcome.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default = "Outcome::never_started")]
pub(crate) struct Outcome {
    pub(crate) ending: Ending,
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
    /// The pictures of the script; empty if the server does not collect pictures.
    pub(crate) pictures: Arc<Pictures>,
    /// The counts of the script's checks; `None` if the run has not sent them.
    pub(crate) check_counts: Option<CheckCounts>,
    /// The report of the script's process about the end of the script.
    pub(crate) end_report: EndReport,
    /// The time from the start of the run to its end. A cold run ends when its last process is dead. A warm run ends
    /// when its output is complete.
    pub(crate) duration: Duration,
    /// Whether the run was killed because it exceeded its limit on pipes.
    pub(crate) took_pipes: bool,
    /// Whether the run may have timed out because of other processes. Either the other processes used the processors,
    /// or they used so many pipes that the kernel made the pipes of this run smaller. A write to a smaller pipe can
    /// block until the timeout.
    pub(crate) is_starved: bool,
    /// Whether the run timed out after it had slept for most of the time, instead of waiting for a processor.
    pub(crate) has_slept: bool,
    /// The tier of the run; `None` if the run never started.
    pub(crate) tier: Option<Tier>,
    /// The mechanism that limited the run's memory; `None` if its memory was not limited.
    pub(crate) memory_bound: Option<MemoryBound>,
    /// Whether the run's interpreter was started for the run, or forked from a fork server.
    pub(crate) start: Start,
    /// Advice for the author of the script. For example, if an import failed, the advice lists the installed modules.
    pub(crate) advice: Option<String>,
    /// The verdict on the run; `None` until the run has ended.
    pub(crate) verdict: Option<Arc<Verdict>>,
    /// The receipt of the run, in the form that clients receive; `None` if no receipt was made.
    pub(crate) receipt: Option<Value>,
    /// The earlier run from which this outcome comes; `None` if the script was run for this call.
    pub(crate) cached: Option<Cached>,
}

/// The earlier run from which an outcome is reused. It ran the same script in the same surroundings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cached {
    /// The SHA-256 of the receipt of the earlier run; `None` if that run has no receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) receipt: Option<String>,
}

impl Cached {
    /// Returns the value that marks a reused outcome in tool results: an object with the digest of the receipt if a
    /// receipt exists, otherwise `true`.
    pub(crate) fn mark(&self) -> Value {
        self.receipt.as_ref().map_or(Value::Bool(true), |_| serde_json::json!(self))
    }
}

/// The way in which a run got its interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Start {
    /// The interpreter was started for the run.
    Cold,
    /// The interpreter was forked from a fork server, which had already imported packages.
    Warm,
}

impl Outcome {
    /// Returns the outcome of a run that was cancelled before it began.
    pub(crate) fn never_started() -> Self {
        Self {
            ending: Ending::Cancelled,
            stdout: Captured::default(),
            stderr: Captured::default(),
            pictures: Arc::default(),
            check_counts: None,
            end_report: EndReport::default(),
            duration: Duration::ZERO,
            took_pipes: false,
            is_starved: false,
            has_slept: false,
            tier: None,
            memory_bound: None,
            start: Start::Cold,
            advice: None,
            verdict: None,
            receipt: None,
            cached: None,
        }
    }

    /// Returns the outcome of a run that SIGKILL ended, if nothing else is known about the run.
    pub(crate) fn killed() -> Self {
        Self { ending: Ending::Exited(Ending::KILLED), ..Self::never_started() }
    }

    /// Returns whether the script ended by itself, with its complete output. Any exit code is a result: for example, a
    /// script that refutes a claim may end with an error code.
    pub(crate) fn is_result(&self) -> bool {
        let is_whole = !self.stdout.is_truncated && !self.stderr.is_truncated;
        is_whole && matches!(self.ending, Ending::Exited(0..))
    }

    pub(crate) fn duration_ms(&self) -> u64 {
        u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns stdout, a line feed and stderr.
    pub(crate) fn printed(&self) -> String {
        [self.stdout.text.as_str(), self.stderr.text.as_str()].join("\n")
    }

    /// Returns the size of the output in bytes, including the value of `result`. Pictures count with their size in
    /// base64, because clients receive them in this form.
    pub(crate) fn output_bytes(&self) -> usize {
        let streams = [&self.stdout, &self.stderr];
        let of = |stream: &Captured| stream.text.len() + stream.bytes.as_ref().map_or(0, Vec::len);
        let returned = self.end_report.returned.as_ref().map_or(0, Returned::bytes);
        streams.map(of).iter().sum::<usize>() + self.pictures.encoded_bytes() + returned
    }
}

/// The way in which a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    /// Python ended with this exit code. A negative number is the signal that killed Python.
    Exited(i32),
    /// The run reached its timeout.
    TimedOut,
    /// The run was cancelled, because its result was no longer wanted.
    Cancelled,
    /// The run exceeded its memory limit or its limit on pipes.
    OutOfMemory,
}

impl Ending {
    /// Returns the word for this ending in the audit log.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Exited(0) => "SUCCEEDED",
            Self::Exited(_) => "FAILED",
            Self::TimedOut => "TIMEOUT",
            Self::Cancelled => "CANCELLED",
            Self::OutOfMemory => "OUT_OF_MEMORY",
        }
    }

    /// The exit code of a killed run: the negative number of SIGKILL.
    pub(crate) const KILLED: i32 = -9;

    /// Returns the exit code to report. A run that the server ended has the exit code of a killed run.
    pub(crate) fn exit_code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::TimedOut | Self::Cancelled | Self::OutOfMemory => Self::KILLED,
        }
    }
}

/// The captured output of one stream.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Captured {
    /// The text, with invalid UTF-8 replaced and trailing white space removed.
    pub(crate) text: String,
    /// The original bytes, without trailing white space, if invalid UTF-8 was replaced in `text`. Otherwise `None`.
    pub(crate) bytes: Option<Vec<u8>>,
    /// Whether the stream was truncated because it exceeded its limit. The run was then killed.
    pub(crate) is_truncated: bool,
}

impl Captured {
    /// Returns the bytes that the script wrote, without trailing white space. A truncated stream ends with the notice
    /// about the truncation.
    pub(crate) fn content(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or(self.text.as_bytes())
    }
}
