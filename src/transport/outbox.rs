//! Writes whole lines, one after the other. It never writes anything else to the stream.
//!
//! Replies and protocol errors leave through one [`Sink`]. Every flush writes everything that is queued in it, so the
//! last flush, such as at the end of the connection, leaves nothing unwritten.

use std::io;
use std::sync::Arc;

use rmcp::model::ServerJsonRpcMessage;
use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Mutex, mpsc};
use tokio::task::yield_now;

use super::ConnectionEvents;
use super::protocol_error::ProtocolError;

/// The most protocol errors that wait to be written, about 200 bytes each. Once a client that does not read has caused
/// this many, nothing more is read from it.
const ERRORS_WAITING_MAX: usize = 4096;

/// The size up to which lines are collected for one write, in bytes. A buffer that has grown beyond this, for one long
/// line, is not kept.
const BATCH_BYTES_MAX: usize = 64 * 1024;

/// The queue of messages for one stream. Clones share it.
pub(super) struct Outbox<W> {
    sink: Arc<Mutex<Sink<W>>>,
    errors: mpsc::Sender<ProtocolError>,
    /// Wakes the task that flushes errors. It has room for one message, because one flush writes all errors.
    wake: mpsc::Sender<()>,
}

impl<W> Clone for Outbox<W> {
    fn clone(&self) -> Self {
        let Self { sink, errors, wake } = self;
        Self { sink: Arc::clone(sink), errors: errors.clone(), wake: wake.clone() }
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> Outbox<W> {
    /// Creates an outbox that signals to `events` when the stream cannot be written to.
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
        // A separate task flushes errors. The reader that finds errors is polled inside a `select!`, where it could
        // leave half a line.
        tokio::spawn(async move {
            while woken.recv().await.is_some() {
                if of_errors.lock().await.flush().await.is_err() {
                    return;
                }
            }
        });
        Self { sink, errors, wake }
    }

    /// Writes one message as a line, unless `is_wanted` returns `false` when it is the message's turn. The line is
    /// written when this returns.
    pub(super) async fn write(
        &self,
        message: &ServerJsonRpcMessage,
        is_wanted: impl FnOnce() -> bool,
    ) -> io::Result<()> {
        write(&self.sink, message, is_wanted).await
    }

    /// Waits for room for a protocol error. Cancel-safe.
    pub(super) async fn wait_for_room(&self) {
        // The permit is not kept, because only the caller writes errors.
        drop(self.errors.reserve().await);
    }

    /// Queues a protocol error. The caller must have waited for room. The next flush writes the error.
    pub(super) fn write_error(&self, error: ProtocolError) {
        if self.errors.try_send(error).is_err() {
            // Only after the stream was closed, when answers are no longer read.
            tracing::debug!("a protocol error is not answered");
        }
        // If the channel is full, its message wakes the task for this error too.
        let _ = self.wake.try_send(());
    }

    /// Returns when everything that was queued is written, including protocol errors.
    pub(super) async fn flush(&self) -> io::Result<()> {
        self.sink.lock().await.flush().await
    }
}

/// Queues `message`, lets other ready tasks queue theirs, and writes them together. With a hundred calls at once, a
/// system call for each reply would be most of the work.
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
    /// Protocol errors that are not in `batch` yet.
    errors: mpsc::Receiver<ProtocolError>,
    /// Whole lines that are not written yet, except for the first `taken` bytes.
    batch: Vec<u8>,
    taken: usize,
    /// The number of lines queued, and the number written.
    queued: u64,
    written: u64,
    events: ConnectionEvents,
}

impl<W: AsyncWrite + Unpin> Sink<W> {
    /// Queues a line, if it is wanted. Returns its number.
    async fn queue(
        &mut self,
        message: &impl Serialize,
        is_wanted: impl FnOnce() -> bool,
    ) -> io::Result<Option<u64>> {
        if self.batch.len() > BATCH_BYTES_MAX {
            self.flush().await?;
        }
        // Checked as late as possible: a message that waits for the client to read waits before this.
        if !is_wanted() {
            return Ok(None);
        }
        serde_json::to_writer(&mut self.batch, message)?;
        self.batch.push(b'\n');
        self.queued += 1;
        Ok(Some(self.queued))
    }

    /// Writes everything that is queued. Cancel-safe: bytes that were written are not written again.
    async fn flush(&mut self) -> io::Result<()> {
        let result = self.write_batch().await;
        if result.is_err() {
            // Without a stream, nothing makes room, so waiters must return.
            self.errors.close();
            self.events.output_closed.cancel();
        }
        result
    }

    /// Moves the protocol errors that are waiting into the batch.
    fn take_errors(&mut self) -> io::Result<()> {
        // Only the errors that wait now, so that a client that sends nothing else cannot hold this up.
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
