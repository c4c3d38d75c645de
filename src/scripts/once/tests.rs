use std::collections::BTreeSet;
use std::fs;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

use crate::config::Settings;
use crate::executor::fake::FakeExecutor;
use crate::executor::{
    Captured, Determinism, EndReport, Ending, Lane, Observed, Outcome, RunLimits, Surroundings,
    Turns,
};
use crate::gateway::Gateway;
use crate::gateway::tests::granted;
use crate::sandbox::Tier;
use crate::shares::Share;

use super::super::{Permit, RunRequest, Scripts};

const PURE: &str = "print(6 * 7)";
const LIMITS: Duration = Duration::from_secs(9);

/// The [`Scripts`] under test, with a fake executor. Each run ends only when the test allows it.
struct Machine {
    _folder: TempDir,
    scripts: Scripts,
    executor: Arc<FakeExecutor>,
    /// Each permit of this semaphore lets one run end.
    ends: Arc<Semaphore>,
    ending: Arc<Mutex<Ending>>,
}

impl Machine {
    fn new(turns: usize, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program_file = folder.path().join("python");
        fs::write(&program_file, "python").unwrap();
        let ends = Arc::new(Semaphore::new(0));
        let ending = Arc::new(Mutex::new(Ending::Exited(0)));
        let (each, of_each) = (Arc::clone(&ends), Arc::clone(&ending));
        let number = Arc::new(AtomicUsize::new(0));
        let mut executor = FakeExecutor::new(move |_, _, cancel| {
            let (ends, ending) = (Arc::clone(&each), Arc::clone(&of_each));
            let number = number.fetch_add(1, Ordering::Relaxed) + 1;
            Box::pin(async move {
                let ended = cancel.run_until_cancelled(ends.acquire()).await;
                let text = number.to_string();
                let stdout = Captured { text, ..Captured::default() };
                let observed = Some(Observed { started: Some(0), native: BTreeSet::new() });
                let end_report = EndReport { observed, ..EndReport::default() };
                let tier = Some(Tier::T3);
                let ran = Outcome { stdout, end_report, tier, ..Outcome::never_started() };
                let Some(ended) = ended else { return Ok(ran) };
                ended.unwrap().forget();
                Ok(Outcome { ending: *ending.lock().unwrap(), ..ran })
            })
        });
        executor.surroundings = Some(Arc::new(Surroundings {
            program_file,
            implementation: String::new(),
            version: String::new(),
            packages: Vec::new(),
            own: Vec::new(),
            variables: Vec::new(),
            readable: Vec::new(),
            tier: Tier::T3,
            memory_mib: 1024,
            plan_sha256: String::new(),
            determinism: Some(Determinism::complete()),
            preload: Vec::new(),
        }));
        let executor = Arc::new(executor);
        let lookup = |name: &str| {
            let mut variables = variables.iter().filter(|(known, _)| *known == name);
            let gate = (name == "QWED_MCP_TRUSTED_CODE_EXECUTION").then_some("true");
            gate.or(variables.next().map(|(_, value)| *value)).map(Into::into)
        };
        let settings = Settings::from_lookup(lookup).0;
        let gateway = Gateway::blocking(&settings);
        let shared: Arc<FakeExecutor> = Arc::clone(&executor);
        let scripts = Scripts::new(&settings, gateway, shared)
            .with_turns(Turns::new([turns, 1, 1], Share::default()));
        Self { _folder: folder, scripts, executor, ends, ending }
    }

    fn on(turns: usize) -> Self {
        Self::new(turns, &[("QWED_MCP_ANSWER_ONCE", "on"), ("QWED_MCP_DETERMINISTIC", "on")])
    }

    /// Allows this many runs to end.
    fn end(&self, count: usize) {
        self.ends.add_permits(count);
    }

    /// Polls `calls` until this many runs have begun and this many calls wait for a run. Panics if `calls` completes
    /// earlier.
    async fn poll_until<F: Future>(&self, mut calls: Pin<&mut F>, runs: usize, waiting: usize) {
        let answers = &self.scripts.once.as_ref().unwrap().answers;
        while (self.executor.runs(), answers.waiting()) != (runs, waiting) {
            assert!(calls.as_mut().now_or_never().is_none());
            yield_now().await;
        }
    }

    async fn run(&self, code: &str) -> Outcome {
        self.run_as(code, None, &CancellationToken::new()).await.unwrap()
    }

    /// Runs a script for a user. Returns `None` if the call was cancelled before it had a turn.
    async fn run_as(
        &self,
        code: &str,
        user: Option<&str>,
        cancel: &CancellationToken,
    ) -> Option<Outcome> {
        let user = user.map(|user| user.parse().unwrap());
        let permit = Permit::for_test(granted(code, false), user, None);
        let waits = AtomicBool::default();
        let request = RunRequest::new(RunLimits::of_script(LIMITS), cancel.clone());
        let turn = self.scripts.turn(&permit, &request, Lane::Calls, &waits, cancel).await?;
        assert!(!waits.load(Ordering::Relaxed));
        Some(self.scripts.run(&permit, &turn, request).await.unwrap())
    }
}

fn printed(outcome: &Outcome) -> &str {
    &outcome.stdout.text
}

fn is_cached(outcome: &Outcome) -> bool {
    outcome.cached.is_some()
}

#[tokio::test]
async fn a_script_runs_once_if_its_result_cannot_differ() {
    let machine = Machine::on(1);
    machine.end(9);
    let first = machine.run(PURE).await;
    let second = machine.run(PURE).await;
    assert_eq!((is_cached(&first), is_cached(&second)), (false, true));
    assert_eq!((printed(&first), printed(&second)), ("1", "1"));
    assert_eq!(first.verdict, second.verdict);
    for differs in ["import resource", "import signal", "import threading", "import holidays"] {
        machine.end(2);
        let before = machine.executor.runs();
        assert!(!is_cached(&machine.run(differs).await), "{differs}");
        assert!(!is_cached(&machine.run(differs).await), "{differs}");
        assert_eq!(machine.executor.runs(), before + 2, "{differs}");
    }
}

#[tokio::test]
async fn each_call_runs_its_script_unless_the_admin_wants_otherwise() {
    let [once, same] = ["QWED_MCP_ANSWER_ONCE", "QWED_MCP_DETERMINISTIC"].map(|name| (name, "on"));
    let paths = [once, same, ("QWED_MCP_READ_PATHS", "/srv")];
    for variables in [&[][..], &[("QWED_MCP_ANSWER_ONCE", "off"), same], &[once], &paths] {
        let machine = Machine::new(1, variables);
        machine.end(2);
        machine.run(PURE).await;
        assert!(!is_cached(&machine.run(PURE).await), "{variables:?}");
        assert_eq!(machine.executor.runs(), 2);
    }
}

#[tokio::test]
async fn a_run_that_did_not_end_by_itself_is_not_used_again() {
    for ending in [Ending::TimedOut, Ending::OutOfMemory, Ending::Exited(-9)] {
        let machine = Machine::on(1);
        machine.end(2);
        *machine.ending.lock().unwrap() = ending;
        machine.run(PURE).await;
        assert!(!is_cached(&machine.run(PURE).await), "{ending:?}");
        assert_eq!(machine.executor.runs(), 2);
    }
}

#[tokio::test]
async fn concurrent_calls_of_a_script_run_it_once() {
    for turns in [1, 3] {
        let machine = Machine::on(turns);
        machine.end(1);
        let ran = join_all((0..6).map(|_| machine.run(PURE))).await;
        assert_eq!(machine.executor.runs(), 1);
        assert_eq!(ran.iter().filter(|outcome| is_cached(outcome)).count(), 5);
        assert!(ran.iter().all(|outcome| printed(outcome) == "1"));
    }
}

#[tokio::test]
async fn calls_do_not_wait_for_a_result_that_they_cannot_use() {
    let machine = Machine::on(6);
    *machine.ending.lock().unwrap() = Ending::TimedOut;
    let calls = join_all((0..6).map(|_| machine.run(PURE)));
    tokio::pin!(calls);
    machine.poll_until(calls.as_mut(), 1, 5).await;
    machine.end(1);
    machine.poll_until(calls.as_mut(), 6, 0).await;
    machine.end(5);
    assert!(calls.await.iter().all(|outcome| !is_cached(outcome)));
}

#[tokio::test]
async fn a_call_takes_over_if_the_first_call_is_cancelled() {
    let machine = Machine::on(2);
    let cancel = CancellationToken::new();
    let first = machine.run_as(PURE, None, &cancel);
    tokio::pin!(first);
    machine.poll_until(first.as_mut(), 1, 0).await;
    let others = join_all([machine.run(PURE), machine.run(PURE)]);
    tokio::pin!(others);
    machine.poll_until(others.as_mut(), 1, 2).await;
    cancel.cancel();
    let first = first.await;
    machine.poll_until(others.as_mut(), 2, 1).await;
    machine.end(1);
    let others = others.await;
    assert_eq!(first.unwrap().ending, Ending::Cancelled);
    assert_eq!(others.iter().filter(|outcome| is_cached(outcome)).count(), 1);
    assert!(others.iter().all(|outcome| printed(outcome) == "2"));
    assert_eq!(machine.executor.runs(), 2);
}

#[tokio::test]
async fn a_call_that_waits_for_a_result_can_be_cancelled() {
    let machine = Machine::on(2);
    let cancel = CancellationToken::new();
    let first = machine.run(PURE);
    tokio::pin!(first);
    machine.poll_until(first.as_mut(), 1, 0).await;
    let second = machine.run_as(PURE, None, &cancel);
    tokio::pin!(second);
    machine.poll_until(second.as_mut(), 1, 1).await;
    cancel.cancel();
    assert!(second.await.is_none());
    machine.end(1);
    assert!(!is_cached(&first.await));
    assert_eq!(machine.executor.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_no_longer_than_the_run_may_last() {
    let machine = Machine::on(2);
    let calls = join_all([machine.run(PURE), machine.run(PURE)]);
    tokio::pin!(calls);
    machine.poll_until(calls.as_mut(), 1, 1).await;
    tokio::time::advance(LIMITS * 2).await;
    machine.poll_until(calls.as_mut(), 2, 0).await;
    machine.end(2);
    assert!(calls.await.iter().all(|outcome| !is_cached(outcome)));
}

#[tokio::test]
async fn each_user_has_results_of_its_own() {
    let machine = Machine::on(1);
    machine.end(2);
    let never = CancellationToken::new();
    for (user, is_known) in [("ann", false), ("ann", true), ("bob", false), ("bob", true)] {
        let outcome = machine.run_as(PURE, Some(user), &never).await.unwrap();
        assert_eq!(is_cached(&outcome), is_known, "{user}");
    }
}

#[tokio::test]
async fn a_result_needs_no_turn() {
    let machine = Machine::on(1);
    machine.end(1);
    machine.run(PURE).await;
    let other = machine.run("print(1)");
    tokio::pin!(other);
    machine.poll_until(other.as_mut(), 2, 0).await;
    assert!(is_cached(&machine.run(PURE).await));
    machine.end(1);
    assert!(!is_cached(&other.await));
}

#[tokio::test]
async fn a_change_of_the_interpreter_makes_the_script_run_again() {
    let machine = Machine::on(1);
    machine.end(2);
    machine.run(PURE).await;
    let program = &machine.executor.surroundings.as_ref().unwrap().program_file;
    fs::write(program, "another python").unwrap();
    assert!(!is_cached(&machine.run(PURE).await));
}
