//! Replaces the module `linux` on other systems. On macOS, the module `macos` contains the sandbox. On all further
//! systems, the server supports no kernel sandbox. This module never confines anything.

use std::convert::Infallible;
use std::io;

use super::error::OsError;
use super::{GroupLimits, GroupOrder, Tier};

/// False, because the tiers of Linux do not exist on this system.
pub const IS_SUPPORTED: bool = false;

/// True if this system has Seatbelt. Debug builds on Linux have replacements for Seatbelt, for tests.
pub const HAS_SEATBELT: bool =
    cfg!(any(target_os = "macos", all(target_os = "linux", debug_assertions)));

/// Returns 0, because this system has no Landlock.
pub fn supported_abi() -> u8 {
    0
}

/// Returns false, because the server cannot turn off address space randomization on this system.
pub fn can_fix_addresses() -> bool {
    false
}

/// Returns the UID that scripts of this process run as.
pub fn script_user(_tier: Tier) -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// The control groups of a server. This system has no control groups, so no value of this type exists.
#[derive(Debug)]
pub struct ControlGroups(Infallible);

impl ControlGroups {
    pub fn find() -> io::Result<Self> {
        Err(io::Error::other("this system has no control groups"))
    }

    pub fn order(&self, _limits: &GroupLimits) -> GroupOrder {
        match self.0 {}
    }

    pub fn memory_bound(&self) -> Result<String, String> {
        match self.0 {}
    }

    pub fn release(&self) {
        match self.0 {}
    }
}

/// One control group. This system has no control groups, so no value of this type exists.
#[derive(Debug)]
pub struct ControlGroup(Infallible);

impl From<rustix::io::Errno> for OsError {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}

impl ControlGroup {
    pub fn orphaned(_order: &GroupOrder) -> Option<Self> {
        None
    }

    pub fn kill(&self) -> io::Result<()> {
        match self.0 {}
    }

    pub fn try_remove(&mut self) -> bool {
        match self.0 {}
    }
}
