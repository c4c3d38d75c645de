//! Verifies a skill's manifest before the skill is loaded: checks the source and the digest, and searches for
//! dangerous text.
//!
//! A manifest is a claim by a party that wants to be trusted. This module checks only the claim, and the digest of the
//! skill's file if that file is available. It never contacts a registry and never downloads anything. An unreadable or
//! ambiguous value is a finding. Only a manifest without findings is trusted.
//!
//! From the rest of the crate, this module uses only `hidden`.

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
