use rmcp::model::ClientNotification;

use super::super::protocol_error::METHOD_CHARS_SHOWN;
use super::*;

/// Parses a line, and returns a summary of the result.
fn outcome(line: &str) -> String {
    match parse(line.as_bytes()) {
        Ok(None) => "ignored".to_owned(),
        Ok(Some(message)) => match message {
            JsonRpcMessage::Request(request) => {
                format!("{} {}", request.id, request.request.method())
            }
            JsonRpcMessage::Notification(message) => {
                if let ClientNotification::CancelledNotification(cancelled) = message.notification {
                    return format!("cancels {}", cancelled.params.request_id.unwrap());
                }
                "notification".to_owned()
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => "response".to_owned(),
        },
        Err(error) => {
            let error = serde_json::to_value(&error).unwrap();
            format!("{} id {}", error["error"]["code"], error["id"])
        }
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_kind_of_line_has_its_answer() {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"#;
    let nest = format!(
        "{call}{{\"name\":\"x\",\"arguments\":{{\"a\":{}{}}}}}}}",
        "[".repeat(9_000),
        "]".repeat(9_000)
    );
    let values = format!(
        "{call}{{\"name\":\"x\",\"arguments\":{{\"a\":[{}1]}}}}}}",
        "1,".repeat(CALL_VALUES_MAX)
    );
    let commas = format!(
        "{call}{{\"name\":\"x\",\"arguments\":{{\"a\":\"{}\"}}}}}}",
        ",".repeat(CALL_VALUES_MAX)
    );
    let large = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","x":"{}"}}"#,
        "x".repeat(OTHER_MESSAGE_BYTES_MAX)
    );
    let long_id =
        format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(ID_BYTES_MAX + 1));
    let long_notification = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/x","x":"{}"}}"#,
        "x".repeat(OTHER_MESSAGE_BYTES_MAX)
    );
    let long_reason = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"reason":"{}","requestId":7}}}}"#,
        "x".repeat(OTHER_MESSAGE_BYTES_MAX)
    );
    let deep_member = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","x":{}{}}}"#,
        "[".repeat(9_000),
        "]".repeat(9_000)
    );
    let params = |params: &str| format!("{call}{params}}}");
    for (line, expected) in [
        ("", "ignored"),
        ("  \r", "ignored"),
        ("x", "-32700 id null"),
        ("{", "-32700 id null"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}x"#, "-32700 id null"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#, "-32600 id 1"),
        (nest.as_str(), "-32602 id 1"),
        (&params(r#"{"name":"x","arguments":{"a":"\ud800"}}"#), "-32602 id 1"),
        ("[]", "-32600 id null"),
        ("[1", "-32700 id null"),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "-32600 id null"),
        ("1", "-32600 id null"),
        ("null", "-32600 id null"),
        ("\"x\"", "-32600 id null"),
        ("{}", "-32600 id null"),
        (r#"{"id":1,"method":"ping"}"#, "-32600 id 1"),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, "-32600 id 1"),
        (r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, "-32600 id 1"),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "-32600 id null"),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "-32600 id null"),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, "-32600 id null"),
        (r#"{"jsonrpc":"2.0","id":[],"method":"ping"}"#, "-32600 id null"),
        (r#"{"jsonrpc":"2.0","id":9223372036854775808,"method":"ping"}"#, "-32600 id null"),
        (long_id.as_str(), "-32600 id null"),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, "-32600 id null"),
        (r#"{"jsonrpc":"2.0","id":1}"#, "-32600 id 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, "-32600 id 1"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "ignored"),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#, "ignored"),
        (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":""}}"#, "ignored"),
        (r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#, "ignored"),
        (r#"{"jsonrpc":"2.0","method":"notifications/x","params":{},"params":{}}"#, "ignored"),
        (r#"{"jsonrpc":"2.0","method":"notifications/x","method":"notifications/x"}"#, "ignored"),
        (r#"{"jsonrpc":"2.0","method":"notifications/\ud800"}"#, "ignored"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#, "ignored"),
        (r#"{"jsonrpc":"2.0","id":1,"id":1,"error":{},"error":{}}"#, "ignored"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}"#, "-32600 id null"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "1 ping"),
        (r#"{"jsonrpc":"2.0","id":2.0,"method":"ping"}"#, "2 ping"),
        // From 2^53 on, a double may stand for several integers, so such an id is refused.
        (r#"{"jsonrpc":"2.0","id":9007199254740991.0,"method":"ping"}"#, "9007199254740991 ping"),
        (r#"{"jsonrpc":"2.0","id":9007199254740992.0,"method":"ping"}"#, "-32600 id null"),
        (r#"{"jsonrpc":"2.0","id":-9007199254740992.0,"method":"ping"}"#, "-32600 id null"),
        (r#"{"jsonrpc":"2.0","id":-0.0,"method":"ping"}"#, "0 ping"),
        (r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#, "a ping"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, "-32602 id 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":7}}"#, "-32602 id 1"),
        // Members of a request that the server does not use are ignored.
        (deep_member.as_str(), "1 ping"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{},"error":7}"#, "1 ping"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"nope","params":{"a":1}}"#, "-32601 id 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"nope","params":7}"#, "-32601 id 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{}}"#, "-32601 id 1"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}"#,
            "-32602 id 1",
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":5}}"#, "-32602 id 1"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":null}}"#,
            "1 tools/list",
        ),
        (large.as_str(), "-32600 id 1"),
        (&params("{}"), "-32602 id 1"),
        (&params("[]"), "-32602 id 1"),
        (&params(r#"{"name":1}"#), "-32602 id 1"),
        (&params(r#"{"name":"x","arguments":[]}"#), "-32602 id 1"),
        (&params(r#"{"name":"x","arguments":"{}"}"#), "-32602 id 1"),
        (&params(r#"{"name":"x","_meta":1}"#), "-32602 id 1"),
        (&params(r#"{"name":"x","arguments":null}"#), "1 tools/call"),
        (&params(r#"{"name":"x","arguments":{},"auth":{}}"#), "1 tools/call"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, "-32602 id 1"),
        (values.as_str(), "-32602 id 1"),
        (commas.as_str(), "1 tools/call"),
        (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "notification"),
        (r#"{"jsonrpc":"2.0","method":"notifications/x","params":{}}"#, "ignored"),
        (r#"{"jsonrpc":"2.0","method":"tools/call","params":{}}"#, "ignored"),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#,
            "cancels 7",
        ),
        (r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}"#, "ignored"),
        (r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#, "ignored"),
        // A notification gets no reply, even if it is invalid.
        (r#"{"jsonrpc":"1.0","method":"notifications/x"}"#, "ignored"),
        (r#"{"method":"notifications/x","params":7}"#, "ignored"),
        (long_notification.as_str(), "ignored"),
        (long_reason.as_str(), "cancels 7"),
        // A message without a valid method is not a notification, so it gets a reply.
        (r#"{"jsonrpc":"2.0","method":7}"#, "-32600 id null"),
    ] {
        let shown: String = line.chars().take(100).collect();
        assert_eq!(outcome(line), expected, "{shown}");
    }
    assert!(matches!(parse(b"\xff"), Err(error) if error.code() == -32700));
}

#[test]
fn the_members_of_a_call_arrive() {
    let line = br#"{"jsonrpc":"2.0","id":"i","method":"tools/call","params":{"name":"n",
        "arguments":{"code":"\u00e9"},"_meta":{"progressToken":3}}}"#;
    let Ok(Some(message)) = parse(line) else { panic!("a message") };
    let JsonRpcMessage::Request(request) = message else { panic!("a request") };
    let ClientRequest::CallToolRequest(call) = request.request else { panic!("a call") };
    assert_eq!(call.params.name, "n");
    assert_eq!(call.params.arguments.unwrap()["code"], "é");
    let meta = call.extensions.get::<RequestMetaObject>().unwrap();
    assert_eq!(meta.get_progress_token().unwrap().0, RequestId::Number(3));
}

#[test]
fn a_token_arrives_apart_from_what_is_logged() {
    for (members, expected) in [
        ("", None),
        (r#","auth":{"token":"a"}"#, Some("a")),
        (r#","_meta":{"qwed.ai/auth":{"token":"m"}}"#, Some("m")),
        (r#","auth":{"token":"a"},"_meta":{"qwed.ai/auth":{"token":"m"}}"#, Some("a")),
        (r#","auth":null,"_meta":{"qwed.ai/auth":{"token":"m"}}"#, Some("m")),
        (r#","auth":null,"_meta":{"qwed.ai/auth":null}"#, None),
        // These calls have a malformed token, so they get the empty token. They must not count as calls without a
        // token.
        (r#","auth":{"token":7}"#, Some("")),
        (r#","auth":{"token":null}"#, Some("")),
        (r#","auth":{}"#, Some("")),
        (r#","auth":{"Token":"a"}"#, Some("")),
        (r#","auth":{},"_meta":{"qwed.ai/auth":{"token":"m"}}"#, Some("")),
        (r#","auth":"a""#, Some("")),
        (r#","_meta":{"qwed.ai/auth":["m"]}"#, Some("")),
        (r#","auth":{"token":"\ud800"}"#, Some("")),
        (r#","auth":{"token":"a","n":1e999}"#, Some("")),
    ] {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"n"{members}}}}}"#
        );
        let Ok(Some(message)) = parse(line.as_bytes()) else { panic!("{line}") };
        let logged = format!("{message:?}");
        let JsonRpcMessage::Request(request) = message else { panic!("a request") };
        let ClientRequest::CallToolRequest(call) = request.request else { panic!("a call") };
        let presented = call.extensions.get::<Presented>();
        let token = presented.and_then(|presented| presented.token.as_ref()).map(Secret::reveal);
        assert_eq!(token, expected, "{line}");
        let meta = call.extensions.get::<RequestMetaObject>();
        assert!(meta.is_none_or(|meta| meta.get(AUTH_KEY).is_none()), "{line}");
        assert!(!logged.contains("\"m\"") && !logged.contains("\"a\""), "{logged}");
    }
}

/// Returns the message of the error for a line.
fn refusal(line: &str) -> String {
    let error = parse(line.as_bytes()).unwrap_err();
    serde_json::to_value(&error).unwrap()["error"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn each_refusal_says_what_is_wrong() {
    let request = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
    };
    for (line, expected) in [
        ("[]".to_owned(), "Invalid Request: batches are not supported, send one message a line"),
        ("7".to_owned(), "Invalid Request: a message is a JSON object"),
        (request("ping", "[]"), "'params' must be an object"),
        (request("tools/call", "[]"), "'params' must be an object"),
        (request("tools/call", r#"{"name":"x","arguments":[]}"#), "'arguments' must be an object"),
        (request("tools/call", r#"{"name":"x","_meta":7}"#), "'_meta' must be an object"),
        (
            request(
                "tools/call",
                &format!(r#"{{"name":"x","_meta":{{"a":[{}7]}}}}"#, "7,".repeat(1_000)),
            ),
            "'_meta' has more than 1000 values",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","id":1}"#.to_owned(),
            "Invalid Request: 'id' occurs twice",
        ),
        (request("nope", "{}"), "Method not found: nope"),
    ] {
        assert_eq!(refusal(&line), expected, "{line}");
    }
    let long = refusal(&request(&"x".repeat(2 * METHOD_CHARS_SHOWN), "{}"));
    assert_eq!(long, format!("Method not found: {}", "x".repeat(METHOD_CHARS_SHOWN)));
}

#[test]
fn a_bound_is_the_last_that_is_taken() {
    let id = |length: usize| {
        format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(length))
    };
    let ping = |length: usize| {
        let rest = r#"{"jsonrpc":"2.0","id":1,"method":"ping","x":""}"#.len();
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","x":"{}"}}"#, "x".repeat(length - rest))
    };
    assert!(parse(id(ID_BYTES_MAX).as_bytes()).is_ok());
    assert!(parse(id(ID_BYTES_MAX + 1).as_bytes()).is_err());
    assert_eq!(ping(OTHER_MESSAGE_BYTES_MAX).len(), OTHER_MESSAGE_BYTES_MAX);
    assert_eq!(outcome(&ping(OTHER_MESSAGE_BYTES_MAX)), "1 ping");
    assert_eq!(outcome(&ping(OTHER_MESSAGE_BYTES_MAX + 1)), "-32600 id 1");
    // A call may be longer than other messages. A `cursor` is ignored if the method returns no list. The parameters of
    // a method that returns a list may be missing.
    let code = "x".repeat(2 * OTHER_MESSAGE_BYTES_MAX);
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x","arguments":{{"code":"{code}"}}}}}}"#
    );
    assert_eq!(outcome(&call), "1 tools/call");
    let cursor = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"cursor":"x"}}"#;
    assert_eq!(outcome(cursor), "1 ping");
    assert_eq!(outcome(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#), "1 tools/list");
    // Each comma and each opening bracket outside of strings counts as a value.
    for (json, values) in [
        (r"[1,1]", 2),
        (r#"{"a":[1,1],"b":{}}"#, 5),
        (r#"["\",,,,,"]"#, 1),
        (r#"["\\",1,1]"#, 3),
        (r#"["\\\",",1]"#, 2),
    ] {
        assert!(!has_more_values_than(json, values), "{json}");
        assert!(has_more_values_than(json, values - 1), "{json}");
    }
}
