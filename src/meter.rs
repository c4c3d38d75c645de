//! What is counted of decisions and runs, for whoever wants the figures.
//!
//! This module is a leaf and uses nothing else of the crate.

use std::time::Duration;

/// Counts.
pub(crate) trait Meter: Send + Sync {
    /// A call was decided about; with an error code if it is refused.
    fn decided(&self, code: Option<&'static str>);

    /// The run of a script has ended.
    fn ran(&self, run: &RunFigures);
}

/// What is counted of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunFigures {
    pub(crate) ending: &'static str,
    /// The tier of the sandbox, where the script was started.
    pub(crate) tier: Option<&'static str>,
    pub(crate) start: &'static str,
    pub(crate) duration: Duration,
}
