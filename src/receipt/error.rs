//! The reasons why a receipt is not valid. The holder of the receipt may see these reasons, so they contain no secrets.

use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ReceiptError {
    #[error("it is not the envelope of a receipt: {0}")]
    Envelope(String),
    #[error("its payloadType is not in-toto's")]
    PayloadType,
    #[error("its payload is not base64")]
    PayloadNotBase64,
    #[error("its signature is not base64")]
    SignatureNotBase64,
    #[error("its signature has the wrong length")]
    SignatureLength,
    #[error("it does not have the form of a receipt: something outside of the payload was changed")]
    NotAsWritten,
    #[error("it names the key {0}, which is not among the given keys")]
    KeyUnknown(String),
    #[error("the signature of {keyid} does not match: the payload or the signature was changed")]
    Signature { keyid: String },
    #[error("the signed payload is not a statement that this program knows: {0}")]
    Statement(String),
    #[error("it was signed at {time}, before its key was in use")]
    KeyNotYet { time: String },
    #[error("it was signed at {time}, after its key was replaced")]
    KeyNotAnyMore { time: String },
    #[error("it has no digest of {0}")]
    NoSubject(String),
    #[error("{name} does not match: its digest is {found}, and the receipt has {expected}")]
    Subject { name: String, found: String, expected: String },
    #[error("the stored {name} was changed")]
    StoredOutput { name: &'static str },
    #[error("{name} cannot be compared: {reason}")]
    UnreadableOutput { name: &'static str, reason: String },
}
