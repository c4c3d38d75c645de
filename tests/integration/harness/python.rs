//! Finds the interpreter for scripts, and creates a virtual environment below `target/` with the real packages from
//! PyPI.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use super::machine::Need;
use super::{is_public, is_root, public, root, suite};

/// The oldest Python version that the packages in `tests/requirements.txt` support.
const VERSION_MIN: (u32, u32) = (3, 11);

/// The possible program names of an interpreter that is new enough.
const NAMES: [&str; 5] = ["python3", "python3.14", "python3.13", "python3.12", "python3.11"];

/// Returns the tests' interpreter. If the virtual environment exists, returns its interpreter, otherwise the first
/// interpreter on `PATH` that is new enough. Tests with scripts that import packages declare [`Need::Packages`], so
/// that the environment exists before these tests run.
pub(crate) fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let none = || PathBuf::from("python3");
        if is_prepared() { in_environment() } else { base_interpreter().unwrap_or_else(none) }
    })
}

/// Creates the virtual environment if it does not exist.
///
/// # Errors
///
/// Returns the reason and the remedy if the environment cannot be created.
pub(super) fn packages() -> Result<(), String> {
    static MADE: OnceLock<Result<(), String>> = OnceLock::new();
    MADE.get_or_init(prepare).clone()
}

/// Returns the reason why the machine has no interpreter, or `None`.
pub(super) fn obstacle() -> Option<String> {
    base_interpreter().is_none().then(|| NO_INTERPRETER.to_owned())
}

/// Returns the reason why the interpreter cannot create virtual environments, or `None`.
pub(super) fn venv_obstacle() -> Option<String> {
    let base = base_interpreter()?;
    let has_venv = Command::new(&base).args(["-c", "import ensurepip, venv"]).output();
    let has_venv = has_venv.is_ok_and(|output| output.status.success());
    (!has_venv).then(|| format!("{} has no venv: {VENV_REMEDY}", base.display()))
}

const NO_INTERPRETER: &str = "no python3 on the PATH: install Python 3.11 or later";
const VENV_REMEDY: &str = "install Debian's python3-venv";

/// Returns the minor version of the tests' interpreter, such as `3.11`.
pub(super) fn version() -> String {
    static VERSION: OnceLock<String> = OnceLock::new();
    let ask = || {
        let (major, minor) = version_of(python()).unwrap_or_default();
        format!("{major}.{minor}")
    };
    VERSION.get_or_init(ask).clone()
}

/// Returns an interpreter of the tests' version that every user can start, or `None`. The candidates are the tests' own
/// interpreter, the interpreter in a public copy of their environment, and the system's interpreter. If root does not
/// run the tests, returns the tests' own interpreter, because only root starts servers as another user.
pub(crate) fn public_python() -> Option<PathBuf> {
    static PUBLIC: OnceLock<Option<PathBuf>> = OnceLock::new();
    suite::assert_declared("PublicPython", Need::takes_public_python);
    let find = || {
        let own = python().to_owned();
        if !is_root() || is_public(&own) {
            return Some(own);
        }
        let copy = is_prepared().then(|| public(&environment()).join("bin/python"));
        let mut others = copy.into_iter().chain(["/usr/bin/python3".into()]);
        others.find(|python| is_public(python) && version_of(python) == version_of(&own))
    };
    PUBLIC.get_or_init(find).clone()
}

/// Returns the folder of the tests' packages for `PYTHONPATH`, or `None` if the environment of [`public_python`]
/// already has the packages.
pub(crate) fn public_packages() -> Option<PathBuf> {
    let has_packages = public_python()?.parent()?.parent()?.join("pyvenv.cfg").exists();
    let packages = format!("lib/python{}/site-packages", version());
    (!has_packages && is_prepared()).then(|| public(&environment()).join(packages))
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

fn in_environment() -> PathBuf {
    environment().join("bin/python")
}

fn prepare() -> Result<(), String> {
    if is_prepared() {
        return Ok(());
    }
    let base = base_interpreter().ok_or(NO_INTERPRETER)?;
    let (major, minor) = version_of(&base).unwrap_or_default();
    if (major, minor) < VERSION_MIN {
        return Err(format!("python3 is {major}.{minor}: install Python 3.11 or later"));
    }
    fs::create_dir_all(root().join("target")).unwrap();
    // A test runner that starts a process for each test calls this function many times at once.
    let lock = File::create(root().join("target/python.lock")).unwrap();
    if lock.try_lock().is_err() {
        say("waiting for the process that makes the tests' Python environment");
        lock.lock().unwrap();
    }
    if is_prepared() {
        return Ok(());
    }
    let (tool, steps) = steps(&base)?;
    say(&format!(
        "making the tests' Python environment in target/python, once: about 800 MB, about a minute \
         ({tool}, {}, tests/requirements.txt)",
        base.display()
    ));
    let begun = Instant::now();
    let _ = fs::remove_dir_all(environment());
    for mut step in steps {
        run(&mut step).map_err(|failed| {
            format!("target/python could not be made ({failed}): it takes the network once")
        })?;
    }
    // Compiles the packages now, so that tests do not compile them at their first import. Ignores failures, because
    // some files of the packages are not valid Python.
    say("compiling the packages");
    let compile = ["-m", "compileall", "-q", "-j0"];
    let library = environment().join("lib");
    let _ = Command::new(in_environment()).args(compile).arg(library).output().unwrap();
    fs::write(stamp(), requirements()).unwrap();
    say(&format!("the tests' Python environment is made ({} s)", begun.elapsed().as_secs()));
    Ok(())
}

/// Returns the commands that create the environment. They use uv if it is on `PATH`, because uv is faster and does
/// not need the module `venv`.
fn steps(base: &Path) -> Result<(&'static str, [Command; 2]), String> {
    let packages = root().join("tests/requirements.txt");
    let has_uv = Command::new("uv").arg("--version").output();
    if has_uv.is_ok_and(|output| output.status.success()) {
        let [mut make, mut install] = ["venv", "pip"].map(|subcommand| {
            let mut uv = Command::new("uv");
            uv.arg(subcommand);
            uv
        });
        make.args(["--no-project", "--seed", "--python"]).arg(base).arg(environment());
        install.args(["install", "--python"]).arg(in_environment()).arg("-r").arg(packages);
        return Ok(("uv", [make, install]));
    }
    if let Some(obstacle) = venv_obstacle() {
        return Err(format!("{obstacle}, or uv"));
    }
    let (mut make, mut install) = (Command::new(base), Command::new(in_environment()));
    make.args(["-m", "venv"]).arg(environment());
    let pip = ["-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off", "-r"];
    install.args(pip).arg(packages);
    Ok(("pip", [make, install]))
}

/// Returns the first interpreter on `PATH` that is new enough, or else `python3`. The path comes from the interpreter
/// itself, because the program on `PATH` may be a shim.
fn base_interpreter() -> Option<PathBuf> {
    static BASE: OnceLock<Option<PathBuf>> = OnceLock::new();
    BASE.get_or_init(|| {
        let is_new = |name: &&&str| version_of(Path::new(name)).is_some_and(|it| it >= VERSION_MIN);
        let name = NAMES.iter().find(is_new).unwrap_or(&NAMES[0]);
        let path = ["-I", "-c", "import sys; print(sys.executable)"];
        let output = Command::new(name).args(path).output().ok()?;
        let path = String::from_utf8(output.stdout).ok()?;
        (!path.trim().is_empty()).then(|| PathBuf::from(path.trim()))
    })
    .clone()
}

fn version_of(python: &Path) -> Option<(u32, u32)> {
    let code = "import sys; print(*sys.version_info[:2])";
    let output = Command::new(python).args(["-I", "-c", code]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().split_once(' ')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Runs a step, and copies its output to standard error, because standard output is the test report.
///
/// # Errors
///
/// Returns the command and its last line of output if it fails.
fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    let (reader, writer) = io::pipe().unwrap();
    let outputs = (writer.try_clone().unwrap(), writer);
    let child = command.stdin(Stdio::null()).stdout(outputs.0).stderr(outputs.1).spawn();
    let mut child = child.map_err(|error| format!("{shown}: {error}"))?;
    // `command` still owns the write ends of the pipe. Until they are closed, the reader does not reach the end of the
    // output.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut last = String::new();
    for line in BufReader::new(reader).lines().map_while(Result::ok) {
        if !line.trim().is_empty() {
            line.trim().clone_into(&mut last);
            say(&format!("  {last}"));
        }
    }
    let status = child.wait().unwrap();
    if status.success() { Ok(()) } else { Err(format!("{shown} ended with {status}: {last}")) }
}

#[expect(clippy::print_stderr, reason = "the set-up takes minutes")]
fn say(line: &str) {
    eprintln!("{line}");
}

/// The version of uv that the tests install.
const UV: &str = "uv==0.13.9";

/// Returns the path of this uv. Installs it below `target/` if necessary.
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
            let pip = ["-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off"];
            let made = run(Command::new(python()).args(["-m", "venv"]).arg(&folder))
                .and_then(|()| run(Command::new(folder.join("bin/python")).args(pip).arg(UV)));
            made.unwrap_or_else(|failed| panic!("uv could not be installed: {failed}"));
            fs::write(&stamp, UV).unwrap();
        }
        program
    })
}
