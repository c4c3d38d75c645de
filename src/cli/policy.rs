//! `qwed-mcp policy`: checks a policy file, and tests how the policy decides about a call. It never makes the call.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::Format;
use super::output::{document, print};
use super::token::role_parser;
use crate::config::Settings;
use crate::data_folder::data_folder;
use crate::executor::{Executor as _, OneShotExecutor};
use crate::governance::{
    CheckpointPolicy, GovernedTool, Level, Policy, PolicyCheck, PolicyError, PolicyFile, Rehearsal,
    judge_warning,
};
use crate::ledger::{Role, UserName};
use crate::plain_text::json_fault;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the permissions of a policy file, or all of its mistakes
    ///
    /// The exit code is 0 if the policy can be used, even with warnings, 1 if it has mistakes, 2 if it cannot be read.
    Check {
        /// The file; default: the file in `QWED_MCP_POLICY`
        file: Option<PathBuf>,
        /// The form of the output
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Report the decision about a call of a governed tool, without making the call
    ///
    /// Nothing is run and nothing is recorded. The exit code is 0 if the call would be carried out, 1 if it would be
    /// refused, 2 if the policy or the arguments cannot be read.
    Test(Test),
}

#[derive(Debug, Args)]
pub(super) struct Test {
    /// The file; default: the file in `QWED_MCP_POLICY`
    file: Option<PathBuf>,
    /// The tool
    #[arg(long, value_parser = tool_parser(), value_name = "TOOL", default_value = "run_pytest")]
    tool: GovernedTool,
    /// The role of the caller
    #[arg(long, value_parser = role_parser())]
    role: Role,
    /// The caller, to count today's runs towards the quota
    #[arg(long, value_name = "NAME")]
    user: Option<UserName>,
    /// The arguments of the call, as a JSON object
    #[arg(long, value_name = "JSON", value_parser = arguments, default_value = r#"{"test_path": "."}"#)]
    arguments: Map<String, Value>,
    /// The form of the output
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

fn tool_parser() -> impl TypedValueParser<Value = GovernedTool> {
    let names = GovernedTool::ALL.map(GovernedTool::name);
    PossibleValuesParser::new(names)
        .try_map(|name| GovernedTool::from_name(&name).ok_or("not a governed tool"))
}

fn arguments(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| json_fault(&error))
}

pub(super) fn run(command: &Command, settings: &Settings) -> anyhow::Result<ExitCode> {
    let (Command::Check { file, .. } | Command::Test(Test { file, .. })) = command;
    let Some(file) = file.as_ref().or(settings.policy.as_ref()) else {
        tracing::error!("give a policy file, or set QWED_MCP_POLICY");
        return Ok(ExitCode::from(super::USAGE));
    };
    match command {
        Command::Check { format, .. } => check(file, *format),
        Command::Test(options) => test(file, options, settings),
    }
}

/// Prints the decision about a call, without making the call.
fn test(file: &Path, options: &Test, settings: &Settings) -> anyhow::Result<ExitCode> {
    if checked(file).is_none() {
        return Ok(ExitCode::from(super::USAGE));
    }
    let policy = Arc::new(PolicyFile::new(file.to_owned()));
    let untrusted = super::untrusted(Some(&policy));
    let folder = data_folder(settings.data_dir.as_deref())?;
    let place = settings.store_in(&folder);
    // If no store exists, no run counts towards the quota yet.
    let has_store = options.user.is_some() && place.has_store();
    let store = has_store.then(|| place.open_to_read()).transpose()?;
    let executor = OneShotExecutor::new(settings, untrusted);
    crate::executor::orphans::adopt()?;
    let call = Rehearsal {
        tool: options.tool,
        role: options.role,
        arguments: &options.arguments,
        runs_of: store.as_ref().zip(options.user.as_ref()),
    };
    let outcome = super::runtime()?.block_on(async {
        let outcome = call.outcome(&policy, &executor).await;
        executor.shut_down().await;
        outcome
    });
    let text = match (&outcome, options.format) {
        (Ok(()), Format::Text) => "it would be carried out\n".to_owned(),
        (Err(refusal), Format::Text) => {
            let code = refusal.code();
            format!(
                "it would be refused: {} {}: {}\n",
                code.number(),
                code.name(),
                refusal.message()
            )
        }
        (Ok(()), Format::Json) => document(json!({ "allowed": true })),
        (Err(refusal), Format::Json) => document(json!({
            "allowed": false,
            "code": refusal.code().number(),
            "name": refusal.code().name(),
            "message": refusal.message(),
        })),
    };
    print("the findings", &text)?;
    Ok(if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check(file: &Path, format: Format) -> anyhow::Result<ExitCode> {
    let Some(mut check) = checked(file) else { return Ok(ExitCode::from(super::USAGE)) };
    check.warnings.extend(check.policy.as_ref().and_then(judge_warning));
    let text = match format {
        Format::Text => as_text(file, &check),
        Format::Json => document(as_json(file, &check)),
    };
    print("the findings", &text)?;
    Ok(if check.policy.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks a policy file. If the file cannot be read, logs the reason and returns `None`.
fn checked(file: &Path) -> Option<PolicyCheck> {
    PolicyCheck::of(file).inspect_err(|error| tracing::error!("{error}")).ok()
}

fn as_text(file: &Path, check: &PolicyCheck) -> String {
    let mut text = match &check.policy {
        Some(_) => format!("{} can be used\n\n", file.display()),
        None => format!("{} cannot be used\n\n", file.display()),
    };
    // Writing to a string cannot fail.
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

/// Returns the permissions of a policy as rows of the text output: their labels and their texts.
fn rows(policy: &Policy) -> Vec<(&'static str, String)> {
    let Policy { allowlist, sandbox, budget, workspace_root, retention, sha256, .. } = policy;
    let names: Vec<&str> = allowlist.iter().map(|tool| tool.name()).collect();
    let root = workspace_root.as_ref().map(|root| root.display().to_string());
    let paths: Vec<String> =
        sandbox.allowed_paths.iter().map(|path| path.display().to_string()).collect();
    let elapsed =
        budget.elapsed.map(|elapsed| format!(", {} ms for a whole call", elapsed.as_millis()));
    let checkpoint = policy.checkpoint.as_ref().map(|checkpoint| {
        let CheckpointPolicy { file, rows, interval } = checkpoint;
        format!("{}, after {rows} rows or {} s", file.display(), interval.as_secs())
    });
    let level = policy.judge.require.map_or("in-process", Level::as_str);
    let judge = match &policy.judge.tests {
        Some(tests) => format!("tests of {}, at least {level}", tests.display()),
        None => "the tests of the workspace".to_owned(),
    };
    let days = |age: Duration| format!("{} days", age.as_secs() / (24 * 60 * 60));
    let total = |bytes: u64| format!("{} MiB together", bytes >> 20);
    let kept: Vec<String> =
        retention.age.map(days).into_iter().chain(retention.total_bytes.map(total)).collect();
    vec![
        ("tools", or_none(&names)),
        (
            "scripts",
            if policy.scripts_need_token { "with a token" } else { "without a token" }.to_owned(),
        ),
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
        (
            "runs a day",
            budget
                .runs_per_day
                .map_or_else(|| "-".to_owned(), |runs| format!("{runs} of each user")),
        ),
        ("output", format!("{} bytes each of stdout and stderr", budget.output_bytes_max)),
        ("artifacts", format!("{} bytes a run", budget.artifact_bytes_max)),
        ("judge", judge),
        ("checkpoints", checkpoint.unwrap_or_else(|| "-".to_owned())),
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
        let Policy { allowlist, sandbox, budget, workspace_root, retention, sha256, .. } = policy;
        json!({
            "tools": allowlist.iter().map(|tool| tool.name()).collect::<Vec<_>>(),
            "scripts_need_token": policy.scripts_need_token,
            "workspace_root": workspace_root,
            "allowed_paths": sandbox.allowed_paths,
            "env_whitelist": sandbox.env_whitelist,
            "sandbox_enabled": sandbox.enabled,
            "timeout_s": sandbox.timeout.as_secs(),
            "memory_limit_mb": sandbox.memory_limit_mb,
            "elapsed_ms_max": budget.elapsed.map(|elapsed| u64::try_from(elapsed.as_millis()).ok()),
            "attempts_max": budget.attempts_max,
            "runs_per_day": budget.runs_per_day,
            "output_bytes_max": budget.output_bytes_max,
            "artifact_bytes_max": budget.artifact_bytes_max,
            "retention_days": retention.age.map(|age| age.as_secs() / (24 * 60 * 60)),
            "total_mb_max": retention.total_bytes.map(|bytes| bytes >> 20),
            "judge": {
                "tests": policy.judge.tests,
                "list": policy.judge.list,
                "require": policy.judge.require,
                "control": policy.judge.has_control,
            },
            "checkpoint": policy.checkpoint.as_ref().map(|checkpoint| &checkpoint.file),
            "sha256": sha256,
        })
    };
    json!({
        "file": file.display().to_string(),
        "usable": check.policy.is_some(),
        "mistakes": check.mistakes.iter().map(mistake).collect::<Vec<_>>(),
        "warnings": check.warnings,
        "policy": check.policy.as_ref().map(policy),
    })
}
