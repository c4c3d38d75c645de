//! Runs variants of a verified script. A variant is the script with other numbers or operators. If every check also
//! holds in the variants, no check tests the claim.
//!
//! A variant is a part of the script's own run: it has the same turn, sandbox and limits, and its output is dropped.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::executor::{Echo, Executor, Outcome, RunLimits};
use crate::gateway::{AuthorizedScript, ScriptNames};
use crate::ledger::Proof;
use crate::safety::{Change, variant};
use crate::verdict::{CheckState, Conclusion, Verdict};
use crate::verification::{Variants, has_failed};

use super::Scripts;

/// The ways in which variants change the numbers of the script, in the order in which the variants run.
const OF_NUMBERS: [Change; 3] = [Change::Larger, Change::Smaller, Change::Slightly];

/// The time that a variant may take in addition to twice the time of the script.
const EXTRA_TIME: Duration = Duration::from_secs(1);

/// A finished run of a script, with everything that is necessary to run variants of the script.
pub(super) struct Judged<'r> {
    pub(super) script: &'r AuthorizedScript,
    pub(super) limits: RunLimits,
    pub(super) outcome: &'r Outcome,
    pub(super) verdict: &'r Verdict,
    /// The token that authenticated the caller. The token must still be valid when a variant starts.
    pub(super) proof: Option<Proof>,
    pub(super) cancel: &'r CancellationToken,
    pub(super) executor: &'r Arc<dyn Executor>,
}

enum OfVariant {
    CheckFailed,
    AllHeld,
    /// The script has no variant with this change, the gateway refuses the variant, or the run of the variant shows
    /// nothing about the checks.
    Nothing,
    /// The variant did not start, or did not end by itself. With more time, it might show something about the checks.
    DidNotEnd,
}

impl Scripts {
    /// Runs at most four variants of a verified script, and returns their result. The flag is `true` if the result
    /// could differ on a less busy machine.
    pub(super) async fn run_variants(&self, run: Judged<'_>) -> (Variants, bool) {
        // A variant does not evaluate the call of a test, so it does not execute the checks that the call executes.
        if !run.script.call().is_empty() {
            return (Variants::NotRun, false);
        }
        let Some(names) = run.script.names() else { return (Variants::NotAllHeld, false) };
        if run.verdict.outcome != Conclusion::Verified || has_general_check(names, run.verdict) {
            return (Variants::NotAllHeld, false);
        }
        let timeout = run.limits.timeout.min(2 * run.outcome.duration + EXTRA_TIME);
        let run =
            Judged { limits: RunLimits { timeout, takes_pictures: false, ..run.limits }, ..run };
        let (mut result, mut depends_on_load) = (Variants::NotAllHeld, false);
        for change in OF_NUMBERS.into_iter().chain([Change::Operators]) {
            if change == Change::Operators && result != Variants::AllHeld {
                break;
            }
            match self.of_variant(&run, change).await {
                OfVariant::CheckFailed => return (Variants::NotAllHeld, false),
                OfVariant::AllHeld => result = Variants::AllHeld,
                OfVariant::Nothing => {}
                OfVariant::DidNotEnd => depends_on_load = true,
            }
            if run.cancel.is_cancelled() {
                return (Variants::NotRun, true);
            }
        }
        (result, depends_on_load)
    }

    async fn of_variant(&self, run: &Judged<'_>, change: Change) -> OfVariant {
        let Some(variant) = variant(run.script.source().as_str(), change) else {
            return OfVariant::Nothing;
        };
        if run.cancel.is_cancelled() || self.require(run.proof, None).await.is_err() {
            return OfVariant::DidNotEnd;
        }
        let Some(variant) = self.permitted_variant(run.script, variant).await else {
            return OfVariant::Nothing;
        };
        let cancel = run.cancel.clone();
        let ran = Self::execute(run.executor, variant.clone(), run.limits, cancel, Echo::default());
        let Ok(outcome) = ran.await else { return OfVariant::DidNotEnd };
        match variant.names().and_then(|names| has_failed(&names.checks, &outcome)) {
            Some(true) => OfVariant::CheckFailed,
            Some(false) => OfVariant::AllHeld,
            None if outcome.is_result() => OfVariant::Nothing,
            None => OfVariant::DidNotEnd,
        }
    }
}

/// Returns whether the script has a check that held, that can fail, and that examines all elements of a generated
/// collection. Such a check can test its claim, although the check holds in all variants. Also returns `true` if the
/// verdict omits checks, because one of them may be such a check.
fn has_general_check(names: &ScriptNames, verdict: &Verdict) -> bool {
    let pairs = names.checks.iter().zip(&verdict.checks);
    let mut held = pairs.filter(|(_, report)| report.state == CheckState::Held);
    verdict.checks_omitted > 0
        || held.any(|(check, report)| check.is_general && report.vacuous.is_none())
}
