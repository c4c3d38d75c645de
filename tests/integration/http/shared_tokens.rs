//! Tests tokens and jobs in a database that replicas share, and the protection against changes in the database.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{HttpServer, alive_with_marker, bearer, script, soon, stateless, two_replicas};
use crate::governed::Governed;
use crate::harness::postgres::{self, Postgres};
use crate::harness::{ServerBuilder, quickest};

tests! {
    needs [Postgres, Sandbox]:
        a_token_is_worth_the_same_at_all_replicas,
        a_replica_has_three_connections,
        a_result_that_was_changed_in_the_database_is_not_returned,
        a_job_without_an_audited_decision_is_not_run,
        the_end_of_a_job_is_written_when_the_database_is_back,
        a_server_is_ready_when_it_can_write,
        a_server_shuts_down_and_has_metrics_while_the_database_is_silent,
        a_user_of_the_database_with_too_many_rights_is_reported;
}

/// The text about a job whose result does not match the audit log.
const NOT_ITS_RESULT: &str = "Status: failed\n\nResult:\nExecution error: the result in the database does not match the audit log, so it is not returned; ask the admin to look at the server's log.";
/// The text about a job that has no decision in the audit log.
const NOT_DECIDED: &str = "Status: failed\n\nResult:\nExecution error: the audit log has no decision that lets it run for this \
                           user, so it is not run; ask the admin to look at the server's log.";

/// Starts a server with the tokens and the database of `governed`, without a policy.
fn without_policy(governed: &Governed, url: &str) -> HttpServer {
    let folder = governed.beside("without-policy");
    let builder = ServerBuilder::new()
        .variable("QWED_MCP_DATA_DIR", folder.to_str().unwrap())
        .variable("QWED_MCP_STORE", url);
    HttpServer::start(builder, &["--require-token"])
}

fn place(server: &HttpServer, token: &str, code: &str) -> String {
    let mut background = script(code);
    background["arguments"]["background"] = json!(true);
    let placed = server.stateless_as(token, "tools/call", background).json();
    placed["result"]["_meta"]["qwed.ai/job"]["job_id"].as_str().unwrap().to_owned()
}

/// Returns the text about a job, or an empty string if the request fails.
fn asked(server: &HttpServer, token: &str, job: &str) -> String {
    let status = json!({ "name": "verification_status", "arguments": { "job_id": job } });
    let (head, body) = stateless("tools/call", status);
    let reply = server.send(&format!("{head}{}", bearer(token)), &body);
    if reply.status != 200 {
        return String::new();
    }
    reply.json()["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

fn until_success(server: &HttpServer, token: &str, job: &str) {
    let ended = || asked(server, token, job);
    soon("the job has ended", || {
        let told = ended();
        told.starts_with("Status: ") && !told.ends_with("...")
    });
    assert!(ended().starts_with("Status: success"), "{}", ended());
}

fn a_token_is_worth_the_same_at_all_replicas() {
    let database = Postgres::start();
    let governed = Governed::sharing("ledger", Some(database.database()));
    let replicas = two_replicas(&governed);
    let asked = |replica: &HttpServer, token: &str| {
        replica.stateless_as(token, "tools/list", json!({})).status
    };
    let statuses = |token: &str| [&replicas[0], &replicas[1]].map(|replica| asked(replica, token));
    let made = governed.token("ann", "user");
    assert_eq!(statuses(&made), [200, 200]);
    assert_eq!(statuses(&format!("qwedmcp_{}", "A".repeat(43))), [401, 401]);
    let revoked = governed.command(&["token", "revoke", "4"]);
    assert!(revoked.status.success(), "{revoked:?}");
    assert_eq!(statuses(&made), [401, 401]);
    // Tokens are refused while the database is not available.
    assert_eq!(statuses(&governed.user), [200, 200]);
    database.kill();
    assert_eq!(statuses(&governed.user), [503, 503]);
    assert_ne!(replicas[0].admin("/readyz").status, 200);
    database.begin();
    assert_eq!(statuses(&governed.user), [200, 200]);
    soon("the server is ready again", || replicas[0].admin("/readyz").status == 200);
}

fn a_replica_has_three_connections() {
    let database = Postgres::start();
    let url = database.database();
    let governed = Governed::sharing("ledger", Some(url.clone()));
    let server = HttpServer::start(governed.server(), &["--require-token"]);
    server.wait_until_ready();
    assert_eq!(run(&server, &governed.user), (200, "ok".to_owned()));
    let job = place(&server, &governed.user, "print(6 * 7)");
    until_success(&server, &governed.user, &job);
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'qwed-mcp' AND datname = current_database()";
    assert_eq!(database.sql(&url, count), "3");
    // The server replaces terminated connections at the next use.
    let end = count.replace("count(*)", "count(pg_terminate_backend(pid))");
    assert_eq!(database.sql(&url, &end), "3");
    soon("scripts run again", || {
        let head = format!("POST /run HTTP/1.1\r\n{}{}", super::JSON, bearer(&governed.user));
        server.send(&head, r#"{"code":"print(1)"}"#).status == 200
    });
    let job = place(&server, &governed.user, "print(6 * 7)");
    until_success(&server, &governed.user, &job);
    soon("the server has three connections again", || database.sql(&url, count) == "3");
}

fn a_result_that_was_changed_in_the_database_is_not_returned() {
    let url = postgres::shared().database();
    let governed = Governed::sharing("ledger", Some(url.clone()));
    let server = HttpServer::start(governed.server(), &["--require-token"]);
    let changes = [
        ("stdout = 'forged'", &governed.user),
        ("stderr = 'forged'", &governed.user),
        (r#"result = replace(result, '{"Exited":0}', '{"Exited":1}')"#, &governed.user),
        (r#"result = replace(result, '"advice":null', '"advice":"forged"')"#, &governed.user),
        ("user_name = 'ada'", &governed.admin),
        ("id = gen_random_uuid()", &governed.user),
    ];
    let jobs = changes.map(|_| place(&server, &governed.user, "print(6 * 7)"));
    for job in &jobs {
        until_success(&server, &governed.user, job);
    }
    // The control: without a policy, a server does not compare results with the audit log, so it detects no change.
    let believing = without_policy(&governed, &url);
    for ((change, token), job) in changes.into_iter().zip(&jobs) {
        let sql = format!("UPDATE qwed_mcp.jobs SET {change} WHERE id = '{job}' RETURNING id");
        let id =
            postgres::shared().sql(&url, &format!("SET session_replication_role = replica; {sql}"));
        assert_eq!(asked(&server, token, &id), NOT_ITS_RESULT, "{change}");
        let believed = asked(&believing, token, &id);
        assert!(believed.contains("Result:\nSTD"), "{change}: {believed}");
    }
    governed.verify_audit();
}

fn a_job_without_an_audited_decision_is_not_run() {
    let url = postgres::shared().database();
    let governed = Governed::sharing("ledger", Some(url.clone()));
    let server = HttpServer::start(governed.server(), &["--require-token"]);
    let honest = place(&server, &governed.user, "print(6 * 7)");
    until_success(&server, &governed.user, &honest);
    let insert = |id: &str, decision: &str, code: &str| {
        let sql = format!(
            "INSERT INTO qwed_mcp.jobs (id, user_name, script, asked_by, verification_id, \
             decision, token_id) \
             VALUES ('{id}', 'bob', '{code}', '{{}}', {decision}, '{{}}', \
             (SELECT max(id) FROM qwed_mcp.tokens WHERE user_name = 'bob'))"
        );
        postgres::shared().sql(&url, &sql);
    };
    let of_honest = format!("(SELECT verification_id FROM qwed_mcp.jobs WHERE id = '{honest}')");
    let forged = ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"];
    insert(forged[0], "repeat('ab', 32)", "print(6 * 7)");
    insert(forged[1], &of_honest, "print(6 * 7)");
    for job in forged {
        soon("the job has ended", || {
            asked(&server, &governed.user, job).starts_with("Status: failed")
        });
        assert_eq!(asked(&server, &governed.user, job), NOT_DECIDED);
    }
    let started = governed.audit_rows();
    let started = started.iter().filter(|row| row["event"] == "TOOL_STARTED").count();
    assert_eq!(started, 1);
    server.end();
    // Without a policy, the server does not compare jobs with the audit log.
    let believing = without_policy(&governed, &url);
    let job = "33333333-3333-4333-8333-333333333333";
    insert(job, "repeat('ab', 32)", "print(6 * 7)");
    until_success(&believing, &governed.user, job);
}

fn the_end_of_a_job_is_written_when_the_database_is_back() {
    let database = Postgres::start();
    let governed = Governed::sharing("ledger", Some(database.database()));
    let server = HttpServer::start(governed.server(), &["--require-token"]);
    let job = place(&server, &governed.user, "import time\ntime.sleep(2)\nprint(6 * 7)");
    soon("the job runs", || asked(&server, &governed.user, &job) == "Status: running...");
    soon("the process of the job exists", || !alive_with_marker(server.scratch.path()).is_empty());
    database.kill();
    soon("the process of the job has ended", || {
        alive_with_marker(server.scratch.path()).is_empty()
    });
    // Wait until the server has stopped retrying a refused connection and has reported an error.
    std::thread::sleep(Duration::from_secs(6));
    database.begin();
    until_success(&server, &governed.user, &job);
    let ends = governed.audit_rows();
    let ends = ends.iter().filter(|row| row["event"] == "TOOL_FINISHED").count();
    assert_eq!(ends, 1);
    governed.verify_audit();
}

/// Runs a script as a pipeline does. Returns the HTTP status and the status of the script.
fn run(server: &HttpServer, token: &str) -> (u16, String) {
    let head = format!("POST /run HTTP/1.1\r\n{}{}", super::JSON, bearer(token));
    let answer = server.send(&head, r#"{"code":"print(1)"}"#);
    (answer.status, answer.json()["status"].as_str().unwrap().to_owned())
}

/// Returns the URL of a database user that owns the tables but is not a superuser.
fn as_owner(database: &Postgres) -> String {
    let url = database.database();
    let name = url.rsplit('/').next().unwrap();
    let roles =
        format!("CREATE ROLE qwed_plain LOGIN; GRANT CREATE ON DATABASE {name} TO qwed_plain");
    database.sql(&url, &roles);
    url.replace("qwed@", "qwed_plain@")
}

fn a_server_is_ready_when_it_can_write() {
    let database = Postgres::start();
    let url = as_owner(&database);
    let governed = Governed::sharing("ledger", Some(url.clone()));
    let server = HttpServer::start(governed.server(), &["--require-token"]);
    server.wait_until_ready();
    let ready = |server: &HttpServer| {
        // The server reuses the result of a probe for a second.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let answer = server.admin("/readyz");
        (answer.status, String::from_utf8(answer.body).unwrap())
    };
    let [log, jobs] = [
        "the audit log cannot be written to\n",
        "background jobs cannot be placed in the database\n",
    ];
    let may_insert = |may: bool, table: &str| {
        let word =
            if may { "GRANT INSERT ON qwed_mcp.@ TO" } else { "REVOKE INSERT ON qwed_mcp.@ FROM" };
        database.sql(&url, &format!("{} qwed_plain", word.replace('@', table)));
    };
    assert_eq!(run(&server, &governed.user), (200, "ok".to_owned()));
    place(&server, &governed.user, "print(1)");

    may_insert(false, "audit");
    assert_eq!(run(&server, &governed.user), (503, "infra_error".to_owned()));
    assert_eq!(ready(&server), (503, log.to_owned()));
    may_insert(true, "audit");
    assert_eq!(ready(&server), (200, "ready\n".to_owned()));
    assert_eq!(run(&server, &governed.user), (200, "ok".to_owned()));

    may_insert(false, "jobs");
    let mut background = script("print(1)");
    background["arguments"]["background"] = json!(true);
    let refused = server.stateless_as(&governed.user, "tools/call", background).json();
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert_eq!(ready(&server), (503, jobs.to_owned()));
    // A server that has not placed a job yet must detect the missing privilege too.
    let elsewhere = governed.beside("elsewhere");
    let other = governed.server().variable("QWED_MCP_DATA_DIR", elsewhere.to_str().unwrap());
    let other = HttpServer::start(other, &["--require-token"]);
    assert_eq!(ready(&other), (503, jobs.to_owned()));
    may_insert(true, "jobs");
    may_insert(false, "audit");
    assert_eq!(ready(&other), (503, log.to_owned()));
    may_insert(true, "audit");
    for server in [&server, &other] {
        soon("the server is ready", || ready(server).0 == 200);
    }
    // The server's probes must leave no rows.
    assert_eq!(database.sql(&url, "SELECT count(*) FROM qwed_mcp.jobs"), "1");
    assert_eq!(
        database
            .sql(&url, "SELECT count(*) FROM qwed_mcp.audit_heads WHERE instance ~ 'rehearsal'"),
        "0"
    );
    governed.verify_audit();
}

fn a_server_shuts_down_and_has_metrics_while_the_database_is_silent() {
    let database = Postgres::start();
    let governed = Governed::sharing("ledger", Some(database.database()));
    // Prometheus gives up a scrape after ten seconds.
    quickest(Duration::from_secs(8), || {
        let server = HttpServer::start(governed.server(), &["--require-token"]);
        server.wait_until_ready();
        let silence = database.silence();
        let began = Instant::now();
        let figures = server.admin("/metrics");
        let took = began.elapsed();
        let text = String::from_utf8(figures.body).unwrap();
        assert!(figures.status == 200 && !text.contains("qwed_mcp_jobs{"), "{text}");
        drop(silence);
        server.end();
        took
    });
    // Without the shutdown, an append would wait 20 seconds for the database.
    quickest(Duration::from_secs(15), || {
        let server = HttpServer::start(governed.server(), &["--require-token", "--drain", "1"]);
        server.wait_until_ready();
        let head = format!("POST /run HTTP/1.1\r\n{}{}", super::JSON, bearer(&governed.user));
        let mut connection = server.connect();
        connection.begin(&head, r#"{"code":"import time\ntime.sleep(1)"}"#);
        soon("the script runs", || server.scripts() > 0);
        let silence = database.silence();
        soon("the script has ended", || server.scripts() == 0);
        let mut waiting = [connection, server.connect(), server.connect()];
        waiting[1].begin(&head, r#"{"code":"print(1)"}"#);
        let (list, body) = stateless("tools/list", json!({}));
        waiting[2].begin(&format!("{list}{}", bearer(&governed.user)), &body);
        let began = Instant::now();
        let log = server.end();
        let took = began.elapsed();
        // The server can neither store the end of the script nor check the tokens of the waiting requests.
        let statuses = waiting.map(|mut it| it.response().map(|response| response.status));
        assert_eq!(statuses, [Some(503); 3], "{log}");
        drop(silence);
        took
    });
}

fn a_user_of_the_database_with_too_many_rights_is_reported() {
    const TOLD: &str = "the user of QWED_MCP_STORE can change the audit log, tokens and results";
    let database = Postgres::start();
    let owner = as_owner(&database);
    let superuser = owner.replace("qwed_plain@", "qwed@");
    let governed = Governed::sharing("ledger", Some(owner.clone()));
    database.sql(
        &superuser,
        "CREATE ROLE qwed_least LOGIN; GRANT USAGE ON SCHEMA qwed_mcp TO qwed_least; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA qwed_mcp TO qwed_least; \
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA qwed_mcp TO qwed_least",
    );
    let least = owner.replace("qwed_plain@", "qwed_least@");
    for (url, expected) in [
        (&owner, Some("it owns the tables")),
        (&superuser, Some("it is a superuser of the database")),
        (&least, None),
    ] {
        let builder = || governed.server().variable("QWED_MCP_STORE", url);
        let log = HttpServer::start(builder(), &["--require-token"]).end();
        assert_eq!(log.contains(TOLD), expected.is_some(), "{log}");
        assert!(log.contains(expected.unwrap_or_default()), "{log}");
        for format in ["text", "json"] {
            let output = builder().command().args(["doctor", "--format", format]).output().unwrap();
            let stdout = String::from_utf8(output.stdout).unwrap();
            let is_fine = if format == "text" { "can be used" } else { "\"user_rights\": null" };
            let rows: Vec<&str> = stdout
                .lines()
                .filter(|line| line.contains("database ") || line.contains("user_rights"))
                .collect();
            assert!(rows.iter().any(|row| row.contains(expected.unwrap_or(is_fine))), "{stdout}");
        }
    }
}
