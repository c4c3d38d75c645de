//! Compares the value of a call with the expected value. This module never evaluates anything.
//!
//! A script can send any value instead of the value of the call. The script gains nothing by this, because it does
//! not know the expected value.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::executor::{Data, Int, Kind};

/// The maximum number of characters with which an answer shows a value.
const TEXT_CHARS_MAX: usize = 200;
/// Integers with at most this many hexadecimal digits are shown in decimal. Larger integers are shown in hexadecimal.
const SHOWN_DIGITS_MAX: usize = 32;
/// The number of leading hexadecimal digits by which large integers are compared. An integer with this many digits
/// still fits into a float.
const LEADING_DIGITS: usize = 100;
/// The tolerances of [`Check::IsClose`]: relative to the larger number, and absolute.
const RELATIVE_TOLERANCE: f64 = 1e-6;
const ABSOLUTE_TOLERANCE: f64 = 1e-9;

/// The way in which the value of a call is compared with the expected value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Check {
    /// The value is equal to the expected value, and has the same type. A tuple also equals a list with equal items.
    #[default]
    Equal,
    /// Like `Equal`, but numbers may differ a little, and an integer can equal a float.
    #[serde(rename = "isclose")]
    IsClose,
    /// The value has the same items as the expected value. The order and repetitions of items are ignored.
    Set,
    /// The value has the same items as the expected value, in any order.
    Unordered,
}

impl Check {
    /// Returns whether a value passes the check. `expected` must come from [`Data::expected`].
    pub(super) fn accepts(self, found: &Data, expected: &Data) -> bool {
        match (self, found, expected) {
            (Self::Equal, ..) => matches(found, expected, false),
            (Self::IsClose, ..) => matches(found, expected, true),
            (Self::Set | Self::Unordered, Data::Items(_, found), Data::Items(_, expected)) => {
                let keys = |items: &[Data]| {
                    let mut keys: Vec<_> = items.iter().map(Data::key).collect();
                    keys.sort_unstable();
                    if self == Self::Set {
                        keys.dedup();
                    }
                    keys
                };
                keys(found) == keys(expected)
            }
            (Self::Set | Self::Unordered, ..) => false,
        }
    }

    /// Returns the reason why this check cannot be used with an expected value. `None` if it can be used.
    pub(super) fn fault(self, expected: &Data) -> Option<&'static str> {
        match (self, expected) {
            (Self::Equal | Self::IsClose, _) | (_, Data::Items(..)) => None,
            (Self::Set | Self::Unordered, _) => {
                Some("with the check set or unordered, the value is an array")
            }
        }
    }
}

impl Data {
    /// Converts an expected value from JSON. An array becomes a list, which also equals a tuple with the same items.
    /// This function is recursive, so the caller must already have limited the depth of `json`.
    pub(super) fn expected(json: &RawValue) -> serde_json::Result<Self> {
        let text = json.get();
        Ok(match text.as_bytes() {
            [b'[', ..] => {
                let items: Vec<&RawValue> = serde_json::from_str(text)?;
                Self::Items(
                    Kind::List,
                    items.into_iter().map(Self::expected).collect::<Result<_, _>>()?,
                )
            }
            [b'{', ..] => {
                let entries: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
                let entry = |(key, value): (String, &RawValue)| {
                    Ok((Self::Text(key.into_bytes().into()), Self::expected(value)?))
                };
                Self::Dict(entries.into_iter().map(entry).collect::<serde_json::Result<_>>()?)
            }
            [b'"', ..] => Self::Text(serde_json::from_str::<String>(text)?.into_bytes().into()),
            b"null" => Self::None,
            b"true" => Self::Bool(true),
            b"false" => Self::Bool(false),
            number if number.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => {
                // `parse` accepts every JSON number. A number that is out of range becomes infinite, as in Python.
                Self::Float(text.parse().unwrap_or(f64::NAN))
            }
            _ => Self::Int(Int::of_decimal(text)),
        })
    }

    /// Returns a key for the checks `Set` and `Unordered`: equal values have the same key, and different values have
    /// different keys. `None` if no expected value can equal this value.
    fn key(&self) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        self.add_to(&mut key).then_some(key)
    }

    /// Appends the bytes of [`Self::key`]. Returns `false` if no expected value can equal this value.
    fn add_to(&self, key: &mut Vec<u8>) -> bool {
        let mut add = |tag: u8, content: &[u8]| {
            key.push(tag);
            key.extend_from_slice(&content.len().to_le_bytes());
            key.extend_from_slice(content);
        };
        match self {
            Self::None => add(b'N', b""),
            Self::Bool(value) => add(b'B', &[u8::from(*value)]),
            Self::Int(Int { is_negative, digits }) => {
                add(if *is_negative { b'j' } else { b'i' }, digits.as_bytes());
            }
            Self::Float(value) if value.is_nan() => return false,
            // Adding 0 turns -0.0 into the equal value 0.0, and changes no other value.
            Self::Float(value) => add(b'f', &(value + 0.0).to_le_bytes()),
            Self::Text(text) => add(b's', text),
            Self::Items(Kind::List | Kind::Tuple, items) => {
                add(b'l', &items.len().to_le_bytes());
                return items.iter().all(|item| item.add_to(key));
            }
            Self::Dict(entries) => {
                let Some(entries) = sorted(entries) else { return false };
                add(b'd', &entries.len().to_le_bytes());
                return entries.into_iter().all(|(name, value)| {
                    key.extend_from_slice(&name.len().to_le_bytes());
                    key.extend_from_slice(name);
                    value.add_to(key)
                });
            }
            Self::Bytes(_) | Self::Items(Kind::Set | Kind::FrozenSet, _) | Self::Other(_) => {
                return false;
            }
        }
        true
    }

    /// Returns the value as Python would write it, shortened.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.write_to(&mut text);
        match text.char_indices().nth(TEXT_CHARS_MAX) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        }
    }

    fn write_to(&self, text: &mut String) {
        if text.len() > 4 * TEXT_CHARS_MAX {
            return;
        }
        match self {
            Self::None => text.push_str("None"),
            Self::Bool(value) => text.push_str(if *value { "True" } else { "False" }),
            Self::Int(int) => int.write_to(text),
            Self::Float(value) if value.is_nan() => text.push_str("nan"),
            // Writing to a string does not fail.
            Self::Float(value) => {
                let _ = write!(text, "{value:?}");
            }
            Self::Text(content) => write_quoted(text, content),
            Self::Bytes(content) => {
                text.push('b');
                write_quoted(text, content);
            }
            Self::Items(kind, items) => {
                let (start, end) = match kind {
                    Kind::List => ("[", "]"),
                    Kind::Tuple if items.len() == 1 => ("(", ",)"),
                    Kind::Tuple => ("(", ")"),
                    Kind::Set if items.is_empty() => ("set(", ")"),
                    Kind::Set => ("{", "}"),
                    Kind::FrozenSet => ("frozenset({", "})"),
                };
                text.push_str(start);
                write_all(text, items, |text, item| item.write_to(text));
                text.push_str(end);
            }
            Self::Dict(entries) => {
                text.push('{');
                write_all(text, entries, |text, (key, value)| {
                    key.write_to(text);
                    text.push_str(": ");
                    value.write_to(text);
                });
                text.push('}');
            }
            Self::Other(name) => {
                let name = String::from_utf8_lossy(name);
                let _ = write!(text, "<{}>", name.escape_debug());
            }
        }
    }
}

impl Int {
    /// Converts an integer of JSON.
    fn of_decimal(text: &str) -> Self {
        let digits = text.strip_prefix('-').unwrap_or(text);
        // The 32-bit words of the number, with the least significant word first.
        let mut words: Vec<u32> = Vec::new();
        for digit in digits.bytes() {
            let mut carry = u64::from(digit.wrapping_sub(b'0'));
            for word in &mut words {
                let sum = u64::from(*word) * 10 + carry;
                *word = u32::try_from(sum & 0xffff_ffff).unwrap_or_default();
                carry = sum >> 32;
            }
            if carry > 0 {
                words.extend(u32::try_from(carry));
            }
        }
        let hex = words.iter().rev().fold(String::new(), |hex, word| format!("{hex}{word:08x}"));
        Self::new(text.starts_with('-'), &hex)
    }

    /// Returns the integer without its last `count` hexadecimal digits.
    fn without_last(&self, count: usize) -> Self {
        let kept = self.digits.len().saturating_sub(count);
        Self::new(self.is_negative, self.digits.get(..kept).unwrap_or_default())
    }

    fn to_f64(&self) -> f64 {
        let sum = self.digits.chars().fold(0.0, |sum: f64, digit| {
            sum.mul_add(16.0, f64::from(digit.to_digit(16).unwrap_or_default()))
        });
        if self.is_negative { -sum } else { sum }
    }

    fn write_to(&self, text: &mut String) {
        if self.is_negative {
            text.push('-');
        }
        if self.digits.len() > SHOWN_DIGITS_MAX {
            let _ = write!(text, "0x{}", self.digits.get(..TEXT_CHARS_MAX).unwrap_or(&self.digits));
        } else {
            let number = u128::from_str_radix(&self.digits, 16).unwrap_or_default();
            let _ = write!(text, "{number}");
        }
    }
}

/// Returns whether two values are equal, by type and value. With `is_close`, numbers may differ a little.
fn matches(found: &Data, expected: &Data, is_close: bool) -> bool {
    match (found, expected) {
        (Data::None, Data::None) => true,
        (Data::Bool(found), Data::Bool(expected)) => found == expected,
        (Data::Text(found), Data::Text(expected)) => found == expected,
        (Data::Items(Kind::List | Kind::Tuple, found), Data::Items(_, expected)) => {
            found.len() == expected.len()
                && found
                    .iter()
                    .zip(expected)
                    .all(|(found, expected)| matches(found, expected, is_close))
        }
        (Data::Dict(found), Data::Dict(expected)) => {
            let (Some(found), Some(expected)) = (sorted(found), sorted(expected)) else {
                return false;
            };
            found.len() == expected.len()
                && found.iter().zip(&expected).all(|((key, found), (other, expected))| {
                    key == other && matches(found, expected, is_close)
                })
        }
        (Data::Int(found), Data::Int(expected)) => {
            found == expected || (is_close && are_close_integers(found, expected))
        }
        #[expect(clippy::float_cmp, reason = "equal by value")]
        (Data::Float(found), Data::Float(expected)) if !is_close => found == expected,
        (Data::Float(found), Data::Float(expected)) => are_close(*found, *expected),
        (Data::Int(int), Data::Float(float)) | (Data::Float(float), Data::Int(int)) => {
            // An integer that is too large for a float is not close to any float.
            is_close && int.to_f64().is_finite() && are_close(int.to_f64(), *float)
        }
        _ => false,
    }
}

/// Returns the entries of a dict in the order of their keys. `None` if a key is not a text. Such a dict never equals
/// an expected dict, because JSON keys are texts.
fn sorted(entries: &[(Data, Data)]) -> Option<Vec<(&[u8], &Data)>> {
    let mut sorted = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let Data::Text(key) = key else { return None };
        sorted.push((&**key, value));
    }
    sorted.sort_unstable_by_key(|(key, _)| *key);
    Some(sorted)
}

/// Returns whether two integers are close. Integers that are too large for a float are compared by their leading
/// digits.
fn are_close_integers(one: &Int, other: &Int) -> bool {
    let cut = one.digits.len().max(other.digits.len()).saturating_sub(LEADING_DIGITS);
    are_close(one.without_last(cut).to_f64(), other.without_last(cut).to_f64())
}

fn are_close(found: f64, expected: f64) -> bool {
    let tolerance = ABSOLUTE_TOLERANCE.max(RELATIVE_TOLERANCE * found.abs().max(expected.abs()));
    // If the difference or the tolerance is infinite, the numbers are not close.
    #[expect(clippy::float_cmp, reason = "equal infinities are close")]
    let is_same = found == expected;
    is_same || (tolerance.is_finite() && (found - expected).abs() <= tolerance)
}

fn write_quoted(text: &mut String, content: &[u8]) {
    let shown = content.get(..4 * TEXT_CHARS_MAX).unwrap_or(content);
    text.push('\'');
    text.extend(String::from_utf8_lossy(shown).escape_debug());
    text.push('\'');
}

fn write_all<T>(text: &mut String, items: &[T], write: impl Fn(&mut String, &T)) {
    for (number, item) in items.iter().enumerate().take(TEXT_CHARS_MAX) {
        if number > 0 {
            text.push_str(", ");
        }
        write(text, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::DEPTH_MAX;

    fn expected(json: &str) -> Data {
        Data::expected(&RawValue::from_string(json.to_owned()).unwrap()).unwrap()
    }

    #[test]
    fn values_are_compared_by_type_and_value() {
        for (encoded, json, is_equal, is_close) in [
            ("N", "null", true, true),
            ("T", "true", true, true),
            ("T", "1", false, false),
            ("i1;", "true", false, false),
            ("i1;", "1", true, true),
            ("j1;", "-1", true, true),
            ("j0;", "0", true, true),
            ("i00a;", "10", true, true),
            ("i10000000000000000;", "18446744073709551616", true, true),
            ("i10000000000000001;", "18446744073709551616", false, true),
            ("i3;", "3.0", false, true),
            ("f3.0;", "3", false, true),
            ("f3.0;", "3.0", true, true),
            ("f3.0;", "3e0", true, true),
            ("f3.0000001;", "3.0", false, true),
            ("f3.1;", "3.0", false, false),
            ("f1e-10;", "0", false, true),
            ("f1e-08;", "0", false, false),
            ("f-0.0;", "0.0", true, true),
            ("finf;", "1e999", true, true),
            ("f-inf;", "1e999", false, false),
            ("finf;", "1e300", false, false),
            ("fnan;", "0.0", false, false),
            ("s1:a", "\"a\"", true, true),
            ("b1:a", "\"a\"", false, false),
            ("s2:\u{e9}", "\"\\u00e9\"", true, true),
            ("l2:i1;i2;", "[1, 2]", true, true),
            ("t2:i1;i2;", "[1,2]", true, true),
            ("l2:i2;i1;", "[1,2]", false, false),
            ("l1:i1;", "[1,2]", false, false),
            ("l1:f1.00000001;", "[1]", false, true),
            ("S2:i1;i2;", "[1,2]", false, false),
            ("l0:", "[]", true, true),
            ("d0:", "{}", true, true),
            ("l0:", "{}", false, false),
            ("d2:s1:bi2;s1:ai1;", "{\"a\": 1, \"b\": 2}", true, true),
            ("d1:s1:af1.00000001;", "{\"a\": 1.0}", false, true),
            ("d1:i1;i1;", "{\"1\": 1}", false, false),
            // A Python dict never has the same key twice, but a script can send such data.
            ("d2:s1:ai1;s1:ai1;", "{\"a\": 1, \"b\": 1}", false, false),
            ("o7:Counter", "null", false, false),
            ("l1:o1:x", "[null]", false, false),
        ] {
            let (found, expected) = (Data::decode(encoded.as_bytes()).unwrap(), expected(json));
            let of = |check: Check| check.accepts(&found, &expected);
            assert_eq!(
                (of(Check::Equal), of(Check::IsClose)),
                (is_equal, is_close),
                "{encoded} {json}"
            );
        }
        // Surrogates are not valid UTF-8, so no expected text contains them.
        let surrogate = Data::decode(b"s3:\xed\xa0\x80").unwrap();
        assert!(!Check::Equal.accepts(&surrogate, &expected("\"\u{fffd}\"")));
    }

    #[test]
    fn integers_that_no_float_can_have_are_compared_exactly_or_by_their_first_digits() {
        let power = |exponent: usize| format!("1{}", "0".repeat(exponent));
        let found = |decimal: &str| Data::Int(Int::of_decimal(decimal));
        let googol = power(400);
        for (found, json, is_close) in [
            (found(&googol), &googol, true),
            (found(&format!("1{}1{}", "0".repeat(9), "0".repeat(390))), &googol, true),
            (found(&format!("1{}1{}", "0".repeat(4), "0".repeat(395))), &googol, false),
            (found(&format!("2{}", "0".repeat(400))), &googol, false),
            (found(&format!("-{googol}")), &googol, false),
            (found(&power(310)), &googol, false),
            (found("1"), &googol, false),
            (found(&power(5000)), &"1e400".to_owned(), false),
            (Data::Float(f64::INFINITY), &googol, false),
            (Data::Float(f64::INFINITY), &"1e400".to_owned(), true),
            (Data::Float(1e300), &power(300), true),
        ] {
            let expected = expected(json);
            assert_eq!(Check::IsClose.accepts(&found, &expected), is_close, "{}", found.text());
        }
    }

    #[test]
    fn deep_dicts_are_compared_in_linear_time() {
        // If the comparison copied the remaining value at each level of nesting, this test would take minutes.
        let text = "x".repeat(1_000_000);
        let nested =
            |inner: String| (0..DEPTH_MAX - 1).fold(inner, |inner, _| format!("d1:s1:a{inner}"));
        let found = Data::decode(nested(format!("s1000000:{text}")).as_bytes()).unwrap();
        let json =
            (0..DEPTH_MAX - 1).fold(format!("{text:?}"), |inner, _| format!("{{\"a\":{inner}}}"));
        let expected = expected(&json);
        for check in [Check::Equal, Check::IsClose] {
            assert!((0..100).all(|_| check.accepts(&found, &expected)));
        }
        assert!(found.key() == expected.key());
    }

    #[test]
    fn items_are_compared_without_order_where_that_is_wanted() {
        for (encoded, json, as_set, unordered) in [
            ("S2:i2;i1;", "[1, 2]", true, true),
            ("Z2:i2;i1;", "[1, 2]", true, true),
            ("l3:i2;i1;i1;", "[1, 2]", true, false),
            ("l3:i2;i1;i1;", "[1, 2, 1]", true, true),
            ("l3:i2;i2;i1;", "[1, 2, 1]", true, false),
            ("l2:l2:i1;i2;t1:i3;", "[[3], [1, 2]]", true, true),
            ("l2:d2:s1:bNs1:aTi1;", "[1, {\"a\": true, \"b\": null}]", true, true),
            ("l1:d1:i1;i1;", "[{\"1\": 1}]", false, false),
            ("l1:S1:i1;", "[[1]]", false, false),
            ("l1:l2:i2;i1;", "[[1, 2]]", false, false),
            ("l1:f1.0;", "[1]", false, false),
            ("l1:fnan;", "[]", false, false),
            ("l0:", "[]", true, true),
            ("d1:i1;i1;", "[1]", false, false),
            ("i1;", "[1]", false, false),
        ] {
            let (found, expected) = (Data::decode(encoded.as_bytes()).unwrap(), expected(json));
            let of = |check: Check| check.accepts(&found, &expected);
            assert_eq!((of(Check::Set), of(Check::Unordered)), (as_set, unordered), "{encoded}");
        }
        assert!(Check::Set.fault(&expected("1")).is_some());
        assert!(Check::Unordered.fault(&expected("[]")).is_none());
    }

    #[test]
    fn every_value_has_a_text_and_a_key() {
        let valid = b"d2:s1:al4:i1f;j2;f1.5;b2:\xff;NS1:t1:Zo1:x".to_vec();
        for index in 0..valid.len() {
            for byte in [b'0', b'9', b';', b':', b'l', 0xff] {
                let mut other = valid.clone();
                other[index] = byte;
                // Invalid data must not cause a panic.
                let _ = Data::decode(&other).map(|data| (data.text(), data.key()));
            }
        }
    }

    #[test]
    fn values_are_shown_as_python_writes_them() {
        for (encoded, text) in [
            ("l4:NTFj1f;", "[None, True, False, -31]"),
            ("t1:f2.0;", "(2.0,)"),
            ("t2:fnan;f-inf;", "(nan, -inf)"),
            ("d1:s1:'b1:\n", "{'\\'': b'\\n'}"),
            ("S0:", "set()"),
            ("Z1:S1:N", "frozenset({{None}})"),
            ("o3:a\u{7}b", "<a\\u{7}b>"),
            ("i10000000000000000;", "18446744073709551616"),
        ] {
            assert_eq!(Data::decode(encoded.as_bytes()).unwrap().text(), text, "{encoded}");
        }
        let long = format!("l3000:{}", "i1;".repeat(3000));
        let large = format!("i{};", "f".repeat(100_000));
        let text = format!("s100000:{}", "x".repeat(100_000));
        for encoded in [long, large, text] {
            let shown = Data::decode(encoded.as_bytes()).unwrap().text();
            assert!(shown.ends_with('…') && shown.chars().count() == TEXT_CHARS_MAX + 1, "{shown}");
        }
    }
}
