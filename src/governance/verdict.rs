//! What a run of pytest came to, by three witnesses: how its process ended, what its report says,
//! and whether pytest came to its end.
//!
//! The tests run in the same process, and can forge each of them. Where they do not agree, the run
//! is an error.

use nix::sys::signal::Signal;

use super::evidence::RunStatus;
use super::summary::TestSummary;

/// What pytest says by its exit code (pytest's `ExitCode`).
mod exit_code {
    pub(super) const OK: i32 = 0;
    pub(super) const TESTS_FAILED: i32 = 1;
    pub(super) const INTERRUPTED: i32 = 2;
    pub(super) const INTERNAL_ERROR: i32 = 3;
    pub(super) const USAGE_ERROR: i32 = 4;
    pub(super) const NO_TESTS_COLLECTED: i32 = 5;
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) status: RunStatus,
    /// Why there is no result that could be relied on. For the model.
    pub(super) reason: Option<String>,
}

impl Verdict {
    /// A run whose process ended by itself, or by a signal, with `code` (a negative number is a
    /// signal's). `is_complete` says whether pytest came to its end.
    pub(super) fn of(code: i32, report: Option<&TestSummary>, is_complete: bool) -> Self {
        let failures = report.map(|report| report.failed + report.errors);
        let is_empty = report.map(TestSummary::is_empty);
        let wrong = if code < 0 {
            Some(format!("the tests were {}", ending(code)))
        } else if !is_complete {
            Some(format!(
                "the tests ended the process with exit code {code} before pytest was done; what \
                 they left as its report is not to be relied on"
            ))
        } else {
            match (code, failures, is_empty) {
                (exit_code::OK | exit_code::TESTS_FAILED, None, _) => {
                    Some(format!("pytest ended with exit code {code} and left no report"))
                }
                (exit_code::OK, Some(1..), _) => {
                    Some("pytest ended with exit code 0, and its report has failures".to_owned())
                }
                (exit_code::TESTS_FAILED, Some(0), _) => Some(
                    "pytest ended with exit code 1, and no test failed in its report: something \
                     else failed the run, such as a plugin (is coverage below its limit?)"
                        .to_owned(),
                ),
                (exit_code::NO_TESTS_COLLECTED, _, Some(false)) => Some(
                    "pytest ended with exit code 5 (no tests), and its report has tests".into(),
                ),
                (exit_code::INTERRUPTED, None | Some(0), _) => {
                    Some("pytest was interrupted (exit code 2)".to_owned())
                }
                (exit_code::INTERNAL_ERROR, ..) => {
                    Some("pytest itself failed (exit code 3)".to_owned())
                }
                (exit_code::USAGE_ERROR, ..) => Some(
                    "pytest could not use its arguments or its configuration (exit code 4)"
                        .to_owned(),
                ),
                (
                    exit_code::OK
                    | exit_code::TESTS_FAILED
                    | exit_code::INTERRUPTED
                    | exit_code::NO_TESTS_COLLECTED,
                    ..,
                ) => None,
                _ => Some(format!("the run ended with exit code {code}, which pytest has not")),
            }
        };
        let status = match (&wrong, code) {
            (None, exit_code::OK) if is_empty == Some(true) => RunStatus::NoTests,
            (None, exit_code::OK) => RunStatus::Passed,
            (None, exit_code::TESTS_FAILED) => RunStatus::Failed,
            (None, exit_code::NO_TESTS_COLLECTED) => RunStatus::NoTests,
            // Without a reason: what could not be collected is in the report.
            (Some(_) | None, _) => RunStatus::Error,
        };
        Self { status, reason: wrong }
    }

    /// A run that ended otherwise: by a limit, or because it was not wanted any more.
    pub(super) fn of_status(status: RunStatus) -> Self {
        Self { status, reason: None }
    }
}

/// An exit code in words.
pub(super) fn ending(code: i32) -> String {
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
        for (code, report, is_complete, status, reason) in [
            (0, report(9, 0, 0), true, RunStatus::Passed, ""),
            (0, none.clone(), true, RunStatus::NoTests, ""),
            (1, report(8, 1, 0), true, RunStatus::Failed, ""),
            (1, report(8, 0, 1), true, RunStatus::Failed, ""),
            (2, report(0, 0, 1), true, RunStatus::Error, ""),
            (5, none.clone(), true, RunStatus::NoTests, ""),
            (5, None, true, RunStatus::NoTests, ""),
            // They do not agree.
            (0, report(8, 1, 0), true, RunStatus::Error, "its report has failures"),
            (0, None, true, RunStatus::Error, "left no report"),
            (1, report(9, 0, 0), true, RunStatus::Error, "no test failed in its report"),
            (1, None, true, RunStatus::Error, "left no report"),
            (5, report(9, 0, 0), true, RunStatus::Error, "its report has tests"),
            (2, report(9, 0, 0), true, RunStatus::Error, "interrupted"),
            (2, None, true, RunStatus::Error, "interrupted"),
            (3, report(9, 0, 0), true, RunStatus::Error, "pytest itself failed"),
            (4, None, true, RunStatus::Error, "arguments or its configuration"),
            (86, report(9, 0, 0), true, RunStatus::Error, "which pytest has not"),
            // The tests ended it.
            (0, report(9, 0, 0), false, RunStatus::Error, "before pytest was done"),
            (1, report(8, 1, 0), false, RunStatus::Error, "before pytest was done"),
            (5, None, false, RunStatus::Error, "before pytest was done"),
            (-11, report(9, 0, 0), true, RunStatus::Error, "killed by signal 11 (SIGSEGV)"),
            (-9, None, false, RunStatus::Error, "killed by signal 9 (SIGKILL)"),
            (-64, None, false, RunStatus::Error, "killed by signal 64"),
        ] {
            let verdict = Verdict::of(code, report.as_ref(), is_complete);
            let told = verdict.reason.unwrap_or_default();
            let told = (verdict.status, told.contains(reason), told.is_empty());
            assert_eq!(told, (status, true, reason.is_empty()), "{code} {report:?} {is_complete}");
        }
    }
}
