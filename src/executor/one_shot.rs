//! A new interpreter for each run.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::config::{SandboxMode, Settings};
use crate::gateway::AuthorizedScript;

use super::containment::{Contained, Containment, NotContained};
use super::interpreter::{FindError, Interpreter};
use super::limits::{DRAIN_TIMEOUT, KILL_TIMEOUT};
use super::outcome::{Ending, Outcome, Start};
use super::output::Capture;
use super::protocol::{REPORT_BYTES_MAX, Report, SUPERVISE_ARGUMENT};
use super::{
    Executor, ProjectRun, Readiness, Run, RunError, RunLimits, TakeInventory, orphans, supervisor,
};

/// Runs each script in a new interpreter, under a supervisor of its own.
#[derive(Debug)]
pub(crate) struct OneShotExecutor {
    containment: Containment,
    supervisors: Supervisors,
}

/// The supervisors that live. Locked while one is started, so that a search for orphans never meets
/// one that is not listed yet.
#[derive(Debug, Default, Clone)]
pub(super) struct Supervisors(Arc<Mutex<HashSet<u32>>>);

impl Supervisors {
    fn lock(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills and reaps the processes that supervisors left behind which were killed.
    pub(super) async fn kill_orphans(&self) {
        orphans::kill(|| self.lock().clone()).await;
    }

    pub(super) fn start(&self, command: &mut Command) -> std::io::Result<(Child, Listed)> {
        let mut pids = self.lock();
        let supervisor = command.spawn()?;
        let pid = supervisor.id();
        pids.extend(pid);
        Ok((supervisor, Listed { pid, supervisors: self.clone() }))
    }
}

/// A supervisor's place on the list, as long as this lives.
#[derive(Debug)]
pub(super) struct Listed {
    pid: Option<u32>,
    supervisors: Supervisors,
}

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            self.supervisors.lock().remove(&pid);
        }
    }
}

impl OneShotExecutor {
    /// An executor for the interpreter and the sandbox that the settings want.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self { containment: Containment::new(settings), supervisors: Supervisors::default() }
    }

    /// What scripts run in and as; found out at the first call.
    pub(crate) async fn contained(&self) -> Result<&Contained, NotContained> {
        self.containment.get(self).await
    }

    /// The interpreter for scripts, whether or not they can be contained.
    pub(super) async fn interpreter(&self) -> Result<&Interpreter, FindError> {
        self.containment.interpreter().await
    }

    /// Which sandbox the admin asks for.
    pub(super) fn mode(&self) -> SandboxMode {
        self.containment.mode()
    }

    /// The supervisors of this executor's runs.
    #[cfg_attr(
        any(not(target_os = "linux"), qwed_portable),
        expect(dead_code, reason = "warm interpreters are Linux's")
    )]
    pub(super) fn supervisors(&self) -> &Supervisors {
        &self.supervisors
    }

    async fn run_once(
        &self,
        script: &AuthorizedScript,
        limits: RunLimits,
        cancel: &CancellationToken,
    ) -> Result<Outcome, RunError> {
        let contained = tokio::select! {
            contained = self.contained() => contained?,
            () = cancel.cancelled() => return Ok(Outcome::never_started()),
        };
        let source = without_byte_order_mark(script.source().as_str());
        self.supervise(contained, source, limits, cancel).await
    }

    async fn run_project_once(
        &self,
        project: &ProjectRun,
        cancel: &CancellationToken,
    ) -> Result<Outcome, RunError> {
        let contained = tokio::select! {
            contained = self.contained() => contained?,
            () = cancel.cancelled() => return Ok(Outcome::never_started()),
        };
        let contained = contained.for_project(project)?;
        self.supervise(&contained, &project.source, project.limits, cancel).await
    }

    /// One run, from the start of its supervisor until its last process is dead.
    pub(super) async fn supervise(
        &self,
        contained: &Contained,
        source: &str,
        limits: RunLimits,
        cancel: &CancellationToken,
    ) -> Result<Outcome, RunError> {
        let started = Instant::now();
        let name = format!("qwed-mcp-{}", Uuid::new_v4().simple());
        let scratch = std::env::temp_dir().join(name);
        let message =
            contained.order(source, &scratch, limits).map_err(RunError::StartSupervisor)?;
        let mut supervised = Supervised::start(&self.supervisors, limits.output_bytes_max)
            .map_err(RunError::StartSupervisor)?;
        let cause = tokio::select! {
            cause = supervised.follow(&message) => cause,
            () = sleep_until((started + limits.timeout).into()) => Cause::TimedOut,
            () = cancel.cancelled() => Cause::Cancelled,
        };
        let report = supervised.end(cause).await;
        drop(supervised.listed);
        if report.is_none() {
            self.clear_up_after(&scratch).await;
        }

        let (stdout, stderr) = (supervised.stdout.finish(), supervised.stderr.finish());
        let is_capped = stdout.is_truncated || stderr.is_truncated;
        let ending = ending(cause, is_capped, report.ok_or(RunError::SupervisorDied)?)?;
        let (duration, tier) = (started.elapsed(), Some(contained.plan.tier));
        Ok(Outcome { ending, stdout, stderr, duration, tier, start: Start::Cold })
    }

    /// Searches for what a supervisor that was killed watched over, and kills it.
    async fn clear_up_after(&self, scratch: &Path) {
        tracing::error!("a supervisor was killed; killing what it watched over");
        self.supervisors.kill_orphans().await;
        let scratch = scratch.to_owned();
        let removed = tokio::task::spawn_blocking(move || supervisor::remove_scratch(&scratch));
        let _ = timeout(KILL_TIMEOUT, removed).await;
    }
}

impl Executor for OneShotExecutor {
    fn run(
        &self,
        script: AuthorizedScript,
        limits: RunLimits,
        cancel: CancellationToken,
    ) -> Run<'_> {
        Box::pin(async move { self.run_once(&script, limits, &cancel).await })
    }

    fn readiness(&self) -> Readiness<'_> {
        Box::pin(async {
            match self.contained().await {
                Ok(contained) => Ok(Some(contained.plan.tier)),
                // Without an interpreter the run itself says so.
                Err(NotContained::FindInterpreter(_)) => Ok(None),
                Err(NotContained::Sandbox(missing)) => Err(missing),
            }
        })
    }

    fn run_project(&self, project: ProjectRun, cancel: CancellationToken) -> Run<'_> {
        Box::pin(async move { self.run_project_once(&project, &cancel).await })
    }

    fn inventory(&self, modules: Vec<String>) -> TakeInventory<'_> {
        Box::pin(async move { self.take_inventory(&modules).await })
    }
}

/// What made the server stop following a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The supervisor has reported, or is gone.
    Reported,
    /// A stream went on after the cap.
    Capped,
    TimedOut,
    Cancelled,
}

fn ending(cause: Cause, is_capped: bool, report: Report) -> Result<Ending, RunError> {
    match (cause, report) {
        (_, Report::NotStarted(reason)) => Err(RunError::StartPython(reason)),
        (Cause::TimedOut, Report::Exited(_) | Report::Killed | Report::OutOfMemory) => {
            Ok(Ending::TimedOut)
        }
        (Cause::Cancelled, Report::Exited(_) | Report::Killed | Report::OutOfMemory) => {
            Ok(Ending::Cancelled)
        }
        (Cause::Reported | Cause::Capped, Report::OutOfMemory) => Ok(Ending::OutOfMemory),
        // A script that has just ended when its output reaches the cap is no exception.
        (Cause::Reported | Cause::Capped, Report::Exited(code)) if !is_capped => {
            Ok(Ending::Exited(code))
        }
        // Without a cap: the supervisor was asked to end by a signal, and killed the run.
        (Cause::Reported | Cause::Capped, Report::Exited(_) | Report::Killed) => {
            Ok(Ending::Exited(Ending::KILLED))
        }
    }
}

/// The server's side of one run.
#[derive(Debug)]
struct Supervised {
    supervisor: Child,
    listed: Listed,
    to_supervisor: Option<OwnedWriteHalf>,
    from_supervisor: OwnedReadHalf,
    report: Vec<u8>,
    stdout: Capture<ChildStdout>,
    stderr: Capture<ChildStderr>,
}

impl Supervised {
    fn start(supervisors: &Supervisors, output_bytes_max: usize) -> std::io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (from_supervisor, to_supervisor) = UnixStream::from_std(ours)?.into_split();
        let mut command = supervisor_command(theirs.into())?;
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (mut supervisor, listed) = supervisors.start(&mut command)?;
        let piped = supervisor.stdout.take().zip(supervisor.stderr.take());
        let (stdout, stderr) = piped.ok_or(std::io::ErrorKind::BrokenPipe)?;
        Ok(Self {
            supervisor,
            listed,
            to_supervisor: Some(to_supervisor),
            from_supervisor,
            report: Vec::new(),
            stdout: Capture::new(stdout, output_bytes_max),
            stderr: Capture::new(stderr, output_bytes_max),
        })
    }

    /// Hands the script over and reads what comes back, until the report or until a cap.
    async fn follow(&mut self, message: &[u8]) -> Cause {
        let Self { to_supervisor, from_supervisor, report, stdout, stderr, .. } = self;
        let hand_over = async {
            if let Some(to_supervisor) = to_supervisor {
                // If this fails the supervisor is gone, and that is what reading will find.
                let _ = to_supervisor.write_all(message).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = receive(from_supervisor, report) => Cause::Reported,
            () = stdout.until_capped() => Cause::Capped,
            () = stderr.until_capped() => Cause::Capped,
            () = hand_over => Cause::Reported,
        }
    }

    /// Sees the run to its end: asks for the kill where there was no report yet, takes the rest of
    /// the output, and comes back when the supervisor has ended. None if it never reported.
    async fn end(&mut self, cause: Cause) -> Option<Report> {
        // Closing our side asks for the kill.
        drop(self.to_supervisor.take());
        if cause != Cause::Reported {
            let received = receive(&mut self.from_supervisor, &mut self.report);
            // A little more than the supervisor gives itself.
            if timeout(KILL_TIMEOUT + Duration::from_secs(1), received).await.is_err() {
                tracing::error!("a supervisor does not report");
            }
        }
        let report = serde_json::from_slice(&self.report).ok();
        if report.is_none() {
            // It may be stopped. Its children are searched for by the caller.
            let _ = self.supervisor.start_kill();
        }
        let drain = async { tokio::join!(self.stdout.read(), self.stderr.read()) };
        // What holds the output open longer than this is no process of the run.
        let _ = timeout(DRAIN_TIMEOUT, drain).await;
        match timeout(KILL_TIMEOUT, self.supervisor.wait()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::error!(%error, "a supervisor cannot be waited for"),
            Err(_) => tracing::error!("a supervisor does not end"),
        }
        report
    }
}

/// Reads the report's line into `report`. Cancel-safe.
async fn receive(from_supervisor: &mut OwnedReadHalf, report: &mut Vec<u8>) {
    while !report.ends_with(b"\n") && report.len() < REPORT_BYTES_MAX {
        match from_supervisor.read_buf(report).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// Python takes a byte order mark at the start of a file, and not at the start of a string.
pub(super) fn without_byte_order_mark(source: &str) -> &str {
    source.strip_prefix('\u{feff}').unwrap_or(source)
}

/// A supervisor that is told what to do by `control`. What it runs has its standard output and
/// error.
pub(super) fn supervisor_command(control: OwnedFd) -> std::io::Result<Command> {
    let mut command = Command::new(own_binary()?);
    command.arg(SUPERVISE_ARGUMENT).env_clear().stdin(Stdio::from(control));
    Ok(command)
}

/// The program to start as a supervisor: this one.
fn own_binary() -> std::io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        // Also after the file was replaced by a newer one.
        Ok(Path::new("/proc/self/exe").to_owned())
    } else {
        std::env::current_exe()
    }
}
