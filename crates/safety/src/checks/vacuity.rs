//! Finds the checks that cannot fail.

/// The reason why a check cannot fail, or why its success proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Vacuity {
    /// The condition is a tuple display, which is true.
    Tuple,
}

impl Vacuity {
    /// Returns the stable identifier of the reason.
    pub fn id(self) -> &'static str {
        match self {
            Self::Tuple => "tuple",
        }
    }
}
