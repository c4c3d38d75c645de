//! The interface of background jobs, which is the same for jobs in memory and for jobs in a database.

use std::time::Duration;

use futures_util::future::{BoxFuture, ready};
use serde_json::Value;
use thiserror::Error;

use crate::gateway::JobId;
use crate::ledger::UserName;
use crate::scripts::Permit;

use super::job::Job;

/// A request to place a job.
#[derive(Debug)]
pub(crate) struct Order {
    /// The permit to run the job's script. Only the permit's user may query and cancel the job.
    pub(crate) permit: Permit,
    /// The decision that permits the job's script, in the form that clients receive.
    pub(crate) decision: Value,
    /// The request that placed the job. Cancelling the request cancels the job. `None` for a job that outlives its
    /// request.
    pub(crate) placed_by: Option<RequestKey>,
}

/// The client's identifier of the request that placed a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestKey(pub(crate) String);

/// The reason why a job was not placed. The `Display` of the reason is the text for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum PlaceError {
    /// The queue is full. The number is the number of waiting jobs.
    #[error(
        "The queue of background jobs is full ({0} are waiting). Nothing was placed. \
         Try again when one of them has ended."
    )]
    QueueFull(usize),
    /// The number or the size of the stored results has reached its limit.
    #[error(
        "Too many results of background jobs are being kept. Nothing was placed. \
         A result expires one hour after its job has ended; a script that takes less than \
         30 seconds can be run with background=false."
    )]
    ResultsFull,
    #[error(
        "The database of background jobs cannot be reached. Nothing was placed. Try again later; a \
         script \
         that takes less than 30 seconds can be run with background=false."
    )]
    Away,
    /// The database did not reply to the insertion. The job may exist under this id.
    #[error(
        "The database of background jobs was lost while the job was being placed, so the job may \
         or may not exist. If it does, its id is {0}: check with the 'verification_status' tool \
         before placing it again."
    )]
    Unknown(JobId),
}

/// The result of a query for a job.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    Job(Job),
    /// The job's output is larger than the query accepts. The number is its size in bytes.
    Larger(usize),
    /// The job does not exist, or has expired.
    Nothing,
}

/// The error if the database of the jobs cannot be reached. The `Display` of the error is the text for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "The database of background jobs cannot be reached now. The state of the job is unchanged; ask again later."
)]
pub(crate) struct JobsAway;

/// A queue of background jobs, and the workers that run them.
///
/// Only the user of a job can query or cancel the job. A job runs at most once, because a worker records its claim
/// before it starts the script. If the worker disappears, the job ends as lost and does not run again.
pub(crate) trait Jobs: Send + Sync + 'static {
    /// Starts to claim jobs from the database. Called once, inside a runtime, when this server can check the tokens of
    /// the jobs that other servers have placed. Jobs in memory need no start.
    fn start(&self) {}

    /// Places a job at the end of its user's queue.
    ///
    /// # Errors
    ///
    /// [`PlaceError`] if a limit is reached, or if the job cannot be stored. If a limit is reached, no job was placed.
    fn place(&self, order: Order) -> BoxFuture<'_, Result<Job, PlaceError>>;

    /// Returns a job of `user`. If the job has more than `bytes_max` bytes of output, returns only the size of
    /// the output.
    ///
    /// # Errors
    ///
    /// [`JobsAway`] if the database or the audit log cannot be reached.
    fn job<'a>(
        &'a self,
        id: JobId,
        user: Option<&'a UserName>,
        bytes_max: usize,
    ) -> BoxFuture<'a, Result<Found, JobsAway>>;

    /// Cancels a job of `user`, unless it has ended. Returns whether `user` has a job with this id.
    ///
    /// # Errors
    ///
    /// [`JobsAway`] if the database cannot be reached.
    fn cancel<'a>(
        &'a self,
        id: JobId,
        user: Option<&'a UserName>,
    ) -> BoxFuture<'a, Result<bool, JobsAway>>;

    /// Cancels the jobs that `request` has placed on this server, unless they have ended.
    fn cancel_placed_by(&self, request: &RequestKey);

    /// Returns the number of jobs in each state. `None` if the database cannot be reached.
    fn by_state(&self) -> BoxFuture<'_, Option<[(&'static str, usize); 3]>>;

    /// Returns whether jobs can be placed and queried. If the last insertion of a job into the database failed, makes a
    /// test insertion.
    fn are_available(&self) -> BoxFuture<'_, bool> {
        Box::pin(ready(true))
    }

    /// Stops claiming jobs from the database. Returns when the jobs that run on this server have ended.
    fn drain(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }

    /// Returns whether the jobs survive the end of this server, because other servers share them.
    fn survives_server(&self) -> bool {
        false
    }

    /// Returns the maximum duration of one job.
    fn timeout(&self) -> Duration;

    /// Ends all jobs that run on this server. Returns when their processes are dead.
    fn shut_down(&self) -> BoxFuture<'_, ()>;
}
