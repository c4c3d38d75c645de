//! Follows the values of a script forward through its statements, and judges the checks on the way. Never runs any of
//! the script's code.
//!
//! A name that is assigned in a loop, or differently in the branches of a statement, gets an unknown value. So does an
//! object that something may have changed. Calls of the script's own functions are followed to a small depth, so that a
//! check in a function is judged with the arguments of its calls.

#![expect(clippy::wildcard_enum_match_arm, reason = "other values are unknown")]

use foldhash::{HashMap, HashMapExt as _, HashSet};
use ruff_python_ast::{
    BoolOp, CmpOp, Comprehension, ExceptHandler, Expr, ExprCall, Number, Parameters, Stmt,
    StmtClassDef, StmtFor, StmtFunctionDef, StmtTry, StmtWith, UnaryOp,
};
use ruff_text_size::{Ranged as _, TextRange, TextSize};

use super::flags::{Flag, exception_flags};
use super::imports::Imports;
use super::influence::{Changes, Influence, names};
use super::judge::{ClassFacts, Judge, Truth};
use super::vacuity::Vacuity;
use super::values::{Id, Node, Of, Op, Type, Values};
use super::{Check, CheckKind};
use crate::work::Work;

/// The maximum number of calls that are followed, one in another.
const CALLS_MAX: usize = 4;
/// The maximum nesting of statements and expressions that are followed.
const LEVEL_MAX: usize = 60;
/// The maximum number of values. A script with more is not judged.
const VALUES_MAX: usize = 40_000;
/// The maximum number of functions in a collection that are all followed.
const FUNCTIONS_MAX: usize = 30;

/// Methods that do not change their object.
const PURE_METHODS: &[&str] = &[
    "check",
    "copy",
    "count",
    "denominator",
    "diff",
    "doit",
    "dot",
    "encode",
    "decode",
    "endswith",
    "evalf",
    "expand",
    "find",
    "format",
    "get",
    "group",
    "groups",
    "index",
    "integrate",
    "intersection",
    "isdigit",
    "issubset",
    "issuperset",
    "items",
    "join",
    "keys",
    "limit",
    "lower",
    "max",
    "mean",
    "min",
    "model",
    "quantize",
    "ratio",
    "replace",
    "rfind",
    "round",
    "simplify",
    "split",
    "startswith",
    "std",
    "strip",
    "subs",
    "sum",
    "title",
    "tolist",
    "union",
    "upper",
    "values",
    "det",
    "inv",
    "rank",
    "eigenvals",
    "is_integer",
    "as_integer_ratio",
    "total",
    "hexdigest",
    "digest",
    "isoformat",
    "strftime",
    "weekday",
    "removeO",
    "n",
    "equals",
    "difference",
    "conjugate",
    "transpose",
    "most_common",
    "lstrip",
    "rstrip",
    "splitlines",
    "isalpha",
    "bit_length",
    "verify",
];

/// Functions whose result differs from call to call, or which change their argument.
const IMPURE: &[&str] = &[
    "next",
    "input",
    "iter",
    "open",
    "id",
    "object",
    "print",
    "random.",
    "secrets.",
    "time.",
    "uuid.",
    "os.",
    "numpy.random.",
    "datetime.datetime.now",
    "datetime.date.today",
    "itertools.count",
    "setattr",
    "delattr",
    "heapq.",
    "bisect.insort",
    "collections.deque",
    "threading.",
    "exec",
    "eval",
    "vars",
    "globals",
    "locals",
];

/// Functions of the standard library that only change their first argument.
const CHANGES_FIRST: &[&str] = &[
    "setattr",
    "delattr",
    "heapq.",
    "bisect.insort",
    "random.shuffle",
    "next",
    "operator.setitem",
];

/// Functions that are zero, false or empty for an empty collection.
const COUNTING: &[&str] = &["bool", "frozenset", "len", "list", "set", "sorted", "sum", "tuple"];

/// Decorators that return the function, or one that behaves in the same way.
const KEEPING_DECORATORS: &[&str] = &[
    "functools.lru_cache",
    "functools.cache",
    "lru_cache",
    "cache",
    "staticmethod",
    "functools.wraps",
    "wraps",
];

/// Fills in the reasons why checks cannot fail. `conditions` are the ranges of the checks' conditions. Returns for each
/// check the expression that a run evaluates for each element of the collection that the check is about.
pub(super) fn judge(
    body: &[Stmt],
    imports: &Imports<'_>,
    conditions: &[TextRange],
    checks: &mut [Check],
    work: &Work,
) -> Vec<Option<TextRange>> {
    let places = conditions.iter().enumerate().map(|(place, range)| (range.start(), place));
    let mut interpreter = Interpreter {
        body,
        imports,
        conditions,
        kinds: checks.iter().map(|check| (check.kind, check.is_assertion)).collect(),
        work,
        places: places.collect(),
        verdicts: vec![Verdict::Unseen; checks.len()],
        elements: vec![None; checks.len()],
        comprehensions: HashMap::new(),
        values: Values::new(),
        frames: vec![Frame::default()],
        frame: 0,
        closures: Vec::new(),
        followed: HashSet::default(),
        classes: Vec::new(),
        facts: Vec::new(),
        catches: Vec::new(),
        influence: None,
        flags: None,
        calls: 0,
        level: 0,
        bound: 0,
        constraints: Some(Vec::new()),
        is_quiet: false,
    };
    interpreter.run();
    for (check, verdict) in checks.iter_mut().zip(interpreter.verdicts) {
        if let Verdict::Vacuous(why) = verdict {
            check.vacuous = Some(why);
        }
    }
    interpreter.elements
}

/// The verdict on a check, over all places from which it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Unseen,
    Vacuous(Vacuity),
    /// The check can fail, at least when it is reached from one place.
    CanFail,
}

/// The names of a function's call, or of the module.
#[derive(Debug, Clone, Default)]
struct Frame<'a> {
    names: HashMap<&'a str, Id>,
    globals: HashSet<&'a str>,
    /// The frame of the function around the function.
    around: usize,
    /// The value that the function returns, if it is known.
    returned: Option<Id>,
    /// Whether the function has changed one of its parameters.
    changed_parameters: HashSet<&'a str>,
}

/// A function of the script, in the frame in which it was defined.
#[derive(Debug, Clone, Copy)]
struct Closure<'a> {
    function: Callable<'a>,
    frame: usize,
}

#[derive(Debug, Clone, Copy)]
enum Callable<'a> {
    Function(&'a StmtFunctionDef),
    Lambda(Option<&'a Parameters>, &'a Expr),
}

/// An enclosing statement that catches exceptions, and lets the script go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Catch {
    assertions: bool,
    exits: bool,
    others: bool,
}

/// Whether the statement after a statement is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    Ends,
}

struct Interpreter<'a, 'i> {
    body: &'a [Stmt],
    imports: &'i Imports<'a>,
    conditions: &'i [TextRange],
    kinds: Vec<(CheckKind, bool)>,
    work: &'i Work,
    places: HashMap<TextSize, usize>,
    verdicts: Vec<Verdict>,
    /// For each check, the expression that is evaluated for each element of the collection that the check is about.
    elements: Vec<Option<TextRange>>,
    /// The expressions that comprehensions evaluate for each element that they take, and for each element that they
    /// give.
    comprehensions: HashMap<Id, [TextRange; 2]>,
    values: Values<'a>,
    frames: Vec<Frame<'a>>,
    frame: usize,
    closures: Vec<Closure<'a>>,
    /// The definitions of the functions that were followed from a call.
    followed: HashSet<TextSize>,
    classes: Vec<&'a StmtClassDef>,
    facts: Vec<ClassFacts>,
    catches: Vec<Catch>,
    influence: Option<Influence<'a>>,
    flags: Option<HashMap<&'a str, Flag<'a>>>,
    calls: usize,
    level: usize,
    bound: u32,
    /// The constraints that the script gives to solvers; `None` if a solver also removes constraints.
    constraints: Option<Vec<Id>>,
    /// Whether checks are passed over, because their function is only followed for its result.
    is_quiet: bool,
}

impl<'a> Interpreter<'a, '_> {
    fn run(&mut self) {
        self.statements(self.body);
        // Functions that were not followed may be called in a way that is not seen, with any arguments.
        let mut place = 0;
        while let Some(closure) = self.closures.get(place).copied() {
            place += 1;
            if let Callable::Function(function) = closure.function
                && !self.followed.contains(&function.start())
                && self.has_check(function.range())
            {
                let arguments = HashMap::new();
                self.follow(closure, arguments);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.work.is_spent() || self.values.len() > VALUES_MAX
    }

    fn has_check(&self, range: TextRange) -> bool {
        self.conditions.iter().any(|condition| range.contains_range(*condition))
    }

    fn judge(&self) -> Judge<'_, 'a> {
        Judge { values: &self.values, classes: &self.facts }
    }
}

/// Verdicts on checks.
impl<'a> Interpreter<'a, '_> {
    /// Judges the check at `range`, if there is one. `truth` is the truth value of its condition.
    fn check(&mut self, range: TextRange, truth: Truth) {
        let Some(place) = self.places.get(&range.start()).copied() else { return };
        if self.is_quiet || self.conditions.get(place) != Some(&range) {
            return;
        }
        let Some((kind, is_assertion)) = self.kinds.get(place).copied() else { return };
        let holds_if = !matches!(kind, CheckKind::FailsIf | CheckKind::Exit);
        let why = match truth {
            _ if kind == CheckKind::Tuple => Some(Vacuity::Tuple),
            Some((_, why @ Vacuity::Constant)) => Some(why),
            Some((truth, why)) if truth == holds_if => Some(why),
            _ => None,
        };
        let is_swallowed = self.catches.iter().any(|catch| match kind {
            CheckKind::Exit => catch.exits,
            _ if is_assertion => catch.assertions,
            _ => catch.others,
        });
        let why = why.or(is_swallowed.then_some(Vacuity::Swallowed));
        if let Some(verdict) = self.verdicts.get_mut(place) {
            *verdict = match (*verdict, why) {
                (Verdict::CanFail, _) | (_, None) => Verdict::CanFail,
                (Verdict::Unseen, Some(why)) => Verdict::Vacuous(why),
                (known @ Verdict::Vacuous(_), Some(_)) => known,
            };
        }
    }

    fn is_check(&self, range: TextRange) -> bool {
        self.places
            .get(&range.start())
            .is_some_and(|place| self.conditions.get(*place) == Some(&range))
    }

    /// Judges a call of an assertion function.
    fn check_call(&mut self, call: &'a ExprCall) {
        if !self.is_check(call.range()) {
            return;
        }
        let arguments = self.arguments(call);
        let name = match &*call.func {
            Expr::Attribute(attribute) => attribute.attr.as_str(),
            Expr::Name(name) => name.id.as_str(),
            _ => "",
        };
        let truth = self.truth_of_assertion(name, &arguments);
        self.check(call.range(), truth);
    }

    fn truth_of_assertion(&self, name: &str, arguments: &[Id]) -> Truth {
        let judge = self.judge();
        let compare = |op| {
            let (left, right) = (arguments.first()?, arguments.get(1)?);
            judge.compare(op, *left, *right, 8)
        };
        let op = match name {
            "assertTrue" => return judge.truth(*arguments.first()?),
            "assertFalse" => return judge.truth(*arguments.first()?).map(|(of, why)| (!of, why)),
            "assertIsNotNone" => {
                let of = self.values.type_of(*arguments.first()?);
                let is_known = !matches!(of, Type::Unknown | Type::None);
                return is_known.then_some((true, Vacuity::AlwaysTrue));
            }
            "assertAlmostEqual" | "assert_almost_equal" | "assert_approx_equal" => {
                return self.truth_of_almost_equal(arguments);
            }
            "assert_allclose" => {
                return judge.is_close(*arguments.first()?, *arguments.get(1)?, arguments);
            }
            "assertNotEqual" => CmpOp::NotEq,
            "assertGreater" => CmpOp::Gt,
            "assertGreaterEqual" => CmpOp::GtE,
            "assertLess" => CmpOp::Lt,
            "assertLessEqual" => CmpOp::LtE,
            "assertIs" => CmpOp::Is,
            "assertIsNot" => CmpOp::IsNot,
            "assertIn" => CmpOp::In,
            "assertNotIn" => CmpOp::NotIn,
            "assertEqual"
            | "assertListEqual"
            | "assertSequenceEqual"
            | "assertDictEqual"
            | "assertSetEqual"
            | "assertTupleEqual"
            | "assertCountEqual"
            | "assert_equal"
            | "assert_array_equal"
            | "assert_frame_equal"
            | "assert_series_equal" => CmpOp::Eq,
            _ => return None,
        };
        compare(op)
    }

    fn truth_of_almost_equal(&self, arguments: &[Id]) -> Truth {
        let (values, judge) = (&self.values, self.judge());
        let (left, right) = (*arguments.first()?, *arguments.get(1)?);
        if let Some(truth) = judge.compare(CmpOp::Eq, left, right, 8).filter(|(holds, _)| *holds) {
            return Some(truth);
        }
        let places = ["places", "decimal"]
            .into_iter()
            .find_map(|name| values.number(values.keyword(arguments, name)?, 8));
        let places = places.or_else(|| values.literal(*arguments.get(2)?));
        let delta = values.keyword(arguments, "delta").and_then(|it| values.number(it, 8));
        let claims = [left, right].into_iter().filter_map(|it| values.number(it, 12));
        let is_wide = delta.is_some_and(|delta| {
            claims.into_iter().any(|claim| claim != 0.0 && delta >= claim.abs())
        });
        (is_wide || places.is_some_and(|places| places < 0.0)).then_some((true, Vacuity::Tolerance))
    }
}

/// Names.
impl<'a> Interpreter<'a, '_> {
    fn current(&mut self) -> Option<&mut Frame<'a>> {
        let frame = self.frame;
        self.frames.get_mut(frame)
    }

    fn read(&mut self, name: &'a str) -> Id {
        let mut at = self.frame;
        loop {
            let Some(frame) = self.frames.get(at) else { break };
            let is_global = frame.globals.contains(name);
            if !is_global && let Some(id) = frame.names.get(name) {
                return *id;
            }
            if at == 0 {
                break;
            }
            at = if is_global { 0 } else { frame.around };
        }
        if let Some(flag) = self.exception_flags().get(name).copied() {
            let value = match flag {
                Flag::Value(value) => self.expression(value),
                Flag::Collection => self.values.path(name),
            };
            return self.values.op(Op::Flag, [value]);
        }
        match self.imports.of(name) {
            Some(path) => self.values.path(path),
            None => self.values.path(name),
        }
    }

    /// Returns whether a statement that was followed has bound the name.
    fn is_bound(&self, name: &str) -> bool {
        let mut at = self.frame;
        while let Some(frame) = self.frames.get(at) {
            if frame.names.contains_key(name) {
                return true;
            }
            if at == 0 {
                break;
            }
            at = frame.around;
        }
        false
    }

    fn bind(&mut self, name: &'a str, value: Id) {
        if self.exception_flags().contains_key(name) {
            return;
        }
        let Some(frame) = self.current() else { return };
        let at = if frame.globals.contains(name) { 0 } else { self.frame };
        if let Some(frame) = self.frames.get_mut(at) {
            frame.names.insert(name, value);
        }
    }

    fn bind_target(&mut self, target: &'a Expr, value: Id) {
        match target {
            Expr::Name(name) => self.bind(name.id.as_str(), value),
            Expr::Tuple(it) => self.bind_parts(&it.elts, value),
            Expr::List(it) => self.bind_parts(&it.elts, value),
            Expr::Starred(it) => {
                let unknown = self.values.unknown_of(Type::List);
                self.bind_target(&it.value, unknown);
            }
            Expr::Attribute(it) => self.change(&it.value),
            Expr::Subscript(it) => self.change(&it.value),
            _ => {}
        }
    }

    fn bind_parts(&mut self, targets: &'a [Expr], value: Id) {
        for (place, target) in targets.iter().enumerate() {
            let part = self.part(value, place, targets.len());
            self.bind_target(target, part);
        }
    }

    /// Returns the element at an index of a sequence with `count` elements.
    fn part(&mut self, value: Id, place: usize, count: usize) -> Id {
        let items = match self.values.node(value) {
            Node::Op(Op::Tuple | Op::List, items) if items.len() == count => items.to_vec(),
            Node::Op(Op::OneOf(number), all) => {
                let (number, all) = (*number, all.to_vec());
                let parts: Vec<Id> =
                    all.into_iter().map(|each| self.part(each, place, count)).collect();
                return self.values.op(Op::OneOf(number), parts);
            }
            _ => Vec::new(),
        };
        if let Some(item) = items.get(place) {
            return *item;
        }
        let bits = f64::from(u32::try_from(place).unwrap_or(u32::MAX)).to_bits();
        let key = self.values.add(Node::Number(bits, true));
        self.values.op(Op::Item, [value, key])
    }

    /// Makes the object that an expression refers to unknown, because something has changed it.
    fn change(&mut self, object: &'a Expr) {
        let name = match object {
            Expr::Name(name) => name.id.as_str(),
            Expr::Attribute(it) => return self.change(&it.value),
            Expr::Subscript(it) => return self.change(&it.value),
            Expr::Call(it) => return self.change(&it.func),
            _ => return,
        };
        let old = self.read(name);
        let kept = self.values.type_of(old);
        let new = self.values.unknown_of(kept);
        self.replace(name, old, new);
    }

    /// Replaces the value of all names that refer to the same object.
    fn replace(&mut self, name: &'a str, old: Id, new: Id) {
        self.work.spend(1);
        if self.values.is_literal(old) && !self.is_mutable(old) {
            return;
        }
        if let Some(frame) = self.current()
            && frame.names.contains_key(name)
        {
            frame.changed_parameters.insert(name);
        }
        let mut at = self.frame;
        while let Some(frame) = self.frames.get_mut(at) {
            self.work.spend(frame.names.len() / 8);
            for value in frame.names.values_mut().filter(|value| **value == old) {
                *value = new;
            }
            if at == 0 {
                break;
            }
            at = frame.around;
        }
    }

    fn is_mutable(&self, id: Id) -> bool {
        !matches!(
            self.values.type_of(id),
            Type::Bool
                | Type::Int
                | Type::Float
                | Type::Fraction
                | Type::Decimal
                | Type::Text
                | Type::Bytes
                | Type::None
        )
    }

    /// Makes the names that statements assign unknown.
    fn forget(&mut self, names: &HashSet<&'a str>) {
        for name in names {
            let is_import = self.imports.of(name).is_some() && !self.is_bound(name);
            if is_import {
                continue;
            }
            let old = self.read(name);
            let kept = match self.values.type_of(old) {
                kept @ (Type::Solver | Type::List | Type::Dict | Type::Set) => kept,
                _ => Type::Unknown,
            };
            let unknown = self.values.unknown_of(kept);
            self.bind(name, unknown);
        }
    }

    /// Keeps the values of names that are the same in all of `others` and now.
    fn join(&mut self, others: Vec<HashMap<&'a str, Id>>) {
        let Some(frame) = self.frames.get(self.frame) else { return };
        let mut differ: HashSet<&'a str> = HashSet::default();
        for other in &others {
            self.work.spend(other.len() / 4);
            differ.extend(
                other
                    .iter()
                    .filter(|(name, id)| frame.names.get(*name) != Some(*id))
                    .map(|it| *it.0),
            );
            differ.extend(frame.names.keys().filter(|name| !other.contains_key(*name)));
        }
        self.forget(&differ);
    }

    fn names_now(&self) -> HashMap<&'a str, Id> {
        self.frames.get(self.frame).map(|frame| frame.names.clone()).unwrap_or_default()
    }

    fn set_names(&mut self, names: HashMap<&'a str, Id>) {
        if let Some(frame) = self.current() {
            frame.names = names;
        }
    }

    /// Returns the names that only have literal values, and a different one if an exception was caught.
    fn exception_flags(&mut self) -> &HashMap<&'a str, Flag<'a>> {
        let (body, conditions, work) = (self.body, self.conditions, self.work);
        self.flags.get_or_insert_with(|| exception_flags(body, conditions, work))
    }
}

/// Statements.
impl<'a> Interpreter<'a, '_> {
    fn statements(&mut self, body: &'a [Stmt]) -> Flow {
        for stmt in body {
            if self.is_over() {
                return Flow::On;
            }
            self.work.spend(1);
            self.level += 1;
            let flow = if self.level > LEVEL_MAX { Flow::On } else { self.statement(stmt) };
            self.level -= 1;
            if flow == Flow::Ends {
                return Flow::Ends;
            }
        }
        Flow::On
    }

    fn statement(&mut self, stmt: &'a Stmt) -> Flow {
        match stmt {
            Stmt::Assign(it) => {
                let value = self.expression(&it.value);
                self.note_excepthook(&it.targets, value);
                for target in &it.targets {
                    self.bind_target(target, value);
                }
            }
            Stmt::AnnAssign(it) => {
                if let Some(value) = &it.value {
                    let value = self.expression(value);
                    self.bind_target(&it.target, value);
                }
            }
            Stmt::AugAssign(it) => {
                let value = self.expression(&it.value);
                if let Expr::Name(name) = &*it.target {
                    let old = self.read(name.id.as_str());
                    if self.is_mutable(old) && self.values.type_of(old) != Type::Unknown {
                        self.change(&it.target);
                    } else {
                        let new = self.values.op(Op::Binary(it.op), [old, value]);
                        self.bind(name.id.as_str(), new);
                    }
                } else {
                    self.change(&it.target);
                }
            }
            Stmt::Expr(it) => self.expression_statement(&it.value),
            Stmt::Assert(it) => {
                let condition = self.expression(&it.test);
                let truth = self.premised(condition);
                self.check(it.test.range(), truth);
                self.note_elements(it.test.range(), condition);
            }
            Stmt::If(_) => return self.conditional(stmt),
            Stmt::For(it) => self.for_loop(it),
            Stmt::While(it) => {
                let changes = Changes::of(&[&it.body], self.work).names;
                self.forget(&changes);
                self.expression(&it.test);
                self.statements(&it.body);
                self.forget(&changes);
                self.statements(&it.orelse);
            }
            Stmt::With(it) => return self.with(it),
            Stmt::Try(it) => return self.attempt(it),
            Stmt::Match(it) => {
                self.expression(&it.subject);
                let before = self.names_now();
                let mut after = vec![before.clone()];
                for case in &it.cases {
                    self.set_names(before.clone());
                    let bound = Changes::of(&[&case.body], self.work).names;
                    if self.statements(&case.body) == Flow::On {
                        after.push(self.names_now());
                    }
                    self.forget(&bound);
                }
                self.join(after);
            }
            Stmt::FunctionDef(it) => self.define(it),
            Stmt::ClassDef(it) => self.define_class(it),
            Stmt::Return(it) => {
                let value = match &it.value {
                    Some(value) => self.expression(value),
                    None => self.values.add(Node::None),
                };
                if let Some(frame) = self.current() {
                    frame.returned = Some(value);
                }
                return Flow::Ends;
            }
            Stmt::Raise(it) => {
                if let Some(Expr::Call(call)) = it.exc.as_deref() {
                    self.check_exit(call);
                }
                self.check(stmt.range(), None);
                return Flow::Ends;
            }
            Stmt::Global(it) => {
                if let Some(frame) = self.current() {
                    frame.globals.extend(it.names.iter().map(|name| name.as_str()));
                }
            }
            Stmt::Delete(it) => {
                for target in &it.targets {
                    self.change(target);
                }
            }
            Stmt::Break(_) | Stmt::Continue(_) => return Flow::Ends,
            _ => {}
        }
        Flow::On
    }

    fn expression_statement(&mut self, expr: &'a Expr) {
        if let Expr::Call(call) = expr {
            if self.is_check(call.range()) && !self.is_check_of_raise(call) {
                return self.check_call(call);
            }
            self.check_exit(call);
        }
        self.expression(expr);
        if self.is_check(expr.range()) {
            self.check(expr.range(), None);
        }
    }

    fn is_check_of_raise(&self, call: &ExprCall) -> bool {
        let place = self.places.get(&call.start()).copied().unwrap_or(usize::MAX);
        self.kinds.get(place).is_some_and(|(kind, _)| *kind == CheckKind::Skipped)
    }

    /// Judges an exit with a computed status.
    fn check_exit(&mut self, call: &'a ExprCall) {
        if let Some(status) = call.arguments.args.first()
            && self.is_check(status.range())
        {
            let value = self.expression(status);
            let truth = self.judge().truth(value);
            self.check(status.range(), truth);
        }
    }

    fn conditional(&mut self, stmt: &'a Stmt) -> Flow {
        let Stmt::If(it) = stmt else { return Flow::On };
        let mut after = Vec::new();
        let mut is_complete = false;
        let bodies = std::iter::once((Some(&*it.test), &it.body))
            .chain(it.elif_else_clauses.iter().map(|clause| (clause.test.as_ref(), &clause.body)));
        let mut before = self.names_now();
        for (test, body) in bodies {
            self.set_names(before.clone());
            if let Some(test) = test {
                let condition = self.expression(test);
                let truth = self.premised(condition);
                self.check(test.range(), truth);
                self.note_elements(test.range(), condition);
                before = self.names_now();
            } else {
                is_complete = true;
            }
            if self.statements(body) == Flow::On {
                after.push(self.names_now());
            }
        }
        if !is_complete {
            after.push(before);
        }
        let Some(last) = after.pop() else { return Flow::Ends };
        self.set_names(last);
        self.join(after);
        Flow::On
    }

    fn for_loop(&mut self, it: &'a StmtFor) {
        let iterable = self.expression(&it.iter);
        let changes = Changes::of(&[&it.body], self.work).names;
        self.forget(&changes);
        let element = self.element(iterable);
        self.bind_target(&it.target, element);
        self.statements(&it.body);
        self.forget(&changes);
        self.statements(&it.orelse);
    }

    /// Returns a value for any element of an iterable.
    fn element(&mut self, iterable: Id) -> Id {
        if let Some((object, "items", [])) = self.values.method(iterable)
            && self.elements(iterable).is_none()
        {
            // A pair of a key, and the value at that key.
            let key = self.fresh();
            let value = self.item(object, key);
            return self.values.op(Op::Tuple, [key, value]);
        }
        let items = self.elements(iterable);
        match items.as_deref() {
            Some([]) | None => self.fresh(),
            Some(items) if items.windows(2).all(|pair| pair.first() == pair.get(1)) => {
                items.first().copied().unwrap_or_default()
            }
            Some(items) if items.len() <= FUNCTIONS_MAX => {
                let number = self.values.fresh_number();
                let items: Box<[Id]> = items.into();
                self.values.op(Op::OneOf(number), items)
            }
            Some(_) => self.fresh(),
        }
    }

    fn fresh(&mut self) -> Id {
        self.values.unknown()
    }

    fn elements(&mut self, iterable: Id) -> Option<Vec<Id>> {
        let iterable = self.values.original(iterable);
        match self.values.node(iterable) {
            Node::Op(Op::Tuple | Op::List | Op::Set, items) => return Some(items.to_vec()),
            Node::Op(Op::Dict, items) => return Some(items.iter().copied().step_by(2).collect()),
            // All elements are the same literal.
            Node::Op(Op::Comprehension(Of::List | Of::Generator), parts) => {
                let element = parts.first().copied()?;
                return self.values.is_literal(element).then(|| vec![element]);
            }
            _ => {}
        }
        let (object, name, _) = self.values.method(iterable)?;
        let pairs: Vec<Id> = self.values.operands(object, Op::Dict)?.to_vec();
        let pairs: Vec<(Id, Id)> = pairs
            .chunks_exact(2)
            .filter_map(|pair| Some((*pair.first()?, *pair.get(1)?)))
            .collect();
        match name {
            "values" => Some(pairs.iter().map(|(_, value)| *value).collect()),
            "keys" => Some(pairs.iter().map(|(key, _)| *key).collect()),
            "items" => {
                let items = pairs.into_iter();
                Some(items.map(|(key, value)| self.values.op(Op::Tuple, [key, value])).collect())
            }
            _ => None,
        }
    }

    fn define(&mut self, function: &'a StmtFunctionDef) {
        let closure = self.values_of_closure(Callable::Function(function));
        let mut value = closure;
        for decorator in function.decorator_list.iter().rev() {
            let of = self.expression(&decorator.expression);
            let called = self.values.operands(of, Op::Call).and_then(|of| of.first().copied());
            let path = self.values.path_of(called.unwrap_or(of)).map(|path| path.into_owned());
            if path.is_some_and(|path| KEEPING_DECORATORS.contains(&&*path)) {
                continue;
            }
            value = self.call_value(of, &[value]);
        }
        self.bind(&function.name, value);
    }

    fn values_of_closure(&mut self, function: Callable<'a>) -> Id {
        self.closures.push(Closure { function, frame: self.frame });
        self.values.add(Node::Function(self.closures.len() - 1))
    }

    fn define_class(&mut self, class: &'a StmtClassDef) {
        let place = self.classes.len();
        self.classes.push(class);
        let facts = facts_of(class, self.imports);
        self.facts.push(facts);
        let value = self.values.add(Node::Class(place));
        self.bind(&class.name, value);
        // The methods are followed later, with unknown arguments.
        let before = self.names_now();
        self.statements(&class.body);
        self.set_names(before);
        self.bind(&class.name, value);
    }
}

/// Returns the facts about a class of the script.
fn facts_of(class: &StmtClassDef, imports: &Imports<'_>) -> ClassFacts {
    let method = |name: &str| {
        class.body.iter().find_map(|stmt| match stmt {
            Stmt::FunctionDef(it) if it.name.as_str() == name => Some(it),
            _ => None,
        })
    };
    let returned = |name: &str| match method(name)?.body.last()? {
        Stmt::Return(it) => it.value.as_deref(),
        _ => None,
    };
    let is_true =
        |value: Option<&Expr>| matches!(value, Some(Expr::BooleanLiteral(it)) if it.value);
    let is_plain =
        class.bases().iter().all(|base| imports.path(base).is_some_and(|it| it == "object"));
    let has_bool = method("__bool__").is_some() || method("__len__").is_some();
    let is_isinstance = |value: Option<&Expr>| match value {
        Some(Expr::Call(call)) => imports.path(&call.func).is_some_and(|it| it == "isinstance"),
        _ => false,
    };
    ClassFacts {
        is_true: is_plain && !has_bool,
        equals_all: is_true(returned("__eq__")) || is_isinstance(returned("__eq__")),
        suppresses: is_true(returned("__exit__")),
    }
}

/// Statements that catch exceptions.
impl<'a> Interpreter<'a, '_> {
    fn with(&mut self, it: &'a StmtWith) -> Flow {
        let mut catches = 0;
        for item in &it.items {
            if let Expr::Call(call) = &item.context_expr
                && self.is_check(call.range())
            {
                self.check(call.range(), None);
            }
            let value = self.expression(&item.context_expr);
            if let Some(target) = &item.optional_vars {
                self.bind_target(target, value);
            }
            if let Some(catch) = self.suppression(value)
                && self.is_forgotten(&[&it.body], &[])
            {
                self.catches.push(catch);
                catches += 1;
            }
        }
        let flow = self.statements(&it.body);
        self.catches.truncate(self.catches.len() - catches);
        if catches > 0 { Flow::On } else { flow }
    }

    /// Returns the exceptions that a context manager suppresses.
    fn suppression(&self, manager: Id) -> Option<Catch> {
        if let Node::Instance(class, _) = self.values.node(manager) {
            let suppresses = self.facts.get(*class).is_some_and(|facts| facts.suppresses);
            return suppresses.then_some(Catch { assertions: true, exits: true, others: true });
        }
        let (path, classes) = self.values.call(manager)?;
        if *path != *"contextlib.suppress" {
            return None;
        }
        Some(catch_of(
            classes.iter().map(|class| self.values.path_of(*class).map(|it| it.into_owned())),
        ))
    }

    fn attempt(&mut self, it: &'a StmtTry) -> Flow {
        let before = self.names_now();
        let replaced = replaces_exit(&it.finalbody, self.imports);
        let catch = if replaced {
            Some(Catch { assertions: true, exits: true, others: true })
        } else {
            self.quiet_catch(it)
        };
        self.catches.extend(catch);
        let flow = self.statements(&it.body);
        if catch.is_some() {
            self.catches.pop();
        }
        let flow = if flow == Flow::On { self.statements(&it.orelse) } else { flow };
        let mut after = Vec::new();
        if flow == Flow::On {
            after.push(self.names_now());
        }
        let changes = Changes::of(&[&it.body], self.work).names;
        for ExceptHandler::ExceptHandler(handler) in &it.handlers {
            self.set_names(before.clone());
            self.forget(&changes);
            if let Some(name) = &handler.name {
                let unknown = self.fresh();
                self.bind(name.as_str(), unknown);
            }
            if self.statements(&handler.body) == Flow::On {
                after.push(self.names_now());
            }
        }
        let Some(last) = after.pop() else {
            self.statements(&it.finalbody);
            return Flow::Ends;
        };
        self.set_names(last);
        self.join(after);
        self.statements(&it.finalbody)
    }

    /// Returns the exceptions that the handlers of a `try` catch without any effect on the end of the script.
    fn quiet_catch(&mut self, it: &'a StmtTry) -> Option<Catch> {
        let mut all = Catch { assertions: false, exits: false, others: false };
        let mut quiet: Vec<&'a [Stmt]> = Vec::new();
        for ExceptHandler::ExceptHandler(handler) in &it.handlers {
            let classes: Vec<Option<String>> = match handler.type_.as_deref() {
                None => vec![Some("BaseException".to_owned())],
                Some(Expr::Tuple(it)) => it.elts.iter().map(|of| self.imports.path(of)).collect(),
                Some(class) => vec![self.imports.path(class)],
            };
            let catch = catch_of(classes.into_iter());
            if ends_unsuccessfully(&handler.body, self.imports) {
                // Later handlers do not get these exceptions.
                if catch.assertions {
                    break;
                }
                continue;
            }
            all.assertions |= catch.assertions;
            all.exits |= catch.exits;
            all.others |= catch.others;
            quiet.push(&handler.body);
        }
        let is_any = all.assertions || all.exits || all.others;
        (is_any && self.is_forgotten(&[&it.body, &it.orelse], &quiet)).then_some(all)
    }

    /// Returns whether no condition that can still end the script depends on how the statements ended.
    fn is_forgotten(&mut self, bodies: &[&'a [Stmt]], handlers: &[&'a [Stmt]]) -> bool {
        let all: Vec<&'a [Stmt]> = bodies.iter().chain(handlers).copied().collect();
        let mut changes = Changes::of(&all, self.work);
        if changes.returns || changes.leaves_loop {
            changes.names.extend(self.names_around(all.first().copied().unwrap_or_default()));
        }
        let (body, conditions, work) = (self.body, self.conditions, self.work);
        let influence = self.influence.get_or_insert_with(|| {
            let caught = super::flags::caught_ranges(body, work);
            let outside: Vec<TextRange> = conditions
                .iter()
                .filter(|of| !caught.iter().any(|range| range.contains_range(**of)))
                .copied()
                .collect();
            Influence::of(body, &outside, work)
        });
        !influence.reaches(&changes.names)
    }

    /// Returns the names that the function and the loops around a body bind or change, and the function's own name.
    fn names_around(&self, body: &'a [Stmt]) -> HashSet<&'a str> {
        let Some(first) = body.first() else { return HashSet::default() };
        super::flags::names_around(self.body, first.range(), self.work)
    }

    /// Notes that an uncaught exception does not end the script unsuccessfully.
    fn note_excepthook(&mut self, targets: &'a [Expr], value: Id) {
        let is_hook = targets
            .iter()
            .any(|target| self.imports.path(target).is_some_and(|path| path == "sys.excepthook"));
        if let Node::Function(place) = self.values.node(value)
            && is_hook
            && let Some(Closure { function: Callable::Function(function), .. }) =
                self.closures.get(*place)
            && exits_successfully(&function.body, self.imports)
        {
            self.catches.push(Catch { assertions: true, exits: false, others: true });
        }
    }
}

/// Returns the exceptions that a list of classes catches. A class that is not known catches others.
fn catch_of(classes: impl Iterator<Item = Option<String>>) -> Catch {
    let mut catch = Catch { assertions: false, exits: false, others: false };
    for class in classes {
        match class.as_deref() {
            Some("AssertionError") => catch.assertions = true,
            Some("SystemExit") => catch.exits = true,
            Some("Exception") => (catch.assertions, catch.others) = (true, true),
            Some("BaseException") => {
                catch = Catch { assertions: true, exits: true, others: true };
            }
            _ => catch.others = true,
        }
    }
    catch
}

/// Returns whether statements may end the script unsuccessfully: they raise, exit with a status, or call a function
/// that may do so.
fn ends_unsuccessfully(body: &[Stmt], imports: &Imports<'_>) -> bool {
    super::flags::any_statement(body, &|stmt| match stmt {
        Stmt::Raise(_) => true,
        Stmt::Expr(it) => match &*it.value {
            Expr::Call(call) => {
                let Some(path) = imports.path(&call.func) else { return false };
                let is_exit = matches!(&*path, "sys.exit" | "exit" | "quit" | "os._exit");
                let is_success = call.arguments.args.first().is_none_or(is_zero);
                (is_exit && !is_success) || path.ends_with(".fail") || path == "fail"
            }
            _ => false,
        },
        _ => false,
    })
}

/// Returns whether statements exit with the status 0.
fn exits_successfully(body: &[Stmt], imports: &Imports<'_>) -> bool {
    super::flags::any_statement(body, &|stmt| match stmt {
        Stmt::Expr(it) => match &*it.value {
            Expr::Call(call) => {
                imports
                    .path(&call.func)
                    .is_some_and(|path| matches!(&*path, "os._exit" | "sys.exit" | "exit" | "quit"))
                    && call.arguments.args.first().is_none_or(is_zero)
            }
            _ => false,
        },
        _ => false,
    })
}

/// Returns whether a `finally` replaces the exception or the exit of its `try`.
fn replaces_exit(body: &[Stmt], imports: &Imports<'_>) -> bool {
    body.iter().any(|stmt| matches!(stmt, Stmt::Return(_) | Stmt::Break(_) | Stmt::Continue(_)))
        || exits_successfully(body, imports)
}

fn is_zero(status: &Expr) -> bool {
    match status {
        Expr::NumberLiteral(it) => matches!(&it.value, Number::Int(it) if *it == 0),
        Expr::NoneLiteral(_) => true,
        Expr::BooleanLiteral(it) => !it.value,
        _ => false,
    }
}

/// Expressions.
impl<'a> Interpreter<'a, '_> {
    fn expression(&mut self, expr: &'a Expr) -> Id {
        self.work.spend(1);
        if self.level > LEVEL_MAX || self.is_over() {
            return self.fresh();
        }
        self.level += 1;
        let id = self.expression_at_level(expr);
        self.level -= 1;
        id
    }

    fn expressions<'e>(&mut self, all: impl IntoIterator<Item = &'a Expr>) -> Vec<Id>
    where
        'a: 'e,
    {
        all.into_iter().map(|expr| self.expression(expr)).collect()
    }

    fn expression_at_level(&mut self, expr: &'a Expr) -> Id {
        match expr {
            Expr::Name(name) => self.read(name.id.as_str()),
            Expr::NumberLiteral(it) => self.number(&it.value, expr),
            Expr::StringLiteral(it) => {
                let text = it.value.to_str().to_owned();
                self.values.add(Node::Text(text.into()))
            }
            Expr::BytesLiteral(it) => {
                let text =
                    String::from_utf8_lossy(&it.value.bytes().collect::<Vec<u8>>()).into_owned();
                self.values.add(Node::Bytes(text.into()))
            }
            Expr::BooleanLiteral(it) => {
                self.values.add(if it.value { Node::True } else { Node::False })
            }
            Expr::NoneLiteral(_) => self.values.add(Node::None),
            Expr::EllipsisLiteral(_) => self.values.add(Node::Ellipsis),
            Expr::Tuple(it) => self.display(Op::Tuple, &it.elts),
            Expr::List(it) => self.display(Op::List, &it.elts),
            Expr::Set(it) => self.display(Op::Set, &it.elts),
            Expr::Dict(it) => {
                let mut items = Vec::with_capacity(2 * it.items.len());
                for item in &it.items {
                    let Some(key) = &item.key else { return self.values.unknown_of(Type::Dict) };
                    items.push(self.expression(key));
                    items.push(self.expression(&item.value));
                }
                self.values.op(Op::Dict, items)
            }
            Expr::BoolOp(it) => {
                let op = if it.op == BoolOp::And { Op::And } else { Op::Or };
                let operands = self.expressions(&it.values);
                self.values.op(op, operands)
            }
            Expr::UnaryOp(it) => {
                let operand = self.expression(&it.operand);
                let op = match it.op {
                    UnaryOp::Not => Op::Not,
                    UnaryOp::USub => Op::Negative,
                    UnaryOp::Invert => Op::Invert,
                    UnaryOp::UAdd => return operand,
                };
                self.values.op(op, [operand])
            }
            Expr::BinOp(it) => {
                let (left, right) = (self.expression(&it.left), self.expression(&it.right));
                self.binary(it.op, left, right)
            }
            Expr::Compare(it) => self.comparison(&it.left, &it.ops, &it.comparators),
            Expr::If(it) => {
                let parts = self.expressions([&*it.test, &*it.body, &*it.orelse]);
                match parts[..] {
                    [_, one, other] if one == other => one,
                    _ => self.values.op(Op::IfElse, parts),
                }
            }
            Expr::Named(it) => {
                let value = self.expression(&it.value);
                self.bind_target(&it.target, value);
                value
            }
            Expr::Lambda(it) => {
                let function = Callable::Lambda(it.parameters.as_deref(), &it.body);
                self.values_of_closure(function)
            }
            Expr::Attribute(it) => {
                let object = self.expression(&it.value);
                self.values.op(Op::Attribute(it.attr.as_str()), [object])
            }
            Expr::Subscript(it) => {
                let container = self.expression(&it.value);
                let key = self.expression(&it.slice);
                self.item(container, key)
            }
            Expr::Slice(it) => {
                let none = self.values.add(Node::None);
                let mut parts = Vec::new();
                for part in [&it.lower, &it.upper, &it.step] {
                    parts.push(part.as_deref().map_or(none, |part| self.expression(part)));
                }
                self.values.op(Op::Slice, parts)
            }
            Expr::Starred(it) => {
                let value = self.expression(&it.value);
                self.values.op(Op::Starred, [value])
            }
            Expr::FString(it) => {
                let parts: Vec<&'a Expr> = it
                    .value
                    .elements()
                    .filter_map(|part| part.as_interpolation())
                    .map(|part| &*part.expression)
                    .collect();
                let parts = self.expressions(parts);
                let number = self.values.fresh_number();
                let own = self.values.add(Node::Unknown(number, Type::Text));
                self.values.op(Op::Formatted, [&[own], &parts[..]].concat())
            }
            Expr::ListComp(it) => self.comprehension(Of::List, &[&it.elt], &it.generators),
            Expr::SetComp(it) => self.comprehension(Of::Set, &[&it.elt], &it.generators),
            Expr::Generator(it) => self.comprehension(Of::Generator, &[&it.elt], &it.generators),
            Expr::DictComp(it) => match it.key.as_deref() {
                Some(key) => self.comprehension(Of::Dict, &[key, &it.value], &it.generators),
                None => self.values.unknown_of(Type::Dict),
            },
            Expr::Call(call) => self.expression_of_call(call),
            Expr::Await(it) => {
                self.expression(&it.value);
                self.fresh()
            }
            _ => self.fresh(),
        }
    }

    fn number(&mut self, number: &Number, expr: &Expr) -> Id {
        match number {
            Number::Int(int) => match int.as_i64().filter(|int| int.unsigned_abs() < 1 << 53) {
                #[expect(
                    clippy::cast_precision_loss,
                    clippy::as_conversions,
                    reason = "below 2^53"
                )]
                Some(int) => self.values.add(Node::Number((int as f64).to_bits(), true)),
                None => {
                    let text = int.to_string();
                    self.values.add(Node::Bytes(text.into()))
                }
            },
            Number::Float(float) => self.values.add(Node::Number(float.to_bits(), false)),
            Number::Complex { .. } => {
                let start = u32::from(expr.start());
                self.values.add(Node::Bytes(format!("complex {start}").into()))
            }
        }
    }

    fn display(&mut self, op: Op<'a>, elements: &'a [Expr]) -> Id {
        let items = self.expressions(elements);
        if items.iter().any(|item| self.values.operands(*item, Op::Starred).is_some()) {
            let of = self.values.op(op, items);
            let kept = self.values.type_of(of);
            return self.values.unknown_of(kept);
        }
        self.values.op(op, items)
    }

    fn binary(&mut self, op: ruff_python_ast::Operator, left: Id, right: Id) -> Id {
        use ruff_python_ast::Operator;
        if op == Operator::Sub && left == right && !self.values.is_literal(left) {
            return self.values.op(Op::Zero, []);
        }
        // The order of the operands of a sum or a product of numbers does not matter.
        let is_number = |id: Id| {
            matches!(
                self.values.type_of(id),
                Type::Int | Type::Float | Type::Fraction | Type::Decimal
            )
        };
        let mut operands = [left, right];
        if matches!(op, Operator::Add | Operator::Mult) && is_number(left) && is_number(right) {
            operands.sort_unstable();
        }
        self.values.op(Op::Binary(op), operands)
    }

    fn comparison(&mut self, left: &'a Expr, ops: &[CmpOp], others: &'a [Expr]) -> Id {
        let mut left = self.expression(left);
        let mut parts = Vec::new();
        for (op, other) in ops.iter().zip(others) {
            let right = self.expression(other);
            parts.push(self.values.op(Op::Compare(*op), [left, right]));
            left = right;
        }
        match parts[..] {
            [only] => only,
            _ => self.values.op(Op::And, parts),
        }
    }

    fn item(&mut self, container: Id, key: Id) -> Id {
        let container = self.values.original(container);
        if self.values.is_literal(key) {
            if let Some(items) = self.values.operands(container, Op::Dict) {
                let mut pairs = items.chunks_exact(2);
                let found = pairs.find(|pair| pair.first() == Some(&key));
                if let Some(value) = found.and_then(|pair| pair.get(1)) {
                    return *value;
                }
            }
            if let Some(items) = self
                .values
                .operands(container, Op::List)
                .or(self.values.operands(container, Op::Tuple))
                && let Some(place) = self.values.literal(key)
                && let Some(item) =
                    items.iter().zip(0_u32..).find(|(_, at)| f64::from(*at) == place)
            {
                return *item.0;
            }
        }
        self.values.op(Op::Item, [container, key])
    }

    fn comprehension(
        &mut self,
        of: Of,
        elements: &[&'a Expr],
        generators: &'a [Comprehension],
    ) -> Id {
        let before = self.names_now();
        let bound = self.bound;
        let mut parts = Vec::new();
        for generator in generators {
            parts.push(self.expression(&generator.iter));
            let literal = parts.last().and_then(|iterable| {
                let items = self.elements(*iterable)?;
                let first = *items.first()?;
                (items.iter().all(|item| *item == first)).then_some(first)
            });
            match literal.filter(|it| self.values.is_literal(*it)) {
                Some(literal) => self.bind_target(&generator.target, literal),
                None => self.bind_variables(&generator.target),
            }
            for test in &generator.ifs {
                let test = self.expression(test);
                parts.push(test);
            }
        }
        let mut all: Vec<Id> = elements.iter().map(|element| self.expression(element)).collect();
        all.extend(parts);
        self.bound = bound;
        self.set_names(before);
        let id = self.values.op(Op::Comprehension(of), all);
        if let Some(given) = elements.last().map(|element| element.range()) {
            let tests = generators.iter().flat_map(|generator| &generator.ifs);
            let taken = tests.last().map_or(given, |test| last_condition(test).range());
            self.comprehensions.entry(id).or_insert([taken, given]);
        }
        id
    }

    /// Notes the collection that the condition of a check is about, if the condition holds for an empty one.
    fn note_elements(&mut self, range: TextRange, condition: Id) {
        let place = self.places.get(&range.start()).copied();
        let Some(place) = place.filter(|place| self.conditions.get(*place) == Some(&range)) else {
            return;
        };
        let is_failure = self.kinds.get(place).is_some_and(|(kind, _)| *kind == CheckKind::FailsIf);
        let found = self.collection_of(condition, !is_failure);
        if let Some(elements) = self.elements.get_mut(place)
            && elements.is_none()
        {
            *elements = found;
        }
    }

    /// Returns the expression that a run evaluates for each element on which a condition depends. The condition must
    /// hold if there are no elements. `holds` is whether the check needs the condition to be true.
    fn collection_of(&self, condition: Id, holds: bool) -> Option<TextRange> {
        let values = &self.values;
        // A violation that is not found: the elements that the comprehension takes count.
        let taken = |id: Id| {
            let mut of = id;
            for _ in 0..2 {
                of = match values.call(of) {
                    Some((path, [inner])) if COUNTING.contains(&&*path) => *inner,
                    _ => of,
                };
            }
            self.comprehensions.get(&values.original(of)).map(|[taken, _]| *taken)
        };
        let given = |id: Id| self.comprehensions.get(&values.original(id)).map(|[_, given]| *given);
        match values.node(condition) {
            Node::Op(Op::Not, of) => self.collection_of(*of.first()?, !holds),
            Node::Op(Op::Call, _) => match values.call(condition)? {
                (path, [of]) if path == "all" && holds => given(*of),
                (path, [of]) if path == "any" && !holds => given(*of),
                _ if !holds => taken(condition),
                _ => None,
            },
            Node::Op(Op::Compare(op), sides) => {
                let [left, right] = **sides else { return None };
                let is_none = values.literal(right) == Some(0.0)
                    || matches!(values.node(right), Node::Op(Op::List | Op::Tuple | Op::Set | Op::Dict, items) if items.is_empty())
                    || values.call(right).is_some_and(|(path, of)| path == "set" && of.is_empty());
                match op {
                    CmpOp::Eq if holds && is_none => taken(left),
                    CmpOp::NotEq | CmpOp::Gt if !holds && is_none => taken(left),
                    CmpOp::LtE | CmpOp::Lt if holds => {
                        let of = values.call(left).and_then(|(_, of)| of.first().copied());
                        given(left).or_else(|| given(of?))
                    }
                    _ => None,
                }
            }
            _ if !holds => taken(condition),
            _ => None,
        }
    }

    /// Binds the variables of a comprehension.
    fn bind_variables(&mut self, target: &'a Expr) {
        for name in names(target) {
            self.bound += 1;
            let variable = self.values.add(Node::Bound(self.bound));
            self.bind(name, variable);
        }
    }
}

/// Calls.
impl<'a> Interpreter<'a, '_> {
    fn expression_of_call(&mut self, call: &'a ExprCall) -> Id {
        let function = self.expression(&call.func);
        let arguments = self.arguments(call);
        if let Expr::Attribute(attribute) = &*call.func {
            return self.method_call(call, attribute.attr.as_str(), function, &arguments);
        }
        let changed = self.changed_by(function, &arguments);
        let value = self.call_value(function, &arguments);
        for place in changed {
            if let Some(argument) = call.arguments.args.get(place) {
                self.change(argument);
            }
        }
        value
    }

    /// Returns the values of a call's arguments, in source order.
    fn arguments(&mut self, call: &'a ExprCall) -> Vec<Id> {
        let mut arguments = self.expressions(&*call.arguments.args);
        for keyword in &call.arguments.keywords {
            let value = self.expression(&keyword.value);
            arguments.push(match &keyword.arg {
                Some(name) => self.values.op(Op::Keyword(name.as_str()), [value]),
                None => self.values.op(Op::Starred, [value]),
            });
        }
        arguments
    }

    /// Returns the places of the arguments that a call may change.
    fn changed_by(&self, function: Id, arguments: &[Id]) -> Vec<usize> {
        match self.values.path_of(function) {
            Some(path) if is_listed(&path, CHANGES_FIRST) => vec![0],
            Some(_) => Vec::new(),
            None => match self.values.node(function) {
                // A class of the script may keep its arguments, but a call of the class does not change them.
                Node::Class(_) => Vec::new(),
                Node::Function(place) => self.parameters_changed(*place),
                _ => (0..arguments.len()).collect(),
            },
        }
    }

    /// Returns the places of the parameters that a function of the script may change.
    fn parameters_changed(&self, place: usize) -> Vec<usize> {
        let Some(Closure { function: Callable::Function(function), .. }) = self.closures.get(place)
        else {
            return Vec::new();
        };
        let changed = Changes::of(&[&function.body], self.work).names;
        let parameters = function.parameters.iter_non_variadic_params().enumerate();
        parameters
            .filter(|(_, parameter)| changed.contains(parameter.name().as_str()))
            .map(|(place, _)| place)
            .collect()
    }

    fn method_call(
        &mut self,
        call: &'a ExprCall,
        name: &'a str,
        function: Id,
        arguments: &[Id],
    ) -> Id {
        let Expr::Attribute(attribute) = &*call.func else { return self.fresh() };
        if self.values.path_of(function).is_some() {
            let changed = self.changed_by(function, arguments);
            let value = self.call_value(function, arguments);
            for place in changed {
                if let Some(argument) = call.arguments.args.get(place) {
                    self.change(argument);
                }
            }
            return value;
        }
        let object =
            self.values.operands(function, Op::Attribute(name)).and_then(|of| of.first().copied());
        let Some(object) = object else { return self.fresh() };
        match (name, arguments) {
            ("clear", []) => {
                let empty = match self.values.type_of(object) {
                    Type::Dict => self.values.op(Op::Dict, []),
                    Type::Set => self.values.op(Op::Set, []),
                    _ => self.values.op(Op::List, []),
                };
                if let Expr::Name(target) = &*attribute.value {
                    self.replace(target.id.as_str(), object, empty);
                }
                return self.values.add(Node::None);
            }
            ("copy", []) => return self.values.op(Op::Copy, [object]),
            // Substituting a symbol in itself gives the value.
            ("subs", [symbol, value]) if *symbol == object => return *value,
            ("push" | "pop" | "reset", _) if self.values.type_of(object) == Type::Solver => {
                self.constraints = None;
            }
            ("add" | "assert_exprs" | "append" | "insert", _)
                if self.values.type_of(object) == Type::Solver =>
            {
                let added: Vec<Id> = arguments
                    .iter()
                    .flat_map(|constraint| self.judge().parts_of_constraint(*constraint))
                    .collect();
                if let Some(constraints) = &mut self.constraints {
                    constraints.extend(added);
                }
            }
            _ => {}
        }
        let is_pure = PURE_METHODS.contains(&name)
            || ["verify", "is_", "has_", "get_", "to_", "as_"]
                .iter()
                .any(|it| name.starts_with(it))
            || !self.is_mutable(object)
            || is_temporary(&attribute.value);
        if is_pure {
            let operands = [&[function], arguments].concat();
            return self.values.op(Op::Call, operands);
        }
        self.change(&attribute.value);
        self.fresh()
    }

    fn call_value(&mut self, function: Id, arguments: &[Id]) -> Id {
        if let Some(path) = self.values.path_of(function) {
            let path = path.into_owned();
            return self.call_of_path(&path, function, arguments);
        }
        match self.values.node(function) {
            Node::Class(class) => {
                let (class, number) = (*class, self.values.fresh_number());
                self.values.add(Node::Instance(class, number))
            }
            Node::Function(place) => self.call_of_function(*place, function, arguments),
            Node::Op(Op::OneOf(_), all) => {
                for each in all.to_vec() {
                    self.call_value(each, arguments);
                }
                self.fresh()
            }
            _ => self.fresh(),
        }
    }

    fn call_of_path(&mut self, path: &str, function: Id, arguments: &[Id]) -> Id {
        match (path, arguments) {
            (
                "list" | "tuple" | "set" | "frozenset" | "dict" | "copy.copy" | "copy.deepcopy",
                [of],
            ) if self.keeps_kind(path, *of) => {
                return self.values.op(Op::Copy, [*of]);
            }
            ("list", []) => return self.values.op(Op::List, []),
            ("dict", []) => return self.values.op(Op::Dict, []),
            ("set", []) => return self.values.op(Op::Set, []),
            _ => {}
        }
        // Functions of the script that are passed on may be called.
        for argument in arguments {
            if let Node::Function(place) = self.values.node(*argument) {
                let place = *place;
                self.follow_unknown(place);
            }
        }
        if is_listed(path, IMPURE) {
            return self.fresh();
        }
        let operands = [&[function], arguments].concat();
        self.values.op(Op::Call, operands)
    }

    /// Returns whether a conversion to a collection gives an equal value.
    fn keeps_kind(&self, path: &str, of: Id) -> bool {
        let kind = match path {
            "list" => Type::List,
            "tuple" => Type::Tuple,
            "set" => Type::Set,
            "dict" => Type::Dict,
            "copy.copy" | "copy.deepcopy" => return true,
            _ => return false,
        };
        self.values.type_of(of) == kind
    }

    fn call_of_function(&mut self, place: usize, id: Id, arguments: &[Id]) -> Id {
        let Some(closure) = self.closures.get(place).copied() else { return self.fresh() };
        let operands = [&[id], arguments].concat();
        let opaque = |it: &mut Self| it.values.op(Op::Call, operands);
        let Callable::Function(function) = closure.function else {
            let Callable::Lambda(parameters, body) = closure.function else { return self.fresh() };
            let Some(bound) = self.bind_arguments(parameters, arguments) else {
                return opaque(self);
            };
            return self.follow_lambda(closure.frame, bound, body).unwrap_or_else(|| self.fresh());
        };
        let is_straight = is_straight(&function.body);
        let calls = is_straight || self.may_check(function);
        if !calls || self.calls >= CALLS_MAX || self.level > LEVEL_MAX / 2 {
            return if is_pure(function, self.work) { opaque(self) } else { self.fresh() };
        }
        let bound = self.bind_arguments(Some(&function.parameters), arguments);
        let returned = self.follow(closure, bound.unwrap_or_default());
        if function.is_async {
            return self.fresh();
        }
        match returned {
            Some(value) if is_straight => value,
            _ if is_straight => self.values.add(Node::None),
            // A function that decorates another one returns a function.
            Some(value) if matches!(self.values.node(value), Node::Function(_)) => value,
            _ if is_pure(function, self.work) => opaque(self),
            _ => self.fresh(),
        }
    }

    /// Returns whether a call of a function may reach a check: the function has one, or calls another function.
    fn may_check(&self, function: &'a StmtFunctionDef) -> bool {
        self.has_check(function.range()) || calls_names(&function.body, self.work)
    }

    fn follow_unknown(&mut self, place: usize) {
        let Some(closure) = self.closures.get(place).copied() else { return };
        if let Callable::Function(function) = closure.function
            && self.has_check(function.range())
            && self.calls < CALLS_MAX
        {
            self.follow(closure, HashMap::new());
        }
    }

    /// Follows the body of a function with these values of its parameters. Other parameters are unknown. Returns the
    /// value that the function returns, if its last statement returns it.
    fn follow(&mut self, closure: Closure<'a>, mut names: HashMap<&'a str, Id>) -> Option<Id> {
        let Callable::Function(function) = closure.function else { return None };
        self.followed.insert(function.start());
        for parameter in function.parameters.iter() {
            let name = parameter.name().as_str();
            if !names.contains_key(name) {
                let unknown = self.fresh();
                names.insert(name, unknown);
            }
        }
        self.in_frame(closure.frame, names, |it| {
            it.statements(&function.body);
            it.frames.get(it.frame).and_then(|frame| frame.returned)
        })
    }

    fn follow_lambda(
        &mut self,
        around: usize,
        names: HashMap<&'a str, Id>,
        body: &'a Expr,
    ) -> Option<Id> {
        if self.calls >= CALLS_MAX {
            return None;
        }
        self.in_frame(around, names, |it| Some(it.expression(body)))
    }

    fn in_frame<T>(
        &mut self,
        around: usize,
        names: HashMap<&'a str, Id>,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.work.spend(2 + names.len());
        let outer = self.frame;
        self.frames.push(Frame { names, around, ..Frame::default() });
        self.frame = self.frames.len() - 1;
        self.calls += 1;
        let done = work(self);
        self.calls -= 1;
        self.frame = outer;
        done
    }

    /// Returns the values of a function's parameters in a call; `None` if they cannot be matched.
    fn bind_arguments(
        &mut self,
        parameters: Option<&'a Parameters>,
        arguments: &[Id],
    ) -> Option<HashMap<&'a str, Id>> {
        let mut bound = HashMap::new();
        let Some(parameters) = parameters else { return arguments.is_empty().then_some(bound) };
        let mut positional = parameters.posonlyargs.iter().chain(&parameters.args);
        for argument in arguments {
            if let Node::Op(Op::Keyword(name), value) = self.values.node(*argument) {
                bound.insert(*name, *value.first()?);
            } else if self.values.operands(*argument, Op::Starred).is_some() {
                // The values of the remaining parameters are not known.
                return Some(bound);
            } else if let Some(parameter) = positional.next() {
                bound.insert(parameter.name().as_str(), *argument);
            } else {
                // The remaining arguments go to the variadic parameter.
                parameters.vararg.as_ref()?;
            }
        }
        let all =
            parameters.posonlyargs.iter().chain(&parameters.args).chain(&parameters.kwonlyargs);
        for parameter in all {
            let name = parameter.name().as_str();
            if !bound.contains_key(name)
                && let Some(default) = parameter.default()
            {
                let value = self.expression(default);
                bound.insert(name, value);
            }
        }
        Some(bound)
    }

    /// Returns the truth value of a condition. A proof from contradictory premises proves nothing, and neither does a
    /// model of constraints that hold for all values.
    fn premised(&self, condition: Id) -> Truth {
        let judge = self.judge();
        let constraints = self.constraints.as_deref().unwrap_or_default();
        if let Node::Op(Op::Compare(op), sides) = self.values.node(condition)
            && let Some((_, premises)) = constraints.split_last()
            && sides.iter().any(|side| self.values.type_of(*side) == Type::CheckResult)
        {
            let is_result = |path: &str| {
                sides.iter().any(|side| self.values.path_of(*side).is_some_and(|it| it == path))
            };
            let is_equal = *op == CmpOp::Eq;
            // The last constraint is the negation of the claim.
            if is_result("z3.unsat")
                && (judge.contradict(premises) || judge.is_any_false(constraints))
            {
                return Some((is_equal, Vacuity::Premises));
            }
            if is_result("z3.sat") && judge.are_valid(constraints) {
                return Some((is_equal, Vacuity::AlwaysTrue));
            }
        }
        judge.truth(condition)
    }
}

fn is_listed(path: &str, list: &[&str]) -> bool {
    list.iter()
        .any(|entry| if entry.ends_with('.') { path.starts_with(entry) } else { path == *entry })
}

/// Returns whether a body consists of assignments, and of one `return` at its end.
fn is_straight(body: &[Stmt]) -> bool {
    body.iter().enumerate().all(|(place, stmt)| match stmt {
        Stmt::Assign(_)
        | Stmt::AnnAssign(_)
        | Stmt::Global(_)
        | Stmt::Pass(_)
        | Stmt::FunctionDef(_) => true,
        Stmt::Expr(it) => matches!(&*it.value, Expr::StringLiteral(_)),
        Stmt::Return(_) => place + 1 == body.len(),
        _ => false,
    })
}

/// Returns whether a function has no effects beyond its parameters, and always returns the same value for the same
/// arguments, as far as its statements show.
fn is_pure(function: &StmtFunctionDef, work: &Work) -> bool {
    !function.is_async
        && super::flags::is_pure(&function.body, work, &|path| is_listed(path, IMPURE))
}

/// Returns the last one of the conditions that a condition combines with `and`: the claim after its premises.
fn last_condition(test: &Expr) -> &Expr {
    match test {
        Expr::BoolOp(it) if it.op == BoolOp::And => it.values.last().unwrap_or(test),
        _ => test,
    }
}

/// Returns whether an expression is the result of a call, so that no name refers to it.
fn is_temporary(expr: &Expr) -> bool {
    matches!(expr, Expr::Call(call) if !matches!(&*call.func, Expr::Attribute(_)) || {
        let Expr::Attribute(attribute) = &*call.func else { return false };
        is_temporary(&attribute.value)
    })
}

fn calls_names(body: &[Stmt], work: &Work) -> bool {
    super::flags::calls_names(body, work)
}
