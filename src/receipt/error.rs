//! The reasons why a receipt is not valid. They never contain secrets.

use thiserror::Error;

/// The reason why a receipt is not valid. The holder of the receipt may see the reason, because nothing in it is
/// secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ReceiptError {
    #[error("it is no envelope of a receipt: {0}")]
    Envelope(String),
    #[error("its payloadType is not in-toto's")]
    PayloadType,
    #[error("its payload is not base64")]
    PayloadNotBase64,
    #[error("its signature is not base64")]
    SignatureNotBase64,
    #[error("its signature has not the length of one")]
    SignatureLength,
    #[error("it is not written as receipts are: something beside the payload was changed")]
    NotAsWritten,
    #[error("none of the keys is {0}, which it says has signed it")]
    KeyUnknown(String),
    #[error("the signature of {keyid} does not fit: the payload or the signature was changed")]
    Signature { keyid: String },
    #[error("what is signed is no statement that this program knows: {0}")]
    Statement(String),
    #[error("it is of {time}, when its key was not in use yet")]
    KeyNotYet { time: String },
    #[error("it is of {time}, when its key was not in use any more")]
    KeyNotAnyMore { time: String },
    #[error("it says nothing of {0}")]
    NoSubject(String),
    #[error("{name} is not what it was made of: {found}, and it has {expected}")]
    Subject { name: String, found: String, expected: String },
    #[error("{name} is stored beside it, and that was changed")]
    StoredOutput { name: &'static str },
    #[error("{name} cannot be compared: {reason}")]
    UnreadableOutput { name: &'static str, reason: String },
}
