//! A script before and after the gateway.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{JobId, VerificationId};

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

/// What a script reads from its standard input. Cheap to clone, and never shown by `Debug` either.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Stdin(Arc<[u8]>);

impl From<&[u8]> for Stdin {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stdin({} bytes)", self.0.len())
    }
}

/// The caller of a script, as far as it is known. For receipts: nothing is decided by it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskedBy {
    /// The user that a token has proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// The number of that token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// The client, and its version, by its own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<String>,
    /// The model, by the client's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
}

/// The names in a script, as far as its syntax tells.
#[derive(Debug, Clone)]
pub(crate) struct ScriptNames {
    /// The qualified names that the script imports.
    pub(crate) imports: Vec<String>,
    /// The names that it uses: [`Analysis::uses`](crate::safety::Analysis::uses).
    pub(crate) uses: Vec<String>,
}

/// The job that a script is run for, and its user, empty where none is known. The audit log binds the result to
/// both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobOwner {
    pub(crate) job: JobId,
    pub(crate) user: String,
}

/// A script that may be run. Only [`Verified::confirm`](super::Verified::confirm) makes one, and an
/// executor takes nothing else. A clone is the same permission, for a script that is run once for each of its
/// tests.
#[derive(Debug, Clone)]
pub(crate) struct AuthorizedScript {
    source: SourceCode,
    names: Option<Arc<ScriptNames>>,
    verification_id: VerificationId,
    stdin: Stdin,
    findings: usize,
    asked_by: Arc<AskedBy>,
    job: Option<Arc<JobOwner>>,
}

impl AuthorizedScript {
    pub(super) fn new(
        source: SourceCode,
        names: Option<ScriptNames>,
        verification_id: VerificationId,
    ) -> Self {
        let (stdin, asked_by) = (Stdin::default(), Arc::default());
        Self {
            source,
            names: names.map(Arc::new),
            verification_id,
            stdin,
            findings: 0,
            asked_by,
            job: None,
        }
    }

    /// Notes how much was found in the script, which may run all the same.
    pub(super) fn with_findings(self, findings: usize) -> Self {
        Self { findings, ..self }
    }

    /// Returns how much was found in the script.
    pub(crate) fn findings(&self) -> usize {
        self.findings
    }

    /// Notes who asked for the run.
    pub(crate) fn with_asked_by(self, asked_by: AskedBy) -> Self {
        Self { asked_by: Arc::new(asked_by), ..self }
    }

    /// Returns who asked for the run.
    pub(crate) fn asked_by(&self) -> &AskedBy {
        &self.asked_by
    }

    /// Notes for which job of those that servers share the script is run.
    pub(crate) fn with_job(self, job: JobOwner) -> Self {
        Self { job: Some(Arc::new(job)), ..self }
    }

    /// Returns the job that the script is run for, if servers share it.
    pub(crate) fn job(&self) -> Option<&Arc<JobOwner>> {
        self.job.as_ref()
    }

    /// Gives the script something to read from its standard input, which is empty otherwise.
    pub(crate) fn with_stdin(self, stdin: Stdin) -> Self {
        Self { stdin, ..self }
    }

    /// Returns what the script reads from its standard input.
    pub(crate) fn stdin(&self) -> &[u8] {
        &self.stdin.0
    }

    /// Returns the script's text.
    pub(crate) fn source(&self) -> &SourceCode {
        &self.source
    }

    /// Returns the qualified names that the script imports, as far as its syntax tells; `None` where the
    /// analysis is off.
    pub(crate) fn imports(&self) -> Option<&[String]> {
        self.names.as_deref().map(|names| &*names.imports)
    }

    /// Returns the names in the script; `None` where the analysis is off.
    pub(crate) fn names(&self) -> Option<&ScriptNames> {
        self.names.as_deref()
    }

    /// Returns the id of the decision that allowed it.
    pub(crate) fn verification_id(&self) -> &VerificationId {
        &self.verification_id
    }
}
