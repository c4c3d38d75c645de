//! Tests which calls are refused, and the error codes and texts of these refusals.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::harness::{McpProcess, ServerBuilder};

tests! {
    needs [Sandbox]:
        every_row_of_the_code_table_but_the_admins_answers_on_the_wire,
        a_source_that_does_not_parse_is_blocked_with_what_was_found_in_it,
        the_closed_admin_gate_blocks_safe_code_and_nothing_else,
        an_allowed_call_tells_its_decision_too,
        a_verification_id_is_never_the_same_twice,
        what_must_not_be_blocked_runs,
        a_script_of_one_mebibyte_is_analysed_and_a_larger_one_is_refused;
}

/// Calls the tool and expects a refusal. Returns the message without the verification id.
fn blocked(
    server: &mut McpProcess,
    tool: &str,
    arguments: &Value,
    status: &str,
    code: &str,
) -> String {
    let result = server.call(tool, arguments);
    assert!(result.is_error);
    assert_eq!(result.texts.len(), 2, "{:?}", result.texts);
    assert_eq!(result.texts[1], format!("Error code: {code}"));

    let decision = &result.meta["qwed.ai/decision"];
    assert_eq!(decision["verified"], false);
    assert_eq!(decision["status"], status);
    assert_eq!(decision["error_code"], code);
    assert!(decision.get("normalized_arguments").is_none(), "{decision}");
    let id = decision["verification_id"].as_str().unwrap();
    assert_eq!(id.len(), 64);
    let message = decision["message"].as_str().unwrap().to_owned();
    assert_eq!(result.texts[0], format!("{status}: {message} (verification_id={id})"));
    message
}

fn every_row_of_the_code_table_but_the_admins_answers_on_the_wire() {
    let mut server = ServerBuilder::new().connect();
    let execute = "execute_python_code";
    let status = "verification_status";
    let missing_code = "Missing required non-empty 'code' argument.";
    let not_boolean = "'background' must be a boolean when provided.";
    let missing_id = "Missing required non-empty 'job_id' argument.";
    let invalid_id = "Invalid job_id format. Expected a canonical UUID.";
    for (tool, arguments, code, message) in [
        ("nope", json!({}), 1, "Unknown MCP tool 'nope' is blocked by default."),
        (
            "verify_math",
            json!({}),
            1,
            "Unknown MCP tool 'verify_math' is blocked by default. Use execute_python_code with a \
             script that starts with: from sympy import symbols, diff, integrate, simplify, solve",
        ),
        (
            "test_tool_without_handler",
            json!({}),
            2,
            "Tool 'test_tool_without_handler' has no deterministic governance policy.",
        ),
        (execute, json!({}), 3, missing_code),
        (execute, json!({ "code": "" }), 3, missing_code),
        (execute, json!({ "code": " \n " }), 3, missing_code),
        (execute, json!({ "code": ["print(1)"] }), 3, missing_code),
        (execute, json!({ "code": "print(1)", "background": "yes" }), 4, not_boolean),
        (execute, json!({ "code": "print(1)", "background": 0 }), 4, not_boolean),
        (
            execute,
            json!({ "code": "x = 1\neval('x')\nimport subprocess" }),
            5,
            "QWED blocked python execution: Dangerous function call: eval() (line 2), instead: \
             ast.literal_eval for data, sympy.sympify for formulas; Dangerous import detected: \
             subprocess (line 3), instead: do the work in Python",
        ),
        (status, json!({}), 7, missing_id),
        (status, json!({ "job_id": "" }), 7, missing_id),
        (status, json!({ "job_id": 7 }), 7, missing_id),
        (status, json!({ "job_id": "not-a-uuid" }), 8, invalid_id),
        (status, json!({ "job_id": "{3f8a1b2c-4d5e-6f7a-8b9c-0d1e2f3a4b5c}" }), 8, invalid_id),
        (
            status,
            json!({ "job_id": "urn:uuid:3f8a1b2c-4d5e-6f7a-8b9c-0d1e2f3a4b5c" }),
            8,
            invalid_id,
        ),
        (status, json!({ "job_id": "3f8a1b2c4d5e6f7a8b9c0d1e2f3a4b5c" }), 8, invalid_id),
    ] {
        let code = format!("QWED-MCP-RISK-00{code}");
        assert_eq!(blocked(&mut server, tool, &arguments, "BLOCKED", &code), message);
    }
    server.finish();
}

fn a_source_that_does_not_parse_is_blocked_with_what_was_found_in_it() {
    let mut server = ServerBuilder::new().connect();
    let arguments = json!({ "code": "os.system('id'" });
    let code = "QWED-MCP-RISK-005";
    let message = blocked(&mut server, "execute_python_code", &arguments, "BLOCKED", code);
    assert!(
        message.starts_with("QWED blocked python execution: Syntax error in code: "),
        "{message}"
    );
    assert!(message.ends_with("; Potentially dangerous pattern: os.system"), "{message}");
    server.finish();
}

fn the_closed_admin_gate_blocks_safe_code_and_nothing_else() {
    for value in [None, Some("false"), Some("1")] {
        let builder = ServerBuilder::new().without("QWED_MCP_TRUSTED_CODE_EXECUTION");
        let builder = match value {
            Some(value) => builder.variable("QWED_MCP_TRUSTED_CODE_EXECUTION", value),
            None => builder,
        };
        let mut server = builder.connect();
        let message = blocked(
            &mut server,
            "execute_python_code",
            &json!({ "code": "print(1)" }),
            "BLOCKED_ADMIN_POLICY",
            "QWED-MCP-RISK-006",
        );
        assert_eq!(
            message,
            "Python execution was verified, but server policy keeps code execution disabled until \
             QWED_MCP_TRUSTED_CODE_EXECUTION=true."
        );
        // The reason for refusing unsafe code is its findings and not the closed admin gate.
        let arguments = json!({ "code": "eval('1')" });
        let code = "QWED-MCP-RISK-005";
        blocked(&mut server, "execute_python_code", &arguments, "BLOCKED", code);
        // A status request runs no script, so the admin gate does not apply.
        let status = server.status("3f8a1b2c-4d5e-6f7a-8b9c-0d1e2f3a4b5c");
        assert_eq!(status.meta["qwed.ai/decision"]["status"], "ALLOW_VERIFIED");
        server.finish();
    }
}

fn an_allowed_call_tells_its_decision_too() {
    let mut server = ServerBuilder::new().connect();
    let run = server.execute("print(1)");
    let decision = &run.meta["qwed.ai/decision"];
    assert_eq!(decision["verified"], true);
    assert_eq!(decision["status"], "ALLOW_VERIFIED");
    assert_eq!(decision["risk_level"], "high");
    assert!(decision.get("error_code").is_none());
    let status = server.status("3F8A1B2C-4D5E-6F7A-8B9C-0D1E2F3A4B5C");
    assert_eq!(status.meta["qwed.ai/decision"]["risk_level"], "low");
    server.finish();
}

fn a_verification_id_is_never_the_same_twice() {
    let mut seen = HashSet::new();
    for _ in 0..2 {
        let mut server = ServerBuilder::new().connect();
        for _ in 0..50 {
            let result = server.execute("eval('1')");
            let id =
                result.meta["qwed.ai/decision"]["verification_id"].as_str().unwrap().to_owned();
            assert!(id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{id}");
            assert!(seen.insert(id));
        }
        server.finish();
    }
}

fn what_must_not_be_blocked_runs() {
    let mut server = ServerBuilder::new().connect();
    let code = "\
import os, re
from importlib.metadata import version
# eval('1'), os.system('id')
text = \"eval('1'); exec('2'); open('x'); subprocess\"
assert re.compile('a+').match('aaa')
class Account:
    def open(self): return 'opened'
    def eval(self): return 'evaluated'
def compile(x): return x
print(Account().open(), Account().eval(), compile(3), os.path.join('a', 'b'))
";
    let result = server.execute(code);
    assert_eq!(
        result.text(),
        "STDOUT:\nopened evaluated 3 a/b\n\nExecution completed successfully."
    );
    server.finish();
}

fn a_script_of_one_mebibyte_is_analysed_and_a_larger_one_is_refused() {
    let mut server = ServerBuilder::new().connect();
    let line = "x = 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'\n";
    let fits = format!("{}print('ran')", line.repeat(1024 * 1024 / line.len() - 1));
    assert_eq!(server.execute(&fits).text(), "STDOUT:\nran\n\nExecution completed successfully.");
    let result = server.execute(&format!("{fits}{}", " ".repeat(1024)));
    assert!(result.texts[0].contains("Code too large: "), "{}", result.texts[0]);
    // Deeply nested code does not crash the server.
    for worst in ["-".repeat(1_000_000), "(".repeat(1_000_000), "a.b".repeat(300_000)] {
        assert!(server.execute(&worst).is_error);
    }
    server.assert_alive();
    server.finish();
}
