//! Tests background jobs that servers share in PostgreSQL (`QWED_MCP_STORE`), as clients see them.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{McpProcess, ServerBuilder, deadline, postgres};

tests! {
    needs []:
        an_invalid_store_url_ends_the_server;
    needs [Postgres]:
        a_store_that_refuses_ends_the_server_and_no_password_is_logged;
    needs [Postgres, Sandbox]:
        any_server_answers_for_a_job,
        the_result_outlives_the_server_that_ran_it,
        a_job_of_a_killed_server_is_reported_as_lost;
}

const STORE: &str = "QWED_MCP_STORE";

fn server(store: &str) -> McpProcess {
    ServerBuilder::new().variable(STORE, store).connect()
}

/// Starts a server that must refuse to start. Returns its log.
fn refusal(store: &str) -> String {
    let mut command: Command = ServerBuilder::new().variable(STORE, store).command();
    let output = command.arg("serve").stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn an_invalid_store_url_ends_the_server() {
    for (store, expected) in [
        ("mysql://ann:s3cret@db/jobs", "QWED_MCP_STORE is not a URL that begins with postgres://"),
        (
            "postgres://ann:s3cret@db/jobs?sslmode=strict",
            "QWED_MCP_STORE has an sslmode other than",
        ),
        ("postgres://ann:s3cret@127.0.0.1:x/jobs", "QWED_MCP_STORE cannot be read"),
        (
            "postgres://ann:s3cret@127.0.0.1/jobs?sslmode=verify-full&sslrootcert=/nowhere.pem",
            "sslrootcert=/nowhere.pem cannot be read",
        ),
    ] {
        let told = refusal(store);
        assert!(
            told.contains("background jobs cannot be shared: ") && told.contains(expected),
            "{told}"
        );
        assert!(!told.contains("s3cret"), "{told}");
    }
}

fn a_store_that_refuses_ends_the_server_and_no_password_is_logged() {
    let postgres = postgres::shared();
    let told = refusal(&postgres.url("nowhere").replace("qwed@", "qwed:s3cret@"));
    assert!(told.contains("failed to connect to the database nowhere on 127.0.0.1"), "{told}");
    assert!(told.contains("database \"nowhere\" does not exist"), "{told}");
    assert!(!told.contains("s3cret"), "{told}");
    // The database has the schema of a newer version.
    let store = postgres.database();
    server(&store).finish();
    postgres.sql(&store, "INSERT INTO qwed_mcp.migrations (version, name) VALUES (1000, 'later')");
    let told = refusal(&store);
    assert!(
        told.contains("the database has schema version 1000, and this program supports up to"),
        "{told}"
    );
}

fn until_it_runs(server: &mut McpProcess, job: &str) {
    let started = Instant::now();
    while server.status(job).text() != "Status: running..." {
        assert!(started.elapsed() < deadline(Duration::from_secs(20)), "{job} does not run");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn any_server_answers_for_a_job() {
    let store = postgres::shared().database();
    let (mut first, mut second) = (server(&store), server(&store));
    let job = first.place("print(6 * 7)");
    let results = [first.wait_for_job(&job), second.wait_for_job(&job)];
    for result in &results {
        assert_eq!(
            result.text(),
            "Status: success\n\nResult:\nSTDOUT:\n42\n\nExecution completed successfully."
        );
        assert_eq!(result.meta["qwed.ai/job"]["attempt"], 1, "{:?}", result.meta);
        assert_eq!(result.execution()["exit_code"], 0);
    }
    assert_eq!(results[0].meta["qwed.ai/job"], results[1].meta["qwed.ai/job"]);
    assert_eq!(results[0].meta["qwed.ai/execution"], results[1].meta["qwed.ai/execution"]);
    let arguments = json!({
        "code": "print(open('a').read(), inputs['b'], inputs['c'])", "background": true,
        "inputs": { "a": "x", "b": { "json": [1] }, "c": { "base64": "AP8=" } },
    });
    let placed = first.call("execute_python_code", &arguments);
    let with_inputs = second.wait_for_job(placed.meta["qwed.ai/job"]["job_id"].as_str().unwrap());
    assert!(with_inputs.text().contains("x [1] b'\\x00\\xff'"), "{:?}", with_inputs.texts);
    assert_eq!(with_inputs.meta["qwed.ai/job"]["inputs"]["c"]["bytes"], 2);
    let unknown = second.status("00000000-0000-4000-8000-000000000000");
    assert_eq!(
        unknown.texts[1],
        "Only the user who started a job can read it, until one hour after its last change."
    );

    // Cancelling a request cancels its job, even if another server runs the job. The other server has a request with
    // the same id, but the job of that request is not cancelled.
    let code = json!({ "code": "import time\ntime.sleep(60)", "background": true });
    let place = |server: &mut McpProcess| {
        let request = server.start_call("execute_python_code", &code);
        let reply = server.reply(request)["result"]["_meta"]["qwed.ai/job"]["job_id"].clone();
        (request, reply.as_str().unwrap().to_owned())
    };
    let (request, own) = place(&mut first);
    let (_, other) = place(&mut second);
    first.cancel(request);
    assert_eq!(
        second.wait_for_job(&own).text(),
        "Status: cancelled\n\nResult:\nJob was cancelled."
    );
    assert!(!second.status(&other).text().contains("cancelled"));
    first.finish();
    second.finish();
}

fn the_result_outlives_the_server_that_ran_it() {
    let store = postgres::shared().database();
    let mut first = server(&store);
    let job = first.place("print('kept')");
    assert!(first.wait_for_job(&job).text().contains("kept"));
    first.finish();
    let mut second = server(&store);
    assert!(second.status(&job).text().starts_with("Status: success"));
    second.finish();
}

fn a_job_of_a_killed_server_is_reported_as_lost() {
    let store = postgres::shared().database();
    let mut first = server(&store);
    let job = first.place("import time\ntime.sleep(60)");
    let mut second = server(&store);
    until_it_runs(&mut second, &job);
    first.signal("KILL");
    let result = second.wait_for_job(&job);
    let text = result.text();
    assert!(text.starts_with("Status: failed\n\nResult:\nExecution error: the worker "), "{text}");
    assert!(text.ends_with(" was lost; the script may have run in part."), "{text}");
    assert!(result.is_error);
    assert_eq!(result.meta["qwed.ai/verification"]["outcome"], "inconclusive");
    // A server that shuts down reports its running job as lost at once.
    let job = second.place("import time\ntime.sleep(60)");
    until_it_runs(&mut second, &job);
    second.signal("TERM");
    second.wait_for_exit(Duration::from_secs(5));
    let mut third = server(&store);
    assert!(third.status(&job).text().contains(" was lost; "), "{}", third.status(&job).text());
    third.finish();
}
