//! Assigns numbers to the values of a script's expressions (value numbering). Two expressions get the same number only
//! if they have the same value.

#![expect(clippy::wildcard_enum_match_arm, reason = "most values have no literal and no type")]

use std::borrow::Cow;

use foldhash::{HashMap, HashMapExt as _, HashSet};
use ruff_python_ast::{CmpOp, Operator};

/// Module constants that are floats.
const FLOATS: &[&str] = &["math.pi", "math.e", "math.tau", "math.inf", "math.nan", "numpy.pi"];

/// The number that identifies a value. Expressions with the same number have the same value.
pub(super) type Id = u32;

/// The maximum number of attributes in a qualified name.
const PATH_PARTS_MAX: usize = 16;

/// The type of a value. Types on which no judgement depends are `Unknown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Type {
    Unknown,
    Bool,
    Int,
    Float,
    Fraction,
    Decimal,
    Text,
    Bytes,
    None,
    List,
    Tuple,
    Set,
    Dict,
    Generator,
    /// A Z3 solver.
    Solver,
    /// The result of a Z3 solver's method `check`.
    CheckResult,
    /// An object that is always true, for example a function.
    Object,
    /// A `difflib.SequenceMatcher`.
    Matcher,
}

/// The kind of a comprehension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Of {
    List,
    Set,
    Dict,
    Generator,
}

/// The operation that computes a value from its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Op<'a> {
    Binary(Operator),
    Not,
    Negative,
    Invert,
    And,
    Or,
    /// Operands: the condition, the value if it is true, and the value if it is false.
    IfElse,
    Compare(CmpOp),
    Tuple,
    List,
    Set,
    /// Operands: each key, followed by its value.
    Dict,
    /// Operands: the function and its arguments.
    Call,
    Keyword(&'a str),
    Starred,
    Attribute(&'a str),
    /// Operands: the container and the key.
    Item,
    Slice,
    /// Operands: the element expressions, and for each `for` its iterable and its conditions.
    Comprehension(Of),
    /// An equal copy of the operand.
    Copy,
    /// One of the operands, as the value of a loop variable. The number identifies the loop.
    OneOf(u32),
    /// An element of the operand, as the value of a loop variable. The number identifies the loop.
    Element(u32),
    /// A condition of a comprehension.
    Test,
    /// The operand, which is a literal, as the value of a field or a parameter.
    Field,
    /// The union of two dictionaries. Items of the second dictionary replace items of the first.
    Merged,
    Formatted,
    /// The value of a name that depends only on whether an exception was raised. The operand is the value without an
    /// exception.
    Flag,
    /// The difference of a value and itself: 0, or an empty set.
    Zero,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Node<'a> {
    /// An unknown value; its type may be known. The number distinguishes unknown values.
    Unknown(u32, Type),
    /// A number literal: the bits of its `f64`, and whether the literal is an integer.
    Number(u64, bool),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, str>),
    True,
    False,
    None,
    Ellipsis,
    /// A builtin, or an imported module, function or class, by its qualified name.
    Path(Box<str>),
    /// A function of the script, by its index in the interpreter's list of closures.
    Function(usize),
    Class(usize),
    /// An instance of a class of the script, by the index of the class. The second number distinguishes instances.
    Instance(usize, u32),
    Op(Op<'a>, Box<[Id]>),
}

#[derive(Debug, Clone, Copy)]
struct Facts {
    of: Type,
    number: Option<f64>,
    is_literal: bool,
}

#[derive(Debug, Default)]
pub(super) struct Values<'a> {
    nodes: Vec<Node<'a>>,
    /// The facts about the values in `nodes`, at the same indices.
    facts: Vec<Facts>,
    ids: HashMap<Node<'a>, Id>,
    /// The literals that are values of names, parameters or elements.
    inputs: HashSet<Id>,
    /// The literals that assignments have bound to names.
    named: HashSet<Id>,
    unknown: u32,
    /// The unknown values of names in loops over generated collections, such as ranges.
    general: HashSet<Id>,
    /// Whether a class of the script defines the operator `+`.
    has_operators: bool,
}

impl<'a> Values<'a> {
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            facts: Vec::new(),
            ids: HashMap::new(),
            inputs: HashSet::default(),
            unknown: 0,
            named: HashSet::default(),
            general: HashSet::default(),
            has_operators: false,
        }
    }

    pub(super) fn add(&mut self, node: Node<'a>) -> Id {
        if let Some(id) = self.ids.get(&node) {
            return *id;
        }
        let id = Id::try_from(self.nodes.len()).unwrap_or(Id::MAX);
        self.nodes.push(node.clone());
        // The facts about the operands are known, because operands are added before their operation.
        self.facts.push(Facts { of: Type::Unknown, number: None, is_literal: false });
        let facts = Facts {
            of: self.find_type(id),
            number: self.find_number(id),
            is_literal: self.find_literal(id),
        };
        if let Some(last) = self.facts.last_mut() {
            *last = facts;
        }
        self.ids.insert(node, id);
        id
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Records that a name, a parameter or an element has the value `id`.
    pub(super) fn note_input(&mut self, id: Id) {
        if self.is_literal(id) {
            self.inputs.insert(id);
            if let Node::Op(Op::Negative, of) = self.node(id) {
                let of = of.to_vec();
                self.inputs.extend(of);
            }
        }
    }

    /// Records that `id` is the unknown value of a name in a loop over a generated collection.
    pub(super) fn note_general(&mut self, id: Id) {
        self.general.insert(id);
    }

    /// Records that a class of the script defines the operator `+`.
    pub(super) fn note_operators(&mut self) {
        self.has_operators = true;
    }

    pub(super) fn is_general(&self, id: Id) -> bool {
        self.general.contains(&id)
    }

    /// Records that an assignment binds a name to the value `id`.
    pub(super) fn note_named(&mut self, id: Id) {
        self.note_input(id);
        if self.is_literal(id) {
            self.named.insert(id);
        }
    }

    pub(super) fn is_named(&self, id: Id) -> bool {
        self.named.contains(&id)
    }

    pub(super) fn is_input(&self, id: Id) -> bool {
        self.inputs.contains(&id)
    }

    /// Returns a number that was not returned before.
    pub(super) fn fresh_number(&mut self) -> u32 {
        self.unknown += 1;
        self.unknown
    }

    pub(super) fn unknown(&mut self) -> Id {
        self.unknown_of(Type::Unknown)
    }

    pub(super) fn unknown_of(&mut self, of: Type) -> Id {
        let number = self.fresh_number();
        self.add(Node::Unknown(number, of))
    }

    pub(super) fn op(&mut self, op: Op<'a>, operands: impl Into<Box<[Id]>>) -> Id {
        self.add(Node::Op(op, operands.into()))
    }

    pub(super) fn path(&mut self, path: &str) -> Id {
        self.add(Node::Path(path.into()))
    }

    pub(super) fn node(&self, id: Id) -> &Node<'a> {
        usize::try_from(id).ok().and_then(|id| self.nodes.get(id)).unwrap_or(&Node::Ellipsis)
    }

    pub(super) fn operand_count(&self, id: Id) -> usize {
        match self.node(id) {
            Node::Op(_, operands) => operands.len(),
            _ => 0,
        }
    }

    /// Returns the operands of a value if its operation is `of`.
    pub(super) fn operands(&self, id: Id, of: Op<'_>) -> Option<&[Id]> {
        match self.node(id) {
            Node::Op(op, operands) if *op == of => Some(operands),
            _ => None,
        }
    }

    /// Returns the qualified name of a builtin, of an imported object, or of a member of an imported object.
    pub(super) fn path_of(&self, id: Id) -> Option<Cow<'_, str>> {
        let mut names = Vec::new();
        let mut at = id;
        while let Node::Op(Op::Attribute(name), operands) = self.node(at) {
            if names.len() == PATH_PARTS_MAX {
                return None;
            }
            names.push(*name);
            at = *operands.first()?;
        }
        let Node::Path(path) = self.node(at) else { return None };
        if names.is_empty() {
            return Some(Cow::Borrowed(path));
        }
        names.push(path);
        names.reverse();
        Some(Cow::Owned(names.join(".")))
    }

    /// Returns the qualified name of a call's function, and all arguments of the call.
    pub(super) fn call(&self, id: Id) -> Option<(Cow<'_, str>, &[Id])> {
        let (function, arguments) = self.operands(id, Op::Call)?.split_first()?;
        Some((self.path_of(*function)?, arguments))
    }

    /// Returns the object, the method's name and the arguments of a method call.
    pub(super) fn method(&self, id: Id) -> Option<(Id, &'a str, &[Id])> {
        let (function, arguments) = self.operands(id, Op::Call)?.split_first()?;
        match self.node(*function) {
            Node::Op(Op::Attribute(name), operands) => Some((*operands.first()?, *name, arguments)),
            _ => None,
        }
    }

    pub(super) fn keyword(&self, arguments: &[Id], name: &str) -> Option<Id> {
        arguments.iter().find_map(|argument| match self.node(*argument) {
            Node::Op(Op::Keyword(keyword), value) if *keyword == name => value.first().copied(),
            _ => None,
        })
    }

    /// Returns the numeric value of a number literal, which may be negated.
    pub(super) fn literal(&self, id: Id) -> Option<f64> {
        match self.node(id) {
            Node::Number(bits, _) => Some(f64::from_bits(*bits)),
            Node::Op(Op::Negative, operand) => Some(-self.literal(*operand.first()?)?),
            _ => None,
        }
    }

    fn facts(&self, id: Id) -> Option<&Facts> {
        self.facts.get(usize::try_from(id).ok()?)
    }

    /// Returns whether a value is an object of a class of the script, or is computed from such an object with an
    /// operator.
    pub(super) fn is_instance(&self, id: Id) -> bool {
        let mut todo = vec![id];
        for _ in 0..8 {
            match todo.pop().map(|id| self.node(id)) {
                Some(Node::Instance(..)) => return true,
                Some(Node::Op(Op::Binary(_) | Op::Copy, operands)) => todo.extend(operands),
                Some(_) => {}
                None => break,
            }
        }
        false
    }

    /// Returns whether `+` is commutative for a value: whether the value is neither a string, nor a sequence, nor an
    /// object of a class of the script.
    pub(super) fn is_commutative(&self, id: Id) -> bool {
        let of = self.type_of(id);
        !matches!(of, Type::Text | Type::Bytes | Type::List | Type::Tuple)
            && !self.may_define_operators(id)
    }

    /// Returns whether a value is an object of a class of the script that may define operators.
    pub(super) fn may_define_operators(&self, id: Id) -> bool {
        let is_unknown = || {
            self.type_of(id) == Type::Unknown
                && matches!(
                    self.node(id),
                    Node::Unknown(..)
                        | Node::Op(Op::Call | Op::Attribute(_) | Op::Element(_) | Op::Item, _)
                )
        };
        self.is_instance(id) || self.has_operators && is_unknown()
    }

    /// Returns whether a value is a literal, or a display of literals.
    pub(super) fn is_literal(&self, id: Id) -> bool {
        self.facts(id).is_some_and(|facts| facts.is_literal)
    }

    fn find_literal(&self, id: Id) -> bool {
        match self.node(id) {
            Node::Number(..)
            | Node::Text(_)
            | Node::Bytes(_)
            | Node::True
            | Node::False
            | Node::None
            | Node::Ellipsis => true,
            Node::Op(Op::Tuple | Op::List | Op::Set | Op::Dict, items) => {
                items.iter().all(|item| self.is_literal(*item))
            }
            Node::Op(Op::Negative | Op::Copy, operands) => {
                operands.iter().all(|operand| self.is_literal(*operand))
            }
            _ => false,
        }
    }

    /// If the script made the value `id` by copying another value, returns the other value. Otherwise returns `id`.
    pub(super) fn original(&self, mut id: Id) -> Id {
        while let Some([of]) = self.operands(id, Op::Copy) {
            id = *of;
        }
        id
    }

    /// Returns the operand if `id` is an `Op::Field`, otherwise `id` itself.
    pub(super) fn field(&self, id: Id) -> Id {
        self.operands(id, Op::Field).and_then(|of| of.first().copied()).unwrap_or(id)
    }

    pub(super) fn type_of(&self, id: Id) -> Type {
        self.facts(id).map_or(Type::Unknown, |facts| facts.of)
    }

    fn find_type(&self, id: Id) -> Type {
        match self.node(id) {
            Node::Unknown(_, of) => *of,
            Node::Number(_, true) => Type::Int,
            Node::Number(_, false) => Type::Float,
            Node::Text(_) => Type::Text,
            Node::Bytes(_) => Type::Bytes,
            Node::True | Node::False => Type::Bool,
            Node::None => Type::None,
            Node::Function(_) | Node::Class(_) => Type::Object,
            Node::Path(path) if FLOATS.contains(&&**path) => Type::Float,
            Node::Op(op, operands) => self.type_of_op(id, *op, operands),
            _ => Type::Unknown,
        }
    }

    fn type_of_op(&self, id: Id, op: Op<'_>, operands: &[Id]) -> Type {
        let of = |place: usize| operands.get(place).map_or(Type::Unknown, |it| self.type_of(*it));
        match op {
            Op::Tuple => Type::Tuple,
            Op::List | Op::Comprehension(Of::List) => Type::List,
            Op::Set | Op::Comprehension(Of::Set) => Type::Set,
            Op::Dict | Op::Merged | Op::Comprehension(Of::Dict) => Type::Dict,
            Op::Comprehension(Of::Generator) => Type::Generator,
            Op::Formatted => Type::Text,
            Op::Attribute(_) if self.path_of(id).is_some_and(|path| FLOATS.contains(&&*path)) => {
                Type::Float
            }
            Op::And | Op::Or if operands.iter().all(|it| self.type_of(*it) == of(0)) => of(0),
            Op::Negative | Op::Copy | Op::Field => of(0),
            Op::IfElse if of(1) == of(2) => of(1),
            Op::Not | Op::Compare(CmpOp::In | CmpOp::NotIn | CmpOp::Is | CmpOp::IsNot) => {
                Type::Bool
            }
            Op::Compare(_) if is_plain(of(0)) && is_plain(of(1)) => Type::Bool,
            Op::Binary(operator) => type_of_arithmetic(operator, of(0), of(1)),
            Op::Call => self.type_of_call(id),
            _ => Type::Unknown,
        }
    }

    fn type_of_call(&self, id: Id) -> Type {
        if let Some((object, "check", _)) = self.method(id)
            && self.type_of(object) == Type::Solver
        {
            return Type::CheckResult;
        }
        if let Some((_, name, _)) = self.method(id) {
            match name {
                "split" | "splitlines" | "rsplit" | "most_common" | "tolist" => return Type::List,
                "strip" | "lower" | "upper" | "title" | "join" | "hexdigest" => return Type::Text,
                "startswith" | "endswith" | "isdigit" | "isalpha" => return Type::Bool,
                _ => {}
            }
        }
        let Some((path, arguments)) = self.call(id) else { return Type::Unknown };
        let first = || arguments.first().map_or(Type::Unknown, |it| self.type_of(*it));
        match &*path {
            "len" | "int" | "ord" | "hash" | "id" | "math.comb" | "math.perm"
            | "math.factorial" | "math.gcd" | "math.lcm" | "math.isqrt" | "math.floor"
            | "math.ceil" => Type::Int,
            "float" => Type::Float,
            "bool" | "isinstance" | "issubclass" | "callable" | "hasattr" | "all" | "any"
            | "math.isclose" => Type::Bool,
            "str" | "repr" | "format" | "chr" | "hex" | "bin" | "json.dumps" => Type::Text,
            "list" | "sorted" => Type::List,
            "tuple" => Type::Tuple,
            "set" => Type::Set,
            "dict" | "collections.Counter" => Type::Dict,
            "abs" | "round" => first(),
            "fractions.Fraction" => Type::Fraction,
            "decimal.Decimal" => Type::Decimal,
            "difflib.SequenceMatcher" => Type::Matcher,
            "filter" | "map" | "zip" | "enumerate" | "reversed" | "iter" => Type::Generator,
            "z3.Solver" | "z3.Optimize" | "z3.SimpleSolver" | "z3.SolverFor" | "z3.Fixedpoint" => {
                Type::Solver
            }
            path if path.starts_with("math.") => Type::Float,
            _ => Type::Unknown,
        }
    }

    /// Returns the numeric value of an expression that consists of literals and well-known operations.
    pub(super) fn number(&self, id: Id) -> Option<f64> {
        self.facts(id)?.number
    }

    fn find_number(&self, id: Id) -> Option<f64> {
        let of = |id: Id| self.number(id);
        match self.node(id) {
            Node::Number(bits, _) => Some(f64::from_bits(*bits)),
            Node::True => Some(1.0),
            Node::False | Node::Op(Op::Zero, _) => Some(0.0),
            Node::Op(Op::Negative, operands) => Some(-of(*operands.first()?)?),
            Node::Op(Op::Copy | Op::Field, operands) => of(*operands.first()?),
            Node::Op(Op::Binary(operator), operands) => match **operands {
                [left, right] => arithmetic(*operator, of(left)?, of(right)?),
                _ => None,
            },
            Node::Op(Op::Call, _) => {
                let (path, arguments) = self.call(id)?;
                self.number_of_call(&path, arguments, &of)
            }
            _ => None,
        }
    }

    fn number_of_call(
        &self,
        path: &str,
        arguments: &[Id],
        of: &dyn Fn(Id) -> Option<f64>,
    ) -> Option<f64> {
        let numbers = || arguments.iter().map(|it| of(*it)).collect::<Option<Vec<f64>>>();
        let first = || of(*arguments.first()?);
        match path {
            "abs" => Some(first()?.abs()),
            "int" | "math.floor" => {
                if let Some(Node::Text(text)) = arguments.first().map(|it| self.node(*it)) {
                    return text.trim().parse().ok();
                }
                Some(first()?.trunc())
            }
            "float" | "decimal.Decimal" | "fractions.Fraction" | "sympy.Rational"
            | "sympy.Integer" | "sympy.Float" => match arguments.first().map(|it| self.node(*it)) {
                Some(Node::Text(text)) => text.trim().parse().ok(),
                _ => match numbers()?[..] {
                    [number] => Some(number),
                    [one, other] => Some(one / other),
                    _ => None,
                },
            },
            "math.sqrt" => Some(first()?.sqrt()),
            "math.pi" => Some(std::f64::consts::PI),
            "max" => numbers()?.into_iter().reduce(f64::max),
            "min" => numbers()?.into_iter().reduce(f64::min),
            "bool" => Some(f64::from(u8::from(first()? != 0.0))),
            "round" => {
                let digits = arguments.get(1).map_or(Some(0.0), |it| of(*it))?;
                let scale = 10_f64.powf(digits);
                Some((first()? * scale).round_ties_even() / scale)
            }
            _ => None,
        }
    }
}

pub(super) fn arithmetic(operator: Operator, left: f64, right: f64) -> Option<f64> {
    Some(match operator {
        Operator::Add => left + right,
        Operator::Sub => left - right,
        Operator::Mult => left * right,
        Operator::Div => left / right,
        Operator::FloorDiv => (left / right).floor(),
        Operator::Mod => left.rem_euclid(right),
        Operator::Pow => left.powf(right),
        _ => return None,
    })
}

/// Returns whether comparisons of values of this type return a Boolean.
fn is_plain(of: Type) -> bool {
    matches!(
        of,
        Type::Bool
            | Type::Int
            | Type::Float
            | Type::Fraction
            | Type::Decimal
            | Type::Text
            | Type::Bytes
            | Type::None
            | Type::Set
            | Type::Dict
    )
}

fn type_of_arithmetic(operator: Operator, left: Type, right: Type) -> Type {
    let int = |of| matches!(of, Type::Int | Type::Bool);
    match (left, right) {
        (one, other) if int(one) && int(other) => match operator {
            Operator::Div => Type::Float,
            // With a negative exponent, the result is a float.
            Operator::Pow => Type::Unknown,
            _ => Type::Int,
        },
        (Type::Float, other) | (other, Type::Float) if int(other) || other == Type::Float => {
            Type::Float
        }
        (Type::Fraction, other) | (other, Type::Fraction)
            if (int(other) || other == Type::Fraction) && operator != Operator::Pow =>
        {
            Type::Fraction
        }
        (Type::Decimal, other) | (other, Type::Decimal) if int(other) || other == Type::Decimal => {
            Type::Decimal
        }
        (Type::Text, Type::Text) => Type::Text,
        (Type::Set, Type::Set) => Type::Set,
        _ => Type::Unknown,
    }
}

/// Returns the equivalent operator for a comparison with exchanged operands.
pub(super) fn mirrored(op: CmpOp) -> CmpOp {
    match op {
        CmpOp::Lt => CmpOp::Gt,
        CmpOp::LtE => CmpOp::GtE,
        CmpOp::Gt => CmpOp::Lt,
        CmpOp::GtE => CmpOp::LtE,
        other => other,
    }
}
