//! Formats the verdicts on claims. It never decides about a claim.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anstyle::AnsiColor;
use serde_json::{Value, json};

use super::super::github::{Level, annotation};
use super::super::sarif;
use crate::plain_text::escape_into;
use crate::terminal::{BOLD, Label};
use crate::verdict::{CheckReport, Conclusion};

/// A claim with its verdict, or a document that could not be read.
#[derive(Debug)]
pub(super) struct Verified {
    /// The document, as the command line names it.
    pub(super) file: String,
    /// The line of the document at which the claim begins.
    pub(super) line: usize,
    /// The line of the document that shows the reason, such as the line of a failed check.
    pub(super) line_of_reason: usize,
    pub(super) outcome: Conclusion,
    /// The details of the outcome, in one line.
    pub(super) reason: String,
    /// The checks of the claim. Their line numbers refer to the document.
    pub(super) checks: Vec<CheckReport>,
    pub(super) duration: Duration,
}

impl Verified {
    /// Creates the entry of the report for a document that could not be read.
    pub(super) fn unread(file: &Path, error: &str) -> Self {
        Self {
            file: file.display().to_string(),
            line: 1,
            line_of_reason: 1,
            outcome: Conclusion::Blocked,
            reason: one_line(error),
            checks: Vec::new(),
            duration: Duration::ZERO,
        }
    }

    pub(super) fn holds(&self) -> bool {
        self.outcome == Conclusion::Verified
    }

    fn level(&self) -> Level {
        match self.outcome {
            Conclusion::Verified => Level::Notice,
            Conclusion::Refuted | Conclusion::Blocked => Level::Error,
            Conclusion::NothingChecked | Conclusion::Vacuous | Conclusion::Inconclusive => {
                Level::Warning
            }
        }
    }

    fn words(&self) -> &'static str {
        match self.outcome {
            Conclusion::Verified => "verified",
            Conclusion::Refuted => "refuted",
            Conclusion::NothingChecked => "nothing checked",
            Conclusion::Vacuous => "vacuous",
            Conclusion::Inconclusive => "inconclusive",
            Conclusion::Blocked => "blocked",
        }
    }
}

/// Every outcome, and its explanation for a person.
const OUTCOMES: [(Conclusion, &str); 6] = [
    (Conclusion::Verified, "At least one check that can fail was executed, and all held"),
    (Conclusion::Refuted, "A check failed"),
    (Conclusion::NothingChecked, "The claim has no check, or ended before a check"),
    (Conclusion::Vacuous, "The checks of the claim cannot fail, or a failed check has no effect"),
    (
        Conclusion::Inconclusive,
        "The claim ended with another error or was cut short, or its result can differ between runs",
    ),
    (Conclusion::Blocked, "The claim was not run"),
];

/// Returns a claim in one line, for a person.
pub(super) fn line(claim: &Verified) -> String {
    let Verified { file, line, reason, .. } = claim;
    let style = match claim.level() {
        Level::Notice => AnsiColor::Green.on_default(),
        Level::Warning => Label::Warning.style(),
        Level::Error => Label::Error.style(),
    };
    let place = one_line(&format!("{file}:{line}"));
    // Insert a space into commands such as `##[error]`, because a GitHub runner executes such commands anywhere in a
    // line.
    let reason = reason.replace("##[", "## [");
    format!("{BOLD}{place}{BOLD:#}: {style}{}{style:#}: {reason}\n", claim.words())
}

/// Escapes line ends, tabs and hidden characters in a text, because they could forge other lines.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    escape_into(&mut line, text);
    line
}

/// Returns a claim as an annotation of the line that shows the reason.
pub(super) fn github(claim: &Verified) -> String {
    let line = Some(claim.line_of_reason);
    annotation(claim.level(), &claim.file, line, claim.words(), &claim.reason)
}

pub(super) fn json(claims: &[Verified]) -> Value {
    let of = |claim: &Verified| {
        json!({
            "file": claim.file,
            "line": claim.line,
            "outcome": claim.outcome,
            "reason": claim.reason,
            "checks": claim.checks,
            "duration_ms": u64::try_from(claim.duration.as_millis()).unwrap_or(u64::MAX),
        })
    };
    json!({ "claims": claims.iter().map(of).collect::<Value>() })
}

/// Returns a SARIF log. It contains only the claims that are not verified, because code scanning shows every result
/// as a problem.
pub(super) fn sarif(claims: &[Verified]) -> Value {
    let rule = |(outcome, why): &(Conclusion, &str)| json!({ "id": format!("claim/{outcome}"), "shortDescription": { "text": why } });
    let result = |claim: &Verified| {
        let level = match claim.level() {
            Level::Notice => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        };
        json!({
            "ruleId": format!("claim/{}", claim.outcome),
            "level": level,
            "message": { "text": format!("{}: {}", claim.words(), claim.reason) },
            "locations": [sarif::location(&claim.file, Some(json!({ "startLine": claim.line_of_reason })))],
        })
    };
    let rules: Vec<Value> = OUTCOMES.iter().map(rule).collect();
    let problems = claims.iter().filter(|claim| !claim.holds());
    let results: Vec<Value> = problems.map(result).collect();
    sarif::log(&rules, &results)
}

/// Returns all claims as XML in the format of `JUnit`, which most CI systems read. A document is a suite, a claim is
/// a case.
pub(super) fn junit(claims: &[Verified]) -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"qwed-mcp\">\n",
    );
    for suite in claims.chunk_by(|a, b| a.file == b.file) {
        let file = suite.first().map_or_else(String::new, |claim| attribute(&claim.file));
        let failures = suite.iter().filter(|claim| !claim.holds()).count();
        // Writing to a string cannot fail.
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{file}\" tests=\"{}\" failures=\"{failures}\">",
            suite.len()
        );
        for claim in suite {
            let (line, seconds) = (claim.line, claim.duration.as_secs_f64());
            let _ = write!(
                xml,
                "    <testcase name=\"line {line}\" classname=\"{file}\" file=\"{file}\" line=\"{line}\" time=\"{seconds:.3}\""
            );
            if claim.holds() {
                xml.push_str("/>\n");
                continue;
            }
            let _ = writeln!(
                xml,
                "><failure type=\"{}\" message=\"{}\"/></testcase>",
                claim.outcome,
                attribute(&claim.reason)
            );
        }
        xml.push_str("  </testsuite>\n");
    }
    xml + "</testsuites>\n"
}

/// Returns a text as the value of an attribute (XML 1.0, sections 2.2 and 2.4). Replaces control characters, U+FFFE and
/// U+FFFF by Rust's escape sequences, because XML does not allow these characters.
fn attribute(text: &str) -> String {
    let text = one_line(text).replace('\u{fffe}', r"\u{fffe}").replace('\u{ffff}', r"\u{ffff}");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Vec<Verified> {
        let claim = |file: &str, line, outcome, reason: &str| Verified {
            file: file.to_owned(),
            line,
            line_of_reason: line + 1,
            outcome,
            reason: reason.to_owned(),
            checks: Vec::new(),
            duration: Duration::from_millis(1500),
        };
        vec![
            claim("a.md", 3, Conclusion::Verified, "1 check held"),
            claim("a.md", 9, Conclusion::Refuted, "line 10: a < \"b\"; 100 %\u{1b}\u{fffe}"),
            claim("d/b,c.md", 1, Conclusion::Vacuous, "x\ny"),
        ]
    }

    #[test]
    fn xml_has_a_case_for_each_claim() {
        let xml = junit(&claims());
        assert!(xml.contains("<testsuite name=\"a.md\" tests=\"2\" failures=\"1\">"), "{xml}");
        assert!(
            xml.contains(
                "name=\"line 3\" classname=\"a.md\" file=\"a.md\" line=\"3\" time=\"1.500\"/>"
            ),
            "{xml}"
        );
        assert!(
            xml.contains("message=\"line 10: a &lt; &quot;b&quot;; 100 %\\u{1b}\\u{fffe}\"/>"),
            "{xml}"
        );
        assert_eq!(xml.matches("<testcase ").count(), 3);
    }

    #[test]
    fn every_outcome_has_a_rule() {
        let log = sarif(&claims());
        let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
        for result in log["runs"][0]["results"].as_array().unwrap() {
            assert!(rules.iter().any(|rule| rule["id"] == result["ruleId"]), "{result}");
        }
        assert_eq!(log["runs"][0]["results"].as_array().unwrap().len(), 2);
    }
}
