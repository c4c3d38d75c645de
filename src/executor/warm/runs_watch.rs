//! Watches all runs in warm interpreters, in one thread.
//!
//! Sampling a run takes longer if the run has more processes. With a thread for each run, many hostile runs would take
//! the processors from the thread that serves clients. A single thread takes at most one processor, with any number of
//! runs. It samples the runs in the order in which they are due. This module only detects that a run exceeds a limit.
//! It never kills a run.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use nix::unistd::Pid;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::sandbox::{Look, MemoryWatch, ProcessorTime};

/// A handle to the thread that watches runs. The thread lives as long as this handle exists or a run is watched.
#[derive(Debug, Default)]
pub(super) struct RunsWatch {
    runs: Mutex<Option<Sender<WatchedRun>>>,
}

/// A run, with the data that the watching thread needs.
#[derive(Debug)]
struct WatchedRun {
    watch: MemoryWatch,
    python: Pid,
    init: Pid,
    due: Instant,
    /// The channel that reports an exceeded limit. It is closed when the run is over.
    exceeded: oneshot::Sender<Exceeded>,
    known: Arc<Mutex<Known>>,
}

/// The results of the last sample of a run.
#[derive(Debug)]
struct Known {
    /// The CPU time of the run, and the time for which other processes kept the run from the processors.
    time: ProcessorTime,
    /// A semaphore permit, which limits the number of runs without their CPU weight (`nice(2)`). It is dropped when the
    /// run has its weight, or is over.
    unsettled: Option<OwnedSemaphorePermit>,
}

/// The limit that a run has exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exceeded {
    Memory,
    Pipes,
}

/// The watch of one run. The watch ends when this value is dropped.
#[derive(Debug)]
pub(super) struct WatchOfRun {
    exceeded: oneshot::Receiver<Exceeded>,
    known: Arc<Mutex<Known>>,
}

impl Drop for WatchOfRun {
    fn drop(&mut self) {
        lock(&self.known).unsettled = None;
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WatchOfRun {
    /// Waits until the run exceeds a limit. Never returns if the run exceeds none. If the watch fails, returns
    /// [`Exceeded::Memory`], because no run may continue without a watch.
    pub(super) async fn exceeded(&mut self) -> Exceeded {
        (&mut self.exceeded).await.unwrap_or(Exceeded::Memory)
    }

    /// Returns the run's [`ProcessorTime`] at the last sample.
    pub(super) fn time(&self) -> ProcessorTime {
        lock(&self.known).time
    }
}

impl RunsWatch {
    /// Watches the process `python` and its descendants. When the parent of a descendant ends, the descendant becomes a
    /// child of `init`, which is process 1 of the run's PID namespace. Drops `unsettled` when the run has its CPU
    /// weight.
    pub(super) fn start(
        &self,
        watch: MemoryWatch,
        python: Pid,
        init: Pid,
        unsettled: Option<OwnedSemaphorePermit>,
    ) -> WatchOfRun {
        let (exceeded, received) = oneshot::channel();
        let known = Known { time: ProcessorTime::default(), unsettled };
        let known = Arc::new(Mutex::new(known));
        let run = WatchedRun {
            watch,
            python,
            init,
            due: Instant::now(),
            exceeded,
            known: Arc::clone(&known),
        };
        // If the thread has ended, `send` drops the run with its channel. `WatchOfRun::exceeded` then returns `Memory`.
        let _ = self.sender().send(run);
        WatchOfRun { exceeded: received, known }
    }

    fn sender(&self) -> Sender<WatchedRun> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.get_or_insert_with(|| {
            let (sender, received) = channel();
            // The thread has the same CPU weight as the server's other threads. With a lower weight, it would sample a
            // run's memory too late.
            thread::spawn(move || watch_runs(&received));
            sender
        })
        .clone()
    }
}

/// Watches runs until the last run is over and the handle is dropped.
fn watch_runs(received: &Receiver<WatchedRun>) {
    let mut runs: Vec<WatchedRun> = Vec::new();
    loop {
        runs.retain(|run| !run.exceeded.is_closed());
        let next = runs.iter().map(|run| run.due).min();
        let pause = next.map(|due| due.saturating_duration_since(Instant::now()));
        let come = match pause {
            None => received.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(pause) => received.recv_timeout(pause),
        };
        match (come, pause) {
            (Ok(run), _) => {
                runs.push(run);
                continue;
            }
            (Err(RecvTimeoutError::Timeout), _) => {}
            (Err(RecvTimeoutError::Disconnected), Some(pause)) => thread::sleep(pause),
            (Err(RecvTimeoutError::Disconnected), None) => return,
        }
        check_first(&mut runs);
    }
}

/// Samples the run that has been due for the longest time.
fn check_first(runs: &mut Vec<WatchedRun>) {
    let count = u64::try_from(runs.len()).unwrap_or(u64::MAX);
    let first = runs.iter_mut().enumerate().min_by_key(|(_, run)| run.due);
    let Some((index, run)) = first.filter(|(_, run)| !run.exceeded.is_closed()) else { return };
    run.watch.note_runs(count);
    let exceeded = match run.watch.sample(run.python, Some(run.init)) {
        Look::Within { next } => {
            run.due = Instant::now() + next;
            let mut known = lock(&run.known);
            known.time = run.watch.processor_time();
            if run.watch.is_settled() {
                known.unsettled = None;
            }
            return;
        }
        Look::Exceeded => Exceeded::Memory,
        Look::TooManyPipes => Exceeded::Pipes,
    };
    // Sending fails if the run is already over.
    let _ = runs.swap_remove(index).exceeded.send(exceeded);
}
