//! The tools for which the gateway decides whether a call is allowed.

/// A tool for which the gateway decides whether a call is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    /// Runs a script.
    ExecutePythonCode,
    /// Returns the state of a background job.
    VerificationStatus,
}

impl Tool {
    /// Returns the name by which clients call the tool.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ExecutePythonCode => "execute_python_code",
            Self::VerificationStatus => "verification_status",
        }
    }

    /// Returns the message of a decision that allows a call of this tool.
    pub(super) fn verified_message(self) -> &'static str {
        match self {
            Self::ExecutePythonCode => {
                "Python execution request passed deterministic verification."
            }
            Self::VerificationStatus => {
                "Verification status lookup passed deterministic validation."
            }
        }
    }
}
