//! `qwed-mcp run`: runs one script as a client's call would, and shows its output to a person.
//!
//! While the script runs, this process copies the script's output to its own standard output and standard error.
//! Messages about the run go to standard error. The exit code reports how the run ended.

mod batch;
mod screen;

use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use clap::Args;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::output::print;
use super::pictures;
use super::{InputFile, read_inputs};
use crate::config::{RUN_START, Settings, VerdictNote, run_start};
use crate::executor::{Echo, Ending, OneShotExecutor};
use crate::gateway::{Arguments, AskedBy, Inputs, Stdin, Tool};
use crate::is_same_file;
use crate::jobs::RequestKey;
use crate::ledger::Presented;
use crate::server::{CallContext, CallEnd, Reply, Server};
use crate::terminal::Label;
use crate::verdict::{Conclusion, Verdict};
use screen::{Printed, Screen};

/// The maximum value of `--timeout`, in seconds. It is the same as for a background job.
const SECONDS_MAX: f64 = 600.0;

/// The maximum size of a script's standard input, in bytes. It is the same as for a line of a batch.
const STDIN_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The exit codes that do not come from the script. They are higher than the exit codes of most scripts, and the same
/// as in env(1), timeout(1) and `docker run`.
mod code {
    /// The script reached its time limit.
    pub(super) const TIMED_OUT: u8 = 124;
    /// The script was allowed but could not be run, or the arguments are invalid.
    pub(super) const NOT_RUN: u8 = 125;
    /// The gateway refused the script.
    pub(super) const REFUSED: u8 = 126;
    /// The script, or the file for its standard input, could not be read.
    pub(super) const UNREADABLE: u8 = 127;
    /// The base of the exit codes for signals: the number of the signal is added to it.
    pub(super) const SIGNAL: u8 = 128;
    /// The command received SIGINT, for example after Ctrl-C.
    pub(super) const INTERRUPTED: u8 = SIGNAL + 2;
    /// The script was killed with SIGKILL, for example because it reached a limit of the sandbox or the limit on
    /// output.
    pub(super) const KILLED: u8 = SIGNAL + 9;
    /// The output could not be written, because its reader closed the pipe. The exit code is the same as after SIGPIPE.
    pub(super) const UNREAD: u8 = SIGNAL + 13;
    /// The command received SIGTERM.
    pub(super) const TERMINATED: u8 = SIGNAL + 15;
}

/// Returns the exit code for invalid arguments. For a single script, the code differs from the exit codes of most
/// scripts.
pub(super) fn usage(is_batch: bool) -> u8 {
    if is_batch { batch::USAGE } else { code::NOT_RUN }
}

/// Rejects combinations of `run`'s options that clap cannot reject.
pub(super) fn check(
    command: &mut clap::Command,
    given: &clap::ArgMatches,
) -> Result<(), clap::Error> {
    batch::require_batch(command, given)
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag of the command line")]
pub(super) struct Options {
    /// The script, or - for standard input
    #[arg(required_unless_present = "batch")]
    file: Option<PathBuf>,
    /// The time limit of the script, up to 600 seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Print the result of the call as a client gets it, after the script has ended
    #[arg(long)]
    json: bool,
    /// The standard input of the script: a file of up to 4 MiB, or -; empty by default
    #[arg(long, value_name = "FILE", conflicts_with = "batch")]
    stdin: Option<PathBuf>,
    /// A file that the script may read under a plain name; may be repeated
    ///
    /// The script sees the file as `open("NAME")` and as `inputs["NAME"]`: a string if it is UTF-8, otherwise bytes.
    #[arg(long, value_name = "NAME=FILE", conflicts_with = "batch")]
    input: Vec<InputFile>,
    /// Write the pictures of the script into this folder
    ///
    /// The files are picture-1.png and so on. The folder is created if it does not exist. Without this option,
    /// terminals show the pictures if they can.
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
    /// Make two runs of a script the same, as far as possible
    ///
    /// This fixes the clock, random numbers, addresses, and the kernels of numerical libraries. Threads and files can
    /// still differ.
    #[arg(long)]
    deterministic: bool,
    /// The time by the clock when a deterministic run starts, such as 2026-01-31T12:00:00Z
    ///
    /// Implies --deterministic. The default is 2026-01-01T00:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = run_start)]
    at: Option<DateTime<Utc>>,
    /// Print what the script verified, also if standard error is not a terminal
    #[arg(long, conflicts_with = "batch")]
    verdict: bool,
    /// Write the Verification Context (a JSON document) to this file, which is emptied before the run
    #[arg(long, value_name = "FILE", conflicts_with = "batch")]
    verification: Option<PathBuf>,
    /// Exit with 1 if the script ended with 0 and verified nothing
    #[arg(long, conflicts_with = "batch")]
    require_verified: bool,
    /// Run up to four variants of a verified script with other numbers, to find checks that hold with any numbers
    #[arg(long)]
    vacuity: bool,
    #[command(flatten)]
    batch: batch::Options,
}

impl Options {
    /// Returns whether the command prints the error of a run as a message. With `--batch` or `--json`, the output
    /// contains the error instead.
    pub(super) fn prints_error(&self) -> bool {
        self.batch.batch.is_none() && !self.json
    }
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0 && *seconds <= SECONDS_MAX);
    let seconds = seconds.ok_or_else(|| format!("not a number above 0, up to {SECONDS_MAX}"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Runs the script or the batch that the options name. For a single script, the exit code is [`code::NOT_RUN`] if an
/// error of this program prevents a complete run.
pub(super) fn run(options: &Options) -> ExitCode {
    let mut settings = super::settings();
    super::doctor::warn_of_unknown_variables();
    settings.sync_timeout = options.timeout.unwrap_or(settings.sync_timeout);
    let asked = options.deterministic.then_some(RUN_START);
    settings.deterministic = options.at.or(settings.deterministic).or(asked);
    settings.vacuity |= options.vacuity;
    // Leave the verdict out of the output, because `call` prints the verdict on a separate line. With `--json`, the
    // result is the same as a client's.
    if !options.json {
        settings.verdict_note = VerdictNote::Off;
    }
    if let Some(file) = &options.batch.batch {
        return batch::run(file, settings, &options.batch);
    }
    // Run the script even if the result of an earlier run is stored, because this command prints the output while the
    // script runs.
    settings.answer_once = false;
    run_script(options, &settings).unwrap_or_else(|error| {
        tracing::error!("{error:#}");
        ExitCode::from(code::NOT_RUN)
    })
}

fn run_script(options: &Options, settings: &Settings) -> anyhow::Result<ExitCode> {
    let Options { file, pictures: folder, .. } = options;
    let file = file.as_deref().unwrap_or(Path::new("-"));
    if file == Path::new("-") && io::stdin().is_terminal() {
        Label::Note
            .say("reading a script from the terminal; press Ctrl-D on an empty line to end it");
    }
    if file == Path::new("-") && options.stdin.as_deref() == Some(file) {
        Label::Error.say("the script and its standard input cannot both be standard input");
        return Ok(ExitCode::from(code::NOT_RUN));
    }
    // Open the file before the run, so that an unusable path is reported at once, and no old document remains.
    let document = options.verification.as_deref().map(Document::open).transpose()?;
    if let Some(document) = &document {
        let read = [Some(file), options.stdin.as_deref()].into_iter().flatten();
        document.clear(read.chain(options.input.iter().map(|input| &*input.file)))?;
    }
    let unreadable = |file: &Path, error: io::Error| {
        Label::Error.say(format_args!("{}: {error}", file.display()));
        Ok(ExitCode::from(code::UNREADABLE))
    };
    let code = match super::read_script(file) {
        Ok(code) => code,
        Err(error) => return unreadable(file, error),
    };
    let stdin = match options.stdin.as_deref().map(|file| (file, read_stdin(file))) {
        None => Stdin::default(),
        Some((_, Ok(stdin))) => stdin,
        Some((file, Err(error))) => return unreadable(file, error),
    };
    let inputs = match read_inputs(&options.input) {
        Ok(files) => Inputs::from_files(files)?,
        Err((file, error)) => return unreadable(file, error),
    };
    if let Some(folder) = folder {
        pictures::make_folder(folder)?;
    }
    // Use no warm interpreter, because a single script gains nothing from it.
    let untrusted = super::untrusted(super::policy(settings).as_ref());
    let executor = Arc::new(OneShotExecutor::new(settings, untrusted));
    let receipts = super::receipt::writer_of_scripts(settings)?;
    let server = Server::new(settings, executor, None, None, receipts.as_ref());
    super::in_runtime(|runtime| {
        runtime.block_on(async {
            let called = call(&server, (code, stdin, inputs), options, document).await;
            server.shut_down().await;
            called
        })
    })
}

fn read_stdin(file: &Path) -> io::Result<Stdin> {
    let mut bytes = Vec::new();
    super::read_bounded(file, STDIN_BYTES_MAX, |source| source.read_to_end(&mut bytes))?;
    Ok(bytes.as_slice().into())
}

fn caller(cancel: CancellationToken, echo: Echo) -> CallContext {
    CallContext {
        request: RequestKey("run".to_owned()),
        cancel,
        presented: Presented::default(),
        asked_by: AskedBy { client: Some("qwed-mcp run".to_owned()), ..AskedBy::default() },
        takes_tasks: false,
        waits_for_turn: Arc::default(),
        echo,
        stdin: Stdin::default(),
        inputs: Inputs::default(),
    }
}

/// Calls the tool that runs the script, and prints the output, the pictures and the outcome of the run.
async fn call(
    server: &Server,
    (code, stdin, inputs): (String, Stdin, Inputs),
    options: &Options,
    document: Option<Document>,
) -> anyhow::Result<ExitCode> {
    let is_json = options.json;
    let mut interrupts = signal(SignalKind::interrupt())?;
    let cancel = CancellationToken::new();
    let screen = Screen::open(&cancel);
    let echo = if is_json { Echo::default() } else { screen.echo() };
    let caller = CallContext { stdin, inputs, ..caller(cancel.clone(), echo) };
    let arguments = Arguments::from_iter([("code".to_owned(), json!(code))]);
    let call = server.call(Tool::ExecutePythonCode.name(), arguments, caller);
    tokio::pin!(call);
    let (reply, is_interrupted) = tokio::select! {
        reply = &mut call => (reply, false),
        _ = interrupts.recv() => {
            cancel.cancel();
            let Some(reply) = unless_interrupted(&mut interrupts, call).await else {
                return Ok(ExitCode::from(code::INTERRUPTED));
            };
            (reply, true)
        }
    };
    // Wait on another thread, because a stopped terminal (Ctrl-S) can block the write for any time. Ctrl-C then still
    // works.
    let printed = tokio::task::spawn_blocking(move || screen.close(is_interrupted));
    let Some(printed) = unless_interrupted(&mut interrupts, printed).await else {
        return Ok(ExitCode::from(code::INTERRUPTED));
    };
    let Printed { is_unread, is_line_open, elapsed } = printed??;
    if is_unread {
        return Ok(ExitCode::from(code::UNREAD));
    }
    let code = if is_interrupted { code::INTERRUPTED } else { exit_code(reply.end) };
    let is_verified =
        reply.verdict.as_ref().is_some_and(|verdict| verdict.outcome == Conclusion::Verified);
    let code = if options.require_verified && code == 0 && !is_verified { 1 } else { code };
    let has_exited = matches!(reply.end, CallEnd::Ran(Ending::Exited(0..)));
    let shows_verdict = options.verdict || (!is_json && has_exited && io::stderr().is_terminal());
    let folder = options.pictures.clone();
    // Use another thread again, because the terminal, or a disk that does not respond, can block the write.
    let shown = tokio::task::spawn_blocking(move || {
        let verdict = reply.verdict.clone();
        // Add a line end to the script's output only if a message follows.
        let is_silent =
            reply.remarks.is_empty() && (folder.is_some() || reply.pictures.all.is_empty());
        if is_line_open && (shows_verdict || !is_silent) {
            screen::end_line();
        }
        let shown = if is_json {
            show_json(reply, folder.as_deref())
        } else {
            show(&reply, folder.as_deref(), elapsed)
        };
        if let Some(verdict) = verdict.as_ref().filter(|_| shows_verdict) {
            Label::Note.say(verdict.summary());
        }
        let written = verdict.zip(document).map(|(verdict, document)| document.write(&verdict));
        shown.and(written.unwrap_or(Ok(())))
    });
    let Some(shown) = unless_interrupted(&mut interrupts, shown).await else {
        return Ok(ExitCode::from(code::INTERRUPTED));
    };
    shown??;
    Ok(ExitCode::from(code))
}

/// Shows the pictures, then the messages and the exit code of a run. The messages are shown even if the pictures could
/// not be delivered.
fn show(reply: &Reply, folder: Option<&Path>, elapsed: Duration) -> anyhow::Result<()> {
    let delivered = pictures::deliver(&reply.pictures, folder);
    print_end(reply, elapsed);
    delivered
}

/// The file for the Verification Context.
struct Document {
    path: PathBuf,
    file: File,
}

impl Document {
    /// Opens or creates the file, without a change of its content.
    fn open(path: &Path) -> anyhow::Result<Self> {
        let opened = File::options().write(true).create(true).truncate(false).open(path);
        Ok(Self { path: path.to_owned(), file: opened.with_context(|| Self::unwritten(path))? })
    }

    /// Empties the file. Fails if the file is one of the files that the run reads.
    fn clear<'f>(&self, read: impl Iterator<Item = &'f Path>) -> anyhow::Result<()> {
        let own = self.file.metadata().with_context(|| Self::unwritten(&self.path))?;
        if !own.is_file() {
            return Ok(());
        }
        let metadata = |file: &Path| match file.to_str() {
            Some("-") => File::from(io::stdin().as_fd().try_clone_to_owned()?).metadata(),
            _ => fs::metadata(file),
        };
        for file in read {
            let is_own = metadata(file).is_ok_and(|other| is_same_file(&other, &own));
            anyhow::ensure!(
                !is_own,
                "{}: the run reads this file; name another file with --verification",
                self.path.display()
            );
        }
        self.file.set_len(0).with_context(|| Self::unwritten(&self.path))
    }

    fn write(mut self, verdict: &Verdict) -> anyhow::Result<()> {
        let written = writeln!(self.file, "{:#}", verdict.document);
        written.with_context(|| Self::unwritten(&self.path))
    }

    fn unwritten(path: &Path) -> String {
        format!("the Verification Context could not be written to {}", path.display())
    }
}

/// Prints the result of the call as JSON, and writes the pictures if `folder` is given.
fn show_json(reply: Reply, folder: Option<&Path>) -> anyhow::Result<()> {
    let pictures = Arc::clone(&reply.pictures);
    print("the result", &format!("{:#}\n", reply.into_json()?))?;
    match folder {
        Some(_) => pictures::deliver(&pictures, folder),
        None => Ok(()),
    }
}

/// Waits for `work`. Returns `None` after Ctrl-C. The unfinished work then ends when this process exits.
async fn unless_interrupted<T>(
    interrupts: &mut Signal,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        _ = interrupts.recv() => None,
    }
}

fn exit_code(end: CallEnd) -> u8 {
    match end {
        CallEnd::Refused => code::REFUSED,
        CallEnd::NotRun | CallEnd::Answered => code::NOT_RUN,
        CallEnd::Ran(Ending::TimedOut) => code::TIMED_OUT,
        CallEnd::Ran(Ending::Cancelled) => code::INTERRUPTED,
        CallEnd::Ran(Ending::OutOfMemory) => code::KILLED,
        CallEnd::Ran(Ending::Exited(code @ 0..)) => u8::try_from(code).unwrap_or(u8::MAX),
        CallEnd::Ran(Ending::Exited(signal)) => {
            let number = u8::try_from(signal.unsigned_abs()).unwrap_or_default();
            code::SIGNAL.saturating_add(number)
        }
    }
}

/// Prints the messages about a run, and the exit code if the script exited.
fn print_end(reply: &Reply, elapsed: Duration) {
    let first = match reply.end {
        CallEnd::Ran(Ending::Exited(0..)) => Label::Note,
        CallEnd::Ran(_) | CallEnd::Refused | CallEnd::NotRun | CallEnd::Answered => Label::Error,
    };
    let labels = std::iter::once(first).chain(std::iter::repeat(Label::Note));
    for (label, text) in labels.zip(&reply.remarks) {
        label.say(text);
    }
    if let CallEnd::Ran(Ending::Exited(code @ 0..)) = reply.end {
        screen::print_exit_code(code, elapsed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_bounded() {
        for (text, expected) in [
            ("1", Some(1000)),
            ("0.25", Some(250)),
            ("600", Some(600_000)),
            ("600.1", None),
            ("0", None),
            ("-1", None),
            ("nan", None),
            ("inf", None),
            ("1m", None),
            ("", None),
        ] {
            let found = seconds(text).ok();
            assert_eq!(found, expected.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn the_end_of_a_script_is_apart_from_ours() {
        for (end, expected) in [
            (CallEnd::Ran(Ending::Exited(0)), 0),
            (CallEnd::Ran(Ending::Exited(7)), 7),
            (CallEnd::Ran(Ending::Exited(255)), 255),
            (CallEnd::Ran(Ending::Exited(-11)), 139),
            (CallEnd::Ran(Ending::Exited(-9)), 137),
            (CallEnd::Ran(Ending::OutOfMemory), 137),
            (CallEnd::Ran(Ending::TimedOut), 124),
            (CallEnd::Ran(Ending::Cancelled), 130),
            (CallEnd::NotRun, 125),
            (CallEnd::Refused, 126),
        ] {
            assert_eq!(exit_code(end), expected, "{end:?}");
        }
    }
}
