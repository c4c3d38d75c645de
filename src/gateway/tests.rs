use std::collections::HashSet;

use serde_json::json;

use super::*;

fn evaluate(gate: AdminGate, arguments: &Value) -> Result<Verified, Box<DecisionRecord>> {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    RiskBasedExecutionGateway::new(gate).evaluate(arguments, Accompanying::default())
}

fn decide(gate: AdminGate, tool: &str, arguments: &Value) -> DecisionRecord {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    RiskBasedExecutionGateway::new(gate).evaluate_and_route(tool, arguments)
}

/// Returns the grant of a script that passes all checks.
pub(crate) fn granted(code: &str, background: bool) -> Grant {
    let decision = verified(&json!({ "code": code, "background": background })).confirm(Ok(None));
    let Decision::Allow { grant, .. } = decision else { panic!("{decision:?}") };
    grant
}

/// Returns a script that may run, with `inputs` and with the test expressions `calls`.
pub(crate) fn granted_with(code: &str, inputs: Inputs, calls: &[&str]) -> AuthorizedScript {
    let calls = calls.iter().map(|call| (*call).to_owned()).collect();
    let arguments = Arguments::from_iter([("code".to_owned(), json!(code))]);
    let gateway = RiskBasedExecutionGateway::new(AdminGate::Open);
    let verified = gateway.evaluate(arguments, Accompanying { calls, inputs }).unwrap();
    let Decision::Allow { grant: Grant::Execute(script), .. } = verified.confirm(Ok(None)) else {
        panic!("{code} is not allowed");
    };
    script
}

/// Returns the verified script for a call of `execute_python_code` with these arguments.
pub(crate) fn verified(arguments: &Value) -> Verified {
    evaluate(AdminGate::Open, arguments).unwrap()
}

/// Decides a call, and returns the status, risk level, code and message of the decision.
fn outcome(tool: &str, arguments: &Value) -> (String, Value, Value, String) {
    let record = serde_json::to_value(decide(AdminGate::Open, tool, arguments)).unwrap();
    (
        record["status"].as_str().unwrap().to_owned(),
        record["risk_level"].clone(),
        record["error_code"].clone(),
        record["message"].as_str().unwrap().to_owned(),
    )
}

#[test]
fn each_refusal_has_its_code_and_its_exact_message() {
    let execute = "execute_python_code";
    let status = "verification_status";
    let missing_code = "Missing required non-empty 'code' argument.";
    let not_boolean = "'background' must be a boolean when provided.";
    let missing_id = "Missing required non-empty 'job_id' argument.";
    let invalid_id = "Invalid job_id format. Expected a canonical UUID.";
    for (tool, arguments, risk, code, message) in [
        ("nope", json!({}), "high", 1, "Unknown MCP tool 'nope' is blocked by default."),
        (
            "test_tool_without_handler",
            json!({}),
            "high",
            2,
            "Tool 'test_tool_without_handler' has no deterministic governance policy.",
        ),
        (execute, json!({}), "high", 3, missing_code),
        (execute, json!({ "code": " \n\t" }), "high", 3, missing_code),
        (execute, json!({ "code": 1 }), "high", 3, missing_code),
        (execute, json!({ "code": null, "background": 1 }), "high", 3, missing_code),
        (execute, json!({ "code": "x", "background": "true" }), "high", 4, not_boolean),
        (execute, json!({ "code": "x", "background": null }), "high", 4, not_boolean),
        (
            execute,
            json!({ "code": "eval('1')" }),
            "high",
            5,
            "QWED blocked python execution: Dangerous function call: eval() (line 1), instead: \
             ast.literal_eval for data, sympy.sympify for formulas",
        ),
        (status, json!({}), "low", 7, missing_id),
        (status, json!({ "job_id": "  " }), "low", 7, missing_id),
        (status, json!({ "job_id": 7 }), "low", 7, missing_id),
        (status, json!({ "job_id": "7" }), "low", 8, invalid_id),
    ] {
        assert_eq!(
            outcome(tool, &arguments),
            (
                "BLOCKED".to_owned(),
                json!(risk),
                json!(format!("QWED-MCP-RISK-00{code}")),
                message.to_owned()
            ),
            "{tool} {arguments}"
        );
    }
}

#[test]
fn a_job_id_is_a_canonical_uuid_in_either_case() {
    let canonical = "3f8a1b2c-4d5e-6f7a-8b9c-0d1e2f3a4b5c";
    for text in [canonical.to_owned(), canonical.to_uppercase(), format!(" {canonical}\n")] {
        let arguments = json!({ "job_id": text.clone() });
        let arguments = arguments.as_object().unwrap().clone();
        let (record, _) = decide_lookup("verification_status", arguments).unwrap();
        assert_eq!(record.normalized_arguments["job_id"], canonical);
    }
    for text in [
        "{3f8a1b2c-4d5e-6f7a-8b9c-0d1e2f3a4b5c}",
        "urn:uuid:3f8a1b2c-4d5e-6f7a-8b9c-0d1e2f3a4b5c",
        "3f8a1b2c4d5e6f7a8b9c0d1e2f3a4b5c",
        "3f8a1b2c-4d5e-6f7a-8b9c-0d1e2f3a4b5",
        "3f8a1b2c-4d5e-6f7a-8b9c-0d1e2f3a4b5g",
        "3f8a1b2c4d5e-6f7a-8b9c-0d1e2f3a4b5c0",
    ] {
        let (_, _, code, _) = outcome("verification_status", &json!({ "job_id": text }));
        assert_eq!(code, "QWED-MCP-RISK-008", "{text}");
    }
}

#[test]
fn unsafe_code_is_reported_before_the_admin_gate() {
    let decision = decide(AdminGate::Closed, "execute_python_code", &json!({ "code": "eval(1)" }));
    assert_eq!(decision.error_code, Some(ErrorCode::UnsafeCode));

    let arguments = json!({ "code": "1" });
    let decision = evaluate(AdminGate::Closed, &arguments).unwrap_err();
    assert_eq!(decision.error_code, Some(ErrorCode::AdminGateClosed));
    assert_eq!(decision.status.as_str(), "BLOCKED_ADMIN_POLICY");
}

#[test]
fn without_a_sandbox_verified_code_is_refused_under_the_id_that_it_has() {
    for background in [false, true] {
        let arguments = json!({ "code": "1", "background": background });
        let verified = verified(&arguments);
        let id = verified.record().verification_id.clone();
        let decision = verified.confirm(Err("why".to_owned()));
        let Decision::Refuse(record) = decision else { panic!("{decision:?}") };
        assert_eq!((record.verified, record.status), (false, Status::BlockedAdminPolicy));
        assert_eq!(record.error_code, Some(ErrorCode::SandboxUnavailable));
        assert_eq!(record.message, "why");
        assert_eq!(record.verification_id, id);
        assert_eq!(Value::from(record.normalized_arguments), arguments);
    }
}

#[test]
fn code_that_is_given_up_before_the_sandbox_is_known_is_no_permission() {
    let decision = verified(&json!({ "code": "1" })).withdraw();
    assert!(matches!(decision, Decision::Withdrawn(_)), "{decision:?}");
}

#[test]
fn a_confirmed_call_carries_the_grant_that_it_was_asked_for() {
    let confirm = |arguments: &Value| {
        let decision = verified(arguments).confirm(Ok(None));
        let Decision::Allow { record, grant } = decision else { panic!("{decision:?}") };
        (record, grant)
    };
    let (record, grant) = confirm(&json!({ "code": "1", "extra": 2 }));
    let Grant::Execute(script) = grant else { panic!("{grant:?}") };
    assert_eq!(*script.verification_id(), record.verification_id);
    assert_eq!(
        Value::from(record.normalized_arguments),
        json!({ "code": "1", "background": false })
    );
    let (_, grant) = confirm(&json!({ "code": "1", "background": true }));
    assert!(matches!(grant, Grant::ExecuteInBackground(_)), "{grant:?}");
}

#[test]
fn a_verification_id_is_never_the_same_twice() {
    let mut seen = HashSet::new();
    for _ in 0..1_000 {
        let id = decide(AdminGate::Open, "execute_python_code", &json!({ "code": "1" }))
            .verification_id
            .to_string();
        assert!(id.len() == 64 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
        assert!(seen.insert(id));
    }
}

#[test]
fn a_removed_tool_is_answered_with_the_import_that_replaces_it() {
    let (_, _, code, message) = outcome("verify_legal_deadline", &json!({}));
    assert_eq!(code, "QWED-MCP-RISK-001");
    assert_eq!(
        message,
        "Unknown MCP tool 'verify_legal_deadline' is blocked by default. Use execute_python_code \
         with a script that starts with: from qwed_legal import DeadlineGuard"
    );
    for (tool, import) in migration::REPLACEMENTS {
        assert!(outcome(tool, &json!({})).3.ends_with(import), "{tool}");
    }
}

#[test]
fn a_long_tool_name_is_not_repeated_in_full() {
    assert!(outcome(&"x".repeat(1_000_000), &json!({})).3.len() < 300);
}

#[test]
fn neither_code_nor_arguments_are_in_the_record_for_clients_or_in_debug_output() {
    let verified = verified(&json!({ "code": "s3cr3t = 1" }));
    assert!(!verified.record().without_arguments().to_string().contains("s3cr3t"));
    let Decision::Allow { grant, .. } = verified.confirm(Ok(None)) else { panic!("allowed") };
    assert!(!format!("{grant:?}").contains("s3cr3t"));
}

#[test]
fn what_is_allowed_and_worth_knowing_is_a_note() {
    let gateway = RiskBasedExecutionGateway::new(AdminGate::Open);
    let code = "import sympy\nprint(sympy.sympify(input()))";
    let arguments = Arguments::from_iter([("code".to_owned(), json!(code))]);
    let record = gateway.evaluate_and_route("execute_python_code", arguments);
    assert!(record.verified);
    let note = "sympy.sympify (line 2): evaluates a string that this analysis cannot see";
    assert_eq!(record.notes, [note]);
    assert_eq!(record.without_arguments()["notes"], json!([note]));
    // A decision without notes has no field `notes` in its JSON.
    let arguments = Arguments::from_iter([("code".to_owned(), json!("print(1)"))]);
    let decision = gateway.evaluate_and_route("execute_python_code", arguments);
    assert!(decision.without_arguments().get("notes").is_none());
}

#[test]
fn a_blocked_call_is_not_verified_and_says_so_to_clients() {
    for (gate, code, expected) in [
        (AdminGate::Open, "1", (true, Value::Null)),
        (AdminGate::Closed, "1", (false, json!("QWED-MCP-RISK-006"))),
        (AdminGate::Open, "eval(1)", (false, json!("QWED-MCP-RISK-005"))),
    ] {
        let decision = decide(gate, "execute_python_code", &json!({ "code": code }));
        let told = decision.without_arguments();
        assert_eq!(decision.verified, expected.0, "{code}");
        assert_eq!((&told["verified"], &told["error_code"]), (&json!(expected.0), &expected.1));
    }
}

#[test]
fn findings_are_there_for_programs_too() {
    let found = |code: &str| {
        let record = decide(AdminGate::Open, "execute_python_code", &json!({ "code": code }));
        record.without_arguments().get("findings").cloned().unwrap_or(Value::Null)
    };
    let found_twice = found("import os\nos.system('a')\nx = 'é'; eval(x)\nos.system('b')");
    let remedy = "ast.literal_eval for data, sympy.sympify for formulas";
    assert_eq!(
        found_twice,
        json!([
            {
                "rule": "process/os-system", "line": 2, "column": 1, "lines": [2, 4],
                "message": "Dangerous function call: os.system()", "instead": "do the work in Python"
            },
            {
                "rule": "execution/eval", "line": 3, "column": 10,
                "message": "Dangerous function call: eval()", "instead": remedy
            }
        ])
    );
    // Each finding has the alternative of its rule, although the message contains the alternative only once.
    let of_one_rule = found("import subprocess\nfrom subprocess import run");
    let all = of_one_rule.as_array().unwrap();
    assert!(all.len() == 2 && all[0]["instead"] == all[1]["instead"], "{of_one_rule}");
    assert!(all[0]["instead"].is_string(), "{of_one_rule}");
    // A finding without a rule has no alternative.
    let broken = found("def f(:\n  eval(1)");
    assert!(broken[0]["rule"].is_null() && broken[0]["instead"].is_null(), "{broken}");
    assert!(broken[0]["line"] == 1 && broken[0]["message"].as_str().is_some(), "{broken}");
    // At most 20 findings, and at most 20 lines of each finding, are in the decision.
    let names = ["system", "popen", "execv", "execl", "execve", "execvp", "fork", "kill", "remove"];
    let more =
        ["unlink", "rename", "rmdir", "mkdir", "symlink", "link", "chmod", "chown", "putenv"];
    let others = ["spawnl", "spawnv", "spawnle", "spawnve", "startfile", "posix_spawn", "truncate"];
    let calls = names.iter().chain(&more).chain(&others).map(|name| format!("os.{name}()\n"));
    let many = calls.fold("import os\n".to_owned(), |all, call| all + &call);
    assert_eq!(found(&many).as_array().unwrap().len(), 20);
    let repeated = found(&"eval('1')\n".repeat(100));
    assert_eq!(repeated[0]["lines"].as_array().unwrap().len(), 20);
    // The field `findings` is absent if the script has no findings, or if the call is blocked for another reason.
    assert_eq!(found("print(1)"), Value::Null);
    assert_eq!(found(""), Value::Null);
    let closed = json!({ "code": "print(1)" });
    let closed = decide(AdminGate::Closed, "execute_python_code", &closed);
    assert!(closed.error_code.is_some() && closed.findings.is_empty());
}
