//! Tests the texts that a model gets while a script runs, and after a script with long output
//! (`QWED_MCP_RESULT_CHARS`).

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::harness::{CallResult, McpProcess, ServerBuilder};

tests! {
    needs [Sandbox]:
        the_start_and_the_end_of_a_long_output_are_shown,
        without_the_setting_an_output_is_whole,
        an_output_until_a_timeout_is_shortened_too,
        progress_has_the_last_line_that_was_printed;
    needs []:
        tools_tell_claude_code_how_long_a_result_may_be;
}

const CHARS: usize = 40_000;

/// A script that prints 900 KB before its result.
const LONG: &str = "
import sys
print('start')
for number in range(9000):
    print('x' * 99)
print('REFUTED: 1 == 2')
sys.exit(1)
";

fn builder() -> ServerBuilder {
    ServerBuilder::new().variable("QWED_MCP_RESULT_CHARS", &CHARS.to_string())
}

/// Asserts that a result has the start and the end of the output of [`LONG`], and its total size.
fn assert_shortened(result: &CallResult) {
    let text = &result.texts[0];
    assert!(text.chars().count() <= CHARS + 1_000, "{}", text.chars().count());
    assert!(text.contains("STDOUT:\nstart\nxxx"), "{text:.200}");
    let end = "xxx\nREFUTED: 1 == 2\n\nExecution failed with return code 1";
    assert!(text.ends_with(end), "{}", &text[text.len() - 200..]);
    let notice = text.lines().find(|line| line.starts_with('[')).unwrap();
    assert!(
        notice.starts_with("[… 860,0") && notice.contains(" lines left out; print less]"),
        "{notice}"
    );
    let whole = format!("start\n{}REFUTED: 1 == 2", format!("{}\n", "x".repeat(99)).repeat(9000));
    let sha256 = hex::encode(Sha256::digest(&whole));
    let size = json!({ "bytes": whole.len(), "characters": whole.len(), "sha256": sha256 });
    assert_eq!(result.execution()["shortened"], json!({ "stdout": size }));
    assert_eq!(result.execution()["stdout_truncated"], false);
    assert!(!result.is_error);
}

fn the_start_and_the_end_of_a_long_output_are_shown() {
    let mut server = builder().connect();
    assert_shortened(&server.execute(LONG));
    let job = server.place(LONG);
    assert_shortened(&server.wait_for_job(&job));
    // A short output is unchanged.
    let short = server.execute("print('ä' * 40_000)");
    assert_eq!(
        short.texts,
        [format!("STDOUT:\n{}\n\nExecution completed successfully.", "ä".repeat(40_000))]
    );
    assert_eq!(short.execution().get("shortened"), None);
    // A stream may use the part of the limit that the other stream leaves.
    let both =
        server.execute("import sys\nprint('o' * 50_000)\nprint('e' * 10_000, file=sys.stderr)");
    let count = |letter| both.texts[0].matches(letter).count();
    assert!((30_000..30_100).contains(&count('o')), "{}", count('o'));
    assert!((10_000..10_100).contains(&count('e')), "{}", count('e'));
    // If the output reaches the size limit, the text ends with the documented notice.
    let capped = server.execute("print('x' * 2_000_000)");
    assert!(capped.texts[0].contains("SIZE CAP. PROCESS TERMINATED.]\n\nExecution failed"));
    assert!(capped.is_error && capped.texts[0].len() < CHARS + 1_000);
    server.finish();
}

fn without_the_setting_an_output_is_whole() {
    let mut server = ServerBuilder::new().connect();
    let result = server.execute("print('x' * 900_000)");
    assert_eq!(
        result.texts,
        [format!("STDOUT:\n{}\n\nExecution completed successfully.", "x".repeat(900_000))]
    );
    assert_eq!(result.execution().get("shortened"), None);
    server.finish();
}

fn an_output_until_a_timeout_is_shortened_too() {
    let mut server = builder().variable("QWED_MCP_TEST_SYNC_TIMEOUT_MS", "5000").connect();
    server.execute("pass");
    let code = "print('start')\nfor _ in range(5000): print('x' * 99)\nprint('last', flush=True)\nimport time; time.sleep(60)";
    let result = server.execute(code);
    assert_eq!(result.texts[0], "Execution timed out after 5.0 seconds.");
    let printed = &result.texts[1];
    assert!(
        printed.starts_with("STDOUT:\nstart\n") && printed.ends_with("\nlast"),
        "{printed:.200}"
    );
    assert!(printed.contains(" left out; print less]") && printed.len() < CHARS + 1_000);
    server.finish();
}

fn progress_has_the_last_line_that_was_printed() {
    let mut server = ServerBuilder::new().connect();
    server.execute("pass");
    let code = "import time\nprint('step 1 of 2')\nprint('step 2\\x1b[2J of 2')\ntime.sleep(60)";
    let call = |meta: Value| json!({ "name": "execute_python_code", "arguments": { "code": code }, "_meta": meta });
    let id = server.start_request("tools/call", &call(json!({ "progressToken": "p" })));
    // The first progress notifications may arrive before the script has printed.
    let says = |server: &mut McpProcess| {
        let message = server.message_where(|message| message["method"] == "notifications/progress");
        message["params"]["message"].as_str().unwrap().to_owned()
    };
    let is_last = |text: &String| text.contains(" seconds, last line: ");
    let text = (0..100).map(|_| says(&mut server)).find(is_last).unwrap();
    assert!(text.starts_with("Running for "), "{text}");
    assert!(text.ends_with(" seconds, last line: step 2\u{fffd}[2J of 2"), "{text}");
    server.cancel(id);
    server.finish();
}

fn tools_tell_claude_code_how_long_a_result_may_be() {
    for (setting, told) in
        [("", None), ("40000", Some(50_000)), ("2000000", Some(500_000)), ("999", None)]
    {
        let mut server = ServerBuilder::new().variable("QWED_MCP_RESULT_CHARS", setting).connect();
        let list = server.request("tools/list", &json!({}));
        for tool in list["result"]["tools"].as_array().unwrap() {
            let value = tool["_meta"].get("anthropic/maxResultSizeChars").and_then(Value::as_u64);
            assert_eq!(value, told, "{setting:?}: {tool}");
        }
        server.finish();
    }
}
