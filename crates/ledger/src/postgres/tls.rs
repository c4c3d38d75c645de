//! TLS to the database, with rustls. Checks as much of the server's certificate as `sslmode` requires.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use thiserror::Error as ThisError;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::url::{Roots, Security};

/// The reason why TLS could not be set up as `sslmode` requires.
#[derive(Debug, ThisError)]
pub enum TlsError {
    #[error("sslrootcert={file} cannot be read")]
    File { file: String, source: pem::Error },
    /// No root certificate is usable. The string is the source of the certificates.
    #[error("{0} has no usable CA certificate")]
    NoRoots(String),
    /// The verifier rejects the root certificates.
    #[error("the CA certificates cannot be used")]
    Verifier(#[source] rustls::client::VerifierBuilderError),
    /// The crypto provider supports none of the TLS versions.
    #[error("TLS cannot be set up")]
    Versions(#[source] Error),
}

pub(super) fn connector(security: &Security) -> Result<MakeRustlsConnect, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match security {
        // A connection in mode `Plain` does not use TLS, so it never needs this verifier.
        Security::Plain | Security::Unchecked => {
            Arc::new(Lenient { provider: Arc::clone(&provider), authorities: None })
        }
        Security::Authority(roots) => {
            let authorities = Some(verifier(roots, &provider)?);
            Arc::new(Lenient { provider: Arc::clone(&provider), authorities })
        }
        Security::Name(roots) => verifier(roots, &provider)?,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Versions)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// Returns a verifier that checks the authority that signed the certificate, and the server's name.
fn verifier(
    roots: &Roots,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
    let mut store = RootCertStore::empty();
    let place = match roots {
        Roots::File(file) => {
            for certificate in certificates(file)? {
                // Skip an unusable certificate. If no certificate is usable, the function fails below.
                let _ = store.add(certificate);
            }
            file.display().to_string()
        }
        Roots::System => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            "the system".to_owned()
        }
    };
    if store.is_empty() {
        return Err(TlsError::NoRoots(place));
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider))
        .build()
        .map_err(TlsError::Verifier)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |source| TlsError::File { file: file.display().to_string(), source };
    let all = CertificateDer::pem_file_iter(file).map_err(unreadable)?;
    all.collect::<Result<_, _>>().map_err(unreadable)
}

/// A verifier that checks less of a certificate than rustls does. It always checks that the server has the private key.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    /// Verifies that one of the trusted authorities has signed the certificate. The name in the certificate is not
    /// checked. If `None`, any certificate is accepted: the connection is safe from passive eavesdropping, but the
    /// server is not authenticated.
    authorities: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authorities) = &self.authorities else {
            return Ok(ServerCertVerified::assertion());
        };
        let verified = authorities.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // The verifier checks the name last. So an error about the name means that all other checks succeeded.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
