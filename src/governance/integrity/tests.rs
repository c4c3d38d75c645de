use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::all::MISSING_AT_ONCE;
use super::*;
use crate::governance::artifacts::Retention;
use crate::governance::evidence::RunStatus;
use crate::governance::refusal::RefusalCode;
use crate::governance::upkeep::apply_retention;
use crate::ledger::{AuditEntry, AuditEvent, AuditOutcome, AuditRow, EVIDENCE_SHA256, RowsAfter};

struct Fixture {
    data: TempDir,
    store: Store,
    artifacts: Artifacts,
}

impl Fixture {
    fn new() -> Self {
        let data = TempDir::new().unwrap();
        let store = Store::open(data.path()).unwrap();
        let artifacts = Artifacts::new(data.path());
        Self { data, store, artifacts }
    }

    fn append(&self, run_id: Uuid, event: AuditEvent, details: Value) {
        let Value::Object(details) = details else { panic!("{details}") };
        let entry = AuditEntry {
            run_id,
            event,
            user: None,
            tool: "run_pytest".to_owned(),
            arguments_hash: None,
            outcome: AuditOutcome::of(RunStatus::Passed.audit_word()),
            details,
        };
        self.store.append(&[entry]).unwrap();
    }

    /// Creates a run that left `stdout.txt`, `files/a` and `files/b`. The evidence has no hash of `files/b`. `end` is
    /// called with the SHA-256 of the evidence, and returns the details of the row about the run's end, or `None` for
    /// no row.
    fn run(&self, end: impl FnOnce(String) -> Option<Value>) -> Uuid {
        let run_id = Uuid::new_v4();
        self.append(run_id, AuditEvent::ToolStarted, json!({}));
        let folder = self.artifacts.create_run(run_id).unwrap();
        folder.write_text("stdout.txt", b"1 passed").unwrap();
        fs::write(folder.files_path().join("a"), "content").unwrap();
        fs::write(folder.files_path().join("b"), "content").unwrap();
        let mut records = folder.records(u64::MAX).unwrap().records;
        for record in records.iter_mut().filter(|record| record.path == "files/b") {
            record.sha256 = None;
        }
        let evidence = json!({ "artifacts": records, "artifacts_omitted": 0, "status": "passed" });
        let sha256 = folder.write_evidence(&evidence).unwrap();
        if let Some(details) = end(sha256) {
            self.append(run_id, AuditEvent::ToolFinished, details);
        }
        run_id
    }

    fn attested(&self) -> Uuid {
        self.run(|sha256| Some(json!({ EVIDENCE_SHA256: sha256 })))
    }

    fn path(&self, run_id: Uuid, name: &str) -> PathBuf {
        self.data.path().join("artifacts").join(run_id.to_string()).join(name)
    }

    /// Returns the result of `evidence` as a text.
    fn evidence(&self, run_id: Uuid) -> String {
        told(evidence(&self.artifacts, &self.store, run_id).map(|served| served.unconfirmed))
    }

    fn content(&self, run_id: Uuid, path: &str) -> String {
        let content = content(&self.artifacts, &self.store, run_id, path, (0, None));
        told(content.map(|served| served.unconfirmed))
    }

    /// Returns the runs that the log records as removed.
    fn removed(&self) -> Vec<Uuid> {
        let mut removed = Vec::new();
        let mut each = |row: AuditRow| {
            if row.event == AuditEvent::ArtifactsRemoved.as_str() {
                removed.push(row.run_id.parse().unwrap());
            }
            ControlFlow::Continue(())
        };
        self.store.for_each_row_after(&RowsAfter::nothing(), &mut each).unwrap();
        removed
    }

    fn verify(&self) -> ArtifactsVerification {
        verify_artifacts(&self.artifacts, &self.store).unwrap()
    }

    /// Returns the changes that `verify_artifacts` finds, sorted.
    fn changes(&self) -> Vec<(String, Change)> {
        let found = self.verify();
        let differences = found.differences.into_iter();
        let mut changes: Vec<_> =
            differences.map(|it| (it.difference.path, it.difference.change)).collect();
        assert_eq!(found.different, u64::try_from(changes.len()).unwrap());
        changes.sort_by(|a, b| a.0.cmp(&b.0));
        changes
    }
}

fn told(served: Result<Option<Unconfirmed>, IntegrityError>) -> String {
    match served {
        Ok(None) => "confirmed".to_owned(),
        Ok(Some(reason)) => format!("unconfirmed: {reason}"),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn what_was_left_is_confirmed_and_what_was_changed_is_not_served() {
    let fixture = Fixture::new();
    let run_id = fixture.attested();
    assert_eq!(fixture.evidence(run_id), "confirmed");
    for path in ["stdout.txt", "files/a", EVIDENCE] {
        assert_eq!(fixture.content(run_id, path), "confirmed", "{path}");
    }
    let not_hashed = "unconfirmed: the evidence has no hash of this file";
    assert_eq!(fixture.content(run_id, "files/b"), not_hashed);
    let found = fixture.verify();
    assert_eq!((found.intact, found.unconfirmed, found.is_intact()), (0, 1, true));

    for (path, text, expected) in [
        ("stdout.txt", Some("9 passed"), Change::Changed),
        ("stdout.txt", Some("longer than it was"), Change::Changed),
        ("files/a", Some("Content"), Change::Changed),
        ("files/a", None, Change::Missing),
        ("files/c", Some("more"), Change::Added),
        (EVIDENCE, None, Change::Missing),
        (EVIDENCE, Some("{\"artifacts\": [], \"artifacts_omitted\": 0}"), Change::Changed),
    ] {
        let file = fixture.path(run_id, path);
        let before = fs::read(&file).ok();
        match text {
            Some(text) => fs::write(&file, text).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        let error = format!("error: {}", Difference::new(path, expected));
        assert_eq!(fixture.content(run_id, path), error, "{path}");
        assert_eq!(fixture.changes(), [(path.to_owned(), expected)]);
        if path == EVIDENCE {
            assert_eq!(fixture.evidence(run_id), error);
            assert_eq!(fixture.content(run_id, "files/a"), error, "nothing tells what it was");
        }
        match before {
            Some(before) => fs::write(&file, before).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
    }
    assert_eq!(fixture.changes(), []);
}

#[test]
fn what_the_log_does_not_know_is_told_as_such() {
    let fixture = Fixture::new();
    let no_end = fixture.run(|_| None);
    let earlier = fixture.run(|_| Some(json!({ "duration_ms": 7 })));
    for (run_id, reason) in [
        (no_end, "the end of the run is not in the audit log"),
        (earlier, "the audit log has no hash of this run's evidence"),
    ] {
        assert_eq!(fixture.evidence(run_id), format!("unconfirmed: {reason}"));
        assert_eq!(fixture.content(run_id, "files/a"), format!("unconfirmed: {reason}"));
    }
    assert_eq!((fixture.verify().unconfirmed, fixture.changes()), (2, vec![]));
    // Files are compared even with unconfirmed evidence.
    fs::write(fixture.path(earlier, "files/a"), "another").unwrap();
    assert!(fixture.content(earlier, "files/a").starts_with("error: files/a does not match"));
    assert_eq!(fixture.changes(), [("files/a".to_owned(), Change::Changed)]);
    // The path in this evidence leads out of the run's folder, so no file is opened.
    let outside = json!({
        "artifacts": [{ "path": "../../governance.db", "bytes": 1, "sha256": "ab" }],
        "artifacts_omitted": 1,
    });
    fs::write(fixture.path(earlier, EVIDENCE), outside.to_string()).unwrap();
    assert_eq!(fixture.changes(), [("../../governance.db".to_owned(), Change::Unreadable)]);
}

#[test]
fn evidence_that_the_log_says_was_not_there_is_refused() {
    let fixture = Fixture::new();
    let not_written = fixture.run(|_| Some(json!({ EVIDENCE_SHA256: null })));
    let nonsense = fixture.run(|_| Some(json!({ EVIDENCE_SHA256: 7 })));
    assert!(fixture.evidence(not_written).ends_with("it was added"));
    assert!(fixture.evidence(nonsense).ends_with("it was changed"));
    // The log has no row about this run, because the server did not execute it.
    let made_up = Uuid::new_v4();
    drop(fixture.artifacts.create_run(made_up).unwrap());
    fs::write(fixture.path(made_up, EVIDENCE), "{}").unwrap();
    assert!(fixture.evidence(made_up).ends_with("that is not in the audit log"));
    assert_eq!(fixture.evidence(Uuid::new_v4()), format!("error: {}", ArtifactError::RunNotFound));
    assert_eq!(fixture.verify().different, 3);
}

#[test]
fn a_run_that_retention_removed_is_told_apart_from_one_that_is_missing() {
    let fixture = Fixture::new();
    let removed = fixture.attested();
    let newest = fixture.attested();
    let nothing = Retention { age: None, total_bytes: Some(0) };
    let retained = apply_retention(&fixture.artifacts, &fixture.store, &nothing).unwrap();
    assert_eq!((retained.removed, retained.kept), (1, 1));
    assert_eq!(fixture.evidence(removed), format!("error: {}", IntegrityError::Removed));
    let found = fixture.verify();
    assert_eq!((found.removed, found.different), (1, 0));

    fs::remove_dir_all(fixture.path(newest, "")).unwrap();
    assert_eq!(fixture.changes(), [(EVIDENCE.to_owned(), Change::Missing)]);
    assert!(fixture.evidence(newest).ends_with("is missing, and the run left it"));
}

#[test]
fn a_run_is_removed_when_the_log_says_so_and_not_before() {
    let fixture = Fixture::new();
    let old = fixture.attested();
    fixture.attested();
    let nothing = Retention { age: None, total_bytes: Some(0) };
    // Move the database away, so that the log cannot be written to.
    let database = fixture.data.path().join("governance.db");
    let aside = fixture.data.path().join("aside");
    fs::rename(&database, &aside).unwrap();
    assert!(apply_retention(&fixture.artifacts, &fixture.store, &nothing).is_err());
    assert_eq!(fs::read_to_string(fixture.path(old, "files/a")).unwrap(), "content");

    fs::rename(&aside, &database).unwrap();
    for _ in 0..2 {
        apply_retention(&fixture.artifacts, &fixture.store, &nothing).unwrap();
        assert!(!fixture.path(old, "").exists());
    }
    assert_eq!(fixture.removed(), [old]);
}

#[test]
fn what_was_set_aside_without_a_row_was_not_removed_by_retention() {
    let fixture = Fixture::new();
    let set_aside = fixture.attested();
    let removed_by_hand = fixture.attested();
    fixture.attested();
    let removing = |run_id: Uuid| fixture.data.path().join(format!("artifacts/.removing-{run_id}"));
    fs::rename(fixture.path(set_aside, ""), removing(set_aside)).unwrap();
    fs::remove_dir_all(fixture.path(removed_by_hand, "")).unwrap();
    fs::create_dir(removing(removed_by_hand)).unwrap();
    let missing = (EVIDENCE.to_owned(), Change::Missing);
    assert_eq!(fixture.changes(), [missing.clone(), missing.clone()]);
    assert!(fixture.evidence(removed_by_hand).ends_with("is missing, and the run left it"));

    let everything = Retention { age: None, total_bytes: None };
    apply_retention(&fixture.artifacts, &fixture.store, &everything).unwrap();
    assert_eq!(fixture.evidence(set_aside), "confirmed");
    assert_eq!(fixture.changes(), [missing]);
    assert_eq!((fixture.removed(), fixture.verify().removed), (vec![], 0));
}

/// A run ends or is removed after its folder is read and before the log is read.
#[test]
fn a_run_that_ends_or_is_removed_meanwhile_is_not_accused() {
    let fixture = Fixture::new();
    let is_over = AtomicBool::new(false);
    let nothing = Retention { age: None, total_bytes: Some(0) };
    let latest = Mutex::new(Uuid::new_v4());
    std::thread::scope(|scope| {
        let look = || {
            while !is_over.load(Ordering::Relaxed) {
                let run_id = *latest.lock().unwrap();
                let told = [
                    fixture.evidence(run_id),
                    fixture.content(run_id, EVIDENCE),
                    fixture.content(run_id, "files/a"),
                ];
                for told in told {
                    assert!(!told.contains("missing") && !told.contains("not what"), "{told}");
                    assert!(!told.contains("that is not in the audit log"), "{told}");
                }
            }
        };
        let lookers = [scope.spawn(look), scope.spawn(look)];
        let verifier = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(fixture.verify().differences, []);
            }
        });
        for _ in 0..60 {
            let run_id = Uuid::new_v4();
            *latest.lock().unwrap() = run_id;
            fixture.append(run_id, AuditEvent::ToolStarted, json!({}));
            let folder = fixture.artifacts.create_run(run_id).unwrap();
            fs::write(folder.files_path().join("a"), "content").unwrap();
            let records = folder.records(u64::MAX).unwrap().records;
            let evidence = json!({ "artifacts": records, "artifacts_omitted": 0 });
            let sha256 = folder.write_evidence(&evidence).unwrap();
            drop(folder);
            fixture.append(run_id, AuditEvent::ToolFinished, json!({ EVIDENCE_SHA256: sha256 }));
            let newer = fixture.attested();
            apply_retention(&fixture.artifacts, &fixture.store, &nothing).unwrap();
            *latest.lock().unwrap() = newer;
        }
        is_over.store(true, Ordering::Relaxed);
        for looker in lookers {
            looker.join().unwrap();
        }
        verifier.join().unwrap();
    });
}

#[test]
fn every_missing_run_is_counted() {
    let fixture = Fixture::new();
    let count = MISSING_AT_ONCE + 7;
    let entry = |_| AuditEntry {
        run_id: Uuid::new_v4(),
        event: AuditEvent::ToolFinished,
        user: None,
        tool: "run_pytest".to_owned(),
        arguments_hash: None,
        outcome: AuditOutcome::of(RunStatus::Passed.audit_word()),
        details: Map::from_iter([(EVIDENCE_SHA256.to_owned(), json!("ab"))]),
    };
    fixture.store.append(&(0..count).map(entry).collect::<Vec<_>>()).unwrap();
    let found = fixture.verify();
    assert_eq!((found.different, found.differences.len()), (u64::try_from(count).unwrap(), 100));
}

#[test]
fn a_lock_hides_no_run_that_has_an_end() {
    let fixture = Fixture::new();
    let ended = fixture.attested();
    let going_on = fixture.run(|_| None);
    fs::write(fixture.path(ended, "files/a"), "another").unwrap();
    let locks = [ended, going_on].map(|run_id| {
        let lock = fs::File::open(fixture.path(run_id, ".lock")).unwrap();
        lock.lock().unwrap();
        lock
    });
    assert_eq!((fixture.changes().len(), fixture.verify().in_progress), (1, 1));
    drop(locks);
}

#[test]
fn what_has_not_begun_is_told_as_such() {
    let fixture = Fixture::new();
    let call = |outcome| {
        let run_id = Uuid::new_v4();
        let entry = AuditEntry {
            run_id,
            event: AuditEvent::McpToolCall,
            user: None,
            tool: "run_pytest".to_owned(),
            arguments_hash: None,
            outcome,
            details: Map::new(),
        };
        fixture.store.append(&[entry]).unwrap();
        run_id
    };
    for (outcome, part) in [
        (AuditOutcome::WAITING, "its call waits for its turn, unless its server has ended"),
        (AuditOutcome::ALLOWED, "it is just starting"),
        (
            AuditOutcome::of(RefusalCode::PermissionDenied.name()),
            "its call ended with PERMISSION_DENIED",
        ),
    ] {
        let told = fixture.evidence(call(outcome));
        assert!(told.contains(part), "{told}");
    }
    let started = Uuid::new_v4();
    fixture.append(started, AuditEvent::ToolStarted, json!({}));
    assert!(fixture.evidence(started).contains("it is just starting"));
    assert_eq!(fixture.verify().different, 0);
}

#[test]
fn runs_of_which_something_is_different_are_not_intact() {
    let fixture = Fixture::new();
    let run_id = fixture.attested();
    let found = fixture.verify();
    assert!(found.is_intact());
    assert_eq!((found.intact, found.unconfirmed, found.different), (0, 1, 0));
    fs::write(fixture.path(run_id, "stdout.txt"), "2 passed").unwrap();
    let found = fixture.verify();
    assert!(!found.is_intact());
    assert_eq!((found.intact, found.unconfirmed, found.different), (0, 0, 1), "counted once");
}

#[test]
fn only_what_is_gone_and_has_a_row_was_removed_by_retention() {
    let fixture = Fixture::new();
    // The log has a row about the removal of this run, but the run still exists. So the run is compared like any other
    // run.
    let there = fixture.attested();
    fixture.append(there, AuditEvent::ArtifactsRemoved, json!({}));
    assert_eq!(fixture.evidence(there), "confirmed");
    fs::write(fixture.path(there, "stdout.txt"), "2 passed").unwrap();
    let changed = Difference::new("stdout.txt", Change::Changed);
    assert_eq!(fixture.content(there, "stdout.txt"), format!("error: {changed}"));
    assert_eq!(fixture.changes(), [("stdout.txt".to_owned(), Change::Changed)]);
    // The run does not exist, but the log has no row about its removal.
    let gone = fixture.attested();
    fs::remove_dir_all(fixture.path(gone, "")).unwrap();
    let missing = Difference::new(EVIDENCE, Change::Missing);
    assert_eq!(fixture.content(gone, "stdout.txt"), format!("error: {missing}"));
    // An unreadable file counts as unreadable, not as missing.
    let closed = fixture.attested();
    fs::remove_file(fixture.path(closed, EVIDENCE)).unwrap();
    fs::create_dir(fixture.path(closed, EVIDENCE)).unwrap();
    assert_ne!(fixture.evidence(closed), format!("error: {missing}"));
    assert!(fixture.evidence(closed).starts_with("error: "));
    assert!(fixture.changes().contains(&(EVIDENCE.to_owned(), Change::Unreadable)));
}

#[test]
fn a_file_that_evidence_does_not_list_is_told_by_whether_all_are_listed() {
    let fixture = Fixture::new();
    let of_evidence = |text: &str| {
        let run_id = fixture.run(|_| None);
        fs::write(fixture.path(run_id, EVIDENCE), text).unwrap();
        let details = json!({ EVIDENCE_SHA256: sha256(text.as_bytes()) });
        fixture.append(run_id, AuditEvent::ToolFinished, details);
        fixture.content(run_id, "files/a")
    };
    let added = Difference::new("files/a", Change::Added);
    let all = of_evidence(r#"{"artifacts": [], "artifacts_omitted": 0}"#);
    assert_eq!(all, format!("error: {added}"));
    let some = of_evidence(r#"{"artifacts": [], "artifacts_omitted": 1}"#);
    assert_eq!(some, "unconfirmed: the evidence has no hash of this file");
    let unreadable = Difference::new(EVIDENCE, Change::Unreadable);
    assert_eq!(of_evidence("{}"), format!("error: {unreadable}"));
    assert!(fixture.changes().contains(&(EVIDENCE.to_owned(), Change::Unreadable)));
}
