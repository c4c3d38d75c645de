//! The way out: whole lines, one after the other, nothing else.

use std::io;
use std::sync::Arc;

use rmcp::model::ServerJsonRpcMessage;
use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Mutex, mpsc};

use super::ConnectionEvents;
use super::message::ProtocolError;

/// How many protocol errors wait to be written, about 200 bytes each. When a client that does not
/// read has caused so many, nothing more is read from it.
const ERRORS_WAITING_MAX: usize = 4096;

/// A buffer that grew beyond this is not kept for the next message.
const BUFFER_BYTES_KEPT: usize = 64 * 1024;

/// Writes messages. A copy writes to the same stream.
pub(super) struct Outbox<W> {
    sink: Arc<Mutex<Sink<W>>>,
    errors: mpsc::Sender<ProtocolError>,
}

struct Sink<W> {
    writer: W,
    /// The message being written: one at a time is serialised, however many wait.
    buffer: Vec<u8>,
    events: ConnectionEvents,
}

impl<W> Clone for Outbox<W> {
    fn clone(&self) -> Self {
        Self { sink: Arc::clone(&self.sink), errors: self.errors.clone() }
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> Outbox<W> {
    /// An outbox that tells `events` when the stream cannot be written to.
    pub(super) fn new(writer: W, events: ConnectionEvents) -> Self {
        let sink = Arc::new(Mutex::new(Sink { writer, buffer: Vec::new(), events }));
        let (errors, mut waiting) = mpsc::channel::<ProtocolError>(ERRORS_WAITING_MAX);
        let error_sink = Arc::clone(&sink);
        // Errors are written by a task of their own: the reader that finds them is polled inside a
        // `select!`, where half a line could be left behind.
        tokio::spawn(async move {
            while let Some(error) = waiting.recv().await {
                if error_sink.lock().await.write(&error).await.is_err() {
                    return;
                }
            }
        });
        Self { sink, errors }
    }

    /// Writes one message as a line.
    pub(super) async fn write(&self, message: &ServerJsonRpcMessage) -> io::Result<()> {
        self.sink.lock().await.write(message).await
    }

    /// Waits until there is room for a protocol error. Cancel-safe.
    pub(super) async fn wait_for_room(&self) {
        // The room is for the caller: nobody else writes errors.
        drop(self.errors.reserve().await);
    }

    /// Queues a protocol error, for which the caller has waited for room.
    pub(super) fn write_error(&self, error: ProtocolError) {
        if self.errors.try_send(error).is_err() {
            // Only after the stream was closed, when nobody reads answers any more.
            tracing::debug!("a protocol error is not answered");
        }
    }

    /// Comes back when everything that was written is out.
    pub(super) async fn flush(&self) -> io::Result<()> {
        self.sink.lock().await.writer.flush().await
    }
}

impl<W: AsyncWrite + Unpin> Sink<W> {
    async fn write(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.buffer.clear();
        serde_json::to_writer(&mut self.buffer, message)?;
        self.buffer.push(b'\n');
        let Ok(_line) = self.events.line.acquire().await else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let written = async {
            self.writer.write_all(&self.buffer).await?;
            self.writer.flush().await
        };
        let result = written.await;
        if result.is_err() {
            self.events.output_closed.cancel();
        }
        if self.buffer.capacity() > BUFFER_BYTES_KEPT {
            self.buffer = Vec::new();
        }
        result
    }
}
