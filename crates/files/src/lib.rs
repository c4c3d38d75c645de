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

pub mod data_folder;
pub mod folder;
pub mod links;
pub mod strict_modes;
