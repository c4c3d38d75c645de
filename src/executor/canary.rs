//! The canary: a test script that tries to escape from the sandbox.
//!
//! A sandbox is used only if the canary could not escape from it. This module only creates the script, and never runs
//! it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::User;
use serde_json::json;
use thiserror::Error;
use uuid::Uuid;

use crate::sandbox::{IS_SUPPORTED, NOBODY, Tier, supervisor};

/// The escape attempts, one function for each, and the code that prints the names of the successful attempts.
const ATTEMPTS: &str = include_str!("python/canary.py");

/// The escape attempts that exist on macOS only. In the script, they precede [`ATTEMPTS`].
const MACOS_ATTEMPTS: &str = include_str!("python/canary_macos.py");

/// Returns the names of the escape attempts that a tier does not prevent. These gaps are documented.
fn known_gaps(tier: Tier) -> &'static [&'static str] {
    match tier {
        Tier::T3 => &[],
        // Landlock does not forbid `stat`. Seatbelt returns different errors for missing and for forbidden paths. So a
        // script can detect at both tiers that a file exists.
        Tier::T2 | Tier::Seatbelt => &["find_file"],
        // Without Landlock and namespaces, the script has access to files and processes.
        Tier::T1 | Tier::Off => &[
            "read_file",
            "find_file",
            "write_beside_file",
            "change_file_mode",
            "list_root",
            "read_server_environment",
            "signal_server",
        ],
    }
}

/// An error about the folder for temporary files. The `Display` text contains the path of the folder, so it is only for
/// the admin.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("TMPDIR is {}, which {problem}", .folder.display())]
pub(crate) struct TemporaryFolderError {
    /// The value of `TMPDIR`, or the system's default.
    folder: PathBuf,
    /// The problem with the folder. The text contains no path, because clients see the text.
    problem: String,
}

impl TemporaryFolderError {
    /// The remedy that the admin receives for every problem with the folder for temporary files.
    pub(super) const REMEDY: &str = "set TMPDIR to a folder that the server may write to";

    /// Returns the error message for clients. The message contains no path.
    pub(super) fn for_clients(&self) -> String {
        format!("the folder for temporary files (TMPDIR) {}", self.problem)
    }
}

/// Returns the folder for temporary files, if it is an existing folder with an absolute UTF-8 path.
pub(super) fn temporary_folder() -> Result<PathBuf, TemporaryFolderError> {
    let folder = std::env::temp_dir();
    let problem = if folder.is_relative() {
        "is not absolute".to_owned()
    } else if folder.to_str().is_none() {
        "has a name that is not UTF-8".to_owned()
    } else {
        match fs::metadata(&folder) {
            Ok(metadata) if metadata.is_dir() => return Ok(folder),
            Ok(_) => "is not a folder".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => "does not exist".to_owned(),
            Err(error) => format!("cannot be written to: {error}"),
        }
    };
    Err(TemporaryFolderError { folder, problem })
}

/// A file outside of the sandbox, and the script that tries to reach it.
#[derive(Debug)]
pub(super) struct Canary {
    folder: PathBuf,
    /// The lock on the folder, held for the lifetime of the canary. A folder without a lock was left behind by a killed
    /// server, so a later server removes it.
    _lock: File,
    pub(super) script: String,
}

impl Canary {
    /// Creates a file in the folder for temporary files, and the script that tries to reach this file. Dropping the
    /// canary removes the file.
    ///
    /// `program` is the interpreter, which the script tries to execute. `library` is the macOS library with functions
    /// that the script tries to call; set for Seatbelt only.
    pub(super) fn new(
        program: &Path,
        library: Option<&Path>,
    ) -> Result<Self, TemporaryFolderError> {
        let parent = temporary_folder()?;
        Self::new_in(&parent, program, library).map_err(|error| TemporaryFolderError {
            folder: parent,
            problem: format!("cannot be written to: {error}"),
        })
    }

    fn new_in(parent: &Path, program: &Path, library: Option<&Path>) -> io::Result<Self> {
        // The file gets a folder of its own, because the script also tries to create a second file next to it. Inside
        // the sandbox, `parent` may be a writable temporary folder, in which the script could create the second file
        // without an escape.
        let folder = parent.join(format!("qwed-mcp-canary-{}", Uuid::new_v4().simple()));
        let lock = supervisor::create_locked(&folder)?;
        let file = folder.join("file");
        let mut canary = Self { script: String::new(), folder, _lock: lock };
        fs::write(&file, "this file is outside of the sandbox")?;
        open_to_scripts([&canary.folder, &file]);
        let targets = json!({
            "file": utf8(&file)?,
            "server": std::process::id(),
            "program": utf8(program)?,
            "library": utf8(library.unwrap_or(Path::new("")))?,
            "home": home().to_string_lossy(),
        });
        let of_system = if library.is_some() { MACOS_ATTEMPTS } else { "" };
        canary.script = format!("TARGETS = {targets}\n{of_system}\n{ATTEMPTS}");
        Ok(canary)
    }

    /// Returns the escape attempts that succeeded although the tier must prevent them. `output` is the script's output:
    /// a list of successful attempts. Returns `None` if `output` is not a list, because the script did not run to its
    /// end.
    pub(super) fn escapes(tier: Tier, output: &str) -> Option<Vec<String>> {
        let mut opened: Vec<String> = serde_json::from_str(output).ok()?;
        opened.retain(|way| !known_gaps(tier).contains(&way.as_str()));
        Some(opened)
    }
}

/// Returns the path as text. Fails if the path is not UTF-8, because JSON cannot contain such a path.
fn utf8(path: &Path) -> io::Result<&str> {
    path.to_str().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidFilename, "it is not UTF-8"))
}

/// Returns the home folder of the server's user; an empty path if it is unknown.
fn home() -> PathBuf {
    let user = User::from_uid(nix::unistd::geteuid()).ok().flatten();
    user.map(|user| user.dir).unwrap_or_default()
}

impl Drop for Canary {
    fn drop(&mut self) {
        // A failure does no harm: the file is worthless, and the system clears temporary files.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// If the server is root, gives `paths` to the user that scripts run as. If root remained the owner, the file's
/// permissions would stop the script, and the test would prove nothing about the sandbox.
fn open_to_scripts(paths: [&PathBuf; 2]) {
    if IS_SUPPORTED && nix::unistd::geteuid().is_root() {
        for path in paths {
            // Ignores an error, because the canary can still run. The run then proves less about the sandbox.
            let _ = std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_folder_is_private_and_locked_as_long_as_the_canary_lives() {
        let parent = tempfile::tempdir().unwrap();
        let canary = Canary::new_in(parent.path(), Path::new("/usr/bin/python3"), None).unwrap();
        let folder = canary.folder.clone();
        let mode = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let other = File::open(&folder).unwrap();
        assert!(matches!(other.try_lock(), Err(fs::TryLockError::WouldBlock)));
        drop(canary);
        // The lock may still be held for a moment. If another test has just forked a child process, the child has a
        // copy of the lock's descriptor until `execve`.
        other.lock().unwrap();
        assert!(!folder.exists());
    }
}
