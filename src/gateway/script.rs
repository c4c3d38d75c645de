//! Types for a script before and after the gateway's decision about it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::safety::{Analysis, Check, check_plan};

use super::{Accompanying, Inputs, JobId, VerificationId};

/// Python source text. Cheap to clone. `Debug` never shows the text, so that logs do not contain it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SourceCode(Arc<str>);

impl SourceCode {
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

/// The standard input of a script. Cheap to clone. `Debug` never shows the content, so that logs do not contain it.
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

/// The known facts about the caller that requested a script. These facts are recorded, for example in receipts, but
/// never change a decision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskedBy {
    /// The user that the token of the call identifies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// The id of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// The client and its version, as claimed by the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<String>,
    /// The model, as claimed by the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
}

/// The names that a script imports and uses, and the script's checks. All of them come from the script's syntax tree,
/// so names that the script computes are missing.
#[derive(Debug, Clone)]
pub(crate) struct ScriptNames {
    /// The qualified names that the script imports.
    pub(crate) imports: Vec<String>,
    /// The names that the script uses: [`Analysis::uses`](crate::safety::Analysis::uses).
    pub(crate) uses: Vec<String>,
    /// The checks of the script: [`Analysis::checks`](crate::safety::Analysis::checks).
    pub(crate) checks: Vec<Check>,
    /// The plan by which a run counts the checks: [`check_plan`].
    pub(crate) check_plan: String,
}

impl From<Analysis> for ScriptNames {
    fn from(Analysis { imports, uses, checks, .. }: Analysis) -> Self {
        let check_plan = check_plan(&checks);
        Self { imports, uses, checks, check_plan }
    }
}

/// The shared job that runs a script, and the user that placed the job. The user is empty if callers are not
/// authenticated. The audit log contains a hash over the job, the user and the result. The hash shows whether a result
/// in the database belongs to this job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobOwner {
    pub(crate) job: JobId,
    pub(crate) user: String,
}

/// A script that may run. Only [`Verified::confirm`](super::Verified::confirm) creates an `AuthorizedScript`. An
/// executor accepts nothing else. Callers clone the value to run a script once for each of its tests.
#[derive(Debug, Clone)]
pub(crate) struct AuthorizedScript {
    source: SourceCode,
    names: Option<Arc<ScriptNames>>,
    verification_id: VerificationId,
    stdin: Stdin,
    /// The tests and inputs of the script, which the gateway has allowed together with the script.
    with: Accompanying,
    /// The index in `with.calls` of the test expression that is evaluated after the script.
    call: Option<usize>,
    findings: usize,
    asked_by: Arc<AskedBy>,
    job: Option<Arc<JobOwner>>,
}

impl AuthorizedScript {
    pub(super) fn new(
        source: SourceCode,
        names: Option<ScriptNames>,
        with: Accompanying,
        verification_id: VerificationId,
    ) -> Self {
        let (stdin, asked_by) = (Stdin::default(), Arc::default());
        Self {
            source,
            names: names.map(Arc::new),
            verification_id,
            stdin,
            with,
            call: None,
            findings: 0,
            asked_by,
            job: None,
        }
    }

    /// Sets the number of findings, for a script that may run in spite of its findings.
    pub(super) fn with_findings(self, findings: usize) -> Self {
        Self { findings, ..self }
    }

    /// Returns the number of findings that did not block the script, because the script belongs to a batch with
    /// `--analysis report`.
    pub(crate) fn findings(&self) -> usize {
        self.findings
    }

    /// Sets the caller that requested the run.
    pub(crate) fn with_asked_by(self, asked_by: AskedBy) -> Self {
        Self { asked_by: Arc::new(asked_by), ..self }
    }

    /// Returns the caller that requested the run.
    pub(crate) fn asked_by(&self) -> &AskedBy {
        &self.asked_by
    }

    /// Sets the shared job of the script.
    pub(crate) fn with_job(self, job: JobOwner) -> Self {
        Self { job: Some(Arc::new(job)), ..self }
    }

    /// Returns the shared job of the script, if any.
    pub(crate) fn job(&self) -> Option<&Arc<JobOwner>> {
        self.job.as_ref()
    }

    /// Sets the standard input of the script. The default is empty.
    pub(crate) fn with_stdin(self, stdin: Stdin) -> Self {
        Self { stdin, ..self }
    }

    /// Copies the standard input of `script`.
    pub(crate) fn with_stdin_of(self, script: &Self) -> Self {
        Self { stdin: script.stdin.clone(), ..self }
    }

    /// Sets the test expression that is evaluated after the script. `call` is an index into the script's test
    /// expressions. The default is `None`.
    pub(crate) fn with_call(self, call: Option<usize>) -> Self {
        Self { call, ..self }
    }

    /// Returns the test expression that is evaluated after the script. Empty if no expression is evaluated.
    pub(crate) fn call(&self) -> &str {
        self.call.and_then(|index| self.with.calls.get(index)).map_or("", String::as_str)
    }

    /// Returns the files that the script may read.
    pub(crate) fn inputs(&self) -> &Inputs {
        &self.with.inputs
    }

    pub(crate) fn stdin(&self) -> &[u8] {
        &self.stdin.0
    }

    pub(crate) fn source(&self) -> &SourceCode {
        &self.source
    }

    /// Returns the qualified names that the script imports, as far as its syntax tree shows them. `None` if the script
    /// was not analysed.
    pub(crate) fn imports(&self) -> Option<&[String]> {
        self.names.as_deref().map(|names| &*names.imports)
    }

    /// Returns the imported and used names in the script. `None` if the script was not analysed.
    pub(crate) fn names(&self) -> Option<&ScriptNames> {
        self.names.as_deref()
    }

    /// Returns the plan by which a run counts the script's checks. Empty if the script has no checks, or was not
    /// analysed.
    pub(crate) fn check_plan(&self) -> &str {
        self.names.as_deref().map_or("", |names| &names.check_plan)
    }

    /// Returns the id of the decision that allowed the script.
    pub(crate) fn verification_id(&self) -> &VerificationId {
        &self.verification_id
    }
}
