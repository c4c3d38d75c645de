//! Prints the results of commands to standard output. It never prints logs or errors.

use std::borrow::Cow;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use serde_json::{Value, json};
use thiserror::Error;

use crate::terminal::visible;

/// Adds the field `version`, with the version of this program, to a JSON object, and formats the object.
pub(super) fn document(mut object: Value) -> String {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
    }
    format!("{object:#}\n")
}

/// Creates a folder and its parents.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    match fs::create_dir_all(folder) {
        // The path exists, but it is not a folder.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(io::ErrorKind::NotADirectory.into())
        }
        made => made,
    }
}

/// The error for a text that could not be printed. `subject` names the text. The source is the I/O error.
#[derive(Debug, Error)]
#[error("failed to print {subject}")]
pub(super) struct NotPrinted {
    subject: String,
    source: io::Error,
}

impl NotPrinted {
    /// Converts an I/O error of printing to [`NotPrinted`]. A closed pipe is not an error.
    pub(super) fn check(subject: &str, printed: io::Result<()>) -> anyhow::Result<()> {
        Ok(unless_closed(printed).map_err(|source| Self::new(subject, source))?)
    }

    pub(super) fn new(subject: &str, source: io::Error) -> Self {
        Self { subject: subject.to_owned(), source }
    }
}

/// Prints a text. `subject` names the text in an error. A closed pipe is not an error, because the reader does not need
/// the rest of the text.
///
/// The text may contain control characters, because it may contain file names and the output of other programs. On a
/// terminal, this function makes control characters visible.
pub(super) fn print(subject: &str, text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout();
    let shown = if stdout.is_terminal() { visible(text).into() } else { Cow::Borrowed(text) };
    let printed = stdout.write_all(shown.as_bytes()).and_then(|()| stdout.flush());
    NotPrinted::check(subject, printed)
}

/// Prints a text with colours. Removes the colours if the output does not support them. This function does not escape
/// control characters, so the caller must call [`visible`] for text from other sources.
pub(super) fn print_styled(subject: &str, text: &str) -> anyhow::Result<()> {
    let mut stdout = anstream::stdout();
    let printed = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    NotPrinted::check(subject, printed)
}

/// Converts the error of a closed pipe to `Ok`, and returns all other results unchanged.
pub(super) fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
