//! `qwed-mcp check`: runs the safety analysis on files, for people and for continuous integration. It never runs a
//! script.

mod sarif;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::Style;
use clap::ValueEnum;
use serde_json::{Value, json};

use super::github::{Level, annotation};
use super::output::{document, print, print_styled};
use crate::gateway::Inputs;
use crate::safety::{self, Analysis, Check, Finding, Severity, Vacuity};
use crate::terminal::{BOLD, DIM, Label, visible};

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum CheckFormat {
    /// A line for each finding, for people
    Text,
    /// One JSON object
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Workflow commands of GitHub Actions, which annotate lines
    Github,
}

struct Checked {
    /// The file name as given on the command line, or `<stdin>`.
    name: String,
    analysis: Analysis,
}

/// A file that could not be read or analysed.
struct Unread {
    name: String,
    error: String,
}

/// Analyses the files and prints the findings, or a single line if there are no findings. The exit code is 0 without
/// findings, 1 with findings, and 2 if a file could not be read or analysed. Notes (findings of [`Severity::Note`]) do
/// not change the exit code.
///
/// `inputs` are the names of the inputs that the scripts may read. With `requires_check`, a script without a check that
/// can fail counts as a finding too.
pub(super) fn check(
    files: &[PathBuf],
    format: CheckFormat,
    requires_check: bool,
    inputs: &[String],
) -> anyhow::Result<ExitCode> {
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    if let Err(error) = Inputs::require_names(&inputs) {
        Label::Error.say(error);
        return Ok(ExitCode::from(super::USAGE));
    }
    let (mut checked, mut unread) = (Vec::new(), Vec::new());
    for file in files {
        let name =
            if file == Path::new("-") { "<stdin>".to_owned() } else { file.display().to_string() };
        match analyze(file, &inputs) {
            Ok(analysis) => checked.push(Checked { name, analysis }),
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!("{name}: {error}");
                unread.push(Unread { name, error });
            }
        }
    }
    match format {
        CheckFormat::Text => print_styled("the findings", &as_text(&checked)),
        CheckFormat::Json => print("the findings", &document(as_json(&checked, &unread))),
        CheckFormat::Sarif => {
            print("the findings", &format!("{:#}\n", sarif::log(&checked, &unread)))
        }
        CheckFormat::Github => print("the findings", &as_annotations(&checked, &unread)),
    }?;
    let lacks_check = |file: &Checked| {
        requires_check && file.analysis.checks.iter().all(|check| check.vacuous.is_some())
    };
    for file in checked.iter().filter(|file| lacks_check(file)) {
        Label::Error.say(format_args!("{}: no check of the script can fail", file.name));
    }
    let has_findings =
        checked.iter().any(|file| !file.analysis.findings.is_empty() || lacks_check(file));
    Ok(ExitCode::from(if unread.is_empty() { u8::from(has_findings) } else { super::USAGE }))
}

fn analyze(file: &Path, inputs: &[&str]) -> anyhow::Result<Analysis> {
    let source = super::read_script(file)?;
    Ok(safety::analyze_with_inputs(&source, inputs)?)
}

fn as_text(checked: &[Checked]) -> String {
    let painted = |style: Style, text: &str| format!("{style}{}{style:#}", visible(text));
    let mut text = String::new();
    for Checked { name, analysis } in checked {
        for (finding, severity) in findings_of(analysis) {
            let place = match finding.position {
                Some(position) => format!("{name}:{}:{}", position.line, position.column),
                None => name.clone(),
            };
            let label = match severity {
                Severity::Block => painted(Label::Error.style(), "blocked"),
                Severity::Note => painted(Label::Note.style(), "note"),
            };
            let place = painted(BOLD, &place);
            let rule = finding.rule_id().map(|id| painted(DIM, &format!(" [{id}]")));
            // Writing to a string cannot fail.
            let finding = visible(&finding.to_string());
            let _ = writeln!(text, "{place}: {label}: {finding}{}", rule.unwrap_or_default());
        }
    }
    for Checked { name, analysis } in checked {
        for (check, why) in vacuous(analysis) {
            let place = painted(BOLD, &format!("{name}:{}", check.line));
            let label = painted(Label::Note.style(), "note");
            let id = painted(DIM, &format!(" [check/{}]", why.id()));
            let text_of = visible(&check.text);
            let _ =
                writeln!(text, "{place}: {label}: `{text_of}` proves nothing: {}{id}", why.why());
        }
    }
    let is_clean = checked.iter().all(|file| file.analysis.findings.is_empty());
    if is_clean && !checked.is_empty() {
        let files = match checked.len() {
            1 => "1 script".to_owned(),
            files => format!("{files} scripts"),
        };
        let _ = writeln!(text, "{files} checked: nothing is blocked");
    }
    text
}

fn as_annotations(checked: &[Checked], unread: &[Unread]) -> String {
    let mut text = String::new();
    for Unread { name, error } in unread {
        text += &annotation(Level::Error, name, None, "not analysed", error);
    }
    for Checked { name, analysis } in checked {
        for (finding, severity) in findings_of(analysis) {
            let line = finding.position.map(|position| position.line);
            let (level, title) = match severity {
                Severity::Block => (Level::Error, "blocked"),
                Severity::Note => (Level::Notice, "note"),
            };
            text += &annotation(level, name, line, title, &finding.to_string());
        }
        for (check, why) in vacuous(analysis) {
            let message = format!("`{}` proves nothing: {}", check.text, why.why());
            text += &annotation(Level::Warning, name, Some(check.line), "vacuous", &message);
        }
    }
    text
}

fn as_json(checked: &[Checked], unread: &[Unread]) -> Value {
    let unread = unread.iter().map(|Unread { name, error }| {
        json!({ "file": name, "blocked": null, "error": error, "findings": [], "notes": [], "checks": [] })
    });
    let files: Vec<Value> = checked
        .iter()
        .map(|Checked { name, analysis }| {
            let list = |findings: &[Finding]| findings.iter().map(finding_json).collect::<Value>();
            json!({
                "file": name,
                "blocked": !analysis.findings.is_empty(),
                "findings": list(&analysis.findings),
                "notes": list(&analysis.notes),
                "checks": analysis.checks.iter().map(check_json).collect::<Value>(),
            })
        })
        .chain(unread)
        .collect();
    json!({ "files": files })
}

fn check_json(check: &Check) -> Value {
    json!({
        "line": check.line,
        "text": check.text,
        "vacuous": check.vacuous.map(Vacuity::id),
        "why": check.vacuous.map(Vacuity::why),
    })
}

/// Returns the checks that cannot fail, with the reasons.
fn vacuous(analysis: &Analysis) -> impl Iterator<Item = (&Check, Vacuity)> {
    analysis.checks.iter().filter_map(|check| Some((check, check.vacuous?)))
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "rule": finding.rule_id(),
        "line": finding.position.map(|position| position.line),
        "column": finding.position.map(|position| position.column),
        "message": finding.to_string(),
        "why": finding.rule.map(|rule| rule.why),
        "remedy": finding.rule.map(|rule| rule.remedy),
    })
}

/// Returns the findings and the notes together, in the order of their positions in the source.
fn findings_of(analysis: &Analysis) -> Vec<(&Finding, Severity)> {
    let findings = analysis.findings.iter().map(|finding| (finding, Severity::Block));
    let notes = analysis.notes.iter().map(|note| (note, Severity::Note));
    let mut all: Vec<_> = findings.chain(notes).collect();
    // Findings and notes without a position come last.
    all.sort_by_key(|(finding, _)| (finding.position.is_none(), finding.position));
    all
}
