//! Returns the evidence and the files of earlier runs, and lists of runs and files. Never starts a run.

use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::artifacts::{ArtifactError, Artifacts, Chunk, Content, Page};
use super::call::{Call, blocking, store_failed};
use super::integrity::{self, IntegrityError, Served, Unconfirmed};
use super::tools::ReadTool;
use super::{Block, Governance, GovernedReply, Refusal};
use crate::hidden::is_hidden;
use crate::ledger::{AuditEvent, AuditOutcome, Caller, Store};
use crate::logging::Causes;
use crate::plain_text::{plain, plain_json};

/// The characters that are percent-encoded in the path of an artifact's URI.
const RESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'*').remove(b'-').remove(b'.').remove(b'_').remove(b'/');

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfEvidence {
    run_id: Uuid,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfList {
    run_id: Option<Uuid>,
    offset: Option<usize>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfContent {
    run_id: Uuid,
    path: String,
    offset: Option<u64>,
    limit: Option<usize>,
}

impl Governance {
    /// Carries out a call of a read tool.
    pub(super) async fn read(
        &self,
        call: Call,
        tool: ReadTool,
        caller: Caller,
    ) -> Result<GovernedReply, Refusal> {
        let read = match self.policy().await {
            // A policy does not restrict reading, but every governed call is refused while the policy is unusable.
            Ok(_) => self.look_up(tool, &call).await,
            Err(refusal) => Err(refusal),
        };
        match read {
            Ok(reply) => {
                let (event, allowed) = (AuditEvent::McpToolCall, AuditOutcome::ALLOWED);
                let entry = call.entry(event, Some(&caller), allowed, Map::new());
                self.append(vec![entry]).await?;
                self.record(call.tool);
                Ok(reply)
            }
            Err(refusal) => Err(self.refused(&call, Some(&caller), refusal).await),
        }
    }

    async fn look_up(&self, tool: ReadTool, call: &Call) -> Result<GovernedReply, Refusal> {
        let (artifacts, store) = (Arc::clone(&self.artifacts), self.store.clone());
        let arguments = call.arguments.clone();
        blocking(move || look_up(&artifacts, &store, tool, arguments)).await?
    }
}

impl Call {
    /// Returns the run and the file that a call requests, for the audit log. The run id is formatted like all run ids
    /// in the log.
    pub(super) fn asked_for(&self) -> Map<String, Value> {
        let text = |name| self.arguments.get(name).and_then(Value::as_str);
        let run = text("run_id").and_then(|run| Uuid::try_parse(run).ok());
        let run = run.map(|run| ("read_run", run.hyphenated().to_string()));
        let path = text("path").map(|path| ("path", path.to_owned()));
        let details = run.into_iter().chain(path);
        details.map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
    }
}

fn look_up(
    artifacts: &Artifacts,
    store: &Store,
    tool: ReadTool,
    arguments: Map<String, Value>,
) -> Result<GovernedReply, Refusal> {
    match tool {
        ReadTool::GetEvidence => {
            let OfEvidence { run_id } = parsed(arguments)?;
            let Served { content, unconfirmed } = integrity::evidence(artifacts, store, run_id)?;
            // Return the evidence unchanged, except that hidden characters are escaped.
            let text = plain_json(&String::from_utf8_lossy(&content));
            let reply = GovernedReply::text(text, json!({ "run_id": run_id }));
            Ok(with_integrity(reply, unconfirmed))
        }
        ReadTool::ListArtifacts => {
            let OfList { run_id, offset, limit } = parsed(arguments)?;
            let offset = offset.unwrap_or(0);
            Ok(match run_id {
                Some(id) => page_reply(
                    integrity::files(artifacts, store, id, offset, limit)?,
                    |files| json!({ "run_id": id, "artifacts": files }),
                ),
                None => {
                    page_reply(artifacts.list_runs(offset, limit)?, |runs| json!({ "runs": runs }))
                }
            })
        }
        ReadTool::GetArtifactContent => {
            let OfContent { run_id, path, offset, limit } = parsed(arguments)?;
            let range = (offset.unwrap_or(0), limit);
            let Served { content, unconfirmed } =
                integrity::content(artifacts, store, run_id, &path, range)?;
            Ok(with_integrity(content_reply(run_id, &path, content), unconfirmed))
        }
    }
}

/// Creates a reply from a page. `object` converts the items of the page to the JSON object of the reply.
fn page_reply<T>(page: Page<T>, object: impl FnOnce(Vec<T>) -> Value) -> GovernedReply {
    let Page { items, next_offset, truncated } = page;
    let mut list = object(items);
    if let Some(fields) = list.as_object_mut() {
        fields.extend(next_offset.map(|next| ("next_offset".to_owned(), json!(next))));
        fields.extend(truncated.then(|| ("truncated".to_owned(), json!(true))));
    }
    let meta = list.get("run_id").map_or_else(|| json!({}), |id| json!({ "run_id": id }));
    GovernedReply::text(plain_json(&format!("{list:#}")), meta)
}

/// Creates a reply from a chunk of a file.
fn content_reply(run_id: Uuid, path: &str, chunk: Chunk) -> GovernedReply {
    let Chunk { content, media_type, bytes, total_bytes, next_offset } = chunk;
    let meta = json!({
        "run_id": run_id,
        "path": path,
        "media_type": media_type,
        "bytes": bytes,
        "total_bytes": total_bytes,
        "next_offset": next_offset,
    });
    let mut notes = Vec::new();
    let block = match content {
        Content::Text(text) => {
            let hidden = text.chars().filter(|c| is_hidden(*c)).count();
            if hidden > 0 {
                notes.push(format!(
                    "[{hidden} control or invisible characters are shown as {}]",
                    char::REPLACEMENT_CHARACTER
                ));
            }
            Block::Text(plain(&text))
        }
        Content::Binary(base64) => Block::Binary {
            uri: format!("qwed-artifact:///{run_id}/{}", utf8_percent_encode(path, RESERVED)),
            media_type: media_type.to_owned(),
            base64,
        },
    };
    if let Some(next) = next_offset {
        // The model needs this note, because it does not get `_meta`.
        notes.push(format!(
            "[{bytes} of {total_bytes} bytes; the next part starts at offset {next}]"
        ));
    }
    let blocks = [block].into_iter().chain(notes.into_iter().map(Block::Text)).collect();
    GovernedReply { blocks, is_error: false, meta, receipt: None, verdict: None }
}

/// Marks a reply as confirmed or unconfirmed by the audit log. `unconfirmed` is the reason if the content could not be
/// confirmed. The model gets this reason too.
fn with_integrity(mut reply: GovernedReply, unconfirmed: Option<Unconfirmed>) -> GovernedReply {
    let word = if unconfirmed.is_some() { "unconfirmed" } else { "confirmed" };
    if let Some(meta) = reply.meta.as_object_mut() {
        meta.insert("integrity".to_owned(), Value::from(word));
    }
    reply.blocks.extend(unconfirmed.map(|reason| {
        Block::Text(format!("[This could not be confirmed with the audit log: {reason}.]"))
    }));
    reply
}

impl From<IntegrityError> for Refusal {
    fn from(error: IntegrityError) -> Self {
        match error {
            IntegrityError::Artifacts(error) => error.into(),
            IntegrityError::Store(error) => store_failed(&error),
            IntegrityError::Different(difference) => {
                tracing::error!(%difference, "an artifact has changed");
                Self::ArtifactChanged(difference.to_string())
            }
            IntegrityError::Removed
            | IntegrityError::Elsewhere(_)
            | IntegrityError::Waiting
            | IntegrityError::Starting
            | IntegrityError::NotRun(_) => Self::InvalidParams(error.to_string()),
        }
    }
}

fn parsed<T: DeserializeOwned>(mut arguments: Map<String, Value>) -> Result<T, Refusal> {
    arguments.retain(|_, value| !value.is_null());
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| Refusal::InvalidParams(format!("invalid arguments: {error}")))
}

impl From<ArtifactError> for Refusal {
    fn from(error: ArtifactError) -> Self {
        match error {
            ArtifactError::RunNotFound
            | ArtifactError::NoEvidence(_)
            | ArtifactError::FileNotFound
            | ArtifactError::InvalidPath { .. }
            | ArtifactError::TooLarge { .. } => Self::InvalidParams(error.to_string()),
            ArtifactError::Io { .. } => {
                tracing::error!(error = %Causes(&error), "artifacts cannot be read");
                Self::Internal(error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_where_the_next_one_begins_and_whether_there_is_more() {
        for (next_offset, truncated, expected) in [
            (None, false, json!({ "runs": [7] })),
            (Some(1), false, json!({ "runs": [7], "next_offset": 1 })),
            (None, true, json!({ "runs": [7], "truncated": true })),
        ] {
            let page = Page { items: vec![7], next_offset, truncated };
            let GovernedReply { blocks, is_error, meta, .. } =
                page_reply(page, |runs| json!({ "runs": runs }));
            let [Block::Text(text)] = blocks.as_slice() else { panic!("{blocks:?}") };
            assert_eq!(serde_json::from_str::<Value>(text).unwrap(), expected);
            assert_eq!((is_error, meta), (false, json!({})));
        }
    }
}
