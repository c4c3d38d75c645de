//! The search for Python. Done once: on many machines `python3` is a shell script of a version
//! manager that takes longer than Python itself.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use thiserror::Error;
use tokio::sync::OnceCell;

use crate::config::Settings;
use crate::sandbox::Reach;

use super::probe::probe;
use super::untrusted::Untrusted;

/// An interpreter that answered.
#[derive(Debug, Clone)]
pub(super) struct Interpreter {
    /// The bootstrap's code, as this interpreter marshals it.
    pub(super) bootstrap: Vec<u8>,
    /// The fork server's.
    pub(super) fork_server: Vec<u8>,
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

/// An error that leaves the server without an interpreter. Names no path: clients see it. The log
/// has the details.
#[derive(Debug, Clone, Error)]
pub(crate) enum FindError {
    /// Only what the admin named was tried.
    #[error(
        "the interpreter that QWED_MCP_PYTHON names could not be used: {}. \
         Set QWED_MCP_PYTHON to the absolute path of a Python 3.8 or later, or to a name that is on \
         PATH; ~ and variables are not expanded", .0.error
    )]
    Configured(Unusable),
    /// Its own code would run when it is asked what it is.
    #[error(
        "the interpreter is in the workspace, whose code must not run outside of the sandbox; \
         ask the admin to make its virtual environment elsewhere (QWED_MCP_PYTHON)"
    )]
    InWorkspace(Unusable),
    /// Whose code must not run is not known.
    #[error(
        "no interpreter is started, as it is not known where the workspace is, whose code must not \
         run outside of the sandbox: {0}"
    )]
    WorkspaceUnknown(String),
    /// Everything was tried.
    #[error(
        "no Python 3.8 or later was found in VIRTUAL_ENV or on PATH. \
         Set QWED_MCP_PYTHON to the absolute path of one"
    )]
    NotFound(Vec<Unusable>),
}

impl FindError {
    /// Returns the candidates that were tried, for the admin.
    pub(crate) fn tried(&self) -> &[Unusable] {
        match self {
            Self::Configured(unusable) | Self::InWorkspace(unusable) => {
                std::slice::from_ref(unusable)
            }
            Self::WorkspaceUnknown(_) => &[],
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

/// Finds the interpreter at the first call, and remembers it. A failure is not remembered: what is
/// missing may be installed while the server runs.
#[derive(Debug)]
pub(super) struct InterpreterFinder {
    configured: Option<OsString>,
    virtual_env: Option<PathBuf>,
    untrusted: Untrusted,
    found: OnceCell<Interpreter>,
}

impl InterpreterFinder {
    pub(super) fn new(settings: &Settings, untrusted: Untrusted) -> Self {
        Self {
            configured: settings.python.clone(),
            virtual_env: settings.virtual_env.clone(),
            untrusted,
            found: OnceCell::new(),
        }
    }

    /// Returns the interpreter: `QWED_MCP_PYTHON` if set, else that of `VIRTUAL_ENV`, else
    /// `python3`, else `python` on `PATH`.
    pub(super) async fn interpreter(&self) -> Result<&Interpreter, FindError> {
        self.found.get_or_try_init(|| self.find()).await
    }

    async fn find(&self) -> Result<Interpreter, FindError> {
        let untrusted = self.untrusted.clone();
        // It may look at files of the admin's.
        let untrusted = tokio::task::spawn_blocking(move || untrusted.folder()).await;
        let untrusted = untrusted.unwrap_or_else(|_| Err("internal error".to_owned()));
        let untrusted = untrusted.map_err(FindError::WorkspaceUnknown)?;
        if let Some(configured) = &self.configured {
            let found = probe(Path::new(configured), untrusted.as_ref()).await;
            return found.map_err(|unusable| {
                tracing::warn!("QWED_MCP_PYTHON cannot be used: {unusable}");
                if matches!(unusable.error, ProbeError::InWorkspace) {
                    FindError::InWorkspace(unusable)
                } else {
                    FindError::Configured(unusable)
                }
            });
        }
        let of_virtual_env = self.virtual_env.as_ref().map(|root| root.join("bin").join("python"));
        let on_path = ["python3", "python"].map(PathBuf::from);
        let mut tried = Vec::new();
        for candidate in of_virtual_env.into_iter().chain(on_path) {
            match probe(&candidate, untrusted.as_ref()).await {
                Ok(interpreter) => return Ok(interpreter),
                // To take the next one would be to run tests without what they need.
                Err(unusable) if matches!(unusable.error, ProbeError::InWorkspace) => {
                    tracing::warn!("no interpreter: {unusable}");
                    return Err(FindError::InWorkspace(unusable));
                }
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
