//! The verdict on a run, in the form that results, receipts and stored jobs contain. This module contains only data.
//! `verification` creates verdicts.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::VerdictNote;
use crate::plain_text::plain;
use crate::safety::Vacuity;

/// The conclusion about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Conclusion {
    /// At least one check that can fail was executed, and all executed checks held.
    Verified,
    /// A check failed, and the script ended unsuccessfully because of it.
    Refuted,
    /// No check was executed.
    NothingChecked,
    /// The executed checks cannot fail, or a failed check did not end the script.
    Vacuous,
    /// The run was cut short, or its result can differ between runs.
    Inconclusive,
    /// The script was refused, or could not be run.
    Blocked,
}

impl Conclusion {
    /// Returns the verdict in the terms of the Verification Context (section 4 of its specification).
    pub(crate) fn verdict(self) -> &'static str {
        match self {
            Self::Verified => "VERIFIED",
            Self::Refuted | Self::NothingChecked | Self::Vacuous | Self::Inconclusive => {
                "UNVERIFIABLE"
            }
            Self::Blocked => "BLOCKED",
        }
    }
}

impl fmt::Display for Conclusion {
    /// Writes the name that the JSON of a verdict contains.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Verified => "verified",
            Self::Refuted => "refuted",
            Self::NothingChecked => "nothing_checked",
            Self::Vacuous => "vacuous",
            Self::Inconclusive => "inconclusive",
            Self::Blocked => "blocked",
        })
    }
}

/// The state of a check at the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckState {
    /// The check was executed, and held each time.
    Held,
    /// The check failed at least once.
    Failed,
    /// The check was not executed.
    NotReached,
}

/// A check of a script and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckReport {
    /// The number of the line on which the check begins, counted from 1; 0 for a test.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) line: usize,
    /// The condition, as it is written in the script, or the id of a test.
    pub(crate) text: String,
    pub(crate) state: CheckState,
    /// The identifier ([`Vacuity::id`]) of the reason why the check cannot fail. `None` if no reason is known.
    pub(crate) vacuous: Option<String>,
    pub(crate) times: u64,
    /// The operands and names of the check that ended the script, with their values. Empty for other checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) compared: Vec<Compared>,
}

impl CheckReport {
    /// Creates the report of a test that ran once.
    pub(crate) fn test(id: &str, state: CheckState) -> Self {
        let text = id.to_owned();
        Self { line: 0, text, state, vacuous: None, times: 1, compared: Vec::new() }
    }
}

/// A value that a failed check has compared. Both texts have a limited length and no line feeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Compared {
    /// The operand or the name, as it is written in the script.
    pub(crate) text: String,
    /// The value, as Python represents it.
    pub(crate) value: String,
}

/// The verdict on a run. Its JSON is the value of `_meta["qwed.ai/verification"]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    pub(crate) outcome: Conclusion,
    /// The first checks of the script, in source order.
    pub(crate) checks: Vec<CheckReport>,
    /// The number of checks that are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) checks_omitted: usize,
    /// `sha256:` and the SHA-256 of the document's canonical bytes (RFC 8785), without `object.formalization`.
    pub(crate) document_digest: String,
    /// The Verification Context.
    pub(crate) document: Value,
    /// Whether the outcome could differ on a less busy machine, because a variant of the script (the script with other
    /// numbers or operators) did not start or did not end by itself.
    #[serde(skip)]
    pub(crate) depends_on_load: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Verdict {
    /// Returns the field `proof_ref` of the Verification Context: a digest of the statement and the context. `None`
    /// unless the outcome is [`Conclusion::Verified`].
    pub(crate) fn proof_ref(&self) -> Option<&str> {
        self.document.pointer("/context/evidence/proof_ref")?.as_str()
    }

    /// Returns whether variants of the script were also run.
    pub(crate) fn has_variants(&self) -> bool {
        self.document.pointer("/context/proof/configuration/vacuity").is_some()
    }

    /// Returns the verdict in one line, for a person.
    pub(crate) fn summary(&self) -> String {
        let details = self.details();
        match self.outcome {
            Conclusion::Verified | Conclusion::Refuted => format!("{}: {details}", self.outcome),
            Conclusion::NothingChecked => details,
            Conclusion::Vacuous | Conclusion::Inconclusive | Conclusion::Blocked => {
                format!("not verified: {details}")
            }
        }
    }

    /// Returns the details of the verdict in one line, for a person.
    pub(crate) fn details(&self) -> String {
        let lines_of = |state| {
            let lines: Vec<String> = self
                .checks
                .iter()
                .filter(|check| check.state == state)
                .map(|check| check.line.to_string())
                .collect();
            let word = if lines.len() == 1 { "line" } else { "lines" };
            format!("{word} {}", lines.join(", "))
        };
        match self.outcome {
            Conclusion::Verified => {
                let held = self.checks.iter().filter(|check| check.state == CheckState::Held);
                match (held.count(), self.checks_omitted) {
                    (1, 0) => "1 check held".to_owned(),
                    (held, 0) => format!("{held} checks held"),
                    (0, 1..) => "checks held".to_owned(),
                    (held, 1..) => format!("{held} or more checks held"),
                }
            }
            Conclusion::Refuted => self.compared().unwrap_or_else(|| lines_of(CheckState::Failed)),
            Conclusion::NothingChecked => "nothing was checked".to_owned(),
            Conclusion::Vacuous if self.has_failed() => format!(
                "a check failed, and the script ended successfully: {}",
                lines_of(CheckState::Failed)
            ),
            Conclusion::Vacuous => {
                format!("these checks cannot fail: {}", lines_of(CheckState::Held))
            }
            Conclusion::Inconclusive => {
                "the script ended with another error or was cut short, or its result can differ \
                 between runs"
                    .to_owned()
            }
            Conclusion::Blocked => "the script was not run".to_owned(),
        }
    }

    /// Returns the text for the model about a failed check, or about a script that verified nothing. `None` for other
    /// verdicts, or if `wanted` excludes this text.
    pub(crate) fn note(&self, wanted: VerdictNote) -> Option<String> {
        match (self.outcome, wanted) {
            (Conclusion::Vacuous, VerdictNote::Vacuous | VerdictNote::All) => {}
            (Conclusion::NothingChecked, VerdictNote::All) => {
                return Some("Nothing was verified: no check was executed.".to_owned());
            }
            (Conclusion::Refuted, VerdictNote::Vacuous | VerdictNote::All) => {
                return self.compared();
            }
            _ => return None,
        }
        let is_failed = self.has_failed();
        let state = if is_failed { CheckState::Failed } else { CheckState::Held };
        let mut checks = self.checks.iter().filter(|check| check.state == state);
        let first: Vec<String> = checks.by_ref().take(NOTED_MAX).map(noted).collect();
        let more = match checks.count() {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        Some(format!("Nothing was verified: {}{more}.", first.join("; ")))
    }

    /// Returns the failed check with the values that it has compared, in one line. `None` if no values are known.
    fn compared(&self) -> Option<String> {
        let check = self.checks.iter().find(|check| !check.compared.is_empty())?;
        let mut line = format!("line {}: {}", check.line, shown(check));
        for Compared { text, value } in &check.compared {
            // Writing to a string does not fail.
            let _ = write!(line, "; {text} = {value}");
        }
        Some(line)
    }

    fn has_failed(&self) -> bool {
        self.checks.iter().any(|check| check.state == CheckState::Failed)
    }
}

/// The maximum number of checks in a text for the model.
const NOTED_MAX: usize = 3;
/// The maximum number of characters of a check in a text for the model. Also applies to each compared value.
const NOTED_CHARS_MAX: usize = 120;

/// Returns the reason why a check proves nothing, for the model.
fn noted(check: &CheckReport) -> String {
    let CheckReport { line, state, vacuous, .. } = check;
    let text = shown(check);
    let why = Vacuity::all().find(|why| vacuous.as_deref() == Some(why.id()));
    match why.filter(|_| *state != CheckState::Failed) {
        Some(why) => format!("`{text}` (line {line}) cannot fail: {}", why.why()),
        None => format!("`{text}` (line {line}) failed, and the script ended successfully"),
    }
}

/// Returns the text of a check, shortened and without hidden characters.
fn shown(check: &CheckReport) -> String {
    plain(&shortened(&check.text))
}

/// Returns a text of at most [`NOTED_CHARS_MAX`] characters.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    shortened_to(NOTED_CHARS_MAX, text)
}

/// Returns the first `chars_max` characters of a text. Appends an ellipsis if the text is longer.
pub(crate) fn shortened_to(chars_max: usize, text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}
