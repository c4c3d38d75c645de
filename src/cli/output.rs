//! Standard output of the commands.

use std::borrow::Cow;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use serde_json::{Value, json};
use thiserror::Error;

use crate::terminal::visible;

/// Returns an object for programs, with the version of this one.
pub(super) fn document(mut object: Value) -> String {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
    }
    format!("{object:#}\n")
}

/// Creates a folder and those above it.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    match fs::create_dir_all(folder) {
        // A file has that name.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(io::ErrorKind::NotADirectory.into())
        }
        made => made,
    }
}

/// The text that could not be printed, with the reason as its source.
#[derive(Debug, Error)]
#[error("failed to print {subject}")]
pub(super) struct NotPrinted {
    subject: String,
    source: io::Error,
}

impl NotPrinted {
    /// Converts the result of printing. A reader that has gone is not an error.
    fn check(subject: &str, printed: io::Result<()>) -> anyhow::Result<()> {
        let printed = unless_closed(printed);
        Ok(printed.map_err(|source| Self { subject: subject.to_owned(), source })?)
    }
}

/// Prints a text; an error names it by `subject`. A reader who has gone has read enough: that is no error.
///
/// Names of files and words of other programs are in it: a terminal is shown what it would obey.
pub(super) fn print(subject: &str, text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout();
    let shown = if stdout.is_terminal() { visible(text).into() } else { Cow::Borrowed(text) };
    let printed = stdout.write_all(shown.as_bytes()).and_then(|()| stdout.flush());
    NotPrinted::check(subject, printed)
}

/// Prints a text with colours, which the output may not have. Whatever is not the program's own in it has to
/// be [`visible`] before.
pub(super) fn print_styled(subject: &str, text: &str) -> anyhow::Result<()> {
    let mut stdout = anstream::stdout();
    let printed = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    NotPrinted::check(subject, printed)
}

/// Returns the result of writing to a pipe, whose reader may have gone.
pub(super) fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
