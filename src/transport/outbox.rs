//! Writes messages as whole lines, one after the other. This module never writes anything else to the stream.
//!
//! Replies and protocol errors go through one [`Sink`]. Each flush writes everything that is queued in the sink. The
//! last flush at the end of the connection therefore leaves nothing unwritten.

use std::io;
use std::sync::Arc;

use rmcp::model::ServerJsonRpcMessage;
use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Mutex, mpsc};
use tokio::task::yield_now;

use super::ConnectionEvents;
use super::protocol_error::ProtocolError;

/// The maximum number of protocol errors in the queue. An error has about 200 bytes. If a client does not read and
/// causes this many errors, the server stops reading from the client.
const ERRORS_WAITING_MAX: usize = 4096;

/// The size in bytes up to which lines are collected for one write. If a long line needs a larger buffer, the buffer
/// is reduced to this size afterwards.
const BATCH_BYTES_MAX: usize = 64 * 1024;

/// The queue of messages for one stream. All clones share the queue.
pub(super) struct Outbox<W> {
    sink: Arc<Mutex<Sink<W>>>,
    errors: mpsc::Sender<ProtocolError>,
    /// Wakes the task that flushes errors. The channel has a capacity of one message, because one flush writes all
    /// queued errors.
    wake: mpsc::Sender<()>,
}

impl<W> Clone for Outbox<W> {
    fn clone(&self) -> Self {
        let Self { sink, errors, wake } = self;
        Self { sink: Arc::clone(sink), errors: errors.clone(), wake: wake.clone() }
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> Outbox<W> {
    /// Creates an outbox for a stream. The outbox cancels `events.output_closed` when a write to the stream fails.
    pub(super) fn new(writer: W, events: ConnectionEvents) -> Self {
        let (errors, waiting) = mpsc::channel(ERRORS_WAITING_MAX);
        let (wake, mut woken) = mpsc::channel(1);
        let sink = Sink {
            writer,
            errors: waiting,
            batch: Vec::new(),
            taken: 0,
            queued: 0,
            written: 0,
            events,
        };
        let sink = Arc::new(Mutex::new(sink));
        let of_errors = Arc::clone(&sink);
        // A separate task flushes errors. The reader that queues errors is polled inside a `select!`. If the reader
        // wrote the errors, it could be dropped in the middle of a line.
        tokio::spawn(async move {
            while woken.recv().await.is_some() {
                if of_errors.lock().await.flush().await.is_err() {
                    return;
                }
            }
        });
        Self { sink, errors, wake }
    }

    /// Writes one message as a line. Calls `is_wanted` immediately before the message is queued, and skips the message
    /// if the result is `false`. The line is written when this function returns.
    pub(super) async fn write(
        &self,
        message: &ServerJsonRpcMessage,
        is_wanted: impl FnOnce() -> bool,
    ) -> io::Result<()> {
        write(&self.sink, message, is_wanted).await
    }

    /// Waits until one more protocol error fits into the queue. Cancel-safe.
    pub(super) async fn wait_for_room(&self) {
        // Drop the reserved slot. The slot stays free until the caller queues its error, because no other task queues
        // errors.
        drop(self.errors.reserve().await);
    }

    /// Queues a protocol error, which the next flush writes. The caller must have called `wait_for_room` before.
    pub(super) fn write_error(&self, error: ProtocolError) {
        if self.errors.try_send(error).is_err() {
            // The queue is closed, because a write failed earlier.
            tracing::debug!("a protocol error is not answered");
        }
        // Ignore a full channel. The message in the channel wakes the task, which then flushes this error too.
        let _ = self.wake.try_send(());
    }

    /// Writes everything that is queued, including protocol errors.
    pub(super) async fn flush(&self) -> io::Result<()> {
        self.sink.lock().await.flush().await
    }
}

/// Queues `message`, lets other tasks queue their messages, and then writes all queued messages together. With a
/// hundred calls at once, a system call for each reply would be most of the work.
async fn write<W: AsyncWrite + Unpin>(
    sink: &Mutex<Sink<W>>,
    message: &impl Serialize,
    is_wanted: impl FnOnce() -> bool,
) -> io::Result<()> {
    let Some(number) = sink.lock().await.queue(message, is_wanted).await? else { return Ok(()) };
    yield_now().await;
    let mut sink = sink.lock().await;
    if sink.written < number { sink.flush().await } else { Ok(()) }
}

struct Sink<W> {
    writer: W,
    /// The queued protocol errors, which are not in `batch` yet.
    errors: mpsc::Receiver<ProtocolError>,
    /// Whole lines. The first `taken` bytes are written already.
    batch: Vec<u8>,
    taken: usize,
    /// The number of lines that were queued so far.
    queued: u64,
    /// The number of lines that were written so far.
    written: u64,
    events: ConnectionEvents,
}

impl<W: AsyncWrite + Unpin> Sink<W> {
    /// Queues `message` as a line. Returns the line's number. `None` if the message is not wanted.
    async fn queue(
        &mut self,
        message: &impl Serialize,
        is_wanted: impl FnOnce() -> bool,
    ) -> io::Result<Option<u64>> {
        if self.batch.len() > BATCH_BYTES_MAX {
            self.flush().await?;
        }
        // Call this after the flush above, which may wait for the client to read. The message may become unwanted
        // during the wait.
        if !is_wanted() {
            return Ok(None);
        }
        serde_json::to_writer(&mut self.batch, message)?;
        self.batch.push(b'\n');
        self.queued += 1;
        Ok(Some(self.queued))
    }

    /// Writes all queued lines and protocol errors. Cancel-safe: bytes that were written are not written again.
    async fn flush(&mut self) -> io::Result<()> {
        let result = self.write_batch().await;
        if result.is_err() {
            // Close the queue of errors, so that `wait_for_room` returns. No later write succeeds, so the queue would
            // stay full.
            self.errors.close();
            self.events.output_closed.cancel();
        }
        result
    }

    /// Moves the protocol errors that are waiting into the batch.
    fn take_errors(&mut self) -> io::Result<()> {
        // Take only the errors that are queued now. A client that causes errors continuously must not delay other
        // lines.
        for _ in 0..self.errors.len() {
            let Ok(error) = self.errors.try_recv() else { break };
            serde_json::to_writer(&mut self.batch, &error)?;
            self.batch.push(b'\n');
        }
        Ok(())
    }

    async fn write_batch(&mut self) -> io::Result<()> {
        self.take_errors()?;
        let Ok(_permit) = self.events.line.acquire().await else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        while let Some(rest) = self.batch.get(self.taken..).filter(|rest| !rest.is_empty()) {
            match self.writer.write(rest).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                taken => self.taken += taken,
            }
        }
        self.writer.flush().await?;
        self.batch.clear();
        self.batch.shrink_to(BATCH_BYTES_MAX);
        self.taken = 0;
        self.written = self.queued;
        Ok(())
    }
}
