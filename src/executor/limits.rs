//! Defines the limits of one run, and the timeouts of the operations before and after the run.

use std::time::Duration;

use crate::config::Settings;
use crate::sandbox::Neighbours;

use super::turns::JOBS_AT_ONCE_MAX;

/// The maximum size of each captured output stream (stdout and stderr), in bytes. The notice that the module `output`
/// appends to a truncated stream is not counted.
pub(crate) const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// The maximum time to wait until a killed run has ended. After this time, an error is returned, and the attempts to
/// kill the run continue. A killed run usually ends within milliseconds, unless the machine is short of memory or CPU
/// time.
pub(super) const END_PATIENCE: Duration = Duration::from_secs(15);

/// The maximum time to wait for the removal of an ended run's folder. If the removal takes longer because of many
/// files, it continues after the outcome is returned.
pub(super) const REMOVAL_PATIENCE: Duration = Duration::from_secs(5);

/// The maximum time to wait for further output after every process of a run is dead. Then only a process outside of the
/// run can hold the output pipe open, if it has received the pipe's descriptor over a socket.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// The timeout of the probe of an interpreter.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// The timeout of the server's own scripts, such as the canary. Such a script takes a tenth of a second.
pub(super) const OWN_SCRIPT_TIMEOUT: Duration = Duration::from_secs(20);

/// The timeout for loading modules into a fork server. Loading takes seconds on a slow disk.
pub(super) const LOAD_TIMEOUT: Duration = Duration::from_secs(120);

/// The pause between a failed start of a fork server and the next attempt.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Returns the maximum number of concurrent runs of a server with these settings. Calls, test runs and background jobs
/// each have their own limit on concurrent runs. This function returns the sum.
pub(super) fn runs_max(settings: &Settings) -> u64 {
    let calls = settings.sync_concurrency;
    let tests = if settings.policy.is_some() { calls } else { 0 };
    let runs = calls.saturating_add(tests).saturating_add(JOBS_AT_ONCE_MAX);
    u64::try_from(runs).unwrap_or(u64::MAX)
}

/// The time by which the CPU time limit of each process exceeds the timeout of its run. So a run times out before a
/// process with one thread reaches its limit. The limit ends processes that no supervisor watches any more.
const CPU_GRACE: Duration = Duration::from_secs(5);

/// Returns the CPU time limit, in seconds, of each process of a run with this timeout.
pub(super) fn cpu_seconds(timeout: Duration) -> u64 {
    (timeout + CPU_GRACE + Duration::from_millis(999)).as_secs()
}

/// The limits of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunLimits {
    /// The maximum wall-clock time, counted from the start of the run.
    pub(crate) timeout: Duration,
    /// The maximum size of each captured output stream (stdout and stderr), in bytes.
    pub(crate) output_bytes_max: usize,
    /// Whether the pictures that the script makes are collected.
    pub(crate) takes_pictures: bool,
    /// The memory limit of all processes of the run together, in MiB. It has an effect only if it is lower than the
    /// usual limit. `None` means the usual limit.
    pub(crate) memory_mb: Option<u64>,
    /// The number of concurrent runs. The executor sets this field.
    pub(crate) neighbours: Neighbours,
}

impl RunLimits {
    /// Returns the default limits of a script's run, with this timeout.
    pub(crate) fn of_script(timeout: Duration) -> Self {
        Self {
            timeout,
            output_bytes_max: OUTPUT_BYTES_MAX,
            takes_pictures: false,
            memory_mb: None,
            neighbours: Neighbours::default(),
        }
    }
}
