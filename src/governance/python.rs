//! Finds the interpreter that runs the tests, and the version of its pytest. Never starts an interpreter, and never
//! relies on reports of tests, because tests can forge reports.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::call::blocking;
use super::evidence::PythonRecord;
use super::script_audit::details;
use super::workspace::WorkspaceState;
use super::{Governance, Policy};
use crate::executor::{Environment, Executor, Installation, UntrustedFolder};

/// The suffixes of folders with the metadata of installed distributions: `.dist-info` from the binary distribution
/// format, and `.egg-info` from Debian.
const INFO_ENDINGS: [&str; 2] = [".dist-info", ".egg-info"];

/// Finds the interpreter and its installed pytest. Does not start the interpreter, because the interpreter could load
/// code of the workspace, and this code could forge the versions.
pub(super) async fn python(executor: &dyn Executor, workspace: &Path) -> Option<PythonRecord> {
    let Installation { program, version, packages, .. } = executor.installation().await?;
    let workspace = UntrustedFolder::new(workspace)?;
    let pytest = blocking(move || version_in("pytest", &packages, &workspace)).await.ok()?;
    Some(PythonRecord { program: program.to_string_lossy().into_owned(), version, pytest })
}

/// The policy, the interpreter and the workspace of a run, for the audit row about the start of the run.
#[derive(Debug, Default)]
pub(super) struct RunInputs {
    policy_sha256: String,
    environment: Option<Arc<Environment>>,
    /// The state of the workspace, if it is a repository.
    pub(super) workspace: Option<WorkspaceState>,
}

impl RunInputs {
    /// Returns the digests of the policy, the interpreter and its packages, and the state of the workspace, for the
    /// audit log. Unknown values are null.
    pub(super) fn details(&self) -> Map<String, Value> {
        let environment = self.environment.as_deref();
        details(&json!({
            "policy_sha256": self.policy_sha256,
            "interpreter_sha256": environment.map(|it| &it.interpreter.sha256),
            "packages_sha256": environment.map(|it| &it.packages_sha256),
            "workspace": self.workspace,
        }))
    }
}

impl Governance {
    /// Determines the policy, the interpreter and the workspace of a run, before the run starts.
    pub(super) async fn run_inputs(&self, policy: &Policy, workspace: &Path) -> RunInputs {
        let environment = match &self.receipts {
            Some(receipts) => receipts.environment_of(&*self.executor).await,
            None => None,
        };
        let workspace = workspace.to_owned();
        let workspace = blocking(move || WorkspaceState::of(&workspace)).await.ok().flatten();
        RunInputs { policy_sha256: policy.sha256.clone(), environment, workspace }
    }
}

/// Returns the version of a distribution in the first of `folders` that contains the distribution. Skips folders of the
/// workspace, because code in the workspace can forge their content.
fn version_in(name: &str, folders: &[PathBuf], workspace: &UntrustedFolder) -> Option<String> {
    let theirs = folders.iter().filter(|folder| !workspace.holds(folder));
    let entries = theirs.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    entries.into_iter().find_map(|entry| version_of(name, &entry.file_name()))
}

fn version_of(name: &str, entry: &OsStr) -> Option<String> {
    let entry = entry.to_str()?;
    let stem = INFO_ENDINGS.iter().find_map(|ending| entry.strip_suffix(ending))?;
    let (found, version) = stem.split_once('-')?;
    // The name of an .egg-info folder may end with the version of Python, such as `-py3.13`. Remove this suffix.
    let version = version.split_once("-py").map_or(version, |(version, _)| version);
    found.eq_ignore_ascii_case(name).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_name_of_its_folder_and_not_the_workspaces() {
        let machine = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(machine.path()).unwrap();
        let folders = ["ws/lib", "empty", "old", "debian", "new"].map(|name| root.join(name));
        for folder in &folders {
            fs::create_dir_all(folder).unwrap();
        }
        let [theirs, _, old, debian, new] = &folders;
        fs::create_dir(theirs.join("pytest-99.dist-info")).unwrap();
        for other in ["pytest_cov-7.1.0.dist-info", "pytest", "xpytest-1.dist-info"] {
            fs::create_dir(old.join(other)).unwrap();
        }
        fs::create_dir(new.join("pytest-9.2.0.dist-info")).unwrap();
        let workspace = UntrustedFolder::new(&root.join("ws")).unwrap();
        let found = |folders: &[PathBuf]| version_in("pytest", folders, &workspace);
        assert_eq!(found(&folders), Some("9.2.0".to_owned()));
        fs::create_dir(debian.join("pytest-7.2.1.egg-info")).unwrap();
        assert_eq!(found(&folders), Some("7.2.1".to_owned()));
        assert_eq!(found(&folders[..3]), None);
    }
}
