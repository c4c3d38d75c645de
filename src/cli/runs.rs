//! `qwed-mcp runs`: lists, shows and prunes the artifacts of governed runs, for an admin without an MCP client.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;
use serde::{Deserialize as _, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::output::{document, print};
use super::table::{Table, printable};
use super::{Format, USAGE};
use crate::config::Settings;
use crate::data_folder::data_folder;
use crate::governance::{
    Artifacts, Evidence, IntegrityError, RUNS_LISTED_MAX, Retained, RetentionError, RunEntry,
    RunState, Served, apply_retention, evidence, retention_of,
};
use crate::ledger::{AUDIT_ROWS_MAX, AuditFilter, RunIdStart, Store, StoreError};
use crate::logging::Causes;

/// The maximum number of runs that the command can list.
const LIMIT_MAX: i64 = 10_000;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the latest runs, newest first
    List {
        /// The most runs to list
        #[arg(long, value_name = "N", default_value_t = 50,
              value_parser = clap::value_parser!(u16).range(1..=LIMIT_MAX))]
        limit: u16,
        /// The form of the output
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Print the evidence of a run, if it is unchanged
    ///
    /// The exit code is 0, 1 if the evidence is missing or was changed, 2 if the audit log cannot be read.
    Show {
        /// The run id as `list` prints it, or its first eight digits as `audit list` prints them
        #[arg(value_name = "RUN_ID")]
        run_id: RunIdStart,
        /// The form of the output
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Remove the runs that the policy does not keep
    ///
    /// `[artifacts]` in the file that `QWED_MCP_POLICY` names sets how long runs are kept. The exit code is 0, 1 if
    /// something could not be removed or another process is removing runs, 2 if the policy or the audit log cannot be
    /// used.
    Prune {
        /// The form of the output
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
}

pub(super) fn run(command: &Command, settings: &Settings) -> anyhow::Result<ExitCode> {
    let folder = data_folder(settings.data_dir.as_deref())?;
    let artifacts = Artifacts::new(&folder);
    let place = settings.store_in(&folder);
    match command {
        Command::List { limit, format } => {
            list(&artifacts, &place.open_to_read()?, *limit, *format)
        }
        Command::Show { run_id, format } => {
            let store = place.open_to_read()?;
            let Some(run_id) = find(&store, run_id)? else { return Ok(ExitCode::FAILURE) };
            show(&artifacts, &store, run_id, *format)
        }
        Command::Prune { format } => {
            let store = place.open_existing()?;
            prune(&artifacts, &store, settings.policy.as_deref(), *format)
        }
    }
}

/// A run, with fields from the run's rows in the audit log.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    entry: RunEntry,
    user: Option<String>,
    tool: Option<String>,
    status: Option<String>,
}

fn list(
    artifacts: &Artifacts,
    store: &Store,
    limit: u16,
    format: Format,
) -> anyhow::Result<ExitCode> {
    let limit = usize::from(limit).min(RUNS_LISTED_MAX);
    let (entries, has_more) = artifacts.newest_runs(limit)?;
    let listed = |entry: RunEntry| {
        let recorded = store.recorded_run(entry.run_id)?;
        let (user, tool, status) = (recorded.user, recorded.tool, recorded.outcome);
        Ok(Listed { entry, user, tool, status })
    };
    let runs = entries.into_iter().map(listed).collect::<Result<Vec<_>, StoreError>>()?;
    let text = match format {
        Format::Text => as_table(&runs, has_more),
        Format::Json => document(json!({ "runs": runs, "truncated": has_more })),
    };
    print("the runs", &text)?;
    Ok(ExitCode::SUCCESS)
}

fn as_table(runs: &[Listed], has_more: bool) -> String {
    let mut table = Table::new([
        ("TIME", 24),
        ("RUN", 36),
        ("USER", 16),
        ("TOOL", 10),
        ("STATUS", 17),
        ("SIZE", 0),
    ]);
    for Listed { entry, user, tool, status } in runs {
        let state = match entry.state {
            RunState::Complete => "complete, no end in the audit log",
            RunState::InProgress | RunState::Interrupted => entry.state.as_str(),
        };
        table.row([
            &entry.finished.to_string(),
            &entry.run_id.to_string(),
            user.as_deref().unwrap_or("-"),
            tool.as_deref().unwrap_or("-"),
            status.as_deref().unwrap_or(state),
            &size(entry.bytes, entry.has_more),
        ]);
    }
    let more = if has_more { "there are more; --limit lists up to 10000\n" } else { "" };
    format!("{table}{more}")
}

/// Formats a number of bytes in KiB, MiB or GiB, with a `+` if not all bytes were counted.
fn size(bytes: u64, has_more: bool) -> String {
    let more = if has_more { "+" } else { "" };
    let units = [("GiB", 30_u32), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => {
            let tenths = (u128::from(bytes) * 10) >> shift;
            format!("{}.{} {unit}{more}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B{more}"),
    }
}

/// If `start` is a complete run id, returns this id. Otherwise returns the id of the only run with an id that begins
/// with `start`. Returns `None` and logs an error if no run or several runs match.
fn find(store: &Store, start: &RunIdStart) -> anyhow::Result<Option<Uuid>> {
    if let Some(run_id) = start.whole() {
        return Ok(Some(run_id));
    }
    let run_id = Some(start.clone());
    let filter = AuditFilter { limit: AUDIT_ROWS_MAX, run_id, ..AuditFilter::default() };
    let rows = store.audit_rows(&filter)?;
    let run_ids: BTreeSet<Uuid> = rows.iter().filter_map(|row| row.run_id.parse().ok()).collect();
    match Vec::from_iter(run_ids).as_slice() {
        [run_id] => return Ok(Some(*run_id)),
        [] => tracing::error!("the audit log has no run that starts with {start}"),
        [_, ..] => tracing::error!("several runs start with {start}; give more digits"),
    }
    Ok(None)
}

fn show(
    artifacts: &Artifacts,
    store: &Store,
    run_id: Uuid,
    format: Format,
) -> anyhow::Result<ExitCode> {
    let Served { content, unconfirmed } = match evidence(artifacts, store, run_id) {
        Ok(served) => served,
        Err(IntegrityError::Store(error)) => return Err(error.into()),
        Err(error) => {
            tracing::error!("{}", Causes(&error));
            return Ok(ExitCode::FAILURE);
        }
    };
    let content: Value = serde_json::from_slice(&content).context("evidence.json is not JSON")?;
    let reason = unconfirmed.map(|reason| reason.to_string());
    let text = match format {
        Format::Text => {
            let evidence =
                Evidence::deserialize(&content).context("evidence.json has another version")?;
            as_text(&evidence, reason.as_deref())
        }
        Format::Json => document(json!({
            "evidence": content,
            "integrity": if reason.is_some() { "unconfirmed" } else { "confirmed" },
            "reason": reason,
        })),
    };
    print("the evidence", &text)?;
    Ok(ExitCode::SUCCESS)
}

fn as_text(evidence: &Evidence, unconfirmed: Option<&str>) -> String {
    let mut lines = Vec::new();
    let mut line = |name: &str, value: String| lines.push((name.to_owned(), value));
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    line("run", evidence.run_id.to_string());
    let word = json!(evidence.status);
    let code = evidence.exit_code.map_or_else(String::new, |code| format!(", exit code {code}"));
    line("status", format!("{}{code}", word.as_str().unwrap_or_default()));
    line("call", format!("{} {}", evidence.tool, Value::from(evidence.arguments.clone())));
    line("user", format!("{}, token {}", evidence.user, or_dash(&evidence.token)));
    line("started", evidence.started.to_string());
    line("finished", evidence.finished.to_string());
    line("sandbox", or_dash(&evidence.sandbox_tier));
    if let Some(python) = &evidence.python {
        line("python", format!("{} {}", python.version, python.program));
        line("pytest", or_dash(&python.pytest));
    }
    line("server", or_dash(&evidence.server_version));
    line("policy", format!("SHA-256 {}", or_dash(&evidence.policy_sha256)));
    for text in evidence
        .summary
        .iter()
        .flat_map(|it| it.text().lines().map(str::to_owned).collect::<Vec<_>>())
    {
        line("tests", text);
    }
    for artifact in &evidence.artifacts {
        line("artifact", format!("{} {}", artifact.path, size(artifact.bytes, false)));
    }
    if evidence.artifacts_omitted > 0 {
        line("artifact", format!("and {} more", evidence.artifacts_omitted));
    }
    line(
        "integrity",
        match unconfirmed {
            None => "according to the audit log".to_owned(),
            Some(reason) => format!("unknown: {reason}"),
        },
    );
    let mut text = String::new();
    let mut last = String::new();
    for (name, value) in lines {
        let shown = if name == last { "" } else { name.as_str() };
        // Escape the values, because the tests of the workspace choose some of them. Writing to a string cannot fail.
        let _ = writeln!(text, "{shown:<9}  {}", printable(&value));
        last = name;
    }
    text
}

fn prune(
    artifacts: &Artifacts,
    store: &Store,
    policy: Option<&Path>,
    format: Format,
) -> anyhow::Result<ExitCode> {
    let Some(policy) = policy else {
        tracing::error!("QWED_MCP_POLICY is not set; the policy defines how long runs are kept");
        return Ok(ExitCode::from(USAGE));
    };
    let retention = match retention_of(policy) {
        Ok(retention) => retention,
        Err(error) => {
            tracing::error!("{}: {error}", policy.display());
            return Ok(ExitCode::from(USAGE));
        }
    };
    let retained = match apply_retention(artifacts, store, &retention) {
        Ok(retained) => retained,
        Err(error @ RetentionError::Busy) => {
            tracing::error!("{error}");
            return Ok(ExitCode::FAILURE);
        }
        Err(RetentionError::Store(error)) => return Err(error.into()),
    };
    let Retained { kept, removed, failed, removed_bytes } = retained;
    let text = match format {
        Format::Json => document(json!(retained)),
        Format::Text if retention.has_no_limit() => {
            format!(
                "the policy has no retention_days and no total_mb_max: all {kept} runs are kept\n"
            )
        }
        Format::Text => {
            let freed = size(removed_bytes, false);
            let left = if failed > 0 {
                format!("; {failed} could not be removed to the end, and are tried again next time")
            } else {
                String::new()
            };
            format!("removed {removed} runs ({freed}), kept {kept}{left}\n")
        }
    };
    print("the changes", &text)?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (10 << 20, "10.0 MiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ] {
            assert_eq!(size(bytes, false), expected);
        }
        assert_eq!(size(7, true), "7 B+");
    }
}
