//! Reads `JUnit` XML. No entity is expanded but the five of XML, and no document type is read.

use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use thiserror::Error;

use super::REPORT_BYTES_MAX;

/// Pytest nests four deep: suites, suite, case, outcome.
const DEPTH_MAX: usize = 16;

/// Why there is no summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum SummaryError {
    /// See [`REPORT_BYTES_MAX`].
    #[error("the report of the tests is larger than 32 MiB")]
    TooLarge,
    /// Pytest writes UTF-8.
    #[error("the report of the tests is not UTF-8")]
    NotUtf8,
    /// It has a document type, which pytest never writes.
    #[error("the report of the tests has a document type")]
    DocumentType,
    /// More elements in one another than a report has.
    #[error("the report of the tests nests too deep")]
    TooDeep,
    /// Not XML, or it names an entity.
    #[error("the report of the tests is not well-formed at byte {0}")]
    Malformed(u64),
    /// It ends too early: pytest was killed.
    #[error("the report of the tests is not complete")]
    Incomplete,
    /// XML of another kind.
    #[error("the report of the tests is no JUnit report")]
    NotJunit,
}

/// One entry of a test.
#[derive(Debug, Default)]
pub(super) struct Case {
    /// The module and its classes, with dots.
    pub(super) class: String,
    pub(super) name: String,
    /// Only xunit1 has it.
    file: Option<String>,
    pub(super) outcomes: Vec<Outcome>,
}

/// What is other than passed.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) kind: OutcomeKind,
    pub(super) type_: String,
    pub(super) message: String,
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutcomeKind {
    Failure,
    Error,
    Skipped,
}

impl OutcomeKind {
    fn of_element(name: &str) -> Option<Self> {
        match name {
            "failure" => Some(Self::Failure),
            "error" => Some(Self::Error),
            "skipped" => Some(Self::Skipped),
            _ => None,
        }
    }
}

impl Case {
    /// The test as pytest takes it: file, classes and name.
    pub(super) fn id(&self) -> String {
        // What could not be collected has the name of its module only.
        if self.class.is_empty() {
            return match self.file.as_ref() {
                Some(file) => file.clone(),
                None => format!("{}.py", self.name.replace('.', "/")),
            };
        }
        let (file, classes) = if let Some(file) = &self.file {
            let module = file.trim_end_matches(".py").replace('/', ".");
            let classes = self.class.strip_prefix(&module).unwrap_or_default();
            (file.clone(), classes.trim_start_matches('.'))
        } else {
            let (module, classes) = split_at_class(&self.class);
            (format!("{}.py", module.replace('.', "/")), classes)
        };
        if classes.is_empty() {
            format!("{file}::{}", self.name)
        } else {
            format!("{file}::{}::{}", classes.replace('.', "::"), self.name)
        }
    }
}

/// A module and the classes in it. Where they meet is a guess: a class begins with a capital.
fn split_at_class(class: &str) -> (&str, &str) {
    let starts = class.match_indices('.').map(|(at, _)| at);
    let is_class = |at: &usize| {
        class.get(at + 1..).is_some_and(|rest| rest.starts_with(|c: char| c.is_uppercase()))
    };
    match starts.into_iter().find(is_class) {
        Some(at) => {
            let (module, classes) = class.split_at(at);
            (module, classes.trim_start_matches('.'))
        }
        None => (class, ""),
    }
}

/// Shows `visit` every case of the report, and returns how long the tests took. Of the first
/// `texts_max` failures it has the text, of all others not.
pub(super) fn read(
    report: &[u8],
    texts_max: usize,
    visit: impl FnMut(Case),
) -> Result<f64, SummaryError> {
    if report.len() > REPORT_BYTES_MAX {
        return Err(SummaryError::TooLarge);
    }
    let text = std::str::from_utf8(report).map_err(|_| SummaryError::NotUtf8)?;
    let mut xml = Reader::from_str(text);
    let mut reading = Reading {
        visit,
        depth: 0,
        duration_s: 0.0,
        case: None,
        outcome: None,
        texts_left: texts_max,
    };
    let mut has_root = false;
    loop {
        let event = xml.read_event().map_err(|_| SummaryError::Malformed(xml.error_position()))?;
        let malformed = |()| SummaryError::Malformed(xml.buffer_position());
        match event {
            Event::Start(element) => {
                has_root |= reading.start(&element, has_root)?.ok_or(()).map_err(malformed)?;
            }
            Event::Empty(element) => {
                has_root |= reading.start(&element, has_root)?.ok_or(()).map_err(malformed)?;
                reading.end();
            }
            Event::End(_) => reading.end(),
            Event::Text(text) => reading.text(&text.xml10_content()),
            Event::CData(text) => reading.text(&text.xml10_content()),
            Event::GeneralRef(name) => {
                reading.text(resolve(&name).ok_or(()).map_err(malformed)?.encode_utf8(&mut [0; 4]));
            }
            Event::DocType(_) => return Err(SummaryError::DocumentType),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::Eof if !has_root => return Err(SummaryError::NotJunit),
            Event::Eof if reading.depth > 0 => return Err(SummaryError::Incomplete),
            Event::Eof => return Ok(reading.duration_s),
        }
    }
}

fn resolve(name: &BytesRef<'_>) -> Option<char> {
    match name.resolve_char_ref() {
        Ok(Some(character)) => Some(character),
        Ok(None) => resolve_predefined_entity(name).and_then(|text| text.chars().next()),
        Err(_) => None,
    }
}

struct Reading<V> {
    visit: V,
    depth: usize,
    duration_s: f64,
    case: Option<(usize, Case)>,
    outcome: Option<(usize, Outcome)>,
    /// Of how many failures the text is still kept.
    texts_left: usize,
}

impl<V: FnMut(Case)> Reading<V> {
    /// Whether the element is the root of a report; none where its attributes are no XML.
    fn start(
        &mut self,
        element: &BytesStart<'_>,
        has_root: bool,
    ) -> Result<Option<bool>, SummaryError> {
        let name = element.name();
        let name: &str = name.as_ref();
        if !has_root && !matches!(name, "testsuites" | "testsuite") {
            return Err(SummaryError::NotJunit);
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(SummaryError::TooDeep);
        }
        let Some(attributes) = Attributes::of(element) else { return Ok(None) };
        match name {
            "testsuite" if self.case.is_none() => self.duration_s += attributes.seconds(),
            "testcase" if self.case.is_none() => {
                let Attributes { name, classname: class, file, .. } = attributes;
                self.case = Some((self.depth, Case { class, name, file, outcomes: Vec::new() }));
            }
            _ => {
                let Attributes { message, type_, .. } = attributes;
                let kind = OutcomeKind::of_element(name);
                let is_in_case =
                    self.case.as_ref().is_some_and(|(depth, _)| depth + 1 == self.depth);
                if let Some(kind) = kind.filter(|_| is_in_case) {
                    let text = String::new();
                    self.outcome = Some((self.depth, Outcome { kind, type_, message, text }));
                }
            }
        }
        Ok(Some(true))
    }

    fn text(&mut self, text: &str) {
        if let Some((_, outcome)) = &mut self.outcome
            && self.texts_left > 0
        {
            outcome.text.push_str(text);
        }
    }

    fn end(&mut self) {
        if let Some((_, outcome)) = self.outcome.take_if(|(depth, _)| *depth == self.depth) {
            match outcome.kind {
                OutcomeKind::Failure | OutcomeKind::Error => {
                    self.texts_left = self.texts_left.saturating_sub(1);
                }
                OutcomeKind::Skipped => {}
            }
            if let Some((_, case)) = &mut self.case {
                case.outcomes.push(outcome);
            }
        }
        if let Some((_, case)) = self.case.take_if(|(depth, _)| *depth == self.depth) {
            (self.visit)(case);
        }
        self.depth = self.depth.saturating_sub(1);
    }
}

/// The attributes that are used of an element.
#[derive(Default)]
struct Attributes {
    name: String,
    classname: String,
    file: Option<String>,
    time: String,
    message: String,
    type_: String,
}

impl Attributes {
    fn of(element: &BytesStart<'_>) -> Option<Self> {
        let mut found = Self::default();
        // Without the check for doubles, which compares each with each.
        for attribute in element.attributes().with_checks(false) {
            let attribute = attribute.ok()?;
            let value = || {
                let value = attribute.normalized_value(XmlVersion::Implicit1_0);
                value.ok().map(std::borrow::Cow::into_owned)
            };
            match attribute.key.as_ref() {
                "name" => found.name = value()?,
                "classname" => found.classname = value()?,
                "file" => found.file = Some(value()?),
                "time" => found.time = value()?,
                "message" => found.message = value()?,
                "type" => found.type_ = value()?,
                _ => {}
            }
        }
        Some(found)
    }

    /// A time that is none counts as nothing.
    fn seconds(&self) -> f64 {
        let seconds = self.time.parse().unwrap_or(0.0);
        if (0.0..1e9).contains(&seconds) { seconds } else { 0.0 }
    }
}
