//! The requirements of tests, and checks whether this machine meets them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::{ServerBuilder, is_root, public_python, python};

/// The UID of the ordinary user for tests of the sandbox.
const ORDINARY_USER: u32 = 24_600;

/// A requirement that some machines do not meet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// An interpreter.
    Python,
    /// The tests' virtual environment with packages from PyPI.
    Packages,
    /// The interpreter's module `venv`.
    Venv,
    /// An interpreter of this minor version, such as `3.11`.
    PythonVersion(String),
    /// A sandbox of a tier that servers accept by default.
    Sandbox,
    /// Landlock in the version that tier 2 needs.
    Tier2,
    /// User namespaces, for tier 3.
    Tier3,
    /// The kernel can load a program at the same addresses each time. A container may forbid this.
    FixedAddresses,
    /// User namespaces for an ordinary user. If root runs the tests, servers run as another user.
    Tier3ForUsers,
    /// PostgreSQL's programs.
    Postgres,
    /// Root runs the tests, so they can start processes of other users.
    Root,
    /// An interpreter that every user can start, with the tests' packages. This need matters only if root runs the
    /// tests.
    PublicPython,
    /// The test takes many seconds. `cargo test` ignores tests with this need.
    Time,
    /// The test takes even longer. `.ci/run` runs such tests once a week.
    Week,
}

impl Need {
    /// Returns whether a test with this need uses an interpreter that other users can start.
    pub(crate) fn takes_public_python(&self) -> bool {
        matches!(self, Self::PublicPython | Self::Tier3ForUsers)
    }
}

impl fmt::Display for Need {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Python => "Python",
            Self::Packages => "packages from PyPI",
            Self::Venv => "Python's venv",
            Self::PythonVersion(version) => return write!(formatter, "Python {version}"),
            Self::Sandbox => "sandbox",
            Self::Tier2 => "tier 2 (Landlock ABI 6)",
            Self::Tier3 => "tier 3 (user namespaces)",
            Self::FixedAddresses => "fixed addresses",
            Self::Tier3ForUsers => "tier 3 for ordinary users",
            Self::Postgres => "PostgreSQL",
            Self::Root => "root",
            Self::PublicPython => "Python that other users can start",
            Self::Time => "time",
            Self::Week => "time once a week",
        })
    }
}

/// The environment variable that lists needs, such as `Time,Root`. Tests with these needs are ignored. `Time` includes
/// `Week`. The default is `Time`.
const WITHOUT: &str = "QWED_MCP_TESTS_WITHOUT";
const WITHOUT_BY_DEFAULT: &str = "Time";

/// The environment variable that selects only the tests with one need.
const WITH: &str = "QWED_MCP_TESTS_WITH";

/// Returns the needs whose tests are ignored.
pub(crate) fn waived() -> Vec<String> {
    let by_default = if wanted().is_some() { "" } else { WITHOUT_BY_DEFAULT };
    let names = std::env::var(WITHOUT).unwrap_or_else(|_| by_default.to_owned());
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Returns the need that selects tests, or `None` if all tests are selected.
pub(crate) fn wanted() -> Option<String> {
    std::env::var(WITH).ok().filter(|name| !name.is_empty())
}

/// Returns whether tests with this need are ignored.
pub(crate) fn is_waived(need: &Need) -> bool {
    let is_named = |need: &Need| waived().contains(&format!("{need:?}"));
    is_named(need) || *need == Need::Week && is_named(&Need::Time)
}

/// Returns the reason why the machine does not meet the need, or `None`. The result is cached.
pub(crate) fn obstacle(need: &Need) -> Option<String> {
    static KNOWN: Mutex<BTreeMap<Need, Option<String>>> = Mutex::new(BTreeMap::new());
    if let Some(known) = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(need) {
        return known.clone();
    }
    let found = match (is_waived(need), std::env::var_os(WITHOUT)) {
        (false, _) => find_obstacle(need),
        (true, Some(_)) => Some(format!("{WITHOUT} names it")),
        (true, None) => Some(format!("`{WITHOUT}= cargo test` runs them")),
    };
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(need.clone(), found.clone());
    found
}

fn find_obstacle(need: &Need) -> Option<String> {
    match need {
        Need::Python => python::obstacle(),
        Need::Packages => python::packages().err(),
        Need::Venv => python::venv_obstacle(),
        Need::Time | Need::Week => None,
        Need::PythonVersion(wanted) => {
            let version = python::version();
            (version != *wanted).then(|| format!("the tests' interpreter is Python {version}"))
        }
        Need::Sandbox => {
            let missing = obstacle(&Need::Tier3)?;
            let too = tier("T2", python::python(), None)?;
            Some(format!("{missing}; {too}"))
        }
        // At tier 2, a root server runs scripts as another user. This user cannot start programs in root's folders.
        Need::Tier2 => {
            tier("T2", &public_python().unwrap_or_else(|| python::python().to_owned()), None)
        }
        Need::Tier3 => tier("T3", python::python(), None),
        Need::FixedAddresses => (!can_fix_addresses())
            .then(|| "`setarch --addr-no-randomize true` is refused".to_owned()),
        Need::Tier3ForUsers if is_root() => {
            let Some(python) = public_python() else { return obstacle(&Need::PublicPython) };
            tier("T3", &python, Some(ORDINARY_USER))
        }
        Need::Tier3ForUsers => obstacle(&Need::Tier3),
        Need::Postgres => super::postgres::programs().is_none().then(|| {
            "neither on PATH nor in /usr/lib/postgresql; Debian's package is postgresql".to_owned()
        }),
        Need::Root => (!is_root()).then(|| "the tests are run by an ordinary user".to_owned()),
        Need::PublicPython => public_python().is_none().then(|| {
            "each is in a private folder, or is not the tests' version of Python".to_owned()
        }),
    }
}

/// Returns whether the kernel can load a program at the same addresses each time.
pub(crate) fn can_fix_addresses() -> bool {
    let mut command = Command::new("setarch");
    command.args(["--addr-no-randomize", "true"]).status().unwrap().success()
}

/// Returns the reason why the real binary cannot run scripts with this interpreter at this tier, or `None`.
fn tier(tier: &str, python: &Path, user: Option<u32>) -> Option<String> {
    let mut builder = ServerBuilder::of_interpreter(python);
    if tier == "T2" {
        builder = builder.variable("QWED_MCP_TEST_KERNEL_LACKS", "namespaces");
    }
    if let Some(user) = user {
        builder = builder.with_user(user);
    }
    let output = builder.command().args(["doctor", "--format", "json"]).output();
    let output = output.unwrap_or_else(|error| panic!("the binary does not start: {error}"));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("`doctor`: {error}: {}", String::from_utf8_lossy(&output.stderr))
    });
    let sandbox = &report["sandbox"];
    if sandbox["tier"] == tier {
        return None;
    }
    let layers = sandbox["layers"].as_array().into_iter().flatten();
    let of_tier = if tier == "T2" { "landlock" } else { "" };
    let mut missing = layers.filter(|layer| {
        layer["state"] == "missing" && layer["layer"].as_str().unwrap_or("").contains(of_tier)
    });
    let why = missing.next().and_then(|layer| layer["why"].as_str());
    Some(why.or(report["refusal"].as_str()).unwrap_or("`qwed-mcp doctor` says why").to_owned())
}
