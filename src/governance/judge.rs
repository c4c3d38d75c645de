//! Loads the judge, which decides whether a run of tests passes. The judge consists of the required level, the admin's
//! own tests, and the list of these tests with their expected outcomes. A passed run that does not satisfy the judge
//! becomes incomplete.

mod folder;
mod record;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::evidence::RunStatus;
use super::level::{JudgeRecord, Level};
use super::policy::{JudgePolicy, Policy};
use super::summary::TestSummary;
use super::verdict::Verdict;
use crate::executor::UntrustedFolder;
use crate::plain_text::plain_line;
use crate::sandbox::Tier;
use crate::strict_modes::require_protected;
pub(crate) use record::{RecordedList, record_list};

/// The maximum size of the file with the list of tests, in bytes.
const LIST_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The maximum number of tests that are named in the reason for an incomplete run.
const NAMED_MAX: usize = 5;

/// The expected outcome of a test in the judge's list. A test that is expected to be skipped or to fail may also pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExpectedOutcome {
    Passed,
    Skipped,
    Xfailed,
}

/// The list of the admin's tests with their expected outcomes. `qwed-mcp judge record` writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestList {
    /// The version of the format. Only version 1 exists.
    pub(crate) format: u32,
    /// The SHA-256 of the folder of tests.
    pub(crate) tests_sha256: String,
    /// The level at which the list was recorded.
    pub(crate) level: Level,
    pub(crate) tests: Vec<ListedTest>,
    /// The kinds of the results that the code under test returned when the list was recorded. A kind is a coarse
    /// description of a result, such as `number`. A key names a test, and a call or attribute that the test used, such
    /// as `calc.add()`. In later runs, a test fails if it gets a result of another kind. At the level pinned, the map
    /// has only the modules that the tests imported from the workspace.
    #[serde(default)]
    pub(crate) kinds: BTreeMap<String, Vec<String>>,
}

/// A test in the judge's list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListedTest {
    /// The node id in pytest's form, relative to the folder of tests.
    pub(crate) id: String,
    pub(crate) outcome: ExpectedOutcome,
}

/// The folder with the admin's own tests, and the list of these tests with their expected outcomes.
#[derive(Debug, Clone)]
pub(super) struct PinnedTests {
    /// The canonical path of the folder.
    pub(super) folder: PathBuf,
    sha256: String,
    /// The list, and the SHA-256 of its file; `None` in the run that records the list.
    list: Option<(TestList, String)>,
}

/// Decides whether a run of tests passes. The run must have the level that the policy requires. If the admin has pinned
/// tests, every test in their list must also have its expected outcome.
#[derive(Debug, Clone)]
pub(super) struct Judge {
    /// The level at which the tests run.
    pub(super) level: Level,
    /// The level that the policy requires.
    required: Level,
    pub(super) has_control: bool,
    pub(super) pinned: Option<PinnedTests>,
}

/// The reason why a judge cannot be used. The text contains no path.
#[derive(Debug, Error)]
pub(crate) enum UnusableJudge {
    #[error("judge.tests cannot be read: {0}")]
    Tests(String),
    #[error(
        "judge.tests is in the workspace, or contains it, so the code under test could change the tests"
    )]
    InWorkspace,
    #[error(
        "users other than the admin can change judge.tests or judge.list, or a folder above them"
    )]
    Unprotected,
    #[error("judge.list cannot be read: {0}; record it with qwed-mcp judge record")]
    List(String),
    #[error(
        "the tests in judge.tests are not those of judge.list; record it again with qwed-mcp judge record"
    )]
    OtherTests,
    #[error(
        "judge.list was recorded at the level {recorded}, and the tests run at the level {level}; record it again with qwed-mcp judge record"
    )]
    OtherLevel { recorded: Level, level: Level },
    #[error("judge.tests needs tier T3 of the sandbox; this is tier {0}")]
    Tier(Tier),
}

#[cfg(test)]
impl Default for Judge {
    fn default() -> Self {
        Self {
            level: Level::InProcess,
            required: Level::InProcess,
            has_control: false,
            pinned: None,
        }
    }
}

impl Judge {
    /// Reads the tests and the list that the policy names. `tier` is the tier of the sandbox, if known. Blocks the
    /// thread.
    pub(super) fn load(policy: &Policy, tier: Option<Tier>) -> Result<Self, UnusableJudge> {
        let JudgePolicy { tests, list, require, has_control } = &policy.judge;
        let required = require.unwrap_or(Level::InProcess);
        let Some((tests, list)) = tests.as_ref().zip(list.as_ref()) else {
            return Ok(Self {
                level: Level::InProcess,
                required,
                has_control: false,
                pinned: None,
            });
        };
        let mut pinned = PinnedTests::read(tests, policy, tier)?;
        // Read the list before the check of its protection, which would also fail for a missing list.
        let (recorded, list_sha256) = read_list(list)?;
        require_protected(list).map_err(|_| UnusableJudge::Unprotected)?;
        if recorded.tests_sha256 != pinned.sha256 {
            return Err(UnusableJudge::OtherTests);
        }
        let level = required.max(Level::Pinned);
        if recorded.level != level {
            return Err(UnusableJudge::OtherLevel { recorded: recorded.level, level });
        }
        pinned.list = Some((recorded, list_sha256));
        Ok(Self { level, required, has_control: *has_control, pinned: Some(pinned) })
    }

    /// Creates a judge for the run that records a list.
    pub(super) fn to_record(policy: &Policy, tier: Option<Tier>) -> Result<Self, UnusableJudge> {
        let Some(tests) = &policy.judge.tests else {
            return Err(UnusableJudge::Tests("the policy does not name it".to_owned()));
        };
        let pinned = PinnedTests::read(tests, policy, tier)?;
        let required = policy.judge.require.unwrap_or(Level::InProcess);
        let level = required.max(Level::Pinned);
        Ok(Self { level, required, has_control: false, pinned: Some(pinned) })
    }

    pub(super) fn record(&self) -> JudgeRecord {
        let pinned = self.pinned.as_ref();
        JudgeRecord {
            level: self.level,
            tests_sha256: pinned.map(|pinned| pinned.sha256.clone()),
            list_sha256: pinned.and_then(|it| Some(it.list.as_ref()?.1.clone())),
        }
    }

    /// Returns the list of the admin's tests with their expected outcomes; `None` if the policy names no tests, or if
    /// this run records the list.
    pub(super) fn list(&self) -> Option<&TestList> {
        let (list, _) = self.pinned.as_ref()?.list.as_ref()?;
        Some(list)
    }

    /// Changes the verdict to incomplete if tests cannot run in a separate process from the code under test. Also
    /// changes a pass to incomplete if a listed test does not have its expected outcome, or if the level is lower than
    /// the policy requires.
    pub(super) fn correct(&self, verdict: Verdict, report: Option<&TestSummary>) -> Verdict {
        let incomplete = |reason| Verdict { status: RunStatus::Incomplete, reason: Some(reason) };
        let not_isolated = report.and_then(|report| report.judged.not_isolated.first());
        match (verdict.status, not_isolated) {
            (RunStatus::Passed | RunStatus::Failed | RunStatus::Error, Some(why)) => {
                return incomplete(format!(
                    "these tests cannot run apart from the code under test: {}",
                    plain_line(why)
                ));
            }
            (RunStatus::Passed, None) => {}
            (_, _) => return verdict,
        }
        if self.level < self.required {
            let (level, required) = (self.level, self.required);
            return incomplete(format!(
                "the policy requires the level {required}, and the tests were judged {level}"
            ));
        }
        let Some(list) = self.list() else { return verdict };
        let outcomes = report.map(|report| report.judged.outcomes.as_str()).unwrap_or_default();
        match list.deviation(outcomes) {
            Some(deviation) => incomplete(deviation),
            None => verdict,
        }
    }
}

impl PinnedTests {
    fn read(folder: &Path, policy: &Policy, tier: Option<Tier>) -> Result<Self, UnusableJudge> {
        // At a lower tier than T3, a process of the tests could outlive the process that observes the tests, and could
        // then change the report.
        if let Some(tier) = tier.filter(|tier| *tier < Tier::T3) {
            return Err(UnusableJudge::Tier(tier));
        }
        require_protected(folder).map_err(|_| UnusableJudge::Unprotected)?;
        let real = fs::canonicalize(folder)
            .map_err(|error| UnusableJudge::Tests(error.kind().to_string()))?;
        let workspace = policy.workspace_root.as_deref().and_then(UntrustedFolder::new);
        let root = policy.workspace_root.as_deref().and_then(|root| fs::canonicalize(root).ok());
        let contains = root.is_some_and(|root| root.starts_with(&real));
        if contains || workspace.is_some_and(|workspace| workspace.holds(folder)) {
            return Err(UnusableJudge::InWorkspace);
        }
        let sha256 =
            folder::sha256(&real).map_err(|error| UnusableJudge::Tests(error.to_string()))?;
        Ok(Self { folder: real, sha256, list: None })
    }
}

/// Returns the reason why the judge of the policy cannot be used; `None` if it can be used. `tier` is the tier of the
/// sandbox, if known. Blocks the thread.
pub(crate) fn judge_error(policy: &Policy, tier: Option<Tier>) -> Option<UnusableJudge> {
    Judge::load(policy, tier).err()
}

/// Returns a warning for the admin if the judge of the policy cannot be used.
pub(crate) fn judge_warning(policy: &Policy) -> Option<String> {
    let unusable = judge_error(policy, None)?;
    Some(format!("{unusable}: run_pytest is refused"))
}

impl TestList {
    /// Describes how the outcomes differ from the list; `None` if they do not. `outcomes` has the format of
    /// `Judged::outcomes`.
    fn deviation(&self, outcomes: &str) -> Option<String> {
        let mut letters = outcomes.bytes();
        let mut count = 0_usize;
        let mut named = String::new();
        for test in &self.tests {
            let letter = letters.next().unwrap_or(b'-');
            let is_expected = match test.outcome {
                ExpectedOutcome::Passed => letter == b'p',
                ExpectedOutcome::Skipped => matches!(letter, b'p' | b's'),
                ExpectedOutcome::Xfailed => matches!(letter, b'p' | b'x'),
            };
            if is_expected {
                continue;
            }
            count += 1;
            if count <= NAMED_MAX {
                let found = match letter {
                    b's' => "skipped",
                    b'x' => "xfailed",
                    b'f' => "failed",
                    b'e' => "error",
                    _ => "did not run",
                };
                let comma = if count > 1 { ", " } else { "" };
                // Writing to a string cannot fail.
                let _ = write!(named, "{comma}{} ({found})", plain_line(&test.id));
            }
        }
        if count == 0 {
            return None;
        }
        let more = if count > NAMED_MAX { ", …" } else { "" };
        let all = self.tests.len();
        Some(format!("{count} of the {all} tests that have to pass did not: {named}{more}"))
    }
}

/// Reads a list of tests. Returns the list and the SHA-256 of its file.
fn read_list(path: &Path) -> Result<(TestList, String), UnusableJudge> {
    let unreadable = |error: std::io::Error| UnusableJudge::List(error.kind().to_string());
    let invalid = |reason: &str| UnusableJudge::List(reason.to_owned());
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(invalid("it is not a regular file"));
    }
    let mut content = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(LIST_BYTES_MAX + 1).read_to_end(&mut content).map_err(unreadable)?;
    if u64::try_from(content.len()).unwrap_or(u64::MAX) > LIST_BYTES_MAX {
        return Err(invalid("it is larger than 16 MiB"));
    }
    let list: TestList =
        serde_json::from_slice(&content).map_err(|_| invalid("it is not a list of tests"))?;
    if list.format != 1 {
        return Err(invalid("its format is not 1"));
    }
    if !list.tests.iter().any(|test| test.outcome == ExpectedOutcome::Passed) {
        return Err(invalid("no test in it has to pass"));
    }
    Ok((list, hex::encode(Sha256::digest(&content))))
}

#[cfg(test)]
mod tests;
