//! Determines facts about statements from their syntax alone, for example whether a function is pure.

#![expect(clippy::wildcard_enum_match_arm, reason = "few statements matter for each question")]

use foldhash::{HashMap, HashSet};
use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{ExceptHandler, Expr, Number, Operator, Stmt, StmtFunctionDef, StmtTry};
use ruff_text_size::{Ranged as _, TextRange};

use super::influence::{Changes, names};
use crate::work::Work;

/// The value of a name or an attribute, if the value depends only on whether an exception was raised. Outside of
/// exception handlers, the script assigns only literals to such a name or attribute.
#[derive(Debug, Clone, Copy)]
pub(super) enum Flag<'a> {
    /// The value of the name if no exception was raised.
    Value(&'a Expr),
    /// The value is a collection of literals.
    Collection,
}

/// Returns the names and the attributes that depend only on whether an exception was raised. The first map contains the
/// names, and the second map contains the attributes.
pub(super) fn exception_flags<'a>(
    body: &'a [Stmt],
    conditions: &[TextRange],
    work: &Work,
) -> [HashMap<&'a str, Flag<'a>>; 2] {
    let mut reader = FlagReader {
        found: HashMap::default(),
        attributes: HashMap::default(),
        conditions,
        functions_with_checks: HashSet::default(),
        handler: None,
        work,
    };
    reader.functions_with_checks = functions_with(body, conditions, work);
    reader.visit_body(body);
    [reader.found, reader.attributes].map(|found| {
        let flags = found.into_iter().filter(|(_, of)| !of.is_other && of.is_in_handler);
        flags
            .filter_map(|(name, of)| {
                let flag = if of.is_collection { Flag::Collection } else { Flag::Value(of.value?) };
                Some((name, flag))
            })
            .collect()
    })
}

/// The facts about all assignments to a name.
#[derive(Debug, Default)]
struct Bindings<'a> {
    /// The last literal that the script binds to the name outside of exception handlers.
    value: Option<&'a Expr>,
    /// Whether the script assigns to an item of the value of the name, as in `name[key] = value`.
    is_collection: bool,
    is_in_handler: bool,
    is_other: bool,
}

struct FlagReader<'a, 'i> {
    found: HashMap<&'a str, Bindings<'a>>,
    attributes: HashMap<&'a str, Bindings<'a>>,
    conditions: &'i [TextRange],
    /// The names of functions that contain a check, or call such a function.
    functions_with_checks: HashSet<&'a str>,
    /// Whether the exception that the current `except` handler catches may come from a check. `None` outside of
    /// handlers.
    handler: Option<bool>,
    work: &'i Work,
}

impl<'a> FlagReader<'a, '_> {
    fn bind(&mut self, name: &'a str, value: Option<&'a Expr>) {
        let handler = self.handler;
        Self::note(handler, self.found.entry(name).or_default(), value);
    }

    fn bind_attribute(&mut self, name: &'a str, value: Option<&'a Expr>) {
        let handler = self.handler;
        Self::note(handler, self.attributes.entry(name).or_default(), value);
    }

    fn note(handler: Option<bool>, of: &mut Bindings<'a>, value: Option<&'a Expr>) {
        match (handler, value) {
            (Some(false), _) => of.is_in_handler = true,
            (None, Some(value)) if is_literal(value) => of.value = Some(value),
            _ => of.is_other = true,
        }
    }

    fn bind_all(&mut self, target: &'a Expr) {
        for name in names(target) {
            self.found.entry(name).or_default().is_other = true;
        }
    }

    /// Returns whether an exception in the body of a `try` may come from a check.
    fn may_be_of_check(&self, it: &StmtTry) -> bool {
        let has_call = any_expression(&it.body, self.work, &|expr| match expr {
            Expr::Call(call) => match &*call.func {
                Expr::Name(name) => self.functions_with_checks.contains(name.id.as_str()),
                Expr::Attribute(of) => self.functions_with_checks.contains(of.attr.as_str()),
                _ => true,
            },
            _ => false,
        });
        has_call
            || it
                .body
                .iter()
                .any(|stmt| self.conditions.iter().any(|of| stmt.range().contains_range(*of)))
    }
}

impl<'a> Visitor<'a> for FlagReader<'a, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        self.work.spend(1);
        match stmt {
            Stmt::Assign(it) => {
                for target in &it.targets {
                    match target {
                        Expr::Name(name) => self.bind(name.id.as_str(), Some(&it.value)),
                        Expr::Attribute(of) => self.bind_attribute(&of.attr, Some(&it.value)),
                        Expr::Subscript(of) => {
                            if let Expr::Name(name) = &*of.value {
                                let is_plain = is_literal(&it.value);
                                let in_handler = self.handler == Some(false);
                                let of = self.found.entry(name.id.as_str()).or_default();
                                of.is_collection = true;
                                of.is_in_handler |= in_handler;
                                of.is_other |= !is_plain && !in_handler;
                            }
                        }
                        other => self.bind_all(other),
                    }
                }
            }
            Stmt::AugAssign(it) => match &*it.target {
                Expr::Name(name) => self.bind(name.id.as_str(), None),
                Expr::Attribute(of) => self.bind_attribute(&of.attr, None),
                other => self.bind_all(other),
            },
            Stmt::AnnAssign(it) => match &*it.target {
                Expr::Name(name) => self.bind(name.id.as_str(), it.value.as_deref()),
                other => self.bind_all(other),
            },
            Stmt::For(it) => self.bind_all(&it.target),
            Stmt::With(it) => {
                for target in it.items.iter().filter_map(|item| item.optional_vars.as_deref()) {
                    self.bind_all(target);
                }
            }
            Stmt::FunctionDef(it) => {
                for parameter in &it.parameters {
                    self.found.entry(parameter.name().as_str()).or_default().is_other = true;
                }
            }
            Stmt::Global(it) => {
                for name in &it.names {
                    self.found.entry(name.as_str()).or_default().is_other = true;
                }
            }
            Stmt::Try(it) => {
                self.visit_body(&it.body);
                let outer = self.handler;
                self.handler = Some(self.may_be_of_check(it));
                for ExceptHandler::ExceptHandler(handler) in &it.handlers {
                    self.visit_body(&handler.body);
                }
                self.handler = outer;
                self.visit_body(&it.orelse);
                self.visit_body(&it.finalbody);
                return;
            }
            _ => {}
        }
        walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Named(it) => self.bind_all(&it.target),
            Expr::Call(call) => {
                if let Expr::Attribute(attribute) = &*call.func
                    && matches!(
                        attribute.attr.as_str(),
                        "append" | "add" | "extend" | "update" | "clear"
                    )
                {
                    match &*attribute.value {
                        Expr::Name(name) => self.bind(name.id.as_str(), None),
                        Expr::Attribute(of) => self.bind_attribute(&of.attr, None),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        walk_expr(self, expr);
    }
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::List(it) => it.elts.is_empty(),
        Expr::Dict(it) => it.items.is_empty(),
        expr => expr.is_literal_expr(),
    }
}

/// Returns whether an expression is the literal `False` or `0`.
pub(super) fn is_false(test: &Expr) -> bool {
    match test {
        Expr::BooleanLiteral(it) => !it.value,
        Expr::NumberLiteral(it) => matches!(&it.value, Number::Int(int) if *int == 0),
        _ => false,
    }
}

/// Returns whether `is_such` holds for one of the statements, or for a nested statement.
pub(super) fn any_statement(body: &[Stmt], is_such: &dyn Fn(&Stmt) -> bool) -> bool {
    struct Finder<'p> {
        is_such: &'p dyn Fn(&Stmt) -> bool,
        found: bool,
    }
    impl<'a> Visitor<'a> for Finder<'_> {
        fn visit_stmt(&mut self, stmt: &'a Stmt) {
            self.found = self.found || (self.is_such)(stmt);
            if !self.found {
                walk_stmt(self, stmt);
            }
        }
        fn visit_expr(&mut self, _: &'a Expr) {}
    }
    let mut finder = Finder { is_such, found: false };
    finder.visit_body(body);
    finder.found
}

/// Returns whether `is_such` holds for an expression in the statements.
fn any_expression(body: &[Stmt], work: &Work, is_such: &dyn Fn(&Expr) -> bool) -> bool {
    struct Finder<'p> {
        is_such: &'p dyn Fn(&Expr) -> bool,
        work: &'p Work,
        found: bool,
    }
    impl<'a> Visitor<'a> for Finder<'_> {
        fn visit_expr(&mut self, expr: &'a Expr) {
            self.work.spend(1);
            self.found = self.found || (self.is_such)(expr);
            if !self.found {
                walk_expr(self, expr);
            }
        }
    }
    let mut finder = Finder { is_such, work, found: false };
    finder.visit_body(body);
    finder.found
}

/// Returns the names of the functions that contain one of `conditions`, which are the conditions of checks. Includes
/// functions that use such a function, directly or through other functions.
fn functions_with<'a>(body: &'a [Stmt], conditions: &[TextRange], work: &Work) -> HashSet<&'a str> {
    struct Finder<'a, 'w> {
        functions: Vec<&'a StmtFunctionDef>,
        work: &'w Work,
    }
    impl<'a> Visitor<'a> for Finder<'a, '_> {
        fn visit_stmt(&mut self, stmt: &'a Stmt) {
            self.work.spend(1);
            if let Stmt::FunctionDef(it) = stmt {
                self.functions.push(it);
            }
            walk_stmt(self, stmt);
        }
        fn visit_expr(&mut self, _: &'a Expr) {}
    }
    let mut finder = Finder { functions: Vec::new(), work };
    finder.visit_body(body);
    let mut names: HashSet<&'a str> = HashSet::default();
    loop {
        let before = names.len();
        for it in &finder.functions {
            work.spend(1 + conditions.len() / 16);
            let calls = any_expression(&it.body, work, &|expr| match expr {
                Expr::Name(name) => names.contains(name.id.as_str()),
                Expr::Attribute(of) => names.contains(of.attr.as_str()),
                _ => false,
            });
            if calls || conditions.iter().any(|of| it.range().contains_range(*of)) {
                names.insert(it.name.as_str());
            }
        }
        if names.len() == before || work.is_spent() {
            return names;
        }
    }
}

/// The ways in which a function can fail: by its own statements, or by the functions that it calls.
#[derive(Debug, Default)]
pub(super) struct Failures<'a> {
    /// Whether the function contains a `raise`, an `assert` or a division. A division such as `1 / (a == b)` can be a
    /// check.
    pub(super) raises: bool,
    /// The functions that this function calls, as expressions of the source.
    pub(super) called: Vec<&'a Expr>,
}

impl<'a> Failures<'a> {
    pub(super) fn of_body(body: &'a [Stmt], work: &Work) -> Self {
        let mut finder = FailureFinder { found: Self::default(), work };
        finder.visit_body(body);
        finder.found
    }

    pub(super) fn of_expression(expr: &'a Expr, work: &Work) -> Self {
        let mut finder = FailureFinder { found: Self::default(), work };
        finder.visit_expr(expr);
        finder.found
    }
}

struct FailureFinder<'a, 'w> {
    found: Failures<'a>,
    work: &'w Work,
}

impl<'a> Visitor<'a> for FailureFinder<'a, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        self.work.spend(1);
        self.found.raises |= matches!(stmt, Stmt::Raise(_) | Stmt::Assert(_));
        walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        self.work.spend(1);
        match expr {
            Expr::Call(call) => self.found.called.push(&call.func),
            Expr::BinOp(it) => {
                self.found.raises |= matches!(it.op, Operator::Div | Operator::FloorDiv);
            }
            _ => {}
        }
        walk_expr(self, expr);
    }
}

/// Returns whether statements contain a call of a plain name, such as `f()`. Ignores calls of attributes, such as
/// `x.f()`.
pub(super) fn calls_names(body: &[Stmt], work: &Work) -> bool {
    any_expression(body, work, &|expr| match expr {
        Expr::Call(call) => matches!(&*call.func, Expr::Name(_)),
        _ => false,
    })
}

/// Returns whether a function with this body is a generator.
pub(super) fn yields(body: &[Stmt], work: &Work) -> bool {
    any_expression(body, work, &|expr| matches!(expr, Expr::Yield(_) | Expr::YieldFrom(_)))
}

/// Returns whether a function body seems to be pure: without `global`, `nonlocal`, `yield` and `await`, and without
/// calls of impure functions except `print`. `is_impure` returns whether the function with a given name is impure.
pub(super) fn is_pure(body: &[Stmt], work: &Work, is_impure: &dyn Fn(&str) -> bool) -> bool {
    let has_effects =
        any_statement(body, &|stmt| matches!(stmt, Stmt::Global(_) | Stmt::Nonlocal(_)));
    let is_impure_expression = |expr: &Expr| match expr {
        Expr::Yield(_) | Expr::YieldFrom(_) | Expr::Await(_) => true,
        Expr::Call(call) => match &*call.func {
            Expr::Name(name) => name.id.as_str() != "print" && is_impure(name.id.as_str()),
            Expr::Attribute(attribute) => {
                let is_random = matches!(&*attribute.value, Expr::Name(name)
                    if matches!(name.id.as_str(), "random" | "rng" | "secrets" | "uuid" | "time"));
                is_random
                    || matches!(
                        attribute.attr.as_str(),
                        "random" | "randint" | "today" | "now" | "send"
                    )
            }
            _ => false,
        },
        _ => false,
    };
    !has_effects && !any_expression(body, work, &is_impure_expression)
}

/// Returns the names of attributes that statements assign or delete. Ignores assignments directly in the body of
/// `__init__` or `__post_init__`.
pub(super) fn changed_attributes<'a>(body: &'a [Stmt], work: &Work) -> HashSet<&'a str> {
    struct Finder<'a, 'w> {
        names: HashSet<&'a str>,
        is_first_level: bool,
        work: &'w Work,
    }
    impl<'a> Visitor<'a> for Finder<'a, '_> {
        fn visit_stmt(&mut self, stmt: &'a Stmt) {
            self.work.spend(1);
            let is_first_level = std::mem::take(&mut self.is_first_level);
            if let Stmt::FunctionDef(it) = stmt
                && matches!(it.name.as_str(), "__init__" | "__post_init__")
            {
                for stmt in &it.body {
                    self.is_first_level = true;
                    self.visit_stmt(stmt);
                }
            } else if is_first_level && matches!(stmt, Stmt::Assign(_) | Stmt::AnnAssign(_)) {
                // The assignment only initializes the attribute.
            } else {
                walk_stmt(self, stmt);
            }
            self.is_first_level = false;
        }
        fn visit_expr(&mut self, expr: &'a Expr) {
            if let Expr::Attribute(it) = expr
                && !it.ctx.is_load()
            {
                self.names.insert(it.attr.as_str());
            }
            walk_expr(self, expr);
        }
    }
    let mut finder = Finder { names: HashSet::default(), is_first_level: false, work };
    finder.visit_body(body);
    finder.names
}

/// Returns all names that are bound or changed in the functions and loops around the statement at `inner`, and the
/// names of these functions.
pub(super) fn names_around<'a>(
    body: &'a [Stmt],
    inner: TextRange,
    work: &Work,
) -> HashSet<&'a str> {
    struct Finder<'a, 'w> {
        names: HashSet<&'a str>,
        inner: TextRange,
        work: &'w Work,
    }
    impl<'a> Visitor<'a> for Finder<'a, '_> {
        fn visit_stmt(&mut self, stmt: &'a Stmt) {
            self.work.spend(1);
            if !stmt.range().contains_range(self.inner) {
                return;
            }
            let around: &[Stmt] = match stmt {
                Stmt::FunctionDef(it) => {
                    self.names.insert(&it.name);
                    &it.body
                }
                Stmt::For(it) => &it.body,
                Stmt::While(it) => &it.body,
                _ => &[],
            };
            self.names.extend(Changes::of(&[around], self.work).names);
            walk_stmt(self, stmt);
        }
        fn visit_expr(&mut self, _: &'a Expr) {}
    }
    let mut finder = Finder { names: HashSet::default(), inner, work };
    finder.visit_body(body);
    finder.names
}
