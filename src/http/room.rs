//! The bounds of all requests in flight together, as they are over stdio.

use std::sync::Arc;

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Duration, timeout};

use super::refusal::Refusal;

/// The most requests in flight.
const REQUESTS_MAX: usize = 256;
/// The most bytes of the bodies of all of them together.
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// The longest body: a script of 1 MiB, escaped.
pub(super) const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The time for a body to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The places for requests, and for their bytes.
#[derive(Debug)]
pub(super) struct Room {
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            bytes: Arc::new(Semaphore::new(BYTES_MAX)),
        }
    }
}

impl Room {
    /// Takes a place for a request.
    pub(super) fn take(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        Arc::clone(&self.requests).try_acquire_owned().map_err(|_| Refusal::Full)
    }

    /// Reads a body, and takes a place for it and for its bytes: for these as they come, so that nobody holds
    /// room for what is not sent.
    pub(super) async fn read(
        &self,
        body: Incoming,
    ) -> Result<(Vec<u8>, Vec<OwnedSemaphorePermit>), Refusal> {
        let is_too_large =
            |length: u64| usize::try_from(length).is_ok_and(|it| it > BODY_BYTES_MAX);
        if body.size_hint().lower() > u64::from(u32::MAX) || is_too_large(body.size_hint().lower())
        {
            return Err(Refusal::TooLarge);
        }
        let read = timeout(BODY_TIMEOUT, self.read_all(body)).await;
        let (bytes, held) = read.unwrap_or(Err(Refusal::Incomplete))?;
        // When it is there: who sends slowly takes no place from others.
        let place = self.take()?;
        Ok((bytes, held.into_iter().chain([place]).collect()))
    }

    async fn read_all(
        &self,
        mut body: Incoming,
    ) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Refusal> {
        let (mut bytes, mut held): (Vec<u8>, Option<OwnedSemaphorePermit>) = (Vec::new(), None);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| Refusal::Incomplete)?.into_data() else { continue };
            if bytes.len() + data.len() > BODY_BYTES_MAX {
                return Err(Refusal::TooLarge);
            }
            let length = u32::try_from(data.len()).map_err(|_| Refusal::TooLarge)?;
            let room = Arc::clone(&self.bytes).try_acquire_many_owned(length);
            let room = room.map_err(|_| Refusal::Full)?;
            match &mut held {
                Some(held) => held.merge(room),
                None => held = Some(room),
            }
            bytes.extend_from_slice(&data);
        }
        Ok((bytes, held))
    }
}
