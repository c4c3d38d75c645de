//! The second listener, for admins: metrics, and probes of liveness and readiness. It requires no token.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::bearer::Bearers;
use crate::server::Server;

use super::content::{Content, text_response};
use super::hosts::check_admin_request;
use super::prometheus::Metrics;

const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The time for which the result of a readiness check is cached.
const READINESS_AGE_MAX: Duration = Duration::from_secs(1);
const TEXT_TYPE: &str = "text/plain; charset=utf-8";

/// The handler of requests to the admin listener.
pub(super) struct Admin {
    pub(super) server: Arc<Server>,
    pub(super) bearers: Option<Bearers>,
    pub(super) metrics: Metrics,
    pub(super) draining: CancellationToken,
    /// The host names by which admins reach the admin listener, in addition to IP addresses and `localhost`.
    pub(super) names: Vec<String>,
    pub(super) last_readiness: Mutex<Option<(Instant, Result<(), String>)>>,
}

impl Admin {
    /// Handles a request to the admin listener.
    pub(super) async fn answer(&self, request: &Request<Incoming>) -> Response<Content> {
        let text = |status, text: &str| text_response(status, text.into(), TEXT_TYPE, ());
        if let Err(refusal) = check_admin_request(request.headers(), &self.names) {
            return text(StatusCode::FORBIDDEN, &format!("{}\n", refusal.text()));
        }
        if request.method() != Method::GET {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        }
        match request.uri().path() {
            "/metrics" => {
                let metrics = self.metrics.text(&self.server.now().await);
                text_response(StatusCode::OK, metrics.into_bytes(), METRICS_TYPE, ())
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
            return Err("the server is shutting down".to_owned());
        }
        // Only one readiness check runs at a time, and its result is cached for a second, so probes put little load on
        // the store.
        let mut last_readiness = self.last_readiness.lock().await;
        if let Some((at, answer)) = &*last_readiness
            && at.elapsed() < READINESS_AGE_MAX
        {
            return answer.clone();
        }
        let answer = self.check().await;
        *last_readiness = Some((Instant::now(), answer.clone()));
        answer
    }

    async fn check(&self) -> Result<(), String> {
        if let Some(bearers) = &self.bearers
            && !bearers.is_available().await
        {
            return Err("tokens cannot be checked".to_owned());
        }
        self.server.readiness().await
    }
}
