//! `qwed-mcp doctor`: checks everything that scripts and governed tools need, and suggests remedies.

mod apparmor;
mod governed;
mod setup;
mod share;

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::Format;
use super::output::{document, print};
use crate::config::{AdminGate, SandboxMode, Settings};
use crate::executor::{
    Diagnosis, FoundInterpreter, HomeExposure, LayerState, Obstacle, OneShotExecutor, Source,
    Unusable,
};
use crate::sandbox::{Layer, Limits, Tier};
use governed::Governed;
use setup::Setup;

pub(super) use setup::warn_of_unknown_variables;

const OPEN_THE_GATE: &str = "set QWED_MCP_TRUSTED_CODE_EXECUTION=true";

/// The form in which the diagnosis is printed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    Document(Format),
    /// A block without paths and names, for a report to the project.
    Shared,
}

pub(super) fn print_apparmor_profile() -> anyhow::Result<ExitCode> {
    print("the profile", &apparmor::profile()?)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints whether scripts can run and, with a policy, whether tests can run. The exit code is 0 if both can run and a
/// server would start. With a policy, scripts need not run while the admin gate is closed, because the admin may want
/// to run only tests.
pub(super) fn diagnose(settings: &Settings, form: Form) -> anyhow::Result<ExitCode> {
    super::orphans::adopt().context("failed to become a child subreaper")?;
    let untrusted = super::untrusted(super::policy(settings).as_ref());
    let executor = OneShotExecutor::new(settings, untrusted);
    let (diagnosis, governed, setup) = super::runtime()?.block_on(async {
        let diagnosis = executor.diagnose().await;
        let governed = Governed::diagnose(settings, &executor, &diagnosis).await;
        (diagnosis, governed, Setup::diagnose(settings).await)
    });
    let is_open = settings.admin_gate == AdminGate::Open;
    let can_run = diagnosis.refusal.is_none() && is_open;
    let is_well = match &governed {
        None => can_run,
        Some(governed) => governed.reasons.is_empty() && (can_run || !is_open),
    };
    let text = match form {
        Form::Document(Format::Text) => {
            text(settings, &diagnosis, governed.as_ref(), &setup, can_run)
        }
        Form::Shared => share::block(&rows(settings, &diagnosis), &conclusion(&diagnosis, can_run)),
        Form::Document(Format::Json) => {
            let mut object = object(settings, &diagnosis, governed.as_ref(), can_run);
            setup.add_to(&mut object);
            document(object)
        }
    };
    print("the diagnosis", &text)?;
    Ok(if is_well && setup.refusal().is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(
    settings: &Settings,
    diagnosis: &Diagnosis,
    governed: Option<&Governed>,
    setup: &Setup,
    can_run: bool,
) -> String {
    let mut rows = rows(settings, diagnosis);
    rows.extend(setup.rows());
    rows.extend(governed.iter().flat_map(|governed| governed.rows()));
    let mut text = format!("qwed-mcp {}\n\n", env!("CARGO_PKG_VERSION"));
    for (name, value) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<18}{value}");
    }
    let _ = writeln!(text, "\n{}", conclusion(diagnosis, can_run));
    let verdict = governed.map(Governed::verdict);
    text.extend(verdict.map(|verdict| verdict + "\n"));
    text.extend(setup.refusal().map(|why| format!("The server does not start: {why}\n")));
    text
}

fn conclusion(diagnosis: &Diagnosis, can_run: bool) -> String {
    match &diagnosis.refusal {
        _ if can_run => "Code can run.".to_owned(),
        Some(refusal) => format!("Code cannot run: {refusal}"),
        None => format!("Code cannot run until the admin gate is open: {OPEN_THE_GATE}."),
    }
}

fn rows(settings: &Settings, diagnosis: &Diagnosis) -> Vec<(&'static str, String)> {
    let mut rows: Vec<(&str, String)> = Vec::new();
    rows.push((
        "interpreter",
        match &diagnosis.interpreter {
            Ok(FoundInterpreter { program, version, .. }) => {
                format!("{} (Python {version})", program.display())
            }
            Err(_) => "NONE".to_owned(),
        },
    ));
    let unusable = match &diagnosis.interpreter {
        Ok(found) => {
            rows.push(("found by", source_text(&found.source)));
            &found.passed_over
        }
        Err(error) => error.tried(),
    };
    rows.extend(unusable.iter().map(|unusable| ("", unusable.to_string())));
    rows.extend(diagnosis.exposures.iter().map(|HomeExposure { origin, folder }| {
        ("home folder", format!("READABLE by scripts: {origin} names {}", folder.display()))
    }));
    let (there, missing): (Vec<_>, Vec<_>) =
        diagnosis.packages.iter().partition(|(_, version)| version.is_some());
    let there = there.iter().map(|(name, v)| format!("{name} {}", v.as_deref().unwrap_or("")));
    let missing = missing.iter().map(|(name, _)| (*name).clone());
    if diagnosis.packages.is_empty() {
        rows.push((
            "packages",
            "unknown, because the search for them needs the sandbox".to_owned(),
        ));
    } else {
        rows.push(("packages", list(&there.collect::<Vec<_>>())));
        let remedy = packages_remedy(diagnosis).map(|remedy| format!(". Remedy: {remedy}"));
        let missing = list(&missing.collect::<Vec<_>>());
        rows.push(("not installed", missing + &remedy.unwrap_or_default()));
    }
    rows.push((
        "admin gate",
        match settings.admin_gate {
            AdminGate::Open => "open".to_owned(),
            AdminGate::Closed => format!("CLOSED: {OPEN_THE_GATE}"),
        },
    ));
    let tier = diagnosis.tier.map_or("NONE", Tier::as_str);
    rows.push(("sandbox", format!("{tier} (QWED_MCP_SANDBOX={})", mode(settings.sandbox))));
    for (better, obstacle) in &diagnosis.passed_over {
        let remedy = obstacle.remedy().map(|remedy| format!(". Remedy: {remedy}"));
        rows.push((
            failed_row(*better),
            format!("{obstacle}; scripts run at {tier}{}", remedy.unwrap_or_default()),
        ));
    }
    if let Some(user) = &diagnosis.script_user {
        rows.push(("scripts run as", user.to_string()));
    }
    rows.extend(layer_rows(diagnosis));
    if let Some(warning) = settings.crowding() {
        rows.push(("runs at once", warning.to_string()));
    }
    if let Some(limits) = &diagnosis.limits {
        rows.push(("limits", limits_text(limits, diagnosis.tier)));
        rows.push(("memory bound by", memory_bound_text(diagnosis)));
    }
    rows
}

/// Returns a row for each layer of the sandbox. Returns a single row if all layers were not tried for the same reason.
fn layer_rows(diagnosis: &Diagnosis) -> Vec<(&'static str, String)> {
    let not_tried = |(_, state): &(Layer, LayerState)| match state {
        LayerState::NotTried(why) => Some(*why),
        LayerState::Enforced | LayerState::Missing { .. } => None,
    };
    let first = diagnosis.layers.first().and_then(not_tried);
    if let Some(why) = first
        && diagnosis.layers.iter().all(|layer| not_tried(layer) == first)
    {
        return vec![("layers", format!("not tried: {why}"))];
    }
    let row = |(layer, state): &(Layer, LayerState)| {
        let text = match state {
            LayerState::Enforced => format!("enforced: {}", detail(*layer, diagnosis)),
            LayerState::Missing { why, remedy } => {
                let remedy = remedy.as_ref().map(|remedy| format!(". Remedy: {remedy}"));
                format!("MISSING: {why}{}", remedy.unwrap_or_default())
            }
            LayerState::NotTried(why) => format!("not tried: {why}"),
        };
        (layer.as_str(), text)
    };
    diagnosis.layers.iter().map(row).collect()
}

/// Describes where the interpreter was found, and why the sources with a higher priority were not used.
fn source_text(source: &Source) -> String {
    const UNSET: &str = "QWED_MCP_PYTHON is not set";
    const NOT_MADE: &str = "no environment of `qwed-mcp env create` is usable";
    match source {
        Source::Configured => "QWED_MCP_PYTHON".to_owned(),
        Source::Made(name) => {
            format!("{name}, the newest environment of `qwed-mcp env create`; {UNSET}")
        }
        Source::BesideProgram => {
            format!("the virtual environment that this program is in; {UNSET}, {NOT_MADE}")
        }
        Source::VirtualEnv => {
            format!(
                "VIRTUAL_ENV; {UNSET}, {NOT_MADE}, and this program is in no virtual environment"
            )
        }
        Source::Path => format!("PATH; {UNSET}, {NOT_MADE}, and there is no virtual environment"),
    }
}

/// Returns the source of the interpreter as a word for the JSON output.
fn source_word(source: &Source) -> &'static str {
    match source {
        Source::Configured => "configured",
        Source::Made(_) => "environment",
        Source::BesideProgram => "beside_program",
        Source::VirtualEnv => "virtual_env",
        Source::Path => "path",
    }
}

/// Returns the remedy for missing packages. Returns `None` if no package is missing.
fn packages_remedy(diagnosis: &Diagnosis) -> Option<&'static str> {
    let is_any_missing = diagnosis.packages.values().any(Option::is_none);
    let source = &diagnosis.interpreter.as_ref().ok()?.source;
    is_any_missing.then_some(match source {
        Source::Configured => {
            "install them for the interpreter that QWED_MCP_PYTHON names, or remove \
             QWED_MCP_PYTHON and run `qwed-mcp env create`"
        }
        Source::Made(_) | Source::BesideProgram | Source::VirtualEnv | Source::Path => {
            "run `qwed-mcp env create`"
        }
    })
}

/// Returns the label of the row that explains why a tier of the sandbox is unavailable.
fn failed_row(tier: Tier) -> &'static str {
    match tier {
        Tier::T3 => "T3 failed:",
        Tier::T2 => "T2 failed:",
        Tier::T1 => "T1 failed:",
        Tier::Seatbelt => "seatbelt failed:",
        Tier::Off => "off failed:",
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

fn mode(mode: SandboxMode) -> &'static str {
    match mode {
        SandboxMode::Required => "required",
        SandboxMode::Strict => "strict",
        SandboxMode::Degraded => "degraded",
        SandboxMode::Off => "off",
    }
}

/// Describes the effect of an enforced layer of the sandbox.
fn detail(layer: Layer, diagnosis: &Diagnosis) -> String {
    match layer {
        Layer::Namespaces => "user, pid, mount, net, ipc, uts".to_owned(),
        Layer::FileTree => "read-only, only the listed paths; private scratch folder".to_owned(),
        Layer::Identity => "never root".to_owned(),
        Layer::ResourceLimits => "each process's own (setrlimit)".to_owned(),
        Layer::Capabilities => "none, and none can be acquired (no_new_privs)".to_owned(),
        Layer::Landlock => format!("ABI {}, all access rights", diagnosis.landlock_abi),
        Layer::Seccomp => "allow list; no sockets, no new programs".to_owned(),
        Layer::Seatbelt => {
            "one process; no network, no other program, no service of the system".to_owned()
        }
        Layer::Start => String::new(),
    }
}

fn limits_text(limits: &Limits, tier: Option<Tier>) -> String {
    const MIB: u64 = 1024 * 1024;
    let Limits { memory_bytes, processes, open_files, file_bytes, .. } = limits;
    let (memory, file) = (memory_bytes / MIB, file_bytes / MIB);
    match tier {
        None | Some(Tier::Off) => "time and output only".to_owned(),
        Some(Tier::T1 | Tier::T2) => format!(
            "{memory} MiB memory, 1 process, {processes} threads, {open_files} open files, {file} \
             MiB a file"
        ),
        Some(Tier::Seatbelt) => format!(
            "{memory} MiB memory, 1 process, {open_files} open files, {file} MiB a file; {} MiB \
             and {} files of scratch, checked 4 times a second",
            limits.scratch_bytes / MIB,
            limits.scratch_inodes
        ),
        Some(Tier::T3) => format!(
            "{memory} MiB memory, {processes} processes, {open_files} open files, {file} MiB a \
             file, {} MiB and {} files of scratch",
            limits.scratch_bytes / MIB,
            limits.scratch_inodes
        ),
    }
}

fn memory_bound_text(diagnosis: &Diagnosis) -> String {
    match &diagnosis.control_groups {
        _ if diagnosis.tier == Some(Tier::Off) => "nothing".to_owned(),
        _ if diagnosis.tier == Some(Tier::Seatbelt) => {
            "the kernel (footprint of the process, set by taskpolicy), and tried out".to_owned()
        }
        Ok(controls) => format!("{controls}, and a watch"),
        Err(why) => format!("a watch, without a control group: {why}"),
    }
}

fn object(
    settings: &Settings,
    diagnosis: &Diagnosis,
    governed: Option<&Governed>,
    can_run: bool,
) -> Value {
    let layer = |(layer, state): &(Layer, LayerState)| match state {
        LayerState::Enforced => json!({ "layer": layer, "state": "enforced" }),
        LayerState::Missing { why, remedy } => {
            json!({ "layer": layer, "state": "missing", "why": why, "remedy": remedy })
        }
        LayerState::NotTried(why) => json!({ "layer": layer, "state": "not_tried", "why": why }),
    };
    let step_down = |(tier, obstacle): &(Tier, Obstacle)| {
        json!({
            "tier": tier,
            "why": obstacle.to_string(),
            "expected": obstacle.is_expected(),
            "remedy": obstacle.remedy(),
        })
    };
    let tried = |unusable: &Unusable| {
        json!({
            "program": unusable.candidate.display().to_string(),
            "why": unusable.error.to_string(),
            "stderr": unusable.stderr,
        })
    };
    let exposure = |exposure: &HomeExposure| json!({ "origin": exposure.origin, "folder": exposure.folder.display().to_string() });
    json!({
        "can_run": can_run,
        "refusal": diagnosis.refusal,
        "admin_gate": if settings.admin_gate == AdminGate::Open { "open" } else { "closed" },
        "interpreter": match &diagnosis.interpreter {
            Ok(FoundInterpreter { program, version, source, passed_over }) => json!({
                "program": program.display().to_string(),
                "version": version,
                "source": source_word(source),
                "passed_over": passed_over.iter().map(tried).collect::<Vec<_>>(),
            }),
            Err(error) => json!({
                "error": error.to_string(),
                "tried": error.tried().iter().map(tried).collect::<Vec<_>>(),
            }),
        },
        "home_readable_by": diagnosis.exposures.iter().map(exposure).collect::<Vec<_>>(),
        "script_user": diagnosis.script_user,
        "packages": diagnosis.packages,
        "packages_remedy": packages_remedy(diagnosis),
        "sandbox": {
            "mode": mode(settings.sandbox),
            "tier": diagnosis.tier,
            "step_down": diagnosis.passed_over.iter().map(step_down).collect::<Vec<_>>(),
            "landlock_abi": diagnosis.landlock_abi,
            "layers": diagnosis.layers.iter().map(layer).collect::<Vec<_>>(),
        },
        "governance": governed.map(Governed::object),
        "limits": diagnosis.limits,
        "control_groups": match &diagnosis.control_groups {
            Ok(controls) => json!({ "used": true, "controls": controls }),
            Err(why) => json!({ "used": false, "why": why }),
        },
    })
}
