//! The pipe for the pictures of a script, on the server's side.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::unix::pipe;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::output::Capture;
use super::pictures::{FRAMES_BYTES_MAX, Pictures};

/// Allows one run at a time to decode its pictures, so that many runs that end together do not occupy all processors.
static ONE_AT_A_TIME: Semaphore = Semaphore::const_new(1);

/// A pipe that receives the pictures of a run; `None` if the server does not collect pictures.
#[derive(Debug)]
pub(super) struct PictureChannel(Option<Capture<pipe::Receiver>>);

impl PictureChannel {
    /// Creates a channel. Also returns the end of the pipe that a script writes to.
    pub(super) fn new(is_wanted: bool) -> io::Result<(Self, Option<OwnedFd>)> {
        if !is_wanted {
            return Ok((Self(None), None));
        }
        let (reader, writer) = io::pipe()?;
        let reader = pipe::Receiver::from_owned_fd(reader.into())?;
        Ok((Self(Some(Capture::new(reader, FRAMES_BYTES_MAX))), Some(writer.into())))
    }

    /// Reads pictures while the future is polled. The future never completes. Data above the limit is not read, so a
    /// script that sends more waits until its timeout. Cancel-safe.
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

    /// Decodes the pictures that were sent, in a thread for blocking work.
    pub(super) async fn finish(self) -> Arc<Pictures> {
        let frames = self.0.map(Capture::into_bytes).unwrap_or_default();
        if frames.is_empty() {
            return Arc::default();
        }
        // This does not fail, because the semaphore is never closed.
        let turn = ONE_AT_A_TIME.acquire().await;
        let pictures = spawn_blocking(move || Pictures::from_frames(&frames)).await;
        drop(turn);
        // A panic of the decoder loses the pictures, but not the script's result.
        Arc::new(pictures.unwrap_or_else(|_panic| Pictures::unusable()))
    }
}
