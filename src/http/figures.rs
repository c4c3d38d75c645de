//! Figures for Prometheus. No label has a user, code or an id.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::executor::ForkServers;
use crate::meter::{Meter, RunFigures};
use crate::server::Now;

/// The bounds of the histograms, in seconds: a warm run takes 3 ms, and the longest synchronous one 30 s.
const SECONDS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0];

/// The bounds of what the store takes: a token is looked up in a fraction of a millisecond, and what has to be
/// on a disk takes a few.
const STORE_SECONDS: [f64; 12] =
    [0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    path: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PathLabel {
    path: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabels {
    ending: &'static str,
    tier: &'static str,
    start: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabel {
    operation: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
    tier: &'static str,
}

/// All figures.
pub(super) struct Figures {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<PathLabel, Histogram>,
    decisions: Family<DecisionLabels, Counter>,
    runs: Family<RunLabels, Counter>,
    run_seconds: Histogram,
    queue_seconds: Histogram,
    calls_waiting: Gauge,
    turns_free: Gauge,
    jobs: Family<StateLabel, Gauge>,
    fork_servers: Family<StateLabel, Gauge>,
    fork_server_restarts: Counter,
    store_seconds: Family<OperationLabel, Histogram>,
    store_errors: Family<OperationLabel, Counter>,
    build: Family<BuildLabels, Gauge>,
    /// Held from when the figures of a moment are set until they are text.
    moment: Mutex<()>,
}

impl Figures {
    pub(super) fn new() -> Self {
        let figures = Self {
            registry: Registry::with_prefix("qwed_mcp"),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            decisions: Family::default(),
            runs: Family::default(),
            run_seconds: Histogram::new(SECONDS),
            queue_seconds: Histogram::new(SECONDS),
            calls_waiting: Gauge::default(),
            turns_free: Gauge::default(),
            jobs: Family::default(),
            fork_servers: Family::default(),
            fork_server_restarts: Counter::default(),
            store_seconds: Family::new_with_constructor(|| Histogram::new(STORE_SECONDS)),
            store_errors: Family::default(),
            build: Family::default(),
            moment: Mutex::default(),
        };
        figures.registered()
    }

    fn registered(mut self) -> Self {
        let all = &mut self.registry;
        let text = "The version of the program, and the tier of the sandbox once it was tried out";
        all.register("build_info", text, self.build.clone());
        all.register("http_requests", "Requests, by path and status", self.requests.clone());
        let text = "The time until the response begins";
        all.register("http_request_seconds", text, self.request_seconds.clone());
        all.register("decisions", "Decisions about calls, by error code", self.decisions.clone());
        all.register("runs", "Runs of scripts that have ended", self.runs.clone());
        all.register("run_seconds", "The time that scripts took", self.run_seconds.clone());
        let text = "The time that runs waited for their turn, also those that gave up";
        all.register("queue_seconds", text, self.queue_seconds.clone());
        let text = "Synchronous runs that wait for their turn";
        all.register("calls_waiting", text, self.calls_waiting.clone());
        let text = "Synchronous runs that could begin at once";
        all.register("turns_free", text, self.turns_free.clone());
        let text = "Background jobs that are known, by state: with a database those of all replicas, else of this one; \
                    none while the database is away";
        all.register("jobs", text, self.jobs.clone());
        let text = "Fork servers, which warm interpreters come from, by state";
        all.register("fork_servers", text, self.fork_servers.clone());
        let text = "Fork servers that took the place of an earlier one";
        all.register("fork_server_restarts", text, self.fork_server_restarts.clone());
        let text = "The time until the store of tokens and the audit log answered, by operation";
        all.register("store_seconds", text, self.store_seconds.clone());
        let text = "Operations of the store of tokens and the audit log that failed";
        all.register("store_errors", text, self.store_errors.clone());
        self
    }

    /// Counts a response that has begun.
    pub(super) fn answered(&self, path: &'static str, status: u16, took: Duration) {
        self.requests.get_or_create(&RequestLabels { path, status }).inc();
        self.request_seconds.get_or_create(&PathLabel { path }).observe(took.as_secs_f64());
    }

    /// Returns all figures as `OpenMetrics` has them, with those of this moment.
    pub(super) fn text(&self, now: &Now) -> String {
        let _moment = self.moment.lock().unwrap_or_else(PoisonError::into_inner);
        self.set(now);
        let mut all = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut all, &self.registry);
        all
    }

    fn set(&self, now: &Now) {
        let Now { jobs, turns_free, calls_waiting, fork_servers, tier } = *now;
        // What was known last is not what is.
        self.jobs.clear();
        for (state, count) in jobs.iter().flatten() {
            self.jobs.get_or_create(&StateLabel { state }).set(gauge(*count));
        }
        self.turns_free.set(gauge(turns_free));
        self.calls_waiting.set(gauge(calls_waiting));
        let ForkServers { ready, starting, off, restarts } = fork_servers;
        for (state, count) in [("ready", ready), ("starting", starting), ("off", off)] {
            self.fork_servers.get_or_create(&StateLabel { state }).set(gauge(count));
        }
        self.fork_server_restarts.inner().store(restarts, Ordering::Relaxed);
        self.build.clear();
        let (version, tier) = (env!("CARGO_PKG_VERSION"), tier.unwrap_or("unknown"));
        self.build.get_or_create(&BuildLabels { version, tier }).set(1);
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Meter for Figures {
    fn decided(&self, code: Option<&'static str>) {
        self.decisions.get_or_create(&DecisionLabels { code: code.unwrap_or("none") }).inc();
    }

    fn waited(&self, duration: Duration) {
        self.queue_seconds.observe(duration.as_secs_f64());
    }

    fn stored(&self, operation: &'static str, duration: Duration, has_failed: bool) {
        let label = OperationLabel { operation };
        self.store_seconds.get_or_create(&label).observe(duration.as_secs_f64());
        if has_failed {
            self.store_errors.get_or_create(&label).inc();
        }
    }

    fn ran(&self, run: &RunFigures) {
        let RunFigures { ending, tier, start, duration } = *run;
        let tier = tier.unwrap_or("none");
        self.runs.get_or_create(&RunLabels { ending, tier, start }).inc();
        self.run_seconds.observe(duration.as_secs_f64());
    }
}
