//! Standard output of the commands.

use std::io::{self, Write as _};

use anyhow::Context as _;
use serde_json::{Value, json};

/// Returns an object for programs, with the version of this one.
pub(super) fn document(mut object: Value) -> String {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
    }
    format!("{object:#}\n")
}

/// Prints a text; an error names it by `subject`.
pub(super) fn print(subject: &str, text: &str) -> anyhow::Result<()> {
    let printed = io::stdout().write_all(text.as_bytes());
    printed.with_context(|| format!("failed to print {subject}"))
}
