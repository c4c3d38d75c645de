//! Findings: short enough for a model, exact enough to act on.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::fmt;

use ruff_source_file::{LineIndex, PositionEncoding};
use ruff_text_size::TextSize;

use super::bounds::{NESTING_MAX, SOURCE_BYTES_MAX};
use super::rules::{Rule, Severity};

/// The most findings that are listed; a script with more has made its point.
const FINDINGS_MAX: usize = 20;
/// The most lines, or runs of lines, that one finding names.
const RUNS_MAX: usize = 20;
/// The longest name, in characters, that is repeated back.
const NAME_CHARS_MAX: usize = 80;

/// The name that stands for uses of which the name is not known, among the uses of a script.
pub const UNSEEN: &str = "…";

/// A place in the source, both counted from 1; columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// One reason not to run the script, or one note about it.
///
/// Its `Display` is the text that the model reads.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of finding, with the names that it is about.
    pub kind: FindingKind,
    /// The rule that found it; `None` where no rule did (the source does not parse, is too large
    /// …).
    pub rule: Option<&'static Rule>,
    /// The alternative to suggest; given once for each rule.
    pub remedy: Option<&'static str>,
    /// The place where it starts; `None` for what concerns the whole source.
    pub position: Option<Position>,
    /// The lines where it stands, each once, in order.
    pub lines: Vec<usize>,
}

/// The result of analysing a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Analysis {
    /// The reasons why the script must not run, in source order; empty if it may.
    pub findings: Vec<Finding>,
    /// Notes on what is allowed and worth knowing, in source order.
    pub notes: Vec<Finding>,
    /// The script's imports, by qualified names: `sympy`, `qwed_legal.DeadlineGuard`. In the
    /// order of the walk, with repeats; without what texts of code import.
    pub imports: Vec<String>,
    /// The names that the script uses, sorted: of objects from outside by their qualified names
    /// (`numpy.random.rand`), of members of anything by theirs behind a dot (`.rvs`), `class` for a class statement,
    /// and [`UNSEEN`] if some are not known.
    pub uses: Vec<String>,
    /// The steps that the analysis took: at most [`steps_max`](super::steps_max), and a few for
    /// each level of nesting where that was not enough.
    pub steps: usize,
}

/// The subject of a [`Finding`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// A call of this function, by its qualified name.
    Call {
        /// The function as resolved, for example `os.system`.
        name: String,
        /// The function as it stands in the source.
        written: String,
    },
    /// An import, in the form in which it is reported.
    Import(String),
    /// A use of an object that is dangerous without being called.
    NameReference {
        /// The object as resolved.
        name: String,
        /// The expression as it stands in the source.
        written: String,
    },
    /// A declared encoding that is not UTF-8.
    Encoding(String),
    /// A raw pattern, in a source that does not parse.
    Pattern(&'static str),
    /// A source that does not parse, with the parser's reason.
    SyntaxError(String),
    /// A source of this many bytes, which is more than [`SOURCE_BYTES_MAX`].
    TooLarge(usize),
    /// A source that nests deeper than [`NESTING_MAX`].
    TooDeep,
    /// Names that stand for names that stand for names, further than is followed.
    TooIndirect,
    /// The number of findings beyond those that are listed.
    More(usize),
}

impl PartialEq for Finding {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.rule_id() == other.rule_id()
            && self.position == other.position
    }
}

impl Eq for Finding {}

impl Finding {
    /// Returns the identifier of the rule, `family/name`.
    pub fn rule_id(&self) -> Option<&'static str> {
        self.rule.map(|rule| rule.id)
    }

    /// Returns what was found, without places and without the alternative.
    pub fn statement(&self) -> String {
        self.kind.statement()
    }

    /// Returns the alternative of its rule, also where `remedy` leaves it to an earlier finding.
    pub fn alternative(&self) -> Option<&'static str> {
        let rule = self.rule.filter(|_| self.kind.is_exact())?;
        (!rule.remedy.is_empty()).then_some(rule.remedy)
    }

    /// Makes a finding about the whole source.
    pub(super) fn of_source(kind: FindingKind) -> Self {
        Self { kind, rule: None, remedy: None, position: None, lines: Vec::new() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rule) = self.rule.filter(|rule| rule.severity == Severity::Note) {
            return self.fmt_note(rule, f);
        }
        write!(f, "{}", self.kind.statement())?;
        let mut remarks = Vec::from_iter(self.shown_lines());
        if let FindingKind::Call { name, written } | FindingKind::NameReference { name, written } =
            &self.kind
            && name != written
        {
            remarks.push(format!("written {}", shortened(written)));
        }
        if !remarks.is_empty() {
            write!(f, " ({})", remarks.join(", "))?;
        }
        if let Some(remedy) = self.remedy {
            write!(f, ", instead: {remedy}")?;
        }
        Ok(())
    }
}

impl FindingKind {
    /// Returns whether it is about a program: a word in a text that is none says little.
    fn is_exact(&self) -> bool {
        !matches!(self, Self::Pattern(_))
    }

    /// Returns the first words of a finding that blocks.
    fn statement(&self) -> String {
        match self {
            Self::Call { name, .. } => format!("Dangerous function call: {}()", shortened(name)),
            Self::Import(import) => format!("Dangerous import detected: {}", shortened(import)),
            Self::NameReference { name, .. } => {
                format!("Dangerous name reference detected: {}", shortened(name))
            }
            Self::Encoding(name) => format!("Dangerous encoding declaration: {}", shortened(name)),
            Self::Pattern(pattern) => format!("Potentially dangerous pattern: {pattern}"),
            Self::SyntaxError(reason) => format!("Syntax error in code: {}", shortened(reason)),
            Self::TooLarge(bytes) => {
                format!("Code too large: {bytes} bytes, at most {SOURCE_BYTES_MAX} are accepted")
            }
            Self::TooDeep => format!(
                "Code nested too deeply: more than {NESTING_MAX} levels; split long chains and nests"
            ),
            Self::TooIndirect => {
                "Code too indirect: what its names stand for is lost; name things directly".into()
            }
            Self::More(count) => format!("{count} more findings"),
        }
    }
}

impl Finding {
    /// Writes a note, which blocks nothing: its object, its place, and the reason for it.
    fn fmt_note(&self, rule: &Rule, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let FindingKind::Call { name, .. } | FindingKind::NameReference { name, .. } = &self.kind
        {
            write!(f, "{}", shortened(name))?;
        }
        if let Some(lines) = self.shown_lines() {
            write!(f, " ({lines})")?;
        }
        write!(f, ": {}", rule.why)
    }

    /// Returns the lines as a finding shows them: `line 3`, `lines 1-25`, `lines 1, 3, 7-9`.
    fn shown_lines(&self) -> Option<String> {
        if let [line] = self.lines.as_slice() {
            return Some(format!("line {line}"));
        }
        let mut runs = self.lines.chunk_by(|line, next| line + 1 == *next);
        let run_of = |run: &[usize]| match run {
            [first, .., last] => format!("{first}-{last}"),
            _ => run.iter().map(ToString::to_string).collect(),
        };
        let mut shown: Vec<String> = runs.by_ref().take(RUNS_MAX).map(run_of).collect();
        if runs.next().is_some() {
            shown.push("…".to_owned());
        }
        (!shown.is_empty()).then(|| format!("lines {}", shown.join(", ")))
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A finding as the walk over the tree makes it: cheap, because a hostile source has many.
#[derive(Debug)]
pub(super) struct RawFinding {
    pub(super) kind: FindingKind,
    pub(super) rule: Option<&'static Rule>,
    pub(super) offset: Option<TextSize>,
}

/// The findings and imports of a walk over the tree, in its order.
#[derive(Debug, Default)]
pub(super) struct RawAnalysis {
    pub(super) found: Vec<RawFinding>,
    pub(super) imports: Vec<String>,
    pub(super) uses: Vec<String>,
    pub(super) steps: usize,
}

impl RawAnalysis {
    /// Puts findings into source order, folds repeats into their first, cuts the lists, and works
    /// out lines and columns for what is left.
    pub(super) fn into_analysis(self, source: &str) -> Analysis {
        let Self { mut found, imports, uses, steps } = self;
        // Stable: what has no place in the source keeps its order, behind what has one.
        found.sort_by_key(|found| found.offset.map_or(u32::MAX, |offset| offset.to_u32()));
        let mut place_of = HashMap::new();
        let mut folded: Vec<(RawFinding, Vec<TextSize>)> = Vec::new();
        for one in found {
            let offset = one.offset;
            let place = *place_of.entry(one.kind.clone()).or_insert(folded.len());
            match folded.get_mut(place) {
                Some((_, offsets)) => offsets.extend(offset),
                None => folded.push((one, Vec::from_iter(offset))),
            }
        }
        let is_note = |(found, _): &(RawFinding, _)| {
            found.rule.is_some_and(|rule| rule.severity == Severity::Note)
        };
        let (notes, findings) = folded.into_iter().partition(is_note);
        let findings = cut(findings, source);
        let notes = cut(notes, source);
        Analysis { findings, notes, imports, uses, steps }
    }
}

/// Cuts the list, and makes each finding of what was found, with the places where it was.
fn cut(mut found: Vec<(RawFinding, Vec<TextSize>)>, source: &str) -> Vec<Finding> {
    let more = found.len().saturating_sub(FINDINGS_MAX);
    found.truncate(FINDINGS_MAX);
    let index = LazyCell::new(|| LineIndex::from_source_text(source));
    let line_at = |offset: &TextSize| index.line_index(*offset).get();
    let mut remedied = HashSet::new();
    let mut findings: Vec<Finding> = found
        .into_iter()
        .map(|(RawFinding { kind, rule, offset }, offsets)| {
            let is_new = rule.filter(|rule| kind.is_exact() && remedied.insert(rule.id));
            let remedy = is_new.map(|rule| rule.remedy).filter(|remedy| !remedy.is_empty());
            let mut lines: Vec<usize> = offsets.iter().map(line_at).collect();
            lines.dedup();
            let position = offset.map(|offset| {
                let place = index.source_location(offset, source, PositionEncoding::Utf32);
                Position { line: place.line.get(), column: place.character_offset.get() }
            });
            Finding { kind, rule, remedy, position, lines }
        })
        .collect();
    if more > 0 {
        findings.push(Finding::of_source(FindingKind::More(more)));
    }
    findings
}
