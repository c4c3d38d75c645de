//! The Python side: a virtual environment below `target/` with the real packages from PyPI.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::root;

/// The interpreter of the tests' virtual environment, which is made when it is not there.
///
/// A machine where it cannot be made fails the tests: there is nothing to skip.
pub(crate) fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(prepare)
}

/// An interpreter that every user of the machine can start, for servers of another user.
pub(crate) fn public_python() -> PathBuf {
    let candidates = [python().to_owned(), "/usr/bin/python3".into()];
    let mut public = candidates.into_iter().filter(|python| super::is_public(python));
    public.next().expect("a Python outside of private folders: apt-get install python3")
}

/// The packages of the tests' interpreter, where every user of the machine can read them.
pub(crate) fn public_packages() -> PathBuf {
    let libraries = python().parent().unwrap().parent().unwrap().join("lib");
    let mut versions = fs::read_dir(libraries).unwrap().map(|entry| entry.unwrap().path());
    let library = versions.find(|path| path.join("site-packages").is_dir()).unwrap();
    let packages = library.join("site-packages");
    // A copy would outlive the tests that share it, so a checkout in a private folder has to do
    // without these tests, and says so.
    assert!(super::is_public(&packages), "the checkout must be where other users can read it");
    packages
}

fn prepare() -> PathBuf {
    let requirements = root().join("tests/requirements.txt");
    let environment = root().join("target/python");
    let stamp = environment.join("requirements-installed.txt");
    let interpreter = environment.join("bin/python");
    fs::create_dir_all(root().join("target")).unwrap();

    // Test runners that start a process for each test come here many times at once.
    let lock = File::create(root().join("target/python.lock")).unwrap();
    lock.lock().unwrap();
    let wanted = fs::read_to_string(&requirements).unwrap();
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return interpreter;
    }
    let _ = fs::remove_dir_all(&environment);
    run(Command::new("python3").arg("-m").arg("venv").arg(&environment));
    run(Command::new(&interpreter)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"])
        .arg(&requirements));
    // What the packages would otherwise compile at their first import, in some test.
    run(Command::new(&interpreter).args(["-m", "compileall", "-q"]).arg(environment.join("lib")));
    fs::write(&stamp, wanted).unwrap();
    interpreter
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(
        output.status.success() || format!("{command:?}").contains("compileall"),
        "{command:?}: {}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
