//! Tests the command line as people use it, without an MCP client.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::harness::{ServerBuilder, binary, eventually, python, root};

tests! {
    needs [Tier3]:
        run_takes_a_script_from_a_file_and_from_standard_input;
    needs [Sandbox]:
        the_examples_run;
    needs [Sandbox, Packages]:
        run_writes_the_pictures_of_the_script,
        pictures_that_cannot_be_written_are_an_error_besides_the_result;
    needs []:
        version_help_and_unknown_arguments,
        a_supervisor_without_a_server_ends,
        check_says_where_what_and_what_instead_for_each_file,
        check_tells_what_it_cannot_read_and_still_checks_the_rest,
        check_prints_json_and_sarif,
        an_export_that_cannot_be_read_is_no_broken_one,
        an_empty_script_is_the_same_to_every_command,
        paths_that_are_not_utf_8_are_in_reports,
        manual_pages_are_written_into_a_folder_that_is_made,
        what_doctor_shares_has_no_path_and_no_name;
}

fn run(builder: &ServerBuilder, arguments: &[&str], input: &str) -> Output {
    output_of(builder.command().args(arguments), input)
}

fn output_of(command: &mut Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn run_takes_a_script_from_a_file_and_from_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.py");
    fs::write(&file, "print('from a file')").unwrap();
    for (argument, input, printed) in [
        (file.to_str().unwrap(), "", "from a file\n"),
        ("-", "print('from stdin')", "from stdin\n"),
    ] {
        let output = run(&ServerBuilder::new(), &["run", argument], input);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), printed);
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0));
    }
}

fn run_writes_the_pictures_of_the_script() {
    let folder = tempfile::tempdir().unwrap();
    let pictures = folder.path().join("made/here");
    let script = "import matplotlib.pyplot as plt\nfor i in range(2): plt.figure(); plt.plot([i])";
    let arguments = ["run", "-", "--pictures", pictures.to_str().unwrap()];
    let output = run(&ServerBuilder::new(), &arguments, script);
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b""[..]));
    let stderr = String::from_utf8(output.stderr).unwrap();
    for name in ["picture-1.png", "picture-2.png"] {
        let path = pictures.join(name);
        assert!(fs::read(&path).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"));
        assert!(stderr.contains(&format!("note: {} (640 × 480)\n", path.display())), "{stderr}");
    }
    assert_eq!(fs::read_dir(&pictures).unwrap().count(), 2);
    // Without `--pictures`, and if standard output is not a terminal, standard output has only the script's own
    // output.
    let output = run(&ServerBuilder::new(), &["run", "-"], script);
    assert_eq!(&*output.stdout, b"");
    assert_eq!(&*output.stderr, b"note: 2 pictures; --pictures DIR writes them there\n");
    // With `--json`, the pictures are both in the files and in the result.
    let arguments = ["run", "-", "--json", "--pictures", pictures.to_str().unwrap()];
    let output = run(&ServerBuilder::new(), &arguments, script);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (block, number) in result["content"].as_array().unwrap()[1..].iter().zip(1..) {
        let png = BASE64_STANDARD.decode(block["data"].as_str().unwrap()).unwrap();
        assert_eq!(fs::read(pictures.join(format!("picture-{number}.png"))).unwrap(), png);
    }
}

/// If the pictures cannot be written, the script's output is not lost. If their folder cannot be created, nothing
/// runs.
fn pictures_that_cannot_be_written_are_an_error_besides_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let script = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint('computed')\n\
                  assert False, 'refuted'";
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let output =
        run(&ServerBuilder::new(), &["run", "-", "--pictures", file.to_str().unwrap()], script);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((&*output.stdout, output.status.code()), (&b""[..], Some(125)), "{stderr}");
    let expected = format!("error: failed to write {}: not a directory\n", file.display());
    assert_eq!(stderr, expected);

    let taken = folder.path().join("picture-1.png");
    fs::create_dir(&taken).unwrap();
    let failed = format!("error: failed to write {}: Is a directory\n", taken.display());
    let arguments = ["run", "-", "--pictures", folder.path().to_str().unwrap()];
    let output = run(&ServerBuilder::new(), &arguments, script);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (&*output.stdout, output.status.code()),
        (&b"computed\n"[..], Some(125)),
        "{stderr}"
    );
    assert!(stderr.contains("AssertionError: refuted\n") && stderr.ends_with(&failed), "{stderr}");
    let output = run(&ServerBuilder::new(), &[&arguments[..], &["--json"]].concat(), script);
    let stderr = String::from_utf8(output.stderr).unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["_meta"]["qwed.ai/execution"]["exit_code"], 1);
    assert_eq!((&*stderr, output.status.code()), (&*failed, Some(125)));

    // Writing to a FIFO without a reader blocks until SIGINT.
    fs::remove_dir(&taken).unwrap();
    nix::unistd::mkfifo(&taken, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let file = folder.path().join("script.py");
    fs::write(&file, script).unwrap();
    let mut command = ServerBuilder::new().command();
    command.args(["run", file.to_str().unwrap(), "--json", "--pictures"]).arg(folder.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while line != "}\n" {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0);
    }
    assert!(child.try_wait().unwrap().is_none());
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    let child = RefCell::new(child);
    let has_ended = || child.borrow_mut().try_wait().unwrap().is_some();
    assert!(eventually(Duration::from_secs(30), has_ended).is_some());
    assert_eq!(child.into_inner().wait().unwrap().code(), Some(130));
}

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

fn a_supervisor_without_a_server_ends() {
    let output = Command::new(binary()).arg("__supervise").stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
}

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

fn check(files: &[(&str, &str)], arguments: &[&str], input: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    for (name, source) in files {
        fs::write(folder.path().join(name), source).unwrap();
    }
    let mut command = Command::new(binary());
    output_of(command.arg("check").args(arguments).current_dir(&folder), input)
}

fn check_says_where_what_and_what_instead_for_each_file() {
    let files = [
        ("bad.py", "import os as x\nif 1:\n    x.system('id')\nx.system('id')\n"),
        ("good.py", "print(1)\n"),
        ("noted.py", "import sys\nsys.path.insert(0, '.')\n"),
    ];
    let output = check(&files, &["bad.py", "good.py", "noted.py", "-"], "e = eval\n");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "bad.py:3:5: blocked: Dangerous function call: os.system() (lines 3-4, written \
         x.system), instead: do the work in Python [process/os-system]\n\
         noted.py:2:1: note: sys.path.insert (line 2): modules may come from other folders \
         than those of the installed packages [notes/module-search-path]\n\
         <stdin>:1:5: blocked: Dangerous name reference detected: eval (line 1), instead: \
         ast.literal_eval for data, sympy.sympify for formulas [execution/eval]\n"
    );
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(check(&files, &["good.py", "noted.py"], "").status.code(), Some(0));
}

fn check_tells_what_it_cannot_read_and_still_checks_the_rest() {
    let files = [("bad.py", "eval('1')"), ("good.py", "print(1)")];
    for arguments in [["absent.py", "bad.py"], ["absent.py", "good.py"]] {
        let output = check(&files, &arguments, "");
        assert_eq!(output.status.code(), Some(2));
        assert!(
            String::from_utf8(output.stderr).unwrap().contains("error: absent.py: No such file")
        );
        let is_clean = output.stdout == b"1 script checked: nothing is blocked\n";
        assert_eq!(is_clean, arguments[1] == "good.py");
    }
    // A report names the files that could not be read too.
    let report = |format: &str| check(&files, &["absent.py", "--format", format], "").stdout;
    let json: Value = serde_json::from_slice(&report("json")).unwrap();
    assert!(json["files"][0]["error"].as_str().unwrap().contains("No such file"), "{json}");
    let sarif: Value = serde_json::from_slice(&report("sarif")).unwrap();
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "source/not-analysed", "{sarif}");
    assert!(report("github").starts_with(b"::error "));
    // An endless file is also refused.
    for (command, code) in [("check", 2), ("run", 127)] {
        let output = run(&ServerBuilder::new(), &[command, "/dev/zero"], "");
        assert_eq!(output.status.code(), Some(code), "{command}");
        assert_eq!(&*output.stderr, b"error: /dev/zero: file too large\n", "{command}");
    }
    // A usage error also has the exit code 2.
    assert_eq!(check(&[], &[], "").status.code(), Some(2));
    assert_eq!(check(&files, &["good.py", "--format", "xml"], "").status.code(), Some(2));
}

fn check_prints_json_and_sarif() {
    let files = [("bad file.py", "é = 1; eval('1')\n"), ("broken.py", "print(\n")];
    let arguments = ["bad file.py", "broken.py", "--format"];
    let output = check(&files, &[&arguments[..], &["json"]].concat(), "");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["files"][0]["file"], "bad file.py");
    assert_eq!(report["files"][0]["blocked"], true);
    let finding = &report["files"][0]["findings"][0];
    assert_eq!((&finding["line"], &finding["column"]), (&json!(1), &json!(8)), "{finding}");
    assert_eq!(finding["rule"], "execution/eval");
    assert_eq!(report["files"][0]["notes"], json!([]));
    assert_eq!(report["files"][1]["findings"][0]["rule"], Value::Null);

    let output = check(&files, &[&arguments[..], &["sarif"]].concat(), "");
    assert_eq!(output.status.code(), Some(1));
    let log: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules: Vec<_> =
        run["tool"]["driver"]["rules"].as_array().unwrap().iter().map(|r| &r["id"]).collect();
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        assert!(rules.contains(&&result["ruleId"]), "{result}");
        assert_eq!(result["level"], "error");
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
    }
    let location = &results[0]["locations"][0]["physicalLocation"];
    assert_eq!(location["artifactLocation"]["uri"], "bad%20file.py");
    assert_eq!(location["region"], json!({ "startLine": 1, "startColumn": 8 }));
    // Columns count characters. The SARIF log declares this.
    assert_eq!(run["columnKind"], "unicodeCodePoints");
}

fn an_export_that_cannot_be_read_is_no_broken_one() {
    for file in ["/nowhere/audit.jsonl", "/"] {
        let output = run(&ServerBuilder::new(), &["audit", "verify", file], "");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && stderr.contains(file), "{file}: {stderr}");
    }
}

fn an_empty_script_is_the_same_to_every_command() {
    for (command, code) in [("run", 127), ("check", 2)] {
        let output = run(&ServerBuilder::new(), &[command, "-"], " \n");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("the script is empty"), "{command}: {stderr}");
        assert_eq!(output.status.code(), Some(code), "{command}: {stderr}");
    }
}

fn paths_that_are_not_utf_8_are_in_reports() {
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join(OsStr::from_bytes(b"\xff"));
    fs::create_dir(&odd).unwrap();
    for (variable, arguments) in [
        ("QWED_MCP_DATA_DIR", &["receipt", "keygen"][..]),
        ("QWED_MCP_DATA_DIR", &["env", "list"]),
        ("QWED_MCP_DATA_DIR", &["doctor"]),
        ("QWED_MCP_PYTHON", &["doctor"]),
        ("QWED_MCP_POLICY", &["doctor"]),
        ("QWED_MCP_AIBOM", &["doctor"]),
        ("QWED_SKILL_MANIFEST", &["doctor"]),
    ] {
        let mut command = ServerBuilder::new().command();
        command.args(arguments).args(["--format", "json"]).env(variable, &odd);
        let output = output_of(&mut command, "");
        let report: Result<Value, _> = serde_json::from_slice(&output.stdout);
        assert!(report.is_ok(), "{variable} {arguments:?}: {output:?}");
    }
}

fn manual_pages_are_written_into_a_folder_that_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("share/man/man1");
    let output = run(&ServerBuilder::new(), &["man-pages", pages.to_str().unwrap()], "");
    assert!(output.status.success(), "{output:?}");
    assert!(pages.join("qwed-mcp.1").is_file());
}

fn what_doctor_shares_has_no_path_and_no_name() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("adalovelace");
    fs::create_dir(&home).unwrap();
    let shared = |python: &str| {
        let builder = ServerBuilder::new().variable("QWED_MCP_PYTHON", python);
        let mut command = builder.command();
        command.env("HOME", &home).env("USER", "adalovelace").args(["doctor", "--share"]);
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let missing = home.join("no-python");
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for python in [python().to_str().unwrap(), missing.to_str().unwrap()] {
        let block = shared(python);
        assert!(block.starts_with("```text\nqwed-mcp 0") && block.ends_with("\n```\n"), "{block}");
        for row in ["\nsystem            Linux ", "\nadmin gate        open\n", "QWED_MCP_PYTHON"] {
            assert!(block.contains(row), "{row}: {block}");
        }
        let hidden = [python, folder.path().to_str().unwrap(), "adalovelace", hostname.trim()];
        for text in hidden.into_iter().filter(|text| text.len() > 2) {
            assert!(!block.contains(text), "{text}: {block}");
        }
    }
}
