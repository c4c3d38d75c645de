//! The calls that a script makes of its own functions, and the arguments that they pass.
//!
//! Collected only where a rule's condition depends on a parameter, so the pass over the whole tree
//! is made for few scripts, and once.

#![expect(clippy::wildcard_enum_match_arm, reason = "the enum is the parser's, and long")]

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprCall, ExprContext, Stmt, StmtFunctionDef};
use ruff_text_size::{Ranged as _, TextRange};

use super::names::{NameSet, Names};
use super::{MODULE, ScopeId, Symbols};

/// The most calls of one function that are looked at.
const CALLS_MAX: usize = 32;

/// All calls by name in a script.
#[derive(Debug)]
pub(crate) struct Callers<'a> {
    calls: Names<'a, Vec<(ScopeId, &'a ExprCall)>>,
    /// Names that are used in another way than by calling them.
    passed_on: NameSet<'a>,
    /// The names that one function, and nothing else, has.
    defined_once: NameSet<'a>,
}

impl<'a> Callers<'a> {
    pub(crate) fn of(body: &'a [Stmt], symbols: &Symbols<'a>) -> Self {
        let callers = Self {
            calls: Names::default(),
            passed_on: NameSet::default(),
            defined_once: symbols.functions_defined_once(),
        };
        let mut collector = Collector { callers, symbols, scope: MODULE };
        collector.visit_body(body);
        collector.callers
    }

    /// Returns the calls of a function, with their scopes; `None` unless all are known, and few.
    pub(crate) fn calls_of(&self, function: &str) -> Option<&[(ScopeId, &'a ExprCall)]> {
        if self.passed_on.contains(function) || !self.defined_once.contains(function) {
            return None;
        }
        let calls = self.calls.get(function)?;
        (calls.len() <= CALLS_MAX).then_some(calls)
    }
}

struct Collector<'a, 's> {
    callers: Callers<'a>,
    symbols: &'s Symbols<'a>,
    scope: ScopeId,
}

impl Collector<'_, '_> {
    fn in_scope(&mut self, range: TextRange, work: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.scope, self.symbols.scope_of(range));
        work(self);
        self.scope = outer;
    }
}

impl<'a> Visitor<'a> for Collector<'a, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            // Decorators and defaults are looked up from inside, where the names around are seen
            // too.
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => {
                self.in_scope(stmt.range(), |this| visitor::walk_stmt(this, stmt));
            }
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Call(call) => {
                match &*call.func {
                    Expr::Name(name) => {
                        let calls = self.callers.calls.entry(name.id.as_str()).or_default();
                        calls.push((self.scope, call));
                    }
                    func => self.visit_expr(func),
                }
                self.visit_arguments(&call.arguments);
            }
            Expr::Name(name) if name.ctx == ExprContext::Load => {
                self.callers.passed_on.insert(name.id.as_str());
            }
            Expr::Lambda(_)
            | Expr::ListComp(_)
            | Expr::SetComp(_)
            | Expr::DictComp(_)
            | Expr::Generator(_) => {
                self.in_scope(expr.range(), |this| visitor::walk_expr(this, expr));
            }
            _ => visitor::walk_expr(self, expr),
        }
    }
}

/// Returns what a call passes to a parameter: an argument, or the default. `None` if it is not
/// seen.
pub(crate) fn argument_for<'a>(
    function: &'a StmtFunctionDef,
    name: &str,
    call: &'a ExprCall,
) -> Option<&'a Expr> {
    let has_unpacked = call.arguments.args.iter().any(Expr::is_starred_expr)
        || call.arguments.keywords.iter().any(|keyword| keyword.arg.is_none());
    if has_unpacked {
        return None;
    }
    let parameters = &function.parameters;
    let positional = parameters.posonlyargs.iter().chain(&parameters.args);
    let place = positional.clone().position(|parameter| parameter.name().as_str() == name);
    let by_place = place.and_then(|place| call.arguments.args.get(place));
    let by_name = || {
        let is_named = |arg: &ruff_python_ast::Identifier| arg.as_str() == name;
        let mut keywords = call.arguments.keywords.iter();
        keywords.find(|keyword| keyword.arg.as_ref().is_some_and(is_named)).map(|k| &k.value)
    };
    let default = || {
        let mut all = positional.clone().chain(&parameters.kwonlyargs);
        all.find(|parameter| parameter.name().as_str() == name)?.default()
    };
    by_place.or_else(by_name).or_else(default)
}
