//! Tests skill manifests and AI bills of materials: the commands, and their use by a server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{CallResult, McpProcess, ServerBuilder, binary, python, root};

tests! {
    needs [Sandbox]:
        a_bill_is_written_however_the_session_ends,
        a_session_without_scripts_has_a_bill_and_one_that_cannot_be_written_is_told;
    needs [Sandbox, Packages]:
        a_session_writes_the_bill_of_what_it_used,
        a_bill_has_versions_or_says_that_it_has_not;
    needs [Python]:
        verify_skill_compares_the_artifact;
    needs [Python, Packages]:
        the_bill_of_the_documents_is_real,
        cyclonedx_is_valid_by_the_official_schema;
    needs []:
        verify_skill_tells_people_and_exit_codes,
        verify_skill_prints_the_documented_fields_as_json,
        the_options_of_verify_skill_are_the_documented_ones,
        aibom_prints_the_bill_of_what_is_named;
}

fn qwed_mcp(arguments: &[&str]) -> Output {
    let output = Command::new(binary()).args(arguments).env_clear().output().unwrap();
    assert!(output.status.code().is_some(), "{output:?}");
    output
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// The SHA-256 of empty content.
const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn trusted() -> Value {
    json!({
        "name": "my-skill",
        "version": "1.0.0",
        "source_url": "https://github.com/org/skill",
        "registry": "github.com",
        "digest": EMPTY,
        "download_count": 150,
    })
}

fn manifests(all: &[(&str, Value)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, manifest) in all {
        fs::write(folder.path().join(name), manifest.to_string()).unwrap();
    }
    folder
}

/// Returns the trusted manifest with these fields added or replaced.
fn with(fields: Value) -> Value {
    let mut manifest = trusted();
    let Value::Object(fields) = fields else { panic!("{fields}") };
    manifest.as_object_mut().unwrap().extend(fields);
    manifest
}

fn verify_skill_tells_people_and_exit_codes() {
    let poisoned = with(json!({ "registry": "clawdhub.com", "hook": "eval(x)" }));
    let folder = manifests(&[("good.json", trusted()), ("bad.json", poisoned)]);
    let [good, bad, missing] = ["good.json", "bad.json", "missing.json"]
        .map(|name| folder.path().join(name).to_str().unwrap().to_owned());

    let output = qwed_mcp(&["verify-skill", &good]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
    let expected = format!(
        "STATUS      RISK    SKILL                     FILE\n\
         TRUSTED     none    my-skill                  {good}\n\n\
         1 trusted, 0 blocked, 0 unreadable\n"
    );
    assert_eq!(stdout(&output), expected);

    let output = qwed_mcp(&["verify-skill", &good, &bad]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.contains(&format!("BLOCKED     high    my-skill                  {bad}\n")));
    assert!(text.contains("- Skill loaded from untrusted registry: clawdhub.com"), "{text}");
    assert!(text.contains("in manifest field 'hook'\n"), "{text}");

    let output = qwed_mcp(&["verify-skill", &bad, &missing, &good]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stdout(&output).ends_with("\n1 trusted, 1 blocked, 1 unreadable\n"));
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        log.contains("missing.json is not a manifest: it cannot be read: No such file"),
        "{log}"
    );
}

fn verify_skill_prints_the_documented_fields_as_json() {
    let folder = manifests(&[("good.json", trusted()), ("bad.json", json!({}))]);
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (good, bad, missing) = (file("good.json"), file("bad.json"), file("missing.json"));
    let output = qwed_mcp(&["verify-skill", "--format", "json", &good, &bad, &missing]);
    assert_eq!(output.status.code(), Some(2));
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(
        report["skills"][0],
        json!({
            "file": good,
            "verified": true,
            "status": "TRUSTED",
            "skill_name": "my-skill",
            "risk_level": "none",
            "findings": [],
            "message": "Skill 'my-skill' passed all provenance checks.",
        })
    );
    assert_eq!(report["skills"][1]["skill_name"], "unknown");
    assert_eq!(report["skills"][1]["findings"].as_array().unwrap().len(), 5);
    assert_eq!(report["skills"][2], json!({ "file": missing, "error": "it cannot be read" }));
}

fn the_options_of_verify_skill_are_the_documented_ones() {
    let elsewhere = json!({
        "registry": "skills.example.org", "source_url": "https://git.example.org/x", "digest": ""
    });
    let folder = manifests(&[("skill.json", with(elsewhere)), ("good.json", trusted())]);
    let file = folder.path().join("skill.json").to_str().unwrap().to_owned();
    let good = folder.path().join("good.json").to_str().unwrap().to_owned();
    let all = ["--trusted-domain", "example.org", "--no-require-digest"];
    for (options, file, code) in [
        ([].as_slice(), &file, 1),
        (&all[..2], &file, 1),
        (&all[2..], &file, 1),
        (&all, &file, 0),
        // An allowlist replaces the blocklist.
        (&["--trusted-registry", "github.com"], &good, 0),
        (&["--trusted-registry", "example.org"], &good, 1),
        (&["--trusted-registry", "example.org", "--trusted-registry", "github.com"], &good, 0),
        // An entry that can never match is a usage error.
        (&["--trusted-registry", "not a host"], &good, 2),
        (&["--trusted-domain", "https://example.org/path"], &good, 2),
        (&["--trusted-domain", "xn--exmple-cua.org"], &good, 2),
    ] {
        let output = qwed_mcp(&[&["verify-skill", file.as_str()], options].concat());
        assert_eq!(output.status.code(), Some(code), "{options:?}: {output:?}");
    }
}

fn verify_skill_compares_the_artifact() {
    let named = with(json!({ "artifact": "skill.tar" }));
    let folder = manifests(&[("named.json", named), ("skill.json", trusted())]);
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(file("skill.tar"), "").unwrap();
    fs::write(file("other.tar"), "changed").unwrap();
    let (named, skill, tar, other) =
        (file("named.json"), file("skill.json"), file("skill.tar"), file("other.tar"));
    for (arguments, code) in [
        ([named.as_str()].as_slice(), 0),
        (&[&skill, "--artifact", &tar], 0),
        (&[&skill, "--artifact", &other], 1),
        (&[&named, "--artifact", &other], 1),
        (&[&skill, "--artifact", "/nonexistent"], 1),
        (&[&named, &skill, "--artifact", &tar], 2),
    ] {
        let output = qwed_mcp(&[&["verify-skill"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
    }

    // A server also checks the artifact at its start.
    for (content, is_trusted) in [("", true), ("changed", false)] {
        fs::write(&tar, content).unwrap();
        let mut server = ServerBuilder::new().variable("QWED_SKILL_MANIFEST", &named).start();
        if is_trusted {
            server.initialize("2025-11-25");
            server.finish();
        } else {
            let status = server.wait_for_exit(Duration::from_secs(5));
            assert_eq!(status.code(), Some(1));
            let log = server.log();
            assert!(log.contains("Artifact 'skill.tar' does not match the digest"), "{log}");
        }
    }
}

fn aibom_prints_the_bill_of_what_is_named() {
    let arguments = ["aibom", "--llm-model", "gpt-4o", "--engine", "z3", "--engine", "sympy"];
    let output = qwed_mcp(&[&arguments[..], &["--tool", "execute_python_code"]].concat());
    assert_eq!(output.status.code(), Some(0));
    let bom: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(bom["components"]["verification_engines"][1]["name"], "sympy");
    assert_eq!(bom["components"].get("runtime"), None);
    // This hash comes from the Python implementation.
    assert_eq!(
        bom["manifest_hash"],
        "84d1a8078168946262984cbd05c7bd50d7fda2a2ab30e7658de845e91446c745"
    );

    for arguments in [["--llm-model", ""].as_slice(), &[]] {
        let output = qwed_mcp(&[&["aibom"], arguments].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        assert!(String::from_utf8_lossy(&output.stderr).contains("--llm-model"));
    }
}

/// Validates a document with the official schema, which `CycloneDX`'s Python library contains. Returns the error, or
/// `None`.
fn error_of_cyclonedx(document: &str) -> Option<String> {
    let check = "
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.argv[1])
sys.exit(repr(error) if error else 0)
";
    let output = Command::new(python()).args(["-c", check, document]).output().unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

fn cyclonedx_is_valid_by_the_official_schema() {
    let names = ["z3", "z3", "ä €😀", "with \"quotes\"\n"];
    let mut arguments = vec!["aibom", "--format", "cyclonedx", "--llm-model", "claude 4.5 / ü"];
    for name in names {
        arguments.extend(["--engine", name, "--tool", name]);
    }
    let output = qwed_mcp(&arguments);
    assert_eq!(error_of_cyclonedx(stdout(&output)), None);
    // The control: the schema refuses an invalid document.
    let broken = stdout(&output).replace("machine-learning-model", "machine");
    let error = error_of_cyclonedx(&broken);
    assert!(error.is_some_and(|error| error.contains("'machine' is not one of")));
}

/// Returns the bill of materials at `path`, and the versions of its components by name.
fn read_bill(path: &Path) -> (Value, BTreeMap<String, Value>) {
    let bill: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut parts = BTreeMap::new();
    for kind in ["models", "verification_engines", "mcp_tools", "runtime"] {
        for part in bill["components"][kind].as_array().unwrap() {
            let name =
                format!("{}:{}", part["type"].as_str().unwrap(), part["name"].as_str().unwrap());
            parts.insert(name, part["version"].clone());
        }
    }
    (bill, parts)
}

/// Returns the version of a package in the tests' interpreter.
fn installed(distribution: &str) -> Value {
    let code = "import sys; from importlib import metadata; print(metadata.version(sys.argv[1]))";
    let output = Command::new(python()).args(["-c", code, distribution]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    json!(stdout(&output).trim())
}

/// Calls `execute_python_code` with this model name in the request.
fn execute_as(server: &mut McpProcess, model: &str, code: &str) -> CallResult {
    let params = json!({
        "name": "execute_python_code",
        "arguments": { "code": code },
        "_meta": { "qwed.ai/model": model },
    });
    CallResult::from_reply(&server.request("tools/call", &params))
}

/// Computes the hash in Python according to the documents.
fn hashed_as_documented(bill: &Value) -> String {
    let recipe = "
import hashlib, json, sys
bom = json.loads(sys.argv[1])
del bom['timestamp'], bom['manifest_hash']
text = json.dumps(bom, sort_keys=True, separators=(',', ':'))
print(hashlib.sha256(text.encode()).hexdigest())
";
    let output = Command::new(python()).args(["-c", recipe, &bill.to_string()]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    stdout(&output).trim().to_owned()
}

fn the_bill_of_the_documents_is_real() {
    let document = fs::read_to_string(root().join("docs/AIBOM.md")).unwrap();
    let block =
        |start: &str| document.split(start).nth(1).unwrap().split("```").next().unwrap().to_owned();
    let bill: Value = serde_json::from_str(&block("```json\n")).unwrap();
    assert_eq!(json!(hashed_as_documented(&bill)), bill["manifest_hash"]);
    let command = block("$ qwed-mcp ");
    let output = qwed_mcp(&command.split_whitespace().collect::<Vec<_>>());
    assert_eq!(error_of_cyclonedx(stdout(&output)), None);
}

fn a_session_writes_the_bill_of_what_it_used() {
    for warm in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bom.json");
        let mut builder = ServerBuilder::new()
            .variable("QWED_MCP_AIBOM", file.to_str().unwrap())
            .variable("QWED_MCP_LLM_MODEL", "not-this-one");
        if warm {
            builder = builder.warm("json");
        }
        let mut server = builder.connect();
        let done = execute_as(&mut server, "claude-4.5", "from sympy import symbols\nprint(1)");
        assert!(!done.is_error, "{done:?}");
        let code = "from qwed_legal import DeadlineGuard as G, ClauseGuard\nimport z3, json";
        let job = server.place(code);
        server.wait_for_job(&job);
        // These calls run no script. The first is refused, and the second names an unknown tool.
        assert!(server.execute("import qwed_ucp, subprocess").is_error);
        server.call("no_such_tool", &json!({}));
        assert!(!file.exists(), "the session has not ended");
        server.finish();

        let (bill, parts) = read_bill(&file);
        let python = Command::new(python()).arg("--version").output().unwrap();
        let python = stdout(&python).trim().strip_prefix("Python ").unwrap().to_owned();
        let expected = [
            ("generator:claude-4.5", Value::Null),
            ("qwed_deterministic:qwed_legal.ClauseGuard", installed("qwed-legal")),
            ("qwed_deterministic:qwed_legal.DeadlineGuard", installed("qwed-legal")),
            ("qwed_deterministic:sympy", installed("sympy")),
            ("qwed_deterministic:z3", installed("z3-solver")),
            ("action_execution:execute_python_code", Value::Null),
            ("action_execution:verification_status", Value::Null),
            ("interpreter:python", json!(python)),
            ("mcp_server:qwed-mcp", json!(env!("CARGO_PKG_VERSION"))),
            ("mcp_client:test", json!("1")),
        ];
        let expected: BTreeMap<_, _> =
            expected.into_iter().map(|(name, version)| (name.to_owned(), version)).collect();
        assert_eq!(parts, expected);

        assert_eq!(json!(hashed_as_documented(&bill)), bill["manifest_hash"]);
    }
}

fn a_bill_is_written_however_the_session_ends() {
    for signal in ["TERM", "INT", "HUP"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bom.cdx.json");
        let mut server = ServerBuilder::new()
            .variable("QWED_MCP_AIBOM", file.to_str().unwrap())
            .variable("QWED_MCP_LLM_MODEL", "the-admins-model")
            .connect();
        assert!(!server.execute("import z3").is_error);
        // A package counts as used even if its script is killed.
        server.start_execute("import sympy\nprint(1)\nwhile True: pass");
        std::thread::sleep(Duration::from_millis(700));
        server.signal(signal);
        server.wait_for_exit(Duration::from_secs(5));
        let document = fs::read_to_string(&file).unwrap();
        assert_eq!(error_of_cyclonedx(&document), None);
        let document: Value = serde_json::from_str(&document).unwrap();
        let names: Vec<_> =
            document["components"].as_array().unwrap().iter().map(|part| &part["name"]).collect();
        assert_eq!(names, ["the-admins-model", "sympy", "z3", "python", "qwed-mcp", "test"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

/// If the client disconnects early, the bill has versions or is marked as incomplete.
fn a_bill_has_versions_or_says_that_it_has_not() {
    let mut hashes = BTreeSet::new();
    for pause in [0, 0, 0, 2] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bom.json");
        let mut server =
            ServerBuilder::new().variable("QWED_MCP_AIBOM", file.to_str().unwrap()).connect();
        assert!(!server.execute("import sympy").is_error);
        std::thread::sleep(Duration::from_secs(pause));
        server.finish();
        let (bill, parts) = read_bill(&file);
        assert_eq!(json!(hashed_as_documented(&bill)), bill["manifest_hash"]);
        if bill.get("incomplete").is_none() {
            assert_eq!(parts["qwed_deterministic:sympy"], installed("sympy"), "{bill}");
            assert!(parts.contains_key("interpreter:python"), "{bill}");
            hashes.insert(bill["manifest_hash"].to_string());
        }
    }
    assert!(hashes.len() <= 1, "{hashes:?}");
}

fn a_session_without_scripts_has_a_bill_and_one_that_cannot_be_written_is_told() {
    let folder = tempfile::tempdir().unwrap();
    // If the path is a folder, each session writes a new file in it.
    for sessions in 1..=2 {
        let server =
            ServerBuilder::new().variable("QWED_MCP_AIBOM", folder.path().to_str().unwrap());
        server.connect().finish();
        let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
        assert_eq!(files.len(), sessions);
        let (bill, parts) = read_bill(&files[0].path());
        assert_eq!(bill["components"]["models"], json!([]));
        let names: Vec<_> = parts.into_keys().collect();
        assert_eq!(names, ["mcp_client:test", "mcp_server:qwed-mcp"]);
    }

    let missing = folder.path().join("missing/bom.json");
    let mut server =
        ServerBuilder::new().variable("QWED_MCP_AIBOM", missing.to_str().unwrap()).connect();
    server.close_input();
    assert_eq!(server.wait_for_exit(Duration::from_secs(5)).code(), Some(1));
    let log = server.log();
    let name = missing.display();
    for expected in [
        format!(
            "QWED_MCP_AIBOM: the bill of materials cannot be written to {name}: its folder does not exist"
        ),
        format!("failed to write the bill of materials to {name}: its folder does not exist"),
    ] {
        assert!(log.contains(&expected), "{log}");
    }
}
