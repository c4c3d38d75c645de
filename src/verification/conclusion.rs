//! Concludes whether a run has verified anything, from the counters of its checks and from the end of the run.

use crate::executor::{CheckCounts, Ending, Outcome};
use crate::safety::{Check, CheckKind, FailsBy, Vacuity};
use crate::verdict::{CheckReport, CheckState, Compared, Conclusion};

/// The result of running variants of a script. A variant is the script with other numbers or operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variants {
    /// No variants were requested, a test expression is evaluated after the script, or the run was cancelled before the
    /// variants had ended.
    NotRun,
    /// The variants do not show that the checks hold for any numbers: a check failed in a variant, no variant had a
    /// result, or no variants were run because the conclusion does not depend on variants.
    NotAllHeld,
    /// All checks held in all variants with a result.
    AllHeld,
}

/// The number of times that a check held, and the number of times that the check failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    held: u64,
    failed: u64,
    /// Whether the check is about the elements of a collection that was always empty.
    is_empty: bool,
}

impl Tally {
    /// Reads the three counters of a check. [`CheckKind`] defines the meaning of the first two.
    fn of(check: &Check, [first, second, elements]: [u64; 3]) -> Self {
        let (held, failed) = match check.kind {
            CheckKind::Assert | CheckKind::FailsUnless | CheckKind::Exit => (first, second),
            CheckKind::FailsIf | CheckKind::Skipped => (second, first),
            CheckKind::Call => (second, first.saturating_sub(second)),
            // An `assert` of a tuple display cannot fail.
            CheckKind::Tuple | _ => (first, 0),
        };
        Self { held, failed, is_empty: check.counts_elements && elements == 0 }
    }

    fn state(self) -> CheckState {
        match self {
            Self { failed: 1.., .. } => CheckState::Failed,
            Self { held: 1.., .. } => CheckState::Held,
            Self { .. } => CheckState::NotReached,
        }
    }
}

/// The result of the checks of a run.
#[derive(Debug)]
pub(super) struct Concluded {
    pub(super) conclusion: Conclusion,
    pub(super) reports: Vec<CheckReport>,
}

/// Concludes whether a run verified anything. `differs` is true if the result can differ between runs. If `counts` is
/// `None` or does not match `checks`, all checks are treated as not executed.
pub(super) fn conclude(
    checks: &[Check],
    counts: Option<&CheckCounts>,
    outcome: &Outcome,
    differs: bool,
    variants: Variants,
) -> Concluded {
    let counts = counts.filter(|counts| counts.of(checks.len()).is_some());
    let tallies: Vec<Tally> = match counts.and_then(|counts| counts.of(checks.len())) {
        Some(counts) => {
            let pairs = checks.iter().zip(counts);
            pairs.map(|(check, counts)| Tally::of(check, *counts)).collect()
        }
        None => vec![Tally::default(); checks.len()],
    };
    let unchanged = (variants == Variants::AllHeld).then_some(Vacuity::Unchanged);
    let vacuity = |check: &Check, tally: Tally| {
        let held = unchanged.filter(|_| tally.held > 0);
        vacuity(check, tally).or(held)
    };
    let judged = || checks.iter().zip(&tallies);
    let is_cut_short = outcome.stdout.is_truncated || outcome.stderr.is_truncated;
    let conclusion = match outcome.ending {
        Ending::Exited(0..) if is_cut_short => Conclusion::Inconclusive,
        Ending::Exited(0) if was_swallowed(judged()) => Conclusion::Vacuous,
        Ending::Exited(0) => of_success(
            judged().filter(|it| it.1.held > 0).map(|(check, tally)| vacuity(check, *tally)),
            differs,
        ),
        Ending::Exited(1..) if tallies.iter().any(|tally| tally.failed > 0) => Conclusion::Refuted,
        Ending::Exited(_) | Ending::TimedOut | Ending::Cancelled | Ending::OutOfMemory => {
            Conclusion::Inconclusive
        }
    };
    let compared = |index| counts.map_or(&[][..], |counts| counts.compared(index));
    let reports = judged().enumerate();
    let reports = reports.map(|(index, (check, tally))| {
        report(check, *tally, vacuity(check, *tally), compared(index))
    });
    let reports = reports.collect();
    Concluded { conclusion, reports }
}

/// Returns whether checks failed in a successful run more often than the script expects. For example, a script expects
/// a failure in a block of `pytest.raises(AssertionError)`. Checks that fail with another exception than
/// `AssertionError` or `SystemExit` are ignored, because scripts use such exceptions for control flow.
fn was_swallowed<'a>(judged: impl Iterator<Item = (&'a Check, &'a Tally)>) -> bool {
    let (mut failed, mut required) = (0_u64, 0_u64);
    for (check, tally) in judged {
        if check.requires_failure {
            required = required.saturating_add(tally.held);
        } else if !matches!(check.fails_by, FailsBy::OtherException(_)) {
            failed = failed.saturating_add(tally.failed);
        }
    }
    failed > required
}

/// Returns whether a check failed in a run. `None` if the run shows nothing about the script's checks: no check was
/// executed, or the run was cut short or failed for another reason than a check.
pub(crate) fn has_failed(checks: &[Check], outcome: &Outcome) -> Option<bool> {
    let counts = outcome.check_counts.as_ref();
    match conclude(checks, counts, outcome, false, Variants::NotRun) {
        Concluded { conclusion: Conclusion::Refuted, .. } => Some(true),
        Concluded { conclusion: Conclusion::Inconclusive | Conclusion::NothingChecked, .. } => None,
        Concluded { reports, .. } => {
            Some(reports.iter().any(|report| report.state == CheckState::Failed))
        }
    }
}

/// Returns the conclusion about a run that succeeded. `held` has one item for each check that held: the reason why the
/// check proves nothing, or `None` if the check proves something. `differs` is true if the result can differ between
/// runs.
fn of_success(held: impl Iterator<Item = Option<Vacuity>>, differs: bool) -> Conclusion {
    let held: Vec<Option<Vacuity>> = held.collect();
    if held.is_empty() {
        Conclusion::NothingChecked
    } else if held.iter().all(Option::is_some) {
        Conclusion::Vacuous
    } else if differs {
        Conclusion::Inconclusive
    } else {
        Conclusion::Verified
    }
}

/// Returns the reason why a check that held proves nothing.
fn vacuity(check: &Check, tally: Tally) -> Option<Vacuity> {
    check.vacuous.or((tally.held > 0 && tally.is_empty).then_some(Vacuity::Empty))
}

/// Creates the report of a check. `compared` contains the expressions that a failed check has compared, with their
/// values.
fn report(
    check: &Check,
    tally: Tally,
    vacuous: Option<Vacuity>,
    compared: &[(String, String)],
) -> CheckReport {
    let has_failed = tally.state() == CheckState::Failed;
    let compared = compared.iter().filter(|_| has_failed);
    CheckReport {
        line: check.line,
        text: check.text.clone(),
        state: tally.state(),
        vacuous: vacuous.map(|reason| reason.id().to_owned()),
        times: tally.held.saturating_add(tally.failed),
        compared: compared
            .map(|(text, value)| Compared { text: text.clone(), value: value.clone() })
            .collect(),
    }
}
