//! `qwed-mcp audit`: what governed tools were called for, and whether the log of that is intact.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write as _};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use chrono::{TimeDelta, Utc};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use uuid::Uuid;

use super::Format;
use super::token::span;
use crate::config::Settings;
use crate::governance::{
    AUDIT_ROWS_MAX, AuditEvent, AuditFilter, AuditHash, AuditRow, AuditVerification, KnownHead,
    Store, UserName, data_folder,
};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the latest rows
    List(List),
    /// Say whether the log is as it was written
    ///
    /// The exit code is 0 if it is, 1 if rows were changed, removed or inserted, 2 if the log cannot
    /// be read.
    Verify {
        /// The head that an earlier `verify` printed: it has to be in the log still
        #[arg(long, value_name = "HASH")]
        head: Option<AuditHash>,
        /// The form of the output
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Print all rows, one JSON object on each line
    Export {
        /// The form of the output
        #[arg(long, value_enum, default_value = "json")]
        format: ExportFormat,
    },
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(AUDIT_ROWS_MAX)))]
    limit: u16,
    /// Only those of this call
    #[arg(long, value_name = "UUID")]
    run_id: Option<Uuid>,
    /// Only this event
    #[arg(long, value_enum, value_name = "EVENT", ignore_case = true)]
    event: Option<AuditEvent>,
    /// Only those of this user
    #[arg(long, value_name = "NAME")]
    user: Option<UserName>,
    /// Only those of this long ago or less, such as 15m or 7d
    #[arg(long, value_name = "SPAN", value_parser = span)]
    since: Option<Duration>,
    /// The form of the output
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportFormat {
    /// JSON lines
    Json,
}

pub(super) fn run(command: &Command, settings: &Settings) -> anyhow::Result<ExitCode> {
    let store = Store::open_existing(&data_folder(settings.data_dir.as_deref())?)?;
    match command {
        Command::List(options) => list(&store, options),
        Command::Verify { head, format } => verify(&store, head.as_ref(), *format),
        Command::Export { format: ExportFormat::Json } => export(&store),
    }
}

fn list(store: &Store, options: &List) -> anyhow::Result<ExitCode> {
    let ago = |span| Utc::now().checked_sub_signed(TimeDelta::from_std(span).ok()?);
    let rows = store.audit_rows(&AuditFilter {
        limit: options.limit,
        run_id: options.run_id,
        event: options.event,
        user: options.user.clone(),
        since: options.since.and_then(ago),
    })?;
    let text = match options.format {
        Format::Text => as_table(&rows),
        Format::Json => {
            format!("{:#}\n", json!({ "version": env!("CARGO_PKG_VERSION"), "rows": rows }))
        }
    };
    io::stdout().write_all(text.as_bytes()).context("failed to print the rows")?;
    Ok(ExitCode::SUCCESS)
}

fn verify(store: &Store, head: Option<&AuditHash>, format: Format) -> anyhow::Result<ExitCode> {
    let verification = store.verify_audit(head)?;
    let text = match format {
        Format::Text => as_text(&verification),
        Format::Json => format!(
            "{:#}\n",
            json!({
                "version": env!("CARGO_PKG_VERSION"),
                "intact": verification.is_intact(),
                "rows": verification.rows,
                "head": verification.head,
                "broken": verification.broken,
                "known_head": verification.known_head,
                "unfinished": verification.unfinished,
            })
        ),
    };
    io::stdout().write_all(text.as_bytes()).context("failed to print what was found")?;
    Ok(if verification.is_intact() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn export(store: &Store) -> anyhow::Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut printed = Ok(());
    store.for_each_audit_row(|row| {
        printed = serde_json::to_writer(&mut out, &row)
            .map_err(io::Error::from)
            .and_then(|()| out.write_all(b"\n"));
        if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    printed.and_then(|()| out.flush()).context("failed to print the rows")?;
    Ok(ExitCode::SUCCESS)
}

fn as_table(rows: &[AuditRow]) -> String {
    let mut table = String::new();
    let mut line = |cells: [&str; 7]| {
        // Clients choose names, and a terminal obeys control characters.
        let [time, seq, event, user, tool, outcome, run_id] =
            cells.map(|cell| cell.escape_debug().to_string());
        // Writing to a text does not fail.
        let _ = writeln!(
            table,
            "{time:<27}  {seq:>6}  {event:<14}  {user:<16}  {tool:<20}  {outcome:<17}  {run_id}"
        );
    };
    line(["TIME", "SEQ", "EVENT", "USER", "TOOL", "OUTCOME", "RUN"]);
    for row in rows {
        line([
            &row.time,
            &row.seq.to_string(),
            &row.event,
            row.user.as_deref().unwrap_or("-"),
            &row.tool,
            &row.outcome,
            &row.run_id,
        ]);
    }
    table
}

fn as_text(verification: &AuditVerification) -> String {
    let AuditVerification { rows, head, broken, known_head, unfinished } = verification;
    let mut lines = vec![match broken {
        None => format!("the chain is intact, {rows} rows"),
        Some(broken) => format!("BROKEN: {broken}; {rows} rows"),
    }];
    match known_head {
        None => {}
        Some(KnownHead::Row(seq)) => lines.push(format!("the given head is that of row {seq}")),
        Some(KnownHead::Missing) => {
            lines.push("BROKEN: no intact row has the given head".to_owned());
        }
    }
    lines.push(match broken {
        None => format!("head {head}"),
        Some(_) => format!("last good head {head}"),
    });
    if unfinished.count > 0 {
        lines.push(format!("started and not finished (yet): {}", unfinished.count));
        lines.extend(unfinished.runs.iter().map(|run| format!("- {}", run.escape_debug())));
    }
    lines.push(String::new());
    lines.join("\n")
}
