//! Tests results that another process reuses. They are stored next to the receipts.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{batch_of, cached, count_cached, environment, is_cached, once};
use crate::harness::{ServerBuilder, eventually};
use crate::receipts::Receipts;

tests! {
    needs [Tier3, FixedAddresses]:
        a_later_process_uses_a_result,
        batches_share_results,
        a_changed_file_is_not_used,
        without_receipts_of_scripts_nothing_is_stored,
        a_single_script_prints_its_output_each_time,
        the_advice_about_a_missing_module_is_not_stored,
        a_changed_environment_has_no_results,
        kills_lose_no_result;
    needs [Tier3, FixedAddresses, Packages]:
        results_of_warm_runs_are_used_again_for_warm_runs;
}

/// Returns a server that reuses results. All processes have the same environment variables, because scripts can read
/// them.
fn with_receipts(receipts: &Receipts) -> ServerBuilder {
    once(receipts.server()).without("PATH")
}

/// Returns the paths of the stored results.
fn stored(receipts: &Receipts) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(receipts.path("receipts/answers")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn a_later_process_uses_a_result() {
    let receipts = Receipts::new();
    let hostile = "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 100)\nprint('\\ud83d', file=sys.stderr)";
    for (number, code) in [
        "assert 6 * 7 == 42",
        "print(1)",
        hostile,
        "result = {'a': [2 ** 100, 0.1, None]}",
        "assert [1] == [2]",
    ]
    .into_iter()
    .enumerate()
    {
        let first = with_receipts(&receipts).connect().execute(code);
        assert_eq!(stored(&receipts).len(), number + 1, "{code}");
        let mut server = with_receipts(&receipts).connect();
        for _ in 0..2 {
            let later = server.execute(code);
            let own = first.meta["qwed.ai/receipt"]["sha256"].clone();
            assert_eq!(cached(&later), Some(&json!({ "receipt": own })), "{code}");
            assert_eq!((&first.texts, first.is_error), (&later.texts, later.is_error), "{code}");
            for key in ["qwed.ai/result", "qwed.ai/result_omitted", "qwed.ai/verification"] {
                assert_eq!(first.meta.get(key), later.meta.get(key), "{code}");
            }
            let [first, later] =
                [&first, &later].map(|result| receipts.statement(&receipts.file_of(result)));
            assert_eq!(later["predicate"]["cached"], json!({ "receipt": own }), "{code}");
            for part in ["deterministic", "mayDifferBy", "run"] {
                let of = |statement: &Value| {
                    let mut of = statement["predicate"][part].clone();
                    for time in ["startedOn", "finishedOn", "durationMs"] {
                        of.as_object_mut().map(|of| of.remove(time));
                    }
                    of
                };
                assert_eq!(of(&first), of(&later), "{code} {part}");
            }
            assert_eq!(first["subject"], later["subject"], "{code}");
        }
    }
    for file in stored(&receipts) {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    }
    let mode = receipts.path("receipts/answers").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
}

/// The addresses of objects in a fork differ from the addresses in a new interpreter. So only warm runs reuse the
/// results of warm runs.
fn results_of_warm_runs_are_used_again_for_warm_runs() {
    let receipts = Receipts::new();
    let warm = || with_receipts(&receipts).without("QWED_MCP_WARM").connect();
    let (mut server, mut of_other, mut cold) = (warm(), warm(), with_receipts(&receipts).connect());
    for code in [
        "print(id([]), 6 * 7)",
        "import sympy, z3\nprint(sympy.factor(sympy.Symbol('x') ** 2 - 1), z3.Int('x') + 1)",
    ] {
        let first = server.execute(code);
        assert_eq!(first.execution()["warm"], true, "{code}");
        assert!(!is_cached(&first), "{code}");
        for other in [server.execute(code), of_other.execute(code)] {
            assert!(is_cached(&other), "{code}");
            assert_eq!(other.texts, first.texts, "{code}");
        }
        assert!(!is_cached(&cold.execute(code)), "{code}");
    }
}

fn batches_share_results() {
    let receipts = Receipts::new();
    let of_batch = || receipts.server().without("PATH");
    let line = |number: u32| json!({ "code": format!("print({number} * 2)") });
    let tests = json!([{ "call": "f(1)", "value": 1 }, { "call": "f(2)", "value": 3 }]);
    let judged = json!({ "code": "def f(n):\n    return n", "tests": tests });
    let lines = [&(0..20).map(line).collect::<Vec<_>>()[..], &[judged]].concat();
    let (first, runs) = batch_of(of_batch(), &lines, &["--once"]);
    assert_eq!((count_cached(&first), runs), (0, 22), "{first:?}");
    let (second, runs) = batch_of(of_batch(), &lines, &["--once"]);
    assert_eq!((count_cached(&second), runs), (21, 0), "{second:?}");
    let passed = |answers: &[Value]| {
        let of = |answer: &Value| (answer["stdout"].clone(), answer["passed"].clone());
        answers.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(passed(&first), passed(&second));
}

fn a_changed_file_is_not_used() {
    let receipts = Receipts::new();
    let code = "print(6 * 7)";
    with_receipts(&receipts).connect().execute(code);
    let [file] = &stored(&receipts)[..] else { panic!("{:?}", stored(&receipts)) };
    let content = fs::read(file).unwrap();
    let mut changed = content.clone();
    let at = changed.windows(2).position(|window| window == b"42").unwrap();
    changed[at] = b'7';
    for content in [&changed[..], b"", &content[..content.len() - 1]] {
        fs::write(file, content).unwrap();
        let mut server = with_receipts(&receipts).connect();
        let result = server.execute(code);
        assert!(!is_cached(&result) && result.texts[0].contains("42"), "{result:?}");
        assert!(server.finish().contains("is not complete or was changed"));
        assert!(is_cached(&with_receipts(&receipts).connect().execute(code)));
    }
    // A server with another key must not use this result.
    let other = Receipts::new();
    let answers = other.path("receipts/answers");
    fs::create_dir_all(&answers).unwrap();
    fs::copy(file, answers.join(file.file_name().unwrap())).unwrap();
    assert!(!is_cached(&with_receipts(&other).connect().execute(code)));
    // The folder of results cannot be created.
    let third = Receipts::new();
    fs::create_dir_all(third.path("receipts")).unwrap();
    fs::write(third.path("receipts/answers"), "").unwrap();
    let mut server = with_receipts(&third).connect();
    assert!(!is_cached(&server.execute(code)) && is_cached(&server.execute(code)));
    assert!(server.finish().contains("cannot store the result of a run"));
}

fn without_receipts_of_scripts_nothing_is_stored() {
    let receipts = Receipts::new();
    let data = receipts.path("data");
    let of_data = || ServerBuilder::new().variable("QWED_MCP_DATA_DIR", data.to_str().unwrap());
    for _ in 0..2 {
        assert!(!is_cached(&once(of_data()).without("PATH").connect().execute("print(1)")));
    }
    receipts.server().connect().execute("print(1)");
    assert_eq!(stored(&receipts), [""; 0].map(PathBuf::from));
}

fn a_single_script_prints_its_output_each_time() {
    let receipts = Receipts::new();
    let script = receipts.path("script.py");
    fs::write(&script, "print(6 * 7)").unwrap();
    for _ in 0..2 {
        let mut command = with_receipts(&receipts).command();
        let ran = command.args(["run", "--deterministic"]).arg(&script).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "42\n", "{ran:?}");
    }
}

/// The advice depends on settings, and the next process may have other settings.
fn the_advice_about_a_missing_module_is_not_stored() {
    let receipts = Receipts::new();
    let code = "import gmpy2";
    let mut server = with_receipts(&receipts).connect();
    let first = server.execute(code);
    assert!(first.texts[1].contains("gmpy2 is not installed"), "{first:?}");
    assert!(is_cached(&server.execute(code)));
    assert!(!is_cached(&with_receipts(&receipts).connect().execute(code)));
}

/// After each change, a batch runs all scripts in a new process. Many scripts print the version of a module or the
/// year, so their output would reveal an outdated result.
fn a_changed_environment_has_no_results() {
    // Four scripts of each kind.
    const COUNT: usize = 12;
    let receipts = Receipts::new();
    let (folder, packages) = environment();
    let program = folder.path().join("env/bin/python");
    let probe = packages.join("mpmath.py");
    fs::create_dir(packages.join("mpmath-1.0.dist-info")).unwrap();
    fs::write(&probe, "VERSION = 1\n").unwrap();
    let code = |number: usize| match number % 3 {
        0 => format!("import mpmath\nprint(mpmath.VERSION, {number} * 3)"),
        1 => format!("import time\nprint(time.gmtime().tm_year, {number} * 3)"),
        _ => format!("assert {number} * 3 == 3 * {number}\nprint({number} * 3)"),
    };
    let lines: Vec<Value> = (0..COUNT).map(|number| json!({ "code": code(number) })).collect();
    let mut builder = receipts.with_variables(ServerBuilder::of_interpreter(&program));
    let (mut version, mut year) = (1, 2026);
    let check = |builder: &ServerBuilder, change: &str, version: u32, year: u32, is_known: bool| {
        let (answers, runs) = batch_of(builder.clone(), &lines, &["--once"]);
        for (number, answer) in answers.iter().enumerate() {
            let expected = match number % 3 {
                0 => format!("{version} {}", number * 3),
                1 => format!("{year} {}", number * 3),
                _ => format!("{}", number * 3),
            };
            assert_eq!(answer["stdout"], expected, "{change}: {answer}");
        }
        let expected = if is_known { (COUNT, 0) } else { (0, COUNT) };
        assert_eq!((count_cached(&answers), runs), expected, "{change}");
    };
    check(&builder, "nothing", version, year, false);
    check(&builder, "nothing", version, year, true);
    version = 2;
    fs::write(&probe, "VERSION = 2\n").unwrap();
    check(&builder, "a module is edited", version, year, false);
    fs::rename(packages.join("mpmath-1.0.dist-info"), packages.join("mpmath-1.1.dist-info"))
        .unwrap();
    check(&builder, "a package is updated", version, year, false);
    fs::write(packages.join("other.pth"), "# a\n").unwrap();
    check(&builder, "a file is added", version, year, false);
    builder = builder.variable("QWED_MCP_MEMORY_MB", "700");
    check(&builder, "the limit of memory", version, year, false);
    year = 2030;
    builder = builder.variable("QWED_MCP_DETERMINISTIC", "2030-01-01T00:00:00Z");
    check(&builder, "the clock", version, year, false);
    let mut other = fs::read(&program).unwrap();
    other.push(b'\n');
    let draft = folder.path().join("draft");
    fs::copy(&program, &draft).unwrap();
    fs::write(&draft, other).unwrap();
    fs::rename(&draft, &program).unwrap();
    check(&builder, "the interpreter", version, year, false);
    check(&builder, "nothing", version, year, true);
}

/// Kills a batch at different moments. If the batch has printed an answer, later processes must be able to reuse the
/// result.
fn kills_lose_no_result() {
    let receipts = Receipts::new();
    let lines: Vec<Value> = (0..300)
        .map(|number| json!({ "id": number.to_string(), "code": format!("print({number} * 3)") }))
        .collect();
    let source = receipts.path("lines.jsonl");
    let target = receipts.path("answers.jsonl");
    let text = lines.iter().fold(String::new(), |all, line| all + &line.to_string() + "\n");
    fs::write(&source, text).unwrap();
    let mut answered = BTreeSet::new();
    for round in 0..8_u64 {
        let mut command = receipts.server().command();
        command.args(["run", "--batch", source.to_str().unwrap(), "--once"]).stdin(Stdio::null());
        command.stdout(fs::File::create(&target).unwrap()).stderr(Stdio::null());
        let mut batch = command.spawn().unwrap();
        // On a busy machine, the start takes long. So wait until the batch has stored a result.
        let before = stored(&receipts).len();
        let has_begun = || stored(&receipts).len() > before;
        assert!(eventually(Duration::from_secs(60), has_begun).is_some());
        thread::sleep(Duration::from_millis(round * 137 % 400));
        batch.kill().unwrap();
        batch.wait().unwrap();
        let printed = fs::read_to_string(&target).unwrap();
        // The kill may have cut the last line.
        let whole = printed.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        answered.extend(whole.map(|line| {
            let answer: Value = serde_json::from_str(line).unwrap();
            let number: usize = answer["id"].as_str().unwrap().parse().unwrap();
            assert_eq!(answer["stdout"], (number * 3).to_string(), "{answer}");
            number
        }));
    }
    assert!(!answered.is_empty(), "every batch was killed before its first answer");
    let (answers, _) = batch_of(receipts.server(), &lines, &["--once"]);
    assert_eq!(answers.len(), 300);
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer["stdout"], (number * 3).to_string(), "{answer}");
        let is_known = answered.contains(&number);
        assert!(answer["cached"] == true || !is_known, "{answer}");
    }
    let files = stored(&receipts);
    assert_eq!(files.len(), 300, "{files:?}");
}
