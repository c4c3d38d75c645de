//! Verifies the manifest of a skill before the skill is loaded, and creates the AI bill of materials of a result.
//!
//! This crate is a part of [`qwed-mcp`](https://docs.rs/qwed-mcp), which exports the modules as `qwed_mcp::provenance`
//! and `qwed_mcp::aibom`.

pub mod aibom;
#[doc(hidden)]
pub mod canonical_json;
#[doc(hidden)]
pub mod hidden;
pub mod provenance;
