//! Manifests of what takes part in a result: checks of a skill's manifest before the skill is loaded,
//! and the AI bill of materials.
//!
//! A part of [`qwed-mcp`](https://docs.rs/qwed-mcp), which has the modules as `qwed_mcp::provenance`
//! and `qwed_mcp::aibom`. Each has a feature of its own; both are on by default.

#[cfg(feature = "aibom")]
pub mod aibom;
#[doc(hidden)]
pub mod canonical_json;
#[doc(hidden)]
pub mod hidden;
#[cfg(feature = "provenance")]
pub mod provenance;
