//! Parses the report with the outcomes of the tests. A script in the folder `pytest` writes the report after the tests.
//!
//! Each line of a report is a JSON document. The first lines describe failures. The last line has all counts. A report
//! is untrusted, because tests can forge it. So a run passes only if the exit code agrees with the report.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::plain_text::{plain, plain_line};

/// The limit for a report, in bytes. `pytest/common.py` limits the number and the length of failures, so its reports
/// are smaller.
pub(crate) const REPORT_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The maximum number of failures that are reported individually.
pub(super) const FAILURES_MAX: usize = 50;
/// The maximum number of passed tests that a summary names.
pub(super) const PASSED_MAX: usize = 64;
const NAME_CHARS_MAX: usize = 300;
const MESSAGE_CHARS_MAX: usize = 500;
const LINES_MAX: usize = 5;
const LINE_CHARS_MAX: usize = 200;

/// The hint that is added to a failure or to the output of a run if [`is_refusal`] returns true for one of the lines.
pub(crate) const SANDBOX_HINT: &str = "The sandbox may have refused this: tests have no network, write only \
                            below their own folders, see no other processes, and can start no \
                            program but the Python interpreter; there is no /etc/passwd.";

/// Messages that appear in the output of tests if the sandbox refuses an operation. A line of output matches a row if
/// it contains all texts in the row's list. The explanation in each row is only for readers of this table.
const REFUSALS: [(&[&str], &str); 19] = [
    (&["No space left on device"], "the scratch folder or the folder for artifacts is full"),
    (&["PermissionError:"], "how Python names EPERM and EACCES"),
    (&[": PermissionError"], "the same at the end of a traceback, behind file and line"),
    (&["[Errno 1]"], "EPERM: a system call that the filter refuses"),
    (&["Operation not permitted"], "EPERM, as other programs tell it"),
    (&["[Errno 13]"], "EACCES: a path that Landlock refuses"),
    (&["Permission denied"], "EACCES, as other programs tell it"),
    (&["[Errno 30]"], "EROFS: a path that the tests may only read"),
    (&["Read-only file system"], "EROFS, as other programs tell it"),
    (&["[Errno 38]"], "ENOSYS: a system call that the filter hides"),
    (&["Function not implemented"], "ENOSYS, as other programs tell it"),
    (&["[Errno 97]"], "EAFNOSUPPORT: a kind of socket that the filter refuses"),
    (&["Address family not supported"], "EAFNOSUPPORT, as other programs tell it"),
    (&["[Errno 101]"], "ENETUNREACH: there is no network"),
    (&["Network is unreachable"], "ENETUNREACH, as other programs tell it"),
    (
        &["No such file or directory: '/bin/sh'"],
        "ENOENT: a shell, for `subprocess` with `shell=True` and `os.popen`",
    ),
    (&["No such file or directory: 'git'"], "ENOENT: what projects start most often"),
    (&["subprocess.py:", ": FileNotFoundError"], "ENOENT: any program, at the end of a traceback"),
    (
        &["getpwuid(): uid not found"],
        "there is no /etc/passwd, for `getpass.getuser` and `Path.home`",
    ),
];

/// The counts of tests by outcome, as in the summary line of pytest. One difference: a test that passed although it was
/// expected to fail (`xpassed`) counts as passed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TestSummary {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Errors in the setup, the teardown or the collection of tests.
    pub(crate) errors: u64,
    /// Tests that did not run.
    pub(crate) skipped: u64,
    /// Tests that failed as expected.
    pub(crate) xfailed: u64,
    /// Tests that were collected but deselected.
    #[serde(default)]
    pub(crate) deselected: u64,
    /// Test files that the configuration or a `conftest.py` excludes.
    #[serde(default)]
    pub(crate) uncollected: u64,
    /// The duration of all tests together, in seconds.
    pub(crate) duration_s: f64,
    /// The first failures and errors, at most [`FAILURES_MAX`].
    pub(crate) failures: Vec<TestFailure>,
    /// The number of failures and errors that are not in `failures`.
    pub(crate) failures_omitted: u64,
    /// The node ids of the first tests that passed, at most [`PASSED_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) passed_tests: Vec<String>,
    /// The result of the control, which repeats the passed tests with inverted assertions: the number of tests that do
    /// not pass again, and the number of all passed tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) controls: Option<[u32; 2]>,
    /// The part of the report that only the judge uses.
    #[serde(skip)]
    pub(crate) judged: Judged,
}

/// The part of a report that only the judge uses. The observer (`pytest/observer.py`) writes this part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Judged {
    /// The first letter of the outcome of each test in the judge's list, or `-` for a test that did not run.
    pub(crate) outcomes: String,
    /// The reasons why tests cannot run in a separate process from the code under test.
    pub(crate) not_isolated: Vec<String>,
    /// The ids of all tests. Empty except in a run that records a list.
    pub(crate) tests: Vec<String>,
    /// The kinds of the results of the code under test, in the format of `TestList::kinds`. Empty except in a run that
    /// records a list.
    pub(crate) kinds: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TestFailure {
    /// The node id in pytest's form: `tests/test_area.py::TestSquare::test_side`.
    pub(crate) name: String,
    pub(crate) kind: FailureKind,
    /// The exception, or pytest's message for a failure without an exception.
    pub(crate) message: String,
    /// The lines with which pytest explains the failure.
    pub(crate) assertion_lines: Vec<String>,
    /// Whether the sandbox probably caused the failure.
    pub(crate) sandbox: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailureKind {
    /// The test itself failed.
    Failed,
    /// A fixture failed before the test.
    SetupError,
    /// A fixture failed after the test.
    TeardownError,
    /// The test file could not be imported.
    CollectionError,
    /// pytest itself failed, or the step that failed is unknown.
    Error,
}

/// The last line of a report, with the counts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    passed: u32,
    failed: u32,
    errors: u32,
    skipped: u32,
    xfailed: u32,
    #[serde(default)]
    deselected: u32,
    #[serde(default)]
    uncollected: u32,
    #[serde(default)]
    passed_tests: Vec<String>,
    duration_s: f64,
    #[serde(default)]
    outcomes: String,
    #[serde(default)]
    not_isolated: Vec<String>,
    #[serde(default)]
    tests: Vec<String>,
    #[serde(default)]
    kinds: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    controls: Option<[u32; 2]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportedFailure {
    kind: FailureKind,
    /// The node id in pytest's form.
    name: String,
    /// The exception, or pytest's whole message for a failure without an exception.
    reason: String,
    /// The lines with which pytest explains the failure, without the source of the test.
    explanation: String,
    /// The last line of pytest's message, with the file, the line number and the name of the exception.
    place: String,
}

impl TestSummary {
    /// Parses a report. Returns `None` if the report is incomplete or has a wrong format.
    pub(crate) fn from_report(report: &[u8]) -> Option<Self> {
        let mut lines = report.strip_suffix(b"\n")?.split(|byte| *byte == b'\n');
        let counts: Counts = serde_json::from_slice(lines.next_back()?).ok()?;
        let mut failures = Vec::new();
        for line in lines {
            if failures.len() == FAILURES_MAX {
                return None;
            }
            failures.push(serde_json::from_slice::<ReportedFailure>(line).ok()?.into());
        }
        let [passed, failed, errors, skipped, xfailed] =
            [counts.passed, counts.failed, counts.errors, counts.skipped, counts.xfailed]
                .map(u64::from);
        let reported = u64::try_from(failures.len()).unwrap_or(u64::MAX);
        let failures_omitted = (failed + errors).checked_sub(reported)?;
        let is_duration = (0.0..1e9).contains(&counts.duration_s);
        let duration_s = if is_duration { counts.duration_s } else { 0.0 };
        Some(Self {
            passed,
            failed,
            errors,
            skipped,
            xfailed,
            deselected: u64::from(counts.deselected),
            uncollected: u64::from(counts.uncollected),
            duration_s,
            failures,
            failures_omitted,
            passed_tests: counts
                .passed_tests
                .iter()
                .take(PASSED_MAX)
                .map(|id| node_id(id))
                .collect(),
            controls: counts.controls.filter(|[failed, all]| failed <= all),
            judged: Judged {
                outcomes: counts.outcomes,
                not_isolated: counts.not_isolated,
                tests: counts.tests,
                kinds: counts.kinds,
            },
        })
    }

    /// Returns the counts of tests that neither passed nor failed, such as `2 skipped, 1 deselected`.
    pub(crate) fn left_out(&self) -> String {
        let counts = [
            (self.skipped, "skipped"),
            (self.xfailed, "xfailed"),
            (self.deselected, "deselected"),
            (self.uncollected, "uncollected"),
        ];
        listed(&counts)
    }

    /// Returns a short text about the outcomes, for the model.
    pub(crate) fn text(&self) -> String {
        let errors = if self.errors == 1 { "error" } else { "errors" };
        let counts = [
            (self.passed, "passed"),
            (self.failed, "failed"),
            (self.errors, errors),
            (self.skipped, "skipped"),
            (self.xfailed, "xfailed"),
        ];
        let mut counts = listed(&counts);
        if counts.is_empty() {
            "no tests ran".clone_into(&mut counts);
        }
        for (count, name) in [(self.deselected, "deselected"), (self.uncollected, "uncollected")] {
            if count > 0 {
                let _ = write!(counts, ", {count} {name}");
            }
        }
        let mut blocks = vec![format!("{counts} in {:.2} s", self.duration_s)];
        blocks.extend(self.failures.iter().map(TestFailure::text));
        if let Some([failed, all]) = self.controls {
            blocks.push(format!(
                "Control, with the assertions inverted: {failed} of {all} tests failed as they should"
            ));
        }
        if self.failures_omitted > 0 {
            blocks.push(format!("… and {} more", self.failures_omitted));
        }
        blocks.join("\n\n")
    }
}

impl TestFailure {
    fn text(&self) -> String {
        let kind = match self.kind {
            FailureKind::Failed => "FAILED",
            FailureKind::SetupError => "ERROR in setup of",
            FailureKind::TeardownError => "ERROR in teardown of",
            FailureKind::CollectionError => "ERROR collecting",
            FailureKind::Error => "ERROR",
        };
        let mut lines = vec![format!("{kind} {}", self.name)];
        if self.assertion_lines.is_empty() {
            lines.extend(self.message.lines().take(LINES_MAX).map(|line| format!("  {line}")));
        } else {
            lines.extend(self.assertion_lines.iter().map(|line| format!("  {line}")));
        }
        if self.sandbox {
            lines.push(format!("  {SANDBOX_HINT}"));
        }
        lines.join("\n")
    }
}

/// Returns a text with the counts that are not 0, and their names.
fn listed(counts: &[(u64, &str)]) -> String {
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, name)| format!("{count} {name}")).collect();
    counts.join(", ")
}

/// Returns whether a line of output suggests that the sandbox refused an operation.
pub(crate) fn is_refusal(line: &str) -> bool {
    REFUSALS.iter().any(|(texts, _)| texts.iter().all(|text| line.contains(text)))
}

impl From<ReportedFailure> for TestFailure {
    fn from(failure: ReportedFailure) -> Self {
        let ReportedFailure { kind, name, reason, explanation, place } = failure;
        let message = match kind {
            FailureKind::Failed => reason,
            FailureKind::SetupError => format!("failed on setup with \"{reason}\""),
            FailureKind::TeardownError => format!("failed on teardown with \"{reason}\""),
            FailureKind::CollectionError => "collection failure".to_owned(),
            FailureKind::Error => "internal error".to_owned(),
        };
        let explains =
            |line: &&str| line.strip_prefix("E ").is_some_and(|rest| !rest.trim().is_empty());
        let lines = || explanation.lines().filter(explains);
        Self {
            name: node_id(&name),
            kind,
            // Do not search the source of the test, because it may contain the message of an error that did not occur.
            sandbox: lines().chain([place.as_str(), message.as_str()]).any(is_refusal),
            message: excerpt(&message, MESSAGE_CHARS_MAX),
            assertion_lines: lines()
                .take(LINES_MAX)
                .map(|line| excerpt(line, LINE_CHARS_MAX))
                .collect(),
        }
    }
}

/// Returns the id of a test as one line of at most [`NAME_CHARS_MAX`] characters.
fn node_id(name: &str) -> String {
    plain_line(&excerpt(name, NAME_CHARS_MAX))
}

/// Shortens a text to `chars_max` characters, and replaces hidden characters.
fn excerpt(text: &str, chars_max: usize) -> String {
    let mut chars = text.trim_end().chars();
    let mut excerpt: String = chars.by_ref().take(chars_max).collect();
    if chars.next().is_some() {
        excerpt.pop();
        excerpt.push('…');
    }
    plain(&excerpt)
}

#[cfg(test)]
mod tests;
