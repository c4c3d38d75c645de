//! Resolves the names of functions and exceptions to the modules and members that the script imports.
//!
//! An import in one scope is treated as an import for the whole script. This approximation is precise enough to
//! recognize assertion functions.

#![expect(clippy::wildcard_enum_match_arm, reason = "only names and attributes have a path")]

use foldhash::{HashMap, HashSet};
use ruff_python_ast::{Expr, StmtImport, StmtImportFrom};

/// For each module, the members that `from module import *` binds. Lists only the members that callers of this file
/// recognize.
#[rustfmt::skip]
const MEMBERS: &[(&str, &str)] = &[
    ("cmath", "isclose"),
    ("decimal", "Decimal"),
    ("fractions", "Fraction"),
    ("itertools", "combinations combinations_with_replacement count islice permutations product"),
    ("math", "acos asin atan ceil comb copysign cos cosh degrees dist e exp expm1 fabs factorial floor fsum gcd"),
    ("math", "hypot inf isclose isfinite isinf isnan isqrt lcm log nan perm pi pow radians sin sinh sqrt tan"),
    ("math", "tanh tau trunc"),
    ("numpy", "all allclose any arange array array_equal asarray isclose linspace mean median std sum var"),
    ("statistics", "fmean mean median pstdev pvariance stdev variance"),
    ("sympy", "Abs Dummy Float Function Integer N Rational S Symbol exp expand factor false log nsimplify"),
    ("sympy", "pi simplify sqrt symbols sympify trigsimp true var"),
    ("z3", "And Bool BoolVal Bools Fixedpoint Implies Int Ints Not Optimize Or Real Reals SimpleSolver"),
    ("z3", "Solver SolverFor is_true sat simplify unknown unsat"),
];

/// The imported names of a script, with the qualified names for which they stand.
#[derive(Debug, Default)]
pub(super) struct Imports<'a> {
    names: HashMap<&'a str, String>,
    /// The first parts of the names of all imported modules.
    modules: HashSet<&'a str>,
    /// The modules that the script imports with `*`.
    stars: HashSet<&'a str>,
}

impl<'a> Imports<'a> {
    pub(super) fn add(&mut self, import: &'a StmtImport) {
        for alias in &import.names {
            let first = alias.name.split('.').next().unwrap_or_default();
            self.modules.insert(first);
            if let Some(name) = &alias.asname {
                self.names.insert(name, alias.name.to_string());
            } else {
                self.names.insert(first, first.to_owned());
            }
        }
    }

    pub(super) fn add_from(&mut self, import: &'a StmtImportFrom) {
        let Some(module) = &import.module else { return };
        self.modules.extend(module.split('.').next());
        for alias in &import.names {
            if alias.name.as_str() == "*" {
                self.stars.insert(module);
                for (_, members) in MEMBERS.iter().filter(|(of, _)| *of == module.as_str()) {
                    let members = members.split(' ');
                    self.names.extend(members.map(|name| (name, format!("{module}.{name}"))));
                }
            }
            let name = alias.asname.as_ref().unwrap_or(&alias.name);
            self.names.insert(name, format!("{module}.{}", alias.name));
        }
    }

    /// Returns the qualified name of an imported name.
    pub(super) fn of(&self, name: &str) -> Option<&str> {
        self.names.get(name).map(String::as_str)
    }

    /// Returns whether the script imports a top-level module, a part of it, or a member.
    pub(super) fn has_module(&self, module: &str) -> bool {
        self.modules.contains(module)
    }

    /// Returns whether the script imports all members of a module with `*`.
    pub(super) fn has_star_of(&self, module: &str) -> bool {
        self.stars.contains(module)
    }

    /// Returns the qualified names of all imported names.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.names.values().map(String::as_str)
    }

    /// Returns the qualified name of an expression that consists of names and attributes. A name that was not imported
    /// stands for itself.
    pub(super) fn path(&self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Name(name) => Some(
                self.names.get(name.id.as_str()).cloned().unwrap_or_else(|| name.id.to_string()),
            ),
            Expr::Attribute(attribute) => {
                Some(format!("{}.{}", self.path(&attribute.value)?, attribute.attr))
            }
            _ => None,
        }
    }
}
