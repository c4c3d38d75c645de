//! Defines the findings of checks, and formats excerpts of a manifest that are safe to show.

use std::fmt;

use serde::Serialize;

use crate::hidden::is_hidden;

/// The maximum number of characters from a manifest that an excerpt contains.
const EXCERPT_CHARS_MAX: usize = 200;
/// The number of bytes above which an excerpt always cuts a text, because a character has at most four bytes.
pub(super) const EXCERPT_BYTES_MAX: usize = 4 * EXCERPT_CHARS_MAX;

/// One reason not to load a skill.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) risk: SkillRisk,
    pub(super) text: String,
}

impl Finding {
    /// Creates a finding of high risk: a sign of an attack, or a fault that leaves the content of the skill
    /// uncertain.
    pub(super) fn high(text: impl Into<String>) -> Self {
        Self { risk: SkillRisk::High, text: text.into() }
    }

    /// Creates a finding of medium risk: a fault that does not occur in a well-formed skill.
    pub(super) fn medium(text: impl Into<String>) -> Self {
        Self { risk: SkillRisk::Medium, text: text.into() }
    }
}

/// The risk of a skill. The variants are in increasing order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SkillRisk {
    /// The checks found nothing.
    None,
    /// The manifest has faults, but no finding of high risk.
    Medium,
    /// The skill has at least one finding of high risk: an untrusted registry, a dangerous pattern, a duplicate field,
    /// a missing or invalid digest, or an artifact that cannot be verified.
    High,
}

impl SkillRisk {
    /// Returns the documented text of the risk.
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

/// Returns whether a character is hidden from people, or is a control character.
pub(super) fn is_unseen(character: char) -> bool {
    character.is_control() || is_hidden(character)
}

/// Returns the beginning of `text`, on one line and with hidden characters escaped. So a manifest can neither inject
/// lines into a log nor make a finding very long.
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
