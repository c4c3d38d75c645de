//! The outcomes of the tests, from the report that `start_pytest.py` writes when pytest is done.
//!
//! Its lines are JSON documents: one for each of the first failures, and a last one with all counts.
//! The tests could write the report themselves: it is untrusted input, and nothing of it decides
//! whether a run passed. That is the exit code's.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::plain_text::{plain, plain_line};

/// The largest report that is read. One of pytest is smaller: its failures are few, and each is
/// cut.
pub(crate) const REPORT_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The failures that are reported one by one.
pub(super) const FAILURES_MAX: usize = 50;
const NAME_CHARS_MAX: usize = 300;
const MESSAGE_CHARS_MAX: usize = 500;
const LINES_MAX: usize = 5;
const LINE_CHARS_MAX: usize = 200;

/// The hint behind such a line.
pub(crate) const SANDBOX_HINT: &str = "The sandbox may have refused this: tests have no network, write only \
                            below their own folders, see no other processes, and can start no \
                            program but the Python interpreter; there is no /etc/passwd.";

/// Answers of the sandbox to what it refuses: texts that are all in one line, and why they show it.
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

/// The counts of tests by outcome, as in the last line that pytest prints, except that a test that was
/// expected to fail and passed (`xpassed`) is one that passed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TestSummary {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Errors outside of a test: in its setup, its teardown, or when it was collected.
    pub(crate) errors: u64,
    /// Tests that did not run.
    pub(crate) skipped: u64,
    /// Tests that failed as expected.
    pub(crate) xfailed: u64,
    /// Tests that were collected, and left out of the run by a selection.
    #[serde(default)]
    pub(crate) deselected: u64,
    /// The time of all together.
    pub(crate) duration_s: f64,
    /// The first failures and errors.
    pub(crate) failures: Vec<TestFailure>,
    /// The number of further failures and errors.
    pub(crate) failures_omitted: u64,
}

/// A failed test, or an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TestFailure {
    /// The node id, as pytest takes it: `tests/test_area.py::TestSquare::test_side`.
    pub(crate) name: String,
    pub(crate) kind: FailureKind,
    /// The exception.
    pub(crate) message: String,
    /// The lines by which pytest explains it.
    pub(crate) assertion_lines: Vec<String>,
    /// The failure looks like something that the sandbox refuses.
    pub(crate) sandbox: bool,
}

/// The failed part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailureKind {
    /// The test.
    Failed,
    /// A fixture, before it.
    SetupError,
    /// A fixture, after it.
    TeardownError,
    /// The file could not be imported.
    CollectionError,
    /// Something else.
    Error,
}

/// The last line of a report.
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
    duration_s: f64,
}

/// Any other line of a report.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportedFailure {
    kind: FailureKind,
    /// The node id, as pytest takes it.
    name: String,
    /// The exception, or else all that pytest says.
    reason: String,
    /// The lines by which pytest explains it, without its source.
    explanation: String,
    /// The last line: the file, the line and the name of the exception.
    place: String,
}

impl TestSummary {
    /// Reads a report; none if it is not complete, or not of the form that `start_pytest.py` writes.
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
            duration_s,
            failures,
            failures_omitted,
        })
    }

    /// Tells whether nothing was run.
    pub(crate) fn is_empty(&self) -> bool {
        self.passed + self.failed + self.errors + self.skipped + self.xfailed == 0
    }

    /// Returns a short text for the model.
    pub(crate) fn text(&self) -> String {
        let errors = if self.errors == 1 { "error" } else { "errors" };
        let counts = [
            (self.passed, "passed"),
            (self.failed, "failed"),
            (self.errors, errors),
            (self.skipped, "skipped"),
            (self.xfailed, "xfailed"),
        ];
        let counts: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        let mut counts =
            if counts.is_empty() { "no tests ran".to_owned() } else { counts.join(", ") };
        if self.deselected > 0 {
            let _ = write!(counts, ", {} deselected", self.deselected);
        }
        let mut blocks = vec![format!("{counts} in {:.2} s", self.duration_s)];
        blocks.extend(self.failures.iter().map(TestFailure::text));
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

/// Tells whether a line shows that the sandbox may have refused something.
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
            name: plain_line(&excerpt(&name, NAME_CHARS_MAX)),
            kind,
            // Not all that pytest says: it quotes the test, which may name what it does not meet.
            sandbox: lines().chain([place.as_str(), message.as_str()]).any(is_refusal),
            message: excerpt(&message, MESSAGE_CHARS_MAX),
            assertion_lines: lines()
                .take(LINES_MAX)
                .map(|line| excerpt(line, LINE_CHARS_MAX))
                .collect(),
        }
    }
}

/// Returns the beginning of a text, without what nobody sees.
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
