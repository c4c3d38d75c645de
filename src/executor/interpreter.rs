//! Where Python is. Asked once: on many machines `python3` is a shell script of a version manager
//! that takes longer than Python itself.

use std::ffi::OsString;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};

use data_encoding::HEXLOWER;
use serde::Deserialize;
use thiserror::Error;
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::config::Settings;
use crate::sandbox::Reach;

use super::limits::PROBE_TIMEOUT;

/// The oldest Python that the verification libraries still support.
const VERSION_MIN: (u32, u32) = (3, 8);

/// Prints what an interpreter is and what its scripts read, and compiles [`BOOTSTRAP`] for it.
/// `sys.executable` names the real program behind a version manager's shim, and the virtual
/// environment's own link inside one.
const PROBE: &str = include_str!("probe.py");

/// The variables that the probe has not: those of the server (tokens are among them), of Python
/// (code beside `PYTHONPATH` runs inside only, also that of a shim which is Python itself) and of
/// the dynamic loader (scripts have to do without them).
const WITHHELD_PREFIXES: [&str; 4] = ["QWED_", "PYTHON", "LD_", "DYLD_"];

/// How much of what an interpreter writes to its standard error is kept: its end.
const STDERR_CHARS_MAX: usize = 1000;

/// What an interpreter does before a script. Compiled once: that takes longer than all it does.
const BOOTSTRAP: &str = concat!(
    include_str!("bootstrap.py"),
    "\nsource = main['script'].read()",
    "\nmain.pop('script').close()",
    "\nexec(bootstrap()(source), globals().pop('main'))\n"
);

/// The fork server, whose children do the same before a script.
const FORK_SERVER: &str = concat!(
    include_str!("bootstrap.py"),
    "\n\n",
    include_str!("warm/heap.py"),
    "\n\n",
    include_str!("warm/fork_server.py")
);

/// The variables of the server's environment that a script gets to see.
const FORWARDED_VARIABLES: [&str; 2] = ["PATH", PYTHON_PATH];

const PYTHON_PATH: &str = "PYTHONPATH";

/// How many threads the libraries below `NumPy` start. One: a result does not depend on the number
/// of cores, and a large machine does not use up the threads that a run may have.
const THREADS: [&str; 3] = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"];

/// The order of a set of texts depends on this number, so that a script prints the same each time it
/// is run. It is the same for scripts that are started alone and for those that are forked.
const HASH_SEED: (&str, &str) = ("PYTHONHASHSEED", "0");

/// An interpreter that answered.
#[derive(Debug, Clone)]
pub(super) struct Interpreter {
    /// The bootstrap's code, as this interpreter marshals it.
    pub(super) bootstrap: Vec<u8>,
    /// The fork server's.
    #[cfg_attr(
        any(not(target_os = "linux"), qwed_portable),
        expect(dead_code, reason = "warm interpreters are Linux's")
    )]
    pub(super) fork_server: Vec<u8>,
    /// As `platform.python_version()` has it.
    pub(super) version: String,
    /// The program, and what it reads.
    pub(super) reach: Reach,
    /// The whole environment of a script, but for what points into its scratch folder.
    pub(super) environment: Vec<(String, String)>,
    /// Why scripts can read the home folder of the server's user, if they can.
    pub(super) exposures: Vec<HomeExposure>,
}

/// A folder that scripts can read, and that is the home folder or above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HomeExposure {
    /// What names it: `PYTHONPATH`, or a `.pth` file.
    pub(crate) origin: &'static str,
    pub(crate) folder: PathBuf,
}

/// Why there is no interpreter. No path: this is shown to clients. The log has the details.
#[derive(Debug, Clone, Error)]
pub(crate) enum FindError {
    /// Only what the admin named was tried.
    #[error(
        "the interpreter that QWED_MCP_PYTHON names could not be used: {}. \
         Set QWED_MCP_PYTHON to the absolute path of a Python 3.8 or later, or to a name that is on \
         PATH; ~ and variables are not expanded", .0.error
    )]
    Configured(Unusable),
    /// Everything was tried.
    #[error(
        "no Python 3.8 or later was found in VIRTUAL_ENV or on PATH. \
         Set QWED_MCP_PYTHON to the absolute path of one"
    )]
    NotFound(Vec<Unusable>),
}

impl FindError {
    /// What was tried, for the admin.
    pub(crate) fn tried(&self) -> &[Unusable] {
        match self {
            Self::Configured(unusable) => std::slice::from_ref(unusable),
            Self::NotFound(unusable) => unusable,
        }
    }
}

/// A candidate that cannot be used. `Display` is for the admin: it has the path and what the
/// candidate itself said.
#[derive(Debug, Clone)]
pub(crate) struct Unusable {
    pub(crate) candidate: PathBuf,
    pub(crate) error: ProbeError,
    /// The end of what it wrote to its standard error.
    pub(crate) stderr: String,
}

impl Unusable {
    fn new(candidate: &Path, error: ProbeError) -> Self {
        Self { candidate: candidate.to_owned(), error, stderr: String::new() }
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { candidate, error, stderr } = self;
        write!(f, "{}: {error}", candidate.display())?;
        if stderr.is_empty() { Ok(()) } else { write!(f, ". It wrote: {stderr}") }
    }
}

/// Why one candidate cannot be used.
#[derive(Debug, Clone, Error)]
pub(crate) enum ProbeError {
    /// It depends on the server's current folder what that is.
    #[error("it is a relative path")]
    Relative,
    /// It is not there, or is no program. The error of the system.
    #[error("it does not start: {0}")]
    Start(String),
    /// It did not answer in time.
    #[error("it does not answer")]
    Timeout,
    /// The dynamic loader ended it.
    #[error("a shared library that it needs is missing")]
    LibraryMissing,
    /// It ended with an error.
    #[error("it is not Python, or is damaged: it ended with {0}")]
    Failed(ExitStatus),
    /// It is something else.
    #[error("it is not Python")]
    NotPython,
    /// It is too old.
    #[error("it is Python {0}.{1}")]
    TooOld(u32, u32),
}

/// Finds the interpreter at the first call, and remembers it. A failure is not remembered: what is
/// missing may be installed while the server runs.
#[derive(Debug)]
pub(super) struct InterpreterFinder {
    configured: Option<OsString>,
    virtual_env: Option<PathBuf>,
    found: OnceCell<Interpreter>,
}

impl InterpreterFinder {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            configured: settings.python.clone(),
            virtual_env: settings.virtual_env.clone(),
            found: OnceCell::new(),
        }
    }

    /// The interpreter: `QWED_MCP_PYTHON` if set, else that of `VIRTUAL_ENV`, else `python3`, else
    /// `python` on `PATH`.
    pub(super) async fn interpreter(&self) -> Result<&Interpreter, FindError> {
        self.found.get_or_try_init(|| self.find()).await
    }

    async fn find(&self) -> Result<Interpreter, FindError> {
        if let Some(configured) = &self.configured {
            let candidate = Path::new(configured);
            // A name without a slash is looked for on PATH.
            let is_name = !configured.as_encoded_bytes().contains(&b'/');
            let found = if candidate.is_absolute() || is_name {
                probe(candidate).await
            } else {
                Err(Unusable::new(candidate, ProbeError::Relative))
            };
            return found.map_err(|unusable| {
                tracing::warn!("QWED_MCP_PYTHON cannot be used: {unusable}");
                FindError::Configured(unusable)
            });
        }
        let of_virtual_env = self.virtual_env.as_ref().map(|root| root.join("bin").join("python"));
        let on_path = ["python3", "python"].map(PathBuf::from);
        let mut tried = Vec::new();
        for candidate in of_virtual_env.into_iter().chain(on_path) {
            match probe(&candidate).await {
                Ok(interpreter) => return Ok(interpreter),
                Err(unusable) => {
                    tracing::info!("not usable: {unusable}");
                    tried.push(unusable);
                }
            }
        }
        for unusable in &tried {
            tracing::warn!("no interpreter: {unusable}");
        }
        Err(FindError::NotFound(tried))
    }
}

/// What [`PROBE`] prints.
#[derive(Deserialize)]
struct Answer {
    executable: PathBuf,
    version_info: (u32, u32),
    version: String,
    /// [`BOOTSTRAP`] and [`FORK_SERVER`], marshalled; none where the version is too old.
    codes: Vec<String>,
    loader: Option<PathBuf>,
    paths: Vec<PathBuf>,
    named_in_pth_files: Vec<PathBuf>,
    user_base: Option<String>,
}

/// Asks a candidate what it is. It runs outside of the sandbox, so nothing runs in it but the
/// standard library.
async fn probe(candidate: &Path) -> Result<Interpreter, Unusable> {
    let unusable = |error| Unusable::new(candidate, error);
    let mut command = Command::new(candidate);
    // -I: nothing in the current folder or in PYTHONPATH has a say in which interpreter this is.
    // -S: nor has what is installed.
    command.args(["-I", "-S", "-W", "ignore", "-c", PROBE, BOOTSTRAP, FORK_SERVER]);
    // A version manager's shim may need any other variable.
    let own = std::env::vars_os().map(|(name, _)| name);
    let is_withheld = |name: &OsString| {
        let name = name.as_encoded_bytes();
        WITHHELD_PREFIXES.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
    };
    for name in own.filter(is_withheld) {
        command.env_remove(name);
    }
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = match timeout(PROBE_TIMEOUT, output).await {
        Err(_) => return Err(unusable(ProbeError::Timeout)),
        Ok(Err(error)) => return Err(unusable(ProbeError::Start(error.to_string()))),
        Ok(Ok(output)) => output,
    };
    let stderr = || end_of(&String::from_utf8_lossy(&output.stderr));
    interpreter(&output).map_err(|error| Unusable { stderr: stderr(), ..unusable(error) })
}

/// The interpreter that answered so.
fn interpreter(output: &Output) -> Result<Interpreter, ProbeError> {
    let Ok(answer) = serde_json::from_slice::<Answer>(&output.stdout) else {
        // glibc: "error while loading shared libraries", musl: "Error loading shared library".
        let is_of_loader =
            String::from_utf8_lossy(&output.stderr).contains("loading shared librar");
        return Err(match output.status {
            _ if is_of_loader => ProbeError::LibraryMissing,
            status if status.success() => ProbeError::NotPython,
            status => ProbeError::Failed(status),
        });
    };
    let (major, minor) = answer.version_info;
    if (major, minor) < VERSION_MIN {
        return Err(ProbeError::TooOld(major, minor));
    }
    let code_of =
        |digits: &String| HEXLOWER.decode(digits.as_bytes()).map_err(|_| ProbeError::NotPython);
    let codes = answer.codes.iter().map(code_of).collect::<Result<Vec<_>, _>>()?;
    let Ok([bootstrap, fork_server]) = <[Vec<u8>; 2]>::try_from(codes) else {
        return Err(ProbeError::NotPython);
    };
    if !answer.executable.is_absolute() {
        return Err(ProbeError::NotPython);
    }

    let mut environment = forwarded(&FORWARDED_VARIABLES);
    let python_path = environment.iter().find(|(name, _)| name == PYTHON_PATH);
    let python_path = python_path.map(|(_, value)| absolute_entries(value)).unwrap_or_default();
    environment.extend(answer.user_base.map(|base| ("PYTHONUSERBASE".to_owned(), base)));
    environment.extend(THREADS.map(|name| (name.to_owned(), "1".to_owned())));
    environment.push((HASH_SEED.0.to_owned(), HASH_SEED.1.to_owned()));
    let named = python_path.iter().map(|folder| (PYTHON_PATH, folder));
    let named = named.chain(answer.named_in_pth_files.iter().map(|folder| ("a .pth file", folder)));
    let exposures = home_exposures(named);
    let executable = answer.executable.display();
    tracing::info!(%executable, version = answer.version, "interpreter found");
    let paths = [answer.paths, answer.named_in_pth_files, python_path].concat();
    let reach = Reach { program: answer.executable, loader: answer.loader, paths };
    let version = answer.version;
    Ok(Interpreter { bootstrap, fork_server, version, reach, environment, exposures })
}

/// The folders of a `PYTHONPATH` that are the same for every script. A relative one, and an empty
/// one, is below the script's own folder, which is new and empty.
fn absolute_entries(python_path: &str) -> Vec<PathBuf> {
    let entries = std::env::split_paths(python_path).filter(|entry| entry.is_absolute());
    // Python takes the name before `..` away (os.path.abspath), whatever link that may be; the
    // kernel does not, and sees the entry before that is done.
    entries.flat_map(|entry| [without_parents(&entry), entry]).collect()
}

/// An absolute path as `os.path.abspath` has it.
fn without_parents(path: &Path) -> PathBuf {
    let mut shorter = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => shorter.push(name),
            Component::ParentDir => {
                shorter.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    shorter
}

/// Those of the folders that are the home folder of the server's user, or above it.
fn home_exposures<'a>(
    named: impl Iterator<Item = (&'static str, &'a PathBuf)>,
) -> Vec<HomeExposure> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let Some(home) = home.and_then(|home| home.canonicalize().ok()) else { return Vec::new() };
    let mut exposures = Vec::new();
    for (origin, folder) in named {
        // The whole machine is never opened to scripts.
        let real = folder.canonicalize().ok().filter(|real| real.parent().is_some());
        if !real.is_some_and(|real| home.starts_with(real)) {
            continue;
        }
        let exposure = HomeExposure { origin, folder: folder.clone() };
        if !exposures.contains(&exposure) {
            let folder = folder.display();
            tracing::warn!("scripts can read the home folder: {origin} names {folder}");
            exposures.push(exposure);
        }
    }
    exposures
}

/// The end of a text, on one line.
fn end_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let line = lines.join(" | ");
    let left_out = line.chars().count().saturating_sub(STDERR_CHARS_MAX);
    line.chars().skip(left_out).collect()
}

/// Those of the variables that the server has.
fn forwarded(names: &[&str]) -> Vec<(String, String)> {
    let variables =
        names.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    variables.collect()
}
