//! Parses a line into a message, or into the error to reply with. This module never carries out a request.
//!
//! First reads the members of a message as raw JSON, without building their values. `tools/call` is the only message
//! that is both large and frequent. This module parses its parameters, because rmcp would try its 22 kinds of requests
//! in turn. rmcp parses all other messages. Their size is limited, because rmcp needs a hundred times as much memory as
//! the text.

use std::fmt;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
    ClientJsonRpcMessage, ClientRequest, Extensions, InitializedNotification, JsonObject,
    JsonRpcMessage, MetaObject, RequestId, RequestMetaObject,
};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Secret;
use crate::ledger::Presented;

use super::protocol_error::ProtocolError;

#[cfg(test)]
mod tests;

/// The maximum length of a message that is not a `tools/call`, in bytes.
const OTHER_MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// The maximum number of JSON values in the parameters of a call. This maximum is above the limit for one input. An
/// input with too many values is therefore refused with an error that names the input.
const CALL_VALUES_MAX: usize = 50_000;
/// The maximum number of JSON values in the `_meta` of a call. This maximum is lower, because the server stores `_meta`
/// until the call ends. It frees the arguments before the call waits for its turn.
const META_VALUES_MAX: usize = 1_000;
/// The maximum length of an id that is a string, in bytes.
const ID_BYTES_MAX: usize = 1024;
/// From this number on, one double can stand for several integers (RFC 8259, 6). An id like `2.0` is parsed as a
/// double. The id is refused if its absolute value is at least this number.
const INTEGER_EXACT_END: f64 = 9_007_199_254_740_992.0;

/// The methods that this server has, in at least one era. A request with another method is answered with "method not
/// found", even if its parameters are invalid.
const METHODS: [&str; 16] = [
    "initialize",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "server/discover",
    "skills/get",
    "skills/list",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/list",
    TOOL_CALL_METHOD,
];
/// The methods that return a list. Each list has only one page.
const LIST_METHODS: [&str; 5] =
    ["prompts/list", "resources/list", "resources/templates/list", "skills/list", "tools/list"];
const TOOL_CALL_METHOD: &str = "tools/call";

/// The key in a call's `_meta` for a token.
const AUTH_KEY: &str = "qwed.ai/auth";

/// The members of a message, which are not parsed yet.
#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// The name of a member that occurs more than once.
    repeated: Option<&'static str>,
}

impl<'de> Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Envelope<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut envelope = Envelope::default();
                while let Some(name) = map.next_key::<String>()? {
                    let (name, member) = match &*name {
                        "jsonrpc" => ("jsonrpc", &mut envelope.jsonrpc),
                        "id" => ("id", &mut envelope.id),
                        "method" => ("method", &mut envelope.method),
                        "params" => ("params", &mut envelope.params),
                        "result" => ("result", &mut envelope.result),
                        "error" => ("error", &mut envelope.error),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    if member.replace(map.next_value()?).is_some() {
                        envelope.repeated = Some(name);
                    }
                }
                Ok(envelope)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

impl Envelope<'_> {
    /// Returns whether the message is a notification or a response. Such a message is never answered, even if it is
    /// invalid (JSON-RPC 2.0, 4.1). The id of a response is null if the client could not read a message.
    fn is_never_answered(&self) -> bool {
        match self.method {
            // A message with a method that is not a string is an invalid request (JSON-RPC 2.0, 7).
            Some(method) => self.id.is_none() && method.get().starts_with('"'),
            None => self.result.is_some() || self.error.is_some(),
        }
    }
}

/// The parameters of `tools/call` that this server uses, which are not parsed yet.
#[derive(Default, Deserialize)]
struct CallParams<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta", default, deserialize_with = "present")]
    meta: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    auth: Option<&'a RawValue>,
}

/// Reads a member that is present, even if it is `null`. A missing member is `None`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Parses a line. Returns `None` if the line requires no action: a blank line, an unknown notification, or a response
/// (this server sends no requests).
pub(super) fn parse(line: &[u8]) -> Result<Option<ClientJsonRpcMessage>, ProtocolError> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(line).map_err(ProtocolError::parse)?;
    let envelope = envelope(text)?;
    if envelope.is_never_answered() {
        let method = envelope.method.filter(|_| envelope.repeated.is_none()).and_then(string);
        return Ok(method.and_then(|method| notification(&method, envelope.params)));
    }
    if let Some(name) = envelope.repeated {
        let message = format!("Invalid Request: '{name}' occurs twice");
        return Err(ProtocolError::invalid_request(None, message));
    }
    let id = match envelope.id {
        None => None,
        Some(raw) => Some(request_id(raw).ok_or_else(|| {
            let message = "Invalid Request: 'id' must be a string or an integer";
            ProtocolError::invalid_request(None, message)
        })?),
    };
    let method = envelope.method.map(string);
    let invalid = |message: &'static str| ProtocolError::invalid_request(id.clone(), message);
    if envelope.jsonrpc.and_then(string).as_deref() != Some("2.0") {
        return Err(invalid("Invalid Request: 'jsonrpc' must be \"2.0\""));
    }
    let Some(method) = method else {
        return Err(invalid("Invalid Request: 'method' is missing"));
    };
    let (Some(method), Some(id)) = (method, id.clone()) else {
        return Err(invalid("Invalid Request: 'method' must be a string"));
    };
    if method != TOOL_CALL_METHOD && text.len() > OTHER_MESSAGE_BYTES_MAX {
        let message = format!(
            "Invalid Request: a message other than tools/call has at most \
             {OTHER_MESSAGE_BYTES_MAX} bytes"
        );
        return Err(ProtocolError::invalid_request(Some(id), message));
    }
    match method.as_str() {
        TOOL_CALL_METHOD => tool_call(id, envelope.params),
        method if METHODS.contains(&method) => request(id, method, envelope.params),
        method => Err(ProtocolError::method_not_found(id, method)),
    }
}

/// Parses the members of a message.
fn envelope(text: &str) -> Result<Envelope<'_>, ProtocolError> {
    if !text.starts_with('{') {
        return match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) if text.starts_with('[') => Err(ProtocolError::invalid_request(
                None,
                "Invalid Request: batches are not supported, send one message a line",
            )),
            Ok(_) => Err(ProtocolError::invalid_request(
                None,
                "Invalid Request: a message is a JSON object",
            )),
            Err(error) => Err(ProtocolError::parse(error)),
        };
    }
    serde_json::from_str(text).map_err(ProtocolError::parse)
}

fn string(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

fn request_id(raw: &RawValue) -> Option<RequestId> {
    match serde_json::from_str(raw.get()).ok()? {
        Value::String(id) if id.len() <= ID_BYTES_MAX => Some(RequestId::String(id.into())),
        // Parse the double from the text of the id, because serde_json does not always round to the nearest double.
        Value::Number(id) => {
            id.as_i64().or_else(|| exact_integer(raw.get().parse().ok()?)).map(RequestId::Number)
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    }
}

/// Converts a number like `2.0` to an integer. `None` if the number is not an integer, or is so large that the double
/// can stand for several integers.
fn exact_integer(number: f64) -> Option<i64> {
    if number.fract() != 0.0 || number.abs() >= INTEGER_EXACT_END {
        return None;
    }
    format!("{number:.0}").parse().ok()
}

/// Parses the two notifications that this server uses. Ignores all other notifications, and members that it does not
/// use, such as a `reason` of any length.
fn notification(method: &str, params: Option<&RawValue>) -> Option<ClientJsonRpcMessage> {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(borrow, rename = "requestId")]
        request_id: &'a RawValue,
    }
    match method {
        "notifications/initialized" => {
            Some(JsonRpcMessage::notification(InitializedNotification::default().into()))
        }
        "notifications/cancelled" => {
            let params: Cancelled<'_> = serde_json::from_str(params?.get()).ok()?;
            let id = request_id(params.request_id)?;
            let params = CancelledNotificationParam::new(Some(id), None);
            Some(JsonRpcMessage::notification(CancelledNotification::new(params).into()))
        }
        _ => None,
    }
}

/// Parses a request other than `tools/call`, with rmcp. If the parameters of a known method are invalid, rmcp creates a
/// `CustomRequest`, and the handler replies with an error.
fn request(
    id: RequestId,
    method: &str,
    params: Option<&RawValue>,
) -> Result<Option<ClientJsonRpcMessage>, ProtocolError> {
    #[derive(Deserialize)]
    struct Page<'a> {
        #[serde(borrow)]
        cursor: Option<&'a RawValue>,
    }
    if params.is_some_and(|params| !params.get().starts_with('{')) {
        return Err(ProtocolError::invalid_params(id, "'params' must be an object"));
    }
    let has_cursor = |params: &RawValue| {
        serde_json::from_str::<Page<'_>>(params.get()).is_ok_and(|page| page.cursor.is_some())
    };
    if LIST_METHODS.contains(&method) && params.is_some_and(has_cursor) {
        let message = "Invalid cursor: the list has one page only";
        return Err(ProtocolError::invalid_params(id, message));
    }
    let params = params.map_or("{}", RawValue::get);
    // Pass only the method and the parameters to rmcp, so that it does not read other members of the message.
    let request = format!(r#"{{"method":"{method}","params":{params}}}"#);
    match serde_json::from_str(&request) {
        Ok(request) => Ok(Some(JsonRpcMessage::request(request, id))),
        Err(_) => Err(ProtocolError::invalid_params(id, format!("Invalid params for {method}"))),
    }
}

fn tool_call(
    id: RequestId,
    params: Option<&RawValue>,
) -> Result<Option<ClientJsonRpcMessage>, ProtocolError> {
    let raw = params.map_or("{}", RawValue::get);
    if !raw.starts_with('{') {
        return Err(ProtocolError::invalid_params(id, "'params' must be an object"));
    }
    let params: CallParams<'_> = match serde_json::from_str(raw) {
        Ok(params) => params,
        Err(error) => return Err(ProtocolError::invalid_params(id, error.to_string())),
    };
    if has_more_values_than(raw, CALL_VALUES_MAX) {
        let message = format!(
            "the parameters have more than {CALL_VALUES_MAX} values; pass large JSON as a text"
        );
        return Err(ProtocolError::invalid_params(id, message));
    }
    if params.meta.is_some_and(|meta| has_more_values_than(meta.get(), META_VALUES_MAX)) {
        let message = format!("'_meta' has more than {META_VALUES_MAX} values");
        return Err(ProtocolError::invalid_params(id, message));
    }
    let Some(name) = params.name.and_then(string) else {
        return Err(ProtocolError::invalid_params(id, "tools/call needs a string 'name'"));
    };
    let members = object("arguments", params.arguments)
        .and_then(|arguments| Ok((arguments, object("_meta", params.meta)?)));
    let (arguments, mut meta) = match members {
        Ok(members) => members,
        Err(message) => return Err(ProtocolError::invalid_params(id, message)),
    };

    let mut call = CallToolRequestParams::new(name);
    call.arguments = arguments;
    let mut extensions = Extensions::new();
    if let Some(token) = presented_token(params.auth, meta.as_mut()) {
        extensions.insert(Presented { token: Some(token), known: None });
    }
    if let Some(meta) = meta {
        extensions.insert(RequestMetaObject(MetaObject(meta)));
    }
    let mut request = CallToolRequest::new(call);
    request.extensions = extensions;
    Ok(Some(JsonRpcMessage::request(ClientRequest::CallToolRequest(request), id)))
}

/// Returns the token of a call: `params.auth.token`, or else `_meta["qwed.ai/auth"].token`. The second form is for
/// clients that cannot add a member to the parameters. If one of these members is present without a valid token,
/// returns the empty token, which no user has. Such a call must not count as a call without a token.
///
/// The token is removed from `_meta`, because other code may log `_meta`.
fn presented_token(auth: Option<&RawValue>, meta: Option<&mut JsonObject>) -> Option<Secret> {
    let token_in = |auth: Value| match auth {
        Value::Null => None,
        Value::Object(mut members) => Some(members.remove("token").unwrap_or_default()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Some(Value::Null),
    };
    let in_meta = meta.and_then(|meta| meta.remove(AUTH_KEY)).and_then(token_in);
    let in_params = auth.and_then(|raw| {
        // A member that cannot be parsed counts as present without a token.
        serde_json::from_str(raw.get()).map_or(Some(Value::Null), token_in)
    });
    in_params.or(in_meta).map(|token| match token {
        Value::String(text) => Secret::from(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Secret::from(String::new())
        }
    })
}

/// Returns the object in the member `name`. `None` if the member is missing or `null`, which some clients send instead
/// of omitting it.
fn object(name: &str, raw: Option<&RawValue>) -> Result<Option<JsonObject>, String> {
    match raw.map(RawValue::get) {
        None | Some("null") => Ok(None),
        Some(json) if json.starts_with('{') => serde_json::from_str(json)
            .map(Some)
            .map_err(|error| format!("'{name}' cannot be read: {error}")),
        Some(_) => Err(format!("'{name}' must be an object")),
    }
}

/// Returns whether valid JSON has more than `values_max` values in objects and arrays. Counts commas and opening
/// brackets outside of strings. Callers limit the number, because a value takes up to a hundred times as much memory as
/// its text.
fn has_more_values_than(json: &str, values_max: usize) -> bool {
    if json.len() <= values_max {
        return false;
    }
    let (mut values, mut is_string) = (0, false);
    // The search for quotes is several times as fast as a loop over the bytes.
    for part in json.split('"') {
        is_string = if is_string {
            // The quote after this part ends the string, unless it is escaped.
            part.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
        } else {
            values += part.bytes().filter(|byte| b",[{".contains(byte)).count();
            true
        };
    }
    values > values_max
}
