//! Finds the checks of a script. A check is a statement that can end the script unsuccessfully, depending on a
//! condition. Never refuses a script, and never runs any of its code.
//!
//! | file | responsibility |
//! |---|---|
//! | `imports` | resolves names to the modules and members that the script imports |
//! | `sites` | finds the checks, and the edits that make a run count them |
//! | `one_line` | writes a condition on one line |
//! | `interpret` | follows the script's values to the checks |
//! | `values` | numbers values: expressions with the same number have the same value |
//! | `judge` | judges whether a condition always has the same truth value |
//! | `sampling` | judges conditions by computing them with other numbers |
//! | `premises` | judges whether the constraints of a solver contradict each other |
//! | `repeatable` | finds scripts whose checks a run can count without an edit |
//! | `flags`, `influence` | answer questions about statements and names from their syntax alone |
//! | `vacuity` | the reasons why a check cannot fail |

mod flags;
mod imports;
mod influence;
mod interpret;
mod judge;
mod one_line;
mod premises;
mod repeatable;
mod sampling;
mod sites;
#[cfg(test)]
mod tests;
mod vacuity;
mod values;

pub(super) use sites::find;
pub use vacuity::Vacuity;

use std::fmt;

/// A statement that can end the script unsuccessfully, depending on a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// The form of the check.
    pub kind: CheckKind,
    /// The line on which the check begins, counted from 1.
    pub line: usize,
    /// The source of the condition, on one line with the same meaning. Runs of white space outside of string literals
    /// become one space. Line breaks in string literals are escaped.
    pub text: String,
    /// How a failure of the check ends the script.
    pub fails_by: FailsBy,
    /// Whether the check holds only if other code fails with an `AssertionError` or a `SystemExit`, as
    /// `pytest.raises(AssertionError)` does. `pytest.raises(Exception)` also holds if another exception is raised, so
    /// the value is false.
    pub requires_failure: bool,
    /// The reason why the check cannot fail; `None` if no reason is known.
    pub vacuous: Option<Vacuity>,
    /// Whether the check may be about all elements of a collection that the script generates, for example a range. Such
    /// a check can test its claim, although it also holds with other numbers in the script.
    pub is_general: bool,
    /// Whether the check is about the elements of a collection. The third counter of the check then counts the
    /// elements. If a run counts no elements, the check proves nothing.
    pub counts_elements: bool,
    /// The edits of the syntax tree that make a run count how often the check holds or fails.
    pub edits: Vec<Edit>,
}

/// How the failure of a check ends a script, unless the script catches the exception.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailsBy {
    /// Raises an `AssertionError`.
    AssertionError,
    /// Raises `SystemExit`.
    SystemExit,
    /// Ends the process by `os._exit`, which no handler can catch.
    EndOfProcess,
    /// Raises another exception. Contains the qualified name of the exception's class, if the name is known. A script
    /// may use such exceptions as control flow.
    OtherException(Option<String>),
}

/// The form of a check. A run has three counters for each check, and the form determines the meaning of the first two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CheckKind {
    /// An `assert`. The first counter counts successes, the second counts failures.
    Assert,
    /// An `assert` of a tuple display, which cannot fail. The first counter counts executions.
    Tuple,
    /// A branch that raises or exits if its condition is true. The first counter counts failures, the second counts
    /// successes.
    FailsIf,
    /// A branch that raises or exits if its condition is false. The first counter counts successes, the second counts
    /// failures.
    FailsUnless,
    /// A raise or an exit that the script does not reach if the check holds, for example in the `else` of a loop. The
    /// first counter counts failures, the second counts successes.
    Skipped,
    /// A call of an assertion function, for example `numpy.testing.assert_allclose`. The first counter counts calls,
    /// the second counts successes.
    Call,
    /// An exit with a computed status. The first counter counts statuses that are 0 or `None`, the second counts all
    /// others.
    Exit,
}

/// One edit of the script's syntax tree in `CPython`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The path from the module to the statement, for example `b3.o0`. Each step is a field of a node in `CPython`'s
    /// module `ast`, and an index: `b` for `body`, `o` for `orelse`, `f` for `finalbody`, `h` for `handlers` and `c`
    /// for `cases`. For [`Action::Infer`], the first and the last line of the statement, for example `3-4`.
    pub path: String,
    /// The change that the edit makes to the statement.
    pub action: Action,
}

/// The change that an edit makes to one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Counts true results of the statement's test with the first counter, and false results with the second.
    CountTest,
    /// Like [`CountTest`](Self::CountTest), for a test that is true if the check fails.
    CountFailingTest,
    /// Increments the first counter before the statement.
    CountBefore,
    /// Increments the second counter after the statement.
    CountAfter,
    /// Increments the third counter each time that Python evaluates an expression in a comprehension of the statement.
    /// [`Edit::path`] then ends with `@` and the positions of the expression's start and end, for example `b0@1-31-1-37`. Each position is
    /// a line, counted from 1, and a column in bytes, counted from 0.
    CountElement,
    /// Increments the first counter if the first argument of the statement's call is 0 or `None`. Increments the
    /// second counter if it is not.
    CountStatus,
    /// Changes nothing. Either all checks of a script have this action, or no check has this action. The statement is
    /// executed at most once, so the line at which the script ends determines whether the check held.
    Infer,
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
            Self::Infer => "i",
        })
    }
}

/// Returns the plan by which a run counts `checks`, for example `2 t1:b0.o0.o0 f0:b0.o0`. The plan starts with the
/// number of checks. For each edit, it then contains the letter of the action, the index of the check, a colon and the
/// path. [`Action::CountElement`] edits come first. The other edits are in reverse source order, so an inserted
/// statement does not change the path of a later edit in the plan. The plan is empty if there are no checks.
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
