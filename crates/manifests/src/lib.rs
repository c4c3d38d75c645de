//! Handles manifests of the parts that produce a result: verifies a skill's manifest before the skill is loaded, and
//! creates the AI bill of materials.
//!
//! This crate is a part of [`qwed-mcp`](https://docs.rs/qwed-mcp), which exports the modules as `qwed_mcp::provenance`
//! and `qwed_mcp::aibom`.

pub mod aibom;
#[doc(hidden)]
pub mod canonical_json;
#[doc(hidden)]
pub mod hidden;
pub mod provenance;
