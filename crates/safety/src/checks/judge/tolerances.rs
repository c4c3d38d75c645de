//! Judges comparisons with a tolerance, and comparisons of rounded values.

#![expect(clippy::wildcard_enum_match_arm, reason = "few conditions are always true")]

use ruff_python_ast::{CmpOp, Operator};

use super::super::vacuity::Vacuity;
use super::super::values::{Id, Node, Op};
use super::{DEPTH_MAX, Judge, Truth};

impl Judge<'_, '_> {
    /// Judges `abs(a - b) <= tolerance`.
    pub(super) fn by_tolerance(&self, op: CmpOp, left: Id, right: Id) -> Truth {
        match op {
            CmpOp::Lt | CmpOp::LtE => self.within_tolerance(left, right),
            CmpOp::Gt | CmpOp::GtE => {
                self.within_tolerance(left, right).map(|(holds, why)| (!holds, why))
            }
            _ => None,
        }
    }

    fn within_tolerance(&self, left: Id, right: Id) -> Truth {
        let values = self.values;
        let difference = match (&values.call(left), values.method(left)) {
            (Some((path, [of])), _) if matches!(&**path, "abs" | "math.fabs" | "numpy.abs") => *of,
            _ => return self.by_derived_bound(left, right),
        };
        let accepts = |why| Some((true, why));
        if self.is_zero(difference) {
            return accepts(Vacuity::SameValue);
        }
        let sum = self.linear(difference);
        if sum.is_empty() {
            return accepts(Vacuity::SameValue);
        }
        if let Some(derived) = self.by_derived_bound(left, right) {
            return Some(derived);
        }
        let Some(tolerance) = self.tolerance(right) else {
            return self
                .is_relative_to_both(difference, right)
                .then_some((true, Vacuity::Tolerance));
        };
        let is_wide = sum.keys().any(|it| {
            self.magnitude(*it, DEPTH_MAX).is_some_and(|it| it != 0.0 && tolerance >= it)
        });
        let is_huge = tolerance >= 100.0 && self.largest_literal(difference) * 10.0 < tolerance;
        (tolerance.is_infinite() || is_wide || is_huge).then_some((true, Vacuity::Tolerance))
    }

    /// Returns the absolute value of a number, or the largest absolute value in a collection of literals.
    pub(super) fn magnitude(&self, id: Id, depth: usize) -> Option<f64> {
        let depth = depth.checked_sub(1)?;
        self.spend()?;
        if let Some(number) = self.values.number(id) {
            return Some(number.abs());
        }
        let largest = |all: &mut dyn Iterator<Item = &Id>| {
            all.map(|it| self.magnitude(*it, depth)).collect::<Option<Vec<f64>>>()
        };
        let all = match self.values.node(id) {
            Node::Op(Op::OneOf(_) | Op::Tuple | Op::List | Op::Set, items) => {
                largest(&mut items.iter())?
            }
            Node::Op(Op::Dict, items) => largest(&mut items.iter().skip(1).step_by(2))?,
            Node::Op(Op::Copy | Op::Item | Op::Element(_), parts) => {
                return self.magnitude(*parts.first()?, depth);
            }
            Node::Op(Op::Call, _) => match self.values.call(id)? {
                (path, [of, ..]) if matches!(&*path, "numpy.array" | "numpy.asarray" | "zip") => {
                    return self.magnitude(*of, depth);
                }
                _ => return None,
            },
            _ => return None,
        };
        all.into_iter().reduce(f64::max)
    }

    pub(super) fn tolerance(&self, id: Id) -> Option<f64> {
        let values = self.values;
        let path = values.path_of(id);
        if path.is_some_and(|path| matches!(&*path, "math.inf" | "numpy.inf")) {
            return Some(f64::INFINITY);
        }
        if let Some((path, [of])) = values.call(id)
            && *path == *"float"
            && let Node::Text(text) = values.node(*of)
        {
            return text.trim().parse().ok();
        }
        values.number(id)
    }

    /// Judges a comparison with a bound that is computed from the bounded value: `error <= error * 1.01`.
    pub(super) fn by_derived_bound(&self, value: Id, bound: Id) -> Truth {
        let Node::Op(Op::Binary(operator), parts) = self.values.node(bound) else { return None };
        let other = parts.iter().find(|part| **part != value)?;
        let number = self.values.literal(*other)?;
        let is_wider = match operator {
            Operator::Mult => number >= 1.0,
            Operator::Add => number >= 0.0,
            _ => false,
        };
        (is_wider && parts.contains(&value)).then_some((true, Vacuity::SameValue))
    }

    /// Returns whether a tolerance is at least twice the larger absolute value of the compared values.
    fn is_relative_to_both(&self, difference: Id, tolerance: Id) -> bool {
        let values = self.values;
        let Some([one, other]) = values.operands(difference, Op::Binary(Operator::Sub)) else {
            return false;
        };
        let Some(parts) = values.operands(tolerance, Op::Binary(Operator::Mult)) else {
            return false;
        };
        let is_twice = parts.iter().any(|it| values.literal(*it).is_some_and(|it| it >= 2.0));
        let is_abs = |id: Id, of: Id| {
            values.call(id).is_some_and(|(path, of_call)| *path == *"abs" && of_call == [of])
        };
        let is_of_both = |id: &Id| {
            values.call(*id).is_some_and(|(path, of)| match of {
                [a, b] => *path == *"max" && is_abs(*a, *one) && is_abs(*b, *other),
                _ => false,
            })
        };
        is_twice && parts.iter().any(is_of_both)
    }

    /// Returns the largest literal from which a value is computed; infinity if other values may contribute.
    fn largest_literal(&self, id: Id) -> f64 {
        let mut largest: f64 = 0.0;
        let mut todo = vec![id];
        let mut steps = 0;
        let mut has_literal = false;
        while let Some(id) = todo.pop() {
            steps += 1;
            if steps > 200 {
                return f64::INFINITY;
            }
            match self.values.node(id) {
                Node::Number(bits, _) => {
                    has_literal = true;
                    largest = largest.max(f64::from_bits(*bits).abs());
                }
                Node::Op(
                    Op::Binary(Operator::Pow | Operator::Mult)
                    | Op::Comprehension(_)
                    | Op::OneOf(_)
                    | Op::Element(_)
                    | Op::List
                    | Op::Dict,
                    _,
                )
                | Node::Unknown(..) => {
                    return f64::INFINITY;
                }
                Node::Op(_, operands) => todo.extend(operands),
                _ => {}
            }
        }
        if has_literal { largest } else { f64::INFINITY }
    }

    /// Judges `isclose(a, b)` by its tolerances.
    pub(in super::super) fn by_closeness(&self, left: Id, right: Id, arguments: &[Id]) -> Truth {
        let values = self.values;
        if self.is_same(left, right) {
            return Some((true, Vacuity::SameValue));
        }
        if values.is_literal(left) && values.is_literal(right) {
            return Some((true, Vacuity::Constant));
        }
        let of = |names: [&str; 3]| {
            names.into_iter().find_map(|name| self.tolerance(values.keyword(arguments, name)?))
        };
        let relative = of(["rel_tol", "rtol", "rel"]).is_some_and(|it| it >= 1.0);
        let claims = [left, right].into_iter().filter_map(|it| self.magnitude(it, DEPTH_MAX));
        let absolute = of(["abs_tol", "atol", "abs"]).is_some_and(|tolerance| {
            claims.into_iter().any(|claim| claim != 0.0 && tolerance >= claim)
        });
        (relative || absolute).then_some((true, Vacuity::Tolerance))
    }

    /// Judges an equation with sides that are rounded in the same way.
    pub(super) fn by_rounding(&self, op: CmpOp, left: Id, right: Id, depth: usize) -> Truth {
        if op != CmpOp::Eq || depth == 0 {
            return None;
        }
        let values = self.values;
        let rounded = Some((true, Vacuity::Rounding));
        if let (Some((one, "quantize", of_one)), Some((other, "quantize", of_other))) =
            (values.method(left), values.method(right))
            && of_one.first() == of_other.first()
        {
            let unit = values.number(*of_one.first()?)?;
            let claims = [one, other].into_iter().filter_map(|it| values.number(it));
            return claims.into_iter().any(|claim| unit >= claim.abs()).then_some(rounded?);
        }
        if let (Some([one, by]), Some([other, by_other])) = (
            values.operands(left, Op::Binary(Operator::Mod)),
            values.operands(right, Op::Binary(Operator::Mod)),
        ) && one != other
            && by == by_other
            && values.literal(*by) == Some(1.0)
        {
            return rounded;
        }
        if let (Node::Op(Op::Attribute(one), of_one), Node::Op(Op::Attribute(other), of_other)) =
            (values.node(left), values.node(right))
            && one == other
            && one.starts_with("__")
        {
            return self.by_rounding(op, *of_one.first()?, *of_other.first()?, depth - 1);
        }
        let ((path, of_left), (path_right, of_right)) = (values.call(left)?, values.call(right)?);
        if path != path_right {
            return None;
        }
        let (one, other) = (*of_left.first()?, *of_right.first()?);
        let is_coarse = match &*path {
            "type" => true,
            // If one side is `bool` of a literal, the sides are equal for most values of the other side.
            "bool" => values.is_literal(one) || values.is_literal(other),
            "int" | "round" | "max" | "min" | "abs" | "math.floor" => {
                let differ = match (values.number(one), values.number(other)) {
                    (Some(one), Some(other)) => (one - other).abs() > 0.0,
                    _ => false,
                };
                let clamped = matches!(&*path, "max" | "min");
                let sides = (values.number(left), values.number(right));
                let is_lost = |side: Option<f64>, of: Option<f64>| {
                    side == Some(0.0) && of.is_some_and(|of| of != 0.0)
                };
                (sides.0.is_some() && sides.0 == sides.1 && (differ || clamped))
                    || is_lost(sides.0, values.number(one))
                    || is_lost(sides.1, values.number(other))
            }
            _ => false,
        };
        if is_coarse { rounded } else { None }
    }
}
