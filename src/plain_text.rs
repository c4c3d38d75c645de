//! Cleans texts from scripts, tests and clients, so that a model, a person or a terminal can receive them safely.

use crate::hidden::is_hidden;

/// Replaces every hidden character (invisible, or with an effect on a terminal) with U+FFFD. Keeps line feeds and tabs.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(shown).collect()
}

/// Replaces every hidden character, line end and tab with U+FFFD.
pub(crate) fn plain_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { shown(c) })
        .collect()
}

/// Describes a JSON error in a line of input. Leaves out the line number of the error if it is 1. This number is
/// relative to the line of input, but would look like line 1 of the whole input.
pub(crate) fn json_fault(error: &serde_json::Error) -> String {
    let reason = error.to_string().replace(" at line 1 column ", " at column ");
    if error.is_data() { reason } else { format!("not JSON: {reason}") }
}

/// Removes error numbers such as ` (os error 2)`, which the standard library appends to the errors of system calls.
pub(crate) fn without_error_numbers(text: &str) -> String {
    const START: &str = " (os error ";
    let mut parts = text.split(START);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        match rest.strip_prefix(')') {
            Some(rest) if rest.len() + 1 < part.len() => plain.push_str(rest),
            Some(_) | None => {
                plain.push_str(START);
                plain.push_str(part);
            }
        }
    }
    plain
}

/// Appends a text to a line. Replaces every hidden character, line end and tab with an escape such as `\u{1b}`.
pub(crate) fn escape_into(line: &mut String, text: &str) {
    for c in text.chars() {
        if c.is_control() || is_hidden(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
}

fn shown(c: char) -> char {
    if is_hidden(c) { char::REPLACEMENT_CHARACTER } else { c }
}

/// Escapes the hidden characters in a JSON document. The meaning of the document stays the same.
pub(crate) fn plain_json(document: &str) -> String {
    let mut plain = String::with_capacity(document.len());
    for c in document.chars() {
        if is_hidden(c) {
            let mut units = [0; 2];
            plain.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_replaced_and_what_people_write_is_not() {
        let written =
            "a\tb\nΓειά, שלום, سلام, 你好, नमस्ते, e\u{301}, 👩\u{200d}🚀, ✔\u{fe0f}, 5\u{a0}€";
        assert_eq!(plain(written), written);
        for c in [
            '\0',
            '\u{7}',
            '\u{8}',
            '\r',
            '\u{1b}',
            '\u{7f}',
            '\u{9b}',
            '\u{200b}',
            '\u{2028}',
            '\u{202e}',
            '\u{2066}',
            '\u{2069}',
            '\u{feff}',
            '\u{e0041}',
            '\u{e007f}',
            '\u{e0100}',
        ] {
            assert_eq!(plain(&format!("a{c}b")), "a\u{fffd}b", "{c:?}");
        }
        // A control character must be hidden, unless it is a tab or a line feed.
        let obeyed = (0..0x11_0000).filter_map(char::from_u32).filter(|c| c.is_control());
        assert!(obeyed.into_iter().all(|c| is_hidden(c) != "\t\n".contains(c)));
        assert_eq!(plain_line("a\tb\nc"), "a\u{fffd}b\u{fffd}c");
    }

    #[test]
    fn faults_of_json_name_the_column_only() {
        let fault = |text: &str| {
            json_fault(
                &serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(text).unwrap_err(),
            )
        };
        assert_eq!(fault("nonsense"), "not JSON: expected ident at column 2");
        assert_eq!(fault("[1]"), "invalid type: sequence, expected a map at column 0");
        // A line number above 1 must stay in the message.
        assert_eq!(fault("{\n\"a\"}"), "not JSON: expected `:` at line 2 column 4");
    }

    #[test]
    fn json_means_the_same_afterwards() {
        let value = serde_json::json!({ "a\u{202e}": "\u{1b}[0m\u{e0041}\u{9b}é\n" });
        let text = plain_json(&format!("{value:#}"));
        assert!(!text.chars().any(is_hidden), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
