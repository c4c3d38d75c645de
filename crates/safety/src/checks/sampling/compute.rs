//! Computes a condition for one sample, by computing the steps into which `plan` has converted the condition. A sample
//! replaces literals and unknown values by pseudo-random values.

#![expect(clippy::wildcard_enum_match_arm, reason = "other values are not computed")]

use ruff_python_ast::{CmpOp, Operator};

use super::super::values::{self, Id};
use super::Mode;
use super::steps::{Domain, Function, Literal, Value};

/// The relative difference up to which two numbers are treated as equal in a sample.
const SAME: f64 = 1e-9;

/// Generates pseudo-random numbers that depend only on the index of a step and the index of a sample.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(place: usize, round: u32) -> Self {
        let place = u64::try_from(place).unwrap_or_default();
        Self((place << 32 | u64::from(round)).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D)
    }

    /// Returns a number from 0 to 1, by the generator `SplitMix64`.
    pub(super) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let high = u32::try_from((bits ^ (bits >> 31)) >> 32).unwrap_or_default();
        f64::from(high) / f64::from(u32::MAX)
    }

    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.next()
    }
}

/// Returns the number that replaces a literal in a sample.
pub(super) fn changed(literal: Literal, mode: Mode, random: &mut Random) -> f64 {
    let Literal { number, is_integer, is_input } = literal;
    if mode == Mode::Wide {
        let sign = if is_input && random.next() < 0.3 { -1.0 } else { 1.0 };
        let other = number * sign * 10_f64.powf(random.between(-3.0, 3.0));
        return if is_integer { away_from_zero(other) } else { other };
    }
    let exponent = if mode == Mode::All { 1.0 } else { 0.5 };
    let other = number * 2_f64.powf(random.between(-exponent, exponent));
    match is_integer {
        true if number.abs() < 5.0 => number + number.signum() * random.between(0.51, 3.49).round(),
        true => away_from_zero(other),
        false => other,
    }
}

fn away_from_zero(number: f64) -> f64 {
    number.signum() * number.abs().ceil()
}

/// Returns the value that replaces an unknown value in a sample.
pub(super) fn drawn(domain: Domain, mode: Mode, place: usize, random: &mut Random) -> Value {
    let special = random.next();
    let mut number = || {
        let magnitude =
            10_f64.powf(random.between(-2.0, if mode == Mode::Wide { 7.0 } else { 3.0 }));
        let sign = if mode == Mode::Wide && random.next() < 0.5 { -1.0 } else { 1.0 };
        match special {
            it if it < 0.1 => 0.0,
            it if mode == Mode::Wide && it < 0.2 => sign,
            _ => magnitude * sign,
        }
    };
    match domain {
        Domain::Any => Value::Number(number()),
        Domain::Integer => Value::Number(away_from_zero(number())),
        Domain::Count => Value::Number(number().abs().floor()),
        Domain::Size => Value::Number(number().abs()),
        Domain::Share => Value::Number(random.next()),
        Domain::Integers(low, high) => {
            Value::Number(random.between(f64::from(low) - 0.49, f64::from(high) + 0.49).round())
        }
        Domain::Bool => Value::Bool(special < 0.5),
        Domain::Text => Value::Literal(Id::MAX - Id::try_from(place).unwrap_or_default()),
        Domain::Many => {
            let low = number();
            let high = low + low.abs() * random.between(0.0, 3.0);
            let count = random.between(0.0, 12.0).floor();
            Value::Many { low, high, count }
        }
    }
}

pub(super) fn truth_of(value: &Value) -> Option<bool> {
    Some(match value {
        Value::Number(number) => *number != 0.0,
        Value::Bool(truth) => *truth,
        Value::Literal(_) => return None,
        Value::Text(text) => !text.is_empty(),
        Value::Sequence(items) => !items.is_empty(),
        Value::Many { count, .. } => *count > 0.0,
    })
}

fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(*number),
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        _ => None,
    }
}

fn is_near(left: f64, right: f64) -> bool {
    // Equal infinities have equal bits, but their difference is NaN.
    left.to_bits() == right.to_bits() || (left - right).abs() <= SAME * left.abs().max(right.abs())
}

/// Returns the minimum, the maximum and the count of the numbers in a collection.
fn collection(value: &Value) -> Option<(f64, f64, f64)> {
    match value {
        Value::Many { low, high, count } => Some((*low, *high, *count)),
        Value::Sequence(items) => {
            let numbers: Vec<f64> = items.iter().map(number_of).collect::<Option<_>>()?;
            let low = numbers.iter().copied().reduce(f64::min).unwrap_or_default();
            let high = numbers.iter().copied().reduce(f64::max).unwrap_or_default();
            let count = u32::try_from(numbers.len()).ok()?;
            Some((low, high, f64::from(count)))
        }
        _ => None,
    }
}

#[expect(clippy::too_many_lines, reason = "an arm for each function")]
pub(super) fn computed(
    function: Function,
    operands: &[&Value],
    mode: Mode,
    round: u32,
    random: &mut Random,
) -> Option<Value> {
    let first = *operands.first()?;
    let number = |place: usize| number_of(operands.get(place)?);
    let truths = || operands.iter().map(|it| truth_of(it)).collect::<Option<Vec<bool>>>();
    Some(match function {
        Function::Arithmetic(operator) => {
            Value::Number(arithmetic(operator, number(0)?, number(1)?)?)
        }
        // Draw the remainder at random. Otherwise a theorem about remainders would hold in all samples, and be reported
        // as always true.
        Function::Remainder if mode == Mode::Wide => {
            number(0)?;
            Value::Number(random.between(0.0, number(1)?).floor())
        }
        Function::Remainder => Value::Number(arithmetic(Operator::Mod, number(0)?, number(1)?)?),
        Function::EvenPower if mode == Mode::Wide => {
            Value::Number(number(0)?.abs().powf(number(1)?))
        }
        Function::EvenPower | Function::Power => Value::Number(number(0)?.powf(number(1)?)),
        Function::Negative => Value::Number(-number(0)?),
        Function::Not => Value::Bool(!truth_of(first)?),
        Function::And => Value::Bool(truths()?.into_iter().all(|it| it)),
        Function::Or => Value::Bool(truths()?.into_iter().any(|it| it)),
        Function::IfElse => operands.get(if truth_of(first)? { 1 } else { 2 }).copied()?.clone(),
        Function::Compare(op) => Value::Bool(compare(op, first, operands.get(1)?)?),
        Function::Choose(number) => chosen(operands, number, round)?,
        Function::Element(number) => element(first, number, round)?,
        Function::Sequence => Value::Sequence(operands.iter().map(|it| (*it).clone()).collect()),
        Function::Comprehension => {
            let is_taken = truths_of(operands.get(1..)?)?;
            let count = if is_taken { random.between(1.0, 12.0).floor() } else { 0.0 };
            // All elements of the collection have the same sign as the known element.
            let it = number_of(first)?;
            let (one, other) = (it * random.next(), it * random.between(1.0, 4.0));
            Value::Many { low: one.min(other), high: one.max(other), count }
        }
        Function::Range => {
            let (low, high) =
                if operands.len() == 1 { (0.0, number(0)?) } else { (number(0)?, number(1)?) };
            Value::Many { low, high: high - 1.0, count: (high - low).max(0.0).ceil() }
        }
        Function::All | Function::Any => match first {
            Value::Sequence(items) => {
                let items: Vec<&Value> = items.iter().collect();
                let truths: Vec<bool> = items.into_iter().map(truth_of).collect::<Option<_>>()?;
                Value::Bool(match function {
                    Function::All => truths.into_iter().all(|it| it),
                    _ => truths.into_iter().any(|it| it),
                })
            }
            _ => return None,
        },
        Function::Sum if matches!(first, Value::Sequence(_)) => {
            let Value::Sequence(items) = first else { return None };
            Value::Number(items.iter().map(number_of).sum::<Option<f64>>()?)
        }
        Function::Sum => {
            let (low, high, count) = collection(first)?;
            Value::Number(random.between(low, high) * count)
        }
        Function::Mean => {
            let (low, high, _) = collection(first)?;
            Value::Number(random.between(low, high))
        }
        Function::Min | Function::Max if operands.len() > 1 => {
            let all: Vec<f64> = operands.iter().map(|it| number_of(it)).collect::<Option<_>>()?;
            Value::Number(all.into_iter().reduce(match function {
                Function::Min => f64::min,
                _ => f64::max,
            })?)
        }
        Function::Min => Value::Number(collection(first)?.0),
        Function::Max => Value::Number(collection(first)?.1),
        Function::Count => Value::Number(collection(first)?.2),
        Function::Distinct => {
            let (low, high, count) = collection(first)?;
            let count = if count > 1.0 { random.between(1.0, count + 0.99).floor() } else { count };
            Value::Many { low, high, count }
        }
        Function::DistinctCount => Value::Number(random.between(0.0, number(0)?).ceil()),
        Function::Same => first.clone(),
        Function::Math(function) => Value::Number(function(number(0)?)),
        Function::Quotient => Value::Number(number(0)? / number(1)?),
        Function::Round => {
            let digits = if operands.len() > 1 { number(1)?.round() } else { 0.0 };
            let scale = 10_f64.powf(digits);
            Value::Number((number(0)? * scale).round_ties_even() / scale)
        }
        Function::CopySign => Value::Number(number(0)?.abs().copysign(number(1)?)),
        Function::Hypot => Value::Number(number(0)?.hypot(number(1)?)),
        Function::Combinations => {
            let (all, mut of) = (number(0)?.round(), number(1)?.round());
            let mut product = 1.0;
            while of >= 1.0 && product != 0.0 {
                product *= (all - of + 1.0).max(0.0) / of;
                of -= 1.0;
                if of > 100.0 {
                    return None;
                }
            }
            Value::Number(product)
        }
        Function::Quantize => {
            let unit = number(1)?.abs();
            Value::Number((number(0)? / unit).trunc() * unit)
        }
        Function::Formatted(decimals, is_percentage) => {
            let scale = if is_percentage { 100.0 } else { 1.0 };
            Value::Text(format!("{:.decimals$}", number(0)? * scale))
        }
        Function::IsClose => {
            let (left, right) = (number(0)?, number(1)?);
            let near = (number(2)? * left.abs().max(right.abs())).max(number(3)?);
            Value::Bool(is_near(left, right) || (left - right).abs() <= near)
        }
    })
}

fn truths_of(values: &[&Value]) -> Option<bool> {
    let truths: Vec<bool> = values.iter().map(|it| truth_of(it)).collect::<Option<_>>()?;
    Some(truths.into_iter().all(|it| it))
}

/// Returns a random operand. Within a sample, all choices with the same `number` return the operand at the same index.
fn chosen(operands: &[&Value], number: u32, round: u32) -> Option<Value> {
    let count = u32::try_from(operands.len()).ok()?;
    let mut random = Random::new(usize::try_from(number).ok()?, round.wrapping_add(7919));
    let at = random.between(0.0, f64::from(count)).floor();
    let place = (0..count).find(|it| f64::from(*it) >= at).unwrap_or_default();
    operands.get(usize::try_from(place).ok()?.min(operands.len() - 1)).map(|it| (*it).clone())
}

fn element(of: &Value, number: u32, round: u32) -> Option<Value> {
    match of {
        Value::Sequence(items) => {
            let items: Vec<&Value> = items.iter().collect();
            chosen(&items, number, round)
        }
        Value::Many { low, high, .. } => {
            let mut random =
                Random::new(usize::try_from(number).ok()?, round.wrapping_add(104_729));
            let is_integer = low.fract() == 0.0 && high.fract() == 0.0;
            let drawn = random.between(*low, *high);
            Some(Value::Number(if is_integer { drawn.round() } else { drawn }))
        }
        // The elements of other values are unknown.
        _ => None,
    }
}

fn arithmetic(operator: Operator, left: f64, right: f64) -> Option<f64> {
    if matches!(operator, Operator::Div | Operator::FloorDiv | Operator::Mod) && right == 0.0 {
        return None;
    }
    values::arithmetic(operator, left, right)
}

pub(super) fn compare(op: CmpOp, left: &Value, right: &Value) -> Option<bool> {
    let is_equal = match op {
        CmpOp::Eq => true,
        CmpOp::NotEq => false,
        _ => {
            let (left, right) = (number_of(left)?, number_of(right)?);
            return Some(match op {
                CmpOp::Lt => left < right,
                CmpOp::LtE => left <= right || is_near(left, right),
                CmpOp::Gt => left > right,
                CmpOp::GtE => left >= right || is_near(left, right),
                _ => return None,
            });
        }
    };
    let same = match (left, right) {
        (Value::Sequence(one), Value::Sequence(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len()
                && pairs.all(|(one, other)| compare(CmpOp::Eq, one, other) == Some(true))
        }
        (Value::Many { count, .. }, Value::Sequence(items))
        | (Value::Sequence(items), Value::Many { count, .. }) => items.is_empty() && *count == 0.0,
        _ => match (number_of(left), number_of(right)) {
            (Some(left), Some(right)) => is_near(left, right),
            _ => left == right,
        },
    };
    Some(same == is_equal)
}
