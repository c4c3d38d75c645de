//! Tests runs of pytest: counts, evidence, artifacts, progress and cancellation.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Governed, ORDINARY_USER, assert_refused, call_as, counted, evidence, params, quoted, run_id,
    run_pytest, text,
};
use crate::harness::{eventually, python, root};
use crate::sandbox::of_user;

tests! {
    needs [Tier3, Packages]:
        a_public_project_counts_as_in_a_bare_run,
        a_project_with_every_kind_of_test_counts_as_in_a_bare_run;
    needs [Root, Tier2, Tier3ForUsers, PublicPython, Packages]:
        an_ordinary_user_runs_tests_at_tier_3_and_at_tier_2;
    needs [Sandbox, Packages]:
        what_pytest_is_asked_for_is_what_it_runs,
        artifacts_are_listed_and_read_in_parts,
        progress_is_told_and_a_cancelled_run_ends,
        what_the_sandbox_refuses_is_told_as_such,
        a_test_sees_the_policys_variables_and_paths_and_no_others,
        an_interpreter_without_pytest_is_told,
        old_runs_are_removed_and_a_run_in_progress_is_not;
}

/// Runs plain pytest. Returns the counts in the last line of pytest's output.
fn bare_counts(workspace: &Path, path: &str) -> BTreeMap<String, u64> {
    // pytest refuses its default folder in /tmp if another user with the same name owned it before.
    let temporary = tempfile::tempdir().unwrap();
    let output = Command::new(python())
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", path])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTEST_DEBUG_TEMPROOT", temporary.path())
        .current_dir(workspace)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.lines().last().unwrap_or_else(|| panic!("{output:?}"));
    let (counts, _) = last.split_once(" in ").unwrap_or_else(|| panic!("{text}"));
    counts
        .trim_matches(|c| c == '=' || c == ' ')
        .split(", ")
        .map(|part| {
            let (count, word) = part.split_once(' ').unwrap();
            (word.trim_end_matches('s').to_owned(), count.parse().unwrap())
        })
        .filter(|(word, _)| !word.contains("warning") && !word.contains("subtest"))
        .collect()
}

/// Returns the counts in the evidence, in the form of [`bare_counts`].
fn counts(evidence: &Value) -> BTreeMap<String, u64> {
    let words = ["passed", "failed", "errors", "skipped", "xfailed"];
    let count = |word: &str| evidence["summary"][word].as_u64().unwrap();
    let name = |word: &str| word.trim_end_matches('s').to_owned();
    words.iter().map(|word| (name(word), count(word))).filter(|(_, count)| *count > 0).collect()
}

fn a_project_with_every_kind_of_test_counts_as_in_a_bare_run() {
    let governed = Governed::new("ledger");
    let mut server = governed.connect();
    let reply = run_pytest(&mut server, &governed.user, "tests");
    let told = text(&reply);
    assert_eq!(reply["result"]["isError"], false, "{told}");
    let counts_told = "9 passed, 1 failed, 2 errors, 1 skipped, 1 xfailed in ";
    assert!(
        told.starts_with("Status: failed, exit code 1, judged: in-process, 1 skipped, 1 xfailed\n"),
        "{told}"
    );
    assert!(counted(&reply).starts_with(counts_told), "{told}");
    assert!(
        told.contains("tests/test_ledger.py::TestTransfer::test_is_wrong_on_purpose"),
        "{told}"
    );
    assert!(told.contains("assert 200 == 201"), "{told}");
    assert!(told.len() < 4000, "{told}");

    let id = run_id(&reply);
    let about = evidence(&mut server, &governed.viewer, &id);
    assert_eq!(counts(&about), bare_counts(&governed.workspace, "tests"));
    assert_eq!(about["status"], "failed");
    assert_eq!(about["exit_code"], 1);
    assert_eq!(about["user"], "bob");
    assert_eq!(about["sandbox_tier"], "T3");
    assert_eq!(about["arguments"], json!({ "test_path": "tests" }));
    assert_eq!(about["governance"]["attempts_total"], 1);
    assert_eq!(about["governance"]["policy_timeout_s"], 300);
    assert_eq!(about["governance"]["short_circuited"], false);
    let elapsed = about["governance"]["elapsed_ms_total"].as_u64().unwrap();
    assert!(elapsed >= 1000, "{elapsed}");
    let paths = about["artifacts"].as_array().unwrap().iter().map(|artifact| &artifact["path"]);
    assert_eq!(paths.collect::<Vec<_>>(), ["files/junit.xml", "stderr.txt", "stdout.txt"]);
    assert_eq!(reply["result"]["_meta"]["qwed.ai/run"]["status"], "failed");

    // The run has written nothing to the project.
    assert!(!governed.workspace.join(".pytest_cache").exists());
    assert!(!governed.workspace.join("tests/__pycache__").exists());
    server.finish();
}

fn what_pytest_is_asked_for_is_what_it_runs() {
    let governed = Governed::new("ledger");
    let mut server = governed.connect();
    for (arguments, expected) in [
        (json!({ "test_path": "tests/test_ledger.py::test_overdrawn" }), "1 passed in "),
        (
            json!({ "test_path": "tests", "keyword": "withdraw and not 500" }),
            "2 passed, 11 deselected in ",
        ),
        (json!({ "test_path": "tests", "markers": "slow" }), "1 passed, 12 deselected in "),
        (
            json!({ "test_path": "tests", "node_ids": [
                "tests/test_ledger.py::test_withdraw[1-499]",
                "tests/test_ledger.py::TestTransfer::test_moves_money"
            ] }),
            "2 passed in ",
        ),
        (json!({ "test_path": "tests", "exit_first": true }), "5 passed, 1 failed in "),
        (json!({ "test_path": "tests", "max_fail": 2 }), "5 passed, 1 failed, 1 error in "),
        (
            json!({ "test_path": "tests", "keyword": "no_such_test" }),
            "no tests ran, 13 deselected in ",
        ),
        // The value is a keyword, even if it looks like an option.
        (json!({ "test_path": "tests", "keyword": "--help" }), "no tests ran, 13 deselected in "),
    ] {
        let reply = call_as(&mut server, &governed.user, "run_pytest", arguments.clone());
        assert!(counted(&reply).starts_with(expected), "{arguments}: {reply}");
        assert_eq!(reply["result"]["isError"], false, "{reply}");
    }
    // Tests that the project's configuration deselects, or that a hook silently removes, count as deselected.
    let hook = "\ndef pytest_collection_modifyitems(items):\n    del items[1:]\n";
    for (file, content) in
        [("pytest.ini", "[pytest]\naddopts = -k overdrawn\n"), ("tests/conftest.py", hook)]
    {
        let file = governed.workspace.join(file);
        let before = fs::read_to_string(&file).ok();
        fs::write(&file, before.clone().unwrap_or_default() + content).unwrap();
        let reply = run_pytest(&mut server, &governed.user, "tests/test_ledger.py");
        assert!(counted(&reply).starts_with("1 passed, 12 deselected in "), "{content}: {reply}");
        let about = evidence(&mut server, &governed.viewer, &run_id(&reply));
        assert_eq!(about["summary"]["deselected"], 12, "{about}");
        match before {
            Some(before) => fs::write(&file, before).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
    }
    // A process that exits with 0 before it has run a test is an error.
    let marker = governed.workspace.join("tests/test_ends.py");
    fs::write(&marker, "import os\nos._exit(0)").unwrap();
    let reply = run_pytest(&mut server, &governed.user, "tests/test_ends.py");
    assert_eq!(reply["result"]["_meta"]["qwed.ai/run"]["status"], "error", "{reply}");
    fs::remove_file(marker).unwrap();
    // pytest reports these arguments as errors.
    for arguments in [
        json!({ "test_path": "tests/test_ledger.py::no_such_test" }),
        json!({ "test_path": "tests", "keyword": "a and" }),
    ] {
        let reply = call_as(&mut server, &governed.user, "run_pytest", arguments.clone());
        assert_eq!(reply["result"]["isError"], true, "{arguments}: {reply}");
        assert!(text(&reply).contains("ERROR"), "{arguments}: {reply}");
    }
    server.finish();
}

fn artifacts_are_listed_and_read_in_parts() {
    let governed = Governed::new("ledger");
    let test = "
import os, pathlib

def test_leaves_files():
    folder = pathlib.Path(os.environ['QWED_ARTIFACTS'])
    (folder / 'deep').mkdir()
    (folder / 'deep' / 'text.txt').write_text('äöü€😀' * 1000, encoding='utf-8')
    (folder / 'image.png').write_bytes(bytes(range(256)))
    print('printed')
    raise AssertionError
";
    fs::write(governed.workspace.join("tests/test_files.py"), test).unwrap();
    let mut server = governed.connect();
    let reply = run_pytest(&mut server, &governed.user, "tests/test_files.py");
    let id = run_id(&reply);

    let list = call_as(&mut server, &governed.viewer, "list_artifacts", json!({ "run_id": id }));
    let list: Value = serde_json::from_str(text(&list)).unwrap();
    let paths: Vec<_> =
        list["artifacts"].as_array().unwrap().iter().map(|entry| &entry["path"]).collect();
    let expected = [
        "evidence.json",
        "files/deep/text.txt",
        "files/image.png",
        "files/junit.xml",
        "stderr.txt",
        "stdout.txt",
    ];
    assert_eq!(paths, expected);
    let runs = call_as(&mut server, &governed.viewer, "list_artifacts", json!({}));
    let runs: Value = serde_json::from_str(text(&runs)).unwrap();
    assert_eq!(runs["runs"][0]["run_id"], json!(id));
    assert_eq!(runs["runs"][0]["state"], "complete");

    // Read the file in parts, which must not split a character.
    let (mut whole, mut offset) = (String::new(), Some(0));
    while let Some(from) = offset {
        let arguments =
            json!({ "run_id": id, "path": "files/deep/text.txt", "offset": from, "limit": 1000 });
        let part = call_as(&mut server, &governed.viewer, "get_artifact_content", arguments);
        whole.push_str(text(&part));
        offset = part["result"]["_meta"]["qwed.ai/run"]["next_offset"].as_u64();
    }
    assert_eq!(whole, "äöü€😀".repeat(1000));

    let arguments = json!({ "run_id": id, "path": "files/image.png" });
    let image = call_as(&mut server, &governed.viewer, "get_artifact_content", arguments);
    let resource = &image["result"]["content"][0]["resource"];
    assert_eq!(resource["mimeType"], "image/png");
    assert_eq!(resource["uri"], json!(format!("qwed-artifact:///{id}/files/image.png")));
    assert_eq!(resource["blob"].as_str().unwrap().len(), 344);

    let arguments = json!({ "run_id": id, "path": "stdout.txt" });
    let printed = call_as(&mut server, &governed.viewer, "get_artifact_content", arguments);
    assert!(text(&printed).contains("printed"), "{printed}");
    for path in ["../../governance.db", "/etc/passwd", "files/../../x", "files", ".lock", "a\0b"] {
        let arguments = json!({ "run_id": id, "path": path });
        let reply = call_as(&mut server, &governed.admin, "get_artifact_content", arguments);
        assert_refused(&reply, -32602, "INVALID_PARAMS", "");
    }
    server.finish();
}

fn progress_is_told_and_a_cancelled_run_ends() {
    let governed = Governed::new("ledger");
    let test = "import time\ndef test_it(): time.sleep(60)";
    fs::write(governed.workspace.join("tests/test_long.py"), test).unwrap();
    let mut server = governed.connect();
    let mut long =
        params(&governed.user, "run_pytest", &json!({ "test_path": "tests/test_long.py" }));
    long["_meta"] = json!({ "progressToken": "p" });
    let id = server.start_request("tools/call", &long);
    let progress = server.message_where(|message| message["method"] == "notifications/progress");
    assert_eq!(progress["params"]["progressToken"], "p");
    server.cancel(id);
    server.assert_alive();
    let is_ended = || {
        let rows = governed.audit_rows();
        rows.iter().any(|row| row["event"] == "TOOL_FINISHED" && row["outcome"] == "CANCELLED")
    };
    assert!(eventually(Duration::from_secs(10), is_ended).is_some(), "{:?}", governed.audit_rows());
    server.finish();
}

fn what_the_sandbox_refuses_is_told_as_such() {
    let governed = Governed::new("ledger");
    let test = "
import os, pwd, socket, subprocess

def test_network():
    socket.create_connection(('127.0.0.1', 9))

def test_shell():
    subprocess.run('true', shell=True, check=True)

def test_git():
    subprocess.run(['git', 'status'], check=True)

def test_other_program():
    subprocess.run(['make'], check=True)

def test_user():
    pwd.getpwuid(os.getuid())

def test_file_of_its_own():
    open('data.json')
";
    fs::write(governed.workspace.join("tests/test_refused.py"), test).unwrap();
    let mut server = governed.connect();
    let reply = run_pytest(&mut server, &governed.user, "tests/test_refused.py");
    let told = text(&reply);
    assert!(counted(&reply).starts_with("6 failed in "), "{told}");
    let hint = "The sandbox may have refused this: ";
    let hinted: Vec<_> = told.split("FAILED ").filter(|part| part.contains(hint)).collect();
    assert_eq!(hinted.len(), 5, "{told}");
    assert!(hinted.iter().all(|part| !part.contains("test_file_of_its_own")), "{told}");
    server.finish();
}

fn a_test_sees_the_policys_variables_and_paths_and_no_others() {
    let governed = Governed::new("ledger");
    let data = governed.beside("shared data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("numbers.txt"), "1 2 3").unwrap();
    governed.write_policy(&format!(
        "[sandbox]\nallowed_paths = [{}]\nenv_whitelist = [\"ALLOWED\", \"NOT_SET\"]\n",
        quoted(&data)
    ));
    let test = format!(
        "
import os, pathlib

def test_it():
    assert pathlib.Path({}).read_text() == '1 2 3'
    assert os.environ['ALLOWED'] == 'yes'
    names = set(os.environ) - {{'PYTEST_CURRENT_TEST', 'PYTEST_VERSION'}}
    assert names == {{
        'ALLOWED', 'HOME', 'LC_CTYPE', 'MKL_NUM_THREADS', 'OMP_NUM_THREADS',
        'OPENBLAS_NUM_THREADS', 'PATH', 'PYTHONDONTWRITEBYTECODE', 'PYTHONHASHSEED',
        'QWED_ARTIFACTS', 'TMPDIR',
    }}
",
        quoted(&data.join("numbers.txt"))
    );
    fs::write(governed.workspace.join("tests/test_environment.py"), test).unwrap();
    let server = governed.server().variable("ALLOWED", "yes").variable("SECRET", "no");
    let mut server = server.variable("QWED_MCP_AUTH_TOKEN", &governed.admin).connect();
    let reply = run_pytest(&mut server, &governed.user, "tests/test_environment.py");
    assert!(counted(&reply).starts_with("1 passed in "), "{reply}");

    // A policy must not make the data folder readable.
    for path in [governed.data.clone(), governed.data.join("artifacts"), governed.beside("")] {
        governed.write_policy(&format!("[sandbox]\nallowed_paths = [{}]\n", quoted(&path)));
        let reply = run_pytest(&mut server, &governed.user, "tests/test_environment.py");
        let message = "Sandbox violation: the data folder must be outside";
        assert_refused(&reply, -32006, "SANDBOX_VIOLATION", message);
    }
    governed.write_policy("[sandbox]\nallowed_paths = [\"/nonexistent\"]\n");
    let reply = run_pytest(&mut server, &governed.user, "tests/test_environment.py");
    assert_refused(
        &reply,
        -32006,
        "SANDBOX_VIOLATION",
        "Sandbox violation: a path that the policy lets tests read does not exist",
    );
    server.finish();
}

fn an_ordinary_user_runs_tests_at_tier_3_and_at_tier_2() {
    let governed = Governed::new("ledger");
    governed.give_away();
    for (lacks, tier) in [("", "T3"), ("namespaces", "T2")] {
        let server = governed.server().variable("QWED_MCP_TEST_KERNEL_LACKS", lacks);
        let mut server = of_user(server, Some(ORDINARY_USER)).connect();
        let arguments = json!({ "test_path": "tests", "keyword": "withdraw or python or files" });
        let reply = call_as(&mut server, &governed.user, "run_pytest", arguments);
        assert!(counted(&reply).starts_with("5 passed, 8 deselected in "), "{tier}: {reply}");
        assert_eq!(reply["result"]["_meta"]["qwed.ai/run"]["sandbox"], tier);
        server.finish();
    }
}

fn an_interpreter_without_pytest_is_told() {
    let governed = Governed::new("ledger");
    let bare = governed.beside("bare");
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(&bare).status();
    assert!(made.unwrap().success());
    let interpreter = bare.join("bin/python");
    let server = governed.server().variable("QWED_MCP_PYTHON", interpreter.to_str().unwrap());
    let mut server = server.connect();
    let reply = run_pytest(&mut server, &governed.user, "tests");
    assert_refused(&reply, -32603, "INTERNAL_ERROR", "pytest is not installed");
    server.finish();
}

fn old_runs_are_removed_and_a_run_in_progress_is_not() {
    let governed = Governed::new("ledger");
    let test = "
import os, pathlib, time

def leave():
    file = pathlib.Path(os.environ['QWED_ARTIFACTS']) / 'large'
    file.write_bytes(b'x' * (2 << 20))

def test_long():
    leave()
    time.sleep(3)

def test_short():
    leave()
";
    fs::write(governed.workspace.join("tests/test_long.py"), test).unwrap();
    governed.write_policy("[artifacts]\ntotal_mb_max = 1\n");
    let mut server = governed.server().variable("QWED_MCP_SYNC_CONCURRENCY", "2").connect();
    let arguments = json!({ "test_path": "tests/test_long.py::test_long" });
    let long =
        server.start_request("tools/call", &params(&governed.user, "run_pytest", &arguments));
    std::thread::sleep(Duration::from_millis(500));
    let short = run_pytest(&mut server, &governed.user, "tests/test_long.py::test_short");
    let short = run_id(&short);
    let reply = server.reply(long);
    assert!(counted(&reply).starts_with("1 passed in "), "{reply}");
    let long = run_id(&reply);
    let folder = |id: &str| governed.data.join("artifacts").join(id);
    let is_removed = || !folder(&short).exists();
    assert!(eventually(Duration::from_secs(10), is_removed).is_some(), "the old run stays");
    assert!(folder(&long).join("evidence.json").exists(), "the newest run is kept");
    server.finish();
}

/// Returns the unpacked source archive of a public project. Downloads it once.
fn public_project(name: &str, version: &str) -> PathBuf {
    let folder = root().join("target/projects");
    let project = folder.join(format!("{}-{version}", name.replace('-', "_")));
    if project.is_dir() {
        return project;
    }
    fs::create_dir_all(&folder).unwrap();
    let download = tempfile::tempdir_in(&folder).unwrap();
    let output = Command::new(python())
        .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .args(["--no-binary", ":all:", "--dest"])
        .arg(download.path())
        .arg(format!("{name}=={version}"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let archive = fs::read_dir(download.path()).unwrap().next().unwrap().unwrap().path();
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(archive).arg("-C").arg(download.path());
    assert!(tar.status().unwrap().success());
    let found = fs::read_dir(download.path()).unwrap().map(Result::unwrap);
    let found = found.map(|entry| entry.path()).find(|path| path.is_dir()).unwrap();
    // Another test may have downloaded the project at the same time.
    let _ = fs::rename(found, &project);
    assert!(project.is_dir());
    project
}

fn a_public_project_counts_as_in_a_bare_run() {
    let project = public_project("toolz", "1.1.0");
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("workspace");
    super::copy(&project, &workspace);
    let governed = Governed::of_workspace(folder, workspace);
    let mut server = governed.connect();
    let reply = run_pytest(&mut server, &governed.user, "toolz");
    let about = evidence(&mut server, &governed.user, &run_id(&reply));
    let bare = bare_counts(&governed.workspace, "toolz");
    assert!(bare["passed"] > 150, "{bare:?}");
    assert_eq!(counts(&about), bare, "{reply}");
    server.finish();
}
