//! Runs the examples in the documents with the real packages from PyPI.

use crate::harness::ServerBuilder;

tests! {
    needs [Sandbox, Packages]:
        sympy_derivative,
        z3_contradiction,
        qwed_code_guard,
        qwed_sql_guard,
        qwed_legal_deadline,
        qwed_legal_provenance,
        qwed_legal_in_the_background,
        every_import_of_the_migration_table_works,
        the_other_guards_answer,
        the_financial_example_of_the_documents_is_refuted;
}

fn run(code: &str) -> (String, bool) {
    let mut server = ServerBuilder::new().connect();
    let result = server.execute(code);
    let text = result.text().to_owned();
    server.finish();
    (text, result.is_error)
}

fn sympy_derivative() {
    let code = "from sympy import symbols, diff\nx = symbols('x')\nresult = diff(x**3, x)\nprint(f'derivative of x^3 = {result}')\nassert str(result) == '3*x**2', 'Mismatch!'\nprint('VERIFIED')";
    let expected =
        "STDOUT:\nderivative of x^3 = 3*x**2\nVERIFIED\n\nExecution completed successfully.";
    assert_eq!(run(code), (expected.to_owned(), false));
}

fn z3_contradiction() {
    let code = "from z3 import Int, Solver, unsat\nx = Int('x')\ns = Solver()\ns.add(x > 1, x < 2)\nprint(s.check())\nassert s.check() == unsat";
    assert_eq!(
        run(code),
        ("STDOUT:\nunsat\n\nExecution completed successfully.".to_owned(), false)
    );
}

/// The documents of version 0.2 claim that this script succeeds and prints 14490.97. The correct value is 14499.48,
/// so the assertion must fail.
fn the_financial_example_of_the_documents_is_refuted() {
    let code = "from decimal import Decimal, ROUND_HALF_UP\n\nP = Decimal('10000')\nr = Decimal('0.075')\nn = Decimal('4')\nt = Decimal('5')\n\nA = P * (1 + r/n) ** (n*t)\nA = A.quantize(Decimal('0.01'), rounding=ROUND_HALF_UP)\nprint(f'Future value: ${A}')\nassert A == Decimal('14490.97'), f'Expected 14490.97, got {A}'";
    let (text, is_error) = run(code);
    assert!(text.starts_with("STDOUT:\nFuture value: $14499.48\n\nSTDERR:\nTraceback"), "{text}");
    assert!(text.contains("AssertionError: Expected 14490.97, got 14499.48"), "{text}");
    assert!(text.ends_with("Execution failed with return code 1"), "{text}");
    assert!(!is_error, "a refuted claim is a result");
}

fn qwed_code_guard() {
    let code = "from qwed_new.guards.code_guard import CodeGuard\n\nguard = CodeGuard()\nresult = guard.verify_safety(\"import os; os.system('rm -rf /')\")\nprint(f'Verified: {result[\"verified\"]}')\nif result.get('violations'):\n    for v in result['violations']:\n        print(f'  - {v}')";
    let (text, is_error) = run(code);
    assert!(!is_error, "{text}");
    assert!(text.starts_with("STDOUT:\nVerified: False\n"), "{text}");
    assert!(text.contains("os"), "{text}");
}

fn qwed_sql_guard() {
    let code = "from qwed_new.guards.sql_guard import SQLGuard\n\nguard = SQLGuard()\nresult = guard.verify_query(\"SELECT * FROM users WHERE id = '1' OR '1'='1'\")\nprint(f'Verified: {result[\"verified\"]}')\nprint(f'Message: {result.get(\"message\", \"\")}')";
    let (text, is_error) = run(code);
    assert!(!is_error, "{text}");
    // `qwed` 8.0 accepts this query as one read-only statement. The test only records this behaviour of `qwed`.
    assert!(
        text.starts_with("STDOUT:\nVerified: True\nMessage: One read-only statement"),
        "{text}"
    );
}

fn qwed_legal_deadline() {
    let code = "from qwed_legal import DeadlineGuard\n\nguard = DeadlineGuard(country='US')\nresult = guard.verify('2026-01-15', '30 business days', '2026-02-14')\nprint(f'Verified: {result.verified}')\nprint(f'Computed deadline: {result.computed_deadline}')";
    let (text, is_error) = run(code);
    assert!(!is_error, "{text}");
    assert!(text.contains("Verified: False\nComputed deadline: 2026-0"), "{text}");
}

fn qwed_legal_provenance() {
    let code = "import hashlib\nfrom qwed_legal import ProvenanceGuard\n\ncontent = 'This AI-generated memo reviews the indemnification terms.'\ncontent_hash = hashlib.sha256(content.encode()).hexdigest()\n\nguard = ProvenanceGuard(require_disclosure=True)\nresult = guard.verify_provenance(content, {\n    'content_hash': content_hash,\n    'model_id': 'claude-4.5-sonnet',\n    'generation_timestamp': '2026-03-24T12:00:00+00:00',\n})\nprint(f'Verified: {result[\"verified\"]}')\nprint(f'Checks passed: {result[\"checks_passed\"]}')";
    let (text, is_error) = run(code);
    assert!(!is_error, "{text}");
    assert!(text.contains("Verified: ") && text.contains("Checks passed: ["), "{text}");
}

fn qwed_legal_in_the_background() {
    let code = "from qwed_legal import LegalGuard\n\nguard = LegalGuard()\n# ... long-running multi-guard verification\nprint('All checks passed')";
    let mut server = ServerBuilder::new().connect();
    let job_id = server.place(code);
    let result = server.wait_for_job(&job_id);
    assert_eq!(
        result.text(),
        "Status: success\n\nResult:\nSTDOUT:\nAll checks passed\n\nExecution completed successfully."
    );
    server.finish();
}

fn every_import_of_the_migration_table_works() {
    let mut server = ServerBuilder::new().connect();
    let mut imports = Vec::new();
    for tool in [
        "math",
        "logic",
        "code",
        "sql",
        "banking_compliance",
        "iso_20022",
        "commerce_transaction",
        "legal_deadline",
        "legal_citation",
        "legal_liability",
        "legal_jurisdiction",
        "legal_statute",
        "system_command",
        "file_path",
        "config_secrets",
    ] {
        let result = server.call(&format!("verify_{tool}"), &serde_json::json!({}));
        let message = result.meta["qwed.ai/decision"]["message"].as_str().unwrap().to_owned();
        let (_, import) = message.split_once("starts with: ").unwrap();
        assert!(!import.contains("qwed_new.engines"), "{import}");
        imports.push(import.to_owned());
    }
    let result = server.execute(&imports.join("\n"));
    assert_eq!(result.text(), "Execution completed successfully.");
    server.finish();
}

fn the_other_guards_answer() {
    let code = "\
from qwed_finance import FinanceVerifier, ISOGuard
from qwed_ucp import UCPVerifier
from qwed_legal import CitationGuard, LiabilityGuard
from qwed_tax import TDSGuard, TaxVerifier
result = LiabilityGuard().verify_cap(5_000_000, 200, 15_000_000)
print('liability', result.verified)
result = FinanceVerifier().verify_npv([-1000, 300, 400, 400, 300], 0.1, '$100.00')
print('npv', result.verified)
result = TDSGuard().calculate_deduction('PROFESSIONAL_FEES', '50000', '0')
print('tds', result['deduction'])
";
    let (text, is_error) = run(code);
    assert!(!is_error, "{text}");
    assert!(text.contains("liability False"), "{text}");
    assert!(text.contains("npv False"), "{text}");
    assert!(text.contains("tds 5000"), "{text}");
}
