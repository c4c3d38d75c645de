//! Judges calls, and the attributes and types of values.

#![expect(clippy::wildcard_enum_match_arm, reason = "few conditions are always true")]

use foldhash::HashSet;
use ruff_python_ast::{CmpOp, Operator};

use super::super::vacuity::Vacuity;
use super::super::values::{Id, Node, Op, Type};
use super::collections::quantify;
use super::{Judge, Truth};

/// Methods that return a Boolean. In the standard library, all attributes with these names are methods.
const METHODS: &[&str] = &[
    "endswith",
    "equals",
    "exists",
    "is_file",
    "is_dir",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isdisjoint",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "issubset",
    "issuperset",
    "istitle",
    "isupper",
    "overlaps",
    "startswith",
    "subnet_of",
    "supernet_of",
];

/// Functions that return a class. The objects of such a class are always true.
const CLASS_MAKERS: &[&str] =
    &["collections.namedtuple", "typing.NamedTuple", "dataclasses.make_dataclass"];

/// Functions that generate a collection.
const GENERATING: &[&str] = &[
    "range",
    "itertools.product",
    "itertools.permutations",
    "itertools.combinations",
    "itertools.combinations_with_replacement",
    "itertools.count",
    "itertools.islice",
    "numpy.linspace",
    "numpy.arange",
];

impl Judge<'_, '_> {
    pub(super) fn truth_of_call(&self, id: Id, depth: usize) -> Truth {
        let values = self.values;
        if matches!(values.type_of(id), Type::Solver | Type::CheckResult | Type::Generator) {
            return Some((true, Vacuity::TrueObject));
        }
        // The called function is a class that a function such as `namedtuple` created. Objects of such a class are
        // always true.
        if let Some([class, _, ..]) = values.operands(id, Op::Call)
            && self.makes_class(*class)
        {
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
            "numpy.all" => self.quantified_array(true, first, depth),
            "numpy.any" => self.quantified_array(false, first, depth),
            "bool" | "numpy.bool_" | "z3.is_true" | "z3.simplify" | "z3.BoolVal" => {
                self.truth_at(first, depth)
            }
            "all" | "min" if arguments.len() == 1 => self.quantified(true, first, depth),
            "any" | "max" if arguments.len() == 1 => self.quantified(false, first, depth),
            "hasattr" => Some((true, Vacuity::AlwaysTrue)),
            "isinstance" => {
                let class = *arguments.get(1)?;
                let is_known = self.is_by_operation(first, class)
                    || self.has_type(values.type_of(first), class);
                is_known.then_some((true, Vacuity::AlwaysTrue))
            }
            "callable" if matches!(values.node(first), Node::Function(_)) => {
                Some((true, Vacuity::AlwaysTrue))
            }
            "math.isclose" | "numpy.isclose" | "numpy.allclose" | "cmath.isclose" => {
                self.by_closeness(first, *arguments.get(1)?, arguments)
            }
            "numpy.array_equal" | "operator.eq" => {
                self.compare(CmpOp::Eq, first, *arguments.get(1)?, depth)
            }
            "operator.ne" => self.compare(CmpOp::NotEq, first, *arguments.get(1)?, depth),
            "operator.le" => self.compare(CmpOp::LtE, first, *arguments.get(1)?, depth),
            "operator.ge" => self.compare(CmpOp::GtE, first, *arguments.get(1)?, depth),
            "str" | "repr" => self.has_text(first).then_some((true, Vacuity::TrueObject)),
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

    /// Returns the truth value of `numpy.all(…)` or `numpy.any(…)`.
    fn quantified_array(&self, is_all: bool, array: Id, depth: usize) -> Truth {
        let of = match self.values.call(array) {
            Some((path, [of])) if matches!(&*path, "numpy.array" | "numpy.asarray") => *of,
            _ => array,
        };
        match self.values.node(of) {
            // The items may be the rows of an array.
            Node::Op(Op::List | Op::Tuple, items) if !items.is_empty() => {
                let depth = depth.checked_sub(1)?;
                self.spend()?;
                let truths = items.iter().map(|item| self.quantified_array(is_all, *item, depth));
                quantify(is_all, truths)
            }
            _ if matches!(self.values.type_of(of), Type::List | Type::Tuple) => {
                self.quantified(is_all, of, depth)
            }
            _ => self.truth_at(array, depth),
        }
    }

    /// Returns whether `str` of a value is certainly not empty, because the value is a number or the result of a
    /// comparison.
    pub(super) fn has_text(&self, id: Id) -> bool {
        matches!(self.values.node(id), Node::Op(Op::Compare(_), _))
            || matches!(
                self.values.type_of(id),
                Type::Bool | Type::Int | Type::Float | Type::Fraction | Type::Decimal
            )
    }

    /// Returns whether a value is an instance of a class because of the operation that computes the value.
    fn is_by_operation(&self, id: Id, class: Id) -> bool {
        match self.values.path_of(class).as_deref() {
            // Assume that a quotient is a float. A quotient of decimals or fractions is not a float, but then the check
            // fails when the script runs.
            Some("float") => self.values.operands(id, Op::Binary(Operator::Div)).is_some(),
            Some("sympy.Expr" | "sympy.Basic") => {
                self.values.call(id).is_some_and(|(path, _)| path.starts_with("sympy."))
            }
            _ => false,
        }
    }

    /// Returns whether a value is a class that was created by a call, for example a call of `namedtuple`.
    pub(in super::super) fn makes_class(&self, id: Id) -> bool {
        self.values.call(id).is_some_and(|(path, _)| CLASS_MAKERS.contains(&&*path))
    }

    /// Returns whether a value is computed from a collection that the script generates.
    pub(in super::super) fn is_general(&self, id: Id) -> bool {
        let (mut todo, mut seen) = (vec![id], HashSet::default());
        while let Some(id) = todo.pop() {
            self.work.spend(1);
            if !seen.insert(id) || self.work.is_spent() {
                continue;
            }
            if self.values.is_general(id) {
                return true;
            }
            match self.values.node(id) {
                Node::Path(path) if GENERATING.contains(&&**path) => return true,
                Node::Op(Op::Attribute(_), operands) => match self.values.path_of(id) {
                    Some(path) if GENERATING.contains(&&*path) => return true,
                    Some(_) => {}
                    None => todo.extend(operands),
                },
                Node::Op(_, operands) => todo.extend(operands),
                _ => {}
            }
        }
        false
    }

    /// Returns whether the attribute of an object is certainly a method.
    pub(super) fn is_method(&self, object: Id, name: &str) -> bool {
        if let Node::Instance(class, _) = self.values.node(object) {
            return self.classes.get(*class).is_some_and(|class| class.methods.contains(name));
        }
        METHODS.contains(&name)
    }

    /// Returns whether a value is a guard, an object from a `qwed_…` package. Its `verify…` methods return objects that
    /// are always true.
    fn is_guard(&self, object: Id) -> bool {
        self.values.call(object).is_some_and(|(path, _)| path.starts_with("qwed_"))
    }

    /// Returns whether a value of the type `of` is certainly an instance of `classes`, which is a class or a tuple of
    /// classes.
    pub(super) fn has_type(&self, of: Type, classes: Id) -> bool {
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
}
