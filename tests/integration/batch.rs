//! Tests batches. Each line of input gets one line of output, even if a run or the batch fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{
    BusyProcessors, ServerBuilder, Terminal, alive_with_marker, descendants, eventually, is_alive,
    ordinary_user, public_python,
};

tests! {
    needs [Tier3]:
        each_line_is_answered_with_what_became_of_it,
        hostile_lines_are_told_from_each_other_in_warm_interpreters,
        a_forged_end_makes_no_result_better,
        answers_show_whether_a_script_ran_to_its_end_and_how_it_was_judged,
        calls_are_judged_by_their_values,
        a_forged_value_passes_no_test,
        a_call_is_decided_together_with_its_script,
        a_script_is_run_once_for_each_test,
        a_script_that_others_keep_from_the_processors_is_not_judged,
        answers_come_in_the_order_of_the_lines_where_that_is_wanted,
        the_parts_of_a_batch_are_the_whole,
        what_is_found_is_reported_where_the_admin_says_so_and_nowhere_else,
        a_batch_that_is_killed_is_gone_on_with,
        an_interrupted_batch_ends_its_scripts_and_is_gone_on_with,
        a_script_whose_processes_are_killed_is_run_again_and_then_given_up,
        a_disk_that_is_full_loses_no_answer,
        a_machine_that_runs_out_of_files_judges_no_script_and_goes_on,
        a_reader_who_leaves_ends_the_batch,
        an_answer_is_one_line_to_every_reader,
        scripts_cannot_read_the_answers_of_their_batch,
        progress_and_figures_are_there_for_programs,
        a_terminal_has_a_bar;
    needs [Tier2, PublicPython]:
        scripts_read_from_standard_input_however_they_are_run,
        no_script_withdraws_from_its_verdict,
        no_batch_runs_without_a_sandbox_that_protects_files;
    needs [Sandbox]:
        run_gives_a_script_a_file_to_read;
    needs []:
        what_cannot_be_used_is_told_before_anything_runs,
        results_are_gone_on_with_and_never_overwritten,
        an_answer_to_another_script_is_not_kept,
        a_line_that_no_longer_can_be_read_is_not_answered_twice,
        an_answer_to_other_expectations_is_not_kept,
        options_of_batches_are_refused_without_one;
}

/// A folder for the files of a batch, and the settings of its command.
struct Batch {
    folder: TempDir,
    builder: ServerBuilder,
}

/// The output of a batch that has ended.
struct Done {
    answers: Vec<Value>,
    told: String,
    code: Option<i32>,
}

impl Batch {
    fn new(builder: ServerBuilder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // `alive_with_marker` finds the batch's processes by this `PATH`, which contains the batch's folder.
        let path = format!("{}:{}", std::env::var("PATH").unwrap(), folder.path().display());
        Self { folder, builder: builder.variable("PATH", &path) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, lines: &[Value]) -> PathBuf {
        let path = self.path("scripts.jsonl");
        let text = lines.iter().fold(String::new(), |all, line| all + &line.to_string() + "\n");
        fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.builder.command();
        command.arg("run").arg("--batch").arg(self.path("scripts.jsonl")).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Writes these lines to a file, and runs them as a batch until it ends.
    fn run(&self, lines: &[Value], arguments: &[&str]) -> Done {
        self.write(lines);
        Done::of(self.command(arguments).output().unwrap())
    }

    /// Runs these lines as a batch with warm interpreters. First sends other lines until an answer comes from a warm
    /// run.
    fn run_warm(&self, lines: &[Value], arguments: &[&str]) -> Done {
        self.run_when(lines, arguments, |answer| answer["warm"] == true, || ())
    }

    /// Runs a script repeatedly until an answer satisfies `is_ready`. Then calls `begin` and runs the lines. The
    /// value that `begin` returns is dropped at the end of the batch.
    fn run_when<T>(
        &self,
        lines: &[Value],
        arguments: &[&str],
        is_ready: impl Fn(&Value) -> bool,
        begin: impl FnOnce() -> T,
    ) -> Done {
        let mut child = self.builder.command();
        child.args(["run", "--batch", "-"]).args(arguments);
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        for number in 0.. {
            assert!(number < 100_000, "never warm");
            let line = json!({ "id": format!("w{number}"), "code": "print(1)" });
            writeln!(input, "{line}").unwrap();
            first.clear();
            answers.read_line(&mut first).unwrap();
            let answer: Value = serde_json::from_str(&first).unwrap();
            assert_eq!(answer["status"], "ok", "{answer}");
            if is_ready(&answer) {
                break;
            }
        }
        let _begun = begin();
        for line in lines {
            writeln!(input, "{line}").unwrap();
        }
        drop(input);
        let rest: Vec<String> = answers.lines().map(Result::unwrap).collect();
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        Done { answers: parse(&rest.join("\n")), told, code: output.status.code() }
    }

    fn results(&self) -> Vec<Value> {
        parse(&fs::read_to_string(self.path("results.jsonl")).unwrap())
    }

    /// Asserts that no process of the batch is alive.
    fn assert_gone(&self) {
        let alive = || alive_with_marker(self.folder.path());
        let gone = eventually(Duration::from_secs(30), || alive().is_empty());
        assert!(gone.is_some(), "{:?}", alive());
    }
}

impl Done {
    fn of(output: Output) -> Self {
        Self {
            answers: parse(&String::from_utf8(output.stdout).unwrap()),
            told: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code(),
        }
    }

    fn answer(&self, id: &str) -> &Value {
        let mut found = self.answers.iter().filter(|answer| answer["id"] == id);
        let answer = found.next().unwrap_or_else(|| panic!("no {id}: {:?}", self.answers));
        assert!(found.next().is_none(), "{id} is there twice");
        answer
    }
}

fn parse(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ids(answers: &[Value]) -> Vec<&str> {
    answers.iter().map(|answer| answer["id"].as_str().unwrap()).collect()
}

fn path_text(path: &Path) -> &str {
    path.to_str().unwrap()
}

const SYSTEM: &str = "import os\nos.system('id')";

/// Returns scripts that end in different ways, each with the expected values of `status` and `passed`.
fn every_kind() -> Vec<(Value, &'static str, Value)> {
    let memory = "import time\nx = bytearray(300 << 20)\ntime.sleep(60)";
    vec![
        (json!({ "id": "ok", "code": "print(6 * 7)" }), "ok", Value::Null),
        (
            json!({ "id": "right", "code": "print(1)", "expect": { "stdout": "1\n" } }),
            "ok",
            json!(true),
        ),
        (
            json!({ "id": "wrong", "code": "print(1)", "expect": { "stdout": "2" } }),
            "ok",
            json!(false),
        ),
        (json!({ "id": "refuted", "code": "assert 1 == 2" }), "failed", Value::Null),
        (
            json!({ "id": "exit", "code": "raise SystemExit(3)", "expect": { "stdout": "" } }),
            "failed",
            json!(false),
        ),
        (
            json!({ "id": "loop", "code": "import time\ntime.sleep(60)", "timeout": 2, "expect": { "stdout": "" } }),
            "timeout",
            json!(false),
        ),
        (
            json!({ "id": "flood", "code": "while True: print('x' * 999)", "expect": { "stdout": "x" } }),
            "output_cap",
            json!(false),
        ),
        (
            json!({ "id": "memory", "code": memory, "memory_mb": 150, "expect": { "stdout": "" } }),
            "memory",
            json!(false),
        ),
        (
            json!({ "id": "blocked", "code": SYSTEM, "tests": [{ "stdout": "" }] }),
            "blocked",
            json!(false),
        ),
        (json!({ "id": "broken", "code": "def f(:" }), "blocked", Value::Null),
        (json!({ "id": "extra", "code": "1", "more": 1 }), "invalid", Value::Null),
        (json!({ "id": "long", "code": "1", "timeout": 1000 }), "invalid", Value::Null),
    ]
}

/// The error of a script that timed out because other processes used the processors.
const STARVED: &str =
    "it timed out because other processes used the processors or the memory for pipes";

/// Returns whether a script was not judged because the machine was busy. A test must expect this of each script that
/// reaches its timeout.
fn is_starved(answer: &Value) -> bool {
    let is_error = answer["error"] == STARVED;
    assert!(
        !is_error || answer["status"] == "infra_error" && answer["passed"].is_null(),
        "{answer}"
    );
    is_error
}

fn assert_statuses(done: &Done, kinds: &[(Value, &str, Value)]) {
    for (line, status, passed) in kinds {
        let answer = done.answer(line["id"].as_str().unwrap());
        if *status == "timeout" && is_starved(answer) {
            continue;
        }
        assert_eq!((&answer["status"], &answer["passed"]), (&json!(status), passed), "{answer}");
    }
    assert_eq!(done.answers.len(), kinds.len());
}

fn each_line_is_answered_with_what_became_of_it() {
    let batch = Batch::new(ServerBuilder::new());
    let kinds = every_kind();
    let mut lines: Vec<Value> = kinds.iter().map(|(line, ..)| line.clone()).collect();
    lines[0]["meta"] = json!({ "step": 1 });
    let done = batch.run(&lines, &["--timeout", "60"]);
    assert_statuses(&done, &kinds);
    assert_eq!(done.code, Some(0), "{}", done.told);
    let ok = done.answer("ok");
    assert_eq!(
        (&ok["stdout"], &ok["stderr"], &ok["exit_code"]),
        (&json!("42"), &json!(""), &json!(0))
    );
    assert_eq!(
        (&ok["meta"], &ok["attempt"], &ok["warm"]),
        (&json!({ "step": 1 }), &json!(1), &json!(false))
    );
    assert!(ok["duration_ms"].is_u64() && ok["queue_ms"].is_u64(), "{ok}");
    assert_eq!(ok["verification_id"].as_str().unwrap().len(), 64);
    // The SHA-256 of `print(6 * 7)`.
    let sha256 = "6df79599d398b84cc3b5d2bc48aa32b3b92a031c852c3c679fc9308ef740f492";
    assert_eq!(ok["code_sha256"], sha256);
    assert_eq!(done.answer("exit")["exit_code"], 3);
    assert_eq!(done.answer("flood")["truncated"], json!(["stdout"]));
    assert_eq!(done.answer("blocked")["findings"][0]["rule"], "process/os-system");
    assert!(done.answer("refuted")["stderr"].as_str().unwrap().contains("AssertionError"));
    assert_eq!(done.answer("extra")["line"], 11);
    assert!(done.told.contains("12 lines (") && done.told.contains("1 passed"), "{}", done.told);

    // The input has lines that are blank, too long or not JSON, and an id that exists twice.
    let long = format!("{{\"id\":\"x\",\"code\":\"{}\"}}", "1".repeat(96 << 20));
    let text = format!(
        "nonsense\n\n{long}\n{{\"code\":\"1\"}}\n{{\"id\":\"4\",\"code\":\"1\"}}\n{{\"code\":\"2\"}}"
    );
    fs::write(batch.path("scripts.jsonl"), text).unwrap();
    let done = Done::of(batch.command(&[]).output().unwrap());
    let found: BTreeMap<_, _> = done
        .answers
        .iter()
        .map(|it| ((it["id"].as_str(), it["line"].as_u64()), it["status"].as_str().unwrap()))
        .collect();
    let expected = BTreeMap::from([
        // The answer to an unreadable line has no id. Its line number is in `line`, because another line may use this
        // number as its id.
        ((None, Some(1)), "invalid"),
        ((None, Some(3)), "invalid"),
        ((Some("4"), None), "ok"),
        ((Some("4"), Some(5)), "invalid"),
        ((Some("6"), None), "ok"),
    ]);
    assert_eq!(found, expected);
    batch.assert_gone();
}

fn hostile_lines_are_told_from_each_other_in_warm_interpreters() {
    let batch = Batch::new(ServerBuilder::new().warm("json"));
    let kinds = every_kind();
    let lines: Vec<Value> = kinds.iter().map(|(line, ..)| line.clone()).collect();
    let done = batch.run_warm(&lines, &["--timeout", "60", "--workers", "2"]);
    assert_statuses(&done, &kinds);
    assert_eq!(done.code, Some(0), "{}", done.told);
    for id in ["ok", "loop", "flood", "memory"] {
        assert_eq!(done.answer(id)["warm"], true, "{id}");
    }
    batch.assert_gone();
}

/// A script can forge the message in which its process reports how it ended. If the forged message and the exit code
/// from the kernel differ, the batch uses the worse of the two.
fn a_forged_end_makes_no_result_better() {
    let batch = Batch::new(ServerBuilder::new().warm("json"));
    let forge = |code: &str, rest: &str| {
        format!("print(7, flush=True)\nimport os, time\nos.write(3, b'={code}\\n')\n{rest}")
    };
    let cases = [
        ("exit", forge("0", "os._exit(7)"), "failed", 7),
        ("raise", forge("0", "raise RuntimeError"), "failed", 1),
        ("signal", forge("0", "os.kill(os.getpid(), 11)"), "failed", -11),
        ("hang", forge("0", "time.sleep(600)"), "timeout", -9),
        (
            "thread",
            forge(
                "0",
                "import threading\nthreading.Thread(target=lambda: (time.sleep(0.3), os._exit(7))).start()",
            ),
            "failed",
            7,
        ),
        ("worse", forge("9", "os._exit(0)"), "failed", 9),
        ("killed", forge("0", "os.kill(os.getpid(), 9)"), "failed", -9),
        // The positive controls: one script forges the true exit code, and one script forges nothing.
        ("quiet", forge("0", ""), "ok", 0),
        ("honest", "print(7)".to_owned(), "ok", 0),
    ];
    let line = |(id, code, ..): &(&str, String, &str, i32)| json!({ "id": id, "code": code, "timeout": 4, "expect": { "stdout": "7\n" } });
    let lines: Vec<Value> = cases.iter().map(line).collect();
    let done = batch.run_warm(&lines, &["--analysis", "report"]);
    for (id, _, status, exit_code) in cases {
        let answer = done.answer(id);
        if status == "timeout" && is_starved(answer) {
            continue;
        }
        let found = (&answer["status"], &answer["passed"], &answer["exit_code"], &answer["warm"]);
        let passed = json!(status == "ok");
        assert_eq!(found, (&json!(status), &passed, &json!(exit_code), &json!(true)), "{answer}");
    }
    batch.assert_gone();
}

fn answers_show_whether_a_script_ran_to_its_end_and_how_it_was_judged() {
    let cases = [
        ("last", "print(1)", Some(true)),
        ("exit", "import sys\nprint(1)\nsys.exit(0)", Some(false)),
        ("leave", "import os\nprint(1, flush=True)\nos._exit(0)", Some(false)),
        ("raise", "print(1)\n1 / 0", Some(false)),
        ("signal", "import os\nprint(1, flush=True)\nos.kill(os.getpid(), 15)", Some(false)),
        (
            "child",
            "import os\nif os.fork() == 0:\n    pass\nelse:\n    os.wait()\n    os._exit(0)",
            Some(false),
        ),
        ("closed", "import os\nos.closerange(3, 64)\nprint(1)", Some(false)),
        (
            "hook",
            "import atexit, os\natexit.register(os._exit, 0)\nprint(1, flush=True)",
            Some(true),
        ),
        ("syntax", "def f(:", Some(false)),
        ("invalid", "", None),
    ];
    let line = |(id, code, _): &(&str, &str, Option<bool>)| json!({ "id": id, "code": code, "expect": { "stdout": "1" } });
    let lines: Vec<Value> = cases.iter().map(line).collect();
    let arguments = ["--analysis", "report", "--require-judge", "isolated"];
    let cold = Batch::new(ServerBuilder::new().variable("QWED_MCP_WARM", "off"));
    let warm = Batch::new(ServerBuilder::new().warm("json"));
    let plain = json!({ "id": "plain", "code": "print(1)" });
    let lines = [&lines[..], &[plain]].concat();
    for done in [cold.run(&lines, &arguments), warm.run_warm(&lines, &arguments)] {
        for (id, _, reached_end) in cases {
            let answer = done.answer(id);
            assert_eq!(answer["reached_end"], json!(reached_end), "{answer}");
            let judged = if id == "invalid" { Value::Null } else { json!("isolated") };
            assert_eq!(
                (&answer["judged"], &answer["incomplete"]),
                (&judged, &Value::Null),
                "{answer}"
            );
        }
        assert_eq!(done.answer("last")["passed"], true);
        // This line has no expected result.
        let plain = done.answer("plain");
        let found = (&plain["status"], &plain["passed"], &plain["judged"], &plain["incomplete"]);
        assert_eq!(found, (&json!("ok"), &Value::Null, &Value::Null, &json!(true)));
    }
}

fn calls_are_judged_by_their_values() {
    let code = "import collections\ndef solve(n): return n * n\nclass Near(float): pass\nPoint = collections.namedtuple('Point', 'x y')\nif __name__ == '__main__': print('main')";
    let cases = [
        // Each case has a call, the expected value, the kind of comparison (`check`), and the value that the reason
        // contains if the comparison fails.
        ("solve(3)", json!(9), "equal", None),
        ("solve(3)", json!(9.0), "equal", Some("9")),
        ("solve(3)", json!(9.0), "isclose", None),
        ("solve(1) == 1", json!(1), "equal", Some("True")),
        ("0.1 + 0.2", json!(0.3), "equal", Some("0.30000000000000004")),
        ("0.1 + 0.2", json!(0.3), "isclose", None),
        ("(1, [2, ()])", json!([1, [2, []]]), "equal", None),
        ("{'a': (None, True), 'b': 'é'}", json!({ "b": "é", "a": [null, true] }), "equal", None),
        ("{1: 2}", json!({ "1": 2 }), "equal", Some("{1: 2}")),
        ("{3, 1}", json!([1, 3]), "set", None),
        ("[3, 1, 3]", json!([1, 3, 3]), "unordered", None),
        ("[3, 1, 3]", json!([1, 3]), "unordered", Some("[3, 1, 3]")),
        ("b'x'", json!("x"), "equal", Some("b'x'")),
        ("float('nan')", json!(0.0), "isclose", Some("nan")),
        ("2 ** 64 - 1", json!(u64::MAX), "equal", None),
        ("None", Value::Null, "equal", None),
        // An object of a subclass, such as `Counter`, is not plain data. So the call must convert the object, for
        // example to a `dict`.
        ("collections.Counter('aa')", json!({ "a": 2 }), "equal", Some("<Counter>")),
        ("dict(collections.Counter('aa'))", json!({ "a": 2 }), "equal", None),
        ("Point(1, 2)", json!([1, 2]), "equal", Some("<Point>")),
        ("Near(1)", json!(1.0), "isclose", Some("<Near>")),
        ("(i for i in [1])", json!([1]), "equal", Some("<generator>")),
        ("'\\ud800'", json!("\u{fffd}"), "equal", Some("'\u{fffd}\u{fffd}\u{fffd}'")),
        ("solve(\n3)  # nine", json!(9), "equal", None),
    ];
    let test = |(call, value, check, _): &(&str, Value, &str, Option<&str>)| json!({ "call": call, "value": value, "check": check });
    let tests: Vec<Value> = cases.iter().map(test).collect();
    let line = json!({ "id": "values", "code": code, "tests": tests });
    let fails = json!({ "id": "fails", "code": "def f(n):\n    raise ValueError(n)", "tests": [{ "call": "f('why')", "value": 1 }] });
    let lines = [line, fails];
    let cold = Batch::new(ServerBuilder::new().variable("QWED_MCP_WARM", "off"));
    let warm = Batch::new(ServerBuilder::new().warm("json"));
    for done in [cold.run(&lines, &[]), warm.run_warm(&lines, &[])] {
        let answer = done.answer("values");
        let found = answer["tests"].as_array().unwrap();
        assert_eq!(found.len(), cases.len(), "{answer}");
        for ((call, .., got), found) in cases.iter().zip(found) {
            assert_eq!(
                (&found["status"], &found["passed"], &found["got"]),
                (&json!("ok"), &json!(got.is_none()), &json!(got)),
                "{call}: {found}"
            );
        }
        assert_eq!((&answer["passed"], &answer["judged"]), (&json!(false), &json!("isolated")));
        assert_eq!(answer["stdout"], "main");
        let fails = done.answer("fails");
        assert_eq!((&fails["status"], &fails["reached_end"]), (&json!("failed"), &json!(true)));
        let stderr = fails["stderr"].as_str().unwrap();
        assert!(stderr.contains("in f\n    raise ValueError(n)\nValueError: why"), "{stderr}");
        assert!(!stderr.contains("bootstrap"), "{stderr}");
    }
}

/// Returns the code that sends a frame on the side channel of a warm run.
fn frame(kind: char, content: &str) -> String {
    format!("os.write(4, b'{kind}' + len(b'{content}').to_bytes(4, 'little') + b'{content}')")
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn a_forged_value_passes_no_test() {
    let secret = "answer-0123456789abcdef";
    let solve = "def solve(): return 8\n";
    let honest = "def solve(): return 9\n";
    let twice = frame('R', "i9;");
    let guess = [frame('E', ""), frame('R', "i8;")].join("\n");
    let patch = "import builtins\nbuiltins.len = builtins.abs = builtins.memoryview = lambda *_: 9\nbuiltins.eval = builtins.compile = lambda *_: 9\n";
    let replace = "import sys\nending = sys._getframe(1).f_locals['ending']\ntype(ending).reached_end = lambda self, main: None\n";
    let liar = "class Liar(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n    def __repr__(self): return '9'\ndef solve(): return Liar(8)\n";
    let metaclass = "class Meta(type):\n    __name__ = 'int'\n    def __eq__(self, other): return True\n    __hash__ = type.__hash__\nclass Liar(metaclass=Meta): pass\ndef solve(): return Liar()\n";
    let search = "import gc, os, re\nPATTERN = re.compile(rb'answer-[0-9a-f]{16}')\ndef solve():\n    texts = [repr(thing) for thing in gc.get_objects() if type(thing) in (str, bytes, list, dict, tuple)]\n    texts.append(repr(os.environ))\n    for text in texts:\n        found = PATTERN.search(text.encode(errors='replace'))\n        if found: return found[0].decode()\n    return 'nothing'\n";
    let cases = [
        // Each case has a name, a script, the expected value, whether the script passes, and a part of the reason if
        // it fails.
        ("honest", honest.to_owned(), json!(9), true, ""),
        ("wrong", solve.to_owned(), json!(9), false, "8"),
        (
            "twice",
            format!("import os\n{twice}\n{honest}"),
            json!(9),
            false,
            "not return exactly one value",
        ),
        ("guess", format!("import os\n{guess}\nos._exit(0)"), json!(9), false, "8"),
        // The control: the server takes the value from the side channel, so a forged value passes if it is the expected
        // value.
        (
            "known",
            format!("import os\n{}\nos._exit(0)", guess.replace("i8", "i9")),
            json!(9),
            true,
            "",
        ),
        (
            "broken",
            format!("import os\n{}\nos._exit(0)", frame('R', "l9:")),
            json!(9),
            false,
            "not encoded as plain data",
        ),
        ("patched", format!("{patch}{solve}"), json!(9), false, "8"),
        ("patched honest", format!("{patch}{honest}"), json!(9), true, ""),
        ("replaced", format!("{solve}{replace}"), json!(9), false, "ended before the call"),
        ("exit", format!("{honest}raise SystemExit(0)"), json!(9), false, "ended before the call"),
        (
            "leave",
            "import os\ndef solve(): os._exit(0)".to_owned(),
            json!(9),
            false,
            "not return exactly one value",
        ),
        (
            "quit",
            "def solve(): raise SystemExit(0)".to_owned(),
            json!(9),
            false,
            "not return exactly one value",
        ),
        ("liar", liar.to_owned(), json!(9), false, "<Liar>"),
        ("metaclass", metaclass.to_owned(), json!(9), false, "<Liar>"),
        ("search", search.to_owned(), json!(secret), false, "nothing"),
        ("search control", format!("{search}HIDDEN = '{secret}'"), json!(secret), true, ""),
        ("recursion", "def solve(): return solve()".to_owned(), json!(9), false, "failed"),
        (
            "cycle",
            "def solve():\n    x = []\n    x.append(x)\n    return x".to_owned(),
            json!(9),
            false,
            "nested deeper than 128",
        ),
        (
            "deep",
            "def solve():\n    x = 9\n    for _ in range(100_000): x = [x]\n    return x"
                .to_owned(),
            json!(9),
            false,
            "nested deeper than 128",
        ),
        (
            "shallow",
            "def solve():\n    x = 9\n    for _ in range(3): x = [x]\n    return x".to_owned(),
            json!([[[9]]]),
            true,
            "",
        ),
        (
            "giant text",
            "def solve(): return 'x' * (2 << 20)".to_owned(),
            json!("x"),
            false,
            "too large",
        ),
        (
            "giant number",
            "def solve(): return 1 << (10 << 20)".to_owned(),
            json!(1),
            false,
            "too large",
        ),
        (
            "giant list",
            "def solve(): return [None] * (2 << 20)".to_owned(),
            json!([null]),
            false,
            "too large",
        ),
        (
            "doubling",
            "def solve():\n    x = [1]\n    for _ in range(60): x = [x, x]\n    return x"
                .to_owned(),
            json!(1),
            false,
            "too large",
        ),
        (
            "large",
            "def solve(): return 'x' * 1_000_000".to_owned(),
            json!("x".repeat(1_000_000)),
            true,
            "",
        ),
        ("generator", "def solve():\n    yield 9".to_owned(), json!([9]), false, "<generator>"),
        (
            "hang",
            "import time\ndef solve(): time.sleep(600)".to_owned(),
            json!(9),
            false,
            "timeout",
        ),
        (
            "child",
            format!("import os\nchild = os.fork()\nif child: os.waitpid(child, 0)\n{honest}"),
            json!(9),
            true,
            "",
        ),
        (
            "closed",
            format!("import os\nos.closerange(3, 64)\n{honest}"),
            json!(9),
            false,
            "ended before the call",
        ),
    ];
    let line = |(id, code, value, ..): &(&str, String, Value, bool, &str)| json!({ "id": id, "code": code, "timeout": 5, "tests": [{ "call": "solve()", "value": value }] });
    let lines: Vec<Value> = cases.iter().map(line).collect();
    let batch = Batch::new(ServerBuilder::new().warm("json"));
    let done = batch.run_warm(&lines, &["--analysis", "report"]);
    for (id, _, _, passed, reason) in cases {
        let answer = done.answer(id);
        if reason == "timeout" && is_starved(answer) {
            continue;
        }
        assert_eq!(
            (&answer["passed"], &answer["warm"]),
            (&json!(passed), &json!(true)),
            "{answer}"
        );
        let test = &answer["tests"][0];
        let found = ["status", "got", "error"].map(|key| test[key].as_str().unwrap_or_default());
        assert!(found.iter().any(|text| text.contains(reason)), "{id}: {test}");
    }
    batch.assert_gone();
}

fn a_call_is_decided_together_with_its_script() {
    let batch = Batch::new(ServerBuilder::new());
    let run = "def run(f, x): return f(x)";
    let cases = [
        ("harmless", run, "run(abs, -1)", "ok"),
        ("call", run, "eval('1')", "blocked"),
        ("import", "import os", "os.system('id')", "blocked"),
        // A call must not complete an incomplete script.
        ("open", "x = (", "1", "blocked"),
        ("quoted", "x = '''", "'''", "invalid"),
        ("two", run, "1); (2", "invalid"),
        ("statement", run, "x = 1", "invalid"),
        ("comment", "x = 1  #", "1", "ok"),
        (
            "indented",
            "if True:
    pass
  ",
            "1",
            "ok",
        ),
    ];
    let line = |(id, code, call, _): &(&str, &str, &str, &str)| json!({ "id": id, "code": code, "tests": [{ "call": call, "value": 1 }] });
    let lines: Vec<Value> = cases.iter().map(line).collect();
    let done = batch.run(&lines, &[]);
    for (id, .., status) in cases {
        let answer = done.answer(id);
        assert_eq!(answer["status"], status, "{answer}");
        let passed = if status == "invalid" { Value::Null } else { json!(status == "ok") };
        assert_eq!(answer["passed"], passed, "{answer}");
    }
    // The reported line number is a line of the call, which follows the script.
    assert_eq!(done.answer("import")["findings"][0]["line"], 2);
    assert!(done.answer("two")["error"].as_str().unwrap().contains("is not one expression"));
}

fn a_script_is_run_once_for_each_test() {
    let batch = Batch::new(ServerBuilder::new());
    let code = "print(100 // int(input()))";
    let test = |stdin: &str, stdout: &str| json!({ "stdin": stdin, "stdout": stdout });
    let lines = [
        json!({ "id": "all", "code": code, "tests": [test("5\n", "20\n"), test("7", "14")] }),
        json!({ "id": "one", "code": code, "tests": [test("5", "20"), test("5", "21"), test("0", ""), test("4", "25")] }),
        json!({ "id": "loop", "code": "while input(): pass", "timeout": 2, "tests": [{ "stdout": "" }] }),
    ];
    let told = |answer: &Value| -> Vec<(Value, Value)> {
        let tests = answer["tests"].as_array().unwrap().iter();
        tests.map(|test| (test["status"].clone(), test["passed"].clone())).collect()
    };
    let done = batch.run(&lines, &[]);
    let ok = (json!("ok"), json!(true));
    assert_eq!(told(done.answer("all")), [ok.clone(), ok.clone()]);
    assert_eq!(done.answer("all")["passed"], true);
    let wrong = (json!("ok"), json!(false));
    let one = done.answer("one");
    assert_eq!(told(one), [ok.clone(), wrong.clone(), (json!("failed"), json!(false)), ok.clone()]);
    // The answer shows the first test that did not pass.
    assert_eq!(
        (&one["status"], &one["passed"], &one["stdout"]),
        (&json!("ok"), &json!(false), &json!("20"))
    );
    // The script `loop` reads all lines of standard input. At the end of the input, `input()` raises an error.
    assert_eq!(done.answer("loop")["status"], "failed");
    let done = batch.run(&lines, &["--fail-fast"]);
    assert_eq!(told(done.answer("one")), [ok.clone(), wrong]);
    assert_eq!(told(done.answer("all")), [ok.clone(), ok]);
}

fn a_script_that_others_keep_from_the_processors_is_not_judged() {
    // The script `sleeps` needs a processor only at its start. Its long timeout makes the wait for a processor a small
    // part of the run, so the run does not count as starved.
    let lines = [
        json!({ "id": "sleeps", "code": "import time\ntime.sleep(600)", "timeout": 20 }),
        json!({ "id": "computes", "code": "while True: pass", "timeout": 4 }),
        json!({ "id": "fails", "code": "1 / 0", "timeout": 60 }),
    ];
    for warm in ["on", "off"] {
        let batch = Batch::new(ServerBuilder::new().variable("QWED_MCP_WARM", warm));
        // The checks at the start of a server can time out on busy processors. So wait for a warm answer first.
        let is_ready = |answer: &Value| warm == "off" || answer["warm"] == true;
        let arguments = ["--workers", "2", "--timeout", "60"];
        let done = batch.run_when(&lines, &arguments, is_ready, BusyProcessors::start);
        let computes = done.answer("computes");
        let told = (&computes["status"], &computes["passed"], &computes["attempt"]);
        assert_eq!(told, (&json!("infra_error"), &Value::Null, &json!(2)), "{computes}");
        assert!(is_starved(computes), "{computes}");
        for (id, status) in [("sleeps", "timeout"), ("fails", "failed")] {
            let answer = done.answer(id);
            let told = (&answer["status"], &answer["passed"]);
            assert_eq!(told, (&json!(status), &Value::Null), "{answer}");
        }
        batch.assert_gone();
    }
}

fn scripts_read_from_standard_input_however_they_are_run() {
    let long = "0123456789abcdef".repeat(100_000);
    let lines = [
        json!({ "id": "input", "code": "a, b = map(int, input().split())\nprint(a + b)", "stdin": "3 4\n" }),
        json!({ "id": "lines", "code": "import sys\nprint(input(), [int(x) for x in sys.stdin])", "stdin": "a\n1\n2" }),
        json!({ "id": "bytes", "code": "import sys\nprint(sys.stdin.buffer.read())", "stdin": "é" }),
        json!({ "id": "text", "code": "import sys\nprint(sys.stdin.read() == 'é', sys.stdin.read())", "stdin": "é" }),
        json!({ "id": "long", "code": "import sys\nprint(len(sys.stdin.read()))", "stdin": long }),
        json!({ "id": "empty", "code": "import sys\nprint([sys.stdin.read()])" }),
    ];
    let printed = ["7", "a [1, 2]", "b'\\xc3\\xa9'", "True", "1600000", "['']"];
    let public = || ServerBuilder::of_interpreter(&public_python().unwrap());
    let lacks = |what: &str| public().variable("QWED_MCP_TEST_KERNEL_LACKS", what);
    let degraded = |what: &str| lacks(what).variable("QWED_MCP_SANDBOX", "degraded");
    for builder in [
        public(),
        degraded("namespaces"),
        degraded("namespaces,landlock"),
        public().variable("QWED_MCP_SANDBOX", "off"),
    ] {
        let batch = Batch::new(builder);
        let done = batch.run(&lines, &["--ordered", "--unsafe-rewards"]);
        let found: Vec<_> = done.answers.iter().map(|it| it["stdout"].as_str().unwrap()).collect();
        assert_eq!(found, printed, "{} {:?}", done.told, batch.builder);
    }
    // The scratch folder is empty. Standard input is an unlinked file that the script cannot write to.
    let batch = Batch::new(ServerBuilder::new().unchecked());
    let code = "import os, sys\nprint(os.listdir('.'), os.fstat(0).st_nlink)\ntry: os.write(0, b'x')\nexcept OSError: print('closed')";
    let done = batch.run(&[json!({ "code": code, "stdin": "x" })], &[]);
    assert_eq!(done.answers[0]["stdout"], "[] 0\nclosed", "{}", done.answers[0]);
}

/// Returns a script that reads its own expected output from the batch's file and prints it.
fn cheat(input: &Path) -> Value {
    let code =
        format!("import json\nprint(json.load(open('{}'))['expect']['stdout'])", input.display());
    json!({ "id": "cheat", "code": code, "expect": { "stdout": "a secret" } })
}

fn scripts_cannot_read_the_answers_of_their_batch() {
    let project = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let place = |name: &str| project.path().join(name);
    let (input, outside) = (place("in.jsonl"), elsewhere.path().join("in.jsonl"));
    fs::write(&input, cheat(&input).to_string()).unwrap();
    fs::write(&outside, cheat(&outside).to_string()).unwrap();
    let link = elsewhere.path().join("link.jsonl");
    std::os::unix::fs::symlink(&input, &link).unwrap();
    let (results, figures) = (place("out.jsonl"), place("summary.json"));
    let reads = |variable: &str| ServerBuilder::new().variable(variable, path_text(project.path()));
    let run = |builder: &ServerBuilder, arguments: &[&str], stdin: Stdio| {
        let mut command = builder.command();
        command.args(["run", "--analysis", "report"]).args(arguments).stdin(stdin);
        Done::of(command.output().unwrap())
    };
    let folder = fs::canonicalize(project.path()).unwrap();
    let refusal = format!("is in {}, which scripts can read", folder.display());
    for builder in [reads("PYTHONPATH"), reads("QWED_MCP_READ_PATHS")] {
        let (outside, results, figures) =
            (path_text(&outside), path_text(&results), path_text(&figures));
        for arguments in [
            &["--batch", path_text(&input)][..],
            &["--batch", path_text(&link)],
            &["--batch", "-"],
            &["--batch", outside, "--output", results],
            &["--batch", outside, "--summary", figures],
        ] {
            let done = run(&builder, arguments, fs::File::open(&input).unwrap().into());
            assert_eq!(
                (done.code, done.answers.len()),
                (Some(2), 0),
                "{arguments:?}: {}",
                done.told
            );
            assert!(done.told.contains(&refusal), "{arguments:?}: {}", done.told);
            assert_eq!(fs::read_to_string(results).unwrap_or_default(), "", "{arguments:?}");
        }
        // A hard link in the readable folder also makes the file readable.
        let second = place("second.jsonl");
        fs::hard_link(outside, &second).unwrap();
        let done = run(&builder, &["--batch", outside], Stdio::null());
        assert_eq!((done.code, done.answers.len()), (Some(2), 0), "{}", done.told);
        assert!(done.told.contains(&format!("second.jsonl {refusal}")), "{}", done.told);
        fs::remove_file(&second).unwrap();
        // The control: with `--allow-readable-answers` the script can read the answer.
        let arguments = ["--batch", path_text(&input), "--allow-readable-answers"];
        let done = run(&builder, &arguments, Stdio::null());
        let cheat = done.answer("cheat");
        assert_eq!((&cheat["passed"], &cheat["judged"]), (&json!(true), &json!("exposed")));
        assert!(done.told.contains("warning: --allow-readable-answers"), "{}", done.told);
        // The script cannot read the answer if the batch's file is outside of the readable folder.
        let done = run(&builder, &["--batch", outside], Stdio::null());
        assert_eq!(done.answer("cheat")["passed"], false, "{}", done.told);
    }
}

/// Without a sandbox that protects files, scripts can read every file of the user.
fn no_batch_runs_without_a_sandbox_that_protects_files() {
    for (lacks, sandbox) in [("namespaces,landlock", "degraded"), ("", "off")] {
        let builder = ServerBuilder::of_interpreter(&public_python().unwrap());
        let builder = builder.variable("QWED_MCP_SANDBOX", sandbox);
        let batch = Batch::new(builder.variable("QWED_MCP_TEST_KERNEL_LACKS", lacks));
        let lines = [json!({ "id": "x", "code": "print(1)", "expect": { "stdout": "1" } })];
        let done = batch.run(&lines, &[]);
        assert_eq!((done.code, done.answers.len()), (Some(2), 0), "{sandbox}: {}", done.told);
        assert!(done.told.contains("lets scripts read all files"), "{sandbox}: {}", done.told);
        assert!(done.told.contains("or use --unsafe-rewards"), "{sandbox}: {}", done.told);
        let done = batch.run(&lines, &["--allow-readable-answers"]);
        assert_eq!((done.code, done.answers.len()), (Some(2), 0), "{sandbox}: {}", done.told);
        let done = batch.run(&lines, &["--unsafe-rewards"]);
        let answer = done.answer("x");
        assert_eq!((&answer["passed"], &answer["judged"]), (&json!(true), &json!("exposed")));
        assert!(done.told.contains("warning: --unsafe-rewards"), "{}", done.told);
        let done = batch.run(&lines, &["--unsafe-rewards", "--require-judge", "isolated"]);
        let answer = done.answer("x");
        let found = (&answer["status"], &answer["passed"], &answer["incomplete"]);
        assert_eq!(found, (&json!("ok"), &Value::Null, &json!(true)), "{answer}");
    }
}

/// A UID that no other test uses for batches.
const USER: u32 = 24_613;

/// Without a complete sandbox, a script can kill its supervisor. Such a script must count as failed.
fn no_script_withdraws_from_its_verdict() {
    let code = "import os\nos.kill(os.getppid(), 9)\nprint('wrong')";
    let line = json!({ "id": "x", "code": code, "expect": { "stdout": "right" } });
    for (lacks, sandbox) in [("namespaces,landlock", "degraded"), ("landlock", "off")] {
        let builder = ServerBuilder::of_interpreter(&public_python().unwrap())
            .unchecked()
            .variable("QWED_MCP_SANDBOX", sandbox)
            .variable("QWED_MCP_TEST_KERNEL_LACKS", lacks);
        let builder = match ordinary_user(USER) {
            Some(user) => builder.with_user(user),
            None => builder,
        };
        let mut command = builder.command();
        command.args(["run", "--batch", "-", "--unsafe-rewards"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(child.stdin.take().unwrap(), "{line}").unwrap();
        let done = Done::of(child.wait_with_output().unwrap());
        let answer = done.answer("x");
        let verdict = (&answer["status"], &answer["passed"]);
        assert_eq!(verdict, (&json!("failed"), &json!(false)), "{sandbox}: {answer} {}", done.told);
    }
}

fn run_gives_a_script_a_file_to_read() {
    let folder = tempfile::tempdir().unwrap();
    let (script, given) = (folder.path().join("script.py"), folder.path().join("given.txt"));
    fs::write(&script, "print(input()[::-1])").unwrap();
    fs::write(&given, "desrever\n").unwrap();
    let run = |arguments: &[&str]| {
        let output = ServerBuilder::new().command().arg("run").args(arguments).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    };
    let printed = run(&[path_text(&script), "--stdin", path_text(&given)]);
    assert_eq!(printed, ("reversed\n".to_owned(), Some(0)));
    assert_eq!(run(&[path_text(&script)]).1, Some(1));
    assert_eq!(run(&[path_text(&script), "--stdin", "/nowhere"]).1, Some(127));
}

fn answers_come_in_the_order_of_the_lines_where_that_is_wanted() {
    let batch = Batch::new(ServerBuilder::new());
    let code = |number: u64| {
        format!("import time\ntime.sleep({})\nprint({number})", if number == 1 { 1.5 } else { 0.0 })
    };
    let lines: Vec<Value> = (1..=12).map(|number| json!({ "code": code(number) })).collect();
    let done = batch.run(&lines, &["--ordered", "--workers", "3"]);
    let expected: Vec<String> = (1..=12).map(|number: u64| number.to_string()).collect();
    assert_eq!(ids(&done.answers), expected);
    // The control: without `--ordered`, the slow first line is not answered first.
    let done = batch.run(&lines, &["--workers", "3"]);
    assert_ne!(ids(&done.answers)[0], "1");
    assert_eq!(done.answers.len(), 12);
}

fn the_parts_of_a_batch_are_the_whole() {
    let batch = Batch::new(ServerBuilder::new());
    let lines: Vec<Value> =
        (1..=7).map(|number| json!({ "code": format!("print({number})") })).collect();
    let mut all = BTreeSet::new();
    for shard in ["0/3", "1/3", "2/3"] {
        let done = batch.run(&lines, &["--shard", shard]);
        for answer in done.answers {
            assert_eq!(answer["id"], answer["stdout"]);
            assert!(all.insert(answer["id"].as_str().unwrap().to_owned()), "{answer}");
        }
    }
    assert_eq!(all.len(), 7);
}

fn what_is_found_is_reported_where_the_admin_says_so_and_nowhere_else() {
    let batch = Batch::new(ServerBuilder::new());
    let code = "print(eval('6 * 7'), open('x', 'w').write('abc'))";
    let lines = [json!({ "id": "x", "code": code })];
    let done = batch.run(&lines, &[]);
    assert_eq!(done.answer("x")["status"], "blocked");
    assert!(done.answer("x").get("analysis").is_none());
    let summary = batch.path("summary.json");
    let done = batch.run(&lines, &["--analysis", "report", "--summary", path_text(&summary)]);
    let answer = done.answer("x");
    assert_eq!((&answer["status"], &answer["stdout"]), (&json!("ok"), &json!("42 3")), "{answer}");
    assert_eq!(answer["analysis"], "report");
    assert!(answer["findings"].as_array().unwrap().len() >= 2, "{answer}");
    assert!(done.told.contains("warning: --analysis report: scripts run"), "{}", done.told);
    let summary: Value = serde_json::from_slice(&fs::read(summary).unwrap()).unwrap();
    assert_eq!(summary["analysis"], "report");
    // Only the kernel contains these scripts, so the batch needs a complete sandbox, even if the admin accepts a
    // lower tier.
    for sandbox in ["required", "degraded", "off"] {
        let lacking = ServerBuilder::new().variable("QWED_MCP_TEST_KERNEL_LACKS", "namespaces");
        let batch = Batch::new(lacking.variable("QWED_MCP_SANDBOX", sandbox));
        let done = batch.run(&lines, &["--analysis", "report"]);
        assert_eq!((done.code, done.answers.len()), (Some(2), 0), "{}", done.told);
        assert!(done.told.contains("error: "), "{}", done.told);
    }
    // A client cannot request `--analysis report`.
    let mut server = ServerBuilder::new().connect();
    for arguments in [
        json!({ "code": code, "analysis": "report" }),
        json!({ "code": code, "--analysis": "report" }),
        json!({ "code": code, "_meta": { "analysis": "report" } }),
    ] {
        let result = server.call("execute_python_code", &arguments);
        assert!(result.is_error && result.texts[0].contains("blocked"), "{:?}", result.texts);
    }
    server.finish();
    let serve =
        ServerBuilder::new().command().args(["serve", "--analysis", "report"]).output().unwrap();
    assert_eq!(serve.status.code(), Some(2));
    let run = ServerBuilder::new()
        .command()
        .args(["run", "x.py", "--analysis", "report"])
        .output()
        .unwrap();
    assert!(!run.status.success());
}

fn what_cannot_be_used_is_told_before_anything_runs() {
    let batch = Batch::new(ServerBuilder::new());
    batch.write(&[json!({ "code": "print(1)" })]);
    let input = batch.path("scripts.jsonl");
    let told = |builder: &ServerBuilder, arguments: &[&str]| {
        let output =
            builder.command().arg("run").args(arguments).stdin(Stdio::null()).output().unwrap();
        let done = Done::of(output);
        assert_eq!((done.code, done.answers.len()), (Some(2), 0), "{arguments:?}: {}", done.told);
        done.told
    };
    let input = path_text(&input);
    let open = ServerBuilder::new();
    let folder = path_text(batch.folder.path());
    let answers = batch.path("answers.jsonl");
    let answers = path_text(&answers);
    for (arguments, reason) in [
        (&["--batch", "/nowhere"][..], "/nowhere: No such file"),
        (&["--batch", input, "--output", input], "it is also the input"),
        (&["--batch", input, "--output", folder], "Is a directory"),
        (&["--batch", input, "--summary", input], "it is also the input"),
        (&["--batch", input, "--output", answers, "--summary", answers], "it is the output too"),
        (&["--batch", input, "--summary", folder], "Is a directory"),
        (&["--batch", input, "--shard", "3/3"], "0/8 for the first of eight"),
        (&["--batch", input, "--workers", "0"], "--workers"),
        (&["--batch", input, "--memory-mb", "99999"], "QWED_MCP_MEMORY_MB"),
        (&["--batch", input, "--timeout", "601"], "--timeout"),
        (&["--batch", input, "script.py"], "cannot be used with"),
        (&["--batch", input, "--json"], "cannot be used with"),
        (&["--batch", input, "--resume"], "--output"),
        (&["--batch", input, "--analysis", "off"], "--analysis"),
    ] {
        assert!(told(&open, arguments).contains(reason), "{arguments:?}");
    }
    let closed = ServerBuilder::new().without("QWED_MCP_TRUSTED_CODE_EXECUTION");
    assert!(told(&closed, &["--batch", input]).contains("QWED_MCP_TRUSTED_CODE_EXECUTION=true"));
    let nothing = ServerBuilder::new().variable("QWED_MCP_PYTHON", "/nowhere/python");
    assert!(told(&nothing, &["--batch", input]).contains("no Python"));
    assert_eq!(fs::read_to_string(input).unwrap().lines().count(), 1);
}

fn results_are_gone_on_with_and_never_overwritten() {
    // All lines are blocked, so nothing runs in this test.
    let batch = Batch::new(ServerBuilder::new());
    let lines: Vec<Value> =
        (0..5).map(|number| json!({ "id": format!("a{number}"), "code": SYSTEM })).collect();
    batch.write(&lines);
    let results = batch.path("results.jsonl");
    let run = |arguments: &[&str]| {
        let output = ["--output", path_text(&results)];
        Done::of(batch.command(&[&output[..], arguments].concat()).output().unwrap())
    };
    let foreign = "{\"some\":\"thing\"}\nelse";
    fs::write(&results, foreign).unwrap();
    for (arguments, reason) in
        [(&[][..], "use --resume"), (&["--resume"], "line 1 is not a result")]
    {
        let done = run(arguments);
        assert!(done.code == Some(2) && done.told.contains(reason), "{}", done.told);
        assert_eq!(fs::read_to_string(&results).unwrap(), foreign);
    }
    // A file with other text and no line end is not treated as an incomplete result.
    for foreign in ["remember the milk", "\0\0\0", "x\0\0"] {
        fs::write(&results, foreign).unwrap();
        let done = run(&["--resume"]);
        assert!(
            done.code == Some(2) && done.told.contains("line 1 is not a result"),
            "{}",
            done.told
        );
        assert_eq!(fs::read_to_string(&results).unwrap(), foreign);
    }
    // The last line is incomplete, as after a crash during a write.
    fs::write(&results, "{\"id\":\"a1\",\"status\":\"ok\"}\n{\"id\":\"a2\",\"status\":\"infra_error\"}\n{\"id\":\"a3\",\"sta\0\0").unwrap();
    let done = run(&["--resume"]);
    assert_eq!(done.code, Some(0), "{}", done.told);
    assert!(done.told.contains("3 lines (3 blocked, 2 answered before)"), "{}", done.told);
    let found = batch.results();
    assert_eq!(ids(&found[..2]), ["a1", "a2"]);
    let rest: BTreeSet<_> = ids(&found[2..]).into_iter().map(ToOwned::to_owned).collect();
    assert_eq!(rest, ["a0", "a3", "a4"].map(ToOwned::to_owned).into());
    // All lines have answers, so nothing is added.
    let before = fs::read(&results).unwrap();
    let done = run(&["--resume"]);
    assert!(done.code == Some(0) && done.told.contains("5 lines answered before"), "{}", done.told);
    assert_eq!(fs::read(&results).unwrap(), before);
    // The lock stands for another batch that writes to the same file.
    let held = fs::File::options().append(true).open(&results).unwrap();
    held.lock().unwrap();
    let done = run(&["--resume"]);
    assert!(
        done.code == Some(2) && done.told.contains("another batch is writing"),
        "{}",
        done.told
    );
}

/// Runs these lines with `--resume`. No script runs, because all lines are blocked or invalid.
fn resume(batch: &Batch, lines: &[String]) -> Done {
    fs::write(batch.path("scripts.jsonl"), lines.join("\n")).unwrap();
    let results = batch.path("results.jsonl");
    Done::of(batch.command(&["--output", path_text(&results), "--resume"]).output().unwrap())
}

/// Asserts that `--resume` refuses the changed lines and changes no answer. Then checks that the original lines can
/// still be resumed.
fn assert_changed(batch: &Batch, lines: &[String], changed: &[String]) {
    let results = batch.path("results.jsonl");
    let before = fs::read_to_string(&results).unwrap();
    let done = resume(batch, changed);
    assert_eq!(done.code, Some(2), "{changed:?}: {}", done.told);
    assert!(done.told.contains("differs from the line that the output has"), "{}", done.told);
    assert_eq!(fs::read_to_string(&results).unwrap(), before, "{changed:?}");
    assert_eq!(resume(batch, lines).code, Some(0), "{changed:?}");
    assert_eq!(fs::read_to_string(&results).unwrap(), before, "{changed:?}");
}

fn a_line_that_no_longer_can_be_read_is_not_answered_twice() {
    let batch = Batch::new(ServerBuilder::new());
    let named = json!({ "id": "x", "code": SYSTEM }).to_string();
    let lines = [json!({ "code": SYSTEM }).to_string(), named.clone()];
    assert_eq!(resume(&batch, &lines).code, Some(0));
    for broken in ["nonsense", r#"{"code":" "}"#, r#"{"code":"1","more":1}"#] {
        assert_changed(&batch, &lines, &[broken.to_owned(), named.clone()]);
    }
    for broken in [r#"{"id":"x","code":" "}"#, r#"{"id":"x","code":"1","more":1}"#] {
        assert_changed(&batch, &lines, &[lines[0].clone(), broken.to_owned()]);
    }
    // The existing answer with the id `x` belongs to line 2. So lines 3 and 4, which have the same id, get new answers.
    let twice = [&lines[..], &[named, r#"{"id":"x","code":" "}"#.to_owned()]].concat();
    let done = resume(&batch, &twice);
    assert_eq!(done.code, Some(0), "{}", done.told);
    let found: Vec<_> = batch.results().iter().map(|it| it["line"].as_u64()).collect();
    assert_eq!(found, [None, None, Some(3), Some(4)]);
}

fn an_answer_to_other_expectations_is_not_kept() {
    let batch = Batch::new(ServerBuilder::new());
    let line = |more: Value| {
        let mut line = json!({ "id": "x", "code": SYSTEM });
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        [line.to_string()]
    };
    let lines = line(json!({ "stdin": "1", "expect": { "stdout": "1" } }));
    assert_eq!(resume(&batch, &lines).code, Some(0));
    for changed in [
        json!({}),
        json!({ "stdin": "2", "expect": { "stdout": "1" } }),
        json!({ "stdin": "1", "expect": { "stdout": "2" } }),
        json!({ "stdin": "1", "expect": { "stdout": "1" }, "timeout": 5 }),
        json!({ "stdin": "1", "expect": { "stdout": "1" }, "memory_mb": 512 }),
        json!({ "tests": [{ "stdin": "1", "stdout": "1" }] }),
    ] {
        assert_changed(&batch, &lines, &line(changed));
    }
    // The field `meta` does not affect the answer. So a line with another `meta` keeps its answer.
    let same = line(json!({ "stdin": "1", "expect": { "stdout": "1" }, "meta": [1] }));
    assert_eq!(resume(&batch, &same).code, Some(0));
    // Older versions recorded only the digest of the script.
    let mut answer = batch.results().remove(0);
    assert_eq!(answer["line_sha256"].as_str().unwrap().len(), 64);
    answer.as_object_mut().unwrap().remove("line_sha256");
    fs::write(batch.path("results.jsonl"), format!("{answer}\n")).unwrap();
    assert_eq!(resume(&batch, &line(json!({}))).code, Some(0));
}

fn an_answer_to_another_script_is_not_kept() {
    // All lines are blocked, so nothing runs in this test.
    let batch = Batch::new(ServerBuilder::new());
    let results = batch.path("results.jsonl");
    let run = |codes: &[&str]| {
        let lines: Vec<Value> = codes.iter().map(|code| json!({ "code": code })).collect();
        batch.run(&lines, &["--output", path_text(&results), "--resume"])
    };
    let other = "import os\nos.system('other')";
    assert_eq!(run(&[SYSTEM, "1 1 1 (", SYSTEM]).code, Some(0));
    let before = fs::read_to_string(&results).unwrap();
    for changed in [[SYSTEM, "1 1 1 (", other], [other, "1 1 1 (", SYSTEM]] {
        let done = run(&changed);
        assert!(done.code == Some(2), "{}", done.told);
        assert!(done.told.contains("differs from the line that the output has"), "{}", done.told);
        assert_eq!(fs::read_to_string(&results).unwrap(), before);
    }
    // The command prints no summary after an error.
    assert!(!run(&[other]).told.contains("no line to run"));
    // The summary uses the singular for one line.
    let one = Batch::new(ServerBuilder::new());
    let done = one.run(&[json!({ "code": SYSTEM })], &["--workers", "1"]);
    assert!(done.told.contains(" 1 line (1 blocked)"), "{}", done.told);
    assert!(done.told.contains(" 1 worker, up to "), "{}", done.told);
    assert_eq!(run(&[SYSTEM, "1 1 1 (", SYSTEM, other]).code, Some(0));
    let after = fs::read_to_string(&results).unwrap();
    assert!(after.starts_with(&before) && after.lines().count() == 4, "{after}");
}

fn options_of_batches_are_refused_without_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let file = path_text(&file);
    for option in [
        &["--output", file][..],
        &["--summary", file],
        &["--workers", "2"],
        &["--memory-mb", "128"],
        &["--shard", "0/8"],
        &["--analysis", "report"],
        &["--progress", "json"],
        &["--ordered"],
        &["--fail-fast"],
        &["--allow-readable-answers"],
        &["--unsafe-rewards"],
        &["--require-judge", "isolated"],
    ] {
        let mut command = ServerBuilder::new().command();
        let output = command.arg("run").args(option).arg("script.py").output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        let reason = format!("error: {} is for batches: it needs --batch FILE", option[0]);
        assert!(output.status.code() == Some(125) && told.contains(&reason), "{told}");
        assert!(output.stdout.is_empty(), "{option:?}");
    }
    assert!(!Path::new(file).exists());
}

/// Returns lines that together take long enough to be interrupted.
fn slow_lines(count: usize) -> Vec<Value> {
    let code = |number| format!("import time\ntime.sleep(0.02)\nprint({number})");
    (0..count).map(|number| json!({ "id": format!("s{number}"), "code": code(number) })).collect()
}

/// Asserts that each line has exactly one answer, with the right output.
fn assert_answered_once(found: &[Value], count: usize) {
    let all: BTreeSet<_> = ids(found).into_iter().collect();
    assert_eq!((all.len(), found.len()), (count, count));
    for answer in found {
        let printed = answer["stdout"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert_eq!(answer["id"], format!("s{printed}"), "{answer}");
        assert_eq!(answer["status"], "ok");
    }
}

fn a_batch_that_is_killed_is_gone_on_with() {
    let batch = Batch::new(ServerBuilder::new());
    batch.write(&slow_lines(60));
    let arguments =
        ["--output", path_text(&batch.path("results.jsonl")), "--resume", "--workers", "3"]
            .map(ToOwned::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let answered =
        || fs::read_to_string(batch.path("results.jsonl")).unwrap_or_default().lines().count();
    for wanted in [1, 9, 30, 41] {
        let mut child = batch.command(&arguments).spawn().unwrap();
        let reached =
            eventually(Duration::from_secs(120), || answered() >= wanted || !is_alive(child.id()));
        assert!(reached.is_some(), "{} answers", answered());
        child.kill().unwrap();
        child.wait().unwrap();
        batch.assert_gone();
        assert!(answered() < 60, "it was over before it was killed");
    }
    let done = Done::of(batch.command(&arguments).output().unwrap());
    assert_eq!(done.code, Some(0), "{}", done.told);
    assert!(done.told.contains("answered before"), "{}", done.told);
    assert_answered_once(&batch.results(), 60);
    batch.assert_gone();
}

fn an_interrupted_batch_ends_its_scripts_and_is_gone_on_with() {
    let batch = Batch::new(ServerBuilder::new());
    let mut lines = slow_lines(10);
    let forever = "import time\nprint('begun', flush=True)\ntime.sleep(600)";
    lines.insert(5, json!({ "id": "forever", "code": forever }));
    batch.write(&lines);
    let results = batch.path("results.jsonl");
    let arguments = ["--output", path_text(&results), "--workers", "2", "--resume"];
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let child = batch.command(&arguments).spawn().unwrap();
        let is_there = || fs::read_to_string(&results).is_ok_and(|text| text.lines().count() >= 10);
        assert!(eventually(Duration::from_secs(120), is_there).is_some());
        // Only the script that never ends is left.
        wait_for_a_script(&child);
        kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
        let done = Done::of(child.wait_with_output().unwrap());
        assert_eq!(done.code, Some(code), "{}", done.told);
        assert!(done.told.contains("with --resume to continue"), "{}", done.told);
        assert!(!ids(&batch.results()).contains(&"forever"));
        batch.assert_gone();
    }
    lines[5]["code"] = json!("print('over')");
    batch.write(&lines);
    let done = Done::of(batch.command(&arguments).output().unwrap());
    assert_eq!(done.code, Some(0), "{}", done.told);
    let found = batch.results();
    let (forever, rest): (Vec<_>, Vec<_>) = found.into_iter().partition(|it| it["id"] == "forever");
    assert_eq!((forever.len(), &forever[0]["stdout"]), (1, &json!("over")));
    assert_answered_once(&rest, 10);
    // A batch that writes to standard output cannot be resumed, so it reports the interrupted script.
    batch.write(&[json!({ "id": "forever", "code": "import time\ntime.sleep(600)" })]);
    let mut child = batch.command(&[]).spawn().unwrap();
    wait_for_a_script(&child);
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    let status = child.wait().unwrap();
    let done = Done::of(child.wait_with_output().unwrap());
    assert_eq!(
        (status.code(), &done.answer("forever")["status"]),
        (Some(130), &json!("cancelled"))
    );
}

fn wait_for_a_script(child: &Child) {
    let runs = || descendants(child.id()).len() >= 3;
    assert!(eventually(Duration::from_secs(60), runs).is_some());
    // The first processes may belong to the canary, which tests the sandbox. So check again after the canary has ended.
    std::thread::sleep(Duration::from_secs(2));
    assert!(eventually(Duration::from_secs(60), runs).is_some());
}

fn a_script_whose_processes_are_killed_is_run_again_and_then_given_up() {
    let batch = Batch::new(ServerBuilder::new());
    batch.write(&[json!({ "id": "x", "code": "import time\ntime.sleep(600)", "timeout": 600 })]);
    let child = batch.command(&["--timeout", "600"]).spawn().unwrap();
    let mut killed = BTreeSet::new();
    for _ in 0..2 {
        wait_for_a_script(&child);
        for pid in descendants(child.id()) {
            if killed.insert(pid) {
                let _ = kill(Pid::from_raw(pid.try_into().unwrap()), Signal::SIGKILL);
            }
        }
    }
    let done = Done::of(child.wait_with_output().unwrap());
    let answer = done.answer("x");
    assert_eq!(
        (&answer["status"], &answer["passed"]),
        (&json!("infra_error"), &Value::Null),
        "{answer}"
    );
    assert_eq!((&answer["attempt"], done.code), (&json!(2), Some(1)), "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("killed"), "{answer}");
    batch.assert_gone();
}

fn a_disk_that_is_full_loses_no_answer() {
    let batch = Batch::new(ServerBuilder::new());
    let code = |number| format!("print({number})\nprint('x' * 12000)");
    let line = |number| json!({ "id": format!("d{number}"), "code": code(number) });
    batch.write(&(0..20).map(line).collect::<Vec<_>>());
    let results = batch.path("results.jsonl");
    // The file cannot grow beyond 200 KiB. The shell ignores SIGXFSZ, so writes fail instead.
    let full = batch.command(&["--output", path_text(&results)]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 400; exec \"$0\" \"$@\""]);
    command.arg(full.get_program()).args(full.get_args()).env_clear();
    command.envs(full.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let done = Done::of(command.stdin(Stdio::null()).output().unwrap());
    assert!(done.told.contains("the answers cannot be written: File too large"), "{}", done.told);
    assert!(done.told.contains("with --resume to continue"), "{}", done.told);
    assert_eq!(done.code, Some(1));
    // The full file has only complete lines.
    let before = batch.results().len();
    assert!((1..20).contains(&before), "{before}");
    let again = batch.command(&["--output", path_text(&results), "--resume"]).output().unwrap();
    let done = Done::of(again);
    assert_eq!(done.code, Some(0), "{}", done.told);
    let found = batch.results();
    let all: BTreeSet<_> = ids(&found).into_iter().collect();
    assert_eq!((all.len(), found.len()), (20, 20));
    // `/dev/full` fails each write with ENOSPC.
    let done = Done::of(batch.command(&["--output", "/dev/full"]).output().unwrap());
    assert_eq!(done.code, Some(1));
    assert!(done.told.contains("cannot be written: No space left on device"), "{}", done.told);
    batch.assert_gone();
}

fn a_machine_that_runs_out_of_files_judges_no_script_and_goes_on() {
    let batch = Batch::new(ServerBuilder::new().variable("QWED_MCP_WARM", "off"));
    let mut command = batch.builder.command();
    command.args(["run", "--batch", "-", "--workers", "1"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |id: &str| {
        writeln!(lines, "{}", json!({"id": id, "code": "print(1)"})).unwrap();
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["id"], id);
        answer
    };
    assert_eq!(ask("before")["status"], "ok");
    limit_files(&child, "4:");
    for id in ["first", "second"] {
        let answer = ask(id);
        assert_eq!((&answer["status"], &answer["passed"]), (&json!("infra_error"), &Value::Null));
        assert_eq!(answer["attempt"], 2, "{answer}");
    }
    limit_files(&child, "1024:");
    assert_eq!(ask("after")["status"], "ok");
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    batch.assert_gone();
}

fn limit_files(child: &Child, limit: &str) {
    let pid = child.id().to_string();
    let status =
        Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={limit}")]).status();
    assert!(status.expect("prlimit, of util-linux").success());
}

fn a_reader_who_leaves_ends_the_batch() {
    let batch = Batch::new(ServerBuilder::new());
    let mut lines = slow_lines(30);
    lines.push(json!({ "id": "forever", "code": "import time\ntime.sleep(600)" }));
    batch.write(&lines);
    let mut child = batch.command(&["--workers", "2"]).spawn().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    drop(answers);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(141));
    batch.assert_gone();
    // The batch also ends if the reader closes a named pipe.
    let pipe = batch.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let child = batch.command(&["--workers", "2", "--output", path_text(&pipe)]).spawn().unwrap();
    let child = std::cell::RefCell::new(child);
    let mut answers = BufReader::new(fs::File::open(&pipe).unwrap());
    answers.read_line(&mut line).unwrap();
    drop(answers);
    let ended =
        eventually(Duration::from_secs(60), || child.borrow_mut().try_wait().unwrap().is_some());
    if ended.is_none() {
        child.borrow_mut().kill().unwrap();
    }
    assert_eq!(child.borrow_mut().wait().unwrap().code(), Some(141));
    batch.assert_gone();
}

fn an_answer_is_one_line_to_every_reader() {
    let batch = Batch::new(ServerBuilder::new());
    // The input has white space that JSON writers do not produce. Its text has control characters, and characters
    // that some readers treat as a line end.
    let odd = "\u{7f}\u{85}\u{9b}31m\u{2028}\u{2029}\u{202e}";
    let numbers: Vec<u32> = odd.chars().map(u32::from).collect();
    let code = format!("print(''.join(map(chr, {numbers:?})))");
    let (id, code, text) = (json!(format!("a{odd}")), json!(code), json!(odd));
    let meta = format!("[\r{{\"id\":\"b\",\"status\":\"ok\"}}\r,{text}]");
    let line = format!("{{\"id\":{id},\"code\":{code},\"meta\":{meta}}}\n");
    fs::write(batch.path("scripts.jsonl"), line).unwrap();
    let output = batch.command(&[]).output().unwrap();
    let answer = String::from_utf8(output.stdout).unwrap();
    let line = answer.strip_suffix('\n').unwrap();
    assert!(
        !line.contains(|c: char| c.is_control() || odd.contains(c) && !c.is_ascii()),
        "{line:?}"
    );
    let answer: Value = serde_json::from_str(line).unwrap();
    assert_eq!(answer["id"], format!("a{odd}"));
    assert_eq!(answer["meta"], json!([{ "id": "b", "status": "ok" }, odd]));
    assert_eq!(answer["stdout"], odd, "{answer}");
}

fn progress_and_figures_are_there_for_programs() {
    let batch = Batch::new(ServerBuilder::new());
    let summary = batch.path("summary.json");
    let mut lines = slow_lines(4);
    lines.push(json!({ "id": "bad", "code": SYSTEM }));
    let done = batch
        .run(&lines, &["--progress", "json", "--summary", path_text(&summary), "--workers", "2"]);
    assert_eq!(done.code, Some(0), "{}", done.told);
    let progress: Vec<Value> = done
        .told
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = progress.last().unwrap();
    assert_eq!(
        (&last["done"], &last["passed"], &last["infra_error"]),
        (&json!(5), &json!(0), &json!(0))
    );
    let summary: Value = serde_json::from_slice(&fs::read(summary).unwrap()).unwrap();
    assert_eq!(summary["statuses"], json!({ "ok": 4, "blocked": 1 }));
    for (key, expected) in [
        ("lines", json!(5)),
        ("passed", json!(0)),
        ("skipped", json!(0)),
        ("workers", json!(2)),
        ("memory_mb", json!(1024)),
        ("complete", json!(true)),
        ("analysis", json!("default")),
    ] {
        assert_eq!(summary[key], expected, "{key}");
    }
    for key in ["seconds", "scripts_per_second", "p50_ms", "p99_ms"] {
        assert!(summary[key].as_f64().unwrap() > 0.0, "{summary}");
    }
    assert!(done.told.contains("2 workers, up to 1024 MiB each"), "{}", done.told);
    let greedy = Batch::new(ServerBuilder::new().variable("QWED_MCP_MEMORY_MB", "1000000"));
    let done = greedy.run(&lines[4..], &[]);
    assert!(
        done.told.contains("warning: ") && done.told.contains("runs out of memory"),
        "{}",
        done.told
    );
}

fn a_terminal_has_a_bar() {
    let batch = Batch::new(ServerBuilder::new().variable("TERM", "xterm"));
    batch.write(&slow_lines(100));
    let results = batch.path("results.jsonl");
    let mut command = batch.builder.command();
    command.arg("run").arg("--batch").arg(batch.path("scripts.jsonl"));
    command.args(["--output", path_text(&results), "--workers", "2"]);
    let terminal = Terminal::start(&command);
    terminal.wait_for("a second, ");
    let (shown, status) = terminal.finish();
    assert!(status.success() && shown.contains("100 ok"), "{shown}");
    assert_answered_once(&batch.results(), 100);
}
