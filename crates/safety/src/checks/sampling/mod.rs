//! Judges conditions by samples. A sample computes a condition with other numbers than the script's own. If a condition
//! has the same truth value in all samples, the check also holds for other claims and data. Then the check cannot
//! refute the script's claim.
//!
//! Equal literals have the same `Id` (`values`), so a sample replaces them by equal numbers. Within one sample, two
//! values that the script computes in the same way are therefore equal.
//!
//! | file | responsibility |
//! |---|---|
//! | `plan` | converts a condition into steps |
//! | `compute` | computes the steps in a sample |
//! | `steps` | defines the steps and their values |
//! | `tables` | lists the functions that samples compute |

#![expect(clippy::wildcard_enum_match_arm, reason = "other values are not computed")]

mod compute;
mod plan;
mod steps;
mod tables;

use ruff_python_ast::{CmpOp, Operator};

use super::judge::{Judge, Truth};
use super::vacuity::Vacuity;
use super::values::{Id, Node, Op};
use compute::{compare, truth_of};
use plan::Plan;
use steps::Value;

/// The number of samples with which one condition is judged in one mode.
const ROUNDS: u32 = 40;
/// The minimum number of samples that must be computable for a judgement.
const ROUNDS_MIN: u32 = 12;
/// The maximum nesting of values in a condition.
const DEPTH_MAX: usize = 50;

/// Selects the values that differ between samples, and how much the values differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// All literals except 0 change: integers between -5 and 5 by 1 to 3 away from 0, others by up to a factor of 2.
    All,
    /// The literals change by up to 40 %, except tolerances, digits, moduli and exponents. Integers between -5 and 5
    /// change as in `All`.
    Data,
    /// Values change by orders of magnitude. Unknown values, and literals that are values of names, parameters or
    /// elements, may change their sign. Bounds of comparisons, tolerances, digits, moduli and exponents do not change.
    Wide,
    /// Literals do not change. Each unknown number and each element of a loop equals the index of the sample.
    Exact,
}

impl Judge<'_, '_> {
    /// Returns the truth value that a condition has in all samples; `None` if the samples differ.
    pub(super) fn by_samples(&self, id: Id) -> Truth {
        let form = self.form(id)?;
        let mut plan = Plan::new(self.values);
        let root = plan.add(id, DEPTH_MAX);
        self.work.spend(4 + plan.steps.len() + plan.size / 4);
        let root = root?;
        match form {
            Form::Equation(holds) => self.equation(&plan, root, holds),
            Form::Order if plan.has_branch => None,
            Form::Order => {
                let truth = self.constant(&plan, root, Mode::Wide, None)?;
                Some((truth, Vacuity::AlwaysTrue))
            }
            Form::Bracket(holds) if self.has_derived_bounds(id) => {
                Some((holds, Vacuity::SameValue))
            }
            Form::Bracket(holds) => {
                if self.constant(&plan, root, Mode::Wide, Some(holds)).is_some() {
                    return Some((holds, Vacuity::AlwaysTrue));
                }
                self.constant(&plan, root, Mode::All, Some(holds))?;
                Some((holds, Vacuity::Tolerance))
            }
        }
    }

    /// Returns whether a value is `not (a and b and …)`, where the premises `a`, `b`, … can never be true together,
    /// although each premise alone can be true.
    pub(super) fn has_no_case(&self, id: Id) -> bool {
        let Some([premises]) = self.values.operands(id, Op::Not) else { return false };
        let Some(parts) = self.values.operands(*premises, Op::And) else { return false };
        let never = |id: Id| {
            let mut plan = Plan::new(self.values);
            let root = plan.add(id, DEPTH_MAX)?;
            self.constant(&plan, root, Mode::Exact, None).map(|truth| !truth)
        };
        never(*premises) == Some(true) && parts.iter().all(|part| never(*part) != Some(true))
    }

    /// Judges a condition that compares two values for equality or closeness. `holds` is the truth value of the
    /// condition if the values are equal.
    fn equation(&self, plan: &Plan<'_, '_>, root: usize, holds: bool) -> Truth {
        // Do not judge an equation that contains symbols or chooses a value, for example by `min`. Such an equation may
        // be a useful claim.
        if plan.has_choice || plan.has_symbol {
            return None;
        }
        let differs = || {
            let reason = plan.reason(root);
            let is_possible = reason != Vacuity::Rounding || plan.is_lossy();
            is_possible.then_some((holds, reason))
        };
        if self.constant(plan, root, Mode::All, Some(holds)).is_some() {
            if !self.is_identity(plan, root) {
                return differs();
            }
            // An equation that holds for every element of a loop may be a theorem, and a theorem is a useful claim.
            // Values that are computed only from literals can be equal by chance: `abs(-3) == 3`.
            let is_derived = plan.has_name && !plan.has_element;
            return is_derived.then_some((holds, Vacuity::SameValue));
        }
        self.constant(plan, root, Mode::Data, Some(holds))?;
        differs()
    }

    /// Returns the truth value of the step `root`, if the value is the same in all computable samples. If `expected` is
    /// set, the truth value must equal `expected`.
    fn constant(
        &self,
        plan: &Plan<'_, '_>,
        root: usize,
        mode: Mode,
        expected: Option<bool>,
    ) -> Option<bool> {
        if !plan.varies(mode) {
            return None;
        }
        let mut truth = expected;
        let mut computed = 0;
        for round in 0..ROUNDS {
            self.work.spend(1 + (plan.steps.len() + plan.size) / 4);
            if self.work.is_spent() {
                return None;
            }
            let Some(values) = plan.sample(mode, round) else { continue };
            let Some(now) = values.get(root).and_then(truth_of) else { continue };
            if truth.is_some_and(|truth| truth != now) {
                return None;
            }
            truth = Some(now);
            computed += 1;
        }
        truth.filter(|_| computed >= ROUNDS_MIN)
    }

    /// Returns whether the two compared values are equal in each sample, but differ from sample to sample.
    fn is_identity(&self, plan: &Plan<'_, '_>, root: usize) -> bool {
        let Some((left, right)) = plan.sides(root) else { return false };
        let mut all: Vec<Value> = Vec::new();
        for round in 0..8 {
            self.work.spend(1 + (plan.steps.len() + plan.size) / 4);
            let Some(values) = plan.sample(Mode::All, round) else { continue };
            let (Some(left), Some(right)) = (values.get(left), values.get(right)) else { continue };
            if compare(CmpOp::Eq, left, right) != Some(true) {
                return false;
            }
            all.push(left.clone());
        }
        all.first().is_some_and(|first| all.iter().any(|it| it != first))
    }

    /// Returns the form of a condition, if samples can judge it.
    fn form(&self, id: Id) -> Option<Form> {
        let values = self.values;
        match values.node(id) {
            Node::Op(Op::Compare(op), sides) => {
                let [left, right] = **sides else { return None };
                let is_zero = [left, right].iter().any(|it| values.literal(*it) == Some(0.0));
                let is_difference = |id: Id| !is_zero && self.difference(id).is_some();
                match op {
                    CmpOp::Eq => Some(Form::Equation(true)),
                    CmpOp::NotEq => Some(Form::Equation(false)),
                    CmpOp::Lt | CmpOp::LtE if is_difference(left) => Some(Form::Equation(true)),
                    CmpOp::Gt | CmpOp::GtE if is_difference(right) => Some(Form::Equation(true)),
                    CmpOp::Gt | CmpOp::GtE if is_difference(left) => Some(Form::Equation(false)),
                    CmpOp::Lt | CmpOp::LtE if is_difference(right) => Some(Form::Equation(false)),
                    // If both sides are fields of one object, they can have equal literals by chance.
                    _ if values.field(left) == values.field(right) => None,
                    CmpOp::Lt | CmpOp::LtE | CmpOp::Gt | CmpOp::GtE => Some(Form::Order),
                    _ => None,
                }
            }
            Node::Op(op @ (Op::And | Op::Or), parts) => {
                let [one, other] = **parts else { return None };
                let ((one_larger, one_smaller), (larger, smaller)) =
                    (self.ordered(one)?, self.ordered(other)?);
                let is_bracket = one_larger == smaller || one_smaller == larger;
                is_bracket.then_some(Form::Bracket(*op == Op::And))
            }
            Node::Op(Op::Call, _) => match &*values.call(id)?.0 {
                "math.isclose" | "numpy.isclose" | "numpy.allclose" => Some(Form::Equation(true)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns whether both bounds of a value are computed from the value.
    fn has_derived_bounds(&self, id: Id) -> bool {
        let Node::Op(_, parts) = self.values.node(id) else { return false };
        let [one, other] = **parts else { return false };
        let (Some(one), Some(other)) = (self.ordered(one), self.ordered(other)) else {
            return false;
        };
        let (value, bounds) =
            if one.0 == other.1 { (one.0, [one.1, other.0]) } else { (one.1, [one.0, other.1]) };
        bounds.into_iter().all(|bound| self.is_computed_from(bound, value))
    }

    /// Returns whether a value is computed from `source` by operators only. Does not follow calls, because a function
    /// can return any value. Returns false if `source` is a literal.
    fn is_computed_from(&self, id: Id, source: Id) -> bool {
        let (mut todo, mut steps) = (vec![id], 0);
        while let Some(id) = todo.pop() {
            self.work.spend(1);
            steps += 1;
            if steps > ROUNDS || self.values.is_literal(source) {
                return false;
            }
            if let Node::Op(Op::Binary(_) | Op::Copy, operands) = self.values.node(id) {
                if operands.contains(&source) {
                    return true;
                }
                todo.extend(operands);
            }
        }
        false
    }

    /// Returns the larger and the smaller side of a comparison.
    fn ordered(&self, id: Id) -> Option<(Id, Id)> {
        let Node::Op(Op::Compare(op), sides) = self.values.node(id) else { return None };
        let [left, right] = **sides else { return None };
        match op {
            CmpOp::Lt | CmpOp::LtE => Some((right, left)),
            CmpOp::Gt | CmpOp::GtE => Some((left, right)),
            _ => None,
        }
    }

    /// Returns the values `a` and `b` of a distance `abs(a - b)`.
    fn difference(&self, id: Id) -> Option<(Id, Id)> {
        let (path, of) = self.values.call(id)?;
        let [of] = of else { return None };
        if !matches!(&*path, "abs" | "math.fabs" | "numpy.abs" | "sympy.Abs") {
            return None;
        }
        match self.values.operands(*of, Op::Binary(Operator::Sub))? {
            [left, right] => Some((*left, *right)),
            _ => None,
        }
    }
}

/// The form of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The condition compares two values for equality or closeness. Contains the truth value that the condition has for
    /// equal values.
    Equation(bool),
    /// One value is larger than the other.
    Order,
    /// The condition compares one value with two bounds. Contains true if the value must be between the bounds, and
    /// false if it must be outside.
    Bracket(bool),
}
