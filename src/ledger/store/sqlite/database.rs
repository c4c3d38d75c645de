//! The check of the store's file: whole, with the schema of this program and no more.

use std::collections::BTreeMap;

use rusqlite::{Connection, Transaction};

use super::{SCHEMA, SqliteStore};
use crate::ledger::audit::DatabaseFlaws;
use crate::ledger::store::error::StoreError;

/// The defects that are listed.
const DAMAGE_MAX: usize = 20;

/// Looks through the whole file.
pub(super) fn flaws(store: &SqliteStore) -> Result<DatabaseFlaws, StoreError> {
    // In a transaction of its own: one in which damage was met cannot be committed, though nothing
    // was written.
    let damage = match store.read(damage) {
        // What stops the check itself.
        Err(StoreError::Damaged { source, .. }) => vec![source.to_string()],
        checked => checked?,
    };
    Ok(DatabaseFlaws { damage, schema: store.read(schema_differences)? })
}

fn damage(transaction: &Transaction<'_>) -> rusqlite::Result<Vec<String>> {
    let mut check = transaction.prepare(&format!("PRAGMA integrity_check({DAMAGE_MAX})"))?;
    let lines = check.query_map([], |row| row.get(0))?;
    let lines = lines.collect::<rusqlite::Result<Vec<String>>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

/// The objects of a schema: kind and name, with the SQL.
type Objects = BTreeMap<(String, String), String>;

fn schema_differences(transaction: &Transaction<'_>) -> rusqlite::Result<Vec<String>> {
    let model = Connection::open_in_memory()?;
    model.execute_batch(SCHEMA)?;
    let (mut ours, found) = (objects(&model)?, objects(transaction)?);
    let mut differences = Vec::new();
    for ((kind, name), sql) in found {
        let said = match ours.remove(&(kind.clone(), name.clone())) {
            Some(expected) if expected == sql => continue,
            Some(_) => "was changed",
            None => "is not ours",
        };
        differences.push(format!("the {kind} {name} {said}"));
    }
    differences
        .extend(ours.into_keys().map(|(kind, name)| format!("the {kind} {name} is missing")));
    Ok(differences)
}

fn objects(connection: &Connection) -> rusqlite::Result<Objects> {
    let mut select = connection.prepare("SELECT type, name, sql FROM sqlite_schema")?;
    let objects = select.query_map([], |row| {
        let sql: Option<String> = row.get(2)?;
        Ok(((row.get(0)?, row.get(1)?), statement(&sql.unwrap_or_default())))
    })?;
    // Statistics and the like of SQLite's own. It never makes a trigger.
    let is_internal = |kind: &str, name: &str| kind != "trigger" && name.starts_with("sqlite_");
    let objects = objects.collect::<rusqlite::Result<Vec<((String, String), String)>>>()?;
    Ok(objects.into_iter().filter(|((kind, name), _)| !is_internal(kind, name)).collect())
}

/// Returns a statement without comments, on one line: another version may be commented differently.
fn statement(sql: &str) -> String {
    let code = sql.lines().map(|line| line.split_once("--").map_or(line, |(code, _)| code));
    code.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}
