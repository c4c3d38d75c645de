//! Signed receipts: the decision about a script or a run of tests, the environment, and the result. A receipt can be
//! stored and verified on another machine, and its script can be run again.
//!
//! A receipt is a `statement` (in-toto, version 1) in an `envelope` (DSSE), signed with an Ed25519 key (`keys`).
//!
//! - `writer` creates receipts and stores them.
//! - `verification` checks receipts. It checks the exact bytes, before it parses any part of a statement.
//! - `answers` stores signed results of scripts in the folder of receipts, for later calls with the same scripts.
//! - `head` signs the head of the audit log in the same way.
//!
//! A receipt proves only that a holder of the key has signed it. Therefore scripts and tests must not be able to read
//! the key. A receipt does not prove that the kernel worked correctly.
//!
//! A receipt has this project's predicate (the typed content of a statement). A run of tests has a second receipt, with
//! in-toto's predicate for test results, which other programs understand.
//!
//! No module outside of this folder imports `ed25519_dalek`.

mod answers;
mod checkpoints;
mod envelope;
mod error;
mod head;
mod keys;
mod outputs;
mod reserved;
mod statement;
#[cfg(test)]
mod tests;
mod verification;
mod writer;

pub(crate) use answers::AnswerFiles;
pub(crate) use checkpoints::{CheckpointVerification, Checkpoints};
pub(crate) use error::ReceiptError;
pub(crate) use head::{SignedHead, verify_head};
pub(crate) use keys::{KEY_FOLDER, KeyStore, PublicKeys, SigningKey};
pub(crate) use outputs::{compare_outputs, outputs_beside, stored_output};
pub(crate) use statement::{Deterministic, Limits, Predicate, Statement};
pub(crate) use verification::{Verified, compare_subject, content_of, verify};
pub(crate) use writer::{
    CALL, Draft, INPUT, Receipts, RoomForTests, SCRIPT, Stored, TestRun, WriteError, ending, run_of,
};

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// The maximum size of a receipt, in bytes. A receipt with several hundred packages takes 10 KiB. A receipt with all
/// files of a run of tests takes a few hundred KiB.
pub(crate) const RECEIPT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Returns the SHA-256 of bytes, in lower-case hexadecimal.
pub(crate) fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Reads a file of up to `bytes_max` bytes that the user has named. The file may be a pipe.
pub(crate) fn read_bounded(file: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_at_most(File::open(file)?, bytes_max)
}

/// Reads an open file of up to `bytes_max` bytes.
pub(crate) fn read_at_most(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}
