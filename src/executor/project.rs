//! Makes the sandbox for a project's own code, such as its tests. This code has more rights than a script. Refuses a
//! project if its readable paths overlap the server's data folder, or if the interpreter is in the project's workspace.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use thiserror::Error;

use crate::environments;
use crate::sandbox::{Plan, PlanError, Tier};

use super::ProjectRun;
use super::containment::Contained;
use super::untrusted::UntrustedFolder;

impl Contained {
    /// Returns the containment of a project, with the project's own memory limit, readable folders and writable folder.
    pub(super) fn for_project(&self, project: &ProjectRun) -> Result<Self, NotForProject> {
        let Self { interpreter, plan, .. } = self;
        if plan.tier < Tier::T2 {
            return Err(NotForProject::Tier(plan.tier));
        }
        // Checks that the interpreter is outside of the workspace, which may have changed since the interpreter was
        // found.
        let workspace = UntrustedFolder::new(&project.workspace).ok_or(NotForProject::Readable)?;
        let mut outside_of = self.outside_of.lock().unwrap_or_else(PoisonError::into_inner);
        if outside_of.as_ref() != Some(&workspace) {
            let mut own = interpreter.own.iter().chain([&plan.program, &plan.program_file]);
            if own.any(|path| workspace.holds(path)) {
                return Err(NotForProject::OwnInterpreter);
            }
            *outside_of = Some(workspace);
        }
        drop(outside_of);
        let readable = project.readable.iter().chain([&project.workspace]).cloned();
        let (reach, readable) = (&interpreter.reach, &readable.collect::<Vec<_>>());
        let plan = Plan::new(plan.tier, plan.landlock_abi, reach, readable, project.memory_mb)
            .map_err(|error| NotForProject::of(&error, &project.workspace))?;
        // Virtual environments are in the data folder, but scripts and tests must be able to read them. No other path
        // in the data folder may be readable.
        let environments = project.closed.join(environments::FOLDER);
        let is_open = |path: &PathBuf| {
            let is_within = path.starts_with(&project.closed) && !path.starts_with(&environments);
            is_within || project.closed.starts_with(path)
        };
        if plan.readable.iter().any(is_open) {
            return Err(NotForProject::Writable);
        }
        let plan = plan.for_project(project.artifacts.clone()).ok_or(NotForProject::Writable)?;
        let mut interpreter = interpreter.clone();
        let is_replaced = |name: &str| project.environment.iter().any(|(new, _)| new == name);
        interpreter.environment.retain(|(name, _)| !is_replaced(name));
        interpreter.environment.extend(project.environment.iter().cloned());
        Ok(Self {
            interpreter,
            plan,
            passed_over: Vec::new(),
            outside_of: Arc::default(),
            determinism: None,
            has_warned: Arc::default(),
            apple_parts: self.apple_parts.clone(),
        })
    }
}

/// The reason why a project cannot be confined. The text contains no path, because clients see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum NotForProject {
    /// The tier does not confine the project to its own files.
    #[error("tier {0} of the kernel sandbox does not confine a project to its files; T2 is needed")]
    Tier(Tier),
    /// The interpreter is in the workspace. Probing it would run code of the workspace outside of the sandbox.
    #[error(
        "the interpreter is in the workspace, whose code must not run outside of the sandbox; \
         ask the admin to make its virtual environment elsewhere (QWED_MCP_PYTHON)"
    )]
    OwnInterpreter,
    /// A path in the policy does not exist.
    #[error("a path that the policy lets tests read does not exist; ask the admin")]
    Missing,
    /// A path in the policy is the root folder, or an interface to the kernel.
    #[error("the policy lets tests read a path that no test may read; ask the admin")]
    Forbidden,
    /// The plan of the project cannot be made, for a reason that only the log contains.
    #[error(
        "the sandbox cannot give tests access to the paths of the policy; ask the admin to look at \
         the server's log"
    )]
    Readable,
    /// A readable path overlaps the data folder, which contains the writable folder.
    #[error("the data folder must be outside of every folder that tests may read")]
    Writable,
}

impl NotForProject {
    /// Converts an error of the project's plan. Logs the path that caused the error, and the key of the policy that
    /// contains this path. `workspace` is the project's workspace.
    fn of(error: &PlanError, workspace: &Path) -> Self {
        let key = |path| {
            if path == workspace { "workspace.root" } else { "sandbox.allowed_paths" }
        };
        match error {
            PlanError::ReadPathMissing(path) => {
                let name = path.display();
                tracing::error!("{} of the policy names {name}, which does not exist", key(path));
                Self::Missing
            }
            PlanError::ReadPathRefused(path) => {
                let name = path.display();
                tracing::error!("{} of the policy names {name}, which no test may read", key(path));
                Self::Forbidden
            }
            PlanError::ReadPathNotText(path) | PlanError::ReadPathRelative(path) => {
                tracing::error!("{} of the policy names {path:?}, which is not a path", key(path));
                Self::Readable
            }
            PlanError::ProgramMissing(_) | PlanError::NoScratchPlace => {
                tracing::error!(%error, "the project cannot be opened to its tests");
                Self::Readable
            }
        }
    }
}
