//! The store in PostgreSQL, which replicas share. Each replica has its own chain in the audit log. All replicas use
//! the same tokens.
//!
//! One thread owns two connections. One connection pipelines all queries. The other connection is for writes, see
//! `writer`.

mod audit;
mod instance;
mod records;
mod runs;
mod tokens;
mod writer;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::BoxFuture;
use tokio::runtime::Builder;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::sleep;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Store;
use super::backend::Backend;
use super::error::StoreError;
use crate::postgres::{Database, DatabaseError, DatabaseUrl, Session};
use crate::secret::Secret;

use instance::{instance, known_instance};
use writer::{Job, OwnChain, write_all};

/// A query, together with the sender for its result.
type Question = Box<dyn FnOnce(Database) -> BoxFuture<'static, ()> + Send>;

/// The maximum length of each queue: queries, and jobs of the writer. It exceeds the number of calls that can be in
/// flight.
const WAITING_MAX: usize = 1024;

/// The time limit for running operations after the server has begun to stop.
const HURRIED_MAX: Duration = Duration::from_secs(2);

const NOW: &str = "SELECT clock_timestamp()";

/// The maximum number of attempts to run a query. A query is repeated after a temporary error, such as a lost
/// connection.
const READS_MAX: u32 = 2;

/// A handle to the tokens and the audit log in a database. Clones share one store.
#[derive(Debug, Clone)]
pub(crate) struct PostgresStore {
    /// The name of this replica. Rows are appended to the replica's chain.
    instance: Arc<str>,
    clock: Arc<Clock>,
    thread: Arc<Thread>,
}

/// The thread that owns the connections.
struct Thread {
    /// The senders of queries and jobs. When both senders are dropped, the thread finishes all earlier work and ends.
    channels: Option<(Sender<Question>, Sender<Job>)>,
    hurry: CancellationToken,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Thread(..)")
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.channels = None;
        self.hurry.cancel();
        let handle = self.handle.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        drop(handle.map(JoinHandle::join));
    }
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        Self::Database(Arc::new(error))
    }
}

/// Returns whether a statement failed for a temporary reason, usually because the connection was lost. Returns `false`
/// if the database did not reply in time, because no time is left for a retry.
fn is_lost_connection(error: &StoreError) -> bool {
    let StoreError::Database(error) = error else { return false };
    matches!(**error, DatabaseError::Statement(_)) && error.is_passing()
}

/// Returns the error for a database value that this program never writes.
fn unreadable(source: tokio_postgres::Error) -> StoreError {
    DatabaseError::Statement(source).into()
}

fn value<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(unreadable)
}

impl Backend for PostgresStore {
    fn hurry(&self) {
        self.thread.hurry.cancel();
    }

    fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }
}

/// Waits for `work`. After `hurry`, waits at most two more seconds, so that an unreachable database does not delay
/// the shutdown. Returns `None` if `work` has not finished by then.
async fn hurried<T>(hurry: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    let is_over = async {
        hurry.cancelled().await;
        sleep(HURRIED_MAX).await;
    };
    tokio::select! {
        biased;
        done = work => Some(done),
        () = is_over => None,
    }
}

/// An estimate of the database's clock, which all replicas use: the last time that the database returned, plus the
/// duration since then.
#[derive(Debug)]
struct Clock {
    shown: Mutex<(DateTime<Utc>, Instant)>,
}

impl Clock {
    /// Sets the clock to a time that the database just returned.
    fn set(&self, shown: DateTime<Utc>) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = (shown, Instant::now());
    }

    fn now(&self) -> DateTime<Utc> {
        let (shown, at) = *self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let since = TimeDelta::from_std(at.elapsed()).unwrap_or(TimeDelta::MAX);
        shown.checked_add_signed(since).unwrap_or(shown)
    }
}

/// Connects to the database as the replica that the data folder `folder` identifies. Migrates the schema of the
/// database.
pub(super) fn open(url: &Secret, folder: &Path) -> Result<Store, StoreError> {
    PostgresStore::connect(url, instance(folder)?).map(Store::from)
}

/// Connects for reading. Does not write to the data folder, but migrates an old schema of the database.
pub(super) fn open_to_read(url: &Secret, folder: &Path) -> Result<Store, StoreError> {
    PostgresStore::connect(url, known_instance(folder)?.unwrap_or_default()).map(Store::from)
}

impl PostgresStore {
    fn connect(url: &Secret, instance: Uuid) -> Result<Self, StoreError> {
        let url = DatabaseUrl::parse(url).map_err(DatabaseError::Url)?;
        let instance = instance.to_string().into();
        let (questions, asked) = channel(WAITING_MAX);
        let (jobs, waiting) = channel(WAITING_MAX);
        let (opened, is_open) = mpsc::channel();
        let (own, hurry) = (Arc::clone(&instance), CancellationToken::new());
        let asking = Asking { asked, waiting, hurry: hurry.clone() };
        let thread = std::thread::spawn(move || serve(url, &own, asking, &opened));
        let clock = is_open.recv().unwrap_or(Err(StoreError::GivenUp))?;
        let handle = Mutex::new(Some(thread));
        Ok(Self {
            instance,
            clock,
            thread: Arc::new(Thread { channels: Some((questions, jobs)), hurry, handle }),
        })
    }

    /// Runs a query and waits for its result. Retries after a temporary error, such as a lost connection.
    fn ask<T, F>(
        &self,
        question: impl Fn(Arc<Session>) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send,
    {
        self.ask_database(async move |database| {
            let mut reads_left = READS_MAX;
            loop {
                reads_left -= 1;
                let answer = match database.session().await {
                    Ok(session) => question(session).await,
                    Err(error) => return Err(error.into()),
                };
                match answer {
                    Err(error) if is_lost_connection(&error) && reads_left > 0 => {}
                    answer => return answer,
                }
            }
        })
    }

    /// Runs a query that opens its own session, and waits for its result. Does not retry.
    fn ask_database<T, F>(
        &self,
        question: impl FnOnce(Database) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send,
    {
        // Do not use a Tokio channel, because its blocking receive panics in a task of a Tokio runtime.
        let (reply, answer) = mpsc::channel();
        let question: Question = Box::new(move |database| {
            Box::pin(async move {
                // Sending fails if the caller no longer waits. Ignore this.
                drop(reply.send(question(database).await));
            })
        });
        if let Some((questions, _)) = &self.thread.channels
            && let Err(TrySendError::Full(_)) = questions.try_send(question)
        {
            return Err(StoreError::Overloaded);
        }
        answer.recv().unwrap_or(Err(StoreError::GivenUp))
    }

    /// Appends a job to the queue of the writer. If the queue is full, the job fails.
    fn submit(&self, job: Job) {
        if let Some((_, jobs)) = &self.thread.channels
            && let Err(TrySendError::Full(job)) = jobs.try_send(job)
        {
            job.reply(Err(StoreError::Overloaded));
        }
    }
}

/// The receivers of queries and jobs. `hurry` is cancelled when the server stops.
struct Asking {
    asked: Receiver<Question>,
    waiting: Receiver<Job>,
    hurry: CancellationToken,
}

/// Connects, and serves queries until all senders are gone.
fn serve(
    url: DatabaseUrl,
    instance: &str,
    asking: Asking,
    opened: &mpsc::Sender<Result<Arc<Clock>, StoreError>>,
) {
    let Asking { mut asked, waiting, hurry } = asking;
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let (database, clock) = match open_with_clock(url).await {
            Ok(opened) => opened,
            Err(error) => return drop(opened.send(Err(error))),
        };
        drop(opened.send(Ok(Arc::clone(&clock))));
        let chain = OwnChain { instance: instance.to_owned(), clock };
        let writer = tokio::spawn(write_all(database.clone(), chain, waiting, hurry.clone()));
        while let Some(question) = asked.recv().await {
            let (answer, hurry) = (question(database.clone()), hurry.clone());
            tokio::spawn(async move { hurried(&hurry, answer).await });
        }
        drop(writer.await);
    });
}

async fn open_with_clock(url: DatabaseUrl) -> Result<(Database, Arc<Clock>), StoreError> {
    let database = Database::open(url).await?;
    let rows = database.session().await?.query(NOW, &[]).await?;
    let shown = value(rows.first().ok_or(StoreError::GivenUp)?, 0)?;
    Ok((database, Arc::new(Clock { shown: Mutex::new((shown, Instant::now())) })))
}
