//! What is counted of decisions, runs and whatever they wait for, for whoever wants the figures.
//!
//! This module is a leaf and uses nothing else of the crate.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Counts.
pub(crate) trait Meter: Send + Sync {
    /// A call was decided about; with an error code if it is refused.
    fn decided(&self, code: Option<&'static str>);

    /// A call has waited for its turn, and has it or has given up.
    fn waited(&self, duration: Duration);

    /// The run of a script has ended.
    fn ran(&self, run: &RunFigures);

    /// The store was asked for something, and has answered or failed.
    fn stored(&self, operation: &'static str, duration: Duration, has_failed: bool);
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

/// The place of a meter, where there may be one later. A handle: clones are the same place.
#[derive(Clone, Default)]
pub(crate) struct MeterPlace {
    meter: Arc<OnceLock<Arc<dyn Meter>>>,
}

impl fmt::Debug for MeterPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MeterPlace(..)")
    }
}

impl MeterPlace {
    /// Puts a meter there. The first one stays.
    pub(crate) fn set(&self, meter: Arc<dyn Meter>) {
        let _ = self.meter.set(meter);
    }

    /// Returns the meter, if there is one.
    pub(crate) fn get(&self) -> Option<&dyn Meter> {
        self.meter.get().map(|meter| &**meter)
    }

    /// Begins to time what a store is asked for.
    pub(crate) fn time(&self, operation: &'static str) -> StoreTimer {
        StoreTimer { meter: self.clone(), operation, began: Instant::now() }
    }
}

/// The time since a store was asked for something.
#[derive(Debug)]
pub(crate) struct StoreTimer {
    meter: MeterPlace,
    operation: &'static str,
    began: Instant,
}

impl StoreTimer {
    /// Counts the answer.
    pub(crate) fn answered<T, E>(self, answer: &Result<T, E>) {
        if let Some(meter) = self.meter.get() {
            meter.stored(self.operation, self.began.elapsed(), answer.is_err());
        }
    }
}
