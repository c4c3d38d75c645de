//! Tests authentication, roles, and the limits for one user.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    Connection, HttpServer, JSON, Response, bearer, initialize, request, script, soon, stateless,
};
use crate::governed::Governed;
use crate::harness::{ServerBuilder, binary};

tests! {
    needs [Sandbox]:
        without_a_token_nothing_is_answered,
        roles_decide_per_tool,
        jobs_and_sessions_are_private_to_their_user,
        the_caller_is_in_the_audit_log,
        a_revoked_token_runs_nothing_more,
        the_servers_own_token_is_not_used_for_http_callers;
    needs [Tier3]:
        the_limits_of_one_user_are_enforced;
}

/// A data folder with tokens. Each token is for a user with a role.
pub(super) struct Tokens {
    folder: tempfile::TempDir,
    pub(super) tokens: Vec<String>,
}

impl Tokens {
    pub(super) fn new(users: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = |(user, role): &(&str, &str)| {
            let made = std::process::Command::new(binary())
                .args(["token", "create", "--user", user, "--role", role])
                .env("QWED_MCP_DATA_DIR", folder.path())
                .output()
                .unwrap();
            assert!(made.status.success(), "{made:?}");
            let text = String::from_utf8(made.stdout).unwrap();
            let token = text.split_whitespace().find(|word| word.starts_with("qwedmcp_"));
            token.unwrap_or_else(|| panic!("{text}")).to_owned()
        };
        let tokens = users.iter().map(token).collect();
        Self { folder, tokens }
    }

    fn revoke(&self, number: &str) {
        let revoked = std::process::Command::new(binary())
            .args(["token", "revoke", number])
            .env("QWED_MCP_DATA_DIR", self.folder.path())
            .status();
        assert!(revoked.unwrap().success());
    }

    pub(super) fn server(&self, options: &[&str]) -> HttpServer {
        let data = self.folder.path().to_str().unwrap();
        let builder = ServerBuilder::new().variable("QWED_MCP_DATA_DIR", data);
        HttpServer::start(builder, &[&["--require-token"], options].concat())
    }
}

fn call(server: &HttpServer, token: &str, params: Value) -> Response {
    server.stateless_as(token, "tools/call", params)
}

fn without_a_token_nothing_is_answered() {
    let tokens = Tokens::new(&[("ann", "user")]);
    let server = tokens.server(&[]);
    let good = &tokens.tokens[0];
    assert_eq!(call(&server, good, script("print(1)")).status, 200);
    let wrong = format!("qwedmcp_{}", "A".repeat(43));
    let (head, body) = stateless("tools/list", json!({}));
    for authorization in [
        String::new(),
        bearer(&wrong),
        bearer(""),
        format!("Authorization: Basic {good}\r\n"),
        format!("{}{}", bearer(good), bearer(good)),
        format!("X-Authorization: Bearer {good}\r\n"),
    ] {
        let refused = server.send(&format!("{head}{authorization}"), &body);
        assert_eq!(refused.status, 401, "{authorization}");
        assert!(refused.header("www-authenticate").unwrap().starts_with("bearer"));
    }
    let head = |method: &str, path: &str| format!("{method} {path} HTTP/1.1\r\n{JSON}");
    for path in ["/mcp", "/run", "/batch", "/run_code", "/", "/nothing"] {
        for method in ["GET", "POST", "DELETE"] {
            assert_eq!(server.send(&head(method, path), "{}").status, 401, "{method} {path}");
        }
    }
    let in_query = server.send(&head("POST", &format!("/mcp?access_token={good}")), "{}");
    assert_eq!(in_query.status, 401);
    // A revoked token is refused at once.
    tokens.revoke("1");
    assert_eq!(call(&server, good, script("print(1)")).status, 401);
    let log = server.end();
    assert_eq!(log.matches("a valid token is needed").count(), 1, "{log}");
    assert!(!log.contains("qwedmcp_"), "{log}");
}

fn roles_decide_per_tool() {
    let tokens = Tokens::new(&[("ann", "user"), ("vic", "viewer"), ("adm", "admin")]);
    let server = tokens.server(&[]);
    let status = json!({ "name": "verification_status", "arguments": {
        "job_id": "00000000-0000-4000-8000-000000000000" } });
    for (token, may_run) in tokens.tokens.iter().zip([true, false, true]) {
        let ran = call(&server, token, script("print(1)"));
        let code = ran.json()["error"]["code"].as_i64();
        assert_eq!(code, (!may_run).then_some(-32003), "{ran:?}");
        let asked = call(&server, token, status.clone()).json();
        assert_eq!(asked["result"]["isError"], true, "{asked}");
        for path in ["/run", "/batch", "/run_code"] {
            let head = format!("POST {path} HTTP/1.1\r\n{JSON}{}", bearer(token));
            let body = "{\"code\":\"print(1)\",\"language\":\"python\"}";
            let got = server
                .send(&head, if path == "/run_code" { body } else { "{\"code\":\"print(1)\"}" });
            assert_eq!(got.status, if may_run { 200 } else { 403 }, "{path} {got:?}");
        }
    }
}

fn jobs_and_sessions_are_private_to_their_user() {
    let tokens = Tokens::new(&[("ann", "user"), ("bob", "user"), ("adm", "admin")]);
    let server = tokens.server(&[]);
    let [ann, bob, admin] = &tokens.tokens[..] else { panic!() };
    let mut background = script("print(6 * 7)");
    background["arguments"]["background"] = json!(true);
    let placed = call(&server, ann, background).json();
    let job = placed["result"]["_meta"]["qwed.ai/job"]["job_id"].as_str().unwrap().to_owned();
    let asked = |token: &str| {
        let status = json!({ "name": "verification_status", "arguments": { "job_id": job } });
        let reply = call(&server, token, status).json();
        reply["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    };
    soon("the job has ended", || asked(ann).contains("STDOUT:\n42"));
    for other in [bob, admin] {
        assert_eq!(asked(other), format!("Error: Job ID '{job}' not found or expired."));
    }
    let begun = server.post(&bearer(ann), &initialize());
    let session = format!("Mcp-Session-Id: {}\r\n", begun.header("mcp-session-id").unwrap());
    let list = request(1, "tools/list", &json!({}));
    for (token, status) in [(ann, 200), (bob, 404), (admin, 404)] {
        let got = server.post(&format!("{session}{}", bearer(token)), &list);
        assert_eq!(got.status, status, "{got:?}");
    }
}

fn the_caller_is_in_the_audit_log() {
    let governed = Governed::new("ledger");
    let server = HttpServer::start(governed.server(), &["--require-token"]);
    let ran = call(&server, &governed.user, script("print(1)")).json();
    assert_eq!(ran["result"]["isError"], false, "{ran}");
    let refused = call(&server, &governed.viewer, script("print(2)")).json();
    assert_eq!(refused["error"]["code"], -32003);
    let head = format!("POST /run HTTP/1.1\r\n{JSON}{}", bearer(&governed.user));
    assert_eq!(server.send(&head, r#"{"code":"print(3)"}"#).json()["status"], "ok");
    // A governed call uses the token of its HTTP request.
    let params = json!({ "name": "list_artifacts", "arguments": {} });
    assert_eq!(call(&server, &governed.viewer, params).json()["result"]["isError"], false);
    let tests = json!({ "name": "run_pytest", "arguments": { "test_path": "tests" } });
    assert_eq!(call(&server, &governed.viewer, tests).json()["error"]["code"], -32003);
    server.end();
    let rows = std::process::Command::new(binary())
        .args(["audit", "list", "--format", "json"])
        .env("QWED_MCP_DATA_DIR", &governed.data)
        .output()
        .unwrap();
    let rows: Value = serde_json::from_slice(&rows.stdout).unwrap();
    let text = rows.to_string();
    let called = |outcome: &str| {
        let row = |row: &&Value| {
            row["event"] == "MCP_TOOL_CALL"
                && row["tool"] == "execute_python_code"
                && row["outcome"].to_string().contains(outcome)
        };
        let rows = rows.as_array().or_else(|| rows["rows"].as_array()).unwrap();
        rows.iter().filter(row).map(|row| row["user"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(called("ALLOW_VERIFIED").len(), 2, "{text}");
    assert!(called("ALLOW_VERIFIED").iter().all(|user| user != "null"), "{text}");
    assert_eq!(called("PERMISSION_DENIED").len(), 1, "{text}");
    // Each row has the id of the token. Token 2 is the user's, and token 3 is the viewer's.
    let tokens = |outcome: &str| {
        let rows = governed.audit_rows().into_iter().filter(|row| {
            row["event"] == "MCP_TOOL_CALL"
                && row["tool"] == "execute_python_code"
                && row["outcome"] == outcome
        });
        let details = |row: Value| serde_json::from_str(row["details"].as_str().unwrap()).unwrap();
        rows.map(|row| -> Value { details(row) }).map(|it| it["token"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(tokens("ALLOW_VERIFIED"), [json!("2"), json!("2")]);
    assert_eq!(tokens("PERMISSION_DENIED"), [json!("3")]);
    let listed = governed.command(&["token", "list", "--format", "json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let used = |number: usize| listed["tokens"][number - 1]["last_use"].is_string();
    assert_eq!((used(1), used(2), used(3)), (false, true, true), "{listed}");
}

/// A script must not run if its token is revoked before the script begins. Covers a line of an open batch, a call that
/// waits for its turn, and a background job that waits.
fn a_revoked_token_runs_nothing_more() {
    let tokens = Tokens::new(&[("ann", "user"), ("ann", "user")]);
    let server = tokens.server(&[]);
    let [stolen, kept] = &tokens.tokens[..] else { panic!() };
    let head = format!(
        "POST /batch HTTP/1.1\r\nHost: localhost\r\n{JSON}{}Transfer-Encoding: chunked\r\n\r\n",
        bearer(stolen)
    );
    let mut batch = server.connect();
    batch.write(head.as_bytes()).unwrap();
    let line = |batch: &mut Connection, code: &str| {
        let line = json!({ "code": code }).to_string() + "\n";
        batch.write(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes()).unwrap();
    };
    line(&mut batch, "print(1)");
    batch.head().unwrap();
    let answer = |batch: &mut Connection| batch.chunk().map(|it| String::from_utf8(it).unwrap());
    assert!(answer(&mut batch).unwrap().contains(r#""status":"ok""#));

    // With the other token, jobs take all turns for jobs, and a call takes the only turn for calls.
    let background = |token: &str, code: &str| {
        let mut params = script(code);
        params["arguments"]["background"] = json!(true);
        let placed = call(&server, token, params).json();
        placed["result"]["_meta"]["qwed.ai/job"]["job_id"].as_str().unwrap().to_owned()
    };
    let endless = "import time; time.sleep(600)";
    let running: Vec<_> = (0..5).map(|_| background(kept, endless)).collect();
    let waiting = background(stolen, "print('job')");
    let begin = |token: &str, code: &str| {
        let (head, body) = stateless("tools/call", script(code));
        let mut connection = server.connect();
        connection.begin(&format!("{head}{}", bearer(token)), &body);
        connection
    };
    let turn = begin(kept, endless);
    soon("the call has the turn", || server.metric("qwed_mcp_turns_free") == 0);
    let mut call_of_stolen = begin(stolen, "print('call')");
    soon("the other call waits", || server.metric("qwed_mcp_calls_waiting") == 1);
    assert_eq!(server.metric("qwed_mcp_jobs{state=\"queued\"}"), 1);

    tokens.revoke("1");
    drop(turn);
    let reason = "the token that asked for it was revoked or has expired, so nothing is run";
    let refused = call_of_stolen.response().unwrap().json()["result"].clone();
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(reason) && refused["isError"] == true, "{refused}");
    let cancel = json!({ "taskId": running[0] });
    let (head, body) = stateless("tasks/cancel", cancel);
    // This request needs the tasks extension.
    let (none, tasks) =
        (r#"clientCapabilities":{}"#, "{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}");
    let body = body.replace(none, &format!("clientCapabilities\":{tasks}"));
    let head = format!("{head}Mcp-Name: {}\r\n{}", running[0], bearer(kept));
    let cancelled = server.send(&head, &body);
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    let status = || {
        let status = json!({ "name": "verification_status", "arguments": { "job_id": waiting } });
        call(&server, kept, status).json()["result"]["content"][0]["text"].to_string()
    };
    soon("the job has ended", || !status().contains("queued"));
    assert!(status().contains(reason), "{}", status());
    line(&mut batch, "print(2)");
    let last = answer(&mut batch).unwrap();
    assert!(last.contains(reason) && last.contains(r#""status":"infra_error""#), "{last}");
    assert_eq!(answer(&mut batch), None, "the batch has ended");
}

fn the_servers_own_token_is_not_used_for_http_callers() {
    let governed = Governed::new("ledger");
    let builder = governed.server().variable("QWED_MCP_AUTH_TOKEN", &governed.admin);
    let server = HttpServer::start(builder, &[]);
    let params = json!({ "name": "list_artifacts", "arguments": {} });
    let refused = server.stateless("tools/call", params.clone()).json();
    assert_eq!(refused["error"]["code"], -32001, "{refused}");
    assert_eq!(call(&server, &governed.viewer, params).json()["result"]["isError"], false);
}

fn the_limits_of_one_user_are_enforced() {
    let tokens = Tokens::new(&[("ann", "user"), ("bob", "user")]);
    let server = tokens.server(&["--user-concurrency", "2"]);
    let [ann, bob] = &tokens.tokens[..] else { panic!() };
    let (head, body) = stateless("tools/call", script("import time; time.sleep(600)"));
    let begin = || {
        let mut connection = server.connect();
        connection.begin(&format!("{head}{}", bearer(ann)), &body);
        connection
    };
    let waiting: RefCell<Vec<_>> = RefCell::new((0..2).map(|_| begin()).collect());
    let list_at = |server: &HttpServer, token: &str| {
        let (head, body) = stateless("tools/list", json!({}));
        server.send(&format!("{head}{}", bearer(token)), &body)
    };
    let list = |token: &str| list_at(&server, token);
    soon("the share is taken", || {
        let is_taken = list(ann).status == 429;
        if !is_taken {
            // The server may have refused the last script while it handled `tools/list` above. So send one more script.
            waiting.borrow_mut().push(begin());
        }
        is_taken
    });
    let asked = Instant::now();
    assert_eq!(list(ann).header("retry-after").as_deref(), Some("1"));
    // The server delays a refusal, so that a client that retries at once does not keep the server busy.
    assert!(asked.elapsed() >= Duration::from_millis(100), "{:?}", asked.elapsed());
    assert_eq!(list(bob).status, 200);
    drop(waiting);
    soon("the share is free", || list(ann).status == 200);
    let server = tokens.server(&["--user-rate", "1"]);
    assert!((0..50).any(|_| list_at(&server, bob).status == 429));
}
