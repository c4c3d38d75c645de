//! `qwed-mcp policy`: the permissions of a policy file, or its mistakes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::Format;
use super::output::{document, print};
use crate::config::Settings;
use crate::governance::{Policy, PolicyCheck, PolicyError};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print what a policy file allows, or all of its mistakes
    ///
    /// The exit code is 0 if it can be used, with warnings too, 1 if it has mistakes, 2 if it cannot
    /// be read.
    Check {
        /// The file; without one, that of `QWED_MCP_POLICY`
        file: Option<PathBuf>,
        /// The form of the output
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
}

pub(super) fn run(command: &Command, settings: &Settings) -> anyhow::Result<ExitCode> {
    let Command::Check { file, format } = command;
    let Some(file) = file.as_ref().or(settings.policy.as_ref()) else {
        tracing::error!("name a policy file, or set QWED_MCP_POLICY");
        return Ok(ExitCode::from(super::USAGE));
    };
    let check = match PolicyCheck::of(file) {
        Ok(check) => check,
        Err(error) => {
            tracing::error!("{error}");
            return Ok(ExitCode::from(super::USAGE));
        }
    };
    let text = match format {
        Format::Text => as_text(file, &check),
        Format::Json => document(as_json(file, &check)),
    };
    print("what was found", &text)?;
    Ok(if check.policy.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn as_text(file: &Path, check: &PolicyCheck) -> String {
    let mut text = match &check.policy {
        Some(_) => format!("{} can be used\n\n", file.display()),
        None => format!("{} cannot be used\n\n", file.display()),
    };
    // Writing to a text does not fail.
    for (name, value) in check.policy.iter().flat_map(rows) {
        let _ = writeln!(text, "{name:<18}{value}");
    }
    for mistake in &check.mistakes {
        let _ = writeln!(text, "{}", mistake.for_admin());
    }
    if check.policy.is_some() && !check.warnings.is_empty() {
        text.push('\n');
    }
    for warning in &check.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text
}

/// Returns the permissions of a policy, for people.
fn rows(policy: &Policy) -> Vec<(&'static str, String)> {
    let Policy { allowlist, sandbox, budget, workspace_root, retention, sha256 } = policy;
    let names: Vec<&str> = allowlist.iter().map(|tool| tool.name()).collect();
    let root = workspace_root.as_ref().map(|root| root.display().to_string());
    let paths: Vec<String> =
        sandbox.allowed_paths.iter().map(|path| path.display().to_string()).collect();
    let elapsed =
        budget.elapsed.map(|elapsed| format!(", {} ms for a whole call", elapsed.as_millis()));
    let days = |age: Duration| format!("{} days", age.as_secs() / (24 * 60 * 60));
    let total = |bytes: u64| format!("{} MiB together", bytes >> 20);
    let kept: Vec<String> =
        retention.age.map(days).into_iter().chain(retention.total_bytes.map(total)).collect();
    vec![
        ("tools", or_none(&names)),
        ("workspace", root.unwrap_or_else(|| "-".to_owned())),
        ("also readable", or_none(&paths)),
        ("variables", or_none(&sandbox.env_whitelist)),
        ("sandbox", if sandbox.enabled { "on" } else { "OFF: no run" }.to_owned()),
        (
            "time",
            format!("{} s for a run{}", sandbox.timeout.as_secs(), elapsed.unwrap_or_default()),
        ),
        ("memory", format!("{} MiB", sandbox.memory_limit_mb)),
        ("attempts", budget.attempts_max.to_string()),
        ("output", format!("{} bytes each of stdout and stderr", budget.output_bytes_max)),
        ("artifacts", format!("{} bytes a run", budget.artifact_bytes_max)),
        ("kept", if kept.is_empty() { "for ever".to_owned() } else { kept.join(", ") }),
        ("sha256", sha256.clone()),
    ]
}

fn or_none<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

fn as_json(file: &Path, check: &PolicyCheck) -> Value {
    let mistake =
        |mistake: &PolicyError| json!({ "line": mistake.line(), "message": mistake.for_admin() });
    let policy = |policy: &Policy| {
        let Policy { allowlist, sandbox, budget, workspace_root, retention, sha256 } = policy;
        json!({
            "tools": allowlist.iter().map(|tool| tool.name()).collect::<Vec<_>>(),
            "workspace_root": workspace_root,
            "allowed_paths": sandbox.allowed_paths,
            "env_whitelist": sandbox.env_whitelist,
            "sandbox_enabled": sandbox.enabled,
            "timeout_s": sandbox.timeout.as_secs(),
            "memory_limit_mb": sandbox.memory_limit_mb,
            "elapsed_ms_max": budget.elapsed.map(|elapsed| u64::try_from(elapsed.as_millis()).ok()),
            "attempts_max": budget.attempts_max,
            "output_bytes_max": budget.output_bytes_max,
            "artifact_bytes_max": budget.artifact_bytes_max,
            "retention_days": retention.age.map(|age| age.as_secs() / (24 * 60 * 60)),
            "total_mb_max": retention.total_bytes.map(|bytes| bytes >> 20),
            "sha256": sha256,
        })
    };
    json!({
        "file": file,
        "usable": check.policy.is_some(),
        "mistakes": check.mistakes.iter().map(mistake).collect::<Vec<_>>(),
        "warnings": check.warnings,
        "policy": check.policy.as_ref().map(policy),
    })
}
