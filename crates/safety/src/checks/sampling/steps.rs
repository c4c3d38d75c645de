//! Defines the steps from which a sample computes a condition, and the values of the steps.

use ruff_python_ast::{CmpOp, Operator};

use super::super::values::Id;

/// The range from which a sample draws an unknown value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Domain {
    Any,
    Integer,
    /// Integers that are not negative.
    Count,
    /// Numbers that are not negative.
    Size,
    /// Integers from the first number to the second.
    Integers(u8, u8),
    /// Numbers from 0 to 1.
    Share,
    Bool,
    /// A collection of numbers.
    Many,
    /// A string that differs from all other strings.
    Text,
}

/// The function that computes a step from the values of other steps.
#[derive(Debug, Clone, Copy)]
pub(super) enum Function {
    Arithmetic(Operator),
    /// The remainder of a division by a positive literal.
    Remainder,
    /// A power with an even literal as its exponent.
    EvenPower,
    Negative,
    Not,
    And,
    Or,
    IfElse,
    Compare(CmpOp),
    /// One of the operands, as the value of a loop variable. The number identifies the loop.
    Choose(u32),
    /// An element of a collection. The number identifies the loop.
    Element(u32),
    Sequence,
    /// Operands: the element of a comprehension, and the conditions of the comprehension.
    Comprehension,
    Range,
    All,
    Any,
    Sum,
    Min,
    Max,
    Mean,
    Count,
    /// The distinct elements of a collection.
    Distinct,
    /// The number of distinct elements of a collection. The operand is the length of the collection.
    DistinctCount,
    /// The value of the operand.
    Same,
    Math(fn(f64) -> f64),
    Quotient,
    Round,
    CopySign,
    Power,
    Hypot,
    Combinations,
    Quantize,
    /// A number that is formatted as a text. Contains the number of decimals, and whether the text is a percentage.
    Formatted(usize, bool),
    /// Operands: the two compared values, the relative tolerance, and the absolute tolerance.
    IsClose,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Literal(Literal),
    Known(Value),
    Unknown(Domain),
    Of(Function, Box<[usize]>),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Literal {
    pub(super) number: f64,
    pub(super) is_integer: bool,
    /// Whether this literal is the value of a name, a parameter or an element.
    pub(super) is_input: bool,
}

/// The value of a step in a sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(f64),
    Bool(bool),
    /// A literal that is not a number, by its `Id`.
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
