//! Reads and writes files and folders that other users or processes may change or own.
//!
//! This crate knows nothing about scripts, clients or policies. It never decides anything: it reports the state of
//! files.
//!
//! An internal part of `qwed-mcp`, without a promise of stability.

#![expect(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "an internal crate, whose error types state what can fail"
)]

pub mod data_folder;
pub mod folder;
pub mod links;
pub mod strict_modes;
