//! The AI bill of materials: the model, the verification engines and the tools that produced a result.
//!
//! [`AiBom::from_names`] creates a bill from names, with the same hash as the Python implementation. In the server,
//! `Session` records the components that a session really uses, and writes a bill of them. Each bill can also be
//! written as a `CycloneDX` document.

mod cyclonedx;
mod manifest;
mod session;
#[cfg(test)]
mod tests;

pub use manifest::{
    AiBom, AiBomError, AiBomGenerator, COMPLIANCE, Component, ComponentType, Components,
};
#[doc(hidden)]
pub use session::{InstalledPackages, Package, Session, UnusableFile, destination, engines};

/// The server's name in bills of materials. The version of the server in the bills is the version of this crate.
const SERVER: &str = "qwed-mcp";
