//! Tests files that a caller passes with a script: the argument `inputs`, the option `--input`, and the field `inputs`
//! of batch lines.

use std::fs;
use std::process::{Command, Output, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::tempdir;

use crate::harness::{CallResult, McpProcess, ServerBuilder, python};
use crate::receipts::Receipts;

tests! {
    needs []:
        other_names_and_contents_are_refused,
        checks_know_the_names_of_inputs;
    needs [Sandbox]:
        only_the_passed_files_are_read,
        an_input_is_no_archive_of_modules,
        inputs_are_in_the_decision_and_in_the_evidence,
        lines_of_a_batch_have_inputs,
        files_are_passed_at_the_command_line;
    needs [Sandbox, Packages]:
        files_are_read_cold_and_as_a_job;
    needs [Tier3, Packages]:
        files_are_read_warm;
    needs [Tier2, PublicPython]:
        files_are_read_at_every_tier;
    needs [Tier2]:
        a_replay_needs_the_same_inputs;
}

fn call(server: &mut McpProcess, code: &str, inputs: &Value) -> CallResult {
    server.call("execute_python_code", &json!({ "code": code, "inputs": inputs }))
}

fn assert_prints(result: &CallResult, expected: &str) {
    let text = format!("STDOUT:\n{expected}\n\nExecution completed successfully.");
    assert_eq!(result.texts, [text]);
}

/// Returns the bytes that a Python program writes to standard output.
fn made_by(program: &str) -> Vec<u8> {
    let made = Command::new(python()).args(["-c", program]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    made.stdout
}

const ZIP: &str = "
import io, sys, zipfile
buffer = io.BytesIO()
with zipfile.ZipFile(buffer, 'w') as archive: archive.writestr('a.txt', 'inner')
sys.stdout.buffer.write(buffer.getvalue())";

const DATABASE: &str = "
import sqlite3, sys
c = sqlite3.connect(':memory:')
c.execute('create table t (a)')
c.executemany('insert into t values (?)', [(1,), (2,)])
c.commit()
sys.stdout.buffer.write(c.serialize())";

const BOOK: &str = "
import io, openpyxl, sys
book, buffer = openpyxl.Workbook(write_only=True), io.BytesIO()
sheet = book.create_sheet()
for number in range(10_000): sheet.append([number, number / 7, f'row {number}'])
book.save(buffer)
sys.stdout.buffer.write(buffer.getvalue())";

fn assert_files(server: &mut McpProcess) {
    let csv = json!({ "orders.csv": "a,b\n1,é\n2,x\r\n" });
    for (code, expected) in [
        ("print(repr(open('orders.csv', newline='').read()))", r"'a,b\n1,é\n2,x\r\n'"),
        ("print(repr(inputs['orders.csv']))", r"'a,b\n1,é\n2,x\r\n'"),
        (
            "import csv\nwith open('orders.csv') as f:\n    print([row['b'] for row in csv.DictReader(f)])",
            "['é', 'x']",
        ),
        ("from pathlib import Path\nprint(len(Path('orders.csv').read_bytes()))", "14"),
        (
            "import numpy as np\nprint(np.loadtxt('orders.csv', delimiter=',', skiprows=1, usecols=0))",
            "[1. 2.]",
        ),
        ("print(list(inputs), len(inputs), 'x' in inputs)", "['orders.csv'] 1 False"),
    ] {
        assert_prints(&call(server, code, &csv), expected);
    }
    let several = json!({
        "a.json": { "json": { "k": [1, 2.5, null, true, "é"] } },
        "b.bin": { "base64": STANDARD.encode(b"\x00\xff") },
        "c.zip": { "base64": STANDARD.encode(made_by(ZIP)) },
        "d.db": { "base64": STANDARD.encode(made_by(DATABASE)) },
        "empty.txt": "",
    });
    for (code, expected) in [
        (
            "import json\nwith open('a.json') as f: print(json.load(f) == inputs['a.json'], inputs['a.json'])",
            "True {'k': [1, 2.5, None, True, 'é']}",
        ),
        (
            "print(inputs['b.bin'], open('b.bin', 'rb').read() == inputs['b.bin'])",
            r"b'\x00\xff' True",
        ),
        ("import zipfile\nwith zipfile.ZipFile('c.zip') as z: print(z.read('a.txt'))", "b'inner'"),
        (
            "import sqlite3\nc = sqlite3.connect('d.db')\nprint(c.execute('select sum(a) from t').fetchone())",
            "(3,)",
        ),
        ("print(repr(open('empty.txt').read()), repr(inputs['empty.txt']))", "'' ''"),
        ("print(sorted(inputs))", "['a.json', 'b.bin', 'c.zip', 'd.db', 'empty.txt']"),
    ] {
        assert_prints(&call(server, code, &several), expected);
    }
    let book = json!({ "book.xlsx": { "base64": STANDARD.encode(made_by(BOOK)) } });
    let code = "import openpyxl\nwith open('book.xlsx', 'rb') as f:\n    \
                rows = openpyxl.load_workbook(f, read_only=True).active.iter_rows(values_only=True)\n    \
                print(sum(row[0] for row in rows))";
    assert_prints(&call(server, code, &book), "49995000");
    // An input of three megabytes arrives complete.
    let large = "1234567,89\n".repeat(280_000);
    let digest = hex::encode(Sha256::digest(&large));
    let code = "import hashlib\nprint(hashlib.sha256(open('l.csv', 'rb').read()).hexdigest())";
    assert_prints(&call(server, code, &json!({ "l.csv": large })), &digest);
    // Inputs are removed after a call. A script without inputs has no mapping `inputs`.
    let result = server.execute("print('inputs' in globals())");
    assert_prints(&result, "False");
}

fn files_are_read_cold_and_as_a_job() {
    let mut server = ServerBuilder::new().unchecked().connect();
    assert_files(&mut server);
    let arguments = json!({
        "code": "print(open('a.txt').read(), inputs['a.txt'])", "inputs": { "a.txt": "x" }, "background": true,
    });
    let placed = server.call("execute_python_code", &arguments);
    let job = placed.meta["qwed.ai/job"]["job_id"].as_str().unwrap().to_owned();
    let result = server.wait_for_job(&job);
    assert!(result.text().contains("x x"), "{:?}", result.texts);
    assert_eq!(result.meta["qwed.ai/job"]["inputs"]["a.txt"]["bytes"], 1);
    server.finish();
}

fn files_are_read_warm() {
    let mut server = ServerBuilder::new().unchecked().warm("json,numpy").connect();
    server.wait_until_warm();
    assert_files(&mut server);
    let result = call(&mut server, "print(inputs['a'])", &json!({ "a": "1" }));
    assert_eq!(result.execution()["warm"], true);
    server.finish();
}

fn files_are_read_at_every_tier() {
    for builder in ServerBuilder::new().unchecked().below_tier_3() {
        let mut server = builder.connect();
        let code = "import csv\nwith open('a.csv') as f: print(list(csv.reader(f)), inputs['b'])";
        let inputs = json!({ "a.csv": "1,2\n", "b": { "json": [3] } });
        assert_prints(&call(&mut server, code, &inputs), "[['1', '2']] [3]");
        server.finish();
    }
}

/// The analysis is off, so only the kernel protects files. The script can read the passed files, but neither change
/// them nor read others.
fn only_the_passed_files_are_read() {
    let mut server = ServerBuilder::new().unchecked().connect();
    let code =
        "import os\nprint(os.listdir('.'), oct(os.stat('a.txt').st_mode & 0o777))\nopen('b.txt')";
    let result = call(&mut server, code, &json!({ "a.txt": "x" }));
    assert!(result.text().contains("['a.txt'] 0o444"), "{:?}", result.texts);
    assert!(result.text().contains("FileNotFoundError"), "{:?}", result.texts);
    server.finish();
    let mut server = ServerBuilder::new().connect();
    let inputs = json!({ "a.txt": "x" });
    for code in ["open('b.txt')", "open('/etc/passwd')", "open('a.txt', 'w')", "open('../a.txt')"] {
        let result = call(&mut server, code, &inputs);
        assert!(result.texts[0].contains("Dangerous function call: open()"), "{:?}", result.texts);
    }
    assert_prints(&call(&mut server, "print(open('a.txt').read())", &inputs), "x");
    let result = server.execute("print(open('a.txt').read())");
    assert!(result.texts[0].starts_with("BLOCKED"), "{:?}", result.texts);
    server.finish();
}

/// The analysis cannot check modules in an archive, so scripts must not be able to import them.
fn an_input_is_no_archive_of_modules() {
    let program = "import io, sys, zipfile\nb = io.BytesIO()\n\
                   with zipfile.ZipFile(b, 'w') as z: z.writestr('evil.py', 'print(7)')\n\
                   sys.stdout.buffer.write(b.getvalue())";
    let archive = json!({ "m.zip": { "base64": STANDARD.encode(made_by(program)) } });
    let mut server = ServerBuilder::new().connect();
    for folders in ["sys.path.insert(0, 'm.zip')", "import json\njson.__path__.append('m.zip')"] {
        let code = format!(
            "import sys\n{folders}\ntry:\n    import evil\nexcept ImportError: print('no')\ntry:\n    import json.evil\nexcept ImportError: print('no')"
        );
        assert_prints(&call(&mut server, &code, &archive), "no\nno");
    }
    server.finish();
    // The control: outside of the server, Python imports the module from the archive.
    let folder = tempdir().unwrap();
    let file = folder.path().join("m.zip");
    fs::write(&file, made_by(program)).unwrap();
    let code = format!("import sys\nsys.path.insert(0, '{}')\nimport evil", file.display());
    let control = Command::new(python()).args(["-c", &code]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&control.stdout), "7\n");
}

fn other_names_and_contents_are_refused() {
    let mut server = ServerBuilder::new().connect();
    let mut contents = vec![
        json!("text"),
        json!(1),
        json!(["a.csv"]),
        json!({ "a": null }),
        json!({ "a": 1 }),
        json!({ "a": ["x"] }),
        json!({ "a": {} }),
        json!({ "a": { "path": "/etc/passwd" } }),
        json!({ "a": { "base64": 1 } }),
        json!({ "a": { "base64": "*" } }),
        json!({ "a": { "base64": "QQ==", "json": 1 } }),
        json!({ "a": "", "A": "" }),
        json!((0..17).map(|n| (n.to_string(), "")).collect::<std::collections::BTreeMap<_, _>>()),
    ];
    let names = [
        "",
        ".",
        "..",
        "../a",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "C:a",
        ".hidden",
        "-a",
        "~",
        "a\0b",
        "a\nb",
        "a\u{202e}b",
        "é.csv",
        "ａ.csv",
        "proc/self/mem",
        "/proc/self/fd/0",
        "/dev/null",
        "a:b",
        "a*",
        "$HOME",
        "`id`",
        "a.py",
        "numpy.so",
        "x.pth",
        "matplotlibrc",
    ];
    contents.extend(names.map(|name| json!({ name: "" })));
    contents.push(json!({ "a".repeat(101): "" }));
    for inputs in contents {
        let result = call(&mut server, "print(1)", &inputs);
        let text = &result.texts[0];
        assert!(result.is_error && text.starts_with("BLOCKED: 'inputs'"), "{inputs}: {text}");
        assert_eq!(result.texts[1], "Error code: QWED-MCP-RISK-010", "{inputs}");
        assert!(!text.chars().any(char::is_control) && text.chars().count() < 500, "{text}");
    }
    // Arguments are checked before the admin gate.
    let mut shut = ServerBuilder::new().without("QWED_MCP_TRUSTED_CODE_EXECUTION").connect();
    let result = call(&mut shut, "print(1)", &json!({ "..": "" }));
    assert_eq!(result.texts[1], "Error code: QWED-MCP-RISK-010");
    shut.finish();
    server.finish();
}

fn inputs_are_in_the_decision_and_in_the_evidence() {
    let mut server = ServerBuilder::new().connect();
    let code = "assert open('a.txt').read() == 'x'\nassert len(inputs) == 2";
    let result = call(&mut server, code, &json!({ "a.txt": "x", "b.json": { "json": [] } }));
    let sha256 = |text: &str| hex::encode(Sha256::digest(text));
    let expected = json!({
        "a.txt": { "bytes": 1, "sha256": sha256("x") }, "b.json": { "bytes": 2, "sha256": sha256("[]") },
    });
    assert_eq!(result.meta["qwed.ai/decision"]["inputs"], expected);
    let document = &result.meta["qwed.ai/verification"]["document"];
    let evidence = &document["context"]["evidence"]["evidence"]["inputs"];
    assert_eq!(evidence["a.txt"], format!("sha256:{}", sha256("x")), "{document}");
    // A different input leads to a different document.
    let digest =
        |result: &CallResult| result.meta["qwed.ai/verification"]["document_digest"].clone();
    let other = call(&mut server, code, &json!({ "a.txt": "x", "b.json": { "json": {} } }));
    assert_ne!(digest(&result), digest(&other));
    let again = call(&mut server, code, &json!({ "a.txt": "x", "b.json": { "json": [] } }));
    assert_eq!(digest(&result), digest(&again));
    assert_eq!(server.execute("print(1)").meta["qwed.ai/decision"].get("inputs"), None);
    server.finish();
}

fn lines_of_a_batch_have_inputs() {
    let code = "print(open('a.txt').read() + input())";
    let tests = json!([{ "stdin": "1", "stdout": "x1" }, { "stdin": "2", "stdout": "x2" }]);
    let calls = json!([{ "call": "len(inputs['a.txt'])", "value": 1 }]);
    let answers = ServerBuilder::new().batch(&[
        json!({ "code": code, "stdin": "1", "inputs": { "a.txt": "x" }, "expect": { "stdout": "x1" } }),
        json!({ "code": code, "inputs": { "a.txt": "x" }, "tests": tests }),
        json!({ "code": "x = open('a.txt').read()", "inputs": { "a.txt": "x" }, "tests": calls }),
        json!({ "code": code, "stdin": "1", "inputs": { "a.txt": "y" }, "expect": { "stdout": "x1" } }),
        json!({ "code": code, "stdin": "1", "expect": { "stdout": "x1" } }),
        json!({ "id": "bad", "code": code, "inputs": { "../a": "x" } }),
    ]);
    let field = |name: &str| answers.iter().map(|it| it[name].clone()).collect::<Vec<_>>();
    assert_eq!(field("status"), ["ok", "ok", "ok", "ok", "blocked", "invalid"], "{answers:?}");
    let passed = [json!(true), json!(true), json!(true), json!(false), json!(false), json!(null)];
    assert_eq!(field("passed"), passed);
    assert!(
        answers[5]["error"].as_str().unwrap().contains("not a plain file name"),
        "{}",
        answers[5]
    );
    assert_ne!(answers[0]["line_sha256"], answers[3]["line_sha256"]);
}

fn run(arguments: &[&str]) -> Output {
    let mut command = ServerBuilder::new().command();
    command.arg("run").args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn files_are_passed_at_the_command_line() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("data"), "x,1\n").unwrap();
    fs::write(path("bytes"), b"\xff").unwrap();
    fs::write(path("s.py"), "print(open('a b.csv').read(), inputs['b'], sorted(inputs))").unwrap();
    let [csv, bytes] = [format!("a b.csv={}", path("data")), format!("b={}", path("bytes"))];
    let done = run(&[&path("s.py"), "--input", &csv, "--input", &bytes]);
    let printed = String::from_utf8(done.stdout).unwrap();
    assert_eq!(printed, "x,1\n b'\\xff' ['a b.csv', 'b']\n");
    for (input, code, error) in [
        ("data".to_owned(), 125, "write it as NAME=FILE"),
        ("a=".to_owned(), 125, "write it as NAME=FILE"),
        ("a=-".to_owned(), 125, "an input is a file, not standard input"),
        (format!("../a={}", path("data")), 125, "not a plain file name"),
        (format!("a={}", path("missing")), 127, "No such file"),
    ] {
        let done = run(&[&path("s.py"), "--input", &input]);
        let printed = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(code), "{printed}");
        assert!(printed.contains(error), "{printed}");
    }
}

fn checks_know_the_names_of_inputs() {
    let folder = tempdir().unwrap();
    let script = folder.path().join("s.py");
    fs::write(&script, "print(open('a.csv').read())").unwrap();
    let check = |arguments: &[&str]| {
        let mut command = ServerBuilder::new().command();
        command.arg("check").arg(&script).args(arguments).output().unwrap().status.code()
    };
    assert_eq!(check(&[]), Some(1));
    assert_eq!(check(&["--input", "b.csv"]), Some(1));
    assert_eq!(check(&["--input", "b.csv", "--input", "a.csv"]), Some(0));
    assert_eq!(check(&["--input", "../a.csv"]), Some(2));
}

fn a_replay_needs_the_same_inputs() {
    let writer = Receipts::new();
    let mut server = writer.server().connect();
    let code = "print(open('a.txt').read(), inputs['b.json'], inputs['c.bin'])";
    let inputs = json!({ "a.txt": "x", "b.json": { "json": [1] }, "c.bin": { "base64": "QQ==" } });
    let result = call(&mut server, code, &inputs);
    assert_prints(&result, "x [1] b'A'");
    server.finish();
    let receipt = writer.file_of(&result);
    let statement = writer.statement(&receipt);
    assert_eq!(
        statement["predicate"]["inputs"],
        json!({ "a.txt": "text", "b.json": "json", "c.bin": "bytes" })
    );
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (name, content) in [("s.py", code), ("a", "x"), ("b", "[1]"), ("c", "A"), ("other", "y")] {
        fs::write(path(name), content).unwrap();
    }
    let replay = |inputs: &[(&str, &str)]| {
        let mut arguments = vec!["replay".to_owned(), receipt.to_str().unwrap().to_owned()];
        arguments.extend(["--script".to_owned(), path("s.py")]);
        for (name, file) in inputs {
            arguments.extend(["--input".to_owned(), format!("{name}={}", path(file))]);
        }
        let done = writer.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let text = [done.stdout, done.stderr].concat();
        (done.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, text) = replay(&[("c.bin", "c"), ("b.json", "b"), ("a.txt", "a")]);
    assert_eq!(code, Some(0), "{text}");
    for (inputs, error) in [
        (&[("a.txt", "a")][..], "pass --input b.json=FILE"),
        (&[("a.txt", "other"), ("b.json", "b"), ("c.bin", "c")], "a.txt"),
        (&[("a.txt", "a"), ("b.json", "b"), ("c.bin", "c"), ("d", "a")], "inputs/d"),
    ] {
        let (code, text) = replay(inputs);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(error), "{text}");
    }
}
