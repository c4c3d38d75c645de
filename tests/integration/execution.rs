//! Tests the reply to a synchronous call.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{
    FORK_SERVER_PROCESSES, McpProcess, SYNC_TIMEOUT, ServerBuilder, alive_with_marker, eventually,
};

tests! {
    needs [Tier3]:
        everything_that_a_run_started_is_dead_when_it_has_ended;
    needs [Tier2]:
        without_a_sandbox_a_script_signals_itself_only;
    needs [Sandbox]:
        the_timeout_counts_from_the_start_of_the_run,
        a_script_that_kills_its_supervisor_is_killed_by_the_server,
        a_missing_interpreter_is_a_clear_error;
}

const CAP: usize = 1_048_576;
const TRUNCATED: &str = "\n\n[WARNING: OUTPUT TRUNCATED DUE TO 1MB SIZE CAP. PROCESS TERMINATED.]";

/// The kind of interpreter in which a server runs scripts.
#[derive(Clone, Copy)]
enum Executor {
    Cold,
    Warm,
}

impl Executor {
    fn connect(self, builder: ServerBuilder) -> McpProcess {
        match self {
            Self::Cold => builder.connect(),
            Self::Warm => {
                let mut server = builder.warm("json").connect();
                server.wait_until_warm();
                server
            }
        }
    }

    fn assert_nothing_is_left(self, server: &McpProcess) {
        let (at_rest, limit) = match self {
            Self::Cold => (0, Duration::ZERO),
            // The processes of the fork server remain. The reply may arrive before the processes of the run have
            // ended.
            Self::Warm => (FORK_SERVER_PROCESSES, Duration::from_secs(5)),
        };
        let is_at_rest = || alive_with_marker(server.scratch.path()).len() == at_rest;
        assert!(eventually(limit, is_at_rest).is_some());
    }
}

macro_rules! over_both_executors {
    (at any tier: $($test:ident)*; at tier 3: $($of_tier_3:ident)*;) => {
        pub(crate) mod cold {
            $(fn $test() { super::$test(super::Executor::Cold); })*
            $(fn $of_tier_3() { super::$of_tier_3(super::Executor::Cold); })*
            tests! { needs [Sandbox]: $($test),*; needs [Tier3]: $($of_tier_3),*; }
        }
        pub(crate) mod warm {
            $(fn $test() { super::$test(super::Executor::Warm); })*
            $(fn $of_tier_3() { super::$of_tier_3(super::Executor::Warm); })*
            tests! { needs [Tier3]: $($test),*, $($of_tier_3),*; }
        }
    };
}

over_both_executors! {
    at any tier:
    the_parts_that_exist_are_joined_and_trimmed
    tracebacks_name_the_script_and_show_its_lines
    a_script_that_the_compiler_warns_of_runs_all_the_same
    a_script_runs_as_the_main_module_of_a_fresh_process
    a_run_over_its_time_is_killed_and_what_it_printed_follows
    output_is_capped_at_one_mebibyte_a_stream
    both_streams_are_read_at_once
    synchronous_runs_take_turns_unless_the_admin_says_otherwise;
    at tier 3:
    a_run_leaves_no_file_behind;
}

fn the_parts_that_exist_are_joined_and_trimmed(executor: Executor) {
    let mut server = executor.connect(ServerBuilder::new().unchecked());
    let stderr = "import sys\nsys.stderr.write";
    for (code, text) in [
        ("print('a')", "STDOUT:\na\n\nExecution completed successfully."),
        ("pass", "Execution completed successfully."),
        ("print()", "Execution completed successfully."),
        ("print('  a  \\n\\n \\t')", "STDOUT:\n  a\n\nExecution completed successfully."),
        (
            &format!("{stderr}('e\\n')\nprint('o')"),
            "STDOUT:\no\n\nSTDERR:\ne\n\nExecution completed successfully.",
        ),
        (
            &format!("{stderr}('e')\nsys.exit(3)"),
            "STDERR:\ne\n\nExecution failed with return code 3",
        ),
        ("import sys\nsys.exit('why')", "STDERR:\nwhy\n\nExecution failed with return code 1"),
        ("import sys\nsys.exit(0)", "Execution completed successfully."),
        ("raise SystemExit(256 + 7)", "Execution failed with return code 7"),
        (
            "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
            "Execution failed with return code -9",
        ),
        ("import os\nos.abort()", "Execution failed with return code -6"),
        (
            "import os, signal\nos.kill(os.getpid(), signal.SIGRTMIN)",
            "Execution failed with return code -34",
        ),
        (
            "import sys\nsys.stdout.buffer.write(b'a\\xff\\xfeb')",
            "STDOUT:\na\u{fffd}\u{fffd}b\n\nExecution completed successfully.",
        ),
        (
            "print('\u{e9}\u{1f600}')",
            "STDOUT:\n\u{e9}\u{1f600}\n\nExecution completed successfully.",
        ),
        // A NUL byte is an ordinary character.
        ("print('a\\0b')", "STDOUT:\na\u{0}b\n\nExecution completed successfully."),
        ("\u{feff}print(1)", "STDOUT:\n1\n\nExecution completed successfully."),
        ("print(1)\r\nprint(2)\r\n", "STDOUT:\n1\n2\n\nExecution completed successfully."),
    ] {
        let result = server.execute(code);
        assert_eq!(result.text(), text, "{code:?}");
        let is_success = text.ends_with("successfully.");
        // A failed check is a result of the script. It is not an error.
        let is_killed = text.contains("return code -");
        assert_eq!(result.is_error, is_killed, "{code:?}");
        let execution = result.execution();
        assert_eq!(execution["exit_code"] == 0, is_success);
        assert_eq!(execution["timed_out"], false);
        assert_eq!(execution["stdout_truncated"], false);
        assert_eq!(execution["stderr_truncated"], false);
        assert!(execution["duration_ms"].is_u64(), "{execution}");
    }
    server.finish();
}

fn tracebacks_name_the_script_and_show_its_lines(executor: Executor) {
    let mut server = executor.connect(ServerBuilder::new());
    let code = "\
def check(x):
    assert x == 2, f'expected 2, got {x}'

check(1)
";
    let text = server.execute(code).text().to_owned();
    assert_eq!(
        text,
        "STDERR:\nTraceback (most recent call last):\n  File \"<verification>\", line 4, in \
         <module>\n    check(1)\n  File \"<verification>\", line 2, in check\n    assert x == 2, \
         f'expected 2, got {x}'\n           ^^^^^^\nAssertionError: expected 2, got 1\n\nExecution \
         failed with return code 1"
    );
    // The module `traceback` and an error message from a thread show the source lines of the script too.
    let code = "\
import threading, traceback
def fail():
    raise ValueError('in a thread')  # here
thread = threading.Thread(target=fail, name='T')
thread.start()
thread.join()
try:
    fail()
except ValueError:
    print(traceback.format_exc())
";
    let text = server.execute(code).text().to_owned();
    assert_eq!(text.matches("raise ValueError('in a thread')  # here").count(), 2, "{text}");
    assert!(text.contains("Exception in thread T:"), "{text}");
    assert!(!text.contains("bootstrap\n") && !text.contains("<string>"), "{text}");
    server.finish();
}

/// Before the first line of the script runs, Python prints the warnings of the compiler. For this, it runs code of the
/// standard library, some of which has no source file. The server must not confuse this code with the script, which has
/// no source file either.
fn a_script_that_the_compiler_warns_of_runs_all_the_same(executor: Executor) {
    let mut server = executor.connect(ServerBuilder::new());
    let result = server.execute("print('\\d')\nassert (1, 'always true')\nprint(__name__)");
    let text = result.text();
    assert!(text.starts_with("STDOUT:\n\\d\n__main__\n\nSTDERR:\n"), "{text}");
    assert!(text.contains("SyntaxWarning: assertion is always true"), "{text}");
    assert!(text.ends_with("Execution completed successfully."), "{text}");
    let result = server.execute("assert (1, 'always true')\nraise ValueError('here')");
    assert!(result.text().ends_with("ValueError: here\n\nExecution failed with return code 1"));
    server.finish();
}

fn a_script_runs_as_the_main_module_of_a_fresh_process(executor: Executor) {
    let mut server = executor.connect(ServerBuilder::new());
    let code = "\
names = sorted(dir())
import atexit, sys
atexit.register(print, 'at exit')
print(__name__, sys.argv, sys.stdin.read() == '', '' in sys.path, 'bootstrap' in names)
import inspect
def f():
    return 1
print(inspect.getsource(f))
";
    assert_eq!(
        server.execute(code).text(),
        "STDOUT:\n__main__ ['<verification>'] True False False\ndef f():\n    return 1\n\nat \
         exit\n\nExecution completed successfully."
    );
    // Compare state instead of PIDs, because each run in the sandbox has its own PID namespace.
    let state = "import math\nprint(hasattr(math, 'seen'))\nmath.seen = 1";
    for _ in 0..2 {
        assert!(server.execute(state).text().starts_with("STDOUT:\nFalse\n"));
    }
    server.finish();
}

fn a_run_over_its_time_is_killed_and_what_it_printed_follows(executor: Executor) {
    let mut server = executor.connect(ServerBuilder::new().variable(SYNC_TIMEOUT, "6000"));
    let result = server.execute("import time\nprint('so far')\ntime.sleep(60)");
    assert_eq!(result.texts, ["Execution timed out after 6.0 seconds.", "STDOUT:\nso far"]);
    assert!(result.is_error);
    assert_eq!(result.execution()["timed_out"], true);
    assert_eq!(result.execution()["exit_code"], -9);
    server.finish();
    let mut server = executor.connect(ServerBuilder::new().variable(SYNC_TIMEOUT, "1000"));
    let result = server.execute("while True: pass");
    assert_eq!(result.texts, ["Execution timed out after 1.0 seconds."]);
    executor.assert_nothing_is_left(&server);
    assert_eq!(server.scratch.entries(), [""; 0].map(std::path::PathBuf::from));
    server.finish();
}

fn the_timeout_counts_from_the_start_of_the_run() {
    let mut server = ServerBuilder::new().variable(SYNC_TIMEOUT, "8000").connect();
    // The second run waits for the first run. Its timeout starts when the wait ends.
    let first = server.start_execute("import time\ntime.sleep(3)");
    let started = Instant::now();
    let second = server.start_execute("import time\ntime.sleep(60)");
    let reply = server.reply(first);
    assert_eq!(reply["result"]["isError"], false);
    let reply = server.reply(second);
    assert_eq!(reply["result"]["content"][0]["text"], "Execution timed out after 8.0 seconds.");
    let took = started.elapsed();
    assert!(took > Duration::from_secs(10), "{took:?}");
    server.finish();
}

fn output_is_capped_at_one_mebibyte_a_stream(executor: Executor) {
    let mut server = executor.connect(ServerBuilder::new());
    // Output of exactly the maximum size is not truncated.
    let result = server.execute(&format!(
        "import sys\nsys.stdout.write('x' * {CAP})\nprint('e', file=sys.stderr)"
    ));
    assert_eq!(
        result.text(),
        format!("STDOUT:\n{}\n\nSTDERR:\ne\n\nExecution completed successfully.", "x".repeat(CAP))
    );
    for stream in ["stdout", "stderr"] {
        for code in [
            format!("import sys\nsys.{stream}.write('x' * {})\nsys.{stream}.flush()", CAP + 1),
            format!("import sys\nwhile True: sys.{stream}.write('x' * 1000)"),
        ] {
            let result = server.execute(&code);
            let text = format!(
                "{}:\n{}{TRUNCATED}\n\nExecution failed with return code -9",
                stream.to_uppercase(),
                "x".repeat(CAP)
            );
            assert!(result.text() == text, "{} bytes of {stream}", result.text().len());
            assert!(result.is_error);
            let key = format!("{stream}_truncated");
            assert_eq!(result.execution()[&key], true);
            assert_eq!(result.execution()["exit_code"], -9);
        }
    }
    executor.assert_nothing_is_left(&server);
    server.finish();
}

fn both_streams_are_read_at_once(executor: Executor) {
    let mut server = executor.connect(ServerBuilder::new());
    // The script writes to both streams in turn, each time more than a pipe holds. A server that reads the streams
    // one after the other would block forever.
    let code = "\
import sys
for _ in range(20):
    sys.stdout.write('o' * 50_000); sys.stdout.flush()
    sys.stderr.write('e' * 50_000); sys.stderr.flush()
";
    let result = server.execute(code);
    assert!(!result.is_error);
    assert_eq!(
        result.text().len(),
        2_000_000 + "STDOUT:\n\n\nSTDERR:\n\n\nExecution completed successfully.".len()
    );
    server.finish();
}

fn synchronous_runs_take_turns_unless_the_admin_says_otherwise(executor: Executor) {
    let code = "import time\nprint(time.time())\ntime.sleep(0.4)\nprint(time.time())";
    let overlaps = |concurrency: &str| {
        let mut server = executor
            .connect(ServerBuilder::new().variable("QWED_MCP_SYNC_CONCURRENCY", concurrency));
        let ids: Vec<_> = (0..3).map(|_| server.start_execute(code)).collect();
        let mut spans: Vec<(f64, f64)> = ids
            .into_iter()
            .map(|id| {
                let reply = server.reply(id);
                let text = reply["result"]["content"][0]["text"].as_str().unwrap();
                let mut lines = text.lines().skip(1).map(|line| line.parse().unwrap());
                (lines.next().unwrap(), lines.next().unwrap())
            })
            .collect();
        server.finish();
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        spans.windows(2).any(|pair| pair[1].0 < pair[0].1)
    };
    assert!(!overlaps("1"));
    assert!(overlaps("3"));
}

fn everything_that_a_run_started_is_dead_when_it_has_ended() {
    let mut server = ServerBuilder::new().unchecked().connect();
    // The script starts a child. It also starts three daemons by double forks, each in a new session. The daemons
    // ignore SIGTERM and close their standard streams.
    let code = "\
import os, signal, sys, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            for descriptor in (0, 1, 2):
                os.close(descriptor)
            time.sleep(600)
        os._exit(0)
if os.fork() == 0:
    time.sleep(600)
time.sleep(0.2)
print('main ends')
";
    let result = server.execute(code);
    assert_eq!(result.text(), "STDOUT:\nmain ends\n\nExecution completed successfully.");
    assert_eq!(alive_with_marker(server.scratch.path()), [0; 0]);

    // The positive control: during such a run, these processes exist.
    let id = server.start_execute(&format!("{code}time.sleep(600)"));
    let scratch = server.scratch.path().to_owned();
    let there = || alive_with_marker(&scratch).len() >= 5;
    assert!(eventually(Duration::from_secs(5), there).is_some());
    server.cancel(id);
    let gone = || alive_with_marker(&scratch).is_empty();
    assert!(eventually(Duration::from_secs(5), gone).is_some());
    server.finish();
}

fn without_a_sandbox_a_script_signals_itself_only() {
    let mut server = ServerBuilder::new().variable("QWED_MCP_SANDBOX", "off").unchecked().connect();
    let code = "\
import os
def tell(pid):
    try:
        os.kill(pid, 0)
        print('reached')
    except PermissionError:
        print('refused')
child = os.fork()
if child == 0:
    os.read(os.pipe()[0], 1)
for pid in (os.getppid(), SERVER, child):
    tell(pid)
"
    .replace("SERVER", &server.pid().to_string());
    let expected = "STDOUT:\nrefused\nrefused\nreached\n\nExecution completed successfully.";
    assert_eq!(server.execute(&code).text(), expected);
    server.finish();
}

fn a_script_that_kills_its_supervisor_is_killed_by_the_server() {
    // A script can signal its supervisor only without a sandbox, and without Landlock, which restricts signals.
    let mut server = ServerBuilder::new()
        .variable("QWED_MCP_SANDBOX", "off")
        .variable("QWED_MCP_TEST_KERNEL_LACKS", "landlock")
        .unchecked()
        .connect();
    let code = "\
import os, signal, time
os.kill(os.getppid(), signal.SIGKILL)
if os.fork() == 0:
    os.setsid()
time.sleep(600)
";
    let result = server.execute(code);
    assert_eq!(
        result.text(),
        "Execution error: the process that watches over the script was killed from outside."
    );
    assert!(result.is_error);
    assert_eq!(alive_with_marker(server.scratch.path()), [0; 0]);
    assert_eq!(server.scratch.entries().len(), 0);
    assert_eq!(
        server.execute("print(1)").text(),
        "STDOUT:\n1\n\nExecution completed successfully."
    );
    server.finish();
}

fn a_run_leaves_no_file_behind(executor: Executor) {
    let mut server = executor.connect(ServerBuilder::new().unchecked());
    let code = "\
import os, pathlib, tempfile
print(os.getcwd() == os.environ['TMPDIR'] == tempfile.gettempdir(), os.listdir('.'))
pathlib.Path('a').write_text('x')
os.makedirs('d/e')
os.symlink('/', 'd/link')
os.chmod('d/e', 0)
os.chmod('d', 0)
";
    let result = server.execute(code);
    assert_eq!(result.text(), "STDOUT:\nTrue []\n\nExecution completed successfully.");
    assert_eq!(server.scratch.entries().len(), 0);
    server.finish();
}

fn a_missing_interpreter_is_a_clear_error() {
    let mut server = ServerBuilder::new().variable("QWED_MCP_PYTHON", "/nonexistent").connect();
    for _ in 0..2 {
        let result = server.execute("print(1)");
        assert_eq!(
            result.text(),
            "Execution error: the interpreter that QWED_MCP_PYTHON names could not be used: it does \
             not start: No such file or directory (os error 2). Set QWED_MCP_PYTHON to the absolute \
             path of a Python 3.8 or later, or to a name that is on PATH; ~ and variables \
             are not expanded."
        );
        assert!(result.is_error);
    }
    server.finish();

    let server = ServerBuilder::new().without("QWED_MCP_PYTHON").variable("PATH", "/nonexistent");
    let mut server = server.connect();
    let result = server.call("execute_python_code", &json!({ "code": "print(1)" }));
    assert!(result.text().starts_with("Execution error: no Python 3.8 or later was found in"));
    server.finish();
}
