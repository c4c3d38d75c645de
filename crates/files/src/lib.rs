//! Files and folders that others may change or own, read and written with that in mind.
//!
//! It knows nothing of scripts, clients or policies, and decides nothing: it reports what is there.
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
