//! Tests background jobs as tasks of MCP (the extension `io.modelcontextprotocol/tasks`, SEP-2663).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{McpProcess, ServerBuilder, alive_with_marker, deadline};

tests! {
    needs [Sandbox]:
        clients_that_declare_the_extension_get_a_task_and_others_the_text,
        a_task_exists_before_its_reply_and_ends_with_the_result_of_the_call,
        whatever_the_script_did_its_task_is_completed,
        a_task_is_cancelled_by_its_own_request_only,
        a_task_that_has_ended_does_not_change,
        an_unknown_or_expired_task_is_an_invalid_parameter,
        clients_without_the_extension_have_no_task_methods,
        a_call_without_background_is_never_a_task,
        a_refused_call_and_a_full_queue_are_results,
        the_time_to_live_counts_from_creation_and_follows_the_job,
        the_metadata_of_a_job_has_its_state;
}

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Returns the parameters of a stateless request that declares `extensions`.
fn declaring(extensions: &Value, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "extensions": extensions },
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" }
    });
    params
}

fn with_tasks(params: Value) -> Value {
    declaring(&json!({ EXTENSION: {} }), params)
}

fn without_tasks(params: Value) -> Value {
    declaring(&json!({}), params)
}

fn background(code: &str) -> Value {
    json!({ "name": "execute_python_code", "arguments": { "code": code, "background": true } })
}

/// Starts a task. Returns the result that announces it.
fn create(server: &mut McpProcess, code: &str) -> Value {
    let reply = server.request("tools/call", &with_tasks(background(code)));
    assert_eq!(reply["result"]["resultType"], "task", "{reply}");
    reply["result"].clone()
}

fn id_of(task: &Value) -> String {
    task["taskId"].as_str().unwrap().to_owned()
}

fn ask(server: &mut McpProcess, method: &str, id: &str) -> Value {
    server.request(method, &with_tasks(json!({ "taskId": id, "inputResponses": {} })))
}

fn get(server: &mut McpProcess, id: &str) -> Value {
    let reply = ask(server, "tasks/get", id);
    assert_eq!(reply["result"]["resultType"], "complete", "{reply}");
    assert_eq!(reply["result"]["taskId"], id, "{reply}");
    reply["result"].clone()
}

fn ended(server: &mut McpProcess, id: &str) -> Value {
    let mut task = Value::Null;
    until(|| {
        task = get(server, id);
        task["status"] != "working"
    });
    task
}

fn until(mut is: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is() {
        assert!(started.elapsed() < deadline(Duration::from_secs(30)));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_acknowledged(reply: &Value) -> bool {
    let members: Vec<&str> =
        reply["result"].as_object().unwrap().keys().map(String::as_str).collect();
    members == ["_meta", "resultType"]
        && reply["result"]["resultType"] == "complete"
        && reply["result"]["_meta"][SERVER_INFO]["name"] == "qwed-mcp"
}

fn clients_that_declare_the_extension_get_a_task_and_others_the_text() {
    let mut server = ServerBuilder::new().start();
    let discovered = server.request("server/discover", &with_tasks(json!({})));
    assert_eq!(discovered["result"]["capabilities"]["extensions"][EXTENSION], json!({}));
    create(&mut server, "pass");
    // A declaration has no effect on later requests. The opt-in of revision 2025-11-25 has no effect either.
    let mut as_before = background("pass");
    as_before["task"] = json!({ "ttl": 60000 });
    for params in [without_tasks(background("pass")), without_tasks(as_before.clone())] {
        let reply = server.request("tools/call", &params);
        assert_eq!(reply["result"]["resultType"], "complete", "{reply}");
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("Verification order is being placed for the request "), "{text}");
        assert!(reply["result"].get("taskId").is_none(), "{reply}");
    }
    // The capabilities in the handshake do not apply to later requests.
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": { "extensions": { EXTENSION: {} } },
        "clientInfo": { "name": "test", "version": "1" }
    });
    server.request("initialize", &hello);
    for params in [background("pass"), as_before] {
        let reply = server.request("tools/call", &params);
        assert!(reply["result"].get("taskId").is_none(), "{reply}");
        assert!(reply["result"]["content"][0]["text"].is_string(), "{reply}");
    }
    server.finish();
}

fn a_task_exists_before_its_reply_and_ends_with_the_result_of_the_call() {
    let mut server = ServerBuilder::new().start();
    // The task must exist before the client gets the reply. Try often, to detect a race.
    for _ in 0..20 {
        let task = create(&mut server, "pass");
        get(&mut server, &id_of(&task));
    }
    let code = "import time\ntime.sleep(0.4)\nprint('done')\nassert False, 'no'";
    let created = create(&mut server, code);
    assert_eq!(created["status"], "working", "{created}");
    assert_eq!(created["_meta"]["qwed.ai/decision"]["verified"], true, "{created}");
    assert_eq!(created["_meta"][SERVER_INFO]["name"], "qwed-mcp", "{created}");
    assert!(created["statusMessage"].is_string() && created["pollIntervalMs"].is_u64());
    assert!(created.get("result").is_none() && created.get("task").is_none(), "{created}");
    let id = id_of(&created);
    assert_eq!(get(&mut server, &id)["createdAt"], created["createdAt"]);
    let task = ended(&mut server, &id);
    assert_eq!(task["status"], "completed", "{task}");
    assert_eq!(task["_meta"][SERVER_INFO]["name"], "qwed-mcp", "{task}");
    let params = json!({ "name": "execute_python_code", "arguments": { "code": code } });
    let waited = server.request("tools/call", &with_tasks(params));
    assert_eq!(task["result"]["content"], waited["result"]["content"]);
    assert_eq!(task["result"]["isError"], waited["result"]["isError"]);
    for key in ["exit_code", "timed_out", "stdout_truncated", "sandbox"] {
        let figure = |result: &Value| result["_meta"]["qwed.ai/execution"][key].clone();
        assert_eq!(figure(&task["result"]), figure(&waited["result"]), "{key}");
    }
    assert_eq!(
        task["result"]["_meta"]["qwed.ai/decision"]["verification_id"],
        created["_meta"]["qwed.ai/decision"]["verification_id"]
    );
    // The status tool accepts the id of a task too.
    assert!(
        server.request(
            "tools/call",
            &without_tasks(json!({
                "name": "verification_status", "arguments": { "job_id": id }
            }))
        )["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with("Status: failed")
    );
    server.finish();
}

fn whatever_the_script_did_its_task_is_completed() {
    let mut server = ServerBuilder::new().variable("QWED_MCP_BACKGROUND_TIMEOUT", "1").start();
    for (code, is_error, text) in [
        ("print(1)", false, "STDOUT:\n1\n\nExecution completed successfully."),
        ("raise SystemExit(3)", false, "Execution failed with return code 3"),
        ("while True: pass", true, "Execution timed out after 1.0 seconds."),
    ] {
        let task = create(&mut server, code);
        let task = ended(&mut server, &id_of(&task));
        assert_eq!(task["status"], "completed", "{code}: {task}");
        assert_eq!(task["result"]["isError"], is_error, "{code}: {task}");
        assert_eq!(task["result"]["content"][0]["text"], text, "{code}");
        assert!(task.get("error").is_none(), "{task}");
    }
    server.finish();
}

fn a_task_is_cancelled_by_its_own_request_only() {
    let mut server = ServerBuilder::new().start();
    let code = "import time\ntime.sleep(60)";
    let mut call = with_tasks(background(code));
    call["_meta"]["progressToken"] = json!("p");
    let request = server.start_request("tools/call", &call);
    let id = id_of(&server.reply(request)["result"]);
    // Discard the progress messages that the call sent before its reply.
    while server.next_message(Duration::ZERO).is_some() {}
    until(|| get(&mut server, &id)["statusMessage"] == "running");
    // The request already has its reply, so cancelling it does not cancel the task. The task sends no progress
    // messages.
    server.cancel(request);
    assert_eq!(server.next_message(Duration::from_millis(1200)), None);
    assert_eq!(get(&mut server, &id)["status"], "working");
    let acknowledged = ask(&mut server, "tasks/cancel", &id);
    assert!(is_acknowledged(&acknowledged), "{acknowledged}");
    let task = ended(&mut server, &id);
    assert_eq!(task["status"], "cancelled", "{task}");
    assert!(task.get("result").is_none() && task.get("error").is_none(), "{task}");
    let scratch = server.scratch.path().to_owned();
    until(|| alive_with_marker(&scratch).is_empty());
    // A queued task can be cancelled too.
    let others: Vec<String> =
        (0..6).map(|_| id_of(&create(&mut server, "import time\ntime.sleep(60)"))).collect();
    assert_eq!(get(&mut server, &others[5])["statusMessage"], "queued");
    ask(&mut server, "tasks/cancel", &others[5]);
    assert_eq!(ended(&mut server, &others[5])["status"], "cancelled");
    server.finish();
}

fn a_task_that_has_ended_does_not_change() {
    let mut server = ServerBuilder::new().start();
    let id = id_of(&create(&mut server, "print(1)"));
    let task = ended(&mut server, &id);
    for method in ["tasks/cancel", "tasks/update", "tasks/cancel"] {
        let acknowledged = ask(&mut server, method, &id);
        assert!(is_acknowledged(&acknowledged), "{method}: {acknowledged}");
        assert_eq!(get(&mut server, &id), task, "{method}");
    }
    // The server ignores responses to inputs that it did not request.
    let params = json!({ "taskId": id, "inputResponses": { "nothing": { "action": "accept" } } });
    let reply = server.request("tasks/update", &with_tasks(params));
    assert!(is_acknowledged(&reply), "{reply}");
    server.finish();
}

fn an_unknown_or_expired_task_is_an_invalid_parameter() {
    let mut server = ServerBuilder::new().variable("QWED_MCP_TEST_JOB_TTL_MS", "700").start();
    let expired = id_of(&create(&mut server, "print(1)"));
    assert_eq!(ended(&mut server, &expired)["status"], "completed");
    until(|| ask(&mut server, "tasks/get", &expired).get("error").is_some());
    let unknown = "3f8a1b2c-4d5e-4f7a-8b9c-0d1e2f3a4b5c";
    for id in [expired.as_str(), unknown, "", "x", "../x"] {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let error = &ask(&mut server, method, id)["error"];
            assert_eq!(error["code"], -32602, "{method} {id}: {error}");
            assert_eq!(error["message"], "Failed to retrieve task: Task not found");
        }
    }
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for params in [json!({}), json!({ "taskId": 7 }), json!({ "taskId": null })] {
            let error = &server.request(method, &with_tasks(params))["error"];
            assert_eq!(error["code"], -32602, "{method}: {error}");
        }
    }
    server.finish();
}

fn clients_without_the_extension_have_no_task_methods() {
    let mut server = ServerBuilder::new().start();
    let id = id_of(&create(&mut server, "print(1)"));
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({ "taskId": id, "inputResponses": {} });
        let error = server.request(method, &without_tasks(params.clone()))["error"].clone();
        assert_eq!(error["code"], -32021, "{method}: {error}");
        assert_eq!(
            error["data"]["requiredCapabilities"],
            json!({ "extensions": { EXTENSION: {} } }),
            "{method}: {error}"
        );
    }
    for method in ["tasks/list", "tasks/result"] {
        assert_eq!(ask(&mut server, method, &id)["error"]["code"], -32601, "{method}");
    }
    // The era with a handshake does not have these methods.
    server.initialize("2025-11-25");
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({ "taskId": id, "inputResponses": {} });
        assert_eq!(server.request(method, &params)["error"]["code"], -32601, "{method}");
    }
    server.finish();
}

fn a_call_without_background_is_never_a_task() {
    let mut server = ServerBuilder::new().start();
    for arguments in [
        json!({ "code": "print(1)" }),
        json!({ "code": "print(1)", "background": false }),
        json!({ "code": "print(1)", "background": "yes" }),
    ] {
        let params = json!({ "name": "execute_python_code", "arguments": arguments });
        let reply = server.request("tools/call", &with_tasks(params));
        assert_eq!(reply["result"]["resultType"], "complete", "{arguments}: {reply}");
    }
    server.finish();
}

fn a_refused_call_and_a_full_queue_are_results() {
    let mut server = ServerBuilder::new().start();
    let refused = server.request("tools/call", &with_tasks(background("eval('1')")));
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert_eq!(refused["result"]["resultType"], "complete", "{refused}");
    let sleeps = "import time\ntime.sleep(60)";
    let placed: Vec<Value> =
        (0..106).map(|_| server.request("tools/call", &with_tasks(background(sleeps)))).collect();
    let (last, others) = placed.split_last().unwrap();
    assert!(others.iter().all(|reply| reply["result"]["resultType"] == "task"));
    assert_eq!(last["result"]["isError"], true, "{last}");
    let text = last["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("The queue of background jobs is full"), "{text}");
    server.finish();
}

fn the_time_to_live_counts_from_creation_and_follows_the_job() {
    let mut server = ServerBuilder::new().start();
    let created = create(&mut server, "import time\ntime.sleep(0.5)");
    assert_eq!(created["ttlMs"], 3_600_000, "{created}");
    assert_eq!(created["createdAt"], created["lastUpdatedAt"], "{created}");
    let task = ended(&mut server, &id_of(&created));
    assert!(task["ttlMs"].as_u64().unwrap() >= 3_600_500, "{task}");
    let [created, updated] = ["createdAt", "lastUpdatedAt"].map(|key| task[key].as_str().unwrap());
    assert!(created < updated, "{task}");
    for time in [created, updated] {
        // The format is like 2026-11-22T10:30:00.123Z.
        assert!(time.len() == 24 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
    }
    server.finish();
}

fn the_metadata_of_a_job_has_its_state() {
    let mut server = ServerBuilder::new().connect();
    let arguments = json!({ "code": "import time\ntime.sleep(0.5)", "background": true });
    let placed = server.call("execute_python_code", &arguments);
    let job = placed.meta["qwed.ai/job"].clone();
    let id = job["job_id"].as_str().unwrap().to_owned();
    assert!(placed.text().contains(&id));
    assert_eq!(job["status"], "queued");
    assert!(job["created_at"].as_str().unwrap() < job["expires_at"].as_str().unwrap());
    until(|| server.status(&id).meta["qwed.ai/job"]["status"] == "running");
    server.wait_for_job(&id);
    let ended = server.status(&id).meta["qwed.ai/job"].clone();
    assert_eq!(ended["status"], "success");
    assert_eq!(ended["created_at"], job["created_at"]);
    assert!(ended["expires_at"].as_str().unwrap() > job["expires_at"].as_str().unwrap());
    // The reply has no metadata about a job after a synchronous call, or for an unknown id.
    assert!(server.execute("print(1)").meta.get("qwed.ai/job").is_none());
    let unknown = server.status("3f8a1b2c-4d5e-4f7a-8b9c-0d1e2f3a4b5c");
    assert!(unknown.is_error && unknown.meta.get("qwed.ai/job").is_none());
    server.finish();
}
