use serde_json::{Value, json};

use super::*;

#[test]
fn the_documented_example_has_the_documented_fields() {
    let engines = ["qwed_tax.TaxVerifier", "qwed_legal.FairnessGuard"];
    let bom = AiBom::from_names("gpt-4o", engines, ["execute_python_code"]).unwrap();
    let mut value = json!(bom);
    let timestamp = value.as_object_mut().unwrap().remove("timestamp").unwrap();
    let timestamp = chrono::DateTime::parse_from_rfc3339(timestamp.as_str().unwrap()).unwrap();
    assert!((chrono::Utc::now() - timestamp.to_utc()).num_seconds() < 60);
    assert_eq!(
        value,
        json!({
            "components": {
                "models": [{ "name": "gpt-4o", "type": "generator" }],
                "verification_engines": [
                    { "name": "qwed_tax.TaxVerifier", "type": "qwed_deterministic" },
                    { "name": "qwed_legal.FairnessGuard", "type": "qwed_deterministic" },
                ],
                "mcp_tools": [{ "name": "execute_python_code", "type": "action_execution" }],
            },
            "compliance": "QWED_AI_SPM_v1",
            "manifest_hash": "98daf7bf6397564badbc301b8bba40335872f3a7b13a691186da5d8f33af1c9e",
        })
    );
}

#[test]
fn a_bill_without_a_model_is_an_error() {
    assert_eq!(AiBom::from_names("", [""; 0], [""; 0]), Err(AiBomError::EmptyModel));
    assert_eq!(AiBomGenerator::generate_manifest("", ["z3"], ["t"]), Err(AiBomError::EmptyModel));
}

#[test]
fn cyclonedx_has_every_part_once_and_a_new_number() {
    let bom = AiBom::from_names("m", ["z3", "z3"], ["t", "t"]).unwrap();
    let [document, other] = [(); 2].map(|()| bom.to_cyclonedx());
    assert_eq!(document["components"].as_array().unwrap().len(), 2);
    assert_eq!(document["services"].as_array().unwrap().len(), 1);
    let number = |document: &Value| document["serialNumber"].as_str().unwrap().to_owned();
    assert!(number(&document).starts_with("urn:uuid:") && number(&document) != number(&other));
}
