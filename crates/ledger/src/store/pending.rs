//! Defines [`Pending`], the result of an operation of the store that may still be running.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

use super::error::StoreError;
use super::timer::Timer;

/// The result of an operation of the store. The result arrives when the changes are durable.
#[derive(Debug)]
pub struct Pending<T> {
    reply: oneshot::Receiver<Result<T, StoreError>>,
    /// Measures the time since the operation was submitted.
    timer: Option<Timer>,
    /// Whether the operation succeeded. Set when the result arrives.
    is_done: Option<Arc<AtomicBool>>,
}

/// The sender for the result of a [`Pending`].
pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

impl<T> Pending<T> {
    pub(super) fn new() -> (Reply<T>, Self) {
        let (sender, reply) = oneshot::channel();
        (sender, Self { reply, timer: None, is_done: None })
    }

    /// Measures the time until the result arrives, with `timer`.
    pub(super) fn timed(self, timer: Timer) -> Self {
        Self { timer: Some(timer), ..self }
    }

    /// When the result arrives, stores in `is_done` whether the operation succeeded.
    pub(super) fn noted(self, is_done: &Arc<AtomicBool>) -> Self {
        Self { is_done: Some(Arc::clone(is_done)), ..self }
    }

    /// Waits for the result. Blocks the thread.
    pub fn wait(self) -> Result<T, StoreError> {
        let Self { reply, timer, is_done } = self;
        count(timer, is_done, reply.blocking_recv().unwrap_or(Err(StoreError::GivenUp)))
    }

    /// Waits for the result without blocking the thread.
    pub async fn done(self) -> Result<T, StoreError> {
        let Self { reply, timer, is_done } = self;
        count(timer, is_done, reply.await.unwrap_or(Err(StoreError::GivenUp)))
    }
}

/// Stops the timer, stores in `is_done` whether the operation succeeded, and returns `result`.
fn count<T>(
    timer: Option<Timer>,
    is_done: Option<Arc<AtomicBool>>,
    result: Result<T, StoreError>,
) -> Result<T, StoreError> {
    if let Some(is_done) = is_done {
        is_done.store(result.is_ok(), Ordering::Relaxed);
    }
    if let Some(timer) = timer {
        timer.stop(&result);
    }
    result
}
