//! Checks the encoding that a source declares (PEP 263). Never decodes anything.
//!
//! If a source declares an encoding other than UTF-8, Python may execute a different program from the analysed one. For
//! example, under `utf-7` or `unicode_escape`, the text of a comment can decode to statements.

use ruff_text_size::TextSize;

use super::finding::{FindingKind, RawFinding};
use super::knowledge::index::INDEX;
use super::rules::Special;

/// The names of encodings under which Python reads a source exactly as under UTF-8. The names are in lower case, and
/// contain `-` instead of `_`.
const SAME: &[&str] = &["ascii", "us-ascii", "utf", "utf-8", "utf-8-sig", "utf8"];

/// The prefixes of the names of encodings that extend ASCII. Under these encodings, Python reads a pure ASCII source
/// exactly as under UTF-8.
const EXTEND_ASCII: &[&str] =
    &["latin-1", "latin1", "iso-8859-", "iso8859-", "cp125", "windows-125"];

/// Returns a finding if one of the first two lines declares an encoding under which the source may differ from its
/// UTF-8 text.
///
/// This check is stricter than Python. Whether Python treats a lone carriage return as the end of a line depends on how
/// Python receives the source. So this function checks the first two lines under both assumptions.
pub(super) fn declared(source: &str) -> Option<RawFinding> {
    let (head, rest) = source.split_once('\n').unwrap_or((source, ""));
    let by_line_feed = [head, rest.split('\n').next().unwrap_or_default()];
    let (first, rest) = first_line(source);
    let by_any_end = [first, first_line(rest).0];
    let declared = [by_line_feed, by_any_end]
        .into_iter()
        .filter_map(|[first, second]| {
            encoding_in(first).or_else(|| is_blank(first).then(|| encoding_in(second)).flatten())
        })
        .find(|name| !is_same(name, source))?;
    let offset = declared.as_ptr().addr() - source.as_ptr().addr();
    Some(RawFinding {
        kind: FindingKind::Encoding(declared.to_owned()),
        rule: INDEX.special(Special::Encoding),
        offset: u32::try_from(offset).ok().map(TextSize::new),
    })
}

/// Splits the source into its first line and the remaining lines. `\n`, `\r\n` and `\r` each end a line.
fn first_line(source: &str) -> (&str, &str) {
    let Some(end) = source.find(['\n', '\r']) else { return (source, "") };
    let (line, rest) = source.split_at(end);
    let rest = rest.strip_prefix("\r\n").or_else(|| rest.get(1..)).unwrap_or_default();
    (line, rest)
}

/// Returns whether a line is blank or only a comment. Only then does Python look for a declaration in the next line.
fn is_blank(line: &str) -> bool {
    let line = line.trim_start_matches('\u{feff}').trim_start_matches([' ', '\t', '\u{c}']);
    line.trim_end_matches('\r').is_empty() || line.starts_with('#')
}

fn is_same(name: &str, source: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let extends_ascii = || EXTEND_ASCII.iter().any(|family| name.starts_with(family));
    SAME.contains(&name.as_str()) || (source.is_ascii() && extends_ascii())
}

/// Returns the name of the encoding that a line declares, by the pattern of PEP 263:
/// `^[ \t\f]*#.*?coding[:=][ \t]*([-_.a-zA-Z0-9]+)`.
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
