//! Judges whether a disjunction always holds.

#![expect(clippy::wildcard_enum_match_arm, reason = "few conditions are always true")]

use std::collections::BTreeMap;

use foldhash::HashSet;
use ruff_python_ast::{CmpOp, Operator};

use super::super::vacuity::Vacuity;
use super::super::values::{Id, Node, Op, Type, mirrored};
use super::{Judge, Truth};

impl Judge<'_, '_> {
    pub(super) fn disjunction(&self, operands: &[Id], depth: usize) -> Truth {
        let truths: Vec<Truth> = operands.iter().map(|it| self.truth_at(*it, depth)).collect();
        if truths.iter().flatten().any(|(holds, _)| *holds) || self.is_exhaustive(operands) {
            return Some((true, Vacuity::OrTrue));
        }
        let is_literal = |id: &Id| self.values.literal(*id).is_some();
        // In `x == a or b`, the number `b` is almost always true, because only 0 is false.
        let is_number = |id: &Id| {
            let of = self.values.type_of(*id);
            matches!(of, Type::Int | Type::Float | Type::Fraction | Type::Decimal)
                || match self.values.node(*id) {
                    Node::Op(Op::Binary(Operator::Sub), operands) => {
                        operands.iter().any(is_literal)
                    }
                    Node::Op(Op::Binary(operator), _) => matches!(
                        operator,
                        Operator::Add | Operator::Mult | Operator::Div | Operator::Pow
                    ),
                    _ => false,
                }
        };
        let is_comparison = |id: &Id| matches!(self.values.node(*id), Node::Op(Op::Compare(_), _));
        if operands.iter().any(is_number) && operands.iter().any(is_comparison) {
            return Some((true, Vacuity::OrTrue));
        }
        if operands.iter().any(|it| self.has_no_case(*it)) {
            return Some((true, Vacuity::Premises));
        }
        truths.into_iter().collect::<Option<Vec<_>>>()?.pop()
    }

    /// Returns whether the operands of a disjunction cover all cases: `p or not p`, or `a < b or a >= b`.
    fn is_exhaustive(&self, operands: &[Id]) -> bool {
        let negated = |id: Id| self.values.operands(id, Op::Not).and_then(|of| of.first().copied());
        if operands.iter().any(|it| negated(*it).is_some_and(|of| operands.contains(&of))) {
            return true;
        }
        // For each pair of compared values, three flags: whether an operand holds if the left value is less than, equal
        // to or greater than the right value.
        let mut cases: BTreeMap<(Id, Id), [bool; 3]> = BTreeMap::new();
        // For each Boolean value, two flags: whether an operand holds if the value is true, and whether an operand
        // holds if the value is false.
        let mut truths: BTreeMap<Id, [bool; 2]> = BTreeMap::new();
        for operand in operands {
            let Node::Op(Op::Compare(op), pair) = self.values.node(*operand) else { continue };
            let [left, right] = **pair else { continue };
            let is_literal = self.values.is_literal(right);
            let (pair, op) = if is_literal || left <= right {
                ((left, right), *op)
            } else {
                ((right, left), mirrored(*op))
            };
            if op == CmpOp::Is && self.values.type_of(left) == Type::Bool {
                let place = match self.values.node(right) {
                    Node::True => 0,
                    Node::False => 1,
                    _ => continue,
                };
                let of = truths.entry(left).or_default();
                of.iter_mut().skip(place).take(1).for_each(|it| *it = true);
                continue;
            }
            let holds = match op {
                CmpOp::Lt => [true, false, false],
                CmpOp::LtE => [true, true, false],
                CmpOp::Eq => [false, true, false],
                CmpOp::GtE => [false, true, true],
                CmpOp::Gt => [false, false, true],
                CmpOp::NotEq => [true, false, true],
                _ => continue,
            };
            let all = cases.entry(pair).or_default();
            for (case, holds) in all.iter_mut().zip(holds) {
                *case |= holds;
            }
        }
        cases.values().any(|cases| *cases == [true; 3])
            || truths.values().any(|of| *of == [true; 2])
            || self.cover_all_numbers(operands)
            || self.cover_all_remainders(operands)
    }

    /// Returns whether the operands of a disjunction cover all remainders: `x % 2 == 0 or x % 2 == 1`.
    fn cover_all_remainders(&self, operands: &[Id]) -> bool {
        let mut remainders: BTreeMap<Id, HashSet<u64>> = BTreeMap::new();
        for operand in operands {
            if let Some([left, right]) = self.values.operands(*operand, Op::Compare(CmpOp::Eq))
                && self.values.operands(*left, Op::Binary(Operator::Mod)).is_some()
                && let Some(remainder) = self.values.literal(*right)
            {
                remainders.entry(*left).or_default().insert(remainder.to_bits());
            }
        }
        remainders.iter().any(|(of, found)| {
            let parts = self.values.operands(*of, Op::Binary(Operator::Mod));
            let modulus = parts.and_then(|of| self.values.literal(*of.get(1)?));
            let count = u32::try_from(found.len()).unwrap_or(u32::MAX);
            modulus.is_some_and(|modulus| f64::from(count) >= modulus)
        })
    }

    /// Returns whether the operands of a disjunction cover all numbers: `x < 8 or x > 6`.
    fn cover_all_numbers(&self, operands: &[Id]) -> bool {
        let mut ends: BTreeMap<Id, (f64, f64)> = BTreeMap::new();
        for operand in operands {
            let Node::Op(Op::Compare(op), pair) = self.values.node(*operand) else { continue };
            let [left, right] = **pair else { continue };
            let (value, op, bound) = match (self.values.literal(left), self.values.literal(right)) {
                (None, Some(bound)) => (left, *op, bound),
                (Some(bound), None) => (right, mirrored(*op), bound),
                _ => continue,
            };
            let (below, above) = ends.entry(value).or_insert((f64::NEG_INFINITY, f64::INFINITY));
            match op {
                CmpOp::Lt | CmpOp::LtE => *below = below.max(bound),
                CmpOp::Gt | CmpOp::GtE => *above = above.min(bound),
                _ => {}
            }
        }
        ends.values().any(|(below, above)| below > above)
    }
}
