//! The outbound HTTP client, for the addresses that the admin configures.
//!
//! This module is a leaf and uses nothing else of the crate.

use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

/// Returns a client for HTTP and HTTPS, with this timeout for each request.
///
/// It uses the certificate store of the system (`SSL_CERT_FILE` names another). It follows no redirect and ignores
/// proxies in the environment, so that it reaches only addresses that the admin configured. Any HTTP status is a
/// response and not an error.
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
