//! Formats the difference that an edit makes, as a unified diff for people. It hides each quoted value that is not
//! known to be harmless, because the value may be a key or a token.

use std::fmt::Write as _;

use super::client::Format;

/// The number of unchanged lines that are shown before the change, and after it.
const CONTEXT: usize = 3;

/// The text that is shown instead of a value that may be secret.
const HIDDEN: &str = "…";

/// Returns the difference between two texts in the syntax of `format`, as one hunk. Shows only the quoted values that
/// are in `shown`, and hides all others.
pub(super) fn unified(
    path: &str,
    format: Format,
    before: Option<&str>,
    after: &str,
    shown: &[String],
) -> String {
    let old: Vec<&str> = before.unwrap_or_default().lines().collect();
    let new: Vec<&str> = after.lines().collect();
    let shown_of_old = redacted(before.unwrap_or_default(), format, shown);
    let shown_of_new = redacted(after, format, shown);
    let same_start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let room = old.len().min(new.len()) - same_start;
    let pairs = old.iter().rev().zip(new.iter().rev()).take(room);
    let same_end = pairs.take_while(|(old, new)| old == new).count();
    let start = same_start.saturating_sub(CONTEXT);
    let end = same_end.min(CONTEXT);
    let part = |lines: &[String], from: usize, to: usize| -> Vec<String> {
        lines.get(from..to).unwrap_or_default().to_vec()
    };
    let of_old = old.len() - same_end;
    let of_new = new.len() - same_end;
    // Errors of `writeln` are ignored below, because writing to a `String` cannot fail.
    let mut text = String::new();
    let name = if before.is_some() { path } else { "/dev/null" };
    let _ = writeln!(text, "--- {name}\n+++ {path}");
    let range =
        |lines: usize| if lines == 0 { "0,0".to_owned() } else { format!("{},{lines}", start + 1) };
    let (old_lines, new_lines) = (of_old + end - start, of_new + end - start);
    let _ = writeln!(text, "@@ -{} +{} @@", range(old_lines), range(new_lines));
    for (mark, lines) in [
        (' ', part(&shown_of_old, start, same_start)),
        ('-', part(&shown_of_old, same_start, of_old)),
        ('+', part(&shown_of_new, same_start, of_new)),
        (' ', part(&shown_of_old, of_old, of_old + end)),
    ] {
        for line in lines {
            let _ = writeln!(text, "{mark}{line}");
        }
    }
    text
}

/// Returns the lines of a text in the syntax of `format`, with comments and quoted values hidden. Keys and the values
/// in `shown` stay visible. Comments are hidden because a comment may be a disabled entry, with secrets.
fn redacted(text: &str, format: Format, shown: &[String]) -> Vec<String> {
    let mut redacted = String::new();
    let mut rest = text;
    while let Some((before, part)) = next_part(rest, format) {
        redacted.push_str(before);
        let (token, behind) = part.text.split_at(part.length);
        let (open, close) = (part.open, part.close);
        let value = token.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
        let is_key = part.is_quoted && is_key(behind, format);
        let is_shown = |value: &str| value.is_empty() || shown.iter().any(|shown| shown == value);
        if is_key || (part.is_quoted && value.is_some_and(is_shown)) {
            redacted.push_str(token);
        } else {
            let lines = token.matches('\n').count();
            let space = if part.is_quoted { "" } else { " " };
            redacted.extend([open, space, HIDDEN, &format!("\n{HIDDEN}").repeat(lines)]);
            redacted.extend([if close.is_empty() { "" } else { space }, close]);
        }
        rest = behind;
    }
    redacted.push_str(rest);
    redacted.lines().map(str::to_owned).collect()
}

/// A quoted text or a comment in a file. The field `text` contains this part and the rest of the file after it.
struct Part<'a> {
    text: &'a str,
    /// The length of the part in bytes, including its delimiters.
    length: usize,
    open: &'static str,
    close: &'static str,
    is_quoted: bool,
}

/// The delimiters of one kind of quoted text or comment: the opening delimiter, the closing delimiter, whether they
/// enclose a quoted text, and whether the text between them can contain escapes.
///
/// In a list of delimiters, a longer delimiter must come before a shorter delimiter that begins in the same way.
type Delimiters = (&'static str, &'static str, bool, bool);

const OF_JSON: &[Delimiters] =
    &[("\"", "\"", true, true), ("//", "", false, false), ("/*", "*/", false, false)];
const OF_TOML: &[Delimiters] = &[
    ("\"\"\"", "\"\"\"", true, true),
    ("'''", "'''", true, false),
    ("\"", "\"", true, true),
    ("'", "'", true, false),
    ("#", "", false, false),
];

/// Returns the text before the next part, and the part. If the part is not closed, it extends to the end of the text.
fn next_part(text: &str, format: Format) -> Option<(&str, Part<'_>)> {
    let known = match format {
        Format::Json => OF_JSON,
        // YAML files are never edited, so YAML needs no delimiters of its own.
        Format::Toml | Format::Yaml => OF_TOML,
    };
    let begun = |(at, _): (usize, char)| {
        let rest = text.get(at..)?;
        known.iter().find(|(open, ..)| rest.starts_with(open)).map(|found| (at, *found))
    };
    let (start, (open, close, is_quoted, has_escapes)) = text.char_indices().find_map(begun)?;
    let (before, text) = text.split_at_checked(start)?;
    let inner = text.get(open.len()..).unwrap_or_default();
    let length = match length_before(inner, close, has_escapes) {
        // In TOML, a text may end with one or two quotation marks directly before the three closing marks. Count these
        // marks as part of the text.
        Some(length) if close.len() == 3 && is_quoted => {
            let mark = close.get(..1).unwrap_or_default();
            let behind = inner.get(length + 3..).unwrap_or_default();
            let more = (0..2).take_while(|at| behind.get(*at..=*at) == Some(mark)).count();
            open.len() + length + more + close.len()
        }
        Some(length) => open.len() + length + close.len(),
        None => text.len(),
    };
    Some((before, Part { text, length, open, close, is_quoted }))
}

/// Returns the number of bytes before the closing delimiter. If the delimiter is empty, returns the number of bytes
/// before the end of the line.
fn length_before(text: &str, close: &str, has_escapes: bool) -> Option<usize> {
    if close.is_empty() {
        return Some(text.find(['\r', '\n']).unwrap_or(text.len()));
    }
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if has_escapes && c == '\\' {
            is_escaped = true;
        } else if text.get(at..).is_some_and(|rest| rest.starts_with(close)) {
            return Some(at);
        }
    }
    None
}

/// Returns whether a quoted text is a key. `behind` is the text after the quoted text.
fn is_key(behind: &str, format: Format) -> bool {
    match format {
        Format::Json => behind.trim_start().starts_with(':'),
        Format::Toml | Format::Yaml => {
            behind.trim_start_matches([' ', '\t']).starts_with(['=', '.'])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_one_hunk_with_its_surroundings() {
        let unified = |before, after| unified("/x", Format::Json, before, after, &[]);
        let before = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let after = "a\nb\nc\nd\nX\nY\nf\ng\nh\n";
        let diff = unified(Some(before), after);
        assert_eq!(diff, "--- /x\n+++ /x\n@@ -2,7 +2,8 @@\n b\n c\n d\n-e\n+X\n+Y\n f\n g\n h\n");
        let new = unified(None, "a\n");
        assert_eq!(new, "--- /dev/null\n+++ /x\n@@ -0,0 +1,1 @@\n+a\n");
        let grown = unified(Some("a\na\n"), "a\na\na\n");
        assert_eq!(grown, "--- /x\n+++ /x\n@@ -1,2 +1,3 @@\n a\n a\n+a\n");
    }

    #[test]
    fn values_of_others_and_comments_are_hidden() {
        let shown = ["/x/qwed-mcp".to_owned(), "/it's".to_owned()];
        for (text, expected) in [
            ("  \"TOKEN\": \"ghp_1\", // don't", "  \"TOKEN\": \"…\", // …"),
            ("\"a\": [\"--key\", \"s\\\"x\"]}", "\"a\": [\"…\", \"…\"]}"),
            ("  \"command\": \"/x/qwed-mcp\",", "  \"command\": \"/x/qwed-mcp\","),
            ("\"\": \"\"", "\"\": \"\""),
            ("\"a\"\n: \"/it's\", \"b\": 1", "\"a\"\n: \"/it's\", \"b\": 1"),
            ("{ /* don't */ \"T\": \"s\" }", "{ /* … */ \"T\": \"…\" }"),
            ("/* \"T\":\n \"s\" */ 1", "/* …\n… */ 1"),
            ("// \"T\": s\r\n\"a\": \"//\"", "// …\n\"a\": \"…\""),
        ] {
            assert_eq!(redacted(text, Format::Json, &shown).join("\n"), expected);
        }
        for (text, expected) in [
            ("key = 'literal' # c", "key = '…' # …"),
            ("# it's\n\"k\".'l' = \"s\"", "# …\n\"k\".'l' = \"…\""),
            (
                "k = \"\"\"\ns1\n\"s2\\\"\"\"\ns3\"\"\"\"\"\nl = 1",
                "k = \"\"\"…\n…\n…\n…\"\"\"\nl = 1",
            ),
            ("k = '''s\\''' # c", "k = '''…''' # …"),
            ("k = '''''s''''' # c", "k = '''…''' # …"),
            ("k = 'C:\\'\nl = 's'", "k = '…'\nl = '…'"),
            ("k = '''/it's'''", "k = '''/it's'''"),
            ("k = \"\"\"\nnever ended\n", "k = \"\"\"…\n…\n…\"\"\""),
        ] {
            assert_eq!(redacted(text, Format::Toml, &shown).join("\n"), expected);
        }
    }
}
