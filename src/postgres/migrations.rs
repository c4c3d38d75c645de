//! The schema: a numbered list of files, each carried out once, in order and never back.

use tokio_postgres::Client;

use super::session::DatabaseError;

/// One step of the schema.
pub(super) struct Migration {
    pub(super) name: &'static str,
    pub(super) sql: &'static str,
}

/// All steps: the first is version 1. A step that was released never changes; whatever is to be different is
/// another one behind it.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration { name: "jobs", sql: include_str!("migrations/0001_jobs.sql") },
    Migration { name: "governance", sql: include_str!("migrations/0002_governance.sql") },
    Migration { name: "guards", sql: include_str!("migrations/0003_guards.sql") },
    Migration { name: "job_tokens", sql: include_str!("migrations/0004_job_tokens.sql") },
    Migration { name: "job_bytes", sql: include_str!("migrations/0005_job_bytes.sql") },
];

/// The advisory lock that one program holds while it changes the schema: any number that nobody else takes.
const LOCK: i64 = 0x7177_6564_6d63_7001;

/// By the tables, not by `to_regclass`: that one may not know yet what another program has just made.
const IS_THERE: &str = "SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace \
    WHERE nspname = 'qwed_mcp' AND relname = 'migrations')";

/// Brings the schema to the last of `migrations`: all in one transaction, so that there is no version in
/// between.
///
/// # Errors
///
/// [`DatabaseError`] if the schema is newer, or a step fails; then nothing has changed.
pub(super) async fn migrate(
    client: &mut Client,
    migrations: &[Migration],
) -> Result<(), DatabaseError> {
    let known = i32::try_from(migrations.len()).unwrap_or(i32::MAX);
    let statement = DatabaseError::Statement;
    // Most starts find what they know: they need no lock, and no right to change anything.
    if up_to_date(version(client).await?, known)? {
        return Ok(());
    }
    let transaction = client.transaction().await.map_err(statement)?;
    // Others wait here, however long it takes.
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

/// Returns whether nothing is to do.
fn up_to_date(found: i32, known: i32) -> Result<bool, DatabaseError> {
    if found > known { Err(DatabaseError::Newer { found, known }) } else { Ok(found == known) }
}

/// Returns the version of the schema; 0 where there is none.
async fn version(client: &impl tokio_postgres::GenericClient) -> Result<i32, DatabaseError> {
    let is_there = client.query_one(IS_THERE, &[]).await.map_err(DatabaseError::Statement)?;
    if !is_there.try_get::<_, bool>(0).map_err(DatabaseError::Statement)? {
        return Ok(0);
    }
    let last = "SELECT coalesce(max(version), 0) FROM qwed_mcp.migrations";
    let last = client.query_one(last, &[]).await.map_err(DatabaseError::Statement)?;
    last.try_get(0).map_err(DatabaseError::Statement)
}
