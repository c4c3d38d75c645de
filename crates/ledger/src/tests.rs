//! Tests the store through its interface, and after an attacker has changed its file.

mod stores;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use rusqlite::Connection;
use serde_json::{Map, Value, json};
use sha2::Digest as _;
use tempfile::TempDir;
use uuid::Uuid;

use super::audit::{
    ArgumentsHash, AuditEntry, AuditOutcome, BrokenRow, ClockSteps, DatabaseFlaws, EVIDENCE_SHA256,
    Flaw, RecordedEvidence, RecordedRun, TokenComparison, UnfinishedRuns,
};
use super::store::SqliteStore;
use super::tokens::{Caller, Proof, Token, TokenState};
use super::user_name::InvalidUserName;
use super::*;

const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

fn store() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    (folder, store)
}

fn database(folder: &Path) -> Connection {
    Connection::open(folder.join("governance.db")).unwrap()
}

fn user(name: &str) -> UserName {
    name.parse().unwrap()
}

fn entry(run_id: Uuid, event: AuditEvent) -> AuditEntry {
    AuditEntry {
        run_id,
        event,
        user: Some(user("ana")),
        tool: "run_pytest".to_owned(),
        arguments_hash: Some(ArgumentsHash::of(&Map::new())),
        outcome: AuditOutcome::ALLOWED,
        details: Map::from_iter([("duration_ms".to_owned(), json!(12))]),
    }
}

/// Creates a log with this number of runs. Each run has three rows.
fn log_of(runs: u128) -> (TempDir, Store) {
    let (folder, store) = store();
    for run in 1..=runs {
        let event = |event| entry(Uuid::from_u128(run), event);
        store.append(&[event(AuditEvent::McpToolCall), event(AuditEvent::ToolStarted)]).unwrap();
        store.append(&[event(AuditEvent::ToolFinished)]).unwrap();
    }
    (folder, store)
}

fn hashes(store: &Store) -> Vec<String> {
    let rows = store.audit_rows(&AuditFilter { limit: 1000, ..AuditFilter::default() }).unwrap();
    rows.into_iter().map(|row| row.hash).collect()
}

#[test]
fn nobody_but_the_owner_reads_the_store() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a/b");
    let store = Store::open(&folder).unwrap();
    store.append(&[entry(Uuid::nil(), AuditEvent::McpToolCall)]).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&folder), 0o700);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), mode(&entry.path())))
        .collect();
    files.sort();
    let expected = ["governance.db", "governance.db-shm", "governance.db-wal", "governance.lock"];
    assert_eq!(files, expected.map(|name| (name.to_owned(), 0o600)));
}

#[test]
fn a_file_that_is_not_ours_is_left_as_it_is() {
    let (folder, store) = log_of(40);
    drop(store);
    let good = fs::read(folder.path().join("governance.db")).unwrap();
    assert!(good.len() > 20_000, "{}", good.len());
    let mut newer = good.clone();
    newer[60..64].copy_from_slice(&2_i32.to_be_bytes());
    let mut foreign = good.clone();
    foreign[68..72].copy_from_slice(&7_i32.to_be_bytes());
    let mut no_database = good.clone();
    no_database[..16].fill(b'x');
    let mut damaged = good.clone();
    damaged[100..4096].fill(0xAA);
    for (content, expected) in [
        (newer, "has schema version 2, and this program supports 1; it was not changed"),
        (foreign, "belongs to another application, and was not changed"),
        (no_database, "is damaged or not a database, and was not changed"),
        (damaged, "is damaged or not a database, and was not changed"),
        // The file was truncated. The store must not begin a new log in it.
        (Vec::new(), "is empty, and was not changed"),
        (b"hello".to_vec(), "is damaged or not a database, and was not changed"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("governance.db");
        fs::write(&file, &content).unwrap();
        for open in [Store::open, Store::open_existing] {
            let error = open(folder.path()).and_then(|store| store.tokens()).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}, not {expected}");
            assert_eq!(fs::read(&file).unwrap(), content, "{expected}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{expected}");
    }

    // One page of the audit log is damaged.
    let mut rotten = good.clone();
    let page = good.len() - 2 * 4096;
    rotten[page..page + 4096].fill(0xAA);
    let rotten_folder = tempfile::tempdir().unwrap();
    fs::write(rotten_folder.path().join("governance.db"), &rotten).unwrap();
    let store = Store::open_existing(rotten_folder.path()).unwrap();
    let found = store.verify_audit(&[]);
    assert!(matches!(found, Err(StoreError::Damaged { .. })), "{found:?}");
}

#[test]
fn a_store_that_is_not_there_is_made_only_where_something_is_written() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");
    let error = Store::open_existing(&folder).unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
    assert!(!folder.exists());

    fs::write(&folder, "a file").unwrap();
    let error = Store::open(&folder).unwrap_err();
    assert!(matches!(error, StoreError::CreateFolder { .. }), "{error}");
}

#[test]
fn many_that_start_at_once_share_one_store() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let store = Store::open(folder.path()).unwrap();
                store.append(&[entry(Uuid::nil(), AuditEvent::McpToolCall)]).unwrap();
            });
        }
    });
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(store.verify_audit(&[]).unwrap().rows, 8);
    let is_draft = |name: &str| name.starts_with(".governance-");
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let drafts: Vec<_> = names.filter(|name| is_draft(name.to_str().unwrap())).collect();
    assert!(drafts.is_empty(), "{drafts:?}");
}

#[test]
fn stores_come_and_go_at_once() {
    let folder = tempfile::tempdir().unwrap();
    drop(Store::open(folder.path()).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    // The thread that closes the store last removes the write-ahead log, while other threads open the
                    // store.
                    let store = Store::open_existing(folder.path()).unwrap();
                    store.tokens().unwrap();
                }
            });
        }
    });
}

#[test]
fn a_token_opens_until_it_expires_or_is_revoked() {
    let (folder, store) = store();
    let day = Duration::from_secs(86_400);
    let (ana, ana_token) = store.create_token(&user("ana"), Role::Admin, None).unwrap();
    let (bob, bob_token) = store.create_token(&user("bob"), Role::Viewer, Some(day)).unwrap();
    assert_eq!(store.tokens().unwrap(), [ana.clone(), bob.clone()]);
    let caller = |record: &super::tokens::TokenRecord| {
        Some(Caller {
            user: record.user.clone(),
            role: record.role,
            proof: Proof::Token(record.id),
        })
    };
    assert_eq!(store.authenticate(&ana_token).unwrap(), caller(&ana));
    assert_eq!(store.authenticate(&bob_token).unwrap(), caller(&bob));

    // The token becomes invalid exactly at the time `expires`.
    let expires = bob.expires.unwrap();
    assert_eq!(expires - bob.created, TimeDelta::days(1));
    let before = expires - TimeDelta::microseconds(1);
    assert_eq!(store.authenticate_at(&bob_token, before).unwrap(), caller(&bob));
    assert_eq!(store.authenticate_at(&bob_token, expires).unwrap(), None);
    assert_eq!(
        [before, expires].map(|now| bob.state(now)),
        [TokenState::Active, TokenState::Expired]
    );
    let years = DateTime::parse_from_rfc3339("2999-01-01T00:00:00Z").unwrap().to_utc();
    assert_eq!(store.authenticate_at(&ana_token, years).unwrap(), caller(&ana));

    // A token that another process revokes is invalid at once.
    let other = Store::open_existing(folder.path()).unwrap();
    for (id, expected) in [
        (ana.id, Revoked::Now),
        (ana.id, Revoked::Before),
        ("3".parse().unwrap(), Revoked::Unknown),
        ("-1".parse().unwrap(), Revoked::Unknown),
    ] {
        assert_eq!(other.revoke(id).unwrap(), expected, "{id}");
    }
    assert_eq!(store.authenticate(&ana_token).unwrap(), None);
    assert_eq!(store.authenticate(&bob_token).unwrap(), caller(&bob));
    assert_eq!(store.tokens().unwrap()[0].state(Utc::now()), TokenState::Revoked);

    let error = store.create_token(&user("ana"), Role::User, Some(Duration::MAX)).unwrap_err();
    assert!(matches!(error, StoreError::Expiry), "{error}");
}

#[test]
fn a_token_has_one_form_and_never_shows() {
    let (folder, store) = store();
    let (_, token) = store.create_token(&user("ana"), Role::User, None).unwrap();
    let text = token.reveal().to_owned();
    assert!(text.starts_with("qwedmcp_") && text.len() == 51, "{text}");
    assert_eq!(Token::parse(&text).unwrap().reveal(), text);
    assert_eq!(format!("{token:?}"), "Token(..)");
    let unknown = Token::parse(&format!("qwedmcp_{}", "A".repeat(43))).unwrap();
    assert_eq!(store.authenticate(&unknown).unwrap(), None);
    for other in [
        String::new(),
        text[1..].to_owned(),
        format!("{text}A"),
        format!(" {}", &text[1..]),
        text.replace("qwedmcp_", "QWEDMCP_"),
        format!("{}=", &text[..50]),
        format!("{}+", &text[..50]),
        // The unused bits of the last base64 character are not zero.
        format!("qwedmcp_{}B", "A".repeat(42)),
        "€".repeat(17),
        "x".repeat(1_000_000),
    ] {
        assert!(Token::parse(&other).is_none(), "{other:.60}");
    }
    // No file contains the token.
    for file in fs::read_dir(folder.path()).unwrap() {
        let content = fs::read(file.unwrap().path()).unwrap();
        let holds = |part: &str| content.windows(part.len()).any(|found| found == part.as_bytes());
        assert!(!holds(&text) && !holds(&text[8..]) && !holds("qwedmcp_"));
    }
}

#[test]
fn user_names_are_short_and_plain() {
    for text in ["a", "ana.b_c-d@example.org", "0", &"x".repeat(64)] {
        assert_eq!(text.parse::<UserName>().unwrap().as_str(), text);
    }
    for text in ["", "a b", "a\n", "é", "a/b", "a'--", &"x".repeat(65)] {
        assert_eq!(text.parse::<UserName>(), Err(InvalidUserName), "{text:?}");
    }
}

#[test]
fn rows_have_what_was_appended_and_the_hash_of_the_row_before() {
    let (_folder, store) = store();
    store.append(&[]).unwrap();
    let anonymous = AuditEntry {
        user: None,
        arguments_hash: None,
        outcome: AuditOutcome::of("AUTH_REQUIRED"),
        ..entry(Uuid::from_u128(1), AuditEvent::McpToolCall)
    };
    let known = entry(Uuid::from_u128(2), AuditEvent::SandboxExec);
    store.append(&[anonymous, known]).unwrap();
    let rows = store.audit_rows(&AuditFilter { limit: 10, ..AuditFilter::default() }).unwrap();
    let age = Utc::now() - DateTime::parse_from_rfc3339(&rows[0].time).unwrap().to_utc();
    assert!((0..60).contains(&age.num_seconds()), "{}", rows[0].time);
    let expected = [
        AuditRow {
            instance: None,
            seq: 1,
            time: rows[0].time.clone(),
            run_id: "00000000-0000-0000-0000-000000000001".to_owned(),
            event: "MCP_TOOL_CALL".to_owned(),
            user: None,
            tool: "run_pytest".to_owned(),
            arguments_hash: None,
            outcome: "AUTH_REQUIRED".to_owned(),
            details: r#"{"duration_ms":12}"#.to_owned(),
            previous: NO_HASH.to_owned(),
            hash: rows[0].hash.clone(),
        },
        AuditRow {
            instance: None,
            seq: 2,
            time: rows[1].time.clone(),
            run_id: "00000000-0000-0000-0000-000000000002".to_owned(),
            event: "SANDBOX_EXEC".to_owned(),
            user: Some("ana".to_owned()),
            tool: "run_pytest".to_owned(),
            // SHA-256 of {}.
            arguments_hash: Some(
                "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a".to_owned(),
            ),
            outcome: "ALLOWED".to_owned(),
            details: r#"{"duration_ms":12}"#.to_owned(),
            previous: rows[0].hash.clone(),
            hash: rows[1].hash.clone(),
        },
    ];
    assert_eq!(rows, expected);
    let expected = AuditVerification {
        instances: Vec::new(),
        rows: 2,
        head: rows[1].hash.clone(),
        broken: None,
        known_head: None,
        unfinished: UnfinishedRuns::default(),
        tokens: Some(TokenComparison::default()),
        database: DatabaseFlaws::default(),
        clock: ClockSteps::default(),
    };
    assert_eq!(store.verify_audit(&[]).unwrap(), expected);
}

#[test]
fn what_clients_send_is_bounded() {
    let (_folder, store) = store();
    let mut long = entry(Uuid::nil(), AuditEvent::PolicyBlocked);
    long.tool = "é".repeat(1000);
    long.details = Map::from_iter([("text".to_owned(), json!("\"".repeat(100_000)))]);
    store.append(&[long]).unwrap();
    let rows = store.audit_rows(&AuditFilter { limit: 1, ..AuditFilter::default() }).unwrap();
    assert_eq!(rows[0].tool, "é".repeat(200));
    assert!(rows[0].details.len() <= 16 * 1024, "{}", rows[0].details.len());
    let details: Value = serde_json::from_str(&rows[0].details).unwrap();
    assert_eq!(details["omitted_bytes"], 200_011);
    assert!(store.verify_audit(&[]).unwrap().is_intact());
}

#[test]
fn rows_are_found_by_run_event_user_and_time() {
    let (_folder, store) = log_of(3);
    let other =
        AuditEntry { user: Some(user("bob")), ..entry(Uuid::nil(), AuditEvent::McpToolCall) };
    store.append(&[other]).unwrap();
    let any = AuditFilter { limit: 50, ..AuditFilter::default() };
    let ago = |seconds| Some(Utc::now() - TimeDelta::seconds(seconds));
    for (filter, expected) in [
        (any.clone(), vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (AuditFilter { limit: 2, ..any.clone() }, vec![9, 10]),
        (AuditFilter { run_id: Some(Uuid::from_u128(2).into()), ..any.clone() }, vec![4, 5, 6]),
        (AuditFilter { event: Some(AuditEvent::ToolFinished), ..any.clone() }, vec![3, 6, 9]),
        (AuditFilter { user: Some(user("bob")), ..any.clone() }, vec![10]),
        (AuditFilter { since: ago(60), limit: 1, ..any.clone() }, vec![10]),
        (AuditFilter { since: ago(-60), ..any.clone() }, vec![]),
        (AuditFilter { limit: 0, ..any }, vec![]),
    ] {
        let rows = store.audit_rows(&filter).unwrap();
        let found: Vec<_> = rows.into_iter().map(|row| row.seq).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
}

#[test]
fn runs_without_an_end_are_told() {
    let (_folder, store) = log_of(2);
    let started = |run| entry(Uuid::from_u128(run), AuditEvent::ToolStarted);
    let many: Vec<_> = (100..350).map(started).collect();
    store.append(&many).unwrap();
    // The run is listed once, although it has two rows about its start.
    store.append(&[started(100)]).unwrap();
    let unfinished = store.verify_audit(&[]).unwrap().unfinished;
    assert_eq!((unfinished.count, unfinished.runs.len()), (250, 100));
    assert_eq!(unfinished.runs[0], Uuid::from_u128(100).to_string());
}

#[test]
fn a_head_that_was_noted_stays_in_the_chain() {
    let (folder, store) = log_of(2);
    let known = hashes(&store);
    let ask = |store: &Store, head: &str| {
        let found = store.verify_audit(&[head.parse().unwrap()]).unwrap();
        (found.is_intact(), found.known_head.unwrap())
    };
    assert_eq!(ask(&store, NO_HASH), (true, KnownHead::Row(0)));
    assert_eq!(ask(&store, &known[3].to_uppercase()), (true, KnownHead::Row(4)));
    assert_eq!(ask(&store, &known[5]), (true, KnownHead::Row(6)));
    assert_eq!(ask(&store, &"f".repeat(64)), (false, KnownHead::Missing));
    for text in ["", "0", &"g".repeat(64), &"é".repeat(32), &"0".repeat(65)] {
        assert!(text.parse::<AuditHash>().is_err(), "{text}");
    }

    // A log that was rewritten from its start is a valid chain. Only the noted head reveals the change.
    drop(store);
    fs::remove_file(folder.path().join("governance.db")).unwrap();
    let store = Store::open(folder.path()).unwrap();
    store.append(&[entry(Uuid::nil(), AuditEvent::McpToolCall)]).unwrap();
    assert!(store.verify_audit(&[]).unwrap().is_intact());
    assert_eq!(ask(&store, &known[5]), (false, KnownHead::Missing));
}

#[test]
fn a_run_is_found_by_how_its_id_starts() {
    let (_folder, store) = store();
    let ids = ["0b7bd4f2-9a9e-4a52-8f0c-3c1d6a3c9a11", "0b7bd4f2-9a9e-4a52-8f0c-3c1d6a3c9a12"];
    for id in ids {
        store.append(&[entry(id.parse().unwrap(), AuditEvent::McpToolCall)]).unwrap();
    }
    for (text, expected) in [
        ("0b7bd4f2", vec![1, 2]),
        ("0B7BD4F2-9a9e-4A52-8f0c", vec![1, 2]),
        (ids[1], vec![2]),
        ("0b7bd4f3", vec![]),
    ] {
        let run_id = Some(text.parse().unwrap());
        let rows = store.audit_rows(&AuditFilter { limit: 9, run_id, ..AuditFilter::default() });
        let found: Vec<_> = rows.unwrap().into_iter().map(|row| row.seq).collect();
        assert_eq!(found, expected, "{text}");
    }
    for text in ["", "0b7bd4f", "0b7bd4f29", "0b7bd4f_", &format!("{}1", ids[0]), "0b7bd4f2-é"] {
        assert!(text.parse::<RunIdStart>().is_err(), "{text}");
    }
}

/// Returns the comparison of the tokens with the log, from the result of `verify_audit`.
#[track_caller]
fn compared(store: &Store) -> Value {
    let found = store.verify_audit(&[]).unwrap();
    let tokens = found.tokens.clone().unwrap();
    assert_eq!(found.is_intact(), tokens.flawed.is_empty());
    json!(tokens)
}

#[test]
fn tokens_are_made_and_revoked_with_a_row_each() {
    let (_folder, store) = store();
    let day = Duration::from_secs(86_400);
    let (ana, _) = store.create_token(&user("ana"), Role::Admin, None).unwrap();
    let (bob, token) = store.create_token(&user("bob"), Role::Viewer, Some(day)).unwrap();
    for expected in [Revoked::Now, Revoked::Before] {
        assert_eq!(store.revoke(ana.id).unwrap(), expected);
    }
    let ana = &store.tokens().unwrap()[0];
    let rows = store.audit_rows(&AuditFilter { limit: 9, ..AuditFilter::default() }).unwrap();
    let told: Vec<_> = rows
        .iter()
        .map(|row| [&row.event, &row.outcome, row.user.as_ref().unwrap(), &row.tool])
        .collect();
    let tool = "qwed-mcp token";
    let expected = [
        ["TOKEN_CREATED", "CREATED", "ana", tool],
        ["TOKEN_CREATED", "CREATED", "bob", tool],
        ["TOKEN_REVOKED", "REVOKED", "ana", tool],
    ];
    assert_eq!(told, expected);
    let details = |row: usize| serde_json::from_str::<Value>(&rows[row].details).unwrap();
    let sha256 = |row: usize| details(row)["sha256"].as_str().unwrap().to_owned();
    let expected = json!({
        "token": "1", "user": "ana", "role": "admin", "created": time_text(ana.created),
        "expires": null, "revoked": time_text(ana.revoked.unwrap()), "sha256": sha256(0),
    });
    assert_eq!(details(2), expected);
    let expected = json!({
        "token": "2", "user": "bob", "role": "viewer", "created": time_text(bob.created),
        "expires": time_text(bob.expires.unwrap()), "revoked": null,
        "sha256": hex::encode(sha2::Sha256::digest(token.reveal())),
    });
    assert_eq!(details(1), expected);
    assert_eq!(compared(&store), json!({ "same": 2, "older": [], "flawed": [] }));
}

#[test]
fn a_token_that_is_not_what_its_rows_say_is_found() {
    let flawed = |flaw: &str, columns: &[&str]| match columns {
        [] => json!({ "token": "1", "flaw": flaw }),
        columns => json!({ "token": "1", "flaw": flaw, "columns": columns }),
    };
    for (statement, expected) in [
        ("UPDATE tokens SET role = 'admin'", flawed("changed", &["role"])),
        ("UPDATE tokens SET expires = NULL", flawed("changed", &["expires"])),
        ("UPDATE tokens SET revoked = NULL", flawed("changed", &["revoked"])),
        (
            "UPDATE tokens SET user = 'eve', hash = zeroblob(32)",
            flawed("changed", &["user", "hash"]),
        ),
        ("DELETE FROM tokens", flawed("removed", &[])),
        (
            "INSERT INTO tokens SELECT 7, zeroblob(32), user, role, created, NULL, NULL FROM tokens",
            json!({ "token": "7", "flaw": "unrecorded" }),
        ),
    ] {
        let (folder, store) = store();
        let day = Duration::from_secs(86_400);
        let (token, _) = store.create_token(&user("ana"), Role::User, Some(day)).unwrap();
        store.revoke(token.id).unwrap();
        database(folder.path()).execute_batch(statement).unwrap();
        let found = compared(&store);
        assert_eq!(found["flawed"], json!([expected]), "{statement}");
        assert_eq!(found["older"], json!([]), "{statement}");
    }
}

#[test]
fn tokens_from_before_there_were_rows_about_them_are_told_as_such() {
    let (folder, store) = log_of(1);
    let old = "INSERT INTO tokens (hash, user, role, created, revoked) VALUES
               (randomblob(32), 'ana', 'admin', '2025-01-01T00:00:00.000000Z', NULL),
               (randomblob(32), 'bob', 'user', '2025-01-01T00:00:00.000000Z',
                '2025-01-02T00:00:00.000000Z')";
    database(folder.path()).execute_batch(old).unwrap();
    assert_eq!(compared(&store), json!({ "same": 0, "older": ["1", "2"], "flawed": [] }));

    // The first call appends a row about each old token. The second call appends nothing. With these rows, the
    // comparison of the tokens with the log finds later changes of the old tokens.
    store.record_older_tokens().unwrap();
    store.record_older_tokens().unwrap();
    store.create_token(&user("eve"), Role::Viewer, None).unwrap();
    let rows = store.audit_rows(&AuditFilter { limit: 9, ..AuditFilter::default() }).unwrap();
    let told: Vec<_> = rows[3..].iter().map(|row| (&*row.event, &*row.outcome)).collect();
    let created = |outcome| ("TOKEN_CREATED", outcome);
    assert_eq!(told, [created("FOUND"), created("FOUND"), created("CREATED")]);
    assert_eq!(compared(&store), json!({ "same": 3, "older": [], "flawed": [] }));
    database(folder.path()).execute_batch("UPDATE tokens SET revoked = NULL").unwrap();
    let flawed = json!([{ "token": "2", "flaw": "changed", "columns": ["revoked"] }]);
    assert_eq!(compared(&store)["flawed"], flawed);

    // If there is nothing to write, the call does not wait for another writer.
    let writer = database(folder.path());
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.record_older_tokens().unwrap();
    drop(writer);

    // Creating or revoking a token also writes the missing rows of old tokens.
    for is_made in [true, false] {
        let (folder, store) = log_of(1);
        database(folder.path()).execute_batch(old).unwrap();
        if is_made {
            store.create_token(&user("eve"), Role::Viewer, None).unwrap();
        } else {
            assert_eq!(store.revoke("1".parse().unwrap()).unwrap(), Revoked::Now);
        }
        let found = compared(&store);
        assert_eq!((&found["older"], &found["flawed"]), (&json!([]), &json!([])), "{is_made}");
    }
}

#[test]
fn a_schema_that_is_not_ours_is_told() {
    for (statements, expected) in [
        (
            "CREATE TRIGGER quiet AFTER INSERT ON audit BEGIN DELETE FROM tokens; END",
            vec!["the trigger quiet was not made by this program"],
        ),
        ("CREATE VIEW x AS SELECT 1", vec!["the view x was not made by this program"]),
        ("DROP TRIGGER audit_is_not_deleted", vec!["the trigger audit_is_not_deleted is missing"]),
        ("ALTER TABLE tokens ADD COLUMN note TEXT", vec!["the table tokens was changed"]),
        ("DROP INDEX audit_run", vec!["the index audit_run is missing"]),
        // The literal is not a comment: this trigger permits every deletion.
        (
            "DROP TRIGGER audit_is_not_deleted;
             CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit BEGIN
                 SELECT RAISE(ABORT, 'the audit log --') WHERE 0; SELECT (' is only ever appended to');
             END",
            vec!["the trigger audit_is_not_deleted was changed"],
        ),
        // This statement creates only SQLite's internal objects.
        ("ANALYZE", vec![]),
    ] {
        let (folder, store) = log_of(1);
        database(folder.path()).execute_batch(statements).unwrap();
        let found = store.verify_audit(&[]).unwrap();
        assert_eq!(found.database.schema, expected, "{statements}");
        assert_eq!((found.is_intact(), found.broken), (expected.is_empty(), None), "{statements}");
    }
}

#[test]
fn a_page_that_is_damaged_is_told_though_no_row_is_on_it() {
    let (folder, store) = log_of(1);
    store.create_token(&user("ana"), Role::Admin, None).unwrap();
    drop(store);
    let page: u32 = database(folder.path())
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'tokens'", [], |row| row.get(0))
        .unwrap();
    let file = folder.path().join("governance.db");
    let mut content = fs::read(&file).unwrap();
    let end = usize::try_from(page).unwrap() * 4096;
    content[end - 4096..end].fill(0);
    fs::write(&file, content).unwrap();
    let found = Store::open_existing(folder.path()).unwrap().verify_audit(&[]).unwrap();
    assert!(!found.database.damage.is_empty() && !found.is_intact(), "{found:?}");
    assert_eq!((found.broken, found.tokens), (None, None));
}

#[test]
fn what_sqlite_itself_finds_is_told() {
    let (folder, store) = log_of(1);
    store.create_token(&user("ana"), Role::User, None).unwrap();
    let statements = "PRAGMA ignore_check_constraints = ON; UPDATE tokens SET role = 'root'";
    database(folder.path()).execute_batch(statements).unwrap();
    let found = store.verify_audit(&[]).unwrap();
    assert_eq!(found.database.damage, ["CHECK constraint failed in tokens"]);
    assert!(!found.is_intact() && found.tokens.is_none(), "{found:?}");
}

#[test]
fn a_clock_that_was_set_back_is_told_and_is_no_tampering() {
    let (_folder, store) = store();
    let start: DateTime<Utc> = "2026-01-25T10:00:00Z".parse().unwrap();
    for seconds in [0, 100, 96, 95, 10, 11, -1_728_000, 0] {
        let time = time_text(start + TimeDelta::seconds(seconds));
        store.append_at(&entry(Uuid::nil(), AuditEvent::McpToolCall), &time).unwrap();
    }
    let found = store.verify_audit(&[]).unwrap();
    assert!(found.is_intact());
    let expected = json!({
        "count": 2,
        "rows": [{ "seq": 5, "seconds": 85 }, { "seq": 7, "seconds": 1_728_011 }],
    });
    assert_eq!(json!(found.clock), expected);
}

/// Removes all triggers, so that the database accepts statements that the triggers refuse.
fn without_triggers(folder: &Path) -> Connection {
    let connection = database(folder);
    let names: Vec<String> = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(names.len(), 5);
    for name in names {
        connection.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
    }
    connection
}

const COPIED: &str =
    "time, run_id, event, user, tool, arguments_hash, outcome, details, previous, hash";

/// Executes `statements` on a log of six rows. Checks that verification finds `flaw` at row `seq`.
#[track_caller]
fn check_tampering(statements: &str, seq: i64, flaw: Flaw) {
    let (folder, store) = log_of(2);
    without_triggers(folder.path()).execute_batch(statements).unwrap();
    let found = store.verify_audit(&[]).unwrap();
    assert_eq!(found.broken, Some(BrokenRow { seq, flaw }), "{statements}");
    assert!(!found.is_intact());
}

#[test]
fn removed_inserted_and_moved_rows_are_found() {
    let insert = |seq: &str, of: u32| {
        format!(
            "INSERT INTO audit (seq, {COPIED}) SELECT {seq}, {COPIED} FROM audit WHERE seq = {of}"
        )
    };
    let make_room = "UPDATE audit SET seq = -seq WHERE seq > 3;
                     UPDATE audit SET seq = 1 - seq WHERE seq < 0;";
    let swap = "UPDATE audit SET seq = -1 WHERE seq = 3; UPDATE audit SET seq = 3 WHERE seq = 4;
                UPDATE audit SET seq = 4 WHERE seq = -1;";
    let zeros = format!("'{NO_HASH}'");
    let cases = vec![
        ("DELETE FROM audit WHERE seq = 1".to_owned(), 1, Flaw::Removed),
        ("DELETE FROM audit WHERE seq = 3".to_owned(), 3, Flaw::Removed),
        ("DELETE FROM audit WHERE seq > 5".to_owned(), 6, Flaw::Removed),
        ("DELETE FROM audit".to_owned(), 1, Flaw::Removed),
        // Row 3 is removed, and the numbers of all later rows are reduced by one.
        (
            "DELETE FROM audit WHERE seq = 3; UPDATE audit SET seq = -seq WHERE seq > 3;
             UPDATE audit SET seq = -1 - seq WHERE seq < 0;"
                .to_owned(),
            3,
            Flaw::Changed,
        ),
        (swap.to_owned(), 3, Flaw::Changed),
        // The new value is not valid UTF-8.
        (
            "UPDATE audit SET run_id = CAST(x'80' AS TEXT) WHERE seq = 5".to_owned(),
            5,
            Flaw::Changed,
        ),
        ("UPDATE audit_head SET hash = CAST(x'80' AS TEXT)".to_owned(), 6, Flaw::Head),
        (insert("7", 6), 7, Flaw::Changed),
        (insert("0", 1), 0, Flaw::Inserted),
        (insert("-7", 1), -7, Flaw::Inserted),
        (insert("-9223372036854775808", 1), i64::MIN, Flaw::Inserted),
        (insert("9", 6), 7, Flaw::Removed),
        (format!("{make_room} {}", insert("4", 3)), 4, Flaw::Changed),
        (format!("UPDATE audit_head SET hash = {zeros}"), 6, Flaw::Head),
        ("UPDATE audit_head SET seq = 5".to_owned(), 6, Flaw::Inserted),
        ("UPDATE audit_head SET seq = 7".to_owned(), 7, Flaw::Removed),
        ("DELETE FROM audit_head".to_owned(), 6, Flaw::Head),
        // The last row is removed. The head has the number of the new last row, but not its hash.
        (
            "DELETE FROM audit WHERE seq = 6; UPDATE audit_head SET seq = 5".to_owned(),
            5,
            Flaw::Head,
        ),
    ];
    for (statements, seq, flaw) in cases {
        check_tampering(&statements, seq, flaw);
    }
}

#[test]
fn a_change_of_any_column_is_found() {
    let zeros = format!("'{NO_HASH}'");
    for (column, value) in [
        ("time", "'2020-01-01T00:00:00.000000Z'"),
        ("run_id", "'other'"),
        ("event", "'TOOL_FINISHED'"),
        ("user", "'bob'"),
        ("user", "NULL"),
        ("tool", "'get_evidence'"),
        ("arguments_hash", zeros.as_str()),
        ("arguments_hash", "NULL"),
        ("outcome", "'PASSED'"),
        ("details", "'{}'"),
        ("details", "details || ' '"),
        ("details", "CAST(x'80' AS TEXT)"),
        ("previous", zeros.as_str()),
        ("hash", zeros.as_str()),
    ] {
        let statement = format!("UPDATE audit SET {column} = {value} WHERE seq = 4");
        check_tampering(&statement, 4, Flaw::Changed);
    }
}

#[test]
fn a_row_with_the_largest_number_is_read_once() {
    let (folder, store) = store();
    store.append(&[entry(Uuid::from_u128(1), AuditEvent::McpToolCall)]).unwrap();
    let database = without_triggers(folder.path());
    database.execute_batch(&format!("UPDATE audit SET seq = {}", i64::MAX)).unwrap();
    let mut after = RowsAfter::nothing();
    let mut count = 0;
    for _ in 0..2 {
        let position = after.clone();
        store
            .for_each_row_after(&position, &mut |row| {
                count += 1;
                after.add_row(&row);
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
    }
    assert_eq!(count, 1);
    assert_eq!(RowsAfter::new(i64::MAX).next_of(None), None);
}

/// Programs that replace invalid UTF-8 read the new value as the old one.
#[test]
fn a_text_that_is_no_longer_utf_8_is_found() {
    let (folder, store) = store();
    let replaced = entry(Uuid::from_u128(1), AuditEvent::McpToolCall);
    store.append(&[AuditEntry { tool: "\u{FFFD}\u{FFFD}".to_owned(), ..replaced }]).unwrap();
    let database = without_triggers(folder.path());
    for value in ["CAST(x'80' AS TEXT)", "CAST(x'8080' AS TEXT)"] {
        database.execute_batch(&format!("UPDATE audit SET tool = {value}")).unwrap();
        let broken = store.verify_audit(&[]).unwrap().broken;
        assert_eq!(broken, Some(BrokenRow { seq: 1, flaw: Flaw::Changed }), "{value}");
    }
}

/// Changes a row, then computes new hashes for later rows and the head, as an attacker would to hide the change.
#[test]
fn tampering_with_new_hashes_is_found_where_it_ends() {
    let (folder, store) = log_of(2);
    let noted = store.verify_audit(&[]).unwrap().head;
    let mut rows = store.audit_rows(&AuditFilter { limit: 50, ..AuditFilter::default() }).unwrap();
    let database = without_triggers(folder.path());
    let write = |row: &AuditRow| {
        let update = "UPDATE audit SET outcome = ?2, previous = ?3, hash = ?4 WHERE seq = ?1";
        let values = rusqlite::params![row.seq, row.outcome, row.previous, row.hash];
        database.execute(update, values).unwrap();
    };
    let broken = || store.verify_audit(&[]).unwrap().broken;
    rows[3].outcome = "DENIED".to_owned();
    for (index, expected) in [(3, Flaw::Inserted), (4, Flaw::Inserted), (5, Flaw::Head)] {
        if index > 3 {
            rows[index].previous = rows[index - 1].hash.clone();
        }
        rows[index].hash = rows[index].content_hash();
        write(&rows[index]);
        // The row after the rewritten row is the first row that is not intact. If the rewritten row is the last row, it
        // is itself not intact, because it differs from the head of the log.
        let seq = i64::try_from(index).unwrap() + if expected == Flaw::Inserted { 2 } else { 1 };
        assert_eq!(broken(), Some(BrokenRow { seq, flaw: expected }));
    }
    database.execute("UPDATE audit_head SET hash = ?1", [&rows[5].hash]).unwrap();
    assert_eq!(broken(), None);
    // All later rows and the head were rewritten. Only a head that was noted before this change reveals the change.
    let known = noted.parse().unwrap();
    let found = store.verify_audit(&[known]).unwrap();
    assert_eq!(found.known_head, Some(KnownHead::Missing));
    assert!(!found.is_intact());
}

#[test]
fn the_database_refuses_what_is_no_append() {
    let (folder, store) = log_of(2);
    let database = database(folder.path());
    let copy = format!("SELECT 6, {COPIED} FROM audit WHERE seq = 5");
    for statement in [
        "UPDATE audit SET outcome = 'x' WHERE seq = 2",
        "UPDATE audit SET outcome = outcome",
        "DELETE FROM audit WHERE seq = 6",
        "DELETE FROM audit",
        "DELETE FROM audit_head",
        "UPDATE audit_head SET seq = 5",
        "UPDATE audit_head SET hash = 'x'",
        "INSERT INTO audit_head (one, seq, hash) VALUES (2, 0, '')",
        &format!("INSERT INTO audit (seq, {COPIED}) {copy}"),
        &format!("INSERT INTO audit (seq, {COPIED}) {}", copy.replace("SELECT 6", "SELECT 7")),
        &format!("INSERT OR REPLACE INTO audit (seq, {COPIED}) {copy}"),
        &format!("REPLACE INTO audit (seq, {COPIED}) {copy}"),
    ] {
        let error = database.execute_batch(statement).unwrap_err();
        let code = error.sqlite_error_code();
        assert_eq!(code, Some(rusqlite::ErrorCode::ConstraintViolation), "{statement}: {error}");
    }
    assert!(store.verify_audit(&[]).unwrap().is_intact());
}

/// Appends two rows at a time until the process is killed. Prints a line after the first append. This function is not a
/// test. The tests below start it in a separate process.
#[test]
#[ignore = "a part of other tests"]
#[expect(clippy::print_stdout, reason = "the test that started this waits for it")]
fn append_until_killed() {
    let Some(folder) = std::env::var_os("GOVERNANCE_TEST_FOLDER") else { return };
    let store = Store::open(Path::new(&folder)).unwrap();
    let start = Instant::now();
    // End after a minute, in case the test that started this process is gone.
    for run in (0..).take_while(|_| start.elapsed() < Duration::from_secs(60)) {
        let event = |event| entry(Uuid::from_u128(run), event);
        store.append(&[event(AuditEvent::ToolStarted), event(AuditEvent::ToolFinished)]).unwrap();
        if run == 0 {
            println!("appended");
        }
    }
}

/// Starts another process that appends, and waits until it has begun.
fn appender(folder: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["tests::append_until_killed", "--exact", "--ignored", "--nocapture"])
        .env("GOVERNANCE_TEST_FOLDER", folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| line.ends_with("appended")));
    child
}

#[test]
fn what_a_killed_process_appended_is_a_chain() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = 0;
    for round in 0..10 {
        let mut child = appender(folder.path());
        std::thread::sleep(Duration::from_millis(round * 7));
        child.kill().unwrap();
        child.wait().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let found = store.verify_audit(&[]).unwrap();
        assert!(found.is_intact(), "{found:?}");
        // An append of two rows has written both rows or none.
        assert_eq!((found.unfinished, found.rows % 2), (UnfinishedRuns::default(), 0));
        assert!(found.rows > rows);
        rows = found.rows;
        store
            .append(&[1, 2].map(|run| entry(Uuid::from_u128(run), AuditEvent::McpToolCall)))
            .unwrap();
        rows += 2;
    }
}

#[test]
fn threads_handles_and_processes_append_at_once() {
    const THREADS: u128 = 8;
    const ROWS_EACH: u128 = 200;
    // Append several rows at once, because each transaction waits for the disk.
    const TOGETHER: usize = 10;

    let folder = tempfile::tempdir().unwrap();
    let mut other_process = appender(folder.path());
    let handles = [Store::open(folder.path()).unwrap(), Store::open(folder.path()).unwrap()];
    std::thread::scope(|scope| {
        for (thread, store) in (1..=THREADS).zip(handles.iter().cycle()) {
            scope.spawn(move || {
                let ids = (0..ROWS_EACH).map(|row| Uuid::from_u128((thread << 64) + row));
                let entries: Vec<_> = ids.map(|id| entry(id, AuditEvent::McpToolCall)).collect();
                for together in entries.chunks(TOGETHER) {
                    store.append(together).unwrap();
                }
            });
        }
    });
    other_process.kill().unwrap();
    other_process.wait().unwrap();
    let [store, _] = handles;
    let found = store.verify_audit(&[]).unwrap();
    assert!(found.is_intact(), "{found:?}");

    // No row is lost, and the rows of each append are consecutive.
    let mut of_threads = Vec::new();
    store
        .for_each_row_after(&RowsAfter::nothing(), &mut |row| {
            if row.event == "MCP_TOOL_CALL" {
                of_threads.push(row.run_id);
            }
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    let distinct: BTreeSet<_> = of_threads.iter().collect();
    assert_eq!(distinct.len(), usize::try_from(THREADS * ROWS_EACH).unwrap());
    for together in of_threads.chunks(TOGETHER) {
        let first: Uuid = together[0].parse().unwrap();
        let expected: Vec<_> =
            (0..10).map(|row| Uuid::from_u128(first.as_u128() + row).to_string()).collect();
        assert_eq!(together, expected);
    }
    assert!(u128::from(found.rows) > THREADS * ROWS_EACH);
}

#[test]
fn what_is_written_together_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = SqliteStore::open(folder.path()).unwrap();
    let store = Store::from(sqlite.clone());
    store.create_token(&user("ana"), Role::Admin, None).unwrap();
    // The following jobs wait until the first job ends, and then are written as one group.
    let (go, wait) = std::sync::mpsc::channel();
    let first = sqlite.submit(move |_| {
        wait.recv().unwrap();
        Ok(())
    });
    let before = store.submit_entries(vec![entry(Uuid::from_u128(1), AuditEvent::McpToolCall)]);
    let wrong = sqlite.submit(|transaction| {
        transaction.execute("UPDATE tokens SET user = 'nobody'", [])?;
        transaction.execute("DELETE FROM audit_head", [])
    });
    let panics = sqlite.submit(|transaction| -> rusqlite::Result<()> {
        transaction.execute("UPDATE tokens SET user = 'nobody'", [])?;
        panic!("a defect");
    });
    let behind = store.submit_entries(vec![entry(Uuid::from_u128(2), AuditEvent::McpToolCall)]);
    go.send(()).unwrap();
    first.wait().unwrap();
    before.wait().unwrap();
    assert!(matches!(wrong.wait(), Err(StoreError::Access { .. })));
    assert!(matches!(panics.wait(), Err(StoreError::GivenUp)));
    behind.wait().unwrap();
    let found = store.verify_audit(&[]).unwrap();
    // The third row is about the token.
    assert!(found.is_intact() && found.rows == 3, "{found:?}");
    assert_eq!(store.tokens().unwrap()[0].user, user("ana"));
}

#[test]
fn nothing_is_written_to_a_log_that_was_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let entry = [entry(Uuid::nil(), AuditEvent::McpToolCall)];
    store.append(&entry).unwrap();
    fs::remove_file(folder.path().join("governance.db-wal")).unwrap();
    for _ in 0..2 {
        let error = store.append(&entry).unwrap_err();
        assert!(matches!(error, StoreError::Replaced { .. }), "{error}");
    }
}

#[test]
fn a_store_that_is_closed_waits_for_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let other = Connection::open(folder.path().join("governance.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let pending = store.submit_entries(vec![entry(Uuid::nil(), AuditEvent::McpToolCall)]);
    let started = Instant::now();
    drop(store);
    assert!(matches!(pending.wait(), Err(StoreError::Locked { .. })));
    let busy_timeout = Duration::from_secs(10);
    assert!(started.elapsed() < busy_timeout, "who waits, waits that long at least");
}

/// Measures an append of two entries: `cargo test --release --lib append_takes -- --ignored
/// --nocapture`.
#[test]
#[ignore = "a measurement"]
#[expect(clippy::print_stdout, reason = "the result of a measurement")]
fn append_takes() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let store = Store::open(folder.path()).unwrap();
    let mut times: Vec<_> = (0..500)
        .map(|run| {
            let event = |event| entry(Uuid::from_u128(run), event);
            let start = Instant::now();
            store
                .append(&[event(AuditEvent::McpToolCall), event(AuditEvent::ToolStarted)])
                .unwrap();
            start.elapsed()
        })
        .collect();
    times.sort();
    println!("median {:?}, 95 % {:?}, longest {:?}", times[250], times[475], times[499]);
}

#[test]
fn each_flaw_alone_makes_a_log_not_intact() {
    let (_folder, store) = log_of(1);
    let intact = store.verify_audit(&[]).unwrap();
    assert!(intact.is_intact());
    let broken = Some(BrokenRow { seq: 1, flaw: Flaw::Changed });
    assert!(!AuditVerification { broken, ..intact.clone() }.is_intact());
    let known_head = Some(KnownHead::Missing);
    assert!(!AuditVerification { known_head, ..intact.clone() }.is_intact());
    let database = DatabaseFlaws { damage: vec!["x".to_owned()], schema: Vec::new() };
    assert!(!AuditVerification { database, ..intact.clone() }.is_intact());
    let database = DatabaseFlaws { damage: Vec::new(), schema: vec!["x".to_owned()] };
    assert!(!AuditVerification { database, ..intact }.is_intact());
}

#[test]
fn nothing_behind_a_flaw_is_a_witness() {
    let (folder, store) = log_of(2);
    store.create_token(&user("ana"), Role::User, None).unwrap();
    let good = hashes(&store);
    let connection = without_triggers(folder.path());
    connection.execute_batch("UPDATE audit SET outcome = 'DENIED' WHERE seq = 4").unwrap();
    let known = good[5].parse().unwrap();
    let found = store.verify_audit(&[known]).unwrap();
    assert_eq!((found.rows, &found.head), (7, &good[2]), "the head is the last good row's");
    assert_eq!((found.known_head, found.tokens), (Some(KnownHead::Missing), None));
    assert!(format!("{}g", "0".repeat(63)).parse::<AuditHash>().is_err());
}

#[test]
fn of_steps_of_the_clock_all_are_counted_and_some_are_named() {
    let (_folder, store) = store();
    let start: DateTime<Utc> = "2026-01-25T10:00:00Z".parse().unwrap();
    for step in 0..30 {
        // Every second row is five or six seconds older than the previous row. A step of five seconds is within the
        // tolerance, so it is not counted.
        let back = if step < 3 { 5 } else { 6 };
        for seconds in [back, 0] {
            let time = time_text(start + TimeDelta::seconds(seconds));
            store.append_at(&entry(Uuid::nil(), AuditEvent::McpToolCall), &time).unwrap();
        }
    }
    let clock = store.verify_audit(&[]).unwrap().clock;
    assert_eq!((clock.count, clock.rows.len()), (27, 20));
    assert!(clock.rows.iter().all(|step| step.seconds == 6), "{clock:?}");
}

#[test]
fn only_rows_about_tokens_tell_of_tokens() {
    let (_folder, store) = store();
    let (token, _) = store.create_token(&user("ana"), Role::User, None).unwrap();
    let rows = store.audit_rows(&AuditFilter { limit: 1, ..AuditFilter::default() }).unwrap();
    let mut details: Map<String, Value> = serde_json::from_str(&rows[0].details).unwrap();
    details["role"] = json!("admin");
    let lie = AuditEntry { details, ..entry(Uuid::nil(), AuditEvent::McpToolCall) };
    store.append(&[lie]).unwrap();
    assert_eq!(compared(&store), json!({ "same": 1, "older": [], "flawed": [] }));
    assert_eq!(token.id.to_string(), "1");
}

#[test]
fn nothing_to_append_waits_for_nobody_and_details_have_a_last_length() {
    let (folder, store) = store();
    let other = database(folder.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.append(&[]).unwrap();
    drop(other);
    for (length, is_whole) in [(16 * 1024, true), (16 * 1024 + 1, false)] {
        let text = "x".repeat(length - r#"{"text":""}"#.len());
        let details = Map::from_iter([("text".to_owned(), json!(text))]);
        store
            .append(&[AuditEntry { details, ..entry(Uuid::nil(), AuditEvent::PolicyBlocked) }])
            .unwrap();
        let rows = store.audit_rows(&AuditFilter { limit: 1, ..AuditFilter::default() }).unwrap();
        assert_eq!(rows[0].details.len() == length, is_whole, "{length}");
        assert_eq!(rows[0].details.contains("omitted_bytes"), !is_whole, "{length}");
    }
}

#[test]
fn a_hidden_trigger_is_told() {
    let (folder, store) = log_of(1);
    let connection = database(folder.path());
    let statements = "CREATE TRIGGER quiet AFTER INSERT ON audit BEGIN DELETE FROM tokens; END;
                      PRAGMA writable_schema = ON;
                      UPDATE sqlite_schema SET name = 'sqlite_quiet', sql = replace(sql, 'quiet', 'sqlite_quiet')
                      WHERE name = 'quiet'";
    connection.execute_batch(statements).unwrap();
    drop(connection);
    let found = store.verify_audit(&[]).unwrap();
    assert_eq!(found.database.schema, ["the trigger sqlite_quiet was not made by this program"]);
}

#[test]
fn the_log_tells_of_a_run_how_it_began_and_how_it_first_ended() {
    let (_folder, store) = store();
    let run_id = Uuid::from_u128(7);
    let recorded = || store.recorded_run(run_id).unwrap();
    assert_eq!(recorded(), RecordedRun::default());
    assert_eq!(recorded().evidence, RecordedEvidence::NoRun);
    store.append(&[entry(run_id, AuditEvent::ToolStarted)]).unwrap();
    let began = recorded();
    assert_eq!((began.user.as_deref(), began.tool.as_deref()), (Some("ana"), Some("run_pytest")));
    assert_eq!((began.has_end(), &began.evidence), (false, &RecordedEvidence::NoEnd));
    for (word, sha256) in [("PASSED", "a"), ("FAILED", "b")] {
        let details = Map::from_iter([(EVIDENCE_SHA256.to_owned(), json!(sha256))]);
        let outcome = AuditOutcome::of(word);
        let end = AuditEntry { outcome, details, ..entry(run_id, AuditEvent::ToolFinished) };
        store.append(&[end, entry(run_id, AuditEvent::ToolStarted)]).unwrap();
        let ended = recorded();
        assert_eq!(ended.outcome.as_deref(), Some("PASSED"), "the first end is the run's own");
        assert_eq!(ended.evidence, RecordedEvidence::Sha256("a".to_owned()));
        assert!(ended.has_end() && !ended.is_removed);
    }
    store.append(&[entry(run_id, AuditEvent::ArtifactsRemoved)]).unwrap();
    assert!(recorded().is_removed && recorded().has_end());
}

#[test]
fn tokens_of_an_older_store_are_watched_from_when_it_is_opened_to_write() {
    let (folder, store) = log_of(1);
    let old = "INSERT INTO tokens (hash, user, role, created, revoked) VALUES
               (randomblob(32), 'ana', 'admin', '2025-01-01T00:00:00.000000Z', NULL)";
    database(folder.path()).execute_batch(old).unwrap();
    store.record_older_tokens().unwrap();
    assert_eq!(compared(&store), json!({ "same": 1, "older": [], "flawed": [] }));
    database(folder.path()).execute_batch("UPDATE tokens SET user = 'eve'").unwrap();
    assert_eq!(compared(&store)["flawed"][0]["flaw"], "changed");
}
