//! Workflow commands of GitHub Actions, which annotate lines of files.
//!
//! Source: "Workflow commands for GitHub Actions" in the documentation of GitHub, and `packages/core/src/command.ts`
//! of `actions/toolkit`, which defines the escape sequences.

/// The level of an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Notice,
    Warning,
    Error,
}

/// Returns the line that annotates a file. Without a line number, the annotation is at the start of the file.
pub(super) fn annotation(
    level: Level,
    file: &str,
    line: Option<usize>,
    title: &str,
    message: &str,
) -> String {
    let command = match level {
        Level::Notice => "notice",
        Level::Warning => "warning",
        Level::Error => "error",
    };
    let [file, title] =
        [file, title].map(|text| data(text).replace(':', "%3A").replace(',', "%2C"));
    let line = line.map(|line| format!(",line={line}")).unwrap_or_default();
    format!("::{command} file={file}{line},title={title}::{}\n", data(message))
}

/// Returns the line that shows a warning about the whole run of this program.
pub(super) fn warning(message: &str) -> String {
    format!("::warning title={}::{}\n", env!("CARGO_PKG_NAME"), data(message))
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_escaped() {
        let found = annotation(Level::Error, "d/b,c:d.md", Some(2), "a, b", "100 %: x,\r\ny");
        assert_eq!(found, "::error file=d/b%2Cc%3Ad.md,line=2,title=a%2C b::100 %25: x,%0D%0Ay\n");
        assert_eq!(annotation(Level::Notice, "a", None, "t", ""), "::notice file=a,title=t::\n");
    }
}
