//! The reasons why there is no outcome of a script.

use thiserror::Error;

use crate::executor::RunError;
use crate::receipt::WriteError;

/// The reason why there is no outcome of a script. Its `Display` is shown to the client.
#[derive(Debug, Error)]
pub(crate) enum ScriptError {
    /// The proof of the caller does not hold any more, so there was no run.
    #[error("the token that asked for it was revoked or has expired, so nothing is run")]
    NotLetIn,
    /// Whether the proof holds could not be looked up, so there was no run.
    #[error(
        "the token that asked for it cannot be looked up, so nothing is run; ask the admin to look at the server's log"
    )]
    TokensAway,
    /// The start could not be written down, so there was no run.
    #[error(
        "the audit log cannot be written, so nothing is run; ask the admin to look at the server's log"
    )]
    NotAudited,
    /// The log has no decision that lets the script of a job run, or it was run before.
    #[error(
        "the audit log has no decision that lets it run for this user, so it is not run; ask the admin to look at the server's log"
    )]
    NotDecided,
    /// The gateway or the sandbox of the server that was to run the script of a job refuses it.
    #[error("the server that was to run it does not allow it: {0}")]
    NotAllowed(String),
    /// The script was run, and its end could not be written down.
    #[error(
        "the script was run, and the audit log cannot be used to write down its end; ask the admin to look at the server's log"
    )]
    EndNotAudited,
    /// There could be no receipt, so there was no run.
    #[error(transparent)]
    NoReceipt(WriteError),
    /// The script was run, and its receipt could not be stored.
    #[error("the script was run, and {0}; ask the admin to look at the server's log")]
    EndNoReceipt(#[source] WriteError),
    /// The executor could not run the script.
    #[error(transparent)]
    Run(#[from] RunError),
}
