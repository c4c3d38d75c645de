//! Tests verdicts: the outcomes of runs, the counted checks, and the documents about them.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use qwed_mcp::safety::{analyze, check_plan};

use crate::harness::{CallResult, McpProcess, ServerBuilder, binary, python, root};

tests! {
    needs [Python]:
        a_traceback_is_the_same_as_without_counting,
        the_command_line_reports_what_a_script_verified;
    needs []:
        checks_that_cannot_fail_are_reported_before_a_run;
    needs [Tier3]:
        each_outcome_is_reported_warm_and_cold,
        checks_are_counted_in_loops_threads_and_functions,
        checks_have_the_same_counts_without_counters,
        counts_beside_forged_ones_are_not_used,
        the_model_is_told_if_nothing_was_verified,
        the_model_that_wrote_a_script_is_named,
        the_values_of_a_failed_check_are_reported,
        values_that_do_not_want_to_be_shown_change_nothing,
        kept_values_do_not_keep_objects_alive,
        jobs_and_batches_have_a_verdict,
        the_call_of_a_test_is_a_part_of_its_run,
        a_statement_has_one_line_for_each_check,
        checks_that_hold_with_any_numbers_are_found_by_variants,
        variants_are_a_part_of_the_run;
    needs [Tier3, Packages]:
        documents_pass_the_published_schema_and_resolver;
    needs [Tier3, Packages, Time]:
        labelled_scripts_have_the_outcomes_of_their_labels;
}

/// Scripts, each with its expected outcome.
const OUTCOMES: &[(&str, &str)] = &[
    ("assert sum(range(101)) == 5050", "verified"),
    ("for n in range(1, 50):\n    assert sum(range(n + 1)) == n * (n + 1) // 2", "verified"),
    (
        "def check(value, claim):\n    if value != claim:\n        raise ValueError(value)\ncheck(7 * 8, 56)",
        "verified",
    ),
    ("import sys\nok = 7 * 8 == 56\nsys.exit(0 if ok else 1)", "verified"),
    (
        "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(sum([1, 2]), 3)\n\
         unittest.main()",
        "verified",
    ),
    (
        "failures = [n for n in range(9) if n * n > 80]\nif failures:\n    raise SystemExit(1)",
        "verified",
    ),
    (
        "import sys\ndef main():\n    return 0 if 7 * 8 == 56 else 1\nif __name__ == '__main__':\n    sys.exit(main())",
        "verified",
    ),
    ("assert sum(range(101)) == 5051", "refuted"),
    ("import sys\nif 7 * 8 != 54:\n    sys.exit('no')", "refuted"),
    ("try:\n    assert 7 * 8 == 54\nexcept AssertionError:\n    raise SystemExit(3)", "refuted"),
    ("print('VERIFIED')", "nothing_checked"),
    ("def test():\n    assert 7 * 8 == 54\nprint('ok')", "nothing_checked"),
    ("assert (7 * 8 == 54, 'message')", "vacuous"),
    ("try:\n    assert 7 * 8 == 54\nexcept AssertionError:\n    print('no')", "vacuous"),
    ("claim = 54\nassert claim == 54", "vacuous"),
    // A caught exception is control flow and not a check, unless it is an `AssertionError`.
    (
        "def fail():\n    raise ValueError('no')\ntry:\n    fail()\nexcept ValueError:\n    pass",
        "nothing_checked",
    ),
    (
        "def fail():\n    raise AssertionError\ntry:\n    fail()\nexcept AssertionError:\n    pass",
        "vacuous",
    ),
    ("odd = [n for n in range(2, 1) if n % 2]\nassert all(n < 9 for n in odd)", "vacuous"),
    ("raise KeyError('unrelated')", "inconclusive"),
    ("import random\nassert random.random() < 2 ** 3", "inconclusive"),
    ("import os\nos.system('id')", "blocked"),
    // Only 0 and `None` mean success, although the operating system reports 256 as 0.
    ("import sys\nok = 7 * 8 == 56\nsys.exit(0 if ok else 256)", "verified"),
    ("import sys\nok = 7 * 8 == 54\nsys.exit(0 if ok else 256)", "vacuous"),
    ("import sys\nok = 7 * 8 == 54\nsys.exit(not ok)", "refuted"),
    ("import sys\nok = 7 * 8 == 54\nsys.exit(None if ok else 'no')", "refuted"),
    (
        "import sys\nok = 7 * 8 == 54\ntry:\n    sys.exit(0 if ok else 1)\nexcept SystemExit:\n    print('done')",
        "vacuous",
    ),
    (
        "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\nclass T(unittest.TestCase):\n    \
         def test(self):\n        self.assertEqual(sum([1, 2]), 4)\nunittest.main()",
        "vacuous",
    ),
];

fn verification(meta: &Value) -> &Value {
    &meta["qwed.ai/verification"]
}

fn warm() -> McpProcess {
    let mut server = ServerBuilder::new().warm("math").connect();
    server.wait_until_warm();
    server
}

fn each_outcome_is_reported_warm_and_cold() {
    let (mut warm, mut cold) = (warm(), ServerBuilder::new().connect());
    for (code, expected) in OUTCOMES {
        let results = [warm.execute(code), cold.execute(code), warm.execute(code)];
        let [one, other, again] = &results;
        for result in &results {
            assert_eq!(verification(&result.meta)["outcome"], *expected, "{code}: {result:?}");
        }
        let digest =
            |meta: &Value| verification(meta)["document_digest"].as_str().unwrap().to_owned();
        // `unittest` prints durations, but to standard error, which the digest does not cover.
        assert_eq!(digest(&one.meta), digest(&other.meta), "{code}");
        assert_eq!(digest(&one.meta), digest(&again.meta), "{code}");
        let starts = [one, other].map(|result| result.execution()["warm"].clone());
        if *expected != "blocked" {
            assert_eq!(starts, [json!(true), json!(false)], "{code}");
        }
    }
}

fn checks_are_counted_in_loops_threads_and_functions() {
    let mut server = warm();
    let code = "\
import threading

def square(n):
    assert n >= 0, n
    return n * n

for n in range(100_000):
    assert square(n) == n ** 2
threads = [threading.Thread(target=square, args=(n,)) for n in range(5)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if square(3) != 9:
    raise SystemExit(1)
def never():
    assert square(4) == 17
";
    let result = server.execute(code);
    let checks = verification(&result.meta)["checks"].as_array().unwrap().clone();
    let found: Vec<_> = checks
        .iter()
        .map(|check| {
            (
                check["line"].as_u64().unwrap(),
                check["state"].as_str().unwrap(),
                check["times"].as_u64().unwrap(),
            )
        })
        .collect();
    let expected =
        [(4, "held", 100_006), (8, "held", 100_000), (14, "held", 1), (17, "not_reached", 0)];
    assert_eq!(found, expected, "{result:?}");
    assert_eq!(checks[1]["text"], "square(n) == n ** 2");
}

fn the_model_is_told_if_nothing_was_verified() {
    let tuple = "assert (7 * 8 == 54, 'message')";
    let caught = "try:\n    assert 7 * 8 == 54\nexcept AssertionError:\n    print('no')";
    let many = "assert 1 == 1\n".repeat(5);
    let server =
        |note: &str| ServerBuilder::new().variable("QWED_MCP_VERDICT_NOTE", note).connect();
    let (mut usual, mut all, mut off) =
        (ServerBuilder::new().connect(), server("all"), server("off"));
    for (code, expected) in [
        (
            tuple,
            "Nothing was verified: `(7 * 8 == 54, 'message')` (line 1) cannot fail: it asserts a tuple, which is always \
             true; remove the parentheses.",
        ),
        (
            caught,
            "Nothing was verified: `7 * 8 == 54` (line 2) failed, and the script ended successfully.",
        ),
    ] {
        for server in [&mut usual, &mut all] {
            assert_eq!(server.execute(code).texts[1..], [expected], "{code}");
        }
        assert_eq!(off.execute(code).texts.len(), 1, "{code}");
    }
    assert!(usual.execute(&many).texts[1].ends_with("; and 2 more."));
    for code in ["assert 7 * 8 == 56", "print(7 * 8)"] {
        assert_eq!(usual.execute(code).texts.len(), 1, "{code}");
    }
    assert_eq!(
        all.execute("print(1)").texts[1..],
        ["Nothing was verified: no check was executed."]
    );
    let job = usual.place(tuple);
    assert!(usual.wait_for_job(&job).texts[1].starts_with("Nothing was verified: "));
    // Python cannot build a syntax tree of this depth.
    let deep = "-".repeat(1_500);
    let deep = format!("x = {deep}1\nfor _ in range(1):\n    assert x == 1\nprint('end')");
    let result = usual.execute(&deep);
    assert!(result.text().contains("end"), "{result:?}");
    assert_eq!(verification(&result.meta)["outcome"], "nothing_checked");
}

fn the_model_that_wrote_a_script_is_named() {
    let mut server = ServerBuilder::new().connect();
    for code in ["assert 7 * 8 == 56", "import os\nos.system('id')"] {
        for model in [None, Some("claude")] {
            let mut params =
                json!({ "name": "execute_python_code", "arguments": { "code": code } });
            if let Some(model) = model {
                params["_meta"] = json!({ "qwed.ai/model": model });
            }
            let reply = server.request("tools/call", &params);
            let verification = verification(&reply["result"]["_meta"]);
            let formalization = &verification["document"]["object"]["formalization"];
            assert_eq!(formalization.get("translator").and_then(Value::as_str), model, "{reply}");
        }
    }
}

fn the_values_of_a_failed_check_are_reported() {
    let cases = [
        (
            "total = 14499.47\nassert total == 14499.48",
            "line 2: total == 14499.48; total = 14499.47",
        ),
        (
            "def f(n):\n    return n * 3\nassert f(2) == 7 and f(3) > 0",
            "line 3: f(2) == 7 and f(3) > 0; f(2) = 6",
        ),
        (
            "def fail(text):\n    raise SystemExit(text)\ndef main():\n    got = {'a': [1, 2]}\n    \
             if sum(got['a']) != 4:\n        print('no')\n        fail('x')\nmain()",
            "line 5: sum(got['a']) != 4; sum(got['a']) = 3; got = {'a': [1, 2]}",
        ),
        (
            "try:\n    a = 3\n    assert not a == 3\nexcept AssertionError:\n    raise SystemExit(3)",
            "line 3: not a == 3; a = 3",
        ),
        (
            "for i in range(5):\n    assert (i + 1) * 2 < 6, i",
            "line 2: (i + 1) * 2 < 6; (i + 1) * 2 = 6; i = 2",
        ),
        (
            "import math\nx = 0.5\nassert math.isclose(math.sin(x) * 2, 1)",
            "line 3: math.isclose(math.sin(x) * 2, 1); math.sin(x) * 2 = 0.958851077208406; x = 0.5",
        ),
        (
            "s = '\\x1b[2J\\n' + 'ü' * 200\nn = 7 ** 5000\nassert s == n",
            &format!(
                "line 3: s == n; s = '\\\\x1b[2J\\\\n{}…; n = an integer of 14037 bits",
                "ü".repeat(110)
            )
            .replace("\\\\", "\\"),
        ),
        (
            "from collections import deque\nd = deque(range(10 ** 6))\nassert d == [0]",
            "line 3: d == [0]; d = deque of 1000000 items",
        ),
        (
            "xs = list(range(10 ** 6))\nassert len(xs) == 5",
            "line 2: len(xs) == 5; xs = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, \
             17, 18, 19, ... (1000000 items)]",
        ),
    ];
    let (mut warm, mut cold) = (warm(), ServerBuilder::new().connect());
    let mut off = ServerBuilder::new().variable("QWED_MCP_VERDICT_NOTE", "off").connect();
    for (code, expected) in cases {
        for server in [&mut warm, &mut cold] {
            assert_eq!(server.execute(code).texts[1..], [expected], "{code}");
        }
        assert_eq!(off.execute(code).texts.len(), 1, "{code}");
    }
    // No values are reported if the condition has no variable part, if no check failed, or if the failed check did not
    // end the script.
    for code in [
        "assert 4 == 3",
        "x = 1\nassert x + 1 == 2\nraise ValueError(x)",
        "x = 1\ntry:\n    assert x == 2\nexcept AssertionError:\n    pass\nraise KeyError",
    ] {
        let result = warm.execute(code);
        assert!(result.texts[1..].iter().all(|text| !text.starts_with("line ")), "{result:?}");
    }
    let job = warm.place(cases[0].0);
    assert_eq!(warm.wait_for_job(&job).texts[1..], [cases[0].1]);
    let checks = verification(&cold.execute(cases[0].0).meta)["checks"].clone();
    assert_eq!(checks[0]["compared"], json!([{ "text": "total", "value": "14499.47" }]));
}

fn values_that_do_not_want_to_be_shown_change_nothing() {
    let (mut warm, mut cold) = (warm(), ServerBuilder::new().connect());
    for (body, expected) in [
        ("return 'E'", Some("e = E")),
        ("print('loud')\n        return 'E'", Some("e = E")),
        ("return 'E' * 10 ** 8", Some("e = EEE")),
        ("return 'a\\0b\\x1b[2J\\udc80'", Some("e = a\\0b [2J?")),
        ("while True: pass", None),
        ("raise BaseException", None),
        ("return 3", None),
        ("return object.__repr__(self)", None),
        ("return repr(self)", None),
        ("raise SystemExit(5)", None),
    ] {
        let class = format!(
            "class E:\n    def __repr__(self):\n        {body}\n    def __eq__(self, other):\n        return False\n"
        );
        let code = format!("{class}e = E()\nnumber = 3\nprint('before')\nassert e == number");
        for server in [&mut warm, &mut cold] {
            let result = server.execute(&code);
            assert!(
                result.text().starts_with("STDOUT:\nbefore\n\nSTDERR:\n"),
                "{body}: {result:?}"
            );
            assert_eq!(result.execution()["exit_code"], 1, "{body}: {result:?}");
            let note = &result.texts[1];
            assert!(note.ends_with("number = 3") && !note.contains('\x1b'), "{body}: {note}");
            let shown = expected.is_none_or(|expected| note.contains(expected));
            assert!(shown && note.len() < 400, "{body}: {note}");
            assert_eq!(note.contains("; e = "), expected.is_some(), "{body}: {note}");
        }
    }
}

/// If all checks are quick and in the body of the module, their counts follow from the line at which the script ends. A
/// class makes the same script run with counters.
fn checks_have_the_same_counts_without_counters() {
    let (mut warm, mut cold) = (warm(), ServerBuilder::new().connect());
    for body in [
        "print(xs)",
        "assert (sum(xs)\n  == 7), f'{xs}'\nassert xs == 1",
        // The message, the condition or another statement raises an exception that is not a failed `assert`.
        "assert len(xs) == 3, xs['a']\nassert xs == 1",
        "assert xs[5] == 3\nassert xs == 1",
        "1 / 0\nassert xs == 1",
        "def f():\n    raise AssertionError('no')\nf()\nassert xs == 1",
        "raise SystemExit(0)\nassert xs == 1",
        "import sys\nsys.exit('no')\nassert xs == 1",
        "def f():\n    f()\nf()\nassert xs == 1",
        "assert xs[0] == 7, {}['b']",
        "from fractions import Fraction as F\nassert F(xs[0], 3) * 2 == F(1, 2)",
        "from collections import Counter, defaultdict\nd = defaultdict(lambda: print('n'))\nd[4] = F = Counter(xs)\nassert d[4][2] == d[5]",
        // The condition raises an exception before it is false.
        "xs = [iter([1, 'a', 2])]\nassert sum(xs[0]) == 3\nassert xs == 1",
    ] {
        let code = format!("xs = [1, 2]\nassert len(xs) == 2\nassert xs[0] == 1, 'no'\n{body}\n");
        let counted = format!("{code}class Last: pass\n");
        let plans = [&code, &counted].map(|code| check_plan(&analyze(code).unwrap().checks));
        assert_eq!(plans.map(|plan| plan.contains(" i")), [true, false], "{code}");
        for server in [&mut warm, &mut cold] {
            let [one, other] = [&code, &counted].map(|code| server.execute(code));
            let checks = |result: &CallResult| verification(&result.meta)["checks"].clone();
            assert_eq!(one.texts, other.texts, "{code}");
            assert_eq!(checks(&one), checks(&other), "{code}");
            assert_eq!(checks(&one)[1]["state"], "held", "{code}");
        }
    }
    // To report its values, a failed check is executed again. This must not have effects, take long, or change the
    // values.
    for (code, hidden) in [
        ("xs = iter([1, 2])\ntotal = 5\nassert sum(xs) == total", "sum"),
        ("xs = [iter([1, 2])]\nassert sum(xs[0]) == 5", "sum"),
        ("sum = lambda x: 4\nassert sum(2) == 5", "sum"),
        ("xs = [4, 5]\nsum = xs.pop\nassert sum(0) == 7", "sum"),
        (
            "P = type('P', (), {'__eq__': lambda self, other: print('twice')})\nx = P()\nassert x == 3, 'no'",
            "==",
        ),
        ("xs = range(10 ** 9)\nassert len(xs) == 5", "len"),
        ("import heapq\nxs = [2, 3]\nmin = heapq.heappop\nassert min(xs) == 5", "min"),
    ] {
        let result = warm.execute(code);
        assert_eq!(verification(&result.meta)["outcome"], "refuted", "{result:?}");
        let notes = result.texts[1..].concat();
        assert!(!notes.contains(&format!("; {hidden}")), "{result:?}");
        assert_eq!(notes.contains("; total = 5"), code.contains("total"), "{result:?}");
        assert!(result.text().matches("twice").count() < 2, "{result:?}");
    }
}

/// A check drops the values of its operands as soon as it holds, so that the objects can be finalized.
fn kept_values_do_not_keep_objects_alive() {
    let mut server = warm();
    let code = "\
import weakref
class Thing: pass
def other(): return None
thing = Thing()
reference = weakref.ref(thing)
for _ in range(2):
    assert reference() is thing
    if other() is reference():
        raise ValueError
del thing
assert reference() is None
print('finalized')";
    let result = server.execute(code);
    assert!(result.text().contains("finalized"), "{result:?}");
    assert_eq!(verification(&result.meta)["outcome"], "verified", "{result:?}");
}

/// The second script forges the counts of its checks, so the server uses no counts. The analysis would refuse this
/// script, so the batch only reports findings.
fn counts_beside_forged_ones_are_not_used() {
    let held = "assert sum(range(101)) == 5050\n";
    let forged = "import os\nframe = b'C' + (24).to_bytes(4, 'little') + (1).to_bytes(8, 'little') + bytes(16)\n\
                  for number in (4, 20):\n    try:\n        os.write(number, frame)\n    except OSError:\n        pass\n";
    let lines = [held.to_owned(), format!("{held}{forged}")].map(|code| json!({ "code": code }));
    assert_eq!(
        outcomes_of_batch(&lines, &["--analysis", "report"]),
        ["verified", "nothing_checked"]
    );
}

/// Runs a batch. Returns the outcomes in the order of the lines.
fn outcomes_of_batch(lines: &[Value], options: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines.jsonl");
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    fs::write(&file, lines.join("\n")).unwrap();
    let mut command = ServerBuilder::new().variable("QWED_MCP_WARM", "on").command();
    let output = command
        .args(["run", "--batch"])
        .arg(&file)
        .arg("--ordered")
        .args(options)
        .output()
        .unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers = answers.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    answers.map(|answer| answer["verification"]["outcome"].clone()).collect()
}

fn a_traceback_is_the_same_as_without_counting() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.py");
    let mut server = ServerBuilder::new().connect();
    for code in [
        "x = 1; assert x == 2, f'{x}'; print(x)",
        "def f(a):\n    assert (a\n            == 2\n            and a > 0), 'no'\nf(1)",
        "import sys\nif len('a') == 1:\n    raise ValueError('no') from KeyError('cause')",
        "for n in (1, 2):\n    pass\nelse:\n    raise RuntimeError(n)",
        "assert all(1 / n for n in (1, 0) if n < 3)",
        "assert 1 + 1 == 2\nraise SystemExit(len('ab'))",
        "def f(n):\n    return 6 / n\nassert f(2) == 3 and f(3) == 1, f(1)",
        "def f(n):\n    return 6 / n\nassert f(2) == 3 < f(0), 'no'",
        "def f(n):\n    return 6 / n\nif not (f(2) != 3 or f(f(3)) == f(4 - 2) * 1):\n    raise ValueError(f(1))",
        "import math\nassert math.isclose(math.sin(1) * 2,\n    math.cos(1)), 'no'",
        "xs = [1, 2]\nassert xs[0] + xs[1] == xs[5]",
        "class E(Exception): pass\ntry:\n    assert 1 + 1 == 3\nexcept AssertionError as e:\n    raise E('x') from e",
    ] {
        fs::write(&file, code).unwrap();
        let output = Command::new(python()).arg(&file).stdin(Stdio::null()).output().unwrap();
        let expected = String::from_utf8(output.stderr).unwrap();
        let expected = expected.replace(file.to_str().unwrap(), "<verification>");
        let result = server.execute(code);
        let text = result.texts.concat();
        assert!(text.contains(expected.trim_end()), "{code}\n{expected}\n{text}");
    }
}

fn jobs_and_batches_have_a_verdict() {
    let mut server = warm();
    let job = server.place("assert sum(range(101)) == 5050");
    let result = server.wait_for_job(&job);
    assert_eq!(verification(&result.meta)["outcome"], "verified", "{result:?}");
    let lines = ["assert 7 * 8 == 56", "assert 7 * 8 == 54"].map(|code| json!({ "code": code }));
    assert_eq!(outcomes_of_batch(&lines, &[]), ["verified", "refuted"]);
}

/// The result of a call can differ between runs because of the call alone. Variants do not evaluate the call, so they
/// show nothing about checks in it.
fn the_call_of_a_test_is_a_part_of_its_run() {
    let code = "import time\nassert len(str(time)) > 9\ndef f(x):\n    assert x > 5\n    return 1";
    let lines = ["f(time.time())", "f(7)"]
        .map(|call| json!({ "code": code, "tests": [{ "call": call, "value": 1 }] }));
    for options in [&[][..], &["--vacuity"]] {
        assert_eq!(outcomes_of_batch(&lines, options), ["inconclusive", "verified"], "{options:?}");
    }
}

fn a_statement_has_one_line_for_each_check() {
    let mut server = warm();
    let text = r"text = '\n'.join(['a', 'b' + chr(92) + 'd', ''])";
    let code = r#"
assert (
    text == r"""a
b\d
"""  # doesn't end here
)
assert len(text) == len('''\
a
b\\d
''')
"#;
    let mut run = |checks: &str| {
        let result = server.execute(&format!("{text}\n{checks}"));
        let verification = verification(&result.meta).clone();
        assert_eq!(verification["outcome"], "verified", "{result:?}");
        verification["document"]["object"]["formal_statement"].as_str().unwrap().to_owned()
    };
    let statement = run(code);
    let lines = [r#"text == """a\nb\\d\n""""#, r"len(text) == len('''a\nb\\d\n''')"];
    assert_eq!(statement, lines.join("\n"));
    // The lines of the formal statement are equivalent to the checks, so these lines also hold as checks.
    assert_eq!(run(&lines.map(|line| format!("assert {line}")).join("\n")), statement);
}

fn documents_pass_the_published_schema_and_resolver() {
    let mut server = warm();
    let mut documents = Vec::new();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let more = [
        "from sympy import symbols, expand\nx = symbols('x')\nassert expand((x + 1) ** 2) == x ** 2 + 2 * x + 1",
        "from z3 import Int, Solver, unsat\nx = Int('x')\ns = Solver()\ns.add(x * x < 0)\nassert s.check() == unsat",
        "text = 'é€😀\\u2028'\nassert len(text + '') == 4, 'ünï'",
    ];
    for code in OUTCOMES.iter().map(|(code, _)| code).chain(&more) {
        let result = server.execute(code);
        let verification = verification(&result.meta);
        *counts.entry(verification["outcome"].as_str().unwrap().to_owned()).or_default() += 1;
        documents.push(verification["document"].clone());
    }
    // A cancelled job also has a document, although the document contains nothing about a run.
    let code = json!({ "code": "import time\ntime.sleep(60)", "background": true });
    let request = server.start_call("execute_python_code", &code);
    let job = server.reply(request)["result"]["_meta"]["qwed.ai/job"]["job_id"].clone();
    server.cancel(request);
    let result = server.wait_for_job(job.as_str().unwrap());
    assert_eq!(verification(&result.meta)["outcome"], "inconclusive");
    documents.push(verification(&result.meta)["document"].clone());
    *counts.entry("inconclusive".to_owned()).or_default() += 1;
    let [total, verified, changes] = resolve(&documents);
    assert_eq!([total, verified], [counts.values().sum(), counts["verified"]], "{counts:?}");
    assert!(changes > 100, "{changes}");
}

/// Validates documents with the published schema and the published resolver. Returns three numbers: all documents, the
/// verified documents, and the changes that the resolver detected.
pub(crate) fn resolve(documents: &[Value]) -> [u64; 3] {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("documents.jsonl");
    let lines: Vec<String> = documents.iter().map(Value::to_string).collect();
    fs::write(&file, lines.join("\n")).unwrap();
    let script = root().join("tests/verdict/resolve.py");
    let output = Command::new(python()).arg(script).arg(&file).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let numbers = printed.split_whitespace().map(|number| number.parse().unwrap());
    numbers.collect::<Vec<_>>().try_into().unwrap()
}

fn the_command_line_reports_what_a_script_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (script, document) = (folder.path().join("script.py"), folder.path().join("document.json"));
    let run = |code: &str, options: &[&str]| {
        fs::write(&script, code).unwrap();
        let mut command = ServerBuilder::new().command();
        let output = command.arg("run").args(options).arg(&script).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (held, nothing) = ("assert 7 * 8 == 56", "print(7 * 8)");
    assert_eq!(run(held, &["--verdict"]), (0, "note: verified: 1 check held\n".to_owned()));
    assert_eq!(run(nothing, &["--verdict"]), (0, "note: nothing was checked\n".to_owned()));
    // Without a terminal, the verdict is not printed by default.
    assert_eq!(run(held, &[]), (0, String::new()));
    assert_eq!(run(held, &["--require-verified"]).0, 0);
    assert_eq!(run(nothing, &["--require-verified"]).0, 1);
    assert_eq!(run("raise SystemExit(7)", &["--require-verified"]).0, 7);
    let values = "\nnote: refuted: line 2: x == 54; x = 56\n";
    // The verdict begins on a new line, even if the script's output does not end with a line end.
    let open = "import sys\nsys.stderr.write('text')\nassert 7 * 8 == 56";
    let one_line = "text\nnote: verified: 1 check held\n".to_owned();
    assert_eq!(run(open, &["--verdict"]), (0, one_line));
    assert_eq!(run(open, &[]), (0, "text".to_owned()));
    let refuted = run("x = 7 * 8\nassert x == 54", &["--verdict"]);
    assert!(refuted.0 == 1 && refuted.1.ends_with(values), "{refuted:?}");
    run(held, &["--verification", document.to_str().unwrap()]);
    let written: Value = serde_json::from_slice(&fs::read(&document).unwrap()).unwrap();
    assert_eq!(
        (&written["verdict"], &written["spec_version"]),
        (&json!("VERIFIED"), &json!("1.0"))
    );
    // A file that cannot be written does not hide the result. No old document remains.
    let output = ServerBuilder::new()
        .command()
        .args(["run", "--json", "--verification", "/dev/full"])
        .arg(&script)
        .output()
        .unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &result["isError"]), (Some(125), &json!(false)));
    let mut absent = ServerBuilder::new().command();
    absent.args(["run", "--verification"]).arg(&document).arg("absent.py").output().unwrap();
    assert_eq!(fs::read(&document).unwrap(), b"");
    // A file that the run reads is not changed.
    let input = format!("data={}", script.display());
    for reading in [&["--stdin", script.to_str().unwrap()][..], &["--input", &input], &[]] {
        let (code, error) =
            run(held, &[reading, &["--verification", script.to_str().unwrap()]].concat());
        assert!(code == 125 && error.contains("the run reads this file"), "{code} {error}");
        assert_eq!(fs::read_to_string(&script).unwrap(), held);
    }
    let mut piped = ServerBuilder::new().command();
    piped.args(["run", "--verification", script.to_str().unwrap(), "-"]);
    let output = piped.stdin(fs::File::open(&script).unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(fs::read_to_string(&script).unwrap(), held);
    let nowhere = folder.path().join("missing/document.json");
    let (code, error) = run(held, &["--verification", nowhere.to_str().unwrap()]);
    assert!(code == 125 && error.contains("could not be written"), "{code} {error}");
}

fn checks_that_cannot_fail_are_reported_before_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let check = |code: &str, options: &[&str]| {
        let file = folder.path().join("script.py");
        fs::write(&file, code).unwrap();
        let mut command = Command::new(binary());
        let output = command
            .current_dir(folder.path())
            .arg("check")
            .args(options)
            .arg("script.py")
            .output()
            .unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let vacuous = "assert (7 * 8 == 54, 'message')";
    let (code, text) = check(vacuous, &[]);
    assert!(
        code == 0 && text.contains("script.py:1: note: ") && text.contains("[check/tuple]"),
        "{text}"
    );
    let reported: Value = serde_json::from_str(&check(vacuous, &["--format", "json"]).1).unwrap();
    assert_eq!(reported["files"][0]["checks"][0]["vacuous"], "tuple", "{reported}");
    let sarif: Value = serde_json::from_str(&check(vacuous, &["--format", "sarif"]).1).unwrap();
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "check/tuple", "{sarif}");
    for (script, expected) in [(vacuous, 1), ("print(1)", 1), ("assert 7 * 8 == 56", 0)] {
        assert_eq!(check(script, &["--require-check"]).0, expected, "{script}");
    }
}

/// Scripts with a check that holds even if the numbers in the script are changed. The analysis does not detect this.
const UNCHANGED: &[&str] = &[
    "import re\nclaim = 8336000\ntext = f'the city had {claim:,} inhabitants'\n\
     found = int(re.search(r'[\\d,]+', text).group().replace(',', ''))\nassert found == claim",
    "memo = {(10, 4): 215}\ndef choose(n, k):\n    if (n, k) in memo:\n        return memo[n, k]\n    \
     return choose(n - 1, k - 1)\nassert choose(10, 4) == 215",
];

fn checks_that_hold_with_any_numbers_are_found_by_variants() {
    let honest = [
        "assert sum(range(101)) == 5050",
        "import re\ntext = 'the city had 8,336,000 inhabitants'\n\
         assert int(re.search(r'[\\d,]+', text).group().replace(',', '')) == 8336000",
        // A claim about all elements of a range holds for other ranges too, but is not vacuous.
        "for n in range(1, 60):\n    assert sorted(range(n, 0, -1)) == list(range(1, n + 1))",
    ];
    let lines: Vec<Value> =
        UNCHANGED.iter().chain(&honest).map(|code| json!({ "code": code })).collect();
    assert_eq!(outcomes_of_batch(&lines, &[]), ["verified"; 5]);
    let with_variants = ["vacuous", "vacuous", "verified", "verified", "verified"];
    assert_eq!(outcomes_of_batch(&lines, &["--vacuity"]), with_variants);
}

/// A variant is a run with changed numbers. A variant prints nothing, and gets the same standard input as the script.
fn variants_are_a_part_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let (script, stdin) = (folder.path().join("a.py"), folder.path().join("stdin"));
    let code = "import re, sys\nclaim = 3 * int(sys.stdin.readline())\nprint('once')\n\
                text = f'{claim} people'\nassert int(re.search('[0-9]+', text).group()) == claim\n";
    fs::write(&script, code).unwrap();
    fs::write(&stdin, "4096\n").unwrap();
    let run = |options: &[&str]| {
        let mut command = ServerBuilder::new().command();
        command.arg("run").arg(&script).args(["--verdict", "--stdin"]).arg(&stdin).args(options);
        command.stdin(Stdio::null()).output().unwrap()
    };
    let output = run(&["--vacuity"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "once\n");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("these checks cannot fail: line 5"), "{stderr}");
    let output = run(&[]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("verified: 1 check held"), "{stderr}");
}

fn labelled_scripts_have_the_outcomes_of_their_labels() {
    let corpus = fs::read_to_string(root().join("tests/verdict/corpus.jsonl")).unwrap();
    let entries: Vec<Value> =
        corpus.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lines: Vec<Value> = entries.iter().map(|entry| json!({ "code": entry["code"] })).collect();
    // The minimal number of correct outcomes for each label. On a busy machine, a few scripts may time out.
    for (options, vacuous_min, verified_min) in
        [(&[][..], 278, 276), (&["--vacuity"][..], 300, 272)]
    {
        let outcomes = outcomes_of_batch(&lines, options);
        let count = |label: &str, is_right: &dyn Fn(&Value) -> bool| {
            let pairs = entries.iter().zip(&outcomes).filter(|(entry, _)| entry["label"] == label);
            pairs.filter(|(_, outcome)| is_right(outcome)).count()
        };
        let vacuous = count("vacuous", &|outcome| outcome != "verified");
        let verified = count("verified", &|outcome| outcome == "verified");
        let told = format!("{options:?}: {vacuous} of 340 vacuous, {verified} of 280 honest");
        assert!(vacuous >= vacuous_min && verified >= verified_min, "{told}");
    }
}
