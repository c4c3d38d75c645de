//! The AI bill of materials: which model, verification engines and tools had a part in a result.
//!
//! [`AiBom::from_names`] makes one from names, as the Python implementation does, with the same hash.
//! In the server, `Session` takes note of what is really used, and writes the bill of that. Either
//! can be written as `CycloneDX` too.

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

/// The server in bills, whose version is that of this package too.
const SERVER: &str = "qwed-mcp";
