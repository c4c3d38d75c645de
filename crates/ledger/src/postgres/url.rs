//! Parses `QWED_MCP_STORE`, which selects a database and the TLS settings of the connection to it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use url::form_urlencoded;

use crate::secret::Secret;

/// The default timeout of one attempt to connect. The URL can set another timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The TCP timeout of a connection. If the database server does not respond within this time, the connection is lost.
const PEER_TIMEOUT: Duration = Duration::from_secs(10);
/// The value of `sslrootcert` that selects the system's root certificates.
const SYSTEM_ROOTS: &str = "system";

/// The address of a PostgreSQL database. Neither `Debug` nor `Display` shows the password.
#[derive(Clone)]
pub struct DatabaseUrl {
    pub(super) config: Config,
    pub(super) security: Security,
}

/// How TLS secures the connection and how the server's certificate is checked. The values are named after libpq's
/// modes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Security {
    /// No TLS (`disable`).
    Plain,
    /// TLS with any certificate of the server (`prefer`, `require`).
    Unchecked,
    /// TLS with a certificate that one of these authorities has signed, for any name (`verify-ca`).
    Authority(Roots),
    /// TLS with a certificate that one of these authorities has signed, for the host name in the URL (`verify-full`).
    Name(Roots),
}

/// The root certificates that are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Roots {
    /// The certificates in the file that `sslrootcert` names.
    File(PathBuf),
    /// The certificates of the system.
    System,
}

/// The reason why a URL does not select a database.
#[derive(Debug, Error)]
pub enum UrlError {
    /// The URL's scheme is not `postgres` or `postgresql`.
    #[error("QWED_MCP_STORE is not a URL that begins with postgres:// or postgresql://")]
    NotPostgres,
    /// A part of the URL is invalid. The source error names the part, but never contains the value of the part.
    #[error("QWED_MCP_STORE cannot be read")]
    Unreadable(#[source] tokio_postgres::Error),
    /// The value of `sslmode` is not a mode of libpq, or it is `allow`, which gives no guarantee.
    #[error(
        "QWED_MCP_STORE has an sslmode other than disable, prefer, require, verify-ca and \
         verify-full"
    )]
    SslMode,
    /// The mode is `verify-ca`, but `sslrootcert` is missing.
    #[error("QWED_MCP_STORE has sslmode=verify-ca, which needs sslrootcert=FILE")]
    NoAuthority,
    /// `sslrootcert=system` is used with a mode that does not check the server's name. A public authority signs
    /// certificates for any server, so only the name identifies the server.
    #[error("QWED_MCP_STORE has sslrootcert=system, which needs sslmode=verify-full")]
    SystemWithoutName,
    /// A required part of the URL is missing. The value names the part.
    #[error("QWED_MCP_STORE has no {0}: postgres://USER:PASSWORD@HOST/DATABASE")]
    Lacks(&'static str),
}

impl DatabaseUrl {
    /// Parses the URL like libpq, including `sslmode` and `sslrootcert`.
    ///
    /// # Errors
    ///
    /// `UrlError` if the URL is invalid or incomplete.
    pub fn parse(text: &Secret) -> Result<Self, UrlError> {
        let text = text.reveal();
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err(UrlError::NotPostgres);
        }
        let (place, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut mode, mut roots) = (None, None);
        let mut rest = form_urlencoded::Serializer::new(String::new());
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "sslmode" => mode = Some(value.into_owned()),
                "sslrootcert" => roots = Some(value.into_owned()),
                _ => drop(rest.append_pair(&key, &value)),
            }
        }
        // Replace `+` by `%20`, because the parser of `tokio_postgres` does not decode `+` as a space.
        let rest = rest.finish().replace('+', "%20");
        let config: Result<Config, _> = format!("{place}?{rest}").parse();
        let mut config = config.map_err(UrlError::Unreadable)?;
        for (name, is_there) in [
            ("host", !config.get_hosts().is_empty() || !config.get_hostaddrs().is_empty()),
            ("user", config.get_user().is_some()),
            ("database", config.get_dbname().is_some()),
        ] {
            if !is_there {
                return Err(UrlError::Lacks(name));
            }
        }
        let roots = roots.map(|roots| match roots.as_str() {
            SYSTEM_ROOTS => Roots::System,
            file => Roots::File(file.into()),
        });
        let (ssl_mode, mut security) = secured(mode.as_deref(), roots)?;
        config.ssl_mode(ssl_mode);
        // As in libpq, a connection through a Unix socket is not encrypted.
        if config.get_hosts().iter().all(is_socket) && config.get_hostaddrs().is_empty() {
            config.ssl_mode(SslMode::Disable);
            security = Security::Plain;
        }
        // Connect only to a server that accepts writes. A standby is read-only, and its data may be outdated.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.keepalives_idle(PEER_TIMEOUT).keepalives_interval(PEER_TIMEOUT / 5);
        config.keepalives_retries(3).tcp_user_timeout(PEER_TIMEOUT);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        Ok(Self { config, security })
    }
}

/// Converts a mode of libpq to the settings that implement it. The default mode is `prefer`, which uses TLS if the
/// server supports it.
fn secured(mode: Option<&str>, roots: Option<Roots>) -> Result<(SslMode, Security), UrlError> {
    let security = match (mode.unwrap_or("prefer"), roots) {
        ("disable", _) => return Ok((SslMode::Disable, Security::Plain)),
        ("prefer" | "require" | "verify-ca", Some(Roots::System)) => {
            return Err(UrlError::SystemWithoutName);
        }
        ("prefer", _) => return Ok((SslMode::Prefer, Security::Unchecked)),
        // As in libpq, `require` with `sslrootcert` means `verify-ca`.
        ("require" | "verify-ca", Some(roots)) => Security::Authority(roots),
        ("require", None) => Security::Unchecked,
        ("verify-ca", None) => return Err(UrlError::NoAuthority),
        ("verify-full", roots) => Security::Name(roots.unwrap_or(Roots::System)),
        _ => return Err(UrlError::SslMode),
    };
    Ok((SslMode::Require, security))
}

#[cfg_attr(not(unix), expect(clippy::match_like_matches_macro, reason = "one arm more on Unix"))]
fn is_socket(host: &Host) -> bool {
    match host {
        #[cfg(unix)]
        Host::Unix(_) => true,
        Host::Tcp(_) => false,
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the database {}", self.config.get_dbname().unwrap_or_default())?;
        for (index, host) in self.config.get_hosts().iter().enumerate() {
            f.write_str(if index == 0 { " on " } else { ", " })?;
            match host {
                Host::Tcp(name) => f.write_str(name)?,
                #[cfg(unix)]
                Host::Unix(folder) => write!(f, "{}", folder.display())?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<DatabaseUrl, UrlError> {
        DatabaseUrl::parse(&text.to_owned().into())
    }

    #[test]
    fn what_a_mode_means() {
        let file = || Roots::File("/etc/ca.pem".into());
        for (query, mode, security) in [
            ("", SslMode::Prefer, Security::Unchecked),
            ("?sslmode=disable", SslMode::Disable, Security::Plain),
            ("?sslmode=require", SslMode::Require, Security::Unchecked),
            (
                "?sslmode=require&sslrootcert=/etc/ca.pem",
                SslMode::Require,
                Security::Authority(file()),
            ),
            (
                "?sslmode=verify-ca&sslrootcert=%2Fetc%2Fca.pem",
                SslMode::Require,
                Security::Authority(file()),
            ),
            (
                "?connect_timeout=1&sslmode=verify-full",
                SslMode::Require,
                Security::Name(Roots::System),
            ),
            (
                "?sslmode=verify-full&sslrootcert=/etc/ca.pem",
                SslMode::Require,
                Security::Name(file()),
            ),
        ] {
            let url = parse(&format!("postgres://ann:s3cret@db.example/jobs{query}")).unwrap();
            assert_eq!((url.config.get_ssl_mode(), &url.security), (mode, &security), "{query}");
        }
    }

    #[test]
    fn what_cannot_be_connected_to_is_said() {
        for (text, start) in [
            ("sqlite:///jobs", "QWED_MCP_STORE is not a URL"),
            ("postgres://ann@db.example/jobs?sslmode=allow", "QWED_MCP_STORE has an sslmode other"),
            ("postgres://ann@db.example/jobs?sslmode=verify-ca", "QWED_MCP_STORE has sslmode=ver"),
            (
                "postgres://ann@db.example/jobs?sslmode=require&sslrootcert=system",
                "QWED_MCP_STORE has sslrootcert=system",
            ),
            ("postgres://ann@db.example/jobs?colour=red", "QWED_MCP_STORE cannot be read"),
            ("postgres://db.example/jobs", "QWED_MCP_STORE has no user"),
            ("postgres://ann@db.example", "QWED_MCP_STORE has no database"),
            ("postgres:///jobs?user=ann", "QWED_MCP_STORE has no host"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(start), "{text}: {error}");
        }
    }

    #[test]
    fn a_socket_is_not_encrypted_and_no_password_is_shown() {
        let url = parse("postgres://ann:s3cret@%2Frun%2Fpg/jobs?sslmode=require").unwrap();
        assert_eq!(
            (url.config.get_ssl_mode(), &url.security),
            (SslMode::Disable, &Security::Plain)
        );
        assert_eq!(format!("{url:?}"), "DatabaseUrl(the database jobs on /run/pg)");
    }

    #[test]
    fn errors_show_no_password() {
        for text in [
            "postgres://ann:s3cret@db.example:x/jobs",
            "postgres://a:s3cret@h/jobs?connect_timeout=s3cret",
        ] {
            let error = parse(text).unwrap_err();
            assert!(!format!("{error:?} {error:#}").contains("s3cret"), "{error:?}");
        }
    }
}
