//! `qwed-mcp run`: one script, as a client's call would run it, for a person who looks on.
//!
//! What the script prints goes to the streams of the same name while it runs. What there is to say about the
//! run goes to standard error, and its end is the exit code.

mod batch;
mod screen;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::output::print;
use super::pictures;
use crate::config::Settings;
use crate::executor::{Echo, Ending, OneShotExecutor};
use crate::gateway::{Arguments, AskedBy, Stdin, Tool};
use crate::jobs::RequestKey;
use crate::ledger::Presented;
use crate::server::{CallContext, CallEnd, Reply, Server};
use crate::terminal::Label;
use screen::{Printed, Screen};

/// The longest time that can be asked for: that of the longest background job.
const SECONDS_MAX: f64 = 600.0;

/// The most that a script can read from its standard input: as much as a line of a batch may have.
const STDIN_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The exit codes that are none of the script's. Above those of most scripts, as env(1), timeout(1) and
/// `docker run` have them.
mod code {
    /// The time was up.
    pub(super) const TIMED_OUT: u8 = 124;
    /// The script was allowed, and could not be run; or the arguments do not fit.
    pub(super) const NOT_RUN: u8 = 125;
    /// The gateway refused it.
    pub(super) const REFUSED: u8 = 126;
    /// There is no script.
    pub(super) const UNREADABLE: u8 = 127;
    /// A signal ended it: this and its number.
    pub(super) const SIGNAL: u8 = 128;
    /// Ctrl-C: SIGINT.
    pub(super) const INTERRUPTED: u8 = SIGNAL + 2;
    /// A limit of the sandbox, or the cap of the output: SIGKILL.
    pub(super) const KILLED: u8 = SIGNAL + 9;
    /// Nobody reads the output: SIGPIPE.
    pub(super) const UNREAD: u8 = SIGNAL + 13;
    /// SIGTERM.
    pub(super) const TERMINATED: u8 = SIGNAL + 15;
}

/// The exit code for arguments that do not fit: apart from the script's own, where there is one script.
pub(super) fn usage(is_batch: bool) -> u8 {
    if is_batch { batch::USAGE } else { code::NOT_RUN }
}

/// Refuses options of `run` that do not go together, beyond what clap sees by itself.
pub(super) fn check(
    command: &mut clap::Command,
    given: &clap::ArgMatches,
) -> Result<(), clap::Error> {
    batch::require_batch(command, given)
}

#[derive(Debug, Args)]
pub(super) struct Options {
    /// The script, or - for standard input
    #[arg(required_unless_present = "batch")]
    file: Option<PathBuf>,
    /// The time that the script may take: up to 600 seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Print the result of the call as a client gets it, once the script has ended
    #[arg(long)]
    json: bool,
    /// What the script reads from its standard input, which is empty otherwise: a file of up to 4 MiB, or -
    #[arg(long, value_name = "FILE", conflicts_with = "batch")]
    stdin: Option<PathBuf>,
    /// Write the pictures of the script into this folder
    ///
    /// As picture-1.png and so on; the folder is made where there is none. Without this, terminals
    /// that can show them do.
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
    /// Have two runs of a script be the same as far as that can be had
    ///
    /// Random numbers whose seed the script does not set, addresses, and the kernels of numerical libraries. Time,
    /// threads and secrets stay what they are.
    #[arg(long)]
    deterministic: bool,
    #[command(flatten)]
    batch: batch::Options,
}

impl Options {
    /// Returns whether the error of a run is printed: a batch and JSON have it in their results.
    pub(super) fn prints_error(&self) -> bool {
        self.batch.batch.is_none() && !self.json
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0 && *seconds <= SECONDS_MAX);
    let seconds = seconds.ok_or_else(|| format!("not a number above 0, up to {SECONDS_MAX}"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Runs the script of the options. An error is one of ours: the script was not run, or not to its end.
pub(super) fn run(options: &Options) -> ExitCode {
    let mut settings = super::settings();
    super::doctor::warn_of_unknown_variables();
    settings.sync_timeout = options.timeout.unwrap_or(settings.sync_timeout);
    settings.deterministic |= options.deterministic;
    if let Some(file) = &options.batch.batch {
        return batch::run(file, settings, &options.batch);
    }
    run_script(options, &settings).unwrap_or_else(|error| {
        tracing::error!("{error:#}");
        ExitCode::from(code::NOT_RUN)
    })
}

fn run_script(options: &Options, settings: &Settings) -> anyhow::Result<ExitCode> {
    let Options { file, json, pictures: folder, .. } = options;
    let file = file.as_deref().unwrap_or(Path::new("-"));
    if file == Path::new("-") && io::stdin().is_terminal() {
        Label::Note.say("reading a script from the terminal; Ctrl-D on a line of its own ends it");
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
    if let Some(folder) = folder {
        pictures::make_folder(folder)?;
    }
    // One script: nothing would come of keeping anything warm.
    let untrusted = super::untrusted(super::policy(settings).as_ref());
    let executor = Arc::new(OneShotExecutor::new(settings, untrusted));
    let receipts = super::receipt::writer_of_scripts(settings)?;
    let server = Server::new(settings, executor, None, None, receipts.as_ref());
    super::with_server(server, |runtime, server| {
        runtime.block_on(call(&server, (code, stdin), *json, folder.as_deref()))
    })
}

/// Reads what a script is to read.
fn read_stdin(file: &Path) -> io::Result<Stdin> {
    let mut bytes = Vec::new();
    super::read_bounded(file, STDIN_BYTES_MAX, |source| source.read_to_end(&mut bytes))?;
    Ok(bytes.as_slice().into())
}

/// Calls the tool, and shows what comes of it.
async fn call(
    server: &Server,
    (code, stdin): (String, Stdin),
    is_json: bool,
    folder: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let cancel = CancellationToken::new();
    let screen = Screen::open(&cancel);
    let caller = CallContext {
        request: RequestKey("run".to_owned()),
        cancel: cancel.clone(),
        presented: Presented::default(),
        asked_by: AskedBy { client: Some("qwed-mcp run".to_owned()), ..AskedBy::default() },
        takes_tasks: false,
        waits_for_turn: Arc::default(),
        echo: if is_json { Echo::default() } else { screen.echo() },
        stdin,
    };
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
    // A terminal that is held up may take any time.
    let printed = tokio::task::spawn_blocking(move || screen.close(is_interrupted));
    let Some(printed) = unless_interrupted(&mut interrupts, printed).await else {
        return Ok(ExitCode::from(code::INTERRUPTED));
    };
    let Printed { is_unread, elapsed } = printed??;
    if is_unread {
        return Ok(ExitCode::from(code::UNREAD));
    }
    let code = if is_interrupted { code::INTERRUPTED } else { exit_code(reply.end) };
    let folder = folder.map(Path::to_owned);
    // Here too, and a folder may be on a disk that does not answer.
    let shown = tokio::task::spawn_blocking(move || {
        if is_json {
            show_json(reply, folder.as_deref())
        } else {
            show(&reply, folder.as_deref(), elapsed)
        }
    });
    let Some(shown) = unless_interrupted(&mut interrupts, shown).await else {
        return Ok(ExitCode::from(code::INTERRUPTED));
    };
    shown??;
    Ok(ExitCode::from(code))
}

/// Shows the pictures and the end of a run. Whatever becomes of the first, the end is told.
fn show(reply: &Reply, folder: Option<&Path>, elapsed: Duration) -> anyhow::Result<()> {
    let delivered = pictures::deliver(&reply.pictures, folder);
    tell(reply, elapsed);
    delivered
}

/// Prints the result, and writes the pictures where they are wanted besides.
fn show_json(reply: Reply, folder: Option<&Path>) -> anyhow::Result<()> {
    let pictures = Arc::clone(&reply.pictures);
    print("the result", &format!("{:#}\n", reply.into_json()?))?;
    match folder {
        Some(_) => pictures::deliver(&pictures, folder),
        None => Ok(()),
    }
}

/// Waits for something, or until somebody does not want to wait for it: then what runs ends with this process.
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

/// Tells the person what the script did not print itself.
fn tell(reply: &Reply, elapsed: Duration) {
    let first = match reply.end {
        CallEnd::Ran(Ending::Exited(0..)) => Label::Note,
        CallEnd::Ran(_) | CallEnd::Refused | CallEnd::NotRun | CallEnd::Answered => Label::Error,
    };
    let labels = std::iter::once(first).chain(std::iter::repeat(Label::Note));
    for (label, text) in labels.zip(&reply.remarks) {
        label.say(text);
    }
    if let CallEnd::Ran(Ending::Exited(code @ 0..)) = reply.end {
        screen::say_end(code, elapsed);
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
