//! Background jobs: runs that outlive their call. Clients poll them.
//!
//! `plane` defines the interface that the server uses. Without a database, `registry` keeps all jobs in memory and runs
//! each job in one Tokio task. With a database, `shared` distributes the jobs over all replicas. This module never
//! decides whether a script may run. Each job comes with a permit, which exists only after the gateway has allowed the
//! script.

mod job;
mod plane;
mod registry;
#[cfg_attr(not(feature = "teams"), path = "shared_absent.rs")]
mod shared;
#[cfg(test)]
mod tests;

pub(crate) use job::{Job, JobEnd, JobState};
pub(crate) use plane::{Found, Jobs, JobsAway, Order, PlaceError, RequestKey};
pub(crate) use registry::{JobLimits, JobRegistry};
pub(crate) use shared::share;
