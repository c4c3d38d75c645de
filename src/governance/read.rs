//! What was left of earlier runs: evidence, lists, content.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::artifacts::{ArtifactError, Artifacts};
use super::audit::AuditEvent;
use super::call::{Call, blocking};
use super::roles::GovernedTool;
use super::tokens::Caller;
use super::{Governance, GovernedReply, Refusal, reply};

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
                let what = what_was_read(&call.arguments);
                let entry = call.entry(AuditEvent::McpToolCall, Some(&caller), "ALLOWED", what);
                self.append(vec![entry]).await?;
                self.record(call.tool);
                Ok(reply)
            }
            Err(refusal) => Err(self.refused(&call, Some(&caller), refusal).await),
        }
    }

    async fn look_up(&self, call: &Call) -> Result<GovernedReply, Refusal> {
        let artifacts = Arc::clone(&self.artifacts);
        let arguments = call.arguments.clone();
        let tool = call.tool;
        blocking(move || look_up(&artifacts, tool, arguments)).await?
    }
}

/// What the audit log tells of arguments that were accepted: which run was read, and which file.
fn what_was_read(arguments: &Map<String, Value>) -> Map<String, Value> {
    let told = [("read_run", "run_id"), ("path", "path")].map(|(name, argument)| {
        let value = arguments.get(argument).filter(|value| value.is_string());
        value.map(|value| (name.to_owned(), value.clone()))
    });
    told.into_iter().flatten().collect()
}

fn look_up(
    artifacts: &Artifacts,
    tool: GovernedTool,
    arguments: Map<String, Value>,
) -> Result<GovernedReply, Refusal> {
    match tool {
        GovernedTool::GetEvidence => {
            let OfEvidence { run_id } = parsed(arguments)?;
            Ok(reply::of_evidence(run_id, &artifacts.evidence(run_id)?))
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
            let chunk = artifacts.read(run_id, &path, offset.unwrap_or(0), limit)?;
            Ok(reply::of_content(run_id, &path, chunk))
        }
        GovernedTool::RunPytest => Err(Refusal::Internal("not a tool that reads".to_owned())),
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
                tracing::error!(%error, source = ?std::error::Error::source(&error), "artifacts");
                Self::Internal(error.to_string())
            }
        }
    }
}
