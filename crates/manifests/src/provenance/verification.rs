//! Defines the result of a verification, with the documented field names and values.

use std::fmt;

use serde::Serialize;

use super::finding::{Finding, SkillRisk, excerpt};

/// The result of all checks of one skill. Its JSON form has the documented fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SkillVerification {
    /// Whether the skill passed all checks.
    pub verified: bool,
    /// Whether the skill may be loaded. `Trusted` exactly if `verified` is true.
    pub status: SkillStatus,
    /// The name of the skill in the manifest, or `unknown` if the manifest contains no name.
    pub skill_name: String,
    /// The highest risk among the findings.
    pub risk_level: SkillRisk,
    /// The texts of all findings, in the order of the checks.
    pub findings: Vec<String>,
    /// A summary of the result for people.
    pub message: String,
}

impl SkillVerification {
    /// Returns the name of the skill in a form that is safe to show: on one line, and cut if it is too long.
    pub fn shown_name(&self) -> String {
        excerpt(&self.skill_name)
    }

    pub(super) fn new(skill_name: String, findings: Vec<Finding>) -> Self {
        let shown_name = excerpt(&skill_name);
        let Some(risk_level) = findings.iter().map(|finding| finding.risk).max() else {
            return Self {
                verified: true,
                status: SkillStatus::Trusted,
                skill_name,
                risk_level: SkillRisk::None,
                findings: Vec::new(),
                message: format!("Skill '{shown_name}' passed all provenance checks."),
            };
        };
        let message = format!(
            "BLOCKED: Skill '{shown_name}' failed {count} provenance check(s) (risk: \
             {risk_level}). Loading untrusted skills is a known supply chain attack vector.",
            count = findings.len(),
        );
        Self {
            verified: false,
            status: SkillStatus::Blocked,
            skill_name,
            risk_level,
            findings: findings.into_iter().map(|finding| finding.text).collect(),
            message,
        }
    }
}

/// Whether a skill may be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SkillStatus {
    /// The skill may be loaded.
    Trusted,
    /// The skill must not be loaded.
    Blocked,
}

impl SkillStatus {
    /// Returns the documented text of the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trusted => "TRUSTED",
            Self::Blocked => "BLOCKED",
        }
    }
}

impl fmt::Display for SkillStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
