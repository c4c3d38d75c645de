//! An exchange over HTTP: one request, and all messages up to its last response. This module never handles HTTP itself.
//!
//! Each exchange is a separate connection to rmcp, so that requests of different clients may have the same id. The
//! request is parsed, and counted towards the limits, like a request over stdio. The request is in flight until its
//! handler has ended and its response is completely written (or the client no longer reads the response).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientConfig, ClientJsonRpcMessage,
    ClientNotification, ClientRequest, Extensions, GetExtensions as _, InitializeRequestParams,
    JsonRpcMessage, JsonRpcRequest, ProtocolVersion, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::ledger::Presented;
use crate::shares::Held;

use super::era::{Announced, Era};
use super::in_flight::{Connection, InFlight};
use super::message;
use super::outlet::{MESSAGES_WAITING_MAX, Outlet, Place};
use super::protocol_error::ProtocolError;

/// The time to wait for the reply of a handler that has ended. The wait is limited, because a cancelled handler sends
/// no reply.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// The time for which a call of the handshake era ([`Era`]) continues after its client disconnected. In this era, a
/// broken connection does not cancel the call. The call still ends after this time, because the client has no way to
/// request the response again.
const LEFT_GRACE: Duration = Duration::from_secs(5);

/// The maximum time that a call waits for the start of its run, if its client cannot cancel the call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TurnDeadline(pub(crate) Duration);

/// A message that a client has posted.
#[derive(Debug)]
pub(crate) enum Posted {
    Request(Box<PostedRequest>),
    /// The client cancels its request with this id.
    Cancelled(RequestId),
    /// The message is valid, but requires no action.
    Nothing,
}

/// A parsed request, for which an exchange can be opened.
#[derive(Debug)]
pub(crate) struct PostedRequest {
    pub(crate) id: RequestId,
    pub(crate) era: Era,
    /// The client's description of itself, if the request is a handshake. `None` for any other request.
    pub(crate) client: Option<ClientConfig>,
    /// The protocol version in the request's header.
    pub(crate) version: Option<ProtocolVersion>,
    message: JsonRpcRequest<ClientRequest>,
    bytes: usize,
}

/// The error for a message that is rejected.
#[derive(Debug)]
pub(crate) struct Rejected {
    /// The HTTP status of the response.
    pub(crate) status: u16,
    error: ProtocolError,
}

impl Rejected {
    fn new(is_stateless: bool, error: ProtocolError) -> Self {
        let status = match error.code() {
            // The stateless protocol returns 404 for an unknown method. Versions with `initialize` return 200 with an
            // error of JSON-RPC.
            ProtocolError::METHOD_NOT_FOUND if is_stateless => 404,
            ProtocolError::METHOD_NOT_FOUND => 200,
            ProtocolError::INVALID_PARAMS if !error.is_about_metadata() => 200,
            _ => 400,
        };
        Self { status, error }
    }

    /// Creates the error for a request if its id belongs to another request in flight.
    pub(crate) fn duplicate(id: RequestId) -> Self {
        let message = "Invalid Request: a request with this id is in flight";
        Self { status: 400, error: ProtocolError::invalid_request(Some(id), message) }
    }

    /// Returns the error message as JSON.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        // Serialization cannot fail for text and numbers.
        serde_json::to_vec(&self.error).unwrap_or_default()
    }
}

/// Parses a body, and checks that the headers match the body.
pub(crate) fn read(body: &[u8], announced: &Announced) -> Result<Posted, Rejected> {
    let is_stateless = announced.is_stateless();
    let rejected = |error| Rejected::new(is_stateless, error);
    if body.trim_ascii().is_empty() {
        return Err(rejected(ProtocolError::parse("the body is empty")));
    }
    match message::parse(body).map_err(rejected)? {
        Some(JsonRpcMessage::Request(message)) => {
            let JsonRpcRequest { id, request, .. } = &message;
            let era = announced.era(id, request).map_err(rejected)?;
            super::require_era(id, request, era == Era::Handshake)
                .map_err(|error| Rejected::new(era == Era::Stateless, error))?;
            if let ClientRequest::CustomRequest(custom) = request
                && custom.method == "initialize"
            {
                // The parameters are malformed. Reject the request here, because no session exists in which the handler
                // could answer it.
                let message = "Invalid params for initialize";
                return Err(rejected(ProtocolError::invalid_params(id.clone(), message)));
            }
            let version = announced.version.text();
            let request = PostedRequest {
                id: id.clone(),
                era,
                client: if let ClientRequest::InitializeRequest(request) = request {
                    Some(request.params.clone())
                } else {
                    None
                },
                version: version.and_then(|text| serde_json::from_value(text.into()).ok()),
                bytes: body.len(),
                message,
            };
            Ok(Posted::Request(Box::new(request)))
        }
        Some(JsonRpcMessage::Notification(message)) => {
            announced.check_version().map_err(rejected)?;
            let ClientNotification::CancelledNotification(cancelled) = message.notification else {
                return Ok(Posted::Nothing);
            };
            Ok(cancelled.params.request_id.map_or(Posted::Nothing, Posted::Cancelled))
        }
        Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) | None => {
            announced.check_version().map_err(rejected)?;
            Ok(Posted::Nothing)
        }
    }
}

/// The connection, credentials, resources and limits with which a request is carried out.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) connection: Connection,
    /// The caller's credentials, from the headers of the request.
    pub(crate) presented: Presented,
    /// The slots and bytes that count towards limits until the exchange ends.
    pub(crate) held: Vec<Held>,
    /// Cancelled when the client cancels the request.
    pub(crate) cancel: CancellationToken,
    /// The maximum time that the call waits for the start of its run. `None` for no maximum.
    pub(crate) turn_deadline: Option<TurnDeadline>,
}

/// The transport of one exchange. It delivers the request to rmcp and takes the messages of the handler.
pub(crate) struct Exchange {
    id: RequestId,
    connection: Connection,
    first: Option<ClientJsonRpcMessage>,
    messages: mpsc::Sender<ServerJsonRpcMessage>,
    cancel: CancellationToken,
    /// Cancelled when the client no longer reads the response.
    left: CancellationToken,
    left_at: Option<Instant>,
    grace: Duration,
    is_cancelled: bool,
    handled: CancellationToken,
    answered: CancellationToken,
}

impl PostedRequest {
    /// Returns whether the request opens a subscription. A subscription lasts until the client ends it.
    pub(crate) fn is_subscription(&self) -> bool {
        matches!(self.message.request, ClientRequest::SubscriptionsListenRequest(_))
    }

    /// Opens the exchange. Returns the transport for rmcp, and the outlet with the messages for the client. Must be
    /// called within a Tokio runtime.
    pub(crate) fn open(self, terms: Terms) -> (Exchange, Outlet) {
        let Self { id, era, mut message, bytes, .. } = self;
        let Terms { connection, mut presented, held, cancel, turn_deadline } = terms;
        let in_flight = InFlight::default();
        let handled = CancellationToken::new();
        let extensions = message.request.extensions_mut();
        // This `InFlight` has no other requests, so it always admits this request.
        if let Ok(slot) = in_flight.admit(&id, bytes.min(super::in_flight::REQUEST_BYTES_MAX), None)
        {
            for held in held {
                slot.hold(held);
            }
            extensions.insert(slot);
        }
        extensions.insert(Arc::<DropGuard>::new(handled.clone().drop_guard()));
        extensions.insert(connection.clone());
        if let Some(deadline) = turn_deadline {
            extensions.insert(deadline);
        }
        // If the call has a token in its parameters, use this token instead of the token in the headers.
        if let Some(Presented { token: Some(token), .. }) = extensions.remove::<Presented>() {
            presented.token = Some(token);
        }
        extensions.insert(presented);
        let (sender, receiver) = mpsc::channel(MESSAGES_WAITING_MAX);
        let left = CancellationToken::new();
        let place = Place::new(in_flight, id.clone());
        let outlet = Outlet::new(receiver, place, left.clone().drop_guard());
        let exchange = Exchange {
            id,
            connection,
            first: Some(JsonRpcMessage::Request(message)),
            messages: sender,
            cancel,
            left,
            left_at: None,
            grace: if era == Era::Stateless { Duration::ZERO } else { LEFT_GRACE },
            is_cancelled: false,
            handled,
            answered: CancellationToken::new(),
        };
        (exchange, outlet)
    }
}

/// Returns the description of a client that uses a protocol version with a handshake, but has no session. Only the
/// client's protocol version is known.
pub(crate) fn client_without_session(version: Option<ProtocolVersion>) -> ClientConfig {
    let version = version.unwrap_or(ProtocolVersion::V_2025_03_26);
    InitializeRequestParams::default().with_protocol_version(version)
}

impl Exchange {
    /// Creates the notification with which rmcp cancels the request.
    fn cancellation(&self) -> ClientJsonRpcMessage {
        let params = CancelledNotificationParam::new(Some(self.id.clone()), None);
        let mut notification = CancelledNotification::new(params);
        let mut extensions = Extensions::new();
        extensions.insert(self.connection.clone());
        notification.extensions = extensions;
        JsonRpcMessage::notification(notification.into())
    }
}

impl Transport<RoleServer> for Exchange {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (messages, answered) = (self.messages.clone(), self.answered.clone());
        let is_answer = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        async move {
            let sent = messages.send(message).await;
            if is_answer {
                answered.cancel();
            }
            sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
        }
    }

    /// Cancel-safe. rmcp polls the future inside a `select!` and may drop the future, so all state is in `self`.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        if let Some(message) = self.first.take() {
            return Some(message);
        }
        let (handled, answered) = (self.handled.clone(), self.answered.clone());
        let over = async {
            handled.cancelled().await;
            let _ = timeout(ANSWER_GRACE, answered.cancelled()).await;
        };
        tokio::pin!(over);
        loop {
            let leaves_at = self.left_at.map(|left| left + self.grace);
            tokio::select! {
                biased;
                () = &mut over => return None,
                () = self.cancel.cancelled(), if !self.is_cancelled => {}
                () = self.left.cancelled(), if self.left_at.is_none() => {
                    self.left_at = Some(Instant::now());
                    continue;
                }
                () = sleep_until(leaves_at.unwrap_or_else(Instant::now)),
                    if leaves_at.is_some() && !self.is_cancelled => {}
            }
            self.is_cancelled = true;
            return Some(self.cancellation());
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}
