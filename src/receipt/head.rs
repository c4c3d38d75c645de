//! The signed head of the audit log: the number and the hash of the last row at the time of the signature. This module
//! never reads the log.
//!
//! A signed head has the same kind of envelope and statement as a receipt, but its own predicate.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::envelope;
use super::error::ReceiptError;
use super::keys::{PublicKeys, SigningKey, to_milliseconds};
use super::statement::{STATEMENT_TYPE, Statement, Subject};
use super::verification::require_in_use;
use crate::ledger::AuditPlace;

/// The type of the predicate of a signed head, with the version of the predicate.
const AUDIT_HEAD_TYPE: &str = "https://qwed.ai/attestation/audit-head/v1";
/// The name of the only subject in the statement of a signed head. The digest of this subject is the hash of the row.
const SUBJECT: &str = "audit-row";

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AuditHead {
    created_on: DateTime<Utc>,
    /// The number of the row in its chain.
    seq: i64,
}

/// A head with a verified signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignedHead {
    pub(crate) place: AuditPlace,
    pub(crate) created_on: DateTime<Utc>,
}

/// Signs a head. Returns the bytes of the envelope, which has only one line.
pub(super) fn sign(place: &AuditPlace, key: &SigningKey) -> serde_json::Result<Vec<u8>> {
    let subject = vec![Subject::new(SUBJECT, place.hash.clone())];
    let head = AuditHead { created_on: to_milliseconds(Utc::now()), seq: place.seq };
    let statement = Statement::new(subject, AUDIT_HEAD_TYPE, head);
    envelope::seal(&serde_json::to_vec(&statement)?, key)
}

/// Verifies a signed head: first its bytes, then its signature, and only then its content.
pub(crate) fn verify_head(bytes: &[u8], keys: &PublicKeys) -> Result<SignedHead, ReceiptError> {
    let envelope::Opened { payload, keyid } = envelope::open(bytes, keys)?;
    let unknown = |reason: String| ReceiptError::Statement(reason);
    let statement: Statement<AuditHead> =
        serde_json::from_slice(&payload).map_err(|error| unknown(error.to_string()))?;
    if statement.kind != STATEMENT_TYPE || statement.predicate_type != AUDIT_HEAD_TYPE {
        return Err(unknown("it is not about an audit log".to_owned()));
    }
    let AuditHead { created_on, seq } = statement.predicate;
    require_in_use(keys, &keyid, created_on)?;
    let hash = statement.digest(SUBJECT).map(str::to_owned);
    let hash = hash.ok_or_else(|| ReceiptError::NoSubject(SUBJECT.to_owned()))?;
    Ok(SignedHead { place: AuditPlace { seq, hash }, created_on })
}
