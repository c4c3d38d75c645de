//! The walk that feeds the builder: each kind of statement and expression that binds or scopes.

#![expect(clippy::indexing_slicing, reason = "scopes are named by their place in the table")]
#![expect(clippy::wildcard_enum_match_arm, reason = "the enums are the parser's, and long")]

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    ElifElseClause, ExceptHandler, Expr, ExprContext, Identifier, MatchCase, Pattern, Stmt,
};
use ruff_text_size::{Ranged as _, TextRange, TextSize};

use super::builder::Builder;
use super::{Elsewhere, MODULE, ScopeKind, Source, elements};

impl<'a> Visitor<'a> for Builder<'a> {
    fn visit_body(&mut self, body: &'a [Stmt]) {
        let (Some(first), Some(last)) = (body.first(), body.last()) else { return };
        let outer = self.block;
        self.block = TextRange::new(first.start(), last.end());
        visitor::walk_body(self, body);
        self.block = outer;
    }

    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(function) => {
                self.bind(function.name.as_str(), Source::Function, stmt.end(), self.scope);
                for decorator in &function.decorator_list {
                    self.visit_decorator(decorator);
                }
                self.visit_parameters(&function.parameters);
                if let Some(annotation) = &function.returns {
                    self.visit_annotation(annotation);
                }
                let outer = self.scope;
                self.in_scope(ScopeKind::Function, stmt.range(), |this| {
                    this.bind_parameters(&function.parameters, Some(function), outer);
                    this.bind_type_params(function.type_params.as_deref());
                    visitor::walk_body(this, &function.body);
                });
            }
            Stmt::ClassDef(class) => {
                self.bind(class.name.as_str(), Source::Class, stmt.end(), self.scope);
                for decorator in &class.decorator_list {
                    self.visit_decorator(decorator);
                }
                if let Some(arguments) = &class.arguments {
                    self.visit_arguments(arguments);
                }
                self.in_scope(ScopeKind::Class, stmt.range(), |this| {
                    this.bind_type_params(class.type_params.as_deref());
                    visitor::walk_body(this, &class.body);
                });
            }
            Stmt::TypeAlias(alias) => {
                self.bind_target(&alias.name, Source::Unknown, stmt.end());
                // Its value is computed when it is asked for.
                self.in_scope(ScopeKind::Function, stmt.range(), |this| {
                    this.bind_type_params(alias.type_params.as_deref());
                    this.visit_expr(&alias.value);
                });
            }
            Stmt::Import(_) | Stmt::ImportFrom(_) => self.import(stmt),
            Stmt::Global(global) => self.declare(&global.names, Elsewhere::Global),
            Stmt::Nonlocal(nonlocal) => self.declare(&nonlocal.names, Elsewhere::Nonlocal),
            Stmt::For(_) | Stmt::While(_) => {
                let outer = self.in_loop;
                self.in_loop = outer.or(Some(stmt.range()));
                self.bind_targets_of(stmt);
                visitor::walk_stmt(self, stmt);
                self.in_loop = outer;
            }
            Stmt::Assert(assert) => {
                self.visit_part(&assert.test, false);
                if let Some(message) = &assert.msg {
                    self.visit_part(message, false);
                }
            }
            _ => {
                self.bind_targets_of(stmt);
                visitor::walk_stmt(self, stmt);
            }
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Lambda(lambda) => {
                if let Some(parameters) = &lambda.parameters {
                    self.visit_parameters(parameters);
                }
                let outer = self.scope;
                self.in_scope(ScopeKind::Function, expr.range(), |this| {
                    if let Some(parameters) = &lambda.parameters {
                        this.bind_parameters(parameters, None, outer);
                    }
                    this.visit_expr(&lambda.body);
                });
            }
            Expr::ListComp(comp) => {
                self.comprehension(expr, [Some(&comp.elt), None], &comp.generators);
            }
            Expr::SetComp(comp) => {
                self.comprehension(expr, [Some(&comp.elt), None], &comp.generators);
            }
            Expr::Generator(comp) => {
                self.comprehension(expr, [Some(&comp.elt), None], &comp.generators);
            }
            Expr::DictComp(comp) => {
                self.comprehension(
                    expr,
                    [comp.key.as_deref(), Some(&comp.value)],
                    &comp.generators,
                );
            }
            Expr::BoolOp(bool_op) => {
                for (index, operand) in bool_op.values.iter().enumerate() {
                    self.visit_part(operand, index == 0);
                }
            }
            Expr::If(if_expr) => {
                self.visit_part(&if_expr.test, true);
                self.visit_part(&if_expr.body, false);
                self.visit_part(&if_expr.orelse, false);
            }
            Expr::Compare(compare) => {
                self.visit_part(&compare.left, true);
                for (index, comparator) in compare.comparators.iter().enumerate() {
                    self.visit_part(comparator, index == 0);
                }
                self.count_namespace_use(expr);
            }
            Expr::Named(named) => {
                self.bind_walrus(&named.target, &named.value, expr.end());
                visitor::walk_expr(self, expr);
            }
            _ => {
                self.count_namespace_use(expr);
                visitor::walk_expr(self, expr);
            }
        }
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(except) = handler;
        if let Some(name) = &except.name {
            let range = TextRange::new(name.end(), handler.end());
            self.at_start_of(range, |this| {
                this.bind(name.as_str(), Source::Unknown, range.start(), this.scope);
            });
            // Python takes the name away at the end of the handler.
            self.symbol(self.scope, name.as_str()).ends_with_handler = true;
        }
        if let Some(kind) = &except.type_ {
            self.visit_part(kind, false);
        }
        self.visit_body(&except.body);
    }

    fn visit_elif_else_clause(&mut self, clause: &'a ElifElseClause) {
        if let Some(test) = &clause.test {
            self.visit_part(test, false);
        }
        self.visit_body(&clause.body);
    }

    fn visit_match_case(&mut self, case: &'a MatchCase) {
        self.at_start_of(TextRange::new(case.pattern.start(), case.end()), |this| {
            this.visit_pattern(&case.pattern);
        });
        if let Some(guard) = &case.guard {
            self.visit_part(guard, false);
        }
        self.visit_body(&case.body);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        let captured = match pattern {
            Pattern::MatchAs(capture) => capture.name.as_ref(),
            Pattern::MatchStar(star) => star.name.as_ref(),
            Pattern::MatchMapping(mapping) => mapping.rest.as_ref(),
            _ => None,
        };
        if let Some(name) = captured {
            self.bind(name.as_str(), Source::Unknown, pattern.start(), self.scope);
        }
        visitor::walk_pattern(self, pattern);
    }
}

impl<'a> Builder<'a> {
    fn import(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    let module = alias.name.as_str();
                    let top = module.split('.').next().unwrap_or(module);
                    self.symbols.imported.insert(top);
                    // `import a.b` binds `a`.
                    let (name, source) = match &alias.asname {
                        Some(asname) => (asname.as_str(), module),
                        None => (top, top),
                    };
                    self.symbols.has_dynamic_names |= module == "__main__";
                    self.bind(name, Source::Import(source), stmt.end(), self.scope);
                }
            }
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().map_or("", |module| module.as_str());
                let is_relative = import.level > 0;
                self.symbols.imported.insert(module.split('.').next().unwrap_or(module));
                for alias in &import.names {
                    let member = alias.name.as_str();
                    if member == "*" {
                        self.symbols.star_imports.push((module, stmt.start()));
                        continue;
                    }
                    let name = alias.asname.as_ref().map_or(member, |asname| asname.as_str());
                    let source =
                        if is_relative { Source::Unknown } else { Source::Member(module, member) };
                    self.bind(name, source, stmt.end(), self.scope);
                }
            }
            _ => {}
        }
    }

    fn declare(&mut self, names: &'a [Identifier], elsewhere: Elsewhere) {
        for name in names {
            self.symbol(self.scope, name.as_str()).elsewhere = Some(elsewhere);
        }
    }

    /// Binds what a simple statement, or the head of a compound one, binds.
    fn bind_targets_of(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Assign(assign) => {
                for target in &assign.targets {
                    self.bind_target(target, Source::Value(&assign.value), stmt.end());
                }
            }
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    self.bind_target(&assign.target, Source::Value(value), stmt.end());
                } else if self.symbols.scopes[self.scope].kind == ScopeKind::Class {
                    // It binds nothing, but a data class makes an attribute of it.
                    if let Expr::Name(name) = &*assign.target {
                        self.symbols.own_attributes.insert(name.id.as_str());
                    }
                } else if self.symbols.scopes[self.scope].kind == ScopeKind::Function {
                    // It makes the name local, and binds nothing.
                    self.bind_target(&assign.target, Source::Unknown, stmt.end());
                }
            }
            Stmt::AugAssign(assign) => {
                self.bind_target(&assign.target, Source::Unknown, stmt.end());
            }
            Stmt::For(for_stmt) => {
                self.namespace_reads += usize::from(is_namespace(&for_stmt.iter));
                let source = match &*for_stmt.target {
                    Expr::Name(_) => Source::Element(&for_stmt.iter),
                    _ => Source::Unknown,
                };
                self.bind_in_body(&for_stmt.target, source, &for_stmt.body);
            }
            Stmt::With(with) => {
                for item in &with.items {
                    if let Some(target) = &item.optional_vars {
                        // What a file or a lock yields is itself.
                        let source = Source::Value(&item.context_expr);
                        self.bind_in_body(target, source, &with.body);
                    }
                }
            }
            Stmt::Delete(delete) => {
                for target in &delete.targets {
                    self.delete(target);
                }
            }
            _ => {}
        }
    }

    /// Binds what is bound each time that a body is entered.
    fn bind_in_body(&mut self, target: &'a Expr, source: Source<'a>, body: &'a [Stmt]) {
        let (Some(first), Some(last)) = (body.first(), body.last()) else { return };
        self.at_start_of(TextRange::new(first.start(), last.end()), |this| {
            this.bind_target(target, source, first.start());
        });
    }

    /// Does `work`, whose bindings run each time that `block` is entered, and only then.
    fn at_start_of(&mut self, block: TextRange, work: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.block, block);
        self.starts_block = true;
        work(self);
        self.starts_block = false;
        self.block = outer;
    }

    /// Visits a part of an expression. What it binds may stay unbound, unless it always runs.
    fn visit_part(&mut self, part: &'a Expr, always_runs: bool) {
        let outer = self.block;
        if !always_runs {
            self.block = part.range();
        }
        self.visit_expr(part);
        self.block = outer;
    }

    fn delete_name(&mut self, name: &'a str, at: TextSize) {
        let is_in_loop = self.in_loop.is_some();
        let symbol = self.symbol(self.scope, name);
        symbol.deleted_from = Some(symbol.deleted_from.map_or(at, |first| first.min(at)));
        symbol.is_deleted_in_loop |= is_in_loop;
        if matches!(symbol.elsewhere, Some(Elsewhere::Global)) {
            // A function may be called at any time.
            self.symbol(MODULE, name).deleted_from = Some(TextSize::default());
        }
    }

    fn delete(&mut self, target: &'a Expr) {
        match target {
            Expr::Name(name) => self.delete_name(name.id.as_str(), name.start()),
            Expr::Tuple(_) | Expr::List(_) => {
                for element in elements(target) {
                    self.delete(element);
                }
            }
            _ => {}
        }
    }

    /// Counts uses of the script's own namespace, and those among them that only read it: after
    /// anything else, a name may stand for something that is not seen here.
    fn count_namespace_use(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if matches!(name.id.as_str(), "globals" | "locals") => {
                self.namespace_uses += 1;
            }
            // With an argument it is another object's namespace.
            Expr::Call(call)
                if is_name(&call.func, &["vars"]) && call.arguments.args.is_empty() =>
            {
                self.namespace_uses += 1;
            }
            Expr::Attribute(attribute) => {
                let is_modules = attribute.attr.as_str() == "modules";
                self.symbols.has_dynamic_names |= is_modules;
                let reads = ["get", "items", "keys", "values", "copy"];
                if is_namespace(&attribute.value) && reads.contains(&attribute.attr.as_str()) {
                    self.namespace_reads += 1;
                }
            }
            Expr::Subscript(subscript)
                if is_namespace(&subscript.value) && subscript.ctx == ExprContext::Load =>
            {
                self.namespace_reads += 1;
            }
            Expr::Compare(compare) => {
                let comparators = compare.comparators.iter().filter(|expr| is_namespace(expr));
                self.namespace_reads += comparators.count();
            }
            Expr::Call(call) if is_name(&call.func, &["sorted", "list", "len", "print", "set"]) => {
                let arguments = call.arguments.args.iter().filter(|expr| is_namespace(expr));
                self.namespace_reads += arguments.count();
            }
            _ => {}
        }
    }
}

fn is_name(expr: &Expr, names: &[&str]) -> bool {
    matches!(expr, Expr::Name(name) if names.contains(&name.id.as_str()))
}

/// Whether this is a call that returns the script's own namespace.
fn is_namespace(expr: &Expr) -> bool {
    matches!(expr, Expr::Call(call)
        if is_name(&call.func, &["globals", "locals", "vars"])
            && call.arguments.args.is_empty())
}
