//! Tests governed tools on servers that share a database: common tokens and quotas, and one log with several chains.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::{Governed, assert_refused, call_as, counted, run_id, run_pytest};
use crate::harness::eventually;
use crate::harness::postgres::{self, Postgres};

tests! {
    needs [Postgres, Sandbox, Packages]:
        what_is_done_at_one_server_holds_at_the_other,
        a_quota_is_counted_over_all_servers,
        what_one_server_signed_tells_of_all_chains,
        rows_quotas_and_expiry_go_by_the_clock_of_the_database,
        nothing_is_done_without_the_database;
    needs [Postgres, Packages]:
        the_commands_work_on_the_database_that_is_set,
        the_log_of_several_servers_is_exported_and_verified_elsewhere;
}

const TEST: &str = "tests/test_ledger.py::test_overdrawn";
/// The password in the URL. The tests' database requires no password.
const PASSWORD: &str = "hunter2hunter2";

/// Creates two servers with separate data folders. Both servers use the tokens of the first server.
fn servers(url: &str) -> [Governed; 2] {
    let url = url.replace("qwed@", &format!("qwed:{PASSWORD}@"));
    let first = Governed::sharing("ledger", Some(url.clone()));
    let mut second = Governed::sharing("ledger", Some(url));
    second.user.clone_from(&first.user);
    second.viewer.clone_from(&first.viewer);
    [first, second]
}

/// Returns the id of this user's token, as the commands list it.
fn number(governed: &Governed, user: &str) -> String {
    let output = governed.command(&["token", "list", "--format", "json"]);
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tokens = list["tokens"].as_array().unwrap().iter();
    let mut of_user = tokens.filter(|token| token["user"] == user);
    of_user.next().unwrap_or_else(|| panic!("{list}"))["id"].to_string()
}

#[track_caller]
fn assert_passed(reply: &Value) {
    assert!(counted(reply).starts_with("1 passed"), "{reply}");
}

fn what_is_done_at_one_server_holds_at_the_other() {
    let [here, there] = servers(&postgres::shared().database());
    let (mut one, mut other) = (here.connect(), there.connect());
    let ran = run_pytest(&mut one, &here.user, TEST);
    assert_passed(&ran);
    let run = run_id(&ran);

    // Only the server that ran the tests has the files. The other server reports this.
    let asked = json!({ "run_id": run });
    let evidence = call_as(&mut one, &here.viewer, "get_evidence", asked.clone());
    assert_eq!(evidence["result"]["isError"], false, "{evidence}");
    let expected = "the files of this run are on the server that ran it, instance ";
    let instance = fs::read_to_string(here.data.join("instance-id")).unwrap();
    for tool in ["get_evidence", "list_artifacts"] {
        let refused = call_as(&mut other, &there.viewer, tool, asked.clone());
        assert_refused(&refused, -32602, "INVALID_PARAMS", expected);
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains(instance.trim()), "{refused}");
    }

    // Both servers refuse a revoked token at once.
    let ran = run_pytest(&mut other, &there.user, TEST);
    assert_passed(&ran);
    let revoked = here.command(&["token", "revoke", &number(&here, "bob")]);
    assert_eq!(revoked.status.code(), Some(0), "{revoked:?}");
    for (server, token) in [(&mut one, &here.user), (&mut other, &there.user)] {
        let refused = run_pytest(server, token, TEST);
        assert_refused(&refused, -32001, "AUTH_REQUIRED", "Authentication required");
    }
    for server in [one, other] {
        let log = server.finish();
        assert!(!log.contains(PASSWORD), "{log}");
    }
    let found = here.verify_audit();
    assert_eq!(found["instances"].as_array().unwrap().len(), 2, "{found}");
    // No rows are stored in a file.
    assert!(!here.data.join("governance.db").exists());
    let verified = there.command(&["audit", "verify", "--artifacts"]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
    // Only the server that has the files can detect that they were changed.
    let report = here.data.join("artifacts").join(&run).join("evidence.json");
    fs::write(&report, "{}").unwrap();
    for (governed, code) in [(&here, 1), (&there, 0)] {
        let verified = governed.command(&["audit", "verify", "--artifacts"]);
        assert_eq!(verified.status.code(), Some(code), "{verified:?}");
    }
}

fn a_quota_is_counted_over_all_servers() {
    let [here, there] = servers(&postgres::shared().database());
    for governed in [&here, &there] {
        governed.write_policy("[budget]\nruns_per_day = 2\n");
    }
    let (mut one, mut other) = (here.connect(), there.connect());
    for server in [&mut one, &mut other] {
        let ran = run_pytest(server, &here.user, TEST);
        assert_passed(&ran);
    }
    for server in [&mut one, &mut other] {
        let refused = run_pytest(server, &here.user, TEST);
        assert_refused(&refused, -32005, "BUDGET_EXCEEDED", "Budget exceeded");
    }
    let policy = there.policy.to_str().unwrap();
    let arguments = json!({ "test_path": TEST }).to_string();
    let test = ["policy", "test", policy, "--role", "user", "--tool", "run_pytest", "--arguments"];
    for (user, code) in [("bob", 1), ("ada", 0)] {
        let asked = [&test[..], &[&arguments, "--user", user]].concat();
        let said = there.command_with_python(&asked);
        assert_eq!(said.status.code(), Some(code), "{said:?}");
    }
}

/// Builds a library for `LD_PRELOAD` that adds `SKEW_SECONDS` to a program's clock.
fn clock_mover(governed: &Governed) -> String {
    let (source, library) = (governed.beside("clock.c"), governed.beside("clock.so"));
    let code = "#define _GNU_SOURCE\n#include <stdlib.h>\n#include <sys/syscall.h>\n#include <time.h>\n#include <unistd.h>\n\
        int clock_gettime(clockid_t clock, struct timespec *time) {\n\
            const char *skew = getenv(\"SKEW_SECONDS\");\n\
            long result = syscall(SYS_clock_gettime, clock, time);\n\
            if (result == 0 && clock == CLOCK_REALTIME && skew) time->tv_sec += atol(skew);\n\
            return result;\n\
        }\n";
    fs::write(&source, code).unwrap();
    // This machine has a C compiler, because Rust needs it for linking.
    let made =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(made.unwrap().success());
    path(&library).to_owned()
}

fn rows_quotas_and_expiry_go_by_the_clock_of_the_database() {
    const DAY: &str = "90000";
    let here = Governed::sharing("ledger", Some(postgres::shared().database()));
    let library = clock_mover(&here);
    let moved = |governed: &Governed, seconds: &str| {
        let server = governed.server().variable("LD_PRELOAD", &library);
        server.variable("SKEW_SECONDS", seconds).variable("QWED_MCP_WARM", "off").connect()
    };
    here.write_policy("[budget]\nruns_per_day = 1\n");
    let created = printed(
        &here,
        &["token", "create", "--user", "tim", "--role", "user", "--expires", "1h"],
        0,
    );
    let short = printed(
        &here,
        &["token", "create", "--user", "tom", "--role", "user", "--expires", "1s"],
        0,
    );
    let [mut ahead, mut behind] = [DAY, "-90000"].map(|seconds| moved(&here, seconds));
    assert_passed(&run_pytest(&mut ahead, &here.user, TEST));
    let refused = run_pytest(&mut behind, &here.user, TEST);
    assert_refused(&refused, -32005, "BUDGET_EXCEEDED", "Budget exceeded");
    let evidence = call_as(&mut ahead, created.trim(), "list_artifacts", json!({}));
    assert_eq!(evidence["result"]["isError"], false, "{evidence}");
    let is_refused = || {
        let mut right = here.connect();
        let listed = call_as(&mut right, short.trim(), "list_artifacts", json!({}));
        right.finish();
        listed["error"]["code"] == -32001
    };
    eventually(Duration::from_secs(20), is_refused).expect("it expires");
    let listed = call_as(&mut behind, short.trim(), "list_artifacts", json!({}));
    assert_refused(&listed, -32001, "AUTH_REQUIRED", "Authentication required");
    for server in [ahead, behind] {
        server.finish();
    }
    let is_off = |governed: &Governed| {
        let rows = governed.audit_rows();
        let times = rows.iter().map(|row| row["time"].as_str().unwrap().parse::<DateTime<Utc>>());
        times.map(|time| (time.unwrap() - Utc::now()).abs().num_hours() > 20).collect::<Vec<_>>()
    };
    assert!(is_off(&here).iter().all(|is_off| !is_off), "{:?}", here.audit_rows());
    // A server with its own store uses the machine's clock.
    let alone = Governed::sharing("ledger", None);
    let mut server = moved(&alone, DAY);
    call_as(&mut server, &alone.user, "list_artifacts", json!({}));
    server.finish();
    assert!(is_off(&alone).contains(&true), "{:?}", alone.audit_rows());
}

fn what_one_server_signed_tells_of_all_chains() {
    let [here, there] = servers(&postgres::shared().database());
    let file = here.beside("checkpoints");
    let sections = format!("[audit]\ncheckpoint = {:?}\ncheckpoint_rows = 1\n", path(&file));
    here.write_policy(&sections);
    for governed in [&there, &here] {
        let mut server = governed.connect();
        let script = json!({ "code": "print(1)" });
        call_as(&mut server, &here.user, "execute_python_code", script);
        server.finish();
    }
    let (key, file) = (here.data.join("keys"), path(&file));
    let verify = |code: i32| {
        let signed = ["--checkpoint", file, "--key", path(&key)];
        let arguments = [&["audit", "verify", "--format", "json"][..], &signed].concat();
        let told = printed(&there, &arguments, code);
        serde_json::from_str::<Value>(&told).unwrap()
    };
    let told = verify(0);
    let found = &told["checkpoints"];
    assert_eq!((&found["flawed"], &found["rows_behind"]), (&json!(0), &json!(0)), "{told}");
    // The other server's chain is cut, but is still consistent.
    let instance = fs::read_to_string(there.data.join("instance-id")).unwrap();
    let last =
        format!("(SELECT max(seq) - 1 FROM qwed_mcp.audit WHERE instance = '{}')", instance.trim());
    let cut = format!(
        "SET session_replication_role = replica; \
         UPDATE qwed_mcp.audit_heads SET (seq, hash) = (SELECT seq, hash FROM qwed_mcp.audit AS \
         last \
             WHERE last.instance = audit_heads.instance AND seq = {last}) WHERE instance = '{0}'; \
         DELETE FROM qwed_mcp.audit WHERE instance = '{0}' AND seq > {last}",
        instance.trim()
    );
    postgres::shared().sql(&here.store.clone().unwrap(), &cut);
    let told = verify(1);
    assert_eq!(told["broken"], Value::Null, "{told}");
    assert!(told["checkpoints"]["flaws"].to_string().contains("is missing"), "{told}");
}

fn nothing_is_done_without_the_database() {
    let database = Postgres::start();
    let [here, _] = servers(&database.database());
    let mut server = here.connect();
    assert_passed(&run_pytest(&mut server, &here.user, TEST));
    let runs = || fs::read_dir(here.data.join("artifacts")).unwrap().count();
    let before = runs();
    database.kill();
    let expected = "The audit log cannot be used, so nothing is done.";
    for _ in 0..2 {
        let refused = run_pytest(&mut server, &here.user, TEST);
        assert_eq!(refused["error"]["code"], -32603, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().starts_with(expected), "{refused}");
    }
    let script = call_as(&mut server, "", "execute_python_code", json!({ "code": "print(1)" }));
    assert_eq!(script["result"]["isError"], true, "{script}");
    assert_eq!(runs(), before);
    // While the database is not available, no server can start.
    let output = here.server().variable("QWED_MCP_WARM", "off").command().output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(log.contains("the database of QWED_MCP_STORE cannot be used"), "{log}");
    assert!(!log.contains(PASSWORD), "{log}");
    database.begin();
    assert_passed(&run_pytest(&mut server, &here.user, TEST));
    assert!(!server.finish().contains(PASSWORD));
    here.verify_audit();
}

/// Returns the standard output of a command that exits with this code.
#[track_caller]
fn printed(governed: &Governed, arguments: &[&str], code: i32) -> String {
    let output = governed.command(arguments);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn the_commands_work_on_the_database_that_is_set() {
    let database = postgres::shared().database();
    // This data folder already has its own store.
    let mut here = Governed::sharing("ledger", None);
    here.store = Some(database.clone());
    let output = here.command(&["token", "list"]);
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        log.contains("QWED_MCP_STORE is set: the tokens and the audit log of the store in "),
        "{log}"
    );
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1, "{log}");

    here.token("ann", "user");
    assert!(printed(&here, &["token", "list"], 0).contains("ann"));
    let rotated = printed(&here, &["token", "rotate", "1", "--expires", "1h"], 0);
    assert!(rotated.starts_with("qwedmcp_"), "{rotated}");
    assert_eq!(printed(&here, &["token", "revoke", "2"], 0), "token 2 is revoked\n");
    assert_eq!(printed(&here, &["token", "revoke", "2"], 0), "token 2 was revoked before\n");
    printed(&here, &["token", "revoke", "9"], 1);
    let rows = printed(&here, &["audit", "list"], 0);
    assert_eq!(rows.matches("TOKEN_CREATED").count(), 2, "{rows}");
    assert_eq!(rows.matches("TOKEN_REVOKED").count(), 2, "{rows}");
    printed(&here, &["runs", "list"], 0);
    printed(&here, &["runs", "show", "0b7bd4f2-9a9e-4a52-8f0c-3c1d6a3c9a11"], 1);
    let told = printed(&here, &["audit", "verify"], 0);
    assert!(told.contains("all chains are intact, 4 rows\n"), "{told}");

    for (url, said) in [
        ("sqlite:///x", "QWED_MCP_STORE is not a URL that begins with postgres://"),
        ("postgres://qwed:hunter2hunter2@127.0.0.1:1/x?connect_timeout=1", "cannot be used"),
    ] {
        here.store = Some(url.to_owned());
        let output = here.command(&["token", "list"]);
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{log}");
        assert!(log.contains(said) && !log.contains(PASSWORD), "{log}");
    }
}

fn the_log_of_several_servers_is_exported_and_verified_elsewhere() {
    let [here, there] = servers(&postgres::shared().database());
    there.token("ann", "viewer");
    let found = there.verify_audit();
    let heads: Vec<String> = found["instances"]
        .as_array()
        .unwrap()
        .iter()
        .map(|chain| chain["head"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!((heads.len(), &found["rows"]), (2, &json!(7)), "{found}");
    let told = printed(&here, &["audit", "verify"], 0);
    for head in heads.iter().chain([&found["head"].as_str().unwrap().to_owned()]) {
        assert!(told.contains(head.as_str()), "{told}");
    }
    let export = printed(&there, &["audit", "export"], 0);
    assert_eq!(export.lines().count(), 7, "{export}");
    let file = here.beside("export.jsonl");
    let verify = |text: &str, heads: &[&str], code: i32| {
        fs::write(&file, text).unwrap();
        let arguments = ["audit", "verify", path(&file), "--format", "json"];
        let heads = heads.iter().flat_map(|head| ["--head", head]);
        let arguments: Vec<&str> = arguments.into_iter().chain(heads).collect();
        serde_json::from_str::<Value>(&printed(&here, &arguments, code)).unwrap()
    };
    let told = verify(&export, &[&heads[0], &heads[1]], 0);
    assert_eq!(told["instances"].as_object().unwrap().len(), 2, "{told}");
    verify(&export, &[&heads[0], &"f".repeat(64)], 1);
    verify(&export.replace("\"viewer", "\"Viewer"), &[], 1);
    // The first changed export lacks a row. In the second, the rows of one instance have the id of the other instance.
    let without: Vec<&str> =
        export.lines().enumerate().filter(|(at, _)| *at != 1).map(|it| it.1).collect();
    verify(&(without.join("\n") + "\n"), &[], 1);
    let instance = fs::read_to_string(here.data.join("instance-id")).unwrap();
    let other = fs::read_to_string(there.data.join("instance-id")).unwrap();
    verify(&export.replace(instance.trim(), other.trim()), &[], 1);
    // Exports the rows after row 3 of each chain.
    let rest = printed(&there, &["audit", "export", "--since-seq", "3"], 0);
    let seqs: Vec<Value> = rest
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].clone())
        .collect();
    assert_eq!(seqs, [json!(4)], "{rest}");

    // The admin noted two heads. One of them has disappeared.
    let url = here.store.clone().unwrap();
    let noted = ["audit", "verify", "--head", &heads[0], "--head", &heads[1]];
    printed(&here, &noted, 0);
    let cut = "SET session_replication_role = replica; \
               DELETE FROM qwed_mcp.audit WHERE seq > 2; DELETE FROM qwed_mcp.tokens; \
               UPDATE qwed_mcp.audit_heads SET (seq, hash) = (SELECT seq, hash FROM qwed_mcp.audit \
               AS last \
                   WHERE last.instance = audit_heads.instance AND seq = 2)";
    postgres::shared().sql(&url, cut);
    let told = printed(&here, &noted, 1);
    assert!(told.contains("BROKEN: no intact row has the given head"), "{told}");
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
