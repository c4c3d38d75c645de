//! The AI bill of materials: the model, verification engines and tools that produced a result.
//!
//! [`AiBom::from_names`] creates a bill from names, with the same hash as the Python implementation. In the server,
//! `Session` records the parts that are really used, and writes their bill. Both bills can also be written as
//! `CycloneDX`.

mod cyclonedx;
mod manifest;
#[cfg(feature = "session")]
mod session;
#[cfg(test)]
mod tests;

pub use manifest::{
    AiBom, AiBomError, AiBomGenerator, COMPLIANCE, Component, ComponentType, Components,
};
#[cfg(feature = "session")]
#[doc(hidden)]
pub use session::{InstalledPackages, Package, Session, UnusableFile, destination, engines};

/// The server's name in bills. Its version is the version of this crate.
const SERVER: &str = "qwed-mcp";
