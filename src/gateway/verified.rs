//! The last step of a decision: verified code, the sandbox's word, and the permission to run.

use crate::sandbox::Tier;

use super::{AuthorizedScript, DecisionRecord, ErrorCode, ScriptNames, SourceCode, Status};

/// The permission that an allowed script has. Only the gateway makes one.
#[derive(Debug)]
pub(crate) enum Grant {
    /// Run a script now and answer with its result.
    Execute(AuthorizedScript),
    /// Place a script as a background job and answer with the job's id.
    ExecuteInBackground(AuthorizedScript),
}

/// A decision about a script, with the permission to run it or without.
#[derive(Debug)]
pub(crate) enum Decision {
    /// The call may be carried out, as far as the grant goes.
    Allow {
        /// The decision as the documents describe it.
        record: DecisionRecord,
        /// The permission itself.
        grant: Grant,
    },
    /// The call is refused; the record's status says by whom.
    Refuse(DecisionRecord),
    /// The caller gave the call up before it was decided.
    Withdrawn(DecisionRecord),
}

impl Decision {
    /// Returns the decision as the documents describe it.
    pub(crate) fn record(&self) -> &DecisionRecord {
        match self {
            Self::Allow { record, .. } | Self::Refuse(record) | Self::Withdrawn(record) => record,
        }
    }

    /// Returns the decision as the documents describe it, and drops any permission.
    pub(crate) fn into_record(self) -> DecisionRecord {
        match self {
            Self::Allow { record, .. } | Self::Refuse(record) | Self::Withdrawn(record) => record,
        }
    }
}

/// The sandbox that a script needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Whatever the admin takes.
    AnyTier,
    /// All of it, because the analysis has stopped nothing.
    Tier3,
}

/// A script that a gateway has let through. It is not yet a permission to run it.
#[derive(Debug)]
#[must_use = "the script runs only if the sandbox confirms it"]
pub(crate) struct Verified {
    record: DecisionRecord,
    source: SourceCode,
    names: Option<ScriptNames>,
    background: bool,
    needs: Needs,
}

impl Verified {
    pub(super) fn new(
        record: DecisionRecord,
        source: SourceCode,
        names: Option<ScriptNames>,
        background: bool,
    ) -> Self {
        Self { record, source, names, background, needs: Needs::AnyTier }
    }

    /// Sets the sandbox that the script needs.
    pub(super) fn with_needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    /// Makes the decision final. `sandbox` is the tier that holds scripts here (`None` without an
    /// interpreter), or the error says what is missing.
    pub(crate) fn confirm(self, sandbox: Result<Option<Tier>, String>) -> Decision {
        let Self { record, source, names, background, needs } = self;
        let missing = match (sandbox, needs) {
            (Ok(_), Needs::AnyTier) | (Ok(Some(Tier::T3)), Needs::Tier3) => None,
            (Ok(_), Needs::Tier3) => {
                Some("--analysis report runs scripts at tier 3 only".to_owned())
            }
            (Err(missing), _) => Some(missing),
        };
        if let Some(missing) = missing {
            let (status, code) = (Status::BlockedAdminPolicy, ErrorCode::SandboxUnavailable);
            return Decision::Refuse(record.refused(status, code, missing));
        }
        let script = AuthorizedScript::new(source, names, record.verification_id.clone())
            .with_findings(record.findings.len());
        let grant =
            if background { Grant::ExecuteInBackground(script) } else { Grant::Execute(script) };
        Decision::Allow { record, grant }
    }

    /// Ends a call that its caller gave up before the sandbox's word came. Nothing is permitted.
    pub(crate) fn withdraw(self) -> Decision {
        Decision::Withdrawn(self.record)
    }

    #[cfg(test)]
    pub(super) fn record(&self) -> &DecisionRecord {
        &self.record
    }

    /// Returns the decision as the documents describe it, as far as the gateway's own checks go.
    pub(super) fn into_record(self) -> DecisionRecord {
        self.record
    }
}
