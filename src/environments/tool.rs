//! Finds and runs the programs that make environments: uv if it is installed, otherwise Python's own `venv` and pip.
//!
//! `venv` and pip are supported because Debian 12 and Ubuntu 24.04 have no package of uv.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;
use tokio::process::Command;
use tokio::time::timeout;

use super::lock::Lock;
use super::step::{Progress, StepError, command, run};

/// The oldest Python that the QWED packages support.
pub(super) const VERSION_MIN: (u32, u32) = (3, 10);
/// The newest minor version of Python for which a name such as `python3.16` is looked up.
const MINOR_MAX: u32 = 16;

/// The folders in the home folder that are searched for uv, in addition to `PATH`. uv's own installer uses the first
/// folder, and Cargo uses the second.
const UV_IN_HOME: [&str; 2] = [".local/bin", ".cargo/bin"];
/// The folders of Homebrew that are searched for uv. The `PATH` of graphical programs does not contain these folders.
const UV_ELSEWHERE: [&str; 3] =
    ["/opt/homebrew/bin", "/usr/local/bin", "/home/linuxbrew/.linuxbrew/bin"];

/// The timeout for a program that prints its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);

/// The arguments with which an interpreter prints its version. With `-I` and `-S`, the interpreter runs no code of
/// packages or of the user.
const ASK: [&str; 4] =
    ["-I", "-S", "-c", "import sys; print('Python %d.%d.%d' % sys.version_info[:3])"];

/// The arguments with which Python compiles the installed packages. Scripts cannot compile packages, because they
/// cannot write to the environment. `-S` skips `.pth` files, because lines of `.pth` files can be code.
const COMPILE: [&str; 10] =
    ["-I", "-S", "-W", "ignore", "-m", "compileall", "-qq", "-j", "0", "lib"];

/// A Python program that runs pip with the given arguments, and prevents pip from building packages.
const RUN_PIP: &str = include_str!("run_pip.py");

/// The arguments that allow only wheels. Building any other package would run code of the package.
const ONLY_WHEELS: [&str; 2] = ["--only-binary", ":all:"];

/// The error of `python -m venv` on Debian and its derivatives, where `ensurepip` is in a separate package.
const NO_ENSUREPIP: &str = "ensurepip is not available";

/// The Python interpreter that the admin requests for an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PythonWanted {
    /// Any version that the QWED packages support.
    Any,
    /// This version: `3.13` or `3.13.1`.
    Version(u32, u32, Option<u32>),
    /// The interpreter at this path.
    Program(PathBuf),
}

/// An error in finding or running a program that makes environments.
#[derive(Debug, Error)]
pub(crate) enum ToolError {
    #[error(
        "neither uv nor {0} was found; install one of them \
         (https://docs.astral.sh/uv)"
    )]
    NoPython(String),
    #[error(
        "{python} cannot create environments with pip: on Debian and Ubuntu, \
         `apt install python{version}-venv`; or install uv (https://docs.astral.sh/uv)"
    )]
    NoEnsurepip { python: String, version: String },
    #[error("failed to create the virtual environment")]
    Make(#[source] StepError),
    #[error("failed to resolve the added packages")]
    Resolve(#[source] StepError),
    #[error("the versions of the added packages are unknown")]
    Unresolved,
    #[error("the packages cannot be installed")]
    Install(#[source] StepError),
    #[error("the packages cannot be compiled")]
    Compile(#[source] StepError),
}

impl FromStr for PythonWanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with('/') {
            return Ok(Self::Program(text.into()));
        }
        let expected = "expected a version such as 3.13, or the absolute path of an interpreter";
        let numbers: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
        let version = match numbers.as_deref() {
            Some([major, minor]) => (*major, *minor, None),
            Some([major, minor, micro]) => (*major, *minor, Some(*micro)),
            Some(_) | None => return Err(expected.to_owned()),
        };
        if (version.0, version.1) < VERSION_MIN {
            let (major, minor) = VERSION_MIN;
            return Err(format!("the QWED packages need Python {major}.{minor} or later"));
        }
        Ok(Self::Version(version.0, version.1, version.2))
    }
}

impl PythonWanted {
    /// Returns the request in uv's syntax, which messages use too.
    fn as_text(&self) -> String {
        match self {
            Self::Any => format!(">={}.{}", VERSION_MIN.0, VERSION_MIN.1),
            Self::Version(major, minor, None) => format!("{major}.{minor}"),
            Self::Version(major, minor, Some(micro)) => format!("{major}.{minor}.{micro}"),
            Self::Program(program) => program.display().to_string(),
        }
    }

    /// Returns whether an interpreter of the given version meets the admin's request.
    fn fits(&self, (major, minor, micro): (u32, u32, u32)) -> bool {
        match self {
            Self::Any | Self::Program(_) => (major, minor) >= VERSION_MIN,
            Self::Version(a, b, c) => {
                (*a, *b) == (major, minor) && c.is_none_or(|wanted| wanted == micro)
            }
        }
    }

    /// Returns the program names under which the requested interpreter is looked up, in order of preference.
    fn names(&self) -> Vec<PathBuf> {
        match self {
            Self::Any => {
                let versions =
                    (VERSION_MIN.1..=MINOR_MAX).rev().map(|minor| format!("python3.{minor}"));
                let names = ["python3".to_owned()].into_iter().chain(versions);
                names.chain(["python".to_owned()]).map(PathBuf::from).collect()
            }
            Self::Version(major, minor, _) => {
                let own = format!("python{major}.{minor}");
                [own, "python3".to_owned(), "python".to_owned()].map(PathBuf::from).into()
            }
            Self::Program(program) => vec![program.clone()],
        }
    }
}

/// The program that makes an environment.
#[derive(Debug, Clone)]
pub(super) enum Tool {
    Uv { program: PathBuf, version: String, python: PythonWanted },
    Venv { python: PathBuf, version: (u32, u32, u32) },
}

impl Tool {
    /// Finds uv. If uv is not installed, finds a Python interpreter that meets the request `python`.
    pub(super) async fn find(python: &PythonWanted) -> Result<Self, ToolError> {
        for program in uv_places() {
            if let Some(version) = answer(&program, &["--version"], "uv ").await {
                let version = version.split(' ').next().unwrap_or_default().to_owned();
                return Ok(Self::Uv { program, version, python: python.clone() });
            }
        }
        for name in python.names() {
            for program in on_path(&name) {
                let version = answer(&program, &ASK, "Python ").await.and_then(|it| parsed(&it));
                if let Some(version) = version.filter(|version| python.fits(*version)) {
                    return Ok(Self::Venv { python: program, version });
                }
            }
        }
        let wanted = match python {
            PythonWanted::Program(program) => {
                let (major, minor) = VERSION_MIN;
                format!("Python {major}.{minor} or later at {}", program.display())
            }
            PythonWanted::Any | PythonWanted::Version(..) => {
                format!("Python {} on PATH", python.as_text())
            }
        };
        Err(ToolError::NoPython(wanted))
    }

    /// Returns the program's name and version.
    pub(super) fn as_text(&self) -> String {
        match self {
            Self::Uv { version, .. } => format!("uv {version}"),
            Self::Venv { version: (major, minor, micro), .. } => {
                format!("venv of Python {major}.{minor}.{micro}")
            }
        }
    }

    /// Makes a virtual environment in an empty folder.
    pub(super) async fn create(
        &self,
        job: &Job<'_>,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<(), ToolError> {
        let make = match self {
            Self::Uv { program, python, .. } => {
                let mut make = job.uv(program, &["venv", "--no-project", "--python"]);
                make.arg(python.as_text()).arg(job.folder);
                make
            }
            Self::Venv { python, .. } => {
                let mut make = job.command(python);
                make.args(["-I", "-m", "venv"]).arg(job.folder);
                make
            }
        };
        match run(make, job.lock()?, progress).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.explained(error)),
        }
    }

    /// Converts an error of [`Self::create`]. If `ensurepip` is missing, the new error contains the remedy.
    fn explained(&self, error: StepError) -> ToolError {
        let is_split = error.lines().iter().any(|line| line.contains(NO_ENSUREPIP));
        match self {
            Self::Venv { python, version: (major, minor, _) } if is_split => {
                let python = python.display().to_string();
                ToolError::NoEnsurepip { python, version: format!("{major}.{minor}") }
            }
            Self::Uv { .. } | Self::Venv { .. } => ToolError::Make(error),
        }
    }

    /// Finds versions of the requested packages that fit the constraints. Returns the packages with their versions and
    /// hashes.
    pub(super) async fn resolve(
        &self,
        job: &Job<'_>,
        requirements: &Path,
        constraints: &Path,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Lock, ToolError> {
        let found = job.folder.join("resolved");
        let mut resolve = match self {
            Self::Uv { program, .. } => {
                let mut resolve = job.uv(program, &["pip", "compile", "--python"]);
                resolve.arg(job.python()).args(["--generate-hashes", "--no-header"]);
                resolve.args(["--no-annotate", "--output-file"]).arg(&found).arg(requirements);
                resolve
            }
            Self::Venv { .. } => {
                let mut resolve = job.pip();
                resolve.args(["--quiet", "--dry-run", "--ignore-installed", "--report"]);
                resolve.arg(&found).arg("-r").arg(requirements);
                resolve
            }
        };
        resolve.args(ONLY_WHEELS).arg("--constraint").arg(constraints);
        run(resolve, job.lock()?, progress).await.map_err(ToolError::Resolve)?;
        let lock = match self {
            Self::Uv { .. } => Lock::read(&found).ok(),
            Self::Venv { .. } => fs::read(&found).ok().and_then(|report| Lock::of_report(&report)),
        };
        lock.ok_or(ToolError::Unresolved)
    }

    /// Installs the locked packages, from wheels only, so that none of their code runs. Call this only once for each
    /// environment. A second call would start the environment's interpreter, which would run the `.pth` files of the
    /// installed packages.
    pub(super) async fn install(
        &self,
        job: &Job<'_>,
        lock: &Path,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<(), ToolError> {
        let mut install = match self {
            Self::Uv { program, .. } => {
                let mut install = job.uv(program, &["pip", "install", "--python"]);
                // Without this option, uv could start the environment's interpreter, to compile the installed
                // packages.
                install.arg(job.python()).arg("--no-compile-bytecode");
                install
            }
            Self::Venv { .. } => {
                let mut install = job.pip();
                install.args(["--no-compile", "--progress-bar", "off"]);
                // Without this option, pip selects the newest version for a dependency with an extra
                // (`pydantic[email]`). pip then refuses that version, because it has no hash.
                install.arg("--constraint").arg(lock);
                install
            }
        };
        install.args(ONLY_WHEELS).args(["--require-hashes", "-r"]).arg(lock);
        let installed = run(install, job.lock()?, progress).await;
        installed.map(drop).map_err(ToolError::Install)
    }
}

/// An environment that is being made. `turn` is the lock file for the exclusive right to make environments.
/// `is_offline` forbids downloads.
pub(super) struct Job<'j> {
    pub(super) folder: &'j Path,
    pub(super) turn: &'j File,
    pub(super) is_offline: bool,
}

impl Job<'_> {
    pub(super) fn python(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    /// Compiles all packages with the Python from which the environment was made. A failure is not an error, because
    /// some packages contain files that do not compile.
    pub(super) async fn compile(
        &self,
        base: &Path,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<(), ToolError> {
        let mut compile = self.command(base);
        compile.args(COMPILE);
        match run(compile, self.lock()?, progress).await {
            Ok(_) | Err(StepError::Failed { .. }) => Ok(()),
            Err(error @ (StepError::Start { .. } | StepError::Timeout { .. })) => {
                Err(ToolError::Compile(error))
            }
        }
    }

    fn lock(&self) -> Result<File, ToolError> {
        let cloned = self.turn.try_clone();
        let failed = |source| StepError::Start { program: "the next step".to_owned(), source };
        cloned.map_err(failed).map_err(ToolError::Make)
    }

    /// Creates a command that runs in the environment's folder, so that it reads no files from this process's current
    /// folder.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = command(program);
        command.current_dir(self.folder);
        command
    }

    fn pip(&self) -> Command {
        let mut command = self.command(self.python());
        command.args(["-I", "-c", RUN_PIP]);
        command.args(["--disable-pip-version-check", "--no-input", "install"]);
        command.args(self.is_offline.then_some("--no-index"));
        command
    }

    fn uv(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = self.command(program);
        // Run uv in the root folder, because uv reads project settings from its current folder and the parent folders.
        command.current_dir("/").args(["--color", "never", "--no-progress"]);
        command.args(self.is_offline.then_some("--offline")).args(arguments);
        command
    }
}

/// Returns the paths at which uv is installed, in order of preference.
fn uv_places() -> Vec<PathBuf> {
    let mut places = on_path(Path::new("uv"));
    let home = etcetera::home_dir().ok().filter(|home| home.is_absolute());
    let in_home = home.iter().flat_map(|home| UV_IN_HOME.map(|folder| home.join(folder)));
    let elsewhere = UV_ELSEWHERE.map(PathBuf::from);
    places.extend(
        in_home.chain(elsewhere).map(|folder| folder.join("uv")).filter(|it| is_program(it)),
    );
    places
}

/// Returns the programs named `name` in the absolute entries of `PATH`. If `name` is an absolute path, returns the
/// program at this path.
fn on_path(name: &Path) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let entries = std::env::split_paths(&path).filter(|entry| entry.is_absolute());
    // If `name` is an absolute path, `join` returns `name`.
    let mut found: Vec<PathBuf> =
        entries.map(|entry| entry.join(name)).filter(|it| is_program(it)).collect();
    if found.is_empty() && name.is_absolute() && is_program(name) {
        found.push(name.to_owned());
    }
    found
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 > 0)
}

/// Runs a program that prints its version. Returns the program's output without the prefix `start`. `None` if the
/// program fails.
async fn answer(program: &Path, arguments: &[&str], start: &str) -> Option<String> {
    let mut ask = command(program);
    ask.args(arguments).current_dir("/").stdin(Stdio::null()).stderr(Stdio::null());
    let output = timeout(VERSION_TIMEOUT, ask.kill_on_drop(true).output()).await.ok()?.ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim().strip_prefix(start).filter(|_| output.status.success())?;
    Some(text.to_owned())
}

fn parsed(version: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = version.split('.').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_is_wanted_by_its_version_or_its_path() {
        let version = |text: &str| text.parse::<PythonWanted>();
        assert_eq!(version("3.13"), Ok(PythonWanted::Version(3, 13, None)));
        assert_eq!(version("3.13.1"), Ok(PythonWanted::Version(3, 13, Some(1))));
        assert_eq!(
            version("/usr/bin/python3"),
            Ok(PythonWanted::Program("/usr/bin/python3".into()))
        );
        assert!(version("3.9").is_err_and(|error| error.contains("3.10 or later")));
        for text in
            ["", "3", "python3.13", "3.x", ">=3.10", "3.13.1.2", "-3.13", "bin/python", "3.13 "]
        {
            assert!(version(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_interpreter_fits_what_is_wanted() {
        let wanted = PythonWanted::Version(3, 13, None);
        assert!(wanted.fits((3, 13, 0)) && wanted.fits((3, 13, 9)) && !wanted.fits((3, 12, 9)));
        let exact = PythonWanted::Version(3, 13, Some(1));
        assert!(exact.fits((3, 13, 1)) && !exact.fits((3, 13, 2)));
        assert!(PythonWanted::Any.fits((3, 10, 0)) && !PythonWanted::Any.fits((3, 9, 18)));
        assert_eq!(wanted.names()[0], Path::new("python3.13"));
        assert_eq!(PythonWanted::Any.names()[0], Path::new("python3"));
        assert_eq!((parsed("3.13.0"), parsed("3.13"), parsed("x")), (Some((3, 13, 0)), None, None));
    }
}
