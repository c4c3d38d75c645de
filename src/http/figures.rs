//! Figures for Prometheus. No label has a user, code or an id.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::meter::{Meter, RunFigures};

/// The bounds of the histograms, in seconds: a warm run takes 3 ms, and the longest synchronous one 30 s.
const SECONDS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0];

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
struct BuildLabel {
    version: &'static str,
}

/// All figures.
pub(super) struct Figures {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<PathLabel, Histogram>,
    decisions: Family<DecisionLabels, Counter>,
    runs: Family<RunLabels, Counter>,
    run_seconds: Histogram,
    jobs: Family<StateLabel, Gauge>,
    turns_free: Gauge,
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
            jobs: Family::default(),
            turns_free: Gauge::default(),
        };
        figures.registered()
    }

    fn registered(mut self) -> Self {
        let build = Family::<BuildLabel, Gauge>::default();
        build.get_or_create(&BuildLabel { version: env!("CARGO_PKG_VERSION") }).set(1);
        let all = &mut self.registry;
        all.register("build_info", "The version of the program", build);
        all.register("http_requests", "Requests, by path and status", self.requests.clone());
        let text = "The time until the response begins";
        all.register("http_request_seconds", text, self.request_seconds.clone());
        all.register("decisions", "Decisions about calls, by error code", self.decisions.clone());
        all.register("runs", "Runs of scripts that have ended", self.runs.clone());
        all.register("run_seconds", "The time that scripts took", self.run_seconds.clone());
        all.register("jobs", "Background jobs that are known, by state", self.jobs.clone());
        let text = "Synchronous runs that could begin at once";
        all.register("turns_free", text, self.turns_free.clone());
        self
    }

    /// Counts a response that has begun.
    pub(super) fn answered(&self, path: &'static str, status: u16, took: Duration) {
        self.requests.get_or_create(&RequestLabels { path, status }).inc();
        self.request_seconds.get_or_create(&PathLabel { path }).observe(took.as_secs_f64());
    }

    /// Sets the figures that are true now.
    pub(super) fn set_now(&self, jobs: &[(&'static str, usize)], turns_free: usize) {
        for (state, count) in jobs {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            self.jobs.get_or_create(&StateLabel { state }).set(count);
        }
        self.turns_free.set(i64::try_from(turns_free).unwrap_or(i64::MAX));
    }

    /// Returns all figures as `OpenMetrics` has them.
    pub(super) fn text(&self) -> String {
        let mut all = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut all, &self.registry);
        all
    }
}

impl Meter for Figures {
    fn decided(&self, code: Option<&'static str>) {
        self.decisions.get_or_create(&DecisionLabels { code: code.unwrap_or("none") }).inc();
    }

    fn ran(&self, run: &RunFigures) {
        let RunFigures { ending, tier, start, duration } = *run;
        let tier = tier.unwrap_or("none");
        self.runs.get_or_create(&RunLabels { ending, tier, start }).inc();
        self.run_seconds.observe(duration.as_secs_f64());
    }
}
