//! Drops capabilities and every way to gain one (`capabilities(7)`). This module never adds a capability.

use nix::sys::prctl;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use super::{LaunchError, OrFail as _};

/// Removes every capability from the bounding set, so that no program executed later can gain one. Does nothing if this
/// process lacks `CAP_SETPCAP`, which the removal requires. The process keeps its current capabilities.
pub(crate) fn empty_bounding_set() -> Result<(), LaunchError> {
    let own = capabilities(None).or_fail(LaunchError::DropCapabilities)?;
    if !own.effective.contains(CapabilitySet::SETPCAP) {
        // An ordinary user's process has no capabilities, and cannot gain any because of `no_new_privs`.
        return Ok(());
    }
    for capability in CapabilitySet::all().iter() {
        // Skip a capability that an older kernel does not know, because it cannot be in the bounding set.
        if capability_is_in_bounding_set(capability).unwrap_or(false) {
            remove_capability_from_bounding_set(capability)
                .or_fail(LaunchError::DropCapabilities)?;
        }
    }
    Ok(())
}

/// Checks that this process may kill processes of other users (`CAP_KILL`).
pub(crate) fn require_kill() -> Result<(), LaunchError> {
    let own = capabilities(None).or_fail(LaunchError::DropCapabilities)?;
    if own.effective.contains(CapabilitySet::KILL) {
        Ok(())
    } else {
        Err(LaunchError::DropIdentity(nix::Error::EPERM.into()))
    }
}

/// Gives up every capability except for `CAP_SYS_ADMIN`, the right to create namespaces and mounts in this process's
/// own user namespace. A program that this process executes keeps this capability.
pub(crate) fn keep_only_namespaces() -> Result<(), LaunchError> {
    let kept = CapabilitySet::SYS_ADMIN;
    let own = capabilities(None).or_fail(LaunchError::DropCapabilities)?;
    // Set the inheritable capability before the bounding set is emptied: a capability outside of the bounding set
    // cannot become inheritable.
    set_capabilities(None, CapabilitySets { inheritable: kept, ..own })
        .or_fail(LaunchError::DropCapabilities)?;
    // Add the kept capability to the ambient set, because an ordinary program keeps only ambient capabilities across
    // execve(2).
    configure_capability_in_ambient_set(kept, true).or_fail(LaunchError::DropCapabilities)?;
    empty_bounding_set()?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: kept };
    set_capabilities(None, sets).or_fail(LaunchError::DropCapabilities)?;
    prctl::set_no_new_privs().or_fail(LaunchError::ForbidPrivileges)
}

/// Gives up every capability, irrevocably.
pub(crate) fn drop_all() -> Result<(), LaunchError> {
    empty_bounding_set()?;
    clear_ambient_capability_set().or_fail(LaunchError::DropCapabilities)?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).or_fail(LaunchError::DropCapabilities)?;
    if capabilities(None).or_fail(LaunchError::DropCapabilities)? != none {
        return Err(LaunchError::DropCapabilities(nix::Error::EPERM.into()));
    }
    prctl::set_no_new_privs().or_fail(LaunchError::ForbidPrivileges)
}
