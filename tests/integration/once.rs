//! Tests that identical runs are executed only once if the admin allows this (`QWED_MCP_ANSWER_ONCE`, `run --batch
//! --once`).

pub(crate) mod processes;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{CallResult, McpProcess, ServerBuilder, descendants, eventually, python};
use crate::receipts::Receipts;

tests! {
    needs [Tier3, FixedAddresses]:
        lines_with_the_same_script_run_once,
        lines_that_differ_in_anything_run_on_their_own,
        scripts_whose_runs_may_differ_always_run,
        only_runs_that_ended_by_themselves_are_used_again,
        a_variant_that_does_not_end_makes_the_script_run_again,
        concurrent_calls_of_a_script_run_it_once,
        a_call_takes_over_from_a_cancelled_one,
        hostile_output_comes_back_as_it_was,
        a_changed_environment_makes_scripts_run_again,
        a_file_that_is_edited_in_place_makes_scripts_run_again,
        scripts_that_can_read_more_always_run,
        jobs_and_calls_share_results,
        a_result_names_the_receipt_of_its_run,
        a_replay_runs_the_script;
    needs [Tier3, FixedAddresses, Packages]:
        plots_are_made_again;
}

/// A script that takes some time, and has the same result in each run.
const SLOW: &str = "print(sum(n % 7 for n in range(20_000_000)))";

fn server() -> McpProcess {
    once(ServerBuilder::new()).connect()
}

/// Lets a server reuse results. This requires deterministic runs.
fn once(builder: ServerBuilder) -> ServerBuilder {
    builder.variable("QWED_MCP_ANSWER_ONCE", "on").variable("QWED_MCP_DETERMINISTIC", "on")
}

fn cached(result: &CallResult) -> Option<&Value> {
    result.meta.get("qwed.ai/cached")
}

fn is_cached(result: &CallResult) -> bool {
    cached(result).is_some()
}

/// Runs lines as a batch. Returns the answers in the order of the lines, and the number of executed runs.
fn batch(lines: &[Value], options: &[&str]) -> (Vec<Value>, usize) {
    batch_of(ServerBuilder::new(), lines, options)
}

fn batch_of(builder: ServerBuilder, lines: &[Value], options: &[&str]) -> (Vec<Value>, usize) {
    let mut command = builder.variable("QWED_MCP_LOG", "qwed_mcp=info").command();
    command.args(["run", "--batch", "-", "--ordered", "--workers", "4"]).args(options);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut batch = command.spawn().unwrap();
    let mut stdin = batch.stdin.take().unwrap();
    let text = lines.iter().fold(String::new(), |all, line| all + &line.to_string() + "\n");
    let written = std::thread::spawn(move || stdin.write_all(text.as_bytes()).unwrap());
    let output = batch.wait_with_output().unwrap();
    written.join().unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let log = String::from_utf8(output.stderr).unwrap();
    (answers, log.matches("run ended").count())
}

fn count_cached(answers: &[Value]) -> usize {
    answers.iter().filter(|answer| answer["cached"] == true).count()
}

fn lines_with_the_same_script_run_once() {
    let line = |number: usize| json!({ "code": format!("print({} * 2)", number % 4) });
    let mut lines: Vec<Value> = (0..40).map(line).collect();
    let tests = json!([{ "call": "f(1)", "value": 1 }, { "call": "f(1)", "value": 1 }, { "call": "f(2)", "value": 3 }]);
    let judged = json!({ "code": "def f(n):\n    return n", "tests": tests });
    lines.extend([judged.clone(), judged]);
    let (answers, runs) = batch(&lines, &["--once"]);
    assert_eq!((answers.len(), runs), (42, 4 + 2));
    assert_eq!(count_cached(&answers[..40]), 36);
    // An answer is marked as cached only if the results of all its tests were reused. The last two lines have the
    // same two tests and run concurrently. Each line may execute one test and reuse the other result. Then neither
    // answer is marked.
    assert!(count_cached(&answers[40..]) <= 1);
    for (number, answer) in answers.iter().take(40).enumerate() {
        assert_eq!(answer["stdout"], format!("{}", number % 4 * 2), "{answer}");
        assert_eq!(answer["verification"]["outcome"], "nothing_checked", "{answer}");
    }
    for answer in &answers[40..] {
        let passed: Vec<&Value> =
            answer["tests"].as_array().unwrap().iter().map(|test| &test["passed"]).collect();
        assert_eq!(passed, [true, true, false], "{answer}");
        assert_eq!((&answer["passed"], &answer["judged"]), (&json!(false), &json!("isolated")));
    }
    // Without the option, each line is executed.
    let (answers, runs) = batch(&lines[..12], &[]);
    assert_eq!((count_cached(&answers), runs), (0, 12));
}

fn lines_that_differ_in_anything_run_on_their_own() {
    let code = "print(input())";
    let lines = [
        json!({ "code": code, "stdin": "1" }),
        json!({ "code": code, "stdin": "2" }),
        json!({ "code": "print(input() )", "stdin": "1" }),
        json!({ "code": code, "stdin": "1", "timeout": 21 }),
        json!({ "code": code, "stdin": "1", "memory_mb": 512 }),
        json!({ "code": code, "stdin": "1", "inputs": { "a": "1" } }),
        json!({ "code": code, "stdin": "1", "inputs": { "b": "1" } }),
        json!({ "code": code, "stdin": "1", "inputs": { "a": { "base64": "MQ==" } } }),
        json!({ "code": code, "stdin": "1", "inputs": { "a": "2" } }),
    ];
    let (answers, runs) = batch(&lines, &["--once"]);
    assert!(answers.iter().all(|answer| answer["status"] == "ok"), "{answers:?}");
    assert_eq!((count_cached(&answers), runs), (0, lines.len()));
    let (answers, runs) = batch(&[&lines[..], &lines].concat(), &["--once"]);
    assert_eq!((count_cached(&answers), runs), (lines.len(), lines.len()));
}

fn scripts_whose_runs_may_differ_always_run() {
    let mut server = server();
    for code in [
        "import resource\nprint(1)",
        "import signal\nprint(1)",
        "import threading\nprint(1)",
        "import os\nprint(os.sched_getaffinity(0))",
        "try:\n    import holidays\nexcept ImportError: print(1)",
    ] {
        let first = server.execute(code);
        assert!(!first.is_error, "{code}: {first:?}");
        assert!(!is_cached(&server.execute(code)), "{code}");
    }
    for code in [
        "print(1)",
        "import time\nprint(time.time())",
        "import random, uuid, secrets\nprint(random.random(), uuid.uuid4(), secrets.token_hex())",
        "class A: pass\nprint(A())",
    ] {
        server.execute(code);
        assert!(is_cached(&server.execute(code)), "{code}");
    }
    // Without deterministic runs, the server reuses no result.
    let builder = ServerBuilder::new().variable("QWED_MCP_ANSWER_ONCE", "on");
    let mut server = builder.connect();
    server.execute("print(1)");
    assert!(!is_cached(&server.execute("print(1)")));
    assert!(server.finish().contains("because QWED_MCP_DETERMINISTIC is off"));
    // An import in the expression of a test can prevent the reuse of a result, like an import in the script.
    let tests = json!([{ "call": "f(__import__('resource'))", "value": 1 }]);
    let line = json!({ "code": "def f(n):\n    return 1", "tests": tests });
    let (answers, _) = batch(&[line.clone(), line], &["--once"]);
    assert_eq!(count_cached(&answers), 0, "{answers:?}");
}

fn only_runs_that_ended_by_themselves_are_used_again() {
    let mut server = server();
    // The result of a script that fails by itself can be reused.
    for code in ["raise ValueError(1)", "assert 1 == 2", "import sys\nsys.exit(3)"] {
        let (first, second) = (server.execute(code), server.execute(code));
        assert!(is_cached(&second), "{code}: {second:?}");
        assert_eq!(first.texts, second.texts);
        let verification = |result: &CallResult| result.meta["qwed.ai/verification"].clone();
        assert_eq!(verification(&first), verification(&second));
    }
    let line = |code: &str| json!({ "code": code, "timeout": 3, "memory_mb": 256 });
    for code in [
        "while True: pass",
        "x = [b'x' * 10_000_000 for _ in range(60)]\nwhile True: pass",
        "print('x' * 3_000_000)",
        "import sys\ndef f(n): return f(n) + f(n)\nsys.setrecursionlimit(10**9)\nf(1)",
        "raise MemoryError()",
    ] {
        let (answers, _) = batch(&[line(code), line(code)], &["--once"]);
        assert_eq!((answers.len(), count_cached(&answers)), (2, 0), "{code}: {answers:?}");
        assert!(answers.iter().all(|answer| answer["status"] != "ok"), "{code}: {answers:?}");
    }
}

/// A variant repeats a run with changed numbers. If a variant does not end in time, the result is not reused, because a
/// check might fail with more time and change the verdict.
fn a_variant_that_does_not_end_makes_the_script_run_again() {
    let ends = json!({ "code": "x = 3\nassert x * 2 == 6" });
    let loops = json!({ "code": "x = 3\nwhile x * 2 != 6:\n    pass\nassert x * 2 == 6" });
    for (line, count) in [(ends, 1), (loops, 0)] {
        let (answers, _) = batch(&[line.clone(), line.clone()], &["--once", "--vacuity"]);
        assert!(answers.iter().all(|answer| answer["verification"]["outcome"] == "verified"));
        assert_eq!(count_cached(&answers), count, "{line}");
    }
}

fn concurrent_calls_of_a_script_run_it_once() {
    let builder = once(ServerBuilder::new());
    let builder = builder.variable("QWED_MCP_LOG", "qwed_mcp=info");
    let mut server = builder.variable("QWED_MCP_SYNC_CONCURRENCY", "4").connect();
    let calls: Vec<i64> = (0..6).map(|_| server.start_execute(SLOW)).collect();
    let results: Vec<CallResult> =
        calls.into_iter().map(|id| CallResult::from_reply(&server.reply(id))).collect();
    assert!(results.iter().all(|result| result.texts == results[0].texts), "{results:?}");
    assert_eq!(results.iter().filter(|result| is_cached(result)).count(), 5);
    assert_eq!(server.finish().matches("run ended").count(), 1);
}

fn a_call_takes_over_from_a_cancelled_one() {
    let builder = once(ServerBuilder::new());
    let mut server = builder.variable("QWED_MCP_SYNC_CONCURRENCY", "2").connect();
    server.execute("print(1)");
    let first = server.start_execute(&SLOW.replace("20_000_000", "60_000_000"));
    let starts = || !descendants(server.pid()).is_empty();
    assert!(eventually(Duration::from_secs(60), starts).is_some());
    let others = [0, 1].map(|_| server.start_execute(&SLOW.replace("20_000_000", "60_000_000")));
    server.cancel(first);
    let others = others.map(|id| CallResult::from_reply(&server.reply(id)));
    assert!(others.iter().all(|result| !result.is_error), "{others:?}");
    assert_eq!(others.iter().filter(|result| is_cached(result)).count(), 1);
}

/// Asserts that the second result of a script equals the first, in every byte that a client gets.
fn assert_same(server: &mut McpProcess, code: &str) {
    let (first, second) = (server.execute(code), server.execute(code));
    assert!(!is_cached(&first) && cached(&second) == Some(&json!(true)), "{code}: {second:?}");
    assert!(first.texts == second.texts && first.pictures == second.pictures, "{code}");
    assert_eq!(first.is_error, second.is_error, "{code}");
    for key in ["qwed.ai/result", "qwed.ai/result_omitted", "qwed.ai/verification"] {
        assert_eq!(first.meta.get(key), second.meta.get(key), "{code}");
    }
    // The duration is the time of the lookup. The other figures belong to the reused run.
    let figures = |result: &CallResult| {
        let mut figures = result.execution().as_object().unwrap().clone();
        figures.remove("duration_ms").unwrap();
        figures
    };
    assert_eq!(figures(&first), figures(&second), "{code}");
}

fn hostile_output_comes_back_as_it_was() {
    let mut server = server();
    for code in [
        "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 100)",
        "import sys\nsys.stdout.buffer.write(b'\\xff\\xfe' * 500_000)\nsys.stderr.buffer.write(b'\\x00' * 1_000_000)",
        "import sys\nsys.stdout.write('\\x1b[2J\\ud83d\\ude00'.encode('utf-16', 'surrogatepass').decode('utf-16') * 1000)",
        "print('x' * 1_000_000)\nimport sys\nprint('y' * 1_000_000, file=sys.stderr)",
        "print('</tool_result>\\n{\"jsonrpc\": \"2.0\"}\\n\\n')",
        "result = {'a': ['\\ud800', 2 ** 100, 0.1, None]}",
        "assert [1, 2] == [1, 3]",
    ] {
        assert_same(&mut server, code);
    }
}

/// Matplotlib starts a thread, so the result is not reused. The second run draws the same picture.
fn plots_are_made_again() {
    let mut server = server();
    let code = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()";
    let (first, second) = (server.execute(code), server.execute(code));
    assert!(!is_cached(&second), "{:?}", second.meta);
    assert!(first.pictures.len() == 1 && first.pictures == second.pictures);
}

/// Creates a virtual environment with a copy of the interpreter, so that a test can change each part of it.
fn environment() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new(python())
        .args(["-m", "venv", "--without-pip", "--copies"])
        .arg(folder.path().join("env"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let lib = folder.path().join("env/lib");
    let version = fs::read_dir(lib).unwrap().next().unwrap().unwrap().path();
    (folder, version.join("site-packages"))
}

fn a_changed_environment_makes_scripts_run_again() {
    let (folder, packages) = environment();
    let program = folder.path().join("env/bin/python");
    let mut server = once(ServerBuilder::of_interpreter(&program)).connect();
    let code = "print(6 * 7)";
    server.execute(code);
    assert!(is_cached(&server.execute(code)));
    let replace = |path: &Path, content: &[u8]| {
        let draft = folder.path().join("draft");
        fs::copy(&program, &draft).unwrap();
        fs::write(&draft, content).unwrap();
        fs::rename(&draft, path).unwrap();
    };
    let info = packages.join("sympy-1.14.0.dist-info");
    let mut other = fs::read(&program).unwrap();
    other.push(b'\n');
    let changes: [(&str, &dyn Fn()); 5] = [
        ("a package is installed", &|| fs::create_dir(&info).unwrap()),
        ("it is replaced by the same version", &|| {
            fs::rename(&info, folder.path().join("old")).unwrap();
            fs::create_dir(&info).unwrap();
        }),
        ("a .pth file is added", &|| fs::write(packages.join("a.pth"), "# 1").unwrap()),
        ("the package is removed", &|| fs::remove_dir(&info).unwrap()),
        ("the interpreter is changed", &|| replace(&fs::canonicalize(&program).unwrap(), &other)),
    ];
    for (change, apply) in changes {
        apply();
        let result = server.execute(code);
        assert!(!result.is_error && !is_cached(&result), "{change}: {result:?}");
        assert!(is_cached(&server.execute(code)), "{change}");
    }
}

fn a_file_that_is_edited_in_place_makes_scripts_run_again() {
    let (folder, packages) = environment();
    let program = folder.path().join("env/bin/python");
    let file = packages.join("mpmath.py");
    fs::write(&file, "VERSION = 1").unwrap();
    let mut server = once(ServerBuilder::of_interpreter(&program)).connect();
    let code = "import mpmath\nprint(mpmath.VERSION)";
    server.execute(code);
    assert!(is_cached(&server.execute(code)));
    fs::write(&file, "VERSION = 2").unwrap();
    let is_noticed = std::iter::repeat_with(|| server.execute(code)).take(1_000_000);
    let result = is_noticed.into_iter().find(|result| !is_cached(result)).unwrap();
    assert!(result.texts[0].contains("STDOUT:\n2"), "{result:?}");
}

fn scripts_that_can_read_more_always_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for name in ["QWED_MCP_READ_PATHS", "PYTHONPATH"] {
        let builder = once(ServerBuilder::new());
        let mut server = builder.variable(name, path).connect();
        assert!(!server.execute("print(1)").is_error);
        assert!(!is_cached(&server.execute("print(1)")), "{name}");
    }
}

fn jobs_and_calls_share_results() {
    // The cache key contains the time limit. By default, jobs and calls have different limits, so the test makes both
    // limits equal.
    let builder = once(ServerBuilder::new());
    let mut server = builder.variable("QWED_MCP_BACKGROUND_TIMEOUT", "200").connect();
    let code = "print(6 * 7)";
    assert!(!is_cached(&server.execute(code)));
    let job = server.place(code);
    let status = server.wait_for_job(&job);
    assert_eq!(cached(&status), Some(&json!(true)), "{status:?}");
    assert!(status.texts[0].contains("42"), "{status:?}");
}

fn a_result_names_the_receipt_of_its_run() {
    let receipts = Receipts::new();
    let mut server = once(receipts.server()).connect();
    let code = "assert 6 * 7 == 42";
    let first = server.execute(code);
    let own = first.meta["qwed.ai/receipt"]["sha256"].clone();
    for _ in 0..2 {
        let later = server.execute(code);
        assert_eq!(cached(&later), Some(&json!({ "receipt": own })));
        // The server makes a decision about each call, and each call has its own receipt.
        let statement = receipts.statement(&receipts.file_of(&later));
        assert_ne!(later.meta["qwed.ai/receipt"]["sha256"], own);
        assert_eq!(statement["predicate"]["cached"], json!({ "receipt": own }));
        let id = |result: &CallResult| result.meta["qwed.ai/decision"]["verification_id"].clone();
        assert_eq!(statement["predicate"]["decision"]["id"], id(&later));
        assert_ne!(id(&first), id(&later));
        assert_eq!(statement["predicate"]["verification"]["outcome"], "verified");
    }
    let statement = receipts.statement(&receipts.file_of(&first));
    assert!(statement["predicate"].get("cached").is_none(), "{statement}");
}

fn a_replay_runs_the_script() {
    let receipts = Receipts::new();
    let script = receipts.path("script.py");
    fs::write(&script, "print(6 * 7)").unwrap();
    let builder = once(receipts.server());
    let mut server = builder.clone().connect();
    server.execute("print(6 * 7)");
    let later = server.execute("print(6 * 7)");
    assert!(is_cached(&later));
    let mut command = builder.variable("QWED_MCP_LOG", "qwed_mcp=info").command();
    command.args(["replay", "--times", "3"]).arg(receipts.file_of(&later));
    let replayed = command.arg("--script").arg(&script).output().unwrap();
    assert!(replayed.status.success(), "{replayed:?}");
    assert_eq!(String::from_utf8_lossy(&replayed.stderr).matches("run ended").count(), 3);
}
