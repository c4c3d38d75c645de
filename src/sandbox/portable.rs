//! The stand-in for `linux` on systems without a kernel sandbox that the server knows.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use super::{GroupLimits, GroupOrder};

/// Tells that this system has no kernel sandbox that the server knows.
pub(crate) const IS_SUPPORTED: bool = false;

/// Returns the Landlock ABI: there is none.
pub(crate) fn supported_abi() -> u8 {
    0
}

/// Returns `None`: there is neither an init nor a launcher.
pub(super) fn process_of_a_run(
    _process: &str,
    _arguments: impl Iterator<Item = OsString>,
) -> Option<ExitCode> {
    None
}

/// The control groups of a server, of which there are none.
#[derive(Debug)]
pub(crate) struct ControlGroups(Infallible);

/// The controls of no group.
#[derive(Debug)]
pub(crate) struct Controls {
    pub(crate) memory: bool,
}

impl std::fmt::Display for Controls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("none")
    }
}

impl ControlGroups {
    pub(crate) fn find() -> io::Result<Self> {
        Err(io::Error::other("this system has no control groups"))
    }

    pub(crate) fn order(&self, _limits: &GroupLimits) -> GroupOrder {
        match self.0 {}
    }

    pub(crate) fn controls(&self) -> Controls {
        match self.0 {}
    }

    pub(crate) fn path(&self) -> &Path {
        match self.0 {}
    }

    pub(crate) fn give_back(&self) {
        match self.0 {}
    }
}

/// One control group, of which there are none.
#[derive(Debug)]
pub(crate) struct ControlGroup(Infallible);

impl ControlGroup {
    pub(crate) fn orphaned(_order: &GroupOrder) -> Option<Self> {
        None
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        match self.0 {}
    }

    pub(crate) fn try_remove(&mut self) -> bool {
        match self.0 {}
    }
}
