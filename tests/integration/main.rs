//! The real binary, driven over pipes: one module for each part of the contract.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and tables are long"
)]

mod abuse;
mod architecture;
mod background;
mod command_line;
mod corpus;
mod decisions;
mod environment;
mod examples;
mod execution;
mod governance_store;
mod governed;
mod harness;
mod lifecycle;
mod probe;
mod sandbox;
mod soak;
mod step_down;
mod supply_chain;
mod warm;
mod wire;
