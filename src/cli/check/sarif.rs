//! Formats findings of the safety analysis as SARIF.

use serde_json::{Value, json};

use super::super::sarif;
use super::{Check, Checked, Finding, Severity, Unread, Vacuity, findings_of, vacuous};
use crate::safety::rules;

/// The rule id of findings that do not come from a rule, for example about a source that does not parse or is too
/// large.
const NO_RULE: &str = "source/not-analysed";

/// Builds a SARIF log with all findings, and a result for each file that could not be read or analysed.
pub(super) fn log(checked: &[Checked], unread: &[Unread]) -> Value {
    let unread = unread.iter().map(|Unread { name, error }| {
        json!({
            "ruleId": NO_RULE,
            "level": level(Severity::Block),
            "message": { "text": error },
            "locations": [sarif::location(name, None)],
        })
    });
    let results: Vec<Value> = checked
        .iter()
        .flat_map(|file| {
            let findings = findings_of(&file.analysis).into_iter();
            let findings =
                findings.map(|(finding, severity)| result(&file.name, finding, severity));
            let checks =
                vacuous(&file.analysis).map(|(check, why)| result_of_check(&file.name, check, why));
            findings.chain(checks).collect::<Vec<_>>()
        })
        .chain(unread)
        .collect();
    sarif::log(&rules(), &results)
}

fn rules() -> Vec<Value> {
    let mut rules: Vec<Value> = rules::all()
        .map(|rule| {
            json!({
                "id": rule.id,
                "shortDescription": { "text": rule.why },
                "help": { "text": format!("Instead: {}", rule.remedy) },
                "defaultConfiguration": { "level": level(rule.severity) },
            })
        })
        .collect();
    rules.extend(Vacuity::all().map(|why| {
        json!({
            "id": format!("check/{}", why.id()),
            "shortDescription": { "text": format!("The check proves nothing: {}", why.why()) },
            "defaultConfiguration": { "level": level(Severity::Note) },
        })
    }));
    rules.push(json!({
        "id": NO_RULE,
        "shortDescription": { "text": "the source cannot be read or analysed, or has more findings" },
        "help": { "text": "Instead: a script that Python accepts, of at most 1 MiB" },
        "defaultConfiguration": { "level": level(Severity::Block) },
    }));
    rules
}

fn result(file: &str, finding: &Finding, severity: Severity) -> Value {
    let region = finding
        .position
        .map(|position| json!({ "startLine": position.line, "startColumn": position.column }));
    json!({
        "ruleId": finding.rule_id().unwrap_or(NO_RULE),
        "level": level(severity),
        "message": { "text": finding.to_string() },
        "locations": [sarif::location(file, region)],
    })
}

fn result_of_check(file: &str, check: &Check, why: Vacuity) -> Value {
    json!({
        "ruleId": format!("check/{}", why.id()),
        "level": level(Severity::Note),
        "message": { "text": format!("`{}` proves nothing: {}", check.text, why.why()) },
        "locations": [sarif::location(file, Some(json!({ "startLine": check.line })))],
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Block => "error",
        Severity::Note => "note",
    }
}
