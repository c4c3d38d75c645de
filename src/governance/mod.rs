//! Implements the governed tools, which run pytest and read the evidence of runs. Tokens, roles, a policy, a budget and
//! the sandbox restrict the calls. The audit log records each call. The tools exist only if the admin configured a
//! policy file.
//!
//! `call` contains the steps of a call, in their order. The other files:
//!
//! | file | content |
//! |---|---|
//! | `tools` | the tools, and the permission that each tool needs |
//! | `policy`, `budget` | the policy of the admin, and the limits of one call |
//! | `pytest`, `run`, `python` | a run of pytest: its arguments, its execution, and its interpreter |
//! | `conclusion`, `verdict` | the status of a run that has ended |
//! | `judge` | the admin's own tests, and the list of their expected outcomes |
//! | `level` | how well a judge protects results against forgery |
//! | `artifacts`, `evidence`, `summary` | the files of a run |
//! | `read` | the tools that return the files of past runs |
//! | `integrity`, `upkeep` | checks that the files of a run are unchanged; the removal of old runs |
//! | `workspace` | the workspace's commit, and whether its files match that commit |
//! | `checkpoint` | signed heads of the audit log |
//! | `refusal`, `reply` | the errors and the results that a caller gets |
//! | `receipts` | the signed receipts of runs |
//! | `script_audit` | the rows about `execute_python_code` in the audit log |
//! | `token_file` | the server's own token |
//! | `patience` | retries while the store is unreachable |
//!
//! This module never stores tokens or rows of the audit log itself. It uses the ledger.

mod artifacts;
mod budget;
mod call;
mod checkpoint;
mod conclusion;
mod evidence;
mod integrity;
mod judge;
mod level;
mod patience;
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

use crate::Secret;
use crate::aibom::Session;
use crate::config::Settings;
use crate::executor::{Executor, Turns};
use crate::ledger::Store;
use crate::logging::Causes;
use crate::receipt::Receipts;

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
pub(crate) use judge::{RecordedList, judge_error, judge_warning, record_list};
pub(crate) use level::Level;
pub(crate) use patience::until_reached;
pub(crate) use policy::{CheckpointPolicy, Policy, PolicyCheck, PolicyError, PolicyFile};
pub(crate) use refusal::Refusal;
pub(crate) use reply::{Block, GovernedReply};
pub(crate) use token_file::own_token;
pub(crate) use tools::{GovernedTool, ReadTool};
pub(crate) use upkeep::{apply_retention, retention_of};

/// The state that all governed calls of the process share.
pub(crate) struct Governance {
    store: Store,
    artifacts: Arc<Artifacts>,
    policy: Arc<PolicyFile>,
    /// Ensures that at most one clean-up of old runs is in progress, and that no request for a clean-up is lost.
    upkeep: Arc<Turn>,
    /// The token for calls that present no token of their own.
    own_token: Option<Secret>,
    executor: Arc<dyn Executor>,
    /// The session that records used tools, if a bill of materials is enabled.
    session: Option<Arc<Session>>,
    /// The queue in which all runs of this process wait for their turns.
    turns: Arc<Turns>,
    /// Tracks the runs that have started, but have no row about their end in the audit log yet.
    unsettled: TaskTracker,
    /// The canonical path of the folder with the store and the artifacts.
    data_folder: PathBuf,
    /// The writer of receipts for runs; `None` if receipts are disabled.
    receipts: Option<Arc<Receipts>>,
    /// The writer of checkpoints of the audit log; `None` if `receipts` is `None`, because the key of `receipts` signs
    /// the checkpoints.
    checkpoints: Option<Arc<CheckpointWriter>>,
}

impl Governance {
    /// Creates the governed tools under `policy`. `data_folder` must exist. It contains the store and the artifacts.
    pub(crate) fn new(
        settings: &Settings,
        policy: Arc<PolicyFile>,
        data_folder: &Path,
        store: Store,
        executor: Arc<dyn Executor>,
        session: Option<Arc<Session>>,
    ) -> Self {
        let data_folder = fs::canonicalize(data_folder).unwrap_or_else(|_| data_folder.to_owned());
        // If the policy is unusable, `current` logs the reason.
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

    /// Enables receipts for every run of tests and every refused run, and the checkpoints of the audit log.
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

    /// Returns the queue of runs of tests. Scripts wait in the same queue.
    pub(crate) fn turns(&self) -> &Arc<Turns> {
        &self.turns
    }

    /// Records in the session that a tool was called.
    fn record(&self, tool: GovernedTool) {
        if let Some(session) = &self.session {
            session.record_tool(tool.name());
        }
    }

    /// Waits until the audit log has a row about the end of every run. Then writes the last checkpoint.
    pub(crate) async fn settle(&self) {
        self.store.hurry();
        self.unsettled.close();
        self.unsettled.wait().await;
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.finish().await;
        }
    }

    /// Removes the runs that exceed the policy's retention, in the background. The server calls this method when it
    /// starts and after each run.
    pub(crate) fn retain(&self) {
        let (artifacts, store) = (Arc::clone(&self.artifacts), self.store.clone());
        let (policy, turn) = (Arc::clone(&self.policy), Arc::clone(&self.upkeep));
        // Nothing waits for this task. If the server stops before the task ends, the next clean-up removes the
        // remaining runs.
        drop(tokio::task::spawn_blocking(move || {
            turn.take(|| {
                // If the policy is unusable, no run is removed. The mistake is not reported here, because every
                // governed call reports it.
                let Ok(policy) = policy.current() else { return };
                match apply_retention(&artifacts, &store, &policy.retention) {
                    Ok(retained) => tracing::debug!(?retained, "artifacts"),
                    // Another process is removing old runs. The next clean-up removes the runs that the other process
                    // misses.
                    Err(error @ RetentionError::Busy) => {
                        tracing::warn!(%error, "old runs were not removed");
                    }
                    Err(RetentionError::Store(error)) => {
                        tracing::error!(error = %Causes(&error), "old runs were not removed");
                    }
                }
            });
        }));
    }
}
