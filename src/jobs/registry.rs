//! Jobs in memory. The length of the queue is limited, and jobs expire. All jobs are lost when the server ends.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::{BoxFuture, ready};
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::executor::{Ending, JOBS_AT_ONCE_MAX, Lane, RunLimits};
use crate::gateway::JobId;
use crate::ledger::UserName;
use crate::scripts::{Permit, RunRequest, ScriptTurn, Scripts};
use crate::shares::Share;
use crate::verification::Subject;

use super::job::{Job, JobEnd, JobState};
use super::plane::{Found, Jobs, JobsAway, Order, PlaceError, RequestKey};

/// Limits for the jobs in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobLimits {
    /// The maximum number of jobs that run at once.
    pub(crate) running_max: usize,
    /// The maximum number of waiting jobs. If five jobs of two minutes each run at once, the last of 100 waiting jobs
    /// waits 40 minutes.
    pub(crate) queue_len_max: usize,
    /// The maximum total output of ended jobs, in bytes. One job has at most 5 MiB, including its plots.
    pub(crate) output_bytes_max: usize,
    /// The maximum number of jobs in any state.
    pub(crate) jobs_max: usize,
    /// The limits of one run.
    pub(crate) run: RunLimits,
    /// The time for which a job is kept after its last change of state.
    pub(crate) ttl: Duration,
    /// The share of each limit (the queue, the total output and the number of jobs) that one user may take.
    pub(crate) share: Share,
}

impl JobLimits {
    /// Returns the documented limits, with the timeout that the admin configured.
    pub(crate) fn new(timeout: Duration, ttl: Duration) -> Self {
        Self {
            running_max: JOBS_AT_ONCE_MAX,
            queue_len_max: 100,
            output_bytes_max: 256 * 1024 * 1024,
            jobs_max: 10_000,
            run: RunLimits::of_script(timeout),
            ttl,
            share: Share::default(),
        }
    }
}

/// All background jobs of this server.
#[derive(Clone)]
pub(crate) struct JobRegistry {
    shared: Arc<Shared>,
}

struct Shared {
    scripts: Arc<Scripts>,
    limits: JobLimits,
    jobs: Mutex<HashMap<JobId, Entry>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

struct Entry {
    state: JobState,
    subject: Arc<Subject>,
    decision: Arc<Value>,
    created_at: DateTime<Utc>,
    changed_at: DateTime<Utc>,
    /// The request that placed the job. `None` for a job that outlives its request.
    placed_by: Option<RequestKey>,
    /// The only user allowed to query and cancel the job. `None` if callers are not authenticated.
    user: Option<UserName>,
    cancel: CancellationToken,
}

impl Entry {
    fn job(&self, id: JobId, ttl: Duration) -> Job {
        Job {
            id,
            state: self.state.clone(),
            subject: Some(Arc::clone(&self.subject)),
            decision: Arc::clone(&self.decision),
            created_at: self.created_at,
            changed_at: self.changed_at,
            expires_at: self.changed_at + ttl,
            attempt: None,
        }
    }
}

impl JobRegistry {
    pub(crate) fn new(scripts: Arc<Scripts>, limits: JobLimits) -> Self {
        let shared = Shared {
            scripts,
            limits,
            jobs: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    fn place_now(&self, order: Order) -> Result<Job, PlaceError> {
        let Order { permit, decision, placed_by } = order;
        let id = JobId::fresh();
        let cancel = self.shared.stop.child_token();
        let now = Utc::now();
        let entry = Entry {
            state: JobState::Queued,
            subject: Arc::new(Subject::of(permit.script())),
            decision: Arc::new(decision),
            created_at: now,
            changed_at: now,
            placed_by,
            user: permit.user().cloned(),
            cancel: cancel.clone(),
        };
        let job = entry.job(id, self.shared.limits.ttl);
        {
            let mut jobs = self.shared.lock();
            self.shared.limits.check(&jobs, entry.user.as_ref())?;
            jobs.insert(id, entry);
        }
        let shared = Arc::clone(&self.shared);
        self.shared.tasks.spawn(async move {
            shared.live(id, permit, cancel).await;
            shared.lock().remove(&id);
        });
        Ok(job)
    }

    #[cfg(test)]
    pub(super) fn shared_is_empty(&self) -> bool {
        self.shared.lock().is_empty()
    }
}

impl Jobs for JobRegistry {
    fn place(&self, order: Order) -> BoxFuture<'_, Result<Job, PlaceError>> {
        Box::pin(ready(self.place_now(order)))
    }

    fn job<'a>(
        &'a self,
        id: JobId,
        user: Option<&'a UserName>,
        bytes_max: usize,
    ) -> BoxFuture<'a, Result<Found, JobsAway>> {
        let jobs = self.shared.lock();
        let own = jobs.get(&id).filter(|entry| entry.user.as_ref() == user);
        let found = match own.map(|entry| (entry, entry.state.output_bytes())) {
            None => Found::Nothing,
            Some((_, bytes)) if bytes > bytes_max => Found::Larger(bytes),
            Some((entry, _)) => Found::Job(entry.job(id, self.shared.limits.ttl)),
        };
        Box::pin(ready(Ok(found)))
    }

    fn cancel<'a>(
        &'a self,
        id: JobId,
        user: Option<&'a UserName>,
    ) -> BoxFuture<'a, Result<bool, JobsAway>> {
        let jobs = self.shared.lock();
        let entry = jobs.get(&id).filter(|entry| entry.user.as_ref() == user);
        if let Some(entry) = entry {
            entry.cancel.cancel();
        }
        Box::pin(ready(Ok(entry.is_some())))
    }

    fn cancel_placed_by(&self, request: &RequestKey) {
        for job in self.shared.lock().values() {
            if job.placed_by.as_ref() == Some(request) {
                job.cancel.cancel();
            }
        }
    }

    fn by_state(&self) -> BoxFuture<'_, Option<[(&'static str, usize); 3]>> {
        let (mut queued, mut running, mut ended) = (0, 0, 0);
        for job in self.shared.lock().values() {
            match job.state {
                JobState::Queued => queued += 1,
                JobState::Running => running += 1,
                JobState::Ended(_) => ended += 1,
            }
        }
        Box::pin(ready(Some([("queued", queued), ("running", running), ("ended", ended)])))
    }

    fn timeout(&self) -> Duration {
        self.shared.limits.run.timeout
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.shared.stop.cancel();
            self.shared.tasks.close();
            self.shared.tasks.wait().await;
        })
    }
}

impl JobLimits {
    fn check(
        &self,
        jobs: &HashMap<JobId, Entry>,
        user: Option<&UserName>,
    ) -> Result<(), PlaceError> {
        self.check_part(jobs.values(), |whole| whole)?;
        if user.is_none() {
            return Ok(());
        }
        let own = jobs.values().filter(|job| job.user.as_ref() == user);
        self.check_part(own, |whole| self.share.of(whole))
    }

    /// Checks whether the limits allow one job in addition to `jobs`. `part` reduces each limit except `running_max`,
    /// for example to the share of one user.
    fn check_part<'a>(
        &self,
        jobs: impl Iterator<Item = &'a Entry>,
        part: impl Fn(usize) -> usize,
    ) -> Result<(), PlaceError> {
        let (mut known, mut active, mut output_bytes) = (0, 0, 0);
        for job in jobs {
            known += 1;
            active += usize::from(!matches!(job.state, JobState::Ended(_)));
            output_bytes += job.state.output_bytes();
        }
        let queue_len_max = part(self.queue_len_max);
        if active >= self.running_max + queue_len_max {
            return Err(PlaceError::QueueFull(queue_len_max));
        }
        if known >= part(self.jobs_max) || output_bytes >= part(self.output_bytes_max) {
            return Err(PlaceError::ResultsFull);
        }
        Ok(())
    }
}

impl Shared {
    /// Waits until the job may run, runs the job's script, and stores the result. Returns when the job has expired.
    async fn live(&self, id: JobId, permit: Permit, cancel: CancellationToken) {
        let waits = AtomicBool::default();
        let ttl = self.limits.ttl;
        let request = RunRequest::new(self.limits.run, cancel.clone());
        let turn = self.scripts.turn(&permit, &request, Lane::Jobs, &waits, &cancel);
        let Ok(turn) = timeout(ttl, turn).await else { return };
        let end = match turn {
            None => JobEnd::Cancelled,
            Some(turn) => {
                self.set(id, JobState::Running);
                let run = self.run(&permit, &turn, request);
                tokio::pin!(run);
                match timeout(ttl, &mut run).await {
                    Ok(end) => end,
                    Err(_expired) => {
                        cancel.cancel();
                        run.await;
                        return;
                    }
                }
            }
        };
        // Free the script and its inputs, because the limits on ended jobs count only output.
        drop(permit);
        self.set(id, JobState::Ended(end));
        tokio::select! {
            () = sleep(ttl) => {}
            () = self.stop.cancelled() => {}
        }
    }

    async fn run(&self, permit: &Permit, turn: &ScriptTurn, request: RunRequest) -> JobEnd {
        match self.scripts.run(permit, turn, request).await {
            Ok(outcome) if outcome.ending == Ending::Cancelled => JobEnd::Cancelled,
            Ok(outcome) => JobEnd::Ran(Arc::new(outcome)),
            Err(error) => JobEnd::NotRun(error.to_string().into()),
        }
    }

    fn set(&self, id: JobId, state: JobState) {
        if let Some(job) = self.lock().get_mut(&id) {
            job.state = state;
            job.changed_at = Utc::now();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Entry>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
