//! What a script would do that it must not: a static pre-filter over the syntax tree.
//!
//! Pure: source text in, [`Finding`]s out; no I/O, no state. It explains itself to the model that
//! wrote the script. It does not contain anything: that is the executor's business.
//!
//! In the order of the work:
//!
//! | file | what it does |
//! |---|---|
//! | `bounds` | no input can crash the parser |
//! | `encoding` | Python must read the same program as this |
//! | `symbols` | which name is bound where, and to what |
//! | `engine` | walks the statements, evaluates the expressions, and judges calls |
//! | `knowledge` | what is known about values and things from outside, and what the rules say |
//! | `finding` | what is said about it |
//! | `fallback` | raw patterns, when the source does not parse |
//!
//! What is looked for is data: [`rules`]. This folder is the only one that names Ruff's crates,
//! which are published without a semver promise.

mod bounds;
mod encoding;
mod engine;
mod fallback;
mod finding;
mod knowledge;
pub mod rules;
mod symbols;
#[cfg(test)]
mod tests;

pub use bounds::{NESTING_MAX, SOURCE_BYTES_MAX};
pub use finding::{Analysis, Finding, FindingKind, Position};
pub use rules::{Rule, Severity};

use bounds::Nesting;
use thiserror::Error;

/// Why the analysis has no answer. The gateway takes either as a refusal.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AnalysisError {
    /// The thread with the large stack could not be started.
    #[error("no thread for the analysis")]
    StartThread(#[source] std::io::Error),
    /// A defect in the parser or in the rules.
    #[error("the analysis stopped unexpectedly")]
    Panicked,
}

/// Analyses `source`: what is dangerous in it, and what is worth knowing, in source order, repeats
/// folded.
///
/// Time and memory are linear in the size of the source.
///
/// # Errors
///
/// [`AnalysisError`] when the analysis itself could not be done; never because of the source.
pub fn analyze(source: &str) -> Result<Analysis, AnalysisError> {
    if source.len() > SOURCE_BYTES_MAX {
        return Ok(refusal(FindingKind::TooLarge(source.len())));
    }
    let analysis = |level_max| {
        std::panic::catch_unwind(|| engine::check(source, level_max).into_analysis(source))
            .map_err(|_| AnalysisError::Panicked)
    };
    match bounds::nesting(source) {
        Nesting::Shallow => analysis(engine::LEVEL_MAX),
        Nesting::Deep => bounds::with_large_stack(|| analysis(NESTING_MAX))
            .map_err(AnalysisError::StartThread)?
            .unwrap_or(Err(AnalysisError::Panicked)),
        Nesting::TooDeep => Ok(refusal(FindingKind::TooDeep)),
    }
}

fn refusal(kind: FindingKind) -> Analysis {
    Analysis { findings: vec![Finding::of_source(kind)], ..Analysis::default() }
}
