//! Tests the audit log under load and after SIGKILL, and its rows about scripts.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{McpProcess, eventually, has_threads};

use super::{Governed, assert_refused, call_as, counted, params, run_id, run_pytest, text};

tests! {
    needs [Sandbox, Packages]:
        two_servers_share_the_store_under_load,
        as_many_calls_as_can_be_in_flight_are_carried_out_and_written_down,
        sigkill_at_any_point_leaves_a_chain_that_verifies_and_shows_what_was_interrupted,
        scripts_are_audited_too,
        what_was_read_is_written_down,
        a_call_that_waits_is_written_down,
        what_cannot_be_written_down_is_not_done,
        a_store_that_was_replaced_is_not_written_to,
        a_run_whose_server_ends_is_written_down_to_its_end,
        the_bill_of_materials_lists_the_tools_that_were_carried_out;
}

const TEST: &str = "tests/test_ledger.py::test_overdrawn";

fn runs_with(rows: &[Value], event: &str) -> BTreeSet<String> {
    let of_event = rows.iter().filter(|row| row["event"] == event);
    of_event.map(|row| row["run_id"].as_str().unwrap().to_owned()).collect()
}

/// The number of concurrent calls, a little below the limit, so that other requests are accepted.
const IN_FLIGHT: usize = 250;

fn two_servers_share_the_store_under_load() {
    const ROUNDS: usize = 4;
    let governed = Governed::new("ledger");
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut server = governed.server().variable("QWED_MCP_LOG", "warn").connect();
                let params = params(&governed.viewer, "list_artifacts", &json!({}));
                for _ in 0..ROUNDS {
                    for reply in all_at_once(&mut server, &params) {
                        assert!(reply["result"].is_object(), "{reply}");
                    }
                }
                let log = server.finish();
                assert!(!log.contains("locked"), "{log}");
            });
        }
    });
    let calls = 2 * ROUNDS * IN_FLIGHT;
    let report = governed.verify_audit();
    // The log also has one row for each of the three tokens.
    assert_eq!(report["rows"], calls + 3, "{report}");
    let rows = governed.audit_rows();
    assert_eq!(runs_with(&rows, "MCP_TOOL_CALL").len(), calls, "each has a run id of its own");
}

/// Sends all calls before it reads the first reply. Returns the replies.
fn all_at_once(server: &mut McpProcess, params: &Value) -> Vec<Value> {
    let ids: Vec<i64> =
        (0..IN_FLIGHT).map(|_| server.start_request("tools/call", params)).collect();
    ids.into_iter().map(|id| server.reply(id)).collect()
}

fn as_many_calls_as_can_be_in_flight_are_carried_out_and_written_down() {
    let governed = Governed::new("ledger");
    let mut server = governed.connect();
    let script = |code: &str| params("", "execute_python_code", &json!({ "code": code }));
    let blocked = all_at_once(&mut server, &script("import os\nos.system('id')"));
    for reply in blocked {
        let codes = &reply["result"]["content"][1]["text"];
        assert_eq!(codes, "Error code: QWED-MCP-RISK-005", "{reply}");
    }
    for reply in all_at_once(&mut server, &script("print(1)")) {
        assert_eq!(reply["result"]["isError"], false, "{reply}");
    }
    let forged = params("nobody's", "run_pytest", &json!({ "test_path": TEST }));
    for reply in all_at_once(&mut server, &forged) {
        assert_refused(&reply, -32001, "AUTH_REQUIRED", "Authentication required");
    }
    server.finish();
    let rows = governed.audit_rows();
    let outcome = |word: &str| rows.iter().filter(|row| row["outcome"] == word).count();
    for word in ["BLOCKED", "ALLOW_VERIFIED", "STARTED", "AUTH_REQUIRED"] {
        assert_eq!(outcome(word), IN_FLIGHT, "{word}");
    }
    governed.verify_audit();
}

fn sigkill_at_any_point_leaves_a_chain_that_verifies_and_shows_what_was_interrupted() {
    const THREADS: u32 = 4;
    const RUNS: u32 = 10;
    let governed = Governed::new("ledger");
    let answered = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let governed = &governed;
                scope.spawn(move || {
                    let mut answered = Vec::new();
                    // The duration of an undisturbed call at the current load. The first call measures it.
                    let mut whole = Duration::from_secs(10);
                    for run in 0..=RUNS {
                        let mut server = governed.connect();
                        let arguments = json!({ "test_path": TEST });
                        let params = params(&governed.user, "run_pytest", &arguments);
                        let started = Instant::now();
                        let id = server.start_request("tools/call", &params);
                        // The delays range from zero to more than the duration of a call.
                        let delay = whole * (run * THREADS + number) / (RUNS * THREADS) * 5 / 4;
                        let delay = if run == 0 { whole } else { delay };
                        let reply = server.next_message(delay).filter(|reply| reply["id"] == id);
                        if run == 0 {
                            whole = started.elapsed();
                        }
                        server.signal("KILL");
                        server.wait_for_exit(Duration::from_secs(5));
                        answered.extend(reply.map(|reply| run_id(&reply)));
                    }
                    answered
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });

    let report = governed.verify_audit();
    let rows = governed.audit_rows();
    let (started, finished) = (runs_with(&rows, "TOOL_STARTED"), runs_with(&rows, "TOOL_FINISHED"));
    assert!(started.len() > 20 && finished.is_subset(&started), "{report}");
    // If the server has answered a call, the audit log contains the end of the run.
    assert!(answered.iter().all(|id| finished.contains(id)), "a run that was told is not finished");
    let interrupted: BTreeSet<_> = started.difference(&finished).cloned().collect();
    assert!(!interrupted.is_empty() && !finished.is_empty(), "{report}");
    assert_eq!(report["unfinished"]["count"], json!(interrupted.len()), "{report}");

    // The next server reports the interrupted runs, and works.
    let mut server = governed.connect();
    let reply = run_pytest(&mut server, &governed.user, TEST);
    assert!(counted(&reply).starts_with("1 passed in "), "{reply}");
    let mut shown = BTreeSet::new();
    let mut offset = Some(0);
    while let Some(from) = offset {
        let list = json!({ "offset": from, "limit": 200 });
        let page = call_as(&mut server, &governed.user, "list_artifacts", list);
        let page: Value = serde_json::from_str(text(&page)).unwrap();
        for run in page["runs"].as_array().unwrap() {
            assert_ne!(run["state"], "in_progress", "{run}");
            if run["state"] == "interrupted" {
                shown.insert(run["run_id"].as_str().unwrap().to_owned());
            }
        }
        offset = page["next_offset"].as_u64();
    }
    assert!(shown.is_subset(&interrupted), "what has finished is not interrupted");
    server.finish();
}

fn scripts_are_audited_too() {
    let governed = Governed::new("ledger");
    let mut server = governed.connect();
    server.execute("print(1)");
    server.execute("import subprocess");
    let script =
        json!({ "code": "import time\ntime.sleep(0.1)\nraise SystemExit(3)", "background": true });
    let placed = call_as(&mut server, &governed.user, "execute_python_code", script);
    let job = text(&placed).split(' ').find(|word| word.len() == 37).unwrap();
    let job = job.trim_end_matches('.').to_owned();
    server.wait_for_job(&job);
    server.finish();

    let rows = governed.audit_rows();
    let told: Vec<_> = rows
        .iter()
        .map(|row| {
            [&row["event"], &row["outcome"], &row["user"]].map(|v| v.as_str().unwrap_or("-"))
        })
        .collect();
    assert_eq!(
        told,
        [
            ["MCP_TOOL_CALL", "ALLOW_VERIFIED", "-"],
            ["TOOL_STARTED", "STARTED", "-"],
            ["SANDBOX_EXEC", "SUCCEEDED", "-"],
            ["TOOL_FINISHED", "SUCCEEDED", "-"],
            ["MCP_TOOL_CALL", "BLOCKED", "-"],
            ["MCP_TOOL_CALL", "ALLOW_VERIFIED", "bob"],
            ["TOOL_STARTED", "STARTED", "-"],
            ["SANDBOX_EXEC", "FAILED", "-"],
            ["TOOL_FINISHED", "FAILED", "-"],
        ]
    );
    assert_eq!(rows[0]["run_id"], rows[3]["run_id"]);
    assert_eq!(rows[5]["run_id"], rows[8]["run_id"]);
    let details = |row: usize| -> Value {
        serde_json::from_str(rows[row]["details"].as_str().unwrap()).unwrap()
    };
    assert_eq!(details(7)["exit_code"], 3);
    assert_eq!(details(4)["error_code"], "QWED-MCP-RISK-005");
    // The log has only the hash of the script, and not its text.
    assert!(!json!(rows).to_string().contains("SystemExit"));
    governed.verify_audit();
}

fn what_was_read_is_written_down() {
    let governed = Governed::new("ledger");
    let mut server = governed.connect();
    let run = run_id(&run_pytest(&mut server, &governed.user, TEST));
    for (tool, arguments, expected) in [
        ("get_evidence", json!({ "run_id": run }), json!({ "token": "3", "read_run": run })),
        ("list_artifacts", json!({ "run_id": run }), json!({ "token": "3", "read_run": run })),
        ("list_artifacts", json!({ "run_id": null, "limit": 1 }), json!({ "token": "3" })),
        (
            "get_artifact_content",
            json!({ "run_id": run, "path": "stdout.txt" }),
            json!({ "token": "3", "read_run": run, "path": "stdout.txt" }),
        ),
    ] {
        let reply = call_as(&mut server, &governed.viewer, tool, arguments);
        assert!(reply["result"].is_object(), "{reply}");
        let row = governed.audit_rows().pop().unwrap();
        assert_eq!((&row["tool"], &row["user"]), (&json!(tool), &json!("eve")));
        let details: Value = serde_json::from_str(row["details"].as_str().unwrap()).unwrap();
        assert_eq!(details, expected, "{tool}");
    }
    let listed = governed.command(&["audit", "list", "--limit", "1"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    let told = format!("ALLOWED, token 3, run {run}, stdout.txt");
    let words: Vec<_> = listed.split_whitespace().collect();
    assert!(words.join(" ").contains(&told), "{listed}");
    server.finish();
}

fn a_call_that_waits_is_written_down() {
    let governed = Governed::new("ledger");
    let test = "
import threading, time
def test_it():
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    time.sleep(60)
";
    std::fs::write(governed.workspace.join("tests/test_long.py"), test).unwrap();
    let mut server = governed.connect();
    let arguments = json!({ "test_path": "tests/test_long.py" });
    let call = params(&governed.user, "run_pytest", &arguments);
    let first = server.start_request("tools/call", &call);
    let runs = || has_threads(server.scratch.path(), 4);
    assert!(eventually(Duration::from_secs(20), runs).is_some());
    let [_second, _third] = [0, 1].map(|_| server.start_request("tools/call", &call));
    let rows = || governed.audit_rows().into_iter().filter(|row| row["outcome"] == "WAITING");
    assert!(eventually(Duration::from_secs(20), || rows().count() == 2).is_some());
    let waiting: BTreeSet<String> =
        rows().map(|row| row["run_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(governed.verify_audit()["unfinished"]["count"], 3);
    // When a waiting call gets its turn, the audit log records its start and end as for any run.
    server.cancel(first);
    let started =
        || runs_with(&governed.audit_rows(), "TOOL_STARTED").intersection(&waiting).count();
    assert!(eventually(Duration::from_secs(20), || started() == 1).is_some());
    server.signal("KILL");
    server.wait_for_exit(Duration::from_secs(5));
    let report = governed.verify_audit();
    assert_eq!(report["unfinished"]["count"], 2, "{report}");
    let unfinished = report["unfinished"]["runs"].as_array().unwrap().iter();
    let unfinished: BTreeSet<String> =
        unfinished.map(|run| run.as_str().unwrap().to_owned()).collect();
    assert_eq!(unfinished, waiting, "killed while it ran, and while it waited");
}

fn what_cannot_be_written_down_is_not_done() {
    let governed = Governed::new("ledger");
    let marker = governed.workspace.join("test_marker.py");
    std::fs::write(&marker, "def test_it(): pass").unwrap();
    let mut server = governed.connect();
    assert!(!server.execute("print(1)").is_error);
    // The table disappears while the server runs.
    let dropped =
        governed.sqlite("DROP TRIGGER IF EXISTS audit_no_delete; ALTER TABLE audit RENAME TO gone");
    assert!(dropped.status.success(), "{dropped:?}");
    let reply = run_pytest(&mut server, &governed.user, "test_marker.py");
    assert_eq!(reply["error"]["code"], -32603, "{reply}");
    let result = server.execute("print(1)");
    assert!(result.is_error, "{result:?}");
    assert!(result.text().contains("The audit log cannot be used"), "{result:?}");
    server.finish();
    assert!(!governed.data.join("artifacts").exists(), "nothing was run");
}

fn a_store_that_was_replaced_is_not_written_to() {
    let governed = Governed::new("ledger");
    let mut server = governed.connect();
    assert!(!server.execute("print(1)").is_error);
    let database = governed.data.join("governance.db");
    std::fs::rename(&database, governed.data.join("moved.db")).unwrap();
    let replies = |server: &mut crate::harness::McpProcess| {
        let reply = run_pytest(server, &governed.user, TEST);
        assert_eq!(reply["error"]["code"], -32603, "{reply}");
        assert!(server.execute("print(1)").is_error);
    };
    replies(&mut server);
    std::fs::copy(governed.data.join("moved.db"), &database).unwrap();
    replies(&mut server);
    // After the rename, the path leads to the database that the server has open.
    std::fs::rename(governed.data.join("moved.db"), &database).unwrap();
    assert!(!server.execute("print(1)").is_error);
    server.finish();
    governed.verify_audit();
}

fn a_run_whose_server_ends_is_written_down_to_its_end() {
    let governed = Governed::new("ledger");
    let test = "
import os, pathlib, threading, time

def test_it():
    folder = pathlib.Path(os.environ['QWED_ARTIFACTS'])
    for index in range(1000):
        (folder / str(index)).write_bytes(b'x' * 100)
    with open(folder / 'sparse', 'wb') as sparse:
        sparse.truncate(60 << 20)
    (folder / 'dense').write_bytes(b'x' * (5 << 20))
    (folder / 'ready').touch()
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    time.sleep(60)
";
    std::fs::write(governed.workspace.join("tests/test_long.py"), test).unwrap();
    for signal in [None, Some("TERM")] {
        let mut server = governed.connect();
        let arguments = json!({ "test_path": "tests/test_long.py" });
        server.start_request("tools/call", &params(&governed.user, "run_pytest", &arguments));
        let is_ready = || has_threads(server.scratch.path(), 4);
        assert!(eventually(Duration::from_secs(30), is_ready).is_some());
        match signal {
            Some(signal) => server.signal(signal),
            None => server.close_input(),
        }
        server.wait_for_exit(Duration::from_secs(5));
        let rows = governed.audit_rows();
        let last = rows.last().unwrap();
        assert_eq!(
            [&last["event"], &last["outcome"]],
            ["TOOL_FINISHED", "CANCELLED"],
            "{signal:?}"
        );
        let run = last["run_id"].as_str().unwrap();
        let folder = governed.data.join("artifacts").join(run);
        assert!(folder.join("evidence.json").exists(), "{signal:?}");
        assert!(folder.join("files/ready").exists(), "{signal:?}");
    }
    assert_eq!(governed.verify_audit()["unfinished"]["count"], 0);
}

fn the_bill_of_materials_lists_the_tools_that_were_carried_out() {
    let governed = Governed::new("ledger");
    let bill = governed.beside("bom.json");
    let tools = |governed: &Governed, calls: &dyn Fn(&mut crate::harness::McpProcess)| {
        let server = governed.server().variable("QWED_MCP_AIBOM", bill.to_str().unwrap());
        let mut server = server.connect();
        calls(&mut server);
        server.finish();
        let text = std::fs::read_to_string(&bill).unwrap();
        let bill: Value = serde_json::from_str(&text).unwrap();
        let tools = bill["components"]["mcp_tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let none = tools(&governed, &|server| {
        run_pytest(server, "nonsense", TEST);
        run_pytest(server, &governed.viewer, TEST);
        run_pytest(server, &governed.user, "missing");
        governed.write_policy("[sandbox]\nenabled = false\n");
        run_pytest(server, &governed.user, TEST);
        governed.write_policy("");
    });
    assert_eq!(none, [""; 0]);
    let some = tools(&governed, &|server| {
        assert!(run_pytest(server, &governed.user, TEST)["result"].is_object());
        call_as(server, &governed.viewer, "list_artifacts", json!({}));
        server.execute("print(1)");
    });
    assert_eq!(some, ["execute_python_code", "list_artifacts", "run_pytest"]);
}
