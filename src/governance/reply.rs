//! Replies to governed calls, in words and blocks.

use std::fmt::Write as _;

use serde_json::{Value, json};
use uuid::Uuid;

use super::evidence::{Evidence, RunStatus};
use super::plain_text::{plain, plain_line};
use super::summary::{SANDBOX_HINT, is_refusal};
use super::verdict::describe_exit_code;

const CANCELLED: &str = "Execution was cancelled.";

/// The most artifacts that the text about a run names.
const ARTIFACTS_TOLD_MAX: usize = 20;

/// The lines of the output that are shown of a run without a result.
const LAST_LINES: usize = 10;
const LAST_CHARS: usize = 2000;

/// The answer to a call that was carried out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GovernedReply {
    pub(crate) blocks: Vec<Block>,
    /// The call failed at what it was for. Tests that fail are what it is for.
    pub(crate) is_error: bool,
    /// The part for programs: `_meta["qwed.ai/run"]`.
    pub(crate) meta: Value,
}

/// One block of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Block {
    Text(String),
    /// A part of a file that is no text.
    Binary {
        /// Names the file: `qwed-artifact:///{run_id}/{path}`.
        uri: String,
        media_type: String,
        /// The bytes, as base64.
        base64: String,
    },
}

impl GovernedReply {
    pub(super) fn text(text: String, meta: Value) -> Self {
        Self { blocks: vec![Block::Text(text)], is_error: false, meta }
    }

    /// Returns the length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |block: &Block| match block {
            Block::Text(text) => text.len(),
            Block::Binary { base64, .. } => base64.len(),
        };
        self.blocks.iter().map(bytes).sum()
    }
}

/// Replies with a run of pytest: how it ended, counts, failures, where the rest is.
pub(super) fn of_run(evidence: &Evidence, printed: &str) -> GovernedReply {
    let Evidence { run_id, status, reason, summary, artifacts, .. } = evidence;
    let mut text = status_line(*status, evidence.exit_code);
    // Writing to a text does not fail.
    if *status == RunStatus::Cancelled {
        let _ = write!(text, "\n{CANCELLED}");
    }
    if let Some(reason) = reason {
        let _ = write!(text, "\nNo result: {reason}.");
    }
    if let Some(summary) = summary {
        let whose = if reason.is_some() { "The report says: " } else { "" };
        let _ = write!(text, "\n{whose}{}", summary.text());
    }
    if reason.is_some() {
        // What it says about its configuration or its arguments.
        let _ = write!(text, "{}", last_lines(printed));
    }
    let _ = write!(text, "\n\nrun_id: {run_id}\nartifacts:");
    for artifact in artifacts.iter().take(ARTIFACTS_TOLD_MAX) {
        let _ = write!(text, " {} ({} bytes)", plain_line(&artifact.path), artifact.bytes);
    }
    if artifacts.len() > ARTIFACTS_TOLD_MAX {
        let _ = write!(text, " … list_artifacts lists all {}", artifacts.len());
    }
    let meta = json!({
        "run_id": run_id,
        "status": status,
        "reason": reason,
        "exit_code": evidence.exit_code,
        "duration_ms": evidence.duration_ms,
        "sandbox": evidence.sandbox_tier,
        "governance": evidence.governance,
    });
    let is_error = *status == RunStatus::Cancelled || reason.is_some();
    GovernedReply { is_error, ..GovernedReply::text(text, meta) }
}

/// Returns the first line about a run.
fn status_line(status: RunStatus, exit_code: Option<i32>) -> String {
    let ended = exit_code.filter(|_| status != RunStatus::Cancelled).map(describe_exit_code);
    let ended = ended.map(|ended| format!(", {ended}")).unwrap_or_default();
    format!("Status: {}{ended}", status.as_str())
}

/// Replies to a call that was cancelled before its run started.
pub(super) fn of_cancelled(run_id: Uuid) -> GovernedReply {
    let meta = json!({ "run_id": run_id, "status": RunStatus::Cancelled });
    let text = format!("{}\n{CANCELLED}", status_line(RunStatus::Cancelled, None));
    GovernedReply { is_error: true, ..GovernedReply::text(text, meta) }
}

/// Returns the end of the output, so that no line of it looks like one of ours.
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
