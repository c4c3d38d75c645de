//! Parses the list of the members of an object of a QWED package, and formats the list for the model.
//! `python/members.py` sends the list after a script has used the object wrongly: with an `AttributeError`, an
//! `ImportError`, a `TypeError` or pydantic's `ValidationError`.
//!
//! A script can write to the same pipe (`side_channel`), and so can forge the list, for example to give instructions to
//! the model. As a protection, the size of the list is limited, its lines must be printable ASCII, and the model
//! receives these lines under the heading "The members of".

use serde::{Deserialize, Serialize};

/// The maximum size, in bytes, of the list of members that a run sends.
pub(super) const BYTES_MAX: usize = 1 << 16;

/// The maximum number of lines in the list of members, including the line with the name of the object.
const LINES_MAX: usize = 41;
/// The maximum number of characters of all members that the model sees. It is small, because each token of a model
/// costs money.
const CHARS_MAX: usize = 2000;

/// The name of an object, and its members: signatures of methods, and names of attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Members {
    object: String,
    lines: Vec<String>,
    /// The number of all members, including members that were not sent.
    count: usize,
}

impl Members {
    /// Parses the list of members that a run has sent. The first line contains the name of the object and the number of
    /// its members. Each other line is a member. Returns `None` if the object does not belong to a QWED package, if a
    /// line is not printable ASCII, or if the list is too long or incomplete.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let text = str::from_utf8(text).ok().filter(|text| text.len() <= BYTES_MAX)?;
        let is_printable =
            |line: &str| line.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        let mut all = text.split('\n').map(str::to_owned);
        let first = all.next()?;
        let (object, count) = first.split_once(' ')?;
        let (object, count) = (object.to_owned(), count.parse().ok()?);
        let lines: Vec<String> = all.collect();
        let is_name = object.split('.').all(|part| {
            !part.is_empty()
                && part.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
        });
        let is_valid = is_name
            && object.starts_with("qwed")
            && !lines.is_empty()
            && lines.len() < LINES_MAX
            && lines.len() <= count
            && lines.iter().all(|line| is_printable(line));
        is_valid.then_some(Self { object, lines, count })
    }

    /// Returns the list of members as a text for the model.
    pub(crate) fn advice(&self) -> String {
        let mut chars = 0;
        let shown = self.lines.iter().take_while(|line| {
            chars += line.len() + 1;
            chars <= CHARS_MAX
        });
        let shown: Vec<&str> = shown.map(String::as_str).collect();
        let rest = match self.count - shown.len() {
            0 => String::new(),
            rest => format!("\nand {rest} more"),
        };
        format!("The members of {}:\n{}{rest}", self.object, shown.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_members_is_shown_within_its_limit() {
        let advice = |text: &str| Members::parse(text.as_bytes()).map(|members| members.advice());
        assert_eq!(
            advice("qwed_legal.Guard 2\nverify(date: str) -> bool\nresult").unwrap(),
            "The members of qwed_legal.Guard:\nverify(date: str) -> bool\nresult"
        );
        let long = "a".repeat(CHARS_MAX / 2 - 1);
        let text = format!("qwed_legal.Guard 3\n{long}\n{long}\nlast");
        assert!(advice(&text).unwrap().ends_with(&format!("{long}\nand 1 more")));
        assert!(advice("qwed_legal 57\nGuard").unwrap().ends_with("\nGuard\nand 56 more"));
    }

    #[test]
    fn other_texts_are_no_list_of_members() {
        let many = "\na".repeat(LINES_MAX);
        let large = "a".repeat(BYTES_MAX);
        for text in [
            "",
            "\nverify()",
            "os.system 1\nverify()",
            "qwed legal 1\nverify()",
            "qwed_legal. 1\nverify()",
            "qwed_legal.Guard\nverify()",
            "qwed_legal.Guard 0\nverify()",
            "qwed_legal.Guard -1\nverify()",
            "qwed_legal.Guard 0",
            "qwed_legal.Guard 1\nverify(\u{1b}[2J)",
            "qwed_legal.Guard 1\nveri\u{202e}fy()",
            "qwed_legal.Guard 1\n\t",
            &format!("qwed_legal.Guard 41{many}"),
            &format!("qwed_legal.Guard 1\n{large}"),
        ] {
            assert_eq!(Members::parse(text.as_bytes()), None, "{text:.60}");
        }
    }
}
