//! Notes: what honest scripts need, and what cannot be judged here. It is allowed, and worth
//! knowing.

use super::{Condition, Rule, Severity, Special, Target};

use Target::{Call, Object};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "notes/computed-formula",
        severity: Severity::Note,
        targets: &[
            Call("sympy.sympify", Condition::UnknownFormula),
            Call("sympy.S", Condition::UnknownFormula),
            Call("sympy.parse_expr", Condition::UnknownFormula),
            Call("sympy.parsing.sympy_parser.parse_expr", Condition::UnknownFormula),
            Target::Method("query", Condition::UnknownFormula),
        ],
        patterns: &[],
        why: "evaluates a text that this analysis cannot see",
        remedy: "write the formula with symbols",
        matches: &["import sympy\nsympy.sympify(a + b)"],
        misses: &["import sympy\nsympy.sympify('x + 1')"],
    },
    Rule {
        id: "notes/module-search-path",
        severity: Severity::Note,
        targets: &[
            Object("sys.path.append"),
            Object("sys.path.insert"),
            Object("sys.path.extend"),
            Object("site.addsitedir"),
        ],
        patterns: &[],
        why: "modules may come from elsewhere than the installed packages",
        remedy: "leave it out: installed packages are found",
        matches: &["import sys\nsys.path.insert(0, '.')"],
        misses: &["import sys\nprint(sys.path)"],
    },
    Rule {
        id: "notes/computed-name",
        severity: Severity::Note,
        targets: &[Target::Special(Special::ComputedNameElsewhere)],
        patterns: &[],
        why: "the module holds other modules, and which member is meant cannot be seen",
        remedy: "write the name out",
        matches: &["import random\ngetattr(random, n)(1, 2)"],
        misses: &["import random\ngetattr(random, 'gauss')(0, 1)", "import math\ngetattr(math, n)"],
    },
];
