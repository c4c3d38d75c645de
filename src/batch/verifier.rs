//! Answers one line of a batch: decides its script, runs it, and creates the answer. This module never reads or writes
//! lines.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::executor::{Lane, Outcome, RunError, RunLimits, Turn};
use crate::gateway::{Arguments, AskedBy, DecisionRecord, ErrorCode};
use crate::ledger::{Presented, UserName};
use crate::sandbox::Tier;
use crate::scripts::{Decided, Permit, Request, RunRequest, ScriptError, Scripts};
use crate::shares::Held;
use crate::verification::verdict_without_run;

use super::Status;
use super::answer::{Answer, RunEnd, TestAnswer, is_as_expected};
use super::ask::{Ask, Test};

/// The maximum number of attempts to answer a line, if this machine may be the cause of a bad answer.
const ATTEMPTS_MAX: u8 = 2;
/// The pause between two attempts to answer a line.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(500);

/// The reason in the answer if a script timed out because other processes kept it from the processors. Such a timeout
/// does not count as a failure of the script.
const STARVED: &str = "it timed out because other processes kept it from the processors or from pipes of the usual size";

/// Answers the lines of a batch. It passes each script through the one entry for scripts.
pub(crate) struct Verifier {
    scripts: Arc<Scripts>,
    analysis: Analysis,
    /// Whether the runs of a script end when one of its tests has failed.
    is_fail_fast: bool,
}

/// The effect of findings of the analysis on a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Analysis {
    /// Findings block the script, as they do for clients.
    Blocks,
    /// Findings are reported, and the script runs, but at tier T3 only.
    Reports,
}

/// The results of a script's runs, one for each test.
struct TestRuns {
    tests: Vec<TestAnswer>,
    /// The first run that did not pass. If all runs passed, the last run.
    shown: Option<(Status, Outcome)>,
    /// The reason why a run has no result. The flag is `true` if another attempt would end in the same way.
    error: Option<(String, bool)>,
}

impl Verifier {
    /// Creates a verifier for `scripts`. Their gateway must treat findings as `analysis` requires.
    pub(crate) fn new(scripts: Arc<Scripts>, analysis: Analysis, is_fail_fast: bool) -> Self {
        Self { scripts, analysis, is_fail_fast }
    }

    /// Checks whether a caller may still run scripts: the proof that authenticated the caller must still hold.
    pub(super) async fn may_run(&self, presented: &Presented) -> Result<(), ScriptError> {
        self.scripts.require(presented.proof(), None).await
    }

    /// Waits until an answer of this many bytes fits into the memory for unread answers. The memory counts as used
    /// until the returned value is dropped, when the answer is read.
    pub(crate) async fn room_for(&self, presented: &Presented, bytes: usize) -> Option<Held> {
        let user = presented.user().map(UserName::as_str);
        self.scripts.turns().room_for(user, bytes).await
    }

    /// Answers a line. `taken` is the time at which the line was taken from the input. A panic also becomes an answer.
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
        let answer = answer
            .unwrap_or_else(|_| infra_error(id.clone(), "internal error; see the log".to_owned()));
        let waited =
            taken.elapsed().saturating_sub(Duration::from_millis(answer.duration_ms.unwrap_or(0)));
        let analysis = match self.analysis {
            Analysis::Blocks => None,
            Analysis::Reports => Some("report"),
        };
        Answer { meta, analysis, line_sha256, queue_ms: milliseconds(waited), ..answer }
    }

    /// Ends the processes that outlive single runs. No run may be in progress.
    pub(crate) async fn shut_down(&self) {
        self.scripts.shut_down(async {}).await;
    }

    /// Answers a line. If this machine may be the cause of a bad answer, tries again once.
    async fn try_to_answer(
        &self,
        ask: Ask,
        presented: &Presented,
        cancel: &CancellationToken,
    ) -> Answer {
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
        ask: &Ask,
        presented: &Presented,
        cancel: &CancellationToken,
    ) -> Answer {
        let request = Request {
            arguments: Arguments::from_iter([("code".to_owned(), json!(ask.code.as_str()))]),
            presented: presented.clone(),
            asked_by: AskedBy::default(),
            cancel: cancel.clone(),
        };
        let (record, permit) = match self.scripts.decide(request).await {
            Decided::Allowed { record, permit } => (record, permit),
            Decided::Refused { record, .. } => return refused(ask, record),
            Decided::Withdrawn(_) => return Answer::bare(ask.id.clone(), Status::Cancelled),
            Decided::Denied { refusal, .. } => {
                return infra_error(ask.id.clone(), refusal.to_string());
            }
        };
        let runs = self.run(ask, &permit, cancel).await;
        Answer {
            verification_id: Some(record.verification_id),
            code_sha256: Some(sha256(&ask.code)),
            findings: record.findings,
            ..runs.into_answer(ask)
        }
    }

    /// Runs a script once for each test. Each run waits for its own turn. A line may have a thousand tests, and the
    /// scripts of other lines should not wait for all of them.
    async fn run(&self, ask: &Ask, permit: &Permit, cancel: &CancellationToken) -> TestRuns {
        let mut runs = TestRuns { tests: Vec::new(), shown: None, error: None };
        let limits = RunLimits {
            memory_mb: Some(ask.bounds.memory_mb),
            ..RunLimits::of_script(ask.bounds.timeout)
        };
        for test in &ask.tests {
            let waits = AtomicBool::default();
            let turn = self.scripts.turn(permit, Lane::Calls, &waits, cancel).await;
            let Some(turn) = turn else {
                runs.add(test, Outcome::never_started());
                break;
            };
            let run = self.run_once(permit, turn, test, limits, cancel).await;
            match run {
                // A starved run has no result. If a test has failed before, the failed test decides, so the starved run
                // does not matter.
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

    /// Runs a script once. While an earlier run that was killed has not ended, no run can start, so this function waits
    /// and then tries again. The wait does not count as an attempt to answer the line.
    ///
    /// At some tiers, a script can send signals to its supervisor. At such a tier, the death of a supervisor is not
    /// treated as a defect of this machine. The run counts as ended by SIGKILL, so that no script can escape the result
    /// of its test.
    async fn run_once(
        &self,
        permit: &Permit,
        turn: Turn,
        test: &Test,
        limits: RunLimits,
        cancel: &CancellationToken,
    ) -> Result<Outcome, ScriptError> {
        loop {
            let request = RunRequest {
                stdin: test.stdin.as_bytes().into(),
                ..RunRequest::new(limits, cancel.clone())
            };
            let run = self.scripts.run(permit, &turn, request).await;
            match run {
                Err(ScriptError::Run(RunError::OthersDoNotEnd)) => {}
                Err(ScriptError::Run(RunError::SupervisorDied)) => {
                    return match self.tier(cancel).await {
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

    /// Returns the tier of the sandbox. `None` if scripts cannot run on this machine, or if the batch ended before the
    /// tier was known.
    async fn tier(&self, cancel: &CancellationToken) -> Option<Tier> {
        let readiness = cancel.run_until_cancelled(self.scripts.readiness()).await?;
        readiness.ok().flatten().map(|ready| ready.tier)
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
            verification: outcome.verdict.clone(),
            end: Some(RunEnd::of(outcome)),
            ..Answer::bare(ask.id.clone(), status)
        }
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
        verification: Some(Arc::new(verdict_without_run(Some(&ask.code), None))),
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
