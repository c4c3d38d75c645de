//! The limits of one run, and the timeouts of the operations around it.

use std::time::Duration;

use crate::config::Settings;
use crate::sandbox::Neighbours;

use super::turns::JOBS_AT_ONCE_MAX;

/// The most bytes of stdout, and of stderr, that are kept. The notice about truncation is in `output`.
pub(crate) const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// The wait for the end of a run before an error is returned. A run usually ends within milliseconds. This limit is for
/// a machine that is out of memory or CPU. The kill is still retried afterwards.
pub(super) const END_PATIENCE: Duration = Duration::from_secs(15);

/// The wait for the removal of the folder of a run that has ended. A script can leave so many files that their removal
/// takes longer. It then continues after the outcome is returned.
pub(super) const REMOVAL_PATIENCE: Duration = Duration::from_secs(5);

/// The wait for output after every process of a run is dead. Only a writer that is not a descendant can hold the pipe
/// open that long, with a descriptor that was passed over a socket.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// The timeout of the probe of an interpreter.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// The timeout of a script of the server's own, such as the canary. Such a script takes a tenth of a second.
pub(super) const OWN_SCRIPT_TIMEOUT: Duration = Duration::from_secs(20);

/// The timeout for loading modules into a fork server. Loading takes seconds on a slow disk.
pub(super) const LOAD_TIMEOUT: Duration = Duration::from_secs(120);

/// The pause after a fork server failed to start, before the next one is started.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Returns the most runs at once of a server with these settings. Runs of tests have turns of their own.
pub(super) fn runs_max(settings: &Settings) -> u64 {
    let calls = settings.sync_concurrency;
    let tests = if settings.policy.is_some() { calls } else { 0 };
    let runs = calls.saturating_add(tests).saturating_add(JOBS_AT_ONCE_MAX);
    u64::try_from(runs).unwrap_or(u64::MAX)
}

/// The CPU time that each process of a run gets beyond the run's wall-clock time. This limit never ends a run. It ends
/// processes that nothing watches any more.
const CPU_GRACE: Duration = Duration::from_secs(5);

/// Returns the CPU time limit, in seconds, of each process of a run with this timeout.
pub(super) fn cpu_seconds(timeout: Duration) -> u64 {
    (timeout + CPU_GRACE + Duration::from_millis(999)).as_secs()
}

/// The limits of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunLimits {
    /// Wall-clock time, counted from the start of the run.
    pub(crate) timeout: Duration,
    /// The most bytes of stdout, and of stderr.
    pub(crate) output_bytes_max: usize,
    /// Whether the pictures of the script are wanted.
    pub(crate) takes_pictures: bool,
    /// The memory limit of all processes together, in MiB, if it is lower than the usual limit.
    pub(crate) memory_mb: Option<u64>,
    /// The runs at the same time. The executor sets this field.
    pub(crate) neighbours: Neighbours,
}

impl RunLimits {
    /// Returns the limits of a script with this timeout.
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
