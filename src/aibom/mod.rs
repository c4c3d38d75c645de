//! The AI bill of materials: which model, verification engines and tools had a part in a result.
//!
//! [`AiBomGenerator`] makes one from names, as the Python implementation does, with the same hash.
//! `Session` takes note of what a server really used, and writes the bill of that. Either can be
//! told as `CycloneDX` too.
//!
//! This module is a leaf and uses nothing else of the crate.

mod canonical;
mod cyclonedx;
mod manifest;
mod session;
#[cfg(test)]
mod tests;

pub(crate) use canonical::text as canonical_json;
pub use manifest::{
    AiBom, AiBomError, AiBomGenerator, COMPLIANCE, Component, ComponentType, Components,
};
pub(crate) use session::{Inventory, Package, Session, engines};
