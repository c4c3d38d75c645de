//! Creates the client for outbound HTTP requests, which go only to addresses that the admin configures.
//!
//! This module uses no other module of the crate.

use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

/// Returns a client for HTTP and HTTPS. `timeout` applies to each request.
///
/// The client uses the certificate store of the system. `SSL_CERT_FILE` can name a different store. The client follows
/// no redirects and ignores proxies in the environment, so that it reaches only addresses that the admin configured.
/// A response with an error status is a response and not an error.
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
