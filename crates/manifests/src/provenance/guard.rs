//! Defines the guard, which runs all checks of a manifest in order. It never loads a skill.

use std::path::Path;

use serde_json::{Map, Value};
use thiserror::Error;

use super::artifact::Artifact;
use super::finding::{Finding, excerpt};
use super::host::{HostName, Registry};
use super::{ManifestError, SkillManifest, SkillVerification, checks, scan};

/// A guard that runs all checks of a skill manifest, according to its options.
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
    /// The registries from which a skill may come. `None` allows all registries except the built-in blocklist.
    registries: Option<Vec<Registry>>,
    /// The domains that are trusted in source URLs, in addition to the built-in domains.
    trusted_domains: Vec<HostName>,
    /// Whether a skill must have a digest. If this is false, a digest may be missing but not malformed.
    requires_digest: bool,
}

/// The error for an allowlist entry that would allow nothing, or too much.
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

    /// Returns the entry exactly as the caller passed it.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// Returns the reason as the second half of a sentence that starts with the entry.
    pub fn reason(&self) -> &str {
        self.reason
    }
}

impl SkillProvenanceGuard {
    /// Creates a guard that blocks the known untrusted registries, trusts the built-in domains, and requires a digest.
    pub fn new() -> Self {
        Self { registries: None, trusted_domains: Vec::new(), requires_digest: true }
    }

    /// Accepts only skills from the given registries. The built-in blocklist of registries no longer applies.
    ///
    /// An entry is a host, optionally with a port or a path. The manifest's registry must have the same host and
    /// port, and the same path if the entry has a path. An entry does not cover subdomains. An empty list accepts no
    /// skill.
    ///
    /// # Errors
    ///
    /// If an entry does not name exactly one host, because such an entry would cover nothing.
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

    /// Trusts source URLs at the given domains and their subdomains, in addition to the built-in domains.
    ///
    /// # Errors
    ///
    /// If an entry contains more than a host, is an internationalised host, or has no dot. An internationalised host
    /// would be useless, because no manifest with such a host passes the checks. An entry without a dot, such as `com`,
    /// would trust hosts of other parties.
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

    /// Sets whether each skill must have a digest.
    #[must_use]
    pub fn require_digest(self, required: bool) -> Self {
        Self { requires_digest: required, ..self }
    }

    /// Verifies the skill that `manifest` describes.
    ///
    /// This function cannot fail: an unreadable field is a finding. All checks run, even after a finding. The time is
    /// linear in the size of the manifest. Only [`SkillProvenanceGuard::verify_file`] compares the digest with a file.
    pub fn verify_skill(&self, manifest: &Map<String, Value>) -> SkillVerification {
        self.verify(manifest, Vec::new(), Ok(None))
    }

    /// Verifies a manifest that was parsed from text. In addition to the checks of
    /// [`SkillProvenanceGuard::verify_skill`], a duplicate field is a finding.
    pub fn verify_manifest(&self, manifest: &SkillManifest) -> SkillVerification {
        self.verify(manifest.fields(), manifest.duplicate_members().collect(), Ok(None))
    }

    /// Verifies a skill by its manifest, which is the file at `path`. Also compares the digest in the manifest with the
    /// skill's file. The path of that file is `artifact`. If it is `None`, the path is the manifest's field `artifact`,
    /// which must be relative to the manifest's folder and not lead out of it. If the field is missing too, no file is
    /// compared.
    ///
    /// # Errors
    ///
    /// If the manifest cannot be read or parsed. A skill that must not be loaded, or an artifact that cannot be read,
    /// is a finding and not an error.
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

    /// Runs all checks of a manifest in their order.
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
            // Add no finding about the artifact, because the missing or invalid digest is already a finding.
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
