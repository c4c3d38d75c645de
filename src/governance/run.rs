//! Carries out a run: executes pytest in the sandbox, stores the files and the evidence of the run, and records its end
//! in the audit log. Never returns a result before the end is recorded.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};
use uuid::Uuid;

use super::artifacts::{ArtifactError, ENTRIES_MAX, RunFolder, Size, size_of};
use super::call::{Cleared, blocking};
use super::conclusion::{Conclusion, NotRun, Ran};
use super::evidence::{Evidence, PythonRecord, RunStatus};
use super::judge::Judge;
use super::policy::Policy;
use super::pytest::{ENDED_FILE, NO_PYTEST, PytestOrder, PythonPath, REPORT_FILE, RESERVE_FILE};
use super::python::python;
use super::script_audit::{details, figures};
use super::summary::{REPORT_BYTES_MAX, TestSummary};
use super::verdict::Ended;
use super::{Governance, GovernedReply, Refusal, reply};
use crate::executor::{ArtifactFolder, Ending, Outcome, ProjectRun, RunLimits};
use crate::ledger::{AuditEvent, AuditOutcome, AuditPlace, EVIDENCE_SHA256};
use crate::logging::Causes;
use crate::receipt::RoomForTests;
use crate::sandbox::Tier;

/// The interval between two measurements of the size of the tests' files.
const ARTIFACTS_INTERVAL: Duration = Duration::from_millis(100);

/// The text for a caller if the tests were run, but the end of the run could not be recorded.
const END_NOT_WRITTEN: &str = "The tests were run, but their end cannot be written to the audit log. Ask the admin to look at the server's log; get_evidence \
                               may have the result.";

/// The limit for the file that records how pytest ended, in bytes. The record is one line.
const ENDED_BYTES_MAX: u64 = 4096;

/// The server ends a run after this number of consecutive measurements that could not determine the size of the files.
const UNKNOWN_SIZES_MAX: u32 = 5;

/// The limit for all hashed files of a run together, in bytes. Further files are listed without a hash.
const HASHED_BYTES_MAX: u64 = 128 * 1024 * 1024;

struct Reported {
    folder: RunFolder,
    report: Option<TestSummary>,
    /// The record of how pytest ended; `None` if pytest did not reach its end.
    ended: Option<Ended>,
}

impl Governance {
    /// Runs pytest, and returns the reply. Before this method returns, it stores the evidence and records the end of
    /// the run, even if the run fails.
    pub(super) async fn run_pytest(&self, cleared: Cleared) -> Result<GovernedReply, Refusal> {
        // `Governance::settle` waits until this token is dropped.
        let _settled = self.unsettled.token();
        let run_id = cleared.call.run_id;
        let (folder, room) = match self.prepare(run_id).await {
            Ok(prepared) => prepared,
            Err(refusal) => {
                let refused = AuditOutcome::of(refusal.code().name());
                self.finished(&cleared, None, refused, None).await?;
                return Err(refusal);
            }
        };
        let started = SystemTime::now();
        let ran = self.execute(&cleared, &folder).await;
        let python = python(&*self.executor, &cleared.order.workspace).await;
        let is_excessive = matches!(&ran, Ok(Ran { files_size: Size::Above, .. }));
        let Reported { folder, report, ended } = read_reports(folder, is_excessive).await?;
        // Check the installed packages too. The exit code alone does not prove that pytest is missing, because tests
        // can end the process with any exit code.
        let has_no_pytest = python.as_ref().is_some_and(|python| python.pytest.is_none());
        let conclusion = match ran {
            Err(not_run) => not_run.conclusion(),
            Ok(ran) if ran.outcome.ending == Ending::Exited(NO_PYTEST) && has_no_pytest => {
                Conclusion::without_pytest(ran.outcome)
            }
            Ok(ran) => Conclusion::of_run(&cleared.policy, &cleared.judge, ran, report, ended),
        };
        let audited = conclusion.audit_outcome();
        let stored = self.store_evidence(&cleared, folder, &conclusion, started, python).await;
        let sha256 = stored.as_ref().ok().map(|(_, sha256)| sha256.as_str());
        let finished = self.finished(&cleared, conclusion.outcome.as_ref(), audited, sha256).await;
        self.retain();
        let place = finished.map_err(|_| Refusal::Internal(END_NOT_WRITTEN.to_owned()))?;
        let evidence = stored.as_ref().ok();
        let receipt = self.write_receipts(&cleared, &conclusion, evidence, started, place, room);
        let receipt = receipt.await?;
        if let Some(refusal) = conclusion.refusal {
            return Err(refusal);
        }
        let printed = conclusion.outcome.map(|outcome| outcome.printed());
        let (evidence, _) = stored?;
        let reply = reply::of_run(&evidence, &printed.unwrap_or_default());
        Ok(GovernedReply { receipt, ..reply })
    }

    /// Creates the folder of a run, and reserves disk space for the receipts of the run.
    async fn prepare(&self, run_id: Uuid) -> Result<(RunFolder, Option<RoomForTests>), Refusal> {
        let room = self.reserve_receipts().await?;
        let artifacts = Arc::clone(&self.artifacts);
        let folder = blocking(move || artifacts.create_run(run_id)).await?;
        let folder = folder.map_err(|error| {
            tracing::error!(error = %Causes(&error), "cannot create the folder of the run");
            Refusal::Internal("The artifacts cannot be stored.".to_owned())
        })?;
        Ok((folder, room))
    }

    /// Executes the run. Returns after all processes of the run have ended.
    async fn execute(&self, cleared: &Cleared, folder: &RunFolder) -> Result<Ran, NotRun> {
        let Cleared { call, policy, .. } = cleared;
        let (limit, bound) = cleared.budget.remaining().map_err(NotRun::Refused)?;
        let files = folder.files_path();
        let cancel = call.cancel.child_token();
        let Cleared { order, judge, .. } = cleared;
        let project = project_run(policy, order, judge, &files, &self.data_folder, limit);
        let run = self.executor.run_project(project, cancel.clone());
        tokio::pin!(run);
        let bytes_max = policy.budget.artifact_bytes_max;
        tokio::select! {
            outcome = &mut run => {
                let outcome = outcome.map_err(NotRun::Failed)?;
                // Files may have been written since the last measurement.
                let files_size = self.size_of(cleared, &files, bytes_max).await;
                Ok(Ran { outcome, bound, files_size })
            }
            files_size = self.until_too_large(cleared, &files, bytes_max) => {
                cancel.cancel();
                let outcome = run.await.map_err(NotRun::Failed)?;
                Ok(Ran { outcome, bound, files_size })
            }
        }
    }

    /// Waits until the folder `files` is larger than `bytes_max`, or until [`UNKNOWN_SIZES_MAX`] measurements in a row are
    /// incomplete. Returns the last measurement.
    async fn until_too_large(&self, cleared: &Cleared, files: &Path, bytes_max: u64) -> Size {
        if cleared.tier == Some(Tier::T3) {
            // At T3 the kernel limits the size of the folder, so no measurement is necessary.
            return std::future::pending().await;
        }
        let mut ticks = interval(ARTIFACTS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut unseen = 0;
        while unseen < UNKNOWN_SIZES_MAX {
            ticks.tick().await;
            match self.size_of(cleared, files, bytes_max).await {
                Size::Within => unseen = 0,
                // One incomplete measurement is normal, because tests create and remove files. Several in a row are
                // suspicious.
                Size::Unknown => unseen += 1,
                Size::Above => return Size::Above,
            }
        }
        Size::Unknown
    }

    async fn size_of(&self, cleared: &Cleared, files: &Path, bytes_max: u64) -> Size {
        if cleared.tier == Some(Tier::T3) {
            return Size::Within;
        }
        let files = files.to_owned();
        blocking(move || size_of(&files, bytes_max)).await.unwrap_or(Size::Unknown)
    }

    /// Writes the output and the evidence of the run. Returns the evidence and its SHA-256.
    async fn store_evidence(
        &self,
        cleared: &Cleared,
        folder: RunFolder,
        conclusion: &Conclusion,
        started: SystemTime,
        python: Option<PythonRecord>,
    ) -> Result<(Evidence, String), Refusal> {
        let outcome = conclusion.outcome.as_ref();
        let printed = |stream: fn(&Outcome) -> &str| outcome.map_or("", stream).to_owned();
        let (stdout, stderr) =
            (printed(|outcome| &outcome.stdout.text), printed(|outcome| &outcome.stderr.text));
        let mut evidence = Evidence {
            run_id: cleared.call.run_id,
            tool: cleared.call.tool.name().to_owned(),
            user: cleared.caller.user.to_string(),
            status: conclusion.verdict.status,
            reason: conclusion.verdict.reason.clone(),
            exit_code: outcome.map(|outcome| outcome.ending.exit_code()),
            started: started.into(),
            finished: SystemTime::now().into(),
            duration_ms: outcome.map(Outcome::duration_ms),
            arguments: cleared.call.arguments.clone(),
            arguments_hash: cleared.call.arguments_hash.as_str().to_owned(),
            judge: Some(cleared.judge.record()),
            summary: conclusion.summary.clone(),
            artifacts: Vec::new(),
            artifacts_omitted: 0,
            sandbox_tier: outcome
                .and_then(|outcome| outcome.tier)
                .map(|tier| tier.as_str().to_owned()),
            governance: cleared
                .budget
                .usage(conclusion.verdict.status == RunStatus::BudgetExceeded),
            server_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            token: Some(cleared.caller.proof.to_string()),
            policy_sha256: Some(cleared.policy.sha256.clone()),
            python,
            workspace: cleared.workspace.clone(),
        };
        // Compute no hashes for a cancelled call, because the server may be stopping.
        let hashed_bytes_max =
            if cleared.call.cancel.is_cancelled() { 0 } else { HASHED_BYTES_MAX };
        let stored = blocking(move || {
            folder.write_text("stdout.txt", stdout.as_bytes())?;
            folder.write_text("stderr.txt", stderr.as_bytes())?;
            let recorded = folder.records(hashed_bytes_max)?;
            evidence.artifacts = recorded.records;
            // If some files were not visited, at least one file is omitted.
            evidence.artifacts_omitted = recorded.omitted.max(u64::from(recorded.truncated));
            let sha256 = folder.write_evidence(&json!(evidence))?;
            Ok::<_, ArtifactError>((evidence, sha256))
        });
        Ok(stored.await??)
    }

    async fn finished(
        &self,
        cleared: &Cleared,
        outcome: Option<&Outcome>,
        audited: AuditOutcome,
        evidence_sha256: Option<&str>,
    ) -> Result<AuditPlace, Refusal> {
        let caller = Some(&cleared.caller);
        let mut entries = Vec::new();
        // A run without a tier has not started, so it gets no row about the sandbox.
        if let Some(outcome) = outcome.filter(|outcome| outcome.tier.is_some()) {
            let measured = details(&figures(outcome));
            entries.push(cleared.call.entry(AuditEvent::SandboxExec, caller, audited, measured));
        }
        let ended = details(&json!({
            "duration_ms": cleared.budget.elapsed_ms(),
            // This hash protects the evidence, which contains the hashes of other files. The chain of hashes in the
            // audit log protects the hash itself.
            EVIDENCE_SHA256: evidence_sha256,
        }));
        entries.push(cleared.call.entry(AuditEvent::ToolFinished, caller, audited, ended));
        self.append(entries).await
    }
}

/// Describes a run for the executor. Tests may leave files in the folder `files`.
pub(super) fn project_run(
    policy: &Policy,
    order: &PytestOrder,
    judge: &Judge,
    files: &Path,
    data_folder: &Path,
    timeout: Duration,
) -> ProjectRun {
    let passed_on = policy.sandbox.env_whitelist.iter();
    let passed_on = passed_on.filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
    let python_path = PythonPath::of_server(&order.workspace);
    let own = [
        // Python cannot write bytecode, because the project is read-only.
        ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        // The folder in which tests may leave files.
        ("QWED_ARTIFACTS", files.to_string_lossy().into_owned()),
    ];
    let own = own.into_iter().chain(python_path.variable());
    let own = own.map(|(name, value)| (name.to_owned(), value));
    let files_bytes_max = policy.budget.artifact_bytes_max;
    let output_bytes = policy.budget.output_bytes_max;
    ProjectRun {
        source: order.source(judge, &python_path, (files, files_bytes_max), timeout),
        workspace: order.workspace.clone(),
        readable: policy.also_readable().cloned().collect(),
        closed: data_folder.to_owned(),
        artifacts: ArtifactFolder {
            path: files.to_owned(),
            bytes_max: files_bytes_max,
            inodes_max: u64::try_from(ENTRIES_MAX).unwrap_or(u64::MAX),
        },
        environment: passed_on.chain(own).collect(),
        memory_mb: policy.sandbox.memory_limit_mb,
        limits: RunLimits {
            output_bytes_max: usize::try_from(output_bytes).unwrap_or(usize::MAX),
            ..RunLimits::of_script(timeout)
        },
    }
}

/// Reads and removes the reports of pytest. If `is_excessive`, also removes all other files of the tests, because they
/// may have filled the disk.
async fn read_reports(folder: RunFolder, is_excessive: bool) -> Result<Reported, Refusal> {
    blocking(move || {
        let report = folder.read_file(REPORT_FILE, REPORT_BYTES_MAX);
        let mut report = report.and_then(|report| TestSummary::from_report(&report));
        let ended = folder.read_file(ENDED_FILE, ENDED_BYTES_MAX);
        let ended = ended.and_then(|ended| Ended::read(&ended));
        if let (Some(report), Some(ended)) = (&mut report, ended) {
            ended.correct(report);
        }
        for file in [REPORT_FILE, ENDED_FILE, RESERVE_FILE] {
            folder.remove_file(file);
        }
        if is_excessive && let Err(error) = folder.remove_files() {
            tracing::error!(error = %Causes(&error), "cannot remove the files of a run");
        }
        Reported { folder, report, ended }
    })
    .await
}
