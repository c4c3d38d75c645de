//! The AI bill of materials: the model, the verification engines and the tools that contributed to a result.
//!
//! [`AiBom::from_names`] creates a bill from names, with the same hash as the Python implementation. A server instead
//! records the components that it uses in a `Session`, and creates the bill from the `Session` when it ends.

#[doc(inline)]
pub use qwed_manifests::aibom::{
    AiBom, AiBomError, AiBomGenerator, COMPLIANCE, Component, ComponentType, Components,
};
pub(crate) use qwed_manifests::aibom::{InstalledPackages, Package, Session, destination, engines};
