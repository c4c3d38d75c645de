//! Governed tools: run pytest and read its evidence, under tokens, roles, policy, budget, sandbox
//! and audit. They exist only where the admin configured a policy file.
//!
//! A call is read from top to bottom in `call`. What it needs:
//!
//! | file | what it is |
//! |---|---|
//! | `tools` | the tools, and the permission that each takes |
//! | `policy`, `budget` | what the admin allows, and what one call may take |
//! | `pytest`, `run`, `python` | the run: its arguments, its sandbox, its end; what it is made with |
//! | `conclusion`, `verdict` | what its end means |
//! | `artifacts`, `evidence`, `summary` | what it leaves, for `read` |
//! | `integrity`, `upkeep` | whether it is still that, and how long it is kept |
//! | `workspace` | which commit the workspace is, and whether its files are that commit's |
//! | `checkpoint` | signed heads of the audit log |
//! | `refusal`, `reply` | what the caller hears |
//! | `receipts` | the signed receipts of runs |
//! | `script_audit` | `execute_python_code` in the audit log |
//!
//! Who calls, and what is written down, is the ledger's.

mod artifacts;
mod budget;
mod call;
mod checkpoint;
mod conclusion;
mod evidence;
mod integrity;
mod policy;
mod pytest;
mod python;
mod read;
mod receipts;
mod refusal;
mod reply;
mod run;
mod script_audit;
mod summary;
#[cfg(test)]
mod tests;
mod token_file;
mod tools;
mod upkeep;
mod verdict;
mod workspace;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::aibom::Session;
use crate::config::Settings;
use crate::executor::{Executor, Turns};
use crate::ledger::Store;
use crate::logging::Causes;
use crate::receipt::Receipts;
use crate::secret::Secret;

use checkpoint::CheckpointWriter;
use upkeep::Turn;

pub(crate) use artifacts::{
    Artifacts, RUNS_LISTED_MAX, Retained, RetentionError, RunEntry, RunState,
};
pub(crate) use call::{GovernedCall, Rehearsal};
pub(crate) use evidence::Evidence;
pub(crate) use integrity::{
    ArtifactsVerification, IntegrityError, RunDifference, Served, evidence, verify_artifacts,
};
pub(crate) use policy::{CheckpointPolicy, Policy, PolicyCheck, PolicyError, PolicyFile};
pub(crate) use refusal::Refusal;
pub(crate) use reply::{Block, GovernedReply};
pub(crate) use token_file::own_token;
pub(crate) use tools::{GovernedTool, ReadTool};
pub(crate) use upkeep::{apply_retention, retention_of};

/// Everything that governed calls need, for as long as the process lives.
pub(crate) struct Governance {
    store: Store,
    artifacts: Arc<Artifacts>,
    policy: Arc<PolicyFile>,
    /// The turn of those who remove old runs.
    upkeep: Arc<Turn>,
    /// The token of calls that present none.
    own_token: Option<Secret>,
    executor: Arc<dyn Executor>,
    /// The session that records what is used, where a bill of materials is wanted.
    session: Option<Arc<Session>>,
    /// The turns of all runs of this process.
    turns: Arc<Turns>,
    /// Runs that are not written down to their end.
    unsettled: TaskTracker,
    /// The folder of store and artifacts, without links.
    data_folder: PathBuf,
    /// The writer of the receipts that runs leave.
    receipts: Option<Arc<Receipts>>,
    /// The writer of the checkpoints of the audit log; none without a key.
    checkpoints: Option<Arc<CheckpointWriter>>,
}

impl Governance {
    /// Makes the governed tools under `policy`, with what is stored in `data_folder`, which is
    /// there. Runs are `executor`'s.
    pub(crate) fn new(
        settings: &Settings,
        policy: Arc<PolicyFile>,
        data_folder: &Path,
        store: Store,
        executor: Arc<dyn Executor>,
        session: Option<Arc<Session>>,
    ) -> Self {
        let data_folder = fs::canonicalize(data_folder).unwrap_or_else(|_| data_folder.to_owned());
        // Why there is none is in the log.
        if let Ok(policy) = policy.current() {
            tracing::info!(tools = ?policy.allowlist, "governed tools enabled");
        }
        Self {
            store,
            artifacts: Arc::new(Artifacts::new(&data_folder)),
            policy,
            upkeep: Arc::default(),
            own_token: settings.auth_token.clone(),
            executor,
            session,
            turns: Arc::new(Turns::of(settings)),
            unsettled: TaskTracker::new(),
            data_folder,
            receipts: None,
            checkpoints: None,
        }
    }

    /// Has every run of tests, and every one that is refused, leave a receipt.
    pub(crate) fn with_receipts(self, receipts: Option<Arc<Receipts>>) -> Self {
        let checkpoints = receipts.as_ref().map(|receipts| {
            let (store, policy) = (self.store.clone(), Arc::clone(&self.policy));
            Arc::new(CheckpointWriter::new(store, policy, Arc::clone(receipts)))
        });
        Self { receipts, checkpoints, ..self }
    }

    /// Returns the store of tokens and of the audit log.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the queue in which runs of tests wait, so that scripts wait in the same one.
    pub(crate) fn turns(&self) -> &Arc<Turns> {
        &self.turns
    }

    /// Tells the session that the call of a tool is carried out.
    fn record(&self, tool: GovernedTool) {
        if let Some(session) = &self.session {
            session.record_tool(tool.name());
        }
    }

    /// Waits until every run is written down to its end, and the head of the log signed.
    pub(crate) async fn settle(&self) {
        self.store.hurry();
        self.unsettled.close();
        self.unsettled.wait().await;
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.finish().await;
        }
    }

    /// Removes what the policy does not want to be kept, in the background: after each run,
    /// and when the server starts.
    pub(crate) fn retain(&self) {
        let (artifacts, store) = (Arc::clone(&self.artifacts), self.store.clone());
        let (policy, turn) = (Arc::clone(&self.policy), Arc::clone(&self.upkeep));
        // Not waited for: what is not removed now is removed the next time.
        drop(tokio::task::spawn_blocking(move || {
            turn.take(|| {
                // Under a policy that cannot be used nothing is done. Every call says so.
                let Ok(policy) = policy.current() else { return };
                match apply_retention(&artifacts, &store, &policy.retention) {
                    Ok(retained) => tracing::debug!(?retained, "artifacts"),
                    // It may have looked before the last run ended: then the next one's turn is it.
                    Err(error @ RetentionError::Busy) => {
                        tracing::warn!(%error, "old runs are not removed");
                    }
                    Err(RetentionError::Store(error)) => {
                        tracing::error!(error = %Causes(&error), "old runs are not removed");
                    }
                }
            });
        }));
    }
}
