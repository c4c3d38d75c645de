//! Formats findings in the Static Analysis Results Interchange Format (SARIF 2.1.0, OASIS standard of 2020-03-27).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::{Check, Checked, Finding, Severity, Vacuity, findings_of, vacuous};
use crate::safety::rules;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The rule id of findings that do not come from a rule, for example about a source that does not parse or is too
/// large.
const NO_RULE: &str = "source/not-analysed";

/// The characters that are percent-encoded in a path within a URI.
const RESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Builds a SARIF log. Its only `run` contains all findings.
pub(super) fn log(checked: &[Checked]) -> Value {
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
        .collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": driver() },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn driver() -> Value {
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
        "shortDescription": { "text": "the source cannot be analysed, or there is more in it" },
        "help": { "text": "Instead: a script that Python accepts, of at most 1 MiB" },
        "defaultConfiguration": { "level": level(Severity::Block) },
    }));
    json!({
        "name": env!("CARGO_PKG_NAME"),
        "semanticVersion": env!("CARGO_PKG_VERSION"),
        "rules": rules,
    })
}

fn result(file: &str, finding: &Finding, severity: Severity) -> Value {
    let region = finding
        .position
        .map(|position| json!({ "startLine": position.line, "startColumn": position.column }));
    // Without a position, the finding applies to the whole file.
    let location = match region {
        Some(region) => json!({ "artifactLocation": { "uri": uri(file) }, "region": region }),
        None => json!({ "artifactLocation": { "uri": uri(file) } }),
    };
    json!({
        "ruleId": finding.rule_id().unwrap_or(NO_RULE),
        "level": level(severity),
        "message": { "text": finding.to_string() },
        "locations": [{ "physicalLocation": location }],
    })
}

fn result_of_check(file: &str, check: &Check, why: Vacuity) -> Value {
    json!({
        "ruleId": format!("check/{}", why.id()),
        "level": level(Severity::Note),
        "message": { "text": format!("`{}` proves nothing: {}", check.text, why.why()) },
        "locations": [{ "physicalLocation": {
            "artifactLocation": { "uri": uri(file) },
            "region": { "startLine": check.line },
        } }],
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Block => "error",
        Severity::Note => "note",
    }
}

/// Returns a file name as a relative or absolute URI reference (RFC 3986).
fn uri(file: &str) -> String {
    let scheme = if file.starts_with('/') { "file://" } else { "" };
    format!("{scheme}{}", utf8_percent_encode(file, RESERVED))
}
