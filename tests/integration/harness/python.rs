//! The Python side: a virtual environment below `target/` with the real packages from PyPI.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};
use std::sync::OnceLock;
use std::time::Instant;

use super::machine::Need;
use super::{is_public, is_root, public, root, suite};

/// What the packages of `tests/requirements.txt` need.
const VERSION_MIN: (u32, u32) = (3, 11);

/// The names an interpreter that is new enough may have.
const NAMES: [&str; 5] = ["python3", "python3.14", "python3.13", "python3.12", "python3.11"];

/// The interpreter of the tests' virtual environment, which is made when it is not there.
///
/// A machine where it cannot be made fails the tests: there is nothing to ignore.
pub(crate) fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(prepare)
}

/// The tests' interpreter, or while there is none, the one that it will be made with.
pub(super) fn for_probes() -> PathBuf {
    if is_prepared() { environment().join("bin/python") } else { base_interpreter() }
}

/// The minor version of the tests' interpreter, like `3.11`.
pub(super) fn version() -> String {
    static VERSION: OnceLock<String> = OnceLock::new();
    let ask = || {
        let (major, minor) = version_of(&for_probes()).unwrap_or_default();
        format!("{major}.{minor}")
    };
    VERSION.get_or_init(ask).clone()
}

/// An interpreter of the tests' version that servers of another user can start: the tests' own, or
/// the one in a public copy of their environment. Only root has servers of another user.
pub(crate) fn public_python() -> Option<PathBuf> {
    static PUBLIC: OnceLock<Option<PathBuf>> = OnceLock::new();
    suite::assert_declared("PublicPython", Need::takes_public_python);
    let find = || {
        let own = for_probes();
        if !is_root() || is_public(&own) {
            return Some(own);
        }
        let copy = is_prepared().then(|| public(&environment()).join("bin/python"));
        let mut others = copy.into_iter().chain(["/usr/bin/python3".into()]);
        others.find(|python| is_public(python) && version_of(python) == version_of(&own))
    };
    PUBLIC.get_or_init(find).clone()
}

/// The folder of the tests' packages for PYTHONPATH, if [`public_python`] is not in an environment
/// that has them.
pub(crate) fn public_packages() -> Option<PathBuf> {
    let has_packages = public_python()?.parent()?.parent()?.join("pyvenv.cfg").exists();
    let packages = format!("lib/python{}/site-packages", version());
    (!has_packages).then(|| public(&environment()).join(packages))
}

fn environment() -> PathBuf {
    root().join("target/python")
}

fn requirements() -> String {
    fs::read_to_string(root().join("tests/requirements.txt")).unwrap()
}

fn stamp() -> PathBuf {
    environment().join("requirements-installed.txt")
}

fn is_prepared() -> bool {
    fs::read_to_string(stamp()).is_ok_and(|installed| installed == requirements())
}

fn prepare() -> PathBuf {
    let interpreter = environment().join("bin/python");
    if is_prepared() {
        return interpreter;
    }
    fs::create_dir_all(root().join("target")).unwrap();
    // Test runners that start a process for each test come here many times at once.
    let lock = File::create(root().join("target/python.lock")).unwrap();
    if lock.try_lock().is_err() {
        say("waiting for the process that makes the tests' Python environment");
        lock.lock().unwrap();
    }
    if is_prepared() {
        return interpreter;
    }
    let base = base_interpreter();
    say(&format!(
        "making the tests' Python environment in target/python, once: about 800 MB, some minutes \
         ({}, tests/requirements.txt)",
        base.display()
    ));
    let begun = Instant::now();
    let _ = fs::remove_dir_all(environment());
    run(Command::new(base).args(["-m", "venv"]).arg(environment()));
    let pip = ["-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off", "-r"];
    run(Command::new(&interpreter).args(pip).arg(root().join("tests/requirements.txt")));
    // What the packages would otherwise compile at their first import, in some test. Not all of
    // their files are valid.
    say("compiling the packages");
    let compile = ["-m", "compileall", "-q"];
    let library = environment().join("lib");
    let _ = Command::new(&interpreter).args(compile).arg(library).output().unwrap();
    fs::write(stamp(), requirements()).unwrap();
    say(&format!("the tests' Python environment is made ({} s)", begun.elapsed().as_secs()));
    interpreter
}

/// The first interpreter on the path that is new enough. Where there is none, no test can run.
fn base_interpreter() -> PathBuf {
    let is_new = |name: &&&str| version_of(Path::new(name)).is_some_and(|it| it >= VERSION_MIN);
    if let Some(name) = NAMES.iter().find(is_new) {
        return PathBuf::from(name);
    }
    let (major, minor) = VERSION_MIN;
    let there = match version_of(Path::new("python3")) {
        Some((major, minor)) => format!("python3 is {major}.{minor}"),
        None => "there is no python3".to_owned(),
    };
    say(&format!("the tests need Python {major}.{minor} or later, and {there} on the PATH"));
    exit(101)
}

/// The major and minor version of an interpreter.
fn version_of(python: &Path) -> Option<(u32, u32)> {
    let code = "import sys; print(*sys.version_info[:2])";
    let output = Command::new(python).args(["-I", "-c", code]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().split_once(' ')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Runs a step, and says on standard error what it says; nothing of that is on standard output,
/// which is the test report.
fn run(command: &mut Command) {
    let shown = format!("{command:?}");
    let (reader, writer) = io::pipe().unwrap();
    let outputs = (writer.try_clone().unwrap(), writer);
    let mut child =
        command.stdin(Stdio::null()).stdout(outputs.0).stderr(outputs.1).spawn().unwrap();
    // The parent's ends of the pipe are in there, and would keep it open.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    for line in BufReader::new(reader).lines().map_while(Result::ok) {
        if !line.trim().is_empty() {
            say(&format!("  {}", line.trim()));
        }
    }
    let status = child.wait().unwrap();
    if !status.success() {
        say(&format!("{shown} failed: {status}"));
        say("it takes the network once, and a `python3 -m venv` that works (Debian: python3-venv)");
        exit(101);
    }
}

#[expect(clippy::print_stderr, reason = "who waits for minutes is told what for")]
fn say(line: &str) {
    eprintln!("{line}");
}

/// The version of uv that tests run.
const UV: &str = "uv==0.13.9";

/// The uv of the tests, which is installed below `target/` when it is not there.
pub(crate) fn uv() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let folder = root().join("target/uv");
        let (program, stamp) = (folder.join("bin/uv"), folder.join("installed.txt"));
        let is_there = || fs::read_to_string(&stamp).is_ok_and(|installed| installed == UV);
        fs::create_dir_all(root().join("target")).unwrap();
        let lock = File::create(root().join("target/uv.lock")).unwrap();
        lock.lock().unwrap();
        if !is_there() {
            say(&format!("installing {UV} in target/uv"));
            let _ = fs::remove_dir_all(&folder);
            run(Command::new(python()).args(["-m", "venv"]).arg(&folder));
            let pip = ["-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off"];
            run(Command::new(folder.join("bin/python")).args(pip).arg(UV));
            fs::write(&stamp, UV).unwrap();
        }
        program
    })
}
