//! The table of recipes: general recipes, then a recipe for each `verify_*` tool of version 0.1.

use super::{Argument, Kind, Recipe};

/// Creates a required argument.
const fn required(name: &'static str, kind: Kind, description: &'static str) -> Argument {
    Argument { name, kind, is_required: true, description }
}

/// Creates an optional argument. The value in the script is the default.
const fn optional(name: &'static str, kind: Kind, description: &'static str) -> Argument {
    Argument { name, kind, is_required: false, description }
}

/// All recipes, in the order in which clients list them.
pub(crate) const RECIPES: &[Recipe] = &[
    Recipe {
        name: "check_calculation",
        title: "Check a calculation",
        description: "Verify the result of a calculation exactly, to the decimal places of the claim.",
        arguments: &[
            required("calculation", Kind::Formula, "The calculation, such as 1000 * 1.05^10"),
            required(
                "claimed",
                Kind::Text,
                "The claimed result as a decimal number, such as 1628.89",
            ),
        ],
        note: FUNCTIONS,
        script: include_str!("scripts/check_calculation.py"),
    },
    Recipe {
        name: "check_table",
        title: "Check a table",
        description: "Verify a formula in each row of a table, and the sums in its last row.",
        arguments: &[
            required("table", Kind::Text, "The table with a header, as CSV, TSV or Markdown"),
            required("rule", Kind::Formula, "The formula of each row, such as total = net + tax"),
            optional(
                "last_row",
                Kind::Choice(&["data", "total"]),
                "What the last row is: data (the default), or the total of the other rows",
            ),
        ],
        note: "",
        script: include_str!("scripts/check_table.py"),
    },
    Recipe {
        name: "prove_or_refute",
        title: "Prove or refute a statement",
        description: "Prove with Z3 that a statement about numbers follows from premises, or show a counterexample.",
        arguments: &[
            required("conclusion", Kind::Text, "The statement, such as x + y > 5"),
            optional("premises", Kind::List, "What is given, such as x > 2, y > 3"),
            optional("integers", Kind::List, "The names of integers; other numbers are real"),
        ],
        note: FORMULAS,
        script: include_str!("scripts/prove_or_refute.py"),
    },
    Recipe {
        name: "verify_math",
        title: "Verify a mathematical result",
        description: "Verify a derivative, an integral, solutions or an equality with SymPy.",
        arguments: &[
            required(
                "expression",
                Kind::Formula,
                "The expression, such as x^2, or the equation to solve, such as x^2 = 4",
            ),
            required(
                "claimed_result",
                Kind::Formula,
                "The claimed result, such as 2*x, or all solutions, also complex ones, such as -2, 2",
            ),
            optional(
                "operation",
                Kind::Choice(&["evaluate", "derivative", "integral", "simplify", "solve"]),
                "What leads to the result: evaluate (the default), derivative, integral, simplify, solve",
            ),
            optional("variable", Kind::Formula, "The variable, if the expression has several"),
        ],
        note: FUNCTIONS,
        script: include_str!("scripts/verify_math.py"),
    },
    Recipe {
        name: "verify_logic",
        title: "Verify a logical conclusion",
        description: "Verify with Z3 that a conclusion follows from premises, or show a counterexample.",
        arguments: &[
            required("premises", Kind::List, "The premises, such as rain implies wet, rain"),
            required("conclusion", Kind::Text, "The conclusion, such as wet"),
        ],
        note: FORMULAS,
        script: include_str!("scripts/prove_or_refute.py"),
    },
    Recipe {
        name: "verify_code",
        title: "Verify the safety of Python code",
        description: "Search Python code for forbidden imports and calls with CodeGuard.",
        arguments: &[
            required("code", Kind::Text, "The Python code"),
            optional("language", Kind::Choice(&["python"]), "The language: python"),
        ],
        note: BLOCKLIST,
        script: include_str!("scripts/verify_code.py"),
    },
    Recipe {
        name: "verify_sql",
        title: "Verify an SQL query",
        description: "Verify with SQLGuard that a query only reads, and only the allowed tables.",
        arguments: &[
            required("query", Kind::Text, "The SQL query"),
            optional(
                "allowed_tables",
                Kind::List,
                "The tables that the query may read; by default all",
            ),
        ],
        note: BLOCKLIST,
        script: include_str!("scripts/verify_sql.py"),
    },
    Recipe {
        name: "verify_banking_compliance",
        title: "Verify a financial figure",
        description: "Verify a payment, interest, net present value or internal rate of return with FinanceVerifier.",
        arguments: &[
            required(
                "scenario",
                Kind::Text,
                "The calculation and its values, such as monthly_payment principal=100000 annual_rate=0.06 months=360",
            ),
            required("llm_output", Kind::Text, "The claimed figure, such as 599.55"),
        ],
        note: "The calculations and their values are: `compound_interest principal=… rate=… periods=…`, \
               `irr cashflows=[…,…]`, `monthly_payment principal=… annual_rate=… months=…`, \
               `npv cashflows=[…,…] rate=…`, `total_interest principal=… annual_rate=… months=…`. The result of `compound_interest` is the amount \
               with the principal. If the scenario is written in another way, rewrite it in this form first.",
        script: include_str!("scripts/verify_banking_compliance.py"),
    },
    Recipe {
        name: "verify_iso_20022",
        title: "Verify an ISO 20022 message",
        description: "Verify that a payment message (pacs.008) has the required fields, with ISOGuard.",
        arguments: &[required("message_json", Kind::Text, "The message as JSON")],
        note: "The guard checks a simplified schema, not the full standard.",
        script: include_str!("scripts/verify_iso_20022.py"),
    },
    Recipe {
        name: "verify_commerce_transaction",
        title: "Verify a checkout",
        description: "Verify the totals, the status and the structure of a UCP checkout with UCPVerifier.",
        arguments: &[required("cart_json", Kind::Text, "The checkout as JSON")],
        note: "The guard refuses tax, discounts, fees and shipping without their basis, such as `tax_rate`.",
        script: include_str!("scripts/verify_commerce_transaction.py"),
    },
    Recipe {
        name: "verify_legal_deadline",
        title: "Verify a deadline",
        description: "Verify the deadline of a contract with DeadlineGuard, including business days and holidays.",
        arguments: &[
            required("signing_date", Kind::Text, "The date of signing, such as 2026-01-15"),
            required(
                "term",
                Kind::Text,
                "A number of days, business days, weeks, months or years, such as 30 business days",
            ),
            required("claimed_deadline", Kind::Text, "The claimed deadline, such as 2026-03-02"),
            optional("country", Kind::Text, "The country whose holidays count; US by default"),
        ],
        note: "",
        script: include_str!("scripts/verify_legal_deadline.py"),
    },
    Recipe {
        name: "verify_legal_citation",
        title: "Verify the form of a citation",
        description: "Verify that a legal citation has a known form, with CitationGuard.",
        arguments: &[required("citation", Kind::Text, "The citation, such as 347 U.S. 483")],
        note: "The guard checks the form of the citation. It does not check that the case exists, or says what is \
               claimed.",
        script: include_str!("scripts/verify_legal_citation.py"),
    },
    Recipe {
        name: "verify_legal_liability",
        title: "Verify a liability cap",
        description: "Verify a cap that is a percentage of the contract value, with LiabilityGuard.",
        arguments: &[
            required("contract_value", Kind::Number, "The value of the contract, such as 1000000"),
            required("cap_percentage", Kind::Number, "The percentage, such as 15"),
            required("claimed_cap", Kind::Number, "The claimed cap, such as 150000"),
        ],
        note: "",
        script: include_str!("scripts/verify_legal_liability.py"),
    },
    Recipe {
        name: "verify_legal_jurisdiction",
        title: "Verify a choice of law",
        description: "Verify that the governing law and the forum of a contract do not conflict, with JurisdictionGuard.",
        arguments: &[
            required(
                "parties_countries",
                Kind::List,
                "The countries of the parties, such as US, UK",
            ),
            required("governing_law", Kind::Text, "The governing law, such as Delaware"),
            required("forum", Kind::Text, "The forum, such as Delaware"),
        ],
        note: "The guard compares entries of a table and gives warnings. It is no legal advice.",
        script: include_str!("scripts/verify_legal_jurisdiction.py"),
    },
    Recipe {
        name: "verify_legal_statute",
        title: "Verify a limitation period",
        description: "Verify that a claim is filed within the limitation period, with StatuteOfLimitationsGuard.",
        arguments: &[
            required("claim_type", Kind::Text, "The type of the claim, such as breach_of_contract"),
            required("jurisdiction", Kind::Text, "The jurisdiction, such as California"),
            required("incident_date", Kind::Text, "The date of the incident, such as 2020-01-01"),
            required("filing_date", Kind::Text, "The date of filing, such as 2023-06-01"),
        ],
        note: "",
        script: include_str!("scripts/verify_legal_statute.py"),
    },
    Recipe {
        name: "verify_system_command",
        title: "Verify a shell command",
        description: "Search a shell command for prohibited commands and patterns with SystemGuard.",
        arguments: &[required("command", Kind::Text, "The command")],
        note: BLOCKLIST,
        script: include_str!("scripts/verify_system_command.py"),
    },
    Recipe {
        name: "verify_file_path",
        title: "Verify a file path",
        description: "Verify that a path is in the allowed folders, with SystemGuard.",
        arguments: &[
            required("filepath", Kind::Text, "The path, such as /tmp/report.txt"),
            optional("allowed_paths", Kind::List, "The allowed folders; /tmp by default"),
        ],
        note: "",
        script: include_str!("scripts/verify_file_path.py"),
    },
    Recipe {
        name: "verify_config_secrets",
        title: "Search a configuration for secrets",
        description: "Search a configuration for keys and tokens of known forms with ConfigGuard.",
        arguments: &[required("config_json", Kind::Text, "The configuration as JSON")],
        note: BLOCKLIST,
        script: include_str!("scripts/verify_config_secrets.py"),
    },
];

/// The note of recipes that compute formulas with `SymPy`. It explains the notation of the formulas.
const FUNCTIONS: &str =
    "Variables are complex numbers, `log` is the natural logarithm, and angles are in radians.";

/// The note of recipes that use Z3. It describes the statements that these recipes can parse.
const FORMULAS: &str = "Statements consist of names, numbers, `+ - * / % **`, comparisons, `not`, `and`, `or`, \
                        `implies`, `iff` and parentheses. If a statement is written in another way, rewrite it in \
                        this form first.";

/// The note of recipes whose guard only searches for known problems. It explains this limitation.
const BLOCKLIST: &str =
    "The guard compares with a list of known problems. If it finds none, others may still exist.";
