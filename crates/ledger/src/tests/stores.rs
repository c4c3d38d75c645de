//! Tests every kind of store: the embedded store, and the store that replicas share, in a real PostgreSQL.

use std::error::Error;
use std::iter::successors;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use super::*;
use crate::audit::LoggedRun;
use crate::audit::Quota;
use crate::postgres::scratch::{self, Postgres};
use crate::secret::Secret;
use crate::store::RowsAfter;

/// The location of a store, for two servers.
struct Shared {
    /// The data folders of the two servers. Both servers of an embedded store use the first folder.
    folders: [TempDir; 2],
    url: Option<Secret>,
}

impl Shared {
    fn embedded() -> Self {
        Self { folders: folders(), url: None }
    }

    fn in_postgres(server: &Postgres) -> Self {
        Self { folders: folders(), url: Some(server.database().into()) }
    }

    /// Returns a store of each kind. Leaves out PostgreSQL if it is not installed. In CI, it must be installed.
    fn all() -> Vec<Self> {
        let has_postgres = scratch::programs().is_some() || std::env::var_os("CI").is_some();
        let postgres = has_postgres.then(|| Self::in_postgres(scratch::shared()));
        [Self::embedded()].into_iter().chain(postgres).collect()
    }

    /// Opens the store as the server with this number.
    fn open(&self, server: usize) -> Store {
        self.try_open(server).unwrap()
    }

    fn try_open(&self, server: usize) -> Result<Store, StoreError> {
        let is_embedded = self.url.is_none();
        let folder = &self.folders[if is_embedded { 0 } else { server }];
        StorePlace::new(folder.path(), self.url.as_ref()).open()
    }

    /// Returns the store in the database at `url`. Servers connect to the database as `role`.
    fn as_role(url: &str, role: &str) -> Self {
        Self { folders: folders(), url: Some(url.replace("qwed@", &format!("{role}@")).into()) }
    }

    fn kind(&self) -> &'static str {
        if self.url.is_some() { "PostgreSQL" } else { "SQLite" }
    }

    /// Changes the tables with the rights of their owner, and bypasses the triggers.
    fn tamper(&self, server: &Postgres, sql: &str) {
        let url = self.url.as_ref().unwrap().reveal();
        server.sql(url, &format!("SET session_replication_role = replica; {sql}"));
    }
}

/// Makes an empty database with the roles that `deploy/postgres.sql` makes, and returns its URL.
fn database_with_roles(server: &Postgres) -> String {
    // All databases of a server share the roles. Without this lock, two tests could create the roles at the same time.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let url = server.database();
    server.sql(&url, include_str!("../../../../deploy/postgres.sql"));
    url
}

fn folders() -> [TempDir; 2] {
    [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()]
}

fn all_rows(store: &Store) -> Vec<AuditRow> {
    let mut rows = Vec::new();
    let mut each = |row| {
        rows.push(row);
        ControlFlow::Continue(())
    };
    store.for_each_row_after(&RowsAfter::new(0), &mut each).unwrap();
    rows
}

#[test]
fn a_token_is_worth_the_same_to_all_servers() {
    for shared in Shared::all() {
        let (here, there) = (shared.open(0), shared.open(1));
        let hour = Some(Duration::from_secs(3600));
        let (ana, ana_token) = here.create_token(&user("ana"), Role::Admin, hour).unwrap();
        let caller = |record: &TokenRecord| {
            Some(Caller {
                user: record.user.clone(),
                role: record.role,
                proof: Proof::Token(record.id),
            })
        };
        for store in [&here, &there] {
            assert_eq!(store.tokens().unwrap(), std::slice::from_ref(&ana), "{}", shared.kind());
            assert_eq!(store.authenticate(&ana_token).unwrap(), caller(&ana));
            let late = ana.expires.unwrap();
            assert_eq!(store.authenticate_at(&ana_token, late).unwrap(), None);
            let before = late - TimeDelta::microseconds(1);
            assert_eq!(store.authenticate_at(&ana_token, before).unwrap(), caller(&ana));
        }
        let unknown = Token::parse(&format!("qwedmcp_{}", "A".repeat(43))).unwrap();
        assert_eq!(there.authenticate(&unknown).unwrap(), None);

        // The other server replaces the token. The replaced token is invalid on this server at once.
        let Rotated::Now(new, new_token) = there.rotate_token(ana.id, None).unwrap() else {
            panic!("{}", shared.kind())
        };
        assert_eq!(here.authenticate(&ana_token).unwrap(), None);
        assert_eq!(here.authenticate(&new_token).unwrap(), caller(&new));
        assert_eq!(new.expires.unwrap() - new.created, TimeDelta::hours(1));
        assert!(matches!(here.rotate_token(ana.id, None).unwrap(), Rotated::Revoked));
        let nobody = "77".parse().unwrap();
        assert!(matches!(here.rotate_token(nobody, None).unwrap(), Rotated::Unknown));
        for (id, expected) in
            [(new.id, Revoked::Now), (new.id, Revoked::Before), (nobody, Revoked::Unknown)]
        {
            assert_eq!(here.revoke(id).unwrap(), expected, "{}", shared.kind());
        }
        assert_eq!(there.authenticate(&new_token).unwrap(), None);

        // The log has all of these changes, and the table of tokens matches the log.
        let found = there.verify_audit(&[]).unwrap();
        assert!(found.is_intact() && found.rows == 4, "{}: {found:?}", shared.kind());
        assert_eq!(found.tokens.unwrap().same, 2);
        let mut events: Vec<_> = all_rows(&here).into_iter().map(|row| row.event).collect();
        events.sort();
        assert_eq!(events, ["TOKEN_CREATED", "TOKEN_CREATED", "TOKEN_REVOKED", "TOKEN_REVOKED"]);
    }
}

#[test]
fn the_last_use_of_a_token_is_its_last_call() {
    for shared in Shared::all() {
        let (here, there) = (shared.open(0), shared.open(1));
        let used = |token: Value| AuditEntry {
            details: Map::from_iter([
                ("asked".to_owned(), json!("\"token\":\"9\"")),
                ("token".to_owned(), token),
            ]),
            ..entry(Uuid::from_u128(1), AuditEvent::McpToolCall)
        };
        for (store, token, time) in [
            (&here, json!("1"), "2026-01-25T10:00:00.000000Z"),
            (&there, json!("1"), "2026-01-25T11:00:00.000000Z"),
            (&here, json!("2"), "2026-01-25T12:00:00.000000Z"),
            (&here, json!(3), "2026-01-25T12:00:00.000000Z"),
        ] {
            store.append_at(&used(token), time).unwrap();
        }
        let found: Vec<_> = here.last_uses().unwrap().into_iter().collect();
        let expected = [("1", "2026-01-25T11:00:00.000000Z"), ("2", "2026-01-25T12:00:00.000000Z")];
        assert_eq!(
            found,
            expected.map(|(id, time)| (id.to_owned(), time.to_owned())),
            "{}",
            shared.kind()
        );
    }
}

#[test]
fn rows_are_read_as_they_were_appended() {
    for shared in Shared::all() {
        let store = shared.open(0);
        store.append(&[]).unwrap();
        let odd = AuditEntry {
            user: None,
            arguments_hash: None,
            tool: "a\0\u{202e}é'\"\\{},NULL".to_owned(),
            ..entry(Uuid::from_u128(1), AuditEvent::PolicyBlocked)
        };
        let place = store.submit_entries(vec![odd.clone(), odd]).wait().unwrap();
        let many: Vec<_> =
            (0..2500).map(|run| entry(Uuid::from_u128(run + 2), AuditEvent::ToolStarted)).collect();
        store.append(&many).unwrap();
        let rows = all_rows(&store);
        assert_eq!(rows.len(), 2502, "{}", shared.kind());
        assert_eq!((place.seq, &place.hash), (2, &rows[1].hash));
        assert!(
            rows.iter().zip(1..).all(|(row, seq)| row.seq == seq && row.hash == row.content_hash())
        );
        assert!(rows.windows(2).all(|pair| pair[1].previous == pair[0].hash));
        let (first, last) = (&rows[0], &rows[2501]);
        assert_eq!((&first.user, &first.arguments_hash), (&None, &None));
        assert!(
            first.tool.starts_with('a') && first.tool.ends_with("é'\"\\{},NULL"),
            "{}",
            first.tool
        );
        assert_eq!((last.user.as_deref(), last.outcome.as_str()), (Some("ana"), "ALLOWED"));
        assert_eq!(first.instance.is_some(), shared.url.is_some());

        // Rows that were read before are not read again.
        let mut seen = RowsAfter::new(0);
        rows.iter().take(2400).for_each(|row| seen.add_row(row));
        let mut rest = Vec::new();
        let mut each = |row: AuditRow| {
            rest.push(row.seq);
            if rest.len() < 50 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        store.for_each_row_after(&seen, &mut each).unwrap();
        assert_eq!(rest, (2401..=2450).collect::<Vec<_>>(), "{}", shared.kind());

        let any = AuditFilter { limit: 3, ..AuditFilter::default() };
        let ago = |seconds| Some(Utc::now() - TimeDelta::seconds(seconds));
        for (filter, expected) in [
            (any.clone(), vec![2500, 2501, 2502]),
            (AuditFilter { run_id: Some(Uuid::from_u128(1).into()), ..any.clone() }, vec![1, 2]),
            (
                AuditFilter { run_id: Some("00000000".parse().unwrap()), ..any.clone() },
                vec![2500, 2501, 2502],
            ),
            (AuditFilter { event: Some(AuditEvent::PolicyBlocked), ..any.clone() }, vec![1, 2]),
            (AuditFilter { user: Some(user("bob")), ..any.clone() }, vec![]),
            (AuditFilter { since: ago(60), limit: 1, ..any.clone() }, vec![2502]),
            (AuditFilter { since: ago(-60), ..any.clone() }, vec![]),
        ] {
            let found = store.audit_rows(&filter).unwrap();
            let found: Vec<_> = found.into_iter().map(|row| row.seq).collect();
            assert_eq!(found, expected, "{}: {filter:?}", shared.kind());
        }
        let noted = rows[1000].hash.parse().unwrap();
        let found = store.verify_audit(&[noted]).unwrap();
        assert!(found.is_intact() && found.known_head == Some(KnownHead::Row(1001)), "{found:?}");
        let found = store.verify_audit(&["f".repeat(64).parse().unwrap()]).unwrap();
        assert_eq!(found.known_head, Some(KnownHead::Missing));
        assert_eq!((found.unfinished.count, found.unfinished.runs.len()), (2500, 100));
    }
}

#[test]
fn a_quota_holds_over_all_servers() {
    for shared in Shared::all() {
        let servers = [shared.open(0), shared.open(1)];
        let run = |user: &UserName| {
            let call = AuditEntry {
                user: Some(user.clone()),
                ..entry(Uuid::new_v4(), AuditEvent::McpToolCall)
            };
            vec![call.clone(), AuditEntry { event: AuditEvent::ToolStarted, ..call }]
        };
        let now = Utc::now();
        let yesterday = time_text(now - TimeDelta::days(1));
        servers[0].append_at(&run(&user("ana"))[0], &yesterday).unwrap();
        let pending: Vec<_> = (0..60)
            .map(|turn| {
                let user = user(if turn % 3 == 0 { "bob" } else { "ana" });
                let quota = Quota { user: user.clone(), runs_max: 7 };
                servers[turn % 2].submit_within(run(&user), quota)
            })
            .collect();
        let places: Vec<_> = pending.into_iter().map(|it| it.wait().unwrap()).collect();
        assert_eq!(places.iter().flatten().count(), 14, "{}", shared.kind());
        for name in ["ana", "bob"] {
            assert_eq!(servers[1].runs_of_day(&user(name)).unwrap(), 7, "{}", shared.kind());
        }
        let found = servers[0].verify_audit(&[]).unwrap();
        assert!(found.is_intact() && found.rows == 29, "{found:?}");
    }
}

#[test]
fn an_append_that_is_tried_leaves_no_row() {
    for shared in Shared::all() {
        let store = shared.open(0);
        store.rehearse_append().unwrap();
        store.append(&[entry(Uuid::nil(), AuditEvent::McpToolCall)]).unwrap();
        store.rehearse_append().unwrap();
        assert_eq!(all_rows(&store).len(), 1, "{}", shared.kind());
        let found = store.verify_audit(&[]).unwrap();
        assert!(found.is_intact(), "{}: {found:?}", shared.kind());
    }
}

#[test]
fn the_log_tells_what_became_of_runs() {
    for shared in Shared::all() {
        let (here, there) = (shared.open(0), shared.open(1));
        let of = |run: u128, event| entry(Uuid::from_u128(run), event);
        let ended = |run, hash: Value| AuditEntry {
            outcome: AuditOutcome::of("PASSED"),
            details: Map::from_iter([(EVIDENCE_SHA256.to_owned(), hash)]),
            ..of(run, AuditEvent::ToolFinished)
        };
        here.append(&[of(1, AuditEvent::McpToolCall), of(1, AuditEvent::ToolStarted)]).unwrap();
        here.append(&[
            ended(1, json!("aa")),
            of(2, AuditEvent::ToolStarted),
            ended(2, json!(null)),
        ])
        .unwrap();
        here.append(&[ended(3, json!("cc")), of(3, AuditEvent::ArtifactsRemoved)]).unwrap();
        here.append(&[ended(4, json!("dd"))]).unwrap();

        let run = here.recorded_run(Uuid::from_u128(1)).unwrap();
        let expected = RecordedRun {
            user: Some("ana".to_owned()),
            tool: Some("run_pytest".to_owned()),
            outcome: Some("PASSED".to_owned()),
            evidence: RecordedEvidence::Sha256("aa".to_owned()),
            is_removed: false,
            elsewhere: None,
        };
        assert_eq!(run, expected, "{}", shared.kind());
        // The other server does not have the files of this run, but returns the name of the server that has the files.
        let seen = there.recorded_run(Uuid::from_u128(1)).unwrap();
        assert_eq!(seen.elsewhere.is_some(), shared.url.is_some());
        assert_eq!(RecordedRun { elsewhere: None, ..seen }, expected);
        let none = here.recorded_run(Uuid::from_u128(9)).unwrap();
        assert_eq!(none, RecordedRun::default());
        assert_eq!(here.recorded_call(Uuid::from_u128(1)).unwrap().as_deref(), Some("ALLOWED"));
        assert_eq!(here.recorded_call(Uuid::from_u128(2)).unwrap(), None);
        assert_eq!(here.removed_runs().unwrap(), 1);
        let logged = here.logged_runs(&[3, 9, 1].map(Uuid::from_u128)).unwrap();
        let known = |seq, is_removed| LoggedRun { seq: Some(seq), has_ended: true, is_removed };
        assert_eq!(logged, [known(6, true), LoggedRun::default(), known(3, false)]);

        let mut found = Vec::new();
        let mut each = |run: Uuid| {
            found.push(run.as_u128());
            ControlFlow::Break(())
        };
        let last = here.runs_with_evidence(0, &mut each).unwrap();
        assert_eq!(last, Some(3));
        assert_eq!(here.runs_with_evidence(3, &mut each).unwrap(), Some(8));
        assert_eq!(here.runs_with_evidence(8, &mut each).unwrap(), None);
        assert_eq!(found, [1, 4], "{}", shared.kind());
    }
}

#[test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
fn servers_append_at_once_each_to_its_chain() {
    const EACH: u128 = 300;
    let shared = Shared::in_postgres(scratch::shared());
    // Two of the servers have the same data folder, so they append to the same chain.
    let servers = [shared.open(0), shared.open(1), shared.open(1)];
    std::thread::scope(|scope| {
        for (server, store) in (0_u128..).zip(&servers) {
            for half in 0..2 {
                scope.spawn(move || {
                    for run in 0..EACH / 2 {
                        let run = Uuid::from_u128(run + half * 1000 + server * 10_000);
                        let event = |event| entry(run, event);
                        let together =
                            [event(AuditEvent::McpToolCall), event(AuditEvent::ToolFinished)];
                        store.append(&together).unwrap();
                    }
                });
            }
        }
    });
    let found = servers[0].verify_audit(&[]).unwrap();
    assert!(found.is_intact(), "{found:?}");
    let mut rows: Vec<_> = found.instances.iter().map(|chain| chain.rows).collect();
    rows.sort_unstable();
    assert_eq!(rows, [600, 1200]);
    assert_eq!(found.rows, 1800);
    for chain in &found.instances {
        assert!(found.head != chain.head && chain.head.len() == 64, "{found:?}");
    }
    // The rows of one call are consecutive.
    let rows = all_rows(&servers[0]);
    assert!(rows.chunks(2).all(|pair| pair[0].run_id == pair[1].run_id));
}

#[test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
fn a_changed_byte_of_any_row_is_found_with_its_chain() {
    let server = scratch::shared();
    for (sql, flaw) in [
        ("UPDATE audit SET time = overlay(time placing '3' from 1)", Flaw::Changed),
        ("UPDATE audit SET run_id = overlay(run_id placing 'f' from 36)", Flaw::Changed),
        ("UPDATE audit SET event = event || ' '", Flaw::Changed),
        ("UPDATE audit SET user_name = 'anb'", Flaw::Changed),
        ("UPDATE audit SET user_name = NULL", Flaw::Changed),
        ("UPDATE audit SET tool = 'run_pytesT'", Flaw::Changed),
        ("UPDATE audit SET arguments_hash = NULL", Flaw::Changed),
        ("UPDATE audit SET outcome = 'DENIED'", Flaw::Changed),
        ("UPDATE audit SET details = replace(details, '12', '13')", Flaw::Changed),
        ("UPDATE audit SET previous = overlay(previous placing 'g' from 1)", Flaw::Changed),
        ("UPDATE audit SET hash = overlay(hash placing 'g' from 64)", Flaw::Changed),
        ("DELETE FROM audit", Flaw::Removed),
    ] {
        let shared = Shared::in_postgres(server);
        let stores = [shared.open(0), shared.open(1)];
        for store in &stores {
            let event = |event| entry(Uuid::from_u128(1), event);
            let entries =
                [AuditEvent::McpToolCall, AuditEvent::ToolStarted, AuditEvent::ToolFinished];
            store.append(&entries.map(event)).unwrap();
        }
        let before = stores[0].verify_audit(&[]).unwrap();
        assert!(before.is_intact(), "{before:?}");
        let instance = all_rows(&stores[1])[3].instance.clone().unwrap();
        let sql = sql.replace("audit", "qwed_mcp.audit");
        shared.tamper(server, &format!("{sql} WHERE seq = 2 AND instance = '{instance}'"));
        let found = stores[0].verify_audit(&[]).unwrap();
        assert!(!found.is_intact(), "{sql}");
        for chain in found.instances {
            let expected = (chain.instance == instance).then_some(BrokenRow { seq: 2, flaw });
            assert_eq!(chain.broken, expected, "{sql}");
        }
        assert_eq!(found.tokens, None);
    }
}

#[test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
fn what_is_done_to_whole_chains_tokens_and_triggers_is_found() {
    let server = scratch::shared();
    for (sql, expected) in [
        // These statements remove rows of a chain, or remove or change its head.
        ("DELETE FROM qwed_mcp.audit WHERE seq = 3", "Removed"),
        ("DELETE FROM qwed_mcp.audit", "Removed"),
        ("DELETE FROM qwed_mcp.audit_heads", "Head"),
        ("UPDATE qwed_mcp.audit_heads SET hash = repeat('a', 64)", "Head"),
        // This statement moves all rows to another instance, which had no rows.
        (
            "UPDATE qwed_mcp.audit SET instance = 'x'; UPDATE qwed_mcp.audit_heads SET instance = 'x'",
            "Changed",
        ),
        ("UPDATE qwed_mcp.tokens SET role = 'admin'", "role"),
        ("UPDATE qwed_mcp.tokens SET revoked = NULL", "revoked"),
        ("DELETE FROM qwed_mcp.tokens", "Removed"),
        (
            "INSERT INTO qwed_mcp.tokens (hash, user_name, role, created)
             SELECT sha256('x'), user_name, role, created FROM qwed_mcp.tokens",
            "Unrecorded",
        ),
        ("ALTER TABLE qwed_mcp.audit DISABLE TRIGGER audit_is_not_changed", "was disabled"),
        ("DROP TRIGGER audit_heads_stay ON qwed_mcp.audit_heads", "is missing"),
    ] {
        let shared = Shared::in_postgres(server);
        let store = shared.open(0);
        let (ana, _) = store.create_token(&user("ana"), Role::User, None).unwrap();
        store.revoke(ana.id).unwrap();
        store.append(&[entry(Uuid::nil(), AuditEvent::McpToolCall)]).unwrap();
        let before = store.verify_audit(&[]).unwrap();
        assert!(before.is_intact() && before.tokens.as_ref().unwrap().same == 1, "{before:?}");
        shared.tamper(server, sql);
        let found = store.verify_audit(&[]).unwrap();
        assert!(!found.is_intact(), "{sql}");
        let told = format!("{:?} {:?} {:?}", found.broken, found.tokens, found.database);
        assert!(told.contains(expected), "{sql}: {told}");
    }
}

#[test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
fn the_database_itself_refuses_what_is_no_append() {
    let server = scratch::shared();
    let url = database_with_roles(server);
    let database = url.rsplit('/').next().unwrap();
    let as_role = |role: &str| Shared::as_role(&url, role);
    // The servers cannot use the database before the owner has created the tables.
    let error = as_role("qwed_server").try_open(0).unwrap_err();
    assert!(matches!(error, StoreError::Database(_)), "{error}");
    drop(as_role("qwed_owner").open(0));
    let store = as_role("qwed_server").open(0);
    let (ana, token) = store.create_token(&user("ana"), Role::User, None).unwrap();
    store.append(&[entry(Uuid::nil(), AuditEvent::McpToolCall)]).unwrap();
    store.revoke(ana.id).unwrap();
    assert_eq!(store.authenticate(&token).unwrap(), None);
    assert!(store.verify_audit(&[]).unwrap().is_intact());

    let as_role = |role: &str, sql: &str| server.sql_as(role, database, sql);
    let no_follower = "INSERT INTO qwed_mcp.audit SELECT instance, seq + 3, time, run_id, event, user_name, \
         tool, arguments_hash, outcome, details, previous, hash FROM qwed_mcp.audit WHERE seq = 1";
    let changes = [
        "UPDATE qwed_mcp.audit SET outcome = 'DENIED'",
        "DELETE FROM qwed_mcp.audit",
        "TRUNCATE qwed_mcp.audit",
        "UPDATE qwed_mcp.audit_heads SET seq = 0",
        "DELETE FROM qwed_mcp.audit_heads",
        "TRUNCATE qwed_mcp.audit_heads",
    ];
    let of_server = [
        "INSERT INTO qwed_mcp.audit_heads VALUES ('x', 1, 'y')",
        "UPDATE qwed_mcp.tokens SET role = 'admin'",
        "UPDATE qwed_mcp.tokens SET expires = NULL",
        "DELETE FROM qwed_mcp.tokens",
        "UPDATE qwed_mcp.migrations SET version = version + 7",
        "INSERT INTO qwed_mcp.migrations VALUES (99, 'x')",
        "ALTER TABLE qwed_mcp.audit DISABLE TRIGGER ALL",
        "DROP TABLE qwed_mcp.audit",
        "CREATE TABLE qwed_mcp.other (a integer)",
    ];
    for sql in changes.into_iter().chain(of_server) {
        let refused = as_role("qwed_server", sql).unwrap_err();
        let is_denied = refused.contains("permission denied") || refused.contains("must be owner");
        assert!(is_denied, "{sql}: {refused}");
    }
    let refused = as_role("qwed_server", no_follower).unwrap_err();
    assert!(refused.contains("follows its head"), "{refused}");
    // The database must refuse a row with a wrong hash. Rows cannot be changed, so the chain would be broken for ever.
    let other_hash = "INSERT INTO qwed_mcp.audit SELECT head.instance, head.seq + 1, time, run_id, event, \
         user_name, tool, arguments_hash, outcome, details, head.hash, repeat('f', 64) \
         FROM qwed_mcp.audit JOIN qwed_mcp.audit_heads AS head USING (instance) WHERE audit.seq = 1";
    let refused = as_role("qwed_server", other_hash).unwrap_err();
    assert!(refused.contains("is of its content"), "{refused}");
    // The database and the servers compute the same hash for a row, even if the row contains unusual characters.
    let tool =
        "\u{1}\u{8}\t\n\u{c}\r\u{1f} \"\\/~\u{7f}\u{80}é\u{2028}\u{ffff}\u{1f600}".to_owned();
    let odd =
        AuditEntry { tool, arguments_hash: None, ..entry(Uuid::nil(), AuditEvent::McpToolCall) };
    store.append(&[odd]).unwrap();
    assert!(store.verify_audit(&[]).unwrap().is_intact());
    // The triggers also refuse changes that the owner of the tables makes by mistake. After the owner has disabled the
    // triggers, the changes succeed, but verification of the chain reveals the changes.
    for sql in changes.iter().filter(|sql| !sql.contains("SET seq")) {
        let refused = as_role("qwed_owner", sql).unwrap_err();
        assert!(refused.contains("only ever appended to"), "{sql}: {refused}");
    }
    let untriggered = "ALTER TABLE qwed_mcp.audit DISABLE TRIGGER ALL;
        ALTER TABLE qwed_mcp.audit_heads DISABLE TRIGGER ALL";
    as_role("qwed_owner", &untriggered.replace("ALL", "USER")).unwrap();
    for sql in changes {
        as_role("qwed_owner", sql).unwrap_or_else(|refused| panic!("{sql}: {refused}"));
    }
}

/// Statements that servers execute, so the database must permit them.
const OF_SERVERS: [&str; 6] = [
    "INSERT INTO qwed_mcp.jobs (id, user_name, script, asked_by, verification_id, decision) \
     SELECT gen_random_uuid(), 'ana', 'print(1)', '{}', repeat('a', 64), '{}' FROM generate_series(1, 3)",
    "UPDATE qwed_mcp.jobs SET state = 1, attempt = attempt + 1, claim = nextval('qwed_mcp.claims'), \
     worker = gen_random_uuid(), worker_name = 'w', lease = now(), changed_at = now() WHERE seq < 3",
    "UPDATE qwed_mcp.jobs SET lease = now(), is_cancelled = true WHERE state = 1",
    "UPDATE qwed_mcp.jobs SET state = 2, lease = NULL, script = NULL, asked_by = NULL, result = '1', stdout = 'x', \
     stderr = 'y', pictures = '{}', changed_at = now() WHERE seq = 1",
    "DELETE FROM qwed_mcp.jobs WHERE seq = 2",
    "UPDATE qwed_mcp.tokens SET revoked = created WHERE id = 1",
];

/// Statements that no server executes, each with a part of the database's error message for the statement.
const NOT_OF_SERVERS: [(&str, &str); 24] = [
    ("UPDATE qwed_mcp.tokens SET revoked = NULL WHERE id = 1", "a token is revoked once"),
    ("UPDATE qwed_mcp.tokens SET revoked = '2000' WHERE id = 1", "a token is revoked once"),
    ("UPDATE qwed_mcp.tokens SET revoked = NULL WHERE id = 2", "a token is revoked once"),
    (
        "UPDATE qwed_mcp.tokens SET revoked = created, role = 'admin' WHERE id = 2",
        "permission denied",
    ),
    ("UPDATE qwed_mcp.jobs SET user_name = 'bob'", "permission denied"),
    ("UPDATE qwed_mcp.jobs SET verification_id = 'x'", "permission denied"),
    ("UPDATE qwed_mcp.jobs SET decision = '{}'", "permission denied"),
    ("UPDATE qwed_mcp.jobs SET id = gen_random_uuid()", "permission denied"),
    ("UPDATE qwed_mcp.jobs SET created_at = now()", "permission denied"),
    ("TRUNCATE qwed_mcp.jobs", "permission denied"),
    ("UPDATE qwed_mcp.jobs SET script = 'print(2)' WHERE state = 0", "keeps its script"),
    ("UPDATE qwed_mcp.jobs SET script = NULL WHERE state = 0", "keeps its script"),
    ("UPDATE qwed_mcp.jobs SET asked_by = '[]' WHERE state = 0", "keeps its script"),
    ("UPDATE qwed_mcp.jobs SET state = 2, script = 'print(2)' WHERE state = 0", "keeps its script"),
    ("UPDATE qwed_mcp.jobs SET stdout = 'forged' WHERE state = 2", "has ended"),
    ("UPDATE qwed_mcp.jobs SET result = NULL WHERE state = 2", "has ended"),
    ("UPDATE qwed_mcp.jobs SET state = 0 WHERE state = 2", "has ended"),
    ("UPDATE qwed_mcp.jobs SET changed_at = now() WHERE state = 2", "has ended"),
    (
        "INSERT INTO qwed_mcp.jobs (id, user_name, state, result, verification_id, decision) \
         VALUES (gen_random_uuid(), 'ana', 2, '1', 'x', '{}')",
        "begins by waiting",
    ),
    ("INSERT INTO qwed_mcp.job_bytes VALUES ('bob', 1::bigint << 62)", "permission denied"),
    ("UPDATE qwed_mcp.job_bytes SET bytes = 0", "permission denied"),
    ("DELETE FROM qwed_mcp.job_bytes", "permission denied"),
    (
        "INSERT INTO qwed_mcp.jobs (id, user_name, script, kept_bytes, verification_id, decision) \
         VALUES (gen_random_uuid(), 'ana', 'print(1)', 1, 'x', '{}')",
        "begins by waiting",
    ),
    (
        "INSERT INTO qwed_mcp.jobs (id, user_name, script, stdout, verification_id, decision) \
         VALUES (gen_random_uuid(), 'ana', 'print(1)', 'x', 'x', '{}')",
        "begins by waiting",
    ),
];

#[test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
fn the_role_of_servers_changes_what_servers_change_and_no_more() {
    let server = scratch::shared();
    let url = database_with_roles(server);
    let carry_out = |role: &str, sql: &str| server.sql_as(role, &url, sql);
    drop(Shared::as_role(&url, "qwed_owner").open(0));
    let store = Shared::as_role(&url, "qwed_server").open(0);
    for name in ["ana", "bob"] {
        store.create_token(&user(name), Role::User, None).unwrap();
    }
    for sql in OF_SERVERS {
        carry_out("qwed_server", sql).unwrap_or_else(|refused| panic!("{sql}: {refused}"));
    }
    for (sql, reason) in NOT_OF_SERVERS {
        let refused = carry_out("qwed_server", sql).unwrap_err();
        assert!(refused.contains(reason), "{sql}: {refused}");
        // The control: without the triggers, the owner can execute the statement. So the reason for the refusal was a
        // missing grant or a trigger.
        let unguarded = format!(
            "BEGIN; ALTER TABLE qwed_mcp.tokens DISABLE TRIGGER USER; \
             ALTER TABLE qwed_mcp.jobs DISABLE TRIGGER USER; {sql}; ROLLBACK"
        );
        carry_out("qwed_owner", &unguarded).unwrap_or_else(|refused| panic!("{sql}: {refused}"));
    }
    // The trigger that keeps tokens revoked is disabled. Verification reports this.
    store.revoke("2".parse().unwrap()).unwrap();
    server.sql(&url, "ALTER TABLE qwed_mcp.tokens DISABLE TRIGGER tokens_are_revoked_once");
    let flaws = store.verify_audit(&[]).unwrap().database.schema;
    assert_eq!(flaws, ["the trigger tokens_are_revoked_once was disabled"]);
}

#[test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
fn heads_move_with_rows_of_the_log_only() {
    let server = scratch::shared();
    let url = database_with_roles(server);
    let database = url.rsplit('/').next().unwrap();
    drop(Shared::as_role(&url, "qwed_owner").open(0));
    let move_head = "CREATE TEMPORARY TABLE rows (instance text, seq bigint, hash text, previous text); \
        CREATE TRIGGER rows BEFORE INSERT ON rows FOR EACH ROW EXECUTE FUNCTION qwed_mcp.audit_follows_its_head(); \
        INSERT INTO rows VALUES ('never-was', 1, repeat('e', 64), repeat('0', 64))";
    let heads = "SELECT count(*) FROM qwed_mcp.audit_heads";
    // Three guards refuse `move_head`. Each iteration after the first removes one guard.
    let (temporary, call) = (
        format!("GRANT TEMPORARY ON DATABASE {database} TO qwed_server"),
        "GRANT EXECUTE ON FUNCTION qwed_mcp.audit_follows_its_head() TO qwed_server",
    );
    for (granted, reason) in [
        ("SELECT 1", "permission denied to create temporary tables"),
        (&temporary, "permission denied for function"),
        (call, "only rows of the audit log move its heads"),
    ] {
        server.sql(&url, granted);
        let refused = server.sql_as("qwed_server", &url, move_head).unwrap_err();
        assert!(refused.contains(reason), "{refused}");
        assert_eq!(server.sql(&url, heads), "0");
    }
    // The control: the first version of the trigger function does not check to which table its trigger belongs. With
    // this version, `move_head` adds a head to the log.
    let before = include_str!("../postgres/migrations/0002_governance.sql");
    let function = before.split("CREATE FUNCTION ").find(|it| it.contains("SECURITY DEFINER"));
    let function = function.unwrap().split_inclusive("$$;").next().unwrap();
    server.sql(&url, &format!("CREATE OR REPLACE FUNCTION {function}"));
    server.sql_as("qwed_server", &url, move_head).unwrap();
    assert_eq!(server.sql(&url, heads), "1");
}

#[test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
fn no_function_of_the_schema_lends_the_rights_of_its_owner() {
    let server = scratch::shared();
    let url = database_with_roles(server);
    drop(Shared::as_role(&url, "qwed_owner").open(0));
    let functions = "SELECT count(*), count(*) FILTER (WHERE has_function_privilege('qwed_server', oid, 'EXECUTE')), \
            count(*) FILTER (WHERE NOT coalesce(proconfig::text, '') LIKE '%search_path=pg_catalog, pg_temp%'), \
            count(*) FILTER (WHERE prosecdef AND prosrc NOT LIKE '%IF TG_RELID <>%') \
        FROM pg_proc WHERE pronamespace = 'qwed_mcp'::regnamespace";
    assert_eq!(server.sql(&url, functions), "5|0|0|0");
}

#[test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
fn what_was_promised_outlives_a_database_that_is_killed() {
    let server = Postgres::start();
    let shared = Shared::in_postgres(&server);
    let stores = [shared.open(0), shared.open(1)];
    let mut promised = BTreeSet::new();
    let mut refused = 0;
    for round in 0..3_u128 {
        let (told, tell) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            for (number, store) in (0_u128..).zip(&stores) {
                let told = told.clone();
                scope.spawn(move || {
                    for run in 0..40 {
                        let run = Uuid::from_u128(round * 10_000 + number * 1000 + run);
                        let is_there = store.append(&[entry(run, AuditEvent::McpToolCall)]).is_ok();
                        told.send((run.to_string(), is_there)).unwrap();
                    }
                });
            }
            drop(told);
            let mut count = 0;
            while let Ok((run, is_there)) = tell.recv() {
                count += 1;
                if count == 25 {
                    server.kill();
                    server.begin();
                }
                if is_there {
                    promised.insert(run);
                } else {
                    refused += 1;
                }
            }
        });
    }
    let (token, text) = stores[0].create_token(&user("ana"), Role::User, None).unwrap();
    server.kill();
    // While the database cannot be reached, no token is accepted.
    let asked = Instant::now();
    let error = stores[1].authenticate(&text).unwrap_err();
    assert!(matches!(error, StoreError::Database(_)), "{error}");
    let error = stores[1].append(&[entry(Uuid::nil(), AuditEvent::McpToolCall)]).unwrap_err();
    assert!(matches!(error, StoreError::Database(_)), "{error}");
    assert!(asked.elapsed() < Duration::from_secs(25), "{:?}", asked.elapsed());
    server.begin();
    assert_eq!(stores[1].authenticate(&text).unwrap().unwrap().proof, Proof::Token(token.id));
    let found = stores[1].verify_audit(&[]).unwrap();
    assert!(found.is_intact(), "{found:?}");
    let there: BTreeSet<_> = all_rows(&stores[0]).into_iter().map(|row| row.run_id).collect();
    let lost: Vec<_> = promised.difference(&there).collect();
    assert!(lost.is_empty(), "{lost:?}");
    assert!(promised.len() > 100, "{} promised, {refused} refused", promised.len());
}

#[test]
fn a_password_is_in_no_error() {
    let (folder, secret) = (tempfile::tempdir().unwrap(), "hunter2hunter2");
    for url in [
        format!("postgres://qwed:{secret}@127.0.0.1:1/x"),
        format!("postgres://qwed:{secret}@127.0.0.1:x/x"),
        format!("postgres://qwed:{secret}@127.0.0.1/x?sslmode=nothing"),
        format!("postgres://qwed:{secret}"),
        format!("mysql://qwed:{secret}@127.0.0.1/x"),
        secret.to_owned(),
    ] {
        let url = Secret::from(url);
        let error = StorePlace::new(folder.path(), Some(&url)).open().unwrap_err();
        let first: &dyn Error = &error;
        let causes = successors(Some(first), |&error| error.source());
        let told =
            causes.fold(format!("{error:?} {url:?}"), |told, error| format!("{told}: {error}"));
        assert!(!told.contains(secret), "{told}");
        assert!(matches!(error, StoreError::Database(_)), "{told}");
    }
}

/// Measures an append of two entries and the lookup of a token, each with one thread and with 64 threads:
/// `cargo test --release --lib what_a_shared_store_takes -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
#[expect(clippy::print_stdout, reason = "the result of a measurement")]
fn what_a_shared_store_takes() {
    for shared in Shared::all() {
        let store = shared.open(0);
        let (_, token) = store.create_token(&user("ana"), Role::User, None).unwrap();
        let event = |event| entry(Uuid::from_u128(1), event);
        let entries = vec![event(AuditEvent::McpToolCall), event(AuditEvent::ToolStarted)];
        let append = || drop(store.submit_entries(entries.clone()).wait().unwrap());
        let look = || drop(store.authenticate(&token).unwrap());
        let works: [(&str, &(dyn Fn() + Sync)); 2] = [("append", &append), ("token", &look)];
        for (what, work) in works {
            for (threads, each) in [(1_u32, 400_u32), (64, 50)] {
                let begun = Instant::now();
                std::thread::scope(|scope| {
                    for _ in 0..threads {
                        scope.spawn(|| (0..each).for_each(|_| work()));
                    }
                });
                let time = begun.elapsed();
                let rate = f64::from(threads * each) / time.as_secs_f64();
                println!(
                    "{} {what}: {threads} at once, {rate:.0}/s, each {:?}",
                    shared.kind(),
                    time / each
                );
            }
        }
    }
}
