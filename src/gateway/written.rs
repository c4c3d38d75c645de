//! Reads inputs from JSON. Stores no more files and values than the limits for inputs allow. Without these limits, a
//! JSON text of 96 MiB could need ten gigabytes of memory after it is parsed.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The maximum number of inputs of a script.
pub(super) const INPUTS_MAX: usize = 16;
/// The maximum number of values in an input that is passed as JSON.
pub(super) const VALUES_MAX: usize = 10_000;

/// Files with their names, in the order of the JSON object. The content of a file has the type `C`.
#[derive(Debug)]
pub(crate) struct Files<C> {
    /// The first files, at most [`INPUTS_MAX`].
    pub(super) first: Vec<(String, C)>,
    /// The number of all files, including the files that are not stored in `first`.
    pub(super) count: usize,
    /// Whether the JSON value is an object or `null`.
    pub(super) is_object: bool,
}

/// The content of an input.
#[derive(Debug)]
pub(crate) enum Content {
    Text(String),
    Base64(String),
    /// Compact JSON. Parsed values would take up to a hundred times as much memory.
    Json(Vec<u8>),
    /// JSON with more than [`VALUES_MAX`] values.
    TooManyValues,
    Other,
}

/// A JSON value in a place where only a string or `null` is valid. `Other` is any other value.
#[derive(Debug)]
pub(crate) enum Scalar {
    Text(String),
    Null,
    Other,
}

impl<'de, C: Deserialize<'de>> Deserialize<'de> for Files<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Shapes(OfFiles(PhantomData)))
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Shapes(OfContent))
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Shapes(OfScalar))
    }
}

/// Converts a JSON value. The trait has a method for each JSON type that an implementation may accept. By default, the
/// methods return the result of [`Kinds::other`].
trait Kinds<'de>: Sized {
    type Result;

    fn other(self) -> Self::Result;

    fn null(self) -> Self::Result {
        self.other()
    }

    fn text(self, _text: String) -> Self::Result {
        self.other()
    }

    fn object<A: MapAccess<'de>>(self, map: A) -> Result<Self::Result, A::Error> {
        skip(map)?;
        Ok(self.other())
    }
}

/// The serde visitor that converts a JSON value with `K`.
struct Shapes<K>(K);

impl<'de, K: Kinds<'de>> Visitor<'de> for Shapes<K> {
    type Value = K::Result;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<K::Result, E> {
        Ok(self.0.other())
    }

    fn visit_i64<E>(self, _: i64) -> Result<K::Result, E> {
        Ok(self.0.other())
    }

    fn visit_u64<E>(self, _: u64) -> Result<K::Result, E> {
        Ok(self.0.other())
    }

    fn visit_f64<E>(self, _: f64) -> Result<K::Result, E> {
        Ok(self.0.other())
    }

    fn visit_unit<E>(self) -> Result<K::Result, E> {
        Ok(self.0.null())
    }

    fn visit_str<E>(self, text: &str) -> Result<K::Result, E> {
        Ok(self.0.text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<K::Result, E> {
        Ok(self.0.text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<K::Result, A::Error> {
        while array.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self.0.other())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<K::Result, A::Error> {
        self.0.object(map)
    }
}

/// Skips the rest of an object. Returns the number of skipped members.
fn skip<'de, A: MapAccess<'de>>(mut map: A) -> Result<usize, A::Error> {
    let mut count = 0;
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
        count += 1;
    }
    Ok(count)
}

struct OfFiles<C>(PhantomData<C>);

impl<'de, C: Deserialize<'de>> Kinds<'de> for OfFiles<C> {
    type Result = Files<C>;

    fn other(self) -> Files<C> {
        Files { first: Vec::new(), count: 0, is_object: false }
    }

    fn null(self) -> Files<C> {
        Files { is_object: true, ..self.other() }
    }

    fn object<A: MapAccess<'de>>(self, mut map: A) -> Result<Files<C>, A::Error> {
        let mut first = Vec::new();
        while first.len() < INPUTS_MAX {
            match map.next_entry()? {
                Some(file) => first.push(file),
                None => return Ok(Files { count: first.len(), first, is_object: true }),
            }
        }
        Ok(Files { count: first.len() + skip(map)?, first, is_object: true })
    }
}

struct OfContent;

impl<'de> Kinds<'de> for OfContent {
    type Result = Content;

    fn other(self) -> Content {
        Content::Other
    }

    fn text(self, text: String) -> Content {
        Content::Text(text)
    }

    fn object<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let content = match map.next_key::<String>()?.as_deref() {
            Some("base64") => match map.next_value()? {
                Scalar::Text(text) => Content::Base64(text),
                Scalar::Null | Scalar::Other => Content::Other,
            },
            Some("json") => {
                let mut values_left = VALUES_MAX;
                match map.next_value_seed(Limited(&mut values_left))? {
                    Some(value) => Content::Json(value.to_string().into_bytes()),
                    None => Content::TooManyValues,
                }
            }
            Some(_) => {
                map.next_value::<IgnoredAny>()?;
                Content::Other
            }
            None => Content::Other,
        };
        Ok(if skip(map)? == 0 { content } else { Content::Other })
    }
}

struct OfScalar;

impl Kinds<'_> for OfScalar {
    type Result = Scalar;

    fn other(self) -> Scalar {
        Scalar::Other
    }

    fn null(self) -> Scalar {
        Scalar::Null
    }

    fn text(self, text: String) -> Scalar {
        Scalar::Text(text)
    }
}

/// Reads a JSON value with nested values. The field is the number of values that may still be read. The result is
/// `None` if the JSON value contains more values.
struct Limited<'l>(&'l mut usize);

impl Limited<'_> {
    /// Counts a value. Returns whether the value is within the limit.
    fn take(&mut self) -> bool {
        let has_room = *self.0 > 0;
        *self.0 = self.0.saturating_sub(1);
        has_room
    }

    fn leaf(mut self, value: impl Into<Value>) -> Option<Value> {
        self.take().then(|| value.into())
    }
}

impl<'de> DeserializeSeed<'de> for Limited<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Value>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Limited<'_> {
    type Value = Option<Value>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Option<Value>, E> {
        Ok(self.leaf(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Option<Value>, E> {
        Ok(self.leaf(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Option<Value>, E> {
        Ok(self.leaf(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Option<Value>, E> {
        Ok(self.leaf(value))
    }

    fn visit_unit<E>(self) -> Result<Option<Value>, E> {
        Ok(self.leaf(Value::Null))
    }

    fn visit_str<E>(self, text: &str) -> Result<Option<Value>, E> {
        Ok(self.leaf(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut array: A) -> Result<Option<Value>, A::Error> {
        let mut values = self.take().then(Vec::new);
        while let Some(kept) = &mut values {
            match array.next_element_seed(Limited(self.0))? {
                Some(Some(value)) => kept.push(value),
                Some(None) => values = None,
                None => return Ok(values.map(Value::Array)),
            }
        }
        while array.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Option<Value>, A::Error> {
        let mut values = self.take().then(Map::new);
        while let Some(kept) = &mut values {
            let Some(key) = map.next_key()? else { return Ok(values.map(Value::Object)) };
            match map.next_value_seed(Limited(self.0))? {
                Some(value) => drop(kept.insert(key, value)),
                None => values = None,
            }
        }
        skip(map)?;
        Ok(None)
    }
}
