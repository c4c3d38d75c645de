//! Tests the command line as people use it: the output on a terminal and in a pipe, and the exit codes.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use regex::Regex;
use serde_json::{Value, json};

use crate::harness::{
    Scratch, ServerBuilder, Terminal, alive_with_marker, binary, eventually, root,
};

tests! {
    needs [Tier3]:
        run_exits_with_the_scripts_code_or_one_for_the_reason,
        a_script_that_is_not_run_has_one_error,
        output_is_shown_while_the_script_runs_and_kept_when_it_is_interrupted,
        a_script_may_take_the_time_that_is_asked_for_and_no_more,
        the_json_result_equals_that_of_mcp,
        output_of_a_script_is_escaped_on_a_terminal,
        the_time_is_shown_while_a_script_runs_on_a_terminal,
        ctrl_c_ends_a_run_and_keeps_what_was_printed,
        a_script_is_typed_into_a_terminal,
        a_closed_pipe_ends_a_run,
        the_recorded_session_is_what_a_terminal_shows;
    needs [Python]:
        doctor_looks_at_the_rest_of_the_set_up;
    needs []:
        the_program_alone_on_a_terminal_says_what_it_is,
        errors_are_for_persons,
        a_warning_about_a_setting_is_not_a_log_line,
        misspelt_arguments_get_a_suggestion,
        colours_need_a_terminal_or_an_option,
        a_closed_pipe_is_not_an_error,
        output_that_cannot_be_written_is_an_error,
        values_of_options_are_explained,
        help_is_for_persons;
}

fn script(folder: &Path, source: &str) -> String {
    let file = folder.join("script.py");
    fs::write(&file, source).unwrap();
    file.to_str().unwrap().to_owned()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Asserts the standard output, the standard error and the exit code of a command.
#[track_caller]
fn assert_output(output: &Output, stdout: &str, stderr: &str, code: i32, case: &str) {
    let found = (text(&output.stdout), text(&output.stderr), output.status.code());
    assert_eq!(found, (stdout, stderr, Some(code)), "{case}");
}

fn run_exits_with_the_scripts_code_or_one_for_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let open = ServerBuilder::new;
    let raise = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(7)";
    for (source, stdout, stderr, code) in [
        ("print('a')\nprint('b', end='')", "a\nb", "", 0),
        ("", "", "error: /", 127),
        (raise, "out\n", "err\n", 7),
        ("import sys\nsys.exit('why')", "", "why\n", 1),
        ("eval('1')", "", "error: BLOCKED: QWED blocked python execution: Dangerous", 126),
        (
            "print('x' * 2_000_000)",
            "xxx",
            "error: more than 1 MiB on standard output; the script was ended\n",
            137,
        ),
        ("import nowhere", "", "Traceback (most recent call last):\n", 1),
    ] {
        let file = script(folder.path(), source);
        let output = open().command().args(["run", &file]).output().unwrap();
        let (printed, told) = (text(&output.stdout), text(&output.stderr));
        let is_cut = stdout == "xxx";
        assert!(if is_cut { printed.len() == 1 << 20 } else { printed == stdout }, "{source}");
        assert!(told.starts_with(stderr), "{source}: {told}");
        assert_eq!(output.status.code(), Some(code), "{source}: {told}");
        if code == 126 {
            assert!(told.contains("\nnote: Error code: QWED-MCP-RISK-00"), "{told}");
        }
        if source.contains("nowhere") {
            assert!(told.contains("\nnote: nowhere is not installed for scripts."), "{told}");
        }
    }
    let file = script(folder.path(), "import os\nos.kill(os.getpid(), 11)");
    let output = open().unchecked().command().args(["run", &file]).output().unwrap();
    let told = "error: Execution failed with return code -11\n";
    assert_output(&output, "", told, 128 + 11, "a signal");
    for arguments in [&["run"][..], &["run", "--nonsense", "x"], &["run", "a", "b"]] {
        let output = open().command().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {output:?}");
    }
}

fn a_script_that_is_not_run_has_one_error() {
    let folder = tempfile::tempdir().unwrap();
    let open = ServerBuilder::new;
    let file = script(folder.path(), "print(1)");
    let without = |name: &str| open().without(name).command();
    for (mut command, stderr, code) in [
        (
            without("QWED_MCP_TRUSTED_CODE_EXECUTION"),
            "error: scripts are disabled; set QWED_MCP_TRUSTED_CODE_EXECUTION=true\n",
            126,
        ),
        (
            open().variable("QWED_MCP_TRUSTED_CODE_EXECUTION", "1").command(),
            "warning: QWED_MCP_TRUSTED_CODE_EXECUTION is \"1\", and only the value true allows \
             scripts to run\n\
             error: scripts are disabled; ",
            126,
        ),
        (
            open().variable("QWED_MCP_PYHTON", "x").without("QWED_MCP_PYTHON").command(),
            "warning: unknown variable: QWED_MCP_PYHTON; did you mean QWED_MCP_PYTHON?\n",
            0,
        ),
        (
            open().variable("QWED_MCP_READ_PATHS", "relative").command(),
            "error: BLOCKED_ADMIN_POLICY: Scripts cannot run: an entry of",
            126,
        ),
        (
            open().variable("QWED_MCP_PYTHON", "/nonexistent/python").command(),
            "warning: QWED_MCP_PYTHON cannot be used: /nonexistent/python: it does not start: No \
             such \
             file or directory\nerror: the interpreter that QWED_MCP_PYTHON names",
            125,
        ),
    ] {
        let output = command.args(["run", &file]).output().unwrap();
        let told = text(&output.stderr);
        assert!(told.starts_with(stderr) || told.contains(&format!("\n{stderr}")), "{told}");
        // Two errors are possible, one in the reply and one in the log, because only the log may contain the path.
        let errors_max = if told.starts_with("error: no code can run: ") { 2 } else { 1 };
        assert!(told.matches("error: ").count() <= errors_max, "{told}");
        let stdout = if code == 0 { "1\n" } else { "" };
        assert_eq!((text(&output.stdout), output.status.code()), (stdout, Some(code)), "{told}");
    }
}

fn output_is_shown_while_the_script_runs_and_kept_when_it_is_interrupted() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), Scratch::new());
    let source = "import sys, time\nprint('begun')\nprint('too', file=sys.stderr)\ntime.sleep(100)";
    let file = script(folder.path(), source);
    let path = format!("{}:{}", std::env::var("PATH").unwrap(), scratch.path().display());
    let builder = ServerBuilder::new().variable("PATH", &path);
    let builder = builder.variable("TMPDIR", scratch.path().to_str().unwrap());
    let mut command = builder.command();
    command.args(["run", &file]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let (mut line, mut error) = (String::new(), String::new());
    stdout.read_line(&mut line).unwrap();
    stderr.read_line(&mut error).unwrap();
    assert_eq!((line.as_str(), error.as_str()), ("begun\n", "too\n"));
    assert!(child.try_wait().unwrap().is_none(), "the run continues");
    assert!(!alive_with_marker(scratch.path()).is_empty(), "the script runs");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    stdout.read_to_string(&mut line).unwrap();
    stderr.read_to_string(&mut error).unwrap();
    assert_eq!(line, "begun\n");
    assert_eq!(error, "too\nerror: Execution was cancelled.\n");
    let is_gone = || alive_with_marker(scratch.path()).is_empty();
    assert!(eventually(Duration::from_secs(5), is_gone).is_some(), "an orphan is left");
}

fn a_script_may_take_the_time_that_is_asked_for_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let file = script(folder.path(), "import time\nprint('begun')\ntime.sleep(100)");
    let run = |seconds: &str| {
        let builder = ServerBuilder::new();
        builder.command().args(["run", "--timeout", seconds, &file]).output().unwrap()
    };
    let expected = "error: Execution timed out after 4.5 seconds.\n";
    assert_output(&run("4.5"), "begun\n", expected, 124, "4.5");
    for seconds in ["601", "0", "-1", "1m"] {
        let output = run(seconds);
        assert_eq!(output.status.code(), Some(125), "{seconds}");
        assert!(text(&output.stderr).contains(": not a number above 0"), "{seconds}: {output:?}");
    }
}

fn the_json_result_equals_that_of_mcp() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = ServerBuilder::new().connect();
    for source in [
        "import sys\nprint(1)\nsys.exit(3)",
        "eval('1')",
        "import nowhere",
        "x = 1 + 2\nassert x == 4",
    ] {
        let call = json!({ "name": "execute_python_code", "arguments": { "code": source } });
        let mut wire = server.request("tools/call", &call)["result"].take();
        let file = script(folder.path(), source);
        let output =
            ServerBuilder::new().command().args(["run", "--json", &file]).output().unwrap();
        let mut printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(text(&output.stderr), "", "{source}");
        for result in [&mut wire, &mut printed] {
            let id = result["_meta"]["qwed.ai/decision"]["verification_id"].take();
            if let Some(figures) = result["_meta"].get_mut("qwed.ai/execution") {
                figures["duration_ms"].take();
            }
            let first = &mut result["content"][0]["text"];
            let text = first.as_str().unwrap().replace(id.as_str().unwrap(), "{id}");
            *first = json!(text);
        }
        assert_eq!(printed, wire, "{source}");
        let code = [(3, "exit"), (126, "eval"), (1, "nowhere"), (1, "assert")]
            .into_iter()
            .find_map(|(code, word)| source.contains(word).then_some(code));
        assert_eq!(output.status.code(), code, "{source}");
    }
    server.finish();
    let file = script(folder.path(), "import time\nprint('begun')\ntime.sleep(100)");
    let arguments = ["run", "--json", "--timeout", "4", &file];
    let output = ServerBuilder::new().command().args(arguments).output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["content"][1]["text"], "STDOUT:\nbegun");
    assert_eq!((&result["isError"], output.status.code()), (&json!(true), Some(124)));
}

/// Removes the clock that the terminal shows during a run of some seconds.
fn without_clock(shown: &str) -> String {
    let clock = Regex::new("(\x1b\\[2m)?running for \\d+ s(\x1b\\[0m)?\r|\r\x1b\\[K").unwrap();
    clock.replace_all(shown, "").into_owned()
}

/// Runs a script on a terminal. Returns the displayed text and the exit code.
fn run_on_terminal(source: &str, variables: &[(&str, &str)]) -> (String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let file = script(folder.path(), source);
    let mut builder = ServerBuilder::new();
    for (name, value) in variables {
        builder = builder.variable(name, value);
    }
    let (shown, status) = Terminal::start(builder.command().args(["run", &file])).finish();
    (shown, status.code())
}

fn output_of_a_script_is_escaped_on_a_terminal() {
    let source = "import sys\n\
        print('\\x1b]0;title\\x07\\x1b[2J\\x1b[31mred\\u202e \\x9b5n é')\n\
        print('\\x1b[A\\x1b[2Kno error', file=sys.stderr)\n\
        sys.stdout.flush()\n\
        sys.stdout.buffer.write(b'\\xff\\xe2\\x82')";
    let (shown, code) = run_on_terminal(source, &[("NO_COLOR", "1")]);
    assert_eq!(code, Some(0));
    let shown = without_clock(&shown);
    assert!(!shown.contains('\x1b') && !shown.contains('\x07'), "{shown:?}");
    for seen in [
        "\\u{1b}]0;title\\u{7}\\u{1b}[2J\\u{1b}[31mred\\u{202e} \\u{9b}5n é\n",
        "\\u{1b}[A\\u{1b}[2Kno error\n",
        "\u{fffd}\nexit code 0, ",
    ] {
        assert!(shown.contains(seen), "{seen} in {shown:?}");
    }
    // A file gets the unchanged output.
    let folder = tempfile::tempdir().unwrap();
    let file = script(folder.path(), source);
    let output = ServerBuilder::new().command().args(["run", &file]).output().unwrap();
    assert!(output.stdout.starts_with(b"\x1b]0;title\x07\x1b[2J"), "{output:?}");
    assert!(output.stdout.ends_with(b"\xff\xe2\x82"), "{output:?}");
    // `check` also escapes its messages, because a file name may have control characters.
    let name = "x\x1b[2J.py";
    fs::write(folder.path().join(name), "eval('1')").unwrap();
    let mut check = Command::new(binary());
    check.args(["check", name, "y\x1b[2J.py"]).current_dir(&folder);
    let output = check.output().unwrap();
    let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(!all.contains('\x1b') && all.contains("x\\u{1b}[2J.py:1:1: "), "{all:?}");
    assert!(all.contains("error: y\\u{1b}[2J.py: No such file or directory\n"), "{all:?}");
}

fn the_time_is_shown_while_a_script_runs_on_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let source = "import time\nprint('begun')\ntime.sleep(100)";
    let file = script(folder.path(), source);
    let mut terminal = Terminal::start(ServerBuilder::new().command().args(["run", &file]));
    terminal.wait_for("begun\n");
    terminal.wait_for("running for ");
    terminal.press("\x03");
    let (shown, _) = terminal.finish();
    let rest = without_clock(&shown);
    assert!(!rest.contains("running for "), "the tests remove the whole clock: {shown:?}");
    // The clock must not interrupt a line of the script, and must not appear in a file.
    let file =
        script(folder.path(), "import time\nprint('begun', end='', flush=True)\ntime.sleep(3)");
    let (shown, _) = Terminal::start(ServerBuilder::new().command().args(["run", &file])).finish();
    let (_, rest) = shown.split_once("begun").unwrap();
    assert!(!rest.contains("running for ") && rest.contains("exit code 0, "), "{shown:?}");
    assert!(rest.starts_with('\n'), "the end is on a line of its own: {shown:?}");
    let output = ServerBuilder::new().command().args(["run", &file]).output().unwrap();
    assert_output(&output, "begun", "", 0, "in a pipe");
}

fn ctrl_c_ends_a_run_and_keeps_what_was_printed() {
    let folder = tempfile::tempdir().unwrap();
    let file = script(folder.path(), "import time\nprint('begun')\ntime.sleep(100)");
    let mut terminal = Terminal::start(ServerBuilder::new().command().args(["run", &file]));
    terminal.wait_for("begun\n");
    terminal.press("\x03");
    let (shown, status) = terminal.finish();
    assert_eq!(status.code(), Some(130), "{shown:?}");
    assert!(shown.contains("begun\n") && shown.contains("Execution was cancelled."), "{shown:?}");
}

fn a_script_is_typed_into_a_terminal() {
    let mut terminal = Terminal::start(ServerBuilder::new().command().args(["run", "-"]));
    terminal.wait_for("Ctrl-D");
    terminal.press("print(6 * 7)\n\x04");
    let (shown, status) = terminal.finish();
    assert!(without_clock(&shown).contains("\n42\n") && status.success(), "{shown:?}");
}

/// Returns the write end of a pipe without a reader.
fn closed_pipe() -> Stdio {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn a_closed_pipe_ends_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = script(folder.path(), "import time\nprint('begun')\ntime.sleep(100)");
    let mut command = ServerBuilder::new().command();
    let child = command.args(["run", &file]).stdout(closed_pipe()).stderr(Stdio::piped()).spawn();
    let output = child.unwrap().wait_with_output().unwrap();
    assert_output(&output, "", "", 141, "run");
}

fn a_closed_pipe_is_not_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = script(folder.path(), "eval('1')");
    for (arguments, code) in [
        (&["--help"][..], 0),
        (&["--version"], 0),
        (&["check", &file], 1),
        (&["aibom", "--llm-model", "m"], 0),
        (&["completions", "bash"], 0),
        (&["doctor", "--apparmor-profile"], 0),
    ] {
        let mut command = Command::new(binary());
        command.args(arguments).stdout(closed_pipe()).stderr(Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        assert_output(&output, "", "", code, &arguments.join(" "));
    }
}

fn output_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = script(folder.path(), "eval('1')");
    for arguments in [&["check", &file][..], &["--help"], &["run", "--help"], &["--version"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(binary()).args(arguments).stdout(full).output().unwrap();
        let told = text(&output.stderr);
        assert!(
            told.starts_with("error: failed to print ") && told.ends_with("on device\n"),
            "{told}"
        );
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}

fn values_of_options_are_explained() {
    for (arguments, told) in [
        (&["run", "--timeout", "-1", "x.py"][..], ": not a number above 0, up to 600\n"),
        (&["run", "--batch", "x", "--workers", "-1"], ": -1 is not in 1..=256\n"),
        (
            &["token", "revoke", "abc"],
            ": expected the number of a token, as `qwed-mcp token list` prints it\n",
        ),
        (&["runs", "show", "abc"], ": a run id is a UUID, or at least its first eight digits\n"),
        (
            &["policy", "test", "--arguments", "nonsense", "--role", "admin"],
            ": not JSON: expected ident at column 2\n",
        ),
        (&["serve", "--http", ":8000"], ": expected IP:PORT, such as 127.0.0.1:8000\n"),
        (
            &["serve", "--http", "localhost:0", "--admin", "1"],
            ": expected IP:PORT, such as 127.0.0.1:8000\n",
        ),
    ] {
        let output = Command::new(binary()).args(arguments).output().unwrap();
        let found = text(&output.stderr);
        assert!(found.starts_with("error: invalid value ") && found.contains(told), "{found}");
    }
}

/// Returns the commands that a help text lists.
fn subcommands(help: &str) -> Vec<&str> {
    let (_, listed) = help.split_once("\nCommands:\n").unwrap_or_default();
    let lines = listed.lines().take_while(|line| line.starts_with("  "));
    let lines = lines.filter(|line| !line.starts_with("   "));
    lines.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

fn help_is_for_persons() {
    let help = |arguments: &[&str]| {
        let output = Command::new(binary()).args(arguments).output().unwrap();
        text(&output.stdout).to_owned()
    };
    for arguments in [&["--help"][..], &["-h"]] {
        assert!(help(arguments).starts_with("MCP server that lets a language model check"));
    }
    // Collect all commands and their subcommands.
    let mut commands: Vec<Vec<String>> = vec![Vec::new()];
    let mut count = 0;
    while let Some(command) = commands.pop() {
        count += 1;
        let with = |flag| command.iter().map(String::as_str).chain([flag]).collect::<Vec<_>>();
        let (short, long) = (help(&with("-h")), help(&with("--help")));
        for shown in [&short, &long] {
            assert!(!shown.contains('`') && !shown.contains("<http"), "{command:?}: {shown}");
        }
        let inner = |name: &str| [&command[..], &[name.to_owned()]].concat();
        commands.extend(subcommands(&short).into_iter().map(inner));
    }
    assert!(count > 30, "{count} commands");
    for command in ["run", "check", "serve", "install", "token"] {
        let long = help(&[command, "--help"]);
        assert!(long.contains("\nExamples:\n  qwed-mcp "), "{long}");
        let (_, behind) = long.split_once("--color").unwrap();
        assert_eq!(behind.matches("\n  -").count(), behind.matches("--help").count(), "{long}");
    }
    let long = help(&["doctor", "--help"]);
    assert!(long.contains("'sudo\n") || long.contains("'sudo "), "{long}");
    assert!(help(&["run", "-h"]).contains("\nOptions of --batch:\n"));
}

fn the_program_alone_on_a_terminal_says_what_it_is() {
    let (shown, status) = Terminal::start(&Command::new(binary())).finish();
    assert_eq!(status.code(), Some(0), "{shown}");
    let program = binary();
    for told in ["qwed-mcp install", "\"mcpServers\"", program.to_str().unwrap(), "qwed-mcp run"] {
        assert!(shown.contains(told), "{told} in {shown}");
    }
    // If standard streams are pipes, as for a client, the program starts the server.
    let output = Command::new(binary()).stdin(Stdio::null()).output().unwrap();
    assert_output(&output, "", "", 0, "a client");
    // On a terminal, a person can start the server with `serve`.
    let mut terminal = Terminal::start(Command::new(binary()).arg("serve"));
    terminal.wait_for("serving MCP on a terminal");
    terminal.press("\x04");
    assert!(terminal.finish().1.success());
}

fn errors_are_for_persons() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path).to_str().unwrap().to_owned();
    fs::write(at("binary.py"), b"\xff\xfe").unwrap();
    fs::write(at("good.py"), "print(1)").unwrap();
    fs::write(at("open.py"), "print(\n").unwrap();
    let (data, binary_file) = (at("data"), at("binary.py"));
    for (arguments, stdout, stderr, code) in [
        (&["run", "no.py"][..], "", "error: no.py: No such file or directory\n".to_owned(), 127),
        (&["run", "."], "", "error: .: Is a directory\n".to_owned(), 127),
        (&["run", &binary_file], "", format!("error: {binary_file}: not UTF-8 at byte 0\n"), 127),
        (
            &["run", "--pictures", "good.py", "good.py"],
            "",
            "error: failed to write good.py: not a directory\n".to_owned(),
            125,
        ),
        (
            &["man-pages", "good.py"],
            "",
            "error: failed to write manual pages into good.py: not a directory\n".to_owned(),
            1,
        ),
        (
            &["check", "open.py"],
            "open.py:1:7: blocked: Syntax error in code: unexpected EOF while parsing (line 1)\n",
            String::new(),
            1,
        ),
        (
            &["policy", "check", "/nonexistent"],
            "",
            "error: /nonexistent: the policy file cannot be read: No such file or directory\n"
                .to_owned(),
            2,
        ),
        (
            &["receipt", "verify", "no.json"],
            "",
            format!(
                "error: no.json: No such file or directory\nerror: there is no key in {data}/keys; \
                 `qwed-mcp receipt keygen` makes one\n"
            ),
            2,
        ),
        (
            &["check", "no.py", "good.py"],
            "1 script checked: nothing is blocked\n",
            "error: no.py: No such file or directory\n".to_owned(),
            2,
        ),
        (
            &["check", "good.py", "good.py"],
            "2 scripts checked: nothing is blocked\n",
            String::new(),
            0,
        ),
        (
            &["token", "revoke", "3"],
            "",
            format!("error: there is no {data}/governance.db; `qwed-mcp token create` makes it\n"),
            2,
        ),
    ] {
        let mut command = Command::new(binary());
        command.args(arguments).current_dir(&folder).env_clear();
        let output = command.env("QWED_MCP_DATA_DIR", &data).output().unwrap();
        assert_output(&output, stdout, &stderr, code, &arguments.join(" "));
    }
}

fn a_warning_about_a_setting_is_not_a_log_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(binary());
    command.args(["env", "list"]).env_clear().env("QWED_MCP_MEMORY_MB", "x");
    let output = command.env("QWED_MCP_DATA_DIR", folder.path()).output().unwrap();
    let told = text(&output.stderr);
    assert!(told.starts_with("warning: QWED_MCP_MEMORY_MB is not a whole number"), "{told}");
}

fn misspelt_arguments_get_a_suggestion() {
    for (arguments, tip) in [
        (&["docter"][..], "'doctor'"),
        (&["rnu", "x.py"], "'run'"),
        (&["evn", "list"], "'env'"),
        (&["run", "--josn", "x.py"], "'--json'"),
        (&["check", "--format", "jsn", "x.py"], "'json'"),
        (&["token", "lst"], "'list'"),
        (&["--color", "allways", "doctor"], "'always'"),
    ] {
        let output = Command::new(binary()).args(arguments).output().unwrap();
        let told = text(&output.stderr);
        let line = told.lines().find(|line| line.trim_start().starts_with("tip: "));
        assert!(line.is_some_and(|line| line.contains(tip)), "{arguments:?}: {told}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

fn colours_need_a_terminal_or_an_option() {
    let folder = tempfile::tempdir().unwrap();
    let file = script(folder.path(), "eval('1')");
    let run = |is_terminal: bool, arguments: &[&str], no_color: Option<&str>| {
        let mut command = Command::new(binary());
        command.args(arguments).env_clear();
        if let Some(value) = no_color {
            command.env("NO_COLOR", value);
        }
        if is_terminal {
            return Terminal::start(&command).finish().0;
        }
        let output = command.output().unwrap();
        format!("{}{}", text(&output.stdout), text(&output.stderr))
    };
    let check = ["check", &file];
    let cases: [(bool, &[&str], Option<&str>, bool); 10] = [
        (true, &[], None, true),
        (true, &[], Some("1"), false),
        (true, &[], Some(""), true),
        (true, &["--color", "never"], None, false),
        (true, &["--color=always"], Some("1"), true),
        (false, &[], None, false),
        (false, &["--color", "always"], None, true),
        (false, &["--color", "always"], Some("1"), true),
        (false, &["--color", "auto"], None, false),
        (false, &["--color", "never"], None, false),
    ];
    for (is_terminal, options, no_color, has_colours) in cases {
        // The commands print a finding, an error, a wrong argument and the help.
        for command in [&check[..], &["check", "/nonexistent.py"], &["docter"], &["--help"]] {
            let shown = run(is_terminal, &[options, command].concat(), no_color);
            let case = format!("{is_terminal} {options:?} {no_color:?} {command:?}: {shown:?}");
            assert_eq!(shown.contains('\x1b'), has_colours, "{case}");
        }
    }
}

fn doctor_looks_at_the_rest_of_the_set_up() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (manifest, bill) = (at("skill.json"), at("missing/bill.json"));
    let builder = || ServerBuilder::new().variable("QWED_MCP_PYHTON", "/usr/bin/python3");
    let builder = || builder().variable("QWED_SKILL_MANIFEST", &manifest);
    let builder = || builder().variable("QWED_MCP_AIBOM", &bill);
    let builder = || builder().variable("QWED_MCP_AUTH_TOKEN", "unused");
    let output = builder().command().arg("doctor").output().unwrap();
    let report = text(&output.stdout);
    for told in [
        format!("\nskill manifest    {manifest}: NOT TRUSTED: it cannot be read: No such file"),
        format!("\nbill of materials {bill}: CANNOT BE WRITTEN: its folder does not exist\n"),
        "\ntoken             NOT USED: ".to_owned(),
        "\nvariable          NOT KNOWN: QWED_MCP_PYHTON; did you mean QWED_MCP_PYTHON?\n"
            .to_owned(),
        format!("\nThe server does not start: the skill manifest {manifest} is not trusted: "),
    ] {
        assert!(report.contains(&told), "{told} in {report}");
    }
    assert_eq!(output.status.code(), Some(1));
    assert!(!report.contains("unused"), "a token is a secret: {report}");
    let output = builder().command().args(["doctor", "--format", "json"]).output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["can_start"], false);
    assert_eq!(told["skill_manifest"]["trusted"], false);
    assert_eq!(
        told["aibom"],
        json!({ "file": bill, "usable": false, "why": "its folder does not exist" })
    );
    assert_eq!(told["token_unused"], true);
    assert_eq!(
        told["unknown_variables"],
        json!([{ "name": "QWED_MCP_PYHTON", "like": "QWED_MCP_PYTHON" }])
    );
    let user = nix::unistd::geteuid().as_raw();
    // If root gives up its rights, scripts run as `nobody`.
    let expected = if told["script_user"].is_null() || user == 0 { 65534 } else { user };
    if told["sandbox"]["tier"] != Value::Null {
        assert_eq!(told["script_user"]["id"], expected, "{told}");
    }
    // The terminal must not interpret control characters in the value of a setting.
    let manifest = ServerBuilder::new().variable("QWED_SKILL_MANIFEST", "/no\x1b[2J");
    let (shown, _) = Terminal::start(manifest.command().arg("doctor")).finish();
    let told = "skill manifest    /no\\u{1b}[2J: NOT TRUSTED";
    assert!(shown.contains(told) && !shown.contains('\x1b'), "{shown:?}");
    // As `doctor` has reported, the server does not start.
    let output = builder().command().stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

/// The parts of a recording that change, and their placeholders.
const VOLATILE: [(&str, &str); 9] = [
    (r#""command": "[^"]+""#, "\"command\": {program}"),
    (r"\x1b\[[0-9;]*m", ""),
    (r"running for \d+ s\r", ""),
    (r"\r\x1b\[K", ""),
    // The line end after `^C` is optional, because the clock may already have cleared its line.
    (r"\^C\n?", "^C\n"),
    (r", \d+\.\d s\n", ", {seconds} s\n"),
    (r"\b[0-9a-f]{64}\b", "{hash}"),
    (r#""duration_ms": \d+"#, "\"duration_ms\": {ms}"),
    (r#""memory_bound": "[^"]+""#, "\"memory_bound\": {}"),
];

fn normalised(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, name) in VOLATILE {
        text = Regex::new(pattern).unwrap().replace_all(&text, name).into_owned();
    }
    // Versions of Python mark the position in a line differently, so drop the lines with marks.
    text.lines()
        .filter(|line| !line.contains('^') || line.starts_with("^C"))
        .fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

/// Returns each command in the recorded session, with its output.
fn recorded() -> Vec<(String, String)> {
    let page = fs::read_to_string(root().join("docs/COMMAND_LINE.md")).unwrap();
    let (_, section) = page.split_once("\n## A session").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut commands: Vec<(String, String)> = Vec::new();
    let mut is_inside = false;
    for line in section.lines() {
        if line.starts_with("```") {
            is_inside = !is_inside;
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| is_inside) {
            commands.push((command.to_owned(), String::new()));
        } else if let Some((_, shown)) = commands.last_mut().filter(|_| is_inside) {
            shown.push_str(line);
            shown.push('\n');
        }
    }
    assert!(commands.len() >= 10, "{}", commands.len());
    commands
}

/// Runs the recorded commands again on a terminal. `^C` and `^D` stand for keys. A key is pressed when the text above
/// it has appeared. The lines above `^D` are typed.
fn the_recorded_session_is_what_a_terminal_shows() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("bin")).unwrap();
    std::os::unix::fs::symlink(binary(), folder.path().join("bin/qwed-mcp")).unwrap();
    let path = format!("{}/bin:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut differences = Vec::new();
    for (line, recorded) in recorded() {
        let builder = ServerBuilder::new().variable("PATH", &path);
        let prepared = builder.command();
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(&folder);
        shell.envs(prepared.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut terminal = Terminal::start(&shell);
        let mut expected = recorded.clone();
        if let Some((above, below)) = recorded.split_once("^C") {
            terminal.wait_for(above.lines().last().unwrap_or_default());
            terminal.press("\x03");
            expected = format!("{above}^C{below}");
        } else if let Some((above, below)) = recorded.split_once("^D\n") {
            let (note, typed) = above.split_once('\n').unwrap();
            terminal.wait_for(note.split_once(": ").unwrap().1);
            terminal.press(&format!("{typed}\x04"));
            expected = format!("{above}{below}");
        }
        let (shown, _) = terminal.finish();
        let (expected, shown) = (normalised(&expected), normalised(&shown));
        if expected != shown {
            differences.push(format!("$ {line}\nrecorded:\n{expected}\nshown:\n{shown}\n"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
