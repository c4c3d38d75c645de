//! The states of a job.

use std::sync::Arc;

use crate::executor::Outcome;
use crate::runs::ScriptError;

/// The state of a job. Changes go one way: queued, running, ended; a job that is cancelled while it
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
    /// Returns the bytes of output that are kept.
    pub(crate) fn output_bytes(&self) -> usize {
        match self {
            Self::Ended(JobEnd::Ran(outcome)) => outcome.output_bytes(),
            Self::Queued | Self::Running | Self::Ended(JobEnd::NotRun(_) | JobEnd::Cancelled) => 0,
        }
    }
}

/// The end of a job. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) enum JobEnd {
    /// Ran until it ended, or until its time was up.
    Ran(Arc<Outcome>),
    /// Could not be run.
    NotRun(Arc<ScriptError>),
    /// Was cancelled.
    Cancelled,
}
