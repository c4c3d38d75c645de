//! Converts rmcp's requests into calls, and replies into rmcp's results. This module never reads from or writes to a
//! connection.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::FutureExt as _;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams,
    CancelledNotificationParam, CustomRequest, CustomResult, DiscoverResult, Extensions,
    GetPromptRequestParams, GetPromptResponse, GetSkillRequestParams, GetSkillResult,
    GetTaskParams, GetTaskResult, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListSkillsResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    RequestId, SKILLS_EXTENSION_ID, ServerCapabilities, ServerConfig, SubscriptionFilter,
    TASKS_EXTENSION_ID, Tool, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use uuid::Uuid;

use crate::gateway::{AskedBy, Inputs, Stdin};
use crate::governance::{Governance, GovernedCall, GovernedTool, Refusal};
use crate::jobs::{Found, RequestKey};
use crate::ledger::{Presented, UserName};
use crate::shares::Held;
use crate::transport::{Connection, Slot};

use super::call::{CallContext, Server};
use super::progress::{PrintedEnd, with_progress};
use super::reply::Reply;
use super::tools::{governed_tools, instructions, permission_of};
use super::traced;
use super::{card, governed, identity, prompts, skills, tasks};

/// The time for which a client may cache lists, resources and the discovery result, in milliseconds. They change only
/// when the program or its settings change.
const LISTS_TTL_MS: u64 = 3_600_000;

/// The `_meta` key in which a client may name its model, for the bill of materials and receipts.
const MODEL_KEY: &str = "qwed.ai/model";

/// The handler of a client's requests.
#[derive(Clone)]
pub(super) struct Handler {
    server: Arc<Server>,
    /// Cancelled when the client has closed its end of the connection, or when the server shuts down.
    input_ended: CancellationToken,
}

impl Handler {
    pub(super) fn new(server: Arc<Server>, input_ended: CancellationToken) -> Self {
        Self { server, input_ended }
    }

    async fn answer(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // This panic lets a test observe how panics are handled. Release builds do not contain it.
        #[cfg(debug_assertions)]
        assert!(request.name != "test_tool_that_panics", "a test asked for this");
        self.record(&context);
        let arguments = request.arguments.unwrap_or_default();
        let presented = presented(&context).cloned().unwrap_or_default();
        self.require_permission(&request.name, &arguments, &presented).await?;
        if let Some(governance) = &self.server.governance
            && let Some(tool) = GovernedTool::from_name(&request.name)
        {
            let cancel = context.ct.clone();
            let waits_for_turn = Arc::default();
            let call = GovernedCall { tool, arguments, presented, cancel, waits_for_turn };
            return self.answer_governed(governance, call, &context).await;
        }
        let cancel = context.ct.clone();
        let waits_for_turn: Arc<AtomicBool> = Arc::default();
        let waits = Arc::clone(&waits_for_turn);
        let printed = PrintedEnd::default();
        let caller = CallContext {
            request: request_key(connection(&context.extensions), &context.id),
            cancel,
            presented,
            asked_by: asked_by(&context),
            takes_tasks: takes_tasks(&context),
            waits_for_turn,
            echo: printed.echo(&context),
            stdin: Stdin::default(),
            inputs: Inputs::default(),
        };
        let call = self.server.call(&request.name, arguments, caller);
        let mut reply = Box::pin(with_progress(&context, &waits, &printed, call)).await;
        hold_until_written(&context, reply.room.take());
        Ok(reply.into_response())
    }

    async fn answer_governed(
        &self,
        governance: &Governance,
        call: GovernedCall,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let waits = Arc::clone(&call.waits_for_turn);
        let call = self.server.call_governed(governance, call);
        let (run_id, reply, room) =
            with_progress(context, &waits, &PrintedEnd::default(), call).await;
        hold_until_written(context, room);
        let reply = reply.map_err(|refusal| governed::error(run_id, &refusal))?;
        Ok(governed::result(reply).into())
    }
}

impl Handler {
    fn tools(&self) -> Vec<Tool> {
        let mut all = self.server.tools.to_vec();
        if self.server.governance.is_some() {
            all.extend_from_slice(governed_tools());
        }
        all
    }

    /// Refuses the call of a tool that the caller's role does not permit. Calls of governed tools pass, because
    /// `governance` checks the role for them.
    async fn require_permission(
        &self,
        tool: &str,
        arguments: &rmcp::model::JsonObject,
        presented: &Presented,
    ) -> Result<(), ErrorData> {
        let Some(caller) = &presented.known else { return Ok(()) };
        let may_call = permission_of(tool).is_none_or(|permission| caller.role.has(permission));
        if may_call || GovernedTool::from_name(tool).is_some() {
            return Ok(());
        }
        tracing::info!("the role does not permit it");
        let run_id = match &self.server.governance {
            Some(governance) => governance.script_not_permitted(arguments, caller).await,
            None => Ok(Uuid::new_v4()),
        };
        Err(match run_id {
            Ok(run_id) => governed::error(run_id, &Refusal::PermissionDenied),
            Err(refusal) => governed::error(Uuid::new_v4(), &refusal),
        })
    }

    /// Records the client and the model in the bill of materials.
    fn record(&self, context: &RequestContext<RoleServer>) {
        let Some(session) = &self.server.session else { return };
        if let Some(client) = context.client_info() {
            session.record_client(&client.name, &client.version);
        }
        if let Some(model) = context.meta.get(MODEL_KEY).and_then(|model| model.as_str()) {
            session.record_model(model);
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_extensions_with(card::extension())
            .enable_prompts()
            .enable_resources()
            .enable_skills()
            .enable_tools()
            .enable_tasks()
            .build();
        let is_governed = self.server.governance.is_some();
        ServerConfig::new(capabilities)
            .with_server_info(identity::implementation())
            .with_instructions(instructions(self.server.told_limits, is_governed))
    }

    /// Answers `initialize` with the agreed protocol version, regardless of earlier requests.
    async fn initialize(
        &self,
        mut request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let mut result = self.negotiate_initialize(&request)?;
        // Remove tasks and skills from the capabilities. A client must declare support for tasks in each request,
        // which is impossible in the handshake era. Skills also need the stateless era (SEP-2640).
        if let Some(extensions) = &mut result.capabilities.extensions {
            extensions.remove(TASKS_EXTENSION_ID);
            extensions.remove(SKILLS_EXTENSION_ID);
        }
        request.protocol_version = result.protocol_version.clone();
        context.peer.set_peer_info(request);
        Ok(result)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = ListToolsResult::with_all_items(self.tools());
        if !identity::is_stateless(&context) {
            return Ok(tools);
        }
        Ok(tools.with_ttl_ms(LISTS_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn discover(
        &self,
        _context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let mut discovered = DiscoverResult::from_server_info(versions, self.get_info());
        discovered.ttl_ms = LISTS_TTL_MS;
        discovered.cache_scope = CacheScope::Public;
        Ok(discovered)
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = ListPromptsResult::with_all_items(prompts::prompts());
        if !identity::is_stateless(&context) {
            return Ok(prompts);
        }
        Ok(prompts.with_ttl_ms(LISTS_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(&request).map(GetPromptResponse::from)
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let all = vec![card::resource(identity::icons()), skills::resource()];
        let resources = ListResourcesResult::with_all_items(all);
        if !identity::is_stateless(&context) {
            return Ok(resources);
        }
        Ok(resources.with_ttl_ms(LISTS_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let none = ListResourceTemplatesResult::default();
        if !identity::is_stateless(&context) {
            return Ok(none);
        }
        Ok(none.with_ttl_ms(LISTS_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = if request.uri == card::URI {
            Some(card::contents())
        } else {
            skills::contents(&request.uri)
        };
        let contents = contents.ok_or_else(|| {
            let message = format!("Resource not found: {}", shortened(&request.uri));
            ErrorData::resource_not_found(message, None)
        })?;
        let found = ReadResourceResult::new(vec![contents]);
        if !identity::is_stateless(&context) {
            return Ok(found.into());
        }
        Ok(found.with_ttl_ms(LISTS_TTL_MS).with_cache_scope(CacheScope::Public).into())
    }

    async fn list_skills(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        let skills = ListSkillsResult::with_all_items(vec![skills::skill()]);
        Ok(skills.with_ttl_ms(LISTS_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        let skill = skills::skill();
        if skill.uri != request.uri {
            let message = format!("Unknown skill: {}", shortened(&request.uri));
            return Err(ErrorData::invalid_params(message, None));
        }
        Ok(GetSkillResult::new(skill)
            .with_ttl_ms(LISTS_TTL_MS)
            .with_cache_scope(CacheScope::Public))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let id = tasks::id(&request.task_id)?;
        let task = self.server.task(id, user(&context)).await.map_err(tasks::away)?;
        let (job, mut reply) = task.ok_or_else(tasks::not_found)?;
        let room = reply.as_mut().and_then(|reply| reply.room.take());
        hold_until_written(&context, room);
        Ok(GetTaskResult::new(tasks::detailed(&job, reply.map(Reply::into_result))))
    }

    /// Accepts answers to the questions of a task. No task asks questions, so this only checks that the task exists.
    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let id = tasks::id(&request.task_id)?;
        let found = self.server.jobs.job(id, user(&context), 0).await.map_err(tasks::away)?;
        if matches!(found, Found::Nothing) { Err(tasks::not_found()) } else { Ok(()) }
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let id = tasks::id(&request.task_id)?;
        let cancelled = self.server.jobs.cancel(id, user(&context)).await;
        let is_there = cancelled.map_err(tasks::away)?;
        if is_there { Ok(()) } else { Err(tasks::not_found()) }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let span = tracing::info_span!("call", tool = %shortened(&request.name), request_id = %shortened(&context.id.to_string()));
        let is_http = connection(&context.extensions).is_some();
        let traced = traced::span(&shortened(&request.name), is_http, &context);
        let answer = self.answer(request, context).instrument(span);
        let answer = answer.instrument(traced.clone());
        // Convert a panic into an error reply. Without a reply, the client would wait forever.
        let answer = AssertUnwindSafe(answer)
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(ErrorData::internal_error("internal error", None)));
        traced::note_end(&traced, &answer);
        answer
    }

    /// Accepts no part of a subscription, because nothing that a client can subscribe to ever changes on this server.
    fn accepted_subscription_filter(
        &self,
        _requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::default())
    }

    /// Keeps an acknowledged subscription open until the client cancels it, the client closes its end of the
    /// connection, or the server shuts down. If a subscription stayed open longer, it would delay the end of the
    /// connection, like a call in flight.
    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        tokio::select! {
            () = subscription.cancelled() => {}
            () = self.input_ended.cancelled() => {}
        }
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if let (Some(session), Some(peer)) = (&self.server.session, context.peer.peer_info()) {
            session.record_client(&peer.client_info.name, &peer.client_info.version);
        }
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        context: NotificationContext<RoleServer>,
    ) {
        // The cancellation token ends the call itself. A job that the call has placed outlives the call, so cancel
        // the job here.
        if let Some(id) = notification.request_id {
            self.server.jobs.cancel_placed_by(&request_key(connection(&context.extensions), &id));
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // The transport rejects unknown methods, so this method is known. rmcp passes a known method as a custom
        // request only if the parameters are invalid.
        let method = shortened(&request.method);
        Err(ErrorData::invalid_params(format!("Invalid params for {method}"), None))
    }
}

/// Returns whether this request may be answered with a task. Only capabilities in the request itself count, not
/// capabilities from a handshake.
fn takes_tasks(context: &RequestContext<RoleServer>) -> bool {
    identity::is_stateless(context)
        && context.meta.client_capabilities().is_some_and(|client| client.supports_tasks())
}

/// Returns the client and the model of a request, as the client names them. Neither name is verified.
fn asked_by(context: &RequestContext<RoleServer>) -> AskedBy {
    let client = context.client_info();
    let model = context.meta.get(MODEL_KEY).and_then(|model| model.as_str());
    AskedBy {
        client: client.map(|client| shortened(&format!("{} {}", client.name, client.version))),
        model: model.map(shortened),
        ..AskedBy::default()
    }
}

/// Returns the key of a request. The key also identifies the job that the request has placed. Over HTTP, every client
/// counts its requests from 1, so the key includes the connection.
pub(super) fn request_key(connection: Option<&Connection>, id: &RequestId) -> RequestKey {
    let id = match id {
        RequestId::Number(number) => number.to_string(),
        // A string has quotes in the key, so that the string "1" and the number 1 have different keys.
        RequestId::String(text) => format!("{text:?}"),
    };
    RequestKey(match connection {
        Some(Connection(name)) => format!("{name} {id}"),
        None => id,
    })
}

/// Returns the connection on which a message arrived. `None` if the server has only one connection.
fn connection(extensions: &Extensions) -> Option<&Connection> {
    extensions.get()
}

/// Returns the credentials of a request. `None` if the transport has not set any.
fn presented(context: &RequestContext<RoleServer>) -> Option<&Presented> {
    context.extensions.get()
}

/// Keeps the memory for a reply reserved until the reply is written.
fn hold_until_written(context: &RequestContext<RoleServer>, room: Option<Held>) {
    if let (Some(slot), Some(room)) = (context.extensions.get::<Slot>(), room) {
        slot.hold(room);
    }
}

/// Returns the user of a request. `None` if the transport does not authenticate users.
fn user(context: &RequestContext<RoleServer>) -> Option<&UserName> {
    presented(context).and_then(Presented::user)
}

/// Returns the first 100 characters of a name that a client has chosen, for logs and messages.
fn shortened(name: &str) -> String {
    name.chars().take(100).collect()
}
