//! Tests the files of past runs: their integrity, their retention, and the commands with which an admin inspects
//! them.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Governed, assert_refused, call_as, evidence, run_id, run_pytest, text};
use crate::harness::{McpProcess, binary, eventually, python};

tests! {
    needs [Sandbox, Packages]:
        evidence_tells_what_the_run_was_made_with,
        what_was_changed_after_the_run_is_not_served,
        a_server_removes_old_runs_when_it_starts,
        runs_are_listed_shown_and_pruned_without_a_client;
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn sha256(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

impl Governed {
    fn artifact(&self, run_id: &str, path: &str) -> PathBuf {
        self.data.join("artifacts").join(run_id).join(path)
    }

    /// Runs a passing test, and makes its files some days old.
    fn old_run(&self, server: &mut McpProcess, days: u32) -> String {
        let reply = run_pytest(server, &self.user, "tests/test_ledger.py::test_overdrawn");
        let id = run_id(&reply);
        let file = File::options().append(true).open(self.artifact(&id, "evidence.json")).unwrap();
        file.set_modified(SystemTime::now() - DAY * days).unwrap();
        id
    }

    fn command_with_policy(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(binary());
        command.args(arguments).env_clear().env("QWED_MCP_DATA_DIR", &self.data);
        command.env("QWED_MCP_POLICY", &self.policy).output().unwrap()
    }

    /// Returns the report of `audit verify --artifacts`, and the exit code.
    fn verify_artifacts(&self) -> (Value, Option<i32>) {
        let verified = self.command(&["audit", "verify", "--artifacts", "--format", "json"]);
        let document: Value = serde_json::from_slice(&verified.stdout).unwrap();
        (document["artifacts"].clone(), verified.status.code())
    }
}

fn evidence_tells_what_the_run_was_made_with() {
    let governed = Governed::new("ledger");
    let mut server = governed.connect();
    let id = run_id(&run_pytest(&mut server, &governed.user, "tests"));
    let about = evidence(&mut server, &governed.viewer, &id);
    server.finish();
    let asked = "import platform, importlib.metadata as m; \
                 print(platform.python_version(), m.version('pytest'))";
    let asked = Command::new(python()).args(["-c", asked]).output().unwrap();
    let asked = String::from_utf8(asked.stdout).unwrap();
    let versions = asked.trim().split_once(' ').unwrap();
    assert_eq!(about["python"]["version"], versions.0);
    assert_eq!(about["python"]["pytest"], versions.1);
    assert!(about["python"]["program"].as_str().unwrap().starts_with('/'), "{about}");
    assert_eq!(about["server_version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(about["policy_sha256"], sha256(&fs::read(&governed.policy).unwrap()));
    // The caller's token is the second of three tokens.
    assert_eq!(about["token"], "2");

    let rows = governed.audit_rows();
    let row = |event: &str, tool: &str| {
        let is_it = |row: &&Value| row["event"] == event && row["tool"] == tool;
        rows.iter().find(is_it).unwrap_or_else(|| panic!("no {event} of {tool}"))
    };
    let details =
        |row: &Value| -> Value { serde_json::from_str(row["details"].as_str().unwrap()).unwrap() };
    let end = row("TOOL_FINISHED", "run_pytest");
    let written = fs::read(governed.artifact(&id, "evidence.json")).unwrap();
    assert_eq!(details(end)["evidence_sha256"], sha256(&written));
    // The row about a call of `get_evidence` contains the id of the requested run.
    assert_eq!(details(row("MCP_TOOL_CALL", "get_evidence"))["read_run"], id);
}

fn what_was_changed_after_the_run_is_not_served() {
    let governed = Governed::new("ledger");
    let mut server = governed.connect();
    let id = run_id(&run_pytest(&mut server, &governed.user, "tests"));
    let evidence_call = json!({ "run_id": id });
    let content_call = |path: &str| json!({ "run_id": id, "path": path });
    let reply = call_as(&mut server, &governed.viewer, "get_evidence", evidence_call.clone());
    assert_eq!(reply["result"]["_meta"]["qwed.ai/run"]["integrity"], "confirmed", "{reply}");
    assert_eq!(reply["result"]["content"].as_array().unwrap().len(), 1, "{reply}");
    assert_eq!(governed.verify_artifacts().1, Some(0));

    let stdout = governed.artifact(&id, "stdout.txt");
    let printed = fs::read_to_string(&stdout).unwrap();
    fs::write(&stdout, printed.replace("failed", "passed")).unwrap();
    let tool = "get_artifact_content";
    let reply = call_as(&mut server, &governed.viewer, tool, content_call("stdout.txt"));
    let changed = "stdout.txt does not match the run: it was changed. It is not served";
    assert_refused(&reply, -32603, "ARTIFACT_CHANGED", changed);
    assert!(!reply.to_string().contains("passed"), "{reply}");
    let reply = call_as(&mut server, &governed.viewer, tool, content_call("files/junit.xml"));
    assert!(text(&reply).contains("<testsuite"), "{reply}");
    let (found, code) = governed.verify_artifacts();
    let difference = json!([{ "run_id": id, "path": "stdout.txt", "change": "changed" }]);
    assert_eq!((&found["differences"], code), (&difference, Some(1)));
    // Without `--artifacts`, the command does not check files, so it succeeds.
    governed.verify_audit();

    let file = governed.artifact(&id, "evidence.json");
    let written = fs::read_to_string(&file).unwrap();
    fs::write(&file, written.replace("\"status\": \"failed\"", "\"status\": \"passed\"")).unwrap();
    for (tool, arguments) in [
        ("get_evidence", evidence_call.clone()),
        (tool, content_call("evidence.json")),
        (tool, content_call("files/junit.xml")),
    ] {
        let reply = call_as(&mut server, &governed.viewer, tool, arguments);
        assert_refused(&reply, -32603, "ARTIFACT_CHANGED", "evidence.json does not match the run");
    }
    let shown = governed.command(&["runs", "show", &id]);
    assert_eq!((shown.status.code(), shown.stdout.len()), (Some(1), 0), "{shown:?}");
    let refused = governed.audit_rows();
    let refused = refused.iter().filter(|row| row["outcome"] == "ARTIFACT_CHANGED");
    assert_eq!(refused.filter(|row| row["details"].to_string().contains(&id)).count(), 4);

    fs::write(&file, written).unwrap();
    fs::write(&stdout, printed).unwrap();
    assert_eq!(evidence(&mut server, &governed.viewer, &id)["status"], "failed");
    assert_eq!(governed.verify_artifacts().1, Some(0));
    fs::remove_dir_all(governed.artifact(&id, "")).unwrap();
    let (found, code) = governed.verify_artifacts();
    assert_eq!((&found["differences"][0]["change"], code), (&json!("missing"), Some(1)));
    server.finish();
}

fn a_server_removes_old_runs_when_it_starts() {
    let governed = Governed::new("ledger");
    let mut server = governed.connect();
    let old: Vec<String> = (40..43).map(|days| governed.old_run(&mut server, days)).collect();
    let new = governed.old_run(&mut server, 1);
    server.finish();
    // Simulates a server that was killed while it removed this folder.
    let broken_off = governed.data.join(format!("artifacts/.removing-{}", old[0]));
    fs::rename(governed.artifact(&old[0], ""), &broken_off).unwrap();
    governed.write_policy("[artifacts]\nretention_days = 30\n");

    let server = governed.connect();
    let is_there = |id: &String| governed.artifact(id, "").exists();
    let is_done = || !broken_off.exists() && !old.iter().any(is_there);
    let waited = eventually(Duration::from_secs(10), is_done);
    assert!(waited.is_some(), "nothing is removed without a run");
    server.finish();
    assert!(is_there(&new));
    let rows = governed.audit_rows();
    let removed = rows.iter().filter(|row| row["event"] == "ARTIFACTS_REMOVED");
    let mut removed: Vec<&str> = removed.map(|row| row["run_id"].as_str().unwrap()).collect();
    let mut expected: Vec<&str> = old.iter().map(String::as_str).collect();
    removed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(removed, expected);
    governed.verify_audit();
    let (found, code) = governed.verify_artifacts();
    assert_eq!((&found["removed"], &found["intact"], code), (&json!(3), &json!(1), Some(0)));
}

fn runs_are_listed_shown_and_pruned_without_a_client() {
    let governed = Governed::new("ledger");
    let none = governed.command(&["runs", "list", "--format", "json"]);
    assert_eq!(serde_json::from_slice::<Value>(&none.stdout).unwrap()["runs"], json!([]));
    let mut server = governed.connect();
    let old = governed.old_run(&mut server, 40);
    let new = run_id(&run_pytest(&mut server, &governed.admin, "tests"));
    server.finish();

    let listed = governed.command(&["runs", "list", "--format", "json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let told = |run: &Value| {
        ["run_id", "user", "tool", "status", "state"]
            .map(|name| run[name].as_str().unwrap().to_owned())
    };
    let runs: Vec<_> = listed["runs"].as_array().unwrap().iter().map(told).collect();
    let expected = [
        [&new, "ada", "run_pytest", "FAILED", "complete"],
        [&old, "bob", "run_pytest", "PASSED", "complete"],
    ];
    assert_eq!(runs, expected);
    assert!(listed["runs"][0]["bytes"].as_u64().unwrap() > 1000, "{listed}");
    let table = governed.command(&["runs", "list", "--limit", "1"]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains(&new) && !table.contains(&old) && table.contains("there are more"));

    let shown = governed.command(&["runs", "show", &new[..8]]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    for part in
        ["failed, exit code 1", "ada, token 1", "9 passed, 1 failed", "according to the audit log"]
    {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let shown = governed.command(&["runs", "show", &new, "--format", "json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(
        (&shown["evidence"]["status"], &shown["integrity"]),
        (&json!("failed"), &json!("confirmed"))
    );

    let unknown = governed.command(&["runs", "show", "1234567a"]);
    let told = "error: the audit log has no run that starts with 1234567a\n";
    assert_eq!((unknown.status.code(), unknown.stderr.as_slice()), (Some(1), told.as_bytes()));

    assert_eq!(governed.command(&["runs", "prune"]).status.code(), Some(2), "without a policy");
    let everything = governed.command_with_policy(&["runs", "prune"]);
    let everything = String::from_utf8(everything.stdout).unwrap();
    assert!(everything.contains("all 2 runs are kept"), "{everything}");
    governed.write_policy("[artifacts]\nretention_days = 30\n");
    let pruned = governed.command_with_policy(&["runs", "prune", "--format", "json"]);
    assert_eq!(pruned.status.code(), Some(0), "{pruned:?}");
    let pruned: Value = serde_json::from_slice(&pruned.stdout).unwrap();
    assert_eq!((&pruned["removed"], &pruned["kept"]), (&json!(1), &json!(1)), "{pruned}");
    assert!(!governed.artifact(&old, "").exists() && governed.artifact(&new, "").exists());
    let gone = governed.command(&["runs", "show", &old]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&gone.stderr).contains("the policy's retention"), "{gone:?}");
    fs::write(&governed.policy, "[nonsense]").unwrap();
    assert_eq!(governed.command_with_policy(&["runs", "prune"]).status.code(), Some(2));
}
