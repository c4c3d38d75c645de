//! Capabilities: none, and no way to get one (`capabilities(7)`).

use nix::sys::prctl;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use super::{LaunchError, OrFail as _};

/// Takes every capability out of the bounding set, so that no program that is executed later can
/// bring one, if this process may (`CAP_SETPCAP`). It keeps those that it has.
pub(crate) fn empty_bounding_set() -> Result<(), LaunchError> {
    let own = capabilities(None).or_fail(LaunchError::DropCapabilities)?;
    if !own.effective.contains(CapabilitySet::SETPCAP) {
        // An ordinary user, who has none to give up and with no_new_privs gets none.
        return Ok(());
    }
    for capability in CapabilitySet::all().iter() {
        // A kernel that does not know the capability has no place for it in the set.
        if capability_is_in_bounding_set(capability).unwrap_or(false) {
            remove_capability_from_bounding_set(capability)
                .or_fail(LaunchError::DropCapabilities)?;
        }
    }
    Ok(())
}

/// Checks that this process may end the processes of other users.
pub(crate) fn require_kill() -> Result<(), LaunchError> {
    let own = capabilities(None).or_fail(LaunchError::DropCapabilities)?;
    if own.effective.contains(CapabilitySet::KILL) {
        Ok(())
    } else {
        Err(LaunchError::DropIdentity(nix::Error::EPERM.into()))
    }
}

/// Keeps the right to make namespaces and mounts in this process's own user namespace, also when
/// it executes a program, and gives up every other one.
pub(crate) fn keep_only_namespaces() -> Result<(), LaunchError> {
    let kept = CapabilitySet::SYS_ADMIN;
    let own = capabilities(None).or_fail(LaunchError::DropCapabilities)?;
    // Before the bounding set is empty: what is not in it cannot become inheritable.
    set_capabilities(None, CapabilitySets { inheritable: kept, ..own })
        .or_fail(LaunchError::DropCapabilities)?;
    // A program that is no set-user-id program of root has none but these after execve(2).
    configure_capability_in_ambient_set(kept, true).or_fail(LaunchError::DropCapabilities)?;
    empty_bounding_set()?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: kept };
    set_capabilities(None, sets).or_fail(LaunchError::DropCapabilities)?;
    prctl::set_no_new_privs().or_fail(LaunchError::ForbidPrivileges)
}

/// Gives up every capability for good.
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
