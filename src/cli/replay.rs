//! `qwed-mcp replay`: runs the script of a receipt again, and reports differences. It runs the script only after it has
//! verified the receipt, the script and the standard input.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::output::{document, print};
use super::receipt::public_keys;
use super::{Format, InputFile, read_inputs};
use crate::config::{RUN_START, Settings};
use crate::executor::{Executor, Lane, OneShotExecutor, Outcome, RunLimits, describe};
use crate::gateway::{Accompanying, Arguments, AskedBy, Form, Gateway, Inputs, Stdin, Tool};
use crate::ledger::Presented;
use crate::logging::Causes;
use crate::receipt::{
    CALL, INPUT, Limits, Predicate, RECEIPT_BYTES_MAX, SCRIPT, Statement, Verified,
    compare_outputs, compare_subject, ending, outputs_beside, read_bounded, sha256, stored_output,
    verify,
};
use crate::scripts::{Decided, Permit, Request, RunRequest, ScriptError, Scripts};
use crate::verdict::Conclusion;
use crate::verification::differences::{Differences, Names, as_texts};

/// The maximum value of `--times`.
const TIMES_MAX: i64 = 100;

/// The maximum length of a differing line in the output, in characters. A longer line is cut.
const LINE_CHARS_MAX: usize = 200;

/// The maximum time limit of a replay, the same as for `run --timeout`. The time limit in a receipt may be longer.
const WALL_MAX: Duration = Duration::from_secs(600);

/// The maximum size of a script, and of a script's standard input, in bytes each.
const INPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The exit codes of `replay`.
mod code {
    /// The result of each replay matches the receipt.
    pub(super) const IDENTICAL: u8 = 0;
    /// The result differs from the receipt, and all replays have the same result.
    pub(super) const DIFFERS: u8 = 1;
    /// The receipt is invalid, the receipt or the keys could not be read, or the script does not match the receipt.
    pub(super) const BAD: u8 = 2;
    /// A replay could not be run.
    pub(super) const NOT_RUN: u8 = 3;
    /// The replays differ from each other.
    pub(super) const NOT_DETERMINISTIC: u8 = 4;
}

#[derive(Debug, Args)]
pub(super) struct Options {
    /// The receipt of a script
    #[arg(value_name = "RECEIPT")]
    receipt: PathBuf,
    /// The script; a receipt contains only its digest
    #[arg(long, value_name = "FILE")]
    script: PathBuf,
    /// The standard input of the script, if it read any
    #[arg(long, value_name = "FILE")]
    stdin: Option<PathBuf>,
    /// A file that was passed with the script; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    input: Vec<InputFile>,
    /// The number of replays
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=TIMES_MAX))]
    times: u8,
    /// Do not run the script if the environment differs from the receipt
    #[arg(long)]
    strict: bool,
    /// The public keys: a folder that `receipt keygen` made, or one public key
    #[arg(long, value_name = "DIR")]
    key: Option<PathBuf>,
    /// The folder of stored outputs; default: the outputs next to the receipt
    #[arg(long, value_name = "DIR")]
    outputs: Option<PathBuf>,
    /// The form of the output
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

impl Options {
    /// Returns the folder that contains the stored outputs. Returns `None` if no such folder is known.
    fn output_folder(&self) -> Option<PathBuf> {
        self.outputs.clone().or_else(|| outputs_beside(&self.receipt))
    }
}

/// The result of all replays of a receipt.
#[derive(Debug, Default)]
struct Replayed {
    /// The differences between the environment in the receipt and the present environment.
    environment: Vec<String>,
    /// The differences between the result in the receipt and the result of the first replay that differs.
    result: Vec<String>,
    /// The digests of the Verification Context (the JSON document with the verdict) in the receipt and in the first
    /// replay, if these digests differ.
    document: Option<String>,
    /// For each stream that differs from the receipt, the first different line, or the reason why this line cannot be
    /// shown.
    lines: Vec<String>,
    /// For each stream that differs between the first replay and a later replay, the first different line.
    between: Vec<String>,
    /// The number of completed replays.
    runs: usize,
    /// The number of distinct results among the replays.
    distinct: usize,
    /// The reason why no replay was made, or why the remaining replays were not made.
    not_run: Option<String>,
    /// The possible causes of differences between runs of the script, from the receipt, from the analysis of the
    /// script, and from the replays.
    may_differ_by: BTreeSet<Cow<'static, str>>,
}

impl Replayed {
    fn verdict(&self) -> (&'static str, u8) {
        match self {
            Self { not_run: Some(_), .. } => ("not run", code::NOT_RUN),
            Self { distinct: 2.., .. } => ("not deterministic", code::NOT_DETERMINISTIC),
            Self { result, .. } if !result.is_empty() => ("differs", code::DIFFERS),
            Self { .. } => ("identical", code::IDENTICAL),
        }
    }
}

/// The result of a run, as a receipt records it. Two runs are identical if their results are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RunResult {
    ending: String,
    exit_code: i32,
    /// Whether the run verified anything; `None` in receipts of older versions.
    outcome: Option<Conclusion>,
    /// The digest of each stream and of each picture, with its name.
    contents: Vec<(String, String)>,
}

impl RunResult {
    fn of(outcome: &Outcome) -> Self {
        let streams = [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)];
        let streams = streams.map(|(name, stream)| (name.to_owned(), sha256(stream.content())));
        let pictures = outcome.pictures.all.iter().enumerate();
        let pictures = pictures
            .map(|(index, picture)| (format!("picture-{}.png", index + 1), picture.sha256.clone()));
        Self {
            ending: ending(outcome).to_owned(),
            exit_code: outcome.ending.exit_code(),
            outcome: outcome.verdict.as_ref().map(|verdict| verdict.outcome),
            contents: streams.into_iter().chain(pictures).collect(),
        }
    }

    /// Returns the result that a receipt records. Returns `None` if the receipt is about a script that was not run.
    fn of_receipt(
        statement: &Statement<serde_json::Value>,
        predicate: &Predicate<'_>,
    ) -> Option<Self> {
        let run = predicate.run.as_ref()?;
        let is_result =
            |name: &str| ["stdout", "stderr"].contains(&name) || name.starts_with("picture-");
        let subjects = statement.subject.iter().filter(|subject| is_result(&subject.name));
        let contents = subjects.map(|it| (it.name.clone(), it.digest.sha256.clone()));
        let (ending, exit_code) = (run.ending.clone(), run.exit_code);
        let outcome = predicate.verification.as_ref().map(|verification| verification.outcome);
        Some(Self { ending, exit_code, outcome, contents: contents.collect() })
    }

    /// Lists the fields in which the result `now` differs from `self`, with both values.
    fn differences(&self, now: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        if self.ending != now.ending {
            differences.push(format!("end: {} → {}", self.ending, now.ending));
        }
        if self.exit_code != now.exit_code {
            differences.push(format!("exit code: {} → {}", self.exit_code, now.exit_code));
        }
        if let (Some(then), Some(now)) = (self.outcome, now.outcome)
            && then != now
        {
            differences.push(format!("outcome: {then} → {now}"));
        }
        let names: BTreeSet<&String> =
            self.contents.iter().chain(&now.contents).map(|(name, _)| name).collect();
        let of = |result: &Self, name: &String| {
            let found = result.contents.iter().find(|(known, _)| known == name);
            found.map_or("none".to_owned(), |(_, sha256)| format!("sha256:{sha256}"))
        };
        for name in names {
            let (then, now) = (of(self, name), of(now, name));
            if then != now {
                differences.push(format!("{name}: {then} → {now}"));
            }
        }
        differences
    }
}

pub(super) fn run(options: &Options, settings: &Settings) -> anyhow::Result<ExitCode> {
    let bad = |file: &Path, error: &dyn std::fmt::Display| {
        tracing::error!("{}: {error}", file.display());
        Ok(ExitCode::from(code::BAD))
    };
    let keys = match public_keys(options.key.as_deref(), settings) {
        Ok(keys) => keys,
        Err(error) => {
            tracing::error!("{error:#}");
            return Ok(ExitCode::from(code::BAD));
        }
    };
    let bytes = match read_bounded(&options.receipt, RECEIPT_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) => return bad(&options.receipt, &error),
    };
    let receipt = match verify(&bytes, &keys) {
        Ok(receipt) => receipt,
        Err(error) => return bad(&options.receipt, &error),
    };
    let script = read_bounded(&options.script, INPUT_BYTES_MAX);
    let script = script.and_then(super::text_of);
    let script = match script {
        Ok(script) => script,
        Err(error) => return bad(&options.script, &error),
    };
    if let Err(error) = compare_subject(&receipt.statement, SCRIPT, script.as_bytes()) {
        return bad(&options.script, &error);
    }
    if let Some(folder) = options.output_folder()
        && let Err(error) = compare_outputs(&receipt.statement, &folder)
    {
        return bad(&options.receipt, &error);
    }
    if receipt.statement.digest(CALL).is_some() {
        return bad(
            &options.receipt,
            &"the run evaluated the call of a test, which is not repeated",
        );
    }
    let stdin = match stdin(options, &receipt) {
        Ok(stdin) => stdin,
        Err(error) => return bad(options.stdin.as_deref().unwrap_or(&options.receipt), &error),
    };
    let inputs = match inputs(options, &receipt) {
        Ok(inputs) => inputs,
        Err(error) => return bad(&options.receipt, &error),
    };
    let replayed = replay(options, settings, &receipt, script, (&stdin, inputs))?;
    show(options, &replayed)
}

/// Reads the files that were passed with the script, and compares them with the receipt.
fn inputs(options: &Options, receipt: &Verified) -> anyhow::Result<Inputs> {
    let forms = receipt.predicate()?.map(|predicate| predicate.inputs).unwrap_or_default();
    if let Some(missing) =
        forms.keys().find(|name| options.input.iter().all(|it| it.name != **name))
    {
        anyhow::bail!("the script was run with a file: pass --input {missing}=FILE");
    }
    let unreadable = |(file, error): (&Path, io::Error)| anyhow!("{}: {error}", file.display());
    let mut files = Vec::new();
    for (name, content) in read_inputs(&options.input).map_err(unreadable)? {
        compare_subject(&receipt.statement, &format!("{INPUT}{name}"), &content)?;
        let form = forms.get(&name).copied().unwrap_or(Form::Bytes);
        files.push((name, form, content));
    }
    Ok(Inputs::new(files)?)
}

/// Reads the file of `--stdin` and compares it with the receipt. Returns an empty input if the option and the receipt's
/// digest are both absent. Fails if only one of them is present.
fn stdin(options: &Options, receipt: &Verified) -> Result<Stdin, String> {
    let is_there = receipt.statement.digest("stdin").is_some();
    let Some(file) = &options.stdin else {
        return if is_there {
            Err("the script read standard input: pass the file with --stdin".to_owned())
        } else {
            Ok(Stdin::default())
        };
    };
    let bytes = read_bounded(file, INPUT_BYTES_MAX).map_err(|error| error.to_string())?;
    compare_subject(&receipt.statement, "stdin", &bytes).map_err(|error| error.to_string())?;
    Ok(bytes.as_slice().into())
}

fn replay(
    options: &Options,
    settings: &Settings,
    receipt: &Verified,
    script: String,
    (stdin, inputs): (&Stdin, Inputs),
) -> anyhow::Result<Replayed> {
    let not_run =
        |reason: &str| Replayed { not_run: Some(reason.to_owned()), ..Replayed::default() };
    let Some(predicate) = receipt.predicate()? else {
        return Ok(not_run("it is not the receipt of a script"));
    };
    if predicate.tool != Tool::ExecutePythonCode.name() {
        return Ok(not_run("it is not the receipt of a script"));
    }
    let Some(then) = RunResult::of_receipt(&receipt.statement, &predicate) else {
        return Ok(not_run("the script of the receipt was not run"));
    };
    if !["exited", "signal"].contains(&then.ending.as_str()) {
        let reason = format!("the run of the receipt did not come to its end: {}", then.ending);
        return Ok(not_run(&reason));
    }
    crate::executor::orphans::adopt()?;
    let runtime = super::runtime()?;
    let untrusted = super::untrusted(super::policy(settings).as_ref());
    // Repeat the conditions of the recorded run. A replay is deterministic if the recorded run was deterministic. A
    // replay also runs variants of the script (with other numbers) if the recorded run did. A replay never uses the
    // stored result of an earlier run.
    let settings = Settings {
        deterministic: predicate.deterministic.map(|it| it.clock.unwrap_or(RUN_START)),
        answer_once: false,
        vacuity: predicate.verification.as_ref().is_some_and(|it| it.with_variants),
        ..settings.clone()
    };
    let settings = &settings;
    // Use an executor that starts a new interpreter for each replay, so that earlier runs cannot affect the result.
    let executor = Arc::new(OneShotExecutor::new(settings, untrusted));
    let again = async {
        let scripts = Scripts::new(settings, Gateway::blocking(settings), executor.clone())
            .without_installing();
        let predicate = &predicate;
        let replayed =
            Again { executor: &executor, scripts: &scripts, settings, options, predicate };
        let replayed = replayed.run(&then, (script, inputs), stdin).await;
        scripts.shut_down(async {}).await;
        replayed
    };
    Ok(runtime.block_on(again))
}

/// The replays of one receipt, with the receipt's predicate and everything that a run needs.
struct Again<'a> {
    executor: &'a OneShotExecutor,
    scripts: &'a Scripts,
    settings: &'a Settings,
    options: &'a Options,
    predicate: &'a Predicate<'static>,
}

impl Again<'_> {
    async fn run(
        &self,
        then: &RunResult,
        (script, inputs): (String, Inputs),
        stdin: &Stdin,
    ) -> Replayed {
        let may_differ_by = self.predicate.may_differ_by.iter().flatten().cloned().collect();
        let mut replayed = Replayed { may_differ_by, ..Replayed::default() };
        let permit = self.decide(script, inputs).await;
        match self.environment(permit.as_ref().ok()).await {
            Ok(differences) => replayed.environment = differences,
            Err(reason) => return Replayed { not_run: Some(reason), ..replayed },
        }
        if self.options.strict && !replayed.environment.is_empty() {
            let reason = "the environment differs from the receipt (--strict)".to_owned();
            return Replayed { not_run: Some(reason), ..replayed };
        }
        let permit = match permit {
            Ok(permit) => permit,
            Err(reason) => return Replayed { not_run: Some(reason), ..replayed },
        };
        let surroundings = self.scripts.surroundings(&permit).await;
        let names = permit.script().names().map(Names::of);
        let differences = Differences::of(names, permit.script().source().as_str());
        let mut results = BTreeSet::new();
        let mut first = None;
        for _ in 0..self.options.times {
            match self.run_once(&permit, stdin).await {
                None => break,
                Some(Ok(outcome)) => {
                    let result = RunResult::of(&outcome);
                    if replayed.runs == 0 {
                        replayed.document = self.document(&outcome);
                    }
                    if replayed.result.is_empty() {
                        replayed.result = then.differences(&result);
                        replayed.lines = self.lines(then, &outcome);
                    }
                    let streams = [outcome.stdout.content(), outcome.stderr.content()];
                    let observed = outcome.end_report.observed.as_ref();
                    let measures = surroundings.as_ref().and_then(|of| of.measures(outcome.start));
                    let words = differences.of_run(measures, observed, streams);
                    replayed.may_differ_by.extend(as_texts(&words));
                    if let Some(first) = &first
                        && replayed.between.is_empty()
                    {
                        replayed.between = differences_between(first, &outcome);
                    }
                    first.get_or_insert(outcome);
                    results.insert(result);
                }
                Some(Err(error)) => {
                    replayed.not_run = Some(Causes(&error).to_string());
                    break;
                }
            }
            replayed.runs += 1;
            replayed.distinct = results.len();
        }
        replayed
    }

    /// Runs the script once. Never returns `None`, because only a cancelled run has this result.
    async fn run_once(
        &self,
        permit: &Permit,
        stdin: &Stdin,
    ) -> Option<Result<Outcome, ScriptError>> {
        let (waits, cancel) = (AtomicBool::default(), CancellationToken::new());
        let request = RunRequest::new(self.limits(), cancel.clone());
        let request = RunRequest { stdin: stdin.clone(), ..request };
        let turn = self.scripts.turn(permit, &request, Lane::Calls, &waits, &cancel).await?;
        Some(self.scripts.run(permit, &turn, request).await)
    }

    /// Returns the first different line of each stream that differs from the receipt.
    fn lines(&self, then: &RunResult, now: &Outcome) -> Vec<String> {
        let folder = self.options.output_folder();
        let streams = [("stdout", now.stdout.content()), ("stderr", now.stderr.content())];
        let line = |(name, now): (&str, &[u8])| {
            let (_, digest) = then.contents.iter().find(|(known, _)| known == name)?;
            if *digest == sha256(now) {
                return None;
            }
            let stored = folder.as_ref().map(|folder| stored_output(folder, digest))?;
            Some(match stored {
                Ok(stored) => first_difference(name, &stored, now),
                Err(error) => format!("{name}: {error}"),
            })
        };
        streams.into_iter().filter_map(line).collect()
    }

    /// Lists the differences between the environment in the receipt and the present environment. Fails if the present
    /// environment cannot be described.
    async fn environment(&self, permit: Option<&Permit>) -> Result<Vec<String>, String> {
        let surroundings = match permit {
            Some(permit) => self.scripts.surroundings(permit).await,
            None => self.executor.surroundings().await,
        };
        // Without an interpreter or a sandbox, no script can run. Return no differences in this case, because `decide`
        // or the run reports the reason.
        let Some(surroundings) = surroundings else { return Ok(Vec::new()) };
        let now = describe(&surroundings).map_err(|error| error.to_string())?;
        let then = self.predicate.environment.as_deref();
        let mut differences = then.map(|then| then.differences(&now)).unwrap_or_default();
        if let Some(sandbox) = &self.predicate.sandbox {
            let (then, now) = (sandbox.tier.as_deref(), surroundings.tier.as_str());
            if then != Some(now) {
                differences.push(format!("tier: {} → {now}", then.unwrap_or("none")));
            } else if sandbox.plan_sha256 != surroundings.plan_sha256 {
                differences.push("the plan of the sandbox differs".to_owned());
            }
            if sandbox.warm && self.predicate.deterministic.is_some() {
                differences.push("addresses: of a warm interpreter → of a new one".to_owned());
            }
        }
        let word = |is_fixed: bool| if is_fixed { "the same each time" } else { "random" };
        let then = self.predicate.deterministic.map(|it| it.fixed_addresses);
        let now = surroundings.determinism.map(|it| it.fixes_addresses);
        if let Some((then, now)) = then.zip(now).filter(|(then, now)| then != now) {
            differences.push(format!("addresses: {} → {}", word(then), word(now)));
        }
        Ok(differences)
    }

    /// Returns the digests of the Verification Context in the receipt and in this replay, if these digests differ.
    fn document(&self, now: &Outcome) -> Option<String> {
        let then = &self.predicate.verification.as_ref()?.document_digest;
        let now = &now.verdict.as_ref()?.document_digest;
        (then != now).then(|| format!("{then} → {now}"))
    }

    /// Decides whether the script may run, by the current rules of the analysis and the current settings. The error
    /// contains the reason for a refusal.
    async fn decide(&self, code: String, inputs: Inputs) -> Result<Permit, String> {
        let request = Request {
            arguments: Arguments::from_iter([("code".to_owned(), json!(code))]),
            with: Accompanying { inputs, ..Accompanying::default() },
            presented: Presented::default(),
            asked_by: AskedBy::default(),
            cancel: CancellationToken::new(),
        };
        let record = match self.scripts.decide(request).await {
            Decided::Allowed { permit, .. } => return Ok(permit),
            Decided::Refused { record, .. }
            | Decided::Withdrawn(record)
            | Decided::Denied { record, .. } => record,
        };
        let code = record.error_code.map(|code| format!("{code}: ")).unwrap_or_default();
        Err(format!("today's rules refuse it: {code}{}", record.message))
    }

    fn limits(&self) -> RunLimits {
        let limits = self.predicate.limits.as_ref();
        let timeout = limits.map_or(self.settings.sync_timeout, wall);
        let memory_mb = limits.map(|limits| limits.memory_mib).filter(|mib| *mib > 0);
        RunLimits { memory_mb, ..RunLimits::of_script(timeout) }
    }
}

/// Returns the time limit of a replay: the time limit in the receipt, but at most [`WALL_MAX`].
fn wall(limits: &Limits) -> Duration {
    Duration::from_millis(limits.wall_ms).min(WALL_MAX)
}

/// Returns the first different line of each stream that differs between two replays.
fn differences_between(first: &Outcome, later: &Outcome) -> Vec<String> {
    let streams =
        [("stdout", &first.stdout, &later.stdout), ("stderr", &first.stderr, &later.stderr)];
    let streams = streams.map(|(name, first, later)| (name, first.content(), later.content()));
    let different = streams.into_iter().filter(|(_, first, later)| first != later);
    different.map(|(name, first, later)| first_difference(name, first, later)).collect()
}

/// Compares two contents of a stream. Describes the first line that differs, and shows this line from both contents.
fn first_difference(name: &str, then: &[u8], now: &[u8]) -> String {
    let (then, now) = (String::from_utf8_lossy(then), String::from_utf8_lossy(now));
    if then == now {
        return format!("{name}: bytes that are not UTF-8 differ");
    }
    let (mut then, mut now) = (then.lines(), now.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (then.next(), now.next()) {
            (Some(then), Some(now)) if then == now => {}
            // All lines are equal. `lines` removes the line ends, so only the line ends can differ.
            (None, None) => return format!("{name}: the ends of lines differ"),
            (then, now) => {
                let (then, now) = (line(then), line(now));
                return format!("{name}, line {number}: {then} → {now}");
            }
        }
    }
}

/// Formats a line of output in quotes. Escapes control characters, and cuts the line after [`LINE_CHARS_MAX`]
/// characters.
fn line(text: Option<&str>) -> String {
    let Some(text) = text else { return "the end".to_owned() };
    let mut shown: String = text.chars().take(LINE_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

fn show(options: &Options, replayed: &Replayed) -> anyhow::Result<ExitCode> {
    let (verdict, code) = replayed.verdict();
    let text = match options.format {
        Format::Text => as_text(verdict, replayed),
        Format::Json => document(json!({
            "verdict": verdict,
            "reason": replayed.not_run,
            "replays": replayed.runs,
            "distinct_results": replayed.distinct,
            "environment": replayed.environment,
            "result": replayed.result,
            "lines": replayed.lines,
            "between_replays": replayed.between,
            "document": replayed.document,
            "may_differ_by": replayed.may_differ_by,
        })),
    };
    print("the result", &text)?;
    Ok(ExitCode::from(code))
}

fn as_text(verdict: &str, replayed: &Replayed) -> String {
    let mut text = String::new();
    // Print the environment first, because it may explain the other differences. Writing to a string cannot fail.
    if replayed.environment.is_empty() {
        let _ = writeln!(text, "environment: as in the receipt");
    } else {
        let _ = writeln!(text, "environment: differs");
    }
    for difference in &replayed.environment {
        let _ = writeln!(text, "  {difference}");
    }
    let times = if replayed.runs == 1 { "once" } else { "times" };
    let count = if replayed.runs == 1 { String::new() } else { format!("{} ", replayed.runs) };
    let _ = match &replayed.not_run {
        Some(reason) => writeln!(text, "{verdict}: {reason}"),
        None => writeln!(text, "{verdict}: replayed {count}{times}"),
    };
    for difference in replayed.result.iter().chain(&replayed.lines) {
        let _ = writeln!(text, "  {difference}");
    }
    if let Some(document) = &replayed.document {
        let _ = writeln!(text, "  verification document: {document}");
    }
    for difference in &replayed.between {
        let _ = writeln!(text, "  between replays: {difference}");
    }
    let is_same = replayed.result.is_empty() && replayed.between.is_empty();
    if !is_same {
        let words: Vec<&str> = replayed.may_differ_by.iter().map(AsRef::as_ref).collect();
        let words =
            if words.is_empty() { "no cause is known".to_owned() } else { words.join(", ") };
        let _ = writeln!(text, "  possible causes: {words}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(ending: &str, exit_code: i32, stdout: &str) -> RunResult {
        let contents = vec![("stdout".to_owned(), stdout.to_owned())];
        let outcome =
            Some(if exit_code == 0 { Conclusion::Verified } else { Conclusion::Inconclusive });
        RunResult { ending: ending.to_owned(), exit_code, outcome, contents }
    }

    #[test]
    fn what_differs_is_named() {
        let then = result("exited", 0, "a");
        assert_eq!(then.differences(&then), Vec::<String>::new());
        let mut now = result("signal", -9, "b");
        now.contents.push(("picture-1.png".to_owned(), "c".to_owned()));
        let expected = [
            "end: exited → signal",
            "exit code: 0 → -9",
            "outcome: verified → inconclusive",
            "picture-1.png: none → sha256:c",
            "stdout: sha256:a → sha256:b",
        ];
        assert_eq!(then.differences(&now), expected);
        // Receipts of older versions have no outcome.
        let then = RunResult { outcome: None, ..then };
        assert!(then.differences(&now).iter().all(|it| !it.starts_with("outcome")));
    }

    #[test]
    fn the_first_line_that_differs_is_shown() {
        let long = "x".repeat(LINE_CHARS_MAX + 1);
        for (then, now, expected) in [
            ("a\nb\nc", "a\nB\nd", r#"stdout, line 2: "b" → "B""#.to_owned()),
            ("a", "a\nb", r#"stdout, line 2: the end → "b""#.to_owned()),
            ("", "\u{1b}[2J", r#"stdout, line 1: the end → "\u{1b}[2J""#.to_owned()),
            ("a\nb", "a\r\nb", "stdout: the ends of lines differ".to_owned()),
            ("a", &long, format!("stdout, line 1: \"a\" → \"{}…\"", &long[1..])),
        ] {
            assert_eq!(first_difference("stdout", then.as_bytes(), now.as_bytes()), expected);
        }
        let expected = "stdout: bytes that are not UTF-8 differ";
        assert_eq!(first_difference("stdout", b"\xff", "\u{fffd}".as_bytes()), expected);
    }

    #[test]
    fn a_receipt_does_not_give_a_replay_any_time() {
        let of = |wall_ms| wall(&Limits { wall_ms, ..Limits::default() });
        assert_eq!([of(1500), of(u64::MAX)], [Duration::from_millis(1500), WALL_MAX]);
    }

    #[test]
    fn each_end_has_a_verdict_of_its_own() {
        let replayed = |distinct, result: &[&str], not_run: Option<&str>| Replayed {
            distinct,
            result: result.iter().map(|it| (*it).to_owned()).collect(),
            not_run: not_run.map(str::to_owned),
            ..Replayed::default()
        };
        for (replayed, verdict, code) in [
            (replayed(1, &[], None), "identical", 0),
            (replayed(1, &["x"], None), "differs", 1),
            (replayed(2, &["x"], None), "not deterministic", 4),
            (replayed(2, &[], None), "not deterministic", 4),
            (replayed(0, &[], Some("why")), "not run", 3),
        ] {
            assert_eq!(replayed.verdict(), (verdict, code));
        }
    }
}
