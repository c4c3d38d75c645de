//! The settings, read once at start from environment variables.
//!
//! No other module reads the `QWED_` variables of this process. A value that cannot be used never stops the server: the
//! default applies and a [`SettingsWarning`] reports it, as documented.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::secret::Secret;
use crate::shares::Share;

/// The synchronous runs per processor above which a warning is logged.
const RUNS_PER_PROCESSOR_MAX: usize = 4;

/// The default of `QWED_MCP_BACKGROUND_TIMEOUT`.
const BACKGROUND_TIMEOUT_DEFAULT: Duration = Duration::from_secs(120);
/// The maximum of `QWED_MCP_BACKGROUND_TIMEOUT`. Above it a job could hold a slot for hours.
const BACKGROUND_TIMEOUT_MAX: Duration = Duration::from_secs(600);
/// The time limit of a synchronous run. It is below the 60 s after which common MCP clients give up.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a job is kept after its last change.
const JOB_TTL: Duration = Duration::from_secs(3600);
/// The maximum of `QWED_MCP_SYNC_CONCURRENCY`. More interpreters would only compete for the CPU.
const SYNC_CONCURRENCY_MAX: usize = 64;
const SYNC_CONCURRENCY_DEFAULT: usize = 1;

/// The default of `QWED_MCP_WARM_IDLE_SECONDS`.
const WARM_IDLE_SECONDS_DEFAULT: u32 = 1800;

/// The modules that verifications use. Modules that are not installed are skipped. `qwed_sdk` is left out, because a
/// fork with everything that it loads takes twice as long.
const PRELOAD_LIGHT: &str = "
    __future__ abc argparse ast base64 bisect calendar cmath collections collections.abc contextlib copy csv
    dataclasses datetime decimal enum fractions functools hashlib heapq inspect io itertools json
    locale logging math numbers operator os pathlib pprint random re secrets statistics string
    struct sys tempfile textwrap time traceback types typing unittest uuid warnings zoneinfo
";

/// Further libraries that verifications use. A fork of an interpreter with them is slower.
const PRELOAD_HEAVY: &str = "numpy sympy z3 qwed_legal qwed_finance qwed_tax qwed_ucp qwed_new";

/// The module that scripts for drawing use, in addition to the libraries. A fork with it is slower still.
const PRELOAD_FOR_DRAWING: &str = "matplotlib.pyplot";

/// The most runs of one fork server. Nothing is known to accumulate in it; the limit guards against unknown leaks.
const FORK_SERVER_RUNS_MAX: u64 = 20_000;

/// The default memory limit of a run, in MiB: six times the need of `SymPy`, Z3 and `NumPy` together.
pub(crate) const MEMORY_MB_DEFAULT: u64 = 1024;
/// The minimum of `QWED_MCP_MEMORY_MB`. The verification libraries cannot be imported with less.
pub(crate) const MEMORY_MB_MIN: u64 = 128;
/// The maximum of `QWED_MCP_MEMORY_MB`: 1 TiB.
pub(crate) const MEMORY_MB_MAX: u64 = 1024 * 1024;

/// The admin gate: whether scripts may run at all (`QWED_MCP_TRUSTED_CODE_EXECUTION`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminGate {
    /// Verified scripts run.
    Open,
    /// Nothing runs. Every call is still analysed and answered.
    Closed,
}

/// The sandbox that the admin requires (`QWED_MCP_SANDBOX`). If it is unavailable, nothing runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SandboxMode {
    /// All layers (tier 3). If namespaces are unavailable, all other layers (tier 2). Seatbelt on macOS. The default.
    Required,
    /// All layers.
    Strict,
    /// All layers that this machine supports, at least the filter of system calls (tier 1).
    Degraded,
    /// No sandbox. Scripts have the rights of the server's user.
    Off,
}

/// The analysis of scripts before they run. Only tests of the sandbox turn it off, and only debug builds allow that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeAnalysis {
    /// The only state in release builds.
    On,
    /// `QWED_MCP_TEST_UNCHECKED_CODE` is set.
    Off,
}

/// Kernel features that tests treat as missing. Only debug builds allow that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts, not states")]
pub(crate) struct KernelLacks {
    /// No namespaces can be created.
    pub(crate) namespaces: bool,
    /// Landlock is missing.
    pub(crate) landlock: bool,
    /// The file tree of a run cannot be set up, for an unknown reason.
    pub(crate) file_tree: bool,
    /// Control groups cannot be created.
    pub(crate) control_groups: bool,
    /// Addresses cannot be fixed.
    pub(crate) fixed_addresses: bool,
}

/// The parsed settings of the admin.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "switches, not states")]
pub struct Settings {
    /// `QWED_MCP_TRUSTED_CODE_EXECUTION`.
    pub admin_gate: AdminGate,
    /// `QWED_MCP_SANDBOX`.
    pub sandbox: SandboxMode,
    /// The memory that all processes of a run may have together (`QWED_MCP_MEMORY_MB`), in MiB.
    pub memory_mb: u64,
    /// Files and folders that scripts may read, in addition to Python's own (`QWED_MCP_READ_PATHS`, separated by
    /// colons).
    pub read_paths: Vec<PathBuf>,
    /// The analysis of scripts before they run.
    pub(crate) code_analysis: CodeAnalysis,
    /// Kernel features that tests treat as missing.
    pub(crate) kernel_lacks: KernelLacks,
    /// A folder with stand-ins for the parts of macOS that confine a script (`QWED_MCP_TEST_APPLE_PARTS`). Set by tests
    /// only, and only in debug builds.
    pub(crate) apple_parts: Option<PathBuf>,
    /// Whether other processes of the user may inspect this process (`QWED_MCP_TEST_DUMPABLE`). Set by tests only, and
    /// only in debug builds.
    pub(crate) dumpable: bool,
    /// `QWED_MCP_PYTHON`: the path of an interpreter, or a name to look up on `PATH`.
    pub python: Option<OsString>,
    /// Whether interpreters are kept warm (`QWED_MCP_WARM`).
    pub warm: bool,
    /// How long an idle warm interpreter is kept (`QWED_MCP_WARM_IDLE_SECONDS`). `None` keeps it forever.
    pub warm_idle: Option<Duration>,
    /// The modules that warm interpreters preload (`QWED_MCP_PRELOAD`, separated by commas). Each list belongs to one
    /// kind of interpreter, and has the modules that it loads in addition to the previous kind. An admin's value is a
    /// single list.
    pub preload: Vec<Vec<String>>,
    /// The most runs of one fork server. Tests lower it (`QWED_MCP_TEST_FORK_SERVER_RUNS`), in debug builds only.
    pub(crate) fork_server_runs_max: u64,
    /// Whether plots of scripts are returned as pictures (`QWED_MCP_PICTURES`).
    pub pictures: bool,
    /// `VIRTUAL_ENV`: the root of an activated virtual environment.
    pub virtual_env: Option<PathBuf>,
    /// `QWED_SKILL_MANIFEST`: the manifest to verify before the server answers any request.
    pub skill_manifest: Option<PathBuf>,
    /// `QWED_MCP_AIBOM`: the file for the bill of materials of the session, written when the session ends.
    pub aibom: Option<PathBuf>,
    /// `QWED_MCP_LLM_MODEL`: the model that calls, if the client does not name one.
    pub llm_model: Option<String>,
    /// `QWED_MCP_DATA_DIR`: the folder for tokens, audit log and artifacts of governed tools.
    pub data_dir: Option<PathBuf>,
    /// `QWED_MCP_POLICY`: the policy of the governed tools. Without a policy they do not exist.
    pub policy: Option<PathBuf>,
    /// `QWED_MCP_AUTH_TOKEN`: the token of calls without a token of their own.
    pub auth_token: Option<Secret>,
    /// `QWED_MCP_AUTH_TOKEN_FILE`: the file with this token, instead of the variable.
    pub auth_token_file: Option<PathBuf>,
    /// `QWED_MCP_STORE`: the URL of the database that replicas share. Without it nothing is shared.
    pub store: Option<Secret>,
    /// `QWED_MCP_RECEIPTS`: the folder for receipts of scripts.
    pub receipts: Option<PathBuf>,
    /// `QWED_MCP_SIGNING_KEY`: the key that signs receipts, if it is not in the data folder.
    pub signing_key: Option<PathBuf>,
    /// Whether a receipt is on disk before any client learns about it (`QWED_MCP_RECEIPTS_SYNC`).
    pub receipts_sync: bool,
    /// Whether the output of scripts is stored next to their receipts (`QWED_MCP_RECEIPTS_OUTPUTS`).
    pub receipts_outputs: bool,
    /// Whether two runs of a script are the same, as far as possible (`QWED_MCP_DETERMINISTIC`). Each run then has a
    /// new interpreter.
    pub deterministic: bool,
    /// The most synchronous runs at the same time (`QWED_MCP_SYNC_CONCURRENCY`).
    pub sync_concurrency: usize,
    /// The share of turns, places, bytes and jobs that one user may take. An option of the command line.
    pub(crate) user_share: Share,
    /// The time limit of a synchronous run, counted from its start.
    pub(crate) sync_timeout: Duration,
    /// How long a call waits for its turn if its client cannot cancel it. `None` is the default. Tests set it
    /// (`QWED_MCP_TEST_TURN_DEADLINE_MS`), in debug builds only.
    pub(crate) turn_deadline: Option<Duration>,
    /// The time limit of a background job, counted from its start (`QWED_MCP_BACKGROUND_TIMEOUT`).
    pub background_timeout: Duration,
    /// How long a job is kept after its last change.
    pub(crate) job_ttl: Duration,
}

/// A warning about a variable with an unusable or dangerous value, with the consequence, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SettingsWarning(String);

impl Settings {
    /// Reads the settings from the environment of this process.
    pub fn from_env() -> (Self, Vec<SettingsWarning>) {
        Self::from_lookup(std::env::var_os)
    }

    /// Returns a warning if far more synchronous runs are allowed than this machine has processors.
    pub(crate) fn crowding(&self) -> Option<SettingsWarning> {
        let runs = self.sync_concurrency;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let is_crowded = runs > processors.saturating_mul(RUNS_PER_PROCESSOR_MAX);
        is_crowded.then(|| {
            SettingsWarning(format!(
                "QWED_MCP_SYNC_CONCURRENCY is {runs}, and this machine has {processors} processors: scripts that \
                 compute take longer the more of them run at once, and may run out of time"
            ))
        })
    }

    /// Reads the settings from `lookup`, which returns the value of a variable by its name.
    pub fn from_lookup(
        lookup: impl Fn(&'static str) -> Option<OsString>,
    ) -> (Self, Vec<SettingsWarning>) {
        let mut variables = Variables { lookup, warnings: Vec::new() };
        let settings = Self {
            admin_gate: variables.admin_gate(),
            sandbox: variables.sandbox_mode(),
            memory_mb: variables.number(
                "QWED_MCP_MEMORY_MB",
                MEMORY_MB_MIN..=MEMORY_MB_MAX,
                MEMORY_MB_DEFAULT,
            ),
            read_paths: variables
                .present("QWED_MCP_READ_PATHS")
                .map(|paths| std::env::split_paths(&paths).collect::<Vec<_>>())
                .unwrap_or_default()
                .into_iter()
                .filter(|path| !path.as_os_str().is_empty())
                .collect(),
            code_analysis: match variables.test_switch("QWED_MCP_TEST_UNCHECKED_CODE") {
                Some(_) => CodeAnalysis::Off,
                None => CodeAnalysis::On,
            },
            kernel_lacks: variables.kernel_lacks(),
            apple_parts: variables.test_switch("QWED_MCP_TEST_APPLE_PARTS").map(PathBuf::from),
            dumpable: variables.test_switch("QWED_MCP_TEST_DUMPABLE").is_some(),
            python: variables.present("QWED_MCP_PYTHON"),
            warm: variables.is_on("QWED_MCP_WARM"),
            warm_idle: variables.warm_idle(),
            preload: variables.preload(),
            fork_server_runs_max: variables.fork_server_runs_max(),
            pictures: variables.is_on("QWED_MCP_PICTURES"),
            virtual_env: variables.path("VIRTUAL_ENV"),
            skill_manifest: variables.path("QWED_SKILL_MANIFEST"),
            aibom: variables.path("QWED_MCP_AIBOM"),
            llm_model: variables
                .text("QWED_MCP_LLM_MODEL")
                .filter(|model| !model.trim().is_empty()),
            data_dir: variables.path("QWED_MCP_DATA_DIR"),
            policy: variables.path("QWED_MCP_POLICY"),
            // A value that is not UTF-8 is still meant as a token, so it becomes an invalid token and not a missing
            // one.
            auth_token: variables
                .present("QWED_MCP_AUTH_TOKEN")
                .map(|token| token.into_string().unwrap_or_default().into()),
            auth_token_file: variables.path("QWED_MCP_AUTH_TOKEN_FILE"),
            // A value that is not UTF-8 is still meant as a URL, so it becomes an invalid URL and not a missing one.
            store: variables
                .present("QWED_MCP_STORE")
                .map(|url| url.into_string().unwrap_or_default().into()),
            receipts: variables.path("QWED_MCP_RECEIPTS"),
            signing_key: variables.path("QWED_MCP_SIGNING_KEY"),
            receipts_sync: variables.is_switched_on("QWED_MCP_RECEIPTS_SYNC"),
            receipts_outputs: variables.is_switched_on("QWED_MCP_RECEIPTS_OUTPUTS"),
            deterministic: variables.is_switched_on("QWED_MCP_DETERMINISTIC"),
            sync_concurrency: variables.number(
                "QWED_MCP_SYNC_CONCURRENCY",
                1..=SYNC_CONCURRENCY_MAX,
                SYNC_CONCURRENCY_DEFAULT,
            ),
            user_share: Share::default(),
            sync_timeout: variables.test_ms("QWED_MCP_TEST_SYNC_TIMEOUT_MS", SYNC_TIMEOUT),
            turn_deadline: variables
                .test_switch("QWED_MCP_TEST_TURN_DEADLINE_MS")
                .and_then(|value| value.to_str()?.parse().ok())
                .map(Duration::from_millis),
            background_timeout: variables.background_timeout(),
            job_ttl: variables.test_ms("QWED_MCP_TEST_JOB_TTL_MS", JOB_TTL),
        };
        (settings, variables.warnings)
    }
}

/// The variable with the filter of the log.
const LOG: &str = "QWED_MCP_LOG";

/// Reads the filter of the log (`QWED_MCP_LOG`), which is needed before the other settings.
pub(crate) fn log_filter() -> String {
    std::env::var(LOG).unwrap_or_default()
}

/// Returns the names of all variables that configure this program.
pub(crate) fn variables() -> Vec<&'static str> {
    let asked = RefCell::new(vec![LOG]);
    // Every setting is looked up, regardless of the others.
    let _ = Settings::from_lookup(|name| {
        asked.borrow_mut().push(name);
        None
    });
    asked.into_inner()
}

/// Returns whether a name has the form of our variables.
pub(crate) fn is_own_variable(name: &str) -> bool {
    let rest = name.strip_prefix("QWED").unwrap_or_default();
    ["_MCP_", "_SKILL_"].iter().any(|start| rest.starts_with(start))
}

/// Reads a variable by which a terminal identifies itself.
pub(crate) fn terminal(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The environment variables, and warnings about invalid values.
struct Variables<L> {
    lookup: L,
    warnings: Vec<SettingsWarning>,
}

impl<L: Fn(&'static str) -> Option<OsString>> Variables<L> {
    fn present(&self, name: &'static str) -> Option<OsString> {
        (self.lookup)(name).filter(|value| !value.is_empty())
    }

    fn text(&self, name: &'static str) -> Option<String> {
        self.present(name)?.into_string().ok()
    }

    fn path(&self, name: &'static str) -> Option<PathBuf> {
        self.present(name).map(PathBuf::from)
    }

    /// Returns a variable that only tests may set. Release builds ignore these variables.
    fn test_switch(&self, name: &'static str) -> Option<OsString> {
        if cfg!(debug_assertions) { (self.lookup)(name) } else { None }
    }

    /// Parses a variable. Returns `default` if it is unset. Also returns `default` if `parse` rejects the value, with a
    /// warning that the variable `is` something.
    fn parsed<T>(
        &mut self,
        name: &'static str,
        default: T,
        parse: impl FnOnce(&str) -> Option<T>,
        is: &str,
    ) -> T {
        let Some(value) = self.text(name) else { return default };
        parse(&value).unwrap_or_else(|| {
            self.warnings.push(SettingsWarning(format!("{name} is {is}")));
            default
        })
    }

    /// Parses a whole number within `range`.
    fn number<N>(&mut self, name: &'static str, range: RangeInclusive<N>, default: N) -> N
    where
        N: Copy + Display + FromStr + PartialOrd,
    {
        let (min, max) = (range.start(), range.end());
        let is = format!("not a whole number from {min} to {max}; using {default}");
        let parse = |text: &str| match text.trim() {
            "" => Some(default),
            text => text.parse().ok().filter(|number| range.contains(number)),
        };
        self.parsed(name, default, parse, &is)
    }

    fn admin_gate(&mut self) -> AdminGate {
        let parse = |text: &str| match text.to_ascii_lowercase().as_str() {
            "true" => Some(AdminGate::Open),
            "false" => Some(AdminGate::Closed),
            _ => None,
        };
        let name = "QWED_MCP_TRUSTED_CODE_EXECUTION";
        let value = self.text(name).unwrap_or_default();
        let is = format!("{value:?}, and only the word true lets code run");
        self.parsed(name, AdminGate::Closed, parse, &is)
    }

    fn sandbox_mode(&mut self) -> SandboxMode {
        let parse = |text: &str| match text.to_ascii_lowercase().as_str() {
            "required" => Some(SandboxMode::Required),
            "strict" => Some(SandboxMode::Strict),
            "degraded" => Some(SandboxMode::Degraded),
            "off" => Some(SandboxMode::Off),
            _ => None,
        };
        let is = "none of required, strict, degraded and off; taking it as required";
        let mode = self.parsed("QWED_MCP_SANDBOX", SandboxMode::Required, parse, is);
        let dangerous = match mode {
            SandboxMode::Required | SandboxMode::Strict => return mode,
            SandboxMode::Degraded => {
                "degraded: where parts of the kernel sandbox are missing, scripts run without them"
            }
            SandboxMode::Off => "off: scripts run with all rights of the server's user",
        };
        self.warnings.push(SettingsWarning(format!("QWED_MCP_SANDBOX={dangerous}")));
        mode
    }

    /// Parses a switch that is on by default.
    fn is_on(&mut self, name: &'static str) -> bool {
        let parse = |text: &str| match text.to_ascii_lowercase().as_str() {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        };
        self.parsed(name, true, parse, "neither on nor off; taking it as on")
    }

    /// Parses a switch that is off by default.
    fn is_switched_on(&mut self, name: &'static str) -> bool {
        let parse = |text: &str| match text.to_ascii_lowercase().as_str() {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        };
        self.parsed(name, false, parse, "neither on nor off; taking it as off")
    }

    fn warm_idle(&mut self) -> Option<Duration> {
        let parse = |text: &str| match text.trim() {
            "" => Some(WARM_IDLE_SECONDS_DEFAULT),
            text => text.parse().ok(),
        };
        let is = format!("not a whole number; using {WARM_IDLE_SECONDS_DEFAULT}");
        let name = "QWED_MCP_WARM_IDLE_SECONDS";
        let seconds = self.parsed(name, WARM_IDLE_SECONDS_DEFAULT, parse, &is);
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Parses the modules to preload. An empty list is valid: it means an interpreter that has loaded nothing.
    fn preload(&mut self) -> Vec<Vec<String>> {
        let names = |list: &str| list.split_ascii_whitespace().map(str::to_owned).collect();
        let default = || [PRELOAD_LIGHT, PRELOAD_HEAVY, PRELOAD_FOR_DRAWING].map(names).into();
        let Some(value) = (self.lookup)("QWED_MCP_PRELOAD") else { return default() };
        let is_name = |name: &str| {
            name.split('.').all(|part| {
                part.starts_with(|c: char| c == '_' || c.is_alphabetic())
                    && part.chars().all(|c| c == '_' || c.is_alphanumeric())
            })
        };
        let value = value.into_string().unwrap_or_else(|_| "not UTF-8".to_owned());
        let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
        if names.clone().all(is_name) {
            // One list, for all scripts.
            return vec![names.map(str::to_owned).collect()];
        }
        let warning = "QWED_MCP_PRELOAD is not a list of module names with commas between them; \
                       using the default";
        self.warnings.push(SettingsWarning(warning.to_owned()));
        default()
    }

    /// Parses `QWED_MCP_TEST_FORK_SERVER_RUNS`, a number.
    fn fork_server_runs_max(&self) -> u64 {
        let fewer = self.test_switch("QWED_MCP_TEST_FORK_SERVER_RUNS");
        let fewer = fewer.and_then(|value| value.to_str()?.parse().ok());
        fewer.unwrap_or(FORK_SERVER_RUNS_MAX)
    }

    fn background_timeout(&mut self) -> Duration {
        let default = BACKGROUND_TIMEOUT_DEFAULT;
        let is = format!("not a positive number of seconds; using {}", default.as_secs());
        let parse = |text: &str| {
            let seconds: f64 = text.trim().parse().ok()?;
            let seconds = Some(seconds).filter(|seconds| seconds.is_finite() && *seconds > 0.0)?;
            Some(Duration::from_secs_f64(seconds.min(BACKGROUND_TIMEOUT_MAX.as_secs_f64())))
        };
        self.parsed("QWED_MCP_BACKGROUND_TIMEOUT", default, parse, &is)
    }

    /// Parses `QWED_MCP_TEST_KERNEL_LACKS`, words separated by commas.
    fn kernel_lacks(&self) -> KernelLacks {
        let value = self.test_switch("QWED_MCP_TEST_KERNEL_LACKS");
        let value = value.and_then(|value| value.into_string().ok()).unwrap_or_default();
        let lacks = |part: &str| value.split(',').any(|word| word == part);
        KernelLacks {
            namespaces: lacks("namespaces"),
            landlock: lacks("landlock"),
            file_tree: lacks("file_tree"),
            control_groups: lacks("control_groups"),
            fixed_addresses: lacks("fixed_addresses"),
        }
    }

    fn test_ms(&self, name: &'static str, default: Duration) -> Duration {
        let value = self.test_switch(name).and_then(|value| value.into_string().ok());
        value.and_then(|value| value.parse().ok()).map_or(default, Duration::from_millis)
    }
}

#[cfg(test)]
mod tests;
