//! Tests the endpoints for scripts of pipelines, and the admin address.

use std::time::Duration;

use serde_json::{Value, json};

use super::{HttpServer, JSON, soon};
use crate::harness::{ServerBuilder, public_python, resident_kibibytes};

tests! {
    needs [Sandbox]:
        one_script_is_answered_as_a_line_of_a_batch,
        a_closed_admin_gate_judges_no_script,
        a_script_in_the_shape_of_sandbox_fusion_is_run,
        inputs_above_a_message_reach_the_script,
        each_line_of_a_batch_is_answered_when_it_ends,
        metrics_are_on_the_admin_address_only,
        the_log_can_be_json;
    needs [PublicPython]:
        without_a_sandbox_no_script_is_judged;
    needs [Tier3]:
        a_script_has_the_same_document_as_with_run,
        a_batch_ends_when_its_client_disconnects,
        a_batch_is_not_read_while_its_answers_are_unread;
}

fn post(server: &HttpServer, path: &str, body: &str) -> super::Response {
    server.send(&format!("POST {path} HTTP/1.1\r\n{JSON}"), body)
}

fn one_script_is_answered_as_a_line_of_a_batch() {
    let server = HttpServer::start(ServerBuilder::new(), &[]);
    let run = |line: Value| post(&server, "/run", &line.to_string());
    let code = "print(int(input()) + 1)";
    let ran = run(json!({ "id": "a", "code": code, "stdin": "4\n", "expect": { "stdout": "5" } }));
    let answer = ran.json();
    assert_eq!(
        (ran.status, &answer["status"], &answer["passed"]),
        (200, &json!("ok"), &json!(true))
    );
    assert_eq!((&answer["id"], &answer["stdout"]), (&json!("a"), &json!("5")));
    let tests = json!([{ "stdin": "1", "stdout": "2" }, { "stdin": "2", "stdout": "4" }]);
    let answer = run(json!({ "code": code, "tests": tests })).json();
    assert_eq!((&answer["passed"], answer["tests"].as_array().unwrap().len()), (&json!(false), 2));
    let blocked = run(json!({ "code": "import os\nos.system('id')" }));
    assert_eq!((blocked.status, &blocked.json()["status"]), (200, &json!("blocked")));
    for line in
        [json!({}), json!({ "code": "" }), json!({ "code": "1", "timeout": 10_000 }), json!([1])]
    {
        let invalid = run(line.clone());
        assert_eq!((invalid.status, &invalid.json()["status"]), (400, &json!("invalid")), "{line}");
    }
    assert_eq!(server.send("GET /run HTTP/1.1\r\n", "").status, 405);
}

fn a_script_has_the_same_document_as_with_run() {
    let scripts = [
        "assert 7 * 8 == 56\nprint('é')",
        "assert 7 * 8 == 54",
        "print(1)",
        "import os\nos.system('id')",
    ];
    let folder = tempfile::tempdir().unwrap();
    let digests = scripts.map(|code| {
        let file = folder.path().join("script.py");
        std::fs::write(&file, code).unwrap();
        let mut command = ServerBuilder::new().command();
        command.args(["run", "--json", "--timeout", "30"]).arg(&file);
        let output = command.output().unwrap();
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        result["_meta"]["qwed.ai/verification"]["document_digest"].as_str().unwrap().to_owned()
    });
    for (builder, is_warm) in
        [(ServerBuilder::new().warm("json"), true), (ServerBuilder::new(), false)]
    {
        let server = HttpServer::start(builder, &[]);
        // Use the same time limit as the command above, because the digest covers the time limit.
        let run = |code: &str| {
            post(&server, "/run", &json!({ "code": code, "timeout": 30 }).to_string()).json()
        };
        soon("scripts are warm", || !is_warm || run("print(1)")["warm"] == true);
        for (code, digest) in scripts.iter().zip(&digests) {
            let answer = run(code);
            assert_eq!(answer["verification"]["document_digest"], *digest, "{answer}");
            let is_blocked = answer["status"] == "blocked";
            assert!(is_blocked || answer["warm"] == is_warm, "{answer}");
        }
    }
}

fn without_a_sandbox_no_script_is_judged() {
    let builder = ServerBuilder::of_interpreter(&public_python().unwrap());
    let server = HttpServer::start(builder.variable("QWED_MCP_SANDBOX", "off"), &[]);
    let code = "print(1)";
    let judged = json!({ "id": "judged", "code": code, "expect": { "stdout": "1" } });
    let reply = post(&server, "/run", &judged.to_string());
    assert_eq!(reply.status, 503);
    let lines = format!("{judged}\n{}\n", json!({ "id": "only run", "code": code }));
    let answers = post(&server, "/batch", &lines).lines();
    let answer = |id: &str| answers.iter().find(|answer| answer["id"] == id).unwrap();
    let refused = answer("judged");
    assert_eq!((&refused["status"], &refused["passed"]), (&json!("infra_error"), &Value::Null));
    assert!(refused["error"].as_str().unwrap().contains("need tier 2"), "{refused}");
    // The control: the same script runs if no output is expected.
    assert_eq!(
        (&answer("only run")["status"], &answer("only run")["stdout"]),
        (&json!("ok"), &json!("1"))
    );
}

fn a_script_in_the_shape_of_sandbox_fusion_is_run() {
    let server = HttpServer::start(ServerBuilder::new(), &[]);
    let run = |code: &str, more: Value| {
        let mut body = json!({ "code": code, "language": "python" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post(&server, "/run_code", &body.to_string())
    };
    let ran = run(
        "print(input())",
        json!({ "stdin": "x\n", "compile_timeout": 10, "memory_limit_MB": -1 }),
    );
    let reply = ran.json();
    assert_eq!((ran.status, &reply["status"]), (200, &json!("Success")));
    assert_eq!(reply["run_result"]["stdout"], "x");
    assert_eq!(
        (&reply["run_result"]["status"], &reply["run_result"]["return_code"]),
        (&json!("Finished"), &json!(0))
    );
    let reply = run("raise SystemExit(3)", json!({})).json();
    assert_eq!(
        (&reply["status"], &reply["run_result"]["return_code"]),
        (&json!("Failed"), &json!(3))
    );
    // On a busy machine, a run with a shorter timeout may count as starved. The status would then be `SandboxError`.
    let reply = run("import time\ntime.sleep(600)", json!({ "run_timeout": 5 })).json();
    assert_eq!(
        (&reply["status"], &reply["run_result"]["status"]),
        (&json!("Failed"), &json!("TimeLimitExceeded")),
        "{reply}"
    );
    let code = "print(open('a.txt').read(), inputs['b'])";
    let reply = run(
        code,
        json!({ "files": { "./a.txt": "YQ==", "b": "Yg==", "c": null }, "fetch_files": null }),
    )
    .json();
    assert_eq!(reply["run_result"]["stdout"], "a b'b'", "{reply}");
    for (request, message) in [
        (json!({ "files": { "../a": "YQ==" } }), "is not a plain file name"),
        (json!({ "files": { "a": "*" } }), "is not valid base64"),
        (json!({ "fetch_files": ["a"] }), "fetch_files is not supported"),
    ] {
        let reply = run("print(1)", request).json();
        assert_eq!(reply["status"], "SandboxError", "{reply}");
        assert!(reply["message"].as_str().unwrap().contains(message), "{reply}");
    }
    assert_eq!(run("print(1)", json!({ "language": "cpp" })).status, 400);
    assert_eq!(post(&server, "/run_code", "{").status, 400);
}

fn inputs_above_a_message_reach_the_script() {
    const MIB: usize = 1024 * 1024;
    let server = HttpServer::start(ServerBuilder::new(), &[]);
    let code = "text = open('data.csv').read()\nprint(len(text), set(text))";
    let line = json!({ "code": code, "inputs": { "data.csv": "x".repeat(40 * MIB) } }).to_string();
    let answer = post(&server, "/run", &line).json();
    assert_eq!(answer["stdout"], "41943040 {'x'}", "{answer}");
    let files = json!({ "data.csv": "eHh4".repeat(8 * MIB) });
    let body = json!({ "code": code, "language": "python", "files": files }).to_string();
    let reply = post(&server, "/run_code", &body).json();
    assert_eq!(reply["run_result"]["stdout"], "25165824 {'x'}", "{reply}");
    let large = json!({ "code": code, "inputs": { "data.csv": "x".repeat(65 * MIB) } });
    let refused = post(&server, "/run", &large.to_string());
    assert_eq!(refused.status, 400);
    let error = refused.json()["error"].take();
    assert_eq!(error, "'inputs' are larger than 64 MiB together.");
    // A body without a declared length may not be large.
    let head = "POST /run HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n";
    let mut connection = server.connect();
    connection.write(format!("{head}{JSON}\r\n").as_bytes()).unwrap();
    let chunk = format!("100000\r\n{}\r\n", "x".repeat(MIB));
    // The server may close the connection before it has read all chunks.
    let _ = (0..5).try_for_each(|_| connection.write(chunk.as_bytes()));
    assert_eq!(connection.response().unwrap().status, 413);
    // The server accepts four large bodies before they arrive. A fifth large body must wait, but other requests are
    // answered.
    let begin = || {
        let mut connection = server.connect();
        let length = line.len();
        let head = format!(
            "POST /run HTTP/1.1\r\nHost: localhost\r\n{JSON}Expect: 100-continue\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        connection.write(head.as_bytes()).unwrap();
        connection
    };
    let is_continued = |connection: &mut super::Connection| {
        connection.head().is_some_and(|head| head.contains(" 100 "))
    };
    let mut first = [(); 4].map(|()| begin());
    assert!(first.iter_mut().all(is_continued));
    let mut fifth = begin();
    assert_eq!(post(&server, "/run", r#"{"code":"print(1)"}"#).json()["stdout"], "1");
    assert!(!fifth.reads_within(Duration::from_secs(1)));
    drop(first);
    fifth.stream.get_mut().set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert!(is_continued(&mut fifth));
    fifth.write(line.as_bytes()).unwrap();
    assert_eq!(fifth.response().unwrap().status, 200);
}

/// If the admin gate is closed, the answer shows nothing about the script.
fn a_closed_admin_gate_judges_no_script() {
    let closed = ServerBuilder::new().without("QWED_MCP_TRUSTED_CODE_EXECUTION");
    let server = HttpServer::start(closed, &[]);
    let line = json!({ "code": "print(7)", "expect": { "stdout": "7" } });
    let response = post(&server, "/run", &line.to_string());
    assert_eq!(response.status, 503, "{response:?}");
    let answer = response.json();
    assert_eq!((&answer["status"], &answer["passed"]), (&json!("infra_error"), &json!(null)));
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains("QWED_MCP_TRUSTED_CODE_EXECUTION"), "{error}");
    let blocked = post(&server, "/run", r#"{"code":"import os\nos.system('a')"}"#);
    assert_eq!((blocked.status, &blocked.json()["status"]), (200, &json!("blocked")));
}

fn each_line_of_a_batch_is_answered_when_it_ends() {
    let server = HttpServer::start(ServerBuilder::new(), &[]);
    let head = format!(
        "POST /batch HTTP/1.1\r\nHost: localhost\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n"
    );
    let mut connection = server.connect();
    connection.write(head.as_bytes()).unwrap();
    let send = |connection: &mut super::Connection, text: &str| {
        connection.write(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).unwrap();
    };
    send(&mut connection, "{\"id\":\"first\",\"code\":\"print(1)\"}\n{\"id\":\"sec");
    // The first answer arrives before the second line is complete.
    assert!(connection.head().unwrap().contains("application/x-ndjson"));
    let first = connection.chunk().unwrap();
    assert!(String::from_utf8(first).unwrap().contains("\"first\""));
    send(&mut connection, "ond\",\"code\":\"print(2)\"}\n\n{\"id\":\"first\",\"code\":\"1\"}\nno");
    connection.write(b"0\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    while let Some(part) = connection.chunk() {
        rest.extend(part);
    }
    let rest = super::Response { status: 200, head: String::new(), body: rest };
    let mut found: Vec<_> = rest
        .lines()
        .iter()
        .map(|line| {
            (
                line["id"].as_str().unwrap_or_default().to_owned(),
                line["status"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    found.sort();
    let expected = [("", "invalid"), ("first", "invalid"), ("second", "ok")];
    assert_eq!(found, expected.map(|(id, status)| (id.to_owned(), status.to_owned())));
}

fn a_batch_ends_when_its_client_disconnects() {
    let server = HttpServer::start(ServerBuilder::new(), &[]);
    server.wait_until_ready();
    let mut connection = server.connect();
    let body = "{\"code\":\"import time; time.sleep(600)\"}\n".repeat(5);
    connection.begin(&format!("POST /batch HTTP/1.1\r\n{JSON}"), &body);
    soon("a script runs", || server.scripts() > 0);
    drop(connection);
    soon("the script is killed", || server.scripts() == 0);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(server.scripts(), 0, "the next script was started");
}

fn a_batch_is_not_read_while_its_answers_are_unread() {
    let server = HttpServer::start(ServerBuilder::new(), &[]);
    let before = resident_kibibytes(server.pid());
    let mut connection = server.connect();
    connection.stream.get_mut().set_write_timeout(Some(Duration::from_secs(3))).unwrap();
    let head = format!(
        "POST /batch HTTP/1.1\r\nHost: localhost\r\n{JSON}Content-Length: 999999999\r\n\r\n"
    );
    connection.write(head.as_bytes()).unwrap();
    // These lines are invalid, so nothing runs. Each answer is as long as its line.
    let line = format!("{{\"id\":\"{}\",\"no\":1}}\n", "x".repeat(500)).repeat(200);
    let mut taken = 0;
    while connection.write(line.as_bytes()).is_ok() {
        taken += line.len();
        assert!(taken < 200_000_000, "the server accepts every byte");
    }
    let grown = resident_kibibytes(server.pid()).saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} KiB");
}

fn metrics_are_on_the_admin_address_only() {
    let server = HttpServer::start(ServerBuilder::new(), &[]);
    assert_eq!(server.admin("/healthz").status, 200);
    soon("the server is ready", || server.admin("/readyz").status == 200);
    server.run("print(6 * 7)");
    server.run("import os; os.system('id')");
    let metrics = server.admin("/metrics");
    let text = String::from_utf8(metrics.body.clone()).unwrap();
    for line in [
        "qwed_mcp_http_requests_total{path=\"/mcp\",status=\"200\"} 2",
        "qwed_mcp_decisions_total{code=\"none\"} 1",
        "qwed_mcp_decisions_total{code=\"QWED-MCP-RISK-005\"} 1",
        "qwed_mcp_runs_total{ending=\"success\"",
        "qwed_mcp_run_seconds_count 1",
        "qwed_mcp_jobs{state=\"running\"} 0",
        "qwed_mcp_turns_free 1",
        "# TYPE qwed_mcp_runs_total counter",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!(server.admin("/mcp").status, 404);
    // The address for clients serves no metrics.
    assert_eq!(server.send("GET /metrics HTTP/1.1\r\n", "").status, 404);
    let closed = ServerBuilder::new().without("QWED_MCP_TRUSTED_CODE_EXECUTION");
    let server = HttpServer::start(closed, &[]);
    assert_eq!(server.admin("/readyz").status, 503);
    assert_eq!(server.admin("/healthz").status, 200);
}

fn the_log_can_be_json() {
    let mut command = ServerBuilder::new().command();
    command.args(["serve", "--http", "0.0.0.0:0", "--log-format", "json"]);
    let log = String::from_utf8(command.output().unwrap().stderr).unwrap();
    let event: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(event["level"], "ERROR");
    assert!(event["message"].as_str().unwrap().contains("--require-token"), "{event}");
}
