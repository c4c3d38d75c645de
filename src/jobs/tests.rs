use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::time::sleep;

use crate::config::Settings;
use crate::executor::fake::FakeExecutor;
use crate::executor::{Captured, Ending, Outcome, Turns};
use crate::gateway::tests::{granted, granted_with};
use crate::gateway::{Gateway, Grant, Inputs, JobId, JobOwner};
use crate::ledger::UserName;
use crate::scripts::{Permit, Scripts};
use crate::verdict::Conclusion;

use super::*;

const TTL: Duration = Duration::from_secs(3600);

/// Returns an executor that runs no processes. The script `# N` takes N seconds.
fn executor() -> FakeExecutor {
    FakeExecutor::new(|script, limits, cancel| {
        let seconds = script.source().as_str().trim_start_matches("# ").parse().unwrap();
        Box::pin(async move {
            let ending = tokio::select! {
                () = sleep(Duration::from_secs(seconds)) => Ending::Exited(0),
                () = sleep(limits.timeout) => Ending::TimedOut,
                () = cancel.cancelled() => Ending::Cancelled,
            };
            let stdout =
                Captured { text: "x".repeat(1024), is_truncated: false, ..Captured::default() };
            Ok(Outcome { ending, stdout, ..Outcome::never_started() })
        })
    })
}

fn registry(change: impl FnOnce(&mut JobLimits)) -> JobRegistry {
    let mut limits = JobLimits::new(Duration::from_secs(120), TTL);
    change(&mut limits);
    let turns = Turns::new([1, limits.running_max, 1], limits.share);
    let (settings, _) = Settings::from_lookup(|_| None);
    let scripts = Scripts::new(&settings, Gateway::blocking(&settings), Arc::new(executor()));
    JobRegistry::new(Arc::new(scripts.with_turns(turns)), limits)
}

fn order(seconds: u64, placed_by: Option<RequestKey>, user: Option<UserName>) -> Order {
    let permit = Permit::for_test(granted(&format!("# {seconds}"), true), user, None);
    Order { permit, decision: Value::Null, placed_by }
}

/// Returns the reply of the registry, which must be ready at once.
fn now<T>(answer: BoxFuture<'_, T>) -> T {
    answer.now_or_never().unwrap()
}

fn place(registry: &JobRegistry, seconds: u64) -> Result<JobId, PlaceError> {
    let placed_by = Some(RequestKey(seconds.to_string()));
    let order = order(seconds, placed_by, None);
    now(registry.place(order)).map(|job| job.id)
}

fn job(registry: &JobRegistry, id: JobId, user: Option<&UserName>) -> Option<Job> {
    match now(registry.job(id, user, usize::MAX)).unwrap() {
        Found::Job(job) => Some(job),
        Found::Nothing => None,
        found @ Found::Larger(_) => panic!("{found:?}"),
    }
}

fn name(registry: &JobRegistry, id: JobId) -> &'static str {
    match job(registry, id, None).map(|job| job.state) {
        None => "unknown",
        Some(JobState::Queued) => "queued",
        Some(JobState::Running) => "running",
        Some(JobState::Ended(JobEnd::Cancelled)) => "cancelled",
        Some(JobState::Ended(JobEnd::NotRun(_) | JobEnd::Lost(_))) => "not run",
        Some(JobState::Ended(JobEnd::Ran(outcome))) => match outcome.ending {
            Ending::TimedOut => "timed out",
            Ending::Exited(_) | Ending::Cancelled | Ending::OutOfMemory => "ran",
        },
    }
}

#[tokio::test(start_paused = true)]
async fn every_job_that_has_ended_has_a_verdict() {
    let registry = registry(|limits| limits.running_max = 1);
    let [ends, runs, waits] = [1, 60, 60].map(|seconds| place(&registry, seconds).unwrap());
    let verdict = |id| job(&registry, id, None).unwrap().verdict();
    let outcome = |id| verdict(id).map(|verdict| verdict.outcome);
    after(2).await;
    assert_eq!([ends, runs, waits].map(outcome), [Some(Conclusion::NothingChecked), None, None]);
    for id in [runs, waits] {
        now(registry.cancel(id, None)).unwrap();
    }
    after(1).await;
    assert_eq!([runs, waits].map(outcome), [Some(Conclusion::Inconclusive); 2]);
    let cancelled = verdict(runs).unwrap();
    let statement = &cancelled.document["object"]["formal_statement"];
    assert!(statement.as_str().unwrap().starts_with("script sha256:"), "{statement}");
    assert_eq!(cancelled.document["verdict"], "UNVERIFIABLE");
    assert_eq!(verdict(runs), verdict(waits));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_has_ended_keeps_no_script() {
    let registry = registry(|limits| limits.running_max = 1);
    let place = |seconds: u64| {
        let owner = JobOwner { job: JobId::fresh(), user: String::new() };
        let script = granted_with(&format!("# {seconds}"), Inputs::default(), &[]).with_job(owner);
        // All copies of the script share this value.
        let owner = Arc::downgrade(script.job().unwrap());
        let permit = Permit::for_test(Grant::ExecuteInBackground(script), None, None);
        let order = Order { permit, decision: Value::Null, placed_by: None };
        (now(registry.place(order)).unwrap().id, owner)
    };
    let jobs = [1, 60, 60].map(place);
    let are_kept = || jobs.each_ref().map(|(_, owner)| owner.strong_count() > 0);
    let names = || jobs.each_ref().map(|(id, _)| name(&registry, *id));
    after(2).await;
    assert_eq!(names(), ["ran", "running", "queued"]);
    assert_eq!(are_kept(), [false, true, true]);
    for (id, _) in &jobs[1..] {
        now(registry.cancel(*id, None)).unwrap();
    }
    after(1).await;
    assert_eq!(names(), ["ran", "cancelled", "cancelled"]);
    assert_eq!(are_kept(), [false; 3]);
}

/// Sleeps for the given number of seconds, and for a millisecond in which the tasks that are then due run.
async fn after(seconds: u64) {
    sleep(Duration::from_secs(seconds) + Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn five_run_and_the_rest_wait_in_order() {
    let registry = registry(|_| {});
    let ids: Vec<_> = (0..7).map(|_| place(&registry, 10).unwrap()).collect();
    after(1).await;
    let states: Vec<_> = ids.iter().map(|id| name(&registry, *id)).collect();
    assert_eq!(states, [&["running"; 5][..], &["queued"; 2][..]].concat());
    after(10).await;
    let states: Vec<_> = ids.iter().map(|id| name(&registry, *id)).collect();
    assert_eq!(states, [&["ran"; 5][..], &["running"; 2][..]].concat());
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_and_loses_nothing() {
    let registry = registry(|limits| limits.queue_len_max = 2);
    let placed: Vec<_> = (0..8).map(|_| place(&registry, 10)).collect();
    assert_eq!(placed.iter().filter(|placed| placed.is_ok()).count(), 7);
    assert_eq!(placed[7], Err(PlaceError::QueueFull(2)));
    after(21).await;
    assert!(placed[..7].iter().all(|id| name(&registry, id.unwrap()) == "ran"));
    assert!(place(&registry, 1).is_ok());
}

#[tokio::test(start_paused = true)]
async fn kept_output_is_bounded() {
    let registry = registry(|limits| limits.output_bytes_max = 2000);
    for _ in 0..2 {
        place(&registry, 1).unwrap();
        after(1).await;
    }
    assert_eq!(place(&registry, 1), Err(PlaceError::ResultsFull));
    after(TTL.as_secs()).await;
    assert!(place(&registry, 1).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_job_expires_an_hour_after_its_last_change_without_anyone_asking() {
    let registry = registry(|_| {});
    let id = place(&registry, 60).unwrap();
    after(60 + TTL.as_secs() - 2).await;
    assert_eq!(name(&registry, id), "ran");
    after(2).await;
    assert_eq!(name(&registry, id), "unknown");
}

#[tokio::test(start_paused = true)]
async fn an_expired_job_that_waits_or_runs_is_cancelled() {
    let registry = registry(|limits| {
        limits.run.timeout = Duration::from_secs(100_000);
        limits.running_max = 1;
    });
    // The second job starts when the first job ends, and this change of state delays the expiry of the second job.
    // The third job stays in the queue without a change of state. So the third job expires before the second job.
    place(&registry, 10).unwrap();
    let running = place(&registry, 90_000).unwrap();
    let waiting = place(&registry, 1).unwrap();
    after(TTL.as_secs() - 2).await;
    assert_eq!((name(&registry, running), name(&registry, waiting)), ("running", "queued"));
    after(2).await;
    assert_eq!((name(&registry, running), name(&registry, waiting)), ("running", "unknown"));
    after(10).await;
    assert_eq!(name(&registry, running), "unknown");
    // Only one job can run at a time. The cancelled job no longer runs, so a new job runs at once.
    let next = place(&registry, 1).unwrap();
    after(1).await;
    assert_eq!(name(&registry, next), "ran");
}

#[tokio::test(start_paused = true)]
async fn a_job_is_cancelled_by_its_request_whether_it_waits_or_runs() {
    let registry = registry(|limits| limits.running_max = 1);
    let running = place(&registry, 50).unwrap();
    let waiting = place(&registry, 60).unwrap();
    let other = place(&registry, 70).unwrap();
    after(1).await;
    registry.cancel_placed_by(&RequestKey("60".to_owned()));
    registry.cancel_placed_by(&RequestKey("50".to_owned()));
    after(1).await;
    let states = [running, waiting, other].map(|id| name(&registry, id));
    assert_eq!(states, ["cancelled", "cancelled", "running"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_over_its_time_is_timed_out() {
    let registry = registry(|_| {});
    let id = place(&registry, 121).unwrap();
    after(120).await;
    assert_eq!(name(&registry, id), "timed out");
}

#[tokio::test(start_paused = true)]
async fn shutting_down_ends_all_jobs() {
    let registry = registry(|_| {});
    for _ in 0..10 {
        place(&registry, 100).unwrap();
    }
    after(1).await;
    registry.shut_down().await;
    assert!(registry.shared_is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_job_is_its_users_only() {
    let registry = registry(|_| {});
    let (ann, bob): (UserName, UserName) = ("ann".parse().unwrap(), "bob".parse().unwrap());
    let id = now(registry.place(order(60, None, Some(ann.clone())))).unwrap().id;
    for other in [Some(&bob), None] {
        assert!(job(&registry, id, other).is_none());
        assert!(!now(registry.cancel(id, other)).unwrap());
    }
    assert!(job(&registry, id, Some(&ann)).is_some());
    assert!(now(registry.cancel(id, Some(&ann))).unwrap());
}

#[tokio::test(start_paused = true)]
async fn one_user_has_a_share_of_the_queue_and_of_what_is_kept() {
    let registry = registry(|limits| {
        limits.queue_len_max = 8;
        limits.output_bytes_max = 16 * 1024;
    });
    let place = |user: &str, seconds| {
        let user = Some(user.parse().unwrap());
        now(registry.place(order(seconds, None, user))).map(|job| job.id)
    };
    // Ann may have five running jobs, and two waiting jobs, which are a quarter of the queue.
    for _ in 0..7 {
        place("ann", 10).unwrap();
    }
    assert_eq!(place("ann", 10), Err(PlaceError::QueueFull(2)));
    let of_bob = place("bob", 1).unwrap();
    // Bob's job is the next to run, although more jobs of ann wait.
    after(11).await;
    after(1).await;
    let bob = "bob".parse().unwrap();
    let state = job(&registry, of_bob, Some(&bob)).unwrap().state;
    assert!(matches!(state, JobState::Ended(JobEnd::Ran(_))), "{state:?}");
    after(30).await;
    // Each job has left 1 KiB of output, so ann's outputs exceed her quarter of 16 KiB.
    assert_eq!(place("ann", 1), Err(PlaceError::ResultsFull));
    assert!(place("bob", 1).is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_is_larger_than_there_is_room_for_is_not_handed_out() {
    let registry = registry(|_| {});
    let id = place(&registry, 1).unwrap();
    assert!(matches!(now(registry.job(id, None, 0)).unwrap(), Found::Job(_)), "nothing yet");
    after(2).await;
    let found = now(registry.job(id, None, 1023)).unwrap();
    assert!(matches!(found, Found::Larger(1024)), "{found:?}");
    assert!(matches!(now(registry.job(id, None, 1024)).unwrap(), Found::Job(_)));
}
