//! Work of a store that is under way.

use tokio::sync::oneshot;

use super::error::StoreError;

/// The result of work, once it is durable.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    reply: oneshot::Receiver<Result<T, StoreError>>,
}

/// The one who tells the result.
pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

impl<T> Pending<T> {
    /// Makes a pair of who tells the result and who waits for it.
    pub(super) fn new() -> (Reply<T>, Self) {
        let (sender, reply) = oneshot::channel();
        (sender, Self { reply })
    }

    /// Waits for it on a thread that may block.
    pub(crate) fn wait(self) -> Result<T, StoreError> {
        self.reply.blocking_recv().unwrap_or(Err(StoreError::GivenUp))
    }

    /// Waits for it in a task.
    pub(crate) async fn done(self) -> Result<T, StoreError> {
        self.reply.await.unwrap_or(Err(StoreError::GivenUp))
    }
}
