//! Checks a policy file for the admin, so that mistakes are found before a call fails.

use std::path::Path;

use super::file::{explained, require_outside, text};
use super::{GovernedTool, Policy, PolicyError};
use crate::executor::UntrustedFolder;
use crate::plain_text::without_error_numbers;
use crate::sandbox::may_be_readable;
use crate::strict_modes::require_protected;

/// The result of checking a policy file.
#[derive(Debug)]
pub(crate) struct PolicyCheck {
    /// The policy; `None` if it has mistakes.
    pub(crate) policy: Option<Policy>,
    /// All mistakes, in the order of their lines.
    pub(crate) mistakes: Vec<PolicyError>,
    /// Warnings about valid settings that the admin may not have intended.
    pub(crate) warnings: Vec<String>,
}

/// The reason why a policy file cannot be read. The text is for the admin, because it contains the path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnreadablePolicy(String);

impl PolicyCheck {
    /// Checks the policy file at `path`: its content, its location, and the paths in its values.
    pub(crate) fn of(path: &Path) -> Result<Self, UnreadablePolicy> {
        let text = match text(path) {
            Ok(text) => Ok(text),
            Err(error @ (PolicyError::TooLarge | PolicyError::NotUtf8)) => Err(error),
            Err(error) => return Err(UnreadablePolicy(explained(path, &error))),
        };
        let checked = text.map_err(|error| vec![error]).and_then(|text| Policy::check(&text));
        let mut warnings = Vec::new();
        if path.is_relative() {
            warnings.push(
                "the path is relative: QWED_MCP_POLICY must be an absolute path, or a server that \
                 is started in another folder does not find the file"
                    .to_owned(),
            );
        }
        let place = require_protected(path).err().map(PolicyError::Unprotected);
        let is_inside = |policy: &Policy| require_outside(path, policy).err();
        let inside = checked.as_ref().ok().and_then(is_inside);
        let misplaced: Vec<PolicyError> = place.into_iter().chain(inside).collect();
        match checked {
            Ok(policy) if misplaced.is_empty() => {
                warnings.extend(warnings_of(&policy));
                Ok(Self { policy: Some(policy), mistakes: Vec::new(), warnings })
            }
            Ok(_) => Ok(Self { policy: None, mistakes: misplaced, warnings }),
            Err(mistakes) => {
                let mistakes = mistakes.into_iter().chain(misplaced).collect();
                Ok(Self { policy: None, mistakes, warnings })
            }
        }
    }

    /// Returns whether a call of `run_pytest` under this policy would reach the sandbox.
    pub(crate) fn would_reach_sandbox(&self) -> bool {
        self.policy.as_ref().is_some_and(|policy| {
            policy.allowlist.contains(&GovernedTool::RunPytest)
                && policy.sandbox.enabled
                && policy.budget.attempts_max > 0
                && policy.workspace_root.as_deref().is_some_and(Path::is_dir)
                && policy.sandbox.allowed_paths.iter().all(|path| is_open(path))
        })
    }
}

fn is_open(path: &Path) -> bool {
    path.exists() && may_be_readable(path)
}

fn warnings_of(policy: &Policy) -> Vec<String> {
    let mut warnings = Vec::new();
    if policy.allowlist.is_empty() {
        warnings.push("tools.allowlist is empty: run_pytest is refused".to_owned());
    } else if !policy.allowlist.contains(&GovernedTool::RunPytest) {
        warnings.push("tools.allowlist does not have run_pytest: it is refused".to_owned());
    }
    if !policy.sandbox.enabled {
        warnings.push("sandbox.enabled is false: run_pytest is refused".to_owned());
    }
    if policy.budget.attempts_max == 0 {
        warnings.push("budget.attempts_max is 0: run_pytest is refused".to_owned());
    }
    match &policy.workspace_root {
        None => warnings.push("workspace.root is not set: run_pytest is refused".to_owned()),
        Some(root) => match root.metadata() {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => warnings.push(format!("workspace.root {} is not a folder", root.display())),
            Err(error) => {
                let reason = without_error_numbers(&error.to_string());
                warnings.push(format!("workspace.root {}: {reason}", root.display()));
            }
        },
    }
    if let Some(file) = policy.checkpoint.as_ref().map(|checkpoint| &checkpoint.file) {
        let workspace = policy.workspace_root.as_deref().and_then(UntrustedFolder::new);
        if workspace.is_some_and(|workspace| workspace.holds(file)) {
            let name = file.display();
            warnings.push(format!(
                "audit.checkpoint: {name} is in the workspace, whose code could change it, so no \
                 checkpoint is written"
            ));
        }
    }
    for path in &policy.sandbox.allowed_paths {
        let name = path.display();
        if !may_be_readable(path) {
            warnings.push(format!(
                "sandbox.allowed_paths: {name} is never opened to tests: run_pytest is refused"
            ));
        } else if !path.exists() {
            warnings.push(format!(
                "sandbox.allowed_paths: {name} does not exist: run_pytest is refused"
            ));
        }
    }
    warnings
}
