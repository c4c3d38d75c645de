//! Adds the server's name to every result of the stateless protocol, which has no handshake that could name the server.
//! Nothing is signed cryptographically.

use std::borrow::Cow;

use rmcp::model::{
    ClientNotification, ClientRequest, MetaObject, ProtocolVersion, ServerConfig, ServerResult,
};
use rmcp::service::{NotificationContext, RequestContext, Service};
use rmcp::{ErrorData, RoleServer};

use super::handler::Handler;
use super::identity::{brief, is_stateless};

/// The `_meta` key under which a result of the stateless protocol names its server (MCP 2026-07-28).
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// A handler that adds the server's name to the results of the inner handler.
pub(super) struct Signed(pub(super) Handler);

impl Service<RoleServer> for Signed {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let is_stateless = is_stateless(&context);
        let mut result = self.0.handle_request(request, context).await?;
        if is_stateless && let Some(meta) = meta_of(&mut result) {
            sign(meta);
        }
        Ok(result)
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.handle_notification(notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        Service::get_info(&self.0)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Service::supported_protocol_versions(&self.0)
    }
}

fn sign(meta: &mut MetaObject) {
    if !meta.contains_key(SERVER_INFO_KEY) {
        let info = serde_json::to_value(brief()).unwrap_or_default();
        meta.insert(SERVER_INFO_KEY.to_owned(), info);
    }
}

/// Returns the metadata of a result that must name the server. `None` for other kinds of results.
fn meta_of(result: &mut ServerResult) -> Option<&mut MetaObject> {
    Some(match result {
        ServerResult::DiscoverResult(result) => result.meta.get_or_insert_default(),
        ServerResult::ListToolsResult(result) => result.meta.get_or_insert_default(),
        ServerResult::CallToolResult(result) => result.meta.get_or_insert_default(),
        ServerResult::CreateTaskResult(result) => result.meta.get_or_insert_default(),
        ServerResult::GetTaskResult(result) => result.meta.get_or_insert_default(),
        ServerResult::TaskAckResult(result) => result.meta.get_or_insert_default(),
        ServerResult::ListResourcesResult(result) => result.meta.get_or_insert_default(),
        ServerResult::ListResourceTemplatesResult(result) => result.meta.get_or_insert_default(),
        ServerResult::ReadResourceResult(result) => result.meta.get_or_insert_default(),
        ServerResult::GetPromptResult(result) => result.meta.get_or_insert_default(),
        ServerResult::ListPromptsResult(result) => result.meta.get_or_insert_default(),
        ServerResult::ListSkillsResult(result) => result.meta.get_or_insert_default(),
        ServerResult::GetSkillResult(result) => result.meta.get_or_insert_default(),
        // For the end of a subscription, rmcp itself adds the server's name. The other kinds of results belong to the
        // handshake era, or to features that this server does not have.
        ServerResult::InitializeResult(_)
        | ServerResult::CompleteResult(_)
        | ServerResult::SubscriptionsListenResult(_)
        | ServerResult::ElicitResult(_)
        | ServerResult::InputRequiredResult(_)
        | ServerResult::EmptyResult(_)
        | ServerResult::CustomResult(_)
        | _ => return None,
    })
}
