//! Notes on uses that honest scripts need and that the analysis cannot judge. The uses are permitted.

use super::{Condition, Rule, Severity, Target};

use Target::{Calls, Objects};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "notes/computed-formula",
        severity: Severity::Note,
        targets: &[
            Calls("sympy.sympify sympy.S sympy.parse_expr", Condition::UnknownFormula),
            Calls("sympy.parsing.sympy_parser.parse_expr", Condition::UnknownFormula),
            Target::Methods("query", Condition::UnknownFormula),
        ],
        why: "evaluates a string that this analysis cannot see",
        remedy: "write the formula with symbols",
        matches: &["import sympy\nsympy.sympify(a + b)"],
        misses: &["import sympy\nsympy.sympify('x + 1')"],
    },
    Rule {
        id: "notes/module-search-path",
        severity: Severity::Note,
        targets: &[Objects("sys.path.append sys.path.insert sys.path.extend site.addsitedir")],
        why: "modules may come from other folders than those of the installed packages",
        remedy: "leave it out: installed packages are found",
        matches: &["import sys\nsys.path.insert(0, '.')"],
        misses: &["import sys\nprint(sys.path)"],
    },
];
