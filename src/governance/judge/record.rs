//! Records the list of the admin's tests with their expected outcomes, for `qwed-mcp judge record`. Runs the tests at
//! the level that later runs will have.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::{ExpectedOutcome, Judge, LIST_BYTES_MAX, ListedTest, TestList, UnusableJudge};
use crate::executor::{Ending, Executor, RunError};
use crate::governance::evidence::RunStatus;
use crate::governance::policy::Policy;
use crate::governance::pytest::{ENDED_FILE, PytestOrder, REPORT_FILE};
use crate::governance::run::project_run;
use crate::governance::summary::TestSummary;
use crate::governance::verdict::{Ended, Verdict};

/// The prefix of the keys in [`TestList::kinds`] for imported modules of the workspace.
const IMPORT: &str = "import ";

/// A recorded list of tests.
#[derive(Debug)]
pub(crate) struct RecordedList {
    /// The path of the list's file: `judge.list` in the policy.
    pub(crate) file: PathBuf,
    /// The number of tests in the list.
    pub(crate) tests: usize,
    pub(crate) content: String,
}

/// The reason why no list was recorded.
#[derive(Debug, Error)]
pub(crate) enum RecordError {
    #[error("the policy names no judge.tests and judge.list")]
    NoJudge,
    #[error("the policy has no workspace, or it does not exist")]
    NoWorkspace,
    #[error(transparent)]
    Judge(#[from] UnusableJudge),
    #[error("{0}")]
    Sandbox(String),
    #[error("the tests could not be run")]
    Run(#[from] RunError),
    #[error("there is no folder for the files of the run")]
    Folder(#[from] std::io::Error),
    /// The tests do not test the code in the workspace.
    #[error(
        "the tests import no module of the workspace, so they judge another copy of the code; is the project installed for the interpreter of the tests?"
    )]
    NothingImported,
    /// The tests use too many different functions and attributes of the code under test.
    #[error("the list would be larger than {} MiB; split the tests", LIST_BYTES_MAX >> 20)]
    TooLarge,
    /// The run did not pass. The field describes the run.
    #[error("not every test passed, so nothing was recorded:\n{0}")]
    NotPassed(String),
}

/// Runs the tests in the policy's `judge.tests` against the workspace, and lists them with their outcomes. The tests
/// have no access to `data_folder`.
pub(crate) async fn record_list(
    policy: &Arc<Policy>,
    executor: &dyn Executor,
    data_folder: &Path,
) -> Result<RecordedList, RecordError> {
    let file = policy.judge.list.clone().ok_or(RecordError::NoJudge)?;
    let root = policy.workspace_root.as_deref().ok_or(RecordError::NoWorkspace)?;
    let ready = executor.readiness().await;
    let ready = ready.map_err(|missing| RecordError::Sandbox(missing.to_string()))?;
    let judge = Judge::to_record(policy, ready.map(|ready| ready.tier))?;
    let all = Map::from_iter([("test_path".to_owned(), Value::from("."))]);
    let order = PytestOrder::parse(&all, root, &judge).map_err(|_| RecordError::NoWorkspace)?;
    let folder = tempfile::tempdir()?;
    let files = std::fs::canonicalize(folder.path())?;
    let timeout = policy.sandbox.timeout;
    let project = project_run(policy, &order, &judge, &files, data_folder, timeout);
    let outcome = executor.run_project(project, CancellationToken::new()).await?;
    let report =
        std::fs::read(files.join(REPORT_FILE)).ok().and_then(|it| TestSummary::from_report(&it));
    let ended = std::fs::read(files.join(ENDED_FILE)).ok().and_then(|it| Ended::read(&it));
    let verdict = match outcome.ending {
        Ending::Exited(code) => {
            judge.correct(Verdict::of(code, report.as_ref(), ended), report.as_ref())
        }
        Ending::TimedOut | Ending::Cancelled | Ending::OutOfMemory => {
            Verdict::of_status(RunStatus::Timeout)
        }
    };
    let Some(report) = report.filter(|_| verdict.status == RunStatus::Passed) else {
        let reason = verdict.reason.unwrap_or_else(|| verdict.status.as_str().to_owned());
        let printed = outcome.printed();
        return Err(RecordError::NotPassed(format!("{reason}\n{}", printed.trim_end())));
    };
    let letters = report.judged.outcomes.bytes();
    let tests = report.judged.tests.iter().zip(letters);
    let listed = |(id, letter): (&String, u8)| {
        let outcome = match letter {
            b'p' => ExpectedOutcome::Passed,
            b's' => ExpectedOutcome::Skipped,
            b'x' => ExpectedOutcome::Xfailed,
            _ => return None,
        };
        Some(ListedTest { id: id.clone(), outcome })
    };
    let tests: Option<Vec<_>> = tests.map(listed).collect();
    let Some(tests) = tests else {
        return Err(RecordError::NotPassed("a test was collected, and did not run".to_owned()));
    };
    let kinds = report.judged.kinds;
    if !kinds.keys().any(|question| question.starts_with(IMPORT)) {
        return Err(RecordError::NothingImported);
    }
    let tests_sha256 = judge.record().tests_sha256.unwrap_or_default();
    let list = TestList { format: 1, tests_sha256, level: judge.level, tests, kinds };
    let content = serde_json::to_string_pretty(&list).map_err(std::io::Error::from)? + "\n";
    if u64::try_from(content.len()).unwrap_or(u64::MAX) > LIST_BYTES_MAX {
        return Err(RecordError::TooLarge);
    }
    Ok(RecordedList { file, tests: list.tests.len(), content })
}
