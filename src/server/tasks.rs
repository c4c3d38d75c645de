//! Background jobs as tasks (the extension `io.modelcontextprotocol/tasks`, SEP-2663).
//!
//! A client receives tasks only if its request uses the stateless protocol and declares the extension. Other clients
//! poll with `verification_status`. This module stores nothing. The module `jobs` has the state of each job.

use chrono::{DateTime, SecondsFormat, Utc};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, DetailedTask, Task, TaskPayload, TaskStatus};
use serde_json::Value;

use crate::gateway::JobId;
use crate::jobs::{Job, JobEnd, JobState, JobsAway};

/// The interval at which clients should poll. Most scripts end before the first poll.
const POLL_INTERVAL_MS: u64 = 1000;

/// Returns a job as a task, without its result.
pub(super) fn task(job: &Job) -> Task {
    let kept = (job.expires_at - job.created_at).num_milliseconds();
    let (created, changed) = (timestamp(job.created_at), timestamp(job.changed_at));
    let task = Task::new(job.id.to_string(), status(&job.state), created, changed)
        // The TTL of a task is counted from its creation. The job expires a fixed time after its last change, so the
        // TTL grows with each change.
        .with_ttl_ms(u64::try_from(kept).unwrap_or_default())
        .with_poll_interval_ms(POLL_INTERVAL_MS);
    match job.state {
        JobState::Queued | JobState::Running => task.with_status_message(job.state.as_str()),
        JobState::Ended(_) => task,
    }
}

/// Returns a job as a task. The task contains a result if the job ran or could not be run.
pub(super) fn detailed(job: &Job, result: Option<CallToolResult>) -> DetailedTask {
    let payload = match (&job.state, result) {
        (JobState::Ended(JobEnd::Cancelled), _) => TaskPayload::Cancelled,
        // A script that failed also completes its task. The status `failed` is only for errors of JSON-RPC.
        (JobState::Ended(JobEnd::Ran(_) | JobEnd::NotRun(_) | JobEnd::Lost(_)), Some(result)) => {
            let result = match serde_json::to_value(result) {
                Ok(Value::Object(result)) => result,
                // This never happens, because a result always serializes to an object.
                Ok(_) | Err(_) => serde_json::Map::new(),
            };
            TaskPayload::Completed { result }
        }
        (JobState::Queued | JobState::Running | JobState::Ended(_), _) => TaskPayload::Working,
    };
    DetailedTask::new(task(job), payload)
}

/// Parses the id of a task, which is the id of its job.
pub(super) fn id(task_id: &str) -> Result<JobId, ErrorData> {
    JobId::parse(task_id).ok_or_else(not_found)
}

/// Creates the error for a task that does not exist, or does not exist any more.
pub(super) fn not_found() -> ErrorData {
    ErrorData::invalid_params("Failed to retrieve task: Task not found", None)
}

/// Creates the error for a task that cannot be looked up now.
pub(super) fn away(error: JobsAway) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

/// Returns a time as text in the format of RFC 3339, in UTC.
pub(super) fn timestamp(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn status(state: &JobState) -> TaskStatus {
    match state {
        JobState::Queued | JobState::Running => TaskStatus::Working,
        JobState::Ended(JobEnd::Cancelled) => TaskStatus::Cancelled,
        JobState::Ended(JobEnd::Ran(_) | JobEnd::NotRun(_) | JobEnd::Lost(_)) => {
            TaskStatus::Completed
        }
    }
}
