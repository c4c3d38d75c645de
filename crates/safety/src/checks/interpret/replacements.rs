//! Finds assertion functions that the script replaces by other functions, and judges whether the replacements can
//! fail.

#![expect(clippy::wildcard_enum_match_arm, reason = "other values are unknown")]

use ruff_python_ast::Expr;

use super::super::flags::Failures;
use super::super::values::{Id, Node};
use super::{CALLS_MAX, Callable, Interpreter};

/// The qualified name that stands for the mock with which `unittest.mock.patch` replaces a function by default. A call
/// of this mock never raises an exception.
const MOCK: &str = "unittest.mock.Mock";

/// Methods of collections, texts and loggers. None of these methods raises an exception in order to report a failed
/// check.
const QUIET_METHODS: &[&str] = &[
    "add", "append", "debug", "error", "extend", "format", "get", "info", "items", "join", "keys",
    "log", "update", "values", "warning", "write",
];

impl<'a> Interpreter<'a, '_> {
    /// Records that the script replaces a function or a method by another value. The path of a method starts with a
    /// dot.
    pub(super) fn replace_function(&mut self, path: &str, value: Id) {
        if let Some((class, method)) = path.rsplit_once('.')
            && class.starts_with("unittest.")
        {
            self.replaced_functions.insert(format!(".{method}"), value);
        }
        self.replaced_functions.insert(path.to_owned(), value);
    }

    /// Records that a call of `setattr` or of `unittest.mock.patch` replaces an assertion function.
    pub(super) fn replace_by_call(&mut self, function: &str, target: Id, more: &[Id]) {
        let text = |id: Id| match self.values.node(id) {
            Node::Text(text) => Some(text.to_string()),
            _ => None,
        };
        let (path, value) = if function == "unittest.mock.patch" {
            (text(target), more.first())
        } else {
            let name = more.first().and_then(|name| text(*name));
            let object = self.values.path_of(target).unwrap_or_default();
            (name.map(|name| format!("{object}.{name}")), more.get(1))
        };
        let value = value.copied().unwrap_or_else(|| self.values.path(MOCK));
        if let Some(path) = path.filter(|path| path_may_fail(path)) {
            self.replace_function(&path, value);
        }
    }

    /// Returns the value that replaces an assertion function; `None` if the script does not replace the function.
    pub(super) fn replacement(&mut self, assertion: &'a Expr) -> Option<Id> {
        let function = self.expression(assertion);
        let replaced = match self.values.path_of(function) {
            Some(path) if self.imports.path(assertion).is_some_and(|own| own == *path) => {
                path.into_owned()
            }
            Some(_) => return Some(function),
            None if matches!(self.values.node(function), Node::Function(_)) => {
                return Some(function);
            }
            None => format!(".{}", assertion.as_attribute_expr()?.attr),
        };
        self.replaced_functions.get(&replaced).copied()
    }

    /// Returns whether a function may raise an exception in order to report a failed check. Returns true for an unknown
    /// function.
    pub(super) fn may_fail(&mut self, function: Id) -> bool {
        self.may_fail_within(function, CALLS_MAX)
    }

    fn may_fail_within(&mut self, function: Id, calls: usize) -> bool {
        self.work.spend(1);
        if self.is_over() {
            return true;
        }
        if let Some(path) = self.values.path_of(function) {
            return path_may_fail(&path);
        }
        if let Some((path, arguments)) = self.values.call(function) {
            // A mock that is created with arguments may have a side effect.
            return !(path.starts_with("unittest.mock.") && arguments.is_empty());
        }
        let Node::Function(place) = self.values.node(function) else { return true };
        let Some(closure) = self.closures.get(*place).copied().filter(|_| calls > 0) else {
            return true;
        };
        let failures = match closure.function {
            Callable::Function(function) => Failures::of_body(&function.body, self.work),
            Callable::Lambda(_, body) => Failures::of_expression(body, self.work),
        };
        let outer = std::mem::replace(&mut self.frame, closure.frame);
        let may_fail = failures.raises
            || failures.called.into_iter().any(|called| match called {
                Expr::Name(name) => {
                    let function = self.read(name.id.as_str());
                    self.may_fail_within(function, calls - 1)
                }
                Expr::Attribute(of) => {
                    let function = self.expression(called);
                    match self.values.path_of(function) {
                        Some(path) => path_may_fail(&path),
                        None => !QUIET_METHODS.contains(&of.attr.as_str()),
                    }
                }
                _ => true,
            });
        self.frame = outer;
        may_fail
    }
}

/// Returns whether a function that the script does not define may raise an exception in order to report a failed check.
/// Assumes that only assertion functions and functions that end the script do so.
fn path_may_fail(path: &str) -> bool {
    let name = path.rsplit('.').next().unwrap_or(path);
    name.starts_with("assert") || matches!(name, "_exit" | "exit" | "fail" | "quit" | "raises")
}
