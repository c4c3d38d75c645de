//! The probe of an interpreter, outside of the sandbox and before any script.

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

/// The oldest Python that the verification libraries still support.
const VERSION_MIN: (u32, u32) = (3, 8);

/// Prints what an interpreter is and what its scripts read, and compiles [`BOOTSTRAP`] for it.
/// `sys.executable` names the real program behind a version manager's shim, and the virtual
/// environment's own link inside one.
const PROBE: &str = include_str!("python/probe.py");

/// The variables that the probe has not: those of the server (tokens are among them), of Python
/// (code beside `PYTHONPATH` runs inside only, also that of a shim which is Python itself) and of
/// the dynamic loader (scripts have to do without them).
/// And of those with which a shim in a language of its own would run something first.
const WITHHELD_PREFIXES: [&str; 10] =
    ["QWED_", "PYTHON", "LD_", "DYLD_", "BASH_ENV", "BASH_FUNC_", "ENV", "PERL5", "NODE_", "RUBY"];

/// The most characters of an interpreter's standard error that are kept: its end.
const STDERR_CHARS_MAX: usize = 1000;

/// The bootstrap, which runs before a script. Compiled once: that takes longer than all it does.
const BOOTSTRAP: &str = concat!(
    include_str!("python/pictures.py"),
    "\n\n",
    include_str!("python/numbers.py"),
    "\n\n",
    include_str!("python/bootstrap.py"),
    // Behind it come one byte, which says whether pictures are wanted, one which says whether a seed
    // follows, two lengths, and as much of the script and of what that reads.
    "\npictures = 20 if main['script'].read(1) == b'+' else None",
    "\nseed = main['script'].read(32) if main['script'].read(1) == b'+' else None",
    "\nlengths = [int.from_bytes(main['script'].read(8), 'little') for _ in range(2)]",
    "\nsource, stdin = map(main['script'].read, lengths)",
    "\nmain.pop('script').close()",
    "\ncode_of = bootstrap(pictures=pictures, seed=seed)",
    "\nif stdin: give_stdin(stdin)",
    "\nexec(code_of(source), globals().pop('main'))\n"
);

/// The code by which Python enters the sandbox of macOS, before the bootstrap.
const ENTRY: &str = include_str!("python/seatbelt.py");

/// The fork server, whose children do the same before a script.
const FORK_SERVER: &str = concat!(
    include_str!("python/pictures.py"),
    "\n\n",
    include_str!("python/bootstrap.py"),
    "\n\n",
    include_str!("python/preload.py"),
    "\n\n",
    include_str!("python/heap.py"),
    "\n\n",
    include_str!("python/fork_server.py")
);

/// The variables of the server's environment that a script gets to see.
const FORWARDED_VARIABLES: [&str; 2] = [PATH, PYTHON_PATH];

const PATH: &str = "PATH";
const PYTHON_PATH: &str = "PYTHONPATH";

/// The variables that set the number of threads of the libraries below `NumPy`. One thread: a
/// result does not depend on the number of cores, and a large machine does not use up the threads
/// that a run may have.
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
    pub(super) fork_server: Vec<u8>,
    /// That by which it enters the sandbox of macOS; empty elsewhere.
    pub(super) entry: Vec<u8>,
    /// The file that runs, where the program that is called only executes that (macOS).
    pub(super) program_file: Option<PathBuf>,
    /// As `sys.implementation.name` has it.
    pub(super) implementation: String,
    /// As `platform.python_version()` has it.
    pub(super) version: String,
    /// The program, and what it reads.
    pub(super) reach: Reach,
    /// Files that have run outside of the sandbox: the program, its libraries, its standard
    /// library.
    pub(super) own: Vec<PathBuf>,
    /// The folders of installed packages, with those that lines of `.pth` files name.
    pub(super) packages: Vec<PathBuf>,
    /// The whole environment of a script, but for what points into its scratch folder.
    pub(super) environment: Vec<(String, String)>,
    /// The reasons why scripts can read the home folder of the server's user, if they can.
    pub(super) exposures: Vec<HomeExposure>,
}

/// A folder that scripts can read, and that is the home folder or above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HomeExposure {
    /// The origin of the folder's name: `PYTHONPATH`, or a `.pth` file.
    pub(crate) origin: &'static str,
    pub(crate) folder: PathBuf,
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
    /// Depends on the server's current folder.
    #[error("it is a relative path")]
    Relative,
    /// Is not to be started outside of the sandbox.
    #[error("it is in the workspace, or is led to by something there")]
    InWorkspace,
    /// Is in an environment that was changed, or that others can change, in this way.
    #[error("it is not used: {0}")]
    Untrusted(String),
    /// Is not there, or is no program. The error of the system.
    #[error("it does not start: {0}")]
    Start(String),
    /// Did not answer in time.
    #[error("it does not answer")]
    Timeout,
    /// The dynamic loader ended it.
    #[error("a shared library that it needs is missing")]
    LibraryMissing,
    /// Ended with an error.
    #[error("it is not Python, or is damaged: it ended with {0}")]
    Failed(ExitStatus),
    /// Is something else.
    #[error("it is not Python")]
    NotPython,
    /// Is too old.
    #[error("it is Python {0}.{1}")]
    TooOld(u32, u32),
}

/// The output of [`PROBE`].
#[derive(Deserialize)]
struct Answer {
    executable: PathBuf,
    /// The file that runs, on macOS.
    file: Option<PathBuf>,
    version_info: (u32, u32),
    implementation: String,
    version: String,
    /// [`BOOTSTRAP`], [`FORK_SERVER`] and [`ENTRY`], marshalled; none where the version is too old.
    codes: Vec<String>,
    loader: Option<PathBuf>,
    own: Vec<PathBuf>,
    paths: Vec<PathBuf>,
    named_in_pth_files: Vec<PathBuf>,
    packages: Vec<PathBuf>,
    user_base: Option<String>,
}

/// Asks a candidate what it is. It runs outside of the sandbox, so nothing runs in it but the
/// standard library, and nothing of the `untrusted` folder.
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
    // -I: nothing in the current folder or in PYTHONPATH changes the answer.
    // -S: nor does an installed package.
    command.args(["-I", "-S", "-W", "ignore", "-c", PROBE, BOOTSTRAP, FORK_SERVER]);
    if HAS_SEATBELT {
        command.arg(ENTRY);
    }
    let is_withheld = |name: &OsString, value: &OsString| {
        let bytes = name.as_encoded_bytes();
        WITHHELD_PREFIXES.iter().any(|prefix| bytes.starts_with(prefix.as_bytes()))
            || untrusted.is_some_and(|untrusted| name != PATH && untrusted.is_named_in(value))
    };
    // A version manager's shim may need any other variable.
    for (name, _) in std::env::vars_os().filter(|(name, value)| is_withheld(name, value)) {
        command.env_remove(name);
    }
    if let Some(untrusted) = untrusted {
        // Shims look around in the current folder, and start other programs.
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

/// Returns the path of a candidate. A name without a slash is looked for on `PATH`, in its absolute
/// entries.
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

/// Parses the answer of an interpreter.
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

/// Returns the folders of a `PYTHONPATH` that are the same for every script. A relative one, and an
/// empty one, is below the script's own folder, which is new and empty.
fn absolute_entries(python_path: &str) -> Vec<PathBuf> {
    let entries = std::env::split_paths(python_path).filter(|entry| entry.is_absolute());
    // Python takes the name before `..` away (os.path.abspath), whatever link that may be; the
    // kernel does not, and sees the entry before that is done.
    entries.flat_map(|entry| [without_parents(&entry), entry]).collect()
}

/// Returns an absolute path as `os.path.abspath` has it.
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

/// Returns those of the folders that are the home folder of the server's user, or above it.
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

/// Returns the end of a text, on one line.
fn end_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let line = lines.join(" | ");
    let left_out = line.chars().count().saturating_sub(STDERR_CHARS_MAX);
    line.chars().skip(left_out).collect()
}

/// Returns those of the variables that the server has.
fn forwarded(names: &[&str]) -> Vec<(String, String)> {
    let variables =
        names.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    variables.collect()
}
