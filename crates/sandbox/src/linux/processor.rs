//! Sets a run's share of the processors, and measures how long other processes kept the run from them. This module
//! never ends a run.
//!
//! **The share.** The server answers clients in one thread, next to runs that may compute on every processor. So the
//! CPU weight of each run (`nice(2)`) falls with the number of competing runs, and with the number of competing
//! threads of the run. All runs together weigh at most as much as one thread per processor. Up to [`THREADS_LIKE_ONE`]
//! threads of a run count as one. On kernels that are fair between sessions (`sched(7)`, autogroup), the nice value of
//! a process applies within its session only. So this module also sets the nice value of the run's session, in
//! `/proc/{pid}/autogroup`. A run is one session, because scripts cannot create sessions. The weights stay at the
//! maximum while enough processors exist.
//!
//! **The waiting time.** A run may reach its time limit because other processes kept it from the processors. To detect
//! such a run, the memory watch (`memory`) samples two times of each thread: how long the thread ran, and how long it
//! waited while it could have run (`/proc/{pid}/schedstat`). Threads of one run also make each other wait. This waiting
//! time must not be charged to other processes. So a run is entitled to the time that its busiest thread ran or waited.
//! Other processes are charged with this time, minus the time that all threads of the run together ran.
//!
//! The work of a process that ended between two samples is unknown. In this case, the account assumes that the run had
//! a processor, so that no script can appear starved by starting short-lived processes. The samples come at irregular
//! times, so that a script cannot avoid them.
//!
//! A weight that was lowered because of the run's own threads may stay low after these threads ended, because an
//! ordinary user is not allowed to raise a weight. Then the run itself has caused the low weight, and its waiting time
//! is not charged to other processes. The waiting time is charged to other processes if the number of runs alone would
//! have lowered the weight as far.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use nix::libc::EAGAIN;
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use rustix::process::{getpriority_process, setpriority_process};

use super::identity::OwnProcess;
use super::process_tree::{ProcessTable, stat};
use crate::Neighbours;

/// The minimum interval between two samples of the processor time of a run. Each interval is random, up to twice this
/// minimum, so that a script cannot avoid the samples.
const INTERVAL: Duration = Duration::from_millis(60);

/// Up to this number of a run's threads count as one thread, so that a few concurrent threads do not lower the run's
/// weight.
const THREADS_LIKE_ONE: u64 = 4;

/// The maximum nice value, which gives the lowest weight (`nice(2)`).
const NICE_MAX: i32 = 19;
/// The difference between neighbouring nice values that the supervisor sets. Few different values mean few changes of
/// a weight. An ordinary user may change the weights of only ten sessions per second.
const NICE_STEP: usize = 5;

/// A run was not starved if other processes kept it waiting for less than the observed time divided by this number.
const WAIT_SHARE_MIN: u32 = 10;

/// How long a run had a processor, and how long other processes kept the run from a processor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    observed: Duration,
    ran: Duration,
    kept_waiting: Duration,
}

impl ProcessorTime {
    /// Adds an interval to the account. `usage` is the run's use of the processors during the interval. If `usage` is
    /// `None`, the use is unknown, and the account assumes that the run had a processor for the whole interval.
    fn add(&mut self, interval: Duration, usage: Option<Usage>) {
        self.observed += interval;
        match usage {
            Some(Usage { ran, wanted, .. }) => {
                self.ran += ran;
                self.kept_waiting += wanted.min(interval).saturating_sub(ran);
            }
            None => self.ran += interval,
        }
    }

    /// Returns whether other processes kept the run from the processors for longer than the run had a processor, and
    /// for more than a tenth of the observed time.
    pub fn is_starved(&self) -> bool {
        self.kept_waiting > self.ran && self.kept_waiting > self.observed / WAIT_SHARE_MIN
    }

    /// Returns whether, for most of the time, the run neither had a processor nor waited for one.
    pub fn has_slept(&self) -> bool {
        self.observed > Duration::ZERO && self.ran + self.kept_waiting < self.observed / 2
    }
}

/// How long a thread ran, and how long it waited while it could have run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Times {
    ran: Duration,
    pub(super) waited: Duration,
}

impl Times {
    /// Parses a `schedstat`: the running time and the waiting time in nanoseconds, and a count.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        let (ran, waited) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(Self { ran: Duration::from_nanos(ran), waited: Duration::from_nanos(waited) })
    }
}

/// The use of the processors by all threads of a run in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Usage {
    /// The sum of the running times of all threads.
    ran: Duration,
    /// The sum of the times that the threads waited in a run queue.
    waited: Duration,
    /// The maximum, over all threads, of the time that a thread ran plus the time that it waited in a run queue. While
    /// the thread waited, a processor ran another thread of the run, or another process. Other processes kept the run
    /// waiting for at least `wanted` minus `ran`, because `ran` includes the other threads of the run.
    wanted: Duration,
}

/// The run's share of the processors, and the account of its processor time.
#[derive(Debug)]
pub(super) struct ProcessorShare {
    processors: u64,
    /// A source of random intervals.
    dice: RandomState,
    looked: Option<(Instant, BTreeMap<Pid, Times>)>,
    due: Option<Instant>,
    time: ProcessorTime,
    /// The nice value of the run's threads.
    nice: i32,
    /// The highest nice value that the number of runs alone has required up to now. The number of the run's threads
    /// does not affect this value.
    imposed_nice: i32,
    /// False after the kernel has refused to raise the weight of a thread. Raising a weight means lowering a nice
    /// value, which requires `CAP_SYS_NICE` (`setpriority(2)`).
    may_raise: bool,
    /// The nice value of the run's session. `None` if sessions have no nice value on this kernel.
    session_nice: Option<i32>,
}

impl ProcessorShare {
    pub(super) fn new() -> Self {
        Self {
            processors: processors(),
            dice: RandomState::new(),
            looked: None,
            due: None,
            time: ProcessorTime::default(),
            nice: 0,
            imposed_nice: 0,
            may_raise: true,
            session_nice: Some(0),
        }
    }

    pub(super) fn time(&self) -> ProcessorTime {
        self.time
    }

    /// Begins the account at `began`, the start time of the process that became `python`.
    pub(super) fn begin(&mut self, began: Instant, python: Pid) {
        self.looked = Some((began, BTreeMap::from([(python, Times::default())])));
    }

    /// Counts `waited` as time during which other processes kept the run from the processors.
    pub(super) fn charge(&mut self, waited: Duration) {
        self.time.observed += waited;
        self.time.kept_waiting += waited;
    }

    /// Takes a sample if a sample is due. `processes` contains the run's processes, each with its number of threads.
    /// Adapts the weight of the processes to the number of `runs` and of competing threads.
    pub(super) fn sample(&mut self, table: &ProcessTable, processes: &[(Pid, u64)], runs: u64) {
        let now = Instant::now();
        if self.due.is_some_and(|due| now < due) {
            return;
        }
        let extra = self.dice.hash_one(now) % 1024;
        self.due = Some(now + INTERVAL + INTERVAL * u32::try_from(extra).unwrap_or(0) / 1024);
        let competing = self.observe(table, processes, runs);
        if let Some((at, threads)) = self.looked.take() {
            self.weigh(table, threads.keys(), competing, runs);
            self.looked = Some((at, threads));
        }
    }

    /// Adds the time since the last sample to the account. Returns the number of threads that competed for a processor.
    pub(super) fn observe(
        &mut self,
        table: &ProcessTable,
        processes: &[(Pid, u64)],
        runs: u64,
    ) -> u64 {
        let now = Instant::now();
        let threads: BTreeMap<Pid, Times> = processes
            .iter()
            .flat_map(|(pid, threads)| times_of_threads(table, *pid, *threads))
            .collect();
        let mut competing = u64::try_from(threads.len()).unwrap_or(u64::MAX);
        if let Some((looked, before)) = self.looked.take() {
            let interval = now - looked;
            let usage = difference(&before, &threads);
            let has_begun = before.values().any(|times| *times != Times::default());
            // If the set of threads has changed, `usage` is `None`, and `count` assumes that the run had a processor.
            // Do not assume this for the interval before the first sample, because a script cannot hide work in that
            // interval.
            if usage.is_some() || has_begun {
                self.count(interval, usage, runs);
            }
            if let Some(Usage { ran, waited, .. }) = usage {
                // Compute the average number of threads that ran or waited. The other threads slept, so they do not
                // compete.
                let ready = (ran + waited).as_nanos().div_ceil(interval.as_nanos().max(1));
                competing = u64::try_from(ready).unwrap_or(u64::MAX);
            }
        }
        self.looked = Some((now, threads));
        competing
    }

    /// Adds an interval to the account. `runs` is the number of runs in this interval. Ignores the time that the run
    /// waited for a processor if the run itself has caused its low weight. This is the case if the run's own threads
    /// have lowered the weight further than the number of runs has ever required.
    fn count(&mut self, interval: Duration, usage: Option<Usage>, runs: u64) {
        self.imposed_nice = self.imposed_nice.max(nice_of(runs, self.processors));
        let is_own_doing = self.nice > self.imposed_nice;
        let usage = usage.map(|usage| Usage {
            wanted: if is_own_doing { Duration::ZERO } else { usage.wanted },
            ..usage
        });
        self.time.add(interval, usage);
    }

    /// Returns true if the weight of the run's session (`sched(7)`, autogroup) is low enough for this number of runs,
    /// or if the weight cannot be set.
    pub(super) fn is_settled(&self, runs: u64) -> bool {
        let is_low = |nice: i32| nice >= nice_of(runs, self.processors);
        self.session_nice.is_none_or(is_low)
    }

    /// Sets the weight of the run according to the numbers of `competing` threads and `runs`. Raises the weight only if
    /// this process may raise it, and only if even twice as many threads would allow a higher weight. Without the
    /// second condition, the weight could change with every sample. Ignores a weight that cannot be set, for example
    /// because the run has another user.
    fn weigh<'a>(
        &mut self,
        table: &ProcessTable,
        threads: impl Iterator<Item = &'a Pid>,
        competing: u64,
        runs: u64,
    ) {
        let mut threads = threads.peekable();
        let Some(first) = threads.peek().copied() else { return };
        let session_nice = nice_of(runs, self.processors);
        let session_nice_of_twice = nice_of(runs.saturating_mul(2), self.processors);
        let has_changed = |nice: i32| nice < session_nice || nice > session_nice_of_twice;
        let file = format!("{first}/autogroup");
        // Read the current value before writing a new value: the launcher may have set the value already, and the
        // kernel limits the number of writes.
        if self.session_nice.is_some_and(has_changed)
            && let Some(now) = table.read(&file).ok().and_then(|text| nice_of_session(&text))
        {
            self.session_nice = Some(now);
        }
        if self.session_nice.is_some_and(has_changed) {
            match table.write(&file, &session_nice.to_string()) {
                Ok(()) => self.session_nice = Some(session_nice),
                // Leave the old value and try again at the next sample. The kernel limits how many nice values of
                // sessions may be set in a second.
                Err(error) if error.raw_os_error() == Some(EAGAIN) => {}
                Err(_) => self.session_nice = None,
            }
        }
        let all = weighed(runs, competing);
        let nice = nice_of(all, self.processors);
        if self.nice < nice {
            self.nice = nice;
            for thread in threads {
                lower_thread(*thread, nice);
            }
        } else if self.may_raise && self.nice > nice_of(all.saturating_mul(2), self.processors) {
            self.may_raise = threads.all(|thread| raise_thread(*thread, nice));
            if self.may_raise {
                self.nice = nice;
            }
        }
    }
}

/// Lowers the weight of this process and of its session according to the number of runs. Call this before Python
/// starts, because starting Python takes as much processor time as many scripts together. If this call fails, the watch
/// lowers the weight later.
pub(crate) fn lower_own(own_process: &OwnProcess, runs: u64) {
    let nice = nice_of(runs, processors());
    if nice > 0 {
        let _ = own_process.write("autogroup", &nice.to_string());
        lower_thread(Pid::this(), nice);
    }
}

/// Parses the content of `/proc/{pid}/autogroup`, such as `/autogroup-12 nice 5`.
fn nice_of_session(text: &str) -> Option<i32> {
    text.trim_end().rsplit_once(" nice ")?.1.parse().ok()
}

/// Pins this thread, and the program that it executes, to its current processor. The kernel has chosen this processor
/// among the idle processors when the process started.
pub(crate) fn pin_to_current_processor() {
    if let Ok(processor) = sched_getcpu() {
        // Ignore a failure: without the pinning, only the order of the threads may differ between runs.
        let _ = keep_on(processor, Pid::from_raw(0));
    }
}

/// The number of runs that are pinned to each processor.
static KEPT: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// The processor to which a run is pinned. While this value exists, other runs are pinned to other processors if enough
/// processors exist.
#[must_use]
#[derive(Debug)]
pub struct OnlyProcessor(usize);

impl Drop for OnlyProcessor {
    fn drop(&mut self) {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runs) = kept.get_mut(&self.0) {
            *runs -= 1;
        }
    }
}

/// Pins `process` to the processor to which the fewest other runs are pinned. Prefers the processor on which `process`
/// ran last, because the cache there contains the memory of `process`. `process` must already be pinned to its last
/// processor. If this process is not allowed to move `process`, `process` stays on its last processor. Returns `None`
/// if the processors cannot be read.
pub fn pin_to_least_used_processor(process: Pid) -> Option<OnlyProcessor> {
    let own = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let usable = (0..CpuSet::count()).filter(|number| own.is_set(*number).unwrap_or_default());
    let last = stat(process).map(|stat| stat.processor);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let chosen = usable.min_by_key(|number| {
        (kept.get(number).copied().unwrap_or_default(), Some(*number) != last)
    })?;
    // If the server is root without `CAP_SYS_NICE`, it cannot move processes of another user. Then the process stays on
    // its last processor.
    let processor = if keep_on(chosen, process) { chosen } else { last? };
    *kept.entry(processor).or_default() += 1;
    Some(OnlyProcessor(processor))
}

/// Pins `process` to a processor. Returns false if this is not possible.
fn keep_on(processor: usize, process: Pid) -> bool {
    let mut one = CpuSet::new();
    one.set(processor).is_ok() && sched_setaffinity(process, &one).is_ok()
}

/// Lowers the weight of `process` and of its session according to the number of runs. The process is about to become a
/// run and must have a session of its own.
pub fn lower_cpu_weight(neighbours: Neighbours, process: Pid) {
    let nice = nice_of(neighbours.now, processors());
    if nice > 0 {
        let _ = fs::write(format!("/proc/{process}/autogroup"), nice.to_string());
        lower_thread(process, nice);
    }
}

/// Returns the number of processors that this process may use. Reads the number only once, because it comes from
/// several files of the control group.
pub(super) fn processors() -> u64 {
    static PROCESSORS: LazyLock<u64> = LazyLock::new(|| {
        available_parallelism().map_or(1, |count| u64::try_from(count.get()).unwrap_or(1))
    });
    *PROCESSORS
}

/// Lowers the weight of a thread to the weight of `nice`. Does nothing if the thread's weight is already that low.
/// Threads and processes that this thread starts later inherit the weight.
fn lower_thread(thread: Pid, nice: i32) {
    let thread = rustix::process::Pid::from_raw(thread.as_raw());
    if getpriority_process(thread).is_ok_and(|now| now < nice) {
        // Ignore a failure: the thread may have ended, or belong to another user.
        let _ = setpriority_process(thread, nice);
    }
}

/// Raises the weight of a thread to the weight of `nice`. Returns false if this is not permitted, and true if the
/// thread has ended.
fn raise_thread(thread: Pid, nice: i32) -> bool {
    let thread = rustix::process::Pid::from_raw(thread.as_raw());
    match setpriority_process(thread, nice) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => true,
        Err(_) => false,
    }
}

/// Returns the weight of all runs together, as a number of threads, if each run has `competing` threads. A run weighs
/// at least as much as one thread, because a sleeping thread may wake at any moment.
fn weighed(runs: u64, competing: u64) -> u64 {
    runs.saturating_mul(competing.div_ceil(THREADS_LIKE_ONE).max(1))
}

/// Returns the nice value at which this number of threads together weighs at most as much as one thread per processor,
/// rounded up to a multiple of [`NICE_STEP`] or to [`NICE_MAX`].
fn nice_of(threads: u64, processors: u64) -> i32 {
    let mut room = processors.saturating_mul(64);
    let wanted = threads.saturating_mul(64);
    let mut nice = 0;
    while nice < NICE_MAX && room < wanted {
        // At each nice value a thread weighs a fifth less than at the value before. So a quarter more threads have the
        // same weight.
        room += room / 4;
        nice += 1;
    }
    let steps = (0..NICE_MAX).step_by(NICE_STEP).chain([NICE_MAX]);
    steps.into_iter().find(|step| nice <= *step).unwrap_or(NICE_MAX)
}

/// Returns the use of the processors by all threads between two samples. `None` if the set of threads has changed.
fn difference(before: &BTreeMap<Pid, Times>, now: &BTreeMap<Pid, Times>) -> Option<Usage> {
    if now.is_empty() || !before.keys().eq(now.keys()) {
        return None;
    }
    let mut usage = Usage::default();
    for (before, now) in before.values().zip(now.values()) {
        // If a time has decreased, the thread ID belongs to another thread now, so the use is unknown.
        let ran = now.ran.checked_sub(before.ran)?;
        let waited = now.waited.checked_sub(before.waited)?;
        usage.ran += ran;
        usage.waited += waited;
        usage.wanted = usage.wanted.max(ran + waited);
    }
    Some(usage)
}

/// Returns the times of a process's threads. Skips a thread if its times cannot be read.
fn times_of_threads(table: &ProcessTable, pid: Pid, threads: u64) -> Vec<(Pid, Times)> {
    let read = |folder: &str| Times::parse(&table.read(&format!("{folder}/schedstat")).ok()?);
    if threads <= 1 {
        return read(&pid.to_string()).map(|times| (pid, times)).into_iter().collect();
    }
    let tasks = table.tasks(pid).unwrap_or_default();
    let thread = |task: &String| {
        let number = task.rsplit('/').next()?.parse().ok().map(Pid::from_raw)?;
        Some((number, read(task)?))
    };
    tasks.iter().filter_map(thread).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    const TENTH: Duration = Duration::from_millis(100);

    /// Returns the account of a run after ten intervals of a tenth of a second. In each interval, each of its
    /// `threads` runs for `times.0` microseconds and waits for `times.1` microseconds. If `times` is `None`, the
    /// times are unknown.
    fn account(threads: i32, times: Option<(u64, u64)>) -> ProcessorTime {
        let mut time = ProcessorTime::default();
        let looked = |times: Times| (0..threads).map(|it| (Pid::from_raw(it), times)).collect();
        for _ in 0..10 {
            let usage = times.and_then(|(ran, waited)| {
                let (ran, waited) = (Duration::from_micros(ran), Duration::from_micros(waited));
                difference(&looked(Times::default()), &looked(Times { ran, waited }))
            });
            time.add(TENTH, usage);
        }
        time
    }

    #[test]
    fn runs_are_kept_on_different_processors() {
        let computing = Computing::start(2);
        let pids = computing.0.iter().map(|it| Pid::from_raw(it.id().try_into().unwrap()));
        let pids: Vec<Pid> = pids.collect();
        let processors_of = |pid: Pid| -> Vec<usize> {
            let set = sched_getaffinity(pid).unwrap();
            (0..CpuSet::count()).filter(|number| set.is_set(*number).unwrap()).collect()
        };
        // Wait until both processes compute on the lowest processor.
        let lowest = processors_of(Pid::this())[0];
        let is_there = |pid: &Pid| {
            processors_of(*pid) == [lowest] && stat(*pid).is_some_and(|it| it.processor == lowest)
        };
        let began = Instant::now();
        while !pids.iter().all(is_there) {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
        let first = pin_to_least_used_processor(pids[0]).unwrap();
        assert_eq!(first.0, lowest, "it ran there");
        let second = pin_to_least_used_processor(pids[1]).unwrap();
        let has_one = processors_of(Pid::this()).len() == 1;
        assert_eq!(first.0 == second.0, has_one, "another run is kept there");
        assert_eq!(processors_of(pids[1]), [second.0]);
        let processor = second.0;
        drop((first, second));
        assert_eq!(pin_to_least_used_processor(pids[1]).unwrap().0, processor, "it ran there");
    }

    #[test]
    fn only_what_others_took_of_one_processor_is_a_wait() {
        for (threads, times, expected) in [
            // One thread computes all the time.
            (1, (100_000, 0), false),
            (1, (60_000, 40_000), false),
            (1, (49_000, 51_000), true),
            (1, (1000, 99_000), true),
            // One thread sleeps, and waits for a processor each time it wakes.
            (1, (0, 0), false),
            (1, (1000, 4000), false),
            (1, (1000, 11_000), true),
            // Sixty threads compete with each other. Together they ran on two processors, then on slightly more than
            // half of one processor, then on slightly less than half of one.
            (60, (3333, 96_667), false),
            (60, (850, 99_150), false),
            (60, (816, 99_184), true),
            // Eight threads wake together and wait for each other for a third of the time, first alone and then next to
            // other processes.
            (8, (4000, 28_000), false),
            (8, (4000, 90_000), true),
        ] {
            assert_eq!(account(threads, Some(times)).is_starved(), expected, "{threads} {times:?}");
        }
    }

    #[test]
    fn processes_that_come_and_go_hide_no_time() {
        assert!(!account(1, None).is_starved());
        let mut time = account(1, Some((0, 100_000)));
        assert!(time.is_starved());
        for _ in 0..10 {
            time.add(TENTH, None);
        }
        assert!(!time.is_starved(), "half of it is not known");

        let times = |ran| Times { ran: Duration::from_millis(ran), waited: TENTH };
        let threads = |all: &[(i32, u64)]| -> BTreeMap<Pid, Times> {
            all.iter().map(|(pid, ran)| (Pid::from_raw(*pid), times(*ran))).collect()
        };
        let before = threads(&[(1, 10), (2, 10)]);
        let (ran, wanted) = (Duration::from_millis(30), Duration::from_millis(20));
        let grown = Some(Usage { ran, waited: Duration::ZERO, wanted });
        for (now, expected) in [
            (threads(&[(1, 20), (2, 30)]), grown),
            (threads(&[(1, 20)]), None),
            (threads(&[(1, 20), (2, 30), (3, 0)]), None),
            (threads(&[(1, 20), (3, 30)]), None),
            (threads(&[(1, 20), (2, 9)]), None),
            (threads(&[]), None),
        ] {
            assert_eq!(difference(&before, &now), expected, "{now:?}");
        }
        assert_eq!(difference(&threads(&[]), &threads(&[])), None, "nothing could be read");
    }

    #[test]
    fn a_run_that_its_own_threads_have_lowered_is_not_starved() {
        let waiting = Usage { ran: TENTH / 5, waited: TENTH * 4 / 5, wanted: TENTH };
        for (threads, runs, expected) in [
            // The run has its full weight, and other processes make it wait.
            (1, 1, true),
            // Four threads of the run do not lower its weight.
            (4, 1, true),
            (4, 2, true),
            // Sixty threads of the run have lowered the run's weight, so the run's waiting time is ignored.
            (60, 1, false),
            (60, 2, false),
            // The number of runs has lowered the weight. Waiting time is ignored only if the run's own threads have
            // lowered the weight further.
            (1, 9, true),
            (2, 9, true),
            (60, 9, false),
            (1, 60, true),
            (60, 60, true),
        ] {
            let mut share = ProcessorShare { processors: 2, ..ProcessorShare::new() };
            share.nice = nice_of(weighed(runs, threads), share.processors);
            for _ in 0..10 {
                share.count(TENTH, Some(waiting), runs);
            }
            assert_eq!(share.time().is_starved(), expected, "{threads} threads, {runs} runs");
        }
    }

    #[test]
    fn what_others_have_lowered_for_a_while_is_not_the_runs_own_doing() {
        let waiting = Usage { ran: TENTH / 5, waited: TENTH * 4 / 5, wanted: TENTH };
        let mut share = ProcessorShare { processors: 2, ..ProcessorShare::new() };
        share.nice = nice_of(9, share.processors);
        share.count(TENTH, Some(waiting), 9);
        for _ in 0..10 {
            share.count(TENTH, Some(waiting), 2);
        }
        assert!(share.time().is_starved());
    }

    #[test]
    fn a_run_that_waits_for_something_else_has_slept() {
        for (ran, waited, expected) in
            [(0, 0, true), (10, 30, true), (100, 0, false), (10, 90, false), (60, 0, false)]
        {
            let times = Some((ran * 1000, waited * 1000));
            assert_eq!(account(1, times).has_slept(), expected, "{ran} {waited}");
        }
        assert!(!ProcessorTime::default().has_slept(), "it was never looked at");
    }

    #[test]
    fn the_weight_of_a_session_is_parsed() {
        assert_eq!(nice_of_session("/autogroup-12 nice -5\n"), Some(-5));
        assert_eq!(nice_of_session("/autogroup-12 nice 19"), Some(19));
        assert_eq!(nice_of_session(""), None);
    }

    #[test]
    fn weights_fall_only_where_more_compete_than_there_is_room_for() {
        for (threads, processors, expected) in [
            (1, 1, 0),
            (2, 2, 0),
            (3, 2, 5),
            (6, 2, 5),
            (7, 2, 10),
            (18, 2, 10),
            (19, 2, 15),
            (60, 2, 19),
            (60 * 60, 64, 19),
            (64, 64, 0),
            (256, 64, 10),
        ] {
            assert_eq!(nice_of(threads, processors), expected, "{threads} {processors}");
        }
    }

    /// Processes that compute on the same processor, each in a session of its own. They are killed on drop.
    struct Computing(Vec<Child>);

    impl Computing {
        fn start(count: usize) -> Self {
            let script = "
import os
os.setsid()
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
while True: pass";
            let start = |_| Command::new("python3").args(["-c", script]).spawn().unwrap();
            Self((0..count).map(start).collect())
        }

        fn first(&self) -> Pid {
            Pid::from_raw(i32::try_from(self.0[0].id()).unwrap())
        }
    }

    impl Drop for Computing {
        fn drop(&mut self) {
            for child in &mut self.0 {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }

    /// Takes samples of the first process until `is_so` returns true. Returns false if this does not happen within a
    /// minute.
    fn comes(
        computing: &Computing,
        share: &mut ProcessorShare,
        runs: u64,
        is_so: impl Fn(&ProcessorShare) -> bool,
    ) -> bool {
        let table = ProcessTable::open().unwrap();
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(60) {
            share.sample(&table, &[(computing.first(), 1)], runs);
            if is_so(share) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    #[test]
    fn a_process_that_others_keep_from_its_processor_is_starved() {
        let computing = Computing::start(5);
        let mut share = ProcessorShare::new();
        assert!(comes(&computing, &mut share, 1, |share| share.time().is_starved()), "{share:?}");
    }

    #[test]
    fn the_time_before_the_first_look_belongs_to_the_account() {
        let computing = Computing::start(5);
        let table = ProcessTable::open().unwrap();
        let mut share = ProcessorShare::new();
        share.begin(Instant::now(), computing.first());
        std::thread::sleep(Duration::from_secs(2));
        share.observe(&table, &[(computing.first(), 1)], 1);
        assert!(share.time().is_starved(), "{share:?}");

        let mut share = ProcessorShare::new();
        share.begin(Instant::now(), computing.first());
        share.observe(&table, &[(computing.first(), 1), (Pid::this(), 1)], 1);
        assert_eq!(share.time(), ProcessorTime::default(), "other threads have started");
        share.charge(TENTH);
        assert!(share.time().is_starved(), "{share:?}");
    }

    #[test]
    fn the_weight_of_a_run_is_lowered_beside_many_others() {
        let computing = Computing::start(1);
        let mut share = ProcessorShare::new();
        let nice = || {
            let pid = rustix::process::Pid::from_raw(computing.first().as_raw());
            getpriority_process(pid).unwrap()
        };
        // Wait until the process has its own session, because the weight of the tests' session must not change.
        let has_session = || nix::unistd::getsid(Some(computing.first())) == Ok(computing.first());
        while !has_session() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let before = nice();
        let processors = share.processors;
        assert!(comes(&computing, &mut share, 1, |share| share.looked.is_some()));
        assert_eq!((share.nice, nice()), (0, before), "alone");
        assert!(share.is_settled(1) && !share.is_settled(1000 * processors));
        let lowered = |share: &ProcessorShare| share.nice > 0 && share.session_nice != Some(0);
        assert!(comes(&computing, &mut share, 1000 * processors, lowered), "{share:?}");
        assert_eq!((share.nice, nice()), (NICE_MAX, NICE_MAX));
        assert!(share.is_settled(1000 * processors));
        // With one run, the weight is raised again if this process may raise it.
        let raised = |share: &ProcessorShare| share.nice == 0 || !share.may_raise;
        assert!(comes(&computing, &mut share, 1, raised), "{share:?}");
        assert_eq!(nice(), share.nice);
        assert!(comes(&computing, &mut share, 1000 * processors, lowered), "{share:?}");
        let table = ProcessTable::open().unwrap();
        if let Ok(text) = table.read(&format!("{}/autogroup", computing.first()))
            && share.session_nice.is_some()
        {
            assert!(text.trim_end().ends_with("nice 19"), "{text}");
        }
    }
}
