//! Refusals of HTTP requests, before the server does any work for them. A refusal has an HTTP status and a sentence.

use hyper::header::{ALLOW, CONNECTION, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde_json::json;

use super::content::{Content, json_response};

/// The reason for the refusal of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The Host header is not a name of this server.
    Host,
    /// The Origin header is the origin of a web page that is not allowed to access this server.
    Origin,
    /// The target is not a path, or the Host header is missing or repeated.
    Target,
    /// The request has no token.
    Unauthorized,
    InvalidToken,
    /// The access token has none of this server's scopes.
    NoScope,
    /// The role of the caller does not permit the request.
    Forbidden,
    NotFound,
    /// The path does not support the method. The value lists the supported methods.
    Method(&'static str),
    /// The body is not JSON.
    MediaType,
    /// The client does not accept the media types that the server responds with.
    NotAcceptable,
    TooLarge,
    /// The body of a request with one script is too large.
    ScriptTooLarge,
    /// The body did not arrive in time, or the connection ended before the end of the body.
    Incomplete,
    /// The user has reached the maximum number of requests in flight or the maximum rate. The client should retry after
    /// this time in seconds.
    UserBound(u64),
    /// The maximum number of requests in flight of all users together is reached.
    Full,
    /// The maximum number of connections is reached, either of this user or of all users together.
    Connections,
    /// The server is shutting down.
    Draining,
    /// The token cannot be checked, because the store or the keys of the issuer are unavailable.
    Store,
    /// The session does not exist, or has ended.
    SessionUnknown,
    SessionMissing,
    /// The body is not valid for this path.
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
            Self::TooLarge | Self::ScriptTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UserBound(_) | Self::Connections => StatusCode::TOO_MANY_REQUESTS,
            Self::Full | Self::Draining | Self::Store => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the sentence for the client and for the log.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Host => "the Host header is not a name of this server",
            Self::Origin => "the Origin header is not allowed",
            Self::Target => "the request must have one Host header, and a path as its target",
            Self::Unauthorized | Self::InvalidToken => {
                "a valid token is needed: Authorization: Bearer TOKEN"
            }
            Self::NoScope => "the access token has no scope qwed:viewer, qwed:user or qwed:admin",
            Self::Forbidden => "the role of this token does not permit this",
            Self::NotFound => "this path does not exist",
            Self::Method(_) => "this path does not support this method",
            Self::MediaType => "the Content-Type must be application/json",
            Self::NotAcceptable => {
                "the Accept header must list application/json and text/event-stream"
            }
            Self::TooLarge => "the body is longer than 4 MiB",
            Self::ScriptTooLarge => {
                "the body is longer than 96 MiB, or longer than 4 MiB without a Content-Length"
            }
            Self::Incomplete => "the body did not arrive in time, or is incomplete",
            Self::UserBound(_) => "this user has reached the limit of requests",
            Self::Full => "too many requests are in flight; send this one again later",
            Self::Connections => {
                "the limit of connections is reached, for this user or for all users"
            }
            Self::Draining => "the server is shutting down; send this one again",
            Self::Store => "tokens cannot be checked; ask the admin to look at the server's log",
            Self::SessionUnknown => "the session is unknown; start one with initialize",
            Self::SessionMissing => "the header Mcp-Session-Id is missing",
            Self::Invalid => "the body is not valid for this path",
        }
    }

    /// Returns whether to log the refusal for the admin. Refusals that may be signs of an attack, a wrong configuration
    /// or an overload are logged.
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
            | Self::ScriptTooLarge
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

    /// Returns the HTTP response for the refusal. If `is_message` is `true`, the request was an MCP message, and the
    /// response contains a JSON-RPC error. Otherwise the client is a pipeline (a program without MCP). If the server is
    /// full, a pipeline receives status 429 instead of 503, because pipelines treat 429 as a request to wait.
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
            Self::TooLarge | Self::ScriptTooLarge | Self::Incomplete | Self::Target => {
                // Close the connection, because its next bytes may be the unread rest of the body.
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
