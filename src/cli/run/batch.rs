//! `qwed-mcp run --batch`: runs the scripts of a file, one on each line.
//!
//! Answers go to standard output or to a file. All other messages go to standard error.

use std::fs::{self, File, Metadata};
use std::io::{self, IsTerminal as _, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;

use anyhow::Context as _;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgGroup, ArgMatches, Args, Id, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::code;
use crate::batch::{
    Analysis, Bounds, Ended, Input, Judge, Judging, Output, Progress, Pump, Pumped, RunBy, Shard,
    Status, Summary, Verifier, available_memory_bytes, is_same,
};
use crate::config::{AdminGate, RUN_START, SandboxMode, Settings};
use crate::executor::{Executor, InReach, orphans};
use crate::gateway::{Gateway, ReportingGateway};
use crate::scripts::Scripts;
use crate::terminal::Label;

/// The exit codes of a batch.
mod end {
    /// This machine could not run the scripts of some lines, or some lines have no answer.
    pub(super) const SOME_UNANSWERED: u8 = 1;
    /// The input cannot be used, or the arguments are invalid.
    pub(super) const UNUSABLE: u8 = 2;
}

/// The exit code of a batch with invalid arguments.
pub(in super::super) const USAGE: u8 = end::UNUSABLE;

/// The maximum number of workers. More workers would only compete for the processors.
const WORKERS_MAX: i64 = 256;

/// The template of the progress bar, which is shown if the size of the input is known.
const BAR: &str = "{bar:30} {percent}%  {msg}, {eta} left";
/// The template of the spinner, which is shown if the size of the input is unknown.
const SPINNER: &str = "{spinner} {msg}";

/// The id of clap's group that contains all options of a batch.
const GROUP: &str = "batch_options";

/// The options of a batch. Without `--batch`, [`require_batch`] rejects all other options in this group.
#[derive(Debug, Args)]
#[group(id = GROUP)]
#[command(next_help_heading = "Options of --batch")]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag of the command line")]
pub(super) struct Options {
    /// Run the scripts of a file, one line of JSON each, or - for standard input
    ///
    /// A line has the `code`, and may have id, stdin, timeout, `memory_mb`, expect, tests and meta. Each line gets a
    /// line as its answer. The exit code is 0 if all were answered, 1 if this machine could not run some of them, 2 if
    /// nothing could be run, 130 for Ctrl-C.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "json", "pictures"])]
    pub(super) batch: Option<PathBuf>,
    /// Write the answers of a batch to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Resume a batch that did not finish, from its output
    #[arg(long, requires = "output")]
    resume: bool,
    /// The number of scripts of a batch that run at the same time [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=WORKERS_MAX))]
    workers: Option<u16>,
    /// The memory limit of each script of a batch, in MiB; at most the limit in the settings
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(crate::config::MEMORY_MB_MIN..))]
    memory_mb: Option<u64>,
    /// Answer the lines of a batch in their order
    #[arg(long)]
    ordered: bool,
    /// Stop the tests of a script after the first failure
    #[arg(long)]
    fail_fast: bool,
    /// Run a script of a batch once if other lines have the same script, input and limits
    ///
    /// Implies --deterministic. This holds if the runs of the script then cannot differ. The other lines get the same
    /// result, and `"cached":true`.
    #[arg(long)]
    once: bool,
    /// Take one part of a batch's lines: 0/8 is the first of eight
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// The handling of findings in the scripts of a batch
    #[arg(long, value_enum, default_value = "default")]
    analysis: AnalysisWord,
    /// The progress of a batch
    #[arg(long, value_enum, default_value = "auto")]
    progress: Shown,
    /// Write a summary of a batch to this file, as JSON
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// Run a batch even if its scripts can read the expected answers
    ///
    /// Without this option, a batch ends with exit code 2 before its first line if scripts can read its files.
    #[arg(long)]
    allow_readable_answers: bool,
    /// DANGEROUS: run a batch without a sandbox that protects files and processes
    ///
    /// Below tier 2 (on macOS: without Seatbelt), scripts can read the expected answers and signal other processes, so
    /// `passed` is no basis for a reward. Without this option, a batch ends there with exit code 2 before its first line.
    #[arg(long)]
    unsafe_rewards: bool,
    /// The weakest way of judging by which a script may pass
    ///
    /// Other lines have `"passed":null` and `"incomplete":true`.
    #[arg(long, value_enum, value_name = "LEVEL")]
    require_judge: Option<JudgeWord>,
}

/// The format in which the progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shown {
    /// A bar on a terminal, nothing elsewhere
    Auto,
    /// A line of JSON each second, on standard error
    Json,
    /// Nothing
    None,
}

/// The handling of findings in scripts, as the value of `--analysis`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AnalysisWord {
    /// Findings block the script, as for clients
    Default,
    /// DANGEROUS: findings are reported, and the script RUNS. Only the kernel's sandbox confines it, so the complete
    /// sandbox (tier 3) is required. For pipelines with scripts that use files and exec freely
    Report,
}

/// The required way of judging, as the value of `--require-judge`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum JudgeWord {
    /// The server compared the results, outside of the script's sandbox
    Isolated,
}

impl JudgeWord {
    fn judge(self) -> Judge {
        match self {
            Self::Isolated => Judge::Isolated,
        }
    }
}

impl AnalysisWord {
    fn analysis(self) -> Analysis {
        match self {
            Self::Default => Analysis::Blocks,
            Self::Report => Analysis::Reports,
        }
    }
}

/// Fails if an option of a batch is given without `--batch`. Clap's `requires = "batch"` is not enough. If a script is
/// given, clap ignores `requires`, because `--batch` conflicts with a script.
pub(super) fn require_batch(
    command: &mut clap::Command,
    given: &ArgMatches,
) -> Result<(), clap::Error> {
    let is_given = |id: &&Id| given.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    let group = command.get_groups().find(|group| group.get_id() == GROUP);
    let options: Vec<Id> = group.into_iter().flat_map(ArgGroup::get_args).cloned().collect();
    let stray = options.iter().find(is_given);
    if given.contains_id("batch") {
        return Ok(());
    }
    let Some(stray) = stray else { return Ok(()) };
    let argument = command.get_arguments().find(|argument| argument.get_id() == stray);
    let name = argument.and_then(|argument| argument.get_long()).unwrap_or_default();
    let reason = format!("--{name} is for batches: it needs --batch FILE");
    Err(command.error(ErrorKind::MissingRequiredArgument, reason))
}

pub(super) fn run(file: &Path, mut settings: Settings, options: &Options) -> ExitCode {
    let memory_mb = options.memory_mb.unwrap_or(settings.memory_mb);
    if memory_mb > settings.memory_mb {
        let most = settings.memory_mb;
        return unusable(format_args!(
            "--memory-mb {memory_mb} is more than the {most} that QWED_MCP_MEMORY_MB allows"
        ));
    }
    settings.memory_mb = memory_mb;
    if settings.admin_gate == AdminGate::Closed {
        return unusable("scripts are disabled; set QWED_MCP_TRUSTED_CODE_EXECUTION=true");
    }
    match options.analysis.analysis() {
        Analysis::Blocks => {}
        Analysis::Reports => {
            settings.sandbox = SandboxMode::Strict;
            Label::Warning.say(
                "--analysis report: scripts run regardless of findings; only the kernel's sandbox \
                 contains them",
            );
        }
    }
    run_lines(file, &settings, options).unwrap_or_else(|error| unusable(format_args!("{error:#}")))
}

fn unusable(reason: impl std::fmt::Display) -> ExitCode {
    Label::Error.say(reason);
    ExitCode::from(end::UNUSABLE)
}

fn run_lines(file: &Path, settings: &Settings, options: &Options) -> anyhow::Result<ExitCode> {
    let in_file = |path: &Path| format!("{}", path.display());
    let source = match file.to_str() {
        Some("-") => None,
        Some(_) | None => Some(File::open(file).with_context(|| in_file(file))?),
    };
    let output = match &options.output {
        None => Output::stdout(),
        Some(path) => {
            Output::open(path, options.resume, source.as_ref()).with_context(|| in_file(path))?
        }
    };
    let summary = match &options.summary {
        None => None,
        Some(path) => {
            let opened = open_summary(path, source.as_ref(), &output);
            Some(opened.with_context(|| format!("--summary {}", path.display()))?)
        }
    };
    let shard = options.shard.unwrap_or(Shard::WHOLE);
    // Only a regular file has a known size.
    let size = source.as_ref().and_then(|file| file.metadata().ok()).filter(Metadata::is_file);
    let size = size.map(|metadata| metadata.len());
    let read: Box<dyn Read + Send> = match source {
        Some(source) => Box::new(source),
        None => Box::new(io::stdin()),
    };
    let input = Input::open(read, shard, Arc::default())?;
    let processors = available_parallelism().map_or(1, usize::from);
    let run_by = RunBy {
        workers: options.workers.map_or(processors, usize::from),
        memory_mb: settings.memory_mb,
        analysis: options.analysis.analysis(),
    };
    print_memory(&run_by);
    orphans::adopt().context("failed to become a child subreaper")?;
    let runtime = super::super::runtime()?;
    let files = [Some(file), options.output.as_deref(), options.summary.as_deref()];
    let files = files_of_batch(files);
    let ended = pump(input, output, (run_by, size, files), summary, settings, options);
    let ended = runtime.block_on(ended);
    // Do not wait without a timeout, because the thread that reads the input may be blocked forever.
    runtime.shutdown_timeout(super::super::RUNTIME_SHUTDOWN);
    ended
}

/// Opens the file for the summary before any script runs. The old content of the file stays until the summary is
/// written.
fn open_summary(path: &Path, input: Option<&File>, output: &Output) -> anyhow::Result<File> {
    let file = File::options().write(true).create(true).truncate(false).open(path)?;
    let is_input = input.map_or(Ok(false), |input| is_same(input, &file))?;
    anyhow::ensure!(!is_input, "it is also the input");
    anyhow::ensure!(!output.is(&file)?, "it is the output too");
    Ok(file)
}

/// Returns the canonical paths of a batch's files: input, output and summary. Leaves out anonymous pipes and sockets,
/// because a script cannot find them by a path.
fn files_of_batch([input, output, summary]: [Option<&Path>; 3]) -> Vec<PathBuf> {
    let input = input.filter(|path| *path != Path::new("-"));
    // Standard input and standard output may be redirected to files, which scripts could find too.
    let input = input.unwrap_or(Path::new("/dev/stdin"));
    let output = output.unwrap_or(Path::new("/dev/stdout"));
    let files = [Some(input), Some(output), summary].into_iter().flatten();
    files.filter_map(|path| fs::canonicalize(path).ok()).collect()
}

/// Returns the conditions that decide whether a script may pass. Fails if scripts could read the files of the batch,
/// unless the command line allows this. These files are secret, because the input file contains the expected outputs,
/// and the output file contains the outputs of other scripts.
async fn require_hidden_answers(
    executor: &dyn Executor,
    files: &[PathBuf],
    options: &Options,
) -> anyhow::Result<Judging> {
    let surroundings = executor.surroundings().await;
    let reach = surroundings.and_then(|it| it.reach_of(files));
    let judging = Judging {
        allows_any_tier: options.unsafe_rewards,
        are_answers_readable: reach.is_some(),
        required: options.require_judge.map(JudgeWord::judge),
    };
    let Some(reach) = reach else { return Ok(judging) };
    let (is_allowed, option, remedy) = match reach {
        InReach::Tier(_) => (
            options.unsafe_rewards,
            "--unsafe-rewards",
            "make a better tier available (see `qwed-mcp doctor`)",
        ),
        InReach::Folder { .. } => (
            options.allow_readable_answers,
            "--allow-readable-answers",
            "move the files of the batch to a folder that scripts cannot read",
        ),
    };
    anyhow::ensure!(
        is_allowed,
        "scripts could read the expected answers: {reach}; {remedy}, or use {option}"
    );
    Label::Warning.say(format_args!("{option}: scripts can read the expected answers: {reach}"));
    Ok(judging)
}

/// Runs the scripts of all lines and writes the answers. The first signal stops the batch. The second signal ends the
/// command at once.
async fn pump(
    input: Input,
    output: Output,
    (run_by, size, files): (RunBy, Option<u64>, Vec<PathBuf>),
    summary: Option<File>,
    settings: &Settings,
    options: &Options,
) -> anyhow::Result<ExitCode> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let untrusted = super::super::untrusted(super::super::policy(settings).as_ref());
    let of_workers = Settings {
        sync_concurrency: run_by.workers,
        answer_once: options.once,
        deterministic: settings.deterministic.or(options.once.then_some(RUN_START)),
        ..settings.clone()
    };
    let executor = super::super::executor(&of_workers, untrusted);
    require_ready(executor.as_ref()).await?;
    let judging = require_hidden_answers(executor.as_ref(), &files, options).await?;
    let receipts = super::super::receipt::writer_of_scripts(settings)?;
    let gateway = match run_by.analysis {
        Analysis::Blocks => Gateway::blocking(settings),
        Analysis::Reports => {
            let gateway = ReportingGateway::for_admin_batch(settings);
            Gateway::Reporting(Arc::new(gateway))
        }
    };
    let scripts = Scripts::new(&of_workers, gateway, executor).with_receipts(receipts.as_ref());
    let verifier = Verifier::new(Arc::new(scripts), run_by.analysis, options.fail_fast);
    let verifier = Arc::new(verifier.with_judging(judging));
    let stop = CancellationToken::new();
    let pump = Pump {
        verifier: Arc::clone(&verifier),
        bounds: Bounds { timeout: settings.sync_timeout, memory_mb: settings.memory_mb },
        workers: run_by.workers,
        is_ordered: options.ordered,
        stop: stop.clone(),
    };
    let shown = ShownProgress::new(options.progress, size);
    let show = |progress: &Progress| shown.show(progress);
    let work = async {
        let pumped = pump.run(input, output, show).await;
        verifier.shut_down().await;
        pumped
    };
    tokio::pin!(work);
    let mut signalled = None;
    let pumped = loop {
        let number = tokio::select! {
            pumped = &mut work => break pumped?,
            _ = interrupts.recv() => code::INTERRUPTED,
            _ = terminations.recv() => code::TERMINATED,
        };
        if signalled.replace(number).is_some() {
            // This is the second signal. Scripts that still run end when this process exits.
            return Ok(ExitCode::from(number));
        }
        Label::Note.say("ending the current runs; a second signal exits at once");
        stop.cancel();
    };
    shown.clear();
    conclude(&pumped, &run_by, signalled, summary, options)
}

/// Prints how much memory the scripts may take together, and warns if less is available.
fn print_memory(RunBy { workers, memory_mb, .. }: &RunBy) {
    let workers = u64::try_from(*workers).unwrap_or(u64::MAX);
    let wanted = memory_mb.saturating_mul(workers);
    let workers = counted(workers, "worker");
    let Some(available) = available_memory_bytes().map(|bytes| bytes / (1024 * 1024)) else {
        return Label::Note.say(format_args!("{workers}, up to {memory_mb} MiB each"));
    };
    let memory = format!("{workers}, up to {memory_mb} MiB each; {available} MiB are free");
    if wanted <= available {
        return Label::Note.say(memory);
    }
    Label::Warning.say(format_args!(
        "{memory}: if scripts use their full limits, this machine runs out of memory and the \
         kernel may kill any process; lower --workers or --memory-mb"
    ));
}

/// Fails if no script can run. Called before the first line is read.
async fn require_ready(executor: &dyn Executor) -> anyhow::Result<()> {
    let ready = executor.readiness().await.map_err(|missing| anyhow::anyhow!("{missing}"))?;
    anyhow::ensure!(ready.is_some(), "there is no Python to run scripts in; see `qwed-mcp doctor`");
    Ok(())
}

/// Prints the result of a batch, and returns its exit code.
fn conclude(
    pumped: &Pumped,
    run_by: &RunBy,
    signalled: Option<u8>,
    file: Option<File>,
    options: &Options,
) -> anyhow::Result<ExitCode> {
    let Pumped { progress, ended } = pumped;
    let is_complete = matches!(ended, Ended::Complete);
    let summary = progress.summary(run_by, is_complete);
    if let Some(mut file) = file {
        let text = format!("{:#}\n", serde_json::to_value(&summary)?);
        let emptied = if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) };
        emptied.and_then(|()| file.write_all(text.as_bytes())).context("--summary")?;
    }
    // If an error prevented all answers, print only the error, because an empty summary adds nothing.
    if is_complete || summary.lines > 0 {
        print_summary(&summary);
    }
    if run_by.analysis == Analysis::Reports {
        Label::Warning.say("--analysis report: findings did not stop any of these scripts");
    }
    let resumed = match &options.output {
        Some(_) => "; run the same command with --resume to continue",
        None => "",
    };
    Ok(ExitCode::from(match ended {
        Ended::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => code::UNREAD,
        Ended::Output(error) => {
            Label::Error.say(format_args!("the answers cannot be written: {error}{resumed}"));
            end::SOME_UNANSWERED
        }
        Ended::Input(error) => {
            Label::Error.say(format_args!("the input cannot be read: {error}{resumed}"));
            end::UNUSABLE
        }
        Ended::Changed(number, id) => {
            Label::Error.say(format_args!(
                "line {number} (id {id:?}) differs from the line that the output has an answer \
                 for; remove that answer to run the line, or start a new output"
            ));
            end::UNUSABLE
        }
        Ended::Stopped => {
            Label::Note.say(format_args!("interrupted{resumed}"));
            signalled.unwrap_or(code::INTERRUPTED)
        }
        Ended::Complete if progress.of(Status::InfraError) > 0 => end::SOME_UNANSWERED,
        Ended::Complete => 0,
    }))
}

/// Formats a count with its noun, in the singular or the plural.
fn counted(count: u64, thing: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{end}")
}

fn print_summary(summary: &Summary) {
    let Summary { lines, passed, seconds, scripts_per_second, p50_ms, p99_ms, skipped, .. } =
        summary;
    if *lines == 0 {
        let skipped = counted(*skipped, "line");
        return Label::Note.say(format_args!("{skipped} answered before, no line to run"));
    }
    let lines = counted(*lines, "line");
    let statuses = summary.statuses.iter().map(|(status, count)| format!("{count} {status}"));
    let statuses = statuses.collect::<Vec<_>>().join(", ");
    let skipped = if *skipped > 0 { format!(", {skipped} answered before") } else { String::new() };
    Label::Note.say(format_args!(
        "{lines} ({statuses}{skipped}), {passed} passed, {seconds:.1} s, {scripts_per_second:.1} a \
         second; \
         runs took {p50_ms} ms (median), 99 % within {p99_ms} ms"
    ));
}

/// The display of the progress, in the requested format.
enum ShownProgress {
    Bar(ProgressBar),
    Json,
    None,
}

impl ShownProgress {
    /// Creates the display. `size` is the size of the input in bytes, if known.
    fn new(shown: Shown, size: Option<u64>) -> Self {
        match shown {
            Shown::Json => Self::Json,
            Shown::Auto if io::stderr().is_terminal() => {
                let bar = size.map_or_else(ProgressBar::no_length, ProgressBar::new);
                let form = if size.is_some() { BAR } else { SPINNER };
                // The template is a constant and is valid, so the default style is never used.
                bar.set_style(
                    ProgressStyle::with_template(form)
                        .unwrap_or_else(|_| ProgressStyle::default_bar()),
                );
                Self::Bar(bar)
            }
            Shown::Auto | Shown::None => Self::None,
        }
    }

    fn show(&self, progress: &Progress) {
        match self {
            Self::None => {}
            Self::Json => print_progress(progress),
            Self::Bar(bar) => {
                let Progress { passed, skipped, bytes_read, .. } = progress;
                let (lines, rate) = (progress.lines(), progress.rate());
                let infra = progress.of(Status::InfraError);
                let infra =
                    if infra > 0 { format!(", {infra} infra_error") } else { String::new() };
                let before =
                    if *skipped > 0 { format!(", {skipped} before") } else { String::new() };
                bar.set_message(format!(
                    "{lines} done{before}, {passed} passed{infra}, {rate:.0} a second"
                ));
                bar.set_position(*bytes_read);
            }
        }
    }

    fn clear(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn print_progress(progress: &Progress) {
    let line = serde_json::json!({
        "done": progress.lines(),
        "passed": progress.passed,
        "skipped": progress.skipped,
        "infra_error": progress.of(Status::InfraError),
        "rate": (progress.rate() * 10.0).round() / 10.0,
        "seconds": progress.elapsed().as_secs(),
    });
    // Ignore the error, because a lost progress line is harmless.
    let _ = writeln!(io::stderr(), "{line}");
}
