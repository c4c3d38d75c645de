//! Work of a store that is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

use super::error::StoreError;
use crate::meter::StoreTimer;

/// The result of work, once it is durable.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    reply: oneshot::Receiver<Result<T, StoreError>>,
    /// The time since it was submitted, where that is counted.
    timer: Option<StoreTimer>,
    /// Where it is noted whether there is a result.
    is_done: Option<Arc<AtomicBool>>,
}

/// The one who tells the result.
pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

impl<T> Pending<T> {
    /// Makes a pair of who tells the result and who waits for it.
    pub(super) fn new() -> (Reply<T>, Self) {
        let (sender, reply) = oneshot::channel();
        (sender, Self { reply, timer: None, is_done: None })
    }

    /// Has the time until there is a result counted.
    pub(super) fn timed(self, timer: StoreTimer) -> Self {
        Self { timer: Some(timer), ..self }
    }

    /// Has it noted in `is_done` whether there is a result.
    pub(super) fn noted(self, is_done: &Arc<AtomicBool>) -> Self {
        Self { is_done: Some(Arc::clone(is_done)), ..self }
    }

    /// Waits for it on a thread that may block.
    pub(crate) fn wait(self) -> Result<T, StoreError> {
        let Self { reply, timer, is_done } = self;
        count(timer, is_done, reply.blocking_recv().unwrap_or(Err(StoreError::GivenUp)))
    }

    /// Waits for it in a task.
    pub(crate) async fn done(self) -> Result<T, StoreError> {
        let Self { reply, timer, is_done } = self;
        count(timer, is_done, reply.await.unwrap_or(Err(StoreError::GivenUp)))
    }
}

/// Counts a result and notes whether it is one, and returns it.
fn count<T>(
    timer: Option<StoreTimer>,
    is_done: Option<Arc<AtomicBool>>,
    result: Result<T, StoreError>,
) -> Result<T, StoreError> {
    if let Some(is_done) = is_done {
        is_done.store(result.is_ok(), Ordering::Relaxed);
    }
    if let Some(timer) = timer {
        timer.answered(&result);
    }
    result
}
