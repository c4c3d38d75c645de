//! The protocol between the server and the supervisor of a run, over a socket pair that is the
//! supervisor's standard input.
//!
//! The server sends one [`Order`](crate::Order) and what Python reads. The supervisor
//! answers with one [`Report`] as a line of JSON when every process of the run is dead, and ends when
//! the run's folder is gone. When the server closes its sending side, or dies, the supervisor kills
//! the run.

use serde::{Deserialize, Serialize};

use super::LaunchError;

/// The longest [`Report`], in bytes: it may name a path.
pub const REPORT_BYTES_MAX: usize = 16 * 1024;

/// The exit code of a supervisor that could not remove all of its folder.
pub const LEFT_BEHIND: u8 = 3;

/// The supervisor's report on a finished run.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// Python ended with this code; a signal is a negative number.
    Exited(i32),
    /// The run was killed because the server asked for it or is gone.
    Killed {
        /// True if others had kept it from the processors for longer than it had one.
        is_starved: bool,
        /// True if it neither had nor wanted a processor for most of the time.
        has_slept: bool,
    },
    /// The run was killed because it had more memory than it may.
    OutOfMemory,
    /// The run was killed because it had more pipes than it may.
    TooManyPipes,
    /// There was no run.
    NotStarted(LaunchError),
}

impl Report {
    /// The report of a run whose processors were not watched.
    pub const KILLED: Self = Self::Killed { is_starved: false, has_slept: false };
}
