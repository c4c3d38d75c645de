//! Background jobs: the same run as a synchronous one, held in a registry and polled.
//!
//! State is in memory only. A job is one task that goes through its life from top to bottom
//! (`job`); the registry (`registry`) holds the states, and the bounds on how many there are.

mod job;
mod registry;
#[cfg(test)]
mod tests;

pub(crate) use job::{Job, JobEnd, JobState};
pub(crate) use registry::{JobLimits, JobRegistry, PlaceError, RequestKey};
