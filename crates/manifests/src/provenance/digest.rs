//! Parses digests in the form that manifests use, `algorithm:hex_digest`, and computes digests of files.

use std::fmt;
use std::io::{self, Read};

use sha2::{Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq as _;
use thiserror::Error;

use super::finding::excerpt;

/// The maximum number of characters that a finding shows of a digest that is not hexadecimal.
const DIGITS_SHOWN: usize = 32;

/// The number of bytes that are read and hashed at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// A hash function that is accepted in digests.
#[derive(Debug)]
struct Algorithm {
    name: &'static str,
    hex_digits: usize,
    hash: fn(&mut dyn Read) -> io::Result<String>,
}

/// The accepted hash functions, from the weakest to the strongest.
static ALGORITHMS: [Algorithm; 3] = [
    Algorithm { name: "sha256", hex_digits: 64, hash: hashed::<Sha256> },
    Algorithm { name: "sha384", hex_digits: 96, hash: hashed::<Sha384> },
    Algorithm { name: "sha512", hex_digits: 128, hash: hashed::<Sha512> },
];

/// A digest in lower-case digits. Its `Display` form is the form in manifests, `algorithm:hex_digest`.
#[derive(Debug, Clone)]
pub(super) struct Digest {
    algorithm: &'static Algorithm,
    hex: String,
}

/// The reason why a text is not a valid digest. Its `Display` form is the text of the finding.
#[derive(Debug, Error)]
pub(super) enum DigestError {
    #[error("Malformed digest format: {0} (expected 'algorithm:hex_digest')")]
    Malformed(String),
    #[error("Unsupported digest algorithm: {0} (accepted: sha256, sha384, sha512)")]
    UnsupportedAlgorithm(String),
    #[error("Invalid digest (not hex): {0}...")]
    NotHex(String),
    #[error("Invalid digest length for {algorithm}: expected {expected} hex chars, got {found}")]
    Length { algorithm: String, expected: usize, found: usize },
}

impl Digest {
    pub(super) fn parse(text: &str) -> Result<Self, DigestError> {
        let Some((name, digits)) = text.split_once(':') else {
            return Err(DigestError::Malformed(excerpt(text)));
        };
        let known = ALGORITHMS.iter().find(|known| name.eq_ignore_ascii_case(known.name));
        let Some(algorithm) = known else {
            return Err(DigestError::UnsupportedAlgorithm(excerpt(name)));
        };
        if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
            let shown: String = digits.chars().take(DIGITS_SHOWN).collect();
            return Err(DigestError::NotHex(excerpt(&shown)));
        }
        let (expected, found) = (algorithm.hex_digits, digits.len());
        if found != expected {
            return Err(DigestError::Length { algorithm: name.to_owned(), expected, found });
        }
        Ok(Self { algorithm, hex: digits.to_ascii_lowercase() })
    }

    /// Computes the digest of `content` with the hash function of this digest.
    pub(super) fn of_same_kind(&self, mut content: impl Read) -> io::Result<Self> {
        Ok(Self { algorithm: self.algorithm, hex: (self.algorithm.hash)(&mut content)? })
    }

    /// Returns whether the digests are equal, with a constant-time comparison.
    pub(super) fn matches(&self, other: &Self) -> bool {
        self.algorithm.name == other.algorithm.name
            && self.hex.as_bytes().ct_eq(other.hex.as_bytes()).into()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name, self.hex)
    }
}

fn hashed<H: sha2::Digest>(content: &mut dyn Read) -> io::Result<String> {
    let mut hash = H::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match content.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => hash.update(chunk.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hex::encode(hash.finalize()))
}
