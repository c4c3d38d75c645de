//! A `tools/call` from its arguments to its reply, top to bottom: decide, run, answer.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use uuid::Uuid;

use crate::aibom::Session;
#[cfg(feature = "http")]
use crate::batch::{Shared, Verifier};
use crate::config::{AdminGate, Settings};
use crate::executor::{Echo, Executor, Lane, Outcome, Readiness, RunLimits, StepDown, Turns};
use crate::gateway::{
    Arguments, AskedBy, AuthorizedScript, Decision, DecisionRecord, Evaluation, Grant, JobId,
    RiskBasedExecutionGateway, Stdin, Tool,
};
#[cfg(feature = "http")]
use crate::governance::Bearers;
use crate::governance::{
    Governance, GovernedCall, GovernedReply, Presented, Proof, Refusal, UserName,
};
use crate::jobs::{
    Found, Job, JobLimits, JobRegistry, JobState, Jobs, JobsAway, Order, RequestKey,
};
#[cfg(feature = "postgres")]
use crate::jobs::{SharedJobs, SharedLimits};
use crate::logging::{Causes, SPANS};
#[cfg(feature = "http")]
use crate::meter::Meter;
#[cfg(feature = "postgres")]
use crate::postgres::Database;
use crate::receipt::{AuditPlace, Receipts};
use crate::scripts::Runs;
use crate::shares::{Held, ReplyRoom};

#[cfg(feature = "http")]
use super::now::Now;
use super::reply::Reply;
use super::tools::{ToldLimits, tools};

/// Scripts up to this size are analysed in place, which takes below a millisecond; larger ones on
/// another thread, so that nobody waits for it.
const ANALYSED_IN_PLACE_BYTES_MAX: usize = 8 * 1024;

/// The delay after the start until the sandbox is tried out: the reply to `initialize` takes 2 ms.
const WARM_UP_DELAY: Duration = Duration::from_millis(20);

/// Everything a call needs, for as long as the process lives.
pub(crate) struct Server {
    gateway: Arc<RiskBasedExecutionGateway>,
    executor: Arc<dyn Executor>,
    pub(super) runs: Arc<Runs>,
    pub(super) jobs: Arc<dyn Jobs>,
    /// The turns of all runs.
    turns: Arc<Turns>,
    sync_limits: RunLimits,
    /// Room for what calls and the scripts of pipelines print.
    replies: Arc<ReplyRoom>,
    /// The tools about scripts, as clients are told of them.
    pub(super) tools: [rmcp::model::Tool; 2],
    /// The limits of scripts, as models are told them.
    pub(super) told_limits: ToldLimits,
    /// The reason why scripts run at a lower tier than they could, once that is known.
    step_down: OnceLock<StepDown>,
    /// The tier of the sandbox, once that is known; `none` without an interpreter.
    #[cfg(feature = "http")]
    tier: OnceLock<&'static str>,
    /// `true` once a model has read that reason.
    is_step_down_told: AtomicBool,
    /// The governed tools, where the admin has a policy for them.
    pub(super) governance: Option<Arc<Governance>>,
    /// The account of what is used, where a bill of materials is wanted.
    pub(super) session: Option<Arc<Session>>,
    /// The writer of receipts, where scripts leave some.
    receipts: Option<Arc<Receipts>>,
}

/// The caller of a tool, as far as a call has to do with it.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// Names the request, for cancelling what it placed.
    pub(crate) request: RequestKey,
    /// Cancelled when the caller no longer wants the reply, or the server ends.
    pub(crate) cancel: CancellationToken,
    /// What the caller shows of itself. Jobs are of the user that the transport has let in, and of nobody else.
    pub(crate) presented: Presented,
    /// Who it is, for receipts.
    pub(crate) asked_by: AskedBy,
    /// `true` if the caller takes a task in place of the result of a background call.
    pub(crate) takes_tasks: bool,
    /// Is set as long as the call waits for its turn.
    pub(crate) waits_for_turn: Arc<AtomicBool>,
    /// Hears what a synchronous script prints, while it runs.
    pub(crate) echo: Echo,
    /// What a synchronous script reads: nothing, but for `qwed-mcp run`.
    pub(crate) stdin: Stdin,
}

impl Server {
    pub(crate) fn new(
        settings: &Settings,
        executor: Arc<dyn Executor>,
        governance: Option<Arc<Governance>>,
        session: Option<Arc<Session>>,
        receipts: Option<&Arc<Receipts>>,
    ) -> Self {
        let receipts = receipts.and_then(Receipts::of_scripts);
        let mut limits = JobLimits::new(settings.background_timeout, settings.job_ttl);
        limits.share = settings.user_share;
        let runs = Runs::new(Arc::clone(&executor), governance.clone(), session.clone());
        let runs = Arc::new(runs.with_receipts(receipts));
        let turns = match &governance {
            Some(governance) => Arc::clone(governance.turns()),
            None => Arc::new(Turns::of(settings)),
        };
        let jobs = JobRegistry::new(Arc::clone(&runs), Arc::clone(&turns), limits);
        Self {
            gateway: Arc::new(RiskBasedExecutionGateway::from_settings(settings)),
            jobs: Arc::new(jobs),
            executor,
            runs,
            turns,
            sync_limits: RunLimits::of_script(settings.sync_timeout),
            replies: Arc::new(ReplyRoom::new(settings.user_share)),
            tools: tools(settings),
            told_limits: ToldLimits::of(settings),
            step_down: OnceLock::new(),
            #[cfg(feature = "http")]
            tier: OnceLock::new(),
            is_step_down_told: AtomicBool::new(false),
            governance,
            session,
            receipts: receipts.cloned(),
        }
    }

    /// Has all replicas with this database share their background jobs.
    #[cfg(feature = "postgres")]
    pub(crate) fn with_shared_jobs(self, settings: &Settings, database: Database) -> Self {
        let mut limits = SharedLimits::new(settings.background_timeout, settings.job_ttl);
        limits.share = settings.user_share;
        let (executor, gateway) = (Arc::clone(&self.executor), Arc::clone(&self.gateway));
        let jobs = SharedJobs::start(database, Arc::clone(&self.runs), executor, gateway, limits);
        Self { jobs: Arc::new(jobs), ..self }
    }

    /// Returns what runs the scripts of pipelines, in turn with those of calls.
    #[cfg(feature = "http")]
    pub(crate) fn verifier(&self) -> Verifier {
        let (gateway, executor) = (Arc::clone(&self.gateway), Arc::clone(&self.executor));
        let runs = Arc::clone(&self.runs);
        let shared = Shared { turns: Arc::clone(&self.turns), replies: Arc::clone(&self.replies) };
        Verifier::of_server(gateway, executor, runs, shared, self.governance.clone())
    }

    /// Has decisions, waits, runs and what the store is asked for counted from here on.
    #[cfg(feature = "http")]
    pub(crate) fn set_meter(&self, meter: &Arc<dyn Meter>) {
        self.runs.set_meter(Arc::clone(meter));
        self.turns.set_meter(Arc::clone(meter));
        if let Some(governance) = &self.governance {
            governance.set_meter(Arc::clone(meter));
        }
    }

    /// Has the tokens that let callers in looked up again when a script of theirs starts.
    #[cfg(feature = "http")]
    pub(crate) fn set_tokens(&self, bearers: &Bearers) {
        if let Some(store) = bearers.store() {
            self.runs.set_tokens(store.clone());
        }
    }

    /// Returns what the server does at this moment.
    #[cfg(feature = "http")]
    pub(crate) async fn now(&self) -> Now {
        Now {
            jobs: self.jobs.by_state().await,
            turns_free: self.turns.free(Lane::Calls),
            calls_waiting: self.turns.waiting(Lane::Calls),
            fork_servers: self.executor.fork_servers(),
            tier: self.tier.get().copied(),
        }
    }

    /// Takes no more background jobs of other replicas, and returns when those that run here have ended.
    #[cfg(feature = "http")]
    pub(crate) async fn drain(&self) {
        self.jobs.drain().await;
    }

    /// Returns whether scripts can run here, or what is in their way.
    #[cfg(feature = "http")]
    pub(crate) async fn readiness(&self) -> Result<(), String> {
        if self.gateway.admin_gate() == AdminGate::Closed {
            return Err("QWED_MCP_TRUSTED_CODE_EXECUTION is not true".to_owned());
        }
        if !self.jobs.are_available().await {
            return Err("background jobs cannot be placed in the database".to_owned());
        }
        if let Some(governance) = &self.governance
            && !governance.can_append().await
        {
            return Err("the audit log cannot be written to".to_owned());
        }
        self.contained().await.map(drop).map_err(|missing| missing.to_string())
    }

    /// Carries out the call of `tool`, if it may be.
    pub(crate) async fn call(&self, tool: &str, arguments: Arguments, mut caller: Caller) -> Reply {
        let deciding = tracing::info_span!(target: SPANS, "gateway.decide");
        let decision = self.decide(tool, arguments, &caller.cancel).instrument(deciding).await;
        #[cfg(feature = "http")]
        self.runs.count_decision(decision.record());
        let (place, proof) = match self.audit(&decision, &mut caller).await {
            Ok(written) => written,
            Err(refusal) => return Reply::not_audited(decision.record(), &refusal),
        };
        let (record, grant) = match decision {
            Decision::Allow { record, grant } => (record, grant),
            Decision::Refuse(record) => {
                tracing::info!(code = ?record.error_code, id = %record.verification_id, "blocked");
                return self.refused(&record, &caller.asked_by, place).await;
            }
            Decision::Withdrawn(record) => return Reply::cancelled(&record),
        };
        tracing::info!(id = %record.verification_id, "allowed");
        if let Some(session) = &self.session {
            session.record_tool(tool);
        }
        match grant {
            Grant::Execute(script) => {
                let script = script.with_asked_by(caller.asked_by.clone());
                self.run(&record, script, proof, &caller).await
            }
            // Cancelled while it was being analysed; later, `notifications/cancelled` finds the job.
            Grant::ExecuteInBackground(_) if caller.cancel.is_cancelled() => {
                Reply::cancelled(&record)
            }
            Grant::ExecuteInBackground(script) => {
                // Cancelling a request that was answered with a task must not cancel the task.
                let script = script.with_asked_by(caller.asked_by);
                let placed_by = (!caller.takes_tasks).then_some(caller.request);
                let decision = record.without_arguments();
                let user = caller.presented.user().cloned();
                let order = Order { script, decision, placed_by, user, proof };
                let placed = self.jobs.place(order).await;
                Reply::placed(&record, placed, caller.takes_tasks)
            }
            Grant::JobStatus(id) => {
                let (job, room) = match self.job(id, caller.presented.user()).await {
                    Ok(found) => found,
                    Err(away) => return Reply::jobs_away(&record, away),
                };
                let reply = Reply::job_status(&record, id, job.as_ref(), &*self.jobs);
                self.with_step_down(reply).in_room(room)
            }
        }
    }

    /// Decides about a call.
    async fn decide(
        &self,
        tool: &str,
        arguments: Arguments,
        cancel: &CancellationToken,
    ) -> Decision {
        match self.evaluate(tool, arguments).await {
            Evaluation::Decided(decision) => decision,
            Evaluation::Verified(verified) => match self.sandbox_ready(cancel).await {
                Some(sandbox) => verified.confirm(sandbox),
                None => verified.withdraw(),
            },
        }
    }

    /// Returns a user's job, and where it has ended the reply to a caller who had waited for it.
    pub(crate) async fn task(
        &self,
        id: JobId,
        user: Option<&UserName>,
    ) -> Result<Option<(Job, Option<Reply>)>, JobsAway> {
        let (Some(job), room) = self.job(id, user).await? else { return Ok(None) };
        let reply = match &job.state {
            JobState::Queued | JobState::Running => None,
            JobState::Ended(end) => {
                let reply = Reply::task_result(&job, end, self.jobs.timeout());
                Some(self.with_step_down(reply).in_room(room))
            }
        };
        Ok(Some((job, reply)))
    }

    /// Returns a user's job, with room for the reply about it. What it printed is fetched when that room is there.
    async fn job(
        &self,
        id: JobId,
        user: Option<&UserName>,
    ) -> Result<(Option<Job>, Option<Held>), JobsAway> {
        let (mut room, mut bytes_max) = (None, ReplyRoom::SMALL_BYTES);
        loop {
            match self.jobs.job(id, user, bytes_max).await? {
                Found::Job(job) => return Ok((Some(job), room)),
                Found::Nothing => return Ok((None, None)),
                Found::Larger(bytes) => {
                    drop(room.take());
                    room = self.replies.room_for(user.map(UserName::as_str), bytes).await;
                    bytes_max = bytes;
                }
            }
        }
    }

    /// Carries out the call of a governed tool, if it may be.
    pub(crate) async fn call_governed(
        &self,
        governance: &Governance,
        call: GovernedCall,
    ) -> (Uuid, Result<GovernedReply, Refusal>, Option<Held>) {
        let user = call.presented.user().cloned();
        let (run_id, reply) = governance.call(call).await;
        let bytes = reply.as_ref().map_or(0, GovernedReply::bytes);
        let user = user.as_ref().map(UserName::as_str);
        let room = self.replies.room_for(user, bytes).await;
        (run_id, reply, room)
    }

    /// Runs `script` when it is its turn.
    async fn run(
        &self,
        record: &DecisionRecord,
        script: AuthorizedScript,
        proof: Option<Proof>,
        caller: &Caller,
    ) -> Reply {
        let cancel = caller.cancel.clone();
        let user = caller.presented.user().map(UserName::as_str);
        let waiting = tracing::info_span!(target: SPANS, "queue.wait");
        let waits = &caller.waits_for_turn;
        let turn = self.turns.take_with_room(&self.replies, Lane::Calls, user, waits, &cancel);
        let Some(turn) = turn.instrument(waiting).await else { return Reply::cancelled(record) };
        let script = script.with_stdin(caller.stdin.clone());
        let running = tracing::info_span!(target: SPANS, "sandbox.run");
        let run = self.runs.run(script, proof, self.sync_limits, cancel, caller.echo.clone());
        let run = run.instrument(running).await;
        // Other users go on while this one waits for room. A client that is no user keeps its turn, which bounds the
        // outputs that wait for it to read.
        let _turn = user.is_none().then_some(turn);
        let bytes = run.as_ref().map_or(0, Outcome::output_bytes);
        let room = self.replies.room_for(user, bytes).await;
        let reply = Reply::ran(record, run.as_ref(), self.sync_limits.timeout);
        self.with_step_down(reply).in_room(room)
    }

    /// Adds to a reply why its run had less of the sandbox than there could be, if it had.
    fn with_step_down(&self, reply: Reply) -> Reply {
        let Some(step_down) = self.step_down.get() else { return reply };
        reply.with_step_down(step_down, &self.is_step_down_told)
    }

    /// Returns the reply to a refused call. One of a script leaves a receipt, where there are some.
    async fn refused(
        &self,
        record: &DecisionRecord,
        asked_by: &AskedBy,
        place: Option<AuditPlace>,
    ) -> Reply {
        let reply = Reply::blocked(record);
        match &self.receipts {
            Some(receipts) if record.tool == Some(Tool::ExecutePythonCode) => {
                match Box::pin(receipts.refused(record, asked_by, place)).await {
                    Ok(receipt) => reply.with_receipt(json!(receipt)),
                    // It is refused all the same.
                    Err(error) => {
                        tracing::error!(error = %Causes(&error), "no receipt");
                        reply
                    }
                }
            }
            Some(_) | None => reply,
        }
    }

    /// Writes a decision about a script to the audit log, where there is one. The user of the caller's token is
    /// known then. Returns the place of the row, and the proof that must hold when the script starts.
    async fn audit(
        &self,
        decision: &Decision,
        caller: &mut Caller,
    ) -> Result<(Option<AuditPlace>, Option<Proof>), Refusal> {
        match &self.governance {
            Some(governance) if decision.record().tool == Some(Tool::ExecutePythonCode) => {
                let written = governance.script_decided(decision, &caller.presented).await?;
                (caller.asked_by.user, caller.asked_by.token) = written.user_and_token();
                Ok((written.place, written.proof))
            }
            Some(_) | None => Ok((None, caller.presented.proof())),
        }
    }

    /// Returns whether scripts can be contained, or what is missing for that; `None` if the caller gave
    /// up before that was known.
    async fn sandbox_ready(&self, cancel: &CancellationToken) -> Option<Result<(), String>> {
        tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            readiness = self.contained() => Some(match readiness {
                Ok(ready) => {
                    if let Some(step_down) = ready.and_then(|ready| ready.step_down) {
                        self.step_down.get_or_init(|| step_down);
                    }
                    Ok(())
                }
                Err(missing) => Err(missing.to_string()),
            }),
        }
    }

    /// Tests whether scripts can be contained, and remembers at which tier.
    async fn contained(&self) -> Readiness {
        let readiness = self.executor.readiness().await;
        #[cfg(feature = "http")]
        if let Ok(ready) = &readiness {
            let tier = ready.as_ref().map_or("none", |ready| ready.tier.as_str());
            self.tier.get_or_init(|| tier);
        }
        readiness
    }

    /// Tests whether scripts can be contained before the first one comes, and removes old runs that
    /// were not removed before. Not at once: the client is waiting for its first reply.
    pub(crate) async fn warm_up(&self) {
        sleep(WARM_UP_DELAY).await;
        if let Some(governance) = &self.governance {
            governance.retain();
        }
        if self.gateway.admin_gate() == AdminGate::Closed {
            return;
        }
        // The reason why not is in the log.
        if self.contained().await.is_ok() {
            self.executor.warm_up();
        }
    }

    /// Ends jobs and warm interpreters, and returns when they are gone.
    pub(crate) async fn shut_down(&self) {
        let runs = async {
            self.jobs.shut_down().await;
            self.runs.shut_down().await;
        };
        tokio::join!(runs, self.executor.shut_down());
    }

    /// Has the gateway check a call, where a large script holds up nobody else.
    async fn evaluate(&self, tool: &str, arguments: Arguments) -> Evaluation {
        let is_large = arguments
            .get("code")
            .and_then(|code| code.as_str())
            .is_some_and(|code| code.len() > ANALYSED_IN_PLACE_BYTES_MAX);
        if !is_large {
            return self.gateway.evaluate(tool, arguments);
        }
        let gateway = Arc::clone(&self.gateway);
        let tool = tool.to_owned();
        match spawn_blocking(move || gateway.evaluate(&tool, arguments)).await {
            Ok(evaluation) => evaluation,
            // The panic goes on here, where the caller of this call catches it.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::executor::fake::FakeExecutor;
    use crate::executor::{Ending, Outcome};
    use crate::server::CallEnd;

    fn server(never_ready: bool) -> (Arc<FakeExecutor>, Server) {
        let mut fake = FakeExecutor::new(|_, _, _| {
            Box::pin(async {
                Ok(Outcome { ending: Ending::Exited(0), ..Outcome::never_started() })
            })
        });
        fake.never_ready = never_ready;
        let executor = Arc::new(fake);
        let gate = |name: &str| (name == "QWED_MCP_TRUSTED_CODE_EXECUTION").then(|| "true".into());
        let (settings, _) = Settings::from_lookup(gate);
        (executor.clone(), Server::new(&settings, executor, None, None, None))
    }

    async fn call(server: &Server, background: bool, cancel: CancellationToken) -> Reply {
        let request = RequestKey("1".to_owned());
        let caller = Caller {
            request,
            cancel,
            presented: Presented::default(),
            asked_by: AskedBy::default(),
            takes_tasks: false,
            waits_for_turn: Arc::default(),
            echo: Echo::default(),
            stdin: Stdin::default(),
        };
        let arguments = json!({ "code": "print(1)", "background": background });
        let arguments = arguments.as_object().unwrap().clone();
        server.call("execute_python_code", arguments, caller).await
    }

    #[tokio::test]
    async fn a_caller_who_leaves_before_the_sandbox_is_known_permits_nothing() {
        for background in [false, true] {
            let (executor, server) = server(true);
            let cancel = CancellationToken::new();
            let leave = async {
                tokio::task::yield_now().await;
                cancel.cancel();
            };
            let (reply, ()) = tokio::join!(call(&server, background, cancel.clone()), leave);
            assert!(reply.is_error);
            assert_eq!(reply.texts, ["Execution was cancelled."]);
            assert_eq!(executor.runs(), 0);
        }
        // The same call of a caller who stays.
        let (executor, server) = server(false);
        let reply = call(&server, false, CancellationToken::new()).await;
        assert_eq!(reply.end, CallEnd::Ran(Ending::Exited(0)), "{reply:?}");
        assert_eq!(executor.runs(), 1);
    }
}
