//! Runs variants of a verified script with other numbers. If every check still holds, none of them tests the claim.
//!
//! A variant is a part of the script's own run: it has the same turn, sandbox and limits, and its output is dropped.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::executor::{Echo, Outcome, RunLimits};
use crate::gateway::{AuthorizedScript, ScriptNames};
use crate::safety::{Change, variant};
use crate::verdict::{CheckState, Conclusion, Verdict};
use crate::verification::has_failed;

use super::Scripts;

/// The changes of numbers, in the order in which variants run.
const OF_NUMBERS: [Change; 3] = [Change::Larger, Change::Smaller, Change::Slightly];

/// The time that a variant may take in addition to twice the time of the script.
const EXTRA_TIME: Duration = Duration::from_secs(1);

/// Modules with symbols and solvers. A proof about symbols can hold with any numbers, but not with other operators.
const SYMBOLIC: &[&str] = &["sympy", "z3"];

impl Scripts {
    /// Runs variants of a script, at most four. Returns whether each check of the script that held in the run, and that
    /// can fail, also held in every variant that gave a result. False if there was no result.
    pub(super) async fn hold_in_variants(
        &self,
        script: &AuthorizedScript,
        limits: RunLimits,
        outcome: &Outcome,
        verdict: &Verdict,
        cancel: &CancellationToken,
    ) -> bool {
        let Some(names) = script.names() else { return false };
        if verdict.outcome != Conclusion::Verified || has_general_check(names, verdict) {
            return false;
        }
        let timeout = limits.timeout.min(2 * outcome.duration + EXTRA_TIME);
        let limits = RunLimits { timeout, takes_pictures: false, ..limits };
        let mut all_held = false;
        for change in OF_NUMBERS {
            match self.fails_in_variant(script, limits, change, cancel).await {
                Some(true) => return false,
                Some(false) => all_held = true,
                None => {}
            }
        }
        if all_held && is_symbolic(names) {
            let fails = self.fails_in_variant(script, limits, Change::Operators, cancel).await;
            return fails != Some(true);
        }
        all_held
    }

    /// Runs one variant. Returns whether a check failed in it; `None` if there is no variant, or if it shows nothing.
    async fn fails_in_variant(
        &self,
        script: &AuthorizedScript,
        limits: RunLimits,
        change: Change,
        cancel: &CancellationToken,
    ) -> Option<bool> {
        if cancel.is_cancelled() {
            return None;
        }
        let variant = variant(script.source().as_str(), change)?;
        let variant = self.permitted_variant(script, variant).await?;
        let run = self.execute(variant.clone(), limits, cancel.clone(), Echo::default());
        let outcome = run.await.ok()?;
        has_failed(&variant.names()?.checks, &outcome)
    }
}

/// Returns whether a check that held is about all elements of a generated collection. It can hold in all variants, and
/// still test its claim.
fn has_general_check(names: &ScriptNames, verdict: &Verdict) -> bool {
    let pairs = names.checks.iter().zip(&verdict.checks);
    let mut held = pairs.filter(|(_, report)| report.state == CheckState::Held);
    verdict.checks_omitted > 0
        || held.any(|(check, report)| check.is_general && report.vacuous.is_none())
}

fn is_symbolic(names: &ScriptNames) -> bool {
    names.imports.iter().any(|import| {
        let module = import.split('.').next().unwrap_or_default();
        SYMBOLIC.contains(&module)
    })
}
