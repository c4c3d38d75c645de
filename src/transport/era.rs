//! The two eras of MCP: the protocol versions with a handshake, and the later, stateless versions. Finds the era of a
//! request, and checks that the request's headers match its body. This module never changes a request.
//!
//! Over HTTP, headers repeat parts of the body (MCP 2026-07-28, `basic/transports`), so that proxies need not parse the
//! body. A request is refused if a header and the body differ, because a proxy and this server would interpret it
//! differently.

use std::borrow::Cow;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use rmcp::model::{ClientRequest, GetMeta as _, ProtocolVersion, RequestId};

use super::protocol_error::ProtocolError;

/// The era of the protocol that a request uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// A handshake comes before other requests (2024-11-05 to 2025-11-25).
    Handshake,
    /// Each request is complete, and needs no handshake (2026-07-28).
    Stateless,
}

/// The value of a header that a request may have at most once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Header {
    #[default]
    Absent,
    Once(String),
    /// The header is repeated, or its value is not text.
    Unusable,
}

impl Header {
    /// Returns the value of the header. `None` if the header is absent or unusable.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Once(text) => Some(text),
            Self::Absent | Self::Unusable => None,
        }
    }
}

/// The headers that repeat parts of the body.
#[derive(Debug, Clone, Default)]
pub(crate) struct Announced {
    /// The header `MCP-Protocol-Version`.
    pub(crate) version: Header,
    /// The header `Mcp-Method`.
    pub(crate) method: Header,
    /// The header `Mcp-Name`.
    pub(crate) name: Header,
}

/// The error for a header `MCP-Protocol-Version` without a single value.
const VERSION_UNUSABLE: &str = "the header MCP-Protocol-Version occurs twice, or is not text";

/// The prefix and the suffix that mark a header's value as base64.
const BASE64: (&str, &str) = ("=?base64?", "?=");

impl Announced {
    /// Returns whether the header `MCP-Protocol-Version` names the stateless era.
    pub(crate) fn is_stateless(&self) -> bool {
        let is_date = |text: &str| {
            text.len() == 10
                && text.char_indices().all(|(place, c)| match place {
                    4 | 7 => c == '-',
                    _ => c.is_ascii_digit(),
                })
        };
        let version = self.version.text().filter(|version| is_date(version));
        version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str())
    }

    /// Returns the era of a request. Fails if the headers do not match the body.
    pub(super) fn era(
        &self,
        id: &RequestId,
        request: &ClientRequest,
    ) -> Result<Era, ProtocolError> {
        let mismatch =
            |message: String| Err(ProtocolError::header_mismatch(Some(id.clone()), message));
        if self.version == Header::Unusable {
            return mismatch(VERSION_UNUSABLE.to_owned());
        }
        if let ClientRequest::InitializeRequest(_) = request {
            return match &self.method {
                Header::Absent => Ok(Era::Handshake),
                Header::Once(method) if method == "initialize" => Ok(Era::Handshake),
                Header::Once(_) | Header::Unusable => {
                    mismatch("the header Mcp-Method is not initialize".to_owned())
                }
            };
        }
        let meta = request.get_meta();
        let Some(version) = meta.protocol_version() else {
            let is_stateless =
                self.is_stateless() || matches!(request, ClientRequest::DiscoverRequest(_));
            if is_stateless {
                let missing = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28);
                return Err(ProtocolError::metadata_missing(id.clone(), &missing));
            }
            return self.require_known_version(Some(id)).map(|()| Era::Handshake);
        };
        match self.version.text() {
            None => return mismatch("the header MCP-Protocol-Version is missing".to_owned()),
            Some(announced) if announced != version.as_str() => {
                return mismatch(format!(
                    "the header MCP-Protocol-Version ({announced}) does not match _meta ({version})"
                ));
            }
            Some(_) => {}
        }
        if version < ProtocolVersion::V_2026_07_28 {
            return Ok(Era::Handshake);
        }
        match self.check_names(request) {
            Ok(()) => Ok(Era::Stateless),
            Err(message) => mismatch(message),
        }
    }

    /// Checks the version header of a message other than a request.
    pub(super) fn check_version(&self) -> Result<(), ProtocolError> {
        if self.version == Header::Unusable {
            return Err(ProtocolError::header_mismatch(None, VERSION_UNUSABLE.to_owned()));
        }
        if self.is_stateless() { Ok(()) } else { self.require_known_version(None) }
    }

    /// Checks the version header of a message in the handshake era. In this era, the header is optional. `id` is the id
    /// of a request.
    fn require_known_version(&self, id: Option<&RequestId>) -> Result<(), ProtocolError> {
        let known = ProtocolVersion::KNOWN_VERSIONS;
        match self.version.text() {
            Some(version) if !known.iter().any(|known| known.as_str() == version) => {
                let version: String = version.chars().take(40).collect();
                let message = format!("Invalid Request: unknown MCP-Protocol-Version: {version}");
                Err(ProtocolError::invalid_request(id.cloned(), message))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn check_names(&self, request: &ClientRequest) -> Result<(), String> {
        let method = request.method();
        match &self.method {
            Header::Once(announced) if announced == method => {}
            Header::Once(_) | Header::Unusable => {
                return Err(format!("the header Mcp-Method is not {method}"));
            }
            Header::Absent => return Err("the header Mcp-Method is missing".to_owned()),
        }
        let Some(name) = subject(request) else { return Ok(()) };
        match &self.name {
            Header::Once(announced) if decoded(announced).as_deref() == Some(name) => Ok(()),
            Header::Once(_) | Header::Unusable => {
                Err(format!("the header Mcp-Name does not match the body of {method}"))
            }
            Header::Absent => Err(format!("the header Mcp-Name of {method} is missing")),
        }
    }
}

/// Returns the parameter that the header `Mcp-Name` repeats. `None` if the method has no such parameter (SEP-2243,
/// SEP-2663).
fn subject(request: &ClientRequest) -> Option<&str> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "rmcp's, of which few name something")]
    match request {
        ClientRequest::CallToolRequest(call) => Some(&call.params.name),
        ClientRequest::GetPromptRequest(prompt) => Some(&prompt.params.name),
        ClientRequest::ReadResourceRequest(read) => Some(&read.params.uri),
        ClientRequest::GetTaskRequest(task) => Some(&task.params.task_id),
        ClientRequest::UpdateTaskRequest(task) => Some(&task.params.task_id),
        ClientRequest::CancelTaskRequest(task) => Some(&task.params.task_id),
        _ => None,
    }
}

/// Decodes a header's value. `None` if the value is marked as base64, but is not valid base64.
fn decoded(value: &str) -> Option<Cow<'_, str>> {
    let encoded = value.strip_prefix(BASE64.0).and_then(|value| value.strip_suffix(BASE64.1));
    let Some(encoded) = encoded else { return Some(value.into()) };
    let bytes = BASE64_STANDARD.decode(encoded.as_bytes()).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::message::parse;
    use rmcp::model::JsonRpcMessage;

    fn era(body: &str, version: &str, method: &str, name: &str) -> Result<Era, i32> {
        let header = |value: &str| match value {
            "" => Header::Absent,
            "two" => Header::Unusable,
            value => Header::Once(value.to_owned()),
        };
        let headers =
            Announced { version: header(version), method: header(method), name: header(name) };
        let Ok(Some(JsonRpcMessage::Request(message))) = parse(body.as_bytes()) else {
            panic!("{body}")
        };
        headers.era(&message.id, &message.request).map_err(|error| error.code())
    }

    #[test]
    fn the_headers_have_to_say_what_the_body_says() {
        const NEW: &str = "2026-07-28";
        let meta = |version: &str| {
            format!(
                r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}","io.modelcontextprotocol/clientCapabilities":{{}}}}"#
            )
        };
        let call = |meta: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x",{meta}}}}}"#
            )
        };
        let new = call(&meta(NEW));
        let old = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let discover = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#;
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
        for (body, version, method, name, expected) in [
            (new.as_str(), NEW, "tools/call", "x", Ok(Era::Stateless)),
            (&new, NEW, "tools/call", "=?base64?eA==?=", Ok(Era::Stateless)),
            (&new, NEW, "tools/call", "=?base64?e?=", Err(-32020)),
            (&new, NEW, "tools/call", "y", Err(-32020)),
            (&new, NEW, "tools/call", "", Err(-32020)),
            (&new, NEW, "tools/call", "two", Err(-32020)),
            (&new, NEW, "tools/list", "x", Err(-32020)),
            (&new, NEW, "two", "x", Err(-32020)),
            (&new, NEW, "", "x", Err(-32020)),
            (&new, "2025-11-25", "tools/call", "x", Err(-32020)),
            (&new, "", "tools/call", "x", Err(-32020)),
            (&new, "two", "tools/call", "x", Err(-32020)),
            (old, "", "", "", Ok(Era::Handshake)),
            (old, "2025-11-25", "", "", Ok(Era::Handshake)),
            (old, "1999-01-01", "", "", Err(-32600)),
            (old, NEW, "tools/list", "", Err(-32602)),
            (discover, "", "", "", Err(-32602)),
            (initialize, "", "", "", Ok(Era::Handshake)),
            (initialize, NEW, "initialize", "", Ok(Era::Handshake)),
            (initialize, "", "tools/list", "", Err(-32020)),
        ] {
            assert_eq!(
                era(body, version, method, name),
                expected,
                "{body} {version} {method} {name}"
            );
        }
    }
}
