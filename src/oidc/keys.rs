//! Loads the public keys of an issuer (RFC 7517) from a file or a URL, and caches them. Reloads the keys when they are
//! old, or when a token names an unknown key.

use std::io::{self, Read as _};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use url::{Host, Url};

use super::crypto;
use crate::https;
use crate::logging::Causes;

/// The age from which cached keys are reloaded. The age is low, so that tokens with a revoked key are soon rejected.
const FRESH: Duration = Duration::from_secs(10 * 60);
/// The maximum age of cached keys that are used while the issuer is unreachable.
const USABLE: Duration = Duration::from_secs(60 * 60);
/// The minimum time between two loads. Without this pause, a client that sends tokens with invented key ids could make
/// this server overload the issuer.
const PAUSE: Duration = Duration::from_secs(10);
/// The timeout of one fetch from the issuer.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum time that a token with an unknown key waits for the issuer.
const WAIT_MAX: Duration = Duration::from_secs(5);
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
const KEYS_MAX: usize = 100;

/// The location of the issuer's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeySource {
    File(PathBuf),
    Url(Url),
}

/// The reason why no keys of the issuer could be loaded.
#[derive(Debug, Error)]
pub(crate) enum KeysError {
    #[error("{0} could not be read")]
    Read(PathBuf, #[source] io::Error),
    #[error("{0} could not be fetched")]
    Fetch(Url, #[source] Box<ureq::Error>),
    #[error("the issuer's keys are not a JSON Web Key Set")]
    Parse(#[source] serde_json::Error),
    #[error("the issuer's key set has no key that verifies tokens (kty RSA, EC or OKP)")]
    NoKey,
    #[error("the issuer's keys have more than {DOCUMENT_BYTES_MAX} bytes")]
    TooLong,
}

/// The error if this server has loaded no keys in the last hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the issuer's keys could not be fetched")]
pub(crate) struct KeysUnavailable;

/// A URL of keys that is refused, because an attacker on the network could replace the keys in transit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "keys are fetched over https only (http from this machine), because others could change them \
     in transit"
)]
pub(crate) struct UnsafeSource;

impl FromStr for KeySource {
    type Err = UnsafeSource;

    fn from_str(text: &str) -> Result<Self, UnsafeSource> {
        match Url::parse(text) {
            Ok(url) if is_safe(&url) => Ok(Self::Url(url)),
            Ok(url) if url.has_host() => Err(UnsafeSource),
            Ok(_) | Err(_) => Ok(Self::File(text.into())),
        }
    }
}

/// Returns whether the content of a URL is safe from changes in transit: HTTPS, or HTTP from this machine.
pub(super) fn is_safe(url: &Url) -> bool {
    let is_here = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    match url.scheme() {
        "https" => url.has_host(),
        "http" => is_here,
        _ => false,
    }
}

/// The cached keys. All clones share one cache.
#[derive(Debug, Clone)]
pub(super) struct Keys(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    source: KeySource,
    loaded: RwLock<Option<Arc<Loaded>>>,
    /// The time of the last attempt to load keys. The lock is held during a load.
    looked: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Loaded {
    keys: Vec<PublishedKey>,
    at: Instant,
}

#[derive(Debug)]
struct PublishedKey {
    id: Option<String>,
    /// The only algorithm for which the key may be used. `None` if the issuer does not restrict the key.
    algorithm: Option<Algorithm>,
    decoding: DecodingKey,
}

impl Keys {
    /// Loads the keys. If the keys cannot be fetched from a URL, validating a later token causes the next attempt.
    pub(super) async fn load(source: KeySource) -> Result<Self, KeysError> {
        let (loaded, looked) = (RwLock::default(), Mutex::default());
        let keys = Self(Arc::new(Shared { source, loaded, looked }));
        let looked = keys.0.fetch_keys(&mut *keys.0.looked.lock().await).await;
        match (looked, &keys.0.source) {
            (Err(error), KeySource::File(_)) => Err(error),
            (Err(error), KeySource::Url(_)) => {
                tracing::error!(error = %Causes(&error), "access tokens are refused until keys are available");
                Ok(keys)
            }
            (Ok(()), _) => Ok(keys),
        }
    }

    /// Returns the key for a token's key id and algorithm. `None` if the issuer has no such key.
    ///
    /// A cached key is returned at once. If the cached keys are old, they are reloaded in the background, so an issuer
    /// that hangs never delays a token with a known key.
    pub(super) async fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Option<DecodingKey>, KeysUnavailable> {
        let known = self.0.loaded(USABLE).and_then(|loaded| loaded.find(id, algorithm));
        if let Some(key) = known {
            if self.0.loaded(FRESH).is_none() {
                let shared = Arc::clone(&self.0);
                tokio::spawn(async move { shared.refresh().await });
            }
            return Ok(Some(key));
        }
        // Load in a separate task, so that the load continues if the wait times out.
        let shared = Arc::clone(&self.0);
        let reading = tokio::spawn(async move { shared.fetch_again().await });
        let _ = timeout(WAIT_MAX, reading).await;
        let loaded = self.0.loaded(USABLE).ok_or(KeysUnavailable)?;
        Ok(loaded.find(id, algorithm))
    }

    /// Returns whether keys are available. Fetches the keys if none are cached.
    pub(super) async fn are_there(&self) -> bool {
        if self.0.loaded(USABLE).is_none() {
            self.0.fetch_again().await;
        }
        self.0.loaded(USABLE).is_some()
    }
}

impl Shared {
    fn loaded(&self, age_max: Duration) -> Option<Arc<Loaded>> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        loaded.as_ref().filter(|loaded| loaded.at.elapsed() < age_max).map(Arc::clone)
    }

    /// Reloads the keys, unless a load is in progress or has just ended.
    async fn refresh(&self) {
        let Ok(mut looked) = self.looked.try_lock() else { return };
        self.fetch_unless_recent(&mut looked).await;
    }

    /// Waits for a load in progress, then reloads the keys, unless a load has just ended.
    async fn fetch_again(&self) {
        let mut looked = self.looked.lock().await;
        self.fetch_unless_recent(&mut looked).await;
    }

    async fn fetch_unless_recent(&self, looked: &mut Option<Instant>) {
        if looked.is_some_and(|looked| looked.elapsed() < PAUSE) {
            return;
        }
        if let Err(error) = self.fetch_keys(looked).await {
            tracing::error!(error = %Causes(&error), "the issuer's keys were not updated");
        }
    }

    async fn fetch_keys(&self, looked: &mut Option<Instant>) -> Result<(), KeysError> {
        let source = self.source.clone();
        let read = spawn_blocking(move || source.read()).await;
        *looked = Some(Instant::now());
        let text = read.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
        let loaded = Loaded { keys: parse(&text)?, at: Instant::now() };
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(loaded));
        Ok(())
    }
}

impl Loaded {
    fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
        let row = crypto::row(algorithm)?;
        let is_for = |key: &&PublishedKey| {
            key.decoding.family() == row.family && key.algorithm.is_none_or(|own| own == algorithm)
        };
        let mut fitting = self.keys.iter().filter(is_for);
        let found = match id {
            Some(id) => fitting.find(|key| key.id.as_deref() == Some(id)),
            // A token may omit the key id if exactly one key fits the token's algorithm.
            None => fitting.next().filter(|_| fitting.next().is_none()),
        };
        found.map(|key| key.decoding.clone())
    }
}

impl KeySource {
    /// Reads the document with the keys from its file or URL.
    fn read(&self) -> Result<Vec<u8>, KeysError> {
        match self {
            Self::File(path) => {
                let read = |error| KeysError::Read(path.clone(), error);
                let file = std::fs::File::open(path).map_err(read)?;
                let mut text = Vec::new();
                file.take(to_u64(DOCUMENT_BYTES_MAX + 1)).read_to_end(&mut text).map_err(read)?;
                if text.len() > DOCUMENT_BYTES_MAX {
                    return Err(KeysError::TooLong);
                }
                Ok(text)
            }
            Self::Url(url) => {
                fetch(url).map_err(|error| KeysError::Fetch(url.clone(), Box::new(error)))
            }
        }
    }
}

/// Fetches a document. Never follows a redirect and never uses a proxy, so it contacts only the host in `url`.
fn fetch(url: &Url) -> Result<Vec<u8>, ureq::Error> {
    let mut response = https::agent(FETCH_TIMEOUT).get(url.as_str()).call()?;
    if response.status() != ureq::http::StatusCode::OK {
        return Err(ureq::Error::StatusCode(response.status().as_u16()));
    }
    response.body_mut().with_config().limit(to_u64(DOCUMENT_BYTES_MAX)).read_to_vec()
}

fn to_u64(bytes: usize) -> u64 {
    bytes.try_into().unwrap_or(u64::MAX)
}

/// Parses the keys that can verify tokens. Skips keys that this server does not understand (RFC 7517, 5).
fn parse(text: &[u8]) -> Result<Vec<PublishedKey>, KeysError> {
    #[derive(Deserialize)]
    struct Document {
        keys: Vec<Value>,
    }
    let document: Document = serde_json::from_slice(text).map_err(KeysError::Parse)?;
    let keys = document.keys.into_iter().take(KEYS_MAX);
    let keys: Vec<PublishedKey> = keys
        .filter_map(|key| serde_json::from_value::<Jwk>(key).ok())
        .filter_map(|key| verifying(&key))
        .collect();
    if keys.is_empty() { Err(KeysError::NoKey) } else { Ok(keys) }
}

/// Returns the key that `jwk` describes. `None` if the key must not verify signatures, or has no accepted algorithm.
fn verifying(jwk: &Jwk) -> Option<PublishedKey> {
    let common = &jwk.common;
    let is_signing =
        common.public_key_use.as_ref().is_none_or(|for_what| *for_what == PublicKeyUse::Signature);
    let verifies = common
        .key_operations
        .as_ref()
        .is_none_or(|operations| operations.contains(&KeyOperations::Verify));
    let algorithm = match common.key_algorithm {
        None => None,
        Some(named) => Some(named.to_string().parse().ok()?),
    };
    let decoding = DecodingKey::from_jwk(jwk).ok()?;
    let is_known = crypto::ALGORITHMS.iter().any(|row| {
        row.family == decoding.family()
            && algorithm.is_none_or(|algorithm| row.algorithm == algorithm)
    });
    (is_signing && verifies && is_known).then(|| PublishedKey {
        id: common.key_id.clone(),
        algorithm,
        decoding,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_source_is_a_file_or_a_safe_url() {
        let parsed = |text: &str| text.parse::<KeySource>();
        let url = |text: &str| Ok(KeySource::Url(text.parse().unwrap()));
        for text in [
            "https://id.example.org/keys",
            "http://127.0.0.1:80/k",
            "http://[::1]/k",
            "http://localhost/k",
        ] {
            assert_eq!(parsed(text), url(text), "{text}");
        }
        for text in [
            "http://id.example.org/keys",
            "http://127.0.0.1.nip.io/",
            "ftp://id.example.org/k",
            "http://localhost.evil.example/k",
        ] {
            assert_eq!(parsed(text), Err(UnsafeSource), "{text}");
        }
        for text in ["keys.json", "/etc/keys.json"] {
            assert_eq!(parsed(text), Ok(KeySource::File(text.into())), "{text}");
        }
    }

    #[test]
    fn only_keys_that_verify_tokens_are_taken() {
        let ed = json!({ "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" });
        let with = |more: Value| {
            let mut key = ed.clone();
            for (name, value) in more.as_object().unwrap() {
                key[name] = value.clone();
            }
            key
        };
        let count = |keys: Vec<Value>| {
            parse(json!({ "keys": keys }).to_string().as_bytes()).map_or(0, |keys| keys.len())
        };
        assert_eq!(
            count(vec![
                ed.clone(),
                with(json!({ "use": "sig", "key_ops": ["verify"], "alg": "EdDSA" }))
            ]),
            2
        );
        for bad in [
            json!({ "kty": "oct", "k": "c2VjcmV0" }),
            with(json!({ "use": "enc" })),
            with(json!({ "key_ops": ["sign"] })),
            with(json!({ "alg": "HS256" })),
            with(json!({ "alg": "RS256" })),
            with(json!({ "alg": "none" })),
            json!({ "kty": "new" }),
            json!("text"),
        ] {
            assert_eq!(count(vec![bad.clone()]), 0, "{bad}");
            assert_eq!(count(vec![bad, ed.clone()]), 1);
        }
        for text in ["", "{}", "[]", "{\"keys\":{}}"] {
            assert!(matches!(parse(text.as_bytes()), Err(KeysError::Parse(_))), "{text}");
        }
    }

    #[tokio::test]
    async fn a_known_key_is_found_while_the_issuer_hangs() {
        // This issuer accepts connections and never replies.
        let issuer = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/keys", issuer.local_addr().unwrap());
        let key = PublishedKey {
            id: Some("a".to_owned()),
            algorithm: None,
            decoding: DecodingKey::from_ed_der(&[1; 32]),
        };
        let at = Instant::now().checked_sub(FRESH + Duration::from_secs(1)).unwrap();
        let keys = Keys(Arc::new(Shared {
            source: url.parse().unwrap(),
            loaded: RwLock::new(Some(Arc::new(Loaded { keys: vec![key], at }))),
            looked: Mutex::default(),
        }));
        // Another request is fetching the keys and holds the lock. The search for a cached key must not wait for the
        // lock.
        let fetching = keys.0.looked.lock().await;
        let found = keys.find(Some("a"), Algorithm::EdDSA).await.unwrap();
        assert!(found.is_some());
        drop(fetching);
        // A cached old key is returned at once, and the keys are fetched in the background.
        let found = keys.find(Some("a"), Algorithm::EdDSA).await.unwrap();
        assert!(found.is_some());
        let accepted = spawn_blocking(move || issuer.accept().is_ok());
        assert!(accepted.await.unwrap());
    }

    #[test]
    fn a_token_that_names_no_key_has_the_only_one() {
        let key = |id: Option<&str>| PublishedKey {
            id: id.map(str::to_owned),
            algorithm: None,
            decoding: DecodingKey::from_ed_der(&[1; 32]),
        };
        let loaded = |keys| Loaded { keys, at: Instant::now() };
        let (one, two) =
            (loaded(vec![key(Some("a"))]), loaded(vec![key(Some("a")), key(Some("b"))]));
        assert!(one.find(None, Algorithm::EdDSA).is_some());
        assert!(one.find(Some("a"), Algorithm::EdDSA).is_some());
        assert!(one.find(Some("b"), Algorithm::EdDSA).is_none());
        assert!(one.find(None, Algorithm::ES256).is_none());
        assert!(two.find(None, Algorithm::EdDSA).is_none());
        assert!(two.find(Some("b"), Algorithm::EdDSA).is_some());
    }
}
