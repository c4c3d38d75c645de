//! Hosts as they are compared: never as pieces of text.
//!
//! The `url` crate reads what a browser would: it maps full-width letters and other dots to ASCII,
//! undoes percent-encoding and writes the rest as punycode. Two names of the same host are the same
//! text afterwards, and two hosts never are.

use url::{Host, Url};

/// A host in its one spelling: lower case, no trailing dot, ASCII.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostName(String);

impl HostName {
    /// Returns the host of `url`; `None` if it has none, or one that cannot be a registered name.
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

    /// Returns true for `domain` and its sub-domains.
    pub(super) fn is_within(&self, domain: &str) -> bool {
        self.0.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    }

    /// Returns true for a name without a dot, such as `com`: others own the hosts below it.
    pub(super) fn is_single_label(&self) -> bool {
        !self.0.contains(['.', ':'])
    }

    /// Returns true if people see other letters than the host is compared by.
    pub(super) fn is_internationalised(&self) -> bool {
        self.0.split('.').any(|label| label.starts_with("xn--"))
    }
}

fn is_label(label: &str) -> bool {
    // Underscores are no part of host names, and the internal names of many networks have them.
    !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// A registry as a manifest or a caller names it: a host, maybe with a port, a path, and a scheme
/// in front, which does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registry {
    pub(super) host: HostName,
    port: Option<u16>,
    path: String,
}

impl Registry {
    /// Parses a text; `None` if it names no host for certain. Two parsers may not agree on those, and
    /// a registry that is blocked must not get through between them.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if is_ambiguous(text) || text.contains(char::is_whitespace) {
            return None;
        }
        let location = text.split_once("://").map_or(text, |(_scheme, location)| location);
        if location.contains("://") {
            return None;
        }
        // Whatever the scheme is, the host is read by the rules of the web: those are the strict
        // ones.
        let url = Url::parse(&format!("https://{location}")).ok()?;
        if has_user_information(&url) {
            return None;
        }
        let path = url.path().trim_end_matches('/').to_owned();
        Some(Self { host: HostName::of(&url)?, port: url.port(), path })
    }

    /// Returns true if `registry` is this one, for an entry of an allowlist: a sub-domain, another port or,
    /// where the entry has a path, another path may belong to somebody else.
    pub(super) fn covers(&self, registry: &Self) -> bool {
        self.host == registry.host
            && self.port == registry.port
            && (self.path.is_empty() || self.path == registry.path)
    }

    /// Returns the host of an entry that is nothing but a host. An entry with a port or a path would trust
    /// more than it says if it were cut down.
    pub(super) fn into_host(self) -> Option<HostName> {
        (self.port.is_none() && self.path.is_empty()).then_some(self.host)
    }
}

/// Returns true if `text` has characters that URL parsers disagree about: they drop some control
/// characters, and some take a backslash for a slash.
pub(super) fn is_ambiguous(text: &str) -> bool {
    text.contains(|c: char| c.is_control() || c == '\\')
}

/// Returns true if `url` has a name or a password in front of its host.
pub(super) fn has_user_information(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Returns the part of `text` between the scheme of `url`, which was read from it, and the path.
pub(super) fn authority_as_written<'text>(text: &'text str, url: &Url) -> Option<&'text str> {
    text.get(url.scheme().len()..)?.strip_prefix("://")?.split(['/', '?', '#']).next()
}
