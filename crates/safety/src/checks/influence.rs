//! Finds the names on which the checks of a script depend. Equal names in different scopes are treated as the same
//! variable.

#![expect(clippy::wildcard_enum_match_arm, reason = "few statements bind names")]

use foldhash::{HashMap, HashSet};
use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{ExceptHandler, Expr, Stmt};
use ruff_text_size::{Ranged as _, TextRange};

use crate::work::Work;

/// The dependencies between the names of a script, and the names that influence checks.
#[derive(Debug, Default)]
pub(super) struct Influence<'a> {
    /// For each name, the names that its value depends on.
    sources: HashMap<&'a str, Vec<&'a str>>,
    /// The names that influence the condition of a check that can end the script.
    reaching: HashSet<&'a str>,
}

impl<'a> Influence<'a> {
    /// Reads all statements. `conditions` contains the conditions of the checks that can end the script, because the
    /// script does not catch their failures. `ends` returns whether a statement always ends the script unsuccessfully.
    pub(super) fn of(
        body: &'a [Stmt],
        conditions: HashSet<TextRange>,
        ends: &dyn Fn(&Stmt) -> bool,
        work: &Work,
    ) -> Self {
        let mut reader = Reader {
            influence: Self::default(),
            conditions,
            ends,
            function: None,
            tests: Vec::new(),
            todo: Vec::new(),
            work,
        };
        reader.visit_body(body);
        let Reader { mut influence, mut todo, .. } = reader;
        while let Some(name) = todo.pop() {
            work.spend(1);
            if influence.reaching.insert(name)
                && let Some(sources) = influence.sources.get(name)
            {
                todo.extend(sources);
            }
        }
        influence
    }

    /// Returns whether the condition of a check that can end the script depends on one of these names.
    pub(super) fn reaches(&self, names: &HashSet<&'a str>) -> bool {
        names.iter().any(|name| self.reaching.contains(name))
    }
}

struct Reader<'a, 'w> {
    influence: Influence<'a>,
    conditions: HashSet<TextRange>,
    ends: &'w dyn Fn(&Stmt) -> bool,
    /// The name of the function that contains the current statement.
    function: Option<&'a str>,
    /// The names that decide whether the current statement is executed: the names in the conditions of `if` and
    /// `while`, in the iterables of `for`, and in the subjects of `match` around the statement.
    tests: Vec<Vec<&'a str>>,
    /// The names that occur in the conditions of checks. After all statements are read, these names and the names on
    /// which they depend are added to `Influence::reaching`.
    todo: Vec<&'a str>,
    work: &'w Work,
}

impl<'a> Reader<'a, '_> {
    /// Records that the names in `target` depend on the names in `value`, and on the names that decide whether the
    /// current statement is executed.
    fn flows(&mut self, target: &'a Expr, value: Option<&'a Expr>) {
        let mut sources: Vec<&'a str> = self.tests.iter().flatten().copied().collect();
        if let Some(value) = value {
            sources.extend(names(value));
        }
        self.work.spend(1 + sources.len());
        for name in names(target) {
            self.influence.sources.entry(name).or_default().extend(&sources);
        }
    }

    /// Records that the object of a name depends on the function to which the object is passed.
    fn depends(&mut self, object: &'a Expr, function: &'a str) {
        if let Expr::Name(name) = object {
            self.work.spend(1);
            self.influence.sources.entry(name.id.as_str()).or_default().push(function);
        }
    }

    fn within(&mut self, test: Vec<&'a str>, work: impl FnOnce(&mut Self)) {
        self.tests.push(test);
        work(self);
        self.tests.pop();
    }
}

impl<'a> Visitor<'a> for Reader<'a, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if self.work.is_spent() {
            return;
        }
        self.work.spend(1);
        if (self.ends)(stmt) {
            self.todo.extend(self.tests.iter().flatten());
        }
        match stmt {
            Stmt::Assign(it) => {
                for target in &it.targets {
                    self.flows(target, Some(&it.value));
                }
            }
            Stmt::AugAssign(it) => self.flows(&it.target, Some(&it.value)),
            Stmt::AnnAssign(it) => self.flows(&it.target, it.value.as_deref()),
            Stmt::For(it) => {
                self.flows(&it.target, Some(&it.iter));
                self.visit_expr(&it.iter);
                self.within(names(&it.iter), |reader| reader.visit_body(&it.body));
                self.visit_body(&it.orelse);
                return;
            }
            Stmt::While(it) => {
                self.visit_expr(&it.test);
                self.within(names(&it.test), |reader| reader.visit_body(&it.body));
                self.visit_body(&it.orelse);
                return;
            }
            Stmt::Match(it) => {
                self.visit_expr(&it.subject);
                self.within(names(&it.subject), |reader| {
                    it.cases.iter().for_each(|case| reader.visit_match_case(case));
                });
                return;
            }
            Stmt::Return(it) => {
                if let (Some(function), Some(value)) = (self.function, &it.value) {
                    let mut sources: Vec<&'a str> = self.tests.iter().flatten().copied().collect();
                    sources.extend(names(value));
                    self.influence.sources.entry(function).or_default().extend(sources);
                }
            }
            Stmt::FunctionDef(it) => {
                // An argument depends on the function (see `depends`). The function may change the argument through a
                // parameter, so the function depends on its parameters.
                let parameters = it.parameters.iter().map(|of| of.name().as_str());
                self.influence.sources.entry(&it.name).or_default().extend(parameters);
                let outer = self.function.replace(&it.name);
                walk_stmt(self, stmt);
                self.function = outer;
                return;
            }
            Stmt::If(it) => {
                self.visit_expr(&it.test);
                let test = names(&it.test);
                self.within(test, |reader| {
                    reader.visit_body(&it.body);
                    for clause in &it.elif_else_clauses {
                        if let Some(test) = &clause.test {
                            reader.visit_expr(test);
                        }
                        reader.visit_body(&clause.body);
                    }
                });
                return;
            }
            _ => {}
        }
        walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if self.conditions.contains(&expr.range()) {
            self.todo.extend(names(expr));
        }
        match expr {
            Expr::Named(it) => self.flows(&it.target, Some(&it.value)),
            // A method may store its arguments in the object on which it is called.
            Expr::Call(call) => {
                let function = match &*call.func {
                    Expr::Attribute(attribute) => {
                        for argument in &call.arguments.args {
                            self.flows(&attribute.value, Some(argument));
                        }
                        if call.arguments.args.is_empty() {
                            self.flows(&attribute.value, None);
                        }
                        self.depends(&attribute.value, &attribute.attr);
                        Some(attribute.attr.as_str())
                    }
                    Expr::Name(name) => Some(name.id.as_str()),
                    _ => None,
                };
                if let Some(function) = function {
                    for argument in &call.arguments.args {
                        self.depends(argument, function);
                    }
                }
            }
            _ => {}
        }
        walk_expr(self, expr);
    }
}

pub(super) fn names(expr: &Expr) -> Vec<&str> {
    struct Names<'a>(Vec<&'a str>);
    impl<'a> Visitor<'a> for Names<'a> {
        fn visit_expr(&mut self, expr: &'a Expr) {
            if let Expr::Name(name) = expr {
                self.0.push(name.id.as_str());
            }
            walk_expr(self, expr);
        }
    }
    let mut names = Names(Vec::new());
    names.visit_expr(expr);
    names.0
}

/// The names that statements bind or change, and whether the statements leave a function or a loop.
#[derive(Debug, Default)]
pub(super) struct Changes<'a> {
    pub(super) names: HashSet<&'a str>,
    /// The names that statements bind. If statements only change the object of a name, as in `x.append(1)`, the name is
    /// not included.
    pub(super) bound: HashSet<&'a str>,
    /// The names in `global` and `nonlocal` statements.
    pub(super) globals: HashSet<&'a str>,
    /// Whether a statement returns from the function.
    pub(super) returns: bool,
    /// Whether a statement is a `continue` or a `break`.
    pub(super) leaves_loop: bool,
}

impl<'a> Changes<'a> {
    pub(super) fn of(bodies: &[&'a [Stmt]], work: &Work) -> Self {
        let mut changes = ChangeReader { changes: Self::default(), work };
        for body in bodies {
            changes.visit_body(body);
        }
        changes.changes
    }
}

struct ChangeReader<'a, 'w> {
    changes: Changes<'a>,
    work: &'w Work,
}

impl<'a> ChangeReader<'a, '_> {
    /// Adds the names that an assignment to `target` binds or changes.
    fn bind(&mut self, target: &'a Expr) {
        match target {
            Expr::Name(name) => {
                self.changes.names.insert(name.id.as_str());
                if name.ctx.is_store() {
                    self.changes.bound.insert(name.id.as_str());
                }
            }
            Expr::Tuple(it) => it.elts.iter().for_each(|part| self.bind(part)),
            Expr::List(it) => it.elts.iter().for_each(|part| self.bind(part)),
            Expr::Starred(it) => self.bind(&it.value),
            Expr::Attribute(it) => self.bind(&it.value),
            Expr::Subscript(it) => self.bind(&it.value),
            Expr::Call(it) => self.bind(&it.func),
            _ => {}
        }
    }
}

impl<'a> Visitor<'a> for ChangeReader<'a, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        self.work.spend(1);
        match stmt {
            Stmt::Assign(it) => it.targets.iter().for_each(|target| self.bind(target)),
            Stmt::AugAssign(it) => self.bind(&it.target),
            Stmt::AnnAssign(it) => self.bind(&it.target),
            Stmt::For(it) => self.bind(&it.target),
            Stmt::With(it) => {
                for target in it.items.iter().filter_map(|item| item.optional_vars.as_deref()) {
                    self.bind(target);
                }
            }
            Stmt::Delete(it) => it.targets.iter().for_each(|target| self.bind(target)),
            Stmt::Return(_) => self.changes.returns = true,
            Stmt::Continue(_) | Stmt::Break(_) => self.changes.leaves_loop = true,
            Stmt::FunctionDef(it) => {
                self.changes.names.insert(&it.name);
                return;
            }
            Stmt::ClassDef(it) => {
                self.changes.names.insert(&it.name);
                return;
            }
            Stmt::Global(it) => {
                let names = || it.names.iter().map(ruff_python_ast::Identifier::as_str);
                self.changes.names.extend(names());
                self.changes.globals.extend(names());
            }
            Stmt::Nonlocal(it) => {
                let names = || it.names.iter().map(ruff_python_ast::Identifier::as_str);
                self.changes.names.extend(names());
                self.changes.globals.extend(names());
            }
            Stmt::Try(it) => {
                for ExceptHandler::ExceptHandler(handler) in &it.handlers {
                    self.changes
                        .names
                        .extend(handler.name.as_ref().map(ruff_python_ast::Identifier::as_str));
                }
            }
            _ => {}
        }
        walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Named(it) => self.bind(&it.target),
            Expr::Call(call) => {
                if let Expr::Attribute(attribute) = &*call.func {
                    self.bind(&attribute.value);
                }
            }
            _ => {}
        }
        walk_expr(self, expr);
    }
}
