//! No source text crashes the safety analysis, and none makes it fail.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    let analysis = qwed_mcp::safety::analyze(source).unwrap();
    for finding in analysis.findings.iter().chain(&analysis.notes) {
        let text = finding.to_string();
        assert!(!text.is_empty() && text.len() < 1000, "{text}");
    }
});
