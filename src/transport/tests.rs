//! Tests of the transport. The input is a text with the lines of a client. The test itself sends the server's replies.

use futures_util::FutureExt as _;
use rmcp::model::ServerResult;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, DuplexStream};

use super::*;

const OUTPUT_BYTES: usize = 1 << 20;

fn transport(
    input: &[u8],
    output_bytes: usize,
) -> (StdioTransport<&[u8], DuplexStream>, DuplexStream, ConnectionEvents) {
    let (ours, theirs) = tokio::io::duplex(output_bytes);
    let events = ConnectionEvents::default();
    (StdioTransport::new(input, ours, &events), theirs, events)
}

fn line(id: i64, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string() + "\n"
}

fn reply(id: i64) -> ServerJsonRpcMessage {
    JsonRpcMessage::response(ServerResult::empty(()), RequestId::Number(id))
}

/// Waits until the transport is dropped. Returns the id and the error code of each line that the transport has
/// written.
async fn written(mut theirs: DuplexStream) -> Vec<(Value, Value)> {
    let mut text = String::new();
    theirs.read_to_string(&mut text).await.unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| (line["id"].clone(), line["error"]["code"].clone())).collect()
}

/// Sends these lines to a transport, and answers each request that arrives. Returns the ids of the requests, and the
/// lines that the transport has written.
async fn exchange(lines: &[String]) -> (Vec<i64>, Vec<(Value, Value)>) {
    let input = lines.concat();
    let (mut transport, theirs, events) = transport(input.as_bytes(), OUTPUT_BYTES);
    let mut arrived = Vec::new();
    while let Some(message) = transport.receive().await {
        let JsonRpcMessage::Request(request) = message else { continue };
        let RequestId::Number(id) = request.id else { panic!("a number") };
        arrived.push(id);
        drop(request);
        transport.send(reply(id)).await.unwrap();
    }
    assert!(events.input_ended.is_cancelled() && !events.output_closed.is_cancelled());
    transport.close().await.unwrap();
    drop(transport);
    (arrived, written(theirs).await)
}

#[tokio::test]
async fn a_request_belongs_to_an_era_that_has_its_method() {
    let of = |version: &str| {
        json!({ "_meta": {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        }})
    };
    let (stateless, older, unknown) = (of("2026-07-28"), of("2025-06-18"), of("2099-01-01"));
    let listen = |mut params: Value| {
        params["notifications"] = json!({});
        params
    };
    let hello = |mut params: Value| {
        params["protocolVersion"] = json!("2025-11-25");
        params["capabilities"] = json!({});
        params["clientInfo"] = json!({ "name": "test", "version": "1" });
        params
    };
    let (nothing, accepted) = (json!({}), 0);
    for (method, params, before, after) in [
        ("ping", nothing.clone(), accepted, accepted),
        ("ping", stateless.clone(), -32601, -32601),
        ("ping", older.clone(), accepted, accepted),
        // The transport accepts an unknown version, because rmcp replies with the error.
        ("ping", unknown.clone(), accepted, accepted),
        ("subscriptions/listen", listen(unknown.clone()), accepted, accepted),
        ("tools/list", nothing.clone(), -32602, accepted),
        ("tools/list", stateless.clone(), accepted, accepted),
        ("tools/list", older.clone(), accepted, accepted),
        ("tools/call", json!({ "name": "x" }), -32602, accepted),
        ("subscriptions/listen", listen(nothing.clone()), -32602, -32601),
        ("subscriptions/listen", listen(stateless.clone()), accepted, accepted),
        ("subscriptions/listen", listen(older.clone()), -32601, -32601),
        // If the method exists in the era, the transport accepts invalid parameters. The handler replies with the
        // error.
        ("subscriptions/listen", stateless.clone(), accepted, accepted),
        ("initialize", hello(nothing.clone()), accepted, accepted),
        ("initialize", hello(stateless.clone()), accepted, accepted),
        ("initialize", nothing.clone(), accepted, accepted),
        ("initialize", stateless, -32601, -32601),
    ] {
        let opening = line(1, "initialize", &hello(nothing.clone()));
        let request = line(2, method, &params);
        for (lines, expected) in
            [(vec![request.clone()], before), (vec![opening.clone(), request.clone()], after)]
        {
            let (arrived, answers) = exchange(&lines).await;
            let code = if expected == accepted { Value::Null } else { json!(expected) };
            let answer = answers.iter().find(|(id, _)| *id == json!(2)).unwrap();
            assert_eq!(answer.1, code, "{lines:?}");
            assert_eq!(answers.len(), lines.len(), "{lines:?}");
            assert_eq!(arrived.contains(&2), expected == accepted, "{lines:?}");
        }
    }
}

#[tokio::test]
async fn what_is_no_message_is_answered_in_its_place_and_the_next_line_is_read() {
    let long = "x".repeat(line::LINE_BYTES_MAX + 1) + "\n";
    let lines = ["x\n".to_owned(), "\n".to_owned(), long, line(1, "ping", &json!({}))];
    let (arrived, mut answers) = exchange(&lines).await;
    assert_eq!(arrived, [1]);
    // The order of errors and answers is not fixed, so sort them.
    answers.sort_by_key(|(id, _)| id.is_null());
    let error = |code: i64| (Value::Null, json!(code));
    assert_eq!(answers, [(json!(1), Value::Null), error(-32700), error(-32600)]);
}

#[tokio::test]
async fn what_comes_behind_initialize_is_read_when_that_is_answered() {
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    let input = line(1, "initialize", &hello) + &line(2, "ping", &json!({}));
    let (mut transport, theirs, _) = transport(input.as_bytes(), OUTPUT_BYTES);
    let first = transport.receive().now_or_never().unwrap();
    assert!(transport.receive().now_or_never().is_none(), "initialize is not answered");
    drop(first);
    assert!(transport.receive().now_or_never().is_none(), "its handler has ended");
    transport.send(reply(1)).await.unwrap();
    let second = transport.receive().now_or_never();
    assert!(matches!(second, Some(Some(JsonRpcMessage::Request(_)))), "{second:?}");
    drop((second, transport));
    assert_eq!(written(theirs).await, [(json!(1), Value::Null)]);
}

#[tokio::test]
async fn a_reply_that_nobody_wants_is_not_written() {
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    let ping = |id| line(id, "ping", &json!({}));
    let input = [ping(1), cancel.to_string() + "\n", ping(2), ping(3)].concat();
    let (mut transport, theirs, events) = transport(input.as_bytes(), OUTPUT_BYTES);
    while transport.receive().await.is_some() {}
    transport.send(reply(1)).await.unwrap();
    transport.send(reply(2)).await.unwrap();
    // A second reply to the same request is not written.
    transport.send(reply(2)).await.unwrap();
    events.abandoned.cancel();
    transport.send(reply(3)).await.unwrap();
    drop(transport);
    assert_eq!(written(theirs).await, [(json!(2), Value::Null)]);
}

#[tokio::test]
async fn a_request_holds_its_place_until_it_is_answered() {
    let pings: Vec<_> = (0..300).map(|id| line(id, "ping", &json!({}))).collect();
    let input = pings.concat();
    let (mut transport, theirs, _) = transport(input.as_bytes(), OUTPUT_BYTES);
    let mut handled = Vec::new();
    while let Some(message) = transport.receive().await {
        handled.push(message);
    }
    assert_eq!(handled.len(), in_flight::REQUESTS_MAX);
    drop((handled, transport));
    let refused = written(theirs).await;
    assert_eq!(refused.len(), 300 - in_flight::REQUESTS_MAX);
    assert!(refused.iter().all(|(_, code)| *code == json!(-32603)), "{refused:?}");
}

/// The task that flushes errors never runs in this test, so closing the connection must write the errors.
#[tokio::test]
async fn the_end_of_the_connection_writes_every_error_that_was_found() {
    let bad = "x\n".repeat(20);
    let unfinished = "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"none\"".to_owned();
    for (input, expected) in [
        ("x\n".to_owned(), vec![-32700]),
        (bad, vec![-32700; 20]),
        (line(1, "none", &json!({})), vec![-32601]),
        ("[]\n1\n".to_owned(), vec![-32600, -32600]),
        // The last line may have no line feed. An incomplete message at the end gets a reply like any line.
        (unfinished.clone() + "}", vec![-32601]),
        (unfinished, vec![-32700]),
    ] {
        let (mut transport, mut theirs, _) = transport(input.as_bytes(), OUTPUT_BYTES);
        assert!(transport.receive().now_or_never().unwrap().is_none(), "{input}");
        transport.close().now_or_never().unwrap().unwrap();
        let mut written = vec![0; OUTPUT_BYTES];
        let length = theirs.read(&mut written).now_or_never().expect("nothing is written").unwrap();
        let lines = written[..length].split_inclusive(|byte| *byte == b'\n');
        let error = |line| serde_json::from_slice::<Value>(line).unwrap()["error"]["code"].clone();
        assert_eq!(lines.map(error).collect::<Vec<_>>(), expected, "{input}");
    }
}

#[tokio::test]
async fn nothing_more_is_read_while_thousands_of_errors_wait_to_be_written() {
    let input = "x\n".repeat(20_000);
    let (mut transport, mut theirs, _) = transport(input.as_bytes(), 16);
    for _ in 0..50 {
        assert!(transport.receive().now_or_never().is_none(), "all of it is read");
        tokio::task::yield_now().await;
    }
    // When the client reads again, the transport reads the remaining lines, and no error is lost.
    let client = tokio::spawn(async move {
        let mut text = String::new();
        theirs.read_to_string(&mut text).await.unwrap();
        text.lines().count()
    });
    assert!(transport.receive().await.is_none(), "none of it is a message");
    drop(transport);
    assert_eq!(client.await.unwrap(), 20_000);
}

#[tokio::test]
async fn an_output_that_is_closed_is_told_and_one_that_is_finished_stays_so() {
    let input = [1, 2].map(|id| line(id, "ping", &json!({}))).concat();
    let (mut open, theirs, events) = transport(input.as_bytes(), OUTPUT_BYTES);
    while open.receive().await.is_some() {}
    open.send(reply(1)).await.unwrap();
    assert!(!events.output_closed.is_cancelled());
    events.finish_output().await;
    let late = tokio::spawn(open.send(reply(2)));
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(!late.is_finished(), "nothing begins after it");
    late.abort();
    drop((late.await, open));
    assert_eq!(written(theirs).await, [(json!(1), Value::Null)]);

    let (mut closed, theirs, events) = transport(input.as_bytes(), OUTPUT_BYTES);
    while closed.receive().await.is_some() {}
    drop(theirs);
    assert!(closed.send(reply(1)).await.is_err());
    assert!(events.output_closed.is_cancelled());
}

#[tokio::test]
async fn an_answered_request_keeps_its_id_until_its_handler_has_ended() {
    let ping = line(1, "ping", &json!({}));
    let input = ping.repeat(3);
    let (mut transport, theirs, _) = transport(input.as_bytes(), OUTPUT_BYTES);
    let first = transport.receive().now_or_never().unwrap();
    transport.send(reply(1)).await.unwrap();
    let second = transport.receive();
    // The second and the third request are refused, and then the input ends.
    let second = second.now_or_never().unwrap();
    assert!(second.is_none(), "both have the id of the first: {second:?}");
    drop((first, transport));
    let codes: Vec<_> = written(theirs).await.into_iter().map(|(_, code)| code).collect();
    assert_eq!(codes, [Value::Null, json!(-32600), json!(-32600)]);
}

#[tokio::test]
async fn what_is_queued_is_bounded_and_goes_out_at_the_end() {
    let input = [1, 2].map(|id| line(id, "ping", &json!({}))).concat();
    let (mut transport, mut theirs, events) = transport(input.as_bytes(), 16);
    while transport.receive().await.is_some() {}
    let large = rmcp::ErrorData::internal_error("x".repeat(100_000), None);
    let large = JsonRpcMessage::error(large, Some(RequestId::Number(1)));
    assert!(transport.send(large).now_or_never().is_none(), "queued, and nobody reads");
    assert!(transport.send(reply(2)).now_or_never().is_none(), "it waits for room");
    // The waiting reply is not queued yet, so it is skipped if it becomes unwanted now.
    events.abandoned.cancel();
    let client = tokio::spawn(async move {
        let mut text = String::new();
        theirs.read_to_string(&mut text).await.unwrap();
        text
    });
    transport.close().await.unwrap();
    drop(transport);
    let text = client.await.unwrap();
    assert_eq!((text.lines().count(), text.len() > 100_000), (1, true));
}

#[tokio::test]
async fn a_message_that_is_sent_is_out_of_every_buffer() {
    let input = line(1, "ping", &json!({}));
    let (ours, mut theirs) = tokio::io::duplex(OUTPUT_BYTES);
    let events = ConnectionEvents::default();
    let buffered = tokio::io::BufWriter::with_capacity(OUTPUT_BYTES, ours);
    let mut transport = StdioTransport::new(input.as_bytes(), buffered, &events);
    while transport.receive().await.is_some() {}
    transport.send(reply(1)).await.unwrap();
    assert!(matches!(theirs.read_u8().now_or_never(), Some(Ok(b'{'))));
}

#[tokio::test]
async fn an_output_that_takes_nothing_is_closed() {
    let input = line(1, "ping", &json!({}));
    let events = ConnectionEvents::default();
    let full = std::io::Cursor::new(Box::<[u8]>::default());
    let mut transport = StdioTransport::new(input.as_bytes(), full, &events);
    while transport.receive().await.is_some() {}
    assert!(transport.send(reply(1)).await.is_err());
    assert!(events.output_closed.is_cancelled());
}
