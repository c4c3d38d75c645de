//! Tests the receipts of the real binary: which calls leave a receipt, and how receipts are verified. Neither scripts
//! nor tests can read the key.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::governed::{Governed, ORDINARY_USER, call_as, run_pytest};
use crate::harness::{CallResult, ServerBuilder, binary, public_python, python, root};
use crate::sandbox::of_user;

tests! {
    needs [Tier3]:
        a_run_leaves_a_receipt_at_the_command_line,
        outputs_that_differ_in_a_byte_have_different_digests,
        without_room_for_its_receipt_nothing_runs,
        changes_to_a_receipt_are_named,
        nothing_runs_where_scripts_could_read_the_key,
        a_replay_reports_differences,
        a_verification_context_is_kept_in_a_file_of_its_own,
        a_replay_shows_the_first_line_that_differs,
        nothing_of_keys_tokens_or_code_is_in_logs;
    needs [Tier3, Packages]:
        another_implementation_verifies_them,
        each_script_leaves_a_receipt,
        tests_leave_receipts_and_cannot_reach_the_key,
        another_interpreter_is_reported_before_the_result,
        each_kind_of_change_has_its_own_message;
    needs [Tier3, PublicPython]:
        scripts_cannot_reach_the_key_at_tier_3;
    needs [Tier2, PublicPython]:
        scripts_cannot_reach_the_key_at_tier_2;
    needs [Root, Tier2, PublicPython, Packages]:
        tests_cannot_reach_the_key_at_tier_2;
    needs []:
        without_a_key_nothing_is_served,
        the_schema_has_every_field;
}

/// A folder with a signing key and receipts.
pub(crate) struct Receipts {
    folder: TempDir,
}

impl Receipts {
    pub(crate) fn new() -> Self {
        let receipts = Self { folder: tempfile::tempdir().unwrap() };
        let made = receipts.command(&["receipt", "keygen"]);
        assert!(made.status.success(), "{made:?}");
        receipts
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn key(&self) -> PathBuf {
        self.path("data/keys/signing.key")
    }

    /// Returns a server that writes receipts for scripts.
    pub(crate) fn server(&self) -> ServerBuilder {
        self.with_variables(ServerBuilder::new())
    }

    pub(crate) fn with_variables(&self, builder: ServerBuilder) -> ServerBuilder {
        builder
            .variable("QWED_MCP_DATA_DIR", self.path("data").to_str().unwrap())
            .variable("QWED_MCP_RECEIPTS", self.path("receipts").to_str().unwrap())
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Output {
        let mut command = ServerBuilder::new().command();
        command.args(arguments).env("QWED_MCP_DATA_DIR", self.path("data"));
        command.env("QWED_MCP_RECEIPTS", self.path("receipts")).output().unwrap()
    }

    /// Returns the path of a result's receipt.
    #[track_caller]
    pub(crate) fn file_of(&self, result: &CallResult) -> PathBuf {
        let told = &result.meta["qwed.ai/receipt"];
        let path = told["path"].as_str().unwrap_or_else(|| panic!("{}", result.meta));
        let file = self.path("receipts").join(path);
        assert_eq!(sha256(&file), told["sha256"]);
        file
    }

    /// Asserts that a receipt is valid. Returns its statement.
    #[track_caller]
    pub(crate) fn statement(&self, file: &Path) -> Value {
        let verified = self.command(&["receipt", "verify", file.to_str().unwrap()]);
        assert!(verified.status.success(), "{verified:?}");
        statement(file)
    }
}

fn statement(file: &Path) -> Value {
    let mut command = Command::new(binary());
    command.args(["receipt", "show", "--format", "json"]).arg(file);
    let shown = command.output().unwrap();
    assert!(shown.status.success(), "{shown:?}");
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    shown["statement"].clone()
}

fn sha256(file: &Path) -> String {
    sha256_of(&fs::read(file).unwrap())
}

fn sha256_of(content: &[u8]) -> String {
    let program = "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("content");
    fs::write(&file, content).unwrap();
    let mut command = Command::new(python());
    command.args(["-c", program]).stdin(fs::File::open(file).unwrap());
    String::from_utf8(command.output().unwrap().stdout).unwrap().trim().to_owned()
}

fn digest<'s>(statement: &'s Value, name: &str) -> &'s Value {
    let subjects = statement["subject"].as_array().unwrap();
    let subject = subjects.iter().find(|subject| subject["name"] == name);
    &subject.unwrap_or_else(|| panic!("no {name} in {statement}"))["digest"]["sha256"]
}

fn each_script_leaves_a_receipt() {
    let receipts = Receipts::new();
    let mut server = receipts.server().connect();
    let code = "import sympy, time\nprint(6 * 7)";
    let result = server.execute(code);
    let said = receipts.statement(&receipts.file_of(&result));
    assert_eq!(said["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(digest(&said, "script.py"), &sha256_of(code.as_bytes()));
    assert_eq!(digest(&said, "stdout"), &sha256_of(b"42"));
    assert_eq!(digest(&said, "stderr"), &sha256_of(b""));
    let about = &said["predicate"];
    let decision = &result.meta["qwed.ai/decision"];
    assert_eq!(about["decision"]["id"], decision["verification_id"]);
    assert_eq!(about["decision"]["status"], "ALLOW_VERIFIED");
    assert_eq!((&about["run"]["ending"], &about["run"]["exitCode"]), (&json!("exited"), &json!(0)));
    assert_eq!(about["sandbox"]["tier"], "T3");
    assert_eq!(about["limits"]["memoryMiB"], 1024);
    assert_eq!(about["mayDifferBy"], json!(["time"]));
    assert_eq!(about["environment"]["variables"]["PYTHONHASHSEED"], "0");
    let packages = about["environment"]["packages"].as_array().unwrap();
    assert!(packages.iter().any(|it| *it == json!({ "name": "sympy", "version": "1.14.0" })));
    let client = about["caller"]["client"].as_str().unwrap();
    assert!(!client.is_empty(), "{about}");

    // Runs with other endings, refused calls and jobs leave receipts too.
    for (code, ending) in
        [("import sys; sys.exit(3)", "exited"), ("print('x' * 3_000_000)", "capped")]
    {
        let result = server.execute(code);
        let said = receipts.statement(&receipts.file_of(&result));
        assert_eq!(said["predicate"]["run"]["ending"], ending, "{said}");
    }
    let result = server.execute("eval('1')");
    let said = receipts.statement(&receipts.file_of(&result));
    assert_eq!(said["predicate"]["decision"]["status"], "BLOCKED");
    assert_eq!(said["predicate"]["decision"]["errorCode"], "QWED-MCP-RISK-005");
    assert_eq!(said["predicate"].get("run"), None);
    assert_eq!(digest(&said, "script.py"), &sha256_of(b"eval('1')"));
    let job = server.place("print(43)");
    let result = server.wait_for_job(&job);
    let said = receipts.statement(&receipts.file_of(&result));
    assert_eq!(digest(&said, "stdout"), &sha256_of(b"43"));
    // A request for the status of a job makes no decision about a script, so it leaves no receipt.
    let result = server.status("00000000-0000-4000-8000-000000000000");
    assert_eq!(result.meta.get("qwed.ai/receipt"), None);
    let log = server.finish();
    assert!(!log.contains("PRIVATE") && !log.contains("6 * 7"), "{log}");

    // Without the setting, calls leave no receipts.
    let mut server = ServerBuilder::new().connect();
    assert_eq!(server.execute("print(1)").meta.get("qwed.ai/receipt"), None);
}

fn a_run_leaves_a_receipt_at_the_command_line() {
    let receipts = Receipts::new();
    let script = receipts.path("script.py");
    fs::write(&script, "print(input())").unwrap();
    fs::write(receipts.path("stdin"), "7\n").unwrap();
    let mut command = receipts.server().command();
    command.args(["run", "--json", "--stdin"]).arg(receipts.path("stdin")).arg(&script);
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let result: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let path = result["_meta"]["qwed.ai/receipt"]["path"].as_str().unwrap();
    let said = receipts.statement(&receipts.path("receipts").join(path));
    assert_eq!(digest(&said, "stdin"), &sha256_of(b"7\n"));
    assert_eq!(digest(&said, "stdout"), &sha256_of(b"7"));
    assert_eq!(said["predicate"]["caller"]["client"], "qwed-mcp run");
    let all = fs::read_dir(receipts.path("receipts")).unwrap().count();
    assert_eq!(all, 1, "all receipts of a day are in one folder");
}

fn outputs_that_differ_in_a_byte_have_different_digests() {
    let receipts = Receipts::new();
    let mut digests = Vec::new();
    for (printed, raw) in [(r"b'\xff'", &b"\xff\n "[..]), (r"'\ufffd'.encode()", b"\xef\xbf\xbd")] {
        let script = receipts.path("script.py");
        fs::write(&script, format!("import sys\nsys.stdout.buffer.write({printed})\n")).unwrap();
        fs::write(receipts.path("raw"), raw).unwrap();
        let server = receipts.server().variable("QWED_MCP_RECEIPTS_OUTPUTS", "on");
        let ran = server.command().args(["run", "--json"]).arg(&script).output().unwrap();
        let result: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let path = result["_meta"]["qwed.ai/receipt"]["path"].as_str().unwrap();
        let file = receipts.path("receipts").join(path);
        let digest = digest(&receipts.statement(&file), "stdout").clone();
        assert_eq!(digest, sha256_of(raw.trim_ascii_end()), "{printed}");
        let stored = receipts.path("receipts/outputs").join(digest.as_str().unwrap());
        assert_eq!(fs::read(stored).unwrap(), raw.trim_ascii_end());
        let subject = format!("stdout={}", receipts.path("raw").display());
        let verified =
            receipts.command(&["receipt", "verify", "--subject", &subject, file.to_str().unwrap()]);
        assert!(verified.status.success(), "{printed}: {verified:?}");
        let (said, exit) = replay(&receipts, &file, &script, &[], |builder| builder);
        assert_eq!((&said["verdict"], exit), (&json!("identical"), Some(0)), "{said}");
        digests.push(digest);
    }
    assert_ne!(digests[0], digests[1]);
}

fn a_verification_context_is_kept_in_a_file_of_its_own() {
    let receipts = Receipts::new();
    let script = receipts.path("script.py");
    let code = "total = sum(range(101))\nassert total == 5050";
    fs::write(&script, code).unwrap();
    for (outputs, files) in [("off", 1), ("on", 2)] {
        let folder = receipts.path(outputs);
        let server = receipts
            .server()
            .variable("QWED_MCP_RECEIPTS", folder.to_str().unwrap())
            .variable("QWED_MCP_RECEIPTS_OUTPUTS", outputs);
        let ran = server.command().args(["run", "--json"]).arg(&script).output().unwrap();
        let result: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let receipt = folder.join(result["_meta"]["qwed.ai/receipt"]["path"].as_str().unwrap());
        let day = fs::read_dir(receipt.parent().unwrap()).unwrap();
        let envelopes: Vec<_> = day.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(envelopes.len(), files, "{envelopes:?}");
        let Some(context) = envelopes.iter().find(|path| **path != receipt) else { continue };
        let verified = receipts.command(&["receipt", "verify", context.to_str().unwrap()]);
        assert!(verified.status.success(), "{verified:?}");
        let statement = receipts.statement(context);
        assert_eq!(
            statement["predicateType"],
            "https://qwed.ai/attestation/verification-context/v1"
        );
        assert_eq!(*digest(&statement, "script.py"), sha256_of(code.as_bytes()));
        let verification = &result["_meta"]["qwed.ai/verification"];
        assert_eq!(statement["predicate"], verification["document"]);
        let of_receipt = &receipts.statement(&receipt)["predicate"]["verification"];
        assert_eq!(of_receipt["documentDigest"], verification["document_digest"]);
        let (said, exit) = replay(&receipts, context, &script, &[], |builder| builder);
        assert_eq!((&said["reason"], exit), (&json!("it is not the receipt of a script"), Some(3)));
        let bytes = fs::read(context).unwrap();
        fs::write(context, [&bytes[..40], b"A", &bytes[41..]].concat()).unwrap();
        let verified = receipts.command(&["receipt", "verify", context.to_str().unwrap()]);
        assert!(!verified.status.success(), "{verified:?}");
    }
}

fn without_room_for_its_receipt_nothing_runs() {
    let receipts = Receipts::new();
    let mut server = receipts.server().connect();
    let file = receipts.file_of(&server.execute("print(1)"));
    // No file can be created in the folder, as if the disk were full.
    let folder = receipts.path("receipts");
    fs::rename(&folder, receipts.path("elsewhere")).unwrap();
    fs::write(&folder, "").unwrap();
    let result = server.execute("print('it was run')");
    assert!(result.is_error, "{result:?}");
    let expected = "Execution error: no disk space could be reserved for its receipt, so nothing \
                    is run; ask the admin to look at the server's log.";
    assert_eq!(result.text(), expected);
    fs::remove_file(&folder).unwrap();
    fs::rename(receipts.path("elsewhere"), &folder).unwrap();
    let second = receipts.file_of(&server.execute("print(2)"));
    for file in [file, second] {
        receipts.statement(&file);
    }
    // The folder contains only the folder of today.
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}

/// A program that validates a statement against the schema. Then it checks that an invalid status is an error.
const VALIDATE: &str = "
import json, sys, jsonschema
schema, statement = (json.load(open(file)) for file in sys.argv[1:])
jsonschema.Draft202012Validator.check_schema(schema)
jsonschema.validate(statement, schema)
statement['predicate']['decision']['status'] = 'allowed'
try:
    jsonschema.validate(statement, schema)
except jsonschema.ValidationError as error:
    print(error.json_path)
";

/// A program that verifies an envelope with the reference implementation of DSSE in Python.
const VERIFY_WITH_SECURESYSTEMSLIB: &str = r#"
import json, sys
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey
from securesystemslib.exceptions import VerificationError

envelope_file, key_file = sys.argv[1:]
document = json.load(open(envelope_file))
key = SSlibKey.from_crypto(
    load_pem_public_key(open(key_file, "rb").read()), document["signatures"][0]["keyid"]
)
envelope = Envelope.from_dict(document)
envelope.verify([key], 1)
statement = json.loads(envelope.payload)
assert envelope.payload_type == "application/vnd.in-toto+json", envelope.payload_type
envelope.payload = envelope.payload.replace(b"ALLOW_VERIFIED", b"ALLOW_VERIFIEd")
try:
    envelope.verify([key], 1)
except VerificationError:
    print(statement["predicateType"])
"#;

fn another_implementation_verifies_them() {
    let receipts = Receipts::new();
    let mut server = receipts.server().connect();
    let file = receipts.file_of(&server.execute("print(1)"));
    let mut command = Command::new(python());
    command.args(["-c", VERIFY_WITH_SECURESYSTEMSLIB]).arg(&file);
    let verified = command.arg(receipts.path("data/keys/signing.pub")).output().unwrap();
    let printed = String::from_utf8_lossy(&verified.stdout);
    assert_eq!(printed.trim(), "https://qwed.ai/attestation/verification/v1", "{verified:?}");
    for code in ["print(1)", "eval('1')", "import time; print(time.time())"] {
        let said = statement(&receipts.file_of(&server.execute(code)));
        fs::write(receipts.path("statement.json"), said.to_string()).unwrap();
        let mut command = Command::new(python());
        command.args(["-c", VALIDATE]).arg(root().join("docs/receipt.schema.json"));
        let validated = command.arg(receipts.path("statement.json")).output().unwrap();
        let printed = String::from_utf8_lossy(&validated.stdout);
        assert_eq!(printed.trim(), "$.predicate.decision.status", "{code}: {validated:?}");
    }
}

fn changes_to_a_receipt_are_named() {
    let receipts = Receipts::new();
    let mut server = receipts.server().connect();
    let code = "print('out')";
    let file = receipts.file_of(&server.execute(code));
    let path = |name: &str| receipts.path(name).to_str().unwrap().to_owned();
    fs::write(path("script.py"), code).unwrap();
    fs::write(path("changed.py"), code.replace("out", "Out")).unwrap();
    fs::write(path("out.txt"), "out\n").unwrap();
    let good = file.to_str().unwrap().to_owned();
    let bytes = fs::read(&file).unwrap();
    let mut changed = bytes.clone();
    changed[40] ^= 1;
    fs::write(path("changed.json"), &changed).unwrap();
    fs::write(path("no.json"), "{}").unwrap();
    let other = Receipts::new();
    let other_key = other.path("data/keys").to_str().unwrap().to_owned();
    let subject = |name: &str, file: &str| format!("{name}={}", path(file));
    let (script, out) = (subject("script.py", "script.py"), subject("stdout", "out.txt"));
    let (wrong, none) = (subject("script.py", "changed.py"), subject("stdin", "out.txt"));
    for (arguments, code, expected) in [
        (vec![&*good], 0, "good, signed by sha256:"),
        (vec![&good, "--subject", &script, "--subject", &out], 0, "good, signed by sha256:"),
        (vec![&good, "--subject", &wrong], 1, "script.py does not match"),
        (vec![&good, "--subject", &none], 1, "it has no digest of stdin"),
        (vec![&path("changed.json"), &good], 1, "the payload or the signature was changed"),
        (vec![&path("no.json")], 1, "it is not the envelope of a receipt"),
        (vec![&good, "--key", &other_key], 1, "it names the key sha256:"),
        (vec![&path("missing"), &good], 2, "cannot be read"),
        (vec![&good, "--key", &path("missing")], 2, ""),
        (vec![&good, "--key", &path("receipts")], 2, ""),
    ] {
        let arguments = [vec!["receipt", "verify"], arguments].concat();
        let verified = receipts.command(&arguments);
        let printed = String::from_utf8_lossy(&verified.stdout).into_owned();
        assert_eq!(verified.status.code(), Some(code), "{arguments:?}: {verified:?}");
        assert!(printed.contains(expected), "{arguments:?}: {printed}");
    }
    let shown = receipts.command(&["receipt", "show", &good]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("ALLOW_VERIFIED") && shown.contains(" script.py"), "{shown}");
    // To create a second key, the admin must use an explicit option.
    assert_eq!(receipts.command(&["receipt", "keygen"]).status.code(), Some(1));
    assert!(receipts.command(&["receipt", "keygen", "--rotate"]).status.success());
    assert!(receipts.command(&["receipt", "verify", &good]).status.success());
}

/// Returns a script that tries to read the key by its path. The script prints whether it succeeded.
fn theft(key: &Path) -> String {
    let key = key.to_str().unwrap();
    format!(
        "import os\ntry:\n    print('PRIVATE' in open({key:?}).read())\nexcept OSError as e:\n    \
         print(e.errno)"
    )
}

/// Returns the first line that a script printed.
pub(crate) fn printed(result: &CallResult) -> &str {
    result.text().lines().nth(1).unwrap_or_default()
}

fn key_is_out_of_reach(prepare: impl Fn(ServerBuilder) -> ServerBuilder, error: &str) {
    let receipts = Receipts::new();
    let of_interpreter = || {
        let python = public_python().unwrap();
        ServerBuilder::new().variable("QWED_MCP_PYTHON", python.to_str().unwrap()).unchecked()
    };
    let mut server = prepare(receipts.with_variables(of_interpreter())).connect();
    let result = server.execute(&theft(&receipts.key()));
    assert_eq!(printed(&result), error, "{:?}", result.texts);
    receipts.file_of(&result);
    // The control: the theft succeeds without a sandbox. There the server writes no receipts.
    let mut server = of_interpreter().variable("QWED_MCP_SANDBOX", "off").connect();
    assert_eq!(printed(&server.execute(&theft(&receipts.key()))), "True");
}

fn scripts_cannot_reach_the_key_at_tier_3() {
    key_is_out_of_reach(|builder| builder.variable("QWED_MCP_SANDBOX", "strict"), "2");
}

fn scripts_cannot_reach_the_key_at_tier_2() {
    let lacks =
        |builder: ServerBuilder| builder.variable("QWED_MCP_TEST_KERNEL_LACKS", "namespaces");
    key_is_out_of_reach(lacks, "13");
}

fn nothing_runs_where_scripts_could_read_the_key() {
    let receipts = Receipts::new();
    let data = receipts.path("data");
    for (name, value, expected) in [
        ("QWED_MCP_READ_PATHS", data.to_str().unwrap(), "scripts or tests can read the key"),
        ("QWED_MCP_SANDBOX", "off", "scripts run at tier off here"),
    ] {
        let mut server = receipts.server().variable(name, value).connect();
        for _ in 0..2 {
            let result = server.execute("print(1)");
            assert!(result.is_error && result.text().contains(expected), "{:?}", result.texts);
        }
        // A server without receipts still runs scripts.
        let mut server = ServerBuilder::new().variable(name, value).connect();
        assert_eq!(printed(&server.execute("print(1)")), "1");
    }
}

fn without_a_key_nothing_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = ServerBuilder::new().command();
    command.env("QWED_MCP_DATA_DIR", folder.path()).env("QWED_MCP_RECEIPTS", folder.path());
    let served = command.output().unwrap();
    assert_eq!(served.status.code(), Some(1), "{served:?}");
    let log = String::from_utf8_lossy(&served.stderr).into_owned();
    assert!(log.contains("`qwed-mcp receipt keygen` makes a key"), "{log}");
    let mut command = ServerBuilder::new().command();
    command.env("QWED_MCP_DATA_DIR", "/dev/null/data").env("QWED_MCP_POLICY", "/nonexistent");
    let served = command.output().unwrap();
    let log = String::from_utf8_lossy(&served.stderr).into_owned();
    let expected =
        "the governed tools cannot be offered: failed to create the data folder /dev/null/data";
    assert!(log.contains(expected) && !log.contains("receipts"), "{log}");
}

/// Adds a test to the project that reads the key. Returns the path of the key.
fn thieving_project(governed: &Governed) -> PathBuf {
    let key = governed.data.join("keys/signing.key");
    let text = format!(
        "import pathlib\n\ndef test_key():\n    assert 'PRIVATE' in \
         pathlib.Path({:?}).read_text()\n\n\
         def test_other():\n    assert 'PRIVATE' in pathlib.Path({:?}).read_text()\n",
        key.to_str().unwrap(),
        governed.beside("other/copy").to_str().unwrap(),
    );
    fs::write(governed.workspace.join("tests/test_theft.py"), text).unwrap();
    key
}

fn tests_leave_receipts_and_cannot_reach_the_key() {
    of_tests(None, |builder| builder);
}

fn tests_cannot_reach_the_key_at_tier_2() {
    of_tests(Some(ORDINARY_USER), |builder| {
        builder.variable("QWED_MCP_TEST_KERNEL_LACKS", "namespaces")
    });
}

fn check_test_result(said: &Value, run_id: &str) {
    assert_eq!(said["predicateType"], "https://in-toto.io/attestation/test-result/v0.1");
    assert_eq!(said["predicate"]["result"], "FAILED");
    assert_eq!(said["predicate"]["failedTests"], json!(["tests/test_theft.py::test_key"]));
    let about = &said["predicate"]["configuration"][0];
    assert_eq!(
        (&about["name"], about["annotations"]["runId"].as_str()),
        (&json!("arguments"), Some(run_id))
    );
    assert_eq!(about["annotations"]["counts"]["passed"], 1, "the control");
    assert_eq!(about["annotations"]["counts"]["deselected"], 0);
    // in-toto's own parser refuses fields that its predicate does not define.
    let fields: Vec<_> = said["predicate"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["configuration", "failedTests", "passedTests", "result"]);
}

fn of_tests(user: Option<u32>, prepare: impl Fn(ServerBuilder) -> ServerBuilder) {
    let governed = Governed::new("ledger");
    let give_away = || user.is_some().then(|| governed.give_away());
    give_away();
    let server = prepare(governed.server());
    let server = if user.is_some() { of_user(server, user) } else { server };
    let mut server = server.connect();
    let key = thieving_project(&governed);
    // The control: tests can read a copy of the key in a permitted folder.
    fs::create_dir(governed.beside("other")).unwrap();
    let copy = governed.beside("other/copy");
    fs::copy(&key, &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o644)).unwrap();
    let other = governed.beside("other");
    let allowed = |path: &Path| {
        governed
            .write_policy(&format!("[sandbox]\nallowed_paths = [{:?}]\n", path.to_str().unwrap()));
    };
    allowed(&other);
    give_away();
    let reply = run_pytest(&mut server, &governed.user, "tests/test_theft.py");
    let meta = &reply["result"]["_meta"];
    assert_eq!(meta["qwed.ai/run"]["status"], "failed", "{reply}");
    let file = |path: &Value| governed.data.join("receipts").join(path.as_str().unwrap());
    let (own, result) = (&meta["qwed.ai/receipt"], &meta["qwed.ai/receipt"]["test_result"]);
    let said = statement(&file(&own["path"]));
    let about = &said["predicate"];
    assert_eq!(about["tool"], "run_pytest");
    assert_eq!(
        (&about["run"]["status"], &about["caller"]["user"]),
        (&json!("failed"), &json!("bob"))
    );
    assert_eq!(about["decision"]["id"], meta["qwed.ai/run"]["run_id"]);
    // The receipt names the last row about the run in the audit log.
    let rows = governed.audit_rows();
    let row = rows.iter().find(|row| row["hash"] == about["audit"]["hash"]).unwrap();
    assert_eq!((&row["event"], &row["seq"]), (&json!("TOOL_FINISHED"), &about["audit"]["seq"]));
    let run_id = about["decision"]["id"].as_str().unwrap();
    let evidence = governed.data.join("artifacts").join(run_id).join("evidence.json");
    assert_eq!(digest(&said, "evidence.json"), &sha256(&evidence));
    check_test_result(&statement(&file(&result["path"])), run_id);
    for told in [own, result] {
        let verified =
            governed.command(&["receipt", "verify", file(&told["path"]).to_str().unwrap()]);
        assert!(verified.status.success(), "{verified:?}");
    }
    // If a policy lets tests read the key, no tests run.
    allowed(key.parent().unwrap());
    let reply = run_pytest(&mut server, &governed.user, "tests");
    assert_eq!(reply["error"]["code"], -32006, "{reply}");
    // A refusal leaves a receipt too, with its error code.
    let reply = run_pytest(&mut server, &governed.viewer, "tests");
    assert_eq!(reply["error"]["code"], -32003);
    let refusals = || {
        let days = fs::read_dir(governed.data.join("receipts")).unwrap();
        let files = days.flat_map(|day| fs::read_dir(day.unwrap().path()).unwrap());
        let said = files.map(|file| statement(&file.unwrap().path()));
        let codes = said.map(|said| said["predicate"]["decision"]["errorCode"].clone());
        let mut codes: Vec<_> = codes.filter(Value::is_string).collect();
        codes.sort_by_key(Value::to_string);
        codes
    };
    assert_eq!(refusals(), ["PERMISSION_DENIED", "SANDBOX_VIOLATION"]);
    // Listing artifacts leaves no receipt.
    call_as(&mut server, &governed.user, "list_artifacts", json!({}));
    assert_eq!(refusals().len(), 2);
}

/// Checks that the schema has the type of the predicate and every field of a receipt.
fn the_schema_has_every_field() {
    let text = fs::read_to_string(root().join("docs/receipt.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    let source = fs::read_to_string(root().join("src/receipt/statement.rs")).unwrap();
    assert!(source.contains(schema["properties"]["predicateType"]["const"].as_str().unwrap()));
    let field = regex::Regex::new(r"pub\((?:crate|super)\) ([a-z_0-9]+):").unwrap();
    for found in field.captures_iter(&source) {
        let name = match &found[1] {
            "kind" => "_type".to_owned(),
            "memory_mib" => "memoryMiB".to_owned(),
            // in-toto's own predicate defines these fields.
            "result" | "configuration" | "passed_tests" | "failed_tests" | "annotations"
            | "subject" => {
                continue;
            }
            name => camel_case(name),
        };
        assert!(text.contains(&format!("\"{name}\"")), "{name}");
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap().to_owned();
    words.fold(first, |text, word| text + &word[..1].to_uppercase() + &word[1..])
}

/// Replays a receipt. Returns the report and the exit code. If there is no report, returns the error.
#[track_caller]
pub(crate) fn replay(
    receipts: &Receipts,
    receipt: &Path,
    script: &Path,
    others: &[&str],
    prepare: impl Fn(ServerBuilder) -> ServerBuilder,
) -> (Value, Option<i32>) {
    let mut command = prepare(receipts.server()).command();
    command.args(["replay", "--format", "json"]).arg(receipt).arg("--script").arg(script);
    let output = command.args(others).output().unwrap();
    let stderr = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&output.stderr).into_owned()));
    (stderr, output.status.code())
}

fn a_replay_reports_differences() {
    let receipts = Receipts::new();
    let script = receipts.path("script.py");
    let of = |builder: ServerBuilder, code: &str| {
        fs::write(&script, code).unwrap();
        let mut command = builder.command();
        let output = command.args(["run", "--json"]).arg(&script).output().unwrap();
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        let path = result["_meta"]["qwed.ai/receipt"]["path"].as_str();
        receipts.path("receipts").join(path.unwrap_or_else(|| panic!("{result}")))
    };
    let as_it_was = |builder: ServerBuilder| builder;
    for (code, verdict, exit_code) in [
        ("import sympy\nprint(sympy.factor('x**2 - 1'), {'a', 'b', 'c'})", "identical", 0),
        ("import sys\nprint('no', file=sys.stderr)\nsys.exit(3)", "identical", 0),
        ("import sympy\nassert sympy.expand('(x + 1)**2') != 0", "identical", 0),
        ("import random\nprint(random.random())", "not deterministic", 4),
        ("while True: print('x' * 1000)", "not run", 3),
        ("eval('1')", "not run", 3),
    ] {
        let receipt = of(receipts.server(), code);
        let (said, exit) = replay(&receipts, &receipt, &script, &[], as_it_was);
        assert_eq!((&said["verdict"], exit), (&json!(verdict), Some(exit_code)), "{code}: {said}");
        assert_eq!((&said["environment"], &said["document"]), (&json!([]), &json!(null)), "{said}");
    }

    // The report names the different environment first, and then the different result.
    let code = "import os\nprint(os.environ['PATH'].endswith('/x'))";
    let receipt = of(receipts.server().unchecked(), code);
    let path = format!("{}:/x", std::env::var("PATH").unwrap());
    let elsewhere = |builder: ServerBuilder| builder.unchecked().variable("PATH", &path);
    let (said, exit) = replay(&receipts, &receipt, &script, &[], elsewhere);
    assert_eq!((&said["verdict"], exit), (&json!("differs"), Some(1)), "{said}");
    let environment = said["environment"].as_array().unwrap();
    assert!(environment[0].as_str().unwrap().starts_with("variable PATH: "), "{said}");
    assert!(said["result"][0].as_str().unwrap().starts_with("stdout: sha256:"), "{said}");
    let (said, exit) = replay(&receipts, &receipt, &script, &["--strict"], elsewhere);
    assert_eq!((&said["verdict"], exit), (&json!("not run"), Some(3)), "{said}");
    let folder = receipts.path("x");
    fs::create_dir(&folder).unwrap();
    let code = "import sys\nif any(p.endswith('/x') for p in sys.path):\n    assert len('ab' * 2) == 4\nprint('end')";
    let receipt = of(receipts.server(), code);
    let elsewhere =
        |builder: ServerBuilder| builder.variable("PYTHONPATH", folder.to_str().unwrap());
    let (said, exit) = replay(&receipts, &receipt, &script, &[], elsewhere);
    assert_eq!(said["result"], json!(["outcome: nothing_checked → verified"]), "{said}");
    let document = said["document"].as_str().unwrap();
    assert!(document.starts_with("sha256:") && exit == Some(1), "{said}");

    // A replay does not run the script if the current rules refuse the script, or if the admin gate is closed.
    let receipt = of(receipts.server().unchecked(), "eval('print(1)')");
    let (said, exit) = replay(&receipts, &receipt, &script, &[], as_it_was);
    assert_eq!(exit, Some(3), "{said}");
    let reason = said["reason"].as_str().unwrap();
    assert!(reason.starts_with("today's rules refuse it: QWED-MCP-RISK-005"), "{said}");
    let receipt = of(receipts.server(), "print(1)");
    let shut = |builder: ServerBuilder| builder.without("QWED_MCP_TRUSTED_CODE_EXECUTION");
    let (said, exit) = replay(&receipts, &receipt, &script, &[], shut);
    assert_eq!(exit, Some(3), "{said}");

    // A replay refuses another script, a file that is not a receipt, and a receipt with another key's signature.
    let other = receipts.path("other.py");
    fs::write(&other, "print(2)").unwrap();
    let key = Receipts::new().path("data/keys");
    let another = Receipts::new();
    let foreign = another.path("data/keys/signing.pub");
    for (receipt, script, others, expected) in [
        (&receipt, &other, vec![], "script.py does not match"),
        (&script, &script, vec![], "it is not the envelope of a receipt"),
        (&receipt, &receipts.path("missing"), vec![], "No such file"),
        (&receipt, &script, vec!["--key", foreign.to_str().unwrap()], "is not among the"),
        (&receipt, &script, vec!["--key", key.to_str().unwrap()], "there is no key in"),
    ] {
        let (said, exit) = replay(&receipts, receipt, script, &others, as_it_was);
        assert_eq!(exit, Some(2), "{said}");
        assert!(said.as_str().unwrap().contains(expected), "{expected}: {said}");
    }
}

/// Runs a script with the command line. Returns its text and the path of its receipt.
#[track_caller]
pub(crate) fn run(
    receipts: &Receipts,
    builder: &ServerBuilder,
    code: &str,
    flags: &[&str],
) -> (String, PathBuf) {
    let script = receipts.path("script.py");
    fs::write(&script, code).unwrap();
    let output = builder.command().args(["run", "--json"]).args(flags).arg(&script).output();
    let output = output.unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let path = result["_meta"]["qwed.ai/receipt"]["path"].as_str();
    let path = path.unwrap_or_else(|| panic!("{result} {output:?}"));
    let text = result["content"][0]["text"].as_str().unwrap().to_owned();
    (text, receipts.path("receipts").join(path))
}

fn a_replay_shows_the_first_line_that_differs() {
    let receipts = Receipts::new();
    let keeping = || receipts.server().variable("QWED_MCP_RECEIPTS_OUTPUTS", "on").unchecked();
    let code = "import os\nprint('same')\nprint(os.environ['PATH'][-2:])\nprint('same again')";
    let path = |end: &str| format!("{}:{end}", std::env::var("PATH").unwrap());
    let elsewhere = |builder: ServerBuilder| builder.unchecked().variable("PATH", &path("/y"));
    let (_, receipt) = run(&receipts, &keeping().variable("PATH", &path("/x")), code, &[]);
    let script = receipts.path("script.py");
    let (said, exit) = replay(&receipts, &receipt, &script, &[], elsewhere);
    assert_eq!((&said["verdict"], exit), (&json!("differs"), Some(1)), "{said}");
    assert_eq!(said["lines"], json!([r#"stdout, line 2: "/x" → "/y""#]));
    // Without the stored output, the report has only the digest of the output.
    let outputs = receipts.path("receipts/outputs");
    let elsewhere_kept = receipts.path("kept");
    fs::rename(&outputs, &elsewhere_kept).unwrap();
    let (said, _) = replay(&receipts, &receipt, &script, &[], elsewhere);
    assert_eq!(said["lines"], json!(["stdout: it is not stored, so only its digest is known"]));
    let kept = ["--outputs", elsewhere_kept.to_str().unwrap()];
    let (said, _) = replay(&receipts, &receipt, &script, &kept, elsewhere);
    assert_eq!(said["lines"], json!([r#"stdout, line 2: "/x" → "/y""#]));
    // Only the owner can read stored output. Without the setting, no output is stored.
    for (path, mode) in
        [(elsewhere_kept.clone(), 0o700), (elsewhere_kept.join(sha256_of(b"")), 0o600)]
    {
        assert_eq!(
            path.metadata().unwrap().permissions().mode() & 0o777,
            mode,
            "{}",
            path.display()
        );
    }
    run(&receipts, &receipts.server(), "print(1)", &[]);
    assert!(!outputs.exists());
}

/// A program that changes the environment and the output in a receipt, and signs it again.
const SIGN_ANEW: &str = r#"
import base64, json, sys
from cryptography.hazmat.primitives.serialization import load_pem_private_key

receipt, key_file, anew = sys.argv[1:]
document = json.load(open(receipt))
statement = json.loads(base64.b64decode(document["payload"]))
environment = statement["predicate"]["environment"]
environment["interpreter"]["version"] = "3.9.1"
for package in environment["packages"]:
    if package["name"] == "sympy":
        package["version"] = "1.0"
for subject in statement["subject"]:
    if subject["name"] == "stdout":
        subject["digest"]["sha256"] = "0" * 64
body = json.dumps(statement, separators=(",", ":")).encode()
kind = document["payloadType"].encode()
key = load_pem_private_key(open(key_file, "rb").read(), None)
document["payload"] = base64.b64encode(body).decode()
signature = key.sign(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(body), body))
document["signatures"][0]["sig"] = base64.b64encode(signature).decode()
open(anew, "w").write(json.dumps(document, separators=(",", ":")) + "\n")
"#;

#[track_caller]
fn assert_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let (_, behind) = rest.split_once(part).unwrap_or_else(|| panic!("{part}: {text}"));
        rest = behind;
    }
}

fn another_interpreter_is_reported_before_the_result() {
    let receipts = Receipts::new();
    let code = "try:\n    import sympy\n    print(sympy.__version__)\nexcept ImportError:\n    print('none')";
    let (_, receipt) = run(&receipts, &receipts.server(), code, &[]);
    let script = receipts.path("script.py");
    let replayed = |builder: ServerBuilder, receipt: &Path| {
        let mut command = builder.command();
        let output = command.arg("replay").arg(receipt).arg("--script").arg(&script).output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    // This environment has no packages.
    let environment = receipts.path("venv");
    let mut command = Command::new(python());
    command.args(["-m", "venv", "--without-pip"]).arg(&environment);
    assert!(command.status().unwrap().success());
    let bare = environment.join("bin/python");
    let bare = receipts.server().variable("QWED_MCP_PYTHON", bare.to_str().unwrap());
    let (code, text) = replayed(bare, &receipt);
    assert_eq!(code, Some(1), "{text}");
    let parts =
        ["environment: differs", "package sympy: 1.14.0 → none", "differs: replayed", "stdout: "];
    assert_in_order(&text, &parts);
    // The changed receipt names other versions of Python and its packages. The same key signs it again.
    let anew = receipts.path("anew.json");
    let mut command = Command::new(python());
    command.args(["-c", SIGN_ANEW]).arg(&receipt).arg(receipts.key()).arg(&anew);
    let signed = command.output().unwrap();
    assert!(signed.status.success(), "{signed:?}");
    receipts.statement(&anew);
    let (code, text) = replayed(receipts.server(), &anew);
    assert_eq!(code, Some(1), "{text}");
    assert_in_order(
        &text,
        &[
            "environment: differs",
            "Python: 3.9.1 → ",
            "package sympy: 1.0 → 1.14.0",
            "differs: replayed",
            "stdout: ",
        ],
    );
}

fn nothing_of_keys_tokens_or_code_is_in_logs() {
    let governed = Governed::new("ledger");
    let receipts = governed.beside("of_scripts");
    // If receipts are switched on, the server does not start without a key.
    assert!(governed.command(&["receipt", "keygen"]).status.success());
    let mut server = governed
        .server()
        .variable("QWED_MCP_LOG", "trace")
        .variable("QWED_MCP_RECEIPTS", receipts.to_str().unwrap())
        .variable("QWED_MCP_RECEIPTS_OUTPUTS", "on")
        .variable("QWED_MCP_AUTH_TOKEN", &governed.viewer)
        .connect();
    // The output differs from the script's text, so that the log can be searched for both.
    let code = "print('marmot' + 'vole')";
    assert!(server.execute(code).text().contains("marmotvole"));
    server.execute("eval('badger')");
    server.execute("print('otter'");
    server.execute("raise ValueError('stoat')");
    let job = server.place("print('ferret')");
    server.wait_for_job(&job);
    run_pytest(&mut server, &governed.user, "tests");
    run_pytest(&mut server, &governed.viewer, "tests");
    run_pytest(&mut server, "qwed_weasel", "tests");
    let log = server.finish();
    // The control: the log has entries about these calls.
    assert!(log.contains("run ended") && log.contains("governed call"), "{log}");
    let key = fs::read_to_string(governed.data.join("keys/signing.key")).unwrap();
    let key = key.lines().nth(1).unwrap();
    let secrets = [key, &governed.user, &governed.viewer, &governed.admin, "weasel"];
    let contents = ["marmot", "vole", "badger", "otter", "stoat", "ferret"];
    for text in secrets.into_iter().chain(contents) {
        assert!(
            !log.contains(text),
            "{text}: {}",
            log.lines().find(|it| it.contains(text)).unwrap()
        );
    }
}

fn each_kind_of_change_has_its_own_message() {
    let governed = Governed::new("ledger");
    let folder = governed.beside("of_scripts");
    assert!(governed.command(&["receipt", "keygen"]).status.success());
    let mut server = governed
        .server()
        .variable("QWED_MCP_RECEIPTS", folder.to_str().unwrap())
        .variable("QWED_MCP_RECEIPTS_OUTPUTS", "on")
        .connect();
    let result = server.execute("print('out')");
    let path = result.meta["qwed.ai/receipt"]["path"].as_str().unwrap();
    let receipt = folder.join(path);
    let script = governed.beside("script.py");
    fs::write(&script, "print('out')").unwrap();
    let reply = run_pytest(&mut server, &governed.user, "tests");
    let run_id = reply["result"]["_meta"]["qwed.ai/run"]["run_id"].as_str().unwrap();
    let run = governed.data.join("artifacts").join(run_id);
    server.finish();
    let receipt_text = receipt.to_str().unwrap();
    let subject = format!("script.py={}", script.to_str().unwrap());
    let verify = || {
        let of_receipt = ["receipt", "verify", receipt_text, "--subject", &subject];
        let mut told = String::new();
        for arguments in [&of_receipt[..], &["audit", "verify", "--artifacts"]] {
            let output = governed.command(arguments);
            told += &String::from_utf8(output.stdout).unwrap();
            told += &String::from_utf8(output.stderr).unwrap();
        }
        let is_bad = |line: &&str| {
            ["NOT GOOD", "BROKEN", "error: ", "- "].iter().any(|sign| line.contains(sign))
        };
        told.lines().filter(is_bad).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(verify(), Vec::<String>::new());
    let text = fs::read_to_string(&receipt).unwrap();
    let keyid = text.find("\"keyid\":\"sha256:").unwrap() + 20;
    let payload_type = text.find("application/").unwrap();
    let output = folder.join("outputs").join(sha256_of(b"out"));
    let keys = governed.data.join("keys");
    let records = fs::read_to_string(keys.join("keys.json")).unwrap();
    let key_at = records.find("-----BEGIN").unwrap() + 90;
    for (file, at, expected) in [
        (&receipt, 0, "it is not the envelope of a receipt"),
        (&receipt, 60, "the payload or the signature was changed"),
        (&receipt, payload_type, "its payloadType is not in-toto's"),
        (&receipt, keyid, "it names the key sha256:"),
        (&script, 7, "script.py does not match"),
        (&output, 1, "the stored stdout was changed"),
        (&keys.join("keys.json"), key_at, "keys.json"),
        (&run.join("evidence.json"), 9, "evidence.json does not match the run: it was changed"),
        (&run.join("files/junit.xml"), 9, "files/junit.xml does not match the run: it was changed"),
        (&run.join("stdout.txt"), 9, "stdout.txt does not match the run: it was changed"),
    ] {
        let before = fs::read(file).unwrap();
        let mut changed = before.clone();
        changed[at] ^= 1;
        fs::write(file, changed).unwrap();
        let found = verify();
        assert!(found.iter().any(|line| line.contains(expected)), "{expected}: {found:?}");
        fs::write(file, before).unwrap();
        assert_eq!(verify(), Vec::<String>::new(), "{expected}");
    }
    let change =
        "DROP TRIGGER audit_is_not_changed; UPDATE audit SET outcome = 'PASSEd' WHERE seq = 5";
    assert!(governed.sqlite(change).status.success());
    assert!(verify().iter().any(|line| line.contains("row 5 was changed")), "{:?}", verify());
}
