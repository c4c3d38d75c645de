//! Tests every refusal of governed tools, with its error code, its name and its row in the audit log.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    Governed, ORDINARY_USER, assert_refused, call_as, evidence, params, run_id, run_pytest, text,
};
use crate::harness::{
    McpProcess, ServerBuilder, deadline, eventually, has_threads, public_python, quickest,
};
use crate::sandbox::of_user;

tests! {
    needs [Tier3, Packages]:
        what_takes_too_much_is_a_violation;
    needs [Root, Tier2, PublicPython, Packages]:
        a_run_that_leaves_too_much_at_tier_2_is_ended;
    needs [Sandbox, PublicPython, Packages]:
        nothing_runs_without_a_sandbox;
    needs [Sandbox, Packages]:
        without_a_policy_there_are_no_governed_tools,
        with_a_policy_there_are_four_more,
        every_role_may_do_what_its_row_says,
        a_call_without_a_valid_token_is_refused,
        a_token_comes_with_the_call_or_in_its_meta_or_from_the_environment,
        the_policy_decides_and_is_read_again_when_it_changes,
        a_budget_ends_a_call_before_or_while_it_runs,
        a_run_is_killed_at_the_policys_timeout,
        arguments_that_fail_validation_are_told_by_name,
        a_damaged_store_or_policy_at_the_start,
        what_is_taken_back_reaches_those_who_wait_too,
        the_interpreter_is_asked_without_the_servers_secrets;
}

/// Tests that each exceed a limit.
const TOO_MUCH: &str = "
import os, pathlib, time

def test_memory():
    kept = [bytearray(b'x' * (1 << 20)) for _ in range(700)]

def test_output():
    os.write(1, b'x' * 1000000)
    for _ in range(100):
        os.write(2, b'y' * 100000)
        print('z' * 100000, flush=True)
    raise AssertionError

def test_artifacts():
    for index in range(100):
        (pathlib.Path(os.environ['QWED_ARTIFACTS']) / str(index)).write_bytes(b'x' * 100000)
    time.sleep(5)

def nested(depth):
    for _ in range(depth):
        os.mkdir('d')
        os.chdir('d')

def test_deep():
    os.chdir(os.environ['QWED_ARTIFACTS'])
    nested(100)
    for index in range(100):
        pathlib.Path(str(index)).write_bytes(b'x' * 100000)
    time.sleep(5)

def test_closed():
    closed = pathlib.Path(os.environ['QWED_ARTIFACTS']) / 'closed'
    closed.mkdir()
    for index in range(100):
        (closed / str(index)).write_bytes(b'x' * 100000)
        closed.chmod(0)
        closed.chmod(0o700)
    closed.chmod(0)
    time.sleep(5)

def test_deleted():
    folder = pathlib.Path(os.environ['QWED_ARTIFACTS'])
    kept = []
    for index in range(100):
        file = open(folder / 'gone', 'wb')
        os.unlink(folder / 'gone')
        kept.append(file)
        os.posix_fallocate(file.fileno(), 0, 100000)
    time.sleep(5)

def test_many():
    for index in range(20000):
        (pathlib.Path(os.environ['QWED_ARTIFACTS']) / str(index)).touch()
    time.sleep(5)

def test_at_the_end():
    for index in range(20):
        (pathlib.Path(os.environ['QWED_ARTIFACTS']) / str(index)).write_bytes(b'x' * 100000)
    os._exit(0)
";

const TOOLS: [&str; 4] = ["run_pytest", "get_evidence", "list_artifacts", "get_artifact_content"];

fn without_a_policy_there_are_no_governed_tools() {
    let mut server = ServerBuilder::new().connect();
    let tools = server.request("tools/list", &json!({}));
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 2);
    for tool in TOOLS {
        let result = server.call(tool, &json!({ "test_path": "x" }));
        assert!(result.texts[1].contains("QWED-MCP-RISK-001"), "{:?}", result.texts);
    }
    server.finish();
}

fn with_a_policy_there_are_four_more() {
    let governed = Governed::new("ledger");
    let mut server = governed.connect();
    let tools = server.request("tools/list", &json!({}));
    let tools = tools["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names[..2], ["execute_python_code", "verification_status"]);
    assert_eq!(names[2..], TOOLS);
    let hints = |tool: &Value| tool["annotations"]["readOnlyHint"].as_bool().unwrap();
    assert_eq!(tools.iter().map(hints).collect::<Vec<_>>(), [false, true, false, true, true, true]);
    server.finish();
}

fn every_role_may_do_what_its_row_says() {
    let governed = Governed::new("ledger");
    let mut server = governed.connect();
    let first = run_pytest(&mut server, &governed.user, "tests/test_ledger.py::test_overdrawn");
    let first = run_id(&first);
    for (token, may_run) in [
        (&governed.admin, Some(true)),
        (&governed.user, Some(true)),
        (&governed.viewer, Some(false)),
    ] {
        for tool in TOOLS {
            let arguments = match tool {
                "run_pytest" => json!({ "test_path": "tests/test_ledger.py::test_overdrawn" }),
                "list_artifacts" => json!({}),
                "get_evidence" => json!({ "run_id": first }),
                _ => json!({ "run_id": first, "path": "stdout.txt" }),
            };
            let reply = call_as(&mut server, token, tool, arguments);
            if tool == "run_pytest" && may_run == Some(false) {
                assert_refused(&reply, -32003, "PERMISSION_DENIED", "Permission denied");
            } else {
                assert_eq!(reply["result"]["isError"], false, "{tool}: {reply}");
            }
        }
    }
    for tool in TOOLS {
        let reply = server.request("tools/call", &json!({ "name": tool, "arguments": {} }));
        assert_refused(&reply, -32001, "AUTH_REQUIRED", "Authentication required");
    }
    server.finish();
    governed.verify_audit();
}

fn a_call_without_a_valid_token_is_refused() {
    let governed = Governed::new("ledger");
    let arguments = ["token", "create", "--user", "old", "--role", "admin", "--expires", "1s"];
    let expired = governed.command(&arguments);
    let expired = String::from_utf8(expired.stdout).unwrap().trim().to_owned();
    let revoked = governed.token("gone", "admin");
    let mut server = governed.connect();
    assert!(
        run_pytest(&mut server, &revoked, "tests/test_ledger.py::test_overdrawn")["result"]
            .is_object()
    );
    let list = governed.command(&["token", "list", "--format", "json"]);
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    let list = list["tokens"].as_array().unwrap_or_else(|| panic!("{list}"));
    let id = list.iter().find(|token| token["user"] == "gone").unwrap()["id"].to_string();
    let output = governed.command(&["token", "revoke", &id]);
    assert!(output.status.success(), "{output:?}");
    std::thread::sleep(Duration::from_millis(1100));

    let changed = format!("{}x", &governed.admin[..governed.admin.len() - 1]);
    let long = format!("qwedmcp_{}", "A".repeat(100_000));
    for token in ["", "nonsense", "qwedmcp_", &changed, &long, &expired, &revoked, " "] {
        let reply = run_pytest(&mut server, token, "tests");
        assert_refused(&reply, -32001, "AUTH_REQUIRED", "Authentication required");
        assert!(token.len() < 5 || !reply.to_string().contains(token), "{reply}");
    }
    for auth in [json!({}), json!(null), json!("x"), json!({ "token": 7 }), json!({ "token": [] })]
    {
        let params = json!({ "name": "run_pytest", "arguments": {}, "auth": auth });
        let reply = server.request("tools/call", &params);
        assert_refused(&reply, -32001, "AUTH_REQUIRED", "Authentication required");
    }
    server.finish();
    let refused = governed.audit_rows().into_iter().filter(|row| row["outcome"] == "AUTH_REQUIRED");
    let refused: Vec<_> = refused.collect();
    assert_eq!(refused.len(), 13);
    assert!(refused.iter().all(|row| row["user"].is_null() && row["event"] == "MCP_TOOL_CALL"));
}

fn a_token_comes_with_the_call_or_in_its_meta_or_from_the_environment() {
    let governed = Governed::new("ledger");
    let own = governed.server().variable("QWED_MCP_AUTH_TOKEN", &governed.viewer);
    let mut server = own.variable("QWED_MCP_LOG", "trace,rmcp=trace").connect();
    let arguments = json!({ "test_path": "tests/test_ledger.py::test_overdrawn" });
    let call = |auth: Value, meta: Value| json!({ "name": "run_pytest", "arguments": arguments, "auth": auth, "_meta": meta });
    let (bob, eve) = (json!({ "token": governed.user }), json!({ "token": governed.viewer }));
    let (in_meta, no_meta) = (json!({ "qwed.ai/auth": bob }), json!({}));
    for (params, is_allowed) in [
        // Without a token in the call, the server's own token applies. Its role is viewer.
        (call(json!(null), no_meta.clone()), false),
        (call(bob.clone(), no_meta.clone()), true),
        (call(json!(null), in_meta.clone()), true),
        // A token in `auth` takes precedence over a token in `_meta`.
        (call(eve, in_meta.clone()), false),
        (call(bob, json!({ "qwed.ai/auth": { "token": "nonsense" } })), true),
        // An invalid token is refused, even if another token is valid.
        (call(json!({ "token": "nonsense" }), in_meta), false),
    ] {
        let reply = server.request("tools/call", &params);
        assert_eq!(reply["result"].is_object(), is_allowed, "{params}: {reply}");
    }
    // Tokens must not appear in the log at any level, in the audit log, or in the environment of a test.
    let log = server.finish();
    assert!(log.contains("governed call"), "the log is on");
    let data = fs::read(governed.data.join("governance.db")).unwrap();
    for token in [&governed.user, &governed.viewer] {
        assert!(!log.contains(token.as_str()), "a token is in the log");
        assert!(!data.windows(token.len()).any(|part| part == token.as_bytes()));
    }
}

fn the_policy_decides_and_is_read_again_when_it_changes() {
    let governed = Governed::new("ledger");
    let mut server = governed.connect();
    let mut run = |governed: &Governed| {
        run_pytest(&mut server, &governed.admin, "tests/test_ledger.py::test_overdrawn")
    };
    let blocked = "Tool blocked by policy";
    for (sections, message) in [
        ("[tools]\nallowlist = []\n", "MCP write requires explicit allowlist"),
        ("[tools]\n", "MCP write requires explicit allowlist"),
        ("[tools]\nallowlist = [\"get_evidence\"]\n", blocked),
        ("[sandbox]\ntimeout_s = \"long\"\n", "Tool blocked by policy: line 6: sandbox.timeout_s"),
        ("[sandbox]\ntime_out = 1\n", "Tool blocked by policy: line 6: "),
        ("[sandbox\n", "Tool blocked by policy: line 5: "),
    ] {
        governed.write_policy(sections);
        assert_refused(&run(&governed), -32004, "POLICY_BLOCKED", message);
        governed.write_policy("");
        assert!(run(&governed)["result"].is_object(), "mended after {sections:?}");
    }
    fs::remove_file(&governed.policy).unwrap();
    assert_refused(
        &run(&governed),
        -32004,
        "POLICY_BLOCKED",
        "Tool blocked by policy: the policy file",
    );
    // Under a broken policy, calls that only read are refused too.
    let reply = call_as(&mut server, &governed.viewer, "list_artifacts", json!({}));
    assert_refused(&reply, -32004, "POLICY_BLOCKED", "Tool blocked by policy: the policy file");
    server.finish();

    let rows = governed.audit_rows();
    let blocked = rows.iter().filter(|row| row["event"] == "POLICY_BLOCKED");
    assert_eq!(blocked.count(), 8);
    governed.verify_audit();
}

fn nothing_runs_without_a_sandbox() {
    let governed = Governed::new("ledger");
    let path = "tests/test_ledger.py::test_overdrawn";
    governed.write_policy("[sandbox]\nenabled = false\n");
    let mut server = governed.connect();
    let reply = run_pytest(&mut server, &governed.admin, path);
    assert_refused(&reply, -32006, "SANDBOX_VIOLATION", "MCP write requires sandbox");
    server.finish();

    governed.write_policy("");
    for (mode, lacks, message) in [
        ("off", "", "Sandbox violation: tier off"),
        ("degraded", "namespaces,landlock", "Sandbox violation: tier T1"),
        (
            "required",
            "namespaces,landlock",
            "Sandbox violation: Scripts cannot run: new namespaces",
        ),
    ] {
        // Use an interpreter that every user can start, because a root server runs scripts at tier 1 as `nobody`.
        let server = governed.server().variable("QWED_MCP_SANDBOX", mode);
        let server = server.variable("QWED_MCP_PYTHON", public_python().unwrap().to_str().unwrap());
        let mut server = server.variable("QWED_MCP_TEST_KERNEL_LACKS", lacks).connect();
        let reply = run_pytest(&mut server, &governed.admin, path);
        assert_refused(&reply, -32006, "SANDBOX_VIOLATION", message);
        server.finish();
    }
    assert!(governed.audit_rows().iter().any(|row| row["outcome"] == "SANDBOX_VIOLATION"));
}

fn a_budget_ends_a_call_before_or_while_it_runs() {
    let governed = Governed::new("ledger");
    governed.write_policy("[budget]\nattempts_max = 0\n");
    let mut server = governed.connect();
    let reply = run_pytest(&mut server, &governed.admin, "tests");
    assert_refused(&reply, -32005, "BUDGET_EXCEEDED", "Budget exceeded");
    assert_eq!(reply["error"]["data"]["exceeded"], "attempts_total");
    // The run has not started, so a request for its evidence is refused with the reason.
    let id = json!({ "run_id": run_id(&reply), "path": "stdout.txt" });
    let not_run = "this run never started, so there is no evidence: its call ended with \
                   BUDGET_EXCEEDED";
    let reply = call_as(&mut server, &governed.viewer, "get_artifact_content", id);
    assert_refused(&reply, -32602, "INVALID_PARAMS", not_run);

    fs::write(
        governed.workspace.join("tests/test_long.py"),
        "import time\ndef test_it(): time.sleep(60)",
    )
    .unwrap();
    governed.write_policy("[budget]\nelapsed_ms_max = 1500\n");
    let reply = run_pytest(&mut server, &governed.admin, "tests/test_long.py");
    assert_refused(&reply, -32005, "BUDGET_EXCEEDED", "Budget exceeded");
    assert_eq!(reply["error"]["data"]["exceeded"], "elapsed_ms_total");
    let report = evidence(&mut server, &governed.admin, &run_id(&reply));
    assert_eq!(report["status"], "budget_exceeded");
    assert_eq!(report["governance"]["short_circuited"], true);
    assert_eq!(report["governance"]["attempts_total"], 1);
    assert!(report["governance"]["elapsed_ms_total"].as_u64().unwrap() >= 1500);

    // The time limit of a call includes waiting for other runs. One after the other, these runs would take 4.5 s.
    let arguments = json!({ "test_path": "tests/test_long.py" });
    quickest(Duration::from_secs(4), || {
        let started = Instant::now();
        let calls = [0; 3].map(|_| {
            let params = params(&governed.admin, "run_pytest", &arguments);
            server.start_request("tools/call", &params)
        });
        for call in calls {
            let reply = server.reply(call);
            assert_refused(&reply, -32005, "BUDGET_EXCEEDED", "Budget exceeded");
        }
        started.elapsed()
    });
    server.finish();
}

fn a_run_is_killed_at_the_policys_timeout() {
    let governed = Governed::new("ledger");
    fs::write(
        governed.workspace.join("tests/test_long.py"),
        "import time\ndef test_it(): time.sleep(60)",
    )
    .unwrap();
    governed.write_policy("[sandbox]\ntimeout_s = 1\n");
    let mut server = governed.connect();
    let reply = run_pytest(&mut server, &governed.admin, "tests/test_long.py");
    assert_refused(&reply, -32007, "TIMEOUT", "Execution timeout");
    let report = evidence(&mut server, &governed.admin, &run_id(&reply));
    assert_eq!(report["status"], "timeout");
    assert_eq!(report["governance"]["policy_timeout_s"], 1);
    assert_eq!(report["governance"]["short_circuited"], false);
    server.finish();
    let last = governed.audit_rows();
    let events: Vec<_> = last.iter().map(|row| (&row["event"], &row["outcome"])).collect();
    let (called, started) = (json!("MCP_TOOL_CALL"), json!("TOOL_STARTED"));
    let (exec, finished) = (json!("SANDBOX_EXEC"), json!("TOOL_FINISHED"));
    let (allowed, begun, timeout) = (json!("ALLOWED"), json!("STARTED"), json!("TIMEOUT"));
    assert_eq!(
        events,
        [
            (&called, &allowed),
            (&started, &begun),
            (&exec, &timeout),
            (&finished, &timeout),
            // This row is about the request for the evidence.
            (&called, &allowed),
        ]
    );
    assert!(last[..4].iter().all(|row| row["run_id"] == json!(run_id(&reply))));
}

fn what_takes_too_much_is_a_violation() {
    let governed = Governed::new("ledger");
    governed.write_policy(
        "[sandbox]\nmemory_limit_mb = 256\n[budget]\noutput_bytes_max = 100000\nartifact_bytes_max \
         = 1000000\n",
    );
    fs::write(governed.workspace.join("tests/test_much.py"), TOO_MUCH).unwrap();
    let mut server = governed.connect();
    let run = |server: &mut McpProcess, name: &str| {
        let params = json!({ "test_path": format!("tests/test_much.py::test_{name}") });
        call_as(server, &governed.admin, "run_pytest", params)
    };
    for (name, message) in [
        ("memory", "Sandbox violation: the tests took more than 256 MiB of memory"),
        ("output", "Sandbox violation: the tests printed more than 100000 bytes"),
    ] {
        let reply = run(&mut server, name);
        assert_refused(&reply, -32006, "SANDBOX_VIOLATION", message);
        let report = evidence(&mut server, &governed.admin, &run_id(&reply));
        assert_eq!(report["status"], "sandbox_violation", "{report}");
    }
    // At tier 3, a write fails if it would make the artifacts larger than the limit of the policy.
    for name in ["artifacts", "deep", "closed", "many", "deleted", "at_the_end"] {
        let reply = run(&mut server, name);
        let report = evidence(&mut server, &governed.admin, &run_id(&reply));
        assert!(text(&reply).contains("No space left on device"), "{name}: {reply}");
        assert!(report["summary"]["failures"][0]["sandbox"].as_bool().unwrap(), "{report}");
        let left = report["artifacts"].as_array().unwrap().iter();
        let left: u64 = left
            .filter(|file| file["path"].as_str().unwrap().starts_with("files/"))
            .map(|file| file["bytes"].as_u64().unwrap())
            .sum();
        assert!(left <= 1_000_000, "{name}: {left}");
    }
    server.finish();
}

fn a_run_that_leaves_too_much_at_tier_2_is_ended() {
    let governed = Governed::new("ledger");
    governed.write_policy("[budget]\nartifact_bytes_max = 1000000\n");
    fs::write(governed.workspace.join("tests/test_much.py"), TOO_MUCH).unwrap();
    governed.give_away();
    let server = governed.server().variable("QWED_MCP_TEST_KERNEL_LACKS", "namespaces");
    let mut server = of_user(server, Some(ORDINARY_USER)).connect();
    for name in ["artifacts", "deep", "many", "at_the_end"] {
        let params = json!({ "test_path": format!("tests/test_much.py::test_{name}") });
        let reply = call_as(&mut server, &governed.admin, "run_pytest", params);
        let message = "Sandbox violation: the tests left more than 1000000 bytes";
        assert_refused(&reply, -32006, "SANDBOX_VIOLATION", message);
        // The server removes the files, because they occupy the machine's disk.
        let folder = governed.data.join("artifacts").join(run_id(&reply));
        assert!(!folder.join("files").exists(), "{name}");
        assert!(folder.join("evidence.json").exists(), "{name}");
    }
    server.finish();
}

fn arguments_that_fail_validation_are_told_by_name() {
    let governed = Governed::new("ledger");
    let mut server = governed.connect();
    let id = "00000000-0000-4000-8000-000000000000";
    for (tool, arguments, message) in [
        ("run_pytest", json!({}), "'test_path' is missing"),
        ("run_pytest", json!({ "test_path": "../x" }), "'test_path' must be a path within"),
        ("run_pytest", json!({ "test_path": "/etc/passwd" }), "'test_path' must be a path within"),
        ("run_pytest", json!({ "test_path": "nope" }), "'test_path' does not exist"),
        ("run_pytest", json!({ "test_path": "tests", "args": [] }), "'args' is not an argument"),
        ("get_evidence", json!({}), "invalid arguments: missing field `run_id`"),
        ("get_evidence", json!({ "run_id": "x" }), "invalid arguments"),
        ("get_evidence", json!({ "run_id": id }), ""),
        ("list_artifacts", json!({ "run_id": id }), ""),
        ("list_artifacts", json!({ "limit": "x" }), "invalid arguments"),
        (
            "get_artifact_content",
            json!({ "run_id": id }),
            "invalid arguments: missing field `path`",
        ),
        ("get_artifact_content", json!({ "run_id": id, "path": "stdout.txt" }), ""),
    ] {
        let reply = call_as(&mut server, &governed.admin, tool, arguments);
        assert_refused(&reply, -32602, "INVALID_PARAMS", message);
    }
    server.finish();
    let rows = governed.audit_rows();
    assert_eq!(rows.iter().filter(|row| row["outcome"] == "INVALID_PARAMS").count(), 12);
}

fn a_damaged_store_or_policy_at_the_start() {
    let governed = Governed::new("ledger");
    let database = governed.data.join("governance.db");
    let content = fs::read(&database).unwrap();
    for damaged in [b"not a database, but long enough to be looked at as one".repeat(100), {
        let mut newer = content.clone();
        // `user_version`, big-endian, is at offset 60 of the header.
        newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
        newer
    }] {
        fs::write(&database, &damaged).unwrap();
        let mut server = governed.server().start();
        let status = server.wait_for_exit(Duration::from_secs(5));
        assert_eq!(status.code(), Some(1));
        let log = server.log();
        assert!(log.contains("ERROR") && log.contains("governance.db"), "{log}");
        assert_eq!(fs::read(&database).unwrap(), damaged, "it is not touched");
    }
    fs::write(&database, &content).unwrap();
    fs::write(&governed.policy, "[nonsense]").unwrap();
    let mut server = governed.connect();
    let reply = server.request("tools/call", &params(&governed.admin, "run_pytest", &json!({})));
    assert_refused(&reply, -32004, "POLICY_BLOCKED", "Tool blocked by policy: line 1");
    // A broken policy blocks scripts too, because the policy might protect the interpreter's folder or require a
    // token.
    let result = server.execute("print(1)");
    let expected = "Tool blocked by policy: line 1";
    assert!(result.is_error && result.text().contains(expected), "{:?}", result.texts);
    governed.write_policy("");
    assert!(!server.execute("print(1)").is_error);
    server.finish();
}

fn what_is_taken_back_reaches_those_who_wait_too() {
    let governed = Governed::new("ledger");
    // The run must last longer than a revocation takes on this machine, so that the second call still waits.
    let seconds = deadline(Duration::from_secs(1)).as_secs_f64();
    let test = format!(
        "
import threading, time
def test_it():
    for _ in range(3):
        threading.Thread(target=time.sleep, args=({seconds},)).start()
"
    );
    fs::write(governed.workspace.join("tests/test_long.py"), test).unwrap();
    let mut server = governed.connect();
    let scratch = server.scratch.path().to_owned();
    let arguments = json!({ "test_path": "tests/test_long.py" });
    let mut start =
        |token: &str| server.start_request("tools/call", &params(token, "run_pytest", &arguments));
    let first = start(&governed.admin);
    // Concurrent calls may get their turns in any order, so wait until the first call runs.
    assert!(eventually(Duration::from_secs(30), || has_threads(&scratch, 4)).is_some());
    let (second, third) = (start(&governed.user), start(&governed.admin));
    std::thread::sleep(Duration::from_millis(700));
    assert!(governed.command(&["token", "revoke", "2"]).status.success());
    assert!(server.reply(first)["result"].is_object());
    let reply = server.reply(second);
    assert_refused(&reply, -32001, "AUTH_REQUIRED", "Authentication required");
    governed.write_policy("[tools]\nallowlist = []\n");
    // The third run may have started before the policy changed.
    let reply = server.reply(third);
    assert!(reply["result"].is_object() || reply["error"]["code"] == -32004, "{reply}");
    server.finish();
}

fn the_interpreter_is_asked_without_the_servers_secrets() {
    let governed = Governed::new("ledger");
    let shim = governed.beside("python-shim");
    let log = governed.beside("environment");
    let program = crate::harness::python();
    let text = format!("#!/bin/sh\nenv >> {}\nexec {} \"$@\"\n", log.display(), program.display());
    crate::harness::write_program(&shim, &text);
    let server = governed.server().variable("QWED_MCP_PYTHON", shim.to_str().unwrap());
    let mut server = server.variable("QWED_MCP_AUTH_TOKEN", &governed.admin).connect();
    let path = "tests/test_ledger.py::test_overdrawn";
    assert!(run_pytest(&mut server, &governed.admin, path)["result"].is_object());
    server.finish();
    let seen = fs::read_to_string(log).unwrap();
    assert!(seen.contains("PATH=") && !seen.contains("QWED_"), "{seen}");
}
