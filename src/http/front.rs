//! Handles every request from its target to its response. The order of the checks is fixed: target, Host and Origin,
//! caller, limits, route.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::{ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, ORIGIN, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::ledger::Permission;
use crate::server::Endpoint;

use super::callers::{Callers, Known};
use super::complaints::Complaints;
use super::content::{Content, empty_response, json_response};
use super::hosts::Hosts;
use super::messages;
use super::prometheus;
use super::refusal::Refusal;
use super::room::{Room, Seat};
use super::scripts::Scripts;

/// The delay before the response to a request that exceeds its user's share. Without the delay, a client that retries
/// at once would keep the processors busy with refusals.
const REFUSAL_DELAY: Duration = Duration::from_millis(100);
/// The maximum number of refused connections with a delayed response. Further refused connections get their response at
/// once. Refused requests need no such limit, because the number of connections of each user is limited.
pub(super) const HELD_BACK_MAX: usize = 64;

/// The handler of the requests of clients.
pub(super) struct Front {
    pub(super) endpoint: Endpoint,
    pub(super) hosts: Hosts,
    pub(super) callers: Callers,
    pub(super) room: Arc<Room>,
    pub(super) scripts: Scripts,
    pub(super) complaints: Complaints,
    pub(super) held_back: Semaphore,
    /// Cancelled when the server stops taking requests.
    pub(super) draining: CancellationToken,
    /// Cancelled when the requests that are still in flight must be refused.
    pub(super) ending: CancellationToken,
}

/// The purpose of a request, which its path determines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// The request contains an MCP message.
    Messages,
    /// The request contains one script.
    Run,
    /// The request contains a batch of scripts, one on each line.
    Batch,
    /// The request contains one script in the format of `SandboxFusion`.
    RunCode,
}

impl Route {
    const ALL: [Self; 4] = [Self::Messages, Self::Run, Self::Batch, Self::RunCode];

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Messages => "/mcp",
            Self::Run => "/run",
            Self::Batch => "/batch",
            Self::RunCode => "/run_code",
        }
    }

    fn of(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|route| route.path() == path)
    }
}

/// Returns whether the request is a CORS preflight. A preflight carries no token, and `Hosts` has already checked its
/// origin.
fn is_preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS
        && parts.headers.contains_key(ORIGIN)
        && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

impl Front {
    /// Handles a request. Refuses the request if the server ends before the response is ready.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        seat: &Seat,
    ) -> Response<Content> {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let route = Route::of(parts.uri.path());
        let responded = self.respond(route, &parts, body, seat);
        let responded = self.ending.run_until_cancelled(responded).await;
        let mut response = match responded.unwrap_or(Err(Refusal::Draining)) {
            Ok(response) => response,
            Err(refusal) => {
                if refusal.is_suspect() {
                    self.complaints.note(refusal.text());
                }
                self.delay(refusal).await;
                let is_message = route.is_none_or(|route| route == Route::Messages);
                let mut response = refusal.response(is_message);
                if let Some(challenge) = self.callers.challenge(refusal) {
                    response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
                }
                response
            }
        };
        self.hosts.allow_page(&parts.headers, response.headers_mut());
        let path = route.map_or("other", Route::path);
        prometheus::answered(path, response.status().as_u16(), started.elapsed());
        response
    }

    async fn respond(
        &self,
        route: Option<Route>,
        parts: &Parts,
        body: Incoming,
        seat: &Seat,
    ) -> Result<Response<Content>, Refusal> {
        // An absolute target, which clients send to proxies, contains a host that may differ from the Host header.
        if parts.uri.authority().is_some() {
            return Err(Refusal::Target);
        }
        self.hosts.check(&parts.headers)?;
        if is_preflight(parts) {
            let mut response = empty_response(StatusCode::NO_CONTENT);
            Hosts::answer_preflight(response.headers_mut());
            return Ok(response);
        }
        if let Some(metadata) = self.callers.metadata(parts.uri.path()) {
            if parts.method != Method::GET {
                return Err(Refusal::Method("GET"));
            }
            return Ok(json_response(StatusCode::OK, metadata.to_string().into_bytes(), ()));
        }
        if self.draining.is_cancelled() {
            return Err(Refusal::Draining);
        }
        seat.ask();
        let known = self.callers.identify(&parts.headers).await;
        let mut known = known.inspect_err(|_| seat.stay())?;
        seat.take(&self.room, known.user())?;
        known.place = self.room.begin(known.user())?;
        self.callers.count(known.user())?;
        let route = route.ok_or(Refusal::NotFound)?;
        match (route, &parts.method) {
            (Route::Messages, &Method::POST) => self.message(&parts.headers, body, known).await,
            (Route::Messages, &Method::DELETE) => self.end_session(&parts.headers, &known),
            // GET would open a stream for messages outside of requests. The server never sends such messages.
            (Route::Messages, _) => Err(Refusal::Method("POST, DELETE")),
            (Route::Run | Route::Batch | Route::RunCode, &Method::POST) => {
                if !known.has_permission(Permission::OrchestrationRun) {
                    return Err(Refusal::Forbidden);
                }
                match route {
                    Route::Batch => self.scripts.batch(body, &self.room, known),
                    Route::RunCode => self.scripts.run_code(body, &self.room, known).await,
                    Route::Run | Route::Messages => self.scripts.run(body, &self.room, known).await,
                }
            }
            (Route::Run | Route::Batch | Route::RunCode, _) => Err(Refusal::Method("POST")),
        }
    }

    /// Delays the response to a request or connection that exceeds its user's share.
    async fn delay(&self, refusal: Refusal) {
        let _place = if refusal == Refusal::Connections {
            // A refused connection does not count towards the connections of its user, so the delay of its refusal
            // needs a limit of its own.
            let Ok(place) = self.held_back.try_acquire() else { return };
            Some(place)
        } else if matches!(refusal, Refusal::UserBound(_)) {
            None
        } else {
            return;
        };
        self.ending.run_until_cancelled(sleep(REFUSAL_DELAY)).await;
    }

    async fn message(
        &self,
        headers: &HeaderMap,
        body: Incoming,
        known: Known,
    ) -> Result<Response<Content>, Refusal> {
        messages::check_types(headers)?;
        let (body, held) = self.room.read(body, known.user()).await?;
        let answer = self.endpoint.post(messages::post(headers, body, known, held)).await;
        messages::response(answer)
    }

    fn end_session(
        &self,
        headers: &HeaderMap,
        known: &Known,
    ) -> Result<Response<Content>, Refusal> {
        let session = messages::header(headers, &messages::SESSION);
        let session = session.text().ok_or(Refusal::SessionMissing)?;
        if !self.endpoint.end_session(session, known.user()) {
            return Err(Refusal::SessionUnknown);
        }
        Ok(empty_response(StatusCode::NO_CONTENT))
    }
}
