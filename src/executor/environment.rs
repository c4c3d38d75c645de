//! Describes the environment of a script for its receipt: the interpreter, the installed packages, the variables and
//! the machine. The description is cached until something is installed. This module never installs anything.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Surroundings;

/// The suffixes of the names of metadata folders. The name and the version of the distribution precede the suffix.
/// Wheels use the first suffix, and Debian packages use the second.
const INFO_ENDINGS: [&str; 2] = [".dist-info", ".egg-info"];

/// The environment in which a script runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Environment {
    pub(crate) interpreter: Interpreter,
    /// All installed packages, sorted by name.
    pub(crate) packages: Vec<Package>,
    /// The SHA-256 of a text that contains the line `NAME==VERSION` for each package. Each line ends with a line feed.
    pub(crate) packages_sha256: String,
    /// The environment variables of scripts. Variables that point into the scratch folder are left out.
    pub(crate) variables: BTreeMap<String, String>,
    /// The architecture of the processor, as Rust names it.
    pub(crate) arch: String,
    pub(crate) os: String,
    /// The release of the kernel. Empty if it is unknown.
    pub(crate) kernel: String,
    /// The features of the processor that decide which compute kernels numerical libraries use.
    pub(crate) cpu_features: Vec<String>,
}

/// The Python interpreter that runs scripts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Interpreter {
    /// The value of `sys.implementation.name`.
    pub(crate) implementation: String,
    pub(crate) version: String,
    /// The SHA-256 of the interpreter's file.
    pub(crate) sha256: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
}

impl Environment {
    fn of(surroundings: &Surroundings) -> io::Result<Self> {
        let packages = packages(&surroundings.packages);
        let mut lines = Sha256::new();
        for Package { name, version } in &packages {
            lines.update(format!("{name}=={version}\n"));
        }
        Ok(Self {
            interpreter: Interpreter {
                implementation: surroundings.implementation.clone(),
                version: surroundings.version.clone(),
                sha256: hex::encode(Sha256::digest(fs::read(&surroundings.program_file)?)),
            },
            packages,
            packages_sha256: hex::encode(lines.finalize()),
            variables: surroundings.variables.iter().cloned().collect(),
            arch: std::env::consts::ARCH.to_owned(),
            os: std::env::consts::OS.to_owned(),
            kernel: kernel(),
            cpu_features: cpu_features(),
        })
    }

    /// Returns the differences between the environment in a receipt (`self`) and `now`, one difference per line.
    pub(crate) fn differences(&self, now: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        let mut compare = |what: &str, then: &str, now: &str| {
            if then != now {
                differences.push(format!("{what}: {then} → {now}"));
            }
        };
        let (then, there) = (&self.interpreter, &now.interpreter);
        compare("interpreter", &then.implementation, &there.implementation);
        compare("Python", &then.version, &there.version);
        if then.version == there.version {
            compare("the interpreter's file", start(&then.sha256), start(&there.sha256));
        }
        compare("architecture", &self.arch, &now.arch);
        compare("system", &self.os, &now.os);
        compare("kernel", &self.kernel, &now.kernel);
        compare("processor", &self.cpu_features.join(" "), &now.cpu_features.join(" "));
        for (name, [then, now]) in pairs(
            self.packages.iter().map(|package| (&package.name, &package.version)),
            now.packages.iter().map(|package| (&package.name, &package.version)),
        ) {
            compare(&format!("package {name}"), then, now);
        }
        for (name, [then, now]) in pairs(self.variables.iter(), now.variables.iter()) {
            compare(&format!("variable {name}"), then, now);
        }
        differences
    }
}

/// Describes the current environment of scripts. Blocks on the disk.
pub(crate) fn describe(surroundings: &Surroundings) -> io::Result<Environment> {
    Environment::of(surroundings)
}

/// Returns each name in `then` or `now`, with the name's value in `then` and in `now`. A missing value becomes the text
/// `none`.
fn pairs<'a>(
    then: impl Iterator<Item = (&'a String, &'a String)>,
    now: impl Iterator<Item = (&'a String, &'a String)>,
) -> BTreeMap<&'a str, [&'a str; 2]> {
    let mut pairs: BTreeMap<&str, [&str; 2]> = BTreeMap::new();
    for (name, value) in then {
        pairs.entry(name).or_insert(["none"; 2])[0] = value;
    }
    for (name, value) in now {
        pairs.entry(name).or_insert(["none"; 2])[1] = value;
    }
    pairs
}

fn start(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// A cache for one description of an environment. To detect later changes, the cache also contains the metadata of the
/// interpreter's file and of the package folders, at the time of the description.
#[derive(Debug, Default)]
pub(crate) struct EnvironmentCache(Mutex<Option<(Vec<Seen>, Arc<Environment>)>>);

/// Metadata of a file or a folder. The metadata changes when a package is installed in the folder, or when the file is
/// replaced.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seen(Option<[i128; 7]>);

impl Seen {
    pub(super) fn at(path: &Path) -> Self {
        path.metadata().ok().map_or(Self(None), |found| Self::of(&found))
    }

    pub(super) fn of(found: &Metadata) -> Self {
        Self(Some([
            found.dev().into(),
            found.ino().into(),
            found.size().into(),
            found.mtime().into(),
            found.mtime_nsec().into(),
            // Includes `ctime`, because a program can set `mtime`, but not `ctime`.
            found.ctime().into(),
            found.ctime_nsec().into(),
        ]))
    }

    pub(super) fn missing() -> Self {
        Self(None)
    }

    /// Adds the metadata to a digest. Leaves out the device number, because it may change with each mount. Adds only
    /// zeros for a missing file. No existing file has only zeros.
    pub(super) fn add_to(&self, digest: &mut Sha256) {
        let [_device, of_file @ ..] = self.0.unwrap_or_default();
        for number in of_file {
            digest.update(number.to_le_bytes());
        }
    }
}

impl EnvironmentCache {
    /// Returns the cached environment. `None` if something was installed after the environment was cached. Reads only
    /// the metadata of a few paths.
    pub(crate) fn known(&self, surroundings: &Surroundings) -> Option<Arc<Environment>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, environment) = known.as_ref()?;
        (*of == seen(surroundings)).then(|| Arc::clone(environment))
    }

    /// Returns the current environment, from the cache if the cached environment is up to date. Blocks on the disk.
    pub(crate) fn get(&self, surroundings: &Surroundings) -> io::Result<Arc<Environment>> {
        if let Some(environment) = self.known(surroundings) {
            return Ok(environment);
        }
        let seen = seen(surroundings);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let environment = Arc::new(Environment::of(surroundings)?);
        *known = Some((seen, Arc::clone(&environment)));
        Ok(environment)
    }
}

/// Returns the metadata of the interpreter and of the folders of packages.
pub(super) fn seen(surroundings: &Surroundings) -> Vec<Seen> {
    let watched = [&surroundings.program_file].into_iter().chain(&surroundings.packages);
    watched.map(|path| Seen::at(path)).collect()
}

/// Returns the packages that are installed in these folders. If two packages have the same name, returns only the first
/// package, because Python imports the first.
fn packages(folders: &[PathBuf]) -> Vec<Package> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for folder in folders {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        let mut here: Vec<_> =
            entries.flatten().filter_map(|e| distribution(&e.file_name())).collect();
        here.sort();
        for (name, version) in here {
            found.entry(name).or_insert(version);
        }
    }
    found.into_iter().map(|(name, version)| Package { name, version }).collect()
}

/// Returns the name and the version of a distribution, from the name of its metadata folder. The name is normalized, as
/// package indexes do to compare names.
fn distribution(entry: &std::ffi::OsStr) -> Option<(String, String)> {
    let entry = entry.to_str()?;
    let stem = INFO_ENDINGS.iter().find_map(|ending| entry.strip_suffix(ending))?;
    let (name, version) = stem.split_once('-')?;
    // In the name of an `.egg-info` folder, the version of Python may follow the version of the package.
    let version = version.split_once("-py").map_or(version, |(version, _)| version);
    let name = name.to_ascii_lowercase().replace(['_', '.'], "-");
    Some((name, version.to_owned()))
}

fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

#[cfg(target_arch = "x86_64")]
fn cpu_features() -> Vec<String> {
    let features = [
        ("sse4.2", is_x86_feature_detected!("sse4.2")),
        ("avx", is_x86_feature_detected!("avx")),
        ("fma", is_x86_feature_detected!("fma")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
    ];
    features
        .into_iter()
        .filter(|(_, is_there)| *is_there)
        .map(|(name, _)| name.to_owned())
        .collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn cpu_features() -> Vec<String> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_named_by_their_metadata_and_the_first_counts() {
        let machine = tempfile::tempdir().unwrap();
        let folders = ["first", "second", "missing"].map(|name| machine.path().join(name));
        for (folder, entry) in [
            (0, "Foo_Bar-1.0.dist-info"),
            (0, "sympy"),
            (0, "README.txt"),
            (1, "foo.bar-2.0.dist-info"),
            (1, "PyYAML-6.0-py3.11.egg-info"),
        ] {
            fs::create_dir_all(folders[folder].join(entry)).unwrap();
        }
        let found: Vec<_> =
            packages(&folders).into_iter().map(|p| format!("{}=={}", p.name, p.version)).collect();
        assert_eq!(found, ["foo-bar==1.0", "pyyaml==6.0"]);
    }

    #[test]
    fn what_differs_is_named() {
        let then = Environment {
            interpreter: Interpreter {
                implementation: "cpython".to_owned(),
                version: "3.11.7".to_owned(),
                sha256: "a".repeat(64),
            },
            packages: vec![
                Package { name: "numpy".to_owned(), version: "2.0".to_owned() },
                Package { name: "sympy".to_owned(), version: "1.14.0".to_owned() },
            ],
            packages_sha256: String::new(),
            variables: BTreeMap::from([("PYTHONHASHSEED".to_owned(), "0".to_owned())]),
            arch: "x86_64".to_owned(),
            os: "linux".to_owned(),
            kernel: "6.12.0".to_owned(),
            cpu_features: vec!["avx2".to_owned()],
        };
        assert_eq!(then.differences(&then.clone()), Vec::<String>::new());
        let mut now = then.clone();
        now.interpreter.version = "3.12.1".to_owned();
        now.packages[0].version = "2.1".to_owned();
        now.packages.pop();
        now.variables.insert("LANG".to_owned(), "C".to_owned());
        let expected = [
            "Python: 3.11.7 → 3.12.1",
            "package numpy: 2.0 → 2.1",
            "package sympy: 1.14.0 → none",
            "variable LANG: none → C",
        ];
        assert_eq!(then.differences(&now), expected);
    }
}
