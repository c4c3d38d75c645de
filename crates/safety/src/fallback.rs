//! Searches the text of a source for the patterns of the rules, if the source cannot be parsed. Such a source has no
//! syntax tree.

use super::finding::{FindingKind, RawFinding};
use super::rules::{self, Rule, Target};

/// Returns a finding for each pattern of the rules that occurs in `source`.
pub(super) fn patterns(source: &str) -> Vec<RawFinding> {
    let mut findings = Vec::new();
    for rule in rules::all() {
        for target in rule.targets {
            let Target::Patterns(patterns) = target else { continue };
            let occurring = patterns.split_ascii_whitespace().filter(|text| source.contains(text));
            findings.extend(occurring.map(|text| pattern_finding(Some(rule), text)));
        }
    }
    // The word `open` alone occurs in many honest sources. Only `open` before a bracket is a finding, because it is
    // then a call.
    let open = rules::all().find(|rule| rule.id == "files/open");
    if calls_open(source) {
        findings.push(pattern_finding(open, "open()"));
    }
    findings
}

fn pattern_finding(rule: Option<&'static Rule>, pattern: &'static str) -> RawFinding {
    RawFinding { kind: FindingKind::Pattern(pattern), rule, offset: None }
}

/// Returns whether `open` occurs as a separate word before an opening bracket.
fn calls_open(source: &str) -> bool {
    source.match_indices("open").any(|(start, word)| {
        let (before, rest) = source.split_at(start);
        let after = rest.get(word.len()..).unwrap_or_default();
        let is_word = !before.ends_with(|c: char| c == '_' || c.is_alphanumeric());
        is_word && after.trim_start().starts_with('(')
    })
}
