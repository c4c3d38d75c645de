//! Tests background jobs.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{ServerBuilder, alive_with_marker, eventually};

tests! {
    needs [Sandbox]:
        a_job_is_placed_polled_and_answered,
        a_job_that_fails_says_so,
        an_unknown_job_is_an_error,
        five_jobs_run_and_the_rest_wait_in_order,
        a_job_over_its_time_is_killed,
        cancelling_the_request_that_placed_a_job_cancels_the_job,
        a_job_expires_after_its_last_change_without_anyone_asking,
        a_full_queue_refuses_with_a_clear_text_and_loses_nothing;
}

fn a_job_is_placed_polled_and_answered() {
    let mut server = ServerBuilder::new().connect();
    let job_id = server.place("import time\ntime.sleep(0.5)\nprint('done')");
    let running = server.status(&job_id);
    assert_eq!(running.text(), "Status: running...");
    assert!(!running.is_error);
    let result = server.wait_for_job(&job_id);
    let text = "Status: success\n\nResult:\nSTDOUT:\ndone\n\nExecution completed successfully.";
    assert_eq!(result.text(), text);
    assert_eq!(result.execution()["exit_code"], 0);
    // The result stays available. The case of the letters in the id does not matter.
    assert_eq!(server.status(&job_id.to_uppercase()).text(), text);
    server.finish();
}

fn a_job_that_fails_says_so() {
    let mut server = ServerBuilder::new().connect();
    let job_id = server.place("print('o')\nraise ValueError('no')");
    let result = server.wait_for_job(&job_id);
    let text = result.text();
    assert!(
        text.starts_with("Status: failed\n\nResult:\nSTDOUT:\no\n\nSTDERR:\nTraceback"),
        "{text}"
    );
    assert!(text.ends_with("ValueError: no\n\nExecution failed with return code 1"), "{text}");
    assert!(!result.is_error, "a script that ended by itself is a result");
    server.finish();
}

fn an_unknown_job_is_an_error() {
    let mut server = ServerBuilder::new().connect();
    let result = server.status("3F8A1B2C-4D5E-6F7A-8B9C-0D1E2F3A4B5C");
    let text = "Error: Job ID '3f8a1b2c-4d5e-6f7a-8b9c-0d1e2f3a4b5c' not found or expired.";
    assert_eq!(result.texts[0], text);
    assert!(
        result.texts[1].starts_with("Jobs live as long as the server process that placed them")
    );
    assert!(result.is_error);
    server.finish();
}

fn five_jobs_run_and_the_rest_wait_in_order() {
    let mut server = ServerBuilder::new().connect();
    let long: Vec<_> = (0..5).map(|_| server.place("import time\ntime.sleep(3)")).collect();
    let waiting: Vec<_> =
        (0..4).map(|_| server.place("import time\nprint(time.time())\ntime.sleep(0.1)")).collect();
    for job_id in &long {
        assert_eq!(server.status(job_id).text(), "Status: running...");
    }
    for job_id in &waiting {
        assert_eq!(server.status(job_id).text(), "Status: queued...");
    }
    // A synchronous call does not wait for the background jobs.
    assert!(!server.execute("print(1)").is_error);
    for job_id in waiting.iter().chain(&long) {
        assert!(server.wait_for_job(job_id).text().starts_with("Status: success"));
    }
    server.finish();
}

fn a_job_over_its_time_is_killed() {
    let mut server = ServerBuilder::new().variable("QWED_MCP_BACKGROUND_TIMEOUT", "1").connect();
    let job_id = server.place("import time\nprint('kept')\ntime.sleep(60)");
    let result = server.wait_for_job(&job_id);
    assert_eq!(
        result.texts[0],
        "Status: timed_out\n\nResult:\nBackground verification timed out after 1 seconds. Process \
         terminated to prevent resource exhaustion."
    );
    assert_eq!(result.texts[1], "STDOUT:\nkept");
    assert!(result.is_error, "there is no result");
    assert_eq!(result.execution()["timed_out"], true);
    assert_eq!(alive_with_marker(server.scratch.path()), [0; 0]);
    server.finish();
}

fn cancelling_the_request_that_placed_a_job_cancels_the_job() {
    let mut server = ServerBuilder::new().connect();
    let arguments = json!({ "code": "import time\ntime.sleep(60)", "background": true });
    let request = server.start_call("execute_python_code", &arguments);
    let reply = server.reply(request);
    let text = reply["result"]["content"][0]["text"].as_str().unwrap();
    let job_id = text.split_ascii_whitespace().find(|word| word.len() == 37).unwrap();
    let job_id = job_id.trim_end_matches('.').to_owned();
    let scratch = server.scratch.path().to_owned();
    let runs = || !alive_with_marker(&scratch).is_empty();
    assert!(eventually(Duration::from_secs(5), runs).is_some());

    server.cancel(request);
    let result = server.wait_for_job(&job_id);
    assert_eq!(result.text(), "Status: cancelled\n\nResult:\nJob was cancelled.");
    assert_eq!(result.meta["qwed.ai/verification"]["outcome"], "inconclusive");
    assert_eq!(alive_with_marker(&scratch), [0; 0]);
    server.finish();
}

fn a_job_expires_after_its_last_change_without_anyone_asking() {
    let ttl = Duration::from_millis(1500);
    let mut server = ServerBuilder::new().variable("QWED_MCP_TEST_JOB_TTL_MS", "1500").connect();
    let ended = server.place("print(1)");
    let result = server.wait_for_job(&ended);
    let ended_at = Instant::now();
    assert!(result.text().starts_with("Status: success"));
    // A job's result stays available for some time after its end. Polling does not prolong this time.
    let mut seen = Duration::ZERO;
    let unknown = loop {
        let result = server.status(&ended);
        if result.is_error {
            break result;
        }
        seen = ended_at.elapsed();
        assert!(seen < ttl * 3, "the job does not expire");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(unknown.texts[0], format!("Error: Job ID '{ended}' not found or expired."));
    assert!(seen > ttl / 2, "{seen:?}");

    // A job that is still running when it expires is cancelled.
    let running = server.place("import time\ntime.sleep(60)");
    let scratch = server.scratch.path().to_owned();
    let runs = || !alive_with_marker(&scratch).is_empty();
    assert!(eventually(Duration::from_secs(1), runs).is_some());
    let gone = || alive_with_marker(&scratch).is_empty();
    assert!(eventually(ttl * 3, gone).is_some());
    assert!(server.wait_for_job(&running).is_error);
    server.finish();
}

fn a_full_queue_refuses_with_a_clear_text_and_loses_nothing() {
    let mut server = ServerBuilder::new().connect();
    let arguments = json!({ "code": "import time\ntime.sleep(30)", "background": true });
    let mut placed = 0;
    let refusal = loop {
        let result = server.call("execute_python_code", &arguments);
        if result.is_error {
            break result;
        }
        placed += 1;
        assert!(placed < 1000, "the queue has no end");
    };
    assert!(placed >= 100, "{placed}");
    assert!(
        refusal.text().starts_with("The queue of background jobs is full ("),
        "{}",
        refusal.text()
    );
    assert!(!server.execute("print(1)").is_error);
    server.finish();
}
