//! Reads a manifest from text or a file, and records duplicate members of its objects. It never judges the values.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use thiserror::Error;

use super::finding::{Finding, excerpt};

/// The maximum size of a manifest, in bytes (1 MiB). Real manifests have a few hundred bytes.
pub const MANIFEST_BYTES_MAX: u64 = 1024 * 1024;

/// The maximum number of duplicate members that are reported. One duplicate is enough to block a skill.
const DUPLICATES_MAX: usize = 20;

/// The reason why a file cannot be verified as a manifest. Its text follows "skill manifest: " in a message, and never
/// contains the path.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The file does not exist or cannot be read.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// The file is larger than [`MANIFEST_BYTES_MAX`].
    #[error("it is larger than {MANIFEST_BYTES_MAX} bytes")]
    TooLarge,
    /// The content is not JSON, is not UTF-8, or is nested more than 128 levels deep.
    #[error("it is not JSON")]
    NotJson(#[source] serde_json::Error),
    /// The content is JSON, but not an object.
    #[error("it is not a JSON object")]
    NotAnObject,
}

/// A parsed manifest: its fields, and the names of its duplicate members.
#[derive(Debug, Clone)]
pub struct SkillManifest {
    fields: Map<String, Value>,
    duplicates: Vec<String>,
}

impl SkillManifest {
    /// Parses a manifest. `content` must be a JSON object of at most [`MANIFEST_BYTES_MAX`] bytes, nested at most 128
    /// levels deep.
    ///
    /// # Errors
    ///
    /// If the content is too large, is not JSON, or is not a JSON object.
    pub fn parse(content: &[u8]) -> Result<Self, ManifestError> {
        if u64::try_from(content.len()).unwrap_or(u64::MAX) > MANIFEST_BYTES_MAX {
            return Err(ManifestError::TooLarge);
        }
        let mut duplicates = Vec::new();
        let mut json = serde_json::Deserializer::from_slice(content);
        let value = Reading { duplicates: &mut duplicates }
            .deserialize(&mut json)
            .and_then(|value| json.end().map(|()| value))
            .map_err(ManifestError::NotJson)?;
        let Value::Object(fields) = value else { return Err(ManifestError::NotAnObject) };
        Ok(Self { fields, duplicates })
    }

    /// Reads the manifest from the file at `path`.
    pub(super) fn read(path: &Path) -> Result<Self, ManifestError> {
        let file = File::open(path).map_err(ManifestError::Read)?;
        let mut content = Vec::new();
        // Read at most one byte more than allowed, to detect a file that is too large. Do not use the size in the
        // file's metadata, because a pipe or a device has no size.
        let read = file.take(MANIFEST_BYTES_MAX + 1).read_to_end(&mut content);
        read.map_err(ManifestError::Read)?;
        Self::parse(&content)
    }

    /// Returns the fields of the manifest. If a field occurs several times, only the last value is returned.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// Returns a finding for each duplicate member. JSON does not define which of two members with the same name
    /// counts (RFC 8259, section 4). So an installer may use a value that was not checked here.
    pub(super) fn duplicate_members(&self) -> impl Iterator<Item = Finding> {
        self.duplicates
            .iter()
            .map(|name| Finding::high(format!("Duplicate field in manifest: {name}")))
    }
}

/// A reader of any JSON value. It returns the same value as `serde_json`, and also records duplicate members.
struct Reading<'d> {
    duplicates: &'d mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Reading<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reading<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("number out of range"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(Reading { duplicates: self.duplicates })? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Reading { duplicates: self.duplicates })?;
            if object.contains_key(&name) && self.duplicates.len() < DUPLICATES_MAX {
                let shown = excerpt(&name);
                if !self.duplicates.contains(&shown) {
                    self.duplicates.push(shown);
                }
            }
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}
