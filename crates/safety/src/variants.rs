//! Creates variants of a script with other numbers or operators. A check that holds in all variants does not notice a
//! wrong claim.
//!
//! A variant changes the numbers in checks too, and changes equal numbers equally. So a check that compares a value
//! with itself still holds, but a check that compares a claim with a computed value fails.

#![expect(clippy::wildcard_enum_match_arm, reason = "few expressions have numbers or operators")]

use foldhash::HashSet;
use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{CmpOp, Expr, Number, Operator, Stmt};
use ruff_text_size::{Ranged as _, TextRange};

use crate::bounds::{self, Nesting};

/// The maximum size of a script that has variants, in bytes.
const SOURCE_BYTES_MAX: usize = 64 * 1024;
/// The maximum number of digits of a number that is changed.
const DIGITS_MAX: usize = 15;
/// The minimum absolute value of a float that is changed. Smaller floats are usually tolerances.
const FLOAT_MIN: f64 = 1e-4;

/// How a variant differs from its script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// Numbers are larger.
    Larger,
    /// The integers 1 and 2 are larger, and all other numbers are smaller.
    Smaller,
    /// Floats and integers above 3 are slightly larger. Integers up to 3 are unchanged, because they are often indices
    /// or parts of formulas.
    Slightly,
    /// Operators outside of checks are different, and all numbers are the same.
    Operators,
}

impl Change {
    /// Returns three factors. Each float is multiplied by one of these factors.
    fn factors(self) -> [f64; 3] {
        match self {
            Self::Larger => [1.37, 1.21, 1.55],
            Self::Smaller => [0.73, 0.81, 0.6],
            Self::Slightly | Self::Operators => [1.07, 1.13, 1.25],
        }
    }

    /// Returns the changed integer, or `None` if the change does not affect the integer.
    fn integer(self, number: i64) -> Option<i64> {
        // The number has at most 15 digits, so the product does not overflow.
        let part = |percent: [i64; 3]| {
            let percent = pick(number.unsigned_abs(), &percent);
            (number.saturating_mul(percent) / 100).max(1)
        };
        match (self, number) {
            (_, ..=0) | (Self::Operators, _) | (Self::Slightly, ..=3) => None,
            (Self::Larger, ..=3) | (Self::Smaller, ..=2) => Some(number + 1),
            (Self::Larger, ..=19) => Some(number + pick(number.unsigned_abs(), &[1, 2, 3])),
            (Self::Smaller, ..=9) => Some(number - 1),
            (Self::Larger, _) => Some(number + part([7, 13, 21])),
            (Self::Smaller, _) => Some(number - part([7, 13, 21])),
            (Self::Slightly, _) => Some(number + part([5, 11, 17])),
        }
    }

    fn float(self, number: f64) -> Option<f64> {
        let is_changed = self != Self::Operators && number.is_finite() && number.abs() >= FLOAT_MIN;
        is_changed.then(|| number * pick(number.to_bits(), &self.factors()))
    }

    /// Returns the changed text of a number in decimal notation.
    fn decimal(self, text: &str) -> Option<String> {
        if text.len() > DIGITS_MAX {
            return None;
        }
        if let Some((_, decimals)) = text.split_once('.') {
            let number = self.float(text.parse().ok()?)?;
            return Some(format!("{number:.*}", decimals.len()));
        }
        let number = self.integer(text.parse().ok()?)?;
        Some(format!(
            "{number:0width$}",
            width = if text.starts_with('0') { text.len() } else { 0 }
        ))
    }
}

/// Returns one of the choices. The choice depends only on `number`.
fn pick<T: Copy>(number: u64, choices: &[T; 3]) -> T {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    match mixed % 3 {
        0 => choices[0],
        1 => choices[1],
        _ => choices[2],
    }
}

/// Returns a variant of a script; `None` if the variant would equal the script, or if the script is too large or
/// invalid.
pub fn variant(source: &str, change: Change) -> Option<String> {
    if source.len() > SOURCE_BYTES_MAX || !matches!(bounds::nesting(source), Nesting::Shallow) {
        return None;
    }
    let module = ruff_python_parser::parse_module(source).ok()?.into_syntax();
    let mut writer = Writer {
        source,
        change,
        edits: Vec::new(),
        checks: HashSet::default(),
        is_in_check: false,
    };
    writer.visit_body(&module.body);
    let mut edits = writer.edits;
    if edits.is_empty() {
        return None;
    }
    edits.sort_unstable_by_key(|(range, _)| range.start());
    let (mut text, mut at) = (String::with_capacity(source.len() + 64), 0);
    for (range, new) in edits {
        text.push_str(source.get(at..range.start().to_usize())?);
        // The old number may follow a word without a space, as in `return.5`. A new number that starts with a digit
        // needs a space.
        if text.ends_with(char::is_alphanumeric) && new.starts_with(|c: char| c.is_ascii_digit()) {
            text.push(' ');
        }
        text.push_str(&new);
        at = range.end().to_usize();
    }
    text.push_str(source.get(at..)?);
    (text != source).then_some(text)
}

struct Writer<'s> {
    source: &'s str,
    change: Change,
    edits: Vec<(TextRange, String)>,
    /// The conditions of `if` statements that are checks.
    checks: HashSet<TextRange>,
    is_in_check: bool,
}

impl Writer<'_> {
    fn text(&self, range: TextRange) -> &str {
        self.source.get(range.to_std_range()).unwrap_or_default()
    }

    fn number(&mut self, number: &Number, range: TextRange) {
        let new = match number {
            Number::Int(int) => {
                let int = int.as_i64().filter(|_| usize::from(range.len()) <= 2 * DIGITS_MAX);
                let int = int.filter(|int| int.to_string().len() <= DIGITS_MAX);
                int.and_then(|int| self.change.integer(int)).map(|int| int.to_string())
            }
            Number::Float(float) => self.change.float(*float).map(|float| format!("{float:?}")),
            Number::Complex { .. } => None,
        };
        if let Some(new) = new {
            self.edits.push((range, new));
        }
    }

    /// Changes the numbers in a string literal.
    fn string(&mut self, range: TextRange) {
        let text = self.text(range);
        // A string with a backslash or `0-9` is probably a regular expression. The numbers in it are not data.
        if text.contains('\\') || text.contains("0-9") {
            return;
        }
        let mut new = String::with_capacity(text.len());
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let (mut rest, mut before) = (text, ' ');
        while let Some(first) = rest.chars().next() {
            let digits =
                rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
            let (number, after) = rest.split_at(digits);
            let is_number = first.is_ascii_digit() && !is_part(before);
            let is_whole = is_number
                && !after.chars().next().is_some_and(is_part)
                && !number.ends_with('.')
                && number.matches('.').count() < 2;
            let width = if is_number { digits } else { first.len_utf8() };
            let (taken, after) = rest.split_at(width);
            match is_whole.then(|| self.change.decimal(number)).flatten() {
                Some(changed) => new.push_str(&changed),
                None => new.push_str(taken),
            }
            before = taken.chars().next_back().unwrap_or(' ');
            rest = after;
        }
        if new != text {
            self.edits.push((range, new));
        }
    }

    /// Changes the operator between two operands.
    fn operator(&mut self, between: TextRange, old: &str, new: &str) {
        let text = self.text(between);
        if self.is_in_check || self.change != Change::Operators || text.contains('#') {
            return;
        }
        if let Some(at) = text.find(old).and_then(|at| u32::try_from(at).ok()) {
            let start = between.start() + ruff_text_size::TextSize::new(at);
            let range = TextRange::at(start, ruff_text_size::TextSize::of(old));
            self.edits.push((range, new.to_owned()));
        }
    }

    fn within_check(&mut self, walk: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.is_in_check, true);
        walk(self);
        self.is_in_check = outer;
    }
}

fn other_operator(operator: Operator) -> Option<&'static str> {
    Some(match operator {
        Operator::Add => "-",
        Operator::Sub | Operator::Mult => "+",
        Operator::Div | Operator::FloorDiv | Operator::Pow => "*",
        Operator::BitAnd | Operator::BitXor => "|",
        Operator::BitOr => "&",
        Operator::Mod => "//",
        Operator::LShift => ">>",
        Operator::RShift => "<<",
        Operator::MatMult => return None,
    })
}

fn other_comparison(op: CmpOp) -> Option<&'static str> {
    Some(match op {
        CmpOp::Lt => "<=",
        CmpOp::LtE => "<",
        CmpOp::Gt => ">=",
        CmpOp::GtE => ">",
        CmpOp::Eq => "!=",
        CmpOp::NotEq => "==",
        _ => return None,
    })
}

/// Returns whether one of the statements raises, exits or calls an assertion function.
fn ends(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::Raise(_) => true,
        Stmt::Expr(it) => is_call_of_check(&it.value),
        _ => false,
    })
}

/// Returns whether an expression calls a function that asserts or exits, judging by the name of the function.
fn is_call_of_check(expr: &Expr) -> bool {
    let Expr::Call(call) = expr else { return false };
    let name = match &*call.func {
        Expr::Name(name) => name.id.as_str(),
        Expr::Attribute(of) => of.attr.as_str(),
        _ => return false,
    };
    name.starts_with("assert") || matches!(name, "exit" | "quit" | "_exit" | "fail")
}

impl<'a> Visitor<'a> for Writer<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Assert(_) => return self.within_check(|it| walk_stmt(it, stmt)),
            Stmt::Expr(it) if is_call_of_check(&it.value) => {
                return self.within_check(|it| walk_stmt(it, stmt));
            }
            Stmt::If(it) => {
                let clauses = it.elif_else_clauses.iter();
                let is_check = ends(&it.body) || clauses.clone().any(|clause| ends(&clause.body));
                if is_check {
                    self.checks.insert(it.test.range());
                    self.checks.extend(clauses.filter_map(|it| it.test.as_ref()).map(Expr::range));
                }
            }
            Stmt::AugAssign(it) => {
                if let Some(new) = other_operator(it.op) {
                    let between = TextRange::new(it.target.end(), it.value.start());
                    self.operator(between, it.op.as_str(), new);
                }
            }
            _ => {}
        }
        walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if self.checks.remove(&expr.range()) {
            return self.within_check(|it| it.visit_expr(expr));
        }
        match expr {
            Expr::NumberLiteral(it) => self.number(&it.value, it.range),
            Expr::StringLiteral(it) => {
                for part in &it.value {
                    self.string(part.range);
                }
            }
            // F-strings are not changed, because a literal in an f-string can be a part of a format specification.
            Expr::FString(_) => return,
            Expr::BinOp(it) => {
                if let Some(new) = other_operator(it.op) {
                    let between = TextRange::new(it.left.end(), it.right.start());
                    self.operator(between, it.op.as_str(), new);
                }
            }
            Expr::Compare(it) => {
                if let ([op], [right]) = (&*it.ops, &*it.comparators)
                    && let Some(new) = other_comparison(*op)
                {
                    let between = TextRange::new(it.left.end(), right.start());
                    self.operator(between, op.as_str(), new);
                }
            }
            _ => {}
        }
        walk_expr(self, expr);
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, variant};

    #[track_caller]
    fn assert_variant(source: &str, change: Change, expected: Option<&str>) {
        assert_eq!(variant(source, change).as_deref(), expected, "{source}");
    }

    #[test]
    fn equal_numbers_change_equally() {
        let source = "claim = 215\nmemo = {(10, 4): 215}\nassert memo[10, 4] == claim\n";
        let other = variant(source, Change::Larger).unwrap();
        let number = other.lines().next().unwrap().strip_prefix("claim = ").unwrap();
        assert_ne!(number, "215");
        assert!(other.contains(&format!(": {number}}}")), "{other}");
    }

    #[test]
    fn numbers_in_texts_change_but_not_in_names() {
        let source = "x = f('9 of 9, v1.2 2026-01-09')";
        assert_variant(source, Change::Smaller, Some("x = f('8 of 8, v1.2 1885-02-08')"));
    }

    #[test]
    fn a_number_next_to_a_keyword_stays_a_number() {
        let source = "def f():\n    return.25\nx = 7if f()else 9";
        let other = variant(source, Change::Larger).unwrap();
        ruff_python_parser::parse_module(&other).unwrap();
        assert!(other.contains("return 0."), "{other}");
    }

    #[test]
    fn tolerances_zero_and_small_numbers_can_stay() {
        assert_variant("assert abs(f(0)) < 1e-9", Change::Larger, None);
        assert_variant("x = y[1] + 2", Change::Slightly, None);
        assert_variant("x = f'{y:.2f}'", Change::Larger, None);
        assert_variant("x = (", Change::Larger, None);
        assert_variant("x = re.findall('[0-9]+ of', y)", Change::Larger, None);
    }

    #[test]
    fn operators_of_checks_stay() {
        let source = "x = a*b\nif x - 2 > y:\n    raise ValueError\nassert x + y == z\n";
        let expected = "x = a+b\nif x - 2 > y:\n    raise ValueError\nassert x + y == z\n";
        assert_variant(source, Change::Operators, Some(expected));
        assert_variant("y = x < 3\nx **= 2", Change::Operators, Some("y = x <= 3\nx *= 2"));
    }
}
