//! Handles a `tools/call` from its arguments to its reply. This module requests a decision, requests the run, and
//! builds the reply. Its functions are in this order. The gateway makes the decision, and `scripts` runs the script.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::aibom::Session;
use crate::batch::{Analysis, Verifier};
use crate::config::AdminGate;
use crate::config::Settings;
use crate::executor::{Echo, Executor, Lane, Outcome, RunLimits};
use crate::gateway::{
    Accompanying, Arguments, AskedBy, DecisionRecord, Gateway, Inputs, JobId, Stdin, Tool,
    decide_lookup,
};
use crate::governance::{Governance, GovernedCall, GovernedReply, Refusal};
use crate::jobs::{
    self, Found, Job, JobLimits, JobRegistry, JobState, Jobs, JobsAway, Order, RequestKey,
};
use crate::ledger::{Presented, Store, UserName};
use crate::postgres::Database;
use crate::receipt::Receipts;
use crate::scripts::{Decided, Permit, Request, RunRequest, Scripts, count_decision};
use crate::shares::{Held, ReplyRoom};

use super::now::Now;
use super::reply::{Reply, TextLimits};
use super::shortened::CharsMax;
use super::tools::{StatedLimits, tools};

/// The delay from the start of the server to the probe of the sandbox. The reply to `initialize` takes 2 ms, so it is
/// sent before the probe.
const WARM_UP_DELAY: Duration = Duration::from_millis(20);

/// The state that all calls share, for the lifetime of the process.
pub(crate) struct Server {
    pub(super) scripts: Arc<Scripts>,
    pub(super) jobs: Arc<dyn Jobs>,
    sync_limits: RunLimits,
    /// The maximum number of characters of a script's output in a result.
    chars_max: CharsMax,
    /// The tools for scripts, in the form that clients receive.
    pub(super) tools: [rmcp::model::Tool; 2],
    /// The limits of scripts that the texts for models contain.
    pub(super) told_limits: StatedLimits,
    /// `true` after a reply has explained why scripts run at a lower sandbox tier than possible. Later replies omit
    /// the explanation.
    is_step_down_reported: AtomicBool,
    /// The governed tools. `None` without a policy.
    pub(super) governance: Option<Arc<Governance>>,
    /// The usage record for the bill of materials. `None` if the admin wants no bill of materials.
    pub(super) session: Option<Arc<Session>>,
}

/// The data of a call besides its tool and arguments.
#[derive(Debug, Clone)]
pub(crate) struct CallContext {
    /// The identity of the request. Cancelling this request cancels the job that the call has placed.
    pub(crate) request: RequestKey,
    /// Cancelled when the client no longer wants the reply, or when the server shuts down.
    pub(crate) cancel: CancellationToken,
    /// The credentials of the caller. If the call places a job, the job belongs only to the user that the transport has
    /// authenticated.
    pub(crate) presented: Presented,
    /// The client and the model, for receipts.
    pub(crate) asked_by: AskedBy,
    /// `true` if the client accepts a task instead of the result of a background call.
    pub(crate) takes_tasks: bool,
    /// `true` while the call waits for its turn.
    pub(crate) waits_for_turn: Arc<AtomicBool>,
    /// Receives the output of a synchronous script while it runs.
    pub(crate) echo: Echo,
    /// The standard input of a synchronous script. Only `qwed-mcp run` sets it.
    pub(crate) stdin: Stdin,
    /// Files for the script that are not in the arguments. Only `qwed-mcp run` sets them.
    pub(crate) inputs: Inputs,
}

impl CallContext {
    /// Returns the model, if the client names it.
    fn model(&self) -> Option<&str> {
        self.asked_by.model.as_deref()
    }
}

impl Server {
    pub(crate) fn new(
        settings: &Settings,
        executor: Arc<dyn Executor>,
        governance: Option<Arc<Governance>>,
        session: Option<Arc<Session>>,
        receipts: Option<&Arc<Receipts>>,
    ) -> Self {
        let mut limits = JobLimits::new(settings.background_timeout, settings.job_ttl);
        limits.share = settings.user_share;
        let scripts = Scripts::new(settings, Gateway::blocking(settings), executor)
            .with_governance(governance.clone())
            .with_session(session.clone())
            .with_receipts(receipts);
        let scripts = Arc::new(scripts);
        Self {
            jobs: Arc::new(JobRegistry::new(Arc::clone(&scripts), limits)),
            scripts,
            sync_limits: RunLimits::of_script(settings.sync_timeout),
            chars_max: CharsMax(settings.result_chars),
            tools: tools(settings),
            told_limits: StatedLimits::of(settings),
            is_step_down_reported: AtomicBool::new(false),
            governance,
            session,
        }
    }

    /// Returns the store of tokens and of the audit log. `None` without a policy.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.governance.as_ref().map(|governance| governance.store())
    }

    /// Shares the background jobs with all replicas that use this database. This server runs none of them before
    /// [`Self::start_jobs`].
    pub(crate) fn with_shared_jobs(self, settings: &Settings, database: Database) -> Self {
        let jobs = jobs::share(database, Arc::clone(&self.scripts), settings);
        Self { jobs, ..self }
    }

    /// Returns the verifier for scripts that arrive over HTTP outside of MCP. These scripts wait for their turns in the
    /// same queue as the scripts of calls.
    pub(crate) fn verifier(&self) -> Verifier {
        Verifier::new(Arc::clone(&self.scripts), Analysis::Blocks, false)
    }

    /// Sets the store of tokens. The caller's token is checked in this store again whenever a script starts.
    pub(crate) fn set_tokens(&self, store: &Store) {
        self.scripts.set_tokens(store.clone());
    }

    /// Starts to run the background jobs that replicas share. Called once, after [`Self::set_tokens`], because jobs of
    /// users fail on a server that cannot check their tokens.
    pub(crate) fn start_jobs(&self) {
        self.jobs.start();
    }

    pub(crate) async fn now(&self) -> Now {
        Now {
            jobs: self.jobs.by_state().await,
            turns_free: self.scripts.turns().free(Lane::Calls),
            calls_waiting: self.scripts.turns().waiting(Lane::Calls),
            fork_servers: self.scripts.fork_servers(),
            tier: self.scripts.tier(),
        }
    }

    /// Stops taking background jobs from the queue that replicas share. Returns when the jobs that run on this server
    /// have ended.
    pub(crate) async fn drain(&self) {
        self.jobs.drain().await;
    }

    /// Returns whether scripts can run on this server. The error is the reason why they cannot.
    pub(crate) async fn readiness(&self) -> Result<(), String> {
        if self.scripts.admin_gate() == AdminGate::Closed {
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
        match self.scripts.readiness().await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err("there is no Python interpreter for scripts".to_owned()),
            Err(missing) => Err(missing.to_string()),
        }
    }

    /// Carries out a call of `tool`, or refuses the call.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Arguments,
        caller: CallContext,
    ) -> Reply {
        if tool == Tool::ExecutePythonCode.name() {
            return self.call_script(arguments, caller).await;
        }
        match decide_lookup(tool, arguments) {
            Ok((record, job)) => {
                count_decision(&record);
                tracing::info!(id = %record.verification_id, "allowed");
                self.job_status(&record, job, caller.presented.user()).await
            }
            Err(record) => {
                count_decision(&record);
                tracing::info!(code = ?record.error_code, id = %record.verification_id, "blocked");
                Reply::blocked(&record, None)
            }
        }
    }

    /// Decides whether the script of a call may run. If the script is allowed, runs it or places it as a job.
    async fn call_script(&self, arguments: Arguments, caller: CallContext) -> Reply {
        let request = Request {
            arguments,
            with: Accompanying { inputs: caller.inputs.clone(), ..Accompanying::default() },
            presented: caller.presented.clone(),
            asked_by: caller.asked_by.clone(),
            cancel: caller.cancel.clone(),
        };
        match self.scripts.decide(request).await {
            Decided::Allowed { record, permit } if permit.is_background() => {
                self.place(&record, permit, caller).await
            }
            Decided::Allowed { record, permit } => self.run(&record, &permit, caller).await,
            Decided::Refused { record, receipt } => {
                let reply = Reply::blocked(&record, caller.model());
                match receipt {
                    Some(receipt) => reply.with_receipt(json!(receipt)),
                    None => reply,
                }
            }
            Decided::Withdrawn(record) => Reply::cancelled(&record, caller.model()),
            Decided::Denied { record, refusal } => Reply::not_audited(&record, &refusal),
        }
    }

    async fn place(&self, record: &DecisionRecord, permit: Permit, caller: CallContext) -> Reply {
        let CallContext { request, cancel, takes_tasks, asked_by, .. } = caller;
        let model = asked_by.model.as_deref();
        // If the client has cancelled the call during the analysis, `notifications/cancelled` found no job to cancel.
        // So do not place a job now.
        if cancel.is_cancelled() {
            return Reply::cancelled(record, model);
        }
        // A task outlives its request, so cancelling the request must not cancel the task.
        let placed_by = (!takes_tasks).then_some(request);
        let (decision, user) = (record.without_arguments(), permit.user().cloned());
        let placed = self.jobs.place(Order { permit, decision, placed_by }).await;
        // If the client has cancelled the call while the database stored the job, `notifications/cancelled` may have
        // found no job either.
        if let Ok(job) = &placed
            && !takes_tasks
            && cancel.is_cancelled()
        {
            // If the database cannot be reached, the job runs. The error is logged.
            let _ = self.jobs.cancel(job.id, user.as_ref()).await;
            return Reply::cancelled(record, model);
        }
        Reply::placed(record, placed, takes_tasks)
    }

    async fn run(&self, record: &DecisionRecord, permit: &Permit, caller: CallContext) -> Reply {
        let CallContext { cancel, waits_for_turn, echo, stdin, asked_by, .. } = caller;
        let model = asked_by.model.as_deref();
        let limits = self.sync_limits;
        let request = RunRequest { stdin, echo, ..RunRequest::new(limits, cancel.clone()) };
        let turn = self.scripts.turn(permit, &request, Lane::Calls, &waits_for_turn, &cancel);
        let Some(turn) = turn.await else { return Reply::cancelled(record, model) };
        let run = self.scripts.run(permit, &turn, request).await;
        // If the user is authenticated, release the turn before the wait for memory, so that other users can run
        // scripts. A client without a user keeps its turn, so that the number of turns limits the number of unread
        // outputs of such clients.
        let user = permit.user().map(UserName::as_str);
        let _turn = user.is_none().then_some(turn);
        let bytes = run.as_ref().map_or(0, Outcome::output_bytes);
        let room = self.scripts.turns().room_for(user, bytes).await;
        let limits = self.text_limits(self.sync_limits.timeout);
        let reply = Reply::ran(record, model, run.as_ref(), limits);
        self.with_step_down(reply).in_room(room)
    }

    /// Answers a call that looks up a job.
    async fn job_status(
        &self,
        record: &DecisionRecord,
        id: JobId,
        user: Option<&UserName>,
    ) -> Reply {
        if let Some(session) = &self.session {
            session.record_tool(Tool::VerificationStatus.name());
        }
        let (job, room) = match self.job(id, user).await {
            Ok(found) => found,
            Err(away) => return Reply::jobs_away(record, away),
        };
        let limits = self.text_limits(self.jobs.timeout());
        let reply = Reply::job_status(record, id, job.as_ref(), &*self.jobs, limits);
        self.with_step_down(reply).in_room(room)
    }

    /// Returns a job of `user`. If the job has ended, also returns the reply that a synchronous call would have had.
    pub(crate) async fn task(
        &self,
        id: JobId,
        user: Option<&UserName>,
    ) -> Result<Option<(Job, Option<Reply>)>, JobsAway> {
        let (Some(job), room) = self.job(id, user).await? else { return Ok(None) };
        let reply = match &job.state {
            JobState::Queued | JobState::Running => None,
            JobState::Ended(end) => {
                let reply = Reply::task_result(&job, end, self.text_limits(self.jobs.timeout()));
                Some(self.with_step_down(reply).in_room(room))
            }
        };
        Ok(Some((job, reply)))
    }

    /// Returns a job of `user`, and the memory that is reserved for the reply about the job. A large output is fetched
    /// only after the memory for it is reserved.
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
                    room = self.scripts.turns().room_for(user.map(UserName::as_str), bytes).await;
                    bytes_max = bytes;
                }
            }
        }
    }

    /// Carries out a call of a governed tool, or refuses the call.
    pub(crate) async fn call_governed(
        &self,
        governance: &Governance,
        call: GovernedCall,
    ) -> (Uuid, Result<GovernedReply, Refusal>, Option<Held>) {
        let user = call.presented.user().cloned();
        let (run_id, reply) = governance.call(call).await;
        let bytes = reply.as_ref().map_or(0, GovernedReply::bytes);
        let user = user.as_ref().map(UserName::as_str);
        let room = self.scripts.turns().room_for(user, bytes).await;
        (run_id, reply, room)
    }

    fn text_limits(&self, timeout: Duration) -> TextLimits {
        TextLimits { timeout, chars_max: self.chars_max }
    }

    /// If the script ran at a lower sandbox tier than possible, adds the reason to the reply.
    fn with_step_down(&self, reply: Reply) -> Reply {
        let Some(step_down) = self.scripts.step_down() else { return reply };
        reply.with_step_down(step_down, &self.is_step_down_reported)
    }

    /// Removes the runs that exceed the policy's retention, and probes the sandbox before the first script arrives.
    /// First waits briefly, so that the server sends its first reply without delay.
    pub(crate) async fn warm_up(&self) {
        sleep(WARM_UP_DELAY).await;
        if let Some(governance) = &self.governance {
            governance.retain();
        }
        self.scripts.warm_up().await;
    }

    /// Ends jobs and warm interpreters. Returns when their processes have ended.
    pub(crate) async fn shut_down(&self) {
        self.scripts.shut_down(self.jobs.shut_down()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use futures_util::future::BoxFuture;
    use serde_json::json;

    use super::*;
    use crate::executor::Ending;
    use crate::executor::fake::FakeExecutor;
    use crate::jobs::PlaceError;
    use crate::server::CallEnd;

    fn server(never_ready: bool) -> (Arc<FakeExecutor>, Server) {
        let mut fake = FakeExecutor::new(|_, _, _| {
            Box::pin(async {
                Ok(Outcome { ending: Ending::Exited(0), ..Outcome::never_started() })
            })
        });
        fake.never_ready = never_ready;
        let executor = Arc::new(fake);
        (executor.clone(), Server::new(&settings(), executor, None, None, None))
    }

    fn settings() -> Settings {
        let gate = |name: &str| (name == "QWED_MCP_TRUSTED_CODE_EXECUTION").then(|| "true".into());
        Settings::from_lookup(gate).0
    }

    fn nobody(cancel: CancellationToken) -> CallContext {
        CallContext {
            request: RequestKey("1".to_owned()),
            cancel,
            presented: Presented::default(),
            asked_by: AskedBy::default(),
            takes_tasks: false,
            waits_for_turn: Arc::default(),
            echo: Echo::default(),
            stdin: Stdin::default(),
            inputs: Inputs::default(),
        }
    }

    async fn call(server: &Server, background: bool, cancel: CancellationToken) -> Reply {
        let caller = nobody(cancel);
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
        // Without the cancellation, the same call runs its script.
        let (executor, server) = server(false);
        let reply = call(&server, false, CancellationToken::new()).await;
        assert_eq!(reply.end, CallEnd::Ran(Ending::Exited(0)), "{reply:?}");
        assert_eq!(executor.runs(), 1);
    }

    /// Jobs in memory. Each placement cancels `cancel`, like a client that cancels its call during the placement.
    struct CancelledMeanwhile {
        jobs: Arc<dyn Jobs>,
        cancel: CancellationToken,
        placed: OnceLock<JobId>,
    }

    impl Jobs for CancelledMeanwhile {
        fn place(&self, order: Order) -> BoxFuture<'_, Result<Job, PlaceError>> {
            Box::pin(async move {
                self.cancel.cancel();
                let job = self.jobs.place(order).await?;
                self.placed.set(job.id).unwrap();
                Ok(job)
            })
        }

        fn job<'a>(
            &'a self,
            id: JobId,
            user: Option<&'a UserName>,
            bytes_max: usize,
        ) -> BoxFuture<'a, Result<Found, JobsAway>> {
            self.jobs.job(id, user, bytes_max)
        }

        fn cancel<'a>(
            &'a self,
            id: JobId,
            user: Option<&'a UserName>,
        ) -> BoxFuture<'a, Result<bool, JobsAway>> {
            self.jobs.cancel(id, user)
        }

        fn cancel_placed_by(&self, request: &RequestKey) {
            self.jobs.cancel_placed_by(request);
        }

        fn by_state(&self) -> BoxFuture<'_, Option<[(&'static str, usize); 3]>> {
            self.jobs.by_state()
        }

        fn timeout(&self) -> Duration {
            self.jobs.timeout()
        }

        fn shut_down(&self) -> BoxFuture<'_, ()> {
            self.jobs.shut_down()
        }
    }

    #[tokio::test]
    async fn a_job_is_cancelled_if_its_call_is_cancelled_while_it_is_placed() {
        for (takes_tasks, expected) in [(false, "cancelled"), (true, "success")] {
            let (_, server) = server(false);
            let cancel = CancellationToken::new();
            let jobs = Arc::new(CancelledMeanwhile {
                jobs: Arc::clone(&server.jobs),
                cancel: cancel.clone(),
                placed: OnceLock::new(),
            });
            let server = Server { jobs: jobs.clone(), ..server };
            let caller = CallContext { takes_tasks, ..nobody(cancel) };
            let arguments = json!({ "code": "print(1)", "background": true });
            let arguments = arguments.as_object().unwrap().clone();
            let reply = server.call("execute_python_code", arguments, caller).await;
            assert_eq!(reply.is_error, !takes_tasks, "{reply:?}");
            let id = *jobs.placed.get().unwrap();
            let state = loop {
                let (job, _) = server.job(id, None).await.unwrap();
                let state = job.unwrap().state.as_str();
                if !["queued", "running"].contains(&state) {
                    break state;
                }
                sleep(Duration::from_millis(1)).await;
            };
            assert_eq!(state, expected);
        }
    }

    /// The routes by which users send scripts.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Route {
        Calls,
        Pipelines,
        Jobs,
    }

    async fn send(server: &Server, verifier: &Verifier, route: Route, user: &str) {
        use crate::batch::{Bounds, Single, answer_one};
        use crate::ledger::{Caller, Proof, Role};

        let expires = chrono::Utc::now() + chrono::TimeDelta::hours(1);
        let proof = Proof::Access { expires };
        let known = Caller { user: user.parse().unwrap(), role: Role::User, proof };
        let presented = Presented { token: None, known: Some(known) };
        let code = format!("# {user}");
        if route == Route::Pipelines {
            let line = json!({ "code": code }).to_string();
            let bounds = Bounds { timeout: Duration::from_secs(1), memory_mb: 64 };
            let single = Single::Line(line.into_bytes());
            answer_one(verifier, single, bounds, &presented, CancellationToken::new()).await;
            return;
        }
        let caller = CallContext { presented, ..nobody(CancellationToken::new()) };
        let arguments = json!({ "code": code, "background": route == Route::Jobs });
        let arguments = arguments.as_object().unwrap().clone();
        let reply = server.call("execute_python_code", arguments, caller).await;
        assert!(!reply.is_error, "{reply:?}");
    }

    #[tokio::test]
    async fn a_user_with_one_script_comes_right_after_one_of_a_user_with_sixty_on_every_route() {
        use std::sync::Mutex;

        // Each row contains a route, the number of scripts that ann sends, and the number of these scripts that start
        // before bob's script. ann sends only 30 jobs, because 60 jobs would exceed one user's share. Five jobs run at
        // once.
        for (route, count, before) in
            [(Route::Calls, 60, 1), (Route::Pipelines, 60, 1), (Route::Jobs, 30, 5)]
        {
            let order = Arc::new(Mutex::new(Vec::new()));
            let begun = Arc::clone(&order);
            let executor = Arc::new(FakeExecutor::new(move |script, _, _| {
                begun.lock().unwrap().push(script.source().as_str().to_owned());
                Box::pin(async {
                    sleep(Duration::from_millis(1)).await;
                    Ok(Outcome { ending: Ending::Exited(0), ..Outcome::never_started() })
                })
            }));
            let server = Server::new(&settings(), executor, None, None, None);
            let verifier = server.verifier();
            let users = std::iter::repeat_n("ann", count).chain(["bob"]);
            let sent = users.map(|user| send(&server, &verifier, route, user));
            futures_util::future::join_all(sent).await;
            while order.lock().unwrap().len() <= count {
                sleep(Duration::from_millis(1)).await;
            }
            let order = order.lock().unwrap();
            let place = order.iter().position(|script| script == "# bob").unwrap();
            assert_eq!(place, before, "{route:?}: {order:?}");
        }
    }
}
