//! The safety analysis: a static pre-filter that finds in a script's syntax tree what it must not
//! do.
//!
//! Pure: source text in, [`Finding`]s out; no I/O, no state. It explains itself to the model that
//! wrote the script. It does not contain a script that runs: that is the executor's business.
//!
//! In the order of the work:
//!
//! | file | what it does |
//! |---|---|
//! | `bounds` | keeps inputs from the parser that would crash it |
//! | `encoding` | refuses sources that Python would read as another program |
//! | `symbols` | binds names: which is bound where, and to what; who calls what |
//! | `engine` | walks the statements, evaluates the expressions, and judges calls |
//! | `knowledge` | describes values and things from outside, and looks the rules up |
//! | `finding` | words and orders the findings |
//! | `work` | counts the steps, and remembers the judgements of texts |
//! | `fallback` | searches a source that does not parse for raw patterns |
//!
//! The rules are data: [`rules`]. This crate is the only one that depends on Ruff's crates,
//! which are published without a semver promise.
//!
//! A part of [`qwed-mcp`](https://docs.rs/qwed-mcp), which has it as `qwed_mcp::safety`.
//!
//! ```
//! let analysis = qwed_safety::analyze("import os\nos.system('id')").unwrap();
//! assert_eq!(analysis.findings[0].rule_id(), Some("process/os-system"));
//! ```

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
mod work;

pub use bounds::{NESTING_MAX, SOURCE_BYTES_MAX};
pub use finding::{Analysis, Finding, FindingKind, Position, UNSEEN};
pub use knowledge::stdlib::contains as is_in_standard_library;
pub use rules::{Rule, Severity};
pub use work::steps_max;

use bounds::Nesting;
use thiserror::Error;

/// An analysis without a result. The gateway takes either as a refusal.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AnalysisError {
    /// A thread with a large stack that could not be started.
    #[error("no thread for the analysis")]
    StartThread(#[source] std::io::Error),
    /// A defect in the parser or in the rules.
    #[error("the analysis stopped unexpectedly")]
    Panicked,
}

/// Analyses `source`. Findings and notes are in source order, repeats folded.
///
/// Time and memory are linear in the size of the source: a source whose analysis takes more than
/// [`steps_max`] steps is refused as too indirect.
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
    let uses = vec![UNSEEN.to_owned()];
    Analysis { findings: vec![Finding::of_source(kind)], uses, ..Analysis::default() }
}
