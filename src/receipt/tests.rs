//! Tests of receipts that use several modules: writing, signing, storing and verifying.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::envelope;
use super::keys::KeyError;
use super::statement::PREDICATE_TYPE;
use super::*;
use crate::executor::fake::FakeExecutor;
use crate::executor::{Ending, Outcome, RunError, RunLimits};
use crate::gateway::{
    Accompanying, Arguments, AskedBy, AuthorizedScript, RiskBasedExecutionGateway,
};
use crate::gateway::{Decision, Grant};
use crate::ledger::AuditPlace;

/// A writer of receipts with its own folder, and the keys that verify these receipts.
struct Fixture {
    folder: tempfile::TempDir,
    receipts: Arc<Receipts>,
    keys: PublicKeys,
}

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let store = KeyStore::new(folder.path().join("keys"));
    let key = store.generate(false).unwrap();
    let receipts = folder.path().join("receipts");
    let receipts = Receipts::new(key, &store.signing_key(), &receipts, true, true).unwrap();
    let keys = PublicKeys::read(&folder.path().join("keys")).unwrap();
    Fixture { folder, receipts: Arc::new(receipts), keys }
}

impl Fixture {
    fn read(&self, stored: &writer::Stored) -> Vec<u8> {
        let bytes = fs::read(self.folder.path().join("receipts").join(&stored.path)).unwrap();
        assert_eq!(sha256(&bytes), stored.sha256);
        bytes
    }

    async fn of_run(&self, ran: Result<Outcome, RunError>) -> Vec<u8> {
        let executor =
            FakeExecutor::new(|_, _, _| Box::pin(async { Ok(Outcome::never_started()) }));
        let limits = RunLimits::of_script(Duration::from_secs(30));
        let draft = self.receipts.begin(&script("import time"), limits, &executor).await.unwrap();
        let place = AuditPlace { seq: 7, hash: "ab".repeat(32) };
        self.read(&draft.conclude(&ran, Some(place)).await.unwrap())
    }
}

fn script(code: &str) -> AuthorizedScript {
    let gateway = RiskBasedExecutionGateway::new(crate::config::AdminGate::Open);
    let arguments = Arguments::from_iter([("code".to_owned(), json!(code))]);
    let decision = gateway.evaluate(arguments, Accompanying::default()).unwrap().confirm(Ok(None));
    let Decision::Allow { grant: Grant::Execute(script), .. } = decision else { panic!("{code}") };
    script.with_asked_by(AskedBy { user: Some("ada".to_owned()), ..AskedBy::default() })
}

fn exited() -> Outcome {
    let mut outcome = Outcome { ending: Ending::Exited(0), ..Outcome::never_started() };
    outcome.stdout.text = "42".to_owned();
    outcome
}

#[tokio::test]
async fn a_receipt_says_what_was_run_and_how_it_ended() {
    let fixture = fixture();
    let verified = verify(&fixture.of_run(Ok(exited())).await, &fixture.keys).unwrap();
    let statement = &verified.statement;
    assert_eq!(statement.digest("script.py"), Some(&*sha256("import time")));
    assert_eq!(statement.digest("stdout"), Some(&*sha256("42")));
    assert_eq!(statement.digest("stderr"), Some(&*sha256("")));
    let predicate = verified.predicate().unwrap().unwrap();
    let run = predicate.run.unwrap();
    assert_eq!((run.ending.as_str(), run.exit_code), ("exited", 0));
    assert_eq!(predicate.caller.user.as_deref(), Some("ada"));
    assert_eq!(predicate.audit.unwrap().seq, 7);
    assert_eq!(predicate.may_differ_by.unwrap(), ["time"]);
    assert_eq!(predicate.decision.status, "ALLOW_VERIFIED");
    // A script that could not be run has a receipt too.
    let verified =
        verify(&fixture.of_run(Err(RunError::SupervisorDied)).await, &fixture.keys).unwrap();
    let predicate = verified.predicate().unwrap().unwrap();
    assert!(predicate.run.is_none() && predicate.not_run.unwrap().contains("killed from outside"));
    assert_eq!(verified.statement.digest("stdout"), None);
}

#[tokio::test]
async fn a_refused_script_leaves_a_receipt() {
    let fixture = fixture();
    let gateway = RiskBasedExecutionGateway::new(crate::config::AdminGate::Open);
    for (arguments, code, subject) in [
        (json!({ "code": "eval('1')" }), "QWED-MCP-RISK-005", "script.py"),
        (json!({}), "QWED-MCP-RISK-003", "arguments"),
    ] {
        let arguments = arguments.as_object().unwrap().clone();
        let record = gateway.evaluate_and_route("execute_python_code", arguments);
        let stored = fixture.receipts.refused(&record, &AskedBy::default(), None).await.unwrap();
        let verified = verify(&fixture.read(&stored), &fixture.keys).unwrap();
        assert_eq!(verified.statement.subject[0].name, subject);
        let predicate = verified.predicate().unwrap().unwrap();
        assert_eq!(predicate.decision.error_code.as_deref(), Some(code));
        assert_eq!(predicate.decision.status, "BLOCKED");
        assert!(predicate.run.is_none());
    }
}

#[tokio::test]
async fn every_byte_counts() {
    let fixture = fixture();
    let bytes = fixture.of_run(Ok(exited())).await;
    assert!(verify(&bytes, &fixture.keys).is_ok());
    let mut kinds = std::collections::BTreeMap::<String, usize>::new();
    for at in 0..bytes.len() {
        for change in [1, 0x20] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            let error = verify(&changed, &fixture.keys).expect_err("a byte that nobody looks at");
            let kind = format!("{error:?}");
            *kinds.entry(kind.split([' ', '(']).next().unwrap().to_owned()).or_default() += 1;
        }
    }
    // A receipt with one additional byte, and a receipt without its last byte, are not valid.
    for changed in [[&bytes[..], b"\n"].concat(), bytes[..bytes.len() - 1].to_vec()] {
        assert_eq!(verify(&changed, &fixture.keys).unwrap_err(), ReceiptError::NotAsWritten);
    }
    for kind in ["Envelope", "PayloadNotBase64", "SignatureNotBase64", "KeyUnknown", "Signature"] {
        assert!(kinds.contains_key(kind), "{kind}: {kinds:?}");
    }
}

#[test]
fn what_is_signed_is_what_dsse_says() {
    // This is the example in the specification of the DSSE protocol.
    assert_eq!(
        envelope::pre_authentication("http://example.com/HelloWorld", b"hello world"),
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    );
}

#[test]
fn a_statement_of_another_kind_is_not_good_however_it_is_signed() {
    let fixture = fixture();
    let key = SigningKey::load(&fixture.folder.path().join("keys/signing.key")).unwrap();
    let good = json!({
        "_type": "https://in-toto.io/Statement/v1", "subject": [],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "tool": "t", "createdOn": chrono::Utc::now(), "server": { "name": "s", "version": "1" },
            "decision": { "status": "BLOCKED", "id": "1" }, "caller": {},
        },
    });
    let verified = |statement: &Value| {
        let bytes = envelope::seal(statement.to_string().as_bytes(), &key).unwrap();
        verify(&bytes, &fixture.keys)
    };
    assert!(verified(&good).is_ok());
    for (pointer, wrong) in [
        ("/_type", json!("https://in-toto.io/Statement/v0.1")),
        ("/predicateType", json!("https://qwed.ai/attestation/verification/v2")),
        ("/predicate/createdOn", json!("yesterday")),
    ] {
        let mut statement = good.clone();
        *statement.pointer_mut(pointer).unwrap() = wrong;
        let error = verified(&statement).unwrap_err();
        assert!(matches!(error, ReceiptError::Statement(_)), "{pointer}: {error}");
    }
    // The signature is valid, but its time may be outside of the key's period of use.
    for (time, expected) in [
        ("2020-01-01T00:00:00.000Z", "KeyNotYet"),
        ("2999-01-01T00:00:00.000Z", "in use: nothing says until when"),
    ] {
        let mut statement = good.clone();
        statement["predicate"]["createdOn"] = json!(time);
        let found = verified(&statement);
        let is_expected = match &found {
            Ok(_) => expected.starts_with("in use"),
            Err(error) => format!("{error:?}").starts_with(expected),
        };
        assert!(is_expected, "{time}: {found:?}");
    }
}

#[tokio::test]
async fn a_key_that_was_replaced_verifies_what_it_had_signed() {
    let fixture = fixture();
    let old = fixture.of_run(Ok(exited())).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let store = KeyStore::new(fixture.folder.path().join("keys"));
    assert!(matches!(store.generate(false), Err(KeyError::Exists(_))));
    let key = store.generate(true).unwrap();
    assert_eq!(SigningKey::load(&store.signing_key()).unwrap().id(), key.id());
    tokio::time::sleep(Duration::from_millis(5)).await;
    // The writer of the fixture still signs with the old key, although this key was replaced.
    let late = fixture.of_run(Ok(exited())).await;
    let keys = PublicKeys::read(&fixture.folder.path().join("keys")).unwrap();
    assert!(verify(&old, &keys).is_ok());
    let error = verify(&late, &keys).unwrap_err();
    assert!(matches!(error, ReceiptError::KeyNotAnyMore { .. }), "{error}");
    // If the key is read from a file without records, its period of use is unknown.
    let folder = tempfile::tempdir().unwrap();
    let records = fs::read_to_string(fixture.folder.path().join("keys/keys.json")).unwrap();
    let records: Value = serde_json::from_str(&records).unwrap();
    let old_key = folder.path().join("old.pub");
    fs::write(&old_key, records["keys"][0]["publicKey"].as_str().unwrap()).unwrap();
    assert!(verify(&late, &PublicKeys::read(&old_key).unwrap()).is_ok());
    let new_key = PublicKeys::read(&store.public_key()).unwrap();
    assert!(matches!(verify(&old, &new_key), Err(ReceiptError::KeyUnknown(_))));
}

#[test]
fn a_key_is_of_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = KeyStore::new(folder.path().join("keys"));
    store.generate(false).unwrap();
    let file = store.signing_key();
    let mode = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    for wrong in [0o640, 0o604, 0o620, 0o602, 0o610] {
        mode(&file, wrong);
        let error = SigningKey::load(&file).unwrap_err();
        assert!(matches!(error, KeyError::Open { mode, .. } if mode == wrong), "{error}");
    }
    mode(&file, 0o600);
    assert!(SigningKey::load(&file).is_ok());
    // Other users can write to the folder, so they could replace the key.
    mode(&folder.path().join("keys"), 0o777);
    assert!(matches!(SigningKey::load(&file), Err(KeyError::Unprotected(_))));
    mode(&folder.path().join("keys"), 0o700);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace('A', "B")).unwrap();
    assert!(matches!(SigningKey::load(&file), Err(KeyError::NotAPrivateKey { .. })));
    assert!(matches!(SigningKey::load(folder.path()), Err(KeyError::NotAFile { .. })));
    if nix::unistd::geteuid().is_root() {
        fs::write(&file, &text).unwrap();
        std::os::unix::fs::chown(&file, Some(4321), None).unwrap();
        assert!(matches!(SigningKey::load(&file), Err(KeyError::Owner { owner: 4321, .. })));
    }
}

#[test]
fn servers_that_start_together_use_the_same_key() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let keys = folder.path().join(format!("keys-{round}"));
        let (store, barrier) = (KeyStore::new(keys.clone()), std::sync::Barrier::new(4));
        let start = || {
            barrier.wait();
            store.signing_key_or_new().unwrap().id().to_owned()
        };
        let ids = std::thread::scope(|scope| {
            let servers = [(); 4].map(|()| scope.spawn(start));
            servers.map(|server| server.join().unwrap())
        });
        let records = fs::read_to_string(keys.join("keys.json")).unwrap();
        let records: Value = serde_json::from_str(&records).unwrap();
        let recorded = records["keys"].as_array().unwrap();
        let recorded: Vec<_> = recorded.iter().map(|key| key["keyid"].as_str().unwrap()).collect();
        assert_eq!(recorded, [ids[0].as_str()]);
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(SigningKey::load(&store.signing_key()).unwrap().id(), ids[0]);
    }
}

#[test]
fn a_list_of_keys_that_was_changed_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let store = KeyStore::new(folder.path().to_owned());
    let key = store.generate(false).unwrap();
    let records = folder.path().join("keys.json");
    let text = fs::read_to_string(&records).unwrap();
    let other = key.id().replace("sha256:", "sha256:0");
    for (changed, expected) in [
        (text.replace(key.id(), &other), "KeyId"),
        (text.replace("PUBLIC", "PUBLIK"), "NotAPublicKey"),
        (text.replace("validFrom", "validfrom"), "Records"),
    ] {
        fs::write(&records, changed).unwrap();
        let error = PublicKeys::read(folder.path()).unwrap_err();
        assert!(format!("{error:?}").starts_with(expected), "{error:?}");
    }
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(PublicKeys::read(empty.path()), Err(KeyError::None(_))));
}

#[test]
fn tests_that_could_read_the_key_do_not_run() {
    let fixture = fixture();
    let root = fs::canonicalize(fixture.folder.path()).unwrap();
    let alias = root.join("alias");
    fs::create_dir(root.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(root.join("keys"), &alias).unwrap();
    for (folder, is_in_reach) in [
        (root.clone(), true),
        (root.join("keys"), true),
        (alias, true),
        (root.join("elsewhere"), false),
        (root.join("missing"), false),
    ] {
        let found = fixture.receipts.require_out_of([&folder]);
        assert_eq!(found.is_err(), is_in_reach, "{folder:?}");
    }
}

#[tokio::test]
async fn a_full_disk_is_noticed_before_the_run_and_leaves_nothing() {
    let fixture = fixture();
    let folder = fixture.folder.path().join("receipts");
    let executor = FakeExecutor::new(|_, _, _| Box::pin(async { Ok(Outcome::never_started()) }));
    let limits = RunLimits::of_script(Duration::from_secs(30));
    let script = script("print(1)");
    // `begin` creates a draft, which reserves disk space while the script runs.
    let draft = fixture.receipts.begin(&script, limits, &executor).await.unwrap();
    let names = || {
        let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        entries.collect::<Vec<_>>()
    };
    let [reserved] = &names()[..] else { panic!("{:?}", names()) };
    assert!(reserved.metadata().unwrap().len() >= 16 * 1024);
    // If a receipt cannot be stored, no file remains under its name.
    let day = chrono::Utc::now().format("%Y-%m-%d").to_string();
    fs::write(folder.join(&day), "").unwrap();
    let error = draft.conclude(&Ok(exited()), None).await.unwrap_err();
    assert!(matches!(error, WriteError::Store(_)), "{error}");
    assert_eq!(names(), [folder.join(day)]);
    // If no disk space can be reserved, `begin` fails. The script must then not run.
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    let error = fixture.receipts.begin(&script, limits, &executor).await.unwrap_err();
    assert!(matches!(error, WriteError::NoRoom(_)), "{error}");
    let error = fixture.receipts.reserve_for_tests().await.unwrap_err();
    assert!(matches!(error, WriteError::NoRoom(_)), "{error}");
}

#[test]
fn a_stored_output_that_cannot_be_compared_is_an_error() {
    let fixture = fixture();
    let folder = fixture.folder.path().join("outputs");
    let digest = sha256("hello");
    let statement = Statement {
        kind: "".into(),
        subject: vec![statement::Subject::new("stdout", digest.clone())],
        predicate_type: "".into(),
        predicate: Value::Null,
    };
    assert_eq!(compare_outputs(&statement, &folder), Ok(()), "no folder");
    fs::create_dir(&folder).unwrap();
    assert_eq!(compare_outputs(&statement, &folder), Ok(()), "not stored");
    let stored = folder.join(&digest);
    let unreadable = |expected: &str| {
        let error = compare_outputs(&statement, &folder).unwrap_err();
        assert!(matches!(error, ReceiptError::UnreadableOutput { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    fs::write(&stored, "hello").unwrap();
    assert_eq!(compare_outputs(&statement, &folder), Ok(()));
    fs::write(&stored, "HELLO").unwrap();
    let changed = ReceiptError::StoredOutput { name: "stdout" };
    assert_eq!(compare_outputs(&statement, &folder), Err(changed));
    fs::File::create(&stored).unwrap().set_len(17 << 20).unwrap();
    unreadable("too large");
    fs::remove_file(&stored).unwrap();
    fs::create_dir(&stored).unwrap();
    unreadable("not a regular file");
    fs::remove_dir(&stored).unwrap();
    for target in ["/dev/zero", "/etc/passwd", &digest] {
        std::os::unix::fs::symlink(target, &stored).unwrap();
        unreadable("not a regular file");
        fs::remove_file(&stored).unwrap();
    }
    nix::unistd::mkfifo(&stored, nix::sys::stat::Mode::S_IRWXU).unwrap();
    unreadable("not a regular file");
}

#[test]
fn a_pipe_among_the_keys_is_not_waited_for() {
    for name in ["other.pub", "keys.json"] {
        let folder = tempfile::tempdir().unwrap();
        KeyStore::new(folder.path().to_owned()).generate(false).unwrap();
        let file = folder.path().join(name);
        let _ = fs::remove_file(&file);
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = PublicKeys::read(folder.path()).unwrap_err();
        assert!(matches!(error, KeyError::NotAFile { .. }), "{name}: {error}");
    }
    // A symlink to a key counts as a key, because Kubernetes mounts folders with such symlinks.
    let folder = tempfile::tempdir().unwrap();
    let store = KeyStore::new(folder.path().join("data"));
    store.generate(false).unwrap();
    std::os::unix::fs::symlink(store.public_key(), folder.path().join("signing.pub")).unwrap();
    assert!(PublicKeys::read(folder.path()).is_ok());
}

#[tokio::test]
async fn the_digest_of_a_stream_is_that_of_its_bytes() {
    let fixture = fixture();
    let mut outcome = exited();
    outcome.stdout.text = "\u{fffd}".to_owned();
    outcome.stdout.bytes = Some(vec![0xff]);
    outcome.stderr.text = "<object object at 0x7f12>".to_owned();
    let verified = verify(&fixture.of_run(Ok(outcome)).await, &fixture.keys).unwrap();
    assert_eq!(verified.statement.digest("stdout"), Some(&*sha256([0xff])));
    let words = verified.predicate().unwrap().unwrap().may_differ_by.unwrap();
    assert_eq!(words, ["time", "memory"]);
}
