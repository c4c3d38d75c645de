use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::executor::fake::FakeExecutor;
use crate::executor::{Ending, Lane, Outcome, Picture, Pictures, RunError, RunLimits};
use crate::gateway::tests::granted;
use crate::gateway::{Accompanying, Arguments, AskedBy, Inputs};
use crate::governance::PolicyFile;
use crate::ledger::{AuditFilter, Presented, Proof, Role, Store};
use crate::receipt::KeyStore;
use crate::sandbox::Tier;
use crate::shares::Share;

use super::decide::ANALYSED_IN_PLACE_BYTES_MAX;
use super::*;

/// The scripts under test, with the stores and logs that they use.
struct Harness {
    folder: TempDir,
    store: Store,
    session: Arc<Session>,
    executor: Arc<FakeExecutor>,
    scripts: Scripts,
}

fn harness(
    act: impl Fn(&Store, &Path) -> Result<Outcome, RunError> + Send + Sync + 'static,
) -> Harness {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let session = Arc::new(Session::new(None));
    let (seen, place) = (store.clone(), folder.path().to_owned());
    let executor = Arc::new(FakeExecutor::new(move |_, _, _| {
        let outcome = act(&seen, &place);
        Box::pin(async { outcome })
    }));
    let settings = settings();
    let policy = Arc::new(PolicyFile::new(folder.path().join("policy.toml")));
    let shared: Arc<dyn Executor> = executor.clone();
    let governance = Governance::new(
        &settings,
        policy,
        folder.path(),
        store.clone(),
        Arc::clone(&shared),
        Some(Arc::clone(&session)),
    );
    let scripts = Scripts::new(&settings, Gateway::blocking(&settings), shared)
        .with_governance(Some(Arc::new(governance)))
        .with_session(Some(Arc::clone(&session)));
    Harness { folder, store, session, executor, scripts }
}

fn settings() -> Settings {
    let gate = |name: &str| (name == "QWED_MCP_TRUSTED_CODE_EXECUTION").then(|| "true".into());
    Settings::from_lookup(gate).0
}

/// Returns [`Scripts`] without an audit log, and with a fake executor. Each run succeeds at once.
fn scripts() -> Scripts {
    let executor = FakeExecutor::new(|_, _, _| Box::pin(async { Ok(finished()) }));
    Scripts::new(&settings(), Gateway::blocking(&settings()), Arc::new(executor))
}

fn request(code: &str) -> Request {
    Request {
        arguments: Arguments::from_iter([("code".to_owned(), json!(code))]),
        with: Accompanying::default(),
        presented: Presented::default(),
        asked_by: AskedBy::default(),
        cancel: CancellationToken::new(),
    }
}

impl Harness {
    async fn run(&self) -> Result<Outcome, ScriptError> {
        self.run_with(None).await
    }

    async fn run_with(&self, proof: Option<Proof>) -> Result<Outcome, ScriptError> {
        let permit = Permit::for_test(granted("import sympy", false), None, proof);
        let (waits, cancel) = (AtomicBool::default(), CancellationToken::new());
        let limits = RunLimits::of_script(Duration::from_secs(1));
        let request = RunRequest::new(limits, cancel.clone());
        let turn = self.scripts.turn(&permit, &request, Lane::Calls, &waits, &cancel);
        let turn = turn.await.unwrap();
        self.scripts.run(&permit, &turn, request).await
    }

    fn engines(&self) -> Value {
        let bill = serde_json::to_value(self.session.manifest()).unwrap();
        bill["components"]["verification_engines"].clone()
    }
}

fn finished() -> Outcome {
    Outcome { ending: Ending::Exited(0), tier: Some(Tier::T3), ..Outcome::never_started() }
}

/// Runs these scripts concurrently, and returns for each run whether it was starved: whether other runs may have caused
/// its timeout. The scripts `waits` and `computes` reach their timeout after the other scripts have ended. The script
/// `pipes` takes too many pipes. The script `both` takes too many pipes and also reaches its timeout.
async fn starved(sources: &[&str]) -> Vec<bool> {
    let executor = FakeExecutor::new(|script, _, _| {
        Box::pin(async move {
            let source = script.source().as_str();
            let lasts = ["waits", "computes"].contains(&source);
            if lasts {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let ending = if source == "pipes" { Ending::OutOfMemory } else { Ending::TimedOut };
            let has_slept = source != "computes";
            Ok(Outcome { ending, took_pipes: !lasts, has_slept, ..finished() })
        })
    });
    let scripts = Scripts::new(&settings(), Gateway::blocking(&settings()), Arc::new(executor))
        .with_turns(Turns::new([9, 1, 1], Share::default()));
    let run = async |source: &&str| {
        let permit = Permit::for_test(granted(source, false), None, None);
        let (waits, cancel) = (AtomicBool::default(), CancellationToken::new());
        let limits = RunLimits::of_script(Duration::from_secs(1));
        let request = RunRequest::new(limits, cancel.clone());
        let turn = scripts.turn(&permit, &request, Lane::Calls, &waits, &cancel).await.unwrap();
        scripts.run(&permit, &turn, request).await.unwrap().is_starved
    };
    join_all(sources.iter().map(run)).await
}

#[tokio::test]
async fn a_run_without_pipes_of_the_usual_size_is_starved() {
    assert_eq!(starved(&["waits"]).await, [false]);
    assert_eq!(starved(&["waits", "waits", "pipes"]).await, [true, true, false]);
    // `computes` computes until its timeout, so it was not delayed by a small pipe, and is not starved.
    assert_eq!(starved(&["computes", "pipes"]).await, [false, false]);
    // A script that takes too many pipes itself is not starved.
    assert_eq!(starved(&["both"]).await, [false]);
}

/// Returns the events of the audit log with their outcomes, oldest first.
fn rows(store: &Store) -> Vec<(String, String)> {
    let rows = store.audit_rows(&AuditFilter { limit: 100, ..AuditFilter::default() }).unwrap();
    rows.into_iter().map(|row| (row.event, row.outcome)).collect()
}

fn row(event: &str, outcome: &str) -> (String, String) {
    (event.to_owned(), outcome.to_owned())
}

/// Removes the audit log. Every further append fails, because the store does not write to a removed log.
fn remove_log(folder: &Path) {
    fs::remove_file(folder.join("governance.db-wal")).unwrap();
}

#[tokio::test]
async fn a_run_is_written_down_then_made_then_accounted_for_then_written_down() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let during = Arc::clone(&seen);
    let harness = harness(move |store, _| {
        *during.lock().unwrap() = rows(store);
        Ok(finished())
    });
    assert_eq!(harness.engines(), json!([]));
    assert!(harness.run().await.is_ok());
    assert_eq!(*seen.lock().unwrap(), [row("TOOL_STARTED", "STARTED")]);
    assert_eq!(harness.engines()[0]["name"], "sympy");
    assert_eq!(
        rows(&harness.store),
        [
            row("TOOL_STARTED", "STARTED"),
            row("SANDBOX_EXEC", "SUCCEEDED"),
            row("TOOL_FINISHED", "SUCCEEDED")
        ]
    );
    harness.scripts.settle().await;
    let bill = serde_json::to_value(harness.session.manifest()).unwrap();
    assert!(bill.to_string().contains("3.11.2"), "{bill}");
    assert!(bill.get("incomplete").is_none(), "{bill}");
}

#[tokio::test]
async fn the_log_has_the_digests_of_pictures() {
    let harness = harness(|_, _| {
        let sha256 = "a".repeat(64);
        let picture = Picture { png: b"png".to_vec(), width: 1, height: 1, sha256 };
        let pictures = Pictures { all: vec![picture], left_out: Vec::new() };
        Ok(Outcome { pictures: Arc::new(pictures), ..finished() })
    });
    assert!(harness.run().await.is_ok());
    let filter = AuditFilter { limit: 100, ..AuditFilter::default() };
    let rows = harness.store.audit_rows(&filter).unwrap();
    let ended = rows.iter().find(|row| row.event == "SANDBOX_EXEC").unwrap();
    let details: Value = serde_json::from_str(&ended.details).unwrap();
    assert_eq!(details["pictures"], json!(["a".repeat(64)]));
}

#[tokio::test]
async fn without_a_row_about_its_start_there_is_no_run() {
    let harness = harness(|_, _| Ok(finished()));
    // The first run makes the store create its log.
    assert!(harness.run().await.is_ok());
    remove_log(harness.folder.path());
    let error = harness.run().await.unwrap_err();
    assert!(matches!(error, ScriptError::NotAudited), "{error}");
    assert_eq!(harness.executor.runs(), 1);
}

#[tokio::test]
async fn a_script_starts_only_while_the_proof_of_its_caller_holds() {
    let harness = harness(|_, _| Ok(finished()));
    let create = |span| {
        let store = harness.store.clone();
        tokio::task::spawn_blocking(move || {
            let user = "ann".parse().unwrap();
            store.create_token(&user, Role::User, span).unwrap().0.id
        })
    };
    let active = create(None).await.unwrap();
    let expired = create(Some(Duration::ZERO)).await.unwrap();
    let revoked = create(None).await.unwrap();
    let store = harness.store.clone();
    tokio::task::spawn_blocking(move || store.revoke(revoked).unwrap()).await.unwrap();
    let access = |seconds| Proof::Access { expires: Utc::now() + TimeDelta::seconds(seconds) };
    let unknown = "77".parse().unwrap();
    for (proof, may_run) in [
        (Proof::Token(active), true),
        (Proof::Token(expired), false),
        (Proof::Token(revoked), false),
        (Proof::Token(unknown), false),
        (access(60), true),
        (access(-1), false),
    ] {
        let before = harness.executor.runs();
        let ran = harness.run_with(Some(proof)).await;
        assert_eq!(harness.executor.runs() - before, usize::from(may_run), "{proof:?}");
        if !may_run {
            assert!(matches!(ran, Err(ScriptError::NotLetIn)), "{proof:?} {ran:?}");
            assert_eq!(rows(&harness.store).last(), Some(&row("TOOL_FINISHED", "NOT_RUN")));
        }
    }
    // The script does not run if the store cannot be read, or if the server has no store.
    remove_log(harness.folder.path());
    let ran = harness.run_with(Some(Proof::Token(active))).await;
    assert!(ran.is_err());
    let without_store = scripts();
    let required = without_store.require(Some(Proof::Token(active)), None).await;
    assert!(matches!(required, Err(ScriptError::TokensAway)), "{required:?}");
    assert!(without_store.require(Some(access(60)), None).await.is_ok());
    assert_eq!(harness.executor.runs(), 2);
}

#[tokio::test]
async fn nobody_hears_of_an_end_that_is_not_written_down() {
    let harness = harness(|_, folder| {
        remove_log(folder);
        Ok(finished())
    });
    let error = harness.run().await.unwrap_err();
    assert!(matches!(error, ScriptError::EndNotAudited), "{error}");
    // The engines of the script are recorded, because the script ran.
    assert_eq!(harness.engines()[0]["name"], "sympy");
}

#[tokio::test]
async fn a_run_that_never_started_is_written_down_and_not_accounted_for() {
    let harness = harness(|_, _| Err(RunError::SupervisorDied));
    let error = harness.run().await.unwrap_err();
    assert!(matches!(error, ScriptError::Run(RunError::SupervisorDied)), "{error}");
    assert_eq!(
        rows(&harness.store),
        [row("TOOL_STARTED", "STARTED"), row("TOOL_FINISHED", "NOT_RUN")]
    );
    assert_eq!(harness.engines(), json!([]));
}

#[tokio::test]
async fn a_panic_of_the_executor_is_written_down_as_an_end() {
    let harness = harness(|_, _| panic!("a test asked for this"));
    let error = harness.run().await.unwrap_err();
    assert!(matches!(error, ScriptError::Run(RunError::Panicked)), "{error}");
    assert_eq!(rows(&harness.store).last(), Some(&row("TOOL_FINISHED", "NOT_RUN")));
}

#[tokio::test]
async fn an_interpreter_that_is_installed_later_is_found() {
    let executor = FakeExecutor::new(|_, _, _| Box::pin(async { Ok(finished()) }));
    executor.is_found_later.store(true, Ordering::Relaxed);
    let scripts = Scripts::new(&settings(), Gateway::blocking(&settings()), Arc::new(executor));
    assert!(scripts.readiness().await.unwrap().is_none() && scripts.tier().is_none());
    assert!(scripts.readiness().await.unwrap().is_some());
    assert_eq!(scripts.tier(), Some("T3"));
}

#[tokio::test]
async fn a_large_script_is_analysed_aside() {
    let scripts = scripts();
    let small = "#".repeat(ANALYSED_IN_PLACE_BYTES_MAX);
    assert!(scripts.decide(request(&small)).now_or_never().is_some());
    // The analysis of this script takes longer than the start of the thread that analyses it.
    let large = "x = 1\n".repeat(20_000);
    let mut decided = Box::pin(scripts.decide(request(&large)));
    assert!((&mut decided).now_or_never().is_none(), "it holds up the runtime");
    assert!(matches!(decided.await, Decided::Allowed { .. }));
}

/// Large jobs are analysed on other threads, because one thread runs all tasks of a server and renews the leases of
/// shared jobs.
#[tokio::test]
async fn large_jobs_are_decided_again_without_holding_up_the_renewal_of_leases() {
    use crate::gateway::{JobId, JobOwner};

    let (scripts, never) = (scripts(), CancellationToken::new());
    let job = |source: &str| PlacedScript {
        source: source.to_owned(),
        inputs: Inputs::default(),
        verification_id: "a".repeat(64),
        owner: JobOwner { job: JobId::fresh(), user: "ann".to_owned() },
        asked_by: AskedBy::default(),
        proof: None,
    };
    let small =
        scripts.decide_again(job("print(1)"), &never).now_or_never().expect("at once").unwrap();
    assert_eq!(small.user().map(ToString::to_string).as_deref(), Some("ann"));
    let large = "x = 1\n".repeat(1024 * 1024 / 6);
    let mut five: Vec<_> =
        (0..5).map(|_| Box::pin(scripts.decide_again(job(&large), &never))).collect();
    for decided in &mut five {
        assert!(decided.now_or_never().is_none(), "it holds up the runtime");
    }
    for decided in five {
        assert!(decided.await.is_ok());
    }
    let refused = scripts.decide_again(job("eval('1')"), &never).await.unwrap_err().to_string();
    assert!(
        refused.starts_with("the server that was to run it does not allow it: QWED"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_refusal_leaves_a_receipt_and_what_is_allowed_is_in_the_bill() {
    let folder = tempfile::tempdir().unwrap();
    let store = KeyStore::new(folder.path().join("keys"));
    let key = store.generate(false).unwrap();
    let place = folder.path().join("receipts");
    let receipts = Receipts::new(key, &store.signing_key(), &place, true, true).unwrap();
    let session = Arc::new(Session::new(None));
    let scripts =
        scripts().with_session(Some(Arc::clone(&session))).with_receipts(Some(&Arc::new(receipts)));
    let bill = || serde_json::to_value(session.manifest()).unwrap().to_string();
    let refused = scripts.decide(request("eval('1')")).await;
    let Decided::Refused { receipt: Some(receipt), .. } = refused else { panic!("{refused:?}") };
    assert!(place.join(receipt.path).is_file());
    assert!(!bill().contains("execute_python_code"));
    assert!(matches!(scripts.decide(request("1")).await, Decided::Allowed { .. }));
    assert!(bill().contains("execute_python_code"), "{}", bill());
}
