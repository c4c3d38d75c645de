//! Refusals of requests, before anything is done for them: a status and a sentence.

use hyper::header::{ALLOW, CONNECTION, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde_json::json;

use super::content::{Content, json_response};

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The name by which it was reached is none of this server's.
    Host,
    /// It is from a page that may not reach this server.
    Origin,
    /// The target is not a path.
    Target,
    /// There is no token.
    Unauthorized,
    /// The token is not a valid one.
    InvalidToken,
    /// The access token has none of this server's scopes.
    NoScope,
    /// The role of the token does not permit it.
    Forbidden,
    NotFound,
    /// What may be done with this path.
    Method(&'static str),
    /// The body is of another type than the one named.
    MediaType,
    /// The client takes no answer that this server gives.
    NotAcceptable,
    TooLarge,
    /// The body did not come in time, or broke off.
    Incomplete,
    /// The user has so many requests in flight, or a second, as the admin lets one user have. After how many
    /// seconds to try again.
    UserBound(u64),
    /// As many requests are in flight as can be.
    Full,
    /// There are as many connections as can be, of this user or of all.
    Connections,
    /// The server ends.
    Draining,
    /// The tokens cannot be looked up.
    Store,
    /// There is no such session, or no longer.
    SessionUnknown,
    SessionMissing,
    /// A body that is not what the path takes.
    Invalid,
}

impl Refusal {
    fn status(self) -> StatusCode {
        match self {
            Self::Host | Self::Origin | Self::NoScope | Self::Forbidden => StatusCode::FORBIDDEN,
            Self::Target | Self::Incomplete | Self::SessionMissing | Self::Invalid => {
                StatusCode::BAD_REQUEST
            }
            Self::Unauthorized | Self::InvalidToken => StatusCode::UNAUTHORIZED,
            Self::NotFound | Self::SessionUnknown => StatusCode::NOT_FOUND,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UserBound(_) | Self::Connections => StatusCode::TOO_MANY_REQUESTS,
            Self::Full | Self::Draining | Self::Store => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the sentence for the client, and for the log.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Host => "the Host header names no host of this server",
            Self::Origin => "the Origin header names no page that may reach this server",
            Self::Target => "the request has no Host header, several, or a target that is no path",
            Self::Unauthorized | Self::InvalidToken => {
                "a valid token is needed: Authorization: Bearer TOKEN"
            }
            Self::NoScope => "the access token has no scope qwed:viewer, qwed:user or qwed:admin",
            Self::Forbidden => "the role of this token does not permit it",
            Self::NotFound => "there is nothing here",
            Self::Method(_) => "this path does not take this method",
            Self::MediaType => "the Content-Type has to be application/json",
            Self::NotAcceptable => {
                "the Accept header has to name application/json and text/event-stream"
            }
            Self::TooLarge => "the body is longer than 4 MiB",
            Self::Incomplete => "the body did not come in time, or broke off",
            Self::UserBound(_) => "this user has as many requests as one user may have",
            Self::Full => "as many requests are in flight as can be; send this one again",
            Self::Connections => "there are as many connections as this user, or all, may have",
            Self::Draining => "the server ends; send this one again",
            Self::Store => "tokens cannot be looked up; ask the admin to look at the server's log",
            Self::SessionUnknown => "there is no such session; begin one with initialize",
            Self::SessionMissing => "the header Mcp-Session-Id is missing",
            Self::Invalid => "the body is not what this path takes",
        }
    }

    /// Returns whether an admin should hear of it: it is not what an honest client does.
    pub(super) fn is_suspect(self) -> bool {
        match self {
            Self::Host
            | Self::Origin
            | Self::Target
            | Self::Unauthorized
            | Self::InvalidToken
            | Self::NoScope
            | Self::Forbidden
            | Self::TooLarge
            | Self::Incomplete
            | Self::UserBound(_)
            | Self::Full
            | Self::Connections => true,
            Self::NotFound
            | Self::Method(_)
            | Self::MediaType
            | Self::NotAcceptable
            | Self::Draining
            | Self::Store
            | Self::SessionUnknown
            | Self::SessionMissing
            | Self::Invalid => false,
        }
    }

    /// Returns the response. Messages are answered with an error of JSON-RPC; pipelines take 429 for a sign
    /// to wait.
    pub(super) fn response(self, is_message: bool) -> Response<Content> {
        let text = self.text();
        let mut status = self.status();
        if !is_message && self == Self::Full {
            status = StatusCode::TOO_MANY_REQUESTS;
        }
        let body = if is_message {
            json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": text } })
        } else {
            json!({ "error": text })
        };
        let mut response = json_response(status, body.to_string().into_bytes(), ());
        let headers = response.headers_mut();
        match self {
            Self::Method(allowed) => {
                headers.insert(ALLOW, HeaderValue::from_static(allowed));
            }
            Self::UserBound(seconds) => {
                headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
            }
            Self::Full | Self::Store => {
                headers.insert(RETRY_AFTER, HeaderValue::from(1));
            }
            Self::Draining | Self::Connections => {
                headers.insert(RETRY_AFTER, HeaderValue::from(1));
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Self::TooLarge | Self::Incomplete | Self::Target => {
                // What follows on this connection may be the rest of this one.
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Self::Host
            | Self::Origin
            | Self::Unauthorized
            | Self::InvalidToken
            | Self::NoScope
            | Self::Forbidden
            | Self::NotFound
            | Self::MediaType
            | Self::NotAcceptable
            | Self::SessionUnknown
            | Self::SessionMissing
            | Self::Invalid => {}
        }
        response
    }
}
