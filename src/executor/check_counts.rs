//! Decodes the counts of a script's checks (statements such as `assert`), and the values that a failed check has
//! compared. `python/checks.py` sends both.
//!
//! A script can forge the counts and the values. So they never change the result of the static analysis.

use serde::{Deserialize, Serialize};

use super::frames::letter::{COMPARED, COUNTS};
use super::frames::{HEAD_BYTES, only_frame};
use crate::plain_text::plain;
use crate::verdict::shortened;

/// The size of the three counts of a check, in bytes.
const CHECK_BYTES: usize = 24;

/// The maximum size, in bytes, of the frame in which a run sends the values that its failed check has compared. After
/// decoding, the server keeps at most [`COMPARED_BYTES_MAX`] bytes of these values.
const VALUES_BYTES_MAX: usize = HEAD_BYTES + 16 * 1024;

/// The maximum number of values that the server keeps for a failed check.
const COMPARED_MAX: usize = 8;

/// The maximum total size, in bytes, of the two frames that this module reads: the frame with the counts, and the frame
/// with the compared values. The frame with the counts has one entry for each check, and the analysis finds at most
/// 1,000 checks in a script.
pub(super) const FRAMES_BYTES_MAX: usize = HEAD_BYTES + 1_000 * CHECK_BYTES + VALUES_BYTES_MAX;

/// The maximum total size, in bytes, of the names and values that the server keeps for a failed check.
const COMPARED_BYTES_MAX: usize = 1_000;

/// The maximum of a count. All integers up to this maximum have an exact representation in JSON.
const COUNT_MAX: u64 = (1 << 53) - 1;

/// The counts of each check of a script, in the order of [`Analysis::checks`](crate::safety::Analysis::checks), and
/// the values that the failed check has compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckCounts {
    /// Three counts for each check. [`CheckKind`](crate::safety::CheckKind) defines the meaning of the first two
    /// counts. If the check examines the elements of a collection, the third count is the number of examined elements.
    counts: Vec<[u64; 3]>,
    compared: Option<Compared>,
}

/// The values that the failed check of a script has compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Compared {
    /// The index of the failed check.
    check: usize,
    /// Pairs of texts in Python syntax: an operand or a name from the check, and the value of this operand or name.
    /// Each text is one line without control characters.
    values: Vec<(String, String)>,
}

/// Returns whether this module decodes the frames with the letter `kind`.
pub(super) fn is_own(kind: u8) -> bool {
    matches!(kind, COUNTS | COMPARED)
}

impl CheckCounts {
    /// Returns the counts, if the run has sent exactly one frame with counts. If a run sends several such frames, at
    /// least one of them is forged. The server cannot detect which frame is forged, so it uses none of them.
    pub(super) fn from_frames(bytes: &[u8]) -> Option<Self> {
        let (counts, rest) = only_frame(bytes, COUNTS)?.as_chunks::<8>();
        let (triples, odd) = counts.as_chunks::<3>();
        let is_whole = rest.is_empty() && odd.is_empty();
        let count = |bytes: [u8; 8]| u64::from_le_bytes(bytes).min(COUNT_MAX);
        is_whole.then(|| Self {
            counts: triples.iter().map(|three| three.map(count)).collect(),
            compared: only_frame(bytes, COMPARED).and_then(Compared::from_content),
        })
    }

    #[cfg(test)]
    pub(crate) fn for_test(counts: &[[u64; 3]]) -> Self {
        Self { counts: counts.to_vec(), compared: None }
    }

    /// Returns the counts of the script's checks; `None` if the number of received counts differs from `checks`, the
    /// number of checks in the script.
    pub(crate) fn of(&self, checks: usize) -> Option<&[[u64; 3]]> {
        (self.counts.len() == checks).then_some(&self.counts)
    }

    /// Returns the values that a check has compared, if they were sent.
    pub(crate) fn compared(&self, check: usize) -> &[(String, String)] {
        let compared = self.compared.as_ref().filter(|compared| compared.check == check);
        compared.map_or(&[], |compared| &compared.values)
    }
}

impl Compared {
    /// Decodes the content of a frame: the index of the failed check, then pairs of an operand or name and its value.
    /// NUL separates all parts. Shortens long texts, and leaves out pairs beyond the limits.
    fn from_content(content: &[u8]) -> Option<Self> {
        if content.len() > VALUES_BYTES_MAX {
            return None;
        }
        let mut parts = str::from_utf8(content).ok()?.split('\0');
        let check = parts.next()?.parse().ok()?;
        let mut values = Vec::new();
        let mut left = COMPARED_BYTES_MAX;
        while values.len() < COMPARED_MAX
            && let (Some(text), Some(value)) = (parts.next(), parts.next())
        {
            let pair = (one_line(text), one_line(value));
            let Some(rest) = left.checked_sub(pair.0.len() + pair.1.len()) else { break };
            left = rest;
            values.push(pair);
        }
        Some(Self { check, values })
    }
}

/// Shortens a text to one line. Each sequence of white space and control characters becomes one space. Hidden
/// characters are replaced, because with them a value could look like a different value.
fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    plain(&shortened(&line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_le_bytes();
        [&[kind][..], &length, content].concat()
    }

    fn counts(counts: &[u64]) -> Vec<u8> {
        counts.iter().flat_map(|count| count.to_le_bytes()).collect()
    }

    #[test]
    fn counts_are_read_beside_pictures() {
        let sent =
            [frame(b'L', b"any"), frame(COUNTS, &counts(&[3, 0, 0, u64::MAX, 1, 7]))].concat();
        let read = CheckCounts::from_frames(&sent).unwrap();
        assert_eq!(read.of(2).unwrap(), [[3, 0, 0], [COUNT_MAX, 1, 7]]);
        assert_eq!(read.of(3), None);
    }

    #[test]
    fn values_are_one_line_and_bounded() {
        let long = "x".repeat(200);
        let content = format!("0\0total\01 +\n\x1b[2J 2\0{long}\0{long}").into_bytes();
        let of = |content: &[u8]| {
            let sent = [frame(COMPARED, content), frame(COUNTS, &counts(&[0, 1, 0]))].concat();
            CheckCounts::from_frames(&sent).unwrap()
        };
        let short = format!("{}…", "x".repeat(120));
        let expected = [("total".to_owned(), "1 + [2J 2".to_owned()), (short.clone(), short)];
        assert_eq!(of(&content).compared(0), expected);
        assert_eq!(of(&content).compared(1), []);
        let hidden = "0\0name\0'a\u{202e}b\u{200b}c\u{feff}' == 'é'".as_bytes();
        let expected = ("name".to_owned(), "'a\u{fffd}b\u{fffd}c\u{fffd}' == 'é'".to_owned());
        assert_eq!(of(hidden).compared(0), [expected]);
        let many = format!("0{}", "\0name\0value".repeat(500));
        assert_eq!(of(many.as_bytes()).compared(0).len(), COMPARED_MAX);
        let empty = format!("0{}", "\0".repeat(1_000));
        assert_eq!(of(empty.as_bytes()).compared(0).len(), COMPARED_MAX);
        let large = format!("0\0name\0{}", "x".repeat(VALUES_BYTES_MAX));
        assert_eq!(of(large.as_bytes()).compared(0), []);
        for broken in [&b""[..], b"one\0a\0b", b"0\0odd", b"\xff"] {
            assert_eq!(of(broken).compared(0), [], "{broken:?}");
        }
        let twice = [frame(COMPARED, &content), frame(COMPARED, &content)].concat();
        let sent = [twice, frame(COUNTS, &counts(&[0, 1, 0]))].concat();
        assert_eq!(CheckCounts::from_frames(&sent).unwrap().compared(0), []);
    }

    #[test]
    fn forged_or_broken_counts_are_not_used() {
        let one = frame(COUNTS, &counts(&[1, 0, 0]));
        assert!(CheckCounts::from_frames(&one).is_some());
        let twice = [&one[..], &one].concat();
        let wrong = [&b""[..], &twice, &frame(COUNTS, &counts(&[1])), &frame(COUNTS, b"seven b")];
        for sent in wrong.into_iter().chain([&one[..one.len() - 1]]) {
            assert_eq!(CheckCounts::from_frames(sent), None, "{sent:?}");
        }
    }
}
