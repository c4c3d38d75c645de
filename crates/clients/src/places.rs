//! Finds the home folder of the user, the folders for configurations, and programs on `PATH`. It never changes a file.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::client::{Client, Place, Windows};

/// The folders in which the system deletes files from time to time.
const TEMPORARY: [&str; 4] = ["/tmp", "/var/tmp", "/dev/shm", "/private/var/folders"];

/// The folders of the user's own programs, relative to the home folder. `PATH` often lacks them in graphical programs.
const PROGRAM_FOLDERS: [&str; 2] = [".local/bin", ".cargo/bin"];
/// The folders of programs for all users. `PATH` often lacks them in graphical programs.
const SHARED_PROGRAM_FOLDERS: [&str; 3] = ["/opt/homebrew/bin", "/usr/local/bin", "/usr/bin"];

/// The error if `HOME` does not name a home folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("there is no home folder; set HOME to an absolute path")]
pub struct NoHome;

/// The folders and programs of a user, according to the environment variables.
#[derive(Debug, Clone)]
pub struct Places {
    home: PathBuf,
    config: PathBuf,
    is_macos: bool,
    /// The environment variables that name folders of clients, with the paths of the folders.
    named: Vec<(&'static str, PathBuf)>,
    path: OsString,
    temporary: Vec<PathBuf>,
    /// The path of `uv`, if `uv` started this program.
    pub uv: Option<PathBuf>,
    /// The WSL distribution in which this program runs, if any.
    distribution: Option<String>,
}

impl Places {
    /// Reads the folders from environment variables. `lookup` takes the name of a variable and returns its value.
    pub fn from_lookup(
        lookup: impl Fn(&str) -> Option<OsString>,
        is_macos: bool,
    ) -> Result<Self, NoHome> {
        // Ignore a relative path, because it would depend on the current folder.
        let folder =
            |name: &str| lookup(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
        let home = folder("HOME").ok_or(NoHome)?;
        let config = folder("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let named = ["CODEX_HOME", "CLAUDE_CONFIG_DIR"]
            .into_iter()
            .filter_map(|name| Some((name, folder(name)?)))
            .collect();
        let mut temporary: Vec<PathBuf> = TEMPORARY.iter().map(PathBuf::from).collect();
        temporary.extend(folder("TMPDIR"));
        if cfg!(debug_assertions)
            && let Some(folders) = lookup("QWED_MCP_TEST_TEMPORARY")
        {
            temporary = std::env::split_paths(&folders).collect();
        }
        temporary.retain(|folder| folder.is_absolute());
        let distribution = lookup("WSL_DISTRO_NAME").and_then(|name| name.into_string().ok());
        Ok(Self {
            config,
            is_macos,
            named,
            path: lookup("PATH").unwrap_or_default(),
            temporary,
            uv: folder("UV"),
            distribution: distribution.filter(|name| !name.is_empty()),
            home,
        })
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the folder of Claude Code's files.
    pub(super) fn claude_folder(&self) -> PathBuf {
        let named = self.named.iter().find(|(name, _)| *name == "CLAUDE_CONFIG_DIR");
        named.map_or_else(|| self.home.join(".claude"), |(_, folder)| folder.clone())
    }

    /// Returns the user's configuration file of a client: the first candidate that exists, or the first candidate if
    /// none exists.
    pub(super) fn user_file(&self, client: &Client) -> Option<PathBuf> {
        let places = if self.is_macos { client.macos } else { client.linux };
        let files: Vec<PathBuf> = places.iter().map(|place| self.path_of(*place)).collect();
        let there = files.iter().find(|file| file.symlink_metadata().is_ok());
        there.or(files.first()).cloned()
    }

    /// Returns the WSL distribution in which this program runs. Returns `None` outside of WSL, or if the client runs in
    /// WSL too.
    pub(super) fn distribution_for(&self, client: &Client) -> Option<&str> {
        self.distribution.as_deref().filter(|_| client.windows == Windows::FromWsl)
    }

    /// Returns whether a client seems to be installed on this machine: whether its folder, its file or one of its
    /// programs exists.
    pub fn has(&self, client: &Client, file: &Path) -> bool {
        // The home folder always exists, so it does not show that the client is installed.
        let folder = file.parent().filter(|folder| *folder != self.home);
        file.symlink_metadata().is_ok()
            || folder.is_some_and(Path::is_dir)
            || client.programs.iter().any(|name| self.program(name).is_some())
    }

    /// Returns the absolute path of the first program with this name on `PATH`. Does not resolve symlinks.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        let folders = std::env::split_paths(&self.path).filter(|folder| folder.is_absolute());
        folders.map(|folder| folder.join(name)).find(|file| is_program(file))
    }

    /// Returns the first program with this name on `PATH`. If there is none, searches the folders where installers put
    /// programs.
    pub(super) fn installed_program(&self, name: &str) -> Option<PathBuf> {
        let own = PROGRAM_FOLDERS.iter().map(|folder| self.home.join(folder));
        let shared = SHARED_PROGRAM_FOLDERS.iter().map(PathBuf::from);
        self.program(name).or_else(|| {
            own.chain(shared).map(|folder| folder.join(name)).find(|file| is_program(file))
        })
    }

    /// Returns whether a path is in a folder in which the system deletes files. Paths below the home folder do not
    /// count, even if the home folder is in such a folder: the system then deletes the clients' configurations too.
    pub(super) fn is_temporary(&self, path: &Path) -> bool {
        let is_in = |path: &Path, folder: &Path| {
            path.starts_with(folder)
                || folder.canonicalize().is_ok_and(|folder| path.starts_with(folder))
        };
        self.temporary.iter().any(|folder| is_in(path, folder)) && !is_in(path, &self.home)
    }

    fn path_of(&self, place: Place) -> PathBuf {
        match place {
            Place::Home(file) => self.home.join(file),
            Place::Config(file) => self.config.join(file),
            Place::AppSupport(file) => self.home.join("Library/Application Support").join(file),
            Place::Variable { name, file, else_home } => {
                let named = self.named.iter().find(|(known, _)| *known == name);
                named.map_or_else(|| self.home.join(else_home), |(_, folder)| folder.join(file))
            }
        }
    }
}

/// Returns whether a path is a regular file that at least one user may execute.
pub fn is_program(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
