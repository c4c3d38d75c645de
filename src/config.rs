//! Reads the settings from environment variables, once at start.
//!
//! No other module reads the `QWED_` variables of this process. An invalid value is not an error here: the default
//! applies, and a [`SettingsWarning`] reports the value. The settings are not read with clap's `env`, because clap ends
//! the program at an invalid value.
//!
//! If a call waits for the result of its run, the run is called synchronous. All other runs of scripts are background
//! jobs.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Datelike as _, Utc};
use thiserror::Error;

use crate::Secret;
use crate::ledger::StorePlace;
use crate::shares::Share;

/// If the settings allow more synchronous runs per processor than this number, a warning is logged.
const RUNS_PER_PROCESSOR_MAX: usize = 4;

const BACKGROUND_TIMEOUT_DEFAULT: Duration = Duration::from_secs(120);
/// The maximum of `QWED_MCP_BACKGROUND_TIMEOUT`. With a higher value, one job could keep other jobs waiting for hours.
const BACKGROUND_TIMEOUT_MAX: Duration = Duration::from_secs(600);
/// The default time limit of a synchronous run. It is shorter than the 60 s after which common MCP clients give up.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);
/// The default start time of the clocks in a deterministic run: 2026-01-01T00:00:00Z.
pub(crate) const RUN_START: DateTime<Utc> = DateTime::from_timestamp(1_767_225_600, 0).unwrap();
/// The years in which the clocks of a deterministic run may start. The library that replaces the clocks in the sandbox
/// (`fixed.c`) takes a deadline before 1973 for a deadline of the monotonic clock, so the lower limit is far above
/// 1973. The upper limit keeps the number of nanoseconds since 1970 within 64 bits.
const RUN_YEARS: RangeInclusive<i32> = 2000..=2199;
/// The default time for which a job is kept after its last change of state.
const JOB_TTL: Duration = Duration::from_secs(3600);
/// The maximum of `QWED_MCP_SYNC_CONCURRENCY`. More interpreters would only compete for the processors.
const SYNC_CONCURRENCY_MAX: usize = 64;
const SYNC_CONCURRENCY_DEFAULT: usize = 1;

const WARM_IDLE_SECONDS_DEFAULT: u32 = 1800;

/// The modules that every warm interpreter preloads by default, because verifications use them. Modules that are not
/// installed are skipped. `qwed_sdk` is not in the list, because it loads so much that a fork would take twice as long.
const PRELOAD_LIGHT: &str = "
    __future__ abc argparse ast base64 bisect calendar cmath collections collections.abc contextlib copy csv
    dataclasses datetime decimal enum fractions functools hashlib heapq inspect io itertools json
    locale logging math numbers operator os pathlib pprint random re secrets statistics string
    struct sys tempfile textwrap time traceback types typing unittest uuid warnings zoneinfo
";

/// The libraries that most verifications use in addition to [`PRELOAD_LIGHT`]. Only some kinds of warm interpreters
/// preload these libraries, because the libraries make forks slower.
const PRELOAD_USUAL: &str = "numpy sympy z3";

/// The packages of QWED that some verifications use in addition to [`PRELOAD_USUAL`]. These packages take as much
/// memory as the libraries in [`PRELOAD_USUAL`], so only some kinds of warm interpreters preload them.
const PRELOAD_GUARDS: &str = "qwed_legal qwed_finance qwed_tax qwed_ucp qwed_new";

/// The module for plots. Only the kind of warm interpreter with the most modules preloads this module, because the
/// module makes forks even slower.
const PRELOAD_FOR_DRAWING: &str = "matplotlib.pyplot";

/// The default for the maximum number of runs that one fork server (a warm interpreter that forks for each run) starts.
/// No memory leak in fork servers is known. The limit guards against unknown leaks.
const FORK_SERVER_RUNS_MAX: u64 = 20_000;

/// The default memory limit of a run, in MiB. It is six times the memory that `SymPy`, Z3 and `NumPy` need together.
pub(crate) const MEMORY_MB_DEFAULT: u64 = 1024;
/// The minimum of `QWED_MCP_MEMORY_MB`, in MiB. With less memory the verification libraries cannot be imported.
pub(crate) const MEMORY_MB_MIN: u64 = 128;
/// The maximum of `QWED_MCP_MEMORY_MB`, in MiB. It equals 1 TiB.
pub(crate) const MEMORY_MB_MAX: u64 = 1024 * 1024;

/// The range of `QWED_MCP_RESULT_CHARS`, in characters. A higher value would have no effect, because the two output
/// streams of a run contain at most 1 MiB each.
const RESULT_CHARS: RangeInclusive<usize> = 1_000..=2_097_152;

/// The admin gate: whether scripts may run at all (`QWED_MCP_TRUSTED_CODE_EXECUTION`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminGate {
    /// Scripts run if the analysis has no findings.
    Open,
    /// No script runs. Every call is still analysed and answered.
    Closed,
}

/// The sandbox that the admin requires (`QWED_MCP_SANDBOX`). If this sandbox is unavailable, no script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SandboxMode {
    /// All layers of the sandbox (tier 3), or all layers except namespaces (tier 2) if namespaces are unavailable. On
    /// macOS, Seatbelt. This is the default.
    Required,
    /// All layers of the sandbox (tier 3).
    Strict,
    /// All layers of the sandbox that this machine supports. These must include the filter of system calls (tier 1).
    Degraded,
    /// No sandbox. Scripts run with all rights of the server's user.
    Off,
}

/// The verdicts for which the result of a call contains an additional text that explains the verdict to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictNote {
    /// No verdict.
    Off,
    /// Verdicts on scripts with a failed check, and on scripts with checks that prove nothing. This is the default.
    Vacuous,
    /// The verdicts of `Vacuous`, and verdicts on runs in which no check was executed.
    All,
}

/// Whether scripts are analysed before they run. Only tests of the sandbox turn the analysis off, and only debug builds
/// allow this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeAnalysis {
    /// Scripts are analysed. This is the only state in release builds.
    On,
    /// Scripts are not analysed, because `QWED_MCP_TEST_UNCHECKED_CODE` is set.
    Off,
}

/// The kernel features that this program treats as missing, for tests. Only debug builds allow this. Tests set the
/// flags through an environment variable, because integration tests run the real program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts, not states")]
pub(crate) struct KernelLacks {
    /// Whether the creation of namespaces is treated as impossible.
    pub(crate) namespaces: bool,
    /// Whether Landlock is treated as missing.
    pub(crate) landlock: bool,
    /// Whether the setup of a run's file tree is treated as failing with an I/O error (`EIO`).
    pub(crate) file_tree: bool,
    /// Whether the creation of control groups is treated as impossible.
    pub(crate) control_groups: bool,
    /// Whether the kernel is treated as unable to give each run the same memory addresses.
    pub(crate) fixed_addresses: bool,
}

/// The parsed settings of the admin.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "switches, not states")]
pub struct Settings {
    /// Whether scripts may run at all (`QWED_MCP_TRUSTED_CODE_EXECUTION`).
    pub admin_gate: AdminGate,
    /// The sandbox that the admin requires (`QWED_MCP_SANDBOX`).
    pub sandbox: SandboxMode,
    /// The memory limit for all processes of a run together, in MiB (`QWED_MCP_MEMORY_MB`).
    pub memory_mb: u64,
    /// The files and folders that scripts may read in addition to Python's own files (`QWED_MCP_READ_PATHS`,
    /// separated by colons).
    pub read_paths: Vec<PathBuf>,
    /// Whether scripts are analysed before they run.
    pub(crate) code_analysis: CodeAnalysis,
    /// The kernel features that this program treats as missing (`QWED_MCP_TEST_KERNEL_LACKS`). Set by tests only, and
    /// only in debug builds.
    pub(crate) kernel_lacks: KernelLacks,
    /// A folder with substitutes for the macOS programs and files that the sandbox uses (`QWED_MCP_TEST_APPLE_PARTS`).
    /// Set by tests only, and only in debug builds.
    pub(crate) apple_parts: Option<PathBuf>,
    /// Whether other processes of the user may inspect this process (`QWED_MCP_TEST_DUMPABLE`). Set by tests only, and
    /// only in debug builds.
    pub(crate) dumpable: bool,
    /// The interpreter for scripts: its path, or its name, which is looked up on `PATH` (`QWED_MCP_PYTHON`).
    pub python: Option<OsString>,
    /// The names of packages (`QWED_MCP_ENV_ALLOW`, separated by commas). If a script lists one of these packages in
    /// its header, the server installs the package. If no names are set, the server installs nothing.
    pub env_allow: Vec<String>,
    /// Whether scripts can run in forks of warm interpreters (`QWED_MCP_WARM`).
    pub warm: bool,
    /// The time for which an idle warm interpreter is kept (`QWED_MCP_WARM_IDLE_SECONDS`). `None` if idle
    /// interpreters are never stopped.
    pub warm_idle: Option<Duration>,
    /// The modules that warm interpreters preload (`QWED_MCP_PRELOAD`, separated by commas). Each inner list belongs to
    /// one kind of interpreter, which preloads the modules of this list and of all previous lists. If the admin sets
    /// the variable, the value is a single list, so only one kind of interpreter exists.
    pub preload: Vec<Vec<String>>,
    /// The maximum number of runs that one fork server starts. Tests can lower it in debug builds
    /// (`QWED_MCP_TEST_FORK_SERVER_RUNS`).
    pub(crate) fork_server_runs_max: u64,
    /// The verdicts for which the result of a call contains an additional text for the model (`QWED_MCP_VERDICT_NOTE`).
    pub verdict_note: VerdictNote,
    /// Whether the server also runs variants of a verified script, with other numbers (`QWED_MCP_VACUITY`). Checks that
    /// hold with any numbers do not test the claim.
    pub vacuity: bool,
    /// Whether a call receives the result of an earlier run of the same script, if the result cannot differ between
    /// runs (`QWED_MCP_ANSWER_ONCE`).
    pub answer_once: bool,
    /// Whether plots of scripts are returned as pictures (`QWED_MCP_PICTURES`).
    pub pictures: bool,
    /// The maximum number of characters of a script's output in a result (`QWED_MCP_RESULT_CHARS`). A longer output is
    /// shortened in the middle. `None` if outputs are never shortened.
    pub result_chars: Option<usize>,
    /// The root of the activated virtual environment (`VIRTUAL_ENV`). `None` if no virtual environment is activated.
    pub virtual_env: Option<PathBuf>,
    /// The skill manifest that is verified before the server answers any request (`QWED_SKILL_MANIFEST`).
    pub skill_manifest: Option<PathBuf>,
    /// The file to which the bill of materials is written at the end of the session (`QWED_MCP_AIBOM`).
    pub aibom: Option<PathBuf>,
    /// The name of the model that calls the server, for clients that name no model (`QWED_MCP_LLM_MODEL`).
    pub llm_model: Option<String>,
    /// The folder for the tokens, the audit log and the artifacts of governed tools (`QWED_MCP_DATA_DIR`).
    pub data_dir: Option<PathBuf>,
    /// The policy file of the governed tools (`QWED_MCP_POLICY`). Without a policy, the server has no governed tools.
    pub policy: Option<PathBuf>,
    /// The token for calls that carry no token (`QWED_MCP_AUTH_TOKEN`).
    pub auth_token: Option<Secret>,
    /// The file that contains the token for calls that carry no token, as an alternative to `QWED_MCP_AUTH_TOKEN`
    /// (`QWED_MCP_AUTH_TOKEN_FILE`).
    pub auth_token_file: Option<PathBuf>,
    /// The URL of the database that replicas share (`QWED_MCP_STORE`). `None` if the server is not a replica.
    pub store: Option<Secret>,
    /// The folder for receipts of scripts (`QWED_MCP_RECEIPTS`). `None` if the server writes no receipts for scripts.
    pub receipts: Option<PathBuf>,
    /// The file with the key that signs receipts (`QWED_MCP_SIGNING_KEY`). `None` if the key is in the data folder.
    pub signing_key: Option<PathBuf>,
    /// Whether the server syncs a receipt to the disk before it sends the result (`QWED_MCP_RECEIPTS_SYNC`).
    pub receipts_sync: bool,
    /// Whether the output of scripts is stored next to their receipts (`QWED_MCP_RECEIPTS_OUTPUTS`).
    pub receipts_outputs: bool,
    /// The start time of the clocks in each run, if runs are deterministic (`QWED_MCP_DETERMINISTIC`). `None` if runs
    /// are not deterministic.
    pub deterministic: Option<DateTime<Utc>>,
    /// The maximum number of synchronous runs at the same time (`QWED_MCP_SYNC_CONCURRENCY`).
    pub sync_concurrency: usize,
    /// The share of each common resource that one user may take. Common resources are concurrent runs, requests in
    /// flight, bytes and jobs. The share comes from the option `--user-share`, not from a variable.
    pub(crate) user_share: Share,
    /// The time limit of a synchronous run, measured from the start of the run.
    pub(crate) sync_timeout: Duration,
    /// The maximum time that a call waits for the start of its run, if its client cannot cancel the call. `None` means
    /// the default time. Tests set another time in debug builds (`QWED_MCP_TEST_TURN_DEADLINE_MS`).
    pub(crate) turn_deadline: Option<Duration>,
    /// The time limit of a background job, measured from the start of its run (`QWED_MCP_BACKGROUND_TIMEOUT`).
    pub background_timeout: Duration,
    /// The time for which a job is kept after its last change of state.
    pub(crate) job_ttl: Duration,
}

/// A warning about a variable with an invalid or dangerous value. The text is one sentence, which also describes the
/// consequence of the value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SettingsWarning(String);

impl Settings {
    /// Reads the settings from the environment of this process.
    pub fn from_env() -> (Self, Vec<SettingsWarning>) {
        Self::from_lookup(std::env::var_os)
    }

    /// Returns the location of the tokens and the audit log: the database in `store`, or the data folder `folder`.
    pub(crate) fn store_in<'a>(&'a self, folder: &'a Path) -> StorePlace<'a> {
        StorePlace::new(folder, self.store.as_ref())
    }

    /// Returns a warning if the allowed number of synchronous runs is far higher than this machine's number of
    /// processors.
    pub(crate) fn crowding(&self) -> Option<SettingsWarning> {
        let runs = self.sync_concurrency;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let is_crowded = runs > processors.saturating_mul(RUNS_PER_PROCESSOR_MAX);
        is_crowded.then(|| {
            SettingsWarning(format!(
                "QWED_MCP_SYNC_CONCURRENCY is {runs}, and this machine has {processors} \
                 processors: scripts that \
                 compute take longer the more of them run at once, and may run out of time"
            ))
        })
    }

    /// Reads the settings with `lookup`, which returns the value of the variable with a given name.
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
            env_allow: variables.env_allow(),
            warm: variables.is_on("QWED_MCP_WARM"),
            warm_idle: variables.warm_idle(),
            preload: variables.preload(),
            fork_server_runs_max: variables.fork_server_runs_max(),
            verdict_note: variables.verdict_note(),
            vacuity: variables.is_switched_on("QWED_MCP_VACUITY"),
            answer_once: variables.is_switched_on("QWED_MCP_ANSWER_ONCE"),
            pictures: variables.is_on("QWED_MCP_PICTURES"),
            result_chars: variables.result_chars(),
            virtual_env: variables.path("VIRTUAL_ENV"),
            skill_manifest: variables.path("QWED_SKILL_MANIFEST"),
            aibom: variables.path("QWED_MCP_AIBOM"),
            llm_model: variables
                .text("QWED_MCP_LLM_MODEL")
                .filter(|model| !model.trim().is_empty()),
            data_dir: variables.path("QWED_MCP_DATA_DIR"),
            policy: variables.path("QWED_MCP_POLICY"),
            // A value that is not UTF-8 becomes an empty token, which is invalid. It must not count as missing, because
            // the admin meant to set a token.
            auth_token: variables
                .present("QWED_MCP_AUTH_TOKEN")
                .map(|token| token.into_string().unwrap_or_default().into()),
            auth_token_file: variables.path("QWED_MCP_AUTH_TOKEN_FILE"),
            // As above, a value that is not UTF-8 becomes an empty URL, which is invalid.
            store: variables
                .present("QWED_MCP_STORE")
                .map(|url| url.into_string().unwrap_or_default().into()),
            receipts: variables.path("QWED_MCP_RECEIPTS"),
            signing_key: variables.path("QWED_MCP_SIGNING_KEY"),
            receipts_sync: variables.is_switched_on("QWED_MCP_RECEIPTS_SYNC"),
            receipts_outputs: variables.is_switched_on("QWED_MCP_RECEIPTS_OUTPUTS"),
            deterministic: variables.deterministic(),
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

/// Returns whether a text can be the name of a package (PEP 508).
pub(crate) fn is_package_name(text: &str) -> bool {
    let is_end = |c: char| c.is_ascii_alphanumeric();
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    text.starts_with(is_end) && text.ends_with(is_end) && text.chars().all(is_of_name)
}

const LOG: &str = "QWED_MCP_LOG";

/// Reads the log filter (`QWED_MCP_LOG`). It is not part of [`Settings`], because logging starts before the settings
/// are read.
pub(crate) fn log_filter() -> String {
    std::env::var(LOG).unwrap_or_default()
}

/// Returns the names of all variables that configure this program.
pub(crate) fn variables() -> Vec<&'static str> {
    let asked = RefCell::new(vec![LOG]);
    // `from_lookup` looks up every variable, even if all other variables are missing.
    let _ = Settings::from_lookup(|name| {
        asked.borrow_mut().push(name);
        None
    });
    asked.into_inner()
}

/// Returns whether a variable's name begins with `QWED_MCP_` or `QWED_SKILL_`.
pub(crate) fn is_own_variable(name: &str) -> bool {
    let rest = name.strip_prefix("QWED").unwrap_or_default();
    ["_MCP_", "_SKILL_"].iter().any(|start| rest.starts_with(start))
}

/// Reads a variable by which a terminal identifies itself, such as `TERM`.
pub(crate) fn terminal(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Reads environment variables with `lookup`, and collects the warnings about invalid values.
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

    /// Returns the value of a variable that only tests may set. Release builds ignore such variables.
    fn test_switch(&self, name: &'static str) -> Option<OsString> {
        if cfg!(debug_assertions) { (self.lookup)(name) } else { None }
    }

    /// Parses a variable. Returns `default` if the variable is not set. If `parse` rejects the value, adds a warning
    /// and returns `default`. `is` is the end of the warning, which begins with "NAME is".
    fn parsed<T>(
        &mut self,
        name: &'static str,
        default: T,
        parse: impl FnOnce(&str) -> Option<T>,
        is: &str,
    ) -> T {
        let Some(value) = self.present(name) else { return default };
        value.to_str().and_then(parse).unwrap_or_else(|| {
            self.warnings.push(SettingsWarning(format!("{name} is {is}")));
            default
        })
    }

    /// Parses a whole number. Adds a warning and returns `default` if the number is outside of `range`.
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
        let value = self.present(name).unwrap_or_default();
        let value = value.to_string_lossy();
        let is = format!("{value:?}, and only the value true allows scripts to run");
        self.parsed(name, AdminGate::Closed, parse, &is)
    }

    fn verdict_note(&mut self) -> VerdictNote {
        let parse = |text: &str| match text.to_ascii_lowercase().as_str() {
            "off" => Some(VerdictNote::Off),
            "vacuous" => Some(VerdictNote::Vacuous),
            "all" => Some(VerdictNote::All),
            _ => None,
        };
        let is = "not off, vacuous or all; using vacuous";
        self.parsed("QWED_MCP_VERDICT_NOTE", VerdictNote::Vacuous, parse, is)
    }

    fn sandbox_mode(&mut self) -> SandboxMode {
        let parse = |text: &str| match text.to_ascii_lowercase().as_str() {
            "required" => Some(SandboxMode::Required),
            "strict" => Some(SandboxMode::Strict),
            "degraded" => Some(SandboxMode::Degraded),
            "off" => Some(SandboxMode::Off),
            _ => None,
        };
        let is = "not required, strict, degraded or off; using required";
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

    /// Parses a switch (`on` or `off`). The default is on.
    fn is_on(&mut self, name: &'static str) -> bool {
        let parse = |text: &str| match text.to_ascii_lowercase().as_str() {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        };
        self.parsed(name, true, parse, "neither on nor off; using on")
    }

    /// Parses a switch (`on` or `off`). The default is off.
    fn is_switched_on(&mut self, name: &'static str) -> bool {
        let parse = |text: &str| match text.to_ascii_lowercase().as_str() {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        };
        self.parsed(name, false, parse, "neither on nor off; using off")
    }

    fn deterministic(&mut self) -> Option<DateTime<Utc>> {
        let parse = |text: &str| match text.to_ascii_lowercase().as_str() {
            "on" => Some(Some(RUN_START)),
            "off" => Some(None),
            _ => run_start(text).ok().map(Some),
        };
        let is = "neither on nor off nor a time such as 2026-01-31T12:00:00Z; using off";
        self.parsed("QWED_MCP_DETERMINISTIC", None, parse, is)
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

    /// Parses the modules to preload. An empty list is valid, and means an interpreter that preloads nothing.
    fn preload(&mut self) -> Vec<Vec<String>> {
        let names = |list: &str| list.split_ascii_whitespace().map(str::to_owned).collect();
        let default = || {
            [PRELOAD_LIGHT, PRELOAD_USUAL, PRELOAD_GUARDS, PRELOAD_FOR_DRAWING].map(names).into()
        };
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
            // All scripts use the admin's modules, so only one kind of interpreter exists.
            return vec![names.map(str::to_owned).collect()];
        }
        let warning = "QWED_MCP_PRELOAD is not a list of module names with commas between them; \
                       using the default";
        self.warnings.push(SettingsWarning(warning.to_owned()));
        default()
    }

    fn env_allow(&mut self) -> Vec<String> {
        let parse = |text: &str| {
            let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
            names.map(|name| is_package_name(name).then(|| name.to_owned())).collect()
        };
        let is = "not a list of package names with commas between them; installing nothing";
        self.parsed("QWED_MCP_ENV_ALLOW", Vec::new(), parse, is)
    }

    fn result_chars(&mut self) -> Option<usize> {
        let parse = |text: &str| match text.trim() {
            "" => Some(None),
            text => text.parse().ok().filter(|number| RESULT_CHARS.contains(number)).map(Some),
        };
        let (min, max) = (RESULT_CHARS.start(), RESULT_CHARS.end());
        let is = format!("not a whole number from {min} to {max}; shortening no output");
        self.parsed("QWED_MCP_RESULT_CHARS", None, parse, &is)
    }

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

    /// Parses `QWED_MCP_TEST_KERNEL_LACKS`, a list of kernel features separated by commas.
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

/// Parses the start time of deterministic runs, in the format of RFC 3339.
pub(crate) fn run_start(text: &str) -> Result<DateTime<Utc>, String> {
    let start = DateTime::parse_from_rfc3339(text).map_err(|error| error.to_string())?.to_utc();
    let is_possible = RUN_YEARS.contains(&start.year());
    let (first, last) = (RUN_YEARS.start(), RUN_YEARS.end());
    is_possible.then_some(start).ok_or_else(|| format!("the year is not from {first} to {last}"))
}

#[cfg(test)]
mod tests;
