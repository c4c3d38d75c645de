//! Checks that no source text crashes the analysis, makes it fail, or makes it exceed its limit of steps.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qwed_safety as safety;

fuzz_target!(|source: &str| {
    let analysis = safety::analyze(source).unwrap();
    // After the limit, the analysis leaves nested expressions with at most one more step for each level.
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
