//! The id of a background job.

use std::fmt;

use uuid::Uuid;

/// The number of characters of a UUID in its canonical form, which has 8-4-4-4-12 hexadecimal digits (RFC 9562, section
/// 4).
const CANONICAL_LEN: usize = 36;

/// The id of a background job: a UUID, written in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct JobId(Uuid);

impl JobId {
    /// Creates a random id.
    pub(crate) fn fresh() -> Self {
        Self(Uuid::new_v4())
    }

    /// Returns the id in the form that the database stores.
    pub(crate) fn uuid(self) -> Uuid {
        self.0
    }

    /// Creates an id from the value that the database stores.
    pub(crate) fn of_uuid(id: Uuid) -> Self {
        Self(id)
    }

    /// Parses a UUID in its canonical form, in upper or lower case. Rejects all other forms: braces, URNs and digits
    /// without hyphens.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // The crate `uuid` parses several forms. Only the canonical form has this length.
        if text.len() != CANONICAL_LEN {
            return None;
        }
        Uuid::try_parse(text).ok().map(Self)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}
