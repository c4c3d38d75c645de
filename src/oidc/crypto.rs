//! Verifies signatures of tokens with `ring`. This module accepts only the algorithms in a table, and never signs.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA256, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
    VerificationAlgorithm,
};
use signature::Verifier;

/// An algorithm that may sign a token.
pub(super) struct Row {
    pub(super) algorithm: Algorithm,
    pub(super) family: AlgorithmFamily,
    check: Check,
    #[cfg_attr(not(test), expect(dead_code, reason = "for who reads the table, and its test"))]
    why: &'static str,
}

enum Check {
    Rsa(&'static RsaParameters),
    Point(&'static dyn VerificationAlgorithm),
}

/// All accepted algorithms. None of them uses a shared secret, for two reasons. A server that can verify a token with a
/// shared secret can also forge tokens. An attacker could sign tokens with the issuer's public key as the secret (RFC
/// 8725, 2.1).
pub(super) const ALGORITHMS: [Row; 5] = [
    Row {
        algorithm: Algorithm::RS256,
        family: AlgorithmFamily::Rsa,
        check: Check::Rsa(&RSA_PKCS1_2048_8192_SHA256),
        why: "what most identity providers sign with",
    },
    Row {
        algorithm: Algorithm::PS256,
        family: AlgorithmFamily::Rsa,
        check: Check::Rsa(&RSA_PSS_2048_8192_SHA256),
        why: "what FAPI 2.0 asks for",
    },
    Row {
        algorithm: Algorithm::ES256,
        family: AlgorithmFamily::Ec,
        check: Check::Point(&ECDSA_P256_SHA256_FIXED),
        why: "what FAPI 2.0 asks for, and newer providers sign with",
    },
    Row {
        algorithm: Algorithm::ES384,
        family: AlgorithmFamily::Ec,
        check: Check::Point(&ECDSA_P384_SHA384_FIXED),
        why: "where rules ask for P-384",
    },
    Row {
        algorithm: Algorithm::EdDSA,
        family: AlgorithmFamily::Ed,
        check: Check::Point(&ED25519),
        why: "Ed25519, of newer providers",
    },
];

/// Returns the row of [`ALGORITHMS`] for an algorithm. `None` if the algorithm is not accepted.
pub(super) fn row(algorithm: Algorithm) -> Option<&'static Row> {
    ALGORITHMS.iter().find(|row| row.algorithm == algorithm)
}

/// Makes `jsonwebtoken` use the table of accepted algorithms in the whole process.
pub(super) fn install() {
    static PROVIDER: CryptoProvider = CryptoProvider {
        // Refuse to create a signer, because this server never signs tokens.
        signer_factory: |_, _| Err(Error::from(ErrorKind::UnsupportedAlgorithm)),
        verifier_factory,
        key_utils: KeyUtils::new_unimplemented(),
    };
    // An error means that a provider is already installed.
    let _ = PROVIDER.install_default();
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the type of the crate's table")]
fn verifier_factory(
    algorithm: &Algorithm,
    key: &DecodingKey,
) -> Result<Box<dyn JwtVerifier>, Error> {
    let row = row(*algorithm).ok_or_else(|| Error::from(ErrorKind::UnsupportedAlgorithm))?;
    if row.family != key.family() {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(RingVerifier { row, key: key.clone() }))
}

struct RingVerifier {
    row: &'static Row,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signed: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match (&self.row.check, self.key.kind()) {
            (Check::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signed)
            }
            (Check::Point(algorithm), DecodingKeyKind::SecretOrDer(point)) => {
                UnparsedPublicKey::new(*algorithm, point).verify(message, signed)
            }
            (Check::Rsa(_), DecodingKeyKind::SecretOrDer(_))
            | (Check::Point(_), DecodingKeyKind::RsaModulusExponent { .. }) => {
                Err(ring::error::Unspecified)
            }
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.row.algorithm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_algorithm_has_a_secret_that_both_sides_have() {
        for row in &ALGORITHMS {
            assert_ne!(row.family, AlgorithmFamily::Hmac);
            assert!(!row.why.is_empty());
        }
        let secret = DecodingKey::from_secret(b"a public key");
        for algorithm in [Algorithm::HS256, Algorithm::RS256, Algorithm::EdDSA] {
            assert!(verifier_factory(&algorithm, &secret).is_err(), "{algorithm:?}");
        }
    }
}
