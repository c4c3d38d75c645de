//! Checks that no manifest crashes the guard, that a trusted manifest has no findings, and that `serde_json` reads the
//! same fields.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qwed_manifests::provenance::{SkillManifest, SkillProvenanceGuard};

fuzz_target!(|content: &[u8]| {
    let Ok(manifest) = SkillManifest::parse(content) else { return };
    let read: serde_json::Value = serde_json::from_slice(content).unwrap();
    assert_eq!(read.as_object(), Some(manifest.fields()));
    for guard in [
        SkillProvenanceGuard::new(),
        SkillProvenanceGuard::new()
            .with_trusted_registries(["github.com/org"])
            .unwrap()
            .with_trusted_domains(["example.org"])
            .unwrap()
            .require_digest(false),
    ] {
        let verification = guard.verify_manifest(&manifest);
        assert_eq!(verification.verified, verification.findings.is_empty());
        assert_eq!(verification.verified, verification.risk_level.as_str() == "none");
        assert!(verification.findings.iter().all(|finding| finding.chars().count() < 1_500));
        assert!(!verification.findings.iter().any(|finding| finding.contains('\n')));
    }
});
