//! Decides how scripts are confined: chooses an interpreter and the sandbox's plan, and tests whether the sandbox
//! enforces the plan. The interpreter and the plan together are the containment of a script ([`Contained`]).
//!
//! This module never runs a client's script.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use tokio::sync::OnceCell;

use crate::config::{KernelLacks, SandboxMode, Settings};
use crate::sandbox::{
    GroupOrder, HAS_SEATBELT, IS_SUPPORTED, LaunchError, Order, Plan, Role, SeatbeltOrder, Tier,
    supported_abi,
};

use super::canary::{Canary, temporary_folder};
use super::determinism::{Determinism, pinned_variables};
use super::given::Given;
use super::interpreter::{FindError, InterpreterFinder};
use super::limits::cpu_seconds;
use super::obstacle::{Obstacle, Ready, SandboxUnavailable, StepDown};
use super::outcome::Ending;
use super::probe::Interpreter;
use super::untrusted::{Untrusted, UntrustedFolder};
use super::{Observed, OneShotExecutor, RunError, RunLimits, Surroundings};

/// The memory limit that [`try_memory_limit`] sets, in bytes. An interpreter needs less memory. The test script exceeds
/// this limit.
const TRIED_MEMORY_BYTES: u64 = 128 * 1024 * 1024;

/// An interpreter, and the plan of the sandbox in which its scripts run.
#[derive(Debug, Clone)]
pub(crate) struct Contained {
    pub(super) interpreter: Interpreter,
    pub(crate) plan: Plan,
    /// The unavailable tiers that are better than the tier of `plan`, best first, each with the reason.
    pub(super) passed_over: Vec<(Tier, Obstacle)>,
    /// The last workspace that was checked and contains no file of the interpreter. Cached because the check takes a
    /// hundred path lookups.
    pub(super) outside_of: Arc<Mutex<Option<UntrustedFolder>>>,
    /// The measures that make runs reproducible. `None` if the admin did not ask for them. Also `None` for each run of
    /// a project.
    pub(super) determinism: Option<Determinism>,
    /// Set after the first warning that Python did not load the library that replaces clocks and random bits. The
    /// warning is logged only once.
    pub(super) has_warned: Arc<AtomicBool>,
    /// The folder with substitutes for the parts of macOS that the sandbox uses. Set only in tests.
    pub(super) apple_parts: Option<PathBuf>,
}

impl Contained {
    /// Returns the [`Order`] for one run of the script in `given`, encoded as a supervisor reads it.
    pub(super) fn order(
        &self,
        given: Given<'_>,
        scratch: &Path,
        limits: RunLimits,
        group: Option<&GroupOrder>,
    ) -> io::Result<Vec<u8>> {
        let wants_pictures: &[u8] = if limits.takes_pictures { b"+" } else { b"-" };
        let given_input = given.input();
        let seed = self.determinism.and(given.seed());
        let fixed = self.determinism.zip(seed).map(|(it, seed)| it.of_run(&seed));
        let seed = seed.map_or(vec![b'-'], |seed| [&b"+"[..], &seed].concat());
        let bootstrap = &self.interpreter.bootstrap;
        let has_end_report: &[u8] = if given.has_end_report() { b"+" } else { b"-" };
        let before = [bootstrap, wants_pictures, has_end_report, &seed];
        let Interpreter { entry, environment, .. } = &self.interpreter;
        let seatbelt = self.seatbelt();
        let entry: &[u8] = if seatbelt.is_some() { entry } else { b"" };
        let of_script = given_input.iter().map(|part| &**part);
        let input: Vec<&[u8]> = [entry].into_iter().chain(before).chain(of_script).collect();
        let order = Order {
            plan: self.plan_for(limits),
            role: Role::Script,
            scratch: scratch.to_owned(),
            environment: environment.clone(),
            cpu_seconds: cpu_seconds(limits.timeout),
            neighbours: limits.neighbours,
            group: group.cloned(),
            seatbelt,
            fixed,
            input_bytes: input.iter().map(|part| part.len()).sum(),
        };
        order.to_bytes(&input)
    }

    /// Logs a warning if a run reports that its Python did not load the library that replaces clocks and random bits.
    /// The report has no other effect, because a script can forge it.
    pub(super) fn note_observed(&self, observed: Option<&Observed>) {
        let is_missing = observed.is_some_and(|observed| observed.started.is_none());
        let is_wanted = self.determinism.is_some_and(|it| it.clock.is_some());
        if is_missing && is_wanted && !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "clocks and random bits differ between runs, because this Python does not load \
                 the library that fixes them"
            );
        }
    }

    /// Returns the sandbox's plan for a run within `limits`. A memory limit in `limits` can only lower the usual memory
    /// limit.
    pub(super) fn plan_for(&self, limits: RunLimits) -> Plan {
        let of_script = self.plan.limits;
        let limits =
            limits.memory_mb.map_or(of_script, |memory_mb| of_script.lowered_to(memory_mb));
        Plan { limits, ..self.plan.clone() }
    }

    /// Returns the settings for Seatbelt, the sandbox of macOS; `None` if the tier is not Seatbelt.
    fn seatbelt(&self) -> Option<SeatbeltOrder> {
        let Interpreter { entry, program_file, .. } = &self.interpreter;
        let order =
            || SeatbeltOrder::new(self.apple_parts.as_deref(), program_file.clone(), entry.len());
        (self.plan.tier == Tier::Seatbelt).then(order)
    }

    /// Returns the interpreter and the sandbox of scripts, for receipts. `preload` lists the modules of the fork
    /// servers.
    pub(super) fn surroundings(&self, preload: &[Vec<String>]) -> Surroundings {
        let Self { interpreter, plan, .. } = self;
        let preload = if plan.tier == Tier::T3 { preload.to_vec() } else { Vec::new() };
        // The hash is computed from JSON, because supervisors receive the plan in this form.
        let text = serde_json::to_vec(plan).unwrap_or_default();
        Surroundings {
            program_file: plan.program_file.clone(),
            implementation: interpreter.implementation.clone(),
            version: interpreter.version.clone(),
            packages: interpreter.packages.clone(),
            own: interpreter.own.clone(),
            variables: interpreter.environment.clone(),
            readable: plan.readable.clone(),
            tier: plan.tier,
            memory_mib: plan.limits.memory_bytes >> 20,
            plan_sha256: hex::encode(Sha256::digest(text)),
            determinism: self.determinism,
            preload,
        }
    }

    /// Returns the tier of scripts, and the reason why no better tier is used, in the form that clients receive.
    pub(super) fn ready(&self) -> Ready {
        let is_expected = self.passed_over.iter().all(|(_, obstacle)| obstacle.is_expected());
        // Reports the first obstacle that is a fault. If all obstacles are expected, reports the first of them.
        let reason = self.passed_over.iter().find(|(_, obstacle)| !obstacle.is_expected());
        let reason = reason.or(self.passed_over.first());
        let step_down =
            reason.map(|(_, obstacle)| StepDown { reason: obstacle.for_clients(), is_expected });
        Ready { tier: self.plan.tier, step_down }
    }
}

/// The reason why scripts cannot be confined.
#[derive(Debug, Error)]
pub(crate) enum NotContained {
    /// No interpreter was found.
    #[error(transparent)]
    FindInterpreter(#[from] FindError),
    /// No sandbox that the admin accepts is available.
    #[error(transparent)]
    Sandbox(#[from] SandboxUnavailable),
}

/// Finds the interpreter and the sandbox for scripts, and remembers them. A failure is not remembered, because the
/// missing part may be available at the next call.
#[derive(Debug)]
pub(super) struct Containment {
    pub(super) finder: InterpreterFinder,
    /// The sandbox mode that the admin configured.
    pub(super) mode: SandboxMode,
    read_paths: Vec<PathBuf>,
    memory_mb: u64,
    kernel_lacks: KernelLacks,
    /// The start time on the clocks of deterministic runs; `None` if runs are not deterministic.
    deterministic: Option<DateTime<Utc>>,
    apple_parts: Option<PathBuf>,
    found: OnceCell<Contained>,
    /// The text of the last failure that was logged. An equal text is not logged again.
    logged: Mutex<String>,
}

impl Containment {
    pub(super) fn new(settings: &Settings, untrusted: Untrusted) -> Self {
        Self {
            finder: InterpreterFinder::new(settings, untrusted),
            mode: settings.sandbox,
            read_paths: settings.read_paths.clone(),
            memory_mb: settings.memory_mb,
            kernel_lacks: settings.kernel_lacks,
            deterministic: settings.deterministic,
            apple_parts: settings.apple_parts.clone(),
            found: OnceCell::new(),
            logged: Mutex::default(),
        }
    }

    /// Returns the containment at the best tier that the admin accepts and that passes the tests. Runs the tests with
    /// `executor`.
    pub(super) async fn get(&self, executor: &OneShotExecutor) -> Result<&Contained, NotContained> {
        self.found
            .get_or_try_init(|| async {
                let interpreter = &self.finder.found().await?.interpreter;
                let mut tried = Vec::new();
                for tier in acceptable_tiers(self.mode) {
                    match self.try_tier(*tier, interpreter, executor).await {
                        Ok(contained) => {
                            log_step_down(*tier, &tried);
                            return Ok(Contained { passed_over: tried, ..contained });
                        }
                        Err(obstacle) => {
                            tracing::debug!(%tier, ?obstacle, "tier unavailable");
                            tried.push((*tier, obstacle));
                        }
                    }
                    if tried.iter().any(|(_, obstacle)| obstacle.is_wrong_setting()) {
                        break;
                    }
                }
                let missing = SandboxUnavailable { mode: self.mode, tried };
                self.log_failure(missing.for_admin());
                Err(missing.into())
            })
            .await
    }

    /// Logs why no code can run, unless the last logged failure had the same reason.
    fn log_failure(&self, reason: String) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if *logged != reason {
            tracing::error!("no code can run: {reason}");
            *logged = reason;
        }
    }

    /// Returns the containment at `tier`, if the sandbox at this tier passes the tests.
    async fn try_tier(
        &self,
        tier: Tier,
        interpreter: &Interpreter,
        executor: &OneShotExecutor,
    ) -> Result<Contained, Obstacle> {
        if tier > Tier::Off && !IS_SUPPORTED && !(HAS_SEATBELT && tier == Tier::Seatbelt) {
            let is_less = HAS_SEATBELT && tier > Tier::Seatbelt;
            let missing = if is_less {
                LaunchError::LessThanAllLayers
            } else {
                LaunchError::UnsupportedSystem
            };
            return Err(Obstacle::Launch(missing));
        }
        temporary_folder()?;
        let KernelLacks { namespaces, landlock, file_tree, .. } = self.kernel_lacks;
        let needed = tier.landlock_abi_min();
        // `Tier::Off` does not need Landlock. If Landlock is available, `Tier::Off` uses it to keep a script from
        // sending signals to other processes.
        let is_used = needed > 0 || tier == Tier::Off;
        let present = if is_used && !landlock { supported_abi() } else { 0 };
        // Makes the plan before the kernel's features are checked, because an error about a wrong setting takes
        // precedence over an error about a missing feature.
        let (reach, read_paths) = (&interpreter.reach, &self.read_paths);
        let plan = Plan::new(tier, present, reach, read_paths, self.memory_mb)?;
        if namespaces && tier == Tier::T3 {
            let refused = io::Error::from_raw_os_error(nix::libc::EPERM);
            return Err(Obstacle::Launch(LaunchError::CreateNamespaces(refused.into())));
        }
        if file_tree && tier == Tier::T3 {
            let (path, error) = (PathBuf::from("/"), io::Error::from_raw_os_error(nix::libc::EIO));
            let error = error.into();
            return Err(Obstacle::Launch(LaunchError::MountReadable { path, error }));
        }
        if present < needed {
            return Err(Obstacle::Landlock { needed, present });
        }
        let mut interpreter = interpreter.clone();
        let determinism =
            self.deterministic.map(|at| Determinism::here(self.kernel_lacks, tier, at));
        if determinism.is_some() {
            interpreter.environment.extend(pinned_variables());
        }
        let contained = Contained {
            interpreter,
            plan,
            determinism,
            passed_over: Vec::new(),
            outside_of: Arc::default(),
            has_warned: Arc::default(),
            apple_parts: self.apple_parts.clone(),
        };
        if tier == Tier::Off {
            return Ok(contained);
        }
        // The test runs without installed packages (`is_isolated`), because no installed package may run in an untested
        // sandbox.
        let mut isolated = contained.clone();
        isolated.plan.is_isolated = true;
        let library = contained.seatbelt().map(|seatbelt| seatbelt.library);
        let canary = Canary::new(&contained.plan.program, library.as_deref())?;
        let outcome = match executor.supervise_own(&isolated, &canary.script).await {
            Ok(outcome) => outcome,
            Err(RunError::StartPython(error)) => return Err(Obstacle::Launch(error)),
            Err(error) => return Err(Obstacle::NotTried(error.to_string())),
        };
        let escapes = Canary::escapes(tier, &outcome.stdout.text);
        match escapes.filter(|_| outcome.ending == Ending::Exited(0)) {
            Some(escapes) if escapes.is_empty() => {
                try_memory_limit(isolated, executor).await?;
                Ok(contained)
            }
            Some(escapes) => Err(Obstacle::Escaped(escapes)),
            None => {
                tracing::warn!(stderr = outcome.stderr.text, "the test script failed");
                let code = outcome.ending.exit_code();
                Err(Obstacle::NotTried(format!("it ended with code {code}")))
            }
        }
    }
}

/// Tests the memory limit with a script that exceeds the limit. Does nothing at tiers other than Seatbelt. At Seatbelt,
/// only the kernel of macOS limits memory, and only this test detects a limit without effect.
async fn try_memory_limit(
    mut isolated: Contained,
    executor: &OneShotExecutor,
) -> Result<(), Obstacle> {
    if isolated.plan.tier != Tier::Seatbelt {
        return Ok(());
    }
    isolated.plan.limits.memory_bytes = TRIED_MEMORY_BYTES;
    let script = format!("block = b'x' * {}", 3 * TRIED_MEMORY_BYTES);
    match executor.supervise_own(&isolated, &script).await {
        Ok(outcome) if outcome.ending == Ending::OutOfMemory => Ok(()),
        Ok(_) => Err(Obstacle::Escaped(vec!["exceed_memory".to_owned()])),
        Err(RunError::StartPython(error)) => Err(Obstacle::Launch(error)),
        Err(error) => Err(Obstacle::NotTried(error.to_string())),
    }
}

/// Logs the tier at which scripts run, and the reasons why better tiers are unavailable.
fn log_step_down(tier: Tier, passed_over: &[(Tier, Obstacle)]) {
    tracing::info!(%tier, "scripts are contained");
    for (better, obstacle) in passed_over {
        let remedy = obstacle.remedy();
        if obstacle.is_expected() {
            tracing::warn!(remedy, "{better} is unavailable, scripts run at {tier}: {obstacle}");
        } else {
            // Also logs the debug output of the obstacle. For a failed launch, only the debug output contains the path
            // that caused the failure.
            tracing::error!(
                remedy,
                ?obstacle,
                "{better} failed, scripts run at {tier}: {obstacle}"
            );
        }
    }
}

/// Returns the tiers that the admin accepts, best first.
fn acceptable_tiers(mode: SandboxMode) -> &'static [Tier] {
    match mode {
        SandboxMode::Strict => &[Tier::T3],
        SandboxMode::Required | SandboxMode::Degraded if HAS_SEATBELT => &[Tier::Seatbelt],
        SandboxMode::Required => &[Tier::T3, Tier::T2],
        SandboxMode::Degraded => &[Tier::T3, Tier::T2, Tier::T1],
        SandboxMode::Off => &[Tier::Off],
    }
}
