//! Exports metrics for Prometheus. A label never contains a user, a script or an id.

use std::fmt::Write as _;
use std::time::Duration;

use metrics::{counter, describe_counter, describe_histogram, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::sleep;

use crate::executor::ForkServers;
use crate::server::Now;

/// The bounds of the histogram buckets in seconds. They cover a warm run, which takes 3 ms, and the longest synchronous
/// run, which takes 30 s.
const SECONDS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0];

/// The bounds of the histogram buckets for operations of the store, in seconds. Looking up a token takes a fraction of
/// a millisecond, and a write to disk takes a few milliseconds.
const STORE_SECONDS: [f64; 12] =
    [0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0];

/// The interval at which recorded samples are moved into their buckets, which frees their memory.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The recorded metrics of the process.
pub(super) struct Metrics {
    handle: PrometheusHandle,
}

impl Metrics {
    /// Starts recording the metrics of this process. A process has only one recorder. If another recorder is already
    /// installed, logs an error.
    pub(super) fn record() -> Self {
        let store = Matcher::Full("qwed_mcp_store_seconds".to_owned());
        let builder = PrometheusBuilder::new()
            .set_buckets(&SECONDS)
            .and_then(|builder| builder.set_buckets_for_metric(store, &STORE_SECONDS));
        // `set_buckets` only fails for an empty list, so the default is never used.
        let recorder = builder.unwrap_or_default().build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::error!("another recorder already has the metrics of this process");
        }
        describe();
        Self { handle }
    }

    /// Moves recorded samples into their buckets at intervals, forever. Otherwise the memory of the samples would grow
    /// while no client reads the metrics.
    pub(super) fn run_upkeep(&self) -> impl Future<Output = ()> + use<> {
        let handle = self.handle.clone();
        async move {
            loop {
                sleep(UPKEEP_INTERVAL).await;
                handle.run_upkeep();
            }
        }
    }

    /// Returns all metrics in Prometheus's text format, version 0.0.4: the recorded metrics, and the state in `now`.
    pub(super) fn text(&self, now: &Now) -> String {
        let mut text = self.handle.render();
        write_now(&mut text, now);
        text
    }
}

/// Records the status of a response, and the time until its body begins.
pub(super) fn answered(path: &'static str, status: u16, took: Duration) {
    counter!("qwed_mcp_http_requests_total", "path" => path, "status" => status.to_string())
        .increment(1);
    histogram!("qwed_mcp_http_request_seconds", "path" => path).record(took);
}

fn describe() {
    describe_counter!("qwed_mcp_http_requests_total", "Requests, by path and status");
    describe_histogram!("qwed_mcp_http_request_seconds", "The time until the response begins");
    describe_counter!("qwed_mcp_decisions_total", "Decisions about calls, by error code");
    describe_counter!("qwed_mcp_runs_total", "Runs of scripts that have ended");
    describe_histogram!("qwed_mcp_run_seconds", "The time that scripts took");
    describe_histogram!(
        "qwed_mcp_queue_seconds",
        "The time that runs waited for their turn, also those that gave up"
    );
    describe_histogram!(
        "qwed_mcp_store_seconds",
        "The time until the store of tokens and the audit log answered, by operation"
    );
    describe_counter!(
        "qwed_mcp_store_errors_total",
        "Operations of the store of tokens and the audit log that failed"
    );
}

/// Writes the metrics with values that are read at the time of the scrape.
fn write_now(text: &mut String, now: &Now) {
    let Now { jobs, turns_free, calls_waiting, fork_servers, tier } = *now;
    let ForkServers { ready, starting, off, restarts } = fork_servers;
    let tier = tier.unwrap_or("unknown");
    let build = format!("version=\"{}\",tier=\"{tier}\"", env!("CARGO_PKG_VERSION"));
    let state = |state: &str| format!("state=\"{state}\"");
    let jobs: Vec<_> =
        jobs.iter().flatten().map(|(word, count)| (state(word), to_u64(*count))).collect();
    let fork_servers = [("ready", ready), ("starting", starting), ("off", off)];
    let fork_servers = fork_servers.map(|(word, count)| (state(word), to_u64(count)));
    let plain = |value: u64| [(String::new(), value)];
    for (name, kind, help, samples) in [
        (
            "build_info",
            "gauge",
            "The version of the program, and the tier of the sandbox once it was tried out",
            &[(build, 1)][..],
        ),
        (
            "calls_waiting",
            "gauge",
            "Synchronous runs that wait for their turn",
            &plain(to_u64(calls_waiting)),
        ),
        (
            "turns_free",
            "gauge",
            "Synchronous runs that could begin at once",
            &plain(to_u64(turns_free)),
        ),
        (
            "jobs",
            "gauge",
            "Background jobs by state: of all replicas with a database, otherwise of this one; \
             none while the database is unreachable",
            &jobs,
        ),
        (
            "fork_servers",
            "gauge",
            "Fork servers, which warm interpreters come from, by state",
            &fork_servers,
        ),
        (
            "fork_server_restarts_total",
            "counter",
            "Fork servers that replaced an earlier one",
            &plain(restarts),
        ),
    ] {
        let name = format!("qwed_mcp_{name}");
        // Writing to a string cannot fail, so ignore the result.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    }
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
