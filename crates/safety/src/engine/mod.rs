//! The engine: one walk over the syntax tree evaluates every expression as far as that can be known
//! and reports what the rules find on the way.
//!
//! Any use of a dangerous object is a finding, called or not; so it does not matter where it goes
//! from there, and only what leads to such objects has to be followed: modules, namespaces, and
//! the texts that name attributes.
//!
//! `analyzer` holds the state, and is the only place that changes its modes. `statements`,
//! `expressions`, `calls` and `conditions` are one recursion: a statement holds expressions, a call
//! is one, a condition of a call may be about a text that is code, and that is analysed like a
//! script.

mod addresses;
mod analyzer;
mod calls;
mod conditions;
mod expressions;
mod flow;
mod getters;
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
use super::{bounds, encoding, fallback, symbols};
use analyzer::{Analyzer, Pass};

/// The deepest nesting of expressions, and of the names in them, that an ordinary stack holds.
pub(super) const LEVEL_MAX: usize = 150;
/// The most texts of code that are analysed one within the other.
const TEXT_DEPTH_MAX: usize = 2;
/// The deepest nesting of a text that is code; it is analysed on the same stack.
const TEXT_NESTING_MAX: usize = 40;
/// The longest formula that is analysed, in bytes.
const FORMULA_BYTES_MAX: usize = 64 * 1024;

/// Analyses a script whose expressions are followed down to `level_max`.
///
/// The caller has made sure that the stack holds the tree: building it, walking it and dropping it
/// all recurse as deep as the source nests.
pub(super) fn check(source: &str, level_max: usize) -> RawAnalysis {
    let work = Work::new(source);
    let mut checked =
        parse_and_walk(source, Pass { level_max, text_depth: 0, is_formula: false, work: &work });
    checked.steps = work.steps();
    if work.is_spent() {
        let kind = FindingKind::TooIndirect;
        checked.found.push(RawFinding { kind, rule: None, offset: None });
        checked.uses.push(UNSEEN.to_owned());
    }
    checked
}

/// Tells whether a text of code that the script runs is dangerous, or nests too deep to say.
fn is_dangerous_code(text: &str, around: Pass<'_>) -> bool {
    let text_depth = around.text_depth + 1;
    let pass = Pass { level_max: LEVEL_MAX, text_depth, is_formula: false, work: around.work };
    around.text_depth == TEXT_DEPTH_MAX
        || around.work.judge(Judgement::Code(text_depth), text, || {
            !bounds::is_nested_at_most(text, TEXT_NESTING_MAX)
                || parse_and_walk(text, pass).found.iter().any(is_blocking)
        })
}

/// Tells whether a text that is evaluated calls what it must not, or names the interpreter's
/// inside.
fn is_dangerous_formula(text: &str, work: &Work) -> bool {
    // A text without any of these neither calls nor reaches into anything.
    if !text.contains(['(', '.', '_', '\\', '@']) || text.len() > FORMULA_BYTES_MAX {
        return text.len() > FORMULA_BYTES_MAX;
    }
    work.judge(Judgement::Formula, text, || does_more_than_compute(text, work))
}

fn does_more_than_compute(text: &str, work: &Work) -> bool {
    // What pandas marks variables with.
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
    let pass = Pass { level_max: TEXT_NESTING_MAX, text_depth, is_formula: true, work };
    walk(parsed.syntax(), text, pass).found.iter().any(is_blocking)
}

/// Tells whether a word of a text that does not parse is the name of something internal.
fn names_internals(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| {
        let is_dunder = word.len() > 4 && word.starts_with("__") && word.ends_with("__");
        is_dunder || INDEX.attribute(word).is_some()
    })
}

fn is_blocking(finding: &RawFinding) -> bool {
    finding.rule.is_none_or(|rule| rule.severity == Severity::Block)
}

/// Parses and walks; where the source does not parse, searches it for the rules' patterns.
fn parse_and_walk(source: &str, pass: Pass<'_>) -> RawAnalysis {
    let mut found = Vec::from_iter(encoding::declared(source));
    let mut imports = Vec::new();
    let uses;
    let parsed = ruff_python_parser::parse_unchecked_source(source, PySourceType::Python);
    match parsed.errors().first() {
        None => {
            let walked = walk(parsed.syntax(), source, pass);
            found.extend(walked.found);
            imports = walked.imports;
            uses = walked.uses;
        }
        Some(error) => {
            uses = vec![UNSEEN.to_owned()];
            found.push(RawFinding {
                kind: FindingKind::SyntaxError(error.error.to_string()),
                rule: None,
                // What is missing at the end is missing on the last line with code.
                offset: Some(error.location.start().min(source.trim_end().text_len())),
            });
            found.extend(fallback::patterns(source));
        }
    }
    RawAnalysis { found, imports, uses, steps: 0 }
}

/// Collects everything in `module` that a rule finds, its imports and the names that it uses.
fn walk(module: &ModModule, source: &str, pass: Pass<'_>) -> RawAnalysis {
    let symbols = symbols::build(module);
    let mut analyzer = Analyzer::new(source, &symbols, pass);
    analyzer.visit_body(&module.body);
    analyzer.finish()
}
