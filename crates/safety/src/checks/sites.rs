//! Walks the statements of a script, and finds its checks.

#![expect(clippy::wildcard_enum_match_arm, reason = "few statements are checks or contain them")]

use std::fmt::{self, Write as _};

use foldhash::{HashMap, HashSet};
use ruff_python_ast::token::Tokens;
use ruff_python_ast::{
    ExceptHandler, Expr, ExprCall, ModModule, Number, Stmt, StmtFor, StmtIf, StmtMatch, StmtTry,
    StmtWhile, StmtWith, UnaryOp,
};
use ruff_python_parser::Parsed;
use ruff_source_file::LineIndex;
use ruff_text_size::{Ranged, TextRange, TextSize};

use super::imports::Imports;
use super::one_line::one_line;
use super::{Action, Check, CheckKind, Edit, FailsBy, flags, interpret, repeatable};
use crate::symbols::last_name;
use crate::work::Work;

/// The maximum number of checks that the search finds in one script.
const CHECKS_MAX: usize = 1_000;

/// Modules with assertion functions. A function of these modules with a name that starts with `assert` raises an
/// `AssertionError` if a condition does not hold.
const ASSERTING_MODULES: &[&str] = &[
    "numpy.testing",
    "pandas.testing",
    "polars.testing",
    "torch.testing",
    "xarray.testing",
    "sympy.testing.pytest",
];

/// Assertions of mock objects. They raise an `AssertionError` if the mock was not called as described.
const OF_MOCKS: &[&str] = &[
    "assert_any_await",
    "assert_any_call",
    "assert_awaited",
    "assert_awaited_once",
    "assert_awaited_once_with",
    "assert_awaited_with",
    "assert_called",
    "assert_called_once",
    "assert_called_once_with",
    "assert_called_with",
    "assert_has_awaits",
    "assert_has_calls",
    "assert_not_awaited",
    "assert_not_called",
];

/// Functions that always raise an exception.
const RAISING: &[&str] = &["pytest.fail"];

/// Functions and methods that fail if a call or a block does not raise a certain exception.
const REQUIRING: &[&str] =
    &["assertRaises", "assertRaisesRegex", "assert_raises", "assert_raises_regex", "raises"];

/// Functions that end the script, with the exit status as their argument.
const EXITS: &[&str] = &["sys.exit", "exit", "quit", "os._exit", "SystemExit"];

/// Returns the checks of a script in source order.
///
/// The search has its own limit of steps. A search that exceeds the limit does not refuse the script. Such a search
/// returns the checks found so far, without the reasons why the checks cannot fail.
pub(crate) fn find(parsed: &Parsed<ModModule>, source: &str) -> Vec<Check> {
    let module = parsed.syntax();
    let work = &Work::for_checks(source);
    let mut finder = Finder {
        source,
        tokens: parsed.tokens(),
        work,
        lines: None,
        imports: Imports::default(),
        raisers: HashMap::default(),
        assertions: HashSet::default(),
        path: Vec::new(),
        methods: HashSet::default(),
        functions: HashSet::default(),
        plain_classes: HashSet::default(),
        objects: HashMap::default(),
        requires_failure: false,
        checks: Vec::new(),
        conditions: Vec::new(),
    };
    finder.read_definitions(&module.body);
    finder.body('b', &module.body);
    let Finder { imports, conditions, mut checks, .. } = finder;
    if !checks.is_empty() {
        let elements = interpret::judge(&module.body, &imports, &conditions, &mut checks, work);
        let lines = LineIndex::from_source_text(source);
        for (check, element) in checks.iter_mut().zip(elements) {
            if let Some(element) = element
                && let Some(path) = path_to(&module.body, element, work)
            {
                let position = |at: TextSize| {
                    let line = lines.line_index(at);
                    let column = at - lines.line_start(line, source);
                    format!("{}-{}", line.get(), u32::from(column))
                };
                let path =
                    format!("{path}@{}-{}", position(element.start()), position(element.end()));
                check.counts_elements = true;
                check.edits.push(Edit { path, action: Action::CountElement });
            }
        }
        repeatable::infer_counts(&module.body, source, &imports, &mut checks, &lines, work);
    }
    checks
}

/// Returns the path to the innermost statement that contains an expression, in the form of [`Edit::path`].
fn path_to(body: &[Stmt], at: TextRange, work: &Work) -> Option<String> {
    let mut path = String::new();
    let mut bodies = vec![(Prefix::Field('b'), body)];
    loop {
        work.spend(1 + bodies.len() / 4);
        let found = bodies.iter().find_map(|(prefix, body)| {
            work.spend(1 + body.len() / 4);
            let place = body.iter().position(|stmt| stmt.range().contains_range(at))?;
            Some((*prefix, place, body.get(place)?))
        });
        let Some((prefix, place, stmt)) = found else { break };
        if work.is_spent() {
            return None;
        }
        let dot = if path.is_empty() { "" } else { "." };
        let length = path.len();
        // Writing to a string never fails.
        let _ = write!(path, "{dot}{prefix}{place}");
        work.spend((path.len() - length) / 16);
        bodies = bodies_of(stmt);
    }
    (!path.is_empty()).then_some(path)
}

/// The part of a statement's path that identifies the list of statements within the enclosing statement.
#[derive(Clone, Copy)]
enum Prefix {
    Field(char),
    /// A field of an `if` after this number of `elif` clauses. In `ast`, an `elif` is an `if` in the `orelse` of the
    /// previous `if`.
    AfterElif(usize, char),
    /// The body of a handler of a `try`, or of a case of a `match`, by its index.
    Numbered(char, usize),
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(field) => write!(f, "{field}"),
            Self::AfterElif(count, field) => write!(f, "{}{field}", "o0.".repeat(*count)),
            Self::Numbered(field, index) => write!(f, "{field}{index}.b"),
        }
    }
}

/// Returns the lists of statements that a statement contains.
fn bodies_of(stmt: &Stmt) -> Vec<(Prefix, &[Stmt])> {
    let named = |field: char, body| (Prefix::Field(field), body);
    match stmt {
        Stmt::FunctionDef(it) => vec![named('b', &*it.body)],
        Stmt::ClassDef(it) => vec![named('b', &*it.body)],
        Stmt::With(it) => vec![named('b', &*it.body)],
        Stmt::For(it) => vec![named('b', &*it.body), named('o', &*it.orelse)],
        Stmt::While(it) => vec![named('b', &*it.body), named('o', &*it.orelse)],
        Stmt::If(it) => {
            let mut bodies = vec![named('b', &*it.body)];
            bodies.extend(it.elif_else_clauses.iter().enumerate().map(|(place, clause)| {
                let prefix = match clause.test {
                    Some(_) => Prefix::AfterElif(place + 1, 'b'),
                    None => Prefix::AfterElif(place, 'o'),
                };
                (prefix, &*clause.body)
            }));
            bodies
        }
        Stmt::Try(it) => {
            let mut bodies =
                vec![named('b', &*it.body), named('o', &*it.orelse), named('f', &*it.finalbody)];
            for (place, ExceptHandler::ExceptHandler(handler)) in it.handlers.iter().enumerate() {
                bodies.push((Prefix::Numbered('h', place), &*handler.body));
            }
            bodies
        }
        Stmt::Match(it) => {
            let cases = it.cases.iter().enumerate();
            cases.map(|(place, case)| (Prefix::Numbered('c', place), &*case.body)).collect()
        }
        _ => Vec::new(),
    }
}

struct Finder<'a, 'w> {
    source: &'a str,
    tokens: &'a Tokens,
    work: &'w Work,
    lines: Option<LineIndex>,
    imports: Imports<'a>,
    /// The functions of the script that always raise or exit, and how they fail.
    raisers: HashMap<&'a str, FailsBy>,
    /// The classes of the script that derive from `AssertionError` or `SystemExit`.
    assertions: HashSet<&'a str>,
    /// The path from the module to the current statement. Each step is a field of a syntax tree node, and an index.
    path: Vec<(char, usize)>,
    /// The names of the methods that classes of the script define.
    methods: HashSet<&'a str>,
    /// The names of the functions and methods of the script.
    functions: HashSet<&'a str>,
    /// The classes of the script without base classes.
    plain_classes: HashSet<&'a str>,
    /// The names of variables and fields to which the script assigns the result of a call, and whether one of the
    /// results may be a test case.
    objects: HashMap<&'a str, bool>,
    /// The value of [`Check::requires_failure`] for the next check.
    requires_failure: bool,
    checks: Vec<Check>,
    /// The ranges of the conditions of `checks`.
    conditions: Vec<TextRange>,
}

impl<'a> Finder<'a, '_> {
    /// Collects the imports, the functions that always fail, the classes of assertion errors, and the names of methods.
    fn read_definitions(&mut self, body: &'a [Stmt]) {
        for stmt in body {
            self.work.spend(1);
            match stmt {
                Stmt::Import(import) => self.imports.add(import),
                Stmt::ImportFrom(import) => self.imports.add_from(import),
                Stmt::ClassDef(class) => {
                    if class.bases().iter().any(|base| self.is_check_failure(base)) {
                        self.assertions.insert(&class.name);
                    }
                    if class.bases().is_empty() {
                        self.plain_classes.insert(&class.name);
                    }
                    self.methods.extend(class.body.iter().filter_map(|stmt| match stmt {
                        Stmt::FunctionDef(it) => Some(it.name.as_str()),
                        Stmt::Assign(it) => Some(it.targets.first()?.as_name_expr()?.id.as_str()),
                        _ => None,
                    }));
                    self.read_definitions(&class.body);
                }
                Stmt::FunctionDef(function) => {
                    self.functions.insert(&function.name);
                    self.read_definitions(&function.body);
                    if let Some(failure) = self.failure_in(&function.body) {
                        self.raisers.insert(&function.name, failure);
                    }
                }
                Stmt::If(it) => {
                    self.read_definitions(&it.body);
                    for clause in &it.elif_else_clauses {
                        self.read_definitions(&clause.body);
                    }
                }
                Stmt::Try(it) => {
                    for part in [&it.body, &it.orelse, &it.finalbody] {
                        self.read_definitions(part);
                    }
                    for ExceptHandler::ExceptHandler(handler) in &it.handlers {
                        self.read_definitions(&handler.body);
                    }
                }
                Stmt::With(it) => self.read_definitions(&it.body),
                Stmt::Assign(it) => {
                    if let Expr::Call(call) = &*it.value {
                        let is_test_case = self.may_create_test_case(call);
                        for name in it.targets.iter().filter_map(last_name) {
                            *self.objects.entry(name).or_default() |= is_test_case;
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns whether a call may return a test case: an instance of a class of `unittest` or of a class of the script
    /// with base classes, or the result of a function of the script.
    fn may_create_test_case(&self, call: &ExprCall) -> bool {
        let Some(path) = self.imports.path(&call.func) else {
            // The call `type(…)(…)` creates an object of an unknown class.
            let class = call.func.as_call_expr().and_then(|class| self.imports.path(&class.func));
            return class.is_none_or(|class| class != "type");
        };
        match path.rsplit_once('.') {
            Some((_, name)) => is_test_case(&path) || self.functions.contains(name),
            None => !self.plain_classes.contains(path.as_str()) && path != "type",
        }
    }

    fn body(&mut self, field: char, body: &'a [Stmt]) {
        for (index, stmt) in body.iter().enumerate() {
            if self.work.is_spent() || self.checks.len() >= CHECKS_MAX {
                return;
            }
            self.work.spend(1);
            self.within(field, index, |finder| finder.statement(stmt));
        }
    }

    fn within(&mut self, field: char, index: usize, work: impl FnOnce(&mut Self)) {
        self.path.push((field, index));
        work(self);
        self.path.pop();
    }

    fn statement(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Assert(assert) => {
                let is_display = matches!(&*assert.test, Expr::Tuple(it) if !it.elts.is_empty());
                // Python warns about an assertion of a tuple. An edit of the test would suppress the warning.
                let (kind, action) = if is_display {
                    (CheckKind::Tuple, Action::CountBefore)
                } else {
                    (CheckKind::Assert, Action::CountTest)
                };
                self.add(
                    kind,
                    stmt,
                    assert.test.range(),
                    FailsBy::AssertionError,
                    vec![self.edit(action)],
                );
            }
            Stmt::If(it) => self.conditional(it),
            Stmt::Expr(it) => {
                if let Expr::Call(call) = &*it.value {
                    self.call(stmt, call);
                }
            }
            Stmt::Raise(it) => {
                if let Some(Expr::Call(call)) = it.exc.as_deref() {
                    self.computed_exit(stmt, call);
                }
            }
            Stmt::With(it) => self.with(stmt, it),
            Stmt::For(StmtFor { body, orelse, .. })
            | Stmt::While(StmtWhile { body, orelse, .. }) => {
                self.body('b', body);
                self.skipped(orelse, 'o', 0);
                self.body('o', orelse);
            }
            Stmt::Try(it) => self.attempt(it),
            Stmt::Match(it) => self.match_cases(it),
            Stmt::FunctionDef(it) => self.body('b', &it.body),
            Stmt::ClassDef(it) => self.body('b', &it.body),
            _ => {}
        }
    }

    /// Finds the checks of an `if`. Each branch that raises or exits is a check of its condition. An `else` that raises
    /// or exits is a check of the last condition.
    fn conditional(&mut self, it: &'a StmtIf) {
        let depth = self.path.len();
        let mut tests = vec![(&*it.test, &it.body)];
        let mut last = None;
        for clause in &it.elif_else_clauses {
            match &clause.test {
                Some(test) => tests.push((test, &clause.body)),
                None => last = Some(&clause.body),
            }
        }
        let fails: Vec<_> = tests.iter().map(|(_, body)| self.failure_in(body)).collect();
        let otherwise = last.and_then(|body| self.failure_in(body));
        let count = tests.len();
        for (number, ((test, body), failure)) in tests.into_iter().zip(fails).enumerate() {
            let is_last = number + 1 == count;
            match (failure, otherwise.as_ref().filter(|_| is_last)) {
                (Some(failure), None) => self.test(CheckKind::FailsIf, test, &failure),
                (None, Some(failure)) => self.test(CheckKind::FailsUnless, test, failure),
                (Some(_), Some(_)) | (None, None) => {}
            }
            self.body('b', body);
            if let Some(body) = last.filter(|_| is_last) {
                self.body('o', body);
            }
            // In `ast`, an `elif` is an `if` in the `orelse` of the previous `if`.
            self.path.push(('o', 0));
        }
        self.path.truncate(depth);
    }

    fn test(&mut self, kind: CheckKind, test: &Expr, failure: &FailsBy) {
        // `if __name__ == "__main__": sys.exit(main())` is not a check of its condition.
        if let Expr::Compare(compare) = test
            && compare.left.as_name_expr().is_some_and(|name| name.id.as_str() == "__name__")
        {
            return;
        }
        let action = match kind {
            CheckKind::FailsIf => Action::CountFailingTest,
            _ => Action::CountTest,
        };
        let edits = vec![self.edit(action)];
        self.add(kind, test, test.range(), failure.clone(), edits);
    }

    /// Finds a raise or an exit in `body` that the enclosing statement skips if the check holds. The path of the
    /// enclosing statement is the current path without its last `up` steps.
    fn skipped(&mut self, body: &'a [Stmt], field: char, up: usize) {
        let Some((index, failure)) = self.first_failure(body) else { return };
        let Some(stmt) = body.get(index) else { return };
        let around = self.path_string(self.path.len() - up);
        self.within(field, index, |finder| {
            let edits = vec![
                finder.edit(Action::CountBefore),
                Edit { path: around, action: Action::CountAfter },
            ];
            finder.add(CheckKind::Skipped, stmt, stmt.range(), failure, edits);
        });
    }

    /// Finds the checks of a `try`. A raise in its body or `else` is a check that an earlier statement raises an
    /// exception, because the raise is then skipped. A raise in a handler only reports an exception, so it is not a
    /// check.
    fn attempt(&mut self, it: &'a StmtTry) {
        let handlers = it.handlers.iter().map(|ExceptHandler::ExceptHandler(handler)| handler);
        // Leave out handlers that fail the script.
        let mut passing =
            handlers.filter(|handler| self.failure_in(&handler.body).is_none()).peekable();
        let requires_failure = passing.peek().is_some()
            && passing.all(|handler| {
                handler.type_.as_deref().is_some_and(|class| self.is_only_assertions(class))
            });
        // If a handler of the same `try` catches the raised exception, the raise is control flow and not a check.
        let is_caught = self.failure_in(&it.body).is_some_and(|failure| match failure {
            FailsBy::AssertionError | FailsBy::SystemExit | FailsBy::EndOfProcess => false,
            FailsBy::OtherException(class) => self.catches(it, class.as_deref()),
        });
        if !it.handlers.is_empty() && !is_caught {
            self.requires_failure = requires_failure;
            self.skipped(&it.body, 'b', 0);
            self.requires_failure = false;
        }
        self.body('b', &it.body);
        for (index, ExceptHandler::ExceptHandler(handler)) in it.handlers.iter().enumerate() {
            self.within('h', index, |finder| finder.body('b', &handler.body));
        }
        self.requires_failure = requires_failure;
        self.skipped(&it.orelse, 'o', 0);
        self.requires_failure = false;
        self.body('o', &it.orelse);
        self.body('f', &it.finalbody);
    }

    /// Returns whether a handler for `class`, which may be a tuple of classes, catches no other exceptions than
    /// `AssertionError` and `SystemExit`.
    fn is_only_assertions(&self, class: &Expr) -> bool {
        match class {
            Expr::Tuple(it) => it.elts.iter().all(|class| self.is_only_assertions(class)),
            class => self.is_check_failure(class),
        }
    }

    /// Returns whether a handler of a `try` catches an exception of the class `raised`.
    fn catches(&self, it: &StmtTry, raised: Option<&str>) -> bool {
        it.handlers.iter().any(|ExceptHandler::ExceptHandler(handler)| {
            handler.type_.as_deref().is_none_or(|class| self.includes(class, raised))
        })
    }

    /// Returns whether a handler for `class` catches exceptions of the class `raised`. `class` may be a tuple of
    /// classes. Recognizes only `raised` itself, `Exception` and `BaseException`.
    fn includes(&self, class: &Expr, raised: Option<&str>) -> bool {
        match class {
            Expr::Tuple(it) => it.elts.iter().any(|class| self.includes(class, raised)),
            class => self.imports.path(class).is_some_and(|path| {
                matches!(&*path, "Exception" | "BaseException") || Some(&*path) == raised
            }),
        }
    }

    fn match_cases(&mut self, it: &'a StmtMatch) {
        for (index, case) in it.cases.iter().enumerate() {
            self.within('c', index, |finder| {
                finder.skipped(&case.body, 'b', 1);
                finder.body('b', &case.body);
            });
        }
    }

    fn call(&mut self, stmt: &'a Stmt, call: &'a ExprCall) {
        if self.is_assertion(call) {
            self.requires_failure = self.requires_check_failure(call);
            let edits = vec![self.edit(Action::CountBefore), self.edit(Action::CountAfter)];
            self.add(CheckKind::Call, stmt, call.range(), FailsBy::AssertionError, edits);
        } else {
            self.computed_exit(stmt, call);
        }
    }

    /// Finds an exit with a status that is not a constant.
    fn computed_exit(&mut self, stmt: &'a Stmt, call: &'a ExprCall) {
        if let Some(status) = self.status(call)
            && constant_status(status).is_none()
        {
            let edits = vec![self.edit(Action::CountStatus)];
            self.add(CheckKind::Exit, stmt, status.range(), self.exits_by(call), edits);
        }
    }

    /// Finds the check of a `with` statement that requires an exception, for example `with pytest.raises(ValueError)`.
    fn with(&mut self, stmt: &'a Stmt, it: &'a StmtWith) {
        let required = it.items.iter().find_map(|item| match &item.context_expr {
            Expr::Call(call) if self.is_assertion(call) => Some(call),
            _ => None,
        });
        if let Some(call) = required {
            self.requires_failure = self.requires_check_failure(call);
            let edits = vec![self.edit(Action::CountBefore), self.edit(Action::CountAfter)];
            self.add(CheckKind::Call, stmt, call.range(), FailsBy::AssertionError, edits);
        }
        self.body('b', &it.body);
    }

    /// Returns whether an assertion requires that another check fails, such as `assertRaises(AssertionError, f)`.
    fn requires_check_failure(&self, call: &ExprCall) -> bool {
        let required = call.arguments.find_argument_value("expected_exception", 0);
        last_name(&call.func).is_some_and(|name| REQUIRING.contains(&name))
            && required.is_some_and(|class| match class {
                Expr::Tuple(it) => it.elts.iter().any(|class| self.is_check_failure(class)),
                Expr::Attribute(it) if it.attr.as_str() == "failureException" => true,
                class => self.is_check_failure(class),
            })
    }

    /// Returns whether a call raises an `AssertionError` if a condition does not hold.
    fn is_assertion(&self, call: &ExprCall) -> bool {
        if let Some(method) = self.method_of_test_case(call) {
            return method.starts_with("assert");
        }
        if let Expr::Name(name) = &*call.func
            && name.id.starts_with("assert")
            && self.imports.of(&name.id).is_none()
        {
            return !self.functions.contains(name.id.as_str())
                && ASSERTING_MODULES.iter().any(|module| self.imports.has_star_of(module));
        }
        self.imports.path(&call.func).is_some_and(|path| {
            path == "pytest.raises"
                || path.rsplit_once('.').is_some_and(|(module, name)| {
                    name.starts_with("assert") && ASSERTING_MODULES.contains(&module)
                })
        })
    }

    /// Returns the name of the called method if the script imports `unittest`, and the method may belong to a test case
    /// or to a mock object.
    fn method_of_test_case<'c>(&self, call: &'c ExprCall) -> Option<&'c str> {
        let attribute = call.func.as_attribute_expr()?;
        let name = attribute.attr.as_str();
        let is_of_base = || {
            let object = attribute.value.as_call_expr();
            object.is_some_and(|it| self.imports.path(&it.func).is_some_and(|it| it == "super"))
        };
        let is_inherited = || {
            !self.methods.contains(name)
                && (OF_MOCKS.contains(&name) || self.may_be_test_case(&attribute.value))
        };
        (self.imports.has_module("unittest") && (is_of_base() || is_inherited())).then_some(name)
    }

    /// Returns whether an object may be a test case: `self` in a test class or in a class that test classes inherit
    /// from, another variable or a field, or a new instance.
    fn may_be_test_case(&self, object: &Expr) -> bool {
        match object {
            Expr::Name(name) => {
                self.imports.of(&name.id).is_none()
                    && self.objects.get(name.id.as_str()) != Some(&false)
            }
            Expr::Attribute(it) => {
                self.may_be_test_case(&it.value)
                    && self.objects.get(it.attr.as_str()) != Some(&false)
            }
            Expr::Call(call) => {
                self.imports.path(&call.func).is_some_and(|path| is_test_case(&path))
            }
            _ => false,
        }
    }

    /// Returns how a branch fails; `None` if the branch may succeed.
    fn failure_in(&self, body: &[Stmt]) -> Option<FailsBy> {
        Some(self.first_failure(body)?.1)
    }

    /// Returns the index of the first statement that always fails, and how the statement fails.
    fn first_failure(&self, body: &[Stmt]) -> Option<(usize, FailsBy)> {
        body.iter().enumerate().find_map(|(index, stmt)| Some((index, self.failure_of(stmt)?)))
    }

    /// Returns how a statement fails; `None` if the statement may succeed.
    fn failure_of(&self, stmt: &Stmt) -> Option<FailsBy> {
        match stmt {
            Stmt::Assert(it) if flags::is_false(&it.test) => Some(FailsBy::AssertionError),
            Stmt::Raise(raise) => match raise.exc.as_deref() {
                Some(Expr::Call(call)) if self.status(call).is_some() => self.failure_of_call(call),
                Some(Expr::Call(call)) => Some(self.failure_by(&call.func)),
                Some(class) => {
                    // `raise SystemExit` ends the script successfully.
                    let is_success = self.imports.path(class).is_some_and(|it| it == "SystemExit");
                    (!is_success).then(|| self.failure_by(class))
                }
                // A `raise` without an exception raises the caught exception again. Assume that the caught exception is
                // an `AssertionError`.
                None => Some(FailsBy::AssertionError),
            },
            Stmt::Expr(it) => match &*it.value {
                Expr::Call(call) => self.failure_of_call(call),
                _ => None,
            },
            _ => None,
        }
    }

    fn failure_by(&self, class: &Expr) -> FailsBy {
        match self.imports.path(class) {
            Some(path) if path == "SystemExit" => FailsBy::SystemExit,
            _ if self.is_check_failure(class) => FailsBy::AssertionError,
            path => FailsBy::OtherException(path),
        }
    }

    fn failure_of_call(&self, call: &ExprCall) -> Option<FailsBy> {
        if let Some(status) = self.status(call) {
            let is_success = constant_status(status) == Some(true);
            return (!is_success).then(|| self.exits_by(call));
        }
        if self.method_of_test_case(call) == Some("fail") {
            return Some(FailsBy::AssertionError);
        }
        let path = self.imports.path(&call.func)?;
        if RAISING.contains(&&*path) {
            return Some(FailsBy::AssertionError);
        }
        self.raisers.get(path.as_str()).cloned()
    }

    /// Returns whether a class is `AssertionError` or `SystemExit`, or a class of the script that derives from one of
    /// them.
    fn is_check_failure(&self, class: &Expr) -> bool {
        self.imports.path(class).is_some_and(|path| {
            path == "AssertionError"
                || path == "SystemExit"
                || self.assertions.contains(path.as_str())
        })
    }

    /// Returns how a call with an exit status ends the script.
    fn exits_by(&self, call: &ExprCall) -> FailsBy {
        match self.imports.path(&call.func) {
            Some(path) if path == "os._exit" => FailsBy::EndOfProcess,
            _ => FailsBy::SystemExit,
        }
    }

    /// Returns the exit status of a call that ends the script; `None` for other calls, and for calls without a status.
    fn status<'c>(&self, call: &'c ExprCall) -> Option<&'c Expr> {
        let path = self.imports.path(&call.func)?;
        let status = call.arguments.args.first()?;
        (EXITS.contains(&&*path) && !status.is_starred_expr()).then_some(status)
    }

    fn add(
        &mut self,
        kind: CheckKind,
        stmt: &impl Ranged,
        condition: TextRange,
        fails_by: FailsBy,
        edits: Vec<Edit>,
    ) {
        let requires_failure = std::mem::take(&mut self.requires_failure);
        let lines = self.lines.get_or_insert_with(|| LineIndex::from_source_text(self.source));
        let line = lines.line_index(stmt.start()).get();
        let text = one_line(self.source, self.tokens, condition);
        self.work.spend(1 + text.len() / 16);
        self.conditions.push(condition);
        self.checks.push(Check {
            kind,
            line,
            text,
            fails_by,
            requires_failure,
            vacuous: None,
            is_general: false,
            counts_elements: false,
            edits,
        });
    }

    fn edit(&self, action: Action) -> Edit {
        Edit { path: self.path_string(self.path.len()), action }
    }

    fn path_string(&self, steps: usize) -> String {
        self.work.spend(steps / 4);
        let mut path = String::with_capacity(4 * steps);
        for (number, (field, index)) in self.path.iter().take(steps).enumerate() {
            let dot = if number == 0 { "" } else { "." };
            // Writing to a string never fails.
            let _ = write!(path, "{dot}{field}{index}");
        }
        path
    }
}

/// Returns whether this is the path of a class of test cases in `unittest`.
fn is_test_case(path: &str) -> bool {
    path.starts_with("unittest.") && path.ends_with("TestCase")
}

/// Returns whether a constant status means success; `None` if the status is computed.
fn constant_status(status: &Expr) -> Option<bool> {
    match status {
        Expr::NoneLiteral(_) => Some(true),
        Expr::BooleanLiteral(it) => Some(!it.value),
        Expr::NumberLiteral(it) => Some(matches!(&it.value, Number::Int(it) if *it == 0)),
        Expr::StringLiteral(_) => Some(false),
        Expr::UnaryOp(it) if it.op == UnaryOp::USub => constant_status(&it.operand),
        _ => None,
    }
}
