//! The difference that an edit makes, for people: a unified diff in which the values of others are
//! hidden, as they may be keys and tokens.

use std::fmt::Write as _;

/// The lines that are shown around what changes.
const CONTEXT: usize = 3;

/// In place of a value that is not ours.
const HIDDEN: &str = "…";

/// Returns the difference between two texts as one hunk; of quoted values those in `shown` only.
pub(super) fn unified(path: &str, before: Option<&str>, after: &str, shown: &[String]) -> String {
    let old: Vec<&str> = before.unwrap_or_default().lines().collect();
    let new: Vec<&str> = after.lines().collect();
    let same_start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let room = old.len().min(new.len()) - same_start;
    let pairs = old.iter().rev().zip(new.iter().rev()).take(room);
    let same_end = pairs.take_while(|(old, new)| old == new).count();
    let start = same_start.saturating_sub(CONTEXT);
    let end = same_end.min(CONTEXT);
    let part = |lines: &[&str], from: usize, to: usize| -> Vec<String> {
        lines.get(from..to).unwrap_or_default().iter().map(|line| hidden(line, shown)).collect()
    };
    let of_old = old.len() - same_end;
    let of_new = new.len() - same_end;
    // Writing to a text does not fail.
    let mut text = String::new();
    let name = if before.is_some() { path } else { "/dev/null" };
    let _ = writeln!(text, "--- {name}\n+++ {path}");
    let range =
        |lines: usize| if lines == 0 { "0,0".to_owned() } else { format!("{},{lines}", start + 1) };
    let (old_lines, new_lines) = (of_old + end - start, of_new + end - start);
    let _ = writeln!(text, "@@ -{} +{} @@", range(old_lines), range(new_lines));
    for (mark, lines) in [
        (' ', part(&old, start, same_start)),
        ('-', part(&old, same_start, of_old)),
        ('+', part(&new, same_start, of_new)),
        (' ', part(&old, of_old, of_old + end)),
    ] {
        for line in lines {
            let _ = writeln!(text, "{mark}{line}");
        }
    }
    text
}

/// Returns a line with its quoted values hidden, but for keys and for those in `shown`.
fn hidden(line: &str, shown: &[String]) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(['"', '\'']) {
        let (before, quoted) = rest.split_at(start);
        text.push_str(before);
        let Some(length) = length_of_quoted(quoted) else {
            rest = quoted;
            break;
        };
        let (token, behind) = quoted.split_at(length);
        let is_key = behind.trim_start().starts_with([':', '=', '.']);
        let value = token.get(1..token.len() - 1).unwrap_or_default();
        let is_shown = is_key || value.is_empty() || shown.iter().any(|shown| shown == value);
        match token.chars().next() {
            Some(quote) if !is_shown => {
                text.extend([&quote.to_string(), HIDDEN, &quote.to_string()]);
            }
            Some(_) | None => text.push_str(token),
        }
        rest = behind;
    }
    text.push_str(rest);
    // A terminal is not to be told anything by a file.
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// Returns the length in bytes of what is between quotation marks, with these, if it ends on the line.
fn length_of_quoted(text: &str) -> Option<usize> {
    let mut chars = text.char_indices();
    let (_, quote) = chars.next()?;
    let mut is_escaped = false;
    for (at, c) in chars {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if quote == '"' => is_escaped = true,
            c if c == quote => return Some(at + c.len_utf8()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_one_hunk_with_its_surroundings() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let after = "a\nb\nc\nd\nX\nY\nf\ng\nh\n";
        let diff = unified("/x", Some(before), after, &[]);
        assert_eq!(diff, "--- /x\n+++ /x\n@@ -2,7 +2,8 @@\n b\n c\n d\n-e\n+X\n+Y\n f\n g\n h\n");
        let new = unified("/x", None, "a\n", &[]);
        assert_eq!(new, "--- /dev/null\n+++ /x\n@@ -0,0 +1,1 @@\n+a\n");
        let grown = unified("/x", Some("a\na\n"), "a\na\na\n", &[]);
        assert_eq!(grown, "--- /x\n+++ /x\n@@ -1,2 +1,3 @@\n a\n a\n+a\n");
    }

    #[test]
    fn values_of_others_are_hidden() {
        let shown = ["/x/qwed-mcp".to_owned()];
        for (line, expected) in [
            ("  \"TOKEN\": \"ghp_1\", // don't", "  \"TOKEN\": \"…\", // don't"),
            ("\"a\": [\"--key\", \"s\\\"x\"]}", "\"a\": [\"…\", \"…\"]}"),
            ("  \"command\": \"/x/qwed-mcp\",", "  \"command\": \"/x/qwed-mcp\","),
            ("key = 'literal' # c", "key = '…' # c"),
            ("\"\": \"\"", "\"\": \"\""),
            ("\u{1b}[2J", "\u{fffd}[2J"),
        ] {
            assert_eq!(hidden(line, &shown), expected);
        }
    }
}
