//! Checks the conditions for the governed tools (`run_pytest` and the tools that read its runs), and decides whether
//! tests can run.

use std::path::PathBuf;

use chrono::Utc;
use serde_json::{Value, json};

use crate::config::Settings;
use crate::data_folder::{FolderState, data_folder};
use crate::executor::{Diagnosis, OneShotExecutor};
use crate::governance::{PolicyCheck, PolicyError, judge_error, own_token};
use crate::ledger::{TokenRecord, TokenState};
use crate::sandbox::Tier;
use crate::strict_modes::require_protected;

/// The diagnosis of the governed tools.
pub(super) struct Governed {
    file: PathBuf,
    policy: Result<PolicyCheck, String>,
    /// The version of pytest in the sandbox, or the reason why pytest cannot be imported there.
    pytest: Result<String, String>,
    data: Result<(PathBuf, FolderState), String>,
    tokens: Result<Vec<TokenRecord>, String>,
    /// The reasons why tests cannot run. Empty if tests can run.
    pub(super) reasons: Vec<String>,
}

impl Governed {
    /// Checks everything that a call of `run_pytest` needs. Returns `None` if no policy is configured.
    pub(super) async fn diagnose(
        settings: &Settings,
        executor: &OneShotExecutor,
        diagnosis: &Diagnosis,
    ) -> Option<Self> {
        let file = settings.policy.clone()?;
        let policy = PolicyCheck::of(&file).map_err(|error| error.to_string());
        let folder = data_folder(settings.data_dir.as_deref()).map_err(|error| error.to_string());
        let tokens = folder.clone().and_then(|folder| {
            let store = settings.store_in(&folder).open_to_read();
            let store = store.map_err(|error| error.to_string())?;
            store.tokens().map_err(|error| error.to_string())
        });
        let unprotected = folder.as_ref().ok().filter(|folder| folder.exists());
        let unprotected = unprotected.and_then(|folder| require_protected(folder).err());
        let data = folder.and_then(|folder| {
            let state = FolderState::of(&folder);
            let state = state.map_err(|error| format!("{}: {error}", folder.display()))?;
            Ok((folder, state))
        });
        let pytest = executor.pytest().await;
        let mut governed = Self { file, policy, pytest, data, tokens, reasons: Vec::new() };
        governed.reasons = governed.reasons(settings, diagnosis);
        governed.reasons.extend(unprotected.map(|reason| reason.to_string()));
        Some(governed)
    }

    fn reasons(&self, settings: &Settings, diagnosis: &Diagnosis) -> Vec<String> {
        let mut reasons = Vec::new();
        let mut unless = |is_met: bool, reason: &str| {
            if !is_met {
                reasons.push(reason.to_owned());
            }
        };
        match &self.policy {
            Ok(check) => unless(check.would_reach_sandbox(), "the policy refuses it, see above"),
            Err(error) => unless(false, error),
        }
        let policy = self.policy.as_ref().ok().and_then(|check| check.policy.as_ref());
        if let Some(unusable) = policy.and_then(|policy| judge_error(policy, diagnosis.tier)) {
            unless(false, &unusable.to_string());
        }
        if let Some(refusal) = &diagnosis.refusal {
            unless(false, refusal.trim_end_matches('.'));
        } else {
            let is_held = diagnosis.tier.is_some_and(|tier| tier >= Tier::T2);
            unless(is_held, "tests need tier T2 of the sandbox at least");
            unless(self.pytest.is_ok(), "pytest cannot be imported in the interpreter");
        }
        match &self.tokens {
            Ok(tokens) => unless(active(tokens) > 0, "no token is active"),
            Err(error) => unless(false, error),
        }
        if let Err(error) = own_token(settings) {
            unless(false, &error.to_string());
        }
        reasons
    }

    /// Returns the rows of the text output: their labels and their texts.
    pub(super) fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        let file = self.file.display();
        match &self.policy {
            Err(error) => rows.push(("policy", format!("UNREADABLE: {error}"))),
            Ok(check) => {
                let state = match check.mistakes.as_slice() {
                    [] => format!("{file}: can be used"),
                    [first, ..] => format!("{file}: CANNOT BE USED: {}", first.for_admin()),
                };
                rows.push(("policy", state));
                rows.extend(check.mistakes.iter().skip(1).map(|error| ("", error.for_admin())));
                rows.extend(check.warnings.iter().map(|warning| ("", format!("! {warning}"))));
                let root = check.policy.as_ref().and_then(|policy| policy.workspace_root.as_ref());
                rows.extend(root.map(|root| ("workspace", root.display().to_string())));
            }
        }
        rows.push(match &self.pytest {
            Ok(version) => ("pytest", format!("{version}, imported inside of the sandbox")),
            Err(error) => ("pytest", format!("MISSING inside of the sandbox: {error}")),
        });
        rows.push(match &self.tokens {
            Ok(tokens) => ("tokens", format!("{} active of {}", active(tokens), tokens.len())),
            Err(error) => ("tokens", format!("NONE: {error}")),
        });
        rows.push(match &self.data {
            Ok((folder, FolderState { mode, owner, is_private })) => {
                let folder = folder.display();
                let warning = if *is_private { "" } else { ": OTHER USERS MAY HAVE ACCESS" };
                ("data folder", format!("{folder}, mode {mode:04o}, owner {owner}{warning}"))
            }
            Err(error) => ("data folder", format!("NONE: {error}")),
        });
        rows
    }

    /// Returns the last line of the text output, which reports whether tests can run.
    pub(super) fn verdict(&self) -> String {
        if self.reasons.is_empty() {
            "Tests can run (run_pytest), whether or not the admin gate is open.".to_owned()
        } else {
            format!("Tests cannot run (run_pytest): {}.", self.reasons.join("; "))
        }
    }

    /// Returns the diagnosis for the JSON output.
    pub(super) fn object(&self) -> Value {
        let mistake =
            |error: &PolicyError| json!({ "line": error.line(), "message": error.for_admin() });
        json!({
            "can_run": self.reasons.is_empty(),
            "reasons": self.reasons,
            "policy": match &self.policy {
                Ok(check) => json!({
                    "file": self.file.display().to_string(),
                    "usable": check.policy.is_some(),
                    "mistakes": check.mistakes.iter().map(mistake).collect::<Vec<_>>(),
                    "warnings": check.warnings,
                    "workspace_root":
                        check.policy.as_ref().and_then(|policy| policy.workspace_root.as_ref()),
                }),
                Err(error) => {
                    let file = self.file.display().to_string();
                    json!({ "file": file, "usable": false, "error": error })
                }
            },
            "pytest": match &self.pytest {
                Ok(version) => json!({ "version": version }),
                Err(error) => json!({ "error": error }),
            },
            "tokens": match &self.tokens {
                Ok(tokens) => json!({ "active": active(tokens), "all": tokens.len() }),
                Err(error) => json!({ "error": error }),
            },
            "data_folder": match &self.data {
                Ok((folder, state)) => json!({
                    "path": folder.display().to_string(),
                    "mode": format!("{:04o}", state.mode),
                    "owner": state.owner,
                    "private": state.is_private,
                }),
                Err(error) => json!({ "error": error }),
            },
        })
    }
}

fn active(tokens: &[TokenRecord]) -> usize {
    let now = Utc::now();
    tokens.iter().filter(|token| token.state(now) == TokenState::Active).count()
}
