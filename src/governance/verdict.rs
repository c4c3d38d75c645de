//! Determines the verdict on a run of pytest from three sources: the exit code of the process, the report, and the
//! record of how pytest ended.
//!
//! At the level in-process, tests can forge each source, because they run in the process of pytest. If the sources
//! contradict each other, the status of the run is an error.

use nix::sys::signal::Signal;
use serde::Deserialize;

use super::evidence::RunStatus;
use super::summary::TestSummary;

/// The exit codes of pytest (`pytest.ExitCode`).
mod exit_code {
    pub(super) const OK: i32 = 0;
    pub(super) const TESTS_FAILED: i32 = 1;
    pub(super) const INTERRUPTED: i32 = 2;
    pub(super) const INTERNAL_ERROR: i32 = 3;
    pub(super) const USAGE_ERROR: i32 = 4;
    pub(super) const NO_TESTS_COLLECTED: i32 = 5;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) status: RunStatus,
    /// The reason why the result is not reliable. The model gets this text.
    pub(super) reason: Option<String>,
}

/// The record of how pytest ended. The script that runs pytest writes this record to the file `.new-ended`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Ended {
    way: WayOut,
    /// The number of tests that had passed when pytest ended.
    passed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WayOut {
    /// pytest returned an exit code.
    Returned,
    /// `pytest.exit()` or a signal interrupted pytest.
    Interrupted,
    /// pytest or a plugin raised an exception.
    Raised,
}

impl Ended {
    /// Parses the record of how pytest ended. Returns `None` if the record was not written.
    pub(super) fn read(content: &[u8]) -> Option<Self> {
        let line = content.split(|byte| *byte == b'\n').next()?;
        serde_json::from_slice(line).ok()
    }

    /// Limits the number of passed tests in a report to the number in this record, because tests may have forged the
    /// report.
    pub(super) fn correct(self, report: &mut TestSummary) {
        report.passed = report.passed.min(self.passed);
        report.passed_tests.truncate(usize::try_from(report.passed).unwrap_or(usize::MAX));
    }
}

impl Verdict {
    /// Determines the verdict on a run that neither a limit nor the client ended. `code` is the exit code, or the
    /// negative number of a signal. `ended` is the record of how pytest ended; `None` if pytest did not reach its end.
    pub(super) fn of(code: i32, report: Option<&TestSummary>, ended: Option<Ended>) -> Self {
        let reason = if code < 0 {
            Some(format!("the tests were {}", describe_exit_code(code)))
        } else {
            match ended.map(|ended| ended.way) {
                None => Some(format!(
                    "the tests ended the process with exit code {code} before pytest had finished, \
                     so its report is not reliable"
                )),
                Some(WayOut::Interrupted) => {
                    Some(format!("pytest was interrupted (exit code {code})"))
                }
                Some(WayOut::Raised) => {
                    Some("pytest, or a plugin, ended with an internal exception".to_owned())
                }
                Some(WayOut::Returned) => contradiction(code, report),
            }
        };
        let has_failed = report.is_some_and(|report| report.failed > 0);
        let status = match (&reason, code) {
            (None, exit_code::OK) if report.is_some_and(|report| report.passed > 0) => {
                RunStatus::Passed
            }
            (None, exit_code::TESTS_FAILED) => RunStatus::Failed,
            // pytest stopped after a failed test but before the last test, for example because of `--stepwise`.
            (None, exit_code::INTERRUPTED) if has_failed => RunStatus::Failed,
            // Nothing was collected, or every test was skipped or failed as expected.
            (None, exit_code::OK | exit_code::NO_TESTS_COLLECTED) => RunStatus::NoTests,
            // Collection errors have no reason, because the report contains them.
            (Some(_) | None, _) => RunStatus::Error,
        };
        Self { status, reason }
    }

    /// Creates a verdict without a reason.
    pub(super) fn of_status(status: RunStatus) -> Self {
        Self { status, reason: None }
    }
}

/// Returns the reason why the result of a run is not reliable: the exit code contradicts the report, or reports a
/// failure of pytest itself. Returns `None` if the result is reliable.
fn contradiction(code: i32, report: Option<&TestSummary>) -> Option<String> {
    let failures = report.map(|report| report.failed + report.errors);
    // Skipped tests have not run. If a whole file skips itself, pytest collects no test, and its exit code is 5.
    let has_run = report.map(|report| report.passed + report.failed + report.xfailed > 0);
    match (code, failures, has_run) {
        (exit_code::OK | exit_code::TESTS_FAILED, None, _) => {
            Some(format!("pytest ended with exit code {code} and left no report"))
        }
        (exit_code::OK, Some(1..), _) => {
            Some("pytest ended with exit code 0, and its report has failures".to_owned())
        }
        (exit_code::TESTS_FAILED, Some(0), _) => Some(
            "pytest ended with exit code 1, and no test failed in its report: something else \
             failed the run, such as a plugin (is coverage below its limit?)"
                .to_owned(),
        ),
        (exit_code::NO_TESTS_COLLECTED, _, Some(true)) => {
            Some("pytest ended with exit code 5 (no tests), and its report has tests".to_owned())
        }
        (exit_code::INTERRUPTED, None | Some(0), _) => {
            Some("pytest was interrupted (exit code 2)".to_owned())
        }
        (exit_code::INTERNAL_ERROR, ..) => Some("pytest itself failed (exit code 3)".to_owned()),
        (exit_code::USAGE_ERROR, ..) => {
            Some("pytest could not use its arguments or its configuration (exit code 4)".to_owned())
        }
        (
            exit_code::OK
            | exit_code::TESTS_FAILED
            | exit_code::INTERRUPTED
            | exit_code::NO_TESTS_COLLECTED,
            ..,
        ) => None,
        _ => Some(format!("the run ended with exit code {code}, which pytest never returns")),
    }
}

/// Describes an exit code as text. A negative code means that a signal killed the process.
pub(super) fn describe_exit_code(code: i32) -> String {
    match code {
        0.. => format!("exit code {code}"),
        _ => match Signal::try_from(code.saturating_neg()) {
            Ok(signal) => format!("killed by signal {} ({})", code.unsigned_abs(), signal.as_str()),
            Err(_) => format!("killed by signal {}", code.unsigned_abs()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_what_all_witnesses_say() {
        let report = |passed, failed, errors| {
            Some(TestSummary { passed, failed, errors, ..TestSummary::default() })
        };
        let none = report(0, 0, 0);
        let left_out =
            |skipped, xfailed| Some(TestSummary { skipped, xfailed, ..TestSummary::default() });
        let written =
            |way| Ended::read(format!("{{\"way\": \"{way}\", \"passed\": 2}}\n\0").as_bytes());
        let returned = written("returned");
        assert!(returned.is_some() && written("flown").is_none());
        assert_eq!(Ended::read(&[0; 256]), None);
        let mut counted = report(9, 1, 0).unwrap();
        returned.unwrap().correct(&mut counted);
        assert_eq!((counted.passed, counted.failed), (2, 1));
        for (code, report, ended, status, reason) in [
            (0, report(9, 0, 0), returned, RunStatus::Passed, ""),
            (0, none.clone(), returned, RunStatus::NoTests, ""),
            (1, report(8, 1, 0), returned, RunStatus::Failed, ""),
            (1, report(8, 0, 1), returned, RunStatus::Failed, ""),
            (2, report(0, 0, 1), returned, RunStatus::Error, ""),
            (5, none.clone(), returned, RunStatus::NoTests, ""),
            (5, None, returned, RunStatus::NoTests, ""),
            // Every test was skipped, or failed as expected.
            (0, left_out(2, 0), returned, RunStatus::NoTests, ""),
            (0, left_out(0, 2), returned, RunStatus::NoTests, ""),
            (0, left_out(2, 1), returned, RunStatus::NoTests, ""),
            // A whole file has skipped itself.
            (5, left_out(1, 0), returned, RunStatus::NoTests, ""),
            // pytest stopped after a failed test but before the last test, for example because of `--stepwise`.
            (2, report(1, 1, 0), returned, RunStatus::Failed, ""),
            (0, report(2, 0, 0), written("interrupted"), RunStatus::Error, "interrupted"),
            (1, report(2, 0, 0), written("raised"), RunStatus::Error, "internal exception"),
            // The exit code contradicts the report, or reports a failure of pytest itself.
            (0, report(8, 1, 0), returned, RunStatus::Error, "its report has failures"),
            (0, None, returned, RunStatus::Error, "left no report"),
            (1, report(9, 0, 0), returned, RunStatus::Error, "no test failed in its report"),
            (1, None, returned, RunStatus::Error, "left no report"),
            (5, report(9, 0, 0), returned, RunStatus::Error, "its report has tests"),
            (2, report(9, 0, 0), returned, RunStatus::Error, "interrupted"),
            (2, None, returned, RunStatus::Error, "interrupted"),
            (3, report(9, 0, 0), returned, RunStatus::Error, "pytest itself failed"),
            (4, None, returned, RunStatus::Error, "arguments or its configuration"),
            (86, report(9, 0, 0), returned, RunStatus::Error, "which pytest never returns"),
            // The tests ended the process before pytest ended, or a signal killed it.
            (0, report(9, 0, 0), None, RunStatus::Error, "before pytest had finished"),
            (1, report(8, 1, 0), None, RunStatus::Error, "before pytest had finished"),
            (5, None, None, RunStatus::Error, "before pytest had finished"),
            (-11, report(9, 0, 0), returned, RunStatus::Error, "killed by signal 11 (SIGSEGV)"),
            (-9, None, None, RunStatus::Error, "killed by signal 9 (SIGKILL)"),
            (-64, None, None, RunStatus::Error, "killed by signal 64"),
        ] {
            let verdict = Verdict::of(code, report.as_ref(), ended);
            let found = verdict.reason.unwrap_or_default();
            let found = (verdict.status, found.contains(reason), found.is_empty());
            assert_eq!(found, (status, true, reason.is_empty()), "{code} {report:?} {ended:?}");
        }
    }
}
