//! Parses hosts and compares them in their parsed form. It never searches unparsed text for a host.
//!
//! The `url` crate reads a host as a browser does. It maps full-width letters and dot-like characters to ASCII, decodes
//! percent-encoding, and converts other non-ASCII characters to Punycode. So different spellings of one host become
//! equal, and different hosts stay different.

use url::{Host, Url};

/// A host in its canonical spelling: in ASCII and lower case, without a trailing dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostName(String);

impl HostName {
    /// Returns the host of `url`. Returns `None` if the URL has no host, or if the host is not a valid address or
    /// name.
    pub(super) fn of(url: &Url) -> Option<Self> {
        let name = match url.host()? {
            Host::Domain(domain) => domain.trim_end_matches('.').to_ascii_lowercase(),
            address @ (Host::Ipv4(_) | Host::Ipv6(_)) => return Some(Self(address.to_string())),
        };
        name.split('.').all(is_label).then_some(Self(name))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the host is `domain` or a subdomain of it.
    pub(super) fn is_within(&self, domain: &str) -> bool {
        self.0.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    }

    /// Returns whether the name has no dot, such as `com`. Hosts below such a name belong to many different parties.
    pub(super) fn is_single_label(&self) -> bool {
        !self.0.contains(['.', ':'])
    }

    /// Returns whether the host contains Punycode. Punycode is ASCII text that programs show to people as other
    /// letters, so the host may look like a well-known host.
    pub(super) fn is_internationalised(&self) -> bool {
        self.0.split('.').any(|label| label.starts_with("xn--"))
    }
}

fn is_label(label: &str) -> bool {
    // Accept underscores. They are not valid in host names, but many internal networks use them.
    !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// A registry as a manifest or a caller names it: a host, optionally with a port and a path. A scheme before the host
/// is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registry {
    pub(super) host: HostName,
    port: Option<u16>,
    path: String,
}

impl Registry {
    /// Parses the name of a registry. Returns `None` if the host is ambiguous. Another parser could read an ambiguous
    /// text as a blocked registry.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if is_ambiguous(text) || text.contains(char::is_whitespace) {
            return None;
        }
        let location = text.split_once("://").map_or(text, |(_scheme, location)| location);
        if location.contains("://") {
            return None;
        }
        // Parse the host by the strict rules for HTTPS URLs, whichever scheme the text has.
        let url = Url::parse(&format!("https://{location}")).ok()?;
        if has_user_information(&url) {
            return None;
        }
        let path = url.path().trim_end_matches('/').to_owned();
        Some(Self { host: HostName::of(&url)?, port: url.port(), path })
    }

    /// Returns whether this entry of an allowlist covers `registry`. An entry does not cover subdomains or other ports,
    /// because they may belong to another party. For the same reason, an entry with a path does not cover other paths.
    pub(super) fn covers(&self, registry: &Self) -> bool {
        self.host == registry.host
            && self.port == registry.port
            && (self.path.is_empty() || self.path == registry.path)
    }

    /// Returns the host. Returns `None` if the entry has a port or a path, because the host alone would trust more than
    /// the entry states.
    pub(super) fn into_host(self) -> Option<HostName> {
        (self.port.is_none() && self.path.is_empty()).then_some(self.host)
    }
}

/// Returns whether `text` contains characters that URL parsers treat differently. Parsers drop some control characters,
/// and some parsers read a backslash as a slash.
pub(super) fn is_ambiguous(text: &str) -> bool {
    text.contains(|c: char| c.is_control() || c == '\\')
}

/// Returns whether `url` contains a user name or a password before its host.
pub(super) fn has_user_information(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Returns the authority of the URL in `text`: the text between `://` and the path, in its original spelling. `url`
/// must be the URL that was parsed from `text`.
pub(super) fn authority_as_written<'text>(text: &'text str, url: &Url) -> Option<&'text str> {
    text.get(url.scheme().len()..)?.strip_prefix("://")?.split(['/', '?', '#']).next()
}
