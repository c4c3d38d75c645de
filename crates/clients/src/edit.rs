//! Defines the changes of one entry, and the errors that prevent a change, for all formats. It never reads or writes a
//! file.

use serde_json::{Value, json};
use thiserror::Error;

/// The value of a member in an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Member {
    Text(String),
    List(Vec<String>),
    /// The value `true`.
    Yes,
}

impl Member {
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::List(texts) => json!(texts),
            Self::Yes => json!(true),
        }
    }
}

/// A change of one member in an entry. If the member already has the requested value, its bytes stay the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    /// Sets the named member to a value.
    Set(&'static str, Member),
    /// Adds the named member with a value. If the member exists, its value does not change.
    Default(&'static str, Member),
    /// Sets a key in the object that the named member contains. The second text is the key and the third is the value.
    /// The other keys do not change.
    SetIn(&'static str, String, String),
    /// Adds a key to the object that the named member contains, as `SetIn` does. If the key exists, its value does not
    /// change.
    DefaultIn(&'static str, String, String),
}

/// The entry of one server in a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Server {
    pub name: String,
    pub(super) members: Value,
}

/// The reason why a file cannot be edited. The file stays unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EditError {
    /// The file has a syntax error, so the client cannot parse it either.
    #[error("line {line}, column {column}: {message}")]
    Syntax { line: usize, column: usize, message: String },
    /// The file is not UTF-8, which all clients use.
    #[error("line {line}, column {column}: the file is not UTF-8")]
    NotUtf8 { line: usize, column: usize },
    /// The client expects an object in the named part of the file, but the file contains another value there.
    #[error("{0} is not an object")]
    NotAnObject(String),
    /// A name occurs twice in an object. The edit could change the wrong member, because clients differ in which
    /// duplicate they use.
    #[error("{0} occurs twice")]
    Twice(String),
    /// An object on one line has too many members. Breaking the line would take too long.
    #[error("{what} has more than {members_max} members on one line; format the file first")]
    OneLine { what: String, members_max: usize },
    /// A TOML file has mixed line ends. The TOML editor would convert them to one kind.
    #[error("it has two kinds of line ends, and an edit would change them; use one kind")]
    LineEnds,
    /// The edit changed more than the entry. This is a defect of this program.
    #[error("the edit would have changed more than the entry; please report this")]
    Collateral,
}

impl EditError {
    /// Creates a syntax error for a byte offset in a text.
    pub(crate) fn at(text: &str, offset: usize, message: impl Into<String>) -> Self {
        let (line, column) = position(text.as_bytes(), offset);
        Self::Syntax { line, column, message: message.into() }
    }
}

/// Returns the line and the column of a byte offset. Both are counted from 1. Columns count characters, not bytes.
pub(super) fn position(text: &[u8], offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.split(|byte| *byte == b'\n').count();
    let last = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    (line, String::from_utf8_lossy(last).chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        for (text, offset, expected) in [
            ("", 0, (1, 1)),
            ("abc", 2, (1, 3)),
            ("a\nbc", 3, (2, 2)),
            ("é\né!", 5, (2, 2)),
            ("a\n", 2, (2, 1)),
            ("a", 9, (1, 2)),
        ] {
            assert_eq!(position(text.as_bytes(), offset), expected, "{text:?} {offset}");
        }
    }
}
