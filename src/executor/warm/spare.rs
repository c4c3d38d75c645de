//! Implements the server's side of one child of a fork server. At first the child is a spare. When the child receives a
//! script, it becomes a run.

use std::borrow::Cow;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg, setsockopt, sockopt,
};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::{sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::sandbox::Tier;

use super::super::echo::{Echo, Stream};
use super::super::given::Given;
use super::super::limits::{DRAIN_TIMEOUT, END_PATIENCE, OUTPUT_BYTES_MAX, RunLimits};
use super::super::outcome::{Ending, Outcome, Start};
use super::super::output::Capture;
use super::super::run_groups::MemoryBound;
use super::super::side_channel::{Sent, SideChannel};
use super::super::supervisors::pair;
use super::exit_status::ExitStatus;
use super::fork_server::ForkServer;
use super::runs_watch::{Exceeded, WatchOfRun};
use super::spare_group::SpareGroup;
use crate::sandbox::{
    MemoryWatch, Neighbours, OnlyProcessor, WATCH_INTERVAL, lower_cpu_weight,
    pin_to_least_used_processor,
};

/// The maximum length of a child's message about its end, in bytes. The message is `=`, an exit code and a line feed.
const END_BYTES_MAX: usize = 8;

/// The reason why a run has no outcome.
#[derive(Debug)]
pub(super) enum NoOutcome {
    /// The fork server ended during the run, so the run's ending is unknown.
    Lost,
    /// The script was killed, but its process does not end. The first field receives the exit code when the process
    /// ends. The second field is the PID of the fork server's supervisor. If the fork server ends first, no exit code
    /// arrives. Then the end of this supervisor shows that the process is dead.
    DoesNotEnd(oneshot::Receiver<i32>, Option<u32>),
}

/// A confined child that waits for a script. Dropping this value ends the child.
#[derive(Debug)]
pub(super) struct Spare {
    /// The socket over which the child receives the script, and announces the end of the script.
    control: UnixStream,
    /// A socket to process 1 of the run's PID namespace. When the socket closes, process 1 ends, and the kernel kills
    /// the run.
    lifeline: Option<UnixStream>,
    ended: oneshot::Receiver<i32>,
    stdout: Capture<pipe::Receiver>,
    stderr: Capture<pipe::Receiver>,
    side_channel: SideChannel,
    /// The PID of the child, in the PID namespace of the server.
    python: Pid,
    /// The child's `/proc/PID/stat`; `None` if the kernel hides the exit code from this process.
    exit_status: Option<ExitStatus>,
    /// The PID of the child's process 1, in the PID namespace of the server.
    init: Pid,
    /// The control group of the child. Dropped when the processes in the group have ended, or are about to end.
    group: Option<SpareGroup>,
    server: Arc<ForkServer>,
}

impl Spare {
    /// Forks a child, and waits until the child is confined. If no script waits for the child (`is_awaited` is false),
    /// the child also makes preparations that speed up its script.
    pub(super) async fn prepare(server: &Arc<ForkServer>, is_awaited: bool) -> io::Result<Self> {
        let (stdout, stdout_end) = output()?;
        let (stderr, stderr_end) = output()?;
        let (control, control_end) = pair()?;
        let (lifeline, lifeline_end) = pair()?;
        // With this option, the kernel adds the writer's PID to each message. The server receives the PID as it is in
        // the server's own PID namespace.
        for socket in [&control, &lifeline] {
            setsockopt(socket, sockopt::PassCred, &true)?;
        }
        let (side_channel, script_end) = SideChannel::new(true)?;
        let mut descriptors = vec![stdout_end, stderr_end, control_end, lifeline_end];
        descriptors.extend(script_end);
        let ended = server.fork(descriptors, is_awaited).await?;
        let init = ready_pid(&lifeline).await?;
        let python = ready_pid(&control).await?;
        let group = SpareGroup::enter(&server.groups, &server.plan, python).await?;
        let exit_status = ExitStatus::of(python);
        let (lifeline, server) = (Some(lifeline), Arc::clone(server));
        Ok(Self {
            control,
            lifeline,
            ended,
            stdout,
            stderr,
            side_channel,
            python,
            exit_status,
            init,
            group,
            server,
        })
    }

    /// Returns whether the child still waits for a script.
    pub(super) fn is_waiting(&mut self) -> bool {
        matches!(self.ended.try_recv(), Err(TryRecvError::Empty))
    }

    /// Runs the script in `given` within `limits`, until the script ends. Then starts to kill all remaining processes
    /// of the run. Returns as soon as the output is complete. Releases `unsettled` when the run has its CPU weight
    /// (`nice(2)`).
    ///
    /// The exit code comes from the kernel, through the fork server or `/proc`. The child also announces its exit code
    /// on its control socket. A script can forge the announcement, so the announcement never makes the result better.
    pub(super) async fn run(
        mut self,
        given: Given<'_>,
        limits: RunLimits,
        cancel: &CancellationToken,
        echo: &Echo,
        mut unsettled: Option<OwnedSemaphorePermit>,
    ) -> Result<Outcome, NoOutcome> {
        let started = Instant::now();
        let memory_bytes = self.memory_bytes(limits).await;
        let _only_processor = self.place(limits.neighbours);
        let (mut watch, mut announced) = (None, None);
        self.stdout.pass_on_to(Stream::Stdout, echo);
        self.stderr.pass_on_to(Stream::Stderr, echo);
        // If this server notices late that the run has ended, the timeout may also have expired. `biased` makes the end
        // of the run take precedence over the timeout.
        let cause = tokio::select! {
            biased;
            cause = self.follow(given, memory_bytes, limits.neighbours, &mut unsettled, &mut watch, &mut announced) => cause,
            () = sleep_until((started + limits.timeout).into()) => Cause::TimedOut,
            () = cancel.cancelled() => Cause::Cancelled,
        };
        self.kill();
        let code = match cause {
            Cause::Lost => return Err(NoOutcome::Lost),
            Cause::Ended(code) => {
                // A process that has announced its end has flushed its streams, so its output is already in the pipes.
                if announced.is_some() {
                    self.stdout.read_available();
                    self.stderr.read_available();
                    self.side_channel.read_available();
                } else {
                    self.read_the_rest().await;
                }
                Some(worse(code, announced))
            }
            Cause::Capped | Cause::TimedOut | Cause::Cancelled | Cause::Exceeded(_) => {
                // The wait also succeeds if the fork server ends, because its children end too.
                if timeout(END_PATIENCE, &mut self.ended).await.is_err() {
                    return Err(NoOutcome::DoesNotEnd(self.ended, self.server.supervisor));
                }
                self.read_the_rest().await;
                None
            }
        };
        let is_killed_by_group = code == Some(Ending::KILLED)
            && self.group.as_ref().is_some_and(SpareGroup::was_out_of_memory);
        let memory_bound = self.group.as_ref().map_or(MemoryBound::Watch, SpareGroup::memory_bound);
        let (stdout, stderr) = (self.stdout.finish(), self.stderr.finish());
        let is_capped = stdout.is_truncated || stderr.is_truncated;
        let ending = match (cause, code) {
            (Cause::TimedOut, _) => Ending::TimedOut,
            (Cause::Cancelled, _) => Ending::Cancelled,
            (Cause::Exceeded(_), _) => Ending::OutOfMemory,
            (_, _) if is_killed_by_group => Ending::OutOfMemory,
            (_, Some(code)) if !is_capped => Ending::Exited(code),
            (_, _) => Ending::Exited(Ending::KILLED),
        };
        let time = watch.filter(|_| cause == Cause::TimedOut).map(|watch| watch.time());
        let time = time.unwrap_or_default();
        let Sent { pictures, check_counts, end_report } = self.side_channel.finish().await;
        Ok(Outcome {
            ending,
            stdout,
            stderr,
            pictures,
            check_counts,
            end_report,
            duration: started.elapsed(),
            took_pipes: cause == Cause::Exceeded(Exceeded::Pipes),
            is_starved: time.is_starved(),
            has_slept: time.has_slept(),
            tier: Some(Tier::T3),
            memory_bound: Some(memory_bound),
            start: Start::Warm,
            advice: None,
            verdict: None,
            receipt: None,
            cached: None,
        })
    }

    /// Gives the child its CPU weight. Keeps the child of a deterministic run on one processor.
    fn place(&self, neighbours: Neighbours) -> Option<OnlyProcessor> {
        lower_cpu_weight(neighbours, self.python);
        self.server.determinism.as_ref().and_then(|_| pin_to_least_used_processor(self.python))
    }

    /// Returns the memory limit of a run in bytes, and applies it to the run's control group.
    async fn memory_bytes(&mut self, limits: RunLimits) -> u64 {
        let usual = self.server.plan.limits;
        let limits = limits.memory_mb.map_or(usual, |memory_mb| usual.lowered_to(memory_mb));
        if limits.memory_bytes < usual.memory_bytes
            && let Some(group) = self.group.take()
        {
            self.group = group.lowered_by(usual.memory_bytes - limits.memory_bytes).await;
        }
        limits.memory_bytes
    }

    /// Kills the run by ending its process 1.
    fn kill(&mut self) {
        drop(self.lifeline.take());
    }

    /// Reads until all writers have closed the streams, which means that all killed processes are dead.
    async fn read_the_rest(&mut self) {
        let side_channel = self.side_channel.read_to_end();
        let rest = async { tokio::join!(self.stdout.read(), self.stderr.read(), side_channel) };
        // The wait has a timeout, because other processes of the run may need longer to release their memory. The
        // output of these processes is already in the pipes.
        let _ = timeout(DRAIN_TIMEOUT, rest).await;
    }

    /// Sends the script, and reads the run's output. Returns the reason to stop: for example, the run has ended, or it
    /// exceeds a limit.
    async fn follow(
        &mut self,
        given: Given<'_>,
        memory_bytes: u64,
        neighbours: Neighbours,
        unsettled: &mut Option<OwnedSemaphorePermit>,
        watch: &mut Option<WatchOfRun>,
        announced: &mut Option<i32>,
    ) -> Cause {
        let Self { control, ended, stdout, stderr, side_channel, python, init, server, .. } = self;
        let exit_status = self.exit_status.as_ref();
        let (mut from_child, mut to_child) = control.split();
        let hand_over = async {
            let fixed = server.determinism.map(|it| Cow::Owned(given.fixed_values(it)));
            let parts: Vec<_> = fixed.into_iter().chain(given.input()).collect();
            // If this write fails, the child has died. `ended` reports that.
            let _ = write_parts(&mut to_child, &parts).await;
            std::future::pending::<()>().await;
        };
        let listen = async {
            let mut message = Vec::new();
            while announced.is_none() && message.len() <= END_BYTES_MAX {
                if matches!(from_child.read_buf(&mut message).await, Ok(0) | Err(_)) {
                    break;
                }
                *announced = exit_code(&message);
            }
            if announced.is_some()
                && let Some(exit_status) = exit_status
                && let Some(code) = exit_status.soon().await
            {
                return Cause::Ended(code);
            }
            // Without an exit code from `/proc`, the fork server reports the end of the process through `ended`.
            std::future::pending().await
        };
        let too_much = async {
            // The watch begins after a delay, because most runs end before the delay is over.
            sleep(WATCH_INTERVAL).await;
            // If the watch fails, the run ends with `Exceeded::Memory`, because no run may continue without a watch.
            let Ok(of_run) = MemoryWatch::new(memory_bytes) else { return Exceeded::Memory };
            let of_run = of_run.beside(neighbours);
            let of_run = server.watch.start(of_run, *python, *init, unsettled.take());
            watch.insert(of_run).exceeded().await
        };
        tokio::select! {
            biased;
            cause = listen => cause,
            code = &mut *ended => code.map_or(Cause::Lost, Cause::Ended),
            () = stdout.until_capped() => Cause::Capped,
            () = stderr.until_capped() => Cause::Capped,
            never = side_channel.read() => match never {},
            exceeded = too_much => Cause::Exceeded(exceeded),
            () = hand_over => Cause::Lost,
        }
    }
}

/// Writes parts one after the other, without first copying them into one buffer.
async fn write_parts(
    to: &mut (impl AsyncWrite + Unpin),
    parts: &[Cow<'_, [u8]>],
) -> io::Result<()> {
    let mut parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut rest = &mut parts[..];
    loop {
        // Skips empty parts, because a write of no bytes would look like a closed socket.
        IoSlice::advance_slices(&mut rest, 0);
        if rest.is_empty() {
            return Ok(());
        }
        match to.write_vectored(rest).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => IoSlice::advance_slices(&mut rest, written),
        }
    }
}

/// The reason why the server stopped following a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The process has ended, or is about to end. The value is its exit code, as the kernel reports it.
    Ended(i32),
    /// The fork server has ended.
    Lost,
    /// A stream exceeded the output limit.
    Capped,
    TimedOut,
    Cancelled,
    Exceeded(Exceeded),
}

/// Returns the worse of two exit codes: the exit code from the kernel, and the announced exit code.
fn worse(code: i32, announced: Option<i32>) -> i32 {
    if code == 0 { announced.unwrap_or(0) } else { code }
}

/// Parses the exit code in a child's message about the end of its script.
fn exit_code(said: &[u8]) -> Option<i32> {
    let digits = said.strip_prefix(b"=")?.strip_suffix(b"\n")?;
    let code: u8 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(code.into())
}

/// Creates a pipe for output. Returns the end that this process reads, and the end that a script writes to.
fn output() -> io::Result<(Capture<pipe::Receiver>, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    let reader = pipe::Receiver::from_owned_fd(reader.into())?;
    Ok((Capture::new(reader, OUTPUT_BYTES_MAX), writer.into()))
}

/// Waits for the one byte that means that a process is ready, and returns the PID of the process.
async fn ready_pid(socket: &UnixStream) -> io::Result<Pid> {
    let receive = || {
        let mut byte = [0];
        let mut parts = [IoSliceMut::new(&mut byte)];
        let mut room = cmsg_space!(UnixCredentials);
        let message =
            recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut room), MsgFlags::empty())?;
        if message.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let writer = message.cmsgs()?.find_map(|control| {
            let ControlMessageOwned::ScmCredentials(writer) = control else { return None };
            Some(Pid::from_raw(writer.pid()))
        });
        writer.ok_or_else(|| io::ErrorKind::InvalidData.into())
    };
    socket.async_io(Interest::READABLE, receive).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn parts_are_written_in_their_order() {
        let large = vec![b'x'; 1 << 20];
        let parts: [&[u8]; 6] = [b"", b"ab", b"", &large, b"c", b""];
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let write = async {
            write_parts(&mut ours, &parts.map(Cow::Borrowed)).await.unwrap();
            write_parts(&mut ours, &[]).await.unwrap();
            drop(ours);
        };
        let mut read = Vec::new();
        let (_, ()) = tokio::join!(theirs.read_to_end(&mut read), write);
        assert!(read == parts.concat());
    }

    #[test]
    fn an_announced_exit_code_never_makes_a_result_better() {
        for (code, announced, expected) in [
            (0, Some(0), 0),
            (0, None, 0),
            (0, Some(7), 7),
            (7, Some(0), 7),
            (-11, Some(0), -11),
            (7, Some(3), 7),
            (7, None, 7),
        ] {
            assert_eq!(worse(code, announced), expected, "{code} {announced:?}");
        }
    }

    #[test]
    fn only_a_whole_line_is_an_exit_code() {
        for (said, code) in [
            (&b"=0\n"[..], Some(0)),
            (b"=120\n", Some(120)),
            (b"=", None),
            (b"=1", None),
            (b"1\n", None),
            (b"x=1\n", None),
            (b"=\xff\n", None),
            (b"=256\n", None),
            (b"=-9\n", None),
        ] {
            assert_eq!(exit_code(said), code, "{said:?}");
        }
    }
}
