//! Defines the protocol between the server and the supervisor of a run, over a socket pair. The supervisor's standard
//! input is one end of the pair. This module only defines types, and performs no I/O.
//!
//! The server sends one [`Order`](crate::Order) and Python's input. The supervisor sends [`SETTLED`] as soon as the run
//! has its weight. When every process of the run is dead, it replies with one [`Report`] as a line of JSON. It exits
//! after it has removed the run's folder. If the server closes its sending side or dies, the supervisor kills the run.

use serde::{Deserialize, Serialize};

use super::LaunchError;

/// The maximum length of a [`Report`], in bytes. A report may contain a path.
pub const REPORT_BYTES_MAX: usize = 16 * 1024;

/// The byte that announces that the run has the weight that the number of runs requires, or cannot have it. In JSON this
/// byte is white space, so it is no part of the report. A run that ends early does not announce it.
pub const SETTLED: u8 = b' ';

/// The exit code of a supervisor that could not remove the run's folder completely.
pub const LEFT_BEHIND: u8 = 3;

/// The supervisor's report on a finished run.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// Python ended with this exit code. A negative number is the signal that killed Python.
    Exited(i32),
    /// The run was killed because the server asked for this or is gone.
    Killed {
        /// True if other processes kept the run from the processors for longer than it had one.
        is_starved: bool,
        /// True if the run neither had nor wanted a processor for most of the time.
        has_slept: bool,
    },
    /// The run was killed because it exceeded its memory limit.
    OutOfMemory,
    /// The run was killed because it exceeded its limit for pipes.
    TooManyPipes,
    /// The run did not start.
    NotStarted(LaunchError),
}

impl Report {
    /// The report of a killed run without a measurement of its processor time.
    pub const KILLED: Self = Self::Killed { is_starved: false, has_slept: false };
}
