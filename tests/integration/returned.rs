//! Tests the value that a script assigns to `result` (`_meta["qwed.ai/result"]`, and `result` in batch answers).

use serde_json::{Value, json};

use crate::harness::{CallResult, McpProcess, ServerBuilder};

tests! {
    needs [Sandbox]:
        a_value_is_returned_cold_and_as_a_job,
        other_values_are_omitted_with_a_reason,
        answers_of_batches_have_the_value;
    needs [Tier3]:
        a_value_is_returned_warm;
    needs [Tier2, PublicPython]:
        a_value_is_returned_at_every_tier;
}

const PLAIN: &str =
    "result = {'a': [1, 2.5, None, True, 'é'], 'b': {}, 'large': -2 ** 60}\nprint('done')";

fn plain() -> Value {
    json!({ "a": [1, 2.5, null, true, "é"], "b": {}, "large": { "$int": "-1152921504606846976" } })
}

fn returned(result: &CallResult) -> Option<&Value> {
    result.meta.get("qwed.ai/result")
}

fn assert_values(server: &mut McpProcess) {
    let result = server.execute(PLAIN);
    assert_eq!(returned(&result), Some(&plain()));
    // The text is the same as for a script without a value.
    assert_eq!(result.texts, ["STDOUT:\ndone\n\nExecution completed successfully."]);
    for (code, value) in [
        ("result = None", Some(json!(null))),
        ("result = 0.1 + 0.2", Some(json!(0.300_000_000_000_000_04))),
        ("x = 1", None),
        ("result = 1\ndel result", None),
        ("result = [1]\nraise ValueError(2)", Some(json!([1]))),
        ("import sys\nresult = 2\nsys.exit(3)", Some(json!(2))),
        ("result = 3\nassert result == 4", Some(json!(3))),
        ("import os\nresult = 4\nos._exit(0)", None),
        ("def f():\n    result = 5\nf()", None),
        // A forked child cannot replace the value of the script.
        (
            "import os\nresult = 6\nif os.fork() == 0:\n    result = 7\nelse:\n    os.wait()",
            Some(json!(6)),
        ),
    ] {
        let result = server.execute(code);
        assert_eq!(returned(&result), value.as_ref(), "{code}: {:?}", result.texts);
        assert_eq!(result.meta.get("qwed.ai/result_omitted"), None, "{code}");
    }
}

fn a_value_is_returned_cold_and_as_a_job() {
    let mut server = ServerBuilder::new().unchecked().connect();
    assert_values(&mut server);
    let job = server.place(PLAIN);
    assert_eq!(returned(&server.wait_for_job(&job)), Some(&plain()));
    server.finish();
    // With the analysis, a failed check sends the compared values on the channel of `result` too.
    let mut server = ServerBuilder::new().connect();
    let result = server.execute("result = 3\nassert result == 4");
    assert_eq!(returned(&result), Some(&json!(3)), "{:?}", result.meta);
    let compared = &result.meta["qwed.ai/verification"]["checks"][0]["compared"];
    assert_eq!(*compared, json!([{ "text": "result", "value": "3" }]));
}

fn a_value_is_returned_warm() {
    let mut server = ServerBuilder::new().unchecked().warm("json").connect();
    server.wait_until_warm();
    assert_values(&mut server);
    let result = server.execute_warm(PLAIN);
    assert_eq!((returned(&result), &result.execution()["warm"]), (Some(&plain()), &json!(true)));
    server.finish();
}

fn a_value_is_returned_at_every_tier() {
    for builder in ServerBuilder::new().unchecked().below_tier_3() {
        let mut server = builder.connect();
        assert_values(&mut server);
        server.finish();
    }
}

fn other_values_are_omitted_with_a_reason() {
    let mut server = ServerBuilder::new().unchecked().connect();
    let of_type = |name: &str| {
        format!(
            "the value has the type {name}; it may have None, bool, int, float, str, list and dict"
        )
    };
    for (code, reason) in [
        ("result = (1, 2)", of_type("tuple")),
        ("result = {1, 2}", of_type("set")),
        ("import fractions\nresult = [fractions.Fraction(1, 2)]", of_type("Fraction")),
        ("class Own(int): pass\nresult = Own(1)", of_type("Own")),
        (
            "class Evil(dict):\n    def items(self): raise SystemExit\nresult = Evil()",
            of_type("Evil"),
        ),
        (
            "result = float('nan')",
            "the value has a float that is infinite or not a number".to_owned(),
        ),
        (
            "result = {1: 2}",
            "the value has a dict whose keys are not all of the type str".to_owned(),
        ),
        ("result = 'x' * 70_000", "the value is larger than 64 KiB".to_owned()),
        ("result = list(range(10 ** 6))", "the value is larger than 64 KiB".to_owned()),
        ("result = []\nresult.append(result)", "the value is nested deeper than 128".to_owned()),
        ("result = 10 ** 5000", "the value has an int of more than 4300 digits".to_owned()),
        ("result = '\\ud800'", "the value has a str with surrogates".to_owned()),
    ] {
        let result = server.execute(code);
        assert_eq!(result.texts, ["Execution completed successfully."], "{code}");
        assert_eq!(result.meta["qwed.ai/result_omitted"], reason, "{code}");
        assert_eq!(returned(&result), None, "{code}");
    }
    let largest = server.execute("result = 'x' * 65_534");
    assert_eq!(returned(&largest), Some(&json!("x".repeat(65_534))));
    server.finish();
}

fn answers_of_batches_have_the_value() {
    let lines = [
        json!({ "code": PLAIN }),
        json!({ "code": "result = (1,)" }),
        json!({ "code": "x = 1" }),
        json!({ "code": "result = int(input())", "tests": [{ "stdin": "1", "stdout": "" }, { "stdin": "2", "stdout": "" }] }),
        json!({ "code": "result = 1\ndef f(): return 2", "tests": [{ "call": "f()", "value": 2 }] }),
    ];
    let answers = ServerBuilder::new().batch(&lines);
    let values: Vec<_> = answers.iter().map(|answer| answer.get("result").cloned()).collect();
    // A test with a call returns the call's own value.
    assert_eq!(values, [Some(plain()), None, None, Some(json!(2)), None], "{answers:?}");
    let reason = answers[1]["result_omitted"].as_str().unwrap();
    assert!(reason.starts_with("the value has the type tuple"), "{reason}");
}
