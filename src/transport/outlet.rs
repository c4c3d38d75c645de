//! The messages of an exchange, from rmcp to the HTTP response. This module never changes a message.

use rmcp::model::{
    ErrorCode, InitializeResult, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult,
};
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

use super::in_flight::InFlight;
use super::protocol_error::ProtocolError;

/// The maximum number of unread messages of one exchange. An exchange has two progress messages per second, and one
/// reply.
pub(super) const MESSAGES_WAITING_MAX: usize = 4;

/// The slot of a request in flight. Drop it when the response to the request is written.
#[derive(Debug)]
pub(crate) struct Place {
    in_flight: InFlight,
    id: RequestId,
}

impl Place {
    pub(super) fn new(in_flight: InFlight, id: RequestId) -> Self {
        Self { in_flight, id }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.in_flight.cancel(&self.id);
    }
}

/// The messages of an exchange. Dropping the outlet signals that the client no longer reads the messages.
#[derive(Debug)]
pub(crate) struct Outlet {
    messages: mpsc::Receiver<ServerJsonRpcMessage>,
    place: Place,
    _left: DropGuard,
}

/// A message to the client.
#[derive(Debug)]
pub(crate) struct Outbound(ServerJsonRpcMessage);

impl Outlet {
    pub(super) fn new(
        messages: mpsc::Receiver<ServerJsonRpcMessage>,
        place: Place,
        left: DropGuard,
    ) -> Self {
        Self { messages, place, _left: left }
    }

    /// Returns the next message. `None` after the last message. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Outbound> {
        self.messages.recv().await.map(Outbound)
    }

    /// Returns the slot of the request. Call this after the last message. The caller drops the slot when that message
    /// is written.
    pub(crate) fn into_place(self) -> Place {
        self.place
    }
}

impl Outbound {
    /// Returns whether this message is the last message of the exchange.
    pub(crate) fn is_last(&self) -> bool {
        matches!(self.0, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
    }

    /// Returns the result of a handshake. `None` if this message is not the result of a handshake.
    pub(crate) fn agreed(&self) -> Option<&InitializeResult> {
        let JsonRpcMessage::Response(response) = &self.0 else { return None };
        let ServerResult::InitializeResult(result) = &response.result else { return None };
        Some(result)
    }

    /// Returns the HTTP status of the message in the stateless era.
    pub(crate) fn status(&self) -> u16 {
        let JsonRpcMessage::Error(error) = &self.0 else { return 200 };
        match error.error.code {
            ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
            | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
            | ErrorCode::HEADER_MISMATCH => 400,
            ErrorCode(ProtocolError::METHOD_NOT_FOUND) => 404,
            _ => 200,
        }
    }

    /// Returns the message as JSON.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        // Serialization cannot fail for parsed or captured data.
        serde_json::to_vec(&self.0).unwrap_or_default()
    }
}
