//! Finds scripts whose checks a run can count without an edit of the script, which saves half a millisecond.
//!
//! If a check is an `assert` in the body of the module, then a run executes it at most once. The line at which the
//! script ends determines whether the check held. Only the values of a failed check are then unknown. So the run
//! executes the failed statement again, with the usual edits. This requires that the statement takes little time and
//! has no effects.

#![expect(clippy::wildcard_enum_match_arm, reason = "all other expressions may have effects")]

use ruff_python_ast::visitor::{Visitor, walk_expr};
use ruff_python_ast::{Expr, Number, Operator, Stmt, StmtAssert};
use ruff_source_file::LineIndex;
use ruff_text_size::Ranged;

use super::imports::Imports;
use super::{Action, Check, CheckKind, Edit, flags};
use crate::work::Work;

/// Functions that have no effects, and that take at most as long as reading their arguments.
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

/// The largest exponent of a quick power. A power with a large exponent takes long.
const EXPONENT_MAX: u8 = 64;

/// Replaces the edits of all checks by [`Action::Infer`], if a run can count them without an edit.
pub(super) fn infer_counts(
    body: &[Stmt],
    source: &str,
    imports: &Imports<'_>,
    checks: &mut [Check],
    lines: &LineIndex,
    work: &Work,
) {
    let of_module = |check: &Check| {
        let [Edit { path, action: Action::CountTest }] = &*check.edits else { return None };
        let index: usize = path.strip_prefix('b')?.parse().ok()?;
        let Stmt::Assert(assert) = body.get(index)? else { return None };
        let after = index.checked_sub(1).and_then(|before| body.get(before));
        let starts_line = after.is_none_or(|it| has_line_break(source, it, assert));
        let ends_line = body.get(index + 1).is_none_or(|it| has_line_break(source, assert, it));
        (check.kind == CheckKind::Assert && starts_line && ends_line).then_some(assert)
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

/// Returns whether a line break is between two statements.
fn has_line_break(source: &str, before: &impl Ranged, after: &impl Ranged) -> bool {
    let between = source.get(before.end().to_usize()..after.start().to_usize());
    between.is_some_and(|between| between.contains(['\n', '\r']))
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
                // A key is a function of the script.
                let has_key = call.arguments.find_keyword("key").is_some();
                has_key || !path.is_some_and(|path| QUICK.contains(&&*path))
            }
            Expr::BinOp(it) => match (it.op, &*it.right) {
                (Operator::Pow, Expr::NumberLiteral(it)) => {
                    !matches!(&it.value, Number::Int(it) if it.as_u8().is_some_and(|it| it <= EXPONENT_MAX))
                }
                (Operator::Pow | Operator::LShift, _) => true,
                _ => false,
            },
            Expr::Attribute(_)
            | Expr::BoolOp(_)
            | Expr::UnaryOp(_)
            | Expr::Compare(_)
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
