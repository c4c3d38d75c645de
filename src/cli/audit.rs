//! `qwed-mcp audit`: lists, verifies and exports the audit log of the governed tools. It never changes the log.

mod table;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context as _;
use chrono::{TimeDelta, Utc};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::Format;
use super::output::{NotPrinted, document, print};
use super::receipt::public_keys;
use super::token::span;
use crate::config::Settings;
use crate::data_folder::data_folder;
use crate::governance::{
    Artifacts, ArtifactsVerification, IntegrityError, RunDifference, verify_artifacts,
};
use crate::ledger::{
    AUDIT_ROWS_MAX, AuditEvent, AuditFilter, AuditHash, AuditRow, AuditVerification,
    ChainVerification, ClockStep, ExportVerification, ExportedChain, FlawedToken, KnownHead,
    RowsAfter, RunIdStart, Store, StoreError, TokenFlaw, UserName, verify_export,
};
use crate::receipt::{CheckpointVerification, Checkpoints};

/// The interval at which `export --follow` polls for new rows.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the latest rows
    List(List),
    /// Verify that the log is unchanged, and that the tokens match it
    ///
    /// The exit code is 0 if both are intact, 1 if something was changed, removed, inserted or damaged (with
    /// --artifacts also an artifact of a run), 2 if the log cannot be read.
    Verify {
        /// An export to verify instead of the store: a file that `export` printed, or - for standard input
        #[arg(value_name = "FILE", conflicts_with = "artifacts")]
        file: Option<PathBuf>,
        /// A head that an earlier `verify` printed, which must still be in the log; may be repeated
        #[arg(long, value_name = "HASH")]
        head: Vec<AuditHash>,
        /// Also compare the artifacts of runs with the log
        #[arg(long)]
        artifacts: bool,
        #[command(flatten)]
        signed: Signed,
        /// The form of the output
        #[arg(long, value_enum, default_value = "text")]
        format: Format,
    },
    /// Print all rows, one JSON object on each line
    Export {
        /// Only rows after the row with this number
        #[arg(long, value_name = "N")]
        since_seq: Option<i64>,
        /// Continue with new rows until the command is interrupted
        #[arg(long)]
        follow: bool,
        /// The form of the output
        #[arg(long, value_enum, default_value = "json")]
        format: ExportFormat,
    },
}

#[derive(Debug, Args)]
pub(super) struct Signed {
    /// Compare the log with its signed checkpoints, in the file that the policy names
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// The public keys of the checkpoints: a folder that `receipt keygen` made, or one public key; default: the keys in
    /// the data folder
    #[arg(long, value_name = "DIR", requires = "checkpoint")]
    key: Option<PathBuf>,
}

impl Signed {
    /// Reads the checkpoints from the file that `--checkpoint` names. Returns `None` without that option.
    fn read(&self, settings: &Settings) -> anyhow::Result<Option<Checkpoints>> {
        let Some(file) = &self.checkpoint else { return Ok(None) };
        let keys = public_keys(self.key.as_deref(), settings)?;
        let source = File::open(file).with_context(|| file.display().to_string())?;
        let checkpoints = Checkpoints::read(BufReader::new(source), &keys);
        checkpoints.map(Some).with_context(|| file.display().to_string())
    }
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// The most rows to print
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(AUDIT_ROWS_MAX)))]
    limit: u16,
    /// Only rows of this call: its run id, or the eight digits of it that the list shows
    #[arg(long, value_name = "UUID")]
    run_id: Option<RunIdStart>,
    /// Only this event
    #[arg(long, value_parser = event_parser(), value_name = "EVENT", ignore_case = true)]
    event: Option<AuditEvent>,
    /// Only rows of this user
    #[arg(long, value_name = "NAME")]
    user: Option<UserName>,
    /// Only rows that are not older than this, such as 15m or 7d
    #[arg(long, value_name = "SPAN", value_parser = span)]
    since: Option<Duration>,
    /// The form of the output
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

fn event_parser() -> impl TypedValueParser<Value = AuditEvent> {
    let help = |event| match event {
        AuditEvent::McpToolCall => "A governed tool was called",
        AuditEvent::PolicyBlocked => "The policy refused the call",
        AuditEvent::SandboxExec => "A process in the sandbox ended",
        AuditEvent::ToolStarted => "A tool began to run",
        AuditEvent::ToolFinished => "A tool ended",
        AuditEvent::TokenCreated => "A token was made",
        AuditEvent::TokenRevoked => "A token was revoked",
        AuditEvent::ArtifactsRemoved => "The files of a run were removed by the policy's retention",
    };
    let values = AuditEvent::ALL.map(|event| PossibleValue::new(event.as_str()).help(help(event)));
    PossibleValuesParser::new(values).try_map(|name| {
        let event = AuditEvent::ALL.into_iter().find(|it| it.as_str().eq_ignore_ascii_case(&name));
        event.ok_or("not an event")
    })
}

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportFormat {
    /// JSON lines
    Json,
}

pub(super) fn run(command: &Command, settings: &Settings) -> anyhow::Result<ExitCode> {
    if let Command::Verify { file: Some(file), head, signed, format, .. } = command {
        return match signed.read(settings) {
            Ok(checkpoints) => verify_file(file, head, checkpoints, *format),
            Err(error) => unreadable(&error),
        };
    }
    let folder = data_folder(settings.data_dir.as_deref())?;
    let store = settings.store_in(&folder).open_to_read()?;
    match command {
        Command::List(options) => list(&store, options),
        Command::Verify { head, artifacts, signed, format, .. } => {
            let artifacts = artifacts.then(|| Artifacts::new(&folder));
            match signed.read(settings) {
                Ok(checkpoints) => verify(&store, head, artifacts.as_ref(), checkpoints, *format),
                Err(error) => unreadable(&error),
            }
        }
        Command::Export { since_seq, follow, format: ExportFormat::Json } => {
            let seen = since_seq.map_or_else(RowsAfter::nothing, RowsAfter::new);
            export(&store, seen, *follow)
        }
    }
}

fn list(store: &Store, options: &List) -> anyhow::Result<ExitCode> {
    let ago = |span| Utc::now().checked_sub_signed(TimeDelta::from_std(span).ok()?);
    let rows = store.audit_rows(&AuditFilter {
        limit: options.limit,
        run_id: options.run_id.clone(),
        event: options.event,
        user: options.user.clone(),
        since: options.since.and_then(ago),
    })?;
    let text = match options.format {
        Format::Text => table::of(&rows),
        Format::Json => document(json!({ "rows": rows })),
    };
    print("the rows", &text)?;
    Ok(ExitCode::SUCCESS)
}

fn verify(
    store: &Store,
    heads: &[AuditHash],
    artifacts: Option<&Artifacts>,
    checkpoints: Option<Checkpoints>,
    format: Format,
) -> anyhow::Result<ExitCode> {
    let verification = store.verify_audit(heads)?;
    let checkpoints = checkpoints.map(|checkpoints| compare(store, checkpoints)).transpose()?;
    let found = artifacts.map(|artifacts| match verify_artifacts(artifacts, store) {
        // Return the store error itself, because the exit code of the command depends on its type.
        Err(IntegrityError::Store(error)) => Err(anyhow::Error::new(error)),
        found => found.context("failed to compare the artifacts of runs"),
    });
    let found = found.transpose()?;
    let text = match format {
        Format::Text => {
            let artifacts = found.as_ref().map_or_else(String::new, lines_of_artifacts);
            as_text(&verification) + &lines_of_checkpoints(checkpoints.as_ref()) + &artifacts
        }
        Format::Json => {
            let mut object = json!(verification);
            if let Some(fields) = object.as_object_mut() {
                fields.insert("intact".to_owned(), json!(verification.is_intact()));
                fields.extend(found.iter().map(|found| ("artifacts".to_owned(), json!(found))));
                fields.extend(field_of_checkpoints(checkpoints.as_ref()));
            }
            document(object)
        }
    };
    print("the findings", &text)?;
    let is_intact = verification.is_intact()
        && found.is_none_or(|found| found.is_intact())
        && checkpoints.is_none_or(|found| found.is_intact());
    Ok(if is_intact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn export(store: &Store, mut seen: RowsAfter, follow: bool) -> anyhow::Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    loop {
        let mut printed = Ok(());
        let after = seen.clone();
        store.for_each_row_after(&after, &mut |row| {
            seen.add_row(&row);
            printed = serde_json::to_writer(&mut out, &row)
                .map_err(io::Error::from)
                .and_then(|()| out.write_all(b"\n"));
            if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let printed = printed.and_then(|()| out.flush());
        let is_over = printed.is_err() || !follow;
        NotPrinted::check("the rows", printed)?;
        if is_over {
            return Ok(ExitCode::SUCCESS);
        }
        sleep(FOLLOW_INTERVAL);
    }
}

/// Verifies an export. Reads it from `file`, or from standard input if `file` is `-`.
fn verify_file(
    file: &Path,
    heads: &[AuditHash],
    mut checkpoints: Option<Checkpoints>,
    format: Format,
) -> anyhow::Result<ExitCode> {
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        match File::open(file).with_context(|| file.display().to_string()) {
            Ok(file) => Box::new(file),
            Err(error) => return unreadable(&error),
        }
    };
    let see = |row: &AuditRow| checkpoints.iter_mut().for_each(|it| it.compare_row(row));
    let verified = verify_export(BufReader::new(source), heads, see)
        .with_context(|| format!("{} is not an export", file.display()));
    let verified = match verified {
        Ok(verified) => verified,
        Err(error) => return unreadable(&error),
    };
    let checkpoints = checkpoints.map(Checkpoints::verification);
    let text = match format {
        Format::Text => lines_of_export(&verified) + &lines_of_checkpoints(checkpoints.as_ref()),
        Format::Json => {
            let mut object = json!(verified);
            if let Some(fields) = object.as_object_mut() {
                fields.insert("intact".to_owned(), json!(verified.is_intact()));
                fields.extend(field_of_checkpoints(checkpoints.as_ref()));
            }
            document(object)
        }
    };
    print("the findings", &text)?;
    let is_intact = verified.is_intact() && checkpoints.is_none_or(|found| found.is_intact());
    Ok(if is_intact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn lines_of_export(verified: &ExportVerification) -> String {
    let ExportVerification { rows, chain, known_head, instances } = verified;
    let mut lines = Vec::new();
    for (instance, ExportedChain { first, head, broken, .. }) in instances {
        let (instance, first) = (instance.escape_debug(), first.unwrap_or_default());
        let head = head.as_ref().map(|head| format!(", head {head}")).unwrap_or_default();
        lines.push(match broken {
            None => format!("instance {instance}: intact from row {first} on{head}"),
            Some(broken) => format!("BROKEN: instance {instance}: {broken}"),
        });
    }
    let ExportedChain { first, head, broken, .. } = chain;
    if instances.is_empty() || first.is_some() {
        let from = first.map(|seq| format!(", from row {seq} on")).unwrap_or_default();
        lines.push(match broken {
            None => format!("the chain is intact, {rows} rows{from}"),
            Some(broken) => format!("BROKEN: {broken}; {rows} rows{from}"),
        });
    }
    lines.extend(known_head.as_ref().map(line_of_known_head));
    lines.extend(head.as_ref().map(|head| format!("head {head}")));
    lines.join("\n") + "\n"
}

/// Logs the reason why a file in the arguments cannot be read, and returns the exit code for usage errors.
#[expect(clippy::unnecessary_wraps, reason = "as a command ends")]
fn unreadable(error: &anyhow::Error) -> anyhow::Result<ExitCode> {
    tracing::error!("{error:#}");
    Ok(ExitCode::from(super::USAGE))
}

/// Compares the signed checkpoints with the rows of the store.
fn compare(
    store: &Store,
    mut checkpoints: Checkpoints,
) -> Result<CheckpointVerification, StoreError> {
    store.for_each_row_after(&RowsAfter::nothing(), &mut |row| {
        checkpoints.compare_row(&row);
        ControlFlow::Continue(())
    })?;
    Ok(checkpoints.verification())
}

fn field_of_checkpoints(found: Option<&CheckpointVerification>) -> Option<(String, Value)> {
    found.map(|found| ("checkpoints".to_owned(), json!(found)))
}

/// Formats the comparison of the log with its checkpoints. Returns an empty string if no comparison was requested.
fn lines_of_checkpoints(found: Option<&CheckpointVerification>) -> String {
    let Some(found) = found else { return String::new() };
    let CheckpointVerification { same, earlier, last, last_signed, rows_behind, .. } = found;
    let mut lines = Vec::new();
    match (last, last_signed) {
        (Some(last), Some(time)) => lines.push(format!(
            "rows that match their checkpoints: {same}; the last is row {last}, signed at {time}; \
             rows after it: {rows_behind}"
        )),
        _ => lines.push("BROKEN: no row matches a checkpoint".to_owned()),
    }
    if *earlier > 0 {
        lines.push(format!("checkpoints of rows before these: {earlier}"));
    }
    lines.extend(found.flaws.iter().map(|flaw| format!("BROKEN: {}", flaw.escape_debug())));
    lines.push(String::new());
    lines.join("\n")
}

fn line_of_known_head(known_head: &KnownHead) -> String {
    match known_head {
        KnownHead::Row(seq) => format!("the given head is the head of row {seq}"),
        KnownHead::Missing => "BROKEN: no intact row has the given head".to_owned(),
    }
}

fn as_text(verification: &AuditVerification) -> String {
    let unfinished = &verification.unfinished;
    let mut lines = lines_of_chains(verification);
    if unfinished.count > 0 {
        lines.push(format!("waiting or started, and not finished (yet): {}", unfinished.count));
        lines.extend(unfinished.runs.iter().map(|run| format!("- {}", run.escape_debug())));
    }
    lines.extend(lines_of_tokens(verification));
    let AuditVerification { database, clock, .. } = verification;
    let damage = database.damage.iter().map(|line| format!("BROKEN: the file is damaged: {line}"));
    lines.extend(damage.map(|line| line.escape_debug().to_string()));
    let schema = database.schema.iter().map(|line| line.escape_debug());
    lines.extend(schema.map(|line| format!("BROKEN: the schema was changed: {line}")));
    if clock.count > 0 {
        lines.push(format!("note: rows before which the clock was set back: {}", clock.count));
        let step = |ClockStep { seq, seconds }: &ClockStep| format!("- row {seq}, by {seconds} s");
        lines.extend(clock.rows.iter().map(step));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Formats the verification of the log. If replicas share the log, each replica's chain has a line. The lines contain
/// the heads, which an admin can note and pass to a later `verify --head`.
fn lines_of_chains(verification: &AuditVerification) -> Vec<String> {
    let AuditVerification { rows, head, broken, known_head, instances, .. } = verification;
    let name_of_head = if broken.is_some() { "last good head" } else { "head" };
    let mut lines = Vec::new();
    for ChainVerification { instance, rows, head, broken } in instances {
        let instance = instance.escape_debug();
        lines.push(match broken {
            None => format!("instance {instance}: intact, {rows} rows, head {head}"),
            Some(broken) => {
                format!("BROKEN: instance {instance}: {broken}; {rows} rows, last good head {head}")
            }
        });
    }
    let subject = if instances.is_empty() { "the chain is" } else { "all chains are" };
    lines.push(match broken {
        None => format!("{subject} intact, {rows} rows"),
        Some(broken) if instances.is_empty() => format!("BROKEN: {broken}; {rows} rows"),
        Some(_) => format!("BROKEN: not all chains are intact; {rows} rows"),
    });
    lines.extend(known_head.as_ref().map(line_of_known_head));
    lines.push(if instances.is_empty() {
        format!("{name_of_head} {head}")
    } else {
        format!("hash of these heads {head}")
    });
    lines
}

fn lines_of_tokens(verification: &AuditVerification) -> Vec<String> {
    let Some(tokens) = &verification.tokens else {
        return vec![
            "tokens were not compared with the log, because the log is not intact".to_owned(),
        ];
    };
    let flawed = |FlawedToken { token, flaw, columns }: &FlawedToken| {
        let token = token.escape_debug();
        match flaw {
            TokenFlaw::Changed => {
                format!("BROKEN: token {token} was changed: {}", columns.join(", "))
            }
            TokenFlaw::Removed => format!("BROKEN: token {token} was removed"),
            TokenFlaw::Unrecorded => {
                format!("BROKEN: token {token} was not made by this program: no row mentions it")
            }
        }
    };
    let mut lines = vec![format!("unchanged tokens: {}", tokens.same)];
    lines.extend(tokens.flawed.iter().map(flawed));
    if !tokens.older.is_empty() {
        lines.push(format!(
            "note: tokens that are older than the rows about tokens, so changes to them cannot be \
             detected: {}",
            tokens.older.join(", ")
        ));
    }
    lines
}

fn lines_of_artifacts(found: &ArtifactsVerification) -> String {
    let ArtifactsVerification { intact, unconfirmed, in_progress, interrupted, removed, .. } =
        found;
    let mut lines = vec![format!("runs with unchanged files: {intact}")];
    for (count, what) in [
        (unconfirmed, "not or only partly comparable"),
        (in_progress, "in progress"),
        (interrupted, "interrupted, without evidence"),
        (removed, "removed by the policy's retention"),
    ] {
        if *count > 0 {
            lines.push(format!("{what}: {count}"));
        }
    }
    if found.different > 0 {
        lines.push(format!("CHANGED AFTER THE RUN: {}", found.different));
        // `Difference` contains no control characters, so it needs no escaping.
        let line = |it: &RunDifference| format!("- {}: {}", it.run_id, it.difference);
        lines.extend(found.differences.iter().map(line));
    }
    lines.push(String::new());
    lines.join("\n")
}
