//! Validates OAuth 2.0 access tokens of an authorization server. Never issues tokens.
//!
//! This server is a resource server. Its metadata names the trusted authorization server (RFC 9728). This module
//! validates each token as a JSON Web Token (RFC 9068, RFC 8725) with the issuer's published keys (RFC 7517). `keys`
//! loads the keys, `crypto` verifies signatures, and `claims` reads the expiry and the scopes.

mod claims;
mod crypto;
mod keys;

use chrono::{DateTime, TimeDelta, Utc};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Validation, decode, decode_header};
use serde_json::{Map, Value, json};
use thiserror::Error;
use url::Url;

use claims::expiry;
use keys::Keys;

pub(crate) use keys::{KeySource, KeysError, KeysUnavailable};

/// The scopes of this server, from the least to the most privileged.
pub(crate) const SCOPES: [&str; 3] = ["qwed:viewer", "qwed:user", "qwed:admin"];

/// The maximum length of a token, in bytes. A token that lists many groups of its user is about 4 KiB long.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// The tolerated difference between the issuer's clock and this server's clock.
const LEEWAY: TimeDelta = TimeDelta::seconds(30);
/// The accepted values of the `typ` header, in lower case. RFC 9068 requires `at+jwt`, but many issuers use `JWT` or
/// omit the header.
const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The settings for the access tokens that this server accepts.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The issuer, exactly as in the `iss` claim of its tokens.
    pub(crate) issuer: String,
    /// The URL by which clients reach this server. The `aud` claim of a token must contain this URL (RFC 8707).
    pub(crate) audience: Url,
    pub(crate) keys: KeySource,
    /// The claim that contains the user's name.
    pub(crate) user_claim: String,
}

/// The validator of access tokens.
#[derive(Debug)]
pub(crate) struct AccessTokens {
    options: Options,
    keys: Keys,
    validation: Validation,
}

/// The content of a valid token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Access {
    /// The user's name at the issuer.
    pub(crate) user: String,
    pub(crate) scopes: Vec<String>,
    /// The time from which the token is no longer accepted, including the leeway.
    pub(crate) expires: DateTime<Utc>,
}

/// The reason why a token is not accepted. Never contains any part of the token, because the reason is logged.
#[derive(Debug, Error)]
pub(crate) enum NotTaken {
    #[error("it is not a JSON Web Token that this server accepts: {0}")]
    Form(&'static str),
    #[error("its key is not one of the issuer's keys")]
    Key,
    #[error("its signature or claims are invalid: {0}")]
    Claims(&'static str),
    #[error("its claim {0} is missing or not a string")]
    User(String),
    #[error("the issuer's keys are not available")]
    Unavailable(#[from] KeysUnavailable),
}

/// Describes the error without any part of the token.
impl From<jsonwebtoken::errors::Error> for NotTaken {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the crate's list is open")]
    fn from(error: jsonwebtoken::errors::Error) -> Self {
        match error.kind() {
            ErrorKind::InvalidSignature => Self::Claims("the signature"),
            ErrorKind::ExpiredSignature => Self::Claims("it has expired"),
            ErrorKind::ImmatureSignature => Self::Claims("it is not valid yet"),
            ErrorKind::InvalidIssuer => Self::Claims("its issuer differs from --oidc-issuer"),
            ErrorKind::InvalidAudience => Self::Claims("it is for another server"),
            ErrorKind::MissingRequiredClaim(_) => Self::Claims("exp, iss or aud is missing"),
            _ => Self::Form("it is not well-formed, or its algorithm is not supported"),
        }
    }
}

/// The error for a text that is not a valid URL of this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "not an https URL without query and fragment, such as https://mcp.example.org/mcp (http only \
     for this machine)"
)]
pub(crate) struct InvalidAudience;

/// Parses the URL by which clients reach this server.
pub(crate) fn parse_audience(text: &str) -> Result<Url, InvalidAudience> {
    let url = Url::parse(text).map_err(|_| InvalidAudience)?;
    let is_anonymous = url.username().is_empty() && url.password().is_none();
    let is_plain = url.query().is_none() && url.fragment().is_none();
    if is_plain && is_anonymous && keys::is_safe(&url) { Ok(url) } else { Err(InvalidAudience) }
}

impl AccessTokens {
    /// Loads the issuer's keys. If the keys cannot be fetched from a URL now, they are fetched when the first token is
    /// validated.
    ///
    /// # Errors
    ///
    /// [`KeysError`] if a file of keys cannot be read, or contains no key that can verify a token.
    pub(crate) async fn new(options: Options) -> Result<Self, KeysError> {
        crypto::install();
        let keys = Keys::load(options.keys.clone()).await?;
        let mut validation = Validation::new(crypto::ALGORITHMS[0].algorithm);
        validation.leeway = LEEWAY.num_seconds().unsigned_abs();
        validation.validate_nbf = true;
        validation.set_issuer(&[&options.issuer]);
        // Accept the URL with and without the trailing slash, because people omit the slash of a URL without a path.
        let audience = options.audience.as_str();
        validation.set_audience(&[audience, audience.trim_end_matches('/')]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        Ok(Self { options, keys, validation })
    }

    /// Validates a token, and returns its content.
    pub(crate) async fn validate(&self, token: &str) -> Result<Access, NotTaken> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(NotTaken::Form("it is too long"));
        }
        let header = decode_header(token)?;
        // RFC 7515, 4.1.11: a token with an unsupported critical extension must be rejected. This server supports none.
        if header.crit.is_some() {
            return Err(NotTaken::Form("it has critical extensions"));
        }
        let kind = header.typ.as_deref().unwrap_or(TYPES[0]);
        if !TYPES.iter().any(|known| known.eq_ignore_ascii_case(kind)) {
            return Err(NotTaken::Form("its type (typ) must be JWT or at+jwt"));
        }
        // Check the algorithm before the search for the key, so that a token with an unsupported algorithm never causes
        // a fetch.
        if crypto::row(header.alg).is_none() {
            return Err(NotTaken::Form("its algorithm is not supported"));
        }
        let key = self.keys.find(header.kid.as_deref(), header.alg).await?;
        let key = key.ok_or(NotTaken::Key)?;
        let validation = Validation { algorithms: vec![header.alg], ..self.validation.clone() };
        let claims: Map<String, Value> = decode(token, &key, &validation)?.claims;
        // RFC 7519, 4.1.1: the issuer is one string. The library also accepts an array that contains the issuer.
        if claims.get("iss").and_then(Value::as_str) != Some(&self.options.issuer) {
            return Err(NotTaken::Claims("its issuer differs from --oidc-issuer"));
        }
        let user = claims.get(&self.options.user_claim).and_then(Value::as_str);
        let user = user.ok_or_else(|| NotTaken::User(self.options.user_claim.clone()))?;
        let expires = expiry(&claims).and_then(|expiry| expiry.checked_add_signed(LEEWAY));
        let expires = expires.ok_or(NotTaken::Form("its expiry is not a time"))?;
        Ok(Access { user: user.to_owned(), scopes: claims::scopes(&claims), expires })
    }

    /// Returns whether keys are available. Fetches the keys if none are cached.
    pub(crate) async fn is_available(&self) -> bool {
        self.keys.are_there().await
    }

    /// Returns the metadata that clients need to get a token (RFC 9728, 2).
    pub(crate) fn metadata(&self) -> Value {
        json!({
            "resource": self.options.audience.as_str(),
            "authorization_servers": [self.options.issuer],
            "scopes_supported": SCOPES,
            "bearer_methods_supported": ["header"],
            "resource_name": "QWED-MCP",
        })
    }

    /// Returns the URL of the metadata (RFC 9728, 3.1). In this URL, the well-known path precedes the path of the
    /// resource.
    pub(crate) fn metadata_url(&self) -> Url {
        let mut url = self.options.audience.clone();
        let path = format!("{WELL_KNOWN}{}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        url
    }

    /// Returns whether `path` is the path of the metadata. Also accepts the well-known path alone, because some clients
    /// omit the resource's path.
    pub(crate) fn is_metadata(&self, path: &str) -> bool {
        path == WELL_KNOWN || path == self.metadata_url().path()
    }
}
