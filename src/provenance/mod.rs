//! Whether the skill that a manifest describes may be loaded: where it comes from, under which
//! digest, and what its manifest would smuggle in.
//!
//! A manifest is a claim by the one who wants to be trusted. This module judges the claim alone: it
//! asks no registry, downloads nothing, and does not compare the digest with any file. What cannot
//! be read for certain is a finding; only a manifest without findings is trusted.
//!
//! This module is a leaf and uses nothing else of the crate.

mod checks;
mod finding;
mod guard;
mod host;
mod manifest;
mod patterns;
mod scan;
#[cfg(test)]
mod tests;
mod verification;

pub use guard::SkillProvenanceGuard;
pub use manifest::{MANIFEST_BYTES_MAX, ManifestError, verify_manifest_file};
pub use patterns::{Case, DANGEROUS_PATTERNS, DangerousPattern, Then};
pub use verification::{SkillRisk, SkillStatus, SkillVerification};
