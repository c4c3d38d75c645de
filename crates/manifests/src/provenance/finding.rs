//! The finding of a check, and excerpts of a manifest's own text.

use std::fmt;

use serde::Serialize;

use crate::hidden::is_hidden;

/// The longest text, in characters, that is repeated from a manifest.
const EXCERPT_CHARS_MAX: usize = 200;
/// A text that is longer than this has more characters than are repeated.
pub(super) const EXCERPT_BYTES_MAX: usize = 4 * EXCERPT_CHARS_MAX;

/// One reason not to load a skill.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) risk: SkillRisk,
    pub(super) text: String,
}

impl Finding {
    /// Returns a finding that alone marks a skill as an attack, or that makes its content uncertain.
    pub(super) fn high(text: impl Into<String>) -> Self {
        Self { risk: SkillRisk::High, text: text.into() }
    }

    /// Returns a finding that a skill in order does not have.
    pub(super) fn medium(text: impl Into<String>) -> Self {
        Self { risk: SkillRisk::Medium, text: text.into() }
    }
}

/// The risk of a skill; the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SkillRisk {
    /// Nothing was found.
    None,
    /// The manifest is not in order.
    Medium,
    /// An untrusted registry, a suspicious pattern, or no digest that could be compared.
    High,
}

impl SkillRisk {
    /// Returns the documented word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl fmt::Display for SkillRisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns whether a character is read by programs and not seen by a person, or is a control character.
pub(super) fn is_unseen(character: char) -> bool {
    character.is_control() || is_hidden(character)
}

/// Returns the beginning of `text`, on one line and with nothing unseen in it: whoever wrote the manifest must not be able to write lines
/// into a log, or to make a finding as long as the manifest.
pub(super) fn excerpt(text: &str) -> String {
    let mut shown = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == EXCERPT_CHARS_MAX {
            shown.push('…');
            break;
        }
        if is_unseen(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}
