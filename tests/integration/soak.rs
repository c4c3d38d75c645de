//! A soak test: 1,000 mixed calls, some with faults, must not leak anything.

use std::time::Duration;

use serde_json::json;

use crate::harness::{
    CallResult, McpProcess, SYNC_TIMEOUT, ServerBuilder, alive_with_marker, descendants,
    eventually, open_descriptors, resident_kibibytes,
};

tests! {
    needs [Tier3]:
        a_thousand_mixed_calls_leave_nothing_behind;
}

const CALLS: usize = 1_000;
/// The number of calls until caches are filled and buffers have grown.
const WARM_UP: usize = 300;
/// After this number of calls, a second server is killed or loses its client during its work.
const ANOTHER_SERVER: usize = 125;

/// The timeout of a call. The timeout is long, so that a call on a busy machine does not exceed it by accident.
const TIMEOUT: Duration = Duration::from_secs(30);

const DETACHES: &str = "\
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
";

fn a_thousand_mixed_calls_leave_nothing_behind() {
    let mut server = ServerBuilder::new()
        .unchecked()
        .variable("QWED_MCP_SYNC_CONCURRENCY", "2")
        .variable("QWED_MCP_BACKGROUND_TIMEOUT", "0.5")
        .variable(SYNC_TIMEOUT, &TIMEOUT.as_millis().to_string())
        .variable("QWED_MCP_TEST_JOB_TTL_MS", "1500")
        .connect();
    let mut dice = Dice(0x5eed);
    let mut jobs = Vec::new();
    let mut warm = None;
    for call in 0..CALLS {
        if call == WARM_UP {
            settle(&server);
            warm = Some((open_descriptors(server.pid()), resident_kibibytes(server.pid())));
        }
        if call % ANOTHER_SERVER == ANOTHER_SERVER - 1 {
            lose_a_server((call / ANOTHER_SERVER).is_multiple_of(2));
        }
        one_call(&mut server, &mut dice, &mut jobs);
    }

    let (descriptors, kibibytes) = warm.unwrap();
    settle(&server);
    // The server may close the descriptors of a run after its processes have ended.
    let has_closed = || open_descriptors(server.pid()) <= descriptors;
    assert!(eventually(Duration::from_secs(60), has_closed).is_some(), "descriptors leak");
    let grown = resident_kibibytes(server.pid()).saturating_sub(kibibytes);
    assert!(grown < 8 * 1024, "memory grew by {grown} KiB over {kibibytes}");
    assert!(jobs.len() > 50, "{} jobs", jobs.len());
    std::thread::sleep(Duration::from_millis(1800));
    for job_id in jobs.iter().rev().take(20) {
        assert!(server.status(job_id).texts[0].ends_with("not found or expired."));
    }
    server.finish();
}

/// Waits until no script runs. Asserts that no process, zombie or file is left.
fn settle(server: &McpProcess) {
    let is_quiet = || {
        descendants(server.pid()).is_empty()
            && server.scratch.entries().is_empty()
            && alive_with_marker(server.scratch.path()).is_empty()
    };
    assert!(
        eventually(Duration::from_secs(60), is_quiet).is_some(),
        "left: {:?} {:?}",
        descendants(server.pid()),
        server.scratch.entries()
    );
}

fn one_call(server: &mut McpProcess, dice: &mut Dice, jobs: &mut Vec<String>) {
    match dice.roll(100) {
        0..10 => {
            server.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\n");
            let reply = server.message_where(|message| message["id"].is_null());
            assert_eq!(reply["error"]["code"], -32700);
        }
        10..25 => assert!(server.execute(" ").texts[0].starts_with("BLOCKED: ")),
        25..30 => {
            let reply = server.request("no/such/method", &json!({}));
            assert_eq!(reply["error"]["code"], -32601);
        }
        30..50 => {
            let number = dice.roll(1_000_000);
            let result = server.execute(&format!("print({number})"));
            assert_eq!(
                result.text(),
                format!("STDOUT:\n{number}\n\nExecution completed successfully.")
            );
        }
        50..58 => {
            let id = server.start_execute(&format!("{DETACHES}time.sleep(600)"));
            std::thread::sleep(Duration::from_millis(u64::from(dice.roll(80))));
            server.cancel(id);
        }
        58..60 => {
            if dice.roll(20) == 0 {
                let result = server.execute("import time\ntime.sleep(600)");
                assert_eq!(result.texts, ["Execution timed out after 30.0 seconds."]);
            }
        }
        60..66 => {
            let result = server.execute("while True: print('x' * 10_000)");
            assert_eq!(result.execution()["stdout_truncated"], true);
        }
        66..76 => {
            let result = server.execute(&format!("{DETACHES}print('ends')"));
            assert!(result.text().starts_with("STDOUT:\nends"));
        }
        76..88 => {
            let code = match dice.roll(4) {
                0 => "print('job')".to_owned(),
                1 => DETACHES.to_owned(),
                2 => "while True: print('x' * 10_000)".to_owned(),
                _ => "import time\ntime.sleep(600)".to_owned(),
            };
            let arguments = json!({ "code": code, "background": true });
            let result = server.call("execute_python_code", &arguments);
            let job_id = result.text().split(' ').find_map(|word| {
                let word = word.trim_end_matches('.');
                (word.len() == 36).then(|| word.to_owned())
            });
            jobs.extend(job_id);
        }
        88..96 => {
            let Some(job_id) = jobs.last() else { return };
            let texts = server.status(job_id).texts;
            let is_known = ["Status: ", "Error: Job ID"].iter().any(|it| texts[0].starts_with(it));
            assert!(is_known, "{texts:?}");
        }
        _ => {
            // The client sends several requests before it reads replies.
            let ids: Vec<_> = (0..5).map(|_| server.start_execute("print('later')")).collect();
            for id in ids {
                let result = CallResult::from_reply(&server.reply(id));
                assert!(!result.is_error, "{:?}", result.texts);
            }
        }
    }
}

/// Starts a second server. Kills it during its work, or closes its input.
fn lose_a_server(is_killed: bool) {
    let mut server = ServerBuilder::new().unchecked().connect();
    server.place(&format!("{DETACHES}time.sleep(600)"));
    server.start_execute(&format!("{DETACHES}time.sleep(600)"));
    let scratch = server.scratch.path().to_owned();
    let runs = || alive_with_marker(&scratch).len() >= 4;
    assert!(eventually(Duration::from_secs(10), runs).is_some());
    let below = descendants(server.pid());
    if is_killed {
        server.signal("KILL");
    } else {
        server.close_input();
    }
    server.wait_for_exit(Duration::from_secs(5));
    let gone = || alive_with_marker(&scratch).is_empty() && server.scratch.entries().is_empty();
    assert!(eventually(Duration::from_secs(60), gone).is_some(), "of {below:?}");
}

/// Generates pseudo-random numbers that are the same in each test run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.0 >> 33).unwrap() % sides
    }
}
