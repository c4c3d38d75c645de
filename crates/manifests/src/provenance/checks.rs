//! Implements the five documented checks, in their order. Each check returns all of its findings. The checks never read
//! a file and never use the network.

use serde_json::{Map, Number, Value};
use url::Url;

use super::digest::Digest;
use super::finding::{Finding, excerpt, is_unseen};
use super::host::{self, HostName, Registry};

/// The registries that do not sufficiently vet uploads.
const BLOCKED_REGISTRIES: &[&str] =
    &["agentstore.dev", "clawdhub.com", "llm-tools.net", "moltbot.io", "skillhub.ai"];

/// The domains that are trusted in source URLs by default. The caller may add domains.
const TRUSTED_DOMAINS: &[&str] =
    &["bitbucket.org", "github.com", "gitlab.com", "npmjs.com", "pypi.org", "qwedai.com"];

/// The minimum number of downloads. With fewer downloads, it is unlikely that people have reviewed the skill.
const DOWNLOADS_MIN: i128 = 10;

/// Download counts that are divisible by this number are suspicious. Real counts are rarely so round, but the targets
/// of download bots often are.
const DOWNLOADS_ROUND: i128 = 1000;

/// The text of a finding about characters that programs read but people do not see.
const UNSEEN: &str = "contains invisible or control characters";

/// The text of a finding about a value that an installer may use as a path to other folders.
const PATH: &str = "is a path to other folders";

/// Checks the fields `name` and `version`. Each text must contain a visible character and no hidden character, and must
/// be safe as a folder name. A version must be ASCII, because digits of other writing systems look similar and sort
/// differently.
pub(super) fn required_fields(manifest: &Map<String, Value>) -> Vec<Finding> {
    let fault = |field| {
        let Some(text) = filled_text(manifest, field) else {
            return Some(Finding::medium(format!("Missing required field: {field}")));
        };
        let invalid =
            |reason| Finding::medium(format!("Invalid {field}: {} ({reason})", excerpt(text)));
        if text.contains(is_unseen) {
            Some(invalid(UNSEEN))
        } else if !text.contains(is_drawn) {
            let shown = excerpt(text).escape_default().to_string();
            Some(Finding::medium(format!("Invalid {field}: {shown} (has no visible character)")))
        } else if leads_elsewhere(text) || (field == "version" && text.contains('/')) {
            Some(invalid(PATH))
        } else if field == "version" && !text.is_ascii() {
            Some(invalid("is not ASCII"))
        } else {
            None
        }
    };
    ["name", "version"].into_iter().filter_map(fault).collect()
}

/// Returns whether a text, joined to a folder as a path, may lead out of the folder. A name such as `@org/skill` stays
/// in the folder.
fn leads_elsewhere(text: &str) -> bool {
    text.contains('\\') || text.split('/').any(|part| matches!(part, "" | "." | ".."))
}

/// Returns whether a character is visible on its own. White space, the two joiners, the variation selectors and the
/// empty Braille pattern are not visible. Does not look for hidden characters, because they cause a different finding.
fn is_drawn(character: char) -> bool {
    let is_blank =
        matches!(character, '\u{200c}' | '\u{200d}' | '\u{2800}' | '\u{fe00}'..='\u{fe0f}');
    !is_blank && !character.is_whitespace()
}

/// Returns the trimmed text of a field. Returns `None` if the value is not a string, or if the string is blank.
pub(super) fn filled_text<'m>(manifest: &'m Map<String, Value>, field: &str) -> Option<&'m str> {
    manifest.get(field)?.as_str().map(str::trim).filter(|text| !text.is_empty())
}

/// Checks the registry. With an allowlist, the list must contain the registry. Without an allowlist, the registry must
/// not be on the blocklist.
pub(super) fn registry(
    manifest: &Map<String, Value>,
    allowlist: Option<&[Registry]>,
) -> Vec<Finding> {
    let text = match manifest.get("registry") {
        Some(Value::String(text)) => text.trim().trim_end_matches('.').to_lowercase(),
        other => return vec![wrong_type("registry", other)],
    };
    if text.is_empty() {
        return vec![Finding::medium("Missing registry field in manifest")];
    }
    let untrusted = |reason: &str| {
        let shown = excerpt(&text);
        Finding::high(format!("Skill loaded from untrusted registry: {shown} ({reason})"))
    };
    // Parse the original field and not `text`, which is in lower case, because an allowlist distinguishes upper and
    // lower case in a path.
    let Some(registry) = filled_text(manifest, "registry").and_then(Registry::parse) else {
        return vec![untrusted("not a host name")];
    };
    let unseen = text.contains(is_unseen).then(|| untrusted(UNSEEN));
    if let Some(allowlist) = allowlist {
        let is_allowed = allowlist.iter().any(|entry| entry.covers(&registry));
        let refused = (!is_allowed).then(|| untrusted("not in explicit allowlist"));
        return refused.or(unseen).into_iter().collect();
    }
    let mut findings: Vec<Finding> = BLOCKED_REGISTRIES
        .iter()
        .filter(|blocked| registry.host.is_within(blocked))
        .map(|blocked| untrusted(&format!("blocked: {blocked}")))
        .collect();
    // Reject internationalised names, because a blocklist cannot contain every look-alike of a well-known registry. A
    // caller that needs such a name can use an allowlist.
    if registry.host.is_internationalised() {
        findings.push(untrusted("internationalised host name, possible look-alike"));
    }
    if findings.is_empty() {
        findings.extend(unseen);
    }
    findings
}

/// Checks the source URL. Its domain must be trusted, its scheme must be HTTPS, and its spelling must not disguise the
/// host.
pub(super) fn source_url(manifest: &Map<String, Value>, trusted: &[HostName]) -> Vec<Finding> {
    let raw = match manifest.get("source_url") {
        Some(Value::String(raw)) => raw,
        other => return vec![wrong_type("source_url", other)],
    };
    let text = raw.trim();
    if text.is_empty() {
        return vec![Finding::medium("Missing source_url in manifest")];
    }
    let shown = excerpt(text);
    if host::is_ambiguous(raw) {
        let reason = "contains control characters or backslashes";
        return vec![Finding::medium(format!("Invalid source URL: {shown} ({reason})"))];
    }
    let url = match Url::parse(text) {
        Ok(url) => url,
        // The text has neither a scheme nor a host, so report both as empty.
        Err(url::ParseError::RelativeUrlWithoutBase) => {
            return vec![untrusted_domain(""), insecure_scheme("")];
        }
        Err(_) => return vec![Finding::medium(format!("Invalid source URL: {shown}"))],
    };

    let mut findings = Vec::new();
    // Report white space around the URL, because a program that does not trim it would read a different URL.
    if text != raw {
        findings.push(Finding::medium(format!(
            "Invalid source URL: {shown} (has white space around it)"
        )));
    }
    let host = HostName::of(&url);
    if !host.as_ref().is_some_and(|host| is_trusted(host, trusted)) {
        findings.push(untrusted_domain(url.host_str().unwrap_or_default()));
    }
    if url.scheme() != "https" {
        findings.push(insecure_scheme(url.scheme()));
    }
    findings.extend(host.and_then(|host| disguise(text, &url, &host)).map(Finding::medium));
    // Report hidden characters only if nothing else was found, because the checks of the host report them more
    // precisely.
    if findings.is_empty() && text.contains(is_unseen) {
        findings.push(Finding::medium(format!("Invalid source URL: {shown} ({UNSEEN})")));
    }
    findings
}

fn untrusted_domain(domain: &str) -> Finding {
    let shown = excerpt(domain);
    Finding::medium(format!("Source URL domain '{shown}' is not in trusted list"))
}

fn insecure_scheme(scheme: &str) -> Finding {
    Finding::medium(format!("Source URL uses insecure scheme: {}", excerpt(scheme)))
}

fn is_trusted(host: &HostName, trusted: &[HostName]) -> bool {
    TRUSTED_DOMAINS.iter().any(|domain| host.is_within(domain))
        || trusted.iter().any(|domain| host.is_within(domain.as_str()))
}

/// Checks the spelling of the host in `text`, even if the host is trusted. Returns the text of a finding if the
/// spelling is faulty.
///
/// The spelling must be exactly the parsed host. Then the program that later downloads the skill cannot parse a
/// different host. A person reading the URL sees the real host.
fn disguise(text: &str, url: &Url, host: &HostName) -> Option<String> {
    let written = host::authority_as_written(text, url).unwrap_or_default();
    if written.contains('@') || host::has_user_information(url) {
        return Some("Source URL contains user information in front of its host".to_owned());
    }
    if host.is_internationalised() {
        let host = excerpt(host.as_str());
        return Some(format!(
            "Source URL host '{host}' is internationalised — possible look-alike"
        ));
    }
    if written == host.as_str() {
        return None;
    }
    let shown = excerpt(written);
    // A colon separates the port from the host. A colon within the brackets of an IPv6 address does not.
    if let Some((_, port)) = written.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        return Some(format!("Source URL names a port: {}", excerpt(port)));
    }
    let host = excerpt(host.as_str());
    Some(format!("Source URL host '{shown}' is not written as '{host}' — possible look-alike"))
}

/// Parses the digest. Fails with a finding if the digest is invalid, or is required and missing. Returns `None` for a
/// missing digest that is not required.
pub(super) fn digest(
    manifest: &Map<String, Value>,
    is_required: bool,
) -> Result<Option<Digest>, Finding> {
    let text = match manifest.get("digest") {
        None | Some(Value::Null) => "",
        Some(Value::String(text)) => text.trim(),
        Some(other) => {
            let found = python_type(Some(other));
            return Err(Finding::high(format!("Invalid digest type: {found}")));
        }
    };
    if text.is_empty() {
        let missing = || Finding::high("Missing digest — unsigned skills are not allowed");
        return if is_required { Err(missing()) } else { Ok(None) };
    }
    Digest::parse(text).map(Some).map_err(|error| Finding::high(error.to_string()))
}

/// Checks that the number of downloads is plausible, if the manifest contains one.
pub(super) fn download_count(manifest: &Map<String, Value>) -> Vec<Finding> {
    let number = match manifest.get("download_count") {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Number(number)) => number,
        other => return vec![wrong_type("download_count", other)],
    };
    let Some(count) = whole_count(number) else {
        let text = format!("Invalid download_count (non-integer float): {number}");
        return vec![Finding::medium(text)];
    };
    let mut findings = Vec::new();
    if count < DOWNLOADS_MIN {
        findings.push(Finding::medium(format!(
            "Suspiciously low download count ({count}) — possible newly planted malicious skill"
        )));
    }
    if count > 0 && count % DOWNLOADS_ROUND == 0 {
        findings.push(Finding::medium(format!(
            "Download count ({count}) is suspiciously round — possible bot inflation"
        )));
    }
    findings
}

/// Returns a number as an integer, or `None` if it has a fraction. A number out of range becomes the nearest bound,
/// which is just as implausible as a count.
fn whole_count(number: &Number) -> Option<i128> {
    if let Some(count) = number.as_i128() {
        return Some(count);
    }
    let count = number.as_f64().filter(|count| count.fract() == 0.0)?;
    // This format has no exponent, so the text parses as an integer.
    let digits = format!("{count:.0}");
    let bound = if count < 0.0 { i128::MIN } else { i128::MAX };
    Some(digits.parse().unwrap_or(bound))
}

pub(super) fn wrong_type(field: &str, found: Option<&Value>) -> Finding {
    Finding::medium(format!("Invalid {field} type: {}", python_type(found)))
}

/// Returns the name of the value's type in Python, because findings repeat the texts of the Python implementation. In
/// Python, the value of a missing field is `None`.
fn python_type(value: Option<&Value>) -> &'static str {
    match value {
        None | Some(Value::Null) => "NoneType",
        Some(Value::Bool(_)) => "bool",
        Some(Value::Number(number)) if number.is_f64() => "float",
        Some(Value::Number(_)) => "int",
        Some(Value::String(_)) => "str",
        Some(Value::Array(_)) => "list",
        Some(Value::Object(_)) => "dict",
    }
}
