//! Finds the statements that catch the failure of a check, so that the script ends successfully.

#![expect(clippy::wildcard_enum_match_arm, reason = "other values are unknown")]

use foldhash::HashSet;
use ruff_python_ast::visitor::{Visitor, walk_stmt};
use ruff_python_ast::{ExceptHandler, Expr, Stmt, StmtTry, StmtWith, WithItem};
use ruff_text_size::{Ranged as _, TextRange};

use super::super::flags;
use super::super::imports::Imports;
use super::super::influence::{Changes, Influence};
use super::super::vacuity::Vacuity;
use super::super::values::{Id, Node};
use super::{Callable, Catch, Closure, Flow, Interpreter};
use crate::work::Work;

impl<'a> Interpreter<'a, '_> {
    pub(super) fn with(&mut self, it: &'a StmtWith) -> Flow {
        let catches = self.catches.len();
        for item in &it.items {
            if let Expr::Call(call) = &item.context_expr
                && self.is_check(call.range())
            {
                let truth = match self.replacement(&call.func) {
                    Some(function) if !self.may_fail(function) => Some((true, Vacuity::Replaced)),
                    _ => None,
                };
                self.check(call.range(), truth);
            }
            let value = self.expression(&item.context_expr);
            if let Some(target) = &item.optional_vars {
                self.bind_target(target, value);
            }
            if let Some(catch) = self.suppression(value)
                && self.is_forgotten(&[&it.body], &[])
            {
                self.catches.push(catch);
            }
        }
        let flow = self.statements(&it.body);
        let has_caught = self.catches.len() > catches;
        self.catches.truncate(catches);
        if has_caught { Flow::On } else { flow }
    }

    /// Returns the exceptions that a context manager suppresses.
    pub(super) fn suppression(&self, manager: Id) -> Option<Catch> {
        if let Node::Instance(class, _) = self.values.node(manager) {
            let suppresses = self.facts.get(*class).is_some_and(|facts| facts.suppresses);
            return suppresses.then(Catch::everything);
        }
        let (path, classes) = self.values.call(manager)?;
        if *path != *"contextlib.suppress" {
            return None;
        }
        Some(catch_of(
            classes
                .iter()
                .map(|class| self.values.path_of(*class).map(std::borrow::Cow::into_owned)),
        ))
    }

    pub(super) fn attempt(&mut self, it: &'a StmtTry) -> Flow {
        let before = self.names_now();
        let replaced = replaces_exit(&it.finalbody, self.imports);
        let catch = if replaced { Some(Catch::everything()) } else { self.quiet_catch(it) };
        let catches = self.catches.len();
        self.catches.extend(catch);
        let flow = self.statements(&it.body);
        self.catches.truncate(catches);
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
        self.join(&after);
        self.statements(&it.finalbody)
    }

    /// Returns the exceptions that the handlers of a `try` swallow. An exception is swallowed if the script can still
    /// end successfully, and no check that can end the script depends on the exception.
    pub(super) fn quiet_catch(&mut self, it: &'a StmtTry) -> Option<Catch> {
        let mut all = Catch::default();
        // The exceptions for which an earlier handler ends the script unsuccessfully.
        let mut ending = Catch::default();
        let mut quiet: Vec<&'a [Stmt]> = Vec::new();
        for ExceptHandler::ExceptHandler(handler) in &it.handlers {
            let classes: Vec<Option<String>> = match handler.type_.as_deref() {
                None => vec![Some("BaseException".to_owned())],
                Some(Expr::Tuple(it)) => it.elts.iter().map(|of| self.imports.path(of)).collect(),
                Some(class) => vec![self.imports.path(class)],
            };
            let catch = catch_of(classes.into_iter());
            if ends_unsuccessfully(&handler.body, self.imports) {
                ending.add(catch);
            } else {
                all.add(Catch {
                    assertions: catch.assertions && !ending.assertions,
                    exits: catch.exits && !ending.exits,
                    exceptions: catch.exceptions && !ending.exceptions,
                    ..catch
                });
                quiet.push(&handler.body);
            }
        }
        let is_any = all != Catch::default();
        all.ending = ending.classes;
        (is_any && self.is_forgotten(&[&it.body, &it.orelse], &quiet)).then_some(all)
    }

    /// Returns whether a failure in `bodies` influences no check that can end the script. `handlers` are the bodies of
    /// the handlers that catch the failure.
    pub(super) fn is_forgotten(&mut self, bodies: &[&'a [Stmt]], handlers: &[&'a [Stmt]]) -> bool {
        let all: Vec<&'a [Stmt]> = bodies.iter().chain(handlers).copied().collect();
        let mut changes = Changes::of(&all, self.work);
        if changes.returns || changes.leaves_loop {
            changes.names.extend(self.names_around(all.first().copied().unwrap_or_default()));
        }
        let (body, conditions, work) = (self.body, self.conditions, self.work);
        let imports = self.imports;
        let influence = self.influence.get_or_insert_with(|| {
            let caught = caught_ranges(body, imports, work);
            let is_caught = |at: TextRange| caught.iter().any(|of| of.contains_range(at));
            let outside: HashSet<TextRange> =
                conditions.iter().copied().filter(|at| !is_caught(*at)).collect();
            let ends = |stmt: &Stmt| fails(stmt, imports) && !is_caught(stmt.range());
            Influence::of(body, outside, &ends, work)
        });
        !influence.reaches(&changes.names)
    }

    /// Calls [`flags::names_around`] for the first statement of a body.
    pub(super) fn names_around(&self, body: &'a [Stmt]) -> HashSet<&'a str> {
        let Some(first) = body.first() else { return HashSet::default() };
        flags::names_around(self.body, first.range(), self.work)
    }

    /// If the script sets `sys.excepthook` to a function that exits with the status 0, records that uncaught exceptions
    /// end the script successfully.
    pub(super) fn note_excepthook(&mut self, targets: &'a [Expr], value: Id) {
        let is_hook = targets
            .iter()
            .any(|target| self.imports.path(target).is_some_and(|path| path == "sys.excepthook"));
        if let Node::Function(place) = self.values.node(value)
            && is_hook
            && let Some(Closure { function: Callable::Function(function), .. }) =
                self.closures.get(*place)
            && exits_successfully(&function.body, self.imports)
        {
            self.catches.push(Catch { exits: false, ..Catch::everything() });
        }
    }
}

/// Returns the exceptions that handlers for `classes` catch. An unknown class is `None`.
fn catch_of(classes: impl Iterator<Item = Option<String>>) -> Catch {
    let mut catch = Catch::default();
    for class in classes.flatten() {
        catch.add(match &*class {
            "AssertionError" => Catch { assertions: true, ..Catch::default() },
            "SystemExit" => Catch { exits: true, ..Catch::default() },
            "Exception" => Catch { exits: false, ..Catch::everything() },
            "BaseException" => Catch::everything(),
            _ => Catch { classes: vec![class], ..Catch::default() },
        });
    }
    catch
}

/// Returns whether one of the statements ends the script unsuccessfully.
fn ends_unsuccessfully(body: &[Stmt], imports: &Imports<'_>) -> bool {
    flags::any_statement(body, &|stmt| fails(stmt, imports))
}

/// Returns whether a statement raises, exits with a status other than 0, or calls a function with the name `fail`.
fn fails(stmt: &Stmt, imports: &Imports<'_>) -> bool {
    match stmt {
        Stmt::Raise(_) => true,
        Stmt::Expr(it) => match &*it.value {
            Expr::Call(call) => {
                let Some(path) = imports.path(&call.func) else { return false };
                let is_exit = matches!(&*path, "sys.exit" | "exit" | "quit" | "os._exit");
                let is_success = call.arguments.args.first().is_none_or(is_zero);
                (is_exit && !is_success)
                    || path == "fail"
                    || path.rsplit_once('.').is_some_and(|(_, name)| name == "fail")
            }
            _ => false,
        },
        _ => false,
    }
}

/// Returns whether statements exit with the status 0.
fn exits_successfully(body: &[Stmt], imports: &Imports<'_>) -> bool {
    flags::any_statement(body, &|stmt| match stmt {
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

/// Returns the ranges of the statements that can fail without ending the script. These are the bodies of `try`
/// statements with handlers, or with a `finally` that replaces the failure, and the blocks of `contextlib.suppress(…)`.
fn caught_ranges(body: &[Stmt], imports: &Imports<'_>, work: &Work) -> Vec<TextRange> {
    struct Finder<'a, 'w> {
        found: Vec<TextRange>,
        imports: &'w Imports<'a>,
        work: &'w Work,
    }
    impl Finder<'_, '_> {
        fn caught<'s>(&self, stmt: &'s Stmt) -> Option<&'s [Stmt]> {
            let is_suppressed = |item: &WithItem| match &item.context_expr {
                Expr::Call(call) => {
                    self.imports.path(&call.func).is_some_and(|path| path == "contextlib.suppress")
                }
                _ => false,
            };
            match stmt {
                Stmt::Try(it)
                    if !it.handlers.is_empty() || replaces_exit(&it.finalbody, self.imports) =>
                {
                    Some(&it.body)
                }
                Stmt::With(it) if it.items.iter().any(is_suppressed) => Some(&it.body),
                _ => None,
            }
        }
    }
    impl<'a> Visitor<'a> for Finder<'_, '_> {
        fn visit_stmt(&mut self, stmt: &'a Stmt) {
            self.work.spend(1);
            if let Some(caught) = self.caught(stmt)
                && let (Some(first), Some(last)) = (caught.first(), caught.last())
            {
                self.found.push(first.range().cover(last.range()));
            }
            walk_stmt(self, stmt);
        }
        fn visit_expr(&mut self, _: &'a Expr) {}
    }
    let mut finder = Finder { found: Vec::new(), imports, work };
    finder.visit_body(body);
    finder.found
}

/// Returns whether a `finally` replaces the exception or the exit of its `try`.
fn replaces_exit(body: &[Stmt], imports: &Imports<'_>) -> bool {
    body.iter().any(|stmt| matches!(stmt, Stmt::Return(_) | Stmt::Break(_) | Stmt::Continue(_)))
        || exits_successfully(body, imports)
}

fn is_zero(status: &Expr) -> bool {
    match status {
        Expr::NoneLiteral(_) => true,
        _ => flags::is_false(status),
    }
}
