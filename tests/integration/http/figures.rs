//! Tests the metrics, and the dashboard that queries them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::two_replicas;
use super::{HttpServer, bearer, script, soon, stateless};
use crate::governed::Governed;
use crate::harness::postgres::Postgres;
use crate::harness::{ServerBuilder, descendants, root};

tests! {
    needs [Sandbox]:
        waits_for_a_turn_are_counted_and_timed,
        the_store_is_timed_by_operation,
        no_label_has_a_user_code_or_an_id,
        the_tier_is_reported_after_its_probe;
    needs [Tier3]:
        fork_servers_are_counted_by_state,
        the_dashboard_queries_existing_metrics;
    needs [Postgres, Sandbox]:
        jobs_are_those_of_all_replicas_and_unknown_while_the_database_is_away;
}

/// The permitted labels of metrics. Each has only a few possible values.
const LABELS: [&str; 10] =
    ["code", "ending", "le", "operation", "path", "start", "state", "status", "tier", "version"];

const OF_PROMETHEUS: [&str; 2] = ["instance", "job"];

#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

fn text(server: &HttpServer) -> String {
    String::from_utf8(server.admin("/metrics").body).unwrap()
}

fn samples(server: &HttpServer) -> Vec<Sample> {
    let text = text(server);
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
            let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
            let label = |label: &str| {
                let (name, value) = label.split_once('=').unwrap();
                (name.to_owned(), value.trim_matches('"').to_owned())
            };
            let (labels, value) = (labels.map(label).collect(), value.parse().unwrap());
            Sample { name: name.to_owned(), labels, value }
        })
        .collect()
}

/// Returns the sum of a metric's samples that have all of these label values, or 0.
fn figure(server: &HttpServer, name: &str, words: &[&str]) -> f64 {
    let is_it = |sample: &&Sample| {
        sample.name == name && words.iter().all(|word| sample.labels.values().any(|it| it == word))
    };
    samples(server).iter().filter(is_it).map(|sample| sample.value).sum()
}

/// Returns the value of [`figure`] as a whole number.
fn count(server: &HttpServer, name: &str, words: &[&str]) -> u64 {
    let figure = figure(server, name, words);
    assert!(figure >= 0.0 && figure.fract() == 0.0, "{name} {figure}");
    // An empty sum is -0.
    format!("{:.0}", figure.abs()).parse().unwrap()
}

fn with_token(token: &str, params: Value) -> (String, String) {
    let (head, body) = stateless("tools/call", params);
    (format!("{head}{}", bearer(token)), body)
}

fn waits_for_a_turn_are_counted_and_timed() {
    let builder = ServerBuilder::new().variable("QWED_MCP_SYNC_CONCURRENCY", "1");
    let server = HttpServer::start(builder, &[]);
    server.wait_until_ready();
    let now = || {
        ["qwed_mcp_calls_waiting", "qwed_mcp_turns_free", "qwed_mcp_queue_seconds_count"]
            .map(|name| count(&server, name, &[]))
    };
    assert_eq!(now(), [0, 1, 0]);
    let (head, body) = stateless("tools/call", script("import time\ntime.sleep(1)\nprint(1)"));
    let mut first = server.connect();
    first.begin(&head, &body);
    soon("the first call runs", || now() == [0, 0, 1]);
    let mut second = server.connect();
    second.begin(&head, &body);
    let mut third = server.connect();
    third.begin(&head, &body);
    soon("both other calls wait", || now() == [2, 0, 1]);
    // The waiting time of an abandoned call counts too.
    drop(third);
    soon("one call has given up", || now()[0] == 1);
    for connection in [&mut first, &mut second] {
        assert_eq!(connection.response().unwrap().status, 200);
    }
    soon("no call is left", || now() == [0, 1, 3]);
    let waited = figure(&server, "qwed_mcp_queue_seconds_sum", &[]);
    assert!(waited > 0.5, "{waited}");
    // A script of a pipeline waits for the same turns as a call.
    let head = format!("POST /run HTTP/1.1\r\n{}", super::JSON);
    assert_eq!(server.send(&head, r#"{"code":"print(3)"}"#).status, 200);
    assert_eq!(now(), [0, 1, 4]);
}

fn fork_servers_are_counted_by_state() {
    let states = |server: &HttpServer| {
        ["ready", "starting", "off"].map(|state| count(server, "qwed_mcp_fork_servers", &[state]))
    };
    let cold = HttpServer::start(ServerBuilder::new(), &[]);
    cold.run("print(1)");
    assert_eq!(states(&cold), [0, 0, 0]);

    let server = HttpServer::start(ServerBuilder::new().warm("json"), &[]);
    soon("the fork server is ready", || states(&server)[0] > 0 && states(&server)[1] == 0);
    // A fork server that has never provided an interpreter is not replaced at once. So wait for a warm run.
    let warm = || count(&server, "qwed_mcp_runs_total", &["warm"]);
    soon("scripts are warm", || {
        server.run("print(1)");
        warm() > 0
    });
    let all: u64 = states(&server).iter().sum();
    let restarts = || count(&server, "qwed_mcp_fork_server_restarts_total", &[]);
    assert_eq!(restarts(), 0);
    for process in descendants(server.pid()) {
        let _ = kill(Pid::from_raw(process.try_into().unwrap()), Signal::SIGKILL);
    }
    // The next script detects the missing fork server. The server then replaces it.
    soon("the fork server is replaced", || {
        server.run("print(1)");
        restarts() > 0 && states(&server)[0] > 0
    });
    let before = warm();
    soon("scripts are warm again", || {
        server.run("print(1)");
        warm() > before
    });
    assert_eq!(states(&server).iter().sum::<u64>(), all);
}

fn the_store_is_timed_by_operation() {
    let governed = Governed::new("ledger");
    let server = HttpServer::start(governed.server(), &["--require-token"]);
    let timed = |operation| count(&server, "qwed_mcp_store_seconds_count", &[operation]);
    let failed = |operation| count(&server, "qwed_mcp_store_errors_total", &[operation]);
    let list = || server.stateless_as(&governed.user, "tools/list", json!({})).status;
    let before = timed("authenticate");
    assert_eq!([list(), list(), list()], [200, 200, 200]);
    assert_eq!([timed("authenticate") - before, timed("append")], [3, 0]);
    let (head, body) = with_token(&governed.user, script("print(1)"));
    assert_eq!(server.send(&head, &body).status, 200);
    // The audit log gets rows for the decision, the start and the end.
    assert_eq!(timed("append"), 3);
    let seconds = figure(&server, "qwed_mcp_store_seconds_sum", &["append"]);
    assert!(seconds > 0.0 && seconds < 60.0, "{seconds}");
    assert_eq!([failed("authenticate"), failed("append")], [0, 0]);

    fs::rename(governed.data.join("governance.db"), governed.data.join("moved.db")).unwrap();
    assert_eq!(list(), 503);
    assert_eq!(failed("authenticate"), 1);
}

fn no_label_has_a_user_code_or_an_id() {
    let governed = Governed::new("ledger");
    let server = HttpServer::start(governed.server(), &["--require-token"]);
    let mut background = script("print('some code')");
    background["arguments"]["background"] = json!(true);
    let mut known = vec![governed.user.clone(), "bob".to_owned(), "some code".to_owned()];
    for call in [script("print('some code')"), background, script("eval('some code')")] {
        let (head, body) = with_token(&governed.user, call);
        let meta = server.send(&head, &body).json()["result"]["_meta"].clone();
        known.push(meta["qwed.ai/decision"]["verification_id"].as_str().unwrap().to_owned());
        known.extend(meta["qwed.ai/job"]["job_id"].as_str().map(ToOwned::to_owned));
    }
    // The client chooses this path and this tool name. Neither may become a label.
    let head = format!("GET /bob HTTP/1.1\r\n{}", bearer(&governed.user));
    assert_eq!(server.send(&head, "").status, 404);
    let (head, body) = with_token(&governed.user, json!({ "name": "bob", "arguments": {} }));
    server.send(&head, &body);
    assert_eq!(known.len(), 7, "{known:?}");
    let text = text(&server);
    for secret in known {
        assert!(!text.contains(&secret), "{secret}: {text}");
    }
    let labels: BTreeSet<String> =
        samples(&server).into_iter().flat_map(|sample| sample.labels.into_keys()).collect();
    assert_eq!(labels, LABELS.map(ToOwned::to_owned).into());
}

fn the_tier_is_reported_after_its_probe() {
    let closed = ServerBuilder::new().without("QWED_MCP_TRUSTED_CODE_EXECUTION");
    let closed = HttpServer::start(closed, &[]);
    assert_eq!(closed.admin("/readyz").status, 503);
    let without = ServerBuilder::new().variable("QWED_MCP_PYTHON", "/nonexistent/python");
    let without = HttpServer::start(without, &[]).admin("/readyz");
    let body = String::from_utf8(without.body).unwrap();
    assert_eq!((without.status, &*body), (503, "there is no Python interpreter for scripts\n"));
    let told = |server: &HttpServer, tier: &str| count(server, "qwed_mcp_build_info", &[tier]);
    assert_eq!(told(&closed, "unknown"), 1);
    let off = HttpServer::start(ServerBuilder::new().variable("QWED_MCP_SANDBOX", "off"), &[]);
    soon("the tier is known", || told(&off, "off") == 1);
    assert_eq!(told(&off, "unknown"), 0);
    let server = HttpServer::start(ServerBuilder::new(), &[]);
    server.run("print(1)");
    let is_tier = |tier: &&str| {
        told(&server, tier) == 1 && count(&server, "qwed_mcp_runs_total", &[tier]) == 1
    };
    assert_eq!(["T1", "T2", "T3"].iter().filter(|tier| is_tier(tier)).count(), 1);
}

fn jobs_are_those_of_all_replicas_and_unknown_while_the_database_is_away() {
    let database = Postgres::start();
    let governed = Governed::sharing("ledger", Some(database.database()));
    let replicas = two_replicas(&governed);
    let mut background = script("print(6 * 7)");
    background["arguments"]["background"] = json!(true);
    let (head, body) = with_token(&governed.user, background);
    assert_eq!(replicas[0].send(&head, &body).status, 200);
    for replica in &replicas {
        soon("all replicas have counted it", || count(replica, "qwed_mcp_jobs", &["ended"]) == 1);
    }
    database.kill();
    for replica in &replicas {
        // An outdated count must not be reported.
        soon("the count is absent", || {
            samples(replica).iter().all(|sample| sample.name != "qwed_mcp_jobs")
        });
    }
    database.begin();
    soon("the count is back", || count(&replicas[1], "qwed_mcp_jobs", &["ended"]) == 1);
}

fn the_dashboard_queries_existing_metrics() {
    let governed = Governed::new("ledger");
    let builder = governed.server().warm("json");
    let server = HttpServer::start(builder, &["--require-token"]);
    server.wait_until_ready();
    let run = |code: &str| {
        let (head, body) = with_token(&governed.user, script(code));
        assert_eq!(server.send(&head, &body).status, 200);
    };
    // A metric without an event is absent, so cause each kind of event first.
    soon("scripts are warm", || {
        run("print(1)");
        count(&server, "qwed_mcp_runs_total", &["warm"]) > 0
    });
    fs::rename(governed.data.join("governance.db"), governed.data.join("moved.db")).unwrap();
    let (head, body) = with_token(&governed.user, script("print(1)"));
    assert_eq!(server.send(&head, &body).status, 503);
    let there = samples(&server);

    let file = fs::read_to_string(root().join("deploy/grafana.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&file).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() >= 10, "{}", panels.len());
    let expressions = |dashboard: &str| {
        let dashboard: Value = serde_json::from_str(dashboard).unwrap();
        let panels = dashboard["panels"].as_array().unwrap().clone();
        let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        let of_variables = variables.iter().filter_map(|it| it["query"]["query"].as_str());
        let of_panels = targets.map(|target| target["expr"].as_str().unwrap());
        of_panels.chain(of_variables).map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let missing = |dashboard: &str| -> Vec<String> {
        expressions(dashboard).iter().flat_map(|expression| missing(expression, &there)).collect()
    };
    assert_eq!(missing(&file), Vec::<String>::new());
    for (old, new) in [
        ("qwed_mcp_calls_waiting", "qwed_mcp_calls_wait"),
        ("qwed_mcp_runs_total", "qwed_mcp_runs"),
        ("qwed_mcp_queue_seconds_bucket", "qwed_mcp_queue_seconds"),
        ("sum by (code)", "sum by (error_code)"),
        ("start=\\\"warm\\\"", "start=\\\"hot\\\""),
        ("label_values(qwed_mcp_build_info,", "label_values(qwed_mcp_build,"),
    ] {
        assert!(file.contains(old), "{old}");
        assert_ne!(missing(&file.replacen(old, new, 1)), Vec::<String>::new(), "{new}");
    }
    let page = fs::read_to_string(root().join("docs/HTTP.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `qwed_mcp_"));
    let documented: BTreeSet<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    let text = text(&server);
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE qwed_mcp_"));
    let kinds: BTreeSet<&str> = kinds.filter_map(|kind| kind.split(' ').next()).collect();
    assert_eq!(documented, kinds);
    // The dashboard must show every metric.
    let asked = expressions(&file).join("\n");
    let is_shown = |name: &str| {
        let family = name.trim_end_matches("_sum").trim_end_matches("_count");
        asked.contains(name) || asked.contains(&format!("{family}_bucket"))
    };
    let hidden: BTreeSet<&str> =
        there.iter().map(|sample| &*sample.name).filter(|name| !is_shown(name)).collect();
    assert_eq!(hidden, BTreeSet::new());
}

/// Returns the metrics, labels and label values that a `PromQL` expression uses, but that the server does not report.
fn missing(expression: &str, there: &[Sample]) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut missing = Vec::new();
    let mut labels: BTreeSet<&str> = OF_PROMETHEUS.into();
    for (at, _) in expression.match_indices("qwed_mcp_") {
        let rest = &expression[at..];
        let (name, rest) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
        let of_name: Vec<&Sample> = there.iter().filter(|sample| sample.name == name).collect();
        if of_name.is_empty() {
            missing.push(name.to_owned());
        }
        labels.extend(of_name.iter().flat_map(|sample| sample.labels.keys().map(String::as_str)));
        let selector = rest.strip_prefix('{').and_then(|rest| rest.split('}').next());
        for matcher in selector.unwrap_or_default().split(", ").filter(|it| !it.is_empty()) {
            let (label, word) = matcher.split_once('=').unwrap();
            if OF_PROMETHEUS.contains(&label) {
                continue;
            }
            let mut words = of_name.iter().filter_map(|sample| sample.labels.get(label));
            let is_there = match word.strip_prefix('~') {
                Some(_) => words.next().is_some(),
                None => words.any(|it| it == word.trim_matches('"')),
            };
            if !is_there {
                missing.push(matcher.to_owned());
            }
        }
    }
    let grouped = expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
    let grouped =
        grouped.flat_map(|group| group.split(", ")).filter(|label| !labels.contains(label));
    missing.extend(grouped.map(ToOwned::to_owned));
    missing
}
