//! What a name in the source stands for.

#![expect(clippy::wildcard_enum_match_arm, reason = "the enums are the parser's, and long")]

use std::collections::{HashMap, HashSet};

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ModModule, Stmt};

/// The names that a script's imports bind, and the functions and classes that it defines itself.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    /// A bound name and the qualified name that it stands for.
    imported: HashMap<&'a str, String>,
    /// Functions and classes of the script's own, defined at its top level.
    own: HashSet<&'a str>,
}

impl<'a> Names<'a> {
    pub(super) fn of(module: &'a ModModule) -> Self {
        let mut names = Self::default();
        for stmt in &module.body {
            // Only what is defined for certain: not below an `if`, not removed again.
            match stmt {
                Stmt::FunctionDef(function) => names.own.insert(function.name.as_str()),
                Stmt::ClassDef(class) => names.own.insert(class.name.as_str()),
                _ => false,
            };
        }
        let mut bindings = Bindings { names: &mut names };
        bindings.visit_body(&module.body);
        names
    }

    /// Whether the script defines a function or class of this name itself.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.own.contains(name)
    }

    /// The qualified name of a callee: `x.system` is `os.system` after `import os as x`. None if it
    /// does not start with a name.
    pub(super) fn qualified(&self, callee: &Expr) -> Option<String> {
        let mut attributes = Vec::new();
        let mut root = callee;
        while let Expr::Attribute(attribute) = root {
            attributes.push(attribute.attr.as_str());
            root = &attribute.value;
        }
        let Expr::Name(name) = root else { return None };
        let mut qualified = match self.imported.get(name.id.as_str()) {
            Some(imported) => imported.clone(),
            None => name.id.to_string(),
        };
        for attribute in attributes.iter().rev() {
            qualified.push('.');
            qualified.push_str(attribute);
        }
        Some(qualified)
    }

    /// Whether an import binds this name.
    pub(super) fn is_imported(&self, name: &str) -> bool {
        self.imported.contains_key(name)
    }
}

/// Collects imports from the whole tree, and forgets own functions that a `del` removes.
struct Bindings<'n, 'a> {
    names: &'n mut Names<'a>,
}

impl<'a> Visitor<'a> for Bindings<'_, 'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    let module = alias.name.as_str();
                    let (bound, meaning) = if let Some(asname) = &alias.asname {
                        (asname.as_str(), module)
                    } else {
                        // `import a.b` binds `a`.
                        let top = module.split('.').next().unwrap_or(module);
                        (top, top)
                    };
                    self.names.imported.insert(bound, meaning.to_owned());
                }
            }
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().map_or("", |module| module.as_str());
                for alias in &import.names {
                    let bound = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
                    let member = alias.name.as_str();
                    // A builtin by another way is still the builtin.
                    let meaning = match module {
                        "builtins" => member.to_owned(),
                        _ => format!("{module}.{member}"),
                    };
                    self.names.imported.insert(bound, meaning);
                }
            }
            Stmt::Delete(delete) => {
                for target in &delete.targets {
                    if let Expr::Name(name) = target {
                        self.names.own.remove(name.id.as_str());
                    }
                }
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    // Expressions bind no imports, and most of the tree is expressions.
    fn visit_expr(&mut self, _: &'a Expr) {}
}
