//! What the server asks of background jobs, wherever they are kept.

use std::time::Duration;

use futures_util::future::{BoxFuture, ready};
use serde_json::Value;
use thiserror::Error;

use crate::gateway::JobId;
use crate::ledger::UserName;
use crate::scripts::Permit;

use super::job::Job;

/// A job that is to be placed.
#[derive(Debug)]
pub(crate) struct Order {
    /// The permission to run its script, and the user who alone may ask for the job and cancel it.
    pub(crate) permit: Permit,
    /// The decision that permits it, as clients see it.
    pub(crate) decision: Value,
    /// The request that cancels it when it is cancelled; `None` for a job that lives on without.
    pub(crate) placed_by: Option<RequestKey>,
}

/// The client's name for the request that placed a job, so that cancelling the request cancels it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestKey(pub(crate) String);

/// A refusal of a new job. Its `Display` is what the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum PlaceError {
    /// Too many wait already.
    #[error(
        "The queue of background jobs is full ({0} are waiting). Nothing was placed. \
         Try again when one of them has ended."
    )]
    QueueFull(usize),
    /// Too many results are kept already.
    #[error(
        "Too many results of background jobs are being kept. Nothing was placed. \
         A result expires one hour after its job has ended; a script that takes less than \
         30 seconds can be run with background=false."
    )]
    ResultsFull,
    /// They cannot be written down.
    #[error(
        "The database of background jobs cannot be reached. Nothing was placed. Try again later; a script \
         that takes less than 30 seconds can be run with background=false."
    )]
    Away,
    /// It was sent to be written down, and no answer came.
    #[error(
        "The database of background jobs was lost while the job was being placed, and nobody knows whether it \
         was. If it was, its id is {0}: check with the 'verification_status' tool before placing it again."
    )]
    Unknown(JobId),
}

/// A job that was asked for.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    Job(Job),
    /// It has so many bytes of output, which the caller has no room for yet.
    Larger(usize),
    /// There is no such job, or no longer.
    Nothing,
}

/// The jobs cannot be asked for now. Its `Display` is what the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "The database of background jobs cannot be reached now. The job is as it was; ask again later."
)]
pub(crate) struct JobsAway;

/// Background jobs, and whoever runs them.
///
/// A job is placed once under an id of its own, and is its user's alone. It is run once: whoever runs it has
/// written that down before. It ends once, or its user is told that whoever ran it is gone.
pub(crate) trait Jobs: Send + Sync + 'static {
    /// Places a job behind those of its user that wait already.
    ///
    /// # Errors
    ///
    /// [`PlaceError`] if a bound is reached; then nothing has changed. Or if it cannot be written down.
    fn place(&self, order: Order) -> BoxFuture<'_, Result<Job, PlaceError>>;

    /// Returns a job of `user`, unless its output has more than `bytes_max`: then it is not fetched.
    ///
    /// # Errors
    ///
    /// [`JobsAway`] if that cannot be known.
    fn job<'a>(
        &'a self,
        id: JobId,
        user: Option<&'a UserName>,
        bytes_max: usize,
    ) -> BoxFuture<'a, Result<Found, JobsAway>>;

    /// Cancels a job of `user`, unless it has ended. Returns whether there is such a job.
    ///
    /// # Errors
    ///
    /// [`JobsAway`] if that cannot be known.
    fn cancel<'a>(
        &'a self,
        id: JobId,
        user: Option<&'a UserName>,
    ) -> BoxFuture<'a, Result<bool, JobsAway>>;

    /// Cancels the jobs that a request to this server placed and that have not ended.
    fn cancel_placed_by(&self, request: &RequestKey);

    /// Returns how many jobs there are in each state; `None` if nobody knows now.
    fn by_state(&self) -> BoxFuture<'_, Option<[(&'static str, usize); 3]>>;

    /// Returns whether jobs can be placed and asked for. Where the last one could not be placed, it is tried.
    fn are_available(&self) -> BoxFuture<'_, bool> {
        Box::pin(ready(true))
    }

    /// Takes no more jobs that were placed elsewhere, and returns when those that run here have ended.
    fn drain(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }

    /// Returns whether jobs are known to other servers too, and live on without this one.
    fn outlive_server(&self) -> bool {
        false
    }

    /// Returns the time one job may take.
    fn timeout(&self) -> Duration;

    /// Ends all jobs of this server, and returns when their processes are dead.
    fn shut_down(&self) -> BoxFuture<'_, ()>;
}
