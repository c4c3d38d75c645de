//! Converts HTTP requests with MCP messages to the input of the MCP endpoint, and converts the endpoint's replies to
//! HTTP responses.

use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use crate::server::{Answer, Post};
use crate::shares::Held;
use crate::transport::{Announced, Header};

use super::callers::Known;
use super::content::{Content, empty_response, event_response, json_response};
use super::refusal::Refusal;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Checks that the request's body is JSON, and that the client accepts JSON and server-sent events.
pub(super) fn check_types(headers: &HeaderMap) -> Result<(), Refusal> {
    let essence = |value: &str| value.split(';').next().unwrap_or_default().trim().to_lowercase();
    let is_json = match headers.get(CONTENT_TYPE).map(HeaderValue::to_str) {
        Some(Ok(value)) => essence(value) == "application/json",
        Some(Err(_)) | None => false,
    };
    if !is_json {
        return Err(Refusal::MediaType);
    }
    let accepted: Vec<String> = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(essence)
        .collect();
    let takes = |wanted: &str, group: &str| {
        accepted.iter().any(|it| [wanted, group, "*/*"].contains(&it.as_str()))
    };
    let takes_both =
        takes("application/json", "application/*") && takes("text/event-stream", "text/*");
    // A client without an `Accept` header accepts every media type.
    if accepted.is_empty() || takes_both { Ok(()) } else { Err(Refusal::NotAcceptable) }
}

/// Creates the input of the MCP endpoint from the body of a request and the values of the request's headers.
pub(super) fn post(headers: &HeaderMap, body: Vec<u8>, known: Known, held: Vec<Held>) -> Post {
    let Known { presented, place } = known;
    Post {
        body,
        announced: Announced {
            version: header(headers, &VERSION),
            method: header(headers, &METHOD),
            name: header(headers, &NAME),
        },
        session: header(headers, &SESSION),
        presented,
        held: held.into_iter().chain([place]).collect(),
    }
}

/// Returns the value of a header that may occur at most once. A header that is repeated or not text is
/// `Header::Unusable`.
pub(super) fn header(headers: &HeaderMap, name: &HeaderName) -> Header {
    let mut values = headers.get_all(name).iter();
    match (values.next().map(HeaderValue::to_str), values.next()) {
        (None, _) => Header::Absent,
        (Some(Ok(text)), None) => Header::Once(text.to_owned()),
        (Some(_), _) => Header::Unusable,
    }
}

/// Converts a reply of the endpoint to an HTTP response.
pub(super) fn response(answer: Answer) -> Result<Response<Content>, Refusal> {
    Ok(match answer {
        Answer::Message { status, json, session, until_written } => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut response = json_response(status, json, until_written);
            let session = session.and_then(|session| HeaderValue::from_str(&session).ok());
            if let Some(session) = session {
                response.headers_mut().insert(SESSION, session);
            }
            response
        }
        Answer::Stream(messages) => event_response(messages),
        Answer::Accepted => empty_response(StatusCode::ACCEPTED),
        Answer::SessionUnknown => return Err(Refusal::SessionUnknown),
        Answer::SessionMissing => return Err(Refusal::SessionMissing),
        Answer::Ending => return Err(Refusal::Draining),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_sends_json_and_takes_both_forms_of_an_answer() {
        let both = "application/json, text/event-stream";
        for (sent, taken, expected) in [
            ("application/json", both, Ok(())),
            ("application/json; charset=utf-8", "text/event-stream;q=1,application/json", Ok(())),
            ("application/json", "*/*", Ok(())),
            ("application/json", "", Ok(())),
            ("application/json", "application/json", Err(Refusal::NotAcceptable)),
            ("application/json", "text/event-stream", Err(Refusal::NotAcceptable)),
            ("text/plain", both, Err(Refusal::MediaType)),
            ("", both, Err(Refusal::MediaType)),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [(CONTENT_TYPE, sent), (ACCEPT, taken)] {
                if !value.is_empty() {
                    headers.insert(name, HeaderValue::from_static(value));
                }
            }
            assert_eq!(check_types(&headers), expected, "{sent} {taken}");
        }
    }
}
