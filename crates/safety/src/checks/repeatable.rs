//! Finds scripts whose checks a run can count without editing the script, which saves half a millisecond.
//!
//! If a check is an `assert` in the body of the module, then a run executes it at most once. The line at which the
//! script ends determines whether the check held. To report the values that a failed check compared, the run executes
//! the check again, with the usual edits. So the check must take little time and have no effects.

#![expect(clippy::wildcard_enum_match_arm, reason = "all other expressions may have effects")]

use ruff_python_ast::visitor::{Visitor, walk_expr};
use ruff_python_ast::{CmpOp, Expr, Number, Operator, Stmt, StmtAssert};
use ruff_source_file::LineIndex;
use ruff_text_size::Ranged;

use super::imports::Imports;
use super::{Action, Check, Edit, flags};
use crate::work::Work;

/// Functions without effects that take little more time than reading their arguments.
const QUICK: &[&str] = &[
    "abs",
    "bool",
    "complex",
    "decimal.Decimal",
    "dict",
    "divmod",
    "float",
    "fractions.Fraction",
    "frozenset",
    "int",
    "isinstance",
    "len",
    "list",
    "math.ceil",
    "math.cos",
    "math.exp",
    "math.fabs",
    "math.floor",
    "math.gcd",
    "math.hypot",
    "math.isclose",
    "math.isfinite",
    "math.isinf",
    "math.isnan",
    "math.isqrt",
    "math.lcm",
    "math.log",
    "math.log10",
    "math.log2",
    "math.sin",
    "math.sqrt",
    "math.tan",
    "max",
    "min",
    "ord",
    "round",
    "set",
    "sorted",
    "str",
    "sum",
    "tuple",
    "type",
];

/// Modules with values that a run can compare a second time, quickly and without effects. A script that imports other
/// modules is likely to compare other values.
const PLAIN_MODULES: &[&str] = &[
    "__future__",
    "bisect",
    "cmath",
    "collections",
    "datetime",
    "decimal",
    "fractions",
    "hashlib",
    "heapq",
    "itertools",
    "json",
    "math",
    "operator",
    "random",
    "statistics",
    "string",
    "sys",
    "textwrap",
    "typing",
];

/// The largest exponents of powers that are quick to compute. The first number applies to powers of literals. The
/// second number applies to powers of other values, which may be large.
const EXPONENT_MAX: (u8, u8) = (64, 4);

/// Replaces the edits of all checks by [`Action::Infer`], if a run can count all checks without an edit.
pub(super) fn infer_counts(
    body: &[Stmt],
    source: &str,
    imports: &Imports<'_>,
    checks: &mut [Check],
    lines: &LineIndex,
    work: &Work,
) {
    let is_plain =
        |path: &str| path.split('.').next().is_some_and(|module| PLAIN_MODULES.contains(&module));
    // `namedtuple` creates a class that the search for classes below does not find.
    if !imports.paths().all(is_plain) || source.contains("namedtuple") {
        return;
    }
    let of_module = |check: &Check| {
        let [Edit { path, action: Action::CountTest }] = &*check.edits else { return None };
        let index: usize = path.strip_prefix('b')?.parse().ok()?;
        let Stmt::Assert(assert) = body.get(index)? else { return None };
        has_own_lines(source, assert).then_some(assert)
    };
    let is_repeatable = |assert: &StmtAssert| {
        let mut effects = Effects { imports, work, found: false };
        effects.visit_expr(&assert.test);
        assert.msg.iter().for_each(|message| effects.visit_expr(message));
        !effects.found
    };
    let statements: Option<Vec<_>> =
        checks.iter().map(|check| of_module(check).filter(|it| is_repeatable(it))).collect();
    let Some(statements) = statements else { return };
    // The operators of a class of the script may have effects.
    if flags::any_statement(body, &|stmt| matches!(stmt, Stmt::ClassDef(_))) {
        return;
    }
    for (check, statement) in checks.iter_mut().zip(statements) {
        let [first, last] = [statement.start(), statement.end()].map(|at| lines.line_index(at));
        check.edits = vec![Edit { path: format!("{first}-{last}"), action: Action::Infer }];
    }
}

/// Returns whether a statement's lines contain only the statement and an optional comment, and no backslash in the
/// statement. A backslash can continue a line, or make the compiler warn.
fn has_own_lines(source: &str, statement: &impl Ranged) -> bool {
    let is_break = |c| matches!(c, '\n' | '\r');
    let (start, end) = (statement.start().to_usize(), statement.end().to_usize());
    let (Some(before), Some(text), Some(after)) =
        (source.get(..start), source.get(start..end), source.get(end..))
    else {
        return false;
    };
    let rest = after.split(is_break).next().unwrap_or_default().trim_start_matches([' ', '\t']);
    (before.is_empty() || before.ends_with(is_break))
        && (rest.is_empty() || rest.starts_with('#'))
        && !text.contains('\\')
}

/// Looks for an expression that may have effects, or that may take long.
struct Effects<'a, 'w> {
    imports: &'w Imports<'a>,
    work: &'w Work,
    found: bool,
}

impl<'s> Visitor<'s> for Effects<'_, '_> {
    fn visit_expr(&mut self, expr: &'s Expr) {
        self.work.spend(1);
        self.found |= match expr {
            Expr::Call(call) => {
                let path = self.imports.path(&call.func);
                // A `key` is a function, which may have effects. A `sum` with a start value may add lists, which takes
                // long.
                let has_key = call.arguments.find_keyword("key").is_some();
                let is_quick = path.is_some_and(|path| {
                    QUICK.contains(&&*path) && (path != "sum" || call.arguments.len() == 1)
                });
                has_key || !is_quick
            }
            Expr::BinOp(it) => match (it.op, &*it.right) {
                (Operator::Pow, Expr::NumberLiteral(exponent)) => {
                    let (of_literal, of_other) = EXPONENT_MAX;
                    let max = if it.left.is_number_literal_expr() { of_literal } else { of_other };
                    !matches!(&exponent.value, Number::Int(it) if it.as_u8().is_some_and(|it| it <= max))
                }
                (Operator::Pow | Operator::LShift, _) => true,
                _ => false,
            },
            // The compiler warns about `is` with a literal other than `None`.
            Expr::Compare(it) => {
                it.ops.iter().any(|op| matches!(op, CmpOp::Is | CmpOp::IsNot))
                    && !it.comparators.iter().all(Expr::is_none_literal_expr)
            }
            Expr::Attribute(_)
            | Expr::BoolOp(_)
            | Expr::UnaryOp(_)
            | Expr::If(_)
            | Expr::Name(_)
            | Expr::Subscript(_)
            | Expr::Slice(_)
            | Expr::Tuple(_)
            | Expr::List(_)
            | Expr::Set(_)
            | Expr::Dict(_)
            | Expr::FString(_) => false,
            literal => !literal.is_literal_expr(),
        };
        if !self.found {
            walk_expr(self, expr);
        }
    }
}
