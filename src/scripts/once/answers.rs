//! Keeps results of runs in memory, up to a total size, and registers the runs in progress. The least recently used
//! result is removed first. This module never decides which results can be reused.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use lru::LruCache;
use tokio_util::sync::CancellationToken;

use crate::executor::Outcome;

use super::key::Key;

/// The maximum size of all stored results together, in bytes.
const BYTES_MAX: usize = 64 * 1024 * 1024;

const RESULTS_MAX: NonZeroUsize = NonZeroUsize::new(32 * 1024).expect("it is not zero");

/// The estimated size in memory of a result without its output, verdict, value and advice, in bytes.
const RESULT_BYTES: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<State>);

#[derive(Debug)]
struct State {
    stored: LruCache<Key, Stored>,
    bytes: usize,
    running: HashMap<Key, Arc<Running>>,
}

impl Default for State {
    fn default() -> Self {
        Self { stored: LruCache::sparse(RESULTS_MAX), bytes: 0, running: HashMap::new() }
    }
}

#[derive(Debug)]
struct Stored {
    outcome: Arc<Outcome>,
    bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct Running {
    /// The result for other calls; `None` if no other call can use it. Not set if the run was given up.
    result: OnceLock<Option<Arc<Outcome>>>,
    /// Cancelled when the run has ended or was given up.
    has_ended: CancellationToken,
}

/// The way in which a run ended, for a call that has waited for this run.
#[derive(Debug)]
pub(super) enum Ended {
    Shared(Arc<Outcome>),
    /// The run ended, but no other call can use its result.
    NotShared,
    /// The run was cancelled or failed.
    GivenUp,
}

/// The result of the search for a run by its key.
#[derive(Debug)]
pub(super) enum Found {
    Stored(Arc<Outcome>),
    Running(Arc<Running>),
    Nothing,
}

/// The right to run a script. Other calls may wait for the run and use its result. If this value is dropped without a
/// result, one of the waiting calls may run the script for the others.
#[derive(Debug)]
pub(super) struct Leader {
    answers: Arc<Answers>,
    key: Key,
    running: Arc<Running>,
}

impl Answers {
    /// Returns the stored result with this key, or the run in progress with this key.
    pub(super) fn find(&self, key: &Key) -> Found {
        let mut state = self.lock();
        if let Some(stored) = state.stored.get(key) {
            return Found::Stored(Arc::clone(&stored.outcome));
        }
        state.running.get(key).map_or(Found::Nothing, |it| Found::Running(Arc::clone(it)))
    }

    /// Registers a run. Returns `None` if a run with this key is in progress, or if a result with this key is stored.
    pub(super) fn claim(self: &Arc<Self>, key: Key) -> Option<Leader> {
        let mut state = self.lock();
        if state.stored.contains(&key) {
            return None;
        }
        match state.running.entry(key) {
            Entry::Occupied(_) => None,
            Entry::Vacant(place) => {
                let running = Arc::clone(place.insert(Arc::default()));
                Some(Leader { answers: Arc::clone(self), key, running })
            }
        }
    }

    /// Stores a result that another process has computed.
    pub(super) fn remember(&self, key: Key, outcome: &Arc<Outcome>) {
        self.lock().store(key, Arc::clone(outcome));
    }

    /// Returns the number of calls that wait for a run.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        // Subtract the references in `running` and in the `Leader`, because these two do not wait.
        self.lock().running.values().map(|running| Arc::strong_count(running) - 2).sum()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Stores a result, and removes the least recently used results until the rest fits. A result that is too large
    /// is not stored.
    fn store(&mut self, key: Key, outcome: Arc<Outcome>) {
        let bytes = size(&outcome);
        if bytes > BYTES_MAX {
            return;
        }
        self.bytes += bytes;
        // `push` returns the earlier result with the same key. If the cache already had `RESULTS_MAX` results, `push`
        // returns the result that it removed.
        let replaced = self.stored.push(key, Stored { outcome, bytes });
        self.bytes -= replaced.map_or(0, |(_, stored)| stored.bytes);
        while self.bytes > BYTES_MAX
            && let Some((_, oldest)) = self.stored.pop_lru()
        {
            self.bytes -= oldest.bytes;
        }
    }
}

/// Estimates the size of a result in memory, in bytes.
fn size(outcome: &Outcome) -> usize {
    // The JSON document in a verdict contains many short texts, and each text takes more memory than its characters. So
    // the length of the JSON is multiplied by 3.
    let verdict = serde_json::to_vec(&outcome.verdict).map_or(0, |text| 3 * text.len());
    let value = outcome.end_report.value.as_ref().map_or(0, Vec::len);
    let advice = outcome.advice.as_ref().map_or(0, String::len);
    RESULT_BYTES + outcome.output_bytes() + verdict + value + advice
}

impl Running {
    /// Waits for the end of the run.
    pub(super) async fn ended(&self) -> Ended {
        self.has_ended.cancelled().await;
        match self.result.get() {
            Some(Some(outcome)) => Ended::Shared(Arc::clone(outcome)),
            Some(None) => Ended::NotShared,
            None => Ended::GivenUp,
        }
    }
}

impl Leader {
    /// Stores the result, and passes it to the waiting calls.
    pub(super) fn share(&self, outcome: Arc<Outcome>) {
        self.end(Some(&outcome));
        self.running.result.get_or_init(|| Some(outcome));
        self.running.has_ended.cancel();
    }

    /// Ends the wait of the other calls, and gives them no result. Each of these calls must then run the script itself.
    pub(super) fn end_without_sharing(&self) {
        self.running.result.get_or_init(|| None);
        self.give_up();
    }

    /// Ends the wait of the other calls, and gives them no result. One of these calls may then run the script for the
    /// others.
    pub(super) fn give_up(&self) {
        self.end(None);
        self.running.has_ended.cancel();
    }

    /// Removes the run from the runs in progress and stores its result, under the same lock.
    fn end(&self, outcome: Option<&Arc<Outcome>>) {
        let mut state = self.answers.lock();
        // Do not remove a later run that another call has registered with the same key.
        if state.running.get(&self.key).is_some_and(|it| Arc::ptr_eq(it, &self.running)) {
            state.running.remove(&self.key);
        }
        if let Some(outcome) = outcome {
            state.store(self.key, Arc::clone(outcome));
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if !self.running.has_ended.is_cancelled() {
            self.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::executor::Captured;

    fn printed(bytes: usize) -> Outcome {
        let stdout = Captured { text: "x".repeat(bytes), ..Captured::default() };
        Outcome { stdout, ..Outcome::never_started() }
    }

    fn key(number: usize) -> Key {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        Key(key)
    }

    fn is_stored(answers: &Answers, number: usize) -> bool {
        matches!(answers.find(&key(number)), Found::Stored(_))
    }

    fn store(answers: &Arc<Answers>, number: usize, bytes: usize) {
        answers.claim(key(number)).unwrap().share(Arc::new(printed(bytes)));
    }

    #[test]
    fn the_result_that_was_used_longest_ago_is_forgotten_first() {
        let answers = Arc::new(Answers::default());
        let mebibytes = BYTES_MAX / (1024 * 1024);
        for number in 0..mebibytes - 1 {
            store(&answers, number, 1024 * 1024);
        }
        assert!(is_stored(&answers, 0));
        store(&answers, 1_000, 1024 * 1024);
        assert!(is_stored(&answers, 0) && is_stored(&answers, 1_000) && !is_stored(&answers, 1));
        let bytes = answers.lock().bytes;
        assert!(bytes <= BYTES_MAX && bytes > BYTES_MAX - 2 * 1024 * 1024, "{bytes}");
        // A result that is too large does not displace another result.
        store(&answers, 1_001, BYTES_MAX);
        assert!(is_stored(&answers, 1_000) && !is_stored(&answers, 1_001));
    }

    #[test]
    fn the_number_of_results_is_bounded() {
        let answers = Arc::new(Answers::default());
        for number in 0..=RESULTS_MAX.get() {
            store(&answers, number, 0);
        }
        assert!(!is_stored(&answers, 0) && is_stored(&answers, RESULTS_MAX.get()));
        let state = answers.lock();
        let bytes = state.stored.iter().map(|(_, stored)| stored.bytes).sum::<usize>();
        assert_eq!((state.stored.len(), state.bytes), (RESULTS_MAX.get(), bytes));
    }

    #[test]
    fn a_run_is_claimed_once() {
        let answers = Arc::new(Answers::default());
        let first = answers.claim(key(1)).unwrap();
        assert!(answers.claim(key(1)).is_none());
        let Found::Running(running) = answers.find(&key(1)) else { panic!("it is not running") };
        assert!(running.ended().now_or_never().is_none());
        drop(first);
        assert!(matches!(running.ended().now_or_never(), Some(Ended::GivenUp)));
        let second = answers.claim(key(1)).unwrap();
        let Found::Running(running) = answers.find(&key(1)) else { panic!("it is not running") };
        second.end_without_sharing();
        assert!(matches!(running.ended().now_or_never(), Some(Ended::NotShared)));
        assert!(matches!(answers.find(&key(1)), Found::Nothing));
        let third = answers.claim(key(1)).unwrap();
        // The end of an earlier run does not end a later run with the same key.
        drop(second);
        let Found::Running(running) = answers.find(&key(1)) else { panic!("it is not running") };
        third.share(Arc::new(printed(0)));
        assert!(matches!(running.ended().now_or_never(), Some(Ended::Shared(_))));
        assert!(answers.claim(key(1)).is_none() && is_stored(&answers, 1));
    }
}
