//! Reads and writes files and folders that other users or processes may own or change.
//!
//! This crate does not depend on scripts, clients or policies. It reports the state of files, and leaves decisions to
//! its callers.
//!
//! This crate is an internal part of `qwed-mcp`. Its API has no promise of stability.

#![expect(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "an internal crate, whose error types state what can fail"
)]

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

pub mod data_folder;
pub mod folder;
pub mod links;
pub mod strict_modes;

/// Returns whether the metadata belong to the same file. Hard links and symlinks can give a file several paths.
#[must_use]
pub fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}
