//! Judges whether a condition always has the same truth value, from the values in it.

#![expect(clippy::wildcard_enum_match_arm, reason = "few conditions are always true")]

use std::cell::Cell;
use std::collections::BTreeMap;

use ruff_python_ast::{CmpOp, Operator};

use super::vacuity::Vacuity;
use super::values::{Id, Node, Of, Op, Type, Values, mirrored};

/// The maximum depth to which a condition is followed.
const DEPTH_MAX: usize = 40;

/// The maximum number of values that are looked at for one condition.
pub(super) const BUDGET: u32 = 2_000;

/// The truth value of a condition, with the reason why it is known.
pub(super) type Truth = Option<(bool, Vacuity)>;

/// Judges the values of a script. `is_true_object` returns whether objects of a class of the script are always true.
pub(super) struct Judge<'v, 'a> {
    pub(super) values: &'v Values<'a>,
    /// For each class of the script, in the order of their places: whether its objects are always true, and whether
    /// they are equal to every object of the class.
    pub(super) classes: &'v [ClassFacts],
    /// The number of values that may still be looked at.
    pub(super) budget: Cell<u32>,
}

/// Facts about a class of a script.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClassFacts {
    /// Whether the class has no method that decides whether an object is true, and no base that may have one.
    pub(super) is_true: bool,
    /// Whether the class has a method `__eq__` that returns true for all objects of the class.
    pub(super) equals_all: bool,
    /// Whether an `__exit__` of the class suppresses every exception.
    pub(super) suppresses: bool,
}

impl Judge<'_, '_> {
    /// Counts a value that is looked at. Returns `None` if there were too many. Without this limit, a value that is
    /// used twice in each of its users would be looked at exponentially often.
    pub(super) fn spend(&self) -> Option<()> {
        self.budget.set(self.budget.get().checked_sub(1)?);
        Some(())
    }

    /// Returns the truth value of a value, if it is known.
    pub(super) fn truth(&self, id: Id) -> Truth {
        self.truth_at(id, DEPTH_MAX)
    }

    fn truth_at(&self, id: Id, depth: usize) -> Truth {
        let depth = depth.checked_sub(1)?;
        self.spend()?;
        let values = self.values;
        match values.node(id) {
            Node::True => Some((true, Vacuity::Constant)),
            Node::False | Node::None => Some((false, Vacuity::Constant)),
            Node::Number(bits, _) => Some((f64::from_bits(*bits) != 0.0, Vacuity::Constant)),
            Node::Text(text) | Node::Bytes(text) => Some((!text.is_empty(), Vacuity::Constant)),
            Node::Function(_) | Node::Class(_) => Some((true, Vacuity::TrueObject)),
            Node::Unknown(_, Type::Solver | Type::CheckResult | Type::Object) => {
                Some((true, Vacuity::TrueObject))
            }
            Node::Instance(class, _) => {
                let is_true = self.classes.get(*class).is_some_and(|class| class.is_true);
                is_true.then_some((true, Vacuity::TrueObject))
            }
            Node::Op(op, operands) => self.truth_of_op(id, *op, operands, depth),
            _ => None,
        }
    }

    fn truth_of_op(&self, id: Id, op: Op<'_>, operands: &[Id], depth: usize) -> Truth {
        let truth = |id: Id| self.truth_at(id, depth);
        match op {
            Op::Tuple if !operands.is_empty() => Some((true, Vacuity::Tuple)),
            Op::List | Op::Set | Op::Dict if !operands.is_empty() => {
                Some((true, Vacuity::TrueObject))
            }
            Op::Tuple | Op::List | Op::Set | Op::Dict => Some((false, Vacuity::Constant)),
            Op::Comprehension(Of::Generator) => Some((true, Vacuity::TrueObject)),
            Op::Zero => Some((false, Vacuity::SameValue)),
            Op::Flag => Some((truth(*operands.first()?)?.0, Vacuity::NoException)),
            Op::Copy => truth(*operands.first()?),
            Op::Not => truth(*operands.first()?).map(|(holds, why)| (!holds, why)),
            Op::And => self.conjunction(operands, depth),
            Op::Or => self.disjunction(operands, depth),
            Op::IfElse => match (truth(*operands.get(1)?)?, truth(*operands.get(2)?)?) {
                ((one, _), (other, _)) if one == other => Some((one, Vacuity::OrTrue)),
                _ => None,
            },
            Op::Compare(op) => self.compare(op, *operands.first()?, *operands.get(1)?, depth),
            Op::Binary(Operator::BitOr) => operands.iter().find_map(|operand| {
                let is_set = self.values.literal(*operand)? != 0.0;
                is_set.then_some((true, Vacuity::OrTrue))
            }),
            Op::Call => self.truth_of_call(id, depth),
            _ => None,
        }
    }

    fn conjunction(&self, operands: &[Id], depth: usize) -> Truth {
        let mut last = None;
        for operand in operands {
            match self.truth_at(*operand, depth) {
                Some((false, why)) => return Some((false, why)),
                Some((true, why)) if last != Some(None) => last = Some(Some(why)),
                Some((true, _)) => {}
                None => last = Some(None),
            }
        }
        last.flatten().map(|why| (true, why))
    }

    fn disjunction(&self, operands: &[Id], depth: usize) -> Truth {
        let truths: Vec<Truth> = operands.iter().map(|it| self.truth_at(*it, depth)).collect();
        if truths.iter().flatten().any(|(holds, _)| *holds) || self.is_exhaustive(operands) {
            return Some((true, Vacuity::OrTrue));
        }
        truths.into_iter().collect::<Option<Vec<_>>>()?.pop()
    }

    /// Returns whether one operand of a disjunction holds in any case: `p or not p`, or `a < b or a >= b`.
    fn is_exhaustive(&self, operands: &[Id]) -> bool {
        let negated = |id: Id| self.values.operands(id, Op::Not).and_then(|of| of.first().copied());
        if operands.iter().any(|it| negated(*it).is_some_and(|of| operands.contains(&of))) {
            return true;
        }
        // For each pair of operands, the cases that hold: less, equal, greater.
        let mut cases: BTreeMap<(Id, Id), [bool; 3]> = BTreeMap::new();
        for operand in operands {
            let Node::Op(Op::Compare(op), pair) = self.values.node(*operand) else { continue };
            let [left, right] = **pair else { continue };
            let (pair, op) =
                if left <= right { ((left, right), *op) } else { ((right, left), mirrored(*op)) };
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
    }

    fn truth_of_call(&self, id: Id, depth: usize) -> Truth {
        let values = self.values;
        if matches!(values.type_of(id), Type::Solver | Type::CheckResult) {
            return Some((true, Vacuity::TrueObject));
        }
        if let Some((object, name, arguments)) = values.method(id) {
            match (name, arguments) {
                (name, _) if name.starts_with("verify") && self.is_guard(object) => {
                    return Some((true, Vacuity::TrueObject));
                }
                ("issubset" | "issuperset" | "equals", [other]) if self.is_same(object, *other) => {
                    return Some((true, Vacuity::SameValue));
                }
                _ => {}
            }
        }
        let (path, arguments) = values.call(id)?;
        let first = *arguments.first()?;
        match &*path {
            "bool" | "numpy.all" | "numpy.any" | "numpy.bool_" => self.truth_at(first, depth),
            "all" | "any" => self.quantified(&path == "all", first, depth),
            "isinstance" => {
                let of = values.type_of(first);
                self.has_type(of, *arguments.get(1)?).then_some((true, Vacuity::AlwaysTrue))
            }
            "callable" if matches!(values.node(first), Node::Function(_)) => {
                Some((true, Vacuity::AlwaysTrue))
            }
            "math.isclose" | "numpy.isclose" | "numpy.allclose" | "cmath.isclose" => {
                self.is_close(first, *arguments.get(1)?, arguments)
            }
            "numpy.array_equal" | "operator.eq" => {
                self.compare(CmpOp::Eq, first, *arguments.get(1)?, depth)
            }
            "sympy.simplify" | "sympy.expand" | "abs" | "sum" | "sympy.N" => {
                matches!(values.node(first), Node::Op(Op::Zero, _))
                    .then_some((false, Vacuity::SameValue))
            }
            "list" | "tuple"
                if values.call(first).is_some_and(|(path, _)| path == "numpy.isclose") =>
            {
                Some((true, Vacuity::TrueObject))
            }
            "list" | "tuple" | "set" | "sorted" | "dict" => match self.truth_at(first, depth)? {
                (false, why) => Some((false, why)),
                (true, _) => None,
            },
            _ => None,
        }
    }

    /// Returns whether a value is a guard of a QWED package. The results of guards are objects that are always true.
    fn is_guard(&self, object: Id) -> bool {
        self.values.call(object).is_some_and(|(path, _)| path.starts_with("qwed_"))
    }

    /// Returns the truth value of `all(…)` or `any(…)`.
    fn quantified(&self, is_all: bool, of: Id, depth: usize) -> Truth {
        let values = self.values;
        if self.is_empty(of) {
            return Some((is_all, Vacuity::Empty));
        }
        let element = match values.node(of) {
            Node::Op(Op::Comprehension(Of::Generator | Of::List), parts) => {
                self.truth_at(*parts.first()?, depth)?
            }
            _ => return None,
        };
        // Without elements, `all` is true and `any` is false.
        (element.0 == is_all).then_some(element)
    }

    /// Returns whether a value is certainly an empty collection.
    pub(super) fn is_empty(&self, id: Id) -> bool {
        let values = self.values;
        if self.spend().is_none() {
            return false;
        }
        match values.node(values.original(id)) {
            Node::Op(Op::Tuple | Op::List | Op::Set | Op::Dict, items) => items.is_empty(),
            Node::Op(Op::Comprehension(_), parts) => {
                parts.get(1).is_some_and(|iterable| self.is_empty(*iterable))
            }
            Node::Text(text) => text.is_empty(),
            Node::Op(Op::Call, _) => values.call(id).is_some_and(|(path, arguments)| {
                let number = |place: usize| values.number(*arguments.get(place)?);
                match (&*path, arguments.len()) {
                    ("range", 1) => number(0).is_some_and(|end| end <= 0.0),
                    ("range", 2) => number(0).zip(number(1)).is_some_and(|(from, to)| from >= to),
                    (
                        "list" | "tuple" | "set" | "dict" | "sorted" | "iter" | "reversed"
                        | "enumerate",
                        1,
                    ) => arguments.first().is_some_and(|it| self.is_empty(*it)),
                    ("list" | "tuple" | "set" | "dict", 0) => true,
                    _ => false,
                }
            }),
            _ => false,
        }
    }

    /// Returns whether `of` is certainly the class, or one of the classes, in `classes`.
    fn has_type(&self, of: Type, classes: Id) -> bool {
        if self.spend().is_none() {
            return false;
        }
        if let Some(classes) = self.values.operands(classes, Op::Tuple) {
            return classes.iter().any(|class| self.has_type(of, *class));
        }
        let Some(path) = self.values.path_of(classes) else { return false };
        let names: &[&str] = match of {
            Type::Bool => &["bool", "int"],
            Type::Int => &["int", "numbers.Integral", "numbers.Rational", "numbers.Real"],
            Type::Float => &["float", "numbers.Real"],
            Type::Fraction => &["fractions.Fraction", "numbers.Rational"],
            Type::Decimal => &["decimal.Decimal"],
            Type::Text => &["str"],
            Type::Bytes => &["bytes"],
            Type::List => &["list"],
            Type::Tuple => &["tuple"],
            Type::Set => &["set"],
            Type::Dict => &["dict"],
            _ => &[],
        };
        names.contains(&&*path) || (*path == *"object" && of != Type::Unknown)
    }

    /// Returns the truth value of a comparison.
    pub(super) fn compare(&self, op: CmpOp, left: Id, right: Id, depth: usize) -> Truth {
        let values = self.values;
        let is_equal = match op {
            CmpOp::Eq | CmpOp::LtE | CmpOp::GtE | CmpOp::Is => true,
            CmpOp::NotEq | CmpOp::Lt | CmpOp::Gt | CmpOp::IsNot => false,
            CmpOp::In | CmpOp::NotIn => {
                let is_in = self.contains(left, right)?;
                return Some((is_in.0 == (op == CmpOp::In), is_in.1));
            }
        };
        if self.is_only_flags(left) && self.is_only_flags(right) {
            if values.is_literal(left) && values.is_literal(right) {
                let holds = self.compare_literals(op, left, right);
                return Some((holds.unwrap_or((left == right) == is_equal), Vacuity::Constant));
            }
            let (left, right) = (self.without_exception(left), self.without_exception(right));
            let is_known = values.is_literal(left) && values.is_literal(right);
            let holds = !is_known || (left == right) == is_equal;
            return Some((holds, Vacuity::NoException));
        }
        if self.is_same(left, right) {
            return Some((is_equal, Vacuity::SameValue));
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
        self.by_kind(op, left, right)
            .or_else(|| self.by_kind(mirrored(op), right, left))
            .or_else(|| self.by_tolerance(op, left, right))
            .or_else(|| self.by_tolerance(mirrored(op), right, left))
            .or_else(|| self.by_rounding(op, left, right, depth))
    }

    fn compare_literals(&self, op: CmpOp, left: Id, right: Id) -> Option<bool> {
        let (left, right) = (self.values.literal(left)?, self.values.literal(right)?);
        Some(match op {
            CmpOp::Lt => left < right,
            CmpOp::LtE => left <= right,
            CmpOp::Gt => left > right,
            CmpOp::GtE => left >= right,
            _ => return None,
        })
    }

    /// Returns the value that a name has if nothing was raised.
    fn without_exception(&self, id: Id) -> Id {
        match self.values.operands(id, Op::Flag) {
            Some([value]) => *value,
            _ => id,
        }
    }

    /// Returns whether a value consists of literals, and of names that depend on whether an exception was raised.
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

    /// Returns whether `class` is the type of a value with a known type: `type(x) is float`.
    fn is_type_of(&self, class: Id, of: Id) -> bool {
        let Some((path, [value])) = self.values.call(of) else { return false };
        *path == *"type" && self.has_type(self.values.type_of(*value), class)
    }

    /// Returns whether two values are certainly equal.
    pub(super) fn is_same(&self, left: Id, right: Id) -> bool {
        let (left, right) = (self.copied(left), self.copied(right));
        if left == right {
            return self.values.operands(left, Op::Zero).is_some() || !self.values.is_literal(left);
        }
        if self.is_zero(left) && self.is_zero(right) {
            return true;
        }
        let (one, other) = (self.linear(left), self.linear(right));
        !one.is_empty() && one == other
    }

    /// Returns the value without functions that keep it equal: `list(x)`, `sorted(x)`, `x.copy()`.
    fn copied(&self, id: Id) -> Id {
        let mut id = self.values.original(id);
        while let Some((path, [of])) = self.values.call(id) {
            let is_kept = match &*path {
                "float" => self.values.type_of(*of) == Type::Float,
                // If the types differ, the values are not equal, and the check does not hold.
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

    fn is_zero(&self, id: Id) -> bool {
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

    /// Returns a value as a sum: the factor of each part. Numbers are parts too, so that constants
    /// are never computed.
    fn linear(&self, id: Id) -> BTreeMap<Id, i32> {
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

    /// Judges a comparison by the kind of its left value.
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

    /// Returns whether `container` certainly contains `value`.
    fn contains(&self, value: Id, container: Id) -> Truth {
        let values = self.values;
        let Node::Op(Op::Tuple | Op::List | Op::Set, items) = values.node(container) else {
            return None;
        };
        if values.is_literal(value) && values.is_literal(container) {
            return Some((items.contains(&value), Vacuity::Constant));
        }
        let has = |node: &Node<'_>| items.iter().any(|item| values.node(*item) == node);
        let has_path = |path: &str| {
            items.iter().any(|item| values.path_of(*item).is_some_and(|of| of == path))
        };
        let is_all = match values.type_of(value) {
            Type::Bool => has(&Node::True) && has(&Node::False),
            Type::CheckResult => ["z3.sat", "z3.unsat", "z3.unknown"].into_iter().all(has_path),
            _ => false,
        };
        if is_all {
            return Some((true, Vacuity::AlwaysTrue));
        }
        items.iter().any(|item| self.is_same(value, *item)).then_some((true, Vacuity::SameValue))
    }

    /// Judges `abs(a - b) <= tolerance`.
    fn by_tolerance(&self, op: CmpOp, left: Id, right: Id) -> Truth {
        if !matches!(op, CmpOp::Lt | CmpOp::LtE) {
            return None;
        }
        let values = self.values;
        let difference = match (&values.call(left), values.method(left)) {
            (Some((path, [of])), _) if matches!(&**path, "abs" | "math.fabs" | "numpy.abs") => *of,
            _ => return self.is_derived(left, right),
        };
        let accepts = |why| Some((true, why));
        if self.is_zero(difference) {
            return accepts(Vacuity::SameValue);
        }
        let sum = self.linear(difference);
        if sum.is_empty() {
            return accepts(Vacuity::SameValue);
        }
        if let Some(derived) = self.is_derived(left, right) {
            return Some(derived);
        }
        let Some(tolerance) = self.tolerance(right) else {
            return self
                .is_relative_to_both(difference, right)
                .then_some((true, Vacuity::Tolerance));
        };
        let claims: Vec<f64> = sum.keys().filter_map(|it| values.number(*it)).collect();
        let is_wide = claims.iter().any(|claim| *claim != 0.0 && tolerance >= claim.abs());
        let is_huge = tolerance >= 100.0 && self.largest_literal(difference) * 10.0 < tolerance;
        (tolerance.is_infinite() || is_wide || is_huge).then_some((true, Vacuity::Tolerance))
    }

    fn tolerance(&self, id: Id) -> Option<f64> {
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

    /// Returns whether the bound of a comparison is computed from the value that it bounds: `error <= error * 1.01`.
    fn is_derived(&self, value: Id, bound: Id) -> Truth {
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

    /// Returns whether a tolerance is at least twice the larger one of the compared values.
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

    /// Returns the largest literal from which a value is computed. Infinity if something else may contribute.
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
    pub(super) fn is_close(&self, left: Id, right: Id, arguments: &[Id]) -> Truth {
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
        let claims = [left, right].into_iter().filter_map(|it| values.number(it));
        let absolute = of(["abs_tol", "atol", "abs"]).is_some_and(|tolerance| {
            claims.into_iter().any(|claim| claim != 0.0 && tolerance >= claim.abs())
        });
        (relative || absolute).then_some((true, Vacuity::Tolerance))
    }

    /// Judges an equation with sides that are rounded in the same way.
    fn by_rounding(&self, op: CmpOp, left: Id, right: Id, depth: usize) -> Truth {
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
            "type" | "bool" => true,
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

fn is_positive(op: CmpOp, bound: Option<f64>) -> bool {
    matches!((op, bound), (CmpOp::Gt, Some(bound)) if bound <= 0.0)
}
