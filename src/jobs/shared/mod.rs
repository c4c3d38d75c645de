//! Background jobs that replicas share through PostgreSQL. Any replica can run a job, and any replica can return its
//! state.
//!
//! This file implements the interface for callers. `worker` claims and runs jobs: it commits a claim to disk before the
//! script starts, renews the leases of the claimed jobs, and stores the results. `kept` converts the end of a job into
//! columns and back. `statements` contains the SQL. A row in the database never permits a run. Before a run, the
//! gateway of the worker's replica decides again whether the script is allowed.
//!
//! A proxy that sends all requests of a user to one replica could not replace this module. Jobs would be lost with
//! their replica, and other replicas could not return their results.

mod kept;
mod statements;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::config::Settings;
use crate::executor::{JOBS_AT_ONCE_MAX, RunLimits};
use crate::gateway::{JobId, JobOwner};
use crate::ledger::{Proof, UserName};
use crate::postgres::{Database, DatabaseError};
use crate::scripts::Scripts;
use crate::shares::Share;
use crate::verification::Subject;

use super::job::{Job, JobEnd, JobState};
use super::plane::{Found, Jobs, JobsAway, Order, PlaceError, RequestKey};
use kept::{Kept, stored};
use worker::Worker;

/// The time for which placing a job is retried while the database is unreachable.
const PLACE_PATIENCE: Duration = Duration::from_secs(6);
/// The pause between two attempts to place a job.
const PLACE_PAUSE: Duration = Duration::from_millis(100);
/// The timeout of the query for metrics. The timeout is short, because a scrape has ten seconds for all metrics.
const COUNT_PATIENCE: Duration = Duration::from_secs(1);
/// The maximum number of placed jobs that the server remembers together with their requests. Cancelling an older
/// request does not cancel its job.
const PLACED_MAX: usize = 10_000;

/// No limit on the size of the output, for queries of a job that was just placed and has no output yet.
const ANY: usize = usize::MAX;
/// The message for a result that is withheld, because its hash differs from the hash in the audit log.
const NOT_ITS_RESULT: &str = "the result in the database does not match the audit log, so it is not returned; ask the admin \
                              to look at the server's log";

/// The PostgreSQL notification channel between replicas, for events that cannot wait for the next poll.
const CHANNEL: &str = "qwed_mcp_jobs";

/// Returns the jobs in `database`, with the limits in the settings. This server claims none of them before
/// [`Jobs::start`].
pub(crate) fn share(
    database: Database,
    scripts: Arc<Scripts>,
    settings: &Settings,
) -> Arc<dyn Jobs> {
    let mut limits = SharedLimits::new(settings.background_timeout, settings.job_ttl);
    limits.share = settings.user_share;
    Arc::new(SharedJobs::new(database, scripts, limits))
}

/// Limits for the jobs in the database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedLimits {
    /// The maximum number of jobs that run at once on this replica.
    pub(crate) running_max: usize,
    /// The maximum number of waiting jobs of one user.
    pub(crate) user_queue_len_max: i64,
    /// The maximum number of waiting jobs of all users together. It is ten times the limit of one user.
    pub(crate) queue_len_max: i64,
    /// The maximum size of all jobs and results on disk together, in bytes.
    pub(crate) disk_bytes_max: i64,
    /// The limits of one run.
    pub(crate) run: RunLimits,
    /// The time for which a job is kept after its last change of state.
    pub(crate) ttl: Duration,
    /// The part of `disk_bytes_max` that one user may take.
    pub(crate) share: Share,
    /// The duration of a lease: the time for which a worker owns a claimed job. If the worker does not renew the lease
    /// in this time, the job is lost.
    pub(crate) lease: Duration,
}

impl SharedLimits {
    /// Returns the documented limits, with the timeout that the admin configured.
    pub(crate) fn new(timeout: Duration, ttl: Duration) -> Self {
        Self {
            running_max: JOBS_AT_ONCE_MAX,
            user_queue_len_max: 1000,
            queue_len_max: 10_000,
            disk_bytes_max: 16 * 1024 * 1024 * 1024,
            run: RunLimits::of_script(timeout),
            ttl,
            share: Share::default(),
            lease: Duration::from_secs(5),
        }
    }
}

impl SharedLimits {
    /// Returns the maximum size of a user's stored output, in bytes. Unauthenticated callers have no such limit.
    fn user_bytes_max(&self, user: Option<&UserName>) -> i64 {
        let most = usize::try_from(self.disk_bytes_max).unwrap_or(usize::MAX);
        user.map_or(i64::MAX, |_| i64::try_from(self.share.of(most)).unwrap_or(i64::MAX))
    }
}

/// All background jobs of the replicas that share one database.
pub(crate) struct SharedJobs {
    database: Database,
    limits: SharedLimits,
    scripts: Arc<Scripts>,
    worker: Arc<Worker>,
    /// Whether the last insertion into the database succeeded. A test insertion (`REHEARSE`) counts too. `false`
    /// before the first insertion.
    can_place: AtomicBool,
    /// The jobs that were placed by requests to this server. The newest job is the last.
    placed: Mutex<VecDeque<Placed>>,
    /// The tasks that cancel jobs in the background, after clients have cancelled their requests.
    cancellations: TaskTracker,
}

/// A job that was placed by a request to this server.
struct Placed {
    by: RequestKey,
    id: JobId,
    user: Option<UserName>,
}

impl SharedJobs {
    /// Creates the interface to the jobs in `database`, with a worker that is not started.
    pub(crate) fn new(database: Database, scripts: Arc<Scripts>, limits: SharedLimits) -> Self {
        let worker = Arc::new(Worker::new(database.clone(), Arc::clone(&scripts), limits));
        let cancellations = TaskTracker::new();
        let can_place = AtomicBool::new(false);
        let placed = Mutex::default();
        Self { database, limits, scripts, worker, can_place, placed, cancellations }
    }

    /// Inserts a job. Retries while the database is unreachable. A retry cannot insert the job twice, because its id is
    /// unique.
    async fn insert(&self, id: JobId, order: &Order) -> Result<Job, PlaceError> {
        let deadline = Instant::now() + PLACE_PATIENCE;
        let mut may_be_there = false;
        loop {
            let placed = self.try_insert(id, order, may_be_there).await;
            self.can_place.store(placed.is_ok(), Ordering::Relaxed);
            let error = match placed {
                Ok(placed) => return placed,
                Err(error) => error,
            };
            may_be_there |= error.is_ambiguous();
            if !error.is_passing() || Instant::now() > deadline {
                log_failure("a job could not be placed", &error);
                let unknown = PlaceError::Unknown(id);
                return Err(if may_be_there { unknown } else { PlaceError::Away });
            }
            sleep(PLACE_PAUSE).await;
        }
    }

    async fn try_insert(
        &self,
        id: JobId,
        order: &Order,
        may_be_there: bool,
    ) -> Result<Result<Job, PlaceError>, DatabaseError> {
        let session = self.database.session().await?;
        let user = order.permit.user();
        let script = order.permit.script();
        if may_be_there && let Found::Job(job) = self.find(id, user, ANY).await? {
            return Ok(Ok(job));
        }
        let limits = self.limits;
        let asked_by = serde_json::to_string(script.asked_by()).unwrap_or_default();
        let decision = order.decision.to_string();
        // Other replicas need no notification if this server can run the job at once.
        let tells = !self.worker.has_room();
        let (token, token_expires) =
            order.permit.proof().map(Proof::to_columns).unwrap_or_default();
        let user_bytes_max = limits.user_bytes_max(user);
        let subject = Subject::of(script);
        let subject_json = serde_json::to_string(&subject).unwrap_or_default();
        let stored = stored(script);
        let parameters: [&(dyn ToSql + Sync); 14] = [
            &id.uuid(),
            &user_name(user),
            &stored,
            &asked_by,
            &script.verification_id().as_str(),
            &decision,
            &limits.user_queue_len_max,
            &limits.queue_len_max,
            &limits.disk_bytes_max,
            &tells,
            &token,
            &token_expires,
            &user_bytes_max,
            &subject_json,
        ];
        let rows = session.query(statements::PLACE, &parameters).await?;
        let Some(row) = rows.first() else { return Ok(Err(PlaceError::Away)) };
        let column = |it: usize| row.try_get::<_, i64>(it).map_err(DatabaseError::Statement);
        let (own, all, bytes) = (column(0)?, column(1)?, column(2)?);
        let is_full = own >= limits.user_queue_len_max || all >= limits.queue_len_max;
        let is_kept = bytes >= limits.disk_bytes_max || column(5)? >= user_bytes_max;
        let created: Option<DateTime<Utc>> = row.try_get(3).map_err(DatabaseError::Statement)?;
        Ok(match created {
            Some(created_at) => Ok(Job {
                id,
                subject: Some(Arc::new(subject)),
                state: JobState::Queued,
                decision: Arc::new(order.decision.clone()),
                created_at,
                changed_at: created_at,
                expires_at: created_at + limits.ttl,
                attempt: None,
            }),
            None if is_full => {
                let waiting = if own >= limits.user_queue_len_max { own } else { all };
                Err(PlaceError::QueueFull(usize::try_from(waiting).unwrap_or_default()))
            }
            None if is_kept => Err(PlaceError::ResultsFull),
            // No limit is reached and no row was inserted, so an earlier attempt has inserted the job, and the
            // database's reply was lost.
            None => match self.find(id, user, ANY).await? {
                Found::Job(job) => Ok(job),
                Found::Larger(_) | Found::Nothing => Err(PlaceError::Unknown(id)),
            },
        })
    }

    /// Returns a job of `user`. If the job has more than `bytes_max` bytes of output, returns only the size of the
    /// output. Withholds the result of a script if its hash differs from the hash in the audit log.
    async fn find(
        &self,
        id: JobId,
        user: Option<&UserName>,
        bytes_max: usize,
    ) -> Result<Found, DatabaseError> {
        let session = self.database.session().await?;
        let ttl = self.limits.ttl.as_secs_f64();
        let bytes_max = i64::try_from(bytes_max).unwrap_or(i64::MAX);
        let parameters: [&(dyn ToSql + Sync); 4] = [&id.uuid(), &user_name(user), &ttl, &bytes_max];
        let rows = session.query(statements::FIND, &parameters).await?;
        let Some(row) = rows.first() else { return Ok(Found::Nothing) };
        let bytes: i64 = row.try_get("bytes").map_err(DatabaseError::Statement)?;
        if bytes > bytes_max {
            return Ok(Found::Larger(usize::try_from(bytes).unwrap_or(usize::MAX)));
        }
        let mut job = self.job_of(id, row).map_err(DatabaseError::Statement)?;
        if let JobState::Ended(JobEnd::Ran(outcome)) = &job.state {
            let owner = JobOwner { job: id, user: user_name(user).to_owned() };
            let verification_id =
                row.try_get("verification_id").map_err(DatabaseError::Statement)?;
            match self.scripts.has_result(verification_id, &owner, outcome).await {
                Some(true) => {}
                Some(false) => job.state = JobState::Ended(JobEnd::NotRun(NOT_ITS_RESULT.into())),
                None => return Err(DatabaseError::NoAnswer),
            }
        }
        Ok(Found::Job(job))
    }

    fn job_of(&self, id: JobId, row: &Row) -> Result<Job, tokio_postgres::Error> {
        let state = match row.try_get::<_, i16>("state")? {
            0 => JobState::Queued,
            1 => JobState::Running,
            _ => JobState::Ended(Kept::of_row(row)?.into_end()),
        };
        let decision: &str = row.try_get("decision")?;
        let subject: Option<&str> = row.try_get("subject")?;
        let changed_at: DateTime<Utc> = row.try_get("changed_at")?;
        let attempt: i16 = row.try_get("attempt")?;
        Ok(Job {
            id,
            state,
            subject: subject.and_then(|it| serde_json::from_str(it).ok()),
            decision: Arc::new(serde_json::from_str(decision).unwrap_or(Value::Null)),
            created_at: row.try_get("created_at")?,
            changed_at,
            expires_at: changed_at + self.limits.ttl,
            attempt: (attempt > 0).then_some(attempt),
        })
    }
}

impl Jobs for SharedJobs {
    /// Starts the worker, which runs until shutdown. Before the worker runs a script, it decides again whether the
    /// script is allowed.
    fn start(&self) {
        self.worker.start();
    }

    fn place(&self, order: Order) -> BoxFuture<'_, Result<Job, PlaceError>> {
        Box::pin(async move {
            let id = JobId::fresh();
            let job = self.insert(id, &order).await?;
            self.worker.wake();
            if let Some(by) = order.placed_by {
                let mut placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
                if placed.len() == PLACED_MAX {
                    placed.pop_front();
                }
                placed.push_back(Placed { by, id, user: order.permit.user().cloned() });
            }
            Ok(job)
        })
    }

    fn job<'a>(
        &'a self,
        id: JobId,
        user: Option<&'a UserName>,
        bytes_max: usize,
    ) -> BoxFuture<'a, Result<Found, JobsAway>> {
        Box::pin(async move {
            self.find(id, user, bytes_max).await.map_err(|error| {
                log_failure("a job could not be looked up", &error);
                JobsAway
            })
        })
    }

    fn cancel<'a>(
        &'a self,
        id: JobId,
        user: Option<&'a UserName>,
    ) -> BoxFuture<'a, Result<bool, JobsAway>> {
        let (database, worker) = (self.database.clone(), Arc::clone(&self.worker));
        Box::pin(cancel(database, worker, id, user_name(user).to_owned()))
    }

    fn cancel_placed_by(&self, request: &RequestKey) {
        let placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        for Placed { id, user, .. } in placed.iter().filter(|placed| placed.by == *request) {
            let (database, worker) = (self.database.clone(), Arc::clone(&self.worker));
            let cancelled = cancel(database, worker, *id, user_name(user.as_ref()).to_owned());
            self.cancellations.spawn(cancelled);
        }
    }

    fn by_state(&self) -> BoxFuture<'_, Option<[(&'static str, usize); 3]>> {
        Box::pin(async {
            // If the timeout dropped the statement, the session would never detect that its connection is lost. So the
            // statement runs in a task, which continues after the timeout.
            let counted = tokio::spawn(count_states(self.database.clone()));
            let row = timeout(COUNT_PATIENCE, counted).await.ok()?.ok()??;
            let count = |it: usize| usize::try_from(row.try_get::<_, i64>(it).ok()?).ok();
            Some([("queued", count(0)?), ("running", count(1)?), ("ended", count(2)?)])
        })
    }

    fn are_available(&self) -> BoxFuture<'_, bool> {
        Box::pin(async {
            let Ok(session) = self.database.session().await else { return false };
            if self.can_place.load(Ordering::Relaxed) {
                return session.query("SELECT 1", &[]).await.is_ok();
            }
            let rehearsed = session.batch(statements::REHEARSE).await;
            self.can_place.store(rehearsed.is_ok(), Ordering::Relaxed);
            rehearsed.map_err(|error| log_failure("no job could be placed", &error)).is_ok()
        })
    }

    fn drain(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.worker.drain())
    }

    fn survives_server(&self) -> bool {
        true
    }

    fn timeout(&self) -> Duration {
        self.limits.run.timeout
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.cancellations.close();
            tokio::join!(self.cancellations.wait(), self.worker.shut_down());
        })
    }
}

/// Counts the jobs in each state. `None` if the database cannot be reached.
///
/// The count takes longer if the table has more jobs. On the shared connection, the renewals of leases would wait for
/// the count. So the count uses the connection for transactions, which this module uses for no other purpose.
async fn count_states(database: Database) -> Option<Row> {
    let mut exclusive = database.exclusive().await.ok()?;
    let rows = exclusive.session()?.query(statements::COUNT, &[]).await.ok()?;
    rows.into_iter().next()
}

/// Cancels a job, and notifies the worker that runs it.
async fn cancel(
    database: Database,
    worker: Arc<Worker>,
    id: JobId,
    user: String,
) -> Result<bool, JobsAway> {
    let cancelled = async {
        let session = database.session().await?;
        let rows = session.query(statements::CANCEL, &[&id.uuid(), &user]).await?;
        let is_there = rows.first().map(|row| row.try_get::<_, bool>(0)).transpose();
        is_there.map_err(DatabaseError::Statement)
    };
    match cancelled.await {
        Ok(is_there) => {
            if is_there == Some(true) {
                worker.cancel(id.uuid());
            }
            Ok(is_there == Some(true))
        }
        Err(error) => {
            log_failure("a job could not be cancelled", &error);
            Err(JobsAway)
        }
    }
}

/// Returns the user's name as the table stores it. An unauthenticated caller is stored as the empty string, which is
/// not a valid name.
fn user_name(user: Option<&UserName>) -> &str {
    user.map(UserName::as_str).unwrap_or_default()
}

fn log_failure(what: &'static str, error: &DatabaseError) {
    let source = std::error::Error::source(error).map(ToString::to_string);
    tracing::error!(%error, source, "{what}");
}

/// The id of a worker. Each start of a server creates a new id.
type WorkerId = Uuid;
