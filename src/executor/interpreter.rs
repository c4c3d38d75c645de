//! The search for Python. Done once: on many machines `python3` is a shell script of a version
//! manager that takes longer than Python itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tokio::sync::OnceCell;

use crate::config::Settings;

use super::probe::{Interpreter, ProbeError, Unusable, probe};
use super::untrusted::Untrusted;

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
