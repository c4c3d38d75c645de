//! Runs the same tests on both implementations of background jobs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::config::Settings;
use crate::executor::fake::FakeExecutor;
use crate::executor::{
    Cached, Captured, EndReport, Ending, Executor, LeftOut, Outcome, Picture, Pictures, Returned,
    Turns,
};
use crate::gateway::tests::granted;
use crate::gateway::{Accompanying, Arguments, AskedBy, Gateway, JobId};
use crate::governance::{Governance, PolicyFile};
use crate::ledger::{Caller, Presented, Proof, Role, Store, UserName};
use crate::postgres::{Database, DatabaseUrl};
use crate::scripts::{Decided, Permit, Request, ScriptError, Scripts};
use crate::verdict::Conclusion;

use scratch::Postgres;

use super::super::{JobEnd, JobLimits, JobRegistry};
use super::*;

#[expect(dead_code, reason = "the tests of the ledger use the rest")]
#[path = "../../../tests/integration/harness/postgres.rs"]
mod scratch;

const TTL: Duration = Duration::from_secs(3600);
/// The timeout of each step of a test. It is long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A replica: its jobs, and the number of scripts it has started.
struct Replica {
    jobs: Arc<dyn Jobs>,
    begun: Arc<AtomicUsize>,
}

/// The limits that a test sets. Both implementations of background jobs have these limits.
#[derive(Clone, Copy)]
struct Bounds {
    running: usize,
    queue: usize,
    ttl: Duration,
    timeout: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { running: 5, queue: 100, ttl: TTL, timeout: Duration::from_secs(60) }
    }
}

/// Returns an executor that runs no processes. The script `# N` takes N milliseconds.
fn executor(begun: &Arc<AtomicUsize>) -> Arc<FakeExecutor> {
    let begun = Arc::clone(begun);
    Arc::new(FakeExecutor::new(move |script, limits, cancel| {
        begun.fetch_add(1, Ordering::SeqCst);
        let text = script.source().as_str().trim_start_matches("# ").to_owned();
        Box::pin(async move {
            let ending = tokio::select! {
                () = sleep(Duration::from_millis(text.parse().unwrap())) => Ending::Exited(0),
                () = sleep(limits.timeout) => Ending::TimedOut,
                () = cancel.cancelled() => Ending::Cancelled,
            };
            let stdout = Captured { text, is_truncated: false, ..Captured::default() };
            Ok(Outcome { ending, stdout, ..Outcome::never_started() })
        })
    }))
}

fn in_memory(bounds: Bounds) -> Replica {
    let begun = Arc::default();
    let mut limits = JobLimits::new(bounds.timeout, bounds.ttl);
    (limits.running_max, limits.queue_len_max) = (bounds.running, bounds.queue);
    let turns = Turns::new([1, bounds.running, 1], limits.share);
    let scripts = scripts(executor(&begun)).with_turns(turns);
    Replica { jobs: Arc::new(JobRegistry::new(Arc::new(scripts), limits)), begun }
}

async fn shared(url: &str, bounds: Bounds) -> Replica {
    let begun = Arc::default();
    let executor = executor(&begun);
    shared_with(url, bounds, begun, executor).await
}

async fn shared_with(
    url: &str,
    bounds: Bounds,
    begun: Arc<AtomicUsize>,
    executor: Arc<FakeExecutor>,
) -> Replica {
    let jobs = not_started(url, bounds, executor).await;
    jobs.start();
    Replica { jobs: Arc::new(jobs), begun }
}

/// Returns the jobs of a replica that does not claim jobs yet.
async fn not_started(url: &str, bounds: Bounds, executor: Arc<FakeExecutor>) -> SharedJobs {
    let mut limits = SharedLimits::new(bounds.timeout, bounds.ttl);
    limits.running_max = bounds.running;
    limits.user_queue_len_max = i64::try_from(bounds.queue).unwrap();
    limits.lease = Duration::from_millis(1500);
    let url = DatabaseUrl::parse(&url.to_owned().into()).unwrap();
    let database = Database::open(url).await.unwrap();
    SharedJobs::new(database, Arc::new(scripts(executor)), limits)
}

fn scripts(executor: Arc<FakeExecutor>) -> Scripts {
    let gate = |name: &str| (name == "QWED_MCP_TRUSTED_CODE_EXECUTION").then(|| "true".into());
    let (settings, _) = Settings::from_lookup(gate);
    Scripts::new(&settings, Gateway::blocking(&settings), executor)
}

fn user(name: &str) -> Option<UserName> {
    (!name.is_empty()).then(|| name.parse().unwrap())
}

/// Returns the proof of a user: an access token that is valid for an hour.
fn proof(name: &str) -> Option<Proof> {
    let expires = Utc::now() + TimeDelta::hours(1);
    (!name.is_empty()).then_some(Proof::Access { expires })
}

impl Replica {
    async fn place(&self, milliseconds: u64, by: &str) -> Result<JobId, PlaceError> {
        let grant = granted(&format!("# {milliseconds}"), true);
        let permit = Permit::for_test(grant, user(by), proof(by));
        let placed_by = Some(RequestKey(milliseconds.to_string()));
        let decision = json!({ "of": milliseconds });
        let order = Order { permit, decision, placed_by };
        self.jobs.place(order).await.map(|job| job.id)
    }

    async fn job(&self, id: JobId, by: &str) -> Option<Job> {
        match self.jobs.job(id, user(by).as_ref(), ANY).await.unwrap() {
            Found::Job(job) => Some(job),
            Found::Larger(_) | Found::Nothing => None,
        }
    }

    async fn word(&self, id: JobId, by: &str) -> &'static str {
        self.job(id, by).await.map_or("unknown", |job| job.state.as_str())
    }

    async fn until(&self, id: JobId, by: &str, word: &str) {
        let begun = Instant::now();
        loop {
            let found = self.word(id, by).await;
            if found == word {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{found}, not {word}");
            sleep(Duration::from_millis(10)).await;
        }
    }

    async fn states(&self, ids: &[JobId]) -> Vec<&'static str> {
        let mut states = Vec::new();
        for id in ids {
            states.push(self.word(*id, "").await);
        }
        states
    }
}

/// Defines each test twice: in a module `memory` and in a module `postgres`.
macro_rules! behaviours {
    ($($name:ident($bounds:expr)),+ $(,)?) => {
        mod memory {
            use super::*;

            $(#[tokio::test]
            async fn $name() {
                super::$name(in_memory($bounds)).await;
            })+
        }

        mod postgres {
            use super::*;

            $(#[tokio::test]
            #[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
            async fn $name() {
                super::$name(shared(&scratch::shared().database(), $bounds).await).await;
            })+
        }
    };
}

behaviours! {
    five_run_and_the_rest_wait_in_order(Bounds::default()),
    a_full_queue_refuses_and_loses_nothing(Bounds { queue: 2, ..Bounds::default() }),
    a_job_is_cancelled_by_its_request_whether_it_waits_or_runs(Bounds { running: 1, ..Bounds::default() }),
    a_job_is_its_users_only(Bounds::default()),
    a_job_over_its_time_is_timed_out(Bounds { timeout: Duration::from_millis(200), ..Bounds::default() }),
    a_job_expires_after_its_last_change(Bounds { ttl: Duration::from_millis(1500), ..Bounds::default() }),
    shutting_down_ends_what_runs(Bounds::default()),
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn one_user_has_a_share_of_what_is_kept() {
    let url = scratch::shared().database();
    let begun = Arc::default();
    let mut limits = SharedLimits::new(Duration::from_secs(60), Duration::from_secs(2));
    // The output of one job (1 MiB) fills the share of one user, which is a quarter of this limit.
    limits.disk_bytes_max = 4 * 1024 * 1024;
    let executor = Arc::new(FakeExecutor::new(|_, _, _| {
        let stdout = Captured { text: "x".repeat(1024 * 1024), ..Captured::default() };
        let ended = Outcome { ending: Ending::Exited(0), stdout, ..Outcome::never_started() };
        Box::pin(async { Ok(ended) })
    }));
    let database = Database::open(DatabaseUrl::parse(&url.into()).unwrap()).await.unwrap();
    let jobs = SharedJobs::new(database, Arc::new(scripts(executor)), limits);
    jobs.start();
    let replica = Replica { jobs: Arc::new(jobs), begun };
    let first = replica.place(1, "ann").await.unwrap();
    replica.until(first, "ann", "success").await;
    // Output that is larger than the limit is not fetched.
    let found = replica.jobs.job(first, user("ann").as_ref(), 1000).await.unwrap();
    assert!(matches!(found, Found::Larger(1_048_576)), "{found:?}");
    assert_eq!(replica.place(1, "ann").await, Err(PlaceError::ResultsFull));
    for other in ["bob", ""] {
        assert!(replica.place(1, other).await.is_ok(), "{other}");
    }
    // When the result has expired and was removed, ann can place jobs again.
    let started = Instant::now();
    while replica.place(1, "ann").await.is_err() {
        assert!(started.elapsed() < PATIENCE, "it is never given back");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn a_job_whose_token_is_gone_is_not_run() {
    let replica = shared(&scratch::shared().database(), Bounds::default()).await;
    let expired = Some(Proof::Access { expires: Utc::now() - TimeDelta::seconds(1) });
    for (proof, told) in [
        (expired, "was revoked or has expired"),
        // The row of this job has no token. A server that requires tokens never writes such a row.
        (None, "its row has no token"),
    ] {
        let permit = Permit::for_test(granted("# 1", true), user("ann"), proof);
        let order = Order { permit, decision: json!({}), placed_by: None };
        let id = replica.jobs.place(order).await.unwrap().id;
        replica.until(id, "ann", "failed").await;
        let job = replica.job(id, "ann").await.unwrap();
        assert_eq!(job.verdict().unwrap().outcome, Conclusion::Blocked);
        let JobState::Ended(JobEnd::NotRun(reason)) = job.state else { panic!("{job:?}") };
        assert!(reason.contains(told), "{reason}");
    }
    assert_eq!(replica.begun.load(Ordering::SeqCst), 0);
    let id = replica.place(1, "ann").await.unwrap();
    replica.until(id, "ann", "success").await;
}

/// A server sets its store of tokens before it starts the worker. Without this store, the worker could not check the
/// token of a job.
#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn a_worker_claims_no_job_before_it_is_started() {
    let (url, begun) = (scratch::shared().database(), Arc::default());
    let jobs = not_started(&url, Bounds::default(), executor(&begun)).await;
    let replica = Replica { jobs: Arc::new(jobs), begun };
    let id = replica.place(1, "ann").await.unwrap();
    // This pause is longer than a lease, so a started worker would have claimed the job during the pause.
    sleep(Duration::from_secs(2)).await;
    assert_eq!(replica.word(id, "ann").await, "queued");
    replica.jobs.start();
    replica.until(id, "ann", "success").await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn a_replica_without_an_interpreter_leaves_jobs_to_others() {
    let url = scratch::shared().database();
    let begun = Arc::default();
    let mut without = Arc::into_inner(executor(&begun)).unwrap();
    without.tier = None;
    let without = shared_with(&url, Bounds::default(), begun, Arc::new(without)).await;
    let first = without.place(1, "").await.unwrap();
    // This pause is longer than a lease, so a replica with an interpreter would have claimed the job during the pause.
    sleep(Duration::from_secs(2)).await;
    assert_eq!(without.word(first, "").await, "queued");
    let with = shared(&url, Bounds::default()).await;
    for _ in 0..4 {
        let id = without.place(1, "").await.unwrap();
        with.until(id, "", "success").await;
    }
    with.until(first, "", "success").await;
    assert_eq!([without, with].map(|it| it.begun.load(Ordering::SeqCst)), [0, 5]);
}

async fn five_run_and_the_rest_wait_in_order(replica: Replica) {
    let mut ids = Vec::new();
    for _ in 0..7 {
        ids.push(replica.place(1000, "").await.unwrap());
    }
    replica.until(ids[4], "", "running").await;
    assert_eq!(replica.states(&ids).await, [&["running"; 5][..], &["queued"; 2][..]].concat());
    for id in &ids {
        replica.until(*id, "", "success").await;
    }
    assert_eq!(replica.begun.load(Ordering::SeqCst), 7);
    let job = replica.job(ids[0], "").await.unwrap();
    assert_eq!(*job.decision, json!({ "of": 1000 }));
    let JobState::Ended(JobEnd::Ran(outcome)) = job.state else { panic!("{job:?}") };
    assert_eq!(outcome.stdout.text, "1000");
}

async fn a_full_queue_refuses_and_loses_nothing(replica: Replica) {
    let mut placed = Vec::new();
    // Running jobs do not count towards the limit of the queue.
    for _ in 0..5 {
        placed.push(replica.place(3000, "").await.unwrap());
        replica.until(placed[placed.len() - 1], "", "running").await;
    }
    for _ in 0..2 {
        placed.push(replica.place(2000, "").await.unwrap());
    }
    assert_eq!(replica.place(2000, "").await, Err(PlaceError::QueueFull(2)));
    for id in placed {
        replica.until(id, "", "success").await;
    }
    replica.place(1, "").await.unwrap();
}

async fn a_job_is_cancelled_by_its_request_whether_it_waits_or_runs(replica: Replica) {
    let running = replica.place(50_000, "ann").await.unwrap();
    replica.until(running, "ann", "running").await;
    let waiting = replica.place(60_000, "ann").await.unwrap();
    let other = replica.place(70_000, "ann").await.unwrap();
    replica.jobs.cancel_placed_by(&RequestKey("60000".to_owned()));
    replica.until(waiting, "ann", "cancelled").await;
    replica.jobs.cancel_placed_by(&RequestKey("50000".to_owned()));
    replica.until(running, "ann", "cancelled").await;
    for (id, code) in [(waiting, "# 60000"), (running, "# 50000")] {
        let job = replica.job(id, "ann").await.unwrap();
        assert_eq!(job.verdict().unwrap().outcome, Conclusion::Inconclusive);
        assert_eq!(*job.subject.unwrap(), Subject::new(Some(code), None));
    }
    replica.until(other, "ann", "running").await;
    assert_eq!(replica.begun.load(Ordering::SeqCst), 2);
}

async fn a_job_is_its_users_only(replica: Replica) {
    let id = replica.place(60_000, "ann").await.unwrap();
    replica.until(id, "ann", "running").await;
    for other in ["bob", ""] {
        assert_eq!(replica.word(id, other).await, "unknown");
        assert!(!replica.jobs.cancel(id, user(other).as_ref()).await.unwrap());
    }
    assert_eq!(replica.word(id, "ann").await, "running");
    assert!(replica.jobs.cancel(id, user("ann").as_ref()).await.unwrap());
    replica.until(id, "ann", "cancelled").await;
}

async fn a_job_over_its_time_is_timed_out(replica: Replica) {
    let id = replica.place(60_000, "").await.unwrap();
    replica.until(id, "", "timed_out").await;
}

async fn a_job_expires_after_its_last_change(replica: Replica) {
    let ended = replica.place(1, "").await.unwrap();
    replica.until(ended, "", "success").await;
    let begun = Instant::now();
    replica.until(ended, "", "unknown").await;
    assert!(begun.elapsed() > Duration::from_millis(1000), "{:?}", begun.elapsed());
    // A running job is ended when its lifetime is over.
    let running = replica.place(60_000, "").await.unwrap();
    replica.until(running, "", "running").await;
    replica.until(running, "", "unknown").await;
    let begun = Instant::now();
    while replica.jobs.by_state().await != Some([("queued", 0), ("running", 0), ("ended", 0)]) {
        assert!(begun.elapsed() < PATIENCE);
        sleep(Duration::from_millis(20)).await;
    }
}

async fn shutting_down_ends_what_runs(replica: Replica) {
    let id = replica.place(60_000, "").await.unwrap();
    replica.until(id, "", "running").await;
    let begun = Instant::now();
    replica.jobs.shut_down().await;
    assert!(begun.elapsed() < Duration::from_millis(400), "{:?}", begun.elapsed());
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn any_replica_answers_and_cancels_within_200_ms() {
    let url = scratch::shared().database();
    let one = Bounds { running: 1, ..Bounds::default() };
    let (first, second) = (shared(&url, one).await, shared(&url, one).await);
    let ids =
        [first.place(60_000, "ann").await.unwrap(), first.place(60_000, "ann").await.unwrap()];
    // The first replica may run only one job at once, so the second replica runs the other job.
    for id in ids {
        second.until(id, "ann", "running").await;
    }
    assert_eq!((first.begun.load(Ordering::SeqCst), second.begun.load(Ordering::SeqCst)), (1, 1));
    // The first replica cancels both jobs, although the second replica runs one of them.
    for id in ids {
        let begun = Instant::now();
        assert!(first.jobs.cancel(id, user("ann").as_ref()).await.unwrap());
        second.until(id, "ann", "cancelled").await;
        assert!(begun.elapsed() < Duration::from_millis(200), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn users_take_turns() {
    let url = scratch::shared().database();
    let replica = shared(&url, Bounds { running: 1, ..Bounds::default() }).await;
    let first = replica.place(500, "ann").await.unwrap();
    replica.until(first, "ann", "running").await;
    for _ in 0..10 {
        replica.place(1, "ann").await.unwrap();
    }
    let mut last = Vec::new();
    for name in ["bob", "cid"] {
        for _ in 0..2 {
            last.push((replica.place(1, name).await.unwrap(), name));
        }
    }
    for (id, name) in last {
        replica.until(id, name, "success").await;
    }
    let order =
        "SELECT string_agg(user_name, ' ' ORDER BY claim) FROM qwed_mcp.jobs WHERE claim <= 7";
    let order = scratch::shared().sql(&url, order);
    // The first job ran before the other jobs were placed. After that, users take turns: each user runs one job before
    // any user runs the next.
    let order: Vec<&str> = order.split(' ').collect();
    let turns = |range: std::ops::Range<usize>| {
        let mut turns = order[range].to_vec();
        turns.sort_unstable();
        turns
    };
    assert_eq!(order[0], "ann");
    assert_eq!(turns(1..3), ["bob", "cid"], "{order:?}");
    assert_eq!(turns(3..6), ["ann", "bob", "cid"], "{order:?}");
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn a_lost_worker_is_told_and_what_it_says_later_is_thrown_away() {
    let (server, bounds) = (scratch::shared(), Bounds::default());
    let url = server.database();
    let replica = shared(&url, bounds).await;
    let id = replica.place(1500, "").await.unwrap();
    replica.until(id, "", "running").await;
    // Assign the job to another worker, with an expired lease. The replica receives no notification.
    server.sql(&url, "UPDATE qwed_mcp.jobs SET worker = gen_random_uuid(), worker_name = 'pod-7 (12)', lease = now() - interval '1 s'");
    replica.until(id, "", "failed").await;
    let job = replica.job(id, "").await.unwrap();
    assert_eq!(job.attempt, Some(1));
    assert!(
        matches!(&job.state, JobState::Ended(JobEnd::Lost(worker)) if &**worker == "pod-7 (12)")
    );
    assert_eq!(job.verdict().unwrap().outcome, Conclusion::Inconclusive);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(replica.word(id, "").await, "failed");
    assert_eq!(replica.begun.load(Ordering::SeqCst), 1);
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn a_claim_that_was_not_heard_of_is_handed_out_again() {
    let (server, url) = (scratch::shared(), scratch::shared().database());
    let replica = shared(&url, Bounds { running: 1, ..Bounds::default() }).await;
    let running = replica.place(1000, "").await.unwrap();
    replica.until(running, "", "running").await;
    let waiting = replica.place(1, "").await.unwrap();
    // Change the rows as if the worker had claimed the job and the reply had been lost.
    server.sql(&url, "UPDATE qwed_mcp.jobs AS lost SET state = 1, attempt = 1, worker = own.worker, lease = now() + interval '9 s' \
         FROM qwed_mcp.jobs AS own WHERE lost.state = 0 AND own.state = 1");
    replica.until(waiting, "", "success").await;
    let job = replica.job(waiting, "").await.unwrap();
    assert_eq!((job.attempt, replica.begun.load(Ordering::SeqCst)), (Some(2), 2));
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn what_the_database_says_is_no_permission() {
    let (server, url) = (scratch::shared(), scratch::shared().database());
    let replica = shared(&url, Bounds { running: 1, ..Bounds::default() }).await;
    let running = replica.place(500, "").await.unwrap();
    replica.until(running, "", "running").await;
    let mut ids = Vec::new();
    for change in
        ["script = 'import os; os.system(1)'", "verification_id = 'x'", "script = '\\x00'"]
    {
        let id = replica.place(1, "").await.unwrap();
        // Bypass the triggers of the table, as the owner of the tables can do.
        let change = format!("UPDATE qwed_mcp.jobs SET {change} WHERE id = '{id}'");
        server.sql(&url, &format!("SET session_replication_role = replica; {change}"));
        ids.push(id);
    }
    for id in ids {
        replica.until(id, "", "failed").await;
        let job = replica.job(id, "").await.unwrap();
        let JobState::Ended(JobEnd::NotRun(reason)) = job.state else { panic!("{job:?}") };
        assert!(
            reason.starts_with("the server that was to run it does not allow it: "),
            "{reason}"
        );
    }
    assert_eq!(replica.begun.load(Ordering::SeqCst), 1);
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn jobs_outlive_the_database() {
    let server = Postgres::start();
    let url = server.database();
    let replica = shared(&url, Bounds { running: 1, ..Bounds::default() }).await;
    let running = replica.place(2500, "").await.unwrap();
    let waiting = replica.place(1, "").await.unwrap();
    replica.until(running, "", "running").await;
    server.kill();
    while replica.jobs.are_available().await {}
    assert_eq!(replica.jobs.job(running, None, ANY).await.map(drop), Err(JobsAway));
    assert_eq!(replica.place(1, "").await, Err(PlaceError::Away));
    server.begin();
    replica.until(running, "", "success").await;
    replica.until(waiting, "", "success").await;
    let job = replica.job(running, "").await.unwrap();
    assert_eq!((job.attempt, replica.begun.load(Ordering::SeqCst)), (Some(1), 2));
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn a_worker_claims_jobs_again_after_a_long_outage() {
    let server = Postgres::start();
    let bounds = Bounds { running: 1, ttl: Duration::from_secs(4), ..Bounds::default() };
    let replica = shared(&server.database(), bounds).await;
    let first = replica.place(1000, "").await.unwrap();
    replica.until(first, "", "running").await;
    server.kill();
    while replica.jobs.are_available().await {}
    // An attempt to connect to the killed database ends after five seconds. So the worker has tried to store the end of
    // the job for longer than the job is kept.
    for _ in 0..2 {
        assert!(!replica.jobs.are_available().await);
    }
    server.begin();
    let next = replica.place(1, "").await.unwrap();
    replica.until(next, "", "success").await;
}

/// Records the statements that remove jobs, and the statements that change jobs, such as renewals.
const RECORD_STATEMENTS: &str = "
CREATE TABLE qwed_mcp.recorded (seq bigserial, operation text);
CREATE FUNCTION qwed_mcp.record_statement() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO qwed_mcp.recorded (operation) VALUES (TG_OP);
    RETURN NULL;
END $$;
CREATE TRIGGER record_statement AFTER UPDATE OR DELETE ON qwed_mcp.jobs FOR EACH STATEMENT
    EXECUTE FUNCTION qwed_mcp.record_statement()";

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn leases_are_renewed_between_removals_of_expired_jobs() {
    let (server, url) = (scratch::shared(), scratch::shared().database());
    let bounds = Bounds { ttl: Duration::from_secs(2), ..Bounds::default() };
    let _replica = shared(&url, bounds).await;
    server.sql(&url, RECORD_STATEMENTS);
    // These jobs need three removals.
    server.sql(&url, "SET session_replication_role = replica; \
         INSERT INTO qwed_mcp.jobs (id, user_name, state, verification_id, decision, changed_at) \
         SELECT gen_random_uuid(), '', 2, '', '', now() - interval '1 h' FROM generate_series(1, 2500)");
    let begun = Instant::now();
    while server.sql(&url, "SELECT count(*) FROM qwed_mcp.jobs") != "0" {
        assert!(begun.elapsed() < PATIENCE, "some jobs are left");
        sleep(Duration::from_millis(50)).await;
    }
    let removals = "SELECT count(*) >= 3 FROM qwed_mcp.recorded WHERE operation = 'DELETE'";
    assert_eq!(server.sql(&url, removals), "t");
    let in_a_row = "SELECT count(*) FROM (SELECT operation, lag(operation) OVER (ORDER BY seq) AS previous \
         FROM qwed_mcp.recorded) AS pairs WHERE operation = 'DELETE' AND previous = 'DELETE'";
    assert_eq!(server.sql(&url, in_a_row), "0");
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn renewals_do_not_wait_for_the_count_of_jobs() {
    let (server, url) = (scratch::shared(), scratch::shared().database());
    let replica = shared(&url, Bounds::default()).await;
    let id = replica.place(1, "").await.unwrap();
    replica.until(id, "", "success").await;
    let begun = Instant::now();
    while replica.jobs.by_state().await != Some([("queued", 0), ("running", 0), ("ended", 1)]) {
        assert!(begun.elapsed() < PATIENCE);
    }
    // During this pause, the shared connection executes renewals. If the count had also used the shared connection, no
    // connection would have the count as its last statement.
    sleep(Duration::from_secs(1)).await;
    let count = statements::COUNT.trim();
    let last = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
         AND pid <> pg_backend_pid() AND strpos(query, '{count}') > 0"
    );
    assert_eq!(server.sql(&url, &last), "1");
}

/// Creates `Scripts` with an audit log in a database. Also returns the store that contains this audit log.
fn governed_scripts(url: &str, folder: &Path, begun: &Arc<AtomicUsize>) -> (Arc<Scripts>, Store) {
    let (settings, _) = Settings::from_lookup(|name| match name {
        "QWED_MCP_TRUSTED_CODE_EXECUTION" => Some("true".into()),
        "QWED_MCP_STORE" => Some(url.to_owned().into()),
        _ => None,
    });
    let store = settings.store_in(folder).open().unwrap();
    let executor: Arc<dyn Executor> = executor(begun);
    let policy = Arc::new(PolicyFile::new(folder.join("policy.toml")));
    let governance =
        Governance::new(&settings, policy, folder, store.clone(), Arc::clone(&executor), None);
    let scripts = Scripts::new(&settings, Gateway::blocking(&settings), executor)
        .with_governance(Some(Arc::new(governance)));
    (Arc::new(scripts), store)
}

/// A job starts late if the store is unreachable when the job is claimed.
#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn the_start_of_a_job_waits_for_the_store() {
    let (jobs, ledger) = (scratch::shared(), Postgres::start());
    let folder = tempfile::tempdir().unwrap();
    let (url, begun) = (ledger.database(), Arc::default());
    let (scripts, store) = governed_scripts(&url, folder.path(), &begun);
    let tokens = store.clone();
    let created =
        spawn_blocking(move || tokens.create_token(&user("ann").unwrap(), Role::User, None));
    let (record, _) = created.await.unwrap().unwrap();
    let proof = Proof::Token(record.id);
    let ann = Caller { user: record.user, role: record.role, proof };
    let request = || Request {
        arguments: Arguments::from_iter([
            ("code".to_owned(), json!("# 1")),
            ("background".to_owned(), json!(true)),
        ]),
        with: Accompanying::default(),
        presented: Presented { token: None, known: Some(ann.clone()) },
        asked_by: AskedBy::default(),
        cancel: CancellationToken::new(),
    };
    let Decided::Allowed { permit, .. } = scripts.decide(request()).await else {
        panic!("refused")
    };
    ledger.kill();

    let database = DatabaseUrl::parse(&jobs.database().into()).unwrap();
    let database = Database::open(database).await.unwrap();
    let limits = SharedLimits::new(Duration::from_secs(60), TTL);
    let shared = SharedJobs::new(database, Arc::clone(&scripts), limits);
    shared.start();
    let replica = Replica { jobs: Arc::new(shared), begun };
    let order = Order { permit, decision: json!({}), placed_by: None };
    let id = replica.jobs.place(order).await.unwrap().id;
    let cancel = CancellationToken::new();
    let lookup = {
        let (scripts, cancel) = (Arc::clone(&scripts), cancel.clone());
        tokio::spawn(async move { scripts.require(Some(proof), Some(&cancel)).await })
    };
    // An attempt to reach the killed store ends after five seconds. Without retries, a job makes at most two attempts
    // and would fail within this sleep. If the job still runs after the sleep, it has retried.
    sleep(Duration::from_secs(12)).await;
    assert_eq!(replica.word(id, "ann").await, "running");
    assert!(!lookup.is_finished(), "{:?}", lookup.await);
    cancel.cancel();
    let given_up = lookup.await.unwrap();
    assert!(matches!(given_up, Err(ScriptError::TokensAway)), "{given_up:?}");

    ledger.begin();
    replica.until(id, "ann", "success").await;
    assert_eq!(replica.begun.load(Ordering::SeqCst), 1);

    // A job does not run if its token is revoked while it waits. Here the token can be looked up, but the start cannot
    // be audited.
    let admin = Database::at(DatabaseUrl::parse(&url.into()).unwrap());
    admin.session().await.unwrap().batch(REFUSE_STARTS).await.unwrap();
    let Decided::Allowed { permit, .. } = scripts.decide(request()).await else {
        panic!("refused")
    };
    let order = Order { permit, decision: json!({}), placed_by: None };
    let id = replica.jobs.place(order).await.unwrap().id;
    let refused = "SELECT last_value FROM qwed_mcp.refused_starts WHERE is_called";
    while admin.session().await.unwrap().query(refused, &[]).await.unwrap().is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    spawn_blocking(move || store.revoke(record.id)).await.unwrap().unwrap();
    let accept = "DROP TRIGGER refuse_starts ON qwed_mcp.audit";
    admin.session().await.unwrap().batch(accept).await.unwrap();
    replica.until(id, "ann", "failed").await;
    let job = replica.job(id, "ann").await.unwrap();
    let JobState::Ended(JobEnd::NotRun(reason)) = job.state else { panic!("{job:?}") };
    assert!(reason.contains("was revoked or has expired"), "{reason}");
    assert_eq!(replica.begun.load(Ordering::SeqCst), 1);
}

/// Makes the audit log refuse rows about starts, as on a full disk. Counts the refusals.
const REFUSE_STARTS: &str = "
CREATE SEQUENCE qwed_mcp.refused_starts;
CREATE FUNCTION qwed_mcp.refuse_start() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM nextval('qwed_mcp.refused_starts');
    RAISE EXCEPTION SQLSTATE '53100';
END $$;
CREATE TRIGGER refuse_starts BEFORE INSERT ON qwed_mcp.audit FOR EACH ROW WHEN (NEW.event = 'TOOL_STARTED')
    EXECUTE FUNCTION qwed_mcp.refuse_start()";

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn a_server_that_ends_tells_what_it_ran_as_lost_and_one_that_drains_takes_no_more() {
    let url = scratch::shared().database();
    let (first, second) = (
        shared(&url, Bounds::default()).await,
        shared(&url, Bounds { running: 0, ..Bounds::default() }).await,
    );
    let short = first.place(600, "").await.unwrap();
    first.until(short, "", "running").await;
    first.jobs.drain().await;
    assert_eq!(second.word(short, "").await, "success");
    let waiting = first.place(1, "").await.unwrap();
    sleep(Duration::from_millis(600)).await;
    assert_eq!(second.word(waiting, "").await, "queued");

    let third = shared(&url, Bounds::default()).await;
    let long = third.place(60_000, "").await.unwrap();
    third.until(long, "", "running").await;
    third.jobs.shut_down().await;
    let job = second.job(long, "").await.unwrap();
    assert!(matches!(job.state, JobState::Ended(JobEnd::Lost(_))), "{job:?}");
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn a_result_comes_back_as_it_was() {
    let outcome = || {
        let picture =
            Picture { png: vec![0; 512 * 1024], width: 3, height: 4, sha256: "ab".to_owned() };
        let left_out = LeftOut::TooLarge { label: "Figure 1".to_owned(), bytes: 7 };
        Outcome {
            ending: Ending::Exited(-11),
            stdout: Captured {
                text: "\0\u{1b}é".repeat(250_000),
                is_truncated: true,
                ..Captured::default()
            },
            stderr: Captured {
                text: "x".repeat(1024 * 1024),
                is_truncated: false,
                ..Captured::default()
            },
            pictures: Arc::new(Pictures {
                all: vec![picture.clone(), picture],
                left_out: vec![left_out],
            }),
            duration: Duration::from_micros(1234),
            advice: Some("do".to_owned()),
            cached: Some(Cached { receipt: Some("ab".to_owned()) }),
            end_report: EndReport {
                returned: Some(Returned::Value(json!({ "\0é": [1.1e-7, 0.1, null] }))),
                ..EndReport::default()
            },
            ..Outcome::never_started()
        }
    };
    let executor = FakeExecutor::new(move |_, _, _| {
        let outcome = outcome();
        Box::pin(async { Ok(outcome) })
    });
    let url = scratch::shared().database();
    let replica = shared_with(&url, Bounds::default(), Arc::default(), Arc::new(executor)).await;
    let id = replica.place(1, "").await.unwrap();
    replica.until(id, "", "failed").await;
    let job = replica.job(id, "").await.unwrap();
    let JobState::Ended(JobEnd::Ran(found)) = job.state else { panic!("{:?}", job.id) };
    // The worker added a verdict to the outcome, and stored both.
    let verdict = found.verdict.clone().unwrap();
    assert_eq!(verdict.outcome, Conclusion::Inconclusive);
    let expected = Outcome { verdict: Some(verdict), ..outcome() };
    assert!(format!("{found:?}") == format!("{expected:?}"), "not what it was");
    // When the job has ended, the script is removed from the table.
    let left =
        scratch::shared().sql(&url, "SELECT count(script) + count(asked_by) FROM qwed_mcp.jobs");
    assert_eq!(left, "0");
}
