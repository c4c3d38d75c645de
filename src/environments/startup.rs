//! Records and compares the files that decide which code an environment's interpreter loads at its start. These files
//! are the interpreter's symlink, `pyvenv.cfg`, and everything else outside `site-packages` that packages must not add.
//!
//! The server starts the interpreter outside the sandbox, with `-I -S`. The interpreter then loads the standard
//! library of the Python from which the environment was made, and nothing from `site-packages`. But a wheel may write
//! files to any path in the environment. Therefore the files are recorded before packages are installed. They are
//! compared after the installation, and whenever a process begins to use the environment. This module never starts a
//! program.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// The file in the environment that contains the record of the other files. This file itself is not recorded.
pub(super) const RECORD_FILE: &str = "qwed-env.json";

/// The folders of an environment to which packages may add files.
const OPEN_FOLDERS: [&str; 5] = ["bin", "etc", "include", "lib", "share"];

/// The files in `bin` that an interpreter reads at its start (`Modules/getpath.py` of `CPython`).
const READ_IN_BIN: [&str; 2] = ["pyvenv.cfg", "pybuilddir.txt"];
/// The suffix of the other files in `bin` that an interpreter reads at its start, such as `python._pth`.
const READ_IN_BIN_ENDING: &str = "._pth";

/// The prefixes of names that packages are not allowed to add to `lib`. Such names belong to standard libraries and to
/// the interpreter's shared library.
const CLOSED_IN_LIB: [&str; 4] = ["python", "pypy", "libpython", "libpypy"];

/// The empty lock file that uv creates when it installs packages.
const LOCK_OF_UV: &str = ".lock";

const SITE_PACKAGES: &str = "site-packages";

/// The maximum number of entries outside `site-packages`. An environment with all QWED packages has a few hundred
/// entries.
const ENTRIES_MAX: usize = 100_000;
/// The maximum depth of a folder outside `site-packages`.
const DEPTH_MAX: usize = 64;

/// A record of the files that an environment's interpreter can read at startup. The keys are paths in the environment.
/// Each value is the type of an entry, with the target of a symlink or the SHA-256 of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Startup(BTreeMap<String, String>);

/// A difference between the files of an environment and the record that was made before packages were installed.
#[derive(Debug, Error)]
pub(crate) enum Changed {
    #[error("{0} was changed")]
    Differs(PathBuf),
    #[error("{0} was added")]
    Added(PathBuf),
    #[error("{0} was removed")]
    Missing(PathBuf),
    #[error("{path} cannot be read: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{0} has too many files to compare")]
    TooMany(PathBuf),
}

impl Startup {
    /// Records the files that the environment's interpreter can read at startup.
    pub(super) fn record(environment: &Path) -> Result<Self, Changed> {
        let mut found = Self(BTreeMap::new());
        let mut entries_left = ENTRIES_MAX;
        found.add(environment, Path::new(""), DEPTH_MAX, &mut entries_left)?;
        Ok(found)
    }

    /// Fails if an entry was changed, removed or added after the record was made. Ignores the entries that packages may
    /// add.
    pub(super) fn compare(&self, environment: &Path) -> Result<(), Changed> {
        let now = Self::record(environment)?;
        for (name, entry) in &now.0 {
            match self.0.get(name) {
                Some(recorded) if recorded == entry => {}
                Some(_) => return Err(Changed::Differs(environment.join(name))),
                None => return Err(Changed::Added(environment.join(name))),
            }
        }
        match self.0.keys().find(|name| !now.0.contains_key(*name)) {
            Some(name) => Err(Changed::Missing(environment.join(name))),
            None => Ok(()),
        }
    }

    /// Adds the entries of a folder and its subfolders to the record. Skips the files and folders that packages are
    /// allowed to add, because an installation may change them.
    fn add(
        &mut self,
        environment: &Path,
        folder: &Path,
        depth_left: usize,
        entries_left: &mut usize,
    ) -> Result<(), Changed> {
        let path = environment.join(folder);
        let unreadable = |source| Changed::Unreadable { path: path.clone(), source };
        for entry in fs::read_dir(&path).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = folder.join(entry.file_name());
            if name == Path::new(RECORD_FILE) {
                continue;
            }
            *entries_left =
                entries_left.checked_sub(1).ok_or_else(|| Changed::TooMany(path.clone()))?;
            let kind = entry.file_type().map_err(unreadable)?;
            if !(is_open(&name) && (kind.is_file() || kind.is_dir())) {
                let text = described(&entry.path(), kind)
                    .map_err(|source| Changed::Unreadable { path: entry.path(), source })?;
                self.0.insert(name.to_string_lossy().into_owned(), text);
            }
            if kind.is_dir() && !is_site_packages(&name) {
                let depth_left = depth_left.checked_sub(1);
                let depth_left = depth_left.ok_or_else(|| Changed::TooMany(path.clone()))?;
                self.add(environment, &name, depth_left, entries_left)?;
            }
        }
        Ok(())
    }
}

/// Returns whether packages may add a regular file or a folder at the path `name` in the environment.
fn is_open(name: &Path) -> bool {
    let parts: Vec<String> =
        name.iter().map(|part| part.to_string_lossy().to_lowercase()).collect();
    let starts_with =
        |part: &str, starts: &[&str]| starts.iter().any(|start| part.starts_with(start));
    match parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["bin", name] => {
            !(is_interpreter(name)
                || READ_IN_BIN.contains(&name)
                || name.ends_with(READ_IN_BIN_ENDING))
        }
        ["lib", name, ..] => !starts_with(name, &CLOSED_IN_LIB),
        [folder, _, ..] => OPEN_FOLDERS.contains(&folder),
        [name] => name == LOCK_OF_UV || OPEN_FOLDERS.contains(&name),
        [] => false,
    }
}

/// Returns whether a name belongs to an interpreter, such as `python`, `python3.13` or `pypy3`.
fn is_interpreter(name: &str) -> bool {
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|it| it.chars().all(|c| c.is_ascii_digit() || ".dtw".contains(c)))
}

/// Returns whether a folder is the folder of installed packages, such as `lib/python3.13/site-packages`.
fn is_site_packages(name: &Path) -> bool {
    let mut parts = name.iter();
    parts.next().is_some_and(|part| part == "lib" || part == "lib64")
        && parts.next().is_some()
        && parts.next().is_some_and(|part| part == SITE_PACKAGES)
        && parts.next().is_none()
}

fn described(path: &Path, kind: fs::FileType) -> io::Result<String> {
    Ok(if kind.is_symlink() {
        format!("link {}", fs::read_link(path)?.display())
    } else if kind.is_file() {
        let mut digest = Sha256::new();
        let mut file = BufReader::new(File::open(path)?);
        loop {
            let part = file.fill_buf()?;
            if part.is_empty() {
                break;
            }
            digest.update(part);
            let length = part.len();
            file.consume(length);
        }
        format!("file {}", hex::encode(digest.finalize()))
    } else if kind.is_dir() {
        "folder".to_owned()
    } else {
        "other".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Creates an environment like `venv` does, and records it.
    fn made() -> (tempfile::TempDir, Startup) {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["bin", "include/python3.11", "lib/python3.11/site-packages/pip"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("pyvenv.cfg"), "home = /usr/bin\n").unwrap();
        fs::write(at("bin/pip"), "#!\n").unwrap();
        symlink("python3", at("bin/python")).unwrap();
        symlink("/usr/bin/python3", at("bin/python3")).unwrap();
        symlink("lib", at("lib64")).unwrap();
        let startup = Startup::record(folder.path()).unwrap();
        assert_eq!(startup.compare(folder.path()).map_err(|error| error.to_string()), Ok(()));
        (folder, startup)
    }

    #[test]
    fn what_an_interpreter_starts_with_may_not_change() {
        for (name, expected) in [
            // The first four entries exist. The test replaces each of them by a file.
            ("pyvenv.cfg", "changed"),
            ("bin/python", "changed"),
            ("bin/python3", "changed"),
            ("lib64", "changed"),
            ("bin/python3.11", "added"),
            ("bin/Python3", "added"),
            ("bin/pyvenv.cfg", "added"),
            ("bin/python3._pth", "added"),
            ("bin/pybuilddir.txt", "added"),
            ("lib/python3.11/os.py", "added"),
            ("lib/python311.zip", "added"),
            ("lib/python3.12/os.py", "added"),
            ("lib/libpython3.11.so.1.0", "added"),
            ("evil/bin/python3.11", "added"),
            ("conda-meta", "added"),
            ("qwed-env.json.new", "added"),
        ] {
            let (folder, startup) = made();
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let _ = fs::remove_file(&path);
            fs::write(&path, "other").unwrap();
            let error = startup.compare(folder.path()).unwrap_err().to_string();
            assert!(error.ends_with(&format!(" was {expected}")), "{name}: {error}");
        }
        for name in ["pyvenv.cfg", "bin/python", "lib64"] {
            let (folder, startup) = made();
            fs::remove_file(folder.path().join(name)).unwrap();
            let error = startup.compare(folder.path()).unwrap_err().to_string();
            assert!(error.ends_with(&format!("{name} was removed")), "{name}: {error}");
        }
        // A symlink may lead out of the environment, so it is rejected even in a folder to which packages may add
        // files.
        let (folder, startup) = made();
        symlink("/etc", folder.path().join("include/site")).unwrap();
        let error = startup.compare(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("include/site was added"), "{error}");
        // `lib` has the same content as before, but is now a symlink, which counts as a change.
        let (folder, startup) = made();
        fs::rename(folder.path().join("lib"), folder.path().join("share")).unwrap();
        symlink("share", folder.path().join("lib")).unwrap();
        assert!(startup.compare(folder.path()).is_err());
    }

    #[test]
    fn packages_may_add_programs_and_data() {
        let (folder, startup) = made();
        for name in [
            "bin/isympy",
            "bin/python-argcomplete-check",
            "bin/pip",
            "etc/jupyter/x.json",
            ".lock",
            "include/site/python3.11/greenlet.h",
            "lib/libmkl_rt.so.2",
            "lib/cmake/tbb/x.cmake",
            "lib/python3.11/site-packages/sitecustomize.py",
            "lib/python3.11/site-packages/pip/__init__.py",
            "share/man/man1/ttx.1",
            "qwed-env.json",
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "new").unwrap();
        }
        assert_eq!(startup.compare(folder.path()).map_err(|error| error.to_string()), Ok(()));
    }
}
