//! The guard: its options, and the line of a verification.

use std::path::Path;

use serde_json::{Map, Value};
use thiserror::Error;

use super::artifact::Artifact;
use super::finding::{Finding, excerpt};
use super::host::{HostName, Registry};
use super::{ManifestError, SkillManifest, SkillVerification, checks, scan};

/// Judges skill manifests.
///
/// ```
/// use qwed_manifests::provenance::SkillProvenanceGuard;
/// use serde_json::json;
///
/// let guard = SkillProvenanceGuard::new();
///
/// let mut manifest = json!({
///     "name": "my-skill",
///     "version": "1.0.0",
///     "source_url": "https://github.com/org/skill",
///     "registry": "github.com",
///     "digest": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
///     "download_count": 150,
/// });
/// let verification = guard.verify_skill(manifest.as_object().unwrap());
/// assert!(verification.verified);
/// assert_eq!(verification.status.as_str(), "TRUSTED");
/// assert_eq!(verification.risk_level.as_str(), "none");
///
/// manifest["registry"] = json!("clawdhub.com");
/// let verification = guard.verify_skill(manifest.as_object().unwrap());
/// assert_eq!(
///     verification.findings,
///     ["Skill loaded from untrusted registry: clawdhub.com (blocked: clawdhub.com)"]
/// );
/// ```
#[derive(Debug, Clone)]
pub struct SkillProvenanceGuard {
    /// The registries that a skill may come from; `None` for all but those that are known for poor
    /// vetting.
    registries: Option<Vec<Registry>>,
    /// The domains that are trusted beside the built-in ones.
    trusted_domains: Vec<HostName>,
    /// True if a skill must have a digest. One that it has must be well-formed either way.
    requires_digest: bool,
}

/// An entry of an allowlist that would cover nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{}' {reason}", excerpt(.entry))]
pub struct InvalidEntry {
    entry: String,
    reason: &'static str,
}

const NO_REGISTRY: &str = "names no host, for example registry.example.org";
const NO_DOMAIN: &str = "is not simply a host in ASCII, for example example.org";
const TOP_LEVEL: &str = "has no dot, and would trust every host below it";

impl InvalidEntry {
    fn new(entry: &str, reason: &'static str) -> Self {
        Self { entry: entry.to_owned(), reason }
    }

    /// Returns the entry as the caller wrote it.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// Returns the reason, as it goes after the entry.
    pub fn reason(&self) -> &str {
        self.reason
    }
}

impl SkillProvenanceGuard {
    /// Returns a guard that blocks the known untrusted registries, trusts the built-in domains, and
    /// requires a digest.
    pub fn new() -> Self {
        Self { registries: None, trusted_domains: Vec::new(), requires_digest: true }
    }

    /// Accepts skills from these registries alone, instead of blocking the known untrusted ones.
    ///
    /// An entry is a host, or a host with a port or a path that must be the same in the manifest.
    /// It covers no sub-domains. Without an entry, no skill is accepted.
    ///
    /// # Errors
    ///
    /// If an entry names no host for certain: it would cover nothing.
    pub fn with_trusted_registries<S: AsRef<str>>(
        self,
        registries: impl IntoIterator<Item = S>,
    ) -> Result<Self, InvalidEntry> {
        let parsed = |entry: S| {
            let entry = entry.as_ref();
            Registry::parse(entry).ok_or_else(|| InvalidEntry::new(entry, NO_REGISTRY))
        };
        let entries = registries.into_iter().map(parsed).collect::<Result<_, _>>()?;
        Ok(Self { registries: Some(entries), ..self })
    }

    /// Trusts source URLs at these domains and their sub-domains too.
    ///
    /// # Errors
    ///
    /// If an entry is not simply a host, or an internationalised one: a manifest never passes with
    /// such a host. If it has no dot, such as `com`: it would trust the hosts of others.
    pub fn with_trusted_domains<S: AsRef<str>>(
        mut self,
        domains: impl IntoIterator<Item = S>,
    ) -> Result<Self, InvalidEntry> {
        for entry in domains {
            let entry = entry.as_ref();
            let host = Registry::parse(entry).and_then(Registry::into_host);
            let host = host.filter(|host| !host.is_internationalised());
            let domain = host.ok_or_else(|| InvalidEntry::new(entry, NO_DOMAIN))?;
            if domain.is_single_label() {
                return Err(InvalidEntry::new(entry, TOP_LEVEL));
            }
            self.trusted_domains.push(domain);
        }
        Ok(self)
    }

    /// Requires a digest of each skill, or accepts skills without one.
    #[must_use]
    pub fn require_digest(self, required: bool) -> Self {
        Self { requires_digest: required, ..self }
    }

    /// Judges the skill that `manifest` describes.
    ///
    /// Never fails: a field that cannot be read is a finding. All checks are made, whatever the
    /// ones before have found. Takes time linear in the size of the manifest. The file behind
    /// the digest is not looked at; see [`SkillProvenanceGuard::verify_file`].
    pub fn verify_skill(&self, manifest: &Map<String, Value>) -> SkillVerification {
        self.verify(manifest, Vec::new(), Ok(None))
    }

    /// Judges a manifest as it is written: a duplicate field is a finding too.
    pub fn verify_manifest(&self, manifest: &SkillManifest) -> SkillVerification {
        self.verify(manifest.fields(), manifest.duplicate_members().collect(), Ok(None))
    }

    /// Judges the skill whose manifest is in the file at `path`, and compares its digest with the
    /// skill itself, if it is there: the file `artifact`, or else the one that the manifest's field
    /// `artifact` names, a path relative to the manifest's folder that stays in there.
    ///
    /// # Errors
    ///
    /// If the file holds nothing that could be judged. A skill that must not be loaded is no error,
    /// nor is an artifact that cannot be read: that is a finding.
    pub fn verify_file(
        &self,
        path: &Path,
        artifact: Option<&Path>,
    ) -> Result<SkillVerification, ManifestError> {
        let manifest = SkillManifest::read(path)?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            Some(_) | None => Path::new("."),
        };
        let artifact = match artifact {
            Some(path) => Ok(Some(Artifact::named_by_caller(path))),
            None => Artifact::named_by_manifest(manifest.fields(), folder),
        };
        let duplicates = manifest.duplicate_members().collect();
        Ok(self.verify(manifest.fields(), duplicates, artifact))
    }

    /// Makes all checks in their order.
    fn verify(
        &self,
        manifest: &Map<String, Value>,
        duplicates: Vec<Finding>,
        artifact: Result<Option<Artifact>, Finding>,
    ) -> SkillVerification {
        let digest = checks::digest(manifest, self.requires_digest);
        let artifact = artifact.map_or_else(Some, |artifact| match (&digest, artifact?) {
            (Ok(Some(digest)), artifact) => artifact.compare(digest),
            (Ok(None), artifact) => Some(artifact.without_digest()),
            // The fault of the digest is a finding already.
            (Err(_), _) => None,
        });
        let findings: Vec<Finding> = [
            duplicates,
            checks::required_fields(manifest),
            checks::registry(manifest, self.registries.as_deref()),
            checks::source_url(manifest, &self.trusted_domains),
            digest.err().into_iter().chain(artifact).collect(),
            checks::download_count(manifest),
            scan::suspicious_values(manifest),
        ]
        .into_iter()
        .flatten()
        .collect();

        let name = checks::filled_text(manifest, "name").unwrap_or("unknown");
        SkillVerification::new(name.to_owned(), findings)
    }
}

impl Default for SkillProvenanceGuard {
    fn default() -> Self {
        Self::new()
    }
}
