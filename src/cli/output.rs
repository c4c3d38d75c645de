//! Standard output of the commands.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::terminal::visible;

/// Returns an object for programs, with the version of this one.
pub(super) fn document(mut object: Value) -> String {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
    }
    format!("{object:#}\n")
}

/// Prints a text; an error names it by `subject`. A reader who has gone has read enough: that is no error.
///
/// Names of files and words of other programs are in it: a terminal is shown what it would obey.
pub(super) fn print(subject: &str, text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout();
    let shown = if stdout.is_terminal() { visible(text).into() } else { Cow::Borrowed(text) };
    let printed = stdout.write_all(shown.as_bytes()).and_then(|()| stdout.flush());
    unless_closed(printed).with_context(|| format!("failed to print {subject}"))
}

/// Prints a text with colours, which the output may not have. Whatever is not the program's own in it has to
/// be [`visible`] before.
pub(super) fn print_styled(subject: &str, text: &str) -> anyhow::Result<()> {
    let mut stdout = anstream::stdout();
    let printed = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    unless_closed(printed).with_context(|| format!("failed to print {subject}"))
}

/// Returns the result of writing to a pipe, whose reader may have gone.
pub(super) fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
