//! The walk over the tree: each import, call and name is compared with the rule table.

#![expect(clippy::wildcard_enum_match_arm, reason = "the enums are the parser's, and long")]

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ModModule, Stmt};
use ruff_text_size::{Ranged as _, TextSize};

use super::finding::{FindingKind, Found};
use super::resolve::Names;
use super::rules::{RULES, Rule, Target};

/// Everything in `module` that a rule finds, in the order of the walk.
pub(super) fn check(module: &ModModule) -> Vec<Found> {
    let names = Names::of(module);
    let mut checker = Checker { names: &names, found: Vec::new() };
    checker.visit_body(&module.body);
    checker.found
}

struct Checker<'c> {
    names: &'c Names<'c>,
    found: Vec<Found>,
}

impl<'a> Visitor<'a> for Checker<'_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    if let Some(rule) = module_rule(alias.name.as_str()) {
                        let import = FindingKind::Import(alias.name.to_string());
                        self.report(rule, import, alias.start());
                    }
                }
            }
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().map_or("", |module| module.as_str());
                if let Some(rule) = module_rule(module) {
                    let import = FindingKind::Import(format!("from {module} import ..."));
                    self.report(rule, import, stmt.start());
                }
                for alias in &import.names {
                    if let Some(rule) = rule_for(Target::Member(module, alias.name.as_str())) {
                        let import =
                            FindingKind::Import(format!("from {module} import {}", alias.name));
                        self.report(rule, import, alias.start());
                    }
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Call(call) => self.check_call(&call.func),
            // A call of the name has been reported at the same place.
            Expr::Name(name) if self.is_reported(name.start()) => {}
            Expr::Name(name) => {
                if let Some(rule) = rule_for(Target::Name(name.id.as_str())) {
                    let reference = FindingKind::NameReference(name.id.to_string());
                    self.report(rule, reference, name.start());
                }
            }
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}

impl Checker<'_> {
    fn check_call(&mut self, callee: &Expr) {
        let Some(name) = self.names.qualified(callee) else { return };
        let Some(rule) = self.call_rule(callee, &name) else { return };
        let written = written(callee);
        self.report(rule, FindingKind::Call { name, written }, callee.start());
    }

    fn call_rule(&self, callee: &Expr, name: &str) -> Option<&'static Rule> {
        if let Some(rule) = rule_for(Target::Builtin(name)) {
            let shadowed = matches!(callee, Expr::Name(callee)
                if self.names.is_own(callee.id.as_str()) && !self.names.is_imported(callee.id.as_str()));
            return (!shadowed).then_some(rule);
        }
        rule_for(Target::Function(name))
            .or_else(|| rule_for(Target::Name(name)))
            // The module itself is not callable, so only what is below it is a call.
            .or_else(|| name.contains('.').then(|| module_rule(name)).flatten())
    }

    fn is_reported(&self, at: TextSize) -> bool {
        self.found.last().is_some_and(|found| found.offset == Some(at))
    }

    fn report(&mut self, rule: &'static Rule, kind: FindingKind, at: TextSize) {
        self.found.push(Found { kind, rule_id: Some(rule.id), offset: Some(at) });
    }
}

/// The rule with exactly this target.
fn rule_for(target: Target<'_>) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.target == target)
}

/// The rule for `module` or a package above it.
fn module_rule(module: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| match rule.target {
        Target::Module(target) => module
            .strip_prefix(target)
            .is_some_and(|below| below.is_empty() || below.starts_with('.')),
        Target::Builtin(_) | Target::Function(_) | Target::Name(_) | Target::Member(..) => false,
    })
}

/// The callee as it stands in the source, as far as it is names and dots.
fn written(callee: &Expr) -> String {
    match callee {
        Expr::Name(name) => name.id.to_string(),
        Expr::Attribute(attribute) => format!("{}.{}", written(&attribute.value), attribute.attr),
        _ => String::new(),
    }
}
