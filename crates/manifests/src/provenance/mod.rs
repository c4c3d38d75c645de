//! Checks of a skill's manifest before the skill is loaded: its source, its digest, and dangerous
//! texts that the manifest would smuggle in.
//!
//! A manifest is a claim by the one who wants to be trusted. This module judges the claim alone: it
//! asks no registry and downloads nothing. Where the skill itself is at hand, its digest is compared.
//! What cannot be read for certain is a finding; only a manifest without findings is trusted.
//!
//! This module is a leaf and uses nothing else of the crate.

mod artifact;
mod checks;
mod digest;
mod finding;
mod guard;
mod host;
mod manifest;
mod patterns;
mod scan;
#[cfg(test)]
mod tests;
mod verification;

pub use finding::SkillRisk;
pub use guard::{InvalidEntry, SkillProvenanceGuard};
pub use manifest::{MANIFEST_BYTES_MAX, ManifestError, SkillManifest};
pub use patterns::{DANGEROUS_PATTERNS, DangerousPattern};
pub use verification::{SkillStatus, SkillVerification};
