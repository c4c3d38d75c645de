//! Checks the host name by which a request reaches this server, and the origin of the web page that sent the request.
//!
//! An attacker can let the host name of a page resolve to this machine (DNS rebinding). The browser then treats this
//! server as the page's own server. Such requests are recognized, because the Host header then contains the attacker's
//! host name. If the request has an Origin header, the origin in it must be accepted too.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HOST, HeaderMap, HeaderValue, ORIGIN,
    VARY,
};
use thiserror::Error;
use url::{Host, Url};

use super::refusal::Refusal;

/// The methods that a page may use, in the CORS protocol of the Fetch standard.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
/// The headers that a page may send, in the CORS protocol of the Fetch standard.
const HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, accept, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name",
);
/// The response headers that a page may read.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("mcp-session-id, www-authenticate, retry-after");
/// The time in seconds for which a browser may cache the response to a preflight.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The hosts and origins that this server accepts.
#[derive(Debug)]
pub(super) struct Hosts {
    /// The accepted hosts in lower case, with IPv6 addresses in brackets.
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// The error for a text that is not a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a host name or an address, without a port, such as mcp.example.org")]
pub(crate) struct InvalidHost;

/// The error for a text that is not an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a scheme, a host and the port if there is one, such as https://tools.example.org")]
pub(crate) struct InvalidOrigin;

/// Parses a host from the command line.
pub(crate) fn parse_host(text: &str) -> Result<String, InvalidHost> {
    Host::parse(text).map(|host| host.to_string()).map_err(|_| InvalidHost)
}

/// Parses an origin from the command line.
pub(crate) fn parse_origin(text: &str) -> Result<String, InvalidOrigin> {
    let url = Url::parse(text).map_err(|_| InvalidOrigin)?;
    let origin = url.origin();
    let is_origin = origin.is_tuple() && url.path() == "/" && url.query().is_none();
    if is_origin { Ok(origin.ascii_serialization()) } else { Err(InvalidOrigin) }
}

/// Refuses a request to the admin listener that a web page may have sent. Such a request has an Origin header, or its
/// host is neither an IP address, nor `localhost`, nor one of `names`. Scrapers and probes use the IP address of the
/// machine or pod. Accepting IP addresses is safe, because a page that rebinds its host name cannot make the browser
/// send one.
pub(super) fn check_admin_request(headers: &HeaderMap, names: &[String]) -> Result<(), Refusal> {
    if headers.contains_key(ORIGIN) {
        return Err(Refusal::Origin);
    }
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Refusal::Target) };
    let host = host.to_str().ok().and_then(without_port).ok_or(Refusal::Host)?;
    let is_address = matches!(Host::parse(host), Ok(Host::Ipv4(_) | Host::Ipv6(_)));
    let is_known = || names.iter().any(|name| name.eq_ignore_ascii_case(host));
    if is_address || host.eq_ignore_ascii_case("localhost") || is_known() {
        return Ok(());
    }
    Err(Refusal::Host)
}

impl Hosts {
    /// Creates the lists of accepted hosts and origins. The names of this machine, the listening address, and `hosts`
    /// are accepted as hosts.
    pub(super) fn new(address: SocketAddr, hosts: Vec<String>, origins: Vec<String>) -> Self {
        let mut all = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()];
        let address = match address.ip() {
            IpAddr::V4(address) => Host::<&str>::Ipv4(address),
            IpAddr::V6(address) => Host::Ipv6(address),
        };
        all.push(address.to_string());
        all.extend(hosts);
        Self { hosts: all, origins }
    }

    /// Refuses a request if its Host or Origin header is not accepted.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Refusal::Target) };
        if !host.to_str().ok().and_then(without_port).is_some_and(|host| self.has(host)) {
            return Err(Refusal::Host);
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => Ok(()),
            (Some(origin), None) if self.origins.iter().any(|known| known == origin) => Ok(()),
            (Some(_), _) => Err(Refusal::Origin),
        }
    }

    /// Adds the headers that let a page of an accepted origin read the response in its browser. The response to any
    /// other page gets no such headers.
    pub(super) fn allow_page(&self, request: &HeaderMap, response: &mut HeaderMap) {
        if self.origins.is_empty() {
            return;
        }
        response.append(VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = request.get(ORIGIN)
            && self.origins.iter().any(|known| known == origin)
        {
            response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            response.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }

    /// Adds the headers of a response to a preflight. These headers list the methods and headers that a page may send.
    pub(super) fn answer_preflight(response: &mut HeaderMap) {
        response.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        response.insert(ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
        response.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    }

    fn has(&self, host: &str) -> bool {
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }
}

/// Returns the host of a Host header. Ignores the port, because a proxy may listen on another port than this server.
fn without_port(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let end = rest.find(']')? + 2;
            host.split_at(end)
        }
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(name)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn only_own_names_and_listed_origins_pass() {
        let host = |text| parse_host(text).unwrap();
        let origin = |text| parse_origin(text).unwrap();
        let hosts = Hosts::new(
            "10.1.2.3:8000".parse().unwrap(),
            vec![host("mcp.example.org"), host("Büro.example")],
            vec![origin("https://tools.example.org")],
        );
        for (host, origin, expected) in [
            ("localhost", None, Ok(())),
            ("localhost:8000", None, Ok(())),
            ("LOCALHOST:1", None, Ok(())),
            ("127.0.0.1:8000", None, Ok(())),
            ("[::1]:8000", None, Ok(())),
            ("10.1.2.3:8000", None, Ok(())),
            ("mcp.example.org", None, Ok(())),
            ("xn--bro-hoa.example", None, Ok(())),
            ("localhost", Some("https://tools.example.org"), Ok(())),
            ("localhost", Some("https://tools.example.org:444"), Err(Refusal::Origin)),
            ("localhost", Some("http://tools.example.org"), Err(Refusal::Origin)),
            ("localhost", Some("null"), Err(Refusal::Origin)),
            ("localhost", Some("http://localhost:8000"), Err(Refusal::Origin)),
            ("evil.example", None, Err(Refusal::Host)),
            ("localhost.evil.example", None, Err(Refusal::Host)),
            ("localhost:evil.example", None, Err(Refusal::Host)),
            ("127.0.0.1.nip.io", None, Err(Refusal::Host)),
            ("10.1.2.4:8000", None, Err(Refusal::Host)),
            ("", None, Err(Refusal::Host)),
            ("[::1", None, Err(Refusal::Host)),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                headers.insert(ORIGIN, HeaderValue::from_static(origin));
            }
            assert_eq!(hosts.check(&headers), expected, "{host} {origin:?}");
        }
        for (host, is_ok) in [
            ("10.0.0.7:9464", true),
            ("[fd00::7]:9464", true),
            ("localhost", true),
            ("QWED.internal:9464", true),
            ("rebound.example", false),
            ("127.0.0.1.nip.io", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            let names = ["qwed.internal".to_owned()];
            assert_eq!(check_admin_request(&headers, &names).is_ok(), is_ok, "{host}");
            headers.insert(ORIGIN, HeaderValue::from_static("http://10.0.0.7:9464"));
            assert!(check_admin_request(&headers, &names).is_err(), "{host}");
        }
        let mut twice = HeaderMap::new();
        assert_eq!(hosts.check(&twice), Err(Refusal::Target));
        twice.append(HOST, HeaderValue::from_static("localhost"));
        twice.append(HOST, HeaderValue::from_static("localhost"));
        assert_eq!(hosts.check(&twice), Err(Refusal::Target));
    }

    #[test]
    fn what_is_no_host_or_origin_is_not_taken() {
        for text in ["", "http://a", "a:80", "a/b", "a b"] {
            assert!(parse_host(text).is_err(), "{text}");
        }
        for text in ["", "tools.example.org", "https://a/b", "https://a?b", "*", "null", "file:///"]
        {
            assert!(parse_origin(text).is_err(), "{text}");
        }
        assert_eq!(parse_origin("https://A.example:443").unwrap(), "https://a.example");
    }
}
