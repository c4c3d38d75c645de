//! Probes an interpreter, outside of the sandbox and before any script.
//!
//! The probe never runs code of the workspace or of an installed package.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};

use serde::Deserialize;
use thiserror::Error;
use tokio::process::Command;
use tokio::time::timeout;

use crate::sandbox::{HAS_SEATBELT, Reach};

use super::limits::PROBE_TIMEOUT;
use super::untrusted::UntrustedFolder;

/// The oldest Python version that the verification libraries still support.
const VERSION_MIN: (u32, u32) = (3, 8);

/// The Python script that the interpreter runs for the probe. It prints facts about the interpreter and the paths that
/// scripts read. It also compiles [`BOOTSTRAP`], [`FORK_SERVER`] and [`ENTRY`]. The interpreter's path is
/// `sys.executable`. For the shim of a version manager, `sys.executable` is the path of the real program. For a virtual
/// environment, it is the path of the symlink in the environment.
const PROBE: &str = include_str!("python/probe.py");

/// The prefixes of environment variables that the interpreter does not receive during the probe. The server's own
/// variables include tokens. The variables of Python and of the dynamic loader could make the candidate, or a shim that
/// is written in Python, run code outside of the sandbox. The variables of shells, Perl, Node.js and Ruby could make a
/// shim in one of these languages run other code first.
const WITHHELD_PREFIXES: [&str; 10] =
    ["QWED_", "PYTHON", "LD_", "DYLD_", "BASH_ENV", "BASH_FUNC_", "ENV", "PERL5", "NODE_", "RUBY"];

/// The maximum number of reported characters from the end of an interpreter's standard error.
const STDERR_CHARS_MAX: usize = 1000;

/// The bootstrap: the code that prepares Python for a script. It is compiled once, because compiling takes longer than
/// running.
const BOOTSTRAP: &str = concat!(
    include_str!("python/pictures.py"),
    "\n\n",
    include_str!("python/checks.py"),
    "\n\n",
    include_str!("python/determinism.py"),
    "\n\n",
    include_str!("python/values.py"),
    "\n\n",
    include_str!("python/members.py"),
    "\n\n",
    include_str!("python/bootstrap.py"),
    // In Python's input, these values follow the bootstrap: a flag for pictures, a flag for the report about the end of
    // the script, a flag for a seed, the seed, five lengths, the script, the plan of its checks, the expression of a
    // batch test, the standard input and the input files. A flag is the byte `+` or `-`.
    "\npictures = 20 if main['script'].read(1) == b'+' else None",
    "\nchannel = 20 if main['script'].read(1) == b'+' else None",
    "\nseed = main['script'].read(32) if main['script'].read(1) == b'+' else None",
    "\nlengths = [int.from_bytes(main['script'].read(8), 'little') for _ in range(5)]",
    "\nsource, plan, call, stdin = map(main['script'].read, lengths[:4])",
    "\ninputs = give_inputs(main['script'].read, lengths[4]) if lengths[4] else None",
    "\nmain.pop('script').close()",
    "\ncode_of, reached_end, ended_by, *_ = bootstrap(pictures=pictures, seed=seed, channel=channel)",
    "\nif stdin: give_stdin(stdin)",
    "\nnames = globals().pop('main')",
    "\nif inputs: names['inputs'] = inputs",
    "\ntry:",
    "\n exec(code_of(source, plan, call), names)",
    "\n reached_end(names)",
    "\nexcept BaseException as error:",
    "\n ended_by(error, names)",
    "\n raise",
    // Deletes the script's variables, so that Python finalizes their values.
    "\nfinally:",
    "\n del names\n"
);

/// The code by which Python enters the sandbox of macOS, before the bootstrap.
const ENTRY: &str = include_str!("python/seatbelt.py");

/// The code of the fork server. It includes the bootstrap, because the fork server's children use the bootstrap before
/// a script.
const FORK_SERVER: &str = concat!(
    include_str!("python/pictures.py"),
    "\n\n",
    include_str!("python/checks.py"),
    "\n\n",
    include_str!("python/determinism.py"),
    "\n\n",
    include_str!("python/values.py"),
    "\n\n",
    include_str!("python/members.py"),
    "\n\n",
    include_str!("python/bootstrap.py"),
    "\n\n",
    include_str!("python/preload.py"),
    "\n\n",
    include_str!("python/heap.py"),
    "\n\n",
    include_str!("python/fork_server.py")
);

/// The variables of the server's environment that are passed to scripts.
const FORWARDED_VARIABLES: [&str; 2] = [PATH, PYTHON_PATH];

const PATH: &str = "PATH";
const PYTHON_PATH: &str = "PYTHONPATH";

/// The variables that set the number of threads of the numerical libraries that `NumPy` uses. All of them are set to 1,
/// so that a result does not depend on the number of cores. On a machine with many cores, more threads could exceed the
/// run's limit on processes and threads.
const THREADS: [&str; 3] = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"];

/// The variable with the seed of Python's hashes, which decide the order of a set of strings. The seed is fixed, so
/// that a script prints the same output in each run. Cold and warm runs have the same seed.
const HASH_SEED: (&str, &str) = ("PYTHONHASHSEED", "0");

/// An interpreter that answered the probe.
#[derive(Debug, Clone)]
pub(super) struct Interpreter {
    /// The code of the bootstrap, marshalled by this interpreter.
    pub(super) bootstrap: Vec<u8>,
    /// The code of the fork server, marshalled by this interpreter.
    pub(super) fork_server: Vec<u8>,
    /// The marshalled code that enters the sandbox of macOS; empty on other systems.
    pub(super) entry: Vec<u8>,
    /// The file that really runs, if the program only executes another file (macOS).
    pub(super) program_file: Option<PathBuf>,
    /// The name of the Python implementation, as in `sys.implementation.name`.
    pub(super) implementation: String,
    /// The version, as `platform.python_version()` returns it.
    pub(super) version: String,
    /// The program, and the paths that it reads.
    pub(super) reach: Reach,
    /// The files that the probe has run or loaded outside of the sandbox: the program, its libraries and its standard
    /// library.
    pub(super) own: Vec<PathBuf>,
    /// The folders of installed packages, including the folders that `.pth` files name.
    pub(super) packages: Vec<PathBuf>,
    /// The complete environment of a script, except for the variables that point into the script's scratch folder.
    pub(super) environment: Vec<(String, String)>,
    /// The reasons why scripts can read the home folder of the server's user; empty if scripts cannot.
    pub(super) exposures: Vec<HomeExposure>,
}

/// A folder that scripts can read, and that is or contains the home folder of the server's user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HomeExposure {
    /// The source of the folder's path: `PYTHONPATH`, or a `.pth` file.
    pub(crate) origin: &'static str,
    pub(crate) folder: PathBuf,
}

/// A candidate that cannot be used. The `Display` text is for the admin, because it contains the path and the
/// candidate's own output.
#[derive(Debug, Clone)]
pub(crate) struct Unusable {
    pub(crate) candidate: PathBuf,
    pub(crate) error: ProbeError,
    /// The last characters of the candidate's standard error.
    pub(crate) stderr: String,
}

impl Unusable {
    pub(super) fn new(candidate: &Path, error: ProbeError) -> Self {
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

/// An error that makes a candidate unusable.
#[derive(Debug, Clone, Error)]
pub(crate) enum ProbeError {
    /// The path depends on the server's current folder.
    #[error("it is a relative path")]
    Relative,
    /// The candidate is in the workspace, so it must not be started outside of the sandbox.
    #[error("it is in the workspace, or a symlink there leads to it")]
    InWorkspace,
    /// The candidate's virtual environment was changed, or other users can change it. The text contains the details.
    #[error("it is not used: {0}")]
    Untrusted(String),
    /// The candidate does not exist, or is not a program. The text is the system's error.
    #[error("it does not start: {0}")]
    Start(String),
    /// The candidate did not answer in time.
    #[error("it does not answer")]
    Timeout,
    /// The dynamic loader ended the candidate, because a shared library is missing.
    #[error("a shared library that it needs is missing")]
    LibraryMissing,
    /// The candidate ended with an error.
    #[error("it is not Python, or is damaged: it ended with {0}")]
    Failed(ExitStatus),
    /// The candidate is not Python.
    #[error("it is not Python")]
    NotPython,
    /// The candidate is too old.
    #[error("it is Python {0}.{1}")]
    TooOld(u32, u32),
}

/// The JSON that [`PROBE`] prints.
#[derive(Deserialize)]
struct Answer {
    executable: PathBuf,
    /// The file that really runs, if the program only executes another file (macOS).
    file: Option<PathBuf>,
    version_info: (u32, u32),
    implementation: String,
    version: String,
    /// [`BOOTSTRAP`], [`FORK_SERVER`] and [`ENTRY`], marshalled; empty if the version is too old.
    codes: Vec<String>,
    loader: Option<PathBuf>,
    own: Vec<PathBuf>,
    paths: Vec<PathBuf>,
    named_in_pth_files: Vec<PathBuf>,
    packages: Vec<PathBuf>,
    user_base: Option<String>,
}

/// Probes a candidate outside of the sandbox. So the candidate must run only code of the standard library, and no code
/// of the `untrusted` folder.
pub(super) async fn probe(
    candidate: &Path,
    untrusted: Option<&UntrustedFolder>,
) -> Result<Interpreter, Unusable> {
    let unusable = |error| Unusable::new(candidate, error);
    let program = program_of(candidate).map_err(unusable)?;
    let unusable = |error| Unusable::new(&program, error);
    if untrusted.is_some_and(|untrusted| untrusted.is_started_by(&program)) {
        return Err(unusable(ProbeError::InWorkspace));
    }
    let mut command = Command::new(&program);
    // With `-I`, Python ignores the current folder and PYTHONPATH. With `-S`, Python does not run code of installed
    // packages.
    command.args(["-I", "-S", "-W", "ignore", "-c", PROBE, BOOTSTRAP, FORK_SERVER]);
    if HAS_SEATBELT {
        command.arg(ENTRY);
    }
    let is_withheld = |name: &OsString, value: &OsString| {
        let bytes = name.as_encoded_bytes();
        WITHHELD_PREFIXES.iter().any(|prefix| bytes.starts_with(prefix.as_bytes()))
            || untrusted.is_some_and(|untrusted| name != PATH && untrusted.is_named_in(value))
    };
    // Removes only the withheld variables, because a version manager's shim may need other variables.
    for (name, _) in std::env::vars_os().filter(|(name, value)| is_withheld(name, value)) {
        command.env_remove(name);
    }
    if let Some(untrusted) = untrusted {
        // Shims search the current folder, and start other programs by PATH. So the current folder and the entries of
        // PATH must not lead into the untrusted folder.
        command.current_dir("/");
        let path = std::env::var_os(PATH).unwrap_or_default();
        command.env(PATH, untrusted.removed_from(&path));
    }
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = match timeout(PROBE_TIMEOUT, output).await {
        Err(_) => return Err(unusable(ProbeError::Timeout)),
        Ok(Err(error)) => return Err(unusable(ProbeError::Start(error.to_string()))),
        Ok(Ok(output)) => output,
    };
    let stderr = || end_of(&String::from_utf8_lossy(&output.stderr));
    let interpreter = interpreter(&output);
    let interpreter =
        interpreter.map_err(|error| Unusable { stderr: stderr(), ..unusable(error) })?;
    let is_untrusted = |path: &PathBuf| untrusted.is_some_and(|untrusted| untrusted.holds(path));
    if interpreter.own.iter().any(is_untrusted) {
        return Err(unusable(ProbeError::InWorkspace));
    }
    Ok(interpreter)
}

/// Returns the path of a candidate. Searches for a name without a slash in the absolute entries of `PATH`.
fn program_of(candidate: &Path) -> Result<PathBuf, ProbeError> {
    if candidate.is_absolute() {
        return Ok(candidate.to_owned());
    }
    if candidate.as_os_str().as_encoded_bytes().contains(&b'/') {
        return Err(ProbeError::Relative);
    }
    let path = std::env::var_os(PATH).unwrap_or_default();
    let entries = std::env::split_paths(&path).filter(|entry| entry.is_absolute());
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 > 0)
    };
    let found = entries.map(|entry| entry.join(candidate)).find(is_program);
    found.ok_or_else(|| ProbeError::Start("it is not on PATH".to_owned()))
}

/// Parses the output of the probe.
fn interpreter(output: &Output) -> Result<Interpreter, ProbeError> {
    let Ok(answer) = serde_json::from_slice::<Answer>(&output.stdout) else {
        // The loader of glibc writes "error while loading shared libraries". The loader of musl writes "Error loading
        // shared library".
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
    let code_of = |digits: &String| hex::decode(digits).map_err(|_| ProbeError::NotPython);
    let codes = answer.codes.iter().map(code_of).collect::<Result<Vec<_>, _>>()?;
    let mut codes = codes.into_iter();
    let (Some(bootstrap), Some(fork_server)) = (codes.next(), codes.next()) else {
        return Err(ProbeError::NotPython);
    };
    let entry = codes.next().unwrap_or_default();
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
    let packages = [&answer.packages[..], &answer.named_in_pth_files].concat();
    let paths = [answer.paths, answer.named_in_pth_files, python_path].concat();
    let reach = Reach { program: answer.executable, loader: answer.loader, paths };
    let (version, own) = (answer.version, answer.own);
    let real = reach.program.canonicalize().ok();
    let program_file = answer.file.filter(|file| file.canonicalize().ok() != real);
    Ok(Interpreter {
        bootstrap,
        fork_server,
        entry,
        program_file,
        implementation: answer.implementation,
        version,
        reach,
        own,
        packages,
        environment,
        exposures,
    })
}

/// Returns the absolute folders of a `PYTHONPATH`. Leaves out relative and empty entries, because they lead into the
/// script's scratch folder, which is new and empty.
fn absolute_entries(python_path: &str) -> Vec<PathBuf> {
    let entries = std::env::split_paths(python_path).filter(|entry| entry.is_absolute());
    // Returns each entry with and without `..`, because the two paths differ if the component before `..` is a symlink.
    // Python removes both components (`os.path.abspath`), but the kernel follows the symlink.
    entries.flat_map(|entry| [without_parents(&entry), entry]).collect()
}

/// Removes each `..` and the component before it from an absolute path, as `os.path.abspath` does.
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

/// Returns the folders in `named` that are the home folder of the server's user, or contain it. Logs each of them.
fn home_exposures<'a>(
    named: impl Iterator<Item = (&'static str, &'a PathBuf)>,
) -> Vec<HomeExposure> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let Some(home) = home.and_then(|home| home.canonicalize().ok()) else { return Vec::new() };
    let mut exposures = Vec::new();
    for (origin, folder) in named {
        // The root folder is skipped, because it is never opened to scripts.
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

/// Returns the last characters of a text, on one line.
fn end_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let line = lines.join(" | ");
    let left_out = line.chars().count().saturating_sub(STDERR_CHARS_MAX);
    line.chars().skip(left_out).collect()
}

/// Returns the environment variables in `names` that the server has, with their values.
fn forwarded(names: &[&str]) -> Vec<(String, String)> {
    let variables =
        names.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    variables.collect()
}
