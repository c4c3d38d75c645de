//! Tests the requirements of the MCP specification for a server with tools only, in both eras. Each row is a MUST
//! requirement, or a SHOULD requirement with a visible effect. If the server deviates on purpose, the row states the
//! reason, and its check covers the actual behaviour.

use std::time::Duration;

use serde_json::{Value, json};

use crate::governed::{Governed, call_as, run_id, run_pytest};
use crate::harness::{McpProcess, ServerBuilder, deadline};

tests! {
    needs [Sandbox]:
        the_stateless_era_is_as_specified,
        the_era_with_a_handshake_is_as_specified,
        eras_meet_as_specified;
    needs [Tier3, Packages]:
        governed_tools_are_as_specified;
}

/// A requirement, and a check whether the server meets it.
struct Row {
    section: &'static str,
    requirement: String,
    check: Check,
    /// The reason for a deliberate deviation, or `None`.
    differs: Option<&'static str>,
}

enum Check {
    /// The reply to the request must be this error.
    Error { method: &'static str, params: Value, code: i64 },
    /// The reply to the request must satisfy this condition.
    Reply { method: &'static str, params: Value, holds: fn(&Value) -> bool },
    /// The reply to the request must have this text at this path.
    Value { method: &'static str, params: Value, place: &'static str, text: &'static str },
    /// A check that needs more than one request. If a message violates the requirement, the function returns this
    /// message as its error.
    Sequence(fn(&mut McpProcess) -> Result<(), Value>),
}

impl Row {
    fn new(section: &'static str, requirement: impl Into<String>, check: Check) -> Self {
        Self { section, requirement: requirement.into(), check, differs: None }
    }

    fn differs(self, reason: &'static str) -> Self {
        Self { differs: Some(reason), ..self }
    }

    fn seen(&self, server: &mut McpProcess) -> Result<(), Value> {
        match &self.check {
            Check::Error { method, params, code } => {
                let reply = server.request(method, params);
                let error = &reply["error"];
                let holds = error["code"] == *code && error["message"].is_string();
                seen(holds && reply.get("result").is_none(), &reply)
            }
            Check::Reply { method, params, holds } => {
                let reply = server.request(method, params);
                seen(holds(&reply), &reply)
            }
            Check::Value { method, params, place, text } => {
                let reply = server.request(method, params);
                seen(reply.pointer(place) == Some(&json!(text)), &reply)
            }
            Check::Sequence(check) => check(server),
        }
    }
}

fn seen(holds: bool, evidence: &Value) -> Result<(), Value> {
    if holds { Ok(()) } else { Err(evidence.clone()) }
}

fn error(method: &'static str, params: Value, code: i64) -> Check {
    Check::Error { method, params, code }
}

fn reply(method: &'static str, params: Value, holds: fn(&Value) -> bool) -> Check {
    Check::Reply { method, params, holds }
}

fn value(method: &'static str, params: Value, place: &'static str, text: &'static str) -> Check {
    Check::Value { method, params, place, text }
}

/// Fails with a list of the rows that the server does not meet.
fn assert_met(server: &mut McpProcess, rows: &[Row]) {
    let mut unmet = Vec::new();
    for row in rows {
        // Discard messages that an earlier row has left.
        while server.next_message(Duration::ZERO).is_some() {}
        if let Err(evidence) = row.seen(server) {
            let Row { section, requirement, differs, .. } = row;
            let differs = differs.map(|reason| format!(" (differs: {reason})"));
            unmet.push(format!(
                "{section}: {requirement}{}: {evidence}",
                differs.unwrap_or_default()
            ));
        }
    }
    assert!(unmet.is_empty(), "{} of {}:\n{}", unmet.len(), rows.len(), unmet.join("\n"));
}

const PAGE: &str = "ui://qwed-mcp/verification.html";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// Adds the metadata of the stateless era to the parameters. Omits the optional `clientInfo`.
fn stateless(mut params: Value) -> Value {
    params["_meta"][VERSION] = json!("2026-07-28");
    params["_meta"][CAPABILITIES] = json!({});
    params
}

fn running(code: &str) -> Value {
    json!({ "name": "execute_python_code", "arguments": { "code": code } })
}

fn status_of(job_id: &str) -> Value {
    json!({ "name": "verification_status", "arguments": { "job_id": job_id } })
}

fn text_of(reply: &Value, block: usize) -> &str {
    reply["result"]["content"][block]["text"].as_str().unwrap_or_default()
}

fn is_refusal(reply: &Value) -> bool {
    reply["result"]["isError"] == true && text_of(reply, 0).starts_with("BLOCKED: ")
}

/// Returns the next message, or null if no message arrives in time.
fn next(server: &mut McpProcess) -> Value {
    server.next_message(deadline(Duration::from_secs(30))).unwrap_or(Value::Null)
}

/// Asserts that no message arrives within a time that is longer than the interval of progress messages.
fn silence(server: &mut McpProcess) -> Result<(), Value> {
    server.next_message(Duration::from_millis(800)).map_or(Ok(()), Err)
}

/// Returns the progress messages that arrive before the reply to `id`.
fn progress_before(server: &mut McpProcess, id: i64) -> Vec<Value> {
    let mut progress = Vec::new();
    loop {
        let message = next(server);
        if message.is_null() || message["id"] == id {
            return progress;
        }
        progress.push(message);
    }
}

fn the_stateless_era_is_as_specified() {
    let mut server = ServerBuilder::new().start();
    // The first call waits while the server examines the interpreter and the sandbox.
    server.request("tools/call", &stateless(running("pass")));
    let rows = [
        results_of_the_stateless_era(),
        tools_of_the_stateless_era(),
        metadata_of_the_stateless_era(),
        resources_of_the_stateless_era(),
        methods_of_the_stateless_era(),
        calls_of_the_stateless_era(),
        messages_of_the_stateless_era(),
    ];
    assert_met(&mut server, &rows.into_iter().flatten().collect::<Vec<_>>());
    server.finish();
}

fn results_of_the_stateless_era() -> Vec<Row> {
    let mut rows = vec![
        Row::new(
            "server/discover",
            "servers MUST implement it",
            reply("server/discover", stateless(json!({})), |reply| {
                let versions = &reply["result"]["supportedVersions"];
                versions.as_array().is_some_and(|all| all.contains(&json!("2026-07-28")))
            }),
        ),
        Row::new(
            "utilities/caching",
            "ttlMs and cacheScope MUST be in a DiscoverResult",
            reply("server/discover", stateless(json!({})), has_caching_hints),
        ),
        Row::new(
            "basic, responses",
            "a response MUST have the id of its request, a text too",
            Check::Sequence(|server| {
                let params = stateless(json!({}));
                server.send(&json!({
                    "jsonrpc": "2.0", "id": "d-1", "method": "server/discover", "params": params
                }));
                let reply = next(server);
                seen(reply["id"] == "d-1", &reply)
            }),
        ),
    ];
    for (method, params) in [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": PAGE })),
        ("tools/call", running("print(1)")),
        ("tools/call", running("eval('1')")),
        ("tools/call", json!({ "name": "nope" })),
    ] {
        rows.push(Row::new(
            "basic, ResultType",
            format!("the result of {method} {params} MUST have a resultType"),
            value(method, stateless(params.clone()), "/result/resultType", "complete"),
        ));
        rows.push(Row::new(
            "basic, _meta",
            format!("the result of {method} {params} SHOULD say who the server is"),
            reply(method, stateless(params), |reply| {
                let info = &reply["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
                info["name"] == "qwed-mcp" && info["version"].is_string()
            }),
        ));
    }
    rows
}

/// Returns the capabilities that the server declares. Only the stateless era has tasks.
fn capabilities(is_stateless: bool) -> Value {
    let mut extensions = json!({ "io.modelcontextprotocol/ui": {} });
    if is_stateless {
        extensions["io.modelcontextprotocol/skills"] = json!({});
        extensions["io.modelcontextprotocol/tasks"] = json!({});
    }
    json!({ "extensions": extensions, "prompts": {}, "resources": {}, "tools": {} })
}

fn resources_of_the_stateless_era() -> Vec<Row> {
    let read = |uri: &str| stateless(json!({ "uri": uri }));
    let mut rows = vec![
        Row::new(
            "server/resources, reading",
            "a resource MUST have its uri, and a text or a blob",
            reply("resources/read", read(PAGE), |reply| {
                let contents = &reply["result"]["contents"];
                contents.as_array().is_some_and(|all| all.len() == 1)
                    && contents[0]["uri"] == PAGE
                    && contents[0]["mimeType"] == "text/html;profile=mcp-app"
                    && contents[0]["text"]
                        .as_str()
                        .is_some_and(|text| text.starts_with("<!doctype html>"))
            }),
        ),
        Row::new(
            "server/resources, error handling",
            "a resource that there is not SHOULD be -32602",
            error("resources/read", read("ui://qwed-mcp/other.html"), -32602),
        ),
        Row::new(
            "MCP Apps, ui",
            "the page of a tool MUST be at a ui:// address that resources/read has, and a tool says who calls it",
            reply("tools/list", stateless(json!({})), |reply| {
                let ui = json!({ "resourceUri": PAGE, "visibility": ["model"] });
                let tools = reply["result"]["tools"].as_array().unwrap();
                tools.iter().all(|tool| {
                    tool["_meta"]["ui"] == ui && tool["_meta"]["ui/resourceUri"] == PAGE
                })
            }),
        ),
        Row::new(
            "schema, Implementation and Icon",
            "who discovers the server sees its title, website and icons, which are its own",
            reply("server/discover", stateless(json!({})), |reply| {
                let info = &reply["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
                let is_own =
                    |icon: &Value| icon["src"].as_str().unwrap().starts_with("data:image/");
                info["title"] == "QWED verification"
                    && info["websiteUrl"] == "https://docs.qwedai.com"
                    && info["icons"].as_array().is_some_and(|icons| icons.iter().all(is_own))
                    && info["icons"][0]["mimeType"] == "image/png"
                    && reply["result"]["ttlMs"] == 3_600_000
                    && reply["result"]["cacheScope"] == "public"
            }),
        ),
    ];
    for (method, params) in [
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": PAGE })),
    ] {
        rows.push(Row::new(
            "utilities/caching",
            format!("ttlMs and cacheScope MUST be in the result of {method}"),
            reply(method, stateless(params), has_caching_hints),
        ));
    }
    for method in ["resources/list", "resources/templates/list"] {
        rows.push(Row::new(
            "utilities/pagination",
            format!("an invalid cursor of {method} SHOULD be refused with -32602"),
            error(method, stateless(json!({ "cursor": "x" })), -32602),
        ));
    }
    rows
}

fn has_caching_hints(reply: &Value) -> bool {
    let result = &reply["result"];
    result["ttlMs"].is_u64() && matches!(result["cacheScope"].as_str(), Some("public" | "private"))
}

fn tools_of_the_stateless_era() -> Vec<Row> {
    vec![
        Row::new(
            "utilities/caching",
            "ttlMs and cacheScope MUST be in a ListToolsResult",
            reply("tools/list", stateless(json!({})), has_caching_hints),
        ),
        Row::new(
            "server/tools, listing",
            "the order of tools SHOULD be deterministic",
            Check::Sequence(|server| {
                let mut list = || server.request("tools/list", &stateless(json!({})));
                let first = list()["result"].clone();
                let others: Vec<Value> = (0..4).map(|_| list()["result"].clone()).collect();
                seen(others.iter().all(|other| *other == first), &json!([first, others]))
            }),
        ),
        Row::new(
            "server/tools, listing",
            "the list MUST NOT vary by connection",
            Check::Sequence(|server| {
                let stateless = server.request("tools/list", &stateless(json!({})));
                let mut other = ServerBuilder::new().connect();
                other.execute("print(1)");
                let other = other.request("tools/list", &json!({}));
                let is_same = stateless["result"]["tools"] == other["result"]["tools"];
                seen(is_same, &json!([stateless, other]))
            }),
        ),
        Row::new(
            "server/tools, capabilities",
            "servers with tools MUST declare the capability",
            reply("server/discover", stateless(json!({})), |reply| {
                reply["result"]["capabilities"] == capabilities(true)
            }),
        ),
        Row::new(
            "server/tools, names",
            "names SHOULD have 1 to 128 of A-Z a-z 0-9 _ - .",
            reply("tools/list", stateless(json!({})), |reply| {
                let is_good = |name: &str| {
                    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
                    (1..=128).contains(&name.len()) && name.chars().all(is_of_name)
                };
                let tools = reply["result"]["tools"].as_array().unwrap();
                tools.len() == 2 && tools.iter().all(|tool| is_good(tool["name"].as_str().unwrap()))
            }),
        ),
    ]
}

fn metadata_of_the_stateless_era() -> Vec<Row> {
    let mut rows = Vec::new();
    for method in ["tools/list", "tools/call", "server/discover", "subscriptions/listen"] {
        let params = json!({ "name": "verification_status", "notifications": {} });
        for missing in [None, Some(VERSION), Some(CAPABILITIES)] {
            let mut about = stateless(params.clone());
            match missing {
                None => about["_meta"] = json!({}),
                Some(key) => drop(about["_meta"].as_object_mut().unwrap().remove(key)),
            }
            let what = missing.unwrap_or("any field");
            let requirement = format!("{method} without {what} MUST be refused with -32602");
            rows.push(Row::new("basic, _meta", requirement, error(method, about, -32602)));
        }
        let mut unknown = stateless(params);
        unknown["_meta"][VERSION] = json!("1900-01-01");
        rows.push(Row::new(
            "basic/versioning",
            format!(
                "{method} in an unknown version MUST be refused with the versions that there are"
            ),
            reply(method, unknown, |reply| {
                let error = &reply["error"];
                let supported = error["data"]["supported"].as_array();
                error["code"] == -32022
                    && error["data"]["requested"] == "1900-01-01"
                    && supported.is_some_and(|all| all.contains(&json!("2026-07-28")))
            }),
        ));
    }
    rows.push(Row::new(
        "basic, _meta",
        "clientInfo is optional",
        // No request in this test has `clientInfo`.
        reply("tools/list", stateless(json!({})), |reply| reply["result"]["tools"].is_array()),
    ));
    rows
}

fn methods_of_the_stateless_era() -> Vec<Row> {
    let mut rows = Vec::new();
    for (method, params) in [
        ("ping", json!({})),
        ("logging/setLevel", json!({ "level": "info" })),
        ("logging/setLevel", json!({})),
        ("initialize", json!({})),
        ("resources/subscribe", json!({ "uri": "x" })),
        ("resources/unsubscribe", json!({ "uri": "x" })),
        ("tasks/result", json!({ "taskId": "x" })),
        ("tasks/list", json!({})),
        ("roots/list", json!({})),
        ("foo/bar", json!({})),
        ("completion/complete", json!({})),
    ] {
        rows.push(Row::new(
            "basic, error codes; changelog 5",
            format!(
                "{method} {params} is removed, unknown, or of a capability that is not declared"
            ),
            error(method, stateless(params), -32601),
        ));
    }
    rows.push(Row::new(
        "utilities/pagination",
        "an invalid cursor SHOULD be refused with -32602",
        error("tools/list", stateless(json!({ "cursor": "x" })), -32602),
    ));
    rows.push(Row::new(
        "basic, message patterns; patterns/subscriptions",
        "all implementations MUST support subscriptions: the acknowledgment MUST come first, has what \
         is supported, and nothing comes for one that was cancelled",
        Check::Sequence(|server| {
            let filter = json!({ "notifications": { "toolsListChanged": true } });
            let id = server.start_request("subscriptions/listen", &stateless(filter));
            let first = next(server);
            let key = "io.modelcontextprotocol/subscriptionId";
            let holds = first["method"] == "notifications/subscriptions/acknowledged"
                && first["params"] == json!({ "_meta": { key: id }, "notifications": {} });
            seen(holds, &first)?;
            server.cancel(id);
            silence(server)
        }),
    ));
    rows.push(Row::new(
        "patterns/subscriptions, graceful closure",
        "a server that ends a subscription SHOULD send its result",
        Check::Sequence(|_| {
            let mut server = ServerBuilder::new().start();
            let listen = stateless(json!({ "notifications": {} }));
            let id = server.start_request("subscriptions/listen", &listen);
            next(&mut server);
            server.signal("TERM");
            let last = server.last_message().unwrap_or_default();
            let result = &last["result"];
            let holds = result["_meta"]["io.modelcontextprotocol/subscriptionId"] == id
                && result["resultType"] == "complete";
            seen(last["id"] == id && holds, &last)
        }),
    ));
    rows
}

fn calls_of_the_stateless_era() -> Vec<Row> {
    let unknown_extension = json!({ "extensions": { "com.example/none": {} } });
    let mut extended = stateless(running("print(1)"));
    extended["_meta"][CAPABILITIES] = unknown_extension;
    let mut answered = running("print(1)");
    answered["inputResponses"] = json!({ "a": { "action": "accept" } });
    answered["requestState"] = json!("x");
    vec![
        Row::new(
            "server/tools, error handling",
            "an unknown tool is a protocol error",
            reply("tools/call", stateless(json!({ "name": "nope" })), |reply| {
                is_refusal(reply) && text_of(reply, 1) == "Error code: QWED-MCP-RISK-001"
            }),
        )
        .differs("each call passes the gateway, whose refusals are results that models can read"),
        Row::new(
            "server/tools, error handling",
            "input that is not valid is a tool execution error",
            reply(
                "tools/call",
                stateless(json!({ "name": "execute_python_code", "arguments": { "code": 5 } })),
                is_refusal,
            ),
        ),
        Row::new(
            "server/tools, error handling",
            "a malformed request is a protocol error",
            error("tools/call", stateless(json!({ "name": 7 })), -32602),
        ),
        Row::new(
            "basic/versioning, extensions",
            "an extension of the client's is met with core behaviour",
            value("tools/call", extended, "/result/resultType", "complete"),
        ),
        Row::new(
            "patterns/mrtr",
            "responses to what was not asked SHOULD be ignored",
            reply("tools/call", stateless(answered), |reply| {
                text_of(reply, 0).starts_with("STDOUT:\n1")
            }),
        ),
        Row::new(
            "utilities/logging",
            "without a logLevel there MUST NOT be notifications/message",
            Check::Sequence(|server| {
                let id = server.start_request("tools/call", &stateless(running("eval('1')")));
                let before = progress_before(server, id);
                seen(before.is_empty(), &json!(before))
            }),
        ),
        Row::new(
            "basic, statelessness",
            "servers SHOULD NOT need the same process for what belongs together",
            Check::Sequence(|server| {
                let mut order = running("print(1)");
                order["arguments"]["background"] = json!(true);
                let placed = server.request("tools/call", &stateless(order));
                let job_id = text_of(&placed, 0).split(' ').find(|word| word.len() == 37);
                let job_id = job_id.unwrap_or_default().trim_end_matches('.');
                let asked = stateless(status_of(job_id));
                let reply = ServerBuilder::new().start().request("tools/call", &asked);
                let is_told = text_of(&reply, 0)
                    == format!("Error: Job ID '{job_id}' not found or expired.")
                    && text_of(&reply, 1).contains("as long as");
                seen(is_told, &reply)
            }),
        )
        .differs("jobs live in memory only; a second text and the tool's description say so"),
    ]
}

fn messages_of_the_stateless_era() -> Vec<Row> {
    [progress_and_cancellation(), json_rpc(), stdio()].into_iter().flatten().collect()
}

fn progress_and_cancellation() -> Vec<Row> {
    vec![
        Row::new(
            "patterns/progress",
            "progress MUST rise, has the token as it was, and MUST stop with the reply",
            Check::Sequence(|server| {
                let mut call = stateless(running("import time\ntime.sleep(2.2)"));
                call["_meta"]["progressToken"] = json!("p");
                let id = server.start_request("tools/call", &call);
                rises(&progress_before(server, id), &json!("p"))?;
                silence(server)
            }),
        ),
        Row::new(
            "patterns/progress",
            "without a token there is no progress",
            Check::Sequence(|server| {
                let call = stateless(running("import time\ntime.sleep(1.2)"));
                let id = server.start_request("tools/call", &call);
                let before = progress_before(server, id);
                seen(before.is_empty(), &json!(before))
            }),
        ),
        Row::new(
            "transports/stdio, cancellation",
            "servers MUST NOT send further messages for a cancelled request, and SHOULD stop its work",
            Check::Sequence(|server| {
                let mut call = stateless(running("import time\ntime.sleep(600)"));
                call["_meta"]["progressToken"] = json!("c");
                let id = server.start_request("tools/call", &call);
                let sign = next(server);
                seen(sign["params"]["progressToken"] == "c", &sign)?;
                server.cancel(id);
                // Only one call can run at a time. So the second call runs only if the cancelled call has ended.
                let id = server.start_request("tools/call", &stateless(running("print(1)")));
                let reply = next(server);
                seen(reply["id"] == id, &reply)?;
                silence(server)
            }),
        ),
        Row::new(
            "patterns/cancellation",
            "invalid cancellations SHOULD be ignored",
            Check::Sequence(|server| {
                for params in [
                    json!({ "requestId": 999_999 }),
                    json!({ "requestId": "nobody" }),
                    json!({ "requestId": 1 }),
                    json!({ "requestId": null }),
                    json!({}),
                    json!([]),
                ] {
                    server.send(&json!({
                        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params
                    }));
                }
                server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" }));
                is_next_answered(server)
            }),
        ),
        Row::new(
            "patterns/cancellation",
            "and before anything else, too",
            Check::Sequence(|_| {
                let mut server = ServerBuilder::new().start();
                server.cancel(1);
                is_next_answered(&mut server)
            }),
        ),
    ]
}

/// Asserts that there are several messages with this token, each with more progress than the previous one.
fn rises(progress: &[Value], token: &Value) -> Result<(), Value> {
    let amounts: Vec<f64> =
        progress.iter().filter_map(|message| message["params"]["progress"].as_f64()).collect();
    let has_token = |message: &Value| message["params"]["progressToken"] == *token;
    let is_rising = amounts.windows(2).all(|pair| pair[0] < pair[1]);
    let is_whole = amounts.len() == progress.len() && amounts.len() >= 2;
    seen(is_whole && is_rising && progress.iter().all(has_token), &json!(progress))
}

/// Asserts that the next message is the reply to a new request, so that earlier lines got no reply.
fn is_next_answered(server: &mut McpProcess) -> Result<(), Value> {
    let id = server.start_request("tools/list", &stateless(json!({})));
    let message = next(server);
    seen(message["id"] == id && message.get("result").is_some(), &message)
}

fn json_rpc() -> Vec<Row> {
    vec![
        Row::new(
            "basic, notifications",
            "a notification MUST NOT be answered",
            Check::Sequence(|server| {
                for method in ["notifications/initialized", "notifications/x", "tools/list", "x"] {
                    server.send(&json!({ "jsonrpc": "2.0", "method": method, "params": {} }));
                    server.send(&json!({ "jsonrpc": "1.0", "method": method, "params": 7 }));
                }
                is_next_answered(server)
            }),
        ),
        Row::new(
            "basic, requests",
            "an id MUST NOT be null",
            Check::Sequence(|server| {
                answer_to(server, r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#, -32600)
            }),
        ),
        Row::new(
            "basic, requests",
            "an id MUST NOT be that of another request in flight",
            Check::Sequence(|server| {
                let id = server.start_request("tools/call", &stateless(running("print(1)")));
                let again = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
                server.send(&again);
                let (first, second) = (next(server), next(server));
                let mut codes = [&first, &second].map(|reply| reply["error"]["code"].clone());
                codes.sort_by_key(Value::is_null);
                seen(codes == [json!(-32600), Value::Null], &json!([first, second]))
            }),
        ),
        Row::new(
            "basic, error codes",
            "what is not JSON is a parse error",
            Check::Sequence(|server| answer_to(server, "not JSON", -32700)),
        ),
        Row::new(
            "transports/stdio",
            "a message is a single request: there are no batches",
            Check::Sequence(|server| {
                answer_to(server, r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600)
            }),
        ),
    ]
}

/// Sends a line whose id cannot be read. Asserts that the reply is an error without an id.
fn answer_to(server: &mut McpProcess, line: &str, code: i64) -> Result<(), Value> {
    server.send_bytes(line.as_bytes());
    server.send_bytes(b"\n");
    let message = next(server);
    seen(message["id"].is_null() && message["error"]["code"] == code, &message)
}

fn stdio() -> Vec<Row> {
    vec![
        Row::new(
            "transports/stdio",
            "servers MUST NOT write anything but messages to stdout, one a line, and no requests",
            Check::Sequence(|_| {
                let code = "import sys\nprint('a\\nb\\r\\u2028c')\nprint('d', file=sys.stderr)";
                let mut lines = String::new();
                for (id, params) in [running(code), running("eval('1')"), json!({ "name": "x\ny" })]
                    .into_iter()
                    .enumerate()
                {
                    let params = stateless(params);
                    let request = json!({
                        "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params
                    });
                    lines.extend([&request.to_string(), "\nnot JSON\n"]);
                }
                let written = written_for(&lines);
                let messages: Vec<Value> = written
                    .split_terminator('\n')
                    .map(|line| serde_json::from_str(line).unwrap_or_default())
                    .collect();
                let is_answer = |message: &Value| {
                    message["jsonrpc"] == "2.0" && message.get("method").is_none()
                };
                let holds = messages.len() == 6 && messages.iter().all(is_answer);
                seen(holds && written.ends_with('\n'), &json!(written))
            }),
        ),
        Row::new(
            "transports/stdio, shutdown",
            "servers SHOULD end soon when their input does",
            Check::Sequence(|_| {
                let mut server = ServerBuilder::new().start();
                is_next_answered(&mut server)?;
                server.close_input();
                let status = server.wait_for_exit(Duration::from_secs(2));
                seen(status.code() == Some(0), &json!(status.to_string()))
            }),
        ),
    ]
}

/// Returns the standard output of a server for this input.
fn written_for(lines: &str) -> String {
    use std::io::{Read as _, Write as _};

    let mut child = ServerBuilder::new().spawn();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(lines.as_bytes()).unwrap();
    let mut written = String::new();
    let mut stdout = child.stdout.take().unwrap();
    // Keep the input open until all calls have replies.
    let mut bytes = [0; 4096];
    while written.lines().count() < lines.lines().count() {
        let count = stdout.read(&mut bytes).unwrap();
        assert!(count > 0, "{written}");
        written.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    drop(stdin);
    stdout.read_to_string(&mut written).unwrap();
    assert!(child.wait().unwrap().success());
    written
}

fn eras_meet_as_specified() {
    // Each row needs a new server without a handshake.
    for row in [
        Row::new(
            "basic/versioning",
            "initialize selects the era with a handshake, after stateless requests too",
            Check::Sequence(|server| {
                is_next_answered(server)?;
                server.initialize("2025-11-25");
                let listed = server.request("tools/list", &json!({}));
                let is_legacy = listed["result"].get("ttlMs").is_none();
                seen(listed["result"]["tools"].is_array() && is_legacy, &listed)
            }),
        ),
        Row::new(
            "basic/versioning",
            "a request with its metadata is served statelessly, after initialize too",
            Check::Sequence(|server| {
                server.initialize("2025-06-18");
                let listed = server.request("tools/list", &stateless(json!({})));
                seen(listed["result"]["resultType"] == "complete", &listed)
            }),
        ),
        Row::new(
            "transports/stdio, backward compatibility",
            "a client may probe with server/discover and go on with initialize",
            Check::Sequence(|server| {
                let discovered = server.request("server/discover", &stateless(json!({})));
                seen(discovered["result"]["supportedVersions"].is_array(), &discovered)?;
                let result = server.initialize("2025-11-25");
                seen(result["protocolVersion"] == "2025-11-25", &result)?;
                let reply = server.request("ping", &json!({}));
                seen(reply["result"] == json!({}), &reply)
            }),
        ),
    ] {
        let mut server = ServerBuilder::new().start();
        assert_met(&mut server, &[row]);
        server.finish();
    }
}

fn the_era_with_a_handshake_is_as_specified() {
    let mut server = ServerBuilder::new().connect();
    server.execute("pass");
    let rows = [lifecycle(), utilities_of_the_era_with_a_handshake(), calls_with_a_handshake()];
    assert_met(&mut server, &rows.into_iter().flatten().collect::<Vec<_>>());
    server.finish();
}

fn hello(version: &str) -> Value {
    json!({
        "protocolVersion": version, "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" }
    })
}

fn lifecycle() -> Vec<Row> {
    let mut rows = Vec::new();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        rows.push(Row::new(
            "lifecycle, version negotiation",
            format!("{version} is supported, so that it MUST be the answer"),
            value("initialize", hello(version), "/result/protocolVersion", version),
        ));
    }
    rows.push(Row::new(
        "lifecycle, version negotiation",
        "another version MUST be answered with one that is supported, which SHOULD be the latest",
        value("initialize", hello("1900-01-01"), "/result/protocolVersion", "2025-11-25"),
    ));
    rows.push(Row::new(
        "lifecycle, initialization",
        "the server MUST respond with its capabilities and who it is",
        reply("initialize", hello("2025-11-25"), |reply| {
            let result = &reply["result"];
            result["capabilities"] == capabilities(false)
                && result["serverInfo"]["name"] == "qwed-mcp"
                && result["serverInfo"]["version"].is_string()
                && result["instructions"].is_string()
        }),
    ));
    rows
}

fn utilities_of_the_era_with_a_handshake() -> Vec<Row> {
    let mut rows = vec![
        Row::new(
            "utilities/ping",
            "ping MUST be answered with an empty result",
            reply("ping", json!({}), |reply| reply["result"] == json!({})),
        ),
        Row::new(
            "utilities/pagination",
            "an invalid cursor SHOULD be refused with -32602",
            error("tools/list", json!({ "cursor": "x" }), -32602),
        ),
        Row::new(
            "utilities/progress",
            "a token that is an integer is one in the notifications",
            Check::Sequence(|server| {
                let mut call = running("import time\ntime.sleep(1.7)");
                call["_meta"] = json!({ "progressToken": 2 });
                let id = server.start_request("tools/call", &call);
                rises(&progress_before(server, id), &json!(2))
            }),
        ),
    ];
    for (section, method, params) in [
        ("utilities/logging", "logging/setLevel", json!({ "level": "info" })),
        ("utilities/logging", "logging/setLevel", json!({})),
        ("utilities/tasks", "tasks/get", json!({ "taskId": "x" })),
        ("schema", "subscriptions/listen", json!({ "notifications": {} })),
    ] {
        rows.push(Row::new(
            section,
            format!("{method} {params} is of another era, or of a capability that is not declared"),
            error(method, params, -32601),
        ));
    }
    rows
}

fn calls_with_a_handshake() -> Vec<Row> {
    let mut as_task = running("print(1)");
    as_task["task"] = json!({ "ttl": 60_000 });
    vec![
        Row::new(
            "utilities/tasks",
            "without the capability, a call MUST be processed as ever, whatever it says of a task",
            reply("tools/call", as_task, |reply| text_of(reply, 0).starts_with("STDOUT:\n1")),
        ),
        Row::new(
            "server/tools, error handling",
            "an unknown tool is a protocol error",
            reply("tools/call", json!({ "name": "nope" }), is_refusal),
        )
        .differs("each call passes the gateway, whose refusals are results that models can read"),
        Row::new(
            "server/tools, error handling",
            "errors of tools are results with isError and a text",
            reply("tools/call", running("eval('1')"), is_refusal),
        ),
        Row::new(
            "schema",
            "results have nothing of the stateless era",
            Check::Sequence(|server| {
                let replies = [
                    server.request("tools/list", &json!({})),
                    server.request("tools/call", &running("print(1)")),
                ];
                let is_free = |reply: &Value| {
                    let result = reply["result"].as_object().unwrap();
                    ["resultType", "ttlMs", "cacheScope"]
                        .iter()
                        .all(|key| !result.contains_key(*key))
                };
                seen(replies.iter().all(is_free), &json!(replies))
            }),
        ),
        Row::new(
            "schema",
            "results of calls have the members of the schema only",
            reply("tools/call", running("print(1)"), |reply| {
                let mut members: Vec<_> = reply["result"].as_object().unwrap().keys().collect();
                members.sort();
                members == ["_meta", "content", "isError"]
            }),
        ),
    ]
}

fn governed_tools_are_as_specified() {
    let governed = Governed::new("ledger");
    let test = "
import os, pathlib

def test_it():
    (pathlib.Path(os.environ['QWED_ARTIFACTS']) / 'a.png').write_bytes(bytes(range(256)))
";
    std::fs::write(governed.workspace.join("tests/test_left.py"), test).unwrap();
    let mut server = governed.connect();
    let ran = run_pytest(&mut server, &governed.user, "tests/test_left.py");
    let arguments = json!({ "run_id": run_id(&ran), "path": "files/a.png" });
    let content = call_as(&mut server, &governed.user, "get_artifact_content", arguments);
    assert_eq!(content["result"]["content"][0]["type"], "resource", "{content}");
    let row = Row::new(
        "server/tools, embedded resources",
        "servers with embedded resources SHOULD have the capability resources",
        reply("initialize", hello("2025-11-25"), |reply| {
            reply["result"]["capabilities"] == capabilities(false)
        }),
    );
    let codes = Row::new(
        "basic, error codes",
        "codes of one's own MUST NOT be allocated between -32000 and -32019",
        error("tools/call", json!({ "name": "run_pytest" }), -32001),
    )
    .differs(
        "the documents of the governed tools allocated -32001 to -32007 before there was the rule",
    );
    assert_met(&mut server, &[row, codes]);
    server.finish();
}
