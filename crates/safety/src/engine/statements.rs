//! Walks the statements. Compares imports with the rule table, and passes expressions to the module `expressions`.
//! Never computes a value itself.

#![expect(clippy::wildcard_enum_match_arm, reason = "the enums are the parser's, and long")]

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    Decorator, Expr, ExprContext, Parameter, Parameters, Pattern, PatternKeyword, Stmt,
    StmtFunctionDef, StmtIf, StmtImportFrom, StmtReturn, TypeParams,
};
use ruff_text_size::{Ranged as _, TextRange};

use super::analyzer::Analyzer;
use super::conditions::has_text;
use super::expressions::{Role, escaping};
use super::is_dangerous_formula;
use crate::finding::FindingKind;
use crate::knowledge::index::INDEX;
use crate::knowledge::objects;
use crate::knowledge::value::{MODULES, Value, Values};
use crate::rules::{Rule, Special};
use crate::symbols::{self, BindingId, ScopeKind};

/// The maximum number of assigned docstrings that are judged.
const DOCSTRINGS_MAX: usize = 64;

impl<'a> Visitor<'a> for Analyzer<'a, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if self.work().is_spent() {
            return;
        }
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.check_import(alias.name.as_str(), alias.range());
                }
            }
            Stmt::ImportFrom(import) if import.level == 0 => self.check_import_from(import),
            Stmt::FunctionDef(function) => self.function(function),
            Stmt::ClassDef(class) => {
                self.record_use("class");
                self.visit_decorators(&class.decorator_list);
                if let Some(arguments) = &class.arguments {
                    self.visit_arguments(arguments);
                }
                self.in_scope_of(stmt.range(), |this| {
                    this.visit_optional_type_params(class.type_params.as_deref());
                    this.visit_body(&class.body);
                });
            }
            Stmt::TypeAlias(alias) => self.in_scope_of(stmt.range(), |this| {
                this.visit_optional_type_params(alias.type_params.as_deref());
                this.visit_expr(&alias.value);
            }),
            Stmt::Assign(assign) => {
                self.assigned(&assign.value, &assign.targets);
                for target in &assign.targets {
                    self.visit_expr(target);
                    self.check_item(target, &assign.value);
                }
            }
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    self.assigned(value, std::slice::from_ref(&assign.target));
                }
                self.visit_annotation(&assign.annotation);
                self.visit_expr(&assign.target);
            }
            Stmt::For(for_stmt) => {
                self.iterated(&for_stmt.iter);
                self.visit_expr(&for_stmt.target);
                self.visit_body(&for_stmt.body);
                self.visit_body(&for_stmt.orelse);
            }
            Stmt::Return(StmtReturn { value: Some(value), .. }) => {
                let values = self.evaluate(value, Role::Value);
                self.remember(value, &values);
            }
            Stmt::Expr(statement) => {
                self.evaluate(&statement.value, Role::Value);
            }
            Stmt::If(branches) => self.branches(branches),
            Stmt::While(repeated) if self.is_true(&repeated.test) == Some(false) => {
                self.visit_body(&repeated.orelse);
            }
            Stmt::AugAssign(assign) => {
                visitor::walk_stmt(self, stmt);
                let added = self.value_in(&assign.value, self.scope);
                self.check_target(&assign.target, &added, &assign.value);
            }
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if name.ctx != ExprContext::Load => {
                self.check_docstring(name.id.as_str(), expr);
            }
            // The attribute is the target of an assignment. It is judged, but not passed on.
            Expr::Attribute(attribute) if attribute.ctx != ExprContext::Load => {
                self.check_docstring(attribute.attr.as_str(), expr);
                let (_, values) = self.attribute(attribute);
                if let Some((name, rule)) = objects::dangerous(&values) {
                    self.report_reference(name, Some(rule), expr.range());
                }
            }
            Expr::Subscript(subscript) if subscript.ctx != ExprContext::Load => {
                self.evaluate(&subscript.value, Role::Base);
                self.visit_expr(&subscript.slice);
            }
            Expr::Tuple(_) | Expr::List(_) if is_target(expr) => visitor::walk_expr(self, expr),
            Expr::Starred(starred) if starred.ctx != ExprContext::Load => {
                self.visit_expr(&starred.value);
            }
            _ => {
                self.evaluate(expr, Role::Value);
            }
        }
    }

    fn visit_annotation(&mut self, expr: &'a Expr) {
        let values = self.as_annotation(|this| this.evaluate(expr, Role::Annotation));
        self.check_types(&values, expr);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        // `case C(a)` takes an attribute that the class or its metaclass names. The name is unknown if a metaclass of
        // the script creates the class.
        if let Pattern::MatchClass(class) = pattern
            && !class.arguments.patterns.is_empty()
            && self.has_own_metaclass(&class.cls)
        {
            let rule = INDEX.special(Special::ComputedName);
            self.report_reference("__match_args__".to_owned(), rule, class.cls.range());
        }
        match pattern {
            // The pattern only compares with the class, as `isinstance` does, so the class is not passed on.
            Pattern::MatchClass(class) => {
                self.evaluate(&class.cls, Role::Harmless);
                self.visit_pattern_arguments(&class.arguments);
            }
            _ => visitor::walk_pattern(self, pattern),
        }
    }

    fn visit_pattern_keyword(&mut self, keyword: &'a PatternKeyword) {
        // `case C(name=…)` takes the attribute `name` from the matched object.
        let name = keyword.attr.as_str();
        let rule = self.attribute_rule(name).or_else(|| of_raw_file(name));
        if rule.is_some() && !self.symbols.own_attributes.contains(name) {
            let range = TextRange::new(keyword.start(), keyword.attr.end());
            self.report_reference(name.to_owned(), rule, range);
        }
        visitor::walk_pattern_keyword(self, keyword);
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        if let Some(annotation) = &parameter.annotation {
            self.visit_annotation(annotation);
        }
    }

    fn visit_parameters(&mut self, parameters: &'a Parameters) {
        for parameter in parameters {
            if let Some(default) = parameter.default() {
                self.evaluate(default, Role::Alias);
            }
            self.visit_parameter(parameter.as_parameter());
        }
    }
}

/// Returns the rule about the raw file of a stream, if the attribute `name` leads to that file.
fn of_raw_file(name: &str) -> Option<&'static Rule> {
    let is_such = matches!(name, "buffer" | "detach" | "fileobj" | "fp" | "raw");
    is_such
        .then(|| objects::dangerous(&Values::object(objects::FILE)))
        .flatten()
        .map(|(_, rule)| rule)
}

fn is_target(expr: &Expr) -> bool {
    match expr {
        Expr::Tuple(tuple) => tuple.ctx != ExprContext::Load,
        Expr::List(list) => list.ctx != ExprContext::Load,
        _ => false,
    }
}

impl<'a> Analyzer<'a, '_> {
    fn visit_optional_type_params(&mut self, type_params: Option<&'a TypeParams>) {
        if let Some(type_params) = type_params {
            self.visit_type_params(type_params);
        }
    }

    fn visit_decorators(&mut self, decorators: &'a [Decorator]) {
        for (place, decorator) in decorators.iter().enumerate() {
            let values = self.evaluate(&decorator.expression, Role::Callee);
            if let Some((name, rule)) = objects::dangerous(&values) {
                self.report_call(name, rule, &decorator.expression);
            } else if place + 1 < decorators.len() {
                // The decorator receives the result of the next decorator, which may be anything.
                self.check_decorating(&decorator.expression, &values);
            }
        }
    }

    fn function(&mut self, function: &'a StmtFunctionDef) {
        self.visit_decorators(&function.decorator_list);
        // The annotations of a function with type parameters belong to the function's scope, which contains the type
        // parameters. The annotations of other functions belong to the enclosing scope.
        let scope = if function.type_params.is_some() {
            self.symbols.scope_of(function.range())
        } else {
            self.scope
        };
        self.in_scope(scope, |this| {
            this.visit_parameters(&function.parameters);
            if let Some(returns) = &function.returns {
                this.visit_annotation(returns);
            }
        });
        self.in_scope_of(function.range(), |this| {
            this.visit_optional_type_params(function.type_params.as_deref());
            this.visit_body(&function.body);
        });
    }

    /// Visits the tests of an `if` statement, and the branches that may run.
    fn branches(&mut self, branches: &'a StmtIf) {
        let clauses = branches.elif_else_clauses.iter();
        let others = clauses.map(|clause| (clause.test.as_ref(), &clause.body));
        for (test, body) in std::iter::once((Some(&*branches.test), &branches.body)).chain(others) {
            let holds = test.and_then(|test| {
                self.visit_expr(test);
                self.is_true(test)
            });
            if holds != Some(false) {
                self.visit_body(body);
            }
            if holds == Some(true) {
                return;
            }
        }
    }

    /// Judges a value that is assigned to a special attribute such as `__doc__`, or to an item of such an attribute.
    fn check_target(&mut self, target: &'a Expr, values: &Values<'a>, value: &'a Expr) {
        let item = target.as_subscript_expr();
        let holder = item.map_or(target, |item| &item.value);
        if let Some(name) = self.target_name(holder) {
            self.check_special(name, values, value);
        }
        // The subscripted object may be a namespace. The key is then the name of an attribute.
        if let Some(Expr::StringLiteral(name)) = item.map(|item| &*item.slice) {
            self.check_special(name.value.to_str(), values, value);
        }
    }

    /// Judges the values that a loop, or an assignment with several targets, assigns to `__doc__` or `__test__`. An
    /// augmented assignment is judged at its own statement.
    fn check_docstring(&mut self, name: &'a str, target: &'a Expr) {
        if !self.has_doctest || !matches!(name, "__doc__" | "__test__") {
            return;
        }
        let symbols = self.symbols;
        let bindings = symbols.known(name).map(|uses| &*uses.attribute).unwrap_or_default();
        self.work().spend(bindings.len().min(DOCSTRINGS_MAX));
        let is_whole = |id: &&BindingId| {
            !matches!(symbols.binding(**id).source, symbols::Source::Augmented(_))
        };
        for id in bindings.iter().filter(is_whole).take(DOCSTRINGS_MAX) {
            let values = self.binding_value(*id);
            self.check_special(name, &values, target);
        }
        if target.is_name_expr() {
            let values = self.of_script(name);
            self.check_special(name, &values, target);
        }
    }

    /// Evaluates the value of an assignment. If the value is bound to a name, its role is [`Role::Alias`].
    fn assigned(&mut self, value: &'a Expr, targets: &'a [Expr]) {
        let literal = symbols::elements(value);
        let is_taken_apart = !literal.is_empty()
            && targets.iter().all(|target| {
                let parts = symbols::elements(target);
                parts.len() == literal.len() && parts.iter().all(Expr::is_name_expr)
            });
        if is_taken_apart {
            for element in literal {
                self.evaluate(element, Role::Alias);
            }
            return;
        }
        let is_named = targets.iter().all(Expr::is_name_expr);
        // A name in the body of a class is an attribute. The script may read an attribute in ways that the analysis
        // cannot follow, so the value is judged here.
        let is_followed = is_named && !self.is_in_class();
        let values = self.evaluate(value, if is_followed { Role::Alias } else { Role::Value });
        self.remember(value, &values);
        for target in targets {
            self.check_target(target, &values, value);
        }
    }

    /// Reports a dangerous string that becomes an item of a matrix: `m[0, 0] = "…"`.
    fn check_item(&mut self, target: &Expr, value: &'a Expr) {
        let is_item = matches!(target, Expr::Subscript(item)
            if matches!(&*item.slice, Expr::Tuple(_) | Expr::NumberLiteral(_) | Expr::Slice(_)));
        if is_item
            && self.symbols.evaluates_texts()
            && has_text(value, &Values::unknown(), &mut |text| {
                is_dangerous_formula(text, self.work())
            })
        {
            let rule = INDEX.calls("sympy").next().map(|(rule, _)| rule);
            self.report_reference("sympy".to_owned(), rule, value.range());
        }
    }

    fn is_in_class(&self) -> bool {
        self.symbols.kind(self.scope) == ScopeKind::Class
    }

    fn check_import(&mut self, module: &str, at: TextRange) {
        self.record_import(module.to_owned());
        let rule = match INDEX.import_rule(module) {
            // In the body of a class, the module becomes an attribute, which the script may read in ways that the
            // analysis cannot follow. So the import is judged like a use of the module as a value.
            None if self.is_in_class() && INDEX.is_carrier(module) => {
                INDEX.special(Special::ModuleAsValue)
            }
            rule => rule,
        };
        if rule.is_some() {
            self.report(FindingKind::Import(module.to_owned()), rule, Some(at.start()));
        }
    }

    fn check_import_from(&mut self, import: &'a StmtImportFrom) {
        let module = import.module.as_ref().map_or("", |module| module.as_str());
        let of_module = INDEX.import_rule(module);
        if of_module.is_some() {
            self.record_use(module);
            let kind = FindingKind::Import(format!("from {module} import ..."));
            self.report(kind, of_module, Some(import.start()));
            return;
        }
        for alias in &import.names {
            if self.work().is_spent() {
                return;
            }
            let member = alias.name.as_str();
            let rule = if member == "*" {
                self.record_import(module.to_owned());
                INDEX.star_import(module)
            } else {
                self.record_import(format!("{module}.{member}"));
                self.imported_member(module, member)
            };
            if rule.is_some() {
                let kind = FindingKind::Import(format!("from {module} import {member}"));
                self.report(kind, rule, Some(alias.start()));
            }
        }
    }

    fn imported_member(&self, module: &'a str, member: &str) -> Option<&'static Rule> {
        let of = Values::object(module);
        let members = objects::member(&of, member);
        if let Some((_, rule)) = objects::dangerous(&members) {
            // Scripts compare functions with the types in `types`, so importing these types is permitted.
            let is_type = module == "types";
            return Some(rule).filter(|_| !is_type);
        }
        // `from sys import modules` imports a namespace from which everything can be reached.
        if members.known.iter().any(|value| matches!(value, Value::Namespace(_))) {
            return objects::rule_of_namespace(MODULES);
        }
        if !self.is_in_class() {
            return None;
        }
        let (_, rule) = members.known.iter().find_map(|value| escaping(value, Role::Value))?;
        rule
    }
}
