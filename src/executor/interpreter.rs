//! Where Python is. Asked once: on many machines `python3` is a shell script of a version manager
//! that takes longer than Python itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

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

/// Prints where the interpreter is and which one it is, and compiles [`BOOTSTRAP`] for it.
/// `sys.executable` names the real program behind a version manager's shim, and the virtual
/// environment's own link inside one.
const PROBE: &str = "
import json, marshal, sys
codes = [marshal.dumps(compile(source, '<bootstrap>', 'exec')).hex() for source in sys.argv[1:]]
print(json.dumps([sys.executable, *sys.version_info[:2], *codes]))
";

/// Prints what a script in this interpreter reads besides its own text. Run with the environment
/// that scripts get.
const REACH_PROBE: &str = r#"
import sys
if sys.path and sys.path[0] == "":
    del sys.path[0]
import json, os, platform, site, sysconfig

# Not by itself (-S): where a package is installed in editable form, its folder is on the path, and
# this runs outside of the sandbox.
site.execsitecustomize = site.execusercustomize = lambda: None
site.main()

# Modules with libraries of their own, so that these are loaded and seen.
for name in ("_bz2", "_ctypes", "_decimal", "_hashlib", "_lzma", "_sqlite3", "_ssl", "zlib"):
    try:
        __import__(name)
    except ImportError:
        pass
with open("/proc/self/maps", errors="surrogateescape") as maps:
    loaded = {line.rstrip("\n").split(None, 5)[5] for line in maps if "/" in line}
loaded = {path for path in loaded if path.startswith("/") and os.path.exists(path)}
loaders = [path for path in loaded if os.path.basename(path).startswith(("ld-", "ld.", "ld64."))]
paths = set(sys.path) | set(sysconfig.get_paths().values())
paths -= {sysconfig.get_path("scripts"), sysconfig.get_path("data")}
for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}:
    paths |= {os.path.join(prefix, name) for name in ("lib", "lib64", "pyvenv.cfg", "share/zoneinfo")}
paths |= {os.path.dirname(path) for path in loaded if path != os.path.realpath(sys.executable)}
user_base = None
if site.ENABLE_USER_SITE and site.getusersitepackages() in sys.path:
    user_base = site.getuserbase()
print(json.dumps({
    "version": platform.python_version(),
    "loader": loaders[0] if loaders else None,
    "paths": sorted(path for path in paths if os.path.isabs(path) and path != "/"),
    "user_base": user_base,
}))
"#;

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
const FORWARDED_VARIABLES: [&str; 2] = ["PATH", "PYTHONPATH"];

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
}

/// Why there is no interpreter. No path: this is shown to clients. The log has the details.
#[derive(Debug, Clone, Error)]
pub(crate) enum FindError {
    /// Only what the admin named was tried.
    #[error(
        "the interpreter that QWED_MCP_PYTHON names could not be used: {0}. \
         Set QWED_MCP_PYTHON to the absolute path of a Python 3.8 or later; ~ and variables are not \
         expanded"
    )]
    Configured(ProbeError),
    /// Everything was tried.
    #[error(
        "no Python 3.8 or later was found in VIRTUAL_ENV or on PATH. \
         Set QWED_MCP_PYTHON to the absolute path of one"
    )]
    NotFound,
}

/// Why one candidate cannot be used.
#[derive(Debug, Clone, Error)]
pub(crate) enum ProbeError {
    /// It is not there, or is no program.
    #[error("it does not start")]
    Start,
    /// It did not answer in time.
    #[error("it does not answer")]
    Timeout,
    /// It is something else.
    #[error("it is not Python")]
    NotPython,
    /// It does not tell what it reads.
    #[error("it does not tell where its libraries are")]
    NoReach,
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
            return probe(Path::new(configured)).await.map_err(FindError::Configured);
        }
        let of_virtual_env = self.virtual_env.as_ref().map(|root| root.join("bin").join("python"));
        let on_path = ["python3", "python"].map(PathBuf::from);
        for candidate in of_virtual_env.into_iter().chain(on_path) {
            match probe(&candidate).await {
                Ok(interpreter) => return Ok(interpreter),
                Err(error) => {
                    tracing::info!(candidate = %candidate.display(), %error, "not usable");
                }
            }
        }
        Err(FindError::NotFound)
    }
}

/// What [`PROBE`] prints.
#[derive(Deserialize)]
struct Answer(PathBuf, u32, u32, String, String);

async fn probe(candidate: &Path) -> Result<Interpreter, ProbeError> {
    // -I: nothing in the current folder or in PYTHONPATH has a say in which interpreter this is.
    // -S: nor has what is installed.
    let mut command = Command::new(candidate);
    command.args(["-I", "-S", "-c", PROBE, BOOTSTRAP, FORK_SERVER]);
    // A version manager's shim may need any other variable. Tokens are among ours.
    let own = std::env::vars_os().map(|(name, _)| name);
    for name in own.filter(|name| name.as_encoded_bytes().starts_with(b"QWED_")) {
        command.env_remove(name);
    }
    let printed = printed_by(&mut command).await?;
    let Answer(executable, major, minor, bootstrap, fork_server) =
        serde_json::from_slice(&printed).map_err(|_| ProbeError::NotPython)?;
    if (major, minor) < VERSION_MIN {
        return Err(ProbeError::TooOld(major, minor));
    }
    let code_of =
        |digits: &str| HEXLOWER.decode(digits.as_bytes()).map_err(|_| ProbeError::NotPython);
    let bootstrap = code_of(&bootstrap)?;
    let fork_server = code_of(&fork_server)?;
    if !executable.is_absolute() {
        return Err(ProbeError::NotPython);
    }
    let interpreter = with_reach(executable, bootstrap, fork_server).await?;
    let executable = interpreter.reach.program.display();
    tracing::info!(%executable, version = interpreter.version, "interpreter found");
    Ok(interpreter)
}

/// What an interpreter prints that is asked something.
async fn printed_by(command: &mut Command) -> Result<Vec<u8>, ProbeError> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).output();
    let output = timeout(PROBE_TIMEOUT, output)
        .await
        .map_err(|_| ProbeError::Timeout)?
        .map_err(|_| ProbeError::Start)?;
    Ok(output.stdout)
}

/// What [`REACH_PROBE`] prints.
#[derive(Deserialize)]
struct ReachAnswer {
    version: String,
    loader: Option<PathBuf>,
    paths: Vec<PathBuf>,
    user_base: Option<String>,
}

/// Asks the interpreter what its scripts read.
async fn with_reach(
    program: PathBuf,
    bootstrap: Vec<u8>,
    fork_server: Vec<u8>,
) -> Result<Interpreter, ProbeError> {
    let mut environment = forwarded(&FORWARDED_VARIABLES);
    let mut command = Command::new(&program);
    command
        .args(["-S", "-c", REACH_PROBE])
        .env_clear()
        .envs(environment.clone())
        // Where packages of the user are; a script has another HOME.
        .envs(forwarded(&["HOME"]))
        .current_dir("/");
    let printed = printed_by(&mut command).await?;
    let answer: ReachAnswer = serde_json::from_slice(&printed).map_err(|_| ProbeError::NoReach)?;
    environment.extend(answer.user_base.map(|base| ("PYTHONUSERBASE".to_owned(), base)));
    environment.extend(THREADS.map(|name| (name.to_owned(), "1".to_owned())));
    environment.push((HASH_SEED.0.to_owned(), HASH_SEED.1.to_owned()));
    let reach = Reach { program, loader: answer.loader, paths: answer.paths };
    Ok(Interpreter { bootstrap, fork_server, version: answer.version, reach, environment })
}

/// Those of the variables that the server has.
fn forwarded(names: &[&str]) -> Vec<(String, String)> {
    let variables =
        names.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    variables.collect()
}
