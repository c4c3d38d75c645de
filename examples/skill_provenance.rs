//! Vets a skill before it is loaded.
//!
//! `cargo run --example skill_provenance`

#![expect(clippy::print_stdout, reason = "an example shows what it finds")]

use qwed_mcp::SkillProvenanceGuard;
use qwed_mcp::provenance::SkillManifest;

const MANIFEST: &str = r#"{
  "name": "my-skill",
  "version": "1.0.0",
  "source_url": "https://github.com/org/skill",
  "registry": "github.com",
  "digest": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
  "download_count": 150
}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let guard = SkillProvenanceGuard::new();

    let verification = guard.verify_manifest(&SkillManifest::parse(MANIFEST.as_bytes())?);
    println!("{} {} {}", verification.verified, verification.status, verification.risk_level);
    assert!(verification.verified);

    // The same manifest, but from a registry that does not vet uploads.
    let poisoned = MANIFEST.replace(r#""github.com""#, r#""clawdhub.com""#);
    let verification = guard.verify_manifest(&SkillManifest::parse(poisoned.as_bytes())?);
    println!("{} {} {}", verification.verified, verification.status, verification.risk_level);
    for finding in &verification.findings {
        println!("- {finding}");
    }
    assert_eq!(verification.risk_level.as_str(), "high");

    // Your own allowlists.
    let strict = SkillProvenanceGuard::new()
        .with_trusted_registries(["skills.example.org"])?
        .with_trusted_domains(["git.example.org"])?
        .require_digest(true);
    let verification = strict.verify_manifest(&SkillManifest::parse(MANIFEST.as_bytes())?);
    println!("{}", serde_json::to_string_pretty(&verification)?);
    assert!(!verification.verified);
    Ok(())
}

#[test]
fn the_example_runs() {
    main().unwrap();
}
