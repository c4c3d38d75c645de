//! The errors with which the transport itself replies, before rmcp receives a request. This module never creates the
//! errors of handlers.

use std::borrow::Cow;

use rmcp::ErrorData;
use rmcp::model::{ErrorCode, JsonRpcVersion2_0, RequestId};
use serde::Serialize;

/// The maximum number of characters of an unknown method's name in an error message.
pub(super) const METHOD_CHARS_SHOWN: usize = 100;

const METADATA_MISSING: &str = "request _meta is missing or has malformed required fields";

/// An error reply to a message that is not passed to rmcp.
#[derive(Debug, Serialize)]
pub(super) struct ProtocolError {
    jsonrpc: JsonRpcVersion2_0,
    /// The id of the request. `None` if the id could not be read. `None` is serialized as `null`, whereas rmcp's own
    /// errors omit an unknown id.
    id: Option<RequestId>,
    error: ErrorData,
}

impl ProtocolError {
    pub(super) const METHOD_NOT_FOUND: i32 = ErrorCode::METHOD_NOT_FOUND.0;
    pub(super) const INVALID_PARAMS: i32 = ErrorCode::INVALID_PARAMS.0;

    fn new(id: Option<RequestId>, code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { jsonrpc: JsonRpcVersion2_0, id, error: ErrorData::new(code, message, None) }
    }

    pub(super) fn invalid_request(
        id: Option<RequestId>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(id, ErrorCode::INVALID_REQUEST, message)
    }

    pub(super) fn invalid_params(id: RequestId, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Some(id), ErrorCode::INVALID_PARAMS, message)
    }

    /// Creates the error for a method that does not exist, or does not exist in the era of the request.
    pub(super) fn method_not_found(id: RequestId, method: &str) -> Self {
        let shown: String = method.chars().take(METHOD_CHARS_SHOWN).collect();
        Self::new(Some(id), ErrorCode::METHOD_NOT_FOUND, format!("Method not found: {shown}"))
    }

    /// Creates the error for a request of the stateless era that lacks required keys in its `_meta`.
    pub(super) fn metadata_missing(id: RequestId, keys: &[&str]) -> Self {
        let keys = keys.join(", ");
        let message = format!("{METADATA_MISSING}: {keys}");
        Self::invalid_params(id, message)
    }

    /// Returns whether this is the error for missing keys of `_meta`.
    pub(super) fn is_about_metadata(&self) -> bool {
        self.error.message.starts_with(METADATA_MISSING)
    }

    /// Creates the error for headers that do not match the body.
    pub(super) fn header_mismatch(id: Option<RequestId>, message: String) -> Self {
        Self::new(id, ErrorCode::HEADER_MISMATCH, message)
    }

    pub(super) fn parse(reason: impl std::fmt::Display) -> Self {
        Self::new(None, ErrorCode::PARSE_ERROR, format!("Parse error: {reason}"))
    }

    /// Creates the error for a request that exceeds a limit on requests in flight.
    pub(super) fn busy(id: RequestId, message: String) -> Self {
        Self::new(Some(id), ErrorCode::INTERNAL_ERROR, message)
    }

    pub(super) fn code(&self) -> i32 {
        self.error.code.0
    }
}
