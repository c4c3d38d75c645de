//! The endpoint for MCP messages over HTTP: takes the body of a request and returns an answer. This module never
//! handles HTTP itself.
//!
//! Each request is a separate exchange with rmcp. In the handshake era (protocol versions with `initialize`), a
//! session keeps the state between requests. The stateless era (since version 2026-07-28) has no state between
//! requests.
//!
//! rmcp's `StreamableHttpService` is not used, because rmcp 3.11 limits neither the number of sessions
//! (`LocalSessionManager`), nor the requests in flight, nor the memory of unread replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rmcp::model::RequestId;
use rmcp::service::serve_directly_with_ct;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::jobs::RequestKey;
use crate::ledger::{Presented, UserName};
use crate::shares::Held;
use crate::transport::{
    Announced, Connection, Era, Header, Outlet, Place, Posted, PostedRequest, Rejected, Terms,
    TurnDeadline, client_without_session, read,
};

use super::call::Server;
use super::handler::{Handler, request_key};
use super::sessions::{NotTaken, SessionCall, SessionId, Sessions};
use super::signature::Signed;

/// The time after which a response begins even if no message is ready. Proxies close connections that are silent for a
/// minute.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// The maximum time that a call of the handshake era waits for its turn, if the call has no session. The client cannot
/// cancel such a call, because later messages cannot refer to the call. SDKs give up after a minute.
const TURN_DEADLINE: Duration = Duration::from_secs(30);

/// The MCP endpoint of the server. It has one URL for all messages.
pub(crate) struct Endpoint {
    server: Arc<Server>,
    sessions: Sessions,
    /// `true` if handshakes begin no session. Any replica can then handle the next request of a client.
    is_sessionless: bool,
    turn_deadline: Duration,
    /// The number of exchanges without a session so far. The name of the next exchange contains this number.
    exchanges: AtomicU64,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// The body of a request, with the request's headers and the caller's credentials.
#[derive(Debug)]
pub(crate) struct Post {
    pub(crate) body: Vec<u8>,
    pub(crate) announced: Announced,
    /// The value of the header `Mcp-Session-Id`.
    pub(crate) session: Header,
    pub(crate) presented: Presented,
    /// The slots and the memory that the server has reserved for the request.
    pub(crate) held: Vec<Held>,
}

/// The answer to the body of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// One message. `session` is the id of the new session, if the message begins a session.
    Message { status: u16, json: Vec<u8>, session: Option<String>, until_written: UntilWritten },
    /// Several messages, sent as they become ready. The first message may already be ready.
    Stream(Stream),
    /// The message was accepted, and has no answer.
    Accepted,
    /// The user has no session with the id in the request.
    SessionUnknown,
    /// The request needs a session, but has no session id.
    SessionMissing,
    /// The server is shutting down, so the request has no answer.
    Ending,
}

/// The resources of a request. They are released when its answer is written.
#[derive(Debug, Default)]
pub(crate) struct UntilWritten {
    _place: Option<Place>,
    call: Option<Arc<SessionCall>>,
}

impl Drop for UntilWritten {
    fn drop(&mut self) {
        // Free the id of the request now, although the exchange may end a little later. The client may use the id again
        // as soon as it has the answer.
        let _ = self.call.as_deref().map(SessionCall::end);
    }
}

/// The messages of an exchange that has not ended.
#[derive(Debug)]
pub(crate) struct Stream {
    first: Option<Vec<u8>>,
    outlet: Outlet,
    has_ended: bool,
    call: Option<Arc<SessionCall>>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Free the id of the request only if the exchange has ended. Otherwise the client has disconnected, and can
        // still cancel the request.
        let _ = self.call.as_deref().filter(|_| self.has_ended).map(SessionCall::end);
    }
}

impl Stream {
    /// Returns the next message as JSON. `None` after the last message. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.has_ended {
            return None;
        }
        let message = self.outlet.next().await?;
        self.has_ended = message.is_last();
        Some(message.to_json())
    }
}

impl Endpoint {
    pub(crate) fn new(
        server: Arc<Server>,
        is_sessionless: bool,
        turn_deadline: Option<Duration>,
    ) -> Self {
        Self {
            server,
            sessions: Sessions::default(),
            is_sessionless,
            turn_deadline: turn_deadline.unwrap_or(TURN_DEADLINE),
            exchanges: AtomicU64::new(0),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    pub(crate) async fn post(&self, post: Post) -> Answer {
        match read(&post.body, &post.announced) {
            Ok(Posted::Request(request)) => self.request(*request, post).await,
            Ok(Posted::Cancelled(id)) => match self.session_of(&post) {
                Ok(session) => self.cancelled(&id, session),
                Err(answer) => answer,
            },
            Ok(Posted::Nothing) => self.session_of(&post).err().unwrap_or(Answer::Accepted),
            // Ignore a missing session id, because the rejected message may be an `initialize` request, which has no
            // session id.
            Err(rejected) => match self.session_of(&post) {
                Err(Answer::SessionUnknown) => Answer::SessionUnknown,
                _ => message_of(&rejected),
            },
        }
    }

    /// Returns the session of a message that is not a request; `None` if the message needs no session. Returns the
    /// answer if the caller has no such session.
    fn session_of(&self, post: &Post) -> Result<Option<SessionId>, Answer> {
        if self.is_sessionless || post.announced.is_stateless() {
            return Ok(None);
        }
        let Header::Once(session) = &post.session else { return Err(Answer::SessionMissing) };
        let found = self.sessions.find(session, post.presented.user());
        found.map(Some).ok_or(Answer::SessionUnknown)
    }

    /// Ends a session of `user`. Returns whether `user` had this session.
    pub(crate) fn end_session(&self, session: &str, user: Option<&UserName>) -> bool {
        self.sessions.end(session, user)
    }

    /// Cancels all exchanges that have not ended.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
    }

    /// Returns when all exchanges have ended.
    pub(crate) async fn wait(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn request(&self, request: PostedRequest, post: Post) -> Answer {
        let Post { session, presented, held, .. } = post;
        let user = presented.user().cloned();
        let cancel = CancellationToken::new();
        let is_opening = request.client.is_some();
        let has_session = request.era == Era::Handshake && !is_opening && !self.is_sessionless;
        let (connection, client, call) = if has_session {
            let session = match &session {
                Header::Once(session) => session,
                Header::Absent | Header::Unusable => return Answer::SessionMissing,
            };
            let taken = self.sessions.take(session, user.as_ref(), &request.id, cancel.clone());
            match taken {
                Ok((name, client, call)) => (Connection(name), Some(client), Some(Arc::new(call))),
                Err(NotTaken::Unknown) => return Answer::SessionUnknown,
                Err(NotTaken::Duplicate) => return message_of(&Rejected::duplicate(request.id)),
            }
        } else {
            let number = self.exchanges.fetch_add(1, Ordering::Relaxed);
            let is_later = request.era == Era::Handshake && !is_opening;
            let client = is_later.then(|| client_without_session(request.version.clone()));
            (Connection(format!("#{number}").into()), client, None)
        };
        let cannot_cancel = request.era == Era::Handshake && !has_session;
        let turn_deadline = cannot_cancel.then_some(TurnDeadline(self.turn_deadline));
        let (opening, era) = (request.client.clone(), request.era);
        // A subscription on this server never receives an event. After the acknowledgement, the subscription releases
        // the limited resources in `held`, and occupies only its connection.
        let mut held = held;
        let until_first =
            if request.is_subscription() { std::mem::take(&mut held) } else { Vec::new() };
        let terms = Terms { connection, presented, held, cancel, turn_deadline };
        let (exchange, outlet) = request.open(terms);
        let handler = Handler::new(Arc::clone(&self.server), self.stop.clone());
        let stop = self.stop.child_token();
        let until_end = call.clone();
        self.tasks.spawn(async move {
            let _until_end = until_end;
            let running = serve_directly_with_ct(Signed(handler), exchange, client, stop);
            if let Err(error) = running.waiting().await {
                tracing::error!(%error, "an exchange stopped unexpectedly");
            }
        });
        let opening = opening.filter(|_| !self.is_sessionless);
        let answer = self.answer(outlet, era, call, opening, user).await;
        drop(until_first);
        answer
    }

    /// Waits for the first message of an exchange. If the exchange has only this message, the message is the answer.
    /// Otherwise the answer is a stream.
    async fn answer(
        &self,
        mut outlet: Outlet,
        era: Era,
        call: Option<Arc<SessionCall>>,
        opening: Option<rmcp::model::ClientConfig>,
        user: Option<UserName>,
    ) -> Answer {
        let stream = |first, outlet, has_ended, call| {
            Answer::Stream(Stream { first, outlet, has_ended, call })
        };
        let Ok(first) = timeout(SILENCE_MAX, outlet.next()).await else {
            return stream(None, outlet, false, call);
        };
        let Some(message) = first else {
            // The exchange was cancelled before its first message, so no message follows.
            let is_ending = self.stop.is_cancelled();
            return if is_ending { Answer::Ending } else { stream(None, outlet, true, call) };
        };
        if !message.is_last() {
            return stream(Some(message.to_json()), outlet, false, call);
        }
        let session = opening.zip(message.agreed()).map(|(client, agreed)| {
            self.sessions.begin(&client, agreed.protocol_version.clone(), user).to_string()
        });
        Answer::Message {
            status: if era == Era::Stateless { message.status() } else { 200 },
            json: message.to_json(),
            session,
            until_written: UntilWritten { _place: Some(outlet.into_place()), call },
        }
    }

    /// Cancels a request of a session, and the job that the request has placed. Only the handshake era has the
    /// message `notifications/cancelled`. In the stateless era, a client closes the response to cancel its request.
    fn cancelled(&self, id: &RequestId, session: Option<SessionId>) -> Answer {
        if let Some(session) = session {
            self.sessions.cancel(&session, id);
            let key: RequestKey = request_key(Some(&Connection(session)), id);
            self.server.jobs.cancel_placed_by(&key);
        }
        Answer::Accepted
    }
}

fn message_of(rejected: &Rejected) -> Answer {
    Answer::Message {
        status: rejected.status,
        json: rejected.to_json(),
        session: None,
        until_written: UntilWritten::default(),
    }
}
