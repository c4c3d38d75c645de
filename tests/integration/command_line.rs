//! The command line: what a person sees without a client.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use crate::harness::{ServerBuilder, binary, root};

fn run(builder: &ServerBuilder, arguments: &[&str], input: &str) -> Output {
    let mut child = builder
        .command()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn run_prints_the_text_of_the_call_and_tells_success_by_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.py");
    fs::write(&file, "print('from a file')").unwrap();
    let file = file.to_str().unwrap();
    let open = ServerBuilder::new();
    let closed = ServerBuilder::new().without("QWED_MCP_TRUSTED_CODE_EXECUTION");
    let ran = "Execution completed successfully.\n";
    for (builder, argument, input, start, end, code) in [
        (&open, file, "", "STDOUT:\nfrom a file\n\n", ran, 0),
        (&open, "-", "print('from stdin')", "STDOUT:\nfrom stdin\n\n", ran, 0),
        (&open, "-", "1/0", "STDERR:\nTraceback", "Execution failed with return code 1\n", 1),
        (&open, "-", "exec('1')", "BLOCKED: QWED", "Error code: QWED-MCP-RISK-005\n", 1),
        (&open, "-", "  ", "BLOCKED: Missing", "Error code: QWED-MCP-RISK-003\n", 1),
        (&closed, file, "", "BLOCKED_ADMIN_POLICY: ", "Error code: QWED-MCP-RISK-006\n", 1),
    ] {
        let output = run(builder, &["run", argument], input);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with(start) && text.ends_with(end), "{text}");
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_script_that_cannot_be_read_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    let binary_file = folder.path().join("binary.py");
    fs::write(&binary_file, b"\xff\xfe").unwrap();
    for file in ["/nonexistent.py", folder.path().to_str().unwrap(), binary_file.to_str().unwrap()]
    {
        let output = run(&ServerBuilder::new(), &["run", file], "");
        assert_eq!(output.status.code(), Some(2), "{file}");
        assert!(output.stdout.is_empty());
        assert!(String::from_utf8_lossy(&output.stderr).contains(file), "{file}");
    }
}

#[test]
fn version_help_and_unknown_arguments() {
    let ask = |argument: &str| Command::new(binary()).arg(argument).output().unwrap();
    let version = ask("--version");
    let expected = format!("qwed-mcp {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8(version.stdout).unwrap(), expected);
    let help = String::from_utf8(ask("--help").stdout).unwrap();
    assert!(help.contains("run") && help.contains("QWED_MCP_TRUSTED_CODE_EXECUTION"), "{help}");
    assert!(!help.contains("__supervise"), "{help}");
    assert_eq!(ask("--nonsense").status.code(), Some(2));
    assert_eq!(ask("nonsense").status.code(), Some(2));
}

#[test]
fn a_supervisor_without_a_server_ends() {
    let output = Command::new(binary()).arg("__supervise").stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
}

#[test]
fn the_examples_run() {
    let folder = root().join("examples");
    let mut ran = 0;
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "py") {
            let output = run(&ServerBuilder::new(), &["run", entry.path().to_str().unwrap()], "");
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success(), "{}: {text}", entry.path().display());
            ran += 1;
        }
    }
    assert!(ran >= 2, "{ran} examples");
}
