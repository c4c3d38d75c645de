//! The output of a script, for whoever looks on while it runs.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A stream of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

type Listener = dyn Fn(Stream, &[u8]) + Send + Sync;

/// The listener of a run's output, if there is one. It hears what is within the caps, in the pieces in which
/// it was read, and must not wait: the run would wait with it.
#[derive(Clone, Default)]
pub(crate) struct Echo(Option<Arc<Heard>>);

struct Heard {
    listener: Box<Listener>,
    /// `true` once there was something to hear.
    has_begun: AtomicBool,
}

impl Echo {
    /// Creates an echo that `listener` hears.
    pub(crate) fn to(listener: impl Fn(Stream, &[u8]) + Send + Sync + 'static) -> Self {
        let listener = Box::new(listener);
        Self(Some(Arc::new(Heard { listener, has_begun: AtomicBool::new(false) })))
    }

    /// Passes on what was read.
    pub(super) fn pass_on(&self, stream: Stream, bytes: &[u8]) {
        let Some(heard) = &self.0 else { return };
        if !bytes.is_empty() {
            heard.has_begun.store(true, Ordering::Relaxed);
            (heard.listener)(stream, bytes);
        }
    }

    /// Returns whether somebody has heard something of the run, so that it cannot be made again.
    pub(super) fn has_begun(&self) -> bool {
        self.0.as_ref().is_some_and(|heard| heard.has_begun.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for Echo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Echo(..)" } else { "Echo(none)" })
    }
}
