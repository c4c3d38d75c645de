//! Watches the memory of a run, as the sum over all its processes. This module never kills a process.
//!
//! `setrlimit(2)` limits only the address space of one process. But libraries reserve gigabytes that they never touch,
//! and a script can have many processes. So the watch samples the memory in use. The result of a sample is a [`Look`].
//! Each sample counts:
//!
//! - **Pages of the processes.** Pages that processes share after a fork must count only once. An exact count is slow,
//!   because the kernel walks through all page tables. So the watch first takes the lower of two cheap upper bounds.
//!   The first is the sum of the resident pages of all processes. The second is the number of pages that all processes
//!   ever took. For each process, this is the number of page faults or the growth of the resident pages, whichever is
//!   greater. This bound holds for two reasons. Transparent huge pages are off in a run, so each new page and each copy
//!   of a shared page takes one fault. The seccomp filter denies processes that share their memory, so no process takes
//!   pages for another. If both bounds exceed the limit, the watch counts the pages exactly (`smaps_rollup`), one
//!   process at a time, so that the watching process is never busy for long.
//! - **Kernel memory** for the run: page tables, data about mappings, and buffers of sockets and pipes. Each buffer
//!   counts with its maximum size.
//!
//! Each sample also counts the resources that the run shares with other runs of its user or of the machine: pipes,
//! threads and processors (`processor`).

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, SysconfVar, sysconf};

use super::process_tree::{ProcessTable, Stat};
use super::processor::{ProcessorShare, ProcessorTime, Times, processors};
use crate::Neighbours;

/// The maximum interval between two samples of a run's memory.
pub const WATCH_INTERVAL: Duration = Duration::from_millis(25);

/// The maximum interval between two samples while the run's memory grows.
const GROWING_INTERVAL: Duration = Duration::from_millis(5);

/// The minimum interval between two samples. This interval applies if the run has little memory left.
const WATCH_INTERVAL_MIN: Duration = Duration::from_millis(2);

/// The maximum growth of a run's memory on one processor, in bytes per second. The next sample is taken before the run
/// could use up its remaining memory at this rate. Socket buffers grow fastest, by up to 3 GiB per second, because
/// filling them causes no page faults. This rate is higher than 3 GiB per second.
const GROWTH_RATE: u64 = 4 << 30;

/// The maximum sum of the resident pages of all processes, as a multiple of the memory limit. The sum may exceed the
/// limit, because processes may share pages. If the sum exceeds this multiple, the run is treated as too large, without
/// an exact count. An exact count would take a tenth of a second for each 3 GiB.
const SHARED_MAX: u64 = 8;

/// During an exact count, a run may grow by at most its memory limit divided by this number.
const GROWTH_WHILE_COUNTING: u64 = 10;

/// The memory that the kernel needs to manage one memory mapping of a process, in bytes.
const MAPPING_BYTES: u64 = 512;

/// The maximum number of mappings of a process. Python with large libraries has a few hundred.
const MAPPINGS_MAX: u64 = 16 * 1024;

/// The minimum interval between two counts of the mappings of a process.
const MAPPINGS_INTERVAL: Duration = Duration::from_millis(100);
/// The maximum number of bytes that one sample reads from `/proc/{pid}/maps`. Each mapping takes about a hundred bytes.
const MAPPINGS_BYTES_MAX: usize = 1024 * 1024;

/// The minimum number of bytes that are charged for a descriptor: the default capacity of a socket buffer
/// (`net.core.wmem_default`). A pipe's capacity is smaller, and other descriptors cost almost nothing. The watch
/// charges all descriptors alike, because it reads only their number.
const DESCRIPTOR_BYTES_MIN: u64 = 212_992;

/// The number of descriptors of each process that the watch does not charge.
const DESCRIPTORS_FREE: u64 = 8;

/// The number of pages of a pipe of the default size (`pipe(7)`).
const PIPE_PAGES: u64 = 16;

/// All runs together may use the user's limit for pipe pages divided by this number. The remaining pages are for the
/// user's other processes.
const PIPES_SHARE: u64 = 2;

/// The number of pipes that every run may have, even if its share of the user's pipes is smaller.
const PIPES_MIN: u64 = 16;

/// The minimum interval between two counts of a run's pipes.
const PIPES_INTERVAL: Duration = Duration::from_millis(100);
/// The minimum interval between two counts of a run's pipes if the run has opened more descriptors since the last
/// count.
const PIPES_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// The samples of a run may take at most 1/`LOOK_COST` of the time of one processor. This bound does not apply while
/// the run's memory grows.
const LOOK_COST: u32 = 5;

/// The maximum delay of the next sample if this sample had to wait for a processor. Without a delay, the samples of
/// many runs would take processor time from the runs. A delay is acceptable, because a run's memory grows more slowly
/// on a busy machine. The delay is limited, because the run itself may keep the machine busy.
const BUSY_INTERVAL_MAX: Duration = Duration::from_millis(100);

/// A run's memory counts as growing if it has increased since the last sample by more than the memory limit divided by
/// this number.
const GROWTH_SEEN: u64 = 32;

/// The maximum number of consecutive incomplete samples. A sample is incomplete if a process ended during the sample or
/// could not be read. Other processes may be missing from an incomplete sample. After more incomplete samples, the
/// result is [`Look::Exceeded`].
const INCOMPLETE_MAX: u32 = 40;

/// The minimum interval between two searches of the whole machine for processes of a run. A search is needed if threads
/// end while they are listed.
const SEARCH_INTERVAL: Duration = Duration::from_millis(20);

/// The maximum number of times that an exact count begins again because a process has ended.
const RESTARTS_MAX: u32 = 3;

/// The maximum number of processes in one exact count, including processes that were forked during the count.
const COUNTED_MAX: usize = 512;

/// The result of one sample of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The run is within its limits. The next sample must be taken within the time `next`.
    Within { next: Duration },
    /// The run exceeds its limit for memory, mappings or threads. Also the result if the run's processes or their
    /// memory cannot be counted.
    Exceeded,
    /// The run exceeds its limit for pipes. If a user has too many pipes, the kernel makes new pipes of this user
    /// smaller, and they may be too small for the user's other runs.
    TooManyPipes,
}

/// Watches the memory of one run.
#[derive(Debug)]
pub struct MemoryWatch {
    table: ProcessTable,
    page_bytes: u64,
    limit_bytes: u64,
    /// The maximum growth of the run's memory on all processors together, in bytes per second.
    growth_rate: u64,
    /// The number of bytes that are charged for each descriptor.
    descriptor_bytes: u64,
    /// The number of consecutive incomplete samples up to now.
    incomplete: u32,
    /// The time of the last search of the whole machine for processes of the run.
    searched: Option<Instant>,
    /// The processes that the last sample found.
    seen: HashMap<Pid, Seen>,
    /// An upper bound for the memory in the pages of all processes, in bytes. Shared pages count once.
    allocated_bytes: u64,
    counting: Option<Counting>,
    mappings: Option<MappingsCount>,
    neighbours: Neighbours,
    /// The maximum number of the run's threads. `None` if the kernel limits the threads of this run separately from
    /// other runs (`RLIMIT_NPROC`).
    threads_max: Option<u64>,
    /// The limit for the pipe pages of the run's user. `None` if there is no limit.
    pipe_pages: Option<u64>,
    /// The time of the last count of pipes, and the number of descriptors at that time.
    pipes_counted: Option<(Instant, u64)>,
    share: ProcessorShare,
    /// The memory that the last sample found, in bytes.
    used_bytes: u64,
    /// True if the last sample found much more memory than the sample before it.
    is_growing: bool,
}

/// The state of a process at the last sample.
#[derive(Debug, Clone, Copy)]
struct Seen {
    started: u64,
    faults: u64,
    is_ending: bool,
    resident_bytes: u64,
    threads: u64,
    mappings: u64,
    mappings_counted: Option<Instant>,
}

/// The memory of one process.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    /// The memory in the pages of the process, including swapped pages.
    resident_bytes: u64,
    /// The kernel's memory for the process.
    kernel_bytes: u64,
    descriptors: u64,
}

/// The sums over all processes of a run in one sample.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    /// True if no process ended during the sample, and the memory of each process could be read.
    is_complete: bool,
    /// True if the list of processes is complete, because no process or thread ended during the listing.
    is_listed: bool,
    resident_bytes: u64,
    kernel_bytes: u64,
    descriptors: u64,
    threads: u64,
    mappings_max: u64,
}

impl Sum {
    fn add(&mut self, usage: Usage, threads: u64) {
        self.resident_bytes += usage.resident_bytes;
        self.kernel_bytes += usage.kernel_bytes;
        self.descriptors += usage.descriptors;
        self.threads += threads;
    }
}

/// An exact count of a run's pages that is not finished yet.
#[derive(Debug)]
struct Counting {
    /// The processes that are not counted yet.
    left: Vec<Pid>,
    /// All processes of the count, including the processes that are already counted. The value is the process's
    /// resident memory at the last sample that found the process, in bytes.
    known: HashMap<Pid, u64>,
    counted_bytes: u64,
    /// The value of [`MemoryWatch::allocated_bytes`] when the count first began. A restart does not change this value.
    allocated_before: u64,
    /// The number of times that the count began again.
    restarts: u32,
}

impl Counting {
    fn new(seen: &HashMap<Pid, Seen>, allocated_before: u64, restarts: u32) -> Self {
        Self {
            left: seen.keys().copied().collect(),
            known: seen.iter().map(|(pid, seen)| (*pid, seen.resident_bytes)).collect(),
            counted_bytes: 0,
            allocated_before,
            restarts,
        }
    }
}

/// A count of one process's mappings that is not finished yet.
#[derive(Debug)]
struct MappingsCount {
    pid: Pid,
    started: u64,
    list: File,
    count: u64,
}

impl MemoryWatch {
    /// Creates a watch with this memory limit. Takes no sample yet.
    ///
    /// # Errors
    ///
    /// This machine has no `/proc`, or its `/proc` does not list children.
    pub fn new(limit_bytes: u64) -> io::Result<Self> {
        let page_bytes = sysconf(SysconfVar::PAGE_SIZE)?.and_then(|bytes| bytes.try_into().ok());
        let table = ProcessTable::open()?;
        let buffer = table.read("sys/net/core/wmem_default").unwrap_or_default();
        let buffer = buffer.trim().parse().unwrap_or(0);
        let pipe_pages = table.read("sys/fs/pipe-user-pages-soft").unwrap_or_default();
        let pipe_pages = pipe_pages.trim().parse().ok().filter(|pages| *pages > 0);
        Ok(Self {
            table,
            descriptor_bytes: DESCRIPTOR_BYTES_MIN.max(buffer),
            incomplete: 0,
            searched: None,
            page_bytes: page_bytes.ok_or(io::ErrorKind::Unsupported)?,
            limit_bytes,
            growth_rate: GROWTH_RATE.saturating_mul(processors()),
            seen: HashMap::new(),
            allocated_bytes: 0,
            counting: None,
            mappings: None,
            neighbours: Neighbours::default(),
            threads_max: None,
            pipe_pages,
            pipes_counted: None,
            share: ProcessorShare::new(),
            used_bytes: 0,
            is_growing: false,
        })
    }

    /// Sets the number of runs with which this run shares pipes and processors.
    #[must_use]
    pub fn beside(self, neighbours: Neighbours) -> Self {
        Self { neighbours, ..self }
    }

    /// Sets the maximum number of the run's threads. `None` means that the watch does not limit them.
    pub(crate) fn with_threads_max(self, threads_max: Option<u64>) -> Self {
        Self { threads_max, ..self }
    }

    /// Begins the account of the run's processor time at `began`, the start time of the process that became `python`.
    /// Without this call, the account begins with the first sample, which may be late on a busy machine.
    pub(crate) fn since(mut self, began: Instant, python: Pid) -> Self {
        self.share.begin(began, python);
        self
    }

    /// Adds the time that this process has waited for a processor to the run's waiting time. Call this only if this
    /// process has done nothing but start the run.
    pub(crate) fn with_own_waits(mut self) -> Self {
        self.share.charge(self.times_of("self").unwrap_or_default().waited);
        self
    }

    /// Completes the account of the run's processor time. Call this before the run is killed. `init` is the parent of
    /// the run's orphans, as in [`Self::sample`].
    pub(crate) fn complete_account(&mut self, python: Pid, init: Option<Pid>) {
        let reaper = init.unwrap_or(Pid::this());
        let roots: Vec<Pid> = self.seen.keys().copied().chain([python, reaper]).collect();
        let (mut found, _) = self.table.descendants(&roots, &HashSet::new());
        found.remove(&reaper);
        let threads = |pid| self.table.stat(pid).map(|stat| (pid, stat.threads));
        let processes: Vec<_> = found.into_iter().filter_map(threads).collect();
        self.share.observe(&self.table, &processes, self.neighbours.now);
    }

    /// Returns true if the CPU weight of the run's session (`sched(7)`, autogroup) is low enough for the current number
    /// of runs, or if the weight cannot be set.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.share.is_settled(self.neighbours.now)
    }

    /// Returns the processes that the last sample found, each with its number of threads.
    fn processes(&self) -> Vec<(Pid, u64)> {
        self.seen.iter().map(|(pid, seen)| (*pid, seen.threads)).collect()
    }

    /// Returns the processor times of a process or thread. `folder` is its folder in `/proc`.
    fn times_of(&self, folder: &str) -> Option<Times> {
        Times::parse(&self.table.read(&format!("{folder}/schedstat")).ok()?)
    }

    /// Sets the current number of runs of the server.
    pub fn note_runs(&mut self, runs: u64) {
        self.neighbours.now = runs;
    }

    /// Returns how long the run had a processor, and how long other processes kept the run from a processor.
    pub fn processor_time(&self) -> ProcessorTime {
        self.share.time()
    }

    /// Takes a sample of `python` and its descendants. If the parent of a descendant has ended, the descendant is a
    /// child of `init`, or of this process if `init` is `None`. Delays the next sample so that the samples of a run
    /// with many processes do not take the processors from other processes.
    pub fn sample(&mut self, python: Pid, init: Option<Pid>) -> Look {
        let (ran_before, waited_before) = self.times_of_thread();
        match self.sample_once(python, init) {
            Look::Within { next } if !next.is_zero() && !self.is_growing => {
                let (ran, waited) = self.times_of_thread();
                let ran = ran.saturating_sub(ran_before);
                let waited = waited.saturating_sub(waited_before);
                Look::Within { next: next.max(pause_after(ran, waited)) }
            }
            look @ (Look::Within { .. } | Look::Exceeded | Look::TooManyPipes) => look,
        }
    }

    /// Takes a sample like [`Self::sample`], but does not delay the next sample. Takes about 50 µs for each process. An
    /// exact count also takes the time that the kernel needs to walk through the pages of one process.
    fn sample_once(&mut self, python: Pid, init: Option<Pid>) -> Look {
        let sum = self.sum(python, init.unwrap_or(Pid::this()));
        // If `python` has ended, do not count an incomplete sample: the run is over, but the caller has not noticed the
        // end yet.
        let is_acceptable = sum.is_complete || has_ended(python);
        self.incomplete = if is_acceptable { 0 } else { self.incomplete + 1 };
        if self.incomplete > INCOMPLETE_MAX {
            return Look::Exceeded;
        }
        let bytes = sum.resident_bytes.min(self.allocated_bytes);
        let used = bytes.saturating_add(sum.kernel_bytes);
        let growth = used.saturating_sub(self.used_bytes);
        (self.used_bytes, self.is_growing) = (used, growth > self.limit_bytes / GROWTH_SEEN);
        // Check the mappings and the kernel's memory first, because the later checks take long if the run has many
        // descriptors.
        if sum.mappings_max > MAPPINGS_MAX || sum.kernel_bytes > self.limit_bytes {
            return Look::Exceeded;
        }
        let processes = self.processes();
        self.share.sample(&self.table, &processes, self.neighbours.now);
        if self.threads_max.is_some_and(|most| sum.threads > most) {
            return Look::Exceeded;
        }
        if self.has_too_many_pipes(sum) {
            return Look::TooManyPipes;
        }
        if used <= self.limit_bytes {
            self.counting = None;
            let next = self.next(self.limit_bytes - used);
            let is_all = sum.is_complete && sum.is_listed;
            let next = if is_all { next } else { WATCH_INTERVAL_MIN };
            return Look::Within { next };
        }
        let most = self.limit_bytes.saturating_mul(SHARED_MAX);
        if self.seen.len() < 2 || sum.resident_bytes > most {
            return Look::Exceeded;
        }
        self.count_one(sum)
    }

    /// Returns the time until the next sample if `left_bytes` of memory are left.
    fn next(&self, left_bytes: u64) -> Duration {
        let gone = left_bytes.saturating_mul(1_000_000) / self.growth_rate;
        let most = if self.is_growing { GROWING_INTERVAL } else { WATCH_INTERVAL };
        Duration::from_micros(gone).clamp(WATCH_INTERVAL_MIN, most)
    }

    /// Takes a sample of all processes. Adds the memory that they have taken since the last sample to
    /// `allocated_bytes`.
    fn sum(&mut self, python: Pid, reaper: Pid) -> Sum {
        let before = std::mem::take(&mut self.seen);
        // Start the listing at the processes of the last sample too, so that a parent cannot hide these processes with
        // threads that start and end during the listing.
        let still_there = before.iter().filter_map(|(pid, seen)| {
            Some((*pid, self.table.stat(*pid).filter(|stat| stat.started == seen.started)?))
        });
        let mut stats: HashMap<Pid, Stat> = still_there.collect();
        let roots: Vec<Pid> = stats.keys().copied().chain([python, reaper]).collect();
        let single = stats.iter().filter(|(_, stat)| stat.threads == 1).map(|(pid, _)| *pid);
        let (mut processes, is_listed) = self.table.descendants(&roots, &single.collect());
        if !is_listed && self.searched.is_none_or(|at| at.elapsed() > SEARCH_INTERVAL) {
            self.searched = Some(Instant::now());
            processes.extend(self.table.descendants_by_parent(&roots));
        }
        if reaper != python {
            processes.remove(&reaper);
        }
        let mut sum = Sum { is_listed, is_complete: true, ..Sum::default() };
        let mut found = Vec::new();
        for pid in processes {
            // The process may have ended after it was listed.
            match stats.remove(&pid).or_else(|| self.table.stat(pid)) {
                Some(stat) => {
                    let usage = self.usage(pid, stat.is_ending);
                    found.push((pid, stat, usage.or_else(|| self.usage_at_end(pid))));
                }
                None => sum.is_complete = false,
            }
        }
        let present: HashSet<Pid> = found.iter().map(|(pid, ..)| *pid).collect();
        for (pid, stat, usage) in found {
            // The sample is incomplete if a process cannot be read, because this process may have any amount of memory.
            sum.is_complete &= usage.is_some();
            let usage = usage.unwrap_or_default();
            let known = before.get(&pid).filter(|known| known.started == stat.started);
            // The parent, if it exists, is charged with the pages that it took before the fork.
            let parent = before.get(&stat.parent);
            let has_parent =
                present.contains(&stat.parent) && (parent.is_some() || before.is_empty());
            let taken = match known {
                Some(known) => {
                    let faults = stat.faults.saturating_sub(known.faults);
                    let grown = usage.resident_bytes.saturating_sub(known.resident_bytes);
                    faults.saturating_mul(self.page_bytes).max(grown)
                }
                None if has_parent || pid == python => stat.faults.saturating_mul(self.page_bytes),
                // The parent ended between two samples, so this process may have the parent's pages.
                None => usage.resident_bytes,
            };
            self.allocated_bytes = self.allocated_bytes.saturating_add(taken);
            // A forked process starts with the mappings of its parent. So use the parent's number of mappings until the
            // mappings of the new process are counted.
            let like = known.or(parent);
            let seen = Seen {
                started: stat.started,
                faults: stat.faults,
                is_ending: stat.is_ending,
                resident_bytes: usage.resident_bytes,
                threads: stat.threads,
                mappings: like.map_or(0, |like| like.mappings),
                mappings_counted: like.and_then(|like| like.mappings_counted),
            };
            sum.add(usage, stat.threads);
            self.seen.insert(pid, seen);
            if let Some(counting) = &mut self.counting
                && counting.known.insert(pid, usage.resident_bytes).is_none()
            {
                counting.left.push(pid);
            }
        }
        sum.is_complete &= present.contains(&python);
        self.count_mappings();
        for seen in self.seen.values() {
            sum.kernel_bytes += seen.mappings * MAPPING_BYTES;
            sum.mappings_max = sum.mappings_max.max(seen.mappings);
        }
        sum
    }

    /// Returns the memory of one process: its pages, and the kernel's memory for it. `None` if the process has ended.
    fn usage(&self, pid: Pid, is_ending: bool) -> Option<Usage> {
        self.of_a_thread(pid, is_ending, |folder| {
            let status = self.table.read(&format!("{folder}/status")).ok()?;
            let resident =
                kibibytes(&status, "VmRSS:")? + kibibytes(&status, "VmSwap:").unwrap_or(0);
            let tables = kibibytes(&status, "VmPTE:").unwrap_or(0);
            let descriptors = self.table.descriptors(folder).ok()?;
            let held = descriptors.saturating_sub(DESCRIPTORS_FREE) * self.descriptor_bytes;
            let kernel_bytes = tables * 1024 + held;
            Some(Usage { resident_bytes: resident * 1024, kernel_bytes, descriptors })
        })
    }

    /// Returns an empty usage if all threads of the process are ending, because its memory is then already released.
    /// Otherwise returns `None`.
    fn usage_at_end(&self, pid: Pid) -> Option<Usage> {
        self.table.has_only_ending_threads(pid).then(Usage::default)
    }

    /// Returns whether the run has more than its share of its user's pipes (see [`Look::TooManyPipes`]).
    fn has_too_many_pipes(&mut self, sum: Sum) -> bool {
        let Some(pages) = self.pipe_pages else { return false };
        let share = pages / PIPE_PAGES / PIPES_SHARE / self.neighbours.most.max(1);
        let most = share.max(PIPES_MIN);
        let is_new = self.pipes_counted.is_none_or(|(at, descriptors)| {
            let has_more = sum.descriptors > descriptors;
            at.elapsed() > if has_more { PIPES_INTERVAL_MIN } else { PIPES_INTERVAL }
        });
        if sum.descriptors <= most || !is_new {
            return false;
        }
        self.pipes_counted = Some((Instant::now(), sum.descriptors));
        let mut pipes = HashSet::new();
        for (pid, seen) in &self.seen {
            let targets =
                self.of_a_thread(*pid, seen.is_ending, |folder| self.table.targets(folder).ok());
            let targets = targets.unwrap_or_default().into_iter();
            pipes.extend(targets.filter(|target| target.as_encoded_bytes().starts_with(b"pipe:")));
            if u64::try_from(pipes.len()).unwrap_or(u64::MAX) > most {
                return true;
            }
        }
        false
    }

    /// Counts the pages of one more process exactly. After the last process, compares the exact total with the limit.
    fn count_one(&mut self, sum: Sum) -> Look {
        let counting = self.counting.take();
        let mut counting =
            counting.unwrap_or_else(|| Counting::new(&self.seen, self.allocated_bytes, 0));
        let Some(pid) = counting.left.pop() else { return Look::Exceeded };
        let grown = self.allocated_bytes.saturating_sub(counting.allocated_before);
        let is_endless = counting.known.len() > COUNTED_MAX;
        if is_endless || grown > self.limit_bytes / GROWTH_WHILE_COUNTING {
            return Look::Exceeded;
        }
        let last_seen = counting.known.get(&pid).copied().unwrap_or(0);
        let bytes = match self.proportional_bytes(pid) {
            Some(bytes) => bytes,
            // The process has ended, so the pages that it shared now belong to other processes. The counts of processes
            // that were counted earlier are too low now, so begin the count again. After too many restarts, charge all
            // pages of the ended process instead.
            None if last_seen > 0 && counting.restarts < RESTARTS_MAX => {
                let Counting { allocated_before, restarts, .. } = counting;
                self.counting = Some(Counting::new(&self.seen, allocated_before, restarts + 1));
                return Look::Within { next: Duration::ZERO };
            }
            None => last_seen,
        };
        counting.counted_bytes += bytes;
        let pages = counting.counted_bytes + grown;
        if pages + sum.kernel_bytes > self.limit_bytes {
            return Look::Exceeded;
        }
        if !counting.left.is_empty() {
            self.counting = Some(counting);
            return Look::Within { next: Duration::ZERO };
        }
        self.allocated_bytes = pages;
        Look::Within { next: self.next(self.limit_bytes - pages - sum.kernel_bytes) }
    }

    /// Returns the proportional set size of a process, in bytes. A page that the process shares with three others
    /// counts as a quarter (`proc_pid_smaps(5)`).
    fn proportional_bytes(&self, pid: Pid) -> Option<u64> {
        let is_ending = self.seen.get(&pid)?.is_ending;
        self.of_a_thread(pid, is_ending, |folder| {
            let rollup = self.table.read(&format!("{folder}/smaps_rollup")).ok()?;
            let swapped = kibibytes(&rollup, "SwapPss:").unwrap_or(0);
            Some((kibibytes(&rollup, "Pss:")? + swapped) * 1024)
        })
    }

    /// Counts the lines of `/proc/{pid}/maps` for the run's processes, up to the maximum for one sample. The kernel
    /// lists the mappings in this file, but does not report their number.
    fn count_mappings(&mut self) {
        let mut block = [0; 16 * 1024];
        let mut left = MAPPINGS_BYTES_MAX;
        while let Some(mut count) = self.mappings.take().or_else(|| self.next_mappings_count()) {
            let is_over = loop {
                match count.list.read(&mut block) {
                    Ok(0) | Err(_) => break true,
                    Ok(read) => {
                        let lines = block.iter().take(read).filter(|byte| **byte == b'\n').count();
                        count.count += u64::try_from(lines).unwrap_or(0);
                        left = left.saturating_sub(read);
                    }
                }
                if left == 0 {
                    break false;
                }
            };
            let Some(seen) = self.seen.get_mut(&count.pid) else { continue };
            if seen.started != count.started {
                continue;
            }
            // Only a finished count may lower the number of mappings. A process with memory has at least one mapping,
            // so a count of 0 means that the list could not be read.
            let is_reliable_count = is_over && count.count > 0;
            seen.mappings =
                if is_reliable_count { count.count } else { seen.mappings.max(count.count) };
            seen.mappings_counted = Some(Instant::now());
            if !is_over {
                self.mappings = Some(count);
                return;
            }
        }
    }

    /// Starts to count the memory mappings of the process that was not counted for the longest time. Returns `None` if
    /// even this process was counted recently, or if the list of its mappings cannot be opened.
    fn next_mappings_count(&mut self) -> Option<MappingsCount> {
        let (pid, seen) = self.seen.iter_mut().min_by_key(|(_, seen)| seen.mappings_counted)?;
        if seen.mappings_counted.is_some_and(|at| at.elapsed() < MAPPINGS_INTERVAL) {
            return None;
        }
        // Set the time even if the list cannot be opened, so that other processes are counted next.
        seen.mappings_counted = Some(Instant::now());
        let (pid, started, is_ending) = (*pid, seen.started, seen.is_ending);
        let list = self.of_a_thread(pid, is_ending, |folder| {
            self.table.open_file(&format!("{folder}/maps")).ok()
        })?;
        Some(MappingsCount { pid, started, list, count: 0 })
    }

    /// Returns the processor time that this thread has used, and the time that it has waited for a processor.
    fn times_of_thread(&self) -> (Duration, Duration) {
        // Use this clock, because only this clock includes the time since the kernel's last tick.
        let ran =
            clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from);
        (ran, self.times_of("thread-self").unwrap_or_default().waited)
    }

    /// Calls `read` with the folder of a process in `/proc`. If the process's first thread has ended before the others
    /// (`is_ending`), the files in this folder may be empty. Then calls `read` with the folder of each other thread,
    /// until one succeeds. Each thread's folder describes the whole process.
    fn of_a_thread<T>(
        &self,
        pid: Pid,
        is_ending: bool,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        if !is_ending {
            return read(&pid.to_string());
        }
        let tasks = self.table.tasks(pid).ok()?;
        let first = format!("{pid}/task/{pid}");
        tasks.iter().filter(|task| **task != first).find_map(|task| read(task))
    }
}

/// Returns the minimum time until the next sample. `ran` is the processor time that this sample used. `waited` is the
/// time that this sample waited for a processor.
fn pause_after(ran: Duration, waited: Duration) -> Duration {
    let of_busy = ((ran + waited) * (LOOK_COST - 1)).min(BUSY_INTERVAL_MAX);
    of_busy.max(ran * (LOOK_COST - 1))
}

/// Returns whether a process has ended and was reaped.
fn has_ended(process: Pid) -> bool {
    kill(process, None) == Err(Errno::ESRCH)
}

/// Returns the number of kibibytes that follows `name` in a text with lines such as `VmRSS:  1234 kB`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests;
