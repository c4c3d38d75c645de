//! The analysis: finds forbidden operations in the syntax tree of a script, before the script runs.
//!
//! The analysis is pure: it receives source text and returns [`Finding`]s. It performs no I/O and keeps no state. The
//! text of a finding is addressed to the model that wrote the script. The analysis does not confine a running script;
//! the sandbox does.
//!
//! The modules, in the order in which the analysis uses them:
//!
//! | file | responsibility |
//! |---|---|
//! | `bounds` | refuses sources that would overflow the parser's stack |
//! | `encoding` | refuses sources that Python could decode into a different program |
//! | `symbols` | builds the symbol table: where each name is bound, to which value, and where it is called |
//! | `engine` | walks the statements, evaluates the expressions, and judges calls |
//! | `knowledge` | describes values and the objects of libraries, and looks up rules |
//! | `checks` | finds the places where a condition can end the script unsuccessfully |
//! | `variants` | replaces numbers or operators in a script |
//! | `finding` | formats and orders the findings |
//! | `work` | counts the steps of the analysis, and caches the judgements of strings |
//! | `fallback` | searches the text of a source that cannot be parsed |
//!
//! The rules are data, in the module [`rules`]. No other crate of the project depends on Ruff's crates, because Ruff
//! publishes them without a semver promise.
//!
//! This crate is a part of [`qwed-mcp`](https://docs.rs/qwed-mcp), which re-exports the crate as `qwed_mcp::safety`.
//!
//! ```
//! let analysis = qwed_safety::analyze("import os\nos.system('id')").unwrap();
//! assert_eq!(analysis.findings[0].rule_id(), Some("process/os-system"));
//! ```

mod bounds;
mod checks;
mod encoding;
mod engine;
mod fallback;
mod finding;
mod knowledge;
pub mod rules;
mod symbols;
#[cfg(test)]
mod tests;
mod variants;
mod work;

pub use bounds::{NESTING_MAX, SOURCE_BYTES_MAX};
pub use checks::{Action, Check, CheckKind, Edit, FailsBy, Vacuity, check_plan};
pub use finding::{Analysis, Finding, FindingKind, Position, UNSEEN};
pub use knowledge::stdlib::contains as is_in_standard_library;
pub use rules::{Rule, Severity};
pub use variants::{Change, variant};
pub use work::steps_max;

use bounds::Nesting;
use thiserror::Error;

/// A failure of the analysis itself. The server then refuses the script.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AnalysisError {
    /// The thread with a large stack could not be started.
    #[error("no thread for the analysis")]
    StartThread(#[source] std::io::Error),
    /// The analysis panicked, because the parser or the rules have a defect.
    #[error("the analysis stopped unexpectedly")]
    Panicked,
}

/// Analyses `source`. Findings and notes are in source order. Repeats of a finding are merged into one.
///
/// Time and memory are linear in the size of the source. If the analysis takes more than [`steps_max`] steps, the
/// source is refused as too indirect.
///
/// # Errors
///
/// Returns [`AnalysisError`] if the analysis could not start or panicked.
pub fn analyze(source: &str) -> Result<Analysis, AnalysisError> {
    analyze_with_inputs(source, &[])
}

/// Analyses `source`, which may read the files that `inputs` names. The caller must ensure that these files are in the
/// folder that the script starts in, that they are plain files, and that the script may read their content.
///
/// # Errors
///
/// As for [`analyze`].
///
/// ```
/// let source = "print(open('orders.csv').read())";
/// assert_eq!(qwed_safety::analyze(source).unwrap().findings.len(), 1);
/// let analysis = qwed_safety::analyze_with_inputs(source, &["orders.csv"]).unwrap();
/// assert!(analysis.findings.is_empty());
/// ```
pub fn analyze_with_inputs(source: &str, inputs: &[&str]) -> Result<Analysis, AnalysisError> {
    if source.len() > SOURCE_BYTES_MAX {
        return Ok(refusal(FindingKind::TooLarge(source.len())));
    }
    let analysis = |level_max| {
        std::panic::catch_unwind(|| engine::check(source, inputs, level_max).into_analysis(source))
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

/// Returns whether `source` is exactly one expression, and nests little enough for the default stack of a thread.
pub fn is_expression(source: &str) -> bool {
    source.len() <= SOURCE_BYTES_MAX
        && matches!(bounds::nesting(source), Nesting::Shallow)
        && std::panic::catch_unwind(|| ruff_python_parser::parse_expression(source).is_ok())
            .unwrap_or(false)
}

fn refusal(kind: FindingKind) -> Analysis {
    let uses = vec![UNSEEN.to_owned()];
    Analysis { findings: vec![Finding::of_source(kind)], uses, ..Analysis::default() }
}
