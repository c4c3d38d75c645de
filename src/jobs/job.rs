//! A job and its states.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::executor::{Ending, Outcome};
use crate::gateway::JobId;
use crate::verdict::{Conclusion, Verdict};
use crate::verification::{Subject, verdict_without_run};

/// The state of a job at one moment. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) state: JobState,
    /// The job's script. `None` if an earlier version of this program placed the job.
    pub(crate) subject: Option<Arc<Subject>>,
    /// The decision that permits the job's script, in the form that clients receive.
    pub(crate) decision: Arc<Value>,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) changed_at: DateTime<Utc>,
    /// The time at which the job is removed, unless its state changes before that time.
    pub(crate) expires_at: DateTime<Utc>,
    /// How often a worker has claimed the job. `None` if the jobs are in memory only.
    pub(crate) attempt: Option<i16>,
}

impl Job {
    /// Returns the verdict on the job's script. `None` before the job has ended.
    pub(crate) fn verdict(&self) -> Option<Arc<Verdict>> {
        let outcome = match &self.state {
            JobState::Queued | JobState::Running => return None,
            JobState::Ended(JobEnd::Ran(outcome)) => return outcome.verdict.clone(),
            JobState::Ended(JobEnd::NotRun(_)) => Conclusion::Blocked,
            JobState::Ended(JobEnd::Lost(_) | JobEnd::Cancelled) => Conclusion::Inconclusive,
        };
        Some(Arc::new(verdict_without_run(outcome, self.subject.as_deref()?)))
    }
}

/// The state of a job. States only change in this order: queued, running, ended. A job that is cancelled while it is
/// queued goes directly to ended.
#[derive(Debug, Clone)]
pub(crate) enum JobState {
    Queued,
    /// The job has left the queue, and has not ended.
    Running,
    /// The job is over. Its result is kept until the job expires.
    Ended(JobEnd),
}

impl JobState {
    /// Returns the size of the stored output in bytes.
    pub(crate) fn output_bytes(&self) -> usize {
        match self {
            Self::Ended(JobEnd::Ran(outcome)) => outcome.output_bytes(),
            Self::Queued
            | Self::Running
            | Self::Ended(JobEnd::NotRun(_) | JobEnd::Lost(_) | JobEnd::Cancelled) => 0,
        }
    }

    /// Returns the documented name of the state, for clients.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Ended(end) => end.as_str(),
        }
    }
}

/// The reason why a job ended, with its result. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) enum JobEnd {
    /// The script ran until it ended or reached its timeout.
    Ran(Arc<Outcome>),
    /// The script could not be run. The string is the reason.
    NotRun(Arc<str>),
    /// The worker with this name ran the job and disappeared. The script may have run partly or completely.
    Lost(Arc<str>),
    Cancelled,
}

impl JobEnd {
    /// Returns the documented name of the final state, for clients.
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
