//! rmcp's requests to ours, and our answers to its.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult,
    CancelledNotificationParam, CompleteRequestParams, CompleteResult, CustomRequest, CustomResult,
    ErrorCode, Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, RequestId, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tracing::Instrument as _;

use crate::config::Secret;
use crate::governance::{Governance, GovernedCall, GovernedTool};
use crate::jobs::RequestKey;
use crate::transport::Slot;

use super::call::{Caller, Server};
use super::governed;
use super::progress::with_progress;
use super::tools::{INSTRUCTIONS, SERVER_NAME, SERVER_TITLE, governed_tools, tools};

/// How long a client may keep the list of tools: it changes with the binary only.
const TOOLS_TTL_MS: u64 = 3_600_000;

/// The `_meta` key under which a result of the stateless protocol names its server (MCP 2026-07-28).
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// The `_meta` key under which a caller names its model, for the bill of materials.
const MODEL_KEY: &str = "qwed.ai/model";

/// Methods that rmcp knows. A request for one of them that arrives as a custom request is one whose
/// parameters rmcp could not read.
const KNOWN_METHODS: [&str; 6] =
    ["initialize", "ping", "server/discover", "tools/call", "tools/list", "logging/setLevel"];

/// Answers a client's requests.
#[derive(Clone)]
pub(super) struct Handler {
    server: Arc<Server>,
}

impl Handler {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self { server }
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
        if let Some(governance) = self.server.governance()
            && let Some(tool) = GovernedTool::from_name(&request.name)
        {
            let cancel = context.ct.clone();
            let call = GovernedCall { tool, arguments, token, cancel };
            return self.answer_governed(governance, call, &context).await;
        }
        let cancel = context.ct.clone();
        let caller = Caller { request: request_key(&context.id), cancel, token };
        let call = self.server.call(&request.name, arguments, caller);
        let mut reply = with_progress(&context.peer, context.meta.get_progress_token(), call).await;
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
        let call = self.server.call_governed(governance, call);
        let progress = context.meta.get_progress_token();
        let (run_id, reply, room) = with_progress(&context.peer, progress, call).await;
        if let (Some(slot), Some(room)) = (context.extensions.get::<Slot>(), room) {
            slot.hold(room);
        }
        let reply = reply.map_err(|refusal| governed::error(run_id, &refusal))?;
        Ok(with_server_info(governed::result(reply), context).into())
    }
}

/// Without a handshake, results say who answers.
fn with_server_info(
    mut result: CallToolResult,
    context: &RequestContext<RoleServer>,
) -> CallToolResult {
    if is_stateless(context) {
        let info = serde_json::to_value(implementation()).unwrap_or_default();
        result.meta.get_or_insert_default().insert(SERVER_INFO_KEY.to_owned(), info);
    }
    result
}

impl Handler {
    /// The tools that there are.
    fn tools(&self) -> Vec<Tool> {
        let mut all = tools(self.server.sandbox()).to_vec();
        if self.server.governance().is_some() {
            all.extend_from_slice(governed_tools());
        }
        all
    }

    /// Tells the session who calls.
    fn record(&self, context: &RequestContext<RoleServer>) {
        let Some(session) = self.server.session() else { return };
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
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = ListToolsResult::with_all_items(self.tools());
        if !is_stateless(&context) {
            return Ok(tools);
        }
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

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if let (Some(session), Some(peer)) = (self.server.session(), context.peer.peer_info()) {
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
            self.server.jobs().cancel_placed_by(&request_key(&id));
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = shortened(&request.method);
        if KNOWN_METHODS.contains(&method.as_str()) {
            return Err(ErrorData::invalid_params(format!("Invalid params for {method}"), None));
        }
        Err(method_not_found(&method))
    }

    // rmcp answers these with empty lists. This server does not have them, and says so.

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(method_not_found("completion/complete"))
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(method_not_found("prompts/list"))
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(method_not_found("resources/list"))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(method_not_found("resources/templates/list"))
    }
}

fn method_not_found(method: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("Method not found: {method}"), None)
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

/// The start of a name that a client chose, for logs and messages.
fn shortened(name: &str) -> String {
    name.chars().take(100).collect()
}
