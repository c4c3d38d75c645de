//! Resolves the names of functions and exceptions to the modules and members that the script imports.
//!
//! An import in one scope is treated as an import for the whole script. This is precise enough to recognize assertion
//! functions.

#![expect(clippy::wildcard_enum_match_arm, reason = "only names and attributes have a path")]

use foldhash::HashMap;
use ruff_python_ast::{Expr, StmtImport, StmtImportFrom};

/// The imported names of a script, with the qualified names for which they stand.
#[derive(Debug, Default)]
pub(super) struct Imports<'a>(HashMap<&'a str, String>);

impl<'a> Imports<'a> {
    pub(super) fn add(&mut self, import: &'a StmtImport) {
        for alias in &import.names {
            if let Some(name) = &alias.asname {
                self.0.insert(name, alias.name.to_string());
            } else {
                let first = alias.name.split('.').next().unwrap_or_default();
                self.0.insert(first, first.to_owned());
            }
        }
    }

    pub(super) fn add_from(&mut self, import: &'a StmtImportFrom) {
        let Some(module) = &import.module else { return };
        for alias in &import.names {
            let name = alias.asname.as_ref().unwrap_or(&alias.name);
            self.0.insert(name, format!("{module}.{}", alias.name));
        }
    }

    /// Returns the qualified name of an imported name.
    pub(super) fn of(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the qualified names of all imported names.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(String::as_str)
    }

    /// Returns the qualified name of an expression that consists of names and attributes. A name that was not imported
    /// stands for itself.
    pub(super) fn path(&self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Name(name) => {
                Some(self.0.get(name.id.as_str()).cloned().unwrap_or_else(|| name.id.to_string()))
            }
            Expr::Attribute(attribute) => {
                Some(format!("{}.{}", self.path(&attribute.value)?, attribute.attr))
            }
            _ => None,
        }
    }
}
