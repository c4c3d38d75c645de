//! The descriptor for the pictures of a script, from the server's side.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::unix::pipe;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::output::Capture;
use super::pictures::{FRAMES_BYTES_MAX, Pictures};

/// Pictures of one run are decoded at a time: many runs that end together must not keep all processors busy.
static ONE_AT_A_TIME: Semaphore = Semaphore::const_new(1);

/// A pipe that the pictures of a run come by; none where they are not wanted.
#[derive(Debug)]
pub(super) struct PictureChannel(Option<Capture<pipe::Receiver>>);

impl PictureChannel {
    /// Makes a channel, and the end that a script writes to.
    pub(super) fn new(is_wanted: bool) -> io::Result<(Self, Option<OwnedFd>)> {
        if !is_wanted {
            return Ok((Self(None), None));
        }
        let (reader, writer) = io::pipe()?;
        let reader = pipe::Receiver::from_owned_fd(reader.into())?;
        Ok((Self(Some(Capture::new(reader, FRAMES_BYTES_MAX))), Some(writer.into())))
    }

    /// Reads as long as it is polled. A script that sends more than there may be waits for a reader,
    /// until its time is up. Cancel-safe.
    pub(super) async fn read(&mut self) -> Infallible {
        self.read_to_end().await;
        std::future::pending().await
    }

    /// Reads until nobody has the other end, or until there is more than there may be. Cancel-safe.
    pub(super) async fn read_to_end(&mut self) {
        if let Self(Some(capture)) = self {
            capture.read().await;
        }
    }

    /// Takes what has been sent, without waiting for more.
    #[cfg(all(target_os = "linux", not(qwed_portable)))]
    pub(super) fn read_what_is_there(&mut self) {
        if let Self(Some(capture)) = self {
            capture.read_what_is_there();
        }
    }

    /// Returns the pictures that were sent. Decoding them takes a thread for blocking work.
    pub(super) async fn finish(self) -> Arc<Pictures> {
        let frames = self.0.map(Capture::into_bytes).unwrap_or_default();
        if frames.is_empty() {
            return Arc::default();
        }
        // An error cannot occur: the semaphore is never closed.
        let turn = ONE_AT_A_TIME.acquire().await;
        let pictures = spawn_blocking(move || Pictures::from_frames(&frames)).await;
        drop(turn);
        // A panic of the decoder costs the pictures, not the result of the script.
        Arc::new(pictures.unwrap_or_else(|_panic| Pictures::unusable()))
    }
}
