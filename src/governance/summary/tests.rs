use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::*;

/// Reports of real runs of pytest, each with the last line that it printed. `tests/junit/record.py`
/// makes them.
const RECORDED: [(&str, &str); 6] = [
    (recorded::OUTCOMES, include_str!("../../../tests/junit/outcomes.txt")),
    (recorded::OUTCOMES_XUNIT1, include_str!("../../../tests/junit/outcomes_xunit1.txt")),
    (recorded::COLLECTION, include_str!("../../../tests/junit/collection.txt")),
    (recorded::PASSING, include_str!("../../../tests/junit/passing.txt")),
    (recorded::NOTHING, include_str!("../../../tests/junit/nothing.txt")),
    (recorded::REFUSED, include_str!("../../../tests/junit/refused.txt")),
];

mod recorded {
    pub(super) const OUTCOMES: &str = include_str!("../../../tests/junit/outcomes.xml");
    pub(super) const OUTCOMES_XUNIT1: &str =
        include_str!("../../../tests/junit/outcomes_xunit1.xml");
    pub(super) const COLLECTION: &str = include_str!("../../../tests/junit/collection.xml");
    pub(super) const PASSING: &str = include_str!("../../../tests/junit/passing.xml");
    pub(super) const NOTHING: &str = include_str!("../../../tests/junit/nothing.xml");
    pub(super) const REFUSED: &str = include_str!("../../../tests/junit/refused.xml");
}

fn summary(report: &str) -> TestSummary {
    TestSummary::from_junit(report.as_bytes()).unwrap()
}

/// The number before a word of the line that pytest prints last.
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
    for report in [recorded::OUTCOMES, recorded::OUTCOMES_XUNIT1] {
        let summary = summary(report);
        let found: Vec<(FailureKind, &str)> =
            summary.failures.iter().map(|it| (it.kind, it.name.as_str())).collect();
        assert_eq!(found, expected);
        assert!(summary.failures.iter().all(|it| !it.sandbox));
    }
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
fn what_the_sandbox_refuses_is_told_apart() {
    let summary = summary(recorded::REFUSED);
    let others: Vec<&str> =
        summary.failures.iter().filter(|it| !it.sandbox).map(|it| it.name.as_str()).collect();
    let expected = [
        "test_refused.py::test_other_numbers",
        "test_refused.py::test_names_what_it_does_not_meet",
    ];
    assert_eq!(others, expected);
    for row in &REFUSALS {
        assert!(!row.why.is_empty());
        let report = format!(
            "<testsuite><testcase classname='m' name='t'><failure message='x'>\
             E   {}</failure></testcase></testsuite>",
            row.texts.join(" ")
        );
        assert!(self::summary(&report).failures[0].sandbox, "{:?}", row.texts);
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
        let report = format!(
            "<testsuite><testcase classname='m' name='t'><failure message='x'>\
             E   {raised}\n\n{place}</failure></testcase></testsuite>"
        );
        assert_eq!(summary(&report).failures[0].sandbox, is_refused, "{raised} {place}");
    }
}

#[test]
fn the_text_is_short_and_says_what_to_know() {
    let report = "<testsuites><testsuite time='0.421'>\
        <testcase classname='test_a' name='test_1'/><testcase classname='test_a' name='test_2'/>\
        <testcase classname='test_a.TestB' name='test_3'><failure message='assert 1 == 2'>\
        def test_3():\n&gt; assert 1 == 2\nE   assert 1 == 2\n\ntest_a.py:3: AssertionError\
        </failure></testcase>\
        <testcase classname='test_a' name='test_4'><error message='failed on setup with \
        &quot;PermissionError: no&quot;'><![CDATA[text]]></error></testcase>\
        <testcase classname='test_a' name='test_5'><skipped type='pytest.skip'/></testcase>\
        </testsuite></testsuites>";
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
    let case = "<testsuite><testcase name='a'>";
    let laughs = "<!DOCTYPE lolz [<!ENTITY lol 'lol'><!ENTITY lol2 '&lol;&lol;&lol;'>]>\
                  <testsuite name='&lol2;'/>";
    let deep = "<testsuite>".repeat(100_000);
    let unclosed = format!("{case}<failure message='{}", "x".repeat(100_000));
    for (report, expected) in [
        ("", SummaryError::NotJunit),
        ("no xml", SummaryError::NotJunit),
        ("<html></html>", SummaryError::NotJunit),
        ("<?xml version='1.0'?>", SummaryError::NotJunit),
        (laughs, SummaryError::DocumentType),
        ("<!DOCTYPE a SYSTEM 'file:///etc/passwd'><testsuite/>", SummaryError::DocumentType),
        (&deep, SummaryError::TooDeep),
        ("<testsuites><testsuite>", SummaryError::Incomplete),
        (case, SummaryError::Incomplete),
    ] {
        assert_eq!(TestSummary::from_junit(report.as_bytes()), Err(expected), "{report:.40}");
    }
    for report in [
        &format!("{case}<failure>&lol;</failure></testcase></testsuite>"),
        &format!("{case}<failure message='&lol;'/></testcase></testsuite>"),
        &format!("{case}<failure>&#0;</failure></testcase></testsuite>"),
        &format!("{case}<failure>&#x110000;</failure></testcase></testsuite>"),
        &format!("{case}<failure>&#99999999999999999999;</failure></testcase></testsuite>"),
        &format!("{case}<failure></error></testcase></testsuite>"),
        &format!("{case}<failure message=x/></testcase></testsuite>"),
        &unclosed,
        "<testsuite",
        "<testsuite/></testsuite>",
        "<testsuite><![CDATA[",
        "<testsuite><!-- ",
    ] {
        let error = TestSummary::from_junit(report.as_bytes()).unwrap_err();
        assert!(matches!(error, SummaryError::Malformed(_)), "{report:.60}: {error}");
    }
    assert_eq!(TestSummary::from_junit(b"<testsuite>\xff"), Err(SummaryError::NotUtf8));
    let large = vec![b' '; REPORT_BYTES_MAX + 1];
    assert_eq!(TestSummary::from_junit(&large), Err(SummaryError::TooLarge));
}

#[test]
fn every_beginning_of_a_report_is_read_or_refused() {
    for (report, _) in RECORDED {
        let bytes = report.trim_end().as_bytes();
        for end in (0..bytes.len()).step_by(5) {
            assert!(TestSummary::from_junit(&bytes[..end]).is_err(), "{end}");
        }
        for at in (0..bytes.len()).step_by(31) {
            let mut bytes = bytes.to_vec();
            bytes[at] = b'<';
            let _ = TestSummary::from_junit(&bytes);
        }
    }
}

#[test]
fn numbers_that_are_none_count_as_nothing() {
    for (time, expected) in [
        ("0.5", 0.5),
        ("nan", 0.0),
        ("inf", 0.0),
        ("-1", 0.0),
        ("1e300", 0.0),
        ("1,5", 0.0),
        ("", 0.0),
        ("&#49;", 1.0),
    ] {
        let report = format!(
            "<testsuite time='{time}' tests='-5' errors='NaN' failures='18446744073709551616'>\
             <testcase name='a' time='x'/></testsuite>"
        );
        let summary = summary(&report);
        assert!((summary.duration_s - expected).abs() < 1e-9, "{time}");
        assert_eq!(counts(&summary), [1, 0, 0, 0, 0]);
    }
}

#[test]
fn elements_where_they_do_not_belong_count_for_nothing() {
    let report = "<testsuite><failure/><skipped/><properties><error/></properties>\
        <testcase name='a'><system-out>E   x<failure/></system-out><testcase name='b'>\
        <failure/></testcase></testcase><testcase/></testsuite>";
    assert_eq!(counts(&summary(report)), [2, 0, 0, 0, 0]);
}

#[test]
fn of_very_many_failures_the_first_are_told() {
    let mut report = "<testsuite time='1'>".to_owned();
    let long = "é".repeat(2000);
    for number in 0..100_000 {
        let long = if number < 60 { &long } else { "" };
        write!(
            report,
            "<testcase classname='test_a' name='t{number}{long}'><failure message='m{long}'>\
             E   1\x1b[31m{long}\nE   2\nE   3\nE   4\nE   5\nE   6</failure></testcase>"
        )
        .unwrap();
    }
    report.push_str("</testsuite>");
    let summary = summary(&report);
    assert_eq!(counts(&summary), [0, 100_000, 0, 0, 0]);
    assert_eq!((summary.failures.len(), summary.failures_omitted), (50, 99_950));
    let first = &summary.failures[0];
    assert_eq!((first.name.chars().count(), first.message.chars().count()), (300, 500));
    assert!(first.name.starts_with("test_a.py::t0é") && first.name.ends_with("é…"));
    assert_eq!(first.assertion_lines.len(), 5);
    assert_eq!(first.assertion_lines[0].chars().count(), 200);
    assert!(first.assertion_lines[0].starts_with("E   1\u{fffd}[31mé"));
    assert!(summary.text().ends_with("\n\n… and 99950 more"));
    assert!(summary.text().len() < 200_000);
}

#[test]
fn a_report_that_is_hard_to_read_is_read_in_time() {
    let many_attributes: String =
        (0..200_000).fold(String::new(), |all, number| all + &format!(" a{number}='x'"));
    let many_references = "&amp;".repeat(300_000);
    let started = Instant::now();
    for report in [
        format!("<testsuite{many_attributes}/>"),
        format!("<testsuite><testcase name='{many_references}'/></testsuite>"),
        format!("<testsuite><testcase><failure>{many_references}</failure></testcase></testsuite>"),
        format!("<testsuite>{}</testsuite>", "<testcase/>".repeat(200_000)),
    ] {
        summary(&report);
    }
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}
