//! Handles each script from the decision to the receipt: requests the gateway's decision, audits the decision, waits
//! for a turn (the right to start a run), runs the script, audits the end of the run, and signs a receipt.
//!
//! Calls of clients, `/run`, `/batch`, `/run_code`, background jobs, `run`, `run --batch` and `replay` all use
//! [`Scripts`]. No other code in this program makes a decision final or passes a script to the executor. `decide` turns
//! a script into a [`Permit`] or returns the reason for a refusal. `run` runs the script once. `once` reuses the
//! results of earlier runs, if the admin wants it. `packages` chooses the environment of a script. If the admin allows
//! the packages that the script lists, `packages` makes an environment with them.
//!
//! Only the gateway decides whether a script may run. This module starts no process itself.

mod decide;
mod error;
mod missing_module;
mod once;
mod packages;
mod run;
#[cfg(test)]
mod tests;
mod turn;
mod variants;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use tokio_util::task::TaskTracker;

use crate::aibom::Session;
use crate::config::{AdminGate, Settings, VerdictNote};
use crate::executor::{EnvironmentCache, ForkServers};
use crate::executor::{Executor, Readiness, Ready, StepDown, Turns};
use crate::gateway::Gateway;
use crate::governance::Governance;
use crate::ledger::Store;
use crate::receipt::Receipts;

pub(crate) use decide::PlacedScript;
pub(crate) use decide::{Decided, Permit, Request, count_decision};
pub(crate) use error::ScriptError;
pub(crate) use turn::{RunRequest, ScriptTurn};

use once::Once;
use packages::ScriptPackages;

/// The resources that scripts need, for the lifetime of the process.
pub(crate) struct Scripts {
    gateway: Gateway,
    executor: Arc<dyn Executor>,
    /// The environments with packages that scripts list, if the admin allows packages.
    packages: Option<ScriptPackages>,
    /// The audit log, if the admin has configured a policy.
    governance: Option<Arc<Governance>>,
    /// The store of tokens. It is not set if the server has no store.
    tokens: OnceLock<Store>,
    /// The record of used engines and tools, if the admin wants a bill of materials.
    session: Option<Arc<Session>>,
    /// The writer of receipts. `None` if the server writes no receipts for scripts.
    receipts: Option<Arc<Receipts>>,
    /// A cache for the description of the interpreter and its packages. Verdicts contain this description.
    environment: Arc<EnvironmentCache>,
    /// Whether verified scripts are run again with other numbers or operators, to find checks that prove nothing.
    vacuity: bool,
    /// The results of earlier runs, if the admin wants to reuse them.
    once: Option<Once>,
    /// The kinds of verdicts for which the result of a call contains a text that explains the verdict to the model.
    verdict_note: VerdictNote,
    turns: Arc<Turns>,
    /// The tier of the sandbox. It is set after an interpreter was found and tested in the sandbox.
    ready: OnceLock<Ready>,
    /// The lookups of package versions that are in progress. Calls do not wait for these lookups.
    lookups: TaskTracker,
    /// The number of runs that were killed because they used too many pipes.
    pipe_shortages: AtomicU64,
}

impl Scripts {
    pub(crate) fn new(settings: &Settings, gateway: Gateway, executor: Arc<dyn Executor>) -> Self {
        let environment = Arc::default();
        Self {
            gateway,
            packages: ScriptPackages::new(settings, &executor),
            executor,
            governance: None,
            tokens: OnceLock::new(),
            session: None,
            receipts: None,
            vacuity: settings.vacuity,
            once: Once::new(settings, &environment),
            environment,
            verdict_note: settings.verdict_note,
            turns: Arc::new(Turns::of(settings)),
            ready: OnceLock::new(),
            lookups: TaskTracker::new(),
            pipe_shortages: AtomicU64::new(0),
        }
    }

    /// Writes decisions and runs to the audit log of `governance`. Checks the tokens of callers with the store of
    /// `governance`. Scripts then wait for their turns in the same queue as the runs of governed tools.
    pub(crate) fn with_governance(self, governance: Option<Arc<Governance>>) -> Self {
        let Some(governance) = governance else { return self };
        let turns = Arc::clone(governance.turns());
        let tokens = OnceLock::from(governance.store().clone());
        Self { tokens, turns, governance: Some(governance), ..self }
    }

    /// Records the tools and engines of scripts in the bill of materials.
    pub(crate) fn with_session(self, session: Option<Arc<Session>>) -> Self {
        Self { session, ..self }
    }

    /// Writes a receipt for every run and every refusal, if `receipts` applies to scripts. In this case, reusable
    /// results are also stored in files next to the receipts.
    pub(crate) fn with_receipts(self, receipts: Option<&Arc<Receipts>>) -> Self {
        let Some(receipts) = receipts.and_then(Receipts::of_scripts) else { return self };
        let once = self.once.map(|once| once.with_receipts(receipts));
        Self { receipts: Some(Arc::clone(receipts)), once, ..self }
    }

    /// Turns off the installation of packages. Scripts can only use installed packages.
    pub(crate) fn without_installing(self) -> Self {
        Self { packages: self.packages.map(ScriptPackages::without_making), ..self }
    }

    #[cfg(test)]
    pub(crate) fn with_turns(self, turns: Turns) -> Self {
        Self { turns: Arc::new(turns), ..self }
    }

    /// Sets the store that checks the tokens of callers. Has no effect if a store is already set, for example by
    /// [`Self::with_governance`].
    pub(crate) fn set_tokens(&self, store: Store) {
        // An error means that a store is already set. Both stores have the same tokens, so do not replace the first
        // store.
        let _ = self.tokens.set(store);
    }

    pub(crate) fn admin_gate(&self) -> AdminGate {
        self.gateway.admin_gate()
    }

    /// Tests whether the sandbox works on this machine, and stores its tier.
    pub(crate) async fn readiness(&self) -> Readiness {
        let readiness = self.executor.readiness().await;
        if let Ok(Some(ready)) = &readiness {
            self.ready.get_or_init(|| ready.clone());
        }
        readiness
    }

    /// Returns the tier of the sandbox. `None` before an interpreter was found and tested.
    pub(crate) fn tier(&self) -> Option<&'static str> {
        self.ready.get().map(|ready| ready.tier.as_str())
    }

    /// Returns the reason why scripts run at a lower tier than possible. `None` if no higher tier is possible, or
    /// before an interpreter was found and tested.
    pub(crate) fn step_down(&self) -> Option<&StepDown> {
        self.ready.get()?.step_down.as_ref()
    }

    /// Returns the queue in which all runs wait for their turn.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    pub(crate) fn fork_servers(&self) -> ForkServers {
        self.executor.fork_servers()
    }

    /// Prepares fork servers, if the admin allows scripts and the sandbox works.
    pub(crate) async fn warm_up(&self) {
        // If the sandbox does not work, its test has logged the reason.
        if self.admin_gate() == AdminGate::Open && self.readiness().await.is_ok() {
            self.executor.warm_up();
        }
    }

    /// Waits until the lookups of package versions for finished runs have ended. Must not be called while a script
    /// runs.
    pub(crate) async fn settle(&self) {
        self.lookups.close();
        self.lookups.wait().await;
    }

    /// Ends the processes that outlive single runs, such as fork servers. The future `runs` must end the runs in
    /// progress. Completes when these processes have ended and `runs` has completed.
    pub(crate) async fn shut_down(&self, runs: impl Future<Output = ()>) {
        let settled = async {
            runs.await;
            self.settle().await;
        };
        tokio::join!(settled, self.remove_incomplete(), self.executor.shut_down());
    }

    /// Stops making environments with packages that scripts list. Completes when incomplete environments are removed.
    pub(crate) async fn remove_incomplete(&self) {
        if let Some(packages) = &self.packages {
            packages.shut_down().await;
        }
    }
}
