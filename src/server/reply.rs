//! Builds the reply to a call: its texts, pictures and metadata. This module never decides whether a call is allowed,
//! and never runs anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult, MetaObject, Task,
};
use serde_json::{Value, json};

use crate::executor::{
    Cached, Ending, LeftOut, Outcome, PICTURE_BYTES_MAX, PICTURES_BYTES_MAX, PICTURES_MAX, Picture,
    Pictures, Returned, Start, StepDown,
};
use crate::gateway::{DecisionRecord, ErrorCode, JobId, Tool};
use crate::governance::Refusal;
use crate::jobs::{Job, JobEnd, JobState, Jobs, JobsAway, PlaceError};
use crate::logging::Causes;
use crate::sandbox::Tier;
use crate::scripts::ScriptError;
use crate::shares::Held;
use crate::verdict::{Conclusion, Verdict};
use crate::verification::{Subject, verdict_without_run};

use super::shortened::CharsMax;
use super::tasks;

/// The `_meta` key of the decision. Every result has this key.
pub(super) const DECISION_KEY: &str = "qwed.ai/decision";
/// The `_meta` key of the metrics of a run.
pub(super) const EXECUTION_KEY: &str = "qwed.ai/execution";
/// The `_meta` key of a receipt.
pub(super) const RECEIPT_KEY: &str = "qwed.ai/receipt";
/// The `_meta` key of the earlier run that the result comes from.
const CACHED_KEY: &str = "qwed.ai/cached";
/// The `_meta` key of the verdict on a script.
pub(super) const VERIFICATION_KEY: &str = "qwed.ai/verification";
/// The `_meta` key of the value that a script has assigned to `result`. Programs read the value from `_meta`.
const RESULT_KEY: &str = "qwed.ai/result";
/// The `_meta` key of the reason why the value of `result` is missing.
const RESULT_OMITTED_KEY: &str = "qwed.ai/result_omitted";
/// The `_meta` key of the state of a background job.
const JOB_KEY: &str = "qwed.ai/job";

const CANCELLED: &str = "Execution was cancelled.";
const GATE_CLOSED: &str = "scripts are disabled; set QWED_MCP_TRUSTED_CODE_EXECUTION=true";
/// The text after the return code -9 of a run that was killed at its memory limit. The return code alone does not
/// explain the reason.
const MEMORY_LIMIT: &str = "The memory limit of the sandbox ended it. Use less memory, or ask the \
                            admin to raise QWED_MCP_MEMORY_MB.";
/// The text for a job that is unknown. It mentions the server process, because some frameworks start a server for each
/// call.
const JOBS_LIVE: &str = "Jobs live as long as the server process that placed them, and for one \
                         hour after their last change. A client that starts a new server for each \
                         call must run scripts with background=false.";
/// The text for an unknown job, if replicas share their jobs.
const SHARED_JOBS_LIVE: &str =
    "Only the user who started a job can read it, until one hour after its last change.";
const PICTURE_TYPE: &str = "image/png";
const PICTURE_KIB_MAX: usize = PICTURE_BYTES_MAX / 1024;

/// The maximum size of all pictures of a run together, in KiB.
const PICTURES_KIB_MAX: usize = PICTURES_BYTES_MAX / 1024;
/// The text for an unusable picture. A script has then sent other data instead of the picture of a plot.
const UNUSABLE_PICTURE: &str =
    "A picture was left out: it is not a PNG of at most 4096 × 4096 pixels.";
const JOB_CANCELLED: &str = "Job was cancelled.";

/// The limits that are necessary to write the texts about a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextLimits {
    pub(super) timeout: Duration,
    pub(super) chars_max: CharsMax,
}

/// The way in which a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallEnd {
    Refused,
    /// The call was allowed, but its script could not be run.
    NotRun,
    /// The script ran and had this ending, or the call was cancelled.
    Ran(Ending),
    /// The call has an answer, but needed no run.
    Answered,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) texts: Vec<String>,
    /// `true` if the reply has no result, because the call was refused, could not be carried out, or was cut short.
    /// If the script exited by itself, the reply has a result, regardless of the exit code.
    pub(crate) is_error: bool,
    /// The pictures that follow the texts in the reply.
    pub(crate) pictures: Arc<Pictures>,
    decision: Value,
    execution: Option<Value>,
    pub(crate) end: CallEnd,
    /// The texts for the command line. They omit the output of the script, which the command line has already shown.
    pub(crate) remarks: Vec<String>,
    job: Option<Value>,
    receipt: Option<Value>,
    /// The earlier run that the result comes from, if any.
    cached: Option<Value>,
    /// The value that the script has assigned to `result`.
    returned: Option<Returned>,
    /// The verdict on the script; `None` if the reply is not about a script that has ended.
    pub(crate) verdict: Option<Arc<Verdict>>,
    /// The task that is sent instead of a result.
    task: Option<Task>,
    /// The memory that is reserved for this reply until it is written.
    pub(crate) room: Option<Held>,
}

impl Reply {
    /// Creates the reply to a call that the gateway refused. `model` is the name of the model, if the client reports
    /// it.
    pub(super) fn blocked(record: &DecisionRecord, model: Option<&str>) -> Self {
        let DecisionRecord { status, message, verification_id, .. } = record;
        let mut texts = vec![format!("{status}: {message} (verification_id={verification_id})")];
        // The text contains the code, because the documentation advises users to look for this code in their client.
        texts.extend(record.error_code.map(|code| format!("Error code: {code}")));
        let remarks = match record.error_code {
            Some(ErrorCode::AdminGateClosed) => vec![GATE_CLOSED.to_owned()],
            Some(_) | None => texts.clone(),
        };
        let verdict = verdict_of(record, model, Conclusion::Blocked);
        let empty = Self { verdict, ..Self::empty(record) };
        Self { texts, remarks, is_error: true, end: CallEnd::Refused, ..empty }
    }

    /// Creates the reply to a call that was not carried out, because the audit log could not be written.
    pub(super) fn not_audited(record: &DecisionRecord, refusal: &Refusal) -> Self {
        let texts = vec![format!("Execution error: {refusal}")];
        Self { texts, is_error: true, end: CallEnd::NotRun, ..Self::empty(record) }
    }

    /// Creates the reply to a synchronous run.
    pub(super) fn ran(
        record: &DecisionRecord,
        model: Option<&str>,
        run: Result<&Outcome, &ScriptError>,
        limits: TextLimits,
    ) -> Self {
        let error = run.err().map(ToString::to_string);
        let remarks = run.err().map(|error| vec![Causes(error).to_string()]);
        let run = run.map_err(|_| error.as_deref().unwrap_or_default());
        let reply = Self::of_run(record.without_arguments(), run, limits);
        let verdict = reply.verdict.or_else(|| verdict_of(record, model, Conclusion::Blocked));
        Self { remarks: remarks.unwrap_or(reply.remarks), verdict, ..reply }
    }

    /// Creates the result of a task. It equals the result of a synchronous run of the script, but also contains the
    /// state of the job.
    pub(super) fn task_result(job: &Job, end: &JobEnd, limits: TextLimits) -> Self {
        let decision = Value::clone(&job.decision);
        let reply = match end {
            JobEnd::Ran(outcome) => Self::of_run(decision, Ok(outcome), limits),
            JobEnd::NotRun(reason) => Self::of_run(decision, Err(reason), limits),
            JobEnd::Lost(worker) => Self::of_run(decision, Err(&lost(worker)), limits),
            JobEnd::Cancelled => {
                let texts = vec![CANCELLED.to_owned()];
                Self { texts, is_error: true, ..Self::decided(decision) }
            }
        };
        Self { job: Some(job_figures(job)), verdict: job.verdict(), ..reply }
    }

    fn of_run(decision: Value, run: Result<&Outcome, &str>, limits: TextLimits) -> Self {
        match run {
            Ok(outcome) => {
                let behind: Vec<String> =
                    outcome.advice.iter().cloned().chain(left_out(outcome)).collect();
                Self {
                    texts: [synchronous_texts(outcome, limits), behind.clone()].concat(),
                    is_error: !outcome.is_result(),
                    execution: Some(figures(outcome, limits.chars_max)),
                    receipt: outcome.receipt.clone(),
                    cached: outcome.cached.as_ref().map(Cached::mark),
                    returned: outcome.end_report.returned.clone(),
                    verdict: outcome.verdict.clone(),
                    end: CallEnd::Ran(outcome.ending),
                    remarks: [remarks(outcome, limits.timeout), behind].concat(),
                    pictures: Arc::clone(&outcome.pictures),
                    ..Self::decided(decision)
                }
            }
            Err(error) => {
                let (texts, end) = (vec![not_run(error)], CallEnd::NotRun);
                Self { texts, is_error: true, end, ..Self::decided(decision) }
            }
        }
    }

    /// Creates the reply to a cancelled call.
    pub(super) fn cancelled(record: &DecisionRecord, model: Option<&str>) -> Self {
        let texts = vec![CANCELLED.to_owned()];
        let end = CallEnd::Ran(Ending::Cancelled);
        let verdict = verdict_of(record, model, Conclusion::Inconclusive);
        Self { remarks: texts.clone(), texts, is_error: true, end, verdict, ..Self::empty(record) }
    }

    /// Creates the reply to a call for a background job. `placed` is the job, or the reason why no job was placed.
    /// With `takes_tasks`, the reply contains the job as a task.
    pub(super) fn placed(
        record: &DecisionRecord,
        placed: Result<Job, PlaceError>,
        takes_tasks: bool,
    ) -> Self {
        let job = match placed {
            Ok(job) => job,
            Err(error) => {
                let texts = vec![error.to_string()];
                return Self { texts, is_error: true, ..Self::empty(record) };
            }
        };
        let text = format!(
            "Verification order is being placed for the request {}. Check back using the \
             'verification_status' tool.",
            job.id
        );
        Self {
            texts: vec![text],
            job: Some(job_figures(&job)),
            task: takes_tasks.then(|| tasks::task(&job)),
            ..Self::empty(record)
        }
    }

    /// Creates the reply about a background job that cannot be looked up now.
    pub(super) fn jobs_away(record: &DecisionRecord, error: JobsAway) -> Self {
        Self { texts: vec![error.to_string()], is_error: true, ..Self::empty(record) }
    }

    pub(super) fn job_status(
        record: &DecisionRecord,
        id: JobId,
        job: Option<&Job>,
        jobs: &dyn Jobs,
        limits: TextLimits,
    ) -> Self {
        let mut reply = Self { job: job.map(job_figures), ..Self::empty(record) };
        let mut behind = Vec::new();
        let text = match job.map(|job| &job.state) {
            None => {
                reply.is_error = true;
                let live = if jobs.survives_server() { SHARED_JOBS_LIVE } else { JOBS_LIVE };
                behind.push(live.to_owned());
                format!("Error: Job ID '{id}' not found or expired.")
            }
            Some(JobState::Queued) => "Status: queued...".to_owned(),
            Some(JobState::Running) => "Status: running...".to_owned(),
            Some(JobState::Ended(end)) => {
                let (status, result) = (end.as_str(), job_result(end, limits));
                reply.is_error = !matches!(end, JobEnd::Ran(outcome) if outcome.is_result());
                reply.verdict = job.and_then(Job::verdict);
                if let JobEnd::Ran(outcome) = end {
                    reply.execution = Some(figures(outcome, limits.chars_max));
                    reply.receipt.clone_from(&outcome.receipt);
                    reply.cached = outcome.cached.as_ref().map(Cached::mark);
                    reply.returned.clone_from(&outcome.end_report.returned);
                    behind.extend(
                        printed_before_timeout(outcome, limits.chars_max)
                            .or_else(|| outcome.advice.clone()),
                    );
                    behind.extend(left_out(outcome));
                    reply.pictures = Arc::clone(&outcome.pictures);
                }
                format!("Status: {status}\n\nResult:\n{result}")
            }
        };
        reply.texts.push(text);
        reply.texts.extend(behind);
        reply
    }

    /// Adds to `_meta` the reason why the run had a lower sandbox tier than possible. The first time, also adds a text
    /// for the model, and sets `was_told`. Adds no text if the cause is a feature that some kernels and containers are
    /// known to lack.
    pub(super) fn with_step_down(mut self, step_down: &StepDown, was_told: &AtomicBool) -> Self {
        let Some(Value::Object(execution)) = &mut self.execution else { return self };
        // The tier is `null` for a run that never started.
        let Some(tier) = execution.get("sandbox").and_then(Value::as_str) else { return self };
        let StepDown { reason, is_expected } = step_down;
        if !is_expected && !was_told.swap(true, Ordering::Relaxed) {
            let lacks = if tier == Tier::T2.as_str() { "" } else { " and without Landlock" };
            let text = format!(
                "This script ran at tier {tier} of the sandbox, without its own file tree{lacks}, \
                 because {reason}; the admin can run `qwed-mcp doctor`."
            );
            self.texts.push(text.clone());
            self.remarks.push(text);
        }
        execution.insert("sandbox_reason".to_owned(), json!(reason));
        self
    }

    pub(super) fn with_receipt(self, receipt: Value) -> Self {
        Self { receipt: Some(receipt), ..self }
    }

    /// Keeps the memory `room` reserved until the reply is written.
    pub(super) fn in_room(self, room: Option<Held>) -> Self {
        Self { room, ..self }
    }

    /// Converts the reply into the JSON of a result, for protocol versions with a handshake.
    pub(crate) fn into_json(self) -> serde_json::Result<Value> {
        let mut result = serde_json::to_value(self.into_result())?;
        // Remove `resultType`, which only exists in the stateless protocol.
        result.as_object_mut().and_then(|result| result.remove("resultType"));
        Ok(result)
    }

    /// Converts the reply into MCP's response to a call: a task or a result.
    pub(super) fn into_response(mut self) -> CallToolResponse {
        match self.task.take() {
            Some(task) => CreateTaskResult::new(task).with_meta(self.meta()).into(),
            None => self.into_result().into(),
        }
    }

    /// Converts the reply into an MCP result. The result has no `structuredContent`, because some clients show only
    /// `structuredContent` to the model, and not the text.
    pub(super) fn into_result(mut self) -> CallToolResult {
        let meta = self.meta();
        let texts = self.texts.into_iter().map(ContentBlock::text);
        let pictures = self.pictures.all.iter();
        let pictures = pictures
            .map(|picture| ContentBlock::image(BASE64_STANDARD.encode(&picture.png), PICTURE_TYPE));
        let blocks = texts.chain(pictures).collect();
        let mut result = if self.is_error {
            CallToolResult::error(blocks)
        } else {
            CallToolResult::success(blocks)
        };
        result.meta = Some(meta);
        result
    }

    /// Takes the metadata for programs out of the reply, for `_meta`.
    fn meta(&mut self) -> MetaObject {
        let mut meta = MetaObject::new();
        meta.insert(DECISION_KEY.to_owned(), self.decision.take());
        let (result, omitted) = self.returned.take().map(Returned::parts).unwrap_or_default();
        let others = [
            (EXECUTION_KEY, self.execution.take()),
            (JOB_KEY, self.job.take()),
            (RECEIPT_KEY, self.receipt.take()),
            (CACHED_KEY, self.cached.take()),
            (RESULT_KEY, result),
            (RESULT_OMITTED_KEY, omitted.map(Value::String)),
            (VERIFICATION_KEY, self.verdict.take().map(|verdict| json!(verdict))),
        ];
        for (key, value) in others {
            if let Some(value) = value {
                meta.insert(key.to_owned(), value);
            }
        }
        meta
    }

    fn empty(record: &DecisionRecord) -> Self {
        Self::decided(record.without_arguments())
    }

    fn decided(decision: Value) -> Self {
        Self {
            texts: Vec::new(),
            pictures: Arc::default(),
            is_error: false,
            decision,
            execution: None,
            end: CallEnd::Answered,
            remarks: Vec::new(),
            job: None,
            receipt: None,
            cached: None,
            returned: None,
            verdict: None,
            task: None,
            room: None,
        }
    }
}

/// Returns the verdict on a script that was not run. `None` if the call is not about a script.
fn verdict_of(
    record: &DecisionRecord,
    model: Option<&str>,
    outcome: Conclusion,
) -> Option<Arc<Verdict>> {
    let is_script = record.tool == Some(Tool::ExecutePythonCode);
    let code = record.normalized_arguments.get("code").and_then(Value::as_str);
    let subject = || Subject::new(code, model.map(str::to_owned));
    is_script.then(|| Arc::new(verdict_without_run(outcome, &subject())))
}

/// Returns the text about a run that exited by itself: its output, and the way in which it ended.
fn finished_text(outcome: &Outcome, chars_max: CharsMax) -> String {
    let end = match outcome.ending.exit_code() {
        0 => "Execution completed successfully.".to_owned(),
        code => format!("Execution failed with return code {code}"),
    };
    let mut parts = printed(outcome, chars_max);
    parts.push(match outcome.ending {
        Ending::OutOfMemory => format!("{end}\n{MEMORY_LIMIT}"),
        Ending::Exited(_) | Ending::TimedOut | Ending::Cancelled => end,
    });
    parts.join("\n\n")
}

/// Returns the text of each output stream that is not empty.
fn printed(outcome: &Outcome, chars_max: CharsMax) -> Vec<String> {
    ["STDOUT", "STDERR"]
        .into_iter()
        .zip(chars_max.streams(outcome))
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| format!("{name}:\n{text}"))
        .collect()
}

/// Returns the output of a run that timed out. The reply contains this output in a separate block. The block before it
/// must contain only the text that the documentation promises for a timeout.
fn printed_before_timeout(outcome: &Outcome, chars_max: CharsMax) -> Option<String> {
    let printed = printed(outcome, chars_max);
    let is_some = outcome.ending == Ending::TimedOut && !printed.is_empty();
    is_some.then(|| printed.join("\n\n"))
}

fn synchronous_texts(outcome: &Outcome, limits: TextLimits) -> Vec<String> {
    let TextLimits { timeout, chars_max } = limits;
    match outcome.ending {
        Ending::Exited(_) | Ending::OutOfMemory => vec![finished_text(outcome, chars_max)],
        Ending::Cancelled => cut(CANCELLED.to_owned(), outcome, chars_max),
        Ending::TimedOut => cut(timed_out(timeout), outcome, chars_max),
    }
}

/// Returns the reason why a run was cut short, and the output of the run up to then.
fn cut(reason: String, outcome: &Outcome, chars_max: CharsMax) -> Vec<String> {
    let printed = printed(outcome, chars_max);
    let printed = (!printed.is_empty()).then(|| printed.join("\n\n"));
    [Some(reason), printed].into_iter().flatten().collect()
}

fn timed_out(timeout: Duration) -> String {
    format!("Execution timed out after {:.1} seconds.", timeout.as_secs_f64())
}

/// Returns the remarks about a run, for a person that has already seen the output and the exit code of the script.
fn remarks(outcome: &Outcome, timeout: Duration) -> Vec<String> {
    match outcome.ending {
        Ending::Exited(0..) => Vec::new(),
        Ending::Exited(code) => {
            let streams = [("output", &outcome.stdout), ("error", &outcome.stderr)];
            let cut = streams.into_iter().filter(|(_, captured)| captured.is_truncated);
            let cut: Vec<String> = cut
                .map(|(name, _)| {
                    format!("more than 1 MiB on standard {name}; the script was ended")
                })
                .collect();
            if cut.is_empty() {
                vec![format!("Execution failed with return code {code}")]
            } else {
                cut
            }
        }
        Ending::OutOfMemory => vec![MEMORY_LIMIT.to_owned()],
        Ending::Cancelled => vec![CANCELLED.to_owned()],
        Ending::TimedOut => vec![timed_out(timeout)],
    }
}

fn job_result(end: &JobEnd, limits: TextLimits) -> String {
    match end {
        JobEnd::Cancelled => JOB_CANCELLED.to_owned(),
        JobEnd::NotRun(reason) => not_run(reason),
        JobEnd::Lost(worker) => not_run(&lost(worker)),
        JobEnd::Ran(outcome) => match outcome.ending {
            Ending::Exited(_) | Ending::OutOfMemory => finished_text(outcome, limits.chars_max),
            Ending::Cancelled => JOB_CANCELLED.to_owned(),
            Ending::TimedOut => {
                let seconds = limits.timeout.as_secs_f64();
                format!(
                    "Background verification timed out after {seconds:.0} seconds. Process \
                     terminated to prevent resource exhaustion."
                )
            }
        },
    }
}

fn not_run(reason: &str) -> String {
    format!("Execution error: {reason}.")
}

/// Returns the error text of a job. `worker` is the replica that ran the job and was lost. The script may have run.
fn lost(worker: &str) -> String {
    format!("the worker {worker} was lost; the script may have run in part")
}

/// Returns one line about each picture that was left out.
fn left_out(outcome: &Outcome) -> Option<String> {
    let line = |left_out: &LeftOut| match left_out {
        LeftOut::TooLarge { label, bytes } => {
            let kibibytes = bytes.div_ceil(1024);
            if usize::try_from(kibibytes).is_ok_and(|it| it <= PICTURE_KIB_MAX) {
                format!(
                    "{label} was left out: it has {kibibytes} KiB, and all pictures of a run may \
                     have {PICTURES_KIB_MAX} KiB together."
                )
            } else {
                format!(
                    "{label} was left out: it has {kibibytes} KiB, and a picture may have \
                     {PICTURE_KIB_MAX} KiB."
                )
            }
        }
        LeftOut::TooMany(count) => {
            format!("{count} more pictures were left out: a run has {PICTURES_MAX} at most.")
        }
        LeftOut::Unusable => UNUSABLE_PICTURE.to_owned(),
    };
    let lines: Vec<String> = outcome.pictures.left_out.iter().map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn job_figures(job: &Job) -> Value {
    let mut figures = json!({
        "job_id": job.id.to_string(),
        "status": job.state.as_str(),
        "created_at": tasks::timestamp(job.created_at),
        "expires_at": tasks::timestamp(job.expires_at),
    });
    if let Some(figures) = figures.as_object_mut() {
        figures.extend(job.attempt.map(|attempt| ("attempt".to_owned(), attempt.into())));
        let inputs = job.decision.get("inputs").cloned();
        figures.extend(inputs.map(|inputs| ("inputs".to_owned(), inputs)));
    }
    figures
}

fn figures(outcome: &Outcome, chars_max: CharsMax) -> Value {
    let pictures: Vec<Value> = outcome.pictures.all.iter().enumerate().map(picture).collect();
    let mut figures = json!({
        "exit_code": outcome.ending.exit_code(),
        "duration_ms": outcome.duration_ms(),
        "timed_out": outcome.ending == Ending::TimedOut,
        "stdout_truncated": outcome.stdout.is_truncated,
        "stderr_truncated": outcome.stderr.is_truncated,
        "sandbox": outcome.tier.map(Tier::as_str),
        "memory_bound": outcome.memory_bound,
        "warm": outcome.start == Start::Warm,
    });
    if let (true, Some(figures)) = (outcome.is_starved, figures.as_object_mut()) {
        figures.insert("starved".to_owned(), true.into());
    }
    if let (false, Some(figures)) = (pictures.is_empty(), figures.as_object_mut()) {
        figures.insert("pictures".to_owned(), pictures.into());
    }
    if let (Some(whole), Some(figures)) =
        (chars_max.whole_streams(outcome), figures.as_object_mut())
    {
        figures.insert("shortened".to_owned(), whole);
    }
    figures
}

fn picture((index, picture): (usize, &Picture)) -> Value {
    let Picture { png, width, height, sha256 } = picture;
    json!({
        "index": index, "bytes": png.len(), "width": width, "height": height, "sha256": sha256,
    })
}
