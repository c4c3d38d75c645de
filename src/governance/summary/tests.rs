use serde_json::{Value, json};

use super::*;

/// Reports of real runs of pytest, each with the last line of pytest's output. `tests/reports/record.py` creates them.
const RECORDED: [(&str, &str); 6] = [
    (recorded::OUTCOMES, include_str!("../../../tests/reports/outcomes.txt")),
    (recorded::COLLECTION, include_str!("../../../tests/reports/collection.txt")),
    (recorded::PASSING, include_str!("../../../tests/reports/passing.txt")),
    (recorded::NOTHING, include_str!("../../../tests/reports/nothing.txt")),
    (recorded::REFUSED, include_str!("../../../tests/reports/refused.txt")),
    (recorded::SUBTESTS, include_str!("../../../tests/reports/subtests.txt")),
];

mod recorded {
    pub(super) const OUTCOMES: &str = include_str!("../../../tests/reports/outcomes.jsonl");
    pub(super) const COLLECTION: &str = include_str!("../../../tests/reports/collection.jsonl");
    pub(super) const PASSING: &str = include_str!("../../../tests/reports/passing.jsonl");
    pub(super) const NOTHING: &str = include_str!("../../../tests/reports/nothing.jsonl");
    pub(super) const REFUSED: &str = include_str!("../../../tests/reports/refused.jsonl");
    pub(super) const SUBTESTS: &str = include_str!("../../../tests/reports/subtests.jsonl");
}

fn summary(report: &str) -> TestSummary {
    TestSummary::from_report(report.as_bytes()).unwrap()
}

fn failure(explanation: &str, place: &str) -> Value {
    json!({ "kind": "failed", "name": "test_a.py::t", "reason": "x", "explanation": explanation,
            "place": place })
}

fn last(passed: u32, failed: u32, errors: u32, skipped: u32, xfailed: u32) -> Value {
    json!({ "passed": passed, "failed": failed, "errors": errors, "skipped": skipped,
            "xfailed": xfailed, "duration_s": 0.421 })
}

fn report(lines: &[Value]) -> String {
    lines.iter().fold(String::new(), |report, line| report + &line.to_string() + "\n")
}

/// Returns the number before one of `words` in `line`, the last line of pytest's output.
fn printed(line: &str, words: &[&str]) -> u64 {
    let parts: Vec<&str> = line.split([' ', ',']).filter(|part| !part.is_empty()).collect();
    let counts = parts.windows(2).filter(|pair| words.contains(&pair[1]));
    counts.filter_map(|pair| pair[0].parse::<u64>().ok()).sum()
}

fn counts(summary: &TestSummary) -> [u64; 5] {
    [summary.passed, summary.failed, summary.errors, summary.skipped, summary.xfailed]
}

#[test]
fn the_counts_are_those_that_pytest_prints() {
    for (report, line) in RECORDED {
        let expected = [
            printed(line, &["passed", "xpassed"]),
            printed(line, &["failed"]),
            printed(line, &["error", "errors"]),
            printed(line, &["skipped"]),
            printed(line, &["xfailed"]),
        ];
        assert_eq!(counts(&summary(report)), expected, "{line}");
    }
    assert_eq!(counts(&summary(recorded::OUTCOMES)), [8, 7, 4, 2, 4]);
}

#[test]
fn failures_are_named_as_pytest_takes_them() {
    let expected = [
        (FailureKind::Failed, "tests/test_outcomes.py::test_fails"),
        (FailureKind::SetupError, "tests/test_outcomes.py::test_setup_error"),
        (FailureKind::TeardownError, "tests/test_outcomes.py::test_teardown_error"),
        (FailureKind::Failed, "tests/test_outcomes.py::test_fails_and_teardown_error"),
        (FailureKind::TeardownError, "tests/test_outcomes.py::test_fails_and_teardown_error"),
        (FailureKind::TeardownError, "tests/test_outcomes.py::test_skip_and_teardown_error"),
        (FailureKind::Failed, "tests/test_outcomes.py::test_xpasses_strictly"),
        (FailureKind::Failed, "tests/test_outcomes.py::test_parametrized[2]"),
        (FailureKind::Failed, "tests/test_outcomes.py::TestSquare::test_side"),
        (FailureKind::Failed, "tests/test_outcomes.py::UnitTest::test_equal"),
        (FailureKind::Failed, "tests/test_outcomes.py::test_raises_something_strange"),
    ];
    let outcomes = summary(recorded::OUTCOMES);
    let found: Vec<(FailureKind, &str)> =
        outcomes.failures.iter().map(|it| (it.kind, it.name.as_str())).collect();
    assert_eq!(found, expected);
    assert!(outcomes.failures.iter().all(|it| !it.sandbox));
    let names = summary(recorded::COLLECTION).failures.into_iter().map(|it| (it.kind, it.name));
    let expected = ["tests/test_import.py", "tests/test_syntax.py"]
        .map(|name| (FailureKind::CollectionError, name.to_owned()));
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

#[test]
fn a_failure_is_told_with_its_lines() {
    let summary = summary(recorded::OUTCOMES);
    let expected = TestFailure {
        name: "tests/test_outcomes.py::test_fails".to_owned(),
        kind: FailureKind::Failed,
        message: "AssertionError: a < b & c\nassert {'x': 1} == {'x': 2}\n  \n  \
                  Differing items:\n  {'x': 1} != {'x': 2}\n  Use -v to get more diff"
            .to_owned(),
        assertion_lines: [
            "E       AssertionError: a < b & c",
            "E       assert {'x': 1} == {'x': 2}",
            "E         Differing items:",
            "E         {'x': 1} != {'x': 2}",
            "E         Use -v to get more diff",
        ]
        .map(str::to_owned)
        .to_vec(),
        sandbox: false,
    };
    assert_eq!(summary.failures[0], expected);
    assert!(summary.failures.last().unwrap().message.contains("é"));
}

#[test]
fn of_an_explanation_the_marked_lines_are_told() {
    // pytest does not produce this explanation, but tests can forge it.
    let explanation =
        "    assert f() == 1\nE   assert 2 == 1\nEE\n> x\nPermissionError: no\nE    \nE";
    let summary = summary(&report(&[failure(explanation, ""), last(0, 1, 0, 0, 0)]));
    assert_eq!(summary.failures[0].assertion_lines, ["E   assert 2 == 1"]);
    assert!(!summary.failures[0].sandbox);
}

#[test]
fn tests_that_were_left_out_are_counted() {
    let with = |mut counts: Value, deselected: u32| {
        counts["deselected"] = json!(deselected);
        summary(&report(&[counts])).text()
    };
    assert_eq!(with(last(1, 0, 0, 0, 0), 1), "1 passed, 1 deselected in 0.42 s");
    assert_eq!(with(last(0, 0, 0, 0, 0), 13), "no tests ran, 13 deselected in 0.42 s");
    assert_eq!(with(last(1, 0, 0, 0, 0), 0), "1 passed in 0.42 s");
}

#[test]
fn the_first_line_of_a_reply_has_the_tests_that_did_not_run() {
    let with = |name: &str, count: u32| {
        let mut counts = last(1, 0, 0, 0, 0);
        counts[name] = json!(count);
        summary(&report(&[counts])).left_out()
    };
    assert_eq!(with("passed", 2), "");
    for name in ["skipped", "xfailed", "deselected", "uncollected"] {
        assert_eq!(with(name, 3), format!("3 {name}"));
    }
    let controlled = |controls: Value| {
        let mut counts = last(14, 0, 0, 0, 0);
        counts["controls"] = controls;
        summary(&report(&[counts])).text()
    };
    let expected = "14 passed in 0.42 s\n\nControl, with the assertions inverted: 11 of 14 tests \
                    failed as they should";
    assert_eq!(controlled(json!([11, 14])), expected);
    assert_eq!(controlled(json!([15, 14])), "14 passed in 0.42 s");
}

#[test]
fn what_the_sandbox_refuses_is_told_apart() {
    let summary = summary(recorded::REFUSED);
    let others: Vec<&str> =
        summary.failures.iter().filter(|it| !it.sandbox).map(|it| it.name.as_str()).collect();
    let expected = [
        "test_refused.py::test_other_numbers",
        "test_refused.py::test_names_what_it_does_not_meet",
    ];
    assert_eq!(others, expected);
    for (texts, why) in REFUSALS {
        assert!(!why.is_empty());
        let line = failure(&format!("E   {}", texts.join(" ")), "");
        let report = report(&[line, last(0, 1, 0, 0, 0)]);
        assert!(self::summary(&report).failures[0].sandbox, "{texts:?}");
    }
}

#[test]
fn a_program_that_cannot_be_started_is_told_from_a_file_that_is_missing() {
    let missing =
        |name: &str| format!("FileNotFoundError: [Errno 2] No such file or directory: '{name}'");
    for (raised, place, is_refused) in [
        (missing("/bin/sh"), "test_a.py:3: in test", true),
        (missing("git"), "test_a.py:3: in test", true),
        (missing("make"), "/usr/lib/python3.11/subprocess.py:1955: FileNotFoundError", true),
        (missing("data.json"), "test_a.py:3: FileNotFoundError", false),
        (
            "subprocess.CalledProcessError: Command 'x' returned non-zero exit status 1."
                .to_owned(),
            "/usr/lib/python3.11/subprocess.py:571: CalledProcessError",
            false,
        ),
        (
            "KeyError: 'getpwuid(): uid not found: 1000'".to_owned(),
            "getpass.py:169: KeyError",
            true,
        ),
        ("KeyError: 'uid'".to_owned(), "test_a.py:3: KeyError", false),
    ] {
        let report = report(&[failure(&format!("E   {raised}"), place), last(0, 1, 0, 0, 0)]);
        assert_eq!(summary(&report).failures[0].sandbox, is_refused, "{raised} {place}");
    }
}

#[test]
fn the_text_is_short_and_says_what_to_know() {
    let failed = json!({ "kind": "failed", "name": "test_a.py::TestB::test_3",
        "reason": "assert 1 == 2", "explanation": "E   assert 1 == 2",
        "place": "test_a.py:3: AssertionError" });
    let setup = json!({ "kind": "setup_error", "name": "test_a.py::test_4",
        "reason": "PermissionError: no", "explanation": "", "place": "text" });
    let report = &report(&[failed, setup, last(2, 1, 1, 1, 0)]);
    let expected = "2 passed, 1 failed, 1 error, 1 skipped in 0.42 s\n\n\
        FAILED test_a.py::TestB::test_3\n  E   assert 1 == 2\n\n\
        ERROR in setup of test_a.py::test_4\n  \
        failed on setup with \"PermissionError: no\"\n  \
        The sandbox may have refused this: tests have no network, write only below their own \
        folders, see no other processes, and can start no program but the Python interpreter; there \
        is no /etc/passwd.";
    assert_eq!(summary(report).text(), expected);
    assert!(summary(recorded::NOTHING).text().starts_with("no tests ran in 0."));
    assert!(summary(recorded::PASSING).text().starts_with("20 passed in 0."));
    assert!(summary(recorded::COLLECTION).text().contains("\n\nERROR collecting tests/test_"));
}

#[test]
fn a_summary_is_written_and_read_back() {
    let summary = summary(recorded::OUTCOMES);
    let document = serde_json::to_value(&summary).unwrap();
    assert_eq!(document["failures"][1]["kind"], "setup_error");
    assert_eq!(serde_json::from_value::<TestSummary>(document).unwrap(), summary);
}

#[test]
fn hostile_reports_are_refused() {
    let counts = last(1, 1, 0, 0, 0);
    let line = failure("E   x", "");
    let with = |name: &str, value: Value| {
        let mut changed = counts.clone();
        changed[name] = value;
        report(&[changed])
    };
    let without = |mut line: Value, name: &str| {
        line.as_object_mut().unwrap().remove(name).unwrap();
        line
    };
    let refused = [
        String::new(),
        "\n".to_owned(),
        "no report\n".to_owned(),
        "null\n".to_owned(),
        "{}\n".to_owned(),
        "<testsuite/>\n".to_owned(),
        "[".repeat(1_000_000),
        format!("{}\n", "[".repeat(1_000_000)),
        format!("{{\"passed\": {}\n", "{\"a\":".repeat(100_000)),
        // These reports are incomplete, or their lines have the wrong order.
        counts.to_string(),
        report(std::slice::from_ref(&line)),
        report(&[counts.clone(), line.clone()]),
        report(&[counts.clone(), counts.clone()]),
        format!("\n{counts}\n"),
        format!("{counts}\n\n"),
        format!("{counts}{counts}\n"),
        // These reports have a field or a value that the format does not permit.
        with("passed", json!(-1)),
        with("passed", json!(1.5)),
        with("passed", json!("1")),
        with("passed", json!(u64::from(u32::MAX) + 1)),
        with("failed", Value::Null),
        with("other", json!(1)),
        with("duration_s", json!("1")),
        report(std::slice::from_ref(&counts)).replace("0.421", "1e999"),
        report(std::slice::from_ref(&counts)).replace("0.421", "NaN"),
        report(&[without(counts.clone(), "xfailed")]),
        report(&[without(line.clone(), "name"), counts.clone()]),
        report(&[line.clone(), counts.clone()]).replace("\"failed\",", "\"flown\","),
        report(&[line.clone(), counts.clone()]).replace("E   x", "E \\udc80"),
        report(&[line.clone(), counts.clone()]).replace("E   x", "E \u{1}"),
        // These reports have more failures than the counts permit.
        report(&[line.clone(), line.clone(), counts.clone()]),
        report(&[vec![line.clone(); FAILURES_MAX + 1], vec![last(0, 99, 0, 0, 0)]].concat()),
    ];
    for report in refused {
        assert_eq!(TestSummary::from_report(report.as_bytes()), None, "{report:.60}");
    }
    assert_eq!(TestSummary::from_report(b"{\"passed\": \xff}\n"), None);
    // For comparison, these reports are valid.
    assert!(TestSummary::from_report(report(&[line, counts]).as_bytes()).is_some());
    let all = summary(&report(&[last(u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX)]));
    assert!(all.text().contains("\n\n… and 8589934590 more"));
}

#[test]
fn every_beginning_of_a_report_is_refused_and_no_byte_ends_the_reader() {
    for (report, _) in RECORDED {
        let bytes = report.as_bytes();
        for end in (0..bytes.len()).step_by(5).chain([bytes.len() - 1]) {
            assert_eq!(TestSummary::from_report(&bytes[..end]), None, "{end}");
        }
        for at in (0..bytes.len()).step_by(31) {
            for byte in *b"\n\"}\\\xff" {
                let mut bytes = bytes.to_vec();
                bytes[at] = byte;
                // This must not panic.
                let _ = TestSummary::from_report(&bytes);
            }
        }
    }
}

#[test]
fn a_duration_that_is_none_counts_as_nothing() {
    for (duration, expected) in
        [("0.5", 0.5), ("7", 7.0), ("-1", 0.0), ("1e300", 0.0), ("1e9", 0.0)]
    {
        let summary = summary(&report(&[last(1, 0, 0, 0, 0)]).replace("0.421", duration));
        assert!((summary.duration_s - expected).abs() < 1e-9, "{duration}");
        assert_eq!(counts(&summary), [1, 0, 0, 0, 0]);
    }
}

#[test]
fn of_very_many_failures_the_first_are_told() {
    let long = "é".repeat(2000);
    let line = |number: usize| {
        json!({ "kind": "failed", "name": format!("test_a.py::t{number}\n{long}"),
                "reason": format!("m{long}"), "place": "",
                "explanation": format!("E   1\x1b[31m{long}\nE   2\nE   \nE   3\nE   4\nE   5\nE   6") })
    };
    let lines: Vec<Value> = (0..50).map(line).chain([last(0, 99_990, 10, 0, 0)]).collect();
    let summary = summary(&report(&lines));
    assert_eq!(counts(&summary), [0, 99_990, 10, 0, 0]);
    assert_eq!((summary.failures.len(), summary.failures_omitted), (50, 99_950));
    let first = &summary.failures[0];
    assert_eq!((first.name.chars().count(), first.message.chars().count()), (300, 500));
    assert!(first.name.starts_with("test_a.py::t0\u{fffd}é") && first.name.ends_with("é…"));
    assert_eq!(first.assertion_lines.len(), 5);
    assert_eq!(first.assertion_lines[0].chars().count(), 200);
    assert!(first.assertion_lines[0].starts_with("E   1\u{fffd}[31mé"));
    assert!(summary.text().ends_with("\n\n… and 99950 more"));
    assert!(summary.text().len() < 200_000);
}

/// A report with the longest names and messages is not larger than [`REPORT_BYTES_MAX`].
#[test]
fn the_largest_report_is_read() {
    let (name, reason) = ("\u{1}".repeat(600), "\u{1}".repeat(1000));
    let (explanation, place) = ("\u{1}".repeat(4000), "\u{1}".repeat(400));
    let line = json!({ "kind": "failed", "name": name, "reason": reason,
        "explanation": explanation, "place": place });
    let mut lines = vec![line; FAILURES_MAX];
    lines.push(last(0, 50, 0, 0, 0));
    let report = report(&lines);
    assert!(u64::try_from(report.len()).unwrap() < REPORT_BYTES_MAX, "{}", report.len());
    assert_eq!(summary(&report).failures.len(), FAILURES_MAX);
}
