//! The one entry for scripts: decided → written down → (waits for its turn) → run → written down, signed.
//!
//! A client's call, `/run`, `/batch`, `/run_code`, background jobs, `run`, `run --batch` and `replay` all come
//! through [`Scripts`]. `decide` turns a script into a [`Permit`], or says why not. `run` runs it as often as the
//! caller has turns for it. Nothing else in this program confirms a decision, and nothing else hands a script to
//! the executor.
//!
//! This module never decides whether a script is safe, which is the gateway's, and starts no process itself.

mod decide;
mod error;
mod missing_module;
mod run;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use tokio_util::task::TaskTracker;

use crate::aibom::Session;
use crate::config::{AdminGate, Settings};
use crate::executor::ForkServers;
use crate::executor::{Executor, Readiness, Ready, StepDown, Turns};
use crate::gateway::Gateway;
use crate::governance::Governance;
use crate::ledger::Store;
use crate::receipt::Receipts;
use crate::shares::{Held, ReplyRoom};

pub(crate) use decide::PlacedScript;
pub(crate) use decide::{Decided, Permit, Request, count_decision};
pub(crate) use error::ScriptError;
pub(crate) use run::RunRequest;

/// Everything that scripts need, for as long as the process lives.
pub(crate) struct Scripts {
    gateway: Gateway,
    executor: Arc<dyn Executor>,
    /// The audit log, if the admin has a policy.
    governance: Option<Arc<Governance>>,
    /// The store of tokens, if the server has one.
    tokens: OnceLock<Store>,
    /// The record of what is used, if a bill of materials is wanted.
    session: Option<Arc<Session>>,
    /// The writer of receipts, if scripts leave some.
    receipts: Option<Arc<Receipts>>,
    turns: Arc<Turns>,
    /// Room for the output of scripts that waits to be read.
    replies: ReplyRoom,
    /// What holds scripts here, once that is known; `None` without an interpreter.
    ready: OnceLock<Option<Ready>>,
    /// Lookups of versions, each as long as a short script.
    lookups: TaskTracker,
    /// How many runs were ended because they had more pipes than they may.
    pipe_shortages: AtomicU64,
}

impl Scripts {
    pub(crate) fn new(settings: &Settings, gateway: Gateway, executor: Arc<dyn Executor>) -> Self {
        Self {
            gateway,
            executor,
            governance: None,
            tokens: OnceLock::new(),
            session: None,
            receipts: None,
            turns: Arc::new(Turns::of(settings)),
            replies: ReplyRoom::new(settings.user_share),
            ready: OnceLock::new(),
            lookups: TaskTracker::new(),
            pipe_shortages: AtomicU64::new(0),
        }
    }

    /// Writes decisions and runs to the audit log of `governance`, whose tokens let callers in, and queues runs
    /// with those of the governed tools.
    pub(crate) fn with_governance(self, governance: Option<Arc<Governance>>) -> Self {
        let Some(governance) = governance else { return self };
        let turns = Arc::clone(governance.turns());
        let tokens = OnceLock::from(governance.store().clone());
        Self { tokens, turns, governance: Some(governance), ..self }
    }

    /// Records what scripts use in the bill of materials.
    pub(crate) fn with_session(self, session: Option<Arc<Session>>) -> Self {
        Self { session, ..self }
    }

    /// Has every run and every refusal leave a receipt, if scripts leave receipts.
    pub(crate) fn with_receipts(self, receipts: Option<&Arc<Receipts>>) -> Self {
        Self { receipts: receipts.and_then(Receipts::of_scripts).cloned(), ..self }
    }

    #[cfg(test)]
    pub(crate) fn with_turns(self, turns: Turns) -> Self {
        Self { turns: Arc::new(turns), ..self }
    }

    /// Looks up the proofs of callers in this store, unless the audit log has tokens itself.
    pub(crate) fn set_tokens(&self, store: Store) {
        // The first one stays: both have the same tokens.
        let _ = self.tokens.set(store);
    }

    /// Returns whether the admin lets code run at all.
    pub(crate) fn admin_gate(&self) -> AdminGate {
        self.gateway.admin_gate()
    }

    /// Tests whether scripts can be contained here, and remembers how.
    pub(crate) async fn readiness(&self) -> Readiness {
        let readiness = self.executor.readiness().await;
        if let Ok(ready) = &readiness {
            self.ready.get_or_init(|| ready.clone());
        }
        readiness
    }

    /// Returns the tier that holds scripts here, once that is known; `none` without an interpreter.
    pub(crate) fn tier(&self) -> Option<&'static str> {
        self.ready.get().map(|ready| ready.as_ref().map_or("none", |ready| ready.tier.as_str()))
    }

    /// Returns why scripts run at a lower tier than they could, once that is known.
    pub(crate) fn step_down(&self) -> Option<&StepDown> {
        self.ready.get()?.as_ref()?.step_down.as_ref()
    }

    /// Returns the queue of all runs.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Waits for room for a reply to a user with so many bytes of output, until it is read.
    pub(crate) async fn room_for(&self, user: Option<&str>, bytes: usize) -> Option<Held> {
        self.replies.room_for(user, bytes).await
    }

    /// Returns the state of the interpreters that are forked for scripts.
    pub(crate) fn fork_servers(&self) -> ForkServers {
        self.executor.fork_servers()
    }

    /// Gets ready for scripts, if the admin lets any run and they can be contained.
    pub(crate) async fn warm_up(&self) {
        // The log has the reason why not.
        if self.admin_gate() == AdminGate::Open && self.readiness().await.is_ok() {
            self.executor.warm_up();
        }
    }

    /// Waits until the lookups that runs have started are done. No run may be going on.
    pub(crate) async fn settle(&self) {
        self.lookups.close();
        self.lookups.wait().await;
    }

    /// Ends the processes that live between runs, and returns when they are gone and `runs`, which ends the
    /// last runs, is done.
    pub(crate) async fn shut_down(&self, runs: impl Future<Output = ()>) {
        let settled = async {
            runs.await;
            self.settle().await;
        };
        tokio::join!(settled, self.executor.shut_down());
    }
}
