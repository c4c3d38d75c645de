//! Checks that the store's file is undamaged, and has exactly the schema of this program.

use std::collections::BTreeMap;

use rusqlite::{Connection, Transaction};

use super::{SCHEMA, SqliteStore};
use crate::audit::DatabaseFlaws;
use crate::store::error::StoreError;

/// The maximum number of defects that SQLite's integrity check reports.
const DAMAGE_MAX: usize = 20;

/// Checks the whole file, and returns its flaws.
pub(super) fn flaws(store: &SqliteStore) -> Result<DatabaseFlaws, StoreError> {
    // Use a separate transaction, because damage must not prevent the comparison of the schema.
    let damage = match store.read(damage) {
        // The damage stopped the check, so the error is the only known defect.
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

/// The objects of a schema. The keys are the type and the name of an object, the values are its SQL.
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
            None => "was not made by this program",
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
    // Skip SQLite's internal objects, such as statistics. Keep every trigger, because SQLite itself never creates a
    // trigger.
    let is_internal = |kind: &str, name: &str| kind != "trigger" && name.starts_with("sqlite_");
    let objects = objects.collect::<rusqlite::Result<Vec<((String, String), String)>>>()?;
    Ok(objects.into_iter().filter(|((kind, name), _)| !is_internal(kind, name)).collect())
}

/// Returns a statement on one line and without comments, because line breaks and comments may differ between versions.
/// Does not change literals and quoted names.
fn statement(sql: &str) -> String {
    let mut found = String::new();
    let mut rest = sql;
    while let Some(next) = rest.chars().next() {
        let length = if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let '\'' | '"' | '`' = next {
            let end = rest.get(1..).and_then(|inner| inner.find(next));
            end.map_or(rest.len(), |end| end + 2)
        } else {
            next.len_utf8()
        };
        let (part, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        if !part.starts_with("--") && !next.is_whitespace() {
            found.push_str(part);
        } else if !found.ends_with(' ') {
            found.push(' ');
        }
        rest = after;
    }
    found.trim().to_owned()
}
