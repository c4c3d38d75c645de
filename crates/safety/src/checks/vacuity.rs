//! Lists the reasons why a check cannot fail, with their explanations. Never judges a check.

/// A reason why a check cannot fail, or why its success proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Vacuity {
    /// The condition is a tuple display.
    Tuple,
    /// The condition reads only literals.
    Constant,
    /// The condition compares a value with itself, or with a value that is computed in the same way.
    SameValue,
    /// The condition is an object that is always true.
    TrueObject,
    /// The condition follows from the types of its values, or from how the script computes them.
    AlwaysTrue,
    /// One operand of an `or` always holds.
    OrTrue,
    /// The tolerance accepts any plausible value.
    Tolerance,
    /// Rounding removes the difference that the check is about.
    Rounding,
    /// The script catches the failure, and still ends successfully.
    Swallowed,
    /// The script replaces the assertion function by a function that cannot fail.
    Replaced,
    /// The condition is about the elements of an empty collection.
    Empty,
    /// The condition depends only on whether an exception was raised.
    NoException,
    /// The premises of a proof contradict each other.
    Premises,
    /// The condition also held in variants of the script with other numbers. Only runs of variants find this reason.
    Unchanged,
}

/// The reasons, with their identifiers and explanations.
#[rustfmt::skip]
const REASONS: [(Vacuity, &str, &str); 14] = [
    (Vacuity::Tuple, "tuple", "it asserts a tuple, which is always true; remove the parentheses"),
    (Vacuity::Constant, "constant", "it reads only literals; assert a computed value"),
    (Vacuity::SameValue, "same-value", "it compares a value with itself; compare it with the claim"),
    (Vacuity::TrueObject, "true-object", "it asserts an object that is always true; assert a comparison"),
    (Vacuity::AlwaysTrue, "always-true", "it holds for every value of this kind; compare with the claim"),
    (Vacuity::OrTrue, "or-true", "one side of the `or` always holds"),
    (Vacuity::Tolerance, "tolerance", "its tolerance accepts any plausible value"),
    (Vacuity::Rounding, "rounding", "it rounds until nothing is left to compare"),
    (Vacuity::Swallowed, "swallowed", "its failure is caught, and the script still ends successfully"),
    (Vacuity::Replaced, "replaced", "the script replaces this assertion by a function that cannot fail"),
    (Vacuity::Empty, "empty", "it is about the elements of an empty collection"),
    (Vacuity::NoException, "no-exception", "it holds if nothing was raised; assert the result"),
    (Vacuity::Premises, "premises", "its premises contradict each other"),
    (Vacuity::Unchanged, "unchanged", "it also holds with other numbers in the script; compare with the claim"),
];

impl Vacuity {
    /// Returns all reasons.
    pub fn all() -> impl Iterator<Item = Self> {
        REASONS.iter().map(|(reason, ..)| *reason)
    }

    /// Returns the stable identifier of the reason.
    pub fn id(self) -> &'static str {
        self.row().1
    }

    /// Returns the explanation for the author of the script, as a clause about the check: "it reads only literals".
    pub fn why(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> &'static (Self, &'static str, &'static str) {
        let first = &REASONS[0];
        REASONS.iter().find(|(reason, ..)| *reason == self).unwrap_or(first)
    }
}
