//! The job worker: claims jobs, renews the leases of the claimed jobs, runs the jobs and stores their results. It never
//! starts a script before it has received the reply to its claim.
//!
//! Claims and renewals never overlap, because one task (`work`) does both. If the table assigns a job to this worker,
//! but the worker has not recorded the job in `held`, then the reply to the claim was lost, and the job never started.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::config::AdminGate;
use crate::executor::{Ending, Lane};
use crate::gateway::{AskedBy, Inputs, JobId, JobOwner};
use crate::ledger::Proof;
use crate::postgres::{Database, DatabaseError, Notice};
use crate::scripts::{PlacedScript, RunRequest, ScriptError, Scripts};

use super::super::job::JobEnd;
use super::kept::{Kept, script_of};
use super::statements;
use super::{CHANNEL, SharedLimits, WorkerId, log_failure};

/// The pause between two attempts to reach the database.
const PAUSE: Duration = Duration::from_millis(200);
/// The time at shutdown for storing the end of a stopped job.
const LAST_WORD_PATIENCE: Duration = Duration::from_millis(250);
/// The minimum and the maximum interval between two removals of expired jobs.
const EXPIRY_INTERVAL: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// Claims jobs from the database, and runs them.
pub(super) struct Worker {
    id: WorkerId,
    name: String,
    database: Database,
    scripts: Arc<Scripts>,
    limits: SharedLimits,
    /// The jobs that this worker runs, with the tokens that cancel them.
    held: Mutex<HashMap<Uuid, CancellationToken>>,
    /// The number of jobs in `held`.
    held_count: watch::Sender<usize>,
    /// Wakes the worker when a job may be waiting.
    look: Notify,
    /// Cancelled when the worker must stop claiming jobs.
    draining: CancellationToken,
    /// Cancelled when the running jobs and the worker must end.
    stop: CancellationToken,
    tasks: TaskTracker,
    jobs: TaskTracker,
}

struct Claimed {
    id: Uuid,
    user: String,
    script: String,
    inputs: Inputs,
    asked_by: AskedBy,
    verification_id: String,
    /// `true` if an authenticated user placed the job. Such a job does not run if `proof` is missing.
    is_users: bool,
    proof: Option<Proof>,
}

impl Worker {
    pub(super) fn new(database: Database, scripts: Arc<Scripts>, limits: SharedLimits) -> Self {
        Self {
            id: Uuid::new_v4(),
            name: name(),
            database,
            scripts,
            limits,
            held: Mutex::default(),
            held_count: watch::Sender::new(0),
            look: Notify::new(),
            draining: CancellationToken::new(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            jobs: TaskTracker::new(),
        }
    }

    /// Starts to claim jobs, until the server ends. Called once, because claims and renewals must not overlap.
    pub(super) fn start(self: &Arc<Self>) {
        let working = Arc::clone(self);
        self.tasks.spawn(async move { working.work().await });
        let hearing = Arc::clone(self);
        self.tasks.spawn(async move {
            let stop = hearing.stop.clone();
            stop.run_until_cancelled(hearing.follow_notices()).await;
        });
    }

    /// Returns whether this worker can start one more job immediately.
    pub(super) fn has_room(&self) -> bool {
        !self.draining.is_cancelled()
            && self.scripts.admin_gate() == AdminGate::Open
            && self.held().len() < self.limits.running_max
    }

    /// Wakes the worker to look for waiting jobs.
    pub(super) fn wake(&self) {
        self.look.notify_one();
    }

    /// Cancels a job, if this worker runs it.
    pub(super) fn cancel(&self, id: Uuid) {
        if let Some(cancel) = self.held().get(&id) {
            cancel.cancel();
        }
    }

    /// Stops claiming. Returns when the jobs of this worker have ended.
    pub(super) async fn drain(&self) {
        self.draining.cancel();
        // Waiting only fails when the sender is dropped, and the sender lives as long as `self`.
        let _ = self.held_count.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Ends the jobs of this worker and stores them as lost in the database. Returns when the processes of the jobs are
    /// dead and the jobs are stored. Waits for the database only for a limited time.
    pub(super) async fn shut_down(&self) {
        self.draining.cancel();
        self.stop.cancel();
        self.jobs.close();
        self.jobs.wait().await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Claims jobs, renews leases and removes expired jobs, until the server ends.
    async fn work(self: &Arc<Self>) {
        let mut renewal = interval(self.limits.lease / 5);
        renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (least, most) = EXPIRY_INTERVAL;
        let expiry_interval = (self.limits.ttl / 10).clamp(least, most);
        let mut expiry = Instant::now() + expiry_interval;
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                _ = renewal.tick() => {
                    let upkept = self.renew_leases().await;
                    if upkept.is_ok() && Instant::now() >= expiry {
                        let removed = self.remove_expired().await;
                        // After a full batch, more jobs may have expired. Renew the leases before the next batch.
                        if !matches!(removed, Ok(statements::EXPIRED_MAX)) {
                            expiry = Instant::now() + expiry_interval;
                        }
                        self.note("expired jobs could not be removed", removed.map(drop));
                    }
                    self.note("jobs could not be renewed", upkept);
                }
                () = self.look.notified() => {}
            }
            while self.has_room() && self.can_run().await {
                let room = self.limits.running_max.saturating_sub(self.held().len());
                match self.claim(room).await {
                    Ok(claimed) if claimed.is_empty() => break,
                    Ok(claimed) => claimed.into_iter().for_each(|job| self.begin(job)),
                    Err(error) => {
                        self.note("jobs could not be claimed", Err(error));
                        // If the claim succeeded and only its reply was lost, the next renewal returns the claimed jobs
                        // to the queue.
                        break;
                    }
                }
            }
        }
    }

    /// Returns whether this replica has an interpreter and a sandbox. A replica without them claims no jobs, so that
    /// other replicas run them.
    async fn can_run(&self) -> bool {
        let readiness = self.stop.run_until_cancelled(self.scripts.readiness()).await;
        matches!(readiness, Some(Ok(Some(_))))
    }

    async fn claim(&self, room: usize) -> Result<Vec<Claimed>, DatabaseError> {
        let session = self.database.session().await?;
        let (lease, ttl) = (self.limits.lease.as_secs_f64(), self.limits.ttl.as_secs_f64());
        let room = i64::try_from(room).unwrap_or(1);
        let order: [&(dyn ToSql + Sync); 5] = [&self.id, &self.name, &room, &lease, &ttl];
        let rows = session.query(statements::CLAIM, &order).await?;
        rows.iter().map(Claimed::of_row).collect::<Result<_, _>>().map_err(DatabaseError::Statement)
    }

    /// Renews the leases of this worker's jobs, cancels jobs that this worker must not continue, and ends lost jobs of
    /// other workers.
    async fn renew_leases(&self) -> Result<(), DatabaseError> {
        let session = self.database.session().await?;
        let held: Vec<Uuid> = self.held().keys().copied().collect();
        let lease = self.limits.lease.as_secs_f64();
        let rows = session.query(statements::RENEW, &[&self.id, &held, &lease]).await?;
        let mut own = HashMap::new();
        for row in &rows {
            let id: Uuid = row.try_get(0).map_err(DatabaseError::Statement)?;
            own.insert(id, row.try_get::<_, bool>(1).map_err(DatabaseError::Statement)?);
        }
        for id in held {
            // Cancel the job if its user has cancelled it, or if this worker no longer owns it. In the second case, its
            // result would be discarded.
            if own.get(&id).is_none_or(|is_cancelled| *is_cancelled) {
                self.cancel(id);
            }
        }
        for lost in session.query(statements::SWEEP, &[&lease]).await? {
            let id = lost.try_get::<_, Uuid>(0).map_err(DatabaseError::Statement)?;
            let worker = lost.try_get::<_, &str>(1).map_err(DatabaseError::Statement)?;
            tracing::warn!(job = %id, worker, "the worker of a job is lost");
        }
        Ok(())
    }

    /// Removes one batch of expired jobs. Returns their number.
    async fn remove_expired(&self) -> Result<u64, DatabaseError> {
        let session = self.database.session().await?;
        let ttl = self.limits.ttl.as_secs_f64();
        session.execute(statements::EXPIRE, &[&ttl]).await
    }

    /// Handles notifications of other replicas, until the server ends.
    async fn follow_notices(&self) {
        loop {
            match self.database.listen(CHANNEL).await {
                Ok(mut notices) => {
                    // Look for jobs that were announced before this worker listened.
                    self.wake();
                    while let Some(Notice { payload, .. }) = notices.recv().await {
                        match payload.strip_prefix("cancel ").map(Uuid::try_parse) {
                            Some(Ok(id)) => self.cancel(id),
                            Some(Err(_)) | None => self.wake(),
                        }
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "notifications from the database cannot be received");
                }
            }
            sleep(PAUSE).await;
        }
    }

    /// Runs a claimed job in a task of its own.
    fn begin(self: &Arc<Self>, job: Claimed) {
        let cancel = self.stop.child_token();
        self.held().insert(job.id, cancel.clone());
        self.count();
        let worker = Arc::clone(self);
        self.jobs.spawn(async move {
            let id = job.id;
            let end = worker.run(job, cancel).await;
            let is_stored = if worker.stop.is_cancelled() {
                timeout(LAST_WORD_PATIENCE, worker.finish(id, &end)).await.is_ok()
            } else {
                worker.stop.run_until_cancelled(worker.finish(id, &end)).await.is_some()
            };
            // If the end of the job is not stored, keep the job in `held`. A renewal without its id would return the
            // job to the queue, and the job would run twice.
            if is_stored {
                worker.held().remove(&id);
            } else {
                tracing::warn!(job = %id, "the result of a job could not be stored in time");
            }
            worker.count();
            worker.wake();
        });
    }

    async fn run(&self, job: Claimed, cancel: CancellationToken) -> JobEnd {
        let Claimed { id, user, script, inputs, asked_by, verification_id, is_users, proof } = job;
        if is_users && proof.is_none() {
            // An earlier version of this program placed the job, or the row was not written by a server.
            return not_run(&ScriptError::NotAllowed("its row has no token".to_owned()));
        }
        let owner = JobOwner { job: JobId::of_uuid(id), user };
        let placed =
            PlacedScript { source: script, inputs, verification_id, owner, asked_by, proof };
        let permit = match self.scripts.decide_again(placed, &cancel).await {
            Ok(permit) => permit,
            Err(error) => return self.without_outcome(&error, &cancel),
        };
        // The wait for a turn (the right to start a run) is short, because the claim has reserved a turn. Wait with the
        // token `never`, which is never cancelled. Even a cancelled job needs the turn for its call of `run`, which
        // writes the end of the job to the audit log.
        let (waits, never) = (AtomicBool::default(), CancellationToken::new());
        let chosen = self.scripts.packages_for(&permit, &cancel).await.unwrap_or_default();
        let request = RunRequest::new(self.limits.run, cancel.clone());
        let lane = Lane::SharedJobs;
        let turn = self.scripts.turn_with(chosen, &permit, &request, lane, &waits, &never);
        let Some(turn) = turn.await else { return self.cancelled() };
        match self.scripts.run(&permit, &turn, request).await {
            Ok(outcome) if outcome.ending == Ending::Cancelled => self.cancelled(),
            Ok(outcome) => JobEnd::Ran(Arc::new(outcome)),
            Err(error) => self.without_outcome(&error, &cancel),
        }
    }

    /// Returns the end of a job that has no outcome. A job that was cancelled while it waited for an unreachable store
    /// is reported as cancelled.
    fn without_outcome(&self, error: &ScriptError, cancel: &CancellationToken) -> JobEnd {
        let has_waited = matches!(error, ScriptError::TokensAway | ScriptError::NotAudited);
        if has_waited && cancel.is_cancelled() { self.cancelled() } else { not_run(error) }
    }

    /// Returns the end of a job that was cancelled, either by its user (cancelled) or by the shutdown of this server
    /// (lost).
    fn cancelled(&self) -> JobEnd {
        if self.stop.is_cancelled() {
            return JobEnd::Lost(self.name.as_str().into());
        }
        JobEnd::Cancelled
    }

    /// Stores the end of a job. Retries until the database replies. If the database refuses `end`, stores a failure
    /// instead. If another replica has already declared the job lost, or the job has expired, discards `end`.
    ///
    /// The number of ends in memory is limited, because a job remains in `held` until its end is stored, and `held`
    /// never contains more than `running_max` jobs.
    async fn finish(&self, id: Uuid, end: &JobEnd) {
        let mut kept = Kept::of_end(end);
        let (mut may_be_written, mut is_refused) = (false, false);
        loop {
            match self.try_finish(id, &kept, may_be_written).await {
                Ok(true) => return,
                Ok(false) => {
                    tracing::warn!(
                        job = %id, end = end.as_str(),
                        "the result of a job is discarded, because the job was reported as lost"
                    );
                    return;
                }
                Err(error) => {
                    may_be_written |= error.is_ambiguous();
                    if !error.is_passing() && !is_refused {
                        log_failure("the result of a job could not be stored", &error);
                        is_refused = true;
                        let reason = "the script was run, but its result could not be stored";
                        kept = Kept::of_end(&JobEnd::NotRun(reason.into()));
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Returns whether this worker has stored the end of the job. `false` means that the worker no longer owns the job.
    async fn try_finish(
        &self,
        id: Uuid,
        kept: &Kept,
        may_be_written: bool,
    ) -> Result<bool, DatabaseError> {
        let session = self.database.session().await?;
        let Kept { result, stdout, stderr, pictures } = kept;
        let finished = session
            .execute(statements::FINISH, &[&id, &self.id, result, stdout, stderr, pictures])
            .await?;
        if finished == 1 {
            return Ok(true);
        }
        let by_us = session.query(statements::IS_FINISHED, &[&id, &self.id]).await?;
        Ok(may_be_written && !by_us.is_empty())
    }

    fn note(&self, what: &'static str, result: Result<(), DatabaseError>) {
        match result {
            Ok(()) => {}
            Err(error) if error.is_passing() => {
                tracing::warn!(worker = self.name, %error, "{what}");
            }
            Err(error) => log_failure(what, &error),
        }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Uuid, CancellationToken>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self) {
        let count = self.held().len();
        self.held_count.send_replace(count);
    }
}

impl Claimed {
    fn of_row(row: &Row) -> Result<Self, tokio_postgres::Error> {
        let (script, inputs) = script_of(row.try_get("script")?);
        let asked_by: Option<&str> = row.try_get("asked_by")?;
        Ok(Self {
            id: row.try_get("id")?,
            user: row.try_get("user_name")?,
            script,
            inputs,
            asked_by: asked_by.and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default(),
            verification_id: row.try_get("verification_id")?,
            is_users: !row.try_get::<_, &str>("user_name")?.is_empty(),
            proof: Proof::of_columns(row.try_get("token_id")?, row.try_get("token_expires")?),
        })
    }
}

fn not_run(error: &ScriptError) -> JobEnd {
    JobEnd::NotRun(error.to_string().into())
}

/// Returns the name by which admins recognize this process: host name and PID.
fn name() -> String {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    format!("{} ({})", host.unwrap_or_else(|| "unknown".to_owned()), std::process::id())
}
