//! Follows one run: receives the report of the supervisor and the output of Python.

use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::echo::{Echo, Stream};
use super::limits::{DRAIN_TIMEOUT, END_PATIENCE, RunLimits};
use super::output::Capture;
use super::side_channel::SideChannel;
use super::supervisors::{Listed, Supervisors, Unended, pair, supervisor_command};
use crate::sandbox::passing;
use crate::sandbox::report::{LEFT_BEHIND, REPORT_BYTES_MAX, Report, SETTLED};

/// The time to wait for a supervisor's report before the server assumes that a signal such as SIGSTOP has stopped the
/// supervisor.
const STOPPED_MAX: Duration = Duration::from_secs(1);

/// The reason why the server stopped following a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The supervisor has reported, or has ended.
    Reported,
    /// A stream exceeded the output limit.
    Capped,
    TimedOut,
    Cancelled,
}

/// The result of an attempt to end a run.
pub(super) enum End {
    Reported(Report),
    /// Something killed the supervisor, so there is no report.
    SupervisorDied,
    /// The run did not end within [`END_PATIENCE`].
    Unended,
}

/// A run that the server follows: the supervisor of the run, the connection to the supervisor, and the output of the
/// run.
#[derive(Debug)]
pub(super) struct Supervised {
    pub(super) supervisor: Child,
    pub(super) listed: Listed,
    to_supervisor: Option<OwnedWriteHalf>,
    from_supervisor: OwnedReadHalf,
    report: Vec<u8>,
    /// The permit that the run holds until the run has its CPU weight (`nice(2)`) or has ended.
    unsettled: Option<OwnedSemaphorePermit>,
    pub(super) stdout: Capture<ChildStdout>,
    pub(super) stderr: Capture<ChildStderr>,
    pub(super) side_channel: SideChannel,
}

impl Supervised {
    pub(super) fn start(
        supervisors: &Supervisors,
        limits: RunLimits,
        has_side_channel: bool,
        echo: &Echo,
        unsettled: Option<OwnedSemaphorePermit>,
    ) -> std::io::Result<Self> {
        let (ours, theirs) = pair()?;
        let (side_channel, script_end) = SideChannel::new(has_side_channel)?;
        passing::send(&ours, script_end.as_ref().map(OwnedFd::as_fd))?;
        drop(script_end);
        let (from_supervisor, to_supervisor) = ours.into_split();
        let mut command = supervisor_command(theirs)?;
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (mut supervisor, listed) = supervisors.start(&mut command)?;
        let piped = supervisor.stdout.take().zip(supervisor.stderr.take());
        let (stdout, stderr) = piped.ok_or(std::io::ErrorKind::BrokenPipe)?;
        let mut stdout = Capture::new(stdout, limits.output_bytes_max);
        let mut stderr = Capture::new(stderr, limits.output_bytes_max);
        stdout.pass_on_to(Stream::Stdout, echo);
        stderr.pass_on_to(Stream::Stderr, echo);
        Ok(Self {
            supervisor,
            listed,
            to_supervisor: Some(to_supervisor),
            from_supervisor,
            report: Vec::new(),
            unsettled,
            stdout,
            stderr,
            side_channel,
        })
    }

    /// Sends `message` to the supervisor. Reads the run's output until the report arrives or a stream exceeds its
    /// limit.
    pub(super) async fn follow(&mut self, message: &[u8]) -> Cause {
        let Self {
            to_supervisor,
            from_supervisor,
            report,
            unsettled,
            stdout,
            stderr,
            side_channel,
            ..
        } = self;
        let hand_over = async {
            if let Some(to_supervisor) = to_supervisor {
                // A failed write means that the supervisor has ended. `receive` detects this.
                let _ = to_supervisor.write_all(message).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = receive(from_supervisor, report, unsettled) => Cause::Reported,
            () = stdout.until_capped() => Cause::Capped,
            () = stderr.until_capped() => Cause::Capped,
            never = side_channel.read() => match never {},
            () = hand_over => Cause::Reported,
        }
    }

    /// Ends the processes of the run, and reads the output that is left. If the supervisor has not reported yet, asks
    /// it to kill the run, and waits for the report.
    pub(super) async fn end(&mut self, cause: Cause) -> End {
        // When the server closes its half of the socket, the supervisor kills the run.
        drop(self.to_supervisor.take());
        self.unsettled = None;
        if cause != Cause::Reported && !self.is_reported_in_time().await {
            return End::Unended;
        }
        // A missing or incomplete report means that the supervisor was killed.
        let Ok(report) = serde_json::from_slice(&self.report) else { return End::SupervisorDied };
        let side_channel = self.side_channel.read_to_end();
        let drain = async { tokio::join!(self.stdout.read(), self.stderr.read(), side_channel) };
        // All processes of the run are dead. The wait has a timeout, because a process outside of the run may hold the
        // output open.
        let _ = timeout(DRAIN_TIMEOUT, drain).await;
        End::Reported(report)
    }

    /// Returns whether the supervisor reports, or ends, within [`END_PATIENCE`].
    async fn is_reported_in_time(&mut self) -> bool {
        let received = receive(&mut self.from_supervisor, &mut self.report, &mut self.unsettled);
        let pid = self.supervisor.id();
        tokio::pin!(received);
        let patience = timeout(END_PATIENCE, async {
            while timeout(STOPPED_MAX, &mut received).await.is_err() {
                resume(pid);
            }
        });
        patience.await.is_ok()
    }

    /// Waits, without a timeout, for the end of a run that did not end in time. Then drops `unended`, which allows
    /// other runs again.
    pub(super) async fn outlast(mut self, unended: Unended) {
        let reported = receive(&mut self.from_supervisor, &mut self.report, &mut self.unsettled);
        // A signal may have stopped the supervisor, or may stop it later. So the loop sends SIGCONT at intervals.
        let pid = self.supervisor.id();
        tokio::pin!(reported);
        while timeout(END_PATIENCE, &mut reported).await.is_err() {
            resume(pid);
        }
        drop(unended);
        tracing::warn!("the processes of a killed run have ended");
        log_removal(&self.supervisor.wait().await);
    }
}

/// Reads the supervisor's report, which is one line, into `report`. Drops `unsettled` when the run has its CPU weight.
/// Cancel-safe.
async fn receive(
    from_supervisor: &mut OwnedReadHalf,
    report: &mut Vec<u8>,
    unsettled: &mut Option<OwnedSemaphorePermit>,
) {
    while !report.ends_with(b"\n") && report.len() < REPORT_BYTES_MAX {
        match from_supervisor.read_buf(report).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if report.first() == Some(&SETTLED) {
            *unsettled = None;
        }
    }
}

/// Continues a supervisor that a signal stopped. `supervisor` is its PID.
fn resume(supervisor: Option<u32>) {
    if let Some(pid) = supervisor.and_then(|pid| i32::try_from(pid).ok()) {
        let _ = nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGCONT);
    }
}

/// Logs an error if a supervisor could not remove the folder of its run.
pub(super) fn log_removal(ended: &std::io::Result<std::process::ExitStatus>) {
    if ended.as_ref().is_ok_and(|status| status.code() == Some(LEFT_BEHIND.into())) {
        tracing::error!("the folder of a run could not be removed from the temporary folder");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::UnixStream;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn a_run_with_its_weight_makes_room_for_the_next() {
        let permits = Arc::new(Semaphore::new(1));
        let mut unsettled = Some(Arc::clone(&permits).try_acquire_owned().unwrap());
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (mut ours, _to_supervisor) = ours.into_split();
        let mut report = Vec::new();
        theirs.write_all(&[SETTLED]).await.unwrap();
        tokio::select! {
            biased;
            () = receive(&mut ours, &mut report, &mut unsettled) => panic!("there is no report"),
            permit = permits.acquire() => drop(permit.unwrap()),
        }
        let mut line = serde_json::to_vec(&Report::Exited(3)).unwrap();
        line.push(b'\n');
        theirs.write_all(&line).await.unwrap();
        receive(&mut ours, &mut report, &mut unsettled).await;
        assert_eq!(serde_json::from_slice::<Report>(&report).unwrap(), Report::Exited(3));
    }
}
