//! Changes of one entry, and the reasons for which a file is not changed, whatever its format.

use serde_json::{Value, json};
use thiserror::Error;

/// The value of a member of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Member {
    Text(String),
    List(Vec<String>),
    /// The word `true`.
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

/// A change of one member. What is already as wanted keeps its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    /// The member has this value.
    Set(&'static str, Member),
    /// The member is there; a value that it has stays.
    Default(&'static str, Member),
    /// The object in a member has this text under a key; its other keys stay.
    SetIn(&'static str, String, String),
}

/// A server's entry, as a file has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Server {
    pub name: String,
    pub(super) members: Value,
}

/// An error that leaves a file as it is.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EditError {
    /// The client itself could not read it.
    #[error("line {line}, column {column}: {message}")]
    Syntax { line: usize, column: usize, message: String },
    /// Not the encoding that all clients have.
    #[error("line {line}, column {column}: the file is not UTF-8")]
    NotUtf8 { line: usize, column: usize },
    /// Another structure than the client's.
    #[error("{0} is not an object")]
    NotAnObject(String),
    /// The parsers of clients differ in which one they take.
    #[error("{0} occurs twice")]
    Twice(String),
    /// To break the line takes too long.
    #[error("{what} has more than {members_max} members on one line; format the file first")]
    OneLine { what: String, members_max: usize },
    /// Of TOML that mixes the line ends of two systems, the editor keeps one kind.
    #[error("lines end in two ways, and an edit would change the others; use one kind of line end")]
    LineEnds,
    /// The result is not what was there and the entry: a defect.
    #[error("the edit would have changed more than the entry; please report this")]
    Collateral,
}

impl EditError {
    /// Creates the error of what is wrong at a byte of a text.
    pub(crate) fn at(text: &str, offset: usize, message: impl Into<String>) -> Self {
        let (line, column) = position(text.as_bytes(), offset);
        Self::Syntax { line, column, message: message.into() }
    }
}

/// Returns the line and the column of a byte, counted from 1, columns in characters.
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
