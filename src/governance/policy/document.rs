//! Parses a TOML document, with the line number of each value.
//!
//! This module does not use serde, because serde stops at the first mistake and quotes the value in its message.
//! `policy check` lists all mistakes, each with the key and the accepted values. Error messages contain no content of
//! the file, except simple names of keys, because a model may get the messages.

use std::path::{Component, Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::PolicyError;

/// The maximum length of a key that an error quotes, in characters.
const KEY_CHARS_MAX: usize = 64;

/// A parsed TOML document. It may contain unknown keys.
pub(super) struct Document<'t> {
    text: &'t str,
    root: DeTable<'t>,
}

impl<'t> Document<'t> {
    /// Parses `text`. Unknown keys are not an error, see [`Self::unknown`].
    pub(super) fn parse(text: &'t str) -> Result<Self, PolicyError> {
        let root = DeTable::parse(text).map_err(|error| PolicyError::Syntax {
            line: line_at(text, error.span().map_or(text.len(), |span| span.start)),
            message: error.message().to_owned(),
        })?;
        Ok(Self { text, root: root.into_inner() })
    }

    /// Returns an error for each unknown section and key. `sections` has the known sections, each with its known keys.
    pub(super) fn unknown(&self, sections: &[(&str, &[&str])]) -> Vec<PolicyError> {
        let mut unknown = Vec::new();
        for name in self.root.keys() {
            let known =
                sections.iter().find(|(section, _)| *section == name.get_ref().as_ref()).copied();
            let Some((section, keys)) = known else {
                let names: Vec<&str> = sections.iter().map(|(section, _)| *section).collect();
                unknown.push(PolicyError::UnknownKey {
                    line: line_at(self.text, name.span().start),
                    key: shown(name.get_ref()),
                    known: format!("the sections are {}", names.join(", ")),
                });
                continue;
            };
            // If a known section has a value that is not a section, the error is reported later, when the section is
            // read.
            if let Ok(section) = self.section(section) {
                unknown.extend(section.unknown(keys));
            }
        }
        unknown
    }

    /// Returns the section of this name. If the section is missing, returns a section without keys.
    pub(super) fn section<'d>(&'d self, name: &'d str) -> Result<Section<'d>, PolicyError> {
        let text = self.text;
        let Some(value) = self.root.get(name) else {
            return Ok(Section { text, name, table: None });
        };
        match value.get_ref().as_table() {
            Some(table) => Ok(Section { text, name, table: Some(table) }),
            None => Err(PolicyError::Value {
                line: line_at(text, value.span().start),
                key: name.to_owned(),
                must: format!("be a section: [{name}]"),
            }),
        }
    }
}

#[derive(Default)]
pub(super) struct Section<'d> {
    text: &'d str,
    name: &'d str,
    table: Option<&'d DeTable<'d>>,
}

/// A string in a list, with its line number.
pub(super) struct Item<'d> {
    pub(super) text: &'d str,
    line: usize,
    key: String,
}

impl Item<'_> {
    /// Parses an absolute path.
    pub(super) fn path(&self) -> Result<PathBuf, PolicyError> {
        let must = || self.value_error("have absolute paths without .. only".to_owned());
        absolute(self.text).ok_or_else(must)
    }

    /// Creates the error for an invalid item. `must` describes the accepted values.
    pub(super) fn value_error(&self, must: String) -> PolicyError {
        PolicyError::Value { line: self.line, key: self.key.clone(), must }
    }
}

impl<'d> Section<'d> {
    fn unknown(&self, keys: &[&str]) -> Vec<PolicyError> {
        let found = self.table.into_iter().flat_map(|table| table.keys());
        let unknown = found.filter(|key| !keys.contains(&key.get_ref().as_ref()));
        let errors = unknown.map(|key| PolicyError::UnknownKey {
            line: line_at(self.text, key.span().start),
            key: format!("{}.{}", self.name, shown(key.get_ref())),
            known: format!("the keys of {} are {}", self.name, keys.join(", ")),
        });
        errors.collect()
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, PolicyError> {
        self.read(key, "be true or false", DeValue::as_bool)
    }

    /// Reads an integer from `min` to `max`.
    pub(super) fn number(&self, key: &str, min: u64, max: u64) -> Result<Option<u64>, PolicyError> {
        let range = match max {
            u64::MAX => format!("of at least {min}"),
            _ => format!("from {min} to {max}"),
        };
        self.read(key, &format!("be a whole number {range}"), |value| {
            let number = value.as_integer()?;
            let number = u64::from_str_radix(number.as_str(), number.radix()).ok()?;
            (min..=max).contains(&number).then_some(number)
        })
    }

    pub(super) fn path(&self, key: &str) -> Result<Option<PathBuf>, PolicyError> {
        self.read(key, "be an absolute path without ..", |value| absolute(value.as_str()?))
    }

    /// Reads a string that must be one of `known`.
    pub(super) fn choice(&self, key: &str, known: &[&str]) -> Result<Option<&'d str>, PolicyError> {
        self.read(key, &format!("be one of {}", known.join(", ")), |value| {
            value.as_str().filter(|text| known.contains(text))
        })
    }

    /// Creates the error for a key with a value that contradicts other keys.
    pub(super) fn conflict(&self, key: &str, must: &str) -> PolicyError {
        let value = self.table.and_then(|table| table.get(key));
        let line = value.map_or(1, |value| line_at(self.text, value.span().start));
        PolicyError::Value { line, key: format!("{}.{key}", self.name), must: must.to_owned() }
    }

    pub(super) fn texts(&self, key: &str) -> Result<Vec<Item<'d>>, PolicyError> {
        let must = "be a list of texts";
        let values = self.read(key, must, DeValue::as_array)?;
        let item = |value: &'d Spanned<DeValue<'d>>| match value.get_ref().as_str() {
            Some(text) => {
                let line = line_at(self.text, value.span().start);
                Ok(Item { text, line, key: format!("{}.{key}", self.name) })
            }
            None => Err(self.value_error(key, value, must)),
        };
        values.into_iter().flat_map(|values| values.iter()).map(item).collect()
    }

    /// Reads a value with `parse`. `must` describes the accepted values in the error.
    fn read<T>(
        &self,
        key: &str,
        must: &str,
        parse: impl FnOnce(&'d DeValue<'d>) -> Option<T>,
    ) -> Result<Option<T>, PolicyError> {
        let Some(value) = self.table.and_then(|table| table.get(key)) else { return Ok(None) };
        let parsed = parse(value.get_ref());
        parsed.map(Some).ok_or_else(|| self.value_error(key, value, must))
    }

    fn value_error(&self, key: &str, value: &Spanned<DeValue<'_>>, must: &str) -> PolicyError {
        let line = line_at(self.text, value.span().start);
        PolicyError::Value { line, key: format!("{}.{key}", self.name), must: must.to_owned() }
    }
}

fn absolute(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let climbs = path.components().any(|part| part == Component::ParentDir);
    (path.is_absolute() && !climbs && !text.contains('\0')).then(|| path.to_owned())
}

fn line_at(text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or(text);
    1 + before.matches('\n').count()
}

/// Returns the text for a key in an error message. Replaces a key that is long or needs quotes by a description,
/// because this key is not a misspelled known key and could be any content of the file.
fn shown(key: &str) -> String {
    let is_bare = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if is_bare && (1..=KEY_CHARS_MAX).contains(&key.len()) {
        key.to_owned()
    } else {
        "a quoted or long key".to_owned()
    }
}
