//! The changes of one entry, and the reasons not to change a file, for all formats. It never reads or writes a file.

use serde_json::{Value, json};
use thiserror::Error;

/// The value of a member of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Member {
    Text(String),
    List(Vec<String>),
    /// The value `true`.
    Yes,
}

impl Member {
    /// Returns the value as JSON.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::List(texts) => json!(texts),
            Self::Yes => json!(true),
        }
    }
}

/// A change of one member. A member that already has the requested value keeps its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    /// Sets the member to this value.
    Set(&'static str, Member),
    /// Adds the member with this value. An existing value stays.
    Default(&'static str, Member),
    /// Sets one key of the object in a member to this text. The other keys stay.
    SetIn(&'static str, String, String),
}

/// A server's entry in a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Server {
    pub name: String,
    pub(super) members: Value,
}

/// An error that leaves a file unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EditError {
    /// The client cannot parse the file either.
    #[error("line {line}, column {column}: {message}")]
    Syntax { line: usize, column: usize, message: String },
    /// All clients use UTF-8.
    #[error("line {line}, column {column}: the file is not UTF-8")]
    NotUtf8 { line: usize, column: usize },
    /// The structure of the file differs from the client's.
    #[error("{0} is not an object")]
    NotAnObject(String),
    /// Parsers of clients differ in which duplicate they use.
    #[error("{0} occurs twice")]
    Twice(String),
    /// Breaking the line would take too long.
    #[error("{what} has more than {members_max} members on one line; format the file first")]
    OneLine { what: String, members_max: usize },
    /// For TOML with mixed line ends, the editor would keep only one kind.
    #[error("lines end in two ways, and an edit would change the others; use one kind of line end")]
    LineEnds,
    /// A defect: the edit changed more than the entry.
    #[error("the edit would have changed more than the entry; please report this")]
    Collateral,
}

impl EditError {
    /// Creates a syntax error at a byte offset in a text.
    pub(crate) fn at(text: &str, offset: usize, message: impl Into<String>) -> Self {
        let (line, column) = position(text.as_bytes(), offset);
        Self::Syntax { line, column, message: message.into() }
    }
}

/// Returns the line and the column of a byte offset, both counted from 1. Columns count characters.
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
