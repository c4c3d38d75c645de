//! Verifies receipts. This module never writes a receipt.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::error::ReceiptError;
use super::keys::{KeyState, PublicKeys, time_text};
use super::statement::{CONTEXT_TYPE, PREDICATE_TYPE, STATEMENT_TYPE, TEST_RESULT_TYPE};
use super::{Predicate, Statement, envelope, sha256};

/// The content of a receipt. [`verify`] returns this only for a valid receipt. [`content_of`] does not check whether
/// the receipt is valid.
#[derive(Debug)]
pub(crate) struct Verified {
    pub(crate) statement: Statement<Value>,
    pub(crate) keyid: String,
}

impl Verified {
    /// Returns this project's predicate. `None` if the receipt has another predicate.
    pub(crate) fn predicate(&self) -> Result<Option<Predicate<'static>>, ReceiptError> {
        predicate(&self.statement)
    }
}

/// Verifies a receipt: first its bytes, then its signature, and only then its content.
pub(crate) fn verify(bytes: &[u8], keys: &PublicKeys) -> Result<Verified, ReceiptError> {
    let envelope::Opened { payload, keyid } = envelope::open(bytes, keys)?;
    let statement = parse(&payload)?;
    // Only this project's predicate contains the time at which the receipt was created. The other predicates have no
    // time to check.
    if let Some(predicate) = predicate(&statement)? {
        require_in_use(keys, &keyid, predicate.created_on)?;
    }
    Ok(Verified { statement, keyid })
}

/// Returns the content of a receipt and the id of its key, without any verification.
pub(crate) fn content_of(bytes: &[u8]) -> Result<Verified, ReceiptError> {
    let envelope::Opened { payload, keyid } = envelope::content(bytes)?;
    Ok(Verified { statement: parse(&payload)?, keyid })
}

/// Compares content with its digest in a receipt. `name` is the name of the subject.
pub(crate) fn compare_subject(
    statement: &Statement<Value>,
    name: &str,
    content: &[u8],
) -> Result<(), ReceiptError> {
    let expected =
        statement.digest(name).ok_or_else(|| ReceiptError::NoSubject(name.to_owned()))?;
    let found = sha256(content);
    if found == expected {
        return Ok(());
    }
    let (name, expected) = (name.to_owned(), expected.to_owned());
    Err(ReceiptError::Subject { name, found, expected })
}

fn parse(payload: &[u8]) -> Result<Statement<Value>, ReceiptError> {
    let unknown = |reason: String| ReceiptError::Statement(reason);
    let statement: Statement<Value> =
        serde_json::from_slice(payload).map_err(|error| unknown(error.to_string()))?;
    if statement.kind != STATEMENT_TYPE {
        return Err(unknown(format!("its _type is not {STATEMENT_TYPE}")));
    }
    if ![PREDICATE_TYPE, CONTEXT_TYPE, TEST_RESULT_TYPE].contains(&&*statement.predicate_type) {
        return Err(unknown(
            "its predicateType has another version, or is not this program's".to_owned(),
        ));
    }
    Ok(statement)
}

fn predicate(statement: &Statement<Value>) -> Result<Option<Predicate<'static>>, ReceiptError> {
    if statement.predicate_type != PREDICATE_TYPE {
        return Ok(None);
    }
    let predicate = Predicate::deserialize_owned(&statement.predicate);
    predicate.map(Some).map_err(|error| ReceiptError::Statement(error.to_string()))
}

pub(super) fn require_in_use(
    keys: &PublicKeys,
    keyid: &str,
    time: DateTime<Utc>,
) -> Result<(), ReceiptError> {
    let state = keys.get(keyid).map_or(KeyState::InUse, |key| key.state_at(time));
    let time = time_text(time);
    match state {
        KeyState::InUse => Ok(()),
        KeyState::NotYet => Err(ReceiptError::KeyNotYet { time }),
        KeyState::NotAnyMore => Err(ReceiptError::KeyNotAnyMore { time }),
    }
}

impl Predicate<'static> {
    fn deserialize_owned(value: &Value) -> serde_json::Result<Self> {
        serde::Deserialize::deserialize(value)
    }
}
