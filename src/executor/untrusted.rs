//! Checks that a program outside of the sandbox runs no code from the workspace.
//!
//! The workspace is the project in which the governed tools, such as `run_pytest`, run tests. Models can write any file
//! in this project: not only a test, but also an interpreter, a file that a `.pth` file names, or a module with the
//! name `json`. A program that the server starts outside of the sandbox could run such a file. So this module checks
//! the program before the start.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use qwed_files::links::{leads_through, places_on_the_way};

/// The maximum number of bytes that are read from a file that may name an interpreter: a script, or `pyvenv.cfg`.
const NAMING_BYTES_MAX: u64 = 64 * 1024;
/// The first line of a script may name another script as its interpreter (`execve(2)`). The check follows at most this
/// number of further scripts.
const SCRIPTS_MAX: usize = 5;

type LookUp = dyn Fn() -> Result<Option<PathBuf>, String> + Send + Sync;

/// A function that looks up the current path of the untrusted folder ([`UntrustedFolder`]). The path itself is not
/// stored, because an admin may change it while the server runs.
#[derive(Clone, Default)]
pub(crate) struct Untrusted {
    look_up: Option<Arc<LookUp>>,
}

impl fmt::Debug for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.look_up.is_some() { "Untrusted(..)" } else { "Untrusted(none)" })
    }
}

impl Untrusted {
    /// Creates a value that calls `look_up` for each lookup. `look_up` returns `None` if no untrusted folder is
    /// configured, and an error if it cannot read the configuration.
    pub(crate) fn looked_up_by(
        look_up: impl Fn() -> Result<Option<PathBuf>, String> + Send + Sync + 'static,
    ) -> Self {
        Self { look_up: Some(Arc::new(look_up)) }
    }

    /// Returns true if the server has no untrusted folder and will never have one.
    pub(super) fn is_none(&self) -> bool {
        self.look_up.is_none()
    }

    /// Returns the untrusted folder at its current path; `None` if no folder is configured. Returns an error if the
    /// lookup fails.
    pub(super) fn folder(&self) -> Result<Option<UntrustedFolder>, String> {
        let Some(look_up) = &self.look_up else { return Ok(None) };
        let Some(folder) = look_up()? else { return Ok(None) };
        // A path that does not exist is an error, because a dangling symlink may lead anywhere later.
        let folder = UntrustedFolder::new(&folder)
            .ok_or("workspace.root does not exist or cannot be read".to_owned())?;
        Ok(Some(folder))
    }
}

/// A folder with code that must not run outside of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UntrustedFolder {
    /// The folder's path as it was passed to [`Self::new`], and the canonical path.
    names: [PathBuf; 2],
    /// The folder's device number and inode number. They are the same at every mount point of the folder.
    identity: (u64, u64),
}

impl UntrustedFolder {
    /// Looks up the folder; `None` if it does not exist.
    pub(crate) fn new(folder: &Path) -> Option<Self> {
        let real = fs::canonicalize(folder).ok()?;
        let identity = identity(&real)?;
        Some(Self { names: [folder.to_owned(), real], identity })
    }

    /// Returns whether `path` leads through the folder: by its components, through a symlink, or through another mount
    /// of the folder.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        self.names.iter().any(|name| path.starts_with(name) || leads_through(path, name))
            || self.is_mounted_above(path)
    }

    /// Returns whether `path` leads into the folder through another mount of the folder.
    fn is_mounted_above(&self, path: &Path) -> bool {
        let places = places_on_the_way(path).unwrap_or_default();
        let mut above = places.iter().flat_map(|place| place.ancestors());
        above.any(|folder| identity(folder) == Some(self.identity))
    }

    /// Returns whether `folder` leads through this folder ([`Self::holds`]), or contains this folder.
    pub(super) fn overlaps(&self, folder: &Path) -> bool {
        self.holds(folder) || self.names.iter().any(|name| name.starts_with(folder))
    }

    /// Returns whether starting the program at `path` would run code of the folder, as far as this can be determined
    /// without starting the program. Checks the location of the program, the interpreter in the first line of a script,
    /// and, for a virtual environment, the source of its standard library (PEP 405: `home`).
    pub(super) fn is_started_by(&self, path: &Path) -> bool {
        let beside = path.parent();
        let above = beside.and_then(Path::parent);
        let settings = [beside, above].into_iter().flatten().map(|at| at.join("pyvenv.cfg"));
        let home = settings.filter_map(|settings| home_of(&settings));
        self.holds(path)
            || self.is_named_by(path, SCRIPTS_MAX)
            || home.into_iter().any(|home| self.holds(&home))
    }

    /// Returns whether the first line of a script names a program in the folder, directly or through other scripts.
    /// Follows at most `scripts_max` further scripts.
    fn is_named_by(&self, script: &Path, scripts_max: usize) -> bool {
        named_by_script(script).iter().any(|program| {
            self.holds(program) || (scripts_max > 0 && self.is_named_by(program, scripts_max - 1))
        })
    }

    /// Returns `search_path` without the entries that lead into the folder. Also removes relative entries, because the
    /// current directory may be in this folder.
    pub(super) fn removed_from(&self, search_path: &OsStr) -> OsString {
        let kept = std::env::split_paths(search_path)
            .filter(|entry| entry.is_absolute() && !self.holds(entry));
        // `join_paths` cannot fail, because the entries come from `split_paths`.
        std::env::join_paths(kept).unwrap_or_default()
    }

    /// Returns whether the value of an environment variable contains a path that leads into the folder.
    pub(super) fn is_named_in(&self, value: &OsStr) -> bool {
        std::env::split_paths(value).any(|path| path.is_absolute() && self.holds(&path))
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = path.metadata().ok()?;
    Some((found.dev(), found.ino()))
}

/// Opens the start of a regular file; `None` if the file cannot be read.
fn start_of(path: &Path) -> Option<impl std::io::BufRead> {
    // Skips other kinds of files, because opening a named pipe would wait for a writer.
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    let file = is_file.then(|| File::open(path).ok()).flatten()?;
    Some(BufReader::new(file.take(NAMING_BYTES_MAX)))
}

/// Returns the absolute paths in the first line of a script: the interpreter and its argument (`execve(2)`).
fn named_by_script(path: &Path) -> Vec<PathBuf> {
    let mut line = Vec::new();
    let read = start_of(path).and_then(|mut start| start.read_until(b'\n', &mut line).ok());
    let line = String::from_utf8_lossy(&line);
    let words = line.strip_prefix("#!").filter(|_| read.is_some()).unwrap_or_default();
    let words = words.split_whitespace().map(PathBuf::from);
    words.filter(|word| word.is_absolute()).collect()
}

/// Returns the `home` in a `pyvenv.cfg`: the folder of the interpreter that a virtual environment was made from.
fn home_of(settings: &Path) -> Option<PathBuf> {
    let mut text = Vec::new();
    start_of(settings)?.read_to_end(&mut text).ok()?;
    String::from_utf8_lossy(&text).lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        key.trim().eq_ignore_ascii_case("home").then(|| PathBuf::from(value.trim()))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn whatever_leads_through_the_folder_is_seen() {
        let machine = tempfile::tempdir().unwrap();
        let at = |path: &str| machine.path().join(path);
        for folder in ["ws/.venv/bin", "elsewhere/bin", "made/bin"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        symlink(at("ws"), at("alias")).unwrap();
        symlink(at("ws/.venv"), at("link")).unwrap();
        symlink("/bin/sh", at("ws/.venv/bin/python")).unwrap();
        symlink(at("link/bin/python"), at("elsewhere/bin/python")).unwrap();
        fs::write(at("script"), format!("#!/usr/bin/env {}\n", at("link/x").display())).unwrap();
        fs::write(at("other-script"), "#!/bin/sh\n# /ws\n").unwrap();
        fs::write(at("script-of-script"), format!("#!{}\n", at("script").display())).unwrap();
        symlink(at("ws-later"), at("dangling")).unwrap();
        assert_eq!(UntrustedFolder::new(&at("dangling")), None);
        fs::write(at("made/bin/python"), "").unwrap();
        fs::write(at("made/pyvenv.cfg"), format!("Home = {}\n", at("ws/python").display()))
            .unwrap();
        // Tests the folder by its own path, and by the path of a symlink to it.
        for root in ["ws", "alias"] {
            let untrusted = UntrustedFolder::new(&at(root)).unwrap();
            for (path, expected) in [
                ("ws/.venv/bin/python", true),
                ("alias/.venv/bin/python", true),
                ("link/bin/python", true),
                ("elsewhere/bin/python", true),
                ("elsewhere/../ws/../elsewhere", true),
                ("elsewhere/bin", false),
                ("missing", false),
                ("ws/missing", true),
                ("script", true),
                ("other-script", false),
                ("script-of-script", true),
                ("made/bin/python", true),
            ] {
                assert_eq!(untrusted.is_started_by(&at(path)), expected, "{root}: {path}");
            }
            assert!(untrusted.overlaps(machine.path()));
            assert!(!untrusted.overlaps(&at("elsewhere/bin")));
            let (outside, inside) = (at("made/bin"), at("link/bin"));
            let path = [&outside, &inside, Path::new("bin"), Path::new("")];
            let path = std::env::join_paths(path.map(Path::as_os_str)).unwrap();
            assert_eq!(untrusted.removed_from(&path), *outside.as_os_str());
            assert!(untrusted.is_named_in(&path) && !untrusted.is_named_in(outside.as_os_str()));
        }
    }
}
