//! The second listener, for operators: figures, and whether the server lives and is ready.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use tokio_util::sync::CancellationToken;

use crate::governance::Bearers;
use crate::server::Server;

use super::content::{Content, text_response};
use super::figures::Figures;

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT_TYPE: &str = "text/plain; charset=utf-8";

/// What operators reach.
pub(super) struct Admin {
    pub(super) server: Arc<Server>,
    pub(super) bearers: Option<Bearers>,
    pub(super) figures: Arc<Figures>,
    pub(super) draining: CancellationToken,
}

impl Admin {
    /// Answers a request.
    pub(super) async fn answer(&self, request: &Request<Incoming>) -> Response<Content> {
        let text = |status, text: &str| text_response(status, text.into(), TEXT_TYPE, ());
        if request.method() != Method::GET {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        }
        match request.uri().path() {
            "/metrics" => {
                let figures = self.figures.text(&self.server.now().await);
                text_response(StatusCode::OK, figures.into_bytes(), METRICS_TYPE, ())
            }
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/readyz" => match self.readiness().await {
                Ok(()) => text(StatusCode::OK, "ready\n"),
                Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, &format!("{reason}\n")),
            },
            _ => text(StatusCode::NOT_FOUND, "/metrics, /healthz or /readyz\n"),
        }
    }

    async fn readiness(&self) -> Result<(), String> {
        if self.draining.is_cancelled() {
            return Err("the server ends".to_owned());
        }
        if let Some(bearers) = &self.bearers
            && !bearers.is_available().await
        {
            return Err("tokens cannot be looked up".to_owned());
        }
        self.server.readiness().await
    }
}
