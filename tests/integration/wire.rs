//! Tests the rules for the JSON-RPC messages between a client and the server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::governed::{Governed, params};
use crate::harness::{
    CallResult, McpProcess, ServerBuilder, alive_with_marker, deadline, eventually, quickest,
    resident_kibibytes,
};

/// The maximum number of requests that a server handles at the same time.
const PLACES: usize = 256;

tests! {
    needs [Tier3]:
        a_cancelled_call_is_dead_soon_and_has_no_reply;
    needs [Tier3, Packages]:
        a_cancelled_call_sends_nothing_while_it_ends;
    needs [Sandbox]:
        invalid_lines_are_answered_and_the_server_continues,
        a_duplicate_id_in_flight_is_refused_and_the_first_is_answered,
        an_id_is_free_as_soon_as_its_reply_is_read,
        a_line_above_the_limit_is_refused_at_once_without_being_held,
        a_message_with_very_many_values_does_not_take_very_much_memory,
        notifications_before_the_handshake_are_ignored,
        a_notification_never_ends_the_server_and_is_never_answered,
        initialize_after_stateless_requests_opens_the_era_with_a_handshake,
        unknown_methods_are_not_found_with_any_parameters,
        a_subscription_is_acknowledged_and_stays_open_until_one_side_ends_it,
        each_era_has_its_methods,
        a_waiting_call_reports_its_wait,
        every_revision_with_a_handshake_is_negotiated,
        the_stateless_revision_needs_no_handshake,
        exactly_two_tools_are_listed_with_plain_schemas_and_honest_annotations,
        calls_above_the_bound_are_answered_busy_at_once_and_a_cancel_behind_them_is_seen,
        requests_in_flight_are_bounded_in_bytes_too,
        cancelling_again_and_again_leaks_no_place,
        a_long_call_with_a_token_reports_progress_that_rises_and_stops,
        a_client_that_does_not_read_makes_the_server_wait_and_not_grow,
        #[cfg(target_os = "linux")]
        a_large_reply_is_in_the_pipe_at_once,
        a_reply_is_never_cut_by_the_end_of_the_server,
        requests_before_the_end_of_input_are_answered,
        a_defect_is_an_error_reply_and_nothing_of_it_is_on_stdout,
        output_of_a_script_is_never_parsed_as_a_message;
}

/// Sends a line whose reply must be an error. Returns the code and the id.
fn error_for(server: &mut McpProcess, line: &[u8]) -> (i64, Value) {
    server.send_bytes(line);
    server.send_bytes(b"\n");
    let reply = server.message_where(|message| message.get("error").is_some());
    assert_eq!(reply["jsonrpc"], "2.0");
    assert!(reply["error"]["message"].as_str().is_some_and(|message| !message.is_empty()));
    (reply["error"]["code"].as_i64().unwrap(), reply["id"].clone())
}

fn invalid_lines_are_answered_and_the_server_continues() {
    let mut server = ServerBuilder::new().connect();
    let null = Value::Null;
    for (line, expected) in [
        (&b"this is not JSON"[..], (-32700, null.clone())),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":", (-32700, null.clone())),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}", (-32700, null.clone())),
        (b"[]", (-32600, null.clone())),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", (-32600, null.clone())),
        (b"7", (-32600, null.clone())),
        (b"\"text\"", (-32600, null.clone())),
        (b"null", (-32600, null.clone())),
        (b"{\"jsonrpc\":\"1.0\",\"id\":5,\"method\":\"ping\"}", (-32600, json!(5))),
        (b"{\"id\":5,\"method\":\"ping\"}", (-32600, json!(5))),
        (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", (-32600, null.clone())),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", (-32600, null.clone())),
        (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", (-32600, null.clone())),
        (b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"no/such/method\"}", (-32601, json!(5))),
        (b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"roots/list\"}", (-32601, json!(5))),
        (b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"resources/read\"}", (-32602, json!(5))),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"method\":\"tools/call\",\"params\":{}}",
            (-32602, json!("s")),
        ),
        (b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\"}", (-32602, json!(5))),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":\"x\",\"arguments\":[]}}",
            (-32602, json!(5)),
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{\"name\":\"x\",\"arguments\":\"{}\"}}",
            (-32602, json!(5)),
        ),
    ] {
        let shown = String::from_utf8_lossy(line).into_owned();
        assert_eq!(error_for(&mut server, line), expected, "{shown}");
        server.assert_alive();
    }
    // Blank lines, unknown notifications and unexpected results get no reply.
    server.send_bytes(b"\n  \r\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n");
    server.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    server.assert_alive();
    server.finish();
}

fn a_duplicate_id_in_flight_is_refused_and_the_first_is_answered() {
    let mut server = ServerBuilder::new().connect();
    let id = server.start_execute("import time\ntime.sleep(0.7)\nprint('first')");
    let again = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }).to_string();
    assert_eq!(error_for(&mut server, again.as_bytes()), (-32600, json!(id)));
    let result = CallResult::from_reply(&server.reply(id));
    assert!(result.text().starts_with("STDOUT:\nfirst"));
    // After the reply, the id can be used again.
    server.send_bytes(again.as_bytes());
    server.send_bytes(b"\n");
    assert_eq!(server.reply(id)["result"], json!({}));
    server.finish();
}

fn an_id_is_free_as_soon_as_its_reply_is_read() {
    let mut server = ServerBuilder::new().connect();
    let pings = |ids: &[i64]| {
        let ping =
            |id: &i64| format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
        ids.iter().map(ping).collect::<String>()
    };
    // With the maximum number of requests, each new ping needs the slot of an answered ping. So this slot must be free
    // as soon as the client has read the reply.
    for count in [100, i64::try_from(PLACES).unwrap()] {
        let mut again: Vec<i64> = (1..=count).collect();
        let mut answered = 0;
        while answered < 8000 {
            server.send_bytes(pings(&again).as_bytes());
            again.clear();
            let mut reply = server.next_message(deadline(Duration::from_secs(10)));
            while let Some(message) = reply {
                assert_eq!(message["result"], json!({}), "{message}");
                again.push(message["id"].as_i64().unwrap());
                reply = server.next_message(Duration::ZERO);
            }
            answered += again.len();
        }
        for _ in again.len()..usize::try_from(count).unwrap() {
            server.next_message(deadline(Duration::from_secs(10))).unwrap();
        }
    }
    server.finish();
}

fn a_line_above_the_limit_is_refused_at_once_without_being_held() {
    let mut server = ServerBuilder::new().connect();
    let before = resident_kibibytes(server.pid());
    let mebibyte = vec![b'x'; 1024 * 1024];
    for _ in 0..5 {
        server.send_bytes(&mebibyte);
    }
    // The reply arrives before the client has sent the end of the line.
    let reply = server.message_where(|message| message["error"]["code"] == -32600);
    assert_eq!(reply["id"], Value::Null);
    for _ in 0..200 {
        server.send_bytes(&mebibyte);
    }
    let grown = resident_kibibytes(server.pid()).saturating_sub(before);
    assert!(grown < 16 * 1024, "{grown} KiB");
    server.send_bytes(b"\n");
    server.assert_alive();
    server.finish();
}

fn a_message_with_very_many_values_does_not_take_very_much_memory() {
    let mut server = ServerBuilder::new().connect();
    let before = resident_kibibytes(server.pid());
    let values = "{\"a\":1},".repeat(450_000);
    for prefix in [
        "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{\"name\":\"x\",\"arguments\":{\"a\":[",
        "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\",\"params\":{\"a\":{\"a\":[",
    ] {
        let (code, id) = error_for(&mut server, format!("{prefix}{values}1]}}}}}}").as_bytes());
        assert!(matches!(code, -32602 | -32600), "{code}");
        assert_eq!(id, 9);
    }
    let grown = resident_kibibytes(server.pid()).saturating_sub(before);
    assert!(grown < 32 * 1024, "{grown} KiB");
    server.finish();
}

fn notifications_before_the_handshake_are_ignored() {
    let mut server = ServerBuilder::new().start();
    for method in ["notifications/initialized", "notifications/cancelled", "notifications/x"] {
        let params = json!({ "requestId": 1 });
        server.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }
    server.send(&json!({ "jsonrpc": "2.0", "id": 77, "result": {} }));
    let result = server.initialize("2025-11-25");
    assert_eq!(result["protocolVersion"], "2025-11-25");
    server.assert_alive();
    server.finish();
}

/// Returns the metadata that each stateless request needs (MCP 2026-07-28).
pub(crate) fn stateless_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" }
    })
}

fn a_notification_never_ends_the_server_and_is_never_answered() {
    let notifications = [
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 99 } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {} }),
        json!({ "jsonrpc": "1.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "method": "x".repeat(100_000) }),
    ];
    // The notifications follow a first request, whose reply is a result or an error.
    for first in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "nope" }),
        json!({
            "jsonrpc": "2.0", "id": 1, "method": "server/discover",
            "params": { "_meta": stateless_meta() }
        }),
        json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/list",
            "params": { "_meta": stateless_meta() }
        }),
    ] {
        let mut server = ServerBuilder::new().start();
        server.send(&first);
        assert_eq!(server.message_where(|_| true)["id"], 1, "{first}");
        for notification in &notifications {
            server.send(notification);
        }
        // The next message is the reply to the ping, so the notifications got no reply.
        server.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" }));
        assert_eq!(server.message_where(|_| true)["id"], 2, "{first}");
        server.initialize("2025-11-25");
        server.assert_alive();
        server.finish();
    }
}

fn initialize_after_stateless_requests_opens_the_era_with_a_handshake() {
    let mut server = ServerBuilder::new().start();
    let list = json!({ "_meta": stateless_meta() });
    assert!(server.request("tools/list", &list)["result"]["ttlMs"].is_u64());
    // Before a handshake, a request without metadata is invalid.
    assert_eq!(server.request("tools/list", &json!({}))["error"]["code"], -32602);
    assert_eq!(server.initialize("2025-06-18")["protocolVersion"], "2025-06-18");
    let listed = server.request("tools/list", &json!({}));
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 2, "{listed}");
    assert!(listed["result"].get("ttlMs").is_none(), "{listed}");
    assert!(!server.execute("print(1)").is_error);
    // Stateless requests still work after the handshake.
    assert!(server.request("tools/list", &list)["result"]["ttlMs"].is_u64());
    server.finish();
}

fn unknown_methods_are_not_found_with_any_parameters() {
    let mut server = ServerBuilder::new().start();
    let methods = [
        "logging/setLevel",
        "resources/subscribe",
        "roots/list",
        "tasks/list",
        "tasks/result",
        "x",
    ];
    let params =
        [json!({}), json!({ "level": "info" }), json!({ "_meta": stateless_meta() }), json!(7)];
    for is_initialized in [false, true] {
        if is_initialized {
            server.initialize("2025-11-25");
        }
        for method in methods {
            for params in &params {
                let error = &server.request(method, params)["error"];
                assert_eq!(error["code"], -32601, "{method} {params}: {error}");
                assert_eq!(error["message"], format!("Method not found: {method}"));
            }
        }
    }
    // The stateless era has no ping.
    let error = &server.request("ping", &json!({ "_meta": stateless_meta() }))["error"];
    assert_eq!(
        (&error["code"], &error["message"]),
        (&json!(-32601), &json!("Method not found: ping"))
    );
    let error = &server.request("initialize", &json!({ "protocolVersion": 7 }))["error"];
    assert_eq!(error["message"], "Invalid params for initialize");
    let error = &server.request("tools/list", &json!({ "cursor": "x" }))["error"];
    assert_eq!(error["code"], -32602);
    server.finish();
}

fn a_subscription_is_acknowledged_and_stays_open_until_one_side_ends_it() {
    let id_key = "io.modelcontextprotocol/subscriptionId";
    let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": ["file:///a"] });
    let listen = json!({ "_meta": stateless_meta(), "notifications": filter });
    // At the end of input, calls get one second. Subscriptions end at once.
    quickest(Duration::from_millis(900), || {
        let mut server = ServerBuilder::new().start();
        let mut open = Vec::new();
        for _ in 0..3 {
            let id = server.start_request("subscriptions/listen", &listen);
            let acknowledged = server.message_where(|_| true);
            assert_eq!(
                acknowledged,
                json!({
                    "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                    "params": { "_meta": { id_key: id }, "notifications": {} }
                })
            );
            open.push(id);
        }
        server.cancel(open.remove(1));
        server.assert_alive();
        assert_eq!(server.next_message(Duration::from_millis(300)), None);
        let closed = Instant::now();
        server.close_input();
        assert_eq!(server.wait_for_exit(Duration::from_secs(5)).code(), Some(0));
        let took = closed.elapsed();
        for _ in 0..2 {
            let ended = server.message_where(|_| true);
            let id = ended["id"].as_i64().unwrap();
            open.retain(|left| *left != id);
            assert_eq!(ended["result"]["resultType"], "complete", "{ended}");
            assert_eq!(ended["result"]["_meta"][id_key], id, "{ended}");
        }
        assert_eq!(open, [0; 0]);
        took
    });
}

fn each_era_has_its_methods() {
    let mut server = ServerBuilder::new().start();
    let version = |version: &str| {
        json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {}
        })
    };
    let (stateless, unknown) = (version("2026-07-28"), version("2099-01-01"));
    let mut code = |method: &str, mut params: Value, meta: Option<&Value>| {
        if let Some(meta) = meta {
            params["_meta"] = meta.clone();
        }
        server.request(method, &params)["error"]["code"].clone()
    };
    let filter = json!({ "notifications": {} });
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" }
    });
    // Before a handshake, a request must declare its era in its metadata.
    assert_eq!(code("subscriptions/listen", filter.clone(), None), -32602);
    assert_eq!(code("subscriptions/listen", json!({}), Some(&stateless)), -32602);
    assert_eq!(code("subscriptions/listen", filter.clone(), Some(&version("2025-06-18"))), -32601);
    assert_eq!(code("initialize", json!({}), Some(&stateless)), -32601);
    assert_eq!(code("initialize", json!({}), None), -32602);
    assert_eq!(code("initialize", hello, Some(&stateless)), Value::Null);
    for params in [json!({}), filter.clone(), json!({ "notifications": 7 })] {
        assert_eq!(code("subscriptions/listen", params, None), -32601);
    }
    for method in ["ping", "subscriptions/listen", "tools/list", "server/discover"] {
        assert_eq!(code(method, filter.clone(), Some(&unknown)), -32022, "{method}");
    }
    server.finish();
}

fn a_waiting_call_reports_its_wait() {
    let mut server = ServerBuilder::new().connect();
    // The first call waits while the server examines the interpreter and the sandbox.
    server.execute("pass");
    let first = server.start_execute("import time\ntime.sleep(60)");
    let params = json!({
        "name": "execute_python_code",
        "arguments": { "code": "import time\ntime.sleep(60)" },
        "_meta": { "progressToken": "p" }
    });
    let second = server.start_request("tools/call", &params);
    let says = |server: &mut McpProcess, start: &str| {
        let message = server.message_where(|message| message["method"] == "notifications/progress");
        message["params"]["message"].as_str().unwrap().starts_with(start)
    };
    assert!(says(&mut server, "Waiting for its turn for "));
    server.cancel(first);
    // More messages about the waiting time may arrive first.
    assert!((0..100).any(|_| says(&mut server, "Running for ")));
    server.cancel(second);
    server.finish();
}

fn every_revision_with_a_handshake_is_negotiated() {
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut server = ServerBuilder::new().start();
        let result = server.initialize(asked);
        assert_eq!(result["protocolVersion"], answered, "{asked}");
        assert_eq!(result["serverInfo"]["name"], "qwed-mcp");
        assert!(
            result["capabilities"]["tools"].is_object()
                && result["capabilities"]["resources"].is_object()
        );
        assert!(
            result["serverInfo"]["icons"][0]["src"]
                .as_str()
                .unwrap()
                .starts_with("data:image/png;base64,")
        );
        assert!(result["instructions"].as_str().unwrap().chars().count() < 800);
        let tools = server.request("tools/list", &json!({}));
        assert!(tools["result"].get("ttlMs").is_none(), "{tools}");
        assert!(!server.execute("print(1)").is_error);
        server.finish();
    }
}

fn the_stateless_revision_needs_no_handshake() {
    let mut server = ServerBuilder::new().start();
    let meta = stateless_meta();
    let discovered = server.request("server/discover", &json!({ "_meta": meta }));
    let versions = discovered["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{discovered}");

    let tools = server.request("tools/list", &json!({ "_meta": meta }));
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 2);
    assert_eq!(tools["result"]["resultType"], "complete");
    assert!(tools["result"]["ttlMs"].is_u64() && tools["result"]["cacheScope"].is_string());
    let server_info = &tools["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(server_info["name"], "qwed-mcp");

    let params = json!({
        "name": "execute_python_code",
        "arguments": { "code": "print(6 * 7)" },
        "_meta": meta
    });
    let reply = server.request("tools/call", &params);
    assert_eq!(reply["result"]["resultType"], "complete");
    let result = CallResult::from_reply(&reply);
    assert_eq!(result.text(), "STDOUT:\n42\n\nExecution completed successfully.");
    assert_eq!(result.meta["io.modelcontextprotocol/serverInfo"]["name"], "qwed-mcp");

    // This revision requires metadata with a known protocol version.
    let reply = server.request("tools/list", &json!({}));
    assert_eq!(reply["error"]["code"], -32602);
    let mut unknown = meta.clone();
    unknown["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let reply = server.request("tools/list", &json!({ "_meta": unknown }));
    assert_eq!(reply["error"]["code"], -32022);
    server.finish();
}

fn exactly_two_tools_are_listed_with_plain_schemas_and_honest_annotations() {
    let mut server = ServerBuilder::new().connect();
    let reply = server.request("tools/list", &json!({}));
    let tools = reply["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["execute_python_code", "verification_status"]);
    for tool in tools {
        assert!(tool.get("outputSchema").is_none());
        assert!(!tool["description"].as_str().unwrap().is_empty());
        assert_eq!(tool["title"], tool["annotations"]["title"]);
    }
    // Many frameworks show only the description of a tool to the model.
    assert!(tools[0]["description"].as_str().unwrap().starts_with(
        "Execute Python code in a sandboxed subprocess with access to all QWED SDK libraries. "
    ));
    insta::assert_json_snapshot!(
        json!([tools[0]["inputSchema"], tools[1]["inputSchema"]]),
        @r#"
    [
      {
        "properties": {
          "background": {
            "default": false,
            "description": "Return a job_id at once and run the script in the background; poll it with verification_status.",
            "type": "boolean"
          },
          "code": {
            "description": "The complete Python script.",
            "type": "string"
          },
          "inputs": {
            "description": "Files for the script, by any plain names: a text, {\"base64\": …} or {\"json\": …} each. Read them as open(\"data.csv\"), pd.read_csv(\"data.csv\") or inputs[\"data.csv\"].",
            "properties": {
              "data.csv": {
                "description": "The content of one file.",
                "type": "string"
              }
            },
            "type": "object"
          }
        },
        "required": [
          "code"
        ],
        "type": "object"
      },
      {
        "properties": {
          "job_id": {
            "description": "The UUID that execute_python_code returned with background=true.",
            "type": "string"
          }
        },
        "required": [
          "job_id"
        ],
        "type": "object"
      }
    ]
    "#
    );
    let annotations = |tool: &Value| {
        ["readOnlyHint", "destructiveHint", "idempotentHint"]
            .map(|hint| tool["annotations"][hint].clone())
    };
    assert_eq!(annotations(&tools[0]), [json!(false), json!(true), json!(false)]);
    assert_eq!(annotations(&tools[1]), [json!(true), json!(false), json!(true)]);
    server.finish();
}

fn calls_above_the_bound_are_answered_busy_at_once_and_a_cancel_behind_them_is_seen() {
    let mut server = ServerBuilder::new().connect();
    let scratch = server.scratch.path().to_owned();
    let first = server.start_execute("import time\ntime.sleep(60)");
    let runs = || !alive_with_marker(&scratch).is_empty();
    assert!(eventually(Duration::from_secs(5), runs).is_some());

    let waiting: Vec<_> = (0..300).map(|_| server.start_execute("print(1)")).collect();
    // The error must arrive first, because no other call can end while the first call runs.
    let busy = server.message_where(|_| true);
    assert_eq!(busy["error"]["code"], -32603, "{busy}");
    assert!(busy["error"]["message"].as_str().unwrap().starts_with("Server busy: "), "{busy}");

    server.cancel(first);
    let gone = || alive_with_marker(&scratch).is_empty();
    assert!(eventually(Duration::from_secs(1), gone).is_some());
    // Each accepted call gets its result, one after the other.
    let (mut ran, mut refused) = (0, 1);
    for id in waiting {
        if id == busy["id"] {
            continue;
        }
        match server.reply(id).get("error") {
            Some(error) => refused += usize::from(error["code"] == -32603),
            None => ran += 1,
        }
    }
    assert_eq!((ran, refused), (PLACES - 1, 301 - PLACES));
    server.finish();
}

fn requests_in_flight_are_bounded_in_bytes_too() {
    let mut server = ServerBuilder::new().connect();
    let _running = server.start_execute("import time\ntime.sleep(60)");
    let large = format!("x = '''{}'''", "x".repeat(1_000_000));
    for _ in 0..40 {
        server.start_execute(&large);
    }
    let busy = server.message_where(|message| message["error"]["code"] == -32603);
    assert!(busy["error"]["message"].as_str().unwrap().starts_with("Server busy: "), "{busy}");
    server.close_input();
    server.wait_for_exit(Duration::from_secs(10));
}

fn a_cancelled_call_is_dead_soon_and_has_no_reply() {
    let mut server = ServerBuilder::new().unchecked().connect();
    let scratch = server.scratch.path().to_owned();
    // The documents promise 100 ms on an idle machine, but this machine also runs tests.
    quickest(Duration::from_secs(1), || {
        let id = server.start_execute("import os, time\nos.fork()\nos.setsid()\ntime.sleep(60)");
        let runs = || alive_with_marker(&scratch).len() >= 2;
        assert!(eventually(Duration::from_secs(5), runs).is_some());
        server.cancel(id);
        let gone = || alive_with_marker(&scratch).is_empty();
        let took = eventually(Duration::from_secs(2), gone).expect("the processes of the call end");
        // The next call runs. The cancelled call gets no message.
        assert!(!server.execute("print(1)").is_error);
        let said = server.next_message(Duration::from_millis(50));
        assert_eq!(said, None);
        took
    });
    // A call that waits for its turn can be cancelled too.
    let running = server.start_execute("import time\ntime.sleep(1)\nprint('ran')");
    let waiting = server.start_execute("print('never')");
    server.cancel(waiting);
    assert!(CallResult::from_reply(&server.reply(running)).text().contains("ran"));
    assert!(!server.execute("print(1)").is_error);
    assert_eq!(server.next_message(Duration::from_millis(50)), None);
    // Cancelling an unknown request has no effect.
    server.cancel(99_999);
    server.assert_alive();
    server.finish();
}

fn a_cancelled_call_sends_nothing_while_it_ends() {
    let governed = Governed::new("ledger");
    // At the end of the run, handling thousands of files takes longer than the interval of progress messages.
    let test = "
import os, pathlib, time

def test_it():
    folder = pathlib.Path(os.environ['QWED_ARTIFACTS'])
    for number in range(9_000):
        (folder / str(number)).touch()
    time.sleep(600)
";
    std::fs::write(governed.workspace.join("tests/test_long.py"), test).unwrap();
    let mut server = governed.connect();
    let arguments = json!({ "test_path": "tests/test_long.py" });
    let mut call = params(&governed.user, "run_pytest", &arguments);
    call["_meta"] = json!({ "progressToken": "p" });
    let id = server.start_request("tools/call", &call);
    let is_progress = |message: &Value| message["method"] == "notifications/progress";
    // The server cannot report when the files exist. Creating them takes about a second, so wait for several progress
    // messages.
    for _ in 0..10 {
        server.message_where(is_progress);
    }
    server.cancel(id);
    server.assert_alive();
    while server.next_message(Duration::ZERO).is_some() {}
    let is_over = || {
        let rows = governed.audit_rows();
        rows.iter().any(|row| row["event"] == "TOOL_FINISHED" && row["outcome"] == "CANCELLED")
    };
    assert!(eventually(Duration::from_secs(60), is_over).is_some());
    assert_eq!(server.next_message(Duration::ZERO), None);
    server.finish();
}

fn cancelling_again_and_again_leaks_no_place() {
    let mut server = ServerBuilder::new().connect();
    for _ in 0..400 {
        let id = server.start_execute("import time\ntime.sleep(60)");
        server.cancel(id);
    }
    // The last cancelled calls may still be ending. Afterwards, all slots must be free.
    let scratch = server.scratch.path().to_owned();
    let is_idle = || alive_with_marker(&scratch).is_empty();
    let mut free = Vec::new();
    for _ in 0..20 {
        assert!(eventually(Duration::from_secs(10), is_idle).is_some());
        free.push(free_places(&mut server));
        if free.last() == Some(&PLACES) {
            break;
        }
    }
    assert_eq!(free.last(), Some(&PLACES), "{free:?}");
    assert!(!server.execute("print(1)").is_error);
    server.finish();
}

/// Returns the number of calls that an idle server accepts at the same time.
fn free_places(server: &mut McpProcess) -> usize {
    let first = server.start_execute("import time\ntime.sleep(60)");
    let ids: Vec<_> = (0..PLACES + 40).map(|_| server.start_execute("pass")).collect();
    let busy = server.message_where(|message| message["error"]["code"] == -32603);
    server.cancel(first);
    let mut is_let_in = |id: &i64| busy["id"] != *id && server.reply(*id).get("error").is_none();
    1 + ids.iter().filter(|id| is_let_in(id)).count()
}

fn a_long_call_with_a_token_reports_progress_that_rises_and_stops() {
    let mut server = ServerBuilder::new().connect();
    for token in [json!("a"), json!(7)] {
        let params = json!({
            "name": "execute_python_code",
            "arguments": { "code": "import time\ntime.sleep(2.6)" },
            "_meta": { "progressToken": token }
        });
        let id = server.start_request("tools/call", &params);
        let mut last = 0.0;
        let mut count = 0;
        loop {
            let message = server.message_where(|_| true);
            if message["id"] == id {
                break;
            }
            assert_eq!(message["method"], "notifications/progress");
            assert_eq!(message["params"]["progressToken"], token);
            let progress = message["params"]["progress"].as_f64().unwrap();
            assert!(progress > last, "{progress} after {last}");
            (last, count) = (progress, count + 1);
        }
        assert!(count >= 2, "{count}");
        assert_eq!(server.next_message(Duration::from_millis(800)), None);
    }
    // Without a token, the server reports no progress.
    let id = server.start_execute("import time\ntime.sleep(1.2)");
    assert_eq!(server.message_where(|_| true)["id"], id);
    server.finish();
}

fn a_client_that_does_not_read_makes_the_server_wait_and_not_grow() {
    let builder = ServerBuilder::new().variable("QWED_MCP_SYNC_CONCURRENCY", "4");
    let mut child = builder.spawn();
    let mut stdin = child.stdin.take().unwrap();
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" }
    }});
    writeln!(stdin, "{initialize}").unwrap();
    // The client sends invalid lines and calls with large replies. It reads nothing.
    let writer = std::thread::spawn(move || {
        for id in 1..=400 {
            let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
                "name": "execute_python_code", "arguments": { "code": "print('x' * 1000000)" }
            }});
            if writeln!(stdin, "{call}\n{{\"bad\":").is_err() {
                break;
            }
        }
        stdin
    });
    let mut largest = 0;
    for _ in 0..80 {
        std::thread::sleep(Duration::from_millis(100));
        largest = largest.max(resident_kibibytes(child.id()));
    }
    assert!(largest < 160 * 1024, "{largest} KiB");

    // When the client reads again, it gets all replies.
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let (mut answered, mut errors) = (0, 0);
    while answered < 400 || errors < 400 {
        let mut line = String::new();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "{answered} answers, {errors} errors");
        let message: Value = serde_json::from_str(&line).unwrap();
        errors += usize::from(message["error"]["code"] == -32700);
        // Each reply is a result, or an error because the server is busy.
        answered += usize::from(message["id"].as_i64().is_some_and(|id| id > 0));
    }
    drop(writer.join().unwrap());
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    assert!(child.wait().unwrap().success());
}

/// The default size of a pipe (pipe(7)).
#[cfg(target_os = "linux")]
const PIPE_BYTES: usize = 64 * 1024;

#[cfg(target_os = "linux")]
fn a_large_reply_is_in_the_pipe_at_once() {
    let mut child = ServerBuilder::new().spawn();
    let mut stdin = child.stdin.take().unwrap();
    for message in [
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" }
        }}),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "execute_python_code", "arguments": { "code": "print('x' * 500000)" }
        }}),
    ] {
        writeln!(stdin, "{message}").unwrap();
    }
    // One `read` returns everything that is in the pipe.
    let mut stdout = child.stdout.take().unwrap();
    let (mut buffer, mut taken, mut largest) = (vec![0; 1 << 20], 0, 0);
    while taken < 500_000 {
        let read = stdout.read(&mut buffer).unwrap();
        assert!(read > 0, "the server has ended");
        (taken, largest) = (taken + read, largest.max(read));
    }
    assert!(largest > PIPE_BYTES, "{largest}");
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

fn a_reply_is_never_cut_by_the_end_of_the_server() {
    for round in 0..4 {
        let mut server = ServerBuilder::new().variable("QWED_MCP_SYNC_CONCURRENCY", "4").connect();
        for _ in 0..40 {
            server.start_execute("print('x' * 1_000_000)");
        }
        server.message_where(|_| true);
        server.close_input();
        // The harness parses each line, so an incomplete line would fail the test.
        while server.next_message(Duration::from_secs(3)).is_some() {}
        assert_eq!(server.wait_for_exit(Duration::from_secs(5)).code(), Some(0), "{round}");
    }
}

/// The input is written at once and then closed, as in `printf … | qwed-mcp`.
fn requests_before_the_end_of_input_are_answered() {
    let request = |id: i64, method: &str, params: Value| {
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
    };
    let hello = request(
        1,
        "initialize",
        json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" }
        }),
    );
    let script = json!({ "name": "execute_python_code", "arguments": { "code": "print(6 * 7)" } });
    let bad = |count: usize| vec!["not JSON".to_owned(); count];
    for (lines, errors) in [
        (vec!["{".to_owned()], vec![-32700]),
        (bad(20), vec![-32700; 20]),
        (vec![request(1, "tools/list", json!({}))], vec![-32602]),
        (vec!["[]".to_owned()], vec![-32600]),
        (vec![hello.clone(), request(2, "none", json!({}))], vec![-32601]),
        ([vec![hello.clone()], bad(20)].concat(), vec![-32700; 20]),
        // The server may cancel the call after a second. The lines after the call are answered in either case.
        ([vec![hello, request(2, "tools/call", script)], bad(20)].concat(), vec![-32700; 20]),
    ] {
        for end in ["\n", ""] {
            for _ in 0..5 {
                let mut child = ServerBuilder::new().spawn();
                let mut stdin = child.stdin.take().unwrap();
                stdin.write_all((lines.join("\n") + end).as_bytes()).unwrap();
                drop(stdin);
                let output = child.wait_with_output().unwrap();
                assert_eq!(output.status.code(), Some(0), "{lines:?}");
                let answers = String::from_utf8(output.stdout).unwrap();
                let answers: Vec<Value> =
                    answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
                let codes = answers.iter().filter_map(|answer| answer["error"]["code"].as_i64());
                assert_eq!(codes.collect::<Vec<_>>(), errors, "{lines:?}");
                let is_greeted = answers.iter().any(|answer| answer["id"] == 1);
                assert_eq!(is_greeted, lines[0].contains("\"id\":1"), "{lines:?}");
            }
        }
    }
}

fn a_defect_is_an_error_reply_and_nothing_of_it_is_on_stdout() {
    let mut server = ServerBuilder::new().connect();
    let id = server.start_call("test_tool_that_panics", &json!({}));
    let reply = server.reply(id);
    assert_eq!(reply["error"]["code"], -32603, "{reply}");
    server.assert_alive();
    // The harness has parsed every line of standard output, so only the log contains the panic.
    assert!(server.finish().contains("a test asked for this"));
}

fn output_of_a_script_is_never_parsed_as_a_message() {
    let mut server = ServerBuilder::new().unchecked().connect();
    let forged = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}";
    let code = format!(
        "import os\nprint('''{forged}''')\nfor fd in range(0, 20):\n    try:\n        os.write(fd, \
         b'''{forged}\\n''')\n    except OSError: pass"
    );
    let result = server.execute(&code);
    assert!(result.text().contains(forged));
    assert_eq!(server.next_message(Duration::from_millis(100)), None);
    server.finish();
}
