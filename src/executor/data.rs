//! Decodes Python values of simple types ("plain data") from the bytes that a script's process sends. This module never
//! evaluates anything.
//!
//! `python/values.py` encodes these values. A script can send other bytes instead, so every byte is validated, and
//! every size is bounded.

/// The maximum nesting of a value. It is far below the 1,000 levels at which Python's JSON reader fails.
pub(crate) const DEPTH_MAX: usize = 128;
/// The maximum length of an encoded float, in bytes.
const FLOAT_BYTES_MAX: usize = 32;

/// A Python value of a simple type, such as a number, a text or a list. A value of any other type is [`Self::Other`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Data {
    None,
    Bool(bool),
    Int(Int),
    Float(f64),
    /// A `str`, encoded in UTF-8. It may contain surrogates, but the expected value of a batch test never does.
    Text(Box<[u8]>),
    Bytes(Box<[u8]>),
    Items(Kind, Box<[Data]>),
    Dict(Box<[(Data, Data)]>),
    /// The type name of a value that is not plain data. Such a value never equals the expected value of a batch test.
    Other(Box<[u8]>),
}

/// An integer of any size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Int {
    pub(crate) is_negative: bool,
    /// The magnitude in lower-case hexadecimal digits, without leading zeros. Empty for 0.
    pub(crate) digits: Box<str>,
}

/// The Python type of a collection, except for `dict`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    List,
    Tuple,
    Set,
    FrozenSet,
}

/// The reason why the bytes of a script's process are not a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotData {
    #[error("the value is too large: its encoding has more than 1 MiB")]
    TooLarge,
    #[error("the value is nested deeper than {DEPTH_MAX}")]
    TooDeep,
    #[error("the value is not encoded as plain data")]
    Invalid,
}

impl Data {
    /// Decodes a value from the bytes that a script's process sent.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, NotData> {
        match bytes {
            b"L" => Err(NotData::TooLarge),
            b"D" => Err(NotData::TooDeep),
            _ => {
                let mut rest = bytes;
                let value = Self::take(&mut rest, 0)?;
                if rest.is_empty() { Ok(value) } else { Err(NotData::Invalid) }
            }
        }
    }

    fn take(rest: &mut &[u8], depth: usize) -> Result<Self, NotData> {
        let (tag, behind) = rest.split_first().ok_or(NotData::Invalid)?;
        *rest = behind;
        let kind = match tag {
            b'N' => return Ok(Self::None),
            b'T' => return Ok(Self::Bool(true)),
            b'F' => return Ok(Self::Bool(false)),
            b'i' | b'j' => return Ok(Self::Int(Int::of_hex(*tag == b'j', until(rest, b';')?)?)),
            b'f' => return take_float(rest).map(Self::Float),
            b's' => return take_text(rest).map(Self::Text),
            b'b' => return take_text(rest).map(Self::Bytes),
            b'o' => return take_text(rest).map(Self::Other),
            b'l' => Some(Kind::List),
            b't' => Some(Kind::Tuple),
            b'S' => Some(Kind::Set),
            b'Z' => Some(Kind::FrozenSet),
            b'd' => None,
            _ => return Err(NotData::Invalid),
        };
        let count = take_count(rest)?;
        if depth == DEPTH_MAX {
            return Err(NotData::TooDeep);
        }
        let mut next = || Self::take(rest, depth + 1);
        Ok(match kind {
            Some(kind) => Self::Items(kind, (0..count).map(|_| next()).collect::<Result<_, _>>()?),
            None => {
                Self::Dict((0..count).map(|_| Ok((next()?, next()?))).collect::<Result<_, _>>()?)
            }
        })
    }
}

impl Int {
    fn of_hex(is_negative: bool, digits: &[u8]) -> Result<Self, NotData> {
        let is_hex = !digits.is_empty()
            && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        let digits = str::from_utf8(digits).ok().filter(|_| is_hex).ok_or(NotData::Invalid)?;
        Ok(Self::new(is_negative, digits))
    }

    pub(crate) fn new(is_negative: bool, digits: &str) -> Self {
        let digits = digits.trim_start_matches('0');
        Self { is_negative: is_negative && !digits.is_empty(), digits: digits.into() }
    }
}

/// Takes the bytes before a delimiter, and skips the delimiter.
fn until<'a>(rest: &mut &'a [u8], delimiter: u8) -> Result<&'a [u8], NotData> {
    let end = rest.iter().position(|byte| *byte == delimiter).ok_or(NotData::Invalid)?;
    let (content, behind) = rest.split_at(end);
    *rest = behind.get(1..).unwrap_or_default();
    Ok(content)
}

fn take_count(rest: &mut &[u8]) -> Result<usize, NotData> {
    let count = str::from_utf8(until(rest, b':')?).ok().and_then(|text| text.parse().ok());
    // Each item or character takes at least one byte, so a count above the number of remaining bytes is invalid.
    count.filter(|count| *count <= rest.len()).ok_or(NotData::Invalid)
}

fn take_text(rest: &mut &[u8]) -> Result<Box<[u8]>, NotData> {
    let length = take_count(rest)?;
    let (text, behind) = rest.split_at_checked(length).ok_or(NotData::Invalid)?;
    *rest = behind;
    Ok(text.into())
}

fn take_float(rest: &mut &[u8]) -> Result<f64, NotData> {
    let text = until(rest, b';')?;
    let text = str::from_utf8(text).ok().filter(|text| text.len() <= FLOAT_BYTES_MAX);
    text.and_then(|text| text.parse().ok()).ok_or(NotData::Invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_an_encoding_is_validated() {
        let whole = b"l9:N T".to_vec();
        assert_eq!(Data::decode(&whole), Err(NotData::Invalid));
        let valid = b"d2:s1:al4:i1f;j2;f1.5;b2:\xff;NS1:t1:Zo1:x".to_vec();
        for length in 0..valid.len() {
            assert!(Data::decode(&valid[..length]).is_err(), "{length}");
            for byte in [b'0', b'9', b';', b':', b'l', 0xff] {
                let mut other = valid.clone();
                other[length] = byte;
                // `decode` must not panic for invalid bytes.
                let _ = Data::decode(&other);
            }
        }
        for invalid in [
            "",
            "x",
            "NN",
            "i;",
            "i",
            "iG;",
            "iA;",
            "i-1;",
            "f;",
            "f1.0",
            "fx;",
            "s1:",
            "s-1:",
            "s:",
            "s99999999999999999999:",
            "l18446744073709551615:",
            "l1000000:N",
            "d1:N",
            "LL",
        ] {
            assert_eq!(Data::decode(invalid.as_bytes()), Err(NotData::Invalid), "{invalid}");
        }
        let nested = |depth: usize| format!("{}N", "l1:".repeat(depth));
        assert!(Data::decode(nested(DEPTH_MAX).as_bytes()).is_ok());
        for depth in [DEPTH_MAX + 1, 100_000] {
            assert_eq!(Data::decode(nested(depth).as_bytes()), Err(NotData::TooDeep));
        }
        assert_eq!(Data::decode(b"L"), Err(NotData::TooLarge));
        assert_eq!(Data::decode(b"D"), Err(NotData::TooDeep));
    }
}
