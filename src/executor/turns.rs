//! Runs take turns, in the order of their calls.

#[cfg(feature = "http")]
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

#[cfg(feature = "http")]
use crate::meter::Meter;
use crate::meter::MeterPlace;

/// A queue that lets so many runs go on at once; the others wait, first come, first served.
#[derive(Debug)]
pub(crate) struct Turns {
    places: Semaphore,
    /// Those who wait.
    waiting: AtomicUsize,
    /// Counts how long they do.
    meter: MeterPlace,
}

/// A run's turn, until it is dropped.
pub(crate) type Turn<'a> = SemaphorePermit<'a>;

impl Turns {
    /// Turns for `runs_max` runs at once.
    pub(crate) fn new(runs_max: usize) -> Self {
        Self {
            places: Semaphore::new(runs_max),
            waiting: AtomicUsize::new(0),
            meter: MeterPlace::default(),
        }
    }

    /// Returns a turn at once; `None` if that has to be waited for.
    pub(crate) fn take_at_once(&self) -> Option<Turn<'_>> {
        self.places.try_acquire().ok()
    }

    /// Returns how many runs could begin at once.
    #[cfg(feature = "http")]
    pub(crate) fn free(&self) -> usize {
        self.places.available_permits()
    }

    /// Returns how many runs wait for their turn.
    #[cfg(feature = "http")]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Has waits counted from here on.
    #[cfg(feature = "http")]
    pub(crate) fn set_meter(&self, meter: Arc<dyn Meter>) {
        self.meter.set(meter);
    }

    /// Waits for a turn; `None` if `cancel` is cancelled before. `waits` is set as long as this goes on,
    /// and not when it is given up either.
    pub(crate) async fn take(
        &self,
        waits: &AtomicBool,
        cancel: &CancellationToken,
    ) -> Option<Turn<'_>> {
        let _waiting = Waiting::new(waits, self);
        tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            place = self.places.acquire() => place.ok(),
        }
    }
}

/// Marks a call as waiting, until it is dropped.
struct Waiting<'a> {
    waits: &'a AtomicBool,
    turns: &'a Turns,
    since: Instant,
}

impl<'a> Waiting<'a> {
    fn new(waits: &'a AtomicBool, turns: &'a Turns) -> Self {
        waits.store(true, Ordering::Relaxed);
        turns.waiting.fetch_add(1, Ordering::Relaxed);
        Self { waits, turns, since: Instant::now() }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.waits.store(false, Ordering::Relaxed);
        self.turns.waiting.fetch_sub(1, Ordering::Relaxed);
        if let Some(meter) = self.turns.meter.get() {
            meter.waited(self.since.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_call_says_that_it_waits_until_it_has_a_turn_or_gives_up() {
        let (turns, cancel) = (Turns::new(1), CancellationToken::new());
        let waits = AtomicBool::new(false);
        let is_waiting = || waits.load(Ordering::Relaxed);
        let turn = turns.take(&waits, &cancel).await;
        assert!(turn.is_some() && !is_waiting());

        let mut second = Box::pin(turns.take(&waits, &cancel));
        assert!((&mut second).now_or_never().is_none() && is_waiting());
        drop(second);
        assert!(!is_waiting(), "given up");

        let mut third = Box::pin(turns.take(&waits, &cancel));
        assert!((&mut third).now_or_never().is_none() && is_waiting());
        drop(turn);
        assert!(third.await.is_some() && !is_waiting());

        cancel.cancel();
        assert!(turns.take(&waits, &cancel).await.is_none() && !is_waiting());
    }

    #[tokio::test]
    async fn who_came_first_is_first() {
        let (turns, cancel) = (Turns::new(1), CancellationToken::new());
        let waits = [const { AtomicBool::new(false) }; 2];
        let [first_waits, second_waits] = &waits;
        let turn = turns.take_at_once();
        let mut first = Box::pin(turns.take(first_waits, &cancel));
        let mut second = Box::pin(turns.take(second_waits, &cancel));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        drop(turn);
        // Nobody goes before those who wait.
        assert!(turns.take_at_once().is_none());
        assert!((&mut second).now_or_never().is_none());
        let turn = first.now_or_never().flatten();
        assert!(turn.is_some() && (&mut second).now_or_never().is_none());
        drop(turn);
        assert!(second.await.is_some());
    }
}
