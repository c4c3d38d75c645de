//! Background jobs: the same run as a synchronous one, kept and polled.
//!
//! `plane` is what the server asks of them. Without a database the states are in memory only (`registry`): a
//! job is one task that goes through its life from top to bottom. With one, replicas share all jobs (`shared`).

mod job;
mod plane;
mod registry;
#[cfg(feature = "postgres")]
mod shared;
#[cfg(test)]
mod tests;

pub(crate) use job::{Job, JobEnd, JobState};
pub(crate) use plane::{Found, Jobs, JobsAway, Order, PlaceError, RequestKey};
pub(crate) use registry::{JobLimits, JobRegistry};
#[cfg(feature = "postgres")]
pub(crate) use shared::{SharedJobs, SharedLimits};
