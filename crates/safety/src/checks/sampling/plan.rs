//! Converts a condition into steps, from which each sample computes the condition. A step is a literal, an unknown
//! value, or an operation on the values of earlier steps.

#![expect(clippy::wildcard_enum_match_arm, reason = "other values are not computed")]

use foldhash::{HashMap, HashMapExt as _, HashSet};
use ruff_python_ast::{CmpOp, Operator};

use super::super::vacuity::Vacuity;
use super::super::values::{Id, Node, Of, Op, Type, Values};
use super::Mode;
use super::compute::{Random, changed, computed, drawn};
use super::steps::{Domain, Function, Literal, Step, Value};
use super::tables::{
    ATTRIBUTES, CONSTANTS, LOSSY, MATH, NOT_NEGATIVE, NOT_NEGATIVE_METHODS, SETS, SYMBOLS,
};

/// The maximum number of steps into which a condition is converted.
pub(super) const STEPS_MAX: usize = 300;

/// The maximum total number of operands in the steps of one condition.
const OPERANDS_MAX: usize = 600;

/// The steps from which a sample computes a condition.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct Plan<'v, 'a> {
    values: &'v Values<'a>,
    pub(super) steps: Vec<Step>,
    /// For each value, the index in `steps` of the step that computes the value.
    places: HashMap<Id, usize>,
    /// The indices of the steps that are literals, and are used as tolerances, digits, moduli or exponents.
    structural: HashSet<usize>,
    /// The indices of the steps that are literals, and are used as bounds, for example in a comparison.
    bounds: HashSet<usize>,
    /// Whether the condition depends on an element of a loop.
    pub(super) has_element: bool,
    /// For each comprehension, the number of the first loop that iterates over the comprehension. In this loop, the
    /// loop variable has the same value as the element expression of the comprehension.
    loops: HashMap<Id, u32>,
    /// For each collection, the index of the step for the length of the collection.
    lengths: HashMap<Id, usize>,
    /// Whether a function drops the sign or the decimals of a number.
    drops_parts: bool,
    /// The total number of operands in all steps.
    pub(super) size: usize,
    /// Whether a step chooses one of several values.
    pub(super) has_choice: bool,
    /// Whether a step chooses a value by a condition.
    pub(super) has_branch: bool,
    /// Whether the condition depends on a symbol of a computer algebra system.
    pub(super) has_symbol: bool,
    /// Whether the condition depends on an unknown value, or on a literal that is bound to a name.
    pub(super) has_name: bool,
}

impl<'v, 'a> Plan<'v, 'a> {
    pub(super) fn new(values: &'v Values<'a>) -> Self {
        Self {
            values,
            steps: Vec::new(),
            places: HashMap::new(),
            structural: HashSet::default(),
            bounds: HashSet::default(),
            has_element: false,
            loops: HashMap::new(),
            lengths: HashMap::new(),
            drops_parts: false,
            size: 0,
            has_choice: false,
            has_branch: false,
            has_symbol: false,
            has_name: false,
        }
    }

    /// Adds the steps for a value, and returns the index of the step that computes the value. Returns `None` if there
    /// are too many steps.
    pub(super) fn add(&mut self, id: Id, depth: usize) -> Option<usize> {
        if let Some(place) = self.places.get(&id) {
            return Some(*place);
        }
        if depth == 0 || self.steps.len() >= STEPS_MAX {
            return None;
        }
        let step = self.step(id, depth - 1)?;
        self.steps.push(step);
        let place = self.steps.len() - 1;
        self.places.insert(id, place);
        Some(place)
    }

    fn all(&mut self, ids: &[Id], depth: usize) -> Option<Box<[usize]>> {
        self.size += ids.len();
        if self.size > OPERANDS_MAX {
            return None;
        }
        ids.iter().map(|id| self.add(*id, depth)).collect()
    }

    fn of(&mut self, function: Function, ids: &[Id], depth: usize) -> Option<Step> {
        Some(Step::Of(function, self.all(ids, depth)?))
    }

    fn step(&mut self, id: Id, depth: usize) -> Option<Step> {
        let values = self.values;
        match values.node(id) {
            Node::Number(bits, is_integer) => {
                let is_input = values.is_input(id);
                self.has_name |= values.is_named(id);
                let number = f64::from_bits(*bits);
                Some(Step::Literal(Literal { number, is_integer: *is_integer, is_input }))
            }
            Node::True => Some(Step::Known(Value::Bool(true))),
            Node::False => Some(Step::Known(Value::Bool(false))),
            Node::Text(_) | Node::Bytes(_) | Node::None | Node::Ellipsis => {
                Some(Step::Known(Value::Literal(id)))
            }
            Node::Path(path) => {
                let constant = CONSTANTS.iter().find(|(name, _)| **name == **path);
                Some(constant.map_or(Step::Known(Value::Literal(id)), |(_, number)| {
                    Step::Known(Value::Number(*number))
                }))
            }
            Node::Op(op, operands) => self.operation(id, *op, operands, depth),
            // The script may define the operators of the object.
            Node::Instance(..) => None,
            _ => Some(self.unknown(id)),
        }
    }

    fn unknown(&mut self, id: Id) -> Step {
        self.has_name = true;
        let mut of = id;
        while let Node::Op(op, operands) = self.values.node(of) {
            self.has_element |= matches!(op, Op::Element(_));
            match (op, operands.first()) {
                (Op::Item | Op::Attribute(_), Some(inner)) => of = *inner,
                _ => break,
            }
        }
        self.has_symbol |= self.values.call(of).is_some_and(|(path, _)| SYMBOLS.contains(&&*path));
        Step::Unknown(match self.values.type_of(id) {
            Type::Bool => Domain::Bool,
            Type::Int => Domain::Integer,
            Type::List | Type::Tuple | Type::Set | Type::Dict | Type::Generator => Domain::Many,
            Type::Text | Type::Bytes => Domain::Text,
            _ => Domain::Any,
        })
    }

    fn operation(&mut self, id: Id, op: Op<'_>, operands: &[Id], depth: usize) -> Option<Step> {
        match op {
            Op::Binary(
                Operator::BitAnd
                | Operator::BitOr
                | Operator::BitXor
                | Operator::LShift
                | Operator::RShift
                | Operator::MatMult,
            ) => Some(self.unknown(id)),
            Op::Binary(operator) => self.binary(operator, operands, depth),
            Op::Negative => self.of(Function::Negative, operands, depth),
            Op::Not => self.of(Function::Not, operands, depth),
            Op::And => self.of(Function::And, operands, depth),
            Op::Or => self.of(Function::Or, operands, depth),
            Op::IfElse => {
                (self.has_choice, self.has_branch) = (true, true);
                self.of(Function::IfElse, operands, depth)
            }
            Op::Compare(op) => {
                let step = self.of(Function::Compare(op), operands, depth)?;
                self.note(operands, |it| &mut it.bounds);
                let is_tolerance =
                    operands.iter().any(|it| self.values.call(*it).is_some_and(|it| it.0 == "abs"));
                if is_tolerance {
                    self.note(operands, |it| &mut it.structural);
                }
                Some(step)
            }
            Op::Tuple | Op::List | Op::Set => self.of(Function::Sequence, operands, depth),
            Op::Copy | Op::Test | Op::Field => self.of(Function::Same, operands, depth),
            Op::OneOf(number) => {
                self.has_element = true;
                self.of(Function::Choose(number), operands, depth)
            }
            Op::Element(number) => self.element(id, number, operands, depth),
            Op::Zero => Some(Step::Known(Value::Number(0.0))),
            Op::Comprehension(of) => {
                let first = usize::from(of == Of::Dict);
                let (element, rest) = operands.get(first..)?.split_first()?;
                let mut parts = vec![*element];
                let is_test = |it: &&Id| self.values.operands(**it, Op::Test).is_some();
                parts.extend(rest.iter().filter(is_test));
                self.of(Function::Comprehension, &parts, depth)
            }
            Op::Dict => {
                let items: Vec<Id> = operands.iter().copied().skip(1).step_by(2).collect();
                self.of(Function::Sequence, &items, depth)
            }
            Op::Item => self.item(id, operands, depth),
            Op::Formatted => self.formatted(id, operands, depth),
            Op::Call => self.call(id, depth),
            Op::Attribute(name) => Some(self.attribute(id, name)),
            _ => Some(self.unknown(id)),
        }
    }

    fn attribute(&mut self, id: Id, name: &str) -> Step {
        if let Some(path) = self.values.path_of(id) {
            let constant = CONSTANTS.iter().find(|(name, _)| *name == path);
            let number = constant.map(|(_, number)| Value::Number(*number));
            return Step::Known(number.unwrap_or(Value::Literal(id)));
        }
        match ATTRIBUTES.iter().find(|(of, ..)| *of == name) {
            Some((_, low, high)) => Step::Unknown(Domain::Integers(*low, *high)),
            None => self.unknown(id),
        }
    }

    fn element(&mut self, id: Id, number: u32, operands: &[Id], depth: usize) -> Option<Step> {
        self.has_element = true;
        let of = self.values.original(*operands.first()?);
        if let Node::Op(Op::Comprehension(Of::List | Of::Set | Of::Generator), parts) =
            self.values.node(of)
            && *self.loops.entry(of).or_insert(number) == number
        {
            return self.of(Function::Same, parts.get(..1)?, depth);
        }
        if let Some((object, "values", [])) = self.values.method(of)
            && self.values.call(object).is_some_and(|(path, _)| path == "collections.Counter")
        {
            return Some(Step::Unknown(Domain::Integers(1, 60)));
        }
        // The elements of a dictionary are its keys, but the steps contain only its values. So the element is unknown.
        if self.is_collection(of) && self.values.type_of(of) != Type::Dict {
            self.of(Function::Element(number), operands, depth)
        } else {
            Some(self.unknown(id))
        }
    }

    /// Returns the step for a formatted number, as in `f"{x:.2f}"`.
    fn formatted(&mut self, id: Id, operands: &[Id], depth: usize) -> Option<Step> {
        let [number, format] = operands else { return Some(self.unknown(id)) };
        let Some((decimals, is_percentage)) = format_of(text_of(self.values, *format)) else {
            return Some(self.unknown(id));
        };
        self.of(Function::Formatted(decimals, is_percentage), &[*number], depth)
    }

    /// Returns the step for an item of a dictionary, such as `d[key]` in a loop over the keys of a dictionary. If no
    /// loop provides the key, the item is unknown.
    fn item(&mut self, id: Id, operands: &[Id], depth: usize) -> Option<Step> {
        let values = self.values;
        if let [container, key] = operands
            && values.type_of(*container) == Type::Dict
        {
            // In a loop over items, the key is a part of a pair. In a loop over keys, the key is the element itself.
            let pair = values.operands(*key, Op::Item).and_then(|of| of.first());
            if let Node::Op(Op::Element(number), of) = values.node(*pair.unwrap_or(key)) {
                let of = of.first().copied().unwrap_or_default();
                let object = values.method(of).map_or(of, |(object, ..)| object);
                if values.type_of(object) == Type::Dict {
                    self.has_element = true;
                    return self.of(Function::Element(*number), &[*container], depth);
                }
            }
        }
        Some(self.unknown(id))
    }

    /// Returns the step for the length of a collection. A set has at most as many elements as the collection from which
    /// it is created.
    fn length(&mut self, of: Id) -> Step {
        let of = self.values.original(of);
        let source = self.values.call(of).and_then(|(path, arguments)| match arguments {
            [source] => SETS.contains(&&*path).then_some(*source),
            _ => None,
        });
        let Some(source) = source else {
            if let Some(place) = self.lengths.get(&of) {
                return Step::Of(Function::Same, [*place].into());
            }
            // The caller adds the returned step next, so the current number of steps becomes the index of this step.
            self.lengths.insert(of, self.steps.len());
            return Step::Unknown(Domain::Count);
        };
        let step = self.length(source);
        self.steps.push(step);
        Step::Of(Function::DistinctCount, [self.steps.len() - 1].into())
    }

    /// Adds the steps of the literals among `ids` to the set that `set` selects: `structural` or `bounds`.
    fn note(&mut self, ids: &[Id], set: fn(&mut Self) -> &mut HashSet<usize>) {
        for id in ids {
            if self.values.literal(*id).is_some()
                && let Some(place) = self.places.get(id).copied()
            {
                set(self).insert(place);
                if let Some(Step::Of(Function::Negative, of)) = self.steps.get(place) {
                    let of = of.to_vec();
                    set(self).extend(of);
                }
            }
        }
    }

    fn binary(&mut self, operator: Operator, operands: &[Id], depth: usize) -> Option<Step> {
        let is_own = |operand: &Id| match operator {
            Operator::Add => self.values.may_define_operators(*operand),
            _ => self.values.is_instance(*operand),
        };
        if operands.iter().any(is_own) {
            return None;
        }
        let right = operands.get(1..)?;
        let literal = right.first().and_then(|it| self.values.literal(*it));
        let function = match (operator, literal) {
            (Operator::Mod, Some(modulus)) if modulus > 0.0 => Function::Remainder,
            (Operator::Pow, Some(exponent)) if exponent > 0.0 && exponent % 2.0 == 0.0 => {
                Function::EvenPower
            }
            _ => Function::Arithmetic(operator),
        };
        let step = self.of(function, operands, depth)?;
        if matches!(operator, Operator::Mod | Operator::FloorDiv | Operator::Pow) {
            self.note(right, |it| &mut it.structural);
        }
        if operator == Operator::Mod {
            self.note(right, |it| &mut it.bounds);
        }
        Some(step)
    }

    fn method(
        &mut self,
        id: Id,
        (object, name, arguments): (Id, &str, &[Id]),
        depth: usize,
    ) -> Option<Step> {
        let values = self.values;
        match (name, arguments) {
            ("compare", [other]) => {
                self.of(Function::Arithmetic(Operator::Sub), &[object, *other], depth)
            }
            ("quantize", [unit, ..]) => {
                let step = self.of(Function::Quantize, &[object, *unit], depth)?;
                self.note(&[*unit], |it| &mut it.structural);
                if let Some((_, of)) = values.call(*unit) {
                    self.note(of, |it| &mut it.structural);
                }
                Some(step)
            }
            ("copy" | "tolist" | "values" | "conjugate" | "evalf" | "n", []) => {
                self.of(Function::Same, &[object], depth)
            }
            ("sum", []) => self.of(Function::Sum, &[object], depth),
            ("min", []) => self.of(Function::Min, &[object], depth),
            ("max", []) => self.of(Function::Max, &[object], depth),
            ("mean", []) => self.of(Function::Mean, &[object], depth),
            ("ratio" | "quick_ratio" | "real_quick_ratio", _)
                if values.type_of(object) == Type::Matcher =>
            {
                Some(Step::Unknown(Domain::Share))
            }
            ("weekday", []) => Some(Step::Unknown(Domain::Integers(0, 6))),
            ("isoweekday", []) => Some(Step::Unknown(Domain::Integers(1, 7))),
            (name, _) if NOT_NEGATIVE_METHODS.contains(&name) => Some(Step::Unknown(Domain::Size)),
            _ => Some(self.unknown(id)),
        }
    }

    fn call(&mut self, id: Id, depth: usize) -> Option<Step> {
        let values = self.values;
        let function = *values.operands(id, Op::Call)?.first()?;
        if let Some(method) = values.method(id)
            && values.path_of(function).is_none()
        {
            return self.method(id, method, depth);
        }
        let Some((path, arguments)) = values.call(id) else { return Some(self.unknown(id)) };
        let is_keyword =
            |id: &Id| matches!(values.node(*id), Node::Op(Op::Keyword(_) | Op::Starred, _));
        let count = arguments.iter().position(is_keyword).unwrap_or(arguments.len());
        let (positional, keywords) = arguments.split_at(count);
        if let Some((_, function)) = MATH.iter().find(|(name, _)| *name == path)
            && let [of] = positional
            && keywords.is_empty()
        {
            if let Ok(number) = text_of(values, *of).trim().parse() {
                let is_input = values.is_input(*of);
                self.has_name |= values.is_named(*of);
                return Some(Step::Literal(Literal { number, is_integer: false, is_input }));
            }
            self.drops_parts |= LOSSY.contains(&&*path);
            return self.of(Function::Math(*function), &[*of], depth);
        }
        if let ("math.isclose" | "numpy.isclose" | "numpy.allclose", [left, right, ..]) =
            (&*path, positional)
        {
            let is_python = *path == *"math.isclose";
            return self.is_close([*left, *right], keywords, is_python, depth);
        }
        let is_by_key = !keywords.is_empty() && matches!(&*path, "min" | "max");
        match self.known_function(&path, positional).filter(|_| !is_by_key) {
            Some((function, operands)) => {
                let step = self.of(function, operands, depth)?;
                match function {
                    // A literal that is written directly in the call is a bound, for example `1.0` in `min(1.0, x)`.
                    Function::Min | Function::Max => {
                        self.has_choice = true;
                        let inline = operands.iter().copied().filter(|id| !values.is_input(*id));
                        self.note(&inline.collect::<Vec<Id>>(), |it| &mut it.bounds);
                    }
                    Function::Round => {
                        let digits = operands.get(1..).unwrap_or_default();
                        self.note(digits, |it| &mut it.structural);
                    }
                    _ => {}
                }
                Some(step)
            }
            None => Some(match (&*path, positional) {
                ("len", [of]) => self.length(*of),
                (path, _) if NOT_NEGATIVE.contains(&path) => Step::Unknown(Domain::Size),
                _ => self.unknown(id),
            }),
        }
    }

    /// Returns the function and the operands of the step for a call with these positional arguments.
    fn known_function<'o>(&self, path: &str, of: &'o [Id]) -> Option<(Function, &'o [Id])> {
        let is_collection = || of.first().is_some_and(|it| self.is_collection(*it));
        let first = of.get(..1)?;
        Some(match (path, of.len()) {
            ("min" | "numpy.minimum", _) | ("numpy.min" | "numpy.amin", 1) => (Function::Min, of),
            ("max" | "numpy.maximum", _) | ("numpy.max" | "numpy.amax", 1) => (Function::Max, of),
            ("sum" | "math.fsum" | "numpy.sum", 1) => (Function::Sum, of),
            (
                "statistics.mean" | "statistics.fmean" | "statistics.median" | "numpy.mean"
                | "numpy.median",
                1,
            ) => (Function::Mean, of),
            ("all" | "numpy.all", 1) => (Function::All, of),
            ("any" | "numpy.any", 1) => (Function::Any, of),
            ("len", 1) if is_collection() => (Function::Count, of),
            ("set" | "frozenset", 1) if is_collection() => (Function::Distinct, of),
            ("sorted" | "list" | "tuple" | "numpy.array" | "numpy.asarray", _)
                if is_collection() =>
            {
                (Function::Same, first)
            }
            ("range", 1 | 2) => (Function::Range, of),
            ("round" | "numpy.round", 1 | 2) => (Function::Round, of),
            ("math.comb", 2) => (Function::Combinations, of),
            ("math.copysign", 2) => (Function::CopySign, of),
            ("math.pow" | "pow", 2) => (Function::Power, of),
            ("math.hypot", 2) => (Function::Hypot, of),
            ("fractions.Fraction" | "sympy.Rational", 2) => (Function::Quotient, of),
            _ => return None,
        })
    }

    fn is_close(
        &mut self,
        sides: [Id; 2],
        keywords: &[Id],
        is_python: bool,
        depth: usize,
    ) -> Option<Step> {
        let mut parts = self.all(&sides, depth)?.into_vec();
        let defaults = if is_python { [1e-9, 0.0] } else { [1e-5, 1e-8] };
        for (names, default) in [["rel_tol", "rtol"], ["abs_tol", "atol"]].into_iter().zip(defaults)
        {
            let given = names.into_iter().find_map(|name| self.values.keyword(keywords, name));
            if let Some(tolerance) = given {
                parts.push(self.add(tolerance, depth)?);
                self.note(&[tolerance], |it| &mut it.structural);
            } else {
                self.steps.push(Step::Known(Value::Number(default)));
                parts.push(self.steps.len() - 1);
            }
        }
        Some(Step::Of(Function::IsClose, parts.into()))
    }

    fn is_collection(&self, id: Id) -> bool {
        let values = self.values;
        let is_known = matches!(
            values.type_of(id),
            Type::List | Type::Tuple | Type::Set | Type::Dict | Type::Generator
        );
        is_known
            || values
                .call(id)
                .is_some_and(|(path, _)| matches!(&*path, "range" | "sorted" | "numpy.array"))
    }
}

impl Plan<'_, '_> {
    /// If the step `root` compares two values for equality, or bounds their difference, returns the indices of the
    /// steps for these two values.
    pub(super) fn sides(&self, root: usize) -> Option<(usize, usize)> {
        let Step::Of(function, operands) = self.steps.get(root)? else { return None };
        let (left, right) = (*operands.first()?, *operands.get(1)?);
        match function {
            Function::Compare(CmpOp::Eq | CmpOp::NotEq) | Function::IsClose => Some((left, right)),
            Function::Compare(_) => [left, right].into_iter().find_map(|side| {
                let Step::Of(Function::Math(_), of) = self.steps.get(side)? else { return None };
                match self.steps.get(*of.first()?)? {
                    Step::Of(Function::Arithmetic(Operator::Sub), sides) => {
                        Some((*sides.first()?, *sides.get(1)?))
                    }
                    _ => None,
                }
            }),
            _ => None,
        }
    }

    /// Returns the reason why the comparison `root` always holds although its values differ: rounding or a tolerance.
    pub(super) fn reason(&self, root: usize) -> Vacuity {
        match self.steps.get(root) {
            Some(Step::Of(Function::Compare(CmpOp::Eq | CmpOp::NotEq), _)) => Vacuity::Rounding,
            _ => Vacuity::Tolerance,
        }
    }

    /// Returns whether a step drops a part of a number, and so can have the same value for different operands.
    pub(super) fn is_lossy(&self) -> bool {
        self.drops_parts
            || self.steps.iter().any(|step| match step {
                Step::Of(Function::Arithmetic(operator), _) => *operator == Operator::FloorDiv,
                Step::Of(
                    Function::Round
                    | Function::Quantize
                    | Function::Formatted(..)
                    | Function::CopySign
                    | Function::Remainder,
                    _,
                ) => true,
                _ => false,
            })
    }

    /// Returns whether samples of this mode differ from each other.
    pub(super) fn varies(&self, mode: Mode) -> bool {
        self.steps.iter().enumerate().any(|(place, step)| match step {
            Step::Unknown(_) | Step::Of(Function::Element(_) | Function::Choose(_), _) => true,
            Step::Literal(it) => it.number != 0.0 && self.is_changed(place, mode),
            _ => false,
        })
    }

    fn is_changed(&self, place: usize, mode: Mode) -> bool {
        match mode {
            Mode::All => true,
            Mode::Exact => false,
            Mode::Data => !self.structural.contains(&place),
            Mode::Wide => !self.bounds.contains(&place) && !self.structural.contains(&place),
        }
    }

    /// Computes all steps in one sample. Returns `None` if a step cannot be computed.
    pub(super) fn sample(&self, mode: Mode, round: u32) -> Option<Vec<Value>> {
        let mut values = Vec::with_capacity(self.steps.len());
        for (place, step) in self.steps.iter().enumerate() {
            let mut random = Random::new(place, round);
            let value = match step {
                Step::Known(value) => value.clone(),
                Step::Literal(it) if self.is_changed(place, mode) && it.number != 0.0 => {
                    Value::Number(changed(*it, mode, &mut random))
                }
                Step::Literal(it) => Value::Number(it.number),
                Step::Unknown(Domain::Any | Domain::Integer)
                | Step::Of(Function::Element(_), _)
                    if mode == Mode::Exact =>
                {
                    Value::Number(f64::from(round))
                }
                Step::Unknown(domain) => drawn(*domain, mode, place, &mut random),
                Step::Of(function, operands) => {
                    let operands: Vec<&Value> =
                        operands.iter().map(|it| values.get(*it)).collect::<Option<_>>()?;
                    computed(*function, &operands, mode, round, &mut random)?
                }
            };
            if let Value::Number(number) = value
                && number.is_nan()
            {
                return None;
            }
            values.push(value);
        }
        Some(values)
    }
}

/// Returns the text of a string literal; an empty text for other values.
fn text_of<'v>(values: &'v Values<'_>, id: Id) -> &'v str {
    match values.node(id) {
        Node::Text(text) => text,
        _ => "",
    }
}

/// Returns the number of decimals of a format like `.2f`, and whether the format is for percentages.
fn format_of(format: &str) -> Option<(usize, bool)> {
    let (_, format) = format.split_once('.')?;
    let (decimals, kind) = format.split_at_checked(1)?;
    let is_percentage = match kind {
        "f" => false,
        "%" => true,
        _ => return None,
    };
    Some((decimals.parse().ok()?, is_percentage))
}
