//! Follows the script's values through statements.

#![expect(clippy::wildcard_enum_match_arm, reason = "other values are unknown")]

use foldhash::{HashMap, HashSet};
use ruff_python_ast::{
    CmpOp, Expr, ExprCall, Operator, Stmt, StmtClassDef, StmtFor, StmtFunctionDef,
};
use ruff_text_size::Ranged as _;

use super::super::CheckKind;
use super::super::imports::Imports;
use super::super::influence::{Changes, names};
use super::super::judge::ClassFacts;
use super::super::values::{Id, Node, Of, Op, Type};
use super::{Callable, Closure, Flow, Interpreter, LEVEL_MAX, LOOP_ELEMENTS_MAX};

/// The lower bound of the numbers that identify `for` statements. Smaller numbers identify the loops in comprehensions.
const ELEMENTS_FROM: u32 = 1 << 16;

/// Base classes that add no method `__bool__` or `__len__` to a derived class.
const PLAIN_BASES: &[&str] =
    &["object", "typing.NamedTuple", "typing.Protocol", "abc.ABC", "enum.Enum", "Exception"];

/// Decorators that return the decorated function, or a function that behaves in the same way.
const KEEPING_DECORATORS: &[&str] = &[
    "functools.lru_cache",
    "functools.cache",
    "lru_cache",
    "cache",
    "staticmethod",
    "functools.wraps",
    "wraps",
];

impl<'a> Interpreter<'a, '_> {
    pub(super) fn statements(&mut self, body: &'a [Stmt]) -> Flow {
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

    #[expect(clippy::too_many_lines, reason = "an arm for each kind of statement")]
    fn statement(&mut self, stmt: &'a Stmt) -> Flow {
        match stmt {
            Stmt::Assign(it) => {
                let value = self.expression(&it.value);
                self.note_excepthook(&it.targets, value);
                for target in &it.targets {
                    if !self.bind_item(target, value) {
                        self.bind_target(target, value);
                    }
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
                let truth = self.truth_with_premises(condition);
                self.check_condition(it.test.range(), condition, truth);
                self.note_elements(it.test.range(), condition);
            }
            Stmt::If(_) => return self.conditional(stmt),
            Stmt::For(it) => self.for_loop(it),
            Stmt::While(it) => {
                let changes = Changes::of(&[&it.body], self.work);
                self.forget_changes(&changes);
                self.expression(&it.test);
                self.statements(&it.body);
                self.forget_changes(&changes);
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
                self.join(&after);
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
                    frame.globals.extend(it.names.iter().map(ruff_python_ast::Identifier::as_str));
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

    pub(super) fn expression_statement(&mut self, expr: &'a Expr) {
        if let Expr::Call(call) = expr {
            if self.is_check(call.range()) && !self.is_check_of_raise(call) {
                return self.check_call(call);
            }
            self.check_exit(call);
            self.is_unused = true;
        }
        self.expression(expr);
        self.is_unused = false;
        if self.is_check(expr.range()) {
            self.check(expr.range(), None);
        }
    }

    pub(super) fn is_check_of_raise(&self, call: &ExprCall) -> bool {
        let place = self.places.get(&call.start()).copied().unwrap_or(usize::MAX);
        self.kinds.get(place).is_some_and(|(kind, _)| *kind == CheckKind::Skipped)
    }

    /// Judges a call that ends the script with a computed status, for example `sys.exit(f())`.
    pub(super) fn check_exit(&mut self, call: &'a ExprCall) {
        if let Some(status) = call.arguments.args.first()
            && self.is_check(status.range())
        {
            let value = self.expression(status);
            let truth = self.judge().truth(value);
            self.check_condition(status.range(), value, truth);
        }
    }

    pub(super) fn conditional(&mut self, stmt: &'a Stmt) -> Flow {
        let Stmt::If(it) = stmt else { return Flow::On };
        let mut after = Vec::new();
        let mut is_complete = false;
        let bodies = std::iter::once((Some(&*it.test), &it.body))
            .chain(it.elif_else_clauses.iter().map(|clause| (clause.test.as_ref(), &clause.body)));
        let mut before = self.names_now();
        let mut conditions = Vec::new();
        let outer = self.outer_names();
        let mut changed = HashSet::default();
        for (test, body) in bodies {
            self.set_names(before.clone());
            if let Some(test) = test {
                let condition = self.expression(test);
                conditions.push(condition);
                let truth = self.truth_with_premises(condition);
                self.check_condition(test.range(), condition, truth);
                self.note_elements(test.range(), condition);
                before = self.names_now();
            } else {
                is_complete = true;
            }
            if self.statements(body) == Flow::On {
                after.push(self.names_now());
            }
            self.take_back(&outer, &mut changed);
        }
        self.forget_in(changed);
        if !is_complete {
            after.push(before);
        }
        let Some(last) = after.pop() else { return Flow::Ends };
        self.set_names(last);
        if let ([condition], [taken]) = (&conditions[..], &after[..]) {
            self.choose(*condition, taken);
        } else {
            self.join(&after);
        }
        Flow::On
    }

    /// Follows an assignment to an item of a dictionary, if all keys of the dictionary are literals. Returns whether
    /// the assignment was followed.
    fn bind_item(&mut self, target: &'a Expr, value: Id) -> bool {
        let Expr::Subscript(it) = target else { return false };
        let Expr::Name(name) = &*it.value else { return false };
        let old = self.read(name.id.as_str());
        let key = self.expression(&it.slice);
        let Some(items) = self.values.operands(old, Op::Dict).map(<[Id]>::to_vec) else {
            return false;
        };
        self.work.spend(items.len());
        let keys = items.iter().step_by(2);
        if !self.values.is_literal(key) || !keys.clone().all(|it| self.values.is_literal(*it)) {
            return false;
        }
        let place = keys.into_iter().position(|it| *it == key);
        let mut items = items.clone();
        match place.and_then(|place| items.get_mut(2 * place + 1)) {
            Some(item) => *item = value,
            None => items.extend([key, value]),
        }
        let new = self.values.op(Op::Dict, items);
        self.replace(old, new);
        true
    }

    /// Merges the names after the two branches of an `if`. `taken` contains the names after the branch for a true
    /// condition. The current names are the names after the other branch.
    fn choose(&mut self, condition: Id, taken: &HashMap<&'a str, Id>) {
        let now = self.names_now();
        self.work.spend(taken.len() / 4);
        for (name, value) in taken {
            match now.get(name) {
                Some(other) if other != value => {
                    // After `if x != c: c = x`, the name `c` has the value of `x` in both cases.
                    let differ = self.values.operands(condition, Op::Compare(CmpOp::NotEq));
                    let pair = [*value, *other];
                    let is_same = differ.is_some_and(|of| pair.iter().all(|it| of.contains(it)));
                    let both = [condition, *value, *other];
                    let chosen = if is_same { *value } else { self.values.op(Op::IfElse, both) };
                    self.bind(name, chosen);
                }
                Some(_) => {}
                None => self.forget(&std::iter::once(*name).collect()),
            }
        }
        let only_now = now.keys().filter(|name| !taken.contains_key(*name)).copied().collect();
        self.forget(&only_now);
    }

    pub(super) fn for_loop(&mut self, it: &'a StmtFor) {
        let iterable = self.expression(&it.iter);
        let changes = Changes::of(&[&it.body], self.work);
        let collected = self.collected(it, iterable);
        self.forget_changes(&changes);
        let element = self.element(iterable);
        self.bind_target(&it.target, element);
        let is_general = self.judge().is_general(iterable);
        self.general_loops += usize::from(is_general);
        self.statements(&it.body);
        self.forget_changes(&changes);
        self.general_loops -= usize::from(is_general);
        if let Some((name, value)) = collected {
            self.bind(name, value);
        }
        self.statements(&it.orelse);
    }

    /// Returns the name of a list or a sum that a loop builds, and a comprehension with the same value. An example of
    /// such a loop is `for x in of: if test: name.append(element)`.
    fn collected(&mut self, it: &'a StmtFor, iterable: Id) -> Option<(&'a str, Id)> {
        let (test, stmt) = match &it.body[..] {
            [Stmt::If(of)] if of.elif_else_clauses.is_empty() => match &of.body[..] {
                [stmt] => (Some(&*of.test), stmt),
                _ => return None,
            },
            [stmt] => (None, stmt),
            _ => return None,
        };
        let (name, element, is_list) = match stmt {
            Stmt::Expr(of) => {
                let call = of.value.as_call_expr()?;
                let function = call.func.as_attribute_expr()?;
                let [element] = &*call.arguments.args else { return None };
                if function.attr.as_str() != "append" || !call.arguments.keywords.is_empty() {
                    return None;
                }
                (function.value.as_name_expr()?, element, true)
            }
            Stmt::AugAssign(of) if of.op == Operator::Add => {
                (of.target.as_name_expr()?, &*of.value, false)
            }
            _ => return None,
        };
        let name = name.id.as_str();
        let before = self.read(name);
        let is_start = if is_list {
            self.values.operands(before, Op::List).is_some_and(<[Id]>::is_empty)
        } else {
            self.values.literal(before) == Some(0.0)
        };
        if !is_start || names(element).contains(&name) || self.has_check(it.range()) {
            return None;
        }
        let outer = (self.names_now(), self.bound);
        self.bound += 1;
        let any = self.any_element(iterable, self.bound);
        self.bind_target(&it.target, any);
        let test = test.map(|test| self.expression(test));
        let element = self.expression(element);
        self.set_names(outer.0);
        self.bound = outer.1;
        let mut parts = vec![element, iterable];
        if let Some(test) = test {
            parts.push(self.values.op(Op::Test, [test]));
        }
        if is_list {
            return Some((name, self.values.op(Op::Comprehension(Of::List), parts)));
        }
        let all = self.values.op(Op::Comprehension(Of::Generator), parts);
        let sum = self.values.path("sum");
        Some((name, self.values.op(Op::Call, [sum, all])))
    }

    /// Returns a value that stands for any element of an iterable.
    pub(super) fn element(&mut self, iterable: Id) -> Id {
        let items = self.elements(iterable);
        match items.as_deref() {
            Some([]) | None => {
                let number = self.values.fresh_number();
                self.any_element(iterable, ELEMENTS_FROM + number)
            }
            Some(items) if items.windows(2).all(|pair| pair.first() == pair.get(1)) => {
                items.first().copied().unwrap_or_default()
            }
            Some(items) if items.len() <= LOOP_ELEMENTS_MAX => {
                let number = self.values.fresh_number();
                let items: Box<[Id]> = items.into();
                self.values.op(Op::OneOf(number), items)
            }
            Some(_) => self.fresh(),
        }
    }

    pub(super) fn fresh(&mut self) -> Id {
        self.values.unknown()
    }

    pub(super) fn elements(&mut self, iterable: Id) -> Option<Vec<Id>> {
        let iterable = self.values.original(iterable);
        self.work.spend(self.values.operand_count(iterable) / 8);
        match self.values.node(iterable) {
            Node::Op(Op::Tuple | Op::List | Op::Set, items) => return Some(items.to_vec()),
            Node::Op(Op::Dict, items) => return Some(items.iter().copied().step_by(2).collect()),
            // If the element expression is a literal, all elements are equal.
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

    pub(super) fn define(&mut self, function: &'a StmtFunctionDef) {
        let closure = self.values_of_closure(Callable::Function(function));
        let mut value = closure;
        for decorator in function.decorator_list.iter().rev() {
            let of = self.expression(&decorator.expression);
            let called = self.values.operands(of, Op::Call).and_then(|of| of.first().copied());
            let path = self.values.path_of(called.unwrap_or(of)).map(std::borrow::Cow::into_owned);
            if path.is_some_and(|path| KEEPING_DECORATORS.contains(&&*path)) {
                continue;
            }
            value = self.call_value(of, &[value]);
        }
        self.bind(&function.name, value);
    }

    pub(super) fn values_of_closure(&mut self, function: Callable<'a>) -> Id {
        self.closures.push(Closure { function, frame: self.frame });
        self.values.add(Node::Function(self.closures.len() - 1))
    }

    pub(super) fn define_class(&mut self, class: &'a StmtClassDef) {
        let place = self.classes.len();
        self.classes.push(class);
        let facts = facts_of(class, self.imports);
        if ["__add__", "__radd__"].iter().any(|it| facts.methods.contains(it)) {
            self.values.note_operators();
        }
        self.facts.push(facts);
        let value = self.values.add(Node::Class(place));
        self.bind(&class.name, value);
        // Methods are followed where the script calls them. Methods without a call are followed at the end, with
        // unknown arguments.
        let before = self.names_now();
        self.statements(&class.body);
        let mut names = self.names_now();
        self.work.spend(names.len());
        names.retain(|name, id| before.get(name) != Some(id));
        names.shrink_to_fit();
        self.class_names.push(names);
        self.set_names(before);
        self.bind(&class.name, value);
    }
}

fn facts_of<'a>(class: &'a StmtClassDef, imports: &Imports<'_>) -> ClassFacts<'a> {
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
    let is_plain = class
        .bases()
        .iter()
        .all(|base| imports.path(base).is_some_and(|it| PLAIN_BASES.contains(&&*it)));
    let methods = class.body.iter().filter_map(|stmt| match stmt {
        Stmt::FunctionDef(it) if it.decorator_list.is_empty() => Some(it.name.as_str()),
        _ => None,
    });
    let has_bool = method("__bool__").is_some() || method("__len__").is_some();
    let is_isinstance = |value: Option<&Expr>| match value {
        Some(Expr::Call(call)) => imports.path(&call.func).is_some_and(|it| it == "isinstance"),
        _ => false,
    };
    ClassFacts {
        is_true: is_plain && !has_bool,
        is_plain,
        methods: methods.collect(),
        equals_all: is_true(returned("__eq__")) || is_isinstance(returned("__eq__")),
        suppresses: is_true(returned("__exit__")),
    }
}
