//! Sends spans of calls to an OpenTelemetry collector. The standard environment variables of OpenTelemetry configure
//! this exporter.
//!
//! Spans are recorded and sent only if `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set. A
//! span never contains code, output, tokens or users.
//!
//! The attributes of spans follow the [conventions for
//! MCP](https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md).

use std::collections::HashMap;
use std::env;
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::level_filters::LevelFilter;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;

use crate::https;
use crate::logging::{Causes, Further, SPANS};

/// The variables that contain the address of the collector. Traces are sent if at least one is set.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
/// The name of this service in traces, if the admin does not set `OTEL_SERVICE_NAME`.
const NAME: &str = env!("CARGO_PKG_NAME");
/// The timeout of one request to the collector.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout for sending the remaining spans at shutdown. It is short, because clients wait for the exit of the
/// process.
const END_TIMEOUT: Duration = Duration::from_millis(400);
/// The maximum size of a collector's response, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// The fields with a caller's trace context (W3C Trace Context). The `_meta` of a request and the HTTP headers use the
/// same field names.
const CONTEXT: [&str; 2] = ["traceparent", "tracestate"];

/// The exporter of traces. Dropping it sends the remaining spans.
#[derive(Debug)]
pub(crate) struct Traces(SdkTracerProvider);

impl Traces {
    /// Starts the exporter. Also returns the layer that must receive the spans. Returns `None` if the environment
    /// configures no collector.
    ///
    /// # Errors
    ///
    /// An invalid address, or an invalid value of another variable.
    pub(crate) fn start() -> Result<Option<(Self, Further)>, ExporterBuildError> {
        let is = |name: &str, value: &str| {
            env::var(name).is_ok_and(|it| it.trim().eq_ignore_ascii_case(value))
        };
        let is_wanted =
            ENDPOINTS.iter().any(|name| env::var_os(name).is_some_and(|it| !it.is_empty()));
        if !is_wanted || is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Ok(None);
        }
        let client = Client(https::agent(SEND_TIMEOUT));
        let exporter = SpanExporter::builder().with_http().with_http_client(client);
        let exporter = exporter.with_protocol(Protocol::HttpBinary).build()?;
        let resource = Resource::builder();
        let is_named = env::var_os(SERVICE_NAME).is_some();
        let resource = if is_named { resource } else { resource.with_service_name(NAME) };
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        let layer = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer(NAME))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false);
        let only_spans = Targets::new().with_target(SPANS, LevelFilter::INFO);
        Ok(Some((Self(provider), Further::new(layer.with_filter(only_spans).boxed()))))
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown_with_timeout(END_TIMEOUT) {
            tracing::warn!(error = %Causes(&error), "not all traces were sent");
        }
    }
}

/// Makes `span` a child of the caller's span, if `context` identifies the caller's span. `context` returns a field of
/// the trace context by its name.
pub(crate) fn set_parent<'a>(span: &tracing::Span, context: impl Fn(&str) -> Option<&'a str>) {
    let carrier: HashMap<String, String> = CONTEXT
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), context(name)?.to_owned())))
        .collect();
    if !carrier.is_empty() {
        // Ignore the error, which means that no layer receives spans.
        let _ = span.set_parent(TraceContextPropagator::new().extract(&carrier));
    }
}

/// The HTTP client of the exporter. A request may block, because the exporter sends requests on a separate thread.
#[derive(Debug)]
struct Client(ureq::Agent);

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let response = self.0.run(Request::from_parts(parts, body.to_vec()))?;
        let (parts, mut body) = response.into_parts();
        let body = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
        Ok(Response::from_parts(parts, body.into()))
    }
}
