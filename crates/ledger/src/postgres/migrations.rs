//! The schema of the database: a numbered list of SQL files. Each file is executed once, in order, and never undone.

use tokio_postgres::Client;

use super::session::DatabaseError;

/// A step from one version of the schema to the next.
pub(super) struct Migration {
    pub(super) name: &'static str,
    pub(super) sql: &'static str,
}

/// All migrations, in order. The first leads to version 1. A released migration never changes. Every change of the
/// schema is a new migration, appended to this list.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration { name: "jobs", sql: include_str!("migrations/0001_jobs.sql") },
    Migration { name: "governance", sql: include_str!("migrations/0002_governance.sql") },
    Migration { name: "guards", sql: include_str!("migrations/0003_guards.sql") },
    Migration { name: "job_tokens", sql: include_str!("migrations/0004_job_tokens.sql") },
    Migration { name: "job_bytes", sql: include_str!("migrations/0005_job_bytes.sql") },
    Migration { name: "job_subjects", sql: include_str!("migrations/0006_job_subjects.sql") },
];

/// The key of the advisory lock that a process holds while it changes the schema. The number is `qwedmcp` in ASCII and
/// a 1, so other programs are unlikely to use it.
const LOCK: i64 = 0x7177_6564_6d63_7001;

/// Returns whether the table of migrations exists. Queries the catalog, because `to_regclass` does not always find a
/// table that another process has just created.
const IS_THERE: &str = "SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace \
    WHERE nspname = 'qwed_mcp' AND relname = 'migrations')";

/// Brings the schema to the last version in `migrations`. Executes all migrations in one transaction, so that other
/// processes never see an intermediate version.
///
/// # Errors
///
/// [`DatabaseError`] if the schema is newer than the last version, if the encoding of the database is not UTF-8, or if
/// a migration fails. After an error, nothing has changed.
pub(super) async fn migrate(
    client: &mut Client,
    migrations: &[Migration],
) -> Result<(), DatabaseError> {
    let known = i32::try_from(migrations.len()).unwrap_or(i32::MAX);
    let statement = DatabaseError::Statement;
    // The schema is usually up to date. Then this function needs neither the lock nor the right to change the schema.
    if up_to_date(version(client).await?, known)? {
        return Ok(());
    }
    // The database checks the hashes of rows. With another encoding, it would compute different hashes.
    let encoding = client.query_one("SHOW server_encoding", &[]).await.map_err(statement)?;
    let encoding: String = encoding.try_get(0).map_err(statement)?;
    if encoding != "UTF8" {
        return Err(DatabaseError::Encoding(encoding));
    }
    let transaction = client.transaction().await.map_err(statement)?;
    // Disable the statement timeout, because a migration may take long. The wait for the lock still ends after the
    // `lock_timeout` of the session. After this timeout, the server does not start. A service manager such as systemd
    // can start it again.
    transaction.batch_execute("SET LOCAL statement_timeout = 0").await.map_err(statement)?;
    transaction.query("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await.map_err(statement)?;
    let found = version(&transaction).await?;
    if up_to_date(found, known)? {
        return Ok(());
    }
    let first = "CREATE SCHEMA IF NOT EXISTS qwed_mcp; CREATE TABLE IF NOT EXISTS qwed_mcp.migrations \
                 (version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())";
    transaction.batch_execute(first).await.map_err(statement)?;
    for (version, Migration { name, sql }) in
        (1..).zip(migrations).skip_while(|(it, _)| *it <= found)
    {
        let failed = |source| DatabaseError::Migrate { version, name, source };
        transaction.batch_execute(sql).await.map_err(failed)?;
        let note = "INSERT INTO qwed_mcp.migrations (version, name) VALUES ($1, $2)";
        transaction.execute(note, &[&version, name]).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(statement)?;
    tracing::warn!(from = found, to = known, "the database's schema was changed");
    Ok(())
}

/// Returns whether the schema is up to date. Fails if the schema is newer than this program.
fn up_to_date(found: i32, known: i32) -> Result<bool, DatabaseError> {
    if found > known { Err(DatabaseError::Newer { found, known }) } else { Ok(found == known) }
}

/// Returns the version of the schema. Version 0 means that no schema exists.
async fn version(client: &impl tokio_postgres::GenericClient) -> Result<i32, DatabaseError> {
    let is_there = client.query_one(IS_THERE, &[]).await.map_err(DatabaseError::Statement)?;
    if !is_there.try_get::<_, bool>(0).map_err(DatabaseError::Statement)? {
        return Ok(0);
    }
    let last = "SELECT coalesce(max(version), 0) FROM qwed_mcp.migrations";
    let last = client.query_one(last, &[]).await.map_err(DatabaseError::Statement)?;
    last.try_get(0).map_err(DatabaseError::Statement)
}
