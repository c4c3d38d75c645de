//! What was left of earlier runs: evidence, lists, content.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::artifacts::{ArtifactError, Artifacts};
use super::audit::AuditEvent;
use super::call::{Call, blocking, store_failed};
use super::integrity::{self, IntegrityError, Served, Unconfirmed};
use super::roles::GovernedTool;
use super::store::Store;
use super::tokens::Caller;
use super::{Block, Governance, GovernedReply, Refusal, reply};
use crate::logging::Causes;

/// The arguments of `get_evidence`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfEvidence {
    run_id: Uuid,
}

/// The arguments of `list_artifacts`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfList {
    run_id: Option<Uuid>,
    offset: Option<usize>,
    limit: Option<usize>,
}

/// The arguments of `get_artifact_content`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfContent {
    run_id: Uuid,
    path: String,
    offset: Option<u64>,
    limit: Option<usize>,
}

impl Governance {
    /// Carries out one of the calls that only read.
    pub(super) async fn read(&self, call: Call, caller: Caller) -> Result<GovernedReply, Refusal> {
        let read = match self.policy().await {
            // Nothing of it is a policy's business; but under a broken one nothing is done.
            Ok(_) => self.look_up(&call).await,
            Err(refusal) => Err(refusal),
        };
        match read {
            Ok(reply) => {
                let entry =
                    call.entry(AuditEvent::McpToolCall, Some(&caller), "ALLOWED", Map::new());
                self.append(vec![entry]).await?;
                self.record(call.tool);
                Ok(reply)
            }
            Err(refusal) => Err(self.refused(&call, Some(&caller), refusal).await),
        }
    }

    async fn look_up(&self, call: &Call) -> Result<GovernedReply, Refusal> {
        let (artifacts, store) = (Arc::clone(&self.artifacts), self.store.clone());
        let arguments = call.arguments.clone();
        let tool = call.tool;
        blocking(move || look_up(&artifacts, &store, tool, arguments)).await?
    }
}

impl Call {
    /// What a call asks for that reads: which run, and which file. For the audit log, in the form in
    /// which it names runs.
    pub(super) fn asked_for(&self) -> Map<String, Value> {
        let text = |name| self.arguments.get(name).and_then(Value::as_str);
        let run = text("run_id").and_then(|run| Uuid::try_parse(run).ok());
        let run = run.map(|run| ("read_run", run.hyphenated().to_string()));
        let path = text("path").map(|path| ("path", path.to_owned()));
        let told = run.into_iter().chain(path);
        told.map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
    }
}

fn look_up(
    artifacts: &Artifacts,
    store: &Store,
    tool: GovernedTool,
    arguments: Map<String, Value>,
) -> Result<GovernedReply, Refusal> {
    match tool {
        GovernedTool::GetEvidence => {
            let OfEvidence { run_id } = parsed(arguments)?;
            let Served { content, unconfirmed } = integrity::evidence(artifacts, store, run_id)?;
            let text = String::from_utf8_lossy(&content);
            Ok(with_integrity(reply::of_evidence(run_id, &text), unconfirmed))
        }
        GovernedTool::ListArtifacts => {
            let OfList { run_id, offset, limit } = parsed(arguments)?;
            let offset = offset.unwrap_or(0);
            match run_id {
                Some(id) => Ok(reply::of_files(id, &artifacts.list_files(id, offset, limit)?)),
                None => Ok(reply::of_runs(&artifacts.list_runs(offset, limit)?)),
            }
        }
        GovernedTool::GetArtifactContent => {
            let OfContent { run_id, path, offset, limit } = parsed(arguments)?;
            let range = (offset.unwrap_or(0), limit);
            let Served { content, unconfirmed } =
                integrity::content(artifacts, store, run_id, &path, range)?;
            Ok(with_integrity(reply::of_content(run_id, &path, content), unconfirmed))
        }
        GovernedTool::RunPytest => Err(Refusal::Internal("not a tool that reads".to_owned())),
    }
}

/// Says whether what is served was compared with what the run left; where it could not be, also to
/// the model.
fn with_integrity(mut reply: GovernedReply, unconfirmed: Option<Unconfirmed>) -> GovernedReply {
    let word = if unconfirmed.is_some() { "unconfirmed" } else { "confirmed" };
    if let Some(meta) = reply.meta.as_object_mut() {
        meta.insert("integrity".to_owned(), Value::from(word));
    }
    reply.blocks.extend(unconfirmed.map(|reason| {
        Block::Text(format!("[Nobody can tell whether this is what the run left: {reason}.]"))
    }));
    reply
}

impl From<IntegrityError> for Refusal {
    fn from(error: IntegrityError) -> Self {
        match error {
            IntegrityError::Artifacts(error) => error.into(),
            IntegrityError::Store(error) => store_failed(&error),
            IntegrityError::Different(difference) => {
                tracing::error!(%difference, "artifacts");
                Self::ArtifactChanged(difference.to_string())
            }
            IntegrityError::Removed
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
                tracing::error!(error = %Causes(&error), "artifacts");
                Self::Internal(error.to_string())
            }
        }
    }
}
