//! Creates the replies to governed calls: content blocks for the model, and data for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::evidence::{Evidence, RunStatus};
use super::level::Level;
use super::summary::{SANDBOX_HINT, TestSummary, is_refusal};
use super::verdict::describe_exit_code;
use crate::plain_text::{plain, plain_line};
use crate::verdict::{Conclusion, Verdict};
use crate::verification::{TestResult, TestRun, verdict_on_tests};

const CANCELLED: &str = "Execution was cancelled.";

/// The maximum number of artifacts that the text of a reply names.
const ARTIFACTS_NAMED_MAX: usize = 20;

/// The maximum number of lines of the output in the reply about a run without a reliable result.
const LAST_LINES: usize = 10;
/// The maximum number of characters of the output in the reply about a run without a reliable result.
const LAST_CHARS: usize = 2000;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GovernedReply {
    pub(crate) blocks: Vec<Block>,
    /// Whether the call has no result. Failed tests are a result.
    pub(crate) is_error: bool,
    /// The data for programs: `_meta["qwed.ai/run"]`.
    pub(crate) meta: Value,
    /// The receipt of a run: `_meta["qwed.ai/receipt"]`.
    pub(crate) receipt: Option<Value>,
    /// The verdict on a run: `_meta["qwed.ai/verification"]`.
    pub(crate) verdict: Option<Verdict>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Block {
    Text(String),
    /// A part of a file, if the part is not UTF-8.
    Binary {
        /// The URI of the file: `qwed-artifact:///{run_id}/{path}`.
        uri: String,
        media_type: String,
        /// The bytes, in base64.
        base64: String,
    },
}

impl GovernedReply {
    pub(super) fn text(text: String, meta: Value) -> Self {
        Self {
            blocks: vec![Block::Text(text)],
            is_error: false,
            meta,
            receipt: None,
            verdict: None,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let bytes = |block: &Block| match block {
            Block::Text(text) => text.len(),
            Block::Binary { base64, .. } => base64.len(),
        };
        self.blocks.iter().map(bytes).sum()
    }
}

/// Creates the reply to a run of pytest, with the status, the counts, the failures, and the names of the artifacts.
pub(super) fn of_run(evidence: &Evidence, printed: &str) -> GovernedReply {
    let Evidence { run_id, status, reason, summary, artifacts, .. } = evidence;
    let mut text = status_line(*status, evidence.exit_code);
    let level = evidence.judge.as_ref().map_or(Level::InProcess, |judge| judge.level);
    let left_out = summary.as_ref().map(TestSummary::left_out).unwrap_or_default();
    // Ignore the results of `write!`, because writing to a `String` cannot fail.
    if *status == RunStatus::Cancelled {
        let _ = write!(text, "\n{CANCELLED}");
    } else {
        let _ = write!(text, ", judged: {level}");
        if !left_out.is_empty() {
            let _ = write!(text, ", {left_out}");
        }
    }
    let is_incomplete = *status == RunStatus::Incomplete;
    let is_unreliable = reason.is_some() && !is_incomplete;
    if let Some(reason) = reason {
        let what = if is_incomplete { "Not passed" } else { "No result" };
        let _ = write!(text, "\n{what}: {reason}.");
    }
    if let Some(summary) = summary {
        let whose = if is_unreliable { "The report says: " } else { "" };
        let _ = write!(text, "\n{whose}{}", summary.text());
    }
    if is_unreliable {
        // The output may explain a mistake in pytest's configuration or arguments.
        let _ = write!(text, "{}", last_lines(printed));
    }
    let _ = write!(text, "\n\nrun_id: {run_id}\nartifacts:");
    for artifact in artifacts.iter().take(ARTIFACTS_NAMED_MAX) {
        let _ = write!(text, " {} ({} bytes)", plain_line(&artifact.path), artifact.bytes);
    }
    if artifacts.len() > ARTIFACTS_NAMED_MAX {
        let _ = write!(text, " … list_artifacts lists all {}", artifacts.len());
    }
    let meta = json!({
        "run_id": run_id,
        "status": status,
        "judge": evidence.judge,
        "reason": reason,
        "exit_code": evidence.exit_code,
        "duration_ms": evidence.duration_ms,
        "sandbox": evidence.sandbox_tier,
        "governance": evidence.governance,
    });
    let is_error = *status == RunStatus::Cancelled || is_unreliable;
    let verdict = Some(verdict(evidence));
    GovernedReply { is_error, verdict, ..GovernedReply::text(text, meta) }
}

/// Creates the verdict on a run. The verdict has no time and no run id, so that two runs of the same tests on the same
/// files have equal verdicts.
fn verdict(evidence: &Evidence) -> Verdict {
    let counted = evidence.summary.clone().unwrap_or_default();
    let outcome = match evidence.status {
        RunStatus::Passed => Conclusion::Verified,
        RunStatus::NoTests => Conclusion::NothingChecked,
        RunStatus::Failed => Conclusion::Refuted,
        RunStatus::Error
        | RunStatus::Timeout
        | RunStatus::SandboxViolation
        | RunStatus::BudgetExceeded
        | RunStatus::Cancelled
        | RunStatus::Incomplete => Conclusion::Inconclusive,
    };
    let failed = counted.failures.iter().map(|failure| (&failure.name, true));
    let passed = counted.passed_tests.iter().map(|id| (id, false));
    // A passed test may fail in its teardown. Then it counts as failed.
    let mut tests = BTreeMap::new();
    for (id, has_failed) in failed.chain(passed) {
        tests.entry(id.clone()).or_insert(has_failed);
    }
    let tests = tests.into_iter().map(|(id, has_failed)| TestResult { id, has_failed });
    let tests: Vec<_> = tests.collect();
    let ran = counted.passed + counted.failed + counted.errors;
    let ran = usize::try_from(ran).unwrap_or(usize::MAX);
    let policy_timeout = evidence.governance.policy_timeout_s.to_string();
    verdict_on_tests(TestRun {
        outcome,
        tests_omitted: ran.saturating_sub(tests.len()),
        tests,
        python: evidence.python.as_ref().map(|python| python.version.clone()),
        pytest: evidence.python.as_ref().and_then(|python| python.pytest.clone()),
        policy_sha256: evidence.policy_sha256.clone(),
        configuration: json!({
            "tier": evidence.sandbox_tier,
            "timeout_seconds": policy_timeout,
            "judged": evidence.judge.as_ref().map_or(Level::InProcess, |judge| judge.level),
        }),
        evidence: Map::from_iter([
            ("arguments".to_owned(), json!(format!("sha256:{}", evidence.arguments_hash))),
            ("workspace".to_owned(), json!(evidence.workspace)),
            ("status".to_owned(), json!(evidence.status)),
            ("exit_code".to_owned(), json!(evidence.exit_code.map(|code| code.to_string()))),
            ("passed".to_owned(), json!(counted.passed)),
            ("failed".to_owned(), json!(counted.failed)),
            ("errors".to_owned(), json!(counted.errors)),
            ("skipped".to_owned(), json!(counted.skipped)),
            ("xfailed".to_owned(), json!(counted.xfailed)),
            ("deselected".to_owned(), json!(counted.deselected)),
            ("uncollected".to_owned(), json!(counted.uncollected)),
            ("judge".to_owned(), json!(evidence.judge)),
        ]),
    })
}

/// Returns the first line of a reply, with the status and the exit code of the run.
fn status_line(status: RunStatus, exit_code: Option<i32>) -> String {
    let ended = exit_code.filter(|_| status != RunStatus::Cancelled).map(describe_exit_code);
    let ended = ended.map(|ended| format!(", {ended}")).unwrap_or_default();
    format!("Status: {}{ended}", status.as_str())
}

/// Creates the reply to a call that was cancelled before its run started.
pub(super) fn of_cancelled(run_id: Uuid) -> GovernedReply {
    let meta = json!({ "run_id": run_id, "status": RunStatus::Cancelled });
    let text = format!("{}\n{CANCELLED}", status_line(RunStatus::Cancelled, None));
    GovernedReply { is_error: true, ..GovernedReply::text(text, meta) }
}

/// Returns the last lines of the output, indented so that they do not look like text of the server.
fn last_lines(printed: &str) -> String {
    let lines: Vec<&str> = printed.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default();
    if last.is_empty() {
        return "\n\nNothing was printed.".to_owned();
    }
    let lines: Vec<String> = last.iter().map(|line| plain(line)).collect();
    let lines = lines.join("\n  ");
    let left_out = lines.chars().count().saturating_sub(LAST_CHARS);
    let lines: String = lines.chars().skip(left_out).collect();
    let text = format!("\n\nThe last lines that were printed:\n  {lines}");
    if lines.lines().any(is_refusal) { format!("{text}\n{SANDBOX_HINT}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::governance::evidence::ArtifactRecord;
    use crate::governance::summary::TestSummary;

    const REASON: &str = "pytest itself failed (exit code 3)";

    /// Creates the evidence of a run with this status, exit code and reason.
    fn evidence(status: RunStatus, exit_code: Option<i32>, reason: Option<&str>) -> Evidence {
        let document = json!({
            "run_id": Uuid::nil(), "tool": "run_pytest", "user": "ana", "status": status,
            "reason": reason, "exit_code": exit_code, "started": "2026-01-25T10:00:00.000Z",
            "finished": "2026-01-25T10:00:01.000Z", "duration_ms": 1200, "arguments": {},
            "arguments_hash": "ab", "summary": null, "artifacts": [], "artifacts_omitted": 0,
            "sandbox_tier": "T3",
            "governance": { "elapsed_ms_total": 1234, "attempts_total": 1,
                            "short_circuited": false, "policy_timeout_s": 300 },
        });
        let mut evidence: Evidence = serde_json::from_value(document).unwrap();
        evidence.summary =
            Some(TestSummary { passed: 2, duration_s: 0.5, ..TestSummary::default() });
        evidence
    }

    /// Returns the text of a reply without the lines that all replies share, and the reply's `is_error`.
    fn told(evidence: &Evidence, printed: &str) -> (String, bool) {
        let GovernedReply { blocks, is_error, meta, .. } = of_run(evidence, printed);
        assert_eq!(meta["status"], json!(evidence.status));
        assert_eq!(meta["reason"], json!(evidence.reason));
        let [Block::Text(text)] = blocks.as_slice() else { panic!("{blocks:?}") };
        let ids = "\n\nrun_id: 00000000-0000-0000-0000-000000000000\nartifacts:";
        (text.strip_suffix(ids).unwrap_or_else(|| panic!("{text}")).to_owned(), is_error)
    }

    #[test]
    fn a_reply_says_how_the_run_ended_and_whether_that_is_a_result() {
        let (judged, counts) = (", judged: in-process", "2 passed in 0.50 s");
        let not_reliable = format!(
            "\nNo result: {REASON}.\nThe report says: {counts}\n\nThe last lines that were \
             printed:\n  out"
        );
        for (status, exit_code, reason, expected, is_error) in [
            (RunStatus::Passed, Some(0), None, format!(", exit code 0{judged}\n{counts}"), false),
            (RunStatus::Failed, Some(1), None, format!(", exit code 1{judged}\n{counts}"), false),
            (RunStatus::NoTests, Some(5), None, format!(", exit code 5{judged}\n{counts}"), false),
            // Collection errors are a result, so the reply is not an error.
            (RunStatus::Error, Some(2), None, format!(", exit code 2{judged}\n{counts}"), false),
            (
                RunStatus::Error,
                Some(3),
                Some(REASON),
                format!(", exit code 3{judged}{not_reliable}"),
                true,
            ),
            // The caller cancelled the run, so the reply does not show the signal.
            (RunStatus::Cancelled, Some(-9), None, format!("\n{CANCELLED}\n{counts}"), true),
        ] {
            let evidence = evidence(status, exit_code, reason);
            let expected = format!("Status: {}{expected}", status.as_str());
            assert_eq!(told(&evidence, "out\n"), (expected, is_error));
        }
        let GovernedReply { blocks, is_error, meta, .. } = of_cancelled(Uuid::nil());
        let text = format!("Status: cancelled\n{CANCELLED}");
        assert_eq!((blocks, is_error), (vec![Block::Text(text)], true));
        assert_eq!(meta, json!({ "run_id": Uuid::nil(), "status": "cancelled" }));
    }

    #[test]
    fn without_a_result_the_last_lines_are_shown_and_what_the_sandbox_may_have_refused() {
        let mut evidence = evidence(RunStatus::Error, Some(3), Some(REASON));
        evidence.summary = None;
        let last_lines = |printed: &str| {
            let (text, _) = told(&evidence, printed);
            let begin =
                format!("Status: error, exit code 3, judged: in-process\nNo result: {REASON}.\n\n");
            text.strip_prefix(&begin).unwrap_or_else(|| panic!("{text}")).to_owned()
        };
        let head = "The last lines that were printed:";
        assert_eq!(last_lines(""), "Nothing was printed.");
        assert_eq!(last_lines(" \n\n"), "Nothing was printed.");
        assert_eq!(last_lines("a\n \n\nb\n"), format!("{head}\n  a\n  b"));
        let many: Vec<_> = (1..=12).map(|line| line.to_string()).collect();
        assert_eq!(last_lines(&many.join("\n")), format!("{head}\n  {}", many[2..].join("\n  ")));
        let refused = "OSError: [Errno 101] x";
        assert_eq!(
            last_lines(&format!("{refused}\nb")),
            format!("{head}\n  {refused}\n  b\n{SANDBOX_HINT}")
        );
        assert_eq!(last_lines(&"x".repeat(3000)), format!("{head}\n  {}", "x".repeat(LAST_CHARS)));
        assert_eq!(last_lines("\u{1b}[2J"), format!("{head}\n  \u{fffd}[2J"));
    }

    #[test]
    fn some_artifacts_are_named_and_of_more_their_number() {
        for (count, named, rest) in
            [(1, 1, ""), (20, 20, ""), (21, 20, " … list_artifacts lists all 21")]
        {
            let mut evidence = evidence(RunStatus::Passed, Some(0), None);
            evidence.artifacts = (1..=count)
                .map(|bytes| ArtifactRecord { path: "a\nb".to_owned(), bytes, sha256: None })
                .collect();
            let reply = of_run(&evidence, "");
            let [Block::Text(text)] = reply.blocks.as_slice() else { panic!("{reply:?}") };
            let (_, artifacts) = text.split_once("\nartifacts:").unwrap();
            let expected: Vec<_> =
                (1..=named).map(|bytes| format!(" a\u{fffd}b ({bytes} bytes)")).collect();
            assert_eq!(artifacts, expected.concat() + rest);
        }
    }
}
