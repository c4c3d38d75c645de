//! Builds an environment step by step, in its own folder. The marker (a file in this folder) is written last. Servers
//! use only environments with a marker.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::listing::{ChangeError, Environment, Turn};
use super::lock::Lock;
use super::marker::{MARKER, Made, Marker};
use super::package::{Requirement, normalised};
use super::startup::{Changed, Startup};
use super::step::Progress;
use super::tool::{Job, PythonWanted, Tool, ToolError};

/// The temporary name of the marker file while its content is being written.
const MARKER_BEGUN: &str = "qwed-env.json.new";
/// The name of the file in the environment that lists all packages to install, with their versions and hashes. pip and
/// uv read this file.
const LOCK_FILE: &str = "requirements.lock";
/// The name of the file in the environment that contains the constraints: the package versions that must stay the same
/// when the admin's packages are added.
const CONSTRAINTS_FILE: &str = "constraints.txt";
/// The name of the file in the environment that contains the packages that the admin added.
const REQUIREMENTS_FILE: &str = "requirements.in";

/// The packages and the interpreter for an environment that will be built.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) lock: Lock,
    /// The package versions that must stay the same when the packages in `with` are added.
    pub(crate) constraints: Lock,
    pub(crate) with: Vec<Requirement>,
    pub(crate) python: PythonWanted,
    /// Whether downloads are forbidden.
    pub(crate) is_offline: bool,
}

impl Order {
    /// Returns the hash of the constraints.
    pub(crate) fn lock_sha256(&self) -> String {
        self.constraints.sha256()
    }

    /// Returns the added packages as strings, as the marker stores them.
    pub(crate) fn with(&self) -> Vec<String> {
        self.with.iter().map(ToString::to_string).collect()
    }
}

/// An error in building an environment. After an error, the incomplete environment is removed.
#[derive(Debug, Error)]
pub(crate) enum BuildError {
    #[error(transparent)]
    Change(#[from] ChangeError),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error("failed to write {file}")]
    Write { file: PathBuf, source: io::Error },
    #[error("the symlinks of the environment's interpreter cannot be resolved")]
    BaseUnknown,
    #[error("failed to record the files that run when the interpreter starts: {0}")]
    Unrecorded(Changed),
    #[error(
        "a package changes files that run when the interpreter starts, so none of its code was \
         run: {0}"
    )]
    StartupChanged(Changed),
    #[error(
        "these packages are missing after their installation: {0}; check the settings target, \
         prefix and dry-run of pip or uv"
    )]
    Elsewhere(String),
}

#[derive(Debug)]
pub(crate) struct Builder<'t> {
    turn: &'t Turn<'t>,
}

/// An environment that is being built. Servers ignore the environment, because it has no marker yet. Dropping this
/// value before [`Self::complete`] removes the environment.
#[derive(Debug)]
pub(crate) struct Draft<'t> {
    turn: &'t Turn<'t>,
    name: String,
    path: PathBuf,
    made: Made,
    is_complete: bool,
}

impl<'t> Builder<'t> {
    pub(crate) fn new(turn: &'t Turn<'t>) -> Self {
        Self { turn }
    }

    /// Builds an environment, except for its marker. Dropping the future removes the environment.
    pub(crate) async fn build(
        &self,
        order: &Order,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Draft<'t>, BuildError> {
        let tool = Tool::find(&order.python).await?;
        let mut draft = self.begin(order, &tool)?;
        let lock = self.turn.share().map_err(|source| draft.unwritten(MARKER, source))?;
        let folder = &draft.path;
        let job = Job { folder, turn: &lock, is_offline: order.is_offline };
        progress(Progress::Step(&format!("Making {} with {}", draft.name, tool.as_text())));
        tool.create(&job, progress).await?;
        let base = draft.base()?;

        let mut locked = order.lock.clone();
        if !order.with.is_empty() {
            let with: Vec<&str> = order.with.iter().map(Requirement::as_str).collect();
            let constraints = draft.write(CONSTRAINTS_FILE, &order.constraints.constraints())?;
            let requirements = draft.write(REQUIREMENTS_FILE, &(with.join("\n") + "\n"))?;
            progress(Progress::Step(&format!("Resolving {}", with.join(", "))));
            let resolved = tool.resolve(&job, &requirements, &constraints, progress).await?;
            locked = locked.with(&resolved, &order.constraints);
        }
        let lock_file = draft.write(LOCK_FILE, &locked.text())?;
        let names = locked.names().len();
        progress(Progress::Step(&format!("Installing up to {names} packages")));
        let folder = draft.path.as_path();
        let startup = Startup::record(folder).map_err(BuildError::Unrecorded)?;
        tool.install(&job, &lock_file, progress).await?;
        // After the installation, no file of the environment may be executed or read before this check, because a
        // package may have replaced the file.
        startup.compare(folder).map_err(BuildError::StartupChanged)?;

        progress(Progress::Step("Compiling"));
        job.compile(&base, progress).await?;
        draft.made.packages = installed(&draft.path);
        draft.made.startup = startup;
        let mut missing = locked.unconditional_names();
        missing.retain(|name| !draft.made.packages.contains_key(name));
        if missing.is_empty() {
            Ok(draft)
        } else {
            Err(BuildError::Elsewhere(missing.into_iter().collect::<Vec<_>>().join(", ")))
        }
    }

    /// Creates an empty folder for the environment.
    fn begin(&self, order: &Order, tool: &Tool) -> Result<Draft<'t>, BuildError> {
        let name = self.turn.next_name()?;
        let path = self.turn.environments().path().join(&name);
        let created = self.turn.begin(&name);
        created.map_err(|source| ChangeError::CreateFolder { folder: path.clone(), source })?;
        let made = Made {
            python: String::new(),
            tool: tool.as_text(),
            is_sdk: order.lock.is_sdk(),
            lock_sha256: order.lock_sha256(),
            with: order.with(),
            packages: BTreeMap::new(),
            startup: Startup::default(),
        };
        Ok(Draft { turn: self.turn, name, path, made, is_complete: false })
    }
}

impl Draft<'_> {
    /// Returns the path of the environment's interpreter.
    pub(crate) fn python(&self) -> PathBuf {
        self.path.join("bin/python")
    }

    /// Returns the canonical path of the interpreter. `bin/python` in the environment is a symlink to this interpreter.
    fn base(&self) -> Result<PathBuf, BuildError> {
        let base = self.python().canonicalize().map_err(|_| BuildError::BaseUnknown)?;
        let own = self.path.canonicalize().map_err(|_| BuildError::BaseUnknown)?;
        // Reject an interpreter that was copied into the environment. It would load the standard library from the
        // environment, where an installed package may have replaced the files.
        if base.starts_with(own) { Err(BuildError::BaseUnknown) } else { Ok(base) }
    }

    /// Returns whether the environment has this package.
    pub(crate) fn has(&self, distribution: &str) -> bool {
        self.made.packages.contains_key(&normalised(distribution))
    }

    /// Writes the marker, so that servers use the environment. Call this only after a test of the environment's
    /// interpreter. `python` is the version of the interpreter.
    pub(crate) fn complete(mut self, python: String) -> Result<Environment, BuildError> {
        self.made.python = python;
        let marker = Marker::new(self.made.clone());
        let write = || {
            let folder = self.turn.folder.folder(OsStr::new(&self.name))?;
            // Write the contents to disk before the marker, because the marker declares them complete.
            folder.sync_file_system()?;
            let mut file = folder.create_file(OsStr::new(MARKER_BEGUN))?;
            file.write_all(&marker.to_bytes())?;
            file.sync_all()?;
            folder.rename(OsStr::new(MARKER_BEGUN), &folder, OsStr::new(MARKER))?;
            folder.sync()?;
            self.turn.end(&self.name)
        };
        write().map_err(|source| self.unwritten(MARKER, source))?;
        self.is_complete = true;
        Ok(Environment { name: self.name.clone(), path: self.path.clone(), marker })
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, BuildError> {
        let file = self.path.join(name);
        fs::write(&file, text).map_err(|source| self.unwritten(name, source))?;
        Ok(file)
    }

    fn unwritten(&self, name: &str, source: io::Error) -> BuildError {
        BuildError::Write { file: self.path.join(name), source }
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if self.is_complete {
            return;
        }
        // If the removal fails, the next process that makes or removes environments removes the folder.
        if let Err(error) = self.turn.remove_tree(&self.name) {
            tracing::debug!(%error, "a half-made environment is left");
        }
    }
}

/// Returns the installed packages with their versions, from the names of their `.dist-info` folders.
fn installed(environment: &Path) -> BTreeMap<String, String> {
    let libraries = fs::read_dir(environment.join("lib")).into_iter().flatten().flatten();
    let folders = libraries.map(|library| library.path().join("site-packages"));
    let entries = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let package = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let (name, version) = name.strip_suffix(".dist-info")?.split_once('-')?;
        Some((normalised(name), version.to_owned()))
    };
    entries.filter_map(package).collect()
}
