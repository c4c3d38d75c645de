//! The last step of a decision: verified code, the sandbox's word, and the permission to run.

use super::{AuthorizedScript, DecisionRecord, ErrorCode, JobId, ScriptNames, SourceCode, Status};

/// The permission that an allowed call has. Only the gateway makes one.
#[derive(Debug)]
pub(crate) enum Grant {
    /// Run a script now and answer with its result.
    Execute(AuthorizedScript),
    /// Place a script as a background job and answer with the job's id.
    ExecuteInBackground(AuthorizedScript),
    /// Tell the state of a job.
    JobStatus(JobId),
}

/// A decision, with the permission to carry the call out or without.
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
    pub(super) fn into_record(self) -> DecisionRecord {
        match self {
            Self::Allow { record, .. } | Self::Refuse(record) | Self::Withdrawn(record) => record,
        }
    }
}

/// A script that passed the analysis and the admin gate. It is no permission to run it.
#[derive(Debug)]
#[must_use = "the script runs only if the sandbox confirms it"]
pub(crate) struct Verified {
    record: DecisionRecord,
    source: SourceCode,
    names: Option<ScriptNames>,
    background: bool,
}

impl Verified {
    pub(super) fn new(
        record: DecisionRecord,
        source: SourceCode,
        names: Option<ScriptNames>,
        background: bool,
    ) -> Self {
        Self { record, source, names, background }
    }

    /// Makes the decision final: `sandbox` is ready, or the error says what it is missing.
    pub(crate) fn confirm(self, sandbox: Result<(), String>) -> Decision {
        let Self { record, source, names, background } = self;
        if let Err(missing) = sandbox {
            let (status, code) = (Status::BlockedAdminPolicy, ErrorCode::SandboxUnavailable);
            return Decision::Refuse(record.refused(status, code, missing));
        }
        let script = AuthorizedScript::new(source, names, record.verification_id.clone());
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
