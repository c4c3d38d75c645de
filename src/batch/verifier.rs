//! Answers one line of a batch: requests a decision on the script, runs the script, and creates the answer. This module
//! never reads or writes lines.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::executor::{Data, EndReport, Lane, Outcome, RunError, RunLimits};
use crate::gateway::{Accompanying, Arguments, AskedBy, DecisionRecord, ErrorCode};
use crate::ledger::{Presented, UserName};
use crate::sandbox::Tier;
use crate::scripts::{Decided, Permit, Request, RunRequest, ScriptError, ScriptTurn, Scripts};
use crate::shares::Held;
use crate::verdict::Conclusion;
use crate::verification::{Subject, verdict_without_run};

use super::Status;
use super::answer::{Answer, Judge, RunEnd, TestAnswer, is_as_expected};
use super::ask::{Ask, Test};

/// The maximum number of attempts to answer a line. A further attempt is only made if this machine may have caused a
/// bad answer.
const ATTEMPTS_MAX: u8 = 2;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(500);

/// The error if the packages that a script lists are not installed.
const NOT_INSTALLED: &str = "the packages in the script's header could not be installed";

/// The error in the answer if a script timed out because other processes used up the processors or the memory for
/// pipes. Such a timeout does not count as a failure of the script.
const STARVED: &str =
    "it timed out because other processes used the processors or the memory for pipes";

/// The error in the answer if the line expects a result, but scripts could read the expected result at this tier.
const EXPOSED: &str = "expect and tests need tier 2 of the sandbox, tier 3 or Seatbelt: at this tier, scripts can read the expected results";

/// Answers the lines of a batch. It runs each script through [`Scripts`].
pub(crate) struct Verifier {
    scripts: Arc<Scripts>,
    analysis: Analysis,
    /// Whether the remaining tests of a script are skipped after a test has failed.
    is_fail_fast: bool,
    judging: Judging,
}

/// The conditions under which scripts are judged.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Judging {
    /// Whether scripts are also judged at a tier at which they can read the expected results.
    pub(crate) allows_any_tier: bool,
    /// Whether scripts can read a file with the expected results.
    pub(crate) are_answers_readable: bool,
    /// The weakest accepted way of judging. If a script was judged in a weaker way, `passed` is removed from the
    /// answer.
    pub(crate) required: Option<Judge>,
}

/// The effect of findings of the analysis on a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Analysis {
    /// Findings block the script, as they do for clients.
    Blocks,
    /// Findings are reported, but do not block the script. A script with findings runs only at tier T3 of the sandbox.
    Reports,
}

/// The results of a script's runs, one for each test.
struct TestRuns {
    tests: Vec<TestAnswer>,
    /// The run that the answer shows: the first run that did not pass. If all runs passed, the last run.
    shown: Option<(Status, Outcome)>,
    /// The reason why a run has no result. The flag is `true` if another attempt would end in the same way.
    error: Option<(String, bool)>,
}

impl Verifier {
    /// Creates a verifier for `scripts`. The gateway of `scripts` must treat findings as `analysis` requires.
    pub(crate) fn new(scripts: Arc<Scripts>, analysis: Analysis, is_fail_fast: bool) -> Self {
        Self { scripts, analysis, is_fail_fast, judging: Judging::default() }
    }

    pub(crate) fn with_judging(self, judging: Judging) -> Self {
        Self { judging, ..self }
    }

    /// Checks whether a caller may still run scripts: the token that authenticated the caller must still be valid.
    pub(super) async fn may_run(&self, presented: &Presented) -> Result<(), ScriptError> {
        self.scripts.require(presented.proof(), None).await
    }

    /// Reserves memory for an unread answer of this many bytes, and waits until the memory is available. The caller
    /// must drop the returned value after the answer was read, to release the memory.
    pub(crate) async fn room_for(&self, presented: &Presented, bytes: usize) -> Option<Held> {
        let user = presented.user().map(UserName::as_str);
        self.scripts.turns().room_for(user, bytes).await
    }

    /// Answers a line. `taken` is the time at which the line was taken from the input. If the work on the line panics,
    /// the answer has the status `infra_error`.
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
        let answer =
            Answer { meta, analysis, line_sha256, queue_ms: milliseconds(waited), ..answer };
        self.judging.apply_to(answer)
    }

    /// Ends the processes that outlive single runs, such as fork servers. Must not be called while a script runs.
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
            with: Accompanying { calls: ask.calls(), inputs: ask.inputs.clone() },
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
        if ask.is_judged() && !self.judging.allows_any_tier {
            let tier = self.tier(cancel).await;
            if tier.is_some_and(|tier| !tier.hides_files()) {
                return Answer {
                    is_final: true,
                    ..infra_error(ask.id.clone(), EXPOSED.to_owned())
                };
            }
        }
        let runs = self.run(ask, &permit, cancel).await;
        Answer {
            verification_id: Some(record.verification_id),
            code_sha256: Some(sha256(&ask.code)),
            findings: record.findings,
            ..runs.into_answer(ask, self.judging)
        }
    }

    /// Runs a script once for each test. Each run waits in the queue separately, so that other lines do not wait for
    /// all tests of this line.
    async fn run(&self, ask: &Ask, permit: &Permit, cancel: &CancellationToken) -> TestRuns {
        let mut runs = TestRuns { tests: Vec::new(), shown: None, error: None };
        let limits = RunLimits {
            memory_mb: Some(ask.bounds.memory_mb),
            ..RunLimits::of_script(ask.bounds.timeout)
        };
        let mut calls = 0..;
        for test in &ask.tests {
            let call = test.call().and_then(|_| calls.next());
            let waits = AtomicBool::default();
            let stdin = match test {
                Test::Output { stdin, .. } => stdin.as_bytes(),
                Test::Call { .. } => b"",
            };
            let request =
                RunRequest { stdin: stdin.into(), call, ..RunRequest::new(limits, cancel.clone()) };
            let turn = self.scripts.turn(permit, &request, Lane::Calls, &waits, cancel).await;
            let Some(turn) = turn else {
                runs.add(test, Outcome::never_started());
                break;
            };
            if turn.lacks_packages() {
                runs.error = Some((NOT_INSTALLED.to_owned(), false));
                return runs;
            }
            let run = self.run_once(permit, turn, &request, cancel).await;
            match run {
                // Other processes used the processors or the memory for pipes, so the timeout proves nothing about
                // the script. But if an earlier test has failed, the script has failed in any case.
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

    /// Runs a script once, for a test. No run can start while processes of an earlier, killed run still exist. This
    /// function waits until they have ended. The wait does not count as an attempt to answer the line.
    ///
    /// At tier T1 and without a sandbox, a script can kill its supervisor with a signal. So if the supervisor dies at
    /// these tiers, the run is reported as ended by SIGKILL, which fails the test. If the death were reported as a
    /// defect of this machine, a script could avoid a failed test by killing its supervisor.
    async fn run_once(
        &self,
        permit: &Permit,
        turn: ScriptTurn,
        request: &RunRequest,
        cancel: &CancellationToken,
    ) -> Result<Outcome, ScriptError> {
        loop {
            let run = self.scripts.run(permit, &turn, request.clone()).await;
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
        let mut answer = TestAnswer {
            status,
            passed: None,
            duration_ms: outcome.duration_ms(),
            cached: outcome.cached.is_some(),
            got: None,
            error: None,
        };
        let is_expected = match test {
            Test::Output { stdout, .. } => {
                stdout.as_deref().map(|expected| is_as_expected(outcome.stdout.content(), expected))
            }
            Test::Call { value, check, .. } => {
                let found = value_of(&outcome);
                let is_expected = found.as_ref().is_ok_and(|found| {
                    Data::expected(value).is_ok_and(|expected| check.accepts(found, &expected))
                });
                match found {
                    Ok(found) if !is_expected => answer.got = Some(found.text()),
                    Err(error) if status == Status::Ok => answer.error = Some(error),
                    // Add nothing if the value is the expected value, or if the status already explains why the value
                    // is missing.
                    Ok(_) | Err(_) => {}
                }
                Some(is_expected)
            }
        };
        answer.passed = status.verdict(is_expected);
        let has_failed = self.has_failed();
        self.tests.push(answer);
        if !has_failed {
            self.shown = Some((status, outcome));
        }
    }

    fn into_answer(self, ask: &Ask, judging: Judging) -> Answer {
        let Self { tests, shown, error } = self;
        if let Some((error, is_final)) = error {
            return Answer { is_final, ..infra_error(ask.id.clone(), error) };
        }
        let is_cancelled = tests.iter().any(|test| test.status == Status::Cancelled);
        let Some((status, outcome)) = shown.filter(|_| !is_cancelled) else {
            return Answer::bare(ask.id.clone(), Status::Cancelled);
        };
        let has_passed = tests.iter().all(|test| test.passed == Some(true));
        // If the batch ended between two tests, the result of the remaining tests is unknown.
        if has_passed && tests.len() < ask.tests.len() {
            return Answer::bare(ask.id.clone(), Status::Cancelled);
        }
        let passed = ask.is_judged().then_some(has_passed);
        let cached = tests.iter().all(|test| test.cached);
        let duration_ms = tests.iter().map(|test| test.duration_ms).sum();
        Answer {
            passed,
            judged: passed.map(|_| judging.judge_of(&outcome)),
            cached,
            duration_ms: Some(duration_ms),
            tests: if ask.has_tests { tests } else { Vec::new() },
            verification: outcome.verdict.clone(),
            end: Some(RunEnd::of(outcome)),
            ..Answer::bare(ask.id.clone(), status)
        }
    }
}

/// Returns the value of a call, or the reason why the value is missing.
fn value_of(outcome: &Outcome) -> Result<Data, String> {
    let EndReport { reached_end, value, returned: _, observed: _, members: _ } =
        &outcome.end_report;
    match value {
        Some(value) => Data::decode(value).map_err(|error| error.to_string()),
        None if *reached_end => Err("the call did not return exactly one value".to_owned()),
        None => Err("the script ended before the call".to_owned()),
    }
}

impl Judging {
    /// Returns the way in which a run was judged. A run without a tier was killed before its outcome was known. For
    /// such a run, this function assumes that the script could read the expected results.
    fn judge_of(self, outcome: &Outcome) -> Judge {
        let is_hidden = outcome.tier.is_some_and(Tier::hides_files) && !self.are_answers_readable;
        if is_hidden { Judge::Isolated } else { Judge::Exposed }
    }

    /// Removes `passed` from an answer, and sets `incomplete`, if the script was judged in a weaker way than
    /// `required`.
    fn apply_to(self, answer: Answer) -> Answer {
        let is_verdict = answer.status.verdict(Some(true)).is_some();
        match self.required {
            Some(required) if is_verdict && answer.judged < Some(required) => {
                Answer { passed: None, incomplete: true, ..answer }
            }
            Some(_) | None => answer,
        }
    }
}

fn refused(ask: &Ask, record: DecisionRecord) -> Answer {
    let is_gate_closed = record.error_code == Some(ErrorCode::AdminGateClosed);
    let status = match record.error_code {
        Some(ErrorCode::SandboxUnavailable | ErrorCode::AdminGateClosed) => Status::InfraError,
        Some(_) | None => Status::Blocked,
    };
    let passed = status.verdict(ask.is_judged().then_some(false));
    Answer {
        passed,
        // The script did not run, so it could not affect the verdict.
        judged: passed.map(|_| Judge::Isolated),
        verification_id: Some(record.verification_id),
        code_sha256: Some(sha256(&ask.code)),
        verification: Some(Arc::new(verdict_without_run(
            Conclusion::Blocked,
            &Subject::new(Some(&ask.code), None),
        ))),
        findings: record.findings,
        error: Some(record.message),
        is_final: is_gate_closed,
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

#[cfg(test)]
mod tests {
    use super::super::ask::Bounds;
    use super::*;
    use crate::executor::Ending;

    #[test]
    fn a_line_whose_tests_did_not_all_run_has_not_passed() {
        let line = br#"{"code":"x","tests":[{"stdin":"","stdout":""},{"stdin":"","stdout":""}]}"#;
        let bounds = Bounds { timeout: Duration::from_secs(1), memory_mb: 1024 };
        let ask = Ask::parse(1, line, bounds).unwrap();
        let none = || TestRuns { tests: Vec::new(), shown: None, error: None };
        let (mut part, mut whole) = (none(), none());
        let ended = || Outcome { ending: Ending::Exited(0), ..Outcome::never_started() };
        part.add(&ask.tests[0], ended());
        for test in &ask.tests {
            whole.add(test, ended());
        }
        // `part` contains the run of the first test only, as if the batch was cancelled before the second test.
        let [part, whole] = [part, whole].map(|runs| runs.into_answer(&ask, Judging::default()));
        assert_eq!((part.status, part.passed), (Status::Cancelled, None));
        assert_eq!((whole.status, whole.passed), (Status::Ok, Some(true)));
    }
}
