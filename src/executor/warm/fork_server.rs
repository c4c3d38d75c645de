//! Starts the process of a fork server, and communicates with it. No script runs in this process.
//!
//! A supervisor launches the process like the process of a script, but with [`Role::ForkServer`]. The standard output
//! of the process is a socket. Over this socket, the server sends for each child a name of 16 bytes, a byte that is 1
//! if a script waits for the child, and five descriptors: stdout, stderr, the child's control socket, the socket of
//! process 1 of the child's PID namespace, and the side channel. When a child has ended, the fork server sends a line
//! with the child's name and exit code.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde_json::json;
use thiserror::Error;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Interest,
};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::sandbox::{LaunchError, Neighbours, Order, Plan, Role, Tier};

use super::super::containment::{Contained, NotContained};
use super::super::determinism::Determinism;
use super::super::limits::{END_PATIENCE, LOAD_TIMEOUT};
use super::super::one_shot::OneShotExecutor;
use super::super::package_folders::PackageFolders;
use super::super::run_groups::RunGroups;
use super::super::supervisors::{Listed, Supervisors, pair, supervisor_command};
use super::runs_watch::RunsWatch;
use crate::sandbox::report::{REPORT_BYTES_MAX, Report};
use crate::sandbox::{MemoryWatch, passing};

/// The maximum length of a line of the fork server's log, in bytes. Longer lines are split.
const LOG_BYTES_MAX: usize = 64 * 1024;

/// The maximum number of bytes of an incomplete exit notice. A complete notice has some twenty bytes.
const UNREAD_BYTES_MAX: usize = 64 * 1024;

/// The name of a child: the 16 bytes of a UUID.
pub(super) type Name = [u8; 16];

/// The instructions for a fork server.
#[derive(Debug)]
pub(super) struct Loading {
    /// The modules to load.
    pub(super) modules: Vec<String>,
    /// The CPU time limit of each process of a run, in seconds.
    pub(super) cpu_seconds: u64,
}

/// The reason why runs have no fork server.
#[derive(Debug, Error)]
pub(super) enum ForkServerError {
    /// Below tier 3, the children of a fork server cannot be confined.
    #[error("warm interpreters need tier 3 of the sandbox")]
    NotAtThisTier,
    /// Only `CPython` has the functions that a fork server calls before and after a fork.
    #[error("warm interpreters need CPython, not {0}")]
    NotCPython(String),
    /// Modules could be loaded from the workspace. They must not run in the fork server, because the fork server has
    /// rights that no script has.
    #[error(
        "scripts can read the workspace of the governed tools (PYTHONPATH, a .pth file or \
         QWED_MCP_READ_PATHS names it), and its code must not run in a fork server"
    )]
    Untrusted,
    #[error("the workspace of the governed tools is unknown: {0}")]
    UntrustedUnknown(String),
    #[error(transparent)]
    NotContained(#[from] NotContained),
    #[error("its supervisor could not be started: {0}")]
    StartSupervisor(#[source] io::Error),
    #[error("it could not be launched: {0}")]
    Launch(LaunchError),
    #[error("it ended before it was ready: {0}")]
    Ended(String),
    #[error("it was not ready in time")]
    Timeout,
    #[error("memory cannot be watched: {0}")]
    WatchMemory(#[source] io::Error),
}

/// A fork server that is ready. Dropping this value ends the process, and all processes that it has forked.
#[derive(Debug)]
pub(super) struct ForkServer {
    requests: Arc<UnixStream>,
    running: Running,
    /// The PID of the fork server's supervisor.
    pub(super) supervisor: Option<u32>,
    /// The plan of the sandbox of each run, with the readable paths and the limits.
    pub(super) plan: Plan,
    /// The measures that make runs reproducible; `None` if the admin did not ask for them.
    pub(super) determinism: Option<Determinism>,
    /// The watch that checks the limits of all warm runs. All fork servers share this watch.
    pub(super) watch: Arc<RunsWatch>,
    /// The control groups of the server's runs. Each child enters one of them.
    pub(super) groups: Arc<RunGroups>,
    /// When this socket closes, the supervisor kills the fork server and its children.
    _control: UnixStream,
}

/// The children that are alive, each with the channel for its exit code.
#[derive(Debug, Clone, Default)]
struct Running {
    children: Arc<Mutex<HashMap<Name, oneshot::Sender<i32>>>>,
    /// Cancelled when the fork server has died.
    is_over: CancellationToken,
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, HashMap<Name, oneshot::Sender<i32>>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ForkServer {
    /// Starts a fork server with the interpreter and the sandbox of the executor `alone`. Waits until the fork server
    /// has loaded all modules. Also returns the folders from which the modules were loaded.
    pub(super) async fn start(
        alone: &OneShotExecutor,
        loading: &Loading,
        watch: &Arc<RunsWatch>,
        tasks: &TaskTracker,
    ) -> Result<(Self, PackageFolders), ForkServerError> {
        let contained = alone.contained().await?;
        require_forkable(contained)?;
        let plan = &contained.plan;
        let packages = PackageFolders::of(plan, &alone.untrusted)
            .map_err(ForkServerError::UntrustedUnknown)?
            .ok_or(ForkServerError::Untrusted)?;
        let determinism = contained.determinism;
        let options = options(loading, alone.takes_pictures, determinism);
        let input = [&contained.interpreter.fork_server[..], options.as_bytes()];
        let order = Order {
            plan: plan.clone(),
            role: Role::ForkServer,
            // The fork server needs no scratch folder, because each child has a scratch file system of its own.
            scratch: PathBuf::from("/"),
            environment: contained.interpreter.environment.clone(),
            cpu_seconds: loading.cpu_seconds,
            // The CPU weight of the fork server is not lowered. Each run in a child gets its own CPU weight later.
            neighbours: Neighbours::default(),
            // The fork server has no control group, because each child has its own group.
            group: None,
            seatbelt: None,
            fixed: determinism.map(|it| it.of_run(&[0; 32])),
            input_bytes: input.iter().map(|part| part.len()).sum(),
        };
        // If memory cannot be watched, every run in the fork server would end at once. So no fork server is started.
        MemoryWatch::new(plan.limits.memory_bytes).map_err(ForkServerError::WatchMemory)?;
        let (plan, groups) = (plan.clone(), Arc::clone(&alone.groups));
        let order = order.to_bytes(&input).map_err(ForkServerError::StartSupervisor)?;
        let (mut control, theirs) = pair().map_err(ForkServerError::StartSupervisor)?;
        passing::send(&control, None).map_err(ForkServerError::StartSupervisor)?;
        let (requests, output) = pair().map_err(ForkServerError::StartSupervisor)?;
        let (mut supervisor, listed) = supervisor_command(theirs)
            .and_then(|mut command| {
                command.stdout(Stdio::from(output)).stderr(Stdio::piped());
                alone.supervisors.start(&mut command)
            })
            .map_err(ForkServerError::StartSupervisor)?;
        let log = supervisor.stderr.take();
        let pid = supervisor.id();
        tasks.spawn(outlive(supervisor, listed, alone.supervisors.clone()));
        // If this write fails, the supervisor has ended. The reason is read below.
        let _ = control.write_all(&order).await;

        let mut requests = BufReader::new(requests);
        let mut answer = String::new();
        // If the launch failed, the other end of this socket is closed, and no line is read.
        let read = timeout(LOAD_TIMEOUT, requests.read_line(&mut answer)).await;
        if read.is_err() {
            return Err(ForkServerError::Timeout);
        }
        if answer != "ready\n" {
            return Err(why_it_ended(control, log).await);
        }
        if let Some(log) = log {
            tokio::spawn(log_output(log));
        }
        // `into_inner` discards the reader's buffer. The buffer is empty, because the fork server sends nothing until a
        // child is requested.
        let requests = Arc::new(requests.into_inner());
        let running = Running::default();
        tokio::spawn(read_exit_notices(Arc::clone(&requests), running.clone()));
        let server = Self {
            requests,
            running,
            supervisor: pid,
            plan,
            determinism,
            watch: Arc::clone(watch),
            groups,
            _control: control,
        };
        Ok((server, packages))
    }

    pub(super) fn is_alive(&self) -> bool {
        !self.running.is_over.is_cancelled()
    }

    /// Requests a child, and passes these descriptors to it. `is_awaited` is true if a script waits for the child. The
    /// receiver gets the child's exit code, or an error if the fork server dies first.
    pub(super) async fn fork(
        &self,
        descriptors: Vec<OwnedFd>,
        is_awaited: bool,
    ) -> io::Result<oneshot::Receiver<i32>> {
        let name: Name = *Uuid::new_v4().as_bytes();
        let message = [&name[..], &[is_awaited.into()]].concat();
        let (sender, ended) = oneshot::channel();
        self.running.lock().insert(name, sender);
        let numbers: Vec<RawFd> = descriptors.iter().map(OwnedFd::as_raw_fd).collect();
        let ask = || {
            let rights = [ControlMessage::ScmRights(&numbers)];
            let parts = [IoSlice::new(&message)];
            let fd = self.requests.as_raw_fd();
            Ok(sendmsg::<()>(fd, &parts, &rights, MsgFlags::MSG_NOSIGNAL, None)?)
        };
        let error = match self.requests.async_io(Interest::WRITABLE, ask).await {
            Ok(sent) if sent == message.len() => return Ok(ended),
            Ok(_) => io::ErrorKind::WriteZero.into(),
            Err(error) => error,
        };
        self.running.lock().remove(&name);
        Err(error)
    }
}

/// Returns an error if the interpreter cannot be forked, or if its forks cannot be confined.
fn require_forkable(contained: &Contained) -> Result<(), ForkServerError> {
    if contained.plan.tier != Tier::T3 {
        return Err(ForkServerError::NotAtThisTier);
    }
    match &*contained.interpreter.implementation {
        "cpython" => Ok(()),
        other => Err(ForkServerError::NotCPython(other.to_owned())),
    }
}

/// Returns the first line of a fork server's input: its options as JSON.
fn options(loading: &Loading, takes_pictures: bool, determinism: Option<Determinism>) -> String {
    let options = json!({
        "modules": loading.modules,
        "takes_pictures": takes_pictures,
        "is_fixed": determinism.is_some(),
    });
    format!("{options}\n")
}

/// Waits until the supervisor has ended, and then removes the supervisor from the list of supervisors. If the
/// supervisor was killed, kills the processes that it watched.
async fn outlive(mut supervisor: Child, listed: Listed, supervisors: Supervisors) {
    let ended = supervisor.wait().await;
    drop(listed);
    // With the exit code 1, the supervisor has also ended the run. It could not send its report, because the server had
    // closed the connection.
    if !ended.is_ok_and(|status| matches!(status.code(), Some(0 | 1))) {
        supervisors.kill_orphans().await;
    }
}

async fn why_it_ended(control: UnixStream, log: Option<impl AsyncRead + Unpin>) -> ForkServerError {
    let report = read_bounded(control, REPORT_BYTES_MAX).await;
    match serde_json::from_slice(&report) {
        Ok(Report::NotStarted(error)) => ForkServerError::Launch(error),
        Ok(
            Report::Exited(_) | Report::Killed { .. } | Report::OutOfMemory | Report::TooManyPipes,
        )
        | Err(_) => {
            let log = match log {
                Some(log) => read_bounded(log, LOG_BYTES_MAX).await,
                None => Vec::new(),
            };
            ForkServerError::Ended(String::from_utf8_lossy(&log).trim().to_owned())
        }
    }
}

/// Reads the last output of an ending process, with a timeout.
async fn read_bounded(source: impl AsyncRead + Unpin, bytes_max: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut limited = source.take(u64::try_from(bytes_max).unwrap_or(u64::MAX));
    let _ = timeout(END_PATIENCE, limited.read_to_end(&mut bytes)).await;
    bytes
}

/// Logs the fork server's stderr: the output of modules while they are loaded, and later errors.
async fn log_output(log: impl AsyncRead + Unpin) {
    let mut lines = BufReader::new(log);
    let log_bytes_max = u64::try_from(LOG_BYTES_MAX).unwrap_or(u64::MAX);
    loop {
        let mut line = Vec::new();
        match (&mut lines).take(log_bytes_max).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let line = String::from_utf8_lossy(&line);
                tracing::debug!(line = line.trim_end(), "fork server output");
            }
        }
    }
}

/// Reads the exit notices of children until the fork server has ended. Then wakes the callers that still wait for the
/// exit codes of children.
async fn read_exit_notices(requests: Arc<UnixStream>, running: Running) {
    let mut unread = Vec::new();
    loop {
        if requests.readable().await.is_err() {
            break;
        }
        match requests.try_read_buf(&mut unread) {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Ok(0) | Err(_) => break,
        }
        if unread.len() > UNREAD_BYTES_MAX {
            break;
        }
        while let Some((name, code, used)) = parse_exit_notice(&unread) {
            unread.drain(..used);
            if let Some(waiting) = running.lock().remove(&name) {
                // The receiver is gone if the outcome of the run was already returned.
                let _ = waiting.send(code);
            }
        }
    }
    running.is_over.cancel();
    running.lock().clear();
}

/// Parses the first line of `unread`. Returns the child's name, its exit code and the length of the line.
fn parse_exit_notice(unread: &[u8]) -> Option<(Name, i32, usize)> {
    let (name, rest) = unread.split_at_checked(size_of::<Name>())?;
    let length = rest.iter().position(|byte| *byte == b'\n')?;
    let code = std::str::from_utf8(rest.get(..length)?).ok()?.trim().parse().ok()?;
    Some((name.try_into().ok()?, code, size_of::<Name>() + length + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_notices_are_read_line_by_line() {
        let mut line = vec![b'\n'; 16];
        assert_eq!(parse_exit_notice(&line), None);
        line.extend_from_slice(b" -9");
        assert_eq!(parse_exit_notice(&line), None);
        line.extend_from_slice(b"\nrest");
        assert_eq!(parse_exit_notice(&line), Some(([b'\n'; 16], -9, 20)));
    }
}
