//! Looks through the values of a manifest for dangerous patterns.

use serde_json::{Map, Value};

use super::finding::{EXCERPT_BYTES_MAX, Finding, excerpt};
use super::patterns::{Case, DANGEROUS_PATTERNS, DangerousPattern, Then};

/// Fields that describe the skill, in words or in a form that its own check reads. Prose about
/// credentials is no attack.
const FIELDS_NOT_SCANNED: &[&str] =
    &["author", "description", "digest", "license", "name", "registry", "source_url", "version"];

/// Every dangerous pattern in every text of the manifest, in the order of the fields' names.
///
/// Without recursion: a manifest from a caller may be nested deeper than one from a file.
pub(super) fn suspicious_values(manifest: &Map<String, Value>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let scanned = members(manifest).filter(|(step, _)| !is_excluded(step));
    let mut levels = vec![Level { step: None, values: Box::new(scanned) }];
    while let Some(level) = levels.last_mut() {
        let Some((step, value)) = level.values.next() else {
            levels.pop();
            continue;
        };
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => {
                for pattern in patterns_in(text) {
                    let expression = pattern.expression;
                    let place = place(&levels, &step);
                    findings.push(Finding::high(format!(
                        "Suspicious pattern '{expression}' in manifest field '{place}'"
                    )));
                }
            }
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let values = Box::new(items.map(|(index, item)| (Step::Index(index), item)));
                levels.push(Level { step: Some(step), values });
            }
            Value::Object(object) => {
                levels.push(Level { step: Some(step), values: Box::new(members(object)) });
            }
        }
    }
    findings
}

/// An array or object that is being looked through.
struct Level<'m> {
    /// Where it is within the one above; none for the manifest itself.
    step: Option<Step<'m>>,
    values: Box<dyn Iterator<Item = (Step<'m>, &'m Value)> + 'm>,
}

/// From a value to one within it.
enum Step<'m> {
    Member(&'m str),
    Index(usize),
}

/// The members by name. The map may keep them as they came, if another crate asks serde for that.
fn members(object: &Map<String, Value>) -> impl Iterator<Item = (Step<'_>, &Value)> {
    let mut members: Vec<_> = object.iter().collect();
    members.sort_unstable_by_key(|(name, _)| *name);
    members.into_iter().map(|(name, value)| (Step::Member(name), value))
}

fn is_excluded(step: &Step<'_>) -> bool {
    match step {
        Step::Member(name) => FIELDS_NOT_SCANNED.contains(name),
        Step::Index(_) => false,
    }
}

/// Where a value is, as in `hooks.install[0]`. Made for findings alone: there are many more values.
fn place(levels: &[Level<'_>], last: &Step<'_>) -> String {
    let mut place = String::new();
    let steps = levels.iter().filter_map(|level| level.step.as_ref()).chain([last]);
    for (depth, step) in steps.enumerate() {
        match step {
            Step::Member(name) if depth == 0 => place.push_str(&excerpt(name)),
            Step::Member(name) => place.extend([".", &excerpt(name)]),
            Step::Index(index) => place.extend(["[", &index.to_string(), "]"]),
        }
        // The rest would be cut off anyway, and a deep nest can hold very many findings.
        if place.len() > EXCERPT_BYTES_MAX {
            break;
        }
    }
    excerpt(&place)
}

/// The patterns that are in `text`, each once.
pub(super) fn patterns_in(text: &str) -> impl Iterator<Item = &'static DangerousPattern> {
    let folded: String = text.chars().map(fold).collect();
    DANGEROUS_PATTERNS.iter().filter(move |pattern| match pattern.case {
        Case::Exact => is_in(text, pattern),
        Case::Ignored => is_in(&folded, pattern),
    })
}

/// The lower case of the letters that patterns are made of, and of those outside of ASCII that have
/// the same one.
fn fold(character: char) -> char {
    match character {
        '\u{130}' | '\u{131}' => 'i',
        '\u{212a}' => 'k',
        '\u{17f}' => 's',
        other => other.to_ascii_lowercase(),
    }
}

fn is_in(text: &str, pattern: &DangerousPattern) -> bool {
    pattern.words.iter().any(|word| match pattern.then {
        Then::WordEnd => after_word(text, word).any(|rest| !rest.starts_with(is_of_word)),
        Then::Call => after_word(text, word).any(|rest| call(rest).is_some()),
        Then::CallWith(marks) => {
            is_called_on_line_with(text, word, |line| marks.iter().any(|mark| line.contains(mark)))
        }
        Then::CallWithWord(marks) => is_called_on_line_with(text, word, |line| {
            marks.iter().any(|mark| after_word(line, mark).next().is_some())
        }),
    })
}

/// What comes after each `word` that does not continue another word.
fn after_word<'t>(text: &'t str, word: &str) -> impl Iterator<Item = &'t str> {
    text.match_indices(word).filter_map(|(at, word)| {
        let (before, from_word) = text.split_at_checked(at)?;
        if before.ends_with(is_of_word) { None } else { from_word.strip_prefix(word) }
    })
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// What comes after the opening parenthesis, if `rest` is a call of what stands before it.
fn call(rest: &str) -> Option<&str> {
    rest.trim_start_matches(is_space).strip_prefix('(')
}

fn is_space(character: char) -> bool {
    // Python counts the four separators of ASCII as white space too.
    character.is_whitespace() || matches!(character, '\x1c'..='\x1f')
}

fn is_called_on_line_with(text: &str, word: &str, is_marked: impl Fn(&str) -> bool) -> bool {
    // A line without a mark after its first call has none after the others: without this, a line
    // with many calls would take quadratic time.
    let mut searched_to = 0;
    for arguments in after_word(text, word).filter_map(call) {
        let from = text.len() - arguments.len();
        if from < searched_to {
            continue;
        }
        let line = arguments.split('\n').next().unwrap_or_default();
        if is_marked(line) {
            return true;
        }
        searched_to = from + line.len();
    }
    false
}
