//! The environment as typed settings, read once at start.
//!
//! Nothing else in the crate reads variables that set up the program. A value that cannot be used
//! never stops the server: the default is taken and a [`SettingsWarning`] says so, as the documents
//! ask for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::secret::Secret;

/// The time that a background job may take when the admin says nothing else.
const BACKGROUND_TIMEOUT_DEFAULT: Duration = Duration::from_secs(120);
/// The ceiling of `QWED_MCP_BACKGROUND_TIMEOUT`: above it a job could hold a slot for hours.
const BACKGROUND_TIMEOUT_MAX: Duration = Duration::from_secs(600);
/// The time that a synchronous run may take: below the 60 s after which common MCP clients give up.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for which a job is kept after its last change.
const JOB_TTL: Duration = Duration::from_secs(3600);
/// The ceiling of `QWED_MCP_SYNC_CONCURRENCY`: more interpreters than this only fight for the CPU.
const SYNC_CONCURRENCY_MAX: usize = 64;
const SYNC_CONCURRENCY_DEFAULT: usize = 1;

/// The time for which warm interpreters are kept without a call.
const WARM_IDLE_DEFAULT: Duration = Duration::from_secs(1800);

/// The modules that verifications use; those that are not installed are left out. Without
/// `qwed_sdk`: with all that it loads, a fork takes twice as long.
const PRELOAD_DEFAULT: &str = "
    abc argparse ast base64 bisect calendar cmath collections collections.abc contextlib copy csv
    dataclasses datetime decimal enum fractions functools hashlib heapq inspect io itertools json
    locale logging math numbers operator os pathlib pprint random re secrets statistics string
    struct sys tempfile textwrap time traceback types typing unittest uuid warnings zoneinfo
    numpy sympy z3 qwed_legal qwed_finance qwed_ucp qwed_new
";

/// The memory of a run when the admin says nothing else, in MiB: enough for `SymPy`, Z3 and `NumPy`
/// together, six times over.
pub(crate) const MEMORY_MB_DEFAULT: u64 = 1024;
/// The floor of `QWED_MCP_MEMORY_MB`: less is not enough to import the verification libraries.
pub(crate) const MEMORY_MB_MIN: u64 = 128;
/// The ceiling of `QWED_MCP_MEMORY_MB`: a TiB.
pub(crate) const MEMORY_MB_MAX: u64 = 1024 * 1024;

/// The admin's permission to run code at all (`QWED_MCP_TRUSTED_CODE_EXECUTION`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminGate {
    /// Verified code runs.
    Open,
    /// Nothing runs; every call is still analysed and answered.
    Closed,
}

/// The sandbox that the admin asks for (`QWED_MCP_SANDBOX`). Where it is unavailable, nothing runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SandboxMode {
    /// All layers (tier 3), or where there are no namespaces all others (tier 2). The default.
    Required,
    /// All layers.
    Strict,
    /// Whatever of the sandbox this machine has, at least the filter of system calls (tier 1).
    Degraded,
    /// No sandbox: scripts have the rights of the server's user.
    Off,
}

/// The analysis of code before it runs. Only tests of the sandbox turn it off, and only debug builds
/// let them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeAnalysis {
    /// Always, in release builds.
    On,
    /// `QWED_MCP_TEST_UNCHECKED_CODE` is set.
    Off,
}

/// Parts of the kernel that are taken as missing: none but in tests, and only debug builds let them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts, not states")]
pub(crate) struct KernelLacks {
    /// No namespaces can be created.
    pub(crate) namespaces: bool,
    /// There is no Landlock.
    pub(crate) landlock: bool,
    /// The file tree of a run cannot be laid out, for no reason that is known.
    pub(crate) file_tree: bool,
    /// No control group can be made.
    pub(crate) control_groups: bool,
}

/// Everything the admin can set, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// `QWED_MCP_TRUSTED_CODE_EXECUTION`.
    pub admin_gate: AdminGate,
    /// `QWED_MCP_SANDBOX`.
    pub sandbox: SandboxMode,
    /// The memory that all processes of a run may have together (`QWED_MCP_MEMORY_MB`), in MiB.
    pub memory_mb: u64,
    /// Files and folders that scripts may read besides Python's own (`QWED_MCP_READ_PATHS`,
    /// separated by colons).
    pub read_paths: Vec<PathBuf>,
    /// The analysis of code before it runs.
    pub(crate) code_analysis: CodeAnalysis,
    /// Parts of the kernel that tests pretend are missing.
    pub(crate) kernel_lacks: KernelLacks,
    /// True if other processes of the user may look into this one: only in tests that do
    /// (`QWED_MCP_TEST_DUMPABLE`), and only debug builds let them.
    pub(crate) dumpable: bool,
    /// `QWED_MCP_PYTHON`: an interpreter's path, or a name that is looked up on `PATH`.
    pub python: Option<OsString>,
    /// True if interpreters are kept warm (`QWED_MCP_WARM`).
    pub warm: bool,
    /// The time for which they are kept without a call (`QWED_MCP_WARM_IDLE_SECONDS`); `None` is for
    /// ever.
    pub warm_idle: Option<Duration>,
    /// The modules that warm interpreters have loaded (`QWED_MCP_PRELOAD`, separated by commas).
    pub preload: Vec<String>,
    /// `VIRTUAL_ENV`: the root of an activated virtual environment.
    pub virtual_env: Option<PathBuf>,
    /// `QWED_SKILL_MANIFEST`: the manifest to validate before the server answers anything.
    pub skill_manifest: Option<PathBuf>,
    /// `QWED_MCP_AIBOM`: where the bill of materials of the session goes when it ends.
    pub aibom: Option<PathBuf>,
    /// `QWED_MCP_LLM_MODEL`: the model that calls, where the client names none.
    pub llm_model: Option<String>,
    /// `QWED_MCP_DATA_DIR`: where tokens, audit log and artifacts of governed tools are.
    pub data_dir: Option<PathBuf>,
    /// `QWED_MCP_POLICY`: the policy of the governed tools; without one they do not exist.
    pub policy: Option<PathBuf>,
    /// `QWED_MCP_AUTH_TOKEN`: the token of calls that present none.
    pub auth_token: Option<Secret>,
    /// `QWED_MCP_AUTH_TOKEN_FILE`: the file that has it in place of the variable.
    pub auth_token_file: Option<PathBuf>,
    /// The most synchronous runs at once (`QWED_MCP_SYNC_CONCURRENCY`).
    pub sync_concurrency: usize,
    /// The time that one synchronous run may take, counted from its start.
    pub(crate) sync_timeout: Duration,
    /// The time that one background job may take, counted from its start
    /// (`QWED_MCP_BACKGROUND_TIMEOUT`).
    pub background_timeout: Duration,
    /// The time for which a job is kept after its last change.
    pub(crate) job_ttl: Duration,
}

/// A variable whose value is unusable or dangerous, and the consequence.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SettingsWarning {
    /// Not a positive finite number.
    #[error(
        "QWED_MCP_BACKGROUND_TIMEOUT is not a positive number of seconds; using {}",
        BACKGROUND_TIMEOUT_DEFAULT.as_secs()
    )]
    BackgroundTimeout,
    /// Not an integer within the bounds.
    #[error(
        "QWED_MCP_SYNC_CONCURRENCY is not a whole number from 1 to {SYNC_CONCURRENCY_MAX}; using \
         {SYNC_CONCURRENCY_DEFAULT}"
    )]
    SyncConcurrency,
    /// Not one of the documented words.
    #[error(
        "QWED_MCP_SANDBOX is none of required, strict, degraded and off; taking it as required"
    )]
    Sandbox,
    /// The admin accepts less than the sandbox.
    #[error(
        "QWED_MCP_SANDBOX=degraded: where parts of the kernel sandbox are missing, scripts run \
         without them"
    )]
    SandboxDegraded,
    /// The admin wants no sandbox.
    #[error("QWED_MCP_SANDBOX=off: scripts run with all rights of the server's user")]
    SandboxOff,
    /// Not one of the documented words.
    #[error("QWED_MCP_WARM is neither on nor off; taking it as on")]
    Warm,
    /// Not an integer.
    #[error(
        "QWED_MCP_WARM_IDLE_SECONDS is not a whole number; using {}",
        WARM_IDLE_DEFAULT.as_secs()
    )]
    WarmIdle,
    /// An entry of the list is not the name of a module.
    #[error(
        "QWED_MCP_PRELOAD is not a list of module names with commas between them; using the default"
    )]
    Preload,
    /// Not an integer within the bounds.
    #[error(
        "QWED_MCP_MEMORY_MB is not a whole number from {MEMORY_MB_MIN} to {MEMORY_MB_MAX}; using \
         {MEMORY_MB_DEFAULT}"
    )]
    Memory,
}

impl Settings {
    /// Reads the settings of this process's environment.
    pub fn from_env() -> (Self, Vec<SettingsWarning>) {
        Self::from_lookup(|name| std::env::var_os(name))
    }

    /// Reads the settings from `lookup`, which returns a variable's value by its name.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> (Self, Vec<SettingsWarning>) {
        let mut warnings = Vec::new();
        let mut warn = |warning| warnings.push(warning);
        let text = |name: &str| lookup(name).and_then(|value| value.into_string().ok());
        let present = |name: &str| lookup(name).filter(|value| !value.is_empty());

        let settings = Self {
            admin_gate: admin_gate(text("QWED_MCP_TRUSTED_CODE_EXECUTION").as_deref()),
            sandbox: sandbox_mode(text("QWED_MCP_SANDBOX").as_deref(), &mut warn),
            memory_mb: memory_mb(text("QWED_MCP_MEMORY_MB").as_deref(), &mut warn),
            read_paths: present("QWED_MCP_READ_PATHS")
                .map(|paths| {
                    std::env::split_paths(&paths)
                        .filter(|path| !path.as_os_str().is_empty())
                        .collect()
                })
                .unwrap_or_default(),
            code_analysis: code_analysis(&lookup),
            kernel_lacks: kernel_lacks(&lookup),
            dumpable: cfg!(debug_assertions) && lookup("QWED_MCP_TEST_DUMPABLE").is_some(),
            python: present("QWED_MCP_PYTHON"),
            warm: warm(text("QWED_MCP_WARM").as_deref(), &mut warn),
            warm_idle: warm_idle(text("QWED_MCP_WARM_IDLE_SECONDS").as_deref(), &mut warn),
            preload: preload(lookup("QWED_MCP_PRELOAD"), &mut warn),
            virtual_env: present("VIRTUAL_ENV").map(PathBuf::from),
            skill_manifest: present("QWED_SKILL_MANIFEST").map(PathBuf::from),
            aibom: present("QWED_MCP_AIBOM").map(PathBuf::from),
            llm_model: text("QWED_MCP_LLM_MODEL").filter(|model| !model.trim().is_empty()),
            data_dir: present("QWED_MCP_DATA_DIR").map(PathBuf::from),
            policy: present("QWED_MCP_POLICY").map(PathBuf::from),
            // Not text: still meant as a token, and not a valid one.
            auth_token: present("QWED_MCP_AUTH_TOKEN")
                .map(|token| token.into_string().unwrap_or_default().into()),
            auth_token_file: present("QWED_MCP_AUTH_TOKEN_FILE").map(PathBuf::from),
            sync_concurrency: sync_concurrency(
                text("QWED_MCP_SYNC_CONCURRENCY").as_deref(),
                &mut warn,
            ),
            sync_timeout: test_switch_ms(&lookup, "QWED_MCP_TEST_SYNC_TIMEOUT_MS")
                .unwrap_or(SYNC_TIMEOUT),
            background_timeout: background_timeout(
                text("QWED_MCP_BACKGROUND_TIMEOUT").as_deref(),
                &mut warn,
            ),
            job_ttl: test_switch_ms(&lookup, "QWED_MCP_TEST_JOB_TTL_MS").unwrap_or(JOB_TTL),
        };
        (settings, warnings)
    }
}

/// Reads the filter of the log, which is wanted before the other settings (`QWED_MCP_LOG`).
pub(crate) fn log_filter() -> String {
    std::env::var("QWED_MCP_LOG").unwrap_or_default()
}

/// Returns true if the user wants text without colours (`NO_COLOR`, see <https://no-color.org>).
pub(crate) fn no_colours() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

fn admin_gate(value: Option<&str>) -> AdminGate {
    match value {
        Some(value) if value.eq_ignore_ascii_case("true") => AdminGate::Open,
        Some(_) | None => AdminGate::Closed,
    }
}

fn sandbox_mode(value: Option<&str>, warn: &mut impl FnMut(SettingsWarning)) -> SandboxMode {
    match value.map(str::to_ascii_lowercase).as_deref() {
        None | Some("" | "required") => SandboxMode::Required,
        Some("strict") => SandboxMode::Strict,
        Some("degraded") => {
            warn(SettingsWarning::SandboxDegraded);
            SandboxMode::Degraded
        }
        Some("off") => {
            warn(SettingsWarning::SandboxOff);
            SandboxMode::Off
        }
        Some(_) => {
            warn(SettingsWarning::Sandbox);
            SandboxMode::Required
        }
    }
}

fn memory_mb(value: Option<&str>, warn: &mut impl FnMut(SettingsWarning)) -> u64 {
    let Some(value) = value.filter(|value| !value.trim().is_empty()) else {
        return MEMORY_MB_DEFAULT;
    };
    if let Ok(mebibytes @ MEMORY_MB_MIN..=MEMORY_MB_MAX) = value.trim().parse() {
        mebibytes
    } else {
        warn(SettingsWarning::Memory);
        MEMORY_MB_DEFAULT
    }
}

fn warm(value: Option<&str>, warn: &mut impl FnMut(SettingsWarning)) -> bool {
    match value.map(str::to_ascii_lowercase).as_deref() {
        None | Some("" | "on") => true,
        Some("off") => false,
        Some(_) => {
            warn(SettingsWarning::Warm);
            true
        }
    }
}

fn warm_idle(value: Option<&str>, warn: &mut impl FnMut(SettingsWarning)) -> Option<Duration> {
    let Some(value) = value.filter(|value| !value.trim().is_empty()) else {
        return Some(WARM_IDLE_DEFAULT);
    };
    let Ok(seconds) = value.trim().parse::<u32>() else {
        warn(SettingsWarning::WarmIdle);
        return Some(WARM_IDLE_DEFAULT);
    };
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

/// An empty list is a choice too: an interpreter that has loaded nothing.
fn preload(value: Option<OsString>, warn: &mut impl FnMut(SettingsWarning)) -> Vec<String> {
    let default = || PRELOAD_DEFAULT.split_ascii_whitespace().map(str::to_owned).collect();
    let Some(value) = value else { return default() };
    let is_name = |name: &str| {
        name.split('.').all(|part| {
            part.starts_with(|c: char| c == '_' || c.is_alphabetic())
                && part.chars().all(|c| c == '_' || c.is_alphanumeric())
        })
    };
    let value = value.into_string().unwrap_or_else(|_| "not UTF-8".to_owned());
    let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
    let names: Vec<String> = names.map(str::to_owned).collect();
    if names.iter().all(|name| is_name(name)) {
        names
    } else {
        warn(SettingsWarning::Preload);
        default()
    }
}

fn sync_concurrency(value: Option<&str>, warn: &mut impl FnMut(SettingsWarning)) -> usize {
    let Some(value) = value.filter(|value| !value.trim().is_empty()) else {
        return SYNC_CONCURRENCY_DEFAULT;
    };
    if let Ok(count @ 1..=SYNC_CONCURRENCY_MAX) = value.trim().parse() {
        count
    } else {
        warn(SettingsWarning::SyncConcurrency);
        SYNC_CONCURRENCY_DEFAULT
    }
}

fn background_timeout(value: Option<&str>, warn: &mut impl FnMut(SettingsWarning)) -> Duration {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return BACKGROUND_TIMEOUT_DEFAULT;
    };
    match value.trim().parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds > 0.0 => {
            Duration::from_secs_f64(seconds.min(BACKGROUND_TIMEOUT_MAX.as_secs_f64()))
        }
        Ok(_) | Err(_) => {
            warn(SettingsWarning::BackgroundTimeout);
            BACKGROUND_TIMEOUT_DEFAULT
        }
    }
}

fn code_analysis(lookup: impl Fn(&str) -> Option<OsString>) -> CodeAnalysis {
    let is_off = cfg!(debug_assertions) && lookup("QWED_MCP_TEST_UNCHECKED_CODE").is_some();
    if is_off { CodeAnalysis::Off } else { CodeAnalysis::On }
}

/// `QWED_MCP_TEST_KERNEL_LACKS`: words with commas between them.
fn kernel_lacks(lookup: impl Fn(&str) -> Option<OsString>) -> KernelLacks {
    let value = lookup("QWED_MCP_TEST_KERNEL_LACKS").filter(|_| cfg!(debug_assertions));
    let value = value.and_then(|value| value.into_string().ok()).unwrap_or_default();
    let lacks = |part: &str| value.split(',').any(|word| word == part);
    KernelLacks {
        namespaces: lacks("namespaces"),
        landlock: lacks("landlock"),
        file_tree: lacks("file_tree"),
        control_groups: lacks("control_groups"),
    }
}

/// A duration that only tests may shorten. Release builds do not have these switches.
fn test_switch_ms(lookup: impl Fn(&str) -> Option<OsString>, name: &str) -> Option<Duration> {
    if !cfg!(debug_assertions) {
        return None;
    }
    let millis = lookup(name)?.into_string().ok()?.parse().ok()?;
    Some(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests;
