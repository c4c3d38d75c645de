//! Parses the policy file, which lists the permitted tools and the limits of a run.
//!
//! A policy with an unknown key or an invalid value is refused as a whole. The parser never checks whether the paths in
//! a policy exist. Each path is checked when it is used.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::artifacts::Retention;
use super::level::Level;
use super::tools::GovernedTool;
use crate::config::{MEMORY_MB_DEFAULT, MEMORY_MB_MAX, MEMORY_MB_MIN};
use crate::strict_modes::Unprotected;
use document::{Document, Section};

pub(crate) use check::PolicyCheck;
pub(crate) use file::PolicyFile;

/// The maximum size of a policy file, in bytes. Without this limit, a wrong file could fill the memory.
pub(crate) const POLICY_BYTES_MAX: usize = 64 * 1024;

const TIMEOUT_S_DEFAULT: u64 = 300;
const TIMEOUT_S_MAX: u64 = 3600;
const ATTEMPTS_DEFAULT: u64 = 1;
const OUTPUT_BYTES_DEFAULT: u64 = 8 * 1024 * 1024;
const ARTIFACT_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;
/// The maximum value of `output_bytes_max`, in bytes. The value is limited because the output is held in memory.
const OUTPUT_BYTES_MAX: u64 = 1 << 30;
const RETENTION_DAYS_MAX: u64 = 36_500;
/// The maximum value of `total_mb_max`: one exbibyte, in MiB. The value is limited so that the number of bytes fits
/// into a `u64`.
const TOTAL_MB_MAX: u64 = 1 << 40;
/// The default number of rows after which a checkpoint is written. A busy server writes 1000 rows in about a minute.
const CHECKPOINT_ROWS_DEFAULT: u64 = 1000;
/// The default time after which a checkpoint is written even with few new rows, in seconds.
const CHECKPOINT_SECONDS_DEFAULT: u64 = 60;
const CHECKPOINT_SECONDS_MAX: u64 = SECONDS_A_DAY;
const SECONDS_A_DAY: u64 = 24 * 60 * 60;

/// The sections of a policy file, each with its keys. A file with any other section or key is refused.
const SECTIONS: [(&str, &[&str]); 7] = [
    ("tools", &["allowlist", "scripts_need_token"]),
    ("sandbox", &["enabled", "timeout_s", "memory_limit_mb", "allowed_paths", "env_whitelist"]),
    (
        "budget",
        &[
            "elapsed_ms_max",
            "attempts_max",
            "runs_per_day",
            "output_bytes_max",
            "artifact_bytes_max",
        ],
    ),
    ("workspace", &["root"]),
    ("judge", &["tests", "list", "require", "control"]),
    ("artifacts", &["retention_days", "total_mb_max"]),
    ("audit", &["checkpoint", "checkpoint_rows", "checkpoint_seconds"]),
];

/// Environment variables of the server that tests never get, each with the reason. A name that ends in `*` is a prefix.
const FORBIDDEN_VARIABLES: [(&str, &str); 12] = [
    ("PYTHON*", "it changes how Python starts and what it imports"),
    ("PYTEST_*", "it changes which plugins and options pytest has"),
    ("LD_*", "it makes the dynamic linker load other code"),
    ("DYLD_*", "it makes the dynamic linker load other code"),
    ("GLIBC_TUNABLES", "it changes how the C library works"),
    ("GCONV_PATH", "it makes the C library load other code"),
    ("BASH_ENV", "it makes every shell run a file first"),
    ("QWED_*", "it is a setting or a token of the server"),
    ("PATH", "the sandbox sets it"),
    ("HOME", "the sandbox sets it"),
    ("TMPDIR", "the sandbox sets it"),
    ("TEMP", "the sandbox sets TMPDIR, which it would replace"),
];

/// A policy: the permissions and limits that the admin has set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Policy {
    /// The permitted tools. Only `run_pytest` must be in the list. The read tools need only a role. If the list is
    /// empty, calls of `run_pytest` fail with `NoAllowlist`.
    pub(crate) allowlist: BTreeSet<GovernedTool>,
    /// Whether calls of `execute_python_code` also require a token with a role that may run tools.
    pub(crate) scripts_need_token: bool,
    pub(crate) sandbox: SandboxPolicy,
    pub(crate) budget: BudgetPolicy,
    /// The folder of the workspace; `None` refuses all runs of tests.
    pub(crate) workspace_root: Option<PathBuf>,
    pub(crate) judge: JudgePolicy,
    /// How long finished runs are kept, and how much space they may take.
    pub(crate) retention: Retention,
    /// The settings for checkpoints of the audit log; `None` if the policy names no file for checkpoints.
    pub(crate) checkpoint: Option<CheckpointPolicy>,
    /// The SHA-256 of the policy file, in hexadecimal.
    pub(crate) sha256: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SandboxPolicy {
    /// Whether the sandbox is enabled. If it is disabled, all runs of tests are refused.
    pub(crate) enabled: bool,
    /// The time after which a run of pytest is killed.
    pub(crate) timeout: Duration,
    /// The memory limit for all processes of a run together, in MiB.
    pub(crate) memory_limit_mb: u64,
    /// Absolute paths that the tests may read, in addition to the workspace and to Python's own files.
    pub(crate) allowed_paths: Vec<PathBuf>,
    /// The names of the server's environment variables that the server passes to the tests.
    pub(crate) env_whitelist: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BudgetPolicy {
    /// The time limit of a whole call; `None` means no limit.
    pub(crate) elapsed: Option<Duration>,
    /// The maximum number of times that one call may start pytest.
    pub(crate) attempts_max: u64,
    /// The maximum number of runs of one user in one day (UTC); `None` means no limit.
    pub(crate) runs_per_day: Option<u64>,
    /// The limit for each of standard output and standard error, in bytes.
    pub(crate) output_bytes_max: u64,
    /// The limit for all files of a run together, in bytes.
    pub(crate) artifact_bytes_max: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct JudgePolicy {
    /// The folder with the admin's own tests, which replace the tests of the workspace.
    pub(crate) tests: Option<PathBuf>,
    /// The file with the list of these tests and their expected outcomes; `Some` if and only if `tests` is `Some`.
    pub(crate) list: Option<PathBuf>,
    /// The required level of the judge; `None` permits every level. A run at a lower level does not pass.
    pub(crate) require: Option<Level>,
    /// Whether passed tests run a second time with inverted assertions, to check that the tests can fail.
    pub(crate) has_control: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckpointPolicy {
    /// The file that the checkpoints are appended to.
    pub(crate) file: PathBuf,
    /// The number of new rows after which a checkpoint is written even before `interval` has passed.
    pub(crate) rows: u64,
    /// The time after which a checkpoint is written even with fewer than `rows` new rows.
    pub(crate) interval: Duration,
}

/// An error of the policy file. The text goes to the model, so it contains no path, and no content of the file except
/// the names of keys.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum PolicyError {
    /// The file is missing, or the server cannot read it.
    #[error("the policy file cannot be read: {0}")]
    Unreadable(String),
    /// The path refers to a folder, a pipe or a device.
    #[error("the policy file is not a regular file")]
    NotAFile,
    /// Another user could replace the policy.
    #[error("users other than the admin can change the policy file, or a folder above it")]
    Unprotected(Unprotected),
    /// Code in the workspace could replace the policy.
    #[error("the policy file is in the workspace, or a symlink there leads to it")]
    InWorkspace,
    /// The file is larger than [`POLICY_BYTES_MAX`].
    #[error("the policy file is larger than 64 KiB")]
    TooLarge,
    /// The file is not UTF-8, which TOML requires.
    #[error("the policy file is not UTF-8")]
    NotUtf8,
    /// The file is not TOML. `message` comes from the parser, and does not quote the file.
    #[error("line {line}: not valid TOML: {message}")]
    Syntax { line: usize, message: String },
    #[error("line {line}: {key} is not known; {known}")]
    UnknownKey { line: usize, key: String, known: String },
    /// A value is not valid for its key.
    #[error("line {line}: {key} must {must}")]
    Value { line: usize, key: String, must: String },
}

impl PolicyError {
    /// Returns the message of this error for the admin. The message may contain a path.
    pub(crate) fn for_admin(&self) -> String {
        if let Self::Unprotected(reason) = self { reason.to_string() } else { self.to_string() }
    }

    /// Returns the number of the line with the mistake, if the error is about a line.
    pub(crate) fn line(&self) -> Option<usize> {
        match self {
            Self::Unreadable(_)
            | Self::NotAFile
            | Self::Unprotected(_)
            | Self::InWorkspace
            | Self::TooLarge
            | Self::NotUtf8 => None,
            Self::Syntax { line, .. }
            | Self::UnknownKey { line, .. }
            | Self::Value { line, .. } => Some(*line),
        }
    }
}

impl Policy {
    /// Returns the paths that tests may read, except for Python's own files.
    pub(crate) fn readable(&self) -> impl Iterator<Item = &PathBuf> {
        self.workspace_root.iter().chain(self.also_readable())
    }

    /// Returns the paths that tests may read in addition to the workspace: `allowed_paths` and the admin's own tests.
    pub(crate) fn also_readable(&self) -> impl Iterator<Item = &PathBuf> {
        self.sandbox.allowed_paths.iter().chain(&self.judge.tests)
    }

    /// Parses the text of a policy file. The error is the first mistake.
    pub(crate) fn parse(text: &str) -> Result<Self, PolicyError> {
        let (policy, mistakes) = Self::read(text)?;
        mistakes.0.into_iter().next().map_or(Ok(policy), Err)
    }

    /// Parses the text of a policy file. Returns the policy, or all mistakes in the order of their lines.
    pub(crate) fn check(text: &str) -> Result<Self, Vec<PolicyError>> {
        let (policy, mistakes) = Self::read(text).map_err(|error| vec![error])?;
        if mistakes.0.is_empty() { Ok(policy) } else { Err(mistakes.0) }
    }

    /// Parses as much as possible, to find all mistakes, and uses defaults for invalid values. A policy with mistakes
    /// must not be used.
    fn read(text: &str) -> Result<(Self, Mistakes), PolicyError> {
        if text.len() > POLICY_BYTES_MAX {
            return Err(PolicyError::TooLarge);
        }
        let document = Document::parse(text)?;
        let mut mistakes = Mistakes(document.unknown(&SECTIONS));
        let mut section = |name| mistakes.note(document.section(name));
        let (tools, held, call) = (section("tools"), section("sandbox"), section("budget"));
        let (workspace, kept, log) = (section("workspace"), section("artifacts"), section("audit"));
        let judged = section("judge");
        let policy = Self {
            allowlist: allowlist(&tools, &mut mistakes),
            scripts_need_token: mistakes.note(tools.flag("scripts_need_token")).unwrap_or_default(),
            sandbox: sandbox(&held, &mut mistakes),
            budget: budget(&call, &mut mistakes),
            workspace_root: mistakes.note(workspace.path("root")),
            judge: judge(&judged, &mut mistakes),
            retention: retention(&kept, &mut mistakes),
            checkpoint: checkpoint(&log, &mut mistakes),
            sha256: hex::encode(Sha256::digest(text)),
        };
        mistakes.0.sort_by_key(PolicyError::line);
        Ok((policy, mistakes))
    }
}

/// The mistakes that were found in the text of a policy file.
struct Mistakes(Vec<PolicyError>);

impl Mistakes {
    /// Returns the value if it was parsed. Otherwise records the mistake and returns the default.
    fn note<T: Default>(&mut self, read: Result<T, PolicyError>) -> T {
        read.unwrap_or_else(|mistake| {
            self.0.push(mistake);
            T::default()
        })
    }
}

fn allowlist(section: &Section<'_>, mistakes: &mut Mistakes) -> BTreeSet<GovernedTool> {
    let mut tools = BTreeSet::new();
    for name in mistakes.note(section.texts("allowlist")) {
        let Some(tool) = GovernedTool::from_name(name.text) else {
            let names = GovernedTool::ALL.map(GovernedTool::name).join(", ");
            mistakes.0.push(name.value_error(format!("name these tools only: {names}")));
            continue;
        };
        if !tools.insert(tool) {
            mistakes.0.push(name.value_error(format!("name {} once only", tool.name())));
        }
    }
    tools
}

fn sandbox(section: &Section<'_>, mistakes: &mut Mistakes) -> SandboxPolicy {
    let timeout_s = mistakes.note(section.number("timeout_s", 1, TIMEOUT_S_MAX));
    let memory_limit_mb = section.number("memory_limit_mb", MEMORY_MB_MIN, MEMORY_MB_MAX);
    let allowed_paths = mistakes.note(section.texts("allowed_paths"));
    SandboxPolicy {
        enabled: mistakes.note(section.flag("enabled")).unwrap_or(true),
        timeout: Duration::from_secs(timeout_s.unwrap_or(TIMEOUT_S_DEFAULT)),
        memory_limit_mb: mistakes.note(memory_limit_mb).unwrap_or(MEMORY_MB_DEFAULT),
        allowed_paths: allowed_paths.iter().map(|item| mistakes.note(item.path())).collect(),
        env_whitelist: variables(section, mistakes),
    }
}

fn variables(section: &Section<'_>, mistakes: &mut Mistakes) -> Vec<String> {
    let mut names = Vec::new();
    for name in mistakes.note(section.texts("env_whitelist")) {
        let is_name = name.text.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
            && name.text.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
        let is_meant = |(forbidden, _): &&(&str, &str)| match forbidden.strip_suffix('*') {
            Some(start) => name.text.starts_with(start),
            None => name.text == *forbidden,
        };
        if !is_name {
            let must = "have names of variables only, such as LANG";
            mistakes.0.push(name.value_error(must.to_owned()));
        } else if let Some((forbidden, why)) = FORBIDDEN_VARIABLES.iter().find(is_meant) {
            mistakes.0.push(name.value_error(format!("not have {forbidden}: {why}")));
        } else {
            names.push(name.text.to_owned());
        }
    }
    names
}

fn budget(section: &Section<'_>, mistakes: &mut Mistakes) -> BudgetPolicy {
    let mut number = |key, min, max| mistakes.note(section.number(key, min, max));
    BudgetPolicy {
        elapsed: number("elapsed_ms_max", 1, u64::MAX).map(Duration::from_millis),
        attempts_max: number("attempts_max", 0, u64::MAX).unwrap_or(ATTEMPTS_DEFAULT),
        runs_per_day: number("runs_per_day", 0, u64::MAX),
        output_bytes_max: number("output_bytes_max", 1, OUTPUT_BYTES_MAX)
            .unwrap_or(OUTPUT_BYTES_DEFAULT),
        artifact_bytes_max: number("artifact_bytes_max", 1, u64::MAX)
            .unwrap_or(ARTIFACT_BYTES_DEFAULT),
    }
}

fn retention(section: &Section<'_>, mistakes: &mut Mistakes) -> Retention {
    let mut number = |key, min, max| mistakes.note(section.number(key, min, max));
    let days = number("retention_days", 1, RETENTION_DAYS_MAX);
    let megabytes = number("total_mb_max", 1, TOTAL_MB_MAX);
    Retention {
        age: days.map(|days| Duration::from_secs(days * SECONDS_A_DAY)),
        total_bytes: megabytes.map(|megabytes| megabytes << 20),
    }
}

fn judge(section: &Section<'_>, mistakes: &mut Mistakes) -> JudgePolicy {
    let tests = mistakes.note(section.path("tests"));
    let list = mistakes.note(section.path("list"));
    let require = mistakes.note(section.choice("require", &Level::ALL.map(Level::as_str)));
    let require = require.and_then(|name| Level::ALL.into_iter().find(|it| it.as_str() == name));
    let has_control = mistakes.note(section.flag("control")).unwrap_or_default();
    let needs = |key, other, must: &str| section.conflict(key, &format!("{must} judge.{other}"));
    let missing = if tests.is_some() && list.is_none() {
        Some(needs("tests", "list", "stand with"))
    } else if tests.is_some() {
        None
    } else if list.is_some() {
        Some(needs("list", "tests", "stand with"))
    } else if has_control {
        Some(needs("control", "tests", "stand with"))
    } else if require.is_some_and(|level| level > Level::InProcess) {
        Some(needs("require", "tests", "be in-process without"))
    } else {
        None
    };
    mistakes.0.extend(missing);
    JudgePolicy { tests, list, require, has_control }
}

fn checkpoint(section: &Section<'_>, mistakes: &mut Mistakes) -> Option<CheckpointPolicy> {
    let rows = mistakes.note(section.number("checkpoint_rows", 1, u64::MAX));
    let seconds = section.number("checkpoint_seconds", 1, CHECKPOINT_SECONDS_MAX);
    let seconds = mistakes.note(seconds).unwrap_or(CHECKPOINT_SECONDS_DEFAULT);
    Some(CheckpointPolicy {
        file: mistakes.note(section.path("checkpoint"))?,
        rows: rows.unwrap_or(CHECKPOINT_ROWS_DEFAULT),
        interval: Duration::from_secs(seconds),
    })
}

mod check;
mod document;
mod file;
#[cfg(test)]
mod tests;
