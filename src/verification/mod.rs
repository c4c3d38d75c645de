//! Creates the verdict on a run: whether the script verified anything, with a Verification Context v1.0 document
//! (`spec/v1.0/verification-context.md` of QWED-AI/qwed-verification).
//!
//! | file | responsibility |
//! |---|---|
//! | `conclusion` | concludes from the checks of a run and from its ending |
//! | `document` | builds the document, its `proof_ref` and its digest |
//! | `theory` | names the theories and the packages on which the checks rely |
//! | `sources` | finds calls that make the result differ between runs |
//! | `differences` | finds all reasons why two runs may differ, for receipts |
//!
//! A verdict never decides whether a script may run. A script's own process reports the counts of its checks, so the
//! script can forge the counts. The script cannot change the static analysis.

mod conclusion;
pub(crate) mod differences;
mod document;
mod sources;
#[cfg(test)]
mod tests;
mod theory;

pub(crate) use conclusion::{Variants, has_failed};
pub(crate) use document::{
    Circumstances, Subject, TestResult, TestRun, verdict_on_run, verdict_on_tests,
    verdict_without_run,
};

use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};

use crate::safety;

/// The SHA-256 of the rules of the safety analysis. It changes when a rule is added or changed.
pub(crate) static RULES_SHA256: LazyLock<String> = LazyLock::new(|| {
    let rules: Vec<String> = safety::rules::all()
        .map(|rule| {
            let safety::rules::Rule { id, severity, targets, why, remedy, .. } = rule;
            format!("{id} {severity:?} {targets:?} {why} {remedy}\n")
        })
        .collect();
    hex::encode(Sha256::digest(rules.concat()))
});
