//! The states of a job.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::executor::{Ending, Outcome};
use crate::gateway::JobId;

/// A job as it is now. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) state: JobState,
    /// The decision that permits it, as clients see it.
    pub(crate) decision: Arc<Value>,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) changed_at: DateTime<Utc>,
    /// The time until which it is kept, if nothing changes.
    pub(crate) expires_at: DateTime<Utc>,
    /// How often it was handed out to be run, where somebody keeps count.
    pub(crate) attempt: Option<i16>,
}

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
            Self::Queued
            | Self::Running
            | Self::Ended(JobEnd::NotRun(_) | JobEnd::Lost(_) | JobEnd::Cancelled) => 0,
        }
    }

    /// Returns the documented word.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Ended(end) => end.as_str(),
        }
    }
}

/// The end of a job. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) enum JobEnd {
    /// Ran until it ended, or until its time was up.
    Ran(Arc<Outcome>),
    /// Could not be run, for this reason.
    NotRun(Arc<str>),
    /// The worker with this name had it, and is gone: nobody knows how far the script came.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "there is one worker, this one")
    )]
    Lost(Arc<str>),
    /// Was cancelled.
    Cancelled,
}

impl JobEnd {
    /// Returns the documented word.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::NotRun(_) | Self::Lost(_) => "failed",
            Self::Ran(outcome) => match outcome.ending {
                Ending::Exited(0) => "success",
                Ending::Exited(_) | Ending::OutOfMemory => "failed",
                Ending::Cancelled => "cancelled",
                Ending::TimedOut => "timed_out",
            },
        }
    }
}
