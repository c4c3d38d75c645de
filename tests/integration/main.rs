//! The real binary, driven over pipes: one module for each part of the contract.

mod architecture;
mod background;
mod command_line;
mod decisions;
mod environment;
mod examples;
mod execution;
mod harness;
mod lifecycle;
mod soak;
mod wire;
