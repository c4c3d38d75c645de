//! The stand-in for `linux` on systems without a kernel sandbox that the server knows.

use std::convert::Infallible;
use std::io;

use super::{GroupLimits, GroupOrder, Tier};

/// Tells that this system has no kernel sandbox that the server knows.
pub(crate) const IS_SUPPORTED: bool = false;

/// Returns the Landlock ABI: there is none.
pub(crate) fn supported_abi() -> u8 {
    0
}

/// Returns the number of the user that scripts of this process run as.
pub(crate) fn script_user(_tier: Tier) -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// The control groups of a server, of which there are none.
#[derive(Debug)]
pub(crate) struct ControlGroups(Infallible);

impl ControlGroups {
    pub(crate) fn find() -> io::Result<Self> {
        Err(io::Error::other("this system has no control groups"))
    }

    pub(crate) fn order(&self, _limits: &GroupLimits) -> GroupOrder {
        match self.0 {}
    }

    pub(crate) fn memory_bound(&self) -> Result<String, String> {
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
