//! What admins set beside the allowlist: tokens for scripts, runs a day, another token, and what a call would
//! get.

use std::fs;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::{Governed, call_as, run_pytest};
use crate::harness::binary;

tests! {
    needs [Tier3]:
        scripts_take_a_token_where_the_policy_says_so,
        a_user_has_so_many_runs_a_day,
        what_a_call_would_get_is_what_it_gets;
    needs [Sandbox]:
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
    // What is refused is in the log, and what it wants is not known while the policy cannot be read.
    let rows = governed.audit_rows();
    let outcomes: Vec<_> = rows.iter().map(|row| row["outcome"].as_str().unwrap()).collect();
    let count = |outcome: &str| outcomes.iter().filter(|it| **it == outcome).count();
    assert_eq!((count("AUTH_REQUIRED"), count("PERMISSION_DENIED")), (1, 1), "{outcomes:?}");
    assert_eq!(count("STARTED"), 7, "{outcomes:?}");
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
    // What is refused for another reason is no run.
    assert_eq!(run(&governed.user, "missing"), "ran");
    for expected in ["ran", "ran", "runs_per_day", "runs_per_day"] {
        assert_eq!(run(&governed.user, test), expected);
    }
    // Of each user, by any token of theirs.
    assert_eq!(run(&governed.token("bob", "admin"), test), "runs_per_day");
    assert_eq!(run(&governed.admin, test), "ran");
    let told = policy_test(&governed, &["--role", "user", "--user", "bob"]);
    assert_eq!(told["name"], "BUDGET_EXCEEDED", "{told}");
    for user in ["ada", "nobody"] {
        let told = policy_test(&governed, &["--role", "user", "--user", user]);
        assert_eq!(told["allowed"], true, "{told}");
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
    let told: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(output.status.code(), Some(i32::from(told["allowed"] != true)), "{output:?}");
    told
}

/// The same answers as those to real calls.
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
        let told = policy_test(&governed, &["--role", role, "--arguments", &arguments.to_string()]);
        assert_eq!(rows(), before, "nothing is written down");
        assert_eq!(told["code"], real["error"]["code"], "{policy}: {told} {real}");
        assert_eq!(told["message"], real["error"]["message"], "{policy}: {told} {real}");
        assert_eq!(told["allowed"] == true, real["error"].is_null(), "{policy}: {told} {real}");
    }
    governed.write_policy("");
    let reading = ["--role", "viewer", "--tool", "get_evidence", "--arguments", "{}"];
    assert_eq!(policy_test(&governed, &reading)["allowed"], true);
    let wrong = |arguments: &[&str]| governed.command_with_python(arguments).status.code();
    assert_eq!(wrong(&["policy", "test", "--role", "user"]), Some(2), "which policy?");
    let path = governed.policy.to_str().unwrap();
    assert_eq!(wrong(&["policy", "test", path, "--role", "user", "--arguments", "[]"]), Some(2));
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
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.starts_with("token 4 for bob, role user, without an end"), "{told}");
    // Once is enough; and a life that is asked for is had, and handed on.
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
        // On another machine: no data folder.
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
    // One that goes on from where another one ended.
    let rest = export(&["--since-seq", "3"]);
    assert_eq!(rest.lines().count(), 1);
    let lines: Vec<&str> = whole.lines().collect();
    let third: Value = serde_json::from_str(lines[2]).unwrap();
    let (code, told) = verify(&rest, &["--head", third["hash"].as_str().unwrap()]);
    assert_eq!((code, &told["known_head"]), (Some(0), &json!({ "row": 3 })), "{told}");
    assert_eq!(told["follows"], third["hash"]);
    // What was done to it.
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
    // What is missing at its end, a head that was noted tells of.
    let (code, told) = verify(&joined(&lines[..3]), &["--head", &head]);
    assert_eq!((code, &told["known_head"]), (Some(1), &json!("missing")), "{told}");
    for no_export in ["{}\n", "x", "[1]\n", "{\"seq\": 1"] {
        assert_eq!(verify(no_export, &[]).0, Some(2), "{no_export}");
    }
}
