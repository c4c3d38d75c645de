//! The writer of receipts: creates a statement about a call, signs it, and stores it in a file. This module never
//! decides about a call.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use super::keys::{SigningKey, to_milliseconds};
use super::outputs::{ReservedOutputs, remove_abandoned_outputs};
use super::reserved::{ReservedFile, remove_abandoned};
use super::statement::Verification;
use super::statement::{
    CONTEXT_TYPE, Decision, Limits, PREDICATE_TYPE, ResourceDescriptor, Run, Sandbox, Statement,
    Subject, TEST_RESULT_TYPE, TestResult,
};
use super::{Predicate, envelope, head, sha256};
use crate::canonical_json::canonical_json;
use crate::environments;
use crate::executor::{
    Ending, Environment, EnvironmentCache, Executor, InReach, Outcome, RunError, RunLimits, Start,
    Surroundings, UntrustedFolder,
};
use crate::gateway::{AskedBy, AuthorizedScript, DecisionRecord, ErrorCode, Form, Status, Tool};
use crate::ledger::AuditPlace;
use crate::logging::Causes;
use crate::sandbox::{Tier, may_be_readable};
use crate::verification::RULES_SHA256;
use crate::verification::differences::{self, Differences, Names};

/// The name of the subject for the script.
pub(crate) const SCRIPT: &str = "script.py";
/// The name of the subject for the expression that a test evaluated after the script.
pub(crate) const CALL: &str = "call";
/// The prefix of the name of a subject for a file that was passed with the script.
pub(crate) const INPUT: &str = "inputs/";

/// The maximum number of files of a run of tests that become subjects of its receipt.
const SUBJECTS_MAX: usize = 1000;

/// The disk space that is reserved for the receipt of a script, in bytes. The space for the environment is added to
/// this number. The other parts of a receipt take about two kilobytes, plus the length of the texts from the client.
const RESERVED_BYTES: u64 = 16 * 1024;

/// The disk space that is reserved for a Verification Context, in bytes. Its statement takes at most 16 KiB, and its
/// list of checks has at most 64 entries.
const RESERVED_FOR_DOCUMENT_BYTES: u64 = 64 * 1024;

/// The disk space that is reserved for each receipt of a run of tests, in bytes. A receipt with a thousand files has
/// 200 KiB.
const RESERVED_FOR_TESTS_BYTES: u64 = 512 * 1024;

/// The reason why a receipt was not written. Clients receive the text of this error, so the text contains no path. The
/// log has the details.
#[derive(Debug, Error)]
pub(crate) enum WriteError {
    /// Scripts or tests could read the signing key. This is checked before the run, so the script was not run.
    #[error(
        "scripts or tests can read the key that signs receipts, so nothing is run; ask the admin \
         to keep it elsewhere"
    )]
    KeyInReach,
    /// The tier of the sandbox does not keep scripts away from the signing key. This is checked before the run, so the
    /// script was not run.
    #[error(
        "scripts run at tier {0} here, which does not keep them away from the key that signs \
         receipts, so \
         nothing is run; ask the admin to look at the server's log"
    )]
    Tier(Tier),
    /// The environment could not be described. The description is created before the run, so the script was not run.
    #[error(
        "the interpreter cannot be described for a receipt, so nothing is run; ask the admin to \
         look at the \
         server's log"
    )]
    Environment(#[source] io::Error),
    /// The disk space for the receipt could not be reserved. The space is reserved before the run, so the script was
    /// not run.
    #[error(
        "no disk space could be reserved for its receipt, so nothing is run; ask the admin to look \
         at the server's log"
    )]
    NoRoom(#[source] io::Error),
    #[error("its receipt cannot be written")]
    Statement(#[from] serde_json::Error),
    #[error("its receipt cannot be stored")]
    Store(#[source] io::Error),
    #[error("the task that writes its receipt stopped unexpectedly")]
    GivenUp,
}

/// The digest and the path of a stored receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Stored {
    /// The SHA-256 of the receipt's file.
    pub(crate) sha256: String,
    /// The path of the receipt's file, relative to the folder of receipts.
    pub(crate) path: String,
}

/// Writes the receipts of this process.
#[derive(Debug)]
pub(crate) struct Receipts {
    key: SigningKey,
    /// The canonical path of the file with the signing key.
    key_file: PathBuf,
    folder: PathBuf,
    /// Whether a receipt is synced to the disk before the caller receives the result.
    syncs: bool,
    /// Whether scripts also have receipts. Otherwise only runs of tests have receipts.
    of_scripts: bool,
    /// Whether the output of scripts, and their Verification Contexts, are stored next to their receipts.
    keeps_outputs: bool,
    environment: EnvironmentCache,
    /// Set after a check has shown that scripts cannot reach the signing key.
    is_key_safe: OnceLock<()>,
}

/// The parts of a script's receipt that are known before the run.
#[derive(Debug)]
pub(crate) struct Draft {
    receipts: Arc<Receipts>,
    verification_id: String,
    findings: usize,
    asked_by: AskedBy,
    subject: Vec<Subject>,
    inputs: BTreeMap<String, Form>,
    differences: Differences,
    limits: RunLimits,
    surroundings: Option<(Arc<Surroundings>, Arc<Environment>)>,
    started: DateTime<Utc>,
    room: ReservedFile,
    kept: Option<Kept>,
}

/// The disk space that is reserved for the files that are stored next to a receipt.
#[derive(Debug)]
struct Kept {
    outputs: ReservedOutputs,
    document: ReservedFile,
}

/// The disk space that is reserved for the two receipts of a run of tests.
#[derive(Debug)]
pub(crate) struct RoomForTests([ReservedFile; 2]);

/// The data about a run of tests that is written to the receipts of this run.
#[derive(Debug)]
pub(crate) struct TestRun {
    pub(crate) run_id: String,
    pub(crate) user: String,
    pub(crate) token: String,
    pub(crate) status: &'static str,
    /// The code of the error that the caller receives, if the run was refused or failed.
    pub(crate) error_code: Option<String>,
    pub(crate) policy_sha256: String,
    pub(crate) arguments: Value,
    /// The files that the run left, each as its path and its SHA-256.
    pub(crate) files: Vec<(String, String)>,
    /// The ids of the tests that are known to have failed.
    pub(crate) failed: Vec<String>,
    pub(crate) has_passed: bool,
    /// The number of tests for each outcome.
    pub(crate) counts: Value,
    pub(crate) limits: Limits,
    pub(crate) run: Option<Run>,
    pub(crate) tier: Option<Tier>,
}

impl Receipts {
    /// Creates a writer of receipts in `folder`. Creates the folder if it does not exist, and removes abandoned drafts
    /// in it.
    pub(crate) fn new(
        key: SigningKey,
        key_file: &Path,
        folder: &Path,
        syncs: bool,
        of_scripts: bool,
    ) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        remove_abandoned(folder);
        remove_abandoned_outputs(folder);
        Ok(Self {
            key,
            key_file: fs::canonicalize(key_file)?,
            folder: fs::canonicalize(folder)?,
            syncs,
            of_scripts,
            keeps_outputs: false,
            environment: EnvironmentCache::default(),
            is_key_safe: OnceLock::new(),
        })
    }

    /// Sets whether the output of scripts is stored next to their receipts.
    pub(crate) fn with_outputs(self, keeps_outputs: bool) -> Self {
        Self { keeps_outputs, ..self }
    }

    /// Returns the writer if scripts have receipts. `None` otherwise.
    pub(crate) fn of_scripts(self: &Arc<Self>) -> Option<&Arc<Self>> {
        self.of_scripts.then_some(self)
    }

    pub(super) fn key(&self) -> &SigningKey {
        &self.key
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Signs a head of the audit log. Returns the signed head as one line.
    pub(crate) fn sign_head(&self, place: &AuditPlace) -> serde_json::Result<Vec<u8>> {
        head::sign(place, &self.key)
    }

    /// Describes the environment in which `executor` runs tests. Returns `None` if the executor cannot run anything, or
    /// if the environment cannot be described.
    pub(crate) async fn environment_of(
        self: &Arc<Self>,
        executor: &dyn Executor,
    ) -> Option<Arc<Environment>> {
        let surroundings = executor.surroundings().await?;
        self.environment(&surroundings).await.ok()
    }

    /// Begins the receipt of a script that is about to run. If this function fails, the script must not run.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        script: &AuthorizedScript,
        limits: RunLimits,
        executor: &dyn Executor,
    ) -> Result<Draft, WriteError> {
        // `None` means that no interpreter or no sandbox is available. The receipt then records that the script was not
        // run.
        let surroundings = match executor.surroundings().await {
            Some(surroundings) => {
                self.require_safe_key(&surroundings)?;
                let environment = self.environment(&surroundings).await?;
                Some((surroundings, environment))
            }
            None => None,
        };
        let mut subject = vec![Subject::new(SCRIPT, sha256(script.source().as_str()))];
        if !script.stdin().is_empty() {
            subject.push(Subject::new("stdin", sha256(script.stdin())));
        }
        for (name, sha256) in script.inputs().digests() {
            subject.push(Subject::new(format!("{INPUT}{name}"), sha256.to_owned()));
        }
        if !script.call().is_empty() {
            subject.push(Subject::new(CALL, sha256(script.call())));
        }
        let names = script.names().map(Names::of);
        let differences = Differences::of(names, script.source().as_str());
        let environment = surroundings.as_ref().map(|(_, environment)| Arc::clone(environment));
        let receipts = Arc::clone(self);
        let reserved = blocking(move || {
            receipts.reserve(environment.as_deref(), limits).map_err(WriteError::NoRoom)
        });
        let (room, kept) = reserved.await??;
        Ok(Draft {
            room,
            kept,
            receipts: Arc::clone(self),
            verification_id: script.verification_id().to_string(),
            findings: script.findings(),
            asked_by: script.asked_by().clone(),
            subject,
            inputs: script
                .inputs()
                .files()
                .map(|(name, form, _)| (name.to_owned(), form))
                .collect(),
            differences,
            limits,
            surroundings,
            started: Utc::now(),
        })
    }

    /// Reserves disk space for the receipt of a script, and for its outputs and its Verification Context if they are
    /// stored. Blocks on the disk.
    fn reserve(
        &self,
        environment: Option<&Environment>,
        limits: RunLimits,
    ) -> io::Result<(ReservedFile, Option<Kept>)> {
        let environment = serde_json::to_vec(&environment)?.len();
        // The envelope contains the environment as base64, which encodes three bytes as four bytes.
        let environment = u64::try_from(environment.saturating_mul(4) / 3).unwrap_or(u64::MAX);
        let room = ReservedFile::new(&self.folder, RESERVED_BYTES.saturating_add(environment))?;
        let of_stream = u64::try_from(limits.output_bytes_max).unwrap_or(u64::MAX);
        let keep = || {
            let outputs = ReservedOutputs::new(&self.folder, of_stream)?;
            let document = ReservedFile::new(&self.folder, RESERVED_FOR_DOCUMENT_BYTES)?;
            Ok::<_, io::Error>(Kept { outputs, document })
        };
        Ok((room, self.keeps_outputs.then(keep).transpose()?))
    }

    /// Reserves disk space for the receipts of a run of tests. If this function fails, the tests must not run.
    pub(crate) async fn reserve_for_tests(self: &Arc<Self>) -> Result<RoomForTests, WriteError> {
        let receipts = Arc::clone(self);
        let reserve = move || ReservedFile::new(&receipts.folder, RESERVED_FOR_TESTS_BYTES);
        let both = blocking(move || Ok(RoomForTests([reserve()?, reserve()?])));
        both.await?.map_err(WriteError::NoRoom)
    }

    async fn environment(
        self: &Arc<Self>,
        surroundings: &Arc<Surroundings>,
    ) -> Result<Arc<Environment>, WriteError> {
        if let Some(known) = self.environment.known(surroundings) {
            return Ok(known);
        }
        let (receipts, of) = (Arc::clone(self), Arc::clone(surroundings));
        let environment = blocking(move || receipts.environment.get(&of)).await?;
        environment.map_err(WriteError::Environment)
    }

    /// Fails if scripts could read the signing key. After one success the check is skipped, because all scripts can
    /// read the same folders, except for the folders of their environments.
    fn require_safe_key(&self, surroundings: &Surroundings) -> Result<(), WriteError> {
        if self.is_key_safe.get().is_some() {
            return Ok(());
        }
        match surroundings.reach_of([&self.key_file]) {
            None => {}
            Some(InReach::Tier(tier)) => {
                tracing::error!(
                    "receipts need a sandbox that keeps scripts away from the signing key: tier T2 \
                     or T3"
                );
                return Err(WriteError::Tier(tier));
            }
            Some(InReach::Folder { file, folder }) => {
                let (key, path) = (file.display(), folder.display());
                tracing::error!("the signing key {key} is in {path}, which scripts can read");
                return Err(WriteError::KeyInReach);
            }
        }
        self.is_key_safe.get_or_init(|| ());
        Ok(())
    }

    /// Returns whether the signing key is in `folder`. Ignores the subfolder for environments.
    pub(crate) fn has_key_in(&self, folder: &Path) -> bool {
        let holds = |folder: &Path| {
            UntrustedFolder::new(folder).is_some_and(|folder| folder.holds(&self.key_file))
        };
        holds(folder) && !holds(&folder.join(environments::FOLDER))
    }

    /// Fails if one of the folders in `readable` contains the signing key. Tests can read these folders.
    pub(crate) fn require_out_of<'p>(
        &self,
        readable: impl IntoIterator<Item = &'p PathBuf>,
    ) -> Result<(), WriteError> {
        // Skip paths that must never be readable, because another check refuses these paths.
        for folder in readable.into_iter().filter(|folder| may_be_readable(folder)) {
            if UntrustedFolder::new(folder).is_some_and(|folder| folder.holds(&self.key_file)) {
                let (key, folder) = (self.key_file.display(), folder.display());
                tracing::error!("the signing key {key} is in {folder}, which tests can read");
                return Err(WriteError::KeyInReach);
            }
        }
        Ok(())
    }

    /// Writes the receipt of a script that was refused.
    pub(crate) async fn refused(
        self: &Arc<Self>,
        record: &DecisionRecord,
        asked_by: &AskedBy,
        audit: Option<AuditPlace>,
    ) -> Result<Stored, WriteError> {
        let arguments = &record.normalized_arguments;
        let subject = match arguments.get("code").and_then(Value::as_str) {
            Some(code) => Subject::new(SCRIPT, sha256(code)),
            None => of_arguments(&Value::Object(arguments.clone())),
        };
        let decision = Decision {
            error_code: record.error_code.map(|code: ErrorCode| code.as_str().to_owned()),
            ..decision_of_script(
                record.status,
                record.verification_id.as_str(),
                record.findings.len(),
            )
        };
        let predicate = Predicate {
            tool: Tool::ExecutePythonCode.name().to_owned(),
            decision,
            caller: asked_by.clone(),
            audit,
            ..Predicate::default()
        };
        self.write(vec![subject], predicate).await
    }

    /// Writes the receipt of a run of tests that was refused. The subject of the receipt is the call's arguments.
    pub(crate) async fn tests_refused(
        self: &Arc<Self>,
        refused: TestRun,
        audit: Option<AuditPlace>,
    ) -> Result<Stored, WriteError> {
        let subject = vec![of_arguments(&refused.arguments)];
        let predicate = predicate_of_tests(refused, Status::Blocked, audit);
        self.write(subject, predicate).await
    }

    /// Writes the two receipts of a run of tests. One has this project's predicate, and the other has in-toto's
    /// predicate for test results.
    pub(crate) async fn tests(
        self: &Arc<Self>,
        run: TestRun,
        audit: Option<AuditPlace>,
        executor: &dyn Executor,
        room: RoomForTests,
    ) -> Result<[Stored; 2], WriteError> {
        let RoomForTests([room_of_result, room]) = room;
        let surroundings = executor.surroundings().await;
        let receipts = Arc::clone(self);
        blocking(move || {
            let environment = surroundings.as_ref().map(|of| receipts.environment.get(of));
            let environment = environment.transpose().map_err(WriteError::Environment)?;
            let files = run.files.iter().take(SUBJECTS_MAX);
            let mut subject: Vec<Subject> =
                files.map(|(name, sha256)| Subject::new(name, sha256.clone())).collect();
            let arguments = of_arguments(&run.arguments);
            subject.push(arguments.clone());
            let annotations = BTreeMap::from([
                ("runId", Value::from(run.run_id.clone())),
                ("status", Value::from(run.status)),
                ("counts", run.counts.clone()),
            ]);
            let policy = Subject::new("policy", run.policy_sha256.clone());
            let result = TestResult {
                result: if run.has_passed { "PASSED" } else { "FAILED" },
                configuration: [
                    ResourceDescriptor { subject: arguments, annotations },
                    ResourceDescriptor { subject: policy, annotations: BTreeMap::new() },
                ],
                passed_tests: Vec::new(),
                failed_tests: run.failed.clone(),
            };
            let result = Statement::new(subject.clone(), TEST_RESULT_TYPE, result);
            let result = receipts.store(&result, Utc::now(), room_of_result)?;
            let sandbox = surroundings.as_ref().map(|of| Sandbox {
                tier: run.tier.map(|tier| tier.as_str().to_owned()),
                plan_sha256: of.plan_sha256.clone(),
                warm: false,
            });
            let predicate = Predicate {
                environment: environment.as_deref().map(Cow::Borrowed),
                sandbox,
                ..predicate_of_tests(run, Status::AllowVerified, audit)
            };
            let created = predicate.created_on;
            let own = Statement::new(subject, PREDICATE_TYPE, predicate);
            let own = receipts.store(&own, created, room)?;
            Ok([own, result])
        })
        .await?
    }

    async fn write(
        self: &Arc<Self>,
        subject: Vec<Subject>,
        predicate: Predicate<'static>,
    ) -> Result<Stored, WriteError> {
        let receipts = Arc::clone(self);
        let created = to_milliseconds(Utc::now());
        let predicate = Predicate { created_on: created, ..predicate };
        let statement = Statement::new(subject, PREDICATE_TYPE, predicate);
        blocking(move || {
            let room = ReservedFile::new(&receipts.folder, 0).map_err(WriteError::Store)?;
            receipts.store(&statement, created, room)
        })
        .await?
    }

    /// Signs a statement and stores it as a file. Blocks on the disk.
    fn store(
        &self,
        statement: &Statement<impl Serialize>,
        created: DateTime<Utc>,
        room: ReservedFile,
    ) -> Result<Stored, WriteError> {
        let bytes = envelope::seal(&serde_json::to_vec(statement)?, &self.key)?;
        let sha256 = sha256(&bytes);
        let path = format!("{}/{sha256}.json", created.format("%Y-%m-%d"));
        let stored = room.store(&bytes, &self.folder.join(&path), self.syncs);
        stored.map_err(WriteError::Store)?;
        Ok(Stored { sha256, path })
    }
}

impl Draft {
    /// Sets the start of the run to the current time.
    pub(crate) fn start(&mut self) {
        self.started = Utc::now();
    }

    /// Writes the receipt, after the run has ended or could not start.
    pub(crate) async fn conclude(
        self,
        ran: &Result<Outcome, RunError>,
        audit: Option<AuditPlace>,
    ) -> Result<Stored, WriteError> {
        let finished = Utc::now();
        let Self { receipts, mut subject, limits, surroundings, started, room, kept, .. } = self;
        let outcome = ran.as_ref().ok();
        let of_script = subject.clone();
        if let Some(outcome) = outcome {
            let pictures = outcome.pictures.all.iter().enumerate().map(|(index, picture)| {
                Subject::new(format!("picture-{}.png", index + 1), picture.sha256.clone())
            });
            subject.push(Subject::new("stdout", sha256(outcome.stdout.content())));
            subject.push(Subject::new("stderr", sha256(outcome.stderr.content())));
            subject.extend(pictures);
        }
        let kept = kept.zip(outcome).map(|(kept, outcome)| {
            let streams = [&outcome.stdout, &outcome.stderr];
            (kept, streams.map(|stream| stream.content().to_vec()), outcome.verdict.clone())
        });
        let sandbox =
            surroundings.as_ref().zip(outcome).map(|((surroundings, _), outcome)| Sandbox {
                tier: outcome.tier.map(|tier| tier.as_str().to_owned()),
                plan_sha256: surroundings.plan_sha256.clone(),
                warm: outcome.start == Start::Warm,
            });
        let id = &self.verification_id;
        let observed = outcome.and_then(|outcome| outcome.end_report.observed.as_ref());
        let measures =
            |of: &Surroundings| outcome.map_or(of.determinism, |it| of.measures(it.start));
        let determinism = surroundings.as_ref().and_then(|(of, _)| measures(of));
        let streams = outcome.iter().flat_map(|of| [of.stdout.content(), of.stderr.content()]);
        let may_differ_by = self.differences.of_run(determinism, observed, streams);
        let memory_mib = surroundings.as_ref().map_or(0, |(of, _)| of.memory_mib);
        let verdict = outcome.and_then(|outcome| outcome.verdict.as_deref());
        let predicate = Predicate {
            tool: Tool::ExecutePythonCode.name().to_owned(),
            created_on: to_milliseconds(finished),
            decision: decision_of_script(Status::AllowVerified, id, self.findings),
            caller: self.asked_by,
            sandbox,
            limits: Some(Limits {
                wall_ms: milliseconds(limits.timeout),
                memory_mib: limits.memory_mb.map_or(memory_mib, |mib| mib.min(memory_mib)),
                output_bytes: u64::try_from(limits.output_bytes_max).unwrap_or(u64::MAX),
            }),
            run: outcome.map(|outcome| run_of(outcome, started, finished)),
            inputs: self.inputs,
            not_run: ran.as_ref().err().map(ToString::to_string),
            deterministic: determinism.map(|it| it.confirmed(observed).into()),
            may_differ_by: Some(differences::as_texts(&may_differ_by)),
            cached: outcome.and_then(|outcome| outcome.cached.clone()),
            verification: verdict.map(Verification::of),
            audit,
            ..Predicate::default()
        };
        blocking(move || {
            let environment = surroundings.as_ref().map(|(_, environment)| &**environment);
            let environment = environment.map(Cow::Borrowed);
            let created = predicate.created_on;
            if let Some((Kept { outputs, document }, [stdout, stderr], verdict)) = kept {
                let stored = outputs.store(&receipts.folder, [&stdout, &stderr], receipts.syncs);
                stored.map_err(WriteError::Store)?;
                if let Some(verdict) = verdict {
                    let statement = Statement::new(of_script, CONTEXT_TYPE, &verdict.document);
                    receipts.store(&statement, created, document)?;
                }
            }
            let predicate = Predicate { environment, ..predicate };
            receipts.store(&Statement::new(subject, PREDICATE_TYPE, predicate), created, room)
        })
        .await?
    }
}

/// Describes a run for a receipt.
pub(crate) fn run_of(outcome: &Outcome, started: DateTime<Utc>, finished: DateTime<Utc>) -> Run {
    Run {
        started_on: to_milliseconds(started),
        finished_on: to_milliseconds(finished),
        duration_ms: outcome.duration_ms(),
        ending: ending(outcome).to_owned(),
        exit_code: outcome.ending.exit_code(),
        stdout_truncated: outcome.stdout.is_truncated,
        stderr_truncated: outcome.stderr.is_truncated,
        status: None,
    }
}

/// Returns the word by which a receipt describes how a run ended.
pub(crate) fn ending(outcome: &Outcome) -> &'static str {
    match outcome.ending {
        Ending::Exited(_) if outcome.stdout.is_truncated || outcome.stderr.is_truncated => "capped",
        Ending::Exited(0..) => "exited",
        Ending::Exited(_) => "signal",
        Ending::TimedOut => "timeout",
        Ending::Cancelled => "cancelled",
        Ending::OutOfMemory => "memory",
    }
}

fn predicate_of_tests(
    run: TestRun,
    status: Status,
    audit: Option<AuditPlace>,
) -> Predicate<'static> {
    Predicate {
        tool: "run_pytest".to_owned(),
        created_on: to_milliseconds(Utc::now()),
        decision: Decision {
            status: status.as_str().to_owned(),
            id: run.run_id,
            error_code: run.error_code,
            policy_sha256: Some(run.policy_sha256).filter(|sha256| !sha256.is_empty()),
            ..Decision::default()
        },
        caller: AskedBy {
            user: Some(run.user).filter(|user| !user.is_empty()),
            token: Some(run.token).filter(|token| !token.is_empty()),
            ..AskedBy::default()
        },
        limits: run.run.is_some().then_some(run.limits),
        run: run.run.map(|it| Run { status: Some(run.status.to_owned()), ..it }),
        audit,
        ..Predicate::default()
    }
}

fn decision_of_script(status: Status, id: &str, findings: usize) -> Decision {
    Decision {
        status: status.as_str().to_owned(),
        id: id.to_owned(),
        findings,
        rules_sha256: Some(RULES_SHA256.clone()),
        ..Decision::default()
    }
}

/// Returns the subject for a call's arguments. The audit log has the same digest of the arguments.
fn of_arguments(arguments: &Value) -> Subject {
    Subject::new("arguments", sha256(canonical_json(arguments)))
}

fn milliseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Runs blocking work on a separate thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, WriteError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| WriteError::GivenUp)
}

impl WriteError {
    pub(crate) fn log(&self) {
        tracing::error!(error = %Causes(self), "no receipt");
    }
}
