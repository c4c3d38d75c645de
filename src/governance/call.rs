//! Decides whether a governed call is permitted, and carries out the call. The steps have this order: authenticate →
//! permission → policy → sandbox → budget → arguments → audit → run.
//!
//! A run requires a [`Cleared`]. Only this file can create a [`Cleared`], and only after all checks. So code that runs
//! pytest without the checks does not compile.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::budget::Budget;
use super::evidence::RunStatus;
use super::judge::Judge;
use super::policy::{Policy, PolicyError, PolicyFile};
use super::pytest::PytestOrder;
use super::refusal::RefusalCode;
use super::tools::GovernedTool;
use super::workspace::WorkspaceState;
use super::{Governance, GovernedReply, Refusal, reply};
use crate::Secret;
use crate::executor::{Executor, Lane, NotForProject};
use crate::ledger::{
    ArgumentsHash, AuditEntry, AuditEvent, AuditOutcome, AuditPlace, Caller, Presented, Quota,
    Role, Store, StoreError, Token, UserName,
};
use crate::logging::Causes;
use crate::sandbox::Tier;

/// The refusal of a run if the user has no runs left today.
const OVER_QUOTA: Refusal = Refusal::BudgetExceeded("runs_per_day");

/// A call of a governed tool.
#[derive(Debug)]
pub(crate) struct GovernedCall {
    pub(crate) tool: GovernedTool,
    /// The arguments, not yet validated.
    pub(crate) arguments: Map<String, Value>,
    pub(crate) presented: Presented,
    /// Cancelled when the client no longer wants the reply, or when the server stops.
    pub(crate) cancel: CancellationToken,
    /// Whether the call is waiting in the queue for its turn to run.
    pub(crate) waits_for_turn: Arc<AtomicBool>,
}

#[derive(Debug)]
pub(super) struct Call {
    /// The id of the call in the audit log, in the artifacts and in the reply.
    pub(super) run_id: Uuid,
    pub(super) started: Instant,
    pub(super) tool: GovernedTool,
    pub(super) arguments: Map<String, Value>,
    pub(super) arguments_hash: ArgumentsHash,
    pub(super) cancel: CancellationToken,
}

/// A run of pytest that has passed every check. The audit log already has a row about the start of the run.
#[derive(Debug)]
pub(super) struct Cleared {
    pub(super) call: Call,
    pub(super) caller: Caller,
    pub(super) policy: Arc<Policy>,
    pub(super) order: PytestOrder,
    pub(super) judge: Judge,
    pub(super) budget: Budget,
    /// The tier of the sandbox; `None` if the server found no interpreter for the run.
    pub(super) tier: Option<Tier>,
    /// The state of the workspace, if it is a repository.
    pub(super) workspace: Option<WorkspaceState>,
    _sealed: (),
}

impl Governance {
    /// Carries out a call if it is permitted. Returns the run id and the result.
    pub(crate) async fn call(
        &self,
        request: GovernedCall,
    ) -> (Uuid, Result<GovernedReply, Refusal>) {
        let GovernedCall { tool, arguments, presented, cancel, waits_for_turn } = request;
        let run_id = Uuid::new_v4();
        let arguments_hash = ArgumentsHash::of(&arguments);
        let started = Instant::now();
        let call = Call { run_id, started, tool, arguments, arguments_hash, cancel };
        tracing::info!(%run_id, tool = tool.name(), "governed call");
        let reply = self.carry_out(call, &presented, &waits_for_turn).await;
        if let Err(refusal) = &reply {
            tracing::info!(%run_id, code = refusal.code().name(), "refused");
        }
        (run_id, reply)
    }

    async fn carry_out(
        &self,
        call: Call,
        presented: &Presented,
        waits_for_turn: &AtomicBool,
    ) -> Result<GovernedReply, Refusal> {
        let caller = self.admit(&call, presented).await?;
        match call.tool {
            GovernedTool::RunPytest => {
                let user = Some(caller.user.as_str());
                let mut turn = self.turns.take_at_once(Lane::Tests, user);
                if turn.is_none() {
                    // Record the call before it waits, so that the log has the call even if the server dies meanwhile.
                    let (event, waiting) = (AuditEvent::McpToolCall, AuditOutcome::WAITING);
                    let entry = call.entry(event, Some(&caller), waiting, Map::new());
                    self.append(vec![entry]).await?;
                    let turns = &self.turns;
                    turn = turns.take(Lane::Tests, user, waits_for_turn, &call.cancel).await;
                }
                let Some(_turn) = turn else { return self.never_started(&call, &caller).await };
                // Check the token again, because it may have become invalid while the call waited.
                let caller = self.admit(&call, presented).await?;
                let cleared = self.clear(call, caller).await?;
                Box::pin(self.run_pytest(cleared)).await
            }
            GovernedTool::Read(tool) => self.read(call, tool, caller).await,
        }
    }

    /// Authenticates the caller, and checks that the caller's role has the tool's permission.
    async fn admit(&self, call: &Call, presented: &Presented) -> Result<Caller, Refusal> {
        let Presented { token, known } = presented;
        let caller = match self.authenticate(token.as_ref(), known.as_ref()).await {
            Ok(caller) => caller,
            Err(refusal) => return Err(self.refused(call, None, refusal).await),
        };
        if caller.role.has(call.tool.permission()) {
            return Ok(caller);
        }
        Err(self.refused(call, Some(&caller), Refusal::PermissionDenied).await)
    }

    /// Records a call that was cancelled while it waited in the queue.
    async fn never_started(&self, call: &Call, caller: &Caller) -> Result<GovernedReply, Refusal> {
        let outcome = AuditOutcome::of(RunStatus::Cancelled.audit_word());
        let entry = call.entry(AuditEvent::McpToolCall, Some(caller), outcome, Map::new());
        self.append(vec![entry]).await?;
        Ok(reply::of_cancelled(call.run_id))
    }

    /// Checks the policy, the sandbox, the budget and the arguments of a run, in this order. Records the start of the
    /// run. The caller's permission must have been checked before.
    async fn clear(&self, call: Call, caller: Caller) -> Result<Cleared, Refusal> {
        let (policy, Checked { order, judge, budget, tier }) = match self.check(&call).await {
            Ok(checked) => checked,
            Err(refusal) => return Err(self.refused(&call, Some(&caller), refusal).await),
        };
        // These rows are written before pytest starts. If the write fails, pytest does not start.
        let rows = [
            (AuditEvent::McpToolCall, AuditOutcome::ALLOWED),
            (AuditEvent::ToolStarted, AuditOutcome::STARTED),
        ];
        let run_inputs = self.run_inputs(&policy, &order.workspace).await;
        let entry = |(event, outcome)| {
            let is_start = event == AuditEvent::ToolStarted;
            let mut details = if is_start { run_inputs.details() } else { Map::new() };
            if is_start {
                details.insert("judge".to_owned(), json!(judge.record()));
            }
            call.entry(event, Some(&caller), outcome, details)
        };
        let rows = rows.map(entry).to_vec();
        if let Err(refusal) = self.append_run(rows, &caller, &policy).await? {
            return Err(self.refused(&call, Some(&caller), refusal).await);
        }
        self.record(call.tool);
        let workspace = run_inputs.workspace;
        Ok(Cleared { call, caller, policy, order, judge, budget, tier, workspace, _sealed: () })
    }

    async fn check(&self, call: &Call) -> Result<(Arc<Policy>, Checked), Refusal> {
        let policy = self.policy().await?;
        let (tool, arguments) = (call.tool, &call.arguments);
        let checked = check_run(&policy, &*self.executor, tool, arguments, call.started).await?;
        self.require_safe_key(&policy)?;
        Ok((policy, checked))
    }

    /// Appends the rows about the start of a run. Returns `Ok(Err(…))` with the refusal if the caller has no run left
    /// today.
    async fn append_run(
        &self,
        rows: Vec<AuditEntry>,
        caller: &Caller,
        policy: &Policy,
    ) -> Result<Result<(), Refusal>, Refusal> {
        let Some(runs_max) = policy.budget.runs_per_day else {
            return self.append(rows).await.map(|_| Ok(()));
        };
        let quota = Quota { user: caller.user.clone(), runs_max };
        let appended = self.store.submit_within(rows, quota).done().await;
        let appended = appended.map_err(|error| store_failed(&error))?;
        if appended.is_some() {
            self.notify_checkpoints();
        }
        Ok(appended.map(drop).ok_or(OVER_QUOTA))
    }

    /// Returns the user of `token`. Without `token`, returns `known`, the caller that the transport has authenticated,
    /// if this authentication is still valid. Without both, returns the user of the server's own token.
    pub(super) async fn authenticate(
        &self,
        token: Option<&Secret>,
        known: Option<&Caller>,
    ) -> Result<Caller, Refusal> {
        if let (None, Some(known)) = (token, known) {
            let holds =
                self.store.holds(known.proof).await.map_err(|error| store_failed(&error))?;
            return if holds { Ok(known.clone()) } else { Err(Refusal::AuthRequired) };
        }
        let presented = token.or(self.own_token.as_ref()).map(Secret::reveal);
        let token = presented.and_then(Token::parse).ok_or(Refusal::AuthRequired)?;
        let store = self.store.clone();
        let found = blocking(move || store.authenticate(&token)).await?;
        found.map_err(|error| store_failed(&error))?.ok_or(Refusal::AuthRequired)
    }

    /// Returns the policy in its current version.
    pub(super) async fn policy(&self) -> Result<Arc<Policy>, Refusal> {
        let file = Arc::clone(&self.policy);
        let policy = blocking(move || file.current()).await?;
        policy.map_err(|error| Refusal::PolicyUnusable(error.to_string()))
    }

    /// Records a refused call, and returns the refusal. If the audit log fails, returns its error instead.
    pub(super) async fn refused(
        &self,
        call: &Call,
        caller: Option<&Caller>,
        refusal: Refusal,
    ) -> Refusal {
        let outcome = AuditOutcome::of(refusal.code().name());
        let details = refusal.audit_details();
        let mut entries = vec![call.entry(AuditEvent::McpToolCall, caller, outcome, details)];
        if refusal.code() == RefusalCode::PolicyBlocked {
            let reason = Value::from(refusal.to_string());
            let details = Map::from_iter([("blocked_reason".to_owned(), reason)]);
            entries.push(call.entry(AuditEvent::PolicyBlocked, caller, outcome, details));
        }
        match self.append(entries).await {
            Ok(place) => {
                self.write_refusal(call, caller, &refusal, place).await;
                refusal
            }
            Err(failed) => failed,
        }
    }

    /// Appends rows to the audit log. Returns the number and the hash of the last row. If the append fails, the action
    /// that the rows describe must not be performed.
    pub(super) async fn append(&self, entries: Vec<AuditEntry>) -> Result<AuditPlace, Refusal> {
        self.try_append(entries).await.map_err(|error| store_failed(&error))
    }

    /// Returns whether the audit log can be written to.
    pub(crate) async fn can_append(&self) -> bool {
        let store = self.store.clone();
        let can = blocking(move || store.can_append()).await;
        can.is_ok_and(|can| can.map_err(|error| store_failed(&error)).is_ok())
    }

    /// Appends rows like `append`, but returns the error of the store instead of a refusal, so that the append can be
    /// retried.
    pub(super) async fn try_append(
        &self,
        entries: Vec<AuditEntry>,
    ) -> Result<AuditPlace, StoreError> {
        let place = self.store.submit_entries(entries).done().await?;
        self.notify_checkpoints();
        Ok(place)
    }

    /// Notifies the writer of checkpoints that rows were appended.
    fn notify_checkpoints(&self) {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.notify();
        }
    }
}

/// The results of the checks before a run.
struct Checked {
    order: PytestOrder,
    judge: Judge,
    budget: Budget,
    tier: Option<Tier>,
}

/// Checks the policy, the sandbox, the budget and the arguments of a run. Does not check the permission, the daily
/// quota and the signing key.
async fn check_run(
    policy: &Arc<Policy>,
    executor: &dyn Executor,
    tool: GovernedTool,
    arguments: &Map<String, Value>,
    started: Instant,
) -> Result<Checked, Refusal> {
    if policy.allowlist.is_empty() {
        return Err(Refusal::NoAllowlist);
    }
    if !policy.allowlist.contains(&tool) {
        return Err(Refusal::NotInAllowlist);
    }
    if !policy.sandbox.enabled {
        return Err(Refusal::SandboxDisabled);
    }
    let root = policy.workspace_root.as_deref().ok_or_else(|| {
        Refusal::InvalidParams("the policy has no workspace; ask the admin".to_owned())
    })?;
    let readiness = executor.readiness();
    let ready =
        readiness.await.map_err(|missing| Refusal::SandboxViolation(missing.to_string()))?;
    let tier = ready.map(|ready| ready.tier);
    // A project must not run at a tier below T2. Refuse the call now, before the server starts a process.
    if let Some(tier) = tier.filter(|tier| *tier < Tier::T2) {
        return Err(Refusal::SandboxViolation(NotForProject::Tier(tier).to_string()));
    }
    let mut budget = Budget::new(started, policy);
    budget.attempt()?;
    let judged_by = Arc::clone(policy);
    let judge = blocking(move || Judge::load(&judged_by, tier)).await?;
    let judge = judge.map_err(|unusable| Refusal::PolicyUnusable(unusable.to_string()))?;
    let order = PytestOrder::parse(arguments, root, &judge)
        .map_err(|invalid| Refusal::InvalidParams(invalid.to_string()))?;
    Ok(Checked { order, judge, budget, tier })
}

/// A dry run, which checks whether a call would be permitted but does not start a run.
#[derive(Debug)]
pub(crate) struct Rehearsal<'a> {
    pub(crate) tool: GovernedTool,
    pub(crate) role: Role,
    pub(crate) arguments: &'a Map<String, Value>,
    /// The store and the user for the check of the daily quota; `None` skips this check.
    pub(crate) runs_of: Option<(&'a Store, &'a UserName)>,
}

impl Rehearsal<'_> {
    /// Returns the refusal that the call would get, or `Ok` if the call would be carried out.
    pub(crate) async fn outcome(
        &self,
        policy: &PolicyFile,
        executor: &dyn Executor,
    ) -> Result<(), Refusal> {
        if !self.role.has(self.tool.permission()) {
            return Err(Refusal::PermissionDenied);
        }
        let unusable = |error: PolicyError| Refusal::PolicyUnusable(error.to_string());
        let policy = policy.current().map_err(unusable)?;
        match self.tool {
            GovernedTool::RunPytest => {}
            GovernedTool::Read(_) => return Ok(()),
        }
        check_run(&policy, executor, self.tool, self.arguments, Instant::now()).await?;
        if let (Some(runs_max), Some((store, user))) = (policy.budget.runs_per_day, self.runs_of) {
            let runs = store.runs_of_day(user);
            if runs.map_err(|error| store_failed(&error))? >= runs_max {
                return Err(OVER_QUOTA);
            }
        }
        Ok(())
    }
}

/// Runs `work` on a separate thread, so that it does not block the async runtime.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Refusal::Internal("internal error".to_owned()))
}

impl Call {
    /// Creates an entry of the audit log about this call.
    pub(super) fn entry(
        &self,
        event: AuditEvent,
        caller: Option<&Caller>,
        outcome: AuditOutcome,
        mut details: Map<String, Value>,
    ) -> AuditEntry {
        if let (AuditEvent::McpToolCall, Some(caller)) = (event, caller) {
            details.insert("token".to_owned(), Value::from(caller.proof.to_string()));
            details.extend(self.asked_for());
        }
        AuditEntry {
            run_id: self.run_id,
            event,
            user: caller.map(|caller| caller.user.clone()),
            tool: self.tool.name().to_owned(),
            arguments_hash: Some(self.arguments_hash.clone()),
            outcome,
            details,
        }
    }
}

/// Logs a failure of the store. Returns a refusal with the remedy for the client.
pub(super) fn store_failed(error: &StoreError) -> Refusal {
    tracing::error!(error = %Causes(error), "the governance store failed");
    let message = "The audit log cannot be used, so nothing is done. Ask the admin to look at the \
                   server's log.";
    Refusal::Internal(message.to_owned())
}
