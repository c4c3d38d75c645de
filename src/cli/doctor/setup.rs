//! Checks the parts of a server's setup that scripts do not need: the skill manifest, the bill of materials, the
//! database, a token that nothing uses, and unknown variables.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Value, json};
use strsim::damerau_levenshtein;

use super::super::aibom;
use crate::config::{Settings, is_own_variable, variables};
use crate::logging::Causes;
use crate::postgres::{Database, DatabaseError, DatabaseUrl, Excess};
use crate::provenance::SkillProvenanceGuard;

/// An unknown name counts as a misspelling of a known name if it has at least this many letters for each letter that
/// differs.
const LETTERS_PER_DIFFERENCE: usize = 3;

/// The setup of a server, with its problems.
pub(super) struct Setup {
    /// The file of the skill manifest, and the reason if the manifest is not trusted. With an untrusted manifest, a
    /// server does not start.
    manifest: Option<(PathBuf, Result<(), String>)>,
    /// The file for the bill of materials, and the reason if the file cannot be written.
    bill: Option<(PathBuf, Result<(), String>)>,
    /// A right that the server's database role should not have, or the reason why the database cannot be used. `None`
    /// if no shared database is configured.
    database: Option<Result<Option<Excess>, String>>,
    /// Whether `QWED_MCP_AUTH_TOKEN` or `QWED_MCP_AUTH_TOKEN_FILE` is set although no policy is configured. Without a
    /// policy, the token has no effect.
    has_unused_token: bool,
    unknown: Vec<Unknown>,
}

/// An environment variable with a prefix of this program's variables, but with an unknown name.
struct Unknown {
    name: String,
    /// The known variable that the admin probably meant.
    like: Option<&'static str>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, like } = self;
        f.write_str(name)?;
        like.map_or(Ok(()), |like| write!(f, "; did you mean {like}?"))
    }
}

/// Logs a warning for each unknown environment variable with a prefix of this program's variables.
pub(in super::super) fn warn_of_unknown_variables() {
    for unknown in unknown_variables() {
        tracing::warn!("unknown variable: {unknown}");
    }
}

fn unknown_variables() -> Vec<Unknown> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    unknown(names, &variables())
}

impl Setup {
    pub(super) async fn diagnose(settings: &Settings) -> Self {
        let manifest = settings.skill_manifest.clone().map(|file| {
            let verification = SkillProvenanceGuard::new().verify_file(&file, None);
            let trusted = match verification {
                Ok(verification) if verification.verified => Ok(()),
                Ok(verification) => Err(verification.message),
                Err(error) => Err(Causes(&error).to_string()),
            };
            (file, trusted)
        });
        let bill = settings.aibom.clone().map(|file| {
            let usable = aibom::require_usable(&file);
            (file, usable)
        });
        let has_token = settings.auth_token.is_some() || settings.auth_token_file.is_some();
        let unknown = unknown_variables();
        let has_unused_token = has_token && settings.policy.is_none();
        Self { manifest, bill, database: database(settings).await, has_unused_token, unknown }
    }

    /// Returns the reason why a server with this setup does not start. Returns `None` if the server starts.
    pub(super) fn refusal(&self) -> Option<String> {
        let (file, trusted) = self.manifest.as_ref()?;
        let reason = trusted.as_ref().err()?;
        Some(format!("the skill manifest {} is not trusted: {reason}", file.display()))
    }

    /// Returns the rows of the text output: their labels and their texts.
    pub(super) fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        if let Some((file, trusted)) = &self.manifest {
            let file = file.display();
            rows.push((
                "skill manifest",
                match trusted {
                    Ok(()) => format!("{file}: trusted"),
                    Err(reason) => format!("{file}: NOT TRUSTED: {reason}"),
                },
            ));
        }
        if let Some((file, usable)) = &self.bill {
            let file = file.display();
            rows.push((
                "bill of materials",
                match usable {
                    Ok(()) => format!("{file}, at the end of a session"),
                    Err(reason) => format!("{file}: CANNOT BE WRITTEN: {reason}"),
                },
            ));
        }
        if let Some(database) = &self.database {
            rows.push((
                "database",
                match database {
                    Ok(None) => "can be used".to_owned(),
                    Ok(Some(excess)) => format!(
                        "ITS USER HAS TOO MANY RIGHTS: {excess}. Remedy: make a role for servers \
                         with deploy/postgres.sql"
                    ),
                    Err(reason) => format!("CANNOT BE USED: {reason}"),
                },
            ));
        }
        if self.has_unused_token {
            let text = "NOT USED: a token is set, and without QWED_MCP_POLICY there is nothing to call \
                        with it";
            rows.push(("token", text.to_owned()));
        }
        rows.extend(self.unknown.iter().map(|it| ("variable", format!("NOT KNOWN: {it}"))));
        rows
    }

    /// Adds the diagnosis of the setup to the JSON output.
    pub(super) fn add_to(&self, object: &mut Value) {
        let unknown = self.unknown.iter();
        let unknown = unknown.map(|Unknown { name, like }| json!({ "name": name, "like": like }));
        let manifest = self.manifest.as_ref().map(|(file, trusted)| {
            let file = file.display().to_string();
            json!({ "file": file, "trusted": trusted.is_ok(), "why": trusted.as_ref().err() })
        });
        let bill = self.bill.as_ref().map(|(file, usable)| {
            let file = file.display().to_string();
            json!({ "file": file, "usable": usable.is_ok(), "why": usable.as_ref().err() })
        });
        let fields = [
            ("can_start", json!(self.refusal().is_none())),
            ("skill_manifest", json!(manifest)),
            ("aibom", json!(bill)),
            ("token_unused", json!(self.has_unused_token)),
            ("unknown_variables", unknown.collect()),
        ];
        if let Some(object) = object.as_object_mut() {
            let database = self.database.as_ref().map(|database| {
                let excess = database.as_ref().ok().and_then(Option::as_ref);
                let excess = excess.map(ToString::to_string);
                let (usable, why) = (database.is_ok(), database.as_ref().err());
                json!({ "usable": usable, "why": why, "user_rights": excess })
            });
            object.insert("database".to_owned(), json!(database));
        }
        if let Some(object) = object.as_object_mut() {
            object.extend(fields.map(|(name, value)| (name.to_owned(), value)));
        }
    }
}

/// Checks whether the server's database role has a right that servers should not have. Returns `None` if no shared
/// database is configured. Changes nothing in the database.
async fn database(settings: &Settings) -> Option<Result<Option<Excess>, String>> {
    let url = DatabaseUrl::parse(settings.store.as_ref()?).map_err(DatabaseError::Url);
    let asked = async { Database::at(url?).excess().await };
    Some(asked.await.map_err(|error| Causes(&error).to_string()))
}

/// Returns the `names` that have a prefix of this program's variables, but are not `known`.
fn unknown(names: impl Iterator<Item = String>, known: &[&'static str]) -> Vec<Unknown> {
    let is_unknown = |name: &String| is_own_variable(name) && !known.contains(&name.as_str());
    let unknown = names.filter(is_unknown).map(|name| {
        let distance = |other: &str| damerau_levenshtein(&name, other);
        let nearest = known.iter().copied().min_by_key(|other| distance(other));
        let letters = name.trim_start_matches("QWED_").trim_start_matches("MCP_").len();
        let is_like = |other: &&str| distance(other) * LETTERS_PER_DIFFERENCE <= letters;
        let like = nearest.filter(is_like);
        Unknown { name, like }
    });
    let mut unknown: Vec<_> = unknown.collect();
    unknown.sort_by(|a, b| a.name.cmp(&b.name));
    unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_misspelt_is_told_with_the_one_that_is_meant() {
        let known = variables();
        for (name, expected) in [
            ("QWED_MCP_PYHTON", Some(Some("QWED_MCP_PYTHON"))),
            ("QWED_MCP_PYTHON", None),
            ("QWED_MCP_LOG", None),
            ("QWED_MCP_TRUSTED_EXECUTION", Some(Some("QWED_MCP_TRUSTED_CODE_EXECUTION"))),
            ("QWED_MCP_SKILL_MANIFEST", Some(Some("QWED_SKILL_MANIFEST"))),
            ("QWED_SKILL_MANIFST", Some(Some("QWED_SKILL_MANIFEST"))),
            ("QWED_MCP_memory_mb", Some(None)),
            ("QWED_MCP_XYZ", Some(None)),
            ("QWED_API_KEY", None),
            ("PATH", None),
        ] {
            let found = unknown(std::iter::once(name.to_owned()), &known);
            let found = found.first().map(|unknown| unknown.like);
            assert_eq!(found, expected, "{name}");
        }
    }
}
