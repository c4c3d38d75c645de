//! Tests of conclusions and documents, with outcomes that need no interpreter.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::config::{AdminGate, VerdictNote};
use crate::executor::{CheckCounts, Ending, Outcome, RunLimits};
use crate::gateway::{
    Accompanying, Arguments, AuthorizedScript, Decision, Grant, RiskBasedExecutionGateway,
};
use crate::verdict::{CheckState, Conclusion, Verdict};

use super::{Circumstances, Subject, Variants, verdict_on_run, verdict_without_run};

/// Returns the permission to run a script.
fn authorized(code: &str) -> AuthorizedScript {
    let gateway = RiskBasedExecutionGateway::new(AdminGate::Open);
    let arguments = Arguments::from_iter([("code".to_owned(), json!(code))]);
    let decision = gateway.evaluate(arguments, Accompanying::default()).unwrap().confirm(Ok(None));
    let Decision::Allow { grant: Grant::Execute(script), .. } = decision else {
        panic!("{decision:?}");
    };
    script
}

/// Returns the verdict on a run that ended with `exit_code` and with these counts of its checks.
fn verdict(code: &str, exit_code: i32, counts: &[[u64; 3]]) -> Verdict {
    let outcome = Outcome {
        ending: Ending::Exited(exit_code),
        check_counts: Some(CheckCounts::for_test(counts)),
        ..Outcome::never_started()
    };
    let limits = RunLimits::of_script(Duration::from_secs(30));
    verdict_on_run(&authorized(code), limits, &Circumstances::default(), &outcome, Variants::NotRun)
}

#[test]
fn the_first_rule_that_applies_decides() {
    let one = "assert 2 ** 10 == 1024";
    let caught = "try:\n    assert 2 ** 10 == 1000\nexcept AssertionError:\n    pass";
    let required = "def check(x):\n    assert x > 0\ntry:\n    check(-1)\nexcept AssertionError:\n    \
                    pass\nelse:\n    raise AssertionError('not checked')";
    let control = "def positive(x):\n    if x < 0:\n        raise ValueError(x)\n    return x\n\
                   try:\n    positive(-1)\nexcept ValueError:\n    pass\nassert positive(3) ** 2 == 9";
    let careful = "def check(x):\n    assert x > 0\ntry:\n    check(-1)\nexcept AssertionError:\n    pass\n\
                   except Exception as e:\n    raise SystemExit(e)\nelse:\n    raise AssertionError('not checked')";
    let other = "try:\n    int('x')\nexcept Exception:\n    pass\nelse:\n    \
                 raise AssertionError('accepted')\ntry:\n    assert int('4') == 5\nexcept AssertionError:\n    pass";
    for (code, exit_code, counts, expected) in [
        (one, 0, &[[1, 0, 0]][..], Conclusion::Verified),
        (one, 1, &[[0, 1, 0]], Conclusion::Refuted),
        // The check holds, but the script fails for another reason.
        (one, 1, &[[1, 0, 0]], Conclusion::Inconclusive),
        (one, 0, &[[0, 0, 0]], Conclusion::NothingChecked),
        // The counts were not sent, or do not match the checks.
        (one, 0, &[], Conclusion::NothingChecked),
        (one, -9, &[[1, 0, 0]], Conclusion::Inconclusive),
        ("print(1)", 0, &[], Conclusion::NothingChecked),
        ("assert 1 == 1", 0, &[[1, 0, 0]], Conclusion::Vacuous),
        (caught, 0, &[[0, 1, 0]], Conclusion::Vacuous),
        (required, 0, &[[0, 1, 0], [0, 1, 0]], Conclusion::Verified),
        (required, 0, &[[0, 2, 0], [0, 1, 0]], Conclusion::Vacuous),
        (control, 0, &[[1, 1, 0], [1, 0, 0]], Conclusion::Verified),
        (careful, 0, &[[0, 1, 0], [0, 0, 0], [0, 1, 0]], Conclusion::Verified),
        // The `raise` in `else` is not reached because of a ValueError, so no failure of the `assert` is expected.
        (other, 0, &[[0, 1, 0], [0, 1, 0]], Conclusion::Vacuous),
        ("import time\nassert time.time() > 0.5", 0, &[[1, 0, 0]], Conclusion::Inconclusive),
        ("import sys\nsys.exit(len('a') - 1)", 0, &[[1, 0, 0]], Conclusion::Verified),
        ("import sys\nsys.exit(len('a'))", 1, &[[0, 1, 0]], Conclusion::Refuted),
        // The argument of `sys.exit` is not 0, but the operating system truncates the exit code to 0.
        ("import sys\nsys.exit(256 * len('a'))", 0, &[[0, 1, 0]], Conclusion::Vacuous),
        // The argument of `sys.exit` is 0, but the script fails for another reason.
        ("import sys\nsys.exit(len('a') - 1)", 1, &[[1, 0, 0]], Conclusion::Inconclusive),
        (
            "xs = [x for x in '' if x]\nassert all(x > 'a' for x in xs)",
            0,
            &[[1, 0, 0]],
            Conclusion::Vacuous,
        ),
        (
            "xs = [x for x in 'b' if x]\nassert all(x > 'a' for x in xs)",
            0,
            &[[1, 0, 1]],
            Conclusion::Verified,
        ),
    ] {
        assert_eq!(
            verdict(code, exit_code, counts).outcome,
            expected,
            "{code} {exit_code} {counts:?}"
        );
    }
}

#[test]
fn a_run_that_is_cut_short_verifies_nothing() {
    let run = |ending, is_truncated| {
        let mut outcome = Outcome { ending, ..Outcome::never_started() };
        outcome.check_counts = Some(CheckCounts::for_test(&[[1, 0, 0]]));
        outcome.stdout.is_truncated = is_truncated;
        let limits = RunLimits::of_script(Duration::from_secs(30));
        let script = authorized("assert 2 ** 10 == 1024");
        verdict_on_run(&script, limits, &Circumstances::default(), &outcome, Variants::NotRun)
            .outcome
    };
    assert_eq!(run(Ending::Exited(0), false), Conclusion::Verified);
    for ending in [Ending::TimedOut, Ending::Cancelled, Ending::OutOfMemory] {
        assert_eq!(run(ending, false), Conclusion::Inconclusive, "{ending:?}");
    }
    assert_eq!(run(Ending::Exited(0), true), Conclusion::Inconclusive);
}

#[test]
fn a_document_has_only_the_fields_of_the_specification() {
    let verdict = verdict("assert 2 ** 10 == 1024", 0, &[[1, 0, 0]]);
    let names = |value: &Value| -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let document = &verdict.document;
    assert_eq!(
        names(document).into_iter().collect::<Vec<_>>(),
        ["context", "object", "spec_version", "verdict"]
    );
    assert_eq!(document["object"]["formal_statement"], "2 ** 10 == 1024");
    assert_eq!(document["object"]["formalization"], json!({ "verified": false }));
    assert_eq!(document["context"]["decision"]["admission"], "ADMIT");
    assert_eq!(document["context"]["evidence"]["evidence"]["refuted"], false);
    assert!(verdict.proof_ref().unwrap().starts_with("sha256:"));
}

#[test]
fn only_a_verified_script_has_a_commitment() {
    for (code, exit_code, counts) in
        [("print(1)", 0, &[][..]), ("assert 2 ** 2 == 5", 1, &[[0, 1, 0]])]
    {
        let verdict = verdict(code, exit_code, counts);
        assert_eq!(verdict.document["verdict"], "UNVERIFIABLE");
        assert_eq!(verdict.document["context"]["decision"]["admission"], "DENY");
        assert_eq!(
            (verdict.proof_ref(), &verdict.document["context"]["evidence"]["proof_ref"]),
            (None, &Value::Null)
        );
    }
    let without_run = |code, outcome| verdict_without_run(outcome, &Subject::new(code, None));
    let blocked = without_run(Some("import os"), Conclusion::Blocked);
    assert_eq!(
        (blocked.outcome, &blocked.document["verdict"]),
        (Conclusion::Blocked, &json!("BLOCKED"))
    );
    let none = without_run(None, Conclusion::Blocked);
    assert_eq!(none.document["object"]["formal_statement"], "no script");
}

#[test]
fn the_commitment_binds_the_evidence_and_the_digest_not_the_model() {
    let code = "assert 2 ** 10 == 1024";
    let first = verdict(code, 0, &[[1, 0, 0]]);
    assert_eq!(first, verdict(code, 0, &[[1, 0, 0]]));
    let twice = verdict(code, 0, &[[2, 0, 0]]);
    assert_ne!(first.proof_ref(), twice.proof_ref());
    assert_ne!(first.document_digest, twice.document_digest);
    let with_model = |model: Option<&str>| {
        let subject = Subject::new(Some(code), model.map(str::to_owned));
        verdict_without_run(Conclusion::Blocked, &subject)
    };
    let (named, unnamed) = (with_model(Some("claude")), with_model(None));
    assert_eq!(named.document["object"]["formalization"]["translator"], "claude");
    assert_eq!(named.document_digest, unnamed.document_digest);
}

#[test]
fn a_long_statement_is_cut_and_names_the_script() {
    let checks = 100;
    let lines: Vec<String> =
        (0..checks).map(|number| format!("assert {number} ** 2 < 10_000")).collect();
    let code = lines.join("\n");
    let verdict = verdict(&code, 0, &vec![[1, 0, 0]; checks]);
    let statement = verdict.document["object"]["formal_statement"].as_str().unwrap();
    let last = statement.lines().last().unwrap();
    assert!(last.starts_with("… and 36 more checks, script sha256:"), "{last}");
    assert_eq!(statement.lines().count(), 65);
    assert_eq!((verdict.checks.len(), verdict.checks_omitted), (64, 36));
    // The list does not show whether the other checks held.
    assert_eq!(verdict.summary(), "verified: 64 or more checks held");
}

#[test]
fn a_verdict_is_one_line_for_a_person() {
    for (code, exit_code, counts, expected) in [
        ("assert 2 ** 10 == 1024", 0, &[[1, 0, 0]][..], "verified: 1 check held"),
        ("x = 2 ** 3\nassert x == 9", 1, &[[0, 1, 0]], "refuted: line 2"),
        ("print(1)", 0, &[], "nothing was checked"),
        ("assert 1", 0, &[[1, 0, 0]], "not verified: these checks cannot fail: line 1"),
    ] {
        assert_eq!(verdict(code, exit_code, counts).summary(), expected);
    }
}

#[test]
fn a_text_about_a_check_has_no_hidden_characters() {
    let verdict = verdict("assert (2 ** 10 == 1, '\u{202e}\u{200b}a')", 0, &[[1, 0, 0]]);
    let note = verdict.note(VerdictNote::Vacuous).unwrap();
    assert!(note.contains("`(2 ** 10 == 1, '\u{fffd}\u{fffd}a')` (line 1)"), "{note}");
}

#[test]
fn states_follow_from_counts() {
    let verdict = verdict(
        "def f(x):\n    if x < 0:\n        raise ValueError(x)\nf(1)\nassert f(2) is None\nassert f(3) != 1",
        1,
        &[[0, 2, 0], [1, 0, 0], [0, 0, 0]],
    );
    let states: Vec<_> =
        verdict.checks.iter().map(|check| (check.line, check.state, check.times)).collect();
    let expected =
        [(2, CheckState::Held, 2), (5, CheckState::Held, 1), (6, CheckState::NotReached, 0)];
    assert_eq!(states, expected);
}
