//! What the server and the supervisor of a run say to each other, over a socket pair that is the
//! supervisor's standard input.
//!
//! The server sends one [`Request`] as a line of JSON and then what Python reads. The supervisor
//! answers with one [`Report`] as a line of JSON when every process of the run is dead. When the
//! server closes its sending side, or dies, the supervisor kills the run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The hidden first argument that makes our binary a supervisor.
pub(crate) const SUPERVISE_ARGUMENT: &str = "__supervise";

/// The longest [`Report`], in bytes: a failure's reason is short.
pub(super) const REPORT_BYTES_MAX: usize = 4096;

/// What to run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    /// The interpreter.
    pub(super) python: PathBuf,
    /// The folder to create for the run, and to remove after it.
    pub(super) scratch: PathBuf,
    /// The whole environment of the script, but for what points into the scratch folder.
    pub(super) environment: Vec<(String, String)>,
    /// How many bytes follow: the bootstrap's marshalled code, and the script.
    pub(super) input_bytes: usize,
}

/// What came of it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// Python ended with this code; a signal is a negative number.
    Exited(i32),
    /// The run was killed because the server asked for it or is gone.
    Killed,
    /// There was no run; why, without a path.
    NotStarted(String),
}
