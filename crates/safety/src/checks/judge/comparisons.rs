//! Judges comparisons of equal values, and comparisons that hold because of a value's type or operation. For example,
//! `x ** 2 >= 0` always holds.

#![expect(clippy::wildcard_enum_match_arm, reason = "few conditions are always true")]

use std::cmp::Ordering;
use std::collections::BTreeMap;

use ruff_python_ast::{CmpOp, Operator};

use super::super::vacuity::Vacuity;
use super::super::values::{Id, Node, Op, Type, mirrored};
use super::{Judge, Truth};

impl Judge<'_, '_> {
    pub(in super::super) fn compare(&self, op: CmpOp, left: Id, right: Id, depth: usize) -> Truth {
        let values = self.values;
        let is_equal = match op {
            CmpOp::Eq | CmpOp::LtE | CmpOp::GtE | CmpOp::Is => true,
            CmpOp::NotEq | CmpOp::Lt | CmpOp::Gt | CmpOp::IsNot => false,
            CmpOp::In | CmpOp::NotIn => {
                let is_in = self.contains(left, right)?;
                return Some((is_in.0 == (op == CmpOp::In), is_in.1));
            }
        };
        if is_equal && left != right && values.field(left) == values.field(right) {
            // A field is compared with the literal that the script assigned to the field.
            return Some((true, Vacuity::Constant));
        }
        if self.is_only_flags(left) && self.is_only_flags(right) {
            if values.is_literal(left) && values.is_literal(right) {
                let holds = self.compare_literals(op, left, right);
                let is_same = values.original(left) == values.original(right);
                return Some((holds.unwrap_or(is_same == is_equal), Vacuity::Constant));
            }
            let (left, right) = (self.without_exception(left), self.without_exception(right));
            let is_known = values.is_literal(left) && values.is_literal(right);
            let holds = !is_known || (left == right) == is_equal;
            return Some((holds, Vacuity::NoException));
        }
        if self.is_same(left, right) {
            return Some((is_equal, Vacuity::SameValue));
        }
        if let Some(why) = self.reason_for_emptiness(left, right, depth)
            && matches!(op, CmpOp::Eq | CmpOp::NotEq | CmpOp::Gt | CmpOp::LtE)
        {
            return Some((is_equal, why));
        }
        if let Node::Instance(class, _) = values.node(left)
            && matches!(op, CmpOp::Eq)
            && self.classes.get(*class).is_some_and(|class| class.equals_all)
        {
            return Some((true, Vacuity::AlwaysTrue));
        }
        if matches!(op, CmpOp::Is | CmpOp::IsNot) {
            let is_none = |id: Id| matches!(values.node(id), Node::None);
            let other = if is_none(right) { left } else { right };
            let known = (is_none(left) || is_none(right))
                && !matches!(values.type_of(other), Type::Unknown | Type::None);
            let is_type = self.is_type_of(left, right) || self.is_type_of(right, left);
            return (known || is_type)
                .then_some((is_type == (op == CmpOp::Is), Vacuity::AlwaysTrue));
        }
        if op == CmpOp::Eq && (self.is_type_of(left, right) || self.is_type_of(right, left)) {
            return Some((true, Vacuity::AlwaysTrue));
        }
        if let Some(bound) = values.literal(right)
            && bound > 0.0
            && self.is_zero(left)
            && values.literal(left).is_none()
        {
            let holds = matches!(op, CmpOp::Lt | CmpOp::LtE | CmpOp::NotEq);
            return Some((holds, Vacuity::SameValue));
        }
        let is_empty_text = matches!(values.node(right), Node::Text(text) if text.is_empty());
        if op == CmpOp::NotEq
            && is_empty_text
            && values.call(left).is_some_and(|(path, _)| matches!(&*path, "str" | "repr"))
        {
            return Some((true, Vacuity::AlwaysTrue));
        }
        self.by_kind(op, left, right)
            .or_else(|| self.by_kind(mirrored(op), right, left))
            .or_else(|| self.by_tolerance(op, left, right))
            .or_else(|| self.by_tolerance(mirrored(op), right, left))
            .or_else(|| self.by_rounding(op, left, right, depth))
    }

    /// Returns the result of comparing two literals; `None` if Python raises an exception, or if the result is unknown.
    pub(super) fn compare_literals(&self, op: CmpOp, left: Id, right: Id) -> Option<bool> {
        match op {
            CmpOp::Eq => return self.are_equal_literals(left, right),
            CmpOp::NotEq => return self.are_equal_literals(left, right).map(|equal| !equal),
            _ => {}
        }
        let sets = self.set_literal(left).zip(self.set_literal(right));
        let order = match sets {
            Some((left, right)) => {
                let (is_subset, is_superset) =
                    (self.includes_all(right, left)?, self.includes_all(left, right)?);
                match (is_subset, is_superset) {
                    (true, true) => Some(Ordering::Equal),
                    (true, false) => Some(Ordering::Less),
                    (false, true) => Some(Ordering::Greater),
                    (false, false) => None,
                }
            }
            None => Some(self.order_of_literals(left, right)?),
        };
        Some(match op {
            CmpOp::Lt => order.is_some_and(Ordering::is_lt),
            CmpOp::LtE => order.is_some_and(Ordering::is_le),
            CmpOp::Gt => order.is_some_and(Ordering::is_gt),
            CmpOp::GtE => order.is_some_and(Ordering::is_ge),
            _ => return None,
        })
    }

    /// Returns whether two literals are equal. The numbers 1 and 1.0 are equal.
    pub(super) fn are_equal_literals(&self, left: Id, right: Id) -> Option<bool> {
        self.spend()?;
        let values = self.values;
        let (left, right) = (values.original(left), values.original(right));
        if let Some((left, right)) = self.number_or_bool(left).zip(self.number_or_bool(right)) {
            return Some(left.partial_cmp(&right) == Some(Ordering::Equal));
        }
        if left == right {
            return Some(true);
        }
        if let Some((left, right)) = self.set_literal(left).zip(self.set_literal(right)) {
            return Some(self.includes_all(left, right)? && self.includes_all(right, left)?);
        }
        match (values.node(left), values.node(right)) {
            (Node::Op(Op::Tuple, left), Node::Op(Op::Tuple, right))
            | (Node::Op(Op::List, left), Node::Op(Op::List, right)) => {
                if left.len() != right.len() {
                    return Some(false);
                }
                for (one, other) in left.iter().zip(right.iter()) {
                    if !self.are_equal_literals(*one, *other)? {
                        return Some(false);
                    }
                }
                Some(true)
            }
            (Node::Op(Op::Dict, left), Node::Op(Op::Dict, right)) => {
                let (left, right) = (left.as_chunks().0, right.as_chunks().0);
                let is_same_size = left.len() == right.len();
                Some(is_same_size && self.includes_items(left, right)?)
            }
            _ => Some(false),
        }
    }

    /// Returns whether the dictionary display `all` has an equal item for each item of `some`.
    fn includes_items(&self, all: &[[Id; 2]], some: &[[Id; 2]]) -> Option<bool> {
        for [key, value] in some {
            let mut has_item = false;
            // A later item replaces an earlier item with the same key.
            for [other, of] in all.iter().rev() {
                if self.are_equal_literals(*key, *other)? {
                    has_item = self.are_equal_literals(*value, *of)?;
                    break;
                }
            }
            if !has_item {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Returns whether `all` has an equal element for each element of `some`.
    fn includes_all(&self, all: &[Id], some: &[Id]) -> Option<bool> {
        for element in some {
            if !self.includes(all, *element)? {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Returns whether `all` has an element that is equal to `element`. All are literals.
    pub(super) fn includes(&self, all: &[Id], element: Id) -> Option<bool> {
        for other in all {
            if self.are_equal_literals(element, *other)? {
                return Some(true);
            }
        }
        Some(false)
    }

    fn set_literal(&self, id: Id) -> Option<&[Id]> {
        self.values.operands(self.values.original(id), Op::Set)
    }

    fn number_or_bool(&self, id: Id) -> Option<f64> {
        match self.values.node(id) {
            Node::True => Some(1.0),
            Node::False => Some(0.0),
            _ => self.values.literal(id),
        }
    }

    /// Returns the order of two numbers, strings or sequences; `None` if Python cannot compare them.
    fn order_of_literals(&self, left: Id, right: Id) -> Option<Ordering> {
        self.spend()?;
        let values = self.values;
        let (left, right) = (values.original(left), values.original(right));
        if let Some((left, right)) = self.number_or_bool(left).zip(self.number_or_bool(right)) {
            return left.partial_cmp(&right);
        }
        match (values.node(left), values.node(right)) {
            (Node::Text(left), Node::Text(right)) | (Node::Bytes(left), Node::Bytes(right)) => {
                self.spend_bytes(left.len().min(right.len()))?;
                Some(left.cmp(right))
            }
            (Node::Op(Op::Tuple, left), Node::Op(Op::Tuple, right))
            | (Node::Op(Op::List, left), Node::Op(Op::List, right)) => {
                for (one, other) in left.iter().zip(right.iter()) {
                    if !self.are_equal_literals(*one, *other)? {
                        return self.order_of_literals(*one, *other);
                    }
                }
                Some(left.len().cmp(&right.len()))
            }
            _ => None,
        }
    }

    /// Returns the value that a name has if no exception was raised.
    fn without_exception(&self, id: Id) -> Id {
        match self.values.operands(id, Op::Flag) {
            Some([value]) => *value,
            _ => id,
        }
    }

    /// Returns whether a value is computed only from literals and exception flags ([`Op::Flag`]).
    fn is_only_flags(&self, id: Id) -> bool {
        let values = self.values;
        if self.spend().is_none() {
            return false;
        }
        match values.node(id) {
            Node::Op(Op::Flag, _) => true,
            Node::Op(Op::Call, _) => match (values.method(id), values.call(id)) {
                (Some((object, "values" | "items" | "keys", [])), _) => self.is_only_flags(object),
                (_, Some((path, arguments))) => {
                    matches!(&*path, "set" | "list" | "len" | "tuple" | "sorted")
                        && arguments.iter().all(|it| self.is_only_flags(*it))
                        && !values.is_literal(arguments.first().copied().unwrap_or_default())
                }
                _ => false,
            },
            _ => values.is_literal(id),
        }
    }

    /// Returns whether the value `of` is a call `type(x)`, and `x` certainly has the type `class`.
    fn is_type_of(&self, class: Id, of: Id) -> bool {
        let Some((path, [value])) = self.values.call(of) else { return false };
        *path == *"type" && self.has_type(self.values.type_of(*value), class)
    }

    /// Returns whether two values are certainly equal. Returns false for identical literals.
    pub(in super::super) fn is_same(&self, left: Id, right: Id) -> bool {
        let (left, right) = (self.copied(left), self.copied(right));
        if left == right {
            let is_literal = self.values.is_literal(self.values.field(left));
            return self.values.operands(left, Op::Zero).is_some() || !is_literal;
        }
        if self.is_zero(left) && self.is_zero(right) {
            return true;
        }
        let (one, other) = (self.linear(left), self.linear(right));
        !one.is_empty() && one == other
    }

    /// Returns the argument of a call that returns an equal value, for example `x` for `list(x)` or `x.copy()`. Returns
    /// other values unchanged.
    pub(super) fn copied(&self, id: Id) -> Id {
        let mut id = self.values.original(id);
        while let Some((path, [of])) = self.values.call(id) {
            let is_kept = match &*path {
                "float" => self.values.type_of(*of) == Type::Float,
                // Assume that the conversion does not change the type. If the type changes, the check fails when the
                // script runs.
                "list" | "tuple" | "set" | "dict" | "frozenset" => true,
                "str" => self.values.type_of(*of) == Type::Text,
                _ => false,
            };
            if !is_kept {
                break;
            }
            id = self.values.original(*of);
        }
        id
    }

    pub(super) fn is_zero(&self, id: Id) -> bool {
        let values = self.values;
        match values.node(id) {
            Node::Op(Op::Zero, _) => true,
            Node::Op(Op::Set | Op::List | Op::Tuple, items) => items.is_empty(),
            Node::Op(Op::Call, _) => {
                values.call(id).is_some_and(|(path, arguments)| match (&*path, arguments) {
                    ("set", []) => true,
                    (
                        "abs" | "sum" | "len" | "sympy.simplify" | "sympy.expand" | "sympy.N",
                        [of],
                    ) => {
                        matches!(values.node(*of), Node::Op(Op::Zero, _))
                    }
                    _ => false,
                })
            }
            _ => values.literal(id) == Some(0.0),
        }
    }

    /// Returns a value as a sum of terms, each with a factor. A number is a term like any other value, so numbers are
    /// not added up.
    pub(super) fn linear(&self, id: Id) -> BTreeMap<Id, i32> {
        let mut sum = BTreeMap::new();
        self.add_linear(id, 1, &mut sum, 8);
        sum.retain(|_, factor| *factor != 0);
        sum
    }

    fn add_linear(&self, id: Id, sign: i32, sum: &mut BTreeMap<Id, i32>, depth: usize) {
        let values = self.values;
        if depth == 0 || self.is_zero(id) {
            if !self.is_zero(id) {
                *sum.entry(id).or_default() += sign;
            }
            return;
        }
        match values.node(id) {
            // The script may define the operators of the object. The order of strings and sequences matters.
            Node::Op(Op::Binary(_), parts)
                if parts.iter().any(|part| !values.is_commutative(*part)) =>
            {
                *sum.entry(id).or_default() += sign;
            }
            Node::Op(Op::Binary(Operator::Sub), parts) => {
                for (part, sign) in parts.iter().zip([sign, -sign]) {
                    self.add_linear(*part, sign, sum, depth - 1);
                }
            }
            Node::Op(Op::Binary(Operator::Add) | Op::Copy, parts) => {
                for part in parts {
                    self.add_linear(*part, sign, sum, depth - 1);
                }
            }
            _ => *sum.entry(id).or_default() += sign,
        }
    }

    /// Judges a comparison by the operation that computes its left value.
    fn by_kind(&self, op: CmpOp, left: Id, right: Id) -> Truth {
        let values = self.values;
        let bound = values.literal(right);
        let is_at_least = |least: f64| match (op, bound) {
            (CmpOp::GtE, Some(bound)) => bound <= least,
            (CmpOp::Gt, Some(bound)) => bound < least,
            _ => false,
        };
        let always = Some((true, Vacuity::AlwaysTrue));
        if let Some((object, "ratio" | "quick_ratio" | "real_quick_ratio", _)) = values.method(left)
            && values.type_of(object) == Type::Matcher
        {
            let is_at_most = matches!((op, bound), (CmpOp::LtE, Some(bound)) if bound >= 1.0);
            return if is_at_least(0.0) || is_at_most { always } else { None };
        }
        match values.node(left) {
            Node::Op(Op::Attribute("denominator"), of)
                if is_at_least(1.0) || is_positive(op, bound) =>
            {
                let of = *of.first()?;
                (values.type_of(of) == Type::Fraction).then_some((true, Vacuity::AlwaysTrue))
            }
            Node::Op(Op::Binary(Operator::Pow), parts) if is_at_least(0.0) => {
                let exponent = values.literal(*parts.get(1)?)?;
                (exponent > 0.0 && exponent % 2.0 == 0.0).then_some((true, Vacuity::AlwaysTrue))
            }
            Node::Op(Op::Binary(Operator::Mult), parts) if is_at_least(0.0) => match **parts {
                [one, other] if one == other => always,
                _ => None,
            },
            Node::Op(Op::Binary(Operator::Mod), parts) => {
                let modulus = values.literal(*parts.get(1)?).filter(|it| *it > 0.0)?;
                let is_below = match (op, bound) {
                    (CmpOp::Lt | CmpOp::LtE, Some(bound)) => bound >= modulus,
                    _ => false,
                };
                if is_at_least(0.0) || is_below { always } else { None }
            }
            Node::Op(Op::Call, _) => self.by_call(op, left, right, is_at_least(0.0)),
            _ => None,
        }
    }

    fn by_call(&self, op: CmpOp, left: Id, right: Id, is_at_least_zero: bool) -> Truth {
        let values = self.values;
        let (path, arguments) = values.call(left)?;
        let other = values.call(right);
        let of_same = |name: &str| {
            other.as_ref().is_some_and(|(path, of)| *path == *name && *of == arguments)
        };
        let holds = match (&*path, op) {
            ("abs" | "len" | "math.fabs" | "math.sqrt", _) if is_at_least_zero => true,
            ("max", CmpOp::GtE) => of_same("min") || arguments.contains(&right),
            ("min", CmpOp::LtE) => of_same("max") || arguments.contains(&right),
            _ => false,
        };
        holds.then_some((true, Vacuity::AlwaysTrue))
    }
}

fn is_positive(op: CmpOp, bound: Option<f64>) -> bool {
    matches!((op, bound), (CmpOp::Gt, Some(bound)) if bound <= 0.0)
}
