//! Recipes: tested scripts, each for one kind of claim. A person selects a recipe in a client and enters the values.
//! This module never runs a script.
//!
//! Each file in `scripts/` is a complete script that verifies an example. Each argument is one line of the script:
//! `name = value`.

mod table;

pub(crate) use table::RECIPES;

use serde_json::{Map, Number, Value};
use thiserror::Error;

/// A script for one kind of claim, and a description of the values that it needs.
pub(crate) struct Recipe {
    /// The unique name. A recipe that replaces a tool of version 0.1 has the tool's name.
    pub(crate) name: &'static str,
    /// The title for people.
    pub(crate) title: &'static str,
    /// The kind of claim that is verified, in one sentence.
    pub(crate) description: &'static str,
    pub(crate) arguments: &'static [Argument],
    /// Facts that the model needs to run the script or to report its outcome. May be empty.
    pub(crate) note: &'static str,
    script: &'static str,
}

/// A value that a recipe needs.
pub(crate) struct Argument {
    pub(crate) name: &'static str,
    kind: Kind,
    /// If `false`, the value in the script is the default.
    pub(crate) is_required: bool,
    pub(crate) description: &'static str,
}

/// The kind of an argument's value. Every value arrives as a string (MCP, `prompts/get`).
enum Kind {
    /// A string.
    Text,
    /// A formula for `SymPy`. Only numbers, names, functions and operators are permitted. `SymPy` evaluates formulas as
    /// Python code, so any other text could be code that forges the outcome.
    Formula,
    /// A number in JSON's notation (RFC 8259, 6).
    Number,
    /// Several strings: a JSON array, or a text with commas, semicolons or line breaks between the strings.
    List,
    /// One of these strings.
    Choice(&'static [&'static str]),
}

/// The reason why values cannot be inserted into a recipe.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum FillError {
    #[error("the argument '{0}' is required")]
    Missing(&'static str),
    #[error("there is no argument '{given}': the arguments are {known}")]
    Unknown { given: String, known: String },
    #[error("the argument '{0}' must be a string")]
    NotText(&'static str),
    #[error("the argument '{0}' must be a number, such as 1000000 or 12.5")]
    NotNumber(&'static str),
    #[error(
        "the argument '{0}' must be a formula of numbers, names, functions and + - * / ^ % = ( ) ,"
    )]
    NotFormula(&'static str),
    #[error("the argument '{0}' must name at least one item")]
    Empty(&'static str),
    #[error("the argument '{name}' must be one of: {choices}")]
    NotChoice { name: &'static str, choices: String },
}

/// The maximum length of an unknown argument's name in a message, in characters.
const NAME_CHARS_MAX: usize = 100;

impl Recipe {
    /// Returns the recipe with this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        RECIPES.iter().find(|recipe| recipe.name == name)
    }

    /// Returns the script with the `given` values. An omitted value keeps its default. A blank value counts as
    /// omitted, because forms send blank values for empty fields.
    pub(crate) fn fill(&self, given: &Map<String, Value>) -> Result<String, FillError> {
        self.require_known(given)?;
        let mut script = self.script.to_owned();
        for argument in self.arguments {
            let value = match given.get(argument.name) {
                None | Some(Value::Null) => "",
                Some(value) => value.as_str().ok_or(FillError::NotText(argument.name))?,
            };
            if !value.trim().is_empty() {
                script = replaced(&script, argument.name, &argument.literal(value)?);
            } else if argument.is_required {
                return Err(FillError::Missing(argument.name));
            }
        }
        Ok(script)
    }

    fn require_known(&self, given: &Map<String, Value>) -> Result<(), FillError> {
        let names = || self.arguments.iter().map(|argument| argument.name);
        match given.keys().find(|key| !names().any(|name| name == *key)) {
            None => Ok(()),
            Some(key) => Err(FillError::Unknown {
                given: key.chars().take(NAME_CHARS_MAX).collect(),
                known: names().collect::<Vec<_>>().join(", "),
            }),
        }
    }
}

impl Argument {
    /// Returns a value as a Python literal. JSON strings and JSON arrays of strings are valid Python literals.
    fn literal(&self, value: &str) -> Result<String, FillError> {
        let name = self.name;
        let trimmed = value.trim();
        match self.kind {
            Kind::Text => Ok(Value::from(value).to_string()),
            Kind::Formula if is_formula(trimmed) => Ok(Value::from(trimmed).to_string()),
            Kind::Formula => Err(FillError::NotFormula(name)),
            Kind::Number => match serde_json::from_str::<Number>(trimmed) {
                Ok(_) => Ok(trimmed.to_owned()),
                Err(_) => Err(FillError::NotNumber(name)),
            },
            Kind::List => {
                let items = serde_json::from_str::<Vec<String>>(trimmed).unwrap_or_else(|_| {
                    let items = trimmed.split([',', ';', '\n']).map(str::trim);
                    items.filter(|item| !item.is_empty()).map(str::to_owned).collect()
                });
                if items.is_empty() {
                    return Err(FillError::Empty(name));
                }
                Ok(Value::from(items).to_string())
            }
            Kind::Choice(choices) if choices.contains(&trimmed) => {
                Ok(Value::from(trimmed).to_string())
            }
            Kind::Choice(choices) => {
                Err(FillError::NotChoice { name, choices: choices.join(", ") })
            }
        }
    }
}

/// The functions that a formula may call. Other functions could run code. For example, `chr` turns numbers into
/// strings, and `exec` runs strings.
const FUNCTIONS: &str = "\
    Abs abs acos acosh acot asin asinh atan atan2 atanh binomial cbrt ceiling cos cosh cot coth csc \
    erf exp factorial floor gamma gcd lcm ln log Max max Min min Mod root sec sign sin sinh sqrt \
    tan tanh zeta LambertW";

/// The keywords of Python.
const KEYWORDS: &str = "\
    False None True and as assert async await break class continue def del elif else except finally \
    for from global if import in is lambda nonlocal not or pass raise return try while with yield";

/// Returns whether a text can only be a formula: it contains no strings, attributes, square brackets or keywords, and
/// calls only [`FUNCTIONS`].
fn is_formula(text: &str) -> bool {
    let is_permitted =
        |c: char| c.is_alphanumeric() || c.is_whitespace() || "+-*/^%=(),._$€£¥".contains(c);
    let has_attribute = text.split('.').skip(1).any(|rest| {
        rest.trim_start().chars().next().is_some_and(|first| first.is_alphabetic() || first == '_')
    });
    let mut before_parentheses = text.rsplit('(').skip(1).map(str::trim_end);
    let calls_only_functions = before_parentheses.all(|before| {
        let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
        let called = before.rsplit(|c| !is_of_name(c)).next().unwrap_or_default();
        FUNCTIONS.split(' ').any(|function| function == called)
            || (called.is_empty() && !before.ends_with([')', '.']))
    });
    let mut words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let has_keyword = words.any(|word| KEYWORDS.split(' ').any(|keyword| keyword == word));
    text.chars().all(is_permitted)
        && !text.contains("__")
        && !has_attribute
        && !has_keyword
        && calls_only_functions
}

/// Replaces the value on the line of the script that sets `name`.
fn replaced(script: &str, name: &str, literal: &str) -> String {
    let lines = script.lines().map(|line| {
        let sets_name = line.strip_prefix(name).is_some_and(|rest| rest.starts_with(" = "));
        if sets_name { format!("{name} = {literal}\n") } else { format!("{line}\n") }
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(recipe: &str, given: Value) -> Result<String, FillError> {
        let Value::Object(given) = given else { panic!("an object") };
        Recipe::named(recipe).unwrap().fill(&given)
    }

    #[test]
    fn each_argument_has_one_line_of_its_script() {
        for recipe in RECIPES {
            for argument in recipe.arguments {
                let start = format!("{} = ", argument.name);
                let lines = recipe.script.lines().filter(|line| line.starts_with(&start)).count();
                assert_eq!(lines, 1, "{} {}", recipe.name, argument.name);
            }
            let names = RECIPES.iter().filter(|other| other.name == recipe.name).count();
            assert_eq!(names, 1, "{}", recipe.name);
        }
    }

    #[test]
    fn a_value_is_a_literal_of_its_kind() {
        let script = filled("verify_legal_citation", json!({ "citation": "a\"\\\n'é'\u{7f}\0" }));
        assert!(script.unwrap().contains("\ncitation = \"a\\\"\\\\\\n'é'\u{7f}\\u0000\"\n"));

        let numbers =
            json!({ "contract_value": " 12.50 ", "cap_percentage": "1e1", "claimed_cap": "-2" });
        let script = filled("verify_legal_liability", numbers).unwrap();
        assert!(
            script.contains("contract_value = 12.50\ncap_percentage = 1e1\nclaimed_cap = -2\n")
        );

        for (list, expected) in [
            ("users", "[\"users\"]"),
            (" users, orders ;\n\n\"x\"", "[\"users\",\"orders\",\"\\\"x\\\"\"]"),
            ("[\"a,b\", \"c\"]", "[\"a,b\",\"c\"]"),
            ("[1, 2]", "[\"[1\",\"2]\"]"),
        ] {
            let given = json!({ "query": "SELECT 1", "allowed_tables": list });
            let script = filled("verify_sql", given).unwrap();
            assert!(script.contains(&format!("\nallowed_tables = {expected}\n")), "{script}");
        }
    }

    #[test]
    fn a_formula_runs_no_other_code() {
        let fill = |formula: &str| {
            filled("verify_math", json!({ "expression": "x", "claimed_result": formula }))
        };
        for formula in [
            "2*x^2 + sin(pi*x)/1.5",
            "-(x + 1) * (2, 3)",
            "log (8, 2)*((x))",
            "x = -2, x = 2",
            ".5 + 1. - α_1",
            "15% * 3",
        ] {
            assert!(fill(formula).unwrap().contains(&format!("claimed_result = {formula:?}\n")));
        }
        for code in [
            "exec(chr(120))",
            "(exec)(chr(120))",
            "exec (1)",
            "sin(1)(2)",
            "ｅxec(1)",
            "2(3)",
            "exit()",
            "exec(\"x\")",
            "x.equals",
            "x. equals(0)",
            "().__class__",
            "[1][0]",
            "lambda: 1",
            "{1}",
            "`x`",
            "x; y",
            "'a'",
            "a__b",
            "2 or 3",
            "x = 3 and 2",
            "100 if 0 else 7",
            "not x",
        ] {
            assert_eq!(fill(code), Err(FillError::NotFormula("claimed_result")), "{code}");
        }
    }

    #[test]
    fn optional_values_have_defaults() {
        let given = json!({ "expression": "1 + 1", "claimed_result": "2", "operation": " ", "variable": null });
        let script = filled("verify_math", given).unwrap();
        assert!(script.contains(
            "\nexpression = \"1 + 1\"\nclaimed_result = \"2\"\noperation = \"evaluate\"\n"
        ));
    }

    #[test]
    fn bad_values_are_errors_that_name_the_argument() {
        let known = "contract_value, cap_percentage, claimed_cap".to_owned();
        let with = |claimed_cap: Value| {
            let given =
                json!({ "contract_value": "1", "cap_percentage": "2", "claimed_cap": claimed_cap });
            filled("verify_legal_liability", given).unwrap_err()
        };
        for bad in ["1,000", "007", "NaN", "0x10", "1; print(2)", "1e999", "\"1\""] {
            assert_eq!(with(json!(bad)), FillError::NotNumber("claimed_cap"), "{bad}");
        }
        let given = json!({ "query": "SELECT 1", "allowed_tables": " , ;" });
        assert_eq!(filled("verify_sql", given), Err(FillError::Empty("allowed_tables")));
        assert_eq!(with(json!(5)), FillError::NotText("claimed_cap"));
        assert_eq!(with(json!("")), FillError::Missing("claimed_cap"));
        assert_eq!(
            filled("verify_legal_liability", json!({ "cap": "1" })).unwrap_err(),
            FillError::Unknown { given: "cap".to_owned(), known }
        );
        let given = json!({ "code": "x", "language": "perl" });
        let error = filled("verify_code", given).unwrap_err().to_string();
        assert_eq!(error, "the argument 'language' must be one of: python");
    }
}
