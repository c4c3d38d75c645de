//! The last step of a decision: combines a verified script with the state of the sandbox, and grants the permission to
//! run.

use crate::sandbox::Tier;

use super::{
    Accompanying, AuthorizedScript, DecisionRecord, ErrorCode, ScriptNames, SourceCode, Status,
};

/// The permission to run an allowed script. Only the gateway creates a `Grant`.
#[derive(Debug)]
pub(crate) enum Grant {
    /// Run the script now and reply with its outcome.
    Execute(AuthorizedScript),
    /// Place the script as a background job and reply with the job's id.
    ExecuteInBackground(AuthorizedScript),
}

/// A decision about a script, with the grant if the script is allowed.
#[derive(Debug)]
pub(crate) enum Decision {
    /// The call may be carried out, within the limits of the grant.
    Allow {
        /// The decision in the form that is documented for clients.
        record: DecisionRecord,
        /// The permission to run the script.
        grant: Grant,
    },
    /// The call is refused. The status of the record shows the kind of reason.
    Refuse(DecisionRecord),
    /// The caller cancelled the call before it was decided.
    Withdrawn(DecisionRecord),
}

impl Decision {
    /// Returns the decision in the form that is documented for clients.
    pub(crate) fn record(&self) -> &DecisionRecord {
        match self {
            Self::Allow { record, .. } | Self::Refuse(record) | Self::Withdrawn(record) => record,
        }
    }

    /// Returns the decision in the form that is documented for clients, and drops the grant.
    pub(crate) fn into_record(self) -> DecisionRecord {
        match self {
            Self::Allow { record, .. } | Self::Refuse(record) | Self::Withdrawn(record) => record,
        }
    }
}

/// The minimum sandbox for a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Any tier of the sandbox that the admin accepts.
    AnyTier,
    /// The complete sandbox (T3), because findings of the analysis do not stop the script.
    Tier3,
}

/// A script that has passed the checks of a gateway. This is not yet a permission to run the script.
#[derive(Debug)]
#[must_use = "the script runs only if the sandbox confirms it"]
pub(crate) struct Verified {
    record: DecisionRecord,
    source: SourceCode,
    names: Option<ScriptNames>,
    with: Accompanying,
    background: bool,
    needs: Needs,
}

impl Verified {
    pub(super) fn new(
        record: DecisionRecord,
        source: SourceCode,
        names: Option<ScriptNames>,
        with: Accompanying,
        background: bool,
    ) -> Self {
        Self { record, source, names, with, background, needs: Needs::AnyTier }
    }

    /// Sets the sandbox that the script needs.
    pub(super) fn with_needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    /// Makes the decision final. `sandbox` is the tier of this machine's sandbox (`None` without an interpreter), or
    /// the reason why no sandbox is available.
    pub(crate) fn confirm(self, sandbox: Result<Option<Tier>, String>) -> Decision {
        let Self { record, source, names, with, background, needs } = self;
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
        let script = AuthorizedScript::new(source, names, with, record.verification_id.clone())
            .with_findings(record.findings.len());
        let grant =
            if background { Grant::ExecuteInBackground(script) } else { Grant::Execute(script) };
        Decision::Allow { record, grant }
    }

    /// Ends the decision of a call that was cancelled before the state of the sandbox was known. The script gets no
    /// permission to run.
    pub(crate) fn withdraw(self) -> Decision {
        Decision::Withdrawn(self.record)
    }

    #[cfg(test)]
    pub(super) fn record(&self) -> &DecisionRecord {
        &self.record
    }

    /// Returns the decision in the form that is documented for clients, without checking the sandbox.
    pub(super) fn into_record(self) -> DecisionRecord {
        self.record
    }
}
