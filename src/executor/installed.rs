//! Computes a digest of the environment on which the result of a script depends: the interpreter, its libraries, the
//! installed packages, the sandbox and the machine. The digest is cached. It changes at once when something is
//! installed, and within 20 seconds when another file changes. This module never reads the content of Python modules,
//! only their metadata.

use std::collections::BTreeMap;
use std::env;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use walkdir::{DirEntry, WalkDir};

use super::environment::{Environment, EnvironmentCache, Seen, seen};
use super::{Determinism, Surroundings};
use crate::sandbox::is_store;

/// The minimum and the maximum time for which a listing of an environment's files is valid.
const LISTED_FOR: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(20)];

/// The validity of a listing, as a multiple of the time that the listing took. [`LISTED_FOR`] limits the validity.
const LISTING_SHARE: u32 = 50;

/// The maximum number of entries that are listed below a path. A usual environment has 20,000 entries.
const ENTRIES_MAX: usize = 500_000;

/// The maximum number of cached environments. A server has one environment for all scripts, and up to eight
/// environments with the packages that single scripts require.
const ENVIRONMENTS_MAX: usize = 16;

/// The folder of compiled modules. It is not listed, because it changes without a change of a package.
const COMPILED: &str = "__pycache__";

/// The names of subfolders of the standard library that contain installed packages. [`Listing::Library`] skips them. If
/// scripts can import these packages, [`Listing::Packages`] lists them.
const PACKAGES: [&str; 2] = ["site-packages", "dist-packages"];

/// The digest of an environment. Two equal digests belong to equal environments.
pub(crate) type EnvironmentDigest = [u8; 32];

/// The error for an environment digest that cannot be computed. The log contains the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoDigest;

/// A cache of environment digests.
#[derive(Debug, Default)]
pub(crate) struct EnvironmentDigests {
    environment: Arc<EnvironmentCache>,
    known: Mutex<BTreeMap<Place, Known>>,
    /// Locked while files are listed, so that concurrent calls list the files only once.
    listing: Mutex<()>,
}

/// The cache key of an environment: the folders of packages, and the hash of the sandbox's plan. Environments of one
/// process differ only in these values.
type Place = (Vec<PathBuf>, String);

#[derive(Debug)]
struct Known {
    seen: Vec<Seen>,
    expires: Instant,
    digest: Result<EnvironmentDigest, NoDigest>,
}

/// The facts from which an [`EnvironmentDigest`] is computed.
#[derive(Serialize)]
struct Facts<'a> {
    environment: &'a Environment,
    /// A digest of the metadata of this program's file. The digest is included because another version of this program
    /// may run scripts differently.
    own_program: [u8; 32],
    program_file: &'a PathBuf,
    /// Each folder of packages, with a digest of the metadata of its files.
    folders: Vec<(&'a PathBuf, [u8; 32])>,
    /// Each of the interpreter's own files and folders, with a digest of the metadata of its files.
    own: Vec<(&'a PathBuf, [u8; 32])>,
    /// Each path that scripts can read, with a digest of the metadata of its folders.
    readable: Vec<(&'a PathBuf, [u8; 32])>,
    variables: &'a [(String, String)],
    tier: &'static str,
    plan_sha256: &'a str,
    memory_mib: u64,
    determinism: String,
    preload: &'a [Vec<String>],
}

impl EnvironmentDigests {
    /// Creates an empty cache. The descriptions of environments come from `environment`.
    pub(crate) fn new(environment: Arc<EnvironmentCache>) -> Self {
        Self { environment, ..Self::default() }
    }

    /// Returns the cached digest. `None` if the digest has expired, or if something was installed after the digest was
    /// cached. Reads only the metadata of a few paths.
    pub(crate) fn known(
        &self,
        surroundings: &Surroundings,
    ) -> Option<Result<EnvironmentDigest, NoDigest>> {
        let known = self.lock();
        let known = known.get(&place(surroundings))?;
        let is_current = Instant::now() < known.expires && known.seen == seen(surroundings);
        is_current.then_some(known.digest)
    }

    /// Returns the digest. Computes the digest if it is not cached. Blocks on the disk.
    pub(crate) fn get(&self, surroundings: &Surroundings) -> Result<EnvironmentDigest, NoDigest> {
        let _listing = self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = self.known(surroundings) {
            return known;
        }
        let (seen, begun) = (seen(surroundings), Instant::now());
        let environment = self.environment.get(surroundings);
        let digest = environment.and_then(|environment| digest(surroundings, &environment));
        let digest = digest.map_err(|error| {
            tracing::warn!(%error, "results are not used again, because the environment is unknown");
            NoDigest
        });
        let [min, max] = LISTED_FOR;
        let expires = begun + (begun.elapsed() * LISTING_SHARE).clamp(min, max);
        let mut all = self.lock();
        if all.len() >= ENVIRONMENTS_MAX {
            all.clear();
        }
        all.insert(place(surroundings), Known { seen, expires, digest });
        digest
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(surroundings: &Surroundings) -> Place {
    (surroundings.packages.clone(), surroundings.plan_sha256.clone())
}

fn digest(surroundings: &Surroundings, environment: &Environment) -> io::Result<EnvironmentDigest> {
    let Surroundings {
        program_file,
        implementation: _,
        version: _,
        packages,
        own,
        variables,
        readable,
        tier,
        memory_mib,
        plan_sha256,
        determinism,
        preload,
    } = surroundings;
    let facts = Facts {
        environment,
        own_program: own_program()?,
        program_file,
        folders: states(packages, Listing::Packages)?,
        own: states(own, Listing::Library)?,
        readable: states(readable, Listing::Folders)?,
        variables,
        tier: tier.as_str(),
        plan_sha256,
        memory_mib: *memory_mib,
        determinism: measures(*determinism),
        preload,
    };
    Ok(Sha256::digest(serde_json::to_vec(&facts)?).into())
}

/// Returns a digest of the metadata of this process's program file. On Linux, uses the file that is running, even if a
/// newer file was installed at the same path.
fn own_program() -> io::Result<[u8; 32]> {
    let file =
        if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { env::current_exe()? };
    let mut digest = Sha256::new();
    Seen::of(&file.metadata()?).add_to(&mut digest);
    Ok(digest.finalize().into())
}

/// Formats the measures of deterministic runs for the digest, with the values of all fields.
fn measures(determinism: Option<Determinism>) -> String {
    format!("{determinism:?}")
}

/// Selects which entries of a folder are listed. The folder itself is always listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listing {
    /// All files and folders, except compiled modules.
    Packages,
    /// All files and folders, except compiled modules and the folders of installed packages.
    Library,
    /// Only folders. This suffices to detect a replaced file, because the metadata of the file's folder changes.
    Folders,
}

impl Listing {
    fn has(self, entry: &DirEntry) -> bool {
        let name = entry.file_name();
        entry.depth() == 0
            || match self {
                Self::Packages => name != COMPILED,
                Self::Library => name != COMPILED && PACKAGES.iter().all(|it| name != *it),
                Self::Folders => name != COMPILED && entry.file_type().is_dir(),
            }
    }
}

fn states(paths: &[PathBuf], listing: Listing) -> io::Result<Vec<(&PathBuf, [u8; 32])>> {
    paths.iter().map(|path| Ok((path, state_of(path, listing)?))).collect()
}

/// Returns a digest of the names and the metadata of a path and of the listed entries below it. Fails if there are
/// more than [`ENTRIES_MAX`] entries.
fn state_of(path: &Path, listing: Listing) -> io::Result<[u8; 32]> {
    let mut digest = Sha256::new();
    let entries = WalkDir::new(path)
        .follow_links(listing != Listing::Folders)
        .max_depth(if is_store(path) { 0 } else { usize::MAX })
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| listing.has(entry));
    for (number, entry) in entries.enumerate() {
        if number == ENTRIES_MAX {
            return Err(io::Error::other(format!("{} has too many files", path.display())));
        }
        let (path, state) = match &entry {
            Ok(entry) => (
                Some(entry.path()),
                entry.metadata().map_or_else(|_| Seen::missing(), |it| Seen::of(&it)),
            ),
            // The metadata of this entry cannot be read. For example, the entry is a symlink to a missing file, or a
            // folder without read permission.
            Err(error) => (error.path(), Seen::missing()),
        };
        let name = path.map_or(&[][..], |path| path.as_os_str().as_bytes());
        digest.update(u64::try_from(name.len()).unwrap_or(u64::MAX).to_le_bytes());
        digest.update(name);
        state.add_to(&mut digest);
    }
    Ok(digest.finalize().into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::sandbox::Tier;

    fn surroundings(folder: &Path) -> Surroundings {
        let program_file = folder.join("python");
        Surroundings {
            program_file,
            implementation: "cpython".to_owned(),
            version: "3.11.2".to_owned(),
            packages: vec![folder.join("site-packages")],
            own: vec![folder.join("lib/python3.11"), folder.join("lib64/libc.so.6")],
            variables: vec![("PYTHONHASHSEED".to_owned(), "0".to_owned())],
            readable: vec![folder.join("lib64"), folder.join("zoneinfo")],
            tier: Tier::T3,
            memory_mib: 1024,
            plan_sha256: "p".to_owned(),
            determinism: None,
            preload: Vec::new(),
        }
    }

    fn machine() -> (tempfile::TempDir, Surroundings) {
        let folder = tempfile::tempdir().unwrap();
        let of = surroundings(folder.path());
        fs::create_dir_all(of.packages[0].join("sympy-1.14.0.dist-info")).unwrap();
        fs::create_dir_all(of.packages[0].join(COMPILED)).unwrap();
        fs::create_dir_all(of.own[0].join("site-packages/other")).unwrap();
        fs::create_dir_all(of.own[0].join("json")).unwrap();
        fs::write(of.own[0].join("json/decoder.py"), "1").unwrap();
        fs::create_dir_all(of.own[1].parent().unwrap()).unwrap();
        fs::write(&of.own[1], "libc").unwrap();
        fs::write(of.packages[0].join("six.py"), "version = 1").unwrap();
        fs::write(&of.program_file, "python").unwrap();
        (folder, of)
    }

    /// Computes the digest with a new, empty cache, so that no earlier result is used.
    fn digest_of(surroundings: &Surroundings) -> EnvironmentDigest {
        EnvironmentDigests::default().get(surroundings).unwrap()
    }

    #[test]
    fn every_part_of_the_environment_changes_the_digest() {
        let (_folder, of) = machine();
        let mut all = vec![digest_of(&of)];
        assert_eq!(digest_of(&of), all[0]);
        let changes: [fn(&mut Surroundings); 7] = [
            |of| of.variables.push(("LANG".to_owned(), "C".to_owned())),
            |of| of.readable.push(PathBuf::from("/data")),
            |of| of.tier = Tier::T2,
            |of| of.memory_mib = 512,
            |of| of.plan_sha256 = "q".to_owned(),
            |of| of.version = "3.11.3".to_owned(),
            |of| of.implementation = "pypy".to_owned(),
        ];
        for change in changes {
            let mut of = of.clone();
            change(&mut of);
            all.push(digest_of(&of));
        }
        let site = &of.packages[0];
        fs::write(site.join("six.py"), "version = 22").unwrap();
        all.push(digest_of(&of));
        fs::write(site.join("new.pth"), "import six").unwrap();
        all.push(digest_of(&of));
        fs::write(site.join("sympy-1.14.0.dist-info/RECORD"), "").unwrap();
        all.push(digest_of(&of));
        fs::create_dir(site.join("sympy")).unwrap();
        fs::write(site.join("sympy/core.py"), "1").unwrap();
        all.push(digest_of(&of));
        // A module in a package is edited in place.
        fs::write(site.join("sympy/core.py"), "22").unwrap();
        all.push(digest_of(&of));
        fs::write(&of.program_file, "python 3").unwrap();
        all.push(digest_of(&of));
        fs::write(of.own[0].join("json/decoder.py"), "22").unwrap();
        all.push(digest_of(&of));
        fs::write(&of.own[1], "other libc").unwrap();
        all.push(digest_of(&of));
        // Adds a shared library that a script could load, and a time zone.
        fs::write(of.own[1].with_file_name("libssl.so.3"), "").unwrap();
        all.push(digest_of(&of));
        fs::create_dir_all(of.readable[1].join("America")).unwrap();
        all.push(digest_of(&of));
        fs::write(of.readable[1].join("America/New_York"), "").unwrap();
        all.push(digest_of(&of));
        fs::write(of.readable[1].join("new"), "").unwrap();
        fs::rename(of.readable[1].join("new"), of.readable[1].join("America/New_York")).unwrap();
        all.push(digest_of(&of));
        // Adds a symlink to a file that does not exist yet.
        std::os::unix::fs::symlink("target", site.join("link.py")).unwrap();
        all.push(digest_of(&of));
        fs::write(site.join("target"), "").unwrap();
        all.push(digest_of(&of));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn a_program_that_cannot_be_read_is_not_read_again_at_once() {
        let (_folder, of) = machine();
        fs::remove_file(&of.program_file).unwrap();
        let digests = EnvironmentDigests::default();
        assert_eq!((digests.get(&of), digests.known(&of)), (Err(NoDigest), Some(Err(NoDigest))));
        fs::write(&of.program_file, "python").unwrap();
        assert_eq!(digests.known(&of), None);
        assert!(digests.get(&of).is_ok());
    }

    #[test]
    fn compiled_modules_do_not_change_the_digest() {
        let (_folder, of) = machine();
        let before = digest_of(&of);
        fs::write(of.packages[0].join(COMPILED).join("six.pyc"), "").unwrap();
        // Adds a module to a package that scripts cannot import.
        fs::write(of.own[0].join("site-packages/other/module.py"), "").unwrap();
        assert_eq!(digest_of(&of), before);
    }

    #[test]
    fn a_digest_is_known_until_something_is_installed() {
        let (_folder, of) = machine();
        let digests = EnvironmentDigests::default();
        assert_eq!(digests.known(&of), None);
        let digest = digests.get(&of).unwrap();
        assert_eq!(digests.known(&of), Some(Ok(digest)));
        fs::create_dir(of.packages[0].join("numpy-2.0.dist-info")).unwrap();
        assert_eq!(digests.known(&of), None);
        assert_ne!(digests.get(&of).unwrap(), digest);
    }
}
