//! Follows calls of the script's functions, and finds the objects that calls change.

#![expect(clippy::wildcard_enum_match_arm, reason = "other values are unknown")]

use foldhash::{HashMap, HashMapExt as _, HashSet};
use ruff_python_ast::{CmpOp, Expr, ExprCall, Operator, Parameters, Stmt, StmtFunctionDef};
use ruff_text_size::Ranged as _;

use super::super::flags::{self};
use super::super::influence::Changes;
use super::super::judge::Truth;
use super::super::vacuity::Vacuity;
use super::super::values::{Id, Node, Of, Op, Type};
use super::{CALLS_MAX, Callable, Closure, Frame, Interpreter, LEVEL_MAX, is_listed};
use crate::work::Work;

/// Methods that change their object and return a result, or that return a different result at each call.
const CHANGING_METHODS: &[&str] = &[
    "__next__",
    "advance",
    "choice",
    "choices",
    "draw",
    "execute",
    "fetchall",
    "fetchone",
    "gauss",
    "integers",
    "next",
    "normal",
    "now",
    "pop",
    "popitem",
    "popleft",
    "randint",
    "random",
    "randrange",
    "read",
    "readline",
    "readlines",
    "remove",
    "roll",
    "sample",
    "send",
    "setdefault",
    "shuffle",
    "step",
    "tick",
    "today",
    "uniform",
    "write",
];

/// Functions with effects, or with a result that differs from call to call.
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

/// Functions of the standard library that change their first argument, and no other argument.
const CHANGES_FIRST: &[&str] = &[
    "setattr",
    "delattr",
    "heapq.",
    "bisect.insort",
    "random.shuffle",
    "next",
    "operator.setitem",
];

impl<'a> Interpreter<'a, '_> {
    pub(super) fn expression_of_call(&mut self, call: &'a ExprCall) -> Id {
        let is_unused = std::mem::take(&mut self.is_unused);
        let function = self.expression(&call.func);
        let arguments = self.arguments(call);
        if let Expr::Attribute(attribute) = &*call.func {
            self.is_unused = is_unused;
            let value = self.method_call(call, attribute.attr.as_str(), function, &arguments);
            self.is_unused = false;
            return value;
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
    pub(super) fn arguments(&mut self, call: &'a ExprCall) -> Vec<Id> {
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

    /// Returns the indices of the arguments that a call may change.
    pub(super) fn changed_by(&self, function: Id, arguments: &[Id]) -> Vec<usize> {
        match self.values.path_of(function) {
            Some(path) if is_listed(&path, CHANGES_FIRST) => vec![0],
            Some(_) => Vec::new(),
            None => match self.values.node(function) {
                // A class may store the arguments in the new object, but the call does not change the arguments.
                Node::Class(_) => Vec::new(),
                Node::Function(place) => self.parameters_changed(*place),
                _ => (0..arguments.len()).collect(),
            },
        }
    }

    /// Returns the indices of the parameters that a function of the script may change.
    pub(super) fn parameters_changed(&self, place: usize) -> Vec<usize> {
        let Some(Closure { function: Callable::Function(function), .. }) = self.closures.get(place)
        else {
            return Vec::new();
        };
        let Changes { names, bound, .. } = Changes::of(&[&function.body], self.work);
        // If the function binds a parameter again, assume that the parameter then refers to a copy of the argument.
        let changed: HashSet<&str> = names.difference(&bound).copied().collect();
        let parameters = function.parameters.iter_non_variadic_params().enumerate();
        parameters
            .filter(|(_, parameter)| changed.contains(parameter.name().as_str()))
            .map(|(place, _)| place)
            .collect()
    }

    pub(super) fn method_call(
        &mut self,
        call: &'a ExprCall,
        name: &'a str,
        function: Id,
        arguments: &[Id],
    ) -> Id {
        let is_unused = std::mem::take(&mut self.is_unused);
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
        let Some(object) = object else {
            // The value of the attribute is known, for example a function of the script. Call this value.
            return self.call_value(function, arguments);
        };
        if let Some(value) = self.call_of_method(object, name, function, arguments) {
            return value;
        }
        if let Some(value) = self.known_method(&attribute.value, object, name, arguments) {
            return value;
        }
        // If the result of a method call is unused, assume that the method changes its object.
        let is_pure = !(is_unused || CHANGING_METHODS.contains(&name))
            || !self.is_mutable(object)
            || is_temporary(&attribute.value);
        if is_pure {
            let operands = [&[function], arguments].concat();
            return self.values.op(Op::Call, operands);
        }
        self.change(&attribute.value);
        self.fresh()
    }

    /// Returns the result of a method call, if the effect of the method is known. `target` is the expression before the
    /// dot.
    fn known_method(
        &mut self,
        target: &'a Expr,
        object: Id,
        name: &'a str,
        arguments: &[Id],
    ) -> Option<Id> {
        match (name, arguments) {
            ("clear", []) => {
                let empty = match self.values.type_of(object) {
                    Type::Dict => self.values.op(Op::Dict, []),
                    Type::Set => self.values.op(Op::Set, []),
                    _ => self.values.op(Op::List, []),
                };
                if target.is_name_expr() {
                    self.replace(object, empty);
                }
                Some(self.values.add(Node::None))
            }
            ("copy", []) => Some(self.values.op(Op::Copy, [object])),
            ("get", [key]) if self.values.type_of(object) == Type::Dict => {
                Some(self.item(object, *key))
            }
            ("update", [with]) if self.values.type_of(object) == Type::Dict => {
                let merged = self.values.op(Op::Merged, [object, *with]);
                if !target.is_name_expr() {
                    return None;
                }
                self.replace(object, merged);
                Some(self.values.add(Node::None))
            }
            // These methods of SymPy only rewrite an expression, so the result for an expression that is 0 is also 0.
            (
                "expand" | "simplify" | "evalf" | "n" | "doit" | "removeO" | "trigsimp" | "factor",
                _,
            ) if self.values.operands(object, Op::Zero).is_some() => Some(object),
            // `x.subs(x, value)` returns `value`.
            ("subs", [symbol, value]) if *symbol == object => Some(*value),
            ("pop" | "reset", _) if self.values.type_of(object) == Type::Solver => {
                self.constraints = None;
                None
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
                None
            }
            _ => None,
        }
    }

    pub(super) fn call_value(&mut self, function: Id, arguments: &[Id]) -> Id {
        self.work.spend(1);
        if self.is_over() {
            return self.fresh();
        }
        if let Some(path) = self.values.path_of(function) {
            let path = path.into_owned();
            if let Some(replaced) = self.replaced_functions.get(&path).copied() {
                return self.call_value(replaced, arguments);
            }
            return self.call_of_path(&path, function, arguments);
        }
        match self.values.node(function) {
            Node::Class(class) => self.construct(*class, arguments),
            Node::Function(place) => self.call_of_function(*place, function, arguments),
            Node::Op(Op::OneOf(_), all) => {
                let all = all.to_vec();
                for each in all {
                    self.call_value(each, arguments);
                }
                self.fresh()
            }
            // The function is a class that was created by a call, for example a call of `namedtuple`.
            Node::Op(Op::Call, _) if self.judge().makes_class(function) => {
                self.values.op(Op::Call, [&[function], arguments].concat())
            }
            _ => self.fresh(),
        }
    }

    pub(super) fn call_of_path(&mut self, path: &str, function: Id, arguments: &[Id]) -> Id {
        match (path, arguments) {
            (
                "list" | "tuple" | "set" | "frozenset" | "dict" | "copy.copy" | "copy.deepcopy",
                [of],
            ) if self.keeps_kind(path, *of) => {
                return self.values.op(Op::Copy, [*of]);
            }
            ("map", [mapped, iterable]) => {
                self.bound += 1;
                let element = self.any_element(*iterable, self.bound);
                let value = self.call_value(*mapped, &[element]);
                self.bound -= 1;
                return self.values.op(Op::Comprehension(Of::Generator), [value, *iterable]);
            }
            ("list" | "tuple" | "set", [of]) => {
                if let Node::Op(Op::Comprehension(Of::Generator), parts) = self.values.node(*of) {
                    let kind = if path == "set" { Of::Set } else { Of::List };
                    let parts = parts.clone();
                    return self.values.op(Op::Comprehension(kind), parts);
                }
            }
            ("sympy.simplify" | "sympy.expand" | "sympy.trigsimp" | "sympy.factor", [of, ..])
                if self.values.operands(*of, Op::Zero).is_some() =>
            {
                return *of;
            }
            ("dataclasses.replace", [of]) => return self.values.op(Op::Copy, [*of]),
            ("divmod", [number, by]) => {
                let parts = [Operator::FloorDiv, Operator::Mod]
                    .map(|operator| self.binary(operator, *number, *by));
                return self.values.op(Op::Tuple, parts);
            }
            ("dataclasses.replace", [of, changes @ ..]) => {
                if let Some(object) = self.replaced(*of, changes) {
                    return object;
                }
            }
            (
                "setattr" | "unittest.mock.patch" | "unittest.mock.patch.object",
                [target, more @ ..],
            ) => self.replace_by_call(path, *target, more),
            ("list", []) => return self.values.op(Op::List, []),
            ("dict", []) => return self.values.op(Op::Dict, []),
            ("set", []) => return self.values.op(Op::Set, []),
            _ => {}
        }
        // The called function may call its arguments, so follow the script's functions among the arguments.
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

    /// Returns whether a call of the function `path` with the argument `of` only copies the argument. For example,
    /// `list(x)` is a copy if `x` is a list.
    pub(super) fn keeps_kind(&self, path: &str, of: Id) -> bool {
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

    pub(super) fn call_of_function(&mut self, place: usize, id: Id, arguments: &[Id]) -> Id {
        let Some(closure) = self.closures.get(place).copied() else { return self.fresh() };
        // Mark literal arguments as fields, so that a comparison with the result of the call is not treated as a
        // comparison of literals. If the function contains a check, pass the unmarked literals, so that a comparison of
        // literals in this check is recognized.
        let has_check = match closure.function {
            Callable::Function(function) => self.has_check(function.range()),
            Callable::Lambda(..) => false,
        };
        let fields: Vec<Id> = arguments.iter().map(|it| self.field(*it)).collect();
        let arguments = if has_check { arguments } else { &fields };
        let operands = [&[id], arguments].concat();
        let opaque = |it: &mut Self| it.values.op(Op::Call, operands);
        if let Callable::Function(function) = closure.function {
            let yields = flags::yields(&function.body, self.work);
            if function.is_async || yields {
                self.follow_unknown(place);
                let of = if yields { Type::Generator } else { Type::Object };
                return self.values.unknown_of(of);
            }
        }
        let Callable::Function(function) = closure.function else {
            let Callable::Lambda(parameters, body) = closure.function else { return self.fresh() };
            let Some(bound) = self.bind_arguments(parameters, arguments) else {
                return opaque(self);
            };
            return self.follow_lambda(closure.frame, bound, body).unwrap_or_else(|| self.fresh());
        };
        if is_branching(&function.body)
            && self.calls < CALLS_MAX
            && self.level <= LEVEL_MAX / 2
            && let Some(bound) = self.bind_arguments(Some(&function.parameters), arguments)
            && let Some(value) = self.follow_branches(closure, bound)
        {
            return value;
        }
        let is_straight = is_straight(&function.body);
        let calls = is_straight || self.may_check(function);
        if !calls || self.calls >= CALLS_MAX || self.level > LEVEL_MAX / 2 {
            self.forget_effects(function);
            return if is_pure(function, self.work) { opaque(self) } else { self.fresh() };
        }
        let bound = self.bind_arguments(Some(&function.parameters), arguments);
        let returned = self.follow(closure, bound.unwrap_or_default());
        match returned {
            Some(value) if is_straight => value,
            _ if is_straight => self.values.add(Node::None),
            // Return the value if it is a function, because the called function may be a decorator.
            Some(value) if matches!(self.values.node(value), Node::Function(_)) => value,
            _ if is_pure(function, self.work) => opaque(self),
            _ => self.fresh(),
        }
    }

    /// Gives unknown values to the outer names that a function binds or changes.
    fn forget_effects(&mut self, function: &'a StmtFunctionDef) {
        let Changes { names, bound, globals, .. } = Changes::of(&[&function.body], self.work);
        let mut own: HashSet<&str> = bound.difference(&globals).copied().collect();
        own.extend(function.parameters.iter().map(|of| of.name().as_str()));
        for name in names.difference(&own).copied().collect::<Vec<&'a str>>() {
            if self.is_bound(name) {
                let old = self.read(name);
                let unknown = self.fresh();
                self.replace_all(old, unknown, name);
            }
        }
    }

    /// Returns whether a function contains a check, or calls another function by a plain name. The other function may
    /// reach a check.
    pub(super) fn may_check(&self, function: &'a StmtFunctionDef) -> bool {
        self.has_check(function.range()) || calls_names(&function.body, self.work)
    }

    pub(super) fn follow_unknown(&mut self, place: usize) {
        let Some(closure) = self.closures.get(place).copied() else { return };
        if let Callable::Function(function) = closure.function
            && self.has_check(function.range())
            && self.calls < CALLS_MAX
        {
            self.follow(closure, HashMap::new());
        }
    }

    /// Follows the body of a function. `names` contains the known values of its parameters. All other parameters are
    /// unknown. Returns the value of the last `return` statement that was reached.
    pub(super) fn follow(
        &mut self,
        closure: Closure<'a>,
        names: HashMap<&'a str, Id>,
    ) -> Option<Id> {
        let Callable::Function(function) = closure.function else { return None };
        self.followed.insert(function.start());
        self.in_frame_of(function, closure.frame, names, |it| {
            it.statements(&function.body);
            it.frames.get(it.frame).and_then(|frame| frame.returned)
        })
    }

    /// Returns the return value of a function, if all of its branches return a value.
    fn follow_branches(&mut self, closure: Closure<'a>, names: HashMap<&'a str, Id>) -> Option<Id> {
        let Callable::Function(function) = closure.function else { return None };
        let branches = |it: &mut Self| it.value_of_branches(&function.body);
        self.in_frame_of(function, closure.frame, names, branches)
    }

    fn value_of_branches(&mut self, body: &'a [Stmt]) -> Option<Id> {
        let mut rest = body.iter();
        while let Some(stmt) = rest.next() {
            match stmt {
                Stmt::Return(it) => return Some(self.expression(it.value.as_deref()?)),
                Stmt::If(it) => {
                    let condition = self.expression(&it.test);
                    let before = self.names_now();
                    let one = self.value_of_branches(&it.body)?;
                    self.set_names(before);
                    let other = match &it.elif_else_clauses[..] {
                        [] => self.value_of_branches(rest.as_slice())?,
                        [clause] if clause.test.is_none() => {
                            self.value_of_branches(&clause.body)?
                        }
                        _ => return None,
                    };
                    let is_same = one == other;
                    let both = [condition, one, other];
                    return Some(if is_same { one } else { self.values.op(Op::IfElse, both) });
                }
                other => {
                    self.statements(std::slice::from_ref(other));
                }
            }
        }
        None
    }

    pub(super) fn follow_lambda(
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

    /// Follows a function in a new frame. Parameters that are not in `names` have unknown values.
    fn in_frame_of<T>(
        &mut self,
        function: &'a StmtFunctionDef,
        around: usize,
        mut names: HashMap<&'a str, Id>,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        for parameter in &function.parameters {
            names.entry(parameter.name().as_str()).or_insert_with(|| self.fresh());
        }
        self.in_frame(around, names, work)
    }

    pub(super) fn in_frame<T>(
        &mut self,
        around: usize,
        names: HashMap<&'a str, Id>,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.work.spend(2 + names.len());
        for value in names.values() {
            self.values.note_input(*value);
        }
        let outer = self.frame;
        self.frames.push(Frame { names, around, ..Frame::default() });
        self.frame = self.frames.len() - 1;
        self.calls += 1;
        let done = work(self);
        self.calls -= 1;
        self.frame = outer;
        done
    }

    /// Returns the values of a function's parameters in a call; `None` if the arguments do not match the parameters.
    pub(super) fn bind_arguments(
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
            } else if let Some([all]) = self.values.operands(*argument, Op::Starred) {
                let (all, rest) = (*all, positional.by_ref().collect::<Vec<_>>());
                for (place, parameter) in rest.iter().enumerate() {
                    let part = self.part(all, place, rest.len());
                    bound.insert(parameter.name().as_str(), part);
                }
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

    /// Returns the truth value of a condition, or `None` if the truth value is unknown. A comparison with a result of
    /// Z3 is known in two cases. The result is `unsat` if the premises contradict each other, if a constraint can never
    /// hold, or if the claim is one of its own premises. The result is `sat` if all constraints hold for all values.
    pub(super) fn truth_with_premises(&self, condition: Id) -> Truth {
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
                && (judge.contradict(premises)
                    || judge.is_any_false(constraints)
                    || judge.negates_premise(constraints))
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

/// Returns whether a body consists only of assignments, definitions, calls of `print`, and `if` statements. A branch of
/// an `if` may also be one `raise`. A `return` is allowed only at the end, outside of branches.
fn is_straight(body: &[Stmt]) -> bool {
    body.iter().enumerate().all(|(place, stmt)| match stmt {
        Stmt::Assign(_)
        | Stmt::AnnAssign(_)
        | Stmt::AugAssign(_)
        | Stmt::Global(_)
        | Stmt::Pass(_)
        | Stmt::FunctionDef(_) => true,
        Stmt::Expr(it) => match &*it.value {
            Expr::StringLiteral(_) => true,
            Expr::Call(call) => {
                matches!(&*call.func, Expr::Name(name) if name.id.as_str() == "print")
            }
            _ => false,
        },
        Stmt::Return(_) => place + 1 == body.len(),
        Stmt::If(it) => {
            let bodies = std::iter::once(&it.body)
                .chain(it.elif_else_clauses.iter().map(|clause| &clause.body));
            bodies.into_iter().all(|body| {
                is_straight(body) && !matches!(body.last(), Some(Stmt::Return(_)))
                    || matches!(body[..], [Stmt::Raise(_)])
            })
        }
        _ => false,
    })
}

/// Returns whether a body consists of straight statements (see [`is_straight`]) and of branches that all return.
fn is_branching(body: &[Stmt]) -> bool {
    let Some(at) = body.iter().position(|stmt| matches!(stmt, Stmt::If(_))) else { return false };
    let (before, rest) = body.split_at(at);
    let [Stmt::If(it), after @ ..] = rest else { return false };
    let is_returning = |body: &[Stmt]| is_branching(body) || returns_value(body);
    let is_last = match &it.elif_else_clauses[..] {
        [] => is_returning(after),
        [clause] if clause.test.is_none() => after.is_empty() && is_returning(&clause.body),
        _ => false,
    };
    is_straight(before) && is_returning(&it.body) && is_last
}

fn returns_value(body: &[Stmt]) -> bool {
    is_straight(body) && matches!(body.last(), Some(Stmt::Return(it)) if it.value.is_some())
}

/// Returns whether a function seems to be pure: it changes nothing but its arguments, and equal arguments give equal
/// results.
fn is_pure(function: &StmtFunctionDef, work: &Work) -> bool {
    !function.is_async && flags::is_pure(&function.body, work, &|path| is_listed(path, IMPURE))
}

/// Returns whether an expression is a call of a function, or of a method on such a call. Assumes that no name refers to
/// the result.
fn is_temporary(expr: &Expr) -> bool {
    matches!(expr, Expr::Call(call) if !matches!(&*call.func, Expr::Attribute(_)) || {
        let Expr::Attribute(attribute) = &*call.func else { return false };
        is_temporary(&attribute.value)
    })
}

fn calls_names(body: &[Stmt], work: &Work) -> bool {
    flags::calls_names(body, work)
}
