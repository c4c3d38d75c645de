//! Tests `qwed-mcp verify`, which checks the claims in documents.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::harness::{ServerBuilder, eventually, root, succeeds_once};

tests! {
    needs [Sandbox]:
        each_claim_of_a_document_has_a_verdict,
        every_format_has_all_claims,
        documents_without_claims_are_reported,
        a_claim_forges_no_line_of_a_report,
        a_signal_ends_the_claims,
        claims_leave_receipts,
        claims_of_the_documents_are_verified;
}

/// A document with verified, refuted, vacuous and other claims.
const CLAIMS: &str = "\
# Claims

```python verify
total = sum(range(10))
assert total == 45
```

1. In a list:

   ```python verify
   total = sum(range(10))
   assert total == 44
   ```

```python verify
assert (1 == 2, 'never')
```

```python verify
import math
print(math.pi)
raise ValueError('no check')
```

```python verify
import os

os.system('true')
```

```python
not_a_claim
```
";

struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.folder.path().join(name);
        fs::write(&file, text).unwrap();
        file
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = ServerBuilder::new().command();
        command.current_dir(self.folder.path()).arg("verify").args(arguments);
        command
    }

    fn verify(&self, arguments: &[&str]) -> (i32, String, String) {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        let [stdout, stderr] = [stdout, stderr].map(|stream| String::from_utf8(stream).unwrap());
        (status.code().unwrap(), stdout, stderr)
    }
}

fn each_claim_of_a_document_has_a_verdict() {
    let fixture = Fixture::new();
    fixture.write("claims.md", CLAIMS);
    let (code, stdout, stderr) = fixture.verify(&["claims.md"]);
    let expected = "\
claims.md:3: verified: 1 check held
claims.md:10: refuted: line 12: total == 44; total = 45
claims.md:15: vacuous: Nothing was verified: `(1 == 2, 'never')` (line 16) cannot fail: it asserts a tuple, which is \
                    always true; remove the parentheses.
claims.md:19: inconclusive: ValueError: no check
claims.md:25: blocked: line 28: Dangerous function call: os.system()
";
    assert_eq!((code, &*stdout, &*stderr), (1, expected, ""));
    let (verified, _) = CLAIMS.split_once("1. In a list").unwrap();
    fixture.write("good.md", verified);
    let (code, stdout, _) = fixture.verify(&["good.md"]);
    assert_eq!((code, &*stdout), (0, "good.md:3: verified: 1 check held\n"));
    // Claims of several documents keep their order. Names in one document are unknown in the others.
    fixture.write(
        "a.rst",
        ".. code-block:: python\n   :class: verify\n\n   x = sum(range(3))\n   assert x == 3\n",
    );
    let cell = json!({ "cell_type": "code", "metadata": { "tags": ["verify"] }, "source": ["assert x == 1"] });
    fixture.write("b.ipynb", &json!({ "cells": [cell] }).to_string());
    let (code, stdout, _) = fixture.verify(&["a.rst", "good.md", "b.ipynb"]);
    let expected = "a.rst:1: verified: 1 check held\ngood.md:3: verified: 1 check held\n\
                    b.ipynb:1: inconclusive: NameError: name 'x' is not defined\n";
    assert_eq!((code, &*stdout), (1, expected));
    // This assertion holds for every value of `x`, so the claim is vacuous.
    fixture.write("same.md", "```python verify\nx = 3\nassert x + 1 > x\n```\n");
    let (code, stdout, _) = fixture.verify(&["--vacuity", "same.md"]);
    assert!(code == 1 && stdout.starts_with("same.md:1: vacuous: "), "{stdout}");
    fixture.write("slow.md", "```python verify\nimport time\ntime.sleep(60)\nassert 1\n```\n");
    // On a busy machine, a claim may wait for a processor so long that it counts as starved. So try again.
    let is_reported = succeeds_once(|| {
        let (code, stdout, _) = fixture.verify(&["--timeout", "2", "slow.md"]);
        code == 1 && stdout == "slow.md:1: inconclusive: the claim reached its time limit\n"
    });
    assert!(is_reported);
}

fn every_format_has_all_claims() {
    let fixture = Fixture::new();
    fixture.write("claims.md", CLAIMS);
    let formatted = |format: &str| {
        let (code, stdout, stderr) = fixture.verify(&["--format", format, "claims.md"]);
        assert_eq!((code, &*stderr), (1, ""));
        stdout
    };
    let github = formatted("github");
    let starts = github.lines().map(|line| line.rsplit_once("::").unwrap().0);
    let expected = [
        "::notice file=claims.md,line=5,title=verified",
        "::error file=claims.md,line=12,title=refuted",
        "::warning file=claims.md,line=16,title=vacuous",
        "::warning file=claims.md,line=19,title=inconclusive",
        "::error file=claims.md,line=28,title=blocked",
    ];
    assert!(starts.eq(expected), "{github}");

    let outcomes = ["verified", "refuted", "vacuous", "inconclusive", "blocked"];
    let found: Value = serde_json::from_str(&formatted("json")).unwrap();
    let claims = found["claims"].as_array().unwrap();
    let of = |key: &str| claims.iter().map(|claim| claim[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("outcome"), outcomes.map(Value::from));
    assert_eq!(of("line"), [3, 10, 15, 19, 25].map(Value::from));
    let check = &claims[1]["checks"][0];
    assert_eq!((&check["line"], &check["state"]), (&json!(12), &json!("failed")));

    let found: Value = serde_json::from_str(&formatted("sarif")).unwrap();
    let results = found["runs"][0]["results"].as_array().unwrap();
    let rules: Vec<_> = results.iter().map(|result| result["ruleId"].clone()).collect();
    // A code scanning service shows each result of a SARIF log as a problem, so the log omits verified claims.
    let problems = outcomes.iter().skip(1).map(|outcome| Value::from(format!("claim/{outcome}")));
    assert_eq!(rules, problems.collect::<Vec<_>>());

    let junit = formatted("junit");
    assert!(junit.contains("<testsuite name=\"claims.md\" tests=\"5\" failures=\"4\">"), "{junit}");
    assert_eq!(junit.matches("<failure ").count(), 4);
}

fn documents_without_claims_are_reported() {
    let fixture = Fixture::new();
    fixture.write("claims.md", "```python verify\nassert 1 + 1 == 2\n```\n");
    fixture.write("plain.md", "no claim\n");
    fixture.write("script.py", "assert 1 + 1 == 2\n");
    fixture.write("broken.ipynb", "{");
    let note = "note: no claims: a claim is a code block that is marked 'python verify'\n";
    assert_eq!(fixture.verify(&["plain.md"]), (0, String::new(), note.to_owned()));
    for (name, error) in [
        ("script.py", "the name must end in .md, .markdown, .qmd, .rst or .ipynb"),
        ("broken.ipynb", "not a Jupyter notebook: EOF while parsing an object at line 1 column 1"),
        ("missing.md", "No such file or directory"),
    ] {
        // The claims of the other documents are still verified.
        let (code, stdout, stderr) = fixture.verify(&[name, "claims.md"]);
        assert_eq!(stderr, format!("error: {name}: {error}\n"));
        assert_eq!((code, &*stdout), (2, "claims.md:1: verified: 1 check held\n"));
    }
    let mut command = fixture.command(&["claims.md"]);
    let output = command.env_remove("QWED_MCP_TRUSTED_CODE_EXECUTION").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let closed =
        "claims are scripts, and scripts are disabled; set QWED_MCP_TRUSTED_CODE_EXECUTION=true";
    assert_eq!(stderr, format!("error: {closed}\n"));
    assert_eq!((output.status.code(), output.stdout), (Some(2), Vec::new()));
    // A report also lists the documents that could not be read.
    let (code, stdout, _) = fixture.verify(&["--format", "json", "script.py", "claims.md"]);
    let found: Value = serde_json::from_str(&stdout).unwrap();
    let outcomes: Vec<_> =
        found["claims"].as_array().unwrap().iter().map(|it| &it["outcome"]).collect();
    assert_eq!((code, outcomes), (2, vec![&json!("verified"), &json!("blocked")]));
    let (code, stdout, _) = fixture.verify(&["--format", "github", "missing.md", "claims.md"]);
    let error = "::error file=missing.md,line=1,title=blocked::No such file or directory\n";
    assert!(code == 2 && stdout.ends_with(error), "{stdout}");
    let (code, stdout, _) = fixture.verify(&["--format", "github", "plain.md"]);
    assert!(code == 0 && stdout.starts_with("::warning title=qwed-mcp::no claims: "), "{stdout}");
}

fn a_claim_forges_no_line_of_a_report() {
    let fixture = Fixture::new();
    let claims = [
        "raise ValueError('a\\rx.md:1: verified: 1 check held')",
        "raise ValueError('##[error]a')",
        "raise ValueError('b' * 100_000)",
        "raise ValueError('\\ufffe\\x1b')",
        "",
    ];
    let text: String = claims.map(|claim| format!("```python verify\n{claim}\n```\n\n")).concat();
    let name = "a.md:1: verified: 1 check held\nb.md";
    fixture.write(name, &text);
    let (_, stdout, _) = fixture.verify(&[name]);
    let lines: Vec<&str> = stdout.split(['\n', '\r']).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), claims.len(), "{stdout}");
    assert!(
        lines.iter().all(|line| line.starts_with(r"a.md:1: verified: 1 check held\nb.md:")),
        "{stdout}"
    );
    assert!(
        !stdout.contains("##[") && lines.iter().all(|line| line.chars().count() < 700),
        "{stdout}"
    );
    assert!(lines[4].ends_with(": the block is empty"), "{stdout}");
    let (_, xml, _) = fixture.verify(&["--format", "junit", name]);
    let parse = "import sys, xml.etree.ElementTree as t; print(len(t.fromstring(sys.argv[1]).findall('*/*')))";
    let parsed = Command::new("python3").args(["-c", parse, &xml]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&parsed.stdout).trim(), claims.len().to_string(), "{xml}");
    let (_, _, stderr) = fixture.verify(&["x\n::error::y.md"]);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

fn a_signal_ends_the_claims() {
    let fixture = Fixture::new();
    let mark = fixture.folder.path().join("scratch");
    fs::create_dir(&mark).unwrap();
    let claim = "```python verify\nimport time\ntime.sleep(600)\n```\n";
    fixture.write("claims.md", &claim.repeat(5));
    let mut command = fixture.command(&["claims.md"]);
    let mut child = command.env("TMPDIR", &mark).spawn().unwrap();
    let has_begun = || fs::read_dir(&mark).unwrap().count() > 0;
    assert!(eventually(Duration::from_secs(30), has_begun).is_some());
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let is_empty = || fs::read_dir(&mark).unwrap().count() == 0;
    assert!(eventually(Duration::from_secs(10), is_empty).is_some());
}

fn claims_leave_receipts() {
    let fixture = Fixture::new();
    fixture.write("claims.md", CLAIMS);
    let data = fixture.folder.path().join("data");
    let mut keygen = ServerBuilder::new().command();
    assert!(
        keygen
            .args(["receipt", "keygen"])
            .env("QWED_MCP_DATA_DIR", &data)
            .status()
            .unwrap()
            .success()
    );
    let other = fixture.folder.path().join("other");
    let mut without_key = fixture.command(&["--receipts", "receipts", "claims.md"]);
    assert_eq!(without_key.env("QWED_MCP_DATA_DIR", other).status().unwrap().code(), Some(2));
    let mut command = fixture.command(&["--receipts", "receipts", "claims.md"]);
    assert_eq!(command.env("QWED_MCP_DATA_DIR", &data).status().unwrap().code(), Some(1));
    let receipts = receipts_below(&fixture.folder.path().join("receipts"));
    assert_eq!(receipts.len(), 5);
    let mut verify = ServerBuilder::new().command();
    let verified =
        verify.args(["receipt", "verify"]).args(&receipts).env("QWED_MCP_DATA_DIR", &data);
    assert!(verified.output().unwrap().status.success());
}

fn claims_of_the_documents_are_verified() {
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let mut command = ServerBuilder::new().command();
    let output = command.arg("verify").arg(root().join("README.md")).args(pages).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && stdout.contains("VERDICTS.md:"), "{stdout}");
}

fn receipts_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below =
        entries.flat_map(|path| if path.is_dir() { receipts_below(&path) } else { vec![path] });
    below.filter(|path| path.extension().is_some_and(|end| end == "json")).collect()
}
