//! The AI bill of materials: which model, verification engines and tools had a part in a result.
//!
//! [`AiBom::from_names`] makes one from names, as the Python implementation does, with the same hash.
//! A server records what it really uses in a `Session`, and writes the bill of that.

#[doc(inline)]
pub use qwed_manifests::aibom::{
    AiBom, AiBomError, AiBomGenerator, COMPLIANCE, Component, ComponentType, Components,
};
pub(crate) use qwed_manifests::aibom::{InstalledPackages, Package, Session, destination, engines};
