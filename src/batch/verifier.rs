//! One line of a batch: decide, run, answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::config::Settings;
use crate::executor::{Echo, Executor, Outcome, RunError, RunLimits, Turns};
use crate::gateway::{
    Arguments, AskedBy, AuthorizedScript, Decision, DecisionRecord, ErrorCode, Evaluation, Grant,
    ReportingGateway, RiskBasedExecutionGateway, Tool,
};
use crate::governance::{Governance, Presented, Proof, UserName};
use crate::receipt::Receipts;
use crate::runs::{Runs, ScriptError};
use crate::sandbox::Tier;
#[cfg(feature = "http")]
use crate::shares::Held;
use crate::shares::ReplyRoom;

use super::Status;
use super::answer::{Answer, RunEnd, TestAnswer, is_as_expected};
use super::ask::{Ask, Test};

/// Scripts up to this size are analysed in place, which takes below a millisecond.
const ANALYSED_IN_PLACE_BYTES_MAX: usize = 8 * 1024;

/// The tries of a line that this machine could not run, and the pause between them.
const ATTEMPTS_MAX: u8 = 2;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(500);

/// The reason why the timeout of a run says nothing of the script.
const STARVED: &str =
    "its time was up, and for most of it other processes kept it from the processors";

/// Takes scripts of a batch through the gateway and the funnel of all runs.
pub(crate) struct Verifier {
    gateway: Gateway,
    executor: Arc<dyn Executor>,
    runs: Arc<Runs>,
    /// The audit log, where scripts come from clients of a server that has one.
    governance: Option<Arc<Governance>>,
    /// The turns and the room of a server, where others run scripts besides.
    shared: Option<Shared>,
    /// A script with tests is not run again once one has failed.
    is_fail_fast: bool,
}

/// What the scripts of pipelines share with calls.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The turns of runs.
    pub(crate) turns: Arc<Turns>,
    /// Room for what was printed and is not read.
    pub(crate) replies: Arc<ReplyRoom>,
}

/// What is done with what the analysis finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Analysis {
    /// It blocks, as for clients.
    Blocks,
    /// It is reported, and the script runs. Tier 3 only.
    Reports,
}

/// The gateway of that.
#[derive(Debug, Clone)]
enum Gateway {
    Blocking(Arc<RiskBasedExecutionGateway>),
    Reporting(Arc<ReportingGateway>),
}

/// The runs of a script, one for each test.
struct TestRuns {
    tests: Vec<TestAnswer>,
    /// The first that did not pass, or the last one.
    shown: Option<(Status, Outcome)>,
    /// The reason why one has no verdict, and whether another try would end the same way.
    error: Option<(String, bool)>,
}

impl Verifier {
    pub(crate) fn new(
        settings: &Settings,
        executor: Arc<dyn Executor>,
        analysis: Analysis,
        is_fail_fast: bool,
        receipts: Option<&Arc<Receipts>>,
    ) -> Self {
        let gateway = match analysis {
            Analysis::Blocks => {
                Gateway::Blocking(Arc::new(RiskBasedExecutionGateway::from_settings(settings)))
            }
            Analysis::Reports => {
                let gateway = ReportingGateway::at_the_word_of_the_admin(settings);
                Gateway::Reporting(Arc::new(gateway))
            }
        };
        let runs = Runs::new(Arc::clone(&executor), None, None).with_receipts(receipts);
        let runs = Arc::new(runs);
        Self { gateway, runs, executor, governance: None, shared: None, is_fail_fast }
    }

    /// Creates one that shares what a server runs scripts with. What the analysis finds blocks.
    #[cfg(feature = "http")]
    pub(crate) fn of_server(
        gateway: Arc<RiskBasedExecutionGateway>,
        executor: Arc<dyn Executor>,
        runs: Arc<Runs>,
        shared: Shared,
        governance: Option<Arc<Governance>>,
    ) -> Self {
        let gateway = Gateway::Blocking(gateway);
        Self { gateway, executor, runs, governance, shared: Some(shared), is_fail_fast: false }
    }

    /// Returns whether a caller may still have scripts run, by the proof that let it in.
    #[cfg(feature = "http")]
    pub(super) async fn may_run(&self, presented: &Presented) -> Result<(), ScriptError> {
        self.runs.require(presented.proof()).await
    }

    /// Waits for room for an answer of so many bytes, until it is read.
    #[cfg(feature = "http")]
    pub(crate) async fn room_for(&self, presented: &Presented, bytes: usize) -> Option<Held> {
        let user = presented.user().map(UserName::as_str);
        self.shared.as_ref()?.replies.room_for(user, bytes).await
    }

    /// Answers a line, which was taken up at `taken`. A panic is an answer too.
    pub(super) async fn answer(
        &self,
        ask: Ask,
        presented: &Presented,
        taken: Instant,
        cancel: CancellationToken,
    ) -> Answer {
        let (id, meta) = (ask.id.clone(), ask.meta.clone());
        let line_sha256 = ask.line_sha256.clone();
        let answer =
            AssertUnwindSafe(self.try_to_answer(ask, presented, &cancel)).catch_unwind().await;
        let answer = answer.unwrap_or_else(|_| {
            infra_error(id.clone(), "the program made a mistake, which its log has".to_owned())
        });
        let waited =
            taken.elapsed().saturating_sub(Duration::from_millis(answer.duration_ms.unwrap_or(0)));
        let analysis = match self.gateway {
            Gateway::Blocking(_) => None,
            Gateway::Reporting(_) => Some("report"),
        };
        Answer { meta, analysis, line_sha256, queue_ms: milliseconds(waited), ..answer }
    }

    /// Ends what lives between runs. No run may be going on.
    pub(crate) async fn shut_down(&self) {
        self.runs.shut_down().await;
        self.executor.shut_down().await;
    }

    /// Answers a line; where this machine may be to blame for the answer, once again.
    async fn try_to_answer(
        &self,
        ask: Ask,
        presented: &Presented,
        cancel: &CancellationToken,
    ) -> Answer {
        let ask = Arc::new(ask);
        for attempt in 1..ATTEMPTS_MAX {
            let answer = self.attempt(&ask, presented, cancel).await;
            if !answer.is_worth_another_try() {
                return Answer { attempt, ..answer };
            }
            if cancel.run_until_cancelled(sleep(ATTEMPT_PAUSE)).await.is_none() {
                return Answer::bare(ask.id.clone(), Status::Cancelled);
            }
        }
        Answer { attempt: ATTEMPTS_MAX, ..self.attempt(&ask, presented, cancel).await }
    }

    async fn attempt(
        &self,
        ask: &Arc<Ask>,
        presented: &Presented,
        cancel: &CancellationToken,
    ) -> Answer {
        let decision = self.decide(ask, cancel).await;
        #[cfg(feature = "http")]
        self.runs.count_decision(decision.record());
        let mut asked_by = AskedBy::default();
        let mut proof = presented.proof();
        if let Some(governance) = &self.governance {
            match governance.script_decided(&decision, presented).await {
                Ok(written) => {
                    (asked_by.user, asked_by.token) = written.user_and_token();
                    proof = written.proof;
                }
                Err(refusal) => return infra_error(ask.id.clone(), refusal.to_string()),
            }
        }
        let (record, script) = match decision {
            Decision::Allow { record, grant: Grant::Execute(script) } => {
                (record, script.with_asked_by(asked_by))
            }
            Decision::Allow {
                record,
                grant: Grant::ExecuteInBackground(_) | Grant::JobStatus(_),
            } => {
                return infra_error(ask.id.clone(), record.message);
            }
            Decision::Refuse(record) => return refused(ask, record),
            Decision::Withdrawn(_) => return Answer::bare(ask.id.clone(), Status::Cancelled),
        };
        let user = presented.user().map(UserName::as_str);
        let runs = self.run(ask, &script, (user, proof), cancel).await;
        Answer {
            verification_id: Some(record.verification_id),
            code_sha256: Some(sha256(&ask.code)),
            findings: record.findings,
            ..runs.into_answer(ask)
        }
    }

    /// Has the gateway and the sandbox decide.
    async fn decide(&self, ask: &Arc<Ask>, cancel: &CancellationToken) -> Decision {
        match &self.gateway {
            Gateway::Blocking(gateway) => {
                let evaluate = |gateway: &RiskBasedExecutionGateway, arguments| {
                    gateway.evaluate(Tool::ExecutePythonCode.name(), arguments)
                };
                match analysed(gateway, ask, evaluate).await {
                    Evaluation::Decided(decision) => decision,
                    Evaluation::Verified(verified) => match self.tier(cancel).await {
                        Some(tier) => verified.confirm(tier.map(|_| ())),
                        None => verified.withdraw(),
                    },
                }
            }
            Gateway::Reporting(gateway) => {
                match analysed(gateway, ask, ReportingGateway::evaluate).await {
                    Err(record) => Decision::Refuse(*record),
                    Ok(reported) => match self.tier(cancel).await {
                        Some(tier) => reported.confirm(tier),
                        None => reported.withdraw(),
                    },
                }
            }
        }
    }

    /// Returns what holds scripts here (`None` without an interpreter), or what is missing for that; `None` if
    /// the batch ended before that was known.
    async fn tier(&self, cancel: &CancellationToken) -> Option<Result<Option<Tier>, String>> {
        let readiness = cancel.run_until_cancelled(self.executor.readiness()).await?;
        let tier = readiness.map(|ready| ready.map(|ready| ready.tier));
        Some(tier.map_err(|missing| missing.to_string()))
    }

    /// Runs a script once for each test. Each of these runs has a turn of its own: a line may have a thousand
    /// tests, and others are not to wait for all of them.
    async fn run(
        &self,
        ask: &Ask,
        script: &AuthorizedScript,
        (user, proof): (Option<&str>, Option<Proof>),
        cancel: &CancellationToken,
    ) -> TestRuns {
        let mut runs = TestRuns { tests: Vec::new(), shown: None, error: None };
        let limits = RunLimits {
            memory_mb: Some(ask.bounds.memory_mb),
            ..RunLimits::of_script(ask.bounds.timeout)
        };
        for test in &ask.tests {
            let script = script.clone().with_stdin(test.stdin.as_bytes().into());
            let (waits, mut turn) = (AtomicBool::default(), None);
            if let Some(Shared { turns, replies }) = &self.shared {
                turn = turns.take_with_room(replies, user, &waits, cancel).await;
                if turn.is_none() {
                    runs.add(test, Outcome::never_started());
                    break;
                }
            }
            let run = self.run_once(script, proof, limits, cancel).await;
            drop(turn);
            match run {
                // Where a test has failed before, that is the verdict.
                Ok(outcome) if outcome.is_starved && !runs.has_failed() => {
                    runs.error = Some((STARVED.to_owned(), false));
                    return runs;
                }
                Ok(outcome) => runs.add(test, outcome),
                Err(error) => {
                    let is_final = matches!(error, ScriptError::NotLetIn);
                    runs.error = Some((error.to_string(), is_final));
                    return runs;
                }
            }
            let has_passed = runs.tests.last().is_some_and(|test| test.passed == Some(true));
            if cancel.is_cancelled() || (self.is_fail_fast && !has_passed) {
                break;
            }
        }
        runs
    }

    /// Runs a script. As long as another run does not end although it was killed, nothing is started, and this waits:
    /// that is no attempt, and says nothing of the line.
    ///
    /// Where scripts can send signals to their supervisor, its death is no defect of this machine: the run counts as one
    /// that SIGKILL ended, so that no script can withdraw from its verdict.
    async fn run_once(
        &self,
        script: AuthorizedScript,
        proof: Option<Proof>,
        limits: RunLimits,
        cancel: &CancellationToken,
    ) -> Result<Outcome, ScriptError> {
        loop {
            let (script, cancel_run) = (script.clone(), cancel.clone());
            let run = self.runs.run(script, proof, limits, cancel_run, Echo::default()).await;
            match run {
                Err(ScriptError::Run(RunError::OthersDoNotEnd)) => {}
                Err(ScriptError::Run(RunError::SupervisorDied)) => {
                    let tier = self.tier(cancel).await.and_then(Result::ok).flatten();
                    return match tier {
                        Some(Tier::T1 | Tier::Off) => Ok(Outcome::killed()),
                        Some(Tier::Seatbelt | Tier::T2 | Tier::T3) | None => run,
                    };
                }
                Ok(_) | Err(_) => return run,
            }
            if cancel.run_until_cancelled(sleep(ATTEMPT_PAUSE)).await.is_none() {
                return Ok(Outcome::never_started());
            }
        }
    }
}

impl TestRuns {
    fn has_failed(&self) -> bool {
        self.tests.iter().any(|test| test.passed != Some(true))
    }

    fn add(&mut self, test: &Test, outcome: Outcome) {
        let status = Status::of(&outcome);
        let expected = test.stdout.as_deref();
        let is_expected =
            expected.is_none_or(|expected| is_as_expected(&outcome.stdout.text, expected));
        let passed = status.verdict(is_expected);
        let has_failed = self.has_failed();
        self.tests.push(TestAnswer { status, passed, duration_ms: outcome.duration_ms() });
        if !has_failed {
            self.shown = Some((status, outcome));
        }
    }

    fn into_answer(self, ask: &Ask) -> Answer {
        let Self { tests, shown, error } = self;
        if let Some((error, is_final)) = error {
            return Answer { is_final, ..infra_error(ask.id.clone(), error) };
        }
        let is_cancelled = tests.iter().any(|test| test.status == Status::Cancelled);
        let Some((status, outcome)) = shown.filter(|_| !is_cancelled) else {
            return Answer::bare(ask.id.clone(), Status::Cancelled);
        };
        let passed = tests.iter().all(|test| test.passed == Some(true));
        let duration_ms = tests.iter().map(|test| test.duration_ms).sum();
        Answer {
            passed: Some(passed),
            duration_ms: Some(duration_ms),
            tests: if ask.has_tests { tests } else { Vec::new() },
            end: Some(RunEnd::of(outcome)),
            ..Answer::bare(ask.id.clone(), status)
        }
    }
}

/// Has a gateway analyse a script, where a large one holds up nobody else.
async fn analysed<G: Send + Sync + 'static, D: Send + 'static>(
    gateway: &Arc<G>,
    ask: &Arc<Ask>,
    evaluate: impl FnOnce(&G, Arguments) -> D + Send + 'static,
) -> D {
    let arguments =
        |ask: &Ask| Arguments::from_iter([("code".to_owned(), json!(ask.code.as_str()))]);
    if ask.code.len() <= ANALYSED_IN_PLACE_BYTES_MAX {
        return evaluate(gateway, arguments(ask));
    }
    let (gateway, ask) = (Arc::clone(gateway), Arc::clone(ask));
    match spawn_blocking(move || evaluate(&gateway, arguments(&ask))).await {
        Ok(decision) => decision,
        // The panic goes on here, where it is an answer.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn refused(ask: &Ask, record: DecisionRecord) -> Answer {
    let status = match record.error_code {
        Some(ErrorCode::SandboxUnavailable) => Status::InfraError,
        Some(_) | None => Status::Blocked,
    };
    Answer {
        verification_id: Some(record.verification_id),
        code_sha256: Some(sha256(&ask.code)),
        findings: record.findings,
        error: Some(record.message),
        ..Answer::bare(ask.id.clone(), status)
    }
}

fn infra_error(id: String, error: String) -> Answer {
    Answer { error: Some(error), ..Answer::bare(id, Status::InfraError) }
}

fn sha256(code: &str) -> String {
    hex::encode(Sha256::digest(code))
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
