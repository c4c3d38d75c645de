use std::error::Error as _;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::patterns::patterns_in;
use super::*;

/// Verifies a manifest file with the default options.
fn verify_file(path: &Path) -> Result<SkillVerification, ManifestError> {
    SkillProvenanceGuard::new().verify_file(path, None)
}
const SHA256: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Returns the manifest from the documentation, which is trusted.
fn documented() -> Map<String, Value> {
    object(json!({
        "name": "my-skill",
        "version": "1.0.0",
        "source_url": "https://github.com/org/skill",
        "registry": "github.com",
        "digest": SHA256,
        "download_count": 150,
    }))
}

#[track_caller]
fn object(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

/// Returns the documented manifest, with a different value for one field.
fn with(field: &str, value: Value) -> Map<String, Value> {
    let mut manifest = documented();
    manifest.insert(field.to_owned(), value);
    manifest
}

/// Returns the documented manifest, without one field.
fn without(field: &str) -> Map<String, Value> {
    let mut manifest = documented();
    manifest.remove(field);
    manifest
}

/// Verifies a manifest, and asserts that the result has exactly the expected risk and findings.
#[track_caller]
fn check(
    guard: &SkillProvenanceGuard,
    manifest: &Map<String, Value>,
    risk: SkillRisk,
    findings: &[&str],
) {
    let verification = guard.verify_skill(manifest);
    assert_eq!(verification.findings, findings, "{}", json!(manifest));
    assert_eq!(verification.risk_level, risk, "{}", json!(manifest));
    assert_eq!(verification.verified, findings.is_empty());
    let status = if findings.is_empty() { SkillStatus::Trusted } else { SkillStatus::Blocked };
    assert_eq!(verification.status, status);
}

/// Asserts the risk and the finding of the documented manifest with a different value for one field. Uses the default
/// options. If `expected` is `None`, the manifest must be trusted.
#[track_caller]
fn check_field(field: &str, value: Value, expected: Option<(SkillRisk, &str)>) {
    let guard = SkillProvenanceGuard::new();
    match expected {
        None => check(&guard, &with(field, value), SkillRisk::None, &[]),
        Some((risk, finding)) => check(&guard, &with(field, value), risk, &[finding]),
    }
}

#[test]
fn the_documented_example_is_trusted_and_has_the_documented_fields() {
    let verification = SkillProvenanceGuard::new().verify_skill(&documented());
    assert_eq!(
        serde_json::to_value(verification).unwrap(),
        json!({
            "verified": true,
            "status": "TRUSTED",
            "skill_name": "my-skill",
            "risk_level": "none",
            "findings": [],
            "message": "Skill 'my-skill' passed all provenance checks.",
        })
    );
}

#[test]
fn everything_that_is_wrong_is_reported_in_the_order_of_the_checks() {
    let manifest = object(json!({
        "name": " ",
        "version": 1,
        "registry": "clawdhub.com",
        "source_url": "http://evil.example/skill",
        "digest": "md5:abc",
        "download_count": 5,
        "hooks": { "b": "os.system('x')", "a": ["ok", "eval(exec(x))"] },
    }));
    let verification = SkillProvenanceGuard::new().verify_skill(&manifest);
    assert_eq!(
        serde_json::to_value(verification).unwrap(),
        json!({
            "verified": false,
            "status": "BLOCKED",
            "skill_name": "unknown",
            "risk_level": "high",
            "findings": [
                "Missing required field: name",
                "Missing required field: version",
                "Skill loaded from untrusted registry: clawdhub.com (blocked: clawdhub.com)",
                "Source URL domain 'evil.example' is not in trusted list",
                "Source URL uses insecure scheme: http",
                "Unsupported digest algorithm: md5 (accepted: sha256, sha384, sha512)",
                "Suspiciously low download count (5) — possible newly planted malicious skill",
                r"Suspicious pattern '\beval\s*\(' in manifest field 'hooks.a[1]'",
                r"Suspicious pattern '\bexec\s*\(' in manifest field 'hooks.a[1]'",
                r"Suspicious pattern '\bos\.system\s*\(' in manifest field 'hooks.b'",
            ],
            "message": "BLOCKED: Skill 'unknown' failed 10 provenance check(s) (risk: high). \
                Loading untrusted skills is a known supply chain attack vector.",
        })
    );
}

#[test]
fn an_empty_manifest_and_wrong_types_are_findings_that_name_the_field() {
    let guard = SkillProvenanceGuard::new();
    check(
        &guard,
        &Map::new(),
        SkillRisk::High,
        &[
            "Missing required field: name",
            "Missing required field: version",
            "Invalid registry type: NoneType",
            "Invalid source_url type: NoneType",
            "Missing digest — unsigned skills are not allowed",
        ],
    );
    for (value, name) in [
        (json!(null), "NoneType"),
        (json!(true), "bool"),
        (json!(1), "int"),
        (json!(1.5), "float"),
        (json!(["github.com"]), "list"),
        (json!({}), "dict"),
    ] {
        let missing = |field| format!("Missing required field: {field}");
        let invalid = |field| format!("Invalid {field} type: {name}");
        let medium = SkillRisk::Medium;
        check(&guard, &with("name", value.clone()), medium, &[&missing("name")]);
        check(&guard, &with("version", value.clone()), medium, &[&missing("version")]);
        check(&guard, &with("registry", value.clone()), medium, &[&invalid("registry")]);
        check(&guard, &with("source_url", value.clone()), medium, &[&invalid("source_url")]);
        if !value.is_null() {
            check(&guard, &with("digest", value.clone()), SkillRisk::High, &[&invalid("digest")]);
        }
        if !value.is_null() && !value.is_number() {
            check(&guard, &with("download_count", value), medium, &[&invalid("download_count")]);
        }
    }
    check(
        &guard,
        &with("download_count", json!("150")),
        SkillRisk::Medium,
        &["Invalid download_count type: str"],
    );
}

#[test]
fn a_person_sees_every_character_of_a_checked_field() {
    let unseen = "contains invisible or control characters";
    for (hidden, shown) in [
        ("\u{200b}", r"\u{200b}"),
        ("\u{3164}", r"\u{3164}"),
        ("\u{202e}", r"\u{202e}"),
        ("\u{e0041}", r"\u{e0041}"),
        ("\u{1b}[2J", r"\u{1b}[2J"),
        ("\u{0}", r"\u{0}"),
        ("a\tb", r"a\tb"),
        ("a\nb", r"a\nb"),
    ] {
        for field in ["name", "version"] {
            let finding = format!("Invalid {field}: {shown} ({unseen})");
            check_field(field, json!(hidden), Some((SkillRisk::Medium, &finding)));
        }
    }
    for hidden in ["\u{200b}", "\u{202e}", "\u{2066}", "\u{ad}", "\u{feff}", "\u{e0041}"] {
        let shown: String = hidden.chars().flat_map(char::escape_default).collect();
        let finding = format!("Invalid source URL: https://github.com/{shown}x ({unseen})");
        let url = json!(format!("https://github.com/{hidden}x"));
        check_field("source_url", url, Some((SkillRisk::Medium, &finding)));
        let finding = format!("Artifact 'a{shown}b' {unseen}");
        let (_folder, path) = with_artifact(DIGESTS[0], json!(format!("a{hidden}b")));
        assert_eq!(verify_file(&path).unwrap().findings, [finding]);
    }
    let registry = with("registry", json!("git\u{ad}hub.com"));
    let finding = format!(r"Skill loaded from untrusted registry: git\u{{ad}}hub.com ({unseen})");
    check(&SkillProvenanceGuard::new(), &registry, SkillRisk::High, &[&finding]);
    let guard = SkillProvenanceGuard::new().with_trusted_registries(["github.com"]).unwrap();
    check(&guard, &registry, SkillRisk::High, &[&finding]);

    let finding = "Invalid version: 1.٠.0 (is not ASCII)";
    check_field("version", json!("1.٠.0"), Some((SkillRisk::Medium, finding)));
    // These names must be trusted, because people need such characters for writing.
    for name in ["größe", "技能", "क्\u{200d}ष", "👩\u{200d}🚀 ✔\u{fe0f}", " padded "]
    {
        check_field("name", json!(name), None);
    }
    check_field("version", json!("1.0.0-rc.1+build 5"), None);
    check_field("source_url", json!("https://github.com/größe"), None);
}

#[test]
fn the_name_is_trimmed_and_cannot_write_lines_into_a_log() {
    let guard = SkillProvenanceGuard::new();
    let verification = guard.verify_skill(&with("name", json!(" a\nskill ")));
    assert_eq!(verification.skill_name, "a\nskill");
    let start = r"BLOCKED: Skill 'a\nskill' failed 1 provenance check(s)";
    assert!(verification.message.starts_with(start), "{}", verification.message);

    let verification = guard.verify_skill(&with("name", json!("n".repeat(100_000))));
    assert_eq!(verification.skill_name.len(), 100_000);
    assert!(verification.message.len() < 300);
}

#[test]
fn a_blocked_registry_is_a_host_and_its_sub_domains() {
    for (registry, blocked) in [
        ("clawdhub.com", Some("clawdhub.com")),
        (" Moltbot.IO ", Some("moltbot.io")),
        ("skillhub.ai.", Some("skillhub.ai")),
        ("cdn.agentstore.dev", Some("agentstore.dev")),
        ("https://llm-tools.net/skills?x#y", Some("llm-tools.net")),
        ("oci://CLAWDHUB.com:5000/a/b", Some("clawdhub.com")),
        ("clawdhub.com:443", Some("clawdhub.com")),
        ("//clawdhub.com/x", Some("clawdhub.com")),
        // These names lead to the host "clawdhub.com". The Python implementation accepts them, because it searches only
        // for the text "clawdhub.com".
        ("clawdhub%2Ecom", Some("clawdhub.com")),
        ("clawdhub。com", Some("clawdhub.com")),
        ("ｃｌａｗｄｈｕｂ.com", Some("clawdhub.com")),
        ("claw\u{ad}dhub.com", Some("clawdhub.com")),
        // These names contain the text "clawdhub.com", but have other hosts. The Python implementation blocks them
        // because of the text.
        ("notclawdhub.com", None),
        ("clawdhub.com.example.org", None),
        ("mirror.example.org/clawdhub.com", None),
        // These hosts are unrelated to blocked registries.
        ("pypi.org", None),
        ("localhost:8080", None),
        ("10.0.0.1", None),
        ("[::1]:8080", None),
    ] {
        let text = registry.trim().trim_end_matches('.').to_lowercase();
        let text = text.replace('\u{ad}', r"\u{ad}");
        let finding = blocked.map(|blocked| {
            format!("Skill loaded from untrusted registry: {text} (blocked: {blocked})")
        });
        let expected = finding.as_deref().map(|finding| (SkillRisk::High, finding));
        check_field("registry", json!(registry), expected);
    }
    for registry in ["", " ", "...", " . "] {
        let missing = (SkillRisk::Medium, "Missing registry field in manifest");
        check_field("registry", json!(registry), Some(missing));
    }
}

#[test]
fn a_registry_that_names_no_host_for_certain_is_untrusted() {
    // The Python implementation accepts these names, except for the names that contain a blocked registry.
    for (registry, shown) in [
        ("user@github.com", "user@github.com"),
        ("github.com\\x", "github.com\\x"),
        ("github\t.com", r"github\t.com"),
        ("claw\ndhub.com", r"claw\ndhub.com"),
        ("github com", "github com"),
        ("github.com,pypi.org", "github.com,pypi.org"),
        ("git..hub.com", "git..hub.com"),
        ("github.com:http", "github.com:http"),
        ("https:clawdhub.com", "https:clawdhub.com"),
        ("https://https://clawdhub.com", "https://https://clawdhub.com"),
        ("https://", "https://"),
        ("1.2.3.4.5", "1.2.3.4.5"),
    ] {
        let finding = format!("Skill loaded from untrusted registry: {shown} (not a host name)");
        check_field("registry", json!(registry), Some((SkillRisk::High, &finding)));
    }
    // The first two names contain Cyrillic letters. The third name is the encoded form of such a name.
    for registry in ["gіthub.com", "clаwdhub.com", "xn--gthub-n2e.com"] {
        let finding = format!(
            "Skill loaded from untrusted registry: {registry} \
             (internationalised host name, possible look-alike)"
        );
        check_field("registry", json!(registry), Some((SkillRisk::High, &finding)));
    }
}

#[test]
fn an_allowlist_of_registries_is_strict_and_replaces_the_blocklist() {
    let guard = SkillProvenanceGuard::new().with_trusted_registries([
        "ClawdHub.com.",
        "internal.corp:5000",
        "ghcr.io/org",
        "реестр.example",
    ]);
    let guard = guard.unwrap();
    for registry in [
        "clawdhub.com",
        "https://CLAWDHUB.com/x",
        "internal.corp:5000",
        "oci://internal.corp:5000/y",
        "ghcr.io/org/",
        "реестр.example",
    ] {
        check(&guard, &with("registry", json!(registry)), SkillRisk::None, &[]);
    }
    for registry in [
        "github.com",
        "sub.clawdhub.com",
        "clawdhub.com:8443",
        "internal.corp",
        "ghcr.io",
        "ghcr.io/other",
        "moltbot.io",
    ] {
        let finding =
            format!("Skill loaded from untrusted registry: {registry} (not in explicit allowlist)");
        check(&guard, &with("registry", json!(registry)), SkillRisk::High, &[&finding]);
    }

    let nothing = SkillProvenanceGuard::new().with_trusted_registries([""; 0]).unwrap();
    let finding = "Skill loaded from untrusted registry: github.com (not in explicit allowlist)";
    check(&nothing, &documented(), SkillRisk::High, &[finding]);
}

#[test]
fn a_source_url_is_at_a_trusted_domain_by_https() {
    let not_trusted = |domain| format!("Source URL domain '{domain}' is not in trusted list");
    let guard = SkillProvenanceGuard::new();
    for url in [
        "https://github.com/org/skill",
        "https://raw.github.com",
        "https://gitlab.com/a/b?ref=c@d:1#é",
        "https://bitbucket.org/ä",
        "https://pypi.org/project/x/",
        "https://www.npmjs.com/package/@a/b",
        "HTTPS://qwedai.com",
    ] {
        check(&guard, &with("source_url", json!(url)), SkillRisk::None, &[]);
    }
    for (url, domain) in [
        ("https://evil-skills.com/backdoor", "evil-skills.com"),
        ("https://notgithub.com/x", "notgithub.com"),
        ("https://github.com.evil.io/x", "github.com.evil.io"),
        ("https://evil.io/github.com", "evil.io"),
        ("https://evil.io?github.com", "evil.io"),
        ("https://evil.io#.github.com", "evil.io"),
        ("https://127.0.0.1/x", "127.0.0.1"),
        ("https://[::1]/x", "[::1]"),
    ] {
        let finding = not_trusted(domain);
        check(&guard, &with("source_url", json!(url)), SkillRisk::Medium, &[&finding]);
    }
    let insecure = |scheme| format!("Source URL uses insecure scheme: {scheme}");
    for (url, findings) in [
        ("http://github.com/x", vec![insecure("http")]),
        ("git+https://github.com/x", vec![insecure("git+https")]),
        ("file:///etc/passwd", vec![not_trusted(""), insecure("file")]),
        ("data:text/plain,x", vec![not_trusted(""), insecure("data")]),
        ("", vec!["Missing source_url in manifest".to_owned()]),
        (" ", vec!["Missing source_url in manifest".to_owned()]),
        ("github.com/org", vec![not_trusted(""), insecure("")]),
        ("git@github.com:org/x", vec![not_trusted(""), insecure("")]),
        ("https://git hub.com", vec!["Invalid source URL: https://git hub.com".to_owned()]),
        ("https://", vec!["Invalid source URL: https://".to_owned()]),
    ] {
        let findings: Vec<_> = findings.iter().map(String::as_str).collect();
        check(&guard, &with("source_url", json!(url)), SkillRisk::Medium, &findings);
    }
}

#[test]
fn white_space_around_a_source_url_is_a_finding() {
    let finding = "Invalid source URL: https://github.com/x (has white space around it)";
    for url in [
        " https://github.com/x",
        "https://github.com/x ",
        "\u{a0}https://github.com/x",
        "https://github.com/x\u{2003}",
    ] {
        check(
            &SkillProvenanceGuard::new(),
            &with("source_url", json!(url)),
            SkillRisk::Medium,
            &[finding],
        );
    }
}

#[test]
fn a_name_has_a_visible_character_and_is_not_a_path() {
    for name in [
        "\u{2800}",
        "\u{fe0f}",
        "\u{fe00}\u{fe0e}",
        "\u{200d}",
        "\u{200c} \u{2800}\u{200d}",
        "\u{2800}\u{3000}\u{2800}",
    ] {
        let shown = name.escape_default();
        let finding = format!("Invalid name: {shown} (has no visible character)");
        check_field("name", json!(name), Some((SkillRisk::Medium, &finding)));
    }
    for text in ["../../x", "..", "/etc", "a/../b", "a//b", "a/", "a\\b"] {
        for field in ["name", "version"] {
            let finding = format!("Invalid {field}: {text} (is a path to other folders)");
            check_field(field, json!(text), Some((SkillRisk::Medium, &finding)));
        }
    }
    let finding = "Invalid version: 1/2 (is a path to other folders)";
    check_field("version", json!("1/2"), Some((SkillRisk::Medium, finding)));
    // These names must be trusted: a scoped package name, or dots within a name, do not lead to other folders.
    for name in ["@org/skill", "a..b", "\u{2801}", "a\u{2800}b", "✔\u{fe0f}", ".hidden", "a.b"] {
        check_field("name", json!(name), None);
    }
}

#[test]
fn a_source_url_in_disguise_is_never_trusted() {
    let user = "Source URL contains user information in front of its host";
    let lookalike = |written, host| {
        format!("Source URL host '{written}' is not written as '{host}' — possible look-alike")
    };
    for (url, finding) in [
        // The Python implementation trusts these URLs. It takes the host from `urlparse`, which leaves out the user and
        // the port.
        ("https://evil.io@github.com/x", user.to_owned()),
        ("https://user:word@github.com/x", user.to_owned()),
        ("https://@github.com/x", user.to_owned()),
        ("https://:@github.com/x", user.to_owned()),
        ("https://github.com:8443/x", "Source URL names a port: 8443".to_owned()),
        ("https://github.com:443/x", "Source URL names a port: 443".to_owned()),
        ("https://github.com:/x", "Source URL names a port: ".to_owned()),
        // The Python implementation trusts these URLs. It removes all trailing dots and ignores case, even for the
        // Kelvin sign in the second URL.
        ("https://github.com./x", lookalike("github.com.", "github.com")),
        ("https://bitbuc\u{212a}et.org/x", lookalike("bitbuc\u{212a}et.org", "bitbucket.org")),
        ("https://GitHub.com/x", lookalike("GitHub.com", "github.com")),
        // The Python implementation trusts these URLs. Other parsers treat the backslash or the control character
        // differently from Python.
        (
            r"https://evil.io\@github.com/x",
            r"Invalid source URL: https://evil.io\@github.com/x (contains control characters or backslashes)"
                .to_owned(),
        ),
        (
            "https://git\thub.com/x",
            r"Invalid source URL: https://git\thub.com/x (contains control characters or backslashes)"
                .to_owned(),
        ),
        (
            "https://github.com/x\n",
            "Invalid source URL: https://github.com/x (contains control characters or backslashes)"
                .to_owned(),
        ),
        // The Python implementation does not trust the remaining URLs, but the `url` crate alone would trust them.
        ("https://ｇithub.com/x", lookalike("ｇithub.com", "github.com")),
        ("https://github。com/x", lookalike("github。com", "github.com")),
        ("https://git%68ub.com/x", lookalike("git%68ub.com", "github.com")),
        ("https:github.com/x", lookalike("", "github.com")),
        ("https:///github.com/x", lookalike("", "github.com")),
        ("https:/github.com/x?://github.com", lookalike("", "github.com")),
    ] {
        check_field("source_url", json!(url), Some((SkillRisk::Medium, &finding)));
    }
    // The letter і in the first URL is Cyrillic. The second URL contains the encoded form of the same host.
    for url in ["https://gіthub.com/x", "https://xn--gthub-n2e.com/x"] {
        check(
            &SkillProvenanceGuard::new(),
            &with("source_url", json!(url)),
            SkillRisk::Medium,
            &[
                "Source URL domain 'xn--gthub-n2e.com' is not in trusted list",
                "Source URL host 'xn--gthub-n2e.com' is internationalised — possible look-alike",
            ],
        );
    }
}

#[test]
fn trusted_domains_are_added_to_the_built_in_ones() {
    let guard = SkillProvenanceGuard::new()
        .with_trusted_domains(["Internal.Corp.", "https://git.example.org", "10.0.0.5"])
        .unwrap();
    for url in [
        "https://internal.corp/skill",
        "https://a.b.internal.corp/skill",
        "https://git.example.org",
        "https://10.0.0.5/x",
        "https://github.com/x",
    ] {
        check(&guard, &with("source_url", json!(url)), SkillRisk::None, &[]);
    }
    for (domain, url) in [
        ("port.example", "https://port.example/x"),
        ("path.example", "https://path.example/x"),
        ("example.org", "https://example.org/x"),
        ("xinternal.corp", "https://xinternal.corp/x"),
    ] {
        let finding = format!("Source URL domain '{domain}' is not in trusted list");
        check(&guard, &with("source_url", json!(url)), SkillRisk::Medium, &[&finding]);
    }
    check(
        &guard,
        &with("source_url", json!("https://ü.example/x")),
        SkillRisk::Medium,
        &[
            "Source URL domain 'xn--tda.example' is not in trusted list",
            "Source URL host 'xn--tda.example' is internationalised — possible look-alike",
        ],
    );
}

#[test]
fn an_entry_that_would_cover_nothing_is_refused() {
    let new = SkillProvenanceGuard::new;
    for entry in ["", "not a host", "https://", "user@github.com", "github.com\\x"] {
        let error = new().with_trusted_registries(["github.com", entry]).unwrap_err();
        assert_eq!(error.entry(), entry);
        let expected = format!("'{entry}' names no host, for example registry.example.org");
        assert_eq!(error.to_string(), expected);
    }
    // With the first of these entries, the Python implementation would trust a URL without a host.
    for entry in [".", "", "port.example:1", "path.example/x", "ü.example"] {
        let error = new().with_trusted_domains(["example.org", entry]).unwrap_err();
        assert_eq!(error.entry(), entry);
        let expected = format!("'{entry}' is not simply a host in ASCII, for example example.org");
        assert_eq!(error.to_string(), expected);
    }
    for entry in ["com", "COM", "com.", "localhost"] {
        let error = new().with_trusted_domains([entry]).unwrap_err();
        let expected = format!("'{entry}' has no dot, and would trust every host below it");
        assert_eq!(error.to_string(), expected);
    }
    assert!(new().with_trusted_domains(["10.0.0.5", "[::1]", "git.corp"]).is_ok());
    let error = new().with_trusted_domains(["x\ny\u{1b}"]).unwrap_err();
    assert!(error.to_string().starts_with(r"'x\ny\u{1b}' "), "{error}");
}

#[test]
fn a_digest_is_one_that_can_be_compared() {
    let (d256, d384, d512) = ("0f".repeat(32), "Ab".repeat(48), "9".repeat(128));
    for text in [
        SHA256.to_owned(),
        format!(" SHA256:{d256}\n"),
        format!("sha384:{d384}"),
        format!("Sha512:{d512}"),
    ] {
        check_field("digest", json!(text), None);
    }
    for (text, finding) in [
        ("", "Missing digest — unsigned skills are not allowed"),
        (" ", "Missing digest — unsigned skills are not allowed"),
        ("abc", "Malformed digest format: abc (expected 'algorithm:hex_digest')"),
        ("md5:abc", "Unsupported digest algorithm: md5 (accepted: sha256, sha384, sha512)"),
        (":abc", "Unsupported digest algorithm:  (accepted: sha256, sha384, sha512)"),
        ("sha256:", "Invalid digest (not hex): ..."),
        ("sha256:not-hex-data!", "Invalid digest (not hex): not-hex-data!..."),
        ("sha256:sha256:ab", "Invalid digest (not hex): sha256:ab..."),
        ("sha256:ａｂ", "Invalid digest (not hex): ａｂ..."),
        ("SHA256:abc", "Invalid digest length for SHA256: expected 64 hex chars, got 3"),
        ("sha512:ab", "Invalid digest length for sha512: expected 128 hex chars, got 2"),
    ] {
        check_field("digest", json!(text), Some((SkillRisk::High, finding)));
    }
    let long = format!("sha256:{}", "x".repeat(1000));
    let finding = format!("Invalid digest (not hex): {}...", "x".repeat(32));
    check_field("digest", json!(long), Some((SkillRisk::High, &finding)));
}

#[test]
fn a_digest_that_is_not_required_must_still_be_well_formed() {
    let guard = SkillProvenanceGuard::new().require_digest(false);
    for manifest in [without("digest"), with("digest", json!(null)), with("digest", json!(" "))] {
        check(&guard, &manifest, SkillRisk::None, &[]);
        let missing = ["Missing digest — unsigned skills are not allowed"];
        check(&guard.clone().require_digest(true), &manifest, SkillRisk::High, &missing);
    }
    let finding = ["Malformed digest format: x (expected 'algorithm:hex_digest')"];
    check(&guard, &with("digest", json!("x")), SkillRisk::High, &finding);
}

#[test]
fn download_counts_that_look_made_up_are_found() {
    check(&SkillProvenanceGuard::new(), &without("download_count"), SkillRisk::None, &[]);
    for count in [json!(null), json!(10), json!(999), json!(150.0), json!(u64::MAX)] {
        check_field("download_count", count, None);
    }
    let low = "Suspiciously low download count";
    let planted = "possible newly planted malicious skill";
    let round = "is suspiciously round — possible bot inflation";
    for (count, finding) in [
        (json!(9), format!("{low} (9) — {planted}")),
        (json!(0), format!("{low} (0) — {planted}")),
        (json!(-0.0), format!("{low} (0) — {planted}")),
        (json!(-1000), format!("{low} (-1000) — {planted}")),
        (json!(i64::MIN), format!("{low} (-9223372036854775808) — {planted}")),
        (json!(-1e300), format!("{low} ({}) — {planted}", i128::MIN)),
        (json!(1000), format!("Download count (1000) {round}")),
        (json!(5000.0), format!("Download count (5000) {round}")),
        (json!(1e20), format!("Download count (100000000000000000000) {round}")),
        (json!(150.5), "Invalid download_count (non-integer float): 150.5".to_owned()),
    ] {
        check_field("download_count", count, Some((SkillRisk::Medium, &finding)));
    }
}

#[test]
fn every_pattern_finds_its_matches_and_nothing_finds_its_misses() {
    for pattern in DANGEROUS_PATTERNS {
        let expression = pattern.expression;
        assert!(!pattern.matches.is_empty() && !pattern.misses.is_empty(), "{expression}");
        for text in pattern.matches {
            let found: Vec<_> = patterns_in(text).map(|found| found.expression).collect();
            assert!(found.contains(&expression), "{expression} in {text:?}: {found:?}");
        }
        for text in pattern.misses {
            let found: Vec<_> = patterns_in(text).map(|found| found.expression).collect();
            assert!(found.is_empty(), "{text:?}: {found:?}");
        }
    }
}

#[test]
fn patterns_are_found_in_every_text_but_the_descriptive_fields() {
    let text = "eval(x)";
    let finding = |place| format!(r"Suspicious pattern '\beval\s*\(' in manifest field '{place}'");
    for (field, value, place) in [
        ("hook", json!(text), "hook"),
        ("hooks", json!([1, null, "ok", { "run": [[text]] }]), "hooks[3].run[0][0]"),
        // These values must be scanned. Only the top-level fields with exact names such as `description` are exempt.
        ("inner", json!({ "description": text }), "inner.description"),
        ("Description", json!(text), "Description"),
        ("", json!({ "": text }), "."),
        ("a\nb", json!(text), r"a\nb"),
    ] {
        check_field(field, value, Some((SkillRisk::High, &finding(place))));
    }
    for field in ["description", "author", "license"] {
        check_field(field, json!(text), None);
        check_field(field, json!({ "nested": [text] }), None);
    }
    // The field `name`, the field `version` and the keys of objects must not be scanned.
    check_field("name", json!(text), None);
    check_field("version", json!(text), None);
    check_field("eval(x)", json!({ "eval(x)": 1 }), None);
}

#[test]
fn patterns_are_matched_as_python_matches_them() {
    // The expected counts are the results of `re.search` in Python 3.11.
    for (text, count) in [
        // These texts contain letters that match i, k or s if case is ignored. Only some patterns ignore case.
        ("AP\u{130}_\u{212a}ey", 1),
        ("ap\u{131}key", 1),
        ("credential\u{17f}", 1),
        ("__\u{131}mport__('os')", 0),
        ("o\u{17f}.system('id')", 0),
        // Letters and numbers of any writing system are part of a word, so no word begins or ends next to them. Marks
        // and joiners are not part of a word.
        ("\u{e9}eval(x)", 0),
        ("\u{661}eval(x)", 0),
        ("\u{2167}eval(x)", 0),
        ("e\u{301}eval(x)", 1),
        ("\u{200d}eval(x)", 1),
        ("\u{203f}eval(x)", 1),
        ("api_key\u{e9}", 0),
        ("api_key\u{301}", 1),
        ("api_key\n", 1),
        ("\nos.system('id')", 1),
        ("requests.get(\u{e9}ngrok", 0),
        ("requests.get(\u{301}ngrok", 1),
        ("requests.get(x)\nngrok", 0),
        // In Python, the first two of these characters are white space, and the third is not.
        ("eval\u{1c}(x)", 1),
        ("eval\u{3000}(x)", 1),
        ("eval\u{200b}(x)", 0),
    ] {
        assert_eq!(patterns_in(text).count(), count, "{text:?}");
    }
}

#[test]
fn no_manifest_takes_long_or_makes_long_findings() {
    let guard = SkillProvenanceGuard::new();
    // This value is nested deeper than a parsed manifest can be. At this depth, a recursive scan would overflow the
    // stack of a test, but dropping the value does not overflow the stack.
    let mut nested = json!("eval(x)");
    for _ in 0..5_000 {
        nested = Value::Array(vec![nested]);
    }
    let verification = guard.verify_skill(&with("deep", nested));
    assert_eq!(verification.findings.len(), 1);

    // A scan in quadratic time would take minutes for each of these texts.
    for text in ["open(", "open(\n", "requests.get(", "eval ", "eval\n", "api_"] {
        let text = text.repeat(100_000);
        assert!(guard.verify_skill(&with("x", json!(text))).findings.len() <= 1);
    }

    let long_name = "k".repeat(100_000);
    let many = json!({ long_name: vec!["exec(x)"; 1_000] });
    let verification = guard.verify_skill(&with("x", many));
    assert_eq!(verification.findings.len(), 1_000);
    assert!(verification.findings.iter().all(|finding| finding.len() < 300));
}

#[test]
fn a_manifest_file_is_judged_with_the_default_options() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifest.json");
    for manifest in [documented(), without("digest")] {
        fs::write(&path, json!(manifest).to_string()).unwrap();
        let expected = SkillProvenanceGuard::new().verify_skill(&manifest);
        assert_eq!(verify_file(&path).unwrap(), expected);
    }

    let size = usize::try_from(MANIFEST_BYTES_MAX).unwrap();
    let mut largest = json!(documented()).to_string();
    largest.push_str(&" ".repeat(size - largest.len()));
    fs::write(&path, &largest).unwrap();
    assert!(verify_file(&path).unwrap().verified);
}

#[test]
fn a_file_that_is_no_manifest_is_an_error_that_names_no_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifest.json");
    let size = usize::try_from(MANIFEST_BYTES_MAX).unwrap();
    let too_deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for (content, error) in [
        (vec![b' '; size + 1], "it is larger than 1048576 bytes"),
        (Vec::new(), "it is not JSON"),
        (b"{'a': 1}".to_vec(), "it is not JSON"),
        (b"{} {}".to_vec(), "it is not JSON"),
        (b"{\"name\": \"\xff\"}".to_vec(), "it is not JSON"),
        (b"{\"download_count\": NaN}".to_vec(), "it is not JSON"),
        (too_deep.into_bytes(), "it is not JSON"),
        (b"[{}]".to_vec(), "it is not a JSON object"),
        (b"null".to_vec(), "it is not a JSON object"),
        (b"\"{}\"".to_vec(), "it is not a JSON object"),
    ] {
        fs::write(&path, content).unwrap();
        let failed = verify_file(&path).unwrap_err();
        assert_eq!(failed.to_string(), error);
        assert_eq!(failed.source().is_some(), error == "it is not JSON");
    }

    for unreadable in [folder.path(), &folder.path().join("missing.json")] {
        let failed = verify_file(unreadable).unwrap_err();
        assert!(matches!(failed, ManifestError::Read(_)), "{failed:?}");
        assert_eq!(failed.to_string(), "it cannot be read");
        let source = failed.source().unwrap().to_string();
        assert!(!source.contains("missing.json"), "{source}");
    }
}

/// The SHA-256, SHA-384 and SHA-512 digests of "skill\n", computed with coreutils.
const DIGESTS: [&str; 3] = [
    "sha256:3088e5b60779a95389e4ed08d2ecee6eaac2311c590dab3f2e4beb3090a54f00",
    "sha384:81de289fd42b09d4855a7caa1139fa5dcce5a034423154ebeff6a1d696a2246e4d543fdf6654e86302dd5e357e4cbf86",
    "sha512:0b410c6ccae0ec862de68221386d871cd300cd74224fa3cb3c771803a36583be6094b2cbe29fb1cc7056b0246f1696b6675006894bf17628b96a888d5eeafd63",
];

/// Creates a folder that contains an artifact, and a manifest that names the artifact.
fn with_artifact(digest: &str, artifact: Value) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("below")).unwrap();
    for name in ["skill.tar", "below/skill.tar"] {
        fs::write(folder.path().join(name), "skill\n").unwrap();
    }
    let mut manifest = with("digest", json!(digest));
    manifest.insert("artifact".to_owned(), artifact);
    let path = folder.path().join("manifest.json");
    fs::write(&path, json!(manifest).to_string()).unwrap();
    (folder, path)
}

#[test]
fn the_artifact_is_compared_with_the_digest() {
    for digest in DIGESTS {
        for name in ["skill.tar", "below/skill.tar"] {
            for digest in [digest.to_owned(), digest.to_uppercase()] {
                let (_folder, path) = with_artifact(&digest, json!(name));
                let verification = verify_file(&path).unwrap();
                assert!(verification.verified, "{digest}: {:?}", verification.findings);
            }
        }
        // With a different last digit, the digest must not match.
        let (head, last) = digest.split_at(digest.len() - 1);
        let changed = format!("{head}{}", if last == "0" { "1" } else { "0" });
        let (_folder, path) = with_artifact(&changed, json!("skill.tar"));
        let verification = verify_file(&path).unwrap();
        let expected = format!("Artifact 'skill.tar' does not match the digest: it has {digest}");
        assert_eq!(verification.findings, [expected]);
        assert_eq!(verification.risk_level, SkillRisk::High);
    }
}

#[test]
fn a_manifest_names_no_artifact_outside_of_its_folder() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("skill.tar"), "skill\n").unwrap();
    let absolute = outside.path().join("skill.tar");
    let not_below = "is not a relative path below the manifest's folder";
    for (name, reason) in [
        ("../skill.tar", not_below),
        ("below/../skill.tar", not_below),
        ("./skill.tar", not_below),
        (absolute.to_str().unwrap(), not_below),
        ("", not_below),
        ("  ", not_below),
        ("skill.tar\0", not_below),
        ("missing", "cannot be verified: No such file or directory (os error 2)"),
        ("below", "cannot be verified: it is not a regular file"),
        ("pipe", "cannot be verified: it is not a regular file"),
        ("link", "cannot be verified: it is a link that leads out of the manifest's folder"),
        (
            "far/skill.tar",
            "cannot be verified: it is a link that leads out of the manifest's folder",
        ),
    ] {
        let (folder, path) = with_artifact(DIGESTS[0], json!(name));
        nix::unistd::mkfifo(&folder.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(&absolute, folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("far")).unwrap();
        let verification = verify_file(&path).unwrap();
        let shown = name.replace('\0', "\\u{0}");
        assert_eq!(verification.findings, [format!("Artifact '{shown}' {reason}")]);
        assert_eq!(verification.risk_level, SkillRisk::High);
        // A file that the caller names may be any file, even a symlink.
        if name == "link" {
            let link = folder.path().join("link");
            let guard = SkillProvenanceGuard::new();
            assert!(guard.verify_file(&path, Some(&link)).unwrap().verified);
        }
    }
    let (_folder, path) = with_artifact(DIGESTS[0], json!(["skill.tar"]));
    assert_eq!(verify_file(&path).unwrap().findings, ["Invalid artifact type: list"]);
}

#[test]
fn an_artifact_without_a_digest_is_a_finding_once() {
    let (_folder, path) = with_artifact("", json!("skill.tar"));
    let missing = "Missing digest — unsigned skills are not allowed";
    assert_eq!(verify_file(&path).unwrap().findings, [missing]);
    let lenient = SkillProvenanceGuard::new().require_digest(false);
    let cannot = "Artifact 'skill.tar' cannot be verified: the manifest has no digest";
    assert_eq!(lenient.verify_file(&path, None).unwrap().findings, [cannot]);
}

#[test]
fn what_a_text_has_twice_is_a_finding() {
    let text = json!(documented()).to_string();
    let body = text.strip_prefix('{').unwrap();
    for (start, findings) in [
        ("", [].as_slice()),
        (r#""registry": "clawdhub.com", "#, &["Duplicate field in manifest: registry"]),
        // The first name is "registry", written with an escape. It must still count as a duplicate.
        (
            r#""\u0072egistry": "x", "name": 1, "#,
            &["Duplicate field in manifest: registry", "Duplicate field in manifest: name"],
        ),
        (r#""x": [{"a": {"b": 1, "b": 2}}], "#, &["Duplicate field in manifest: b"]),
        (r#""x": [{"a": 1}, {"a": 1}], "#, &[]),
    ] {
        let manifest = SkillManifest::parse(format!("{{{start}{body}").as_bytes()).unwrap();
        let mut found = SkillProvenanceGuard::new().verify_manifest(&manifest).findings;
        found.sort_unstable_by_key(|finding| !finding.contains("registry"));
        assert_eq!(found, findings, "{start}");
    }

    let many: String =
        (0..2_000).map(|index| format!("\"k{}\":1,", index / 2)).collect::<Vec<_>>().concat();
    let manifest = SkillManifest::parse(format!("{{{many}{body}").as_bytes()).unwrap();
    assert_eq!(SkillProvenanceGuard::new().verify_manifest(&manifest).findings.len(), 20);
}

#[test]
fn a_parsed_manifest_is_what_serde_json_reads() {
    let text =
        r#"{"a": [null, true, -1, 18446744073709551615, 1.5, 1e3, "\u00e4"], "b": {"c": {}}}"#;
    let manifest = SkillManifest::parse(text.as_bytes()).unwrap();
    let expected: Map<String, Value> = serde_json::from_str(text).unwrap();
    assert_eq!(*manifest.fields(), expected);
}
