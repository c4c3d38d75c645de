//! Passes the output of a script to a listener while the script runs.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An output stream of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

type Listener = dyn Fn(Stream, &[u8]) + Send + Sync;

/// An optional listener for a run's output. It receives the output up to the limits of the run, in the chunks that the
/// server reads. The listener must not block, because the run waits for the listener.
#[derive(Clone, Default)]
pub(crate) struct Echo(Option<Arc<Heard>>);

struct Heard {
    listener: Box<Listener>,
    /// Whether the listener shows the output as final. A run with such a listener must not be repeated after it has
    /// produced output.
    is_final: bool,
    /// Whether the listener has received output.
    has_begun: AtomicBool,
}

impl Echo {
    /// Creates an echo for a listener that shows the output as the final output of the run.
    pub(crate) fn to(listener: impl Fn(Stream, &[u8]) + Send + Sync + 'static) -> Self {
        Self::new(Box::new(listener), true)
    }

    /// Creates an echo for a listener that uses the output only while the run lasts. A run with such a listener may be
    /// repeated.
    pub(crate) fn preview(listener: impl Fn(Stream, &[u8]) + Send + Sync + 'static) -> Self {
        Self::new(Box::new(listener), false)
    }

    fn new(listener: Box<Listener>, is_final: bool) -> Self {
        Self(Some(Arc::new(Heard { listener, is_final, has_begun: AtomicBool::new(false) })))
    }

    /// Passes `bytes` to the listener, if there is one.
    pub(super) fn pass_on(&self, stream: Stream, bytes: &[u8]) {
        let Some(heard) = &self.0 else { return };
        if !bytes.is_empty() {
            heard.has_begun.store(true, Ordering::Relaxed);
            (heard.listener)(stream, bytes);
        }
    }

    /// Returns whether the listener has shown output as final. The run must then not be repeated.
    pub(super) fn has_begun(&self) -> bool {
        let has_begun =
            |heard: &Arc<Heard>| heard.is_final && heard.has_begun.load(Ordering::Relaxed);
        self.0.as_ref().is_some_and(has_begun)
    }
}

impl fmt::Debug for Echo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Echo(..)" } else { "Echo(none)" })
    }
}
