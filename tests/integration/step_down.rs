//! Tests that the tier never drops silently. The tests check the tier that scripts get, and the reason that the admin
//! and the model get.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::harness::{ServerBuilder, public_python};
use crate::sandbox::of_user;

tests! {
    needs [Tier2, Tier3, PublicPython]:
        an_interpreter_behind_a_link_that_goes_through_a_folder_and_back_has_tier_3,
        a_fault_at_tier_3_is_reported_to_the_admin_and_once_to_the_model,
        a_model_that_only_polls_jobs_gets_the_reason_too,
        missing_namespaces_are_reported_in_the_log_and_in_meta_only,
        the_best_tier_of_the_mode_needs_no_reason,
        a_wrong_setting_is_reported_once_as_the_cause,
        a_folder_for_temporary_files_that_cannot_be_used_is_named_as_the_reason;
}

/// Returns a server on a machine that lacks this feature. Its log has the default level.
fn server(lacks: &str) -> ServerBuilder {
    of_user(ServerBuilder::new(), None).variable("QWED_MCP_TEST_KERNEL_LACKS", lacks)
}

fn doctor(builder: &ServerBuilder, arguments: &[&str]) -> Output {
    builder.command().arg("doctor").args(arguments).output().unwrap()
}

fn an_interpreter_behind_a_link_that_goes_through_a_folder_and_back_has_tier_3() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    let real = public_python().unwrap().canonicalize().unwrap();
    for folder in ["through/more", "venv/bin"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let link = root.join("venv/bin/python3");
    fs::write(root.join("venv/pyvenv.cfg"), pyvenv(&real)).unwrap();
    let from_root = real.strip_prefix("/").unwrap().display();
    let up = "../".repeat(root.components().count() + 1);
    for target in [
        format!("{}/through/../../{}", root.display(), beside(&root, &real)),
        format!("../../through/more/../../{up}{from_root}"),
        // The path has more `..` than parent folders. The parent of the root is the root itself.
        format!("../../through/../through/more/..{}/{from_root}", "/..".repeat(60)),
    ] {
        let _ = fs::remove_file(&link);
        symlink(&target, &link).unwrap();
        assert_eq!(link.canonicalize().unwrap(), real, "{target}");
        let mut server = server("").variable("QWED_MCP_PYTHON", link.to_str().unwrap()).connect();
        let result = server.execute("import sys\nprint(sys.executable)");
        assert_eq!(result.execution()["sandbox"], "T3", "{target}: {:?}", result.texts);
        let expected = format!("STDOUT:\n{}\n", link.display());
        assert!(result.text().starts_with(&expected), "{target}: {}", result.text());
        assert_eq!(server.finish(), "", "{target}");
    }
}

/// Returns the `pyvenv.cfg` of a virtual environment with this interpreter.
fn pyvenv(real: &Path) -> String {
    let home = real.parent().unwrap().display();
    format!("home = {home}\ninclude-system-site-packages = false\n")
}

/// Returns `path` relative to the parent folder of `root`.
fn beside(root: &Path, path: &Path) -> String {
    let depth = root.parent().unwrap().components().count() - 1;
    format!("{}{}", "../".repeat(depth), path.strip_prefix("/").unwrap().display())
}

fn a_fault_at_tier_3_is_reported_to_the_admin_and_once_to_the_model() {
    let builder = server("file_tree");
    let report = doctor(&builder, &[]);
    let text = String::from_utf8(report.stdout).unwrap();
    let failed = "T3 failed:        a readable path could not be mounted: Input/output error (os \
                  error 5); scripts run at T2. Remedy: the server's log names the path";
    assert!(text.contains(failed), "{text}");
    assert!(!text.contains("install Python outside"), "{text}");
    let report = doctor(&builder, &["--format", "json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["sandbox"]["tier"], "T2");
    assert_eq!(report["sandbox"]["step_down"][0]["tier"], "T3", "{report}");
    assert_eq!(report["sandbox"]["step_down"][0]["expected"], false, "{report}");

    let mut server = builder.connect();
    let reason = "a readable path could not be mounted: Input/output error (os error 5)";
    let first = server.execute("print(1)");
    assert!(!first.is_error);
    assert_eq!(
        first.texts,
        [
            "STDOUT:\n1\n\nExecution completed successfully.".to_owned(),
            format!(
                "This script ran at tier T2 of the sandbox, without its own file tree, because \
                 {reason}; the admin can run `qwed-mcp doctor`."
            ),
        ]
    );
    let job = server.place("print(2)");
    let job = server.wait_for_job(&job);
    let second = server.execute("assert False");
    for result in [&first, &job, &second] {
        assert_eq!(result.execution()["sandbox"], "T2");
        assert_eq!(result.execution()["sandbox_reason"], reason);
    }
    assert_eq!((job.texts.len(), second.texts.len()), (1, 1), "the reason is reported once");
    let log = server.finish();
    assert_eq!(log.matches("ERROR").count(), 1, "{log}");
    assert!(log.contains("T3 failed, scripts run at T2: a readable path"), "{log}");
}

fn a_model_that_only_polls_jobs_gets_the_reason_too() {
    let mut server = server("file_tree").connect();
    let job = server.place("print(2)");
    let texts = server.wait_for_job(&job).texts;
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[1].starts_with("This script ran at tier T2"), "{texts:?}");
    assert_eq!(server.status(&job).texts.len(), 1, "the reason is reported once");
    server.finish();
}

fn missing_namespaces_are_reported_in_the_log_and_in_meta_only() {
    for (mode, lacks, tier) in
        [("required", "namespaces", "T2"), ("degraded", "namespaces,landlock", "T1")]
    {
        let builder = server(lacks).variable("QWED_MCP_SANDBOX", mode);
        let report = doctor(&builder, &["--format", "json"]);
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        assert_eq!(report["sandbox"]["step_down"][0]["expected"], true, "{report}");
        let mut server = builder.connect();
        for _ in 0..2 {
            let result = server.execute("print(1)");
            assert_eq!(result.text(), "STDOUT:\n1\n\nExecution completed successfully.");
            assert_eq!(result.execution()["sandbox"], tier);
            let reason = result.execution()["sandbox_reason"].as_str().unwrap();
            assert!(reason.starts_with("new namespaces could not be created: "), "{reason}");
        }
        let log = server.finish();
        assert!(!log.contains("ERROR"), "{log}");
        let expected = format!("T3 is unavailable, scripts run at {tier}: new namespaces");
        assert_eq!(log.matches(&expected).count(), 1, "{log}");
    }
}

fn the_best_tier_of_the_mode_needs_no_reason() {
    for mode in ["required", "strict", "off"] {
        let mut server = server("").variable("QWED_MCP_SANDBOX", mode).connect();
        let result = server.execute("print(1)");
        assert_eq!(result.text(), "STDOUT:\n1\n\nExecution completed successfully.", "{mode}");
        assert_eq!(result.execution()["sandbox_reason"], Value::Null, "{mode}");
        assert_eq!(result.meta["qwed.ai/execution"].get("sandbox_reason"), None, "{mode}");
        server.finish();
    }
}

fn a_wrong_setting_is_reported_once_as_the_cause() {
    let builder = server("").variable("QWED_MCP_READ_PATHS", "relative/data");
    let report = doctor(&builder, &[]);
    let text = String::from_utf8(report.stdout).unwrap();
    let expected = "Code cannot run: QWED_MCP_READ_PATHS lists relative/data, which is not an \
                    absolute path. Remedy: write an absolute path";
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("MISSING") && text.matches("not tried").count() == 1, "{text}");
    assert!(!text.contains("QWED_MCP_SANDBOX=off"), "{text}");
    let mut server = builder.connect();
    for _ in 0..2 {
        let result = server.execute("print(1)");
        let message = "BLOCKED_ADMIN_POLICY: Scripts cannot run: an entry of QWED_MCP_READ_PATHS \
                       is not an absolute path; write an absolute path; ~ and variables are not \
                       expanded; the admin can run `qwed-mcp doctor` for details. \
                       (verification_id=";
        assert!(result.texts[0].starts_with(message), "{:?}", result.texts);
    }
    let log = server.finish();
    assert_eq!(log.matches("QWED_MCP_READ_PATHS lists relative/data").count(), 1, "{log}");
}

fn a_folder_for_temporary_files_that_cannot_be_used_is_named_as_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let script = folder.path().join("script.py");
    fs::write(&script, "print(1)").unwrap();
    let missing = folder.path().join("missing");
    for (value, problem) in [
        (missing.to_str().unwrap(), "does not exist"),
        ("relative", "is not absolute"),
        (file.to_str().unwrap(), "is not a folder"),
        // Not even root can create a folder in this path.
        ("/proc/self", "cannot be written to: "),
    ] {
        let builder = server("").variable("TMPDIR", value);
        let run = builder.command().arg("run").arg(&script).output().unwrap();
        assert_eq!((run.status.code(), &run.stdout[..]), (Some(126), &[][..]));
        let log = String::from_utf8(run.stderr).unwrap();
        let text = log.split_once("error: BLOCKED").unwrap().1;
        let expected = format!("run: the folder for temporary files (TMPDIR) {problem}");
        assert!(text.contains(&expected) && text.contains("QWED-MCP-RISK-009"), "{text}");
        assert!(text.contains("; set TMPDIR to a folder that the server may write to;"), "{text}");
        assert!(!text.contains(folder.path().to_str().unwrap()), "{text}");
        let expected = format!("TMPDIR is {value}, which {problem}");
        assert_eq!(log.matches(&expected).count(), 1, "{log}");
        let report = doctor(&builder, &[]);
        let report = String::from_utf8(report.stdout).unwrap();
        assert!(report.contains(&expected), "{report}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no file is left");
}
