//! Installs and removes this server's entry: reads the client's file, chooses the entry, edits the entry, shows the
//! difference, and then writes the file. Only [`Change::apply`] writes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

use super::claude::{self, ClaudeError};
use super::client::{Client, Format, Writing};
use super::diff::unified;
use super::document::{Document, Operation};
use super::edit::{EditError, Server};
use super::entry::{ALLOW_CODE, CommandLine, ServerName, Wanted, texts_shown};
use super::file::{FileError, Original, Scope};
use super::places::Places;
use super::program::Launch;
use super::snippet::entry;
use super::target::{Target, TargetError};
use super::windows::{self, WindowsError};

/// A requested change of a client's file.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub action: Action<'a>,
    /// The name of the entry, if the command line gives one.
    pub name: Option<&'a ServerName>,
    /// The root of a project. If set, the project's file is changed. Otherwise the user's file is changed.
    pub project: Option<&'a Path>,
}

#[derive(Debug, Clone, Copy)]
pub enum Action<'a> {
    Install { launch: &'a Launch, variables: &'a [(String, String)] },
    Remove,
}

/// The reason why a change failed. The file is unchanged, except that Claude Code's program `claude` may have changed
/// it.
#[derive(Debug, Error)]
pub enum ChangeError {
    #[error("it has no file for a project")]
    NoProjectFile,
    /// The file is a symlink that leads out of the project. Such a symlink is rejected, because a repository may
    /// contain symlinks to other files of the user.
    #[error(
        "{} leads out of the project, to {}; without --project, the user's file is changed",
        .file.display(),
        .target.display()
    )]
    OutsideProject { file: PathBuf, target: PathBuf },
    #[error(
        "{} belongs to another skill, and is not changed; rename its folder and its name to keep both",
        .0.display()
    )]
    OtherSkill(PathBuf),
    #[error("{} is below a symlink, or is one; remove the link or its target yourself", .0.display())]
    LinkedSkill(PathBuf),
    #[error("it has no known file on this system")]
    NoUserFile,
    #[error("change its file yourself, because {0}")]
    PrintOnly(&'static str),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: {source}", .file.display())]
    Edit { file: PathBuf, source: EditError },
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Windows(#[from] WindowsError),
    #[error(transparent)]
    Claude(#[from] ClaudeError),
    #[error("`claude` reported success, but the entry in {} is not as requested", .0.display())]
    ClaudeDiffers(PathBuf),
    /// `claude` failed after the file was changed.
    #[error("{source}; {} is a copy of the file before the change", .backup.display())]
    Changed { source: Box<ChangeError>, backup: PathBuf },
}

/// The effect of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Adds the entry, because the file has no entry of this server.
    Add,
    /// Changes the existing entry of this server.
    Update,
    /// Replaces an entry that a 0.2.x version of this server used. `command` is the command line of the old entry.
    TakeOver {
        command: String,
        python: Option<String>,
    },
    /// Changes nothing, because the entry is already as requested.
    AlreadyThere,
    Remove,
    /// Changes nothing, because the file has no entry to remove.
    Absent,
}

impl Effect {
    fn is_nothing(&self) -> bool {
        matches!(self, Self::AlreadyThere | Self::Absent)
    }
}

/// A change that is prepared but not yet written.
#[derive(Debug)]
pub struct Change {
    pub effect: Effect,
    pub name: String,
    pub file: PathBuf,
    /// The difference between the old and the new content. Empty if nothing changes.
    pub diff: String,
    /// Whether the new entry opens the admin gate, which lets scripts run. For a removal, whether the removed entry
    /// opened the admin gate.
    pub allows_code: bool,
    /// The names of further entries of this server in the file.
    pub others: Vec<String>,
    /// Whether the client seems to be installed on this machine. Always true if the file belongs to a project, or if
    /// the client runs on Windows.
    pub is_found: bool,
    /// Whether the client runs on Windows, and this program in WSL on the same machine.
    pub is_on_windows: bool,
    /// The path of the `claude` program, if `claude` makes the change.
    pub by_claude: Option<PathBuf>,
    original: Original,
    scope: Scope,
    new: Vec<u8>,
    entry: Value,
}

/// The entries of this server in a client's file.
#[derive(Debug)]
pub struct State {
    pub file: PathBuf,
    /// Whether the client seems to be installed on this machine.
    pub is_found: bool,
    pub entries: Result<Vec<EntryState>, ChangeError>,
    /// The error of an installation without `--name`, if the default name belongs to another server.
    pub obstacle: Option<TargetError>,
}

/// An entry by which a client starts this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryState {
    pub name: String,
    /// Whether the entry starts the server in a way that only 0.2.x versions used.
    pub is_of_older_version: bool,
    /// Whether the entry opens the admin gate, which lets scripts run.
    pub allows_code: bool,
}

/// Finds the entries of this server in a client's file.
pub fn state(
    client: &Client,
    places: &Places,
    project: Option<&Path>,
) -> Result<State, ChangeError> {
    let file = file_of(client, places, project)?.path;
    // For a project, the folder of the file does not show that the client is installed. So check the file itself, and
    // the user's file.
    let is_found = match project {
        None => places.has(client, &file),
        Some(_) => {
            file.symlink_metadata().is_ok()
                || places.user_file(client).is_some_and(|file| places.has(client, &file))
        }
    };
    let servers = entries(client, &file);
    let obstacle = servers.as_ref().ok();
    let obstacle = obstacle.and_then(|it| Target::choose(it, false, None, &file).err());
    let entries = servers.map(|servers| {
        let ours = servers.into_iter().filter_map(|server| {
            let command = CommandLine::of(&server.members).filter(CommandLine::is_ours)?;
            let is_of_older_version = command.is_of_older_version();
            let allows_code = allows_code(&server.members);
            Some(EntryState { name: server.name, is_of_older_version, allows_code })
        });
        ours.collect()
    });
    Ok(State { file, is_found, entries, obstacle })
}

fn entries(client: &Client, file: &Path) -> Result<Vec<Server>, ChangeError> {
    let original = Original::read(file)?;
    let failed = |source| ChangeError::Edit { file: original.path().to_owned(), source };
    let bytes = original.bytes().unwrap_or_default();
    let document = Document::read(client.format, client.key, bytes).map_err(failed)?;
    document.servers().map_err(failed)
}

struct ClientFile {
    path: PathBuf,
    scope: Scope,
    is_on_windows: bool,
}

fn file_of(
    client: &Client,
    places: &Places,
    project: Option<&Path>,
) -> Result<ClientFile, ChangeError> {
    if let Some(root) = project {
        let files: Vec<PathBuf> = client.project.iter().map(|file| root.join(file)).collect();
        let there = files.iter().find(|file| file.symlink_metadata().is_ok());
        let path = there.or(files.first()).cloned();
        let path = path.ok_or(ChangeError::NoProjectFile)?;
        return Ok(ClientFile { path, scope: Scope::Project, is_on_windows: false });
    }
    let is_on_windows = places.distribution_for(client).is_some();
    let path = if is_on_windows {
        windows::claude_desktop(places)?
    } else {
        places.user_file(client).ok_or(ChangeError::NoUserFile)?
    };
    Ok(ClientFile { path, scope: Scope::User, is_on_windows })
}

impl Change {
    /// Prepares a change of a client's file. Writes nothing.
    pub fn prepare(
        client: &Client,
        request: Request<'_>,
        places: &Places,
    ) -> Result<Self, ChangeError> {
        if let Writing::PrintOnly(why) = client.writing {
            return Err(ChangeError::PrintOnly(why));
        }
        let ClientFile { path, scope, is_on_windows } = file_of(client, places, request.project)?;
        let original = Original::read(&path)?;
        if let Some(root) = request.project
            && !original.is_within(root)?
        {
            let target = original.path().to_owned();
            return Err(ChangeError::OutsideProject { file: path, target });
        }
        let failed = |source| ChangeError::Edit { file: original.path().to_owned(), source };
        let bytes = original.bytes().unwrap_or_default();
        let document = Document::read(client.format, client.key, bytes).map_err(failed)?;
        let servers = document.servers().map_err(failed)?;
        let distribution = places.distribution_for(client).filter(|_| is_on_windows);
        let is_removal = matches!(request.action, Action::Remove);
        let target = Target::choose(&servers, is_removal, request.name, original.path())?;
        let known = target.server.and_then(|server| CommandLine::of(&server.members));
        let mut allows = target.server.is_some_and(|server| allows_code(&server.members));
        let (new, shown, entry) = match request.action {
            Action::Install { launch, variables } => {
                let wanted = Wanted::new(client, launch, variables, distribution);
                let edits = wanted.edits(client.shape, known.as_ref());
                let old_name = target.server.map(|server| server.name.as_str());
                let rename_from = old_name.filter(|old_name| *old_name != target.name);
                let operation = Operation::Put { rename_from, name: &target.name, edits: &edits };
                let entry = entry(&edits);
                allows |= allows_code(&entry);
                (document.edited(operation).map_err(failed)?, wanted.shown(), entry)
            }
            Action::Remove if target.server.is_none() => (bytes.to_vec(), vec![], Value::Null),
            Action::Remove => {
                let operation = Operation::Remove { name: &target.name };
                (document.edited(operation).map_err(failed)?, vec![], Value::Null)
            }
        };
        let effect = effect(request.action, target.server, known.as_ref(), {
            original.bytes().is_some_and(|bytes| bytes == new)
        });
        let diff = if effect.is_nothing() {
            String::new()
        } else {
            let of_entry = target.server.map(|server| texts_shown(&server.members, distribution));
            let shown: Vec<String> =
                shown.into_iter().chain(of_entry.into_iter().flatten()).collect();
            difference(client.format, &original, &new, &shown)
        };
        // Let `claude` make only additions and removals. For an update, `claude` would need two commands, and their
        // arguments would contain the other values of the existing entry. These values may be secret, and every user of
        // the machine can read arguments.
        let is_theirs = client.writing == Writing::ClientsOwn
            && scope == Scope::User
            && matches!(effect, Effect::Add | Effect::Remove);
        let by_claude = is_theirs.then(|| places.program("claude")).flatten();
        let is_found = request.project.is_some() || is_on_windows || places.has(client, &path);
        let file = original.path().to_owned();
        let Target { name, others, .. } = target;
        Ok(Self {
            effect,
            name,
            file,
            diff,
            allows_code: allows,
            others,
            is_found,
            is_on_windows,
            by_claude,
            original,
            scope,
            new,
            entry,
        })
    }

    /// Returns whether the change would write nothing.
    pub fn is_nothing(&self) -> bool {
        self.effect.is_nothing()
    }

    /// Makes the change. Returns the path of the backup, if the file had content before.
    pub fn apply(&self, client: &Client) -> Result<Option<PathBuf>, ChangeError> {
        let Some(claude) = &self.by_claude else {
            return Ok(self.original.replace(&self.new, self.scope)?);
        };
        let backup = self.original.back_up_original()?;
        let made = self.apply_with(claude, client);
        match (made, backup) {
            (Ok(()), backup) => Ok(backup),
            (Err(error), Some(backup)) if self.original.is_as_read() => {
                // The file is unchanged, so the backup is not needed.
                let _ = fs::remove_file(backup);
                Err(error)
            }
            (Err(error), Some(backup)) => {
                Err(ChangeError::Changed { source: Box::new(error), backup })
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Runs `claude` to make the change. Then reads the file, and fails if the entry is not as requested, or still
    /// exists after a removal.
    fn apply_with(&self, claude: &Path, client: &Client) -> Result<(), ChangeError> {
        let is_removal = self.effect == Effect::Remove;
        if is_removal {
            claude::remove(claude, &self.name)?;
        } else {
            claude::add(claude, &self.name, &self.entry)?;
        }
        let servers = entries(client, &self.file)?;
        let now = servers.iter().find(|server| server.name == self.name);
        let has_members = |server: &Server| {
            let wanted = self.entry.as_object().into_iter().flatten();
            wanted.into_iter().all(|(name, value)| server.members.get(name) == Some(value))
        };
        let is_as_wanted = if is_removal { now.is_none() } else { now.is_some_and(has_members) };
        if is_as_wanted { Ok(()) } else { Err(ChangeError::ClaudeDiffers(self.file.clone())) }
    }
}

fn effect(
    action: Action<'_>,
    server: Option<&Server>,
    known: Option<&CommandLine>,
    is_same: bool,
) -> Effect {
    match (action, server, known) {
        (Action::Remove, None, _) => Effect::Absent,
        (Action::Remove, Some(_), _) => Effect::Remove,
        (Action::Install { .. }, ..) if is_same => Effect::AlreadyThere,
        (Action::Install { .. }, Some(_), Some(known)) if known.is_of_older_version() => {
            let python = known.python().map(str::to_owned);
            Effect::TakeOver { command: known.to_string(), python }
        }
        (Action::Install { .. }, Some(_), _) => Effect::Update,
        (Action::Install { .. }, None, _) => Effect::Add,
    }
}

fn difference(format: Format, original: &Original, new: &[u8], shown: &[String]) -> String {
    let before = original.bytes().map(String::from_utf8_lossy);
    let name = original.path().display().to_string();
    unified(&name, format, before.as_deref(), &String::from_utf8_lossy(new), shown)
}

/// Returns whether an entry sets [`ALLOW_CODE`] to `true`. Supports the entry shapes of all clients.
fn allows_code(members: &Value) -> bool {
    let is_true = |value: &str| value.eq_ignore_ascii_case("true");
    let in_environment = ["env", "environment", "envs"].iter().any(|name| {
        let value = members.get(name).and_then(|variables| variables.get(ALLOW_CODE));
        value.and_then(Value::as_str).is_some_and(is_true)
    });
    in_environment || CommandLine::of(members).is_some_and(|line| line.sets_true(ALLOW_CODE))
}
