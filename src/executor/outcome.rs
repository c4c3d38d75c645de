//! The outcome of a run: its end, and its output.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::sandbox::Tier;

use super::{MemoryBound, Pictures};

/// The end of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) ending: Ending,
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
    /// The figures of the script, as far as they are wanted.
    pub(crate) pictures: Arc<Pictures>,
    /// From the start of the run until its last process was dead.
    pub(crate) duration: Duration,
    /// True if it was ended because it had more pipes than it may.
    pub(crate) took_pipes: bool,
    /// True if its time was up because others kept it from the processors, or from pipes of the usual size.
    pub(crate) is_starved: bool,
    /// True if its time was up, and it neither had nor wanted a processor for most of it.
    pub(crate) has_slept: bool,
    /// The tier that held the run; `None` if it never started.
    pub(crate) tier: Option<Tier>,
    /// The bound of the run's memory; `None` if there was none.
    pub(crate) memory_bound: Option<MemoryBound>,
    /// The origin of the run's interpreter.
    pub(crate) start: Start,
    /// A remark for whoever wrote the script.
    pub(crate) advice: Option<String>,
    /// The receipt of the run, as clients are told of it, where there is one.
    pub(crate) receipt: Option<Value>,
}

/// The origin of a run's interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Start {
    /// Started for the run.
    Cold,
    /// Forked from one that had loaded what verifications use.
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
            duration: Duration::ZERO,
            took_pipes: false,
            is_starved: false,
            has_slept: false,
            tier: None,
            memory_bound: None,
            start: Start::Cold,
            advice: None,
            receipt: None,
        }
    }

    /// Returns the outcome of a run that SIGKILL ended, of which nothing else is known.
    pub(crate) fn killed() -> Self {
        Self { ending: Ending::Exited(Ending::KILLED), ..Self::never_started() }
    }

    /// Returns whether the script ended by itself with its whole output, whatever its exit code: a
    /// claim that is refuted is a result.
    pub(crate) fn is_result(&self) -> bool {
        let is_whole = !self.stdout.is_truncated && !self.stderr.is_truncated;
        is_whole && matches!(self.ending, Ending::Exited(0..))
    }

    /// Returns the duration in milliseconds.
    pub(crate) fn duration_ms(&self) -> u64 {
        u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the output, one stream behind the other.
    pub(crate) fn printed(&self) -> String {
        [self.stdout.text.as_str(), self.stderr.text.as_str()].join("\n")
    }

    /// Returns the size of the output in bytes, with the pictures as they are sent.
    pub(crate) fn output_bytes(&self) -> usize {
        let streams = [&self.stdout, &self.stderr];
        let of = |stream: &Captured| stream.text.len() + stream.bytes.as_ref().map_or(0, Vec::len);
        streams.map(of).iter().sum::<usize>() + self.pictures.encoded_bytes()
    }
}

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    /// Python ended; its exit code, or the negative number of the signal that killed it.
    Exited(i32),
    /// The time was up.
    TimedOut,
    /// The caller did not want the result any more.
    Cancelled,
    /// The run had more memory than it may.
    OutOfMemory,
}

impl Ending {
    /// Returns the word for the audit log.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Exited(0) => "SUCCEEDED",
            Self::Exited(_) => "FAILED",
            Self::TimedOut => "TIMEOUT",
            Self::Cancelled => "CANCELLED",
            Self::OutOfMemory => "OUT_OF_MEMORY",
        }
    }

    /// The exit code of what was killed: SIGKILL.
    pub(crate) const KILLED: i32 = -9;

    /// Returns the exit code that is reported.
    pub(crate) fn exit_code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::TimedOut | Self::Cancelled | Self::OutOfMemory => Self::KILLED,
        }
    }
}

/// The captured output of one stream.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    /// The text, invalid UTF-8 replaced, trailing white space removed.
    pub(crate) text: String,
    /// The bytes that the text was made of, also without trailing white space; `None` if they are those of the text.
    pub(crate) bytes: Option<Vec<u8>>,
    /// True if the stream went on after the cap, so that the run was killed.
    pub(crate) is_truncated: bool,
}

impl Captured {
    /// Returns the bytes of the stream as the script wrote them, without trailing white space, with the notice
    /// where it was cut.
    pub(crate) fn content(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or(self.text.as_bytes())
    }
}
