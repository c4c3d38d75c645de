//! Runs the scripts that pipelines send. A body contains one script or a batch, in the formats of `run --batch`. Also
//! accepts the format of `SandboxFusion` (another server that runs code), so that its clients only need another URL.
//! This module never decides whether a script may run.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{Response, StatusCode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::batch::{Batch, Bounds, Chunk, OneAnswer, Single, Status, Verifier, Wanted, answer_one};
use crate::gateway::{Base64Files, Inputs};
use crate::ledger::{Presented, UserName};
use crate::shares;

use super::callers::Known;
use super::content::{Content, json_response, line_response};
use super::refusal::Refusal;
use super::room::{BODY_BYTES_MAX, Room};

/// The timeout for receiving the next part of a batch. The time includes the wait for memory for the part.
const LINES_SILENCE_MAX: Duration = Duration::from_secs(300);
/// The maximum number of queued answers of a batch, and of queued parts of its body. While either queue is full, the
/// server reads nothing from the connection.
const PARTS_WAITING_MAX: usize = 4;

/// The number of bytes to reserve for an unfinished line: the maximum length of a line, plus the size of the part of
/// the body that contains the end of the line.
const LINE_ROOM_BYTES: usize = BODY_BYTES_MAX + 64 * 1024;

/// Runs the scripts of pipelines.
pub(super) struct Scripts {
    verifier: Arc<Verifier>,
    bounds: Bounds,
    workers: usize,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// One script in the format of `SandboxFusion`. Fields that this server does not support are ignored.
#[derive(Deserialize)]
struct RunCode {
    code: String,
    language: String,
    stdin: Option<String>,
    run_timeout: Option<f64>,
    #[serde(rename = "memory_limit_MB")]
    memory_limit_mb: Option<i64>,
    /// The files that the script may read. A file name may start with `./`.
    files: Option<Base64Files>,
    /// The files that the client wants to get after the run. A request with such files is refused, because the server
    /// removes all files of a run.
    fetch_files: Option<Vec<IgnoredAny>>,
}

impl Scripts {
    pub(super) fn new(verifier: Arc<Verifier>, bounds: Bounds, workers: usize) -> Self {
        Self {
            verifier,
            bounds,
            workers,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Cancels all runs of pipelines.
    pub(super) fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
    }

    /// Returns when all runs of pipelines have ended.
    pub(super) async fn wait(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Runs one script. The body has the format of a line of a batch.
    pub(super) async fn run(
        &self,
        body: Incoming,
        room: &Room,
        known: Known,
    ) -> Result<Response<Content>, Refusal> {
        let (line, held) = room.read_script(body, known.user()).await?;
        let (answer, held) = self.one(Single::Line(line), held, known).await?;
        let status = match answer.status() {
            Status::Invalid => StatusCode::BAD_REQUEST,
            // Return the status 503, because load balancers treat it as a failure of this server.
            Status::InfraError => StatusCode::SERVICE_UNAVAILABLE,
            Status::Ok
            | Status::Failed
            | Status::Timeout
            | Status::OutputCap
            | Status::Memory
            | Status::Blocked
            | Status::Cancelled => StatusCode::OK,
        };
        let json = answer.to_json();
        drop(answer);
        self.written(status, json, held).await
    }

    /// Runs one script. The body has the format of `SandboxFusion`.
    pub(super) async fn run_code(
        &self,
        body: Incoming,
        room: &Room,
        known: Known,
    ) -> Result<Response<Content>, Refusal> {
        let (body, held) = room.read_script(body, known.user()).await?;
        // Parse on another thread, because parsing a body with inputs can take long.
        let wanted = spawn_blocking(move || wanted_by(&body)).await;
        let wanted = match wanted.map_err(|_| Refusal::Draining)?? {
            Ok(wanted) => wanted,
            Err(reason) => {
                let reply = sandbox_error(&reason);
                return Ok(json_response(StatusCode::OK, reply.to_string().into_bytes(), held));
            }
        };
        let (answer, held) = self.one(Single::Wanted(wanted), held, known).await?;
        let json = in_shape(&answer).to_string().into_bytes();
        drop(answer);
        self.written(StatusCode::OK, json, held).await
    }

    /// Waits until the answer fits into the memory for unread replies. Then returns the response.
    async fn written(
        &self,
        status: StatusCode,
        json: Vec<u8>,
        held: Arc<Held>,
    ) -> Result<Response<Content>, Refusal> {
        let room = self.verifier.room_for(&held.presented, json.len());
        let room = self.stop.run_until_cancelled(room).await.ok_or(Refusal::Draining)?;
        Ok(json_response(status, json, (held, room)))
    }

    /// Runs one script. If the client disconnects, the run is cancelled, but its task continues until the run has
    /// ended.
    async fn one(
        &self,
        script: Single,
        held: Vec<shares::Held>,
        known: Known,
    ) -> Result<(OneAnswer, Arc<Held>), Refusal> {
        let (verifier, bounds, presented) =
            (Arc::clone(&self.verifier), self.bounds, known.presented.clone());
        let held = Arc::new(Held { presented, _places: held, _own: known.place });
        let kept = Arc::clone(&held);
        let cancel = self.stop.child_token();
        let _cancelled_with_this = cancel.clone().drop_guard();
        let run = self.tasks.spawn(async move {
            let answer = answer_one(&verifier, script, bounds, &kept.presented, cancel).await;
            drop(kept);
            answer
        });
        let answer = run.await.map_err(|_| Refusal::Draining)?;
        if answer.status() == Status::Cancelled {
            return Err(Refusal::Draining);
        }
        Ok((answer, held))
    }

    /// Runs a batch. Starts scripts as their lines arrive, and sends each answer when its script has ended.
    pub(super) fn batch(
        &self,
        body: Incoming,
        room: &Arc<Room>,
        known: Known,
    ) -> Result<Response<Content>, Refusal> {
        let places = room.batch(known.user())?.into();
        let user = known.user().cloned();
        let presented = known.presented.clone();
        let held = Held { presented: presented.clone(), _places: places, _own: known.place };
        let stop = self.stop.child_token();
        let (chunks, read) = mpsc::channel(PARTS_WAITING_MAX);
        let (answers, lines) = mpsc::channel(PARTS_WAITING_MAX);
        self.tasks.spawn(forward(body, Arc::clone(room), user, chunks, stop.clone()));
        let batch = Batch {
            verifier: Arc::clone(&self.verifier),
            bounds: self.bounds,
            workers: self.workers.min(room.workers_max()).max(1),
            presented,
            stop: stop.clone(),
        };
        self.tasks.spawn(async move {
            batch.run(read, answers).await;
            drop(held);
        });
        Ok(line_response(lines, stop.drop_guard()))
    }
}

/// Forwards the parts of a body to the batch. Before each part, waits until the part fits into the limit of bytes and
/// the batch accepts it. Stops the batch if the connection breaks before the end of the body.
async fn forward(
    mut body: Incoming,
    room: Arc<Room>,
    user: Option<UserName>,
    chunks: mpsc::Sender<Chunk>,
    stop: CancellationToken,
) {
    let mut reserve = Reserve::default();
    loop {
        let part = async {
            let Some(frame) = body.frame().await else { return Part::End };
            let Ok(frame) = frame else { return Part::BrokenOff };
            let Ok(data) = frame.into_data() else { return Part::Other };
            let room = reserve.room_for(&data, &room, user.as_ref()).await;
            Part::Chunk(Chunk { bytes: data.to_vec(), room })
        };
        let part = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            part = timeout(LINES_SILENCE_MAX, part) => part,
        };
        match part {
            Ok(Part::End) => return,
            Ok(Part::Other) => {}
            Ok(Part::Chunk(chunk)) => {
                if chunks.send(chunk).await.is_err() {
                    return;
                }
            }
            Ok(Part::BrokenOff) | Err(_) => {
                stop.cancel();
                return;
            }
        }
    }
}

/// The bytes that are reserved for a line that is longer than one part of the body. All bytes of the line are reserved
/// at once. If several lines reserved their bytes in parts, they could wait for each other forever.
#[derive(Default)]
struct Reserve {
    room: shares::Held,
    bytes: usize,
}

impl Reserve {
    /// Waits until a part fits into the limit of bytes. If a line continues after the part, also reserves bytes for the
    /// rest of the line.
    async fn room_for(
        &mut self,
        part: &[u8],
        room: &Room,
        user: Option<&UserName>,
    ) -> shares::Held {
        let goes_on = !part.contains(&b'\n');
        if self.bytes < part.len() {
            *self = Self::default();
            let bytes = part.len() + if goes_on { LINE_ROOM_BYTES } else { 0 };
            *self = Self { room: room.bytes(user, bytes).await, bytes };
        }
        self.bytes -= part.len();
        let own = self.room.split(part.len());
        if !goes_on {
            *self = Self::default();
        }
        own
    }
}

/// A part of a body.
enum Part {
    Chunk(Chunk),
    /// A frame without data, such as trailers.
    Other,
    End,
    BrokenOff,
}

/// The resources of a request. They are released after the script has ended and its answer is written.
struct Held {
    presented: Presented,
    _places: Vec<shares::Held>,
    _own: shares::Held,
}

/// Parses a request in the format of `SandboxFusion`. The inner error is the reason why a valid request is not
/// supported.
fn wanted_by(body: &[u8]) -> Result<Result<Wanted, String>, Refusal> {
    let asked: RunCode = serde_json::from_slice(body).map_err(|_| Refusal::Invalid)?;
    if asked.language != "python" || asked.code.trim().is_empty() {
        return Err(Refusal::Invalid);
    }
    if asked.fetch_files.is_some_and(|files| !files.is_empty()) {
        return Ok(Err("fetch_files is not supported: print the content instead".to_owned()));
    }
    let inputs = match asked.files.map(Inputs::from_base64).transpose() {
        Ok(inputs) => inputs.unwrap_or_default(),
        Err(error) => return Ok(Err(error.to_string())),
    };
    let timeout = asked.run_timeout.filter(|seconds| *seconds > 0.0);
    Ok(Ok(Wanted {
        code: asked.code,
        stdin: asked.stdin.unwrap_or_default(),
        inputs,
        timeout: timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        // In the format of `SandboxFusion`, -1 means no limit.
        memory_mb: asked.memory_limit_mb.and_then(|mb| u64::try_from(mb).ok()),
    }))
}

/// Converts an answer to the format of `SandboxFusion`.
fn in_shape(answer: &OneAnswer) -> Value {
    let error = answer.error().unwrap_or_default();
    let seconds = answer.duration().as_secs_f64();
    let (status, ran, message) = match answer.status() {
        Status::Ok => ("Success", "Finished", String::new()),
        Status::Failed => ("Failed", "Finished", String::new()),
        Status::Timeout => ("Failed", "TimeLimitExceeded", String::new()),
        Status::OutputCap => ("Failed", "Error", "too much output".to_owned()),
        Status::Memory => ("Failed", "Error", "too much memory".to_owned()),
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
