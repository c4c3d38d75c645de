//! Scripts of pipelines: one in a body, or lines of them, in the shapes of `run --batch`; and one as
//! `SandboxFusion` takes it, so that what speaks that needs another URL only.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::batch::{Batch, Bounds, OneAnswer, Single, Status, Verifier, Wanted, answer_one};

use super::callers::Known;
use super::content::{Content, json_response, line_response};
use super::refusal::Refusal;
use super::room::Room;

/// The most batches at once: each keeps workers busy for as long as it lasts.
const BATCHES_MAX: usize = 16;
/// The time for which the lines of a batch may not come.
const LINES_SILENCE_MAX: Duration = Duration::from_secs(300);
/// The answers of a batch that wait to be read, and the parts of its lines that wait for a worker. Beyond,
/// nothing is read from the connection.
const PARTS_WAITING_MAX: usize = 4;

/// Runs the scripts of pipelines.
pub(super) struct Scripts {
    verifier: Arc<Verifier>,
    bounds: Bounds,
    workers: usize,
    batches: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// One script, as `SandboxFusion` takes it. What this server has nothing of is read past.
#[derive(Deserialize)]
struct RunCode {
    code: String,
    language: String,
    stdin: Option<String>,
    run_timeout: Option<f64>,
    #[serde(rename = "memory_limit_MB")]
    memory_limit_mb: Option<i64>,
    #[serde(default)]
    files: serde_json::Map<String, Value>,
    #[serde(default)]
    fetch_files: Vec<Value>,
}

impl Scripts {
    pub(super) fn new(verifier: Arc<Verifier>, bounds: Bounds, workers: usize) -> Self {
        Self {
            verifier,
            bounds,
            workers,
            batches: Arc::new(Semaphore::new(BATCHES_MAX)),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Cancels what runs.
    pub(super) fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
    }

    /// Returns when nothing runs.
    pub(super) async fn wait(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Runs a script that is a line of a batch.
    pub(super) async fn run(
        &self,
        body: Incoming,
        room: &Room,
        known: Known,
    ) -> Result<Response<Content>, Refusal> {
        let (line, held) = room.read(body).await?;
        let (answer, held) = self.one(Owned::Line(line), held, known).await?;
        let status = match answer.status() {
            Status::Invalid => StatusCode::BAD_REQUEST,
            Status::Ok
            | Status::Failed
            | Status::Timeout
            | Status::OutputCap
            | Status::Memory
            | Status::Blocked
            | Status::Cancelled
            | Status::InfraError => StatusCode::OK,
        };
        Ok(json_response(status, answer.to_json(), held))
    }

    /// Runs a script of `SandboxFusion`'s shape.
    pub(super) async fn run_code(
        &self,
        body: Incoming,
        room: &Room,
        known: Known,
    ) -> Result<Response<Content>, Refusal> {
        let (body, held) = room.read(body).await?;
        let wanted: RunCode = serde_json::from_slice(&body).map_err(|_| Refusal::Invalid)?;
        drop(body);
        if wanted.language != "python" || wanted.code.trim().is_empty() {
            return Err(Refusal::Invalid);
        }
        if !wanted.files.is_empty() || !wanted.fetch_files.is_empty() {
            let reply = sandbox_error("files and fetch_files are not supported");
            return Ok(json_response(StatusCode::OK, reply.to_string().into_bytes(), held));
        }
        let timeout = wanted.run_timeout.filter(|seconds| *seconds > 0.0);
        let wanted = Wanted {
            code: wanted.code,
            stdin: wanted.stdin.unwrap_or_default(),
            timeout: timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            // -1 is no limit of its own there.
            memory_mb: wanted.memory_limit_mb.and_then(|mb| u64::try_from(mb).ok()),
        };
        let (answer, held) = self.one(Owned::Wanted(wanted), held, known).await?;
        Ok(json_response(StatusCode::OK, in_shape(&answer).to_string().into_bytes(), held))
    }

    /// Runs one script; cancelled when the caller has gone, and seen to its end then too.
    async fn one(
        &self,
        script: Owned,
        held: Vec<OwnedSemaphorePermit>,
        known: Known,
    ) -> Result<(OneAnswer, Arc<Held>), Refusal> {
        let (verifier, bounds, asker) = (Arc::clone(&self.verifier), self.bounds, known.asker());
        let held = Arc::new(Held { _places: held, _share: known.share });
        let kept = Arc::clone(&held);
        let cancel = self.stop.child_token();
        let _cancelled_with_this = cancel.clone().drop_guard();
        let run = self.tasks.spawn(async move {
            let answer = answer_one(&verifier, script.single(), bounds, &asker, cancel).await;
            drop(kept);
            answer
        });
        let answer = run.await.map_err(|_| Refusal::Draining)?;
        if answer.status() == Status::Cancelled {
            return Err(Refusal::Draining);
        }
        Ok((answer, held))
    }

    /// Runs the scripts of lines as they come, and answers them as they are through.
    pub(super) fn batch(
        &self,
        body: Incoming,
        room: &Room,
        known: Known,
        workers_max: usize,
    ) -> Result<Response<Content>, Refusal> {
        let place = room.take()?;
        let batch = Arc::clone(&self.batches).try_acquire_owned().map_err(|_| Refusal::Full)?;
        let asker = known.asker();
        let held = Held { _places: vec![place, batch], _share: known.share };
        let stop = self.stop.child_token();
        let (chunks, read) = mpsc::channel(PARTS_WAITING_MAX);
        let (answers, lines) = mpsc::channel(PARTS_WAITING_MAX);
        self.tasks.spawn(forward(body, chunks, stop.clone()));
        let batch = Batch {
            verifier: Arc::clone(&self.verifier),
            bounds: self.bounds,
            workers: self.workers.min(workers_max).max(1),
            asker,
            stop: stop.clone(),
        };
        self.tasks.spawn(async move {
            batch.run(read, answers).await;
            drop(held);
        });
        Ok(line_response(lines, stop.drop_guard()))
    }
}

/// Takes a body's parts to the batch, as fast as that takes them. One that breaks off stops the batch.
async fn forward(mut body: Incoming, chunks: mpsc::Sender<Vec<u8>>, stop: CancellationToken) {
    loop {
        let frame = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            frame = timeout(LINES_SILENCE_MAX, body.frame()) => frame,
        };
        match frame {
            Ok(None) => return,
            Ok(Some(Ok(frame))) => {
                let Ok(data) = frame.into_data() else { continue };
                if chunks.send(data.to_vec()).await.is_err() {
                    return;
                }
            }
            Ok(Some(Err(_))) | Err(_) => {
                stop.cancel();
                return;
            }
        }
    }
}

/// What is given back when a script has ended and its answer is written.
struct Held {
    _places: Vec<OwnedSemaphorePermit>,
    _share: Option<OwnedSemaphorePermit>,
}

/// A script that is on its way.
enum Owned {
    Line(Vec<u8>),
    Wanted(Wanted),
}

impl Owned {
    fn single(&self) -> Single<'_> {
        match self {
            Self::Line(line) => Single::Line(line),
            Self::Wanted(wanted) => Single::Wanted(wanted),
        }
    }
}

/// Returns an answer as `SandboxFusion` would have it.
fn in_shape(answer: &OneAnswer) -> Value {
    let error = answer.error().unwrap_or_default();
    let seconds = answer.duration().as_secs_f64();
    let (status, ran, message) = match answer.status() {
        Status::Ok => ("Success", "Finished", String::new()),
        Status::Failed => ("Failed", "Finished", String::new()),
        Status::Timeout => ("Failed", "TimeLimitExceeded", String::new()),
        Status::OutputCap => ("Failed", "Error", "it printed too much".to_owned()),
        Status::Memory => ("Failed", "Error", "it took too much memory".to_owned()),
        Status::Blocked => ("Failed", "Error", error.to_owned()),
        Status::Invalid | Status::Cancelled | Status::InfraError => return sandbox_error(error),
    };
    let (exit_code, stdout, stderr) = match answer.end() {
        Some((exit_code, stdout, stderr)) => (Some(exit_code), stdout, stderr),
        None => (Some(1), "", error),
    };
    let exit_code = exit_code.filter(|_| ran != "TimeLimitExceeded");
    json!({
        "status": status,
        "message": message,
        "compile_result": null,
        "run_result": {
            "status": ran,
            "execution_time": seconds,
            "return_code": exit_code,
            "stdout": stdout,
            "stderr": stderr,
        },
        "executor_pod_name": null,
        "files": {},
    })
}

fn sandbox_error(message: &str) -> Value {
    json!({
        "status": "SandboxError",
        "message": message,
        "compile_result": null,
        "run_result": null,
        "executor_pod_name": null,
        "files": {},
    })
}
