//! No source text crashes the safety analysis, none makes it fail, and none makes it work for longer than its bound.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qwed_mcp::safety;

fuzz_target!(|source: &str| {
    let analysis = safety::analyze(source).unwrap();
    // Where the bound is reached, what is being evaluated is still left, level by level.
    assert!(analysis.steps <= safety::steps_max(source.len()) + safety::NESTING_MAX, "{} steps", analysis.steps);
    for finding in analysis.findings.iter().chain(&analysis.notes) {
        let text = finding.to_string();
        assert!(!text.is_empty() && text.len() < 1000, "{text}");
    }
    for check in &analysis.checks {
        assert!(check.line >= 1 && check.text.len() <= source.len() && !check.edits.is_empty(), "{check:?}");
    }
    assert!(safety::check_plan(&analysis.checks).is_ascii());
});
