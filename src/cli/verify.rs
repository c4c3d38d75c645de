//! `qwed-mcp verify`: runs the claims (marked code blocks) in documents, and reports their verdicts. Each claim is a
//! separate script.

mod claims;
mod report;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use clap::{Args, ValueEnum};
use futures_util::{StreamExt as _, stream};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::github;
use super::output::{document, print, print_styled};
use crate::batch::{Analysis, Bounds, OneAnswer, Single, Status, Verifier, Wanted, answer_one};
use crate::config::{AdminGate, Settings, VerdictNote};
use crate::gateway::{Gateway, Inputs};
use crate::ledger::Presented;
use crate::plain_text::without_error_numbers;
use crate::scripts::Scripts;
use crate::terminal::Label;
use crate::verdict::{CheckState, Conclusion, Verdict, shortened_to};
use claims::Claim;
use report::{Verified, one_line};

/// The maximum length of the reason for an outcome, in characters. The length is limited, because a reason can contain
/// any output of a claim.
const REASON_CHARS_MAX: usize = 500;
/// The note that is printed if the documents contain no claims.
const NO_CLAIMS: &str = "no claims: a claim is a code block that is marked 'python verify'";

#[derive(Debug, Args)]
pub(super) struct Options {
    /// The documents: Markdown, reStructuredText, or Jupyter notebooks
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The form of the output
    #[arg(long, value_enum, default_value = "text")]
    format: ReportFormat,
    /// The time limit of each claim, up to 600 seconds
    #[arg(long, value_name = "SECONDS", value_parser = super::run::seconds)]
    timeout: Option<Duration>,
    /// Write a receipt for each claim into this folder
    #[arg(long, value_name = "DIR")]
    receipts: Option<PathBuf>,
    /// Run up to four variants of a verified claim with other numbers, to find checks that hold with any numbers
    #[arg(long)]
    vacuity: bool,
}

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// A line for each claim, for people
    Text,
    /// Workflow commands of GitHub Actions, which annotate lines
    Github,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// One JSON object
    Json,
    /// XML for the test reports of CI systems
    Junit,
}

impl ReportFormat {
    /// Returns whether the verdict on a claim is printed as soon as the claim and all earlier claims have ended.
    fn is_printed_at_once(self) -> bool {
        match self {
            Self::Text | Self::Github => true,
            Self::Sarif | Self::Json | Self::Junit => false,
        }
    }
}

/// Verifies the claims of all documents. The exit code is 0 if all claims are verified, 1 if a claim is not verified,
/// and 2 if a document could not be read, or if no claim can be run.
pub(super) fn run(options: &Options) -> ExitCode {
    run_claims(options).unwrap_or_else(|error| {
        tracing::error!("{error:#}");
        ExitCode::from(super::USAGE)
    })
}

fn run_claims(options: &Options) -> anyhow::Result<ExitCode> {
    let mut settings = super::settings();
    super::doctor::warn_of_unknown_variables();
    settings.sync_timeout = options.timeout.unwrap_or(settings.sync_timeout);
    settings.vacuity |= options.vacuity;
    settings.receipts = options.receipts.clone().or(settings.receipts);
    settings.sync_concurrency = available_parallelism().map_or(1, usize::from);
    anyhow::ensure!(
        settings.admin_gate == AdminGate::Open,
        "claims are scripts, and scripts are disabled; set QWED_MCP_TRUSTED_CODE_EXECUTION=true"
    );
    let mut claims = Vec::new();
    let mut unread = Vec::new();
    for file in &options.files {
        match claims_of(file) {
            Ok(found) => claims.extend(found.into_iter().map(|claim| (file.as_path(), claim))),
            Err(error) => {
                let error = without_error_numbers(&format!("{error:#}"));
                Label::Error
                    .say(format_args!("{}: {error}", one_line(&file.display().to_string())));
                unread.push(Verified::unread(file, &error));
            }
        }
    }
    if claims.is_empty() && unread.is_empty() {
        if options.format == ReportFormat::Github {
            print("a warning", &github::warning(NO_CLAIMS))?;
        } else {
            Label::Note.say(NO_CLAIMS);
        }
    }
    super::in_runtime(|runtime| {
        let verified = runtime.block_on(verify(&claims, &settings, options.format))?;
        let Some(mut verified) = verified else { return Ok(ExitCode::from(super::INTERRUPTED)) };
        let has_failed = !unread.is_empty();
        if options.format == ReportFormat::Github {
            for document in &unread {
                print("an error", &report::github(document))?;
            }
        }
        verified.append(&mut unread);
        match options.format {
            ReportFormat::Text | ReportFormat::Github => {}
            ReportFormat::Sarif => {
                print("the verdicts", &format!("{:#}\n", report::sarif(&verified)))?;
            }
            ReportFormat::Json => print("the verdicts", &document(report::json(&verified)))?,
            ReportFormat::Junit => print("the verdicts", &report::junit(&verified))?,
        }
        let all_hold = verified.iter().all(Verified::holds);
        Ok(ExitCode::from(if has_failed { super::USAGE } else { u8::from(!all_hold) }))
    })
}

fn claims_of(file: &Path) -> anyhow::Result<Vec<Claim>> {
    let mut bytes = Vec::new();
    super::read_bounded(file, super::SCRIPT_BYTES_MAX, |source| source.read_to_end(&mut bytes))?;
    Ok(claims::of_document(file, &super::text_of(bytes)?)?)
}

/// Runs all claims. Returns `None` after a signal.
async fn verify(
    claims: &[(&Path, Claim)],
    settings: &Settings,
    format: ReportFormat,
) -> anyhow::Result<Option<Vec<Verified>>> {
    if claims.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let untrusted = super::untrusted(super::policy(settings).as_ref());
    let executor = super::executor(settings, untrusted);
    let receipts = super::receipt::writer_of_scripts(settings)?;
    let scripts = Scripts::new(settings, Gateway::blocking(settings), executor)
        .with_receipts(receipts.as_ref());
    let verifier = Verifier::new(Arc::new(scripts), Analysis::Blocks, false);
    let stop = CancellationToken::new();
    let progress = progress(claims.len(), format.is_printed_at_once());
    let bounds = Bounds { timeout: settings.sync_timeout, memory_mb: settings.memory_mb };
    let work = async {
        let mut answers = stream::iter(claims)
            .map(|(file, claim)| async {
                let wanted = Wanted {
                    code: claim.code.clone(),
                    stdin: String::new(),
                    inputs: Inputs::default(),
                    timeout: None,
                    memory_mb: None,
                };
                let nobody = Presented::default();
                let single = Single::Wanted(wanted);
                let answer = answer_one(&verifier, single, bounds, &nobody, stop.clone()).await;
                verified(file, claim, &answer)
            })
            .buffered(settings.sync_concurrency);
        let mut all = Vec::new();
        while let Some(claim) = answers.next().await {
            progress.inc(1);
            match format {
                ReportFormat::Text => print_styled("a verdict", &report::line(&claim))?,
                ReportFormat::Github => print("a verdict", &report::github(&claim))?,
                ReportFormat::Sarif | ReportFormat::Json | ReportFormat::Junit => {}
            }
            all.push(claim);
        }
        anyhow::Ok(all)
    };
    let all = tokio::select! {
        all = work => Some(all),
        _ = interrupts.recv() => None,
        _ = terminations.recv() => None,
    };
    stop.cancel();
    progress.finish_and_clear();
    verifier.shut_down().await;
    all.transpose()
}

/// Returns the progress bar. The bar is hidden if standard error is not a terminal. It is also hidden if a terminal
/// shows each verdict at once.
fn progress(claims: usize, is_printed_at_once: bool) -> ProgressBar {
    let is_shown = is_printed_at_once && io::stdout().is_terminal();
    if is_shown || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(u64::try_from(claims).unwrap_or(u64::MAX));
    // The template is a constant and is valid, so the default style is never used.
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} claims, {elapsed}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn verified(file: &Path, claim: &Claim, answer: &OneAnswer) -> Verified {
    let mut verdict: Option<Verdict> = answer.verdict().cloned();
    for check in verdict.iter_mut().flat_map(|verdict| &mut verdict.checks) {
        check.line = claim.line_of(check.line);
    }
    let outcome = verdict.as_ref().map_or(Conclusion::Inconclusive, |verdict| verdict.outcome);
    let place =
        answer.findings().iter().find_map(|finding| finding.line).map(|line| claim.line_of(line));
    let is_refuted = outcome == Conclusion::Refuted;
    let shown = if is_refuted { CheckState::Failed } else { CheckState::Held };
    let checks = verdict.as_ref().map(|verdict| &*verdict.checks).unwrap_or_default();
    let of_check = checks.iter().find(|check| check.state == shown).map(|check| check.line);
    Verified {
        file: file.display().to_string(),
        line: claim.line,
        line_of_reason: place.or(of_check).unwrap_or(claim.line),
        outcome,
        reason: one_line(&shortened_to(REASON_CHARS_MAX, &reason(claim, verdict.as_ref(), answer))),
        checks: checks.to_vec(),
        duration: answer.duration(),
    }
}

/// Returns the details of the outcome. Line numbers refer to the document, not to the script.
fn reason(claim: &Claim, verdict: Option<&Verdict>, answer: &OneAnswer) -> String {
    if claim.code.trim().is_empty() {
        return "the block is empty".to_owned();
    }
    if let [finding, ..] = answer.findings() {
        let line = finding.line.map(|line| format!("line {}: ", claim.line_of(line)));
        return format!("{}{}", line.unwrap_or_default(), finding.message);
    }
    if let Some(error) = answer.error() {
        return error.to_owned();
    }
    let Some(verdict) = verdict else { return answer.status().as_str().to_owned() };
    match (verdict.outcome, answer.status(), answer.end()) {
        (Conclusion::Vacuous, ..) => verdict.note(VerdictNote::Vacuous).unwrap_or_default(),
        (Conclusion::NothingChecked | Conclusion::Inconclusive, Status::Timeout, _) => {
            "the claim reached its time limit".to_owned()
        }
        (
            Conclusion::NothingChecked | Conclusion::Inconclusive,
            Status::Failed,
            Some((code, _, stderr)),
        ) => stderr
            .trim_end()
            .lines()
            .last()
            .map_or_else(|| format!("the script ended with exit code {code}"), str::to_owned),
        _ => verdict.details(),
    }
}
