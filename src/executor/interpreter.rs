//! Finds Python once, and remembers it. A search for each run would be slow: on many machines `python3` is a shell
//! script of a version manager, which takes longer than Python itself.
//!
//! This module never starts an interpreter of the workspace.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use thiserror::Error;
use tokio::sync::OnceCell;

use crate::config::Settings;
use crate::environments::{Environments, InUse, Unusable as UnusableEnvironment};

use super::probe::{Interpreter, ProbeError, Unusable, probe};
use super::untrusted::{Untrusted, UntrustedFolder};

/// The reason why the server has no interpreter. It contains no path, because clients see it. The log has the details.
#[derive(Debug, Clone, Error)]
pub(crate) enum FindError {
    /// The interpreter that the admin configured cannot be used. No other interpreter was tried.
    #[error(
        "the interpreter that QWED_MCP_PYTHON names could not be used: {}. \
         Set QWED_MCP_PYTHON to the absolute path of a Python 3.8 or later, or to a name that is \
         on \
         PATH; ~ and variables are not expanded", .0.error
    )]
    Configured(Unusable),
    /// The interpreter is in the workspace. Probing it would run code of the workspace outside of the sandbox.
    #[error(
        "the interpreter is in the workspace, whose code must not run outside of the sandbox; \
         ask the admin to make its virtual environment elsewhere (QWED_MCP_PYTHON)"
    )]
    InWorkspace(Unusable),
    /// Another user can change the environment that contains the interpreter. So the environment may contain code of
    /// that user.
    #[error(
        "the environment of `qwed-mcp env create` can be changed by other users, so it is not \
         used; ask the admin to look at the server's log"
    )]
    EnvironmentUnprotected(Unusable),
    /// The environment that contains the interpreter was changed after it was made. Probing the interpreter could run
    /// code that is not part of Python.
    #[error(
        "the environment of `qwed-mcp env create` was changed after it was made, so it is not \
         used; ask the admin to look at the server's log"
    )]
    EnvironmentChanged(Unusable),
    /// The location of the workspace is unknown, so any interpreter could be in it. Code of the workspace must not run.
    #[error(
        "no interpreter is started, because the workspace is unknown and its code must not run \
         outside of the sandbox: {0}"
    )]
    WorkspaceUnknown(String),
    /// All candidates were tried, and none can be used.
    #[error(
        "no Python 3.8 or later was found in VIRTUAL_ENV or on PATH. \
         Set QWED_MCP_PYTHON to the absolute path of one, or run `qwed-mcp env create`"
    )]
    NotFound(Vec<Unusable>),
}

impl FindError {
    /// Returns the candidates that were tried, for the admin.
    pub(crate) fn tried(&self) -> &[Unusable] {
        match self {
            Self::Configured(unusable)
            | Self::InWorkspace(unusable)
            | Self::EnvironmentUnprotected(unusable)
            | Self::EnvironmentChanged(unusable) => std::slice::from_ref(unusable),
            Self::WorkspaceUnknown(_) => &[],
            Self::NotFound(unusable) => unusable,
        }
    }
}

/// The source of the chosen interpreter. The variants are in the order in which the sources are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// The variable `QWED_MCP_PYTHON`.
    Configured,
    /// The newest environment of `qwed-mcp env create`, with its name.
    Made(String),
    /// The virtual environment that contains this program.
    BesideProgram,
    /// The variable `VIRTUAL_ENV`.
    VirtualEnv,
    /// The search path `PATH`.
    Path,
}

/// The interpreter for scripts, and how it was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) interpreter: Interpreter,
    pub(super) source: Source,
    /// The candidates that take precedence over this interpreter but cannot be used.
    pub(super) passed_over: Vec<Unusable>,
    /// While this value exists, the environment that contains the interpreter is not removed.
    _in_use: Option<InUse>,
}

/// Finds the interpreter at the first call, and remembers it. A failure is not remembered, because an interpreter may
/// be installed while the server runs.
#[derive(Debug)]
pub(super) struct InterpreterFinder {
    configured: Option<OsString>,
    /// The environments of `qwed-mcp env create`, and the environments for scripts that require packages of their own.
    /// `None` if the server has no data folder.
    environments: Option<Environments>,
    virtual_env: Option<PathBuf>,
    untrusted: Untrusted,
    found: OnceCell<Found>,
    /// The candidates of the last failed search, as they were logged. The same candidates are not logged again.
    logged: Mutex<String>,
}

impl InterpreterFinder {
    pub(super) fn new(settings: &Settings, untrusted: Untrusted) -> Self {
        Self {
            configured: settings.python.clone(),
            environments: Environments::of(settings).ok(),
            virtual_env: settings.virtual_env.clone(),
            untrusted,
            found: OnceCell::new(),
            logged: Mutex::default(),
        }
    }

    /// Returns the interpreter. If `QWED_MCP_PYTHON` is set, it is the only candidate. Otherwise the order is: the
    /// newest environment of `qwed-mcp env create`, the virtual environment that contains this program, `VIRTUAL_ENV`,
    /// `python3` on `PATH`, and `python` on `PATH`.
    pub(super) async fn found(&self) -> Result<&Found, FindError> {
        let found = self.found.get_or_try_init(|| self.find()).await;
        if let Err(error) = &found {
            self.log_once(error);
        }
        found
    }

    /// Logs the candidates that were tried, unless the last failed search logged the same candidates.
    fn log_once(&self, error: &FindError) {
        let tried = error.tried().iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let key = tried.join("\n");
        if *logged != key {
            for unusable in &tried {
                if self.configured.is_some() {
                    tracing::warn!("QWED_MCP_PYTHON cannot be used: {unusable}");
                } else {
                    tracing::warn!("no interpreter: {unusable}");
                }
            }
            *logged = key;
        }
    }

    async fn find(&self) -> Result<Found, FindError> {
        let untrusted = self.untrusted.clone();
        // The lookup may read the policy file, which can block. So the lookup runs in a thread for blocking work.
        let untrusted = tokio::task::spawn_blocking(move || untrusted.folder()).await;
        let untrusted = untrusted.unwrap_or_else(|_| Err("internal error".to_owned()));
        let untrusted = untrusted.map_err(FindError::WorkspaceUnknown)?;
        if let Some(configured) = &self.configured {
            return self.find_configured(Path::new(configured), untrusted.as_ref()).await;
        }
        let environments = self.environments.clone();
        let made =
            tokio::task::spawn_blocking(move || newest_environment(environments.as_ref())).await;
        let mut made = made.unwrap_or(Ok(None))?;
        let candidate = |in_use: &InUse| {
            (in_use.environment.python(), Source::Made(in_use.environment.name.clone()))
        };
        let of_virtual_env = self.virtual_env.as_ref().map(|root| root.join("bin").join("python"));
        let candidates = [
            made.as_ref().map(candidate),
            beside_program().map(|python| (python, Source::BesideProgram)),
            of_virtual_env.map(|python| (python, Source::VirtualEnv)),
        ];
        let on_path = ["python3", "python"].map(|name| (PathBuf::from(name), Source::Path));
        let mut passed_over = Vec::new();
        for (candidate, source) in candidates.into_iter().flatten().chain(on_path) {
            let held = match source {
                Source::Made(_) => None,
                Source::Configured | Source::BesideProgram | Source::VirtualEnv | Source::Path => {
                    self.environment_of(&candidate)?
                }
            };
            match probe(&candidate, untrusted.as_ref()).await {
                Ok(interpreter) => {
                    let made = made.take_if(|_| matches!(source, Source::Made(_)));
                    return Ok(Found { interpreter, source, passed_over, _in_use: made.or(held) });
                }
                // Does not try the next candidate, because it would lack the packages that the workspace's tests need.
                Err(unusable) if matches!(unusable.error, ProbeError::InWorkspace) => {
                    return Err(FindError::InWorkspace(unusable));
                }
                Err(unusable) => {
                    tracing::info!("not usable: {unusable}");
                    passed_over.push(unusable);
                }
            }
        }
        Err(FindError::NotFound(passed_over))
    }

    /// Returns the environment of `env create` that contains the candidate. While the returned value exists, the
    /// environment is not removed.
    fn environment_of(&self, candidate: &Path) -> Result<Option<InUse>, FindError> {
        let Some(environments) = &self.environments else { return Ok(None) };
        let held = match environments.holding(candidate) {
            Ok(None) => environments.of_scripts().holding(candidate),
            held => held,
        };
        held.map_err(|unusable| not_used(&unusable))
    }

    async fn find_configured(
        &self,
        configured: &Path,
        untrusted: Option<&UntrustedFolder>,
    ) -> Result<Found, FindError> {
        let in_use = self.environment_of(configured)?;
        match probe(configured, untrusted).await {
            Ok(interpreter) => Ok(Found {
                interpreter,
                source: Source::Configured,
                passed_over: Vec::new(),
                _in_use: in_use,
            }),
            Err(unusable) => Err(if matches!(unusable.error, ProbeError::InWorkspace) {
                FindError::InWorkspace(unusable)
            } else {
                FindError::Configured(unusable)
            }),
        }
    }
}

/// Returns the folders of an interpreter's packages; `None` if scripts cannot use the interpreter. Does not log the
/// failure.
pub(crate) async fn package_folders(python: &Path) -> Option<Vec<PathBuf>> {
    probe(python, None).await.ok().map(|interpreter| interpreter.packages)
}

/// Returns the newest environment of `env create`. While the returned value exists, the environment is not removed.
fn newest_environment(environments: Option<&Environments>) -> Result<Option<InUse>, FindError> {
    environments.map_or(Ok(None), Environments::newest).map_err(|unusable| not_used(&unusable))
}

/// Returns the error for an environment that must not be used. The log has the details.
fn not_used(environment: &UnusableEnvironment) -> FindError {
    let (UnusableEnvironment::Unprotected { path, .. } | UnusableEnvironment::Changed { path, .. }) =
        environment;
    let unusable = Unusable::new(path, ProbeError::Untrusted(environment.to_string()));
    match environment {
        UnusableEnvironment::Unprotected { .. } => FindError::EnvironmentUnprotected(unusable),
        UnusableEnvironment::Changed { .. } => FindError::EnvironmentChanged(unusable),
    }
}

/// Returns the interpreter of the virtual environment in which this program is installed. Resolves symlinks to the
/// program first. `None` if the program is not in a virtual environment. For example, the Python in `/usr/bin` is not
/// used if the program is in `/usr/bin`.
fn beside_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.canonicalize().ok()?;
    let folder = program.parent()?;
    let is_environment = folder.parent()?.join("pyvenv.cfg").is_file();
    is_environment.then(|| folder.join("python"))
}
