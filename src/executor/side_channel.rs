//! Implements the server's side of the side channel, a pipe from a script's process. Through this pipe, the process
//! sends pictures, the counts of checks, and a report when the script ends.
//!
//! `python/pictures.py`, `python/checks.py` and `python/bootstrap.py` write frames to the pipe: a letter, a length of
//! four bytes (little-endian), and the content. A script can write anything to the pipe, so every frame is bounded and
//! validated.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::unix::pipe;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::check_counts::{self, CheckCounts};
use super::end_report::{self, EndReport};
use super::frames::frames;
use super::output::Capture;
use super::pictures::{self, Pictures};

/// Allows one run at a time to decode its pictures, so that many runs that end together do not occupy all processors.
static ONE_AT_A_TIME: Semaphore = Semaphore::const_new(1);

/// The maximum number of bytes that are read from the pipe of a run.
const FRAMES_BYTES_MAX: usize =
    pictures::FRAMES_BYTES_MAX + check_counts::FRAMES_BYTES_MAX + end_report::FRAMES_BYTES_MAX;

/// A pipe that receives the frames of a run; `None` if the run sends no frames.
#[derive(Debug)]
pub(super) struct SideChannel(Option<Capture<pipe::Receiver>>);

/// The frames that a run has sent.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) pictures: Arc<Pictures>,
    /// The counts of the checks; `None` if the run has not sent them exactly once.
    pub(super) check_counts: Option<CheckCounts>,
    pub(super) end_report: EndReport,
}

impl SideChannel {
    /// Creates a channel. Also returns the end of the pipe that a script writes to. If `is_wanted` is false, no pipe is
    /// created.
    pub(super) fn new(is_wanted: bool) -> io::Result<(Self, Option<OwnedFd>)> {
        if !is_wanted {
            return Ok((Self(None), None));
        }
        let (reader, writer) = io::pipe()?;
        let reader = pipe::Receiver::from_owned_fd(reader.into())?;
        Ok((Self(Some(Capture::new(reader, FRAMES_BYTES_MAX))), Some(writer.into())))
    }

    /// Reads frames while the future is polled. The future never completes. Data above the limit is not read, so a
    /// script that sends more blocks until its timeout. Cancel-safe.
    pub(super) async fn read(&mut self) -> Infallible {
        self.read_to_end().await;
        std::future::pending().await
    }

    /// Reads until all writers have closed the pipe, or until the limit is exceeded. Cancel-safe.
    pub(super) async fn read_to_end(&mut self) {
        if let Self(Some(capture)) = self {
            capture.read().await;
        }
    }

    /// Reads the available data, without waiting for more.
    #[cfg(all(target_os = "linux", not(qwed_portable)))]
    pub(super) fn read_available(&mut self) {
        if let Self(Some(capture)) = self {
            capture.read_available();
        }
    }

    /// Decodes the frames that were sent. Decodes pictures in a thread for blocking work.
    pub(super) async fn finish(self) -> Sent {
        let bytes = self.0.map(Capture::into_bytes).unwrap_or_default();
        let check_counts = CheckCounts::from_frames(&bytes);
        let end_report = EndReport::from_frames(&bytes);
        if frames(&bytes).all(|(kind, _)| check_counts::is_own(kind) || end_report::is_own(kind)) {
            return Sent { pictures: Arc::default(), check_counts, end_report };
        }
        // `acquire` does not fail, because the semaphore is never closed.
        let turn = ONE_AT_A_TIME.acquire().await;
        let pictures = spawn_blocking(move || Pictures::from_frames(&bytes)).await;
        drop(turn);
        // A panic of the decoder loses the pictures, but not the script's result.
        let pictures = Arc::new(pictures.unwrap_or_else(|_panic| Pictures::unusable()));
        Sent { pictures, check_counts, end_report }
    }
}
