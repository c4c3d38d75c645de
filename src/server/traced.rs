//! Trace spans of calls. A span contains the name of the tool, and the way in which the call ended. It never contains
//! arguments or output.

use rmcp::model::{CallToolResponse, CallToolResult, RequestMetaObject};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use tracing::Span;
use tracing::field::Empty;

use crate::logging::SPANS;
use crate::traces;

use super::reply::{DECISION_KEY, EXECUTION_KEY};

/// Returns the span of a call. If the request has a trace context, the span is part of the caller's trace.
pub(super) fn span(tool: &str, is_http: bool, context: &RequestContext<RoleServer>) -> Span {
    let span = tracing::info_span!(
        target: SPANS,
        "tools/call",
        otel.name = %format_args!("tools/call {tool}"),
        otel.kind = "server",
        otel.status_code = Empty,
        mcp.method.name = "tools/call",
        mcp.protocol.version = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = %tool,
        jsonrpc.request.id = %context.id,
        network.transport = if is_http { "tcp" } else { "pipe" },
        network.protocol.name = Empty,
        "error.type" = Empty,
        rpc.response.status_code = Empty,
        qwed.verification_id = Empty,
        qwed.decision.status = Empty,
        qwed.sandbox.tier = Empty,
        qwed.warm = Empty,
        qwed.exit_code = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    if is_http {
        span.record("network.protocol.name", "http");
    }
    if let Some(version) = context.protocol_version() {
        span.record("mcp.protocol.version", version.as_str());
    }
    let RequestMetaObject(meta) = &context.meta;
    traces::set_parent(&span, |name| meta.0.get(name).and_then(Value::as_str));
    span
}

/// Records in a span how its call ended.
pub(super) fn note_end(span: &Span, result: &Result<CallToolResponse, ErrorData>) {
    if span.is_disabled() {
        return;
    }
    match result {
        Ok(CallToolResponse::Complete(result)) => note_result(span, result),
        Ok(_) => {}
        Err(error) => {
            let code = error.code.0.to_string();
            span.record("rpc.response.status_code", &code);
            span.record("error.type", &code);
            span.record("otel.status_code", "ERROR");
        }
    }
}

fn note_result(span: &Span, result: &CallToolResult) {
    if result.is_error == Some(true) {
        span.record("error.type", "tool_error");
        span.record("otel.status_code", "ERROR");
    }
    let about = |key: &str| result.meta.as_ref().and_then(|meta| meta.0.get(key));
    if let Some(decision) = about(DECISION_KEY) {
        for (attribute, member) in
            [("qwed.verification_id", "verification_id"), ("qwed.decision.status", "status")]
        {
            span.record(attribute, decision[member].as_str());
        }
    }
    if let Some(execution) = about(EXECUTION_KEY) {
        span.record("qwed.sandbox.tier", execution["sandbox"].as_str());
        span.record("qwed.warm", execution["warm"].as_bool());
        span.record("qwed.exit_code", execution["exit_code"].as_i64());
    }
}
