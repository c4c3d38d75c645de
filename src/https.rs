//! The one way by which this server fetches from, or sends to, an address that the admin names.
//!
//! This module is a leaf and uses nothing else of the crate.

use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

/// Returns a client of HTTP and HTTPS for requests of at most this time.
///
/// It trusts the certificates that the system trusts (`SSL_CERT_FILE` names others), follows no redirect, and asks
/// no proxy of the environment: what the admin has named is what is reached. Any status is a response.
pub(crate) fn agent(timeout: Duration) -> Agent {
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(ring)
        .build();
    let config = Agent::config_builder()
        .timeout_global(Some(timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .tls_config(tls)
        .build();
    Agent::new_with_config(config)
}
