//! Walks the syntax tree once, evaluates each expression as far as its value can be known, and reports each use that a
//! rule finds. Never runs any of the script's code.
//!
//! Any use of a dangerous object is a finding, even if the script does not call the object. So the engine need not
//! follow dangerous objects. The engine follows only the values that lead to dangerous objects: modules, namespaces,
//! and strings that name attributes. An object is external if the script does not define it. A value is open if it may
//! have alternatives that the analysis does not know.
//!
//! `analyzer` contains the state, and is the only module that changes the modes of the analysis. `statements`,
//! `expressions`, `calls` and `conditions` recurse into each other. Statements contain expressions, and calls are
//! expressions. A condition of a rule may require the analysis of a string of code.

mod addresses;
mod analyzer;
mod calls;
mod conditions;
mod expressions;
mod flow;
mod getters;
mod inputs;
mod own;
mod passing;
mod statements;

use ruff_python_ast::visitor::Visitor as _;
use ruff_python_ast::{ModModule, PySourceType};
use ruff_text_size::TextLen as _;

use super::finding::{FindingKind, RawAnalysis, RawFinding, UNSEEN};
use super::knowledge::index::INDEX;
use super::rules::Severity;
use super::work::{Judgement, Work};
use super::{bounds, checks, encoding, fallback, symbols};
use analyzer::{Analyzer, Pass};

/// The maximum nesting of expressions for which the default stack of a thread is large enough. If the analysis follows
/// a name to an expression, the levels of this expression are added to the levels around the name.
pub(super) const LEVEL_MAX: usize = 150;
/// The maximum nesting depth of strings that a script runs as code. Such a string may itself run another string as
/// code. A string at a greater depth is treated as dangerous.
const TEXT_DEPTH_MAX: usize = 2;
/// The maximum nesting of the source in a string that a script runs as code, in levels. The string is analysed on the
/// same stack as the script.
const TEXT_NESTING_MAX: usize = 40;
/// The maximum size of a formula that is analysed, in bytes. A longer formula is treated as dangerous.
const FORMULA_BYTES_MAX: usize = 64 * 1024;

/// Analyses a script, and follows its expressions down to nesting level `level_max`.
///
/// The caller must ensure that the stack is large enough for the syntax tree. Building, walking and dropping the tree
/// all recurse to the depth of the source's nesting. `inputs` are the names of the files that the script may read.
pub(super) fn check(source: &str, inputs: &[&str], level_max: usize) -> RawAnalysis {
    let work = Work::new(source);
    let pass = Pass { level_max, text_depth: 0, is_formula: false, inputs, work: &work };
    let mut checked = parse_and_walk(source, pass);
    checked.steps = work.steps();
    if work.is_spent() {
        let kind = FindingKind::TooIndirect;
        checked.found.push(RawFinding { kind, rule: None, offset: None });
        checked.uses.push(UNSEEN.to_owned());
    }
    checked
}

/// Returns whether a string that the script runs as code is dangerous, or nests too deeply to be judged.
fn is_dangerous_code(text: &str, around: Pass<'_>) -> bool {
    let text_depth = around.text_depth + 1;
    let (work, inputs) = (around.work, &[][..]);
    let pass = Pass { level_max: LEVEL_MAX, text_depth, is_formula: false, inputs, work };
    around.text_depth == TEXT_DEPTH_MAX
        || around.work.judge(Judgement::Code(text_depth), text, || {
            !bounds::is_nested_at_most(text, TEXT_NESTING_MAX)
                || parse_and_walk(text, pass).found.iter().any(is_blocking)
        })
}

/// Returns whether a string that a library evaluates as a formula makes a forbidden call, or names the interpreter's
/// internals.
fn is_dangerous_formula(text: &str, work: &Work) -> bool {
    // A string without any of these characters cannot call a function or take an attribute, so it is harmless.
    if !text.contains(['(', '.', '_', '\\', '@']) || text.len() > FORMULA_BYTES_MAX {
        return text.len() > FORMULA_BYTES_MAX;
    }
    work.judge(Judgement::Formula, text, || does_more_than_compute(text, work))
}

fn does_more_than_compute(text: &str, work: &Work) -> bool {
    // pandas marks variables with `@` or backticks. Spaces replace these marks, so that the parser reads the variables
    // as names.
    let text = text.replace(['@', '`'], " ");
    let text = text.trim();
    if !bounds::is_nested_at_most(text, TEXT_NESTING_MAX) {
        return names_internals(text);
    }
    let parsed = ruff_python_parser::parse_unchecked_source(text, PySourceType::Python);
    if parsed.has_invalid_syntax() {
        return names_internals(text);
    }
    let text_depth = TEXT_DEPTH_MAX;
    let inputs = &[];
    let pass = Pass { level_max: TEXT_NESTING_MAX, text_depth, is_formula: true, inputs, work };
    walk(parsed.syntax(), text, pass).found.iter().any(is_blocking)
}

/// Returns whether a string contains a word that is the name of one of the interpreter's internals. Used for strings
/// that cannot be parsed.
fn names_internals(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| {
        let is_dunder = word.len() > 4 && word.starts_with("__") && word.ends_with("__");
        is_dunder || INDEX.attribute(word).is_some()
    })
}

fn is_blocking(finding: &RawFinding) -> bool {
    finding.rule.is_none_or(|rule| rule.severity == Severity::Block)
}

/// Parses and walks a source. If the source has a syntax error, searches its text for the patterns of the rules
/// instead.
fn parse_and_walk(source: &str, pass: Pass<'_>) -> RawAnalysis {
    let mut found = Vec::from_iter(encoding::declared(source));
    let (mut imports, mut checks) = (Vec::new(), Vec::new());
    let uses;
    let parsed = ruff_python_parser::parse_unchecked_source(source, PySourceType::Python);
    match parsed.errors().first() {
        None => {
            let walked = walk(parsed.syntax(), source, pass);
            found.extend(walked.found);
            imports = walked.imports;
            uses = walked.uses;
            if pass.text_depth == 0 {
                checks = checks::find(&parsed, source);
            }
        }
        Some(error) => {
            uses = vec![UNSEEN.to_owned()];
            found.push(RawFinding {
                kind: FindingKind::SyntaxError(error.error.to_string()),
                rule: None,
                // If a token is missing at the end of the source, the error is reported on the last line with code, and
                // not on a blank line after it.
                offset: Some(error.location.start().min(source.trim_end().text_len())),
            });
            found.extend(fallback::patterns(source));
        }
    }
    RawAnalysis { found, imports, uses, checks, steps: 0 }
}

/// Collects the findings of the rules in `module`, the imports of `module`, and the names that `module` uses.
fn walk(module: &ModModule, source: &str, pass: Pass<'_>) -> RawAnalysis {
    let symbols = symbols::build(module);
    let mut analyzer = Analyzer::new(source, &symbols, pass);
    analyzer.visit_body(&module.body);
    analyzer.finish()
}
