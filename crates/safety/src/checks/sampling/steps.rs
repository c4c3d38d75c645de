//! The steps of a condition, and their values.

use ruff_python_ast::{CmpOp, Operator};

use super::super::values::Id;

/// The numbers that an unknown value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Domain {
    Any,
    Integer,
    /// Integers from zero.
    Count,
    /// Numbers from zero.
    Size,
    /// Integers between two others, or numbers from zero to one.
    Integers(u8, u8),
    Share,
    Bool,
    Many,
    Text,
}

/// The computation of a step from the values of other steps.
#[derive(Debug, Clone, Copy)]
pub(super) enum Function {
    Arithmetic(Operator),
    /// A remainder of a division by a literal.
    Remainder,
    /// A power with an even literal as its exponent.
    EvenPower,
    Negative,
    Not,
    And,
    Or,
    IfElse,
    Compare(CmpOp),
    Choose(u32),
    /// An element of a collection, or an index in it.
    Element(u32),
    Sequence,
    /// The element of a comprehension, and its conditions.
    Comprehension,
    Range,
    All,
    Any,
    Sum,
    Min,
    Max,
    Mean,
    Count,
    Distinct,
    DistinctCount,
    Same,
    Math(fn(f64) -> f64),
    Quotient,
    Round,
    CopySign,
    Power,
    Hypot,
    Combinations,
    Quantize,
    /// The number of decimals, and whether the number is a percentage.
    Formatted(usize, bool),
    /// The values, the relative and the absolute tolerance.
    IsClose,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Literal(Literal),
    Known(Value),
    Unknown(Domain),
    Of(Function, Box<[usize]>),
}

/// A number literal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Literal {
    pub(super) number: f64,
    pub(super) is_integer: bool,
    /// Whether a name, a parameter or an element has this value.
    pub(super) is_input: bool,
}

/// The value of a step in a sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(f64),
    Bool(bool),
    /// A literal that is not a number, by its number in `Values`.
    Literal(Id),
    Sequence(Vec<Self>),
    /// A number as a text.
    Text(String),
    /// A collection of `count` numbers from `low` to `high`.
    Many {
        low: f64,
        high: f64,
        count: f64,
    },
}
