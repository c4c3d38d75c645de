//! rmcp's requests to ours, and our answers to its.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::FutureExt as _;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult,
    CancelledNotificationParam, CustomRequest, CustomResult, Implementation,
    InitializeRequestParams, InitializeResult, ListToolsResult, MetaObject, PaginatedRequestParams,
    ProtocolVersion, RequestId, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::executor::Echo;
use crate::governance::{Governance, GovernedCall, GovernedTool};
use crate::jobs::RequestKey;
use crate::secret::Secret;
use crate::transport::Slot;

use super::call::{Caller, Server};
use super::governed;
use super::progress::with_progress;
use super::tools::{SERVER_NAME, SERVER_TITLE, governed_tools, instructions};

/// The time for which a client may keep the list of tools: it changes with the binary only.
const TOOLS_TTL_MS: u64 = 3_600_000;

/// The `_meta` key under which a result of the stateless protocol names its server (MCP 2026-07-28).
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// The `_meta` key under which a caller names its model, for the bill of materials.
const MODEL_KEY: &str = "qwed.ai/model";

/// Answers a client's requests.
#[derive(Clone)]
pub(super) struct Handler {
    server: Arc<Server>,
    /// Cancelled when the client has closed its side.
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
        // With this a test sees what a defect would do. Release builds do not have it.
        #[cfg(debug_assertions)]
        assert!(request.name != "test_tool_that_panics", "a test asked for this");
        self.record(&context);
        let token = context.extensions.get::<Secret>().cloned();
        let arguments = request.arguments.unwrap_or_default();
        if let Some(governance) = &self.server.governance
            && let Some(tool) = GovernedTool::from_name(&request.name)
        {
            let cancel = context.ct.clone();
            let waits_for_turn = Arc::default();
            let call = GovernedCall { tool, arguments, token, cancel, waits_for_turn };
            return self.answer_governed(governance, call, &context).await;
        }
        let cancel = context.ct.clone();
        let waits_for_turn: Arc<AtomicBool> = Arc::default();
        let waits = Arc::clone(&waits_for_turn);
        let (key, echo) = (request_key(&context.id), Echo::default());
        let caller = Caller { request: key, cancel, token, waits_for_turn, echo };
        let call = self.server.call(&request.name, arguments, caller);
        let mut reply = with_progress(&context, &waits, call).await;
        if let (Some(slot), Some(room)) = (context.extensions.get::<Slot>(), reply.room.take()) {
            slot.hold(room);
        }
        Ok(with_server_info(reply.into_result(), &context).into())
    }

    async fn answer_governed(
        &self,
        governance: &Governance,
        call: GovernedCall,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let waits = Arc::clone(&call.waits_for_turn);
        let call = self.server.call_governed(governance, call);
        let (run_id, reply, room) = with_progress(context, &waits, call).await;
        if let (Some(slot), Some(room)) = (context.extensions.get::<Slot>(), room) {
            slot.hold(room);
        }
        let reply = reply.map_err(|refusal| governed::error(run_id, &refusal))?;
        Ok(with_server_info(governed::result(reply), context).into())
    }
}

/// Adds who answers to a result, which a client without a handshake knows from nowhere else.
fn with_server_info(
    mut result: CallToolResult,
    context: &RequestContext<RoleServer>,
) -> CallToolResult {
    if is_stateless(context) {
        name_server(result.meta.get_or_insert_default());
    }
    result
}

fn name_server(meta: &mut MetaObject) {
    let info = serde_json::to_value(implementation()).unwrap_or_default();
    meta.insert(SERVER_INFO_KEY.to_owned(), info);
}

impl Handler {
    /// Returns the tools that there are.
    fn tools(&self) -> Vec<Tool> {
        let mut all = self.server.tools.to_vec();
        if self.server.governance.is_some() {
            all.extend_from_slice(governed_tools());
        }
        all
    }

    /// Tells the session who calls.
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
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(implementation())
            .with_instructions(instructions(
                self.server.told_limits,
                self.server.governance.is_some(),
            ))
    }

    /// Whatever was asked before: from here on there is the era with `initialize`, in the version that
    /// is agreed on.
    async fn initialize(
        &self,
        mut request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let result = self.negotiate_initialize(&request)?;
        request.protocol_version = result.protocol_version.clone();
        context.peer.set_peer_info(request);
        Ok(result)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut tools = ListToolsResult::with_all_items(self.tools());
        if !is_stateless(&context) {
            return Ok(tools);
        }
        name_server(tools.meta.get_or_insert_default());
        Ok(tools.with_ttl_ms(TOOLS_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let span =
            tracing::info_span!("call", tool = %shortened(&request.name), request_id = %context.id);
        // A defect of ours is an error reply; without one the client would wait for ever.
        AssertUnwindSafe(self.answer(request, context).instrument(span))
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(ErrorData::internal_error("internal error", None)))
    }

    /// Accepts no subscription to any change: nothing that a client can subscribe to ever changes here.
    fn accepted_subscription_filter(
        &self,
        _requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::default())
    }

    /// Keeps a subscription open, which rmcp has acknowledged, until the client cancels it or one of
    /// both ends. It would hold up the end otherwise, like a call that goes on.
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
        _context: NotificationContext<RoleServer>,
    ) {
        // The call itself is cancelled by its token; a job that it placed lives on without it.
        if let Some(id) = notification.request_id {
            self.server.jobs.cancel_placed_by(&request_key(&id));
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // Of the methods that there are; the transport answers the others.
        let method = shortened(&request.method);
        Err(ErrorData::invalid_params(format!("Invalid params for {method}"), None))
    }
}

fn implementation() -> Implementation {
    Implementation::new(SERVER_NAME, env!("CARGO_PKG_VERSION")).with_title(SERVER_TITLE)
}

fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

fn request_key(id: &RequestId) -> RequestKey {
    RequestKey(match id {
        RequestId::Number(number) => number.to_string(),
        // Quoted, so that "1" is not 1.
        RequestId::String(text) => format!("{text:?}"),
    })
}

/// Returns the start of a name that a client chose, for logs and messages.
fn shortened(name: &str) -> String {
    name.chars().take(100).collect()
}
