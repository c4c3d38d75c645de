//! The single writer of an embedded store. It writes the jobs of this process in the order of their submission.
//!
//! One thread writes all waiting jobs as one group in one transaction, because each commit waits for the disk. The
//! thread sends the results after the commit. A lock file lets processes take turns.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::{BUSY_PAUSE, StoreFile, error_of, identity};
use crate::store::error::{BUSY_TIMEOUT, StoreError};
use crate::store::pending::{Pending, Reply};

/// The lock file by which processes take turns. The process that holds the lock writes next.
pub(super) const TURNSTILE: &str = "governance.lock";

/// The name of SQLite's write-ahead log.
pub(super) const LOG: &str = "governance.db-wal";

/// The maximum number of jobs in one transaction. It equals the maximum number of calls in flight.
pub(super) const GROUP_MAX: usize = 256;

/// The writer of a store. Its thread starts with the first job.
#[derive(Debug)]
pub(super) struct Writer {
    file: Arc<StoreFile>,
    thread: Mutex<Option<WriterThread>>,
}

#[derive(Debug)]
struct WriterThread {
    /// The queue of waiting jobs, in order. The thread ends when this sender is dropped.
    jobs: Sender<Box<dyn Job>>,
    thread: JoinHandle<()>,
}

/// A job of the writer.
trait Job: Send {
    /// Writes the job in the transaction of its group. The result is sent later, after the commit.
    fn run(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()>;
    /// Sends the result of the job to the waiting caller. If the whole group failed, sends the group's error instead.
    fn reply(self: Box<Self>, group: Result<(), StoreError>);
}

struct WriteJob<T, W> {
    work: Option<W>,
    done: Option<Result<T, StoreError>>,
    file: Arc<StoreFile>,
    reply: Reply<T>,
}

impl<T, W> Job for WriteJob<T, W>
where
    T: Send,
    W: FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send,
{
    fn run(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let Some(work) = self.work.take() else { return Ok(()) };
        // A savepoint keeps a failed job from affecting the other jobs of its group. If this statement fails, for
        // example because the disk is full, the whole transaction fails.
        transaction.execute_batch("SAVEPOINT job")?;
        let done = catch_unwind(AssertUnwindSafe(|| work(transaction)));
        let end = match done {
            Ok(Ok(_)) => "RELEASE job",
            Ok(Err(_)) | Err(_) => "ROLLBACK TO job; RELEASE job",
        };
        transaction.execute_batch(end)?;
        // After a panic, `self.done` is `None`, so `reply` sends `GivenUp`.
        self.done = done.ok().map(|done| done.map_err(|error| error_of(&self.file.path, error)));
        Ok(())
    }

    fn reply(self: Box<Self>, group: Result<(), StoreError>) {
        let Self { done, reply, .. } = *self;
        let done = match group {
            Ok(()) => done.unwrap_or(Err(StoreError::GivenUp)),
            Err(error) => Err(error),
        };
        // Sending fails if the caller no longer waits. Ignore this.
        drop(reply.send(done));
    }
}

impl Writer {
    pub(super) fn new(file: Arc<StoreFile>) -> Self {
        Self { file, thread: Mutex::new(None) }
    }

    /// Appends `work` to the queue. The changes that `work` makes are written completely or not at all.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Pending<T> {
        let (reply, pending) = Pending::new();
        let file = Arc::clone(&self.file);
        let job = WriteJob { work: Some(work), done: None, file, reply };
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = thread.get_or_insert_with(|| {
            let (jobs, waiting) = mpsc::channel();
            let file = Arc::clone(&self.file);
            let thread = std::thread::spawn(move || write_all(&file, &waiting));
            WriterThread { jobs, thread }
        });
        // If the thread is gone, the job is dropped, and the waiting caller receives `GivenUp`.
        drop(thread.jobs.send(Box::new(job)));
        pending
    }
}

/// Writes the remaining jobs and closes the database. Jobs fail if another process is writing. Callers have already
/// waited for the writes that must not be lost.
impl Drop for Writer {
    fn drop(&mut self) {
        self.file.is_closing.store(true, Ordering::Relaxed);
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(WriterThread { jobs, thread }) = thread {
            drop(jobs);
            drop(thread.join());
        }
    }
}

/// Writes jobs in groups until the channel closes.
fn write_all(file: &StoreFile, waiting: &Receiver<Box<dyn Job>>) {
    let (mut connection, mut log) = (None, None);
    while let Ok(first) = waiting.recv() {
        let mut group = vec![first];
        group.extend(waiting.try_iter().take(GROUP_MAX - 1));
        let written = write_group(file, &mut connection, &mut log, &mut group);
        if written.is_err() {
            // After an error the state of the connection is unknown, so the next group opens a new connection.
            connection = None;
        }
        for job in group {
            job.reply(written.clone());
        }
    }
}

fn write_group(
    file: &StoreFile,
    connection: &mut Option<Connection>,
    log: &mut Option<(u64, u64)>,
    group: &mut [Box<dyn Job>],
) -> Result<(), StoreError> {
    file.check()?;
    // The write-ahead log contains commits that are not in the database file yet. If the log was replaced, these
    // commits are lost.
    let log_path = file.path.with_file_name(LOG);
    if log.is_some() && identity(&log_path) != *log {
        return Err(StoreError::Replaced { file: log_path });
    }
    let failed = |source| error_of(&file.path, source);
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(file.connect().map_err(failed)?),
    };
    let next = wait_in_line(file)?;
    let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let transaction = begun.map_err(failed)?;
    drop(next);
    for job in group.iter_mut() {
        job.run(&transaction).map_err(failed)?;
    }
    transaction.commit().map_err(failed)?;
    *log = identity(&log_path);
    Ok(())
}

/// Waits for this process's turn to write. A process that has just written must queue again, so that a busy process
/// does not starve the others.
fn wait_in_line(file: &StoreFile) -> Result<File, StoreError> {
    let is_over = || file.is_closing.load(Ordering::Relaxed);
    let path = file.path.with_file_name(TURNSTILE);
    let failed = |source| StoreError::Turnstile { file: path.clone(), source: Arc::new(source) };
    let turnstile = open_turnstile(&path).map_err(failed)?;
    let since = Instant::now();
    loop {
        match turnstile.try_lock() {
            Ok(()) => return Ok(turnstile),
            Err(TryLockError::WouldBlock) if since.elapsed() < BUSY_TIMEOUT && !is_over() => {
                std::thread::sleep(BUSY_PAUSE);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::TurnstileHeld { file: path });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
    }
}

fn open_turnstile(path: &PathBuf) -> io::Result<File> {
    // Reject a symlink, and do not block on a FIFO. Do not truncate, because this program never writes to the file.
    let no_link = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(no_link)
        .open(path)
}
