//! Background jobs as tasks (the extension `io.modelcontextprotocol/tasks`, SEP-2663).
//!
//! Only for requests of the stateless protocol that declare the extension; everybody else polls with
//! `verification_status`. The state is the registry's: nothing is kept here.

use chrono::{DateTime, SecondsFormat, Utc};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, DetailedTask, Task, TaskPayload, TaskStatus};
use serde_json::Value;

use crate::gateway::JobId;
use crate::jobs::{Job, JobEnd, JobState, JobsAway};

/// The interval at which a client may ask: most scripts take less.
const POLL_INTERVAL_MS: u64 = 1000;

/// Returns a job as a task, without its result.
pub(super) fn task(job: &Job) -> Task {
    let kept = (job.expires_at - job.created_at).num_milliseconds();
    let (created, changed) = (timestamp(job.created_at), timestamp(job.changed_at));
    let task = Task::new(job.id.to_string(), status(&job.state), created, changed)
        // It grows with each change of the job, from which its hour counts.
        .with_ttl_ms(u64::try_from(kept).unwrap_or_default())
        .with_poll_interval_ms(POLL_INTERVAL_MS);
    match job.state {
        JobState::Queued | JobState::Running => task.with_status_message(job.state.as_str()),
        JobState::Ended(_) => task,
    }
}

/// Returns a job as a task, with its result if it ran or could not be run.
pub(super) fn detailed(job: &Job, result: Option<CallToolResult>) -> DetailedTask {
    let payload = match (&job.state, result) {
        (JobState::Ended(JobEnd::Cancelled), _) => TaskPayload::Cancelled,
        // Whatever came of the script: `failed` is for errors of JSON-RPC.
        (JobState::Ended(JobEnd::Ran(_) | JobEnd::NotRun(_) | JobEnd::Lost(_)), Some(result)) => {
            let result = match serde_json::to_value(result) {
                Ok(Value::Object(result)) => result,
                // Neither happens: a result is an object.
                Ok(_) | Err(_) => serde_json::Map::new(),
            };
            TaskPayload::Completed { result }
        }
        (JobState::Queued | JobState::Running | JobState::Ended(_), _) => TaskPayload::Working,
    };
    DetailedTask::new(task(job), payload)
}

/// Parses the id of a task, which is that of its job.
pub(super) fn id(task_id: &str) -> Result<JobId, ErrorData> {
    JobId::parse(task_id).ok_or_else(not_found)
}

/// Creates the error for a task that there is not, or no longer.
pub(super) fn not_found() -> ErrorData {
    ErrorData::invalid_params("Failed to retrieve task: Task not found", None)
}

/// Creates the error for a task that nobody can be asked about now.
pub(super) fn away(error: JobsAway) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

/// Returns a time as RFC 3339 has it, in UTC.
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
