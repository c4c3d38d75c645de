//! The states of a job.

use std::sync::Arc;

use crate::executor::Outcome;
use crate::runs::ScriptError;

/// Where a job stands. Changes go one way: queued, running, ended; a job that is cancelled while it
/// waits skips the middle.
#[derive(Debug, Clone)]
pub(crate) enum JobState {
    /// Waits for a slot.
    Queued,
    /// Has a slot.
    Running,
    /// Is over; kept until it expires.
    Ended(JobEnd),
}

impl JobState {
    /// How many bytes of output are kept.
    pub(crate) fn output_bytes(&self) -> usize {
        match self {
            Self::Ended(JobEnd::Ran(outcome)) => outcome.output_bytes(),
            Self::Queued | Self::Running | Self::Ended(JobEnd::NotRun(_) | JobEnd::Cancelled) => 0,
        }
    }
}

/// How a job ended. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) enum JobEnd {
    /// It ran until it ended, or until its time was up.
    Ran(Arc<Outcome>),
    /// It could not be run.
    NotRun(Arc<ScriptError>),
    /// It was cancelled.
    Cancelled,
}
