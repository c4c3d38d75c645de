//! The envelope of a receipt: DSSE 1.0.2, <https://github.com/secure-systems-lab/dsse>. This module never parses a
//! statement.
//!
//! The signature covers the payload's bytes and their type, so no statement needs to be parsed before the signature is
//! checked. The other bytes of an envelope are not signed. They are valid only in the exact form that this program
//! writes, so a change of them is also detected.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::{Deserialize, Serialize};

use super::error::ReceiptError;
use super::keys::{PublicKeys, SigningKey};

/// The media type of in-toto statements.
pub(super) const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

pub(super) const SIGNATURE_BYTES: usize = 64;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: [Signature; 1],
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signature {
    keyid: String,
    sig: String,
}

/// The content of an envelope: the statement, and the id of the key that signed it. Only `open` checks the signature.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) payload: Vec<u8>,
    pub(super) keyid: String,
}

/// Signs a statement, and returns the bytes of an envelope that contains the statement.
pub(super) fn seal(statement: &[u8], key: &SigningKey) -> serde_json::Result<Vec<u8>> {
    let signature = Signature {
        keyid: key.id().to_owned(),
        sig: BASE64_STANDARD.encode(key.sign(&pre_authentication(PAYLOAD_TYPE, statement))),
    };
    let envelope = Envelope {
        payload: BASE64_STANDARD.encode(statement),
        payload_type: PAYLOAD_TYPE.to_owned(),
        signatures: [signature],
    };
    bytes_of(&envelope)
}

/// Returns the content of an envelope. Fails unless one of `keys` has signed exactly the bytes of the statement.
pub(super) fn open(bytes: &[u8], keys: &PublicKeys) -> Result<Opened, ReceiptError> {
    let (envelope, payload) = read(bytes)?;
    let [Signature { keyid, sig }] = envelope.signatures;
    let sig = BASE64_STANDARD.decode(sig).map_err(|_| ReceiptError::SignatureNotBase64)?;
    let sig: [u8; SIGNATURE_BYTES] = sig.try_into().map_err(|_| ReceiptError::SignatureLength)?;
    let key = keys.get(&keyid).ok_or_else(|| ReceiptError::KeyUnknown(keyid.clone()))?;
    if !key.has_signed(&pre_authentication(PAYLOAD_TYPE, &payload), &sig) {
        return Err(ReceiptError::Signature { keyid });
    }
    Ok(Opened { payload, keyid })
}

/// Returns the content of an envelope, without checking the signature.
pub(super) fn content(bytes: &[u8]) -> Result<Opened, ReceiptError> {
    let (envelope, payload) = read(bytes)?;
    let [Signature { keyid, .. }] = envelope.signatures;
    Ok(Opened { payload, keyid })
}

fn read(bytes: &[u8]) -> Result<(Envelope, Vec<u8>), ReceiptError> {
    let envelope: Envelope =
        serde_json::from_slice(bytes).map_err(|error| ReceiptError::Envelope(error.to_string()))?;
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err(ReceiptError::PayloadType);
    }
    let payload =
        BASE64_STANDARD.decode(&envelope.payload).map_err(|_| ReceiptError::PayloadNotBase64)?;
    if bytes_of(&envelope).ok().as_deref() != Some(bytes) {
        return Err(ReceiptError::NotAsWritten);
    }
    Ok((envelope, payload))
}

/// Returns the bytes of an envelope, in the only form that is valid.
fn bytes_of(envelope: &Envelope) -> serde_json::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(envelope)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Returns the bytes that the signature covers: DSSE's pre-authentication encoding.
pub(super) fn pre_authentication(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [head.as_bytes(), payload].concat()
}
