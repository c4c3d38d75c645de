//! What a script would do that it must not: a static pre-filter over the syntax tree.
//!
//! Pure: source text in, [`Finding`]s out; no I/O, no state. It explains itself to the model that
//! wrote the script. It does not contain anything: that is the executor's business.
//!
//! `bounds` (no input can crash the parser) → `parse` → `resolve` (what a name stands for) →
//! `check` (walk, compare with `rules`) → `finding`. When the source does not parse, `fallback`
//! looks for raw patterns. This folder is the only one that names Ruff's crates, which are
//! published without a semver promise.

mod bounds;
mod check;
mod fallback;
mod finding;
mod resolve;
mod rules;
#[cfg(test)]
mod tests;

pub use bounds::{NESTING_MAX, SOURCE_BYTES_MAX};
pub use finding::{Finding, FindingKind, Position};
pub use rules::{RULES, Rule, Target};

use bounds::Nesting;
use finding::Found;
use ruff_python_ast::PySourceType;
use thiserror::Error;

/// Why the analysis has no answer. The gateway takes either as a refusal.
#[derive(Debug, Error)]
pub enum AnalysisError {
    /// The thread with the large stack could not be started.
    #[error("no thread for the analysis")]
    StartThread(#[source] std::io::Error),
    /// A defect in the parser or in the rules.
    #[error("the analysis stopped unexpectedly")]
    Panicked,
}

/// Analyses `source` and returns what is dangerous in it, in source order, repeats folded.
///
/// An empty list means: nothing found.
///
/// # Errors
///
/// [`AnalysisError`] when the analysis itself could not be done; never because of the source.
pub fn analyze(source: &str) -> Result<Vec<Finding>, AnalysisError> {
    if source.len() > SOURCE_BYTES_MAX {
        return Ok(vec![Finding::of_source(FindingKind::TooLarge(source.len()))]);
    }
    let analysis = || {
        std::panic::catch_unwind(|| analyze_bounded(source)).map_err(|_| AnalysisError::Panicked)
    };
    match bounds::nesting(source) {
        Nesting::Shallow => analysis(),
        Nesting::Deep => bounds::with_large_stack(analysis),
        Nesting::TooDeep => Ok(vec![Finding::of_source(FindingKind::TooDeep)]),
    }
}

/// Parses and checks. The caller has made sure that the stack holds the tree: building it, walking
/// it and dropping it all recurse as deep as the source nests.
fn analyze_bounded(source: &str) -> Vec<Finding> {
    let parsed = ruff_python_parser::parse_unchecked_source(source, PySourceType::Python);
    let found = match parsed.errors().first() {
        None => check::check(parsed.syntax()),
        Some(error) => {
            let mut found = vec![Found {
                kind: FindingKind::SyntaxError(error.error.to_string()),
                rule_id: None,
                offset: Some(error.location.start()),
            }];
            found.extend(fallback::patterns(source));
            found
        }
    };
    finding::listed(found, source)
}
