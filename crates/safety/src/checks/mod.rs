//! Finds the checks of a script: the places where a condition can end the script unsuccessfully. Never refuses a
//! script, and never runs any of its code.
//!
//! | file | responsibility |
//! |---|---|
//! | `imports` | resolves names to the modules and members that the script imports |
//! | `sites` | finds the checks, and the statements in which a run counts them |
//! | `one_line` | writes a condition on one line |
//! | `interpret` | follows the script's values to the checks |
//! | `values` | numbers the values of expressions |
//! | `judge` | judges whether a condition always has the same truth value |
//! | `sampling` | judges conditions by computing them with other numbers |
//! | `premises` | judges whether the constraints of a solver contradict each other |
//! | `flags`, `influence` | answer questions about statements and names by their syntax |
//! | `vacuity` | the reasons why a check cannot fail |

mod flags;
mod imports;
mod influence;
mod interpret;
mod judge;
mod one_line;
mod premises;
mod sampling;
mod sites;
#[cfg(test)]
mod tests;
mod vacuity;
mod values;

pub(super) use sites::find;
pub use vacuity::Vacuity;

use std::fmt;

/// A place where a condition can end the script unsuccessfully.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct Check {
    /// The form of the check.
    pub kind: CheckKind,
    /// The number of the line on which the statement of the check begins, counted from 1.
    pub line: usize,
    /// The condition as it is written in the source, on one line with the same meaning. Runs of white space outside of
    /// string literals are one space. Line breaks in string literals are escaped.
    pub text: String,
    /// Whether a failure raises an `AssertionError` or exits. False if it raises another exception, which is control
    /// flow if the script catches it.
    pub is_assertion: bool,
    /// Whether the check holds if the code before it fails with an `AssertionError`.
    pub requires_failure: bool,
    /// The reason why the check cannot fail; `None` if it can.
    pub vacuous: Option<Vacuity>,
    /// Whether the check is about all elements of a collection that the script generates, for example a range. Then the
    /// same check with other numbers can hold too.
    pub is_general: bool,
    /// Whether the check is about the elements of a collection. The third counter then counts the elements, and the
    /// check proves nothing if there are none.
    pub counts_elements: bool,
    /// The changes of the syntax tree with which a run counts how often the check held or failed.
    pub edits: Vec<Edit>,
}

/// The form of a check, which determines how the first two of the three counters of a run are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CheckKind {
    /// An `assert`. The first counter counts successes, the second one failures.
    Assert,
    /// An `assert` of a tuple display, which cannot fail. The first counter counts executions.
    Tuple,
    /// A branch that raises or exits if its condition is true. The first counter counts failures, the second one
    /// successes.
    FailsIf,
    /// A branch that raises or exits if its condition is false. The first counter counts successes, the second one
    /// failures.
    FailsUnless,
    /// A raise or an exit that other statements skip, for example in the `else` of a loop. The first counter counts
    /// failures, the second one successes.
    Skipped,
    /// A call of an assertion function, for example `numpy.testing.assert_allclose`. The first counter counts calls,
    /// the second one successes.
    Call,
    /// An exit with a computed status. The first counter counts statuses that are 0 or `None`, the second one others.
    Exit,
}

/// One change of `CPython`'s syntax tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The way from the module to the statement, in the fields of `CPython`'s module `ast`: `b` for `body`, `o` for
    /// `orelse`, `f` for `finalbody`, `h` for `handlers` and `c` for `cases`, each with an index. For example `b3.o0`.
    pub path: String,
    /// The change at the statement.
    pub action: Action,
}

/// The change at one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Counts whether the statement's test is true (first counter) or false (second counter).
    CountTest,
    /// Like [`CountTest`](Self::CountTest), for a test that is true if the check fails.
    CountFailingTest,
    /// Counts with the first counter before the statement.
    CountBefore,
    /// Counts with the second counter after the statement.
    CountAfter,
    /// Counts with the third counter each time an expression in a comprehension of the statement is evaluated. The
    /// path ends with `@` and the expression's start and end, each as a line from 1 and a column in bytes from 0.
    CountElement,
    /// Counts whether the first argument of the statement's call is 0 or `None` (first counter), or another value
    /// (second counter).
    CountStatus,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CountTest => "t",
            Self::CountFailingTest => "f",
            Self::CountBefore => "x",
            Self::CountAfter => "y",
            Self::CountStatus => "a",
            Self::CountElement => "e",
        })
    }
}

/// Returns the plan by which a run counts `checks`: the number of checks, and for each edit its action, the index of its
/// check, a colon and its path, all separated by spaces. Edits that insert nothing into lists of statements are first.
/// The others are in reverse source order, so that no edit changes the path of a later one. Empty if there are no
/// checks.
pub fn check_plan(checks: &[Check]) -> String {
    if checks.is_empty() {
        return String::new();
    }
    let edits = |is_first: bool| {
        checks.iter().enumerate().rev().flat_map(move |(index, check)| {
            let of_check = check.edits.iter().rev();
            let chosen =
                of_check.filter(move |edit| (edit.action == Action::CountElement) == is_first);
            chosen.map(move |edit| format!(" {}{index}:{}", edit.action, edit.path))
        })
    };
    std::iter::once(checks.len().to_string()).chain(edits(true)).chain(edits(false)).collect()
}
