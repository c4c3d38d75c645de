//! Compares `docs/REFERENCE.md` with the sources in both directions. Each text on the page must be in a source. Each
//! error, log line, code and warning in a source must be on the page.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use super::{code_spans, read};
use crate::architecture::source_folders;
use crate::harness::root;

tests! {
    needs []:
        each_text_of_the_reference_is_in_the_program,
        each_error_and_log_line_of_the_program_is_in_the_reference,
        each_code_of_a_refusal_is_in_the_reference,
        a_text_that_was_changed_is_found;
}

/// Quoted texts that come from other projects, with their origin.
const FOREIGN: [(&str, &str); 4] = [
    ("Missing required client capability", "rmcp"),
    ("request _meta is missing or has malformed required fields:", "rmcp"),
    ("Unsupported protocol version", "rmcp"),
    ("ulimit -n", "a command of shells"),
];

/// Attributes and macros with texts for people, such as error messages.
const SPEAKERS: [&str; 7] =
    ["#[error(", "error!(", "warn!(", ".say(", "context(", "bail!(", "failed("];

/// A string literal of a source, with `{}` for inserted values.
pub(super) struct Literal {
    file: PathBuf,
    /// The code before the literal, back to the last `;`, `{` or `}`.
    before: String,
    pub(super) text: String,
}

/// Returns all sources without their tests.
fn sources() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for folder in source_folders() {
        collect(&folder, &mut files);
    }
    let code = |file: PathBuf| {
        let source = fs::read_to_string(&file).unwrap();
        let code = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
        (file, code)
    };
    files.into_iter().map(code).collect()
}

/// Returns the texts of all sources. They are collected once, because regular expressions are slow in an unoptimised
/// build.
pub(super) fn literals() -> &'static [Literal] {
    static LITERALS: LazyLock<Vec<Literal>> = LazyLock::new(collected_literals);
    &LITERALS
}

fn collected_literals() -> Vec<Literal> {
    let mut literals = Vec::new();
    for (file, source) in sources() {
        if file.extension().is_some_and(|extension| extension == "rs") {
            literals.extend(literals_of(&file, &source));
        } else {
            literals.push(Literal { file, before: String::new(), text: source });
        }
    }
    assert!(literals.len() > 2000, "{}", literals.len());
    literals
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.file_name().is_some_and(|name| name != "tests.rs") {
            files.push(path);
        }
    }
}

fn literals_of(file: &Path, source: &str) -> Vec<Literal> {
    static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
        let token =
            r##"(?s)//[^\n]*|'(?:\\.|[^\\'])'|r#"(.*?)"#|\b[rb]"([^"]*)"|"((?:\\.|[^\\"])*)""##;
        Regex::new(token).unwrap()
    });
    let mut literals = Vec::new();
    let mut before = String::new();
    let mut end = 0;
    for found in TOKEN.captures_iter(source) {
        let whole = found.get(0).unwrap();
        before.push_str(&source[end..whole.start()]);
        end = whole.end();
        if let Some(start) = before.rfind([';', '{', '}']) {
            before.drain(..=start);
        }
        let raw = found.get(1).or_else(|| found.get(2)).map(|text| text.as_str().to_owned());
        let text = raw.or_else(|| found.get(3).map(|text| unescaped(text.as_str())));
        if let Some(text) = text {
            literals.push(Literal { file: file.to_owned(), before: before.clone(), text });
        }
    }
    literals
}

fn unescaped(text: &str) -> String {
    static CONTINUED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\\n\s*").unwrap());
    let text = CONTINUED.replace_all(text, "").into_owned();
    text.replace("\\n", "\n").replace("\\\"", "\"").replace("\\\\", "\\")
}

/// Splits a text at inserted values: `{…}` in sources and on the page, and `…` on the page.
fn parts(text: &str) -> Vec<String> {
    static HOLE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{[^{}]*\}|…").unwrap());
    let doubled = text.replace("{{", "\u{1}").replace("}}", "\u{2}");
    let parts = HOLE.split(&doubled);
    parts
        .map(|part| part.replace('\u{1}', "{").replace('\u{2}', "}"))
        .filter(|part| !part.is_empty())
        .collect()
}

/// The pieces of all literals. A piece is the text between two inserted values.
struct Pieces {
    all: BTreeSet<String>,
    /// The ends of all pieces. Each end begins at the start of a word.
    ends: HashSet<String>,
    /// All pieces in one string, for a fast search.
    joined: String,
}

impl Pieces {
    fn new(texts: impl IntoIterator<Item = String>) -> Self {
        let parts = texts.into_iter().flat_map(|text| parts(&text));
        let pieces: BTreeSet<String> = parts.filter(|part| part.len() > 1).collect();
        let joined = pieces.iter().map(String::as_str).collect::<Vec<_>>().join("\u{0}");
        let mut ends = HashSet::new();
        for piece in &pieces {
            for (space, _) in piece.match_indices(' ') {
                let both = [&piece[space..], &piece[space + 1..]].into_iter();
                ends.extend(both.filter(|end| end.len() <= END_BYTES_MAX).map(str::to_owned));
            }
        }
        Self { all: pieces, ends, joined }
    }

    /// Returns whether pieces can form `part`. Either `part` is within a piece, or `part` consists of the end of a
    /// piece, then whole pieces, then the beginning of a piece.
    fn make(&self, part: &str) -> bool {
        if self.joined.contains(part) {
            return true;
        }
        let mut reached = self.ends_that_begin(part);
        reached.insert(0);
        while let Some(start) = reached.pop_first() {
            let rest = &part[start..];
            if rest.is_empty() || self.begins(rest) {
                return true;
            }
            let fits = prefixes(rest).filter(|prefix| self.all.contains(*prefix));
            reached.extend(fits.map(|piece| start + piece.len()));
        }
        false
    }

    fn begins(&self, rest: &str) -> bool {
        let from_rest = self.all.range::<str, _>((Bound::Included(rest), Bound::Unbounded));
        let mut longer = from_rest.take_while(|piece| piece.starts_with(rest));
        longer.any(|piece| piece.len() >= PIECE_BYTES_MIN)
    }

    /// Returns the lengths of all prefixes of `part` that are the end of a piece. Ignores short prefixes.
    fn ends_that_begin(&self, part: &str) -> BTreeSet<usize> {
        let ends = prefixes(part).filter(|prefix| self.ends.contains(*prefix));
        ends.map(str::len).filter(|length| *length >= PIECE_BYTES_MIN).collect()
    }
}

/// Returns all prefixes of a text that are not empty.
fn prefixes(text: &str) -> impl Iterator<Item = &str> {
    text.char_indices().map(|(start, char)| &text[..start + char.len_utf8()])
}

/// The minimum size of a match with the beginning or end of a piece. Shorter texts match by chance.
const PIECE_BYTES_MIN: usize = 8;
/// The maximum size of the end of a piece. No text on the page is longer than this.
const END_BYTES_MAX: usize = 1000;

/// Returns the parts of a text on the page that the program cannot print. A number on the page may be an inserted
/// value.
fn lost(span: &str, pieces: &Pieces) -> Vec<String> {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"-?\d[\d.,]*").unwrap());
    let is_made = |part: &str| {
        let bare = part.trim_end_matches(['.', ':', ' ']);
        bare.trim().len() <= 2
            || [part, bare, bare.trim_start()].iter().any(|part| pieces.make(part))
    };
    let with_numbers = |part: &str| NUMBER.split(part).all(is_made);
    parts(span).into_iter().filter(|part| !is_made(part) && !with_numbers(part)).collect()
}

/// Returns whether a code span quotes a text. Such a span has a space, and is not a command.
fn is_text(span: &str) -> bool {
    let is_command =
        ["qwed-mcp ", "cargo ", "sysctl ", "token ", "runs ", "audit ", "policy ", "{ \""]
            .iter()
            .any(|start| span.starts_with(start));
    span.contains(' ') && !is_command
}

fn each_text_of_the_reference_is_in_the_program() {
    let pieces = Pieces::new(literals().iter().map(|literal| literal.text.clone()));
    let mut unknown = Vec::new();
    let mut checked = 0;
    let mut foreign = BTreeSet::new();
    for span in code_spans(&read("docs/REFERENCE.md")).into_iter().filter(|span| is_text(span)) {
        checked += 1;
        let lost = lost(&span, &pieces);
        if let Some((text, _)) = FOREIGN.iter().find(|(text, _)| span.contains(text)) {
            foreign.insert(text);
        } else if !lost.is_empty() {
            unknown.push(format!("{span}\n    not in src: {lost:?}"));
        }
    }
    let unknown = unknown.join("\n");
    assert!(unknown.is_empty(), "REFERENCE.md has texts that the program has not:\n{unknown}");
    assert!(checked > 220, "{checked}");
    assert_eq!(foreign.len(), FOREIGN.len(), "no longer on the page: all but {foreign:?}");
}

/// Returns whether a text on the page has all parts of a text of the program, in the same order.
fn has_in_order(span: &str, wanted: &[String]) -> bool {
    let mut rest = span;
    wanted.iter().map(|part| part.trim().trim_end_matches(['.', ':'])).all(|part| {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
        true
    })
}

fn each_error_and_log_line_of_the_program_is_in_the_reference() {
    let mut spans = code_spans(&read("docs/REFERENCE.md"));
    spans.extend(code_spans(&read("docs/CONFIGURATION.md")));
    let mut missing = Vec::new();
    let mut checked = 0;
    for literal in literals().iter().filter(|literal| speaks(literal)) {
        let parts: Vec<String> =
            parts(&literal.text).into_iter().filter(|part| part.trim().len() > 2).collect();
        if parts.is_empty() {
            continue;
        }
        checked += 1;
        if !spans.iter().any(|span| has_in_order(span, &parts)) {
            let file = literal.file.strip_prefix(root()).unwrap();
            missing.push(format!("{}: {}", file.display(), literal.text));
        }
    }
    assert!(missing.is_empty(), "not in docs/REFERENCE.md:\n{}", missing.join("\n"));
    assert!(checked > 220, "{checked}");
}

/// Returns whether people read a literal. Such a literal is within one of the attributes and macros in [`SPEAKERS`].
fn speaks(literal: &Literal) -> bool {
    let before = &literal.before;
    let start = SPEAKERS.iter().filter_map(|speaker| before.rfind(speaker)).max();
    start.is_some_and(|start| {
        let inside = &before[start..];
        inside.matches('(').count() > inside.matches(')').count()
    })
}

fn each_code_of_a_refusal_is_in_the_reference() {
    let page = read("docs/REFERENCE.md");
    let code = Regex::new(r"QWED-MCP-RISK-\d{3}").unwrap();
    let name = Regex::new("^[A-Z]+_[A-Z_]+$").unwrap();
    let number = Regex::new(r"-32\d{3}").unwrap();
    let literals = literals();
    let texts = literals.iter().map(|literal| &literal.text);
    let codes: BTreeSet<&str> =
        texts.flat_map(|text| code.find_iter(text)).map(|code| code.as_str()).collect();
    assert!(codes.len() >= 9, "{codes:?}");
    for code in codes {
        assert!(page.contains(&format!("| `{code}` |")), "{code}");
    }

    let sources: String = sources().into_iter().map(|(_, source)| source).collect();
    let numbers: BTreeSet<&str> =
        number.find_iter(&sources).map(|number| number.as_str()).collect();
    assert!(numbers.len() >= 8, "{numbers:?}");
    for number in numbers {
        assert!(page.contains(&format!("| {number} |")), "{number}");
    }

    let governed = read("docs/GOVERNED_TOOLS.md");
    let of_refusals = literals.iter().filter(|literal| literal.file.ends_with("refusal.rs"));
    let names: Vec<_> = of_refusals.filter(|literal| name.is_match(&literal.text)).collect();
    assert!(names.len() >= 8);
    for Literal { text, .. } in names {
        assert!(governed.contains(&format!("`{text}`")), "{text}");
    }
}

fn a_text_that_was_changed_is_found() {
    let texts = [
        "Execution error: {error}.",
        "Python could not be started: {0}",
        "the launcher ended",
        "more than {MAX} levels",
    ];
    let pieces = Pieces::new(texts.map(str::to_owned));
    for (span, is_known) in [
        ("Execution error: Python could not be started: {step}", true),
        ("could not be started: the launcher ended", true),
        ("Python could not be begun: {step}", false),
        ("Execution error: the launcher ended", true),
        ("Execution error: the launcher stopped", false),
        ("more than 3000 levels", true),
        ("more than 3000 floors", false),
    ] {
        assert_eq!(lost(span, &pieces).is_empty(), is_known, "{span}");
    }
    let wanted = parts("tier {} of {name} is missing");
    assert!(has_in_order("tier {tier} of {what} is missing.", &wanted));
    assert!(!has_in_order("tier {tier} in {what} is missing.", &wanted));
}
