use std::process::Command;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::migrations::{MIGRATIONS, Migration, migrate};
use super::scratch::{self, Postgres};
use super::session::Session;
use super::*;

fn parsed(url: &str) -> DatabaseUrl {
    DatabaseUrl::parse(&url.to_owned().into()).unwrap()
}

async fn open(url: &str) -> Result<Database, DatabaseError> {
    Database::open(parsed(url)).await
}

async fn number(database: &Database, sql: &'static str) -> i64 {
    let rows = database.session().await.unwrap().query(sql, &[]).await.unwrap();
    rows[0].get(0)
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn the_schema_is_made_once_whoever_comes_first() {
    let url = scratch::shared().database();
    let opened = futures_util::future::join_all((0..6).map(|_| open(&url))).await;
    let database = opened.into_iter().map(Result::unwrap).last().unwrap();
    let known = i64::try_from(MIGRATIONS.len()).unwrap();
    assert_eq!(number(&database, "SELECT count(*) FROM qwed_mcp.migrations").await, known);
    // Open the database a second time, through the Unix socket. The schema is already up to date.
    let name = url.rsplit('/').next().unwrap();
    open(&scratch::shared().socket_url(name)).await.unwrap();
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn a_database_with_another_encoding_is_refused() {
    let options = "ENCODING SQL_ASCII TEMPLATE template0";
    scratch::shared().sql("postgres", &format!("CREATE DATABASE ascii {options}"));
    let error = open(&scratch::shared().url("ascii")).await.err().unwrap();
    assert!(error.to_string().contains("SQL_ASCII, not UTF8: create it with"), "{error}");
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn an_older_schema_is_brought_forward_and_a_newer_one_refused() {
    let url = scratch::shared().database();
    let mut session = Session::connect(&parsed(&url)).await.unwrap().0;
    let first = Migration { name: "first", sql: "CREATE TABLE qwed_mcp.first (a integer)" };
    let second = Migration { name: "second", sql: "ALTER TABLE qwed_mcp.first ADD b integer" };
    let broken =
        Migration { name: "broken", sql: "CREATE TABLE qwed_mcp.c (a integer); SELECT 1 / 0" };
    let mut steps = vec![first];
    migrate(session.client_mut(), &steps).await.unwrap();
    steps.push(second);
    migrate(session.client_mut(), &steps).await.unwrap();
    assert_eq!(session.query("SELECT a, b FROM qwed_mcp.first", &[]).await.unwrap().len(), 0);
    // A migration that fails leaves no changes.
    steps.push(broken);
    let error = migrate(session.client_mut(), &steps).await.unwrap_err();
    assert_eq!(error.to_string(), "failed to migrate the database's schema to version 3 (broken)");
    let left = session.query("SELECT to_regclass('qwed_mcp.c') IS NULL", &[]).await.unwrap();
    assert!(left[0].get::<_, bool>(0));
    steps.truncate(1);
    let error = migrate(session.client_mut(), &steps).await.unwrap_err();
    assert!(matches!(error, DatabaseError::Newer { found: 2, known: 1 }), "{error}");
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn a_database_of_an_earlier_version_gets_its_guards_and_keeps_its_rows() {
    let (server, url) = (scratch::shared(), scratch::shared().database());
    let mut session = Session::connect(&parsed(&url)).await.unwrap().0;
    // Grant one role all privileges on each new table, and another role the right to read it.
    server.sql(&url, "CREATE ROLE qwed_writer; CREATE ROLE qwed_reader");
    session
        .batch(
            "CREATE SCHEMA qwed_mcp; ALTER DEFAULT PRIVILEGES IN SCHEMA qwed_mcp GRANT ALL ON \
             TABLES TO qwed_writer; \
             ALTER DEFAULT PRIVILEGES IN SCHEMA qwed_mcp GRANT SELECT ON TABLES TO qwed_reader",
        )
        .await
        .unwrap();
    migrate(session.client_mut(), &MIGRATIONS[..2]).await.unwrap();
    session
        .batch(
            "INSERT INTO qwed_mcp.jobs (id, user_name, state, result, verification_id, decision) \
             VALUES (gen_random_uuid(), 'ann', 2, '1', 'x', '{}'); \
             INSERT INTO qwed_mcp.tokens (hash, user_name, role, created, revoked) \
             VALUES (sha256('x'), 'ann', 'user', '2026', '2026')",
        )
        .await
        .unwrap();
    let may = "SELECT concat_ws(' ', \
        has_column_privilege('qwed_writer', 'qwed_mcp.jobs', 'state', 'UPDATE'), \
        has_column_privilege('qwed_writer', 'qwed_mcp.jobs', 'user_name', 'UPDATE'), \
        has_column_privilege('qwed_writer', 'qwed_mcp.tokens', 'revoked', 'UPDATE'), \
        has_column_privilege('qwed_reader', 'qwed_mcp.tokens', 'revoked', 'UPDATE'), \
        has_table_privilege('qwed_writer', 'qwed_mcp.jobs', 'TRUNCATE'))";
    assert_eq!(server.sql(&url, may), "t t t t t");
    open(&url).await.unwrap();
    assert_eq!(server.sql(&url, may), "t f t f f");
    let rows =
        "SELECT (SELECT count(*) FROM qwed_mcp.jobs), (SELECT count(*) FROM qwed_mcp.tokens)";
    assert_eq!(server.sql(&url, rows), "1|1");
    for change in
        ["UPDATE qwed_mcp.jobs SET result = '2'", "UPDATE qwed_mcp.tokens SET revoked = NULL"]
    {
        server.sql_as("qwed", &url, change).unwrap_err();
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn promises_wait_for_the_disk() {
    let server = scratch::shared();
    let url = server.database();
    let name = url.rsplit('/').next().unwrap();
    for (set, expected) in [("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")] {
        server.sql("postgres", &format!("ALTER DATABASE {name} SET synchronous_commit = {set}"));
        let session = Session::connect(&parsed(&url)).await.unwrap().0;
        let rows =
            session.query("SELECT current_setting('synchronous_commit')", &[]).await.unwrap();
        assert_eq!(rows[0].get::<_, &str>(0), expected);
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn a_connection_that_is_lost_is_made_again() {
    let server = Postgres::start();
    let database = open(&server.database()).await.unwrap();
    let mut notices = database.listen("qwed_mcp_test").await.unwrap();
    assert_eq!(number(&database, "SELECT 1::bigint").await, 1);
    database.session().await.unwrap().batch("NOTIFY qwed_mcp_test, 'x'").await.unwrap();
    assert_eq!(notices.recv().await.unwrap().payload, "x");

    let session = database.session().await.unwrap();
    server.kill();
    assert_eq!(notices.recv().await, None);
    // Wait until the session detects the loss.
    while !session.is_lost() {
        sleep(Duration::from_millis(5)).await;
    }
    let begun = Instant::now();
    let error = database.session().await.map(drop).unwrap_err();
    assert!(error.is_passing() && !error.is_ambiguous(), "{error}");
    assert!(begun.elapsed().as_secs() < 7, "{:?}", begun.elapsed());
    server.begin();
    assert_eq!(number(&database, "SELECT 2::bigint").await, 2);
    let mut exclusive = database.exclusive().await.unwrap();
    let transaction = exclusive.session().unwrap().client_mut().transaction().await.unwrap();
    transaction.rollback().await.unwrap();
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn what_is_refused_is_not_tried_again() {
    let begun = Instant::now();
    let error = open(&scratch::shared().url("nowhere")).await.map(drop).unwrap_err();
    assert!(matches!(error, DatabaseError::Connect { .. }) && !error.is_passing(), "{error}");
    assert!(begun.elapsed().as_secs() < 3);
}

/// Creates two certificate authorities, and a certificate for `localhost` that the first authority has signed. Uses the
/// `openssl` program.
fn certificates(folder: &std::path::Path) {
    let script = "set -e; cd \"$1\"
        openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=test-authority
        openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost
        printf 'subjectAltName=DNS:localhost\\nbasicConstraints=CA:FALSE\\n' > extensions
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out server.pem
        openssl req -x509 -newkey rsa:2048 -nodes -keyout other.key -out other.pem -days 2 -subj /CN=other-authority
        chmod 600 server.key; chmod 644 ca.pem other.pem";
    let output = Command::new("sh").args(["-c", script, "sh"]).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `cargo test --lib -- --ignored postgres shared:: stores::`"]
async fn the_server_is_who_the_mode_asks_for() {
    let server = Postgres::start_with(
        "-c ssl=on -c ssl_cert_file=../server.pem -c ssl_key_file=../server.key",
        certificates,
    );
    let by_number = server.url("postgres");
    let by_name = by_number.replace("127.0.0.1", "localhost");
    let file = |name: &str| format!("sslrootcert={}", server.folder().join(name).display());
    let (own, other) = (file("ca.pem"), file("other.pem"));
    for (url, query, is_secure) in [
        (&by_number, "sslmode=disable".to_owned(), Ok(false)),
        (&by_number, "sslmode=prefer".to_owned(), Ok(true)),
        (&by_number, "sslmode=require".to_owned(), Ok(true)),
        (&by_number, format!("sslmode=require&{other}"), Err(())),
        (&by_number, format!("sslmode=verify-ca&{own}"), Ok(true)),
        (&by_number, format!("sslmode=verify-ca&{other}"), Err(())),
        (&by_name, format!("sslmode=verify-full&{own}"), Ok(true)),
        (&by_number, format!("sslmode=verify-full&{own}"), Err(())),
        (&by_name, format!("sslmode=verify-full&{other}"), Err(())),
        (&by_name, "sslmode=verify-full".to_owned(), Err(())),
        (&by_name, format!("sslmode=verify-full&{}", file("nothing.pem")), Err(())),
    ] {
        let session = Session::connect(&parsed(&format!("{url}?{query}"))).await;
        let found = match session {
            Ok((session, _)) => {
                let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
                Ok(session.query(sql, &[]).await.unwrap()[0].get::<_, bool>(0))
            }
            Err(_) => Err(()),
        };
        assert_eq!(found, is_secure, "{url} {query}");
    }
    // Modes that require TLS refuse a server without TLS.
    let plain = scratch::shared().url("postgres");
    for (mode, is_open) in [("prefer", true), ("require", false)] {
        let session = Session::connect(&parsed(&format!("{plain}?sslmode={mode}"))).await;
        assert_eq!(session.is_ok(), is_open, "{mode}");
    }
}
