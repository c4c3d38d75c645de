//! Writes receipts for runs of tests and for refused runs. Calls of read tools get no receipts.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::Governance;
use super::call::{Call, Cleared};
use super::conclusion::Conclusion;
use super::evidence::{Evidence, RunStatus};
use super::refusal::Refusal;
use super::tools::GovernedTool;
use crate::executor::Outcome;
use crate::ledger::{AuditPlace, Caller};
use crate::receipt::{Limits, RoomForTests, TestRun, run_of};

/// The name of the evidence in the subjects of a receipt.
const EVIDENCE: &str = "evidence.json";

/// The text for a caller if no disk space for the receipts could be reserved.
const NO_ROOM: &str =
    "No disk space could be reserved for the receipts of the run, so nothing was run.";

/// The text for a caller if the tests were run, but their receipt could not be stored.
const NOT_STORED: &str = "The tests were run, but their receipt cannot be stored. Ask the admin to look at \
                          the server's log; get_evidence may have the result.";

impl Governance {
    /// Reserves disk space for the receipts of a run, if receipts are enabled. If this fails, pytest must not run.
    pub(super) async fn reserve_receipts(&self) -> Result<Option<RoomForTests>, Refusal> {
        let Some(receipts) = &self.receipts else { return Ok(None) };
        let room = receipts.reserve_for_tests().await;
        room.map(Some).map_err(|error| {
            error.log();
            Refusal::Internal(NO_ROOM.to_owned())
        })
    }

    /// Writes the receipts of a run that has ended. Returns the paths and hashes of the receipts for the caller.
    pub(super) async fn write_receipts(
        &self,
        cleared: &Cleared,
        conclusion: &Conclusion,
        evidence: Option<&(Evidence, String)>,
        started: SystemTime,
        place: AuditPlace,
        room: Option<RoomForTests>,
    ) -> Result<Option<Value>, Refusal> {
        let Some((receipts, room)) = self.receipts.as_ref().zip(room) else { return Ok(None) };
        let run = test_run(cleared, conclusion, evidence, started);
        match Box::pin(receipts.tests(run, Some(place), &*self.executor, room)).await {
            Ok([own, result]) => Ok(Some(
                json!({ "sha256": own.sha256, "path": own.path, "test_result": json!(result) }),
            )),
            Err(error) => {
                error.log();
                Err(Refusal::Internal(NOT_STORED.to_owned()))
            }
        }
    }

    /// Writes the receipt of a refused run. An error is only logged.
    pub(super) async fn write_refusal(
        &self,
        call: &Call,
        caller: Option<&Caller>,
        refusal: &Refusal,
        place: AuditPlace,
    ) {
        let Some(receipts) = &self.receipts else { return };
        match call.tool {
            GovernedTool::RunPytest => {}
            GovernedTool::Read(_) => return,
        }
        let refused = TestRun {
            user: caller.map(|caller| caller.user.to_string()).unwrap_or_default(),
            token: caller.map(|caller| caller.proof.to_string()).unwrap_or_default(),
            error_code: Some(refusal.code().name().to_owned()),
            ..of_call(call)
        };
        if let Err(error) = Box::pin(receipts.tests_refused(refused, Some(place))).await {
            error.log();
        }
    }

    /// Fails if the tests of a run could read the key that signs receipts.
    pub(super) fn require_safe_key(&self, policy: &super::Policy) -> Result<(), Refusal> {
        let Some(receipts) = &self.receipts else { return Ok(()) };
        // A key in the data folder is safe, because tests may read nothing in this folder except the environments. If
        // the policy permits tests to read more of the data folder, the executor refuses the run.
        if receipts.has_key_in(&self.data_folder) {
            return Ok(());
        }
        receipts
            .require_out_of(policy.readable())
            .map_err(|error| Refusal::SandboxViolation(error.to_string()))
    }
}

fn of_call(call: &Call) -> TestRun {
    TestRun {
        run_id: call.run_id.to_string(),
        user: String::new(),
        token: String::new(),
        status: "",
        error_code: None,
        policy_sha256: String::new(),
        arguments: Value::Object(call.arguments.clone()),
        files: Vec::new(),
        failed: Vec::new(),
        has_passed: false,
        counts: Value::Null,
        limits: Limits::default(),
        run: None,
        tier: None,
    }
}

fn test_run(
    cleared: &Cleared,
    conclusion: &Conclusion,
    evidence: Option<&(Evidence, String)>,
    started: SystemTime,
) -> TestRun {
    let Cleared { call, caller, policy, .. } = cleared;
    let outcome = conclusion.outcome.as_ref();
    let summary = conclusion.summary.as_ref();
    let files = evidence.map(|(evidence, sha256)| {
        let files = evidence.artifacts.iter();
        let files = files.filter_map(|file| Some((file.path.clone(), file.sha256.clone()?)));
        [(EVIDENCE.to_owned(), sha256.clone())].into_iter().chain(files).collect()
    });
    let failures = summary.iter().flat_map(|summary| &summary.failures);
    let refusal = conclusion.refusal.as_ref();
    TestRun {
        user: caller.user.to_string(),
        token: caller.proof.to_string(),
        status: conclusion.verdict.status.as_str(),
        error_code: refusal.map(|refusal| refusal.code().name().to_owned()),
        policy_sha256: policy.sha256.clone(),
        files: files.unwrap_or_default(),
        failed: failures.map(|failure| failure.name.clone()).collect(),
        has_passed: conclusion.verdict.status == RunStatus::Passed && refusal.is_none(),
        counts: summary.map_or(Value::Null, |summary| {
            json!({
                "passed": summary.passed, "failed": summary.failed, "errors": summary.errors,
                "skipped": summary.skipped, "xfailed": summary.xfailed,
                "deselected": summary.deselected, "uncollected": summary.uncollected,
                "judged": cleared.judge.level,
            })
        }),
        limits: Limits {
            wall_ms: u64::try_from(policy.sandbox.timeout.as_millis()).unwrap_or(u64::MAX),
            memory_mib: policy.sandbox.memory_limit_mb,
            output_bytes: policy.budget.output_bytes_max,
        },
        run: outcome.map(|outcome| run_of(outcome, started.into(), SystemTime::now().into())),
        tier: outcome.and_then(|outcome: &Outcome| outcome.tier),
        ..of_call(call)
    }
}
