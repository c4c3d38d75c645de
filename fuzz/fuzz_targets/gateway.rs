//! Checks that no arguments crash the gateway, and that an allowed script has no findings.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qwed_mcp::{AdminGate, RiskBasedExecutionGateway};
use serde_json::{Map, Value};

fuzz_target!(|input: (bool, &str)| {
    let (is_execution, text) = input;
    let gateway = RiskBasedExecutionGateway::new(AdminGate::Open);
    // The text is a JSON object of arguments, or else the script itself.
    let arguments = serde_json::from_str::<Map<String, Value>>(text)
        .unwrap_or_else(|_| Map::from_iter([("code".to_owned(), Value::from(text))]));
    let tool = if is_execution { "execute_python_code" } else { "verification_status" };
    let record = gateway.evaluate_and_route(tool, arguments.clone());
    assert_eq!(record.verified, record.error_code.is_none());
    assert_eq!(record.verification_id.as_str().len(), 64);
    if record.verified && is_execution {
        let code = arguments["code"].as_str().unwrap();
        assert!(qwed_mcp::safety::analyze(code).unwrap().findings.is_empty());
    }
});
