//! Formats findings so that they are short enough for a model to read and exact enough to act on. Never decides whether
//! a script may run.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::fmt;

use ruff_source_file::{LineIndex, PositionEncoding};
use ruff_text_size::TextSize;

use super::bounds::{NESTING_MAX, SOURCE_BYTES_MAX};
use super::checks::Check;
use super::rules::{Rule, Severity};

/// The maximum number of findings in a list. More findings would add nothing to the refusal.
const FINDINGS_MAX: usize = 20;
/// The maximum number of lines, or ranges of lines, that one finding shows.
const LINE_RANGES_MAX: usize = 20;
/// The maximum length of a name in a finding, in characters. A longer name is cut.
const NAME_CHARS_MAX: usize = 80;

/// The entry in [`Analysis::uses`] that stands for all uses with an unknown name.
pub const UNSEEN: &str = "…";

/// A position in the source. Lines and columns are counted from 1, and columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The number of the line.
    pub line: usize,
    /// The number of the column.
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
    /// The rule that found the use. `None` if the finding is not about a use, for example if the source does not parse
    /// or is too large.
    pub rule: Option<&'static Rule>,
    /// The suggested alternative. Only the first finding of each rule has an alternative.
    pub remedy: Option<&'static str>,
    /// The start of the first occurrence. `None` if the finding is about the whole source.
    pub position: Option<Position>,
    /// The numbers of the lines where the finding occurs, in ascending order and without repeats.
    pub lines: Vec<usize>,
}

/// The result of analysing a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Analysis {
    /// The reasons why the script must not run, in source order. Empty if the script may run.
    pub findings: Vec<Finding>,
    /// The notes in source order. A note describes a permitted use that the analysis cannot judge.
    pub notes: Vec<Finding>,
    /// The script's imports by qualified names: `sympy`, `qwed_legal.DeadlineGuard`. The list is in the order of the
    /// analysis, and may contain repeats. Imports in strings that the script runs as code are not included.
    pub imports: Vec<String>,
    /// The names that the script uses, sorted. Objects from outside of the script have their qualified names
    /// (`numpy.random.rand`), members of any object start with a dot (`.rvs`), and `class` stands for a class
    /// statement. Includes [`UNSEEN`] if some names are unknown.
    pub uses: Vec<String>,
    /// The checks of the script, for example its `assert` statements, in source order. At most 1,000.
    pub checks: Vec<Check>,
    /// The number of steps that the analysis took. If the analysis stopped at the limit, the number exceeds
    /// [`steps_max`](super::steps_max) by a few steps for each level of nesting.
    pub steps: usize,
}

/// The subject of a [`Finding`], which determines the text of the finding.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// A call of a dangerous function.
    Call {
        /// The qualified name of the function, for example `os.system`.
        name: String,
        /// The function as it is written in the source.
        written: String,
    },
    /// A dangerous import, as the finding shows it: a module, or `from a import b`.
    Import(String),
    /// A use of an object that is dangerous even if the script does not call it.
    NameReference {
        /// The name of the object as the analysis resolved it.
        name: String,
        /// The expression as it is written in the source.
        written: String,
    },
    /// A declared encoding that is not UTF-8.
    Encoding(String),
    /// A text pattern of a rule, in a source that does not parse.
    Pattern(&'static str),
    /// A source that does not parse, with the parser's error message.
    SyntaxError(String),
    /// A source with this number of bytes, which is more than [`SOURCE_BYTES_MAX`].
    TooLarge(usize),
    /// A source that nests deeper than [`NESTING_MAX`].
    TooDeep,
    /// Names that refer to each other through a longer chain than the analysis follows, or a source that takes too many
    /// steps.
    TooIndirect,
    /// The number of findings that are not listed because the list is full.
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
    /// Returns the identifier of the finding's rule, in the form `family/name`.
    pub fn rule_id(&self) -> Option<&'static str> {
        self.rule.map(|rule| rule.id)
    }

    /// Returns a sentence that describes the finding, without the line numbers and without the suggested alternative.
    pub fn statement(&self) -> String {
        self.kind.statement()
    }

    /// Returns the alternative that the finding's rule suggests. Unlike the field `remedy`, this alternative is
    /// available for each finding of the rule, not only for the first finding.
    pub fn alternative(&self) -> Option<&'static str> {
        let rule = self.rule.filter(|_| self.kind.is_exact())?;
        (!rule.remedy.is_empty()).then_some(rule.remedy)
    }

    /// Creates a finding about the whole source.
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
    /// Returns whether the finding is about parsed code. A pattern in a source that does not parse is weak evidence, so
    /// such a finding suggests no alternative.
    fn is_exact(&self) -> bool {
        !matches!(self, Self::Pattern(_))
    }

    /// Returns the text of a finding that blocks, without its lines and without the suggested alternative.
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
    /// Writes a note: the name of the object, the numbers of the lines, and the reason. A note blocks nothing.
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

    /// Returns the lines in the form in which a finding shows them: `line 3`, `lines 1-25`, `lines 1, 3, 7-9`.
    fn shown_lines(&self) -> Option<String> {
        if let [line] = self.lines.as_slice() {
            return Some(format!("line {line}"));
        }
        let mut runs = self.lines.chunk_by(|line, next| line + 1 == *next);
        let run_of = |run: &[usize]| match run {
            [first, .., last] => format!("{first}-{last}"),
            _ => run.iter().map(ToString::to_string).collect(),
        };
        let mut shown: Vec<String> = runs.by_ref().take(LINE_RANGES_MAX).map(run_of).collect();
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

/// A finding before its lines are computed. It must be cheap to create, because a hostile source has many findings.
#[derive(Debug)]
pub(super) struct RawFinding {
    pub(super) kind: FindingKind,
    pub(super) rule: Option<&'static Rule>,
    pub(super) offset: Option<TextSize>,
}

/// The results of a walk over the syntax tree. The findings and the imports are in the order of the walk.
#[derive(Debug, Default)]
pub(super) struct RawAnalysis {
    pub(super) found: Vec<RawFinding>,
    pub(super) imports: Vec<String>,
    pub(super) uses: Vec<String>,
    pub(super) checks: Vec<Check>,
    pub(super) steps: usize,
}

impl RawAnalysis {
    /// Sorts the findings into source order, merges repeats into the first occurrence, and truncates the lists. Then
    /// computes lines and columns for the remaining findings.
    pub(super) fn into_analysis(self, source: &str) -> Analysis {
        let Self { mut found, imports, uses, checks, steps } = self;
        // The sort is stable: findings without an offset come last and keep their order.
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
        Analysis { findings, notes, imports, uses, checks, steps }
    }
}

/// Truncates the list to `FINDINGS_MAX`, and turns each raw finding with its offsets into a finding.
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
