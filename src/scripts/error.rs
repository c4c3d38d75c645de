//! The reasons why a script has no outcome, for clients.

use thiserror::Error;

use crate::executor::RunError;
use crate::receipt::WriteError;

/// The reason why a script has no outcome. Clients receive its `Display`.
#[derive(Debug, Error)]
pub(crate) enum ScriptError {
    /// The token that authenticated the caller is no longer valid, so the script did not run.
    #[error("the token that asked for it was revoked or has expired, so nothing is run")]
    NotLetIn,
    /// The server could not check whether the caller's token is still valid, so the script did not run.
    #[error(
        "the token that asked for it cannot be checked, so nothing is run; ask the admin to look \
         at the server's log"
    )]
    TokensAway,
    /// The start of the run could not be audited, so the script did not run.
    #[error(
        "the audit log cannot be written, so nothing is run; ask the admin to look at the server's \
         log"
    )]
    NotAudited,
    /// The script of a job did not run, because the audit log has no decision that permits the script, or the script
    /// was run before.
    #[error(
        "the audit log has no decision that lets it run for this user, so it is not run; ask the \
         admin to look at the server's log"
    )]
    NotDecided,
    /// The script of a job did not run, because the server that claimed the job refuses the script, or lacks the
    /// sandbox for it.
    #[error("the server that was to run it does not allow it: {0}")]
    NotAllowed(String),
    /// The script ran, but the end of the run could not be audited.
    #[error(
        "the script was run, but its end cannot be written to the audit log; ask the admin to look \
         at the server's log"
    )]
    EndNotAudited,
    /// The receipt of the run could not be begun, so the script did not run.
    #[error(transparent)]
    NoReceipt(WriteError),
    /// The script ran, but the receipt of the run could not be stored.
    #[error("the script was run, and {0}; ask the admin to look at the server's log")]
    EndNoReceipt(#[source] WriteError),
    /// The executor could not run the script.
    #[error(transparent)]
    Run(#[from] RunError),
}
