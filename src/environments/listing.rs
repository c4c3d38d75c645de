//! Lists environments, finds the newest environment, and removes unused environments. This module never removes an
//! environment that a server uses.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::libc::O_NOFOLLOW;
use thiserror::Error;

use super::marker::{MARKER, Marker};
use super::startup::Changed;
use crate::config::Settings;
use crate::data_folder::{NoDataFolder, data_folder};
use crate::folder::{Folder, Kind};
use crate::is_same_file;
use crate::strict_modes::{Unprotected, require_protected};

/// The name of the folder with all environments, in the data folder.
pub(crate) const FOLDER: &str = "environments";

/// The name of the folder in [`FOLDER`] with the environments for packages that scripts list in their headers.
const OF_SCRIPTS: &str = "scripts";

/// The name of the lock file. A process locks this file while it makes or removes environments.
const LOCK: &str = ".lock";

/// The prefix of an environment's name. A number follows.
const NAME: &str = "env-";

/// The suffix of a file that exists next to an environment's folder while the environment is being made. An environment
/// with this file is not used, even if a package has written a marker into its folder. Packages cannot remove this
/// file.
const BEGUN: &str = ".begun";

/// The maximum number of entries in the folder that contains the environments. The folder usually has few entries,
/// because superseded environments are removed when no process uses them.
const NAMES_MAX: usize = 10_000;

/// The maximum number of retries to lock an environment. The lock is not free while another process checks whether the
/// environment is in use.
const TRIES_MAX: u32 = 50;
/// The pause between two attempts to lock an environment.
const TRY_PAUSE: Duration = Duration::from_millis(10);

/// The folder that contains the environments of this user.
#[derive(Debug, Clone)]
pub(crate) struct Environments {
    path: PathBuf,
}

/// A complete environment.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) marker: Marker,
}

impl Environment {
    /// Returns the path of the environment's interpreter.
    pub(crate) fn python(&self) -> PathBuf {
        self.path.join("bin/python")
    }

    /// Fails if other users could have written code into the environment, or if the files that its interpreter reads at
    /// startup have changed.
    fn require_usable(&self) -> Result<(), Unusable> {
        let protected = require_protected(&self.path.join(MARKER));
        protected.map_err(|reason| Unusable::Unprotected { path: self.path.clone(), reason })?;
        self.require_unchanged()
    }

    /// Fails if the files that the interpreter reads at startup have changed since the environment was made.
    fn require_unchanged(&self) -> Result<(), Unusable> {
        let compared = self.marker.startup.compare(&self.path);
        compared.map_err(|reason| Unusable::Changed { path: self.path.clone(), reason })
    }
}

/// The environments in a folder. Environments with an unreadable marker are not included.
#[derive(Debug, Default)]
struct Survey {
    /// The complete environments, newest first.
    complete: Vec<Environment>,
    /// The names of the incomplete environments.
    incomplete: Vec<String>,
}

/// An environment in use. The environment is not removed while this value exists.
#[derive(Debug)]
pub(crate) struct InUse {
    pub(crate) environment: Environment,
    _lock: File,
}

/// The reason why a complete environment must not be used.
#[derive(Debug, Error)]
pub(crate) enum Unusable {
    /// Other users could have written code into the environment.
    #[error("{reason}")]
    Unprotected { path: PathBuf, reason: Unprotected },
    /// The code that the environment's interpreter loads at startup has changed since the environment was made.
    #[error(
        "{reason} after the environment was made, so other code may run outside of the sandbox; \
         `qwed-mcp env create` makes a new one"
    )]
    Changed { path: PathBuf, reason: Changed },
}

/// An error in making or removing environments.
#[derive(Debug, Error)]
pub(crate) enum ChangeError {
    #[error("failed to create {folder}")]
    CreateFolder { folder: PathBuf, source: io::Error },
    #[error(transparent)]
    Unprotected(#[from] Unprotected),
    #[error("failed to use {file}, the lock file")]
    Turn { file: PathBuf, source: io::Error },
    #[error(
        "another process is making or removing environments in {folder}; try again when it has \
         ended"
    )]
    Busy { folder: PathBuf },
    #[error("failed to list {folder}")]
    List { folder: PathBuf, source: io::Error },
    #[error("failed to remove {folder}")]
    Remove { folder: PathBuf, source: io::Error },
}

impl ChangeError {
    /// Returns whether the folder of environments cannot be used.
    pub(crate) fn is_about_folder(&self) -> bool {
        match self {
            Self::CreateFolder { .. }
            | Self::Unprotected(_)
            | Self::Turn { .. }
            | Self::List { .. } => true,
            Self::Busy { .. } | Self::Remove { .. } => false,
        }
    }
}

/// The outcome of an attempt to remove an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    Removed,
    /// A server uses the environment, so the environment was not removed.
    InUse,
}

impl Environments {
    /// Returns the environments in the data folder. The folder may be missing.
    pub(crate) fn of(settings: &Settings) -> Result<Self, NoDataFolder> {
        let data = data_folder(settings.data_dir.as_deref())?;
        // Make the path absolute, because the paths of interpreters must be the same in every working directory.
        let data = std::path::absolute(&data).map_err(|_| NoDataFolder)?;
        Ok(Self { path: data.join(FOLDER) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the newest complete environment. The environment is not removed while the returned value exists.
    pub(crate) fn newest(&self) -> Result<Option<InUse>, Unusable> {
        let mut numbers = self.numbers().unwrap_or_else(|error| {
            let folder = self.path.display();
            tracing::warn!(%folder, %error, "the environments are not used: failed to list them");
            Vec::new()
        });
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        let Some(found) = numbers.into_iter().find_map(|number| self.take(&name_of(number))) else {
            return Ok(None);
        };
        found.environment.require_usable()?;
        Ok(Some(found))
    }

    /// Returns the name of an environment for messages: `env-1`, or `scripts/env-1` for packages of scripts.
    pub(crate) fn shown_name(&self, environment: &Environment) -> String {
        let name = &environment.name;
        if self.path.ends_with(OF_SCRIPTS) { format!("{OF_SCRIPTS}/{name}") } else { name.clone() }
    }

    /// Returns the environments for packages that scripts list in their headers. They are in a folder of their own, so
    /// [`Self::newest`] never returns them for `self`.
    pub(crate) fn of_scripts(&self) -> Self {
        Self { path: self.path.join(OF_SCRIPTS) }
    }

    /// Returns the newest usable environment with this lock, exactly these added packages, and the interpreter `base`.
    pub(crate) fn matching(
        &self,
        lock_sha256: &str,
        with: &[String],
        base: &Path,
    ) -> Option<InUse> {
        let made = self.list().unwrap_or_default();
        let is_fitting = |it: &&Environment| {
            let has_packages = it.marker.with == with && it.marker.lock_sha256 == lock_sha256;
            has_packages && it.python().canonicalize().is_ok_and(|python| python == base)
        };
        let mut fitting = made.iter().filter(is_fitting).filter_map(|it| self.take(&it.name));
        fitting.find(|found| match found.environment.require_usable() {
            Ok(()) => true,
            Err(error) => {
                tracing::info!(%error, "an environment is not used");
                false
            }
        })
    }

    /// Returns the environment that contains a program, if any. The environment is not removed while the returned value
    /// exists.
    pub(crate) fn holding(&self, program: &Path) -> Result<Option<InUse>, Unusable> {
        let name =
            program.strip_prefix(&self.path).ok().and_then(|rest| rest.iter().next()?.to_str());
        let name = name.filter(|name| number_of(name).is_some());
        let found = name.and_then(|name| self.take(name));
        if let Some(found) = &found {
            found.environment.require_unchanged()?;
        }
        Ok(found)
    }

    /// Returns the complete environments, newest first.
    pub(crate) fn list(&self) -> Result<Vec<Environment>, ChangeError> {
        Ok(self.survey()?.complete)
    }

    fn survey(&self) -> Result<Survey, ChangeError> {
        let mut numbers = self.numbers().map_err(|source| self.unlisted(source))?;
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        let mut survey = Survey::default();
        for name in numbers.into_iter().map(name_of) {
            match self.open(&name) {
                Ok(Some((environment, _))) => survey.complete.push(environment),
                Ok(None) => survey.incomplete.push(name),
                Err(error) => self.warn_of_unreadable(&name, &error),
            }
        }
        Ok(survey)
    }

    fn warn_of_unreadable(&self, name: &str, error: &io::Error) {
        let path = self.path.join(name).join(MARKER);
        let path = path.display();
        tracing::warn!(%path, %error, "an environment is neither used nor removed: failed to read its marker");
    }

    /// Returns whether a server uses this environment.
    pub(crate) fn is_in_use(&self, environment: &Environment) -> bool {
        let lock = self.open(&environment.name).ok().flatten();
        lock.is_some_and(|(_, file)| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Takes the turn: the exclusive right to make and remove environments. Creates the folder of environments if it is
    /// missing.
    pub(crate) fn turn(&self) -> Result<Turn<'_>, ChangeError> {
        let mut builder = DirBuilder::new();
        let created = builder.recursive(true).mode(0o700).create(&self.path);
        created
            .map_err(|source| ChangeError::CreateFolder { folder: self.path.clone(), source })?;
        require_protected(&self.path)?;
        let file = self.path.join(LOCK);
        let turn = |source| ChangeError::Turn { file: file.clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600).custom_flags(O_NOFOLLOW);
        let lock = options.open(&file).map_err(turn)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(ChangeError::Busy { folder: self.path.clone() });
            }
            Err(TryLockError::Error(source)) => return Err(turn(source)),
        }
        let folder = Folder::open(&self.path).map_err(|source| self.unlisted(source))?;
        Ok(Turn { environments: self, folder, lock })
    }

    /// Opens a complete environment, and locks it against removal.
    fn take(&self, name: &str) -> Option<InUse> {
        let opened = self.open(name).inspect_err(|error| self.warn_of_unreadable(name, error));
        let (environment, file) = opened.ok().flatten()?;
        // Retry, because a process that checks whether the environment is in use holds the lock for a moment.
        let mut tries_left = TRIES_MAX;
        while let Err(error) = file.try_lock_shared() {
            if tries_left == 0 || matches!(error, TryLockError::Error(_)) {
                return None;
            }
            tries_left -= 1;
            thread::sleep(TRY_PAUSE);
        }
        // Do not use the environment if its marker was removed, because then another process is removing the
        // environment.
        let (_, now) = self.open(name).ok().flatten()?;
        let is_there = is_same_file(&now.metadata().ok()?, &file.metadata().ok()?);
        is_there.then_some(InUse { environment, _lock: file })
    }

    /// Opens an environment and its marker. Returns `None` if the environment is incomplete or does not exist. Fails if
    /// it is unknown whether the environment is complete, for example if a newer version of this program wrote the
    /// marker.
    fn open(&self, name: &str) -> io::Result<Option<(Environment, File)>> {
        let Some(folder) = none_if_missing(Folder::open(&self.path))? else { return Ok(None) };
        if none_if_missing(folder.stat(&begun(name)))?.is_some() {
            return Ok(None);
        }
        let Some(own) = none_if_missing(folder.folder(OsStr::new(name)))? else { return Ok(None) };
        // Accept a marker with several hard links, because another program may have copied the folder with hard links.
        // Such a copy does not change the environment.
        let Some(file) = none_if_missing(own.linked_file(OsStr::new(MARKER)))? else {
            return Ok(None);
        };
        let marker = Marker::read(&file)?;
        let path = self.path.join(name);
        Ok(Some((Environment { name: name.to_owned(), path, marker }, file)))
    }

    /// Returns the numbers of all environments, complete or not.
    fn numbers(&self) -> io::Result<Vec<u32>> {
        let names = match Folder::open(&self.path).and_then(|folder| folder.names(NAMES_MAX)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            names => names?,
        };
        Ok(names.iter().filter_map(|name| number_of(name.to_str()?)).collect())
    }

    /// Returns the folder of an environment with an unreadable marker, by the environment's name for messages.
    pub(crate) fn unreadable(&self, shown_name: &str) -> Option<PathBuf> {
        let is_of_scripts = self.path.ends_with(OF_SCRIPTS);
        let name = match shown_name.split_once('/') {
            Some((OF_SCRIPTS, name)) if is_of_scripts => name,
            None if !is_of_scripts => shown_name,
            Some(_) | None => return None,
        };
        number_of(name)?;
        self.open(name).is_err().then(|| self.path.join(name))
    }

    fn unlisted(&self, source: io::Error) -> ChangeError {
        ChangeError::List { folder: self.path.clone(), source }
    }
}

/// Converts the error for a missing file or folder to `Ok(None)`.
fn none_if_missing<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        found => found.map(Some),
    }
}

fn name_of(number: u32) -> String {
    format!("{NAME}{number}")
}

/// Returns the name of the file that exists while an environment is being made.
fn begun(name: &str) -> OsString {
    format!(".{name}{BEGUN}").into()
}

/// Returns the number in the name of an environment.
fn number_of(name: &str) -> Option<u32> {
    let number = name.strip_prefix(NAME)?.parse().ok()?;
    (name_of(number) == name).then_some(number)
}

/// The turn: the exclusive right to make and remove environments. Only one process has the turn at a time.
#[derive(Debug)]
pub(crate) struct Turn<'e> {
    environments: &'e Environments,
    pub(super) folder: Folder,
    lock: File,
}

impl Drop for Turn<'_> {
    /// Ends the turn, even if a process that was started during the turn has not closed the descriptor of the lock.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

impl Turn<'_> {
    /// Removes incomplete and superseded environments. Returns the names of superseded environments that are in use.
    pub(crate) fn clean_up(&self) -> Result<Vec<String>, ChangeError> {
        let Survey { complete, incomplete } = self.environments.survey()?;
        self.remove_incomplete(&incomplete)?;
        let mut kept = Vec::new();
        for older in complete.iter().skip(1) {
            match self.remove(older)? {
                Removal::Removed => {}
                Removal::InUse => kept.push(older.name.clone()),
            }
        }
        Ok(kept)
    }

    /// Removes incomplete environments. Then removes the oldest unused environments until fewer than `count_max`
    /// remain. Returns whether fewer remain.
    pub(crate) fn make_room(&self, count_max: usize) -> Result<bool, ChangeError> {
        let Survey { complete, incomplete } = self.environments.survey()?;
        self.remove_incomplete(&incomplete)?;
        let mut count = complete.len();
        for oldest in complete.iter().rev() {
            if count < count_max {
                break;
            }
            if self.remove(oldest)? == Removal::Removed {
                count -= 1;
            }
        }
        Ok(count < count_max)
    }

    fn remove_incomplete(&self, names: &[String]) -> Result<(), ChangeError> {
        for name in names {
            // Do not remove a symlink or a file with the name of an environment, because this program did not make it.
            if self.folder.stat(OsStr::new(name)).is_ok_and(|stat| stat.kind == Kind::Folder) {
                self.remove_tree(name)?;
            }
        }
        Ok(())
    }

    /// Removes an environment, unless it is in use.
    pub(crate) fn remove(&self, environment: &Environment) -> Result<Removal, ChangeError> {
        let failed = |source| ChangeError::Remove { folder: environment.path.clone(), source };
        let Some((_, marker)) = self.environments.open(&environment.name).map_err(failed)? else {
            self.remove_tree(&environment.name)?;
            return Ok(Removal::Removed);
        };
        match marker.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Removal::InUse),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // Remove the marker first. Then no server uses the environment, even if the rest of its files cannot be
        // removed.
        let folder = self.folder.folder(OsStr::new(&environment.name)).map_err(failed)?;
        folder.remove_file(OsStr::new(MARKER)).and_then(|()| folder.sync()).map_err(failed)?;
        self.remove_tree(&environment.name)?;
        Ok(Removal::Removed)
    }

    /// Returns the name of the next environment. Its number is above the numbers of all existing environments.
    pub(super) fn next_name(&self) -> Result<String, ChangeError> {
        let numbers = self.environments.numbers();
        let numbers = numbers.map_err(|source| self.environments.unlisted(source))?;
        Ok(name_of(numbers.into_iter().max().unwrap_or(0).saturating_add(1)))
    }

    /// Creates the folder of a new environment. No server uses the environment before [`Self::end`], even if the
    /// folder contains a marker.
    pub(super) fn begin(&self, name: &str) -> io::Result<()> {
        match self.folder.create_file(&begun(name)) {
            // A killed process may have left the file. Reuse it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => drop(created?),
        }
        let created = self.folder.create_folder(OsStr::new(name));
        created.inspect_err(|_| self.remove_begun_file(name))
    }

    /// Makes a new environment available to servers.
    pub(super) fn end(&self, name: &str) -> io::Result<()> {
        self.folder.sync()?;
        self.folder.remove_file(&begun(name))?;
        self.folder.sync()
    }

    /// Removes the file that marks an unfinished environment. Call this after the environment's folder is removed.
    /// Ignores a failure, because the file is harmless.
    fn remove_begun_file(&self, name: &str) {
        let _ = self.folder.remove_file(&begun(name));
    }

    /// Duplicates the file descriptor of the turn's lock. The turn ends when the descriptor and all its duplicates are
    /// closed.
    pub(super) fn share(&self) -> io::Result<File> {
        self.lock.try_clone()
    }

    pub(crate) fn environments(&self) -> &Environments {
        self.environments
    }

    pub(super) fn remove_tree(&self, name: &str) -> Result<(), ChangeError> {
        let removed = self.folder.remove_tree(OsStr::new(name)).map_err(|source| {
            let folder = self.environments.path.join(name);
            ChangeError::Remove { folder, source }
        });
        removed.inspect(|()| self.remove_begun_file(name))
    }
}
