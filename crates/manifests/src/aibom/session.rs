//! Records the components that one session of a server really uses, and writes the bill of materials. It never looks
//! up the versions of packages; its caller does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use uuid::Uuid;

use super::{AiBom, Component, ComponentType, Components, SERVER};

/// The libraries that count as verification engines, in addition to all libraries with the prefix [`ENGINE_PREFIX`].
const ENGINES: [&str; 3] = ["qwed", "sympy", "z3"];
/// The prefix in the names of QWED's packages.
const ENGINE_PREFIX: &str = "qwed_";

/// The maximum number of recorded names of each kind. The limit keeps scripts and clients from filling the memory with
/// names.
const NAMES_MAX: usize = 1000;
/// The maximum length of a name, in characters. A longer name is cut.
const NAME_CHARS_MAX: usize = 200;

/// The recommended suffix of `CycloneDX` files. In a file with this suffix, the bill is a `CycloneDX` document.
const CYCLONEDX_ENDING: &str = ".cdx.json";

/// A record of the models, tools and engines that one session used. The bill is created from this record. All threads
/// share the record.
#[derive(Debug, Default)]
pub struct Session {
    /// The name of the model in the bill, if no caller names a model.
    model: Option<String>,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    tools: BTreeSet<String>,
    engines: BTreeSet<String>,
    models: BTreeSet<String>,
    clients: BTreeSet<(String, String)>,
    /// Whether a script has run.
    has_run: bool,
    /// The modules for which a look-up of their packages was requested.
    asked: BTreeSet<String>,
    /// The number of requested look-ups without a result yet.
    unanswered: usize,
    python: Option<String>,
    /// The installed packages that were looked up. Each key is the name of a module that the package contains.
    packages: BTreeMap<String, Package>,
}

/// The interpreter that runs scripts, and the packages that are installed for it.
#[derive(Debug)]
pub struct InstalledPackages {
    /// The version of the interpreter.
    pub python: String,
    /// The requested packages that are installed. Each key is the name of a module that the package contains.
    pub packages: BTreeMap<String, Package>,
}

/// An installed package.
#[derive(Debug, Clone)]
pub struct Package {
    /// The name of the package on `PyPI`.
    pub distribution: String,
    /// The installed version of the package.
    pub version: String,
}

/// The reason why a bill cannot be written to a path.
#[derive(Debug, Error)]
pub enum UnusableFile {
    /// The folder that should contain the file does not exist.
    #[error("its folder does not exist")]
    NoFolder,
    /// The path leads to a device, a pipe or a socket, which other programs may use.
    #[error("it is not a regular file")]
    NotAFile,
    /// The path is a symlink, and its target does not exist.
    #[error("it is a broken symlink")]
    Dangling,
    /// The metadata of the path cannot be read.
    #[error("it cannot be checked: {0}")]
    Unknown(#[source] io::Error),
}

/// Returns the path to which a bill is written: the canonical path of `path`, so that the bill replaces the target of
/// a symlink and not the symlink. If nothing exists at `path`, returns `path` itself.
///
/// # Errors
///
/// If no bill can be written to the path.
pub fn destination(path: &Path) -> Result<PathBuf, UnusableFile> {
    let is_absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match path.symlink_metadata() {
        Err(error) if is_absent(&error) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let is_there = folder.is_none_or(Path::is_dir);
            is_there.then(|| path.to_owned()).ok_or(UnusableFile::NoFolder)
        }
        Err(error) => Err(UnusableFile::Unknown(error)),
        Ok(_) => {
            let real = path.canonicalize().map_err(|error| {
                if is_absent(&error) {
                    UnusableFile::Dangling
                } else {
                    UnusableFile::Unknown(error)
                }
            })?;
            let found = real.symlink_metadata().map_err(UnusableFile::Unknown)?;
            let is_usable = found.is_file() || found.is_dir();
            is_usable.then_some(real).ok_or(UnusableFile::NotAFile)
        }
    }
}

impl Session {
    /// Creates a session that has used no components yet. `model` is the name of the model if no caller names a
    /// model.
    pub fn new(model: Option<String>) -> Self {
        Self { model, used: Mutex::default() }
    }

    /// Records a tool. Called after a call of the tool was allowed.
    pub fn record_tool(&self, name: &str) {
        add(&mut self.used().tools, name);
    }

    /// Records the client. The client chooses the name and version that it reports.
    pub fn record_client(&self, name: &str, version: &str) {
        let clients = &mut self.used().clients;
        if clients.len() < NAMES_MAX {
            clients.insert((shortened(name), shortened(version)));
        }
    }

    /// Records the model that a caller names.
    pub fn record_model(&self, name: &str) {
        if !name.is_empty() {
            add(&mut self.used().models, name);
        }
    }

    /// Records that a script has run. `engines` contains the engines that the script imports, as the function
    /// [`engines`] returns them. Returns the modules whose packages the caller must look up, or `None` if no look-up is
    /// needed. The first list may be empty, because the first look-up also finds the interpreter's version.
    pub fn record_script(&self, engines: &[String]) -> Option<Vec<String>> {
        let mut used = self.used();
        let mut new = Vec::new();
        for engine in engines {
            add(&mut used.engines, engine);
            let module = module_of(engine);
            if used.asked.len() < NAMES_MAX && used.asked.insert(module.to_owned()) {
                new.push(module.to_owned());
            }
        }
        let is_first = !std::mem::replace(&mut used.has_run, true);
        if !is_first && new.is_empty() {
            return None;
        }
        used.unanswered += 1;
        Some(new)
    }

    /// Records the interpreter and the packages that one look-up found.
    pub fn record_packages(&self, installed: InstalledPackages) {
        let mut used = self.used();
        used.unanswered = used.unanswered.saturating_sub(1);
        used.python = Some(installed.python);
        used.packages.extend(installed.packages);
    }

    /// Returns the bill of all components that were recorded so far.
    pub fn manifest(&self) -> AiBom {
        let used = self.used();
        let all = |names: &BTreeSet<String>, kind| -> Vec<Component> {
            names.iter().map(|name| Component::new(name, kind)).collect()
        };
        let mut models = all(&used.models, ComponentType::Generator);
        if models.is_empty() {
            models.extend(self.model.iter().map(|m| Component::new(m, ComponentType::Generator)));
        }
        let mut verification_engines = all(&used.engines, ComponentType::QwedDeterministic);
        for engine in &mut verification_engines {
            if let Some(package) = used.packages.get(module_of(&engine.name)) {
                engine.distribution = Some(package.distribution.clone());
                engine.version = Some(package.version.clone());
            }
        }
        let mut runtime = Vec::new();
        if let Some(version) = &used.python {
            let python = Component::new("python", ComponentType::Interpreter);
            runtime.push(python.with_version(Some(version.clone())));
        }
        let server = Component::new(SERVER, ComponentType::McpServer);
        runtime.push(server.with_version(Some(env!("CARGO_PKG_VERSION").to_owned())));
        for (name, version) in &used.clients {
            let version = Some(version.clone()).filter(|version| !version.is_empty());
            runtime.push(Component::new(name, ComponentType::McpClient).with_version(version));
        }
        let mcp_tools = all(&used.tools, ComponentType::ActionExecution);
        let components = Components { models, verification_engines, mcp_tools, runtime };
        if used.unanswered == 0 { AiBom::new(components) } else { AiBom::incomplete(components) }
    }

    /// Writes the bill to the file at `path`, as a `CycloneDX` document if `path` ends in `.cdx.json`. If `path` is a
    /// folder, creates a new file in the folder. Replaces an existing file only after the new file is complete. Returns
    /// the path of the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<PathBuf> {
        let is_cyclonedx =
            path.as_os_str().as_encoded_bytes().ends_with(CYCLONEDX_ENDING.as_bytes());
        let mut path = destination(path).map_err(io::Error::other)?;
        if path.is_dir() {
            path.push(format!("aibom-{}.json", Uuid::new_v4().simple()));
        }
        let bom = self.manifest();
        let text = if is_cyclonedx {
            serde_json::to_string_pretty(&bom.to_cyclonedx())
        } else {
            serde_json::to_string_pretty(&bom)
        }?;
        // Let other users read a new bill. It contains no secrets, and another user's program may collect it.
        let mode = fs::metadata(&path).map_or(0o644, |old| old.permissions().mode() & 0o777);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::Builder::new()
            .prefix(".aibom-")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder.unwrap_or(Path::new(".")))?;
        file.write_all(format!("{text}\n").as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(&path).map_err(|error| error.error)?;
        Ok(path)
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the names of the imported verification engines for the bill of materials: the full imported name for a
/// package of QWED, such as `qwed_legal.FairnessGuard`, and the module's name for other engines, such as `sympy`.
pub fn engines<'i>(imports: impl Iterator<Item = &'i str>) -> Vec<String> {
    let named: BTreeSet<&str> = imports
        .filter_map(|import| match module_of(import) {
            module if module.starts_with(ENGINE_PREFIX) => Some(import),
            module => ENGINES.contains(&module).then_some(module),
        })
        .take(NAMES_MAX)
        .collect();
    named.into_iter().map(shortened).collect()
}

fn module_of(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

fn add(names: &mut BTreeSet<String>, name: &str) {
    if names.len() < NAMES_MAX {
        names.insert(shortened(name));
    }
}

fn shortened(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
