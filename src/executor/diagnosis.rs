//! Diagnoses this machine for the admin: the interpreter, and the sandbox that scripts get.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use nix::unistd::{Uid, User, geteuid};
use serde::Serialize;
use serde_json::{Value, json};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::aibom::{InstalledPackages, Package};
use crate::config::SandboxMode;
use crate::sandbox::{Layer, Limits, Tier, script_user, supported_abi};

use super::containment::{Contained, NotContained};
use super::given::Given;
use super::obstacle::Obstacle;
use super::{
    Echo, Ending, FindError, HomeExposure, NotForProject, OneShotExecutor, Outcome, RunLimits,
    Source, Unusable,
};

/// The packages that verification scripts import, as pairs of module and distribution.
const PACKAGES: [(&str, &str); 9] = [
    ("sympy", "sympy"),
    ("z3", "z3-solver"),
    ("numpy", "numpy"),
    ("qwed_legal", "qwed-legal"),
    ("qwed_finance", "qwed-finance"),
    ("qwed_tax", "qwed-tax"),
    ("qwed_ucp", "qwed-ucp"),
    ("qwed_new", "qwed"),
    ("qwed_sdk", "qwed"),
];

/// Returns the distribution that provides `module`; `None` if verification scripts do not import `module`.
pub(crate) fn verification_package(module: &str) -> Option<&'static str> {
    PACKAGES.into_iter().find_map(|(known, package)| (known == module).then_some(package))
}

/// Returns the modules that verification scripts import.
pub(crate) fn verification_modules() -> impl Iterator<Item = &'static str> {
    PACKAGES.into_iter().map(|(module, _)| module)
}

/// An entry of the list that [`PACKAGES_SCRIPT`] prints: the module, the distribution and its version.
type FoundPackage = (String, Option<String>, Option<String>);

const PYTEST_SCRIPT: &str = "import pytest\nprint(pytest.__version__)";

/// A script that imports the modules in the list `NAMES`. The definition of `NAMES` is inserted before this script.
const IMPORTS_SCRIPT: &str =
    "import importlib\nfor name in NAMES:\n    importlib.import_module(name)\n";

/// The timeout for all imports together. It is long because the first import of new files reads them from the disk.
const IMPORTS_TIMEOUT: Duration = Duration::from_secs(300);

const PACKAGES_SCRIPT: &str = include_str!("python/packages.py");

/// The layers of the sandbox on macOS, in the order in which they are applied to a run.
#[cfg(not(all(target_os = "linux", not(qwed_portable))))]
const LAYERS: [Layer; 2] = [Layer::ResourceLimits, Layer::Seatbelt];

/// The layers of the sandbox on Linux, in the order in which they are applied to a run.
#[cfg(all(target_os = "linux", not(qwed_portable)))]
const LAYERS: [Layer; 7] = [
    Layer::Namespaces,
    Layer::FileTree,
    Layer::Identity,
    Layer::ResourceLimits,
    Layer::Capabilities,
    Layer::Landlock,
    Layer::Seccomp,
];

/// The reason why the test of the packages failed, or was not possible.
#[derive(Debug, Error)]
pub(crate) enum PackagesError {
    #[error("its interpreter does not work: {}", .0.tried().first().map_or_else(|| .0.to_string(), Unusable::to_string))]
    Interpreter(FindError),
    #[error("its packages cannot be imported: {0}")]
    Import(String),
    /// No script can run on this machine, so the packages were not tested.
    #[error("its packages were not tested, because scripts cannot run here: {reason}")]
    NotTried { version: String, reason: String },
}

/// The state of the interpreter, the packages and the sandbox that scripts need.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    pub(crate) interpreter: Result<FoundInterpreter, FindError>,
    /// The reasons why scripts can read the home folder; empty if scripts cannot read it.
    pub(crate) exposures: Vec<HomeExposure>,
    /// The distributions that verification scripts use, with their versions; `None` if scripts cannot import the
    /// distribution.
    pub(crate) packages: BTreeMap<String, Option<String>>,
    /// The tier that scripts get; `None` if no script can run.
    pub(crate) tier: Option<Tier>,
    /// The user that scripts run as; `None` if no script can run.
    pub(crate) script_user: Option<ScriptUser>,
    /// The unavailable tiers that the admin accepts and that are better than `tier`, best first, each with the reason.
    pub(crate) passed_over: Vec<(Tier, Obstacle)>,
    /// The state of each layer of the sandbox.
    pub(crate) layers: Vec<(Layer, LayerState)>,
    /// The limits of a run; `None` if no script can run.
    pub(crate) limits: Option<Limits>,
    /// A description of the control groups that limit the memory of runs, or the reason why control groups do not limit
    /// the memory.
    pub(crate) control_groups: Result<String, String>,
    /// The newest Landlock ABI that both this kernel and this program support.
    pub(crate) landlock_abi: u8,
    /// The complete error message for the admin if no code can run; `None` if code can run.
    pub(crate) refusal: Option<String>,
}

/// The interpreter for scripts.
#[derive(Debug)]
pub(crate) struct FoundInterpreter {
    pub(crate) program: PathBuf,
    pub(crate) version: String,
    pub(crate) source: Source,
    /// The candidates that take precedence over this interpreter but cannot be used.
    pub(crate) passed_over: Vec<Unusable>,
}

/// The user that scripts run as.
#[derive(Debug, Serialize)]
pub(crate) struct ScriptUser {
    id: u32,
    name: Option<String>,
    /// Whether this is the server's user.
    #[serde(skip)]
    is_servers: bool,
}

impl ScriptUser {
    fn at(tier: Tier) -> Self {
        let id = script_user(tier);
        let name = User::from_uid(Uid::from_raw(id)).ok().flatten().map(|user| user.name);
        Self { id, name, is_servers: id == geteuid().as_raw() }
    }
}

impl fmt::Display for ScriptUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = if self.is_servers { "the server's user" } else { "the server is root" };
        match &self.name {
            Some(name) => write!(f, "{name} (uid {}): {reason}", self.id),
            None => write!(f, "uid {}: {reason}", self.id),
        }
    }
}

/// Whether a layer of the sandbox applies to scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LayerState {
    /// The layer applies to scripts, and the canary did not get past it.
    Enforced,
    /// The layer does not apply to scripts.
    Missing {
        /// The reason why the layer does not apply.
        why: String,
        /// The admin's remedy, if one is known.
        remedy: Option<String>,
    },
    /// The layer was not tested, so its state is unknown. Contains the reason why it was not tested.
    NotTried(&'static str),
}

impl OneShotExecutor {
    /// Finds the interpreter, the packages and the sandbox that scripts need, and reports the state of each.
    pub(crate) async fn diagnose(&self) -> Diagnosis {
        let (interpreter, exposures) = match self.found().await {
            Ok(found) => {
                let interpreter = FoundInterpreter {
                    program: found.interpreter.reach.program.clone(),
                    version: found.interpreter.version.clone(),
                    source: found.source.clone(),
                    passed_over: found.passed_over.clone(),
                };
                (Ok(interpreter), found.interpreter.exposures.clone())
            }
            Err(error) => (Err(error), Vec::new()),
        };
        let contained = match &interpreter {
            Ok(_) => self.contained().await,
            // Does not call `contained`, because that would repeat the failed search for an interpreter.
            Err(error) => Err(NotContained::FindInterpreter(error.clone())),
        };
        let (contained, refusal) = match contained {
            Ok(contained) => (Some(contained), None),
            Err(error) => (None, Some(error)),
        };
        let obstacles = match (&refusal, contained) {
            (Some(NotContained::Sandbox(missing)), _) => Some(missing.tried.as_slice()),
            (Some(NotContained::FindInterpreter(_)), _) => None,
            (None, contained) => contained.map(|contained| contained.passed_over.as_slice()),
        };
        let tier = contained.map(|contained| contained.plan.tier);
        Diagnosis {
            interpreter,
            exposures,
            packages: match contained {
                Some(contained) => self.packages(contained).await,
                None => BTreeMap::new(),
            },
            tier,
            script_user: tier.map(ScriptUser::at),
            passed_over: contained.map_or_else(Vec::new, |contained| contained.passed_over.clone()),
            layers: layers(tier, obstacles, self.containment.mode),
            limits: contained.map(|contained| contained.plan.limits),
            control_groups: match tier {
                // The result is known, because `contained` searches for control groups before it tests the sandbox.
                Some(Tier::T1 | Tier::T2 | Tier::T3) => self.groups.describe(),
                Some(Tier::Seatbelt) => Err("macOS has none".to_owned()),
                Some(Tier::Off) => Err("nothing is bounded without a sandbox".to_owned()),
                None => Err("nothing can run".to_owned()),
            },
            landlock_abi: supported_abi(),
            refusal: refusal.map(|error| match error {
                NotContained::Sandbox(missing) => missing.for_admin(),
                NotContained::FindInterpreter(error) => format!("{error}."),
            }),
        }
    }

    /// Returns the version of pytest that the tests of a project would use, or the reason why pytest is unavailable.
    /// Imports pytest inside of the sandbox.
    pub(crate) async fn pytest(&self) -> Result<String, String> {
        let contained = self.contained().await.map_err(|error| error.to_string())?;
        if !self.may_start_interpreter(contained) {
            return Err(NotForProject::Tier(contained.plan.tier).to_string());
        }
        let run = self.supervise_own(contained, PYTEST_SCRIPT).await;
        let Outcome { ending, stdout, stderr, .. } = run.map_err(|error| error.to_string())?;
        match ending {
            Ending::Exited(0) => Ok(stdout.text.trim().to_owned()),
            Ending::Exited(_) | Ending::TimedOut | Ending::OutOfMemory | Ending::Cancelled => {
                let reason = stderr.text.trim_end().lines().last();
                Err(reason.unwrap_or("the import failed without an error message").to_owned())
            }
        }
    }

    /// Imports the modules of verification scripts, inside of the sandbox. Skips the modules of each distribution for
    /// which `is_there` returns false. Returns the version of the interpreter.
    pub(crate) async fn try_packages(
        &self,
        is_there: impl Fn(&str) -> bool,
    ) -> Result<String, PackagesError> {
        let found = self.found().await.map_err(PackagesError::Interpreter)?;
        let version = found.interpreter.version.clone();
        let contained = match self.contained().await {
            Ok(contained) => contained,
            Err(NotContained::FindInterpreter(error)) => {
                return Err(PackagesError::Interpreter(error));
            }
            Err(NotContained::Sandbox(missing)) => {
                return Err(PackagesError::NotTried { version, reason: missing.to_string() });
            }
        };
        let there = PACKAGES.iter().filter(|(_, distribution)| is_there(distribution));
        let modules: Vec<&str> = there.map(|(module, _)| *module).collect();
        let script = format!("NAMES = {}\n{IMPORTS_SCRIPT}", json!(modules));
        let limits = RunLimits::of_script(IMPORTS_TIMEOUT);
        let (cancel, echo) = (CancellationToken::new(), Echo::default());
        let run = self.supervise(contained, Given::source(&script), limits, &cancel, &echo).await;
        let outcome = run.map_err(|error| PackagesError::Import(error.to_string()))?;
        match outcome.ending {
            Ending::Exited(0) => Ok(version),
            Ending::Exited(_) | Ending::TimedOut | Ending::OutOfMemory | Ending::Cancelled => {
                let said = outcome.stderr.text.trim_end().lines().last().unwrap_or_default();
                let code = outcome.ending.exit_code();
                Err(PackagesError::Import(format!("{said} (return code {code})")))
            }
        }
    }

    /// Returns whether an interpreter may be started just to list its packages. Installed packages may load code of the
    /// workspace, so the sandbox must restrict access to files if a workspace exists.
    fn may_start_interpreter(&self, contained: &Contained) -> bool {
        contained.plan.tier >= Tier::Seatbelt || self.untrusted.is_none()
    }

    /// Returns the distributions in [`PACKAGES`] with their versions. A version is `None` if scripts cannot import the
    /// distribution.
    async fn packages(&self, contained: &Contained) -> BTreeMap<String, Option<String>> {
        let found = self.look_up_packages(contained, &json!(PACKAGES)).await;
        found.into_iter().filter_map(|(_, name, version)| Some((name?, version))).collect()
    }

    /// Looks up the modules in `names`, inside of the sandbox. Returns for each module its distribution and its
    /// version. The version is `None` if the module cannot be imported.
    async fn look_up_packages(&self, contained: &Contained, names: &Value) -> Vec<FoundPackage> {
        if !self.may_start_interpreter(contained) {
            return Vec::new();
        }
        // JSON writes `null` for a missing name, but the Python script needs `None`.
        let names = names.to_string().replace("null", "None");
        let script = format!("NAMES = {names}\n{PACKAGES_SCRIPT}");
        let run = self.supervise_own(contained, &script).await;
        let printed = run.map(|outcome| outcome.stdout.text).unwrap_or_default();
        serde_json::from_str(&printed).unwrap_or_default()
    }

    /// Returns the version of the interpreter, and the packages that provide these modules. `None` if no script can
    /// run.
    pub(super) async fn take_inventory(&self, modules: &[String]) -> Option<InstalledPackages> {
        let contained = self.contained().await.ok()?;
        let distribution = |module: &str| {
            let known = PACKAGES.iter().find(|(name, _)| *name == module);
            known.map(|(_, distribution)| *distribution)
        };
        let names: Vec<_> = modules.iter().map(|module| (module, distribution(module))).collect();
        let found = self.look_up_packages(contained, &json!(names)).await;
        let packages = found.into_iter().filter_map(|(module, distribution, version)| {
            Some((module, Package { distribution: distribution?, version: version? }))
        });
        let packages = packages.collect();
        Some(InstalledPackages { python: contained.interpreter.version.clone(), packages })
    }
}

/// Returns for each layer whether it applies to scripts that run at `tier`. `obstacles` are the reasons why tiers are
/// unavailable; `None` if no tier was tried.
fn layers(
    tier: Option<Tier>,
    obstacles: Option<&[(Tier, Obstacle)]>,
    mode: SandboxMode,
) -> Vec<(Layer, LayerState)> {
    let state = |layer: Layer| {
        if tier.is_some_and(|tier| tier > Tier::Off && tier >= layer.tier_min()) {
            return LayerState::Enforced;
        }
        let Some(obstacles) = obstacles else {
            return LayerState::NotTried("there is no interpreter to test it with");
        };
        match obstacles.iter().find(|(_, obstacle)| obstacle.layer() == Some(layer)) {
            Some((_, obstacle)) => LayerState::Missing {
                why: obstacle.to_string(),
                remedy: obstacle.remedy().map(str::to_owned),
            },
            None if layer == Layer::FileTree && obstacles.iter().any(blames_namespaces) => {
                LayerState::Missing { why: "it needs namespaces".to_owned(), remedy: None }
            }
            None if mode == SandboxMode::Off => LayerState::Missing {
                why: "QWED_MCP_SANDBOX=off".to_owned(),
                remedy: Some("remove QWED_MCP_SANDBOX".to_owned()),
            },
            None if tier.is_some() => LayerState::Missing {
                why: format!("{} failed, see above", layer.tier_min()),
                remedy: None,
            },
            None if obstacles.iter().any(|(_, obstacle)| obstacle.is_wrong_setting()) => {
                LayerState::NotTried("a setting is in the way, see below")
            }
            None => LayerState::NotTried("the missing layers are needed first"),
        }
    };
    LAYERS.into_iter().map(|layer| (layer, state(layer))).collect()
}

fn blames_namespaces((_, obstacle): &(Tier, Obstacle)) -> bool {
    obstacle.layer() == Some(Layer::Namespaces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::LaunchError;

    fn states(tier: Option<Tier>, obstacles: Option<&[(Tier, Obstacle)]>) -> Vec<LayerState> {
        let states = layers(tier, obstacles, SandboxMode::Required);
        states.into_iter().map(|(_, state)| state).collect()
    }

    #[test]
    fn a_layer_is_missing_for_the_reason_that_was_met() {
        let unshare = || LaunchError::CreateNamespaces(std::io::Error::from_raw_os_error(1).into());
        let all = states(Some(Tier::T3), Some(&[]));
        assert!(all.iter().all(|state| *state == LayerState::Enforced));

        let below = states(Some(Tier::T2), Some(&[(Tier::T3, Obstacle::Launch(unshare()))]));
        let missing = |state: &LayerState| matches!(state, LayerState::Missing { .. });
        assert_eq!(
            below.iter().map(missing).collect::<Vec<_>>(),
            [true, true, false, false, false, false, false]
        );
        let LayerState::Missing { why, remedy } = &below[0] else { panic!("missing") };
        assert!(why.contains("namespaces") && remedy.is_some(), "{why} {remedy:?}");

        let none = [
            (Tier::T3, Obstacle::Launch(unshare())),
            (Tier::T2, Obstacle::Landlock { needed: 6, present: 0 }),
        ];
        let none = states(None, Some(&none));
        assert_eq!(
            none.iter().map(missing).collect::<Vec<_>>(),
            [true, true, false, false, false, true, false]
        );
        let LayerState::Missing { why, .. } = &none[5] else { panic!("missing") };
        assert!(why.contains("Landlock ABI 6 is needed"), "{why}");
        assert!(matches!(none[6], LayerState::NotTried(_)), "{none:?}");
    }

    #[test]
    fn what_was_not_tried_is_not_missing() {
        let not_tried = |state: &LayerState| matches!(state, LayerState::NotTried(_));
        assert!(states(None, None).iter().all(not_tried), "no interpreter");
        let relative = crate::sandbox::PlanError::ReadPathRelative("data".into());
        let obstacles = [(Tier::T3, Obstacle::Plan(relative))];
        assert!(states(None, Some(&obstacles)).iter().all(not_tried), "a setting");
    }
}
