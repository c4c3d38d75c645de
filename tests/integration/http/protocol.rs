//! Tests both eras of MCP on one URL, cancellation, and the shutdown.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{
    Connection, HttpServer, STATELESS, bearer, initialize, request, script, soon, stateless,
};
use crate::governed::Governed;
use crate::harness::{ServerBuilder, quickest};

tests! {
    needs [Sandbox]:
        both_eras_are_served_on_one_url,
        a_session_is_begun_used_and_ended,
        errors_have_the_status_of_their_era,
        headers_that_contradict_the_body_are_refused,
        a_call_that_reports_progress_is_a_stream,
        equal_request_ids_in_two_sessions_are_independent,
        without_sessions_any_request_is_answered,
        a_first_request_before_the_shutdown_is_answered,
        an_incomplete_request_does_not_delay_the_shutdown,
        a_client_that_does_not_read_does_not_delay_the_shutdown;
    needs [Tier3]:
        a_disconnect_cancels_a_stateless_call,
        a_call_of_a_session_is_cancelled_by_its_own_session_only,
        a_call_of_the_older_era_continues_for_a_while_after_a_disconnect,
        a_call_without_a_session_waits_for_its_turn_within_a_deadline,
        the_shutdown_waits_for_running_calls_and_leaves_nothing,
        the_shutdown_waits_no_longer_than_drain;
    needs [Tier3, Packages]:
        a_governed_call_without_a_session_waits_within_the_same_deadline;
}

const FOR_EVER: &str = "import time; time.sleep(600)";

fn both_eras_are_served_on_one_url() {
    let server = HttpServer::start(ServerBuilder::new(), &[]);
    assert_eq!(server.run("print(6 * 7)"), "STDOUT:\n42\n\nExecution completed successfully.");
    let session = format!("Mcp-Session-Id: {}\r\n", server.session());
    let reply = server.post(&session, &request(1, "tools/call", &script("print(6 * 7)")));
    let text = &reply.json()["result"]["content"][0]["text"];
    assert_eq!(text, "STDOUT:\n42\n\nExecution completed successfully.");
    // Only replies of the stateless era contain `serverInfo`.
    assert!(reply.json()["result"]["_meta"]["io.modelcontextprotocol/serverInfo"].is_null());
    let discovered = server.stateless("server/discover", json!({})).json();
    assert!(
        discovered["result"]["supportedVersions"].as_array().unwrap().contains(&json!(STATELESS))
    );
}

fn a_session_is_begun_used_and_ended() {
    let server = HttpServer::start(ServerBuilder::new(), &[]);
    let (first, second) = (server.session(), server.session());
    assert_ne!(first, second);
    assert!(first.len() >= 32 && first.bytes().all(|byte| byte.is_ascii_graphic()));
    let list = request(1, "tools/list", &json!({}));
    let header = format!("Mcp-Session-Id: {first}\r\n");
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let accepted = server.post(&header, &initialized);
    assert_eq!((accepted.status, accepted.body.len()), (202, 0));
    assert_eq!(
        server.post(&header, &list).json()["result"]["tools"][0]["name"],
        "execute_python_code"
    );
    assert_eq!(server.post("", &list).status, 400);
    assert_eq!(server.post("Mcp-Session-Id: no\r\n", &list).status, 404);
    assert_eq!(server.send(&format!("GET /mcp HTTP/1.1\r\n{header}"), "").status, 405);
    let end = |header: &str| server.send(&format!("DELETE /mcp HTTP/1.1\r\n{header}"), "").status;
    assert_eq!((end(&header), end(&header), end("")), (204, 404, 400));
    assert_eq!(server.post(&header, &list).status, 404);
    // The session of a message without a reply is checked too.
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    let response = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    for message in [&initialized, &cancelled, &response] {
        let unknown = server.post(&header, message).status;
        assert_eq!((unknown, server.post("", message).status), (404, 400), "{message}");
    }
    let version = "MCP-Protocol-Version: 1999-01-01\r\n";
    let header = format!("Mcp-Session-Id: {second}\r\n");
    assert_eq!(server.post(&header, &initialized).status, 202);
    assert_eq!(server.post(&format!("{header}{version}"), &initialized).status, 400);
    assert_eq!(server.post(&header, &list).status, 200);
}

fn errors_have_the_status_of_their_era() {
    let server = HttpServer::start(ServerBuilder::new(), &[]);
    let code = |response: &super::Response| response.json()["error"]["code"].as_i64();
    let header = format!("Mcp-Session-Id: {}\r\n", server.session());
    let response = server.post(&header, &request(1, "nothing/here", &json!({})));
    assert_eq!((response.status, code(&response)), (200, Some(-32601)));
    let response = server.stateless("nothing/here", json!({}));
    assert_eq!((response.status, code(&response)), (404, Some(-32601)));
    // A malformed `initialize` needs no session.
    let response = server.post("", &request(1, "initialize", &json!({ "protocolVersion": 7 })));
    assert_eq!((response.status, code(&response)), (200, Some(-32602)));
    for (body, expected) in
        [("{", -32700), ("[]", -32600), ("{\"jsonrpc\":\"2.0\",\"id\":1}", -32600)]
    {
        let head = format!("POST /mcp HTTP/1.1\r\n{}{}", super::JSON, super::BOTH);
        let response = server.send(&head, body);
        assert_eq!((response.status, code(&response)), (400, Some(expected)), "{body}");
    }
    for (headers, status) in [
        (format!("{}Accept: text/html\r\n", super::JSON), 406),
        (format!("Content-Type: text/plain\r\n{}", super::BOTH), 415),
    ] {
        let response = server.send(&format!("POST /mcp HTTP/1.1\r\n{headers}"), "{}");
        assert_eq!(response.status, status, "{headers}");
    }
}

fn headers_that_contradict_the_body_are_refused() {
    let server = HttpServer::start(ServerBuilder::new(), &[]);
    let (head, body) = stateless("tools/call", script("print(1)"));
    assert_eq!(server.send(&head, &body).status, 200);
    for (from, to) in [
        ("Mcp-Name: execute_python_code", "Mcp-Name: verification_status"),
        ("Mcp-Name: execute_python_code\r\n", ""),
        ("Mcp-Method: tools/call", "Mcp-Method: tools/list"),
        ("Mcp-Method: tools/call", "Mcp-Method: tools/call\r\nMcp-Method: tools/call"),
        ("MCP-Protocol-Version: 2026-07-28", "MCP-Protocol-Version: 2025-11-25"),
        ("MCP-Protocol-Version: 2026-07-28\r\n", ""),
    ] {
        assert!(head.contains(from));
        let response = server.send(&head.replace(from, to), &body);
        let code = response.json()["error"]["code"].as_i64();
        assert_eq!((response.status, code), (400, Some(-32020)), "{to:?}");
    }
}

fn a_call_that_reports_progress_is_a_stream() {
    let server = HttpServer::start(ServerBuilder::new(), &[]);
    let mut params = script("import time\ntime.sleep(1.8)\nprint(7)");
    params["_meta"] = json!({ "progressToken": "p" });
    let response = server.stateless("tools/call", params);
    assert_eq!(response.header("content-type").unwrap(), "text/event-stream");
    assert_eq!(response.header("x-accel-buffering").unwrap(), "no");
    let text = String::from_utf8(response.body.clone()).unwrap();
    assert!(text.matches("notifications/progress").count() >= 2, "{text}");
    assert_eq!(response.json()["result"]["isError"], false);
}

fn equal_request_ids_in_two_sessions_are_independent() {
    let server =
        HttpServer::start(ServerBuilder::new().variable("QWED_MCP_SYNC_CONCURRENCY", "4"), &[]);
    let headers = [0; 2].map(|_| format!("Mcp-Session-Id: {}\r\n", server.session()));
    let mut background = script(FOR_EVER);
    background["arguments"]["background"] = json!(true);
    let place = |header: &str| {
        let placed = server.post(header, &request(7, "tools/call", &background)).json();
        let text = placed["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        text.split_whitespace().find(|word| word.len() >= 36).unwrap()[..36].to_owned()
    };
    let jobs = [place(&headers[0]), place(&headers[1])];
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    let state = |header: &str, job: &str| {
        let status = json!({ "name": "verification_status", "arguments": { "job_id": job } });
        let reply = server.post(header, &request(8, "tools/call", &status)).json();
        reply["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(server.post(&headers[0], &cancel).status, 202);
    soon("the first session's job is cancelled", || {
        state(&headers[0], &jobs[0]).contains("cancelled")
    });
    assert_eq!(state(&headers[1], &jobs[1]), "Status: running...");
}

fn without_sessions_any_request_is_answered() {
    let server = HttpServer::start(ServerBuilder::new(), &["--sessionless"]);
    assert_eq!(server.post("", &initialize()).header("mcp-session-id"), None);
    for headers in
        ["", "MCP-Protocol-Version: 2025-06-18\r\n", "Mcp-Session-Id: of-another-replica\r\n"]
    {
        let reply = server.post(headers, &request(1, "tools/call", &script("print(6 * 7)")));
        assert_eq!(reply.json()["result"]["isError"], false, "{reply:?}");
    }
    let unknown = "MCP-Protocol-Version: 1999-01-01\r\n";
    assert_eq!(server.post(unknown, &request(1, "tools/list", &json!({}))).status, 400);
}

/// Sends a call with a script that does not end. Returns when the script runs.
fn call_for_ever(server: &HttpServer, head: &str, body: &str) -> Connection {
    server.wait_until_ready();
    let mut connection = server.connect();
    connection.begin(head, body);
    soon("the script runs", || server.scripts() > 0);
    connection
}

fn a_disconnect_cancels_a_stateless_call() {
    let server = HttpServer::start(ServerBuilder::new(), &[]);
    let mut with_progress = script(FOR_EVER);
    with_progress["_meta"] = json!({ "progressToken": 1 });
    for (params, is_stream) in [(script(FOR_EVER), false), (with_progress, true)] {
        let (head, body) = stateless("tools/call", params);
        let mut connection = call_for_ever(&server, &head, &body);
        if is_stream {
            connection.head().unwrap();
            connection.chunk().unwrap();
        }
        drop(connection);
        soon("the script is killed", || server.scripts() == 0);
        // The cancelled script no longer has a turn, so another script can run.
        assert!(server.run("print(1)").contains("STDOUT:\n1"));
    }
}

fn a_call_of_a_session_is_cancelled_by_its_own_session_only() {
    let server = HttpServer::start(ServerBuilder::new(), &[]);
    let session = format!("Mcp-Session-Id: {}\r\n", server.session());
    let head = format!("POST /mcp HTTP/1.1\r\n{}{}{session}", super::JSON, super::BOTH);
    let call = request(5, "tools/call", &script(FOR_EVER));
    let mut connection = call_for_ever(&server, &head, &call.to_string());
    let twice = server.post(&session, &call);
    assert_eq!((twice.status, twice.json()["error"]["code"].as_i64()), (400, Some(-32600)));
    let cancel = |id: i64| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    server.post(&session, &cancel(6));
    let other = format!("Mcp-Session-Id: {}\r\n", server.session());
    server.post(&other, &cancel(5));
    std::thread::sleep(Duration::from_millis(300));
    assert!(server.scripts() > 0, "the cancellation of another call ended the script");
    server.post(&session, &cancel(5));
    soon("the script is killed", || server.scripts() == 0);
    // The response ends without a reply to the cancelled call.
    let response = connection.response().unwrap();
    assert_eq!((response.status, response.body.len()), (200, 0), "{response:?}");
}

fn a_call_of_the_older_era_continues_for_a_while_after_a_disconnect() {
    let server = HttpServer::start(ServerBuilder::new(), &[]);
    let session = format!("Mcp-Session-Id: {}\r\n", server.session());
    let head = format!("POST /mcp HTTP/1.1\r\n{}{}{session}", super::JSON, super::BOTH);
    let call = request(5, "tools/call", &script(FOR_EVER));
    drop(call_for_ever(&server, &head, &call.to_string()));
    let left = Instant::now();
    soon("the script is killed", || server.scripts() == 0);
    assert!(left.elapsed() > Duration::from_secs(4), "{:?}", left.elapsed());
    // During this time, the client can cancel the call, and end the session.
    for (id, is_cancelled) in [(6, true), (7, false)] {
        let call = request(id, "tools/call", &script(FOR_EVER));
        drop(call_for_ever(&server, &head, &call.to_string()));
        let left = Instant::now();
        if is_cancelled {
            let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
            assert_eq!(server.post(&session, &cancel).status, 202);
        } else {
            let ended = server.send(&format!("DELETE /mcp HTTP/1.1\r\n{session}"), "");
            assert_eq!(ended.status, 204);
        }
        soon("the script is killed", || server.scripts() == 0);
        assert!(left.elapsed() < Duration::from_secs(4), "{:?}", left.elapsed());
    }
}

fn a_call_without_a_session_waits_for_its_turn_within_a_deadline() {
    let builder = ServerBuilder::new().variable("QWED_MCP_TEST_TURN_DEADLINE_MS", "400");
    let server = HttpServer::start(builder, &["--sessionless"]);
    let (head, body) = stateless("tools/call", script(FOR_EVER));
    let running = call_for_ever(&server, &head, &body);
    // Without a session, a client of the older era cannot cancel this call, and may give up without closing its
    // connection. So the call has a deadline.
    let reply = server.post("", &request(1, "tools/call", &script("print(1)")));
    assert!(reply.body.is_empty() || reply.json()["result"]["isError"] == true, "{reply:?}");
    // A client of the stateless era can cancel its call by closing the connection, so its call has no deadline.
    let (head, body) = stateless("tools/call", script("print(2)"));
    let mut waiting = server.connect();
    waiting.begin(&head, &body);
    std::thread::sleep(Duration::from_millis(900));
    drop(running);
    let text = waiting.response().unwrap().json()["result"]["content"][0]["text"].clone();
    assert_eq!(text, "STDOUT:\n2\n\nExecution completed successfully.");
}

fn a_governed_call_without_a_session_waits_within_the_same_deadline() {
    let governed = Governed::new("ledger");
    let project = "import time\ndef test_it(): time.sleep(600)";
    fs::write(governed.workspace.join("tests/test_long.py"), project).unwrap();
    let builder = governed.server().variable("QWED_MCP_TEST_TURN_DEADLINE_MS", "400");
    let server = HttpServer::start(builder, &["--sessionless", "--require-token"]);
    let path = json!({ "test_path": "tests/test_long.py" });
    let call = json!({ "name": "run_pytest", "arguments": path });
    let (head, body) = stateless("tools/call", call.clone());
    let running = call_for_ever(&server, &format!("{head}{}", bearer(&governed.user)), &body);
    let reply = server.post(&bearer(&governed.user), &request(1, "tools/call", &call));
    let text = &reply.json()["result"]["content"][0]["text"];
    assert_eq!(text, "Status: cancelled\nExecution was cancelled.");
    drop(running);
}

fn the_shutdown_waits_for_running_calls_and_leaves_nothing() {
    let server = HttpServer::start(ServerBuilder::new(), &["--drain", "60"]);
    let (head, body) = stateless("tools/call", script("import time\ntime.sleep(2)\nprint(3)"));
    let mut connection = call_for_ever(&server, &head, &body);
    let (mut kept, address) = (server.connect(), server.address);
    assert_eq!(server.admin("/readyz").status, 200);
    nix::sys::signal::kill(server.process(), nix::sys::signal::Signal::SIGTERM).unwrap();
    soon("the server reports that it is shutting down", || server.admin("/readyz").status == 503);
    // New connections still get a response, because a load balancer may not have noticed the shutdown yet.
    for _ in 0..3 {
        let late = server.stateless("tools/list", json!({}));
        assert_eq!(late.status, 503);
        assert_eq!(late.header("retry-after").as_deref(), Some("1"));
        assert_eq!(late.header("connection").as_deref(), Some("close"));
    }
    // A connection without a request does not delay the shutdown.
    let silent = std::net::TcpStream::connect(address).unwrap();
    let _ = kept.write(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(kept.response().is_none_or(|response| response.status == 503));
    let text = connection.response().unwrap().json()["result"]["content"][0]["text"].clone();
    assert_eq!(text, "STDOUT:\n3\n\nExecution completed successfully.");
    let folder = server.scratch.path().to_owned();
    server.wait();
    drop(silent);
    assert!(std::net::TcpStream::connect(address).is_err());
    assert_eq!(std::fs::read_dir(folder).map_or(0, Iterator::count), 0);
}

fn an_incomplete_request_does_not_delay_the_shutdown() {
    // Without the shutdown, the server would wait ten seconds for the rest of the request.
    quickest(Duration::from_secs(5), || {
        let server = HttpServer::start(ServerBuilder::new(), &["--drain", "60"]);
        let mut stranger = server.connect();
        stranger.write(b"POST /run HTTP/1.1\r\nHost: loc").unwrap();
        // The server accepts connections in order. When it answers this request, it has accepted the first
        // connection.
        assert_eq!(server.stateless("tools/list", json!({})).status, 200);
        let began = Instant::now();
        server.end();
        began.elapsed()
    });
}

fn a_client_that_does_not_read_does_not_delay_the_shutdown() {
    let governed = Governed::new("ledger");
    // Only requests that the server is handling may use the 60 seconds of `--drain`. An unread response must not delay
    // the shutdown.
    quickest(Duration::from_secs(30), || {
        let server = HttpServer::start(governed.server(), &["--require-token", "--drain", "60"]);
        let _stranger =
            Connection::unread(server.address, b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let began = Instant::now();
        server.end();
        began.elapsed()
    });
}

fn a_first_request_before_the_shutdown_is_answered() {
    for _ in 0..10 {
        let server = HttpServer::start(ServerBuilder::new(), &["--drain", "60"]);
        let mut connection = server.connect();
        // The server accepts connections in order. When it answers this request, it has accepted the first
        // connection.
        assert_eq!(server.stateless("tools/list", json!({})).status, 200);
        let (head, body) = stateless("tools/list", json!({}));
        connection.begin(&head, &body);
        server.end();
        assert!(matches!(connection.response().unwrap().status, 200 | 503));
    }
}

fn the_shutdown_waits_no_longer_than_drain() {
    let server = HttpServer::start(ServerBuilder::new(), &["--drain", "0"]);
    let (head, body) = stateless("tools/call", script(FOR_EVER));
    let _connection = call_for_ever(&server, &head, &body);
    let marker = server.scratch.path().to_owned();
    server.end();
    soon("all scripts have ended", || crate::harness::alive_with_marker(&marker).is_empty());
}
