//! The transport of JSON-RPC 2.0 messages. Over stdio, each line is a message (MCP, `basic/transports`). This module
//! never carries out a request.
//!
//! This transport replaces the stdio transport of rmcp (the MCP library), which ignores invalid lines, sends no error
//! for over-long lines, and does not limit requests and unsent replies.
//!
//! Over stdio, a message passes through these modules:
//!
//! `line` (bytes → lines of limited length) → `message` (line → message, or the error to reply with) →
//! `in_flight` (limits the number and the bytes of requests) → rmcp → `outbox` (messages → bytes).
//!
//! Over HTTP, a message is a body. It passes through `era` (checks its headers) → `message` → `exchange` → rmcp →
//! `outlet`.

mod era;
mod exchange;
mod hang_up;
mod in_flight;
mod line;
mod message;
mod outbox;
mod outlet;
mod output_room;
mod protocol_error;
#[cfg(test)]
mod tests;

pub(crate) use era::{Announced, Era, Header};
pub(crate) use exchange::{
    Posted, PostedRequest, Rejected, Terms, TurnDeadline, client_without_session, read,
};
pub(crate) use hang_up::hung_up;
pub(crate) use in_flight::{Connection, Slot};
pub(crate) use outlet::{Outlet, Place};
pub(crate) use output_room::make_room;

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetExtensions as _, GetMeta as _,
    JsonRpcMessage, JsonRpcRequest, ProtocolVersion, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use in_flight::InFlight;
use line::{LINE_BYTES_MAX, Line, LineReader};
use outbox::Outbox;
use protocol_error::ProtocolError;

/// The stdio transport that rmcp uses.
pub(crate) struct StdioTransport<R, W> {
    lines: LineReader<R>,
    outbox: Outbox<W>,
    in_flight: InFlight,
    /// `true` after an `initialize` has arrived. A request without an earlier `initialize` must have the version and
    /// the capabilities in its `_meta`.
    is_initialized: bool,
    /// A semaphore with one permit. The request `initialize` holds the permit until its reply is sent. Meanwhile the
    /// transport reads no further line.
    initializing: Arc<Semaphore>,
    input_ended: CancellationToken,
    abandoned: CancellationToken,
}

/// The events by which the transport and the other parts of the server notify each other.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionEvents {
    /// Cancelled when the client has closed the input. Replies to requests in flight may still be written.
    pub(crate) input_ended: CancellationToken,
    /// Cancelled when the client no longer reads the output.
    pub(crate) output_closed: CancellationToken,
    /// Cancelled when the server gives up the requests in flight, after the client has closed the input. No replies
    /// are written after that.
    pub(crate) abandoned: CancellationToken,
    /// A semaphore with the only permit to write lines. `finish_output` removes the permit.
    line: Arc<Semaphore>,
}

impl Default for ConnectionEvents {
    fn default() -> Self {
        Self {
            input_ended: CancellationToken::new(),
            output_closed: CancellationToken::new(),
            abandoned: CancellationToken::new(),
            line: Arc::new(Semaphore::new(1)),
        }
    }
}

impl ConnectionEvents {
    /// Waits until the current line is completely written. Then blocks all further output.
    pub(crate) async fn finish_output(&self) {
        if let Ok(line) = self.line.acquire().await {
            line.forget();
        }
    }
}

/// Parses a line and discards the result, for fuzzing.
#[cfg(fuzzing)]
pub(crate) fn read_line(line: &[u8]) {
    drop(message::parse(line));
}

impl<R, W> StdioTransport<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    /// Creates a transport over the given streams. Must be called within a Tokio runtime.
    pub(crate) fn new(reader: R, writer: W, events: &ConnectionEvents) -> Self {
        Self {
            lines: LineReader::new(reader),
            outbox: Outbox::new(writer, events.clone()),
            in_flight: InFlight::default(),
            is_initialized: false,
            initializing: Arc::new(Semaphore::new(1)),
            input_ended: events.input_ended.clone(),
            abandoned: events.abandoned.clone(),
        }
    }

    /// Parses a line. Returns the message for rmcp, or the error to reply with. `None` if the line requires no action.
    fn inbound(&mut self, line: &[u8]) -> Result<Option<ClientJsonRpcMessage>, ProtocolError> {
        let Some(mut message) = message::parse(line)? else { return Ok(None) };
        match &mut message {
            JsonRpcMessage::Request(JsonRpcRequest { id, request, .. }) => {
                require_era(id, request, self.is_initialized)?;
                let progress = request.get_meta().get_progress_token();
                let slot = self.in_flight.admit(id, line.len(), progress)?;
                if matches!(request, ClientRequest::InitializeRequest(_)) {
                    self.is_initialized = true;
                    if let Ok(permit) = Arc::clone(&self.initializing).try_acquire_owned() {
                        slot.hold(permit);
                    }
                }
                request.extensions_mut().insert(slot);
            }
            JsonRpcMessage::Notification(message) => {
                if let ClientNotification::CancelledNotification(cancelled) = &message.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.in_flight.cancel(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Ok(Some(message))
    }
}

/// Refuses a request that is valid in neither era of MCP ([`Era`]). A request of the handshake era needs an
/// `initialize` before it. A request of the stateless era needs the required keys in its `_meta` (MCP 2026-07-28). Also
/// refuses a method that does not exist in the request's era.
fn require_era(
    id: &RequestId,
    request: &ClientRequest,
    is_initialized: bool,
) -> Result<(), ProtocolError> {
    let meta = request.get_meta();
    let stateless = ProtocolVersion::V_2026_07_28;
    let is_custom = matches!(request, ClientRequest::CustomRequest(_));
    let version = meta.protocol_version();
    let is_stateless = version.as_ref().is_some_and(|version| *version >= stateless);
    let is_known =
        version.as_ref().is_none_or(|version| ProtocolVersion::KNOWN_VERSIONS.contains(version));
    let is_there = match request.method() {
        "ping" => !is_stateless,
        // An `initialize` with valid parameters is a handshake, even if its `_meta` names the stateless era.
        "initialize" => !(is_stateless && is_custom),
        "skills/get"
        | "skills/list"
        | "subscriptions/listen"
        | "tasks/cancel"
        | "tasks/get"
        | "tasks/update" => is_stateless || (version.is_none() && !is_initialized),
        _ => true,
    };
    // If the version is unknown, let the request pass, because rmcp replies with the error.
    if is_known && !is_there {
        return Err(ProtocolError::method_not_found(id.clone(), request.method()));
    }
    // Let a `CustomRequest` pass. rmcp creates it if the parameters are invalid, and the handler replies with an error.
    let is_free = is_custom
        || matches!(request, ClientRequest::InitializeRequest(_) | ClientRequest::PingRequest(_));
    if is_free || is_initialized {
        return Ok(());
    }
    match meta.missing_required_keys(&stateless).as_slice() {
        [] => Ok(()),
        missing => Err(ProtocolError::metadata_missing(id.clone(), missing)),
    }
}

impl<R, W> Transport<RoleServer> for StdioTransport<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let outbox = self.outbox.clone();
        let in_flight = self.in_flight.clone();
        let subject = in_flight.subject(&message);
        let abandoned = self.abandoned.clone();
        let is_wanted = move || !abandoned.is_cancelled() && in_flight.wants(&subject);
        async move { outbox.write(&message, is_wanted).await }
    }

    /// Cancel-safe. rmcp polls the future inside a `select!` and may drop the future, so all state is in `self`.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            drop(self.initializing.acquire().await);
            // Wait before reading a line. rmcp may drop this future during the wait, which would lose a line that was
            // already read.
            self.outbox.wait_for_room().await;
            let inbound = match self.lines.next().await {
                Line::Complete(line) => {
                    let inbound = self.inbound(&line);
                    self.lines.recycle(line);
                    inbound
                }
                Line::TooLong => Err(ProtocolError::invalid_request(
                    None,
                    format!("Invalid Request: a message has at most {LINE_BYTES_MAX} bytes"),
                )),
                Line::End => {
                    self.input_ended.cancel();
                    return None;
                }
            };
            match inbound {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(error) => self.outbox.write_error(error),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.outbox.flush().await
    }
}
