//! Chooses which entry of a client's file a request changes or removes. It never changes the entry.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::edit::Server;
use super::entry::{CommandLine, NAME_DEFAULT, ServerName};

/// The reason why no entry can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TargetError {
    /// The name belongs to the entry of another server, which this program does not change.
    #[error(
        "`{name}` in {} is another server ({command}); choose another name with --name",
        .file.display()
    )]
    Foreign { file: PathBuf, name: String, command: String },
    /// Several entries could be removed, and only the user can choose one.
    #[error(
        "{} has more than one entry of this server ({names}); choose one with --name",
        .file.display()
    )]
    Several { file: PathBuf, names: String },
}

/// The entry that a request creates, changes or removes.
#[derive(Debug)]
pub(super) struct Target<'a> {
    /// The name of the entry after the change.
    pub name: String,
    /// The existing entry. `None` if there is none yet.
    pub server: Option<&'a Server>,
    /// The names of further entries of this server.
    pub others: Vec<String>,
}

impl<'a> Target<'a> {
    /// Chooses the entry to change or to remove. `wanted` is the name from the command line, if there is one.
    pub(crate) fn choose(
        servers: &'a [Server],
        is_removal: bool,
        wanted: Option<&ServerName>,
        file: &Path,
    ) -> Result<Self, TargetError> {
        let line = |server: &Server| CommandLine::of(&server.members);
        let is_ours = |server: &&Server| line(server).is_some_and(|line| line.is_ours());
        let ours: Vec<&Server> = servers.iter().filter(is_ours).collect();
        let asked = wanted.map_or(NAME_DEFAULT, ServerName::as_str);
        let server = match (servers.iter().find(|server| server.name == asked), wanted) {
            (Some(same), _) if is_ours(&same) => Some(same),
            // Another server has the default name, but this server may have an entry with a different name.
            (Some(_), None) if !ours.is_empty() => Self::only(&ours, is_removal, file)?,
            (Some(_), None) | (None, Some(_)) if is_removal => None,
            (Some(same), _) => {
                let program = line(same).map(|line| line.program().to_owned());
                let command = program.unwrap_or_else(|| "without a command".to_owned());
                let (file, name) = (file.to_owned(), same.name.clone());
                return Err(TargetError::Foreign { file, name, command });
            }
            (None, None) => Self::only(&ours, is_removal, file)?,
            // With a new name from the command line, create another entry. But if an entry of version 0.2.x exists,
            // rename it instead.
            (None, Some(_)) => {
                let is_older =
                    |server: &&Server| line(server).is_some_and(|line| line.is_of_older_version());
                ours.iter().copied().find(is_older)
            }
        };
        let name = match server {
            // Keep the name of an existing entry, because the client stores permissions under this name.
            Some(server) if wanted.is_none() => server.name.clone(),
            Some(_) | None => asked.to_owned(),
        };
        let is_other = |other: &&Server| server.is_none_or(|server| server.name != other.name);
        let others = ours.into_iter().filter(is_other).map(|server| server.name.clone()).collect();
        Ok(Self { name, server, others })
    }

    /// Returns the first entry of this server, if there is one. Fails for a removal with several entries, because the
    /// command line must then name one.
    fn only(
        ours: &[&'a Server],
        is_removal: bool,
        file: &Path,
    ) -> Result<Option<&'a Server>, TargetError> {
        if is_removal && ours.len() > 1 {
            let names: Vec<&str> = ours.iter().map(|server| server.name.as_str()).collect();
            let (file, names) = (file.to_owned(), names.join(", "));
            return Err(TargetError::Several { file, names });
        }
        Ok(ours.first().copied())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the result of `Target::choose` as text: the old name, the new name and the names of further entries, or
    /// the kind of the error.
    fn choose(servers: &[(&str, &str)], is_removal: bool, name: &str) -> String {
        let server = |(name, command): &(&str, &str)| {
            let members = json!({ "command": command });
            Server { name: (*name).to_owned(), members }
        };
        let servers: Vec<Server> = servers.iter().map(server).collect();
        let name = (!name.is_empty()).then(|| name.parse().unwrap());
        match Target::choose(&servers, is_removal, name.as_ref(), Path::new("/x")) {
            Ok(Target { name, server, others }) => {
                let old = server.map_or("-", |server| &server.name);
                format!("{old} {name} [{}]", others.join(" "))
            }
            Err(TargetError::Foreign { name, .. }) => format!("foreign {name}"),
            Err(TargetError::Several { names, .. }) => format!("several {names}"),
        }
    }

    #[test]
    fn an_entry_is_taken_over_and_neither_doubled_nor_another_one_touched() {
        let (new, old, other) = ("/x/qwed-mcp", "qwed-mcp", "/x/other");
        for (servers, install, install_x, remove, remove_x) in [
            (&[][..], "- qwed []", "- x []", "- qwed []", "- x []"),
            (&[("a", other)], "- qwed []", "- x []", "- qwed []", "- x []"),
            (&[("qwed", new)], "qwed qwed []", "- x [qwed]", "qwed qwed []", "- x [qwed]"),
            (&[("qwed", old)], "qwed qwed []", "qwed x []", "qwed qwed []", "- x [qwed]"),
            (&[("v", old)], "v v []", "v x []", "v v []", "- x [v]"),
            (&[("v", new)], "v v []", "- x [v]", "v v []", "- x [v]"),
            (&[("qwed", other)], "foreign qwed", "- x []", "- qwed []", "- x []"),
            (&[("x", other)], "- qwed []", "foreign x", "- qwed []", "foreign x"),
            (&[("qwed", other), ("v", old)], "v v []", "v x []", "v v []", "- x [v]"),
            (&[("v", old), ("x", new)], "v v [x]", "x x [v]", "several v, x", "x x [v]"),
            (
                &[("v", old), ("qwed", new)],
                "qwed qwed [v]",
                "v x [qwed]",
                "qwed qwed [v]",
                "- x [v qwed]",
            ),
        ] {
            assert_eq!(choose(servers, false, ""), install, "{servers:?}");
            assert_eq!(choose(servers, false, "x"), install_x, "{servers:?}");
            assert_eq!(choose(servers, true, ""), remove, "{servers:?}");
            assert_eq!(choose(servers, true, "x"), remove_x, "{servers:?}");
        }
    }
}
