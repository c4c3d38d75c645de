//! Converts the value that a script assigns to `result` to JSON, for programs that call the server.
//!
//! `python/values.py` encodes the value when the script has ended. A script can also write another value to the same
//! pipe (`side_channel`). A forged value does no harm, because the script chooses the value anyway.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};

use super::data::{Data, Int, Kind, NotData};

/// The maximum size of the value as JSON, in bytes.
const JSON_BYTES_MAX: usize = 64 * 1024;

/// The maximum size of the value as `python/values.py` encodes it. The JSON of a larger value is larger than
/// [`JSON_BYTES_MAX`].
pub(super) const ENCODED_BYTES_MAX: usize = 2 * JSON_BYTES_MAX;

/// The largest integer up to which JSON readers represent all integers exactly: 2 to the power of 53 (RFC 8259,
/// section 6).
const INTEGER_MAX: u128 = 1 << 53;

/// The maximum number of hexadecimal digits of an integer. Such an integer has at most 4300 decimal digits, which is
/// Python's default limit for reading integers.
const DIGITS_MAX: usize = 3571;

/// The key of the object that stands for an integer above [`INTEGER_MAX`]. The value of this key is the integer in
/// decimal digits.
const INTEGER_KEY: &str = "$int";

/// The value that a script assigned to `result`, or the reason why the value is missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Returned {
    /// The value as JSON.
    Value(Value),
    /// The reason why the value is missing: JSON cannot represent it, or it is too large.
    Omitted(String),
}

impl Returned {
    /// Converts the value to JSON. `encoded` is the value as `python/values.py` encodes it.
    pub(super) fn decode(encoded: &[u8]) -> Self {
        if encoded.len() > ENCODED_BYTES_MAX {
            return Self::Omitted(too_large());
        }
        let json = Data::decode(encoded).map_err(|error| match error {
            NotData::TooLarge => too_large(),
            NotData::TooDeep | NotData::Invalid => error.to_string(),
        });
        match json.and_then(json_of) {
            Ok(value) if value.to_string().len() <= JSON_BYTES_MAX => Self::Value(value),
            Ok(_) => Self::Omitted(too_large()),
            Err(reason) => Self::Omitted(reason),
        }
    }

    /// Returns the approximate size of the value or the reason, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Value(value) => value.to_string().len(),
            Self::Omitted(reason) => reason.len(),
        }
    }

    /// Returns the value, or the reason why it is missing. The other element is `None`.
    pub(crate) fn parts(self) -> (Option<Value>, Option<String>) {
        match self {
            Self::Value(value) => (Some(value), None),
            Self::Omitted(reason) => (None, Some(reason)),
        }
    }
}

fn too_large() -> String {
    format!("the value is larger than {} KiB", JSON_BYTES_MAX / 1024)
}

fn json_of(data: Data) -> Result<Value, String> {
    Ok(match data {
        Data::None => Value::Null,
        Data::Bool(value) => value.into(),
        Data::Int(int) => json_of_integer(&int)?,
        Data::Float(value) => {
            let number = Number::from_f64(value);
            number
                .ok_or_else(|| "the value has a float that is infinite or not a number".to_owned())?
                .into()
        }
        Data::Text(text) => text_of(text)?.into(),
        Data::Items(Kind::List, items) => {
            items.into_iter().map(json_of).collect::<Result<Vec<_>, _>>()?.into()
        }
        Data::Dict(entries) => {
            let entry = |(key, value)| {
                let Data::Text(key) = key else {
                    return Err(
                        "the value has a dict whose keys are not all of the type str".to_owned()
                    );
                };
                let key = text_of(key)?;
                if key == INTEGER_KEY {
                    return Err(format!(
                        "the value has the key {INTEGER_KEY}, which stands for a large integer"
                    ));
                }
                Ok((key, json_of(value)?))
            };
            entries.into_iter().map(entry).collect::<Result<Map<_, _>, _>>()?.into()
        }
        Data::Bytes(_) => return Err(other_type("bytes")),
        Data::Items(Kind::Tuple, _) => return Err(other_type("tuple")),
        Data::Items(Kind::Set, _) => return Err(other_type("set")),
        Data::Items(Kind::FrozenSet, _) => return Err(other_type("frozenset")),
        Data::Other(name) => return Err(other_type(&String::from_utf8_lossy(&name))),
    })
}

fn other_type(name: &str) -> String {
    let name = name.escape_debug();
    format!("the value has the type {name}; it may have None, bool, int, float, str, list and dict")
}

fn text_of(text: Box<[u8]>) -> Result<String, String> {
    String::from_utf8(text.into_vec()).map_err(|_| "the value has a str with surrogates".to_owned())
}

fn json_of_integer(int: &Int) -> Result<Value, String> {
    if int.digits.len() > DIGITS_MAX {
        return Err("the value has an int of more than 4300 digits".to_owned());
    }
    let magnitude = u128::from_str_radix(&int.digits, 16).ok();
    let small = match magnitude.filter(|magnitude| *magnitude <= INTEGER_MAX) {
        Some(magnitude) => i64::try_from(magnitude).ok(),
        None if int.digits.is_empty() => Some(0),
        None => None,
    };
    let sign = if int.is_negative { "-" } else { "" };
    Ok(match small {
        Some(magnitude) if int.is_negative => (-magnitude).into(),
        Some(magnitude) => magnitude.into(),
        None => json!({ INTEGER_KEY: format!("{sign}{}", decimal(&int.digits)) }),
    })
}

/// Converts hexadecimal digits to decimal digits.
fn decimal(hex: &str) -> String {
    const GROUP: u64 = 1_000_000_000;
    // Contains groups of nine decimal digits. The least significant group comes first.
    let mut groups: Vec<u64> = vec![0];
    for digit in hex.chars() {
        let mut carry = u64::from(digit.to_digit(16).unwrap_or_default());
        for group in &mut groups {
            let sum = *group * 16 + carry;
            (*group, carry) = (sum % GROUP, sum / GROUP);
        }
        if carry > 0 {
            groups.push(carry);
        }
    }
    let groups: Vec<_> = groups.iter().rev().map(|group| format!("{group:09}")).collect();
    groups.concat().trim_start_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(encoded: &str) -> Value {
        match Returned::decode(encoded.as_bytes()) {
            Returned::Value(value) => value,
            Returned::Omitted(reason) => panic!("{encoded}: {reason}"),
        }
    }

    #[test]
    fn values_become_json() {
        for (encoded, json) in [
            ("N", json!(null)),
            ("T", json!(true)),
            ("i0;", json!(0)),
            ("j1f;", json!(-31)),
            ("f1.5;", json!(1.5)),
            ("f-0.0;", json!(-0.0)),
            ("s3:a\u{e9}", json!("a\u{e9}")),
            ("l2:i1;l0:", json!([1, []])),
            ("d2:s1:ai1;s1:bd0:", json!({ "a": 1, "b": {} })),
            ("i20000000000000;", json!(9_007_199_254_740_992_u64)),
            ("i20000000000001;", json!({ "$int": "9007199254740993" })),
            ("j20000000000001;", json!({ "$int": "-9007199254740993" })),
            ("ide0b6b3a7640000;", json!({ "$int": "1000000000000000000" })),
            (
                "i100000000000000000000000000000000;",
                json!({ "$int": "340282366920938463463374607431768211456" }),
            ),
        ] {
            assert_eq!(value(encoded), json, "{encoded}");
        }
        let largest = value(&format!("i{};", "f".repeat(DIGITS_MAX)));
        assert_eq!(largest["$int"].as_str().unwrap().len(), 4300);
    }

    #[test]
    fn other_values_are_omitted_with_a_reason() {
        for (encoded, reason) in [
            (
                "o7:Integer",
                "the value has the type Integer; it may have None, bool, int, float, str, list and dict",
            ),
            (
                "l1:t0:",
                "the value has the type tuple; it may have None, bool, int, float, str, list and dict",
            ),
            (
                "b1:x",
                "the value has the type bytes; it may have None, bool, int, float, str, list and dict",
            ),
            (
                "S0:",
                "the value has the type set; it may have None, bool, int, float, str, list and dict",
            ),
            ("fnan;", "the value has a float that is infinite or not a number"),
            ("l1:f-inf;", "the value has a float that is infinite or not a number"),
            ("d1:i1;i1;", "the value has a dict whose keys are not all of the type str"),
            ("d1:s4:$inti1;", "the value has the key $int, which stands for a large integer"),
            ("L", "the value is larger than 64 KiB"),
            ("D", "the value is nested deeper than 128"),
            ("x", "the value is not encoded as plain data"),
        ] {
            assert_eq!(Returned::decode(encoded.as_bytes()), Returned::Omitted(reason.to_owned()));
        }
        let surrogate = Returned::decode(b"s3:\xed\xa0\x80");
        assert_eq!(surrogate, Returned::Omitted("the value has a str with surrogates".to_owned()));
        let digits = format!("i{};", "f".repeat(DIGITS_MAX + 1));
        let reason = "the value has an int of more than 4300 digits".to_owned();
        assert_eq!(Returned::decode(digits.as_bytes()), Returned::Omitted(reason));
        // A control character takes six bytes in JSON.
        let text = format!("s20000:{}", "\u{1}".repeat(20_000));
        assert_eq!(Returned::decode(text.as_bytes()), Returned::Omitted(too_large()));
    }
}
