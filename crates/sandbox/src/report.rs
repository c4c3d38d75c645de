//! Defines the messages between the server and the supervisor of a run. They use a socket pair; one socket is the
//! supervisor's standard input. This module only defines types, and performs no I/O.
//!
//! The server sends one [`Order`](crate::Order) and Python's input. The supervisor sends [`SETTLED`] as soon as the
//! run's CPU weight is set. When every process of the run is dead, the supervisor replies with one [`Report`] as a line
//! of JSON. Then it removes the run's folder and exits. If the server dies, or shuts down its socket for writing
//! (`shutdown(2)`), the supervisor kills the run.

use serde::{Deserialize, Serialize};

use super::LaunchError;

/// The maximum length of a [`Report`], in bytes. A report may contain a path.
pub const REPORT_BYTES_MAX: usize = 16 * 1024;

/// The byte that the supervisor sends before the report, as soon as the run's CPU weight (`nice(2)`) is low enough for
/// the number of runs, or cannot be set. If the run ends earlier, the byte is not sent. JSON parsers skip the byte as
/// white space.
pub const SETTLED: u8 = b' ';

/// The exit code of a supervisor that could not remove the run's folder completely.
pub const LEFT_BEHIND: u8 = 3;

/// The supervisor's report on a finished run.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// Python ended with this exit code. A negative number is the signal that killed Python.
    Exited(i32),
    /// The supervisor killed the run, because the server requested this or died, or because the run could not be
    /// watched. On macOS also because the scratch folder exceeded a limit.
    Killed {
        /// True if other processes kept the run from the processors for longer than the run had a processor.
        is_starved: bool,
        /// True if the run neither used a processor nor waited for one, for most of the time.
        has_slept: bool,
    },
    /// The run was killed because it exceeded its limit for memory, memory mappings or threads, or because its memory
    /// could not be counted.
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
