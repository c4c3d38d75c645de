//! What came of a governed call, in words and blocks.

use std::fmt::Write as _;

use serde_json::{Value, json};
use uuid::Uuid;

use super::artifacts::{Chunk, Content, FileEntry, Page, RunEntry};
use super::evidence::{Evidence, RunStatus};

const CANCELLED: &str = "Execution was cancelled.";

/// The most artifacts that the text about a run names.
const ARTIFACTS_TOLD_MAX: usize = 20;

/// The answer to a call that was carried out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GovernedReply {
    /// The blocks, in their order.
    pub(crate) blocks: Vec<Block>,
    /// Whether the call did not do what it was for. Tests that fail are what it is for.
    pub(crate) is_error: bool,
    /// What programs read beside it: `_meta["qwed.ai/run"]`.
    pub(crate) meta: Value,
}

/// One block of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Block {
    /// Text.
    Text(String),
    /// A part of a file that is no text.
    Binary {
        /// Names the file: `qwed-artifact:///{run_id}/{path}`.
        uri: String,
        /// Its media type.
        media_type: String,
        /// The bytes, as base64.
        base64: String,
    },
}

impl GovernedReply {
    fn text(text: String, meta: Value) -> Self {
        Self { blocks: vec![Block::Text(text)], is_error: false, meta }
    }

    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |block: &Block| match block {
            Block::Text(text) => text.len(),
            Block::Binary { base64, .. } => base64.len(),
        };
        self.blocks.iter().map(bytes).sum()
    }
}

/// A run of pytest: counts, failures, where the rest is.
pub(super) fn of_run(evidence: &Evidence, printed: &str) -> GovernedReply {
    let Evidence { run_id, status, summary, artifacts, .. } = evidence;
    let mut text = match (status, summary) {
        (RunStatus::Cancelled, _) => CANCELLED.to_owned(),
        (_, Some(summary)) => summary.text(),
        (_, None) => "pytest did not get as far as running tests".to_owned(),
    };
    let is_error = *status == RunStatus::Cancelled || summary.is_none() || is_usage_error(evidence);
    if is_error && *status != RunStatus::Cancelled {
        // What it says about its configuration or its arguments.
        let _ = write!(text, "\n\n{}", last_lines(printed));
    }
    // Writing to a text does not fail.
    let _ = write!(text, "\n\nrun_id: {run_id}\nartifacts:");
    for artifact in artifacts.iter().take(ARTIFACTS_TOLD_MAX) {
        let _ = write!(text, " {} ({} bytes)", shown(&artifact.path), artifact.bytes);
    }
    if artifacts.len() > ARTIFACTS_TOLD_MAX {
        let _ = write!(text, " … list_artifacts lists all {}", artifacts.len());
    }
    let meta = json!({
        "run_id": run_id,
        "status": status,
        "exit_code": evidence.exit_code,
        "duration_ms": evidence.duration_ms,
        "sandbox": evidence.sandbox_tier,
        "governance": evidence.governance,
    });
    GovernedReply { is_error, ..GovernedReply::text(text, meta) }
}

/// A run that was not wanted any more before it started.
pub(super) fn of_cancelled(run_id: Uuid) -> GovernedReply {
    let meta = json!({ "run_id": run_id, "status": RunStatus::Cancelled });
    GovernedReply { is_error: true, ..GovernedReply::text(CANCELLED.to_owned(), meta) }
}

/// A name that tests chose: on one line, and without what a terminal obeys.
fn shown(path: &str) -> String {
    path.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Whether pytest could not make sense of its arguments or configuration, or broke down (exit codes
/// 3 and 4).
fn is_usage_error(evidence: &Evidence) -> bool {
    matches!(evidence.exit_code, Some(3 | 4))
}

fn last_lines(printed: &str) -> String {
    let lines: Vec<&str> = printed.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(10)..).unwrap_or_default();
    last.join("\n").chars().take(2000).collect()
}

/// The evidence of a run, as it was written.
pub(super) fn of_evidence(run_id: Uuid, evidence: String) -> GovernedReply {
    GovernedReply::text(evidence, json!({ "run_id": run_id }))
}

/// The runs, newest first.
pub(super) fn of_runs(page: &Page<RunEntry>) -> GovernedReply {
    of_page(&json!({ "runs": page.items }), page.next_cursor, page.truncated)
}

/// The files of a run.
pub(super) fn of_files(run_id: Uuid, page: &Page<FileEntry>) -> GovernedReply {
    let list = json!({ "run_id": run_id, "artifacts": page.items });
    of_page(&list, page.next_cursor, page.truncated)
}

fn of_page(list: &Value, next: Option<usize>, truncated: bool) -> GovernedReply {
    let mut list = list.clone();
    if let Some(fields) = list.as_object_mut() {
        if let Some(next) = next {
            fields.insert("next_offset".to_owned(), json!(next));
        }
        if truncated {
            fields.insert("truncated".to_owned(), json!(true));
        }
    }
    let meta = list.get("run_id").map_or_else(|| json!({}), |id| json!({ "run_id": id }));
    GovernedReply::text(format!("{list:#}"), meta)
}

/// A part of a file.
pub(super) fn of_content(run_id: Uuid, path: &str, chunk: Chunk) -> GovernedReply {
    let Chunk { content, media_type, bytes, total_bytes, next_offset } = chunk;
    let meta = json!({
        "run_id": run_id,
        "path": path,
        "media_type": media_type,
        "bytes": bytes,
        "total_bytes": total_bytes,
        "next_offset": next_offset,
    });
    let block = match content {
        Content::Text(text) => Block::Text(text),
        Content::Binary(base64) => Block::Binary {
            uri: format!("qwed-artifact:///{run_id}/{}", escaped(path)),
            media_type: media_type.to_owned(),
            base64,
        },
    };
    let mut blocks = vec![block];
    if let Some(next) = next_offset {
        // For the model, which does not see `_meta`.
        blocks.push(Block::Text(format!(
            "[{bytes} of {total_bytes} bytes; the next part starts at offset {next}]"
        )));
    }
    GovernedReply { blocks, is_error: false, meta }
}

/// A path as a URL has it.
fn escaped(path: &str) -> String {
    url::form_urlencoded::byte_serialize(path.as_bytes())
        .collect::<String>()
        .replace('+', "%20")
        .replace("%2F", "/")
}
