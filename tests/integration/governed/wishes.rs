//! Tests tokens for scripts, quotas, `policy test`, the rotation of tokens, checkpoints and exports.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Governed, call_as, run_pytest};
use crate::harness::binary;

tests! {
    needs [Tier3, Packages]:
        scripts_take_a_token_where_the_policy_says_so,
        a_user_has_so_many_runs_a_day,
        what_a_call_would_get_is_what_it_gets,
        a_log_has_the_rows_that_were_signed,
        each_byte_of_a_checkpoint_counts,
        a_head_is_signed_when_it_is_old_enough,
        a_new_chain_is_found_by_its_checkpoints,
        a_run_says_which_commit_it_was_of;
    needs [Sandbox, Packages]:
        an_export_goes_on_with_what_is_appended,
        a_token_is_put_in_the_place_of_another_one,
        an_export_is_verified_without_the_store;
}

fn scripts_take_a_token_where_the_policy_says_so() {
    let governed = Governed::new("ledger");
    let mut server = governed.connect();
    let mut run = |token: &str| {
        let reply =
            call_as(&mut server, token, "execute_python_code", json!({ "code": "print(6 * 7)" }));
        let text = reply["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        (reply["result"]["isError"] == true, text)
    };
    let ran = (false, "STDOUT:\n42\n\nExecution completed successfully.".to_owned());
    let refused = |why: &str| (true, format!("Execution error: {why}"));
    assert_eq!(run("no token"), ran);
    for (policy, of_nobody, of_viewer) in [
        ("[tools]\nscripts_need_token = false\n", ran.clone(), ran.clone()),
        (
            "[tools]\nscripts_need_token = true\n",
            refused("Authentication required"),
            refused("Permission denied"),
        ),
    ] {
        governed.write_policy(policy);
        assert_eq!(run("no token"), of_nobody, "{policy}");
        assert_eq!(run(&governed.viewer), of_viewer, "{policy}");
        assert_eq!(run(&governed.user), ran, "{policy}");
        assert_eq!(run(&governed.admin), ran, "{policy}");
    }
    // The log contains the refused calls.
    let rows = governed.audit_rows();
    let outcomes: Vec<_> = rows.iter().map(|row| row["outcome"].as_str().unwrap()).collect();
    let count = |outcome: &str| outcomes.iter().filter(|it| **it == outcome).count();
    assert_eq!((count("AUTH_REQUIRED"), count("PERMISSION_DENIED")), (1, 1), "{outcomes:?}");
    assert_eq!(count("STARTED"), 7, "{outcomes:?}");
    // This policy has an unknown key, so it is broken. The server then refuses all scripts, because they might need a
    // token.
    governed.write_policy("[tools]\nscripts_need_tokens = true\n");
    assert!(run(&governed.user).0);
    governed.verify_audit();
}

fn a_user_has_so_many_runs_a_day() {
    let governed = Governed::new("ledger");
    governed.write_policy("[budget]\nruns_per_day = 2\n");
    let mut server = governed.connect();
    let mut run = |token: &str, test: &str| {
        let reply = run_pytest(&mut server, token, test);
        reply["error"]["data"]["exceeded"].as_str().unwrap_or("ran").to_owned()
    };
    let test = "tests/test_ledger.py::TestTransfer";
    // A call that is refused for another reason does not count as a run.
    assert_eq!(run(&governed.user, "missing"), "ran");
    for expected in ["ran", "ran", "runs_per_day", "runs_per_day"] {
        assert_eq!(run(&governed.user, test), expected);
    }
    // The quota of a user counts runs with all tokens of this user.
    assert_eq!(run(&governed.token("bob", "admin"), test), "runs_per_day");
    assert_eq!(run(&governed.admin, test), "ran");
    let report = policy_test(&governed, &["--role", "user", "--user", "bob"]);
    assert_eq!(report["name"], "BUDGET_EXCEEDED", "{report}");
    for user in ["ada", "nobody"] {
        let report = policy_test(&governed, &["--role", "user", "--user", user]);
        assert_eq!(report["allowed"], true, "{report}");
    }
    governed.write_policy("[budget]\nruns_per_day = 3\n");
    assert_eq!(run(&governed.user, test), "ran");
    governed.write_policy("");
    assert_eq!(run(&governed.user, test), "ran");
    governed.verify_audit();
}

#[track_caller]
fn policy_test(governed: &Governed, arguments: &[&str]) -> Value {
    let mut all = vec!["policy", "test", governed.policy.to_str().unwrap(), "--format", "json"];
    all.extend(arguments);
    let output = governed.command_with_python(&all);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(output.status.code(), Some(i32::from(report["allowed"] != true)), "{output:?}");
    report
}

/// `policy test` gives the same answers as real calls.
fn what_a_call_would_get_is_what_it_gets() {
    let governed = Governed::new("ledger");
    let mut server = governed.connect();
    let rows = || governed.audit_rows().len();
    for (policy, role, arguments) in [
        ("", "user", json!({ "test_path": "tests/test_ledger.py::TestTransfer" })),
        ("", "viewer", json!({ "test_path": "tests" })),
        ("", "user", json!({ "test_path": "../tests" })),
        ("", "user", json!({ "path": "tests" })),
        ("[tools]\nallowlist = []\n", "user", json!({ "test_path": "tests" })),
        ("[tools]\nallowlist = [\"get_evidence\"]\n", "admin", json!({ "test_path": "tests" })),
        ("[sandbox]\nenabled = false\n", "user", json!({ "test_path": "tests" })),
        ("[budget]\nattempts_max = 0\n", "user", json!({ "test_path": "tests" })),
        ("[budget]\nattempts = 0\n", "user", json!({ "test_path": "tests" })),
    ] {
        governed.write_policy(policy);
        let token = match role {
            "admin" => &governed.admin,
            "user" => &governed.user,
            _ => &governed.viewer,
        };
        let real = call_as(&mut server, token, "run_pytest", arguments.clone());
        let before = rows();
        let report =
            policy_test(&governed, &["--role", role, "--arguments", &arguments.to_string()]);
        assert_eq!(rows(), before, "nothing is written down");
        assert_eq!(report["code"], real["error"]["code"], "{policy}: {report} {real}");
        assert_eq!(report["message"], real["error"]["message"], "{policy}: {report} {real}");
        assert_eq!(report["allowed"] == true, real["error"].is_null(), "{policy}: {report} {real}");
    }
    governed.write_policy("");
    let reading = ["--role", "viewer", "--tool", "get_evidence", "--arguments", "{}"];
    assert_eq!(policy_test(&governed, &reading)["allowed"], true);
    let wrong = |arguments: &[&str]| governed.command_with_python(arguments).status.code();
    assert_eq!(wrong(&["policy", "test", "--role", "user"]), Some(2), "which policy?");
    let path = governed.policy.to_str().unwrap();
    assert_eq!(wrong(&["policy", "test", path, "--role", "user", "--arguments", "[]"]), Some(2));
    let list = ["--role", "viewer", "--tool", "list_artifacts", "--arguments", "{}"];
    governed.write_policy("[nonsense]\n");
    let real = call_as(&mut server, &governed.viewer, "list_artifacts", json!({}));
    let report = policy_test(&governed, &list);
    assert_eq!(report["message"], real["error"]["message"], "{report} {real}");
    fs::remove_file(&governed.policy).unwrap();
    assert_eq!(wrong(&[&["policy", "test", path][..], &list].concat()), Some(2));
    assert_eq!(wrong(&["policy", "test", path, "--role", "user"]), Some(2));
}

fn a_token_is_put_in_the_place_of_another_one() {
    let governed = Governed::new("ledger");
    let rotate = |arguments: &[&str]| -> Output {
        governed.command(&[&["token", "rotate"], arguments].concat())
    };
    let mut server = governed.connect();
    let mut is_known = |token: &str| {
        call_as(&mut server, token, "list_artifacts", json!({}))["error"]["code"] != -32001
    };
    assert!(is_known(&governed.user));
    let output = rotate(&["2"]);
    assert!(output.status.success(), "{output:?}");
    let new = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert_eq!((is_known(&governed.user), is_known(&new)), (false, true));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("token 4 for bob, role user, without an end"), "{stderr}");
    // A token can be rotated only once. The validity that `--expires` sets also applies after later rotations.
    assert_eq!(rotate(&["2"]).status.code(), Some(1));
    assert_eq!(rotate(&["77"]).status.code(), Some(1));
    for arguments in [&["4", "--expires", "1d"][..], &["5"]] {
        let output = rotate(arguments);
        assert!(String::from_utf8(output.stderr).unwrap().contains(", until "), "{arguments:?}");
    }
    let list = governed.command(&["token", "list", "--format", "json"]);
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    let states: Vec<_> =
        list["tokens"].as_array().unwrap().iter().map(|it| it["state"].clone()).collect();
    assert_eq!(states, ["active", "revoked", "active", "revoked", "revoked", "active"]);
    governed.verify_audit();
}

fn an_export_is_verified_without_the_store() {
    let governed = Governed::new("ledger");
    governed.token("eve", "user");
    let export = |arguments: &[&str]| {
        let output = governed.command(&[&["audit", "export"], arguments].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let file = governed.beside("export.jsonl");
    let verify = |text: &str, arguments: &[&str]| {
        fs::write(&file, text).unwrap();
        let mut command = Command::new(binary());
        // This simulates another machine, without a data folder.
        command.env_clear().args(["audit", "verify", "--format", "json"]).arg(&file);
        let output = command.args(arguments).output().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), told)
    };
    let whole = export(&[]);
    let head = governed.verify_audit()["head"].as_str().unwrap().to_owned();
    let (code, told) = verify(&whole, &["--head", &head]);
    assert_eq!((code, &told["rows"], &told["first"]), (Some(0), &json!(4), &json!(1)), "{told}");
    assert_eq!((&told["head"], &told["known_head"]), (&json!(head), &json!({ "row": 4 })));
    // This export continues an earlier export.
    let rest = export(&["--since-seq", "3"]);
    assert_eq!(rest.lines().count(), 1);
    let lines: Vec<&str> = whole.lines().collect();
    let third: Value = serde_json::from_str(lines[2]).unwrap();
    let (code, told) = verify(&rest, &["--head", third["hash"].as_str().unwrap()]);
    assert_eq!((code, &told["known_head"]), (Some(0), &json!({ "row": 3 })), "{told}");
    assert_eq!(told["follows"], third["hash"]);
    // Each of these exports was changed after it was written.
    let joined = |lines: &[&str]| lines.join("\n") + "\n";
    for (changed, seq, flaw) in [
        (whole.replacen("\"ada\"", "\"eve\"", 1), 1, "changed"),
        (joined(&[lines[0], lines[2], lines[3]]), 2, "removed"),
        (joined(&[lines[0], lines[0], lines[1]]), 1, "inserted"),
        (joined(&[lines[1], lines[0]]), 1, "inserted"),
    ] {
        let (code, told) = verify(&changed, &[]);
        assert_eq!(
            (code, &told["broken"]),
            (Some(1), &json!({ "seq": seq, "flaw": flaw })),
            "{changed}"
        );
        assert_eq!(told["intact"], false);
    }
    // If rows at the end are missing, only a noted head reveals it.
    let (code, told) = verify(&joined(&lines[..3]), &["--head", &head]);
    assert_eq!((code, &told["known_head"]), (Some(1), &json!("missing")), "{told}");
    for no_export in ["{}\n", "x", "[1]\n", "{\"seq\": 1"] {
        assert_eq!(verify(no_export, &[]).0, Some(2), "{no_export}");
    }
}

/// Verifies the log with its checkpoints. Returns the exit code and the report.
fn verify_checkpoints(governed: &Governed, arguments: &[&str]) -> (Option<i32>, Value) {
    let arguments = [&["audit", "verify", "--format", "json", "--checkpoint"], arguments].concat();
    let output = governed.command(&arguments);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), report)
}

/// Creates a log with checkpoints. Returns their path.
fn checkpointed() -> (Governed, String) {
    let governed = Governed::new("ledger");
    let path = governed.beside("checkpoints").to_str().unwrap().to_owned();
    let sections = format!("[audit]\ncheckpoint = {path:?}\ncheckpoint_rows = 1\n");
    governed.write_policy(&sections);
    let mut server = governed.connect();
    for _ in 0..2 {
        call_as(&mut server, &governed.user, "execute_python_code", json!({ "code": "print(1)" }));
    }
    server.finish();
    (governed, path)
}

fn a_log_has_the_rows_that_were_signed() {
    let (governed, path) = checkpointed();
    let (code, told) = verify_checkpoints(&governed, &[&path]);
    let found = &told["checkpoints"];
    assert_eq!((code, &found["flawed"], &found["rows_behind"]), (Some(0), &json!(0), &json!(0)));
    assert!(found["same"].as_u64().unwrap() >= 2, "{told}");
    let head = governed.verify_audit();
    assert_eq!(found["last"], head["rows"], "the last one is written when the server ends");

    // Another machine has only an export and the public key.
    let export = governed.command(&["audit", "export"]).stdout;
    let exported = governed.beside("export.jsonl");
    fs::write(&exported, &export).unwrap();
    let exported = exported.to_str().unwrap();
    let key = governed.data.join("keys/signing.pub");
    let key = key.to_str().unwrap();
    let elsewhere = |arguments: &[&str]| {
        let mut command = Command::new(binary());
        command.env_clear().args(["audit", "verify", "--format", "json", exported]);
        let output = command.args(["--checkpoint", &path]).args(arguments).output().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), told)
    };
    let (code, told) = elsewhere(&["--key", key]);
    assert_eq!((code, &told["checkpoints"]["same"]), (Some(0), &found["same"]), "{told}");
    let rest: Vec<_> = export.split_inclusive(|byte| *byte == b'\n').skip(6).collect();
    fs::write(exported, rest.concat()).unwrap();
    let (code, told) = elsewhere(&["--key", key]);
    assert!(code == Some(0) && told["checkpoints"]["earlier"].as_u64() > Some(0), "{told}");
    assert_eq!(elsewhere(&[]).0, Some(2), "no keys");
}

fn each_byte_of_a_checkpoint_counts() {
    let (governed, path) = checkpointed();
    let signed = fs::read_to_string(&path).unwrap();
    // Changes bytes of a checkpoint, cuts the last line, and removes all checkpoints.
    let flawed = |text: &[u8], expected: &str| {
        fs::write(&path, text).unwrap();
        let (code, told) = verify_checkpoints(&governed, &[&path]);
        let flaws = told["checkpoints"]["flaws"].to_string();
        assert!(code == Some(1) && flaws.contains(expected), "{expected}: {told}");
    };
    let line = signed.lines().next().unwrap();
    for at in (0..line.len()).step_by(31) {
        let mut changed = signed.clone().into_bytes();
        changed[at] ^= 1;
        flawed(&changed, "checkpoint 1: ");
    }
    flawed(&signed.as_bytes()[..signed.len() - 9], "it is not the envelope");
    flawed(b"", "[]");
    assert_eq!(verify_checkpoints(&governed, &[&format!("{path}.no")]).0, Some(2));
}

fn a_head_is_signed_when_it_is_old_enough() {
    let (governed, path) = checkpointed();
    let last = || {
        let text = fs::read_to_string(&path).unwrap();
        let (code, told) = verify_checkpoints(&governed, &[&path]);
        assert_eq!(code, Some(0), "{told}");
        (text.lines().count(), told["checkpoints"]["rows_behind"].as_u64().unwrap())
    };
    let policy = |seconds: u32| {
        governed.write_policy(&format!(
            "[audit]\ncheckpoint = {path:?}\ncheckpoint_rows = 1000\ncheckpoint_seconds = {seconds}\n"
        ));
    };
    policy(600);
    let before = last().0;
    let mut server = governed.connect();
    server.execute("print(1)");
    // A server writes a checkpoint soon after its start, and the next after ten minutes.
    let deadline = Instant::now() + Duration::from_secs(30);
    while last().0 == before && Instant::now() < deadline {
        sleep(Duration::from_millis(50));
    }
    server.execute("print(2)");
    sleep(Duration::from_secs(2));
    let (count, behind) = last();
    assert!(count == before + 1 && behind > 0, "{count} {behind}");
    // A checkpoint follows after a second, even without a new row.
    policy(1);
    server.execute("print(3)");
    let deadline = Instant::now() + Duration::from_secs(30);
    while last().1 > 0 && Instant::now() < deadline {
        sleep(Duration::from_millis(50));
    }
    assert_eq!(last().1, 0);
    let count = last().0;
    sleep(Duration::from_secs(2));
    assert_eq!(last().0, count, "none without a row");
}

fn a_new_chain_is_found_by_its_checkpoints() {
    let (governed, path) = checkpointed();
    // The log is cut and continued with other rows. The new chain is consistent.
    let cut = "DELETE FROM audit WHERE seq > 4; UPDATE audit_head SET seq = 4, hash = (SELECT hash FROM audit WHERE seq = 4)";
    let store = governed.data.join("governance.db");
    let before = fs::read(&store).unwrap();
    let drop_triggers = triggers(&governed);
    assert!(governed.sqlite(&format!("{drop_triggers}{cut}")).status.success());
    let (code, told) = verify_checkpoints(&governed, &[&path]);
    assert_eq!((code, &told["broken"]), (Some(1), &Value::Null), "{told}");
    assert!(told["checkpoints"]["flaws"].to_string().contains("is missing"), "{told}");
    for name in ["governance.db-wal", "governance.db-shm"] {
        let _ = fs::remove_file(governed.data.join(name));
    }
    fs::write(&store, before).unwrap();
    assert_eq!(verify_checkpoints(&governed, &[&path]).0, Some(0));
    let keys = governed.data.join("keys");
    let moved = governed.beside("keys");
    fs::rename(&keys, &moved).unwrap();
    fs::remove_dir_all(&governed.data).unwrap();
    fs::create_dir(&governed.data).unwrap();
    fs::rename(&moved, &keys).unwrap();
    for user in ["ada", "bob", "eve"] {
        governed.token(user, "user");
    }
    let mut server = governed.connect();
    for _ in 0..3 {
        server.execute("print(2)");
    }
    server.finish();
    assert_eq!(governed.verify_audit()["intact"], true, "the control");
    let (code, told) = verify_checkpoints(&governed, &[&path]);
    assert_eq!(code, Some(1));
    assert!(
        told["checkpoints"]["flaws"].to_string().contains("differs from the row that was signed")
    );

    // Checkpoints are not written to the workspace.
    let inside = governed.workspace.join("checkpoints");
    governed.write_policy(&format!("[audit]\ncheckpoint = {:?}\n", inside.to_str().unwrap()));
    let mut server = governed.connect();
    for _ in 0..3 {
        server.execute("print(3)");
    }
    let log = server.finish();
    assert!(!inside.exists() && log.contains("is in the workspace"), "{log}");
    // The error is logged at the start and at the end, and not for each row.
    assert_eq!(log.matches("no checkpoint of the audit log").count(), 2, "{log}");
}

/// Returns the statements that drop the triggers of the store.
fn triggers(governed: &Governed) -> String {
    let program = "import sqlite3, sys
for name, in sqlite3.connect(sys.argv[1]).execute(\"SELECT name FROM sqlite_schema WHERE type = 'trigger'\"):
    print(f'DROP TRIGGER {name};')";
    let mut command = Command::new(crate::harness::python());
    let output = command.args(["-c", program]).arg(governed.data.join("governance.db")).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

fn a_run_says_which_commit_it_was_of() {
    let governed = Governed::new("ledger");
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(&governed.workspace).args(arguments);
        command.env("HOME", governed.beside("home")).env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "ada");
            command.env(format!("GIT_{who}_EMAIL"), "ada@example.org");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let mut server = governed.connect();
    let mut state = || {
        let reply = run_pytest(&mut server, &governed.user, "tests");
        let run_id = super::run_id(&reply);
        let evidence = super::evidence(&mut server, &governed.user, &run_id);
        let rows = governed.audit_rows();
        let is_start = |row: &&Value| row["run_id"] == *run_id && row["event"] == "TOOL_STARTED";
        let row = rows.iter().find(is_start).unwrap_or_else(|| panic!("{reply}"));
        let details: Value = serde_json::from_str(row["details"].as_str().unwrap()).unwrap();
        assert_eq!(details["policy_sha256"], evidence["policy_sha256"]);
        for name in ["interpreter_sha256", "packages_sha256"] {
            assert_eq!(details[name].as_str().map(str::len), Some(64), "{details}");
        }
        assert_eq!(details["workspace"], *evidence.get("workspace").unwrap_or(&Value::Null));
        details["workspace"].clone()
    };
    assert_eq!(state(), Value::Null);
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "a commit"]);
    let (commit, tree) = (git(&["rev-parse", "HEAD"]), git(&["rev-parse", "HEAD^{tree}"]));
    assert_eq!(state(), json!({ "commit": commit, "tree": tree, "dirty": false }));
    fs::write(governed.workspace.join("tests/test_new.py"), "").unwrap();
    git(&["add", "-A"]);
    let found = state();
    assert_eq!((&found["commit"], &found["dirty"]), (&json!(commit), &json!(true)));
    assert_ne!(found["tree"], tree);
}

fn an_export_goes_on_with_what_is_appended() {
    let governed = Governed::new("ledger");
    let mut command = Command::new(binary());
    command.env_clear().env("QWED_MCP_DATA_DIR", &governed.data);
    command.args(["audit", "export", "--follow", "--since-seq", "2"]);
    let mut export = command.stdout(Stdio::piped()).spawn().unwrap();
    let (sender, lines) = mpsc::channel();
    let stdout = export.stdout.take().unwrap();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut text = String::new();
    for (seq, user) in [(3, "eve"), (4, "fay"), (5, "gil")] {
        if seq > 3 {
            governed.token(user, "user");
        }
        let line = lines.recv_timeout(Duration::from_secs(30)).unwrap();
        let row: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&row["seq"], &row["user"]), (&json!(seq), &json!(user)));
        text += &(line + "\n");
    }
    // The export has printed all rows, and waits for more.
    assert!(lines.recv_timeout(Duration::from_secs(2)).is_err());
    assert!(export.try_wait().unwrap().is_none());
    export.kill().unwrap();
    export.wait().unwrap();
    let file = governed.beside("followed.jsonl");
    fs::write(&file, text).unwrap();
    let verified = governed.command(&["audit", "verify", file.to_str().unwrap()]);
    assert!(verified.status.success(), "{verified:?}");
}
