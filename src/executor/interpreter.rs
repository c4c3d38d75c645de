//! Where Python is. Asked once: on many machines `python3` is a shell script of a version manager
//! that takes longer than Python itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;
use thiserror::Error;
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::config::Settings;

use super::limits::PROBE_TIMEOUT;

/// The oldest Python that the verification libraries still support.
const VERSION_MIN: (u32, u32) = (3, 8);

/// Prints where the interpreter is and which one it is, and compiles [`BOOTSTRAP`] for it.
/// `sys.executable` names the real program behind a version manager's shim, and the virtual
/// environment's own link inside one.
const PROBE: &str = "
import json, marshal, sys
bootstrap = marshal.dumps(compile(sys.argv[1], '<bootstrap>', 'exec'))
print(json.dumps([sys.executable, sys.version_info[0], sys.version_info[1], bootstrap.hex()]))
";

/// What an interpreter does before a script. Compiled once: that takes longer than all it does.
const BOOTSTRAP: &str = include_str!("bootstrap.py");

/// An interpreter that answered.
#[derive(Debug, Clone)]
pub(super) struct Interpreter {
    pub(super) executable: PathBuf,
    /// The bootstrap's code, as this interpreter marshals it.
    pub(super) bootstrap: Vec<u8>,
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
struct Answer(PathBuf, u32, u32, String);

async fn probe(candidate: &Path) -> Result<Interpreter, ProbeError> {
    // -I: nothing in the current folder or in PYTHONPATH has a say in which interpreter this is.
    let output = Command::new(candidate)
        .args(["-I", "-c", PROBE, BOOTSTRAP])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(PROBE_TIMEOUT, output)
        .await
        .map_err(|_| ProbeError::Timeout)?
        .map_err(|_| ProbeError::Start)?;
    let Answer(executable, major, minor, bootstrap) =
        serde_json::from_slice(&output.stdout).map_err(|_| ProbeError::NotPython)?;
    if (major, minor) < VERSION_MIN {
        return Err(ProbeError::TooOld(major, minor));
    }
    let bootstrap = from_hex(&bootstrap).ok_or(ProbeError::NotPython)?;
    if !executable.is_absolute() {
        return Err(ProbeError::NotPython);
    }
    tracing::info!(executable = %executable.display(), major, minor, "interpreter found");
    Ok(Interpreter { executable, bootstrap })
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let bytes = (0..digits.len()).step_by(2);
    bytes.map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect()
}
