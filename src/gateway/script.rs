//! A script before and after the gateway.

use std::fmt;
use std::sync::Arc;

use super::VerificationId;

/// Python source text. Cheap to clone; never shown by `Debug`, so that it reaches no log.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SourceCode(Arc<str>);

impl SourceCode {
    /// Returns the text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for SourceCode {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for SourceCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceCode({} bytes)", self.0.len())
    }
}

/// A script that may be run. Only [`Verified::confirm`](super::Verified::confirm) makes one, and an
/// executor takes nothing else.
#[derive(Debug)]
pub(crate) struct AuthorizedScript {
    source: SourceCode,
    imports: Arc<[String]>,
    verification_id: VerificationId,
}

impl AuthorizedScript {
    pub(super) fn new(
        source: SourceCode,
        imports: Vec<String>,
        verification_id: VerificationId,
    ) -> Self {
        Self { source, imports: imports.into(), verification_id }
    }

    /// Returns the script's text.
    pub(crate) fn source(&self) -> &SourceCode {
        &self.source
    }

    /// Returns the qualified names that the script imports, as far as its syntax tells.
    pub(crate) fn imports(&self) -> &[String] {
        &self.imports
    }

    /// Returns the id of the decision that allowed it.
    pub(crate) fn verification_id(&self) -> &VerificationId {
        &self.verification_id
    }
}
