//! The encoding that a source declares (PEP 263).
//!
//! In another encoding than UTF-8 Python reads another program than the one that is analysed: with
//! `utf-7` or `unicode_escape` a comment can hold statements.

use ruff_text_size::TextSize;

use super::finding::{FindingKind, Found};
use super::index::INDEX;
use super::rules::Special;

/// The declarations that change nothing, in lower case, with `-` for `_`.
const SAME: &[&str] = &["ascii", "us-ascii", "utf", "utf-8", "utf-8-sig", "utf8"];

/// How many lines Python looks at.
const LINES: usize = 2;

/// The declaration of an encoding that is not UTF-8, if there is one.
///
/// Stricter than Python: where it takes a lone carriage return for the end of a line depends on
/// how it is given the source, so a declaration counts if either reading finds it.
pub(super) fn declared(source: &str) -> Option<Found> {
    let (head, rest) = source.split_once('\n').unwrap_or((source, ""));
    let by_line_feed = [head, rest.split('\n').next().unwrap_or_default()];
    let mut lines = source.split(['\n', '\r']);
    let first = lines.next().unwrap_or_default();
    // The line feed after a carriage return ends the same line.
    let second = lines.by_ref().take(LINES).find(|line| !line.is_empty()).unwrap_or_default();
    let declared = [by_line_feed, [first, second]]
        .into_iter()
        .filter_map(|[first, second]| {
            encoding_in(first).or_else(|| is_blank(first).then(|| encoding_in(second)).flatten())
        })
        .find(|name| !is_same(name))?;
    let offset = declared.as_ptr().addr() - source.as_ptr().addr();
    Some(Found {
        kind: FindingKind::Encoding(declared.to_owned()),
        rule: INDEX.special(Special::Encoding),
        offset: u32::try_from(offset).ok().map(TextSize::new),
    })
}

/// Whether a line holds nothing but a comment: only then does Python look at the next.
fn is_blank(line: &str) -> bool {
    let line = line.trim_start_matches('\u{feff}').trim_start_matches([' ', '\t', '\u{c}']);
    line.trim_end_matches('\r').is_empty() || line.starts_with('#')
}

fn is_same(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    SAME.contains(&name.as_str())
}

/// The name that a line declares: `^[ \t\f]*#.*?coding[:=][ \t]*([-_.a-zA-Z0-9]+)`.
fn encoding_in(line: &str) -> Option<&str> {
    let line = line.trim_start_matches('\u{feff}').trim_start_matches([' ', '\t', '\u{c}']);
    let comment = line.strip_prefix('#')?;
    comment.match_indices("coding").find_map(|(start, word)| {
        let after = comment.get(start + word.len()..)?;
        let after = after.strip_prefix([':', '='])?.trim_start_matches([' ', '\t']);
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let end = after.find(|c| !is_part(c)).unwrap_or(after.len());
        after.get(..end).filter(|name| !name.is_empty())
    })
}
