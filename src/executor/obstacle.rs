//! Describes the reasons why runs do not have the best sandbox, in texts for clients and for the admin.

use std::fmt;

use thiserror::Error;

use crate::config::SandboxMode;
use crate::sandbox::{self, HAS_SEATBELT, LaunchError, Layer, PlanError, Tier};

use super::canary::TemporaryFolderError;

/// The error if no tier that the admin accepts is available. The `Display` text is for clients and their models. It
/// names the missing part of the sandbox, and the remedy for the admin.
#[derive(Debug)]
pub(crate) struct SandboxUnavailable {
    pub(super) mode: SandboxMode,
    /// The tiers that were tried, best first, with the reasons.
    pub(crate) tried: Vec<(Tier, Obstacle)>,
}

impl SandboxUnavailable {
    /// Returns the message for the admin. It contains paths, and names the settings that accept a weaker sandbox.
    pub(crate) fn for_admin(&self) -> String {
        let mut text = format!("{}.", self.reasons(ToString::to_string));
        let remedy = self.tried.iter().find_map(|(_, obstacle)| obstacle.remedy());
        if let Some(remedy) = remedy {
            text = format!("{text} Remedy: {remedy}.");
        }
        let is_wrong_setting = self.tried.iter().any(|(_, obstacle)| obstacle.is_wrong_setting());
        if !is_wrong_setting {
            text += " With less protection: ";
            // Does not suggest `degraded` on macOS, because no sandbox with fewer layers exists there.
            let degraded = if HAS_SEATBELT {
                ""
            } else {
                "QWED_MCP_SANDBOX=degraded (system call filter and limits only) or "
            };
            text += match self.mode {
                SandboxMode::Strict => "QWED_MCP_SANDBOX=required (accepts fewer layers), ",
                SandboxMode::Required | SandboxMode::Degraded | SandboxMode::Off => "",
            };
            text += degraded;
            text += "QWED_MCP_SANDBOX=off (nothing holds the script).";
        }
        text
    }

    /// Joins the reasons why tiers are unavailable, without duplicates. If several reasons remain, names the affected
    /// tiers after each reason.
    fn reasons(&self, describe: fn(&Obstacle) -> String) -> String {
        let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
        for (tier, obstacle) in &self.tried {
            let reason = describe(obstacle);
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, tiers)) => tiers.push(tier.as_str()),
                None => reasons.push((reason, vec![tier.as_str()])),
            }
        }
        let is_one = reasons.len() == 1;
        let reasons = reasons.into_iter().map(|(reason, tiers)| {
            if is_one { reason } else { format!("{reason} ({})", tiers.join(", ")) }
        });
        reasons.collect::<Vec<_>>().join("; ")
    }
}

impl std::error::Error for SandboxUnavailable {}

impl fmt::Display for SandboxUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The message is one sentence, because a model should pass it on to the user, and not act on it.
        write!(f, "Scripts cannot run: {}; ", self.reasons(Obstacle::for_clients))?;
        let remedy = self.tried.iter().find_map(|(_, obstacle)| obstacle.remedy_for_clients());
        if let Some(remedy) = remedy {
            write!(f, "{remedy}; ")?;
        }
        f.write_str("the admin can run `qwed-mcp doctor` for details.")
    }
}

/// The reason why a tier is unavailable. The `Display` text may contain paths, so it is only for the admin.
#[derive(Debug, Clone, Error)]
pub(crate) enum Obstacle {
    /// The tier needs a newer Landlock ABI than the kernel has.
    #[error("Landlock ABI {needed} is needed, and this kernel has {}", describe_abi(*.present))]
    Landlock { needed: u8, present: u8 },
    /// The plan of the sandbox cannot be made.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The folder for temporary files, which every run needs, is not usable.
    #[error(transparent)]
    TemporaryFolder(#[from] TemporaryFolderError),
    /// A step of the launch failed.
    #[error("{0}")]
    Launch(LaunchError),
    /// The canary escaped from the sandbox.
    #[error("a test script escaped ({})", .0.join(", "))]
    Escaped(Vec<String>),
    /// The canary did not run to its end.
    #[error("a test script did not run to its end: {0}")]
    NotTried(String),
}

impl Obstacle {
    /// Returns the missing layer, if the obstacle is a missing layer.
    pub(super) fn layer(&self) -> Option<Layer> {
        match self {
            Self::Landlock { .. } => Some(Layer::Landlock),
            Self::Launch(error) => Some(error.layer()),
            Self::Plan(_) | Self::TemporaryFolder(_) | Self::Escaped(_) | Self::NotTried(_) => None,
        }
    }

    /// Returns the admin's remedy, if one is known.
    pub(crate) fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Launch(error) => Some(sandbox::remedy(error)),
            Self::Landlock { .. } => {
                Some(sandbox::remedy(&LaunchError::RestrictFiles(String::new())))
            }
            Self::Plan(error) => Some(error.remedy()),
            Self::TemporaryFolder(_) => Some(TemporaryFolderError::REMEDY),
            Self::Escaped(_) | Self::NotTried(_) => None,
        }
    }

    /// Returns the remedy for clients. If namespaces are unavailable, returns a short remedy without the admin's steps,
    /// because the steps are long and a model cannot use them.
    fn remedy_for_clients(&self) -> Option<&'static str> {
        match self {
            Self::Launch(error) if error.is_without_namespaces() => {
                Some("the admin can allow the server to create namespaces")
            }
            Self::Launch(_)
            | Self::Landlock { .. }
            | Self::Plan(_)
            | Self::TemporaryFolder(_)
            | Self::Escaped(_)
            | Self::NotTried(_) => self.remedy(),
        }
    }

    /// Returns the reason why the tier is unavailable, as a text for clients. The text contains no path.
    pub(super) fn for_clients(&self) -> String {
        match self {
            Self::Plan(error) => error.for_clients().to_owned(),
            Self::TemporaryFolder(error) => error.for_clients(),
            Self::Landlock { .. } | Self::Launch(_) | Self::Escaped(_) | Self::NotTried(_) => {
                self.to_string()
            }
        }
    }

    /// Returns whether the obstacle is a wrong setting, which affects every tier.
    pub(super) fn is_wrong_setting(&self) -> bool {
        matches!(self, Self::Plan(_) | Self::TemporaryFolder(_))
    }

    /// Returns whether the obstacle is a missing feature that some kernels and containers are known to lack. Every
    /// other obstacle is a fault. If a fault lowers the tier, the admin must be informed.
    pub(crate) fn is_expected(&self) -> bool {
        match self {
            Self::Launch(error) => error.is_without_namespaces(),
            Self::Landlock { .. } => true,
            Self::Plan(_) | Self::TemporaryFolder(_) | Self::Escaped(_) | Self::NotTried(_) => {
                false
            }
        }
    }
}

fn describe_abi(abi: u8) -> String {
    if abi == 0 { "none".to_owned() } else { format!("ABI {abi}") }
}

/// The tier at which scripts run, for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) tier: Tier,
    /// The reason why `tier` is not the best tier that the admin accepts; `None` if it is the best.
    pub(crate) step_down: Option<StepDown>,
}

/// The reason why scripts do not run at the best tier that the admin accepts. It contains no path, because clients see
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepDown {
    pub(crate) reason: String,
    /// Whether the cause is a missing feature that some kernels and containers are known to lack.
    pub(crate) is_expected: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_on_ubuntu_is_that_of_the_documents() {
        let refused = std::io::Error::from_raw_os_error(nix::libc::EACCES);
        let error = SandboxUnavailable {
            mode: SandboxMode::Required,
            tried: vec![
                (Tier::T3, Obstacle::Launch(LaunchError::MapIdentity(refused.into()))),
                (Tier::T2, Obstacle::Landlock { needed: 6, present: 4 }),
            ],
        };
        let page = include_str!("../../docs/TROUBLESHOOTING.md").replace('\n', " ");
        assert!(
            page.contains(&format!("BLOCKED_ADMIN_POLICY: {error} (verification_id=…)")),
            "{error}"
        );
    }
}
